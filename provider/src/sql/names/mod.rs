//! Which table or column does a name in a statement mean?
//!
//! ```text
//! SELECT SessionID, m.UUID FROM Main.Messages m ORDER BY N        columns: sessionId, uuid, n
//! SELECT "sessionId", m."uuid" FROM "main"."messages" m ORDER BY "n"
//! ```
//!
//! Unquoted names keep their case: an exact match wins wherever one is visible, else the one name that differs only in case. Where
//! several do, the statement is refused with code `ambiguous_name`. Quoted names are taken to the letter. DataFusion's own
//! folding to lower case must be off (`datafusion.sql_parser.enable_ident_normalization = false`).
//!
//! A statement is resolved before it is planned, over its syntax tree: the tables that it names are looked up once, then
//! each query is walked with what its `FROM` makes visible. What is not understood here (a function as a table, an unknown
//! table, a column that is nowhere) stays as it was written, for the planner to accept or to refuse.
//!
//! Names that a statement defines (aliases, new tables, columns of new tables) stay as typed. Names of functions, types and settings
//! are not touched.

mod expr;
mod from;
mod merged;
mod query;
mod scope;
mod star;
mod tables;
#[cfg(test)]
mod tests;
mod twice;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, FromTable, Insert, ObjectName, ObjectType, Statement as SqlStatement, TableObject,
    TableWithJoins, UpdateTableFromKind,
};

use crate::error::Result;
use query::Resolver;
use tables::Tables;

pub(super) use tables::find as find_table;
pub use tables::relations;

/// Gives every unquoted name of a statement the case of what it names. Returns the tables that were looked up for it, each
/// loaded once, under their full names.
///
/// # Errors
/// `ambiguous_name` where several names differ from the one written only in case, and none is the same.
// @spec S8
pub async fn resolve(
    statement: &mut Statement,
    state: &SessionState,
) -> Result<Vec<(ResolvedTableReference, Arc<dyn TableProvider>)>> {
    let tables = Tables::load(statement, state).await?;
    let mut resolver = Resolver::new(&tables);
    resolver.statement(statement)?;
    Ok(tables.into_loaded())
}

impl Resolver<'_> {
    fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Statement(statement) => self.sql_statement(statement),
            Statement::Explain(explain) => self.statement(&mut explain.statement),
            Statement::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => self.query(query).map(|_| ()),
                CopyToSource::Relation(name) => self.table_name(name),
            },
            Statement::CreateExternalTable(table) => self.new_name(&mut table.name),
            Statement::Reset(_) => Ok(()),
        }
    }

    fn sql_statement(&mut self, statement: &mut SqlStatement) -> Result<()> {
        match statement {
            SqlStatement::Query(query) => self.query(query).map(|_| ()),
            SqlStatement::Explain { statement, .. } | SqlStatement::Prepare { statement, .. } => {
                self.sql_statement(statement)
            }
            SqlStatement::Insert(insert) => self.insert(insert),
            SqlStatement::Update(update) => {
                let tables = std::slice::from_mut(&mut update.table);
                let from = match &mut update.from {
                    Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                        from.as_mut_slice()
                    }
                    None => &mut [],
                };
                self.within(tables, from, |resolver| {
                    for assignment in &mut update.assignments {
                        match &mut assignment.target {
                            AssignmentTarget::ColumnName(name) => resolver.assigned(name)?,
                            AssignmentTarget::Tuple(names) => {
                                names.iter_mut().try_for_each(|name| resolver.assigned(name))?;
                            }
                        }
                        resolver.expr(&mut assignment.value)?;
                    }
                    resolver.exprs(update.selection.iter_mut())
                })
            }
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &mut delete.from;
                let using = delete.using.as_deref_mut().unwrap_or_default();
                self.within(tables, using, |resolver| {
                    resolver.exprs(delete.selection.iter_mut())?;
                    resolver.exprs(delete.order_by.iter_mut().map(|order| &mut order.expr))
                })
            }
            SqlStatement::CreateTable(table) => {
                self.new_name(&mut table.name)?;
                table.query.as_mut().map_or(Ok(()), |query| self.query(query).map(|_| ()))
            }
            SqlStatement::CreateView(view) => {
                self.new_name(&mut view.name)?;
                self.query(&mut view.query).map(|_| ())
            }
            SqlStatement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
                names.iter_mut().try_for_each(|name| self.table_name(name))
            }
            SqlStatement::Drop { object_type: ObjectType::Schema, names, .. } => {
                names.iter_mut().try_for_each(|name| self.schema_name(name))
            }
            SqlStatement::ExplainTable { table_name: name, .. } | SqlStatement::ShowCreate { obj_name: name, .. } => {
                self.table_name(name)
            }
            SqlStatement::ShowColumns { show_options, .. } => {
                let shown = show_options.show_in.as_mut().and_then(|shown| shown.parent_name.as_mut());
                shown.map_or(Ok(()), |name| self.table_name(name))
            }
            SqlStatement::Truncate(truncate) => {
                truncate.table_names.iter_mut().try_for_each(|table| self.table_name(&mut table.name))
            }
            SqlStatement::AlterTable(alter) => self.table_name(&mut alter.name),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, insert: &mut Insert) -> Result<()> {
        if let TableObject::TableName(name) = &mut insert.table {
            let columns = self.columns_of(name);
            self.table_name(name)?;
            if let Some(columns) = columns {
                for column in &mut insert.columns {
                    scope::settle(column, columns.iter().map(|known| known.name.as_str()), "column")?;
                }
            }
        }
        insert.source.as_mut().map_or(Ok(()), |query| self.query(query).map(|_| ()))
    }

    /// Does something where the columns of tables are visible.
    fn within(
        &mut self,
        tables: &mut [TableWithJoins],
        more: &mut [TableWithJoins],
        then: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.enter();
        for table in tables.iter_mut().chain(more) {
            self.table_with_joins(table)?;
        }
        then(self)?;
        self.leave();
        Ok(())
    }

    fn assigned(&mut self, name: &mut ObjectName) -> Result<()> {
        let parts: Option<Vec<_>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
        let Some(mut parts) = parts else { return Ok(()) };
        self.path(&mut parts)?;
        *name = ObjectName::from(parts);
        Ok(())
    }

    fn exprs<'e>(&mut self, mut exprs: impl Iterator<Item = &'e mut Expr>) -> Result<()> {
        exprs.try_for_each(|expr| self.expr(expr))
    }
}
