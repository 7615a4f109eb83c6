//! What did each scan of a query skip?

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::Statement as DfStatement;
use futures::TryStreamExt;

use super::run::{gap_notes, rows};
use super::{Running, Session};
use crate::error::Result;
use crate::exec;
use crate::sql::{self, Scanned};
use crate::table::IcebergTable;

impl Session {
    // @spec E3
    pub(super) async fn explain_pruning(&self, mut statement: DfStatement) -> Result<Running> {
        let state = self.0.context.state();
        self.prepare(&mut statement, &state).await?;
        let (logical, tables) = told_apart(state.optimize(&state.statement_to_plan(statement).await?)?)?;
        let plan = state.query_planner().create_physical_plan(&logical, &state).await?;
        let stream = execute_stream(Arc::clone(&plan), self.0.context.task_ctx())?;
        stream.try_for_each(|_| std::future::ready(Ok(()))).await?;

        let mut scans = Vec::new();
        for Planned { table, filters } in tables {
            let scanned = match exec::report_of(&plan, table.view()) {
                Some(report) => Scanned { report, from_metadata: false },
                // The optimiser answered this scan from the statistics of its plan.
                None => {
                    let report = exec::explain(table.view(), &state, &filters).await?;
                    Scanned { report, from_metadata: true }
                }
            };
            scans.push(scanned);
        }
        let notes = scans.iter().flat_map(|scan| gap_notes(&scan.report)).collect();
        Ok(Running { notes, ..rows(sql::pruning_rows(&scans)?)? })
    }
}

/// A scan of a logical plan.
struct Planned {
    /// With a view that no other scan has.
    table: Arc<IcebergTable>,
    filters: Vec<Expr>,
}

/// A plan whose scans of our tables each have a provider of their own, and those in the order of the plan, with the
/// filters of their scans. The sides of a join may swap on the way to the physical plan.
fn told_apart(plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Planned>)> {
    let mut tables = Vec::new();
    let plan = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source).ok();
        let Some(table) = provider.as_ref().and_then(|provider| provider.as_any().downcast_ref::<IcebergTable>())
        else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let table = Arc::new(table.apart());
        tables.push(Planned { table: Arc::clone(&table), filters: scan.filters.clone() });
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source: provider_as_source(table), ..scan })))
    })?;
    Ok((plan.data, tables))
}
