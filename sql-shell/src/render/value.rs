//! How is one value of any Arrow type written?
//!
//! ```text
//!                 table, csv, tsv      json, ndjson
//! bigint          42                   42
//! double          2.5  NaN             2.5  "NaN"
//! decimal(5,2)    1.50                 "1.50"
//! binary          c0ffee               "c0ffee"
//! text            say "hi"             "say \"hi\""
//! list, struct    [1,null]             [1,null]
//! ```
//!
//! A [`Values`] looks at the type once for a column of a batch and then writes row after row: the same text in every
//! format, as JSON where a value is nested. A null is the caller's to write, because every format has its own.

use std::fmt::{Debug, Write};
use std::rc::Rc;

use datafusion::arrow::array::{Array, ArrowPrimitiveType, AsArray, MapArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, LargeBinaryType,
    LargeUtf8Type, RunEndIndexType, StringViewType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Utf8Type,
};

use super::json;
use super::time::{self, Zone};

/// The values of one array, ready to be written.
pub(crate) struct Values<'a> {
    nulls: Option<NullBuffer>,
    text: Writer<'a>,
    json: Writer<'a>,
}

type Writer<'a> = Rc<dyn Fn(usize, &mut String) + 'a>;

impl<'a> Values<'a> {
    pub(crate) fn new(array: &'a dyn Array) -> Self {
        let (text, json) = writers(array);
        Values { nulls: array.logical_nulls(), text, json }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the text of a value; `false`, and nothing appended, for a null.
    pub(crate) fn text(&self, row: usize, out: &mut String) -> bool {
        let valid = !self.is_null(row);
        if valid {
            (self.text)(row, out);
        }
        valid
    }

    /// Appends a value as JSON, a null too.
    pub(crate) fn json(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            out.push_str("null");
        } else {
            (self.json)(row, out);
        }
    }
}

/// Whether values of this type line up at the right of a table's column.
pub(crate) fn is_numeric(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_numeric(values),
        DataType::RunEndEncoded(_, values) => is_numeric(values.data_type()),
        _ => kind.is_numeric(),
    }
}

/// What writes the valid values of an array as text and as JSON.
fn writers<'a>(array: &'a dyn Array) -> (Writer<'a>, Writer<'a>) {
    match array.data_type() {
        DataType::Null => bare(|_, _| {}),
        DataType::Boolean => {
            let array = array.as_boolean();
            bare(move |row, out| out.push_str(if array.value(row) { "true" } else { "false" }))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Float16 => floats::<Float16Type, f32>(array, |value| value.to_f32()),
        DataType::Float32 => floats::<Float32Type, f32>(array, |value| value),
        DataType::Float64 => floats::<Float64Type, f64>(array, |value| value),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Date32 => plain::<Date32Type>(array, |days, out| time::date(i64::from(days), out)),
        DataType::Date64 => plain::<Date64Type>(array, |ms, out| time::date(ms.div_euclid(86_400_000), out)),
        DataType::Timestamp(unit, zone) => timestamps(array, *unit, Zone::of(zone.as_deref())),
        DataType::Time32(unit) | DataType::Time64(unit) => times(array, *unit),
        DataType::Duration(unit) => durations(array, *unit),
        DataType::Interval(unit) => match unit {
            IntervalUnit::YearMonth => plain::<IntervalYearMonthType>(array, time::months),
            IntervalUnit::DayTime => plain::<IntervalDayTimeType>(array, time::day_time),
            IntervalUnit::MonthDayNano => plain::<IntervalMonthDayNanoType>(array, time::month_day_nano),
        },
        DataType::Utf8 => {
            let array = array.as_bytes::<Utf8Type>();
            strings(move |row| array.value(row))
        }
        DataType::LargeUtf8 => {
            let array = array.as_bytes::<LargeUtf8Type>();
            strings(move |row| array.value(row))
        }
        DataType::Utf8View => {
            let array = array.as_byte_view::<StringViewType>();
            strings(move |row| array.value(row))
        }
        DataType::Binary => bytes::<BinaryType>(array),
        DataType::LargeBinary => bytes::<LargeBinaryType>(array),
        DataType::BinaryView => byte_views::<BinaryViewType>(array),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            quoted(move |row, out| hex(array.value(row), out))
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::ListView(_) | DataType::LargeListView(_) => lists(array),
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            list_of(list.values(), move |row| {
                let start = index(list.value_offset(row));
                (start, start + index(list.value_length()))
            })
        }
        DataType::Struct(_) => structs(array),
        DataType::Map(..) => map(array.as_map()),
        DataType::Union(..) => unions(array),
        DataType::Dictionary(..) => dictionary(array),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array),
            DataType::Int32 => runs::<Int32Type>(array),
            _ => runs::<Int64Type>(array),
        },
    }
}

