//! One export: how do rows of any origin become a snapshot of a dataset's table?
//!
//! ```text
//! request ─ load table ─ batch there? ─ open input ─ resolve declaration ─ check drift ─ evolve ─ sink ─ report
//! ```
//!
//! Nothing is written before the sink runs: an export that is refused leaves the table as it was.

mod nulls;
mod prepare;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{Field, Schema as ArrowSchema};
use datafusion::catalog::Session;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;

use crate::catalog::{Base, Ident};
use crate::commit::{self, Committer};
use crate::dataset::Dataset;
use crate::error::{Code, Error, Result};
use crate::input;
use crate::schema::{self, Source as SchemaSource};
use crate::sink::{self, Outcome, Progress, Report};

/// How often an export starts over because another writer changed the table's schema under it.
const ATTEMPTS: usize = 5;

/// Where an export's rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files, directories and globs.
    Files(Vec<String>),
    /// A planned query.
    Query(Arc<dyn ExecutionPlan>),
    /// Another Iceberg table.
    Table(TableSource),
}

pub use source::TableSource;

/// An export to run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The table.
    pub ident: Ident,
    /// What the caller said of the dataset.
    pub flags: Dataset,
    /// What is registered under the dataset's name.
    pub registered: Option<Dataset>,
    /// The rows.
    pub source: Source,
    /// A batch id: the same one again writes nothing.
    pub batch_id: Option<String>,
}

/// Counters that a progress display reads while an export runs.
#[derive(Clone, Debug, Default)]
pub struct ExportProgress {
    /// Rows, bytes and files written.
    pub sink: Arc<Progress>,
    /// Bytes of all input as stored; 0 where not known.
    pub input_bytes: Arc<AtomicU64>,
    /// Bytes of input read so far.
    pub input_read: Arc<AtomicU64>,
}

/// What an export did.
#[derive(Clone, Debug)]
pub struct Exported {
    /// `main.messages`
    pub table: String,
    /// Rows, files, bytes, partitions, snapshot, outcome.
    pub report: Report,
    /// The batch id it carried.
    pub batch_id: Option<String>,
    /// Paths that are kept as JSON text, because their type varies or they were declared so.
    pub json_paths: Vec<String>,
    /// Columns of the input that hold nothing but nulls: they have no type, and make no column of the table.
    pub untyped: Vec<String>,
}

/// Rows whose schema is known and that are not read yet.
struct Opened {
    plan: Arc<dyn ExecutionPlan>,
    schema: ArrowSchema,
    source: SchemaSource,
    json_paths: Vec<String>,
    untyped: Vec<String>,
    /// What contradicts the table's types: raised after drift, which comes first.
    clash: Option<Error>,
    /// The table property that says how far a source table is exported with these rows.
    position: Option<(String, String)>,
}

/// Runs an export to its end. `state` gives the memory pool, the partitions and the batch size.
///
/// # Errors
/// `invalid_argument` for a batch id of nothing but blanks; `unknown_namespace` for a new table in a schema that isn't there;
/// `unknown_column`, `iceberg_partition_spec_drift`, `iceberg_schema_incompatible`, `iceberg_data_write_failed`, whatever
/// the input or the store meets, `commit_conflict`, and `commit_state_unknown`.
// @spec L5 L6 W7 W9
pub async fn run(
    request: &Request,
    committer: &Committer,
    state: &dyn Session,
    progress: &ExportProgress,
) -> Result<Exported> {
    if request.batch_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(Error::new(Code::InvalidArgument, "a batch id is empty")
            .with("dataset", request.flags.name())
            .help("give each batch a name of its own, or none to append in any case"));
    }
    for _ in 1..ATTEMPTS {
        match attempt(request, committer, state, progress).await {
            // The table changed between planning and commit in a way the files do not fit: plan anew from what is there.
            Err(e) if e.code() == Code::CommitConflict => {}
            outcome => return outcome,
        }
    }
    attempt(request, committer, state, progress).await
}

