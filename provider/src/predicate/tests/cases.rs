//! What becomes of filters that people write, and of those that went wrong elsewhere.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, Literal, NotExpr, lit};
use datafusion::scalar::ScalarValue as S;

use super::super::{Predicate, convert, convert_conjuncts};
use super::engine;
use super::support::{Table, field_of};

/// The predicate as text, with `~` where it isn't exact, checked against the engine on the way.
fn shown(table: &Table, filter: &Arc<dyn PhysicalExpr>) -> String {
    engine::check(table, filter, &table.rows.iter().collect::<Vec<_>>()).unwrap();
    let converted = convert(filter, &table.arrow, &table.schema);
    let name = |field: i32| {
        let name = table.schema.field_by_id(field).unwrap().name.clone();
        (name, Some(table.types[&field].clone()))
    };
    format!("{}{}", if converted.exact { "" } else { "~ " }, converted.predicate.display(&name))
}

#[test]
fn sql() {
    let table = Table::new();
    let mut wrong = Vec::new();
    for (sql, expected) in [
        ("i < 2.5", "i <= 2"),
        ("i > 2.5", "i >= 3"),
        ("i = 2.5", "false"),
        ("i <> 2.5", "i IS NOT NULL"),
        ("l < 2147483648", "l < 2147483648"),
        ("i < 2147483648", "i IS NOT NULL"),
        ("i >= 2147483648", "false"),
        ("f < 1e300", "f <= 3.4028235e38"),
        ("f = 1.5", "f = 1.5"),
        ("x > 5", "x > 5.0"),
        ("x BETWEEN 1 AND 2", "x >= 1.0 AND x <= 2.0"),
        ("d < timestamp '2024-01-02 12:00:00'", "d >= 1677-09-22 AND d <= 2024-01-02"),
        ("cast(x as real) = 1", "x >= 0.9999999701976776 AND x <= 1.0000000596046448"),
        ("cast(s as int) = 5", "~ true"),
        ("cast(x as int) = 2", "x >= 2.0 AND x <= 2.9999999999999996"),
        ("m < 10.6", "m < 10.60"),
        ("i not in (1, 2)", "i <> 1 AND i <> 2"),
        ("i not in (1, 2, 3, 4)", "i NOT IN (1, 2, 3, 4)"),
        ("i not in (1, null)", "false"),
        ("i in (1, null)", "i = 1"),
        ("i is distinct from 1", "i <> 1 OR i IS NULL"),
        ("i is not distinct from 1", "i = 1"),
        ("i is not distinct from null", "i IS NULL"),
        ("not (i >= 10)", "i < 10"),
        ("not (i = 1 or s is null)", "i <> 1 AND s IS NOT NULL"),
        ("b", "b = true"),
        ("not b", "b = false"),
        ("b is not true", "b <> true OR b IS NULL"),
        ("isnan(x)", "x < -inf OR x > inf"),
        ("not isnan(x)", "x >= -inf AND x <= inf"),
        ("s like 'abc%'", "s >= 'abc' AND s < 'abd'"),
        ("s not like 'abc%'", "s < 'abc' OR s >= 'abd'"),
        ("s like 'ab%c'", "~ s >= 'ab' AND s < 'ac'"),
        ("s not like 'ab%c'", "~ s IS NOT NULL"),
        ("s ilike 'ab%'", "~ s IS NOT NULL"),
        ("s like '\u{D7FF}%'", "s >= '\u{D7FF}' AND s < '\u{E000}'"),
        ("s like 'a\u{10FFFF}%'", "s >= 'a\u{10FFFF}' AND s < 'b'"),
        ("s like '\u{10FFFF}%'", "s >= '\u{10FFFF}'"),
        ("starts_with(s, 'a%')", "s >= 'a%' AND s < 'a&'"),
        ("ts = '1969-12-31T23:59:59.999999'", "ts = 1969-12-31T23:59:59.999999"),
        ("cast(ts as date) = date '2026-06-04'", "ts >= 2026-06-04T00:00:00 AND ts <= 2026-06-04T23:59:59.999999"),
        ("tz >= '2024-01-02T00:00:00Z'", "tz >= 2024-01-02T00:00:00+00:00"),
        ("length(s) > 3 and i > 1", "~ i > 1"),
        ("length(s) > 3 or i > 1", "~ true"),
        ("i > 1 and i < 0 and false", "false"),
        ("i = l", "~ true"),
        ("-i < 5", "i = -2147483648 OR i >= -4"),
        ("-x < 5", "x >= -4.999999999999999"),
        ("-f < cast('-inf' as real)", "f > inf"),
        ("-f > cast('inf' as real)", "f < -inf"),
        ("cast(f as double) > 1.5", "f >= 1.5000001"),
        ("try_cast(-l as smallint) is not null", "l >= -32767 AND l <= 32768"),
    ] {
        let text = shown(&table, &table.filter(sql));
        if text != expected {
            wrong.push(format!("{sql}: {text}, not {expected}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// A comparison that the engine itself would not evaluate (the types differ), with the constant at its exact place.
fn mixed(table: &Table, column: &str, op: Operator, constant: S) -> String {
    let filter: Arc<dyn PhysicalExpr> =
        Arc::new(BinaryExpr::new(table.column(column), op, Arc::new(Literal::new(constant))));
    let converted = convert(&filter, &table.arrow, &table.schema);
    let name = |field: i32| (column.to_owned(), Some(table.types[&field].clone()));
    format!("{}{}", if converted.exact { "" } else { "~ " }, converted.predicate.display(&name))
}

#[test]
fn constants_of_other_units() {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let table = Table::new();
    let ns = |x| S::TimestampNanosecond(Some(x), None);
    let check = |column, op, constant, expected| assert_eq!(mixed(&table, column, op, constant), expected);
    // Between two ticks.
    check("ts", Lt, ns(1_500), "ts <= 1970-01-01T00:00:00.000001");
    check("ts", LtEq, ns(1_500), "ts <= 1970-01-01T00:00:00.000001");
    check("ts", Gt, ns(1_500), "ts > 1970-01-01T00:00:00.000001");
    check("ts", GtEq, ns(1_500), "ts > 1970-01-01T00:00:00.000001");
    check("ts", Eq, ns(1_500), "false");
    check("ts", NotEq, ns(1_500), "ts IS NOT NULL");
    check("ts", Lt, ns(-1), "ts <= 1969-12-31T23:59:59.999999");
    check("ts", Lt, ns(2_000), "ts < 1970-01-01T00:00:00.000002");
    // Coarser units, with and without zone.
    check("ts", Lt, S::TimestampSecond(Some(1), None), "ts < 1970-01-01T00:00:01");
    check("tz", GtEq, S::TimestampMillisecond(Some(1), None), "tz >= 1970-01-01T00:00:00.001+00:00");
    check("ts", Eq, S::Date32(Some(1)), "ts = 1970-01-02T00:00:00");
    check("n", Eq, S::TimestampMicrosecond(Some(1), None), "n = 1970-01-01T00:00:00.000001");
    // Out of the column's range.
    check("n", Lt, S::TimestampMicrosecond(Some(i64::MAX), None), "n IS NOT NULL");
    check("n", Gt, S::TimestampSecond(Some(i64::MAX), None), "false");
    check("n", NotEq, S::TimestampSecond(Some(i64::MIN), None), "n IS NOT NULL");
    check("n", Eq, S::TimestampSecond(Some(i64::MIN), None), "false");
    check("d", Lt, S::TimestampSecond(Some(43_200), None), "d <= 1970-01-01");
    check("d", GtEq, S::TimestampSecond(Some(-1), None), "d > 1969-12-31");
    check("d", LtEq, S::Date64(Some(-86_400_001)), "d <= 1969-12-30");
    check("t", Gt, S::Time64Nanosecond(Some(1_500)), "t > 00:00:00.000001");
    check("t", Lt, S::Time32Second(Some(60)), "t < 00:01:00");
    // Numbers.
    check("i", LtEq, S::UInt64(Some(u64::MAX)), "i IS NOT NULL");
    check("i", Gt, S::Int64(Some(i64::MIN)), "i IS NOT NULL");
    check("i", GtEq, S::Int64(Some(i64::from(i32::MIN))), "i IS NOT NULL");
    check("i", Lt, S::Int64(Some(i64::from(i32::MIN))), "false");
    check("i", LtEq, S::Int64(Some(i64::from(i32::MAX))), "i IS NOT NULL");
    check("i", Gt, S::Int64(Some(i64::from(i32::MAX))), "false");
    check("i", Lt, S::Decimal128(Some(25), 9, 1), "i <= 2");
    check("i", GtEq, S::Decimal128(Some(-25), 9, 1), "i > -3");
    check("i", Lt, S::Float64(Some(-2.5)), "i <= -3");
    check("i", Lt, S::Float64(Some(f64::NAN)), "i IS NOT NULL");
    check("i", Gt, S::Float64(Some(f64::INFINITY)), "false");
    check("l", Eq, S::Float64(Some(f64::NEG_INFINITY)), "false");
    check("l", GtEq, S::Float64(Some(9_223_372_036_854_775_808.0)), "false");
    check("m", Lt, S::Decimal128(Some(10_655), 9, 3), "m <= 10.65");
    check("m", Eq, S::Int64(Some(3)), "m = 3.00");
    check("w", Lt, S::Decimal128(Some(10_i128.pow(38) - 1), 38, 0), "w IS NOT NULL");
    check("f", Eq, S::Float64(Some(1.1)), "f = 1.1");
    // Kinds that don't compare.
    check("x", Eq, S::Int64(Some(0)), "~ true");
    check("m", Lt, S::Float64(Some(1.0)), "~ true");
    check("s", Eq, S::Int64(Some(0)), "~ true");
    check("i", Eq, S::TimestampSecond(Some(0), None), "~ true");
    // Layouts of text and bytes.
    let dictionary =
        |x: &str| S::Dictionary(Box::new(arrow::datatypes::DataType::Int32), Box::new(S::Utf8(Some(x.into()))));
    check("s", Eq, S::LargeUtf8(Some("a".into())), "s = 'a'");
    check("s", Eq, dictionary("a"), "s = 'a'");
    check("y", Eq, S::FixedSizeBinary(1, Some(vec![1])), "y = X'01'");
}

/// What a join or TopK has found so far is used; what would be its negation is not.
#[test]
fn moving_filters() {
    let table = Table::new();
    let column = table.column("i");
    let moving = Arc::new(DynamicFilterPhysicalExpr::new(vec![column], lit(true)));
    let filter: Arc<dyn PhysicalExpr> = Arc::clone(&moving) as Arc<dyn PhysicalExpr>;
    assert_eq!(shown(&table, &filter), "~ true");
    moving.update(table.filter("i >= 3")).unwrap();
    assert_eq!(shown(&table, &filter), "~ i >= 3");
    let negated: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(filter));
    assert_eq!(shown(&table, &negated), "~ true");
}

/// A join's filters of all partitions, wrapped in a CASE.
#[test]
fn results_of_a_case() {
    let table = Table::new();
    let case = table.filter("case when l % 3 = 0 then i > 5 when l % 3 = 1 then i < 0 else false end");
    assert_eq!(shown(&table, &case), "~ i > 5 OR i < 0");
}

/// Each conjunct is claimed by itself, with the reason why it isn't used whole.
#[test]
fn claims() {
    let table = Table::new();
    let filters =
        [table.filter("i > 1 and length(s) = 2 and ts < timestamp '2024-01-01'"), table.filter("s like 'a_'")];
    let claims = convert_conjuncts(&filters, &table.arrow, &table.schema);
    let told: Vec<_> = claims.iter().map(|c| (c.exact, c.reason, c.predicate == Predicate::True)).collect();
    assert_eq!(
        told,
        [
            (true, None, false),
            (false, Some("a function of a column"), true),
            (true, None, false),
            (false, Some("a pattern that is more than a beginning"), false),
        ]
    );
    assert_eq!(claims[0].text, "i > 1");
}

/// Columns without a field id, or with one that the schema doesn't have, say nothing.
#[test]
fn unknown_columns() {
    let table = Table::new();
    let filter = table.filter("i > 1 and i is not null");
    let bare: Vec<_> =
        table.arrow.fields().iter().map(|f| f.as_ref().clone().with_metadata(Default::default())).collect();
    let converted = convert(&filter, &arrow::datatypes::Schema::new(bare), &table.schema);
    assert_eq!((converted.predicate, converted.exact), (Predicate::True, false));
    let empty = iceberg::spec::Schema::builder().build().unwrap();
    let converted = convert(&filter, &table.arrow, &empty);
    assert_eq!((converted.predicate, converted.exact), (Predicate::True, false));
    assert_eq!(field_of("i"), 2);
}
