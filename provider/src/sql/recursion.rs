//! Which columns of a recursive query does the engine leave out?
//!
//! ```text
//! WITH RECURSIVE t(k, v) AS (SELECT 1, 10 UNION ALL SELECT 2, 20 FROM t WHERE k = 1) SELECT v FROM t
//! 10, 20
//! 10          what DataFusion 53 makes of it: nobody outside asks for k, so that the second row is lost, or the query fails
//! ```
//!
//! Its rule takes the columns that the query around wants for all that the terms want of each other. So each term, and what
//! is around them, is given to the rule alone: terms keep their columns, and scans in them read no more than they must.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, RecursiveQuery};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule that leaves columns out.
pub(super) const RULE: &str = "optimize_projections";

/// The rule, applied to the terms of recursive queries one by one.
#[derive(Debug)]
pub(super) struct TermByTerm(pub(super) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for TermByTerm {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut apart: Vec<(DFSchemaRef, RecursiveQuery)> = Vec::new();
        let around = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::RecursiveQuery(query) => {
                // A schema of its own tells it from others.
                let schema = Arc::new(query.static_term.schema().as_ref().clone());
                apart.push((Arc::clone(&schema), query));
                let empty = EmptyRelation { produce_one_row: false, schema };
                Ok(Transformed::yes(LogicalPlan::EmptyRelation(empty)))
            }
            node => Ok(Transformed::no(node)),
        })?;
        let around = self.0.rewrite(around.data, config)?;
        if apart.is_empty() {
            return Ok(around);
        }
        let whole = around.data.transform_down_with_subqueries(|node| {
            let at = match &node {
                LogicalPlan::EmptyRelation(empty) => apart.iter().position(|(at, _)| Arc::ptr_eq(at, &empty.schema)),
                _ => None,
            };
            let Some(at) = at else { return Ok(Transformed::no(node)) };
            let RecursiveQuery { name, static_term, recursive_term, is_distinct } = apart[at].1.clone();
            let term = |term: Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
                Ok(Arc::new(self.rewrite(Arc::unwrap_or_clone(term), config)?.data))
            };
            let (static_term, recursive_term) = (term(static_term)?, term(recursive_term)?);
            let query = RecursiveQuery { name, static_term, recursive_term, is_distinct };
            Ok(Transformed::new(LogicalPlan::RecursiveQuery(query), true, TreeNodeRecursion::Jump))
        })?;
        Ok(Transformed::yes(whole.data))
    }
}
