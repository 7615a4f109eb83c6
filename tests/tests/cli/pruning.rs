//! `EXPLAIN PRUNING`: its columns, and that the numbers add up.

use daygrain_tests::shell::Shell;
use serde_json::Value;

use crate::{EVENTS, with_events};

const LEVELS: [&str; 6] = ["manifests", "files", "delete_files", "row_groups", "pages", "rows"];

/// The rows of `EXPLAIN PRUNING`, after a check of everything that always holds.
#[track_caller]
fn explain(shell: &Shell, query: &str) -> Vec<Value> {
    let header = shell.tsv(&format!("explain pruning {query}"));
    assert_eq!(header.ok().lines().next(), Some("table\tlevel\ttotal\tkept\tskipped\treason"), "{query}");
    let rows = shell.sql(&format!("explain pruning {query}")).rows();
    let mut at = 0;
    while at < rows.len() {
        for level in LEVELS {
            let total = &rows[at];
            let table = total["table"].clone();
            let number = |row: &Value, key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"));
            assert_eq!((total["level"].as_str(), &total["reason"]), (Some(level), &Value::Null), "{query}: {rows:?}");
            assert_eq!(number(total, "kept") + number(total, "skipped"), number(total, "total"), "{query}: {total}");
            at += 1;
            let mut skipped = 0;
            while rows.get(at).is_some_and(|row| !row["reason"].is_null()) {
                let row = &rows[at];
                assert_eq!((&row["table"], row["level"].as_str()), (&table, Some(level)), "{query}: {rows:?}");
                assert_eq!((&row["total"], &row["kept"]), (&total["total"], &Value::Null), "{query}: {row}");
                assert!(number(row, "skipped") > 0, "{query}: {row}");
                skipped += number(row, "skipped");
                at += 1;
            }
            assert_eq!(skipped, number(total, "skipped"), "{query}: {rows:?}");
        }
    }
    rows
}

/// `kept of total` at a level of a table.
#[track_caller]
fn level(rows: &[Value], table: &str, level: &str) -> (u64, u64) {
    let found = rows.iter().find(|row| row["table"] == table && row["level"] == level && row["reason"].is_null());
    let found = found.unwrap_or_else(|| panic!("no {level} of {table}"));
    (found["kept"].as_u64().unwrap(), found["total"].as_u64().unwrap())
}

fn reasons(rows: &[Value], level: &str) -> Vec<(String, u64)> {
    let rows = rows.iter().filter(|row| row["level"] == level && !row["reason"].is_null());
    rows.map(|row| (row["reason"].as_str().unwrap().to_owned(), row["skipped"].as_u64().unwrap())).collect()
}

#[test]
fn a_day_and_a_session() {
    let shell = with_events();
    let rows = explain(&shell, "select * from events where ts >= '2026-06-05' and ts < '2026-06-06'");
    assert_eq!(rows[0]["table"], "events");
    assert_eq!(level(&rows, "events", "files"), (1, 4));
    assert_eq!(reasons(&rows, "files"), [("partition".to_owned(), 3)]);
    assert_eq!(level(&rows, "events", "row_groups"), (1, 1));
    assert_eq!(level(&rows, "events", "rows"), (1, 1));

    let rows = explain(&shell, "select n from events where sid = 'b'");
    assert_eq!(level(&rows, "events", "files"), (2, 4));
    assert_eq!(reasons(&rows, "files"), [("column_bounds".to_owned(), 2)]);
    let rows = explain(&shell, "select n from events where sid = 'nobody'");
    assert_eq!(level(&rows, "events", "files"), (0, 4));
    assert_eq!(level(&rows, "events", "pages"), (0, 0));
}

