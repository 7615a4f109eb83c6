//! What do a manifest's numbers tell of a column?

use std::collections::HashMap;

use iceberg::spec::{DataFile, Datum, FieldSummary, Literal, PrimitiveType};

use super::Value;

/// What is known of a column in a set of rows. `None` means not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// No value (other than null and NaN) is below.
    pub lower: Option<Value>,
    /// No value (other than null and NaN) is above.
    pub upper: Option<Value>,
    pub nulls: Option<u64>,
    pub nans: Option<u64>,
    /// Rows in the set, nulls included.
    pub rows: Option<u64>,
    /// The column is a float or double, so that it may hold NaN.
    pub float: bool,
}

/// What a data file's metrics tell of the column `field_id`, which now has type `ty`; `rows` is the file's record count
/// (before deletes).
pub fn facts_of_file(file: &DataFile, field_id: i32, ty: &PrimitiveType, rows: u64) -> Facts {
    let bounds = (file.lower_bounds().get(&field_id), file.upper_bounds().get(&field_id));
    let count = |counts: &HashMap<i32, u64>| counts.get(&field_id).copied();
    facts_of_metrics(bounds, count(file.null_value_counts()), count(file.nan_value_counts()), ty, rows)
}

/// What the metrics of one column of a data file tell: lower and upper bound, null count and NaN count, where there are
/// any; the column now has type `ty`, and the file `rows` rows (before deletes).
///
/// A column without metrics (a file from before the column, metrics switched off) is not known at all. Bounds of a uuid are
/// not used: writers that order uuids as signed numbers wrote bounds that values lie outside of (apache/iceberg #14216).
///
/// Source: Iceberg specification, "Data File Fields", "Bounds for Primitive types".
pub fn facts_of_metrics(
    (lower, upper): (Option<&Datum>, Option<&Datum>),
    nulls: Option<u64>,
    nans: Option<u64>,
    ty: &PrimitiveType,
    rows: u64,
) -> Facts {
    let bound = |datum: Option<&Datum>| match ty {
        PrimitiveType::Uuid => None,
        _ => datum.and_then(|datum| Value::from_datum(datum, ty)),
    };
    Facts { lower: bound(lower), upper: bound(upper), nulls, nans, rows: Some(rows), float: is_float(ty) }
}

/// What a partition tuple tells of one of its fields, of type `ty` (the transform's result type): one row, whose value is
/// `literal` or null. A literal that is no value of the type is not known.
pub fn facts_of_partition(literal: Option<&Literal>, ty: &PrimitiveType) -> Facts {
    let float = is_float(ty);
    let one = Facts { rows: Some(1), nulls: Some(0), float, ..Facts::default() };
    let value = match literal {
        None => return Facts { nulls: Some(1), ..one },
        Some(Literal::Primitive(literal)) => Value::from_literal(literal, ty),
        Some(_) => None,
    };
    match value {
        None => Facts { float, ..Facts::default() },
        Some(value) if value.is_nan() => Facts { nans: Some(1), ..one },
        Some(value) => Facts { lower: Some(value.clone()), upper: Some(value), nans: Some(0), ..one },
    }
}

/// What a manifest list's summary tells of a partition field of type `ty` over the files of a manifest. It holds no counts.
///
/// Source: Iceberg specification, "Manifest Lists", `field_summary`.
pub fn facts_of_summary(summary: &FieldSummary, ty: &PrimitiveType) -> Facts {
    let bound = |bytes: Option<&[u8]>| {
        let datum = Datum::try_from_bytes(bytes?, ty.clone()).ok()?;
        Value::from_datum(&datum, ty)
    };
    let lower = bound(summary.lower_bound.as_ref().map(|b| b.as_slice()));
    let upper = bound(summary.upper_bound.as_ref().map(|b| b.as_slice()));
    // Of uuids only equal bounds can be believed, whatever order the writer had: see `facts_of_file`.
    let believed = *ty != PrimitiveType::Uuid || lower == upper;
    Facts {
        lower: lower.filter(|_| believed),
        upper: upper.filter(|_| believed),
        nulls: (!summary.contains_null).then_some(0),
        nans: if summary.contains_nan == Some(false) { Some(0) } else { None },
        rows: None,
        float: is_float(ty),
    }
}

fn is_float(ty: &PrimitiveType) -> bool {
    matches!(ty, PrimitiveType::Float | PrimitiveType::Double)
}
