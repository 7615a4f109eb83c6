//! Which files can hold a matching row?
//!
//! ```text
//! manifest list ── partition summaries ──▶ manifests ── tuple, then bounds ──▶ files ──▶ balanced groups
//!   58 files in 1                              1                                  3          2 partitions
//! ```
//!
//! Planning reads metadata only and never opens a data file. Whatever it leaves out is counted in the [`Ledger`] in the
//! same motion, so that the numbers EXPLAIN prints are the numbers the plan was made of.

mod changes;
mod columns;
mod delete_index;
mod deletes;
mod facts;
mod files;
mod groups;
mod manifests;
mod object;
mod order;
mod plan;
mod statistics;
mod task;
mod travel;

use std::sync::Arc;

use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use iceberg::spec::{SchemaRef, SnapshotRef, TableMetadata};

use crate::metadata::{Fetched, Manifests, Relocation};
use crate::observe::Tally;
use crate::storage::Env;

pub use changes::{Change, ChangeKind, Changes};
pub use columns::MetadataColumn;
pub(crate) use columns::arrow_with;
pub use deletes::{DeleteFile, DeleteKind, Deletes};
#[cfg(any(test, fuzzing))]
pub(crate) use facts::{Partitioning, counted_alike};
pub(crate) use facts::{primitive, to_scalar};
pub use groups::balance;
pub use object::{Object, Role};
pub(crate) use order::{SortedBy, attested};
pub use plan::{Plan, Request, plan};
pub use task::{Piece, Task};
pub use travel::TimeTravel;

/// A table at one snapshot, as queries see it.
#[derive(Clone, Debug)]
pub struct View {
    /// The name EXPLAIN prints, e.g. `main.messages`.
    pub name: String,
    pub metadata: Arc<TableMetadata>,
    pub metadata_location: String,
    /// `None`: the table has no snapshot and no rows.
    pub snapshot: Option<SnapshotRef>,
    /// How the snapshot was asked for, where it was not just the newest: `tag v1`.
    pub reference: Option<String>,
    /// Rows are those that changed, and not those that are there.
    pub changes: Option<Arc<Changes>>,
    /// The schema rows are shown in.
    pub schema: SchemaRef,
    /// The same as Arrow ([`crate::schema::to_arrow`]), then metadata columns.
    pub arrow: ArrowSchemaRef,
    /// Made for the same relocation.
    pub manifests: Manifests,
    pub env: Env,
    /// Set for a table that was moved.
    pub relocate: Option<Relocation>,
}

/// What a scan looked at, level by level.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Manifests of data files.
    pub manifests: Tally,
    /// Live data files of the snapshot.
    pub files: Tally,
    /// Live delete files of the snapshot; of a file of deletion vectors, each vector.
    pub delete_files: Tally,
    /// Of opened files.
    pub row_groups: Tally,
    /// Distinct data pages of the columns read, in kept row groups of files that have a page index.
    pub pages: Tally,
    /// Of kept row groups.
    pub rows: Tally,
    /// Bytes asked of the store by planning and by reading data and delete files.
    pub bytes: u64,
    /// Requests sent to the store by planning and by reading data and delete files.
    pub requests: u64,
}

impl Ledger {
    /// Counts what reading metadata asked of the store.
    fn fetched(&mut self, fetched: Fetched) {
        self.requests += fetched.requests;
        self.bytes += fetched.bytes;
    }

    /// Adds what another part of the same scan looked at.
    pub fn merge(&mut self, other: &Ledger) {
        self.manifests.merge(&other.manifests);
        self.files.merge(&other.files);
        self.delete_files.merge(&other.delete_files);
        self.row_groups.merge(&other.row_groups);
        self.pages.merge(&other.pages);
        self.rows.merge(&other.rows);
        self.bytes += other.bytes;
        self.requests += other.requests;
    }
}

/// The same as EXPLAIN shows, as data (E2).
#[derive(Clone, Debug)]
pub struct ScanReport {
    pub table: String,
    pub snapshot_id: Option<i64>,
    /// How the snapshot was asked for, where it was not just the newest: `tag v1`.
    pub reference: Option<String>,
    /// `(spec id, projected predicate)` for each spec that wrote a manifest of the snapshot.
    pub partition_predicates: Vec<(i32, String)>,
    /// The scan was given a filter.
    pub filtered: bool,
    /// The table's default spec has partition fields.
    pub partitioned: bool,
    /// What rows are still tested for, if anything.
    pub residual: Option<String>,
    /// Conditions that say more than could be pruned by, and why.
    // @spec E3
    pub gaps: Vec<Gap>,
    pub ledger: Ledger,
}

/// A condition of a filter that says more than could be pruned by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// As SQL-like text.
    pub condition: String,
    /// It prunes nothing at all.
    pub nothing: bool,
    pub reason: &'static str,
}
