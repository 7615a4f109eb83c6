//! What must a table's schema become so that new rows fit?

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema as ArrowSchema};
use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Type};

use super::from_arrow::{Ids, join, primitive};
use super::type_name;
use crate::error::{Code, Error, Result};

/// What an incoming schema says by leaving a column out, or by calling it required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A declaration, or a file that carries a schema: a missing column is a removal, required means required.
    Schema,
    /// Inferred from values: a missing column has no values this time, and required means nothing.
    Values,
}

/// The schema that `current` must become so that rows of `incoming` can be appended; `None` if it can stay as it is.
/// New nullable columns are added, also inside structs, with ids after `last_column_id`; types are widened as Iceberg's
/// type promotion allows; a narrower incoming type fits as it is. Field ids never move.
///
/// # Errors
/// `iceberg_schema_incompatible`, naming the column, for removals, incompatible types, new required columns, and a
/// nullable column that `incoming` requires.
// @spec L6
pub fn extend(
    current: &Schema,
    last_column_id: i32,
    incoming: &ArrowSchema,
    source: Source,
    nanoseconds: &[String],
) -> Result<Option<Schema>> {
    let mut merge = Merge { ids: Ids { last: last_column_id, nanoseconds }, source, changed: false };
    let fields = merge.structs(current.as_struct().fields(), incoming.fields(), "")?;
    if !merge.changed {
        return Ok(None);
    }
    let schema = Schema::builder()
        .with_fields(fields)
        .with_identifier_field_ids(current.identifier_field_ids())
        .with_schema_id(current.schema_id())
        .build()
        .map_err(|e| {
            Error::new(Code::IcebergSchemaIncompatible, "the new columns cannot be added").with("cause", &e).source(e)
        })?;
    Ok(Some(schema))
}

struct Merge<'a> {
    ids: Ids<'a>,
    source: Source,
    changed: bool,
}

