//! Which instant does a text name?
//!
//! ISO 8601 in the calendar form and RFC 3339: `2026-06-04`, `2026-06-04T12:30`, `2026-06-04 12:30:15.5+02:00`,
//! `2026-06-04t12:30:15z`. A text with a zone is an instant (`timestamptz`), one without is wall time (`timestamp`);
//! a date alone is its midnight, without a zone. Nothing is rounded: what a unit can't hold is refused.

/// Why a text is not taken as a timestamp; a sentence without a dot.
pub(super) type Refusal = &'static str;

/// What can be parsed, for help texts.
pub(super) const ACCEPTED: &str = "timestamps are ISO 8601 / RFC 3339 like 2026-06-04T12:30:15.123456Z";

/// A parsed timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Seconds since 1970-01-01T00:00:00, in UTC where zoned; negative before.
    seconds: i64,
    /// Nanoseconds after `seconds`.
    nanos: u32,
    /// Digits below a nanosecond that are not zero.
    finer: bool,
    /// The text named its offset from UTC.
    pub(super) zoned: bool,
    /// The text held a date and no time.
    pub(super) date_only: bool,
}

impl Stamp {
    /// Microseconds since 1970.
    pub(super) fn micros(&self) -> Result<i64, Refusal> {
        if self.finer || !self.nanos.is_multiple_of(1000) {
            return Err("a microsecond timestamp can't hold its fraction");
        }
        let micros = self.seconds.checked_mul(1_000_000).and_then(|s| s.checked_add(i64::from(self.nanos / 1000)));
        micros.ok_or("out of the range of microsecond timestamps")
    }

    /// Nanoseconds since 1970; years 1677 to 2262.
    pub(super) fn nanos(&self) -> Result<i64, Refusal> {
        if self.finer {
            return Err("a nanosecond timestamp can't hold its fraction");
        }
        let nanos = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        i64::try_from(nanos).map_err(|_| "out of the range of nanosecond timestamps")
    }

    /// Days since 1970, for a text that held a date and no time.
    pub(super) fn days(&self) -> Result<i32, Refusal> {
        if !self.date_only {
            return Err("a date can't hold its time");
        }
        i32::try_from(self.seconds.div_euclid(86_400)).map_err(|_| "out of the range of dates")
    }
}

/// Parses a date, or a date and time with or without a zone.
pub(super) fn parse(text: &str) -> Result<Stamp, Refusal> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.digits(4)?;
    rest.expect(b"-")?;
    let month = rest.digits(2)?;
    rest.expect(b"-")?;
    let day = rest.digits(2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return Err("no such date");
    }
    let midnight = days_from_civil(year, month, day) * 86_400;
    let mut stamp = Stamp { seconds: midnight, nanos: 0, finer: false, zoned: false, date_only: true };
    if rest.is_empty() {
        return Ok(stamp);
    }
    rest.expect(b"Tt ")?;
    let clock = clock(&mut rest)?;
    let offset = offset(&mut rest)?;
    stamp.date_only = false;
    stamp.zoned = offset.is_some();
    stamp.seconds += clock.seconds - offset.unwrap_or(0);
    stamp.nanos = clock.nanos;
    stamp.finer = clock.finer;
    Ok(stamp)
}

/// Microseconds after midnight of a time of day without a zone: `12:30`, `12:30:15.5`.
pub(super) fn time_micros(text: &str) -> Result<i64, Refusal> {
    let mut rest = Rest(text.as_bytes());
    let clock = clock(&mut rest)?;
    if !rest.is_empty() {
        return Err(FORM);
    }
    if clock.finer || !clock.nanos.is_multiple_of(1000) {
        return Err("a microsecond time can't hold its fraction");
    }
    Ok(clock.seconds * 1_000_000 + i64::from(clock.nanos / 1000))
}

const FORM: Refusal = "not an ISO 8601 timestamp";

