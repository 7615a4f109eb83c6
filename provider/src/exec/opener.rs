//! From a data file to batches, stage by stage.
//!
//! ```text
//!   proven? ─▶ footer  ─▶ row groups ─▶ bloom filters ─▶ pages ─▶ live rows ─▶ row tests ─▶ adapt ─▶ …
//!   no IO      deletes    statistics    0..1             index                 1..2 requests a row group
//!              0..1 each
//!   … ─▶ equality deletes ─▶ residual ─▶ project
//! ```

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use futures::stream::{BoxStream, Stream, StreamExt, TryStreamExt, empty, iter, once};
use parking_lot::Mutex;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::{ArrowPredicate, RowFilter};

use super::absent::{constant, nested_constants};
use super::ahead::{Ahead, Begun, begin};
use super::columns::{Layout, Reshape};
use super::deletes::{Live, Removal, Removing, numbered};
use super::filter::{Conjunct, RowTest, holds_throughout, truth};
use super::footer::Footer;
use super::guarded::Guarded;
use super::moving::{Moving, excludes};
use super::prune::{FileFacts, Selection};
use super::reader::{DecoderInput, FileIo};
use super::report::{FileTally, Scan, Shared};
use super::selected::{leaf_bytes, overall};
use crate::error::{Code, Error, Result};
use crate::observe::{Reason, Tally};
use crate::predicate::Predicate;
use crate::scan::{DeleteKind, Piece, Task};

type Batches = BoxStream<'static, DataFusionResult<RecordBatch>>;

/// What every file of one run of one partition needs.
pub(super) struct Reading {
    pub(super) scan: Arc<Scan>,
    /// Conditions that every row given out satisfies.
    pub(super) conjuncts: Arc<Vec<Conjunct>>,
    pub(super) moving: Moving,
    /// Conditions that every wanted row satisfies: what doesn't may be left out, but need not be.
    pub(super) prune: Vec<Predicate>,
    pub(super) projection: ProjectionExprs,
    /// The table columns that the projection reads, ascending.
    pub(super) wanted: Vec<usize>,
    /// The table as far as the projection and the conditions read it.
    pub(super) table: SchemaRef,
    pub(super) batch_size: usize,
    pub(super) limit: Option<usize>,
    pub(super) ahead: Ahead,
    pub(super) shared: Shared,
}

/// Opens the files of one run of one partition.
pub(super) struct Opener {
    reading: Arc<Reading>,
}

impl Opener {
    pub(super) fn new(reading: Reading) -> Self {
        Opener { reading: Arc::new(reading) }
    }
}

impl FileOpener for Opener {
    /// Opens the next file: each call is for one of the partition's, in the order in which they are read.
    fn open(&self, _: PartitionedFile) -> DataFusionResult<FileOpenFuture> {
        let next = self.reading.ahead.turn();
        let next = next.ok_or_else(|| external(Error::new(Code::Internal, "a file without its task")))?;
        let reading = Arc::clone(&self.reading);
        if !reading.moving.settled() {
            // Opened when its turn has come: the file before it may show that nothing of it is wanted.
            let batches = once(reading.open(next)).try_flatten().boxed();
            return Ok(Box::pin(ready(Ok(batches))));
        }
        // A task of its own: the next file is opened while this one is decoded. Dropping the future aborts it.
        let opening = SpawnedTask::spawn(reading.open(next));
        Ok(Box::pin(
            async move { opening.join_unwind().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? },
        ))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.reading.ahead.stop();
        self.reading.shared.lock().ended();
    }
}

impl Reading {
    async fn open(self: Arc<Self>, (at, piece): (usize, Arc<Piece>)) -> DataFusionResult<Batches> {
        let view = &self.scan.view;
        let task = &piece.task;
        let begun = self.ahead.take(at);
        if let Some(rows) = self.countable(task) {
            return self.counted(&piece, rows);
        }
        let generation = self.moving.generation();
        let moved = self.moving.now(view);
        if excludes(&moved, task, view) {
            self.shared.lock().excluded(task);
            return Ok(empty().boxed());
        }
        let unsure = self.limit.is_some() || !self.moving.settled();
        let skipped = |task: &Arc<Task>| self.countable(task).is_some() || excludes(&moved, task, view);
        self.ahead.begin_next(&self.scan, &self.shared, unsure, skipped);
        let Begun { footer, removal, io } = match begun {
            Some(begun) => begun.join().await?,
            None => begin(&self.scan, task, &self.shared).await.map_err(external)?,
        };
        let open = self.open_conditions(task).collect();
        let (selection, open) = self.select(&piece, &footer, &io, &moved, open).await.map_err(external)?;
        if selection.is_empty() {
            return Ok(empty().boxed());
        }
        let removal = match removal {
            Some(removal) => removal,
            None => self.scan.deletes.of(task, &self.scan.footers, &self.shared).await.map_err(external)?,
        };
        let live = removal.select(selection, &footer, &mut self.shared.lock().ledger.row_groups);
        if live.selection.is_empty() {
            return Ok(empty().boxed());
        }
        let batches = self.decode(task, footer, io, (live, removal), open)?;
        Ok(self.until_excluded(batches, generation, piece))
    }

