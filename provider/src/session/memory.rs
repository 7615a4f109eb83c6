//! How much memory may a session track?

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};

/// Named in the error when the limit is reached.
const TOP_CONSUMERS: usize = 3;
/// The limit where neither the caller nor the machine names one.
const FALLBACK: usize = 4 << 30;

/// A pool that splits the limit evenly among operators that can spill: a sort on each of several partitions gets its
/// share, whichever comes first.
pub(super) fn pool(limit: Option<usize>) -> Arc<dyn MemoryPool> {
    let limit = limit.or_else(half_of_memory).unwrap_or(FALLBACK);
    let top = NonZeroUsize::new(TOP_CONSUMERS).unwrap_or(NonZeroUsize::MIN);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), top))
}

/// Half of the machine's memory, where the operating system tells.
fn half_of_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024) / 2)
}
