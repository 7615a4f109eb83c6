//! Random tables with deletes of every kind: the answer equals that over the rows which the specification leaves.
//!
//! ```text
//! seed ─▶ columns and specs that change, data files, deletes ─┬─ written as others write ─▶ table ─▶ rows ┐
//!   └──▶ filters, columns, limits ────────────────────────────┴─ live rows, in memory ─▶ rows ────────────┴─ the same?
//! ```
//!
//! What iceberg-datafusion can read, it must read the same. `DAYGRAIN_SEEDS` is as in the parent.
// @spec P7

mod deletes;
mod story;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use daygrain::Session;
use daygrain::session::Answer;
use daygrain_tests::oracle;
use daygrain_tests::reference::Rng;
use futures::stream::{StreamExt, iter};
use iceberg::TableIdent;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use iceberg::table::StaticTable;
use iceberg_datafusion::IcebergStaticTableProvider;

use self::story::Story;
use super::tables::{Table, pick};
use super::{NAME, filters, hold, seeds};
use crate::foreign;
use crate::lab::{self, Lab};

/// Tables in every run of the suite.
const SEEDS: Range<u64> = 0..16;
/// Questions a table.
const QUESTIONS: usize = 8;

/// What came of some tables.
#[derive(Debug, Default)]
struct Tally {
    asked: usize,
    /// Filters that some live rows match and not all.
    telling: usize,
    tables: usize,
    deleted_rows: usize,
    /// Tables with deleted rows of which iceberg-datafusion said the same.
    common: usize,
    /// Tables that it ought to read and could not.
    refused: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.asked += other.asked;
        self.telling += other.telling;
        self.tables += other.tables;
        self.deleted_rows += other.deleted_rows;
        self.common += other.common;
        self.refused += other.refused;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_deletes_leave_what_the_specification_leaves() {
    let mut tasks = iter(seeds(SEEDS)).map(|seed| tokio::spawn(try_seed(seed))).buffer_unordered(4);
    let (mut tally, mut failed) = (Tally::default(), 0);
    while let Some(done) = tasks.next().await {
        match done {
            Ok(one) => tally.add(&one),
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "so many seeds failed; what they met is above");
    println!("{tally:?}");
    let made = seeds(SEEDS).count() * QUESTIONS;
    assert!(tally.asked * 10 > made * 9, "the engine could not answer {} of {made} questions", made - tally.asked);
    assert!(tally.telling * 5 > tally.asked, "filters that match nothing or everything test little");
    assert!(tally.deleted_rows > tally.tables, "tables with few deletes test little");
    let many = tally.tables >= SEEDS.count();
    assert!(!many || tally.common > 0, "iceberg-datafusion was never asked");
}

async fn try_seed(seed: u64) -> Tally {
    let mut rng = Rng::new(seed, 1);
    let directory = tempfile::tempdir().unwrap();
    let story = Story::random(&mut rng, format!("file://{}/t", directory.path().display()));
    let metadata = foreign::write(&story.table()).await;
    let live = story.live();
    let rows = story.rows(&live);
    let plain = oracle::memory(NAME, vec![rows.clone()]);
    let lab = Lab::local();
    let session = lab.session_of(pick(&mut rng, &[1, 2, 5]));
    let location = metadata.trim_start_matches("file://");
    lab::query(&session, &format!("CREATE EXTERNAL TABLE {NAME} STORED AS ICEBERG LOCATION '{location}'")).await;
    hold(&session, &rows);

    let mut tally = Tally { tables: 1, ..Tally::default() };
    tally.deleted_rows = live.iter().flatten().filter(|live| !**live).count();
    let case = Case { seed, story: &story, session: &session, plain: &plain };
    case.everything().await;
    if story.is_common() {
        match other_reader(&metadata).await {
            Ok(theirs) => {
                let ours = oracle::answer(&plain, &format!("SELECT * FROM {NAME}")).await;
                assert_eq!(theirs, ours, "seed {seed}: iceberg-datafusion knows better");
                tally.common += usize::from(tally.deleted_rows > 0);
            }
            Err(error) => {
                println!("seed {seed}: iceberg-datafusion cannot read the table: {error}");
                tally.refused += 1;
            }
        }
    }
    let columns = &story.epochs[story.now()].columns;
    let named = Table {
        columns: columns[1..].iter().map(|column| (column.name.clone(), column.kind)).collect(),
        primary_timestamp: None,
        lookup: Vec::new(),
        exports: Vec::new(),
    };
    for _ in 0..QUESTIONS {
        let filter = filters::random(&mut rng, &named);
        let some = columns.iter().map(|column| column.name.as_str()).filter(|_| rng.below(2) == 0);
        let some = some.collect::<Vec<_>>().join(", ");
        let shown = if some.is_empty() { "id + 1" } else { &some };
        let Some(matched) = case.ask(&filter, shown, 1 + rng.below(20)).await else { continue };
        tally.asked += 1;
        tally.telling += usize::from(matched > 0 && matched < rows.num_rows());
    }
    tally
}

/// A table in daygrain and its live rows in memory.
struct Case<'a> {
    seed: u64,
    story: &'a Story,
    session: &'a Session,
    plain: &'a SessionContext,
}

impl Case<'_> {
    /// No filter: rows, counts and first rows.
    async fn everything(&self) {
        self.ask("true", "*", 7).await.expect("there is nothing that could not be answered");
        let counted = format!("SELECT count(*) FROM {NAME}");
        let expected = oracle::answer(self.plain, &counted).await;
        assert_eq!(self.lines(&counted).await, expected, "seed {}: {counted}", self.seed);
    }

