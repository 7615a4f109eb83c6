//! Which types can input take, and what are they in Arrow?
//!
//! The types of a table, and JSON text besides. Nested lists name their item `element`, as Iceberg does.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

/// The zone of instants.
pub(super) const UTC: &str = "+00:00";

/// What a column or a nested field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Text,
    /// Canonical JSON text of whatever value.
    Json,
    Date,
    /// Microseconds after midnight.
    Time,
    Timestamp {
        unit: Unit,
        zoned: bool,
    },
    Uuid,
    /// Bytes of one length, written as hexadecimal text.
    Fixed(i32),
    /// Bytes, written as hexadecimal text.
    Binary,
    Struct(Vec<Named>),
    List(Box<Type>),
    /// Objects whose names are data: the type of their values.
    Map(Box<Type>),
}

/// The unit of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Micros,
    Nanos,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) ty: Type,
}

impl Type {
    /// The type that a declared or existing column takes; `None` if text input can't fill it.
    pub(super) fn of(arrow: &DataType) -> Option<Type> {
        Some(match arrow {
            DataType::Boolean => Type::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => Type::Int,
            DataType::Int64 | DataType::UInt32 => Type::Long,
            DataType::Float32 => Type::Float,
            DataType::Float64 => Type::Double,
            DataType::Decimal128(precision, scale) => Type::Decimal { precision: *precision, scale: *scale },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Binary,
            DataType::FixedSizeBinary(16) => Type::Uuid,
            DataType::FixedSizeBinary(length) => Type::Fixed(*length),
            DataType::Date32 | DataType::Date64 => Type::Date,
            DataType::Time64(TimeUnit::Microsecond) | DataType::Time32(_) => Type::Time,
            DataType::Timestamp(unit, zone) => Type::Timestamp {
                unit: if *unit == TimeUnit::Nanosecond { Unit::Nanos } else { Unit::Micros },
                zoned: zone.is_some(),
            },
            DataType::Struct(fields) => {
                let named = |f: &FieldRef| Some(Named { name: f.name().clone(), ty: Type::of(f.data_type())? });
                Type::Struct(fields.iter().map(named).collect::<Option<_>>()?)
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) => {
                Type::List(Box::new(Type::of(item.data_type())?))
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => match (fields.first(), fields.get(1)) {
                    (Some(key), Some(value)) if Type::of(key.data_type())? == Type::Text => {
                        Type::Map(Box::new(Type::of(value.data_type())?))
                    }
                    _ => return None,
                },
                _ => return None,
            },
            DataType::Dictionary(_, value) => Type::of(value)?,
            _ => return None,
        })
    }

    /// The Arrow type of its arrays.
    pub(super) fn arrow(&self) -> DataType {
        match self {
            Type::Boolean => DataType::Boolean,
            Type::Int => DataType::Int32,
            Type::Long => DataType::Int64,
            Type::Float => DataType::Float32,
            Type::Double => DataType::Float64,
            Type::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            Type::Text | Type::Json => DataType::Utf8,
            Type::Date => DataType::Date32,
            Type::Time => DataType::Time64(TimeUnit::Microsecond),
            Type::Timestamp { unit, zoned } => {
                let unit = match unit {
                    Unit::Micros => TimeUnit::Microsecond,
                    Unit::Nanos => TimeUnit::Nanosecond,
                };
                DataType::Timestamp(unit, zoned.then(|| UTC.into()))
            }
            Type::Uuid => DataType::FixedSizeBinary(16),
            Type::Fixed(length) => DataType::FixedSizeBinary(*length),
            Type::Binary => DataType::Binary,
            Type::Struct(fields) => DataType::Struct(arrow_fields(fields)),
            Type::List(item) => DataType::List(element(item)),
            Type::Map(value) => DataType::Map(entries(value), false),
        }
    }

    /// As messages name it.
    pub(super) fn name(&self) -> String {
        match self {
            Type::Boolean => "boolean".into(),
            Type::Int => "int".into(),
            Type::Long => "long".into(),
            Type::Float => "float".into(),
            Type::Double => "double".into(),
            Type::Decimal { precision, scale } => format!("decimal({precision}, {scale})"),
            Type::Text => "string".into(),
            Type::Json => "JSON text".into(),
            Type::Date => "date".into(),
            Type::Time => "time".into(),
            Type::Timestamp { unit, zoned } => {
                let nanos = if *unit == Unit::Nanos { "_ns" } else { "" };
                format!("timestamp{}{nanos}", if *zoned { "tz" } else { "" })
            }
            Type::Uuid => "uuid".into(),
            Type::Fixed(length) => format!("fixed[{length}]"),
            Type::Binary => "binary".into(),
            Type::Struct(_) => "struct".into(),
            Type::List(item) => format!("list<{}>", item.name()),
            Type::Map(value) => format!("map<string, {}>", value.name()),
        }
    }
}

/// The item field of a list's arrays.
pub(super) fn element(item: &Type) -> FieldRef {
    Arc::new(Field::new("element", item.arrow(), true))
}

/// The entries field of a map's arrays.
pub(super) fn entries(value: &Type) -> FieldRef {
    Arc::new(Field::new("key_value", DataType::Struct(entry_fields(value)), false))
}

/// Key and value of a map's arrays.
pub(super) fn entry_fields(value: &Type) -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value.arrow(), true)])
}

/// The fields of a struct's arrays, all nullable.
pub(super) fn arrow_fields(fields: &[Named]) -> Fields {
    fields.iter().map(|field| Field::new(&field.name, field.ty.arrow(), true)).collect()
}

/// The schema of rows of `columns`.
pub(super) fn schema_of(columns: &[Named]) -> SchemaRef {
    Arc::new(Schema::new(arrow_fields(columns)))
}
