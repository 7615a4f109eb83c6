//! Opening by path, and manifests that are not what they should be.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestContentType, ManifestFile,
    NestedField, PrimitiveType, Schema, SortOrder, Struct, TableMetadata, TableMetadataBuilder, Transform, Type,
    UnboundPartitionSpec,
};
use proptest::prelude::*;

use super::*;
use crate::error::Code;

fn table(spec_name: &str) -> TableMetadata {
    let ts = NestedField::optional(1, "created-at", Type::Primitive(PrimitiveType::Timestamptz));
    let schema = Schema::builder().with_fields([Arc::new(ts)]).build().unwrap();
    let spec = UnboundPartitionSpec::builder().add_partition_field(1, spec_name, Transform::Day).unwrap().build();
    let (order, location) = (SortOrder::unsorted_order(), "memory://m/t".to_owned());
    let builder = TableMetadataBuilder::new(schema, spec, order, location, FormatVersion::V3, HashMap::new());
    builder.unwrap().build().unwrap().metadata
}

async fn put(stores: &Stores, location: &str, bytes: impl Into<Bytes>) {
    let located = stores.resolve(location).unwrap();
    located.store.put(&located.path, object_store::PutPayload::from_bytes(bytes.into())).await.unwrap();
}

async fn put_versions(stores: &Stores, names: &[&str]) {
    let json = serde_json::to_vec(&table("ts_day")).unwrap();
    for name in names {
        put(stores, &format!("memory://m/t/metadata/{name}"), json.clone()).await;
    }
}

/// Opens a table whose metadata directory holds `names`, under `hint`.
async fn opened(names: &[&str], hint: Option<&str>) -> Result<String, Code> {
    let stores = Stores::new();
    put_versions(&stores, names).await;
    if let Some(hint) = hint {
        put(&stores, "memory://m/t/metadata/version-hint.text", hint.to_owned()).await;
    }
    let (location, _) = open(&stores, "memory://m/t/").await.map_err(|e| e.code())?;
    Ok(location.strip_prefix("memory://m/t/metadata/").unwrap().to_owned())
}

#[tokio::test]
async fn a_hint_is_only_a_hint() {
    let versions = ["v8.metadata.json", "v9.metadata.json", "v10.metadata.json"];
    assert_eq!(opened(&versions, Some("9")).await.unwrap(), "v10.metadata.json");
    assert_eq!(opened(&versions, Some("8\n")).await.unwrap(), "v10.metadata.json");
    assert_eq!(opened(&versions, Some("77")).await.unwrap(), "v10.metadata.json");
    assert_eq!(opened(&versions, Some("../../x")).await.unwrap(), "v10.metadata.json");
    assert_eq!(opened(&versions, None).await.unwrap(), "v10.metadata.json");
}

#[tokio::test]
async fn both_spellings_of_compressed_names_and_names_with_a_uuid_are_found() {
    assert_eq!(opened(&["v1.metadata.json", "v2.gz.metadata.json"], Some("1")).await.unwrap(), "v2.gz.metadata.json");
    assert_eq!(opened(&["v1.metadata.json", "v2.metadata.json.gz"], None).await.unwrap(), "v2.metadata.json.gz");
    let named = ["00009-a.metadata.json", "00010-b.metadata.json", "00010-b.txt"];
    assert_eq!(opened(&named, None).await.unwrap(), "00010-b.metadata.json");
    assert_eq!(opened(&named, Some("00009-a")).await.unwrap(), "00009-a.metadata.json");
    assert_eq!(opened(&named, Some("00009-a.metadata.json")).await.unwrap(), "00009-a.metadata.json");
}

