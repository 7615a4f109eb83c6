//! Which steps of a staircase does a range of whole numbers touch?
//!
//! Years, months, days, hours and truncated numbers never fall while the column rises, so that a range of values is a range
//! of partitions:
//!
//! ```text
//! truncate[10]      ── -20 ──┬── -10 ──┬─── 0 ───┬── 10 ──     x < 0  ▶  inclusive <= -10   strict < 0
//!                           -10        0         10            x < 5  ▶  inclusive <= 0     strict < 0
//! ```
//!
//! Two groups of writers file rows elsewhere, and both projections allow for it:
//!
//! - Old ones rounded time toward 1970 instead of down: a row before 1970 may lie one too high (apache/iceberg #1680).
//! - Truncation of the least ints and longs has no place in their type, and wraps around to the greatest ones. Where an int
//!   has since been widened to a long, rows may still lie where the int wrapped to.

use iceberg::spec::PrimitiveType;

use super::super::{Op, Predicate, Value};
use super::clock::Clock;

/// A transform that never falls.
pub(super) enum Stairs {
    Clock(Clock),
    /// Numbers rounded down to a multiple.
    Truncation(Truncation),
}

pub(super) struct Truncation {
    width: i128,
    /// Values are unscaled decimals, which don't wrap around.
    decimal: bool,
    /// The places of rows that wrapped around.
    wrapped: Vec<i128>,
}

impl Stairs {
    /// Truncation of a number; `None` for other types.
    pub(super) fn truncation(source: &PrimitiveType, width: u32) -> Option<Stairs> {
        let decimal = matches!(source, PrimitiveType::Decimal { .. });
        let width = i128::from(width.max(1));
        let least: &[i128] = match source {
            PrimitiveType::Int => &[i32::MIN as i128],
            PrimitiveType::Long => &[i32::MIN as i128, i64::MIN as i128],
            PrimitiveType::Decimal { .. } => &[],
            _ => return None,
        };
        let wrapped = least.iter().filter(|least| least.rem_euclid(width) != 0);
        // The type has as many values below zero as it has in all, halved.
        let wrapped = wrapped.map(|least| least - least.rem_euclid(width) - 2 * least).collect();
        Some(Stairs::Truncation(Truncation { width, decimal, wrapped }))
    }

    /// Each step holds one value only, so that nothing is lost by the transform.
    pub(super) fn is_identity(&self) -> bool {
        match self {
            Stairs::Clock(clock) => clock.is_identity(),
            Stairs::Truncation(truncation) => truncation.width == 1,
        }
    }

    /// The step that `x` belongs to; `None` if it isn't known.
    fn step(&self, x: i128) -> Option<i128> {
        match self {
            Stairs::Clock(clock) => clock.ordinal(i64::try_from(x).ok()?).map(i128::from),
            Stairs::Truncation(Truncation { width, .. }) => x.checked_sub(x.rem_euclid(*width)),
        }
    }

    /// How much higher than `step` its rows may lie by old rounding.
    fn lift(&self, step: i128) -> i128 {
        i128::from(matches!(self, Stairs::Clock(_)) && step < 0)
    }

    fn wrapped(&self) -> &[i128] {
        match self {
            Stairs::Clock(_) => &[],
            Stairs::Truncation(truncation) => &truncation.wrapped,
        }
    }

    pub(super) fn inclusive(&self, leaf: &Predicate, field: i32) -> Option<Predicate> {
        let at_most = |x: i128| {
            let last = self.step(x)?;
            let upward = self.compare(field, Op::LtEq, last + self.lift(last));
            // Whatever wrapped around is among the least.
            Some(Predicate::or([upward, self.list(field, self.wrapped(), false)]))
        };
        let at_least = |x: i128| Some(self.compare(field, Op::GtEq, self.step(x)?));
        match leaf {
            Predicate::Compare { op, value, .. } => {
                let x = self.number(value)?;
                match op {
                    Op::Eq => Some(self.list(field, &self.places(x)?, false)),
                    Op::NotEq => Some(Predicate::IsNotNull { field }),
                    Op::Lt if self.is_least(x) => Some(Predicate::False),
                    Op::Lt => at_most(x - 1),
                    Op::LtEq => at_most(x),
                    Op::Gt if self.is_greatest(x) => Some(Predicate::False),
                    Op::Gt => at_least(x + 1),
                    Op::GtEq => at_least(x),
                }
            }
            Predicate::In { values, .. } => Some(self.list(field, &self.all_places(values)?, false)),
            Predicate::NotIn { .. } => Some(Predicate::IsNotNull { field }),
            _ => None,
        }
    }

