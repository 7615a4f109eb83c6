//! Commits against a catalog in memory that can be told to fail, and that checks what it is given.

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

#[tokio::test]
async fn the_first_append_creates_the_table_with_its_snapshot() {
    let world = World::new(FormatVersion::V3, &[]);
    let mut change = world.change(vec![world.file(20000, 5), world.file(20001, 7)]);
    change.summary.insert("app".to_owned(), "test".to_owned());
    let (base, id) = committed(world.publish(change).await);
    assert_eq!((base.version, world.catalog.published.load(Ordering::Relaxed)), (1, 1));
    let proposal = world.catalog.proposals.lock().pop().unwrap();
    assert_eq!(proposal.requirements, [iceberg::TableRequirement::NotExist]);
    let snapshot = base.metadata.current_snapshot().unwrap();
    assert_eq!(Some(snapshot.snapshot_id()), id);
    assert_eq!((snapshot.row_range(), base.metadata.next_row_id()), (Some((0, 12)), 12));
    assert_eq!((snapshot.timestamp_ms(), snapshot.sequence_number()), (world.committer.env.clock.now_ms(), 1));
    let mut keys: Vec<_> = summary(&base.metadata).iter().map(|(k, v)| format!("{k}={v}")).collect();
    keys.sort();
    expect_test::expect![[r#"
        added-data-files=2
        added-files-size=120
        added-records=12
        app=test
        changed-partition-count=2
        engine-name=daygrain
        engine-version=0.1.0
        manifests-created=1
        manifests-kept=0
        manifests-replaced=0
        total-data-files=2
        total-delete-files=0
        total-equality-deletes=0
        total-files-size=120
        total-position-deletes=0
        total-records=12"#]]
    .assert_eq(&keys.join("\n"));
}

#[tokio::test]
async fn merged_manifests_keep_every_file_as_it_was() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "3")]);
    let mut rows = 0;
    for n in 1..=10u64 {
        let base = world.append(vec![world.file(20000, n), world.file(20001, 2)]).await;
        assert_eq!(base.metadata.current_snapshot().unwrap().row_range(), Some((rows, n + 2)));
        rows += n + 2;
        let manifests = world.committer.manifests.list(&base.metadata, base.metadata.current_snapshot_id()).await;
        assert!(manifests.unwrap().len() <= 3);
    }
    assert_eq!(summary(&world.catalog.current().metadata)["total-records"], rows.to_string());
    let replaced = |snapshot: &iceberg::spec::SnapshotRef| {
        snapshot.summary().additional_properties["manifests-replaced"].parse::<u64>().unwrap()
    };
    assert!(world.catalog.current().metadata.snapshots().any(|snapshot| replaced(snapshot) == 3));
}

#[tokio::test]
async fn many_appends_keep_few_manifests() {
    let world = World::new(FormatVersion::V3, &[]);
    let mut most = 0;
    for n in 0..130 {
        let base = world.append(vec![world.file(20000 + n, 1)]).await;
        let manifests = &world.committer.manifests;
        most = most.max(manifests.list(&base.metadata, base.metadata.current_snapshot_id()).await.unwrap().len());
    }
    assert_eq!(most, 100);
    let metadata = world.catalog.current().metadata;
    assert_eq!(world.live(&metadata, metadata.current_snapshot_id()).await.len(), 130);
}

#[tokio::test]
async fn many_files_are_cut_into_several_manifests() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.target-size-bytes", "1000")]);
    let base = world.append((0..20).map(|day| world.file(20000 + day, 3)).collect()).await;
    let metadata = &base.metadata;
    let list = world.committer.manifests.list(metadata, metadata.current_snapshot_id()).await.unwrap();
    assert!(list.len() > 1 && list.len() < 20, "{}", list.len());
    let ids: Vec<_> =
        world.live(metadata, metadata.current_snapshot_id()).await.iter().map(|e| e.first_row_id.unwrap()).collect();
    assert_eq!(ids, (0..20).map(|i| i * 3).collect::<Vec<_>>());
}

