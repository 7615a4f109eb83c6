//! Real files, exported whole by the shell without a hand-written schema, and every value found again.
//!
//! ```text
//! file ─ the shell's export ─▶ table ─ a session ─▶ rows ┐
//!   └───────── plain DataFusion, or line by line ─▶ rows ┴─ the same?
//! ```
// @spec W8 P3

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::row::{RowConverter, SortField};
use chrono::{DateTime, Utc};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::prelude::{CsvReadOptions, DataFrame, ParquetReadOptions, SessionContext};
use daygrain::{Options, Session};
use daygrain_tests::shell::Shell;
use serde_json::{Map, Value, json};

/// A file of the shared data, or a loud word that there is none.
fn shared(file: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not say where {file} is");
        return None;
    };
    let path = PathBuf::from(root).join("data").join(file);
    assert!(path.exists(), "{} does not exist", path.display());
    Some(path)
}

/// Exports a file; the report, and what the shell told beside it.
fn export(shell: &Shell, dataset: &str, file: &Path, timestamp: &str, lookup: &str) -> (Value, String) {
    let file = file.to_str().unwrap();
    let ran = shell.run([
        "--format",
        "ndjson",
        "export",
        dataset,
        file,
        "--primary-timestamp",
        timestamp,
        "--lookup",
        lookup,
    ]);
    let rows = ran.rows();
    assert_eq!(rows.len(), 1, "{ran}");
    assert_eq!(rows[0]["outcome"], "committed", "{ran}");
    (rows[0].clone(), ran.stderr)
}

fn session(shell: &Shell) -> Session {
    Session::new(Options::at(shell.path("warehouse").to_str().unwrap())).unwrap()
}

/// Rows, nulls and a checksum that no order of rows changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: usize,
    nulls: usize,
    hash: u64,
}

/// Of each column, and of whole rows under the name "*".
type Sums = BTreeMap<String, Sum>;

async fn sums_of(frame: DataFrame) -> Sums {
    let mut sums = Sums::new();
    for batch in frame.collect().await.unwrap() {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(plain).collect();
        for (field, column) in batch.schema().fields().iter().zip(&columns) {
            add(sums.entry(field.name().clone()).or_default(), std::slice::from_ref(column));
        }
        add(sums.entry("*".to_owned()).or_default(), &columns);
    }
    sums
}

fn add(sum: &mut Sum, columns: &[ArrayRef]) {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields).unwrap().convert_columns(columns).unwrap();
    for row in rows.iter() {
        let mut hasher = DefaultHasher::new();
        row.as_ref().hash(&mut hasher);
        sum.hash = sum.hash.wrapping_add(hasher.finish());
        sum.rows += 1;
    }
    sum.nulls += columns.iter().map(|column| column.null_count()).sum::<usize>();
}

/// Readers disagree about widths: here all integers are long, all floats double, all timestamps µs in UTC.
fn plain(column: &ArrayRef) -> ArrayRef {
    use DataType as T;
    let wide = match column.data_type() {
        T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 | T::UInt32 => T::Int64,
        T::Float16 | T::Float32 => T::Float64,
        T::Utf8View | T::LargeUtf8 => T::Utf8,
        T::Dictionary(_, value) if value.is_string() => T::Utf8,
        T::Timestamp(_, _) => T::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        same => same.clone(),
    };
    cast(column, &wide).unwrap()
}

