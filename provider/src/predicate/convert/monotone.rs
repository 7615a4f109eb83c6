//! Where does a converted column compare with a constant as asked?
//!
//! `CAST(i AS DOUBLE) < 2.5` is true up to some `i` and false from there on, because the conversion keeps the order. So the
//! engine is asked, by halves, where the answer turns:
//!
//! ```text
//! i                        … 0    1    2    3    4 …
//! CAST(i AS DOUBLE) < 2.5    T    T    T │  F    F       ▶  i <= 2
//! ```
//!
//! The conversion is not imitated here: its rounding, its saturation and its overflow are whatever the engine does. All that
//! must be known of it is that it keeps or reverses order ([`keeps_order`]) and that it has no value or fails, if at all, at
//! the far ends: no filter is true there. (Whether a failing row is met or skipped is nobody's promise.)

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal, NegativeExpr, TryCastExpr};
use datafusion::scalar::ScalarValue;

use super::super::{Op, Predicate, Value};
use super::column::Slot;
use super::{NOT_ORDERED, PARTLY_DEFINED, Truth};

/// Each value of a list takes two searches of up to 128 evaluations of a few µs: more than this many would be felt.
pub(super) const LIST_SEARCHED: usize = 16;

/// A conversion of a column whose comparisons can be searched.
pub(super) struct Searched {
    field: i32,
    axis: Axis,
    /// The conversion, of column 0 of `schema`.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The keys for which the conversion has a value and keeps the order.
    defined: Range,
    /// A key of its own: the least integer, which negation maps to itself.
    apart: Option<i128>,
}

