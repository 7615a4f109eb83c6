//! Text as the filter of a query: what the engine makes of it prunes no row that it keeps.
//!
//! The table offers its filters to the planner as an Iceberg table does. What the planner pushes down is converted,
//! projected and tested against each row of a few, each value of which stands alone in a file and in a partition.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, SchemaRef as ArrowSchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::scalar::ScalarValue as S;
use iceberg::spec::{PartitionSpec, PrimitiveType as T, Schema, Transform};
use iceberg::transform::create_transform_function;

use super::RUNTIME;
use crate::error::Code;
use crate::predicate::{Facts, Value, convert, project, project_strict};
use crate::schema::to_arrow;
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

/// A row's worth of every column.
struct Table {
    arrow: ArrowSchemaRef,
    schema: Schema,
    spec: PartitionSpec,
    rows: RecordBatch,
    /// By row: the value of each column, and of each partition field.
    values: Vec<Vec<Option<Value>>>,
    partitions: Vec<Vec<Option<Value>>>,
}

const SCHEMA: &str = r#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"b","required":false,"type":"boolean"},
{"id":2,"name":"i","required":false,"type":"int"},{"id":3,"name":"l","required":false,"type":"long"},
{"id":4,"name":"x","required":false,"type":"double"},{"id":5,"name":"d","required":false,"type":"date"},
{"id":6,"name":"ts","required":false,"type":"timestamptz"},{"id":7,"name":"n","required":false,"type":"timestamp"},
{"id":8,"name":"m","required":false,"type":"decimal(9, 2)"},{"id":9,"name":"s","required":false,"type":"string"},
{"id":10,"name":"y","required":false,"type":"binary"}]}"#;

/// Column and transform of each partition field.
const SPEC: [(i32, Transform); 14] = [
    (2, Transform::Identity),
    (2, Transform::Truncate(10)),
    (3, Transform::Bucket(4)),
    (3, Transform::Truncate(7)),
    (5, Transform::Day),
    (5, Transform::Month),
    (5, Transform::Year),
    (6, Transform::Hour),
    (6, Transform::Day),
    (7, Transform::Month),
    (7, Transform::Year),
    (9, Transform::Identity),
    (9, Transform::Truncate(2)),
    (9, Transform::Bucket(16)),
];

const ROWS: usize = 12;

/// The values of a column: nulls, neighbours, ends.
fn column(ty: &DataType) -> ArrayRef {
    const DAY: i64 = 86_400_000_000;
    let noon = 20_608 * DAY + DAY / 2;
    let times = [0, -1, 1, DAY - 1, DAY, -DAY, noon, noon + 1, 951_782_400_000_000, -2_208_988_800_000_000, noon - DAY];
    let doubles = [0.0, -0.0, 1.0, 1.5, -2.5, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, 4.0];
    let longs = [0, 1, -1, 2, 5, 10, i64::MAX, i64::MIN + 10, 1 << 53, 4_294_967_296, 7];
    let ints = [0, 1, -1, 2, 5, 10, i32::MAX, i32::MIN + 10, 25, -7, 7];
    let days = [0, -1, 1, 20_608, 20_607, 11_016, -25_567, 59, 20_454, 20_818, 365];
    let decimals = [0, 150, -1, 999_999_999, -999_999_999, 100, 1, 1_065, 1_050, -250, 5];
    let text = ["", "a", "ab", "abc", "ab%", "b", "a_c", "\u{e9}", "10", "2026-06-04", "ba\u{10FFFF}"];
    let (micros, zone) = (|at: usize| times.get(at).copied(), ty);
    let scalar = |at: usize| match zone {
        DataType::Boolean => S::Boolean((at < 8).then_some(at.is_multiple_of(2))),
        DataType::Int32 => S::Int32(ints.get(at).copied()),
        DataType::Int64 => S::Int64(longs.get(at).copied()),
        DataType::Float64 => S::Float64(doubles.get(at).copied()),
        DataType::Date32 => S::Date32(days.get(at).copied()),
        DataType::Timestamp(_, zone) => S::TimestampMicrosecond(micros(at), zone.clone()),
        DataType::Decimal128(precision, scale) => S::Decimal128(decimals.get(at).copied(), *precision, *scale),
        DataType::Utf8View => S::Utf8View(text.get(at).map(|text| (*text).to_owned())),
        _ => S::BinaryView(text.get(at).map(|text| text.as_bytes().to_vec())),
    };
    S::iter_to_array((0..ROWS).map(scalar)).unwrap()
}

