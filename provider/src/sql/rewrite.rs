//! How does an analyzer rule go through the expressions of a plan node?

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The columns that a node's expressions may name.
pub(super) fn columns_in_reach(node: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(schema)
}

/// Whether a node or an expression somewhere in a plan, subqueries included, passes its test. Looking is cheaper than
/// rewriting, which computes the schemas of all nodes anew.
pub(super) fn concerns(
    plan: &LogicalPlan,
    node_is: fn(&LogicalPlan) -> bool,
    expression_is: fn(&Expr) -> bool,
) -> Result<bool> {
    let met = |met| Ok(if met { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue });
    let looked = plan.apply_with_subqueries(|node| match node_is(node) {
        true => met(true),
        false => node.apply_expressions(|expr| met(expr.exists(|expr| Ok(expression_is(expr)))?)),
    })?;
    Ok(looked == TreeNodeRecursion::Stop)
}

/// Rewrites each of a node's expressions as a whole. Columns keep the names that their expressions gave them.
pub(super) fn expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}
