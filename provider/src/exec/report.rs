//! What did a scan look at while it ran?
//!
//! Planning's ledger never changes. Each partition counts into its own [`Running`], which starts anew whenever the
//! partition is executed again: a plan that runs twice reports its last run, not the sum.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;

use crate::observe::Reason;
use crate::predicate::{Claim, Predicate};
use crate::scan::{Gap, Ledger, Plan, ScanReport, Task, View};

use super::deletes::{DeleteFiles, Live, address};
use super::footer::Footers;
use super::prune::Selection;
use super::room::Room;

/// What one run of one partition has counted so far.
#[derive(Debug, Default)]
pub(super) struct Running {
    pub(super) ledger: Ledger,
    opened: HashSet<usize>,
    answered: HashSet<usize>,
    excluded: HashSet<usize>,
    deletes: HashSet<usize>,
    ended: bool,
}

/// Shared by the files of one run of one partition.
pub(super) type Shared = Arc<Mutex<Running>>;

impl Running {
    /// The file's footer is asked for, and its deletes count as needed.
    pub(super) fn opened(&mut self, task: &Arc<Task>) {
        self.opened.insert(Arc::as_ptr(task).addr());
        self.deletes.extend(task.delete_files().map(address));
    }

    /// The file's rows were counted without reading it.
    pub(super) fn answered(&mut self, task: &Arc<Task>) {
        self.answered.insert(Arc::as_ptr(task).addr());
    }

    /// A filter that moves excluded the file, or a part of it, before anything of it was read.
    pub(super) fn excluded(&mut self, task: &Arc<Task>) {
        self.excluded.insert(Arc::as_ptr(task).addr());
    }

    pub(super) fn ended(&mut self) {
        self.ended = true;
    }
}

/// A planned scan: what its source's clones share.
pub(super) struct Scan {
    pub(super) view: Arc<View>,
    pub(super) plan: Plan,
    pub(super) footers: Footers,
    pub(super) deletes: DeleteFiles,
    pub(super) room: Room,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    partitions: usize,
    running: BTreeMap<usize, Shared>,
}

fn gap(claim: &Claim) -> Option<Gap> {
    let nothing = claim.predicate == Predicate::True;
    claim.reason.map(|reason| Gap { condition: claim.text.clone(), nothing, reason })
}

impl Scan {
    pub(super) fn new(view: Arc<View>, plan: Plan, footers: Footers, deletes: DeleteFiles, room: Room) -> Self {
        Scan { view, plan, footers, deletes, room, runs: Mutex::default() }
    }

    /// Begins a run of partition `partition` of `partitions`; what an earlier run counted is forgotten.
    pub(super) fn start(&self, partition: usize, partitions: usize) -> Shared {
        let shared = Shared::default();
        let mut runs = self.runs.lock();
        if runs.partitions != partitions {
            *runs = Runs { partitions, running: BTreeMap::new() };
        }
        runs.running.insert(partition, Arc::clone(&shared));
        shared
    }

    /// Whether any partition has begun to run.
    pub(super) fn started(&self) -> bool {
        !self.runs.lock().running.is_empty()
    }

    /// Planning and the last run together.
    pub(super) fn ledger(&self) -> Ledger {
        let mut ledger = self.plan.ledger.clone();
        let runs = self.runs.lock();
        let mut opened = HashSet::new();
        let mut answered = HashSet::new();
        let mut excluded = HashSet::new();
        let mut deletes = HashSet::new();
        let mut ended = runs.running.len() == runs.partitions;
        for running in runs.running.values() {
            let running = running.lock();
            ledger.merge(&running.ledger);
            opened.extend(running.opened.iter().copied());
            answered.extend(running.answered.iter().copied());
            excluded.extend(running.excluded.iter().copied());
            deletes.extend(running.deletes.iter().copied());
            ended &= running.ended;
        }
        answered.retain(|task| !opened.contains(task));
        excluded.retain(|task| !opened.contains(task) && !answered.contains(task));
        let ended = ended && !runs.running.is_empty();
        ledger.files.demote(Reason::Metadata, answered.len() as u64);
        ledger.files.demote(Reason::DynamicFilter, excluded.len() as u64);
        if ended {
            let read = opened.len() + answered.len() + excluded.len();
            let unopened = self.plan.tasks.len().saturating_sub(read);
            ledger.files.demote(Reason::Limit, unopened as u64);
        }
        let because = |task: &Arc<Task>| match Arc::as_ptr(task).addr() {
            task if answered.contains(&task) => Some(Reason::Metadata),
            task if excluded.contains(&task) => Some(Reason::DynamicFilter),
            _ => ended.then_some(Reason::Limit),
        };
        self.settle_deletes(deletes, because, &mut ledger);
        ledger
    }

