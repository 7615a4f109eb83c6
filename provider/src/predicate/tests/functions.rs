//! Does a filter over a function of a column lose no row, and is what it proves true?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use chrono::NaiveDateTime;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::scalar::ScalarValue as S;
use iceberg::spec::{PrimitiveLiteral, PrimitiveType as T, Transform};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{TransformFunction, Value, convert};
use super::partitions::naive_partition;
use super::support::{Table, cases, truth};
use super::transforms::written;

/// A table whose session knows the transforms, computed by the tests' own oracle.
fn table() -> Table {
    let table = Table::new();
    for function in TransformFunction::all(apply) {
        table.session().register_udf(ScalarUDF::new_from_impl(function));
    }
    table
}

pub(super) static TABLE: LazyLock<Table> = LazyLock::new(table);

fn apply(transform: &Transform, array: &ArrayRef) -> datafusion::error::Result<ArrayRef> {
    use arrow::datatypes::{DataType as A, TimeUnit as U};
    let source = match array.data_type() {
        A::Int32 => T::Int,
        A::Int64 => T::Long,
        A::Date32 => T::Date,
        A::Timestamp(U::Microsecond, None) => T::Timestamp,
        A::Timestamp(U::Microsecond, _) => T::Timestamptz,
        A::Timestamp(_, None) => T::TimestampNs,
        A::Timestamp(_, _) => T::TimestamptzNs,
        A::Decimal128(p, s) => T::Decimal { precision: u32::from(*p), scale: u32::try_from(*s).unwrap() },
        A::Utf8 => T::String,
        A::Binary => T::Binary,
        A::FixedSizeBinary(_) => T::Uuid,
        A::Time64(_) => T::Time,
        other => panic!("{other}"),
    };
    let result = if matches!(transform, Transform::Truncate(_)) { array.data_type().clone() } else { A::Int32 };
    let mut values = Vec::new();
    for row in 0..array.len() {
        let scalar = S::try_from_array(array, row)?;
        let out = match Value::from_scalar(&scalar, &source) {
            None => S::try_from(&result)?,
            Some(value) => {
                match hashed(*transform, &source, value.clone()).or_else(|| written(*transform, &source, &value)) {
                    Some(literal) => scalar_of(&literal, &result),
                    None => {
                        let ordinal = naive_partition(*transform, &source, &value, false);
                        let ordinal = ordinal.and_then(|x| i32::try_from(x).ok());
                        S::Int32(Some(ordinal.ok_or(DataFusionError::Execution("out of range".into()))?))
                    }
                }
            }
        };
        values.push(out.cast_to(&result)?);
    }
    S::iter_to_array(values)
}

/// Nanoseconds are hashed as the microseconds they lie in, also before 1970.
fn hashed(transform: Transform, source: &T, value: Value) -> Option<PrimitiveLiteral> {
    match (transform, source, value) {
        (Transform::Bucket(_), T::TimestampNs | T::TimestamptzNs, Value::Long(nanos)) => {
            written(transform, &T::Timestamp, &Value::Long(nanos.div_euclid(1_000)))
        }
        _ => None,
    }
}

fn scalar_of(literal: &PrimitiveLiteral, ty: &DataType) -> S {
    use PrimitiveLiteral as L;
    match literal {
        L::Int128(x) => match ty {
            DataType::Decimal128(p, s) => S::Decimal128(Some(*x), *p, *s),
            other => panic!("{other}"),
        },
        L::Int(x) => S::Int32(Some(*x)),
        L::Long(x) => S::Int64(Some(*x)),
        L::String(x) => S::Utf8(Some(x.clone())),
        L::Binary(x) => S::Binary(Some(x.clone())),
        other => panic!("{other:?}"),
    }
}

/// What must hold of a filter, for rows some of which make the engine panic: those fail.
fn check(filter: &Arc<dyn PhysicalExpr>, rows: &[RecordBatch]) -> Result<(), TestCaseError> {
    let table = &*TABLE;
    let converted = convert(filter, &table.arrow, &table.schema);
    for row in rows {
        // The engine panics where a debug build finds an overflow.
        let Ok(Ok(truth)) = catch_unwind(AssertUnwindSafe(|| truth(filter, row))) else { continue };
        let value = |field| table.value(row, field);
        let facts = |field| table.facts(&[row], field);
        let possible = converted.predicate.holds(&value) == Some(true) && converted.predicate.may_match(&facts);
        let certain = converted.proof.holds(&value) == Some(true) || converted.proof.must_match(&facts);
        let is_true = truth == Some(true);
        prop_assert!(!is_true || possible, "lost a row: {filter} as {:?} of {row:?}", converted.predicate);
        prop_assert!(is_true || !certain, "proven and not true: {filter} as {:?} of {row:?}", converted.proof);
    }
    Ok(())
}

