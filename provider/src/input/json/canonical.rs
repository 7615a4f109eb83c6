//! What is the one text of a JSON value?
//!
//! RFC 8785 with one difference: no white space, names sorted by their UTF-16 units, the fewest escapes, floats in their
//! shortest form; but integers keep all their digits, where RFC 8785 would round them to a double.

use std::fmt::Write;

use crate::input::json::tape::{Kind, Value};

/// Appends the canonical text of `value`.
pub(in crate::input) fn write(value: Value<'_>, out: &mut String) {
    match value.kind() {
        Kind::Null => out.push_str("null"),
        Kind::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Kind::Int("-0") => out.push('0'),
        Kind::Int(digits) => out.push_str(digits),
        Kind::Float(text) => number(text.parse().unwrap_or_default(), out),
        Kind::Text(text) => string(text, out),
        Kind::List(items) => {
            separated('[', items, ']', out, |item, out| write(item, out));
        }
        Kind::Object(members) => {
            let mut members: Vec<_> = members.collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            separated('{', members.into_iter(), '}', out, |(name, value), out| {
                string(name, out);
                out.push(':');
                write(value, out);
            });
        }
    }
}

fn separated<T>(open: char, items: impl Iterator<Item = T>, close: char, out: &mut String, each: fn(T, &mut String)) {
    out.push(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(i) = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20) {
        let (plain, special) = rest.split_at_checked(i).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            // Writing to a string can't fail.
            Some(control) => write!(out, "\\u{:04x}", u32::from(control)).unwrap_or_default(),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// A double as ECMAScript prints it (ECMA-262, Number::toString): the shortest digits that read back the same, without
/// exponent from 1e-6 up to below 1e21.
fn number(value: f64, out: &mut String) {
    if value == 0.0 {
        return out.push('0');
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let unsigned = mantissa.trim_start_matches('-');
    if unsigned.len() < mantissa.len() {
        out.push('-');
    }
    let digits: String = unsigned.chars().filter(char::is_ascii_digit).collect();
    // The value is 0.digits × 10^point.
    let point = exponent + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    match point {
        1..=21 if point >= count => {
            out.push_str(&digits);
            out.push_str(&zeros(point - count));
        }
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out.push_str(whole);
            out.push('.');
            out.push_str(fraction);
        }
        -5..=0 => {
            out.push_str("0.");
            out.push_str(&zeros(-point));
            out.push_str(&digits);
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            out.push_str(first);
            if !rest.is_empty() {
                out.push('.');
                out.push_str(rest);
            }
            out.push_str(if exponent < 0 { "e-" } else { "e+" });
            out.push_str(exponent.unsigned_abs().to_string().as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;
    use crate::input::json::tape::Tape;

    fn canonical(line: &str) -> String {
        let mut out = String::new();
        write(Tape::default().parse(line).unwrap(), &mut out);
        out
    }

    #[test]
    fn values_have_one_text() {
        for (line, expected) in [
            (r#" { "b" : [ 1 , null , true ] , "a" : { } } "#, r#"{"a":{},"b":[1,null,true]}"#),
            (r#""A\/\n\u001F\u00e9\"\\\b\f\r\t""#, r#""A/\n\u001fé\"\\\b\f\r\t""#),
            (
                r#"12345678901234567890123456789012345678901234567890"#,
                "12345678901234567890123456789012345678901234567890",
            ),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("-1.5E2", "-150"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.25e21", "1.25e+21"),
            ("123456789.125", "123456789.125"),
            ("333333333.33333329", "333333333.3333333"),
            ("4.5e-1", "0.45"),
            ("2e-3", "0.002"),
            ("1e-27", "1e-27"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(canonical(line), expected, "{line}");
        }
    }

    #[test]
    fn names_sort_by_utf16_as_in_the_rfc() {
        let line = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let order: String = canonical(line).chars().filter(|c| ('2'..='7').contains(c) || *c == '1').collect();
        // "\r", "1" (name and value 4), "\u0080", "ö", "€", "😀", "\ufb33"
        assert_eq!(order, "2146715".to_owned() + "3");
    }

    proptest! {
        #[test]
        fn floats_read_back_the_same(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                let mut out = String::new();
                number(value, &mut out);
                prop_assert_eq!(out.parse::<f64>().unwrap(), value);
            }
        }

        #[test]
        fn a_canonical_text_is_its_own(text in ".*") {
            let mut out = String::new();
            string(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            prop_assert_eq!(canonical(&out), out);
        }
    }
}
