//! How does a location become bytes?
//!
//! ```text
//! file:///a/b   file:/a/b   /a/b   a/b        memory://name/a/b        s3://bucket/a/b
//!        └──────────┬───────────┘                    │                        │
//!              file://  + a/b                memory://name + a/b      s3://bucket + a/b
//!                   └──────────────┬─────────────────┴────────────────────────┘
//!                               Stores  ──▶ one ObjectStore each
//!                                 │
//!              DataFusion's registry ┼ Iceberg's FileIO ┼ ours: the same handles
//! ```
//!
//! A location is text, never percent-decoded: `file:///t/day=a%2Fb/f.parquet` is a file in a directory that is named
//! `day=a%2Fb`, as Java and PyIceberg have it. Time and randomness come from here too, and from nowhere else.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::memory::InMemory;
use object_store::{ObjectStore, path::Path};
use parking_lot::RwLock;
use url::Url;

use crate::error::{Code, Error, Result};

mod emptied;
mod env;
mod failure;
mod iceberg_io;
mod local;
pub mod paths;
mod unfinished;

pub use emptied::NewDirectories;
pub use env::{Clock, Env, Ids, ManualClock, RandomIds, SeededIds, SystemClock};
pub use failure::error;
pub use iceberg_io::{IcebergStorage, IcebergStorageFactory};
pub use local::{LocalStore, remove_empty_directories};
pub use unfinished::{Unfinished, Work};

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

impl Located {
    /// The one spelling of this location: absolute, with a scheme, without a trailing slash (`file:///a/b`).
    ///
    /// The root of a store is its URL without the slash (`file://`, `memory://name`), so that joining a name with `/`
    /// is right for it as well.
    pub fn location(&self) -> String {
        let base = self.url.as_str().trim_end_matches('/');
        // `file:///` without its slashes is `file:`.
        let base = if base.ends_with(':') { format!("{base}//") } else { base.to_owned() };
        if self.path.is_root() { base } else { format!("{base}/{}", self.path) }
    }
}

/// Resolves many locations: those below one directory share what was found of it.
#[derive(Debug)]
pub struct Resolver {
    stores: Stores,
    /// A directory that the last locations are below, up to and with its slash, and what it resolves to.
    base: Option<(String, Located)>,
}

impl Resolver {
    /// A resolver over `stores`.
    pub fn new(stores: &Stores) -> Self {
        Resolver { stores: stores.clone(), base: None }
    }

    /// [`Stores::resolve`].
    ///
    /// # Errors
    /// As [`Stores::resolve`].
    pub fn resolve(&mut self, location: &str) -> Result<Located> {
        if let Some((base, at)) = &self.base
            && let Some(rest) = location.strip_prefix(base.as_str())
            && is_plain(rest)
            && let Ok(path) = Path::parse(format!("{}/{rest}", at.path))
        {
            return Ok(Located { store: Arc::clone(&at.store), path, url: at.url.clone() });
        }
        let located = self.stores.resolve(location)?;
        let directory = directory(location);
        let shared = self.base.as_ref().map_or("", |(base, _)| shared_directory(base, directory));
        // Every location begins with no directory, also one that has a scheme.
        let mut named = [shared, directory].into_iter().filter(|base| !base.is_empty());
        self.base = named.find_map(|base| base_of(location, &located, base));
        Ok(located)
    }
}

/// `base`, a directory that `location` begins with, and what it resolves to; `None` where it doesn't come out as the
/// location's path without the rest, so that locations below it are to be resolved each on its own.
fn base_of(location: &str, located: &Located, base: &str) -> Option<(String, Located)> {
    let rest = location.strip_prefix(base).filter(|rest| is_plain(rest))?;
    let inside = located.path.as_ref().strip_suffix(rest)?.strip_suffix('/').filter(|path| !path.is_empty())?;
    let path = Path::parse(inside).ok()?;
    Some((base.to_owned(), Located { path, ..located.clone() }))
}

/// Up to and with the last slash.
fn directory(location: &str) -> &str {
    location.split_at(location.rfind('/').map_or(0, |slash| slash + 1)).0
}

/// The deepest directory that both directories are in or are.
fn shared_directory<'a>(a: &str, b: &'a str) -> &'a str {
    let segments = a.split_inclusive('/').zip(b.split_inclusive('/'));
    let shared: usize = segments.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    b.split_at(shared).0
}

