//! Which values of a recurring part of time occur between two times?
//!
//! ```text
//! month      a day       5               a page of two weeks  5 6          a year   any
//! dow        a day       4               a page of two weeks  any
//! hour       a day       any
//! ```
//!
//! A part takes one step after the other: months, days, hours. Between two times the steps are counted, and each has one
//! value; where they are as many as it takes for all values to occur, nothing is said. So the values are those that occur,
//! or more.
//!
//! Parts are those of the engine's `date_part`: weeks by ISO 8601, `dow` from Sunday = 0, `isodow` from Monday = 0, and of a
//! time in a zone those of its local time.

mod part;

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};
use iceberg::spec::Transform;

use super::calendar::first_day_of_month;
use super::{Value, Values};

pub use part::Part;

const MINUTES_PER_DAY: i64 = 1_440;
const SECONDS_PER_HOUR: i64 = 3_600;
/// No zone was ever further from UTC.
const FARTHEST_HOURS: i64 = 16;

/// Which time a field's value stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scale {
    /// An instant.
    Ticks { per_minute: i64 },
    /// The beginning of a day.
    Dates,
    /// The whole of a year, month, day or hour since 1970 under which rows are filed. Old writers rounded toward 1970: up to
    /// 1970 the step before may be filed there too.
    Filed(Filed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Filed {
    Year,
    Month,
    Day,
    Hour,
}

impl Filed {
    /// The minute since 1970 at which a step begins.
    fn begins(self, ordinal: i64) -> i64 {
        match self {
            Filed::Year => first_day_of_month(ordinal * 12) * MINUTES_PER_DAY,
            Filed::Month => first_day_of_month(ordinal) * MINUTES_PER_DAY,
            Filed::Day => ordinal * MINUTES_PER_DAY,
            Filed::Hour => ordinal * 60,
        }
    }

    /// All values of a part occur in each.
    fn spans(self, part: Part) -> bool {
        match self {
            Filed::Year => true,
            Filed::Month => matches!(part, Part::DayOfWeek | Part::IsoDayOfWeek | Part::Hour | Part::Minute),
            Filed::Day => matches!(part, Part::Hour | Part::Minute),
            Filed::Hour => part == Part::Minute,
        }
    }
}

/// A recurring part of the time that a field's values stand for, of local time in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    part: Part,
    scale: Scale,
    /// `None` for UTC, and for times without zone.
    zone: Option<Arc<str>>,
}

impl Cycle {
    pub(super) fn new(part: Part, scale: Scale, zone: Option<Arc<str>>) -> Cycle {
        Cycle { part, scale, zone }
    }

    pub(super) fn part(&self) -> Part {
        self.part
    }

    pub(super) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The same part of what a partition field of the transform stands for; `None` if every partition may hold all values.
    pub(super) fn filed(&self, transform: Transform) -> Option<Cycle> {
        let filed = match transform {
            Transform::Year => Filed::Year,
            Transform::Month => Filed::Month,
            // A date is its own day.
            Transform::Day if self.scale == Scale::Dates => return Some(self.clone()),
            Transform::Day => Filed::Day,
            Transform::Hour if self.scale != Scale::Dates => Filed::Hour,
            _ => return None,
        };
        (!filed.spans(self.part)).then(|| Cycle { scale: Scale::Filed(filed), ..self.clone() })
    }

    /// The values that aren't listed.
    pub(super) fn others(&self, values: &Values) -> Values {
        self.part.values().map(Value::Long).filter(|value| !values.holds(value)).collect()
    }

    /// The part's value at an instant; `None` of what isn't one, and where the zone isn't known.
    pub(super) fn value(&self, at: &Value) -> Option<Value> {
        let Value::Long(at) = *at else { return None };
        let minute = match (self.scale, &self.zone) {
            (Scale::Ticks { per_minute }, Some(zone)) => {
                let per_second = per_minute / 60;
                let second = at.div_euclid(per_second);
                (second + offset(Tz::from_str(zone).ok()?, second)?).div_euclid(60)
            }
            (Scale::Ticks { per_minute }, None) => at.div_euclid(per_minute),
            (Scale::Dates, _) => i64::from(i32::try_from(at).ok()?) * MINUTES_PER_DAY,
            (Scale::Filed(_), _) => return None,
        };
        Some(Value::Long(self.part.value(self.part.step(minute))))
    }

    /// The values that may occur from one of the field's values to another, both included; `None` if any may.
    pub(super) fn between(&self, lower: &Value, upper: &Value) -> Option<impl Iterator<Item = Value> + use<>> {
        let (first, last) = self.local(self.minutes(lower)?.0, self.minutes(upper)?.1);
        let part = self.part;
        let (first, last) = (part.step(first), part.step(last));
        (last - first + 1 < part.cycle()).then(|| (first..=last).map(move |step| Value::Long(part.value(step))))
    }

    /// The first and last minute since 1970 that a value of the field stands for.
    fn minutes(&self, value: &Value) -> Option<(i64, i64)> {
        let Value::Long(value) = *value else { return None };
        match self.scale {
            Scale::Ticks { per_minute } => {
                let minute = value.div_euclid(per_minute);
                Some((minute, minute))
            }
            Scale::Dates => {
                let minute = i64::from(i32::try_from(value).ok()?) * MINUTES_PER_DAY;
                Some((minute, minute))
            }
            Scale::Filed(filed) => {
                let ordinal = i64::from(i32::try_from(value).ok()?);
                let first = if ordinal <= 0 { ordinal - 1 } else { ordinal };
                Some((filed.begins(first), filed.begins(ordinal + 1) - 1))
            }
        }
    }

    /// From the first to the last minute of local time. Local time may run backwards, but never further than zones are
    /// apart: whatever comes later than that after the first minute is later in local time too.
    fn local(&self, first: i64, last: i64) -> (i64, i64) {
        let Some(zone) = &self.zone else { return (first, last) };
        let zone = Tz::from_str(zone).ok();
        let (first_hour, last_hour) = (first.div_euclid(60), last.div_euclid(60) + 1);
        let apart = 2 * FARTHEST_HOURS + 1;
        let least = zone.and_then(|zone| offsets(zone, first_hour..=first_hour + apart)?.min());
        let most = zone.and_then(|zone| offsets(zone, last_hour - apart..=last_hour)?.max());
        let farthest = FARTHEST_HOURS * SECONDS_PER_HOUR;
        let (least, most) = (least.unwrap_or(-farthest), most.unwrap_or(farthest));
        // With an offset of seconds, a minute of one lies in two of the other.
        (first + least.div_euclid(60), last - (-most).div_euclid(60))
    }
}

/// The zone's offsets at the beginning of each hour, in seconds; `None` where the calendar of its clocks ends. No clocks
/// were changed twice within an hour.
fn offsets(zone: Tz, hours: RangeInclusive<i64>) -> Option<impl Iterator<Item = i64>> {
    let offsets: Option<Vec<_>> = hours.map(|hour| offset(zone, hour * SECONDS_PER_HOUR)).collect();
    Some(offsets?.into_iter())
}

/// How far local time is ahead of UTC, in seconds, at a second since 1970.
fn offset(zone: Tz, second: i64) -> Option<i64> {
    let at = DateTime::from_timestamp(second, 0)?.naive_utc();
    Some(i64::from(zone.offset_from_utc_datetime(&at).fix().local_minus_utc()))
}

#[cfg(test)]
mod tests;
