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

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};
use iceberg::spec::Transform;

use super::calendar::{
    day_from_monday, day_of_month, day_of_year, first_day_of_month, months_since_1970, week_of_year,
};
use super::{Value, Values};

const MINUTES_PER_DAY: i64 = 1_440;
const SECONDS_PER_HOUR: i64 = 3_600;
/// No zone was ever further from UTC.
const FARTHEST_HOURS: i64 = 16;

/// A part of a time that comes again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Quarter,
    Month,
    Week,
    DayOfMonth,
    /// From Sunday = 0.
    DayOfWeek,
    /// From Monday = 0.
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
}

impl Part {
    /// The engine's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Quarter => "quarter",
            Part::Month => "month",
            Part::Week => "week",
            Part::DayOfMonth => "day",
            Part::DayOfWeek => "dow",
            Part::IsoDayOfWeek => "isodow",
            Part::DayOfYear => "doy",
            Part::Hour => "hour",
            Part::Minute => "minute",
        }
    }

    /// All values it has.
    pub(super) fn values(self) -> RangeInclusive<i64> {
        match self {
            Part::Quarter => 1..=4,
            Part::Month => 1..=12,
            Part::Week => 1..=53,
            Part::DayOfMonth => 1..=31,
            Part::DayOfWeek | Part::IsoDayOfWeek => 0..=6,
            Part::DayOfYear => 1..=366,
            Part::Hour => 0..=23,
            Part::Minute => 0..=59,
        }
    }

    /// After so many steps nothing is said. Every value occurs in them, but for the 53rd week and the last day of leap years.
    fn cycle(self) -> i64 {
        match self {
            Part::Quarter => 4,
            Part::Month => 12,
            Part::Week => 52 * 7 + 1,
            // 60 days lie between one 31st and the next at most.
            Part::DayOfMonth => 61,
            Part::DayOfWeek | Part::IsoDayOfWeek => 7,
            Part::DayOfYear => 366,
            Part::Hour => 24,
            Part::Minute => 60,
        }
    }

    /// The step that a minute since 1970 lies in. Steps are counted since 1970.
    fn step(self, minute: i64) -> i64 {
        let day = minute.div_euclid(MINUTES_PER_DAY);
        match self {
            Part::Quarter => months_since_1970(day).div_euclid(3),
            Part::Month => months_since_1970(day),
            Part::Week | Part::DayOfMonth | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => day,
            Part::Hour => minute.div_euclid(60),
            Part::Minute => minute,
        }
    }

    fn value(self, step: i64) -> i64 {
        match self {
            Part::Quarter => step.rem_euclid(4) + 1,
            Part::Month => step.rem_euclid(12) + 1,
            Part::Week => week_of_year(step),
            Part::DayOfMonth => day_of_month(step),
            Part::DayOfWeek => (day_from_monday(step) + 1).rem_euclid(7),
            Part::IsoDayOfWeek => day_from_monday(step),
            Part::DayOfYear => day_of_year(step),
            Part::Hour => step.rem_euclid(24),
            Part::Minute => step.rem_euclid(60),
        }
    }
}

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
mod tests {
    use std::collections::BTreeSet;

    use chrono::{Datelike, Timelike};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const PARTS: [Part; 9] = [
        Part::Quarter,
        Part::Month,
        Part::Week,
        Part::DayOfMonth,
        Part::DayOfWeek,
        Part::IsoDayOfWeek,
        Part::DayOfYear,
        Part::Hour,
        Part::Minute,
    ];

    fn seconds(part: Part) -> Cycle {
        Cycle::new(part, Scale::Ticks { per_minute: 60 }, None)
    }

    fn between(cycle: &Cycle, lower: i64, upper: i64) -> Option<BTreeSet<i64>> {
        let long = |value| match value {
            Value::Long(value) => value,
            other => panic!("{other:?}"),
        };
        Some(cycle.between(&Value::Long(lower), &Value::Long(upper))?.map(long).collect())
    }

