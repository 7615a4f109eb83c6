//! Where does a column compare with a constant as asked?
//!
//! The constant is placed on the column's scale, exactly: it *is* a tick, or lies between two.
//!
//! ```text
//! µs ticks of the column    ──┬─────────┬─────────┬──
//!                             1         2         3        constant 2.5 µs:  < , <=  ▶  <= 2
//!                                            ^                               > , >=  ▶  >  2     =  ▶  nowhere
//! ```

use datafusion::scalar::ScalarValue;

use super::super::{Op, Predicate, Value};
use super::OTHER_TYPES;
use super::column::{Kind, NANOS_PER_DAY, Slot, as_text, nanos_per};
use super::truth::Truth;

/// Where `slot op value` is true; the value is not null.
pub(super) fn compare(slot: &Slot, op: Op, value: &ScalarValue) -> Truth {
    match Place::of(slot.kind, value) {
        Some(place) => Truth::exact(place.compare(slot, op)),
        None => Truth::unknown(OTHER_TYPES),
    }
}

/// A constant as a value of a column of text or bytes.
pub(super) fn written(slot: &Slot, constant: &ScalarValue) -> Option<Value> {
    match Place::of(slot.kind, constant)? {
        Place::Value(value @ (Value::String(_) | Value::Bytes(_))) => Some(value),
        _ => None,
    }
}

/// Where a date or timestamp compares with an instant, in nanoseconds since 1970.
pub(super) fn at_nanos(slot: &Slot, op: Op, nanos: i128) -> Predicate {
    match slot.kind {
        Kind::Instant { nanos_per_tick, .. } => Place::ratio(nanos, nanos_per_tick).compare(slot, op),
        _ => Predicate::True,
    }
}

/// Where the column is (or, `negated`, is not) one of the values, none of which is null.
pub(super) fn in_list(slot: &Slot, values: &[ScalarValue], negated: bool) -> Truth {
    let mut listed = Vec::with_capacity(values.len());
    for value in values {
        match Place::of(slot.kind, value) {
            // A value the column can't have is never equal.
            Some(place) => listed.extend(place.value(slot)),
            None => return Truth::unknown(OTHER_TYPES),
        }
    }
    let field = slot.field;
    Truth::exact(if negated { Predicate::is_not_in(field, listed) } else { Predicate::is_in(field, listed) })
}

/// Where a constant lies on a column's scale.
enum Place {
    /// On an integer scale: at `floor`, or between it and the next.
    Tick { floor: i128, exact: bool },
    /// A value of the column's own kind.
    Value(Value),
}

impl Place {
    fn of(kind: Kind, constant: &ScalarValue) -> Option<Place> {
        match kind {
            Kind::Bool => match constant {
                ScalarValue::Boolean(x) => Some(Place::Value(Value::Bool((*x)?))),
                _ => None,
            },
            Kind::Float => match constant {
                ScalarValue::Float32(x) => Some(Place::Value(Value::Double(f64::from((*x)?)))),
                ScalarValue::Float64(x) => Some(Place::Value(Value::Double((*x)?))),
                _ => None,
            },
            Kind::Text => Some(Place::Value(Value::String(as_text(constant)?.to_owned()))),
            Kind::Bytes => Some(Place::Value(Value::Bytes(bytes(constant)?.to_vec()))),
            Kind::Whole { .. } => match float(constant) {
                Some(x) => Some(Place::float(x)),
                None => decimal(constant).map(|(x, scale)| Place::scaled(x, scale, 0)),
            },
            Kind::Decimal { scale } => decimal(constant).map(|(x, s)| Place::scaled(x, s, scale)),
            Kind::Instant { nanos_per_tick, .. } => instant(constant).map(|nanos| Place::ratio(nanos, nanos_per_tick)),
            Kind::Time => time(constant).map(|nanos| Place::ratio(nanos, 1_000)),
        }
    }

    fn ratio(numerator: i128, denominator: i128) -> Place {
        Place::Tick { floor: numerator.div_euclid(denominator), exact: numerator.rem_euclid(denominator) == 0 }
    }

    /// `unscaled` at scale `from`, on a scale of units `10^-to`.
    fn scaled(unscaled: i128, from: u32, to: u32) -> Place {
        let power = 10_i128.checked_pow(from.abs_diff(to));
        match (from <= to, power) {
            (true, Some(power)) => match unscaled.checked_mul(power) {
                Some(floor) => Place::Tick { floor, exact: true },
                None => Place::beyond(unscaled < 0),
            },
            (false, Some(power)) => Place::ratio(unscaled, power),
            // Scales are at most 38 apart, and 10^38 fits.
            (_, None) => Place::beyond(unscaled < 0),
        }
    }

    fn float(x: f64) -> Place {
        if x.is_nan() {
            return Place::beyond(x.is_sign_negative());
        }
        let floor = x.floor();
        // The cast saturates, which is beyond every integer column.
        Place::Tick { floor: floor as i128, exact: floor == x && x.is_finite() }
    }

    /// Below or above every value.
    fn beyond(below: bool) -> Place {
        Place::Tick { floor: if below { i128::MIN } else { i128::MAX }, exact: false }
    }

    /// The value of the column that equals the constant.
    fn value(self, slot: &Slot) -> Option<Value> {
        match self {
            Place::Value(value) => Some(value),
            Place::Tick { floor, exact } => {
                let (min, max) = range(slot.kind);
                if exact && (min..=max).contains(&floor) { tick(slot.kind, floor) } else { None }
            }
        }
    }

