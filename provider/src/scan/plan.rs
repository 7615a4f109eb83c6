//! The stages of planning: snapshot → manifest list → manifests → files → groups.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::physical_expr::PhysicalExpr;
use futures::stream::{StreamExt, TryStreamExt, iter};
use iceberg::spec::{ManifestContentType, ManifestFile, ManifestStatus, PartitionSpecRef, PrimitiveType, Schema, Type};

use super::{Ledger, Piece, Task, View, balance, facts, statistics};
use crate::error::{Code, Error, Result};
use crate::metadata::Entry;
use crate::observe::{Reason, Tally};
use crate::predicate::{self, Predicate};

/// Manifests read at the same time: enough to hide a store's latency, few enough to bound memory.
const MANIFESTS_AT_ONCE: usize = 16;

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
    /// What the filters say, as far as they are understood.
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

/// Plans a scan of `view`: reads its manifest list and those manifests that may hold a matching file, and no data file.
///
/// # Errors
/// `not_supported` where the snapshot has delete files or a file to read isn't plain Parquet; otherwise what reading
/// metadata gives.
pub async fn plan(view: &View, request: &Request<'_>) -> Result<Plan> {
    let predicate = convert(view, request.filters);
    let snapshot = view.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id());
    let manifests = view.manifests.list(&view.metadata, snapshot).await?;
    let mut ledger = Ledger::default();

    refuse_deletes(view, &manifests).await?;
    let data: Vec<&ManifestFile> = manifests.iter().filter(|m| m.content == ManifestContentType::Data).collect();
    let specs = Projections::new(view, &predicate, &data)?;
    let kept = keep_manifests(view, &specs, data, &mut ledger).await?;
    let tasks = keep_files(view, &specs, &predicate, kept, &mut ledger.files)?;
    let tasks = enough(newest_first(tasks), request, &mut ledger.files);

    Ok(Plan {
        predicate,
        partition_predicates: specs.display(view),
        groups: balance(&tasks, request.partitions),
        statistics: statistics::of(&tasks, &view.schema, &view.arrow, request.projection),
        tasks,
        ledger,
    })
}

/// The conjunction of all filters.
fn convert(view: &View, filters: &[Arc<dyn PhysicalExpr>]) -> Predicate {
    let mut all: Vec<Predicate> = filters
        .iter()
        .map(|filter| predicate::convert(filter, &view.arrow, &view.schema).predicate)
        .filter(|predicate| *predicate != Predicate::True)
        .collect();
    match all.len() {
        0 => Predicate::True,
        1 => all.remove(0),
        _ => Predicate::And(all),
    }
}

/// A predicate projected with every spec that wrote a manifest, once each.
struct Projections {
    by_spec: BTreeMap<i32, (PartitionSpecRef, Predicate)>,
}

impl Projections {
    fn new(view: &View, predicate: &Predicate, manifests: &[&ManifestFile]) -> Result<Self> {
        let mut by_spec = BTreeMap::new();
        for manifest in manifests {
            if let Slot::Vacant(slot) = by_spec.entry(manifest.partition_spec_id) {
                let spec = view.metadata.partition_spec_by_id(manifest.partition_spec_id).ok_or_else(|| {
                    Error::new(Code::MetadataCorrupt, "a manifest names a partition spec that the table doesn't have")
                        .with("spec", manifest.partition_spec_id)
                        .with("manifest", &manifest.manifest_path)
                })?;
                slot.insert((Arc::clone(spec), predicate::project(predicate, spec, &view.schema)));
            }
        }
        Ok(Projections { by_spec })
    }

    fn of(&self, manifest: &ManifestFile) -> Result<&(PartitionSpecRef, Predicate)> {
        self.by_spec
            .get(&manifest.partition_spec_id)
            .ok_or_else(|| Error::new(Code::Internal, "a manifest's spec was not projected"))
    }

    fn display(&self, view: &View) -> Vec<(i32, String)> {
        self.by_spec
            .iter()
            .map(|(id, (spec, projected))| {
                let name = |field: i32| partition_field(spec, &view.schema, field);
                (*id, projected.display(&name).to_string())
            })
            .collect()
    }
}

