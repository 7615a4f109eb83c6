//! Options, environment and configuration.

use daygrain_tests::shell::{Ran, Shell};

use crate::{EVENTS, one, with_events};

#[test]
fn the_warehouse_is_named_by_flag_then_environment_then_default() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    let export = ["export", "events", "events.csv", "--primary-timestamp", "ts"];
    shell.run([&["-w", "flagged"][..], &export].concat()).ok();
    assert!(shell.path("flagged/main/events/metadata").is_dir());
    let mut command = shell.command(export);
    assert!(command.env("DAYGRAIN_WAREHOUSE", "named").status().expect("the shell starts").success());
    assert!(shell.path("named/main/events/metadata").is_dir());
    let mut command = shell.command(["--warehouse", "flagged", "-c", "insert into events select * from events"]);
    assert!(command.env("DAYGRAIN_WAREHOUSE", "named").status().expect("the shell starts").success());
    for (warehouse, rows) in [("flagged", 10), ("named", 5)] {
        let ran = shell.run(["-w", warehouse, "--format", "ndjson", "-c", "select count(*) as n from events"]);
        assert_eq!(ran.rows()[0]["n"], rows, "{warehouse}");
    }
    assert!(!shell.path("warehouse").exists());
    shell.run(export).ok();
    assert!(shell.path("warehouse/main/events/metadata").is_dir());
    let url = format!("file://{}", shell.path("flagged").display());
    let ran = shell.run(["-w", &url, "--format", "ndjson", "-c", "select count(*) as n from events"]);
    assert_eq!(ran.rows()[0]["n"], 10);
    shell.run(["-w", "nostore://x/y", "-c", "show tables"]).failed("unsupported_location");
}

#[test]
fn a_warehouse_that_does_not_exist_is_empty() {
    let shell = Shell::new();
    assert!(shell.tsv("show tables").lines().is_empty());
    assert_eq!(shell.tsv("show schemas").lines(), ["main"]);
    shell.sql("select * from t").failed("unknown_table");
    shell.sql("drop table if exists t").ok();
    assert!(!shell.path("warehouse").exists(), "reading made a warehouse");
    shell.sql("create schema s").ok();
    assert!(shell.path("warehouse").exists());
}

#[test]
fn a_file_in_the_way_of_the_warehouse_is_named() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    let file = shell.file("taken", "x");
    for warehouse in ["taken", "taken/below"] {
        for arguments in [
            &["-c", "show tables"][..],
            &["-c", "show schemas"],
            &["-c", "select * from t"],
            &["-c", "create schema s"],
            &["-c", "drop table t"],
            &["export", "t", "events.csv"],
        ] {
            let ran = shell.run([&["-w", warehouse][..], arguments].concat());
            let error = ran.failed("storage_failed");
            assert!(error.contains(&format!("  file: {}\n", file.display())), "{ran}");
            assert!(error.contains("\n  help: "), "{ran}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "x");
}

#[test]
fn read_only_refuses_whatever_would_write() {
    let shell = with_events();
    let before = shell.listing(".");
    for sql in [
        "insert into events values ('2026-06-04T12:00:00Z', 'c', 9)",
        "insert into events select * from events",
        "explain analyze insert into events select * from events",
        "explain analyze verbose insert into events select * from events",
        "explain analyze copy events to 'out.csv'",
        "prepare p as insert into events select * from events",
        "drop table events",
        "drop table events purge",
        "create schema s",
        "drop schema main",
        "copy events to 'out.csv'",
        "copy (select 1) to 'out.parquet'",
    ] {
        shell.run(["--read-only", "-c", sql]).failed("read_only");
    }
    shell.run(["--read-only", "export", "events", "events.csv"]).failed("read_only");
    shell.run(["export", "new", "--query", "select 1 as a", "--read-only"]).failed("read_only");
    assert_eq!(shell.listing("."), before);
    let reads = "select count(*) from events; describe events; show tables; explain select * from events;
                 explain pruning select * from events; explain insert into events select * from events;
                 explain copy events to 'out.csv'; explain drop table events; prepare p as select 1; execute p;
                 create external table e stored as csv location 'events.csv' options ('format.has_header' 'true');
                 select * from e; drop table e; create view v as select * from events; select * from v; drop view v";
    shell.run(["--read-only", "-c", reads]).ok();
    // How a statement would write may be seen.
    let ran = shell.run(["--read-only", "-c", "explain insert into events select * from events"]);
    assert!(ran.ok().contains("CommitExec: table=main.events"), "{ran}");
    assert_eq!(shell.listing("."), before);
}

#[test]
fn a_sort_beyond_the_limit_spills() {
    let shell = Shell::new();
    // 1.5 million rows of some 100 bytes through a sort that may hold 64 MB.
    let sql = "select count(*) as n, sum(v) as s, max(r) as r from (
                 select v, row_number() over (order by text) as r from (
                   select value as v, md5(cast(value as text)) || repeat('x', 64) as text from range(0, 1500000)))";
    let ran = shell.run(["--memory-limit", "64m", "--threads", "1", "--format", "ndjson", "-c", sql]);
    let rows = ran.rows();
    assert_eq!(rows[0]["n"], 1_500_000);
    assert_eq!(rows[0]["s"], 1_124_999_250_000_u64);
    assert_eq!(rows[0]["r"], 1_500_000);
}

#[test]
fn what_cannot_spill_fails_and_says_what_to_do() {
    let shell = Shell::new();
    let hopeless = "select array_agg(md5(cast(value as text))) from range(0, 2000000)";
    let ran = shell.run(["--memory-limit", "8m", "-c", "select 1", "-c", hopeless]);
    let error = ran.failed("memory_limit");
    assert!(error.contains("\n  help: ") && error.contains("--memory-limit"), "{ran}");
    for line in error.lines() {
        assert!(!line.trim_end().ends_with(':'), "a line that was cut: {ran}");
    }
}

#[test]
fn threads_are_target_partitions() {
    let shell = Shell::new();
    for threads in ["1", "3"] {
        let ran =
            shell.run(["--threads", threads, "--format", "tsv", "-c", "show datafusion.execution.target_partitions"]);
        assert_eq!(ran.lines(), [format!("datafusion.execution.target_partitions\t{threads}")]);
    }
}

const CONFIG: &str = r#"
[datasets.events]
primary_timestamp = "ts"
lookup = ["sid"]
"#;

#[test]
fn datasets_are_declared_in_a_file() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    shell.file("elsewhere/other.toml", CONFIG);
    shell.run(["--config", "elsewhere/other.toml", "export", "events", "events.csv"]).ok();
    assert_eq!(one(&shell, "select count(*) from events"), "5");
    assert!(shell.path("warehouse/main/events/data/ts_day=2026-06-04").is_dir());

    // Without the flag, the file in the working directory.
    shell.file("daygrain.toml", CONFIG);
    shell.run(["-w", "second", "export", "events", "events.csv"]).ok();
    assert!(shell.path("second/main/events/data/ts_day=2026-06-04").is_dir());

    shell.run(["--config", "nowhere.toml", "-c", "select 1"]).failed("invalid_config");
    shell.file("daygrain.toml", "datasets = 7");
    let ran = shell.run(["-c", "select 1"]);
    assert!(ran.failed("invalid_config").contains("daygrain.toml"), "{ran}");
}

