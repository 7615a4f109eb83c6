//! What does a predicate on columns say about partition values?
//!
//! ```text
//!                    inclusive: may hold a match       strict: holds nothing else
//! ts <  noon of D    ts_day <= D                       ts_day < D
//! ts >= start of D   ts_day >= D                       ts_day >= D
//! ts =  noon of D    ts_day =  D                       –
//! k  <> 'a'          k <> 'a'        (identity)        k <> 'a'
//! ```
//!
//! Two guarantees, each a property in the tests: *if a row matches the predicate, its partition may match the inclusive
//! projection*; *if a partition must match the strict projection, every row in it matches the predicate*. Partition tuples
//! are tested by `may_match` and `must_match` (not by `holds`), which know what writers do to NaN and zeros.
//!
//! Old writers rounded time toward 1970 instead of down: a row before 1970 may lie in a partition that is one too high
//! (apache/iceberg #1680). Both projections allow for it.

use iceberg::spec::{PartitionField, PartitionSpec, PrimitiveType, Schema, Transform};

use super::{Op, Predicate, Value};

const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_DAY: i64 = 86_400;

/// Inclusive projection onto a partition spec's fields (named by partition field id): "if a row matches the predicate, its
/// partition matches the projection".
///
/// A partition field whose source column is gone, or whose transform isn't understood, says nothing.
///
/// Source: Iceberg specification, "Scan Planning", "Partition Transforms".
// @spec P1
pub fn project(predicate: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Predicate {
    Projection { spec, schema, strict: false }.of(predicate)
}

/// Strict projection: "if a partition matches the projection, every row in it matches the predicate".
// @spec P1
pub fn project_strict(predicate: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Predicate {
    Projection { spec, schema, strict: true }.of(predicate)
}

struct Projection<'a> {
    spec: &'a PartitionSpec,
    schema: &'a Schema,
    strict: bool,
}

impl Projection<'_> {
    fn of(&self, predicate: &Predicate) -> Predicate {
        match predicate {
            Predicate::True => Predicate::True,
            Predicate::False => Predicate::False,
            Predicate::And(parts) => Predicate::and(parts.iter().map(|p| self.of(p))),
            Predicate::Or(parts) => Predicate::or(parts.iter().map(|p| self.of(p))),
            Predicate::Compare { field, .. }
            | Predicate::In { field, .. }
            | Predicate::NotIn { field, .. }
            | Predicate::IsNull { field }
            | Predicate::IsNotNull { field } => self.leaf(predicate, *field),
        }
    }

    /// All partition fields over the column have their say: each alone may rule a partition out, or prove it.
    fn leaf(&self, leaf: &Predicate, column: i32) -> Predicate {
        let fields = self.spec.fields().iter().filter(|f| f.source_id == column);
        let parts = fields.map(|field| self.through(leaf, field).unwrap_or_else(|| self.nothing()));
        if self.strict { Predicate::or(parts) } else { Predicate::and(parts) }
    }

    fn nothing(&self) -> Predicate {
        if self.strict { Predicate::False } else { Predicate::True }
    }

    fn through(&self, leaf: &Predicate, field: &PartitionField) -> Option<Predicate> {
        let source = self.schema.field_by_id(field.source_id)?.field_type.as_primitive_type()?;
        match field.transform {
            Transform::Identity => Some(renamed(leaf, field.field_id)),
            Transform::Year => Clock::new(Part::Year, source)?.project(leaf, field.field_id, self.strict),
            Transform::Month => Clock::new(Part::Month, source)?.project(leaf, field.field_id, self.strict),
            Transform::Day => Clock::new(Part::Day, source)?.project(leaf, field.field_id, self.strict),
            Transform::Hour => Clock::new(Part::Hour, source)?.project(leaf, field.field_id, self.strict),
            // Equality and IN could be projected by hashing, ranges by truncating. Until they are, nothing is pruned.
            Transform::Bucket(_) | Transform::Truncate(_) => None,
            // Void is null whatever the row, and of an unknown transform nothing is known.
            Transform::Void | Transform::Unknown => None,
        }
    }
}

