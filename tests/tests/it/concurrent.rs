//! Several writers at once, in processes and in tasks, and one that is killed: every row that was committed is there once.
// @spec C4 W7 W9

use std::process::{Child, Stdio};
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use daygrain::session::{Export, ExportProgress};
use daygrain::sink::Outcome;
use daygrain_tests::reference::{Order, Reference, Size};
use daygrain_tests::shell::{Ran, Shell};
use futures::future::join_all;
use std::sync::Arc;

use crate::lab::{self, Lab};

const ROUNDS: usize = 3;
const ROWS: usize = 300;

/// `ROWS` rows over three days, the first numbered `first`.
fn csv(first: usize) -> String {
    let mut text = "ts,sid,n\n".to_owned();
    for n in first..first + ROWS {
        text.push_str(&format!("2026-06-{:02}T{:02}:30:00Z,s-{},{n}\n", 1 + n % 3, n % 24, n % 7));
    }
    text
}

/// Starts the export of one file.
fn start(shell: &Shell, file: &str, more: &[&str]) -> (std::process::Command, Child) {
    let mut arguments =
        vec!["--format", "ndjson", "export", "events", file, "--primary-timestamp", "ts", "--lookup", "sid"];
    arguments.extend(more);
    let mut command = shell.command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (command, child)
}

/// Starts all and waits for all; each must end well. The outcomes, sorted.
fn at_once(shell: &Shell, exports: &[(&str, &[&str])]) -> Vec<String> {
    let running: Vec<_> = exports.iter().map(|(file, more)| start(shell, file, more)).collect();
    let ended = running.into_iter().map(|(command, child)| Ran::of(&child.wait_with_output().unwrap(), &command));
    let mut outcomes: Vec<String> = ended.map(|ran| ran.rows()[0]["outcome"].as_str().unwrap().to_owned()).collect();
    outcomes.sort();
    outcomes
}

/// Rows, distinct rows, and the sum of their numbers.
fn there(shell: &Shell) -> (usize, usize, usize) {
    let row = shell.sql("SELECT count(*) c, count(DISTINCT n) d, coalesce(sum(n), 0) s FROM events").rows().remove(0);
    let number = |key: &str| row[key].as_u64().unwrap() as usize;
    (number("c"), number("d"), number("s"))
}

fn rows_up_to(n: usize) -> (usize, usize, usize) {
    (n, n, n * n.saturating_sub(1) / 2)
}

#[test]
fn two_processes_at_once_lose_nothing() {
    let shell = Shell::new();
    for round in 0..ROUNDS {
        // In the first round both also create the table.
        let files = [2 * round, 2 * round + 1].map(|i| {
            let name = format!("{i}.csv");
            shell.file(&name, csv(i * ROWS));
            name
        });
        let outcomes = at_once(&shell, &[(&files[0], &[]), (&files[1], &[])]);
        assert_eq!(outcomes, ["committed", "committed"], "round {round}");
        assert_eq!(there(&shell), rows_up_to(2 * (round + 1) * ROWS), "round {round}");
    }
}

#[test]
fn a_batch_from_two_processes_lands_once() {
    let shell = Shell::new();
    for round in 0..ROUNDS {
        shell.file("in.csv", csv(round * ROWS));
        let batch = format!("batch-{round}");
        let same: (&str, &[&str]) = ("in.csv", &["--batch-id", &batch]);
        assert_eq!(at_once(&shell, &[same, same]), ["committed", "skipped"], "round {round}");
        assert_eq!(there(&shell), rows_up_to((round + 1) * ROWS), "round {round}");
        assert_eq!(at_once(&shell, &[same]), ["skipped"]);
    }
    let live = shell.sql("EXPLAIN PRUNING SELECT max(n) FROM events").rows();
    let files = live.iter().find(|row| row["level"] == "files" && row["reason"].is_null()).unwrap();
    let stored = shell.listing("warehouse").into_iter().filter(|(file, _)| file.ends_with(".parquet")).count();
    assert_eq!(files["total"], stored, "the loser's files are removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_appends_of_one_process_all_land() {
    for lab in [Lab::remote(), Lab::local()] {
        let reference = Reference::new(Size { rows: 800, sessions: 16, days: 4 }, 3);
        let batches: Vec<RecordBatch> = reference.batches(Order::Shuffled, 100).collect();
        let session = lab.session().with_dataset(Reference::dataset());
        let exports = batches.into_iter().enumerate().map(|(i, batch)| {
            let session = session.clone();
            async move {
                let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
                session.context().register_table(format!("part_{i}"), Arc::new(table)).unwrap();
                let request = Export {
                    dataset: "ai_gateway_messages".to_owned(),
                    query: Some(format!("SELECT * FROM part_{i}")),
                    ..Export::default()
                };
                session.export(request, ExportProgress::default()).await
            }
        });
        let landed = join_all(exports.map(tokio::spawn)).await;
        for exported in landed {
            assert_eq!(exported.unwrap().unwrap().report.outcome, Outcome::Committed);
        }
        let count = "SELECT count(*), count(DISTINCT message_id) FROM ai_gateway_messages";
        assert_eq!(lab::lines(&lab.session(), count).await, ["800|800"]);
    }
}

/// Killed at any moment, an export has happened or has not, and the same batch again makes it whole.
#[test]
fn a_killed_export_has_happened_or_not() {
    let shell = Shell::new();
    shell.file("before.csv", csv(0));
    assert_eq!(at_once(&shell, &[("before.csv", &[])]), ["committed"]);
    let many: String = (1..40).map(|i| csv(i * ROWS).split_once('\n').unwrap().1.to_owned()).collect();
    let (before, after) = (rows_up_to(ROWS), rows_up_to(40 * ROWS));
    shell.file("many.csv", format!("ts,sid,n\n{many}"));
    let mut wait = Duration::from_millis(40);
    let mut killed = 0;
    loop {
        let (_, mut child) = start(&shell, "many.csv", &["--batch-id", "many"]);
        std::thread::sleep(wait);
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        killed += usize::from(!ended.success());
        let found = there(&shell);
        assert!(found == before || found == after, "after {wait:?}: {found:?}");
        if found == after {
            break;
        }
        wait = wait.mul_f64(1.2);
    }
    println!("killed {killed} times, at last after {wait:?}");
    assert_eq!(at_once(&shell, &[("many.csv", &["--batch-id", "many"])]), ["skipped"]);
    assert_eq!(there(&shell), after);
}