#[tokio::test]
async fn what_is_not_a_table_is_said_to_be_none() {
    assert_eq!(opened(&[], None).await.unwrap_err(), Code::UnknownTable);
    assert_eq!(
        opened(&["00001-a.metadata.json", "00001-b.metadata.json"], None).await.unwrap_err(),
        Code::AmbiguousName
    );
    let stores = Stores::new();
    put_versions(&stores, &["v1.metadata.json"]).await;
    let one = "memory://m/t/metadata/v1.metadata.json";
    assert_eq!(open(&stores, one).await.unwrap().0, one);
    let gone = open(&stores, "memory://m/t/metadata/v2.metadata.json").await.unwrap_err();
    assert_eq!(gone.code(), Code::UnknownTable);
}

/// What a list says of a manifest.
pub(super) fn manifest_file() -> ManifestFile {
    ManifestFile {
        manifest_path: MANIFEST.to_owned(),
        manifest_length: 0,
        partition_spec_id: 0,
        content: ManifestContentType::Data,
        sequence_number: 3,
        min_sequence_number: 1,
        added_snapshot_id: 5,
        added_files_count: None,
        existing_files_count: None,
        deleted_files_count: None,
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    }
}

struct Written {
    stores: Stores,
    metadata: TableMetadata,
    manifest: ManifestFile,
    bytes: Bytes,
}

const MANIFEST: &str = "memory://m/t/metadata/m.avro";

async fn written(spec_name: &str, days: impl IntoIterator<Item = i32>) -> Written {
    let (stores, metadata) = (Stores::new(), table(spec_name));
    let file = |day| {
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(format!("memory://m/t/data/{day}.parquet"))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(Literal::date(day))]))
            .record_count(10)
            .file_size_in_bytes(100)
            .lower_bounds(HashMap::from([(1, Datum::timestamptz_micros(i64::from(day)))]))
            .build()
            .unwrap()
    };
    let files: Vec<_> = days.into_iter().map(file).collect();
    let target = ManifestTarget {
        stores: &stores,
        location: MANIFEST.to_owned(),
        version: FormatVersion::V3,
        snapshot_id: 5,
        schema: metadata.current_schema(),
        spec: metadata.default_partition_spec(),
    };
    let mut manifest = write_manifest(target, files.iter().map(NewEntry::Added)).await.unwrap();
    (manifest.sequence_number, manifest.first_row_id) = (3, Some(100));
    let bytes = fetch(&stores, MANIFEST).await.unwrap().unwrap();
    Written { stores, metadata, manifest, bytes }
}

impl Written {
    async fn read(&self) -> Result<Vec<Entry>> {
        let manifests = Manifests::new(self.stores.clone(), 1 << 20);
        manifests.entries(&self.metadata, &self.manifest).await
    }
}

#[tokio::test]
async fn entries_inherit_from_their_manifest() {
    let mut written = written("ts_day", [1, 2]).await;
    let inherited = |entries: Vec<Entry>| -> Vec<_> {
        entries.iter().map(|e| (e.snapshot_id, e.sequence_number, e.file_sequence_number, e.first_row_id)).collect()
    };
    let entries = written.read().await.unwrap();
    assert_eq!(inherited(entries), [(5, 3, Some(3), Some(100)), (5, 3, Some(3), Some(110))]);
    written.manifest.first_row_id = None;
    assert_eq!(inherited(written.read().await.unwrap())[1].3, None);
    written.manifest.first_row_id = Some(i64::MAX as u64 - 5);
    assert_eq!(written.read().await.unwrap_err().code(), Code::ManifestCorrupt);
    written.manifest.content = ManifestContentType::Deletes;
    assert_eq!(inherited(written.read().await.unwrap())[0].3, None);
}

