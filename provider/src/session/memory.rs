//! How much memory may a session track?

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};

use super::Options;

/// Named in the error when the limit is reached.
const TOP_CONSUMERS: usize = 3;
/// The share of the limit that manifests may take, and what they may take at least.
const MANIFEST_SHARE: usize = 32;
const LEAST_FOR_MANIFESTS: usize = 64 << 20;
/// The limit where neither the caller nor the machine names one.
const FALLBACK: usize = 4 << 30;

/// A pool that splits the limit evenly among operators that can spill: a sort on each of several partitions gets its
/// share, whichever comes first.
pub(super) fn pool(limit: Option<usize>) -> Arc<dyn MemoryPool> {
    let limit = effective(limit);
    let top = NonZeroUsize::new(TOP_CONSUMERS).unwrap_or(NonZeroUsize::MIN);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), top))
}

/// Bytes of manifests that a session keeps.
pub(super) fn manifest_cache(options: &Options) -> usize {
    let share = effective(options.memory_limit) / MANIFEST_SHARE;
    options.manifest_cache.unwrap_or(share.max(LEAST_FOR_MANIFESTS))
}

fn effective(limit: Option<usize>) -> usize {
    limit.or_else(half_of_memory).unwrap_or(FALLBACK)
}

/// Half of the machine's memory, where the operating system tells.
fn half_of_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_take_a_share_of_the_limit_unless_told_otherwise() {
        let with = |memory_limit, manifest_cache| Options { memory_limit, manifest_cache, ..Options::default() };
        assert_eq!(manifest_cache(&with(Some(64 << 30), None)), 2 << 30);
        assert_eq!(manifest_cache(&with(Some(256 << 20), None)), 64 << 20);
        assert_eq!(manifest_cache(&with(Some(64 << 30), Some(7))), 7);
    }
}
