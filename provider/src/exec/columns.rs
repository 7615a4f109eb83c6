//! How do a file's columns become the table's?
//!
//! By field id, never by name: a renamed column is found, a reused name isn't mistaken, a column that was added later is
//! its default, a promoted type is cast.
//!
//! ```text
//!   table   1 id long   3 day date           7 tags list<string>
//!              ▲ cast      ▲ same               ▲ not in the file: null
//!   file    1 id int    3 renamed date  9 dropped
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use iceberg::spec::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::RowNumber;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::ParquetMetaData;

use super::adapt::{Adapt, Between, Refused, hint};
use super::footer::Footer;
use super::narrow;
use super::numbers::{Inherited, Numbered};
use crate::error::{Code, Error, Result};
use crate::scan::MetadataColumn;
use crate::schema::field_id;

/// What of a file a table column is made of, and how.
#[derive(Debug)]
struct Source {
    root: usize,
    /// The leaf columns of the root column that are read.
    leaves: Vec<usize>,
    adapt: std::result::Result<Arc<Adapt>, Refused>,
}

/// A file's columns as the Parquet reader gives them, and how each table column is made of them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) reader: ArrowReaderMetadata,
    /// One for each table column: `None` where the file doesn't have it.
    columns: Vec<Option<Source>>,
}

impl Layout {
    /// Maps the columns of a file to those of the table schema `table`, which may be narrowed, by field id. `nested` gives
    /// values to fields inside structs that the file doesn't have.
    pub(super) fn new(
        footer: &Footer,
        table: &SchemaRef,
        schema: &Schema,
        nested: &HashMap<i32, ScalarValue>,
    ) -> Result<Self> {
        let between = Between { schema, nested, by_place: footer.by_place };
        let corrupt = |e: parquet::errors::ParquetError| {
            Error::new(Code::DataFileCorrupt, "the data file's schema cannot be read").source(e)
        };
        // An embedded Arrow schema is another writer's opinion: ids and types are taken from Parquet's own schema.
        let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let stored = ArrowReaderMetadata::try_new(Arc::clone(&footer.metadata), plain).map_err(corrupt)?;
        let roots = table.fields().iter().map(|field| field_id(field).and_then(|id| footer.root(id)));
        let roots: Vec<Option<usize>> = roots.collect();

        let mut hinted: Vec<FieldRef> = stored.schema().fields().iter().map(Arc::clone).collect();
        for (field, root) in table.fields().iter().zip(&roots) {
            if let Some((root, slot)) = root.and_then(|root| Some((root, hinted.get_mut(root)?))) {
                *slot = match is_int96(footer, root) {
                    // Has no unit of its own, so it can be decoded to any.
                    true => Arc::new(slot.as_ref().clone().with_data_type(field.data_type().clone())),
                    false => Arc::new(hint(slot, field)),
                };
            }
        }
        let hinted = Arc::new(ArrowSchema::new(hinted));
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(&hinted));
        let reader = ArrowReaderMetadata::try_new(Arc::clone(&footer.metadata), options).map_err(corrupt)?;

