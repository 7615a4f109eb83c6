//! The file catalog over memory and over a real directory, with a store that fails on demand.

mod damage;
mod dropping;
mod hint;
mod naming;
mod publishing;
mod stores;

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
