//! The scan node's side towards DataFusion: a [`FileSource`] under `DataSourceExec`.
//!
//! Every use of DataFusion's scan interfaces that is bound to its version is here and in `opener.rs`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use chrono::DateTime;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr, conjunction_opt};
use datafusion::physical_expr_common::physical_expr::{is_dynamic_physical_expr, is_volatile};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};
use object_store::{ObjectMeta, ObjectStore};

use super::ahead::Ahead;
use super::filter::Conjunct;
use super::first::First;
use super::moving::Moving;
use super::narrow::narrowed;
use super::opener::{Opener, Reading};
use super::report::Scan;
use super::topk::{Best, TopK};
use crate::predicate::Predicate;
use crate::scan::{Piece, ScanReport, View, balance};

/// Rows a batch where the session doesn't say: DataFusion's default.
const BATCH_SIZE: usize = 8192;

/// An Iceberg table's files as a source of rows.
#[derive(Clone, Debug)]
pub(super) struct IcebergSource {
    scan: Arc<Scan>,
    table_schema: TableSchema,
    projection: ProjectionExprs,
    /// What the optimiser was promised that every row satisfies.
    conjuncts: Arc<Vec<Conjunct>>,
    moving: Moving,
    /// The column whose least or greatest values are wanted first.
    first: Option<First>,
    /// The rows that a sort with a limit wants.
    topk: Option<TopK>,
    batch_size: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl IcebergSource {
    pub(super) fn new(scan: Arc<Scan>) -> Self {
        let arrow = Arc::clone(&scan.view.arrow);
        let all: Vec<usize> = (0..arrow.fields().len()).collect();
        IcebergSource {
            projection: ProjectionExprs::from_indices(&all, &arrow),
            table_schema: TableSchema::from_file_schema(arrow),
            conjuncts: Arc::default(),
            moving: Moving::default(),
            first: None,
            topk: None,
            batch_size: None,
            metrics: ExecutionPlanMetricsSet::new(),
            scan,
        }
    }

    /// The source under a scan node of ours.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&IcebergSource> {
        let node = plan.as_any().downcast_ref::<DataSourceExec>()?;
        let config = node.data_source().as_any().downcast_ref::<FileScanConfig>()?;
        config.file_source().as_any().downcast_ref()
    }

    /// The same scan node, of which only the best `fetch` rows by `order` are wanted, partition by partition; `None` where
    /// that is of no use.
    pub(super) fn only_best(
        plan: &Arc<dyn ExecutionPlan>,
        fetch: usize,
        order: &[PhysicalSortExpr],
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let source = Self::of(plan)?;
        let config = plan.as_any().downcast_ref::<DataSourceExec>()?.data_source();
        let mut config = config.as_any().downcast_ref::<FileScanConfig>()?.clone();
        if config.limit.is_some() {
            return None;
        }
        let topk = TopK::of(fetch, order, &source.projection, &source.scan.view)?;
        config.file_source = Arc::new(IcebergSource { topk: Some(topk), ..source.clone() });
        Some(DataSourceExec::from_data_source(config))
    }

    pub(super) fn scans(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.scan.view, view)
    }

    pub(super) fn report(&self) -> ScanReport {
        self.scan.report(self.residual())
    }

    fn residual(&self) -> Option<String> {
        let each: Vec<String> = self.conjuncts.iter().map(|c| c.describe(&self.scan.view)).collect();
        (!each.is_empty()).then(|| each.join(" AND "))
    }

    /// What row groups and pages are pruned by: the filters known to planning and those pushed down later, once each.
    fn prune(&self) -> Vec<Predicate> {
        let planned = match &self.scan.plan.predicate {
            Predicate::And(all) => all.clone(),
            other => vec![other.clone()],
        };
        let pushed = self.conjuncts.iter().map(|conjunct| conjunct.claim.predicate.clone());
        let mut each: Vec<Predicate> = Vec::new();
        for predicate in planned.into_iter().chain(pushed) {
            if predicate != Predicate::True && !each.contains(&predicate) {
                each.push(predicate);
            }
        }
        each
    }

    /// The table as far as anything of it is read.
    fn read(&self) -> SchemaRef {
        let projected = self.projection.iter().map(|projected| &projected.expr);
        let tested = self.conjuncts.iter().chain(self.moving.all()).map(|conjunct| &conjunct.expr);
        narrowed(&self.scan.view.arrow, projected.chain(tested))
    }

    fn proven(&self, conjunct: &Conjunct) -> bool {
        self.scan.plan.tasks.iter().all(|task| conjunct.proven_by_manifest(task, &self.scan.view))
    }
}

