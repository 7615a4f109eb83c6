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

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use iceberg::spec::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::RowNumber;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::footer::Footer;
use super::numbers::{Inherited, Numbered};
use crate::error::{Code, Error, Result};
use crate::predicate::Value;
use crate::scan::{MetadataColumn, Task, primitive, to_scalar};
use crate::schema::field_id;

/// A file's columns as the Parquet reader gives them, and how each table column is made of them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) reader: ArrowReaderMetadata,
    /// One for each table column: the root column it is made of, and how; `None` where the file doesn't have it.
    columns: Vec<Option<(usize, Arc<Adapt>)>>,
}

impl Layout {
    /// Maps the columns of a file to those of the table schema `table`, by field id.
    pub(super) fn new(footer: &Footer, table: &SchemaRef, schema: &Schema) -> Result<Self> {
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

        let mut columns = Vec::with_capacity(roots.len());
        for (field, root) in table.fields().iter().zip(roots) {
            columns.push(match root.and_then(|root| Some((root, hinted.fields().get(root)?))) {
                Some((root, stored)) => Some((root, Arc::new(Adapt::new(stored, field, schema)?))),
                None => None,
            });
        }
        Ok(Layout { reader, columns })
    }

    /// The root column of the file that table column `at` is made of.
    pub(super) fn root(&self, at: usize) -> Option<usize> {
        self.columns.get(at).and_then(|column| column.as_ref()).map(|(root, _)| *root)
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
        let mut roots: Vec<usize> = wanted.iter().filter_map(|at| self.root(*at)).collect();
        roots.sort_unstable();
        roots.dedup();
        let mut slots = Vec::with_capacity(wanted.len());
        for at in wanted {
            let field = table.field(*at);
            let column = self.columns.get(*at).and_then(|column| column.as_ref());
            let stored = column.map(|(root, adapt)| (roots.partition_point(|r| r < root), Arc::clone(adapt)));
            slots.push(match (MetadataColumn::of(field).filter(|column| column.by_row()), stored) {
                (Some(MetadataColumn::Pos), _) => Slot::Inherited(None, Inherited::Position),
                (Some(column), stored) => Slot::Inherited(stored, Inherited::of(column, &absent(field)?)),
                (None, Some((at, adapt))) => Slot::Read(at, adapt),
                (None, None) => Slot::Constant(absent(field)?),
            });
        }
        let parquet = self.reader.parquet_schema();
        let mask = ProjectionMask::roots(parquet, roots.iter().copied());
        let leaves = (0..parquet.num_columns())
            .filter(|leaf| roots.binary_search(&parquet.get_column_root_idx(*leaf)).is_ok())
            .collect();
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

/// The value of a column that the file doesn't have. Iceberg specification, "Column Projection": the partition's value,
/// then the column's initial default, then null.
pub(super) fn absent(field: i32, task: &Task, schema: &Schema) -> Option<Value> {
    let column = primitive(schema, field)?;
    match MetadataColumn::with_id(field) {
        Some(MetadataColumn::File) => return Some(Value::String(task.file_path().to_owned())),
        Some(MetadataColumn::SpecId) => return Some(Value::Long(i64::from(task.spec_id()))),
        _ => {}
    }
    if let Some(value) = task.constant(field, column) {
        return value;
    }
    let default = schema.field_by_id(field)?.initial_default.as_ref()?;
    Value::from_literal(&default.as_primitive_literal()?, column)
}

/// The same, as a scalar of the column's Arrow type. A required column must have a value.
pub(super) fn constant(field: &Field, task: &Task, schema: &Schema) -> Result<ScalarValue> {
    let id = field_id(field).unwrap_or_default();
    if let Some(column) = MetadataColumn::with_id(id) {
        let value = task.metadata(column, field.data_type())?;
        return value.map_or_else(|| null(field.data_type()), Ok);
    }
    let missing = || {
        Error::new(Code::DataFileCorrupt, "a data file lacks a required column")
            .with("column", field.name())
            .with("file", &task.object.location)
    };
    match absent(id, task, schema) {
        Some(value) => to_scalar(&value, field.data_type()).ok_or_else(missing),
        None if !field.is_nullable() => Err(missing()),
        None => null(field.data_type()),
    }
}

fn null(data_type: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_new_null(data_type).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

fn is_int96(footer: &Footer, root: usize) -> bool {
    let schema = footer.metadata.file_metadata().schema_descr();
    let leaf = schema.columns().iter().enumerate().find(|(leaf, _)| schema.get_column_root_idx(*leaf) == root);
    leaf.is_some_and(|(_, column)| column.physical_type() == parquet::basic::Type::INT96)
}

/// The type that the Parquet reader should decode a stored column to, so that no cast is left where none is needed:
/// views for strings and binary, the table's zone and unit for timestamps.
fn hint(stored: &Field, table: &Field) -> Field {
    let hinted = hint_type(stored.data_type(), table.data_type());
    stored.clone().with_data_type(hinted)
}

fn hint_type(stored: &DataType, table: &DataType) -> DataType {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, List, Map, Struct, Timestamp, Utf8, Utf8View};
    match (stored, table) {
        (Utf8, Utf8View | LargeUtf8) | (Binary, BinaryView | LargeBinary | Utf8View) => table.clone(),
        (Timestamp(from, _), Timestamp(to, Some(_))) if from == to => table.clone(),
        (Struct(fields), Struct(wanted)) => {
            let hinted = fields.iter().map(|field| match by_id(wanted, field_id(field)) {
                Some((_, table)) => hint(field, table),
                None => field.as_ref().clone(),
            });
            Struct(hinted.collect())
        }
        (List(element), List(wanted)) => List(Arc::new(hint(element, wanted))),
        (Map(entries, sorted), Map(wanted, _)) => {
            let (Struct(stored), Struct(table)) = (entries.data_type(), wanted.data_type()) else {
                return Map(Arc::clone(entries), *sorted);
            };
            // Key and value are matched by place: other writers' maps may lack ids on them.
            let hinted: Fields = stored.iter().zip(table).map(|(stored, table)| hint(stored, table)).collect();
            Map(Arc::new(entries.as_ref().clone().with_data_type(Struct(hinted))), *sorted)
        }
        _ => stored.clone(),
    }
}

fn by_id(fields: &Fields, id: Option<i32>) -> Option<(usize, &FieldRef)> {
    let id = id?;
    fields.iter().enumerate().find(|(_, field)| field_id(field) == Some(id))
}

/// How an array of a stored type becomes one of the table's type.
#[derive(Debug)]
enum Adapt {
    Same,
    Cast(DataType),
    Struct(Fields, Vec<Child>),
    List(FieldRef, Box<Adapt>),
    Map { entries: FieldRef, sorted: bool, fields: Fields, key: Box<Adapt>, value: Box<Adapt> },
}

#[derive(Debug)]
enum Child {
    Stored(usize, Adapt),
    Absent(ScalarValue),
}

impl Adapt {
    fn new(stored: &Field, table: &Field, schema: &Schema) -> Result<Self> {
        use DataType::{List, Map, Struct};
        let refused = || {
            Error::new(Code::DataFileCorrupt, "a column is stored as a type that the table's type can't be read from")
                .with("column", table.name())
                .with("stored", stored.data_type())
                .with("table", table.data_type())
        };
        match (stored.data_type(), table.data_type()) {
            (from, to) if from == to => Ok(Adapt::Same),
            (Struct(from), Struct(to)) => {
                let children = to.iter().map(|field| match by_id(from, field_id(field)) {
                    Some((at, stored)) => Ok(Child::Stored(at, Adapt::new(stored, field, schema)?)),
                    None => Ok(Child::Absent(nested_default(field, schema)?)),
                });
                Ok(Adapt::Struct(to.clone(), children.collect::<Result<_>>()?))
            }
            (List(from), List(to)) => Ok(Adapt::List(Arc::clone(to), Box::new(Adapt::new(from, to, schema)?))),
            (Map(from, _), Map(entries, sorted)) => {
                let (Struct(from), Struct(fields)) = (from.data_type(), entries.data_type()) else {
                    return Err(refused());
                };
                let ([from_key, from_value], [key, value]) = (from.as_ref(), fields.as_ref()) else {
                    return Err(refused());
                };
                Ok(Adapt::Map {
                    entries: Arc::clone(entries),
                    sorted: *sorted,
                    fields: fields.clone(),
                    key: Box::new(Adapt::new(from_key, key, schema)?),
                    value: Box::new(Adapt::new(from_value, value, schema)?),
                })
            }
            (from, to) if castable(from, to) => Ok(Adapt::Cast(to.clone())),
            _ => Err(refused()),
        }
    }

    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Adapt::Same => Ok(Arc::clone(array)),
            Adapt::Cast(to) => cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() }),
            Adapt::Struct(fields, children) => {
                let stored = array.as_struct();
                let children = children.iter().map(|child| match child {
                    Child::Stored(at, adapt) => adapt.apply(stored.column(*at)),
                    Child::Absent(value) => {
                        value.to_array_of_size(stored.len()).map_err(|e| ArrowError::ExternalError(Box::new(e)))
                    }
                });
                let children = children.collect::<Result<_, _>>()?;
                let nulls = stored.nulls().cloned();
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, stored.len())?))
            }
            Adapt::List(element, adapt) => {
                let stored: &ListArray = array.as_list();
                let values = adapt.apply(stored.values())?;
                let (offsets, nulls) = (stored.offsets().clone(), stored.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
            }
            Adapt::Map { entries, sorted, fields, key, value } => {
                let stored = array.as_map();
                let columns = vec![key.apply(stored.keys())?, value.apply(stored.values())?];
                let pairs = StructArray::try_new(fields.clone(), columns, None)?;
                let (offsets, nulls) = (stored.offsets().clone(), stored.nulls().cloned());
                Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?))
            }
        }
    }
}

