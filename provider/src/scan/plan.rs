//! The stages of planning: snapshot → manifest list → manifests → files → their deletes → groups.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::physical_expr::PhysicalExpr;

use super::files::{self, Search};
use super::manifests::{self, Projections};
use super::{Ledger, Piece, Task, View, balance, changes, delete_index, statistics};
use crate::error::Result;
use crate::observe::Reason;
use crate::predicate::{self, Claim, Predicate};
use crate::schema::field_id;

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
    let (list, fetched) = view.manifests.list_counted(&view.metadata, snapshot).await?;
    ledger.fetched(fetched);

    let specs = Projections::new(view, &predicate, &list)?;
    let kept = manifests::keep(view, &specs, &list, &mut ledger).await?;
    // How many files a filter leaves isn't known yet. What is left out here and wanted after all is read again, file by file.
    let few = || manifests::files_in(&list, &kept).is_some_and(|files| files <= DETAILED);
    let detailed = predicate != Predicate::True || few();
    let columns = columns(view, request, &predicate, detailed);
    let (view, list) = (view.clone(), Arc::clone(&list));
    let search = Arc::new(Search { view, list, specs, predicate, columns });
    let mut tasks = files::keep(&search, &kept, request.partitions, &mut ledger).await?;
    let Search { view, list, specs, predicate, .. } = &*search;
    delete_index::attach(view, specs, list, &mut tasks, &mut ledger).await?;
    let tasks = with_live_rows(tasks, &mut ledger);
    let tasks = enough(newest_first(tasks), request, &mut ledger);

    Ok(Plan {
        claims,
        predicate: predicate.clone(),
        partition_predicates: specs.display(),
        groups: balance(&tasks, request.partitions),
        statistics: statistics::of(&tasks, view, request.projection),
        tasks,
        ledger,
    })
}

/// Files of which the optimiser is offered statistics of columns. Of more they are worth less than reading them takes.
pub(super) const DETAILED: u64 = 10_000;

/// The columns whose metrics are wanted, by field id: those of the filters, and if `detailed` those whose statistics are
/// offered.
pub(super) fn columns(view: &View, request: &Request<'_>, predicate: &Predicate, detailed: bool) -> Vec<i32> {
    let mut ids = predicate.fields();
    let wanted = |at: usize| detailed && request.projection.is_none_or(|projection| projection.contains(&at));
    let fields = view.arrow.fields().iter().enumerate().filter(|(at, _)| wanted(*at));
    ids.extend(fields.filter_map(|(_, field)| field_id(field)));
    ids.sort_unstable();
    ids.dedup();
    ids
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
        rows = u64::saturating_add(rows, task.live_rows().unwrap_or_default());
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
