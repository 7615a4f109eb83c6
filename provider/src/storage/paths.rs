//! What does a location say, as text?
//!
//! ```text
//! join("file:///w/main/t", "data")              file:///w/main/t/data
//! partition_dir("city", "São/Paulo")            city=S%C3%A3o%2FPaulo
//! is_below("file:///w/main/t", "file:/w/main/t/data/f.parquet")   true
//! redact("s3://id:secret@bucket/k?sig=…")       s3://bucket/k
//! ```

use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Code, Error, Result};

/// A location below another: one `/` between them, whatever `location` ends with.
pub fn join(location: &str, name: &str) -> String {
    // The slashes of `file://` are not separators: it is the root directory.
    let keep = location.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = location.split_at(keep);
    format!("{scheme}{}/{}", rest.trim_end_matches('/'), name.trim_start_matches('/'))
}

/// The directory name of a partition value: `name=value`, each encoded as Java's `URLEncoder` does (UTF-8; letters,
/// digits and `.-*_` stay, a space becomes `+`), so that any value is one segment of a path.
///
/// A name longer than a file system can hold is cut. Two values may then share a directory, which is no harm: names of
/// directories are for people, and only a manifest says which partition a file belongs to.
// @spec W10 V4
pub fn partition_dir(name: &str, value: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, JAVA_URL).to_string().replace("%20", "+");
    let mut dir = format!("{}={}", encode(name), encode(value));
    if dir.len() > MAX_SEGMENT {
        // All of it is ASCII. An escape has three bytes and is not cut apart.
        let cut = (MAX_SEGMENT - 2..=MAX_SEGMENT).find(|&at| {
            let tail = dir.get(at.saturating_sub(2)..at).unwrap_or_default();
            !tail.contains('%')
        });
        dir.truncate(cut.unwrap_or(MAX_SEGMENT));
    }
    dir
}

/// Whether `location` names something inside `root` (and not `root` itself). Locations that climb (`..`) are inside
/// nothing. Spellings of the same scheme are equal: `/a`, `file:/a`, `file:///a`; `s3a://`, `s3://`.
pub fn is_below(root: &str, location: &str) -> bool {
    let (root, location) = (canonical(root), canonical(location));
    match location.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/')) {
        Some(inside) => !inside.is_empty() && !inside.split('/').any(|part| matches!(part, "." | "..")),
        None => false,
    }
}

/// Whether two locations are spellings of the same place.
pub fn is_same(a: &str, b: &str) -> bool {
    canonical(a) == canonical(b)
}

/// Whether two locations lead to the same directory, also through links. Looks at the file system for local ones.
pub fn is_same_directory(a: &str, b: &str) -> bool {
    let real = |location: &str| match parse(location) {
        Parsed::Local { path, .. } => Path::new(path).canonicalize().ok(),
        Parsed::Url { .. } => None,
    };
    is_same(a, b) || real(a).is_some_and(|a| Some(a) == real(b))
}

/// `text` without the user names, passwords and query strings of the URLs in it.
///
/// A file's name may hold `?`, so `file:` and `memory:` keep theirs; the container of `abfss://container@account` is no
/// secret and stays too.
// @spec C3
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at);
        let scheme_at = before.rfind(|c: char| !is_scheme_char(c)).map_or(0, |i| i + char_len(before, i));
        let scheme = before.get(scheme_at..).unwrap_or_default().to_ascii_lowercase();
        let after = after.get(3..).unwrap_or_default();
        let end = after.find(ends_url).unwrap_or(after.len());
        let (url, tail) = after.split_at(end);
        out.push_str(before);
        out.push_str("://");
        out.push_str(&without_secrets(&scheme, url));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// A location as scheme with authority, and path: what finds a store, and what the store is asked for.
pub(crate) struct Split {
    /// `file://`, `memory://name`, `s3://bucket`, without a trailing slash and without a password.
    pub(crate) base: String,
    /// The path with single slashes (local), or as it was written.
    pub(crate) path: String,
}

