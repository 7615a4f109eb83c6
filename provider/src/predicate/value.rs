//! How do values of different sources become comparable, and in which order?
//!
//! A [`Value`] comes from a bound in a manifest, from a partition tuple or from a constant in a query. Its order is the order
//! DataFusion filters by: integers and decimals as numbers, `false < true`, text by code points (which is the order of its
//! UTF-8 bytes), bytes unsigned, floating point by IEEE 754's *totalOrder*:
//!
//! ```text
//! -NaN < -inf < … < -0.0 < 0.0 < … < inf < NaN
//! ```

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use datafusion::scalar::ScalarValue;
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType};

/// A value of an Iceberg primitive type. Values are only compared with values of the same column (or partition field).
///
/// Equality, order and hash agree with each other and with DataFusion: `-0.0` differs from `0.0`, a NaN equals itself.
#[derive(Clone, Debug)]
pub enum Value {
    Bool(bool),
    /// int, long, date (days), time (µs), timestamp (µs), timestamp_ns (ns), and results of year, month, day, hour, bucket.
    Long(i64),
    /// float and double.
    Double(f64),
    /// Unscaled; the column's type holds the scale.
    Decimal(i128),
    String(String),
    /// binary, fixed, uuid (16 bytes, big endian).
    Bytes(Vec<u8>),
}

impl Value {
    /// The order of two values of one column; `None` if they can't be values of one column.
    pub fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Long(a), Value::Long(b)) => Some(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => Some(a.total_cmp(b)),
            (Value::Decimal(a), Value::Decimal(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Whether this is a floating point NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Value::Double(x) if x.is_nan())
    }

    /// A literal of a partition tuple whose field has type `ty`; `None` if the literal is no value of that type. An int
    /// stands for a long and a float for a double, since columns may be widened after a tuple was written.
    pub fn from_literal(literal: &PrimitiveLiteral, ty: &PrimitiveType) -> Option<Value> {
        use PrimitiveLiteral as L;
        use PrimitiveType as T;
        match (literal, ty) {
            (L::Boolean(x), T::Boolean) => Some(Value::Bool(*x)),
            (L::Int(x), T::Int | T::Long | T::Date) => Some(Value::Long(i64::from(*x))),
            (L::Long(x), T::Long | T::Time | T::Timestamp | T::Timestamptz | T::TimestampNs | T::TimestamptzNs) => {
                Some(Value::Long(*x))
            }
            (L::Float(x), T::Float | T::Double) => Some(Value::Double(f64::from(x.0))),
            (L::Double(x), T::Double) => Some(Value::Double(x.0)),
            (L::Int128(x), T::Decimal { .. }) => Some(Value::Decimal(*x)),
            (L::String(x), T::String) => Some(Value::String(x.clone())),
            (L::Binary(x), T::Binary | T::Fixed(_)) => Some(Value::Bytes(x.clone())),
            (L::UInt128(x), T::Uuid) => Some(Value::Bytes(x.to_be_bytes().to_vec())),
            _ => None,
        }
    }

    /// A bound of a column of type `ty`, written when the column had the datum's type; `None` if the one was not widened to
    /// the other by a change that keeps stored numbers (int to long, float to double, decimals of one scale).
    pub fn from_datum(datum: &Datum, ty: &PrimitiveType) -> Option<Value> {
        use PrimitiveType as T;
        let kept = match (datum.data_type(), ty) {
            (T::Int, T::Long) | (T::Float, T::Double) => true,
            (T::Decimal { scale: a, .. }, T::Decimal { scale: b, .. }) => a == b,
            (a, b) => a == b,
        };
        if kept { Value::from_literal(datum.literal(), ty) } else { None }
    }

    /// A constant as a value of a column of type `ty`, if its Arrow type is the one the column has in Arrow (of whatever
    /// layout). `None` for null and for every other type: nothing is converted.
    pub fn from_scalar(scalar: &ScalarValue, ty: &PrimitiveType) -> Option<Value> {
        use PrimitiveType as T;
        use ScalarValue as S;
        match (scalar, ty) {
            (S::Dictionary(_, inner), _) => Value::from_scalar(inner, ty),
            (S::Boolean(x), T::Boolean) => x.map(Value::Bool),
            (S::Int32(x), T::Int) | (S::Date32(x), T::Date) => x.map(|x| Value::Long(i64::from(x))),
            (S::Int64(x), T::Long)
            | (S::Time64Microsecond(x), T::Time)
            | (S::TimestampMicrosecond(x, None), T::Timestamp)
            | (S::TimestampMicrosecond(x, Some(_)), T::Timestamptz)
            | (S::TimestampNanosecond(x, None), T::TimestampNs)
            | (S::TimestampNanosecond(x, Some(_)), T::TimestamptzNs) => x.map(Value::Long),
            (S::Float32(x), T::Float) => x.map(|x| Value::Double(f64::from(x))),
            (S::Float64(x), T::Double) => x.map(Value::Double),
            (S::Decimal128(x, _, s), T::Decimal { scale, .. }) if u32::try_from(*s) == Ok(*scale) => {
                x.map(Value::Decimal)
            }
            (S::Utf8(x) | S::LargeUtf8(x) | S::Utf8View(x), T::String) => x.clone().map(Value::String),
            (
                S::Binary(x) | S::LargeBinary(x) | S::BinaryView(x) | S::FixedSizeBinary(_, x),
                T::Binary | T::Fixed(_) | T::Uuid,
            ) => x.clone().map(Value::Bytes),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Bool(_) => 0,
            Value::Long(_) => 1,
            Value::Double(_) => 2,
            Value::Decimal(_) => 3,
            Value::String(_) => 4,
            Value::Bytes(_) => 5,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Values of different kinds are ordered by kind, only so that they can be sorted; [`Value::order`] is the comparison of SQL.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other).unwrap_or_else(|| self.rank().cmp(&other.rank()))
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Bool(x) => x.hash(state),
            Value::Long(x) => x.hash(state),
            Value::Double(x) => x.to_bits().hash(state),
            Value::Decimal(x) => x.hash(state),
            Value::String(x) => x.hash(state),
            Value::Bytes(x) => x.hash(state),
        }
    }
}