#[test]
fn files_in_skipped_manifests_count_as_skipped() {
    let shell = with_events();
    for day in 10..13 {
        shell.file("more.csv", EVENTS.replace("2026-06-0", &format!("20{day}-06-0")));
        shell.run(["export", "events", "more.csv"]).ok();
    }
    let rows = explain(&shell, "select * from events where ts between '2011-06-05' and '2011-06-05 23:59:59'");
    assert_eq!(level(&rows, "events", "manifests").1, 4);
    assert_eq!(level(&rows, "events", "files"), (1, 16));
    let of_manifests = reasons(&rows, "files").into_iter().find(|(reason, _)| reason == "manifest");
    assert_eq!(of_manifests, Some(("manifest".to_owned(), 12)));
}

#[test]
fn a_count_is_answered_from_metadata() {
    let shell = with_events();
    let rows = explain(&shell, "select count(*) from events");
    assert_eq!(level(&rows, "events", "files"), (0, 4));
    assert_eq!(reasons(&rows, "files"), [("metadata".to_owned(), 4)]);
    let rows = explain(&shell, "select count(*) from events where ts >= '2026-06-05T00:00:00Z'");
    assert_eq!(level(&rows, "events", "files").1, 4);
    // Bounds are only bounds: files are read, but for those that cannot hold more than what was found.
    let rows = explain(&shell, "select max(n) from events");
    let (kept, total) = level(&rows, "events", "files");
    assert!(kept >= 1 && total == 4, "{rows:?}");
    assert!(reasons(&rows, "files").iter().all(|(reason, _)| reason == "dynamic_filter"), "{rows:?}");
}

#[test]
fn each_scan_has_its_block() {
    let shell = with_events();
    let rows = explain(&shell, "select * from events a join events b on a.n = b.n where a.ts >= '2026-06-06'");
    let blocks: Vec<&str> = rows
        .iter()
        .filter(|row| row["level"] == "manifests" && row["reason"].is_null())
        .map(|row| row["table"].as_str().unwrap())
        .collect();
    assert_eq!(blocks, ["events", "events#2"]);
    let kept = ["events", "events#2"].map(|table| level(&rows, table, "files").0);
    assert!(kept.contains(&1), "{rows:?}");
    let rows = explain(
        &shell,
        "select (select count(*) from events) as a, max(n) from events where sid in (select sid from events where n = 1)",
    );
    assert_eq!(rows.iter().filter(|row| row["level"] == "manifests" && row["reason"].is_null()).count(), 3);
    assert_eq!(explain(&shell, "select 1"), [] as [Value; 0]);
}

#[test]
fn blocks_stand_in_the_order_of_the_query_whichever_side_a_join_builds() {
    let shell = with_events();
    for (sql, skipped) in [
        ("select * from events a join events b on a.n = b.n where a.ts >= '2026-06-06'", [3, 0]),
        ("select * from events a join events b on a.n = b.n where b.ts >= '2026-06-06'", [0, 3]),
        ("select * from events a left join events b on a.n = b.n and b.ts >= '2026-06-06'", [0, 3]),
        ("select * from events a right join events b on a.n = b.n and a.ts >= '2026-06-06'", [3, 0]),
        ("select count(*) from events union all select max(n) from events where ts >= '2026-06-06'", [0, 3]),
    ] {
        let rows = explain(&shell, sql);
        let by_partition = |table: &str| {
            let row = rows.iter().find(|r| r["table"] == table && r["level"] == "files" && r["reason"] == "partition");
            row.map_or(0, |row| row["skipped"].as_u64().unwrap())
        };
        assert_eq!(["events", "events#2"].map(by_partition), skipped, "{sql}: {rows:?}");
    }
}

#[test]
fn explain_alone_runs_nothing() {
    let shell = with_events();
    let before = shell.listing(".");
    let ran = shell.sql("explain insert into events select * from events");
    assert!(ran.ok().contains("CommitExec"), "{ran}");
    assert_eq!(shell.listing("."), before);
    let ran = shell.sql("explain select * from events where ts >= '2026-06-06'");
    assert!(ran.ok().contains("files=1/4"), "{ran}");
}
