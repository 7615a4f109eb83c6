//! How do parsed values become an Arrow array of a given type?
//!
//! A [`Column`] is a tree of builders that mirrors its [`Type`]. Nulls are owed until the next value or the end, so a
//! sparse field costs nothing in the rows that lack it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int32Builder, Int64Builder, ListArray, MapArray, NullBufferBuilder, StringBuilder,
    StructArray, Time64MicrosecondBuilder, TimestampMicrosecondBuilder, TimestampNanosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;

use crate::error::{Code, Error, Result};
use crate::input::json::tape::{Items, Kind, Members, Tape, Value};
use crate::input::json::{canonical, path};
use crate::input::refusal::{clash, describe, invalid, shorten};
use crate::input::types::{self, Named, Type, Unit};
use crate::input::{number, stamp};

/// Builds one column, or one nested field.
#[derive(Debug)]
pub(super) struct Column {
    path: String,
    ty: Type,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    Boolean(BooleanBuilder),
    Int(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder),
    /// Text and JSON text.
    Text(StringBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Micros(TimestampMicrosecondBuilder),
    Nanos(TimestampNanosecondBuilder),
    /// UUIDs and bytes of one length.
    Fixed(FixedSizeBinaryBuilder, usize),
    Binary(BinaryBuilder),
    Struct(Record, NullBufferBuilder),
    List(Box<Column>, Runs),
    Map(StringBuilder, Box<Column>, Runs),
}

impl Column {
    /// An empty column of type `ty`, called `path` in errors.
    pub(super) fn new(path: String, ty: &Type) -> Result<Self> {
        let cells = match ty {
            Type::Boolean => Cells::Boolean(BooleanBuilder::new()),
            Type::Int => Cells::Int(Int32Builder::new()),
            Type::Long => Cells::Long(Int64Builder::new()),
            Type::Float => Cells::Float(Float32Builder::new()),
            Type::Double => Cells::Double(Float64Builder::new()),
            Type::Decimal { .. } => Cells::Decimal(Decimal128Builder::new().with_data_type(ty.arrow())),
            Type::Text | Type::Json => Cells::Text(StringBuilder::new()),
            Type::Date => Cells::Date(Date32Builder::new()),
            Type::Time => Cells::Time(Time64MicrosecondBuilder::new()),
            Type::Timestamp { unit: Unit::Micros, .. } => {
                Cells::Micros(TimestampMicrosecondBuilder::new().with_data_type(ty.arrow()))
            }
            Type::Timestamp { unit: Unit::Nanos, .. } => {
                Cells::Nanos(TimestampNanosecondBuilder::new().with_data_type(ty.arrow()))
            }
            Type::Uuid => Cells::Fixed(FixedSizeBinaryBuilder::new(16), 16),
            Type::Fixed(n) => Cells::Fixed(FixedSizeBinaryBuilder::new(*n), usize::try_from(*n).unwrap_or_default()),
            Type::Binary => Cells::Binary(BinaryBuilder::new()),
            Type::Struct(fields) => Cells::Struct(Record::new(Some(&path), fields)?, NullBufferBuilder::new(0)),
            Type::List(item) => Cells::List(Box::new(Column::new(path::item(&path), item)?), Runs::default()),
            Type::Map(value) => {
                let values = Box::new(Column::new(path::value(&path), value)?);
                Cells::Map(StringBuilder::new(), values, Runs::default())
            }
        };
        Ok(Column { path, ty: ty.clone(), cells })
    }

    /// Appends one JSON value.
    ///
    /// Errors, with the path: `iceberg_schema_incompatible` for a value of another kind, `input_value_invalid` for one
    /// that the type can't hold.
    pub(super) fn append(&mut self, value: Value<'_>) -> Result<()> {
        let kind = value.kind();
        if matches!(kind, Kind::Null) {
            self.append_nulls(1);
            return Ok(());
        }
        match (&mut self.cells, kind) {
            (Cells::Text(cells), _) if self.ty == Type::Json => {
                let mut text = String::new();
                canonical::write(value, &mut text);
                cells.append_value(text);
            }
            (Cells::Boolean(cells), Kind::Bool(value)) => cells.append_value(value),
            (Cells::Int(_) | Cells::Long(_), Kind::Int(text))
            | (Cells::Float(_) | Cells::Double(_), Kind::Int(text) | Kind::Float(text))
            | (Cells::Decimal(_), Kind::Int(text) | Kind::Float(text) | Kind::Text(text))
            | (
                Cells::Text(_)
                | Cells::Date(_)
                | Cells::Time(_)
                | Cells::Micros(_)
                | Cells::Nanos(_)
                | Cells::Fixed(..)
                | Cells::Binary(_),
                Kind::Text(text),
            ) => return self.append_scalar(text),
            (Cells::Struct(record, valid), Kind::Object(members)) => {
                record.append(members)?;
                valid.append_non_null();
            }
            (Cells::List(items, runs), Kind::List(list)) => {
                runs.valid(append_items(items, list)?);
            }
            (Cells::Map(keys, values, runs), Kind::Object(members)) => {
                runs.valid(append_entries(keys, values, members)?);
            }
            (_, kind) => return Err(clash(&self.path, &self.ty.name(), describe(&kind))),
        }
        Ok(())
    }

