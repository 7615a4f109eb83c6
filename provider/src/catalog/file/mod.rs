//! How can a directory be a catalog that several processes commit to?
//!
//! ```text
//! <warehouse>/main/messages/metadata/v1.metadata.json      created, never overwritten
//!                                    v2.metadata.json      whoever creates v3 next has committed
//!                                    version-hint.text     "2", possibly late
//! <warehouse>/eu/.namespace                                makes `eu` a schema while it is empty
//! <warehouse>/eu/sub/orders/metadata/…                     schemas nest
//! ```
//!
//! A version is committed by creating its file exclusively; the hint only saves a listing. Object stores know no
//! directories, so that an empty namespace needs a file; a directory that holds a table is a namespace without one, which
//! is how warehouses of other tools are read. `main` is always there, and a warehouse that does not exist is an empty one.
//!
//! Creating, dropping and replacing a table are single operations on one table: there is nothing atomic across tables.
// @spec C1

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;

use super::names::{self, DEFAULT_NAMESPACE};
use super::{Base, Catalog, Dropped, Ident, Proposal, PublishError};
use crate::error::{Code, Error, Result};
use crate::metadata::Parsed;
use crate::storage::{self, Env, Located, paths};

mod drop;
mod newest;
mod publish;
mod tree;

use newest::Seen;
use tree::Place;

/// A catalog that is a directory or a prefix of a bucket. Clones share the environment, what they parsed and the
/// versions they saw.
#[derive(Clone, Debug)]
pub struct FileCatalog {
    env: Env,
    /// The warehouse, without a trailing slash.
    root: String,
    backoff: Duration,
    parsed: Parsed,
    seen: Seen,
}

impl FileCatalog {
    /// A catalog in `warehouse`: a path or URL. Nothing is read or written.
    ///
    /// # Errors
    /// `unsupported_location`: no store serves the warehouse.
    pub fn new(env: Env, warehouse: &str) -> Result<Self> {
        let root = env.stores.resolve(warehouse)?.location();
        Ok(FileCatalog { env, root, backoff: FIRST_PAUSE, parsed: Parsed::new(PARSED), seen: Seen::default() })
    }

    /// The same catalog with another first pause before a write is repeated whose answer was lost.
    #[must_use]
    pub fn with_backoff(self, first: Duration) -> Self {
        FileCatalog { backoff: first, ..self }
    }

    /// The root of the warehouse: an absolute URL without a trailing slash.
    pub fn warehouse(&self) -> &str {
        &self.root
    }

    fn at(&self, location: &str) -> Result<Located> {
        self.env.stores.resolve(location)
    }

    /// The directory of a namespace or table.
    fn directory(&self, levels: &[&str]) -> Result<String> {
        levels.iter().try_fold(self.root.clone(), |dir, level| Ok(paths::join(&dir, &names::directory_of(level)?)))
    }

    fn namespace_directory(&self, namespace: &[String]) -> Result<String> {
        if namespace.is_empty() {
            return Err(Error::new(Code::InvalidName, "a schema needs a name"));
        }
        self.directory(&namespace.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Four repetitions from here, each pause four times the one before: 0.85 s in all, long enough for a store to answer again
/// after a hiccup and short enough to wait for at a prompt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Bytes of metadata files whose parsed form is kept: a statement finds a table mostly as the one before it did.
const PARSED: usize = 16 << 20;

/// Requests in flight while directories are looked at: enough to hide a store's latency.
const PARALLEL: usize = 16;

fn metadata_directory(table: &str) -> String {
    paths::join(table, "metadata")
}

fn is_default(namespace: &[String]) -> bool {
    matches!(namespace, [only] if only == DEFAULT_NAMESPACE)
}

#[async_trait]
impl Catalog for FileCatalog {
    async fn namespaces(&self) -> Result<Vec<Vec<String>>> {
        let mut found = vec![vec![DEFAULT_NAMESPACE.to_owned()]];
        let mut open = vec![Vec::new(), vec![DEFAULT_NAMESPACE.to_owned()]];
        while let Some(parent) = open.pop() {
            let children = self.children_that(&parent, Place::Namespace).await?;
            for name in children {
                let namespace = [parent.as_slice(), &[name]].concat();
                if !is_default(&namespace) {
                    found.push(namespace.clone());
                    open.push(namespace);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    async fn create_namespace(&self, namespace: &[String]) -> Result<()> {
        self.namespace_directory(namespace)?;
        names::check_not_reserved(namespace)?;
        if is_default(namespace) || self.place(namespace).await? == Place::Namespace {
            return Err(exists("schema", namespace));
        }
        for depth in 1..=namespace.len() {
            let level = namespace.get(..depth).unwrap_or(namespace);
            if self.place(level).await? == Place::Table {
                return Err(exists("table", level));
            }
            self.mark(level).await?;
        }
        Ok(())
    }

    async fn drop_namespace(&self, namespace: &[String]) -> Result<()> {
        let directory = self.namespace_directory(namespace)?;
        if is_default(namespace) {
            return Err(Error::new(Code::InvalidArgument, "the schema main is always there"));
        }
        let mut left = self.tables(namespace).await?;
        left.extend(self.children_that(namespace, Place::Namespace).await?);
        if !left.is_empty() {
            return Err(Error::new(Code::NamespaceNotEmpty, "the schema is not empty")
                .with("schema", namespace.join("."))
                .with("holds", left.join(", ")));
        }
        self.unmark(namespace).await?;
        self.remove_empty_directories(&directory).await;
        Ok(())
    }

    async fn tables(&self, namespace: &[String]) -> Result<Vec<String>> {
        let tables = self.children_that(namespace, Place::Table).await?;
        if tables.is_empty() {
            self.require_namespace(namespace).await?;
        }
        Ok(tables)
    }

    async fn load(&self, ident: &Ident) -> Result<Option<Base>> {
        let table = self.location(ident)?;
        match self.newest(&table).await.map_err(|e| e.with("table", ident))? {
            Some(newest) => newest.open(&self.parsed).map(Some).map_err(|e| e.with("table", ident)),
            None => Ok(None),
        }
    }

    fn location(&self, ident: &Ident) -> Result<String> {
        let namespace = self.namespace_directory(&ident.namespace)?;
        Ok(paths::join(&namespace, &names::directory_of(&ident.name)?))
    }

    async fn check_creatable(&self, ident: &Ident) -> Result<()> {
        self.check_free(ident).await.map_err(|e| e.with("table", ident))
    }

    async fn publish(&self, ident: &Ident, base: Option<&Base>, next: &Proposal) -> Result<Base, PublishError> {
        self.publish_next(ident, base, next).await
    }

    async fn drop_table(&self, ident: &Ident, purge: bool) -> Result<Dropped> {
        self.forget(ident, purge).await
    }
}

fn exists(what: &str, namespace: &[String]) -> Error {
    Error::new(Code::AlreadyExists, format!("a {what} of this name exists already")).with("name", namespace.join("."))
}
