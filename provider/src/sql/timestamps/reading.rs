//! What does an expression say when it is a literal, or a cast of one?
//!
//! ```text
//! '2024-01-02'::timestamp        Local
//! TIMESTAMPTZ '2024-01-02'       Instant, in the zone of the type
//! to_timestamp('2024-01-02Z')    what it says, also where nanoseconds would overflow
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::to_timestamp::{
    ToTimestampFunc, ToTimestampMicrosFunc, ToTimestampMillisFunc, ToTimestampNanosFunc, ToTimestampSecondsFunc,
};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ScalarUDF, TryCast};

use super::compare::Comparer;
use super::moment::{Kind, Moment, zone};
use crate::error::Error;

impl Comparer<'_> {
    /// The moment that a literal of a date or timestamp type names: a value, casts of a string, `to_timestamp('…')`.
    pub(super) fn moment(&self, expr: &Expr) -> Result<Option<Moment>> {
        match expr {
            Expr::Literal(value, _) => Ok(Moment::of_scalar(value)),
            Expr::Alias(alias) => self.moment(&alias.expr),
            Expr::Cast(Cast { expr, data_type }) => {
                let Some(kind) = Kind::of(data_type) else { return Ok(None) };
                match string(expr) {
                    Some(text) => written(text, &kind).map(Some),
                    None => self.moment(expr)?.map(|moment| converted(moment, &kind)).transpose(),
                }
            }
            // What can't be cast is null, which is for the cast to find out.
            Expr::TryCast(TryCast { expr, data_type }) => match (Kind::of(data_type), string(expr)) {
                (Some(kind), Some(text)) => {
                    Ok(written(text, &kind).ok().filter(|moment| stored(moment, &kind).is_some()))
                }
                _ => Ok(None),
            },
            Expr::ScalarFunction(call) if is_to_timestamp(&call.func) => self.to_timestamp(call),
            _ => Ok(None),
        }
    }

    fn to_timestamp(&self, call: &ScalarFunction) -> Result<Option<Moment>> {
        let ([text], Some(kind)) = (call.args.as_slice(), self.kind(&Expr::ScalarFunction(call.clone()))) else {
            return Ok(None);
        };
        let Some(text) = string(text) else { return Ok(None) };
        Ok(Some(written(text, &kind)?))
    }
}

/// The value in which a type stores a moment, if it holds it exactly.
pub(super) fn stored(moment: &Moment, kind: &Kind) -> Option<(ScalarValue, bool)> {
    let (Moment::Local(at) | Moment::Instant(at, _)) = moment;
    let (count, same) = at.floor(kind.per);
    kind.scalar(count).map(|value| (value, same))
}

/// What a string literal cast to a type names. Microseconds and nanoseconds keep digits that they can't hold, for
/// the comparison to decide; whoever writes a coarser unit means it.
pub(super) fn written(text: &str, kind: &Kind) -> Result<Moment> {
    let moment = match (parse(text)?, &kind.zone) {
        (Moment::Local(at), Some(name)) => {
            Moment::Instant(at.in_zone(&zone(name).map_err(external)?), Some(Arc::clone(name)))
        }
        (Moment::Instant(at, _), Some(name)) => Moment::Instant(at, Some(Arc::clone(name))),
        (Moment::Instant(at, _), None) if matches!(kind.data_type, DataType::Date32) => Moment::Local(at),
        (moment, None) => moment,
    };
    Ok(if kind.per > 1_000 { moment.map(|at| at.floored(kind.per)) } else { moment })
}

/// What a literal of a date or timestamp type names after a cast to another, as Arrow casts.
pub(super) fn converted(moment: Moment, kind: &Kind) -> Result<Moment> {
    let moment = match (moment, &kind.zone) {
        (Moment::Local(at), Some(name)) => {
            Moment::Instant(at.in_zone(&zone(name).map_err(external)?), Some(Arc::clone(name)))
        }
        (Moment::Instant(at, _), Some(name)) => Moment::Instant(at, Some(Arc::clone(name))),
        (Moment::Instant(at, Some(name)), None) if kind.data_type == DataType::Date32 => {
            Moment::Local(at.on_clock(&zone(&name).map_err(external)?))
        }
        (Moment::Instant(at, _) | Moment::Local(at), None) => Moment::Local(at),
    };
    Ok(match kind.data_type {
        DataType::Date32 => moment.map(|at| at.floored(kind.per)),
        _ => moment.map(|at| at.cut(kind.per)),
    })
}

/// The text of a string literal.
pub(super) fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        Expr::Cast(Cast { expr, data_type }) if data_type.is_string() => string(expr),
        _ => None,
    }
}

pub(super) fn parse(text: &str) -> Result<Moment> {
    Moment::parse(text).map_err(external)
}

/// An error of ours, carried by the engine.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn is_to_timestamp(function: &ScalarUDF) -> bool {
    let function = function.inner().as_any();
    function.is::<ToTimestampFunc>()
        || function.is::<ToTimestampSecondsFunc>()
        || function.is::<ToTimestampMillisFunc>()
        || function.is::<ToTimestampMicrosFunc>()
        || function.is::<ToTimestampNanosFunc>()
}
