//! Which functions of a column keep (or reverse) its order?
//!
//! Casts between numbers and times, negation, truncations of time, steps of days and months, dates, years, seconds since
//! 1970, rounding, Iceberg's own transforms, and each of these applied to another. A function of time in a zone with other
//! offsets than UTC does not: local time runs backwards when summer ends. See [`zone`](super::zone).

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::functions::datetime::date_bin::DateBinFunc;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::functions::datetime::from_unixtime::FromUnixtimeFunc;
use datafusion::functions::datetime::to_char::ToCharFunc;
use datafusion::functions::datetime::to_date::ToDateFunc;
use datafusion::functions::datetime::to_local_time::ToLocalTimeFunc;
use datafusion::functions::datetime::to_timestamp::{
    ToTimestampFunc, ToTimestampMicrosFunc, ToTimestampMillisFunc, ToTimestampNanosFunc, ToTimestampSecondsFunc,
};
use datafusion::functions::datetime::to_unixtime::ToUnixtimeFunc;
use datafusion::functions::math::ceil::CeilFunc;
use datafusion::functions::math::floor::FloorFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, NegativeExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use iceberg::spec::Transform;

use super::super::functions::{Conversion, DateBin, DateTrunc, TransformFunction};
use super::column::{Slot, column_of};
use super::monotone::Searched;
use super::periods::{binned, part_of, truncated};
use super::{
    A_FUNCTION, ARITHMETIC, FORMATTED, LOCAL_TIME, MONTHS_ADDED, NOT_A_COLUMN, NOT_ORDERED, NOT_UNDERSTOOD, Scope,
    TWO_COLUMNS, constant_of,
};

/// The expression as a function to search, or why it isn't one.
pub(super) fn searched(expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Result<Searched, &'static str> {
    of(expr, scope)?.settled().ok_or(NOT_ORDERED)
}

fn of(expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Result<Searched, &'static str> {
    let any = expr.as_any();
    if column_of(expr, scope.arrow).is_some() {
        let slot = Slot::of(expr, scope.arrow, scope.schema).ok_or(NOT_A_COLUMN)?;
        return Searched::column(&slot).ok_or(NOT_ORDERED);
    }
    if let Some(negative) = any.downcast_ref::<NegativeExpr>() {
        return negated(expr, negative, scope);
    }
    if let Some((inner, to)) = cast_of(expr) {
        return converted(expr, inner, to, scope);
    }
    if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>() {
        return called(expr, function, scope);
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        return stepped(expr, binary, scope);
    }
    Err(NOT_UNDERSTOOD)
}

/// What is cast, and to which type.
pub(super) fn cast_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, &DataType)> {
    let any = expr.as_any();
    if let Some(cast) = any.downcast_ref::<CastExpr>() {
        return Some((cast.expr(), cast.cast_type()));
    }
    if let Some(cast) = any.downcast_ref::<TryCastExpr>() {
        return Some((cast.expr(), cast.cast_type()));
    }
    let function = any.downcast_ref::<ScalarFunctionExpr>()?;
    let conversion = function.fun().inner().as_any().downcast_ref::<Conversion>()?;
    Some((function.args().first()?, conversion.target()))
}

/// Of a float or decimal it is a mirror. Of an integer it wraps around at the least one: that one is kept out of the search,
/// which is possible for the column's own type only.
fn negated(expr: &Arc<dyn PhysicalExpr>, negative: &NegativeExpr, scope: &Scope<'_>) -> Result<Searched, &'static str> {
    let inner = of(negative.arg(), scope)?;
    let inner = match inner.data_type() {
        Some(DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _)) => Some(inner),
        Some(DataType::Int32 | DataType::Int64) if column_of(negative.arg(), scope.arrow).is_some() => {
            inner.set_least_apart()
        }
        _ => None,
    };
    inner.and_then(|inner| inner.through(expr)).ok_or(NOT_ORDERED)
}

