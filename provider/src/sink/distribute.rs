//! Which task writes a row, so that each day ends up in one file?
//!
//! ```text
//! input 0 ─┐                    ┌─▶ task 0   2026-06-01, 2026-06-04, …
//! input 1 ─┼─▶ by partition ────┤
//! input 2 ─┘                    └─▶ task 1   2026-06-02, 2026-06-03, …
//! ```
//!
//! Rows of one partition go to one task. A partition that is new goes to the task that has got the fewest bytes so far:
//! two days are two tasks' work, where a hash would give both to one task half of the time.
//!
//! The engine's own exchange is not used because it collects rows to its batch size whatever their bytes, so that 8192
//! messages of ten megabytes would be one batch.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result as DfResult;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::layout::Layout;
use super::plan_error;

/// Partitions that are remembered one by one; beyond, a hash decides. 65,536 is 179 years of days.
const REMEMBERED: usize = 1 << 16;
/// Batches that wait for a task. One is enough to keep it busy; each may be [`super::sizes::BATCH_BYTES`] large.
const WAITING: usize = 1;

/// `DistributeExec: mode=hash, by=[message_created_at_day], tasks=2`
#[derive(Debug)]
pub(super) struct DistributeExec {
    input: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    tasks: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    running: Arc<Mutex<Option<Running>>>,
}

/// The ends of the channels that nobody has taken yet, and the tasks that fill them.
#[derive(Debug)]
struct Running {
    receivers: Vec<Option<Receiver<Message>>>,
    inputs: Arc<Vec<SpawnedTask<()>>>,
}

#[derive(Debug)]
enum Message {
    Rows(RecordBatch),
    Failed(DataFusionError),
    /// One input has no more rows. A channel that closes without it lost rows.
    Done,
}

impl DistributeExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, layout: Arc<Layout>, tasks: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&layout.working)),
            Partitioning::Hash(layout.partition_exprs(), tasks),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative);
        DistributeExec {
            input,
            layout,
            tasks,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            running: Arc::default(),
        }
    }

    fn start(&self, context: &Arc<TaskContext>) -> DfResult<Running> {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..self.tasks).map(|_| channel(WAITING)).unzip();
        let shares = Arc::new(Mutex::new(Shares { known: HashMap::new(), bytes: vec![0; self.tasks] }));
        let inputs = (0..self.input.output_partitioning().partition_count())
            .map(|partition| {
                let rows = self.input.execute(partition, Arc::clone(context))?;
                let router = Router::new(&self.layout, Arc::clone(&shares))?;
                Ok(SpawnedTask::spawn(send(rows, router, senders.clone())))
            })
            .collect::<DfResult<Vec<_>>>()?;
        Ok(Running { receivers: receivers.into_iter().map(Some).collect(), inputs: Arc::new(inputs) })
    }
}

async fn send(mut rows: SendableRecordBatchStream, mut router: Router, senders: Vec<Sender<Message>>) {
    while let Some(batch) = rows.next().await {
        let parts = match batch.and_then(|batch| router.route(&batch)) {
            Ok(parts) => parts,
            Err(error) => {
                // Every task fails with it: the first one heard decides what the caller reads.
                let error = crate::error::Error::from(error);
                for sender in &senders {
                    let _ = sender.send(Message::Failed(error.clone().into())).await;
                }
                return;
            }
        };
        for (task, part) in parts {
            let Some(sender) = senders.get(task) else { return };
            if sender.send(Message::Rows(part)).await.is_err() {
                return;
            }
        }
    }
    for sender in senders {
        let _ = sender.send(Message::Done).await;
    }
}

/// Which task a partition belongs to.
#[derive(Debug)]
struct Shares {
    known: HashMap<Box<[u8]>, usize>,
    bytes: Vec<u64>,
}

impl Shares {
    fn task(&mut self, partition: &[u8], bytes: u64) -> usize {
        let task = match self.known.get(partition) {
            Some(task) => *task,
            None if self.known.len() >= REMEMBERED => {
                let mut hasher = DefaultHasher::new();
                partition.hash(&mut hasher);
                (hasher.finish() % self.bytes.len().max(1) as u64) as usize
            }
            None => {
                let least = self.bytes.iter().enumerate().min_by_key(|(_, bytes)| **bytes).map_or(0, |(task, _)| task);
                self.known.insert(partition.into(), least);
                least
            }
        };
        if let Some(share) = self.bytes.get_mut(task) {
            *share += bytes;
        }
        task
    }
}