impl Searched {
    /// `None` if the order isn't kept.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, slot: &Slot, arrow: &ArrowSchema) -> Option<Searched> {
        if !slot.same_type || !keeps_order(expr, arrow)? {
            return None;
        }
        let axis = Axis::of(&slot.arrow)?;
        let apart = negates_integer(expr, arrow).then_some(axis.min);
        let expr = Arc::clone(expr).transform_up(as_column_0).data().ok()?;
        let schema = Arc::new(ArrowSchema::new(vec![Field::new("x", slot.arrow.clone(), true)]));
        let first = if apart.is_some() { axis.min + 1 } else { axis.min };
        let defined = Range { first, last: axis.max };
        let mut searched = Searched { field: slot.field, defined, axis, expr, schema, apart };
        searched.defined = searched.find_defined()?;
        Some(searched)
    }

    /// Where `conversion op value` is true; the value is not null.
    pub(super) fn compare(&self, op: Op, value: &ScalarValue) -> Truth {
        if is_nan(value) {
            // Conversions of NaN needn't keep the order among NaNs.
            return Truth::unknown(NOT_ORDERED);
        }
        match self.search(op, value).and_then(|ranges| self.predicate(ranges)) {
            Some(predicate) => Truth::exact(predicate),
            None => Truth::unknown(NOT_ORDERED),
        }
    }

    /// Where the conversion is null, or isn't.
    pub(super) fn null_test(&self, null: bool) -> Truth {
        let field = self.field;
        let apart = self.apart.map(Range::point);
        let Some(not_null) = self.predicate(apart.into_iter().chain([self.defined]).collect()) else {
            return Truth::unknown(PARTLY_DEFINED);
        };
        match (null, not_null == Predicate::IsNotNull { field }) {
            (false, _) => Truth::exact(not_null),
            (true, true) => Truth::exact(Predicate::IsNull { field }),
            // What has no value may be null, or fail.
            (true, false) => Truth::unknown(PARTLY_DEFINED),
        }
    }

    /// The keys where the comparison is true, ascending.
    fn search(&self, op: Op, value: &ScalarValue) -> Option<Vec<Range>> {
        let operator = match op {
            Op::Eq => Operator::Eq,
            Op::NotEq => Operator::NotEq,
            Op::Lt => Operator::Lt,
            Op::LtEq => Operator::LtEq,
            Op::Gt => Operator::Gt,
            Op::GtEq => Operator::GtEq,
        };
        let mut ranges = Vec::new();
        if let Some(key) = self.apart
            && self.boolean(&self.comparison(operator, value), key)?
        {
            ranges.push(Range::point(key));
        }
        match op {
            Op::Eq | Op::NotEq => {
                let at_most = self.where_true(Operator::LtEq, value)?;
                let at = at_most.and(self.where_true(Operator::GtEq, value)?);
                if op == Op::Eq {
                    ranges.push(at);
                } else if at.is_empty() {
                    ranges.push(self.defined);
                } else {
                    ranges.push(Range { first: self.defined.first, last: at.first - 1 });
                    ranges.push(Range { first: at.last + 1, last: self.defined.last });
                }
            }
            _ => ranges.push(self.where_true(operator, value)?),
        }
        ranges.retain(|range| !range.is_empty());
        Some(ranges)
    }

    /// The column is in one of the ranges, which ascend.
    fn predicate(&self, ranges: Vec<Range>) -> Option<Predicate> {
        let mut joined: Vec<Range> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(before) if before.last + 1 == range.first => before.last = range.last,
                _ => joined.push(range),
            }
        }
        if let [before, after] = joined.as_slice()
            && (before.first, after.last) == (self.axis.min, self.axis.max)
            && before.last + 2 == after.first
        {
            return Some(Predicate::compare(self.field, Op::NotEq, self.axis.value(before.last + 1)?));
        }
        let parts: Option<Vec<_>> = joined.into_iter().map(|range| self.within(range)).collect();
        Some(Predicate::or(parts?))
    }

    fn within(&self, range: Range) -> Option<Predicate> {
        let field = self.field;
        let lower = Predicate::compare(field, Op::GtEq, self.axis.value(range.first)?);
        let upper = Predicate::compare(field, Op::LtEq, self.axis.value(range.last)?);
        Some(match (range.first > self.axis.min, range.last < self.axis.max) {
            _ if range.first == range.last => Predicate::compare(field, Op::Eq, self.axis.value(range.first)?),
            (true, true) => Predicate::and([lower, upper]),
            (true, false) => lower,
            (false, true) => upper,
            (false, false) => Predicate::IsNotNull { field },
        })
    }

    fn comparison(&self, op: Operator, value: &ScalarValue) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::clone(&self.expr), op, Arc::new(Literal::new(value.clone()))))
    }

    /// The keys where an ordering comparison is true: from one end of what is defined up to where the answer turns.
    fn where_true(&self, op: Operator, value: &ScalarValue) -> Option<Range> {
        let comparison = self.comparison(op, value);
        let at = |key| self.boolean(&comparison, key);
        let Range { first, last } = self.defined;
        match (at(first)?, at(last)?) {
            (false, false) => Some(Range::EMPTY),
            (true, true) => Some(Range { first, last }),
            (true, false) => Some(Range { first, last: turn(first, last, |key| at(key).map(|truth| !truth))?.0 }),
            (false, true) => Some(Range { first: turn(first, last, at)?.1, last }),
        }
    }

    /// The ends between which the conversion has a value. They lie around zero, or there is nothing to search.
    fn find_defined(&self) -> Option<Range> {
        let defined = |key| Some(self.evaluate(&self.expr, key).is_some());
        let Range { first, last } = self.defined;
        if !defined(0)? {
            return None;
        }
        let first = if defined(first)? { first } else { turn(first, 0, defined)?.1 };
        let last = if defined(last)? { last } else { turn(0, last, |key| defined(key).map(|defined| !defined))?.0 };
        Some(Range { first, last })
    }

    fn boolean(&self, expr: &Arc<dyn PhysicalExpr>, key: i128) -> Option<bool> {
        match self.evaluate(expr, key)? {
            ScalarValue::Boolean(truth) => truth,
            _ => None,
        }
    }

    /// The value for one key; `None` if it is null or the evaluation fails.
    fn evaluate(&self, expr: &Arc<dyn PhysicalExpr>, key: i128) -> Option<ScalarValue> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![self.axis.array(key)?]).ok()?;
        let array = expr.evaluate(&batch).ok()?.into_array(1).ok()?;
        ScalarValue::try_from_array(&array, 0).ok().filter(|value| !value.is_null())
    }
}

/// Keys from `first` to `last`, both included.
#[derive(Clone, Copy)]
struct Range {
    first: i128,
    last: i128,
}

impl Range {
    const EMPTY: Range = Range { first: 1, last: 0 };

    fn point(key: i128) -> Range {
        Range { first: key, last: key }
    }

    fn is_empty(self) -> bool {
        self.first > self.last
    }

