//! Which files has this run stored, and may they be deleted?
//!
//! ```text
//! writing ──▶ committing ──▶ done
//!    │             ├─ lost, or already there   files are deleted
//!    │             └─ unknown                  files stay
//!    └─ error, or cancelled     files are deleted
//! ```
//! A file is on the list before the first of its bytes is sent, so that nothing is stored that isn't known.

use futures::{StreamExt, stream};
use iceberg::spec::DataFile;
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Report;
use crate::commit::Reclaimable;
use crate::error::{Code, Error, Result};
use crate::storage::{self, Env, NewDirectories, Stores, Work};

/// Deletions sent at once.
const DELETIONS: usize = 16;

/// One run of the sink, shared by its tasks and its commit.
#[derive(Debug)]
pub(super) struct Run {
    pub id: uuid::Uuid,
    pub stores: Stores,
    env: Env,
    state: Mutex<State>,
    /// Held until the run is over: who waits for the writers hears it close.
    ended: tokio::sync::Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Every location that may hold bytes of this run.
    staged: Vec<String>,
    files: Vec<DataFile>,
    /// Each writing task holds a copy of it; `None`: no task may start any more.
    writers: Option<Sender<()>>,
    /// The directories that the run's files make.
    directories: Option<NewDirectories>,
    report: Option<Report>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Planned,
    Writing,
    Committing,
    Done,
}

/// Why the files of a run are certainly in no table.
pub(super) enum Proof {
    /// No commit was tried.
    NeverSent,
    /// The commit says so.
    Lost(#[expect(dead_code, reason = "held as the proof that it is")] Reclaimable),
}

impl Run {
    pub(super) fn new(id: uuid::Uuid, env: Env) -> Self {
        let (writers, ended) = channel(1);
        let state = State {
            stage: Stage::Planned,
            staged: Vec::new(),
            files: Vec::new(),
            writers: Some(writers),
            directories: None,
            report: None,
        };
        Run { id, stores: env.stores.clone(), env, state: Mutex::new(state), ended: tokio::sync::Mutex::new(ended) }
    }

    /// Begins to write files below `data`; a run is run once. It isn't over before what is returned is dropped.
    pub(super) fn begin(&self, data: &str) -> Result<Work> {
        let data = self.stores.resolve(data)?.location();
        let mut state = self.state.lock();
        if state.stage != Stage::Planned {
            return Err(Error::new(Code::Internal, "a sink's plan can be executed once only"));
        }
        state.stage = Stage::Writing;
        state.directories = NewDirectories::below(&data);
        Ok(self.env.unfinished.begin())
    }

    /// A writing task's token: the run isn't over before it is dropped.
    pub(super) fn writer(&self) -> Result<Sender<()>> {
        self.state.lock().writers.clone().ok_or_else(over)
    }

    /// Puts a location on the list, before anything is stored there.
    pub(super) fn stage(&self, location: &str) -> Result<()> {
        let mut state = self.state.lock();
        if state.writers.is_none() {
            return Err(over());
        }
        state.staged.push(location.to_owned());
        Ok(())
    }

    pub(super) fn add(&self, file: DataFile) {
        self.state.lock().files.push(file);
    }

    /// The files of a run that has written everything. From here on a run that is dropped keeps its files.
    pub(super) fn commit(&self) -> Vec<DataFile> {
        let mut state = self.state.lock();
        state.stage = Stage::Committing;
        state.writers = None;
        let mut files = std::mem::take(&mut state.files);
        // Tasks finish in any order; what is committed does not depend on it.
        files.sort_by(|a, b| a.file_path().cmp(b.file_path()));
        files
    }

    pub(super) fn done(&self, report: Report) {
        let mut state = self.state.lock();
        state.stage = Stage::Done;
        state.report = Some(report);
    }

    pub(super) fn report(&self) -> Option<Report> {
        self.state.lock().report.clone()
    }

    /// Everything that may be stored.
    pub(super) fn staged(&self) -> Vec<String> {
        self.state.lock().staged.clone()
    }

    /// Waits until no task writes any more, then deletes every file of the run and the directories made for them. Returns those that could not be deleted.
    // @spec W9
    pub(super) async fn discard(&self, _proof: Proof) -> Vec<String> {
        let (staged, directories) = {
            let mut state = self.state.lock();
            state.stage = Stage::Done;
            state.writers = None;
            (std::mem::take(&mut state.staged), state.directories.take())
        };
        while self.ended.lock().await.recv().await.is_some() {}
        let deletions = stream::iter(staged.clone()).map(|location| async move {
            match self.delete(&location).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(location, %error, "a file of a run that was given up could not be deleted");
                    Some(location)
                }
            }
        });
        let left = deletions.buffer_unordered(DELETIONS).filter_map(std::future::ready).collect().await;
        if let Some(directories) = directories {
            directories.remove_emptied(staged).await;
        }
        left
    }

    /// Whether a run that is dropped now leaves files that are certainly in no table.
    pub(super) fn is_writing(&self) -> bool {
        self.state.lock().stage == Stage::Writing
    }

    async fn delete(&self, location: &str) -> Result<()> {
        let located = self.stores.resolve(location)?;
        match located.store.delete(&located.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(storage::error(location, error)),
        }
    }
}

fn over() -> Error {
    Error::new(Code::Interrupted, "the run of the sink was given up")
}
