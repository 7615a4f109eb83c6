//! How does an array of a file's type become one of the table's?
//!
//! ```text
//!   int ─▶ long, float ─▶ double, decimal ─▶ wider, date ─▶ timestamp      promotions (table specification)
//!   uint32, ms, ns, text without an annotation, …                          other encodings of the same values
//!   struct {3 a, 4 b}  ─▶ struct {4 b, 5 c: its default}                   by field id
//! ```
//!
//! Each keeps every value: one that the table's type can't hold is an error and never another value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray};
use arrow::compute::{CastOptions, cast, cast_with_options, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use iceberg::spec::Schema;

use super::absent;
use crate::error::{Code, Error, Result};
use crate::schema::field_id;

/// What making a table's columns of a file's needs to know of both.
pub(super) struct Between<'a> {
    pub(super) schema: &'a Schema,
    /// Values of fields inside structs that the file's partition gives.
    pub(super) nested: &'a HashMap<i32, ScalarValue>,
    /// The file's columns were told apart by their place, which says nothing of fields inside structs.
    pub(super) by_place: bool,
}

/// How an array of a stored type becomes one of the table's type.
#[derive(Debug)]
pub(super) enum Adapt {
    Same,
    Cast(DataType),
    /// A time in a finer unit than the table's.
    Coarsen(i64, DataType),
    Struct(Fields, Vec<Child>),
    List(FieldRef, Box<Adapt>),
    Map {
        entries: FieldRef,
        sorted: bool,
        fields: Fields,
        key: Box<Adapt>,
        value: Box<Adapt>,
    },
}

#[derive(Debug)]
pub(super) enum Child {
    Stored(usize, Adapt),
    Absent(ScalarValue),
}

/// Why a column can't be made of what is stored: an error only for those who ask for the column.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    code: Code,
    what: &'static str,
    column: String,
    stored: String,
    table: String,
}

impl Refused {
    fn new(what: &'static str, stored: &Field, table: &Field) -> Self {
        Refused {
            code: Code::DataFileCorrupt,
            what,
            column: table.name().clone(),
            stored: stored.data_type().to_string(),
            table: table.data_type().to_string(),
        }
    }

    pub(super) fn error(&self) -> Error {
        Error::new(self.code, self.what)
            .with("column", &self.column)
            .with("stored", &self.stored)
            .with("table", &self.table)
    }
}

