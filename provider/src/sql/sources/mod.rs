//! Which tables does a statement read otherwise than as they are now?
//!
//! ```text
//! FROM t VERSION AS OF 7 AS x            FROM "t VERSION AS OF 7" AS x
//! FROM t WHERE _pos = 1                  FROM "t WITH _pos" AS t WHERE _pos = 1
//! FROM table_changes('t', 1, 2)          FROM "table_changes(t, 1, 2)" AS table_changes
//! ```
//!
//! Each becomes a table of its own, known to the running statement only, before names are resolved: DataFusion's planner
//! would ignore a version, and has no columns that `*` leaves out. Nothing is left to it that it would ignore.

mod ask;
mod open;
mod replace;
mod when;

use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{TableFactor, Visit, VisitMut};

use crate::error::{Code, Error, Result};

/// Replaces every version of a table, every call of `table_changes` and every table whose metadata columns are named.
///
/// # Errors
/// `unknown_table`, `unknown_snapshot`, `changes_unavailable`, `not_supported` where what is named has no versions,
/// `invalid_argument` and `invalid_value` for what says no version or time, and what loading a table meets.
// @spec S5 P9 P10
pub(super) async fn resolve(statement: &mut Statement, state: &SessionState) -> Result<()> {
    let asks = ask::of(statement);
    if asks.is_empty() {
        return Ok(());
    }
    let opened = open::all(asks, state).await?;
    replace::all(statement, opened)
}

/// Refuses a version that reaches the planner: it came past [`Session::run`](crate::Session::run), and would be ignored.
#[derive(Debug)]
pub struct NoVersions;

impl RelationPlanner for NoVersions {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> DfResult<RelationPlanning> {
        if let TableFactor::Table { version: Some(_), .. } = &relation {
            let error = Error::new(Code::NotSupported, "versions of tables are not known here");
            return Err(DataFusionError::External(Box::new(error.help("run the statement with Session::run"))));
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Visits the syntax tree of what a statement reads.
fn visit<V: datafusion::sql::sqlparser::ast::Visitor>(statement: &Statement, visitor: &mut V) {
    let _ = match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => return,
        },
        Statement::Explain(explain) => return visit(&explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => return,
    };
}

/// The same, to change it.
pub(super) fn visit_mut<V>(statement: &mut Statement, visitor: &mut V) -> Result<()>
where
    V: datafusion::sql::sqlparser::ast::VisitorMut<Break = Error>,
{
    let flow = match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => return Ok(()),
        },
        Statement::Explain(explain) => return visit_mut(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => return Ok(()),
    };
    flow.break_value().map_or(Ok(()), Err)
}

/// How an item of a `FROM` is told from the others, as long as the tree around it stays in place.
fn address(factor: &TableFactor) -> usize {
    std::ptr::from_ref(factor).addr()
}