/// Takes a location apart. A local path becomes absolute.
pub(crate) fn split(location: &str) -> Result<Split> {
    let unusable = |what: &str| Error::new(Code::UnsupportedLocation, what).with("location", redact(location));
    if location.is_empty() {
        return Err(unusable("an empty location"));
    }
    match parse(location) {
        Parsed::Local { host, path } => {
            if !host.is_empty() && host != "localhost" {
                return Err(unusable("files of another host cannot be reached").help("use file:///path"));
            }
            let path = absolute(Path::new(path)).map_err(|e| super::error(location, e))?;
            let path = path.to_str().ok_or_else(|| unusable("a path that is not UTF-8"))?;
            Ok(Split { base: "file://".to_owned(), path: path.to_owned() })
        }
        Parsed::Url { scheme, authority, path } => {
            let authority = without_user(&scheme, authority);
            Ok(Split { base: format!("{scheme}://{authority}"), path: path.to_owned() })
        }
    }
}

/// What `URLEncoder.encode(text, UTF_8)` leaves alone, apart from letters and digits.
const JAVA_URL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'*').remove(b'_');

/// File systems hold 255 bytes in a name; some encrypting ones fewer.
const MAX_SEGMENT: usize = 240;

enum Parsed<'a> {
    Local { host: &'a str, path: &'a str },
    Url { scheme: String, authority: &'a str, path: &'a str },
}

fn parse(location: &str) -> Parsed<'_> {
    if let Some((scheme, rest)) = location.split_once("://")
        && is_scheme(scheme)
    {
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            return Parsed::Local { host: authority, path: if path.is_empty() { "/" } else { path } };
        }
        return Parsed::Url { scheme, authority, path };
    }
    match location.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("file:") && location.get(5..6) == Some("/") => {
            Parsed::Local { host: "", path: location.get(5..).unwrap_or_default() }
        }
        _ => Parsed::Local { host: "", path: location },
    }
}

/// One spelling for each place, without looking at any file.
fn canonical(location: &str) -> String {
    match parse(location) {
        Parsed::Local { path, .. } => {
            let mut out = String::from("file://");
            for part in path.split('/').filter(|part| !part.is_empty()) {
                out.push('/');
                out.push_str(part);
            }
            out
        }
        Parsed::Url { scheme, authority, path } => {
            let scheme = match scheme.as_str() {
                "s3a" | "s3n" => "s3",
                other => other,
            };
            format!("{scheme}://{authority}{}", path.trim_end_matches('/'))
        }
    }
}

/// An absolute path without `.`, `..` and doubled slashes. `..` after a link means the parent of what it points to.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let start = if path.is_absolute() { PathBuf::new() } else { std::env::current_dir()? };
    let mut out = start;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if let Ok(real) = out.canonicalize() {
                    out = real;
                }
                out.pop();
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_scheme_char)
}

fn is_scheme_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

fn char_len(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | '(' | '{' | '}' | ',' | ';')
}

fn without_secrets(scheme: &str, url: &str) -> String {
    let at = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(at);
    let path = match scheme {
        "file" | "memory" => path,
        _ => path.split(['?', '#']).next().unwrap_or_default(),
    };
    format!("{}{path}", without_user(scheme, authority))
}

