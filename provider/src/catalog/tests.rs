//! The file catalog over memory and over a real directory, with a store that fails on demand.

use std::collections::HashMap;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    FormatVersion, NestedField, PartitionSpec, PrimitiveType, Schema, SortOrder, TableMetadataBuilder, Type,
};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use parking_lot::Mutex;

use super::*;
use crate::error::Code;
use crate::storage::{Env, Stores, paths};

// ---- a store that fails on demand ----

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The write does not happen, the answer is an error.
    Before,
    /// The write happens, the answer is an error.
    After,
    /// The write happens, the answer says that it exists already.
    AlreadyOurs,
    /// The write does not happen, the answer says that it exists already (a conflicting write that failed).
    AlreadyNobody,
    /// The disk is full.
    Full,
    /// This machine may not write.
    Denied,
    /// The store's credentials may not write.
    Forbidden,
    /// Exclusive creation is unknown to the store.
    Unsupported,
}

#[derive(Debug, Default)]
struct Plan {
    /// What happens to the next writes of metadata files, in order.
    puts: Vec<Fault>,
    /// Reads of this file fail.
    unreadable: Option<String>,
    /// This directory cannot be looked into.
    unlistable: Option<String>,
    /// This file appears (with this content) before the next metadata write.
    rival: Option<(String, Bytes)>,
    log: Vec<String>,
}

#[derive(Clone, Debug)]
struct Faulty {
    inner: Arc<dyn ObjectStore>,
    plan: Arc<Mutex<Plan>>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

fn broken(what: &str) -> StoreError {
    StoreError::Generic { store: "Faulty", source: what.to_owned().into() }
}

fn errno(code: i32) -> StoreError {
    StoreError::Generic { store: "Faulty", source: std::io::Error::from_raw_os_error(code).into() }
}

impl Faulty {
    fn note(&self, verb: &str, path: &Path) {
        self.plan.lock().log.push(format!("{verb} {}", path.filename().unwrap_or_default()));
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        self.note("PUT", at);
        let is_metadata = at.filename().is_some_and(|name| name.ends_with(".metadata.json"));
        if !is_metadata {
            return self.inner.put_opts(at, payload, opts).await;
        }
        let (fault, rival) = {
            let mut plan = self.plan.lock();
            let fault = if plan.puts.is_empty() { None } else { Some(plan.puts.remove(0)) };
            (fault, plan.rival.take())
        };
        if let Some((path, content)) = rival {
            self.inner.put(&Path::parse(path)?, content.into()).await?;
        }
        let exists = || StoreError::AlreadyExists { path: at.to_string(), source: "412".into() };
        match fault {
            None => self.inner.put_opts(at, payload, opts).await,
            Some(Fault::Before) => Err(broken("503 before")),
            Some(Fault::After) => {
                self.inner.put_opts(at, payload, opts).await?;
                Err(broken("connection reset"))
            }
            Some(Fault::AlreadyOurs) => {
                self.inner.put_opts(at, payload, opts).await?;
                Err(exists())
            }
            Some(Fault::AlreadyNobody) => Err(exists()),
            Some(Fault::Full) => Err(errno(28)),
            Some(Fault::Denied) => Err(errno(13)),
            Some(Fault::Forbidden) => Err(StoreError::PermissionDenied { path: at.to_string(), source: "403".into() }),
            Some(Fault::Unsupported) => {
                Err(StoreError::NotImplemented { operation: "create".into(), implementer: "Faulty".into() })
            }
        }
    }

