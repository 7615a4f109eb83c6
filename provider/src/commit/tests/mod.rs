//! Commits against a catalog in memory that can be told to fail, and that checks what it is given.

mod batches;
mod manifests;
mod rebase;
mod rivals;
mod snapshots;
mod steps;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::TryStreamExt;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestContentType,
    ManifestListWriter, ManifestWriterBuilder, NestedField, NullOrder, PrimitiveType, Schema, SnapshotReference,
    SnapshotRetention, SortDirection, SortField, SortOrder, Struct, TableMetadataBuilder, Transform, Type,
    UnboundPartitionSpec,
};
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::catalog::{Dropped, FileCatalog};
use crate::metadata::{Entry, parse};
use crate::storage::Stores;

/// What happens to the next publish.
enum Fate {
    /// Somebody else commits first: this table.
    Overtaken(Box<dyn FnOnce(&TableMetadata) -> TableMetadata + Send>),
    /// Stored, and the answer says conflict.
    FalseConflict,
    /// Stored or not, and the answer is lost.
    Unknown { landed: bool },
    /// Refused before anything was stored.
    NotSent,
}

#[derive(Debug, Default)]
struct TestCatalog {
    table: Mutex<Option<Base>>,
    fates: Mutex<VecDeque<Fate>>,
    proposals: Mutex<Vec<Proposal>>,
    published: AtomicUsize,
}

impl TestCatalog {
    fn store(&self, next: &TableMetadata) -> Base {
        let version = self.table.lock().as_ref().map_or(1, |base| base.version + 1);
        let location = format!("{}/metadata/v{version}.metadata.json", next.location());
        let json = serde_json::to_vec(next).unwrap();
        let metadata = Arc::new(parse(&location, &json).unwrap());
        let base = Base { metadata, location, version };
        *self.table.lock() = Some(base.clone());
        self.published.fetch_add(1, Ordering::Relaxed);
        base
    }

    fn current(&self) -> Base {
        self.table.lock().clone().unwrap()
    }

    fn replace(&self, change: impl FnOnce(&TableMetadata) -> TableMetadata) {
        let next = change(&self.current().metadata);
        self.store(&next);
    }

    fn check(&self, next: &Proposal) {
        let current = self.table.lock().clone();
        for requirement in &next.requirements {
            requirement.check(current.as_ref().map(|base| &*base.metadata)).unwrap();
        }
        let Some(current) = current else { return };
        let mut builder = TableMetadata::clone(&current.metadata).into_builder(Some(current.location));
        for update in next.updates.clone() {
            builder = update.apply(builder).unwrap();
        }
        let mut applied = builder.build().unwrap().metadata;
        if applied.current_snapshot_id() == current.metadata.current_snapshot_id() {
            applied = stamped(&applied, next.metadata.last_updated_ms()).unwrap();
        }
        assert_eq!(applied, next.metadata, "the updates make the metadata");
    }
}

#[async_trait]
impl Catalog for TestCatalog {
    async fn namespaces(&self) -> Result<Vec<Vec<String>>> {
        Ok(Vec::new())
    }
    async fn create_namespace(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    async fn drop_namespace(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    async fn tables(&self, _: &[String]) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    async fn load(&self, _: &Ident) -> Result<Option<Base>> {
        // Lets another commit in between, as a store would.
        tokio::task::yield_now().await;
        Ok(self.table.lock().clone())
    }
    fn location(&self, ident: &Ident) -> Result<String> {
        Ok(format!("memory://test/{}", ident.name))
    }
    async fn publish(&self, _: &Ident, base: Option<&Base>, next: &Proposal) -> Result<Base, PublishError> {
        tokio::task::yield_now().await;
        let fate = self.fates.lock().pop_front();
        if let Some(Fate::Overtaken(others)) = fate {
            self.replace(others);
            return Err(PublishError::Conflict(Error::new(Code::CommitConflict, "overtaken")));
        }
        if base.map(|base| &base.location) != self.table.lock().as_ref().map(|base| &base.location) {
            return Err(PublishError::Conflict(Error::new(Code::CommitConflict, "the slot is taken")));
        }
        self.check(next);
        self.proposals.lock().push(next.clone());
        match fate {
            Some(Fate::NotSent) => Err(PublishError::NotSent(Error::new(Code::StorageFailed, "no way"))),
            Some(Fate::Unknown { landed }) => {
                if landed {
                    self.store(&next.metadata);
                }
                Err(PublishError::Unknown(Error::new(Code::CommitStateUnknown, "no answer")))
            }
            Some(Fate::FalseConflict) => {
                self.store(&next.metadata);
                Err(PublishError::Conflict(Error::new(Code::CommitConflict, "so it seems")))
            }
            _ => Ok(self.store(&next.metadata)),
        }
    }
    async fn drop_table(&self, _: &Ident, _: bool) -> Result<Dropped> {
        *self.table.lock() = None;
        Ok(Dropped { location: String::new(), deleted: 0 })
    }
}

impl std::fmt::Debug for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fate")
    }
}

fn field(id: i32, name: &str, ty: PrimitiveType) -> iceberg::spec::NestedFieldRef {
    Arc::new(NestedField::optional(id, name, Type::Primitive(ty)))
}

fn schema() -> Schema {
    let fields = [
        field(1, "ts", PrimitiveType::Timestamptz),
        field(2, "session_id", PrimitiveType::String),
        field(3, "n", PrimitiveType::Int),
    ];
    Schema::builder().with_fields(fields).build().unwrap()
}