async fn attempt(
    request: &Request,
    committer: &Committer,
    state: &dyn Session,
    progress: &ExportProgress,
) -> Result<Exported> {
    let base = committer.catalog.load(&request.ident).await?;
    if base.is_none() {
        committer.catalog.check_creatable(&request.ident).await?;
    }
    let table = request.ident.to_string();
    let done = |report, json_paths, untyped| Exported {
        table: table.clone(),
        report,
        batch_id: request.batch_id.clone(),
        json_paths,
        untyped,
    };
    if let (Some(base), Some(batch)) = (&base, &request.batch_id)
        && let Some(landed) = commit::find_batch(&base.metadata, batch)
    {
        let skipped = Report { snapshot_id: landed.snapshot_id, ..nothing(Outcome::Skipped) };
        return Ok(done(skipped, Vec::new(), Vec::new()));
    }

    let inherited = match &base {
        Some(base) => Dataset::from_properties(base.metadata.properties())?,
        None => None,
    };
    let mut dataset = Dataset::merged(request.flags.clone(), request.registered.as_ref(), inherited.as_ref());
    if let Some(base) = &base {
        prepare::check_declared_drift(&table, &dataset, base)?;
    }
    let opened = open(request, &dataset, base.as_ref(), state, progress).await?;
    // Without rows no column could be inferred: that is no lost column.
    if opened.schema.fields().is_empty() && is_empty(&opened, state).await? {
        return Ok(done(nothing(Outcome::Empty), Vec::new(), Vec::new()));
    }
    dataset = dataset.with_json_paths(&opened.json_paths);
    let target = prepare::target(request, &dataset, base, &opened, committer)?;
    let emptied = source::without_rows(&target, opened.position.as_ref());

    let plan = sink::plan(opened.plan, target, committer.clone(), state, Arc::clone(&progress.sink))?;
    let stream = execute_stream(Arc::clone(&plan), state.task_ctx())?;
    stream.try_for_each(|_| std::future::ready(Ok(()))).await?;
    let report = sink::report(&plan)
        .ok_or_else(|| Error::new(Code::Internal, "the sink ended without a report").with("table", &table))?;
    if let (Outcome::Empty, Some(change)) = (report.outcome, emptied) {
        source::commit(committer, &request.ident, change).await?;
    }
    Ok(done(report, opened.json_paths, opened.untyped))
}

async fn is_empty(opened: &Opened, state: &dyn Session) -> Result<bool> {
    let mut stream = execute_stream(Arc::clone(&opened.plan), state.task_ctx())?;
    while let Some(batch) = stream.try_next().await? {
        if batch.num_rows() > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn nothing(outcome: Outcome) -> Report {
    Report { rows: 0, files: 0, bytes: 0, partitions: 0, snapshot_id: None, outcome }
}

async fn open(
    request: &Request,
    dataset: &Dataset,
    base: Option<&Base>,
    state: &dyn Session,
    progress: &ExportProgress,
) -> Result<Opened> {
    let opened = match &request.source {
        Source::Query(plan) => planned(Arc::clone(plan), dataset),
        Source::Table(table) => {
            let (plan, position) = table.open(base, state).await?;
            Opened { position, ..planned(plan, dataset) }
        }
        Source::Files(paths) => {
            let table = base.map(|base| schema::to_arrow(base.metadata.current_schema())).transpose()?;
            let options = input::Options {
                primary_timestamp: dataset.primary_timestamp().map(str::to_owned),
                json: dataset.json().to_vec(),
                declared: dataset.schema().cloned(),
                table,
                batch_size: state.config().batch_size(),
                partitions: state.config().target_partitions(),
                bytes_read: Arc::clone(&progress.input_read),
            };
            let opened = input::open(paths, &options, &state.task_ctx()).await?;
            progress.input_bytes.store(opened.bytes, Ordering::Relaxed);
            Opened {
                schema: opened.schema.as_ref().clone(),
                source: if opened.inferred { SchemaSource::Values } else { SchemaSource::Schema },
                plan: opened.plan,
                json_paths: opened.json_paths,
                untyped: opened.untyped,
                clash: opened.clash,
                position: None,
            }
        }
    };
    nulls::typed(opened, base)
}

/// The rows of a plan. Its nullability is an accident of its expressions, not a declaration.
fn planned(plan: Arc<dyn ExecutionPlan>, dataset: &Dataset) -> Opened {
    let schema = plan.schema();
    let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Opened {
        plan,
        schema: ArrowSchema::new(fields),
        source: SchemaSource::Schema,
        json_paths: dataset.json().to_vec(),
        untyped: Vec::new(),
        clash: None,
        position: None,
    }
}

/// Summary keys of an export's snapshot.
pub(crate) fn summary(dataset: &Dataset, position: Option<&(String, String)>) -> BTreeMap<String, String> {
    let named = ("daygrain.dataset".to_owned(), dataset.name().to_owned());
    std::iter::once(named).chain(position.cloned()).collect()
}