    async fn put_multipart_opts(&self, at: &Path, opts: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, opts).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.note(if options.head { "HEAD" } else { "GET" }, at);
        let unreadable = self.plan.lock().unreadable.clone();
        if unreadable.is_some() && unreadable.as_deref() == at.filename() {
            return Err(broken("timeout"));
        }
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        let this = self.clone();
        let noted = paths.map(move |path| path.inspect(|path| this.note("DELETE", path)));
        self.inner.delete_stream(noted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.note("LIST", prefix.unwrap_or(&Path::ROOT));
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.note("LIST", prefix.unwrap_or(&Path::ROOT));
        let unlistable = self.plan.lock().unlistable.clone();
        if unlistable.is_some() && unlistable.as_deref() == prefix.and_then(Path::filename) {
            return Err(errno(13));
        }
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

// ---- a warehouse in memory or on disk ----

struct World {
    catalog: FileCatalog,
    env: Env,
    plan: Arc<Mutex<Plan>>,
    _dir: Option<tempfile::TempDir>,
}

impl World {
    fn memory() -> World {
        World::new("memory://w".to_owned(), None)
    }

    fn local() -> World {
        let dir = tempfile::tempdir().unwrap();
        World::new(dir.path().join("ware house").to_str().unwrap().to_owned(), Some(dir))
    }

    /// Both kinds: every test that takes no interest in the kind runs on each.
    fn all() -> [World; 2] {
        [World::memory(), World::local()]
    }

    fn new(warehouse: String, dir: Option<tempfile::TempDir>) -> World {
        let stores = Stores::new();
        let located = stores.resolve(&warehouse).unwrap();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let faulty = Faulty { inner: located.store, plan: Arc::clone(&plan) };
        stores.register(located.url.as_ref(), Arc::new(faulty));
        let env = Env::deterministic(stores, 1);
        let catalog = FileCatalog::new(env.clone(), &warehouse).unwrap().with_backoff(Duration::ZERO);
        World { catalog, env, plan, _dir: dir }
    }

    fn fail(&self, faults: &[Fault]) {
        self.plan.lock().puts = faults.to_vec();
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.plan.lock().log)
    }

    /// The location of a file of `main.t`.
    fn file(&self, name: &str) -> String {
        paths::join(&self.catalog.location(&t()).unwrap(), name)
    }

    async fn write(&self, location: &str, content: impl Into<Bytes>) {
        let at = self.env.stores.resolve(location).unwrap();
        at.store.put(&at.path, content.into().into()).await.unwrap();
        self.plan.lock().log.clear();
    }

    async fn text(&self, location: &str) -> Option<Bytes> {
        let at = self.env.stores.resolve(location).unwrap();
        match at.store.get(&at.path).await {
            Ok(answer) => Some(answer.bytes().await.unwrap()),
            Err(StoreError::NotFound { .. }) => None,
            Err(e) => panic!("{e}"),
        }
    }

    async fn hint(&self) -> Option<String> {
        let text = self.text(&self.file("metadata/version-hint.text")).await?;
        Some(String::from_utf8(text.to_vec()).unwrap())
    }

    async fn files(&self) -> Vec<String> {
        let at = self.env.stores.resolve(self.catalog.warehouse()).unwrap();
        let found = at.store.list(Some(&at.path)).map_ok(|meta| meta.location);
        let mut found: Vec<Path> = found.try_collect().await.unwrap();
        found.sort();
        let tail =
            |path: &Path| path.prefix_match(&at.path).unwrap().map(|p| p.as_ref().to_owned()).collect::<Vec<_>>();
        found.iter().map(|path| tail(path).join("/")).collect()
    }

    fn new_table(&self, ident: &Ident) -> Proposal {
        let id = NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long));
        let schema = Schema::builder().with_fields([Arc::new(id)]).build().unwrap();
        let location = self.catalog.location(ident).unwrap();
        let builder = TableMetadataBuilder::new(
            schema,
            PartitionSpec::unpartition_spec(),
            SortOrder::unsorted_order(),
            location,
            FormatVersion::V3,
            HashMap::new(),
        );
        proposal(builder.unwrap().assign_uuid(self.env.ids.uuid()))
    }

    async fn create(&self, ident: &Ident) -> Base {
        self.catalog.publish(ident, None, &self.new_table(ident)).await.unwrap()
    }

    /// `main.t` with versions 1 to `version`.
    async fn table(&self, version: u64) -> Base {
        let mut base = self.create(&t()).await;
        while base.version < version {
            base = self.catalog.publish(&t(), Some(&base), &with(&base, "n", base.version)).await.unwrap();
        }
        self.plan.lock().log.clear();
        base
    }

    async fn newest(&self) -> Base {
        self.catalog.load(&t()).await.unwrap().unwrap()
    }
}

fn t() -> Ident {
    Ident::new("main", "t")
}

fn ns(levels: &[&str]) -> Vec<String> {
    levels.iter().map(|&level| level.to_owned()).collect()
}

fn proposal(builder: TableMetadataBuilder) -> Proposal {
    let built = builder.build().unwrap();
    Proposal { metadata: built.metadata, requirements: Vec::new(), updates: built.changes }
}

/// `base` with one property more.
fn with(base: &Base, key: &str, value: impl ToString) -> Proposal {
    let metadata = TableMetadata::clone(&base.metadata);
    let builder = metadata.into_builder(Some(base.location.clone()));
    proposal(builder.set_properties(HashMap::from([(key.to_owned(), value.to_string())])).unwrap())
}