/// The name and value type of a partition field.
fn partition_field(spec: &PartitionSpecRef, schema: &Schema, field: i32) -> (String, Option<PrimitiveType>) {
    let Some(field) = spec.fields().iter().find(|f| f.field_id == field) else {
        return (format!("field {field}"), None);
    };
    let source = schema.field_by_id(field.source_id);
    let result = source.and_then(|s| field.transform.result_type(&s.field_type).ok());
    match result {
        Some(Type::Primitive(result)) => (field.name.clone(), Some(result)),
        _ => (field.name.clone(), None),
    }
}

/// A manifest's live files, where the manifest list counts them.
fn live_files(manifest: &ManifestFile) -> Option<u64> {
    Some(u64::from(manifest.added_files_count?) + u64::from(manifest.existing_files_count?))
}

fn live(entries: &[Entry]) -> impl Iterator<Item = usize> {
    entries.iter().enumerate().filter(|(_, entry)| entry.status != ManifestStatus::Deleted).map(|(at, _)| at)
}

/// Deletes are not applied yet, and a table is never read without them.
async fn refuse_deletes(view: &View, manifests: &[ManifestFile]) -> Result<()> {
    for manifest in manifests.iter().filter(|m| m.content == ManifestContentType::Deletes) {
        let deletes = match live_files(manifest) {
            Some(count) => count,
            None => live(&view.manifests.entries(&view.metadata, manifest).await?).count() as u64,
        };
        if deletes > 0 {
            return Err(Error::new(Code::NotSupported, "tables with delete files cannot be read yet")
                .with("table", &view.name)
                .with("delete_files", deletes)
                .help("rewrite the table's data files with the engine that wrote the deletes, then read it again"));
        }
    }
    Ok(())
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
        let (spec, projected) = specs.of(manifest)?;
        let summaries = manifest.partitions.as_deref().unwrap_or_default();
        if projected.may_match(&|field| facts::of_summary(summaries, spec, &view.schema, field)) {
            ledger.manifests.kept_more(1);
            kept.push(manifest);
            continue;
        }
        ledger.manifests.skip(Reason::PartitionSummary, 1);
        let files = match live_files(manifest) {
            Some(files) => files,
            None => live(&view.manifests.entries(&view.metadata, manifest).await?).count() as u64,
        };
        ledger.files.skip(Reason::Manifest, files);
    }
    let read = |manifest: &'a ManifestFile| async move {
        Ok((manifest, view.manifests.entries(&view.metadata, manifest).await?))
    };
    iter(kept).map(read).buffered(MANIFESTS_AT_ONCE).try_collect().await
}

/// The files that may hold a matching row: first by their partition, then by their columns' bounds and counts.
fn keep_files(
    view: &View,
    specs: &Projections,
    predicate: &Predicate,
    manifests: Vec<(&ManifestFile, Arc<Vec<Entry>>)>,
    files: &mut Tally,
) -> Result<Vec<Arc<Task>>> {
    let mut tasks = Vec::new();
    for (manifest, entries) in manifests {
        let (spec, projected) = specs.of(manifest)?;
        for at in live(&entries) {
            let Some(Entry { file, .. }) = entries.get(at) else { continue };
            let reason = if !projected
                .may_match(&|field| facts::of_partition(file.partition(), spec, &view.schema, field))
            {
                Some(Reason::Partition)
            } else if !predicate.may_match(&|field| facts::of_file(file, &view.schema, field)) {
                Some(Reason::ColumnBounds)
            } else {
                None
            };
            match reason {
                Some(reason) => files.skip(reason, 1),
                None => {
                    files.kept_more(1);
                    let task = Task::new(&entries, at, spec, &view.env.stores, view.relocate.as_ref())?;
                    tasks.push(Arc::new(task));
                }
            }
        }
    }
    Ok(tasks)
}

fn newest_first(mut tasks: Vec<Arc<Task>>) -> Vec<Arc<Task>> {
    tasks.sort_by_cached_key(|task| std::cmp::Reverse(task.age()));
    tasks
}

/// The first tasks that together hold enough rows.
fn enough(mut tasks: Vec<Arc<Task>>, request: &Request<'_>, files: &mut Tally) -> Vec<Arc<Task>> {
    let (Some(limit), true) = (request.limit, request.filters.is_empty()) else {
        return tasks;
    };
    let mut rows = 0;
    let needed = tasks.iter().take_while(|task| {
        let wanted = rows < limit as u64;
        rows += task.rows();
        wanted
    });
    let needed = needed.count();
    files.demote(Reason::Limit, (tasks.len() - needed) as u64);
    tasks.truncate(needed);
    tasks
}
