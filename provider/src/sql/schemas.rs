//! Why do nodes of a plan say again what their columns are?
//!
//! The engine takes fields out of structs below a join, `get_field(s, 'd') AS __datafusion_extracted_1`, and then moves that
//! towards the scans. Moved, it stands elsewhere among the columns of its input, while the join above keeps the list that
//! it had. The rule that comes next, which drops columns that nobody reads, counts positions in that list: it drops others,
//! and planning fails at a name that is no longer there.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

/// What the engine calls the fields that it takes out of structs.
pub const EXTRACTED: &str = "__datafusion_extracted";

/// The rule after which nodes have columns in another order than they say.
const MOVES: &str = "push_down_leaf_projections";

/// The engine's rules, with [`FreshSchemas`] after the one that needs it.
#[must_use]
pub fn register(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = Optimizer::new().rules;
    if let Some(moves) = rules.iter().position(|rule| rule.name() == MOVES) {
        rules.insert(moves + 1, Arc::new(FreshSchemas));
    }
    builder.with_optimizer_rules(rules)
}

/// Computes the schemas of nodes anew where fields were taken out of structs.
#[derive(Debug)]
struct FreshSchemas;

impl OptimizerRule for FreshSchemas {
    fn name(&self) -> &str {
        "fresh_schemas"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|node| {
            if !extracted(node.schema()) && !node.inputs().into_iter().any(|input| extracted(input.schema())) {
                return Ok(Transformed::no(node));
            }
            check(&node)?;
            let before = Arc::clone(node.schema());
            let node = node.recompute_schema()?;
            let changed = *node.schema() != before;
            Ok(Transformed::new_transformed(node, changed))
        })
    }
}

/// Fails where the branches of a union, or of a recursive query, have the fields at different positions.
fn check(node: &LogicalPlan) -> Result<()> {
    if !matches!(node, LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_)) {
        return Ok(());
    }
    let layout = |plan: &LogicalPlan| -> Vec<Option<String>> {
        let name = |name: &String| name.starts_with(EXTRACTED).then(|| name.clone());
        plan.schema().fields().iter().map(|field| name(field.name())).collect()
    };
    let mut branches = node.inputs().into_iter().map(layout);
    let first = branches.next();
    if branches.all(|branch| Some(branch) == first) {
        return Ok(());
    }
    plan_err!("the branches of a union have {EXTRACTED} fields at different positions")
}

fn extracted(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| field.name().starts_with(EXTRACTED))
}