fn days(sums: &Sums, report: &Value) -> u64 {
    let rows = sums["*"].rows as u64;
    assert_eq!(report["rows"], rows, "{report}");
    report["partitions"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_year_of_flights() {
    let Some(file) = shared("flights.parquet") else { return };
    let shell = Shell::new();
    let (report, _) = export(&shell, "flights", &file, "scheduled_at", "tailnum,carrier");
    let session = session(&shell);
    let ours = sums_of(session.context().sql("SELECT * FROM flights").await.unwrap()).await;
    let plain = SessionContext::new();
    let read = plain.read_parquet(file.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    assert_eq!(ours, sums_of(read).await);
    assert_eq!((ours["*"].rows, days(&ours, &report)), (336_776, 366));
    assert_eq!(report["files"], 366, "a file a day");

    // One aircraft over the whole year, by three of its columns.
    let one = "SELECT count(*), count(DISTINCT carrier), min(scheduled_at), max(scheduled_at) FROM flights \
               WHERE tailnum = 'N14228'";
    plain.register_parquet("flights", file.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    let answer = session.query(one).await.unwrap();
    let expected = daygrain_tests::oracle::answer(&plain, one).await;
    assert_eq!(daygrain_tests::oracle::lines(&answer.batches), expected);
    let files = &answer.scans[0].ledger.files;
    assert!(files.kept() < files.total(), "{files}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_year_of_weather() {
    let Some(file) = shared("weather.csv.gz") else { return };
    let shell = Shell::new();
    let (report, _) = export(&shell, "weather", &file, "time_hour", "origin");
    let ours = sums_of(session(&shell).context().sql("SELECT * FROM weather").await.unwrap()).await;
    let options = CsvReadOptions::new()
        .file_extension(".csv.gz")
        .file_compression_type(FileCompressionType::GZIP)
        .schema_infer_max_records(usize::MAX);
    let read = SessionContext::new().read_csv(file.to_str().unwrap(), options).await.unwrap();
    assert_eq!(ours, sums_of(read).await);
    assert_eq!(ours["*"].rows, 26_115);
    assert!(days(&ours, &report) >= 364, "{report}");
    assert!(ours["wind_gust"].nulls > 0 && ours["time_hour"].nulls == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transcripts_of_an_agent() {
    let Some(file) = shared("agent-messages.ndjson") else { return };
    let shell = Shell::new();
    let (report, told) = export(&shell, "messages", &file, "timestamp", "sessionId,uuid");
    let told = told.lines().find_map(|line| line.strip_prefix("note: kept as JSON text: ")).unwrap();
    let as_text: Vec<&str> = told.split(", ").collect();
    assert!(as_text.contains(&"message.content"), "{as_text:?}");

    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(report["rows"], lines.len());
    let mut rows = shell.sql("SELECT * FROM messages").rows();
    assert_eq!(rows.len(), lines.len());
    for line in &lines {
        let same = rows.iter().position(|row| is_found_again(line, row, "", &as_text));
        let Some(same) = same else { panic!("no row holds {line:#}\n{}", nearest(line, &rows)) };
        rows.swap_remove(same);
    }

    // The session in between finds nested values by name.
    let session = session(&shell);
    let sql = "SELECT sum(message['usage']['output_tokens']) FROM messages";
    let expected: i64 = lines.iter().filter_map(|line| line.pointer("/message/usage/output_tokens")?.as_i64()).sum();
    let answer = session.query(sql).await.unwrap();
    assert_eq!(daygrain_tests::oracle::lines(&answer.batches), [expected.to_string()]);
}

/// The row of the same `uuid`, for who has to find out what differs.
fn nearest(line: &Value, rows: &[Value]) -> String {
    let same = rows.iter().find(|row| row["uuid"] == line["uuid"]);
    same.map_or_else(|| "and none has its uuid".to_owned(), |row| format!("but one has its uuid: {row:#}"))
}

/// Whether `read` is what `written` must become at `path`.
fn is_found_again(written: &Value, read: &Value, path: &str, as_text: &[&str]) -> bool {
    if as_text.contains(&path) && !written.is_null() {
        return read.as_str().is_some_and(|text| serde_json::from_str(text).is_ok_and(|held: Value| held == *written));
    }
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => fields_are_found_again(written, read, path, as_text),
        (Value::Array(written), Value::Array(read)) => {
            let items = format!("{path}[]");
            written.len() == read.len()
                && written.iter().zip(read).all(|(written, read)| is_found_again(written, read, &items, as_text))
        }
        (Value::String(written), Value::String(read)) if path == "timestamp" => instant(written) == instant(read),
        (written, read) => written == read,
    }
}

fn fields_are_found_again(
    written: &Map<String, Value>,
    read: &Map<String, Value>,
    path: &str,
    as_text: &[&str],
) -> bool {
    let missing = json!(null);
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let names = written.keys().chain(read.keys().filter(|key| !written.contains_key(*key)));
    names.into_iter().all(|key| {
        let (written, read) = (written.get(key).unwrap_or(&missing), read.get(key).unwrap_or(&missing));
        is_found_again(written, read, &at(key), as_text)
    })
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}
