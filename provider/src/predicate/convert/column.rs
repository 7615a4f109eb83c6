//! Which column does an expression read, as which kind of value?

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use iceberg::spec::{PrimitiveType, Schema};

use super::constant_of;
use crate::schema::field_id;

/// The column that an expression is, or the field inside structs: `s`, `s.a.b`, and no value in a map. Fields of a metadata
/// column are none: their ids are those of partition fields.
pub fn column_of<'a>(expr: &Arc<dyn PhysicalExpr>, arrow: &'a ArrowSchema) -> Option<&'a Field> {
    let any = expr.as_any();
    if let Some(column) = any.downcast_ref::<Column>() {
        return arrow.fields().get(column.index()).map(Arc::as_ref);
    }
    let function = any.downcast_ref::<ScalarFunctionExpr>()?;
    function.fun().inner().as_any().downcast_ref::<GetFieldFunc>()?;
    let (base, names) = function.args().split_first()?;
    let base = column_of(base, arrow).filter(|base| field_id(base).is_some_and(|id| id < FIRST_RESERVED))?;
    names.iter().try_fold(base, |field, name| {
        let DataType::Struct(fields) = field.data_type() else { return None };
        let name = constant_of(name)?;
        let name = as_text(&name)?;
        fields.iter().find(|field| field.name() == name).map(Arc::as_ref)
    })
}

/// Table specification, "Reserved Field IDs".
const FIRST_RESERVED: i32 = i32::MAX - 200;

/// A column of a primitive type, top-level or inside structs.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) field: i32,
    pub(super) kind: Kind,
    /// Its type in Arrow.
    pub(super) arrow: DataType,
    /// Arrow's values are the values of the table's type, in its unit.
    pub(super) same_type: bool,
}

/// The values of a column, as they are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    /// int and long.
    Whole {
        min: i64,
        max: i64,
    },
    /// date and timestamps.
    Instant {
        nanos_per_tick: i128,
        min: i64,
        max: i64,
    },
    /// time of day, in µs.
    Time,
    Float,
    Decimal {
        scale: u32,
    },
    Text,
    /// binary, fixed, uuid.
    Bytes,
}

impl Slot {
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>, arrow: &ArrowSchema, schema: &Schema) -> Option<Slot> {
        let field = column_of(expr, arrow)?;
        let id = field_id(field)?;
        let ty = schema.field_by_id(id)?.field_type.as_primitive_type()?;
        let same_type = same_type(field.data_type(), ty)?;
        Some(Slot { field: id, kind: Kind::of(ty), arrow: field.data_type().clone(), same_type })
    }
}

impl Kind {
    fn of(ty: &PrimitiveType) -> Kind {
        use PrimitiveType as T;
        let int = (i64::from(i32::MIN), i64::from(i32::MAX));
        let instant = |nanos_per_tick| Kind::Instant { nanos_per_tick, min: i64::MIN, max: i64::MAX };
        match ty {
            T::Boolean => Kind::Bool,
            T::Int => Kind::Whole { min: int.0, max: int.1 },
            T::Long => Kind::Whole { min: i64::MIN, max: i64::MAX },
            T::Date => Kind::Instant { nanos_per_tick: NANOS_PER_DAY, min: int.0, max: int.1 },
            T::Timestamp | T::Timestamptz => instant(1_000),
            T::TimestampNs | T::TimestamptzNs => instant(1),
            T::Time => Kind::Time,
            T::Float | T::Double => Kind::Float,
            T::Decimal { scale, .. } => Kind::Decimal { scale: *scale },
            T::String => Kind::Text,
            T::Binary | T::Fixed(_) | T::Uuid => Kind::Bytes,
        }
    }

    /// A cast to `to` changes the layout and no value.
    pub(super) fn keeps_values_in(self, to: &DataType) -> bool {
        match (self, to) {
            (kind, DataType::Dictionary(_, value)) => kind.keeps_values_in(value),
            (Kind::Text, to) => is_text(to),
            (Kind::Bytes, to) => matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView),
            _ => false,
        }
    }
}

pub(super) const NANOS_PER_DAY: i128 = 86_400_000_000_000;

pub(super) fn nanos_per(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The text of a constant.
pub(super) fn as_text(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(x) | ScalarValue::LargeUtf8(x) | ScalarValue::Utf8View(x) => x.as_deref(),
        _ => None,
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether Arrow's values are the table's as they are (`true`), or of the same family in another unit or width (`false`);
/// `None` if neither, when nothing is known of how they compare.
fn same_type(arrow: &DataType, ty: &PrimitiveType) -> Option<bool> {
    use DataType as A;
    use PrimitiveType as T;
    match (arrow, ty) {
        (A::Dictionary(_, value), _) => same_type(value, ty),
        (A::Boolean, T::Boolean) | (A::Int32, T::Int) | (A::Int64, T::Long) | (A::Date32, T::Date) => Some(true),
        (A::Float32, T::Float) | (A::Float64, T::Double) => Some(true),
        (A::Time64(TimeUnit::Microsecond), T::Time) => Some(true),
        (A::Timestamp(TimeUnit::Microsecond, None), T::Timestamp)
        | (A::Timestamp(TimeUnit::Microsecond, Some(_)), T::Timestamptz)
        | (A::Timestamp(TimeUnit::Nanosecond, None), T::TimestampNs)
        | (A::Timestamp(TimeUnit::Nanosecond, Some(_)), T::TimestamptzNs) => Some(true),
        (A::Int8 | A::Int16 | A::Int32 | A::UInt8 | A::UInt16, T::Int | T::Long) => Some(false),
        (A::UInt32, T::Long) | (A::Float32, T::Double) => Some(false),
        (A::Timestamp(_, _), T::Timestamp | T::Timestamptz | T::TimestampNs | T::TimestamptzNs) => Some(false),
        (A::Decimal128(_, s), T::Decimal { scale, .. }) => (u32::try_from(*s) == Ok(*scale)).then_some(true),
        (text, T::String) => is_text(text).then_some(true),
        (A::Binary | A::LargeBinary | A::BinaryView, T::Binary | T::Fixed(_) | T::Uuid) => Some(true),
        (A::FixedSizeBinary(n), T::Fixed(m)) => (u64::try_from(*n) == Ok(*m)).then_some(true),
        (A::FixedSizeBinary(16), T::Uuid) => Some(true),
        _ => None,
    }
}
