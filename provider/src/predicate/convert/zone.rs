//! How far does a function of time move an instant?
//!
//! Where order isn't kept (local time runs backwards when summer ends, the last days of a month fall together when months
//! are added), what a function returns is still near what it was given. Then a comparison of the one bounds the other:
//!
//! ```text
//! date_trunc('day', ts AT TIME ZONE 'America/New_York') = D        between D and a day later, give or take
//!                                                                  what the zone's clocks were changed by around D
//! ```
//!
//! Rows outside are ruled out, rows inside are tested.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, Offset, TimeZone};
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::functions::datetime::to_date::ToDateFunc;
use datafusion::functions::datetime::to_local_time::ToLocalTimeFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;

use super::super::functions::DateTrunc;
use super::super::{Op, Predicate};
use super::column::{Kind, NANOS_PER_DAY, Slot, as_text, column_of, nanos_per};
use super::order::{cast_of, is_utc};
use super::truth::Truth;
use super::{Scope, constant_of, literal};

const NANOS_PER_HOUR: i128 = 3_600_000_000_000;
/// No zone was ever further from UTC.
const FARTHEST: i128 = 16 * NANOS_PER_HOUR;
/// Clocks of no zone were changed twice within an hour; a window of more hours than this is not looked through.
const HOURS_SEEN: i128 = 2_000;
/// What truncation through nanoseconds can't count: before 1678 and after 2261.
const COUNTED: i128 = 106_650 * NANOS_PER_DAY;

/// Where `expr op value` may be true, of a function of time that doesn't keep order; `None` if it isn't one.
pub(super) fn compare(
    expr: &Arc<dyn PhysicalExpr>,
    op: Op,
    value: &ScalarValue,
    scope: &Scope<'_>,
    gap: &'static str,
) -> Option<Truth> {
    let at = literal::instant(value)?;
    let widest = Reach { seen: None }.of(expr, scope)?;
    let span = widest.most - widest.least;
    let seen = at - widest.most - span - 2 * NANOS_PER_DAY..=at - widest.least + span + 2 * NANOS_PER_DAY;
    let moved = Reach { seen: Some(seen) }.of(expr, scope)?;
    let slot = &moved.slot;
    let from = || literal::at_nanos(slot, Op::GtEq, at - moved.most);
    let to = || literal::at_nanos(slot, Op::LtEq, at - moved.least);
    let near = match op {
        Op::Eq => Predicate::and([from(), to()]),
        Op::NotEq => Predicate::IsNotNull { field: slot.field },
        Op::Lt | Op::LtEq => to(),
        Op::Gt | Op::GtEq => from(),
    };
    let possible = match moved.counted {
        true => near,
        false => {
            Predicate::or([near, literal::at_nanos(slot, Op::Lt, -COUNTED), literal::at_nanos(slot, Op::Gt, COUNTED)])
        }
    };
    Some(Truth::within(possible, gap))
}

/// How far a function moves a column's instants, in nanoseconds.
struct Moved {
    slot: Slot,
    least: i128,
    most: i128,
    /// No step of it overflows somewhere.
    counted: bool,
}

impl Moved {
    fn by(mut self, by: RangeInclusive<i128>) -> Moved {
        self.least += by.start();
        self.most += by.end();
        self
    }
}

/// What is known of zones: their offsets in a window of time, or no more than that there are bounds.
struct Reach {
    seen: Option<RangeInclusive<i128>>,
}

impl Reach {
    fn of(&self, expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<Moved> {
        let any = expr.as_any();
        if column_of(expr, scope.arrow).is_some() {
            let slot = Slot::of(expr, scope.arrow, scope.schema)?;
            let instant = slot.same_type && matches!(slot.kind, Kind::Instant { .. });
            return instant.then_some(Moved { slot, least: 0, most: 0, counted: true });
        }
        if let Some((inner, to)) = cast_of(expr) {
            return self.cast(inner, to, scope);
        }
        if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
            return self.step(binary, scope);
        }
        let function = any.downcast_ref::<ScalarFunctionExpr>()?;
        let called = function.fun().inner().as_any();
        match function.args() {
            [unit, inner] if called.is::<DateTruncFunc>() || called.is::<DateTrunc>() => {
                self.truncate(unit, inner, scope)
            }
            [inner] if called.is::<ToDateFunc>() => self.cast(inner, &DataType::Date32, scope),
            [inner] if called.is::<ToLocalTimeFunc>() => {
                let zone = zone_of(inner, scope)?;
                Some(self.of(inner, scope)?.by(self.offsets(zone.as_deref())))
            }
            _ => None,
        }
    }

