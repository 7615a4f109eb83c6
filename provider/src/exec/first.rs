//! Which of a partition's files are wanted first?
//!
//! ```text
//!   ORDER BY ts DESC   06-06  06-05  06-04 …       the greatest upper bound first
//!   ORDER BY ts        04-10  04-11  04-12 …       the least lower bound first
//! ```
//!
//! Only the order of reading: what is read is sorted by the plan above. But a TopK that has seen the best rows first wants
//! nothing of the other files.
// @spec P5

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;

use crate::predicate::{Facts, Value, column_of};
use crate::scan::{Piece, View, primitive};
use crate::schema::field_id;

/// The column that rows are wanted in the order of, and the order.
#[derive(Clone, Debug)]
pub(super) struct First {
    field: i32,
    descending: bool,
    nulls_first: bool,
}

impl First {
    /// The first key of a sort over the projected columns of a scan, if it is a column that files have bounds of.
    pub(super) fn of(sort: &PhysicalSortExpr, projection: &ProjectionExprs, view: &View) -> Option<Self> {
        let column = sort.expr.as_any().downcast_ref::<Column>()?.index();
        let projected = projection.iter().nth(column)?;
        let field = field_id(column_of(&projected.expr, &view.arrow)?)?;
        primitive(&view.schema, field)?;
        Some(First { field, descending: sort.options.descending, nulls_first: sort.options.nulls_first })
    }

    /// The files of a partition in this order.
    pub(super) fn sorted(&self, pieces: Vec<Arc<Piece>>, view: &View) -> Vec<Arc<Piece>> {
        let mut keyed: Vec<(Facts, Arc<Piece>)> =
            pieces.into_iter().map(|piece| (piece.task.facts(&view.schema, self.field), piece)).collect();
        keyed.sort_by(|(a, _), (b, _)| self.compare(a, b));
        keyed.into_iter().map(|(_, piece)| piece).collect()
    }

    fn compare(&self, a: &Facts, b: &Facts) -> Ordering {
        let best = |facts: &Facts| if self.descending { facts.upper.clone() } else { facts.lower.clone() };
        let may_be_first = |facts: &Facts| self.nulls_first && facts.nulls != Some(0);
        let values = match (best(a), best(b)) {
            (Some(a), Some(b)) if self.descending => order(&b, &a),
            (Some(a), Some(b)) => order(&a, &b),
            // Files that don't say come last: what the others hold may exclude them.
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        may_be_first(b).cmp(&may_be_first(a)).then(values)
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    a.order(b).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lower: Option<i64>, upper: Option<i64>, nulls: Option<u64>) -> Facts {
        Facts { lower: lower.map(Value::Long), upper: upper.map(Value::Long), nulls, ..Facts::default() }
    }

    fn sorted(first: &First, mut all: Vec<(Facts, char)>) -> String {
        all.sort_by(|(a, _), (b, _)| first.compare(a, b));
        all.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn the_best_bound_comes_first() {
        let all = || {
            vec![
                (facts(Some(1), Some(9), Some(0)), 'a'),
                (facts(Some(2), Some(8), Some(3)), 'b'),
                (facts(None, None, Some(0)), 'c'),
                (facts(Some(0), Some(10), None), 'd'),
            ]
        };
        let order = |descending, nulls_first| sorted(&First { field: 1, descending, nulls_first }, all());
        assert_eq!(order(true, false), "dabc");
        assert_eq!(order(false, false), "dabc");
        assert_eq!(order(true, true), "dbac", "nulls may be in b and d");
        assert_eq!(sorted(&First { field: 1, descending: false, nulls_first: false }, all().split_off(1)), "dbc");
    }
}