fn renamed(leaf: &Predicate, field: i32) -> Predicate {
    match leaf {
        Predicate::Compare { op, value, .. } => Predicate::Compare { field, op: *op, value: value.clone() },
        Predicate::In { values, .. } => Predicate::In { field, values: values.clone() },
        Predicate::NotIn { values, .. } => Predicate::NotIn { field, values: values.clone() },
        Predicate::IsNull { .. } => Predicate::IsNull { field },
        Predicate::IsNotNull { .. } => Predicate::IsNotNull { field },
        other => other.clone(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
}

/// A time transform over a type: ticks of the column to ordinals since 1970.
#[derive(Clone, Copy)]
struct Clock {
    part: Part,
    /// Of the column's values; `None` for a date, whose values are days.
    ticks_per_second: Option<i64>,
}

impl Clock {
    fn new(part: Part, source: &PrimitiveType) -> Option<Clock> {
        let ticks_per_second = match source {
            PrimitiveType::Date if part != Part::Hour => None,
            PrimitiveType::Timestamp | PrimitiveType::Timestamptz => Some(1_000_000),
            PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => Some(1_000_000_000),
            _ => return None,
        };
        Some(Clock { part, ticks_per_second })
    }

    /// The ordinal of the part that holds `tick`, rounding down; `None` if it is no int, which is what partitions hold.
    fn ordinal(self, tick: i64) -> Option<i64> {
        let day = |tick: i64| match self.ticks_per_second {
            None => tick,
            Some(ticks) => tick.div_euclid(ticks * SECONDS_PER_DAY),
        };
        let ordinal = match self.part {
            Part::Hour => tick.div_euclid(self.ticks_per_second? * SECONDS_PER_HOUR),
            Part::Day => day(tick),
            Part::Month => months_since_1970(day(tick)),
            Part::Year => months_since_1970(day(tick)).div_euclid(12),
        };
        i32::try_from(ordinal).ok().map(i64::from)
    }

    /// Each part holds one value only, so that nothing is lost by the transform.
    fn is_identity(self) -> bool {
        self.part == Part::Day && self.ticks_per_second.is_none()
    }

    fn project(self, leaf: &Predicate, field: i32, strict: bool) -> Option<Predicate> {
        match leaf {
            Predicate::IsNull { .. } => Some(Predicate::IsNull { field }),
            Predicate::IsNotNull { .. } => Some(Predicate::IsNotNull { field }),
            _ if self.is_identity() => Some(renamed(leaf, field)),
            _ if strict => self.strict(leaf, field),
            _ => self.inclusive(leaf, field),
        }
    }

    fn inclusive(self, leaf: &Predicate, field: i32) -> Option<Predicate> {
        let at_most = |tick: i64| {
            let last = self.ordinal(tick)?;
            // Written one too high before 1970.
            Some(Predicate::compare(field, Op::LtEq, Value::Long(if last < 0 { last + 1 } else { last })))
        };
        let at_least = |tick: i64| Some(Predicate::compare(field, Op::GtEq, Value::Long(self.ordinal(tick)?)));
        match leaf {
            Predicate::Compare { op, value: Value::Long(tick), .. } => match op {
                Op::Eq => Some(Predicate::is_in(field, self.places(*tick)?)),
                Op::NotEq => Some(Predicate::IsNotNull { field }),
                Op::Lt => tick.checked_sub(1).map_or(Some(Predicate::False), at_most),
                Op::LtEq => at_most(*tick),
                Op::Gt => tick.checked_add(1).map_or(Some(Predicate::False), at_least),
                Op::GtEq => at_least(*tick),
            },
            Predicate::In { values, .. } => {
                let mut places = Vec::new();
                for value in values.iter() {
                    let Value::Long(tick) = value else { return None };
                    places.extend(self.places(*tick)?);
                }
                Some(Predicate::is_in(field, places))
            }
            Predicate::NotIn { .. } => Some(Predicate::IsNotNull { field }),
            _ => None,
        }
    }

    fn strict(self, leaf: &Predicate, field: i32) -> Option<Predicate> {
        // x < end: every part below the one of `end` ends before it.
        let below = |end: i64| Some(Predicate::compare(field, Op::Lt, Value::Long(self.ordinal(end)?)));
        // x > last: every part above the one of `last` starts after it, unless its rows were written one too high.
        let above = |last: i64| {
            let part = self.ordinal(last)?;
            Some(Predicate::compare(field, Op::Gt, Value::Long(if part < 0 { part + 1 } else { part })))
        };
        match leaf {
            Predicate::Compare { op, value: Value::Long(tick), .. } => match op {
                Op::Eq => None,
                Op::NotEq => Some(Predicate::is_not_in(field, self.places(*tick)?)),
                Op::Lt => below(*tick),
                Op::LtEq => tick.checked_add(1).map_or(Some(Predicate::IsNotNull { field }), below),
                Op::Gt => above(*tick),
                Op::GtEq => tick.checked_sub(1).map_or(Some(Predicate::IsNotNull { field }), above),
            },
            Predicate::NotIn { values, .. } => {
                let mut places = Vec::new();
                for value in values.iter() {
                    let Value::Long(tick) = value else { return None };
                    places.extend(self.places(*tick)?);
                }
                Some(Predicate::is_not_in(field, places))
            }
            _ => None,
        }
    }

    /// The partition values under which a row at `tick` may be stored.
    fn places(self, tick: i64) -> Option<Vec<Value>> {
        let right = self.ordinal(tick)?;
        let too_high = (right < 0).then_some(right + 1);
        Some([right].into_iter().chain(too_high).map(Value::Long).collect())
    }
}

/// Months since January 1970 of a day since 1970-01-01, in the proleptic Gregorian calendar, for any day.
fn months_since_1970(day: i64) -> i64 {
    // Count from 0000-03-01: then a leap day is the last of its year, and a cycle of 400 years (146,097 days) starts.
    let shifted = day + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March have 31 30 31 30 31 | 31 30 31 30 31 | 31 28 days: 153 days in five of them.
    let month_from_march = (5 * day_of_year + 2) / 153;
    (cycle * 400 + year_of_cycle) * 12 + month_from_march + 2 - 1_970 * 12
}