/// Groups of pieces as DataFusion's file groups: what a file needs beyond its path travels as its extension.
pub(super) fn file_groups(groups: Vec<Vec<Piece>>) -> Vec<FileGroup> {
    groups.into_iter().map(|group| FileGroup::new(group.into_iter().map(file).collect())).collect()
}

fn file(piece: Piece) -> PartitionedFile {
    let meta = ObjectMeta {
        location: piece.task.object.located.path.clone(),
        last_modified: DateTime::UNIX_EPOCH,
        size: piece.task.bytes(),
        e_tag: None,
        version: None,
    };
    let mut file = PartitionedFile::new_from_meta(meta);
    if let Some(range) = &piece.range {
        file = file.with_range(range.start.cast_signed(), range.end.cast_signed());
    }
    file.extensions = Some(Arc::new(piece));
    file
}

/// The pieces of a partition, in its order.
fn pieces(config: &FileScanConfig, partition: usize) -> Vec<Arc<Piece>> {
    let files = config.file_groups.get(partition).map(FileGroup::files).unwrap_or_default();
    files.iter().filter_map(|file| Arc::clone(file.extensions.as_ref()?).downcast().ok()).collect()
}

impl FileSource for IcebergSource {
    fn create_file_opener(
        &self,
        _store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let mut files = pieces(config, partition);
        if let Some(first) = &self.first {
            files = first.sorted(files, &self.scan.view);
        }
        let partitions = config.file_groups.len();
        let reading = Reading {
            scan: Arc::clone(&self.scan),
            conjuncts: Arc::clone(&self.conjuncts),
            moving: self.moving.clone(),
            best: self.topk.clone().map(Best::new).transpose()?.map(Arc::new),
            prune: self.prune(),
            projection: self.projection.clone(),
            wanted: self.projection.column_indices(),
            table: self.read(),
            batch_size: self.batch_size.unwrap_or(BATCH_SIZE),
            limit: config.limit,
            ahead: Ahead::new(files, &self.scan, partitions),
            shared: self.scan.start(partition, partitions),
        };
        Ok(Arc::new(Opener::new(reading)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(IcebergSource { batch_size: Some(batch_size), ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        conjunction_opt(self.conjuncts.iter().map(|conjunct| Arc::clone(&conjunct.expr)))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "iceberg"
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topk = self.topk.as_ref().map(|topk| ("topk", topk.fetch.to_string()));
        for (key, value) in self.scan.facts(self.residual()).into_iter().chain(topk) {
            match format {
                DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, ", {key}={value}")?,
                DisplayFormatType::TreeRender => writeln!(f, "{key}={value}")?,
            }
        }
        Ok(())
    }

    /// Deals the files anew, if more partitions are asked for than planning knew of.
    fn repartitioned(
        &self,
        target_partitions: usize,
        _min_size: usize,
        _ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        // Files dealt anew may follow each other in a group, and an order was promised.
        if config.file_groups.len() >= target_partitions || !config.output_ordering.is_empty() {
            return Ok(None);
        }
        let groups = balance(&self.scan.plan.tasks, target_partitions);
        if groups.len() <= config.file_groups.len() {
            return Ok(None);
        }
        let mut config = config.clone();
        config.file_groups = file_groups(groups);
        Ok(Some(config))
    }

    /// Promises every condition but those that change while the query runs or with every call. What planning has proven
    /// for all files is promised and forgotten. What moves is used and not promised: who made it tests it.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut conjuncts = self.conjuncts.as_ref().clone();
        let mut moving = self.moving.clone();
        let mut answers = Vec::with_capacity(filters.len());
        for filter in filters {
            let moves = is_dynamic_physical_expr(&filter);
            if moves && !is_volatile(&filter) {
                moving = moving.and(&filter, &self.scan.view);
            }
            if moves || is_volatile(&filter) {
                answers.push(PushedDown::No);
                continue;
            }
            let each = Conjunct::of(&filter, &self.scan.view);
            conjuncts.extend(each.into_iter().filter(|conjunct| !self.proven(conjunct)));
            answers.push(PushedDown::Yes);
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        let source = IcebergSource { conjuncts: Arc::new(conjuncts), moving, ..self.clone() };
        Ok(propagation.with_updated_node(Arc::new(source) as Arc<dyn FileSource>))
    }

    /// Reads first what a sort wants first, so that a TopK above soon knows what it does not want. Promises no order.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        _properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        match order.first().and_then(|sort| First::of(sort, &self.projection, &self.scan.view)) {
            Some(first) => {
                let source = IcebergSource { first: Some(first), ..self.clone() };
                Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(source) })
            }
            None => Ok(SortOrderPushdownResult::Unsupported),
        }
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.try_merge(projection)?;
        Ok(Some(Arc::new(IcebergSource { projection, ..self.clone() })))
    }
}
