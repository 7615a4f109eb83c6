//! How is a timestamp truncated that nanoseconds can't hold?
//!
//! DataFusion 53's `date_trunc` multiplies every value to nanoseconds, unchecked: beyond the years 1677 to 2262 the answer is
//! another time altogether. The calendar repeats every 400 years, weekdays too:
//!
//! ```text
//! 9999-12-31T23:59 ─ 20 cycles back ─▶ 1999-12-31T23:59 ─ date_trunc ─▶ 1999-12-01 ─ 20 cycles on ─▶ 9999-12-01
//! ```

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::arity::try_unary;
use arrow::compute::kernels::numeric::{add, sub};
use arrow::datatypes::{DataType, FieldRef, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::date_trunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// 400 years in seconds.
const CYCLE: i64 = 146_097 * 86_400;
/// 1700-01-01 in seconds: a whole cycle from here is well inside of what nanoseconds hold.
const HOME: i64 = -98_615 * 86_400;
/// 1678-01-01 and 2262-01-01 in seconds: the whole years that nanoseconds hold.
const HELD: std::ops::Range<i64> = -106_650 * 86_400..106_651 * 86_400;

/// `date_trunc` as the engine has it, for every year.
pub fn date_trunc_of_every_year() -> ScalarUDF {
    ScalarUDF::from(DateTrunc { inner: date_trunc() })
}

/// See [`date_trunc_of_every_year`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DateTrunc {
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
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(coarse) = args.args.get(1).and_then(early) {
            return self.in_microseconds(args, coarse);
        }
        let Some((kind, values, shifts)) = args.args.get(1).map(moved).transpose()?.flatten() else {
            return self.as_of_columns(args);
        };
        let scalar = matches!(args.args.get(1), Some(ColumnarValue::Scalar(_)));
        if let Some(value) = args.args.get_mut(1) {
            *value = ColumnarValue::Array(cast(&values, &kind)?);
        }
        args.number_rows = values.len();
        let truncated = self.inner.invoke_with_args(args)?.into_array(values.len())?;
        let truncated = cast(&truncated, &DataType::Int64)?;
        let truncated = add(&truncated, &shifts)?;
        let truncated = cast(&truncated, &kind)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?),
            false => ColumnarValue::Array(truncated),
        })
    }
}

impl DateTrunc {
    /// Constants as columns of one row: the engine rounds fractions of seconds before 1970 up where it is given one.
    fn as_of_columns(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let one = match args.args.get_mut(1) {
            Some(value @ ColumnarValue::Scalar(_)) => {
                let row = value.to_array(1)?;
                *value = ColumnarValue::Array(row);
                true
            }
            _ => false,
        };
        if !one {
            return self.inner.invoke_with_args(args);
        }
        args.number_rows = 1;
        let truncated = self.inner.invoke_with_args(args)?.into_array(1)?;
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?))
    }

    /// Truncates microseconds, and makes nanoseconds of what comes.
    fn in_microseconds(
        &self,
        mut args: ScalarFunctionArgs,
        (kind, coarse): (DataType, ArrayRef),
    ) -> Result<ColumnarValue> {
        let scalar = matches!(args.args.get(1), Some(ColumnarValue::Scalar(_)));
        if let Some(value) = args.args.get_mut(1) {
            *value = ColumnarValue::Array(Arc::clone(&coarse));
        }
        args.number_rows = coarse.len();
        args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(coarse.data_type().clone()));
        let truncated = self.invoke_with_args(args)?.into_array(coarse.len())?;
        let truncated = cast(&truncated, &DataType::Int64)?;
        let beyond = || ArrowError::ArithmeticOverflow("date_trunc: nanoseconds can't hold the begin".to_owned());
        let finer = |micros: i64| micros.checked_mul(1_000).ok_or_else(beyond);
        let finer: Int64Array = try_unary(truncated.as_primitive::<Int64Type>(), finer)?;
        let finer = cast(&finer, &kind)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&finer, 0)?),
            false => ColumnarValue::Array(finer),
        })
    }
}

/// The type of timestamps of nanoseconds, and they as microseconds, where one is of 1677, whose begin nanoseconds don't hold.
fn early(values: &ColumnarValue) -> Option<(DataType, ArrayRef)> {
    let values = match values {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array().ok()?,
    };
    let kind = values.data_type().clone();
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = &kind else { return None };
    let counts = cast(&values, &DataType::Int64).ok()?;
    let counts = counts.as_primitive::<Int64Type>();
    counts.iter().flatten().any(|count| count < HELD.start * 1_000_000_000).then_some(())?;
    let micros: Int64Array = counts.unary(|count| count.div_euclid(1_000));
    let coarse = cast(&micros, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone())).ok()?;
    Some((kind, coarse))
}

