//! Which moment does a literal name, to the last digit?
//!
//! ```text
//! '1500-01-01 00:00:00.0000015'        Local   -14831769599999998500 ns on somebody's clock
//! '2024-01-02T00:00:00+09:00'          Instant  1704121200000000000 ns after 1970-01-01T00:00:00Z
//! ```
//!
//! Moments are counted in nanoseconds as `i128`, which holds every year that can be written here; digits beyond the
//! ninth are kept as one bit, enough to compare with any value that a column can hold.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use datafusion::scalar::ScalarValue;

use crate::error::{Code, Error, Result};

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
/// The Gregorian calendar repeats after 400 years: 146,097 days, which are whole weeks.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// Seconds that `chrono` surely represents: about 250,000 years to each side.
const CHRONO_SECONDS: i64 = 7_889_400_000_000;

/// A number of nanoseconds, and whether a fraction of a nanosecond follows. The derived order is that of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exact {
    pub(super) nanos: i128,
    pub(super) more: bool,
}

impl Exact {
    pub(super) fn new(nanos: i128) -> Self {
        Exact { nanos, more: false }
    }

    /// The largest multiple of `per` that is not above, in units of `per`, and whether it is the same.
    pub(super) fn floor(self, per: i128) -> (i128, bool) {
        let count = self.nanos.div_euclid(per);
        (count, !self.more && count * per == self.nanos)
    }

    /// Without what is finer than `per`, cut towards 1970 as Arrow's casts between timestamps do.
    pub(super) fn cut(self, per: i128) -> Self {
        Exact::new(self.nanos / per * per)
    }

    /// The largest multiple of `per` that is not above.
    pub(super) fn floored(self, per: i128) -> Self {
        Exact::new(self.floor(per).0 * per)
    }

    fn plus_seconds(self, seconds: i32) -> Self {
        Exact { nanos: self.nanos + i128::from(seconds) * SECOND, more: self.more }
    }

    /// What a clock in `zone` shows at this instant.
    pub(super) fn on_clock(self, zone: &Tz) -> Self {
        self.plus_seconds(offset_at(zone, self.seconds()))
    }

    /// The instant at which a clock in `zone` shows this. Where clocks were turned back, the earlier of the two; where
    /// they skipped this reading, as if they had not been turned yet.
    pub(super) fn in_zone(self, zone: &Tz) -> Self {
        self.plus_seconds(-offset_for(zone, self.seconds()))
    }

    fn seconds(self) -> i64 {
        // Literals have at most seven digits of year, far from the ends of i64.
        i64::try_from(self.nanos.div_euclid(SECOND)).unwrap_or_default()
    }
}

/// A moment, as a literal names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Moment {
    /// A date and time of a clock whose zone is not said.
    Local(Exact),
    /// An instant; the zone is that of the literal's type, `None` where only its text had one.
    Instant(Exact, Option<Arc<str>>),
}

impl Moment {
    /// Parses ISO 8601 text and what is near it: a date (`2024-01-02`, also one digit for month and day), then
    /// optionally `T` or a space and a time (`12:30`, `12:30:15`, `12:30:15.5`, `123015`; seconds up to 60), then optionally a
    /// zone (`Z`, `+09`, `+09:00`, `+0900`, `+09:18:59`, `Asia/Tokyo`). Years have four digits, or up to seven with or without a sign.
    /// Any number of digits may follow the decimal point.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut cursor = Cursor { rest: text.trim() };
        cursor.moment().ok_or_else(|| {
            Error::new(Code::InvalidValue, format!("'{text}' is not a date or timestamp"))
                .with("literal", text)
                .help("write it like '2024-01-31', '2024-01-31 12:30:00.5' or '2024-01-31T12:30:00Z'")
        })
    }

    /// The moment of a date or timestamp that isn't null.
    pub(super) fn of_scalar(value: &ScalarValue) -> Option<Self> {
        let kind = Kind::of(&value.data_type())?;
        let count = match value {
            ScalarValue::Date32(v) => v.map(i128::from),
            ScalarValue::Date64(v)
            | ScalarValue::TimestampSecond(v, _)
            | ScalarValue::TimestampMillisecond(v, _)
            | ScalarValue::TimestampMicrosecond(v, _)
            | ScalarValue::TimestampNanosecond(v, _) => v.map(i128::from),
            _ => None,
        }?;
        let at = Exact::new(count * kind.per);
        Some(match kind.zone {
            Some(zone) => Moment::Instant(at, Some(zone)),
            None => Moment::Local(at),
        })
    }

    pub(super) fn map(self, f: impl Fn(Exact) -> Exact) -> Self {
        match self {
            Moment::Local(at) => Moment::Local(f(at)),
            Moment::Instant(at, zone) => Moment::Instant(f(at), zone),
        }
    }
}

