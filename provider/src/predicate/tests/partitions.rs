//! Does the projection know in which partition a row lies?

use arrow::array::{ArrayRef, AsArray, Int32Array, TimestampMicrosecondArray};
use arrow::datatypes::{Date32Type, Int32Type};
use chrono::{DateTime, Datelike, NaiveDate};
use iceberg::spec::{NestedField, PartitionSpec, PrimitiveType as T, Schema, Transform, Type};
use iceberg::transform::create_transform_function;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;

use super::super::{Facts, Op, Predicate, Value, Values, project, project_strict};
use super::support::{facts_of, spec_of};

const TIMES: [Transform; 4] = [Transform::Year, Transform::Month, Transform::Day, Transform::Hour];
const SOURCES: [T; 5] = [T::Date, T::Timestamp, T::Timestamptz, T::TimestampNs, T::TimestamptzNs];

/// The partition value by the calendar's own library. `old_writer`: rounded toward 1970, as some did. `None` where the
/// calendar ends.
pub(super) fn naive_partition(transform: Transform, source: &T, value: &Value, old_writer: bool) -> Option<i64> {
    let Value::Long(ticks) = value else { panic!("no time: {value:?}") };
    let ticks = i128::from(*ticks);
    let nanos = match source {
        T::Date => ticks * 86_400_000_000_000,
        T::Timestamp | T::Timestamptz => ticks * 1_000,
        _ => ticks,
    };
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap();
    let at = DateTime::from_timestamp(seconds, 0)?.naive_utc();
    let started = i64::from(nanos != 0);
    Some(match transform {
        Transform::Hour if old_writer => i64::try_from(nanos / 3_600_000_000_000).unwrap(),
        Transform::Hour => i64::try_from(nanos.div_euclid(3_600_000_000_000)).unwrap(),
        Transform::Day if old_writer => i64::try_from(nanos / 86_400_000_000_000).unwrap(),
        Transform::Day => (at.date() - NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days(),
        // Toward 1970: one more, unless it is the very start of the month or year.
        Transform::Month | Transform::Year => {
            let years = i64::from(at.year()) - 1970;
            let months = years * 12 + i64::from(at.month0());
            let month = transform == Transform::Month;
            let floor = if month { months } else { years };
            let start_of = (nanos.rem_euclid(86_400_000_000_000), at.day0(), if month { 0 } else { at.month0() });
            let exact = start_of == (0, 0, 0);
            floor + if old_writer && floor < 0 && !exact { started } else { 0 }
        }
        _ => panic!("no time transform"),
    })
}

fn table(transform: Transform, source: &T) -> (Schema, PartitionSpec) {
    let field = NestedField::optional(1, "c", Type::Primitive(source.clone()));
    let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
    let spec =
        PartitionSpec::builder(schema.clone()).add_partition_field("c", "p", transform).unwrap().build().unwrap();
    assert_eq!(spec.fields()[0].field_id, 1000);
    (schema, spec)
}

/// Times at and around the starts of hours, days, months and years, from long ago to far ahead.
fn arb_tick(source: T) -> impl Strategy<Value = i64> {
    let seconds = prop_oneof![
        4 => -100_000_i64..100_000,
        4 => -3_000_000_000_i64..5_000_000_000,
        1 => -9_000_000_000_i64..9_000_000_000,
    ];
    let on = select(vec![1, 3_600, 86_400, 86_400 * 30, 86_400 * 365]);
    let date = (-200_i32..500, 1_u32..13).prop_map(|(y, m)| {
        NaiveDate::from_ymd_opt(1970 + y / 2, m, 1).unwrap().and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp()
    });
    let seconds = prop_oneof![(seconds, on).prop_map(|(s, on)| s.div_euclid(on) * on), date];
    (seconds, -2_i64..3).prop_map(move |(seconds, off)| match source {
        T::Date => seconds.div_euclid(86_400) + off,
        T::Timestamp | T::Timestamptz => seconds * 1_000_000 + off,
        _ => seconds * 1_000_000_000 + off,
    })
}

fn arb_leaf(source: T) -> BoxedStrategy<Predicate> {
    let ops = vec![Op::Eq, Op::NotEq, Op::Lt, Op::LtEq, Op::Gt, Op::GtEq];
    let compare =
        (select(ops), arb_tick(source.clone())).prop_map(|(op, tick)| Predicate::compare(1, op, Value::Long(tick)));
    let list = (proptest::collection::vec(arb_tick(source), 2..5), any::<bool>()).prop_map(|(ticks, negated)| {
        let values: Values = ticks.into_iter().map(Value::Long).collect();
        if negated { Predicate::is_not_in(1, values) } else { Predicate::is_in(1, values) }
    });
    let null = select(vec![Predicate::IsNull { field: 1 }, Predicate::IsNotNull { field: 1 }]);
    prop_oneof![6 => compare, 3 => list, 1 => null].boxed()
}

fn arb_case() -> impl Strategy<Value = (T, Transform, Predicate, Vec<Option<i64>>)> {
    (select(SOURCES.to_vec()), select(TIMES.to_vec()))
        .prop_filter("no hours in a date", |(s, t)| *s != T::Date || *t != Transform::Hour)
        .prop_flat_map(|(source, transform)| {
            let leaf = arb_leaf(source.clone());
            let filter = leaf.prop_recursive(2, 6, 2, |inner| {
                (inner.clone(), inner, any::<bool>())
                    .prop_map(|(a, b, and)| if and { Predicate::and([a, b]) } else { Predicate::or([a, b]) })
            });
            let rows = proptest::collection::vec(proptest::option::weighted(0.9, arb_tick(source.clone())), 1..8);
            (Just(source), Just(transform), filter, rows)
        })
}

fn partition(transform: Transform, source: &T, tick: Option<i64>, old_writer: bool) -> Option<Value> {
    let value = Value::Long(tick?);
    Some(Value::Long(naive_partition(transform, source, &value, old_writer).unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// If a row matches the filter, its partition matches the projection, whichever way the writer rounded; so do the
    /// summaries of any manifest that holds it.
    #[test]
    fn a_matching_row_is_in_a_matching_partition((source, transform, filter, ticks) in arb_case()) {
        let (schema, spec) = table(transform, &source);
        let projected = project(&filter, &spec, &schema);
        let strict = project_strict(&filter, &spec, &schema);
        // A date is a day already: no writer could round it.
        let writers = if source == T::Date && transform == Transform::Day { vec![false] } else { vec![false, true] };
        for old_writer in writers {
            let places: Vec<_> = ticks.iter().map(|t| partition(transform, &source, *t, old_writer)).collect();
            let mut any = false;
            for (tick, place) in ticks.iter().zip(&places) {
                let matches = filter.holds(&|_| tick.map(Value::Long)) == Some(true);
                any |= matches;
                let tuple = |_| facts_of(std::slice::from_ref(place), false);
                prop_assert!(!matches || projected.may_match(&tuple), "{projected:?} loses {tick:?} in {place:?}");
                prop_assert!(!matches || projected.holds(&|_| place.clone()) == Some(true));
                prop_assert!(matches || !strict.must_match(&tuple), "{strict:?} takes {tick:?} in {place:?}");
                prop_assert!(matches || strict.holds(&|_| place.clone()) != Some(true));
            }
            let summary = |_| Facts { nulls: None, rows: None, ..facts_of(&places, false) };
            prop_assert!(!any || projected.may_match(&summary), "{projected:?} loses a manifest");
        }
    }
}

/// The projection of `ts op when` onto the day and the strict one, as text.
fn days(op: Op, micros: i64) -> (String, String) {
    let (schema, spec) = table(Transform::Day, &T::Timestamp);
    let filter = Predicate::compare(1, op, Value::Long(micros));
    let name = |_: i32| ("day".to_owned(), Some(T::Date));
    let show = |p: Predicate| p.display(&name).to_string();
    (show(project(&filter, &spec, &schema)), show(project_strict(&filter, &spec, &schema)))
}

/// Projections are as narrow as they can be.
#[test]
fn days_of_timestamps() {
    let midnight = 20_608 * 86_400_000_000;
    let noon = midnight + 43_200_000_000;
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(days(Op::Lt, midnight), pair("day <= 2026-06-03", "day < 2026-06-04"));
    assert_eq!(days(Op::LtEq, midnight), pair("day <= 2026-06-04", "day < 2026-06-04"));
    assert_eq!(days(Op::LtEq, midnight - 1), pair("day <= 2026-06-03", "day < 2026-06-04"));
    assert_eq!(days(Op::Gt, midnight), pair("day >= 2026-06-04", "day > 2026-06-04"));
    assert_eq!(days(Op::GtEq, midnight), pair("day >= 2026-06-04", "day > 2026-06-03"));
    assert_eq!(days(Op::Gt, midnight - 1), pair("day >= 2026-06-04", "day > 2026-06-03"));
    assert_eq!(days(Op::Lt, noon), pair("day <= 2026-06-04", "day < 2026-06-04"));
    assert_eq!(days(Op::GtEq, noon), pair("day >= 2026-06-04", "day > 2026-06-04"));
    assert_eq!(days(Op::Eq, noon), pair("day = 2026-06-04", "false"));
    assert_eq!(days(Op::NotEq, noon), pair("day IS NOT NULL", "day <> 2026-06-04"));
    // Before 1970 a row may have been filed one day too high.
    assert_eq!(days(Op::Lt, 0), pair("day <= 1970-01-01", "day < 1970-01-01"));
    assert_eq!(days(Op::Eq, -1), pair("day IN (1969-12-31, 1970-01-01)", "false"));
    assert_eq!(days(Op::GtEq, 0), pair("day >= 1970-01-01", "day > 1970-01-01"));
    assert_eq!(days(Op::Gt, -1), pair("day >= 1970-01-01", "day > 1970-01-01"));
    // At the ends of time.
    assert_eq!(days(Op::Lt, i64::MIN).0, "false");
    assert_eq!(days(Op::Gt, i64::MAX).0, "false");
    assert_eq!(days(Op::LtEq, i64::MAX).1, "day IS NOT NULL");
}

/// Beyond the years that an int counts in hours nothing is claimed.
#[test]
fn hours_beyond_an_int() {
    let (schema, spec) = table(Transform::Hour, &T::Timestamp);
    let filter = Predicate::compare(1, Op::LtEq, Value::Long(i64::MAX - 1));
    assert_eq!(project(&filter, &spec, &schema), Predicate::True);
    assert_eq!(project_strict(&filter, &spec, &schema), Predicate::False);
}

/// Several fields over one column narrow together, and one of them suffices to prove.
#[test]
fn fields_over_one_column_work_together() {
    let field = NestedField::optional(1, "c", Type::Primitive(T::Date));
    let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
    let spec = spec_of(&[(1, Transform::Month), (1, Transform::Void), (1, Transform::Bucket(4)), (1, Transform::Day)]);
    let filter = Predicate::compare(1, Op::GtEq, Value::Long(20_608));
    let month = |op, m| Predicate::compare(1000, op, Value::Long(m));
    let day = |op| Predicate::compare(1003, op, Value::Long(20_608));
    assert_eq!(project(&filter, &spec, &schema), Predicate::and([month(Op::GtEq, 677), day(Op::GtEq)]));
    assert_eq!(project_strict(&filter, &spec, &schema), Predicate::or([month(Op::Gt, 677), day(Op::GtEq)]));
    // A column that is no longer there says nothing, also of columns that are.
    let other = NestedField::optional(2, "o", Type::Primitive(T::Date));
    let without = Schema::builder().with_fields([other.into()]).build().unwrap();
    assert_eq!(project(&filter, &spec, &without), Predicate::True);
    assert_eq!(project_strict(&filter, &spec, &without), Predicate::False);
    let elsewhere = Predicate::compare(2, Op::Eq, Value::Long(1));
    assert_eq!(project(&elsewhere, &spec, &schema), Predicate::True);
    assert_eq!(project_strict(&elsewhere, &spec, &schema), Predicate::False);
}

/// The partition of the naive calendar is the one that the format library writes.
#[test]
fn the_library_agrees() {
    let micros: Vec<i64> = (-4_000..4_000).map(|i| i * 7_919_000_017_001).chain([0, -1, 1]).collect();
    let source: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros.clone()));
    for transform in TIMES {
        let partitions = create_transform_function(&transform).unwrap().transform(Arc::clone(&source)).unwrap();
        let partitions: Int32Array = match partitions.as_primitive_opt::<Date32Type>() {
            Some(days) => days.reinterpret_cast::<Int32Type>(),
            None => partitions.as_primitive::<Int32Type>().clone(),
        };
        assert_eq!(partitions.values().len(), micros.len());
        for (tick, place) in micros.iter().zip(partitions.values()) {
            let naive = naive_partition(transform, &T::Timestamp, &Value::Long(*tick), false).unwrap();
            assert_eq!(i64::from(*place), naive, "{transform} of {tick}");
        }
    }
}
