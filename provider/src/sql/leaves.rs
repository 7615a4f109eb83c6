//! Of which plans may the engine take fields out of structs?
//!
//! Its rules compute `get_field(s, 'd') AS __datafusion_extracted_1` below a filter or a sort, and move that towards the
//! scan, which then reads the one field. Where rows come from two inputs they are wrong. Moved below a join, they forget
//! which columns a derived table had, so that `t.s` may become the column of the other side; the join keeps the list of
//! columns that it had before; and branches of a union, which are matched by position, get different ones. Some such plans
//! fail, others have other rows. So the rules see plans of one input only.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use super::recursion::{self, TermByTerm};

/// The rules that take them out and move them.
const RULES: [&str; 2] = ["extract_leaf_expressions", "push_down_leaf_projections"];

/// The engine's rules, those of fields kept to plans of one input, and [that of columns](super::recursion) to one term at a time.
#[must_use]
pub fn register(builder: SessionStateBuilder) -> SessionStateBuilder {
    let kept = |rule: Arc<dyn OptimizerRule + Send + Sync>| -> Arc<dyn OptimizerRule + Send + Sync> {
        match rule.name() {
            name if RULES.contains(&name) => Arc::new(OfOneInput(rule)),
            recursion::RULE => Arc::new(TermByTerm(rule)),
            _ => rule,
        }
    };
    builder.with_optimizer_rules(Optimizer::new().rules.into_iter().map(kept).collect())
}

#[derive(Debug)]
struct OfOneInput(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for OfOneInput {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !of_one_input(&plan)? {
            return Ok(Transformed::no(plan));
        }
        match self.0.apply_order() {
            None => self.0.rewrite(plan, config),
            Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(|node| self.0.rewrite(node, config)),
            Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(|node| self.0.rewrite(node, config)),
        }
    }
}

/// True where no node, of subqueries neither, has two inputs.
fn of_one_input(plan: &LogicalPlan) -> Result<bool> {
    let mut one = true;
    plan.apply_with_subqueries(|node| {
        one &= node.inputs().len() < 2;
        Ok(if one { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_has_rules_of_these_names() {
        let rules = Optimizer::new().rules;
        assert!(RULES.iter().chain([&recursion::RULE]).all(|name| rules.iter().any(|rule| rule.name() == *name)));
    }
}
