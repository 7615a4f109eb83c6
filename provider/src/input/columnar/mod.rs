//! How are files read that already hold typed columns?

mod arrow;
mod parquet;

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::arrow::array::{AsArray, RecordBatch};
use ::arrow::compute::cast;
use ::arrow::datatypes::{DataType, SchemaRef};
use ::arrow::error::ArrowError;

use crate::error::{Code, Error, Result};
use crate::input::exec::{Output, Portion};
use crate::input::fit::{Fit, is_text};
use crate::input::source::{Format, Source};
use crate::input::survey::Cancelled;
use crate::input::zones::{self, At, Zones};

/// Bytes of a batch, about: rows may hold megabytes.
const BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// Texts looked at together.
const TEXT_ROWS: usize = 8192;

/// What is known of one file before its rows are read.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) schema: SchemaRef,
    /// Parts that can be read by themselves.
    pub(super) parts: Vec<Part>,
    /// Of the primary timestamp, where it is text.
    pub(super) zones: Option<Zones>,
}

/// A part of a file: row groups of Parquet, all of an Arrow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) groups: Range<usize>,
    /// Its share of the file's bytes.
    pub(super) weight: u64,
    /// Rows before it.
    pub(super) before: u64,
}

/// Reads the schema of a file, and where the column `timestamp` is text, whether its timestamps have a zone.
///
/// Errors: `input_corrupt` for a file that is not what its name says, or is cut; `input_value_invalid` for a text that
/// is no timestamp.
pub(super) fn survey(source: &Source, file: usize, timestamp: Option<&str>, cancelled: &Cancelled) -> Result<Survey> {
    let (schema, parts) = match source.format() {
        Format::Parquet => parquet::survey(source)?,
        _ => arrow::survey(source)?,
    };
    let mut names = HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
        return Err(Error::new(Code::InputCorrupt, format!("the file has two columns named {:?}", twice.name()))
            .with("file", source.shown()));
    }
    let column = timestamp.and_then(|name| schema.column_with_name(name));
    let mut survey = Survey { schema: Arc::clone(&schema), parts, zones: None };
    if let Some((at, field)) = column.filter(|(_, field)| is_text(field.data_type())) {
        let mut zones = Zones::default();
        let mut row = 0;
        let mut see = |batch: RecordBatch| {
            cancelled.check(0)?;
            see_batch(&mut zones, field.name(), &batch, file, &mut row).map_err(|e| e.with("file", source.shown()))
        };
        match source.format() {
            Format::Parquet => parquet::read_column(source, at, &mut see)?,
            _ => arrow::read_column(source, at, &mut see)?,
        }
        survey.zones = Some(zones);
    }
    Ok(survey)
}

/// Whether a compressed file must be decompressed into a file of its own.
pub(super) fn needs_random_access(source: &Source) -> Result<bool> {
    Ok(!source.is_plain() && (source.format() == Format::Parquet || arrow::is_file(source)?))
}

fn see_batch(zones: &mut Zones, name: &str, batch: &RecordBatch, file: usize, row: &mut u64) -> Result<()> {
    let Some(array) = batch.columns().first() else { return Ok(()) };
    // A few at a time: a dictionary can have long texts for many rows.
    for from in (0..array.len()).step_by(TEXT_ROWS) {
        let some = array.slice(from, TEXT_ROWS.min(array.len() - from));
        let texts = cast(&some, &DataType::LargeUtf8)
            .map_err(|e| Error::new(Code::Internal, "texts could not be read as strings").source(e))?;
        for text in texts.as_string::<i64>() {
            *row += 1;
            match text {
                None => {}
                Some("") => return Err(zones::refused(name, "", "an empty text").with("row", *row)),
                Some(text) => zones.see(name, text, At { file, line: *row }).map_err(|e| e.with("row", *row))?,
            }
        }
    }
    Ok(())
}

/// One part of a file.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) source: Source,
    pub(super) part: Part,
    pub(super) fit: Arc<Fit>,
}

impl Portion for Rows {
    fn weight(&self) -> u64 {
        self.part.weight
    }

    fn read(&self, output: &mut Output<'_>) -> Result<ControlFlow<()>> {
        let mut emit = Emit { rows: self, output, first: self.part.before.saturating_add(1), counted: 0 };
        match self.source.format() {
            Format::Parquet => parquet::read(self, &mut emit),
            _ => arrow::read(self, &mut emit),
        }
    }
}

/// Passes the batches of a part on.
struct Emit<'a, 'o> {
    rows: &'a Rows,
    output: &'a mut Output<'o>,
    first: u64,
    /// Bytes of the part that were counted as read.
    counted: u64,
}

impl Emit<'_, '_> {
    /// Passes one batch on, in slices if it is long.
    fn batch(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>> {
        let most = rows_of(batch.num_rows() as u64, batch.get_array_memory_size() as u64, self.output.batch_size());
        let mut from = 0;
        while from < batch.num_rows() {
            let slice = batch.slice(from, most.min(batch.num_rows() - from));
            from += slice.num_rows();
            let fitted = self.rows.fit.apply(&slice, &self.rows.source, self.first)?;
            self.first = self.first.saturating_add(slice.num_rows() as u64);
            if self.output.send(fitted).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Counts bytes as read up to `done` of `all`.
    fn progress(&mut self, done: u64, all: u64) {
        let share = u128::from(self.rows.part.weight) * u128::from(done) / u128::from(all.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(self.rows.part.weight);
        self.output.bytes_read().fetch_add(share.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = self.counted.max(share);
    }
}

/// How many of `rows` rows, `bytes` long together, make a batch.
fn rows_of(rows: u64, bytes: u64, most: usize) -> usize {
    let fitting = BATCH_BYTES.saturating_mul(rows) / bytes.max(1);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, most.max(1))
}

/// The error of a file that is not what its name says, or for which there is no room.
fn corrupt(source: &Source, error: ArrowError) -> Error {
    let error_of = match error {
        ArrowError::MemoryError(_) => Error::new(Code::MemoryLimit, "a batch of the file does not fit in memory"),
        _ => Error::new(Code::InputCorrupt, format!("the file cannot be read as {}", source.format().name())),
    };
    error_of.with("file", source.shown()).with("reason", &error).source(error)
}