    /// Counts the delete files that turned out not to be needed, unlike those `used`, by why their data file was not read.
    fn settle_deletes(
        &self,
        mut used: HashSet<usize>,
        because: impl Fn(&Arc<Task>) -> Option<Reason>,
        ledger: &mut Ledger,
    ) {
        if self.plan.ledger.delete_files.kept() == 0 {
            return;
        }
        for reason in [Reason::Metadata, Reason::DynamicFilter, Reason::Limit] {
            let tasks = self.plan.tasks.iter().filter(|task| because(task) == Some(reason));
            let unused = tasks.flat_map(|task| task.delete_files()).filter(|file| used.insert(address(file)));
            ledger.delete_files.demote(reason, unused.count() as u64);
        }
    }

    /// What EXPLAIN shows; `residual` is what rows are still tested for.
    pub(super) fn report(&self, residual: Option<String>) -> ScanReport {
        ScanReport {
            table: self.view.name.clone(),
            snapshot_id: self.view.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id()),
            reference: self.view.reference.clone(),
            partition_predicates: self.plan.partition_predicates.clone(),
            filtered: !self.plan.claims.is_empty() || residual.is_some(),
            partitioned: !self.view.metadata.default_partition_spec().is_unpartitioned(),
            residual,
            gaps: self.plan.claims.iter().filter_map(gap).collect(),
            ledger: self.ledger(),
        }
    }

    /// The facts of a report as EXPLAIN prints them, in order.
    pub(super) fn facts(&self, residual: Option<String>) -> Vec<(&'static str, String)> {
        let report = self.report(residual);
        let specs = report.partition_predicates.iter().map(|(id, predicate)| format!("spec {id}: {predicate}"));
        let mut facts = vec![
            ("table", report.table),
            ("snapshot", report.snapshot_id.map_or_else(|| "none".to_owned(), |id| id.to_string())),
        ];
        facts.extend(report.reference.map(|reference| ("ref", reference)));
        facts.extend([
            ("partition", format!("[{}]", specs.collect::<Vec<_>>().join("; "))),
            ("residual", report.residual.unwrap_or_else(|| "none".to_owned())),
            ("manifests", report.ledger.manifests.to_string()),
            ("files", report.ledger.files.to_string()),
            ("delete_files", report.ledger.delete_files.to_string()),
        ]);
        if self.started() {
            facts.extend([
                ("row_groups", report.ledger.row_groups.to_string()),
                ("pages", report.ledger.pages.to_string()),
                ("rows", report.ledger.rows.to_string()),
                ("requests", report.ledger.requests.to_string()),
                ("bytes", report.ledger.bytes.to_string()),
            ]);
        }
        facts
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("table", &self.view.name).finish_non_exhaustive()
    }
}

/// What the decoder of a file counts while it runs.
#[derive(Clone, Default)]
pub(super) struct Counts {
    /// The byte ranges that it asked for.
    pub(super) touched: Arc<Mutex<Vec<Range<u64>>>>,
    /// Rows that nobody wanted any more.
    pub(super) unwanted: Arc<AtomicU64>,
}

/// The wanted rows of a row group; `None`: all.
type Rows<'a> = Option<&'a [Range<usize>]>;

