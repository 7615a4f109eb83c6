//! What is a data file called?
//!
//! ```text
//! <location>/data/message_created_at_day=2026-06-04/00001-8f6c…-00003.parquet
//!                 └ for people: tuples decide        task, run, file of the task
//! ```

/// The longest directory name; file systems end at 255 bytes. The name is for people, so cutting it loses nothing.
const LONGEST: usize = 200;

/// `name=value`, escaped as Java's `URLEncoder` does, so that `/`, `..`, `%`, controls and other scripts are just text
/// (Iceberg's `PartitionSpec.partitionToPath`).
pub(super) fn directory(name: &str, value: &str) -> String {
    let mut text = format!("{}={}", escape(name), escape(value));
    if text.len() > LONGEST {
        // Not inside an escape: `%` may stand at the last two places.
        let end = text.bytes().take(LONGEST).collect::<Vec<_>>().iter().rposition(|b| *b == b'%');
        text.truncate(end.filter(|at| LONGEST - at < 3).unwrap_or(LONGEST));
    }
    text
}

/// The name of a task's `n`th file in a run. `run` makes it unique, also across retries and writers.
pub(super) fn file(task: usize, run: uuid::Uuid, n: usize) -> String {
    format!("{task:05}-{run}-{n:05}.parquet")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_java_does() {
        for (value, expected) in [
            ("2026-06-04", "d=2026-06-04"),
            ("a/b", "d=a%2Fb"),
            ("../x", "d=..%2Fx"),
            ("50%", "d=50%25"),
            ("a b+c", "d=a+b%2Bc"),
            ("é🙂", "d=%C3%A9%F0%9F%99%82"),
            ("\0", "d=%00"),
            ("", "d="),
        ] {
            assert_eq!(directory("d", value), expected);
        }
    }

    #[test]
    fn long_names_are_cut_between_escapes() {
        for pad in 0..6 {
            let name = directory("d", &format!("{}{}", "x".repeat(pad), "/".repeat(500)));
            assert!(name.len() <= LONGEST);
            assert_eq!((name.len() - 2 - pad) % 3, 0, "{name}");
        }
    }
}
