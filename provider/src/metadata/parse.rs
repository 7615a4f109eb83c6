//! What does a metadata file say, and if it can't be read, why exactly?
//!
//! The format library tries each format version in turn and reports that none fits. Where it fails, what is not known is
//! carried ([`super::carry`]) if it can be; else the JSON is looked at again for what it is that does not fit: a version,
//! a missing key. Where it says nothing, though it left something out, that is found too: a default that it can't read.

use std::io::Read;

use iceberg::spec::{FormatVersion, NestedField, PartitionSpec, Schema, SortOrder, TableMetadata};
use serde::Deserialize;
use serde_json::Value as Json;

use super::carry::{carry, keep_from_writing};
use super::defaults::Defaults;
use crate::error::{Code, Error, Result};

/// The newest format version that can be read (table specification, "Format versioning").
const NEWEST_VERSION: i64 = 3;

/// Bytes a compressed metadata file may decompress to: that many times its size, within these limits. JSON comes to a
/// tenth or a twentieth, and takes many times its size once it is parsed.
const DECODED_RATIO: u64 = 64;
const DECODED_ALWAYS: u64 = 64 << 20;
const DECODED_LIMIT: u64 = 1 << 30;

/// Parses a metadata file, compressed with gzip or not; `location` is for messages only.
///
/// # Errors
/// `metadata_version_unsupported` for a newer format version, `not_supported` for encrypted tables and defaults that do not
/// fit their column, `metadata_corrupt` for anything else that cannot be read.
pub fn parse(location: &str, bytes: &[u8]) -> Result<TableMetadata> {
    let decoded;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        decoded = gunzip(location, bytes)?;
        &decoded
    } else {
        bytes
    };
    let mentions = |key: &str| std::str::from_utf8(bytes).is_ok_and(|text| text.contains(key));
    let metadata = match serde_json::from_slice::<TableMetadata>(bytes) {
        // A transform of several columns would be taken for one of the first, and a version 1 table's tags be left out.
        Ok(metadata)
            if !mentions("\"source-ids\"")
                && (metadata.format_version() != FormatVersion::V1 || !mentions("\"refs\"")) =>
        {
            metadata
        }
        outcome => carried(location, bytes, outcome)?,
    };
    let metadata = if mentions("-default\"") { with_defaults(location, bytes, metadata)? } else { metadata };
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
    let limit = (bytes.len() as u64).saturating_mul(DECODED_RATIO).clamp(DECODED_ALWAYS, DECODED_LIMIT);
    let read = flate2::read::MultiGzDecoder::new(bytes).take(limit + 1).read_to_end(&mut out);
    match read {
        Ok(n) if n as u64 <= limit => Ok(out),
        Ok(_) => Err(corrupt(location, format!("it decompresses to more than {limit} bytes"))),
        Err(e) => Err(corrupt(location, format!("it does not decompress: {e}"))),
    }
}

fn corrupt(location: &str, reason: impl std::fmt::Display) -> Error {
    Error::new(Code::MetadataCorrupt, "the table's metadata cannot be read")
        .with("file", location)
        .with("reason", reason)
}

/// The metadata with what is not known carried; `outcome` is what the format library said of the file as it is.
fn carried(
    location: &str,
    bytes: &[u8],
    outcome: std::result::Result<TableMetadata, serde_json::Error>,
) -> Result<TableMetadata> {
    let mut json: Json = serde_json::from_slice(bytes).map_err(|e| not_json(location, bytes, e))?;
    let outcome = if carry(&mut json) { TableMetadata::deserialize(&json) } else { outcome };
    outcome.map_err(|e| diagnose(location, &json, &e))
}

/// What has defaults of columns, after a look at them.
fn with_defaults(location: &str, bytes: &[u8], metadata: TableMetadata) -> Result<TableMetadata> {
    let mut json: Json = serde_json::from_slice(bytes).map_err(|e| not_json(location, bytes, e))?;
    let defaults = Defaults::of(location, &json, &metadata)?;
    let Some(reason) = &defaults.reason else { return Ok(metadata) };
    carry(&mut json);
    keep_from_writing(&mut json, reason);
    defaults.note(&mut json);
    TableMetadata::deserialize(&json).map_err(|e| diagnose(location, &json, &e))
}

