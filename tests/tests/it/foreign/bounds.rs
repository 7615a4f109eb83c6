//! What the manifests of a table say of columns: counts of nulls and NaN, bounds.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{max, max_boolean, max_string, min, min_boolean, min_string};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{DataFileBuilder, Datum, PrimitiveType};

/// Adds the metrics of a file's columns, which have field ids.
pub(super) fn metrics(entry: &mut DataFileBuilder, rows: &RecordBatch) {
    let (mut counts, mut nulls, mut nans) = (HashMap::new(), HashMap::new(), HashMap::new());
    let (mut lower, mut upper) = (HashMap::new(), HashMap::new());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let id = field_id(field);
        counts.insert(id, column.len() as u64);
        nulls.insert(id, column.null_count() as u64);
        if let Some(count) = nan(column) {
            nans.insert(id, count);
        }
        if let Some((low, high)) = bounds(column) {
            lower.insert(id, low);
            upper.insert(id, high);
        }
    }
    entry.value_counts(counts).null_value_counts(nulls).nan_value_counts(nans);
    entry.lower_bounds(lower).upper_bounds(upper);
}

/// The id that a column has in Iceberg.
pub(super) fn field_id(field: &Field) -> i32 {
    field.metadata()["PARQUET:field_id"].parse().unwrap()
}

fn nan(column: &ArrayRef) -> Option<u64> {
    let numbers: Vec<f64> = match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().iter().flatten().map(f64::from).collect(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().collect(),
        _ => return None,
    };
    Some(numbers.iter().filter(|number| number.is_nan()).count() as u64)
}

/// The least and the greatest value; of floats without NaN, the zeros as far apart as they may be.
fn bounds(column: &ArrayRef) -> Option<(Datum, Datum)> {
    macro_rules! of {
        ($type:ty, $datum:expr) => {{
            let array = column.as_primitive::<$type>();
            (($datum)(min(array)?), ($datum)(max(array)?))
        }};
    }
    macro_rules! of_floats {
        ($type:ty, $datum:expr) => {{
            let numbers = column.as_primitive::<$type>().iter().flatten().filter(|number| !number.is_nan());
            let low = numbers.clone().min_by(|a, b| a.total_cmp(b))?;
            (($datum)(low), ($datum)(numbers.max_by(|a, b| a.total_cmp(b))?))
        }};
    }
    let decimal = |value: i128| {
        let ty = PrimitiveType::Decimal { precision: 9, scale: 2 };
        Datum::try_from_bytes(&(value as i32).to_be_bytes(), ty).expect("four bytes hold nine digits")
    };
    Some(match column.data_type() {
        DataType::Boolean => {
            let array = column.as_boolean();
            (Datum::bool(min_boolean(array)?), Datum::bool(max_boolean(array)?))
        }
        DataType::Int32 => of!(Int32Type, Datum::int),
        DataType::Int64 => of!(Int64Type, Datum::long),
        DataType::Float32 => of_floats!(Float32Type, Datum::float),
        DataType::Float64 => of_floats!(Float64Type, Datum::double),
        DataType::Decimal128(..) => of!(Decimal128Type, decimal),
        DataType::Date32 => of!(Date32Type, Datum::date),
        DataType::Timestamp(TimeUnit::Microsecond, None) => of!(TimestampMicrosecondType, Datum::timestamp_micros),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => of!(TimestampNanosecondType, Datum::timestamp_nanos),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType, Datum::timestamptz_nanos),
        DataType::Struct(_) => return None,
        DataType::Timestamp(..) => of!(TimestampMicrosecondType, Datum::timestamptz_micros),
        _ => {
            let array = column.as_string::<i32>();
            (Datum::string(min_string(array)?), Datum::string(max_string(array)?))
        }
    })
}