    /// By the calendar's own library, as the engine asks it.
    fn naive(part: Part, second: i64) -> i64 {
        let at = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
        i64::from(match part {
            Part::Quarter => at.month0() / 3 + 1,
            Part::Month => at.month(),
            Part::Week => at.iso_week().week(),
            Part::DayOfMonth => at.day(),
            Part::DayOfWeek => at.weekday().num_days_from_sunday(),
            Part::IsoDayOfWeek => at.weekday().num_days_from_monday(),
            Part::DayOfYear => at.ordinal(),
            Part::Hour => at.hour(),
            Part::Minute => at.minute(),
        })
    }

    /// How far apart two seconds may be that no step lies between.
    fn stride(part: Part) -> i64 {
        match part {
            Part::Minute => 60,
            Part::Hour => 3_600,
            _ => 86_400,
        }
    }

    /// All values but the 53rd week and the last day of leap years.
    fn usual(part: Part) -> BTreeSet<i64> {
        let rare = |value: i64| [(Part::Week, 53), (Part::DayOfYear, 366)].contains(&(part, value));
        part.values().filter(|value| !rare(*value)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The values are those that occur, unless nothing is said.
        #[test]
        fn the_values_that_occur(
            part in select(PARTS.to_vec()),
            lower in -70_000_000_000_i64..70_000_000_000,
            strides in 0_i64..400,
            more in 0_i64..86_400,
        ) {
            let upper = lower + strides * stride(part) + more % stride(part);
            let seconds_seen = (lower..=upper).step_by(usize::try_from(stride(part)).unwrap()).chain([upper]);
            let expected: BTreeSet<i64> = seconds_seen.map(|second| naive(part, second)).collect();
            match between(&seconds(part), lower, upper) {
                Some(found) => prop_assert_eq!(found, expected),
                None => prop_assert!(expected.is_superset(&usual(part)), "{:?}", expected),
            }
            prop_assert_eq!(
                seconds(part).value(&Value::Long(lower)),
                Some(Value::Long(naive(part, lower)))
            );
        }
    }

    /// After a cycle every value has occurred (but for the 53rd week and the last day of leap years), and not a step sooner.
    #[test]
    fn cycles_are_as_short_as_they_can_be() {
        for part in PARTS {
            let all_occur = |first: i64, steps: i64| {
                let values: BTreeSet<i64> = (first..first + steps).map(|step| part.value(step)).collect();
                values.is_superset(&usual(part))
            };
            let starts = || -1_000..4_000;
            assert!(starts().all(|first| all_occur(first, part.cycle())), "{part:?}");
            assert!(!starts().all(|first| all_occur(first, part.cycle() - 1)), "{part:?}");
        }
    }

    /// One step less than a cycle is told, a cycle isn't.
    #[test]
    fn nothing_is_said_of_a_cycle() {
        let second = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().timestamp();
        for (part, first, last, next) in [
            (Part::Minute, "2024-01-01T00:00:00Z", "2024-01-01T00:58:59Z", "2024-01-01T00:59:00Z"),
            (Part::Hour, "2024-01-01T00:30:00Z", "2024-01-01T22:59:59Z", "2024-01-01T23:00:00Z"),
            (Part::DayOfWeek, "2024-01-01T12:00:00Z", "2024-01-06T23:59:59Z", "2024-01-07T00:00:00Z"),
            (Part::DayOfYear, "2023-01-01T00:00:00Z", "2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z"),
            (Part::Month, "2024-01-31T00:00:00Z", "2024-11-30T23:59:59Z", "2024-12-01T00:00:00Z"),
            (Part::Quarter, "2024-01-31T00:00:00Z", "2024-09-30T23:59:59Z", "2024-10-01T00:00:00Z"),
        ] {
            let steps = usize::try_from(part.cycle()).unwrap() - 1;
            let told = between(&seconds(part), second(first), second(last));
            assert_eq!(told.map(|values| values.len()), Some(steps), "{part:?}");
            assert_eq!(between(&seconds(part), second(first), second(next)), None, "{part:?}");
        }
    }

    #[test]
    fn ends_of_time() {
        for part in PARTS {
            for (lower, upper) in [(i64::MIN, i64::MAX), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX)] {
                for per_minute in [60_000_000, 60_000_000_000] {
                    let cycle = Cycle::new(part, Scale::Ticks { per_minute }, None);
                    assert_eq!(between(&cycle, lower, upper).is_none(), lower != upper, "{part:?}");
                    let local = Cycle { zone: Some("America/New_York".into()), ..cycle };
                    assert!(lower == upper || between(&local, lower, upper).is_none(), "{part:?}");
                }
                for scale in [Scale::Dates, Scale::Filed(Filed::Year), Scale::Filed(Filed::Hour)] {
                    assert_eq!(between(&Cycle::new(part, scale, None), lower, upper), None);
                }
            }
        }
    }