#[tokio::test]
async fn row_ids_are_given_to_live_files_without_one_in_file_order() {
    let written = written("ts_day", [1, 2]).await;
    let entries = written.read().await.unwrap();
    let io = written.stores.file_io();
    let location = "memory://m/t/metadata/mixed.avro";
    let (schema, spec) = (written.metadata.current_schema(), written.metadata.default_partition_spec());
    let builder = iceberg::spec::ManifestWriterBuilder::new(
        io.new_output(location).unwrap(),
        Some(6),
        Arc::clone(schema),
        (**spec).clone(),
    );
    let mut writer = builder.build_v3_data();
    let file = entries[0].file.clone();
    let with_id = rebuild(&file, |file| {
        file.first_row_id(Some(7));
    });
    writer.add_delete_file(file.clone(), 3, Some(3)).unwrap();
    writer.add_file(file.clone(), -1).unwrap();
    writer.add_existing_file(with_id.unwrap(), 5, 3, Some(3)).unwrap();
    writer.add_file(file, -1).unwrap();
    let mut manifest = writer.write_manifest_file().await.unwrap();
    (manifest.sequence_number, manifest.first_row_id) = (4, Some(200));
    let manifests = Manifests::new(written.stores.clone(), 0);
    let read = manifests.entries(&written.metadata, &manifest).await.unwrap();
    let ids: Vec<_> = read.iter().map(|entry| (entry.status, entry.first_row_id, entry.sequence_number)).collect();
    let (deleted, added, existing) = (ManifestStatus::Deleted, ManifestStatus::Added, ManifestStatus::Existing);
    assert_eq!(ids, [(deleted, None, 3), (added, Some(200), 4), (existing, Some(7), 3), (added, Some(210), 4)]);
}

#[tokio::test]
async fn a_manifest_is_fetched_once_and_counted() {
    let written = written("ts_day", 0..50).await;
    let manifests = Manifests::new(written.stores.clone(), 1 << 20);
    let reads = (0..4).map(|_| manifests.manifest_counted(&written.metadata, &written.manifest));
    let reads = futures::future::try_join_all(reads).await.unwrap();
    let fetched: Vec<_> = reads.into_iter().map(|(_, fetched)| fetched).collect();
    let once = Fetched { requests: 1, bytes: written.bytes.len() as u64 };
    assert_eq!(fetched.iter().filter(|f| **f == once).count(), 1);
    assert_eq!(fetched.iter().filter(|f| **f == Fetched::default()).count(), 3);
}

#[tokio::test]
async fn names_that_avro_does_not_allow_keep_their_values() {
    let mut written = written("created-at_day", [7]).await;
    let tuple = Struct::from_iter([Some(Literal::date(7))]);
    assert_eq!(written.read().await.unwrap()[0].file.partition(), &tuple);
    // Others keep the field's own name in the spec beside the legal one in the schema.
    written.bytes = avro::with_meta(&written.bytes, |meta| {
        let spec = meta.get_mut("partition-spec").unwrap();
        *spec = String::from_utf8(spec.clone()).unwrap().replace("created_x2Dat_day", "created-at_day").into();
    })
    .into();
    written.manifest.manifest_length = 0;
    put(&written.stores, MANIFEST, written.bytes.clone()).await;
    assert_eq!(written.read().await.unwrap()[0].file.partition(), &tuple);
}

