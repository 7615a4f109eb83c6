//! Which scans does a sort with a limit take only the best rows of?
//!
//! The engine's filter that moves tells a scan what comes too late for the sort, once the sort has seen enough rows. How many
//! it wants stays with the sort, and tells more before any row is given out: this hands it down.
// @spec P5

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::exec::source::IcebergSource;

/// Tells scans of ours that a `TopK` is above how many rows it wants, and by what order. Goes after the rules that hand down
/// filters; a [`Session`](crate::Session) has it.
#[derive(Debug)]
pub struct TopKPushdown;

impl PhysicalOptimizerRule for TopKPushdown {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let told = plan.transform_up(|node| {
            let Some(sort) = node.as_any().downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            let Some(fetch) = sort.fetch() else { return Ok(Transformed::no(node)) };
            match below(sort.input(), fetch, sort.expr().as_ref())? {
                Some(input) => Ok(Transformed::yes(Arc::clone(&node).with_new_children(vec![input])?)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(told.data)
    }

    fn name(&self) -> &'static str {
        "TopKPushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with the scan told, where each of its rows is one of the sort's, and one partition of it is of one of the sort's.
fn below(
    plan: &Arc<dyn ExecutionPlan>,
    fetch: usize,
    order: &[PhysicalSortExpr],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let node = plan.as_any();
    let input = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let mut inner = Vec::with_capacity(order.len());
        for key in order {
            // What names no column stays as it is: it is a key, and all of them are counted.
            let expr = update_expr(&key.expr, projection.expr(), true)?.unwrap_or_else(|| Arc::clone(&key.expr));
            inner.push(PhysicalSortExpr::new(expr, key.options));
        }
        below(projection.input(), fetch, &inner)?
    } else if let Some(coalesce) = node.downcast_ref::<CoalescePartitionsExec>().filter(|c| c.fetch().is_none()) {
        below(coalesce.input(), fetch, order)?
    } else if let Some(pausing) = node.downcast_ref::<CooperativeExec>() {
        below(pausing.input(), fetch, order)?
    } else {
        return Ok(IcebergSource::only_best(plan, fetch, order));
    };
    input.map(|input| Arc::clone(plan).with_new_children(vec![input])).transpose()
}