    /// What partitions stand for: until 1970 the step before may be filed with a step.
    #[test]
    fn partitions() {
        let filed = |part, transform| seconds(part).filed(transform);
        let of = |part, transform, at: i64| {
            let cycle = filed(part, transform).unwrap();
            between(&cycle, at, at).map(|values| values.into_iter().collect::<Vec<_>>())
        };
        // 2026-06-04, a Thursday.
        assert_eq!(of(Part::Month, Transform::Day, 20_608), Some(vec![6]));
        assert_eq!(of(Part::DayOfWeek, Transform::Day, 20_608), Some(vec![4]));
        assert_eq!(of(Part::IsoDayOfWeek, Transform::Day, 20_608), Some(vec![3]));
        assert_eq!(of(Part::DayOfMonth, Transform::Day, 1), Some(vec![2]));
        assert_eq!(of(Part::DayOfMonth, Transform::Day, 0), Some(vec![1, 31]));
        assert_eq!(of(Part::DayOfMonth, Transform::Day, -1), Some(vec![30, 31]));
        assert_eq!(of(Part::Hour, Transform::Hour, 25), Some(vec![1]));
        assert_eq!(of(Part::Hour, Transform::Hour, 0), Some(vec![0, 23]));
        assert_eq!(of(Part::Month, Transform::Month, 677), Some(vec![6]));
        assert_eq!(of(Part::Quarter, Transform::Month, 0), Some(vec![1, 4]));
        assert_eq!(of(Part::DayOfMonth, Transform::Month, 1), Some((1..=28).collect()));
        assert_eq!(of(Part::Week, Transform::Month, 1), Some(vec![5, 6, 7, 8, 9]));
        for (part, transform) in [
            (Part::Month, Transform::Year),
            (Part::DayOfWeek, Transform::Month),
            (Part::Hour, Transform::Day),
            (Part::Minute, Transform::Hour),
            (Part::Month, Transform::Bucket(4)),
        ] {
            assert_eq!(filed(part, transform), None, "{part:?} {transform}");
        }
        let date = Cycle::new(Part::DayOfMonth, Scale::Dates, None);
        assert_eq!(date.filed(Transform::Day), Some(date.clone()));
        assert_eq!(date.filed(Transform::Hour), None);
    }

    /// A day of UTC touches two days of New York, and hours of it are moved by what the clocks say then.
    #[test]
    fn local_time() {
        let local = |part| Cycle { zone: Some("America/New_York".into()), ..seconds(part) };
        let day = 19_792 * 86_400; // 2024-03-10, when clocks go forward at 07:00 UTC
        let of = |part, from: i64, to: i64| {
            between(&local(part), day + from, day + to).map(|values| values.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(of(Part::DayOfMonth, 0, 86_399), Some(vec![9, 10]));
        assert_eq!(of(Part::DayOfMonth, 40 * 3_600, 40 * 3_600), Some(vec![11]));
        // Before the change an hour more is kept than there was.
        assert_eq!(of(Part::Hour, 5 * 3_600, 6 * 3_600), Some(vec![0, 1, 2]));
        assert_eq!(of(Part::Hour, 20 * 3_600, 21 * 3_600), Some(vec![16, 17]));
        assert_eq!(of(Part::Hour, 72 * 3_600, 73 * 3_600), Some(vec![20, 21]));
        assert_eq!(local(Part::Hour).value(&Value::Long(day + 7 * 3_600)), Some(Value::Long(3)));
        assert_eq!(local(Part::Hour).value(&Value::Long(day + 7 * 3_600 - 1)), Some(Value::Long(1)));
        let nowhere = Cycle { zone: Some("Nowhere/Else".into()), ..seconds(Part::DayOfMonth) };
        assert_eq!(nowhere.value(&Value::Long(0)), None);
        assert_eq!(between(&nowhere, 43_200, 43_200).map(|values| values.len()), Some(3));
    }
}
