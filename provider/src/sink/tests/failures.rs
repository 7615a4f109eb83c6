//! What is left when a run does not come to its end.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions,
};

use super::fixture::{Answer, batch};
use super::*;

/// Data files only: manifests are the commit's business.
async fn data(table: &Table) -> Vec<String> {
    table.stored().await.into_iter().filter(|p| p.contains("/data/")).collect()
}

// @spec W9
#[tokio::test]
async fn a_lost_commit_leaves_nothing() {
    let table = Table::new(&[]);
    table.insert(messages(&shuffled(3, 5), 2)).await.unwrap();
    let before = data(&table).await;
    *table.catalog.answer.lock() = Answer::NotSent;
    let error = table.insert(messages(&shuffled(3, 5), 2)).await.unwrap_err();
    assert_eq!(error.code(), Code::StorageFailed);
    assert_eq!(data(&table).await, before);
    assert_eq!(table.files().await.len(), 3);
}

// @spec W9
#[tokio::test]
async fn an_unknown_commit_keeps_everything_and_says_what() {
    let table = Table::new(&[]);
    *table.catalog.answer.lock() = Answer::Unknown;
    let error = table.insert(messages(&shuffled(3, 5), 2)).await.unwrap_err();
    assert_eq!(error.code(), Code::CommitStateUnknown);
    let kept = data(&table).await;
    assert_eq!(kept.len(), 3);
    for path in kept {
        assert!(error.to_string().contains(&path), "{path} is not in {error}");
    }
}

// @spec L8 W9
#[tokio::test]
async fn a_bad_row_leaves_nothing() {
    let mut rows = messages(&shuffled(3, 50), 2);
    // Seven and a half years of microseconds after the last day of the day transform's hours: refused in the last batch.
    let table = Table::partitioned_by(&[], "message_created_at", Transform::Hour);
    let mut last = shuffled(1, 1);
    last[0].at = Some(i64::MAX);
    rows[1].push(batch(&last));
    let error = table.insert(rows).await.unwrap_err();
    assert_eq!(error.code(), Code::IcebergDataWriteFailed);
    assert_eq!(table.stored().await, Vec::<String>::new());
    assert!(table.catalog.base.lock().is_none());
}

/// A store whose nth write fails, before or after it is done.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    left: std::sync::atomic::AtomicUsize,
    stores_anyway: bool,
}

impl Faulty {
    fn count(&self) -> bool {
        use std::sync::atomic::Ordering::SeqCst;
        self.left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_err()
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        if self.count() {
            if self.stores_anyway {
                self.inner.put_opts(location, payload, opts).await?;
            }
            return Err(object_store::Error::Generic { store: "Faulty", source: "out of order".into() });
        }
        self.inner.put_opts(location, payload, opts).await
    }
    async fn put_multipart_opts(
        &self,
        p: &Path,
        o: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(p, o).await
    }
    async fn get_opts(&self, p: &Path, o: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(p, o).await
    }
    async fn get_ranges(&self, p: &Path, r: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        self.inner.get_ranges(p, r).await
    }
    fn delete_stream(
        &self,
        l: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(l)
    }
    fn list(&self, p: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(p)
    }
    async fn list_with_delimiter(&self, p: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(p).await
    }
    async fn copy_opts(&self, a: &Path, b: &Path, o: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(a, b, o).await
    }
    async fn rename_opts(&self, a: &Path, b: &Path, o: RenameOptions) -> object_store::Result<()> {
        self.inner.rename_opts(a, b, o).await
    }
}

// @spec W9
#[tokio::test]
async fn a_failing_store_leaves_nothing() {
    for (left, stores_anyway) in [(0, false), (0, true), (2, false), (3, true)] {
        let table = Table::new(&[]);
        let store = Faulty { inner: InMemory::new(), left: left.into(), stores_anyway };
        table.env.stores.register(&"memory://w".parse().unwrap(), Arc::new(store));
        let error = table.insert(messages(&shuffled(6, 5), 2)).await.unwrap_err();
        assert_eq!(error.code(), Code::StorageFailed, "{error}");
        assert!(error.to_string().contains("memory://w/main/messages/data/"), "{error}");
        assert_eq!(table.stored().await, Vec::<String>::new(), "left {left}");
    }
}

// @spec W9 P12
#[tokio::test]
async fn a_cancelled_run_leaves_nothing() {
    use std::sync::atomic::Ordering::SeqCst;
    let table = Table::new(&[]);
    let context = table.session(messages(&shuffled(40, 20), 2), None);
    let plan = table.physical(&context).await.unwrap();
    let mut stream = plan.execute(0, context.task_ctx()).unwrap();
    // Polled until a file is written, then dropped.
    while table.progress.files_written.load(SeqCst) == 0 {
        assert!(futures::poll!(stream.next()).is_pending());
        tokio::task::yield_now().await;
    }
    drop(stream);
    table.env.unfinished.over().await;
    assert_eq!(table.stored().await, Vec::<String>::new());
    assert!(table.catalog.base.lock().is_none());
}

// @spec W9
#[tokio::test]
async fn a_run_that_nobody_polls_leaves_nothing() {
    use std::sync::atomic::Ordering::SeqCst;
    let table = Table::new(&[]);
    let context = table.session(messages(&shuffled(40, 20), 2), None);
    let plan = table.physical(&context).await.unwrap();
    let stream = plan.execute(0, context.task_ctx()).unwrap();
    while table.progress.files_written.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    table.env.unfinished.over().await;
    assert_eq!(table.stored().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_plan_runs_once() {
    let table = Table::new(&[]);
    let context = table.session(messages(&shuffled(1, 1), 1), None);
    let plan = table.physical(&context).await.unwrap();
    datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let error = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap_err();
    assert_eq!(fixture::ours(error).code(), Code::Internal);
    assert_eq!(table.files().await.len(), 1);
}