fn property<'a>(base: &'a Base, key: &str) -> Option<&'a str> {
    base.metadata.properties().get(key).map(String::as_str)
}

fn outcome<T>(result: &Result<T, PublishError>) -> (&'static str, Option<Code>) {
    let word = match result {
        Ok(_) => "committed",
        Err(PublishError::Conflict(_)) => "conflict",
        Err(PublishError::NotSent(_)) => "not sent",
        Err(PublishError::Unknown(_)) => "unknown",
    };
    (word, result.as_ref().err().map(|e| e.error().code()))
}

// ---- publishing and loading ----

#[tokio::test]
async fn versions_are_files_of_hadoops_names() {
    for world in World::all() {
        assert!(world.catalog.load(&t()).await.unwrap().is_none());
        let base = world.table(3).await;
        assert_eq!(base.version, 3);
        assert_eq!(base.location, world.file("metadata/v3.metadata.json"));
        assert!(!base.metadata.location().ends_with('/'));
        assert_eq!(world.hint().await.as_deref(), Some("3"), "no newline");
        let names = ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json", "version-hint.text"];
        assert_eq!(world.files().await, names.map(|name| format!("main/t/metadata/{name}")));
        let loaded = world.newest().await;
        assert_eq!((loaded.version, &loaded.location), (3, &base.location));
        assert_eq!(loaded.metadata, base.metadata);
    }
}

#[tokio::test]
async fn a_local_location_is_an_absolute_url() {
    let world = World::local();
    let location = world.catalog.location(&Ident::new("main", "a b#1")).unwrap();
    assert!(location.starts_with("file:///") && location.ends_with("/ware house/main/a b%231"), "{location}");
}

#[tokio::test]
async fn two_writers_one_wins() {
    for world in World::all() {
        let base = world.table(1).await;
        let rivals = (0..8).map(|i| {
            let (world, base) = (&world, &base);
            async move { world.catalog.publish(&t(), Some(base), &with(base, "winner", i)).await }
        });
        let results = futures::future::join_all(rivals).await;
        let won: Vec<_> = (0..8).filter(|&i| results[i].is_ok()).collect();
        assert_eq!(won.len(), 1);
        assert_eq!(property(&world.newest().await, "winner"), Some(won[0].to_string().as_str()));
        for lost in results.iter().filter(|result| result.is_err()) {
            assert_eq!(outcome(lost), ("conflict", Some(Code::CommitConflict)));
        }
    }
}

#[tokio::test]
async fn of_two_creations_one_wins() {
    for world in World::all() {
        let (one, two) = (world.new_table(&t()), world.new_table(&t()));
        let (t, catalog) = (t(), &world.catalog);
        let (a, b) = tokio::join!(catalog.publish(&t, None, &one), catalog.publish(&t, None, &two));
        let lost = if a.is_ok() { &b } else { &a };
        assert!(a.is_ok() != b.is_ok());
        assert_eq!(outcome(lost), ("conflict", Some(Code::AlreadyExists)));
        let again = catalog.publish(&t, None, &one).await;
        assert_eq!(outcome(&again), ("conflict", Some(Code::AlreadyExists)));
    }
}

#[tokio::test]
async fn a_table_is_not_created_over_a_later_version() {
    for world in World::all() {
        world.table(3).await;
        let at = world.env.stores.resolve(&world.file("metadata/v1.metadata.json")).unwrap();
        at.store.delete(&at.path).await.unwrap();
        let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
        assert_eq!(outcome(&created), ("conflict", Some(Code::AlreadyExists)));
    }
}

#[tokio::test]
async fn lost_answer_is_verified() {
    use Fault::*;
    let landed: &[&[Fault]] = &[
        &[After],
        &[AlreadyOurs],
        &[Before],
        &[AlreadyNobody],
        &[Before, Before, AlreadyNobody, Before],
        &[Before, After],
        &[AlreadyNobody, AlreadyOurs],
        &[Before, Full],
    ];
    for faults in landed {
        for world in World::all() {
            let base = world.table(1).await;
            world.fail(faults);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("committed", None), "{faults:?}");
            assert_eq!(published.unwrap().version, 2, "{faults:?}");
            assert_eq!(property(&world.newest().await, "k"), Some("v"));
            assert_eq!(world.hint().await.as_deref(), Some("2"));
        }
    }
}

