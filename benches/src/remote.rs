//! What a query costs on a store that answers after 30 ms, as object stores do.

use std::fmt;
use std::io::Write;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use daygrain::scan::Ledger;
use daygrain::storage::{Env, LocalStore, Stores};
use daygrain::{Options, Session};
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use crate::compare::queries;
use crate::engines::THREADS;
use crate::measure::timed;

/// How long a store takes to answer.
const LATENCY: Duration = Duration::from_millis(30);

/// The local file system, each read of which takes [`LATENCY`]; ranges are asked for one by one where they lie far apart.
#[derive(Debug)]
struct Far(LocalStore);

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Far({})", self.0)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Far {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        tokio::time::sleep(LATENCY).await;
        self.0.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        tokio::time::sleep(LATENCY).await;
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// Measures and prints.
pub async fn remote(warehouse: &FsPath) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "| query | store | | requests | KiB | ms |\n|---|---|---|---|---|---|");
    for (name, sql) in queries() {
        for far in [false, true] {
            let session = session(warehouse, far);
            for temperature in ["cold", "warm"] {
                let (answer, time) = timed(session.query(&sql)).await;
                let answer = answer.expect("the query runs");
                let mut ledger = Ledger::default();
                answer.scans.iter().for_each(|scan| ledger.merge(&scan.ledger));
                let store = if far { "30 ms away" } else { "local" };
                let (requests, size) = (ledger.requests, ledger.bytes >> 10);
                let time = time.as_secs_f64() * 1e3;
                let _ = writeln!(out, "| {name} | {store} | {temperature} | {requests} | {size} | {time:.1} |");
            }
        }
    }
}

fn session(warehouse: &FsPath, far: bool) -> Session {
    let stores = Stores::new();
    if far {
        let url = "file:///".parse().expect("a URL");
        stores.register(&url, Arc::new(Far(LocalStore::without_sync())));
    }
    let options = Options { threads: Some(THREADS), ..Options::at(warehouse.to_string_lossy()) };
    Session::with_env(options, Env::new(stores)).expect("a session")
}
