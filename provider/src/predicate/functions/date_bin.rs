//! Which bin is a timestamp in that nanoseconds can't hold?
//!
//! DataFusion 53's `date_bin` multiplies every value to nanoseconds, unchecked: beyond the years 1677 to 2262 the answer is
//! another time altogether. Here bins are counted in as many bits as it takes:
//!
//! ```text
//! stride 3 hours     … │ origin − 3 h │ origin │ origin + 3 h │ …     the last that isn't after the timestamp
//! stride 2 months    the same, by the calendar: of a month that is shorter than the origin's day the last day
//! ```

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::arity::try_unary;
use arrow::datatypes::{DataType, Int64Type, IntervalDayTime, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;
use chrono::{DateTime, Datelike, Months, NaiveDateTime};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// `date_bin` as the engine has it, for every year.
pub fn date_bin_of_every_year() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(DateBin { inner: date_bin(), signature })
}

/// See [`date_bin_of_every_year`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DateBin {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for DateBin {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Times keep their unit, of which the engine would make nanoseconds where they have a zone.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (stride, time, origin) = match types {
            [stride, time] => (stride, time, None),
            [stride, time, origin] => (stride, time, Some(origin)),
            _ => return exec_err!("date_bin takes a stride, a time, and an origin or none"),
        };
        let stride = match stride {
            DataType::Interval(IntervalUnit::DayTime) => stride.clone(),
            DataType::Interval(_) | DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
            other => return exec_err!("date_bin takes an interval as its stride, and not {other}"),
        };
        let time = match time {
            DataType::Timestamp(_, _) | DataType::Time32(_) | DataType::Time64(_) => time.clone(),
            DataType::Date32 => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            other => return exec_err!("date_bin takes a timestamp or a time, and not {other}"),
        };
        let origin = origin.map(|_| match &time {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            of_day => of_day.clone(),
        });
        Ok([stride, time].into_iter().chain(origin).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    /// Leaves to the engine what isn't a timestamp, or has no stride or origin to count by, and what that says of it.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some((kind, counts, scalar)), Some(bins)) = (args.args.get(1).and_then(times), Bins::of(&args.args))
        else {
            return self.inner.invoke_with_args(args);
        };
        let per = nanos_per(&kind);
        let bin = |count: i64| {
            let start = bins.start(i128::from(count) * per)?.div_euclid(per);
            i64::try_from(start).map_err(|_| out_of_range())
        };
        let binned: Int64Array = try_unary(&counts, bin)?;
        let binned = cast(&binned, &kind)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&binned, 0)?),
            false => ColumnarValue::Array(binned),
        })
    }
}

/// The type of timestamps, their counts, and whether there is one only.
fn times(values: &ColumnarValue) -> Option<(DataType, Int64Array, bool)> {
    let (values, scalar): (ArrayRef, bool) = match values {
        ColumnarValue::Array(values) => (Arc::clone(values), false),
        ColumnarValue::Scalar(value) => (value.to_array().ok()?, true),
    };
    let kind = values.data_type().clone();
    matches!(kind, DataType::Timestamp(_, _)).then_some(())?;
    let counts = cast(&values, &DataType::Int64).ok()?;
    Some((kind, counts.as_primitive::<Int64Type>().clone(), scalar))
}

fn nanos_per(kind: &DataType) -> i128 {
    match kind {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    }
}

/// Where bins begin. Times are nanoseconds since 1970.
enum Bins {
    Nanos { stride: i128, origin: i128 },
    Months { stride: i64, origin: NaiveDateTime },
}

impl Bins {
    fn of(args: &[ColumnarValue]) -> Option<Self> {
        let origin = match args.get(2) {
            None => 0,
            Some(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(origin), _))) => *origin,
            Some(_) => return None,
        };
        let (months, nanos) = match args.first()? {
            ColumnarValue::Scalar(ScalarValue::IntervalDayTime(Some(IntervalDayTime { days, milliseconds }))) => {
                (0, i128::from(*days) * NANOS_PER_DAY + i128::from(*milliseconds) * 1_000_000)
            }
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(stride))) => {
                let IntervalMonthDayNano { months, days, nanoseconds } = *stride;
                (i64::from(months), i128::from(days) * NANOS_PER_DAY + i128::from(nanoseconds))
            }
            _ => return None,
        };
        match (months, nanos) {
            (0, 1..) => Some(Bins::Nanos { stride: nanos, origin: i128::from(origin) }),
            (1.., 0) => {
                Some(Bins::Months { stride: months, origin: DateTime::from_timestamp_nanos(origin).naive_utc() })
            }
            _ => None,
        }
    }

    /// The begin of the bin that a time is in.
    fn start(&self, time: i128) -> Result<i128, ArrowError> {
        match self {
            Bins::Nanos { stride, origin } => Ok((time - origin).div_euclid(*stride) * stride + origin),
            Bins::Months { stride, origin } => {
                let moment = moment(time).ok_or_else(out_of_range)?;
                let apart = months_of(&moment) - months_of(origin);
                let bins = apart.div_euclid(*stride);
                let nth = |bin: i64| bin.checked_mul(*stride).and_then(|months| later(origin, months));
                let start = nth(bins).ok_or_else(out_of_range)?;
                let start = if start > moment { nth(bins - 1).ok_or_else(out_of_range)? } else { start };
                let utc = start.and_utc();
                Ok(i128::from(utc.timestamp()) * 1_000_000_000 + i128::from(utc.timestamp_subsec_nanos()))
            }
        }
    }
}

