//! How is a moment, a day or a span of time written?
//!
//! ```text
//! timestamp, UTC      2026-06-04T12:00:00Z        2026-06-04T12:00:00.250Z
//! timestamp, zone     2026-06-04T14:00:00+02:00   timestamp, no zone   2026-06-04T12:00:00
//! date  2026-06-04    time  12:00:00.000001       interval  P1Y2M3DT4H5M6.5S
//! ```
//!
//! ISO 8601. A fraction has no digits, 3, 6 or 9: as few as hold the value exactly, and what Python's `fromisoformat`
//! and JavaScript's `Date` read. Years before 0 and after 9999 carry a sign (`+10000-01-01`). The calendar is computed
//! here because a 64-bit count of seconds reaches further than any date library.

use std::fmt::Write;
use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano, TimeUnit};

/// The zone that timestamps of one column are written in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Zone {
    /// Local date-times without a zone: nothing follows them.
    Local,
    Utc,
    Named(Tz),
}

impl Zone {
    /// The zone of an Arrow timestamp type. A zone this build doesn't know is written in UTC, which is the same instant.
    pub(crate) fn of(name: Option<&str>) -> Zone {
        match name {
            None => Zone::Local,
            Some(name) => Tz::from_str(name).map_or(Zone::Utc, Zone::Named),
        }
    }

    /// Seconds that local time is ahead of UTC at an instant, `None` where no offset is to be written.
    fn offset(self, seconds: i64) -> Option<i64> {
        let Zone::Named(zone) = self else {
            return matches!(self, Zone::Utc).then_some(0);
        };
        let offset = DateTime::from_timestamp(seconds, 0)
            .map_or(0, |instant| zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc());
        // Offsets of local mean time have seconds, which ISO 8601 can't write: UTC can.
        Some(if offset % 60 == 0 { i64::from(offset) } else { 0 })
    }
}

const DAY: i64 = 86_400;
const NANO: i64 = 1_000_000_000;