struct Router {
    columns: Vec<usize>,
    converter: RowConverter,
    shares: Arc<Mutex<Shares>>,
    tasks: usize,
}

impl Router {
    fn new(layout: &Layout, shares: Arc<Mutex<Shares>>) -> DfResult<Self> {
        let columns: Vec<usize> = layout.partition.iter().map(|p| p.index).collect();
        let kinds = columns.iter().filter_map(|c| layout.working.fields().get(*c)).map(|f| f.data_type().clone());
        let converter = RowConverter::new(kinds.map(SortField::new).collect())?;
        let tasks = shares.lock().bytes.len();
        Ok(Router { columns, converter, shares, tasks })
    }

    fn route(&mut self, batch: &RecordBatch) -> DfResult<Vec<(usize, RecordBatch)>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let columns: Vec<ArrayRef> = self.columns.iter().filter_map(|c| batch.columns().get(*c)).cloned().collect();
        let partitions = self.converter.convert_columns(&columns)?;
        let a_row = (batch.get_array_memory_size() / batch.num_rows()) as u64;
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.tasks];
        {
            let mut shares = self.shares.lock();
            let mut last: Option<(&[u8], usize)> = None;
            for (row, partition) in partitions.iter().enumerate() {
                let key = partition.data();
                let task = match last {
                    Some((same, task)) if same == key => {
                        if let Some(share) = shares.bytes.get_mut(task) {
                            *share += a_row;
                        }
                        task
                    }
                    _ => shares.task(key, a_row),
                };
                last = Some((key, task));
                if let Some(rows) = rows.get_mut(task) {
                    rows.push(row as u32);
                }
            }
        }
        let part = |(task, rows): (usize, Vec<u32>)| match rows.len() {
            0 => None,
            all if all == batch.num_rows() => Some(Ok((task, batch.clone()))),
            _ => Some(take_record_batch(batch, &UInt32Array::from(rows)).map(|part| (task, part)).map_err(Into::into)),
        };
        rows.into_iter().enumerate().filter_map(part).collect()
    }
}

/// What one task receives; ends when every input has said that it is done.
fn received(
    mut receiver: Receiver<Message>,
    inputs: Arc<Vec<SpawnedTask<()>>>,
) -> impl futures::Stream<Item = DfResult<RecordBatch>> {
    let mut open = inputs.len();
    stream::poll_fn(move |cx| {
        use std::task::Poll::Ready;
        // Dropping the last of these stops the inputs.
        let _ = &inputs;
        loop {
            if open == 0 {
                return Ready(None);
            }
            match std::task::ready!(receiver.poll_recv(cx)) {
                Some(Message::Rows(batch)) => return Ready(Some(Ok(batch))),
                Some(Message::Done) => open -= 1,
                Some(Message::Failed(error)) => {
                    open = 0;
                    return Ready(Some(Err(error)));
                }
                None => {
                    open = 0;
                    return Ready(Some(Err(plan_error("an input of the distribution ended early"))));
                }
            }
        }
    })
}

impl DisplayAs for DistributeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by: Vec<&str> = self.layout.partition.iter().map(|p| p.name.as_str()).collect();
        write!(f, "DistributeExec: mode=hash, by=[{}], tasks={}", by.join(", "), self.tasks)
    }
}

impl ExecutionPlan for DistributeExec {
    fn name(&self) -> &str {
        "DistributeExec"
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

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| plan_error("DistributeExec has one child"))?;
        Ok(Arc::new(DistributeExec::new(input, Arc::clone(&self.layout), self.tasks)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let (receiver, inputs) = {
            let mut running = self.running.lock();
            if running.is_none() {
                *running = Some(self.start(&context)?);
            }
            let taken =
                running.as_mut().and_then(|r| Some((r.receivers.get_mut(partition)?.take()?, Arc::clone(&r.inputs))));
            if running.as_ref().is_some_and(|r| r.receivers.iter().all(Option::is_none)) {
                *running = None;
            }
            taken.ok_or_else(|| plan_error("a task of the distribution was started twice"))?
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = received(receiver, inputs).map_ok(move |batch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.layout.working), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
