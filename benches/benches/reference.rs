//! Side by side on the reference dataset: `cargo bench -p daygrain-benches`.
//!
//! `read` and `write` alone measure half of it, `planning` measures planning on tables of up to a million files, `data` only
//! makes the input, `compare [deletes]` is what `compare/run` runs, `remote` counts requests, also to a store that is 30 ms
//! away, `again NAME [listing | deletes]` runs one query for some
//! seconds, for a profiler to watch. Exports run in processes of their own, so that their peaks of memory are
//! theirs alone.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on ends")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use daygrain_benches::engines::{self, TABLE};
use daygrain_benches::measure::{Times, peak_resident_mib, timed, warm};
use daygrain_benches::{compare, data, engines::THREADS, planning, remote};
use daygrain_tests::oracle;
use daygrain_tests::reference::{Reference, Size};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The memory limit of the measured export.
const MEMORY_LIMIT: usize = 256 << 20;
/// Turns of each engine at each query.
const RUNS: usize = 15;
/// Processes that measure planning.
const COLD_RUNS: usize = 5;
/// Runs of the export and of the copy.
const WRITES: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().expect("a runtime");
    match words.as_slice() {
        ["child", "export", warehouse, inputs @ ..] => runtime.block_on(child_export(warehouse, inputs)),
        ["child", "copy", input, output] => runtime.block_on(child_copy(input, output)),
        ["child", "planning", name] => runtime.block_on(child_planning(name)),
        ["planning"] => runtime.block_on(planning()),
        ["data"] => drop(data::input(0)),
        ["write"] => write(),
        ["read"] => runtime.block_on(read()),
        ["remote"] => runtime.block_on(async { remote::remote(&warehouse()).await }),
        ["compare"] => runtime.block_on(compare_all(false)),
        ["compare", "deletes"] => runtime.block_on(compare_all(true)),
        ["again", name, of @ ..] => runtime.block_on(again(name, of)),
        [] => {
            write();
            runtime.block_on(read());
        }
        other => say(&format!("nothing is called {other:?}: read, write, planning, or nothing for the first two")),
    }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Time and peak memory of one run in a process of its own.
fn child(arguments: &[String]) -> (f64, u64) {
    let numbers = numbers(arguments);
    (numbers[0], numbers[1] as u64)
}