/// The type of timestamps, their counts moved by whole cycles to where nanoseconds hold them, and by how much; `None` where
/// nanoseconds hold them as they are.
fn moved(values: &ColumnarValue) -> Result<Option<(DataType, ArrayRef, Int64Array)>> {
    let values = match values {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    let kind = values.data_type().clone();
    let DataType::Timestamp(unit, zone) = &kind else { return Ok(None) };
    let per: i64 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => return Ok(None),
    };
    let counts = cast(&values, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let held = |count: i64| HELD.contains(&count.div_euclid(per));
    if counts.iter().flatten().all(held) {
        return Ok(None);
    }
    // Where clocks change, a year isn't like the one 400 years before.
    if let Some(zone) = zone
        && zone.as_ref() != "UTC"
        && !zone.starts_with(['+', '-'])
    {
        let what = format!("date_trunc in the zone {zone} of years before 1678 and after 2261");
        return Err(DataFusionError::NotImplemented(what));
    }
    let shift = |count: i64| match held(count) {
        true => Ok(0),
        false => {
            let cycles = (count.div_euclid(per) - HOME).div_euclid(CYCLE);
            let beyond = || ArrowError::ArithmeticOverflow(format!("date_trunc of {count}"));
            cycles.checked_mul(CYCLE * per).ok_or_else(beyond)
        }
    };
    let shifts: Int64Array = try_unary(counts, shift)?;
    let near = sub(counts, &shifts)?;
    Ok(Some((kind, near, shifts)))
}

#[cfg(test)]
mod tests {
    use arrow::util::display::{ArrayFormatter, FormatOptions};

    use crate::session::{Options, Session};

    async fn truncated(to: &str, values: &[&str], kind: &str) -> Result<Vec<String>, crate::Error> {
        let session = Session::new(Options::at("memory://truncate"))?;
        let rows: Vec<String> = values.iter().map(|value| format!("('{value}')")).collect();
        let sql = format!(
            "SELECT date_trunc('{to}', arrow_cast(v, '{kind}')) AS t FROM (VALUES {}) r(v) ORDER BY t",
            rows.join(", ")
        );
        let batches = session.query(&sql).await?.batches;
        let shown = batches.iter().flat_map(|batch| {
            let column = ArrayFormatter::try_new(batch.column(0), &FormatOptions::default()).unwrap();
            (0..batch.num_rows()).map(|row| column.value(row).to_string()).collect::<Vec<_>>()
        });
        Ok(shown.collect())
    }

    #[tokio::test]
    async fn every_year_is_truncated() {
        let values = ["0001-01-03T10:20:30", "1500-03-01T00:00:01", "1969-12-31T23:59:59", "9999-12-31T23:59:59"];
        for unit in ["Second", "Millisecond", "Microsecond"] {
            for zone in ["None", "Some(\"UTC\")", "Some(\"+00:00\")"] {
                let kind = format!("Timestamp({unit}, {zone})");
                let mark = if zone == "None" { "" } else { "Z" };
                for (to, right) in [
                    ("year", ["0001-01-01T00", "1500-01-01T00", "1969-01-01T00", "9999-01-01T00"]),
                    ("quarter", ["0001-01-01T00", "1500-01-01T00", "1969-10-01T00", "9999-10-01T00"]),
                    ("month", ["0001-01-01T00", "1500-03-01T00", "1969-12-01T00", "9999-12-01T00"]),
                    ("week", ["0001-01-01T00", "1500-02-26T00", "1969-12-29T00", "9999-12-27T00"]),
                    ("day", ["0001-01-03T00", "1500-03-01T00", "1969-12-31T00", "9999-12-31T00"]),
                    ("hour", ["0001-01-03T10", "1500-03-01T00", "1969-12-31T23", "9999-12-31T23"]),
                ] {
                    let right = right.map(|start| format!("{start}:00:00{mark}"));
                    assert_eq!(truncated(to, &values, &kind).await.unwrap(), right, "{to} {kind}");
                }
            }
        }
    }

    #[tokio::test]
    async fn nanoseconds_hold_no_begin_of_1677() {
        let (kind, first) = ("Timestamp(Nanosecond, None)", "1677-09-21T00:12:43.145224193");
        assert_eq!(truncated("minute", &["1677-09-21T00:14:30"], kind).await.unwrap(), ["1677-09-21T00:14:00"]);
        assert_eq!(truncated("day", &["1677-09-22T01:00:00"], kind).await.unwrap(), ["1677-09-22T00:00:00"]);
        assert_eq!(truncated("hour", &["1677-12-31T23:30:00"], kind).await.unwrap(), ["1677-12-31T23:00:00"]);
        for to in ["year", "month", "day", "second"] {
            let error = truncated(to, &["2024-01-01T00:00:00", first], kind).await.unwrap_err();
            assert_eq!(error.code(), crate::Code::InvalidValue, "{to}: {error}");
        }
    }

    #[tokio::test]
    async fn where_clocks_change_far_years_are_refused() {
        let berlin = "Timestamp(Microsecond, Some(\"Europe/Berlin\"))";
        let near = truncated("day", &["2024-06-04T12:00:00"], berlin).await.unwrap();
        assert_eq!(near, ["2024-06-04T00:00:00+02:00"]);
        let error = truncated("day", &["2024-06-04T12:00:00", "9999-12-31T12:00:00"], berlin).await.unwrap_err();
        assert_eq!(error.code(), crate::Code::NotSupported);
    }
}
