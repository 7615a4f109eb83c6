//! The stages of planning: snapshot → manifest list → manifests → files → their deletes → groups.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::physical_expr::PhysicalExpr;
use futures::stream::{StreamExt, TryStreamExt, iter};
use iceberg::spec::{ManifestContentType, ManifestFile, Struct};

use super::facts::{self, Partitioning};
use super::{Ledger, Piece, Task, View, balance, changes, delete_index, statistics};
use crate::error::{Code, Error, Result};
use crate::metadata::{Entry, Fetched};
use crate::observe::{Reason, Tally};
use crate::predicate::{self, Claim, Predicate};

/// Manifests read at the same time: enough to hide a store's latency, few enough to bound memory.
pub(super) const MANIFESTS_AT_ONCE: usize = 16;

/// What is asked of a table.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Conditions over the view's Arrow schema that every wanted row satisfies.
    pub filters: &'a [Arc<dyn PhysicalExpr>],
    /// Indexes of the wanted columns in the view's Arrow schema; `None`: all.
    pub projection: Option<&'a [usize]>,
    /// Enough rows; honoured only where there are no filters.
    pub limit: Option<usize>,
    /// Partitions to deal the work to.
    pub partitions: usize,
}

/// Which files a scan reads, how they are dealt out, and what was skipped.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each conjunct of the filters says, and why it says no more.
    pub claims: Vec<Claim>,
    /// All of them.
    pub predicate: Predicate,
    /// `(spec id, projected predicate)` for each spec that wrote a manifest of the snapshot.
    pub partition_predicates: Vec<(i32, String)>,
    /// The files to read, newest first.
    pub tasks: Vec<Arc<Task>>,
    /// The same, dealt out: at least one group, possibly empty.
    pub groups: Vec<Vec<Piece>>,
    /// Of the rows in the files to read.
    pub statistics: Statistics,
    pub ledger: Ledger,
}

/// Plans a scan of `view`: reads its manifest list and those manifests that may hold a matching file or its deletes, and
/// no data or delete file.
///
/// # Errors
/// `not_supported` where a file to read isn't plain Parquet, `delete_file_corrupt` where a delete file's entry lacks what
/// is required of it; otherwise what reading metadata gives.
pub async fn plan(view: &View, request: &Request<'_>) -> Result<Plan> {
    if let Some(changes) = &view.changes {
        return changes::plan(view, changes, request).await;
    }
    let claims = predicate::convert_conjuncts(request.filters, &view.arrow, &view.schema);
    let predicate = Predicate::and(claims.iter().map(|claim| claim.predicate.clone()));
    let snapshot = view.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id());
    let mut ledger = Ledger::default();
    let (manifests, fetched) = view.manifests.list_counted(&view.metadata, snapshot).await?;
    ledger.fetched(fetched);

    let data: Vec<&ManifestFile> = manifests.iter().filter(|m| m.content == ManifestContentType::Data).collect();
    let specs = Projections::new(view, &predicate, &data)?;
    let kept = keep_manifests(view, &specs, data, &mut ledger).await?;
    let mut tasks = keep_files(view, &specs, &predicate, kept, &mut ledger.files)?;
    delete_index::attach(view, &specs, &manifests, &mut tasks, &mut ledger).await?;
    let tasks = with_live_rows(tasks, &mut ledger);
    let tasks = enough(newest_first(tasks), request, &mut ledger);

    Ok(Plan {
        claims,
        predicate,
        partition_predicates: specs.display(),
        groups: balance(&tasks, request.partitions),
        statistics: statistics::of(&tasks, &view.schema, &view.arrow, request.projection),
        tasks,
        ledger,
    })
}

/// A predicate projected with every spec that wrote a manifest, once each.
pub(super) struct Projections {
    by_spec: BTreeMap<i32, (Arc<Partitioning>, Predicate)>,
}