/// The same text in every format.
fn bare<'a>(write: impl Fn(usize, &mut String) + 'a) -> (Writer<'a>, Writer<'a>) {
    let write: Writer<'a> = Rc::new(write);
    (Rc::clone(&write), write)
}

/// Text that JSON puts between quotes and that needs no escapes.
fn quoted<'a>(write: impl Fn(usize, &mut String) + 'a) -> (Writer<'a>, Writer<'a>) {
    let text: Writer<'a> = Rc::new(write);
    let inner = Rc::clone(&text);
    let json = Rc::new(move |row, out: &mut String| {
        out.push('"');
        inner(row, out);
        out.push('"');
    });
    (text, json)
}

fn strings<'a>(value: impl Fn(usize) -> &'a str + Copy + 'a) -> (Writer<'a>, Writer<'a>) {
    (
        Rc::new(move |row, out: &mut String| out.push_str(value(row))),
        Rc::new(move |row, out: &mut String| json::string(value(row), out)),
    )
}

fn integers<T: ArrowPrimitiveType>(array: &dyn Array) -> (Writer<'_>, Writer<'_>)
where
    T::Native: std::fmt::Display,
{
    let array = array.as_primitive::<T>();
    bare(move |row, out| {
        let _ = write!(out, "{}", array.value(row));
    })
}

/// The shortest digits that read back as the same value; what is no number is text to JSON.
fn floats<'a, T: ArrowPrimitiveType, F: Debug + Into<f64> + Copy>(
    array: &'a dyn Array,
    widen: impl Fn(T::Native) -> F + Copy + 'a,
) -> (Writer<'a>, Writer<'a>) {
    let array = array.as_primitive::<T>();
    let text = move |row, out: &mut String| {
        let value = widen(array.value(row));
        match value.into() {
            wide if wide.is_nan() => out.push_str("NaN"),
            f64::INFINITY => out.push_str("Infinity"),
            f64::NEG_INFINITY => out.push_str("-Infinity"),
            _ => {
                let _ = write!(out, "{value:?}");
            }
        }
    };
    let json = move |row, out: &mut String| {
        if widen(array.value(row)).into().is_finite() {
            text(row, out);
        } else {
            out.push('"');
            text(row, out);
            out.push('"');
        }
    };
    (Rc::new(text), Rc::new(json))
}

fn decimals<T: DecimalType + ArrowPrimitiveType>(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_primitive::<T>();
    quoted(move |row, out| out.push_str(&array.value_as_string(row)))
}

fn plain<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    write: impl Fn(T::Native, &mut String) + 'a,
) -> (Writer<'a>, Writer<'a>) {
    let array = array.as_primitive::<T>();
    quoted(move |row, out| write(array.value(row), out))
}

fn timestamps(array: &dyn Array, unit: TimeUnit, zone: Zone) -> (Writer<'_>, Writer<'_>) {
    let write = move |value, out: &mut String| time::timestamp(value, unit, zone, out);
    match unit {
        TimeUnit::Second => plain::<TimestampSecondType>(array, write),
        TimeUnit::Millisecond => plain::<TimestampMillisecondType>(array, write),
        TimeUnit::Microsecond => plain::<TimestampMicrosecondType>(array, write),
        TimeUnit::Nanosecond => plain::<TimestampNanosecondType>(array, write),
    }
}

fn times(array: &dyn Array, unit: TimeUnit) -> (Writer<'_>, Writer<'_>) {
    let short = move |value: i32, out: &mut String| time::time(i64::from(value), unit, out);
    let long = move |value: i64, out: &mut String| time::time(value, unit, out);
    match unit {
        TimeUnit::Second => plain::<Time32SecondType>(array, short),
        TimeUnit::Millisecond => plain::<Time32MillisecondType>(array, short),
        TimeUnit::Microsecond => plain::<Time64MicrosecondType>(array, long),
        TimeUnit::Nanosecond => plain::<Time64NanosecondType>(array, long),
    }
}

fn durations(array: &dyn Array, unit: TimeUnit) -> (Writer<'_>, Writer<'_>) {
    let write = move |value, out: &mut String| time::duration(value, unit, out);
    match unit {
        TimeUnit::Second => plain::<DurationSecondType>(array, write),
        TimeUnit::Millisecond => plain::<DurationMillisecondType>(array, write),
        TimeUnit::Microsecond => plain::<DurationMicrosecondType>(array, write),
        TimeUnit::Nanosecond => plain::<DurationNanosecondType>(array, write),
    }
}

fn bytes<T: ByteArrayType<Native = [u8]>>(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_bytes::<T>();
    quoted(move |row, out| hex(array.value(row), out))
}

