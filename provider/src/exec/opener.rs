//! From a data file to batches, stage by stage.
//!
//! ```text
//!   proven? ─▶ footer ─▶ row groups ─▶ bloom filters ─▶ pages ─▶ row tests ─▶ adapt ─▶ residual ─▶ project
//!   no IO      0..1      statistics    0..1             index    1..2 requests a row group
//! ```

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use futures::stream::{BoxStream, Stream, StreamExt, empty, iter};
use parking_lot::Mutex;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::{ArrowPredicate, RowFilter, RowSelection};
use parquet::arrow::async_reader::ParquetRecordBatchStream;

use super::columns::{Layout, Reshape};
use super::filter::{Conjunct, RowTest, holds_throughout, truth};
use super::footer::Footer;
use super::prune::{FileFacts, Selection};
use super::reader::{DecoderInput, FileIo};
use super::report::{FileTally, Scan, Shared};
use crate::error::{Code, Error, Result};
use crate::observe::{Reason, Tally};
use crate::predicate::Predicate;
use crate::scan::{Piece, Task};

type Batches = BoxStream<'static, DataFusionResult<RecordBatch>>;

/// What every file of one run of one partition needs.
pub(super) struct Reading {
    pub(super) scan: Arc<Scan>,
    /// Conditions that every row given out satisfies.
    pub(super) conjuncts: Arc<Vec<Conjunct>>,
    /// Conditions that every wanted row satisfies: what doesn't may be left out, but need not be.
    pub(super) prune: Vec<Predicate>,
    pub(super) projection: ProjectionExprs,
    /// The table columns that the projection reads, ascending.
    pub(super) wanted: Vec<usize>,
    pub(super) batch_size: usize,
    pub(super) limit: Option<usize>,
    pub(super) shared: Shared,
}

/// Opens the files of one run of one partition.
pub(super) struct Opener(pub(super) Arc<Reading>);

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> DataFusionResult<FileOpenFuture> {
        let piece = file.extensions.and_then(|extensions| extensions.downcast::<Piece>().ok());
        let piece = piece.ok_or_else(|| external(Error::new(Code::Internal, "a file without its task")))?;
        // A task of its own: the next file is opened while this one is decoded. Dropping the future aborts it.
        let opening = SpawnedTask::spawn(Arc::clone(&self.0).open(piece));
        Ok(Box::pin(
            async move { opening.join_unwind().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? },
        ))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.shared.lock().ended();
    }
}

impl Reading {
    async fn open(self: Arc<Self>, piece: Arc<Piece>) -> DataFusionResult<Batches> {
        let view = &self.scan.view;
        let task = &piece.task;
        let open: Vec<&Conjunct> = self.conjuncts.iter().filter(|c| !c.proven_by_manifest(task, view)).collect();
        if self.wanted.is_empty() && open.is_empty() {
            return self.counted(&piece);
        }
        self.shared.lock().opened(task);
        let mut io = FileIo::new(Arc::clone(task), Arc::clone(&self.shared));
        let footer = self.scan.footers.load(task, &mut io).await.map_err(external)?;
        let (selection, open) = self.select(&piece, &footer, &io, open).await.map_err(external)?;
        if selection.is_empty() {
            return Ok(empty().boxed());
        }
        self.decode(task, footer, io, selection, open)
    }