impl Projections {
    pub(super) fn new(view: &View, predicate: &Predicate, manifests: &[&ManifestFile]) -> Result<Self> {
        let mut by_spec = BTreeMap::new();
        for manifest in manifests {
            if let Slot::Vacant(slot) = by_spec.entry(manifest.partition_spec_id) {
                let spec = view.metadata.partition_spec_by_id(manifest.partition_spec_id).ok_or_else(|| {
                    Error::new(Code::MetadataCorrupt, "a manifest names a partition spec that the table doesn't have")
                        .with("spec", manifest.partition_spec_id)
                        .with("manifest", &manifest.manifest_path)
                })?;
                let partitioning = Arc::new(Partitioning::new(spec, &view.schema));
                slot.insert((partitioning, predicate::project(predicate, spec, &view.schema)));
            }
        }
        Ok(Projections { by_spec })
    }

    fn of(&self, manifest: &ManifestFile) -> Result<&(Arc<Partitioning>, Predicate)> {
        self.of_spec(manifest.partition_spec_id)
    }

    pub(super) fn of_spec(&self, id: i32) -> Result<&(Arc<Partitioning>, Predicate)> {
        self.by_spec.get(&id).ok_or_else(|| Error::new(Code::Internal, "a manifest's spec was not projected"))
    }

    /// Whether a delete manifest may hold a file for one of `tasks`: one of the same spec and of a partition that is asked
    /// for. Equality deletes of an unpartitioned spec apply to every file.
    pub(super) fn may_delete(&self, view: &View, manifest: &ManifestFile, tasks: &[Task]) -> bool {
        let id = manifest.partition_spec_id;
        let global = view.metadata.partition_spec_by_id(id).is_none_or(|spec| spec.is_unpartitioned());
        let summaries = manifest.partitions.as_deref().unwrap_or_default();
        let projected = |(partitioning, projected): &(Arc<Partitioning>, Predicate)| {
            projected.may_match(&|field| partitioning.of_summaries(summaries, field))
        };
        let same_spec = || tasks.iter().any(|task| task.entry().spec_id == id);
        global || (same_spec() && self.by_spec.get(&id).is_some_and(projected))
    }

    /// Whether a file of a delete manifest may be in a partition that is asked for.
    pub(super) fn may_hold(&self, manifest: &ManifestFile, tuple: &Struct) -> bool {
        self.by_spec
            .get(&manifest.partition_spec_id)
            .is_none_or(|(partitioning, projected)| projected.may_match(&|field| partitioning.of_tuple(tuple, field)))
    }

    pub(super) fn display(&self) -> Vec<(i32, String)> {
        let each = self.by_spec.iter();
        each.map(|(id, (spec, projected))| (*id, projected.display(&|field| spec.name(field)).to_string())).collect()
    }
}

/// A manifest's live files, where the manifest list counts them.
fn live_files(manifest: &ManifestFile) -> Option<u64> {
    Some(u64::from(manifest.added_files_count?) + u64::from(manifest.existing_files_count?))
}

/// A manifest's live files, read from it if need be: format version 1 may leave the counts out.
pub(super) async fn count_live(view: &View, manifest: &ManifestFile, ledger: &mut Ledger) -> Result<u64> {
    if let Some(count) = live_files(manifest) {
        return Ok(count);
    }
    let (entries, fetched) = view.manifests.entries_counted(&view.metadata, manifest).await?;
    ledger.fetched(fetched);
    Ok(entries.iter().filter(|entry| entry.is_live()).count() as u64)
}

/// The manifests that may hold a matching file, with their entries.
async fn keep_manifests<'a>(
    view: &View,
    specs: &Projections,
    manifests: Vec<&'a ManifestFile>,
    ledger: &mut Ledger,
) -> Result<Vec<(&'a ManifestFile, Arc<Vec<Entry>>)>> {
    let mut kept = Vec::new();
    for manifest in manifests {
        let (partitioning, projected) = specs.of(manifest)?;
        let summaries = manifest.partitions.as_deref().unwrap_or_default();
        if projected.may_match(&|field| partitioning.of_summaries(summaries, field)) {
            ledger.manifests.kept_more(1);
            kept.push(manifest);
            continue;
        }
        ledger.manifests.skip(Reason::PartitionSummary, 1);
        let files = count_live(view, manifest, ledger).await?;
        ledger.files.skip(Reason::Manifest, files);
    }
    // Collected first: a closure that lives across an await would have to serve any lifetime.
    let reads: Vec<_> = kept.into_iter().map(|manifest| read(view, manifest)).collect();
    let read: Vec<_> = iter(reads).buffered(MANIFESTS_AT_ONCE).try_collect().await?;
    let with_entries = read.into_iter().map(|(manifest, entries, fetched)| {
        ledger.fetched(fetched);
        (manifest, entries)
    });
    Ok(with_entries.collect())
}