/// Functions over the columns, by the kind of constant they are compared with.
fn operands() -> Vec<(String, Vec<String>)> {
    let times = [
        "'2024-03-10T07:30:00'",
        "'2024-11-03T00:00:00'",
        "'1970-01-01'",
        "'1969-12-31T23:59:59.999999'",
        "'2024-04-06T15:00:00'",
    ];
    let times: Vec<String> = times.iter().map(|t| format!("TIMESTAMP {t}")).collect();
    let dates: Vec<String> =
        ["2024-03-10", "2024-11-03", "1970-01-01", "1969-12-31", "2024-02-29"].map(|d| format!("DATE '{d}'")).into();
    let numbers = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>();
    let texts: Vec<String> =
        ["''", "'a'", "'ab'", "'abc'", "'abcd'", "'b'", "'\u{10FFFF}'", "'é'"].map(str::to_owned).into();
    let mut operands: Vec<(String, Vec<String>)> = Vec::new();
    let zones = ["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana", "UTC"];
    for column in ["ts", "tz", "n", "nz"] {
        for unit in
            ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]
        {
            operands.push((format!("date_trunc('{unit}', {column})"), times.clone()));
            for zone in zones {
                operands.push((format!("date_trunc('{unit}', {column} AT TIME ZONE '{zone}')"), times.clone()));
            }
        }
        for zone in zones {
            operands.push((format!("{column} AT TIME ZONE '{zone}'"), times.clone()));
            operands.push((format!("CAST({column} AT TIME ZONE '{zone}' AS DATE)"), dates.clone()));
            operands.push((format!("to_local_time({column} AT TIME ZONE '{zone}')"), times.clone()));
            operands.push((format!("{column} AT TIME ZONE '{zone}' + INTERVAL '1 day'"), times.clone()));
        }
        for step in [
            "INTERVAL '1 day'",
            "INTERVAL '36 hours'",
            "INTERVAL '1 month'",
            "INTERVAL '13 months 2 days'",
            "INTERVAL '1 millisecond'",
        ] {
            operands.push((format!("{column} + {step}"), times.clone()));
            operands.push((format!("{column} - {step}"), times.clone()));
        }
        for stride in ["1 day", "15 minutes", "7 days", "1 month", "3 months"] {
            operands.push((format!("date_bin(INTERVAL '{stride}', {column})"), times.clone()));
            operands.push((
                format!("date_bin(INTERVAL '{stride}', {column}, TIMESTAMP '2024-01-31T12:00:00')"),
                times.clone(),
            ));
        }
        operands.push((format!("to_date({column})"), dates.clone()));
        operands.push((format!("CAST({column} AS DATE)"), dates.clone()));
        operands.push((format!("to_unixtime({column})"), numbers(&[0, -1, 1_710_000_000])));
        operands.push((format!("CAST({column} AS BIGINT)"), numbers(&[0, -1, 1_710_000_000_000_000])));
        for part in ["year", "month", "day", "hour", "minute", "dow", "isodow", "doy", "week", "quarter", "isoyear"] {
            let constants = numbers(&[0, 1, 3, 12, 70, 1969, 1970, 2024, 10_000]);
            operands.push((format!("date_part('{part}', {column})"), constants));
        }
        for zone in zones {
            operands.push((format!("date_part('hour', {column} AT TIME ZONE '{zone}')"), numbers(&[0, 1, 13, 23])));
            operands.push((format!("date_part('day', {column} AT TIME ZONE '{zone}')"), numbers(&[3, 10, 31])));
        }
        operands
            .push((format!("extract(epoch FROM {column})"), vec!["0".into(), "1710000000.5".into(), "-0.5".into()]));
        for (transform, constants) in [
            ("years", numbers(&[-1, 0, 54])),
            ("months", numbers(&[-1, 0, 650])),
            ("days", numbers(&[-1, 0, 19_792, 20_000])),
            ("hours", numbers(&[-1, 0, 475_015])),
        ] {
            operands.push((format!("{transform}({column})"), constants));
        }
    }
    for step in ["INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '13 months'"] {
        operands.push((format!("d + {step}"), dates.clone()));
        operands.push((format!("d - {step}"), dates.clone()));
    }
    for function in ["years(d)", "months(d)", "days(d)", "date_part('year', d)", "date_part('month', d)"] {
        operands.push((function.to_owned(), numbers(&[-1, 0, 3, 54, 650, 19_792, 2024])));
    }
    for function in [
        "to_timestamp(i)",
        "to_timestamp(l)",
        "to_timestamp_seconds(l)",
        "to_timestamp_millis(l)",
        "to_timestamp_micros(l)",
        "to_timestamp_nanos(l)",
        "from_unixtime(l)",
    ] {
        operands.push((function.to_owned(), times.clone()));
    }
    for column in ["i", "l", "m", "w"] {
        for width in [1, 2, 10, 50] {
            operands.push((format!("truncate({width}, {column})"), numbers(&[-10, 0, 2, 10, 2_147_483_640])));
        }
    }
    for column in ["i", "l", "d", "ts", "n", "t", "m", "s", "y", "u"] {
        operands.push((format!("bucket(4, {column})"), numbers(&[-1, 0, 1, 3, 4])));
        operands.push((format!("bucket(10000, {column})"), numbers(&[0, 17])));
    }
    for cut in ["left(s, 2)", "left(s, 0)", "substr(s, 1, 2)", "substr(s, 2, 1)", "truncate(2, s)", "left(s, -1)"] {
        operands.push((cut.to_owned(), texts.clone()));
    }
    for function in ["floor(x)", "ceil(x)", "floor(f)", "ceil(f)"] {
        operands
            .push((function.to_owned(), vec!["0.0".into(), "-0.0".into(), "2.0".into(), "-2.0".into(), "2.5".into()]));
    }
    for choice in [
        "coalesce(i, 2)",
        "coalesce(i, l, 7)",
        "nvl(i, 2)",
        "nullif(i, 2)",
        "nullif(i, l)",
        "CASE WHEN i > 1 THEN l WHEN b THEN 2 ELSE i END",
        "CASE WHEN b THEN 2 WHEN s LIKE 'a%b' THEN 3 END",
        "CASE i WHEN 1 THEN 2 WHEN 2 THEN l ELSE 3 END",
        "CASE WHEN length(s) > 2 THEN i ELSE l END",
    ] {
        operands.push((choice.to_owned(), numbers(&[-1, 0, 1, 2, 3, 7])));
    }
    operands
}

