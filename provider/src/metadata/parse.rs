//! What does a metadata file say, and if it can't be read, why exactly?
//!
//! The format library tries each format version in turn and reports that none fits. Where it fails, the JSON is looked
//! at again for what it is that does not fit: a version, a type, a transform, a missing key.

use std::io::Read;

use iceberg::spec::{NestedField, PartitionSpec, Schema, SortOrder, TableMetadata};
use serde_json::Value as Json;

use crate::error::{Code, Error, Result};

/// The newest format version that can be read (table specification, "Format versioning").
const NEWEST_VERSION: i64 = 3;

/// Bytes a compressed metadata file may decompress to.
const DECODED_LIMIT: u64 = 1 << 30;

/// Parses a metadata file, compressed with gzip or not; `location` is for messages only.
///
/// # Errors
/// `metadata_version_unsupported` for a newer format version, `unsupported_type` for a column of a type that is not
/// known, `not_supported` for encrypted tables, transforms of several columns and snapshots without a manifest list,
/// `metadata_corrupt` for anything else that cannot be read.
pub fn parse(location: &str, bytes: &[u8]) -> Result<TableMetadata> {
    let decoded;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        decoded = gunzip(location, bytes)?;
        &decoded
    } else {
        bytes
    };
    let metadata = serde_json::from_slice::<TableMetadata>(bytes).map_err(|e| diagnose(location, bytes, &e))?;
    let encrypted = metadata.encryption_keys_iter().next().is_some()
        || metadata.properties().contains_key("encryption.key-id")
        || metadata.snapshots().any(|snapshot| snapshot.encryption_key_id().is_some());
    if encrypted {
        return Err(Error::new(Code::NotSupported, "encrypted tables are not supported").with("file", location));
    }
    Ok(metadata)
}

fn gunzip(location: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(bytes).take(DECODED_LIMIT + 1).read_to_end(&mut out);
    match read {
        Ok(n) if n as u64 <= DECODED_LIMIT => Ok(out),
        Ok(_) => Err(corrupt(location, format!("it decompresses to more than {DECODED_LIMIT} bytes"))),
        Err(e) => Err(corrupt(location, format!("it does not decompress: {e}"))),
    }
}

fn corrupt(location: &str, reason: impl std::fmt::Display) -> Error {
    Error::new(Code::MetadataCorrupt, "the table's metadata cannot be read")
        .with("file", location)
        .with("reason", reason)
}

/// Finds what is wrong with a file that did not parse; `error` is what the format library said.
fn diagnose(location: &str, bytes: &[u8], error: &serde_json::Error) -> Error {
    let json: Json = match serde_json::from_slice(bytes) {
        Ok(json) => json,
        Err(e) if bytes.is_empty() => return corrupt(location, "it is empty").source(e),
        Err(e) => {
            let what = if e.is_eof() { "it ends in the middle".to_owned() } else { format!("it is not JSON: {e}") };
            let at = format!("line {}, column {} of {} bytes", e.line(), e.column(), bytes.len());
            return corrupt(location, what).with("at", at).source(e);
        }
    };
    wrong_version(location, &json)
        .or_else(|| unknown_type(location, &json))
        .or_else(|| unsupported_shape(location, &json))
        .or_else(|| wrong_part(location, &json))
        .unwrap_or_else(|| corrupt(location, explained(error)))
}

fn wrong_version(location: &str, json: &Json) -> Option<Error> {
    let Some(version) = json.get("format-version") else {
        return Some(corrupt(location, "it has no `format-version`"));
    };
    if version.as_i64().is_some_and(|v| (1..=NEWEST_VERSION).contains(&v)) {
        return None;
    }
    let error = Error::new(
        Code::MetadataVersionUnsupported,
        format!("format version {version} is not supported: the newest that is known is {NEWEST_VERSION}"),
    );
    Some(error.with("file", location).help("read the table with a newer version"))
}

fn list<'a>(json: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> {
    json.get(key).and_then(Json::as_array).into_iter().flatten()
}