fn converted(
    expr: &Arc<dyn PhysicalExpr>,
    inner: &Arc<dyn PhysicalExpr>,
    to: &DataType,
    scope: &Scope<'_>,
) -> Result<Searched, &'static str> {
    let inner = of(inner, scope)?;
    match inner.data_type() {
        Some(from) if cast_keeps_order(&from, to) => inner.through(expr).ok_or(NOT_ORDERED),
        Some(from) if is_local(&from) || is_local(to) => Err(LOCAL_TIME),
        _ => Err(NOT_ORDERED),
    }
}

fn called(
    expr: &Arc<dyn PhysicalExpr>,
    function: &ScalarFunctionExpr,
    scope: &Scope<'_>,
) -> Result<Searched, &'static str> {
    let called = function.fun().inner().as_any();
    let result = function.return_type();
    let through = |inner: Searched| inner.through(expr).ok_or(NOT_ORDERED);
    let as_cast = |inner: &Arc<dyn PhysicalExpr>| converted(expr, inner, result, scope);
    match function.args() {
        [unit, inner] if called.is::<DateTruncFunc>() || called.is::<DateTrunc>() => {
            through(truncated(unit, of(inner, scope)?)?)
        }
        [part, inner] if called.is::<DatePartFunc>() => through(part_of(part, of(inner, scope)?)?),
        [stride, inner, origin @ ..] if called.is::<DateBinFunc>() || called.is::<DateBin>() => {
            through(binned(stride, of(inner, scope)?, origin)?)
        }
        [inner] if called.is::<ToDateFunc>() => as_cast(inner),
        [inner] if called.is::<ToUnixtimeFunc>() => {
            let inner = of(inner, scope)?;
            match inner.data_type() {
                Some(DataType::Timestamp(_, _) | DataType::Date32 | DataType::Int32 | DataType::Int64) => {
                    through(inner)
                }
                _ => Err(A_FUNCTION),
            }
        }
        [inner] if is_epoch_to_timestamp(function) => {
            let inner = of(inner, scope)?;
            match inner.data_type() {
                Some(DataType::Int32 | DataType::Int64) => through(inner),
                Some(from @ DataType::Timestamp(_, _)) if cast_keeps_order(&from, result) => through(inner),
                _ => Err(A_FUNCTION),
            }
        }
        [inner] if called.is::<ToLocalTimeFunc>() => {
            let inner = of(inner, scope)?;
            match inner.data_type() {
                Some(ty @ DataType::Timestamp(_, _)) if !is_local(&ty) => through(inner),
                _ => Err(LOCAL_TIME),
            }
        }
        [inner] if called.is::<FloorFunc>() || called.is::<CeilFunc>() => through(of(inner, scope)?),
        args => match called.downcast_ref::<TransformFunction>() {
            Some(transform) => through(transformed(transform, args, scope)?),
            None if called.is::<ToCharFunc>() => Err(FORMATTED),
            None => Err(A_FUNCTION),
        },
    }
}

fn is_epoch_to_timestamp(function: &ScalarFunctionExpr) -> bool {
    let called = function.fun().inner().as_any();
    called.is::<ToTimestampFunc>()
        || called.is::<ToTimestampSecondsFunc>()
        || called.is::<ToTimestampMillisFunc>()
        || called.is::<ToTimestampMicrosFunc>()
        || called.is::<ToTimestampNanosFunc>()
        || called.is::<FromUnixtimeFunc>()
}

