//! Statements and their answers, kept as text in `tests/tests/slt`.
//!
//! `docs/testing.md` describes the format. With `DAYGRAIN_SLT_UPDATE=1` the answers in the files are replaced by what
//! comes out; read the difference before you commit it.
// @spec P2 P3 E1 E3 S1 S3 S8

mod record;
mod run;
mod shown;
mod stage;
mod tests;

use std::path::PathBuf;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/slt")
}

async fn check(name: &str) {
    let path = directory().join(format!("{name}.slt"));
    let shown = format!("tests/tests/slt/{name}.slt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{shown}: {e}"));
    let done = run::run(&shown, &text).await;
    let update = std::env::var("DAYGRAIN_SLT_UPDATE").is_ok_and(|value| value == "1");
    if update && done.text != text {
        std::fs::write(&path, &done.text).expect("the file can be written");
    }
    // What an update can't mend still fails.
    let left: Vec<String> = done.failures.iter().filter(|f| !(update && f.mended)).map(ToString::to_string).collect();
    assert!(left.is_empty(), "{} of {} records failed\n\n{}", left.len(), done.records, left.join("\n\n"));
}

macro_rules! files {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];
        $(#[tokio::test] async fn $name() { check(stringify!($name)).await; })*
    };
}

files! { alike ddl explain groups_and_recursion json_functions metadata_columns names nested nulls_and_nan predicates pushdown refusals timestamps using versions }

#[test]
fn every_file_is_run() {
    let entries = std::fs::read_dir(directory()).expect("the directory of the files").flatten();
    let mut found: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    assert_eq!(found, FILES.iter().map(|name| format!("{name}.slt")).collect::<Vec<_>>());
}
