//! Can a row of this set match, must every row of it, does this one?
//!
//! ```text
//! rows of a column in a set      null │ NaN │ numbers: lower ≤ x ≤ upper
//! x > 5                            –  │  ?  │ may: upper > 5     must: lower > 5
//! ```
//!
//! Iceberg's bounds and Parquet's statistics leave NaN out, DataFusion orders it (above everything, or below everything if
//! its sign bit is set), and neither says which NaN it was. So wherever a NaN is possible it may satisfy any comparison but
//! an equality with a number. Writers also differ in how they store zeros, so a bound of zero stands for both.

use std::cmp::Ordering;

use super::{Cycle, Facts, Hash, Op, Predicate, Value, Values};

impl Predicate {
    /// False only if no row of the set can satisfy the predicate. Facts that contradict themselves count as not known.
    ///
    /// Of a partition tuple it says whether rows of that partition can satisfy the projected predicate.
    ///
    /// Source: Iceberg specification, "Manifests" (field metrics), "Scan Planning".
    // @spec P3 P4
    pub fn may_match(&self, facts: &dyn Fn(i32) -> Facts) -> bool {
        match self {
            Predicate::True => true,
            Predicate::False => false,
            Predicate::And(parts) => parts.iter().all(|p| p.may_match(facts)),
            Predicate::Or(parts) => parts.iter().any(|p| p.may_match(facts)),
            Predicate::Compare { field, op, value } => Seen::new(facts(*field), value).may_compare(*op, value),
            Predicate::In { field, values } => Seen::of_list(facts(*field), values).may_be_in(values),
            Predicate::NotIn { field, values } => Seen::of_list(facts(*field), values).may_be_outside(values),
            Predicate::Bucket { field, bucket, values, negated } => {
                let seen = Seen::of_bucket(facts(*field));
                seen.only_bucket(*bucket).map_or(seen.may_number, |only| values.holds(&only) != *negated)
            }
            Predicate::Cycle { field, cycle, values } => Seen::of_time(facts(*field)).may_recur(cycle, values),
            Predicate::IsNull { field } => facts(*field).may_hold_null(),
            Predicate::IsNotNull { field } => !facts(*field).all_null(),
        }
    }

    /// True only if every row of the set satisfies the predicate.
    ///
    /// Of a partition tuple and a strict projection it says that every row of that partition satisfies the filter.
    // @spec P3
    pub fn must_match(&self, facts: &dyn Fn(i32) -> Facts) -> bool {
        match self {
            Predicate::True => true,
            Predicate::False => false,
            Predicate::And(parts) => parts.iter().all(|p| p.must_match(facts)),
            Predicate::Or(parts) => parts.iter().any(|p| p.must_match(facts)),
            Predicate::Compare { field, op, value } => Seen::new(facts(*field), value).must_compare(*op, value),
            Predicate::In { field, values } => Seen::of_list(facts(*field), values).must_be_in(values),
            Predicate::NotIn { field, values } => Seen::of_list(facts(*field), values).must_be_outside(values),
            Predicate::Bucket { field, bucket, values, negated } => {
                let seen = Seen::of_bucket(facts(*field));
                !seen.may_null && seen.only_bucket(*bucket).is_some_and(|only| values.holds(&only) != *negated)
            }
            Predicate::Cycle { field, cycle, values } => Seen::of_time(facts(*field)).must_recur(cycle, values),
            Predicate::IsNull { field } => facts(*field).all_null(),
            Predicate::IsNotNull { field } => !facts(*field).may_hold_null(),
        }
    }

