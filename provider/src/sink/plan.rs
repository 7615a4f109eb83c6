//! Puts the stages together.

use std::sync::Arc;

use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{Distribution as Needs, ExecutionPlan, ExecutionPlanProperties};

use super::commit_exec::{Commit, CommitExec};
use super::conform::{Conform, ConformExec};
use super::distribute::DistributeExec;
use super::layout::Layout;
use super::partition::PartitionValuesExec;
use super::properties::Distribution;
use super::run::Run;
use super::sort::ExternalSortExec;
use super::write::WriteFilesExec;
use super::writer::Settings;
use super::{Progress, Target};
use crate::error::Result;

/// How many tasks write, and what each of them is given.
struct Shares {
    tasks: usize,
    by_partition: bool,
}

/// The plan over `input`, with what it needs from outside given one by one.
pub(super) fn build(
    input: Arc<dyn ExecutionPlan>,
    target: Target,
    commit: Arc<dyn Commit>,
    run: Run,
    target_partitions: usize,
    progress: Arc<Progress>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let layout = Arc::new(Layout::of(target.ident.to_string(), &target.metadata)?);
    let settings = Arc::new(Settings::of(&layout)?);
    let conform = Arc::new(Conform::try_new(&input.schema(), &layout.columns, layout.defaults()?)?);
    let shares = shares(&layout, input.as_ref(), target_partitions);
    let run = Arc::new(run);

    let mut plan: Arc<dyn ExecutionPlan> =
        Arc::new(ConformExec::new(input, conform, layout.table.clone(), Arc::clone(&progress)));
    if !layout.hidden.is_empty() {
        plan = Arc::new(PartitionValuesExec::new(plan, Arc::clone(&layout)));
    }
    let needs = match (shares.tasks, shares.by_partition) {
        (1, _) => Needs::SinglePartition,
        (_, true) => Needs::HashPartitioned(layout.partition_exprs()),
        (_, false) => Needs::UnspecifiedDistribution,
    };
    if shares.tasks == 1 {
        if plan.output_partitioning().partition_count() > 1 {
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
    } else if shares.by_partition {
        plan = Arc::new(DistributeExec::new(plan, Arc::clone(&layout), shares.tasks));
    }
    if let Some(ordering) = layout.ordering() {
        plan = Arc::new(ExternalSortExec::new(plan, Arc::clone(&layout), ordering, needs.clone()));
    }
    plan = Arc::new(WriteFilesExec::new(plan, Arc::clone(&layout), settings, needs, Arc::clone(&run), progress));
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    Ok(Arc::new(CommitExec::new(plan, target, layout, commit, run)))
}

/// By default the rows of a partition go to one task, so that a day is one file however its rows arrive; a table without
/// partitions has one file unless the input is known to be more than a file's worth.
// @spec W2
fn shares(layout: &Layout, input: &dyn ExecutionPlan, target_partitions: usize) -> Shares {
    let given = input.output_partitioning().partition_count();
    let by_partition = !layout.partition.is_empty();
    match layout.properties.distribution {
        Some(Distribution::None) => Shares { tasks: given, by_partition: false },
        _ if by_partition => Shares { tasks: target_partitions.max(1), by_partition: true },
        _ => {
            let bytes = input.partition_statistics(None).ok().and_then(|s| s.total_byte_size.get_value().copied());
            let large = bytes.is_some_and(|bytes| bytes as u64 > 2 * layout.properties.target_file_bytes);
            Shares { tasks: if large { given } else { 1 }, by_partition: false }
        }
    }
}
