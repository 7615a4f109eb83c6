//! Rows against plain evaluation, numbers against what the store counted.

mod deletes;
mod deleting;
mod evolution;
mod fixture;
mod foreign;
mod lies;
mod structs;
mod topk;
mod trouble;

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use iceberg::spec::PrimitiveType;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Runtime;

use crate::observe::{Reason, Tally};
use crate::schema::to_arrow;
pub(super) use deleting::vector_blob;
use fixture::{Answer, LOCAL, REMOTE, Table, column};

const DAYS: std::ops::Range<i32> = 20_600..20_605;
const DAY: i64 = 86_400_000_000;
const ROWS: usize = 450;

/// Each row as one line, sorted.
fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap());
        let columns: Vec<_> = columns.collect();
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    lines.sort();
    lines
}

/// A day of events, sorted by session: nulls, NaN, both zeros, long texts with a common beginning, and one column that is
/// larger than the others together.
fn day(table: &Table, day: i32) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(day as u64);
    let mut rows: Vec<_> = (0..ROWS)
        .map(|_| {
            let session = format!("s{:02}", random.random_range(0..40) * 2);
            let session = random.random_bool(0.95).then_some(session);
            let ts = i64::from(day) * DAY + random.random_range(0..DAY);
            let tokens = random.random_bool(0.9).then(|| random.random_range(-5..100_i64));
            let cost = match random.random_range(0..10) {
                0 => None,
                1 => Some(f64::NAN),
                2 => Some(0.0),
                3 => Some(-0.0),
                _ => Some(random.random_range(-4..4) as f64 / 2.0),
            };
            let text = format!("{}{}", "x".repeat(70), random.random_range(0..30));
            let text = random.random_bool(0.9).then_some(text);
            let blob: String = (0..200).map(|_| random.random_range('a'..='z')).collect();
            (session, ts, tokens, cost, text, random.random_range(0..3), blob)
        })
        .collect();
    rows.sort_by(|a, b| (a.0.is_none(), &a.0, a.1).cmp(&(b.0.is_none(), &b.0, b.1)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|r| r.1)).with_timezone("+00:00")),
        Arc::new(StringArray::from_iter(rows.iter().map(|r| r.0.clone()))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.2))),
        Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.3))),
        Arc::new(StringArray::from_iter(rows.iter().map(|r| r.4.clone()))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.5))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.6))),
    ];
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    RecordBatch::try_new(stored, columns).unwrap()
}

struct Events {
    table: Table,
    ours: SessionContext,
    /// The same rows in memory.
    plain: SessionContext,
}

impl Events {
    async fn new(root: &'static str, partitions: usize) -> Events {
        let mut table = Table::new(
            root,
            vec![
                column(1, "ts", PrimitiveType::Timestamptz),
                column(2, "session", PrimitiveType::String),
                column(3, "tokens", PrimitiveType::Long),
                column(4, "cost", PrimitiveType::Double),
                column(5, "text", PrimitiveType::String),
                column(6, "kind", PrimitiveType::Int),
                column(7, "blob", PrimitiveType::String),
            ],
            Some(1),
        );
        table.properties = |properties| properties.set_column_bloom_filter_enabled("session".into(), true);
        let shown = to_arrow(&table.schema).unwrap();
        let mut batches = Vec::new();
        for d in DAYS {
            let rows = day(&table, d);
            table.add(&rows, Some(d)).await;
            let columns = rows.columns().iter().zip(shown.fields());
            let columns = columns.map(|(c, field)| arrow::compute::cast(c, field.data_type()).unwrap()).collect();
            batches.push(RecordBatch::try_new(Arc::clone(&shown), columns).unwrap());
        }
        let plain = SessionContext::new();
        plain.register_table("t", Arc::new(MemTable::try_new(shown, vec![batches]).unwrap())).unwrap();
        Events { ours: table.session(table.view().await, partitions), plain, table }
    }

    async fn plain(&self, sql: &str) -> Vec<String> {
        lines(&self.plain.sql(sql).await.unwrap().collect().await.unwrap())
    }