/// Filters over them, and over what is true or false itself.
pub(super) fn arb_filter() -> impl Strategy<Value = String> {
    let truths = select(vec![
        "(i > 1) IS TRUE",
        "(i > 1) IS NOT TRUE",
        "(i > 1) IS FALSE",
        "(i > 1 AND b) IS NOT FALSE",
        "(i > 1 OR b) IS UNKNOWN",
        "(i > 1 OR b) IS NOT UNKNOWN",
        "(s LIKE 'a%c') IS NOT TRUE",
        "(s LIKE 'a%c' AND i > 1) IS NOT TRUE",
        "NOT (CASE WHEN i > 1 THEN b WHEN l > 2 THEN true END)",
        "CASE WHEN i > 1 THEN b ELSE l > 2 END",
        "CASE WHEN i > 1 THEN b ELSE l > 2 END IS NULL",
        "coalesce(b, i > 1)",
        "coalesce(i > 1, b) = false",
        "nullif(b, i > 1)",
        "b = (i > 1)",
        "(i > 1) = true",
        "(i > 1) <> true",
        "(i > 1) IN (true)",
    ])
    .prop_map(str::to_owned);
    let function = (
        select(operands()),
        select(vec!["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]),
        any::<proptest::sample::Index>(),
        any::<proptest::sample::Index>(),
        0_u8..8,
    );
    let function = function.prop_map(|((operand, constants), op, one, other, form)| {
        let (one, other) = (one.get(&constants), other.get(&constants));
        match form {
            0 => format!("{operand} IN ({one}, {other})"),
            1 => format!("{operand} NOT IN ({one}, {other})"),
            2 => format!("{operand} BETWEEN {one} AND {other}"),
            3 => format!("{operand} IS NULL"),
            4 => format!("NOT ({operand} {op} {one})"),
            _ => format!("{operand} {op} {one}"),
        }
    });
    prop_oneof![1 => truths, 9 => function]
}

/// Rows with times around the changes of clocks, the starts of days, months and years, and where nanoseconds end.
fn arb_rows() -> impl Strategy<Value = Vec<RecordBatch>> {
    let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap().and_utc().timestamp();
    let around: Vec<i64> = [
        "2024-03-10 07:00", // New York, forward
        "2024-11-03 06:00", // back
        "2024-04-06 15:00", // Lord Howe, back by half an hour
        "2024-10-05 15:30", // forward
        "2024-11-03 05:00", // Havana, back over midnight
        "2024-03-10 05:00", // Havana, forward at midnight
        "2024-03-10 00:00",
        "2024-11-03 00:00",
        "2024-02-29 00:00",
        "2024-01-31 12:00",
        "2024-03-31 08:00",
        "2024-01-01 00:00",
        "1970-01-01 00:00",
        "1969-12-31 00:00",
        "2262-04-11 23:00",
        "1677-09-21 01:00",
        "9999-12-31 00:00",
        "0001-01-01 00:00",
    ]
    .map(at)
    .into();
    let seconds = (select(around), -200_i64..200, -2_i64..3)
        .prop_map(|(at, quarters, off)| (at + quarters * 900) * 1_000_000 + off);
    let micros = prop_oneof![9 => seconds, 1 => select(vec![i64::MIN, i64::MAX, i64::MIN + 86_400_000_000])];
    proptest::collection::vec((micros, any::<proptest::sample::Index>()), 1..12)
        .prop_map(|rows| rows.into_iter().map(|(micros, row)| TABLE.with_time(row.get(&TABLE.rows), micros)).collect())
}

proptest! {
    #![proptest_config(cases(1_500))]

    /// If a row matches the filter, it satisfies the predicate; if it satisfies the proof, it matches.
    #[test]
    fn no_row_is_lost_by_a_function(sql in arb_filter(), rows in arb_rows()) {
        let Ok(filter) = TABLE.try_filter(&sql) else { return Ok(()) };
        check(&filter, &rows)?;
        check(&filter, &TABLE.rows)?;
    }
}

/// Each operand with each of its constants, over the table's own rows and some around the changes of clocks.
#[test]
fn every_function_once() {
    let day = 86_400_000_000_i64;
    let times =
        [1_710_054_000_000_000, 1_730_613_600_000_000, 1_712_415_600_000_000, 0, -1, 19_792 * day, 19_792 * day - 1];
    let mut rows = TABLE.rows.clone();
    rows.extend(
        times
            .iter()
            .flat_map(|at| (-30..30).step_by(4).map(move |quarter| at + quarter * 900_000_000))
            .map(|at| TABLE.with_time(&TABLE.rows[0], at)),
    );
    let (mut asked, mut refused) = (0, 0);
    for (operand, constants) in operands() {
        for (constant, op) in constants.iter().zip(["=", "<", ">=", "<>", "<=", ">"].iter().cycle()) {
            asked += 1;
            let Ok(filter) = TABLE.try_filter(&format!("{operand} {op} {constant}")) else {
                refused += 1;
                continue;
            };
            check(&filter, &rows).unwrap();
        }
    }
    assert!(refused * 10 < asked, "the engine refused {refused} of {asked} filters");
}

/// What becomes of filters over functions: `~` where rows are still tested, and why.
#[test]
fn functions() {
    let table = &*TABLE;
    let name = |field: i32| (table.schema.field_by_id(field).unwrap().name.clone(), Some(table.types[&field].clone()));
    let mut wrong = Vec::new();
    for (sql, expected) in [
        ("date_trunc('day', ts) = '2024-01-02'", "ts >= 2024-01-02T00:00:00 AND ts <= 2024-01-02T23:59:59.999999"),
        ("date_trunc('day', ts) = '2024-01-02T01:00:00'", "false"),
        ("date_trunc('hour', ts) > '2024-01-02'", "ts >= 2024-01-02T01:00:00"),
        ("to_date(ts) = '2024-01-02'", "ts >= 2024-01-02T00:00:00 AND ts <= 2024-01-02T23:59:59.999999"),
        (
            "ts + INTERVAL '1 day' >= TIMESTAMP '2024-01-02'",
            "ts >= 2024-01-01T00:00:00 AND ts <= +262142-12-30T23:59:59.999999",
        ),
        ("d + INTERVAL '1 month' = DATE '2024-02-29'", "d >= 2024-01-29 AND d <= 2024-01-31"),
        ("days(ts) = 19724", "ts >= 2024-01-02T00:00:00 AND ts <= 2024-01-02T23:59:59.999999"),
        ("years(d) = 54", "d >= 2024-01-01 AND d <= 2024-12-31"),
        ("truncate(10, m) = 10.60", "m >= 10.60 AND m <= 10.69"),
        ("truncate(2, s) = 'ab'", "s >= 'ab' AND s < 'ac'"),
        ("truncate(2, s) = 'a'", "s = 'a'"),
        ("left(s, 2) = 'abc'", "false"),
        ("left(s, 2) > 'abc'", "s >= 'ac'"),
        ("substr(s, 1, 2) IN ('ab', 'b')", "(s >= 'ab' AND s < 'ac') OR s = 'b'"),
        ("bucket(16, l) = 3", "bucket(16, l) IN (3)"),
        ("bucket(16, l) = 16", "false"),
        ("bucket(4, l) < 2", "bucket(4, l) IN (0, 1)"),
        ("bucket(4, l) <> 2", "bucket(4, l) NOT IN (2)"),
        ("coalesce(i, 2) = 2", "i = 2 OR i IS NULL"),
        ("coalesce(i, 2) > 2", "i >= 3"),
        ("nullif(i, 2) >= 2", "i >= 2 AND (i <> 2 OR i IS NULL)"),
        ("(i > 1) IS NOT TRUE", "i <= 1 OR i IS NULL"),
        ("(i > 1) IS TRUE", "i > 1"),
        ("CASE WHEN i > 1 THEN 'a' ELSE 'b' END = 'a'", "i > 1"),
        ("CASE WHEN i > 1 THEN 'a' ELSE 'b' END = 'b'", "i <= 1 OR i IS NULL"),
        ("to_timestamp_seconds(i) >= TIMESTAMP '1970-01-01T00:00:07'", "i >= 7"),
        ("extract(year FROM ts) = 2024", "ts >= 2024-01-01T00:00:00 AND ts < 2025-01-01T00:00:00"),
        (
            "extract(month FROM ts) = 2",
            "~ extract(month FROM ts) IN (2): a part of a time that comes again: what reaches through a whole cycle is read",
        ),
        ("extract(second FROM ts) = 2", "~ true: a part of a time that comes again and again"),
        ("to_char(ts, '%Y') = '2024'", "~ true: text made of a time, whose order is another"),
        (
            "ts + INTERVAL '1 month' >= TIMESTAMP '2024-03-01'",
            "~ ts >= 2024-01-23T13:30:53.999999: months added to a time, where the last days of a month fall together",
        ),
        ("i + 1 > 2", "~ true: arithmetic on a column"),
        // No clocks were changed in India.
        (
            "date_trunc('day', nz AT TIME ZONE 'Asia/Kolkata') = TIMESTAMP '2024-01-02T00:00:00+05:30'",
            "~ nz >= 2024-01-01T13:00:00+00:00 AND nz <= 2024-01-02T12:59:59.999999999+00:00: local time, which runs backwards when clocks are put back",
        ),
    ] {
        let converted = convert(&table.filter(sql), &table.arrow, &table.schema);
        let claims = super::super::convert_conjuncts(&[table.filter(sql)], &table.arrow, &table.schema);
        let reason = claims.iter().find_map(|claim| claim.reason).map_or(String::new(), |reason| format!(": {reason}"));
        let tilde = if converted.exact { "" } else { "~ " };
        let text = format!("{tilde}{}{reason}", converted.predicate.display(&name));
        if text != expected {
            wrong.push(format!("{sql}:\n  {text}\n  not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