/// What matters about a date or timestamp type: nanoseconds per unit, and the zone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) data_type: DataType,
    /// Nanoseconds per unit of the stored integer.
    pub(super) per: i128,
    /// The zone in which the value is read: the type's, or one that a cast around the value chose.
    pub(super) zone: Option<Arc<str>>,
}

impl Kind {
    /// `None` for types that are neither date nor timestamp.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        let (per, zone) = match data_type {
            DataType::Date32 => (DAY, None),
            DataType::Date64 => (SECOND / 1_000, None),
            DataType::Timestamp(TimeUnit::Second, zone) => (SECOND, zone.clone()),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => (SECOND / 1_000, zone.clone()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => (SECOND / 1_000_000, zone.clone()),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => (1, zone.clone()),
            _ => return None,
        };
        Some(Kind { data_type: data_type.clone(), per, zone })
    }

    /// The type with the same unit and another zone. A date counts as a timestamp in seconds.
    pub(super) fn with_zone(&self, zone: Option<Arc<str>>) -> DataType {
        let unit = match &self.data_type {
            DataType::Timestamp(unit, _) => *unit,
            DataType::Date64 => TimeUnit::Millisecond,
            _ => TimeUnit::Second,
        };
        DataType::Timestamp(unit, zone)
    }

    /// Smallest and largest stored integer.
    pub(super) fn range(&self) -> (i128, i128) {
        match self.data_type {
            DataType::Date32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
        }
    }

    /// The value that is stored as `count`; `None` where the type can't hold it.
    pub(super) fn scalar(&self, count: i128) -> Option<ScalarValue> {
        if let DataType::Date32 = self.data_type {
            return Some(ScalarValue::Date32(Some(i32::try_from(count).ok()?)));
        }
        let count = Some(i64::try_from(count).ok()?);
        Some(match &self.data_type {
            DataType::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(count, zone.clone()),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => ScalarValue::TimestampMillisecond(count, zone.clone()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => ScalarValue::TimestampMicrosecond(count, zone.clone()),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => ScalarValue::TimestampNanosecond(count, zone.clone()),
            _ => ScalarValue::Date64(count),
        })
    }
}

/// Where clocks stand when nobody says so.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    session: Option<Arc<str>>,
}

impl Zones {
    /// `session` is `datafusion.execution.time_zone`.
    pub(super) fn new(session: Option<&str>) -> Self {
        Zones { session: session.filter(|zone| !zone.is_empty()).map(Arc::from) }
    }

    /// The zone in which a zone-less literal is read that meets a value of a type with `zone`: the session's for UTC
    /// (stored columns are always UTC), else the zone that somebody chose for the value.
    pub(super) fn reading(&self, zone: &Arc<str>) -> Arc<str> {
        match &self.session {
            Some(session) if is_utc(zone) => Arc::clone(session),
            _ => Arc::clone(zone),
        }
    }
}

/// Whether a zone is UTC under one of its names, so that its clock readings are instants.
pub(super) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "Z" | "Zulu" | "GMT" | "+00:00" | "-00:00" | "+0000" | "-0000" | "+00" | "-00")
}

/// A zone by its name or offset.
pub(super) fn zone(name: &str) -> Result<Tz> {
    let name = if name.eq_ignore_ascii_case("z") { "UTC" } else { name };
    name.parse().map_err(|_| {
        Error::new(Code::InvalidValue, format!("'{name}' is not a time zone"))
            .with("zone", name)
            .help("write an offset like '+09:00' or a name like 'Asia/Tokyo'")
    })
}

/// Seconds that clocks in `zone` are ahead of UTC at the instant `seconds`.
fn offset_at(zone: &Tz, seconds: i64) -> i32 {
    naive(seconds).map_or(0, |utc| zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
}

/// Seconds that clocks in `zone` are ahead of UTC when they show `seconds`: see [`Exact::in_zone`].
fn offset_for(zone: &Tz, seconds: i64) -> i32 {
    let Some(local) = naive(seconds) else { return 0 };
    match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) => offset.fix().local_minus_utc(),
        LocalResult::Ambiguous(one, other) => one.fix().local_minus_utc().max(other.fix().local_minus_utc()),
        // Skipped. A zone is at most 14 hours from UTC and skips at most a day, so this is before the skip.
        LocalResult::None => offset_at(zone, seconds.saturating_sub(40 * 3_600)),
    }
}