        let source = |(field, root): (&FieldRef, Option<usize>)| {
            let root = root?;
            let whole = hinted.fields().get(root)?;
            let stored = if footer.by_place { Arc::clone(whole) } else { narrow::stored(whole, field) };
            let leaves = leaves_of(&stored, root, &footer.metadata);
            // Refused only where it is asked for: other columns can be read.
            let adapt = Adapt::new(&stored, field, &between).map(Arc::new);
            Some(Source { root, leaves, adapt })
        };
        let columns = table.fields().iter().zip(roots).map(source).collect();
        Ok(Layout { reader, columns })
    }

    fn source(&self, at: usize) -> Option<&Source> {
        self.columns.get(at)?.as_ref()
    }

    /// The leaf columns of the file that table column `at` is made of; none where the file doesn't have it.
    pub(super) fn leaves(&self, at: usize) -> &[usize] {
        self.source(at).map_or(&[], |source| &source.leaves)
    }

    /// The same reader, whose batches have one more column at their end: each row's position in the file.
    pub(super) fn numbered(&self) -> parquet::errors::Result<ArrowReaderMetadata> {
        let number = Field::new("row number", DataType::Int64, false).with_extension_type(RowNumber);
        let options = ArrowReaderOptions::new()
            .with_schema(Arc::clone(self.reader.schema()))
            .with_virtual_columns(vec![Arc::new(number)])?;
        ArrowReaderMetadata::try_new(Arc::clone(self.reader.metadata()), options)
    }

    /// How batches with the table columns `wanted` (ascending indexes into `table`) are made of the file's; `absent` gives
    /// the value of a column that the file doesn't have.
    pub(super) fn reshape(
        &self,
        wanted: &[usize],
        table: &SchemaRef,
        absent: impl Fn(&Field) -> Result<ScalarValue>,
    ) -> Result<Reshape> {
        let mut roots: Vec<usize> = wanted.iter().filter_map(|at| self.source(*at)).map(|source| source.root).collect();
        roots.sort_unstable();
        roots.dedup();
        let mut slots = Vec::with_capacity(wanted.len());
        for at in wanted {
            let field = table.field(*at);
            let stored = match self.source(*at) {
                Some(Source { root, adapt: Ok(adapt), .. }) => {
                    Some((roots.partition_point(|r| r < root), Arc::clone(adapt)))
                }
                Some(Source { adapt: Err(refused), .. }) => return Err(refused.error()),
                None => None,
            };
            slots.push(match (MetadataColumn::of(field).filter(|column| column.by_row()), stored) {
                (Some(MetadataColumn::Pos), _) => Slot::Inherited(None, Inherited::Position),
                (Some(column), stored) => Slot::Inherited(stored, Inherited::of(column, &absent(field)?)),
                (None, Some((at, adapt))) => Slot::Read(at, adapt),
                (None, None) => Slot::Constant(absent(field)?),
            });
        }
        let mut leaves: Vec<usize> = wanted.iter().flat_map(|at| self.leaves(*at)).copied().collect();
        leaves.sort_unstable();
        leaves.dedup();
        let mask = ProjectionMask::leaves(self.reader.parquet_schema(), leaves.iter().copied());
        let output = table.project(wanted).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        Ok(Reshape { mask, leaves, schema: Arc::new(output), slots })
    }
}

/// Makes batches of table columns of a file's batches.
#[derive(Debug)]
pub(super) struct Reshape {
    /// The columns to read.
    pub(super) mask: ProjectionMask,
    /// The leaf columns that `mask` includes.
    pub(super) leaves: Vec<usize>,
    /// The batches made.
    pub(super) schema: SchemaRef,
    slots: Vec<Slot>,
}

#[derive(Debug)]
enum Slot {
    Read(usize, Arc<Adapt>),
    Constant(ScalarValue),
    /// A stored column, if there is one, and what its nulls mean.
    Inherited(Option<(usize, Arc<Adapt>)>, Inherited),
}

impl Reshape {
    /// Whether batches must have the rows' positions as their last column.
    pub(super) fn numbered(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Inherited(_, inherited) if inherited.numbered()))
    }

    /// Whether no column holds lists or maps, so that each row has one value in each leaf.
    pub(super) fn is_flat(&self, footer: &Footer) -> bool {
        let schema = footer.metadata.file_metadata().schema_descr();
        self.leaves.iter().all(|leaf| schema.column(*leaf).max_rep_level() == 0)
    }

    /// A batch of `mask`'s columns as a batch of `schema`, with the same rows.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let read = |at: usize, adapt: &Adapt| {
            let column = batch.columns().get(at);
            adapt.apply(column.ok_or_else(|| ArrowError::SchemaError(format!("column {at} was not read")))?)
        };
        let columns = self.slots.iter().map(|slot| match slot {
            Slot::Read(at, adapt) => read(*at, adapt),
            Slot::Inherited(stored, inherited) => {
                let stored = stored.as_ref().map(|(at, adapt)| read(*at, adapt)).transpose()?;
                inherited.column(stored, &Numbered(batch))
            }
            Slot::Constant(value) => value.to_array_of_size(rows).map_err(|e| ArrowError::ExternalError(Box::new(e))),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// The leaf columns of root column `root` that `stored`, which may be narrowed, consists of.
fn leaves_of(stored: &Field, root: usize, metadata: &ParquetMetaData) -> Vec<usize> {
    let schema = metadata.file_metadata().schema_descr();
    let leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == root);
    leaves.filter(|leaf| narrow::has_leaf(stored, schema.column(*leaf).path().parts())).collect()
}

fn is_int96(footer: &Footer, root: usize) -> bool {
    let schema = footer.metadata.file_metadata().schema_descr();
    let leaf = schema.columns().iter().enumerate().find(|(leaf, _)| schema.get_column_root_idx(*leaf) == root);
    leaf.is_some_and(|(_, column)| column.physical_type() == parquet::basic::Type::INT96)
}