/// Writes the date-time that is `value` units after 1970-01-01T00:00:00.
pub(crate) fn timestamp(value: i64, unit: TimeUnit, zone: Zone, out: &mut String) {
    let (seconds, nanos) = split(value, unit);
    let offset = zone.offset(seconds);
    // An offset is known only for instants that a calendar library holds, far from the ends of i64.
    let local = seconds.saturating_add(offset.unwrap_or(0));
    date(local.div_euclid(DAY), out);
    out.push('T');
    clock(local.rem_euclid(DAY), nanos, out);
    match offset {
        None => {}
        Some(0) => out.push('Z'),
        Some(offset) => {
            let minutes = offset.abs() / 60;
            let sign = if offset < 0 { '-' } else { '+' };
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
    }
}

/// Writes the day that is `days` after 1970-01-01, in the proleptic Gregorian calendar.
pub(crate) fn date(days: i64, out: &mut String) {
    let (year, month, day) = civil(days);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Writes a time of day given in units since midnight.
pub(crate) fn time(value: i64, unit: TimeUnit, out: &mut String) {
    let (seconds, nanos) = split(value, unit);
    clock(seconds, nanos, out);
}

/// Writes a span of exact length, in hours, minutes and seconds: `PT26H3M4.500S`.
pub(crate) fn duration(value: i64, unit: TimeUnit, out: &mut String) {
    out.push('P');
    exact(i128::from(value) * i128::from(NANO / per_second(unit)), out);
}

/// Writes a span of months: `P1Y2M`.
pub(crate) fn months(value: i32, out: &mut String) {
    span(value, 0, 0, out);
}

/// Writes a span of days and milliseconds: `P3DT4.005S`.
pub(crate) fn day_time(value: IntervalDayTime, out: &mut String) {
    span(0, value.days, i128::from(value.milliseconds) * 1_000_000, out);
}

/// Writes a span of months, days and nanoseconds: `P1Y2M3DT4H`.
pub(crate) fn month_day_nano(value: IntervalMonthDayNano, out: &mut String) {
    span(value.months, value.days, i128::from(value.nanoseconds), out);
}

/// Whole seconds and the nanoseconds after them, rounding towards the past.
fn split(value: i64, unit: TimeUnit) -> (i64, i64) {
    let units = per_second(unit);
    (value.div_euclid(units), value.rem_euclid(units) * (NANO / units))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANO,
    }
}

fn clock(seconds: i64, nanos: i64, out: &mut String) {
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction(nanos, out);
}

fn fraction(nanos: i64, out: &mut String) {
    let _ = match nanos {
        0 => Ok(()),
        n if n % 1_000_000 == 0 => write!(out, ".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => write!(out, ".{:06}", n / 1_000),
        n => write!(out, ".{n:09}"),
    };
}

/// Each component carries its own sign, so that months, days and time never have to be converted into each other.
fn span(months: i32, days: i32, nanos: i128, out: &mut String) {
    out.push('P');
    for (count, name) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
        if count != 0 {
            let _ = write!(out, "{count}{name}");
        }
    }
    if nanos != 0 || (months, days) == (0, 0) {
        exact(nanos, out);
    }
}

fn exact(nanos: i128, out: &mut String) {
    out.push('T');
    let start = out.len();
    let sign = if nanos < 0 { "-" } else { "" };
    let seconds = (nanos / i128::from(NANO)).unsigned_abs();
    let nanos = (nanos % i128::from(NANO)) as i64;
    for (count, name) in [(seconds / 3600, 'H'), (seconds / 60 % 60, 'M')] {
        if count != 0 {
            let _ = write!(out, "{sign}{count}{name}");
        }
    }
    if !seconds.is_multiple_of(60) || nanos != 0 || out.len() == start {
        let _ = write!(out, "{sign}{}", seconds % 60);
        fraction(nanos.abs(), out);
        out.push('S');
    }
}

/// Year, month and day of a count of days since 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of its year and a month's first day is a straight
/// line through its number; 400 years of this calendar always have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    // 1970-01-01 is day 719,468 from 0000-03-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn text(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    fn at(value: i64, unit: TimeUnit, zone: Option<&str>) -> String {
        text(|out| timestamp(value, unit, Zone::of(zone), out))
    }

    #[test]
    fn timestamps() {
        use TimeUnit::{Microsecond as Us, Millisecond as Ms, Nanosecond as Ns, Second as S};
        for (value, unit, zone, expected) in [
            (0, S, None, "1970-01-01T00:00:00"),
            (0, S, Some("UTC"), "1970-01-01T00:00:00Z"),
            (1_780_574_400, S, Some("+00:00"), "2026-06-04T12:00:00Z"),
            (1_780_574_400_250, Ms, Some("UTC"), "2026-06-04T12:00:00.250Z"),
            (1_780_574_400_000_001, Us, Some("UTC"), "2026-06-04T12:00:00.000001Z"),
            (1_780_574_400_120_000, Us, None, "2026-06-04T12:00:00.120"),
            (1_780_574_400_000_000_001, Ns, None, "2026-06-04T12:00:00.000000001"),
            (1_780_574_400, S, Some("Europe/Berlin"), "2026-06-04T14:00:00+02:00"),
            (1_780_574_400, S, Some("America/St_Johns"), "2026-06-04T09:30:00-02:30"),
            (1_780_574_400, S, Some("+05:30"), "2026-06-04T17:30:00+05:30"),
            (1_767_225_600, S, Some("Europe/London"), "2026-01-01T00:00:00Z"),
            (-4_000_000_000, S, Some("Europe/Berlin"), "1843-03-31T16:53:20Z"),
            (0, S, Some("Mars/Olympus"), "1970-01-01T00:00:00Z"),
            (-1, Us, Some("UTC"), "1969-12-31T23:59:59.999999Z"),
            (-1, Ns, None, "1969-12-31T23:59:59.999999999"),
            (-62_135_596_800_000_000, Us, Some("UTC"), "0001-01-01T00:00:00Z"),
            (253_402_300_799_999_999, Us, Some("UTC"), "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000, Ms, None, "+10000-01-01T00:00:00"),
            (-62_167_219_200, S, None, "0000-01-01T00:00:00"),
            (-62_167_219_201, S, None, "-0001-12-31T23:59:59"),
            (i64::MAX, Ns, None, "2262-04-11T23:47:16.854775807"),
            (i64::MIN, Ns, Some("UTC"), "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, Us, None, "+294247-01-10T04:00:54.775807"),
            (i64::MIN, Us, Some("Asia/Tokyo"), "-290308-12-21T19:59:05.224192Z"),
            (i64::MAX, S, Some("UTC"), "+292277026596-12-04T15:30:07Z"),
            (i64::MIN, S, None, "-292277022657-01-27T08:29:52"),
        ] {
            assert_eq!(at(value, unit, zone), expected, "{value} {unit:?} {zone:?}");
        }
    }

    #[test]
    fn days_and_times() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (20_608, "2026-06-04"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (2_932_896, "9999-12-31"),
            (i64::from(i32::MIN), "-5877641-06-23"),
            (i64::from(i32::MAX), "+5881580-07-11"),
        ] {
            assert_eq!(text(|out| date(days, out)), expected);
        }
        assert_eq!(text(|out| time(86_399_999_999, TimeUnit::Microsecond, out)), "23:59:59.999999");
        assert_eq!(text(|out| time(3_723, TimeUnit::Second, out)), "01:02:03");
        assert_eq!(text(|out| time(1, TimeUnit::Nanosecond, out)), "00:00:00.000000001");
    }

    #[test]
    fn spans() {
        let nanos = |months, days, nanoseconds| {
            text(|out| month_day_nano(IntervalMonthDayNano { months, days, nanoseconds }, out))
        };
        assert_eq!(nanos(14, 3, 14_706_500_000_000), "P1Y2M3DT4H5M6.500S");
        assert_eq!(nanos(0, 0, 0), "PT0S");
        assert_eq!(nanos(-1, 1, -1), "P-1M1DT-0.000000001S");
        assert_eq!(nanos(i32::MIN, i32::MAX, i64::MIN), "P-178956970Y-8M2147483647DT-2562047H-47M-16.854775808S");
        assert_eq!(text(|out| months(25, out)), "P2Y1M");
        assert_eq!(text(|out| months(0, out)), "PT0S");
        assert_eq!(text(|out| day_time(IntervalDayTime { days: 3, milliseconds: 4_005 }, out)), "P3DT4.005S");
        assert_eq!(text(|out| duration(93_784_500, TimeUnit::Millisecond, out)), "PT26H3M4.500S");
        assert_eq!(text(|out| duration(-90, TimeUnit::Second, out)), "PT-1M-30S");
        assert_eq!(text(|out| duration(3_600, TimeUnit::Second, out)), "PT1H");
        assert_eq!(text(|out| duration(i64::MIN, TimeUnit::Second, out)), "PT-2562047788015215H-30M-8S");
    }

    proptest! {
        /// The calendar agrees with another implementation wherever that one reaches.
        #[test]
        fn the_calendar_is_gregorian(days in -95_000_000i32..95_000_000) {
            let other = NaiveDate::from_num_days_from_ce_opt(days + 719_163).expect("in range");
            let (year, month, day) = civil(i64::from(days));
            prop_assert_eq!((year, month, day), (i64::from(other.year()), i64::from(other.month()), i64::from(other.day())));
        }

        /// What is written reads back as the same instant.
        #[test]
        fn timestamps_read_back(micros in -62_135_596_800_000_000i64..253_402_300_800_000_000, zone in any::<bool>()) {
            let zone = if zone { "UTC" } else { "Australia/Lord_Howe" };
            let written = at(micros, TimeUnit::Microsecond, Some(zone));
            // The local year can leave the four digits that RFC 3339 has.
            if written.starts_with(|c: char| c.is_ascii_digit()) {
                prop_assert_eq!(DateTime::parse_from_rfc3339(&written).expect(&written).timestamp_micros(), micros);
            }
        }
    }
}
