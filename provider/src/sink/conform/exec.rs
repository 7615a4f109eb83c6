//! The plan node that makes rows the table's.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::Conform;
use crate::sink::sizes::{BATCH_BYTES, slices};
use crate::sink::{Progress, external, plan_error};

/// `ConformExec: table=main.messages, columns=50`
#[derive(Debug)]
pub(in crate::sink) struct ConformExec {
    input: Arc<dyn ExecutionPlan>,
    conform: Arc<Conform>,
    table: String,
    progress: Arc<Progress>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ConformExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        conform: Arc<Conform>,
        table: String,
        progress: Arc<Progress>,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(conform.schema())),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        ));
        ConformExec { input, conform, table, progress, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ConformExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConformExec: table={}, columns={}", self.table, self.conform.schema().fields().len())
    }
}

impl ExecutionPlan for ConformExec {
    fn name(&self) -> &str {
        "ConformExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| plan_error("ConformExec has one child"))?;
        Ok(Arc::new(ConformExec::new(input, Arc::clone(&self.conform), self.table.clone(), Arc::clone(&self.progress))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (conform, progress) = (Arc::clone(&self.conform), Arc::clone(&self.progress));
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        // Cut before the cast: a view may point to more than an array of offsets can hold.
        let rows = input
            .map_ok(move |batch| {
                progress.rows_in.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                stream::iter(slices(&batch, BATCH_BYTES)).map(DfResult::Ok)
            })
            .try_flatten()
            .map(move |batch: DfResult<RecordBatch>| {
                let _timer = baseline.elapsed_compute().timer();
                let made = conform.batch(&batch?).map_err(external)?;
                baseline.record_output(made.num_rows());
                Ok(made)
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.conform.schema()), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
