//! Can a type hold a number exactly as it is written?

/// The largest number of digits of a 128-bit decimal.
pub(super) const MAX_DIGITS: usize = 38;

/// How large an integer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Fits 64 bits.
    Long,
    /// Up to 38 digits.
    Decimal,
    /// Beyond.
    Huge,
}

/// The size of an integer written in decimal digits without leading zeros.
pub(super) fn size(digits: &str) -> Size {
    if digits.parse::<i64>().is_ok() {
        Size::Long
    } else if digits.trim_start_matches('-').len() <= MAX_DIGITS {
        Size::Decimal
    } else {
        Size::Huge
    }
}

/// The double that equals an integer, if one does.
pub(super) fn exact_double(digits: &str) -> Option<f64> {
    /// Up to here every integer is a double.
    const DENSE: i64 = 1 << 53;
    if let Ok(value) = digits.parse::<i64>()
        && (-DENSE..=DENSE).contains(&value)
    {
        return Some(value as f64);
    }
    let value: i128 = digits.parse().ok()?;
    let double = value as f64;
    // A double of this size has no fraction, and saturation at the ends of i128 can't compare equal within 38 digits.
    (digits.trim_start_matches('-').len() <= MAX_DIGITS && double as i128 == value).then_some(double)
}

/// A number, with or without fraction and exponent, as the unscaled value of a decimal; `None` if it isn't a number or
/// the decimal can't hold it exactly.
pub(super) fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // The value is digits × 10^-below; wanted are digits × 10^-scale.
    let below = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut shift = i32::from(scale).checked_sub(below)?;
    while shift < 0 && digits.last() == Some(&b'0') {
        digits.pop();
        shift += 1;
    }
    let digits = std::str::from_utf8(&digits).ok()?.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let total = i32::try_from(digits.len()).ok()?.checked_add(shift)?;
    if shift < 0 || total > i32::from(precision) {
        return None;
    }
    let value = digits.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_by_size() {
        for (digits, expected) in [
            ("0", Size::Long),
            ("-9223372036854775808", Size::Long),
            ("9223372036854775808", Size::Decimal),
            ("-99999999999999999999999999999999999999", Size::Decimal),
            ("100000000000000000000000000000000000000", Size::Huge),
        ] {
            assert_eq!(size(digits), expected, "{digits}");
        }
    }

    #[test]
    fn doubles_equal_integers_or_are_none() {
        for (digits, expected) in [
            ("0", Some(0.0)),
            ("-7", Some(-7.0)),
            ("9007199254740992", Some(9007199254740992.0)),
            ("9007199254740993", None),
            ("9007199254740994", Some(9007199254740994.0)),
            ("-9223372036854775808", Some(-9223372036854775808.0)),
            ("9223372036854775807", None),
            ("18446744073709551616", Some(18446744073709551616.0)),
            ("170141183460469231731687303715884105727", None),
            ("1000000000000000000000000000000000000000000000", None),
        ] {
            assert_eq!(exact_double(digits), expected, "{digits}");
        }
    }

    #[test]
    fn decimals_are_exact_or_none() {
        for (text, precision, scale, expected) in [
            ("12.34", 9, 2, Some(1234)),
            ("-12.3", 9, 2, Some(-1230)),
            ("12.340", 9, 2, Some(1234)),
            ("12.345", 9, 2, None),
            ("1e2", 5, 2, Some(10000)),
            ("1e3", 5, 2, None),
            ("125e-2", 5, 2, Some(125)),
            ("0.000", 3, 0, Some(0)),
            ("1200", 2, -2, Some(12)),
            ("1250", 2, -2, None),
            ("", 9, 2, None),
            ("-", 9, 2, None),
            ("1.2.3", 9, 2, None),
            ("abc", 9, 2, None),
            ("1e999999999999", 38, 0, None),
            ("0e2147483647", 38, 0, Some(0)),
            ("99999999999999999999999999999999999999", 38, 0, Some(10_i128.pow(38) - 1)),
            ("100000000000000000000000000000000000000", 38, 0, None),
        ] {
            assert_eq!(decimal(text, precision, scale), expected, "{text} as decimal({precision}, {scale})");
        }
    }
}
