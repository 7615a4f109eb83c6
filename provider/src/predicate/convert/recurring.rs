//! Of which values of a recurring part of time is a comparison true?
//!
//! A part has few values, so the engine is asked of each:
//!
//! ```text
//! extract(month FROM ts) % 6 = 5        of 1 … 12: true of 5 and 11        ▶  extract(month FROM ts) IN (5, 11)
//! ```
//!
//! The part may be of a column, of its date, or of its local time in a zone.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::to_date::ToDateFunc;
use datafusion::functions::datetime::to_local_time::ToLocalTimeFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal, NegativeExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;

use super::super::cycle::{Part, Scale};
use super::super::{Cycle, Op, Predicate, Value};
use super::column::{Kind, NANOS_PER_DAY, Slot, as_text, column_of, nanos_per};
use super::order::{cast_of, is_utc};
use super::truth::Truth;
use super::{COMES_AGAIN, Scope, constant_of};

const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// Where `expr op value` may be true, of a recurring part of a time; `None` if it isn't one.
pub(super) fn compare(expr: &Arc<dyn PhysicalExpr>, op: Op, value: &ScalarValue, scope: &Scope<'_>) -> Option<Truth> {
    let asked = Asked::of(expr, scope)?;
    let comparison = BinaryExpr::new(Arc::clone(&asked.expr), super::operator(op), literal(value));
    asked.where_true(&comparison)
}

/// Where `expr` may be (or, `negated`, may not be) one of the values, none of which is null.
pub(super) fn in_list(
    expr: &Arc<dyn PhysicalExpr>,
    values: &[ScalarValue],
    negated: bool,
    scope: &Scope<'_>,
) -> Option<Truth> {
    let asked = Asked::of(expr, scope)?;
    let values = values.iter().map(literal).collect();
    let list = InListExpr::try_new(Arc::clone(&asked.expr), values, negated, &part_alone()).ok()?;
    asked.where_true(&list)
}

fn literal(value: &ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value.clone()))
}

/// The schema of a part as column 0.
fn part_alone() -> ArrowSchema {
    ArrowSchema::new(vec![Field::new("part", DataType::Int32, true)])
}

/// An expression over a part of a column's time.
struct Asked {
    field: i32,
    cycle: Cycle,
    /// The expression, of the part as column 0.
    expr: Arc<dyn PhysicalExpr>,
}

impl Asked {
    fn of(expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<Asked> {
        let [part, time] = part_within(expr)?.args() else { return None };
        let part = part_named(as_text(&constant_of(part)?)?)?;
        let time = Time::of(time, scope)?;
        if time.a_date && matches!(part, Part::Hour | Part::Minute) {
            return None;
        }
        let Kind::Instant { nanos_per_tick, .. } = time.slot.kind else { return None };
        let scale = match nanos_per_tick {
            NANOS_PER_DAY => Scale::Dates,
            tick => Scale::Ticks { per_minute: i64::try_from(NANOS_PER_MINUTE / tick).ok()? },
        };
        let expr = Arc::clone(expr).transform_down(as_column_0).data().ok()?;
        Some(Asked { field: time.slot.field, cycle: Cycle::new(part, scale, time.zone), expr })
    }

    /// Where the part has a value of which the condition is true. `None` if the condition fails for some, or is true where
    /// the part is null (as of times beyond the calendar).
    fn where_true(self, condition: &dyn PhysicalExpr) -> Option<Truth> {
        let all: Vec<i64> = self.cycle.part().values().collect();
        let cells: Option<Vec<_>> = all.iter().map(|value| i32::try_from(*value).ok()).collect();
        let cells: ArrayRef = Arc::new(cells?.into_iter().map(Some).chain([None]).collect::<Int32Array>());
        let batch = RecordBatch::try_new(Arc::new(part_alone()), vec![cells]).ok()?;
        let truths = condition.evaluate(&batch).ok()?.into_array(batch.num_rows()).ok()?;
        let truths: Vec<bool> = truths.as_boolean_opt()?.iter().map(|truth| truth == Some(true)).collect();
        let (of_null, of_values) = truths.split_last()?;
        if *of_null {
            return None;
        }
        let values = all.into_iter().zip(of_values).filter(|(_, truth)| **truth);
        let values = values.map(|(value, _)| Value::Long(value)).collect();
        Some(Truth::within(Predicate::recurs(self.field, self.cycle, values), COMES_AGAIN))
    }
}

/// The `date_part` that the expression converts or calculates with, if nothing else in it varies.
fn part_within(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarFunctionExpr> {
    let any = expr.as_any();
    if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>()
        && function.fun().inner().as_any().is::<DatePartFunc>()
    {
        return Some(function);
    }
    if let Some((inner, _)) = cast_of(expr) {
        return part_within(inner);
    }
    if let Some(negative) = any.downcast_ref::<NegativeExpr>() {
        return part_within(negative.arg());
    }
    use Operator as O;
    let binary = any.downcast_ref::<BinaryExpr>()?;
    if !matches!(binary.op(), O::Plus | O::Minus | O::Multiply | O::Divide | O::Modulo) {
        return None;
    }
    match (constant_of(binary.left()), constant_of(binary.right())) {
        (None, Some(_)) => part_within(binary.left()),
        (Some(_), None) => part_within(binary.right()),
        _ => None,
    }
}

fn as_column_0(expr: Arc<dyn PhysicalExpr>) -> datafusion::common::Result<Transformed<Arc<dyn PhysicalExpr>>> {
    let is_part = |function: &ScalarFunctionExpr| function.fun().inner().as_any().is::<DatePartFunc>();
    if expr.as_any().downcast_ref().is_some_and(is_part) {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("part", 0));
        return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
    }
    Ok(Transformed::no(expr))
}

/// The part that the engine understands by a name, if it comes again.
fn part_named(name: &str) -> Option<Part> {
    let quote = ['\'', '"'];
    let unquoted = name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote)).unwrap_or(name);
    match IntervalUnit::from_str(unquoted) {
        Ok(IntervalUnit::Month) => Some(Part::Month),
        Ok(IntervalUnit::Week) => Some(Part::Week),
        Ok(IntervalUnit::Day) => Some(Part::DayOfMonth),
        Ok(IntervalUnit::Hour) => Some(Part::Hour),
        Ok(IntervalUnit::Minute) => Some(Part::Minute),
        Ok(_) => None,
        Err(_) => match unquoted.to_lowercase().as_str() {
            "qtr" | "quarter" => Some(Part::Quarter),
            "doy" => Some(Part::DayOfYear),
            "dow" => Some(Part::DayOfWeek),
            "isodow" => Some(Part::IsoDayOfWeek),
            _ => None,
        },
    }
}

