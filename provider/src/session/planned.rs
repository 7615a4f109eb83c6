//! How does a logical plan become one that runs?
//!
//! As the engine makes it; where its rule that takes fields out of structs fails, without that rule. Such a failure says
//! nothing about the statement, and without the rule scans read structs whole, but the rows are the same.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::sql::leaves::EXTRACTED;

/// The physical plan of a logical one, which the optimiser has not seen yet.
pub(super) async fn planned(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    match attempt(state, plan).await {
        Err(error) => match without_extraction(state, &error) {
            Some(state) => attempt(&state, plan).await,
            None => Err(error),
        },
        made => made,
    }
}

async fn attempt(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    if let LogicalPlan::Explain(explain) = plan
        && let Err(error) = state.optimize(&explain.plan)
        && is_of_extraction(&error)
    {
        // The engine's EXPLAIN would print it as a row.
        return Err(error);
    }
    state.create_physical_plan(plan).await
}

/// The state to plan with again after an error that is the fault of the rule; none after others.
pub(super) fn without_extraction(state: &SessionState, error: &DataFusionError) -> Option<SessionState> {
    if !is_of_extraction(error) || !state.config_options().optimizer.enable_leaf_expression_pushdown {
        return None;
    }
    let mut state = state.clone();
    state.config_mut().options_mut().optimizer.enable_leaf_expression_pushdown = false;
    Some(state)
}

/// True where the error names what only the rule makes. The list of columns that there are is not in every text.
fn is_of_extraction(error: &DataFusionError) -> bool {
    format!("{error:?}").contains(EXTRACTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{Column, SchemaError};
    use datafusion::prelude::SessionContext;

    fn missing(there: &str) -> DataFusionError {
        let field = Box::new(Column::from_name("n"));
        let error = SchemaError::FieldNotFound { field, valid_fields: vec![Column::from_name(there)] };
        DataFusionError::SchemaError(Box::new(error), Box::new(None)).context("a rule failed")
    }

    #[test]
    fn only_errors_of_the_rule_are_planned_again() {
        let state = SessionContext::new().state();
        assert!(state.config_options().optimizer.enable_leaf_expression_pushdown);
        assert!(without_extraction(&state, &missing("m")).is_none());
        let again = without_extraction(&state, &missing("__datafusion_extracted_1")).unwrap();
        assert!(!again.config_options().optimizer.enable_leaf_expression_pushdown);
        assert!(without_extraction(&again, &missing("__datafusion_extracted_1")).is_none());
        assert!(state.config_options().optimizer.enable_leaf_expression_pushdown);
    }
}
