//! `daygrain export`: its report, its flags, what it remembers.

use daygrain_tests::shell::Shell;
use serde_json::Value;

use crate::{EVENTS, one, with_events};

const REPORT: &str = "table,rows,files,bytes,partitions,snapshot_id,outcome,batch_id";

fn export(shell: &Shell, arguments: &[&str]) -> Value {
    let mut ran = shell.run([&["--format", "ndjson", "export"][..], arguments].concat()).rows();
    assert_eq!(ran.len(), 1);
    ran.remove(0)
}

#[test]
fn the_report_is_one_row() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    let arguments =
        ["--format", "csv", "export", "events", "events.csv", "--primary-timestamp", "ts", "--batch-id", "b 1"];
    let ran = shell.run(arguments);
    let lines: Vec<&str> = ran.ok().lines().collect();
    assert_eq!(lines[0], REPORT);
    let values: Vec<&str> = lines[1].split(',').collect();
    let bytes: u64 = shell.listing("warehouse/main/events/data").iter().map(|(_, size)| size).sum();
    assert_eq!(values[..5], ["main.events", "5", "4", &bytes.to_string(), "4"]);
    assert!(values[5].parse::<i64>().is_ok_and(|id| id > 0), "{ran}");
    assert_eq!(values[6..], ["committed", "b 1"]);
    assert_eq!(ran.stderr, "", "progress is for terminals");
}

#[test]
fn a_batch_is_written_once() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    let first = export(&shell, &["events", "events.csv", "--batch-id", "b1"]);
    let before = shell.listing("warehouse");
    let again = export(&shell, &["events", "events.csv", "--batch-id", "b1"]);
    assert_eq!((&again["outcome"], &again["rows"], &again["batch_id"]), (&"skipped".into(), &0.into(), &"b1".into()));
    assert_eq!(again["snapshot_id"], first["snapshot_id"]);
    assert_eq!(shell.listing("warehouse"), before);
    assert_eq!(export(&shell, &["events", "events.csv", "--batch-id", "b2"])["outcome"], "committed");
    assert_eq!(export(&shell, &["events", "events.csv", "--batch-id", "b1"])["outcome"], "skipped");
    assert_eq!(export(&shell, &["events", "events.csv"])["batch_id"], Value::Null);
    for blank in ["", "  "] {
        shell.run(["export", "events", "events.csv", "--batch-id", blank]).refused(2, "invalid_argument");
    }
    assert_eq!(one(&shell, "select count(*) from events"), "15");
}

#[test]
fn a_second_export_inherits_the_declaration() {
    let shell = with_events();
    shell.file("more.csv", "ts,sid,n\n2026-06-09T00:00:00Z,z,7\n2026-06-08T23:59:59Z,y,6\n");
    let report = export(&shell, &["another-name", "more.csv", "--table", "events"]);
    assert_eq!((&report["table"], &report["partitions"]), (&"main.events".into(), &2.into()));
    assert!(shell.path("warehouse/main/events/data/ts_day=2026-06-09").is_dir());
    // The order of the lookup columns too: files are sorted by session.
    let ran = shell.sql("explain insert into events select * from events");
    assert!(ran.ok().contains("order=[sid"), "{ran}");
    // Another order is no drift.
    export(&shell, &["events", "more.csv", "--lookup", "n,sid"]);
    let ran = shell.sql("explain insert into events select * from events");
    assert!(ran.ok().contains("order=[n"), "{ran}");
    assert_eq!(one(&shell, "select count(*) from events"), "9");
}

#[test]
fn rows_of_a_query() {
    let shell = with_events();
    let query = "select ts, upper(sid) as s, sum(n) as total from events where n < 5 group by 1, 2";
    let report = export(&shell, &["totals", "--query", query, "--primary-timestamp", "ts", "--lookup", "s"]);
    assert_eq!((&report["table"], &report["rows"], &report["files"]), (&"main.totals".into(), &4.into(), &3.into()));
    assert_eq!(shell.tsv("select s, sum(total) from totals group by s order by s").lines(), ["A\t4", "B\t6"]);
    shell.run(["export", "totals", "--query", "select nothing from events"]).failed("unknown_column");
    shell.run(["export", "totals", "--query", "drop table events"]).failed("invalid_argument");
    shell.run(["export", "totals", "--query", "insert into events select * from events"]).failed("invalid_argument");
    shell.run(["export", "totals", "--query", "selec"]).failed("sql_syntax");
    let before = shell.listing("warehouse");
    shell.run(["export", "q1", "--query", "select 1 a; select 2 a"]).failed("sql_syntax");
    assert_eq!(shell.listing("warehouse"), before);
    assert_eq!(export(&shell, &["q1", "--query", "select 1 a; -- no more"])["rows"], 1);
    let empty = export(&shell, &["totals", "--query", &query.replace("n < 5", "n < 0")]);
    assert_eq!((&empty["outcome"], &empty["snapshot_id"]), (&"empty".into(), &Value::Null));
    assert_eq!(one(&shell, "select count(*) from totals"), "4");
}