fn byte_views<T: ByteViewType<Native = [u8]>>(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_byte_view::<T>();
    quoted(move |row, out| hex(array.value(row), out))
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(u32::from(digit), 16));
        }
    }
}

fn lists(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    if let Some(list) = array.as_list_opt::<i32>() {
        return list_of(list.values(), move |row| pair(list.value_offsets(), row, |offset| index(*offset)));
    }
    if let Some(list) = array.as_list_opt::<i64>() {
        return list_of(list.values(), move |row| pair(list.value_offsets(), row, |offset| long_index(*offset)));
    }
    if let Some(list) = array.as_list_view_opt::<i32>() {
        return list_of(list.values(), move |row| {
            let start = index(list.value_offset(row));
            (start, start + index(list.value_size(row)))
        });
    }
    let list = array.as_list_view::<i64>();
    list_of(list.values(), move |row| {
        let start = long_index(list.value_offset(row));
        (start, start + long_index(list.value_size(row)))
    })
}

fn list_of<'a>(items: &'a dyn Array, range: impl Fn(usize) -> (usize, usize) + 'a) -> (Writer<'a>, Writer<'a>) {
    let items = Values::new(items);
    bare(move |row, out| {
        let (start, end) = range(row);
        out.push('[');
        for item in start..end {
            if item > start {
                out.push(',');
            }
            items.json(item, out);
        }
        out.push(']');
    })
}

fn structs(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_struct();
    let fields: Vec<_> = array
        .fields()
        .iter()
        .zip(array.columns())
        .map(|(field, column)| (json::key(field.name()), Values::new(column)))
        .collect();
    bare(move |row, out| {
        out.push('{');
        for (place, (key, values)) in fields.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            out.push_str(key);
            values.json(row, out);
        }
        out.push('}');
    })
}

/// An object where the keys are text, else a list of `{"key":…,"value":…}`.
fn map(array: &MapArray) -> (Writer<'_>, Writer<'_>) {
    let (keys, values) = (Values::new(array.keys()), Values::new(array.values()));
    let object = matches!(array.keys().data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    bare(move |row, out| {
        let (start, end) = pair(array.value_offsets(), row, |offset| index(*offset));
        out.push(if object { '{' } else { '[' });
        for entry in start..end {
            if entry > start {
                out.push(',');
            }
            out.push_str(if object { "" } else { "{\"key\":" });
            keys.json(entry, out);
            out.push_str(if object { ":" } else { ",\"value\":" });
            values.json(entry, out);
            out.push_str(if object { "" } else { "}" });
        }
        out.push(if object { '}' } else { ']' });
    })
}

/// The value of whichever alternative a row holds.
fn unions(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_union();
    let DataType::Union(fields, _) = array.data_type() else {
        return bare(|_, _| {});
    };
    let children: Vec<_> = fields.iter().map(|(id, _)| (id, Values::new(array.child(id)))).collect();
    let children = Rc::new(children);
    let same = Rc::clone(&children);
    (
        Rc::new(move |row, out: &mut String| {
            if let Some((_, child)) = children.iter().find(|(id, _)| *id == array.type_id(row)) {
                child.text(array.value_offset(row), out);
            }
        }),
        Rc::new(move |row, out: &mut String| {
            if let Some((_, child)) = same.iter().find(|(id, _)| *id == array.type_id(row)) {
                child.json(array.value_offset(row), out);
            }
        }),
    )
}

fn dictionary(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_any_dictionary();
    if array.values().is_empty() {
        return bare(|_, _| {});
    }
    let keys = array.normalized_keys();
    redirected(array.values(), move |row| keys.get(row).copied())
}

fn runs<T: RunEndIndexType>(array: &dyn Array) -> (Writer<'_>, Writer<'_>) {
    let array = array.as_run::<T>();
    redirected(array.values(), move |row| Some(array.get_physical_index(row)))
}

/// Values of another array, found through an index.
fn redirected<'a>(values: &'a dyn Array, place: impl Fn(usize) -> Option<usize> + 'a) -> (Writer<'a>, Writer<'a>) {
    let Values { text, json, .. } = Values::new(values);
    let place = Rc::new(place);
    let follow = |write: Writer<'a>| -> Writer<'a> {
        let place = Rc::clone(&place);
        Rc::new(move |row, out: &mut String| {
            if let Some(place) = place(row) {
                write(place, out);
            }
        })
    };
    (follow(text), follow(json))
}

/// Two neighbours of an offset buffer, which has one entry more than there are rows.
fn pair<T>(offsets: &[T], row: usize, index: impl Fn(&T) -> usize) -> (usize, usize) {
    let at = |row: usize| offsets.get(row).map_or(0, &index);
    (at(row), at(row + 1))
}

/// Arrow's offsets are signed and never negative.
fn index(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

fn long_index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}