#[tokio::test]
async fn a_refusal_is_proof() {
    use Fault::*;
    let refused = [
        (Full, Code::StorageFull),
        (Denied, Code::PermissionDenied),
        (Forbidden, Code::PermissionDenied),
        (Unsupported, Code::NotSupported),
    ];
    for (fault, code) in refused {
        for world in World::all() {
            let base = world.table(1).await;
            world.fail(&[fault]);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(code)), "{fault:?}");
            assert_eq!(world.log().iter().filter(|line| *line == "PUT v2.metadata.json").count(), 1, "{fault:?}");
            assert_eq!(world.newest().await.version, 1);
            assert_eq!(world.hint().await.as_deref(), Some("1"));
        }
    }
}

#[tokio::test]
async fn unknown_is_unknown() {
    use Fault::*;
    for world in World::all() {
        let base = world.table(1).await;
        for fault in [Before, After, AlreadyOurs, AlreadyNobody, Forbidden] {
            world.fail(&[fault]);
            world.plan.lock().unreadable = Some("v2.metadata.json".to_owned());
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)), "{fault:?}");
            let error = published.unwrap_err().error().to_string();
            assert!(
                error.contains("v2.metadata.json") && error.contains("timeout") && error.contains("main.t"),
                "{error}"
            );
            world.plan.lock().unreadable = None;
            let at = world.env.stores.resolve(&world.file("metadata/v2.metadata.json")).unwrap();
            let _ = at.store.delete(&at.path).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_always_lost_is_unknown_although_the_slot_is_empty() {
    for world in World::all() {
        let base = world.table(1).await;
        for faults in [[Fault::Before; 5], [Fault::AlreadyNobody; 5]] {
            world.fail(&faults);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)));
        }
        // A refusal after a lost answer refuses only the repetition.
        world.fail(&[Fault::Before, Fault::Full, Fault::Full, Fault::Full, Fault::Full]);
        let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)));
        assert_eq!(world.newest().await.version, 1);
    }
}

#[tokio::test]
async fn a_rival_in_the_slot_is_a_conflict_whatever_the_store_answers() {
    for world in World::all() {
        let base = world.table(1).await;
        let slot = world.env.stores.resolve(&world.file("metadata/v2.metadata.json")).unwrap();
        let rival = serde_json::to_vec(&with(&base, "by", "rival").metadata).unwrap();
        for fault in [Fault::Before, Fault::AlreadyNobody, Fault::Forbidden] {
            world.fail(&[fault]);
            world.plan.lock().rival = Some((slot.path.to_string(), rival.clone().into()));
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "by", "us")).await;
            assert_eq!(outcome(&published), ("conflict", Some(Code::CommitConflict)), "{fault:?}");
            assert_eq!(property(&world.newest().await, "by"), Some("rival"));
            slot.store.delete(&slot.path).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_hint_that_cannot_be_written_loses_no_commit() {
    let world = World::memory();
    let base = world.table(1).await;
    world.plan.lock().unreadable = Some("version-hint.text".to_owned());
    let next = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
    assert_eq!(world.newest().await.version, next.version);
    world.plan.lock().unreadable = None;
    assert_eq!(world.hint().await.as_deref(), Some("1"));
    assert_eq!(world.newest().await.version, 2);
}

// ---- the hint ----

#[tokio::test]
async fn a_right_hint_makes_three_requests_and_no_listing() {
    for world in World::all() {
        world.table(4).await;
        assert_eq!(world.newest().await.version, 4);
        let mut log = world.log();
        log.sort();
        assert_eq!(log, ["GET v4.metadata.json", "GET v5.metadata.json", "GET version-hint.text"]);
    }
}

#[tokio::test]
async fn stale_hint_is_ignored() {
    for world in World::all() {
        world.table(12).await;
        for hint in ["11", "7", "3", "2", "1"] {
            world.write(&world.file("metadata/version-hint.text"), hint).await;
            assert_eq!(world.newest().await.version, 12, "{hint}");
        }
        assert!(world.log().len() < 20, "a hint that is far behind is not followed step by step");
    }
}

#[tokio::test]
async fn hint_ahead() {
    for world in World::all() {
        let base = world.table(2).await;
        world.write(&world.file("metadata/version-hint.text"), "9").await;
        assert_eq!(world.newest().await.version, 2);
        world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
        assert_eq!(world.hint().await.as_deref(), Some("3"), "a hint to nothing is put right");
    }
}

#[tokio::test]
async fn the_hint_never_goes_back() {
    for world in World::all() {
        let base = world.table(2).await;
        // A later commit was faster with its hint than we are.
        let later = with(&base, "k", "later");
        world.write(&world.file("metadata/v4.metadata.json"), serde_json::to_vec(&later.metadata).unwrap()).await;
        world.write(&world.file("metadata/version-hint.text"), "4").await;
        world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
        assert_eq!(world.hint().await.as_deref(), Some("4"));
    }
}

#[tokio::test]
async fn missing_hint() {
    for world in World::all() {
        world.table(11).await;
        let at = world.env.stores.resolve(&world.file("metadata/version-hint.text")).unwrap();
        at.store.delete(&at.path).await.unwrap();
        assert_eq!(world.newest().await.version, 11, "v11 is later than v9");
        for bad in ["", "x", "v11", "00011-abc", "\u{0}"] {
            world.write(&world.file("metadata/version-hint.text"), bad).await;
            let base = world.newest().await;
            assert_eq!(base.version, 11, "{bad:?}");
        }
        world.write(&world.file("metadata/version-hint.text"), "11\n").await;
        assert_eq!(world.newest().await.version, 11);
        let log = world.log();
        assert!(!log.iter().any(|line| line.starts_with("LIST")), "{log:?}");
    }
}

#[tokio::test]
async fn older_versions_may_be_gone() {
    for world in World::all() {
        world.table(5).await;
        for version in 1..5 {
            let at = world.env.stores.resolve(&world.file(&format!("metadata/v{version}.metadata.json"))).unwrap();
            at.store.delete(&at.path).await.unwrap();
        }
        world.write(&world.file("metadata/version-hint.text"), "3").await;
        assert_eq!(world.newest().await.version, 5);
    }
}

// ---- other writers' files, damage ----

#[tokio::test]
async fn damaged_metadata_is_named_and_left_alone() {
    for world in World::all() {
        let base = world.table(2).await;
        let newest = world.file("metadata/v3.metadata.json");
        let whole = serde_json::to_vec(&with(&base, "k", "v").metadata).unwrap();
        for content in [&b""[..], &whole[..whole.len() / 2], b"\x1f\x8b\x08broken"] {
            world.write(&newest, content.to_vec()).await;
            for hint in ["2", "3", "x"] {
                world.write(&world.file("metadata/version-hint.text"), hint).await;
                let error = world.catalog.load(&t()).await.unwrap_err();
                assert_eq!(error.code(), Code::MetadataCorrupt);
                assert!(error.to_string().contains("v3.metadata.json"), "{error}");
            }
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("conflict", Some(Code::CommitConflict)));
            assert_eq!(world.text(&newest).await.unwrap(), content, "not written over");
        }
    }
}

