//! How do several files feed one plan, in parallel and in bounded memory?
//!
//! ```text
//! a.ndjson ▏0–16 MiB▕16–32 MiB▏   b.parquet ▏groups 0–3▕4–7▏        portions
//!     partition 0: ▏0–16▕ ▏4–7▕      partition 1: ▏16–32▕ ▏0–3▕       balanced by bytes
//! ```
//!
//! Each partition reads its portions one after the other on a blocking thread and hands batches over a channel that
//! holds two: when the stream is dropped the channel closes and the thread ends at its next batch.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use tokio::sync::mpsc::Sender;

use crate::error::{Code, Error, Result};
use crate::input::column::Record;
use crate::input::fit::Fit;
use crate::input::source::Source;

/// Bytes of text after which a batch is full, whatever its rows: messages may be megabytes long.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Batches that wait between reading and what comes after it.
const CHANNEL: usize = 2;

/// A part of a file that is read by itself.
pub(super) trait Portion: fmt::Debug + Send + Sync {
    /// Bytes to read, for balance.
    fn weight(&self) -> u64;

    /// Reads it to its end, or until the output asks to stop.
    fn read(&self, output: &mut Output<'_>) -> Result<ControlFlow<()>>;
}

/// Where the batches of a partition go.
pub(super) struct Output<'a> {
    sender: &'a Sender<DataFusionResult<RecordBatch>>,
    metrics: &'a BaselineMetrics,
    bytes_read: &'a Arc<AtomicU64>,
    batch_size: usize,
}

impl Output<'_> {
    /// The counter of bytes read, as stored.
    pub(super) fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(self.bytes_read)
    }

    /// The most rows of a batch.
    pub(super) fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Hands a batch over, waiting until there is room.
    pub(super) fn send(&self, batch: RecordBatch) -> ControlFlow<()> {
        if batch.num_rows() == 0 {
            return self.closed();
        }
        self.metrics.record_output(batch.num_rows());
        match self.sender.blocking_send(Ok(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Whether nobody waits for batches any more.
    fn closed(&self) -> ControlFlow<()> {
        if self.sender.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Cuts rows that are built one by one into batches.
pub(super) struct Batches<'a, 'o> {
    record: Record,
    schema: SchemaRef,
    fit: &'a Fit,
    source: &'a Source,
    output: &'a mut Output<'o>,
    bytes: usize,
}

impl<'a, 'o> Batches<'a, 'o> {
    /// Batches of `schema`, which is what `record` builds.
    pub(super) fn new(
        record: Record,
        schema: SchemaRef,
        fit: &'a Fit,
        source: &'a Source,
        output: &'a mut Output<'o>,
    ) -> Self {
        Batches { record, schema, fit, source, output, bytes: 0 }
    }

    /// Where the next row goes.
    pub(super) fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    /// Notes that a row was appended that was `bytes` long in the file.
    pub(super) fn appended(&mut self, bytes: usize) -> Result<ControlFlow<()>> {
        self.bytes += bytes;
        if self.record.rows() >= self.output.batch_size || self.bytes >= BATCH_BYTES {
            return self.flush();
        }
        // A reader that waits for a full batch notices early that nobody wants it.
        if self.record.rows().is_multiple_of(1024) { Ok(self.output.closed()) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Hands over what is left.
    pub(super) fn finish(mut self) -> Result<ControlFlow<()>> {
        self.flush()
    }

    fn flush(&mut self) -> Result<ControlFlow<()>> {
        self.bytes = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(self.record.rows()));
        let arrays = self.record.finish()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| Error::new(Code::Internal, "a batch could not be built").source(e))?;
        Ok(self.output.send(self.fit.apply(&batch, self.source, 1)?))
    }
}

/// A leaf plan that reads files.
#[derive(Debug)]
pub(super) struct InputExec {
    partitions: Vec<Vec<Arc<dyn Portion>>>,
    /// As EXPLAIN prints it.
    description: String,
    batch_size: usize,
    bytes_read: Arc<AtomicU64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InputExec {
    /// A plan of at most `partitions` partitions, each with its share of `portions`.
    pub(super) fn new(
        schema: SchemaRef,
        sources: &[Source],
        portions: Vec<Arc<dyn Portion>>,
        partitions: usize,
        batch_size: usize,
        bytes_read: Arc<AtomicU64>,
    ) -> Self {
        let partitions = balance(portions, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        InputExec {
            partitions,
            description: describe(sources),
            batch_size,
            bytes_read,
            // Batches come over a tokio channel, which takes part in cooperative scheduling.
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// `files=3, formats=[csv, ndjson], bytes=1234`
fn describe(sources: &[Source]) -> String {
    let formats: BTreeSet<&str> = sources.iter().map(|source| source.format().name()).collect();
    let formats: Vec<&str> = formats.into_iter().collect();
    let bytes: u64 = sources.iter().map(Source::length).sum();
    format!("files={}, formats=[{}], bytes={bytes}", sources.len(), formats.join(", "))
}

/// Gives each portion, largest first, to the partition with the least so far; within a partition they keep their order.
fn balance(portions: Vec<Arc<dyn Portion>>, partitions: usize) -> Vec<Vec<Arc<dyn Portion>>> {
    #[derive(Default)]
    struct Share {
        load: u64,
        portions: Vec<(usize, Arc<dyn Portion>)>,
    }
    let mut shares: Vec<Share> = Vec::new();
    shares.resize_with(partitions.min(portions.len()).max(1), Share::default);
    let mut order: Vec<(usize, Arc<dyn Portion>)> = portions.into_iter().enumerate().collect();
    order.sort_by_key(|(at, portion)| (std::cmp::Reverse(portion.weight()), *at));
    for (at, portion) in order {
        if let Some(share) = shares.iter_mut().min_by_key(|share| share.load) {
            // A portion has a cost of its own besides its bytes, which spreads many empty files.
            share.load += portion.weight() + 1;
            share.portions.push((at, portion));
        }
    }
    let ordered = |mut share: Share| {
        share.portions.sort_by_key(|(at, _)| *at);
        share.portions.into_iter().map(|(_, portion)| portion).collect()
    };
    shares.into_iter().map(ordered).collect()
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => f.write_str(&self.description.replace(", ", "\n")),
            _ => write!(f, "InputExec: {}", self.description),
        }
    }
}

impl ExecutionPlan for InputExec {
    fn name(&self) -> &'static str {
        "InputExec"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let Some(portions) = self.partitions.get(partition).cloned() else {
            let what = format!("the input has no partition {partition}");
            return Err(Error::new(Code::Internal, what).into());
        };
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), CHANNEL);
        let sender = builder.tx();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (bytes_read, batch_size) = (Arc::clone(&self.bytes_read), self.batch_size);
        builder.spawn_blocking(move || {
            let mut output = Output { sender: &sender, metrics: &metrics, bytes_read: &bytes_read, batch_size };
            for portion in portions {
                let flow = portion.read(&mut output).map_err(|e| DataFusionError::External(Box::new(e)))?;
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
