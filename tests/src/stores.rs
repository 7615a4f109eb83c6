//! A store that counts what is asked of it, and fails or takes its time where it is told to.
//!
//! Every request of the wrapped store, of parts of uploads too, passes one gate: it is counted, and the fault that a test
//! has set for its number happens. Reads take as long as a test says, and those on their way at once are counted.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    Head,
    Put,
    Part,
    Complete,
    List,
    Delete,
    Copy,
}

/// One request, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: Verb,
    pub path: String,
    /// Bytes of the answer, or of what was sent.
    pub bytes: u64,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the store.
    Before,
    /// It is carried out, and the answer is an error.
    After,
    /// It is carried out, and a repetition of it is answered: a conditional put finds its own object.
    Repeated,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Request>,
    /// The numbers, from 0, of the requests that fail, and how.
    fault: Option<(Range<usize>, Fault)>,
    failed: bool,
}

/// Reads that wait for their answers.
#[derive(Debug, Default)]
struct Traffic {
    latency: Duration,
    now: usize,
    most: usize,
    /// The most reads that were sent one after the other's answer.
    in_turn: usize,
    /// How often the store was moved: reads on their way then are not counted in turn.
    moves: usize,
}

/// A read on its way: until it is answered, or given up.
struct Journey {
    traffic: Arc<Mutex<Traffic>>,
    /// Reads in turn, up to this one.
    in_turn: usize,
    moves: usize,
}

impl Drop for Journey {
    fn drop(&mut self) {
        let mut traffic = self.traffic.lock();
        traffic.now -= 1;
        if traffic.moves == self.moves {
            traffic.in_turn = traffic.in_turn.max(self.in_turn);
        }
    }
}

/// Counts and faults; all clones share them.
#[derive(Clone, Debug)]
pub struct Probe {
    inner: Arc<dyn ObjectStore>,
    log: Arc<Mutex<Log>>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Probe {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Probe { inner, log: Arc::default(), traffic: Arc::default() }
    }

    /// The requests since the last [`Probe::clear`].
    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().requests.clone()
    }

    /// How many requests there were for paths that `test` accepts, and how many bytes they moved.
    pub fn count(&self, test: impl Fn(&Request) -> bool) -> (u64, u64) {
        let log = self.log.lock();
        let found = log.requests.iter().filter(|request| test(request));
        found.fold((0, 0), |(n, bytes), request| (n + 1, bytes + request.bytes))
    }

    /// Forgets requests and faults.
    pub fn clear(&self) {
        *self.log.lock() = Log::default();
    }

    /// Moves the store away: each read is answered after this time.
    pub fn move_away(&self, latency: Duration) {
        let mut traffic = self.traffic.lock();
        *traffic = Traffic { latency, now: traffic.now, most: traffic.now, in_turn: 0, moves: traffic.moves + 1 };
    }

    /// How many reads were sent in turn at most, each after the answer to the one before, since [`Probe::move_away`].
    pub fn in_turn(&self) -> usize {
        self.traffic.lock().in_turn
    }

    /// How many reads were on their way at once at most, since [`Probe::move_away`].
    pub fn at_once(&self) -> usize {
        self.traffic.lock().most
    }

    /// How many reads are on their way.
    pub fn on_their_way(&self) -> usize {
        self.traffic.lock().now
    }

    /// The way of an answer.
    async fn travel(&self) {
        let (_journey, latency) = {
            let mut traffic = self.traffic.lock();
            traffic.now += 1;
            traffic.most = traffic.most.max(traffic.now);
            let (in_turn, moves) = (traffic.in_turn + 1, traffic.moves);
            (Journey { traffic: Arc::clone(&self.traffic), in_turn, moves }, traffic.latency)
        };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }

    /// Makes request number `nth`, counted from the last [`Probe::clear`], fail.
    pub fn fail(&self, nth: usize, fault: Fault) {
        self.log.lock().fault = Some((nth..nth + 1, fault));
    }

    /// Makes request number `nth` and all after it fail, until the next [`Probe::clear`].
    pub fn fail_from(&self, nth: usize, fault: Fault) {
        self.log.lock().fault = Some((nth..usize::MAX, fault));
    }

    /// True once the fault has happened.
    pub fn has_failed(&self) -> bool {
        self.log.lock().failed
    }

    /// Counts a request; the fault that strikes it, if any.
    fn enter(&self, verb: Verb, path: &Path, bytes: u64) -> (usize, Option<Fault>) {
        let mut log = self.log.lock();
        let nth = log.requests.len();
        log.requests.push(Request { verb, path: path.to_string(), bytes });
        let fault = log.fault.as_ref().filter(|(at, _)| at.contains(&nth)).map(|(_, fault)| *fault);
        log.failed |= fault.is_some();
        (nth, fault)
    }

    fn answered(&self, nth: usize, bytes: u64) {
        if let Some(request) = self.log.lock().requests.get_mut(nth) {
            request.bytes = bytes;
        }
    }
}

