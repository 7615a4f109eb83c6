//! A warehouse in memory or on disk behind a store that counts and fails, and what tests do with it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use daygrain::session::{Answer, Export, ExportProgress, Exported};
use daygrain::storage::{Env, LocalStore, Stores};
use daygrain::{Options, Result, Session};
use daygrain_tests::stores::Probe;
use object_store::ObjectStore;
use object_store::memory::InMemory;

/// One store, and sessions over the warehouse in it.
pub(crate) struct Lab {
    pub(crate) probe: Probe,
    pub(crate) warehouse: String,
    stores: Stores,
    /// Holds a directory for as long as the warehouse is used.
    _directory: Option<tempfile::TempDir>,
}

impl Lab {
    /// A warehouse in memory, read as a remote store is: one request a range.
    pub(crate) fn remote() -> Lab {
        Lab::over(Arc::new(InMemory::new()), "memory://lab", "memory://lab/warehouse".to_owned(), None)
    }

    /// A warehouse on disk.
    pub(crate) fn local() -> Lab {
        let directory = tempfile::tempdir().expect("a directory");
        let warehouse = format!("file://{}/warehouse", directory.path().display());
        Lab::over(Arc::new(LocalStore::without_sync()), "file:///", warehouse, Some(directory))
    }

    fn over(store: Arc<dyn ObjectStore>, base: &str, warehouse: String, directory: Option<tempfile::TempDir>) -> Lab {
        let probe = Probe::new(store);
        let stores = Stores::new();
        stores.register(&base.parse().expect("a URL"), Arc::new(probe.clone()));
        Lab { probe, warehouse, stores, _directory: directory }
    }

    /// A new process, as far as caches are concerned.
    pub(crate) fn session(&self) -> Session {
        self.session_of(2)
    }

    /// The same with so many target partitions.
    pub(crate) fn session_of(&self, threads: usize) -> Session {
        self.session_with(Options { threads: Some(threads), ..Options::at(&self.warehouse) })
    }

    /// The same with other options.
    pub(crate) fn session_with(&self, options: Options) -> Session {
        Session::with_env(options, Env::new(self.stores.clone())).expect("a session over a registered store")
    }

    /// The store's objects whose path ends with `suffix`, sorted.
    pub(crate) async fn objects(&self, suffix: &str) -> Vec<String> {
        use futures::TryStreamExt;
        let listed: Vec<_> = self.probe.list(None).try_collect().await.expect("the store lists");
        let paths = listed.into_iter().map(|object| object.location.to_string());
        let mut paths: Vec<String> = paths.filter(|path| path.ends_with(suffix)).collect();
        paths.sort();
        paths
    }
}

/// What an export of rows in memory is asked for.
pub(crate) fn rows_of(dataset: &str) -> Export {
    Export { dataset: dataset.to_owned(), query: Some(format!("SELECT * FROM {INPUT}")), ..Export::default() }
}

const INPUT: &str = "rows_to_export";

/// Exports `batches` as `request` says; its query reads them.
pub(crate) async fn export(session: &Session, request: Export, batches: Vec<RecordBatch>) -> Result<Exported> {
    let schema = batches.first().expect("at least a batch without rows").schema();
    let table = Arc::new(MemTable::try_new(schema, vec![batches]).expect("the batches share a schema"));
    let context = session.context();
    context.deregister_table(INPUT).expect("the session forgets its own tables");
    context.register_table(INPUT, table).expect("the name is free");
    session.export(request, ExportProgress::default()).await
}

/// Runs a query that must succeed.
pub(crate) async fn query(session: &Session, sql: &str) -> Answer {
    session.query(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e}"))
}

/// A query's rows as sorted lines.
pub(crate) async fn lines(session: &Session, sql: &str) -> Vec<String> {
    daygrain_tests::oracle::lines(&query(session, sql).await.batches)
}
