//! Bytes on their way to the store.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use object_store::buffered::BufWriter;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use crate::error::Result;
use crate::storage::{self, Located};

/// Size of a part. Stores want 5 MiB at least and allow 10,000 parts: files of 80 GB.
const PART_BYTES: usize = 8 << 20;
/// Parts in flight, each held in memory until it is stored.
const PARTS_IN_FLIGHT: usize = 2;
/// Size of a segment: large enough to be few, small enough that growing copies nothing.
const SEGMENT_BYTES: usize = 1 << 20;

/// Where the Parquet writer puts bytes, and where they are taken from: a list of buffers that never grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments(Arc<Mutex<Vec<Vec<u8>>>>);

impl Segments {
    pub(super) fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.0.lock()).into_iter().map(Bytes::from).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().iter().map(Vec::len).sum()
    }
}

impl Write for Segments {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut segments = self.0.lock();
        match segments.last_mut() {
            Some(last) if last.capacity() - last.len() >= buf.len() => last.extend_from_slice(buf),
            _ => {
                let mut next = Vec::with_capacity(SEGMENT_BYTES.max(buf.len()));
                next.extend_from_slice(buf);
                segments.push(next);
            }
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An upload: one put for a small object, parts for a large one. Dropped before its end it leaves nothing behind, as far
/// as the store lets us.
#[derive(Debug)]
pub(super) struct Upload {
    /// `None`: finished or given up.
    writer: Option<BufWriter>,
    bytes: u64,
    /// The run's token: it isn't over before what was stored of the object is gone.
    writing: Sender<()>,
}

impl Upload {
    pub(super) fn new(located: Located, writing: Sender<()>) -> Self {
        let writer =
            BufWriter::with_capacity(located.store, located.path, PART_BYTES).with_max_concurrency(PARTS_IN_FLIGHT);
        Upload { writer: Some(writer), bytes: 0, writing }
    }

    pub(super) async fn put(&mut self, bytes: Bytes, location: &str) -> Result<()> {
        self.bytes += bytes.len() as u64;
        match &mut self.writer {
            Some(writer) => writer.put(bytes).await.map_err(|e| storage::error(location, e)),
            None => Ok(()),
        }
    }

    /// Completes the object. What the store does about an upload that it can't complete is up to it.
    pub(super) async fn finish(&mut self, location: &str) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer.shutdown().await.map_err(|e| storage::error(location, io_cause(e))),
            None => Ok(()),
        }
    }

    pub(super) async fn abort(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            // Nothing to be done where the store refuses: parts of an upload are in no listing.
            let _ = writer.abort().await;
        }
    }

    /// Bytes put so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that waits to be stored, at most.
    pub(super) fn held(&self) -> usize {
        let most = PART_BYTES * (1 + PARTS_IN_FLIGHT);
        usize::try_from(self.bytes).unwrap_or(most).min(most)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(mut writer), Ok(runtime)) = (self.writer.take(), Handle::try_current()) {
            let writing = self.writing.clone();
            runtime.spawn(async move {
                // As far as the store lets us.
                let _ = writer.abort().await;
                drop(writing);
            });
        }
    }
}

/// The store's error that stands in an IO error.
fn io_cause(error: io::Error) -> object_store::Error {
    match error.downcast::<object_store::Error>() {
        Ok(error) => error,
        Err(error) => object_store::Error::Generic { store: "upload", source: Box::new(error) },
    }
}