fn months_of(moment: &NaiveDateTime) -> i64 {
    i64::from(moment.year()) * 12 + i64::from(moment.month0())
}

fn moment(nanos: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    let rest = u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, rest).map(|moment| moment.naive_utc())
}

/// So many months later, or earlier where it is less than none.
fn later(moment: &NaiveDateTime, months: i64) -> Option<NaiveDateTime> {
    let by = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    if months < 0 { moment.checked_sub_months(by) } else { moment.checked_add_months(by) }
}

fn out_of_range() -> ArrowError {
    ArrowError::ArithmeticOverflow("date_bin: the begin of the bin is no timestamp of this type".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval(months: i32, nanos: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, 0, nanos))))
    }

    fn start(months: i32, nanos: i64, origin: Option<i64>, time: &str) -> String {
        let origin = origin.map(|at| ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(at), None)));
        let args = [interval(months, nanos), ColumnarValue::Scalar(ScalarValue::Null)];
        let bins = Bins::of(&args.into_iter().chain(origin).collect::<Vec<_>>()).unwrap();
        let time: DateTime<chrono::Utc> = time.parse().unwrap();
        let nanos = i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos());
        moment(bins.start(nanos).unwrap()).unwrap().to_string()
    }

    #[test]
    fn every_year_has_bins() {
        const HOUR: i64 = 3_600_000_000_000;
        assert_eq!(start(0, 3 * HOUR, None, "9999-12-31T23:59:59Z"), "9999-12-31 21:00:00");
        assert_eq!(start(0, 24 * HOUR, None, "0001-01-01T10:00:00Z"), "0001-01-01 00:00:00");
        assert_eq!(start(0, 24 * HOUR, Some(HOUR), "1969-12-31T00:30:00Z"), "1969-12-30 01:00:00");
        assert_eq!(start(1, 0, None, "9999-12-31T23:59:59Z"), "9999-12-01 00:00:00");
        assert_eq!(start(12, 0, None, "0004-02-29T00:00:00Z"), "0004-01-01 00:00:00");
        // Months are counted from the 31st; where there is none, from the last day.
        let last = 30 * 24 * HOUR;
        assert_eq!(start(1, 0, Some(last), "2023-03-05T00:00:00Z"), "2023-02-28 00:00:00");
        assert_eq!(start(1, 0, Some(last), "2023-03-31T00:00:00Z"), "2023-03-31 00:00:00");
        assert_eq!(start(2, 0, Some(last), "1969-11-29T23:00:00Z"), "1969-09-30 00:00:00");
    }

    proptest! {
        #[test]
        fn a_bin_holds_its_time(
            stride in 1..4_000_000_000_000_000_i64,
            months in 1..40_i32,
            origin in -9_000_000_000_000_000_000..9_000_000_000_000_000_000_i64,
            time in -62_135_596_800..253_402_300_799_i64,
        ) {
            let time = i128::from(time) * 1_000_000_000;
            let at = |months: i32, nanos: i64| {
                let origin = ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(origin), None));
                Bins::of(&[interval(months, nanos), ColumnarValue::Scalar(ScalarValue::Null), origin]).unwrap()
            };
            let start = at(0, stride).start(time).unwrap();
            prop_assert!(start <= time && time < start + i128::from(stride));
            prop_assert_eq!((start - i128::from(origin)) % i128::from(stride), 0);
            let of_months = at(months, 0);
            let start = of_months.start(time).unwrap();
            prop_assert!(start <= time);
            prop_assert_eq!(of_months.start(start).unwrap(), start, "a bin's begin is in it");
            let next = later(&moment(start).unwrap(), i64::from(months) + 1).unwrap();
            prop_assert!(moment(time).unwrap() < next);
        }
    }
}
