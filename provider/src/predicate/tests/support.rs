//! One table with a column of each type, rows of the values that go wrong, and the engine to ask.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue as S;
use iceberg::spec::{NestedField, PartitionSpec, PrimitiveType as T, Schema, Transform, Type};

use proptest::test_runner::Config as ProptestConfig;

use super::super::{Facts, Value};

/// Name, Iceberg type, Arrow type and values of each column; a column's field id is its place plus one. Null is added.
pub(super) fn columns() -> Vec<(&'static str, T, DataType, Vec<S>)> {
    let day = 86_400_000_000_i64;
    let micros = [
        0,
        -1,
        1,
        -day,
        day,
        day - 1,
        43_200_000_000,
        -43_200_000_001,
        -310_521_600_000_000,
        1_780_531_200_000_000,
        1_780_574_400_000_001,
        253_402_300_800_000_000,
        -62_135_596_800_000_000,
        i64::MAX,
        i64::MIN,
    ];
    let nanos = [0, -1, 1, 999, 1_000, -1_000, -86_400_000_000_000, 1_780_531_200_000_000_500, i64::MAX, i64::MIN];
    let utc: Option<Arc<str>> = Some("+00:00".into());
    let text = [
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "ab%",
        "ab_c",
        "ac",
        "b",
        "ba\u{10FFFF}",
        "bb",
        "\u{D7FF}x",
        "\u{E000}",
        "é",
        "z'z",
    ];
    let text = text.map(|s| S::Utf8View(Some(s.into())));
    let uuid = |x: u128| S::FixedSizeBinary(16, Some(x.to_be_bytes().to_vec()));
    let f32s = [0.0, -0.0, 1.0, 1.5, -2.5, 5.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    let f64s = [
        0.0,
        -0.0,
        1.0,
        1.000_000_01,
        2.5,
        -2.5,
        5.0,
        1e300,
        4_294_967_296.5,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
    ];
    let longs = [0, -1, 1, 2, 3, 10, (1 << 53) + 1, i64::from(i32::MAX) + 1, i64::MAX - 1, i64::MAX, i64::MIN];
    vec![
        ("b", T::Boolean, DataType::Boolean, [true, false].map(|x| S::Boolean(Some(x))).to_vec()),
        ("i", T::Int, DataType::Int32, [0, -1, 1, 2, 3, 7, i32::MAX, i32::MIN].map(|x| S::Int32(Some(x))).to_vec()),
        ("l", T::Long, DataType::Int64, longs.map(|x| S::Int64(Some(x))).to_vec()),
        ("f", T::Float, DataType::Float32, f32s.map(|x| S::Float32(Some(x))).to_vec()),
        ("x", T::Double, DataType::Float64, f64s.map(|x| S::Float64(Some(x))).to_vec()),
        (
            "d",
            T::Date,
            DataType::Date32,
            [0, -1, 1, 19_723, 20_608, -3_595, 200_000, -800_000, i32::MAX, i32::MIN]
                .map(|x| S::Date32(Some(x)))
                .to_vec(),
        ),
        (
            "ts",
            T::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, None),
            micros.map(|x| S::TimestampMicrosecond(Some(x), None)).to_vec(),
        ),
        (
            "tz",
            T::Timestamptz,
            DataType::Timestamp(TimeUnit::Microsecond, utc.clone()),
            micros.map(|x| S::TimestampMicrosecond(Some(x), utc.clone())).to_vec(),
        ),
        (
            "n",
            T::TimestampNs,
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            nanos.map(|x| S::TimestampNanosecond(Some(x), None)).to_vec(),
        ),
        (
            "nz",
            T::TimestamptzNs,
            DataType::Timestamp(TimeUnit::Nanosecond, utc.clone()),
            nanos.map(|x| S::TimestampNanosecond(Some(x), utc.clone())).to_vec(),
        ),
        (
            "t",
            T::Time,
            DataType::Time64(TimeUnit::Microsecond),
            [0, 1, 43_200_000_000, 86_399_999_999].map(|x| S::Time64Microsecond(Some(x))).to_vec(),
        ),
        (
            "m",
            T::Decimal { precision: 9, scale: 2 },
            DataType::Decimal128(9, 2),
            [0, 1065, 1050, -1, 1049, -250, 999_999_999].map(|x| S::Decimal128(Some(x), 9, 2)).to_vec(),
        ),
        (
            "w",
            T::Decimal { precision: 38, scale: 10 },
            DataType::Decimal128(38, 10),
            [0, 10_650_000_000, 5, -5, 10_i128.pow(38) - 1, 1 - 10_i128.pow(38)]
                .map(|x| S::Decimal128(Some(x), 38, 10))
                .to_vec(),
        ),
        ("s", T::String, DataType::Utf8View, text.to_vec()),
        (
            "y",
            T::Binary,
            DataType::BinaryView,
            [&[][..], &[0], &[0x7f], &[0x80], &[0xff, 0]].map(|x| S::BinaryView(Some(x.to_vec()))).to_vec(),
        ),
        ("u", T::Uuid, DataType::FixedSizeBinary(16), [0, 1, u128::MAX / 2, u128::MAX].map(uuid).to_vec()),
    ]
}

