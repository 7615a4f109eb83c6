//! How do byte ranges of a file become few, counted requests?
//!
//! ```text
//!   asked for   ▓▓  ▓▓▓     ▓        ▓▓▓▓
//!   requests    ───────     ─        ────     neighbours share a request
//!   tail                              ▓▓▓▓▓▓  was read with the footer: costs nothing
//!   kept        ▓▓▓▓▓▓▓                       was read before the file's turn: costs nothing
//! ```
//!
//! A request is one call of the store. A local file is read with one call for all ranges; a remote object is asked for each
//! range by itself, some at a time.

use std::error::Error as StdError;
use std::ops::Range;
use std::sync::Arc;

use arrow::error::ArrowError;
use bytes::Bytes;
use datafusion::error::DataFusionError;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{StreamExt, TryStreamExt, iter};
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::report::Shared;
use super::room::Hold;
use crate::error::{Code, Error, Result};
use crate::metadata::WHERE_MOVED;
use crate::scan::Object;
use crate::storage::{self, Located};

/// Ranges of a remote object that are closer than this share a request: a request costs about as much as a megabyte.
const REMOTE_GAP: u64 = 1 << 20;
/// The same for a local file, where another read costs about as much as copying a few pages.
const LOCAL_GAP: u64 = 16 << 10;
/// Requests to a remote object at the same time.
const AT_ONCE: usize = 10;

/// The end of a file (or all of it), kept from the request that read the footer; another part, kept from another request.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Tail {
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let from = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        (from <= to && to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

/// Whether a file is in the file system of this machine, where a request costs next to nothing.
pub(super) fn is_local(object: &Object) -> bool {
    object.located.url.as_str().starts_with("file:")
}

/// What was read of a file before its turn, and nothing has used yet.
#[derive(Debug, Default)]
struct Kept {
    parts: Vec<Tail>,
    hold: Option<Arc<Hold>>,
}

/// One file: every byte of it that is read, is read here and counted.
#[derive(Clone, Debug)]
pub(super) struct FileIo {
    object: Arc<Object>,
    local: bool,
    /// Bytes of the file: as the manifest has it, until the file says otherwise.
    size: u64,
    shared: Shared,
    tail: Option<Tail>,
    /// Shared by all clones.
    kept: Arc<Mutex<Kept>>,
    /// The file's turn has not come.
    ahead: bool,
}

impl FileIo {
    pub(super) fn new(object: Arc<Object>, shared: Shared) -> Self {
        let local = is_local(&object);
        FileIo { size: object.size, local, object, shared, tail: None, kept: Arc::default(), ahead: false }
    }

    /// Keeps what is fetched from now on, and the memory for it, until it is used in the file's turn.
    pub(super) fn keep(&mut self, hold: &Arc<Hold>) {
        self.ahead = true;
        self.kept.lock().hold = Some(Arc::clone(hold));
    }

    /// The file's turn has come: keeps no more.
    pub(super) fn turn(&mut self) {
        self.ahead = false;
    }

    pub(super) fn keep_tail(&mut self, tail: Option<Tail>) {
        self.tail = tail;
    }

    /// The file has another size than the manifest says.
    pub(super) fn resize(&mut self, size: u64) {
        self.size = size;
    }

    /// The file's size, if the store tells; counted as a request.
    pub(super) async fn real_size(&self) -> Option<u64> {
        self.shared.lock().ledger.requests += 1;
        let Located { store, path, .. } = &self.object.located;
        store.head(path).await.ok().map(|meta| meta.size)
    }

    /// Bytes that cost about as much as a request.
    pub(super) fn gap(&self) -> u64 {
        if self.local { LOCAL_GAP } else { REMOTE_GAP }
    }

    /// Whether all of the file came with its footer.
    pub(super) fn is_whole(&self) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.start == 0)
    }

    /// Bytes that were kept, or would be if `ranges` were fetched.
    pub(super) fn would_keep(&self, ranges: &[Range<u64>]) -> u64 {
        let missing: Vec<_> = ranges.iter().filter(|range| self.at_hand(range).is_none()).cloned().collect();
        let requests = coalesce(&missing, self.gap()).into_iter().map(|range| range.end.saturating_sub(range.start));
        let kept = self.kept.lock().parts.iter().map(|part| part.bytes.len() as u64).sum::<u64>();
        requests.fold(kept, u64::saturating_add)
    }

    /// Forgets what was kept.
    fn forget(&self) {
        *self.kept.lock() = Kept::default();
    }

    fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        let tail = self.tail.as_ref().and_then(|tail| tail.slice(range));
        tail.or_else(|| self.kept.lock().parts.iter().find_map(|part| part.slice(range)))
    }

    /// The bytes of each range, in order: of a sound file they lie inside of it.
    pub(super) async fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.iter().any(|range| range.start > range.end) {
            return Err(self.corrupt("the file's metadata has a part that ends before it begins"));
        }
        let at_hand: Vec<Option<Bytes>> = ranges.iter().map(|range| self.at_hand(range)).collect();
        let missing: Vec<Range<u64>> =
            ranges.iter().zip(&at_hand).filter(|(_, bytes)| bytes.is_none()).map(|(range, _)| range.clone()).collect();
        let mut fetched = self.request(&missing).await?.into_iter();
        let mut all = Vec::with_capacity(ranges.len());
        for bytes in at_hand {
            all.push(match bytes {
                Some(bytes) => bytes,
                None => fetched.next().ok_or_else(|| Error::new(Code::Internal, "a range was not fetched"))?,
            });
        }
        Ok(all)
    }

    async fn request(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let requests = coalesce(ranges, self.gap());
        if requests.iter().any(|range| range.end > self.size) {
            return Err(self.corrupt("the file's metadata points past its end"));
        }
        {
            let mut shared = self.shared.lock();
            shared.ledger.requests += if self.local { 1 } else { requests.len() as u64 };
            shared.ledger.bytes += requests.iter().map(|range| range.end - range.start).sum::<u64>();
        }
        let Located { store, path, .. } = &self.object.located;
        let answers = if self.local {
            store.get_ranges(path, &requests).await
        } else {
            let gets: Vec<_> = requests.iter().map(|range| store.get_range(path, range.clone())).collect();
            iter(gets).buffered(AT_ONCE).try_collect().await
        };
        let answers: Vec<Bytes> = match answers {
            Ok(answers) => answers,
            Err(e) => return Err(self.failed(e).await),
        };
        if self.ahead {
            let parts = requests.iter().zip(&answers);
            self.kept
                .lock()
                .parts
                .extend(parts.map(|(range, bytes)| Tail { start: range.start, bytes: bytes.clone() }));
        }
        ranges.iter().map(|range| self.pick(range, &requests, &answers)).collect()
    }

    /// The part of a request's answer that is `range`.
    fn pick(&self, range: &Range<u64>, requests: &[Range<u64>], answers: &[Bytes]) -> Result<Bytes> {
        let at = requests.partition_point(|request| request.end < range.end);
        let part = requests
            .get(at)
            .zip(answers.get(at))
            .and_then(|(request, bytes)| Tail { start: request.start, bytes: bytes.clone() }.slice(range));
        part.ok_or_else(|| self.corrupt("the file is shorter than its metadata says"))
    }

    /// The file can't be read as what its metadata says it is.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> Error {
        self.object.corrupt(what)
    }

    /// A failure of the Parquet reader: ours where it began here, else the file's.
    pub(super) fn parquet(&self, error: ParquetError) -> Error {
        match error {
            ParquetError::External(inner) => began_here(inner).unwrap_or_else(|other| {
                self.corrupt(format!("the {} cannot be read", self.object.noun())).source(other)
            }),
            other => {
                let what = format!("the {} cannot be read as Parquet: {other}", self.object.noun());
                self.corrupt(what).source(other)
            }
        }
    }

    /// A store's failure: the file's, where the file is not what its metadata says.
    async fn failed(&self, error: object_store::Error) -> Error {
        if matches!(error, object_store::Error::NotFound { .. }) {
            let missing = self.corrupt(format!("a {} of the table is missing", self.object.noun()));
            return missing.source(error).help(WHERE_MOVED);
        }
        // Stores answer a range past the end each in their own words.
        if self.real_size().await.is_some_and(|size| size < self.size) {
            return self.corrupt("the file is shorter than its metadata says").source(error);
        }
        storage::error(&self.object.location, error)
    }
}

