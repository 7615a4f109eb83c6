//! What does a filter say about columns, partitions and bounds?
//!
//! ```text
//! filter              ts >= '2026-06-04T12:00' AND length(text) > 9       convert ─▶ Claim per conjunct
//!   predicate         ts >= 2026-06-04T12:00:00+00:00                     a superset of the matching rows
//!     projected       ts_day >= 2026-06-04                                project (per spec) ─▶ may_match(partition)
//!     bounds          upper bound of ts >= …                              may_match(file, row group, page)
//! ```
//!
//! Every step errs to one side: if a row matches the filter it matches the predicate, its partition may match the
//! projection, and whatever holds it may match by its facts. The strict half ([`project_strict`], [`Predicate::must_match`])
//! errs to the other side.

mod calendar;
mod convert;
mod cycle;
mod display;
mod evaluate;
mod facts;
mod functions;
mod project;
#[cfg(test)]
mod tests;
mod value;

pub use convert::{advice, column_of, convert, convert_conjuncts};
pub use cycle::{Cycle, Part};
pub use facts::{Facts, facts_of_file, facts_of_metrics, facts_of_partition, facts_of_summary};
pub use functions::{
    Apply, Conversion, DateBin, DateTrunc, TransformFunction, date_bin_of_every_year, date_trunc_of_every_year,
};
pub use project::{Hash, project, project_strict};
pub use value::{Value, Values};

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Op {
    /// The operator that is true where this one is false (and unknown where it is unknown).
    pub fn negate(self) -> Op {
        match self {
            Op::Eq => Op::NotEq,
            Op::NotEq => Op::Eq,
            Op::Lt => Op::GtEq,
            Op::LtEq => Op::Gt,
            Op::Gt => Op::LtEq,
            Op::GtEq => Op::Lt,
        }
    }

    /// The operator with its operands exchanged.
    pub fn swap(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::LtEq => Op::GtEq,
            Op::Gt => Op::Lt,
            Op::GtEq => Op::LtEq,
            Op::Eq | Op::NotEq => self,
        }
    }
}

/// A condition over columns, named by field id, under SQL's three-valued logic with DataFusion's order of values: see
/// [`Value`]. Floating point follows total order, so a NaN is equal to itself only, above everything or (with its sign bit
/// set) below everything, and `-0.0 < 0.0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    True,
    False,
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Compare {
        field: i32,
        op: Op,
        value: Value,
    },
    In {
        field: i32,
        values: Values,
    },
    NotIn {
        field: i32,
        values: Values,
    },
    /// The field's hash is (or, `negated`, is not) one of the values.
    Bucket {
        field: i32,
        bucket: Hash,
        values: Values,
        negated: bool,
    },
    /// A part of the field's time that comes again and again is one of the values.
    Cycle {
        field: i32,
        cycle: Cycle,
        values: Values,
    },
    IsNull {
        field: i32,
    },
    IsNotNull {
        field: i32,
    },
}

impl Predicate {
    /// `field op value`.
    pub fn compare(field: i32, op: Op, value: Value) -> Predicate {
        Predicate::Compare { field, op, value }
    }

    /// `field IN (values)`; false for an empty list.
    pub fn is_in(field: i32, values: impl Into<Values>) -> Predicate {
        let values = values.into();
        match &*values {
            [] => Predicate::False,
            [one] => Predicate::Compare { field, op: Op::Eq, value: one.clone() },
            _ => Predicate::In { field, values },
        }
    }

    /// `field <> v` for each of the values; any value (and not null) for an empty list.
    pub fn is_not_in(field: i32, values: impl Into<Values>) -> Predicate {
        let values = values.into();
        match &*values {
            [] => Predicate::IsNotNull { field },
            [one] => Predicate::Compare { field, op: Op::NotEq, value: one.clone() },
            _ => Predicate::NotIn { field, values },
        }
    }

    /// A part of the field's time is one of the values; false of none of them, any time (and not null) of all it can be.
    pub fn recurs(field: i32, cycle: Cycle, values: Values) -> Predicate {
        if values.is_empty() {
            Predicate::False
        } else if cycle.others(&values).is_empty() {
            Predicate::IsNotNull { field }
        } else {
            Predicate::Cycle { field, cycle, values }
        }
    }

    /// All of the parts, simplified: nested ANDs are flattened, constants folded, repetitions dropped.
    pub fn and(parts: impl IntoIterator<Item = Predicate>) -> Predicate {
        let mut all = Vec::new();
        for part in parts {
            match part {
                Predicate::True => {}
                Predicate::False => return Predicate::False,
                Predicate::And(inner) => inner.into_iter().for_each(|part| push(&mut all, part, Values::common)),
                part => push(&mut all, part, Values::common),
            }
        }
        if all.contains(&Predicate::False) {
            return Predicate::False;
        }
        // What compares a field is true of no null.
        let compared: Vec<i32> = all.iter().filter_map(Predicate::compared_field).collect();
        all.retain(|part| !matches!(part, Predicate::IsNotNull { field } if compared.contains(field)));
        single(all, Predicate::True, Predicate::And)
    }

