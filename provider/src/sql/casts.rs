//! Which casts must stay around a column?
//!
//! ```text
//! CAST(d AS BIGINT) = 10        d is 10.50 in one row
//! d = 10.00                     what DataFusion 53 makes of it: the row is lost
//! cast_to_Int64(d) = 10         what is planned
//! ```
//!
//! The optimiser moves a cast from a column to the constant wherever the constant has a counterpart in the column's type. That
//! is right only if the cast is one to one. The others become [`Conversion`]s here, everywhere and not only in comparisons: a
//! filter over a subquery meets a cast of the subquery when it is pushed down.
//!
//! Files are pruned by such a filter all the same: the conversion of a filter sees through them.
// @spec P3

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, ScalarUDF, TryCast};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite;
use crate::predicate::Conversion;

/// Keeps casts that aren't one to one. It must run after type coercion, which adds some.
#[derive(Clone, Copy, Debug)]
pub struct KeptCasts;

impl AnalyzerRule for KeptCasts {
    fn name(&self) -> &str {
        "kept_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !rewrite::concerns(&plan, |_| false, |expr| matches!(expr, Expr::Cast(_) | Expr::TryCast(_)))? {
            return Ok(plan);
        }
        Ok(plan.transform_up_with_subqueries(rewrite_node)?.data)
    }
}

fn rewrite_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = rewrite::columns_in_reach(&node)?;
    rewrite::expressions(node, |expr| expr.transform_up(|expr| Ok(kept(expr, &schema))))
}

fn kept(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (inner, to, soft) = match &expr {
        Expr::Cast(Cast { expr: inner, data_type }) => (inner, data_type, false),
        Expr::TryCast(TryCast { expr: inner, data_type }) => (inner, data_type, true),
        _ => return Transformed::no(expr),
    };
    // Of a constant nothing can be moved.
    let stays =
        !matches!(**inner, Expr::Literal(..)) && inner.get_type(schema).is_ok_and(|from| stays(&from, to, soft));
    if !stays {
        return Transformed::no(expr);
    }
    let conversion = ScalarUDF::new_from_impl(Conversion::new(to.clone(), soft));
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(conversion.into(), vec![(**inner).clone()])))
}

/// The optimiser would move the cast, and shouldn't.
fn stays(from: &DataType, to: &DataType, soft: bool) -> bool {
    if let (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone)) = (from, to) {
        // Ticks are taken over, in another unit by division.
        return unit != other || (zone.is_none() && other_zone.is_some());
    }
    match (digits(from), digits(to)) {
        _ if from == to || is_long(from) && is_long(to) => false,
        (Some(from), Some(to)) => {
            // A value that doesn't fit fails (which nobody relies on), or becomes null.
            to.scale < from.scale || (soft && (to.held < from.needed || (from.signed && !to.signed)))
        }
        _ => false,
    }
}

/// Numbers of 64 bits, which are taken over as they are.
fn is_long(ty: &DataType) -> bool {
    matches!(ty, DataType::Int64 | DataType::Timestamp(_, _))
}

/// Digits of a number.
struct Digits {
    /// Before the point, in its longest value.
    needed: i32,
    /// Before the point, in all its values.
    held: i32,
    scale: i32,
    signed: bool,
}

fn digits(ty: &DataType) -> Option<Digits> {
    let integer = |needed, signed| Some(Digits { needed, held: needed - 1, scale: 0, signed });
    match ty {
        DataType::UInt8 => integer(3, false),
        DataType::Int8 => integer(3, true),
        DataType::UInt16 => integer(5, false),
        DataType::Int16 => integer(5, true),
        DataType::UInt32 => integer(10, false),
        DataType::Int32 => integer(10, true),
        DataType::UInt64 => integer(20, false),
        DataType::Int64 | DataType::Timestamp(_, _) => integer(19, true),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => {
            let whole = i32::from(*precision) - i32::from(*scale);
            Some(Digits { needed: whole, held: whole, scale: i32::from(*scale), signed: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_that_drop_something_stay() {
        use DataType as A;
        let micros = |zone: Option<&str>| A::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        let nanos = A::Timestamp(TimeUnit::Nanosecond, None);
        let decimal = A::Decimal128(5, 2);
        for (from, to, hard, soft) in [
            (&decimal, &A::Int64, true, true),
            (&decimal, &A::Decimal128(5, 1), true, true),
            (&decimal, &A::Decimal128(7, 2), false, false),
            (&decimal, &A::Decimal128(4, 2), false, true),
            (&A::Int32, &A::Int64, false, false),
            (&A::Int64, &A::Int32, false, true),
            (&A::Int32, &A::Decimal128(12, 2), false, false),
            (&A::Int32, &A::UInt32, false, true),
            (&A::UInt32, &A::Int32, false, true),
            (&nanos, &micros(None), true, true),
            (&micros(None), &nanos, true, true),
            (&micros(None), &micros(Some("America/New_York")), true, true),
            (&micros(Some("UTC")), &micros(Some("America/New_York")), false, false),
            (&micros(None), &A::Int64, false, false),
            (&A::Utf8, &A::Int64, false, false),
            (&A::Float64, &A::Int64, false, false),
        ] {
            assert_eq!((stays(from, to, false), stays(from, to, true)), (hard, soft), "{from} to {to}");
        }
    }
}
