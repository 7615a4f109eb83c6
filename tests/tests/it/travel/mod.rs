//! Tables as they were, where their rows are, and what became of them.
// @spec P9 P10 S5

mod changes;
mod columns;
mod export;
mod fixtures;
mod versions;

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use daygrain::session::Export;
use daygrain::{Code, Session};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde_json::{Value, json};

use crate::lab::{self, Lab};

/// Rows `n` with a text and a day each.
fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let numbers: Vec<i64> = numbers.collect();
    let days = numbers.iter().map(|n| (20_000 + n % 2) * 86_400_000_000 + n);
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from(numbers.clone())) as _),
        ("s", Arc::new(StringArray::from_iter_values(numbers.iter().map(|n| format!("s{n}")))) as _),
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(days)) as _),
    ])
    .unwrap()
}

/// Appends rows to `t`. The snapshot's id.
async fn append(session: &Session, batch: RecordBatch) -> i64 {
    let request = Export { primary_timestamp: Some("ts".to_owned()), ..lab::rows_of("t") };
    lab::export(session, request, vec![batch]).await.unwrap().report.snapshot_id.unwrap()
}

/// The newest metadata of `t`, and its number.
async fn newest(lab: &Lab) -> (usize, Value) {
    let named = lab.objects(".metadata.json").await;
    let number = |path: &String| path.rsplit("/v").next()?.split('.').next()?.parse::<usize>().ok();
    let (version, path) = named.iter().filter_map(|path| Some((number(path)?, path))).max().unwrap();
    let bytes = lab.probe.get(&Path::from(path.as_str())).await.unwrap().bytes().await.unwrap();
    (version, serde_json::from_slice(&bytes).unwrap())
}

/// Changes the metadata of `t` as another writer would.
async fn change(lab: &Lab, change: impl FnOnce(&mut Value)) {
    let (version, mut metadata) = newest(lab).await;
    change(&mut metadata);
    let named = lab.objects(&format!("/v{version}.metadata.json")).await.remove(0);
    let next = named.replace(&format!("/v{version}."), &format!("/v{}.", version + 1));
    let payload = PutPayload::from(serde_json::to_vec(&metadata).unwrap());
    lab.probe.put(&Path::from(next), payload).await.unwrap();
}

/// Names a snapshot of `t`.
async fn name(lab: &Lab, name: &str, kind: &str, snapshot: i64) {
    change(lab, |metadata| metadata["refs"][name] = json!({"snapshot-id": snapshot, "type": kind})).await;
}

/// When a snapshot of `t` was made, in milliseconds.
async fn made(lab: &Lab, snapshot: i64) -> i64 {
    let (_, metadata) = newest(lab).await;
    let snapshots = metadata["snapshots"].as_array().unwrap();
    snapshots.iter().find(|s| s["snapshot-id"] == snapshot).unwrap()["timestamp-ms"].as_i64().unwrap()
}

async fn refused(session: &Session, sql: &str) -> daygrain::Error {
    match session.query(sql).await {
        Ok(_) => panic!("{sql} is not refused"),
        Err(error) => error,
    }
}

async fn code(session: &Session, sql: &str) -> Code {
    refused(session, sql).await.code()
}