impl Merge<'_> {
    fn structs(&mut self, current: &[NestedFieldRef], incoming: &Fields, prefix: &str) -> Result<Vec<NestedFieldRef>> {
        let mut out = Vec::with_capacity(incoming.len());
        for field in current {
            let path = join(prefix, &field.name);
            match incoming.iter().find(|f| *f.name() == field.name && *f.data_type() != DataType::Null) {
                Some(arrow) => out.push(self.field(field, arrow, &path)?),
                None => {
                    self.missing(field, &path)?;
                    out.push(Arc::clone(field));
                }
            }
        }
        for arrow in incoming {
            if *arrow.data_type() == DataType::Null || current.iter().any(|f| f.name == *arrow.name()) {
                continue;
            }
            out.push(self.added(arrow, &join(prefix, arrow.name()))?);
        }
        Ok(out)
    }

    fn missing(&self, field: &NestedField, path: &str) -> Result<()> {
        if field.required {
            return Err(incompatible("a required column of the table is missing", path)
                .with("table type", type_name(&field.field_type)));
        }
        match self.source {
            Source::Values => Ok(()),
            Source::Schema => Err(incompatible("a column of the table is missing", path)
                .help("select it as null with --query, or write to a new table")),
        }
    }

    fn added(&mut self, arrow: &Field, path: &str) -> Result<NestedFieldRef> {
        self.changed = true;
        if !arrow.is_nullable() && self.source == Source::Schema {
            return Err(incompatible("a new column is required, but the table's rows have no value for it", path)
                .help("declare the column as nullable"));
        }
        let field = self.ids.field(arrow, path)?;
        Ok(Arc::new(NestedField { required: false, ..field.as_ref().clone() }))
    }

    fn field(&mut self, field: &NestedFieldRef, arrow: &Field, path: &str) -> Result<NestedFieldRef> {
        if !field.required && !arrow.is_nullable() && self.source == Source::Schema {
            return Err(incompatible("a nullable column of the table is required by the incoming schema", path)
                .help("declare the column as nullable"));
        }
        let merged = self.types(&field.field_type, arrow.data_type(), path)?;
        if merged == *field.field_type {
            return Ok(Arc::clone(field));
        }
        self.changed = true;
        Ok(Arc::new(NestedField { field_type: Box::new(merged), ..field.as_ref().clone() }))
    }

    fn types(&mut self, current: &Type, incoming: &DataType, path: &str) -> Result<Type> {
        match (current, incoming) {
            (Type::Struct(current), DataType::Struct(incoming)) => {
                Ok(Type::Struct(StructType::new(self.structs(current.fields(), incoming, path)?)))
            }
            (
                Type::List(list),
                DataType::List(element)
                | DataType::LargeList(element)
                | DataType::ListView(element)
                | DataType::LargeListView(element)
                | DataType::FixedSizeList(element, _),
            ) => {
                let element = self.inner(&list.element_field, element, &join(path, "element"))?;
                Ok(Type::List(ListType::new(element)))
            }
            (Type::Map(map), DataType::Map(entries, _)) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(clash(current, incoming, path));
                };
                let [key, value] = fields.as_ref() else { return Err(clash(current, incoming, path)) };
                let key = self.inner(&map.key_field, key, &join(path, "key"))?;
                let value = self.inner(&map.value_field, value, &join(path, "value"))?;
                Ok(Type::Map(MapType::new(key, value)))
            }
            (Type::Primitive(held), incoming) if !incoming.is_nested() => {
                let came =
                    primitive(incoming, path, self.ids.nanoseconds).map_err(|_| clash(current, incoming, path))?;
                let merged = promote(held, &came).ok_or_else(|| clash(current, incoming, path))?;
                Ok(Type::Primitive(merged))
            }
            _ => Err(clash(current, incoming, path)),
        }
    }

    /// List elements, map keys and values: their nullability is the container's business and is checked when rows are written.
    fn inner(&mut self, field: &NestedFieldRef, arrow: &Field, path: &str) -> Result<NestedFieldRef> {
        if *arrow.data_type() == DataType::Null {
            return Ok(Arc::clone(field));
        }
        self.field(field, &arrow.clone().with_nullable(true), path)
    }
}

/// The type that holds both; `None` if there is none that Iceberg allows the column to become.
fn promote(held: &PrimitiveType, came: &PrimitiveType) -> Option<PrimitiveType> {
    use PrimitiveType as P;
    match (held, came) {
        (held, came) if held == came => Some(held.clone()),
        (P::Long, P::Int) => Some(P::Long),
        (P::Int, P::Long) => Some(P::Long),
        (P::Double, P::Float) => Some(P::Double),
        (P::Float, P::Double) => Some(P::Double),
        // Every int is a double; the reverse would lose fractions and longs have values no double holds.
        (P::Double, P::Int) => Some(P::Double),
        (P::Decimal { precision: a, scale: s }, P::Decimal { precision: b, scale: t }) if s == t => {
            Some(P::Decimal { precision: *a.max(b), scale: *s })
        }
        // The column's precision stays; values that do not fit are refused when they are written.
        (P::TimestampNs, P::Timestamp) | (P::Timestamp, P::TimestampNs) => Some(held.clone()),
        (P::TimestamptzNs, P::Timestamptz) | (P::Timestamptz, P::TimestamptzNs) => Some(held.clone()),
        (P::Uuid, P::Fixed(16)) => Some(P::Uuid),
        _ => None,
    }
}

fn incompatible(what: &str, path: &str) -> Error {
    Error::new(Code::IcebergSchemaIncompatible, what).with("column", path)
}

fn clash(current: &Type, incoming: &DataType, path: &str) -> Error {
    incompatible("a column's type does not fit the table's", path)
        .with("table type", type_name(current))
        .with("incoming type", incoming)
        .help("cast the column, or write to a new table")
}

