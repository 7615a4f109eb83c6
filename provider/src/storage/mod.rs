//! How does a location become bytes?

use std::sync::Arc;

use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::{ObjectStore, path::Path};
use url::Url;

use crate::error::{Code, Error, Result};

/// A location resolved to the store that serves it.
#[derive(Clone, Debug)]
pub struct Located {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The object's path in that store.
    pub path: Path,
    /// The URL under which DataFusion knows the store.
    pub url: ObjectStoreUrl,
}

/// Every store of a process: one handle for DataFusion, for Iceberg and for us.
#[derive(Clone, Debug)]
pub struct Stores;

impl Stores {
    /// A registry that serves `file:` and `memory:`.
    pub fn new() -> Self {
        Stores
    }
    /// Serves locations below `base` from `store` (replaces what served them).
    pub fn register(&self, _base: &Url, _store: Arc<dyn ObjectStore>) {}
    /// Finds the store and path of a location: `file:///a/b`, `file:/a/b`, `/a/b`, a relative path, `memory://name/a/b`.
    pub fn resolve(&self, _location: &str) -> Result<Located> {
        Err(Error::new(Code::Internal, "stub"))
    }
    /// Iceberg's view of the same stores.
    pub fn file_io(&self) -> iceberg::io::FileIO {
        iceberg::io::FileIO::new_with_memory()
    }
    /// DataFusion's view of the same stores.
    pub fn registry(&self) -> Arc<dyn ObjectStoreRegistry> {
        Arc::new(datafusion::execution::object_store::DefaultObjectStoreRegistry::new())
    }
}

/// Time: the only place it comes from.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> i64;
}

/// Randomness: the only place it comes from.
pub trait Ids: std::fmt::Debug + Send + Sync {
    /// A fresh UUID for a file name or a table.
    fn uuid(&self) -> uuid::Uuid;
    /// A fresh positive snapshot id.
    fn snapshot_id(&self) -> i64;
}

/// The environment everything that touches a store is given.
#[derive(Clone, Debug)]
pub struct Env {
    pub stores: Stores,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

#[derive(Debug)]
struct Stub;
impl Clock for Stub {
    fn now_ms(&self) -> i64 {
        0
    }
}
impl Ids for Stub {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::nil()
    }
    fn snapshot_id(&self) -> i64 {
        1
    }
}
impl Env {
    pub fn new(stores: Stores) -> Self {
        Env { stores, clock: Arc::new(Stub), ids: Arc::new(Stub) }
    }
}