#[tokio::test]
async fn concurrent_appends_all_land() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(20000, 1)]).await;
    let changes = (0..6).map(|n| world.publish(world.change(vec![world.file(20000 + n, 10)])));
    for published in futures::future::join_all(changes).await {
        committed(published);
    }
    let metadata = world.catalog.current().metadata;
    let mut ids: Vec<_> = world
        .live(&metadata, metadata.current_snapshot_id())
        .await
        .iter()
        .map(|e| (e.first_row_id.unwrap(), e.file.record_count()))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [(0, 1), (1, 10), (11, 10), (21, 10), (31, 10), (41, 10), (51, 10)]);
    // What the conflicts left was removed: one manifest and one list each that landed.
    assert_eq!(world.stored(".avro").await, 14);
}

#[tokio::test]
async fn two_first_appends_both_land_where_the_shape_is_the_same() {
    let world = World::new(FormatVersion::V3, &[]);
    let other = Arc::new(new_metadata(FormatVersion::V3, &[], "ts_day"));
    assert_ne!(other.uuid(), world.new.uuid());
    let first = world.change(vec![world.file(1, 1)]);
    let mut second = world.change(vec![world.file(2, 1)]);
    second.metadata = other;
    let (first, second) = futures::join!(world.publish(first), world.publish(second));
    committed(first);
    committed(second);
    assert_eq!(summary(&world.catalog.current().metadata)["total-data-files"], "2");

    let mut third = world.change(vec![world.file(2, 1)]);
    third.base = None;
    let renamed = Schema::builder().with_fields([field(1, "ts", PrimitiveType::Timestamptz)]).build().unwrap();
    let spec = UnboundPartitionSpec::default();
    let shape = TableMetadataBuilder::new(
        renamed,
        spec,
        SortOrder::unsorted_order(),
        "memory://test/t".to_owned(),
        FormatVersion::V3,
        HashMap::new(),
    );
    third.metadata = Arc::new(shape.unwrap().build().unwrap().metadata);
    assert_eq!(lost(world.publish(third).await).0.code(), Code::CommitConflict);
}

#[tokio::test]
async fn a_conflict_that_was_none_is_found_out() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::FalseConflict);
    let (base, id) = committed(world.publish(world.change(vec![world.file(2, 1)])).await);
    assert_eq!(base.version, 2);
    assert_eq!(base.metadata.current_snapshot_id(), id);
    assert_eq!(world.live(&base.metadata, id).await.len(), 2);
}

#[tokio::test]
async fn an_unknown_commit_keeps_everything() {
    for landed in [true, false] {
        let world = World::new(FormatVersion::V3, &[]);
        world.append(vec![world.file(1, 1)]).await;
        world.catalog.fates.lock().push_back(Fate::Unknown { landed });
        let files = vec![world.file(2, 1)];
        world.store_data(&files).await;
        let published = world.publish(world.change(files.clone())).await;
        let Published::Unknown { cause, left_behind } = published else { panic!("{published:?}") };
        assert_eq!(cause.code(), Code::CommitStateUnknown);
        assert_eq!(left_behind.len(), 3);
        assert!(left_behind.contains(&files[0].file_path().to_owned()));
        assert_eq!((world.stored(".avro").await, world.stored(".parquet").await), (4, 1));
    }
}

#[tokio::test]
async fn a_refused_commit_leaves_only_what_the_caller_may_reclaim() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::NotSent);
    let files = vec![world.file(2, 1), world.file(3, 1)];
    world.store_data(&files[..1]).await;
    let (cause, staged) = lost(world.publish(world.change(files)).await);
    assert_eq!(cause.code(), Code::StorageFailed);
    assert_eq!((world.stored(".avro").await, world.stored(".parquet").await), (2, 1));
    assert_eq!(staged.locations().len(), 2);
    // One of them was never stored: that is as good as deleted.
    assert_eq!(staged.reclaim(&world.committer.env).await.unwrap(), 2);
    assert_eq!(world.stored(".parquet").await, 0);
}