    pub(super) fn strict(&self, leaf: &Predicate, field: i32) -> Option<Predicate> {
        let anything = Some(Predicate::IsNotNull { field });
        // x < end: every step below the one of `end` ends before it. What wrapped around is below whatever is above it.
        let below = |end: i128| Some(self.compare(field, Op::Lt, self.step(end)?));
        // x > last: every step above the one of `last` starts after it, unless rows lie there that belong lower.
        let above = |last: i128| {
            let step = self.step(last)?;
            let higher = self.compare(field, Op::Gt, step + self.lift(step));
            let in_place = match self.wrapped() {
                [] => Predicate::True,
                wrapped => self.list(field, wrapped, true),
            };
            Some(Predicate::and([higher, in_place]))
        };
        match leaf {
            Predicate::Compare { op, value, .. } => {
                let x = self.number(value)?;
                match op {
                    Op::Eq => None,
                    Op::NotEq => Some(self.list(field, &self.places(x)?, true)),
                    Op::Lt => below(x),
                    Op::LtEq if self.is_greatest(x) => anything,
                    Op::LtEq => below(x + 1),
                    Op::Gt => above(x),
                    Op::GtEq if self.is_least(x) => anything,
                    Op::GtEq => above(x - 1),
                }
            }
            Predicate::NotIn { values, .. } => Some(self.list(field, &self.all_places(values)?, true)),
            _ => None,
        }
    }

    /// The partition values under which a row at `x` may be stored.
    fn places(&self, x: i128) -> Option<Vec<i128>> {
        let right = self.step(x)?;
        let lifted = right + self.lift(right);
        let wrapped = self.wrapped().iter().copied().filter(|place| self.wraps_to(right, *place));
        Some([right, lifted].into_iter().chain(wrapped).collect())
    }

    fn all_places(&self, values: &[Value]) -> Option<Vec<i128>> {
        let mut places = Vec::new();
        for value in values {
            places.extend(self.places(self.number(value)?)?);
        }
        Some(places)
    }

    /// They differ by all the values of an int or of a long.
    fn wraps_to(&self, step: i128, place: i128) -> bool {
        place - step == 1 << 32 || place - step == 1 << 64
    }

    fn list(&self, field: i32, places: &[i128], negated: bool) -> Predicate {
        // A place that its type doesn't hold is nobody's.
        let values: Vec<Value> = places.iter().filter_map(|place| self.value(*place)).collect();
        if negated { Predicate::is_not_in(field, values) } else { Predicate::is_in(field, values) }
    }

    fn compare(&self, field: i32, op: Op, place: i128) -> Predicate {
        match self.value(place) {
            Some(value) => Predicate::compare(field, op, value),
            // Below every value there is, or above.
            None if (place < 0) == matches!(op, Op::Gt | Op::GtEq) => Predicate::IsNotNull { field },
            None => Predicate::False,
        }
    }

    fn number(&self, value: &Value) -> Option<i128> {
        match value {
            Value::Long(x) if !self.is_decimal() => Some(i128::from(*x)),
            Value::Decimal(x) if self.is_decimal() => Some(*x),
            _ => None,
        }
    }

    fn value(&self, place: i128) -> Option<Value> {
        if self.is_decimal() { Some(Value::Decimal(place)) } else { i64::try_from(place).ok().map(Value::Long) }
    }

    fn is_decimal(&self) -> bool {
        matches!(self, Stairs::Truncation(Truncation { decimal: true, .. }))
    }

    fn is_least(&self, x: i128) -> bool {
        x == if self.is_decimal() { i128::MIN } else { i128::from(i64::MIN) }
    }

    fn is_greatest(&self, x: i128) -> bool {
        x == if self.is_decimal() { i128::MAX } else { i128::from(i64::MAX) }
    }
}
