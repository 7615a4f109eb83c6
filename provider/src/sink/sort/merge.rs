//! Merges runs: the smallest of their next rows, again and again.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::row::Rows;
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::sorter::Keys;
use crate::sink::sizes::row_sizes;

/// A merge of sorted streams. Rows with equal keys come out in the order of the streams.
pub(in crate::sink) struct Merge {
    schema: SchemaRef,
    keys: Keys,
    cursors: Vec<Cursor>,
    /// Indexes into `cursors`: a binary heap, the smallest key first.
    heap: Vec<usize>,
    /// Batches that a cursor stands in or that the next output takes rows from.
    held: Vec<RecordBatch>,
    _reservation: MemoryReservation,
}

struct Cursor {
    stream: SendableRecordBatchStream,
    /// Its batch in `held`.
    slot: usize,
    keys: Option<Rows>,
    sizes: Vec<u64>,
    row: usize,
}

impl Merge {
    /// Opens the streams and reads their first batches.
    pub(super) async fn start(
        schema: SchemaRef,
        keys: Keys,
        streams: Vec<SendableRecordBatchStream>,
        reservation: MemoryReservation,
    ) -> DfResult<Self> {
        let cursors = streams
            .into_iter()
            .map(|stream| Cursor { stream, slot: 0, keys: None, sizes: Vec::new(), row: 0 })
            .collect();
        let mut merge = Merge { schema, keys, cursors, heap: Vec::new(), held: Vec::new(), _reservation: reservation };
        for cursor in 0..merge.cursors.len() {
            if merge.load(cursor).await? {
                merge.heap.push(cursor);
                merge.sift_up(merge.heap.len() - 1);
            }
        }
        Ok(merge)
    }

    /// The next rows: at most `bytes` of them unless it is one row, and at most `rows`.
    pub(super) async fn next(&mut self, bytes: u64, rows: usize) -> DfResult<Option<RecordBatch>> {
        let mut positions: Vec<(usize, usize)> = Vec::new();
        let mut taken = 0;
        while let Some(&top) = self.heap.first() {
            let Some(cursor) = self.cursors.get_mut(top) else { break };
            let size = cursor.sizes.get(cursor.row).copied().unwrap_or(0);
            if !positions.is_empty() && (taken + size > bytes || positions.len() >= rows) {
                break;
            }
            positions.push((cursor.slot, cursor.row));
            taken += size;
            cursor.row += 1;
            if cursor.row == cursor.sizes.len() && !self.load(top).await? {
                let last = self.heap.len() - 1;
                self.heap.swap(0, last);
                self.heap.pop();
            }
            self.sift_down(0);
        }
        if positions.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = self.held.iter().collect();
        let made = interleave_record_batch(&batches, &positions)?.with_schema(self.schema.clone())?;
        self.release();
        Ok(Some(made))
    }

    /// Moves a cursor to its stream's next batch; false at its end.
    async fn load(&mut self, at: usize) -> DfResult<bool> {
        let Some(cursor) = self.cursors.get_mut(at) else { return Ok(false) };
        cursor.keys = None;
        while let Some(batch) = cursor.stream.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            cursor.keys = Some(self.keys.of(&batch)?);
            cursor.sizes = row_sizes(&batch);
            cursor.row = 0;
            cursor.slot = self.held.len();
            self.held.push(batch);
            return Ok(true);
        }
        Ok(false)
    }

    /// Forgets the batches that no cursor stands in.
    fn release(&mut self) {
        if self.held.len() <= self.heap.len() {
            return;
        }
        let mut held = Vec::with_capacity(self.heap.len());
        for at in &self.heap {
            if let Some(cursor) = self.cursors.get_mut(*at)
                && let Some(batch) = self.held.get(cursor.slot)
            {
                cursor.slot = held.len();
                held.push(batch.clone());
            }
        }
        self.held = held;
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let key = |at: usize| {
            let index = self.heap.get(at)?;
            let cursor = self.cursors.get(*index)?;
            Some((cursor.keys.as_ref()?.row(cursor.row), *index))
        };
        match (key(a), key(b)) {
            (Some(a), Some(b)) => a < b,
            (a, _) => a.is_some(),
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            if left < self.heap.len() && self.before(left, least) {
                least = left;
            }
            if right < self.heap.len() && self.before(right, least) {
                least = right;
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}
