//! Which values does a column have, in their order?
//!
//! A place on the axis is an integer: a number itself, ticks of a time, the rank of a float in total order.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, TimeUnit};

use super::super::Value;

/// The values of a column in their order, as integers.
pub(super) struct Axis {
    ty: DataType,
    pub(super) min: i128,
    pub(super) max: i128,
}

impl Axis {
    pub(super) fn of(ty: &DataType) -> Option<Axis> {
        let (min, max) = match ty {
            DataType::Int32 | DataType::Date32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            DataType::Int64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
            DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => {
                (i128::from(i64::MIN), i128::from(i64::MAX))
            }
            // A time of day; the engine's conversion of anything beyond wraps around.
            DataType::Time64(TimeUnit::Microsecond) => (0, 86_399_999_999),
            DataType::Float32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            DataType::Float64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
            DataType::Decimal128(precision, _) => {
                let limit = 10_i128.checked_pow(u32::from(*precision))? - 1;
                (-limit, limit)
            }
            _ => return None,
        };
        Some(Axis { ty: ty.clone(), min, max })
    }

    pub(super) fn array(&self, key: i128) -> Option<ArrayRef> {
        let long = || i64::try_from(key).ok();
        let int = || i32::try_from(key).ok();
        Some(match &self.ty {
            DataType::Int32 => Arc::new(Int32Array::from(vec![int()?])),
            DataType::Date32 => Arc::new(Date32Array::from(vec![int()?])),
            DataType::Int64 => Arc::new(Int64Array::from(vec![long()?])),
            DataType::Time64(_) => Arc::new(Time64MicrosecondArray::from(vec![long()?])),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Arc::new(TimestampMicrosecondArray::from(vec![long()?]).with_timezone_opt(zone.clone()))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Arc::new(TimestampNanosecondArray::from(vec![long()?]).with_timezone_opt(zone.clone()))
            }
            DataType::Float32 => Arc::new(Float32Array::from(vec![single(int()?)])),
            DataType::Float64 => Arc::new(Float64Array::from(vec![double(long()?)])),
            DataType::Decimal128(precision, scale) => {
                Arc::new(Decimal128Array::from(vec![key]).with_precision_and_scale(*precision, *scale).ok()?)
            }
            _ => return None,
        })
    }

    pub(super) fn value(&self, key: i128) -> Option<Value> {
        Some(match &self.ty {
            DataType::Float32 => Value::Double(f64::from(single(i32::try_from(key).ok()?))),
            DataType::Float64 => Value::Double(double(i64::try_from(key).ok()?)),
            DataType::Decimal128(_, _) => Value::Decimal(key),
            _ => Value::Long(i64::try_from(key).ok()?),
        })
    }
}

impl Axis {
    /// Where the infinities of a float are: beyond are NaNs. They may change on the way to a double (a signalling one becomes
    /// quiet), so that none is told from another.
    pub(super) fn infinities(&self) -> Option<Range> {
        let infinity = i128::from(f32::INFINITY.to_bits());
        (self.ty == DataType::Float32).then_some(Range { first: -infinity - 1, last: infinity })
    }

    /// The range with all of the NaNs of a side that it has some of, or, not `outward`, with none of them.
    pub(super) fn snapped(&self, range: Range, outward: bool) -> Range {
        let Some(numbers) = self.infinities() else { return range };
        let Range { mut first, mut last } = range;
        if self.min < first && first < numbers.first {
            first = if outward { self.min } else { numbers.first };
        }
        if first > numbers.last + 1 {
            first = if outward { numbers.last + 1 } else { self.max + 1 };
        }
        if numbers.last < last && last < self.max {
            last = if outward { self.max } else { numbers.last };
        }
        if last < numbers.first - 1 {
            last = if outward { numbers.first - 1 } else { self.min - 1 };
        }
        Range { first, last }
    }
}

/// The float at a place in total order: 0 is 0.0, -1 is -0.0.
fn single(key: i32) -> f32 {
    f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32)
}

/// The double at a place in total order: 0 is 0.0, -1 is -0.0.
fn double(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
}

/// Keys from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) first: i128,
    pub(super) last: i128,
}

impl Range {
    pub(super) const EMPTY: Range = Range { first: 1, last: 0 };

    pub(super) fn point(key: i128) -> Range {
        Range { first: key, last: key }
    }

    pub(super) fn is_empty(self) -> bool {
        self.first > self.last
    }

    pub(super) fn and(self, other: Range) -> Range {
        Range { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

/// The last key at which `test` is false and the first at which it is true, given that it is false at `low`, true at `high`
/// and turns once. `None` if the test can't tell.
pub(super) fn turn(mut low: i128, mut high: i128, test: impl Fn(i128) -> Option<bool>) -> Option<(i128, i128)> {
    while low + 1 < high {
        // The extent of a decimal column doesn't fit.
        let middle = low.midpoint(high);
        if test(middle)? { high = middle } else { low = middle }
    }
    Some((low, high))
}