const ONE_WRONG: &str = r#"
[datasets.events]
primary_timestamp = "ts"

[datasets.broken]
lookup = ["nowhere"]
schema = [{ name = "n", type = "long" }]

[datasets.mistyped]
primary_timestmp = "ts"
"#;

#[test]
fn a_wrong_dataset_stops_only_what_uses_it() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    shell.file("daygrain.toml", ONE_WRONG);
    let warnings = |ran: &Ran| -> Vec<String> {
        let words = ran.stderr.lines().filter(|line| line.starts_with("warning: ")).map(str::to_owned);
        assert!(!ran.stderr.lines().any(|line| line.starts_with("error[")), "{ran}");
        words.collect()
    };
    // Once a run, however many statements it has, and nowhere but on standard error.
    let ran = shell.run(["--format", "tsv", "-c", "select 1 as a; select 2 as a", "-c", "show tables"]);
    assert!(ran.ok().starts_with("a\n1\na\n2\n"), "{ran}");
    let told = warnings(&ran);
    assert_eq!(told.len(), 2, "{ran}");
    assert!(told[0].contains("broken") && told[0].contains("unknown_column"), "{ran}");
    assert!(told[1].contains("mistyped") && told[1].contains("invalid_config"), "{ran}");

    let ran = shell.run(["export", "events", "events.csv"]);
    ran.ok();
    assert_eq!(warnings(&ran), told);
    assert!(shell.path("warehouse/main/events/data/ts_day=2026-06-04").is_dir());

    let before = shell.listing("warehouse");
    let ran = shell.run(["export", "broken", "events.csv"]);
    let error = ran.failed("unknown_column");
    for fact in ["dataset: broken", "column: nowhere", "file: ./daygrain.toml"] {
        assert!(error.contains(&format!("\n  {fact}\n")), "{fact}: {ran}");
    }
    // What the error says isn't said twice.
    assert_eq!(error.lines().filter(|line| line.starts_with("warning: ")).collect::<Vec<_>>(), [&told[1]], "{ran}");
    let ran = shell.run(["export", "mistyped", "--query", "select 1 as a", "--table", "another"]);
    let error = ran.failed("invalid_config");
    assert!(error.contains("line 10, column 1") && error.contains("primary_timestmp"), "{ran}");
    assert_eq!(shell.listing("warehouse"), before);
}

#[test]
fn a_file_that_is_no_configuration_stops_everything() {
    let shell = Shell::new();
    for text in ["datasets = 7", "[datasets.events", "[dataset.events]", "threads = 2\n[datasets.events]", "\u{0}"] {
        shell.file("daygrain.toml", text);
        let ran = shell.run(["-c", "select 1"]);
        assert!(ran.failed("invalid_config").contains("file: ./daygrain.toml"), "{ran}");
        assert_eq!(ran.stdout, "", "{ran}");
    }
}
