//! What does a predicate on columns say about partition values?
//!
//! ```text
//!                            inclusive: may hold a match     strict: holds nothing else
//! ts <  noon of D            ts_day <= D                     ts_day < D
//! ts >= start of D           ts_day >= D                     ts_day > D - 1
//! ts =  noon of D            ts_day =  D                     –
//! k  <> 'a'                  k <> 'a'        (identity)      k <> 'a'
//! i  <  25                   i_10 <= 20      (truncate[10])  i_10 < 20
//! s  >= 'hello'              s_2 >= 'he'     (truncate[2])   s_2 > 'he'
//! id IN (1, 2)               id_16 IN (4, 11) (bucket[16])   –
//! ```
//!
//! Two guarantees, each a property in the tests: *if a row matches the predicate, its partition may match the inclusive
//! projection*; *if a partition must match the strict projection, every row in it matches the predicate*. Partition tuples
//! are tested by `may_match` and `must_match` (not by `holds`), which know what writers do to NaN and zeros.
//!
//! - [`stairs`]: transforms that keep the order of whole numbers: times and truncated numbers, and what writers got wrong
//! - [`clock`]: the ordinals of years, months, days and hours
//! - [`beginning`]: truncated text and bytes
//! - [`bucket`] hashes

mod beginning;
mod bucket;
mod clock;
mod stairs;

use iceberg::spec::{PartitionField, PartitionSpec, Schema, Transform};

use self::clock::{Clock, Part};
use self::stairs::Stairs;
use super::{Cycle, Predicate, Values};

pub(super) use beginning::{Beginning, successor};
pub use bucket::Hash;

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
            | Predicate::Bucket { field, .. }
            | Predicate::Cycle { field, .. }
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
        let id = field.field_id;
        if let Predicate::Bucket { bucket, values, negated, .. } = leaf {
            return self.through_bucket(leaf, field, bucket, values, *negated);
        }
        if let Predicate::Cycle { cycle, values, .. } = leaf {
            return self.through_cycle(leaf, field, cycle, values);
        }
        match (leaf, field.transform) {
            (_, Transform::Void | Transform::Unknown) => None,
            // Every other transform is null where its source is, and nowhere else.
            (Predicate::IsNull { .. } | Predicate::IsNotNull { .. }, _) | (_, Transform::Identity) => {
                Some(renamed(leaf, id))
            }
            (_, Transform::Year) => self.up(&Stairs::Clock(Clock::new(Part::Year, source)?), leaf, id),
            (_, Transform::Month) => self.up(&Stairs::Clock(Clock::new(Part::Month, source)?), leaf, id),
            (_, Transform::Day) => self.up(&Stairs::Clock(Clock::new(Part::Day, source)?), leaf, id),
            (_, Transform::Hour) => self.up(&Stairs::Clock(Clock::new(Part::Hour, source)?), leaf, id),
            (_, Transform::Truncate(width)) => match Stairs::truncation(source, width) {
                Some(stairs) => self.up(&stairs, leaf, id),
                None => Beginning::of(source, width)?.project(leaf, id, self.strict),
            },
            (_, Transform::Bucket(buckets)) => Hash::of(source, buckets)?.project(leaf, id, self.strict),
        }
    }

    fn up(&self, stairs: &Stairs, leaf: &Predicate, id: i32) -> Option<Predicate> {
        if stairs.is_identity() {
            return Some(renamed(leaf, id));
        }
        if self.strict { stairs.strict(leaf, id) } else { stairs.inclusive(leaf, id) }
    }

    /// A condition on a bucket is one on the values of a partition field of the same hash, and says of others that there
    /// is a value.
    fn through_bucket(
        &self,
        leaf: &Predicate,
        field: &PartitionField,
        hash: &Hash,
        values: &Values,
        negated: bool,
    ) -> Option<Predicate> {
        let id = field.field_id;
        match field.transform {
            Transform::Void | Transform::Unknown => None,
            Transform::Identity => Some(renamed(leaf, id)),
            Transform::Bucket(buckets) if hash.is_one_of(buckets) => Some(match negated {
                true => Predicate::is_not_in(id, values.clone()),
                false => Predicate::is_in(id, values.clone()),
            }),
            _ if self.strict => None,
            _ => Some(Predicate::IsNotNull { field: id }),
        }
    }

    /// A condition on a part of a time is one on the same part of what a partition holds: of a month, a day, an hour.
    fn through_cycle(
        &self,
        leaf: &Predicate,
        field: &PartitionField,
        cycle: &Cycle,
        values: &Values,
    ) -> Option<Predicate> {
        let id = field.field_id;
        match (field.transform, cycle.filed(field.transform)) {
            (Transform::Void | Transform::Unknown, _) => None,
            (Transform::Identity, _) => Some(renamed(leaf, id)),
            (_, Some(filed)) => Some(Predicate::recurs(id, filed, values.clone())),
            _ if self.strict => None,
            _ => Some(Predicate::IsNotNull { field: id }),
        }
    }
}

fn renamed(leaf: &Predicate, field: i32) -> Predicate {
    match leaf {
        Predicate::Compare { op, value, .. } => Predicate::Compare { field, op: *op, value: value.clone() },
        Predicate::In { values, .. } => Predicate::In { field, values: values.clone() },
        Predicate::NotIn { values, .. } => Predicate::NotIn { field, values: values.clone() },
        Predicate::Bucket { bucket, values, negated, .. } => {
            Predicate::Bucket { field, bucket: *bucket, values: values.clone(), negated: *negated }
        }
        Predicate::Cycle { cycle, values, .. } => {
            Predicate::Cycle { field, cycle: cycle.clone(), values: values.clone() }
        }
        Predicate::IsNull { .. } => Predicate::IsNull { field },
        Predicate::IsNotNull { .. } => Predicate::IsNotNull { field },
        other => other.clone(),
    }
}
