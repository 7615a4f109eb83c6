//! Faults that people met in other engines, each as rows, a question and the right answer.
//!
//! The name of a case ends with the number it has in the list of public faults. What belongs to such a case and stands
//! elsewhere: deletes (27 to 32) beside the reader, in `exec/tests/deletes.rs`; lost and repeated answers (38) in `faults`, writers that meet (39) in `concurrent`.
// @spec P1 P2 P3 P8 S8

mod defaults;
mod foreign;
mod older;

use object_store::ObjectStoreExt;
use object_store::path::Path;

use daygrain::Session;
use daygrain::session::{Export, ExportProgress, Exported};
use daygrain::sink::Outcome;
use daygrain_tests::oracle;

use crate::lab::{self, Lab};

/// A table made by one export a query.
struct Case {
    lab: Lab,
    session: Session,
}

async fn export(session: &Session, query: &str, timestamp: Option<&str>) -> daygrain::Result<Exported> {
    let request = Export {
        dataset: "t".to_owned(),
        query: Some(query.to_owned()),
        primary_timestamp: timestamp.map(str::to_owned),
        ..Export::default()
    };
    session.export(request, ExportProgress::default()).await
}

impl Case {
    async fn new(timestamp: Option<&str>, exports: &[&str]) -> Case {
        let lab = Lab::remote();
        let session = lab.session();
        for query in exports {
            export(&session, query, timestamp).await.unwrap_or_else(|e| panic!("{query}\n{e}"));
        }
        Case { lab, session }
    }

    /// Each filter must leave so many rows, of all in the table.
    async fn counts(&self, expected: &[(&str, usize)]) {
        for (filter, rows) in expected {
            let found = self.one(&format!("SELECT count(*) FROM t WHERE {filter}")).await;
            assert_eq!(found, rows.to_string(), "{filter}");
            let shown = lab::query(&self.session, &format!("SELECT * FROM t WHERE {filter}")).await;
            assert_eq!(oracle::lines(&shown.batches).len(), *rows, "{filter}");
        }
    }

    /// As many rows as the same engine finds in memory.
    async fn as_in_memory(&self, filters: &[&str]) {
        let rows = lab::query(&self.session, "SELECT * FROM t").await.batches;
        let memory = oracle::memory("t", rows);
        for filter in filters {
            let sql = format!("SELECT * FROM t WHERE {filter}");
            assert_eq!(lab::lines(&self.session, &sql).await, oracle::answer(&memory, &sql).await, "{filter}");
        }
    }

    async fn one(&self, sql: &str) -> String {
        lab::lines(&self.session, sql).await.join(";")
    }

    /// Files that a query opens, of how many.
    async fn files(&self, filter: &str) -> (u64, u64) {
        let answer = lab::query(&self.session, &format!("SELECT * FROM t WHERE {filter}")).await;
        let files = &answer.scans[0].ledger.files;
        (files.kept(), files.total())
    }
}

/// `SELECT … FROM (VALUES …) t(columns)`.
fn values(rows: &str, columns: &str) -> String {
    format!("SELECT * FROM (VALUES {rows}) v({columns})")
}

#[tokio::test]
async fn a_cast_of_a_column_is_not_transparent_1() {
    let case = Case::new(None, &[&values("(1.00000001), (1.0), (2.5)", "x")]).await;
    case.counts(&[("cast(x AS REAL) = 1", 2), ("cast(x AS INT) = 2", 1), ("x = 1", 1)]).await;
}

