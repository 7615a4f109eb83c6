//! Text as the filter of a query: what the engine makes of it prunes no row that it keeps.
//!
//! The table offers its filters to the planner as an Iceberg table does. What the planner pushes down is converted,
//! projected and tested against each row of a few, each value of which stands alone in a file and in a partition.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use super::RUNTIME;
use super::rows::{ROWS, Table};
use crate::error::Code;
use crate::predicate::{convert, project, project_strict};
use crate::session::{Options, Session, Statement};

/// Longer filters say the same of more.
const LONGEST: usize = 400;

/// The bytes as the filter of a query. Bytes that are no text, or no filter, are refused by whoever reads them.
pub fn filter(bytes: &[u8]) {
    static SESSION: LazyLock<Session> = LazyLock::new(|| {
        let options = Options { threads: Some(1), read_only: true, ..Options::at("memory://fuzz") };
        let session = Session::new(options).unwrap();
        session.context().register_table("t", Arc::new(Offering(Table::new()))).unwrap();
        session
    });
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST) else { return };
    let statement = Statement { text: format!("SELECT i FROM t WHERE {text}"), line: 1 };
    if let Err(error) = RUNTIME.block_on(SESSION.run(&statement)) {
        assert_ne!(error.code(), Code::Internal, "{text}: {error}");
    }
}

/// What must hold of any filter.
fn check(table: &Table, filter: &Arc<dyn PhysicalExpr>) {
    let converted = convert(filter, &table.arrow, &table.schema);
    let inclusive = project(&converted.predicate, &table.spec, &table.schema);
    let strict = project_strict(&converted.proof, &table.spec, &table.schema);
    let truths = truths_of_each(filter, &table.read.rows);
    for (row, truth) in truths.iter().enumerate() {
        let value = |field: i32| table.value(field, row);
        let held = converted.predicate.holds(&value) == Some(true);
        match truth {
            Some(true) => assert!(held, "row {row} is lost: {filter} as {:?}", converted.predicate),
            Some(false) => {
                assert!(!held || !converted.exact, "row {row}, not exact: {filter} as {:?}", converted.predicate);
                let proven = converted.proof.holds(&value) == Some(true);
                assert!(!proven, "row {row}, proven and not true: {filter} as {:?}", converted.proof);
            }
            // The row fails the query. Whether it is skipped before it does is nobody's promise.
            None => {}
        }
    }
    for told in [&table.read, &table.overlooked] {
        for (row, truth) in truths.iter().enumerate() {
            let alone = |field: i32| table.facts(told, field, row..row + 1);
            let tuple = |field: i32| table.partition(told, field, row);
            match truth {
                Some(true) => {
                    assert!(converted.predicate.may_match(&alone), "row {row} is lost by its facts: {filter}");
                    let kept = inclusive.may_match(&tuple);
                    assert!(kept, "row {row} is lost by its partition: {filter} as {inclusive:?}");
                }
                Some(false) => {
                    assert!(!converted.proof.must_match(&alone), "row {row}, proven by its facts: {filter}");
                    let proven = strict.must_match(&tuple);
                    assert!(!proven, "row {row}, proven by its partition: {filter} as {strict:?}");
                }
                None => {}
            }
        }
        let all = |field: i32| table.facts(told, field, 0..ROWS);
        let (some, other) = (truths.contains(&Some(true)), truths.contains(&Some(false)));
        assert!(!some || converted.predicate.may_match(&all), "the file is lost: {filter}");
        assert!(!other || !converted.proof.must_match(&all), "the file is proven: {filter}");
    }
}

/// The engine's truth for each row (unknown is not true); `None` where the engine fails.
fn truths_of_each(filter: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Vec<Option<bool>> {
    if let Some(all) = truths(filter, rows) {
        return all.into_iter().map(Some).collect();
    }
    (0..ROWS).map(|row| truths(filter, &rows.slice(row, 1)).and_then(|one| one.first().copied())).collect()
}

fn truths(filter: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Option<Vec<bool>> {
    // A batch of its own: kernels see all of an array, sliced or not.
    let rows = concat_batches(&rows.schema(), [rows]).ok()?;
    let array = filter.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows())).ok()?;
    let array = array.as_any().downcast_ref::<BooleanArray>()?;
    Some((0..array.len()).map(|row| array.is_valid(row) && array.value(row)).collect())
}

/// The table as the planner meets it.
struct Offering(Table);

impl std::fmt::Debug for Offering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Offering")
    }
}

#[async_trait]
impl TableProvider for Offering {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> ArrowSchemaRef {
        Arc::clone(&self.0.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn EngineSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let names = DFSchema::try_from(Arc::clone(&self.0.arrow))?;
        for filter in filters {
            if let Ok(filter) = state.create_physical_expr(filter.clone(), &names) {
                check(&self.0, &filter);
            }
        }
        let schema = match projection {
            Some(projection) => Arc::new(self.0.arrow.project(projection)?),
            None => Arc::clone(&self.0.arrow),
        };
        Ok(Arc::new(EmptyExec::new(schema)))
    }
}
