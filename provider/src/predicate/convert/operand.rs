//! What of a column is compared with a constant?

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::functions::unicode::left::LeftFunc;
use datafusion::functions::unicode::substr::SubstrFunc;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use iceberg::spec::Transform;

use super::super::functions::TransformFunction;
use super::super::project::{Beginning, Hash};
use super::cases::Choice;
use super::column::{Kind, Slot, column_of};
use super::{Scope, constant_of, order};

/// What a constant is compared with.
pub(super) enum Operand<'a> {
    Column(Slot),
    /// A column's first characters or bytes.
    Beginning(Slot, Beginning),
    Hash(Slot, Hash),
    /// A part of the filter that is true, false or unknown itself.
    Truth,
    /// One of several results.
    Choice(Choice<'a>),
    /// Whether it keeps the order of a column is to be seen.
    Function,
}

impl Scope<'_> {
    pub(super) fn operand<'e>(&self, expr: &'e Arc<dyn PhysicalExpr>) -> Operand<'e> {
        if column_of(expr, self.arrow).is_some() {
            return Slot::of(expr, self.arrow, self.schema).map_or(Operand::Function, Operand::Column);
        }
        if let Some((inner, to)) = order::cast_of(expr) {
            return match self.operand(inner) {
                // Another layout of the same text or bytes.
                Operand::Column(slot) if slot.kind.keeps_values_in(to) => Operand::Column(slot),
                Operand::Beginning(slot, beginning) if slot.kind.keeps_values_in(to) => {
                    Operand::Beginning(slot, beginning)
                }
                _ => Operand::Function,
            };
        }
        if matches!(expr.data_type(self.arrow), Ok(DataType::Boolean)) {
            return Operand::Truth;
        }
        if let Some(choice) = Choice::of(expr) {
            return Operand::Choice(choice);
        }
        let function = expr.as_any().downcast_ref::<ScalarFunctionExpr>();
        function.and_then(|function| self.cut_or_hashed(function)).unwrap_or(Operand::Function)
    }

    /// `left(s, n)`, `substr(s, 1, n)`, `truncate(n, s)`, `bucket(n, c)`.
    fn cut_or_hashed<'e>(&self, function: &'e ScalarFunctionExpr) -> Option<Operand<'e>> {
        let called = function.fun().inner().as_any();
        let column = |expr: &'e Arc<dyn PhysicalExpr>| match self.operand(expr) {
            Operand::Column(slot) => Some(slot),
            _ => None,
        };
        let beginning = |slot: Slot, width| Some(Operand::Beginning(slot, Beginning::of_width(width)));
        match function.args() {
            [text, length] if called.is::<LeftFunc>() => beginning(column(text)?, length_of(length)?),
            [text, from, length] if called.is::<SubstrFunc>() && length_of(from)? == 1 => {
                beginning(column(text)?, length_of(length)?)
            }
            [constant, of] => {
                match called.downcast_ref::<TransformFunction>()?.transform(constant_of(constant).as_ref())? {
                    Transform::Truncate(width) => match column(of)? {
                        slot if matches!(slot.kind, Kind::Text | Kind::Bytes) => {
                            beginning(slot, usize::try_from(width).ok()?)
                        }
                        _ => None,
                    },
                    Transform::Bucket(buckets) => {
                        let slot = column(of)?;
                        let source = self.schema.field_by_id(slot.field)?.field_type.as_primitive_type()?;
                        // The function hashes what Arrow holds.
                        let hash = Hash::of(source, buckets).filter(|_| slot.same_type)?;
                        Some(Operand::Hash(slot, hash))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A column of any type, nested ones too.
    pub(super) fn any_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<i32> {
        let id = crate::schema::field_id(column_of(expr, self.arrow)?)?;
        self.schema.field_by_id(id).map(|field| field.id)
    }
}

fn length_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    match constant_of(expr)?.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(length)) => usize::try_from(length).ok(),
        _ => None,
    }
}
