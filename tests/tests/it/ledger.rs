//! Three things of each query: its rows are the oracle's, its ledger adds up, and the ledger is what the store counted.
// @spec E1 E2 P4

use std::collections::BTreeSet;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use daygrain::Session;
use daygrain::observe::{Reason, Tally};
use daygrain::scan::Ledger;
use daygrain_tests::oracle;
use daygrain_tests::reference::{Order, Reference, Size};
use daygrain_tests::stores::{Request, Verb};

use crate::lab::{self, Lab};

const TABLE: &str = "ai_gateway_messages";

/// What a look-up of one session over all days costs when nothing is cached: the manifest list, its manifest, and the
/// footers of the 16 files (of 58) whose bounds enclose the session. Bloom filters came with the footers and leave one
/// file; it was read whole with its footer, since it is small.
const COLD_SESSION: u64 = 1 + 1 + 16;
/// The same again: metadata, footers and bloom filters are remembered, so only the one file's pages are asked for, as one
/// range.
const WARM_SESSION: u64 = 1;
/// Three days by timestamp, nothing cached: the manifest list, its manifest, and the three files.
const COLD_THREE_DAYS: u64 = 1 + 1 + 3;
/// The same again: one request for each of the three files.
const WARM_THREE_DAYS: u64 = 3;
/// Whatever a query reads, its table's newest metadata is looked up first: the hint, the version it names, and whether
/// there is a later one.
const COLD_CATALOG: u64 = 3;
/// The same by a session that saw the table before: the version it saw, and whether there is a later one.
const WARM_CATALOG: u64 = 2;

/// The reference rows in a table, and in memory.
struct Stage {
    lab: Lab,
    oracle: SessionContext,
    /// Live data files.
    files: u64,
    manifests: u64,
}

impl Stage {
    /// A table made by one export of each item.
    async fn new(lab: Lab, exports: Vec<Vec<RecordBatch>>) -> Stage {
        let session = lab.session().with_dataset(Reference::dataset());
        let mut files = 0;
        let manifests = exports.len() as u64;
        for batches in &exports {
            let exported = lab::export(&session, lab::rows_of(TABLE), batches.clone()).await.unwrap();
            assert_eq!(exported.report.rows, batches.iter().map(|b| b.num_rows() as u64).sum::<u64>());
            files += exported.report.files;
        }
        let oracle = oracle::memory(TABLE, exports.into_iter().flatten().collect());
        Stage { lab, oracle, files, manifests }
    }

    /// Runs a query in a session that has asked nothing yet, then once more, and checks both.
    async fn check(&self, sql: &str) -> [Counted; 2] {
        let expected = oracle::answer(&self.oracle, sql).await;
        let session = self.lab.session();
        let cold = self.once(&session, sql, Some(&expected)).await;
        let warm = self.once(&session, sql, Some(&expected)).await;
        let (opened, kept) = (cold.opened.len() as u64, cold.ledger.files.kept());
        // Two scans of one table may open the same file.
        assert!(opened == kept || cold.scans > 1 && opened < kept, "{sql}: {opened} opened, {}", cold.ledger.files);
        // What a dynamic filter excludes depends on which partition is faster.
        let timely = cold.ledger.files.skipped().contains_key(&Reason::DynamicFilter);
        assert!(timely || warm.ledger.requests <= cold.ledger.requests, "{sql}: {warm:?}, cold {cold:?}");
        [cold, warm]
    }

    async fn once(&self, session: &Session, sql: &str, expected: Option<&[String]>) -> Counted {
        self.lab.probe.clear();
        let answer = lab::query(session, sql).await;
        let seen = self.lab.probe.requests();
        let rows = oracle::lines(&answer.batches);
        if let Some(expected) = expected {
            assert_eq!(rows, expected, "{sql}");
        }
        let mut ledger = Ledger::default();
        for scan in &answer.scans {
            self.adds_up(&scan.ledger, sql);
            ledger.merge(&scan.ledger);
        }
        let opened: BTreeSet<String> = seen.iter().filter(|r| is_data(r)).map(|r| r.path.clone()).collect();
        if !answer.scans.is_empty() {
            is_what_the_store_counted(&ledger, &seen, sql);
            assert!(opened.len() as u64 <= ledger.files.kept(), "{sql}: {}", ledger.files);
        }
        let other = seen.iter().filter(|r| !is_data(r) && !is_manifest(r)).count() as u64;
        Counted { rows, scans: answer.scans.len(), ledger, opened, other }
    }

