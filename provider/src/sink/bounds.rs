//! What are a column's bounds, and how are they shortened without losing a row?
//!
//! ```text
//! values   "conversation-0001-…", "conversation-9999-…"
//! lower    "conversation-000"     the first 16 code points: below every value
//! upper    "conversation-:"       cut and raised: above every value, or no bound at all
//! ```

use std::cmp::Ordering;

use iceberg::spec::{Datum, PrimitiveType};
use parquet::file::statistics::Statistics;

use super::properties::Mode;

/// A value of a column, ordered as Iceberg orders values of its type.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Bool(bool),
    /// int, long, date, time and timestamps.
    Int(i64),
    /// The unscaled value of a decimal.
    Decimal(i128),
    /// Never NaN.
    Float(f64),
    /// string, binary, fixed and uuid: compared as unsigned bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// Total within one column; zeros of both signs are equal.
    pub(super) fn order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// The two ends of a column in one row group, as Parquet's statistics give them. A value that Parquet shortened is still
/// a bound and is used; `None` where there is none.
pub(super) fn of_statistics(statistics: &Statistics, kind: &PrimitiveType) -> Option<(Value, Value)> {
    let decimal = matches!(kind, PrimitiveType::Decimal { .. });
    match statistics {
        Statistics::Boolean(s) => Some((Value::Bool(*s.min_opt()?), Value::Bool(*s.max_opt()?))),
        Statistics::Int32(s) => Some(ints((*s.min_opt()?).into(), (*s.max_opt()?).into(), decimal)),
        Statistics::Int64(s) => Some(ints(*s.min_opt()?, *s.max_opt()?, decimal)),
        Statistics::Float(s) => floats((*s.min_opt()?).into(), (*s.max_opt()?).into()),
        Statistics::Double(s) => floats(*s.min_opt()?, *s.max_opt()?),
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => {
            let (min, max) = (statistics.min_bytes_opt()?, statistics.max_bytes_opt()?);
            if decimal {
                return Some((Value::Decimal(big_endian(min)?), Value::Decimal(big_endian(max)?)));
            }
            Some((Value::Bytes(min.to_vec()), Value::Bytes(max.to_vec())))
        }
        Statistics::Int96(_) => None,
    }
}

/// The lower bound to store for `value`.
pub(super) fn lower(value: &Value, kind: &PrimitiveType, mode: Mode) -> Option<Datum> {
    match (value, kind, mode) {
        (Value::Bytes(bytes), PrimitiveType::String, Mode::Truncate(n)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(Datum::string(first_code_points(text, n)))
        }
        (Value::Bytes(bytes), PrimitiveType::Binary, Mode::Truncate(n)) => {
            Some(Datum::binary(bytes.iter().take(n).copied()))
        }
        // Readers expect zero to be negative below and positive above (Iceberg, "-0.0 and 0.0 in bounds").
        (Value::Float(x), _, _) if *x == 0.0 => datum(&Value::Float(-0.0), kind),
        _ => datum(value, kind),
    }
}

/// The upper bound to store for `value`; `None` if a shortened one would have no successor.
pub(super) fn upper(value: &Value, kind: &PrimitiveType, mode: Mode) -> Option<Datum> {
    match (value, kind, mode) {
        (Value::Bytes(bytes), PrimitiveType::String, Mode::Truncate(n)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            let cut = first_code_points(text, n);
            if cut.len() == text.len() { Some(Datum::string(text)) } else { next_string(cut).map(Datum::string) }
        }
        (Value::Bytes(bytes), PrimitiveType::Binary, Mode::Truncate(n)) => match bytes.get(..n) {
            Some(cut) if cut.len() < bytes.len() => next_bytes(cut).map(Datum::binary),
            _ => Some(Datum::binary(bytes.iter().copied())),
        },
        (Value::Float(x), _, _) if *x == 0.0 => datum(&Value::Float(0.0), kind),
        _ => datum(value, kind),
    }
}

/// The value as a datum of its type. `None` if it isn't one, e.g. a fixed value that was shortened.
fn datum(value: &Value, kind: &PrimitiveType) -> Option<Datum> {
    let bytes = match (value, kind) {
        (Value::Bool(b), PrimitiveType::Boolean) => vec![u8::from(*b)],
        (Value::Int(i), PrimitiveType::Int | PrimitiveType::Date) => i32::try_from(*i).ok()?.to_le_bytes().to_vec(),
        (
            Value::Int(i),
            PrimitiveType::Long
            | PrimitiveType::Time
            | PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs,
        ) => i.to_le_bytes().to_vec(),
        (Value::Decimal(d), PrimitiveType::Decimal { .. }) => d.to_be_bytes().to_vec(),
        (Value::Float(x), PrimitiveType::Float) => (*x as f32).to_le_bytes().to_vec(),
        (Value::Float(x), PrimitiveType::Double) => x.to_le_bytes().to_vec(),
        (Value::Bytes(b), PrimitiveType::String | PrimitiveType::Binary) => b.clone(),
        (Value::Bytes(b), PrimitiveType::Uuid) if b.len() == 16 => b.clone(),
        (Value::Bytes(b), PrimitiveType::Fixed(n)) if b.len() as u64 == *n => b.clone(),
        _ => return None,
    };
    Datum::try_from_bytes(&bytes, kind.clone()).ok()
}

