//! What do the session's views and prepared statements stand for now?
//!
//! The engine keeps them as plans, and a plan holds the snapshots that its tables had when it was made. So their statements
//! are kept too, and planned again whenever a statement uses them: that reads one snapshot of each table, through whichever
//! name.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use parking_lot::RwLock;

use super::Session;
use crate::error::{Code, Error, Result};
use crate::sql::{self, TableName};

type Name = (String, String);

/// Statements as they were written, before names were resolved.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    views: RwLock<BTreeMap<Name, DfStatement>>,
    prepared: RwLock<BTreeMap<String, DfStatement>>,
}

/// What a statement defines for those after it.
pub(super) enum Definition {
    View(Name, DfStatement),
    Prepared(String, DfStatement),
    Deallocated(String),
}

impl Definition {
    /// What `statement` defines as it was written; `None` for most.
    pub(super) fn of(statement: &DfStatement) -> Option<Self> {
        let DfStatement::Statement(ast) = statement else { return None };
        match ast.as_ref() {
            Ast::CreateView(view) => {
                let name = TableName::of(&view.name).ok()?.into_pair();
                Some(Definition::View(name, statement.clone()))
            }
            Ast::Prepare { name, .. } => Some(Definition::Prepared(name.to_string(), statement.clone())),
            Ast::Deallocate { name, .. } => Some(Definition::Deallocated(name.to_string())),
            _ => None,
        }
    }
}

impl Definitions {
    /// Remembers what a statement that succeeded has defined, or forgets it.
    pub(super) fn learn(&self, definition: Definition) {
        match definition {
            Definition::View(name, statement) => drop(self.views.write().insert(name, statement)),
            Definition::Prepared(name, statement) => drop(self.prepared.write().insert(name, statement)),
            Definition::Deallocated(name) => drop(self.prepared.write().remove(&name)),
        }
    }

    /// Forgets a view.
    pub(super) fn forget(&self, schema: &str, name: &str) {
        self.views.write().remove(&(schema.to_owned(), name.to_owned()));
    }

    /// The views that a name may mean: the spelling is settled later.
    fn views(&self, called: &TableName) -> Vec<(Name, DfStatement)> {
        let views = self.views.read();
        let fits = |(schema, name): &Name| {
            schema.eq_ignore_ascii_case(&called.schema) && name.eq_ignore_ascii_case(&called.name)
        };
        views.iter().filter(|(name, _)| fits(name)).map(|(name, view)| (name.clone(), view.clone())).collect()
    }
}

impl Session {
    /// Plans the views that a statement names, at the snapshots that the statement reads.
    pub(super) async fn renew_views(&self, statement: &DfStatement, state: &SessionState) -> Result<()> {
        if self.0.definitions.views.read().is_empty() {
            return Ok(());
        }
        let mut open = match statement {
            DfStatement::Statement(ast) => match ast.as_ref() {
                Ast::CreateView(view) => TableName::of(&view.name).into_iter().map(TableName::into_pair).collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        self.renew(statement, state, &mut open).await
    }

    /// `open`: the views that are being planned.
    async fn renew(&self, statement: &DfStatement, state: &SessionState, open: &mut Vec<Name>) -> Result<()> {
        for called in sql::relations(statement) {
            let Ok(called) = TableName::of(&called) else { continue };
            for (name, definition) in self.0.definitions.views(&called) {
                if open.contains(&name) {
                    return Err(Error::new(Code::NotSupported, "a view cannot be made of itself")
                        .with("view", format!("{}.{}", name.0, name.1)));
                }
                open.push(name.clone());
                let view = Box::pin(self.plan_view(definition, state, open)).await?;
                open.pop();
                if let Some(view) = view {
                    self.0.warehouse.replace_in_statement(&name.0, &name.1, view);
                }
            }
        }
        Ok(())
    }

    async fn plan_view(
        &self,
        mut definition: DfStatement,
        state: &SessionState,
        open: &mut Vec<Name>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.renew(&definition, state, open).await?;
        self.resolve(&mut definition, state).await?;
        Ok(match state.statement_to_plan(definition).await? {
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => {
                Some(Arc::new(ViewTable::new(view.input.as_ref().clone(), view.definition)))
            }
            _ => None,
        })
    }

    /// Prepares again what an EXECUTE runs.
    pub(super) async fn renew_prepared(&self, statement: &DfStatement) -> Result<()> {
        let DfStatement::Statement(ast) = statement else { return Ok(()) };
        let Ast::Execute { name: Some(name), .. } = ast.as_ref() else { return Ok(()) };
        let definition = self.0.definitions.prepared.read().get(&name.to_string()).cloned();
        let Some(mut definition) = definition else { return Ok(()) };
        let state = self.0.context.state();
        self.prepare(&mut definition, &state).await?;
        let again = state.statement_to_plan(definition).await?;
        let LogicalPlan::Statement(datafusion::logical_expr::Statement::Prepare(prepare)) = &again else {
            return Ok(());
        };
        let forget = datafusion::logical_expr::Deallocate { name: prepare.name.clone() };
        let forget = LogicalPlan::Statement(datafusion::logical_expr::Statement::Deallocate(forget));
        self.0.context.execute_logical_plan(forget).await?;
        self.0.context.execute_logical_plan(again).await?;
        Ok(())
    }
}
