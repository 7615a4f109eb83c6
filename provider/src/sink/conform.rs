//! Do the incoming rows fit the table, and what do they look like as its columns?
//!
//! ```text
//! input   ts: timestamp_ns, id: utf8view, n: int32      any order, any of the types that fit
//! table   id: string, n: long, ts: timestamptz, note    in the table's order; `note` is null
//! ```
//!
//! Columns are matched by name, nested fields too. A type is accepted if each of its values can be stored without loss;
//! where that depends on the value (nanoseconds as microseconds, a long as an int) the value is checked and refused with
//! its column's name. Nothing is dropped silently: a column that the table doesn't have is refused.

mod cast;
mod exec;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

pub(super) use self::exec::ConformExec;
use crate::error::{Code, Error, Result};

/// Turns batches of one schema into batches of the table's.
#[derive(Debug)]
pub(super) struct Conform {
    target: SchemaRef,
    /// For each column of the target: the input's column, or the value of one that is missing (length 1).
    sources: Vec<Source>,
}

#[derive(Clone, Debug)]
enum Source {
    Column(usize),
    Missing(Option<ArrayRef>),
}

impl Conform {
    /// Matches `input` to `target` by name. `defaults`: for each column of the target its write default (length 1).
    ///
    /// # Errors
    /// `iceberg_schema_incompatible` for a column that the table doesn't have, that stands there twice, or whose type
    /// can't be stored without loss; `iceberg_data_write_failed` for a required column that is missing.
    pub(super) fn try_new(input: &Schema, target: &SchemaRef, defaults: Vec<Option<ArrayRef>>) -> Result<Self> {
        let mut seen = HashSet::new();
        for field in input.fields() {
            if !seen.insert(field.name()) {
                return Err(Error::new(Code::IcebergSchemaIncompatible, "a column stands in the input twice")
                    .with("column", field.name()));
            }
        }
        check_extra(input.fields(), target.fields(), "")?;
        let sources = target
            .fields()
            .iter()
            .zip(defaults)
            .map(|(field, default)| match input.column_with_name(field.name()) {
                Some((index, from)) => {
                    check(from.data_type(), field.data_type(), field.name())?;
                    Ok(Source::Column(index))
                }
                None if field.is_nullable() || default.is_some() => Ok(Source::Missing(default)),
                None => Err(missing(field.name())),
            })
            .collect::<Result<_>>()?;
        Ok(Conform { target: Arc::clone(target), sources })
    }

    /// The schema of the batches it makes.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.target
    }

    /// The same rows as columns of the table.
    ///
    /// # Errors
    /// `iceberg_data_write_failed` with the column's path for a null in a required column (L8) and for a value that the
    /// column's type can't hold.
    pub(super) fn batch(&self, input: &RecordBatch) -> Result<RecordBatch> {
        let rows = input.num_rows();
        let columns = self
            .target
            .fields()
            .iter()
            .zip(&self.sources)
            .map(|(field, source)| match source {
                Source::Column(index) => {
                    let column = input.columns().get(*index).ok_or_else(|| missing(field.name()))?;
                    conform(column, field, field.name(), None)
                }
                Source::Missing(None) => Ok(new_null_array(field.data_type(), rows)),
                Source::Missing(Some(value)) => repeat(value, rows),
            })
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.target), columns, &options)
            .map_err(|e| Error::new(Code::IcebergDataWriteFailed, "rows don't fit the table's columns").source(e))
    }
}

