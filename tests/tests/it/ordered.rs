//! Files that attest their order are not sorted again, and rows come in that order.

use daygrain_tests::oracle;
use daygrain_tests::reference::{Order, Reference, Size};

use crate::lab::{self, Lab};

const TABLE: &str = "ai_gateway_messages";
const DAY: &str = "message_created_at >= '2026-05-02T00:00:00Z' AND message_created_at < '2026-05-03T00:00:00Z'";

/// One file a day for each export.
async fn stage(exports: usize) -> (Lab, datafusion::prelude::SessionContext) {
    let reference = Reference::new(Size::SMALL, 7);
    let lab = Lab::remote();
    let session = lab.session().with_dataset(Reference::dataset());
    let rows = reference.rows(Order::Shuffled);
    let batches: Vec<_> = rows.chunks(rows.len().div_ceil(exports)).map(|rows| reference.batch(rows)).collect();
    for batch in &batches {
        lab::export(&session, lab::rows_of(TABLE), vec![batch.clone()]).await.unwrap();
    }
    (lab, oracle::memory(TABLE, batches))
}

async fn plan(lab: &Lab, threads: usize, sql: &str) -> String {
    let answer = lab::query(&lab.session_of(threads), &format!("EXPLAIN {sql}")).await;
    oracle::unsorted_lines(&answer.batches).concat()
}

#[tokio::test]
async fn what_is_in_order_is_not_sorted() {
    let (lab, oracle) = stage(1).await;
    for keys in ["session_id", "session_id, conversation_id", "session_id, conversation_id NULLS LAST, cwd"] {
        let sql = format!("SELECT session_id, conversation_id, cwd FROM {TABLE} WHERE {DAY} ORDER BY {keys}");
        let plan = plan(&lab, 1, &sql).await;
        assert!(plan.contains("output_ordering") && !plan.contains("SortExec"), "{sql}: {plan}");
        let all = format!("{sql}, session_id, conversation_id, cwd");
        let got = lab::query(&lab.session_of(1), &sql).await;
        let got = oracle::unsorted_lines(&got.batches);
        let expected = oracle::unsorted_lines(&oracle.sql(&all).await.unwrap().collect().await.unwrap());
        assert_eq!(got.len(), expected.len());
        // Rows that are equal in the keys may come in any order: only the keys are compared.
        let sessions =
            |lines: &[String]| lines.iter().map(|l| l.split('|').next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(sessions(&got), sessions(&expected), "{sql}");
    }
}

#[tokio::test]
async fn another_order_is_sorted() {
    let (lab, _) = stage(1).await;
    for keys in
        ["session_id DESC", "conversation_id", "session_id NULLS FIRST, conversation_id NULLS FIRST", "cwd, session_id"]
    {
        let sql = format!("SELECT session_id FROM {TABLE} WHERE {DAY} ORDER BY {keys}");
        let plan = plan(&lab, 1, &sql).await;
        assert!(plan.contains("SortExec"), "{sql}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_files_are_in_order_only_side_by_side() {
    let (lab, oracle) = stage(2).await;
    let sql = format!("SELECT session_id FROM {TABLE} WHERE {DAY} ORDER BY session_id");
    let expected = oracle::unsorted_lines(&oracle.sql(&sql).await.unwrap().collect().await.unwrap());
    // Two files: in one partition one follows the other, in two each is alone.
    for (threads, sorted) in [(1, true), (2, false), (5, false)] {
        let plan = plan(&lab, threads, &sql).await;
        assert_eq!(plan.contains("SortExec"), sorted, "{threads} threads: {plan}");
        let got = lab::query(&lab.session_of(threads), &sql).await;
        assert_eq!(oracle::unsorted_lines(&got.batches), expected, "{threads} threads");
        let grouped = format!("SELECT session_id, count(*) FROM {TABLE} WHERE {DAY} GROUP BY session_id");
        let expected = oracle::answer(&oracle, &grouped).await;
        assert_eq!(lab::lines(&lab.session_of(threads), &grouped).await, expected, "{threads} threads");
    }
}
