//! Which columns does a recursive query have?
//!
//! ```text
//! WITH RECURSIVE t(k) AS (SELECT 1                        UNION ALL SELECT k + 1 FROM t WHERE k < 9) …    as written
//! WITH RECURSIVE t AS (SELECT * FROM (SELECT 1) AS t(k)   UNION ALL SELECT k + 1 FROM t WHERE k < 9) …    as planned
//! ```
//!
//! The engine renames columns when both terms are planned, too late for the second. And it leaves out some:
//!
//! ```text
//! WITH RECURSIVE t(k, v) AS (SELECT 1, 10 UNION ALL SELECT 2, 20 FROM t WHERE k = 1) SELECT v FROM t
//! 10, 20
//! 10          what DataFusion 53 makes of it: nobody outside asks for k, so that the second row is lost, or the query fails
//! ```
//!
//! Its rule takes the columns that the query around wants for all that the terms want of each other. So each term, and what
//! is around them, is given to the rule alone: terms keep their columns, and scans in them read no more than they must.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, RecursiveQuery};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableAlias, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::sources::visit_mut;
use crate::error::{Code, Error};

/// Gives the first term of each recursive query the names of its columns.
///
/// # Errors
/// `internal`, if the parser no longer knows a derived table.
pub(super) fn name_columns(statement: &mut Statement) -> std::result::Result<(), Error> {
    visit_mut(statement, &mut NameColumns)
}

struct NameColumns;

impl VisitorMut for NameColumns {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let recursive = query.with.as_mut().filter(|with| with.recursive);
        for cte in recursive.into_iter().flat_map(|with| &mut with.cte_tables) {
            if let SetExpr::SetOperation { left, .. } = cte.query.body.as_mut()
                && !cte.alias.columns.is_empty()
            {
                let columns = std::mem::take(&mut cte.alias.columns);
                let alias = TableAlias { explicit: true, name: cte.alias.name.clone(), columns };
                if let Err(error) = derive(left, alias) {
                    return ControlFlow::Break(error);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Makes `SELECT * FROM (term) AS alias` of a term.
fn derive(term: &mut SetExpr, name: TableAlias) -> std::result::Result<(), Error> {
    let unknown = || Error::new(Code::Internal, "the parser knows no derived table");
    let parser = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM (SELECT 1) AS t");
    let query = parser.and_then(|mut parser| parser.parse_query()).map_err(|e| unknown().source(e))?;
    let mut derived = *query.body;
    if let SetExpr::Select(select) = &mut derived
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, alias, .. } = &mut from.relation
    {
        std::mem::swap(subquery.body.as_mut(), term);
        *alias = Some(name);
        *term = derived;
        return Ok(());
    }
    Err(unknown())
}

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