/// Counts the rows and pages of one piece of a file; settled when its stream ends or is dropped.
pub(super) struct FileTally {
    shared: Shared,
    metadata: Arc<ParquetMetaData>,
    /// `(row group, rows that the page index leaves)`; `None`: all rows.
    groups: Selection,
    /// The same without deleted rows, where those are not decoded.
    live: Option<Selection>,
    /// The leaf columns read, by whatever.
    leaves: Vec<usize>,
    counts: Counts,
    pub(super) rows_out: u64,
    /// Deleted rows, of those that the page index leaves.
    pub(super) deleted: u64,
    settled: bool,
}

impl FileTally {
    pub(super) fn new(
        shared: Shared,
        metadata: Arc<ParquetMetaData>,
        live: Live,
        mut leaves: Vec<usize>,
        counts: Counts,
    ) -> Self {
        leaves.sort_unstable();
        leaves.dedup();
        let Live { selection: groups, rows: live, removed: deleted, .. } = live;
        FileTally { shared, metadata, groups, live, leaves, counts, rows_out: 0, deleted, settled: false }
    }

    /// Counts what became of each row and page; `rest` is why the missing ones are missing. The first call counts.
    pub(super) fn settle(&mut self, rest: Reason) {
        if !std::mem::replace(&mut self.settled, true) {
            let mut ledger = Ledger::default();
            self.count(rest, &mut ledger);
            self.shared.lock().ledger.merge(&ledger);
        }
    }

    fn count(&self, rest: Reason, ledger: &mut Ledger) {
        let mut selected = 0;
        for (group, ranges) in &self.groups {
            let rows = self.metadata.row_groups().get(*group).map_or(0, |g| g.num_rows().max(0) as u64);
            let left = ranges.as_ref().map_or(rows, |ranges| ranges.iter().map(|r| r.len() as u64).sum());
            ledger.rows.skip(Reason::PageIndex, rows - left);
            selected += left;
        }
        ledger.rows.kept_more(self.rows_out);
        ledger.rows.skip(Reason::Deleted, self.deleted);
        let unwanted = self.counts.unwanted.load(Ordering::Relaxed);
        ledger.rows.skip(Reason::DynamicFilter, unwanted);
        ledger.rows.skip(rest, selected.saturating_sub(self.rows_out + self.deleted + unwanted));

        let touched = joined(std::mem::take(&mut *self.counts.touched.lock()));
        for (at, (group, ranges)) in self.groups.iter().enumerate() {
            let live = self.live.as_ref().and_then(|live| live.get(at)?.1.as_deref());
            for leaf in &self.leaves {
                self.settle_pages((*group, *leaf), (ranges.as_deref(), live), &touched, rest, ledger);
            }
        }
    }

    fn settle_pages(
        &self,
        (group, leaf): (usize, usize),
        (selected, live): (Rows<'_>, Rows<'_>),
        touched: &[Range<u64>],
        rest: Reason,
        ledger: &mut Ledger,
    ) {
        let Some(pages) = self.metadata.offset_index().and_then(|index| index.get(group)?.get(leaf)) else {
            return;
        };
        let rows = self.metadata.row_groups().get(group).map_or(0, |g| g.num_rows());
        let pages = pages.page_locations();
        for (at, page) in pages.iter().enumerate() {
            let end = pages.get(at + 1).map_or(rows, |next| next.first_row_index);
            let holds = |range: &Range<usize>| (range.start as i64) < end && page.first_row_index < range.end as i64;
            let offset = page.offset.max(0) as u64;
            let after = touched.partition_point(|range| range.end <= offset);
            if touched.get(after).is_some_and(|range| range.start <= offset) {
                ledger.pages.kept_more(1);
            } else if selected.is_some_and(|ranges| !ranges.iter().any(holds)) {
                ledger.pages.skip(Reason::PageIndex, 1);
            } else if live.is_some_and(|ranges| !ranges.iter().any(holds)) {
                ledger.pages.skip(Reason::Deleted, 1);
            } else {
                ledger.pages.skip(rest, 1);
            }
        }
    }
}

impl Drop for FileTally {
    /// The stream was dropped before its end: enough was read.
    fn drop(&mut self) {
        self.settle(Reason::Limit);
    }
}

/// Ascending, disjoint.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
