//! Which names can a catalog of directories hold, and which files are a table's metadata?
//!
//! ```text
//! Räder 2026  ↔  Räder 2026          v12.metadata.json            ours, or Hadoop's
//! a#1         ↔  a%231               v12.gz.metadata.json         Hadoop's, compressed
//! .hidden     ↔  %2Ehidden           00012-<uuid>.metadata.json   another catalog's
//! a/b            refused
//! ```

use percent_encoding::percent_decode_str;

use crate::error::{Code, Error, Result};

/// The schema that is always there.
pub(super) const DEFAULT_NAMESPACE: &str = "main";

/// The schema whose tables say what the catalog holds.
const DESCRIBES_ITSELF: &str = "information_schema";

/// The directory of a table or namespace: its name, with the characters escaped that URLs, globs or file systems give a
/// meaning. Different names have different directories, and no directory is hidden.
///
/// # Errors
/// `invalid_name`: empty, `.`, `..`, a slash, backslash or control character, too long for a file system, or a name that
/// the table format uses inside a table's directory.
pub(super) fn directory_of(name: &str) -> Result<String> {
    let refuse =
        |why: &str| Error::new(Code::InvalidName, format!("{why} cannot be stored")).with("name", name.escape_debug());
    if name.is_empty() {
        return Err(refuse("an empty name"));
    }
    if name == "." || name == ".." {
        return Err(refuse("a name that means another directory"));
    }
    if name.contains(['/', '\\']) {
        return Err(refuse("a name with a slash"));
    }
    if name.contains(char::is_control) {
        return Err(refuse("a name with a control character"));
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return Err(refuse("a name that tables use for their own directories"));
    }
    let dir = escape(name);
    if dir.len() > MAX_DIRECTORY {
        return Err(refuse("a name this long").help(format!("at most {MAX_DIRECTORY} bytes")));
    }
    Ok(dir)
}

/// The name whose directory this is; `None` for directories that hold nothing of a catalog's.
pub(super) fn name_of(directory: &str) -> Option<String> {
    let name = percent_decode_str(directory).decode_utf8().ok()?;
    // Another tool may have made a directory that no name leads to: what cannot be addressed is not listed.
    (directory_of(&name).ok()? == directory).then(|| name.into_owned())
}

/// Refuses a namespace in which SQL would find no table: the engine answers for `information_schema` itself, and unquoted
/// names match in any case.
///
/// # Errors
/// `invalid_name`.
pub(crate) fn check_not_reserved(namespace: &[impl AsRef<str>]) -> Result<()> {
    match namespace.first() {
        Some(name) if name.as_ref().eq_ignore_ascii_case(DESCRIBES_ITSELF) => {
            Err(Error::new(Code::InvalidName, "a schema of this name is reserved for the description of the catalog")
                .with("name", name.as_ref())
                .help("tables in it could not be queried: choose another schema"))
        }
        _ => Ok(()),
    }
}

/// What the name of a metadata file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MetadataName {
    /// N of `vN.metadata.json` or of `N-uuid.metadata.json`.
    pub(super) version: u64,
    pub(super) form: Form,
}

/// Who writes names of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// `vN.metadata.json`: catalogs of directories, ours among them.
    Plain,
    /// `vN.gz.metadata.json`, `vN.metadata.json.gz`: the same, by a writer that compresses. A second name for the same
    /// version, so that exclusive creation of the plain name excludes nobody: such tables are only read.
    Compressed,
    /// `NNNNN-uuid.metadata.json`: a catalog that keeps the newest name elsewhere.
    Foreign,
}

impl MetadataName {
    /// Reads a file's name; `None` if it is no metadata file's.
    pub(super) fn parse(file: &str) -> Option<MetadataName> {
        let (stem, compressed) = match file.strip_suffix(".metadata.json") {
            Some(stem) => match stem.strip_suffix(".gz") {
                Some(stem) => (stem, true),
                None => (stem, false),
            },
            None => (file.strip_suffix(".metadata.json.gz")?, true),
        };
        if let Some(digits) = stem.strip_prefix('v') {
            let form = if compressed { Form::Compressed } else { Form::Plain };
            return Some(MetadataName { version: number(digits)?, form });
        }
        let (digits, uuid) = stem.split_once('-')?;
        uuid::Uuid::try_parse(uuid).ok()?;
        let version = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
        Some(MetadataName { version, form: Form::Foreign })
    }
}

/// The name of our version `n`.
pub(super) fn metadata_file(version: u64) -> String {
    format!("v{version}.metadata.json")
}

/// The names that another writer could have used for the same version.
pub(super) fn compressed_files(version: u64) -> [String; 2] {
    [format!("v{version}.gz.metadata.json"), format!("v{version}.metadata.json.gz")]
}

/// Whether a file's name claims to be metadata, also where [`MetadataName`] cannot read it.
pub(super) fn claims_metadata(file: &str) -> bool {
    file.ends_with(".metadata.json") || file.ends_with(".metadata.json.gz")
}

/// A version hint: a decimal number, with white space around it where others wrote it.
pub(super) fn parse_hint(text: &[u8]) -> Option<u64> {
    number(std::str::from_utf8(text).ok()?.trim())
}

