//! How do files of other formats become typed batches?
//!
//! ```text
//! paths ─▶ files ─▶ survey: every file once ─▶ one schema ─▶ plan: every file again, in parallel ─▶ batches
//!                   NDJSON, CSV: all values       ▲
//!                   Parquet, Arrow: schemas       └─ the table's and the declared types rule
//! ```
//!
//! [`open`] decides the schema from all input, whole; the plan then reads the same bytes again and builds arrays.
//! Memory is bounded whatever the size: by the longest line, and by a few megabytes of batches per partition.

mod column;
mod columnar;
mod csv;
mod decide;
mod exec;
mod fit;
mod json;
mod lines;
mod number;
mod paths;
mod refusal;
mod ruling;
mod source;
mod stamp;
mod survey;
mod types;
mod zones;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Code, Error, Result};
use crate::input::decide::decide;
use crate::input::exec::InputExec;
use crate::input::ruling::Ruling;
use crate::input::source::Source;
use crate::input::survey::Terms;

/// What decides how input is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parsed as a timestamp where it arrives as text.
    pub primary_timestamp: Option<String>,
    /// Columns, or paths as in [`Opened::json_paths`], kept as canonical JSON text.
    pub json: Vec<String>,
    /// The dataset's declared schema, if it has one: its types rule, and its columns are part of the schema whether or
    /// not they arrive.
    pub declared: Option<SchemaRef>,
    /// The existing table's columns, whose types rule (`iceberg_schema_incompatible` on a clash).
    pub table: Option<SchemaRef>,
    /// Rows of output batches; 0 for 8192.
    pub batch_size: usize,
    /// Number of partitions of the plan, at most; 0 for 1.
    pub partitions: usize,
    /// Counts the bytes read, for progress.
    pub bytes_read: Arc<AtomicU64>,
}

/// Opened input: its schema is known, its rows are not read yet.
#[derive(Debug)]
pub struct Opened {
    /// Columns of all input: what text holds is nullable; columns of other formats keep their nullability.
    pub schema: SchemaRef,
    /// Reads the input. Its errors are [`Error`]s within `DataFusionError::External`.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The schema was inferred from values that need not show every column (NDJSON): a column that is missing has no values
    /// this time. Otherwise the files carry their schema.
    pub inferred: bool,
    /// Paths (`message.content`, `message.content[].input`) that are kept as JSON text because their type varies or
    /// they were declared so.
    pub json_paths: Vec<String>,
    /// Columns that hold nothing but nulls, and so have no type and are not in the schema.
    pub untyped: Vec<String>,
    /// The first contradiction between the input and the types that rule, with path, file and line: to be raised before
    /// anything is written, but after checks that come first. The plan fails on it too.
    pub clash: Option<Error>,
    /// Bytes of all input files as stored.
    pub bytes: u64,
    /// Bytes read by the plan so far, as stored.
    pub bytes_read: Arc<AtomicU64>,
}

/// Opens files, directories and globs. Reads all NDJSON and CSV input once to decide the types.
///
/// Errors: `input_not_found`, `invalid_argument`, `unsupported_location` for paths; `input_corrupt` for content that is
/// not what the name says, `input_value_invalid` for a primary timestamp that can't be parsed, with file, line and value;
/// `iceberg_schema_incompatible` for files whose types don't go together.
// @spec W8 W10
pub async fn open(paths: &[String], options: &Options, context: &Arc<TaskContext>) -> Result<Opened> {
    let paths = paths.to_vec();
    let found = tokio::task::spawn_blocking(move || paths::expand(&paths)).await;
    let mut sources = found.map_err(|e| Error::new(Code::Internal, "reading failed").source(e))??;

    let terms = Arc::new(terms(options));
    let found = survey::survey(&mut sources, &terms, options.partitions, context).await?;
    let decided = decide(&found, &sources, &terms, options)?;

    let bytes_read = Arc::clone(&options.bytes_read);
    let plan = InputExec::new(
        Arc::clone(&decided.schema),
        &sources,
        decided.portions(&found, &sources),
        options.partitions,
        if options.batch_size == 0 { 8192 } else { options.batch_size },
        Arc::clone(&bytes_read),
    );
    Ok(Opened {
        schema: decided.schema,
        plan: Arc::new(plan),
        inferred: sources.iter().any(|source| source.format() == source::Format::Ndjson),
        json_paths: decided.json,
        untyped: decided.untyped,
        clash: decided.clash,
        bytes: sources.iter().map(Source::length).sum(),
        bytes_read,
    })
}

fn terms(options: &Options) -> Terms {
    let ruling = Ruling::new(options);
    let timestamp = options.primary_timestamp.clone().filter(|name| ruling.of(name).is_none());
    Terms { ruling, json: options.json.iter().cloned().collect(), timestamp }
}
