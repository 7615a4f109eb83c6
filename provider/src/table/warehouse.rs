//! The catalog `daygrain` as SQL sees it.
//!
//! Inside [`Warehouse::statement`] each table is loaded once, so that a statement reads one snapshot of a table however
//! often it names it. Tables that exist only in the session (external ones, views) stand beside those of the catalog.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result as DfResult;
use futures::{StreamExt, stream};
use parking_lot::{Mutex, RwLock};
use tokio::sync::OnceCell;

use super::external::External;
use super::provider::{Access, IcebergTable};
use crate::catalog::Ident;
use crate::commit::Committer;
use crate::error::{Code, Error, Result};
use crate::scan::TimeTravel;

/// The name of our catalog in SQL.
pub const CATALOG: &str = "daygrain";
/// The schema of unqualified names.
pub const DEFAULT_SCHEMA: &str = "main";

/// Tables loaded at a time, where all are.
const LOADS: usize = 16;

type Name = (String, String);
type Loaded = Arc<OnceCell<Option<Arc<dyn TableProvider>>>>;

/// Tables of the session only, by schema and name.
#[derive(Debug, Default)]
struct Local {
    external: RwLock<BTreeMap<Name, External>>,
    provided: RwLock<BTreeMap<Name, Arc<dyn TableProvider>>>,
}

impl Local {
    fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.external.read().keys().cloned().collect();
        names.extend(self.provided.read().keys().cloned());
        names
    }
}

struct Shared {
    committer: Committer,
    read_only: bool,
    local: Local,
    /// Tables by schema: known only after [`Warehouse::list`], since listing is asynchronous and providers are not.
    listed: RwLock<BTreeMap<String, Vec<String>>>,
    /// Those of them that can't be loaded, as far as that was [tried](Warehouse::list_readable).
    unreadable: RwLock<BTreeSet<Name>>,
    /// Schemas in which a table was found.
    known: RwLock<BTreeSet<String>>,
}

tokio::task_local! {
    /// What the running statement has loaded.
    static STATEMENT: Mutex<BTreeMap<Name, Loaded>>;
    /// What is planned is only shown.
    static SHOWN: ();
}

/// The catalog provider of a session.
#[derive(Clone)]
pub struct Warehouse(Arc<Shared>);

impl Warehouse {
    /// A catalog over what `committer` commits to.
    pub fn new(committer: Committer, read_only: bool) -> Self {
        Warehouse(Arc::new(Shared {
            committer,
            read_only,
            local: Local::default(),
            listed: RwLock::default(),
            unreadable: RwLock::default(),
            known: RwLock::default(),
        }))
    }

    /// Runs `planning` so that each table it names is loaded once. Without it every look-up loads the table anew.
    pub async fn statement<F: Future>(planning: F) -> F::Output {
        STATEMENT.scope(Mutex::default(), planning).await
    }

    /// Plans what is to be shown and never run: a session that is read-only may see how it would write.
    pub(crate) async fn shown<F: Future>(planning: F) -> F::Output {
        SHOWN.scope((), planning).await
    }

    /// What commits to this catalog.
    pub fn committer(&self) -> &Committer {
        &self.0.committer
    }

    /// True where nothing may be written.
    pub fn read_only(&self) -> bool {
        self.0.read_only
    }

    /// Lists schemas and tables, for `SHOW` and `information_schema`.
    ///
    /// # Errors
    /// Whatever the catalog's store answers.
    pub async fn list(&self) -> Result<()> {
        let catalog = &self.0.committer.catalog;
        let mut all = BTreeMap::new();
        for namespace in catalog.namespaces().await? {
            let tables = catalog.tables(&namespace).await?;
            all.insert(namespace.join("."), tables);
        }
        for (schema, table) in self.0.local.names() {
            let tables: &mut Vec<String> = all.entry(schema).or_default();
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        all.entry(DEFAULT_SCHEMA.to_owned()).or_default();
        *self.0.listed.write() = all;
        self.0.unreadable.write().clear();
        Ok(())
    }

    /// [Lists](Self::list), and loads what was listed: `information_schema` shows what can be loaded, so that one damaged table
    /// doesn't take the others with it. Returns the rest, each with its error.
    ///
    /// # Errors
    /// As [`Warehouse::list`].
    pub async fn list_readable(&self) -> Result<Vec<(String, Error)>> {
        self.list().await?;
        let names: Vec<Name> = self
            .listed()
            .into_iter()
            .flat_map(|(schema, tables)| tables.into_iter().map(move |table| (schema.clone(), table)))
            .collect();
        let loads = names.into_iter().map(|(schema, table)| async move {
            let error = self.table(&schema, &table).await.err()?;
            Some(((schema, table), error))
        });
        let mut failed: Vec<(Name, Error)> =
            stream::iter(loads).buffer_unordered(LOADS).filter_map(std::future::ready).collect().await;
        failed.sort_by(|(a, _), (b, _)| a.cmp(b));
        *self.0.unreadable.write() = failed.iter().map(|(name, _)| name.clone()).collect();
        Ok(failed.into_iter().map(|((schema, table), error)| (display(&ident(&schema, &table)), error)).collect())
    }

    /// Schemas and their tables, as far as they were [listed](Self::list).
    pub fn listed(&self) -> BTreeMap<String, Vec<String>> {
        self.0.listed.read().clone()
    }

    /// Registers an external Iceberg table; true if it replaced one.
    pub fn register_external(&self, schema: &str, name: &str, external: External) -> bool {
        self.0.local.external.write().insert((schema.to_owned(), name.to_owned()), external).is_some()
    }

    /// Forgets a table of the session; false if there is none.
    pub fn forget(&self, schema: &str, name: &str) -> bool {
        let key = (schema.to_owned(), name.to_owned());
        let external = self.0.local.external.write().remove(&key).is_some();
        self.0.local.provided.write().remove(&key).is_some() || external
    }

    /// True for a table of the session only.
    pub fn is_local(&self, schema: &str, name: &str) -> bool {
        let key = (schema.to_owned(), name.to_owned());
        self.0.local.external.read().contains_key(&key) || self.0.local.provided.read().contains_key(&key)
    }

    /// The table, loaded at most once in a [statement](Self::statement).
    ///
    /// # Errors
    /// Whatever loading it meets; a table that is verifiably absent is `None`.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let key = (schema.to_owned(), name.to_owned());
        let remembered = STATEMENT.try_with(|loaded| Arc::clone(loaded.lock().entry(key.clone()).or_default()));
        let found = match remembered {
            Ok(cell) => cell.get_or_try_init(|| self.load(key)).await.cloned(),
            Err(_) => self.load(key).await,
        }?;
        if found.is_some() && !self.0.known.read().contains(schema) {
            self.0.known.write().insert(schema.to_owned());
        }
        Ok(found)
    }

