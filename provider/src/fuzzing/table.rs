//! The table whose metadata, manifests and lists are made, and around which others are put.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use iceberg::spec::{ManifestContentType, ManifestFile, TableMetadata};
use object_store::{ObjectStoreExt, PutPayload};

use crate::metadata::{Manifests, with_defaults};
use crate::scan::View;
use crate::schema::to_arrow;
use crate::storage::{Env, Stores};

/// Its metadata: a column of each type that a manifest can hold bounds of, every transform, and two snapshots.
pub(super) const METADATA: &str = r#"{"format-version":3,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1",
"location":"memory://fuzz","last-sequence-number":4,"last-updated-ms":9,"last-column-id":15,"current-schema-id":0,
"schemas":[{"type":"struct","schema-id":0,"fields":[
{"id":1,"name":"b","required":false,"type":"boolean"},{"id":2,"name":"i","required":true,"type":"int"},
{"id":3,"name":"l","required":false,"type":"long","initial-default":7,"write-default":7},
{"id":4,"name":"f","required":false,"type":"float"},{"id":5,"name":"x","required":false,"type":"double"},
{"id":6,"name":"d","required":false,"type":"date"},{"id":7,"name":"ts","required":false,"type":"timestamptz"},
{"id":8,"name":"n","required":false,"type":"timestamp_ns"},{"id":9,"name":"m","required":false,"type":"decimal(9, 2)"},
{"id":10,"name":"s","required":false,"type":"string"},{"id":11,"name":"y","required":false,"type":"binary"},
{"id":12,"name":"u","required":false,"type":"uuid"},{"id":13,"name":"t","required":false,"type":"time"},
{"id":14,"name":"a","required":false,"type":{"type":"list","element-id":15,"element-required":false,"element":"int"}}
]}],"default-spec-id":0,"partition-specs":[{"spec-id":0,"fields":[
{"source-id":7,"field-id":1000,"name":"ts_day","transform":"day"},
{"source-id":10,"field-id":1001,"name":"s","transform":"identity"},
{"source-id":3,"field-id":1002,"name":"l_bucket","transform":"bucket[4]"},
{"source-id":2,"field-id":1003,"name":"i_trunc","transform":"truncate[10]"},
{"source-id":9,"field-id":1004,"name":"m","transform":"identity"},
{"source-id":6,"field-id":1005,"name":"d_void","transform":"void"}]},{"spec-id":1,"fields":[]}],
"last-partition-id":1005,"default-sort-order-id":1,"sort-orders":[{"order-id":0,"fields":[]},{"order-id":1,"fields":[
{"source-id":10,"transform":"identity","direction":"asc","null-order":"nulls-last"}]}],"next-row-id":100,
"properties":{"write.format.default":"parquet"},"current-snapshot-id":2,"snapshots":[
{"snapshot-id":1,"sequence-number":3,"timestamp-ms":8,"manifest-list":"memory://fuzz/snap-1.avro","schema-id":0,
"first-row-id":0,"added-rows":20,"summary":{"operation":"append","total-data-files":"2"}},
{"snapshot-id":2,"parent-snapshot-id":1,"sequence-number":4,"timestamp-ms":9,"schema-id":0,"first-row-id":20,
"added-rows":0,"manifest-list":"memory://fuzz/snap-2.avro","summary":{"operation":"delete"}}],
"snapshot-log":[{"snapshot-id":1,"timestamp-ms":8},{"snapshot-id":2,"timestamp-ms":9}],
"refs":{"main":{"type":"branch","snapshot-id":2},"v1":{"type":"tag","snapshot-id":1,"max-ref-age-ms":1}}}"#;

/// Where a manifest that is looked at is put, and one that is sound.
pub(super) const MANIFEST: &str = "memory://fuzz/m.avro";
pub(super) const SOUND: &str = "memory://fuzz/sound.avro";

static TABLE: LazyLock<Arc<TableMetadata>> = LazyLock::new(|| {
    let parsed = crate::metadata::parse("memory://fuzz/v1.metadata.json", METADATA.as_bytes());
    Arc::new(parsed.unwrap())
});

/// The table's metadata.
pub(super) fn metadata() -> Arc<TableMetadata> {
    Arc::clone(&TABLE)
}

/// The table at a snapshot, as queries see it; nothing is remembered of other inputs.
pub(super) fn view(stores: &Stores, metadata: &Arc<TableMetadata>, snapshot: Option<i64>) -> crate::Result<View> {
    let schema = with_defaults(metadata, metadata.current_schema())?;
    Ok(View {
        name: "t".to_owned(),
        metadata: Arc::clone(metadata),
        metadata_location: "memory://fuzz/v1.metadata.json".to_owned(),
        snapshot: snapshot.and_then(|id| metadata.snapshot_by_id(id)).cloned(),
        reference: None,
        changes: None,
        arrow: to_arrow(&schema)?,
        schema,
        manifests: Manifests::new(stores.clone(), 1 << 20),
        env: Env::deterministic(stores.clone(), 0),
        relocate: None,
    })
}

/// What a list says of a manifest.
pub(super) fn listed(path: &str, content: ManifestContentType) -> ManifestFile {
    ManifestFile {
        manifest_path: path.to_owned(),
        // Any length will do.
        manifest_length: 0,
        partition_spec_id: 0,
        content,
        sequence_number: 3,
        min_sequence_number: 1,
        added_snapshot_id: 1,
        added_files_count: Some(2),
        existing_files_count: Some(0),
        deleted_files_count: Some(0),
        added_rows_count: Some(20),
        existing_rows_count: Some(0),
        deleted_rows_count: Some(0),
        partitions: None,
        key_metadata: None,
        first_row_id: Some(0).filter(|_| content == ManifestContentType::Data),
    }
}

pub(super) async fn get(stores: &Stores, location: &str) -> Vec<u8> {
    let located = stores.resolve(location).unwrap();
    located.store.get(&located.path).await.unwrap().bytes().await.unwrap().to_vec()
}

pub(super) async fn put(stores: &Stores, location: &str, bytes: &[u8]) {
    let located = stores.resolve(location).unwrap();
    let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
    located.store.put(&located.path, payload).await.unwrap();
}