fn unknown_type(location: &str, json: &Json) -> Option<Error> {
    let (column, ty) = list(json, "schemas").chain(json.get("schema")).find_map(|schema| unknown_in(schema, ""))?;
    Some(
        Error::new(Code::UnsupportedType, "the table has a column of a type that is not supported")
            .with("file", location)
            .with("column", column)
            .with("type", ty),
    )
}

/// The path and type of the first column below `ty` whose type is not known.
// @spec V5
fn unknown_in(ty: &Json, path: &str) -> Option<(String, String)> {
    let nested = |child: Option<&Json>, name: &str| unknown_in(child?, &join(path, name));
    match ty {
        Json::String(name) if is_known_primitive(name) => None,
        Json::String(name) => Some((path.to_owned(), name.clone())),
        Json::Object(object) => match object.get("type").and_then(Json::as_str) {
            Some("struct") => list(ty, "fields").find_map(|field| {
                let name = field.get("name").and_then(Json::as_str).unwrap_or("?");
                nested(field.get("type"), name)
            }),
            Some("list") => nested(object.get("element"), "element"),
            Some("map") => nested(object.get("key"), "key").or_else(|| nested(object.get("value"), "value")),
            Some(other) => Some((path.to_owned(), other.to_owned())),
            None => None,
        },
        _ => None,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn is_known_primitive(name: &str) -> bool {
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

fn unsupported_shape(location: &str, json: &Json) -> Option<Error> {
    let refused = |what: &str| Error::new(Code::NotSupported, what).with("file", location);
    let fields = list(json, "partition-specs").chain(list(json, "sort-orders")).flat_map(|o| list(o, "fields"));
    for field in fields.chain(list(json, "partition-spec")) {
        if field.get("source-ids").is_some() && field.get("source-id").is_none() {
            let transform = field.get("transform").and_then(Json::as_str).unwrap_or("?");
            return Some(refused("transforms of several columns are not supported").with("transform", transform));
        }
    }
    let inline = |snapshot: &&Json| snapshot.get("manifest-list").is_none() && snapshot.get("manifests").is_some();
    let snapshot = list(json, "snapshots").find(inline)?;
    let id = snapshot.get("snapshot-id").map(Json::to_string).unwrap_or_default();
    Some(
        refused("snapshots that name their manifests without a manifest list are not supported")
            .with("snapshot", id)
            .help(
                "any commit by an engine that writes manifest lists, and the expiry of this snapshot, make it readable",
            ),
    )
}

fn wrong_part(location: &str, json: &Json) -> Option<Error> {
    let version = json.get("format-version").and_then(Json::as_i64).unwrap_or_default();
    let required: &[&str] = if version == 1 {
        &["location", "last-updated-ms", "last-column-id"]
    } else {
        &[
            "table-uuid",
            "location",
            "last-sequence-number",
            "last-updated-ms",
            "last-column-id",
            "schemas",
            "current-schema-id",
            "partition-specs",
            "default-spec-id",
            "last-partition-id",
            "sort-orders",
            "default-sort-order-id",
        ]
    };
    let mut missing: Vec<&str> = required.iter().copied().filter(|key| json.get(key).is_none()).collect();
    if version >= 3 && json.get("next-row-id").is_none() {
        missing.push("next-row-id");
    }
    if !missing.is_empty() {
        return Some(corrupt(location, format!("it lacks `{}`", missing.join("`, `"))));
    }
    let fields = |schema: &Json| unreadable::<NestedField>(schema, "fields");
    unreadable::<Schema>(json, "schemas")
        .map(|(i, reason)| match list(json, "schemas").nth(i).and_then(fields) {
            Some((field, reason)) => format!("`schemas[{i}].fields[{field}]`: {reason}"),
            None => format!("`schemas[{i}]`: {reason}"),
        })
        .or_else(|| {
            unreadable::<PartitionSpec>(json, "partition-specs").map(|(i, e)| format!("`partition-specs[{i}]`: {e}"))
        })
        .or_else(|| unreadable::<SortOrder>(json, "sort-orders").map(|(i, e)| format!("`sort-orders[{i}]`: {e}")))
        .map(|reason| corrupt(location, reason))
}

/// The first part of a list that is not what it should be, and why.
fn unreadable<T: serde::de::DeserializeOwned>(json: &Json, key: &str) -> Option<(usize, String)> {
    list(json, key).enumerate().find_map(|(i, part)| {
        let error = serde_json::from_value::<T>(part.clone()).err()?;
        Some((i, explained(&error)))
    })
}

/// The library's words, unless they only say that it tried everything.
fn explained(error: &serde_json::Error) -> String {
    let said = error.to_string();
    if said.contains("did not match any variant") { "its keys do not fit its format version".to_owned() } else { said }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use expect_test::{Expect, expect};

    use super::*;

    const GOOD: &str = r#"{"format-version":3,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"memory://t",
"last-sequence-number":0,"last-updated-ms":1,"last-column-id":2,"schemas":[{"type":"struct","schema-id":0,"fields":[
{"id":1,"name":"a","required":false,"type":"long"},{"id":2,"name":"b","required":false,"type":"string"}]}],
"current-schema-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,
"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,"next-row-id":0}"#;

    fn check(text: &str, expected: Expect) {
        let error = parse("memory://t/v1.metadata.json", text.as_bytes()).unwrap_err();
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn good_metadata_parses_compressed_or_not() {
        let plain = parse("x", GOOD.as_bytes()).unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(GOOD.as_bytes()).unwrap();
        let gz = gz.finish().unwrap();
        assert_eq!(parse("x", &gz).unwrap(), plain);
        let cut = parse("x", &gz[..gz.len() - 9]).unwrap_err();
        assert_eq!(cut.code(), Code::MetadataCorrupt);
    }

    #[test]
    fn a_future_version_is_named() {
        check(
            &GOOD.replace("\"format-version\":3", "\"format-version\":4"),
            expect![[r#"
                error[metadata_version_unsupported]: format version 4 is not supported: the newest that is known is 3
                  file: memory://t/v1.metadata.json
                  help: read the table with a newer version"#]],
        );
    }

    #[test]
    fn an_unknown_type_is_named_with_its_column() {
        check(
            &GOOD.replace(
                "\"string\"",
                r#"{"type":"list","element-id":3,"element-required":false,"element":"variant"}"#,
            ),
            expect![[r#"
                error[unsupported_type]: the table has a column of a type that is not supported
                  file: memory://t/v1.metadata.json
                  column: b.element
                  type: variant"#]],
        );
    }

    #[test]
    fn a_cut_file_says_where() {
        check(
            &GOOD[..200],
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: it ends in the middle
                  at: line 2, column 103 of 200 bytes"#]],
        );
        check(
            "",
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: it is empty"#]],
        );
    }

    #[test]
    fn missing_and_unreadable_parts_are_named() {
        check(
            &GOOD.replace("\"last-column-id\":2,", "").replace(",\"next-row-id\":0", ""),
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: it lacks `last-column-id`, `next-row-id`"#]],
        );
        check(
            &GOOD.replace("\"id\":1,", "\"id\":\"one\","),
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: `schemas[0].fields[0]`: invalid type: string "one", expected i32"#]],
        );
        check(
            &GOOD.replace("\"current-schema-id\":0", "\"current-schema-id\":7"),
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: DataInvalid => No schema exists with the current schema id 7."#]],
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let multi = r#"{"spec-id":0,"fields":[{"source-ids":[1,2],"field-id":1000,"name":"z","transform":"zorder"}]}"#;
        check(
            &GOOD.replace(r#"{"spec-id":0,"fields":[]}"#, multi),
            expect![[r#"
                error[not_supported]: transforms of several columns are not supported
                  file: memory://t/v1.metadata.json
                  transform: zorder"#]],
        );
        let keys = r#""next-row-id":0,"encryption-keys":[{"key-id":"k","encrypted-key-metadata":"AA=="}]"#;
        check(
            &GOOD.replace("\"next-row-id\":0", keys),
            expect![[r#"
                error[not_supported]: encrypted tables are not supported
                  file: memory://t/v1.metadata.json"#]],
        );
    }
}