#[tokio::test]
async fn compressed_metadata_is_read_and_not_written() {
    for name in ["v2.gz.metadata.json", "v2.metadata.json.gz"] {
        for world in World::all() {
            let base = world.table(1).await;
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(&serde_json::to_vec(&with(&base, "k", "zipped").metadata).unwrap()).unwrap();
            world.write(&world.file(&format!("metadata/{name}")), gzip.finish().unwrap()).await;

            // With the hint still at 1, the plain slot 2 is free, and must not be taken.
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));

            world.write(&world.file("metadata/version-hint.text"), "2").await;
            let newest = world.newest().await;
            assert_eq!((newest.version, property(&newest, "k")), (2, Some("zipped")));
            let published = world.catalog.publish(&t(), Some(&newest), &with(&newest, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        }
    }
}

#[tokio::test]
async fn two_names_of_one_version_are_refused() {
    let world = World::memory();
    let base = world.table(2).await;
    let text = serde_json::to_vec(&base.metadata).unwrap();
    world.write(&world.file("metadata/v2.gz.metadata.json"), text).await;
    world.write(&world.file("metadata/version-hint.text"), "x").await;
    assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
}

#[tokio::test]
async fn another_catalogs_table_is_read_and_not_written() {
    const UUID: &str = "4d5a9b0e-53e3-4f0c-bb6a-1d8b8a4c9f10";
    for world in World::all() {
        let proposal = world.new_table(&t());
        let text = serde_json::to_vec(&proposal.metadata).unwrap();
        world.write(&world.file(&format!("metadata/00000-{UUID}.metadata.json")), text.clone()).await;
        world.write(&world.file(&format!("metadata/00007-{UUID}.metadata.json")), text.clone()).await;
        let base = world.newest().await;
        assert_eq!(base.version, 7);
        let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NotSupported);
        assert_eq!(world.files().await.len(), 2);

        // Which of two is the newest, only the other catalog knows.
        let other = UUID.replace('4', "5");
        world.write(&world.file(&format!("metadata/00007-{other}.metadata.json")), text).await;
        assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
    }
}

