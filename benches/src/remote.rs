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
use crate::engines::{self, TABLE, THREADS};
use crate::measure::timed;

/// How long a store takes to answer.
const LATENCY: Duration = Duration::from_millis(30);

/// Where the far store is: files below it are remote ones.
const FAR: &str = "far://store";

/// The local file system, each read of which takes [`LATENCY`].
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
            let session = if far { far_away(warehouse).await } else { engines::daygrain(warehouse, None) };
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

/// A session that reads the warehouse's table as one that was moved to the far store.
async fn far_away(warehouse: &FsPath) -> Session {
    let stores = Stores::new();
    stores.register(&FAR.parse().expect("a URL"), Arc::new(Far(LocalStore::without_sync())));
    let options = Options { threads: Some(THREADS), ..Options::at("memory://empty") };
    let session = Session::with_env(options, Env::new(stores)).expect("a session");
    let warehouse = std::path::absolute(warehouse).expect("a path");
    let location = format!("{FAR}{}/main/{TABLE}", warehouse.display());
    let create =
        format!("CREATE EXTERNAL TABLE {TABLE} STORED AS ICEBERG LOCATION '{location}' OPTIONS ('relocate' 'true')");
    session.query(&create).await.expect("the table is found");
    session
}
