//! Which files do the given paths mean?
//!
//! ```text
//! events.ndjson.gz   a file: its extension must be known
//! logs/              a directory: every known file below it; names that start with '.' or '_' are skipped
//! logs/2026-*/*.csv  a glob: what it matches, files and directories as above
//! ```
//!
//! Within one argument files are sorted by path; a file that several arguments reach is read once, so that overlapping
//! patterns never double rows.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Code, Error, Result};
use crate::input::source::{Codec, Format, Source, io_error};

/// The extensions of [`Format::of`], for messages.
pub(super) const EXTENSIONS: &str = ".ndjson .jsonl .json .csv .parquet .arrow, each also .gz .zst";

/// The files that `paths` mean, in reading order.
///
/// Errors: `input_not_found` for an argument that matches nothing, `invalid_argument` for a file whose extension is not
/// known or that is no regular file, `unsupported_location` for a URL of another store.
pub(super) fn expand(paths: &[String]) -> Result<Vec<Source>> {
    let mut found = Found::default();
    for path in paths {
        let before = found.seen.len() + found.repeated;
        argument(path, &mut found)?;
        if found.seen.len() + found.repeated == before {
            return Err(Error::new(Code::InputNotFound, "no input file matches")
                .with("path", path)
                .help(format!("known extensions: {EXTENSIONS}")));
        }
    }
    if found.sources.is_empty() {
        return Err(Error::new(Code::InputNotFound, "no input was given"));
    }
    Ok(found.sources)
}

#[derive(Default)]
struct Found {
    sources: Vec<Source>,
    seen: HashSet<PathBuf>,
    repeated: usize,
}

fn argument(text: &str, found: &mut Found) -> Result<()> {
    let text = match text.split_once("://") {
        None => text,
        Some(("file", rest)) => rest,
        Some((scheme, _)) => {
            return Err(Error::new(Code::UnsupportedLocation, "input is read from local files only")
                .with("path", text)
                .with("scheme", scheme));
        }
    };
    let path = Path::new(text);
    // A name that exists is meant literally, also where it holds glob characters.
    if path.exists() {
        return if path.is_dir() { directory(path, found) } else { file(path, found) };
    }
    if !text.contains(['*', '?', '[']) {
        return Ok(());
    }
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let matches = glob::glob_with(text, options).map_err(|e| {
        Error::new(Code::InvalidArgument, "not a valid glob pattern").with("path", text).with("reason", &e)
    })?;
    for entry in matches {
        let entry = entry.map_err(|e| {
            let path = e.path().display().to_string();
            io_error(e.into(), &path)
        })?;
        if entry.is_dir() { directory(&entry, found)? } else { file(&entry, found)? }
    }
    Ok(())
}

fn directory(root: &Path, found: &mut Found) -> Result<()> {
    let mut visited = HashSet::new();
    let mut files = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let shown = directory.display().to_string();
        // A link that points back up must not loop.
        if !visited.insert(fs::canonicalize(&directory).map_err(|e| io_error(e, &shown))?) {
            continue;
        }
        for entry in fs::read_dir(&directory).map_err(|e| io_error(e, &shown))? {
            let path = entry.map_err(|e| io_error(e, &shown))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_'])) {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if recognise(&path).is_some() {
                files.push(path);
            }
        }
    }
    files.sort();
    files.iter().try_for_each(|path| file(path, found))
}

fn file(path: &Path, found: &mut Found) -> Result<()> {
    let shown = path.display().to_string();
    let Some((format, codec)) = recognise(path) else {
        return Err(Error::new(Code::InvalidArgument, "the extension does not name an input format")
            .with("path", &shown)
            .help(format!("known extensions: {EXTENSIONS}")));
    };
    let metadata = fs::metadata(path).map_err(|e| io_error(e, &shown))?;
    if !metadata.is_file() {
        return Err(Error::new(Code::InvalidArgument, "input is read twice and must be a regular file")
            .with("path", &shown)
            .help("write the stream to a file first"));
    }
    let canonical = fs::canonicalize(path).map_err(|e| io_error(e, &shown))?;
    if found.seen.insert(canonical) {
        found.sources.push(Source::new(path.to_path_buf(), format, codec, metadata.len()));
    } else {
        found.repeated += 1;
    }
    Ok(())
}

/// Format and outer compression by the name's extensions, in any letter case.
fn recognise(path: &Path) -> Option<(Format, Codec)> {
    // Also names that are not UTF-8: leaving a file out would lose its rows.
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let (stem, last) = name.rsplit_once('.')?;
    let Some(codec) = Codec::of(last) else {
        return Some((Format::of(last)?, Codec::Plain));
    };
    Some((Format::of(stem.rsplit_once('.')?.1)?, codec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}\n").unwrap();
        }
        root
    }

    fn names(root: &tempfile::TempDir, arguments: &[&str]) -> Result<Vec<String>> {
        let arguments: Vec<String> =
            arguments.iter().map(|a| root.path().join(a).to_str().unwrap().to_owned()).collect();
        let sources = expand(&arguments)?;
        Ok(sources.iter().map(|s| s.shown()[root.path().to_str().unwrap().len() + 1..].to_owned()).collect())
    }

    #[test]
    fn directories_are_walked_in_order_without_hidden_and_foreign_files() {
        let root = tree(&["d/b/2.jsonl", "d/a.NDJSON.gz", "d/_SUCCESS", "d/_tmp/x.csv", "d/.h.csv", "d/README.md"]);
        assert_eq!(names(&root, &["d"]).unwrap(), ["d/a.NDJSON.gz", "d/b/2.jsonl"]);
    }

    #[test]
    fn overlapping_arguments_read_a_file_once() {
        let root = tree(&["d/1.csv", "d/2.csv"]);
        assert_eq!(names(&root, &["d/2.csv", "d/*.csv", "d", "d/**/*.csv"]).unwrap(), ["d/2.csv", "d/1.csv"]);
    }

    #[test]
    fn a_literal_name_wins_over_its_reading_as_a_glob() {
        let root = tree(&["a[1].csv", "a1.csv"]);
        assert_eq!(names(&root, &["a[1].csv"]).unwrap(), ["a[1].csv"]);
    }

    #[test]
    fn refusals_name_the_path() {
        let root = tree(&["notes.txt", "x.gz", "empty/README.md"]);
        for (argument, code) in [
            ("notes.txt", Code::InvalidArgument),
            ("x.gz", Code::InvalidArgument),
            ("*.txt", Code::InvalidArgument),
            ("none.csv", Code::InputNotFound),
            ("none*.csv", Code::InputNotFound),
            ("empty", Code::InputNotFound),
            ("a[.csv", Code::InvalidArgument),
        ] {
            let error = names(&root, &[argument]).unwrap_err();
            assert_eq!(error.code(), code, "{argument}");
            assert!(error.to_string().contains(argument.trim_start_matches('*')), "{error}");
        }
        assert_eq!(expand(&["s3://b/x.csv".into()]).unwrap_err().code(), Code::UnsupportedLocation);
        assert_eq!(expand(&[]).unwrap_err().code(), Code::InputNotFound);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_points_up_does_not_loop() {
        let root = tree(&["d/a/1.csv"]);
        std::os::unix::fs::symlink(root.path().join("d"), root.path().join("d/a/up")).unwrap();
        assert_eq!(names(&root, &["d"]).unwrap(), ["d/a/1.csv"]);
    }
}
