//! Scripts: where they come from, in which order they run, and how a run ends.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use daygrain_tests::shell::{Ran, Shell};

use crate::with_events;

const CSV: [&str; 2] = ["--format", "csv"];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    CSV.iter().chain(arguments).copied().collect()
}

/// The values of one-column results, without the names above them.
fn values(ran: &Ran) -> Vec<&str> {
    ran.ok().lines().filter(|line| *line != "v").collect()
}

#[test]
fn commands_and_files_run_in_the_order_given() {
    let shell = Shell::new();
    shell.file("a.sql", "select 2 as v;\nselect 3 as v");
    let ran = shell.run(with(&["-c", "select 1 as v", "-f", "a.sql", "-c", "select 4 as v; select 5 as v;"]));
    assert_eq!(values(&ran), ["1", "2", "3", "4", "5"]);
    let ran = shell.run(with(&["-f", "a.sql", "--command", "select 4 as v", "--file", "a.sql"]));
    assert_eq!(values(&ran), ["2", "3", "4", "2", "3"]);
}

#[test]
fn a_dash_is_standard_input() {
    let shell = Shell::new();
    let ran = shell.piped(with(&["-c", "select 1 as v", "-f", "-", "-c", "select 3 as v"]), "select 2 as v");
    assert_eq!(values(&ran), ["1", "2", "3"]);
}

#[test]
fn piped_input_is_a_script() {
    let shell = Shell::new();
    let script = "-- a comment; with a semicolon\nselect 1 as v;\n\nselect ';' as v; select $$a;b$$ as v\n;;";
    assert_eq!(values(&shell.piped(CSV, script)), ["1", ";", "a;b"]);
    assert_eq!(shell.piped(CSV, "").ok(), "");
    assert_eq!(shell.piped(CSV, " -- nothing\n").ok(), "");
}

#[test]
fn scripts_run_before_the_subcommand() {
    let shell = with_events();
    let export = ["export", "copy", "--query", "select * from events", "--primary-timestamp", "ts"];
    let ran = shell.run(with(&[&["-c", "select 7 as v"][..], &export].concat()));
    let lines: Vec<_> = ran.ok().lines().collect();
    assert_eq!(lines[..2], ["v", "7"]);
    assert!(lines[2].starts_with("table,rows,"), "{ran}");
}

#[test]
fn the_rest_is_not_run_after_a_failure() {
    let shell = with_events();
    let insert = "insert into events values ('2026-06-04T12:00:00Z', 'c', 9)";
    shell.file("a.sql", format!("select 1 as v; select nothing; {insert};"));
    for arguments in [vec!["-f", "a.sql", "-c", insert], vec!["-c", "selec 1", "-c", insert]] {
        let ran = shell.run(with(&arguments));
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.starts_with("error["), "{ran}");
    }
    let ran = shell.run(with(&["-f", "a.sql"]));
    assert_eq!(ran.stdout, "v\n1\n");
    ran.failed("unknown_column");
    shell.run(["-c", "select nothing", "export", "events", "events.csv"]).failed("unknown_column");
    assert_eq!(shell.sql("select count(*) as n from events").rows()[0]["n"], 5);
}

#[test]
fn mistakes_of_a_user_have_a_code_of_their_kind() {
    let shell = Shell::new();
    shell.file("bad.csv", "x,y\n\"a\n");
    let pattern = "from (values ('a', '(')) t(x, p)";
    for (sql, code) in [
        ("select regexp_like('x', '(')", "invalid_value"),
        (&format!("select regexp_like(x, p) {pattern}"), "invalid_value"),
        (&format!("select x ~ p {pattern}"), "invalid_value"),
        (&format!("select x !~* '(' {pattern}"), "invalid_value"),
        (&format!("select x similar to '(' {pattern}"), "invalid_value"),
        (&format!("select regexp_replace(x, '(', '') {pattern}"), "invalid_value"),
        (&format!("select regexp_match(x, p) {pattern}"), "invalid_value"),
        (&format!("select regexp_count(x, p) {pattern}"), "invalid_value"),
        (&format!("select regexp_instr(x, '(') {pattern}"), "invalid_value"),
        ("select regexp_like('x', 'a', 'q')", "invalid_value"),
        ("select json_get('{}', 1.5)", "sql_plan"),
        ("select json_get_int(1, 'a')", "sql_plan"),
        ("select date_trunc('eon', now())", "invalid_value"),
        ("select date_part('eon', now())", "invalid_value"),
        ("select date_bin(interval '0 day', now())", "invalid_value"),
        ("select to_timestamp('x')", "invalid_value"),
        ("select make_date(2024, 13, 1)", "invalid_value"),
        ("select timestamp '2024-01-01' + interval '1000000 years'", "invalid_value"),
        ("select cast('x' as int)", "invalid_value"),
        ("select cast(x as int) from (values ('a')) t(x)", "invalid_value"),
        ("select cast(300 as tinyint)", "invalid_value"),
        ("select cast(123456 as decimal(5, 2))", "invalid_value"),
        ("select 1 / 0", "invalid_value"),
        ("select x / 0 from (values (1)) t(x)", "invalid_value"),
        ("select factorial(100)", "invalid_value"),
        ("select abs(-9223372036854775808)", "invalid_value"),
        ("select decode('zz', 'hex')", "invalid_value"),
        ("select substr('abc', 1, -1)", "invalid_value"),
        ("select map([null], [1])", "query_failed"),
        ("select array_resize([1], -1)", "query_failed"),
        ("select sum(x) filter (where 1) from (values (1)) t(x)", "query_failed"),
        ("select sum('a')", "sql_plan"),
        ("select $1", "sql_plan"),
        ("execute nothing(1)", "sql_plan"),
        ("set datafusion.execution.batch_size = 'a'", "invalid_argument"),
        ("create view v as select 1; create view v as select 2", "already_exists"),
        ("create external table e stored as foo location '.'", "not_supported"),
        ("create external table e (a int) stored as csv location 'bad.csv'; select * from e", "input_corrupt"),
        ("create external table e stored as json location 'bad.csv'; select * from e", "input_corrupt"),
        ("copy (select 1) to '/proc/nowhere/x.csv'", "storage_failed"),
    ] {
        let ran = shell.run(["-c", sql]);
        ran.failed(code);
        for noise in ["Execution error", "Internal error", "External error", "panicked"] {
            assert!(!ran.stderr.contains(noise), "{ran}");
        }
    }
    let ran = shell.run(["-c", "select regexp_like('x', '(')"]);
    assert!(ran.failed("invalid_value").contains("  cause: unclosed group"), "{ran}");
}