#[tokio::test]
async fn constants_of_another_type_3() {
    let rows = values(
        "(arrow_cast(1, 'Int32'), DATE '2024-01-01', CAST(1.5 AS REAL), '05'),
         (arrow_cast(2, 'Int32'), DATE '2024-01-02', CAST(2.0 AS REAL), '5'),
         (arrow_cast(3, 'Int32'), DATE '2024-01-03', CAST(NULL AS REAL), '6')",
        "i, d, x, k",
    );
    for timestamp in [None, Some("d")] {
        let case = Case::new(timestamp, &[&rows]).await;
        let expected = [
            ("i < 2.5", 2),
            ("d < TIMESTAMP '2024-01-02 12:00:00'", 2),
            ("x = 1.5", 1),
            ("x < 1e300", 2),
            ("cast(k AS INT) = 5", 2),
            ("i > 2147483648", 0),
            ("i < 1e10", 3),
        ];
        case.counts(&expected).await;
    }
}

#[tokio::test]
async fn days_before_1970_7() {
    let rows = values(
        "(TIMESTAMP '1969-12-31 23:59:59.999999'), (TIMESTAMP '1969-12-31 00:00:00'), (TIMESTAMP '1970-01-01 00:00:00'),
         (TIMESTAMP '1960-02-29 12:00:00'), (CAST(NULL AS TIMESTAMP))",
        "ts",
    );
    let case = Case::new(Some("ts"), &[&rows]).await;
    let expected = [
        ("ts = '1969-12-31 23:59:59.999999'", 1),
        ("ts >= '1969-12-31 12:00'", 2),
        ("ts IS NULL", 1),
        ("ts < '1970-01-01'", 3),
        ("ts <= '1960-02-29 12:00:00'", 1),
        ("ts > '1969-12-31 23:59:59.999998' AND ts < '1970-01-01 00:00:00'", 1),
    ];
    case.counts(&expected).await;
    assert_eq!(case.files("ts >= '1969-12-31 12:00'").await, (2, 4));
    assert_eq!(case.files("ts IS NULL").await, (1, 4));
}

#[tokio::test]
async fn inside_a_day_9() {
    let day = |day: u32, hours: &[u32]| {
        let rows: Vec<_> = hours.iter().map(|h| format!("(TIMESTAMP '2024-01-{day:02}T{h:02}:00:00')")).collect();
        values(&rows.join(", "), "ts")
    };
    let (first, second) = (day(1, &[4, 10, 11, 13]), day(2, &[4, 8, 11, 12, 16, 20]));
    let case = Case::new(Some("ts"), &[&first, &second]).await;
    case.counts(&[("ts < '2024-01-02 12:00'", 7), ("ts <> '2024-01-02 04:00'", 9), ("ts > '2024-01-02 12:00'", 2)])
        .await;
}

#[tokio::test]
async fn a_cast_to_a_date_10() {
    let rows = values(
        "(TIMESTAMP '2024-01-01T23:59:59.999999'), (TIMESTAMP '2024-01-02T00:00:00'), (TIMESTAMP '2024-01-02T23:59:59'),
         (TIMESTAMP '2024-01-03T00:00:00')",
        "ts",
    );
    let case = Case::new(Some("ts"), &[&rows]).await;
    let expected = [
        ("cast(ts AS DATE) = DATE '2024-01-02'", 2),
        ("cast(ts AS DATE) > '2024-01-01'", 3),
        ("cast(ts AS DATE) IN (DATE '2024-01-02', DATE '2024-01-03')", 3),
        ("to_date(ts) = '2024-01-02'", 2),
    ];
    case.counts(&expected).await;
    assert_eq!(case.files("cast(ts AS DATE) = DATE '2024-01-02'").await, (1, 3));
}

