//! Which files of a far store are begun before their turn?
//!
//! ```text
//!   files of a partition   ▓ ▓ ▓ │ ▓ │ ░ ░ ░ ░ ░ ░ ░ ░ │ · · · ·
//!                          read  │   │ begun ahead     │ nothing asked of them yet
//!                                its turn
//! ```
//!
//! A footer that is asked for when its file's turn has come costs a round trip each time. So the next files are begun
//! meanwhile: their footers, with what comes with those, and their deletes. Not those of local files, which are there at
//! once; not where the footer is remembered; not of files that are excluded or counted. Where the files that follow may turn
//! out not to be wanted, because of a `LIMIT` or a filter that still moves, no more are begun than have been opened.
// @spec P5

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use futures::future::try_join;
use parking_lot::Mutex;

use super::deletes::Removal;
use super::footer::{Footer, first_request};
use super::opener::external;
use super::reader::{FileIo, is_local};
use super::report::{Scan, Shared};
use crate::error::Result;
use crate::scan::{Piece, Task};

/// Files begun ahead by all partitions of a scan: a round trip for all of them instead of one each.
const OF_A_SCAN: usize = 16;
/// The same by a partition at least, however many there are.
const OF_A_PARTITION: usize = 2;
/// Files opened before any is begun ahead, where the next ones may not be wanted: the first one or two tell.
const UNTIL_KNOWN: usize = 2;
/// The share of the session's memory limit that the scan's files begun ahead may hold.
const SHARE: usize = 64;

/// What is read of a file before its rows are selected.
pub(super) struct Begun {
    pub(super) footer: Arc<Footer>,
    /// What is deleted of it, where that was read while its footer was. Where no footer had to be read, none of the file's
    /// rows may be wanted, and then nobody asks.
    pub(super) removal: Option<Removal>,
    /// Holds what came with the footer.
    pub(super) io: FileIo,
}

/// Reads the footer of a file, and its deletes meanwhile.
pub(super) async fn begin(scan: &Scan, task: &Arc<Task>, shared: &Shared) -> Result<Begun> {
    shared.lock().opened(task);
    let mut io = FileIo::new(Arc::clone(&task.object), Arc::clone(shared));
    if let Some(footer) = scan.footers.known(&task.object, &mut io) {
        return Ok(Begun { footer, removal: None, io });
    }
    let footer = scan.footers.load(&task.object, &mut io);
    let (footer, removal) = try_join(footer, scan.deletes.of(task, &scan.footers, shared)).await?;
    Ok(Begun { footer, removal: Some(removal), io })
}

/// The memory of a scan for files begun ahead.
pub(super) struct Room {
    reservation: MemoryReservation,
    bytes: usize,
}

impl Room {
    pub(super) fn new(table: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        let bytes = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / SHARE,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let consumer = MemoryConsumer::new(format!("files of {table} begun ahead"));
        Room { reservation: consumer.register(pool), bytes }
    }
}

/// A file being begun; dropping it stops that.
pub(super) struct Beginning {
    reading: SpawnedTask<Result<Begun>>,
    reserved: MemoryReservation,
}

impl Beginning {
    /// What was read, or why it couldn't be.
    pub(super) async fn join(self) -> DataFusionResult<Begun> {
        let begun = self.reading.join_unwind().await;
        begun.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?.map_err(external)
    }
}

/// The files of one run of one partition, in the order in which they are read.
pub(super) struct Ahead {
    files: Vec<Arc<Piece>>,
    /// Files begun ahead at most, and their bytes.
    most: usize,
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Files whose turn has come.
    turns: usize,
    /// Files that were opened.
    opened: usize,
    /// Files that were looked at: each is begun ahead then, or not at all.
    seen: usize,
    /// By the file's place, ascending.
    begun: VecDeque<(usize, Beginning)>,
    stopped: bool,
}

impl Ahead {
    /// `files` of one of `partitions`.
    pub(super) fn new(files: Vec<Arc<Piece>>, scan: &Scan, partitions: usize) -> Self {
        let partitions = partitions.max(1);
        let most = (OF_A_SCAN / partitions).max(OF_A_PARTITION);
        Ahead { files, most, bytes: scan.room.bytes / partitions, state: Mutex::default() }
    }

    /// The place of the next file, and the file.
    pub(super) fn turn(&self) -> Option<(usize, Arc<Piece>)> {
        let mut state = self.state.lock();
        let at = state.turns;
        let file = self.files.get(at).map(Arc::clone)?;
        state.turns += 1;
        Some((at, file))
    }

    /// What was begun of the file at a place, whose turn has come.
    pub(super) fn take(&self, at: usize) -> Option<Beginning> {
        let mut state = self.state.lock();
        state.seen = state.seen.max(at + 1);
        let place = state.begun.iter().position(|(place, _)| *place == at)?;
        state.begun.remove(place).map(|(_, beginning)| beginning)
    }

    /// Begins the next files, one of which is opened now. `unsure`: they may not be wanted when their turn comes;
    /// `skipped`: nothing of a file is read.
    pub(super) fn begin_next(
        &self,
        scan: &Arc<Scan>,
        shared: &Shared,
        unsure: bool,
        skipped: impl Fn(&Arc<Task>) -> bool,
    ) {
        let mut state = self.state.lock();
        state.opened += 1;
        let most = if unsure { self.most.min(state.opened.saturating_sub(UNTIL_KNOWN)) } else { self.most };
        while !state.stopped && state.begun.len() < most {
            let at = state.seen;
            let Some(task) = self.files.get(at).map(|piece| &piece.task) else { return };
            let wanted = !is_local(&task.object) && !scan.footers.holds(&task.object) && !skipped(task);
            if wanted {
                let Some(reserved) = self.reserve(&state, scan, first_request(task.object.size)) else { return };
                let (scan, shared, task) = (Arc::clone(scan), Arc::clone(shared), Arc::clone(task));
                let reading = SpawnedTask::spawn(async move { begin(&scan, &task, &shared).await });
                state.begun.push_back((at, Beginning { reading, reserved }));
            }
            state.seen += 1;
        }
    }

    /// Memory for `bytes` more, if there is room.
    fn reserve(&self, state: &State, scan: &Scan, bytes: u64) -> Option<MemoryReservation> {
        let bytes = usize::try_from(bytes).ok()?;
        let held: usize = state.begun.iter().map(|(_, beginning)| beginning.reserved.size()).sum();
        let reserved = scan.room.reservation.new_empty();
        (held.saturating_add(bytes) <= self.bytes && reserved.try_grow(bytes).is_ok()).then_some(reserved)
    }

    /// Stops what was begun, and begins nothing more.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.begun.clear();
    }
}
