//! Input that can't be taken: a stable code, exit 1, and the table as it was.

use daygrain_tests::shell::{Ran, Shell};

use crate::{EVENTS, one, with_events};

/// An export that must be refused with nothing written: neither rows nor a file.
#[track_caller]
fn refused(shell: &Shell, arguments: &[&str], code: &str) -> Ran {
    let before = shell.listing("warehouse");
    let ran = shell.run([&["export"][..], arguments].concat());
    ran.failed(code);
    assert_eq!(ran.stdout, "", "{ran}");
    assert_eq!(shell.listing("warehouse"), before, "{ran}");
    ran
}

#[track_caller]
fn says(ran: &Ran, facts: &[&str]) {
    for fact in facts {
        assert!(ran.stderr.lines().any(|line| line.trim() == *fact), "no {fact}: {ran}");
    }
}

#[test]
fn columns_that_do_not_exist() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    let wrong: [&[&str]; 5] = [
        &["--primary-timestamp", "time"],
        &["--primary-timestamp", "TS"],
        &["--primary-timestamp", "ts", "--lookup", "sid,cwd"],
        &["--primary-timestamp", "ts", "--json", "attributes"],
        &["--lookup", "sid ,n"],
    ];
    for flags in wrong {
        let ran = refused(&shell, &[&["events", "events.csv"][..], flags].concat(), "unknown_column");
        says(&ran, &["dataset: events", "columns: ts, sid, n"]);
    }
    assert!(!shell.path("warehouse").exists());
    // The same names in a file.
    for declared in ["primary_timestamp = \"time\"", "lookup = [\"cwd\"]", "json = [\"attributes\"]"] {
        shell.file("daygrain.toml", format!("[datasets.events]\n{declared}\n"));
        refused(&shell, &["events", "events.csv"], "unknown_column");
    }
    shell.file("daygrain.toml", "[datasets.events]\nfields = [{ column = \"cwd\", required = true }]\n");
    refused(&shell, &["events", "events.csv"], "unknown_column");
    shell.file("daygrain.toml", "[datasets.events]\nfields = [{ column = \"cwd\" }, { column = \"sid\" }]\n");
    shell.run(["export", "events", "events.csv"]).ok();
}

#[test]
fn a_timestamp_that_is_none() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    for column in ["sid", "n"] {
        let ran = shell.run(["export", "events", "events.csv", "--primary-timestamp", column]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.starts_with("error["), "{ran}");
        assert!(!shell.path("warehouse").exists(), "{ran}");
    }
}

#[test]
fn a_dataset_without_its_timestamp_is_drift() {
    let shell = with_events();
    shell.file("bare.csv", "sid,n\na,1\n");
    shell.file("bare.ndjson", "{\"sid\":\"a\",\"n\":1}\n");
    for arguments in [
        &["events", "bare.csv"][..],
        &["events", "bare.ndjson"],
        &["events", "bare.csv", "--lookup", "n"],
        &["events", "--query", "select sid, n from events"],
    ] {
        let ran = refused(&shell, arguments, "iceberg_partition_spec_drift");
        says(&ran, &["table: main.events", "current: day(ts)", "derived: unpartitioned"]);
        assert!(ran.stderr.contains("\n  help: ") && ran.stderr.contains("--table"), "{ran}");
    }
    assert_eq!(one(&shell, "select count(*) from events"), "5");
}

#[test]
fn drift_comes_before_the_schema() {
    let shell = with_events();
    // Another timestamp, and a type that doesn't go with the table's.
    shell.file("other.csv", "at,ts,sid,n\n2026-06-04T12:00:00Z,2026-06-04T12:00:00Z,a,text\n");
    let drift = "iceberg_partition_spec_drift";
    let ran = refused(&shell, &["events", "other.csv", "--primary-timestamp", "at"], drift);
    says(&ran, &["current: day(ts)", "derived: day(at)"]);
    shell.file("bare.ndjson", "{\"sid\":7,\"n\":\"text\"}\n");
    refused(&shell, &["events", "bare.ndjson"], drift);
    // The other direction: the table has no partition, and now there is a timestamp.
    shell.run(["export", "flat", "events.csv"]).ok();
    let ran = refused(&shell, &["flat", "events.csv", "--primary-timestamp", "ts"], drift);
    says(&ran, &["current: unpartitioned", "derived: day(ts)"]);
    refused(&shell, &["flat", "other.csv", "--primary-timestamp", "at"], drift);
    // Another lookup column is another order, and no drift.
    shell.run(["export", "events", "events.csv", "--lookup", "n"]).ok();
}