    /// Holds rows, their number, some of them and the ledger against the live rows; how many match.
    async fn ask(&self, filter: &str, shown: &str, limit: u64) -> Option<usize> {
        let sql = format!("SELECT {shown} FROM {NAME} WHERE {filter}");
        let expected = |what: &str| {
            let what = what.to_owned();
            super::expected(self.plain, self.session, move |table| format!("SELECT {what} FROM {table} WHERE {filter}"))
        };
        let matched = expected("*").await?.len();
        let rows = expected(shown).await?;
        let story = format!("seed {}: {sql}", self.seed);
        assert_eq!(self.lines(&sql).await, rows, "{story}");
        let count = self.lines(&format!("SELECT count(*) FROM {NAME} WHERE {filter}")).await;
        assert_eq!(count, [matched.to_string()], "{story}");
        let some = self.lines(&format!("{sql} LIMIT {limit}")).await;
        assert_eq!(some.len(), rows.len().min(limit as usize), "{story} LIMIT {limit}");
        assert!(some.iter().all(|line| rows.contains(line)), "{story} LIMIT {limit}");
        self.explained(&sql).await;
        Some(matched)
    }

    async fn lines(&self, sql: &str) -> Vec<String> {
        let answer = self.session.query(sql).await.unwrap_or_else(|e| panic!("seed {}: {sql}\n{e}", self.seed));
        self.adds_up(sql, &answer);
        oracle::lines(&answer.batches)
    }

    /// Every file is kept or skipped, once.
    fn adds_up(&self, sql: &str, answer: &Answer) {
        for scan in &answer.scans {
            let ledger = &scan.ledger;
            assert_eq!(ledger.files.total(), self.story.files.len() as u64, "seed {}: {sql}", self.seed);
            assert_eq!(ledger.delete_files.total(), self.story.deletes.len() as u64, "seed {}: {sql}", self.seed);
            for tally in [&ledger.files, &ledger.delete_files, &ledger.row_groups, &ledger.pages, &ledger.rows] {
                assert_eq!(tally.total(), tally.kept() + tally.skipped_total(), "seed {}: {sql}", self.seed);
            }
        }
    }

    /// `EXPLAIN PRUNING` adds up, and each skip has a reason. It says nothing of a query that scans nothing.
    async fn explained(&self, sql: &str) {
        let lines = lab::lines(self.session, &format!("EXPLAIN PRUNING {sql}")).await;
        let mut levels: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for line in &lines {
            let cells: Vec<&str> = line.split('|').collect();
            let number = |at: usize| cells[at].parse::<u64>().ok();
            let (level, total, skipped) = (cells[1].to_owned(), number(2).unwrap(), number(4).unwrap());
            match number(3) {
                Some(kept) => {
                    assert_eq!(kept + skipped, total, "seed {}: {sql}\n{lines:#?}", self.seed);
                    levels.entry(level).or_default().0 += skipped;
                }
                None => levels.entry(level).or_default().1 += skipped,
            }
        }
        assert!(lines.is_empty() || levels.contains_key("delete_files"), "{lines:?}");
        for (level, (skipped, reasons)) in levels {
            assert_eq!(skipped, reasons, "seed {}: {level}: {sql}\n{lines:#?}", self.seed);
        }
    }
}

/// All rows as iceberg-datafusion reads them.
async fn other_reader(metadata: &str) -> Result<Vec<String>, String> {
    let metadata = metadata.to_owned();
    let rows = tokio::spawn(async move {
        let io = FileIO::new_with_fs();
        let read = TableMetadata::read_from(&io, &metadata).await.map_err(|e| e.to_string())?;
        let ident = TableIdent::from_strs(["main", NAME]).map_err(|e| e.to_string())?;
        let table = StaticTable::from_metadata(read, ident, io).await.map_err(|e| e.to_string())?;
        let provider = IcebergStaticTableProvider::try_new_from_table(table.into_table()).await;
        let context = SessionContext::new();
        context.register_table(NAME, Arc::new(provider.map_err(|e| e.to_string())?)).map_err(|e| e.to_string())?;
        let frame = context.sql(&format!("SELECT * FROM {NAME}")).await.map_err(|e| e.to_string())?;
        Ok(oracle::lines(&frame.collect().await.map_err(|e| e.to_string())?))
    });
    rows.await.map_err(|e| e.to_string())?
}
