//! Which one schema holds what several files hold, and how do a file's batches become batches of it?
//!
//! Columns and nested fields go together by name; what a file lacks is null. Types go together where one holds every
//! value of the other: `int` and `long`, `float` and `double`, the string types, seconds and nanoseconds.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use crate::error::{Code, Error, Result};
use crate::input::column::Column;
use crate::input::source::Source;
use crate::input::types::Type;

/// The schema of all of `schemas`, each with the file or format that has it. Columns that are only ever null are left
/// out.
///
/// Errors: `iceberg_schema_incompatible` for a column whose types don't go together.
pub(super) fn union<'s>(schemas: impl IntoIterator<Item = (&'s str, &'s Schema)>) -> Result<Schema> {
    let mut fields: Vec<(Field, &str, usize)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut count = 0;
    for (name, schema) in schemas {
        count += 1;
        for field in schema.fields() {
            let Some((known, from, seen)) = index.get(field.name().as_str()).and_then(|at| fields.get_mut(*at)) else {
                index.insert(field.name(), fields.len());
                let plain = Field::new(field.name(), plain(field.data_type()), field.is_nullable());
                fields.push((plain.with_metadata(extension(field)), name, 1));
                continue;
            };
            let theirs = plain(field.data_type());
            let Some(both) = widen(known.data_type(), &theirs) else {
                return Err(Error::new(
                    Code::IcebergSchemaIncompatible,
                    "input files disagree on the type of a column",
                )
                .with("path", field.name())
                .with("file", name)
                .with("type", theirs)
                .with("other file", *from)
                .with("other type", known.data_type())
                .help("export them one after the other, or convert one in a query"));
            };
            *seen += 1;
            *known = known.clone().with_data_type(both).with_nullable(known.is_nullable() || field.is_nullable());
        }
    }
    let fields = fields.into_iter().filter(|(field, ..)| *field.data_type() != DataType::Null);
    let fields = fields.map(|(field, _, seen)| {
        let nullable = field.is_nullable() || seen < count;
        field.with_nullable(nullable)
    });
    Ok(Schema::new(fields.collect::<Fields>()))
}

/// The type a file's column takes where `rule` is its type in the table: the table's numbers where they hold every
/// value, in nested fields too; elsewhere its own, for the table to accept or refuse.
pub(super) fn ruled(own: &DataType, rule: &DataType) -> DataType {
    let numeric = |ty: &DataType| ty.is_integer() || ty.is_floating();
    match (own, rule) {
        (DataType::Null, _) => rule.clone(),
        (DataType::Struct(own), DataType::Struct(rule)) => {
            let field = |field: &FieldRef| match rule.find(field.name()) {
                Some((_, by)) => with_type(field, ruled(field.data_type(), by.data_type())),
                None => Arc::clone(field),
            };
            DataType::Struct(own.iter().map(field).collect())
        }
        (DataType::List(own), DataType::List(rule) | DataType::LargeList(rule)) => {
            DataType::List(with_type(own, ruled(own.data_type(), rule.data_type())))
        }
        _ if numeric(own) && numeric(rule) && widen(own, rule).as_ref() == Some(rule) => rule.clone(),
        _ => own.clone(),
    }
}

/// How batches of one schema become batches of another.
#[derive(Debug)]
pub(super) struct Fit {
    target: SchemaRef,
    /// For each field of the target, its position in the batches.
    columns: Vec<Option<usize>>,
}

impl Fit {
    pub(super) fn new(own: &Schema, target: SchemaRef) -> Self {
        let columns = target.fields().iter().map(|field| own.index_of(field.name()).ok()).collect();
        Fit { target, columns }
    }

    /// The batch with the target's columns. `first` is the number of its first row, from 1, for errors.
    ///
    /// Errors: `input_value_invalid` for a value that the target's type can't hold.
    pub(super) fn apply(&self, batch: &RecordBatch, source: &Source, first: u64) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (field, at) in self.target.fields().iter().zip(&self.columns) {
            let array = match at.and_then(|at| batch.columns().get(at)) {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some(array) if is_text(array.data_type()) && is_time(field.data_type()) => {
                    parse(array, field, source, first)?
                }
                Some(array) => adapt(array, field.data_type()).map_err(|e| {
                    Error::new(Code::InputValueInvalid, "a value does not fit the column's type")
                        .with("path", field.name())
                        .with("file", source.shown())
                        .with("row", format!("{first} to {}", first + batch.num_rows() as u64 - 1))
                        .with("reason", &e)
                        .source(e)
                })?,
            };
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.target), arrays, &options).map_err(|e| {
            Error::new(Code::InputCorrupt, "the file's values contradict its schema")
                .with("file", source.shown())
                .with("reason", &e)
                .source(e)
        })
    }
}

