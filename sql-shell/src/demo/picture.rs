//! What lies in a directory?
//!
//! ```text
//! messages
//! ├── data
//! │   ├── message_created_at_day=2026-05-01   1 file   612.4 kB
//! │   └── message_created_at_day=2026-05-02   1 file   598.0 kB
//! └── metadata                                4 files   21.7 kB
//! ```

use std::fs;
use std::io;
use std::path::Path;

use crate::progress::bytes;

/// Directories below a root, with the files that lie directly in each.
pub(crate) fn picture(root: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    walk(root, name, "", &mut lines)?;
    let label = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let count = lines.iter().map(|line| line.count.len()).max().unwrap_or(0);
    let size = lines.iter().map(|line| line.size.len()).max().unwrap_or(0);
    let text = lines.iter().map(|line| {
        let row = format!("{:label$}   {:>count$}   {:>size$}", line.label, line.count, line.size);
        row.trim_end().to_string()
    });
    Ok(text.collect::<Vec<_>>().join("\n"))
}

struct Line {
    label: String,
    count: String,
    size: String,
}

fn walk(directory: &Path, label: String, indent: &str, lines: &mut Vec<Line>) -> io::Result<()> {
    let (mut files, mut total, mut below) = (0u64, 0, Vec::new());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        } else {
            files += 1;
            total += entry.metadata()?.len();
        }
    }
    below.sort();
    lines.push(match files {
        0 => Line { label, count: String::new(), size: String::new() },
        1 => Line { label, count: "1 file ".to_string(), size: bytes(total) },
        _ => Line { label, count: format!("{files} files"), size: bytes(total) },
    });
    let last = below.len().saturating_sub(1);
    for (place, (name, path)) in below.into_iter().enumerate() {
        let (branch, trunk) = if place == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        walk(&path, format!("{indent}{branch}{name}"), &format!("{indent}{trunk}"), lines)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_small_tree() {
        let root = tempfile::tempdir().unwrap();
        let table = root.path().join("t");
        for (path, size) in [("data/d=1/a", 1_500), ("data/d=2/b", 10), ("data/d=2/c", 20), ("metadata/v1", 7)] {
            let path = table.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; size]).unwrap();
        }
        expect![[r#"
            t
            ├── data
            │   ├── d=1    1 file    1.5 kB
            │   └── d=2    2 files     30 B
            └── metadata   1 file       7 B"#]]
        .assert_eq(&picture(&table).unwrap());
    }
}
