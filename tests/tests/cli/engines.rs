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
fn spark_tables_are_read_as_spark_reads_them() {
    let Some(root) = spark() else { return };
    let expected: Value = serde_json::from_slice(&fs::read(root.join("expected.json")).unwrap()).unwrap();
    let shell = Shell::new();
    let mut read = 0;
    for (table, expected) in expected.as_object().unwrap() {
        let place = root.join(table);
        let file = place.join(expected["metadata"].as_str().unwrap());
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
    assert!(read > 60, "{read} read");
}

#[test]
fn deletes_are_applied_whatever_is_asked() {
    let Some(root) = spark() else { return };
    let shell = Shell::new();
    // Deletion vectors: metadata counts the rows. Position deletes: the data file is read.
    for (table, count, kept) in [("zz_v3_dv", "857", "0"), ("table_with_deletes", "60175", "1")] {
        let declared = format!(
            "create external table t stored as iceberg location '{}' options ('relocate' 'true')",
            root.join(table).display()
        );
        let lines = |query: &str| -> Vec<String> {
            let ran = shell.tsv(&format!("{declared}; {query}"));
            ran.lines().into_iter().map(str::to_owned).collect()
        };
        assert_eq!(lines("select count(*) from t"), [count], "{table}");
        assert_eq!(lines("select sum(one) from (select 1 as one from t)"), [count], "{table}");
        assert_eq!(lines("select count(*) from (select 1 from t limit 700)"), ["700"], "{table}");
        let pruning = lines("explain pruning select count(*) from t");
        let levels = pruning.iter().map(|line| line.split('\t').collect::<Vec<_>>());
        let deletes: Vec<_> = levels.filter(|level| level[1] == "delete_files" && level[3] == kept).collect();
        assert!(!deletes.is_empty(), "{table}: {pruning:?}");
    }
}
