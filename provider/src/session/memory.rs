//! How much memory may a session track, and how large are the steps it is used in?

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
pub(super) fn pool(limit: usize) -> Arc<dyn MemoryPool> {
    let top = NonZeroUsize::new(TOP_CONSUMERS).unwrap_or(NonZeroUsize::MIN);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), top))
}

/// Bytes of manifests that a session keeps.
pub(super) fn manifest_cache(options: &Options) -> usize {
    let share = limit(options.memory_limit) / MANIFEST_SHARE;
    options.manifest_cache.unwrap_or(share.max(LEAST_FOR_MANIFESTS))
}

/// The limit in bytes: half of the machine's memory where the caller names none.
pub(super) fn limit(named: Option<usize>) -> usize {
    named.or_else(half_of_memory).unwrap_or(FALLBACK)
}

/// Rows a batch. The engine's sorts and exchanges hold a batch of each run or partition at least, and rows of a few
/// kilobytes make 8,192 of them larger than a small limit's share; fewer than 512 would be written to disk with text
/// that they share, many times over.
pub(super) fn batch_rows(limit: usize) -> usize {
    (limit / (256 << 10)).clamp(512, 8_192)
}

/// Bytes that each of the engine's sorts keeps for its merge, out of reach of the others: the engine's 10 MiB, and less
/// under a small limit.
pub(super) fn merge_reserve(limit: usize) -> usize {
    (limit / 64).clamp(1 << 20, 10 << 20)
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

    #[test]
    fn small_limits_take_small_steps() {
        let steps = |mib: usize| (batch_rows(mib << 20), merge_reserve(mib << 20) >> 20);
        assert_eq!([1, 64, 256, 2_048, 16_384].map(steps), [(512, 1), (512, 1), (1_024, 4), (8_192, 10), (8_192, 10)]);
    }
}
