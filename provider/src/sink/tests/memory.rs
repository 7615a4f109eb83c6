//! Memory stays where it is, however many the rows and however large.

use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::*;

/// A pool that remembers the most that was reserved.
#[derive(Debug)]
struct Watched<P> {
    inner: P,
    peak: std::sync::atomic::AtomicUsize,
}

impl<P: MemoryPool> Watched<P> {
    fn new(inner: P) -> Arc<Self> {
        Arc::new(Watched { inner, peak: Default::default() })
    }
    fn look(&self) {
        self.peak.fetch_max(self.inner.reserved(), std::sync::atomic::Ordering::SeqCst);
    }
    fn peak(&self) -> usize {
        self.peak.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl<P: MemoryPool> MemoryPool for Watched<P> {
    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }
    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }
    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.look();
    }
    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        let grown = self.inner.try_grow(reservation, additional);
        self.look();
        grown
    }
    fn reserved(&self) -> usize {
        self.inner.reserved()
    }
    fn memory_limit(&self) -> datafusion::execution::memory_pool::MemoryLimit {
        self.inner.memory_limit()
    }
}

/// `rows` messages of about `bytes` bytes each, of six days.
fn large(rows: usize, bytes: usize) -> Vec<Row> {
    let mut all = shuffled(6, rows / 6);
    for row in &mut all {
        let seed = row.tokens.unwrap();
        row.text =
            (0..bytes as i64 / 16).map(|i| format!("{:016x}", (seed + 1).wrapping_mul(0x9e37_79b9 + i * i))).collect();
    }
    all
}

fn spilled(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let mut found = (0, 0);
    if plan.name() == "ExternalSortExec" {
        let metrics = plan.metrics().unwrap();
        found = (metrics.spill_count().unwrap(), metrics.spilled_rows().unwrap());
    }
    plan.children().iter().map(|c| spilled(c)).fold(found, |(a, b), (c, d)| (a + c, b + d))
}

async fn check_sorted(table: &Table, rows: &[Row]) {
    let mut tokens = Vec::new();
    for file in table.files().await {
        let batches = table.read(&file).await;
        let sessions = texts(&batches, "session_id");
        assert!(sessions.is_sorted());
        for batch in &batches {
            let text = batch.column_by_name("content_text").unwrap().as_string::<i32>().clone();
            let numbers = batch.column_by_name("input_tokens").unwrap().as_primitive::<Int64Type>().clone();
            for (number, text) in numbers.iter().zip(text.iter()) {
                let number = number.unwrap();
                let row = rows.iter().find(|r| r.tokens == Some(number)).unwrap();
                assert_eq!(text.unwrap(), row.text);
                tokens.push(number);
            }
        }
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (0..rows.len() as i64).collect::<Vec<_>>());
}

async fn check_spilling<P: MemoryPool + 'static>(pool: Arc<Watched<P>>, limit: usize) {
    let rows = large(6000, 3000);
    let table = Table::new(&[]).with_pool(pool.clone());
    let report = table.insert(messages(&rows, 2)).await.unwrap();
    assert_eq!((report.rows, report.files), (6000, 6));
    let (runs, spilled) = spilled(table.plan.lock().as_ref().unwrap());
    assert!(runs > 4 && spilled >= 6000, "{runs} runs, {spilled} rows");
    // What is reserved beyond the limit is what the sort's floor and a merge can't do without.
    assert!(pool.peak() <= limit + (4 << 20), "{}", pool.peak());
    check_sorted(&table, &rows).await;
}

// @spec W3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_fits_is_spilled() {
    let limit = 6 << 20;
    check_spilling(Watched::new(FairSpillPool::new(limit)), limit).await;
    check_spilling(Watched::new(GreedyMemoryPool::new(limit)), limit).await;
}

// @spec W4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_megabytes_are_fine() {
    let rows = large(12, 3 << 20);
    let pool = Watched::new(FairSpillPool::new(16 << 20));
    let table = Table::new(&[("write.metadata.metrics.column.content_text", "full")]).with_pool(pool.clone());
    let report = table.insert(messages(&rows, 1)).await.unwrap();
    assert_eq!(report.rows, 12);
    assert!(spilled(table.plan.lock().as_ref().unwrap()).0 > 0);
    assert!(pool.peak() <= 40 << 20, "{}", pool.peak());
    check_sorted(&table, &rows).await;
}

/// Rows that are made while they are read, so that the input itself takes no memory.
#[derive(Debug)]
struct Endless {
    rows: usize,
    part: usize,
    schema: SchemaRef,
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let part = self.part;
        let batches = (0..self.rows / 100).map(move |at| {
            let rows: Vec<Row> = (0..100).map(|i| random((at * 100 + i) * 2 + part)).collect();
            Ok(fixture::batch(&rows))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}

fn random(n: usize) -> Row {
    let mut seed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let (session, day) = (next() % 40, next() % 5);
    Row {
        session: Some(format!("{session:032}")),
        conversation: None,
        at: Some((20_608 + day as i64) * DAY),
        text: (0..110).map(|_| format!("{:016x}", next())).collect(),
        tokens: Some(n as i64),
        score: 0.0,
    }
}

// @spec W3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_peak_does_not_grow_with_the_input() {
    let mut peaks = Vec::new();
    for rows in [4_000, 16_000] {
        let pool = Watched::new(FairSpillPool::new(4 << 20));
        let table = Table::new(&[]).with_pool(pool.clone());
        let context = table.session(vec![vec![]], None);
        let schema = fixture::batch(&[]).schema();
        let parts = (0..2).map(|part| Arc::new(Endless { rows: rows / 2, part, schema: Arc::clone(&schema) }) as _);
        let source = StreamingTable::try_new(Arc::clone(&schema), parts.collect()).unwrap();
        context.deregister_table("src").unwrap();
        context.register_table("src", Arc::new(source)).unwrap();
        let plan = table.physical(&context).await.unwrap();
        collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        assert_eq!(report(&plan).unwrap().rows, rows as u64);
        peaks.push(pool.peak());
    }
    // Which task spills when differs from run to run; four times the rows are seven megabytes a run more.
    assert!(peaks[1] <= peaks[0] + (2 << 20), "{peaks:?}");
}

// @spec W4 W9
#[tokio::test]
async fn large_files_go_up_in_parts() {
    let uncompressed = [("write.parquet.compression-codec", "uncompressed")];
    let mut rows = large(12, 3 << 20);
    for row in &mut rows {
        row.at = Some(20_608 * DAY);
    }
    let directory = tempfile::tempdir().unwrap();
    let files = || walk(directory.path());
    let table = Table::new(&uncompressed);
    let store = object_store::local::LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    table.env.stores.register(&"memory://w".parse().unwrap(), Arc::new(store));
    let report = table.insert(messages(&rows, 1)).await.unwrap();
    assert_eq!(report.files, 1);
    assert!(report.bytes > 36 << 20);
    check_sorted(&table, &rows).await;
    // A lost commit leaves none of the parts either.
    let before = files();
    *table.catalog.answer.lock() = fixture::Answer::NotSent;
    table.insert(messages(&rows, 1)).await.unwrap_err();
    assert_eq!(files(), before);
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