fn not_json(location: &str, bytes: &[u8], e: serde_json::Error) -> Error {
    if bytes.is_empty() {
        return corrupt(location, "it is empty").source(e);
    }
    let what = if e.is_eof() { "it ends in the middle".to_owned() } else { format!("it is not JSON: {e}") };
    let at = format!("line {}, column {} of {} bytes", e.line(), e.column(), bytes.len());
    corrupt(location, what).with("at", at).source(e)
}

/// Finds what is wrong with a file that did not parse; `error` is what the format library said.
fn diagnose(location: &str, json: &Json, error: &serde_json::Error) -> Error {
    wrong_version(location, json)
        .or_else(|| wrong_part(location, json))
        .or_else(|| without_manifests(location, json))
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

pub(super) fn list<'a>(json: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> {
    json.get(key).and_then(Json::as_array).into_iter().flatten()
}

/// A snapshot that tells neither way which manifests it has.
fn without_manifests(location: &str, json: &Json) -> Option<Error> {
    let without = |snapshot: &&Json| snapshot.get("manifest-list").is_none_or(Json::is_null);
    let snapshot = list(json, "snapshots").find(without)?;
    let id = snapshot.get("snapshot-id").map(Json::to_string).unwrap_or_default();
    Some(corrupt(location, format!("its snapshot {id} has neither `manifest-list` nor `manifests`")))
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
    use iceberg::spec::Transform;

    use super::super::carry::{check_readable, check_writable};
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
    fn a_default_that_is_none_of_its_type_is_named() {
        let with = |ty: &str, default: &str| {
            GOOD.replace("\"type\":\"string\"", &format!("\"type\":\"{ty}\",\"initial-default\":{default}"))
        };
        check(
            &with("timestamp_ns", "\"2026-06-01T00:00:00.0000000001\""),
            expect![[r#"
                error[not_supported]: the default value of a column cannot be read
                  file: memory://t/v1.metadata.json
                  column: "b"
                  type: "timestamp_ns"
                  default: "2026-06-01T00:00:00.0000000001""#]],
        );
        for (ty, default) in [
            ("string", "\"x\""),
            ("time", "\"22:31:08.123456\""),
            ("timestamptz", "\"2026-06-01T00:00:00.5+00:00\""),
            ("decimal(38, 2)", "\"123456789012345678901234567890123456.78\""),
            ("uuid", "\"f79c3e09-677c-4bbd-a479-3f349cb785e7\""),
            ("fixed[2]", "\"0aFF\""),
            ("binary", "\"\""),
            ("int", "null"),
            ("timestamp_ns", "\"2026-06-01T00:00:00.000000001\""),
        ] {
            parse("x", with(ty, default).as_bytes()).unwrap_or_else(|e| panic!("{ty} {default}: {e}"));
        }
    }

    #[test]
    fn a_default_that_the_library_cannot_put_down_keeps_the_table_from_being_written() {
        let refs = r#""refs":{"v1":{"type":"tag","snapshot-id":5}},"next-row-id":0,"snapshots":[{"snapshot-id":5,
            "sequence-number":0,"timestamp-ms":1,"manifest-list":"x","first-row-id":0,"added-rows":0,
            "summary":{"operation":"append"}}]"#;
        let text = GOOD.replace("\"next-row-id\":0", refs);
        for key in ["initial-default", "write-default"] {
            let with = |default: &str| {
                let ty = format!("\"type\":\"timestamptz\",\"{key}\":\"{default}\"");
                parse("x", text.replace("\"type\":\"string\"", &ty).as_bytes()).unwrap()
            };
            let metadata = with("1969-12-31T23:59:59.5+00:00");
            let refused = check_writable(&metadata).unwrap_err().to_string();
            assert!(refused.contains("`b` is a fraction of a second before 1970"), "{refused}");
            assert!(super::super::refs(&metadata).unwrap().contains_key("v1"));
            for default in ["1969-12-31T23:59:59+00:00", "1970-01-01T00:00:00.5+00:00"] {
                check_writable(&with(default)).unwrap();
            }
        }
    }

    /// The format library takes them for none, and would leave them out.
    #[test]
    fn a_default_that_the_library_drops_keeps_the_table_from_being_written() {
        for key in ["initial-default", "write-default"] {
            let with = |ty: &str, default: &str| {
                let column = format!("\"type\":\"{ty}\",\"{key}\":{default}");
                parse("x", GOOD.replace("\"type\":\"string\"", &column).as_bytes()).unwrap()
            };
            let refused = check_writable(&with("timestamp_ns", "\"2026-06-01T00:00:00\"")).unwrap_err().to_string();
            assert!(refused.contains("it can't put down the default of its column `b`"), "{refused}");
            for (ty, default) in [("timestamp_ns", "null"), ("timestamp", "\"2026-06-01T00:00:00\""), ("int", "7")] {
                check_writable(&with(ty, default)).unwrap();
            }
        }
    }

    #[test]
    fn a_snapshot_without_manifests_is_named() {
        let snapshot = r#""next-row-id":0,"snapshots":[{"snapshot-id":5,"sequence-number":0,"timestamp-ms":1,
            "manifests":["m.avro",null]}]"#;
        check(
            &GOOD.replace("\"next-row-id\":0", snapshot),
            expect![[r#"
                error[metadata_corrupt]: the table's metadata cannot be read
                  file: memory://t/v1.metadata.json
                  reason: its snapshot 5 has neither `manifest-list` nor `manifests`"#]],
        );
    }

    /// As a table of version 1 has them that was upgraded since.
    #[test]
    fn an_old_snapshot_is_carried_in_every_version() {
        for version in [2, 3] {
            let snapshot = r#""next-row-id":0,"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"manifests":["m.avro"]}]"#;
            let text = GOOD.replace("\"next-row-id\":0", snapshot);
            let text = text.replace("\"format-version\":3", &format!("\"format-version\":{version}"));
            let metadata = parse("x", text.as_bytes()).unwrap();
            assert_eq!(metadata.snapshot_by_id(5).unwrap().sequence_number(), 0);
            check_writable(&metadata).unwrap_err();
        }
    }

    #[test]
    fn what_is_not_known_is_carried_and_not_written() {
        let of_type = |ty: &str| parse("x", GOOD.replace("\"string\"", ty).as_bytes()).unwrap();
        let list = of_type(r#"{"type":"list","element-id":3,"element-required":false,"element":"variant"}"#);
        let refused = check_readable(&list, [1, 2]).unwrap_err();
        assert_eq!(refused.code(), Code::UnsupportedType);
        assert!(refused.to_string().contains("column: b\n") && refused.to_string().contains("variant"), "{refused}");
        check_readable(&list, [1]).unwrap();
        let written = check_writable(&list).unwrap_err();
        assert!(written.to_string().contains("its column `b` is of type variant"), "{written}");
        for ty in ["\"geometry\"", "\"geography(srid:4326, vincenty)\"", "\"unknown\""] {
            let metadata = of_type(ty);
            check_readable(&metadata, [1, 2]).unwrap();
            check_writable(&metadata).unwrap_err();
        }
        check_writable(&parse("x", GOOD.as_bytes()).unwrap()).unwrap();
    }

    #[test]
    fn a_table_whose_counters_are_used_up_is_not_written() {
        for (counter, last) in [
            ("\"last-sequence-number\":0", "\"last-sequence-number\":9223372036854775807"),
            ("\"last-column-id\":2", "\"last-column-id\":2147483647"),
            ("\"last-partition-id\":999", "\"last-partition-id\":2147483647"),
            ("\"next-row-id\":0", "\"next-row-id\":9223372036854775807"),
        ] {
            let metadata = parse("x", GOOD.replace(counter, last).as_bytes()).unwrap();
            assert_eq!(check_writable(&metadata).unwrap_err().code(), Code::NotSupported, "{last}");
        }
    }

    #[test]
    fn transforms_that_are_not_known_are_carried() {
        let with = |field: &str| {
            let spec = format!(r#"{{"spec-id":0,"fields":[{{{field},"field-id":1000,"name":"z"}}]}}"#);
            parse("x", GOOD.replace(r#"{"spec-id":0,"fields":[]}"#, &spec).as_bytes()).unwrap()
        };
        let transform = |metadata: &TableMetadata| metadata.default_partition_spec().fields()[0].transform;
        for field in [
            r#""source-ids":[1,2],"transform":"zorder""#,
            r#""source-ids":[1,2],"transform":"bucket[4]""#,
            r#""source-ids":[1,2],"source-id":1,"transform":"bucket[4]""#,
            r#""source-id":1,"transform":"hilbert[3]""#,
        ] {
            let metadata = with(field);
            assert_eq!(transform(&metadata), Transform::Unknown, "{field}");
            check_writable(&metadata).unwrap_err();
        }
        let one = with(r#""source-ids":[1],"transform":"bucket[4]""#);
        assert_eq!(transform(&one), Transform::Bucket(4));
        check_writable(&one).unwrap();
    }

    #[test]
    fn a_default_spec_over_a_dropped_column_is_left() {
        let spec = r#"{"spec-id":0,"fields":[{"source-id":77,"field-id":1000,"name":"gone","transform":"void"}]}"#;
        let metadata = parse("x", GOOD.replace(r#"{"spec-id":0,"fields":[]}"#, spec).as_bytes()).unwrap();
        assert!(metadata.default_partition_spec().is_unpartitioned());
        assert_eq!(metadata.partition_spec_by_id(0).unwrap().fields()[0].source_id, 77);
        let refused = check_writable(&metadata).unwrap_err().to_string();
        assert!(refused.contains("the source column of its partition field `gone` was dropped"), "{refused}");
    }

    #[test]
    fn version_1_may_leave_out_what_can_be_counted() {
        let fields = r#"[{"source-id":1,"name":"a","transform":"identity"},
            {"source-id":2,"name":"b_bucket","transform":"bucket[4]"}]"#;
        let schema = r#"{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"long"},
            {"id":2,"name":"b","required":false,"type":"string"}]}"#;
        let rest = r#""format-version":1,"location":"memory://t","last-updated-ms":1,"last-column-id":2,
            "something-new":{"x":1},"properties":{},"current-snapshot-id":-1,"snapshots":[]"#;
        for text in [
            format!(r#"{{{rest},"schema":{schema},"partition-spec":{fields}}}"#),
            format!(
                r#"{{{rest},"schema":{schema},"partition-spec":{fields},"default-spec-id":0,
                "partition-specs":[{{"spec-id":0,"fields":{fields}}}]}}"#
            ),
        ] {
            let metadata = parse("x", text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
            let spec = metadata.default_partition_spec();
            let ids: Vec<i32> = spec.fields().iter().map(|field| field.field_id).collect();
            assert_eq!(ids, [1000, 1001]);
            assert_eq!(spec.fields()[1].transform, Transform::Bucket(4));
            check_writable(&metadata).unwrap();
        }
    }

    #[test]
    fn version_1_keeps_its_branches_and_tags() {
        let of = |refs: &str| {
            let text = format!(
                r#"{{"format-version":1,"location":"memory://t","last-updated-ms":1,"last-column-id":1,"properties":{{}},
                "schema":{{"type":"struct","fields":[{{"id":1,"name":"a","required":false,"type":"long"}}]}},
                "partition-spec":[],"current-snapshot-id":2,"refs":{{{refs}}},"snapshots":[
                {{"snapshot-id":1,"timestamp-ms":1,"manifest-list":"a","summary":{{"operation":"append"}}}},
                {{"snapshot-id":2,"timestamp-ms":2,"manifest-list":"b","summary":{{"operation":"append"}}}}]}}"#
            );
            let metadata = parse("x", text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
            let refs = crate::metadata::refs(&metadata).unwrap();
            let refs: Vec<String> = refs.iter().map(|(name, held)| format!("{name} {}", held.snapshot_id)).collect();
            (refs, check_writable(&metadata).is_ok())
        };
        let main = r#""main":{"snapshot-id":2,"type":"branch"}"#;
        assert_eq!(of(main), (vec!["main 2".to_owned()], true));
        let tagged = format!(r#"{main},"old":{{"snapshot-id":1,"type":"tag"}}"#);
        assert_eq!(of(&tagged), (vec!["main 2".to_owned(), "old 1".to_owned()], false));
        let aged = r#""main":{"snapshot-id":2,"type":"branch","max-snapshot-age-ms":5}"#;
        assert_eq!(of(aged), (vec!["main 2".to_owned()], false));
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
        let keys = r#""next-row-id":0,"encryption-keys":[{"key-id":"k","encrypted-key-metadata":"AA=="}]"#;
        check(
            &GOOD.replace("\"next-row-id\":0", keys),
            expect![[r#"
                error[not_supported]: encrypted tables are not supported
                  file: memory://t/v1.metadata.json"#]],
        );
    }
}
