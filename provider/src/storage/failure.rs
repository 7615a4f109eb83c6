//! What did a store refuse, in terms the caller can act on?

use std::error::Error as StdError;
use std::fmt;
use std::io;

use super::paths::redact;
use crate::error::{Code, Error, causes, code_of};

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
    fn secrets_are_in_no_rendering() {
        let inner = generic("GET https://user:hunter2@host/bucket/key?sig=hunter2&x=1 failed");
        let err = error("s3://id:hunter2@bucket/a?token=hunter2", inner);
        for text in [err.to_string(), format!("{err:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
            assert!(text.contains("https://host/bucket/key"), "{text}");
        }
    }
}