    fn adds_up(&self, ledger: &Ledger, sql: &str) {
        let Ledger { manifests, files, delete_files, row_groups, pages, rows, .. } = ledger;
        for tally in [manifests, files, delete_files, row_groups, pages, rows] {
            assert_eq!(tally.total(), tally.kept() + skipped(tally), "{sql}: {tally}");
        }
        assert_eq!(files.total(), self.files, "{sql}: {files}");
        assert_eq!(manifests.total(), self.manifests, "{sql}: {manifests}");
        assert_eq!(delete_files.total(), 0, "{sql}");
        if manifests.kept() == 0 {
            assert_eq!(files.skipped().get(&Reason::Manifest), Some(&self.files), "{sql}: {files}");
        }
    }
}

fn skipped(tally: &Tally) -> u64 {
    tally.skipped().values().sum()
}

/// What a query gave and cost.
#[derive(Debug)]
struct Counted {
    rows: Vec<String>,
    scans: usize,
    /// Of all its scans.
    ledger: Ledger,
    /// Data files that the store was asked for.
    opened: BTreeSet<String>,
    /// Requests for neither data files nor manifests.
    other: u64,
}

fn is_data(request: &Request) -> bool {
    request.path.ends_with(".parquet")
}

/// A manifest or a manifest list.
fn is_manifest(request: &Request) -> bool {
    request.path.ends_with(".avro")
}

fn is_what_the_store_counted(ledger: &Ledger, seen: &[Request], sql: &str) {
    let of_scans: Vec<&Request> = seen.iter().filter(|r| is_data(r) || is_manifest(r)).collect();
    assert!(of_scans.iter().all(|r| r.verb == Verb::Get), "{sql}: {of_scans:?}");
    assert_eq!(ledger.requests, of_scans.len() as u64, "{sql}: {of_scans:#?}");
    assert_eq!(ledger.bytes, of_scans.iter().map(|r| r.bytes).sum::<u64>(), "{sql}");
}

fn small() -> Reference {
    Reference::new(Size::SMALL, 7)
}

fn shuffled(reference: Reference) -> Vec<RecordBatch> {
    reference.batches(Order::Shuffled, 1000).collect()
}

fn one_session(reference: &Reference) -> String {
    let session = reference.some_session();
    format!("SELECT count(*), sum(input_tokens) FROM {TABLE} WHERE session_id = '{session}'")
}

const THREE_DAYS: &str = "message_created_at >= TIMESTAMP '2026-05-01T00:00:00Z' \
                          AND message_created_at < TIMESTAMP '2026-05-04T00:00:00Z'";

fn three_days() -> String {
    format!("SELECT role, count(*), sum(output_tokens) FROM {TABLE} WHERE {THREE_DAYS} GROUP BY role")
}

/// Queries with one right answer.
fn battery(reference: &Reference) -> Vec<String> {
    let session = reference.some_session();
    let select = |what: &str, rest: &str| format!("SELECT {what} FROM {TABLE} {rest}");
    let count = |filter: &str| select("count(*)", &format!("WHERE {filter}"));
    vec![
        one_session(reference),
        three_days(),
        select("*", &format!("WHERE session_id = '{session}'")),
        select("message_id, content_text", &format!("WHERE session_id = '{session}' AND {THREE_DAYS}")),
        select("count(*)", ""),
        select("model, sum(length(content_text)), count(thinking_text)", "GROUP BY model"),
        select("min(message_created_at), max(message_created_at), min(session_id), max(cost_usd)", ""),
        count(THREE_DAYS),
        count("message_created_at BETWEEN '2026-05-01T12:00:00Z' AND '2026-05-01T13:00:00Z'"),
        count(&format!("session_id NOT IN ('{session}', 'nobody') AND {THREE_DAYS}")),
        count(&format!("session_id = '{session}' OR conversation_id IS NULL AND {THREE_DAYS}")),
        count(&format!("NOT (session_id <> '{session}')")),
        count(&format!("session_id IN ('nobody', '{session}') AND input_tokens > 1000")),
        select("session_id, count(*)", "WHERE conversation_id IS NULL GROUP BY session_id"),
        count("conversation_id IS NOT NULL AND thinking_text IS NULL"),
        count(&format!("session_id LIKE '{}%'", &session[..3])),
        count(&format!("starts_with(session_id, '{}') AND cost_usd > 0.01", &session[..2])),
        count("session_id LIKE '%abc%'"),
        count("session_id = 'nobody'"),
        count("message_created_at < TIMESTAMP '2026-01-01T00:00:00Z'"),
        count("message_created_at IS NULL"),
        count("top_p IS NULL AND is_error"),
        count("top_p > 0.5"),
        count("date = '2026-05-02'"),
        count("status_code = 529 AND date IN ('2026-05-02', '2026-05-20')"),
        count("latency_ms > 1e300 OR latency_ms < 300"),
        count("tool_exit_code IS DISTINCT FROM 0"),
        count("date_trunc('day', message_created_at) = TIMESTAMP '2026-05-02T00:00:00Z'"),
        select("count(*)", &format!("a JOIN {TABLE} b USING (message_id) WHERE a.session_id = '{session}'")),
        select("message_id", "ORDER BY message_created_at DESC, message_id LIMIT 7"),
        select("session_id, message_index", &format!("WHERE {THREE_DAYS} ORDER BY session_id, message_index LIMIT 9")),
    ]
}

