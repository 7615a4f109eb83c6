//! How is a value compared with one of another type, where the engine compares wrongly or not at all?
//!
//! ```text
//! d >= 9999999.99              d >= DECIMAL '9999999.99'
//! d >= f                       CAST(d AS DOUBLE) >= f
//! u = 'f79c3e09-677c-4bbd-…'   u = X'f79c3e09677c4bbd…'
//! t >= TIME '12:00'            CAST(t AS TIME of nanoseconds) >= TIME '12:00'
//! ```
//!
//! A literal with a point is a double, and DataFusion 53 turns doubles into decimals of fifteen digits after the point, which
//! shows what is no digit of theirs: `9999999.990000001220608`, and rows are lost. A literal of at most fifteen digits means
//! what it says, as a double and as a decimal. Beside other floats the decimal becomes a double. Uuids beside text, and times
//! of different units, are refused.
//!
//! Functions and zones that take a timestamp of nanoseconds for one of microseconds can't hold the years after 2262: they get
//! microseconds here.
// @spec P3

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite;

/// Digits that a double has for certain.
const DIGITS: usize = 15;
/// Bytes of a uuid.
const UUID: i32 = 16;
/// Functions of the engine that would have dates as timestamps of nanoseconds.
const OF_TIMES: [&str; 2] = ["date_trunc", "date_bin"];

/// Makes what is compared one type. It must run before type coercion.
#[derive(Clone, Copy, Debug)]
pub struct Alike;

impl AnalyzerRule for Alike {
    fn name(&self) -> &str {
        "alike"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !rewrite::concerns(&plan, |_| false, concerns)? {
            return Ok(plan);
        }
        // The zone of the type TIMESTAMP WITH TIME ZONE: who casts to that with nine digits means them.
        let own = config.execution.time_zone.as_deref().unwrap_or("+00:00");
        Ok(plan.transform_up_with_subqueries(|node| rewrite_node(node, own))?.data)
    }
}

fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::InList(_) | Expr::Between(_) => true,
        Expr::Cast(cast) => is_zoned(&cast.data_type),
        Expr::ScalarFunction(function) => OF_TIMES.contains(&function.name()),
        _ => false,
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

/// What the engine makes of a timestamp with `AT TIME ZONE`.
fn is_zoned(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(TimeUnit::Nanosecond, Some(_)))
}

fn rewrite_node(node: LogicalPlan, own: &str) -> Result<Transformed<LogicalPlan>> {
    let schema = rewrite::columns_in_reach(&node)?;
    rewrite::expressions(node, |expr| expr.transform_up(|expr| Ok(alike(expr, &schema, own))))
}

/// `own` is the session's zone.
fn alike(mut expr: Expr, schema: &DFSchema, own: &str) -> Transformed<Expr> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            agree(&mut [left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            agree(&mut [expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            let mut all: Vec<&mut Expr> = std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect();
            agree(&mut all, schema)
        }
        Expr::Cast(Cast { expr, data_type }) if is_zoned(data_type) => in_microseconds(expr, data_type, schema, own),
        Expr::ScalarFunction(function) if OF_TIMES.contains(&function.name()) => {
            function.args.get_mut(1).is_some_and(|of| a_timestamp(of, schema))
        }
        _ => false,
    };
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Keeps a timestamp of microseconds, or coarser, what it is in a zone.
fn in_microseconds(expr: &Expr, zoned: &mut DataType, schema: &DFSchema, own: &str) -> bool {
    if matches!(zoned, DataType::Timestamp(_, Some(zone)) if zone.as_ref() == own) {
        return false;
    }
    let unit = match expr.get_type(schema) {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, _)) | Err(_) => return false,
        Ok(DataType::Timestamp(unit, _)) => unit,
        Ok(DataType::Date32) => TimeUnit::Microsecond,
        Ok(_) => return false,
    };
    let DataType::Timestamp(_, zone) = zoned else { return false };
    *zoned = DataType::Timestamp(unit, zone.take());
    true
}

/// Makes a timestamp of microseconds of a date.
fn a_timestamp(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is_date = matches!(expr.get_type(schema), Ok(DataType::Date32));
    if is_date {
        become_cast(expr, DataType::Timestamp(TimeUnit::Microsecond, None));
    }
    is_date
}

fn become_cast(expr: &mut Expr, to: DataType) {
    let inner = std::mem::replace(expr, lit(ScalarValue::Null));
    *expr = cast(inner, to);
}

