//! daygrain beside DataFusion's `ListingTable` and DuckDB's iceberg extension, and beside itself with deleted rows.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use daygrain::Session;
use daygrain_tests::oracle;
use daygrain_tests::reference::{Reference, Size};

use crate::data;
use crate::duck::{self, Duck};
use crate::engines::{self, TABLE};
use crate::measure::{Times, repeated, warm};

/// Turns of each engine at each query.
const TURNS: usize = 7;
/// The queries that are asked again after deletes.
const AFTER_DELETES: usize = 5;

/// What is asked, by name.
pub fn queries() -> [(&'static str, String); 7] {
    let some = Reference::new(Size::FULL, 0).some_session();
    let days = "message_created_at >= '2026-05-20T00:00:00Z' AND message_created_at < '2026-05-23T00:00:00Z'";
    let from = |what: &str, rest: &str| format!("SELECT {what} FROM {TABLE} {rest}");
    let session = format!("WHERE session_id = '{some}'");
    [
        ("one session, aggregates", from("count(*), sum(input_tokens)", &session)),
        (
            "one session, text, ordered",
            from("message_created_at, role, content_text", &format!("{session} ORDER BY message_created_at")),
        ),
        ("three days, group by role", from("role, count(*)", &format!("WHERE {days} GROUP BY role"))),
        (
            "newest 10 by timestamp",
            from("message_created_at, session_id, role, content_text", "ORDER BY message_created_at DESC LIMIT 10"),
        ),
        ("full scan, text lengths by model", from("model, sum(length(content_text))", "GROUP BY model")),
        ("count(*)", from("count(*)", "")),
        ("count(*) of three days", from("count(*)", &format!("WHERE {days}"))),
    ]
}

/// Measures and prints. `deletes`: also after Spark has deleted a tenth of the rows.
pub async fn compare(warehouse: &Path, deletes: bool) {
    let session = engines::daygrain(warehouse, None);
    let listing = engines::listing(warehouse).await;
    let mut duck = Duck::start(&metadata(warehouse));
    if duck.is_none() {
        say("DuckDB is skipped: DAYGRAIN_PYTHON names no Python that has it");
    }
    say("| query | daygrain ms | ListingTable ms | DuckDB ms | daygrain / the faster |");
    say("|---|---|---|---|---|");
    for (name, sql) in queries() {
        let mut times = [Times::default(), Times::default(), Times::default()];
        for _ in 0..TURNS {
            let (answer, ours) = warm(async || session.query(&sql).await.expect("the query runs").batches).await;
            let (theirs, listed) = warm(async || engines::run(&listing, &sql).await).await;
            let lines = oracle::lines(&answer);
            assert_eq!(lines, oracle::lines(&theirs), "{name}: two engines disagree");
            let quack = match &mut duck {
                Some(duck) => Some(repeated(async || duck.run(&sql)).await),
                None => None,
            };
            if let Some((rows, _)) = quack {
                assert_eq!(rows, lines.len(), "{name}: DuckDB disagrees");
            }
            let quack = quack.map_or(Duration::MAX, |(_, time)| time);
            for (times, time) in times.iter_mut().zip([ours, listed, quack]) {
                times.add(time);
            }
        }
        let [ours, listed, quack] = times.map(|times| times.median());
        let ratio = ours / listed.min(quack);
        let quack = if duck.is_some() { format!("{quack:.2}") } else { "–".to_owned() };
        say(&format!("| {name} | {ours:.2} | {listed:.2} | {quack} | {ratio:.2} |"));
    }
    if deletes {
        after_deletes(&session).await;
    }
}

/// The same table without and with deletion vectors.
async fn after_deletes(whole: &Session) {
    let warehouse = deleted().await;
    let session = engines::daygrain(&warehouse, None);
    say("\n| query | ms | with a tenth of the rows deleted, ms | ratio |");
    say("|---|---|---|---|");
    for (name, sql) in &queries()[..AFTER_DELETES] {
        let mut times = [Times::default(), Times::default()];
        for _ in 0..TURNS {
            for (times, session) in times.iter_mut().zip([whole, &session]) {
                let (_, time) = warm(async || session.query(sql).await.expect("the query runs")).await;
                times.add(time);
            }
        }
        let [without, with] = times.map(|times| times.median());
        say(&format!("| {name} | {without:.2} | {with:.2} | {:.2} |", with / without));
    }
}

/// A table of the same rows of which Spark has deleted a tenth.
pub async fn deleted() -> PathBuf {
    let warehouse = data::home().join("deleted");
    if !warehouse.join("done").exists() {
        let warehouse = data::fresh("deleted");
        let session = engines::daygrain(&warehouse, None);
        engines::export(&session, vec![data::input(0).to_string_lossy().into_owned()]).await;
        let python = duck::python().expect("DAYGRAIN_PYTHON names a Python with Spark");
        let table = format!("main.{TABLE}");
        let ran = Command::new(python)
            .args([&duck::script("delete.py"), &*warehouse.to_string_lossy(), &table, "message_id"])
            .stdin(Stdio::null())
            .status()
            .expect("Python starts");
        assert!(ran.success(), "Spark could not delete");
        std::fs::write(warehouse.join("done"), "").expect("a mark");
    }
    warehouse
}

/// The table's only metadata file.
fn metadata(warehouse: &Path) -> PathBuf {
    warehouse.join("main").join(TABLE).join("metadata/v1.metadata.json")
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
