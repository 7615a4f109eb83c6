//! What of a table's metadata is carried along although this version doesn't know it?
//!
//! ```text
//!   geometry, geography     ▶ binary      the value's WKB, never pruned on
//!   unknown                 ▶ string      null in every row
//!   variant, later types    ▶ binary      reading the column is refused by name, the others are read
//!   zorder(a, b), later ones ▶ unknown    a transform that is never pruned on
//!   a default spec over a dropped column ▶ the unpartitioned spec
//!   branches and tags of version 1 ▶ a property
//!   manifests without a list ▶ a list's location that names them (`carry_snapshot`)
//! ```
//!
//! Such a table is read and never written: a commit would put down what is carried in place of what was there. Why not is
//! kept as a property, beside those of the table. What older versions of the format leave out is filled in; that changes
//! nothing and such tables can be written.
// @spec V5 P8

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{MAIN_BRANCH, TableMetadata};
use serde_json::{Map, Value as Json, json};

use super::carry_snapshot;
use crate::error::{Code, Error, Result};

/// Why the table can't be written.
const READ_ONLY: &str = "daygrain.read-only-because";
/// `{"<field id>": "<type>"}` of top-level columns that can't be read.
const UNREADABLE: &str = "daygrain.unreadable-columns";

/// Partition field ids of format version 1, which need not be written down (table specification, "Partition Evolution").
pub(super) const FIRST_PARTITION_ID: usize = 1000;

/// The table's branches and tags, where the metadata's own can't be told.
pub(super) const REFS: &str = "daygrain.refs";

/// Refuses to write a table that holds what this version can't put down again.
///
/// # Errors
/// `not_supported`, with the reason.
pub fn check_writable(metadata: &TableMetadata) -> Result<()> {
    let why = match metadata.properties().get(READ_ONLY) {
        Some(why) => why,
        None if counters_have_room(metadata) => return Ok(()),
        None => "one of its counters of sequence numbers, row ids or fields is at its end",
    };
    Err(Error::new(Code::NotSupported, "the table can be read and not written by this version")
        .with("because", why)
        .help("write it with the engine that made it"))
}

/// Numbers that commits count on from; ids near the greatest are reserved (table specification, "Reserved Field IDs").
fn counters_have_room(metadata: &TableMetadata) -> bool {
    const FIELDS: i32 = i32::MAX - 100_000;
    metadata.last_column_id() < FIELDS
        && metadata.last_partition_id() < FIELDS
        && metadata.last_sequence_number() < i64::MAX / 2
        && metadata.next_row_id() < u64::MAX / 4
}

/// Refuses to read columns of types that this version doesn't know; `ids` are of top-level columns.
///
/// # Errors
/// `unsupported_type`, with the column's name and type.
pub fn check_readable(metadata: &TableMetadata, ids: impl IntoIterator<Item = i32>) -> Result<()> {
    let Some(text) = metadata.properties().get(UNREADABLE) else { return Ok(()) };
    let types: BTreeMap<String, String> = serde_json::from_str(text).unwrap_or_default();
    for id in ids {
        if let Some(ty) = types.get(&id.to_string()) {
            let name = column_name(metadata, id).unwrap_or("?").to_owned();
            return Err(Error::new(Code::UnsupportedType, "the table has a column of a type that is not supported")
                .with("column", name)
                .with("type", ty)
                .help("name the columns to read, without this one"));
        }
    }
    Ok(())
}

fn column_name(metadata: &TableMetadata, id: i32) -> Option<&str> {
    let current = metadata.current_schema().name_by_field_id(id);
    current.or_else(|| metadata.schemas_iter().find_map(|schema| schema.name_by_field_id(id)))
}

/// Makes metadata that the format library can parse of what it can't; false if there is nothing to be done.
pub(super) fn carry(metadata: &mut Json) -> bool {
    let mut carried = Carried::default();
    let version = metadata.get("format-version").and_then(Json::as_i64).unwrap_or_default();
    for schema in all(metadata, "schemas", "schema") {
        carried.columns(schema);
    }
    if version == 1 {
        carried.specs_of_version_1(metadata);
        carried.refs_of_version_1(metadata);
    }
    for list in ["partition-specs", "sort-orders"] {
        items(metadata.get_mut(list)).flat_map(|one| items(one.get_mut("fields"))).for_each(|f| carried.transform(f));
    }
    carried.snapshots(metadata, version);
    carried.default_spec(metadata);
    carried.note(metadata);
    carried.changed
}

/// Notes why metadata that can be read can't be put down, with what is only to be found in what is put down.
pub(super) fn keep_from_writing(metadata: &mut Json, reason: &str) {
    let refs = metadata.get("refs").map(Json::to_string);
    let before = metadata.get("properties").and_then(|properties| properties.get(READ_ONLY)?.as_str());
    let before = before.map(|before| format!("{before}; ")).unwrap_or_default();
    set_property(metadata, READ_ONLY, before + reason);
    set_property(metadata, REFS, refs.unwrap_or_else(|| "null".to_owned()));
}