    /// Any of the parts, simplified: nested ORs are flattened, constants folded, repetitions dropped.
    pub fn or(parts: impl IntoIterator<Item = Predicate>) -> Predicate {
        let mut any = Vec::new();
        for part in parts {
            match part {
                Predicate::False => {}
                Predicate::True => return Predicate::True,
                Predicate::Or(inner) => inner.into_iter().for_each(|part| push(&mut any, part, Values::joined)),
                part => push(&mut any, part, Values::joined),
            }
        }
        single(any, Predicate::False, Predicate::Or)
    }

    /// True of exactly the rows of which this is not true: where it is false, and where it is unknown.
    pub fn complement(&self) -> Predicate {
        let or_null = |field: i32, predicate| Predicate::or([predicate, Predicate::IsNull { field }]);
        match self {
            Predicate::True => Predicate::False,
            Predicate::False => Predicate::True,
            Predicate::And(parts) => Predicate::or(parts.iter().map(Predicate::complement)),
            Predicate::Or(parts) => Predicate::and(parts.iter().map(Predicate::complement)),
            Predicate::Compare { field, op, value } => {
                or_null(*field, Predicate::compare(*field, op.negate(), value.clone()))
            }
            Predicate::In { field, values } => or_null(*field, Predicate::is_not_in(*field, values.clone())),
            Predicate::NotIn { field, values } => or_null(*field, Predicate::is_in(*field, values.clone())),
            Predicate::Bucket { field, bucket, values, negated } => {
                let (bucket, values, negated) = (*bucket, values.clone(), !negated);
                or_null(*field, Predicate::Bucket { field: *field, bucket, values, negated })
            }
            Predicate::Cycle { field, cycle, values } => {
                or_null(*field, Predicate::recurs(*field, cycle.clone(), cycle.others(values)))
            }
            Predicate::IsNull { field } => Predicate::IsNotNull { field: *field },
            Predicate::IsNotNull { field } => Predicate::IsNull { field: *field },
        }
    }

    fn compared_field(&self) -> Option<i32> {
        match self {
            Predicate::Compare { field, .. }
            | Predicate::In { field, .. }
            | Predicate::NotIn { field, .. }
            | Predicate::Bucket { field, .. }
            | Predicate::Cycle { field, .. } => Some(*field),
            _ => None,
        }
    }

    /// The fields it speaks of, ascending, each once.
    pub fn fields(&self) -> Vec<i32> {
        let mut fields = Vec::new();
        self.collect_fields(&mut fields);
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    fn collect_fields(&self, fields: &mut Vec<i32>) {
        match self {
            Predicate::True | Predicate::False => {}
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|p| p.collect_fields(fields)),
            Predicate::Compare { field, .. }
            | Predicate::In { field, .. }
            | Predicate::NotIn { field, .. }
            | Predicate::Bucket { field, .. }
            | Predicate::Cycle { field, .. }
            | Predicate::IsNull { field }
            | Predicate::IsNotNull { field } => fields.push(*field),
        }
    }
}

/// Parts are compared with each other only while they are few: a long OR is not worth quadratic time.
const REPETITIONS_SOUGHT_IN: usize = 16;

/// `combine` makes one condition of two on the same part of a field's time: a range that has a value of each need not have
/// one of both.
fn push(parts: &mut Vec<Predicate>, part: Predicate, combine: fn(&Values, &Values) -> Values) {
    if parts.len() >= REPETITIONS_SOUGHT_IN {
        return parts.push(part);
    }
    if let Predicate::Cycle { field, cycle, values } = &part {
        for before in parts.iter_mut() {
            if let Predicate::Cycle { field: same, cycle: alike, values: others } = before
                && (&*same, &*alike) == (field, cycle)
            {
                *before = Predicate::recurs(*field, cycle.clone(), combine(others, values));
                return;
            }
        }
    }
    if !parts.contains(&part) {
        parts.push(part);
    }
}

fn single(mut parts: Vec<Predicate>, none: Predicate, many: fn(Vec<Predicate>) -> Predicate) -> Predicate {
    match parts.pop() {
        None => none,
        Some(one) if parts.is_empty() => one,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
    }
}

/// A filter as a predicate.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Every row for which the filter is true satisfies this.
    pub predicate: Predicate,
    /// For every row that satisfies this the filter is true.
    pub proof: Predicate,
    /// The converse holds too: the filter is true exactly where this is. (Where it isn't true the filter may be false and
    /// the predicate unknown, or the reverse.)
    pub exact: bool,
}

/// What one conjunct of a query's filter says, decided once for pushdown, planning and EXPLAIN.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The conjunct as SQL-like text.
    pub text: String,
    /// Every row for which the conjunct is true satisfies this.
    pub predicate: Predicate,
    /// For every row that satisfies this the conjunct is true.
    pub proof: Predicate,
    /// The conjunct is true exactly where the predicate is: the proof is the predicate.
    pub exact: bool,
    /// Why the predicate says less than the conjunct; `None` where it is exact.
    pub reason: Option<&'static str>,
}
