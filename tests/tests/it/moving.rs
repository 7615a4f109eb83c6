//! Filters that are known only while a query runs: joins and TopKs skip files, and never a row.
// @spec P5

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use daygrain::Session;
use daygrain::observe::Reason;
use daygrain::scan::ScanReport;
use daygrain::session::Export;
use daygrain_tests::oracle;
use daygrain_tests::reference::{Order, Reference, Rng, Size};

use crate::lab::{self, Lab};

const TABLE: &str = "ai_gateway_messages";

/// The reference rows, a file a day, and the same rows in memory.
async fn stage() -> (Lab, datafusion::prelude::SessionContext, Reference) {
    let reference = Reference::new(Size::SMALL, 7);
    let lab = Lab::remote();
    let session = lab.session().with_dataset(Reference::dataset());
    let batches: Vec<_> = reference.batches(Order::Shuffled, 1000).collect();
    lab::export(&session, lab::rows_of(TABLE), batches.clone()).await.unwrap();
    (lab, oracle::memory(TABLE, batches), reference)
}

fn excluded(scan: &ScanReport) -> u64 {
    scan.ledger.files.skipped().get(&Reason::DynamicFilter).copied().unwrap_or_default()
}

/// Runs a query with one partition, so that nothing is read beside what the filter was made of.
async fn alone(lab: &Lab, sql: &str) -> (Vec<String>, Vec<ScanReport>) {
    let answer = lab::query(&lab.session_of(1), sql).await;
    (oracle::unsorted_lines(&answer.batches), answer.scans)
}

#[tokio::test]
async fn the_newest_rows_are_in_the_newest_file() {
    let (lab, oracle, _) = stage().await;
    for (direction, limit) in [("DESC", 10), ("ASC", 10), ("DESC", 1), ("DESC NULLS LAST", 200)] {
        let sql =
            format!("SELECT message_id FROM {TABLE} ORDER BY message_created_at {direction}, message_id LIMIT {limit}");
        let (rows, scans) = alone(&lab, &sql).await;
        let expected = oracle.sql(&sql).await.unwrap().collect().await.unwrap();
        assert_eq!(rows, oracle::unsorted_lines(&expected), "{sql}");
        let files = &scans[0].ledger.files;
        assert_eq!((files.total(), files.kept() + excluded(&scans[0])), (58, 58), "{sql}: {files}");
        // The smallest days hold fewer rows than are asked for.
        assert!(files.kept() <= 1 + limit / 10, "{sql}: {files}");
    }
}

#[tokio::test]
async fn no_request_is_sent_for_an_excluded_file() {
    let (lab, _, _) = stage().await;
    let session = lab.session_of(1);
    lab.probe.clear();
    let sql = format!("SELECT message_id FROM {TABLE} ORDER BY message_created_at DESC LIMIT 5");
    let answer = lab::query(&session, &sql).await;
    let seen = lab.probe.requests();
    let mut opened: Vec<&str> = seen.iter().map(|r| r.path.as_str()).filter(|p| p.ends_with(".parquet")).collect();
    opened.dedup();
    assert_eq!(opened.len() as u64, answer.scans[0].ledger.files.kept());
    assert!(opened.len() <= 2, "{opened:?}");
}

#[tokio::test]
async fn a_join_opens_the_files_of_the_other_side() {
    let (lab, oracle, reference) = stage().await;
    let some = reference.some_session();
    let wanted = format!("SELECT * FROM (VALUES ('{some}'), ('nobody')) AS w(session_id)");
    let sql = format!("SELECT m.message_id FROM {TABLE} m JOIN ({wanted}) w ON m.session_id = w.session_id ORDER BY 1");
    let (rows, scans) = alone(&lab, &sql).await;
    assert_eq!(rows, oracle::unsorted_lines(&oracle.sql(&sql).await.unwrap().collect().await.unwrap()));
    assert!(!rows.is_empty());
    assert!(excluded(&scans[0]) > 20, "{}", scans[0].ledger.files);
}

#[tokio::test]
async fn the_newest_time_is_in_the_newest_file() {
    let (lab, oracle, _) = stage().await;
    for sql in [
        format!("SELECT max(message_created_at) FROM {TABLE}"),
        format!("SELECT min(message_created_at), max(input_tokens) FROM {TABLE} WHERE role = 'tool'"),
    ] {
        let (rows, _) = alone(&lab, &sql).await;
        assert_eq!(rows, oracle::unsorted_lines(&oracle.sql(&sql).await.unwrap().collect().await.unwrap()), "{sql}");
    }
}

#[tokio::test]
async fn excluded_files_are_explained() {
    let (lab, _, _) = stage().await;
    let sql = format!("EXPLAIN ANALYZE SELECT message_id FROM {TABLE} ORDER BY message_created_at DESC LIMIT 5");
    let (rows, _) = alone(&lab, &sql).await;
    assert!(rows.concat().contains("dynamic_filter"), "{rows:#?}");
}

const NUMBERS: &str = "numbers";

/// Files of floats with everything that is hard about them.
async fn numbers(session: &Session, rng: &mut Rng) -> Vec<RecordBatch> {
    let mut all = Vec::new();
    for _ in 0..6 {
        let value = |rng: &mut Rng| match rng.below(12) {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(-0.0),
            3 => Some(0.0),
            4 => Some(f64::INFINITY),
            5 => Some(f64::NEG_INFINITY),
            n => Some(rng.below(50) as f64 - 25.0 + n as f64 / 16.0),
        };
        let plain = rng.below(2) == 0;
        let values: Vec<Option<f64>> =
            (0..rng.below(9) + 1).map(|_| if plain { Some(rng.below(90) as f64) } else { value(rng) }).collect();
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let batch = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
        let request = Export { lookup: Some(Vec::new()), ..lab::rows_of(NUMBERS) };
        lab::export(session, request, vec![batch.clone()]).await.unwrap();
        all.push(batch);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_and_nans_keep_their_place() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed, 0);
        let lab = Lab::remote();
        let session = lab.session();
        let batches = numbers(&session, &mut rng).await;
        let oracle = oracle::memory(NUMBERS, batches);
        for order in ["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"] {
            for limit in [1, 3, 12] {
                let sql = format!("SELECT x FROM {NUMBERS} ORDER BY x {order} LIMIT {limit}");
                let expected = oracle::unsorted_lines(&oracle.sql(&sql).await.unwrap().collect().await.unwrap());
                for threads in [1, 3] {
                    let answer = lab::query(&lab.session_of(threads), &sql).await;
                    assert_eq!(oracle::unsorted_lines(&answer.batches), expected, "seed {seed}: {sql}");
                }
            }
        }
        for sql in [
            format!("SELECT max(x), min(x) FROM {NUMBERS}"),
            format!(
                "SELECT count(*) FROM {NUMBERS} a JOIN (SELECT x FROM {NUMBERS} ORDER BY x DESC LIMIT 2) b ON a.x = b.x"
            ),
            format!("SELECT count(*) FROM {NUMBERS} a JOIN (VALUES (0.0), (7.0)) AS b(x) ON a.x = b.x"),
        ] {
            let expected = oracle::answer(&oracle, &sql).await;
            assert_eq!(lab::lines(&session, &sql).await, expected, "seed {seed}: {sql}");
        }
    }
}
