//! Buffers rows, spills them in order, and gives them back in order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::RefCountedTempFile;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::SpillMetrics;

use super::merge::Merge;
use crate::sink::layout::Key;
use crate::sink::plan_error;
use crate::sink::sizes::{BATCH_BYTES, compact, cuts, row_sizes};

/// Runs merged at once, and runs of one level kept: files stay open, and 64 of them leave room below any limit.
const FAN_IN: usize = 64;
/// Rows of an output batch, whatever their bytes.
const BATCH_ROWS: usize = 8192;
/// What all tasks together buffer where the pool has no limit: sorting need not take all of the memory there is.
const UNLIMITED: usize = 1 << 30;

/// How much one task may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Bytes buffered before they are spilled.
    pub buffer: usize,
    /// Bytes held even if the pool has no room: less than this makes runs too short to be worth a file.
    pub floor: usize,
    /// Bytes of a batch on disk. Many small ones let many runs be merged at once.
    pub spilled_batch: u64,
}

impl Budget {
    /// Two fifths of the pool are shared by the sorting tasks; the rest is for the writers and for what feeds the sort.
    pub(super) fn of(context: &TaskContext, tasks: usize) -> Self {
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / 5 * 2,
            _ => UNLIMITED,
        };
        let buffer = (limit / tasks.max(1)).max(1 << 20);
        Budget {
            buffer,
            floor: (buffer / 4).min(16 << 20),
            spilled_batch: (buffer as u64 / FAN_IN as u64).clamp(128 << 10, 1 << 20),
        }
    }
}

/// Sorts one task's rows.
pub(super) struct Sorter {
    schema: SchemaRef,
    keys: Keys,
    budget: Budget,
    buffered: Vec<(RecordBatch, Rows)>,
    bytes: usize,
    /// Of the rows taken in so far: how many, and the bytes of their keys.
    seen: (usize, usize),
    reservation: MemoryReservation,
    spills: SpillManager,
    runs: Vec<Run>,
}

/// Sorted rows on disk.
#[derive(Debug)]
pub(super) struct Run {
    pub file: RefCountedTempFile,
    /// Memory of its largest batch, with keys.
    pub largest: usize,
    /// 0: spilled from the buffer; n + 1: merged from runs of level n.
    pub level: usize,
}

/// Computes the keys of rows, in a form that compares as bytes.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    columns: Vec<usize>,
    converter: Arc<RowConverter>,
}

impl Keys {
    pub(super) fn new(schema: &SchemaRef, keys: &[Key]) -> DfResult<Self> {
        let fields = keys
            .iter()
            .map(|key| {
                let field =
                    schema.fields().get(key.index).ok_or_else(|| plan_error("a sort key is not in the schema"))?;
                Ok(SortField::new_with_options(field.data_type().clone(), key.options))
            })
            .collect::<DfResult<_>>()?;
        Ok(Keys { columns: keys.iter().map(|k| k.index).collect(), converter: Arc::new(RowConverter::new(fields)?) })
    }

    pub(super) fn of(&self, batch: &RecordBatch) -> DfResult<Rows> {
        let columns: Vec<_> = self.columns.iter().filter_map(|c| batch.columns().get(*c)).cloned().collect();
        Ok(self.converter.convert_columns(&columns)?)
    }
}

/// Rows in order.
pub(super) enum Sorted {
    InMemory(InMemory),
    Merged(Box<Merge>),
}

impl Sorted {
    /// The next batch, of at most [`BATCH_BYTES`] unless it is one row.
    pub(super) async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        match self {
            Sorted::InMemory(rows) => rows.next(),
            Sorted::Merged(merge) => merge.next(BATCH_BYTES, BATCH_ROWS).await,
        }
    }
}