pub(super) async fn read<'a>(
    view: &View,
    manifest: &'a ManifestFile,
) -> Result<(&'a ManifestFile, Arc<Vec<Entry>>, Fetched)> {
    let (entries, fetched) = view.manifests.entries_counted(&view.metadata, manifest).await?;
    Ok((manifest, entries, fetched))
}

/// The files that may hold a matching row: first by their partition, then by their columns' bounds and counts.
fn keep_files(
    view: &View,
    specs: &Projections,
    predicate: &Predicate,
    manifests: Vec<(&ManifestFile, Arc<Vec<Entry>>)>,
    files: &mut Tally,
) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for (manifest, entries) in manifests {
        let (partitioning, projected) = specs.of(manifest)?;
        for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_live()) {
            match skip(view, partitioning, projected, predicate, entry) {
                Some(reason) => files.skip(reason, 1),
                None => {
                    files.kept_more(1);
                    tasks.push(Task::new(&entries, at, partitioning, &view.env.stores, view.relocate.as_ref())?);
                }
            }
        }
    }
    Ok(tasks)
}

/// Why no row of a file can match, if none can.
pub(super) fn skip(
    view: &View,
    partitioning: &Partitioning,
    projected: &Predicate,
    predicate: &Predicate,
    Entry { file, .. }: &Entry,
) -> Option<Reason> {
    if !projected.may_match(&|field| partitioning.of_tuple(file.partition(), field)) {
        return Some(Reason::Partition);
    }
    let may_match = predicate.may_match(&|field| facts::of_file(file, &view.schema, field));
    (!may_match).then_some(Reason::ColumnBounds)
}

/// Leaves out the files all of whose rows are deleted, where metadata tells; their deletion vectors need not be read.
pub(super) fn with_live_rows(tasks: Vec<Task>, ledger: &mut Ledger) -> Vec<Arc<Task>> {
    let (live, dead): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| task.deletes.is_empty() || task.live_rows() != Some(0));
    ledger.files.demote(Reason::Deleted, dead.len() as u64);
    ledger.delete_files.demote(Reason::Metadata, dead.len() as u64);
    live.into_iter().map(Arc::new).collect()
}

pub(super) fn newest_first(mut tasks: Vec<Arc<Task>>) -> Vec<Arc<Task>> {
    tasks.sort_by_cached_key(|task| std::cmp::Reverse(task.age()));
    tasks
}

/// The first tasks that are known to hold enough rows together.
fn enough(mut tasks: Vec<Arc<Task>>, request: &Request<'_>, ledger: &mut Ledger) -> Vec<Arc<Task>> {
    let (Some(limit), true) = (request.limit, request.filters.is_empty()) else {
        return tasks;
    };
    let mut rows = 0;
    let needed = tasks.iter().take_while(|task| {
        let wanted = rows < limit as u64;
        rows += task.live_rows().unwrap_or_default();
        wanted
    });
    let needed = needed.count();
    ledger.files.demote(Reason::Limit, (tasks.len() - needed) as u64);
    let before = delete_files(&tasks);
    tasks.truncate(needed);
    ledger.delete_files.demote(Reason::Limit, before - delete_files(&tasks));
    tasks
}

/// How many delete files the tasks carry.
fn delete_files(tasks: &[Arc<Task>]) -> u64 {
    let each = tasks.iter().flat_map(|task| task.deletes.iter());
    each.map(Arc::as_ptr).collect::<HashSet<_>>().len() as u64
}
