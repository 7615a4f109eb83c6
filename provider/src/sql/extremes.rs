//! What are the least and the greatest float of a group?
//!
//! ```text
//! g   x                    max(x) of g
//! a   1.0, NaN, 0.5        NaN       what DataFusion 53 makes of it: 0.5 after the NaN, 1.0 before it
//! b   -inf                 -inf                                      -1.797e308, the least number
//! ```
//!
//! Without groups, and over windows, the engine compares floats as everywhere else: NaN is the greatest. For groups it starts
//! from the ends of the finite numbers, and a NaN loses against whatever comes next. Here floats of groups are compared as
//! integers that have the same order, and come back as floats.
// @spec P3

use std::any::Any;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

/// `min` and `max` that hold for the floats of groups.
#[must_use]
pub fn extremes() -> [AggregateUDF; 2] {
    [AggregateUDF::new_from_impl(Min::new()), AggregateUDF::new_from_impl(Max::new())]
        .map(|of| AggregateUDF::new_from_impl(Extreme(of)))
}

/// The engine's function, but for groups of floats.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme(AggregateUDF);

impl AggregateUDFImpl for Extreme {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let (ordered, to, from): (_, Convert, Convert) = match arguments.return_field.data_type() {
            DataType::Float64 => (DataType::Int64, doubles::to_ordered, doubles::from_ordered),
            DataType::Float32 => (DataType::Int32, singles::to_ordered, singles::from_ordered),
            _ => return self.0.create_groups_accumulator(arguments),
        };
        let return_field = Arc::new(Field::new(arguments.name, ordered, true));
        let inner = self.0.create_groups_accumulator(AccumulatorArgs { return_field, ..arguments })?;
        Ok(Box::new(Ordered { inner, to, from }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.inner().order_sensitivity()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.inner().reverse_expr()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.0.value_from_stats(statistics)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(data_type)
    }
}

type Convert = fn(&ArrayRef) -> ArrayRef;

macro_rules! ordered {
    ($name:ident, $float:ty, $integer:ty, $sign:literal) => {
        /// Floats as integers of the same order (`totalOrder` of IEEE 754), and back.
        mod $name {
            use super::*;

            type Float = <$float as ArrowPrimitiveType>::Native;
            type Integer = <$integer as ArrowPrimitiveType>::Native;

            /// Its own inverse: of negative numbers all bits but the sign are turned.
            fn turned(bits: Integer) -> Integer {
                bits ^ ((bits >> $sign) & Integer::MAX)
            }

            pub(super) fn to_ordered(floats: &ArrayRef) -> ArrayRef {
                let ordered = |float: Float| turned(float.to_bits().cast_signed());
                Arc::new(floats.as_primitive::<$float>().unary::<_, $integer>(ordered))
            }

            pub(super) fn from_ordered(integers: &ArrayRef) -> ArrayRef {
                let float = |integer: Integer| Float::from_bits(turned(integer).cast_unsigned());
                Arc::new(integers.as_primitive::<$integer>().unary::<_, $float>(float))
            }
        }
    };
}

ordered!(doubles, Float64Type, Int64Type, 63);
ordered!(singles, Float32Type, Int32Type, 31);

/// Gives floats to an accumulator of integers.
struct Ordered {
    inner: Box<dyn GroupsAccumulator>,
    to: Convert,
    from: Convert,
}

impl Ordered {
    fn ordered(&self, floats: &[ArrayRef]) -> Vec<ArrayRef> {
        floats.iter().map(self.to).collect()
    }
}

impl GroupsAccumulator for Ordered {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = self.ordered(values);
        self.inner.update_batch(&values, groups, filter, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok((self.from)(&self.inner.evaluate(emit)?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.inner.state(emit)?.iter().map(self.from).collect())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = self.ordered(values);
        self.inner.merge_batch(&values, groups, filter, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = self.ordered(values);
        Ok(self.inner.convert_to_state(&values, filter)?.iter().map(self.from).collect())
    }

    fn supports_convert_to_state(&self) -> bool {
        self.inner.supports_convert_to_state()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