#[test]
fn columns_of_nothing_but_nulls_are_named() {
    let shell = Shell::new();
    shell.file("in.ndjson", "{\"n\":1,\"empty\":null}\n");
    shell.sql("copy (select 1 as n, null as void) to 'in.parquet'").ok();
    for (arguments, name) in [
        (&["d", "in.ndjson"][..], "empty"),
        (&["e", "in.parquet"], "void"),
        (&["f", "--query", "select 1 as n, null as gone"], "gone"),
        (&["g", "in.ndjson", "in.parquet"], "empty, void"),
    ] {
        let ran = shell.run([&["export"][..], arguments].concat());
        ran.ok();
        assert_eq!(ran.stderr, format!("note: left out, as they hold nothing but nulls: {name}\n"), "{ran}");
    }
    // What the table has is no news.
    shell.file("full.ndjson", "{\"n\":1,\"empty\":2}\n");
    shell.run(["export", "d", "full.ndjson"]).ok();
    shell.file("deep.ndjson", "{\"n\":1,\"empty\":2,\"s\":{\"a\":[1]},\"l\":[{\"b\":true}]}\n");
    shell.run(["export", "d", "deep.ndjson"]).ok();
    for arguments in
        [&["d", "in.ndjson"][..], &["d", "--query", "select n, null as empty, null as l, null as s from d limit 1"]]
    {
        let ran = shell.run([&["export"][..], arguments].concat());
        ran.ok();
        assert_eq!(ran.stderr, "");
    }
    assert_eq!(shell.tsv("select count(*), count(empty), count(s), count(l) from d").lines(), ["5\t2\t1\t1"]);
}

#[test]
fn the_schema_is_looked_for_before_anything_is_written() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    for table in ["nons.x", "main.a.b", "daygrain.nons.x"] {
        shell.run(["export", "events", "events.csv", "--table", table]).failed("unknown_namespace");
        assert!(!shell.path("warehouse").exists(), "{table}");
    }
    shell.sql("create schema s; create schema s.inner").ok();
    shell.run(["export", "events", "events.csv", "--table", "s.inner"]).failed("already_exists");
    assert!(!shell.path("warehouse/s/inner/data").exists());
    assert_eq!(export(&shell, &["events", "events.csv", "--table", "s.inner.t"])["outcome"], "committed");
}

#[test]
fn a_timestamp_column_that_is_gained_is_drift() {
    let shell = Shell::new();
    shell.file("mix.ndjson", "{\"ts\":\"2026-06-04T12:00:00Z\",\"n\":1}\n{\"ts\":\"soon\",\"n\":2}\n");
    shell.run(["export", "nots", "mix.ndjson"]).ok();
    shell.file("good.ndjson", "{\"ts\":\"2026-06-04T12:00:00Z\",\"n\":1}\n");
    for input in ["mix.ndjson", "good.ndjson"] {
        let ran = shell.run(["export", "nots", input, "--primary-timestamp", "ts"]);
        let error = ran.failed("iceberg_partition_spec_drift");
        assert!(error.contains("  current: unpartitioned\n  derived: day(ts)\n"), "{ran}");
    }
}

#[test]
fn input_without_rows_is_empty() {
    let shell = with_events();
    shell.file("head.csv", "ts,sid,n\n");
    shell.file("nothing.csv", "");
    shell.file("nothing.ndjson", "");
    shell.file("blank.ndjson", "\n\n");
    let before = shell.listing("warehouse");
    for file in ["head.csv", "nothing.csv", "nothing.ndjson", "blank.ndjson"] {
        for dataset in ["events", "fresh"] {
            let report = export(&shell, &[dataset, file]);
            assert_eq!(
                (&report["outcome"], &report["rows"], &report["files"]),
                (&"empty".into(), &0.into(), &0.into()),
                "{file}"
            );
        }
    }
    assert_eq!(shell.listing("warehouse"), before);
    shell.sql("select * from fresh").failed("unknown_table");
    // Beside files that have rows they are nothing.
    assert_eq!(export(&shell, &["events", "events.csv", "nothing.csv", "blank.ndjson"])["rows"], 5);
}

