//! Values of parts against the calendar's own library, and at the ends of time.

use std::collections::BTreeSet;

use chrono::{Datelike, Timelike};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const PARTS: [Part; 9] = [
    Part::Quarter,
    Part::Month,
    Part::Week,
    Part::DayOfMonth,
    Part::DayOfWeek,
    Part::IsoDayOfWeek,
    Part::DayOfYear,
    Part::Hour,
    Part::Minute,
];

fn seconds(part: Part) -> Cycle {
    Cycle::new(part, Scale::Ticks { per_minute: 60 }, None)
}

fn between(cycle: &Cycle, lower: i64, upper: i64) -> Option<BTreeSet<i64>> {
    let long = |value| match value {
        Value::Long(value) => value,
        other => panic!("{other:?}"),
    };
    Some(cycle.between(&Value::Long(lower), &Value::Long(upper))?.map(long).collect())
}

/// By the calendar's own library, as the engine asks it.
fn naive(part: Part, second: i64) -> i64 {
    let at = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
    i64::from(match part {
        Part::Quarter => at.month0() / 3 + 1,
        Part::Month => at.month(),
        Part::Week => at.iso_week().week(),
        Part::DayOfMonth => at.day(),
        Part::DayOfWeek => at.weekday().num_days_from_sunday(),
        Part::IsoDayOfWeek => at.weekday().num_days_from_monday(),
        Part::DayOfYear => at.ordinal(),
        Part::Hour => at.hour(),
        Part::Minute => at.minute(),
    })
}

/// How far apart two seconds may be that no step lies between.
fn stride(part: Part) -> i64 {
    match part {
        Part::Minute => 60,
        Part::Hour => 3_600,
        _ => 86_400,
    }
}

/// All values but the 53rd week and the last day of leap years.
fn usual(part: Part) -> BTreeSet<i64> {
    let rare = |value: i64| [(Part::Week, 53), (Part::DayOfYear, 366)].contains(&(part, value));
    part.values().filter(|value| !rare(*value)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The values are those that occur, unless nothing is said.
    #[test]
    fn the_values_that_occur(
        part in select(PARTS.to_vec()),
        lower in -70_000_000_000_i64..70_000_000_000,
        strides in 0_i64..400,
        more in 0_i64..86_400,
    ) {
        let upper = lower + strides * stride(part) + more % stride(part);
        let seconds_seen = (lower..=upper).step_by(usize::try_from(stride(part)).unwrap()).chain([upper]);
        let expected: BTreeSet<i64> = seconds_seen.map(|second| naive(part, second)).collect();
        match between(&seconds(part), lower, upper) {
            Some(found) => prop_assert_eq!(found, expected),
            None => prop_assert!(expected.is_superset(&usual(part)), "{:?}", expected),
        }
        prop_assert_eq!(
            seconds(part).value(&Value::Long(lower)),
            Some(Value::Long(naive(part, lower)))
        );
    }
}

/// After a cycle every value has occurred (but for the 53rd week and the last day of leap years), and not a step sooner.
#[test]
fn cycles_are_as_short_as_they_can_be() {
    for part in PARTS {
        let all_occur = |first: i64, steps: i64| {
            let values: BTreeSet<i64> = (first..first + steps).map(|step| part.value(step)).collect();
            values.is_superset(&usual(part))
        };
        let starts = || -1_000..4_000;
        assert!(starts().all(|first| all_occur(first, part.cycle())), "{part:?}");
        assert!(!starts().all(|first| all_occur(first, part.cycle() - 1)), "{part:?}");
    }
}

/// One step less than a cycle is told, a cycle isn't.
#[test]
fn nothing_is_said_of_a_cycle() {
    let second = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().timestamp();
    for (part, first, last, next) in [
        (Part::Minute, "2024-01-01T00:00:00Z", "2024-01-01T00:58:59Z", "2024-01-01T00:59:00Z"),
        (Part::Hour, "2024-01-01T00:30:00Z", "2024-01-01T22:59:59Z", "2024-01-01T23:00:00Z"),
        (Part::DayOfWeek, "2024-01-01T12:00:00Z", "2024-01-06T23:59:59Z", "2024-01-07T00:00:00Z"),
        (Part::DayOfYear, "2023-01-01T00:00:00Z", "2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z"),
        (Part::Month, "2024-01-31T00:00:00Z", "2024-11-30T23:59:59Z", "2024-12-01T00:00:00Z"),
        (Part::Quarter, "2024-01-31T00:00:00Z", "2024-09-30T23:59:59Z", "2024-10-01T00:00:00Z"),
    ] {
        let steps = usize::try_from(part.cycle()).unwrap() - 1;
        let told = between(&seconds(part), second(first), second(last));
        assert_eq!(told.map(|values| values.len()), Some(steps), "{part:?}");
        assert_eq!(between(&seconds(part), second(first), second(next)), None, "{part:?}");
    }
}

#[test]
fn ends_of_time() {
    for part in PARTS {
        for (lower, upper) in [(i64::MIN, i64::MAX), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX)] {
            for per_minute in [60_000_000, 60_000_000_000] {
                let cycle = Cycle::new(part, Scale::Ticks { per_minute }, None);
                assert_eq!(between(&cycle, lower, upper).is_none(), lower != upper, "{part:?}");
                let local = Cycle { zone: Some("America/New_York".into()), ..cycle };
                assert!(lower == upper || between(&local, lower, upper).is_none(), "{part:?}");
            }
            for scale in [Scale::Dates, Scale::Filed(Filed::Year), Scale::Filed(Filed::Hour)] {
                assert_eq!(between(&Cycle::new(part, scale, None), lower, upper), None);
            }
        }
    }
}

