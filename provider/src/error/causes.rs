//! What do the causes of an error amount to?
//!
//! The one table of what operating systems and stores answer, in terms the caller can act on.

use std::error::Error as StdError;
use std::io;

use super::Code;

/// The code that the causes of `err` amount to; `storage_failed` where nothing more exact is known.
pub(crate) fn code_of(err: &(dyn StdError + 'static)) -> Code {
    let mut found = Code::StorageFailed;
    for cause in causes(err) {
        let code = if let Some(e) = cause.downcast_ref::<io::Error>() {
            of_io(e.kind())
        } else if let Some(e) = cause.downcast_ref::<object_store::Error>() {
            of_store(e)
        } else {
            continue;
        };
        // The innermost exact statement wins: outer layers only wrap it.
        if code != Code::StorageFailed {
            found = code;
        }
    }
    found
}

fn of_io(kind: io::ErrorKind) -> Code {
    use io::ErrorKind as K;
    match kind {
        K::PermissionDenied | K::ReadOnlyFilesystem => Code::PermissionDenied,
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Code::StorageFull,
        K::NotFound => Code::FileNotFound,
        K::InvalidFilename => Code::UnsupportedLocation,
        _ => Code::StorageFailed,
    }
}

fn of_store(err: &object_store::Error) -> Code {
    use object_store::Error as E;
    match err {
        E::NotFound { .. } => Code::FileNotFound,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Code::PermissionDenied,
        E::InvalidPath { .. } => Code::UnsupportedLocation,
        E::NotSupported { .. } | E::NotImplemented { .. } => Code::NotSupported,
        E::AlreadyExists { .. } => Code::AlreadyExists,
        E::UnknownConfigurationKey { .. } => Code::InvalidConfig,
        _ => Code::StorageFailed,
    }
}

/// `err` and everything below it. An `io::Error` made from another error hides that one from `source()`.
pub(crate) fn causes<'a>(err: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(err), |&current| below(current))
}

fn below<'a>(err: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match err.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
        None => err.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> object_store::Error {
        object_store::Error::Generic { store: "test", source: source.into() }
    }

    #[test]
    fn system_errors_are_found_below_generic_ones() {
        let errno = |n| generic(io::Error::from_raw_os_error(n));
        assert_eq!(code_of(&errno(13)), Code::PermissionDenied, "EACCES");
        assert_eq!(code_of(&errno(30)), Code::PermissionDenied, "EROFS");
        assert_eq!(code_of(&errno(28)), Code::StorageFull, "ENOSPC");
        assert_eq!(code_of(&errno(122)), Code::StorageFull, "EDQUOT");
        assert_eq!(code_of(&errno(27)), Code::StorageFull, "EFBIG");
        assert_eq!(code_of(&errno(5)), Code::StorageFailed, "EIO");
        assert_eq!(code_of(&generic("what")), Code::StorageFailed);
    }

    #[test]
    fn an_error_inside_an_io_error_is_found() {
        let store = object_store::Error::NotFound { path: "a".into(), source: "gone".into() };
        assert_eq!(code_of(&generic(io::Error::other(store))), Code::FileNotFound);
        let parquet = parquet::errors::ParquetError::External(Box::new(io::Error::from_raw_os_error(28)));
        assert_eq!(code_of(&parquet), Code::StorageFull);
    }
}
