//! What does a null in an IN list mean?
//!
//! ```text
//! x IN (1) AND x NOT IN (2, NULL)        true of nothing: x may be the null
//! x IN (1)                               what DataFusion 53 makes of it: a row too many
//! x IN (1) AND x NOT IN (2) AND NULL     what is planned
//! ```
//!
//! The optimiser merges lists over one column as if they were sets of values. A null is no value, so it is taken out of
//! the list, and stands beside it with the same meaning.
// @spec P3

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Operator, TryCast, binary_expr, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite;

/// Takes nulls out of IN lists. It must run after type coercion.
#[derive(Clone, Copy, Debug)]
pub struct NullsApart;

impl AnalyzerRule for NullsApart {
    fn name(&self) -> &str {
        "nulls_apart"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !rewrite::concerns(&plan, |_| false, |expr| matches!(expr, Expr::InList(_)))? {
            return Ok(plan);
        }
        let each = |node| rewrite::expressions(node, |expr| expr.transform_up(|expr| Ok(apart(expr))));
        Ok(plan.transform_up_with_subqueries(each)?.data)
    }
}

fn apart(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(InList { expr: tested, list, negated }) = expr else { return Transformed::no(expr) };
    let (nulls, values): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_null);
    if nulls.is_empty() || values.is_empty() {
        let list = nulls.into_iter().chain(values).collect();
        return Transformed::no(Expr::InList(InList { expr: tested, list, negated }));
    }
    let unknown = lit(ScalarValue::Boolean(None));
    let values = Expr::InList(InList { expr: tested, list: values, negated });
    Transformed::yes(binary_expr(values, if negated { Operator::And } else { Operator::Or }, unknown))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_null(expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, in_list};

    #[test]
    fn nulls_stand_beside_the_list() {
        let null = || lit(ScalarValue::Int64(None));
        let planned = |negated| apart(in_list(col("x"), vec![lit(1_i64), null()], negated)).data.to_string();
        assert_eq!(planned(false), "x IN ([Int64(1)]) OR Boolean(NULL)");
        assert_eq!(planned(true), "x NOT IN ([Int64(1)]) AND Boolean(NULL)");
        for unchanged in [in_list(col("x"), vec![lit(1_i64)], true), in_list(col("x"), vec![null()], true)] {
            assert_eq!(apart(unchanged.clone()).data, unchanged);
        }
    }
}