#[tokio::test]
async fn truncated_times_11() {
    let zone = "arrow_cast('2024-04-06T%:30:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))')";
    let instants = (11..20).map(|hour| format!("({})", zone.replace('%', &hour.to_string())));
    let rows = values(&instants.collect::<Vec<_>>().join(", "), "ts");
    let other = ["2024-04-05", "2024-04-07"]
        .map(|day| values(&format!("(arrow_cast('{day}T15:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))'))"), "ts"));
    let case = Case::new(Some("ts"), &[&rows, &other[0], &other[1]]).await;
    case.counts(&[("date_trunc('day', ts) = '2024-04-06T00:00:00Z'", 9)]).await;
    assert_eq!(case.files("date_trunc('day', ts) = '2024-04-06T00:00:00Z'").await, (1, 3));
    let local = "date_trunc('day', ts AT TIME ZONE 'Australia/Lord_Howe')";
    assert_eq!(case.files(&format!("{local} = '2024-04-08T00:00:00+10:30'")).await, (1, 3));
    // Clocks on this island go back by half an hour at 15:00 UTC of that day.
    let local = "date_trunc('hour', ts AT TIME ZONE 'Australia/Lord_Howe')";
    let all = format!("SELECT {local}, count(*) FROM t GROUP BY 1");
    let memory = oracle::memory("t", lab::query(&case.session, "SELECT * FROM t").await.batches);
    assert_eq!(lab::lines(&case.session, &all).await, oracle::answer(&memory, &all).await);
    let bounds = ["2024-04-07T01:00:00", "2024-04-07T02:00:00", "2024-04-07T00:00:00"];
    for bound in bounds {
        for comparison in ["=", "<=", ">", "<>"] {
            let filter = format!("{local} {comparison} '{bound}'");
            case.as_in_memory(&[&filter]).await;
        }
    }
}

#[tokio::test]
async fn the_time_zone_of_the_session_12() {
    let rows = values(
        "(arrow_cast('2024-01-01T23:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))')),
         (arrow_cast('2024-01-02T01:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))'))",
        "ts",
    );
    let case = Case::new(Some("ts"), &[&rows]).await;
    for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
        lab::query(&case.session, &format!("SET datafusion.execution.time_zone = '{zone}'")).await;
        case.counts(&[("ts >= '2024-01-02T00:00:00Z'", 1), ("ts < TIMESTAMP '2024-01-02T00:00:00Z'", 1)]).await;
    }
}

#[tokio::test]
async fn nulls_match_no_comparison_13() {
    let case = Case::new(None, &[&values("(1), (2), (NULL)", "a")]).await;
    let expected = [
        ("a NOT IN (1)", 1),
        ("a <> 1", 1),
        ("a IS DISTINCT FROM 1", 2),
        ("NOT (a = 1)", 1),
        ("a NOT IN (1, NULL)", 0),
        ("a IN (1, NULL)", 1),
    ];
    case.counts(&expected).await;
}

#[tokio::test]
async fn nan_and_negative_zero_15_16() {
    let files = ["(1.0), (CAST('NaN' AS DOUBLE))", "(CAST('-0.0' AS DOUBLE))", "(CAST('NaN' AS DOUBLE))", "(0.0)"];
    let files = files.map(|rows| values(rows, "x"));
    let case = Case::new(None, &files.each_ref().map(String::as_str)).await;
    case.counts(&[("x > 5", 2), ("x <> 1", 4), ("isnan(x)", 2), ("x NOT IN (1.0)", 4)]).await;
    let filters =
        ["x = 0", "x >= 0", "x <= 0", "x < 0", "x > -0.0", "x = -0.0", "x IN (0.0)", "x BETWEEN -0.0 AND 0.0"];
    case.as_in_memory(&filters).await;
}

#[tokio::test]
async fn files_of_nulls_17() {
    let files =
        ["(CAST(NULL AS BIGINT)), (CAST(NULL AS BIGINT))", "(1), (2)", "(3), (NULL)"].map(|rows| values(rows, "v"));
    let case = Case::new(None, &files.each_ref().map(String::as_str)).await;
    case.counts(&[("v IS NOT NULL", 3), ("v IS NULL", 3), ("v > 0", 3), ("NOT (v > 1)", 1)]).await;
    assert_eq!(case.files("v IS NOT NULL").await, (2, 3));
    assert_eq!(case.files("v IS NULL").await, (2, 3));
}

