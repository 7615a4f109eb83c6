//! Does the predicate say what the engine says?

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue as S;
use iceberg::spec::{Literal as IcebergLiteral, PartitionSpec, PrimitiveLiteral, Transform};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::{Conversion, Facts, Predicate, Value, convert, facts_of_partition, project, project_strict};
use super::partitions::naive_partition;
use super::support::{Table, cases, columns, field_of, spec_of, truth};

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// What must hold of any filter, for the given rows as one file.
pub(super) fn check(table: &Table, filter: &Arc<dyn PhysicalExpr>, rows: &[&RecordBatch]) -> Result<(), TestCaseError> {
    let converted = convert(filter, &table.arrow, &table.schema);
    let predicate = &converted.predicate;
    let file = |field| table.facts(rows, field);
    let (mut any, mut all) = (false, true);
    for row in rows {
        let truth = truth(filter, row);
        let held = predicate.holds(&|field| table.value(row, field)) == Some(true);
        let alone = |field| table.facts(&[*row], field);
        match truth {
            Ok(Some(true)) => {
                any = true;
                prop_assert!(held, "lost a row: {filter} as {predicate:?} of {row:?}");
                prop_assert!(
                    predicate.may_match(&alone),
                    "lost a row by its facts: {filter} as {predicate:?} of {row:?}"
                );
            }
            Ok(_) => {
                all = false;
                prop_assert!(!held || !converted.exact, "not exact: {filter} as {predicate:?} of {row:?}");
                let proven = converted.proof.holds(&|field| table.value(row, field)) == Some(true);
                prop_assert!(!proven, "proven and not true: {filter} as {:?} of {row:?}", converted.proof);
            }
            // The row fails the query. Whether it is skipped before it does is nobody's promise.
            Err(_) => {}
        }
        prop_assert!(held || !predicate.must_match(&alone), "must match and doesn't: {predicate:?} of {row:?}");
    }
    prop_assert!(!any || predicate.may_match(&file), "lost a file: {filter} as {predicate:?}");
    prop_assert!(
        all || !converted.exact || !predicate.must_match(&file),
        "must match and doesn't: {filter} as {predicate:?}"
    );
    Ok(())
}

/// The same through the partitions of a spec: each row lies in the partition of its own values.
fn check_partitions(filter: &Arc<dyn PhysicalExpr>, spec: &PartitionSpec) -> Result<(), TestCaseError> {
    let table = &*TABLE;
    let converted = convert(filter, &table.arrow, &table.schema);
    let inclusive = project(&converted.predicate, spec, &table.schema);
    let strict = project_strict(&converted.predicate, spec, &table.schema);
    for row in &table.rows {
        let held = converted.predicate.holds(&|field| table.value(row, field)) == Some(true);
        let truth = truth(filter, row);
        let (matches, fails) = (truth == Ok(Some(true)), truth.is_err());
        let proof = project_strict(&converted.proof, spec, &table.schema);
        let facts = |partition_field: i32| partition_facts(table, spec, row, partition_field);
        prop_assert!(!matches || inclusive.may_match(&facts), "lost a partition: {filter} as {inclusive:?} of {row:?}");
        prop_assert!(held || !strict.must_match(&facts), "not strict: {filter} as {strict:?} of {row:?}");
        let proven = proof.must_match(&facts);
        prop_assert!(matches || fails || !proven, "proven and not true: {filter} as {proof:?} of {row:?}");
    }
    Ok(())
}

fn partition_facts(table: &Table, spec: &PartitionSpec, row: &RecordBatch, partition_field: i32) -> Facts {
    let field = spec.fields().iter().find(|f| f.field_id == partition_field).expect("a field of the spec");
    let source = &table.types[&field.source_id];
    let ty = field.transform.result_type(&source.clone().into()).unwrap();
    let ty = ty.as_primitive_type().unwrap();
    let Some(value) = table.value(row, field.source_id) else { return facts_of_partition(None, ty) };
    if field.transform == Transform::Identity {
        let literal = IcebergLiteral::Primitive(primitive(&value, ty));
        return facts_of_partition(Some(&literal), ty);
    }
    if let Some(written) = super::transforms::written(field.transform, source, &value) {
        return facts_of_partition(Some(&IcebergLiteral::Primitive(written)), ty);
    }
    let Some(ordinal) = naive_partition(field.transform, source, &value, false) else { return Facts::default() };
    let Ok(ordinal) = i32::try_from(ordinal) else { return Facts::default() };
    facts_of_partition(Some(&IcebergLiteral::Primitive(PrimitiveLiteral::Int(ordinal))), ty)
}