    /// Appends the text of a CSV field; an empty one is null.
    ///
    /// Errors, with the path: `iceberg_schema_incompatible` for a text that is of another kind, `input_value_invalid`
    /// for one that the type can't hold.
    pub(super) fn append_field(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            self.append_nulls(1);
            return Ok(());
        }
        match &mut self.cells {
            Cells::Text(cells) if self.ty == Type::Json => {
                let mut tape = Tape::default();
                let value = tape.parse(text).map_err(|wrong| invalid(&self.path, &self.ty, text, &wrong.what))?;
                let mut canonical = String::new();
                canonical::write(value, &mut canonical);
                cells.append_value(canonical);
                Ok(())
            }
            Cells::Boolean(cells) if text.eq_ignore_ascii_case("true") => {
                cells.append_value(true);
                Ok(())
            }
            Cells::Boolean(cells) if text.eq_ignore_ascii_case("false") => {
                cells.append_value(false);
                Ok(())
            }
            Cells::Boolean(_) | Cells::Struct(..) | Cells::List(..) | Cells::Map(..) => {
                Err(clash(&self.path, &self.ty.name(), "text").with("value", shorten(text)))
            }
            _ => self.append_scalar(text),
        }
    }

    /// Appends `n` nulls.
    pub(super) fn append_nulls(&mut self, n: usize) {
        match &mut self.cells {
            Cells::Boolean(cells) => cells.append_nulls(n),
            Cells::Int(cells) => cells.append_nulls(n),
            Cells::Long(cells) => cells.append_nulls(n),
            Cells::Float(cells) => cells.append_nulls(n),
            Cells::Double(cells) => cells.append_nulls(n),
            Cells::Decimal(cells) => cells.append_nulls(n),
            Cells::Text(cells) => (0..n).for_each(|_| cells.append_null()),
            Cells::Date(cells) => cells.append_nulls(n),
            Cells::Time(cells) => cells.append_nulls(n),
            Cells::Micros(cells) => cells.append_nulls(n),
            Cells::Nanos(cells) => cells.append_nulls(n),
            Cells::Fixed(cells, _) => (0..n).for_each(|_| cells.append_null()),
            Cells::Binary(cells) => (0..n).for_each(|_| cells.append_null()),
            Cells::Struct(record, valid) => {
                record.rows += n;
                valid.append_n_nulls(n);
            }
            Cells::List(_, runs) | Cells::Map(_, _, runs) => runs.nulls(n),
        }
    }

    /// Appends the nulls that are owed before row `rows`.
    pub(super) fn pad(&mut self, rows: usize) {
        let owed = rows.saturating_sub(self.len());
        if owed > 0 {
            self.append_nulls(owed);
        }
    }

