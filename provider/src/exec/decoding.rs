//! How are the selected rows of a file decoded, and what becomes of them then?
//!
//! ```text
//!   selection ─▶ row tests ─▶ adapt ─▶ equality deletes ─▶ residual ─▶ project
//!                1..2 requests a row group
//! ```
//!
//! All of it is settled before anything is read. So it is known, too, which bytes decoding begins with: a file that is begun
//! ahead has them fetched before its turn.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use futures::stream::{Stream, StreamExt};
use parquet::DecodeResult;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::{ArrowReaderBuilder, ArrowReaderMetadata};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;

use super::absent::{constant, nested_constants};
use super::columns::{Layout, Reshape};
use super::deletes::{Live, Removal, Removing, numbered};
use super::filter::{Conjunct, RowTest, RowTests, truth};
use super::footer::Footer;
use super::guarded::Guarded;
use super::opener::{Batches, Reading, external};
use super::prune::Selection;
use super::reader::{DecoderInput, FileIo};
use super::report::{Counts, FileTally};
use super::selected::{leaf_bytes, overall};
use crate::error::{Error, guarded};
use crate::observe::Reason;
use crate::scan::{DeleteKind, Task};

/// How one piece of a file is decoded.
pub(super) struct Decoder {
    footer: Arc<Footer>,
    reader: ArrowReaderMetadata,
    live: Live,
    output: Reshape,
    tests: RowTests,
    removing: Option<Removing>,
    residual: Option<Arc<dyn PhysicalExpr>>,
    projector: Projector,
    batch_size: usize,
    limit: Option<usize>,
}

impl Decoder {
    /// Decodes the selected rows, drops deleted ones and tests the others for the conditions in `open`.
    pub(super) fn new(
        reading: &Reading,
        task: &Arc<Task>,
        (footer, io): (&Arc<Footer>, &FileIo),
        (live, removal): (Live, &Removal),
        open: Vec<&Conjunct>,
    ) -> DataFusionResult<Self> {
        let compares_keys = task.delete_files().any(|file| matches!(file.kind, DeleteKind::Equality { .. }));
        let (table, schema) = match compares_keys {
            false => (&reading.table, &reading.scan.view.schema),
            true => (&reading.scan.deletes.keys.table, &reading.scan.deletes.keys.schema),
        };
        let nested = nested_constants(task, table, schema).map_err(external)?;
        let of_file = |e: Error| external(e.with("file", &task.object.location));
        let map = |table: &SchemaRef| Layout::new(footer, table, schema, &nested);
        let layout = footer.layout(table, nested.is_empty(), || map(table)).map_err(of_file)?;
        let absent = |field: &Field| constant(field, task, schema);
        let reshape = |columns: &[usize]| layout.reshape(columns, table, absent).map_err(of_file);

        let selection = live.rows.as_ref().unwrap_or(&live.selection);
        let test = |conjunct: &Conjunct| match &conjunct.within {
            Some(narrow) => map(narrow)?.reshape(&conjunct.columns, narrow, absent),
            None => layout.reshape(&conjunct.columns, table, absent),
        };
        let tests = open.into_iter().chain(reading.moving.tests());
        let tests = tests.filter_map(|conjunct| match test(conjunct) {
            Err(_) if conjunct.optional => None,
            shape => Some(shape.map(|shape| (conjunct, shape)).map_err(of_file)),
        });
        let tests = tests.collect::<DataFusionResult<_>>()?;
        let wanted: Vec<usize> = reading.wanted.iter().flat_map(|at| layout.leaves(*at)).copied().collect();
        let worth = Worth { wanted: &wanted, footer, selection, request: io.gap() };
        let (early, late) = split(tests, &worth);
        let columns = columns_with(&reading.wanted, &late, removal.columns().into_iter());
        let removing = removal.after_decoding(&columns, live.by_number).map_err(external)?;
        let mut tests = RowTests::default();
        for (conjunct, shape) in early {
            tests.add(RowTest::new(conjunct, shape)?, conjunct.optional);
        }
        // What they keep is given out: nothing may be dropped after them.
        if let Some(best) = reading.best.as_ref().filter(|_| late.is_empty() && removing.is_none())
            && let Ok(shape) = layout.reshape(&best.wanted.columns(), table, absent)
            && worth.of(&shape).is_some()
        {
            best.tests(&Arc::new(shape)).into_iter().for_each(|test| tests.add(test, true));
        }
        let output = reshape(&columns)?;
        let residual = residual(&late, &output.schema)?;
        let projector = reading.projector(&output.schema)?;

        let by_position = output.numbered() || removing.as_ref().is_some_and(|removing| removing.numbered());
        if by_position && !live.by_number && !numbered(footer) {
            return Err(external(io.corrupt("the file does not count its row groups, so that rows have no position")));
        }
        let reader = if by_position { layout.numbered() } else { Ok(layout.reader.clone()) };
        let reader = reader.map_err(|e| external(io.parquet(e)))?;
        let limit = reading.limit.filter(|_| residual.is_none() && removing.is_none());
        let (footer, batch_size) = (Arc::clone(footer), reading.batch_size);
        Ok(Decoder { footer, reader, live, output, tests, removing, residual, projector, batch_size, limit })
    }

