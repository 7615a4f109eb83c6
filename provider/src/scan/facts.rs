//! What does metadata say of a column's values in a file, a partition or a manifest?
//!
//! Iceberg's bounds become [`Facts`] over the table's present types. Whatever is doubtful becomes "not known", so that
//! nothing is ever skipped on its account.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use iceberg::spec::{
    DataFile, Datum, FieldSummary, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct, Type,
};

use crate::predicate::{Facts, Value};

/// A literal of an Iceberg primitive type as a value; `None` where it isn't one value (`AboveMax`, `BelowMin`).
pub fn to_value(literal: &PrimitiveLiteral) -> Option<Value> {
    Some(match literal {
        PrimitiveLiteral::Boolean(v) => Value::Bool(*v),
        PrimitiveLiteral::Int(v) => Value::Long(i64::from(*v)),
        PrimitiveLiteral::Long(v) => Value::Long(*v),
        PrimitiveLiteral::Float(v) => Value::Double(f64::from(v.0)),
        PrimitiveLiteral::Double(v) => Value::Double(v.0),
        PrimitiveLiteral::Int128(v) => Value::Decimal(*v),
        PrimitiveLiteral::String(v) => Value::String(v.clone()),
        PrimitiveLiteral::UInt128(v) => Value::Bytes(v.to_be_bytes().to_vec()),
        PrimitiveLiteral::Binary(v) => Value::Bytes(v.clone()),
        PrimitiveLiteral::AboveMax | PrimitiveLiteral::BelowMin => return None,
    })
}

/// A value as a scalar of the Arrow type `data_type`; `None` where the type can't hold it.
pub fn to_scalar(value: &Value, data_type: &DataType) -> Option<ScalarValue> {
    Some(match (value, data_type) {
        (Value::Bool(v), DataType::Boolean) => ScalarValue::Boolean(Some(*v)),
        (Value::Long(v), DataType::Int32) => ScalarValue::Int32(Some(i32::try_from(*v).ok()?)),
        (Value::Long(v), DataType::Int64) => ScalarValue::Int64(Some(*v)),
        (Value::Long(v), DataType::Date32) => ScalarValue::Date32(Some(i32::try_from(*v).ok()?)),
        (Value::Long(v), DataType::Time64(TimeUnit::Microsecond)) => ScalarValue::Time64Microsecond(Some(*v)),
        (Value::Long(v), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(*v), zone.clone())
        }
        (Value::Long(v), DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            ScalarValue::TimestampNanosecond(Some(*v), zone.clone())
        }
        #[expect(clippy::cast_possible_truncation, reason = "a float column's values came from f32")]
        (Value::Double(v), DataType::Float32) => ScalarValue::Float32(Some(*v as f32)),
        (Value::Double(v), DataType::Float64) => ScalarValue::Float64(Some(*v)),
        (Value::Decimal(v), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(*v), *precision, *scale)
        }
        (Value::String(v), DataType::Utf8View) => ScalarValue::Utf8View(Some(v.clone())),
        (Value::String(v), DataType::Utf8) => ScalarValue::Utf8(Some(v.clone())),
        (Value::String(v), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(v.clone())),
        (Value::Bytes(v), DataType::BinaryView) => ScalarValue::BinaryView(Some(v.clone())),
        (Value::Bytes(v), DataType::Binary) => ScalarValue::Binary(Some(v.clone())),
        (Value::Bytes(v), DataType::LargeBinary) => ScalarValue::LargeBinary(Some(v.clone())),
        (Value::Bytes(v), DataType::FixedSizeBinary(n)) if usize::try_from(*n) == Ok(v.len()) => {
            ScalarValue::FixedSizeBinary(*n, Some(v.clone()))
        }
        _ => return None,
    })
}

/// The facts of column `field` in a data file, from its manifest entry. Unknown where the column has no primitive type.
pub fn of_file(file: &DataFile, schema: &Schema, field: i32) -> Facts {
    let Some(column) = primitive(schema, field) else {
        return Facts::default();
    };
    let bound = |datum: &Datum| readable_as(datum.data_type(), column).then(|| to_value(datum.literal())).flatten();
    Facts {
        lower: file.lower_bounds().get(&field).and_then(bound).and_then(lower_bound),
        upper: file.upper_bounds().get(&field).and_then(bound).and_then(upper_bound),
        nulls: file.null_value_counts().get(&field).copied(),
        nans: file.nan_value_counts().get(&field).copied(),
        rows: Some(file.record_count()),
        float: is_float(column),
    }
}