    /// Rows appended since the last [`Column::finish`].
    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Boolean(cells) => cells.len(),
            Cells::Int(cells) => cells.len(),
            Cells::Long(cells) => cells.len(),
            Cells::Float(cells) => cells.len(),
            Cells::Double(cells) => cells.len(),
            Cells::Decimal(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            Cells::Date(cells) => cells.len(),
            Cells::Time(cells) => cells.len(),
            Cells::Micros(cells) => cells.len(),
            Cells::Nanos(cells) => cells.len(),
            Cells::Fixed(cells, _) => cells.len(),
            Cells::Binary(cells) => cells.len(),
            Cells::Struct(record, _) => record.rows,
            Cells::List(_, runs) | Cells::Map(_, _, runs) => runs.ends.len(),
        }
    }

    /// The array of all rows appended; the column is empty afterwards.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let failed = |e: ArrowError| Error::new(Code::Internal, "an array could not be built").source(e);
        Ok(match &mut self.cells {
            Cells::Boolean(cells) => Arc::new(cells.finish()),
            Cells::Int(cells) => Arc::new(cells.finish()),
            Cells::Long(cells) => Arc::new(cells.finish()),
            Cells::Float(cells) => Arc::new(cells.finish()),
            Cells::Double(cells) => Arc::new(cells.finish()),
            Cells::Decimal(cells) => Arc::new(cells.finish()),
            Cells::Text(cells) => Arc::new(cells.finish()),
            Cells::Date(cells) => Arc::new(cells.finish()),
            Cells::Time(cells) => Arc::new(cells.finish()),
            Cells::Micros(cells) => Arc::new(cells.finish()),
            Cells::Nanos(cells) => Arc::new(cells.finish()),
            Cells::Fixed(cells, _) => Arc::new(cells.finish()),
            Cells::Binary(cells) => Arc::new(cells.finish()),
            Cells::Struct(record, valid) => {
                let rows = record.rows;
                let arrays = record.finish()?;
                let Type::Struct(fields) = &self.ty else { return Err(Error::new(Code::Internal, "not a struct")) };
                let fields = types::arrow_fields(fields);
                let array = StructArray::try_new_with_length(fields, arrays, valid.finish(), rows).map_err(failed)?;
                Arc::new(array)
            }
            Cells::List(items, runs) => {
                let Type::List(item) = &self.ty else { return Err(Error::new(Code::Internal, "not a list")) };
                let (offsets, valid) = runs.finish();
                let array =
                    ListArray::try_new(types::element(item), offsets, items.finish()?, valid).map_err(failed)?;
                Arc::new(array)
            }
            Cells::Map(keys, values, runs) => {
                let Type::Map(value) = &self.ty else { return Err(Error::new(Code::Internal, "not a map")) };
                let (offsets, valid) = runs.finish();
                let arrays: Vec<ArrayRef> = vec![Arc::new(keys.finish()), values.finish()?];
                let entries = StructArray::try_new(types::entry_fields(value), arrays, None).map_err(failed)?;
                let array = MapArray::try_new(types::entries(value), offsets, entries, valid, false).map_err(failed)?;
                Arc::new(array)
            }
        })
    }

    /// Appends a value that is written as `text`: a number, or a text.
    fn append_scalar(&mut self, text: &str) -> Result<()> {
        let refuse = |why: &str| invalid(&self.path, &self.ty, text, why);
        let kind = |found| clash(&self.path, &self.ty.name(), found).with("value", shorten(text));
        match &mut self.cells {
            Cells::Int(cells) => cells.append_value(integer(text, kind)?.parse().map_err(|_| refuse(BEYOND))?),
            Cells::Long(cells) => cells.append_value(integer(text, kind)?.parse().map_err(|_| refuse(BEYOND))?),
            Cells::Float(cells) => {
                let value: f32 = text.parse().map_err(|_| kind("text"))?;
                let exact = !is_integer(text) || number::exact_double(text) == Some(f64::from(value));
                if !exact || (value.is_infinite() && text.contains(|c: char| c.is_ascii_digit())) {
                    return Err(refuse("a float can't hold it exactly"));
                }
                cells.append_value(value);
            }
            Cells::Double(cells) => {
                let value: f64 = text.parse().map_err(|_| kind("text"))?;
                let exact = !is_integer(text) || number::exact_double(text).is_some();
                if !exact || (value.is_infinite() && text.contains(|c: char| c.is_ascii_digit())) {
                    return Err(refuse("a double can't hold it exactly"));
                }
                cells.append_value(value);
            }
            Cells::Decimal(cells) => {
                let Type::Decimal { precision, scale } = self.ty else { return Err(refuse("not a decimal")) };
                let value = number::decimal(text, precision, scale);
                cells.append_value(value.ok_or_else(|| refuse("the decimal can't hold it exactly"))?);
            }
            Cells::Text(cells) => cells.append_value(text),
            Cells::Date(cells) => cells.append_value(stamp::parse(text).and_then(|s| s.days()).map_err(refuse)?),
            Cells::Time(cells) => cells.append_value(stamp::time_micros(text).map_err(refuse)?),
            Cells::Micros(cells) => {
                let stamp = zoned_as(&self.ty, text).map_err(refuse)?;
                cells.append_value(stamp.micros().map_err(refuse)?);
            }
            Cells::Nanos(cells) => {
                let stamp = zoned_as(&self.ty, text).map_err(refuse)?;
                cells.append_value(stamp.nanos().map_err(refuse)?);
            }
            Cells::Fixed(cells, length) => {
                let bytes = if self.ty == Type::Uuid {
                    uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.into_bytes().to_vec())
                } else {
                    hexadecimal(text).filter(|bytes| bytes.len() == *length)
                };
                let bytes = bytes.ok_or_else(|| refuse("not written as its type is"))?;
                cells.append_value(bytes).map_err(|e| refuse("of another length").source(e))?;
            }
            Cells::Binary(cells) => {
                cells.append_value(hexadecimal(text).ok_or_else(|| refuse("not hexadecimal text"))?);
            }
            Cells::Boolean(_) | Cells::Struct(..) | Cells::List(..) | Cells::Map(..) => return Err(kind("text")),
        }
        Ok(())
    }
}

