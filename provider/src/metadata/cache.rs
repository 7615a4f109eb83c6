//! What was read before, within a limit of bytes?

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::error::Result;

/// Least recently used values are dropped first. A value that is being loaded is loaded once: who asks meanwhile waits
/// for it, and takes over if the loader gives up.
pub(super) struct Cache<K, V> {
    limit: usize,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// Last use → key, oldest first.
    uses: BTreeMap<u64, K>,
    clock: u64,
    weight: usize,
}

struct Slot<V> {
    cell: Arc<OnceCell<V>>,
    used: u64,
    weight: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache that holds values of at most `limit` bytes together.
    pub(super) fn new(limit: usize) -> Self {
        let state = State { slots: HashMap::new(), uses: BTreeMap::new(), clock: 0, weight: 0 };
        Cache { limit, state: Mutex::new(state) }
    }

    /// The value of `key`; `load` answers with the value and its weight in bytes.
    pub(super) async fn get_or_load(&self, key: &K, load: impl Future<Output = Result<(V, usize)>>) -> Result<V> {
        let cell = self.state.lock().touch(key);
        let mut weight = None;
        let value = cell
            .get_or_try_init(|| async {
                let (value, bytes) = load.await?;
                weight = Some(bytes);
                Ok(value)
            })
            .await
            .cloned();
        match weight {
            Some(weight) => self.state.lock().settle(key, &cell, weight, self.limit),
            None if value.is_err() => self.state.lock().forget(key, &cell),
            None => {}
        }
        value
    }
}

impl<K: Clone + Eq + Hash, V> State<K, V> {
    fn touch(&mut self, key: &K) -> Arc<OnceCell<V>> {
        self.clock += 1;
        let now = self.clock;
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot { cell: Arc::default(), used: now, weight: 0 });
        self.uses.remove(&slot.used);
        slot.used = now;
        self.uses.insert(now, key.clone());
        Arc::clone(&slot.cell)
    }

    /// Records the weight of what was loaded, and makes room.
    fn settle(&mut self, key: &K, cell: &Arc<OnceCell<V>>, weight: usize, limit: usize) {
        let Some(slot) = self.slots.get_mut(key).filter(|slot| Arc::ptr_eq(&slot.cell, cell)) else { return };
        self.weight = self.weight - slot.weight + weight;
        slot.weight = weight;
        while self.weight > limit
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            if let Some(dropped) = self.slots.remove(&oldest) {
                self.weight -= dropped.weight;
            }
        }
    }

    /// Drops a slot whose load failed, unless somebody else is loading it.
    fn forget(&mut self, key: &K, cell: &Arc<OnceCell<V>>) {
        // Two owners: the slot and the caller.
        let ours =
            |slot: &Slot<V>| Arc::ptr_eq(&slot.cell, cell) && Arc::strong_count(cell) <= 2 && !cell.initialized();
        if self.slots.get(key).is_some_and(ours)
            && let Some(slot) = self.slots.remove(key)
        {
            self.uses.remove(&slot.used);
        }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Cache")
            .field("limit", &self.limit)
            .field("entries", &state.slots.len())
            .field("bytes", &state.weight)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::{Code, Error};

    async fn get(cache: &Cache<u32, u32>, key: u32, weight: usize, loads: &AtomicUsize) -> Result<u32> {
        cache
            .get_or_load(&key, async {
                loads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok((key, weight))
            })
            .await
    }

    #[tokio::test]
    async fn a_value_is_loaded_once_however_many_ask() {
        let (cache, loads) = (Cache::new(100), AtomicUsize::new(0));
        let all = futures::future::join_all((0..10).map(|_| get(&cache, 1, 1, &loads))).await;
        assert!(all.into_iter().all(|value| matches!(value, Ok(1))));
        assert_eq!(loads.into_inner(), 1);
    }

    #[tokio::test]
    async fn the_least_recently_used_goes_first() {
        let (cache, loads) = (Cache::new(2), AtomicUsize::new(0));
        for key in [1, 2, 1, 3] {
            get(&cache, key, 1, &loads).await.unwrap();
        }
        assert_eq!(loads.load(Ordering::Relaxed), 3);
        get(&cache, 1, 1, &loads).await.unwrap();
        assert_eq!(loads.load(Ordering::Relaxed), 3);
        get(&cache, 2, 1, &loads).await.unwrap();
        assert_eq!(loads.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn what_exceeds_the_limit_alone_is_not_kept() {
        let (cache, loads) = (Cache::new(2), AtomicUsize::new(0));
        for _ in 0..2 {
            get(&cache, 1, 3, &loads).await.unwrap();
        }
        assert_eq!(loads.into_inner(), 2);
        assert_eq!(cache.state.lock().weight, 0);
    }

    #[tokio::test]
    async fn a_failed_load_leaves_nothing_behind() {
        let (cache, loads) = (Cache::new(2), AtomicUsize::new(0));
        let failed = cache.get_or_load(&1, async { Err(Error::new(Code::StorageFailed, "no")) }).await;
        assert!(failed.is_err());
        assert!(cache.state.lock().slots.is_empty() && cache.state.lock().uses.is_empty());
        assert_eq!(get(&cache, 1, 1, &loads).await.unwrap(), 1);
    }
}