/// Whether values are texts, also in a dictionary.
pub(super) fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, value) => is_text(value),
        _ => ty.is_string(),
    }
}

fn is_time(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(..) | DataType::Date32)
}

/// Texts as timestamps.
fn parse(array: &ArrayRef, field: &Field, source: &Source, first: u64) -> Result<ArrayRef> {
    let internal = |e: ArrowError| Error::new(Code::Internal, "texts could not be read as strings").source(e);
    let texts = cast(array, &DataType::LargeUtf8).map_err(internal)?;
    let ty = Type::of(field.data_type()).ok_or_else(|| Error::new(Code::Internal, "no timestamp type"))?;
    let mut column = Column::new(field.name().clone(), &ty)?;
    for (row, text) in texts.as_string::<i64>().iter().enumerate() {
        match text {
            None => column.append_nulls(1),
            // As in JSON, an empty text is no timestamp.
            Some("") => {
                return Err(crate::input::zones::refused(field.name(), "", "an empty text")
                    .with("file", source.shown())
                    .with("row", first + row as u64));
            }
            Some(text) => {
                column.append_field(text).map_err(|e| e.with("file", source.shown()).with("row", first + row as u64))?
            }
        }
    }
    let array = column.finish()?;
    cast(&array, field.data_type()).map_err(internal)
}

fn adapt(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = array.as_struct();
            let child = |field: &FieldRef| match array.column_by_name(field.name()) {
                Some(child) => adapt(child, field.data_type()),
                None => Ok(new_null_array(field.data_type(), array.len())),
            };
            let children = fields.iter().map(child).collect::<Result<_, _>>()?;
            let adapted =
                StructArray::try_new_with_length(fields.clone(), children, array.nulls().cloned(), array.len())?;
            Ok(Arc::new(adapted))
        }
        (DataType::List(_), DataType::List(item)) => {
            let array = array.as_list::<i32>();
            let items = adapt(array.values(), item.data_type())?;
            let adapted = ListArray::try_new(Arc::clone(item), array.offsets().clone(), items, array.nulls().cloned())?;
            Ok(Arc::new(adapted))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let array = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map without entries".into()));
            };
            // Keys and values go by position: files name them differently.
            let children = fields.iter().zip(array.entries().columns());
            let children = children.map(|(field, child)| adapt(child, field.data_type())).collect::<Result<_, _>>()?;
            let inner = StructArray::try_new(fields.clone(), children, None)?;
            let nulls = array.nulls().cloned();
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), array.offsets().clone(), inner, nulls, *sorted)?))
        }
        _ => cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}

fn with_type(field: &Field, ty: DataType) -> FieldRef {
    Arc::new(field.clone().with_data_type(ty))
}

/// Without dictionaries, run-length encoding and the field ids of another table.
pub(super) fn plain(ty: &DataType) -> DataType {
    let field = |field: &Field| {
        let plain = Field::new(field.name(), plain(field.data_type()), field.is_nullable());
        Arc::new(plain.with_metadata(extension(field)))
    };
    match ty {
        DataType::Dictionary(_, value) => plain(value),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|f| field(f)).collect()),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, n) => DataType::FixedSizeList(field(item), *n),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        _ => ty.clone(),
    }
}

/// The part of a field's metadata that is about its type.
fn extension(field: &Field) -> HashMap<String, String> {
    let about = field.metadata().iter().filter(|(key, _)| key.starts_with("ARROW:extension:"));
    about.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The type that holds every value of both.
fn widen(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (a, b) {
        _ if a == b => a.clone(),
        (T::Null, other) | (other, T::Null) => other.clone(),
        _ if a.is_integer() && b.is_integer() => integer(a, b)?,
        _ if a.is_floating() && b.is_floating() => {
            if bits(a)? >= bits(b)? {
                a.clone()
            } else {
                b.clone()
            }
        }
        (int, T::Float64) | (T::Float64, int) if int.is_integer() && bits(int)? <= 32 => T::Float64,
        _ if a.is_string() && b.is_string() => {
            if *a == T::LargeUtf8 || *b == T::LargeUtf8 {
                T::LargeUtf8
            } else {
                T::Utf8
            }
        }
        (T::Binary | T::LargeBinary | T::BinaryView, T::Binary | T::LargeBinary | T::BinaryView) => T::LargeBinary,
        (T::Timestamp(x, zone), T::Timestamp(y, other)) if zone.is_some() == other.is_some() => {
            T::Timestamp(finer(x, y), zone.clone())
        }
        (T::Decimal128(p, s), T::Decimal128(q, t)) if s == t => T::Decimal128(*p.max(q), *s),
        (T::Struct(ours), T::Struct(theirs)) => T::Struct(widen_fields(ours, theirs)?),
        (T::List(x), T::List(y)) => T::List(widen_item(x, y)?),
        (T::LargeList(x), T::LargeList(y)) => T::LargeList(widen_item(x, y)?),
        (T::Map(x, sorted), T::Map(y, other)) => T::Map(widen_entries(x, y)?, *sorted && *other),
        _ => return None,
    })
}