    /// The conditions that planning has not proven of every row of a file.
    fn open_conditions<'c>(&'c self, task: &'c Task) -> impl Iterator<Item = &'c Conjunct> {
        self.conjuncts.iter().filter(|conjunct| !conjunct.proven_by_manifest(task, &self.scan.view))
    }

    /// How many rows a file has, where that is all that is wanted of it and metadata tells.
    fn countable(&self, task: &Task) -> Option<u64> {
        let rows = task.live_rows().filter(|_| self.wanted.is_empty())?;
        self.open_conditions(task).next().is_none().then_some(rows)
    }

    /// Ends the batches of a file when what moves excludes the rest of it; `generation` is what it was opened under.
    fn until_excluded(self: Arc<Self>, batches: Batches, mut generation: u64, piece: Arc<Piece>) -> Batches {
        if self.moving.settled() {
            return batches;
        }
        let wanted = move |_: &DataFusionResult<RecordBatch>| {
            let now = self.moving.generation();
            let moved = std::mem::replace(&mut generation, now) != now;
            let view = &self.scan.view;
            ready(!moved || !excludes(&self.moving.now(view), &piece.task, view))
        };
        batches.take_while(wanted).boxed()
    }

    /// As many rows as metadata counts: nothing of the file is needed.
    fn counted(&self, piece: &Piece, rows: u64) -> DataFusionResult<Batches> {
        self.shared.lock().answered(&piece.task);
        if piece.range.as_ref().is_some_and(|range| range.start > 0) {
            return Ok(empty().boxed());
        }
        let schema = Arc::new(ArrowSchema::empty());
        let projector = self.projector(&schema)?;
        let size = self.batch_size.max(1) as u64;
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
        moved: &[Predicate],
        mut open: Vec<&'c Conjunct>,
    ) -> Result<(Selection, Vec<&'c Conjunct>)> {
        let view = &self.scan.view;
        let known = self.prune.iter().chain(moved);
        let prune: Vec<&Predicate> =
            known.filter(|predicate| !holds_throughout(predicate, &piece.task, view)).collect();
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

    /// Decodes the selected rows, drops deleted ones and tests the others for the conditions in `open`.
    fn decode(
        &self,
        task: &Arc<Task>,
        footer: Arc<Footer>,
        io: FileIo,
        (live, removal): (Live, Removal),
        open: Vec<&Conjunct>,
    ) -> DataFusionResult<Batches> {
        let compares_keys = task.delete_files().any(|file| matches!(file.kind, DeleteKind::Equality { .. }));
        let (table, schema) = match compares_keys {
            false => (&self.table, &self.scan.view.schema),
            true => (&self.scan.deletes.keys.table, &self.scan.deletes.keys.schema),
        };
        let nested = nested_constants(task, table, schema).map_err(external)?;
        let of_file = |e: Error| external(e.with("file", &task.object.location));
        let map = |table: &SchemaRef| Layout::new(&footer, table, schema, &nested);
        let layout = footer.layout(table, nested.is_empty(), || map(table)).map_err(of_file)?;
        let absent = |field: &Field| constant(field, task, schema);
        let reshape = |columns: &[usize]| layout.reshape(columns, table, absent).map_err(of_file);

        let selection = live.rows.as_ref().unwrap_or(&live.selection);
        let test = |conjunct: &Conjunct| match &conjunct.within {
            Some(narrow) => map(narrow)?.reshape(&conjunct.columns, narrow, absent),
            None => layout.reshape(&conjunct.columns, table, absent),
        };
        let tests = open.into_iter().chain(self.moving.tests());
        let tests = tests.filter_map(|conjunct| match test(conjunct) {
            Err(_) if conjunct.optional => None,
            shape => Some(shape.map(|shape| (conjunct, shape)).map_err(of_file)),
        });
        let tests = tests.collect::<DataFusionResult<_>>()?;
        let wanted: Vec<usize> = self.wanted.iter().flat_map(|at| layout.leaves(*at)).copied().collect();
        let (early, late) = split(tests, &wanted, &footer, selection, io.gap());
        let tests: Vec<RowTest> = early
            .into_iter()
            .map(|(conjunct, shape)| RowTest::new(conjunct, shape))
            .collect::<DataFusionResult<_>>()?;
        let columns = self.columns_with(&late, removal.columns().into_iter());
        let removing = removal.after_decoding(&columns, live.by_number).map_err(external)?;
        let output = reshape(&columns)?;
        let residual = residual(&late, &output.schema)?;
        let projector = self.projector(&output.schema)?;

        let touched = Arc::new(Mutex::new(Vec::new()));
        let leaves = output.leaves.iter().chain(tests.iter().flat_map(RowTest::leaves)).copied().collect();
        let input =
            DecoderInput { io: io.clone(), metadata: Arc::clone(&footer.metadata), touched: Arc::clone(&touched) };
        let by_position = output.numbered() || removing.as_ref().is_some_and(|removing| removing.numbered());
        if by_position && !live.by_number && !numbered(&footer) {
            return Err(external(io.corrupt("the file does not count its row groups, so that rows have no position")));
        }
        let reader = if by_position { layout.numbered() } else { Ok(layout.reader.clone()) };
        let reader = reader.map_err(|e| external(io.parquet(e)))?;
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(input, reader)
            .with_batch_size(self.batch_size)
            .with_projection(output.mask.clone())
            .with_row_groups(selection.iter().map(|(group, _)| *group).collect());
        if let Some(rows) = overall(selection, &footer) {
            builder = builder.with_row_selection(rows);
        }
        if !tests.is_empty() {
            let tests = tests.into_iter().map(|test| Box::new(test) as Box<dyn ArrowPredicate>);
            builder = builder.with_row_filter(RowFilter::new(tests.collect()));
        }
        let limit = self.limit.filter(|_| residual.is_none() && removing.is_none());
        if let Some(limit) = limit {
            builder = builder.with_limit(limit);
        }
        let batches = Guarded::new(builder.build().map_err(|e| external(io.parquet(e)))?);
        let tally = FileTally::new(Arc::clone(&self.shared), Arc::clone(&footer.metadata), live, leaves, touched);
        Ok(Decoding { batches, io, output, removing, residual, projector, limit, tally }.boxed())
    }

    /// The projection's columns, those of conditions that are tested after decoding, and the `keys` of deletes.
    fn columns_with(&self, late: &[&Conjunct], keys: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut columns = self.wanted.clone();
        columns.extend(keys);
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

/// Which conditions are tested while decoding (in order), and which afterwards. Decoding a condition's columns ahead costs
/// a request for each row group; it pays where what it can spare is worth that, and at least as large as those columns.
/// `wanted` are the leaf columns of the projection.
fn split<'c>(
    tests: Vec<(&'c Conjunct, Reshape)>,
    wanted: &[usize],
    footer: &Footer,
    selection: &Selection,
    request: u64,
) -> (Vec<(&'c Conjunct, Reshape)>, Vec<&'c Conjunct>) {
    let enough = request.saturating_mul(selection.len() as u64);
    let stored = |leaves: &mut dyn Iterator<Item = usize>| -> u64 {
        leaves.map(|leaf| leaf_bytes(footer, selection, leaf)).sum()
    };
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for (conjunct, shape) in tests {
        let own = stored(&mut shape.leaves.iter().copied());
        let spared = stored(&mut wanted.iter().copied().filter(|leaf| !shape.leaves.contains(leaf)));
        // Rows are numbered once they are decoded.
        let early_enough = !shape.leaves.is_empty() && shape.is_flat(footer) && !shape.numbered();
        match early_enough && spared >= own.max(enough) {
            true => early.push((!conjunct.is_lookup(), own, conjunct, shape)),
            false if conjunct.optional => {}
            false => late.push(conjunct),
        }
    }
    early.sort_by_key(|(not_lookup, bytes, ..)| (*not_lookup, *bytes));
    (early.into_iter().map(|(_, _, conjunct, shape)| (conjunct, shape)).collect(), late)
}

/// The conjunction of conditions, over batches of `schema`.
fn residual(late: &[&Conjunct], schema: &SchemaRef) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
    let rebased = late.iter().map(|conjunct| reassign_expr_columns(Arc::clone(&conjunct.expr), schema));
    Ok(conjunction_opt(rebased.collect::<DataFusionResult<Vec<_>>>()?))
}

/// The batches of one piece of a file.
struct Decoding {
    batches: Guarded,
    io: FileIo,
    output: Reshape,
    removing: Option<Removing>,
    residual: Option<Arc<dyn PhysicalExpr>>,
    projector: Projector,
    limit: Option<usize>,
    tally: FileTally,
}

impl Decoding {
    fn finish(&mut self, decoded: &RecordBatch) -> DataFusionResult<RecordBatch> {
        let mut batch = self.output.apply(decoded)?;
        if let Some(removing) = &self.removing {
            batch = removing.apply(batch, decoded.columns().last())?;
            self.tally.deleted += (decoded.num_rows() - batch.num_rows()) as u64;
        }
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
            match std::task::ready!(self.batches.poll_next_unpin(context)) {
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