    /// The bytes that are asked for first: of the first row group, those that rows are tested by, or else all that are read.
    pub(super) fn first_ranges(mut self) -> parquet::errors::Result<Vec<Range<u64>>> {
        guarded(|| {
            let builder = ParquetPushDecoderBuilder::new_with_metadata(self.reader.clone());
            match self.configure(builder).build()?.try_decode()? {
                DecodeResult::NeedsData(ranges) => Ok(ranges),
                DecodeResult::Data(_) | DecodeResult::Finished => Ok(Vec::new()),
            }
        })
    }

    /// Decodes what it reads by `io`.
    pub(super) fn batches(mut self, io: FileIo, reading: &Reading) -> DataFusionResult<Batches> {
        let metadata = Arc::clone(&self.footer.metadata);
        let count = metadata.file_metadata().schema_descr().num_columns();
        let leaves = self.output.leaves.iter().copied().chain(self.tests.leaves(count)).collect();
        let counts = Counts { unwanted: Arc::clone(&self.tests.unwanted), ..Counts::default() };
        let touched = Arc::clone(&counts.touched);
        let why = match self.tests.conditions || self.residual.is_some() {
            true => Reason::Filter,
            false => Reason::DynamicFilter,
        };
        let input = DecoderInput { io: io.clone(), metadata: Arc::clone(&metadata), touched };
        let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(input, self.reader.clone());
        let builder = self.configure(builder);
        let batches = Guarded::new(builder.build().map_err(|e| external(io.parquet(e)))?);
        let tally = FileTally::new(Arc::clone(&reading.shared), metadata, self.live, leaves, counts);
        let Decoder { output, removing, residual, projector, limit, .. } = self;
        Ok(Decoding { batches, io, output, removing, residual, projector, limit, tally, why }.boxed())
    }

    /// Tells a reader what is decoded, and tested.
    fn configure<T>(&mut self, builder: ArrowReaderBuilder<T>) -> ArrowReaderBuilder<T> {
        let selection = self.live.rows.as_ref().unwrap_or(&self.live.selection);
        let mut builder = builder
            .with_batch_size(self.batch_size)
            .with_projection(self.output.mask.clone())
            .with_row_groups(selection.iter().map(|(group, _)| *group).collect());
        if let Some(rows) = overall(selection, &self.footer) {
            builder = builder.with_row_selection(rows);
        }
        if let Some(tests) = self.tests.take() {
            builder = builder.with_row_filter(tests);
        }
        match self.limit {
            Some(limit) => builder.with_limit(limit),
            None => builder,
        }
    }
}

/// What it is worth to decode some columns ahead of the others.
struct Worth<'a> {
    /// The leaf columns of the projection.
    wanted: &'a [usize],
    footer: &'a Footer,
    selection: &'a Selection,
    /// Bytes that are worth a request.
    request: u64,
}

impl Worth<'_> {
    /// The bytes of columns that rows are tested by, if it pays to decode them ahead: that costs a request for each row group,
    /// and what it can spare must be worth that, and at least as large as those columns.
    fn of(&self, shape: &Reshape) -> Option<u64> {
        let stored = |leaves: &mut dyn Iterator<Item = usize>| -> u64 {
            leaves.map(|leaf| leaf_bytes(self.footer, self.selection, leaf)).sum()
        };
        // Rows are numbered once they are decoded.
        if shape.leaves.is_empty() || !shape.is_flat(self.footer) || shape.numbered() {
            return None;
        }
        let own = stored(&mut shape.leaves.iter().copied());
        let spared = stored(&mut self.wanted.iter().copied().filter(|leaf| !shape.leaves.contains(leaf)));
        let requests = self.request.saturating_mul(self.selection.len() as u64);
        (spared >= own.max(requests)).then_some(own)
    }
}

/// Which conditions are tested while decoding (in order), and which afterwards.
fn split<'c>(
    tests: Vec<(&'c Conjunct, Reshape)>,
    worth: &Worth<'_>,
) -> (Vec<(&'c Conjunct, Reshape)>, Vec<&'c Conjunct>) {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for (conjunct, shape) in tests {
        match worth.of(&shape) {
            Some(own) => early.push((!conjunct.is_lookup(), own, conjunct, shape)),
            None if conjunct.optional => {}
            None => late.push(conjunct),
        }
    }
    early.sort_by_key(|(not_lookup, bytes, ..)| (*not_lookup, *bytes));
    (early.into_iter().map(|(_, _, conjunct, shape)| (conjunct, shape)).collect(), late)
}

/// The `wanted` columns, those of conditions that are tested after decoding, and the `keys` of deletes.
fn columns_with(wanted: &[usize], late: &[&Conjunct], keys: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut columns = wanted.to_vec();
    columns.extend(keys);
    columns.extend(late.iter().flat_map(|conjunct| &conjunct.columns));
    columns.sort_unstable();
    columns.dedup();
    columns
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
    /// Why rows are missing at the end.
    why: Reason,
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
                    let why = if enough { Reason::Limit } else { self.why };
                    self.tally.settle(why);
                    return Poll::Ready(None);
                }
            }
        }
    }
}