/// The facts of partition field `field` in a partition tuple of `spec`: one value, known exactly.
pub fn of_partition(partition: &Struct, spec: &PartitionSpec, schema: &Schema, field: i32) -> Facts {
    let Some((at, result)) = position(spec, schema, field) else {
        return Facts::default();
    };
    let float = is_float(&result);
    match partition.fields().get(at) {
        Some(None) => Facts { nulls: Some(1), nans: Some(0), rows: Some(1), float, ..Facts::default() },
        Some(Some(literal)) => match literal.as_primitive_literal().filter(|l| fits(l, &result)).as_ref().and_then(to_value) {
            Some(Value::Double(v)) if v.is_nan() => {
                Facts { nulls: Some(0), nans: Some(1), rows: Some(1), float, ..Facts::default() }
            }
            Some(value) => Facts {
                lower: lower_bound(value.clone()),
                upper: upper_bound(value),
                nulls: Some(0),
                nans: Some(0),
                rows: Some(1),
                float,
            },
            None => Facts { float, ..Facts::default() },
        },
        None => Facts { float, ..Facts::default() },
    }
}

/// The facts of partition field `field` in all files of a manifest, from the manifest list's summaries.
/// Iceberg specification, `field_summary`: no bound means that every value is null or NaN.
pub(super) fn of_summary(summaries: &[FieldSummary], spec: &PartitionSpec, schema: &Schema, field: i32) -> Facts {
    let Some((at, result)) = position(spec, schema, field) else {
        return Facts::default();
    };
    let float = is_float(&result);
    let Some(summary) = summaries.get(at) else {
        return Facts { float, ..Facts::default() };
    };
    let no_nan = !float || summary.contains_nan == Some(false);
    let no_bound = summary.lower_bound.is_none() && summary.upper_bound.is_none();
    if summary.contains_null && no_bound && no_nan {
        return Facts { nulls: Some(1), nans: Some(0), rows: Some(1), float, ..Facts::default() };
    }
    let bound = |bytes: Option<&Vec<u8>>| to_value(Datum::try_from_bytes(bytes?, result.clone()).ok()?.literal());
    Facts {
        lower: bound(summary.lower_bound.as_deref()).and_then(lower_bound),
        upper: bound(summary.upper_bound.as_deref()).and_then(upper_bound),
        nulls: if summary.contains_null { None } else { Some(0) },
        nans: if no_nan { Some(0) } else { None },
        rows: None,
        float,
    }
}

/// A lower bound that also stands below -0.0 where it says 0.0: writers may normalise either way, while DataFusion orders
/// -0.0 below 0.0. NaN bounds nothing.
pub(crate) fn lower_bound(value: Value) -> Option<Value> {
    match value {
        Value::Double(v) if v.is_nan() => None,
        Value::Double(0.0) => Some(Value::Double(-0.0)),
        other => Some(other),
    }
}

/// The mirror image of [`lower_bound`].
pub(crate) fn upper_bound(value: Value) -> Option<Value> {
    match value {
        Value::Double(v) if v.is_nan() => None,
        Value::Double(0.0) => Some(Value::Double(0.0)),
        other => Some(other),
    }
}

/// The type of a column that holds single values.
pub(crate) fn primitive(schema: &Schema, field: i32) -> Option<&PrimitiveType> {
    schema.field_by_id(field).and_then(|field| match field.field_type.as_ref() {
        Type::Primitive(primitive) => Some(primitive),
        Type::Struct(_) | Type::List(_) | Type::Map(_) => None,
    })
}

pub(crate) fn is_float(primitive: &PrimitiveType) -> bool {
    matches!(primitive, PrimitiveType::Float | PrimitiveType::Double)
}

/// Where a partition field stands in its spec's tuples, and the type of its values.
fn position(spec: &PartitionSpec, schema: &Schema, field: i32) -> Option<(usize, PrimitiveType)> {
    let (at, field) = spec.fields().iter().enumerate().find(|(_, f)| f.field_id == field)?;
    let source = schema.field_by_id(field.source_id)?;
    match field.transform.result_type(&source.field_type).ok()? {
        Type::Primitive(result) => Some((at, result)),
        Type::Struct(_) | Type::List(_) | Type::Map(_) => None,
    }
}

/// Whether a bound written for `stored` keeps its meaning for a column that has since been promoted to `column`.
fn readable_as(stored: &PrimitiveType, column: &PrimitiveType) -> bool {
    match (stored, column) {
        (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => true,
        (PrimitiveType::Decimal { scale: stored, .. }, PrimitiveType::Decimal { scale: column, .. }) => {
            stored == column
        }
        (stored, column) => stored == column,
    }
}

/// Whether a partition value still means what the field's type says: a date stays days after its column became a timestamp.
fn fits(literal: &PrimitiveLiteral, result: &PrimitiveType) -> bool {
    use PrimitiveType::{Date, Int, Long};
    !matches!(literal, PrimitiveLiteral::Int(_)) || matches!(result, Int | Long | Date)
}