/// A failure is reproduced by its printed input, and becomes an example: no file of seeds is kept.
pub(super) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(super) fn field_of(name: &str) -> i32 {
    let place = columns().iter().position(|c| c.0 == name).expect("a column of the table");
    i32::try_from(place).unwrap() + 1
}

pub(super) struct Table {
    pub(super) arrow: Arc<ArrowSchema>,
    pub(super) schema: Arc<Schema>,
    pub(super) types: HashMap<i32, T>,
    /// One row each.
    pub(super) rows: Vec<RecordBatch>,
    names: DFSchema,
    session: SessionContext,
}

impl Table {
    /// Rows that cycle through the values of all columns, with nulls in between.
    pub(super) fn new() -> Table {
        let columns = columns();
        let mut arrow_fields = Vec::new();
        let mut fields = Vec::new();
        let mut types = HashMap::new();
        for (id, (name, ty, arrow, _)) in (1..).zip(&columns) {
            let metadata = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
            arrow_fields.push(Field::new(*name, arrow.clone(), true).with_metadata(metadata));
            fields.push(NestedField::optional(id, *name, Type::Primitive(ty.clone())).into());
            types.insert(id, ty.clone());
        }
        let arrow = Arc::new(ArrowSchema::new(arrow_fields));
        let schema = Arc::new(Schema::builder().with_fields(fields).build().unwrap());
        let longest = columns.iter().map(|c| c.3.len()).max().unwrap() + 1;
        let rows = (0..longest * 2)
            .map(|i| {
                let cells = columns.iter().enumerate().map(|(c, (_, _, ty, values))| {
                    // Columns are out of step with each other.
                    let cell = values.get((i + c * i / longest) % (values.len() + 1)).cloned();
                    cell.unwrap_or_else(|| S::try_from(ty).unwrap()).to_array().unwrap()
                });
                RecordBatch::try_new(Arc::clone(&arrow), cells.collect()).unwrap()
            })
            .collect();
        let names = DFSchema::try_from(Arc::clone(&arrow)).unwrap();
        Table { arrow, schema, types, rows, names, session: SessionContext::new() }
    }

    pub(super) fn session(&self) -> &SessionContext {
        &self.session
    }

