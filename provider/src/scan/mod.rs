//! Which files can hold a matching row?

use std::sync::Arc;

use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use iceberg::spec::{SchemaRef, SnapshotRef, TableMetadata};

use crate::metadata::Manifests;
use crate::observe::Tally;
use crate::storage::Env;

/// Reads files under `to` although the metadata names `from`.
#[derive(Clone, Debug)]
pub struct Relocation {
    pub from: String,
    pub to: String,
}

/// A table at one snapshot, as queries see it.
#[derive(Clone, Debug)]
pub struct View {
    /// The name EXPLAIN prints, e.g. `main.messages`.
    pub name: String,
    pub metadata: Arc<TableMetadata>,
    pub metadata_location: String,
    /// `None`: the table has no snapshot and no rows.
    pub snapshot: Option<SnapshotRef>,
    /// The schema rows are shown in.
    pub schema: SchemaRef,
    /// The same as Arrow ([`crate::schema::to_arrow`]).
    pub arrow: ArrowSchemaRef,
    pub manifests: Manifests,
    pub env: Env,
    pub relocate: Option<Relocation>,
}

/// What a scan looked at, level by level.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub manifests: Tally,
    pub files: Tally,
    pub delete_files: Tally,
    /// Of opened files.
    pub row_groups: Tally,
    /// Distinct data pages of the columns read, in kept row groups.
    pub pages: Tally,
    pub rows: Tally,
    /// Bytes asked of the store by planning and by reading data files.
    pub bytes: u64,
    /// Requests sent to the store by planning and by reading data files.
    pub requests: u64,
}

/// The same as EXPLAIN shows, as data (E2).
#[derive(Clone, Debug)]
pub struct ScanReport {
    pub table: String,
    pub snapshot_id: Option<i64>,
    /// `(spec id, projected predicate)` for each spec that wrote a manifest of the snapshot.
    pub partition_predicates: Vec<(i32, String)>,
    /// The scan was given a filter.
    pub filtered: bool,
    /// The table's default spec has partition fields.
    pub partitioned: bool,
    /// What rows are still tested for, if anything.
    pub residual: Option<String>,
    pub ledger: Ledger,
}
