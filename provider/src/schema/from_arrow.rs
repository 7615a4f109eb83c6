//! Which Iceberg type holds an Arrow type without loss?

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema as ArrowSchema, TimeUnit};
use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Type};

use crate::error::{Code, Error, Result};

/// A new table's schema. Ids start at 1 and go level by level: all fields of a struct before the fields inside them, as
/// Iceberg's reference implementation assigns them. Nanosecond timestamps become µs unless the column is named in
/// `nanoseconds`. Columns of type `Null` make no column.
///
/// # Errors
/// `unsupported_type`, naming the column, where no Iceberg type holds every value; `invalid_name` for names that collide.
// @spec W8
pub fn from_arrow(arrow: &ArrowSchema, nanoseconds: &[String]) -> Result<Schema> {
    let mut ids = Ids { last: 0, nanoseconds };
    let fields = ids.fields(arrow.fields(), "")?;
    Schema::builder().with_fields(fields).build().map_err(|e| {
        Error::new(Code::InvalidName, "these column names cannot stand in one table").with("cause", &e).source(e)
    })
}

/// Hands out field ids while it converts.
pub(super) struct Ids<'a> {
    pub(super) last: i32,
    pub(super) nanoseconds: &'a [String],
}

impl Ids<'_> {
    fn next(&mut self) -> i32 {
        self.last += 1;
        self.last
    }

    fn fields(&mut self, fields: &Fields, prefix: &str) -> Result<Vec<NestedFieldRef>> {
        let fields: Vec<&Field> =
            fields.iter().map(AsRef::as_ref).filter(|f| *f.data_type() != DataType::Null).collect();
        let first = self.last + 1;
        self.last += fields.len() as i32;
        let mut out = Vec::with_capacity(fields.len());
        for (id, field) in (first..).zip(fields) {
            let path = join(prefix, field.name());
            let field_type = self.typed(field, &path)?;
            out.push(Arc::new(NestedField::new(id, field.name(), field_type, !field.is_nullable())));
        }
        Ok(out)
    }

    /// A field of its own, with a fresh id: what [`super::extend`] adds to a table.
    pub(super) fn field(&mut self, field: &Field, path: &str) -> Result<NestedFieldRef> {
        let id = self.next();
        let field_type = self.typed(field, path)?;
        Ok(Arc::new(NestedField::new(id, field.name(), field_type, !field.is_nullable())))
    }

    fn typed(&mut self, field: &Field, path: &str) -> Result<Type> {
        let (key, uuid) = super::UUID_EXTENSION;
        let marked = field.metadata().get(key).is_some_and(|name| name == uuid);
        if marked && *field.data_type() == DataType::FixedSizeBinary(16) {
            return Ok(Type::Primitive(PrimitiveType::Uuid));
        }
        self.convert(field.data_type(), path)
    }

    fn convert(&mut self, arrow: &DataType, path: &str) -> Result<Type> {
        Ok(match arrow {
            DataType::Struct(fields) => Type::Struct(StructType::new(self.fields(fields, path)?)),
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element)
            | DataType::FixedSizeList(element, _) => {
                let id = self.next();
                let element_type = self.convert(element.data_type(), &join(path, "element"))?;
                Type::List(ListType::new(Arc::new(NestedField::list_element(id, element_type, !element.is_nullable()))))
            }
            DataType::Map(entries, _) => self.map(entries, path)?,
            other => Type::Primitive(primitive(other, path, self.nanoseconds)?),
        })
    }

    fn map(&mut self, entries: &Field, path: &str) -> Result<Type> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(unsupported(entries.data_type(), path));
        };
        let [key, value] = fields.as_ref() else {
            return Err(unsupported(entries.data_type(), path));
        };
        let (key_id, value_id) = (self.next(), self.next());
        let key_type = self.convert(key.data_type(), &join(path, "key"))?;
        let value_type = self.convert(value.data_type(), &join(path, "value"))?;
        Ok(Type::Map(MapType::new(
            Arc::new(NestedField::map_key_element(key_id, key_type)),
            Arc::new(NestedField::map_value_element(value_id, value_type, !value.is_nullable())),
        )))
    }
}

pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// The primitive type for an Arrow type that is not nested.
pub(super) fn primitive(arrow: &DataType, path: &str, nanoseconds: &[String]) -> Result<PrimitiveType> {
    let keep_ns = nanoseconds.iter().any(|column| column == path);
    Ok(match arrow {
        DataType::Boolean => PrimitiveType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => PrimitiveType::Int,
        DataType::Int64 | DataType::UInt32 => PrimitiveType::Long,
        // 2^64 - 1 has 20 digits.
        DataType::UInt64 => PrimitiveType::Decimal { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => PrimitiveType::Float,
        DataType::Float64 => PrimitiveType::Double,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            decimal(*precision, *scale).ok_or_else(|| unsupported(arrow, path))?
        }
        DataType::Date32 => PrimitiveType::Date,
        DataType::Time32(_) | DataType::Time64(_) => PrimitiveType::Time,
        DataType::Timestamp(unit, zone) => match (*unit == TimeUnit::Nanosecond && keep_ns, zone.is_some()) {
            (false, false) => PrimitiveType::Timestamp,
            (false, true) => PrimitiveType::Timestamptz,
            (true, false) => PrimitiveType::TimestampNs,
            (true, true) => PrimitiveType::TimestamptzNs,
        },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => PrimitiveType::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => PrimitiveType::Binary,
        DataType::FixedSizeBinary(length) => {
            PrimitiveType::Fixed(u64::try_from(*length).map_err(|_| unsupported(arrow, path))?)
        }
        DataType::Dictionary(_, value) => return primitive(value, path, nanoseconds),
        DataType::RunEndEncoded(_, value) => return primitive(value.data_type(), path, nanoseconds),
        other => return Err(unsupported(other, path)),
    })
}

fn decimal(precision: u8, scale: i8) -> Option<PrimitiveType> {
    let scale = u32::try_from(scale).ok()?;
    let precision = u32::from(precision);
    (precision <= 38 && scale <= precision).then_some(PrimitiveType::Decimal { precision, scale })
}

fn unsupported(arrow: &DataType, path: &str) -> Error {
    Error::new(Code::UnsupportedType, "a column's type has no Iceberg type that holds every value")
        .with("column", path)
        .with("type", arrow)
        .help("cast the column, or leave it out with --query")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(data_type: DataType) -> String {
        match from_arrow(&ArrowSchema::new(vec![Field::new("c", data_type, true)]), &[]) {
            Ok(schema) => super::super::type_name(&schema.as_struct().fields()[0].field_type),
            Err(e) => e.code().as_str().to_owned(),
        }
    }

    #[test]
    fn types_map_without_loss_or_are_refused() {
        let ns = TimeUnit::Nanosecond;
        for (arrow, iceberg) in [
            (DataType::Int8, "int"),
            (DataType::UInt16, "int"),
            (DataType::UInt32, "long"),
            (DataType::UInt64, "decimal(20, 0)"),
            (DataType::Float16, "float"),
            (DataType::Decimal256(38, 2), "decimal(38, 2)"),
            (DataType::Decimal256(39, 2), "unsupported_type"),
            (DataType::Decimal128(5, -2), "unsupported_type"),
            (DataType::Date32, "date"),
            (DataType::Date64, "unsupported_type"),
            (DataType::Time32(TimeUnit::Second), "time"),
            (DataType::Timestamp(ns, None), "timestamp"),
            (DataType::Timestamp(ns, Some("Asia/Tokyo".into())), "timestamptz"),
            (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), "string"),
            (DataType::FixedSizeBinary(3), "fixed(3)"),
            (DataType::Duration(ns), "unsupported_type"),
            (DataType::List(Arc::new(Field::new("item", DataType::Int64, true))), "list<long>"),
        ] {
            assert_eq!(one(arrow.clone()), iceberg, "{arrow}");
        }
    }

    #[test]
    fn ids_go_level_by_level_and_null_columns_vanish() {
        let inner = Fields::from(vec![
            Field::new("x", DataType::Int64, false),
            Field::new("nothing", DataType::Null, true),
            Field::new("y", DataType::Utf8, true),
        ]);
        let arrow = ArrowSchema::new(vec![
            Field::new("a", DataType::Struct(inner), true),
            Field::new("n", DataType::Null, true),
            Field::new("b", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        ]);
        let schema = from_arrow(&arrow, &["b".to_owned()]).unwrap();
        let id = |name: &str| schema.field_id_by_name(name);
        assert_eq!((id("a"), id("b"), id("a.x"), id("a.y"), id("n")), (Some(1), Some(2), Some(3), Some(4), None));
        assert!(schema.field_by_id(3).unwrap().required);
        assert_eq!(super::super::type_name(&schema.field_by_id(2).unwrap().field_type), "timestamp_ns");
    }
}
