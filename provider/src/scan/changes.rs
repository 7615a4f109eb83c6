//! Which rows came and which went between two snapshots?
//!
//! ```text
//!   from (exclusive)                                     to (inclusive)
//!     s1 ──────── s2 append ──── s3 replace ──── s4 overwrite
//!     a           a b            ab               c        files
//!                 + b            (the same rows)  − ab + c
//! ```
//!
//! Each snapshot is compared with its parent, file by file: a file that only the snapshot has was inserted, one that only
//! the parent has was deleted, both without the rows that delete files remove there. Of a file that both have, the rows
//! were deleted that delete files remove in the snapshot and not in its parent.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt, iter};
use iceberg::spec::{ManifestContentType, ManifestFile, Operation, SnapshotRef, TableMetadata};

use super::columns::MetadataColumn;
use super::deletes::Deletes;
use super::files::may_match;
use super::manifests::{MANIFESTS_AT_ONCE, Projections, read};
use super::object::Places;
use super::plan::{columns, newest_first, with_live_rows};
use super::{Ledger, Plan, Request, Task, View, balance, delete_index, statistics};
use crate::error::{Code, Error, Result};
use crate::metadata::{List, Manifest};
use crate::observe::Reason;
use crate::predicate::{self, Predicate};

/// What became of the rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Insert,
    Delete,
}

impl ChangeKind {
    /// As `_change_type` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Insert => "insert",
            ChangeKind::Delete => "delete",
        }
    }
}

/// How and when a file's rows changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    /// The snapshot's place in the order of changes, from 0.
    pub ordinal: i32,
    pub snapshot_id: i64,
}

/// The snapshots whose changes are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Exclusive; `None`: from the table's first snapshot.
    from: Option<i64>,
    /// Inclusive.
    to: i64,
    /// A row that went is an error.
    appends_only: bool,
}

/// A snapshot and what it is compared with.
struct Step {
    snapshot: SnapshotRef,
    parent: Parent,
    ordinal: i32,
}

enum Parent {
    /// The first snapshot: nothing was there.
    Nothing,
    Snapshot(i64),
    /// Expired, and the snapshot says that it only adds.
    Expired,
}

impl View {
    /// The rows that were inserted or deleted after `from` (`None`: since the beginning) up to and with `to`, with the table's
    /// current columns and [`MetadataColumn::OF_CHANGES`]. Snapshots that replace files by others with the same rows change
    /// nothing.
    ///
    /// # Errors
    /// `changes_unavailable` where `from` is no ancestor of `to`, or a snapshot between them has expired.
    // @spec P10
    pub fn changes(&self, from: Option<i64>, to: i64) -> Result<View> {
        let free = |column: &MetadataColumn| self.arrow.column_with_name(column.name()).is_none();
        let columns: Vec<MetadataColumn> = MetadataColumn::OF_CHANGES.into_iter().filter(free).collect();
        self.with_metadata_columns(&columns)?.between(Changes { from, to, appends_only: false })
    }

    /// The rows that were appended after `from` up to and with `to`.
    ///
    /// # Errors
    /// As [`View::changes`]. Planning a scan gives `changes_unavailable` too where a snapshot between them deleted or changed
    /// rows.
    pub fn appends(&self, from: Option<i64>, to: i64) -> Result<View> {
        self.clone().between(Changes { from, to, appends_only: true })
    }

    fn between(mut self: View, changes: Changes) -> Result<View> {
        changes.steps(&self.name, &self.metadata)?;
        self.snapshot = self.metadata.snapshot_by_id(changes.to).cloned();
        let since = changes.from.map_or_else(|| "the beginning".to_owned(), |id| id.to_string());
        self.reference = Some(format!("changes since {since}"));
        self.changes = Some(Arc::new(changes));
        Ok(self)
    }
}

