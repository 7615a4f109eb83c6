//! Which files may hold a matching row?
//!
//! ```text
//! kept manifests ─ dealt to the cores ─▶ read ─▶ each partition once ─▶ survivors' records ─▶ bounds ─▶ tasks
//! ```
//!
//! Manifests are independent of each other, so that parts of them are read and tested on as many threads as the query may
//! use. Files come out in the order of their manifests all the same.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use futures::stream::{StreamExt, TryStreamExt, iter};

use super::manifests::{MANIFESTS_AT_ONCE, Projections, read};
use super::object::Places;
use super::{Ledger, Task, View, facts};
use crate::error::{Code, Error, Result};
use crate::metadata::{Brief, Fetched, List, Manifest};
use crate::observe::{Reason, Tally};
use crate::predicate::Predicate;

/// Parts a thread gets: more than one, since manifests differ in size.
const PARTS_A_THREAD: usize = 4;

/// What all files are tested with.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) view: View,
    pub(super) list: Arc<List>,
    pub(super) specs: Projections,
    pub(super) predicate: Predicate,
    /// Field ids, ascending, of the columns whose metrics are wanted.
    pub(super) columns: Vec<i32>,
}

/// What came of some manifests.
#[derive(Default)]
struct Found {
    tasks: Vec<Task>,
    files: Tally,
    fetched: Fetched,
    /// The last manifest, and which of its partitions may be asked for.
    last: Option<(Arc<Manifest>, Arc<[bool]>)>,
}

impl Found {
    /// For each partition of a manifest, whether it may be asked for. Manifests that were written one after the other often
    /// hold the same partitions, and then it is known.
    fn may_hold(&mut self, specs: &Projections, manifest: &Arc<Manifest>) -> Arc<[bool]> {
        if let Some((last, may_hold)) = &self.last
            && last.spec_id() == manifest.spec_id()
            && last.tuples() == manifest.tuples()
        {
            return Arc::clone(may_hold);
        }
        let may_hold: Arc<[bool]> = specs.may_hold(manifest).into();
        self.last = Some((Arc::clone(manifest), Arc::clone(&may_hold)));
        may_hold
    }
}

/// The files of the manifests at `places` that may hold a matching row: first by their partition, then by their columns'
/// bounds and counts. Uses `threads` threads.
pub(super) async fn keep(
    search: &Arc<Search>,
    places: &[usize],
    threads: usize,
    ledger: &mut Ledger,
) -> Result<Vec<Task>> {
    let threads = threads.clamp(1, MANIFESTS_AT_ONCE);
    let part = places.len().div_ceil(threads * PARTS_A_THREAD).max(1);
    let parts: Vec<_> = places.chunks(part).map(|part| (Arc::clone(search), part.to_vec())).collect();
    let at_once = MANIFESTS_AT_ONCE / threads;
    let alone = parts.len() == 1;
    let run = |(search, part): (Arc<Search>, Vec<usize>)| async move {
        // Nothing to share out: another thread would only have to be woken.
        if alone { search.part(part, at_once).await } else { spawned(search, part, at_once).await }
    };
    let found: Vec<Found> = iter(parts.into_iter().map(run)).buffered(threads).try_collect().await?;
    let mut tasks = Vec::with_capacity(found.iter().map(|found| found.tasks.len()).sum());
    for part in found {
        ledger.files.merge(&part.files);
        ledger.fetched(part.fetched);
        tasks.extend(part.tasks);
    }
    Ok(tasks)
}

async fn spawned(search: Arc<Search>, part: Vec<usize>, at_once: usize) -> Result<Found> {
    match SpawnedTask::spawn(async move { search.part(part, at_once).await }).join().await {
        Ok(found) => found,
        Err(e) if e.is_cancelled() => Err(Error::new(Code::Interrupted, "a scan was not planned to its end").source(e)),
        Err(e) => Err(Error::new(Code::Internal, "planning a scan failed").source(e)),
    }
}

impl Search {
    async fn part(self: Arc<Self>, places: Vec<usize>, at_once: usize) -> Result<Found> {
        let reads: Vec<_> = places.into_iter().map(|place| Arc::clone(&self).read(place)).collect();
        let mut reads = iter(reads).buffered(at_once);
        let (mut found, mut objects) = (Found::default(), Places::of(&self.view));
        while let Some((manifest, fetched)) = reads.try_next().await? {
            found.fetched += fetched;
            self.files(&manifest, &mut objects, &mut found)?;
        }
        Ok(found)
    }

    async fn read(self: Arc<Self>, place: usize) -> Result<(Arc<Manifest>, Fetched)> {
        let manifest = self.list.get(place);
        let manifest = manifest.ok_or_else(|| Error::new(Code::Internal, "a manifest is not in its list"))?;
        read(&self.view, manifest).await
    }

    fn files(&self, manifest: &Arc<Manifest>, objects: &mut Places<'_>, found: &mut Found) -> Result<()> {
        let partitioning = &self.specs.of(manifest.spec_id())?.partitioning;
        let may_hold = found.may_hold(&self.specs, manifest);
        let in_partition =
            |at: &usize| manifest.tuple_of(*at).and_then(|tuple| may_hold.get(tuple)).is_none_or(|may| *may);
        let survivors = found.files.keep(manifest.live().collect(), Reason::Partition, in_partition);
        for at in survivors {
            let brief = manifest.brief_again(at, &self.columns)?;
            if may_match(&self.predicate, (manifest, at), &brief, &self.view) {
                found.tasks.push(Task::new((manifest, at), brief, partitioning, objects)?);
            } else {
                found.files.demote(Reason::ColumnBounds, 1);
            }
        }
        Ok(())
    }
}

/// Whether the file of a manifest's entry may hold a matching row, by its columns' bounds and counts.
pub(super) fn may_match(predicate: &Predicate, (manifest, at): (&Manifest, usize), brief: &Brief, view: &View) -> bool {
    let (rows, spec_id) = (manifest.record_count(at), manifest.spec_id());
    predicate.may_match(&|field| facts::of_brief(brief, &view.schema, field, rows, spec_id).unwrap_or_default())
}