fn new_metadata(version: FormatVersion, properties: &[(&str, &str)], spec_name: &str) -> TableMetadata {
    let spec = UnboundPartitionSpec::builder().add_partition_field(1, spec_name, Transform::Day).unwrap().build();
    let by_session = SortField::builder()
        .source_id(2)
        .transform(Transform::Identity)
        .direction(SortDirection::Ascending)
        .null_order(NullOrder::Last)
        .build();
    let order = SortOrder::builder().with_order_id(1).with_fields(vec![by_session]).build_unbound().unwrap();
    let properties = [("commit.retry.min-wait-ms", "0"), ("commit.retry.max-wait-ms", "1")]
        .iter()
        .chain(properties)
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    let location = "memory://test/t".to_owned();
    let built = TableMetadataBuilder::new(schema(), spec, order, location, version, properties).unwrap().build();
    // The builder takes the time from the system.
    stamped(&built.unwrap().metadata, 0).unwrap()
}

struct World {
    catalog: Arc<TestCatalog>,
    committer: Committer,
    ident: Ident,
    new: Arc<TableMetadata>,
    files: AtomicUsize,
}

impl World {
    fn new(version: FormatVersion, properties: &[(&str, &str)]) -> Self {
        World::with(new_metadata(version, properties, "ts_day"))
    }

    fn with(new: TableMetadata) -> Self {
        let env = Env::deterministic(Stores::new(), 7);
        let catalog = Arc::new(TestCatalog::default());
        let manifests = Manifests::new(env.stores.clone(), 64 << 20);
        let committer = Committer { catalog: Arc::clone(&catalog) as Arc<dyn Catalog>, manifests, env };
        World { catalog, committer, ident: Ident::new("main", "t"), new: Arc::new(new), files: AtomicUsize::new(0) }
    }

    fn file(&self, day: i32, rows: u64) -> DataFile {
        let n = self.files.fetch_add(1, Ordering::Relaxed);
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(format!("memory://test/t/data/{n}.parquet"))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(Literal::date(day))]))
            .record_count(rows)
            .file_size_in_bytes(rows * 10)
            .value_counts(HashMap::from([(3, rows)]))
            .lower_bounds(HashMap::from([(3, Datum::int(1)), (2, Datum::string("a"))]))
            .upper_bounds(HashMap::from([(3, Datum::int(9)), (2, Datum::string("z"))]))
            .sort_order_id(1)
            .build()
            .unwrap()
    }

    fn change(&self, files: Vec<DataFile>) -> Append {
        let base = self.catalog.table.lock().clone();
        let metadata = base.as_ref().map_or_else(|| Arc::clone(&self.new), |base| Arc::clone(&base.metadata));
        Append { base, metadata, updates: Vec::new(), files, summary: BTreeMap::new(), batch_id: None }
    }

    async fn publish(&self, change: Append) -> Published {
        append(&self.committer, &self.ident, change).await
    }

    async fn append(&self, files: Vec<DataFile>) -> Base {
        committed(self.publish(self.change(files)).await).0
    }

    /// Live entries at a snapshot, read without any cache, in list order.
    async fn live(&self, metadata: &TableMetadata, snapshot_id: Option<i64>) -> Vec<Entry> {
        live(&self.committer, metadata, snapshot_id).await
    }

    async fn stored(&self, suffix: &str) -> usize {
        let located = self.committer.env.stores.resolve("memory://test/t").unwrap();
        let all: Vec<_> = located.store.list(None).try_collect().await.unwrap();
        all.iter().filter(|object| object.location.as_ref().ends_with(suffix)).count()
    }

    async fn store_data(&self, files: &[DataFile]) {
        for file in files {
            let located = self.committer.env.stores.resolve(file.file_path()).unwrap();
            located.store.put(&located.path, "rows".into()).await.unwrap();
        }
    }
}

async fn live(committer: &Committer, metadata: &TableMetadata, snapshot_id: Option<i64>) -> Vec<Entry> {
    let manifests = Manifests::new(committer.env.stores.clone(), 0);
    let mut live = Vec::new();
    for manifest in manifests.list(metadata, snapshot_id).await.unwrap().iter() {
        let entries = manifests.entries(metadata, manifest).await.unwrap();
        live.extend(entries.iter().filter(|entry| entry.is_live()).cloned());
    }
    live
}

fn committed(published: Published) -> (Base, Option<i64>) {
    match published {
        Published::Committed { base, snapshot_id } => (base, snapshot_id),
        other => panic!("not committed: {other:?}"),
    }
}

fn lost(published: Published) -> (Error, Reclaimable) {
    match published {
        Published::Lost { cause, staged } => (cause, staged),
        other => panic!("not lost: {other:?}"),
    }
}

fn summary(metadata: &TableMetadata) -> &HashMap<String, String> {
    &metadata.current_snapshot().unwrap().summary().additional_properties
}

/// Applies updates to a table, as another engine would.
fn evolve(metadata: &TableMetadata, updates: Vec<TableUpdate>) -> TableMetadata {
    let builder = metadata.clone().into_builder(None);
    let builder = updates.into_iter().try_fold(builder, |builder, update| update.apply(builder));
    stamped(&builder.unwrap().build().unwrap().metadata, metadata.last_updated_ms() + 1).unwrap()
}
