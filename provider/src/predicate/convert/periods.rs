//! Where do functions that take a time to the beginning of a period, or count periods, keep its order?
//!
//! Each says of which times: beyond them the engine fails, or multiplies past the end of a type.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::scalar::ScalarValue;

use super::column::{NANOS_PER_DAY, as_text, nanos_per};
use super::monotone::Searched;
use super::order::{is_local, is_utc};
use super::{A_FUNCTION, LOCAL_TIME, NOT_ORDERED, RECURRING, TWO_COLUMNS, constant_of};

/// `date_trunc`. Days and less of a time without zone are counted off in its own unit; the rest goes through nanoseconds,
/// and what these can't count is multiplied beyond its type.
pub(super) fn truncated(unit: &Arc<dyn PhysicalExpr>, inner: Searched) -> Result<Searched, &'static str> {
    let unit = constant_of(unit).as_ref().and_then(as_text).map(str::to_lowercase).ok_or(TWO_COLUMNS)?;
    let counted_off = match unit.as_str() {
        "microsecond" => Some(1_000),
        "millisecond" => Some(1_000_000),
        "second" => Some(1_000_000_000),
        "minute" => Some(60_000_000_000),
        "hour" => Some(NANOS_PER_DAY / 24),
        "day" => Some(NANOS_PER_DAY),
        _ => None,
    };
    let (ticks, zone) = match inner.data_type() {
        Some(DataType::Time64(_)) => return Ok(inner),
        Some(DataType::Timestamp(ticks, zone)) => (ticks, zone),
        _ => return Err(A_FUNCTION),
    };
    if let Some(length) = counted_off.filter(|length| zone.is_none() || *length <= 60_000_000_000) {
        let length = length / nanos_per(&ticks);
        if length <= 1 {
            return Ok(inner);
        }
        // Of the least times the beginning is beyond their type: there it fails.
        let least = i128::from(i64::MIN);
        let first = least - least.rem_euclid(length) + length;
        return inner.failing_below(&time(first * nanos_per(&ticks), ticks, zone.as_ref())).ok_or(NOT_ORDERED);
    }
    if zone.as_deref().is_some_and(|zone| !is_utc(zone)) {
        return Err(LOCAL_TIME);
    }
    // 1678 to 2261, so that the beginning of no year is left out.
    let edge = 106_650 * NANOS_PER_DAY;
    let (first, last) = (time(-edge, ticks, zone.as_ref()), time(edge, ticks, zone.as_ref()));
    inner.limited(&first, &last).ok_or(NOT_ORDERED)
}

/// `date_part` of what doesn't come again: years, and seconds since 1970.
pub(super) fn part_of(part: &Arc<dyn PhysicalExpr>, inner: Searched) -> Result<Searched, &'static str> {
    let part = constant_of(part).as_ref().and_then(as_text).map(str::to_lowercase).ok_or(TWO_COLUMNS)?;
    let ty = inner.data_type();
    let is_time = matches!(ty, Some(DataType::Timestamp(_, _) | DataType::Date32));
    match part.trim_matches(['\'', '"']) {
        "epoch" if is_time => Ok(inner),
        "year" | "years" | "isoyear" if is_time => match ty {
            Some(ty) if is_local(&ty) => Err(LOCAL_TIME),
            _ => Ok(inner),
        },
        _ => Err(RECURRING),
    }
}

/// `date_bin` counts nanoseconds from an origin, without a look at overflow: in a span of years around 1970 there is none.
pub(super) fn binned(
    stride: &Arc<dyn PhysicalExpr>,
    inner: Searched,
    origin: &[Arc<dyn PhysicalExpr>],
) -> Result<Searched, &'static str> {
    const SPAN: i128 = 1 << 61;
    let origin = match origin {
        [] => 0,
        [origin] => constant_of(origin).as_ref().and_then(super::literal::instant).ok_or(A_FUNCTION)?,
        _ => return Err(A_FUNCTION),
    };
    let Some(DataType::Timestamp(ticks, zone)) = inner.data_type() else { return Err(A_FUNCTION) };
    let first = match constant_of(stride) {
        Some(ScalarValue::IntervalMonthDayNano(Some(stride))) => {
            let nanos = i128::from(stride.days) * NANOS_PER_DAY + i128::from(stride.nanoseconds);
            match stride.months {
                0 if (1..SPAN).contains(&nanos) => -2 * SPAN,
                // Months are counted with fractions of a second only from 1970 on.
                1..=1_000 if nanos == 0 && origin >= 0 => 0,
                _ => return Err(A_FUNCTION),
            }
        }
        Some(ScalarValue::IntervalDayTime(Some(stride))) => {
            let nanos = i128::from(stride.days) * NANOS_PER_DAY + i128::from(stride.milliseconds) * 1_000_000;
            if !(1..SPAN).contains(&nanos) {
                return Err(A_FUNCTION);
            }
            -2 * SPAN
        }
        _ => return Err(A_FUNCTION),
    };
    if origin.abs() >= SPAN {
        return Err(A_FUNCTION);
    }
    let (first, last) = (time(first, ticks, zone.as_ref()), time(2 * SPAN, ticks, zone.as_ref()));
    inner.limited(&first, &last).ok_or(NOT_ORDERED)
}

/// Nanoseconds since 1970 as a timestamp, rounded toward 1970.
fn time(nanos: i128, unit: TimeUnit, zone: Option<&Arc<str>>) -> ScalarValue {
    let ticks = i64::try_from(nanos / nanos_per(&unit)).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
    let zone = zone.cloned();
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(Some(ticks), zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(ticks), zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(ticks), zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(ticks), zone),
    }
}