    /// As many rows as the manifest counts: nothing of the file is needed.
    fn counted(&self, piece: &Piece) -> DataFusionResult<Batches> {
        self.shared.lock().answered(&piece.task);
        if piece.range.as_ref().is_some_and(|range| range.start > 0) {
            return Ok(empty().boxed());
        }
        let schema = Arc::new(ArrowSchema::empty());
        let projector = self.projector(&schema)?;
        let (rows, size) = (piece.task.rows(), self.batch_size.max(1) as u64);
        let batches = (0..rows.div_ceil(size)).map(move |batch| {
            let count = usize::try_from(size.min(rows - batch * size)).ok();
            let options = RecordBatchOptions::new().with_row_count(count);
            projector.project_batch(&RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options)?)
        });
        Ok(iter(batches).boxed())
    }

    /// The row groups and rows that may match, and the conditions that they don't prove.
    async fn select<'c>(
        &self,
        piece: &Piece,
        footer: &Footer,
        io: &FileIo,
        mut open: Vec<&'c Conjunct>,
    ) -> Result<(Selection, Vec<&'c Conjunct>)> {
        let view = &self.scan.view;
        let prune: Vec<&Predicate> =
            self.prune.iter().filter(|predicate| !holds_throughout(predicate, &piece.task, view)).collect();
        let claimed = open.iter().flat_map(|conjunct| [&conjunct.claim.predicate, &conjunct.claim.proof]);
        let asked = prune.iter().copied().chain(claimed);
        let facts = FileFacts::new(footer, &piece.task, &view.schema, asked);
        let mut tally = Tally::default();
        let groups = facts.keep_groups(piece.range.as_ref(), &prune, &mut tally);
        let groups = facts.keep_by_blooms(groups, &prune, &self.scan.footers, io, &mut tally).await?;
        let selection = facts.select_rows(groups, &prune, &mut tally);
        self.shared.lock().ledger.row_groups.merge(&tally);
        open.retain(|conjunct| !conjunct.proven_by_groups(&facts, &selection));
        Ok((selection, open))
    }

    /// Decodes the selected rows and tests them for the conditions in `open`.
    fn decode(
        &self,
        task: &Arc<Task>,
        footer: Arc<Footer>,
        io: FileIo,
        selection: Selection,
        open: Vec<&Conjunct>,
    ) -> DataFusionResult<Batches> {
        let view = &self.scan.view;
        let table = &view.arrow;
        let layout = footer.layout(table, || Layout::new(&footer, table, &view.schema)).map_err(external)?;
        let reshape = |columns: &[usize]| layout.reshape(columns, table, task, &view.schema).map_err(external);

        let (early, late) = self.split(open, &layout, &footer, &selection, io.gap());
        let tests = early.iter().map(|conjunct| RowTest::new(conjunct, reshape(&conjunct.columns)?));
        let tests: Vec<RowTest> = tests.collect::<DataFusionResult<_>>()?;
        let output = reshape(&self.columns_with(&late))?;
        let residual = residual(&late, &output.schema)?;
        let projector = self.projector(&output.schema)?;

        let touched = Arc::new(Mutex::new(Vec::new()));
        let leaves = output.leaves.iter().chain(tests.iter().flat_map(RowTest::leaves)).copied().collect();
        let input =
            DecoderInput { io: io.clone(), metadata: Arc::clone(&footer.metadata), touched: Arc::clone(&touched) };
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(input, layout.reader.clone())
            .with_batch_size(self.batch_size)
            .with_projection(output.mask.clone())
            .with_row_groups(selection.iter().map(|(group, _)| *group).collect());
        if let Some(rows) = overall(&selection, &footer) {
            builder = builder.with_row_selection(rows);
        }
        if !tests.is_empty() {
            let tests = tests.into_iter().map(|test| Box::new(test) as Box<dyn ArrowPredicate>);
            builder = builder.with_row_filter(RowFilter::new(tests.collect()));
        }
        let limit = self.limit.filter(|_| residual.is_none());
        if let Some(limit) = limit {
            builder = builder.with_limit(limit);
        }
        let batches = builder.build().map_err(|e| external(io.parquet(e)))?;
        let tally = FileTally::new(Arc::clone(&self.shared), Arc::clone(&footer.metadata), selection, leaves, touched);
        Ok(Decoding { batches, io, output, residual, projector, limit, tally }.boxed())
    }

    /// Which conditions are tested while decoding (in order), and which afterwards. Decoding a condition's columns ahead
    /// costs a request for each row group; it pays where what it can spare is worth that, and at least as large as those
    /// columns.
    fn split<'c>(
        &self,
        open: Vec<&'c Conjunct>,
        layout: &Layout,
        footer: &Footer,
        selection: &Selection,
        request: u64,
    ) -> (Vec<&'c Conjunct>, Vec<&'c Conjunct>) {
        let table = &self.scan.view.arrow;
        let enough = request.saturating_mul(selection.len() as u64);
        let stored = |columns: &mut dyn Iterator<Item = usize>| -> u64 {
            columns.filter_map(|at| layout.root(at)).map(|root| root_bytes(footer, selection, root)).sum()
        };
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for conjunct in open {
            let own = stored(&mut conjunct.columns.iter().copied());
            let spared = stored(&mut self.wanted.iter().copied().filter(|at| !conjunct.columns.contains(at)));
            let in_file = conjunct.columns.iter().any(|at| layout.root(*at).is_some());
            let flat = conjunct.columns.iter().all(|at| !table.field(*at).data_type().is_nested());
            match in_file && flat && spared >= own.max(enough) {
                true => early.push((!conjunct.is_lookup(), own, conjunct)),
                false => late.push(conjunct),
            }
        }
        early.sort_by_key(|(not_lookup, bytes, _)| (*not_lookup, *bytes));
        (early.into_iter().map(|(_, _, conjunct)| conjunct).collect(), late)
    }

    /// The projection's columns and those of conditions that are tested after decoding.
    fn columns_with(&self, late: &[&Conjunct]) -> Vec<usize> {
        let mut columns = self.wanted.clone();
        columns.extend(late.iter().flat_map(|conjunct| &conjunct.columns));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn projector(&self, input: &SchemaRef) -> DataFusionResult<Projector> {
        let rebased = self.projection.clone().try_map_exprs(|expr| reassign_expr_columns(expr, input))?;
        rebased.make_projector(input)
    }
}

