//! What did a store refuse, in terms the caller can act on?

use std::error::Error as StdError;
use std::fmt;
use std::io;

use super::paths::redact;
use crate::error::{Code, Error};

/// An error of ours for a failed access to `location`, whatever layer reported it (a store, Parquet, DataFusion).
///
/// Its code comes from the causes below `err` (see [`code_of`]). User names, passwords and query strings of URLs are
/// removed from every text that is kept, so that neither Display nor Debug shows a secret.
// @spec C3
pub fn error(location: &str, err: impl StdError + Send + Sync + 'static) -> Error {
    let code = code_of(&err);
    let what = match code {
        Code::FileNotFound => "no such file or object",
        Code::PermissionDenied => "access was denied",
        Code::StorageFull => "there is no space left",
        Code::UnsupportedLocation => "the store cannot hold this name",
        Code::NotSupported => "the store cannot do this",
        Code::AlreadyExists => "the file or object exists already",
        Code::InvalidConfig => "the store's configuration is not valid",
        _ => "the store answered with an error",
    };
    // The operating system's own words say it best: what wraps them repeats the location.
    let cause = causes(&err).filter_map(|e| e.downcast_ref::<io::Error>()).last();
    let cause = cause.map_or_else(|| err.to_string(), ToString::to_string);
    Error::new(code, what)
        .with("location", redact(location))
        .with("cause", redact(&cause))
        .source(Cause(redact(&format!("{err:?}"))))
}

/// The code that the causes of `err` amount to; `storage_failed` where nothing more exact is known.
pub fn code_of(err: &(dyn StdError + 'static)) -> Code {
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
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::PermissionDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::StorageFull,
        io::ErrorKind::NotFound => Code::FileNotFound,
        io::ErrorKind::InvalidFilename => Code::UnsupportedLocation,
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

/// A cause whose text is safe to show.
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Cause {}

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

    #[test]
    fn secrets_are_in_no_rendering() {
        let inner = generic("GET https://user:hunter2@host/bucket/key?sig=hunter2&x=1 failed");
        let err = error("s3://id:hunter2@bucket/a?token=hunter2", inner);
        for text in [err.to_string(), format!("{err:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("https://host/bucket/key"), "{text}");
        }
    }
}
