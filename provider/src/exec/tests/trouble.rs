//! Files that are cut, damaged, strange or large.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use iceberg::spec::PrimitiveType;

use super::fixture::{LOCAL, REMOTE, Table, column};
use super::lines;

async fn numbers(root: &'static str, rows: i64, width: usize) -> Table {
    let mut table =
        Table::new(root, vec![column(1, "n", PrimitiveType::Long), column(2, "text", PrimitiveType::String)], None);
    table.properties = |properties| properties.set_dictionary_enabled(false);
    let texts = (0..rows).map(|n| format!("{n:0width$}"));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(0..rows)), Arc::new(StringArray::from_iter_values(texts))];
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    table.add(&RecordBatch::try_new(stored, columns).unwrap(), None).await;
    table
}

async fn error(table: &Table, sql: &str) -> String {
    let context = table.session(table.view().await, 1);
    context.sql(sql).await.unwrap().collect().await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_large_file_is_cut_and_each_row_is_read_once() {
    for root in [LOCAL, REMOTE] {
        let table = numbers(root, 20_000, 200).await;
        let context = table.session(table.view().await, 3);
        for _ in ["cold", "warm"] {
            let answer =
                table.query(&context, "SELECT count(text), sum(n), min(n), max(n) FROM t WHERE n % 2 = 0").await;
            assert_eq!(lines(&answer.batches), ["10000|99990000|0|19998"]);
            let ledger = answer.report.unwrap().ledger;
            assert_eq!((ledger.requests, ledger.bytes), answer.counted);
            assert_eq!(ledger.row_groups.to_string(), "100/100");
            assert_eq!(ledger.rows.to_string(), "10000/20000 (filter 10000)");
        }
        let plan = context.sql("SELECT text FROM t").await.unwrap().create_physical_plan().await.unwrap();
        assert_eq!(plan.properties().partitioning.partition_count(), 3);
        let answer = table.query(&context, "SELECT count(*) FROM t WHERE n >= 0").await;
        assert_eq!(lines(&answer.batches), ["20000"], "a cut file is counted once");
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error() {
    for (what, damage) in [
        ("empty", (|_| Vec::new()) as fn(Vec<u8>) -> Vec<u8>),
        ("a few bytes", |bytes| bytes[..6].to_vec()),
        ("the end is cut off", |bytes| bytes[..bytes.len() - 7].to_vec()),
        ("only the end", |bytes| bytes[bytes.len() - 40..].to_vec()),
        ("a footer longer than the file", |mut bytes| {
            let at = bytes.len() - 8;
            bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            bytes
        }),
        ("not Parquet", |bytes| vec![b'x'; bytes.len()]),
        ("zeroed pages", |mut bytes| {
            let pages = bytes.len() / 2;
            bytes[4..pages].fill(0);
            bytes
        }),
    ] {
        let mut table = numbers(REMOTE, 1000, 20).await;
        let damaged = damage(table.bytes(0).await);
        table.replace(0, damaged).await;
        let error = error(&table, "SELECT sum(n), max(text) FROM t").await;
        assert!(error.contains("error[data_file_corrupt]") && error.contains("data/0.parquet"), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_missing_file_is_an_error() {
    let table = numbers(REMOTE, 10, 1).await;
    table.remove(0).await;
    let error = error(&table, "SELECT n FROM t").await;
    assert!(error.contains("error[data_file_corrupt]") && error.contains("missing"), "{error}");
}

#[tokio::test]
async fn a_cut_file_of_a_real_file_system_is_an_error() {
    use crate::session::{Export, ExportProgress, Options, Session};
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("t.ndjson");
    std::fs::write(&input, "{\"n\":1}\n{\"n\":2}\n").unwrap();
    let session = Session::new(Options::at(directory.path().join("w").display().to_string())).unwrap();
    let inputs = vec![input.display().to_string()];
    let export = Export { dataset: "t".to_owned(), inputs, ..Export::default() };
    session.export(export, ExportProgress::default()).await.unwrap();
    let data = directory.path().join("w/main/t/data");
    let file = std::fs::read_dir(data).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&file).unwrap();
    for left in [0, 6, bytes.len() - 7] {
        std::fs::write(&file, &bytes[..left]).unwrap();
        let error = session.query("SELECT max(n + 1) FROM t").await.unwrap_err();
        assert_eq!(error.code(), crate::Code::DataFileCorrupt, "{left}: {error}");
    }
}

/// Some writers record another size than the file has.
#[tokio::test]
async fn a_wrong_size_in_the_manifest_is_not_believed() {
    for root in [LOCAL, REMOTE] {
        for rows in [300, 20_000] {
            let mut table = numbers(root, rows, 200).await;
            let size = table.bytes(0).await.len() as u64;
            for stated in [0, 1, size / 2, size - 3, size + 1, size + 100_000, size * 3] {
                table.misstate(0, stated);
                let context = table.session(table.view().await, 3);
                for _ in ["cold", "warm"] {
                    let sql = "SELECT count(text), sum(n) FROM t WHERE n >= 0";
                    let answer = table.query(&context, sql).await;
                    let expected = format!("{rows}|{}", rows * (rows - 1) / 2);
                    assert_eq!(lines(&answer.batches), [expected], "{stated} of {size}");
                    let ledger = answer.report.unwrap().ledger;
                    assert!(ledger.requests >= answer.counted.0, "{} < {}", ledger.requests, answer.counted.0);
                }
            }
        }
    }
}

#[tokio::test]
async fn dropping_a_stream_stops_its_requests() {
    use futures::StreamExt;
    let table = numbers(REMOTE, 20_000, 200).await;
    let context = table.session(table.view().await, 1);
    let mut rows = context.sql("SELECT text FROM t").await.unwrap().execute_stream().await.unwrap();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    drop(rows);
    tokio::task::yield_now().await;
    let (_, read) = table.counted();
    assert!(read < table.bytes(0).await.len() as u64 / 2, "{read}");
}