fn ints(min: i64, max: i64, decimal: bool) -> (Value, Value) {
    if decimal { (Value::Decimal(min.into()), Value::Decimal(max.into())) } else { (Value::Int(min), Value::Int(max)) }
}

fn floats(min: f64, max: f64) -> Option<(Value, Value)> {
    // Parquet leaves NaN out of its statistics; one that is there anyway says nothing.
    (!min.is_nan() && !max.is_nan()).then_some((Value::Float(min), Value::Float(max)))
}

/// Two's complement, most significant byte first, of at most 16 bytes.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
    let start = wide.len().checked_sub(bytes.len())?;
    wide.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

fn first_code_points(text: &str, n: usize) -> &str {
    text.char_indices().nth(n).map_or(text, |(end, _)| &text[..end])
}

/// The smallest string of at most as many code points that is above every string that begins with `text`.
fn next_string(text: &str) -> Option<String> {
    let mut chars: Vec<char> = text.chars().collect();
    while let Some(last) = chars.pop() {
        // Surrogates are not code points of UTF-8: after U+D7FF comes U+E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn next_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(value: &str, n: usize) -> (String, Option<String>) {
        let value = Value::Bytes(value.as_bytes().to_vec());
        let text = |d: Datum| String::from_utf8(d.to_bytes().unwrap().to_vec()).unwrap();
        let mode = Mode::Truncate(n);
        (
            text(lower(&value, &PrimitiveType::String, mode).unwrap()),
            upper(&value, &PrimitiveType::String, mode).map(text),
        )
    }

    #[test]
    fn strings_are_cut_by_code_points() {
        let cases: &[(&str, usize, &str, Option<&str>)] = &[
            ("hello", 16, "hello", Some("hello")),
            ("hello", 3, "hel", Some("hem")),
            ("0123456789abcde•rest", 16, "0123456789abcde•", Some("0123456789abcde‣")),
            ("ab\u{d7ff}cd", 3, "ab\u{d7ff}", Some("ab\u{e000}")),
            ("a\u{10ffff}b", 2, "a\u{10ffff}", Some("b")),
            ("\u{10ffff}\u{10ffff}\u{10ffff}", 2, "\u{10ffff}\u{10ffff}", None),
            ("", 1, "", Some("")),
        ];
        for (value, n, low, high) in cases {
            assert_eq!(strings(value, *n), ((*low).to_owned(), high.map(str::to_owned)), "{value:?}");
        }
    }

    #[test]
    fn binaries_are_cut_by_bytes() {
        let high = |bytes: &[u8]| {
            upper(&Value::Bytes(bytes.to_vec()), &PrimitiveType::Binary, Mode::Truncate(2))
                .map(|d| d.to_bytes().unwrap().to_vec())
        };
        assert_eq!(high(&[1, 2]), Some(vec![1, 2]));
        assert_eq!(high(&[1, 2, 3]), Some(vec![1, 3]));
        assert_eq!(high(&[1, 255, 0]), Some(vec![2]));
        assert_eq!(high(&[255, 255, 0]), None);
    }

    #[test]
    fn zeros_reach_to_both_sides() {
        for zero in [0.0, -0.0] {
            let value = Value::Float(zero);
            assert_eq!(
                lower(&value, &PrimitiveType::Double, Mode::Full).unwrap().to_bytes().unwrap(),
                (-0.0f64).to_le_bytes()
            );
            assert_eq!(
                upper(&value, &PrimitiveType::Float, Mode::Full).unwrap().to_bytes().unwrap(),
                0.0f32.to_le_bytes()
            );
        }
    }

    #[test]
    fn decimals_keep_their_sign() {
        assert_eq!(big_endian(&[0xff, 0x38]), Some(-200));
        assert_eq!(big_endian(&[0x00, 0xc8]), Some(200));
        assert_eq!(big_endian(&[0; 17]), None);
    }

    #[test]
    fn a_shortened_fixed_value_is_no_bound() {
        assert!(upper(&Value::Bytes(vec![0; 64]), &PrimitiveType::Fixed(100), Mode::Full).is_none());
    }
}