#[test]
fn a_schema_that_does_not_fit() {
    let shell = with_events();
    let incompatible = "iceberg_schema_incompatible";
    let good = "{\"ts\":\"2026-06-04T12:00:00Z\",\"sid\":\"a\",\"n\":1}\n";
    shell.file("clash.ndjson", format!("{good}{good}{}", good.replace("\"n\":1", "\"n\":{\"x\":1}")));
    let ran = refused(&shell, &["events", "clash.ndjson"], incompatible);
    says(&ran, &["path: n", "file: clash.ndjson", "line: 3", "table: main.events"]);
    shell.file("clash.csv", format!("{EVENTS}2026-06-07T00:00:00Z,a,text\n"));
    let ran = refused(&shell, &["events", "clash.csv"], incompatible);
    says(&ran, &["path: n", "file: clash.csv", "line: 7", "value: text"]);
    // A column that went away, where the input carries its schema.
    shell.file("fewer.csv", "ts,n\n2026-06-04T12:00:00Z,1\n");
    says(&refused(&shell, &["events", "fewer.csv"], incompatible), &["column: sid", "table: main.events"]);
    let ran = refused(&shell, &["events", "--query", "select ts, sid, cast(n as text) as n from events"], incompatible);
    says(&ran, &["column: n"]);
    // New columns are added, nullable.
    shell.file("wider.csv", "ts,sid,n,extra\n2026-06-04T12:00:00Z,a,1,7\n");
    shell.run(["export", "events", "wider.csv"]).ok();
    assert_eq!(one(&shell, "select count(*) || ',' || count(extra) from events"), "6,1");
}

#[test]
fn a_nested_clash_names_its_path() {
    let shell = Shell::new();
    let line = "{\"m\":{\"parts\":[{\"size\":1}]}}\n";
    shell.file("in.ndjson", line);
    shell.run(["export", "d", "in.ndjson"]).ok();
    shell.file("deep/clash.ndjson", format!("{line}\n{}", line.replace('1', "true")));
    let ran = refused(&shell, &["d", "deep"], "iceberg_schema_incompatible");
    says(&ran, &["path: m.parts[].size", "file: deep/clash.ndjson", "line: 3"]);
    // Two files of one first export that contradict each other become JSON text, and the report says so.
    let ran = shell.run(["export", "fresh", "in.ndjson", "deep"]);
    ran.ok();
    assert!(ran.stderr.contains("m.parts[].size"), "{ran}");
}

#[test]
fn damaged_parquet() {
    let shell = with_events();
    shell.sql("copy (select * from events) to 'whole.parquet'").ok();
    let whole = std::fs::read(shell.path("whole.parquet")).unwrap();
    let cut = whole.len() / 2;
    let damaged = [&whole[..cut], &whole[..whole.len() - 1], &whole[cut..], b"PAR1", b"", b"no parquet at all"];
    for (at, bytes) in damaged.iter().enumerate() {
        let name = format!("damaged{at}.parquet");
        shell.file(&name, bytes);
        for dataset in ["events", "fresh"] {
            says(&refused(&shell, &[dataset, &name], "input_corrupt"), &[&format!("file: {name}")]);
        }
    }
    // Pages that are damaged are met only while rows are written.
    let mut pages = whole.clone();
    pages[4..cut].fill(0xff);
    shell.file("pages.parquet", &pages);
    refused(&shell, &["events", "pages.parquet"], "input_corrupt");
    refused(&shell, &["events", "whole.parquet", "pages.parquet"], "input_corrupt");
    shell.run(["export", "events", "whole.parquet"]).ok();
    assert_eq!(one(&shell, "select count(*) from events"), "10");
}

