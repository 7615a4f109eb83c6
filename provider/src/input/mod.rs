//! How do files of other formats become typed batches?

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Code, Error, Result};

/// What decides how input is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parsed as a timestamp where it arrives as text.
    pub primary_timestamp: Option<String>,
    /// Columns kept as canonical JSON text.
    pub json: Vec<String>,
    /// The dataset's declared schema, if it has one: types rule, no inference.
    pub declared: Option<SchemaRef>,
    /// The existing table's columns, whose types rule (`iceberg_schema_incompatible` on a clash).
    pub table: Option<SchemaRef>,
    /// Rows of output batches.
    pub batch_size: usize,
    /// Number of partitions of the plan.
    pub partitions: usize,
    /// Counts the bytes read, for progress.
    pub bytes_read: Arc<std::sync::atomic::AtomicU64>,
}

/// Opened input: its schema is known, its rows are not read yet.
#[derive(Debug)]
pub struct Opened {
    pub schema: SchemaRef,
    pub plan: Arc<dyn ExecutionPlan>,
    /// The schema was inferred from values that need not show every column (NDJSON): a column that is missing has no values
    /// this time. Otherwise the files carry their schema.
    pub inferred: bool,
    /// Paths (`message.content`) that are kept as JSON text because their type varies or they were declared so.
    pub json_paths: Vec<String>,
    /// Bytes of all input files as stored.
    pub bytes: u64,
    /// Bytes read so far, for progress.
    pub bytes_read: Arc<std::sync::atomic::AtomicU64>,
}

/// Opens files, directories and globs.
pub async fn open(_paths: &[String], _options: &Options, _context: &Arc<TaskContext>) -> Result<Opened> {
    Err(Error::new(Code::Internal, "stub"))
}
