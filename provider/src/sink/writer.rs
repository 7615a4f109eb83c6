//! How do sorted rows become one Parquet file, without holding more than a row group of it?
//!
//! ```text
//! rows ─▶ column writers (one row group, encoded) ─ full ─▶ segments ─▶ parts of an upload
//! ```
//!
//! A row group ends at a number of encoded bytes, at a number of rows, where the file reaches its target size, or where
//! the memory pool has no room for more. Its chunks are handed on column by column, so that encoding ends with one row
//! group in memory and not with two.

mod settings;
mod upload;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::execution::memory_pool::MemoryReservation;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::writer::SerializedFileWriter;
use tokio::sync::mpsc::Sender;

pub(super) use self::settings::Settings;
use self::upload::{Segments, Upload};
use super::layout::extract;
use super::metrics::Observed;
use super::sizes::{BATCH_BYTES, cuts, row_sizes};
use super::{Progress, failed};
use crate::error::{Code, Error, Result};
use crate::storage::Located;

/// An open data file.
pub(super) struct FileWriter {
    settings: Arc<Settings>,
    location: String,
    parquet: SerializedFileWriter<Segments>,
    segments: Segments,
    factory: ArrowRowGroupWriterFactory,
    /// The row group that is being encoded.
    columns: Vec<ArrowColumnWriter>,
    rows_in_group: usize,
    groups: usize,
    rows: u64,
    observed: Observed,
    upload: Upload,
    reservation: MemoryReservation,
    progress: Arc<Progress>,
}

/// A data file that is stored.
#[derive(Debug)]
pub(super) struct Written {
    pub location: String,
    pub bytes: u64,
    pub rows: u64,
    pub metadata: ParquetMetaData,
    pub observed: Observed,
}

impl FileWriter {
    /// Opens a file at `location`. Nothing is stored before the first part is full or the file is finished.
    pub(super) fn open(
        settings: &Arc<Settings>,
        location: String,
        located: Located,
        reservation: MemoryReservation,
        progress: Arc<Progress>,
        writing: Sender<()>,
    ) -> Result<Self> {
        let segments = Segments::default();
        let root = settings.parquet.root_schema_ptr();
        let parquet =
            SerializedFileWriter::new(segments.clone(), root, Arc::clone(&settings.writer)).map_err(encoding)?;
        let factory = ArrowRowGroupWriterFactory::new(&parquet, Arc::clone(&settings.columns));
        Ok(FileWriter {
            settings: Arc::clone(settings),
            location,
            parquet,
            segments,
            factory,
            columns: Vec::new(),
            rows_in_group: 0,
            groups: 0,
            rows: 0,
            observed: Observed::default(),
            upload: Upload::new(located, writing),
            reservation,
            progress,
        })
    }

    /// Encodes rows; stores row groups as they are full. Afterwards [`Self::is_full`] may hold: write no more then.
    ///
    /// Returns how many of the rows were taken: a file that is full takes no more.
    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<usize> {
        let mut taken = 0;
        let bytes = (self.group_limit() / 8).clamp(16 << 10, BATCH_BYTES);
        for (from, to) in cuts(&row_sizes(batch), bytes, self.settings.row_group_rows) {
            if self.is_full() {
                break;
            }
            if self.rows_in_group + (to - from) > self.settings.row_group_rows {
                self.flush().await?;
            }
            self.encode(&batch.slice(from, to - from))?;
            taken = to;
            let (size, limit) = (self.encoded(), self.group_limit());
            let encoding: usize = self.columns.iter().map(ArrowColumnWriter::memory_size).sum();
            let full = size >= limit || self.rows_in_group >= self.settings.row_group_rows;
            // A pool without room ends the row group early. Below an eighth of its size it would be too small to be
            // worth it, and what is held by then is little.
            let crowded = self.reservation.try_resize(encoding + self.upload.held()).is_err() && size >= limit / 8;
            if full || crowded {
                self.flush().await?;
            }
        }
        Ok(taken)
    }

    /// Whether the file has reached its target size.
    pub(super) fn is_full(&self) -> bool {
        self.rows > 0 && self.parquet.bytes_written() as u64 >= self.settings.target_file_bytes
    }

    /// Writes what is left and the footer, and completes the upload.
    pub(super) async fn finish(mut self) -> Result<Written> {
        match self.complete().await {
            Ok(metadata) => Ok(Written {
                location: self.location,
                bytes: self.upload.bytes(),
                rows: self.rows,
                metadata,
                observed: self.observed,
            }),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Gives the file up: parts that were stored are removed, as far as the store lets us.
    pub(super) async fn abort(mut self) {
        self.upload.abort().await;
    }

    async fn complete(&mut self) -> Result<ParquetMetaData> {
        self.flush().await?;
        let metadata = self.parquet.finish().map_err(encoding)?;
        self.store().await?;
        self.upload.finish(&self.location).await?;
        self.reservation.free();
        self.progress.files_written.fetch_add(1, Ordering::Relaxed);
        Ok(metadata)
    }

    /// Encoded bytes at which the row group ends: its own limit, or what the file still takes.
    fn group_limit(&self) -> u64 {
        let left = self.settings.target_file_bytes.saturating_sub(self.parquet.bytes_written() as u64);
        self.settings.row_group_bytes.min(left).max(1)
    }

    fn encoded(&self) -> u64 {
        self.columns.iter().map(|c| c.get_estimated_total_bytes() as u64).sum()
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = self.factory.create_column_writers(self.groups).map_err(encoding)?;
        }
        let mut writers = self.columns.iter_mut();
        for (field, array) in self.settings.columns.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array).map_err(encoding)? {
                let writer = writers.next().ok_or_else(|| failed("a column has no writer"))?;
                writer.write(&leaf).map_err(encoding)?;
            }
        }
        for float in &self.settings.floats {
            let nans = count_nan(extract(batch, &float.path)?.as_ref());
            *self.observed.nans.entry(float.id).or_default() += nans;
        }
        for exact in &self.settings.exact {
            self.observed.widen(exact.id, extract(batch, &exact.path)?.as_ref());
        }
        self.rows_in_group += batch.num_rows();
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        if self.rows_in_group == 0 {
            return Ok(());
        }
        let mut group = self.parquet.next_row_group().map_err(encoding)?;
        for column in std::mem::take(&mut self.columns) {
            column.close().and_then(|chunk| chunk.append_to_row_group(&mut group)).map_err(encoding)?;
        }
        group.close().map_err(encoding)?;
        self.groups += 1;
        self.rows += self.rows_in_group as u64;
        self.progress.rows_written.fetch_add(self.rows_in_group as u64, Ordering::Relaxed);
        self.rows_in_group = 0;
        self.store().await
    }

    async fn store(&mut self) -> Result<()> {
        self.parquet.flush().map_err(|e| encoding(e.into()))?;
        self.reservation.resize(self.segments.len() + self.upload.held());
        for segment in self.segments.take() {
            self.progress.bytes_written.fetch_add(segment.len() as u64, Ordering::Relaxed);
            self.upload.put(segment, &self.location).await?;
        }
        self.reservation.resize(self.upload.held());
        Ok(())
    }
}

fn count_nan(array: &dyn Array) -> u64 {
    let count = match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().flatten().filter(|v| v.is_nan()).count(),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().flatten().filter(|v| v.is_nan()).count(),
        _ => 0,
    };
    count as u64
}

fn encoding(error: ParquetError) -> Error {
    Error::new(Code::IcebergDataWriteFailed, "rows can't be encoded as Parquet").source(error)
}
