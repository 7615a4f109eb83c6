//! Times of the same work by several engines, taken in turns, so that what else the machine does meets all of them.

use std::time::{Duration, Instant};

/// Milliseconds of each run.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<f64>);

impl Times {
    /// Adds a run.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    /// The middle one: half of the runs were faster.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Runs `work` once and says how long it took.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let value = work.await;
    (value, start.elapsed())
}

/// The most memory that this process has had resident, in MiB.
pub fn peak_resident_mib() -> u64 {
    status_kib("VmHWM:") / 1024
}

/// The memory that this process has resident now, in KiB.
pub fn resident_kib() -> u64 {
    status_kib("VmRSS:")
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or_default()
}

/// How often an engine repeats a query in its turn, unless that takes longer than [`ENOUGH`].
const REPEATED: usize = 9;
/// See [`REPEATED`].
const ENOUGH: Duration = Duration::from_millis(50);

/// Runs a query once to fill the caches, where another engine worked in between, and then some times more: the middle of
/// these.
pub async fn warm<T>(query: impl AsyncFn() -> T) -> (T, Duration) {
    repeated(async || timed(query()).await).await
}

/// The same of a query that says itself how long it took.
pub async fn repeated<T>(mut query: impl AsyncFnMut() -> (T, Duration)) -> (T, Duration) {
    query().await;
    let (mut answer, first) = query().await;
    let (mut times, mut spent) = (vec![first], first);
    while times.len() < REPEATED && spent < ENOUGH {
        let time;
        (answer, time) = query().await;
        times.push(time);
        spent += time;
    }
    times.sort();
    (answer, times[times.len() / 2])
}
