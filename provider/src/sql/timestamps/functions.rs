//! How does a value meet a column of a coarser unit without losing a digit or overflowing?
//!
//! A nanosecond value compares with a microsecond column through the two microseconds around it:
//!
//! ```text
//! us <  ns   ⇔   us <  timestamp_ceil(ns)          us = ns   ⇔   us = timestamp_floor(ns) AND us = timestamp_ceil(ns)
//! us <= ns   ⇔   us <= timestamp_floor(ns)
//! ```
//!
//! Going to the coarser unit cannot overflow. Each function takes the value and a typed NULL that names the target type, and
//! is immutable, so the optimizer folds it over constants (`now()` among them) and the column stays bare.

use std::any::Any;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast, cast_with_options, kernels::arity::unary};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::FormatOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::moment::Kind;

/// What a function does to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    /// The largest value of the target type that is not after the value.
    Floor,
    /// The smallest value of the target type that is not before the value.
    Ceil,
    /// The cast to a coarser unit, cut towards 1970. In a call because DataFusion 53 unwraps the cast when it compares
    /// the result with a literal, as if no digits had been lost.
    Cut,
    /// The cast of a zone-less timestamp to one with a zone. In a call because DataFusion 53 unwraps the cast as if the
    /// zone were UTC.
    InZone,
}

impl Change {
    const ALL: [Change; 4] = [Change::Floor, Change::Ceil, Change::Cut, Change::InZone];

    fn name(self) -> &'static str {
        match self {
            Change::Floor => "timestamp_floor",
            Change::Ceil => "timestamp_ceil",
            Change::Cut => "timestamp_cut",
            Change::InZone => "timestamp_in_zone",
        }
    }

    /// This change of `expr`, to `target`.
    pub(super) fn call(self, expr: Expr, target: &DataType) -> Result<Expr> {
        let target = Expr::Literal(ScalarValue::try_from(target)?, None);
        Ok(self.udf().call(vec![expr, target]))
    }

    fn udf(self) -> ScalarUDF {
        ScalarUDF::from(Function { change: self, signature: Signature::any(2, Volatility::Immutable) })
    }
}

/// The functions that rewritten plans call, for registries that look functions up by name.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    Change::ALL.into_iter().map(|change| Arc::new(change.udf())).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    change: Change,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.change.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, target] => Ok(target.clone()),
            _ => Err(self.wrong("takes a value and a typed NULL")),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = args.return_field.data_type();
        match args.args.first() {
            Some(ColumnarValue::Array(values)) => Ok(ColumnarValue::Array(self.apply(values, target)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let values = self.apply(&value.to_array()?, target)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?))
            }
            None => Err(self.wrong("takes a value and a typed NULL")),
        }
    }
}

impl Function {
    fn apply(&self, values: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
        let strict = CastOptions { safe: false, format_options: FormatOptions::default() };
        if self.change == Change::InZone || values.data_type() == &DataType::Null {
            return Ok(cast_with_options(values, target, &strict)?);
        }
        let (Some(from), Some(to)) = (Kind::of(values.data_type()), Kind::of(target)) else {
            return Err(self.wrong("takes dates and timestamps"));
        };
        let factor = i64::try_from(to.per / from.per).ok().filter(|factor| *factor > 0);
        let Some(factor) = factor else { return Err(self.wrong("never goes to a finer unit")) };
        let counts = counts(values)?;
        let counts: Int64Array = match self.change {
            Change::Floor => unary(&counts, |count| count.div_euclid(factor)),
            Change::Ceil => unary(&counts, |count| {
                // The quotient of i64::MAX leaves room for the one that is added unless factor is 1 and nothing remains.
                count.div_euclid(factor) + i64::from(count.rem_euclid(factor) != 0)
            }),
            Change::Cut | Change::InZone => unary(&counts, |count| count / factor),
        };
        let counts: ArrayRef = match target {
            DataType::Date32 => cast_with_options(&counts, &DataType::Int32, &strict)?,
            _ => Arc::new(counts),
        };
        Ok(cast_with_options(&counts, target, &strict)?)
    }

    fn wrong(&self, what: &str) -> DataFusionError {
        DataFusionError::Plan(format!("{} {what}", self.change.name()))
    }
}

/// The stored integers of dates or timestamps.
fn counts(values: &ArrayRef) -> Result<Int64Array> {
    let narrow = match values.data_type() {
        DataType::Date32 => cast(values, &DataType::Int32)?,
        _ => Arc::clone(values),
    };
    let wide = cast(&narrow, &DataType::Int64)?;
    Ok(wide.as_primitive::<Int64Type>().clone())
}
