//! Where does a function of a column compare with a constant as asked?
//!
//! `CAST(i AS DOUBLE) < 2.5` is true up to some `i` and false from there on, because the conversion keeps the order. So the
//! engine is asked, by halves, where the answer turns:
//!
//! ```text
//! i                        … 0    1    2    3    4 …
//! CAST(i AS DOUBLE) < 2.5    T    T    T │  F    F       ▶  i <= 2
//! ```
//!
//! The function is not imitated here: its rounding, its saturation and its overflow are whatever the engine does. All that
//! must be known of it is that it keeps or reverses order ([`order`](super::order)) and that it has no value or fails, if at
//! all, at the far ends: no filter is true there. (Whether a failing row is met or skipped is nobody's promise.) Where it may
//! do anything at all, as beyond the years that nanoseconds count, rows are kept and nothing is proven of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::logical_expr::Operator;

use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;

use super::super::{Op, Predicate};
use super::axis::{Axis, Range, turn};
use super::column::Slot;
use super::truth::Truth;
use super::{NOT_ORDERED, OUT_OF_BOUNDS, PARTLY_DEFINED};

/// Each value of a list takes two searches of up to 128 evaluations of a few µs: more than this many would be felt.
pub(super) const LIST_SEARCHED: usize = 16;

/// A function of a column whose comparisons can be searched.
pub(super) struct Searched {
    field: i32,
    axis: Axis,
    /// The function, of column 0 of `schema`.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The keys for which the function has a value and keeps the order.
    defined: Range,
    /// A key of its own: the least integer, which negation maps to itself.
    apart: Option<i128>,
    /// Keys of which nothing is known, ascending.
    doubtful: Vec<Range>,
}