impl Changes {
    /// The snapshots after `from`, oldest first, without those that change no row.
    fn steps(&self, table: &str, metadata: &TableMetadata) -> Result<Vec<Step>> {
        let refused = |what: String| Error::new(Code::ChangesUnavailable, what).with("table", table);
        let mut steps = Vec::new();
        let mut next = Some(self.to);
        let mut seen = HashSet::new();
        while let Some(id) = next.filter(|id| Some(*id) != self.from) {
            if !seen.insert(id) {
                let what = "a snapshot is among its own ancestors";
                return Err(Error::new(Code::MetadataCorrupt, what).with("table", table).with("snapshot", id));
            }
            let Some(snapshot) = metadata.snapshot_by_id(id) else {
                let what = format!("snapshot {id} is needed to tell the changes, and has expired");
                return Err(refused(what).help("read the whole table, or begin with a younger snapshot"));
            };
            next = snapshot.parent_snapshot_id();
            let parent = match next {
                None => Parent::Nothing,
                Some(parent) if metadata.snapshot_by_id(parent).is_some() => Parent::Snapshot(parent),
                Some(parent) if self.from == Some(parent) && snapshot.summary().operation == Operation::Append => {
                    Parent::Expired
                }
                Some(parent) => {
                    let what = format!("snapshot {parent} is needed to tell the changes, and has expired");
                    return Err(refused(what).help("read the whole table, or begin with a younger snapshot"));
                }
            };
            if snapshot.summary().operation != Operation::Replace {
                steps.push(Step { snapshot: snapshot.clone(), parent, ordinal: 0 });
            }
        }
        if next != self.from {
            let from = self.from.unwrap_or_default();
            let what = format!("snapshot {from} is not in the history of snapshot {}", self.to);
            return Err(refused(what).help("the table was rolled back or rewritten since: read the whole table"));
        }
        steps.reverse();
        for (ordinal, step) in (0..).zip(&mut steps) {
            step.ordinal = ordinal;
        }
        Ok(steps)
    }
}

/// A live file of one side of a comparison.
#[derive(Clone)]
struct Live {
    manifest: Arc<Manifest>,
    at: usize,
}

/// One side of a comparison: a snapshot's manifests.
struct Side {
    manifests: Arc<List>,
}

impl Side {
    async fn new(view: &View, snapshot: Option<i64>, ledger: &mut Ledger) -> Result<Side> {
        let (manifests, fetched) = view.manifests.list_counted(&view.metadata, snapshot).await?;
        ledger.fetched(fetched);
        Ok(Side { manifests })
    }

    fn of(&self, content: ManifestContentType) -> impl Iterator<Item = &ManifestFile> {
        self.manifests.iter().filter(move |manifest| manifest.content == content)
    }

    fn paths(&self, content: ManifestContentType) -> BTreeSet<&str> {
        self.of(content).map(|manifest| manifest.manifest_path.as_str()).collect()
    }

    /// The live files of some data manifests, by path.
    async fn live(
        &self,
        view: &View,
        wanted: impl Fn(&ManifestFile) -> bool,
        ledger: &mut Ledger,
    ) -> Result<BTreeMap<String, Live>> {
        let manifests: Vec<&ManifestFile> = self.of(ManifestContentType::Data).filter(|m| wanted(m)).collect();
        let reads: Vec<_> = manifests.into_iter().map(|manifest| read(view, manifest)).collect();
        let read: Vec<_> = iter(reads).buffered(MANIFESTS_AT_ONCE).try_collect().await?;
        let mut live = BTreeMap::new();
        for (manifest, fetched) in read {
            ledger.fetched(fetched);
            for at in manifest.live() {
                live.insert(manifest.brief(at, &[])?.path, Live { manifest: Arc::clone(&manifest), at });
            }
        }
        Ok(live)
    }
}

