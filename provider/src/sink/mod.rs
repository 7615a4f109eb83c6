//! How do rows become data files, one sorted file a day?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::catalog::Session;
use datafusion::physical_plan::ExecutionPlan;
use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use crate::catalog::{Base, Ident};
use crate::commit::Committer;
use crate::error::{Code, Error, Result};

/// Where rows go, and under which metadata they are written.
#[derive(Clone, Debug)]
pub struct Target {
    pub ident: Ident,
    /// `None` creates the table in the same commit.
    pub base: Option<Base>,
    /// `base` with `updates` applied, or the new table's metadata: its current schema, default spec, default sort order
    /// and properties rule the writing.
    pub metadata: Arc<TableMetadata>,
    pub updates: Vec<TableUpdate>,
    pub batch_id: Option<String>,
    pub summary: BTreeMap<String, String>,
}

/// Counters that a progress display reads while the sink runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub rows_in: AtomicU64,
    pub rows_written: AtomicU64,
    pub bytes_written: AtomicU64,
    pub files_written: AtomicU64,
}

/// What a run of the sink did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub rows: u64,
    pub files: u64,
    /// Bytes of the data files.
    pub bytes: u64,
    /// Distinct partitions written.
    pub partitions: u64,
    pub snapshot_id: Option<i64>,
    pub outcome: Outcome,
}

/// How a run of the sink ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A snapshot was made.
    Committed,
    /// The batch was already in the table; nothing was written.
    Skipped,
    /// There were no rows; nothing was written.
    Empty,
}

/// The plan `partition values → distribution → sort → write → commit` over `input`, whose columns match the target's
/// schema by name (missing optional columns are null). Its single row holds `count: UInt64`.
pub fn plan(
    _input: Arc<dyn ExecutionPlan>,
    _target: Target,
    _committer: Committer,
    _state: &dyn Session,
    _progress: Arc<Progress>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Err(Error::new(Code::Internal, "stub"))
}

/// The report of the sink in a plan that has run to its end.
pub fn report(_plan: &Arc<dyn ExecutionPlan>) -> Option<Report> {
    None
}

impl Target {
    /// An append to a table as it is: no metadata changes.
    pub fn append(ident: Ident, base: Base) -> Self {
        Target {
            ident,
            metadata: Arc::clone(&base.metadata),
            base: Some(base),
            updates: Vec::new(),
            batch_id: None,
            summary: BTreeMap::new(),
        }
    }
}
