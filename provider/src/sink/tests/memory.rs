//! Memory stays where it is, however many the rows and however large.

use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation,
};
use datafusion::physical_plan::ExecutionPlan;

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

/// `rows` messages of `bytes` bytes each, generated while they are read: the input takes no memory.
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

// @spec W3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_fits_is_spilled() {
    let limit = 6 << 20;
    let rows = large(6000, 3000);
    let fair = Watched::new(FairSpillPool::new(limit));
    let greedy = Watched::new(GreedyMemoryPool::new(limit));
    let pools: [(Arc<dyn MemoryPool>, &dyn Fn() -> usize); 2] =
        [(fair.clone(), &|| fair.peak()), (greedy.clone(), &|| greedy.peak())];
    for (pool, peak) in pools {
        let table = Table::new(&[]).with_pool(pool);
        let report = table.insert(messages(&rows, 2)).await.unwrap();
        assert_eq!((report.rows, report.files), (6000, 6));
        let (runs, spilled) = spilled(table.plan.lock().as_ref().unwrap());
        assert!(runs > 4 && spilled >= 6000, "{runs} runs, {spilled} rows");
        // What is reserved beyond the limit is what the sort's floor and a merge can't do without.
        assert!(peak() <= limit + (4 << 20), "{}", peak());
        check_sorted(&table, &rows).await;
    }
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