#[tokio::test]
async fn tries_are_bounded() {
    let world = World::new(FormatVersion::V3, &[("commit.retry.num-retries", "2")]);
    world.append(vec![world.file(1, 1)]).await;
    for _ in 0..5 {
        world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(TableMetadata::clone)));
    }
    let (cause, _) = lost(world.publish(world.change(vec![world.file(2, 1)])).await);
    assert_eq!(cause.code(), Code::CommitConflict);
    assert!(cause.context().contains(&("attempts", "3".to_owned())), "{cause}");
    assert_eq!(world.catalog.fates.lock().len(), 2);
    assert_eq!(world.stored(".avro").await, 2);
}

/// Two processes that share nothing but a directory.
#[tokio::test]
async fn rivals_in_a_directory_lose_nothing() {
    let warehouse = tempfile::tempdir().unwrap();
    let ident = Ident::new("main", "t");
    let rivals: Vec<Committer> = (0..2u64)
        .map(|seed| {
            let env = Env::deterministic(Stores::new(), seed);
            let catalog = FileCatalog::new(env.clone(), warehouse.path().to_str().unwrap()).unwrap();
            let catalog = Arc::new(catalog.with_backoff(Duration::from_millis(1)));
            Committer { catalog, manifests: Manifests::new(env.stores.clone(), 1 << 20), env }
        })
        .collect();
    let location = rivals[0].catalog.location(&ident).unwrap();
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "3")]);
    let new = TableMetadata::clone(&world.new).into_builder(None).set_location(location.clone());
    let new = Arc::new(new.build().unwrap().metadata);
    for round in 0..4u64 {
        let published = futures::future::join_all(rivals.iter().map(|committer| async {
            let base = committer.catalog.load(&ident).await.unwrap();
            let metadata = base.as_ref().map_or_else(|| Arc::clone(&new), |base| Arc::clone(&base.metadata));
            let files = vec![world.file(1, 10)];
            let (updates, summary) = (Vec::new(), BTreeMap::new());
            // Every second round both bring the same batch.
            let batch_id = (round % 2 == 1).then(|| format!("batch {round}"));
            append(committer, &ident, Append { base, metadata, updates, files, summary, batch_id }).await
        }));
        let published = published.await;
        let landed = published.iter().filter(|published| matches!(published, Published::Committed { .. })).count();
        assert_eq!(landed as u64, 2 - round % 2, "{published:?}");
    }
    let (newest, metadata) = crate::metadata::open(&rivals[0].env.stores, &location).await.unwrap();
    assert!(newest.ends_with("/v6.metadata.json"), "{newest}");
    let mut ids: Vec<_> = live(&rivals[1], &metadata, metadata.current_snapshot_id())
        .await
        .iter()
        .map(|entry| entry.first_row_id.unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 10, 20, 30, 40, 50]);
}

fn with_batch(mut change: Append, id: &str) -> Append {
    change.batch_id = Some(id.to_owned());
    change
}