    fn and(self, other: Range) -> Range {
        Range { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

/// The last key at which `test` is false and the first at which it is true, given that it is false at `low`, true at `high`
/// and turns once. `None` if the test can't tell.
fn turn(mut low: i128, mut high: i128, test: impl Fn(i128) -> Option<bool>) -> Option<(i128, i128)> {
    while low + 1 < high {
        // The extent of a decimal column doesn't fit.
        let middle = low.midpoint(high);
        if test(middle)? { high = middle } else { low = middle }
    }
    Some((low, high))
}

/// The values of a column in their order, as integers.
struct Axis {
    ty: DataType,
    min: i128,
    max: i128,
}

impl Axis {
    fn of(ty: &DataType) -> Option<Axis> {
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

    fn array(&self, key: i128) -> Option<ArrayRef> {
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

    fn value(&self, key: i128) -> Option<Value> {
        Some(match &self.ty {
            DataType::Float32 => Value::Double(f64::from(single(i32::try_from(key).ok()?))),
            DataType::Float64 => Value::Double(double(i64::try_from(key).ok()?)),
            DataType::Decimal128(_, _) => Value::Decimal(key),
            _ => Value::Long(i64::try_from(key).ok()?),
        })
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

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(x)) => x.is_nan(),
        ScalarValue::Float64(Some(x)) => x.is_nan(),
        _ => false,
    }
}

fn as_column_0(expr: Arc<dyn PhysicalExpr>) -> datafusion::common::Result<Transformed<Arc<dyn PhysicalExpr>>> {
    if expr.as_any().is::<Column>() {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 0));
        return Ok(Transformed::yes(column));
    }
    Ok(Transformed::no(expr))
}

/// Whether the expression keeps or reverses the order of its one column, wherever it has a value, and has one in an interval
/// around zero. A function of time or of numbers that does so (a truncation, a date part) would have its place here.
fn keeps_order(expr: &Arc<dyn PhysicalExpr>, arrow: &ArrowSchema) -> Option<bool> {
    let any = expr.as_any();
    if any.is::<Column>() {
        return Some(true);
    }
    if let Some(negative) = any.downcast_ref::<NegativeExpr>() {
        // Of a float or decimal it is a mirror. Of an integer it wraps around at the least one: that one is kept out of the
        // search, which is possible for the column's own type only.
        let ty = negative.arg().data_type(arrow).ok()?;
        let mirrored = matches!(ty, DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _))
            || negates_integer(expr, arrow);
        return Some(mirrored && keeps_order(negative.arg(), arrow)?);
    }
    let (inner, to) = match (any.downcast_ref::<CastExpr>(), any.downcast_ref::<TryCastExpr>()) {
        (Some(cast), _) => (cast.expr(), cast.cast_type()),
        (_, Some(cast)) => (cast.expr(), cast.cast_type()),
        _ => return None,
    };
    let from = inner.data_type(arrow).ok()?;
    Some(cast_keeps_order(&from, to) && keeps_order(inner, arrow)?)
}

/// Somewhere inside, an integer column is negated.
fn negates_integer(expr: &Arc<dyn PhysicalExpr>, arrow: &ArrowSchema) -> bool {
    let negated = expr.as_any().downcast_ref::<NegativeExpr>().map(NegativeExpr::arg);
    let here = negated.is_some_and(|arg| {
        arg.as_any().is::<Column>() && matches!(arg.data_type(arrow), Ok(DataType::Int32 | DataType::Int64))
    });
    here || expr.children().into_iter().any(|child| negates_integer(child, arrow))
}

fn cast_keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType as A;
    let number = |ty: &DataType| {
        matches!(ty, A::Int8 | A::Int16 | A::Int32 | A::Int64 | A::Float32 | A::Float64 | A::Decimal128(_, _))
    };
    match (from, to) {
        (A::Timestamp(_, None), A::Timestamp(_, Some(zone))) => is_utc(zone),
        (A::Timestamp(_, _), A::Timestamp(_, _)) => true,
        (A::Timestamp(_, Some(zone)), A::Date32) => is_utc(zone),
        (A::Timestamp(_, None), A::Date32) => true,
        (A::Date32, A::Timestamp(_, None)) => true,
        (A::Date32, A::Timestamp(_, Some(zone))) => is_utc(zone),
        (A::Time64(_), A::Time64(_)) => true,
        (from, to) => number(from) && number(to),
    }
}

/// Local times of a zone with another offset run off the calendar's ends inside the conversion, and with daylight saving
/// they run backwards.
fn is_utc(zone: &str) -> bool {
    ["utc", "z", "+00:00", "-00:00", "+0000", "+00"].iter().any(|utc| zone.eq_ignore_ascii_case(utc))
}
