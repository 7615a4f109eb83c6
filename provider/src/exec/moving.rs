//! What do joins and TopKs know by now of the rows they still want?
//!
//! ```text
//!   ORDER BY ts DESC LIMIT 10    true … ts > 06-05 … ts > 06-06 23:58     narrower with every batch
//!   a JOIN b ON a.id = b.id      true … a.id BETWEEN 7 AND 9              narrow once, when b has been read
//! ```
//!
//! Such a filter is true of every row at first and only ever gets narrower, so that what it excludes now stays excluded.
//! Whoever made it tests its rows too: here it may be used or not.
// @spec P5

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use futures::FutureExt;

use super::filter::Conjunct;
use crate::predicate::{self, Predicate};
use crate::scan::{Task, View};

/// Filters over the table's columns that move while the query runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Moving(Arc<Vec<Conjunct>>);

impl Moving {
    /// The same and one more.
    #[must_use]
    pub(super) fn and(&self, filter: &Arc<dyn PhysicalExpr>, view: &View) -> Self {
        let mut all = self.0.as_ref().clone();
        all.extend(Conjunct::of(filter, view).into_iter().map(Conjunct::optional));
        Moving(Arc::new(all))
    }

    /// All of them, whatever they say by now.
    pub(super) fn all(&self) -> impl Iterator<Item = &Conjunct> {
        self.0.iter()
    }

    /// What every row still wanted satisfies.
    pub(super) fn now(&self, view: &View) -> Vec<Predicate> {
        let each = self.0.iter().map(|filter| Arc::clone(&filter.expr)).collect::<Vec<_>>();
        let claims = predicate::convert_conjuncts(&each, &view.arrow, &view.schema);
        claims.into_iter().map(|claim| claim.predicate).filter(|predicate| *predicate != Predicate::True).collect()
    }

    /// A number that changes when a filter does.
    pub(super) fn generation(&self) -> u64 {
        self.0.iter().fold(0, |sum, filter| sum.wrapping_add(snapshot_generation(&filter.expr)))
    }

    /// Whether the filters are as narrow as they will get.
    pub(super) fn settled(&self) -> bool {
        self.0.iter().all(|filter| parts(&filter.expr).iter().all(|part| part.wait_complete().now_or_never().is_some()))
    }

    /// Those that say something that can be tested row by row, or may come to.
    pub(super) fn tests(&self) -> Vec<&Conjunct> {
        let settled = self.settled();
        let useless = |filter: &Conjunct| {
            let always = lit(true);
            settled
                && parts(&filter.expr)
                    .iter()
                    .all(|part| part.current().is_ok_and(|now| now.as_ref() == always.as_ref()))
        };
        self.0.iter().filter(|filter| !useless(filter)).collect()
    }
}

/// The moving parts of an expression.
fn parts(expr: &Arc<dyn PhysicalExpr>) -> Vec<Arc<DynamicFilterPhysicalExpr>> {
    let mut parts = Vec::new();
    // The closure never fails.
    let _ = expr.apply(|part| {
        let whole: Arc<dyn std::any::Any + Send + Sync> = Arc::clone(part) as _;
        parts.extend(whole.downcast::<DynamicFilterPhysicalExpr>().ok());
        Ok(TreeNodeRecursion::Continue)
    });
    parts
}

/// Whether one of `predicates` is true of no row of a file, by its bounds or its partition tuple.
pub(super) fn excludes(predicates: &[Predicate], task: &Task, view: &View) -> bool {
    let spec = &task.partitioning.spec;
    predicates.iter().any(|predicate| {
        !predicate.may_match(&|field| task.facts(&view.schema, field))
            || (!spec.is_unpartitioned()
                && !predicate::project(predicate, spec, &view.schema).may_match(&|field| task.partition_facts(field)))
    })
}
