//! Which manifests may hold a matching file?
//!
//! A predicate is projected once with each spec that wrote a manifest, and tested against the partition summaries of the
//! manifest list, which are decoded once for all queries.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use iceberg::spec::{ManifestContentType, ManifestFile};

use super::facts::Partitioning;
use super::{Ledger, Task, View};
use crate::error::{Code, Error, Result};
use crate::metadata::{Fetched, List, Manifest, Summaries};
use crate::observe::Reason;
use crate::predicate::{self, Predicate};

/// Manifests read at the same time: enough to hide a store's latency, few enough to bound memory.
pub(super) const MANIFESTS_AT_ONCE: usize = 16;

/// A predicate projected with every spec that wrote a manifest, once each.
#[derive(Debug)]
pub(super) struct Projections {
    by_spec: BTreeMap<i32, Projection>,
}

#[derive(Debug)]
pub(super) struct Projection {
    pub(super) partitioning: Arc<Partitioning>,
    projected: Predicate,
    summaries: Arc<Summaries>,
}

impl Projection {
    fn may_match(&self, manifest: usize) -> bool {
        self.projected.may_match(&|field| self.partitioning.of_summaries(&self.summaries, manifest, field))
    }
}

impl Projections {
    /// Projects `predicate` with the specs of the data manifests of `list`.
    pub(super) fn new(view: &View, predicate: &Predicate, list: &List) -> Result<Self> {
        let mut by_spec = BTreeMap::new();
        for manifest in list.iter().filter(|m| m.content == ManifestContentType::Data) {
            if let Slot::Vacant(slot) = by_spec.entry(manifest.partition_spec_id) {
                let spec = view.metadata.partition_spec_by_id(manifest.partition_spec_id).ok_or_else(|| {
                    Error::new(Code::MetadataCorrupt, "a manifest names a partition spec that the table doesn't have")
                        .with("spec", manifest.partition_spec_id)
                        .with("manifest", &manifest.manifest_path)
                })?;
                let partitioning = Arc::new(Partitioning::new(spec, &view.schema));
                let projected = predicate::project(predicate, spec, &view.schema);
                let summaries = list.summaries(manifest.partition_spec_id, partitioning.types());
                slot.insert(Projection { partitioning, projected, summaries });
            }
        }
        Ok(Projections { by_spec })
    }

    pub(super) fn of(&self, spec_id: i32) -> Result<&Projection> {
        let projection = self.by_spec.get(&spec_id);
        projection.ok_or_else(|| Error::new(Code::Internal, "a manifest's spec was not projected"))
    }

    /// Whether a delete manifest may hold a file for one of `tasks`: one of the same spec and of a partition that is asked
    /// for. Equality deletes of an unpartitioned spec apply to every file.
    pub(super) fn may_delete(&self, view: &View, (at, manifest): (usize, &ManifestFile), tasks: &[Task]) -> bool {
        let id = manifest.partition_spec_id;
        let global = view.metadata.partition_spec_by_id(id).is_none_or(|spec| spec.is_unpartitioned());
        let same_spec = || tasks.iter().any(|task| task.spec_id() == id);
        global || (same_spec() && self.by_spec.get(&id).is_some_and(|projection| projection.may_match(at)))
    }

    /// Whether the partition of a manifest's entry may be one that is asked for.
    pub(super) fn may_hold_entry(&self, manifest: &Manifest, at: usize) -> bool {
        let tuple = manifest.tuple_of(at).and_then(|tuple| manifest.tuples().get(tuple));
        match (self.by_spec.get(&manifest.spec_id()), tuple) {
            (Some(Projection { partitioning, projected, .. }), Some(tuple)) => {
                projected.may_match(&|field| partitioning.of_tuple(tuple, field))
            }
            _ => true,
        }
    }

    /// For each partition of a manifest, whether it may be one that is asked for.
    pub(super) fn may_hold(&self, manifest: &Manifest) -> Vec<bool> {
        let projection = self.by_spec.get(&manifest.spec_id());
        let may = |tuple| {
            projection.is_none_or(|Projection { partitioning, projected, .. }| {
                projected.may_match(&|field| partitioning.of_tuple(tuple, field))
            })
        };
        manifest.tuples().iter().map(may).collect()
    }

    /// `(spec id, projected predicate)` of each.
    pub(super) fn display(&self) -> Vec<(i32, String)> {
        let each = self.by_spec.iter();
        each.map(|(id, Projection { partitioning, projected, .. })| {
            (*id, projected.display(&|field| partitioning.name(field)).to_string())
        })
        .collect()
    }
}

/// The places in the list of the data manifests that may hold a matching file.
pub(super) async fn keep(view: &View, specs: &Projections, list: &List, ledger: &mut Ledger) -> Result<Vec<usize>> {
    let mut kept = Vec::new();
    for (at, manifest) in list.iter().enumerate().filter(|(_, m)| m.content == ManifestContentType::Data) {
        if specs.of(manifest.partition_spec_id)?.may_match(at) {
            ledger.manifests.kept_more(1);
            kept.push(at);
            continue;
        }
        ledger.manifests.skip(Reason::PartitionSummary, 1);
        let files = count_live(view, manifest, ledger).await?;
        ledger.files.skip(Reason::Manifest, files);
    }
    Ok(kept)
}

/// The live files of the manifests at `places`, where the manifest list counts them all.
pub(super) fn files_in(list: &List, places: &[usize]) -> Option<u64> {
    places.iter().map(|at| live_files(list.get(*at)?)).sum()
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
    let (read, fetched) = read(view, manifest).await?;
    ledger.fetched(fetched);
    Ok(read.live().count() as u64)
}

pub(super) async fn read(view: &View, manifest: &ManifestFile) -> Result<(Arc<Manifest>, Fetched)> {
    view.manifests.manifest_counted(&view.metadata, manifest).await
}
