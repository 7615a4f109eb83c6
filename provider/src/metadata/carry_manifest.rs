//! How is a manifest read whose schema or partition spec the format library refuses?
//!
//! A manifest's header holds the schema and spec it was written under. Where a column is of a type that isn't known, its
//! bounds are left out. Where a partition field can't be made of a column (its transform isn't known or is of several
//! columns, its column was dropped, its name is another column's), the tuple keeps its value as Avro has it, under a column
//! that is made up for it: only the table's own spec decides what the value means.
//!
//! ```text
//!   {"name": "z", "source-ids": [1, 2], "transform": "zorder"}    tuple: z bytes
//!     ▶ {"name": "partition_1000", "source-id": 1000001000, "transform": "identity"}    + column 1000001000 binary
//! ```
// @spec V2 V5

use std::collections::BTreeSet;

use iceberg::spec::{Schema, Transform, Type};
use serde_json::{Value as Json, json};

use super::avro::Meta;
use super::carry::{FIRST_PARTITION_ID, is_known_type};

/// Made-up columns have ids that no table has.
const FIRST_MADE_UP: i64 = 1_000_000_000;

/// Rewrites a manifest's header, its Avro schema included, so that the format library takes it.
pub(super) fn carry(meta: &mut Meta) -> Result<(), String> {
    let part = |key: &str| -> Result<Json, String> {
        let bytes = meta.get(key).ok_or_else(|| format!("its header has no `{key}`"))?;
        serde_json::from_slice(bytes).map_err(|e| format!("its `{key}` is not JSON: {e}"))
    };
    let (mut schema, mut spec, mut avro) = (part("schema")?, part("partition-spec")?, part("avro.schema")?);
    known_columns(&mut schema);
    let parsed: Option<Schema> = serde_json::from_value(schema.clone()).ok();
    let mut made_up = Vec::new();
    let mut seen = Seen::default();
    let tuple = partition_fields(&mut avro).ok_or("its schema has no partition")?;
    for (at, field) in spec.as_array_mut().into_iter().flatten().enumerate() {
        if parsed.as_ref().is_some_and(|schema| seen.takes(field, schema)) {
            continue;
        }
        let id = field.get("field-id").and_then(Json::as_i64).unwrap_or((FIRST_PARTITION_ID + at) as i64);
        let name = format!("partition_{id}");
        let own = |stored: &Json| stored.get("field-id").and_then(Json::as_i64) == Some(id);
        let place = tuple.iter().position(own).unwrap_or(at);
        let stored = tuple.get_mut(place);
        let stored = stored.and_then(Json::as_object_mut).ok_or_else(|| format!("its tuples have no field {id}"))?;
        let (avro_type, ty) = plain(stored.get("type").unwrap_or(&Json::Null))?;
        stored.insert("type".to_owned(), json!(["null", avro_type]));
        stored.insert("name".to_owned(), Json::from(name.as_str()));
        let column = FIRST_MADE_UP.checked_add(id).ok_or_else(|| format!("its partition field has the id {id}"))?;
        made_up.push(json!({"id": column, "name": format!("partition {id}"), "required": false, "type": ty}));
        *field = json!({"source-id": column, "field-id": id, "name": name, "transform": "identity"});
    }
    let fields = schema.get_mut("fields").and_then(Json::as_array_mut).ok_or("its schema has no fields")?;
    fields.extend(made_up);
    meta.insert("schema".to_owned(), schema.to_string().into_bytes());
    meta.insert("partition-spec".to_owned(), spec.to_string().into_bytes());
    meta.insert("avro.schema".to_owned(), avro.to_string().into_bytes());
    Ok(())
}

/// The fields of the partition tuple in a manifest's schema.
fn partition_fields(schema: &mut Json) -> Option<&mut Vec<Json>> {
    fn field<'a>(record: &'a mut Json, name: &str) -> Option<&'a mut Json> {
        let fields = record.get_mut("fields")?.as_array_mut()?;
        let field = fields.iter_mut().find(|field| field.get("name").and_then(Json::as_str) == Some(name))?;
        field.get_mut("type")
    }
    field(field(schema, "data_file")?, "partition")?.get_mut("fields")?.as_array_mut()
}

/// Leaves out the columns of types that aren't known; false if nothing is left of a type.
fn known_columns(ty: &mut Json) -> bool {
    match ty {
        Json::String(name) => is_known_type(name),
        Json::Object(object) => {
            let mut known = |key: &str| object.get_mut(key).is_some_and(known_columns);
            if known("element") || (known("key") && known("value")) {
                return true;
            }
            let Some(fields) = object.get_mut("fields").and_then(Json::as_array_mut) else { return false };
            fields.retain_mut(|field| field.get_mut("type").is_some_and(known_columns));
            !fields.is_empty()
        }
        _ => false,
    }
}

/// The partition fields so far, as the format library compares them.
#[derive(Default)]
struct Seen {
    names: BTreeSet<String>,
    transforms: BTreeSet<(i64, String)>,
}

impl Seen {
    /// Whether the format library takes a partition field over a schema.
    fn takes(&mut self, field: &Json, schema: &Schema) -> bool {
        let several = field.get("source-ids").and_then(Json::as_array).is_some_and(|ids| ids.len() > 1);
        let text = |key: &str| field.get(key).and_then(Json::as_str).unwrap_or_default();
        let (Ok(transform), Some(id)) =
            (text("transform").parse::<Transform>(), field.get("source-id").and_then(Json::as_i64))
        else {
            return false;
        };
        let source = i32::try_from(id).ok().and_then(|id| schema.field_by_id(id));
        let result = source.and_then(|source| transform.result_type(&source.field_type).ok());
        let named = schema.field_by_name(text("name"));
        let own_name = named.is_none_or(|n| transform == Transform::Identity && i64::from(n.id) == id);
        let decoded = matches!(result, Some(Type::Primitive(_)));
        let known = !several && transform != Transform::Unknown && own_name && decoded;
        known && self.transforms.insert((id, transform.dedup_name())) && self.names.insert(text("name").to_owned())
    }
}

/// A tuple's value without its logical type: as Avro and as a column have it.
fn plain(avro: &Json) -> Result<(Json, Json), String> {
    match avro {
        Json::Array(variants) => match variants.iter().find(|variant| variant.as_str() != Some("null")) {
            Some(variant) => plain(variant),
            None => Ok((Json::from("int"), Json::from("int"))),
        },
        Json::String(name) => match name.as_str() {
            "bytes" => Ok((avro.clone(), Json::from("binary"))),
            "boolean" | "int" | "long" | "float" | "double" | "string" => Ok((avro.clone(), avro.clone())),
            "null" => Ok((Json::from("int"), Json::from("int"))),
            other => Err(format!("its tuples have a value of type `{other}`")),
        },
        Json::Object(object) => match object.get("type") {
            Some(Json::String(name)) if name == "fixed" => {
                let size = object.get("size").and_then(Json::as_u64).ok_or("a fixed type has no size")?;
                let mut fixed = object.clone();
                fixed.remove("logicalType");
                Ok((Json::Object(fixed), Json::from(format!("fixed[{size}]"))))
            }
            Some(inner) => plain(inner),
            None => Err("its tuples have a value without a type".to_owned()),
        },
        _ => Err("its tuples have a value without a type".to_owned()),
    }
}
