//! What did a store refuse, in terms the caller can act on?

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use super::paths::redact;
use crate::error::{Code, Error, causes, code_of};

/// An error of ours for a failed access to `location`, whatever layer reported it (a store, Parquet, DataFusion).
///
/// Its code comes from the causes below `err` (see [`code_of`]). User names, passwords and query strings of URLs are
/// removed from every text that is kept, so that neither Display nor Debug shows a secret.
// @spec C3
pub fn error(location: &str, err: impl StdError + Send + Sync + 'static) -> Error {
    if let Some(error) = in_the_way(location, &err) {
        return error.source(Cause(redact(&format!("{err:?}"))));
    }
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
    let error = Error::new(code, what)
        .with("location", redact(location))
        .with("cause", redact(&cause))
        .source(Cause(redact(&format!("{err:?}"))));
    match help(code) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// What to do about a store's answer.
fn help(code: Code) -> Option<&'static str> {
    match code {
        Code::PermissionDenied => Some("grant access to the location, or choose another --warehouse"),
        Code::StorageFull => Some("make room and repeat: what a failed export had written was removed"),
        Code::FileNotFound => Some(
            "check that the location is right and that files can be made there; repeat if a table was just dropped",
        ),
        _ => None,
    }
}

/// A file where the path of a local location needs a directory.
fn in_the_way(location: &str, err: &(dyn StdError + 'static)) -> Option<Error> {
    let is_file = |e: &io::Error| e.kind() == io::ErrorKind::NotADirectory;
    if !causes(err).any(|e| e.downcast_ref::<io::Error>().is_some_and(is_file)) {
        return None;
    }
    let path = location.strip_prefix("file://").unwrap_or(location);
    let file = Path::new(path).ancestors().find(|path| path.is_file())?;
    Some(
        Error::new(Code::StorageFailed, "a file stands where a directory is needed")
            .with("location", redact(location))
            .with("file", file.display())
            .help("name another directory, or move the file away"),
    )
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
    fn a_file_in_the_way_is_named() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a b");
        std::fs::write(&file, "x").unwrap();
        let err = error(&format!("file://{}/main/t", file.display()), generic(io::Error::from_raw_os_error(20)));
        assert_eq!(err.code(), Code::StorageFailed);
        assert!(err.help_text().is_some());
        assert!(err.context().contains(&("file", file.display().to_string())), "{err}");
    }

    #[test]
    fn what_a_user_can_mend_has_a_help_line() {
        for errno in [2, 13, 28, 30] {
            let err = error("file:///w/main/t", generic(io::Error::from_raw_os_error(errno)));
            assert!(err.help_text().is_some(), "{err}");
        }
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
