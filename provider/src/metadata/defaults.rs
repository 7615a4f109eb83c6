//! Which defaults of columns does the format library not read, or not put down again?
//!
//! ```text
//!   timestamp_ns  2026-06-01T00:00:00.000000001   read as none      read here, kept beside the schemas, and not written
//!   timestamptz   1969-12-31T23:59:59.5+00:00     never written     read, and not written
//! ```
//!
//! Table specification, "Default values" and "JSON single-value serialization".
// @spec V5

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDateTime;
use iceberg::spec::{
    ListType, Literal, Map, MapType, NestedField, NestedFieldRef, PrimitiveLiteral, PrimitiveType, Schema, SchemaRef,
    Struct, StructType, TableMetadata, Type,
};
use serde_json::Value as Json;

use super::carry::{is_known_type, set_property};
use super::parse::list;
use crate::error::{Code, Error, Result};

/// Initial defaults that the format library does not read: as they are in the file, by schema and field.
const DEFAULTS: &str = "daygrain.initial-defaults";

type BySchema = BTreeMap<i32, BTreeMap<i32, Json>>;

/// What the format library makes of the defaults of a table.
#[derive(Default)]
pub(super) struct Defaults {
    /// Those it does not read.
    beside: BySchema,
    /// Why the table can't be written.
    pub(super) reason: Option<String>,
}

impl Defaults {
    /// Compares the defaults in a metadata file with what was read of it; `location` is for messages only.
    ///
    /// # Errors
    /// `not_supported` for an initial default that does not fit its column's type.
    pub(super) fn of(location: &str, json: &Json, metadata: &TableMetadata) -> Result<Defaults> {
        let mut found = Defaults::default();
        // The single one of version 1 is superseded by the list.
        let single = json.get("schema").filter(|_| list(json, "schemas").next().is_none());
        for schema in list(json, "schemas").chain(single) {
            let read = match schema.get("schema-id").and_then(Json::as_i64) {
                Some(id) => metadata.schemas_iter().find(|read| i64::from(read.schema_id()) == id),
                None => Some(metadata.current_schema()),
            };
            let mut fields = Vec::new();
            with_default(schema, &mut fields);
            for field in fields {
                found.compare(read, field).ok_or_else(|| unreadable(location, field))?;
            }
        }
        found.reason = found.reason.or_else(|| {
            let column = before_1970(metadata)?;
            Some(format!("the default of its column `{column}` is a fraction of a second before 1970"))
        });
        Ok(found)
    }

    /// `None` for an initial default that is none of the field's type.
    fn compare(&mut self, schema: Option<&SchemaRef>, json: &Json) -> Option<()> {
        let id = i32::try_from(json.get("id").and_then(Json::as_i64)?).ok()?;
        let given = |key: &str| json.get(key).filter(|default| !default.is_null());
        let schema = schema?;
        let field = schema.field_by_id(id)?;
        let mut kept = true;
        if let Some(default) = given("initial-default") {
            let literal = literal(default, &field.field_type)?;
            if field.initial_default.as_ref() != Some(&literal) {
                kept = false;
                self.beside.entry(schema.schema_id()).or_default().insert(id, default.clone());
            }
        }
        if let Some(default) = given("write-default") {
            let literal = literal(default, &field.field_type);
            kept &= literal.is_some() && field.write_default == literal;
        }
        if !kept {
            self.reason.get_or_insert_with(|| format!("it can't put down the default of its column `{}`", field.name));
        }
        Some(())
    }

    /// Keeps beside the schemas what they lack.
    pub(super) fn note(&self, metadata: &mut Json) {
        if !self.beside.is_empty() {
            set_property(metadata, DEFAULTS, serde_json::json!(self.beside).to_string());
        }
    }
}

fn unreadable(location: &str, field: &Json) -> Error {
    let part = |key: &str| field.get(key).map(Json::to_string).unwrap_or_default();
    Error::new(Code::NotSupported, "the default value of a column cannot be read")
        .with("file", location)
        .with("column", part("name"))
        .with("type", part("type"))
        .with("default", part("initial-default"))
}

