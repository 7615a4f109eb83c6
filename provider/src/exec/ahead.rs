//! Which files of a far store are begun before their turn?
//!
//! ```text
//!   files of a partition   ▓ ▓ ▓ │ ▓ │ ░ ░ ░ ░ ░ ░ ░ ░ │ · · · ·
//!                          read  │   │ begun ahead     │ nothing asked of them yet
//!                                its turn
//! ```
//!
//! What is asked for when a file's turn has come costs a round trip each time. So the next files are begun meanwhile: their
//! footers, with what comes with those, their deletes, and the bytes that decoding begins with. Not local files, which are
//! there at once; not files that are excluded or counted. Where the files that follow may turn out not to be wanted, because
//! of a `LIMIT` or a filter that still moves, no more are begun than have been opened.
//!
//! Where footers are remembered, and rule out most files, those take no place: the next ones are begun that have something to
//! read, however far behind. What a file holds until its turn takes room ([`super::room`]): a file for whose footer there is
//! none is not begun, and one for whose first bytes there is none waits.
// @spec P5

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use parking_lot::Mutex;

use super::deletes::Removal;
use super::footer::{Footer, first_request};
use super::opener::external;
use super::reader::{FileIo, is_local};
use super::report::Scan;
use super::room::{Hold, Share};
use crate::error::Result;
use crate::scan::{Piece, Task};

/// Files begun ahead by all partitions of a scan: a round trip for all of them instead of one each.
const OF_A_SCAN: usize = 16;
/// The same by a partition at least, however many there are.
const OF_A_PARTITION: usize = 2;
/// Files opened before any is begun ahead, where the next ones may not be wanted: the first one or two tell.
const UNTIL_KNOWN: usize = 2;

/// What is read of a file before its rows are selected.
pub(super) struct Begun {
    pub(super) footer: Arc<Footer>,
    /// What is deleted of it, where that was read. Where no footer had to be read, none of the file's rows may be wanted,
    /// and then nobody asks.
    pub(super) removal: Option<Removal>,
    /// Holds what came with the footer, and what else was read ahead.
    pub(super) io: FileIo,
}

/// A file being begun; dropping it stops that.
pub(super) struct Beginning {
    reading: SpawnedTask<Result<Begun>>,
    hold: Arc<Hold>,
}

impl Beginning {
    /// What was read, or why it couldn't be. The file's turn has come.
    pub(super) async fn join(self) -> DataFusionResult<Begun> {
        self.hold.turn();
        let begun = self.reading.join_unwind().await;
        begun.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?.map_err(external)
    }
}

/// The files of one run of one partition, in the order in which they are read.
pub(super) struct Ahead {
    files: Vec<Arc<Piece>>,
    /// Files begun ahead at most.
    most: usize,
    /// For what they hold.
    room: Share,
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
        Ahead { files, most, room: scan.room.share(partitions), state: Mutex::default() }
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

    /// One more file is opened.
    pub(super) fn opened(&self) {
        self.state.lock().opened += 1;
    }

    /// Begins the next files with `begin`, by their places. `unsure`: they may not be wanted when their turn comes;
    /// `skipped`: nothing of a file is read.
    pub(super) fn begin_next<B>(
        &self,
        scan: &Scan,
        unsure: bool,
        skipped: impl Fn(&Arc<Task>) -> bool,
        begin: impl Fn(usize, Arc<Piece>, Arc<Hold>) -> B,
    ) where
        B: Future<Output = Result<Begun>> + Send + 'static,
    {
        let mut state = self.state.lock();
        let most = if unsure { self.most.min(state.opened.saturating_sub(UNTIL_KNOWN)) } else { self.most };
        while !state.stopped && state.begun.len() < most {
            let at = state.seen;
            let Some(piece) = self.files.get(at) else { return };
            let object = &piece.task.object;
            if !is_local(object) && !skipped(&piece.task) {
                let first = if scan.footers.holds(object) { 0 } else { first_request(object.size) };
                let Some(hold) = self.room.hold(first) else { return };
                let reading = SpawnedTask::spawn(begin(at, Arc::clone(piece), Arc::clone(&hold)));
                state.begun.push_back((at, Beginning { reading, hold }));
            }
            state.seen += 1;
        }
    }

    /// Makes room for another file: it turned out that nothing is read of the one at a place.
    pub(super) fn let_go(&self, at: usize) {
        self.state.lock().begun.retain(|(place, _)| *place != at);
    }

    /// Stops what was begun, and begins nothing more.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.begun.clear();
    }
}
