//! Where do time and randomness come from?
//!
//! From an [`Env`], so that a test decides what time it is and which names files get.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use uuid::{Builder, Uuid};

use super::{Stores, Unfinished};

/// The environment everything that touches a store is given.
#[derive(Clone, Debug)]
pub struct Env {
    /// The stores.
    pub stores: Stores,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Fresh names and numbers.
    pub ids: Arc<dyn Ids>,
    /// The runs that write or clean up.
    pub unfinished: Unfinished,
}

impl Env {
    /// The environment of a real process: the system's clock, random names.
    pub fn new(stores: Stores) -> Self {
        Env { stores, clock: Arc::new(SystemClock), ids: Arc::new(RandomIds), unfinished: Unfinished::new() }
    }

    /// An environment in which everything repeats: a clock that stands still at 2026-01-01, names drawn from `seed`.
    pub fn deterministic(stores: Stores, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(1_767_225_600_000));
        Env { stores, clock, ids: Arc::new(SeededIds::new(seed)), unfinished: Unfinished::new() }
    }
}

/// Time: the only place it comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> i64;
}

/// Randomness: the only place it comes from.
pub trait Ids: fmt::Debug + Send + Sync {
    /// A fresh UUID for a file name or a table.
    fn uuid(&self) -> Uuid;
    /// A fresh positive snapshot id.
    fn snapshot_id(&self) -> i64;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where time enters")]
    fn now_ms(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `ms` milliseconds since the epoch.
    pub fn new(ms: i64) -> Self {
        ManualClock(AtomicI64::new(ms))
    }

    /// Sets the time to `ms` milliseconds since the epoch.
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    /// Moves the time by `ms` milliseconds.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ids from the operating system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "the one place where randomness enters")]
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn snapshot_id(&self) -> i64 {
        snapshot_id_from(self.uuid())
    }
}

/// Ids that repeat for the same seed.
pub struct SeededIds(Mutex<StdRng>);

impl SeededIds {
    /// The sequence of ids of `seed`.
    pub fn new(seed: u64) -> Self {
        SeededIds(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl fmt::Debug for SeededIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededIds")
    }
}

impl Ids for SeededIds {
    fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.0.lock().fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid()
    }

    fn snapshot_id(&self) -> i64 {
        snapshot_id_from(self.uuid())
    }
}

/// Both halves of a UUID folded into 63 bits: its version and variant bits alone would be constant in every id.
fn snapshot_id_from(uuid: Uuid) -> i64 {
    let (high, low) = uuid.as_u64_pair();
    let folded = (high ^ low) & i64::MAX as u64;
    i64::try_from(folded).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_ids_repeat_and_differ_among_themselves() {
        let draw = |seed| {
            let ids = SeededIds::new(seed);
            (ids.uuid(), ids.uuid(), ids.snapshot_id())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(7).0, draw(7).1);
        assert_eq!(draw(7).0.get_version_num(), 4);
    }

    #[test]
    fn snapshot_ids_are_positive() {
        let ids = SeededIds::new(1);
        assert!((0..10_000).all(|_| ids.snapshot_id() > 0));
        assert_eq!(snapshot_id_from(Uuid::nil()), 1, "zero is not positive");
        assert_eq!(snapshot_id_from(Uuid::from_u64_pair(u64::MAX, 0)), i64::MAX);
    }

    #[test]
    fn a_manual_clock_stands_still() {
        let clock = ManualClock::new(5);
        assert_eq!((clock.now_ms(), clock.now_ms()), (5, 5));
        clock.advance(10);
        assert_eq!(clock.now_ms(), 15);
        clock.set(3);
        assert_eq!(clock.now_ms(), 3);
    }
}