// @spec L6
#[tokio::test]
async fn a_column_that_came_later_18() {
    let (old, new) = (values("(1), (2)", "id"), values("(3, 5)", "id, c"));
    let case = Case::new(None, &[&old, &new]).await;
    let expected = [
        ("c IS NULL", 2),
        ("c < 10", 1),
        ("NOT (c >= 10)", 1),
        ("c IS DISTINCT FROM 5", 2),
        ("c IS NOT DISTINCT FROM NULL", 2),
        ("coalesce(c, 0) = 0", 2),
        ("c = 5 OR id = 1", 2),
    ];
    case.counts(&expected).await;
    assert_eq!(case.one("SELECT count(c), max(c), min(c), count(*) FROM t").await, "1|5|5|3");
    assert_eq!(case.one("SELECT * FROM t ORDER BY id").await, "1|∅;2|∅;3|5");
}

// @spec L6
#[tokio::test]
async fn a_widened_column_19() {
    let files = ["(arrow_cast(2147483647, 'Int32')), (arrow_cast(-1, 'Int32'))", "(2147483648), (2147483646)"];
    let files = files.map(|rows| values(rows, "x"));
    let case = Case::new(None, &files.each_ref().map(String::as_str)).await;
    case.counts(&[("x < 2147483648", 3), ("x <> 2147483648", 3), ("x = 2147483647", 1), ("x >= 2147483647", 2)]).await;
    assert_eq!(case.one("SELECT arrow_typeof(x), sum(x) FROM t GROUP BY 1").await, "Int64|6442450940");
    // It stays long, whatever comes next.
    export(&case.session, &files_int(7), None).await.unwrap();
    case.counts(&[("x = 7", 1)]).await;
    assert_eq!(case.one("SELECT DISTINCT arrow_typeof(x) FROM t").await, "Int64");
}

fn files_int(value: i32) -> String {
    values(&format!("(arrow_cast({value}, 'Int32'))"), "x")
}