#[test]
fn half_written_lines() {
    let shell = with_events();
    let good = "{\"ts\":\"2026-06-04T12:00:00Z\",\"sid\":\"a\",\"n\":1}\n";
    for (at, half) in [
        "{\"ts\":\"2026-06-04T12:00:00Z\",\"si",
        "{\"n\":1",
        "{",
        "[1,2]",
        "nonsense",
        "{\"n\":1}}",
        "{\"n\":1} {\"n\":2}",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("half{at}.ndjson");
        shell.file(&name, format!("{good}\n{good}{half}"));
        for dataset in ["events", "fresh"] {
            let ran = refused(&shell, &[dataset, &name], "input_corrupt");
            says(&ran, &[&format!("file: {name}"), "line: 4"]);
        }
    }
    for (at, half) in
        ["2026-06-04T12:00:00Z,a", "2026-06-04T12:00:00Z,a,1,2", "2026-06-04T12:00:00Z,\"open,1"].iter().enumerate()
    {
        let name = format!("half{at}.csv");
        shell.file(&name, format!("ts,sid,n\n2026-06-04T12:00:00Z,a,1\n{half}"));
        let ran = refused(&shell, &["events", &name], "input_corrupt");
        says(&ran, &[&format!("file: {name}"), "line: 3"]);
    }
    shell.file("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b");
    says(&refused(&shell, &["events", "cut.csv.gz"], "input_corrupt"), &["file: cut.csv.gz"]);
    shell.file("no.ndjson.zst", "no compression");
    says(&refused(&shell, &["events", "no.ndjson.zst"], "input_corrupt"), &["file: no.ndjson.zst"]);
}

#[test]
fn timestamps_that_do_not_parse() {
    let shell = with_events();
    shell.file("new.ndjson", "{\"ts\":\"2026-06-04T12:00:00Z\"}\n{\"ts\":\"tomorrow\"}\n");
    let facts = ["file: new.ndjson", "line: 2", "value: tomorrow"];
    says(&refused(&shell, &["fresh", "new.ndjson", "--primary-timestamp", "ts"], "input_value_invalid"), &facts);
    says(&refused(&shell, &["events", "new.ndjson"], "input_value_invalid"), &facts);
    for value in ["2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-06-04T25:00:00Z", "04.06.2026", "noon"] {
        shell.file("new.csv", format!("ts,sid,n\n2026-06-04T12:00:00Z,a,1\n{value},a,1\n"));
        for dataset in ["events", "fresh"] {
            let arguments = [dataset, "new.csv", "--primary-timestamp", "ts"];
            let ran = refused(&shell, &arguments, "input_value_invalid");
            says(&ran, &["file: new.csv", "line: 3", &format!("value: {value}")]);
        }
    }
}

const REQUIRED: &str = r#"
[datasets.strict]
primary_timestamp = "ts"
schema = [
  { name = "ts", type = "timestamptz", required = true },
  { name = "n", type = "long", required = true },
]
"#;

#[test]
fn a_null_where_none_may_be() {
    let shell = Shell::new();
    shell.file("daygrain.toml", REQUIRED);
    shell.file("good.csv", "ts,n\n2026-06-04T12:00:00Z,1\n");
    shell.run(["export", "strict", "good.csv"]).ok();
    for (name, row) in [("ts.csv", ",1"), ("n.csv", "2026-06-04T12:00:00Z,")] {
        shell.file(name, format!("ts,n\n2026-06-04T12:00:00Z,1\n{row}\n"));
        refused(&shell, &["strict", name], "iceberg_data_write_failed");
    }
    let before = shell.listing("warehouse");
    shell.sql("insert into strict values (null, 1)").failed("iceberg_data_write_failed");
    shell.sql("insert into strict (ts) values (now())").failed("iceberg_data_write_failed");
    assert_eq!(shell.listing("warehouse"), before);
    assert_eq!(one(&shell, "select count(*) from strict"), "1");
    // Where a table has no rows yet, none are committed either.
    shell.file("null.csv", "ts,n\n,1\n");
    let ran = shell.run(["-w", "second", "export", "strict", "null.csv"]);
    ran.failed("iceberg_data_write_failed");
    let ran = shell.run(["-w", "second", "-c", "select * from strict"]);
    ran.failed("unknown_table");
}

#[test]
fn values_that_a_type_cannot_hold() {
    let shell = with_events();
    shell.file("big.ndjson", "{\"ts\":\"2026-06-04T12:00:00Z\",\"n\":9223372036854775808}\n");
    let ran = shell.run(["export", "events", "big.ndjson"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.contains("\n  file: big.ndjson\n  line: 1"), "{ran}");
    let before = shell.listing("warehouse");
    shell.sql("insert into events values ('yesterday', 'a', 1)").failed("invalid_value");
    shell.sql("insert into events values (null, 'a', 'many')").failed("invalid_value");
    shell.sql("insert into events select null, 'a'").failed("sql_plan");
    assert_eq!(shell.listing("warehouse"), before);
}
