//! Random tables, random filters: the answer equals that of an engine that prunes nothing.
//!
//! ```text
//! seed ─▶ columns, rows of some exports ─┬─ export, export … ─▶ table ─▶ rows that match ┐
//!   └──▶ filters ────────────────────────┴─ plain DataFusion, in memory ─▶ rows that match ┴─ the same?
//! ```
//!
//! `DAYGRAIN_SEEDS=1000..2000` tries other seeds than the usual ones.
// @spec P1 P2 P3 P4

mod deleting;
mod filters;
mod tables;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use daygrain::Session;
use daygrain::session::Export;
use daygrain_tests::oracle;
use daygrain_tests::reference::Rng;
use futures::stream::{StreamExt, iter};

use self::tables::Table;
use crate::lab::{self, Lab};

/// Tables in every run of the suite.
const SEEDS: Range<u64> = 0..32;
/// Filters a table.
const FILTERS: usize = 12;
/// The table in SQL.
const NAME: &str = "t";
/// The same rows in memory, in our own session: our reading of literals, and no pruning.
const IN_MEMORY: &str = "t_in_memory";

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("DAYGRAIN_SEEDS") else { return usual };
    let (from, to) = text.split_once("..").expect("DAYGRAIN_SEEDS is a range");
    from.parse().unwrap()..to.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_filters_lose_no_row_and_find_no_other() {
    let mut tasks = iter(seeds(SEEDS)).map(|seed| tokio::spawn(try_seed(seed))).buffer_unordered(4);
    let (mut matched, mut asked, mut failed) = (0, 0, 0);
    while let Some(done) = tasks.next().await {
        match done {
            Ok((some, all)) => (matched, asked) = (matched + some, asked + all),
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "so many seeds failed; what they met is above");
    println!("{matched} of {asked} filters match some rows and not all");
    let made = seeds(SEEDS).count() * FILTERS;
    assert!(asked * 10 > made * 9, "the engine could not answer {} of {made} filters", made - asked);
    assert!(matched * 4 > asked, "filters that match nothing or everything test little");
}

/// How many filters match some rows but not all, of how many.
async fn try_seed(seed: u64) -> (usize, usize) {
    let mut rng = Rng::new(seed, 0);
    let table = Table::random(&mut rng);
    let lab = if rng.below(2) == 0 { Lab::remote() } else { Lab::local() };
    let session = lab.session();
    for batch in &table.exports {
        let request = Export {
            primary_timestamp: table.primary_timestamp.clone(),
            lookup: Some(table.lookup.clone()),
            ..lab::rows_of(NAME)
        };
        lab::export(&session, request, vec![batch.clone()])
            .await
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{batch:?}"));
    }
    let all = table.all();
    let plain = oracle::memory(NAME, vec![all.clone()]);
    hold(&session, &all);

    let (mut matched, mut asked) = (0, 0);
    for _ in 0..FILTERS {
        let filter = filters::random(&mut rng, &table);
        let rows = |table: &str| format!("SELECT * FROM {table} WHERE {filter}");
        let Some(expected) = expected(&plain, &session, rows).await else { continue };
        compare(seed, &session, &plain, &filter, &expected).await;
        asked += 1;
        matched += usize::from(!expected.is_empty() && expected.len() < all.num_rows());
    }
    (matched, asked)
}

/// What a query over a table finds in memory: by the engine as it comes, or in our session where it lacks a function or
/// cannot do without rewriting. `None` where nobody can say, because a value does not fit what it is cast to, or the
/// engine's arithmetic on ranges overflows.
async fn expected(plain: &SessionContext, session: &Session, sql: impl Fn(&str) -> String) -> Option<Vec<String>> {
    let (plain, over_name) = (plain.clone(), sql(NAME));
    let answer = tokio::spawn(async move { plain.sql(&over_name).await?.collect().await }).await;
    if let Ok(Ok(batches)) = answer {
        return Some(oracle::lines(&batches));
    }
    let (session, in_memory) = (session.clone(), sql(IN_MEMORY));
    let answer = tokio::spawn(async move {
        let answer = session.query(&in_memory).await;
        answer.inspect_err(|e| println!("no answer: {e}\n  {in_memory}"))
    });
    Some(oracle::lines(&answer.await.ok()?.ok()?.batches))
}

/// Gives a session the same rows in memory.
fn hold(session: &Session, rows: &RecordBatch) {
    let in_memory = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]]).unwrap();
    session.context().register_table(IN_MEMORY, Arc::new(in_memory)).unwrap();
}

/// Compares what a filter leaves, four ways of asking.
async fn compare(seed: u64, session: &Session, plain: &SessionContext, filter: &str, expected: &[String]) {
    let story = format!("seed {seed}: {filter}");
    let ours = |sql: String| async move { lab::lines(session, &sql).await };
    assert_eq!(ours(format!("SELECT * FROM {NAME} WHERE {filter}")).await, expected, "{story}");
    assert_eq!(ours(format!("SELECT * FROM {IN_MEMORY} WHERE {filter}")).await, expected, "{story}, in memory");
    let count = ours(format!("SELECT count(*) FROM {NAME} WHERE {filter}")).await;
    assert_eq!(count, [expected.len().to_string()], "{story}");

    let first = |table: &str| format!("SELECT id FROM {table} WHERE {filter} ORDER BY id LIMIT 3");
    assert_eq!(Some(ours(first(NAME)).await), self::expected(plain, session, first).await, "{story}");
    let complement = ours(format!("SELECT count(*) FROM {NAME} WHERE ({filter}) IS NOT TRUE")).await;
    let everything = ours(format!("SELECT count(*) FROM {NAME}")).await;
    let number = |lines: &[String]| lines[0].parse::<usize>().unwrap();
    assert_eq!(number(&count) + number(&complement), number(&everything), "{story}");
}