/// The error that the decoder was stopped by, if the file has no part in it: one of ours, or of a condition that was
/// tested while decoding.
fn began_here(inner: Box<dyn StdError + Send + Sync>) -> std::result::Result<Error, Box<dyn StdError + Send + Sync>> {
    let other = match inner.downcast::<Error>() {
        Ok(ours) => return Ok(*ours),
        Err(other) => other,
    };
    match *other.downcast::<ArrowError>()? {
        ArrowError::ExternalError(cause) => Ok(Error::from(*cause.downcast::<DataFusionError>()?)),
        other => Err(Box::new(other)),
    }
}

/// The fewest ascending ranges that cover `ranges`, joining what is at most `gap` apart.
fn coalesce(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// What the Parquet decoder reads from: the footer is in hand already, and which ranges it asks for is remembered.
#[derive(Debug)]
pub(super) struct DecoderInput {
    pub(super) io: FileIo,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) touched: Arc<Mutex<Vec<Range<u64>>>>,
}

impl AsyncFileReader for DecoderInput {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            let bytes = self.get_byte_ranges(vec![range]).await?.pop();
            bytes.ok_or_else(|| ParquetError::General("a range was not fetched".to_owned()))
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move {
            let bytes = self.io.fetch(&ranges).await.map_err(|e| ParquetError::External(Box::new(e)))?;
            // What was begun ahead is what is asked for first.
            self.io.forget();
            self.touched.lock().extend(ranges);
            Ok(bytes)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = Arc::clone(&self.metadata);
        async move { Ok(metadata) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_request() {
        assert_eq!(coalesce(&[50..60, 0..10, 12..20], 2), vec![0..20, 50..60]);
        assert_eq!(coalesce(&[0..10, 2..4], 0), vec![0..10]);
        assert_eq!(coalesce(&[], 5), Vec::<Range<u64>>::new());
    }

    #[test]
    fn a_tail_serves_only_what_it_holds() {
        let tail = Tail { start: 10, bytes: Bytes::from_static(b"abcdef") };
        assert_eq!(tail.slice(&(12..14)).as_deref(), Some(b"cd".as_slice()));
        assert_eq!(tail.slice(&(9..12)), None);
        assert_eq!(tail.slice(&(14..17)), None);
        assert_eq!(tail.slice(&(16..16)).as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn a_condition_that_fails_is_no_damage() {
        let wrapped = |error| Box::new(ArrowError::ExternalError(Box::new(error)));
        let failed = began_here(wrapped(DataFusionError::from(ArrowError::DivideByZero)));
        assert_eq!(failed.unwrap().code(), Code::InvalidValue);
        assert!(began_here(Box::new(ArrowError::DivideByZero)).is_err(), "nobody knows where that began");
        assert!(began_here(Box::new(std::fmt::Error)).is_err());
    }
}