/// The values of an IN list: ascending, each once. Sorted when it is made, so that a test against bounds is a binary search.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Values(Arc<[Value]>);

impl Values {
    /// Whether `value` is in the list.
    pub fn holds(&self, value: &Value) -> bool {
        self.0.binary_search(value).is_ok()
    }

    /// Whether a value lies within the bounds, both included; an absent bound bounds nothing. `None` if the list and a bound
    /// can't be of one column.
    pub fn any_within(&self, lower: Option<&Value>, upper: Option<&Value>) -> Option<bool> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return Some(false) };
        // The ends decide: the list is sorted by kind first.
        for bound in lower.iter().chain(upper.iter()) {
            first.order(bound)?;
            last.order(bound)?;
        }
        let start = lower.map_or(0, |lower| self.0.partition_point(|v| v < lower));
        Some(self.0.get(start).is_some_and(|v| upper.is_none_or(|upper| v <= upper)))
    }

    /// What is in both lists.
    pub(super) fn common(&self, other: &Values) -> Values {
        self.iter().filter(|value| other.holds(value)).cloned().collect()
    }

    /// What is in one of the lists.
    pub(super) fn joined(&self, other: &Values) -> Values {
        self.iter().chain(other.iter()).cloned().collect()
    }

    /// Whether a NaN is in the list.
    pub fn any_nan(&self) -> bool {
        // In total order they are at the ends.
        self.0.first().is_some_and(Value::is_nan) || self.0.last().is_some_and(Value::is_nan)
    }
}

impl From<Vec<Value>> for Values {
    fn from(mut values: Vec<Value>) -> Self {
        values.sort();
        values.dedup();
        Values(values.into())
    }
}

impl FromIterator<Value> for Values {
    fn from_iter<I: IntoIterator<Item = Value>>(iter: I) -> Self {
        iter.into_iter().collect::<Vec<_>>().into()
    }
}

impl Deref for Values {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}
