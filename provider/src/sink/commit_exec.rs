//! The plan node at the end: all files in one commit, or none.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, stream};
use iceberg::spec::DataFile;
use tokio::runtime::Handle;
use tracing::Instrument;

use super::layout::Layout;
use super::run::{Proof, Run};
use super::{Outcome, Report, Target, external, plan_error};
use crate::catalog::Ident;
use crate::commit::{Append, Committer, Published, find_batch};
use crate::error::{Code, Error, Result};
use crate::storage::Work;

/// What makes a change a snapshot.
#[async_trait]
pub(super) trait Commit: fmt::Debug + Send + Sync {
    async fn append(&self, ident: &Ident, change: Append) -> Published;
}

#[async_trait]
impl Commit for Committer {
    async fn append(&self, ident: &Ident, change: Append) -> Published {
        crate::commit::append(self, ident, change).await
    }
}

/// `CommitExec: table=main.messages, operation=append`. Its one row is `count`.
#[derive(Debug)]
pub(super) struct CommitExec {
    input: Arc<dyn ExecutionPlan>,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    layout: Arc<Layout>,
    commit: Arc<dyn Commit>,
    run: Arc<Run>,
}

impl CommitExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Target,
        layout: Arc<Layout>,
        commit: Arc<dyn Commit>,
        run: Arc<Run>,
    ) -> Self {
        Self::over(input, Arc::new(Shared { target, layout, commit, run }))
    }

    fn over(input: Arc<dyn ExecutionPlan>, shared: Arc<Shared>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        CommitExec { input, shared, properties }
    }

    /// The run's report, once it has come to its end.
    pub(super) fn report(&self) -> Option<Report> {
        self.shared.run.report()
    }
}

fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

/// Deletes the files of a run that is dropped before it commits.
struct Guard {
    run: Arc<Run>,
    /// Goes with whoever deletes them.
    work: Option<Work>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.run.is_writing() {
            let run = Arc::clone(&self.run);
            let work = self.work.take();
            match Handle::try_current() {
                Ok(runtime) => {
                    runtime.spawn(async move {
                        run.discard(Proof::NeverSent).await;
                        drop(work);
                    });
                }
                Err(_) => {
                    tracing::warn!(files = ?run.staged(), "a run was dropped outside of its runtime; its files stay")
                }
            }
        }
    }
}

impl Shared {
    async fn run(&self, input: SendableRecordBatchStream, guard: Guard) -> DfResult<RecordBatch> {
        if let Some(snapshot_id) = self.landed_before() {
            drop(input);
            return self.done(Report { snapshot_id, ..nothing(Outcome::Skipped) });
        }
        let span = tracing::info_span!(
            "sink.write",
            table = %self.layout.table,
            partition_spec = %self.layout.partition_text(),
            sort_order = %self.layout.order_text(),
        );
        if let Err(error) = drain(input).instrument(span).await {
            let left = self.run.discard(Proof::NeverSent).await;
            return Err(with_left_behind(error, left));
        }
        let report = self.commit().await.map_err(external)?;
        drop(guard);
        self.done(report)
    }

    fn done(&self, report: Report) -> DfResult<RecordBatch> {
        let count = UInt64Array::from(vec![report.rows]);
        self.run.done(report);
        Ok(RecordBatch::try_new(count_schema(), vec![Arc::new(count)])?)
    }

    /// The batch's snapshot, if the table it is written against has the batch already: then no row need be read. One
    /// that lands meanwhile is found by the commit.
    // @spec W7
    fn landed_before(&self) -> Option<Option<i64>> {
        let (base, batch_id) = (self.target.base.as_ref()?, self.target.batch_id.as_deref()?);
        find_batch(&base.metadata, batch_id).map(|landed| landed.snapshot_id)
    }

    // @spec W9
    async fn commit(&self) -> Result<Report> {
        let files = self.run.commit();
        if files.is_empty() {
            return Ok(nothing(Outcome::Empty));
        }
        let mut report = summed(&files);
        match self.commit.append(&self.target.ident, self.change(files)).await {
            Published::Committed { snapshot_id, .. } => {
                report.snapshot_id = snapshot_id;
                Ok(report)
            }
            // The commit has removed our files where it is certain that they are not the ones that landed.
            Published::AlreadyThere { snapshot_id } => Ok(Report { snapshot_id, ..nothing(Outcome::Skipped) }),
            Published::Lost { cause, staged } => {
                let left = self.run.discard(Proof::Lost(staged)).await;
                Err(left.iter().fold(cause, |error, location| error.with("left behind", location)))
            }
            Published::Unknown { cause, left_behind } => Err(self.unknown(cause, left_behind)),
        }
    }

    fn change(&self, files: Vec<DataFile>) -> Append {
        let target = self.target.clone();
        Append {
            base: target.base,
            metadata: target.metadata,
            updates: target.updates,
            files,
            summary: target.summary,
            batch_id: target.batch_id,
        }
    }

    fn unknown(&self, cause: Error, left_behind: Vec<String>) -> Error {
        let mut all: Vec<String> = self.run.staged();
        all.extend(left_behind);
        all.sort();
        all.dedup();
        let error = Error::new(
            Code::CommitStateUnknown,
            "whether the commit landed could not be determined; nothing was deleted",
        )
        .with("table", &self.target.ident)
        .with("cause", cause.what());
        all.iter()
            .fold(error, |error, location| error.with("left behind", location))
            .help("look at the table's newest snapshot: if these files are not in it, they can be deleted or exported again")
            .source(cause)
    }
}

async fn drain(mut input: SendableRecordBatchStream) -> DfResult<()> {
    while let Some(batch) = input.next().await {
        batch?;
    }
    Ok(())
}

fn with_left_behind(error: DataFusionError, left: Vec<String>) -> DataFusionError {
    if left.is_empty() { error } else { error.context(format!("files that could not be deleted: {}", left.join(", "))) }
}

fn nothing(outcome: Outcome) -> Report {
    Report { rows: 0, files: 0, bytes: 0, partitions: 0, snapshot_id: None, outcome }
}

fn summed(files: &[DataFile]) -> Report {
    Report {
        rows: files.iter().map(DataFile::record_count).sum(),
        files: files.len() as u64,
        bytes: files.iter().map(DataFile::file_size_in_bytes).sum(),
        partitions: files.iter().map(DataFile::partition).collect::<HashSet<_>>().len() as u64,
        ..nothing(Outcome::Committed)
    }
}

impl DisplayAs for CommitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.shared.target;
        write!(f, "CommitExec: table={}, operation=append", target.ident)?;
        if target.base.is_none() {
            f.write_str(", creates=true")?;
        }
        match &target.batch_id {
            Some(batch) => write!(f, ", batch={batch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for CommitExec {
    fn name(&self) -> &str {
        "CommitExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| plan_error("CommitExec has one child"))?;
        Ok(Arc::new(CommitExec::over(input, Arc::clone(&self.shared))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(plan_error("CommitExec has one partition"));
        }
        let work = self.shared.run.begin(&self.shared.layout.properties.data_location).map_err(external)?;
        // From here on tasks may write, whether or not anybody polls.
        let guard = Guard { run: Arc::clone(&self.shared.run), work: Some(work) };
        let input = self.input.execute(0, context)?;
        let shared = Arc::clone(&self.shared);
        let count = stream::once(async move { shared.run(input, guard).await });
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), count)))
    }
}