/// What partitions stand for: until 1970 the step before may be filed with a step.
#[test]
fn partitions() {
    let filed = |part, transform| seconds(part).filed(transform);
    let of = |part, transform, at: i64| {
        let cycle = filed(part, transform).unwrap();
        between(&cycle, at, at).map(|values| values.into_iter().collect::<Vec<_>>())
    };
    // 2026-06-04, a Thursday.
    assert_eq!(of(Part::Month, Transform::Day, 20_608), Some(vec![6]));
    assert_eq!(of(Part::DayOfWeek, Transform::Day, 20_608), Some(vec![4]));
    assert_eq!(of(Part::IsoDayOfWeek, Transform::Day, 20_608), Some(vec![3]));
    assert_eq!(of(Part::DayOfMonth, Transform::Day, 1), Some(vec![2]));
    assert_eq!(of(Part::DayOfMonth, Transform::Day, 0), Some(vec![1, 31]));
    assert_eq!(of(Part::DayOfMonth, Transform::Day, -1), Some(vec![30, 31]));
    assert_eq!(of(Part::Hour, Transform::Hour, 25), Some(vec![1]));
    assert_eq!(of(Part::Hour, Transform::Hour, 0), Some(vec![0, 23]));
    assert_eq!(of(Part::Month, Transform::Month, 677), Some(vec![6]));
    assert_eq!(of(Part::Quarter, Transform::Month, 0), Some(vec![1, 4]));
    assert_eq!(of(Part::DayOfMonth, Transform::Month, 1), Some((1..=28).collect()));
    assert_eq!(of(Part::Week, Transform::Month, 1), Some(vec![5, 6, 7, 8, 9]));
    for (part, transform) in [
        (Part::Month, Transform::Year),
        (Part::DayOfWeek, Transform::Month),
        (Part::Hour, Transform::Day),
        (Part::Minute, Transform::Hour),
        (Part::Month, Transform::Bucket(4)),
    ] {
        assert_eq!(filed(part, transform), None, "{part:?} {transform}");
    }
    let date = Cycle::new(Part::DayOfMonth, Scale::Dates, None);
    assert_eq!(date.filed(Transform::Day), Some(date.clone()));
    assert_eq!(date.filed(Transform::Hour), None);
}

/// A day of UTC touches two days of New York, and hours of it are moved by what the clocks say then.
#[test]
fn local_time() {
    let local = |part| Cycle { zone: Some("America/New_York".into()), ..seconds(part) };
    let day = 19_792 * 86_400; // 2024-03-10, when clocks go forward at 07:00 UTC
    let of = |part, from: i64, to: i64| {
        between(&local(part), day + from, day + to).map(|values| values.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(of(Part::DayOfMonth, 0, 86_399), Some(vec![9, 10]));
    assert_eq!(of(Part::DayOfMonth, 40 * 3_600, 40 * 3_600), Some(vec![11]));
    // Before the change an hour more is kept than there was.
    assert_eq!(of(Part::Hour, 5 * 3_600, 6 * 3_600), Some(vec![0, 1, 2]));
    assert_eq!(of(Part::Hour, 20 * 3_600, 21 * 3_600), Some(vec![16, 17]));
    assert_eq!(of(Part::Hour, 72 * 3_600, 73 * 3_600), Some(vec![20, 21]));
    assert_eq!(local(Part::Hour).value(&Value::Long(day + 7 * 3_600)), Some(Value::Long(3)));
    assert_eq!(local(Part::Hour).value(&Value::Long(day + 7 * 3_600 - 1)), Some(Value::Long(1)));
    let nowhere = Cycle { zone: Some("Nowhere/Else".into()), ..seconds(Part::DayOfMonth) };
    assert_eq!(nowhere.value(&Value::Long(0)), None);
    assert_eq!(between(&nowhere, 43_200, 43_200).map(|values| values.len()), Some(3));
}
