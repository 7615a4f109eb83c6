//! The plan node that writes files: one open at a time in each task.
//!
//! ```text
//! sorted rows   06-01 06-01 06-01 │ 06-02 06-02 … 06-02 ┊ 06-02 │ null
//! files         ───────── 00000 ──┴──────── 00001 ──────┴ 00002 ┴ 00003
//!                                partition ends      target size
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::compute::partition;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr_common::sort_expr::OrderingRequirements;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, stream};
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, Struct};
use tokio::sync::mpsc::Sender;

use super::layout::Layout;
use super::run::Run;
use super::writer::{FileWriter, Settings, Written};
use super::{Progress, external, failed, metrics, plan_error, transform, values};
use crate::error::Result;
use crate::storage::paths::partition_dir;

/// `WriteFilesExec: format=parquet, codec=zstd(3), target=512 MiB, location=file:///w/main/messages/data`
///
/// Each output row is a file: its location, rows and bytes.
#[derive(Debug)]
pub(super) struct WriteFilesExec {
    input: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    settings: Arc<Settings>,
    needs: Distribution,
    run: Arc<Run>,
    progress: Arc<Progress>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WriteFilesExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
        settings: Arc<Settings>,
        needs: Distribution,
        run: Arc<Run>,
        progress: Arc<Progress>,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(output_schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        WriteFilesExec { input, layout, settings, needs, run, progress, properties, metrics }
    }

    fn counters(&self, partition: usize) -> Counters {
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        Counters { files: counter("files_written"), rows: counter("rows_written"), bytes: counter("bytes_written") }
    }
}

fn output_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("file_path", DataType::Utf8, false),
        Field::new("record_count", DataType::UInt64, false),
        Field::new("file_size_in_bytes", DataType::UInt64, false),
    ]))
}

struct Counters {
    files: Count,
    rows: Count,
    bytes: Count,
}

/// What one task does.
struct Task {
    number: usize,
    layout: Arc<Layout>,
    settings: Arc<Settings>,
    run: Arc<Run>,
    progress: Arc<Progress>,
    reservation: MemoryReservation,
    converter: Option<RowConverter>,
    open: Option<Open>,
    files: usize,
    counters: Counters,
    /// Files finished since they were last asked for.
    finished: Vec<DataFile>,
    writing: Sender<()>,
}

struct Open {
    writer: FileWriter,
    key: Option<OwnedRow>,
    partition: Vec<Option<Datum>>,
}

impl Task {
    /// Writes a batch whose rows follow those of the last one in the order of the plan.
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys: Vec<ArrayRef> =
            self.layout.partition.iter().filter_map(|p| batch.columns().get(p.index)).cloned().collect();
        let table = self.layout.columns.fields().len();
        let rows = batch.columns().iter().take(table).cloned().collect();
        let rows = RecordBatch::try_new(Arc::clone(&self.layout.columns), rows)
            .map_err(|e| failed("rows don't have the table's columns").source(e))?;
        let ranges = if keys.is_empty() {
            std::iter::once(0..batch.num_rows()).collect()
        } else {
            partition(&keys).map_err(|e| failed("partition values can't be compared").source(e))?.ranges()
        };
        for range in ranges {
            let key = self.key(&keys, range.start)?;
            if self.open.as_ref().is_some_and(|open| open.key != key) {
                self.close().await?;
            }
            let mut rest = rows.slice(range.start, range.len());
            while rest.num_rows() > 0 {
                let taken = self.open(&keys, range.start, key.clone())?.writer.write(&rest).await?;
                rest = rest.slice(taken, rest.num_rows() - taken);
                if self.open.as_ref().is_some_and(|open| open.writer.is_full()) {
                    self.close().await?;
                }
            }
        }
        Ok(())
    }

    fn key(&self, keys: &[ArrayRef], row: usize) -> Result<Option<OwnedRow>> {
        let Some(converter) = &self.converter else { return Ok(None) };
        let one: Vec<ArrayRef> = keys.iter().map(|k| k.slice(row, 1)).collect();
        let rows =
            converter.convert_columns(&one).map_err(|e| failed("partition values can't be compared").source(e))?;
        Ok(Some(rows.row(0).owned()))
    }

    fn open(&mut self, keys: &[ArrayRef], row: usize, key: Option<OwnedRow>) -> Result<&mut Open> {
        if self.open.is_none() {
            let partition = keys
                .iter()
                .zip(&self.layout.partition)
                .map(|(array, field)| values::datum(array.as_ref(), row, &field.kind))
                .collect::<Result<Vec<_>>>()?;
            let location = self.location(&partition);
            let located = self.run.stores.resolve(&location)?;
            self.run.stage(&location)?;
            let progress = Arc::clone(&self.progress);
            let reservation = self.reservation.new_empty();
            let writer =
                FileWriter::open(&self.settings, location, located, reservation, progress, self.writing.clone())?;
            self.files += 1;
            self.open = Some(Open { writer, key, partition });
        }
        self.open.as_mut().ok_or_else(|| failed("no file is open"))
    }

    fn location(&self, partition: &[Option<Datum>]) -> String {
        let mut location = self.layout.properties.data_location.clone();
        for (field, value) in self.layout.partition.iter().zip(partition) {
            location.push('/');
            let text = transform::human(&field.transform, &field.kind, value.as_ref());
            location.push_str(&partition_dir(&field.name, &text));
        }
        // The run's id makes the name unique, also across retries and writers.
        location.push_str(&format!("/{:05}-{}-{:05}.parquet", self.number, self.run.id, self.files));
        location
    }

    async fn close(&mut self) -> Result<()> {
        let Some(Open { writer, partition, .. }) = self.open.take() else { return Ok(()) };
        // In a task of its own, which ends even if this one is dropped: a store may go on storing what was sent to it,
        // and the run must not delete its files before that.
        let writing = self.writing.clone();
        let finished = tokio::spawn(async move {
            let written = writer.finish().await;
            drop(writing);
            written
        });
        let written = finished.await.map_err(|e| failed("a file's last part failed").source(e))??;
        self.counters.files.add(1);
        self.counters.rows.add(written.rows as usize);
        self.counters.bytes.add(written.bytes as usize);
        let file = data_file(&self.layout, &self.settings, partition, &written)?;
        self.run.add(file.clone());
        self.finished.push(file);
        Ok(())
    }

    /// Gives up what is open.
    async fn abort(&mut self) {
        if let Some(open) = self.open.take() {
            open.writer.abort().await;
        }
    }

    fn report(&mut self) -> DfResult<Option<RecordBatch>> {
        if self.finished.is_empty() {
            return Ok(None);
        }
        let files = std::mem::take(&mut self.finished);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(files.iter().map(DataFile::file_path))),
            Arc::new(UInt64Array::from_iter_values(files.iter().map(DataFile::record_count))),
            Arc::new(UInt64Array::from_iter_values(files.iter().map(DataFile::file_size_in_bytes))),
        ];
        Ok(Some(RecordBatch::try_new(output_schema(), columns)?))
    }
}