/// Plans a scan of the rows that changed. The ledger's files are those that came or went.
pub(super) async fn plan(view: &View, changes: &Changes, request: &Request<'_>) -> Result<Plan> {
    let claims = predicate::convert_conjuncts(request.filters, &view.arrow, &view.schema);
    let predicate = Predicate::and(claims.iter().map(|claim| claim.predicate.clone()));
    let wanted = columns(view, request, &predicate, true);
    let mut ledger = Ledger::default();
    let mut tasks = Vec::new();
    let mut partition_predicates = BTreeMap::new();
    for step in changes.steps(&view.name, &view.metadata)? {
        let (inserted, deleted) = changed(view, &step, &mut ledger).await?;
        // Which rows went doesn't depend on the filter.
        let all = if changes.appends_only { &Predicate::True } else { &predicate };
        let of_files_that_stay = rows_of_files_that_stay(view, &step, (all, &wanted), &mut ledger).await?;
        if changes.appends_only && !(deleted.files.is_empty() && of_files_that_stay.is_empty()) {
            return Err(not_only_appends(view, &step));
        }
        tasks.extend(of_files_that_stay);
        for (kind, side) in [(ChangeKind::Delete, deleted), (ChangeKind::Insert, inserted)] {
            let change = Change { kind, ordinal: step.ordinal, snapshot_id: step.snapshot.snapshot_id() };
            let specs = Projections::new(view, &predicate, &side.manifests)?;
            partition_predicates.extend(specs.display());
            tasks.extend(side.tasks(view, &specs, (&predicate, &wanted), change, &mut ledger).await?);
        }
    }
    let tasks = newest_first(with_live_rows(tasks, &mut ledger));
    Ok(Plan {
        claims,
        predicate,
        partition_predicates: partition_predicates.into_iter().collect(),
        groups: balance(&tasks, request.partitions),
        statistics: statistics::of(&tasks, view, request.projection),
        tasks,
        ledger,
    })
}

/// Files that came or went, and the manifests of the snapshot that has them.
struct Changed {
    manifests: Arc<List>,
    files: Vec<Live>,
}

impl Changed {
    /// The files that may hold a matching row, as tasks with their deletes and the metrics of the `wanted` columns.
    async fn tasks(
        self,
        view: &View,
        specs: &Projections,
        (predicate, wanted): (&Predicate, &[i32]),
        change: Change,
        ledger: &mut Ledger,
    ) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let mut places = Places::of(view);
        for Live { manifest, at } in &self.files {
            if !specs.may_hold_entry(manifest, *at) {
                ledger.files.skip(Reason::Partition, 1);
                continue;
            }
            let brief = Arc::new(manifest.brief(*at, wanted)?);
            if !may_match(predicate, (manifest, *at), &brief, view) {
                ledger.files.skip(Reason::ColumnBounds, 1);
                continue;
            }
            ledger.files.kept_more(1);
            let partitioning = &specs.of(manifest.spec_id())?.partitioning;
            let mut task = Task::new((manifest, *at), brief, partitioning, &mut places)?;
            task.change = Some(change);
            tasks.push(task);
        }
        delete_index::attach(view, specs, &self.manifests, &mut tasks, ledger).await?;
        Ok(tasks)
    }
}

/// The files that a snapshot inserted, and those that it deleted.
async fn changed(view: &View, step: &Step, ledger: &mut Ledger) -> Result<(Changed, Changed)> {
    use ManifestContentType::Data;
    let id = step.snapshot.snapshot_id();
    let after = Side::new(view, Some(id), ledger).await?;
    let parent = match step.parent {
        Parent::Nothing => None,
        Parent::Snapshot(parent) => Some(parent),
        Parent::Expired => {
            let added = after.live(view, |manifest| manifest.added_snapshot_id == id, ledger).await?;
            let is_new = |live: &Live| live.manifest.is_added_by(live.at, id);
            let files = added.into_values().filter(is_new).collect();
            let none = Changed { manifests: Arc::default(), files: Vec::new() };
            return Ok((Changed { manifests: after.manifests, files }, none));
        }
    };
    let before = Side::new(view, parent, ledger).await?;
    let (mine, theirs) = (after.paths(Data), before.paths(Data));
    ledger.manifests.kept_more(mine.symmetric_difference(&theirs).count() as u64);
    let new = after.live(view, |manifest| !theirs.contains(manifest.manifest_path.as_str()), ledger).await?;
    let old = before.live(view, |manifest| !mine.contains(manifest.manifest_path.as_str()), ledger).await?;
    let only = |these: &BTreeMap<String, Live>, others: &BTreeMap<String, Live>| -> Vec<Live> {
        these.iter().filter(|(path, _)| !others.contains_key(*path)).map(|(_, live)| live.clone()).collect()
    };
    let (inserted, deleted) = (only(&new, &old), only(&old, &new));
    Ok((
        Changed { manifests: after.manifests, files: inserted },
        Changed { manifests: before.manifests, files: deleted },
    ))
}

