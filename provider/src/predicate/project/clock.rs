//! Which year, month, day or hour does a time lie in?

use iceberg::spec::PrimitiveType;

const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
}

/// A time transform over a type: ticks of the column to ordinals since 1970.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    part: Part,
    /// Of the column's values; `None` for a date, whose values are days.
    ticks_per_second: Option<i64>,
}

impl Clock {
    pub(super) fn new(part: Part, source: &PrimitiveType) -> Option<Clock> {
        let ticks_per_second = match source {
            PrimitiveType::Date if part != Part::Hour => None,
            PrimitiveType::Timestamp | PrimitiveType::Timestamptz => Some(1_000_000),
            PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => Some(1_000_000_000),
            _ => return None,
        };
        Some(Clock { part, ticks_per_second })
    }

    /// The ordinal of the part that holds `tick`, rounding down; `None` if it is no int, which is what partitions hold.
    pub(super) fn ordinal(self, tick: i64) -> Option<i64> {
        let day = |tick: i64| match self.ticks_per_second {
            None => tick,
            Some(ticks) => tick.div_euclid(ticks * SECONDS_PER_DAY),
        };
        let ordinal = match self.part {
            Part::Hour => tick.div_euclid(self.ticks_per_second? * SECONDS_PER_HOUR),
            Part::Day => day(tick),
            Part::Month => months_since_1970(day(tick)),
            Part::Year => months_since_1970(day(tick)).div_euclid(12),
        };
        i32::try_from(ordinal).ok().map(i64::from)
    }

    /// Each part holds one value only, so that nothing is lost by the transform.
    pub(super) fn is_identity(self) -> bool {
        self.part == Part::Day && self.ticks_per_second.is_none()
    }
}

/// Months since January 1970 of a day since 1970-01-01, in the proleptic Gregorian calendar, for any day.
fn months_since_1970(day: i64) -> i64 {
    // Count from 0000-03-01: then a leap day is the last of its year, and a cycle of 400 years (146,097 days) starts.
    let shifted = day + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March have 31 30 31 30 31 | 31 30 31 30 31 | 31 28 days: 153 days in five of them.
    let month_from_march = (5 * day_of_year + 2) / 153;
    (cycle * 400 + year_of_cycle) * 12 + month_from_march + 2 - 1_970 * 12
}