/// The conjunction of conditions, over batches of `schema`.
fn residual(late: &[&Conjunct], schema: &SchemaRef) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
    let rebased = late.iter().map(|conjunct| reassign_expr_columns(Arc::clone(&conjunct.expr), schema));
    Ok(conjunction_opt(rebased.collect::<DataFusionResult<Vec<_>>>()?))
}

/// Stored bytes of a root column that hold selected rows.
fn root_bytes(footer: &Footer, selection: &Selection, root: usize) -> u64 {
    let schema = footer.metadata.file_metadata().schema_descr();
    let leaves = || (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == root);
    let each = selection.iter().flat_map(|(group, rows)| leaves().map(move |leaf| (*group, leaf, rows.as_deref())));
    each.map(|(group, leaf, rows)| chunk_bytes(footer, group, leaf, rows)).sum()
}

fn chunk_bytes(footer: &Footer, group: usize, leaf: usize, rows: Option<&[Range<usize>]>) -> u64 {
    let Some(row_group) = footer.metadata.row_groups().get(group) else { return 0 };
    let whole = row_group.columns().get(leaf).map_or(0, |column| column.compressed_size().max(0) as u64);
    let pages = footer.metadata.offset_index().and_then(|index| index.get(group)?.get(leaf));
    let (Some(rows), Some(pages)) = (rows, pages) else { return whole };
    let pages = pages.page_locations();
    let holds = |at: usize| {
        let start = pages.get(at).map_or(0, |page| page.first_row_index);
        let end = pages.get(at + 1).map_or(row_group.num_rows(), |page| page.first_row_index);
        rows.iter().any(|range| (range.start as i64) < end && start < range.end as i64)
    };
    let selected = pages.iter().enumerate().filter(|(at, _)| holds(*at));
    selected.map(|(_, page)| u64::try_from(page.compressed_page_size).unwrap_or_default()).sum()
}

/// The selected rows of the selected row groups, as the decoder wants them; `None`: all.
fn overall(selection: &Selection, footer: &Footer) -> Option<RowSelection> {
    selection.iter().any(|(_, rows)| rows.is_some()).then_some(())?;
    let mut ranges = Vec::new();
    let mut before = 0;
    for (group, rows) in selection {
        let count = footer.metadata.row_groups().get(*group).map_or(0, |g| g.num_rows().max(0) as usize);
        match rows {
            Some(rows) => ranges.extend(rows.iter().map(|range| range.start + before..range.end + before)),
            None => ranges.push(before..before + count),
        }
        before += count;
    }
    Some(RowSelection::from_consecutive_ranges(ranges.into_iter(), before))
}

/// The batches of one piece of a file.
struct Decoding {
    batches: ParquetRecordBatchStream<DecoderInput>,
    io: FileIo,
    output: Reshape,
    residual: Option<Arc<dyn PhysicalExpr>>,
    projector: Projector,
    limit: Option<usize>,
    tally: FileTally,
}

impl Decoding {
    fn finish(&self, batch: &RecordBatch) -> DataFusionResult<RecordBatch> {
        let mut batch = self.output.apply(batch)?;
        if let Some(residual) = &self.residual {
            batch = filter_record_batch(&batch, &truth(residual, &batch)?)?;
        }
        self.projector.project_batch(&batch)
    }
}

impl Stream for Decoding {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.batches.poll_next_unpin(context)) {
                Some(Ok(batch)) => match self.finish(&batch) {
                    Ok(batch) if batch.num_rows() == 0 => {}
                    Ok(batch) => {
                        self.tally.rows_out += batch.num_rows() as u64;
                        return Poll::Ready(Some(Ok(batch)));
                    }
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(external(self.io.parquet(error))))),
                None => {
                    let enough = self.limit.is_some_and(|limit| self.tally.rows_out >= limit as u64);
                    self.tally.settle(if enough { Reason::Limit } else { Reason::Filter });
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// An error of ours as DataFusion carries it.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