    /// The row with its dates and timestamps at a time (those of nanoseconds only where it fits).
    pub(super) fn with_time(&self, row: &RecordBatch, micros: i64) -> RecordBatch {
        let utc: Option<Arc<str>> = Some("+00:00".into());
        let nanos = micros.checked_mul(1_000);
        let cells = self.arrow.fields().iter().zip(row.columns()).map(|(field, cell)| {
            let value = match field.name().as_str() {
                "ts" => S::TimestampMicrosecond(Some(micros), None),
                "tz" => S::TimestampMicrosecond(Some(micros), utc.clone()),
                "n" => S::TimestampNanosecond(nanos, None),
                "nz" => S::TimestampNanosecond(nanos, utc.clone()),
                "d" => S::Date32(i32::try_from(micros.div_euclid(86_400_000_000)).ok()),
                _ => return Arc::clone(cell),
            };
            value.to_array().unwrap()
        });
        RecordBatch::try_new(Arc::clone(&self.arrow), cells.collect()).unwrap()
    }

    /// The filter as the engine hands it over.
    pub(super) fn filter(&self, sql: &str) -> Arc<dyn PhysicalExpr> {
        self.try_filter(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The same of a filter that the engine may refuse.
    pub(super) fn try_filter(&self, sql: &str) -> datafusion::error::Result<Arc<dyn PhysicalExpr>> {
        let expr = self.session.parse_sql_expr(sql, &self.names)?;
        let context = SimplifyContext::default().with_schema(Arc::new(self.names.clone()));
        let simplifier = ExprSimplifier::new(context);
        let expr = simplifier.simplify(simplifier.coerce(expr, &self.names)?)?;
        self.session.create_physical_expr(expr, &self.names)
    }

    pub(super) fn column(&self, name: &str) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new_with_schema(name, &self.arrow).unwrap())
    }

    /// A row's value, as Iceberg holds it.
    pub(super) fn value(&self, row: &RecordBatch, field: i32) -> Option<Value> {
        let place = usize::try_from(field - 1).unwrap();
        let scalar = S::try_from_array(row.column(place), 0).unwrap();
        let value = Value::from_scalar(&scalar, &self.types[&field]);
        assert_eq!(value.is_none(), scalar.is_null());
        value
    }

    /// Exact facts of the rows.
    pub(super) fn facts(&self, rows: &[&RecordBatch], field: i32) -> Facts {
        let values: Vec<_> = rows.iter().map(|row| self.value(row, field)).collect();
        facts_of(&values, matches!(self.types[&field], T::Float | T::Double))
    }
}

/// A spec as metadata may hold it: builders refuse several time transforms of one column, evolved tables have them.
pub(super) fn spec_of(fields: &[(i32, Transform)]) -> PartitionSpec {
    let fields: Vec<_> = (0..)
        .zip(fields)
        .map(|(i, (source, transform))| {
            let transform = transform.to_string();
            serde_json::json!({ "source-id": source, "field-id": 1000 + i, "name": format!("p{i}"), "transform": transform })
        })
        .collect();
    serde_json::from_value(serde_json::json!({ "spec-id": 0, "fields": fields })).unwrap()
}

/// Exact facts of a column's values, as a writer that follows the specification computes them.
pub(super) fn facts_of(values: &[Option<Value>], float: bool) -> Facts {
    let numbers = || values.iter().flatten().filter(|v| !v.is_nan());
    let count = |n: usize| Some(u64::try_from(n).unwrap());
    Facts {
        lower: numbers().min().cloned(),
        upper: numbers().max().cloned(),
        nulls: count(values.iter().filter(|v| v.is_none()).count()),
        nans: count(values.iter().flatten().filter(|v| v.is_nan()).count()),
        rows: count(values.len()),
        float,
    }
}

/// The engine's truth of a filter for a row: unknown is `Ok(None)`, a failure `Err`.
pub(super) fn truth(filter: &Arc<dyn PhysicalExpr>, row: &RecordBatch) -> Result<Option<bool>, String> {
    let array: ArrayRef = filter.evaluate(row).and_then(|v| v.into_array(1)).map_err(|e| e.to_string())?;
    let array = array.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| "no boolean".to_owned())?;
    Ok(if array.is_null(0) { None } else { Some(array.value(0)) })
}