/// What a process of its own measured.
fn numbers(arguments: &[String]) -> Vec<f64> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg("child").args(arguments).output().expect("a child process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

async fn child_export(warehouse: &str, inputs: &[&str]) {
    let session = engines::daygrain(Path::new(warehouse), Some(MEMORY_LIMIT));
    let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
    let (exported, time) = timed(engines::export(&session, inputs)).await;
    assert_eq!(exported.report.files, Size::FULL.days as u64, "{exported:?}");
    say(&format!("{} {}", time.as_secs_f64() * 1e3, peak_resident_mib()));
}

async fn child_copy(input: &str, output: &str) {
    let ((), time) = timed(engines::copy(Path::new(input), Path::new(output))).await;
    say(&format!("{} {}", time.as_secs_f64() * 1e3, peak_resident_mib()));
}

async fn child_planning(name: &str) {
    let (shape, ..) = planning::TABLES.into_iter().find(|(shape, ..)| shape.name == name).expect("a table's name");
    let got = planning::measure(&shape, &shape.warehouse().await).await;
    say(&format!("{} {} {} {} {} {}", got.cold, got.warm, got.statement, got.resident, got.files, got.all));
}

async fn planning() {
    say("\n## Planning one day\n");
    say("| files | days | manifests | files of the day | cold ms | wanted | warm ms | wanted | statement, warm, ms | \
         resident MiB | all files, warm, ms |");
    say("|---|---|---|---|---|---|---|---|---|---|---|");
    for (shape, cold, warm) in planning::TABLES {
        shape.warehouse().await;
        let mut runs: Vec<Vec<f64>> = Vec::new();
        for _ in 0..COLD_RUNS {
            runs.push(numbers(&["planning".to_owned(), shape.name.to_owned()]));
        }
        let middle = |at: usize| {
            let mut values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let manifests =
            format!("{}, {}", shape.manifests(), if shape.scattered { "all days each" } else { "a day each" });
        say(&format!(
            "| {} | {} | {manifests} | {:.0} | {:.1} | ≤ {cold} | {:.2} | ≤ {warm} | {:.1} | {:.0} | {:.0} |",
            shape.files(),
            shape.days,
            middle(4),
            middle(0),
            middle(1),
            middle(2),
            middle(3) / 1024.0,
            middle(5)
        ));
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn write() {
    let input = data::input(0);
    say("\n## Export\n");
    say("| work | ms (median) | peak resident MiB |");
    say("|---|---|---|");
    let (mut exports, mut copies) = (Vec::new(), Vec::new());
    for _ in 0..WRITES {
        exports.push(child(&["export".into(), text(&data::fresh("warehouse")), text(&input)]));
        copies.push(child(&["copy".into(), text(&input), text(&data::fresh("copied"))]));
    }
    let median = |runs: &[(f64, u64)]| {
        let mut times: Vec<f64> = runs.iter().map(|run| run.0).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let peak = |runs: &[(f64, u64)]| runs.iter().map(|run| run.1).max().unwrap_or_default();
    let (export, copy) = (median(&exports), median(&copies));
    say(&format!("| daygrain export, 1×, limit 256 MiB | {export:.0} | {} |", peak(&exports)));
    say(&format!("| COPY … PARTITIONED BY, unsorted | {copy:.0} | {} |", peak(&copies)));
    let inputs: Vec<PathBuf> = (0..4).map(data::input).collect();
    let mut arguments = vec!["export".to_owned(), text(&data::fresh("fourfold"))];
    arguments.extend(inputs.iter().map(|input| text(input)));
    let (time, memory) = child(&arguments);
    say(&format!("| daygrain export, 4×, limit 256 MiB | {time:.0} | {memory} |"));
    say(&format!("\nexport / copy: {:.2}", export / copy));
    let _ = data::fresh("fourfold");
    let _ = data::fresh("copied");
}

/// The reference dataset as a table, exported if it is not there.
fn warehouse() -> PathBuf {
    let warehouse = data::home().join("warehouse");
    if !warehouse.exists() {
        child(&["export".into(), text(&warehouse), text(&data::input(0))]);
    }
    warehouse
}

async fn compare_all(deletes: bool) {
    compare::compare(&warehouse(), deletes).await;
}

async fn read() {
    let warehouse = warehouse();
    let session = engines::daygrain(&warehouse, None);
    let listing = engines::listing(&warehouse).await;
    let iceberg = engines::iceberg(&warehouse).await;
    let queries = queries();
    say("\n## Queries, warm, two threads (median ms)\n");
    say(
        "| query | daygrain | ListingTable | iceberg-datafusion | daygrain / ListingTable | daygrain / iceberg-datafusion |",
    );
    say("|---|---|---|---|---|---|");
    for (name, sql) in &queries {
        let mut times = [Times::default(), Times::default(), Times::default()];
        for _ in 0..RUNS {
            let (answer, ours) = warm(async || session.query(sql).await.expect("the query runs").batches).await;
            let (theirs, listed) = warm(async || engines::run(&listing, sql).await).await;
            let (others, scanned) = warm(async || engines::run(&iceberg, sql).await).await;
            let lines = oracle::lines(&answer);
            assert_eq!(lines, oracle::lines(&theirs), "{name}: two engines disagree");
            assert_eq!(lines, oracle::lines(&others), "{name}: two engines disagree");
            for (times, time) in times.iter_mut().zip([ours, listed, scanned]) {
                times.add(time);
            }
        }
        let [ours, listed, scanned] = times.map(|times| times.median());
        say(&format!(
            "| {name} | {ours:.2} | {listed:.2} | {scanned:.2} | {:.2} | {:.2} |",
            ours / listed,
            ours / scanned
        ));
    }
}

/// What is asked of every engine, by name.
fn queries() -> [(&'static str, String); 4] {
    let some = Reference::new(Size::FULL, 0).some_session();
    [
        ("full scan", format!("SELECT model, sum(length(content_text)) FROM {TABLE} GROUP BY model")),
        ("one session", format!("SELECT count(*), sum(input_tokens) FROM {TABLE} WHERE session_id = '{some}'")),
        (
            "three days",
            format!(
                "SELECT role, count(*) FROM {TABLE} WHERE message_created_at >= '2026-05-20T00:00:00Z' \
                 AND message_created_at < '2026-05-23T00:00:00Z' GROUP BY role"
            ),
        ),
        ("count(*)", format!("SELECT count(*) FROM {TABLE}")),
    ]
}

/// How long a query is run again and again for a profiler.
const WATCHED: Duration = Duration::from_secs(8);

async fn again(name: &str, of: &[&str]) {
    let queries: Vec<_> = queries().into_iter().chain(compare::queries()).collect();
    let (_, sql) = queries.iter().find(|(known, _)| *known == name).expect("a query of this name");
    let plain = of == ["listing"];
    let warehouse = if of == ["deletes"] { compare::deleted().await } else { warehouse() };
    let session = engines::daygrain(&warehouse, None);
    let listing = engines::listing(&warehouse).await;
    let (start, mut runs) = (Instant::now(), 0_u32);
    while start.elapsed() < WATCHED {
        if plain {
            engines::run(&listing, sql).await;
        } else {
            session.query(sql).await.expect("the query runs");
        }
        runs += 1;
    }
    say(&format!("{name}: {runs} runs, {:.3} ms each", start.elapsed().as_secs_f64() * 1e3 / f64::from(runs)));
}