#[tokio::test]
async fn a_batch_lands_once_also_after_expiry() {
    let world = World::new(FormatVersion::V3, &[]);
    let (base, id) = committed(world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await);
    assert_eq!(find_batch(&base.metadata, "b1"), Some(Landed { snapshot_id: id }));
    assert_eq!(summary(&base.metadata)[BATCH_ID], "b1");

    let again = world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await;
    assert!(matches!(again, Published::AlreadyThere { snapshot_id } if snapshot_id == id), "{again:?}");
    committed(world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b2")).await);

    let expire = |metadata: &TableMetadata| {
        metadata.clone().into_builder(None).remove_snapshots(&[id.unwrap()]).build().unwrap().metadata
    };
    world.catalog.replace(expire);
    let again = world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await;
    assert!(matches!(again, Published::AlreadyThere { snapshot_id: None }), "{again:?}");
    assert_eq!(world.catalog.current().metadata.snapshots().len(), 1);
}

#[tokio::test]
async fn the_same_batch_twice_at_once_lands_once() {
    for created in [false, true] {
        let world = World::new(FormatVersion::V3, &[]);
        if created {
            world.append(vec![world.file(0, 1)]).await;
        }
        let mut changes = Vec::new();
        for _ in 0..3 {
            let files = vec![world.file(1, 10)];
            world.store_data(&files).await;
            changes.push(world.publish(with_batch(world.change(files), "b")));
        }
        let all = futures::future::join_all(changes).await;
        let there = all.iter().filter(|published| matches!(published, Published::AlreadyThere { .. })).count();
        let landed = all.iter().filter(|published| matches!(published, Published::Committed { .. })).count();
        assert_eq!((landed, there), (1, 2), "{all:?}");
        let metadata = world.catalog.current().metadata;
        let live = world.live(&metadata, metadata.current_snapshot_id()).await;
        assert_eq!(live.iter().filter(|entry| entry.file.record_count() == 10).count(), 1);
        assert_eq!(world.stored(".parquet").await, 1, "files of the others are gone");
    }
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_keeps_its_files_when_it_is_repeated() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let files = vec![world.file(2, 1)];
    world.store_data(&files).await;
    world.catalog.fates.lock().push_back(Fate::Unknown { landed: true });
    let change = with_batch(world.change(files), "b");
    assert!(matches!(world.publish(change.clone()).await, Published::Unknown { .. }));
    assert!(matches!(world.publish(change).await, Published::AlreadyThere { snapshot_id: Some(_) }));
    assert_eq!(world.stored(".parquet").await, 1);
}

/// Applies updates to a table, as another engine would.
fn evolve(metadata: &TableMetadata, updates: Vec<TableUpdate>) -> TableMetadata {
    let builder = metadata.clone().into_builder(None);
    let builder = updates.into_iter().try_fold(builder, |builder, update| update.apply(builder));
    stamped(&builder.unwrap().build().unwrap().metadata, metadata.last_updated_ms() + 1).unwrap()
}

fn schema_update(fields: impl IntoIterator<Item = iceberg::spec::NestedFieldRef>) -> Vec<TableUpdate> {
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]
}

fn fields_with(change: impl FnOnce(&mut Vec<iceberg::spec::NestedFieldRef>)) -> Vec<TableUpdate> {
    let mut fields = schema().as_struct().fields().to_vec();
    change(&mut fields);
    schema_update(fields)
}

/// Publishes one file while somebody else's updates come first.
async fn overtaken_by(theirs: Vec<TableUpdate>, ours: Vec<TableUpdate>) -> Result<Arc<TableMetadata>, String> {
    let world = World::new(FormatVersion::V3, &[]);
    let base = world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(move |metadata| evolve(metadata, theirs))));
    let mut change = world.change(vec![world.file(2, 1)]);
    change.metadata = Arc::new(evolve(&base.metadata, ours.clone()));
    change.updates = ours;
    match world.publish(change).await {
        Published::Committed { base, .. } => {
            assert_eq!(world.live(&base.metadata, base.metadata.current_snapshot_id()).await.len(), 2);
            Ok(base.metadata)
        }
        Published::Lost { cause, .. } => {
            assert_eq!(cause.code(), Code::CommitConflict);
            Err(cause.context().iter().find(|(key, _)| *key == "reason").unwrap().1.clone())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_append_is_rebased_over_what_does_not_touch_it() {
    let added = overtaken_by(fields_with(|f| f.push(field(4, "x", PrimitiveType::String))), vec![]).await.unwrap();
    assert!(added.current_schema().field_by_name("x").is_some());
    let widened = overtaken_by(fields_with(|f| f[2] = field(3, "n", PrimitiveType::Long)), vec![]).await;
    widened.unwrap();
    overtaken_by(fields_with(|f| f[2] = field(3, "renamed", PrimitiveType::Int)), vec![]).await.unwrap();
    let respec = UnboundPartitionSpec::builder().add_partition_field(2, "s", Transform::Identity).unwrap().build();
    let theirs = vec![TableUpdate::AddSpec { spec: respec }, TableUpdate::SetDefaultSpec { spec_id: -1 }];
    overtaken_by(theirs, vec![]).await.unwrap();
    let property =
        |key: &str| TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), "1".to_owned())]) };
    let both = overtaken_by(vec![property("theirs")], vec![property("ours")]).await.unwrap();
    assert!(both.properties().contains_key("theirs") && both.properties().contains_key("ours"));
    // The same new column from both sides is one column.
    let same = || fields_with(|f| f.push(field(4, "x", PrimitiveType::String)));
    assert_eq!(overtaken_by(same(), same()).await.unwrap().last_column_id(), 4);
}