/// Makes what is compared with each other one type, where the engine can't. False where nothing has changed.
fn agree(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<Option<DataType>> = all.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let is = |what: fn(&DataType) -> bool| types.iter().map(|ty| ty.as_ref().is_some_and(what)).collect::<Vec<_>>();
    let any = |which: &[bool]| which.contains(&true);
    let (decimal, float) = (is(DataType::is_decimal), is(DataType::is_floating));
    if any(&decimal) && any(&float) {
        with_floats(all, &types, &decimal, &float);
        return true;
    }
    let (uuid, text) = (is(|ty| *ty == DataType::FixedSizeBinary(UUID)), is(DataType::is_string));
    if any(&uuid) && any(&text) {
        return all.iter_mut().zip(text).fold(false, |changed, (expr, text)| (text && a_uuid(expr)) || changed);
    }
    let fine = is(|ty| *ty == DataType::Time64(TimeUnit::Nanosecond));
    let coarse = is(|ty| matches!(ty, DataType::Time32(_) | DataType::Time64(TimeUnit::Microsecond)));
    if any(&fine) && any(&coarse) {
        let coarse = all.iter_mut().zip(coarse).filter(|(_, coarse)| *coarse);
        coarse.for_each(|(expr, _)| become_cast(expr, DataType::Time64(TimeUnit::Nanosecond)));
        return true;
    }
    false
}

/// Makes decimals of the floats, or else doubles of the decimals.
fn with_floats(all: &mut [&mut Expr], types: &[Option<DataType>], decimal: &[bool], float: &[bool]) {
    let (mut whole, mut scale) = (0, 0);
    for ty in types.iter().flatten() {
        if let DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) = ty {
            whole = whole.max(i32::from(*p) - i32::from(*s));
            scale = scale.max(i32::from(*s));
        }
    }
    let floats = all.iter().zip(float).filter(|(_, float)| **float);
    let exact: Option<Vec<Expr>> = floats.map(|(expr, _)| exact(expr, whole, scale)).collect();
    match exact {
        Some(exact) => {
            let floats = all.iter_mut().zip(float).filter(|(_, float)| **float);
            floats.zip(exact).for_each(|((expr, _), exact)| **expr = exact);
        }
        None => {
            let decimals = all.iter_mut().zip(decimal).filter(|(_, decimal)| **decimal);
            decimals.for_each(|(expr, _)| become_cast(expr, DataType::Float64));
        }
    }
}

/// A literal as the decimal that it is written as, if that can be compared with decimals of so many digits before and after
/// the point.
fn exact(expr: &Expr, whole: i32, scale: i32) -> Option<Expr> {
    let (negative, inner) = match expr {
        Expr::Negative(inner) => (true, inner.as_ref()),
        _ => (false, expr),
    };
    let Expr::Literal(ScalarValue::Float64(Some(value)), _) = inner else { return None };
    let value = if negative { -value } else { *value };
    if !value.is_finite() {
        return None;
    }
    // The shortest that stands for this double.
    let text = value.to_string();
    let (before, after) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{before}{after}");
    let significant = digits.trim_start_matches(['-', '0']);
    if significant.trim_end_matches('0').len() > DIGITS {
        return None;
    }
    let own = i32::try_from(after.len()).ok()?;
    let before = before.trim_start_matches(['-', '0']).len();
    let both = whole.max(i32::try_from(before).ok()?) + scale.max(own);
    if both > i32::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    let precision = u8::try_from(significant.len().max(after.len()).max(1)).ok()?;
    Some(lit(ScalarValue::Decimal128(Some(digits.parse().ok()?), precision, i8::try_from(own).ok()?)))
}

/// Makes the bytes of a uuid of the text of one.
fn a_uuid(expr: &mut Expr) -> bool {
    let Expr::Literal(value, _) = &*expr else { return false };
    let Some(Some(text)) = value.try_as_str() else { return false };
    let Ok(uuid) = uuid::Uuid::parse_str(text.trim()) else { return false };
    *expr = lit(ScalarValue::FixedSizeBinary(UUID, Some(uuid.as_bytes().to_vec())));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(value: f64) -> Option<(i128, i8)> {
        match exact(&lit(value), 7, 2)? {
            Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => Some((value, scale)),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_literal_of_few_digits_is_a_decimal() {
        assert_eq!(literal(9_999_999.99), Some((999_999_999, 2)));
        assert_eq!(literal(-0.005), Some((-5, 3)));
        assert_eq!(literal(-0.0), Some((0, 0)));
        assert_eq!(literal(1e20), Some((100_000_000_000_000_000_000, 0)));
        assert_eq!(literal(0.1 + 0.2), None, "seventeen digits");
        assert_eq!(literal(f64::NAN), None);
        assert_eq!(literal(1e40), None);
        assert_eq!(exact(&lit(1e30), 36, 3), None, "more digits than decimals have");
        assert!(exact(&Expr::Negative(Box::new(lit(1.5))), 7, 2).is_some());
    }
}