fn primitive(value: &Value, ty: &iceberg::spec::PrimitiveType) -> PrimitiveLiteral {
    use iceberg::spec::PrimitiveType as T;
    match (value, ty) {
        (Value::Bool(x), _) => PrimitiveLiteral::Boolean(*x),
        (Value::Long(x), T::Int | T::Date) => PrimitiveLiteral::Int(i32::try_from(*x).unwrap()),
        (Value::Long(x), _) => PrimitiveLiteral::Long(*x),
        (Value::Double(x), T::Float) => PrimitiveLiteral::Float((*x as f32).into()),
        (Value::Double(x), _) => PrimitiveLiteral::Double((*x).into()),
        (Value::Decimal(x), _) => PrimitiveLiteral::Int128(*x),
        (Value::String(x), _) => PrimitiveLiteral::String(x.clone()),
        (Value::Bytes(x), T::Uuid) => PrimitiveLiteral::UInt128(u128::from_be_bytes(x.as_slice().try_into().unwrap())),
        (Value::Bytes(x), _) => PrimitiveLiteral::Binary(x.clone()),
    }
}

/// Types to convert a column to, those that keep its order and those that don't.
fn targets() -> Vec<DataType> {
    use DataType as A;
    let micros = TimeUnit::Microsecond;
    vec![
        A::Int16,
        A::Int32,
        A::Int64,
        A::Float32,
        A::Float64,
        A::Decimal128(9, 2),
        A::Decimal128(12, 4),
        A::Decimal128(20, 0),
        A::Decimal128(38, 12),
        A::Date32,
        A::Timestamp(TimeUnit::Second, None),
        A::Timestamp(TimeUnit::Millisecond, None),
        A::Timestamp(micros, None),
        A::Timestamp(micros, Some("+00:00".into())),
        A::Timestamp(micros, Some("UTC".into())),
        A::Timestamp(micros, Some("+09:30".into())),
        A::Timestamp(TimeUnit::Nanosecond, None),
        A::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
        A::Time64(TimeUnit::Nanosecond),
        A::Boolean,
        A::Utf8,
        A::LargeUtf8,
        A::Utf8View,
        A::Binary,
    ]
}

/// A comparison's two sides before the constant is known: an expression over one column, and constants of its type.
fn arb_operand() -> impl Strategy<Value = (Arc<dyn PhysicalExpr>, Vec<S>)> {
    let column = select(columns());
    let conversion = proptest::option::weighted(0.5, (select(targets()), 0_u8..3));
    (column, conversion, proptest::bool::weighted(0.1)).prop_map(|((name, _, ty, values), conversion, negative)| {
        let mut operand = TABLE.column(name);
        let mut values = values;
        if negative && ty.is_numeric() {
            operand = Arc::new(NegativeExpr::new(operand));
        }
        if let Some((to, soft)) = conversion
            && arrow::compute::can_cast_types(&ty, &to)
        {
            values = values.iter().filter_map(|v| v.cast_to(&to).ok()).filter(|v| !v.is_null()).collect();
            values.extend(extra(&to));
            operand = match soft {
                0 => Arc::new(CastExpr::new(operand, to, None)),
                1 => Arc::new(TryCastExpr::new(operand, to)),
                _ => {
                    let kept = Arc::new(ScalarUDF::new_from_impl(Conversion::new(to, name < "n")));
                    let config = Arc::new(ConfigOptions::default());
                    Arc::new(ScalarFunctionExpr::try_new(kept, vec![operand], &TABLE.arrow, config).unwrap())
                }
            };
        }
        (operand, values)
    })
}

/// Constants between the values that the columns have.
fn extra(ty: &DataType) -> Vec<S> {
    match ty {
        DataType::Float64 => [2.5, -0.5, 1e30].map(|x| S::Float64(Some(x))).to_vec(),
        DataType::Float32 => [2.5, -0.5].map(|x| S::Float32(Some(x))).to_vec(),
        DataType::Decimal128(p, s) => [25, -5].map(|x| S::Decimal128(Some(x), *p, *s)).to_vec(),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            [1_500, -1, 86_399_999_999_999].map(|x| S::TimestampNanosecond(Some(x), zone.clone())).to_vec()
        }
        DataType::Int64 => [4, 300].map(|x| S::Int64(Some(x))).to_vec(),
        _ => Vec::new(),
    }
}

fn arb_leaf() -> impl Strategy<Value = Arc<dyn PhysicalExpr>> {
    let comparison = (arb_operand(), select(comparisons()), any::<Index>(), any::<bool>());
    let comparison = comparison.prop_filter_map("no constant", |((operand, values), op, index, turned)| {
        let value: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(pick(&values, index)?));
        let (left, right) = if turned { (value, operand) } else { (operand, value) };
        Some(Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>)
    });
    let list = (arb_operand(), proptest::collection::vec(any::<Index>(), 1..5), any::<bool>());
    let list = list.prop_filter_map("no constant", |((operand, values), indexes, negated)| {
        let items =
            indexes.into_iter().map(|i| Some(Arc::new(Literal::new(pick(&values, i)?)) as Arc<dyn PhysicalExpr>));
        let list = InListExpr::try_new(operand, items.collect::<Option<_>>()?, negated, &TABLE.arrow).ok()?;
        Some(Arc::new(list) as Arc<dyn PhysicalExpr>)
    });
    let null = (arb_operand(), any::<bool>()).prop_map(|((operand, _), not)| {
        if not {
            Arc::new(IsNotNullExpr::new(operand)) as Arc<dyn PhysicalExpr>
        } else {
            Arc::new(IsNullExpr::new(operand))
        }
    });
    let like =
        (select(patterns()), any::<bool>(), proptest::bool::weighted(0.1)).prop_map(|(pattern, negated, fold)| {
            let pattern = Arc::new(Literal::new(S::Utf8View(pattern.map(str::to_owned))));
            Arc::new(LikeExpr::new(negated, fold, TABLE.column("s"), pattern)) as Arc<dyn PhysicalExpr>
        });
    let sql = select(vec![
        "b",
        "isnan(x)",
        "isnan(f)",
        "isnan(l)",
        "starts_with(s, 'ab')",
        "starts_with(s, '')",
        "s > 'a' || 'b'",
        "i = l",
        "length(s) = 2",
        "x + 1 > 2",
        "CASE WHEN i > 1 THEN l > 2 WHEN b THEN s = 'a' END",
        "ts > '2000-01-01' AND ts IS NOT NULL",
        "true",
        "CAST(NULL AS BOOLEAN)",
    ])
    .prop_map(|sql| TABLE.filter(sql));
    prop_oneof![6 => comparison, 2 => list, 1 => null, 2 => like, 2 => sql]
}