/// Time plus or minus an interval. Months are clamped to the length of the month they end in, which keeps the order of dates,
/// but not of times: a month after noon of 30 January comes after a month after the morning of the 31st.
fn stepped(expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr, scope: &Scope<'_>) -> Result<Searched, &'static str> {
    let (inner, step) = match (binary.op(), constant_of(binary.left()), constant_of(binary.right())) {
        (Operator::Plus | Operator::Minus, None, Some(step)) => (binary.left(), step),
        (Operator::Plus, Some(step), None) => (binary.right(), step),
        (_, None, None) => return Err(TWO_COLUMNS),
        _ => return Err(ARITHMETIC),
    };
    let (months, days) = match step {
        ScalarValue::IntervalYearMonth(Some(months)) => (months, 0),
        ScalarValue::IntervalDayTime(Some(step)) => (0, step.days),
        ScalarValue::IntervalMonthDayNano(Some(step)) => (step.months, step.days),
        ref step if matches!(step.data_type(), DataType::Duration(_)) && !step.is_null() => (0, 0),
        _ => return Err(ARITHMETIC),
    };
    let inner = of(inner, scope)?;
    match inner.data_type() {
        Some(DataType::Timestamp(_, _)) if months != 0 => Err(MONTHS_ADDED),
        Some(ty @ DataType::Timestamp(_, _)) if days != 0 && is_local(&ty) => Err(LOCAL_TIME),
        Some(DataType::Timestamp(_, _)) => inner.through(expr).ok_or(NOT_ORDERED),
        Some(DataType::Date32) if step.data_type() == DataType::Interval(IntervalUnit::MonthDayNano) => {
            inner.through(expr).ok_or(NOT_ORDERED)
        }
        _ => Err(ARITHMETIC),
    }
}

fn transformed(
    function: &TransformFunction,
    args: &[Arc<dyn PhysicalExpr>],
    scope: &Scope<'_>,
) -> Result<Searched, &'static str> {
    let (constant, inner) = match args {
        [inner] => (None, inner),
        [constant, inner] => (Some(constant_of(constant).ok_or(TWO_COLUMNS)?), inner),
        _ => return Err(A_FUNCTION),
    };
    let transform = function.transform(constant.as_ref()).ok_or(A_FUNCTION)?;
    let inner = of(inner, scope)?;
    match (transform, inner.data_type()) {
        (Transform::Truncate(width), Some(ty @ (DataType::Int32 | DataType::Int64))) => {
            // The least ones wrap around.
            let (first, last) = match ty {
                DataType::Int32 => (
                    ScalarValue::Int32(i32::try_from(width).ok().and_then(|width| i32::MIN.checked_add(width))),
                    ScalarValue::Int32(Some(i32::MAX)),
                ),
                _ => (ScalarValue::Int64(i64::MIN.checked_add(i64::from(width))), ScalarValue::Int64(Some(i64::MAX))),
            };
            inner.limited(&first, &last).ok_or(NOT_ORDERED)
        }
        (Transform::Truncate(_), Some(DataType::Decimal128(_, _))) => Ok(inner),
        (
            Transform::Year | Transform::Month | Transform::Day | Transform::Hour,
            Some(DataType::Date32 | DataType::Timestamp(_, _)),
        ) => Ok(inner),
        _ => Err(A_FUNCTION),
    }
}

fn cast_keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType as A;
    let number = |ty: &DataType| {
        matches!(ty, A::Int8 | A::Int16 | A::Int32 | A::Int64 | A::Float32 | A::Float64 | A::Decimal128(_, _))
    };
    match (from, to) {
        (A::Timestamp(_, None), A::Timestamp(_, Some(zone))) => is_utc(zone),
        (A::Timestamp(_, _), A::Timestamp(_, _)) => true,
        (A::Timestamp(_, Some(zone)), A::Date32) => is_utc(zone),
        (A::Timestamp(_, None), A::Date32) => true,
        (A::Date32, A::Timestamp(_, None)) => true,
        (A::Date32, A::Timestamp(_, Some(zone))) => is_utc(zone),
        (A::Date32, A::Date32) => true,
        (A::Time64(_), A::Time64(_)) => true,
        // Ticks, whatever the zone.
        (A::Timestamp(_, _), A::Int64) | (A::Int64, A::Timestamp(_, _)) => true,
        (A::Date32, A::Int32 | A::Int64) | (A::Int32, A::Date32) => true,
        (from, to) => number(from) && number(to),
    }
}

/// A timestamp in a zone with another offset than UTC.
pub(super) fn is_local(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, Some(zone)) if !is_utc(zone))
}

/// Local times of a zone with another offset run off the calendar's ends inside the conversion, and with daylight saving
/// they run backwards.
pub(super) fn is_utc(zone: &str) -> bool {
    ["utc", "z", "+00:00", "-00:00", "+0000", "+00"].iter().any(|utc| zone.eq_ignore_ascii_case(utc))
}
