//! Bytes as a manifest, as a manifest list and as a table's metadata: read, and planned with.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use iceberg::spec::{FormatVersion, ManifestContentType, PrimitiveType, TableMetadata};

use super::table::{MANIFEST, SOUND, listed, metadata, put, view};
use super::{DAMAGED, RUNTIME, allowed};
use crate::error::Code;
use crate::metadata::{
    Entry, ManifestTarget, Manifests, NewEntry, NewList, Parsed, check_readable, check_writable, refs, write_list,
    write_manifest,
};
use crate::scan::{MetadataColumn, Request, TimeTravel, View, plan};
use crate::schema::to_arrow;
use crate::storage::Stores;

/// A condition on each column that partitions, and on some that don't.
const FILTER: &str = "ts >= '2026-06-04T12:00:00Z' AND s IN ('a', 'b') AND l = 3 AND i < 25 AND m > 1.5 AND NOT (x > 1 OR \
                      y IS NULL) AND (u IS NOT NULL OR n < '2026-01-01' OR t > '12:00:00' OR f <> 2 OR b)";

static FILTERS: LazyLock<Vec<Arc<dyn PhysicalExpr>>> = LazyLock::new(|| {
    let schema = DFSchema::try_from(to_arrow(metadata().current_schema()).unwrap()).unwrap();
    let context = SessionContext::new();
    let filter = context.parse_sql_expr(FILTER, &schema).unwrap();
    vec![context.create_physical_expr(filter, &schema).unwrap()]
});

/// Stores that hold lists of a snapshot that appends (1) and one that deletes (2) with the manifest that is looked at.
fn stores_with_lists() -> Stores {
    static LISTS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| RUNTIME.block_on(lists()));
    let (stores, lists) = (Stores::new(), &*LISTS);
    RUNTIME.block_on(async {
        for (name, bytes) in ["memory://fuzz/snap-1.avro", "memory://fuzz/snap-2.avro", SOUND].iter().zip(lists) {
            put(&stores, name, bytes).await;
        }
    });
    stores
}

async fn lists() -> [Vec<u8>; 3] {
    let stores = Stores::new();
    super::files::sound_manifest(&stores, SOUND).await;
    let data = ManifestContentType::Data;
    let appended = vec![listed(MANIFEST, data)];
    let deleted = vec![listed(SOUND, data), listed(MANIFEST, ManifestContentType::Deletes)];
    for (id, manifests) in [(1, appended), (2, deleted)] {
        let list = NewList {
            stores: &stores,
            location: format!("memory://fuzz/snap-{id}.avro"),
            version: FormatVersion::V3,
            snapshot_id: id,
            parent_snapshot_id: None,
            sequence_number: id + 2,
            next_row_id: 0,
        };
        write_list(list, manifests).await.unwrap();
    }
    let get = async |name: &str| super::table::get(&stores, name).await;
    [get("memory://fuzz/snap-1.avro").await, get("memory://fuzz/snap-2.avro").await, get(SOUND).await]
}

/// The bytes as a manifest of data files and as one of delete files.
pub fn manifest(bytes: &[u8]) {
    let (stores, metadata) = (stores_with_lists(), metadata());
    RUNTIME.block_on(async {
        put(&stores, MANIFEST, bytes).await;
        let manifests = Manifests::new(stores.clone(), 1 << 20);
        let listed = listed(MANIFEST, ManifestContentType::Data);
        let read = manifests.manifest_counted(&metadata, &listed).await;
        let Some((manifest, _)) = allowed(read, &DAMAGED) else { return };
        let columns: Vec<i32> = (1..=15).collect();
        for at in 0..manifest.len() {
            allowed(manifest.brief(at, &columns), &DAMAGED);
            allowed(manifest.brief_again(at, &columns), &DAMAGED);
        }
        if let Some(entries) = allowed(manifest.entries(), &DAMAGED) {
            rewritten(&stores, &metadata, &entries).await;
        }
        for snapshot in [1, 2] {
            planned(&view(&stores, &metadata, Some(snapshot)).unwrap()).await;
        }
    });
}

