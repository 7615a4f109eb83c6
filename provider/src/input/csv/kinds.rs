//! What could the texts of a CSV column be?
//!
//! A column has a type if every value that isn't empty is written the way that type is; else it stays text, letter by
//! letter. What only looks like a number stays text too: `007`, `+49`, `1e999`.

use crate::input::number::{self, Size};
use crate::input::stamp;
use crate::input::types::{Type, Unit};

/// A set of ways to write a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u16);

impl Kinds {
    const BOOL: Kinds = Kinds(1);
    const LONG: Kinds = Kinds(1 << 1);
    /// An integer that no double equals.
    const INEXACT: Kinds = Kinds(1 << 2);
    /// Beyond 64 bits, up to 38 digits.
    const BIG: Kinds = Kinds(1 << 3);
    const FLOAT: Kinds = Kinds(1 << 4);
    const DATE: Kinds = Kinds(1 << 5);
    const LOCAL: Kinds = Kinds(1 << 6);
    const ZONED: Kinds = Kinds(1 << 7);
    const TEXT: Kinds = Kinds(1 << 8);

    /// Takes one text that isn't empty into account.
    pub(super) fn see(&mut self, text: &str) {
        // Nothing makes a text column anything else.
        if !self.any(Kinds::TEXT) {
            *self = self.with(of(text));
        }
    }

    pub(super) fn merge(&mut self, other: Kinds) {
        *self = self.with(other);
    }

    /// The type that holds every value as it is written; text where there are none.
    pub(super) fn resolve(self) -> Type {
        let only = |allowed: Kinds| self.0 & !allowed.0 == 0;
        let timestamp = |zoned| Type::Timestamp { unit: Unit::Micros, zoned };
        let integers = Kinds::LONG.with(Kinds::INEXACT);
        if self == Kinds::default() {
            Type::Text
        } else if only(Kinds::BOOL) {
            Type::Boolean
        } else if only(integers) {
            Type::Long
        } else if only(integers.with(Kinds::BIG)) {
            Type::Decimal { precision: number::MAX_DIGITS as u8, scale: 0 }
        } else if only(Kinds::LONG.with(Kinds::BIG).with(Kinds::FLOAT)) {
            Type::Double
        } else if only(Kinds::DATE) {
            Type::Date
        } else if only(Kinds::DATE.with(Kinds::LOCAL)) {
            timestamp(false)
        } else if only(Kinds::ZONED) {
            timestamp(true)
        } else {
            Type::Text
        }
    }

    fn any(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    const fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

fn of(text: &str) -> Kinds {
    match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'-' | b'.') => integer(text).or_else(|| float(text)).or_else(|| time(text)),
        Some(b't' | b'T' | b'f' | b'F') => {
            let word = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
            word.then_some(Kinds::BOOL)
        }
        _ => None,
    }
    .unwrap_or(Kinds::TEXT)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Digits without leading zeros.
fn whole(text: &str) -> bool {
    digits(text) && (text == "0" || !text.starts_with('0'))
}

fn integer(text: &str) -> Option<Kinds> {
    if !whole(text.strip_prefix('-').unwrap_or(text)) || text == "-0" {
        return None;
    }
    let size = match number::size(text) {
        Size::Long => Kinds::LONG,
        Size::Decimal => Kinds::BIG,
        Size::Huge => return None,
    };
    Some(if number::exact_double(text).is_some() { size } else { size.with(Kinds::INEXACT) })
}

fn float(text: &str) -> Option<Kinds> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (before, after) = mantissa.split_once('.').map_or((mantissa, None), |(b, a)| (b, Some(a)));
    let written = match after {
        None => whole(before) && (exponent.is_some() || before == "0"),
        Some("") => whole(before),
        Some(after) => digits(after) && (before.is_empty() || whole(before)),
    };
    let finite = text.parse::<f64>().is_ok_and(f64::is_finite);
    (written && exponent.is_none_or(digits) && finite).then_some(Kinds::FLOAT)
}

fn time(text: &str) -> Option<Kinds> {
    let stamp = stamp::parse(text).ok()?;
    stamp.micros().ok()?;
    Some(match (stamp.date_only, stamp.zoned) {
        (true, _) => Kinds::DATE,
        (false, false) => Kinds::LOCAL,
        (false, true) => Kinds::ZONED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_column_decide_its_type() {
        for (values, expected) in [
            ("", "string"),
            ("true False TRUE", "boolean"),
            ("true 1", "string"),
            ("0 -1 42", "long"),
            ("9223372036854775807", "long"),
            ("9223372036854775808 1", "decimal(38, 0)"),
            ("9223372036854775808 9007199254740993", "decimal(38, 0)"),
            ("100000000000000000000000000000000000000", "string"),
            ("007", "string"),
            ("1 007", "string"),
            ("+1", "string"),
            ("-0", "double"),
            ("1 1.5 .5 5. 1e5 -1.5E-3", "double"),
            ("9007199254740992 0.5", "double"),
            ("9007199254740993 0.5", "string"),
            ("00.5", "string"),
            ("1e999", "string"),
            ("1e", "string"),
            (".", "string"),
            ("-", "string"),
            ("1.2.3", "string"),
            ("NaN 1", "string"),
            ("2026-06-04 1969-12-31", "date"),
            ("2026-06-04 2026-06-04T12:00", "timestamp"),
            ("2026-06-04T12:00:00Z 2026-06-04T12:00:00+02", "timestamptz"),
            ("2026-06-04T12:00:00Z 2026-06-04T12:00:00", "string"),
            ("2026-06-04T12:00:00Z 2026-06-04", "string"),
            ("2026-06-04T12:00:00.123456789Z", "string"),
            ("2026-06-04 7", "string"),
            ("x", "string"),
        ] {
            let mut kinds = Kinds::default();
            values.split_whitespace().for_each(|value| kinds.see(value));
            assert_eq!(kinds.resolve().name(), expected, "{values}");
        }
    }
}
