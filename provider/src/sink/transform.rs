//! Which partition does a row belong to?
//!
//! The transforms of Iceberg's specification ("Partition Transforms") over Arrow arrays. Time transforms and truncation
//! of integers are ours: they floor before 1970 and wrap at the ends of a type, as the specification's reference does.
//! Hashing and truncation of other types are Iceberg's library's.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Date32Array, Int32Array, TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use iceberg::spec::{Datum, PrimitiveType, Transform};
use iceberg::transform::create_transform_function;

use crate::error::{Code, Error, Result};

const MICROS_A_DAY: i64 = 86_400_000_000;
const MICROS_AN_HOUR: i64 = 3_600_000_000;

/// Refuses a transform that can't be written (V5), before any row is read.
pub(super) fn check(transform: &Transform, name: &str) -> Result<()> {
    match transform {
        Transform::Unknown => Err(Error::new(Code::NotSupported, "the partition or sort transform is not known")
            .with("field", name)
            .help("another engine's transform can be read and never written: write to a new table")),
        _ => Ok(()),
    }
}

/// The transform of every value of `array`, null where it is null. The result has the type that Iceberg gives it:
/// `int` for buckets, years, months and hours, `date` for days, else the source's.
///
/// # Errors
/// `iceberg_data_write_failed` for an hour beyond a 32-bit ordinal, `not_supported` for a type that the transform
/// doesn't take.
pub(crate) fn apply(transform: &Transform, array: &ArrayRef) -> Result<ArrayRef> {
    match transform {
        Transform::Identity => Ok(Arc::clone(array)),
        Transform::Void => Ok(new_null_array(array.data_type(), array.len())),
        Transform::Year => Ok(Arc::new(over_days(array, |day| civil(day).0 - 1970)?)),
        Transform::Month => Ok(Arc::new(over_days(array, |day| {
            let (year, month) = civil(day);
            (year - 1970) * 12 + month - 1
        })?)),
        Transform::Day => {
            let days = over_days(array, |day| day)?;
            Ok(Arc::new(days.reinterpret_cast::<Date32Type>()))
        }
        Transform::Hour => Ok(Arc::new(hours(array)?)),
        Transform::Truncate(width) if array.data_type() == &DataType::Int32 => {
            // A width that no int reaches: the remainder is the value itself, below zero the value plus the width.
            let width = i64::from(*width);
            Ok(Arc::new(unary::<Int32Type>(array, |v| {
                let v = i64::from(v);
                (v - v.rem_euclid(width)) as i32
            })))
        }
        Transform::Truncate(width) if array.data_type() == &DataType::Int64 => {
            let width = i64::from(*width);
            Ok(Arc::new(unary::<Int64Type>(array, |v| v.wrapping_sub(v.rem_euclid(width)))))
        }
        Transform::Bucket(_) if matches!(array.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            // Nanoseconds are hashed as the microseconds they lie in ("Appendix B: 32-bit Hash Requirements").
            let micros: TimestampMicrosecondArray =
                array.as_primitive::<TimestampNanosecondType>().unary(|v| v.div_euclid(1000));
            library(transform, &(Arc::new(micros) as ArrayRef))
        }
        _ => library(transform, array),
    }
}

/// What stands after `=` in a partition's directory name, as Iceberg's `toHumanString` writes it, not yet escaped.
pub(super) fn human(transform: &Transform, kind: &PrimitiveType, value: Option<&Datum>) -> String {
    let Some(value) = value else { return "null".to_owned() };
    let ordinal = || value.to_bytes().ok().and_then(|b| b.as_ref().try_into().ok().map(i32::from_le_bytes));
    match (transform, ordinal()) {
        (Transform::Void, _) => "null".to_owned(),
        (Transform::Year, Some(year)) => format!("{:04}", 1970 + i64::from(year)),
        (Transform::Month, Some(month)) => {
            let month = i64::from(month);
            format!("{:04}-{:02}", 1970 + month.div_euclid(12), month.rem_euclid(12) + 1)
        }
        (Transform::Hour, Some(hour)) => {
            let hour = i64::from(hour);
            format!("{}-{:02}", date_text(hour.div_euclid(24)), hour.rem_euclid(24))
        }
        (_, Some(day)) if *kind == PrimitiveType::Date => date_text(day.into()),
        _ => value.to_human_string(),
    }
}