/// The date and time of `seconds`; years that `chrono` can't hold move by whole cycles of the calendar, in which
/// rules of a zone don't change any more.
fn naive(seconds: i64) -> Option<NaiveDateTime> {
    let within = if seconds > CHRONO_SECONDS {
        CYCLE_SECONDS * 500 + seconds % CYCLE_SECONDS
    } else if seconds < -CHRONO_SECONDS {
        CYCLE_SECONDS * -500 + seconds % CYCLE_SECONDS
    } else {
        seconds
    };
    DateTime::from_timestamp(within, 0).map(|at| at.naive_utc())
}

/// Text that is left to parse. Every method returns `None` where the text doesn't fit.
struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn moment(&mut self) -> Option<Moment> {
        let days = self.date()?;
        let mut local = Exact::new(i128::from(days) * DAY);
        if self.rest.is_empty() {
            return Some(Moment::Local(local));
        }
        if !(self.take('T') || self.take('t') || self.take(' ')) {
            return None;
        }
        self.rest = self.rest.trim_start();
        let time = self.time()?;
        local = Exact { nanos: local.nanos + time.nanos, more: time.more };
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Some(Moment::Local(local));
        }
        if let Some(ahead) = self.offset_with_seconds() {
            return Some(Moment::Instant(local.plus_seconds(-ahead), None));
        }
        let zone = zone(self.rest).ok()?;
        Some(Moment::Instant(local.in_zone(&zone), None))
    }

    /// Days since 1970-01-01 in the proleptic Gregorian calendar, with a year 0.
    fn date(&mut self) -> Option<i64> {
        let negative = self.take('-');
        let _plus = !negative && self.take('+');
        let year = self.digits(4, 7)?;
        let year = if negative { -year } else { year };
        let month = self.take('-').then(|| self.digits(1, 2)).flatten()?;
        let day = self.take('-').then(|| self.digits(1, 2)).flatten()?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return None,
        };
        (1..=length).contains(&day).then(|| days_before(year, month) + day - 1)
    }

    fn time(&mut self) -> Option<Exact> {
        let compact = self.rest.bytes().take_while(u8::is_ascii_digit).count() == 6;
        let hour = if compact { self.digits(2, 2)? } else { self.digits(1, 2)? };
        let minute = if compact || self.take(':') { self.digits(2, 2)? } else { return None };
        let second = if compact || self.take(':') { Some(self.digits(2, 2)?) } else { None };
        let (mut nanos, mut more) = (0, false);
        if second.is_some() && self.take('.') {
            (nanos, more) = self.fraction()?;
        }
        let second = second.unwrap_or(0);
        // Second 60 is a leap second; it counts as the next minute's first, as in Arrow.
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let seconds = i128::from(hour * 3_600 + minute * 60 + second);
        Some(Exact { nanos: seconds * SECOND + nanos, more })
    }

    /// `+09:18:59`, as zones had before there were time zones: seconds ahead of UTC.
    fn offset_with_seconds(&self) -> Option<i32> {
        let mut cursor = Cursor { rest: self.rest };
        let west = cursor.take('-');
        if !west && !cursor.take('+') {
            return None;
        }
        let hours = cursor.digits(2, 2)?;
        let minutes = cursor.take(':').then(|| cursor.digits(2, 2)).flatten()?;
        let seconds = cursor.take(':').then(|| cursor.digits(2, 2)).flatten()?;
        let ahead = i32::try_from(hours * 3_600 + minutes * 60 + seconds).ok()?;
        let valid = hours < 24 && minutes < 60 && seconds < 60 && cursor.rest.is_empty();
        valid.then_some(if west { -ahead } else { ahead })
    }

    /// Digits after the decimal point: nanoseconds, and whether more follows.
    fn fraction(&mut self) -> Option<(i128, bool)> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (all, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        let (first, beyond) = all.split_at_checked(digits.min(9))?;
        let scale = 10_i128.pow(u32::try_from(9 - first.len()).ok()?);
        let nanos = first.parse::<i128>().ok()? * scale;
        Some((nanos, beyond.bytes().any(|digit| digit != b'0')))
    }

    fn take(&mut self, expected: char) -> bool {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A number of `least` to `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        if count < least { None } else { digits.parse().ok() }
    }
}

/// Days from 1970-01-01 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    // Years from March on, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    // Lengths from March: 31 30 31 30 31, twice, then 31 and February.
    let day_of_year = (153 * month + 2) / 5;
    let day_of_era = year * 365 + year / 4 - year / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