/// Builds the fields of a struct, or the columns of a batch.
#[derive(Debug)]
pub(super) struct Record {
    fields: Vec<Column>,
    index: HashMap<String, usize>,
    rows: usize,
}

impl Record {
    /// The fields of the struct at `path`, or of a row.
    pub(super) fn new(path: Option<&str>, fields: &[Named]) -> Result<Self> {
        let index = fields.iter().enumerate().map(|(i, field)| (field.name.clone(), i)).collect();
        let name = |field: &Named| path.map_or_else(|| field.name.clone(), |path| path::field(path, &field.name));
        let column = |field: &Named| Column::new(name(field), &field.ty);
        Ok(Record { fields: fields.iter().map(column).collect::<Result<_>>()?, index, rows: 0 })
    }

    /// Appends one row from an object. A member that is null or missing is null.
    ///
    /// Errors as [`Column::append`]; `input_corrupt` for a name that wasn't there when the types were found.
    pub(super) fn append(&mut self, members: Members<'_>) -> Result<()> {
        let mut expected = 0;
        for (name, value) in members {
            if value.is_null() {
                continue;
            }
            // Rows mostly have the same names in the same order.
            let at = match self.fields.get(expected) {
                Some(_) if self.index.get(name) == Some(&expected) => expected,
                _ => *self.index.get(name).ok_or_else(|| {
                    Error::new(Code::InputCorrupt, "the file changed while it was read").with("unknown name", name)
                })?,
            };
            expected = at + 1;
            if let Some(field) = self.fields.get_mut(at) {
                field.pad(self.rows);
                field.append(value)?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Appends one row of CSV fields, each with the column it belongs to.
    pub(super) fn append_fields<'f>(&mut self, fields: impl Iterator<Item = (usize, &'f str)>) -> Result<()> {
        for (at, text) in fields {
            if let Some(field) = self.fields.get_mut(at).filter(|_| !text.is_empty()) {
                field.pad(self.rows);
                field.append_field(text)?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Rows appended since the last [`Record::finish`].
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The arrays of all rows appended; the record is empty afterwards.
    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        let rows = std::mem::take(&mut self.rows);
        let finish = |field: &mut Column| {
            field.pad(rows);
            field.finish()
        };
        self.fields.iter_mut().map(finish).collect()
    }
}

/// Where the lists of a column end.
#[derive(Debug)]
struct Runs {
    ends: Vec<i32>,
    last: i32,
    valid: NullBufferBuilder,
}

impl Default for Runs {
    fn default() -> Self {
        Runs { ends: Vec::new(), last: 0, valid: NullBufferBuilder::new(0) }
    }
}

impl Runs {
    fn valid(&mut self, items: usize) {
        // Batches are cut by bytes long before 2³¹ items.
        self.last = self.last.saturating_add(i32::try_from(items).unwrap_or(i32::MAX));
        self.ends.push(self.last);
        self.valid.append_non_null();
    }

    fn nulls(&mut self, n: usize) {
        self.ends.resize(self.ends.len() + n, self.last);
        self.valid.append_n_nulls(n);
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Option<arrow::buffer::NullBuffer>) {
        let ends = std::mem::take(&mut self.ends);
        self.last = 0;
        let offsets: ScalarBuffer<i32> = std::iter::once(0).chain(ends).collect();
        (OffsetBuffer::new(offsets), self.valid.finish())
    }
}

fn append_items(items: &mut Column, list: Items<'_>) -> Result<usize> {
    let mut n = 0;
    for item in list {
        items.append(item)?;
        n += 1;
    }
    Ok(n)
}

fn append_entries(keys: &mut StringBuilder, values: &mut Column, members: Members<'_>) -> Result<usize> {
    let mut n = 0;
    for (name, value) in members {
        values.append(value)?;
        keys.append_value(name);
        n += 1;
    }
    Ok(n)
}

const BEYOND: &str = "beyond the range of its type";

fn integer(text: &str, kind: impl Fn(&'static str) -> Error) -> Result<&str> {
    if is_integer(text) {
        Ok(text)
    } else if text.parse::<f64>().is_ok() {
        Err(kind("a number with a fraction"))
    } else {
        Err(kind("text"))
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn zoned_as(ty: &Type, text: &str) -> Result<stamp::Stamp, stamp::Refusal> {
    let stamp = stamp::parse(text)?;
    match ty {
        Type::Timestamp { zoned: true, .. } if !stamp.zoned => Err("it has no zone, and the column's timestamps do"),
        Type::Timestamp { zoned: false, .. } if stamp.zoned => Err("it has a zone, and the column's timestamps don't"),
        _ => Ok(stamp),
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?)).collect()
}
