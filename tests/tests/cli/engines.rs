//! Tables that Spark wrote, opened where they lie now. They are no part of the repository: see `docs/testing.md`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use daygrain_tests::shell::Shell;
use serde_json::Value;

fn spark() -> Option<PathBuf> {
    let Some(shared) = env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not name a directory with fixtures/spark");
        return None;
    };
    Some(Path::new(&shared).join("fixtures/spark"))
}

fn deletes(metadata: &Value) -> bool {
    let current = &metadata["current-snapshot-id"];
    let snapshots = metadata["snapshots"].as_array().into_iter().flatten();
    let mut summary =
        snapshots.filter(|snapshot| snapshot["snapshot-id"] == *current).map(|snapshot| &snapshot["summary"]);
    summary.any(|summary| summary["total-delete-files"].as_str().is_some_and(|count| count != "0"))
}

/// The forms of the shell and of the expectation in one: times without letters and without zeros at the end, maps as
/// lists of pairs.
fn plain(value: &Value, kind: &str) -> Value {
    match value {
        Value::String(text) if text.len() >= 19 && text.as_bytes()[10] == b'T' || is_time(value) => {
            let text = value.as_str().unwrap().trim_end_matches('Z').replace('T', " ");
            let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            Value::String(short.to_owned())
        }
        Value::Object(entries) if kind.starts_with("map<") => {
            let mut pairs: Vec<Value> =
                entries.iter().map(|(key, value)| Value::Array(vec![key.clone().into(), plain(value, "")])).collect();
            pairs.sort_by_key(Value::to_string);
            Value::Array(pairs)
        }
        Value::Array(pairs) if kind.starts_with("map<") => {
            let mut pairs: Vec<Value> = pairs.iter().map(|pair| plain(pair, "")).collect();
            pairs.sort_by_key(Value::to_string);
            Value::Array(pairs)
        }
        Value::Array(values) => Value::Array(values.iter().map(|value| plain(value, "")).collect()),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), plain(value, ""))).collect())
        }
        Value::Number(number) if kind == "float" => (number.as_f64().unwrap() as f32).to_string().into(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap().to_string().into(),
        other => other.clone(),
    }
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        text.len() >= 19
            && text.bytes().zip("0000-00-00 00:00:00".bytes()).all(|(a, b)| a == b || b == b'0' && a.is_ascii_digit())
    })
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[test]
fn spark_tables_without_deletes_are_read_as_spark_reads_them() {
    let Some(root) = spark() else { return };
    let expected: Value = serde_json::from_slice(&fs::read(root.join("expected.json")).unwrap()).unwrap();
    let shell = Shell::new();
    let (mut read, mut refused) = (0, 0);
    for (table, expected) in expected.as_object().unwrap() {
        let place = root.join(table);
        let file = place.join(expected["metadata"].as_str().unwrap());
        let metadata: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let columns: Vec<&str> = expected["columns"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
        let kinds: Vec<&str> = expected["types"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
        // Half of them by their directory.
        let at = if table.len() % 2 == 0 { file } else { place };
        let declared = format!(
            "create external table t stored as iceberg location '{}' options ('relocate' 'true')",
            at.display()
        );
        let quoted: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
        let rows = format!("select {} from t", quoted.join(", "));
        let ran = shell.sql(&format!("{declared}; {rows}; select count(*) as n from t"));
        if deletes(&metadata) {
            let error = ran.failed("not_supported");
            assert!(error.contains("delete files") && error.contains("\n  table: t"), "{ran}");
            assert_eq!(ran.stdout, "", "{ran}");
            refused += 1;
            continue;
        }
        let mut rows = ran.rows();
        let counted = rows.pop().expect("the count");
        assert_eq!(counted["n"], expected["rows"], "{table}");
        assert_eq!(rows.len() as u64, expected["rows"].as_u64().unwrap(), "{table}");
        if let Some(values) = expected["values"].as_array() {
            let cells = |cell: &dyn Fn(usize, &str) -> Value| -> String {
                let cells = columns.iter().zip(&kinds).enumerate();
                Value::Array(cells.map(|(at, (column, kind))| plain(&cell(at, column), kind)).collect()).to_string()
            };
            let ours = rows.iter().map(|row| cells(&|_, column| row[column].clone())).collect();
            let theirs = values.iter().map(|row| cells(&|at, _| row[at].clone())).collect();
            assert_eq!(sorted(ours), sorted(theirs), "{table}");
        }
        read += 1;
    }
    assert!(read > 40 && refused > 8, "{read} read, {refused} refused");
}

#[test]
fn tables_with_deletes_are_refused_for_every_question() {
    let Some(root) = spark() else { return };
    let shell = Shell::new();
    for table in ["table_more_deletes", "zz_v3_dv"] {
        let declared = format!(
            "create external table t stored as iceberg location '{}' options ('relocate' 'true')",
            root.join(table).display()
        );
        for query in
            ["select count(*) from t", "select * from t limit 1", "explain pruning select * from t", "select 1 from t"]
        {
            let ran = shell.sql(&format!("{declared}; {query}"));
            assert!(ran.failed("not_supported").contains("delete files"), "{ran}");
            assert_eq!(ran.stdout, "", "{ran}");
        }
        shell.sql(&format!("{declared}; describe t")).ok();
    }
}