impl Table {
    fn new() -> Table {
        let schema: Schema = serde_json::from_str(SCHEMA).unwrap();
        let fields = SPEC.iter().enumerate().map(|(at, (source, transform))| {
            let (name, transform) = (format!("p{at}"), transform.to_string());
            serde_json::json!({"source-id": source, "field-id": 1000 + at, "name": name, "transform": transform})
        });
        let spec = serde_json::json!({"spec-id": 0, "fields": fields.collect::<Vec<_>>()});
        let spec: PartitionSpec = serde_json::from_value(spec).unwrap();
        let arrow = to_arrow(&schema).unwrap();
        let columns: Vec<ArrayRef> = arrow.fields().iter().map(|field| column(field.data_type())).collect();
        let value_of = |array: &ArrayRef, row: usize, ty: &T| {
            Value::from_scalar(&S::try_from_array(array.as_ref(), row).unwrap(), ty)
        };
        let ty = |id: i32| schema.field_by_id(id).unwrap().field_type.as_primitive_type().unwrap().clone();
        let values = (0..ROWS).map(|row| (1..).zip(&columns).map(|(id, c)| value_of(c, row, &ty(id))).collect());
        let stored: Vec<(ArrayRef, T)> =
            SPEC.iter().map(|(source, transform)| partition(*transform, &columns, *source, &ty(*source))).collect();
        let partitions = (0..ROWS).map(|row| stored.iter().map(|(array, ty)| value_of(array, row, ty)).collect());
        let (values, partitions) = (values.collect(), partitions.collect());
        let rows = RecordBatch::try_new(Arc::clone(&arrow), columns).unwrap();
        Table { arrow, schema, spec, rows, values, partitions }
    }

    /// What must hold of any filter.
    fn check(&self, filter: &Arc<dyn PhysicalExpr>) {
        let converted = convert(filter, &self.arrow, &self.schema);
        let inclusive = project(&converted.predicate, &self.spec, &self.schema);
        let strict = project_strict(&converted.proof, &self.spec, &self.schema);
        let (mut any, mut all) = (false, true);
        for (row, truth) in self.truths(filter).into_iter().enumerate() {
            let value = |field: i32| self.values[row][place(field - 1)].clone();
            let alone = |field: i32| facts_of(&[value(field)], field == 4);
            let tuple = |field: i32| facts_of(&[self.partitions[row][place(field - 1000)].clone()], false);
            let held = converted.predicate.holds(&value) == Some(true);
            match truth {
                Some(true) => {
                    any = true;
                    assert!(held, "row {row} is lost: {filter} as {:?}", converted.predicate);
                    assert!(converted.predicate.may_match(&alone), "row {row} is lost by its facts: {filter}");
                    assert!(
                        inclusive.may_match(&tuple),
                        "row {row} is lost by its partition: {filter} as {inclusive:?}"
                    );
                }
                Some(false) => {
                    all = false;
                    assert!(!held || !converted.exact, "row {row}, not exact: {filter} as {:?}", converted.predicate);
                    let proven = converted.proof.holds(&value) == Some(true);
                    assert!(!proven, "row {row}, proven and not true: {filter} as {:?}", converted.proof);
                    assert!(!strict.must_match(&tuple), "row {row}, proven by its partition: {filter} as {strict:?}");
                }
                // The row fails the query. Whether it is skipped before it does is nobody's promise.
                None => {}
            }
        }
        let column = |field: i32| {
            let values: Vec<_> = self.values.iter().map(|row| row[place(field - 1)].clone()).collect();
            facts_of(&values, field == 4)
        };
        assert!(!any || converted.predicate.may_match(&column), "the file is lost: {filter}");
        assert!(all || !converted.proof.must_match(&column), "the file is proven: {filter}");
    }

    /// The engine's truth for each row (unknown is not true); `None` where the engine fails.
    fn truths(&self, filter: &Arc<dyn PhysicalExpr>) -> Vec<Option<bool>> {
        if let Some(all) = truths(filter, &self.rows) {
            return all.into_iter().map(Some).collect();
        }
        (0..ROWS).map(|row| truths(filter, &self.rows.slice(row, 1)).and_then(|one| one.first().copied())).collect()
    }
}

fn truths(filter: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Option<Vec<bool>> {
    // A batch of its own: kernels see all of an array, sliced or not.
    let rows = concat_batches(&rows.schema(), [rows]).ok()?;
    let array = filter.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows())).ok()?;
    let array = array.as_any().downcast_ref::<BooleanArray>()?;
    Some((0..array.len()).map(|row| array.is_valid(row) && array.value(row)).collect())
}

fn place(at: i32) -> usize {
    usize::try_from(at).unwrap()
}

/// Exact facts of a column's values, as a writer that follows the specification computes them.
fn facts_of(values: &[Option<Value>], float: bool) -> Facts {
    let numbers = || values.iter().flatten().filter(|value| !value.is_nan());
    let (rows, known) = (values.len() as u64, values.iter().flatten().count() as u64);
    Facts {
        lower: numbers().min().cloned(),
        upper: numbers().max().cloned(),
        nulls: Some(rows - known),
        nans: Some(known - numbers().count() as u64),
        rows: Some(rows),
        float,
    }
}

/// The values that a column's rows are filed under, and their type.
fn partition(transform: Transform, columns: &[ArrayRef], source: i32, ty: &T) -> (ArrayRef, T) {
    let result = transform.result_type(&ty.clone().into()).unwrap();
    let column = &columns[place(source - 1)];
    let stored = if *ty == T::String { cast(column, &DataType::Utf8).unwrap() } else { Arc::clone(column) };
    let filed = create_transform_function(&transform).unwrap().transform(stored).unwrap();
    (filed, result.as_primitive_type().unwrap().clone())
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
                self.0.check(&filter);
            }
        }
        let schema = match projection {
            Some(projection) => Arc::new(self.0.arrow.project(projection)?),
            None => Arc::clone(&self.0.arrow),
        };
        Ok(Arc::new(EmptyExec::new(schema)))
    }
}