fn library(transform: &Transform, array: &ArrayRef) -> Result<ArrayRef> {
    create_transform_function(transform).and_then(|f| f.transform(Arc::clone(array))).map_err(|e| {
        Error::new(Code::NotSupported, "the transform can't be computed over the column's type")
            .with("transform", transform)
            .with("type", array.data_type())
            .source(e)
    })
}

fn unary<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    f: impl Fn(T::Native) -> T::Native,
) -> arrow::array::PrimitiveArray<T> {
    array.as_primitive::<T>().unary(f)
}

/// `f` of the UTC day each value lies in, counted from 1970-01-01. Every timestamp's day fits 32 bits.
fn over_days(array: &ArrayRef, f: impl Fn(i32) -> i32) -> Result<Int32Array> {
    match array.data_type() {
        DataType::Date32 => Ok(array.as_primitive::<Date32Type>().unary(f)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(array.as_primitive::<TimestampMicrosecondType>().unary(|v| f(v.div_euclid(MICROS_A_DAY) as i32)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Ok(array.as_primitive::<TimestampNanosecondType>().unary(|v| f(v.div_euclid(MICROS_A_DAY * 1000) as i32)))
        }
        other => Err(wrong_type("year, month or day", other)),
    }
}

fn hours(array: &ArrayRef) -> Result<Int32Array> {
    let fit = |hour: i64| {
        i32::try_from(hour).map_err(|_| {
            Error::new(
                Code::IcebergDataWriteFailed,
                "a timestamp lies beyond the hours that a partition can be named for",
            )
            .with("hours since 1970", hour)
        })
    };
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().try_unary(|v| fit(v.div_euclid(MICROS_AN_HOUR)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().try_unary(|v| fit(v.div_euclid(MICROS_AN_HOUR * 1000)))
        }
        other => Err(wrong_type("hour", other)),
    }
}

fn wrong_type(transform: &str, kind: &DataType) -> Error {
    Error::new(Code::NotSupported, "the transform can't be computed over the column's type")
        .with("transform", transform)
        .with("type", kind)
}

/// Year and month (1–12) of a day since 1970-01-01, in the proleptic Gregorian calendar. The calendar repeats every 400
/// years, which are 146,097 days; counting from 1 March puts the leap day last.
fn civil(day: i32) -> (i32, i32) {
    let shifted = i64::from(day) + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as i32)
}

fn date_text(day: i64) -> String {
    let Ok(day) = i32::try_from(day) else { return day.to_string() };
    let (year, month) = civil(day);
    let array = Date32Array::from(vec![day]);
    // Within chrono's years the library prints the date; beyond, the year and month are still right.
    array.value_as_date(0).map_or_else(|| format!("{year:04}-{month:02}"), |date| date.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeBinaryArray, Int64Array, TimestampNanosecondArray};
    use chrono::Datelike;
    use proptest::prelude::*;

    use super::*;

    fn micros(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("+00:00"))
    }

    fn ints(transform: Transform, array: &ArrayRef) -> Vec<Option<i32>> {
        apply(&transform, array).unwrap().as_primitive::<Int32Type>().iter().collect()
    }

    fn days(array: &ArrayRef) -> Vec<Option<i32>> {
        apply(&Transform::Day, array).unwrap().as_primitive::<Date32Type>().iter().collect()
    }

    #[test]
    fn before_1970_everything_floors() {
        // The last microsecond of 1969, a fraction of a second before midnight of 30 December, and their neighbours.
        let array = micros(vec![Some(-1), Some(-86_400_500_000), Some(-86_400_000_000), Some(0), None]);
        assert_eq!(days(&array), [Some(-1), Some(-2), Some(-1), Some(0), None]);
        assert_eq!(ints(Transform::Hour, &array), [Some(-1), Some(-25), Some(-24), Some(0), None]);
        assert_eq!(ints(Transform::Month, &array), [Some(-1), Some(-1), Some(-1), Some(0), None]);
        assert_eq!(ints(Transform::Year, &array), [Some(-1), Some(-1), Some(-1), Some(0), None]);
    }

    #[test]
    fn truncation_wraps_at_the_ends() {
        let longs: ArrayRef = Arc::new(Int64Array::from(vec![-11, -10, -1, 0, 9, i64::MAX, i64::MIN]));
        let cut = apply(&Transform::Truncate(10), &longs).unwrap();
        assert_eq!(
            cut.as_primitive::<Int64Type>().values().as_ref(),
            [-20, -10, -10, 0, 0, i64::MAX - 7, i64::MIN.wrapping_sub(2)]
        );
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![-11, 9, i32::MIN]));
        let cut = apply(&Transform::Truncate(10), &ints).unwrap();
        assert_eq!(cut.as_primitive::<Int32Type>().values().as_ref(), [-20, 0, i32::MIN.wrapping_sub(2)]);
    }

    #[test]
    fn hashes_are_those_of_the_specification() {
        // 34 hashes to 2017239379, as int and as long.
        let bucket = Transform::Bucket(1000);
        let expected = Some((2_017_239_379 & i32::MAX) % 1000);
        assert_eq!(ints(bucket, &(Arc::new(Int32Array::from(vec![34])) as ArrayRef)), [expected]);
        assert_eq!(ints(bucket, &(Arc::new(Int64Array::from(vec![34])) as ArrayRef)), [expected]);
        let uuid = uuid::uuid!("f79c3e09-677c-4bbd-a479-3f349cb785e7").into_bytes();
        let uuid: ArrayRef = Arc::new(FixedSizeBinaryArray::from(vec![&uuid]));
        assert_eq!(ints(bucket, &uuid), [Some(1_488_055_340 % 1000)]);
        // A timestamp in nanoseconds falls into the bucket of its microsecond, also before 1970.
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1, 1_500_000_000_123_456_789]));
        assert_eq!(ints(bucket, &nanos), ints(bucket, &micros(vec![Some(-1), Some(1_500_000_000_123_456)])));
    }

    #[test]
    fn names_are_for_people() {
        let int = |v: i32| Datum::int(v);
        let text = |t, d: &Datum| human(&t, d.data_type(), Some(d));
        assert_eq!(text(Transform::Day, &Datum::date(20_608)), "2026-06-04");
        assert_eq!(text(Transform::Day, &Datum::date(-1)), "1969-12-31");
        assert_eq!(text(Transform::Month, &int(-1)), "1969-12");
        assert_eq!(text(Transform::Month, &int(677)), "2026-06");
        assert_eq!(text(Transform::Year, &int(56)), "2026");
        assert_eq!(text(Transform::Hour, &int(-1)), "1969-12-31-23");
        assert_eq!(text(Transform::Bucket(16), &int(7)), "7");
        assert_eq!(text(Transform::Identity, &Datum::string("a/b")), "a/b");
        assert_eq!(human(&Transform::Day, &PrimitiveType::Date, None), "null");
    }

    proptest! {
        #[test]
        fn time_transforms_agree_with_the_calendar(micro in -8_000_000_000_000_000_000i64..8_000_000_000_000_000_000) {
            if let Some(time) = chrono::DateTime::from_timestamp_micros(micro) {
                let array = micros(vec![Some(micro)]);
                let date = time.date_naive();
                prop_assert_eq!(ints(Transform::Year, &array), [Some(date.year() - 1970)]);
                prop_assert_eq!(ints(Transform::Month, &array), [Some((date.year() - 1970) * 12 + date.month0() as i32)]);
                let epoch = chrono::NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
                prop_assert_eq!(days(&array), [Some((date - epoch).num_days() as i32)]);
            }
        }
    }
}