    /// SQL's truth of the predicate for one row (`None` = unknown); `row` gives a column's value, `None` for null.
    pub fn holds(&self, row: &dyn Fn(i32) -> Option<Value>) -> Option<bool> {
        match self {
            Predicate::True => Some(true),
            Predicate::False => Some(false),
            Predicate::And(parts) => kleene(parts.iter().map(|p| p.holds(row)), false),
            Predicate::Or(parts) => kleene(parts.iter().map(|p| p.holds(row)), true),
            Predicate::Compare { field, op, value } => Some(op.accepts(row(*field)?.order(value)?)),
            Predicate::In { field, values } => Some(values.holds(&row(*field)?)),
            Predicate::NotIn { field, values } => Some(!values.holds(&row(*field)?)),
            Predicate::Bucket { field, bucket, values, negated } => {
                Some(values.holds(&Value::Long(bucket.bucket(&row(*field)?)?)) != *negated)
            }
            Predicate::Cycle { field, cycle, values } => Some(values.holds(&cycle.value(&row(*field)?)?)),
            Predicate::IsNull { field } => Some(row(*field).is_none()),
            Predicate::IsNotNull { field } => Some(row(*field).is_some()),
        }
    }
}

impl Op {
    /// Whether `a op b` is true, given the order of `a` and `b`.
    pub(super) fn accepts(self, order: Ordering) -> bool {
        match self {
            Op::Eq => order.is_eq(),
            Op::NotEq => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::LtEq => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::GtEq => order.is_ge(),
        }
    }
}