/// Rows that a snapshot deleted of files that stay, or that were deleted before and are there again: the files with what
/// delete files remove of them before and after, where that is not the same.
async fn rows_of_files_that_stay(
    view: &View,
    step: &Step,
    (predicate, wanted): (&Predicate, &[i32]),
    ledger: &mut Ledger,
) -> Result<Vec<Task>> {
    let Parent::Snapshot(parent) = step.parent else { return Ok(Vec::new()) };
    let id = step.snapshot.snapshot_id();
    let (before, after) = (Side::new(view, Some(parent), ledger).await?, Side::new(view, Some(id), ledger).await?);
    if after.paths(ManifestContentType::Deletes) == before.paths(ManifestContentType::Deletes) {
        return Ok(Vec::new());
    }
    // Most of these files turn out not to have changed, so that they count for nothing.
    let mut scratch = Ledger::default();
    let (old, new) = (before.live(view, |_| true, ledger).await?, after.live(view, |_| true, ledger).await?);
    let mut sides = Vec::new();
    for (kind, side, live, other) in [(ChangeKind::Delete, before, &old, &new), (ChangeKind::Insert, after, &new, &old)]
    {
        let files = live.iter().filter(|(path, _)| other.contains_key(*path)).map(|(_, live)| live.clone()).collect();
        let specs = Projections::new(view, predicate, &side.manifests)?;
        let stay = Changed { manifests: side.manifests, files };
        let change = Change { kind, ordinal: step.ordinal, snapshot_id: id };
        let tasks = stay.tasks(view, &specs, (predicate, wanted), change, &mut scratch).await?;
        let by_path = tasks.into_iter().map(|task| (task.file_path().to_owned(), task));
        sides.push(by_path.collect::<BTreeMap<_, _>>());
    }
    ledger.requests += scratch.requests;
    ledger.bytes += scratch.bytes;
    let (Some(after), Some(before)) = (sides.pop(), sides.pop()) else { return Ok(Vec::new()) };
    let mut changed = Vec::new();
    for (path, mut was) in before {
        let Some(mut is) = after.get(&path).cloned() else { continue };
        let (had, has) = (names(&was.deletes), names(&is.deletes));
        if had == has {
            continue;
        }
        // What an older delete file removed is removed still, unless the file is gone.
        let may_return = !had.is_subset(&has);
        was.only_removed = Some(is.deletes.clone());
        is.only_removed = Some(was.deletes.clone());
        changed.extend(may_return.then_some(is));
        changed.push(was);
    }
    ledger.files.kept_more(changed.len() as u64);
    let used: BTreeSet<_> = changed.iter().flat_map(Task::delete_files).map(|file| Arc::as_ptr(file).addr()).collect();
    ledger.delete_files.kept_more(used.len() as u64);
    Ok(changed)
}

/// Delete files, and deletion vectors within them, by name.
fn names(deletes: &Deletes) -> BTreeSet<String> {
    deletes.iter().map(|file| format!("{} {:?}", file.file().file_path(), file.kind)).collect()
}

fn not_only_appends(view: &View, step: &Step) -> Error {
    let id = step.snapshot.snapshot_id();
    let what = format!("snapshot {id} deleted or changed rows, so that what is new is more than what was appended");
    Error::new(Code::ChangesUnavailable, what)
        .with("table", &view.name)
        .with("operation", step.snapshot.summary().operation.as_str())
        .help("read the whole table")
}
