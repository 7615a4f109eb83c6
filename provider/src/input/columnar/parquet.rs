//! Parquet: parts are runs of row groups, batches are cut by the bytes of a group's rows.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{SchemaRef, TimeUnit};
use datafusion::datasource::file_format::parquet::coerce_int96_to_resolution;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::{Emit, Part, Rows, corrupt, rows_of};
use crate::error::{Guarded, Result, guarded};
use crate::input::source::Source;

/// Compressed bytes after which a part ends: large against reading the footer once more.
const PART_BYTES: u64 = 32 * 1024 * 1024;

/// Rows of a batch while one column is looked at.
const COLUMN_ROWS: usize = 8192;

pub(super) fn survey(source: &Source) -> Result<(SchemaRef, Vec<Part>)> {
    let (_, metadata) = open(source)?;
    let groups = metadata.metadata().row_groups();
    let sizes: Vec<u64> = groups.iter().map(|group| u64::try_from(group.compressed_size()).unwrap_or(0)).collect();
    let total = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)).max(1);
    let mut parts: Vec<Part> = Vec::new();
    let (mut row, mut read, mut assigned) = (0_u64, 0_u64, 0);
    let mut open_bytes = PART_BYTES;
    for (at, (group, size)) in groups.iter().zip(&sizes).enumerate() {
        read = read.saturating_add(*size);
        // Shares of the whole file, footer included, that add up to its length.
        let until = u128::from(source.length()) * u128::from(read) / u128::from(total);
        let until = u64::try_from(until).unwrap_or(assigned).max(assigned);
        match parts.last_mut().filter(|_| open_bytes < PART_BYTES) {
            Some(part) => {
                part.groups.end = at + 1;
                part.weight += until - assigned;
                open_bytes = open_bytes.saturating_add(*size);
            }
            None => {
                parts.push(Part { groups: at..at + 1, weight: until - assigned, before: row });
                open_bytes = *size;
            }
        }
        assigned = until;
        row = row.saturating_add(u64::try_from(group.num_rows()).unwrap_or(0));
    }
    Ok((Arc::clone(metadata.schema()), parts))
}

pub(super) fn read_column(
    source: &Source,
    column: usize,
    see: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let (file, metadata) = open(source)?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), [column]);
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let reader = guarded(|| builder.with_projection(mask).with_batch_size(COLUMN_ROWS).build());
    for batch in Guarded::new(reader.map_err(|e| corrupt(source, e.into()))?) {
        see(batch.map_err(|e| corrupt(source, e))?)?;
    }
    Ok(())
}

pub(super) fn read(rows: &Rows, emit: &mut Emit<'_, '_>) -> Result<ControlFlow<()>> {
    let failed = |e| corrupt(&rows.source, e);
    let (file, metadata) = open(&rows.source)?;
    let groups = metadata.metadata().row_groups();
    let sizes = groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
    let all = sizes.skip(rows.part.groups.start).take(rows.part.groups.len()).fold(0, u64::saturating_add);
    let mut done = 0;
    for at in rows.part.groups.clone() {
        let Some(group) = metadata.metadata().row_groups().get(at) else { continue };
        let [n, bytes] = [group.num_rows(), group.total_byte_size()].map(|n| u64::try_from(n).unwrap_or(0));
        let file = file.try_clone().map_err(|e| failed(e.into()))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
            .with_row_groups(vec![at])
            .with_batch_size(rows_of(n, bytes, emit.output.batch_size()));
        let reader = guarded(|| builder.build()).map_err(|e| failed(e.into()))?;
        for batch in Guarded::new(reader) {
            let batch = batch.map_err(failed)?;
            done += batch.num_rows() as u64;
            if emit.batch(&batch)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            emit.progress(done, all);
        }
    }
    emit.progress(1, 1);
    Ok(ControlFlow::Continue(()))
}

/// The file with its footer. 96-bit timestamps are read as microseconds, which is what their writers put in: as
/// nanoseconds, years outside 1677 to 2262 would come out wrong.
fn open(source: &Source) -> Result<(File, ArrowReaderMetadata)> {
    let failed = |e: parquet::errors::ParquetError| corrupt(source, e.into());
    let file = source.random_access()?;
    let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())).map_err(failed)?;
    match coerce_int96_to_resolution(metadata.parquet_schema(), metadata.schema(), &TimeUnit::Microsecond) {
        None => Ok((file, metadata)),
        Some(schema) => {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            let footer = Arc::clone(metadata.metadata());
            let metadata = guarded(|| ArrowReaderMetadata::try_new(footer, options)).map_err(failed)?;
            Ok((file, metadata))
        }
    }
}
