//! Which types fit which, and does a value survive?

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::util::display::FormatOptions;

use crate::error::{Code, Error, Result};

/// A value that doesn't fit is an error, never null.
pub(super) const STRICT: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// How values of one type become values of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The same type.
    Same,
    /// Each value that the cast accepts is the same value.
    Exact,
    /// The cast may round: what comes back must be what went in.
    Checked,
}

/// The rule from one primitive type to another; `None` where values would change their meaning.
pub(super) fn rule(from: &DataType, to: &DataType) -> Option<Rule> {
    use DataType as T;
    if from == to {
        return Some(Rule::Same);
    }
    match (from, to) {
        (T::Null, _) => Some(Rule::Exact),
        (T::Dictionary(_, value), _) => rule(value, to),
        (T::RunEndEncoded(_, value), _) => rule(value.data_type(), to),
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8) => Some(Rule::Exact),
        (T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_), T::Binary | T::LargeBinary) => {
            Some(Rule::Exact)
        }
        (T::Binary | T::LargeBinary | T::BinaryView, T::FixedSizeBinary(_)) => Some(Rule::Exact),
        (from, T::Int32 | T::Int64) if from.is_integer() => Some(Rule::Exact),
        (from, T::Decimal128(_, _)) if from.is_integer() => Some(Rule::Exact),
        (T::Float16, T::Float32 | T::Float64) | (T::Float32, T::Float64) => Some(Rule::Exact),
        (from, T::Decimal128(_, _)) if from.is_decimal() => Some(Rule::Checked),
        (T::Date64, T::Date32) => Some(Rule::Checked),
        (T::Time32(_) | T::Time64(_), T::Time64(TimeUnit::Microsecond)) => Some(Rule::Checked),
        // A zone other than UTC names the same instants; with and without zone are different things.
        (T::Timestamp(_, a), T::Timestamp(_, b)) if a.is_some() == b.is_some() => Some(Rule::Checked),
        _ => None,
    }
}

/// `array` as `to`, value by value the same.
pub(super) fn cast(array: &ArrayRef, to: &DataType, path: &str) -> Result<ArrayRef> {
    let failed = |e: arrow::error::ArrowError| {
        Error::new(Code::IcebergDataWriteFailed, "a value doesn't fit the column's type")
            .with("column", path)
            .with("type", to)
            .with("cause", e)
    };
    let packed = match array.data_type() {
        DataType::Dictionary(_, value) => Some(value.as_ref().clone()),
        DataType::RunEndEncoded(_, value) => Some(value.data_type().clone()),
        _ => None,
    };
    if let Some(value) = packed {
        return cast(&cast_with_options(array, &value, &STRICT).map_err(failed)?, to, path);
    }
    match rule(array.data_type(), to) {
        Some(Rule::Same) => Ok(Arc::clone(array)),
        Some(Rule::Exact) => exact(array, to).map_err(failed),
        Some(Rule::Checked) => {
            let source = in_zone_of(array, to);
            let made = cast_with_options(&source, to, &STRICT).map_err(failed)?;
            let back = cast_with_options(&made, source.data_type(), &STRICT).map_err(failed)?;
            let changed = distinct(&source, &back).map_err(failed)?;
            match changed.values().iter().position(|c| c) {
                None => Ok(made),
                Some(row) => Err(Error::new(Code::IcebergDataWriteFailed, "a value would be rounded")
                    .with("column", path)
                    .with("type", to)
                    .with("value", shown(&source, row))),
            }
        }
        None => Err(Error::new(Code::IcebergSchemaIncompatible, "the column's type can't be stored without loss")
            .with("column", path)
            .with("input", array.data_type())
            .with("table", to)),
    }
}

fn exact(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, arrow::error::ArrowError> {
    match (array.data_type(), to) {
        // Arrow has no cast from views to fixed size; every value must have the length anyway.
        (DataType::BinaryView, DataType::FixedSizeBinary(width)) => {
            let values = array.as_binary_view().iter().map(|v| v.map(<[u8]>::to_vec));
            Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *width)?))
        }
        _ => cast_with_options(array, to, &STRICT),
    }
}

/// Relabels a timestamp with the target's zone: the instants stay, and no zone database is asked.
fn in_zone_of(array: &ArrayRef, to: &DataType) -> ArrayRef {
    let (DataType::Timestamp(unit, _), DataType::Timestamp(_, zone)) = (array.data_type(), to) else {
        return Arc::clone(array);
    };
    fn relabel<T: ArrowTimestampType>(array: &ArrayRef, zone: &Option<Arc<str>>) -> ArrayRef {
        Arc::new(array.as_primitive::<T>().clone().with_timezone_opt(zone.clone()))
    }
    match unit {
        TimeUnit::Second => relabel::<TimestampSecondType>(array, zone),
        TimeUnit::Millisecond => relabel::<TimestampMillisecondType>(array, zone),
        TimeUnit::Microsecond => relabel::<TimestampMicrosecondType>(array, zone),
        TimeUnit::Nanosecond => relabel::<TimestampNanosecondType>(array, zone),
    }
}

fn shown(array: &ArrayRef, row: usize) -> String {
    arrow::util::display::array_value_to_string(array, row).unwrap_or_else(|_| "?".to_owned())
}
