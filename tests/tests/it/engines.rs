//! Other engines open what was written, by its plain path, and say the same of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use daygrain::Session;
use daygrain_tests::reference::{Order, Reference, Size};
use serde_json::{Map, Value, json};

use crate::lab::{self, Lab};

const TABLE: &str = "ai_gateway_messages";
const TIME: &str = "message_created_at";
/// Columns to sum up, and whether a sum makes sense.
const SUMS: [(&str, bool); 8] = [
    (TIME, false),
    ("session_id", false),
    ("conversation_id", false),
    ("input_tokens", true),
    ("output_tokens", true),
    ("message_index", true),
    ("latency_ms", false),
    ("rating", true),
];

/// The Python that has the other engines, or a loud word that there is none.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("DAYGRAIN_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: DAYGRAIN_PYTHON does not name a Python with DuckDB and PyIceberg");
    }
    python
}

/// Asks an engine in a process of its own: one that aborts takes nothing with it.
fn ask(python: &Path, engine: &str, table: &str, question: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/ask.py");
    let mut child = Command::new(python)
        .arg(script)
        .args([engine, table])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{engine} failed: its words are above");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same rows with one more column.
fn rated(batch: &RecordBatch) -> RecordBatch {
    let mut fields: Vec<_> = batch.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("rating", DataType::Int64, true)));
    let mut columns = batch.columns().to_vec();
    let rating = (0..batch.num_rows() as i64).map(|n| (n % 3 != 0).then_some(n - 40));
    columns.push(Arc::new(rating.collect::<Int64Array>()));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

async fn values(session: &Session, sql: &str) -> Vec<Vec<Value>> {
    let lines = daygrain_tests::oracle::unsorted_lines(&lab::query(session, sql).await.batches);
    let value =
        |cell: &str| if cell == "∅" { Value::Null } else { serde_json::from_str(cell).unwrap_or(json!(cell)) };
    lines.iter().map(|line| line.split('|').map(value).collect()).collect()
}

/// Our own answer to the question, in the words of `ask.py`.
async fn answer(session: &Session, question: &Value) -> Value {
    let micros = |name: &str| {
        if name == TIME { format!("arrow_cast({name}, 'Int64')") } else { name.to_owned() }
    };
    let mut sums = Map::new();
    for (name, total) in SUMS {
        let (value, total) = (micros(name), if total { format!("sum({name})") } else { "NULL".to_owned() });
        let sql = format!("SELECT count(*) - count({name}), min({value}), max({value}), {total} FROM {TABLE}");
        let row = values(session, &sql).await.remove(0);
        sums.insert(name.to_owned(), json!({"nulls": row[0], "min": row[1], "max": row[2], "sum": row[3]}));
    }
    let days = values(session, &format!("SELECT to_char({TIME}, '%Y-%m-%d'), count(*) FROM {TABLE} GROUP BY 1")).await;
    let days: Map<String, Value> =
        days.into_iter().map(|day| (day[0].as_str().unwrap().to_owned(), day[1].clone())).collect();
    let range = &question["range"];
    let between = format!("{TIME} >= {} AND {TIME} < {}", quoted(&range[0]), quoted(&range[1]));
    let one = format!("session_id = {}", quoted(&question["session"]["value"]));
    let columns = session.context().table(TABLE).await.unwrap();
    let columns: Vec<String> = columns.schema().fields().iter().map(|field| field.name().clone()).collect();
    let session_rows = format!("SELECT message_index, {}, rating FROM {TABLE} WHERE {one} ORDER BY 1", micros(TIME));
    json!({
        "columns": columns,
        "rows": values(session, &format!("SELECT count(*) FROM {TABLE}")).await[0][0],
        "sums": sums,
        "days": days,
        "range": values(session, &format!("SELECT count(*) FROM {TABLE} WHERE {between}")).await[0][0],
        "session": values(session, &session_rows).await,
    })
}

fn quoted(value: &Value) -> String {
    format!("'{}'", value.as_str().unwrap())
}

/// How many files a query of ours opens, of how many.
async fn files(session: &Session, filter: &str) -> (u64, u64) {
    let sql = format!("SELECT sum(input_tokens) FROM {TABLE} WHERE {filter}");
    let files = lab::query(session, &sql).await.scans.remove(0).ledger.files;
    (files.kept(), files.total())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_engines_agree() {
    let Some(python) = python() else { return };
    let lab = Lab::local();
    let session = lab.session().with_dataset(Reference::dataset());
    let reference = Reference::new(Size::SMALL, 7);
    let rows = reference.rows(Order::Shuffled);
    let exports = [reference.batch(&rows[..3_500]), rated(&reference.batch(&rows[3_500..]))];
    for batch in exports {
        lab::export(&session, lab::rows_of(TABLE), vec![batch]).await.unwrap();
    }
    let sums: Map<String, Value> = SUMS.iter().map(|(name, total)| ((*name).to_owned(), json!(total))).collect();
    let question = json!({
        "time": TIME,
        "order": "message_index",
        "added": ["rating"],
        "sums": sums,
        "session": {"column": "session_id", "value": reference.some_session()},
        "range": ["2026-05-01T00:00:00+00:00", "2026-05-04T00:00:00+00:00"],
    });
    let ours = answer(&session, &question).await;
    assert_eq!(ours["rows"], Size::SMALL.rows);
    assert!(ours["session"].as_array().unwrap().len() > 10, "{ours}");
    assert!(ours["sums"]["rating"]["nulls"].as_u64().unwrap() > 3_500, "{ours}");

    let table = format!("{}/main/{TABLE}", lab.warehouse.trim_start_matches("file://"));
    for engine in ["duckdb", "pyiceberg"] {
        let mut theirs = ask(&python, engine, &table, &question);
        let skipped = theirs.as_object_mut().unwrap().remove("files");
        for (fact, expected) in ours.as_object().unwrap() {
            assert_eq!(&theirs[fact], expected, "{engine} says another {fact}");
        }
        // PyIceberg says which files it would open: as few as we do.
        if let Some(planned) = skipped {
            let between = format!("{TIME} >= '2026-05-01T00:00:00Z' AND {TIME} < '2026-05-04T00:00:00Z'");
            let one = format!("session_id = '{}'", reference.some_session());
            let (three_days, all) = files(&session, &between).await;
            let (one_session, _) = files(&session, &one).await;
            assert_eq!(planned, json!({"all": all, "range": three_days, "session": one_session}), "{engine}");
            assert!(three_days < 10 && one_session < all, "{planned}");
        }
    }
}