struct Clock {
    seconds: i64,
    nanos: u32,
    finer: bool,
}

fn clock(rest: &mut Rest<'_>) -> Result<Clock, Refusal> {
    let hour = rest.digits(2)?;
    rest.expect(b":")?;
    let minute = rest.digits(2)?;
    let mut clock = Clock { seconds: hour * 3600 + minute * 60, nanos: 0, finer: false };
    if rest.take(b":") {
        let second = rest.digits(2)?;
        if second == 60 {
            return Err("a leap second has no timestamp");
        }
        if second > 59 {
            return Err("no such time of day");
        }
        clock.seconds += second;
        if rest.take(b".,") {
            (clock.nanos, clock.finer) = rest.fraction()?;
        }
    }
    if hour > 23 || minute > 59 { Err("no such time of day") } else { Ok(clock) }
}

/// Seconds east of UTC, or `None` without a zone.
fn offset(rest: &mut Rest<'_>) -> Result<Option<i64>, Refusal> {
    if rest.is_empty() {
        return Ok(None);
    }
    // `2026-06-04 12:30:15 +0200`, as several languages print it.
    rest.take(b" ");
    if rest.take(b"Zz") {
        return if rest.is_empty() { Ok(Some(0)) } else { Err(FORM) };
    }
    let sign = if rest.take(b"-") { -1 } else { 1 };
    if sign == 1 {
        rest.expect(b"+")?;
    }
    let hours = rest.digits(2)?;
    let colon = rest.take(b":");
    let minutes = if colon || !rest.is_empty() { rest.digits(2)? } else { 0 };
    if !rest.is_empty() {
        return Err(FORM);
    }
    if hours > 23 || minutes > 59 { Err("no such zone") } else { Ok(Some(sign * (hours * 3600 + minutes * 60))) }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, for years from 0 on.
///
/// Counts years from March, so that the leap day ends a year: 400 years have 146,097 days.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, any_of: &[u8]) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if any_of.contains(first) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, any_of: &[u8]) -> Result<(), Refusal> {
        if self.take(any_of) { Ok(()) } else { Err(FORM) }
    }

    /// Exactly `n` decimal digits.
    fn digits(&mut self, n: usize) -> Result<i64, Refusal> {
        let (digits, rest) = self.0.split_at_checked(n).ok_or(FORM)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(FORM);
        }
        self.0 = rest;
        Ok(digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    /// One or more digits after the point: nanoseconds, and whether there is more below.
    fn fraction(&mut self) -> Result<(u32, bool), Refusal> {
        let n = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(n);
        if n == 0 {
            return Err(FORM);
        }
        self.0 = rest;
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
        let nanos = padded.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        Ok((nanos, digits.iter().skip(9).any(|digit| *digit != b'0')))
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate};
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn micros(text: &str) -> Result<(i64, bool), Refusal> {
        parse(text).and_then(|stamp| Ok((stamp.micros()?, stamp.zoned)))
    }

    #[test]
    fn accepted_forms() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", (0, true)),
            ("1970-01-01t00:00:00z", (0, true)),
            ("1970-01-01 00:00:01", (1_000_000, false)),
            ("1970-01-02", (86_400_000_000, false)),
            ("1970-01-01T01:00", (3_600_000_000, false)),
            ("1970-01-01T00:00:00.5Z", (500_000, true)),
            ("1970-01-01T00:00:00,123456+00", (123_456, true)),
            ("1970-01-01T00:00:00.123456000Z", (123_456, true)),
            ("1970-01-01T00:00:00.12345600000000000Z", (123_456, true)),
            ("1970-01-01T02:00:00+02:00", (0, true)),
            ("1970-01-01T02:00:00+0200", (0, true)),
            ("1970-01-01T02:00:00+02", (0, true)),
            ("1970-01-01 02:00:00 +0200", (0, true)),
            ("1969-12-31T18:30:00-05:30", (0, true)),
            ("1970-01-01T00:00:00-00:00", (0, true)),
            ("1969-12-31T23:59:59.999999Z", (-1, true)),
            ("2024-02-29T00:00:00Z", (1_709_164_800_000_000, true)),
            ("2000-02-29", (951_782_400_000_000, false)),
            ("0001-01-01T00:00:00Z", (-62_135_596_800_000_000, true)),
            ("0000-03-01T00:00:00Z", (-62_162_035_200_000_000, true)),
            ("9999-12-31T23:59:59.999999Z", (253_402_300_799_999_999, true)),
        ] {
            assert_eq!(micros(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refused_forms() {
        for text in [
            "",
            " ",
            "2026",
            "2026-06",
            "2026-6-4",
            "20260604",
            "2026-06-04T",
            "2026-06-04T12",
            "2026-06-04T12:3",
            "2026-06-04T12:30:",
            "2026-06-04T12:30:15.",
            "2026-06-04T12:30:15.Z",
            "2026-06-04T12:30:60Z",
            "2026-06-04T24:00:00Z",
            "2026-06-04T12:60:00Z",
            "2026-06-04T12:30:61Z",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-04-31",
            "2026-06-04T12:30:15ZZ",
            "2026-06-04T12:30:15 ",
            "2026-06-04T12:30:15+1",
            "2026-06-04T12:30:15+02:",
            "2026-06-04T12:30:15+02:0",
            "2026-06-04T12:30:15+24:00",
            "2026-06-04T12:30:15+02:60",
            "2026-06-04T12:30:15 Europe/Berlin",
            "+2026-06-04",
            "12026-06-04",
            "２026-06-04",
            "2026-06-04T12:30:15.1234567Z",
            "2026-06-04T12:30:15.0000000001Z",
            " 2026-06-04",
        ] {
            assert!(micros(text).is_err(), "{text}: {:?}", micros(text));
        }
        assert_eq!(parse("2016-12-31T23:59:60Z").unwrap_err(), "a leap second has no timestamp");
    }

    #[test]
    fn nanoseconds_hold_what_microseconds_refuse() {
        let stamp = parse("1969-12-31T23:59:59.999999999Z").unwrap();
        assert_eq!((stamp.nanos(), stamp.micros().is_err()), (Ok(-1), true));
        assert!(parse("0001-01-01T00:00:00Z").unwrap().nanos().is_err());
        assert!(parse("1970-01-01T00:00:00.0000000001Z").unwrap().nanos().is_err());
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(parse("1969-12-31").unwrap().days(), Ok(-1));
        assert!(parse("1969-12-31T00:00:00").unwrap().days().is_err());
        assert_eq!(time_micros("12:30:15.5"), Ok(45_015_500_000));
        assert!(time_micros("12:30:15Z").is_err());
        assert!(time_micros("25:00").is_err());
    }

    proptest! {
        #[test]
        fn agrees_with_an_independent_calendar(micros in -62_135_596_800_000_000_i64..253_402_300_800_000_000, east in -1439_i64..1440) {
            let instant = DateTime::from_timestamp_micros(micros).unwrap();
            let text = instant.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            prop_assert_eq!(super::parse(&text).unwrap().micros(), Ok(micros));
            let sign = if east < 0 { '-' } else { '+' };
            let zone = format!("{sign}{:02}:{:02}", east.abs() / 60, east.abs() % 60);
            let local = text.replace('Z', &zone);
            prop_assert_eq!(super::parse(&local).unwrap().micros(), Ok(micros - east * 60_000_000));
        }

        #[test]
        fn knows_which_days_exist(year in 0_i32..10_000, month in 0_u32..14, day in 0_u32..33) {
            let expected = NaiveDate::from_ymd_opt(year, month, day);
            let parsed = super::parse(&format!("{year:04}-{month:02}-{day:02}"));
            prop_assert_eq!(parsed.is_ok(), expected.is_some());
        }
    }
}