#[tokio::test]
async fn absent_is_only_what_a_listing_shows_to_be_absent() {
    let world = World::memory();
    world.write(&world.file("metadata/strange.metadata.json"), "{}").await;
    assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    assert_eq!(outcome(&created), ("not sent", Some(Code::MetadataCorrupt)));

    let world = World::memory();
    world.write(&world.file("metadata/snap-1.avro"), "x").await;
    assert!(world.catalog.load(&t()).await.unwrap().is_none());
}

#[tokio::test]
async fn what_would_fork_or_move_the_table_is_refused() {
    for world in World::all() {
        let base = world.table(1).await;
        let refused = [
            with(&base, "write.metadata.path", "memory://elsewhere"),
            with(&base, "write.metadata.compression-codec", "gzip"),
            proposal(TableMetadata::clone(&base.metadata).into_builder(None).set_location("memory://x/t".into())),
        ];
        for next in refused {
            let published = world.catalog.publish(&t(), Some(&base), &next).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        }
        let allowed = with(&base, "write.metadata.compression-codec", "none");
        assert!(world.catalog.publish(&t(), Some(&base), &allowed).await.is_ok());

        let elsewhere = Ident::new("main", "other");
        let published = world.catalog.publish(&elsewhere, Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("not sent", Some(Code::Internal)));
    }
}

#[tokio::test]
async fn a_moved_warehouse_is_read_and_not_written() {
    let world = World::memory();
    let base = world.table(1).await;
    let moved = Ident::new("main", "moved");
    let location = world.catalog.location(&moved).unwrap();
    let text = serde_json::to_vec(&base.metadata).unwrap();
    world.write(&paths::join(&location, "metadata/v1.metadata.json"), text).await;
    let base = world.catalog.load(&moved).await.unwrap().unwrap();
    let published = world.catalog.publish(&moved, Some(&base), &with(&base, "k", "v")).await;
    assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_warehouse_behind_a_link_is_the_same_warehouse() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
    let real = World::new(dir.path().join("real").to_str().unwrap().to_owned(), None);
    let link = World::new(dir.path().join("link").to_str().unwrap().to_owned(), None);
    real.table(1).await;
    let base = link.newest().await;
    link.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
    assert_eq!(property(&real.newest().await, "k"), Some("v"));
}

#[tokio::test]
async fn not_writable_warehouse() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let world = World::new(dir.path().join("file").to_str().unwrap().to_owned(), None);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    let (sent, code) = outcome(&created);
    assert_eq!((sent, code), ("not sent", Some(Code::StorageFailed)));

    let world = World::local();
    world.fail(&[Fault::Denied]);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    assert_eq!(outcome(&created), ("not sent", Some(Code::PermissionDenied)));
    let error = created.unwrap_err().error().to_string();
    assert!(error.contains("v1.metadata.json") && error.contains("main.t"), "{error}");
    assert!(world.catalog.load(&t()).await.unwrap().is_none());
}

// ---- namespaces and names ----

#[tokio::test]
async fn an_absent_warehouse_is_empty_and_the_first_write_makes_it() {
    for world in World::all() {
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert!(world.catalog.tables(&ns(&["main"])).await.unwrap().is_empty());
        assert_eq!(world.catalog.tables(&ns(&["x"])).await.unwrap_err().code(), Code::UnknownNamespace);
        assert!(world.files().await.is_empty());
        world.create(&t()).await;
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
    }
}

