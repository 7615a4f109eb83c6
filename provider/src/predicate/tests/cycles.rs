//! Is a file, or a partition, only left out if no row of it has the part of a time that was asked for?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use arrow::record_batch::RecordBatch;
use datafusion::physical_expr::PhysicalExpr;
use iceberg::spec::{PartitionSpec, PrimitiveType as T, Transform};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Facts, Predicate, Value, convert, convert_conjuncts, project, project_strict};
use super::partitions::naive_partition;
use super::support::{Table, cases, facts_of, field_of, spec_of, truth};

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

const PARTS: [(&str, i64, i64); 12] = [
    ("month", 1, 12),
    ("quarter", 1, 4),
    ("qtr", 1, 4),
    ("week", 1, 53),
    ("day", 1, 31),
    ("dow", 0, 6),
    ("isodow", 0, 6),
    ("doy", 1, 366),
    ("hour", 0, 23),
    ("minute", 0, 59),
    ("m", 0, 59),
    ("mon", 1, 12),
];
const TIMES: [&str; 4] = ["ts", "tz", "n", "nz"];
const ZONES: [&str; 6] =
    ["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "+13:45", "Africa/Monrovia"];

/// A time as it may stand in a filter.
fn arb_time() -> impl Strategy<Value = String> {
    let zoned = (select(TIMES.to_vec()), select(ZONES.to_vec()), 0_u8..6).prop_map(|(column, zone, form)| match form {
        0 => format!("CAST({column} AT TIME ZONE '{zone}' AS DATE)"),
        1 => format!("to_local_time({column} AT TIME ZONE '{zone}')"),
        2 => format!("to_local_time({column} AT TIME ZONE '{zone}') AT TIME ZONE 'Asia/Tokyo'"),
        3 => format!("{column} AT TIME ZONE '{zone}' AT TIME ZONE 'Asia/Tokyo'"),
        _ => format!("{column} AT TIME ZONE '{zone}'"),
    });
    let plain = (select(TIMES.to_vec()), 0_u8..5).prop_map(|(column, form)| match form {
        0 => format!("CAST({column} AS DATE)"),
        1 => format!("to_date({column})"),
        2 => format!("arrow_cast({column}, 'Timestamp(Second, None)')"),
        _ => column.to_owned(),
    });
    let date = select(vec!["d", "CAST(d AS TIMESTAMP)"]).prop_map(str::to_owned);
    prop_oneof![3 => plain, 1 => date, 3 => zoned]
}

fn arb_condition() -> impl Strategy<Value = String> {
    let number = any::<proptest::sample::Index>;
    (select(PARTS.to_vec()), arb_time(), number(), number(), select(vec!["=", "<>", "<", "<=", ">", ">="]), 0_u8..12)
        .prop_map(|((part, least, most), time, one, other, op, form)| {
            // The numbers before and after its values too.
            let place = |index: proptest::sample::Index| {
                least - 1 + i64::try_from(index.index(usize::try_from(most - least + 3).unwrap())).unwrap()
            };
            let (one, other) = (place(one), place(other));
            let part = format!("date_part('{part}', {time})");
            match form {
                0 => format!("{part} IN ({one}, {other})"),
                1 => format!("{part} NOT IN ({one}, {other})"),
                2 => format!("{part} BETWEEN {one} AND {other}"),
                3 => format!("{part} NOT BETWEEN {one} AND {other}"),
                4 => format!("NOT ({part} {op} {one})"),
                5 => format!("({part} {op} {one}) IS NOT TRUE"),
                6 => format!("{part} IS DISTINCT FROM {one}"),
                7 => format!("{part} % 3 {op} {}", one % 3),
                8 => format!("coalesce({part}, {one}) {op} {other}"),
                9 => format!("{one} - {part} {op} 0.5"),
                10 => format!("CASE WHEN {part} > {one} THEN 1 ELSE 2 END {op} 2"),
                _ => format!("{part} {op} {one}"),
            }
        })
}

pub(super) fn arb_filter() -> impl Strategy<Value = String> {
    let negated = (arb_condition(), any::<bool>())
        .prop_map(|(condition, negated)| if negated { format!("NOT ({condition})") } else { condition });
    (negated, proptest::option::weighted(0.3, (arb_condition(), any::<bool>()))).prop_map(|(one, other)| match other {
        Some((other, true)) => format!("({one}) AND ({other})"),
        Some((other, false)) => format!("({one}) OR ({other})"),
        None => one,
    })
}

/// Times within minutes, days, months or years of each other.
fn arb_rows() -> impl Strategy<Value = Vec<RecordBatch>> {
    let anchor = prop_oneof![
        4 => -3_000_000_000_i64..5_000_000_000,
        2 => -200_000_i64..200_000,
        // The clocks of New York and of Lord Howe change, Samoa skips a day, Liberia leaves its seconds behind.
        2 => select(vec![1_710_054_000, 1_730_613_600, 1_712_415_600, 1_325_239_200, 63_593_070]),
        1 => -100_000_000_000_i64..300_000_000_000,
        1 => select(vec![8_210_266_876_799, -8_334_601_228_800, 9_223_372_036, -9_223_372_036]),
    ];
    let width = select(vec![60_i64, 3_600, 86_400, 7 * 86_400, 40 * 86_400, 400 * 86_400]);
    let off = prop_oneof![select(vec![0, -1, 1]), -500_000_i64..500_000];
    let near = (anchor, width, 1_usize..6).prop_flat_map(move |(anchor, width, count)| {
        let at = (0..=width, off.clone(), proptest::option::weighted(0.95, Just(())));
        proptest::collection::vec(at, count).prop_map(move |rows| {
            let row = |(after, off, time): (i64, i64, Option<()>)| match time {
                Some(()) => TABLE.with_time(&TABLE.rows[0], (anchor + after) * 1_000_000 + off),
                // A row of nulls.
                None => RecordBatch::try_new(
                    Arc::clone(&TABLE.arrow),
                    TABLE.arrow.fields().iter().map(|f| arrow::array::new_null_array(f.data_type(), 1)).collect(),
                )
                .unwrap(),
            };
            rows.into_iter().map(row).collect()
        })
    });
    // The ends of each type among them.
    let any = proptest::collection::vec(select(TABLE.rows.clone()), 1..3);
    prop_oneof![9 => near, 1 => any]
}

fn arb_spec() -> impl Strategy<Value = PartitionSpec> {
    use Transform as F;
    let transform = select(vec![F::Identity, F::Year, F::Month, F::Day, F::Day, F::Day, F::Hour, F::Void]);
    let column = select(vec!["ts", "tz", "n", "nz", "d"]);
    proptest::collection::vec((column, transform), 1..7).prop_map(|fields| {
        let fields = fields.into_iter().filter(|(column, transform)| *column != "d" || *transform != F::Hour);
        spec_of(&fields.map(|(column, transform)| (field_of(column), transform)).collect::<Vec<_>>())
    })
}

/// Under what a writer files a row; `Err` where it can't.
fn filed(spec: &PartitionSpec, row: &RecordBatch, field: i32, old_writer: bool) -> Result<Option<Value>, ()> {
    let field = spec.fields().iter().find(|f| f.field_id == field).unwrap();
    let source = &TABLE.types[&field.source_id];
    let Some(value) = TABLE.value(row, field.source_id) else { return Ok(None) };
    match field.transform {
        Transform::Identity => Ok(Some(value)),
        Transform::Day if *source == T::Date => Ok(Some(value)),
        Transform::Void => Ok(None),
        transform => {
            let ordinal = naive_partition(transform, source, &value, old_writer).ok_or(())?;
            i32::try_from(ordinal).map(|ordinal| Some(Value::Long(i64::from(ordinal)))).map_err(drop)
        }
    }
}

fn matches(filter: &Arc<dyn PhysicalExpr>, row: &RecordBatch) -> Option<bool> {
    // The engine panics where a debug build finds an overflow.
    match catch_unwind(AssertUnwindSafe(|| truth(filter, row))) {
        Ok(Ok(truth)) => Some(truth == Some(true)),
        _ => None,
    }
}

fn check(filter: &Arc<dyn PhysicalExpr>, rows: &[RecordBatch], spec: &PartitionSpec) -> Result<(), TestCaseError> {
    let table = &*TABLE;
    let converted = convert(filter, &table.arrow, &table.schema);
    let (predicate, proof) = (&converted.predicate, &converted.proof);
    let truths: Vec<_> = rows.iter().map(|row| matches(filter, row)).collect();
    let (any, all) = (truths.contains(&Some(true)), !truths.contains(&Some(false)));
    let all_rows: Vec<_> = rows.iter().collect();
    let file = |field| table.facts(&all_rows, field);
    prop_assert!(!any || predicate.may_match(&file), "lost a file: {filter} as {predicate:?}");
    prop_assert!(all || !proof.must_match(&file), "proven and not true of a file: {filter} as {proof:?}");
    let (inclusive, strict) = (project(predicate, spec, &table.schema), project_strict(proof, spec, &table.schema));
    for (row, truth) in rows.iter().zip(&truths) {
        let held = predicate.holds(&|field| table.value(row, field)) == Some(true);
        let proven = proof.holds(&|field| table.value(row, field)) == Some(true);
        prop_assert!(*truth != Some(true) || held, "lost a row: {filter} as {predicate:?} of {row:?}");
        prop_assert!(*truth != Some(false) || !proven, "proven and not true: {filter} as {proof:?} of {row:?}");
        for old_writer in [false, true] {
            let tuple = |field| match filed(spec, row, field, old_writer) {
                Ok(value) => facts_of(&[value], false),
                Err(()) => Facts::default(),
            };
            prop_assert!(*truth != Some(true) || inclusive.may_match(&tuple), "lost: {inclusive:?} of {row:?}");
            prop_assert!(*truth != Some(false) || !strict.must_match(&tuple), "proven: {strict:?} of {row:?}");
        }
    }
    for old_writer in [false, true] {
        let summary = |field| {
            let values: Result<Vec<_>, ()> = rows.iter().map(|row| filed(spec, row, field, old_writer)).collect();
            values.map_or(Facts::default(), |values| Facts { rows: None, nulls: None, ..facts_of(&values, false) })
        };
        prop_assert!(!any || inclusive.may_match(&summary), "lost a manifest: {inclusive:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// If a row matches, its file, its partition and the manifest of that may match; and none is proven that doesn't.
    #[test]
    fn no_file_is_lost_by_a_part(sql in arb_filter(), rows in arb_rows(), spec in arb_spec()) {
        let Ok(filter) = TABLE.try_filter(&sql) else { return Ok(()) };
        check(&filter, &rows, &spec)?;
    }
}

/// What is said of a filter; of `unknown` nothing.
#[test]
fn parts() {
    let table = &*TABLE;
    let name = |field: i32| (table.schema.field_by_id(field).unwrap().name.clone(), Some(table.types[&field].clone()));
    let mut wrong = Vec::new();
    for (sql, expected) in [
        ("extract(month FROM ts) = 5", "extract(month FROM ts) IN (5)"),
        ("extract(month FROM ts) = 13", "false"),
        ("extract(month FROM ts) <> 5", "extract(month FROM ts) IN (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, … 1 more)"),
        ("extract(month FROM ts) > 0", "ts IS NOT NULL"),
        ("extract(month FROM ts) BETWEEN 5 AND 7", "extract(month FROM ts) IN (5, 6, 7)"),
        ("extract(month FROM ts) NOT BETWEEN 2 AND 11", "extract(month FROM ts) IN (1, 12)"),
        ("extract(month FROM ts) > 5 AND extract(month FROM ts) < 3", "false"),
        ("date_part('dow', tz) IN (0, 6)", "extract(dow FROM tz) IN (0, 6)"),
        ("date_part('dow', tz) IN (6, NULL, 7)", "extract(dow FROM tz) IN (6)"),
        ("date_part('dow', tz) NOT IN (0, 6)", "extract(dow FROM tz) IN (1, 2, 3, 4, 5)"),
        ("NOT (date_part('isodow', n) < 6)", "extract(isodow FROM n) IN (6)"),
        ("datepart('QTR', d) = 1.0", "extract(quarter FROM d) IN (1)"),
        ("date_part('minute', nz) % 15 = 0", "extract(minute FROM nz) IN (0, 15, 30, 45)"),
        ("date_part('hour', d) = 1", "extract(hour FROM d) IN (1)"),
        ("date_part('hour', CAST(d AS TIMESTAMP)) = 1", "extract(hour FROM d) IN (1)"),
        ("date_part('dow', CAST(ts AS DATE)) = 1", "extract(dow FROM ts) IN (1)"),
        ("date_part('dow', to_date(ts)) = 1", "extract(dow FROM ts) IN (1)"),
        ("date_part('hour', CAST(ts AS DATE)) = 0", "unknown"),
        (
            "date_part('hour', tz AT TIME ZONE 'Asia/Tokyo') = 9",
            "extract(hour FROM tz AT TIME ZONE 'Asia/Tokyo') IN (9)",
        ),
        (
            "date_part('dow', CAST(nz AT TIME ZONE 'Asia/Tokyo' AS DATE)) = 1",
            "extract(dow FROM nz AT TIME ZONE 'Asia/Tokyo') IN (1)",
        ),
        (
            "date_part('hour', to_local_time(nz AT TIME ZONE 'Asia/Tokyo')) = 9",
            "extract(hour FROM nz AT TIME ZONE 'Asia/Tokyo') IN (9)",
        ),
        // A time without zone is the same time of day in every zone.
        ("date_part('hour', n AT TIME ZONE 'Asia/Tokyo') = 9", "extract(hour FROM n) IN (9)"),
        ("date_part('hour', n AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'UTC') = 9", "unknown"),
        ("date_part('hour', arrow_cast(ts, 'Timestamp(Second, None)')) = 9", "unknown"),
        ("date_part('hour', t) = 9", "unknown"),
        ("date_part('second', ts) = 9", "unknown"),
        ("date_part('millisecond', ts) = 9", "unknown"),
        ("date_part('month', ts) IS NULL", "unknown"),
        ("date_part('month', ts) = i", "unknown"),
        ("date_part('month', ts) = date_part('day', ts)", "unknown"),
        ("date_part('month', ts) + i = 5", "unknown"),
    ] {
        let claims = convert_conjuncts(&[table.filter(sql)], &table.arrow, &table.schema);
        let predicate = Predicate::and(claims.iter().map(|claim| claim.predicate.clone()));
        let text = match predicate {
            Predicate::True => "unknown".to_owned(),
            predicate => predicate.display(&name).to_string(),
        };
        if text != expected {
            wrong.push(format!("{sql}:\n  {text}\n  not {expected}"));
        }
        // Rows are tested, but for what no time is.
        let proven = Predicate::and(claims.iter().map(|claim| claim.proof.clone()));
        assert_eq!(proven, Predicate::False, "{sql}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
