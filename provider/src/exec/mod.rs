//! How do files become rows?
//!
//! A scan is a `DataSourceExec` whose source is ours: DataFusion sees files, statistics and filters as it does for plain
//! Parquet, and everything between a file and its batches is done here, with the table's rules: columns by field id, rows
//! pruned by evaluators that know null and NaN, every request counted.

mod absent;
mod adapt;
mod ahead;
mod columns;
mod decoding;
mod deletes;
mod filter;
mod first;
mod footer;
mod guarded;
mod moving;
mod names;
mod narrow;
mod numbers;
mod opener;
mod prune;
mod reader;
mod report;
mod room;
mod selected;
mod source;
mod stored;
#[cfg(test)]
mod tests;
mod topk;

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;

use tracing::Instrument;

use crate::error::{Code, Error, Result};
use crate::metadata::check_readable;
use crate::scan::{self, Request, ScanReport, SortedBy, View};
use crate::schema::field_id;

use deletes::DeleteFiles;
#[cfg(any(test, fuzzing))]
pub(crate) use deletes::decode_vector;
use footer::Footers;
use names::Naming;
use report::Scan;
use room::Room;
use source::{IcebergSource, file_groups};
pub use topk::TopKPushdown;

/// Plans a scan of `view` and returns the plan node that runs it: the whole of `TableProvider::scan`.
/// `projection` indexes the view's Arrow schema; `filters` are logical, already coerced.
pub async fn scan(
    view: &Arc<View>,
    state: &dyn Session,
    projection: Option<&Vec<usize>>,
    filters: &[Expr],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let fields = view.arrow.fields().iter().enumerate();
    let wanted = fields.filter(|(at, _)| projection.is_none_or(|projection| projection.contains(at)));
    check_readable(&view.metadata, wanted.filter_map(|(_, field)| field_id(field)))?;
    let filters = physical(view, state, filters)?;
    let request = Request {
        filters: &filters,
        projection: projection.map(Vec::as_slice),
        limit,
        partitions: state.config().target_partitions(),
    };
    let span = tracing::info_span!(
        "iceberg.scan.plan",
        table = %view.name,
        snapshot = view.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id()),
        files = tracing::field::Empty,
        files_skipped = tracing::field::Empty,
    );
    let mut plan = scan::plan(view, &request).instrument(span.clone()).await?;
    span.record("files", plan.ledger.files.kept()).record("files_skipped", plan.ledger.files.skipped_total());
    // Rows of several files follow each other in a group, and are in no order then.
    let alone = plan.groups.iter().all(|group| group.len() <= 1);
    let order = if alone { ordering(view, &scan::attested(view, &plan.tasks)) } else { None };
    let groups = file_groups(std::mem::take(&mut plan.groups));
    let statistics = plan.statistics.clone();
    // Files name their own stores; the node's URL is for display and must be one that the runtime knows.
    let url = match plan.tasks.first() {
        Some(task) => task.object.located.url.clone(),
        None => view.env.stores.resolve(&view.metadata_location)?.url,
    };
    let naming = Naming::of(&view.metadata);
    let footers = Footers::new(state.runtime_env().cache_manager.get_file_metadata_cache(), naming);
    let pool = &state.runtime_env().memory_pool;
    let deletes = DeleteFiles::new(view, &plan, pool)?;
    let room = Room::new(&view.name.to_string(), pool);
    let source = IcebergSource::new(Arc::new(Scan::new(Arc::clone(view), plan, footers, deletes, room)));
    let config = FileScanConfigBuilder::new(url, Arc::new(source))
        .with_file_groups(groups)
        .with_statistics(statistics)
        .with_limit(limit.filter(|_| filters.is_empty()))
        .with_output_ordering(order.into_iter().collect())
        .with_projection_indices(projection.cloned())
        .map_err(|e| Error::new(Code::Internal, "the projection does not fit the table").source(e))?
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// An order of the view's columns as the engine writes it; `None` for none.
fn ordering(view: &View, sorted: &[SortedBy]) -> Option<LexOrdering> {
    let key = |by: &SortedBy| {
        let column = Column::new(view.arrow.field(by.column).name(), by.column);
        let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
        PhysicalSortExpr::new(Arc::new(column), options)
    };
    LexOrdering::new(sorted.iter().map(key))
}

/// The filters as physical expressions over the view's columns. One that can't be made is left out: filters only prune
/// here, and the plan above evaluates each.
fn physical(view: &View, state: &dyn Session, filters: &[Expr]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    if filters.is_empty() {
        return Ok(Vec::new());
    }
    let schema = DFSchema::try_from(Arc::clone(&view.arrow))
        .map_err(|e| Error::new(Code::Internal, "the table's columns have no unique names").source(e))?;
    Ok(filters.iter().filter_map(|filter| state.create_physical_expr(filter.clone(), &schema).ok()).collect())
}

/// What planning alone says of a scan: for one that the optimiser answered from metadata, and that never runs.
///
/// # Errors
/// As [`scan`].
pub async fn explain(view: &Arc<View>, state: &dyn Session, filters: &[Expr]) -> Result<ScanReport> {
    let plan = scan(view, state, Some(&Vec::new()), filters, None).await?;
    reports(&plan).pop().ok_or_else(|| Error::new(Code::Internal, "a scan of ours has no report"))
}

/// The reports of all our scans in a physical plan, in pre-order. Levels that only execution knows are filled once the
/// plan has run to its end; a plan that ran twice reports its last run.
pub fn reports(plan: &Arc<dyn ExecutionPlan>) -> Vec<ScanReport> {
    sources(plan).into_iter().map(IcebergSource::report).collect()
}

/// The report of the scan of this view, and of no other that equals it; `None` where the optimiser removed the scan.
pub(crate) fn report_of(plan: &Arc<dyn ExecutionPlan>, view: &Arc<View>) -> Option<ScanReport> {
    sources(plan).into_iter().find(|source| source.scans(view)).map(IcebergSource::report)
}

fn sources(plan: &Arc<dyn ExecutionPlan>) -> Vec<&IcebergSource> {
    let mut sources = Vec::new();
    let mut rest = vec![plan];
    while let Some(node) = rest.pop() {
        sources.extend(IcebergSource::of(node));
        rest.extend(node.children().into_iter().rev());
    }
    sources
}
