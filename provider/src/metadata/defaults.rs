//! Which defaults of columns does the format library not read, or not put down again?
//!
//! ```text
//!   timestamp_ns  any                             read as none      the table is refused
//!   timestamptz   1969-12-31T23:59:59.5+00:00     never written     the table is read and not written
//! ```
// @spec V5

use iceberg::spec::{Literal, NestedField, PrimitiveLiteral, PrimitiveType, TableMetadata, Type};
use serde_json::Value as Json;

use super::carry::is_known_type;
use super::parse::list;
use crate::error::{Code, Error, Result};

/// The format library takes a default that it can't read for none.
pub(super) fn check(location: &str, json: &Json, metadata: &TableMetadata) -> Result<()> {
    let read = |schema: &Json, id: i64| {
        let schema = match schema.get("schema-id").and_then(Json::as_i64) {
            Some(id) => metadata.schemas_iter().find(|schema| i64::from(schema.schema_id()) == id)?,
            None => metadata.current_schema(),
        };
        schema.field_by_id(i32::try_from(id).ok()?)?.initial_default.as_ref()
    };
    for schema in list(json, "schemas").chain(json.get("schema")) {
        let mut fields = Vec::new();
        with_default(schema, &mut fields);
        for field in fields {
            if field.get("id").and_then(Json::as_i64).and_then(|id| read(schema, id)).is_none() {
                let part = |key: &str| field.get(key).map(Json::to_string).unwrap_or_default();
                return Err(Error::new(Code::NotSupported, "the default value of a column cannot be read")
                    .with("file", location)
                    .with("column", part("name"))
                    .with("type", part("type"))
                    .with("default", part("initial-default")));
            }
        }
    }
    Ok(())
}

/// The fields below that have a default other than null.
fn with_default<'a>(ty: &'a Json, found: &mut Vec<&'a Json>) {
    for field in list(ty, "fields") {
        let known = field.get("type").is_none_or(|ty| ty.as_str().is_none_or(is_known_type));
        if known && field.get("initial-default").is_some_and(|default| !default.is_null()) {
            found.push(field);
        }
        field.get("type").into_iter().for_each(|ty| with_default(ty, found));
    }
    for inner in ["element", "key", "value"] {
        ty.get(inner).into_iter().for_each(|ty| with_default(ty, found));
    }
}

/// The name of a column whose default the format library reads and, put down, fails at: a time with a fraction of a second
/// before 1970, in UTC.
pub(super) fn unwritable(metadata: &TableMetadata) -> Option<&str> {
    metadata.schemas_iter().find_map(|schema| schema.as_struct().fields().iter().find_map(|field| within(field)))
}

fn within(field: &NestedField) -> Option<&str> {
    let bad = |default: &Option<Literal>| match default {
        Some(Literal::Primitive(PrimitiveLiteral::Long(micros))) => *micros < 0 && micros % 1_000_000 != 0,
        _ => false,
    };
    match field.field_type.as_ref() {
        Type::Primitive(PrimitiveType::Timestamptz) => {
            (bad(&field.initial_default) || bad(&field.write_default)).then_some(field.name.as_str())
        }
        Type::Primitive(_) => None,
        Type::Struct(fields) => fields.fields().iter().find_map(|field| within(field)),
        Type::List(list) => within(&list.element_field),
        Type::Map(map) => within(&map.key_field).or_else(|| within(&map.value_field)),
    }
}