/// A positive decimal number in its one spelling: `v007` is not the file that version 7 is looked up as.
fn number(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain)
}

/// Directories inside a table: a namespace or table of this name would be mixed up with a table's content.
const RESERVED: [&str; 2] = ["metadata", "data"];

/// A file system's limit for one name.
const MAX_DIRECTORY: usize = 255;

/// `%` because it introduces an escape; `# ?` end the path of a URL, `* ? [ ]` are globs to engines that open the files;
/// `: " < > |` are no file names elsewhere. Letters of any language and spaces stay as they are.
const ESCAPED: [char; 11] = ['%', '#', '?', '*', '[', ']', ':', '"', '<', '>', '|'];

fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        if ESCAPED.contains(&c) || (at == 0 && c == '.') {
            out.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_directories() {
        let check = |name: &str, dir: &str| {
            assert_eq!(directory_of(name).unwrap(), dir);
            assert_eq!(name_of(dir).unwrap(), name);
        };
        check("messages", "messages");
        check("Räder 2026", "Räder 2026");
        check("🦀", "🦀");
        check(" a ", " a ");
        check("a#1", "a%231");
        check("a%2Fb", "a%252Fb");
        check("*?[x]", "%2A%3F%5Bx%5D");
        check(".hidden", "%2Ehidden");
        check("...", "%2E..");
        check("a.b", "a.b");
        check("metadata2", "metadata2");
        check("-rf", "-rf");
    }

    #[test]
    fn names_that_no_directory_can_have() {
        let long = "x".repeat(256);
        let escaped = "#".repeat(86);
        let bad = [
            "", ".", "..", "a/b", "/", "a\\b", "a\0b", "a\nb", "\u{7f}", "\u{85}", "metadata", "Data", &long, &escaped,
        ];
        for name in bad {
            assert_eq!(directory_of(name).unwrap_err().code(), Code::InvalidName, "{name:?}");
        }
        for dir in ["a%2Fb", "a#1", "%41", ".namespace", "metadata", "%FF", "%2E"] {
            assert_eq!(name_of(dir), None, "{dir}");
        }
    }

    #[test]
    fn names_that_no_namespace_can_have() {
        for namespace in [&["information_schema"][..], &["Information_Schema"], &["INFORMATION_SCHEMA", "logs"]] {
            assert_eq!(check_not_reserved(namespace).unwrap_err().code(), Code::InvalidName, "{namespace:?}");
        }
        for namespace in [&["main"][..], &["information_schema2"], &["logs", "information_schema"]] {
            assert!(check_not_reserved(namespace).is_ok(), "{namespace:?}");
        }
    }

    #[test]
    fn metadata_names() {
        let check = |file: &str, version, form| {
            assert_eq!(MetadataName::parse(file), Some(MetadataName { version, form }), "{file}");
            assert!(claims_metadata(file));
        };
        check("v1.metadata.json", 1, Form::Plain);
        check("v10.metadata.json", 10, Form::Plain);
        check("v2.gz.metadata.json", 2, Form::Compressed);
        check("v2.metadata.json.gz", 2, Form::Compressed);
        check("00003-4d5a9b0e-53e3-4f0c-bb6a-1d8b8a4c9f10.metadata.json", 3, Form::Foreign);
        check("00000-4d5a9b0e-53e3-4f0c-bb6a-1d8b8a4c9f10.gz.metadata.json", 0, Form::Foreign);
        let none = [
            "v0.metadata.json",
            "v01.metadata.json",
            "v-1.metadata.json",
            "v+1.metadata.json",
            "v.metadata.json",
            "v1.metadata.json.tmp",
            "v1.json",
            "version-hint.text",
            "1.metadata.json",
            "00003-x.metadata.json",
            "v99999999999999999999.metadata.json",
            "snap-1-1-4d5a9b0e-53e3-4f0c-bb6a-1d8b8a4c9f10.avro",
        ];
        for file in none {
            assert_eq!(MetadataName::parse(file), None, "{file}");
        }
        for version in [1, 2, 99, u64::MAX] {
            check(&metadata_file(version), version, Form::Plain);
            compressed_files(version).iter().for_each(|file| check(file, version, Form::Compressed));
        }
    }

    #[test]
    fn hints() {
        let check = |text: &str, version| assert_eq!(parse_hint(text.as_bytes()), version, "{text:?}");
        check("12", Some(12));
        check("12\n", Some(12));
        check(" 12 \r\n", Some(12));
        for bad in ["", "0", "-1", "+1", "1.0", "v1", "012", "1 2", "00001-abc", "99999999999999999999"] {
            check(bad, None);
        }
        assert_eq!(parse_hint(b"\xff1"), None);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "[^/\\\\]{1,20}") {
            match directory_of(&name) {
                Ok(dir) => {
                    prop_assert!(object_store::path::Path::parse(&dir).is_ok() && !dir.starts_with('.'));
                    let back = name_of(&dir);
                    prop_assert_eq!(back.as_deref(), Some(name.as_str()));
                }
                Err(error) => prop_assert_eq!(error.code(), Code::InvalidName),
            }
        }
    }
}