/// The fields below that have a default other than null.
fn with_default<'a>(ty: &'a Json, found: &mut Vec<&'a Json>) {
    for field in list(ty, "fields") {
        let known = field.get("type").is_none_or(|ty| ty.as_str().is_none_or(is_known_type));
        let given = |key: &str| field.get(key).is_some_and(|default| !default.is_null());
        if known && (given("initial-default") || given("write-default")) {
            found.push(field);
        }
        field.get("type").into_iter().for_each(|ty| with_default(ty, found));
    }
    for inner in ["element", "key", "value"] {
        ty.get(inner).into_iter().for_each(|ty| with_default(ty, found));
    }
}

/// A value in JSON; `None` if it is none of the type, or null.
fn literal(json: &Json, ty: &Type) -> Option<Literal> {
    let or_null = |json: &Json, ty: &Type| match json {
        Json::Null => Some(None),
        json => literal(json, ty).map(Some),
    };
    let nanoseconds = |text| nanoseconds(text).map(|value| Literal::Primitive(PrimitiveLiteral::Long(value)));
    match (ty, json) {
        (Type::Primitive(PrimitiveType::TimestampNs), Json::String(text)) => nanoseconds(text),
        (Type::Primitive(PrimitiveType::TimestamptzNs), Json::String(text)) => {
            nanoseconds(text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z'))?)
        }
        (Type::Primitive(_), json) => Literal::try_from_json(json.clone(), ty).ok()?,
        (Type::Struct(ty), Json::Object(values)) => {
            let value = |field: &NestedFieldRef| {
                or_null(values.get(&field.id.to_string()).unwrap_or(&Json::Null), &field.field_type)
            };
            let values: Option<Vec<_>> = ty.fields().iter().map(value).collect();
            Some(Literal::Struct(Struct::from_iter(values?)))
        }
        (Type::List(ty), Json::Array(values)) => {
            let values = values.iter().map(|value| or_null(value, &ty.element_field.field_type));
            Some(Literal::List(values.collect::<Option<_>>()?))
        }
        (Type::Map(ty), Json::Object(_)) => {
            let part = |key: &str| json.get(key).and_then(Json::as_array);
            let (keys, values) = (part("keys")?, part("values")?);
            let pairs = keys.iter().zip(values).map(|(key, value)| {
                Some((literal(key, &ty.key_field.field_type)?, or_null(value, &ty.value_field.field_type)?))
            });
            Some(Literal::Map(Map::from_iter(pairs.collect::<Option<Vec<_>>>()?)))
        }
        _ => None,
    }
}

/// Nanoseconds since 1970 of `2026-06-01T00:00:00.000000001`; `None` beyond 64 bits, and for more digits than there are.
fn nanoseconds(text: &str) -> Option<i64> {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    time.and_utc().timestamp_nanos_opt().filter(|_| fraction.len() <= 9)
}

/// A schema of the table with those defaults that the format library does not read.
///
/// # Errors
/// `metadata_corrupt` where what was kept of them can't be read.
pub fn with_defaults(metadata: &TableMetadata, schema: &SchemaRef) -> Result<SchemaRef> {
    let Some(kept) = metadata.properties().get(DEFAULTS) else { return Ok(Arc::clone(schema)) };
    let corrupt = || {
        Error::new(Code::MetadataCorrupt, "the defaults of a table's columns cannot be read")
            .with("table", metadata.location())
    };
    let kept: BySchema = serde_json::from_str(kept).map_err(|e| corrupt().source(e))?;
    let Some(defaults) = kept.get(&schema.schema_id()) else { return Ok(Arc::clone(schema)) };
    let fields = schema.as_struct().fields().iter().map(|field| completed(field, defaults));
    let complete = Schema::builder()
        .with_schema_id(schema.schema_id())
        .with_identifier_field_ids(schema.identifier_field_ids())
        .with_fields(fields);
    complete.build().map(Arc::new).map_err(|e| corrupt().source(e))
}

fn completed(field: &NestedFieldRef, defaults: &BTreeMap<i32, Json>) -> NestedFieldRef {
    let below = |field: &NestedFieldRef| completed(field, defaults);
    let ty = match field.field_type.as_ref() {
        Type::Primitive(ty) => Type::Primitive(ty.clone()),
        Type::Struct(ty) => Type::Struct(StructType::new(ty.fields().iter().map(below).collect())),
        Type::List(ty) => Type::List(ListType::new(below(&ty.element_field))),
        Type::Map(ty) => Type::Map(MapType::new(below(&ty.key_field), below(&ty.value_field))),
    };
    let kept = defaults.get(&field.id).and_then(|default| literal(default, &ty));
    let initial_default = kept.or_else(|| field.initial_default.clone());
    Arc::new(NestedField { field_type: Box::new(ty), initial_default, ..field.as_ref().clone() })
}

/// The name of a column whose default the format library reads and, put down, fails at: a time with a fraction of a second
/// before 1970, in UTC.
fn before_1970(metadata: &TableMetadata) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(value: i64) -> Option<Literal> {
        Some(Literal::long(value))
    }

    #[test]
    fn nanoseconds_are_read_to_the_last_digit() {
        let of = |text: &str| literal(&json!(text), &Type::Primitive(PrimitiveType::TimestampNs));
        for (text, expected) in [
            ("2017-11-16T22:31:08.123456789", long(1_510_871_468_123_456_789)),
            ("1970-01-01T00:00:00", long(0)),
            ("1970-01-01T00:00:00.5", long(500_000_000)),
            ("1970-01-01T00:00:00.000001", long(1000)),
            ("1969-12-31T23:59:59.999999999", long(-1)),
            ("1969-12-31T23:59:59.5", long(-500_000_000)),
            ("1677-09-21T00:12:43.145224192", long(i64::MIN)),
            ("1677-09-21T00:12:43.145224191", None),
            ("2262-04-11T23:47:16.854775807", long(i64::MAX)),
            ("2262-04-11T23:47:16.854775808", None),
            ("2017-11-16T22:31:08.1234567890", None),
            ("2017-11-16T22:31:08+00:00", None),
            ("2017-11-16", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_time_with_a_zone_is_in_utc() {
        let of = |text: &str| literal(&json!(text), &Type::Primitive(PrimitiveType::TimestamptzNs));
        assert_eq!(of("1969-12-31T23:59:59.999999999+00:00"), long(-1));
        assert_eq!(of("1970-01-01T00:00:00.000000001Z"), long(1));
        assert_eq!(of("1970-01-01T00:00:00.000000001"), None);
        assert_eq!(of("1970-01-01T00:00:00.000000001+01:00"), None);
        assert_eq!(literal(&json!(7), &Type::Primitive(PrimitiveType::TimestamptzNs)), None);
    }

    #[test]
    fn they_are_read_within_other_values() {
        let ns = || Type::Primitive(PrimitiveType::TimestampNs);
        let list = Type::List(ListType::new(Arc::new(NestedField::list_element(2, ns(), false))));
        let (text, value) = ("1970-01-01T00:00:00.000000007", Some(Literal::long(7)));
        assert_eq!(literal(&json!([text, null]), &list), Some(Literal::List(vec![value.clone(), None])));
        assert_eq!(literal(&json!([text, 7]), &list), None);
        let of_struct = Type::Struct(StructType::new(vec![
            Arc::new(NestedField::optional(3, "a", ns())),
            Arc::new(NestedField::optional(4, "b", ns())),
        ]));
        let expected = Literal::Struct(Struct::from_iter([None, value.clone()]));
        assert_eq!(literal(&json!({"4": text}), &of_struct), Some(expected));
        let key = Arc::new(NestedField::map_key_element(5, Type::Primitive(PrimitiveType::String)));
        let map = Type::Map(MapType::new(key, Arc::new(NestedField::map_value_element(6, ns(), false))));
        let pairs = [(Literal::string("x"), value), (Literal::string("y"), None)];
        let given = json!({"keys": ["x", "y"], "values": [text, null]});
        assert_eq!(literal(&given, &map), Some(Literal::Map(Map::from_iter(pairs))));
    }
}
