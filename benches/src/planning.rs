//! What does it cost to plan one day out of many?

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::col;
use daygrain::Session;
use daygrain::scan::{self, Plan, Request, View};
use daygrain::table::IcebergTable;

use crate::engines::{self, TABLE, THREADS};
use crate::measure::{Times, resident_kib, timed};
use crate::synthetic::{DAY_US, FIRST_DAY, Shape};

/// The tables, with the milliseconds that are wanted, cold and warm.
pub const TABLES: [(Shape, f64, f64); 3] = [
    (Shape { name: "by-day", days: 1_000, files_a_day: 100, scattered: false }, 30.0, 2.0),
    (Shape { name: "scattered", days: 100, files_a_day: 1_000, scattered: true }, 800.0, 30.0),
    (Shape { name: "million", days: 1_000, files_a_day: 1_000, scattered: false }, 300.0, 5.0),
];

/// The partitioned column.
const TIMESTAMP: &str = "message_created_at";
/// Plans of one session after its first.
const WARM_RUNS: usize = 15;

/// The same of plans that keep every file.
const WARM_RUNS_OF_ALL: usize = 3;

/// Of one table.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Files that the day has.
    pub files: u64,
    /// Milliseconds of the first plan of a session, with opening the table.
    pub cold: f64,
    /// Milliseconds of the same plan again, the middle of some runs.
    pub warm: f64,
    /// Milliseconds from SQL to the physical plan when warm, the middle of some runs.
    pub statement: f64,
    /// Milliseconds of a plan that keeps every file, when warm.
    pub all: f64,
    /// KiB that became resident meanwhile.
    pub resident: u64,
}

/// Plans one day in a new session, and again.
pub async fn measure(shape: &Shape, warehouse: &Path) -> Measured {
    let before = resident_kib();
    let session = engines::daygrain(warehouse, None);
    let day = FIRST_DAY + shape.days as i64 / 2;
    let sql = format!(
        "SELECT session_id, role, input_tokens FROM {TABLE} \
         WHERE {TIMESTAMP} >= to_timestamp_seconds({}) AND {TIMESTAMP} < to_timestamp_seconds({})",
        day * 86_400,
        (day + 1) * 86_400
    );
    let opened_and_planned = async {
        let view = open(&session).await;
        let plan = plan(&view, &session, day).await;
        (view, plan)
    };
    let ((view, first), cold) = timed(opened_and_planned).await;
    let (mut warm, mut statement) = (Times::default(), Times::default());
    for _ in 0..WARM_RUNS {
        let (again, time) = timed(plan(&view, &session, day)).await;
        assert_eq!(again.ledger.files, first.ledger.files, "planning again finds the same");
        warm.add(time);
        statement.add(timed(physical(&session, &sql)).await.1);
    }
    let resident = resident_kib().saturating_sub(before);
    let mut all = Times::default();
    for _ in 0..WARM_RUNS_OF_ALL {
        let (plan, time) = timed(plan_all(&view)).await;
        assert_eq!(plan.ledger.files.kept(), shape.files() as u64, "every file is kept");
        all.add(time);
    }
    assert_eq!(first.ledger.files.total(), shape.files() as u64, "every file is accounted for");
    assert_eq!(first.ledger.files.kept(), shape.files_a_day as u64, "one day is kept");
    Measured {
        files: first.ledger.files.kept(),
        cold: millis(cold),
        warm: warm.median(),
        statement: statement.median(),
        all: all.median(),
        resident,
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

async fn open(session: &Session) -> Arc<View> {
    let provider =
        session.warehouse().table("main", TABLE).await.expect("the table loads").expect("the table is there");
    let table = provider.as_any().downcast_ref::<IcebergTable>().expect("a table of ours");
    Arc::clone(table.view())
}

async fn plan(view: &View, session: &Session, day: i64) -> Plan {
    let filters =
        [from_midnight(view, session, day, Operator::GtEq), from_midnight(view, session, day + 1, Operator::Lt)];
    let columns = ["session_id", "role", "input_tokens", TIMESTAMP];
    let projection: Vec<usize> =
        columns.iter().map(|name| view.arrow.index_of(name).expect("the column is there")).collect();
    let request = Request { filters: &filters, projection: Some(&projection), limit: None, partitions: THREADS };
    scan::plan(view, &request).await.expect("the scan is planned")
}

async fn plan_all(view: &View) -> Plan {
    let projection = [view.arrow.index_of("role").expect("the column is there")];
    let request = Request { filters: &[], projection: Some(&projection), limit: None, partitions: THREADS };
    scan::plan(view, &request).await.expect("the scan is planned")
}

/// The timestamp compared with the beginning of a day.
fn from_midnight(view: &View, session: &Session, day: i64, operator: Operator) -> Arc<dyn PhysicalExpr> {
    let schema = DFSchema::try_from(view.arrow.as_ref().clone()).expect("a schema");
    let midnight = ScalarValue::TimestampMicrosecond(Some(day * DAY_US), Some("UTC".into()));
    let ty = view.arrow.field_with_name(TIMESTAMP).expect("the column is there").data_type().clone();
    let midnight = midnight.cast_to(&ty).expect("the column's own zone");
    let compared = binary_expr(col(TIMESTAMP), operator, Expr::Literal(midnight, None));
    session.context().state().create_physical_expr(compared, &schema).expect("the filter is sound")
}

async fn physical(session: &Session, sql: &str) {
    let frame = session.context().sql(sql).await.expect("the query is planned");
    frame.create_physical_plan().await.expect("the query gets a physical plan");
}
