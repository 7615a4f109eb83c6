//! Which parts of a time come again and again, and in which steps?

use std::ops::RangeInclusive;

use super::MINUTES_PER_DAY;
use crate::predicate::calendar::{day_from_monday, day_of_month, day_of_year, months_since_1970, week_of_year};

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
    pub(in crate::predicate) fn name(self) -> &'static str {
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
    pub(in crate::predicate) fn values(self) -> RangeInclusive<i64> {
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
    pub(super) fn cycle(self) -> i64 {
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
    pub(super) fn step(self, minute: i64) -> i64 {
        let day = minute.div_euclid(MINUTES_PER_DAY);
        match self {
            Part::Quarter => months_since_1970(day).div_euclid(3),
            Part::Month => months_since_1970(day),
            Part::Week | Part::DayOfMonth | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => day,
            Part::Hour => minute.div_euclid(60),
            Part::Minute => minute,
        }
    }

    pub(super) fn value(self, step: i64) -> i64 {
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
