//! What are Iceberg's partition transforms as functions of SQL?
//!
//! ```text
//! years(t)  months(t)  days(t)  hours(t)     int: since 1970, rounded down
//! bucket(n, c)                               int: 0 to n - 1
//! truncate(w, c)                             the type of c
//! ```
//!
//! They are null where the column is. A filter over one is projected exactly onto a partition field of the same transform.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use iceberg::spec::Transform;

/// Computes a transform over an array, whose type is one of those that Iceberg's types have in Arrow. Results of the times
/// and of buckets are ints, or dates for days.
pub type Apply = fn(&Transform, &ArrayRef) -> Result<ArrayRef>;

/// A transform as a function.
#[derive(Debug)]
pub struct TransformFunction {
    kind: Kind,
    signature: Signature,
    apply: Apply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Years,
    Months,
    Days,
    Hours,
    Bucket,
    Truncate,
}

impl TransformFunction {
    /// All of them.
    pub fn all(apply: Apply) -> Vec<Self> {
        let kinds = [Kind::Years, Kind::Months, Kind::Days, Kind::Hours, Kind::Bucket, Kind::Truncate];
        let function = |kind: Kind| {
            let arguments = if kind.takes_number() { 2 } else { 1 };
            let signature = Signature::any(arguments, Volatility::Immutable);
            TransformFunction { kind, signature, apply }
        };
        kinds.map(function).into()
    }

    /// The transform, given the constant before the column (of those that take one).
    pub fn transform(&self, constant: Option<&ScalarValue>) -> Option<Transform> {
        let number = || {
            let constant = constant?.cast_to(&DataType::UInt32).ok()?;
            match constant {
                ScalarValue::UInt32(number) => number.filter(|n| (1..=i32::MAX.unsigned_abs()).contains(n)),
                _ => None,
            }
        };
        Some(match self.kind {
            Kind::Years => Transform::Year,
            Kind::Months => Transform::Month,
            Kind::Days => Transform::Day,
            Kind::Hours => Transform::Hour,
            Kind::Bucket => Transform::Bucket(number()?),
            Kind::Truncate => Transform::Truncate(number()?),
        })
    }
}

impl Kind {
    fn takes_number(self) -> bool {
        matches!(self, Kind::Bucket | Kind::Truncate)
    }

    /// The type in which values are transformed; `None` if it has no such transform.
    fn input(self, ty: &DataType) -> Option<DataType> {
        use DataType as A;
        let time = |ty: &DataType| match ty {
            A::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
                Some(A::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            A::Timestamp(_, _) => Some(ty.clone()),
            A::Date32 => Some(A::Date32),
            A::Date64 if self != Kind::Hours => Some(A::Date32),
            _ => None,
        };
        let plain = |ty: &DataType| match ty {
            A::Int8 | A::Int16 | A::Int32 | A::UInt8 | A::UInt16 => Some(A::Int32),
            A::Int64 | A::UInt32 => Some(A::Int64),
            A::Decimal128(_, _) => Some(ty.clone()),
            A::Utf8 | A::LargeUtf8 | A::Utf8View => Some(A::Utf8),
            A::Binary | A::LargeBinary | A::BinaryView => Some(A::Binary),
            _ => None,
        };
        let ty = match ty {
            A::Dictionary(_, value) => value,
            ty => ty,
        };
        match self {
            Kind::Hours if matches!(ty, A::Date32 | A::Date64) => None,
            Kind::Years | Kind::Months | Kind::Days | Kind::Hours => time(ty),
            Kind::Truncate => plain(ty),
            Kind::Bucket => match ty {
                A::Time64(TimeUnit::Microsecond) | A::FixedSizeBinary(_) => Some(ty.clone()),
                A::Time32(_) | A::Time64(_) => Some(A::Time64(TimeUnit::Microsecond)),
                ty => plain(ty).or_else(|| time(ty)),
            },
        }
    }
}

impl PartialEq for TransformFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for TransformFunction {}

impl Hash for TransformFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ScalarUDFImpl for TransformFunction {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.kind {
            Kind::Years => "years",
            Kind::Months => "months",
            Kind::Days => "days",
            Kind::Hours => "hours",
            Kind::Bucket => "bucket",
            Kind::Truncate => "truncate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(ty) = types.last() else { return plan_err!("{} takes a column", self.name()) };
        match self.kind.input(ty) {
            None => plan_err!("{} is not defined for {ty}", self.name()),
            Some(_) if self.kind == Kind::Truncate => Ok(ty.clone()),
            Some(_) => Ok(DataType::Int32),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (constant, value) = match args.args.as_slice() {
            [value] => (None, value),
            [ColumnarValue::Scalar(constant), value] => (Some(constant), value),
            _ => return exec_err!("the first argument of {} must be a constant", self.name()),
        };
        let Some(transform) = self.transform(constant) else {
            return exec_err!("the first argument of {} must be a positive int", self.name());
        };
        let ty = value.data_type();
        let Some(input) = self.kind.input(&ty) else { return exec_err!("{} is not defined for {ty}", self.name()) };
        let array = arrow::compute::cast(&value.to_array(args.number_rows)?, &input)?;
        let result = arrow::compute::cast(&(self.apply)(&transform, &array)?, args.return_type())?;
        match value {
            ColumnarValue::Scalar(_) if !result.is_empty() => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
            }
            _ => Ok(ColumnarValue::Array(Arc::clone(&result))),
        }
    }
}
