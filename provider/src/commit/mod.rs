//! How does a change become a snapshot, exactly once?

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::TableUpdate;
use iceberg::spec::{DataFile, TableMetadata};

use crate::catalog::{Base, Catalog, Ident};
use crate::error::Error;
use crate::metadata::Manifests;
use crate::storage::Env;

/// Everything a commit needs besides the change.
#[derive(Clone, Debug)]
pub struct Committer {
    pub catalog: Arc<dyn Catalog>,
    pub manifests: Manifests,
    pub env: Env,
}

/// An append: new data files, and what must change in the table's metadata before they fit.
#[derive(Clone, Debug)]
pub struct Append {
    /// The table the change was prepared against; `None` creates it.
    pub base: Option<Base>,
    /// Metadata the data files were written under: `base` with `updates` applied (or a new table's metadata).
    pub metadata: Arc<TableMetadata>,
    /// Schema, sort order and property changes, in the same commit.
    pub updates: Vec<TableUpdate>,
    pub files: Vec<DataFile>,
    /// Keys added to the snapshot summary.
    pub summary: BTreeMap<String, String>,
    /// The batch this append carries (W7).
    pub batch_id: Option<String>,
}

/// What became of a commit. Only [`Published::Lost`] yields something that may be deleted.
#[derive(Debug)]
pub enum Published {
    Committed {
        base: Base,
        snapshot_id: i64,
    },
    /// The batch is already in the table's history; nothing was written.
    AlreadyThere {
        snapshot_id: Option<i64>,
    },
    /// Proven lost; the staged data files are unreachable.
    Lost {
        cause: Error,
        staged: Reclaimable,
    },
    /// Not known. Everything is kept.
    Unknown {
        cause: Error,
        left_behind: Vec<String>,
    },
}

/// Files that provably no table refers to.
#[derive(Debug)]
pub struct Reclaimable(#[expect(dead_code, reason = "stub")] Vec<String>);

/// True if the table's history holds the batch.
pub fn holds_batch(_metadata: &TableMetadata, _batch_id: &str) -> bool {
    false
}