#[test]
fn an_error_is_a_code_facts_and_help() {
    let shell = Shell::new();
    let ran = shell.run(["-c", "select * from nowhere"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "error[unknown_table]: there is no table main.nowhere\n  help: SHOW TABLES lists what there is\n"
    );
    shell.file("a.sql", "select 1;\nselect\n  nothing;");
    let ran = shell.run(["-f", "a.sql"]);
    let lines: Vec<_> = ran.failed("unknown_column").lines().collect();
    assert_eq!(lines, ["error[unknown_column]: there is no column nothing", "  at: a.sql, line 2"]);
    let ran = shell.piped([""; 0], "select 1;\n\n\nselec");
    assert!(ran.failed("sql_syntax").ends_with("\n  at: standard input, line 4\n"), "{ran}");
    shell.run(["-f", "nowhere.sql"]).failed("input_not_found");
    for (sql, code) in [
        ("select nofunction(1)", "unknown_function"),
        ("select * from nowhere.t", "unknown_table"),
        ("select cast('x' as int)", "invalid_value"),
        ("select 1 +", "sql_syntax"),
        ("select 'open", "sql_syntax"),
        ("insert into nowhere values (1)", "unknown_table"),
        ("describe nowhere", "unknown_table"),
        ("drop table nowhere", "unknown_table"),
        ("drop schema nowhere", "unknown_namespace"),
    ] {
        let ran = shell.run(["-c", sql]);
        ran.failed(code);
        assert_eq!(ran.stdout, "", "{ran}");
        for line in ran.stderr.lines().skip(1) {
            assert!(line.starts_with("  ") && line.contains(": "), "{ran}");
        }
    }
}

#[test]
fn wrong_usage_is_2() {
    let shell = Shell::new();
    for arguments in [
        &["bogus"][..],
        &["--nope"],
        &["-c"],
        &["export"],
        &["export", "events"],
        &["export", "events", "a.csv", "--query", "select 1"],
        &["--format", "xml", "-c", "select 1"],
        &["--memory-limit", "much", "-c", "select 1"],
        &["--threads", "0", "-c", "select 1"],
        &["--warehouse", "", "-c", "select 1"],
    ] {
        let ran = shell.run(arguments);
        ran.refused(2, "invalid_argument");
        assert_eq!(ran.stdout, "", "{ran}");
    }
    assert!(shell.run(["--help"]).ok().contains("--memory-limit <SIZE>"));
    assert!(shell.run(["--version"]).ok().starts_with("daygrain "));
}

#[test]
fn timing_is_one_line_on_standard_error() {
    let shell = with_events();
    let ran = shell.run(["--timing", "--format", "csv", "-c", "select n from events; create schema s; select 1 as v"]);
    assert_eq!(ran.ok().lines().count(), 8);
    let rows: Vec<_> = ran.stderr.lines().map(timed).collect();
    assert_eq!(rows, [5, 0, 1], "{ran}");
    let ran = shell.run(["--timing", "export", "events", "events.csv"]);
    ran.ok();
    assert_eq!(ran.stderr.lines().map(timed).collect::<Vec<_>>(), [5], "{ran}");
}

/// The rows of a line `time_ms=12.345 rows=161`.
fn timed(line: &str) -> u64 {
    let (time, rows) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (whole, fraction) = time.strip_prefix("time_ms=").and_then(|time| time.split_once('.')).expect("milliseconds");
    assert!(whole.parse::<u64>().is_ok() && fraction.len() == 3 && fraction.parse::<u64>().is_ok(), "{line}");
    rows.strip_prefix("rows=").and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// A query that runs for hours and produces its first row at the end.
const LONG: &str =
    "select count(*) from range(0, 10000000) a cross join range(0, 10000000) b where a.value * b.value = 7";

#[cfg(unix)]
#[test]
fn an_interrupt_is_130() {
    let shell = Shell::new();
    let script = format!("select 1 as v; {LONG}; select 2 as v");
    let mut command = shell.command(["--format", "csv", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the shell starts");
    std::thread::sleep(Duration::from_secs(2));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let ran = Ran::of(&child.wait_with_output().expect("the shell ends"), &command);
    assert_eq!(ran.code, Some(130), "{ran}");
    assert_eq!(ran.stdout, "v\n1\n");
    ran.refused(130, "interrupted");
}

/// One row for each of 6,000 days: as many files, which take a store seconds to make durable.
const DAYS: &str = "select arrow_cast(value * 86400000000, 'Timestamp(Microsecond, Some(\"+00:00\"))') as ts, value as n \
                    from range(0, 6000)";

#[cfg(unix)]
#[test]
fn an_interrupted_export_leaves_nothing() {
    let shell = Shell::new();
    let export = ["export", "days", "--query", DAYS, "--primary-timestamp", "ts"];
    for signal in ["-INT", "-TERM"] {
        let ran = interrupted_while_writing(&shell, &export, "main/days", signal);
        ran.refused(130, "interrupted");
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1), "{ran}");
        assert!(!shell.path("warehouse").exists(), "{:?}", shell.listing("warehouse"));
    }
    // A table that was there is as it was, and so is what another left empty.
    shell.sql("create schema s").ok();
    let few = format!("{DAYS} limit 5");
    shell.run(["export", "days", "--table", "s.days", "--query", &few, "--primary-timestamp", "ts"]).ok();
    fs::create_dir_all(shell.path("warehouse/s/other/data")).unwrap();
    let before = shell.listing("warehouse");
    let ran = interrupted_while_writing(&shell, &[&export[..], &["--table", "s.days"]].concat(), "s/days", "-INT");
    ran.refused(130, "interrupted");
    assert_eq!(shell.listing("warehouse"), before);
    assert!(shell.path("warehouse/s/other/data").exists());
    let days = fs::read_dir(shell.path("warehouse/s/days/data")).unwrap();
    assert_eq!(days.count(), before.iter().filter(|(file, _)| file.ends_with(".parquet")).count());
}

/// Sends a signal once an export has stored some files of a table.
#[cfg(unix)]
fn interrupted_while_writing(shell: &Shell, arguments: &[&str], table: &str, signal: &str) -> Ran {
    let data = format!("warehouse/{table}/data");
    let files = |shell: &Shell| shell.listing(&data).len();
    let before = files(shell);
    let mut command = shell.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the shell starts");
    let begun = std::time::Instant::now();
    while files(shell) < before + 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the export writes nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    Ran::of(&child.wait_with_output().expect("the shell ends"), &command)
}

#[test]
fn a_reader_that_has_enough_ends_the_run() {
    let shell = Shell::new();
    let run = |sql: &str| {
        let mut command = shell.command(["--format", "csv", "-c", sql]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the shell starts");
        drop(child.stdout.take());
        Ran::of(&child.wait_with_output().expect("the shell ends"), &command)
    };
    let ran = run("select value from range(0, 1000000)");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let ran = run("select value from range(0, 1000000); select 1");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(141), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn standard_output_without_room_is_an_error() {
    let shell = Shell::new();
    let mut command = shell.command(["--format", "csv", "-c", "select value from range(0, 1000000)"]);
    command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
    Ran::of(&command.output().expect("the shell starts"), &command).failed("storage_full");
}

#[cfg(unix)]
#[test]
fn the_demo_shows_what_was_pruned() {
    let shell = Shell::new();
    let ran = shell.run(["demo"]);
    let shown = ran.ok();
    for part in ["EXPLAIN PRUNING", "partition", "column_bounds"] {
        assert!(shown.to_lowercase().contains(&part.to_lowercase()), "{part}: {ran}");
    }
    // The last line is a command that works wherever the program lies.
    let last = shown.lines().last().unwrap().trim();
    let go_on = format!("{last} -c 'select count(*) from messages'");
    let ran = Command::new("sh").args(["-c", &go_on]).current_dir(shell.path(".")).output().expect("sh runs");
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("20000"), "{last}: {ran:?}");
    // Again, in a new directory.
    shell.run(["demo"]).ok();
}