    fn cast(&self, inner: &Arc<dyn PhysicalExpr>, to: &DataType, scope: &Scope<'_>) -> Option<Moved> {
        let from = inner.data_type(scope.arrow).ok()?;
        let moved = self.of(inner, scope)?;
        Some(match (&from, to) {
            (DataType::Timestamp(_, None) | DataType::Date32, DataType::Timestamp(unit, zone)) => {
                let offsets = self.offsets(zone.as_deref());
                moved.by(-offsets.end()..=-offsets.start()).by(rounded(unit))
            }
            (DataType::Timestamp(_, Some(_)), DataType::Timestamp(unit, _)) => moved.by(rounded(unit)),
            (DataType::Timestamp(_, zone), DataType::Date32) => {
                moved.by(self.offsets(zone.as_deref())).by(1 - NANOS_PER_DAY..=0)
            }
            (DataType::Date32, DataType::Date32) => moved,
            _ => return None,
        })
    }

    fn truncate(
        &self,
        unit: &Arc<dyn PhysicalExpr>,
        inner: &Arc<dyn PhysicalExpr>,
        scope: &Scope<'_>,
    ) -> Option<Moved> {
        let unit = constant_of(unit).as_ref().and_then(as_text).map(str::to_lowercase)?;
        let DataType::Timestamp(ticks, zone) = inner.data_type(scope.arrow).ok()? else { return None };
        let length = match unit.as_str() {
            "microsecond" | "millisecond" | "second" | "minute" => NANOS_PER_HOUR / 60,
            "hour" => NANOS_PER_HOUR,
            "day" => NANOS_PER_DAY,
            "week" => 7 * NANOS_PER_DAY,
            "month" => 31 * NANOS_PER_DAY,
            "quarter" => 92 * NANOS_PER_DAY,
            "year" => 366 * NANOS_PER_DAY,
            _ => return None,
        };
        let offsets = self.offsets(zone.as_deref());
        let changed = offsets.end() - offsets.start();
        let mut moved = self.of(inner, scope)?.by(1 - length - changed..=changed);
        moved.counted &= ticks == TimeUnit::Nanosecond || length < NANOS_PER_HOUR;
        Some(moved)
    }

    fn step(&self, binary: &BinaryExpr, scope: &Scope<'_>) -> Option<Moved> {
        let (inner, step, sign) = match (binary.op(), constant_of(binary.left()), constant_of(binary.right())) {
            (Operator::Plus, None, Some(step)) => (binary.left(), step, 1),
            (Operator::Plus, Some(step), None) => (binary.right(), step, 1),
            (Operator::Minus, None, Some(step)) => (binary.left(), step, -1),
            _ => return None,
        };
        let (months, nanos) = match step {
            ScalarValue::IntervalMonthDayNano(Some(step)) => {
                (i128::from(step.months), i128::from(step.days) * NANOS_PER_DAY + i128::from(step.nanoseconds))
            }
            ScalarValue::IntervalYearMonth(Some(months)) => (i128::from(months), 0),
            ScalarValue::IntervalDayTime(Some(step)) => {
                (0, i128::from(step.days) * NANOS_PER_DAY + i128::from(step.milliseconds) * 1_000_000)
            }
            _ => return None,
        };
        let DataType::Timestamp(unit, zone) = inner.data_type(scope.arrow).ok()? else { return None };
        // 400 years have 4,800 months and 146,097 days; so many months in a row differ from that by a few days.
        let around = sign * (months * 146_097 * NANOS_PER_DAY / 4_800 + nanos);
        let few = if months == 0 { 0 } else { 7 * NANOS_PER_DAY };
        let offsets = self.offsets(zone.as_deref());
        let changed = offsets.end() - offsets.start();
        Some(self.of(inner, scope)?.by(around - few - changed..=around + few + changed).by(rounded(&unit)))
    }

    /// The offsets that a zone has in the window.
    fn offsets(&self, zone: Option<&str>) -> RangeInclusive<i128> {
        let Some(zone) = zone.filter(|zone| !is_utc(zone)) else { return 0..=0 };
        self.looked_up(zone).unwrap_or(-FARTHEST..=FARTHEST)
    }

    fn looked_up(&self, zone: &str) -> Option<RangeInclusive<i128>> {
        let (zone, seen) = (Tz::from_str(zone).ok()?, self.seen.as_ref()?);
        let (first, last) = (seen.start().div_euclid(NANOS_PER_HOUR), seen.end().div_euclid(NANOS_PER_HOUR) + 1);
        if last - first > HOURS_SEEN {
            return None;
        }
        let mut offsets: Option<(i128, i128)> = None;
        for hour in first..=last {
            let at = DateTime::from_timestamp(i64::try_from(hour * 3_600).ok()?, 0)?.naive_utc();
            let offset = i128::from(zone.offset_from_utc_datetime(&at).fix().local_minus_utc()) * 1_000_000_000;
            offsets = Some(offsets.map_or((offset, offset), |(least, most)| (least.min(offset), most.max(offset))));
        }
        offsets.map(|(least, most)| least..=most)
    }
}

/// By how much a conversion to a coarser unit rounds, toward 1970.
fn rounded(unit: &TimeUnit) -> RangeInclusive<i128> {
    let tick = nanos_per(unit);
    if tick == 1 { 0..=0 } else { -tick..=tick }
}

fn zone_of(expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<Option<Arc<str>>> {
    match expr.data_type(scope.arrow).ok()? {
        DataType::Timestamp(_, zone) => Some(zone),
        _ => None,
    }
}
