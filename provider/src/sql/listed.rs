//! Which columns does a list behind an alias name?
//!
//! ```text
//! FROM (SELECT 1 AS "C", 2 AS c) AS t(a, b)     a is 1, b is 2
//! ```
//!
//! The engine reads the inner names as SQL again: `C` becomes `c`, `NULL` a value, `x.y` a column of `x`. So columns are
//! taken by their place here. Lists of `WITH` and of views become lists of derived tables first, since the engine plans those
//! elsewhere; and a recursive query's list that of its first term, so that the second knows the names:
//!
//! ```text
//! WITH RECURSIVE t(k) AS (SELECT 1                        UNION ALL SELECT k + 1 FROM t WHERE k < 9) …    as written
//! WITH RECURSIVE t AS (SELECT * FROM (SELECT 1) AS t(k)   UNION ALL SELECT k + 1 FROM t WHERE k < 9) …    as planned
//! ```

use std::ops::ControlFlow;

use datafusion::common::{Column, Result as DfResult, plan_err};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Query, SetExpr, Statement as SqlStatement, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::sources::visit_mut;
use crate::error::{Code, Error, Result};

/// Makes lists of derived tables of the lists of `WITH` and of views.
///
/// # Errors
/// `internal`, if the parser no longer knows a derived table.
pub(super) fn derive_lists(statement: &mut Statement) -> Result<()> {
    visit_mut(statement, &mut DeriveLists)
}

struct DeriveLists;

impl VisitorMut for DeriveLists {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in with.cte_tables.iter_mut().filter(|cte| !cte.alias.columns.is_empty()) {
            if let Err(error) = derive_terms(cte, with.recursive) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<Error> {
        let SqlStatement::CreateView(view) = statement else { return ControlFlow::Continue(()) };
        let plain = view.columns.iter().all(|column| column.data_type.is_none() && column.options.is_none());
        let Some(name) = view.name.0.last().and_then(|part| part.as_ident()).cloned() else {
            return ControlFlow::Continue(());
        };
        if view.columns.is_empty() || !plain {
            return ControlFlow::Continue(());
        }
        let columns = std::mem::take(&mut view.columns).into_iter().map(|column| column.name);
        let columns = columns.map(|name| TableAliasColumnDef { name, data_type: None }).collect();
        match derive(&mut view.query, TableAlias { explicit: true, name, columns }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn derive_terms(cte: &mut Cte, recursive: bool) -> Result<()> {
    let columns = std::mem::take(&mut cte.alias.columns);
    let list = TableAlias { explicit: true, name: cte.alias.name.clone(), columns };
    match cte.query.body.as_mut() {
        SetExpr::SetOperation { left, .. } if recursive => {
            let mut first = template()?;
            std::mem::swap(left, &mut first.body);
            derive(&mut first, list)?;
            **left = SetExpr::Query(Box::new(first));
            Ok(())
        }
        _ => derive(&mut cte.query, list),
    }
}

/// Makes `SELECT * FROM (query) AS list` of a query.
fn derive(query: &mut Query, list: TableAlias) -> Result<()> {
    let mut derived = template()?;
    if let SetExpr::Select(select) = derived.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, alias, .. } = &mut from.relation
    {
        std::mem::swap(subquery.as_mut(), query);
        *alias = Some(list);
        *query = derived;
        return Ok(());
    }
    Err(Error::new(Code::Internal, "the parser knows no derived table"))
}

fn template() -> Result<Query> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM (SELECT 1) AS t");
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map(|query| *query).map_err(|e| Error::new(Code::Internal, "the parser knows no derived table").source(e))
}

/// Plans what has a list behind its alias.
#[derive(Debug)]
pub struct Listed;

impl RelationPlanner for Listed {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DfResult<RelationPlanning> {
        let alias = match &mut relation {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.as_mut(),
            _ => None,
        };
        let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let (columns, name) = (std::mem::take(&mut alias.columns), context.normalize_ident(alias.name.clone()));
        let plan = context.plan(relation)?;
        if columns.len() != plan.schema().fields().len() {
            let (has, named) = (plan.schema().fields().len(), columns.len());
            return plan_err!("{name} has {has} columns, and its list names {named}");
        }
        let column = |((qualifier, field), named): ((_, &arrow::datatypes::FieldRef), TableAliasColumnDef)| {
            let qualifier: Option<&datafusion::common::TableReference> = qualifier;
            Expr::Column(Column::new(qualifier.cloned(), field.name())).alias(context.normalize_ident(named.name))
        };
        let schema = plan.schema().clone();
        let named: Vec<Expr> = schema.iter().zip(columns).map(column).collect();
        let plan = LogicalPlanBuilder::from(plan).project(named)?.alias(name)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}
