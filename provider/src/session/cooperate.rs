//! When may a running query be stopped?
//!
//! A stream that is never pending keeps its thread, and then nothing can cancel it: no dropped stream, no interrupt. The
//! engine makes leaves and exchanges pause, but one batch below a join can become millions above it.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::unnest::UnnestExec;

/// Makes every operator pause now and then that can answer one batch with many.
// @spec P12
#[derive(Debug)]
pub(super) struct Cooperate;

impl PhysicalOptimizerRule for Cooperate {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            if multiplies(node.as_ref()) {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &'static str {
        "cooperate"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn multiplies(node: &dyn ExecutionPlan) -> bool {
    let node = node.as_any();
    node.is::<CrossJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::session::{Options, Session};

    /// Without a pause the first poll would last for hours, and the timeout would never be heard.
    #[tokio::test]
    async fn a_join_that_finds_nothing_can_be_stopped() {
        let session = Session::new(Options { threads: Some(1), ..Options::at("memory://cooperate") }).unwrap();
        for join in [
            // Evaluated above the join, since each row has a random number of its own.
            "cross join b where random() < -1",
            "join b on a.value % 2 = b.value % 2 where random() < -1",
        ] {
            let sql = format!(
                "with b as (select value from range(0, 1000000)) select count(*) from range(0, 10000000) a {join}"
            );
            let stopped = tokio::time::timeout(Duration::from_millis(500), session.query(&sql)).await;
            assert!(stopped.is_err(), "{join}: {stopped:?}");
        }
    }
}