    /// Has the running [statement](Self::statement) read `table` under this name. Without a statement nothing changes.
    pub(crate) fn replace_in_statement(&self, schema: &str, name: &str, table: Arc<dyn TableProvider>) {
        // Outside of a statement there is nothing to replace.
        let _ = STATEMENT.try_with(|loaded| {
            let cell = Arc::new(OnceCell::new_with(Some(Some(table))));
            loaded.lock().insert((schema.to_owned(), name.to_owned()), cell);
        });
    }

    /// The table as it was, or as one of its branches or tags has it.
    ///
    /// # Errors
    /// `unknown_snapshot`; `not_supported` for what is no Iceberg table; whatever loading it meets.
    // @spec P10
    pub async fn table_at(&self, schema: &str, name: &str, travel: &TimeTravel) -> Result<Option<IcebergTable>> {
        let Some(found) = self.table(schema, name).await? else { return Ok(None) };
        let iceberg = found.as_any().downcast_ref::<IcebergTable>();
        let refused = || Error::new(Code::NotSupported, "only Iceberg tables have versions").with("table", name);
        iceberg.ok_or_else(refused)?.at(travel).map(Some)
    }

    async fn load(&self, key: Name) -> Result<Option<Arc<dyn TableProvider>>> {
        let provided = self.0.local.provided.read().get(&key).cloned();
        if provided.is_some() {
            return Ok(provided);
        }
        let external = self.0.local.external.read().get(&key).cloned();
        if let Some(external) = external {
            return external.open(&self.0.committer).await.map(Some);
        }
        let ident = ident(&key.0, &key.1);
        match self.0.committer.catalog.load(&ident).await {
            Ok(None) => Ok(None),
            // A name no table can have names no table.
            Err(e) if e.code() == Code::InvalidName => Ok(None),
            Err(e) => Err(e),
            Ok(Some(base)) => {
                let view = IcebergTable::view_of(display(&ident), &base, &self.0.committer)?;
                Ok(Some(Arc::new(IcebergTable::new(view, self.access(ident, base)))))
            }
        }
    }

    fn access(&self, ident: Ident, base: crate::catalog::Base) -> Access {
        if self.0.read_only && SHOWN.try_with(|()| ()).is_err() {
            return Access::ReadOnly("the session is read-only");
        }
        Access::Append { ident, base: Box::new(base), committer: self.0.committer.clone() }
    }
}

/// The table of a schema: dots separate namespace levels.
pub(crate) fn ident(schema: &str, name: &str) -> Ident {
    Ident { namespace: schema.split('.').map(str::to_owned).collect(), name: name.to_owned() }
}

/// A table's name as people read it: without the default schema.
pub(crate) fn display(ident: &Ident) -> String {
    if ident.namespace == [DEFAULT_SCHEMA] { ident.name.clone() } else { ident.to_string() }
}

impl CatalogProvider for Warehouse {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema_names(&self) -> Vec<String> {
        let mut names = self.0.known.read().clone();
        names.insert(DEFAULT_SCHEMA.to_owned());
        names.extend(self.0.listed.read().keys().cloned());
        names.into_iter().collect()
    }

    /// Any name: whether a namespace exists is asked of the store only when a table in it is.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(Tables { warehouse: self.clone(), schema: name.to_owned() }))
    }
}

/// The tables of one schema.
#[derive(Clone, Debug)]
struct Tables {
    warehouse: Warehouse,
    schema: String,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_names(&self) -> Vec<String> {
        let unreadable = self.warehouse.0.unreadable.read();
        let listed = self.warehouse.0.listed.read().get(&self.schema).cloned().unwrap_or_default();
        listed.into_iter().filter(|table| !unreadable.contains(&(self.schema.clone(), table.clone()))).collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Ok(self.warehouse.table(&self.schema, name).await?)
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Ok(self.warehouse.0.local.provided.write().insert((self.schema.clone(), name), table))
    }

    fn deregister_table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let key = (self.schema.clone(), name.to_owned());
        let provided = self.warehouse.0.local.provided.write().remove(&key);
        match provided {
            Some(table) => Ok(Some(table)),
            None if self.warehouse.is_local(&self.schema, name) => Err(Error::new(
                Code::NotSupported,
                "an external Iceberg table is forgotten with DROP TABLE of this session's own SQL entry point",
            )
            .into()),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.warehouse.is_local(&self.schema, name)
    }
}

impl fmt::Debug for Warehouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warehouse").field("read_only", &self.0.read_only).finish_non_exhaustive()
    }
}