fn without_user<'a>(scheme: &str, authority: &'a str) -> &'a str {
    match authority.rsplit_once('@') {
        Some((user, _)) if matches!(scheme, "abfs" | "abfss" | "wasb" | "wasbs") && !user.contains(':') => authority,
        Some((_, host)) => host,
        None => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn joining() {
        let check = |location, name, joined: &str| assert_eq!(join(location, name), joined);
        check("file:///w/t", "metadata", "file:///w/t/metadata");
        check("file:///w/t/", "metadata", "file:///w/t/metadata");
        check("file://", "w", "file:///w");
        check("file:///", "w", "file:///w");
        check("memory://name", "a/b", "memory://name/a/b");
        check("memory://name/", "/a", "memory://name/a");
        check("memory:///", "a", "memory:///a");
        check("/w", "a", "/w/a");
        check("/", "a", "/a");
    }

    #[test]
    fn partition_directories_are_encoded_as_java_does() {
        let check = |value, dir: &str| assert_eq!(partition_dir("c", value), dir);
        check("plain-1.5_*", "c=plain-1.5_*");
        check("a b", "c=a+b");
        check("a+b", "c=a%2Bb");
        check("a/b", "c=a%2Fb");
        check("..", "c=..");
        check("100%", "c=100%25");
        check("100%20", "c=100%2520");
        check("São", "c=S%C3%A3o");
        check("🦀", "c=%F0%9F%A6%80");
        check("a\0b~", "c=a%00b%7E");
        check("", "c=");
        assert_eq!(partition_dir("a/b day", "1"), "a%2Fb+day=1");
    }

    #[test]
    fn long_values_fit_a_file_name() {
        for value in ["x".repeat(1000), "🦀".repeat(300), format!("y{}", "🦀".repeat(300)), "é".repeat(400)] {
            let dir = partition_dir("c", &value);
            assert!((MAX_SEGMENT - 2..=MAX_SEGMENT).contains(&dir.len()), "{}", dir.len());
            let escapes_whole = dir.split('%').skip(1).all(|part| part.len() >= 2);
            assert!(escapes_whole, "{dir}");
        }
    }

    #[test]
    fn below() {
        let inside = |root, location| assert!(is_below(root, location), "{location} below {root}");
        let outside = |root, location| assert!(!is_below(root, location), "{location} not below {root}");
        inside("file:///w/t", "file:///w/t/data/f");
        inside("file:///w/t/", "file:/w/t/data/f");
        inside("/w/t", "file:///w/t/f");
        inside("s3://b/t", "s3a://b/t/f");
        inside("file://", "file:///f");
        inside("memory://m", "memory://m/f");
        outside("file:///w/t", "file:///w/t");
        outside("file:///w/t", "file:///w/t/");
        outside("file:///w/t", "file:///w/t2/f");
        outside("file:///w/t", "file:///w/t/../t2/f");
        outside("s3://b/t", "s3://c/t/f");
        outside("memory://m", "memory://mm/f");
    }

    #[test]
    fn secrets_are_removed() {
        let check = |text, clean: &str| assert_eq!(redact(text), clean);
        check("s3://id:secret@bucket/k", "s3://bucket/k");
        check("https://token@host", "https://host");
        check("see \"https://h/a?sig=1&b\", then https://u:p@h/b#c.", "see \"https://h/a\", then https://h/b");
        check("abfss://container@account/x?sig=1", "abfss://container@account/x");
        check("abfss://c:key@account/x", "abfss://account/x");
        check("file:///what?/a#1", "file:///what?/a#1");
        check("é://u:p@h/x", "é://h/x");
        check("nothing here: a@b?c", "nothing here: a@b?c");
        check("https://u:p@ss@h/x", "https://h/x");
    }

    #[test]
    fn paths_become_absolute() {
        let check = |path: &str, expected: &str| {
            let split = split(path).unwrap();
            assert_eq!((split.base.as_str(), split.path.as_str()), ("file://", expected));
        };
        check("/a/b", "/a/b");
        check("/a//b/", "/a/b");
        check("/a/./b", "/a/b");
        check("/no-such-place/x/../b", "/no-such-place/b");
        check("/../../a", "/a");
        check("file:/a/b", "/a/b");
        check("file:///a/b", "/a/b");
        check("FILE:///a%20b/c d", "/a%20b/c d");
        check("file://localhost/a", "/a");
        check("file://", "/");
        let here = std::env::current_dir().unwrap();
        check("x/y", here.join("x/y").to_str().unwrap());
        check("a:b", here.join("a:b").to_str().unwrap());
        check("../z", here.parent().unwrap().join("z").to_str().unwrap());
    }

    proptest! {
        #[test]
        fn a_partition_directory_is_one_safe_segment(name in ".{1,40}", value in ".*") {
            let dir = partition_dir(&name, &value);
            prop_assert!(object_store::path::Path::parse(&dir).is_ok());
            prop_assert!(dir.is_ascii() && !dir.contains(['/', '\\', '#', '?', ' ', '\0']));
            prop_assert!(dir.len() <= MAX_SEGMENT && !matches!(dir.as_str(), "." | ".."));
        }

        #[test]
        fn what_is_joined_is_below(root in "(file:///|memory://m/|s3://b/)[a-z]{1,3}(/[a-z%]{1,3}){0,3}/?", name in "[a-z=%+]{1,5}") {
            prop_assert!(is_below(&root, &join(&root, &name)));
        }

        #[test]
        fn redaction_leaves_no_user_and_is_stable(text in "(see )?[a-z0-9]{2,5}://([a-z]{1,4}:[a-z@]{1,6}@)?h/[a-z?]{0,6}( [a-z]{0,3})?") {
            let clean = redact(&text);
            prop_assert!(!clean.contains('@'));
            prop_assert_eq!(redact(&clean), clean);
        }
    }
}
