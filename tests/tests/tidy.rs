//! Rules of the house that a machine can read.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace").to_owned()
}

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// The table of `docs/architecture.md`: lines like `3  layout metadata input` between the markers.
fn ranks() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md exists");
    let table = text.split("```ranks").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of ranks");
    let mut ranks = BTreeMap::new();
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let rank: u32 = words.next().and_then(|word| word.parse().ok()).expect("a rank opens its line");
        for module in words {
            assert!(ranks.insert(module.to_owned(), rank).is_none(), "{module} has two ranks");
        }
    }
    ranks
}

/// The names after `use crate::` (and in paths `crate::x::`), first segment only; groups at the top level are opened.
fn imports(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("crate::") {
        if source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &source[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0usize;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(std::mem::take(&mut word)),
                    _ if depth == 0 => word.push(c),
                    _ => {}
                }
            }
            found.push(word);
        } else {
            found.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    let first = |path: &String| path.trim().split("::").next().unwrap_or_default().trim().to_owned();
    found.iter().map(first).filter(|name| !name.is_empty()).collect()
}

#[test]
fn modules_import_only_lower_ranks() {
    let ranks = ranks();
    let src = root().join("provider/src");
    let mut sources = Vec::new();
    files(&src, "rs", &mut sources);
    assert!(sources.len() > 20, "the sources were not found");
    let mut wrong = Vec::new();
    for path in sources {
        let relative = path.strip_prefix(&src).expect("below src");
        let module = relative.iter().next().expect("a name").to_string_lossy().trim_end_matches(".rs").to_owned();
        if module == "lib" {
            continue;
        }
        let Some(rank) = ranks.get(&module) else {
            wrong.push(format!("{module} has no rank in docs/architecture.md"));
            continue;
        };
        let source = fs::read_to_string(&path).expect("a source file");
        // Tests may use whatever they need; they stand at the end of a file or in files of their own.
        if relative.iter().any(|part| part == "tests.rs" || part == "tests") {
            continue;
        }
        let code: String = source
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        for import in imports(&code) {
            match ranks.get(&import) {
                Some(other) if import != module && other >= rank => {
                    wrong.push(format!("{}: {module} ({rank}) imports {import} ({other})", relative.display()));
                }
                // `crate::Result`, `crate::Error`: the root re-exports rank 0.
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_re_exported_wholesale() {
    let mut sources = Vec::new();
    for member in ["provider/src", "sql-shell/src", "tests/src"] {
        files(&root().join(member), "rs", &mut sources);
    }
    for path in sources {
        let source = fs::read_to_string(&path).expect("a source file");
        let glob = source.lines().find(|line| line.trim_start().starts_with("pub use") && line.contains("::*"));
        assert!(glob.is_none(), "{}: {}", path.display(), glob.unwrap_or_default());
    }
}

#[test]
fn every_error_code_has_its_page_and_every_page_its_code() {
    let pages = root().join("docs/errors");
    for code in daygrain::Code::ALL {
        let page = pages.join(format!("{code}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("docs/errors/{code}.md is missing"));
        assert!(text.starts_with(&format!("# `{code}`\n")), "docs/errors/{code}.md does not open with its code");
    }
    let mut found = Vec::new();
    files(&pages, "md", &mut found);
    for page in found {
        let stem = page.file_stem().expect("a name").to_string_lossy().into_owned();
        let known = stem == "README" || daygrain::Code::ALL.iter().any(|code| code.as_str() == stem);
        assert!(known, "docs/errors/{stem}.md is a page for no code");
    }
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    let mut pages = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut pages);
    let mut broken = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            if !page.parent().expect("a directory").join(target).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_top_level_holds_what_it_should() {
    let allowed =
        ["Cargo.toml", "Cargo.lock", "provider", "sql-shell", "tests", "benches", "docs", "README.md", "LICENSE"];
    let tidy = ["target", "warehouse"];
    for entry in fs::read_dir(root()).expect("the workspace").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // What the README's first command leaves behind.
        let demo = name.starts_with("daygrain-demo");
        let known = name.starts_with('.') || allowed.contains(&name.as_str()) || tidy.contains(&name.as_str()) || demo;
        assert!(known, "{name} does not belong at the top level");
    }
}