/// Keeps something beside the table's own properties.
pub(super) fn set_property(metadata: &mut Json, key: &str, value: String) {
    let Some(object) = metadata.as_object_mut() else { return };
    let properties = object.entry("properties").or_insert(Json::Null);
    if properties.is_null() {
        *properties = Json::Object(Map::new());
    }
    // Others are refused with the file.
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(key.to_owned(), Json::from(value));
    }
}

fn items(list: Option<&mut Json>) -> impl Iterator<Item = &mut Json> {
    list.and_then(Json::as_array_mut).into_iter().flatten()
}

/// The elements of a list, and the single element of older metadata.
fn all<'a>(json: &'a mut Json, list: &str, single: &str) -> Vec<&'a mut Json> {
    let Some(object) = json.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in object.iter_mut() {
        if key == list {
            found.extend(items(Some(value)));
        } else if key == single {
            found.push(value);
        }
    }
    found
}

#[derive(Default)]
struct Carried {
    changed: bool,
    reasons: BTreeSet<String>,
    unreadable: BTreeMap<String, String>,
}

impl Carried {
    fn columns(&mut self, schema: &mut Json) {
        for field in items(schema.get_mut("fields")) {
            let mut unknown = Vec::new();
            if let Some(ty) = field.get_mut("type") {
                replace(ty, &mut unknown);
            }
            let Some(object) = field.as_object_mut().filter(|_| !unknown.is_empty()) else { continue };
            // Only null may be the default of such a type.
            object.remove("initial-default");
            object.remove("write-default");
            let name = object.get("name").and_then(Json::as_str).unwrap_or("?");
            for ty in unknown {
                self.changed = true;
                self.reasons.insert(format!("its column `{name}` is of type {ty}"));
                if !is_readable(&ty)
                    && let Some(id) = object.get("id")
                {
                    self.unreadable.insert(id.to_string(), ty);
                }
            }
        }
    }

    fn transform(&mut self, field: &mut Json) {
        let Some(field) = field.as_object_mut() else { return };
        let text = field.get("transform").and_then(Json::as_str).unwrap_or("?").to_owned();
        let sources = field.get("source-ids").and_then(Json::as_array).cloned().unwrap_or_default();
        if let (Some(first), false) = (sources.first(), field.contains_key("source-id")) {
            self.changed = true;
            field.insert("source-id".to_owned(), first.clone());
        }
        if sources.len() > 1 || !is_known_transform(&text) {
            self.changed = true;
            field.insert("transform".to_owned(), Json::from("unknown"));
            self.reasons.insert(match sources.len() {
                0 | 1 => format!("it has the transform `{text}`"),
                n => format!("it has the transform `{text}` of {n} columns"),
            });
        }
    }

    /// Ids that version 1 counts and need not write, and the list that it need not have.
    fn specs_of_version_1(&mut self, metadata: &mut Json) {
        let Some(object) = metadata.as_object_mut() else { return };
        if let (Some(only), false) = (object.get("partition-spec").cloned(), object.contains_key("partition-specs")) {
            self.changed = true;
            object.insert("partition-specs".to_owned(), json!([{"spec-id": 0, "fields": only}]));
            object.insert("default-spec-id".to_owned(), Json::from(0));
        }
        // Superseded by the list, which was made of it where there was none.
        self.changed |= object.remove("partition-spec").is_some();
        for spec in items(object.get_mut("partition-specs")) {
            for (at, field) in items(spec.get_mut("fields")).enumerate() {
                if let Some(field) = field.as_object_mut().filter(|field| !field.contains_key("field-id")) {
                    self.changed = true;
                    field.insert("field-id".to_owned(), Json::from(FIRST_PARTITION_ID + at));
                }
            }
        }
    }

    /// Branches and tags, which the format library leaves out of version 1, and how long to keep what `main` names.
    fn refs_of_version_1(&mut self, metadata: &Json) {
        let refs = metadata.get("refs").and_then(Json::as_object).into_iter().flatten();
        let plain = |name: &str, held: &Json| {
            name == MAIN_BRANCH
                && held.as_object().is_some_and(|held| held.keys().all(|key| key == "snapshot-id" || key == "type"))
        };
        if refs.into_iter().any(|(name, held)| !plain(name, held)) {
            self.changed = true;
            self.reasons.insert("it is of format version 1 and has branches or tags".to_owned());
        }
    }

    fn snapshots(&mut self, metadata: &mut Json, version: i64) {
        for snapshot in items(metadata.get_mut("snapshots")).filter_map(Json::as_object_mut) {
            let carry_snapshot::Carried { changed, reason } = carry_snapshot::carry(snapshot, version);
            self.changed |= changed;
            self.reasons.extend(reason);
        }
    }