/// A relative path without segments that mean something else than a name.
fn is_plain(path: &str) -> bool {
    path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Every store of a process: one handle for DataFusion, for Iceberg and for us. Clones share the same stores.
///
/// `file:` is served by [`LocalStore`], `memory://name` by a store of its own for each name, made when it is first
/// asked for. Anything else has to be registered.
#[derive(Clone)]
pub struct Stores {
    by_key: Arc<RwLock<HashMap<String, Arc<dyn ObjectStore>>>>,
}

impl Stores {
    /// A registry that serves `file:` and `memory:`.
    pub fn new() -> Self {
        let local: Arc<dyn ObjectStore> = Arc::new(LocalStore::new());
        Stores { by_key: Arc::new(RwLock::new(HashMap::from([(FILE.to_owned(), local)]))) }
    }

    /// Serves locations below `base` from `store` (replaces what served them). Only the scheme and authority of `base`
    /// count: a store sees the whole path.
    pub fn register(&self, base: &Url, store: Arc<dyn ObjectStore>) {
        self.by_key.write().insert(key_of(base), store);
    }

    /// Finds the store and path of a location: `file:///a/b`, `file:/a/b`, `/a/b`, a relative path, `memory://name/a/b`.
    ///
    /// # Errors
    /// `unsupported_location`: no store for the scheme, or a name that a store cannot hold (an empty segment, `..` in a
    /// URL's path, a control character).
    pub fn resolve(&self, location: &str) -> Result<Located> {
        let split = paths::split(location)?;
        let unusable = |cause: &dyn fmt::Display| {
            Error::new(Code::UnsupportedLocation, "this location cannot be used")
                .with("location", paths::redact(location))
                .with("cause", paths::redact(&cause.to_string()))
        };
        let url = ObjectStoreUrl::parse(&split.base).map_err(|e| unusable(&e.strip_backtrace()))?;
        let path = Path::parse(&split.path).map_err(|e| unusable(&e))?;
        let store = self.serve(&key_of(url.as_ref())).ok_or_else(|| {
            Error::new(Code::UnsupportedLocation, "no store serves this location")
                .with("location", paths::redact(location))
                .help(format!("use one of: {}", self.schemes()))
        })?;
        Ok(Located { store, path, url })
    }

    /// Iceberg's view of the same stores.
    pub fn file_io(&self) -> iceberg::io::FileIO {
        iceberg::io::FileIOBuilder::new(Arc::new(IcebergStorageFactory::new(self.clone()))).build()
    }

    /// DataFusion's view of the same stores: what is registered on either side is seen by both.
    pub fn registry(&self) -> Arc<dyn ObjectStoreRegistry> {
        Arc::new(Registry(self.clone()))
    }

    fn serve(&self, key: &str) -> Option<Arc<dyn ObjectStore>> {
        if let Some(store) = self.by_key.read().get(key) {
            return Some(Arc::clone(store));
        }
        if !key.starts_with(MEMORY) {
            return None;
        }
        let mut stores = self.by_key.write();
        Some(Arc::clone(stores.entry(key.to_owned()).or_insert_with(|| Arc::new(InMemory::new()))))
    }

    fn schemes(&self) -> String {
        let mut known: Vec<String> = self.by_key.read().keys().map(|key| format!("{key}/…")).collect();
        known.push(format!("{MEMORY}<name>/…"));
        known.sort();
        known.dedup();
        known.join(", ")
    }
}

impl Default for Stores {
    fn default() -> Self {
        Stores::new()
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: a store's own Debug may print its credentials.
        let mut keys: Vec<String> = self.by_key.read().keys().cloned().collect();
        keys.sort();
        f.debug_tuple("Stores").field(&keys).finish()
    }
}

const FILE: &str = "file://";
const MEMORY: &str = "memory://";

/// What tells two stores apart: scheme, host and port. A user name without a password is kept, since in
/// `abfss://container@account` it is the container; anything with a password is dropped, since that is a secret.
fn key_of(url: &Url) -> String {
    if url.scheme() == "file" {
        return FILE.to_owned();
    }
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    match (url.username(), url.password()) {
        ("", _) | (_, Some(_)) => format!("{}://{host}", url.scheme()),
        (container, None) => format!("{}://{container}@{host}", url.scheme()),
    }
}

/// [`Stores`] as DataFusion asks for them.
#[derive(Debug)]
struct Registry(Stores);

impl ObjectStoreRegistry for Registry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.by_key.write().insert(key_of(url), store)
    }

    fn deregister_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        self.0.by_key.write().remove(&key_of(url)).ok_or_else(|| unknown_store(&self.0, url))
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        self.0.serve(&key_of(url)).ok_or_else(|| unknown_store(&self.0, url))
    }
}

fn unknown_store(stores: &Stores, url: &Url) -> DataFusionError {
    let error = Error::new(Code::UnsupportedLocation, "no store serves this location")
        .with("location", paths::redact(url.as_str()))
        .help(format!("use one of: {}", stores.schemes()));
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests;