#[tokio::test]
async fn an_append_is_lost_where_its_rows_would_be_misread() {
    let reason = |theirs| async { overtaken_by(theirs, vec![]).await.unwrap_err() };
    let dropped = fields_with(|f| f.truncate(2));
    assert_eq!(reason(dropped).await, "column `n` was dropped");
    let required = |f: &mut Vec<_>| f[2] = Arc::new(NestedField::required(3, "n", Type::Primitive(PrimitiveType::Int)));
    assert_eq!(reason(fields_with(required)).await, "column `n` became required");
    let retyped = fields_with(|f| f[2] = field(3, "n", PrimitiveType::String));
    assert_eq!(reason(retyped).await, "column `n` changed its type from int to string");
    let new = |f: &mut Vec<_>| f.push(Arc::new(NestedField::required(4, "x", Type::Primitive(PrimitiveType::Int))));
    assert_eq!(reason(fields_with(new)).await, "a required column `x` was added");
    // Two columns under one new id.
    let theirs = fields_with(|f| f.push(field(4, "theirs", PrimitiveType::String)));
    let ours = fields_with(|f| f.push(field(4, "ours", PrimitiveType::String)));
    let clash = overtaken_by(theirs, ours).await.unwrap_err();
    assert_eq!(clash, "somebody changed the schema, and so does this change");
}

#[tokio::test]
async fn a_table_that_is_another_now_is_not_written_to() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let change = world.change(vec![world.file(2, 1)]);
    world.catalog.replace(|_| new_metadata(FormatVersion::V3, &[], "ts_day"));
    assert_eq!(lost(world.publish(change.clone()).await).0.code(), Code::CommitConflict);
    world.catalog.drop_table(&world.ident, false).await.unwrap();
    assert_eq!(lost(world.publish(change).await).0.code(), Code::CommitConflict);
}

#[tokio::test]
async fn a_sort_order_the_table_lost_is_not_claimed() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let mut change = world.change(vec![world.file(2, 1)]);
    // Files sorted by an order that only our metadata knows.
    let by_n = SortField::builder()
        .source_id(3)
        .transform(Transform::Identity)
        .direction(SortDirection::Ascending)
        .null_order(NullOrder::Last)
        .build();
    let sort_order = SortOrder::builder().with_order_id(2).with_fields(vec![by_n]).build_unbound().unwrap();
    change.metadata = Arc::new(evolve(&change.metadata, vec![TableUpdate::AddSortOrder { sort_order }]));
    change.files = vec![
        crate::metadata::rebuild(&change.files[0], |file| {
            file.sort_order_id(2);
        })
        .unwrap(),
    ];
    let (base, id) = committed(world.publish(change).await);
    let orders: Vec<_> = world.live(&base.metadata, id).await.iter().map(|entry| entry.file.sort_order_id()).collect();
    assert_eq!(orders, [Some(0), Some(1)]);
}