    /// The format library wants to know the types of the default spec's fields, and those of a dropped column are gone.
    fn default_spec(&mut self, metadata: &mut Json) {
        let current = metadata.get("current-schema-id").cloned();
        let is_current = |schema: &&Json| current.is_none() || schema.get("schema-id") == current.as_ref();
        let schemas = metadata.get("schemas").and_then(Json::as_array).into_iter().flatten();
        let schema = schemas.rev().find(is_current).or_else(|| metadata.get("schema"));
        let Some(schema) = schema else { return };
        let mut ids = BTreeSet::new();
        ids_in(schema, &mut ids);
        let specs: Vec<&Json> =
            metadata.get("partition-specs").and_then(Json::as_array).into_iter().flatten().collect();
        let id_of = |spec: &Json| spec.get("spec-id").and_then(Json::as_i64);
        let newest = specs.iter().filter_map(|spec| id_of(spec)).max();
        let Some(default) = metadata.get("default-spec-id").and_then(Json::as_i64).or(newest) else { return };
        let Some(spec) = specs.iter().find(|spec| id_of(spec) == Some(default)) else { return };
        let fields = spec.get("fields").and_then(Json::as_array).into_iter().flatten();
        let mut dropped =
            fields.filter(|f| f.get("source-id").and_then(Json::as_i64).is_some_and(|id| !ids.contains(&id)));
        let Some(name) = dropped.next().map(|f| f.get("name").and_then(Json::as_str).unwrap_or("?").to_owned()) else {
            return;
        };
        // Beyond the ids there are, the file is left as it is and refused.
        let Some(empty) = newest.unwrap_or(default).checked_add(1) else { return };
        self.changed = true;
        self.reasons.insert(format!("the source column of its partition field `{name}` was dropped"));
        if let Some(specs) = metadata.get_mut("partition-specs").and_then(Json::as_array_mut) {
            specs.push(json!({"spec-id": empty, "fields": []}));
        }
        if let Some(object) = metadata.as_object_mut() {
            object.insert("default-spec-id".to_owned(), Json::from(empty));
        }
    }

    fn note(&self, metadata: &mut Json) {
        if self.reasons.is_empty() {
            return;
        }
        let reasons: Vec<&str> = self.reasons.iter().map(String::as_str).collect();
        keep_from_writing(metadata, &reasons.join("; "));
        if !self.unreadable.is_empty() {
            set_property(metadata, UNREADABLE, json!(self.unreadable).to_string());
        }
    }
}

/// Puts carriers in place of unknown types, and says which those were.
fn replace(ty: &mut Json, unknown: &mut Vec<String>) {
    match ty {
        Json::String(name) if is_known_type(name) => {}
        Json::String(name) => {
            unknown.push(name.clone());
            *ty = Json::from(if name == "unknown" { "string" } else { "binary" });
        }
        Json::Object(object) => match object.get("type").and_then(Json::as_str).unwrap_or_default() {
            "struct" => items(object.get_mut("fields"))
                .filter_map(|field| field.get_mut("type"))
                .for_each(|ty| replace(ty, unknown)),
            "list" => object.get_mut("element").into_iter().for_each(|ty| replace(ty, unknown)),
            "map" => {
                object.get_mut("key").into_iter().for_each(|ty| replace(ty, unknown));
                object.get_mut("value").into_iter().for_each(|ty| replace(ty, unknown));
            }
            other => {
                unknown.push(other.to_owned());
                *ty = Json::from("binary");
            }
        },
        _ => {}
    }
}

/// Ids of all fields below.
fn ids_in(ty: &Json, ids: &mut BTreeSet<i64>) {
    for field in ty.get("fields").and_then(Json::as_array).into_iter().flatten() {
        ids.extend(field.get("id").and_then(Json::as_i64));
        if let Some(ty) = field.get("type") {
            ids_in(ty, ids);
        }
    }
    for (id, inner) in [("element-id", "element"), ("key-id", "key"), ("value-id", "value")] {
        ids.extend(ty.get(id).and_then(Json::as_i64));
        if let Some(inner) = ty.get(inner) {
            ids_in(inner, ids);
        }
    }
}

/// Types whose carrier can be shown.
fn is_readable(name: &str) -> bool {
    name == "unknown" || name.starts_with("geometry") || name.starts_with("geography")
}

pub(super) fn is_known_type(name: &str) -> bool {
    let plain = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
    ];
    plain.contains(&name) || name.starts_with("decimal(") || name.starts_with("fixed[")
}

pub(super) fn is_known_transform(text: &str) -> bool {
    text.parse::<iceberg::spec::Transform>().is_ok()
}