#[test]
fn json_over_a_column_of_another_type_says_so() {
    let shell = Shell::new();
    shell.file("in.ndjson", "{\"n\":1,\"a\":{\"b\":2}}\n");
    shell.run(["export", "d", "in.ndjson"]).ok();
    for (path, column) in [("n", "long"), ("a.b", "long"), ("a", "struct")] {
        let ran = shell.run(["export", "d", "in.ndjson", "--json", path]);
        let error = ran.failed("iceberg_schema_incompatible");
        assert!(error.contains(&format!(": a column of type {column} can't hold JSON text\n")), "{ran}");
        assert!(error.contains(&format!("  path: {path}\n")) && error.contains("  line: 1\n"), "{ran}");
        assert!(error.contains("  help: don't declare the column as json"), "{ran}");
    }
    assert_eq!(one(&shell, "select count(*) from d"), "1");
}

#[test]
fn json_columns_keep_their_text() {
    let shell = Shell::new();
    shell.file(
        "in.ndjson",
        "{\"n\":1,\"a\":{\"b\":[1,2]},\"v\":{\"x\":1}}\n{\"n\":2,\"a\":{\"b\":[]},\"v\":\"text\"}\n{\"n\":3}\n",
    );
    let ran = shell.run(["export", "d", "in.ndjson", "--json", "a"]);
    ran.ok();
    assert!(ran.stderr.contains("note: kept as JSON text: a, v"), "{ran}");
    assert_eq!(
        shell.sql("select a, v from d order by n").ok(),
        "{\"a\":\"{\\\"b\\\":[1,2]}\",\"v\":\"{\\\"x\\\":1}\"}\n{\"a\":\"{\\\"b\\\":[]}\",\"v\":\"\\\"text\\\"\"}\n{\"a\":null,\"v\":null}\n"
    );
    // The table remembers; input that lacks the column is fine.
    shell.file("more.ndjson", "{\"n\":4,\"a\":7}\n");
    shell.file("fewer.ndjson", "{\"n\":5}\n");
    shell.run(["export", "d", "more.ndjson", "fewer.ndjson"]).ok();
    shell.run(["export", "d", "fewer.ndjson", "--lookup", "n"]).ok();
    assert_eq!(shell.tsv("select n, a from d where n > 3 order by n").lines(), ["4\t7", "5\t\\N", "5\t\\N"]);
}

#[test]
fn files_directories_and_globs() {
    let shell = Shell::new();
    shell.file("in/a.csv", "n\n1\n");
    shell.file("in/deep/b.csv", "n\n2\n");
    shell.file("in/c.ndjson", "{\"n\":3}\n");
    shell.file("in/notes.txt", "not data");
    assert_eq!(export(&shell, &["d", "in"])["rows"], 3);
    assert_eq!(export(&shell, &["d", "in/*.csv"])["rows"], 1);
    assert_eq!(export(&shell, &["d", "in/a.csv", "in/c.ndjson"])["rows"], 2);
    assert_eq!(export(&shell, &["d", "in/**/*.csv"])["rows"], 2);
    for path in ["in/x.csv", "in/*.parquet", "nowhere"] {
        shell.run(["export", "d", path]).failed("input_not_found");
    }
    shell.run(["export", "d", "in/a.csv", "in/x.csv"]).failed("input_not_found");
    assert_eq!(shell.tsv("select n, count(*) from d group by n order by n").lines(), ["1\t4", "2\t2", "3\t2"]);
}

#[test]
fn another_iceberg_table_is_exported_whole_then_what_is_new() {
    let shell = Shell::new();
    shell.sql("CREATE SCHEMA lake");
    let add = |n: u32| {
        let query = format!("SELECT {n} AS n, TIMESTAMP '2026-06-04 12:00:00' AS ts");
        shell.run(["export", "events", "--query", &query, "--table", "lake.events", "--primary-timestamp", "ts"]).ok();
    };
    let source = shell.path("warehouse/lake/events").display().to_string();
    let copy = || {
        let arguments =
            ["--format", "ndjson", "export", "copy", "--iceberg", &source, "--only-new", "--primary-timestamp", "ts"];
        let row = shell.run(arguments).rows().remove(0);
        (row["rows"].as_u64().unwrap(), row["outcome"].as_str().unwrap().to_owned())
    };
    add(1);
    add(2);
    assert_eq!(copy(), (2, "committed".to_owned()));
    assert_eq!(copy(), (0, "empty".to_owned()));
    add(3);
    assert_eq!(copy(), (1, "committed".to_owned()));
    let row = shell.sql("SELECT count(*) c, sum(n) s FROM copy").rows().remove(0);
    assert_eq!((row["c"].as_u64(), row["s"].as_u64()), (Some(3), Some(6)));
}
