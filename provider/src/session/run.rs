//! How does one statement run?

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ast};

use super::definitions::Definition;
use super::{Running, Session, read_only};
use crate::error::{Code, Error, Result};
use crate::exec;
use crate::predicate::advice;
use crate::scan::{Gap, ScanReport};
use crate::sql::{self, Ddl, Parsed, TableName};
use crate::table::{DEFAULT_SCHEMA, Warehouse};

impl Session {
    pub(super) async fn start(&self, text: &str) -> Result<Running> {
        let parsed = sql::parse(text)?;
        if let Some(error) = sql::refused(&parsed) {
            return Err(error);
        }
        match parsed {
            Parsed::ExplainPruning(inner) => self.explain_pruning(*inner).await,
            Parsed::Sql(statement) if only_shows(&statement) => Warehouse::shown(self.sql(*statement)).await,
            Parsed::Sql(statement) => self.sql(*statement).await,
        }
    }

    async fn sql(&self, mut statement: DfStatement) -> Result<Running> {
        let state = self.0.context.state();
        let lists = lists(&statement);
        if lists {
            self.0.warehouse.list().await?;
        }
        self.renew_prepared(&statement).await?;
        let definition = Definition::of(&statement);
        self.prepare(&mut statement, &state).await?;
        if let Some(ddl) = Ddl::of(&statement)? {
            return self.ddl(ddl, statement).await;
        }
        let mut notes = Vec::new();
        if lists {
            // Only now: names are settled among all tables.
            let failed = self.0.warehouse.list_readable().await?;
            notes.extend(
                failed.iter().map(|(table, error)| format!("left out: {table}, {}: {}", error.code(), error.what())),
            );
        }
        let plan = state.statement_to_plan(statement).await?;
        self.refuse_writes(&plan)?;
        match plan {
            // These change the session itself.
            LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
                self.refuse_shadowing(&plan).await?;
                let frame = self.0.context.execute_logical_plan(plan).await?;
                if let Some(definition) = definition {
                    self.0.definitions.learn(definition);
                }
                let plan = frame.create_physical_plan().await?;
                self.execute(plan, notes)
            }
            plan => {
                if let LogicalPlan::Explain(explain) = &plan
                    && matches!(explain.plan.as_ref(), LogicalPlan::Dml(_))
                {
                    // What can't be planned fails; the engine's EXPLAIN would print the error as a row.
                    state.create_physical_plan(&explain.plan).await?;
                }
                let plan = state.create_physical_plan(&plan).await?;
                notes.extend(full_scan_notes(&plan));
                self.execute(plan, notes)
            }
        }
    }

    /// Makes a statement ready for planning.
    pub(super) async fn prepare(&self, statement: &mut DfStatement, state: &SessionState) -> Result<()> {
        self.renew_views(statement, state).await?;
        self.resolve(statement, state).await
    }

    /// Resolves names and literals. Tables are looked up as written; only where one is not there so are all names listed,
    /// since listing costs a request a table.
    pub(super) async fn resolve(&self, statement: &mut DfStatement, state: &SessionState) -> Result<()> {
        let warehouse = &self.0.warehouse;
        for name in sql::relations(statement) {
            let Ok(TableName { schema, name }) = TableName::of(&name) else { continue };
            // A table that cannot be loaded is left to the planner, which says why.
            if !matches!(warehouse.table(&schema, &name).await, Ok(Some(_)) | Err(_)) {
                warehouse.list().await?;
                break;
            }
        }
        sql::prepare(statement, state).await?;
        Ok(())
    }

    /// Plans a query for an export.
    pub(super) async fn plan_query(&self, state: &SessionState, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let Parsed::Sql(mut statement) = sql::parse(query)? else { return Err(not_a_query()) };
        if !matches!(statement.as_ref(), DfStatement::Statement(ast) if matches!(ast.as_ref(), Ast::Query(_))) {
            return Err(not_a_query());
        }
        self.prepare(&mut statement, state).await?;
        let plan = state.statement_to_plan(*statement).await?;
        Ok(state.create_physical_plan(&plan).await?)
    }

    pub(super) fn execute(&self, plan: Arc<dyn ExecutionPlan>, notes: Vec<String>) -> Result<Running> {
        let stream = execute_stream(Arc::clone(&plan), self.0.context.task_ctx())?;
        Ok(Running { stream, plan: Some(plan), notes })
    }

    fn refuse_writes(&self, plan: &LogicalPlan) -> Result<()> {
        match sql::writes(plan) {
            Some(what) if self.0.warehouse.read_only() => Err(read_only(&what)),
            _ => Ok(()),
        }
    }

    /// A table of the session may not hide one of the warehouse, nor take the place of another unasked.
    async fn refuse_shadowing(&self, plan: &LogicalPlan) -> Result<()> {
        use datafusion::logical_expr::DdlStatement;
        let (name, replaces) = match plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) if !create.if_not_exists => {
                (&create.name, create.or_replace)
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(create)) => (&create.name, create.or_replace),
            _ => return Ok(()),
        };
        let (schema, table) = (name.schema().unwrap_or(DEFAULT_SCHEMA), name.table());
        if !replaces && self.0.warehouse.is_local(schema, table) {
            return Err(Error::new(Code::AlreadyExists, "the session has a table or view of this name")
                .with("table", format!("{schema}.{table}"))
                .help("choose another name, or drop it first"));
        }
        self.refuse_existing(schema, table).await
    }
}

fn not_a_query() -> Error {
    Error::new(Code::InvalidArgument, "--query takes a SELECT")
}

/// True for an EXPLAIN that runs nothing.
fn only_shows(statement: &DfStatement) -> bool {
    matches!(statement, DfStatement::Explain(explain) if !explain.analyze)
}

/// True where the answer comes from `information_schema`, which asks every table.
fn lists(statement: &DfStatement) -> bool {
    let DfStatement::Statement(ast) = statement else { return false };
    matches!(ast.as_ref(), Ast::ShowColumns { .. } | Ast::ShowCreate { .. })
        || sql::relations(statement).iter().any(is_information_schema)
}

fn is_information_schema(name: &ObjectName) -> bool {
    let mut parts = name.0.iter().filter_map(|part| part.as_ident());
    parts.any(|part| part.value.eq_ignore_ascii_case(INFORMATION_SCHEMA))
}

/// A warning for each scan that filters and yet reads every partition of a partitioned table.
fn full_scan_notes(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let full = exec::reports(plan).into_iter().filter(|report| {
        let files = &report.ledger.files;
        report.filtered && report.partitioned && files.kept() > 1 && files.kept() == files.total()
    });
    full.map(|report| {
        format!(
            "the filter on {} skips none of its {} files; EXPLAIN PRUNING says why",
            report.table,
            report.ledger.files.total()
        )
    })
    .collect()
}

/// Why conditions of a scan didn't prune, or not by all they say, and what would.
// @spec E3
pub(super) fn gap_notes(report: &ScanReport) -> Vec<String> {
    let note = |gap: &Gap| {
        let pruned = if gap.nothing { "prunes nothing" } else { "prunes by a part of what it says" };
        let advice = advice(gap.reason).map(|advice| format!("; {advice}")).unwrap_or_default();
        format!("{}: {} {pruned}: {}{advice}", report.table, gap.condition, gap.reason)
    };
    report.gaps.iter().map(note).collect()
}

pub(super) fn rows(batch: RecordBatch) -> Result<Running> {
    let stream = RecordBatchStreamAdapter::new(batch.schema(), futures::stream::iter([Ok(batch)]));
    Ok(Running { stream: Box::pin(stream), plan: None, notes: Vec::new() })
}