fn missing(path: &str) -> Error {
    Error::new(Code::IcebergDataWriteFailed, "a required column is missing from the input").with("column", path)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_extra(input: &Fields, target: &Fields, path: &str) -> Result<()> {
    match input.iter().find(|f| target.find(f.name()).is_none()) {
        None => Ok(()),
        Some(extra) => Err(Error::new(Code::IcebergSchemaIncompatible, "the table has no such column")
            .with("column", joined(path, extra.name()))),
    }
}

/// Refuses a type that can't become `to`, before any row is read.
fn check(from: &DataType, to: &DataType, path: &str) -> Result<()> {
    match (from, to) {
        (DataType::Null, _) => Ok(()),
        (DataType::Struct(from), DataType::Struct(to)) => {
            check_extra(from, to, path)?;
            for field in to {
                match from.find(field.name()) {
                    Some((_, source)) => check(source.data_type(), field.data_type(), &joined(path, field.name()))?,
                    None if field.is_nullable() => {}
                    None => return Err(missing(&joined(path, field.name()))),
                }
            }
            Ok(())
        }
        (DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _), DataType::List(to)) => {
            check(from.data_type(), to.data_type(), &joined(path, "element"))
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => match (map_fields(from), map_fields(to)) {
            (Some((key, value)), Some((to_key, to_value))) => {
                check(key.data_type(), to_key.data_type(), &joined(path, "key"))?;
                check(value.data_type(), to_value.data_type(), &joined(path, "value"))
            }
            _ => {
                Err(incompatible(path, &DataType::Map(Arc::clone(from), false), &DataType::Map(Arc::clone(to), false)))
            }
        },
        _ if cast::rule(from, to).is_some() => Ok(()),
        _ => Err(incompatible(path, from, to)),
    }
}

fn incompatible(path: &str, from: &DataType, to: &DataType) -> Error {
    Error::new(Code::IcebergSchemaIncompatible, "the column's type can't be stored without loss")
        .with("column", path)
        .with("input", from)
        .with("table", to)
}

fn map_fields(entries: &Field) -> Option<(&Arc<Field>, &Arc<Field>)> {
    match entries.data_type() {
        DataType::Struct(fields) => Some((fields.first()?, fields.get(1)?)),
        _ => None,
    }
}

/// `array` as `field`'s type. `outer`: which of its slots exist at all; null slots of a parent hold no value.
fn conform(array: &ArrayRef, field: &Field, path: &str, outer: Option<&NullBuffer>) -> Result<ArrayRef> {
    let made = match field.data_type() {
        _ if array.data_type() == &DataType::Null => new_null_array(field.data_type(), array.len()),
        DataType::Struct(fields) => structs(array, fields, path, outer)?,
        DataType::List(element) => lists(array, element, path)?,
        DataType::Map(entries, sorted) => maps(array, entries, *sorted, path)?,
        to => cast::cast(array, to, path)?,
    };
    if !field.is_nullable() {
        require(&made, path, outer)?;
    }
    Ok(made)
}

/// Refuses nulls where the parent has a value (L8).
fn require(array: &ArrayRef, path: &str, outer: Option<&NullBuffer>) -> Result<()> {
    let nulls = match (array.logical_nulls(), outer) {
        (None, _) => 0,
        (Some(own), None) => own.null_count(),
        (Some(own), Some(outer)) => outer.iter().zip(own.iter()).filter(|(parent, own)| *parent && !own).count(),
    };
    if nulls == 0 {
        return Ok(());
    }
    // @spec L8
    Err(Error::new(Code::IcebergDataWriteFailed, "a required column holds null")
        .with("column", path)
        .with("rows", nulls)
        .help("correct these rows, or leave them out: --query \"SELECT … WHERE column IS NOT NULL\""))
}

fn structs(array: &ArrayRef, fields: &Fields, path: &str, outer: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(source) = array.as_struct_opt() else {
        return Err(incompatible(path, array.data_type(), &DataType::Struct(fields.clone())));
    };
    let exists = NullBuffer::union(outer, source.nulls());
    let children = fields
        .iter()
        .map(|field| match source.column_by_name(field.name()) {
            Some(child) => conform(child, field, &joined(path, field.name()), exists.as_ref()),
            None => Ok(new_null_array(field.data_type(), source.len())),
        })
        .collect::<Result<Vec<_>>>()?;
    let made = if children.is_empty() {
        StructArray::new_empty_fields(source.len(), source.nulls().cloned())
    } else {
        StructArray::try_new(fields.clone(), children, exists).map_err(|e| bad_shape(path, e))?
    };
    Ok(Arc::new(made))
}

fn lists(array: &ArrayRef, element: &Arc<Field>, path: &str) -> Result<ArrayRef> {
    let plain = match array.data_type() {
        DataType::List(_) => Arc::clone(array),
        DataType::LargeList(f) | DataType::FixedSizeList(f, _) => {
            cast_with_options(array, &DataType::List(Arc::clone(f)), &cast::STRICT).map_err(|e| bad_shape(path, e))?
        }
        other => return Err(incompatible(path, other, &DataType::List(Arc::clone(element)))),
    };
    let list = plain.as_list::<i32>();
    let (from, length, offsets) = window(list.offsets());
    let values = conform(&list.values().slice(from, length), element, &joined(path, "element"), None)?;
    ListArray::try_new(Arc::clone(element), offsets, values, list.nulls().cloned())
        .map(|l| Arc::new(l) as ArrayRef)
        .map_err(|e| bad_shape(path, e))
}

fn maps(array: &ArrayRef, entries: &Arc<Field>, sorted: bool, path: &str) -> Result<ArrayRef> {
    let wrong = || incompatible(path, array.data_type(), &DataType::Map(Arc::clone(entries), sorted));
    let (Some(map), Some((key, value))) = (array.as_map_opt(), map_fields(entries)) else { return Err(wrong()) };
    let (from, length, offsets) = window(map.offsets());
    let keys = conform(&map.keys().slice(from, length), key, &joined(path, "key"), None)?;
    let values = conform(&map.values().slice(from, length), value, &joined(path, "value"), None)?;
    let fields = Fields::from(vec![Arc::clone(key), Arc::clone(value)]);
    let pairs = StructArray::try_new(fields, vec![keys, values], None).map_err(|e| bad_shape(path, e))?;
    MapArray::try_new(Arc::clone(entries), offsets, pairs, map.nulls().cloned(), sorted)
        .map(|m| Arc::new(m) as ArrayRef)
        .map_err(|e| bad_shape(path, e))
}

/// The part of the values that these offsets use, and offsets into that part: a slice of a batch keeps all of its
/// parent's values.
fn window(offsets: &OffsetBuffer<i32>) -> (usize, usize, OffsetBuffer<i32>) {
    let (from, to) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let lengths = offsets.windows(2).map(|ends| match ends {
        [a, b] => (b - a) as usize,
        _ => 0,
    });
    (from as usize, (to - from) as usize, OffsetBuffer::from_lengths(lengths))
}

fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let zeros = arrow::array::UInt32Array::from(vec![0; rows]);
    arrow::compute::take(value, &zeros, None).map_err(|e| bad_shape("", e))
}

fn bad_shape(path: &str, source: arrow::error::ArrowError) -> Error {
    Error::new(Code::IcebergDataWriteFailed, "a column's values don't fit the table")
        .with("column", path)
        .source(source)
}

#[cfg(test)]
mod tests;