#[tokio::test]
async fn changes_without_files_make_no_snapshot() {
    let world = World::new(FormatVersion::V3, &[]);
    let (base, id) = committed(world.publish(world.change(vec![])).await);
    assert_eq!((base.version, id, base.metadata.snapshots().len()), (1, None, 0));
    assert_eq!(base.metadata.last_updated_ms(), world.committer.env.clock.now_ms());

    let (base, _) = committed(world.publish(world.change(vec![])).await);
    assert_eq!(base.version, 1, "nothing to do is nothing done");

    let mut change = world.change(vec![]);
    change.updates = vec![TableUpdate::SetProperties { updates: HashMap::from([("a".to_owned(), "b".to_owned())]) }];
    let (base, id) = committed(world.publish(change).await);
    assert_eq!((base.version, id, base.metadata.properties()["a"].as_str()), (2, None, "b"));
    assert_eq!(base.metadata.last_updated_ms(), world.committer.env.clock.now_ms() + 1);

    let mut change = world.change(vec![]);
    change.base = None;
    assert_eq!(lost(world.publish(change).await).0.code(), Code::AlreadyExists);
    assert_eq!(world.stored(".avro").await, 0);
}

#[tokio::test]
async fn retention_of_main_survives() {
    let world = World::new(FormatVersion::V3, &[]);
    let base = world.append(vec![world.file(1, 1)]).await;
    let retention = SnapshotRetention::Branch {
        min_snapshots_to_keep: Some(5),
        max_snapshot_age_ms: Some(1000),
        max_ref_age_ms: None,
    };
    let id = base.metadata.current_snapshot_id().unwrap();
    world.catalog.replace(|metadata| {
        let builder = metadata.clone().into_builder(None);
        builder.set_ref("main", SnapshotReference::new(id, retention.clone())).unwrap().build().unwrap().metadata
    });
    world.append(vec![world.file(1, 1)]).await;
    let base = world.append(vec![world.file(1, 1)]).await;
    let json = serde_json::to_value(&*base.metadata).unwrap();
    assert_eq!(json["refs"]["main"]["min-snapshots-to-keep"], 5);
    assert_eq!(json["refs"]["main"]["max-snapshot-age-ms"], 1000);
}

#[tokio::test]
async fn older_format_versions_are_appended_to_and_merged() {
    for version in [FormatVersion::V1, FormatVersion::V2] {
        let world = World::new(version, &[("commit.manifest.min-count-to-merge", "2")]);
        for day in 0..5 {
            world.append(vec![world.file(day, 2)]).await;
        }
        let metadata = world.catalog.current().metadata;
        let live = world.live(&metadata, metadata.current_snapshot_id()).await;
        let mut found: Vec<_> = live.iter().map(|e| (e.sequence_number, e.first_row_id)).collect();
        found.sort_unstable();
        let sequence = |n: i64| if version == FormatVersion::V1 { 0 } else { n };
        assert_eq!(found, (1..=5).map(|n| (sequence(n), None)).collect::<Vec<_>>());
        assert_eq!(summary(&metadata)["total-records"], "10");
    }
}

