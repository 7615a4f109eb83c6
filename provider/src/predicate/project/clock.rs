//! Which year, month, day or hour does a time lie in?

use iceberg::spec::PrimitiveType;

use super::super::calendar::months_since_1970;

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