/// Commits carry the entries of other manifests along.
async fn rewritten(stores: &Stores, metadata: &TableMetadata, entries: &[Entry]) {
    for version in [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3] {
        let target = ManifestTarget {
            stores,
            location: "memory://fuzz/again.avro".to_owned(),
            version,
            snapshot_id: 3,
            schema: metadata.current_schema(),
            spec: metadata.default_partition_spec(),
        };
        // What does not fit is refused by whoever encodes it.
        allowed(write_manifest(target, entries.iter().map(NewEntry::Existing)).await, &[Code::Internal]);
    }
}

/// Scans as queries plan them: of everything, with a filter, and of a few rows.
async fn planned(view: &View) {
    let all = Request { filters: &[], projection: None, limit: None, partitions: 2 };
    let filtered = Request { filters: &FILTERS, ..all };
    let few = Request { limit: Some(5), projection: Some(&[0]), ..all };
    let codes = [&DAMAGED[..], &[Code::FileNotFound]].concat();
    for request in [&all, &filtered, &few] {
        allowed(plan(view, request).await, &codes);
    }
}

/// The bytes as a manifest list.
pub fn manifest_list(bytes: &[u8]) {
    let (stores, metadata) = (stores_with_lists(), metadata());
    RUNTIME.block_on(async {
        put(&stores, "memory://fuzz/snap-1.avro", bytes).await;
        let manifests = Manifests::new(stores.clone(), 1 << 20);
        let read = manifests.list_counted(&metadata, Some(1)).await;
        let Some((list, _)) = allowed(read, &DAMAGED) else { return };
        let types = metadata.default_partition_type().fields().iter();
        let types: Vec<Option<PrimitiveType>> = types.map(|f| f.field_type.as_primitive_type().cloned()).collect();
        let summaries = list.summaries(0, &types);
        for at in 0..list.len() {
            (0..types.len()).for_each(|field| drop(summaries.facts(at, field)));
        }
        planned(&view(&stores, &metadata, Some(1)).unwrap()).await;
    });
}

/// The bytes as a metadata file, compressed or not.
pub fn table_metadata(bytes: &[u8]) {
    let parsed = Parsed::new(1 << 20);
    let location = "memory://fuzz/metadata/v1.metadata.json";
    let Some(metadata) = allowed(parsed.get(location, &Bytes::copy_from_slice(bytes)), &DAMAGED) else { return };
    let writable = allowed(check_writable(&metadata), &DAMAGED).is_some();
    let columns: Vec<i32> = metadata.current_schema().as_struct().fields().iter().map(|field| field.id).collect();
    allowed(check_readable(&metadata, columns), &DAMAGED);
    for schema in metadata.schemas_iter() {
        allowed(to_arrow(schema), &DAMAGED);
    }
    let stores = Stores::new();
    let current = metadata.current_snapshot_id();
    let Some(view) = allowed(view(&stores, &metadata, current), &DAMAGED) else { return };
    RUNTIME.block_on(planned_at(&view));
    allowed(crate::dataset::Dataset::from_properties(metadata.properties()), &[Code::InvalidConfig]);
    if writable {
        // What a commit puts down is read again.
        let again = serde_json::to_vec(metadata.as_ref()).unwrap();
        allowed(parsed.get(location, &Bytes::from(again)), &DAMAGED);
    }
}

/// The table at each of its snapshots, branches and tags, with metadata columns, and its changes.
async fn planned_at(view: &View) {
    let codes = [&DAMAGED[..], &[Code::UnknownSnapshot, Code::ChangesUnavailable, Code::FileNotFound]].concat();
    let all = Request { filters: &[], projection: None, limit: None, partitions: 2 };
    allowed(plan(view, &all).await, &codes);
    let columns: Vec<MetadataColumn> = view.metadata_columns();
    allowed(view.with_metadata_columns(&columns), &codes);
    let snapshots: Vec<i64> = view.metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).take(8).collect();
    for id in &snapshots {
        allowed(view.at(&TimeTravel::Snapshot(*id)), &codes);
        for from in [None, view.metadata.current_snapshot_id()] {
            allowed(view.changes(from, *id), &codes);
            allowed(view.appends(from, *id), &codes);
        }
    }
    for ms in [i64::MIN, 0, i64::MAX] {
        allowed(view.at(&TimeTravel::Timestamp(ms)), &codes);
    }
    for name in allowed(refs(&view.metadata), &codes).into_iter().flatten().map(|(name, _)| name) {
        allowed(view.at(&TimeTravel::Ref(name)), &codes);
    }
}