fn lost(what: &'static str) -> Error {
    Error::Generic { store: "probe", source: what.into() }
}

/// The answer to a request that was carried out with `result`, under a fault.
fn spoil<T>(fault: Option<Fault>, result: Result<T>, path: &Path, conditional: bool) -> Result<T> {
    match fault {
        Some(Fault::Repeated) if conditional && result.is_ok() => {
            Err(Error::AlreadyExists { path: path.to_string(), source: "found its own object".into() })
        }
        Some(Fault::After | Fault::Repeated) => result.and(Err(lost("the answer was lost"))),
        _ => result,
    }
}

#[async_trait]
impl ObjectStore for Probe {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (_, fault) = self.enter(Verb::Put, location, payload.content_length() as u64);
        if fault == Some(Fault::Before) {
            return Err(lost("the request was lost"));
        }
        let conditional = opts.mode == PutMode::Create;
        let result = self.inner.put_opts(location, payload, opts).await;
        spoil(fault, result, location, conditional)
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(Upload { inner, probe: self.clone(), path: location.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let verb = if options.head { Verb::Head } else { Verb::Get };
        let (nth, fault) = self.enter(verb, location, 0);
        if fault.is_some() {
            return Err(lost("the answer was lost"));
        }
        let result = self.inner.get_opts(location, options).await;
        if let (Verb::Get, Ok(result)) = (verb, &result) {
            self.answered(nth, result.range.end - result.range.start);
        }
        self.travel().await;
        result
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        let (_, fault) = self.enter(Verb::Get, location, bytes);
        if fault.is_some() {
            return Err(lost("the answer was lost"));
        }
        let answer = self.inner.get_ranges(location, ranges).await?;
        self.travel().await;
        Ok(answer)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let probe = self.clone();
        let one = move |location: Result<Path>| {
            let probe = probe.clone();
            async move {
                let location = location?;
                let (_, fault) = probe.enter(Verb::Delete, &location, 0);
                if fault == Some(Fault::Before) {
                    return Err(lost("the request was lost"));
                }
                let only = futures::stream::iter([Ok(location.clone())]).boxed();
                let deleted: Result<Vec<Path>> = probe.inner.delete_stream(only).try_collect().await;
                spoil(fault, deleted.map(|_| location.clone()), &location, false)
            }
        };
        locations.then(one).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (_, fault) = self.enter(Verb::List, prefix.unwrap_or(&Path::default()), 0);
        if fault.is_some() {
            return futures::stream::iter([Err(lost("the answer was lost"))]).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (_, fault) = self.enter(Verb::List, prefix.unwrap_or(&Path::default()), 0);
        if fault.is_some() {
            return Err(lost("the answer was lost"));
        }
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (_, fault) = self.enter(Verb::Copy, to, 0);
        if fault == Some(Fault::Before) {
            return Err(lost("the request was lost"));
        }
        let result = self.inner.copy_opts(from, to, options).await;
        spoil(fault, result, to, false)
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    probe: Probe,
    path: Path,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (_, fault) = self.probe.enter(Verb::Part, &self.path, data.content_length() as u64);
        if fault == Some(Fault::Before) {
            return Box::pin(async { Err(lost("the request was lost")) });
        }
        let path = self.path.clone();
        let part = self.inner.put_part(data);
        Box::pin(async move { spoil(fault, part.await, &path, false) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (_, fault) = self.probe.enter(Verb::Complete, &self.path, 0);
        if fault == Some(Fault::Before) {
            return Err(lost("the request was lost"));
        }
        let result = self.inner.complete().await;
        spoil(fault, result, &self.path, false)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe({})", self.inner)
    }
}