#[tokio::test]
async fn an_upgraded_table_gives_every_row_an_id_once() {
    for min_count in ["100", "2"] {
        let world = World::new(FormatVersion::V1, &[("commit.manifest.min-count-to-merge", min_count)]);
        for rows in [3, 4, 5] {
            world.append(vec![world.file(1, rows)]).await;
        }
        let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V2 };
        world.catalog.replace(|metadata| evolve(metadata, vec![upgrade]));
        world.append(vec![world.file(1, 6)]).await;
        let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 };
        world.catalog.replace(|metadata| evolve(metadata, vec![upgrade]));
        let before = world.catalog.current().metadata;
        let base = world.append(vec![world.file(1, 7)]).await;
        assert_eq!(base.metadata.next_row_id(), 25);
        let spans = |live: Vec<Entry>| {
            let mut spans: Vec<_> =
                live.iter().map(|e| (e.first_row_id.unwrap(), e.file.record_count() as i64)).collect();
            spans.sort_unstable();
            spans
        };
        let first = world.live(&base.metadata, base.metadata.current_snapshot_id()).await;
        assert!(spans(first.clone()).windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "{:?}", spans(first.clone()));
        // The old snapshot shows none, and the next commit moves none.
        let old = world.live(&base.metadata, before.current_snapshot_id()).await;
        assert!(old.iter().all(|entry| entry.first_row_id.is_none()));
        let base = world.append(vec![world.file(1, 1)]).await;
        let second = world.live(&base.metadata, base.metadata.current_snapshot_id()).await;
        for entry in &first {
            let same = second.iter().find(|other| other.file.file_path() == entry.file.file_path()).unwrap();
            assert_eq!(same.first_row_id, entry.first_row_id);
        }
    }
}

#[tokio::test]
async fn delete_manifests_are_carried_as_they_are() {
    let world = World::new(FormatVersion::V2, &[("commit.manifest.min-count-to-merge", "2")]);
    let base = world.append(vec![world.file(1, 1)]).await;
    let io = world.committer.env.stores.file_io();
    let metadata = base.metadata;
    let spec = metadata.default_partition_spec();
    let path = "memory://test/t/metadata/deletes.avro";
    let schema = Arc::clone(metadata.current_schema());
    let builder = ManifestWriterBuilder::new(io.new_output(path).unwrap(), Some(99), schema, (**spec).clone());
    let mut writer = builder.build_v2_deletes();
    let delete = crate::metadata::rebuild(&world.file(1, 1), |file| {
        file.content(DataContentType::PositionDeletes);
    });
    writer.add_file(delete.unwrap(), -1).unwrap();
    let deletes = writer.write_manifest_file().await.unwrap();
    let list = "memory://test/t/metadata/list.avro";
    let out = io.new_output(list).unwrap().writer().await.unwrap();
    let mut writer = ManifestListWriter::v2(out, 99, metadata.current_snapshot_id(), 2);
    let data = world.committer.manifests.list(&metadata, metadata.current_snapshot_id()).await.unwrap();
    writer.add_manifests(data.iter().cloned().chain([deletes])).unwrap();
    writer.close().await.unwrap();
    let snapshot = iceberg::spec::Snapshot::builder()
        .with_snapshot_id(99)
        .with_parent_snapshot_id(metadata.current_snapshot_id())
        .with_sequence_number(2)
        .with_timestamp_ms(metadata.last_updated_ms() + 1)
        .with_manifest_list(list)
        .with_summary(iceberg::spec::Summary {
            operation: iceberg::spec::Operation::Delete,
            additional_properties: HashMap::new(),
        })
        .build();
    world.catalog.replace(|metadata| {
        let builder = metadata.clone().into_builder(None);
        builder.set_branch_snapshot(snapshot, "main").unwrap().build().unwrap().metadata
    });
    let kept = |list: &[iceberg::spec::ManifestFile]| -> Vec<_> {
        list.iter().filter(|m| m.content == ManifestContentType::Deletes).cloned().collect()
    };
    let before = world.catalog.current().metadata;
    let before = kept(&world.committer.manifests.list(&before, Some(99)).await.unwrap());
    for _ in 0..3 {
        world.append(vec![world.file(2, 1)]).await;
    }
    let after = world.catalog.current().metadata;
    let manifests = world.committer.manifests.list(&after, after.current_snapshot_id()).await.unwrap();
    assert_eq!(kept(&manifests), before);
    assert!(!summary(&after).contains_key("total-records"), "unknown totals are not invented");
}

