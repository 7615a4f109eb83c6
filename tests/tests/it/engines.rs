//! Other engines open what was written, by its plain path, and say the same of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use daygrain::Session;
use daygrain::session::{Export, ExportProgress};
use daygrain_tests::reference::{Order, Reference, Size};
use daygrain_tests::shell::Shell;
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

/// The directory of a table, as a person would type it.
fn directory(lab: &Lab, table: &str) -> String {
    format!("{}/main/{table}", lab.warehouse.trim_start_matches("file://"))
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

    let table = directory(&lab, TABLE);
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

/// Four rows of every type that SQL can make; numbers at their ends, times before 1970, text longer than bounds keep.
const EVERY_TYPE: &str = "SELECT * FROM (VALUES
    (1, TIMESTAMP '2026-06-04T12:00:00.000001', arrow_cast('2026-06-04T12:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))'),
     'plain', CAST(1.5 AS DOUBLE), CAST(1.5 AS REAL), CAST('10.25' AS DECIMAL(9,2)), DATE '2026-06-04', true,
     9007199254740993, arrow_cast('ab', 'Binary'), make_array(1, NULL, 3), named_struct('a', 1, 'b', 'x')),
    (2, TIMESTAMP '1969-12-31T23:59:59.999999', arrow_cast('1969-12-31T23:59:59Z', 'Timestamp(Microsecond, Some(\"UTC\"))'),
     'ü•→😀 and a text longer than any bound keeps', CAST('NaN' AS DOUBLE), CAST('NaN' AS REAL),
     CAST('-10.25' AS DECIMAL(9,2)), DATE '1969-12-31', false, -1, arrow_cast('', 'Binary'), arrow_cast(make_array(), 'List(Int64)'),
     named_struct('a', CAST(NULL AS BIGINT), 'b', '')),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, TIMESTAMP '0001-01-01T00:00:00', arrow_cast('9999-12-31T23:59:59Z', 'Timestamp(Microsecond, Some(\"UTC\"))'),
     '', CAST('-0.0' AS DOUBLE), CAST('inf' AS REAL), CAST('0.00' AS DECIMAL(9,2)), DATE '0001-01-01', NULL,
     9223372036854775807, arrow_cast('z', 'Binary'), make_array(9), named_struct('a', 2, 'b', CAST(NULL AS VARCHAR)))
) AS t(id, ts, zoned, name, d, f, dec, day, flag, big, bytes, list, pair)";

fn every_type() -> Value {
    json!([
        {"id": 1, "ts": 1_780_574_400_000_001_i64, "zoned": 1_780_574_400_000_000_i64, "name": "plain", "d": 1.5, "f": 1.5,
         "dec": "10.25", "day": "2026-06-04", "flag": true, "big": 9_007_199_254_740_993_i64, "bytes": "6162",
         "list": [1, null, 3], "pair": {"a": 1, "b": "x"}},
        {"id": 2, "ts": -1, "zoned": -1_000_000, "name": "ü•→😀 and a text longer than any bound keeps", "d": "NaN",
         "f": "NaN", "dec": "-10.25", "day": "1969-12-31", "flag": false, "big": -1, "bytes": "", "list": [],
         "pair": {"a": null, "b": ""}},
        {"id": 3, "ts": null, "zoned": null, "name": null, "d": null, "f": null, "dec": null, "day": null, "flag": null,
         "big": null, "bytes": null, "list": null, "pair": null},
        {"id": 4, "ts": -62_135_596_800_000_000_i64, "zoned": 253_402_300_799_000_000_i64, "name": "", "d": -0.0,
         "f": "inf", "dec": "0.00", "day": "0001-01-01", "flag": null, "big": i64::MAX, "bytes": "7a", "list": [9],
         "pair": {"a": 2, "b": null}},
    ])
}

/// Conditions that both dialects of SQL understand, on columns whose bounds may mislead. Only midnights before 1970: DuckDB
/// rounds other times of these days toward 1970 and then skips their day.
const CONDITIONS: [&str; 13] = [
    "ts < TIMESTAMP '1970-01-01 00:00:00'",
    "ts > TIMESTAMP '1969-12-31 00:00:00'",
    "ts IS NULL",
    "zoned > TIMESTAMPTZ '2026-06-04 12:00:00+00:00'",
    "name = 'ü•→😀 and a text longer than any bound keeps'",
    "name > 'ü•→😀 and'",
    "name = ''",
    "d > 1e300",
    "NOT (f < 10)",
    "dec BETWEEN -10.25 AND 0",
    "day <= DATE '1969-12-31'",
    "big > 9007199254740992",
    "flag IS NOT TRUE",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_engines_read_every_type() {
    let Some(python) = python() else { return };
    let lab = Lab::local();
    let session = lab.session();
    let request = Export {
        dataset: "types".to_owned(),
        query: Some(EVERY_TYPE.to_owned()),
        primary_timestamp: Some("ts".to_owned()),
        lookup: Some(vec!["name".to_owned()]),
        ..Export::default()
    };
    session.export(request, ExportProgress::default()).await.unwrap();
    let table = directory(&lab, "types");
    for engine in ["duckdb", "pyiceberg"] {
        let mut rows = ask(&python, engine, &table, &json!("rows"));
        rows.as_array_mut().unwrap().sort_by_key(|row| row["id"].as_i64());
        for (row, expected) in rows.as_array().unwrap().iter().zip(every_type().as_array().unwrap()) {
            assert_eq!(row, expected, "{engine}");
        }
    }
    let mut ours = Vec::new();
    for condition in CONDITIONS {
        let condition = condition.replace("TIMESTAMPTZ", "TIMESTAMP");
        ours.extend(values(&session, &format!("SELECT count(*) FROM types WHERE {condition}")).await.remove(0));
    }
    let theirs = ask(&python, "duckdb", &table, &json!(CONDITIONS));
    for ((condition, ours), theirs) in CONDITIONS.iter().zip(ours).zip(theirs.as_array().unwrap()) {
        assert_eq!(&ours, theirs, "{condition}");
    }
}

/// Nested values with gaps, as the shell exports them from real transcripts.
#[test]
fn other_engines_read_nested_values() {
    let Some(python) = python() else { return };
    let Some(shared) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not say where agent-messages.ndjson is");
        return;
    };
    let shell = Shell::new();
    let file = Path::new(&shared).join("data/agent-messages.ndjson");
    let flags = ["--primary-timestamp", "timestamp", "--lookup", "sessionId,uuid"];
    shell.run(["export", "messages", file.to_str().unwrap()].into_iter().chain(flags)).ok();
    let sorted = |mut rows: Vec<Value>| {
        rows.sort_by_key(Value::to_string);
        rows
    };
    let sql = "SELECT * EXCLUDE (timestamp), arrow_cast(timestamp, 'Int64') AS timestamp FROM messages";
    let ours = sorted(shell.sql(sql).rows());
    assert_eq!(ours.len(), 59);
    for engine in ["duckdb", "pyiceberg"] {
        let theirs = ask(&python, engine, shell.path("warehouse/main/messages").to_str().unwrap(), &json!("rows"));
        let theirs = sorted(theirs.as_array().unwrap().clone());
        for (theirs, ours) in theirs.iter().zip(&ours) {
            assert_eq!(theirs, ours, "{engine}");
        }
        assert_eq!(theirs.len(), ours.len(), "{engine}");
    }
}
