//! Who still writes, or still removes what it wrote?
//!
//! ```text
//! run ── begin ──▶ writing ─┬─ committed ──────────────────▶ over
//!                           └─ dropped ─▶ files deleted ───▶ over
//! ```
//!
//! A run that is dropped has files to delete, and a destructor can't wait for a store: a task does it. Who is about to
//! end the process waits until none is left.

use tokio::sync::watch;

/// Counts the runs that are not over. Clones share the count.
#[derive(Clone, Debug)]
pub struct Unfinished(watch::Sender<usize>);

/// A run that is not over until this is dropped.
#[derive(Debug)]
pub struct Work(watch::Sender<usize>);

impl Unfinished {
    /// Nothing runs.
    pub fn new() -> Self {
        Unfinished(watch::Sender::new(0))
    }

    /// Begins a run.
    #[must_use]
    pub fn begin(&self) -> Work {
        self.0.send_modify(|runs| *runs += 1);
        Work(self.0.clone())
    }

    /// Waits for a moment in which no run is left.
    pub async fn over(&self) {
        // Fails only where no sender is left, and this is one.
        let _ = self.0.subscribe().wait_for(|runs| *runs == 0).await;
    }
}

impl Default for Unfinished {
    fn default() -> Self {
        Unfinished::new()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.send_modify(|runs| *runs = runs.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn over_when_the_last_one_is() {
        let unfinished = Unfinished::new();
        unfinished.over().await;
        let (one, two) = (unfinished.begin(), unfinished.clone().begin());
        drop(one);
        assert!(futures::poll!(std::pin::pin!(unfinished.over())).is_pending());
        drop(two);
        unfinished.over().await;
    }
}