#[tokio::test]
async fn namespaces_nest_and_are_dropped_when_empty() {
    for world in World::all() {
        let catalog = &world.catalog;
        let (eu, sub) = (ns(&["eu"]), ns(&["eu", "sub"]));
        catalog.create_namespace(&sub).await.unwrap();
        assert_eq!(catalog.namespaces().await.unwrap(), [eu.clone(), sub.clone(), ns(&["main"])]);
        for taken in [&eu, &sub, &ns(&["main"])] {
            assert_eq!(catalog.create_namespace(taken).await.unwrap_err().code(), Code::AlreadyExists);
        }
        let ident = Ident { namespace: sub.clone(), name: "orders".into() };
        world.create(&ident).await;
        assert_eq!(catalog.tables(&sub).await.unwrap(), ["orders"]);
        assert!(catalog.tables(&eu).await.unwrap().is_empty(), "a schema is no table");
        for full in [&eu, &sub] {
            assert_eq!(catalog.drop_namespace(full).await.unwrap_err().code(), Code::NamespaceNotEmpty);
        }
        catalog.drop_table(&ident, false).await.unwrap();
        catalog.drop_namespace(&sub).await.unwrap();
        catalog.drop_namespace(&eu).await.unwrap();
        assert_eq!(catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(catalog.drop_namespace(&eu).await.unwrap_err().code(), Code::UnknownNamespace);
        assert_eq!(catalog.drop_namespace(&ns(&["main"])).await.unwrap_err().code(), Code::InvalidArgument);
        assert!(world.files().await.is_empty());
    }
}

#[tokio::test]
async fn a_table_needs_its_namespace() {
    for world in World::all() {
        let ident = Ident::new("nowhere", "t");
        let created = world.catalog.publish(&ident, None, &world.new_table(&ident)).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::UnknownNamespace)));
        assert!(world.files().await.is_empty());
        assert!(world.catalog.load(&ident).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_table_and_a_namespace_do_not_share_a_name() {
    for world in World::all() {
        world.create(&t()).await;
        for below in [ns(&["main", "t"]), ns(&["main", "t", "x"])] {
            assert_eq!(world.catalog.create_namespace(&below).await.unwrap_err().code(), Code::AlreadyExists);
        }
        world.catalog.create_namespace(&ns(&["main", "s"])).await.unwrap();
        let ident = Ident::new("main", "s");
        let created = world.catalog.publish(&ident, None, &world.new_table(&ident)).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::AlreadyExists)));
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"]), ns(&["main", "s"])]);
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
    }
}

#[tokio::test]
async fn warehouses_of_other_tools_have_no_markers() {
    for world in World::all() {
        let text = serde_json::to_vec(&world.new_table(&t()).metadata).unwrap();
        let root = world.catalog.warehouse().to_owned();
        world.write(&format!("{root}/sales/orders/metadata/v1.metadata.json"), text).await;
        world.write(&format!("{root}/photos/2026/a.jpg"), "x").await;
        world.write(&format!("{root}/sales/old/data/left.parquet"), "x").await;
        world.write(&format!("{root}/README"), "x").await;
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"]), ns(&["sales"])]);
        assert_eq!(world.catalog.tables(&ns(&["sales"])).await.unwrap(), ["orders"]);
        assert_eq!(world.catalog.tables(&ns(&["photos"])).await.unwrap_err().code(), Code::UnknownNamespace);
    }
}

#[tokio::test]
async fn a_directory_that_may_not_be_read_breaks_no_listing_and_is_not_taken_for_empty() {
    for world in World::all() {
        world.table(1).await;
        world.write(&format!("{}/lost+found/x", world.catalog.warehouse()), "x").await;
        world.plan.lock().unlistable = Some("lost+found".to_owned());
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(world.catalog.tables(&ns(&["lost+found"])).await.unwrap_err().code(), Code::PermissionDenied);

        world.plan.lock().unlistable = Some("metadata".to_owned());
        world.write(&world.file("metadata/version-hint.text"), "x").await;
        assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::PermissionDenied);
        let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::PermissionDenied)));
    }
}

#[tokio::test]
async fn weird_names() {
    let names = [
        "Räder 2026",
        "🦀",
        "a b",
        "a%2Fb",
        "a#1",
        "*?",
        "x=y",
        "UPPER",
        "upper",
        ".dot",
        "-rf",
        "a.b",
        "'",
        "tab\"le",
    ];
    for world in World::all() {
        for name in names {
            world.catalog.create_namespace(&ns(&[name])).await.unwrap();
            let ident = Ident::new(name, name);
            let base = world.create(&ident).await;
            world.catalog.publish(&ident, Some(&base), &with(&base, "k", name)).await.unwrap();
            let loaded = world.catalog.load(&ident).await.unwrap().unwrap();
            assert_eq!((loaded.version, property(&loaded, "k")), (2, Some(name)));
            assert_eq!(world.catalog.tables(&ns(&[name])).await.unwrap(), [name]);
        }
        let mut expected: Vec<_> = names.iter().chain(&["main"]).map(|name| ns(&[name])).collect();
        expected.sort();
        assert_eq!(world.catalog.namespaces().await.unwrap(), expected);
        for name in names {
            world.catalog.drop_table(&Ident::new(name, name), true).await.unwrap();
            world.catalog.drop_namespace(&ns(&[name])).await.unwrap();
        }
        assert!(world.files().await.is_empty());
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0", "metadata", "data"] {
            let code = |result: Result<()>| result.unwrap_err().code();
            assert_eq!(code(world.catalog.create_namespace(&ns(&[bad])).await), Code::InvalidName, "{bad:?}");
            assert_eq!(code(world.catalog.location(&Ident::new("main", bad)).map(drop)), Code::InvalidName, "{bad:?}");
            assert_eq!(code(world.catalog.load(&Ident::new(bad, "t")).await.map(drop)), Code::InvalidName, "{bad:?}");
        }
        assert_eq!(world.catalog.create_namespace(&[]).await.unwrap_err().code(), Code::InvalidName);
    }
}

