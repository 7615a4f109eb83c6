//! The plan node of the sort.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput, SpillMetrics, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::sorter::{Budget, Keys, Sorted, Sorter};
use crate::sink::layout::Layout;
use crate::sink::plan_error;

/// `ExternalSortExec: partition=[message_created_at_day], order=[session_id ASC NULLS LAST]`
#[derive(Debug)]
pub(in crate::sink) struct ExternalSortExec {
    input: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    ordering: LexOrdering,
    /// What the writing needs of the input: kept when the plan is optimised.
    needs: Distribution,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExternalSortExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
        ordering: LexOrdering,
        needs: Distribution,
    ) -> Self {
        let order = EquivalenceProperties::new_with_orderings(Arc::clone(&layout.working), [ordering.clone()]);
        let properties = Arc::new(PlanProperties::new(
            order,
            input.output_partitioning().clone(),
            EmissionType::Final,
            input.boundedness(),
        ));
        ExternalSortExec { input, layout, ordering, needs, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ExternalSortExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition: Vec<&str> = self.layout.partition.iter().map(|p| p.name.as_str()).collect();
        let order: Vec<String> = self.ordering.iter().skip(partition.len()).map(ToString::to_string).collect();
        write!(f, "ExternalSortExec: partition=[{}], order=[{}]", partition.join(", "), order.join(", "))
    }
}

impl ExecutionPlan for ExternalSortExec {
    fn name(&self) -> &str {
        "ExternalSortExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![self.needs.clone()]
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
        let input = children.pop().ok_or_else(|| plan_error("ExternalSortExec has one child"))?;
        let (layout, ordering) = (Arc::clone(&self.layout), self.ordering.clone());
        Ok(Arc::new(ExternalSortExec::new(input, layout, ordering, self.needs.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.layout.working);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let budget = Budget::of(&context, self.input.output_partitioning().partition_count());
        let keys = Keys::new(&schema, &self.layout.keys)?;
        let spilled = SpillMetrics::new(&self.metrics, partition);
        let sorter = Sorter::new(Arc::clone(&schema), keys, budget, &context, partition, spilled);
        let input = self.input.execute(partition, context)?;
        let time = baseline.elapsed_compute().clone();
        let rows = stream::once(sort(input, sorter, time.clone()))
            .map_ok(move |sorted| stream::try_unfold((sorted, time.clone()), next))
            .try_flatten()
            .map_ok(move |batch: RecordBatch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

async fn sort(mut input: SendableRecordBatchStream, mut sorter: Sorter, time: Time) -> DfResult<Sorted> {
    while let Some(batch) = input.next().await {
        let _timer = time.timer();
        sorter.insert(batch?).await?;
    }
    drop(input);
    let _timer = time.timer();
    sorter.finish().await
}

async fn next((mut sorted, time): (Sorted, Time)) -> DfResult<Option<(RecordBatch, (Sorted, Time))>> {
    let timer = time.timer();
    let batch = sorted.next().await?;
    drop(timer);
    Ok(batch.map(|batch| (batch, (sorted, time))))
}