async fn check_all(stage: &Stage, reference: &Reference) {
    for sql in battery(reference) {
        stage.check(&sql).await;
    }
    for (limit, filter) in [(1, ""), (10, ""), (700, ""), (6_000, ""), (3, "WHERE role = 'tool'")] {
        check_limit(stage, limit, filter).await;
    }
}

/// Any rows that match will do, as many as were asked for. One partition: with several, a request can be counted and
/// given up before it is sent, because another partition has found enough.
async fn check_limit(stage: &Stage, limit: usize, filter: &str) {
    let all = format!("SELECT message_id, session_id, message_created_at FROM {TABLE} {filter}");
    let matching = oracle::answer(&stage.oracle, &all).await;
    let session = stage.lab.session_of(1);
    for _ in 0..2 {
        // The file after the last that was wanted may still be being opened, by a task that has been told to stop.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let got = stage.once(&session, &format!("{all} LIMIT {limit}"), None).await;
        assert_eq!(got.rows.len(), limit.min(matching.len()), "{filter} LIMIT {limit}");
        assert!(got.rows.iter().all(|row| matching.binary_search(row).is_ok()), "{filter} LIMIT {limit}");
        assert!(limit > 10 || got.opened.len() < stage.files as usize, "LIMIT {limit} opened every file");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_a_remote_table_cost_what_they_say() {
    let reference = small();
    let stage = Stage::new(Lab::remote(), vec![shuffled(reference)]).await;
    assert_eq!(stage.files, 58, "a file a day");
    check_all(&stage, &reference).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_a_local_table_cost_what_they_say() {
    let reference = small();
    let stage = Stage::new(Lab::local(), vec![shuffled(reference)]).await;
    check_all(&stage, &reference).await;
}

/// Days that several exports touched hold several files, whose ranges overlap.
// @spec W6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_overlapping_exports_cost_what_they_say() {
    let reference = small();
    let rows = reference.rows(Order::Time);
    let (early, late) = (&rows[..3_000], &rows[2_000..]);
    let odd: Vec<_> = late.iter().copied().step_by(2).collect();
    let even: Vec<_> = late.iter().copied().skip(1).step_by(2).collect();
    let exports = vec![vec![reference.batch(&odd)], vec![reference.batch(early)], vec![reference.batch(&even)]];
    let stage = Stage::new(Lab::remote(), exports).await;
    assert!(stage.files > 70, "{}", stage.files);
    check_all(&stage, &reference).await;
}

/// Days that are larger than what is read with a footer: pages are asked for one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_large_files_cost_what_they_say() {
    let reference = Reference::new(Size { rows: 6_000, sessions: 40, days: 2 }, 7);
    for lab in [Lab::remote(), Lab::local()] {
        let stage = Stage::new(lab, vec![shuffled(reference)]).await;
        let session = reference.some_session();
        for sql in [
            one_session(&reference),
            format!("SELECT * FROM {TABLE} WHERE session_id = '{session}'"),
            format!("SELECT content_text FROM {TABLE} WHERE input_tokens = 1234"),
            format!("SELECT role, sum(output_tokens) FROM {TABLE} GROUP BY role"),
            format!("SELECT message_id FROM {TABLE} WHERE message_created_at > '2026-04-11T20:00:00Z'"),
        ] {
            stage.check(&sql).await;
        }
        let [_, warm] = stage.check(&one_session(&reference)).await;
        // The lookup column and the other one may lie too far apart for one request.
        assert!(warm.ledger.requests <= 2 * warm.ledger.row_groups.kept(), "{warm:?}");
        let skipped_rows = warm.ledger.rows.skipped().get(&Reason::PageIndex);
        assert!(skipped_rows.is_some_and(|rows| *rows > 3_000), "{}", warm.ledger.rows);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_main_queries_cost_exactly_this() {
    let reference = small();
    for lab in [Lab::remote(), Lab::local()] {
        let stage = Stage::new(lab, vec![shuffled(reference)]).await;
        let requests = |[cold, warm]: [Counted; 2]| {
            assert_eq!((cold.other, warm.other), (COLD_CATALOG, WARM_CATALOG));
            (cold.ledger.requests, warm.ledger.requests)
        };
        assert_eq!(requests(stage.check(&one_session(&reference)).await), (COLD_SESSION, WARM_SESSION));
        assert_eq!(requests(stage.check(&three_days()).await), (COLD_THREE_DAYS, WARM_THREE_DAYS));
    }
}

/// Rows of whole days are counted without a data file, however the days are asked for.
// @spec P4 P6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_days_are_counted_from_metadata() {
    let reference = small();
    let stage = Stage::new(Lab::remote(), vec![shuffled(reference)]).await;
    let session = stage.lab.session();
    let at = "message_created_at";
    for (filter, days) in [
        (THREE_DAYS.to_owned(), 3),
        (format!("CAST({at} AS DATE) = DATE '2026-05-02'"), 1),
        (format!("to_date({at}) BETWEEN DATE '2026-05-02' AND DATE '2026-05-03'"), 2),
        (format!("date_trunc('day', {at}) = '2026-05-02T00:00:00Z'"), 1),
        (format!("date_bin(INTERVAL '1 day', {at}) IN ('2026-05-02T00:00:00Z', '2026-05-04T00:00:00Z')"), 2),
        (format!("{at} + INTERVAL '1 day' >= '2026-05-31T00:00:00Z' AND {at} < '2026-06-01T00:00:00Z'"), 2),
    ] {
        let sql = format!("SELECT count(*) FROM {TABLE} WHERE {filter}");
        let expected = oracle::answer(&stage.oracle, &sql).await;
        let counted = stage.once(&session, &sql, Some(&expected)).await;
        assert!(counted.opened.is_empty(), "{sql}: {:?}", counted.opened);
        let answer = lab::query(&session, &format!("SELECT message_id FROM {TABLE} WHERE {filter}")).await;
        assert_eq!(answer.scans[0].ledger.files.kept(), days, "{sql}");
        // Every row of those files is one of them: no row was tested.
        assert_eq!(skipped(&answer.scans[0].ledger.rows), 0, "{sql}");
    }
    let ours = format!("SELECT count(*) FROM {TABLE} WHERE days({at}) = 20575");
    let counted = stage.once(&session, &ours, None).await;
    assert!(counted.opened.is_empty(), "{:?}", counted.opened);
    let same = format!("SELECT count(*) FROM {TABLE} WHERE CAST({at} AS DATE) = DATE '2026-05-02'");
    assert_eq!(counted.rows, oracle::answer(&stage.oracle, &same).await);
}

/// A session that runs past midnight costs a request for each day it touches, however many days there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_session_costs_a_request_a_day() {
    let reference = small();
    let stage = Stage::new(Lab::remote(), vec![shuffled(reference)]).await;
    let longest =
        format!("SELECT session_id, count(DISTINCT date) FROM {TABLE} GROUP BY session_id ORDER BY 2 DESC, 1 LIMIT 1");
    let found = oracle::answer(&stage.oracle, &longest).await.remove(0);
    let (session, days) = found.split_once('|').unwrap();
    let sql = format!("SELECT count(*), sum(input_tokens) FROM {TABLE} WHERE session_id = '{session}'");
    let [_, warm] = stage.check(&sql).await;
    assert!(days.parse::<u64>().unwrap() > 1, "{found}");
    assert_eq!(warm.ledger.requests.to_string(), days);
}

/// `EXPLAIN PRUNING` is the ledger as rows.
// @spec E3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_pruning_shows_the_ledger() {
    let reference = small();
    let stage = Stage::new(Lab::remote(), vec![shuffled(reference)]).await;
    let session = stage.lab.session();
    for sql in [one_session(&reference), three_days()] {
        let ledger = stage.once(&session, &sql, None).await.ledger;
        let shown = lab::lines(&session, &format!("EXPLAIN PRUNING {sql}")).await;
        let levels = [
            ("manifests", &ledger.manifests),
            ("files", &ledger.files),
            ("delete_files", &ledger.delete_files),
            ("row_groups", &ledger.row_groups),
            ("pages", &ledger.pages),
            ("rows", &ledger.rows),
        ];
        let mut expected = Vec::new();
        for (level, tally) in levels {
            let (total, kept) = (tally.total(), tally.kept());
            expected.push(format!("{TABLE}|{level}|{total}|{kept}|{}|∅", skipped(tally)));
            let reasons = tally.skipped().iter();
            expected.extend(reasons.map(|(why, n)| format!("{TABLE}|{level}|{total}|∅|{n}|{why}")));
        }
        expected.sort();
        assert_eq!(shown, expected, "{sql}");
    }
}