/// Promotions of the Iceberg specification ("Schema Evolution"), and other encodings of the same values. Each keeps every
/// value; what could lose one isn't here.
fn castable(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeUtf8, Timestamp, Utf8, Utf8View,
    };
    match (from, to) {
        (Int8 | Int16, Int32 | Int64) | (Int32, Int64) | (Float32, Float64) => true,
        (Decimal128(p, s), Decimal128(wider, scale)) => s == scale && p <= wider,
        (Date32, Timestamp(_, None)) => true,
        (Utf8 | LargeUtf8, Utf8View) | (LargeUtf8, Utf8) => true,
        (Binary | LargeBinary | FixedSizeBinary(_), BinaryView) | (Binary | FixedSizeBinary(_), LargeBinary) => true,
        (Timestamp(TimeUnit::Millisecond, _), Timestamp(TimeUnit::Microsecond, _)) => true,
        (Timestamp(from, _), Timestamp(to, None)) => from == to,
        _ => false,
    }
}

/// The default of a field that was added inside a column after the file was written.
fn nested_default(field: &Field, schema: &Schema) -> Result<ScalarValue> {
    let value = field_id(field).and_then(|id| {
        let default = schema.field_by_id(id)?.initial_default.as_ref()?;
        Value::from_literal(&default.as_primitive_literal()?, primitive(schema, id)?)
    });
    match value {
        Some(value) => to_scalar(&value, field.data_type()).ok_or_else(|| {
            Error::new(Code::MetadataCorrupt, "a default does not fit its column's type").with("column", field.name())
        }),
        None => null(field.data_type()),
    }
}
