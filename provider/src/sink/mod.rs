//! How do rows become data files, one sorted file a day?
//!
//! ```text
//! CommitExec             all files in one snapshot, or none
//!   CoalescePartitionsExec
//!     WriteFilesExec     Parquet, one file open in each task
//!       ExternalSortExec by partition, then by lookup key; spills
//!         DistributeExec rows of a partition to one task
//!           PartitionValuesExec   day(message_created_at) as a hidden column
//!             ConformExec         the table's columns and types
//! ```
//!
//! Memory does not grow with the input: the sort spills, a writer holds one row group, and every batch on the way is
//! bounded in bytes.

mod bounds;

mod commit_exec;
mod conform;
mod distribute;
mod layout;
mod metrics;
mod partition;
mod plan;
mod properties;
mod run;
mod sizes;
mod sort;
mod transform;
mod values;
mod write;
mod writer;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::catalog::Session;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use self::commit_exec::CommitExec;
use self::run::Run;
use crate::catalog::{Base, Ident};
use crate::commit::Committer;
use crate::error::{Code, Error, Result};

pub(crate) use transform::apply as apply_transform;

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
/// schema by name (missing optional columns are null). Its single row holds `count: UInt64`. It can be executed once.
///
/// # Errors
/// `iceberg_schema_incompatible`, `iceberg_data_write_failed`: the input's columns don't fit the table's.
/// `not_supported`, `invalid_config`: the table's layout or properties can't be written.
// @spec W1
pub fn plan(
    input: Arc<dyn ExecutionPlan>,
    target: Target,
    committer: Committer,
    state: &dyn Session,
    progress: Arc<Progress>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let run = Run::new(committer.env.ids.uuid(), committer.env.clone());
    plan::build(input, target, Arc::new(committer), run, state.config().target_partitions(), progress)
}

/// The report of the sink in a plan that has run to its end.
pub fn report(plan: &Arc<dyn ExecutionPlan>) -> Option<Report> {
    match plan.as_any().downcast_ref::<CommitExec>() {
        Some(commit) => commit.report(),
        None => plan.children().into_iter().find_map(report),
    }
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

/// Our error on its way through the engine; found again as the root of what comes out.
fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A plan that was put together wrongly.
fn plan_error(what: impl Display) -> DataFusionError {
    external(Error::new(Code::Internal, what.to_string()))
}

/// A write that can't go on.
fn failed(what: &str) -> Error {
    Error::new(Code::IcebergDataWriteFailed, what)
}

#[cfg(test)]
mod tests;