#[tokio::test]
async fn the_format_library_reads_what_was_written() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "2")]);
    for day in 0..4 {
        world.append(vec![world.file(day, 2)]).await;
    }
    let base = world.catalog.current();
    let table = iceberg::table::Table::builder()
        .metadata(base.metadata)
        .metadata_location(base.location)
        .identifier(iceberg::TableIdent::from_strs(["main", "t"]).unwrap())
        .file_io(world.committer.env.stores.file_io())
        .runtime(iceberg::Runtime::current())
        .build()
        .unwrap();
    let filter =
        iceberg::expr::Reference::new("ts").greater_than_or_equal_to(Datum::timestamptz_micros(2 * 86_400_000_000));
    let scan = table.scan().with_filter(filter).build().unwrap();
    let tasks: Vec<_> = scan.plan_files().await.unwrap().try_collect().await.unwrap();
    let mut paths: Vec<_> = tasks.iter().map(|task| task.data_file_path.clone()).collect();
    paths.sort();
    assert_eq!(paths, ["memory://test/t/data/2.parquet", "memory://test/t/data/3.parquet"]);
}

#[tokio::test]
async fn a_partition_field_of_any_name_keeps_its_values() {
    let world =
        World::with(new_metadata(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "2")], "1 créé-à/day"));
    for day in [19, 20, 21] {
        world.append(vec![world.file(day, 1)]).await;
    }
    let metadata = world.catalog.current().metadata;
    let live = world.live(&metadata, metadata.current_snapshot_id()).await;
    let days: Vec<_> = live.iter().map(|entry| entry.file.partition().fields().to_vec()).collect();
    assert_eq!(days, [21, 20, 19].map(|day| vec![Some(Literal::date(day))]));
}

#[derive(Clone, Debug)]
struct Step {
    rows: Vec<u64>,
    conflict: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (prop::collection::vec(0u64..50, 1..4), any::<bool>());
    prop::collection::vec(step.prop_map(|(rows, conflict)| Step { rows, conflict }), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is appended and merged, each file is there once, as it was when it was added, and each snapshot reads
    /// as it did when it was new.
    #[test]
    fn every_live_file_exactly_once(steps in steps(), min_count in 2usize..5, target in 1000u64..6000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (min_count, target) = (min_count.to_string(), target.to_string());
            let properties =
                [("commit.manifest.min-count-to-merge", min_count.as_str()), ("commit.manifest.target-size-bytes", target.as_str())];
            let world = World::new(FormatVersion::V3, &properties);
            let mut expected: Vec<(String, i64, i64, i64)> = Vec::new();
            let mut history = Vec::new();
            let mut next_row = 0i64;
            for (n, step) in steps.iter().enumerate() {
                if step.conflict && n > 0 {
                    world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(TableMetadata::clone)));
                }
                let files: Vec<_> = step.rows.iter().enumerate().map(|(day, rows)| world.file(day as i32, *rows)).collect();
                let (base, id) = committed(world.publish(world.change(files.clone())).await);
                let id = id.unwrap();
                for file in files {
                    expected.push((file.file_path().to_owned(), next_row, n as i64 + 1, id));
                    next_row += file.record_count() as i64;
                }
                assert_eq!(base.metadata.next_row_id() as i64, next_row);
                history.push((id, expected.clone()));
            }
            let metadata = world.catalog.current().metadata;
            for (id, mut expected) in history {
                let live = world.live(&metadata, Some(id)).await;
                let mut found: Vec<_> = live
                    .into_iter()
                    .map(|e| (e.file.file_path().to_owned(), e.first_row_id.unwrap(), e.sequence_number, e.snapshot_id))
                    .collect();
                found.sort();
                expected.sort();
                assert_eq!(found, expected);
            }
            assert_eq!(summary(&metadata)["total-data-files"], expected.len().to_string());
            assert_eq!(summary(&metadata)["total-records"], next_row.to_string());
        });
    }
}