impl Adapt {
    pub(super) fn new(stored: &Field, table: &Field, between: &Between<'_>) -> Result<Self, Refused> {
        use DataType::{List, Map, Struct};
        let refused =
            || Refused::new("a column is stored as a type that the table's type can't be read from", stored, table);
        match (stored.data_type(), table.data_type()) {
            (from, to) if from == to && !holds_struct(from) => Ok(Adapt::Same),
            (Struct(_), Struct(_)) if between.by_place => Err(Refused {
                code: Code::NotSupported,
                ..Refused::new(
                    "fields inside a struct can't be told apart: the file has no field ids and the table no name mapping",
                    stored,
                    table,
                )
            }),
            (Struct(from), Struct(to)) => {
                let children = to.iter().map(|field| match by_id(from, field_id(field)) {
                    Some(at) => Ok(Child::Stored(at, Adapt::new(&from[at], field, between)?)),
                    None => {
                        let missing =
                            |_| Refused::new("a data file lacks a required field, or its default", stored, field);
                        absent::nested(field, between).map(Child::Absent).map_err(missing)
                    }
                });
                Ok(Adapt::Struct(to.clone(), children.collect::<Result<_, _>>()?))
            }
            (List(from), List(to)) => Ok(Adapt::List(Arc::clone(to), Box::new(Adapt::new(from, to, between)?))),
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
                    key: Box::new(Adapt::new(from_key, key, between)?),
                    value: Box::new(Adapt::new(from_value, value, between)?),
                })
            }
            (from, to) => match coarser(from, to) {
                Some(parts) => Ok(Adapt::Coarsen(parts, to.clone())),
                None if castable(from, to) => Ok(Adapt::Cast(to.clone())),
                None => Err(refused()),
            },
        }
    }

    pub(super) fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        match self {
            Adapt::Same => Ok(Arc::clone(array)),
            Adapt::Cast(to) => cast_with_options(array, to, &options),
            Adapt::Coarsen(parts, to) => {
                let fine = cast(array, &DataType::Int64)?;
                let exactly = |value: i64| match value % parts {
                    0 => Ok(value / parts),
                    _ => Err(ArrowError::CastError(format!("a stored time is finer than {to} can hold: {value}"))),
                };
                let coarse = fine.as_primitive::<Int64Type>().try_unary::<_, Int64Type, _>(exactly)?;
                cast_with_options(&coarse, to, &options)
            }
            Adapt::Struct(fields, children) => {
                let stored = array.as_struct();
                // The engine takes a field out of a struct without looking at the struct's own nulls.
                let hidden = stored.nulls().filter(|nulls| nulls.null_count() > 0);
                let hidden = hidden.map(|nulls| BooleanArray::new(!nulls.inner(), None));
                let shown = |child: &ArrayRef| match &hidden {
                    Some(hidden) => nullif(child, hidden),
                    None => Ok(Arc::clone(child)),
                };
                let children = children.iter().map(|child| match child {
                    Child::Stored(at, adapt) => adapt.apply(&shown(stored.column(*at))?),
                    Child::Absent(value) => {
                        let all = value.to_array_of_size(stored.len());
                        shown(&all.map_err(|e| ArrowError::ExternalError(Box::new(e)))?)
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

fn holds_struct(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) => true,
        DataType::List(element) => holds_struct(element.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.iter().any(|field| holds_struct(field.data_type())),
            _ => true,
        },
        _ => false,
    }
}

/// Promotions of the Iceberg specification ("Schema Evolution"), and other encodings of the same values. The cast is
/// checked, so what could lose a value of the wrong size fails where it would; what could change one isn't here.
fn castable(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Date32, Decimal128, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match (from, to) {
        (Int8 | Int16 | UInt8 | UInt16, Int32 | Int64) | (Int32, Int64) => true,
        (UInt32, Int32 | Int64) | (UInt64, Int64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        // A writer's precision may be larger than the table's; each value is checked.
        (Decimal128(_, s), Decimal128(_, scale)) => s == scale,
        (Date32, Timestamp(_, None)) => true,
        (Utf8 | LargeUtf8 | Binary | LargeBinary | BinaryView, Utf8View | Utf8 | LargeUtf8) => true,
        (Binary | LargeBinary | FixedSizeBinary(_) | Utf8, BinaryView | LargeBinary | Binary) => true,
        (Binary, FixedSizeBinary(_)) => true,
        (Time32(TimeUnit::Millisecond), Time64(_)) => true,
        (Timestamp(TimeUnit::Millisecond, _), Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _)) => true,
        (Timestamp(TimeUnit::Microsecond, _), Timestamp(TimeUnit::Nanosecond, _)) => true,
        (Timestamp(from, _), Timestamp(to, _)) => from == to,
        _ => false,
    }
}

/// How many of the stored unit are one of the table's, where the stored unit is finer.
fn coarser(from: &DataType, to: &DataType) -> Option<i64> {
    use DataType::{Time64, Timestamp};
    use TimeUnit::{Microsecond, Nanosecond};
    match (from, to) {
        (Timestamp(Nanosecond, _), Timestamp(Microsecond, _)) | (Time64(Nanosecond), Time64(Microsecond)) => Some(1000),
        _ => None,
    }
}

/// The type that the Parquet reader should decode a stored column to, so that no cast is left where none is needed:
/// views for strings and binary, the table's zone and unit for timestamps.
pub(super) fn hint(stored: &Field, table: &Field) -> Field {
    let hinted = hint_type(stored.data_type(), table.data_type());
    stored.clone().with_data_type(hinted)
}

fn hint_type(stored: &DataType, table: &DataType) -> DataType {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, List, Map, Struct, Timestamp, Utf8, Utf8View};
    match (stored, table) {
        (Utf8, Utf8View | LargeUtf8) | (Binary, BinaryView | LargeBinary) => table.clone(),
        // Not at once to text: the reader would not check that it is UTF-8.
        (Binary, Utf8View) => BinaryView,
        (Timestamp(from, _), Timestamp(to, Some(_))) if from == to => table.clone(),
        (Struct(fields), Struct(wanted)) => {
            let hinted = fields.iter().map(|field| match by_id(wanted, field_id(field)) {
                Some(at) => hint(field, &wanted[at]),
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

/// The place of the field with an id.
fn by_id(fields: &Fields, id: Option<i32>) -> Option<usize> {
    let id = id?;
    fields.iter().position(|field| field_id(field) == Some(id))
}