impl Searched {
    /// The column itself; `None` if its values have no axis.
    pub(super) fn column(slot: &Slot) -> Option<Searched> {
        if !slot.same_type {
            return None;
        }
        let axis = Axis::of(&slot.arrow)?;
        let schema = Arc::new(ArrowSchema::new(vec![Field::new("x", slot.arrow.clone(), true)]));
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 0));
        let defined = Range { first: axis.min, last: axis.max };
        Some(Searched { field: slot.field, defined, axis, expr, schema, apart: None, doubtful: Vec::new() })
    }

    /// The least key is mapped to where it stands apart.
    pub(super) fn set_least_apart(mut self) -> Option<Searched> {
        self.apart = Some(self.axis.min);
        self.defined.first = self.axis.min.checked_add(1)?;
        Some(self)
    }

    /// The same with `expr`, a function of the one before, which keeps or reverses the order.
    pub(super) fn through(mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<Searched> {
        self.expr = Arc::clone(expr).transform_down(as_column_0).data().ok()?;
        Some(self)
    }

    /// Only arguments from `first` to `last` are given to what comes next; of rows with others nothing will be known.
    pub(super) fn limited(mut self, first: &ScalarValue, last: &ScalarValue) -> Option<Searched> {
        if self.apart.is_some() {
            return None;
        }
        self = self.settled()?;
        let within =
            self.where_true(Operator::GtEq, first)?.and(self.where_true(Operator::LtEq, last)?).and(self.defined);
        if within.is_empty() {
            return None;
        }
        self.doubtful.extend([
            Range { first: self.defined.first, last: within.first - 1 },
            Range { first: within.last + 1, last: self.defined.last },
        ]);
        self.doubtful.retain(|range| !range.is_empty());
        self.doubtful.sort_by_key(|range| range.first);
        self.defined = within;
        Some(self)
    }

    /// Arguments below `first` make what comes next fail.
    pub(super) fn failing_below(mut self, first: &ScalarValue) -> Option<Searched> {
        self = self.settled()?;
        self.defined = self.where_true(Operator::GtEq, first)?;
        (self.apart.is_none() && !self.defined.is_empty()).then_some(self)
    }

    /// Finds the ends between which the function has a value. They lie around zero (or as near as they may), or there is
    /// nothing to search.
    pub(super) fn settled(mut self) -> Option<Searched> {
        let defined = |key| Some(self.evaluate(&self.expr, key).is_some());
        let Range { first, last } = self.defined;
        let middle = 0.clamp(first, last);
        if !defined(middle)? {
            return None;
        }
        let first = if defined(first)? { first } else { turn(first, middle, defined)?.1 };
        let last =
            if defined(last)? { last } else { turn(middle, last, |key| defined(key).map(|defined| !defined))?.0 };
        self.defined = Range { first, last };
        Some(self)
    }

    /// Where `function op value` is true; the value is not null.
    pub(super) fn compare(&self, op: Op, value: &ScalarValue) -> Truth {
        if is_nan(value) {
            // Conversions of NaN needn't keep the order among NaNs.
            return Truth::unknown(NOT_ORDERED);
        }
        let Some(found) = self.search(op, value) else { return Truth::unknown(NOT_ORDERED) };
        let possible = found.iter().chain(&self.doubtful).copied().collect();
        match (self.predicate(possible, true), self.predicate(found, false)) {
            (Some(possible), Some(certain)) => Truth::between(possible, certain, OUT_OF_BOUNDS),
            _ => Truth::unknown(NOT_ORDERED),
        }
    }

    /// Where the function is null, or isn't.
    pub(super) fn null_test(&self, null: bool) -> Truth {
        let apart = self.apart.filter(|key| self.evaluate(&self.expr, *key).is_some());
        let defined: Vec<Range> = apart.map(Range::point).into_iter().chain([self.defined]).collect();
        let possible = defined.iter().chain(&self.doubtful).copied().collect();
        match (self.predicate(possible, true), self.predicate(defined, false)) {
            (Some(possible), Some(certain)) if !null => Truth::between(possible, certain, OUT_OF_BOUNDS),
            // What has no value may be null, or fail.
            (Some(_), Some(certain)) => {
                Truth::between(certain.complement(), Predicate::IsNull { field: self.field }, PARTLY_DEFINED)
            }
            _ => Truth::unknown(PARTLY_DEFINED),
        }
    }

    /// The keys where the comparison is true, ascending.
    fn search(&self, op: Op, value: &ScalarValue) -> Option<Vec<Range>> {
        let operator = super::operator(op);
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

    /// The column is in one of the ranges; where these can't be told exactly, in more (`outward`) or in less.
    fn predicate(&self, ranges: Vec<Range>, outward: bool) -> Option<Predicate> {
        let snapped = ranges.into_iter().map(|range| self.axis.snapped(range, outward));
        let mut ranges: Vec<Range> = snapped.filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| range.first);
        let mut joined: Vec<Range> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(before) if before.last + 1 >= range.first => before.last = before.last.max(range.last),
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
        // Among NaNs a range begins and ends with the infinity before them.
        let numbers = self.axis.infinities();
        let lower = match numbers {
            Some(numbers) if range.first > numbers.last => (Op::Gt, numbers.last),
            _ => (Op::GtEq, range.first),
        };
        let upper = match numbers {
            Some(numbers) if range.last < numbers.first => (Op::Lt, numbers.first),
            _ => (Op::LtEq, range.last),
        };
        let lower = Predicate::compare(field, lower.0, self.axis.value(lower.1)?);
        let upper = Predicate::compare(field, upper.0, self.axis.value(upper.1)?);
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

    /// The type of the function's values.
    pub(super) fn data_type(&self) -> Option<DataType> {
        self.expr.data_type(&self.schema).ok()
    }
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(x)) => x.is_nan(),
        ScalarValue::Float64(Some(x)) => x.is_nan(),
        _ => false,
    }
}

/// The column, or the field inside structs, as the only column of a batch.
fn as_column_0(expr: Arc<dyn PhysicalExpr>) -> datafusion::common::Result<Transformed<Arc<dyn PhysicalExpr>>> {
    let function = expr.as_any().downcast_ref::<ScalarFunctionExpr>();
    let is_field = function.is_some_and(|function| function.fun().inner().as_any().is::<GetFieldFunc>());
    if is_field || expr.as_any().is::<Column>() {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 0));
        return Ok(Transformed::yes(column));
    }
    Ok(Transformed::no(expr))
}
