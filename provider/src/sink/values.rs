//! How do Iceberg's single values and Arrow's arrays translate?

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType};

use crate::error::{Code, Error, Result};

/// The value in `row` as a datum of type `kind`; `None` for null.
///
/// # Errors
/// `not_supported` where the array can't hold values of that type.
pub(super) fn datum(array: &dyn Array, row: usize, kind: &PrimitiveType) -> Result<Option<Datum>> {
    if array.is_null(row) {
        return Ok(None);
    }
    let unfit = || {
        Error::new(Code::NotSupported, "a partition value can't be stored")
            .with("arrow", array.data_type())
            .with("type", kind)
    };
    let bytes = single_value(array, row).ok_or_else(unfit)?;
    Datum::try_from_bytes(&bytes, kind.clone()).map(Some).map_err(|e| unfit().source(e))
}

/// Iceberg's single-value serialization ("Appendix D", binary) of a value that is not null.
fn single_value(array: &dyn Array, row: usize) -> Option<Vec<u8>> {
    Some(match array.data_type() {
        DataType::Boolean => vec![u8::from(array.as_boolean().value(row))],
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_le_bytes().to_vec(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_le_bytes().to_vec(),
        DataType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Decimal128(_, _) => array.as_primitive::<Decimal128Type>().value(row).to_be_bytes().to_vec(),
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes().to_vec(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes().to_vec(),
        DataType::Binary => array.as_binary::<i32>().value(row).to_vec(),
        DataType::LargeBinary => array.as_binary::<i64>().value(row).to_vec(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row).to_vec(),
        _ => return None,
    })
}

/// An array of type `to` that holds `value` once.
///
/// # Errors
/// `not_supported` where the type can't hold it.
pub(super) fn array_of_one(value: &PrimitiveLiteral, to: &DataType) -> Result<ArrayRef> {
    let unfit = || Error::new(Code::NotSupported, "a column's write default can't be written").with("type", to);
    let array: ArrayRef = match (value, to) {
        (PrimitiveLiteral::Boolean(v), _) => Arc::new(BooleanArray::from(vec![*v])),
        (PrimitiveLiteral::Int(v), DataType::Date32) => Arc::new(Date32Array::from(vec![*v])),
        (PrimitiveLiteral::Int(v), _) => Arc::new(Int32Array::from(vec![*v])),
        (PrimitiveLiteral::Long(v), _) => Arc::new(Int64Array::from(vec![*v])),
        (PrimitiveLiteral::Float(v), _) => Arc::new(Float32Array::from(vec![v.0])),
        (PrimitiveLiteral::Double(v), _) => Arc::new(Float64Array::from(vec![v.0])),
        (PrimitiveLiteral::String(v), _) => Arc::new(StringArray::from(vec![v.as_str()])),
        (PrimitiveLiteral::Binary(v), DataType::FixedSizeBinary(_)) => {
            Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(v)).map_err(|e| unfit().source(e))?)
        }
        (PrimitiveLiteral::Binary(v), _) => Arc::new(BinaryArray::from(vec![v.as_slice()])),
        (PrimitiveLiteral::UInt128(v), _) => {
            let bytes = std::iter::once(v.to_be_bytes());
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes).map_err(|e| unfit().source(e))?)
        }
        (PrimitiveLiteral::Int128(v), DataType::Decimal128(precision, scale)) => {
            let made = Decimal128Array::from(vec![*v]).with_precision_and_scale(*precision, *scale);
            Arc::new(made.map_err(|e| unfit().source(e))?)
        }
        _ => return Err(unfit()),
    };
    cast(&array, to).map_err(|e| unfit().source(e))
}