    fn compare(self, slot: &Slot, op: Op) -> Predicate {
        let field = slot.field;
        let (floor, exact) = match self {
            Place::Value(value) => return Predicate::compare(field, op, value),
            Place::Tick { floor, exact } => (floor, exact),
        };
        let (min, max) = range(slot.kind);
        let anything = Predicate::IsNotNull { field };
        // Between two ticks, what is below the constant is at most its floor.
        let op = match op {
            Op::Eq if !exact => return Predicate::False,
            Op::NotEq if !exact => return anything,
            Op::Lt if !exact => Op::LtEq,
            Op::GtEq if !exact => Op::Gt,
            op => op,
        };
        if floor < min {
            return if matches!(op, Op::Gt | Op::GtEq | Op::NotEq) { anything } else { Predicate::False };
        }
        if floor > max {
            return if matches!(op, Op::Lt | Op::LtEq | Op::NotEq) { anything } else { Predicate::False };
        }
        match op {
            Op::Lt if floor == min => Predicate::False,
            Op::Gt if floor == max => Predicate::False,
            Op::LtEq if floor == max => anything,
            Op::GtEq if floor == min => anything,
            op => tick(slot.kind, floor).map_or(Predicate::True, |value| Predicate::compare(field, op, value)),
        }
    }
}

/// The least and greatest value of an integer scale.
fn range(kind: Kind) -> (i128, i128) {
    match kind {
        Kind::Whole { min, max } | Kind::Instant { min, max, .. } => (i128::from(min), i128::from(max)),
        Kind::Time => (i128::from(i64::MIN), i128::from(i64::MAX)),
        _ => (i128::MIN, i128::MAX),
    }
}

fn tick(kind: Kind, at: i128) -> Option<Value> {
    match kind {
        Kind::Decimal { .. } => Some(Value::Decimal(at)),
        _ => i64::try_from(at).ok().map(Value::Long),
    }
}

fn float(constant: &ScalarValue) -> Option<f64> {
    match constant {
        ScalarValue::Float32(x) => x.map(f64::from),
        ScalarValue::Float64(x) => *x,
        _ => None,
    }
}

/// A whole number or decimal as unscaled value and scale.
fn decimal(constant: &ScalarValue) -> Option<(i128, u32)> {
    let scaled = |x: Option<i128>, scale: i8| Some((x?, u32::try_from(scale).ok()?));
    match constant {
        ScalarValue::Int8(x) => scaled(x.map(i128::from), 0),
        ScalarValue::Int16(x) => scaled(x.map(i128::from), 0),
        ScalarValue::Int32(x) => scaled(x.map(i128::from), 0),
        ScalarValue::Int64(x) => scaled(x.map(i128::from), 0),
        ScalarValue::UInt8(x) => scaled(x.map(i128::from), 0),
        ScalarValue::UInt16(x) => scaled(x.map(i128::from), 0),
        ScalarValue::UInt32(x) => scaled(x.map(i128::from), 0),
        ScalarValue::UInt64(x) => scaled(x.map(i128::from), 0),
        ScalarValue::Decimal32(x, _, s) => scaled(x.map(i128::from), *s),
        ScalarValue::Decimal64(x, _, s) => scaled(x.map(i128::from), *s),
        ScalarValue::Decimal128(x, _, s) => scaled(*x, *s),
        _ => None,
    }
}

/// A date or timestamp in nanoseconds since 1970, UTC. A timestamp without zone is taken as UTC, like the column's own.
pub(super) fn instant(constant: &ScalarValue) -> Option<i128> {
    use arrow::datatypes::TimeUnit as U;
    let ticks = |x: &Option<i64>, unit: U| x.map(|x| i128::from(x) * nanos_per(&unit));
    match constant {
        ScalarValue::Date32(x) => x.map(|x| i128::from(x) * NANOS_PER_DAY),
        ScalarValue::Date64(x) => ticks(x, U::Millisecond),
        ScalarValue::TimestampSecond(x, _) => ticks(x, U::Second),
        ScalarValue::TimestampMillisecond(x, _) => ticks(x, U::Millisecond),
        ScalarValue::TimestampMicrosecond(x, _) => ticks(x, U::Microsecond),
        ScalarValue::TimestampNanosecond(x, _) => ticks(x, U::Nanosecond),
        _ => None,
    }
}

/// A time of day in nanoseconds.
fn time(constant: &ScalarValue) -> Option<i128> {
    match constant {
        ScalarValue::Time32Second(x) => x.map(|x| i128::from(x) * 1_000_000_000),
        ScalarValue::Time32Millisecond(x) => x.map(|x| i128::from(x) * 1_000_000),
        ScalarValue::Time64Microsecond(x) => x.map(|x| i128::from(x) * 1_000),
        ScalarValue::Time64Nanosecond(x) => x.map(i128::from),
        _ => None,
    }
}

pub(super) fn bytes(constant: &ScalarValue) -> Option<&[u8]> {
    match constant {
        ScalarValue::Binary(x)
        | ScalarValue::LargeBinary(x)
        | ScalarValue::BinaryView(x)
        | ScalarValue::FixedSizeBinary(_, x) => x.as_deref(),
        _ => None,
    }
}
