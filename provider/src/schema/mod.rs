//! How do Iceberg's and Arrow's schemas map, by field id?
//!
//! ```text
//! Arrow of the input ── from_arrow ──▶ Iceberg (ids from 1) ── to_arrow ──▶ Arrow of queries and data files
//!                    ── extend ──────▶ Iceberg (ids kept, new ones after last-column-id)
//! ```

mod extend;
mod from_arrow;
mod text;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use iceberg::spec::{NestedFieldRef, Schema, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::{Code, Error, Result};

pub use extend::{Source, extend};
pub use from_arrow::from_arrow;
pub use text::{arrow_type, field, type_name};

/// The Arrow schema a table shows: top-level strings as `Utf8View` and binary as `BinaryView` (nested ones stay `Utf8`
/// and `LargeBinary`), timestamps in µs or ns, with zone `+00:00` or without; each field, nested ones too, carries its id
/// in the metadata key `PARQUET:field_id`.
pub fn to_arrow(schema: &Schema) -> Result<ArrowSchemaRef> {
    let stored = stored_arrow(schema)?;
    let fields: Vec<FieldRef> = stored.fields().iter().map(shown).collect();
    Ok(Arc::new(ArrowSchema::new(fields)))
}

/// The Arrow schema data files are written with: as [`to_arrow`], with `Utf8` and `LargeBinary` throughout.
pub fn stored_arrow(schema: &Schema) -> Result<ArrowSchema> {
    iceberg::arrow::schema_to_arrow_schema(schema).map_err(|e| {
        Error::new(Code::UnsupportedType, "the table's schema has no Arrow equivalent").with("cause", &e).source(e)
    })
}

/// The field id that a field of [`to_arrow`] carries.
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// The fields that lead to a field, from the table's column to the field itself, through structs only: `None` for what is
/// inside lists and maps.
pub fn path(schema: &Schema, id: i32) -> Option<Vec<&NestedFieldRef>> {
    fn below<'a>(fields: &'a [NestedFieldRef], id: i32, path: &mut Vec<&'a NestedFieldRef>) -> bool {
        fields.iter().any(|field| {
            path.push(field);
            let found = field.id == id
                || matches!(field.field_type.as_ref(), Type::Struct(inner) if below(inner.fields(), id, path));
            if !found {
                path.pop();
            }
            found
        })
    }
    let columns = schema.as_struct();
    if let Some(column) = columns.field_by_id(id) {
        return Some(vec![column]);
    }
    let mut path = Vec::new();
    below(columns.fields(), id, &mut path).then_some(path)
}

/// The name Arrow gives UUIDs, which it stores as sixteen bytes.
const UUID_EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.uuid");

/// Shared schema handle.
pub type SchemaRef = Arc<Schema>;

fn shown(field: &FieldRef) -> FieldRef {
    let view = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::LargeBinary => DataType::BinaryView,
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queries_see_keeps_ids_and_shows_strings_as_views() {
        let arrow = ArrowSchema::new(vec![
            Field::new("s", DataType::Utf8, true),
            Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))), true),
        ]);
        let schema = from_arrow(&arrow, &[]).unwrap();
        let shown = to_arrow(&schema).unwrap();
        assert_eq!(shown.field(0).data_type(), &DataType::Utf8View);
        assert_eq!(field_id(shown.field(0)), Some(1));
        let DataType::List(element) = shown.field(1).data_type() else { panic!("{shown:?}") };
        assert_eq!((element.data_type(), field_id(element)), (&DataType::Utf8, Some(3)));
    }
}