    async fn ours(&self, sql: &str) -> Answer {
        self.table.query(&self.ours, sql).await
    }
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
/// The same events as objects, read by one partition, and as local files, read by three.
static EVENTS: LazyLock<[tokio::sync::Mutex<Events>; 2]> = LazyLock::new(|| {
    [(REMOTE, 1), (LOCAL, 3)]
        .map(|(root, partitions)| tokio::sync::Mutex::new(RUNTIME.block_on(Events::new(root, partitions))))
});

/// The numbers of a report add up, and are what the store counted.
fn check(answer: &Answer) {
    if let Some(report) = &answer.report {
        assert_eq!((report.ledger.requests, report.ledger.bytes), answer.counted);
    }
    adds_up(answer);
}

/// The same without the store's count: under a LIMIT the next file may be given up between counting a request and sending it.
fn adds_up(answer: &Answer) {
    let Some(report) = &answer.report else { return };
    let ledger = &report.ledger;
    assert_eq!(ledger.files.total(), DAYS.len() as u64);
    assert_eq!(ledger.manifests.total(), 1);
    assert!(ledger.rows.total() <= (ROWS * DAYS.len()) as u64);
    for tally in [&ledger.files, &ledger.row_groups, &ledger.pages, &ledger.rows] {
        assert_eq!(tally.total(), tally.kept() + tally.skipped_total());
    }
}

fn timestamp() -> impl Strategy<Value = String> {
    (DAYS.start - 1..DAYS.end + 1, 0..4).prop_map(|(day, quarter)| {
        let at = i64::from(day) * DAY + i64::from(quarter) * DAY / 4;
        let at = chrono::DateTime::from_timestamp_micros(at).unwrap();
        format!("TIMESTAMP '{}'", at.format("%Y-%m-%dT%H:%M:%SZ"))
    })
}

fn comparison() -> impl Strategy<Value = String> {
    let op = || prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let number = prop::sample::select(vec!["-2.0", "0.0", "-0.0", "1.5", "'NaN'::double", "9.0"]);
    prop_oneof![
        (op(), timestamp()).prop_map(|(op, at)| format!("ts {op} {at}")),
        (timestamp(), timestamp()).prop_map(|(from, to)| format!("ts BETWEEN {from} AND {to}")),
        (op(), 0..82).prop_map(|(op, s)| format!("session {op} 's{s:02}'")),
        (0..82, 0..82, any::<bool>())
            .prop_map(|(a, b, not)| format!("session {}IN ('s{a:02}', 's{b:02}')", if not { "NOT " } else { "" })),
        // Longer than the lists that the engine turns into ORs.
        prop::collection::vec(0..82, 5..8).prop_map(|each| {
            let each: Vec<String> = each.into_iter().map(|s| format!("'s{s:02}'")).collect();
            format!("session IN ({})", each.join(", "))
        }),
        (op(), -6..101).prop_map(|(op, n)| format!("tokens {op} {n}")),
        (op(), number).prop_map(|(op, n)| format!("cost {op} {n}")),
        (op(), 0..31).prop_map(|(op, n)| format!("text {op} '{}{n}'", "x".repeat(70))),
        (prop::sample::select(vec!["ts", "session", "tokens", "cost", "text"]), any::<bool>())
            .prop_map(|(c, not)| format!("{c} IS {}NULL", if not { "NOT " } else { "" })),
        Just("length(session) + kind > 4".to_owned()),
        Just("tokens > kind * 30".to_owned()),
        Just("kind = 1".to_owned()),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    comparison().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|all| format!("({})", all.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|any| format!("({})", any.join(" OR "))),
            inner.prop_map(|one| format!("NOT ({one})")),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let shape = prop::sample::select(vec![
        "SELECT count(*) FROM t WHERE ",
        "SELECT count(tokens), sum(tokens), min(session), max(ts) FROM t WHERE ",
        "SELECT text FROM t WHERE ",
        "SELECT * FROM t WHERE ",
        "SELECT blob FROM t WHERE ",
        "SELECT tokens + kind AS n, session FROM t WHERE ",
    ]);
    let first = (prop::sample::select(vec!["ts", "tokens", "cost", "kind", "session"]), any::<bool>(), any::<bool>());
    let first = (first, prop::sample::select(vec![1, 10, 300])).prop_map(|((column, down, nulls), limit)| {
        let (down, nulls) = (if down { "DESC" } else { "ASC" }, if nulls { "FIRST" } else { "LAST" });
        // No two rows have the same time.
        format!("ORDER BY {column} {down} NULLS {nulls}, ts LIMIT {limit}")
    });
    prop_oneof![
        3 => (shape, condition()).prop_map(|(shape, condition)| format!("{shape}{condition}")),
        1 => first.clone().prop_map(|first| format!("SELECT ts, blob FROM t {first}")),
        1 => (condition(), first).prop_map(|(condition, first)| format!("SELECT ts, blob FROM t WHERE {condition} {first}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whatever is skipped, decoded late or proven: the rows are those of the query over the same rows in memory.
    #[test]
    fn rows_are_those_of_plain_evaluation(sql in query(), which in 0..2_usize) {
        // Made outside of the runtime, which it runs on.
        let events = &EVENTS[which];
        let (expected, answer) = RUNTIME.block_on(async {
            let events = events.lock().await;
            (events.plain(&sql).await, events.ours(&sql).await)
        });
        prop_assert_eq!(lines(&answer.batches), expected, "{}", sql);
        if sql.contains("LIMIT") { adds_up(&answer) } else { check(&answer) }
    }
}

fn skipped(tally: &Tally, reason: Reason) -> u64 {
    tally.skipped().get(&reason).copied().unwrap_or_default()
}

fn run<T>(test: impl AsyncFnOnce(&Events) -> T) -> T {
    RUNTIME.block_on(async {
        let events = Events::new(REMOTE, 3).await;
        test(&events).await
    })
}

#[test]
fn a_day_reads_one_file_and_not_its_timestamps() {
    run(async |events| {
        let sql = "SELECT kind, count(*) FROM t WHERE ts >= '2026-05-28T00:00:00Z' AND ts < '2026-05-29T00:00:00Z' GROUP BY kind";
        let answer = events.ours(sql).await;
        assert_eq!(lines(&answer.batches), events.plain(sql).await);
        check(&answer);
        let report = answer.report.unwrap();
        assert_eq!(report.ledger.files.to_string(), "1/5 (partition 4)");
        assert_eq!(report.residual, None, "the partition proves the condition");
        assert_eq!(report.ledger.rows.to_string(), "450/450");
        assert!(report.filtered && report.partitioned);
    });
}

#[test]
fn a_lookup_opens_only_what_may_hold_it() {
    run(async |events| {
        // An odd session is in no file, although every file's bounds include it.
        let sql = "SELECT count(*), sum(tokens) FROM t WHERE session = 's21'";
        let cold = events.ours(sql).await;
        check(&cold);
        let ledger = cold.report.unwrap().ledger;
        assert_eq!(ledger.files.to_string(), "5/5");
        assert_eq!(ledger.row_groups.kept(), 0);
        assert!(skipped(&ledger.row_groups, Reason::BloomFilter) >= 5, "{}", ledger.row_groups);
        assert_eq!(ledger.requests, 7, "manifest list, manifest and each small file, whole");
        let warm = events.ours(sql).await;
        check(&warm);
        assert_eq!(warm.report.unwrap().ledger.requests, 0, "cached bloom filters exclude every file");

        let sql = "SELECT count(*), sum(tokens) FROM t WHERE session = 's20'";
        let found = events.ours(sql).await;
        check(&found);
        assert_eq!(lines(&found.batches), events.plain(sql).await);
        let ledger = found.report.unwrap().ledger;
        assert!(skipped(&ledger.pages, Reason::PageIndex) > 0, "{}", ledger.pages);
        assert!(skipped(&ledger.rows, Reason::PageIndex) > 0, "{}", ledger.rows);
        assert_eq!(ledger.requests, ledger.row_groups.kept(), "neighbouring pages share a request");
    });
}

#[test]
fn a_list_is_looked_up_value_by_value() {
    run(async |events| {
        let sql = "SELECT count(*) FROM t WHERE session IN ('s01', 's03', 's20', 's05', 's07')";
        let answer = events.ours(sql).await;
        check(&answer);
        assert_eq!(lines(&answer.batches), events.plain(sql).await);
        assert_ne!(lines(&answer.batches), ["0"]);
        let none = events.ours(&sql.replace("'s20'", "'s21'")).await;
        assert_eq!(lines(&none.batches), ["0"]);
        assert_eq!(none.report.unwrap().ledger.row_groups.kept(), 0, "no value is in any bloom filter");
    });
}

#[test]
fn large_columns_are_decoded_only_where_small_ones_match() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 1).await;
        let sql = "SELECT blob FROM t WHERE tokens = 50 AND kind = 1";
        let cold = events.ours(sql).await;
        check(&cold);
        assert_eq!(lines(&cold.batches), events.plain(sql).await);
        let warm = events.ours(sql).await;
        check(&warm);
        assert_eq!(lines(&warm.batches), events.plain(sql).await);
        let ledger = warm.report.unwrap().ledger;
        assert!(skipped(&ledger.pages, Reason::Filter) > 0, "{}", ledger.pages);
        assert!(ledger.bytes < cold.report.unwrap().ledger.bytes / 2);
    });
}

#[test]
fn counts_come_from_metadata() {
    run(async |events| {
        let answer = events.ours("SELECT count(*), count(tokens) FROM t").await;
        assert_eq!(lines(&answer.batches), events.plain("SELECT count(*), count(tokens) FROM t").await);
        assert!(answer.report.is_none(), "the optimiser answers: no scan is left");
        assert_eq!(answer.counted.0, 2, "manifest list and manifest");

        let sql = "SELECT count(*) FROM t WHERE ts >= '2026-05-28T00:00:00Z'";
        let answer = events.ours(sql).await;
        assert_eq!(lines(&answer.batches), events.plain(sql).await);
        check(&answer);
        let ledger = answer.report.unwrap().ledger;
        assert_eq!(ledger.files.to_string(), "0/5 (partition 1, metadata 4)");
        assert_eq!(ledger.requests, 0, "manifests are cached");
        let bounds = "SELECT min(ts), max(tokens) FROM t";
        assert_eq!(lines(&events.ours(bounds).await.batches), events.plain(bounds).await, "bounds are no answers");
    });
}

#[test]
fn a_limit_stops_planning_and_reading() {
    run(async |events| {
        let answer = events.ours("SELECT ts FROM t LIMIT 10").await;
        adds_up(&answer);
        assert_eq!(lines(&answer.batches).len(), 10);
        let ledger = answer.report.unwrap().ledger;
        assert_eq!(ledger.files.to_string(), "1/5 (limit 4)");
        // Rare enough that the first ten rows of each file don't have ten matches between them.
        let rare = "FROM t WHERE tokens = 50";
        assert!(events.plain(&format!("SELECT ts {rare}")).await.len() >= 10);
        let answer = events.ours(&format!("SELECT ts {rare} LIMIT 10")).await;
        adds_up(&answer);
        assert_eq!(lines(&answer.batches).len(), 10);
    });
}

#[test]
fn a_plan_that_runs_twice_reports_its_last_run() {
    run(async |events| {
        let first = events.ours("SELECT text FROM t WHERE tokens > 90").await;
        let before = first.report.unwrap().ledger;
        datafusion::physical_plan::collect(Arc::clone(&first.plan), events.ours.task_ctx()).await.unwrap();
        let again = super::reports(&first.plan).pop().unwrap().ledger;
        assert_eq!(again.rows, before.rows);
        assert_eq!(again.pages, before.pages);
        assert_eq!(again.row_groups, before.row_groups);
        assert!(again.bytes < before.bytes, "footers are cached");
    });
}

#[test]
fn explain_shows_the_levels() {
    run(async |events| {
        let sql = "EXPLAIN SELECT text FROM t WHERE ts >= '2026-05-28T12:00:00Z' AND session = 's20'";
        let text = lines(&events.ours(sql).await.batches).join("\n");
        for part in [
            "table=t, snapshot=1, partition=[spec 0: day >= 2026-05-28]",
            "residual=ts >= 2026-05-28T12:00:00+00:00 AND session = 's20'",
            "manifests=1/1, files=4/5 (partition 1), delete_files=0/0",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("FilterExec"), "the scan has taken the filter over:\n{text}");
        let text = lines(&events.ours(&sql.replace("EXPLAIN", "EXPLAIN ANALYZE")).await.batches).join("\n");
        assert!(text.contains("row_groups=") && text.contains("requests="), "{text}");
    });
}
