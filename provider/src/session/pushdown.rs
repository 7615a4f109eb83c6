//! Which conditions does the engine hand down its operators soundly?
//!
//! ```text
//!   ORDER BY … LIMIT, joins, WHERE     conditions, some of which move while the query runs
//!        │ one operator after the other says them in columns of its input, which it looks up by name
//!   ┄┄┄┄┄│┄┄┄┄┄  cut: the input has two columns of that name, or another one of it
//!        ▼
//!   scans                              what is handed down is not tested above any more
//! ```
//!
//! A name that stands for two columns gets the condition to the wrong one, and then rows are missing or too many. So plans are
//! cut at such inputs, and the engine hands conditions down each part on its own. Some filters that move are wrong from
//! the start: those are switched off for the query.
// @spec P3 P5

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A rule of the physical optimizer.
type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The engine's rules, of which those that hand conditions down do it soundly.
pub(super) fn rules() -> Vec<Rule> {
    let sound = |rule: Rule| match rule.name() {
        "FilterPushdown" => Arc::new(Sound { rule, moving: false }),
        "FilterPushdown(Post)" => Arc::new(Sound { rule, moving: true }),
        _ => rule,
    };
    PhysicalOptimizer::new().rules.into_iter().map(sound).collect()
}

/// A rule that hands conditions down, applied to the parts of a plan that it is right for.
#[derive(Debug)]
struct Sound {
    rule: Rule,
    /// Whether it hands down filters that move, or else those that stay.
    moving: bool,
}

impl Sound {
    fn apply(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut parts = Vec::new();
        let above = self.cut(plan, &mut parts)?;
        let above = self.rule.optimize(above, config)?;
        if parts.is_empty() {
            return Ok(above);
        }
        let parts = parts.into_iter().map(|part| self.apply(part, config)).collect::<Result<Vec<_>>>()?;
        let whole = above.transform_up(|node| match node.as_any().downcast_ref::<Cut>() {
            Some(cut) => Ok(parts
                .get(cut.at)
                .map_or(Transformed::no(Arc::clone(&node)), |part| Transformed::yes(Arc::clone(part)))),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(whole.data)
    }

    /// The plan down to where it is cut; what is below goes to `parts`.
    fn cut(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        parts: &mut Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children();
        if children.is_empty() {
            return Ok(plan);
        }
        let mut kept = Vec::with_capacity(children.len());
        let mut changed = false;
        for child in children {
            let new = match self.misleads(plan.as_ref(), child.as_ref()) {
                true => {
                    parts.push(Arc::clone(child));
                    Arc::new(Cut { at: parts.len() - 1, below: Arc::clone(child) })
                }
                false => self.cut(Arc::clone(child), parts)?,
            };
            changed |= !Arc::ptr_eq(&new, child);
            kept.push(new);
        }
        if changed { plan.with_new_children(kept) } else { Ok(plan) }
    }

    /// Whether conditions over `above` might get to other columns in `below`, or be taken for tested where they aren't.
    fn misleads(&self, above: &dyn ExecutionPlan, below: &dyn ExecutionPlan) -> bool {
        let (schema, whole) = (below.schema(), above.schema());
        let names = schema.fields().iter().map(|field| field.name());
        // Mixes up which of several conditions it has handed down.
        let aggregates = !self.moving && below.as_any().is::<AggregateExec>();
        names.clone().collect::<HashSet<_>>().len() < schema.fields().len()
            || (above.as_any().is::<UnionExec>() && names.ne(whole.fields().iter().map(|field| field.name())))
            || aggregates
            || below.as_any().downcast_ref::<HashJoinExec>().is_some_and(finds_another_column)
    }
}

/// Whether a semi or anti join may take a column of one side for that of the other that it is compared with: by the name of
/// the one that it gives out.
fn finds_another_column(join: &HashJoinExec) -> bool {
    use JoinType as J;
    let name = |expr: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
        expr.as_any().downcast_ref::<Column>().map(|column| column.name().to_owned())
    };
    let mut pairs = join.on().iter().map(|(left, right)| (name(left), name(right)));
    match join.join_type() {
        J::LeftSemi | J::LeftAnti | J::RightSemi | J::RightAnti => {
            pairs.any(|(left, right)| left.is_none() || left != right)
        }
        _ => false,
    }
}

impl PhysicalOptimizerRule for Sound {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut sound = None;
        plan.apply(|node| {
            let optimizer = &config.optimizer;
            let forgets = forgets_an_aggregate(node.as_ref()) || runs_again(node.as_ref());
            if optimizer.enable_aggregate_dynamic_filter_pushdown && forgets {
                let config = sound.get_or_insert_with(|| config.clone());
                config.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
            }
            if optimizer.enable_join_dynamic_filter_pushdown && bounds_what_has_no_order(node.as_ref()) {
                let config = sound.get_or_insert_with(|| config.clone());
                config.optimizer.enable_join_dynamic_filter_pushdown = false;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.apply(plan, sound.as_ref().unwrap_or(config))
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Of several `min` and `max` the filter says only what those can still use that have a value by now, and of those of
/// anything but a column nothing: rows that the others want are lost.
fn forgets_an_aggregate(node: &dyn ExecutionPlan) -> bool {
    let Some(aggregate) = node.as_any().downcast_ref::<AggregateExec>() else { return false };
    *aggregate.mode() == AggregateMode::Partial && aggregate.group_expr().is_empty() && aggregate.aggr_expr().len() > 1
}

/// What the filter of a `min` or `max` says is kept from one step of a recursion to the next, which then finds nothing better.
fn runs_again(node: &dyn ExecutionPlan) -> bool {
    node.as_any().is::<RecursiveQueryExec>()
}

/// The least and the greatest key of a join are computed for a filter; lists, structs and maps have none.
fn bounds_what_has_no_order(node: &dyn ExecutionPlan) -> bool {
    let Some(join) = node.as_any().downcast_ref::<HashJoinExec>() else { return false };
    let schema = join.left().schema();
    join.on().iter().any(|(left, _)| left.data_type(&schema).is_ok_and(|data_type| data_type.is_nested()))
}

/// Stands for a part of a plan that is looked at on its own.
#[derive(Debug)]
struct Cut {
    at: usize,
    below: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Cut {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl ExecutionPlan for Cut {
    fn name(&self) -> &'static str {
        "Cut"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.below.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.below.execute(partition, context)
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        results: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let none = vec![PushedDown::No; results.parent_filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(none))
    }
}