#[cfg(test)]
mod tests {
    use super::super::from_arrow;
    use super::*;

    fn schema(fields: Vec<Field>) -> ArrowSchema {
        ArrowSchema::new(fields)
    }

    fn table() -> Schema {
        from_arrow(
            &schema(vec![
                Field::new("id", DataType::Int32, false),
                Field::new("m", DataType::Struct(Fields::from(vec![Field::new("text", DataType::Utf8, true)])), true),
            ]),
            &[],
        )
        .unwrap()
    }

    fn outcome(incoming: Vec<Field>, source: Source) -> String {
        match extend(&table(), 3, &schema(incoming), source, &[]) {
            Ok(None) => "unchanged".to_owned(),
            Ok(Some(s)) => s
                .as_struct()
                .fields()
                .iter()
                .map(|f| format!("{}:{}:{}", f.id, f.name, type_name(&f.field_type)))
                .collect::<Vec<_>>()
                .join(" "),
            Err(e) => format!("{} {}", e.code(), e.context()[0].1),
        }
    }

    fn m(fields: Vec<Field>) -> Field {
        Field::new("m", DataType::Struct(Fields::from(fields)), true)
    }

    #[test]
    fn columns_are_added_and_never_removed() {
        let text = || Field::new("text", DataType::Utf8, true);
        let id = |t: DataType| Field::new("id", t, false);
        let extra = |nullable| Field::new("x", DataType::Float64, nullable);
        use Source::{Schema as S, Values as V};
        assert_eq!(outcome(vec![m(vec![text()]), id(DataType::Int32)], S), "unchanged");
        assert_eq!(
            outcome(vec![id(DataType::Int32), m(vec![text()]), extra(true)], S),
            "1:id:int 2:m:struct<text: string> 4:x:double"
        );
        assert_eq!(
            outcome(vec![id(DataType::Int64), m(vec![extra(true), text()])], S),
            "1:id:long 2:m:struct<text: string, x: double>"
        );
        assert_eq!(outcome(vec![id(DataType::Int32)], S), "iceberg_schema_incompatible m");
        assert_eq!(outcome(vec![id(DataType::Int32)], V), "unchanged");
        assert_eq!(outcome(vec![m(vec![text()])], V), "iceberg_schema_incompatible id");
        assert_eq!(
            outcome(vec![id(DataType::Int32), m(vec![text()]), extra(false)], S),
            "iceberg_schema_incompatible x"
        );
        assert_eq!(
            outcome(vec![id(DataType::Int32), m(vec![text()]), extra(false)], V),
            "1:id:int 2:m:struct<text: string> 4:x:double"
        );
        assert_eq!(outcome(vec![id(DataType::Utf8), m(vec![text()])], S), "iceberg_schema_incompatible id");
        assert_eq!(
            outcome(vec![id(DataType::Int32), Field::new("m", DataType::Utf8, true)], S),
            "iceberg_schema_incompatible m"
        );
        assert_eq!(
            outcome(vec![id(DataType::Int32), m(vec![Field::new("text", DataType::Utf8, false)])], S),
            "iceberg_schema_incompatible m.text"
        );
    }

    #[test]
    fn types_widen_only_as_iceberg_allows() {
        use PrimitiveType as P;
        assert_eq!(promote(&P::Int, &P::Long), Some(P::Long));
        assert_eq!(promote(&P::Long, &P::Int), Some(P::Long));
        assert_eq!(promote(&P::Long, &P::Double), None);
        assert_eq!(promote(&P::Double, &P::Long), None);
        assert_eq!(promote(&P::Timestamp, &P::Timestamptz), None);
        assert_eq!(promote(&P::String, &P::Int), None);
        let d = |precision, scale| P::Decimal { precision, scale };
        assert_eq!(promote(&d(9, 2), &d(12, 2)), Some(d(12, 2)));
        assert_eq!(promote(&d(9, 2), &d(12, 3)), None);
    }
}