#[tokio::test]
async fn bounds_of_long_text_20() {
    let texts = [
        format!("{}•…", "x".repeat(15)),
        format!("{}\u{D7FF}and more", "y".repeat(15)),
        "\u{10FFFF}".repeat(40),
        "z".repeat(40),
        "a/../b%2F😀".to_owned(),
        "zero\0byte".to_owned(),
    ];
    let files: Vec<_> = texts.iter().map(|text| values(&format!("('{text}')"), "s")).collect();
    let case = Case::new(None, &files.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for text in &texts {
        let expected = [(format!("s = '{text}'"), 1), (format!("s >= '{text}' AND s <= '{text}'"), 1)];
        case.counts(&expected.each_ref().map(|(filter, rows)| (filter.as_str(), *rows))).await;
    }
    assert_eq!(case.one("SELECT max(s) FROM t").await, texts[2]);
    assert_eq!(case.one("SELECT min(s) FROM t").await, texts[4]);
}

#[tokio::test]
async fn decimals_with_bloom_filters_25() {
    let lab = Lab::remote();
    let session = lab.session();
    let cells = (0..300).map(|n| format!("({}.{:02}, 'k{}')", n / 7, n % 100, n % 3)).collect::<Vec<_>>().join(", ");
    let query =
        format!("SELECT arrow_cast(a, 'Decimal128(19, 2)') AS d, b AS k FROM (VALUES {cells}, (5.00, 'k5')) v(a, b)");
    let request = Export {
        dataset: "t".to_owned(),
        query: Some(query),
        lookup: Some(vec!["d".to_owned(), "k".to_owned()]),
        ..Export::default()
    };
    session.export(request, ExportProgress::default()).await.unwrap();
    let case = Case { lab, session };
    case.counts(&[
        ("d = 5.00 AND k = 'k5'", 1),
        ("d = 1000", 0),
        ("k IN ('k5', 'k9')", 1),
        ("cast(d AS BIGINT) = 5", 8),
    ])
    .await;
    case.as_in_memory(&["d = 5", "d = 5.00", "d IN (5.00, 5.35)", "k = 'k1'"]).await;
}

#[tokio::test]
async fn columns_with_names_of_others_34() {
    let files = ["(1, 'a'), (2, 'b')", "(3, 'c')"].map(|rows| values(rows, "pos, file_path"));
    let case = Case::new(None, &files.each_ref().map(String::as_str)).await;
    case.counts(&[("pos = 2", 1), ("file_path = 'c'", 1), ("pos > 0", 3)]).await;
}

#[tokio::test]
async fn all_longs_at_once() {
    let rows = values("(-9223372036854775808), (9223372036854775807), (0)", "x");
    let case = Case::new(None, &[&rows]).await;
    case.counts(&[("x > 0", 1), ("x >= -9223372036854775808", 3), ("x <> 0", 2), ("x < 9223372036854775807", 2)]).await;
}

#[tokio::test]
async fn an_insert_says_how_many_36() {
    let case = Case::new(None, &[&values("(1), (2)", "a")]).await;
    assert_eq!(case.one("INSERT INTO t SELECT * FROM (VALUES (3), (4), (5)) v(a)").await, "3");
    assert_eq!(case.one("SELECT count(*), sum(a) FROM t").await, "5|15");
    let snapshots = |case: &Case| {
        let catalog = std::sync::Arc::clone(&case.session.warehouse().committer().catalog);
        async move {
            let base = catalog.load(&daygrain::catalog::Ident::new("main", "t")).await.unwrap().unwrap();
            base.metadata.snapshots().count()
        }
    };
    let before = snapshots(&case).await;
    assert_eq!(case.one("INSERT INTO t SELECT a FROM t WHERE a > 100").await, "0");
    assert_eq!(snapshots(&case).await, before, "no rows make no snapshot");
    assert_eq!(case.one("INSERT INTO t SELECT a FROM t").await, "5", "a table can be read and written at once");
    assert_eq!(case.one("SELECT count(*) FROM t").await, "10");
    let empty = export(&case.session, "SELECT a FROM t WHERE a > 100", None).await.unwrap();
    assert_eq!(empty.report.outcome, Outcome::Empty);
}

/// Also: a filter on two days opens two files (14).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_days_and_tasks_37_14() {
    let lab = Lab::remote();
    let session = lab.session_of(8);
    let days = "SELECT TIMESTAMP '2020-01-01T00:00:00' + arrow_cast(value * 86400, 'Duration(Second)') AS ts, value AS n \
                FROM generate_series(0, 2999) WHERE value < 1500 \
                UNION ALL SELECT TIMESTAMP '2020-01-01T12:00:00' + arrow_cast(value * 86400, 'Duration(Second)'), value \
                FROM generate_series(0, 1499)";
    let exported = export(&session, days, Some("ts")).await.unwrap();
    assert_eq!((exported.report.rows, exported.report.files), (3_000, 1_500), "a file a day, whatever the tasks");
    let case = Case { lab, session };
    case.counts(&[("ts >= '2021-01-01' AND ts < '2021-01-03'", 4)]).await;
    assert_eq!(case.files("ts >= '2021-01-01' AND ts < '2021-01-03'").await, (2, 1_500));
}

#[tokio::test]
async fn a_hint_that_is_wrong_40() {
    let case = Case::new(None, &["SELECT 1 AS a", "SELECT 2 AS a", "SELECT 3 AS a"]).await;
    let hint = Path::from("warehouse/main/t/metadata/version-hint.text");
    let mut expected = 3;
    for text in ["1", "2", "9", "", "nonsense", "3\n"] {
        case.lab.probe.put(&hint, text.to_owned().into()).await.unwrap();
        case.counts(&[("true", expected)]).await;
        export(&case.session, "SELECT 4 AS a", None).await.unwrap();
        expected += 1;
        case.counts(&[("true", expected)]).await;
    }
    case.lab.probe.delete(&hint).await.unwrap();
    case.counts(&[("true", expected)]).await;
}