/// The manifest's view of a file that was written (W5).
fn data_file(
    layout: &Layout,
    settings: &Settings,
    partition: Vec<Option<Datum>>,
    written: &Written,
) -> Result<DataFile> {
    let metrics = metrics::of(&written.metadata, &layout.schema, &settings.modes, &written.observed);
    let order_id = if layout.order.is_unsorted() { 0 } else { layout.order.order_id };
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(written.location.clone())
        .file_format(DataFileFormat::Parquet)
        .partition(partition.into_iter().map(|value| value.map(Literal::from)).collect::<Struct>())
        .partition_spec_id(layout.spec.spec_id())
        .record_count(written.rows)
        .file_size_in_bytes(written.bytes)
        .column_sizes(metrics.column_sizes)
        .value_counts(metrics.value_counts)
        .null_value_counts(metrics.null_value_counts)
        .nan_value_counts(metrics.nan_value_counts)
        .lower_bounds(metrics.lower_bounds)
        .upper_bounds(metrics.upper_bounds)
        .split_offsets(Some(metrics.split_offsets))
        .sort_order_id(i32::try_from(order_id).unwrap_or(0))
        .build()
        .map_err(|e| failed("a data file can't be described").source(e))
}

/// Rows in, a batch out for the files that were finished meanwhile.
async fn step(
    (mut input, mut task): (Option<SendableRecordBatchStream>, Task),
) -> DfResult<Option<(RecordBatch, (Option<SendableRecordBatchStream>, Task))>> {
    loop {
        let Some(rows) = &mut input else { return Ok(None) };
        let done = match rows.next().await {
            Some(Ok(batch)) => task.write(&batch).await.map_err(external),
            Some(Err(error)) => Err(error),
            None => {
                input = None;
                task.close().await.map_err(external)
            }
        };
        if let Err(error) = done {
            task.abort().await;
            return Err(error);
        }
        if let Some(batch) = task.report()? {
            return Ok(Some((batch, (input, task))));
        }
    }
}

impl DisplayAs for WriteFilesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.layout.properties;
        let codec = p.codec();
        write!(
            f,
            "WriteFilesExec: format=parquet, codec={codec}, target_bytes={}, location={}",
            p.target_file_bytes, p.data_location
        )
    }
}

impl ExecutionPlan for WriteFilesExec {
    fn name(&self) -> &str {
        "WriteFilesExec"
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

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.layout.ordering().map(OrderingRequirements::from)]
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
        let input = children.pop().ok_or_else(|| plan_error("WriteFilesExec has one child"))?;
        Ok(Arc::new(WriteFilesExec::new(
            input,
            Arc::clone(&self.layout),
            Arc::clone(&self.settings),
            self.needs.clone(),
            Arc::clone(&self.run),
            Arc::clone(&self.progress),
        )))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let kinds = self.layout.partition.iter().filter_map(|p| self.layout.working.fields().get(p.index));
        let kinds: Vec<SortField> = kinds.map(|f| SortField::new(f.data_type().clone())).collect();
        let task = Task {
            number: partition,
            layout: Arc::clone(&self.layout),
            settings: Arc::clone(&self.settings),
            run: Arc::clone(&self.run),
            progress: Arc::clone(&self.progress),
            reservation: MemoryConsumer::new(format!("SinkWriter[{partition}]")).register(context.memory_pool()),
            converter: (!kinds.is_empty()).then(|| RowConverter::new(kinds)).transpose()?,
            open: None,
            files: 0,
            counters: self.counters(partition),
            finished: Vec::new(),
            writing: self.run.writer().map_err(external)?,
        };
        let files = stream::try_unfold((Some(input), task), step);
        Ok(Box::pin(RecordBatchStreamAdapter::new(output_schema(), files)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