/// Of a header that the format library refuses, what is known is kept.
#[tokio::test]
async fn manifests_of_what_is_not_known_keep_their_tuples() {
    let variant = r#""fields":[{"id":5,"name":"v","required":false,"type":"variant"},{"id":6,"name":"s","required":false,
        "type":{"type":"struct","fields":[{"id":7,"name":"g","required":false,"type":"geometry"}]}},"#;
    let other = r#""fields":[{"id":9,"name":"ts_day","required":false,"type":"string"},"#;
    for (key, from, to, bounded) in [
        ("partition-spec", r#""source-id":1"#, r#""source-ids":[1,2]"#, true),
        ("partition-spec", r#""source-id":1"#, r#""source-id":1,"source-ids":[1,2]"#, true),
        ("partition-spec", r#""source-id":1"#, r#""source-id":77"#, true),
        ("partition-spec", r#""day""#, r#""hilbert[3]""#, true),
        ("partition-spec", r#""day""#, r#""unknown""#, true),
        ("schema", r#""fields":["#, variant, true),
        ("schema", r#""fields":["#, other, true),
        // Eight bytes are no uuid.
        ("schema", r#""timestamptz""#, r#""uuid""#, false),
    ] {
        let mut written = written("ts_day", [7]).await;
        written.bytes = avro::with_meta(&written.bytes, |meta| {
            let part = meta.get_mut(key).unwrap();
            let text = String::from_utf8(part.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            *part = text.replacen(from, to, 1).into();
        })
        .into();
        written.manifest.manifest_length = 0;
        put(&written.stores, MANIFEST, written.bytes.clone()).await;
        let entries = written.read().await.unwrap_or_else(|e| panic!("{to}: {e}"));
        assert_eq!(entries[0].file.partition(), &Struct::from_iter([Some(Literal::date(7))]), "{to}");
        assert_eq!(entries[0].file.lower_bounds().contains_key(&1), bounded, "{to}");
        assert_eq!(entries[0].first_row_id, Some(100), "{to}");
    }
}

/// Values of tuples that the format library can't decode.
#[tokio::test]
async fn tuples_of_uuids_and_nanoseconds_are_read() {
    let uuid = uuid::Uuid::from_bytes([7; 16]);
    for (stored, ty, literal, expected) in [
        (PrimitiveType::Fixed(16), r#""uuid""#, Literal::fixed(vec![7; 16]), Literal::uuid(uuid)),
        (PrimitiveType::Long, r#""timestamptz_ns""#, Literal::long(7), Literal::long(7)),
    ] {
        let field = NestedField::optional(1, "k", Type::Primitive(stored.clone()));
        let schema = Arc::new(Schema::builder().with_fields([Arc::new(field)]).build().unwrap());
        let spec = UnboundPartitionSpec::builder().add_partition_field(1, "k", Transform::Identity).unwrap().build();
        let (order, location) = (SortOrder::unsorted_order(), "memory://m/t".to_owned());
        let built = TableMetadataBuilder::new(
            schema.as_ref().clone(),
            spec,
            order,
            location,
            FormatVersion::V2,
            HashMap::new(),
        );
        let metadata = built.unwrap().build().unwrap().metadata;
        let stores = Stores::new();
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path("memory://m/t/data/0.parquet".to_owned())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(literal)]))
            .record_count(10)
            .file_size_in_bytes(100)
            .build()
            .unwrap();
        let target = ManifestTarget {
            stores: &stores,
            location: MANIFEST.to_owned(),
            version: FormatVersion::V2,
            snapshot_id: 5,
            schema: &schema,
            spec: metadata.default_partition_spec(),
        };
        let mut manifest = write_manifest(target, [NewEntry::Added(&file)].into_iter()).await.unwrap();
        manifest.sequence_number = 1;
        let bytes = fetch(&stores, MANIFEST).await.unwrap().unwrap();
        let of_type = avro::with_meta(&bytes, |meta| {
            let schema = String::from_utf8(meta["schema"].clone()).unwrap();
            let written = serde_json::to_string(&stored).unwrap();
            assert!(schema.contains(&written), "{schema}");
            meta.insert("schema".to_owned(), schema.replace(&written, ty).into());
        });
        manifest.manifest_length = 0;
        put(&stores, MANIFEST, of_type).await;
        let entries =
            Manifests::new(stores, 0).entries(&metadata, &manifest).await.unwrap_or_else(|e| panic!("{ty}: {e}"));
        assert_eq!(entries[0].file.partition(), &Struct::from_iter([Some(expected)]), "{ty}");
    }
}

impl Written {
    /// What a snapshot that names the manifest without a list says of it; `edit` changes its header before.
    async fn without_list(&self, edit: impl FnOnce(&mut avro::Meta)) -> Result<ManifestFile> {
        put(&self.stores, MANIFEST, avro::with_meta(&self.bytes, edit)).await;
        let mut json = serde_json::to_value(&self.metadata).unwrap();
        json["snapshots"] = serde_json::json!([{"snapshot-id": 9, "timestamp-ms": 1, "manifests": [MANIFEST]}]);
        let metadata = parse("memory://m/t/metadata/v1.metadata.json", json.to_string().as_bytes()).unwrap();
        let list = Manifests::new(self.stores.clone(), 1 << 20).list(&metadata, Some(9)).await?;
        assert_eq!(list.len(), 1);
        Ok(list[0].clone())
    }
}

#[tokio::test]
async fn a_manifest_without_a_list_says_of_which_spec_it_is() {
    let written = written("ts_day", 0..3).await;
    let set = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        move |meta: &mut avro::Meta| drop(meta.insert(key, value.into()))
    };
    let spec = |id: &str| written.without_list(set("partition-spec-id", id));
    assert_eq!(spec("7").await.unwrap().partition_spec_id, 7);
    assert_eq!(spec("x").await.unwrap_err().code(), Code::ManifestCorrupt);
    let unsaid = written.without_list(|meta| drop(meta.remove("partition-spec-id"))).await.unwrap();
    assert_eq!((unsaid.partition_spec_id, unsaid.added_snapshot_id, unsaid.sequence_number), (0, 9, 0));
    assert_eq!((unsaid.added_files_count, unsaid.existing_files_count), (Some(3), Some(0)));
    assert_eq!((unsaid.added_rows_count, unsaid.deleted_rows_count), (Some(30), Some(0)));
    let deletes = written.without_list(set("content", "deletes")).await.unwrap_err();
    assert_eq!(deletes.code(), Code::ManifestCorrupt);
    assert!(deletes.to_string().contains("delete files"), "{deletes}");
}

/// The names stay those of the metadata, as changes between snapshots compare them.
#[tokio::test]
async fn manifests_without_a_list_move_with_their_table() {
    let written = written("ts_day", 0..3).await;
    put(&written.stores, "memory://m/moved/metadata/m.avro", written.bytes.clone()).await;
    let mut json = serde_json::to_value(&written.metadata).unwrap();
    let gone = "memory://m/gone/metadata/m.avro";
    json["snapshots"] = serde_json::json!([{"snapshot-id": 9, "timestamp-ms": 1, "manifests": [gone]}]);
    let metadata = parse("memory://m/t/metadata/v1.metadata.json", json.to_string().as_bytes()).unwrap();
    let manifests = Manifests::new(written.stores.clone(), 1 << 20);
    let error = manifests.list(&metadata, Some(9)).await.unwrap_err();
    assert!(error.to_string().contains(gone), "{error}");
    let moved = Relocation { from: "memory://m/gone".to_owned(), to: "memory://m/moved".to_owned() };
    let moved = manifests.relocated(moved);
    let list = moved.list(&metadata, Some(9)).await.unwrap();
    assert_eq!(list[0].manifest_path, gone);
    assert_eq!(moved.entries(&metadata, &list[0]).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_missing_or_shortened_manifest_is_named() {
    let mut written = written("ts_day", [1]).await;
    written.manifest.manifest_length += 1;
    let error = written.read().await.unwrap_err();
    assert_eq!(error.code(), Code::ManifestCorrupt);
    assert!(error.to_string().contains(MANIFEST), "{error}");
    written.manifest.manifest_path = "memory://m/t/metadata/gone.avro".to_owned();
    assert_eq!(written.read().await.unwrap_err().code(), Code::ManifestCorrupt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Bytes that are not what was written are an error or other values, and never the end of the process.
    #[test]
    fn damaged_manifests_are_errors(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let written = written("ts_day", 0..3).await;
            let mut bytes = written.bytes.to_vec();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
            put(&written.stores, MANIFEST, bytes).await;
            match written.read().await {
                Ok(_) => assert!(!cut),
                Err(e) => assert!(matches!(e.code(), Code::ManifestCorrupt | Code::NotSupported), "{e}"),
            }
        });
    }
}