/// An expression whose year, month, day and time of day are those of a column, as they are read in a zone.
struct Time {
    slot: Slot,
    /// `None` for UTC, and for a column without zone.
    zone: Option<Arc<str>>,
    /// It is the column's instant too, so that it may be read in another zone.
    instant: bool,
    /// It has lost its time of day.
    a_date: bool,
}

impl Time {
    fn of(expr: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<Time> {
        let any = expr.as_any();
        if column_of(expr, scope.arrow).is_some() {
            let slot = Slot::of(expr, scope.arrow, scope.schema).filter(|slot| slot.same_type)?;
            let zone = match &slot.arrow {
                DataType::Date32 => None,
                DataType::Timestamp(_, zone) => other_than_utc(zone.as_ref()),
                _ => return None,
            };
            return Some(Time { slot, zone, instant: true, a_date: false });
        }
        if let Some((inner, to)) = cast_of(expr) {
            return Time::of(inner, scope)?.cast(&inner.data_type(scope.arrow).ok()?, to);
        }
        let function = any.downcast_ref::<ScalarFunctionExpr>()?;
        let called = function.fun().inner().as_any();
        match function.args() {
            [inner] if called.is::<ToDateFunc>() => {
                Time::of(inner, scope)?.cast(&inner.data_type(scope.arrow).ok()?, &DataType::Date32)
            }
            // What is read stays the same, and becomes another instant.
            [inner] if called.is::<ToLocalTimeFunc>() => Some(Time { instant: false, ..Time::of(inner, scope)? }),
            _ => None,
        }
    }

    fn cast(self, from: &DataType, to: &DataType) -> Option<Time> {
        use DataType as A;
        match (from, to) {
            (A::Date32, A::Date32) => Some(self),
            (A::Timestamp(_, _), A::Date32) => Some(Time { a_date: true, instant: false, ..self }),
            (A::Date32, A::Timestamp(_, zone)) => Some(self.placed(zone.as_ref())),
            (A::Timestamp(from, None), A::Timestamp(to, zone)) if is_finer(to, from) => {
                Some(self.placed(zone.as_ref()))
            }
            (A::Timestamp(from, Some(_)), A::Timestamp(to, zone)) if is_finer(to, from) && self.instant => {
                Some(Time { zone: other_than_utc(zone.as_ref()), ..self })
            }
            _ => None,
        }
    }

    /// A time without zone is read in one as it is; in another zone than UTC this makes it another instant.
    fn placed(self, zone: Option<&Arc<str>>) -> Time {
        let instant = self.instant && other_than_utc(zone).is_none();
        Time { instant, ..self }
    }
}

fn other_than_utc(zone: Option<&Arc<str>>) -> Option<Arc<str>> {
    zone.filter(|zone| !is_utc(zone)).cloned()
}

/// No digit is lost in it.
fn is_finer(unit: &TimeUnit, than: &TimeUnit) -> bool {
    nanos_per(unit) <= nanos_per(than)
}
