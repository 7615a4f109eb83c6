//! How much memory may files take before their turn?
//!
//! ```text
//!   the session's limit ─▶ a 64th of it: the scan's room ─▶ each partition's share ─▶ what each of its files holds
//! ```
//!
//! All of it is reserved in the session's pool, which may refuse. A file that finds its partition's share taken waits, behind
//! those that asked before it, until another file lets go of what it holds.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The part of the session's memory limit that the files of a scan may hold before their turn.
const PART: usize = 64;
/// What they may hold where memory is not limited, in bytes.
const UNLIMITED: usize = 256 << 20;
/// Bytes of a permit.
const UNIT: u64 = 1 << 10;

/// The memory of a scan for files before their turn.
pub(super) struct Room {
    reservation: MemoryReservation,
    bytes: usize,
}

impl Room {
    pub(super) fn new(table: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        let bytes = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / PART,
            MemoryLimit::Infinite | MemoryLimit::Unknown => UNLIMITED,
        };
        let consumer = MemoryConsumer::new(format!("files of {table} begun ahead"));
        Room { reservation: consumer.register(pool), bytes }
    }

    /// What one of `partitions` has of it.
    pub(super) fn share(&self, partitions: usize) -> Share {
        let all = (self.bytes / partitions.max(1) / UNIT as usize).min(Semaphore::MAX_PERMITS);
        Share { reservation: self.reservation.new_empty(), free: Arc::new(Semaphore::new(all)), all }
    }
}

/// A partition's part of the room.
pub(super) struct Share {
    reservation: MemoryReservation,
    /// Of `all` permits.
    free: Arc<Semaphore>,
    all: usize,
}

impl Share {
    /// Room for a file that takes `bytes` at once, if there is.
    pub(super) fn hold(&self, bytes: u64) -> Option<Arc<Hold>> {
        let reserved = self.reservation.new_empty();
        let (free, all) = (Arc::clone(&self.free), self.all);
        let hold = Hold { reserved, free, all, taken: Mutex::default(), turn: Notify::new() };
        let permit =
            hold.permits(bytes).and_then(|permits| Arc::clone(&hold.free).try_acquire_many_owned(permits).ok())?;
        hold.keep(permit, bytes).then(|| Arc::new(hold))
    }
}

/// What a file has taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    reserved: MemoryReservation,
    free: Arc<Semaphore>,
    all: usize,
    taken: Mutex<Vec<OwnedSemaphorePermit>>,
    turn: Notify,
}

impl Hold {
    /// Takes room for `bytes` more, or waits for it until the file's turn has come; false where there is none.
    pub(super) async fn take(&self, bytes: u64) -> bool {
        let Some(permits) = self.permits(bytes) else { return false };
        tokio::select! {
            // A file is opened while the one before it is read: what there is room for is worth asking for still.
            biased;
            permit = Arc::clone(&self.free).acquire_many_owned(permits) => {
                permit.is_ok_and(|permit| self.keep(permit, bytes))
            }
            () = self.turn.notified() => false,
        }
    }

    /// The file's turn has come: it waits no more.
    pub(super) fn turn(&self) {
        self.turn.notify_one();
    }

    /// `None` for more than there will ever be.
    fn permits(&self, bytes: u64) -> Option<u32> {
        let permits = bytes.div_ceil(UNIT);
        u32::try_from(permits).ok().filter(|_| permits <= self.all as u64)
    }

    fn keep(&self, permit: OwnedSemaphorePermit, bytes: u64) -> bool {
        let reserved = usize::try_from(bytes).is_ok_and(|bytes| self.reserved.try_grow(bytes).is_ok());
        if reserved {
            self.taken.lock().push(permit);
        }
        reserved
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    /// Two partitions' shares, of 512 KiB each.
    fn pool() -> (Arc<dyn MemoryPool>, Share) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        let share = Room::new("t", &pool).share(2);
        (pool, share)
    }

    fn waits(hold: &Arc<Hold>, kib: u64) -> BoxFuture<'static, bool> {
        let hold = Arc::clone(hold);
        async move { hold.take(kib << 10).await }.boxed()
    }

    #[tokio::test]
    async fn files_wait_in_turn_for_what_others_let_go() {
        let (pool, share) = pool();
        let hold = |kib: u64| share.hold(kib << 10);
        let (first, second, third) = (hold(300).unwrap(), hold(0).unwrap(), hold(100).unwrap());
        assert!(hold(200).is_none(), "112 KiB are left");
        let (mut waiting, mut behind) = (waits(&second, 400), waits(&third, 50));
        assert_eq!((waiting.as_mut().now_or_never(), behind.as_mut().now_or_never()), (None, None));
        assert_eq!(pool.reserved(), 400 << 10);
        drop(first);
        assert_eq!(waiting.as_mut().now_or_never(), Some(true));
        assert_eq!(behind.as_mut().now_or_never(), None, "12 KiB are left");
        drop((waiting, second));
        assert_eq!(behind.as_mut().now_or_never(), Some(true));
        drop((behind, third));
        assert_eq!(pool.reserved(), 0);
        assert!(hold(512).is_some());
    }

    #[tokio::test]
    async fn whose_turn_has_come_waits_no_more() {
        let (pool, share) = pool();
        let (others, own) = (share.hold(500 << 10).unwrap(), share.hold(0).unwrap());
        let mut waiting = waits(&own, 100);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        own.turn();
        assert!(!waiting.await);
        drop(others);
        assert!(waits(&own, 100).await, "what is free is taken in its turn, too");
        assert!(!waits(&own, 600).await, "more than there will ever be is not waited for");
        assert_eq!(pool.reserved(), 100 << 10);
    }

    #[tokio::test]
    async fn a_pool_that_is_used_up_refuses() {
        let (pool, share) = pool();
        let elsewhere = MemoryConsumer::new("elsewhere").register(&pool);
        elsewhere.grow((64 << 20) - (10 << 10));
        let own = share.hold(0).unwrap();
        assert!(!own.take(11 << 10).await);
        assert!(share.hold(11 << 10).is_none());
        assert!(own.take(10 << 10).await);
        elsewhere.free();
        assert!(share.hold(502 << 10).is_some(), "what was refused was given back");
    }
}
