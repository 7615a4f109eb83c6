//! Which tables are there, and which metadata file is a table's newest?
//!
//! ```text
//! load ─▶ Base { metadata, version 7 } ─▶ a change ─▶ publish(base, next) ─┬─▶ Base { version 8 }
//!                                                                          ├─▶ Conflict   lost, proven
//!                                                                          ├─▶ NotSent    nothing stored, proven
//!                                                                          └─▶ Unknown    delete nothing
//! ```

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::spec::TableMetadata;
use iceberg::{TableRequirement, TableUpdate};

use crate::error::{Error, Result};

mod file;
mod names;

pub use file::FileCatalog;
pub(crate) use names::check_not_reserved;

/// A table's name: namespace levels and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ident {
    pub namespace: Vec<String>,
    pub name: String,
}

impl Ident {
    /// A table `name` in a namespace of one level.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Ident { namespace: vec![namespace.into()], name: name.into() }
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace.join("."), self.name)
    }
}

/// A table as it was when it was loaded: what a commit is based on.
#[derive(Clone, Debug)]
pub struct Base {
    pub metadata: Arc<TableMetadata>,
    /// The metadata file's location.
    pub location: String,
    /// N of `vN.metadata.json`.
    pub version: u64,
}

/// The next state of a table, in the two forms that catalogs want it.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub metadata: TableMetadata,
    pub requirements: Vec<TableRequirement>,
    pub updates: Vec<TableUpdate>,
}

/// Why a publish did not succeed, and what is known about it.
#[derive(Debug)]
pub enum PublishError {
    /// Proven: somebody else's metadata took the slot. Ours will never be seen.
    Conflict(Error),
    /// Proven: nothing of ours was stored.
    NotSent(Error),
    /// Not known: ours may be the table's newest state. Delete nothing.
    Unknown(Error),
}

impl PublishError {
    /// The error, whatever it proves.
    pub fn error(&self) -> &Error {
        match self {
            PublishError::Conflict(e) | PublishError::NotSent(e) | PublishError::Unknown(e) => e,
        }
    }

    /// The same outcome with a fact added to its error.
    #[must_use]
    pub fn with(self, key: &'static str, value: impl fmt::Display) -> Self {
        match self {
            PublishError::Conflict(e) => PublishError::Conflict(e.with(key, value)),
            PublishError::NotSent(e) => PublishError::NotSent(e.with(key, value)),
            PublishError::Unknown(e) => PublishError::Unknown(e.with(key, value)),
        }
    }
}

/// What a drop left behind.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// The table's root location, whose data files were kept (without purge).
    pub location: String,
    /// Files deleted.
    pub deleted: u64,
}

/// A catalog of tables. Every implementation runs the same suite (`tests/tests/it/catalog.rs`).
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync {
    async fn namespaces(&self) -> Result<Vec<Vec<String>>>;
    async fn create_namespace(&self, namespace: &[String]) -> Result<()>;
    async fn drop_namespace(&self, namespace: &[String]) -> Result<()>;
    async fn tables(&self, namespace: &[String]) -> Result<Vec<String>>;
    /// The newest state; `None` only if the table is verifiably absent.
    async fn load(&self, ident: &Ident) -> Result<Option<Base>>;
    /// Where a new table of this name would live (no trailing slash).
    fn location(&self, ident: &Ident) -> Result<String>;
    /// Whether a table of this name could be made, as far as that can be told before anything is written: its namespace is
    /// there, and no namespace has its name.
    async fn check_creatable(&self, _ident: &Ident) -> Result<()> {
        Ok(())
    }
    /// Publishes the next state. `base: None` creates the table.
    async fn publish(&self, ident: &Ident, base: Option<&Base>, next: &Proposal) -> Result<Base, PublishError>;
    /// Forgets the table; with `purge` also deletes the files under its location.
    async fn drop_table(&self, ident: &Ident, purge: bool) -> Result<Dropped>;
}

#[cfg(test)]
mod tests;
