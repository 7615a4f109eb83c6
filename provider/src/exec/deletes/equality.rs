//! Which rows does an equality delete file name?
//!
//! Keys are compared in Arrow's row format: null equals null, NaN equals NaN, and a type that was widened since is widened
//! first. Columns of the delete file that are no keys are not read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::DataType;
use futures::StreamExt;
use iceberg::spec::Schema;
use parking_lot::Mutex;
use parquet::arrow::ParquetRecordBatchStreamBuilder;

use super::Held;
use super::keys::Key;
use crate::error::Result;
use crate::exec::columns::Layout;
use crate::exec::footer::Footer;
use crate::exec::guarded::Guarded;
use crate::exec::reader::{DecoderInput, FileIo};

/// What a key costs beyond its bytes: the set's slot with room to grow, and the allocation.
const SLOT: usize = 48;

/// The keys of an equality delete file.
#[derive(Debug)]
pub(super) struct KeySet {
    /// Sets of other types hold other bytes.
    pub(super) types: Vec<DataType>,
    rows: HashSet<Box<[u8]>>,
    pub(super) size: usize,
}

impl KeySet {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn contains(&self, row: &[u8]) -> bool {
        self.rows.contains(row)
    }
}

/// Reads the keys of a delete file.
pub(super) async fn read(footer: &Footer, io: FileIo, key: &Key, schema: &Schema, held: &Held) -> Result<KeySet> {
    let stored = key.stored();
    let layout = Layout::new(footer, &stored, schema, &HashMap::new())?;
    let all: Vec<usize> = (0..stored.fields().len()).collect();
    let shape = layout.reshape(&all, &stored, |field| {
        Err(io.corrupt("an equality delete file lacks a column that it compares").with("column", field.name()))
    })?;
    let input =
        DecoderInput { io: io.clone(), metadata: Arc::clone(&footer.metadata), touched: Arc::new(Mutex::default()) };
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(input, layout.reader.clone());
    let batches = builder.with_projection(shape.mask.clone()).build();
    let mut batches = Guarded::new(batches.map_err(|e| io.parquet(e))?);

    let converter = key.converter()?;
    let mut set = KeySet { types: key.types(), rows: HashSet::new(), size: 0 };
    while let Some(batch) = batches.next().await {
        let batch = shape.apply(&batch.map_err(|e| io.parquet(e))?)?;
        let rows = key.of_deletes(&converter, batch.columns())?;
        let before = set.size;
        for row in rows.iter() {
            if !set.rows.contains(row.as_ref()) {
                set.rows.insert(Box::from(row.as_ref()));
                set.size += row.as_ref().len() + SLOT;
            }
        }
        held.grow(set.size - before)?;
    }
    Ok(set)
}