fn pick(values: &[S], index: Index) -> Option<S> {
    let first = values.first()?;
    let place = index.index(values.len() * 8 + 1);
    // Now and then a null.
    if place == values.len() * 8 { S::try_from(&first.data_type()).ok() } else { values.get(place / 8).cloned() }
}

fn comparisons() -> Vec<Operator> {
    use Operator as O;
    vec![O::Eq, O::NotEq, O::Lt, O::LtEq, O::Gt, O::GtEq, O::IsDistinctFrom, O::IsNotDistinctFrom]
}

fn patterns() -> Vec<Option<&'static str>> {
    let some = [
        "",
        "%",
        "%%",
        "ab",
        "ab%",
        "ab%%",
        "a%c",
        "ab_",
        "_b%",
        "ab\\%",
        "ab\\%%",
        "ab\\_c",
        "a\\b",
        "ab\\",
        "ba\u{10FFFF}%",
        "\u{10FFFF}%",
        "\u{D7FF}%",
        "%c",
        "AB%",
        "\\\\%",
    ];
    some.into_iter().map(Some).chain([None]).collect()
}

pub(super) fn arb_filter() -> impl Strategy<Value = Arc<dyn PhysicalExpr>> {
    arb_leaf().prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| Arc::new(NotExpr::new(e)) as Arc<dyn PhysicalExpr>),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(l, r, and)| {
                let op = if and { Operator::And } else { Operator::Or };
                Arc::new(BinaryExpr::new(l, op, r)) as Arc<dyn PhysicalExpr>
            }),
        ]
    })
}

fn arb_spec() -> impl Strategy<Value = PartitionSpec> {
    let transforms = vec![
        Transform::Identity,
        Transform::Year,
        Transform::Month,
        Transform::Day,
        Transform::Hour,
        Transform::Void,
        Transform::Identity,
        Transform::Day,
        Transform::Bucket(4),
        Transform::Bucket(16),
        Transform::Truncate(1),
        Transform::Truncate(2),
        Transform::Truncate(10),
    ];
    let field = (select(columns()), select(transforms));
    proptest::collection::vec(field, 1..6).prop_map(|fields| {
        let mut kept: Vec<(i32, Transform)> = Vec::new();
        for ((name, ty, ..), transform) in fields {
            if transform.result_type(&ty.into()).is_ok() {
                kept.push((field_of(name), transform));
            }
        }
        spec_of(&kept)
    })
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// If a row matches the filter, it matches the predicate, and may match by its facts and by its file's facts.
    #[test]
    fn no_row_is_lost(filter in arb_filter(), rows in proptest::collection::vec(any::<Index>(), 1..6)) {
        let table = &*TABLE;
        let all: Vec<_> = table.rows.iter().collect();
        check(table, &filter, &all)?;
        let some: Vec<_> = rows.iter().map(|i| i.get(&table.rows)).collect();
        check(table, &filter, &some)?;
    }

    /// If a row matches the filter, its partition may match the projection; if the partition must match the strict
    /// projection, the row matches.
    #[test]
    fn no_partition_is_lost(filter in arb_filter(), spec in arb_spec()) {
        check_partitions(&filter, &spec)?;
    }
}

/// Each comparison of each column with each of its values: nothing is left to chance, and all of it is exact.
#[test]
fn plain_comparisons_are_exact() {
    let table = &*TABLE;
    let rows: Vec<_> = table.rows.iter().collect();
    for (name, _, _, values) in columns() {
        for value in &values {
            for op in comparisons() {
                for negated in [false, true] {
                    let constant = Arc::new(Literal::new(value.clone()));
                    let mut filter: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(table.column(name), op, constant));
                    if negated {
                        filter = Arc::new(NotExpr::new(filter));
                    }
                    check(table, &filter, &rows).unwrap();
                    let converted = convert(&filter, &table.arrow, &table.schema);
                    assert!(converted.exact, "{filter}");
                    assert_ne!(converted.predicate, Predicate::True, "{filter}");
                }
            }
        }
    }
}
