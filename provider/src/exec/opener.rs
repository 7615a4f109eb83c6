//! From a data file to batches, stage by stage.
//!
//! ```text
//!   proven? ─▶ footer  ─▶ row groups ─▶ bloom filters ─▶ pages ─▶ live rows ─▶ row tests ─▶ adapt ─▶ …
//!   no IO      deletes    statistics    0..1             index                 1..2 requests a row group
//!              0..1 each
//!   … ─▶ equality deletes ─▶ residual ─▶ project
//! ```
//!
//! Once its rows are selected, a file is decoded as [`super::decoding`] says. Files of a far store go through the stages twice:
//! before their turn, so that what is asked for first is on its way, and in their turn, which is the one that counts.

use std::future::ready;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::reassign_expr_columns;
use futures::future::{BoxFuture, FutureExt, try_join};
use futures::stream::{BoxStream, StreamExt, TryStreamExt, empty, iter, once};

use super::ahead::{Ahead, Begun};
use super::decoding::Decoder;
use super::filter::{Conjunct, holds_throughout};
use super::moving::{Moving, excludes};
use super::prune::{FileFacts, Selection};
use super::reader::FileIo;
use super::report::{Scan, Shared};
use super::room::Hold;
use super::topk::Best;
use crate::error::{Code, Error, Result};
use crate::observe::Tally;
use crate::predicate::Predicate;
use crate::scan::{Piece, Task};

pub(super) type Batches = BoxStream<'static, DataFusionResult<RecordBatch>>;

/// What every file of one run of one partition needs.
pub(super) struct Reading {
    pub(super) scan: Arc<Scan>,
    /// Conditions that every row given out satisfies.
    pub(super) conjuncts: Arc<Vec<Conjunct>>,
    pub(super) moving: Moving,
    /// What a sort with a limit above wants of this partition.
    pub(super) best: Option<Arc<Best>>,
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
        self.ahead.opened();
        self.begin_next(&moved);
        self.shared.lock().opened(task);
        let mut begun = match begun {
            Some(begun) => begun.join().await?,
            None => self.begin(task).await.map_err(external)?,
        };
        begun.io.turn();
        let mut groups = Tally::default();
        let decoder = self.decoder(&piece, &mut begun, &moved, &mut groups).await;
        self.shared.lock().ledger.row_groups.merge(&groups);
        match decoder? {
            Some(decoder) => {
                let batches = decoder.batches(begun.io, &self)?;
                Ok(self.until_excluded(batches, generation, piece))
            }
            None => Ok(empty().boxed()),
        }
    }

    /// Reads the footer of a file, and its deletes meanwhile.
    async fn begin(&self, task: &Arc<Task>) -> Result<Begun> {
        let Scan { footers, deletes, .. } = self.scan.as_ref();
        let mut io = FileIo::new(Arc::clone(&task.object), Arc::clone(&self.shared));
        if let Some(footer) = footers.known(&task.object, &mut io) {
            return Ok(Begun { footer, removal: None, io });
        }
        self.shared.lock().opened(task);
        let footer = footers.load(&task.object, &mut io);
        let (footer, removal) = try_join(footer, deletes.of(task, footers, &self.shared)).await?;
        Ok(Begun { footer, removal: Some(removal), io })
    }

    /// Begins files whose turn is to come, of those that `moved` does not exclude.
    fn begin_next(self: &Arc<Self>, moved: &[Predicate]) {
        let unsure = self.limit.is_some() || !self.moving.settled();
        let skipped = |task: &Arc<Task>| self.countable(task).is_some() || excludes(moved, task, &self.scan.view);
        let begin = |at, piece, hold| Arc::clone(self).begin_ahead(at, piece, hold);
        self.ahead.begin_next(&self.scan, unsure, skipped, begin);
    }

    /// Reads before its turn what a file begins with, and the bytes that decoding begins with, where there is room for them.
    fn begin_ahead(
        self: Arc<Self>,
        at: usize,
        piece: Arc<Piece>,
        hold: Arc<Hold>,
    ) -> BoxFuture<'static, Result<Begun>> {
        let begin = async move {
            let mut begun = self.begin(&piece.task).await?;
            if begun.io.is_whole() {
                return Ok(begun);
            }
            let remembered = begun.removal.is_none();
            begun.io.keep(&hold);
            let moved = self.moving.now(&self.scan.view);
            // Which row groups are left, and whether the file can be decoded, is told in its turn.
            let decoder = match excludes(&moved, &piece.task, &self.scan.view) {
                true => Ok(None),
                false => self.decoder(&piece, &mut begun, &moved, &mut Tally::default()).await,
            };
            let ranges = match decoder {
                Ok(Some(decoder)) => decoder.first_ranges().unwrap_or_default(),
                Ok(None) if remembered && begun.io.would_keep(&[]) == 0 => {
                    self.ahead.let_go(at);
                    self.begin_next(&moved);
                    Vec::new()
                }
                Ok(None) | Err(_) => Vec::new(),
            };
            if hold.take(begun.io.would_keep(&ranges)).await {
                begun.io.fetch(&ranges).await?;
            }
            Ok(begun)
        };
        begin.boxed()
    }

    /// How the rows of a file that may match are decoded; `None` where there are none.
    async fn decoder(
        &self,
        piece: &Piece,
        begun: &mut Begun,
        moved: &[Predicate],
        groups: &mut Tally,
    ) -> DataFusionResult<Option<Decoder>> {
        let task = &piece.task;
        let open = self.open_conditions(task).collect();
        let (selection, open) = self.select(piece, begun, moved, open, groups).await.map_err(external)?;
        if selection.is_empty() {
            return Ok(None);
        }
        let removal = match &mut begun.removal {
            Some(removal) => removal,
            none => {
                self.shared.lock().opened(task);
                let removal = self.scan.deletes.of(task, &self.scan.footers, &self.shared).await;
                none.insert(removal.map_err(external)?)
            }
        };
        let live = removal.select(selection, &begun.footer, groups);
        if live.selection.is_empty() {
            return Ok(None);
        }
        Decoder::new(self, task, (&begun.footer, &begun.io), (live, removal), open).map(Some)
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
        begun: &Begun,
        moved: &[Predicate],
        mut open: Vec<&'c Conjunct>,
        tally: &mut Tally,
    ) -> Result<(Selection, Vec<&'c Conjunct>)> {
        let view = &self.scan.view;
        let known = self.prune.iter().chain(moved);
        let prune: Vec<&Predicate> =
            known.filter(|predicate| !holds_throughout(predicate, &piece.task, view)).collect();
        let claimed = open.iter().flat_map(|conjunct| [&conjunct.claim.predicate, &conjunct.claim.proof]);
        let asked = prune.iter().copied().chain(claimed);
        let facts = FileFacts::new(&begun.footer, &piece.task, &view.schema, asked);
        let groups = facts.keep_groups(piece.range.as_ref(), &prune, tally);
        let groups = facts.keep_by_blooms(groups, &prune, &self.scan.footers, &begun.io, tally).await?;
        let selection = facts.select_rows(groups, &prune, tally);
        open.retain(|conjunct| !conjunct.proven_by_groups(&facts, &selection));
        Ok((selection, open))
    }

    pub(super) fn projector(&self, input: &SchemaRef) -> DataFusionResult<Projector> {
        let rebased = self.projection.clone().try_map_exprs(|expr| reassign_expr_columns(expr, input))?;
        rebased.make_projector(input)
    }
}

/// An error of ours as DataFusion carries it.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