fn widen_item(a: &FieldRef, b: &FieldRef) -> Option<FieldRef> {
    let both = with_type(a, widen(a.data_type(), b.data_type())?);
    Some(Arc::new(both.as_ref().clone().with_nullable(a.is_nullable() || b.is_nullable())))
}

fn widen_entries(a: &FieldRef, b: &FieldRef) -> Option<FieldRef> {
    let (DataType::Struct(ours), DataType::Struct(theirs)) = (a.data_type(), b.data_type()) else { return None };
    let fields = ours.iter().zip(theirs).map(|(x, y)| widen_item(x, y)).collect::<Option<Fields>>()?;
    Some(with_type(a, DataType::Struct(fields)))
}

fn widen_fields(ours: &Fields, theirs: &Fields) -> Option<Fields> {
    let optional = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut all = Vec::with_capacity(ours.len());
    for field in ours {
        all.push(match theirs.find(field.name()) {
            Some((_, other)) => widen_item(field, other)?,
            None => optional(field),
        });
    }
    all.extend(theirs.iter().filter(|field| ours.find(field.name()).is_none()).map(optional));
    Some(all.into())
}

fn bits(ty: &DataType) -> Option<usize> {
    ty.primitive_width().map(|bytes| bytes * 8)
}

/// Of two integer types of unlike sign, the signed one needs a bit more than the unsigned one.
fn integer(a: &DataType, b: &DataType) -> Option<DataType> {
    let (x, y) = (bits(a)?, bits(b)?);
    if a.is_signed_integer() == b.is_signed_integer() {
        return Some(if x >= y { a.clone() } else { b.clone() });
    }
    let (signed, unsigned) = if a.is_signed_integer() { (x, y) } else { (y, x) };
    match signed.max(unsigned * 2) {
        16 => Some(DataType::Int16),
        32 => Some(DataType::Int32),
        64 => Some(DataType::Int64),
        _ => None,
    }
}

fn finer(a: &TimeUnit, b: &TimeUnit) -> TimeUnit {
    let rank = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { *a } else { *b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_widen_only_where_no_value_is_lost() {
        use DataType as T;
        let utc = |unit| T::Timestamp(unit, Some("UTC".into()));
        for (a, b, expected) in [
            (T::Int32, T::Int64, Some(T::Int64)),
            (T::Int8, T::UInt8, Some(T::Int16)),
            (T::Int64, T::UInt16, Some(T::Int64)),
            (T::Int8, T::UInt32, Some(T::Int64)),
            (T::Int64, T::UInt64, None),
            (T::Float32, T::Float64, Some(T::Float64)),
            (T::Int32, T::Float64, Some(T::Float64)),
            (T::Int64, T::Float64, None),
            (T::Int32, T::Float32, None),
            (T::Utf8View, T::Utf8, Some(T::Utf8)),
            (T::LargeUtf8, T::Utf8, Some(T::LargeUtf8)),
            (T::Utf8, T::Int64, None),
            (T::Null, T::Date32, Some(T::Date32)),
            (utc(TimeUnit::Millisecond), utc(TimeUnit::Microsecond), Some(utc(TimeUnit::Microsecond))),
            (utc(TimeUnit::Second), T::Timestamp(TimeUnit::Second, None), None),
            (T::Decimal128(9, 2), T::Decimal128(20, 2), Some(T::Decimal128(20, 2))),
            (T::Decimal128(9, 2), T::Decimal128(9, 3), None),
        ] {
            assert_eq!(widen(&a, &b), expected, "{a} {b}");
            assert_eq!(widen(&b, &a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_table_rules_numbers_it_can_hold() {
        use DataType as T;
        assert_eq!(ruled(&T::Int32, &T::Int64), T::Int64);
        assert_eq!(ruled(&T::Int64, &T::Int32), T::Int64);
        assert_eq!(ruled(&T::Utf8, &T::Int64), T::Utf8);
        let of = |ty| T::Struct(Fields::from(vec![Field::new("x", ty, true), Field::new("y", T::Utf8, true)]));
        let narrower = T::Struct(Fields::from(vec![Field::new("x", T::Float64, true)]));
        assert_eq!(ruled(&of(T::Float32), &narrower), of(T::Float64));
    }
}