impl Sorter {
    pub(super) fn new(
        schema: SchemaRef,
        keys: Keys,
        budget: Budget,
        context: &TaskContext,
        partition: usize,
        metrics: SpillMetrics,
    ) -> Self {
        // Not registered as spillable: a fair pool would halve the share of every other sort for it. It keeps to its
        // own share, and asks the pool all the same.
        let reservation = MemoryConsumer::new(format!("SinkSort[{partition}]")).register(context.memory_pool());
        let compression = context.session_config().spill_compression();
        let spills =
            SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema)).with_compression_type(compression);
        Sorter {
            schema,
            keys,
            budget,
            buffered: Vec::new(),
            bytes: 0,
            seen: (0, 0),
            reservation,
            spills,
            runs: Vec::new(),
        }
    }

    /// Takes rows in; spills what is buffered if there is no room for them.
    pub(super) async fn insert(&mut self, batch: RecordBatch) -> DfResult<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact(batch)?;
        let keys = self.keys.of(&batch)?;
        let bytes = memory(&batch, &keys);
        self.seen = (self.seen.0 + batch.num_rows(), self.seen.1 + keys.size());
        let full = self.bytes + bytes > self.budget.buffer || self.reservation.try_grow(bytes).is_err();
        if full && self.bytes >= self.budget.floor.min(self.budget.buffer) {
            self.spill().await?;
        }
        self.bytes += bytes;
        self.reservation.resize(self.bytes);
        self.buffered.push((batch, keys));
        Ok(())
    }

    /// All rows in order.
    pub(super) async fn finish(mut self) -> DfResult<Sorted> {
        if self.runs.is_empty() {
            let rows = InMemory::new(std::mem::take(&mut self.buffered), self.reservation, BATCH_BYTES, BATCH_ROWS);
            return Ok(Sorted::InMemory(rows));
        }
        self.spill().await?;
        loop {
            let fan_in = self.fan_in();
            if self.runs.len() <= fan_in {
                let runs = std::mem::take(&mut self.runs);
                return Ok(Sorted::Merged(Box::new(self.merge(runs).await?)));
            }
            self.merge_shortest(fan_in).await?;
        }
    }

    async fn spill(&mut self) -> DfResult<()> {
        if self.buffered.is_empty() {
            return Ok(());
        }
        let buffered = std::mem::take(&mut self.buffered);
        let mut rows = InMemory::new(buffered, self.reservation.take(), self.budget.spilled_batch, BATCH_ROWS);
        self.bytes = 0;
        let mut file = self.spills.create_in_progress_file("sorting rows of a sink")?;
        let mut largest = 0;
        while let Some(batch) = rows.next()? {
            largest = largest.max(self.in_memory(&batch));
            file.append_batch(&batch)?;
            // Let others of this thread run: writing a run takes a good part of a second.
            tokio::task::yield_now().await;
        }
        drop(rows);
        if let Some(file) = file.finish()? {
            self.runs.push(Run { file, largest, level: 0 });
        }
        self.collapse().await
    }

    /// Merges runs of a level as soon as there are [`FAN_IN`], so that few files are open however large the input.
    async fn collapse(&mut self) -> DfResult<()> {
        let levels = self.runs.iter().map(|r| r.level).max().unwrap_or(0);
        for level in 0..=levels {
            while self.runs.iter().filter(|r| r.level == level).count() >= FAN_IN {
                let fan_in = self.fan_in();
                self.merge_shortest(fan_in).await?;
            }
        }
        Ok(())
    }

    /// Merges `n` runs of the lowest levels into one.
    async fn merge_shortest(&mut self, n: usize) -> DfResult<()> {
        self.runs.sort_by_key(|r| r.level);
        let chosen: Vec<Run> = self.runs.drain(..n.min(self.runs.len())).collect();
        let level = chosen.iter().map(|r| r.level).max().unwrap_or(0) + 1;
        let mut merge = self.merge(chosen).await?;
        let mut file = self.spills.create_in_progress_file("merging runs of a sink")?;
        let mut largest = 0;
        while let Some(batch) = merge.next(self.budget.spilled_batch, BATCH_ROWS).await? {
            largest = largest.max(self.in_memory(&batch));
            file.append_batch(&batch)?;
        }
        if let Some(file) = file.finish()? {
            self.runs.push(Run { file, largest, level });
        }
        Ok(())
    }

    /// How many runs can be merged at once: as many as fit the budget, and two at least.
    fn fan_in(&self) -> usize {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by_key(|r| r.level);
        let mut held = 0;
        let fits = runs
            .iter()
            .take_while(|run| {
                held += run.largest;
                held <= self.budget.buffer
            })
            .count();
        fits.clamp(2, FAN_IN)
    }

    async fn merge(&self, runs: Vec<Run>) -> DfResult<Merge> {
        let bytes = runs.iter().map(|r| r.largest).sum();
        let reservation = self.reservation.new_empty();
        // The merge can't do with less, and it is within the budget or two batches: it proceeds in a full pool too.
        reservation.grow(bytes);
        let streams = runs
            .into_iter()
            .map(|run| self.spills.read_spill_as_stream_unbuffered(run.file, None))
            .collect::<DfResult<Vec<_>>>()?;
        Merge::start(Arc::clone(&self.schema), self.keys.clone(), streams, reservation).await
    }

    /// Memory that a batch takes while it is merged: itself, its rows in the output, and keys of the average size.
    fn in_memory(&self, batch: &RecordBatch) -> usize {
        let (rows, bytes) = self.seen;
        2 * batch.get_array_memory_size() + batch.num_rows() * bytes.div_ceil(rows.max(1))
    }
}

/// Memory of a buffered batch: its columns, its keys and its part of the permutation.
fn memory(batch: &RecordBatch, keys: &Rows) -> usize {
    batch.get_array_memory_size() + keys.size() + batch.num_rows() * A_ROW
}

/// Bytes a row takes while its buffer is sorted: its key by reference, its position, its size.
const A_ROW: usize = 40;

type Position = (u32, u32);

/// Buffered rows, sorted by position, cut by bytes when they are taken out.
pub(super) struct InMemory {
    batches: Vec<RecordBatch>,
    order: Vec<Position>,
    /// Ranges of `order`, last first.
    cuts: Vec<(usize, usize)>,
    _reservation: MemoryReservation,
}

impl InMemory {
    fn new(buffered: Vec<(RecordBatch, Rows)>, reservation: MemoryReservation, limit: u64, rows: usize) -> Self {
        let (batches, keys): (Vec<_>, Vec<_>) = buffered.into_iter().unzip();
        let order = permutation(&keys);
        drop(keys);
        let sizes: Vec<Vec<u64>> = batches.iter().map(row_sizes).collect();
        let in_order: Vec<u64> = order
            .iter()
            .map(|(batch, row)| sizes.get(*batch as usize).and_then(|s| s.get(*row as usize)).copied().unwrap_or(0))
            .collect();
        let mut cuts = cuts(&in_order, limit, rows);
        cuts.reverse();
        InMemory { batches, order, cuts, _reservation: reservation }
    }

    fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        let Some((from, to)) = self.cuts.pop() else { return Ok(None) };
        let positions: Vec<(usize, usize)> =
            self.order.iter().take(to).skip(from).map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Ok(Some(interleave_record_batch(&batches, &positions)?))
    }
}

/// Positions of all rows in the order of their keys; rows with equal keys keep their order.
fn permutation(keys: &[Rows]) -> Vec<Position> {
    let mut order: Vec<(&[u8], Position)> = keys
        .iter()
        .enumerate()
        .flat_map(|(batch, rows)| {
            rows.iter().enumerate().map(move |(row, key)| (key.data(), (batch as u32, row as u32)))
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, position)| position).collect()
}