/// AND (`decisive` = false) or OR (`decisive` = true) of three-valued truths.
fn kleene(truths: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for truth in truths {
        match truth {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl Facts {
    /// The null count, unless it contradicts the row count.
    fn trusted_nulls(&self) -> Option<u64> {
        self.nulls.filter(|nulls| self.rows.is_none_or(|rows| *nulls <= rows))
    }

    fn may_hold_null(&self) -> bool {
        self.trusted_nulls() != Some(0)
    }

    fn all_null(&self) -> bool {
        self.rows.is_some() && self.trusted_nulls() == self.rows
    }
}

/// Facts as far as they can be believed, seen by a comparison.
struct Seen {
    lower: Option<Value>,
    upper: Option<Value>,
    may_null: bool,
    may_nan: bool,
    /// Something may be neither null nor NaN.
    may_number: bool,
}

impl Seen {
    fn of_list(facts: Facts, values: &Values) -> Seen {
        match values.first() {
            Some(value) => Seen::new(facts, value),
            None => Seen::new(facts, &Value::Bool(false)),
        }
    }

    /// Of a column that has hashes, which a float has not.
    fn of_bucket(facts: Facts) -> Seen {
        Seen::new(facts, &Value::Long(0))
    }

    /// Of a date or timestamp, or of what partitions are made of it.
    fn of_time(facts: Facts) -> Seen {
        Seen::new(facts, &Value::Long(0))
    }

    fn new(facts: Facts, with: &Value) -> Seen {
        let float = facts.float
            || [Some(with), facts.lower.as_ref(), facts.upper.as_ref()]
                .into_iter()
                .any(|v| matches!(v, Some(Value::Double(_))));
        let nulls = facts.trusted_nulls();
        let not_null = facts.rows.zip(nulls).map(|(rows, nulls)| rows - nulls);
        let nans = if float { facts.nans.filter(|nans| not_null.is_none_or(|n| *nans <= n)) } else { Some(0) };
        let all_null = facts.all_null();
        let (lower, upper) = believed_bounds(facts.lower, facts.upper);
        Seen {
            lower,
            upper,
            may_null: nulls != Some(0),
            may_nan: !all_null && nans != Some(0),
            may_number: !all_null && (not_null.is_none() || nans != not_null),
        }
    }

    fn may_compare(&self, op: Op, value: &Value) -> bool {
        if self.may_nan && (op != Op::Eq || value.is_nan()) {
            return true;
        }
        if !self.may_number {
            return false;
        }
        let may = |op: Op, bound: &Option<Value>| {
            bound.as_ref().and_then(|bound| bound.order(value)).is_none_or(|order| op.accepts(order))
        };
        match op {
            Op::Eq => may(Op::LtEq, &self.lower) && may(Op::GtEq, &self.upper),
            Op::NotEq => may(Op::NotEq, &self.lower) || may(Op::NotEq, &self.upper),
            Op::Lt | Op::LtEq => may(op, &self.lower),
            Op::Gt | Op::GtEq => may(op, &self.upper),
        }
    }

    fn must_compare(&self, op: Op, value: &Value) -> bool {
        if self.may_null || (self.may_nan && (op != Op::NotEq || value.is_nan())) {
            return false;
        }
        if !self.may_number {
            return true;
        }
        let must = |op: Op, bound: &Option<Value>| {
            bound.as_ref().and_then(|bound| bound.order(value)).is_some_and(|order| op.accepts(order))
        };
        match op {
            Op::Eq => must(Op::Eq, &self.lower) && must(Op::Eq, &self.upper),
            Op::NotEq => must(Op::Gt, &self.lower) || must(Op::Lt, &self.upper),
            Op::Lt | Op::LtEq => must(op, &self.upper),
            Op::Gt | Op::GtEq => must(op, &self.lower),
        }
    }

    fn may_be_in(&self, values: &Values) -> bool {
        if self.may_nan && values.any_nan() {
            return true;
        }
        self.may_number && values.any_within(self.lower.as_ref(), self.upper.as_ref()) != Some(false)
    }

    fn must_be_in(&self, values: &Values) -> bool {
        let listed = || self.only_value().is_some_and(|only| values.holds(only));
        !self.may_null && !self.may_nan && (!self.may_number || listed())
    }

    fn may_be_outside(&self, values: &Values) -> bool {
        self.may_nan || (self.may_number && !self.only_value().is_some_and(|only| values.holds(only)))
    }

    fn must_be_outside(&self, values: &Values) -> bool {
        if self.may_null || (self.may_nan && values.any_nan()) {
            return false;
        }
        // An absent bound bounds nothing, so any value of the list on its side counts as within.
        !self.may_number || values.any_within(self.lower.as_ref(), self.upper.as_ref()) == Some(false)
    }

    fn may_recur(&self, cycle: &Cycle, values: &Values) -> bool {
        let occurring = self.lower.as_ref().zip(self.upper.as_ref()).and_then(|(l, u)| cycle.between(l, u));
        self.may_number && occurring.is_none_or(|mut occurring| occurring.any(|value| values.holds(&value)))
    }

    fn must_recur(&self, cycle: &Cycle, values: &Values) -> bool {
        let occurring = self.lower.as_ref().zip(self.upper.as_ref()).and_then(|(l, u)| cycle.between(l, u));
        let all = occurring.is_some_and(|mut occurring| occurring.all(|value| values.holds(&value)));
        !self.may_null && (!self.may_number || all)
    }

    fn only_bucket(&self, bucket: Hash) -> Option<Value> {
        self.only_value().and_then(|only| bucket.bucket(only)).filter(|_| self.may_number).map(Value::Long)
    }

    /// The one number that every row is which is neither null nor NaN.
    fn only_value(&self) -> Option<&Value> {
        self.lower.as_ref().filter(|lower| Some(*lower) == self.upper.as_ref())
    }
}

/// Bounds that may be relied on: no NaN among them, in order, and zeros of both signs within.
fn believed_bounds(lower: Option<Value>, upper: Option<Value>) -> (Option<Value>, Option<Value>) {
    if lower.as_ref().is_some_and(Value::is_nan) || upper.as_ref().is_some_and(Value::is_nan) {
        return (None, None);
    }
    let lower = lower.map(|v| if matches!(v, Value::Double(x) if x == 0.0) { Value::Double(-0.0) } else { v });
    let upper = upper.map(|v| if matches!(v, Value::Double(x) if x == 0.0) { Value::Double(0.0) } else { v });
    match (&lower, &upper) {
        (Some(l), Some(u)) if l.order(u).is_none_or(Ordering::is_gt) => (None, None),
        _ => (lower, upper),
    }
}