// ---- dropping ----

#[tokio::test]
async fn a_drop_keeps_the_data_and_a_purge_does_not() {
    for world in World::all() {
        for purge in [false, true] {
            world.table(3).await;
            world.write(&world.file("data/day=1/f.parquet"), "rows").await;
            world.write(&world.file("metadata/snap-1.avro"), "list").await;
            let dropped = world.catalog.drop_table(&t(), purge).await.unwrap();
            assert_eq!(dropped.location, world.catalog.location(&t()).unwrap());
            assert_eq!(dropped.deleted, if purge { 6 } else { 4 });
            assert!(world.catalog.load(&t()).await.unwrap().is_none());
            assert!(world.catalog.tables(&ns(&["main"])).await.unwrap().is_empty());
            assert_eq!(world.files().await.len(), if purge { 0 } else { 2 });
            assert_eq!(world.catalog.drop_table(&t(), purge).await.unwrap_err().code(), Code::UnknownTable);
        }
        if let Some(path) = world.catalog.location(&t()).unwrap().strip_prefix("file://") {
            assert!(!std::path::Path::new(path).exists(), "no empty directories are left");
        }
    }
}

#[tokio::test]
async fn the_newest_version_is_dropped_last_and_the_hint_first() {
    let world = World::memory();
    world.table(4).await;
    world.catalog.drop_table(&t(), false).await.unwrap();
    let deletes: Vec<_> = world.log().into_iter().filter(|line| line.starts_with("DELETE")).collect();
    assert_eq!(deletes.first().unwrap(), "DELETE version-hint.text");
    let versions: Vec<_> = deletes.iter().filter(|line| line.contains(".metadata.json")).collect();
    assert_eq!(versions.len(), 4);
    assert_eq!(*versions.last().unwrap(), "DELETE v4.metadata.json");
}

#[tokio::test]
async fn a_damaged_table_can_be_dropped() {
    for world in World::all() {
        world.write(&world.file("metadata/v1.metadata.json"), "").await;
        assert!(world.catalog.load(&t()).await.is_err());
        world.catalog.drop_table(&t(), true).await.unwrap();
        assert!(world.catalog.load(&t()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_purge_spares_what_is_not_the_tables() {
    for world in World::all() {
        let base = world.table(1).await;
        let kept = world.catalog.publish(&t(), Some(&base), &with(&base, "gc.enabled", "false")).await.unwrap();
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NotSupported);
        world.catalog.publish(&t(), Some(&kept), &with(&kept, "gc.enabled", "true")).await.unwrap();

        let inner = world.file("inner/metadata/v1.metadata.json");
        world.write(&inner, "{}").await;
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NamespaceNotEmpty);
        assert_eq!(world.newest().await.version, 3, "a purge that is refused deletes nothing");
        world.catalog.drop_table(&t(), false).await.unwrap();
        assert!(world.text(&inner).await.is_some());
    }
}

#[tokio::test]
async fn a_name_can_be_used_again() {
    for world in World::all() {
        let first = world.table(2).await;
        world.catalog.drop_table(&t(), false).await.unwrap();
        let second = world.create(&t()).await;
        assert_ne!(first.metadata.uuid(), second.metadata.uuid());
        assert_eq!(world.newest().await.version, 1);
        assert_eq!(world.hint().await.as_deref(), Some("1"));
    }
}

#[test]
fn a_catalog_needs_a_store() {
    let env = Env::new(Stores::new());
    assert_eq!(FileCatalog::new(env.clone(), "s3://bucket/w").unwrap_err().code(), Code::UnsupportedLocation);
    assert_eq!(FileCatalog::new(env, "/a/b/").unwrap().warehouse(), "file:///a/b");
}

#[tokio::test]
async fn put_modes_of_the_stores_are_what_the_protocol_needs() {
    for world in World::all() {
        let at = world.env.stores.resolve(&world.file("probe")).unwrap();
        let create = || at.store.put_opts(&at.path, "a".into(), PutMode::Create.into());
        create().await.unwrap();
        assert!(matches!(create().await.unwrap_err(), StoreError::AlreadyExists { .. }));
    }
}
