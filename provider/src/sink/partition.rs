//! The plan node that adds partition values: hidden columns behind the table's.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::StreamExt;

use super::layout::Layout;
use super::{external, plan_error};

/// `PartitionValuesExec: [day(message_created_at)]`
#[derive(Debug)]
pub(super) struct PartitionValuesExec {
    input: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PartitionValuesExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, layout: Arc<Layout>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&layout.working)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        ));
        PartitionValuesExec { input, layout, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

fn extend(layout: &Layout, batch: &RecordBatch) -> DfResult<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    for hidden in &layout.hidden {
        columns.push(hidden.evaluate(batch).map_err(external)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&layout.working), columns, &options)?)
}

impl DisplayAs for PartitionValuesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden: Vec<&str> = self.layout.hidden.iter().map(|h| h.text.as_str()).collect();
        write!(f, "PartitionValuesExec: [{}]", hidden.join(", "))
    }
}

impl ExecutionPlan for PartitionValuesExec {
    fn name(&self) -> &str {
        "PartitionValuesExec"
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
        let input = children.pop().ok_or_else(|| plan_error("PartitionValuesExec has one child"))?;
        Ok(Arc::new(PartitionValuesExec::new(input, Arc::clone(&self.layout))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let layout = Arc::clone(&self.layout);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = input.map(move |batch| {
            let _timer = baseline.elapsed_compute().timer();
            let made = extend(&layout, &batch?)?;
            Ok(made.record_output(&baseline))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.layout.working), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
