//! What the shell promises to scripts and to people, checked on the program itself.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod bad_input;
mod damaged;
mod engines;
mod export;
mod external;
mod formats;
mod names;
mod pruning;
mod refused;
mod running;
mod settings;

use daygrain_tests::shell::Shell;

/// Three days, two sessions, a row without a time.
const EVENTS: &str = "\
ts,sid,n
2026-06-04T12:00:00Z,a,1
2026-06-04T13:00:00Z,b,2
2026-06-05T13:00:00Z,a,3
2026-06-06T13:00:00Z,b,4
,a,5
";

/// A warehouse with the table `events` of five rows in four files.
fn with_events() -> Shell {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    shell.run(["export", "events", "events.csv", "--primary-timestamp", "ts", "--lookup", "sid"]).ok();
    shell
}

/// The value of the only row and column of a query.
#[track_caller]
fn one(shell: &Shell, sql: &str) -> String {
    let ran = shell.tsv(sql);
    let lines = ran.lines();
    assert_eq!(lines.len(), 1, "{ran}");
    lines[0].to_owned()
}
