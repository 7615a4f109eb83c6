//! One table exported into another, again and again.

use daygrain::session::{Export, ExportProgress, Exported, Session};
use daygrain::sink::Outcome;
use daygrain::{Code, Result};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{append, change, rows};
use crate::lab::{Lab, lines};

/// Exports `t` into `copy`.
async fn copy(session: &Session, only_new: bool) -> Result<Exported> {
    let request = Export {
        dataset: "copy".to_owned(),
        iceberg: Some("memory://lab/warehouse/main/t".to_owned()),
        only_new,
        primary_timestamp: Some("ts".to_owned()),
        ..Export::default()
    };
    session.export(request, ExportProgress::default()).await
}

/// Adds a snapshot to `t` that replaces nothing by nothing.
fn replace(metadata: &mut Value) {
    let current = metadata["current-snapshot-id"].clone();
    let snapshots = metadata["snapshots"].as_array().unwrap();
    let mut next = snapshots.iter().find(|snapshot| snapshot["snapshot-id"] == current).unwrap().clone();
    next["parent-snapshot-id"] = current;
    next["snapshot-id"] = json!(4711);
    next["summary"]["operation"] = json!("replace");
    next["sequence-number"] = json!(next["sequence-number"].as_i64().unwrap() + 1);
    next["timestamp-ms"] = json!(next["timestamp-ms"].as_i64().unwrap() + 1);
    let now = next["timestamp-ms"].clone();
    metadata["last-sequence-number"] = next["sequence-number"].clone();
    metadata["snapshots"].as_array_mut().unwrap().push(next);
    metadata["snapshot-log"].as_array_mut().unwrap().push(json!({"snapshot-id": 4711, "timestamp-ms": now}));
    metadata["last-updated-ms"] = now;
    metadata["current-snapshot-id"] = json!(4711);
    metadata["refs"]["main"]["snapshot-id"] = json!(4711);
}

fn forget(metadata: &mut Value, snapshot: i64) {
    for list in ["snapshots", "snapshot-log"] {
        metadata[list].as_array_mut().unwrap().retain(|item| item["snapshot-id"] != snapshot);
    }
}

#[tokio::test]
async fn only_what_is_new_is_exported() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let exported = copy(&session, true).await.unwrap();
    assert_eq!((exported.report.rows, exported.report.outcome), (3, Outcome::Committed));
    let again = copy(&session, true).await.unwrap();
    assert_eq!((again.report.rows, again.report.outcome), (0, Outcome::Empty));
    let second = append(&session, rows(3..5)).await;
    let third = append(&session, rows(5..6)).await;
    assert_eq!(copy(&session, true).await.unwrap().report.rows, 3);
    assert_eq!(lines(&session, "SELECT n, s FROM copy EXCEPT SELECT n, s FROM t").await, Vec::<String>::new());
    assert_eq!(lines(&session, "SELECT count(*), sum(n) FROM copy").await, ["6|15"]);

    // A snapshot that moves files only has no rows, and is remembered: those before it may go.
    change(&lab, replace).await;
    assert_eq!(copy(&session, true).await.unwrap().report.outcome, Outcome::Empty);
    append(&session, rows(6..7)).await;
    change(&lab, |metadata| [first, second, third].into_iter().for_each(|id| forget(metadata, id))).await;
    assert_eq!(copy(&session, true).await.unwrap().report.rows, 1);
    append(&session, rows(7..8)).await;
    change(&lab, |metadata| forget(metadata, 4711)).await;
    assert_eq!(copy(&session, true).await.unwrap().report.rows, 1);
    assert_eq!(lines(&session, "SELECT count(*), count(DISTINCT n) FROM copy").await, ["8|8"]);

    assert_eq!(copy(&session, false).await.unwrap().report.rows, 8, "asked for whole, it is exported whole");
}

#[tokio::test]
async fn what_is_new_must_be_told_apart() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    append(&session, rows(3..5)).await;
    copy(&session, true).await.unwrap();
    // Rolled back, and written to again.
    change(&lab, |metadata| {
        metadata["current-snapshot-id"] = json!(first);
        metadata["refs"]["main"]["snapshot-id"] = json!(first);
    })
    .await;
    for _ in 0..2 {
        let error = copy(&session, true).await.unwrap_err();
        assert_eq!(error.code(), Code::ChangesUnavailable);
        assert!(error.to_string().contains("without --only-new"), "{error}");
        append(&session, rows(5..6)).await;
    }
    assert_eq!(lines(&session, "SELECT count(*) FROM copy").await, ["5"], "nothing was written");
    change(&lab, |metadata| metadata["table-uuid"] = json!("9c12d441-03fe-4693-9a96-a0705ddf69c1")).await;
    let error = copy(&session, true).await.unwrap_err();
    assert!(error.what().contains("is another than"), "{error}");
}

/// Exports at the same time, of the first rows and of later ones: each row is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_at_once_export_each_row_once() {
    let lab = Lab::remote();
    let session = lab.session();
    for round in 0..3 {
        append(&session, rows(round * 5..round * 5 + 5)).await;
        let sessions: Vec<Session> = (0..4).map(|_| lab.session()).collect();
        let rows: u64 = join_all(sessions.iter().map(|session| copy(session, true)))
            .await
            .into_iter()
            .map(|e| e.unwrap().report.rows)
            .sum();
        assert_eq!(rows, 5, "round {round}");
    }
    assert_eq!(lines(&session, "SELECT count(*), count(DISTINCT n) FROM copy").await, ["15|15"]);
}

#[tokio::test]
async fn one_kind_of_source_is_taken() {
    let lab = Lab::remote();
    let session = lab.session();
    append(&session, rows(0..3)).await;
    let t = || Some("memory://lab/warehouse/main/t".to_owned());
    for request in [
        Export { iceberg: t(), query: Some("SELECT 1 AS n".to_owned()), ..Export::default() },
        Export { iceberg: t(), inputs: vec!["x.csv".to_owned()], ..Export::default() },
        Export { query: Some("SELECT 1 AS n".to_owned()), only_new: true, ..Export::default() },
        Export { inputs: vec!["x.csv".to_owned()], relocate: true, ..Export::default() },
    ] {
        let request = Export { dataset: "copy".to_owned(), ..request };
        let error = session.export(request, ExportProgress::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    let request =
        Export { dataset: "copy".to_owned(), iceberg: Some("memory://lab/nothing".to_owned()), ..Export::default() };
    assert_eq!(session.export(request, ExportProgress::default()).await.unwrap_err().code(), Code::UnknownTable);
}
