//! One call that wires a `SessionContext` for embedders, shell and servers.
//!
//! ```no_run
//! # async fn example() -> daygrain::Result<()> {
//! let session = daygrain::Session::new(daygrain::Options::at("./warehouse"))?;
//! let answer = session.query("SELECT count(*) FROM messages WHERE session_id = 's-42'").await?;
//! assert_eq!(answer.scans[0].ledger.files.kept(), 3);
//! # Ok(())
//! # }
//! ```

mod caught;
mod cooperate;
mod ddl;
mod definitions;
mod memory;
mod pruning;
mod pushdown;
mod run;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::CatalogProviderList;
use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::catalog::{FileCatalog, Ident};
use crate::commit::Committer;
use crate::dataset::{Dataset, Registry};
use crate::error::{Code, Error, Result};
use crate::export;
use crate::metadata::Manifests;
use crate::scan::ScanReport;
use crate::sql;
use crate::storage::{Env, Stores};
use crate::table::{CATALOG, DEFAULT_SCHEMA, External, Warehouse};

use caught::caught;
use definitions::Definitions;

pub use crate::export::{ExportProgress, Exported};

/// Bytes of Parquet footers and page indexes kept in memory.
const FOOTER_CACHE: usize = 128 << 20;

/// What a session is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Root of the embedded file catalog: a directory or URL.
    pub warehouse: String,
    /// Datasets: the path of a `daygrain.toml`.
    pub config: Option<String>,
    /// Tracked memory in bytes; `None` takes half of the machine's.
    pub memory_limit: Option<usize>,
    /// Bytes of manifests kept in memory, beside the limit; `None` takes a 32nd of the limit, and 64 MiB at least. About
    /// 1 kB a data file of a table of 20 columns.
    pub manifest_cache: Option<usize>,
    /// Target partitions; `None` takes the number of cores.
    pub threads: Option<usize>,
    /// Refuses whatever would write.
    pub read_only: bool,
}

impl Options {
    /// A session over the warehouse at `location`, with defaults.
    pub fn at(location: impl Into<String>) -> Self {
        Options { warehouse: location.into(), ..Options::default() }
    }
}

/// A SQL session over one warehouse. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    context: SessionContext,
    warehouse: Warehouse,
    registry: Registry,
    definitions: Arc<Definitions>,
}

/// One statement of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The statement as it was written.
    pub text: String,
    /// The line of the script it starts in, from 1.
    pub line: u64,
}

/// A running statement: rows stream out of it. Dropping it cancels the statement.
pub struct Running {
    /// The rows. A statement without rows has a schema without fields.
    pub stream: SendableRecordBatchStream,
    /// The plan that runs, for reports of its scans and sink.
    pub plan: Option<Arc<dyn ExecutionPlan>>,
    /// Notes for the user, to be shown beside the rows.
    pub notes: Vec<String>,
}

/// A query's rows, and what was read for them.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// One report for each scan of the plan, in the plan's pre-order.
    // @spec E2
    pub scans: Vec<ScanReport>,
}

/// An export, as the command line or an embedder asks for it.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// The dataset's name.
    pub dataset: String,
    /// Files, directories, globs.
    pub inputs: Vec<String>,
    /// A query, instead of inputs.
    pub query: Option<String>,
    /// Another Iceberg table, instead of inputs: its directory, or one of its metadata files.
    pub iceberg: Option<String>,
    /// Reads the other table's files below that directory although its metadata names another root.
    pub relocate: bool,
    /// Only what was appended to the other table since it was last exported into this one.
    pub only_new: bool,
    /// `NS.NAME`; default the registered table, else the dataset's name in the default schema.
    pub table: Option<String>,
    /// Overrides the registered column.
    pub primary_timestamp: Option<String>,
    /// Overrides the registered columns.
    pub lookup: Option<Vec<String>>,
    /// Overrides the registered columns.
    pub json: Option<Vec<String>>,
    /// A batch id: the same one again writes nothing.
    pub batch_id: Option<String>,
}

impl Session {
    /// Makes a session over the local and memory stores; touches no store.
    ///
    /// # Errors
    /// `invalid_config` for a configuration that cannot be read (a dataset that is not declared validly is [the error of its
    /// exports](Self::unusable_datasets)), `unsupported_location` for a warehouse no store serves.
    pub fn new(options: Options) -> Result<Self> {
        Self::with_env(options, Env::new(Stores::new()))
    }

    /// The same over an environment of the caller's: its stores, clock and ids.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_env(options: Options, env: Env) -> Result<Self> {
        let registry = match &options.config {
            Some(path) => read_config(path)?,
            None => Registry::default(),
        };
        let catalog = Arc::new(FileCatalog::new(env.clone(), &options.warehouse)?);
        let manifests = Manifests::new(env.stores.clone(), memory::manifest_cache(&options));
        let warehouse = Warehouse::new(Committer { catalog, manifests, env: env.clone() }, options.read_only);
        let context = SessionContext::new_with_state(state(&options, &env, &warehouse)?);
        Ok(Session(Arc::new(Inner { context, warehouse, registry, definitions: Arc::default() })))
    }

    /// The same session with one more dataset registered.
    #[must_use]
    pub fn with_dataset(&self, dataset: Dataset) -> Self {
        let mut registry = self.0.registry.clone();
        registry.register(dataset);
        let Inner { context, warehouse, definitions, .. } = self.0.as_ref();
        Session(Arc::new(Inner {
            context: context.clone(),
            warehouse: warehouse.clone(),
            registry,
            definitions: Arc::clone(definitions),
        }))
    }

    /// The DataFusion context, for everything this type does not offer. It knows the catalog's tables, the functions and
    /// the rules for timestamps; statements of ours go through [`Session::run`].
    pub fn context(&self) -> &SessionContext {
        &self.0.context
    }

    /// The catalog provider.
    pub fn warehouse(&self) -> &Warehouse {
        &self.0.warehouse
    }

    /// Splits a script into statements; what is not SQL fails when it is run.
    pub fn parse(&self, script: &str) -> Vec<Statement> {
        let pieces = sql::split(script).into_iter();
        pieces.map(|piece| Statement { text: piece.text, line: piece.line }).collect()
    }

    /// Plans and starts one statement.
    ///
    /// # Errors
    /// `sql_syntax`, `not_supported` for a statement that isn't there yet, `read_only`, and whatever planning meets. Errors
    /// of execution come out of the stream.
    pub async fn run(&self, statement: &Statement) -> Result<Running> {
        caught(Box::pin(Warehouse::statement(self.start(&statement.text)))).await
    }

    /// Runs one statement to its end.
    ///
    /// # Errors
    /// As [`Session::run`], and whatever execution meets.
    pub async fn query(&self, sql: &str) -> Result<Answer> {
        let running = self.run(&Statement { text: sql.to_owned(), line: 1 }).await?;
        let batches = running.stream.try_collect().await?;
        let scans = running.plan.as_ref().map(crate::exec::reports).unwrap_or_default();
        Ok(Answer { batches, scans })
    }

    /// Runs an export to its end.
    ///
    /// # Errors
    /// As [`export::run`]; `invalid_argument` where both or neither of inputs and query are given; `read_only`;
    /// `invalid_config` and `unknown_column` for a dataset whose registration is not valid.
    pub async fn export(&self, request: Export, progress: ExportProgress) -> Result<Exported> {
        if self.0.warehouse.read_only() {
            return Err(read_only("export"));
        }
        let registered = self.0.registry.get(&request.dataset)?;
        let _running = self.0.warehouse.committer().env.unfinished.begin();
        let state = self.0.context.state();
        let refused = |what: &str| Error::new(Code::InvalidArgument, what).with("dataset", &request.dataset);
        if request.iceberg.is_none() && (request.only_new || request.relocate) {
            return Err(refused("only the export of another Iceberg table can be of what is new, or relocated"));
        }
        let source = match (&request.query, &request.iceberg, request.inputs.is_empty()) {
            (None, None, false) => export::Source::Files(request.inputs.clone()),
            (Some(query), None, true) => {
                export::Source::Query(caught(Box::pin(Warehouse::statement(self.plan_query(&state, query)))).await?)
            }
            (None, Some(location), true) => export::Source::Table(self.source(&request, location).await?),
            _ => return Err(refused("an export takes either inputs, a query or another Iceberg table")),
        };
        let request = export::Request {
            ident: target(&request, registered)?,
            flags: flags(&request)?,
            registered: registered.cloned(),
            source,
            batch_id: request.batch_id,
        };
        export::run(&request, self.0.warehouse.committer(), &state, &progress).await
    }

    /// Datasets of the configuration that are not declared validly, by name, each with what an export to it fails with.
    pub fn unusable_datasets(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.0.registry.unusable()
    }

    /// Waits until nothing in this session's environment writes any more. An export or INSERT that is dropped before it
    /// commits has its files deleted by a task of the runtime: wait for it here before the runtime or the process ends,
    /// else they stay. Set a limit with a timeout; a store that doesn't answer is waited for.
    pub async fn settle(&self) {
        self.0.warehouse.committer().env.unfinished.over().await;
    }
}

impl Session {
    /// The table that an export reads, at its newest snapshot.
    async fn source(&self, request: &Export, location: &str) -> Result<export::TableSource> {
        let external = External::new(location.to_owned(), location.to_owned(), request.relocate);
        let provider = external.open(self.0.warehouse.committer()).await?;
        Ok(export::TableSource { provider, location: location.to_owned(), only_new: request.only_new })
    }
}

fn read_config(path: &str) -> Result<Registry> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::new(Code::InvalidConfig, "the configuration file cannot be read")
            .with("file", path)
            .with("cause", &e)
            .source(e)
    })?;
    Registry::from_toml(&text).map(|registry| registry.from_file(path)).map_err(|e| e.with("file", path))
}

fn flags(request: &Export) -> Result<Dataset> {
    let mut builder = Dataset::builder(&request.dataset).json(request.json.clone().unwrap_or_default());
    if let Some(column) = &request.primary_timestamp {
        builder = builder.primary_timestamp(column);
    }
    if let Some(columns) = &request.lookup {
        builder = builder.lookup(columns.clone());
    }
    builder.build()
}

fn target(request: &Export, registered: Option<&Dataset>) -> Result<Ident> {
    let named = request.table.as_deref().or_else(|| registered.and_then(Dataset::table));
    let Some(name) = named else { return Ok(Ident::new(DEFAULT_SCHEMA, &request.dataset)) };
    let mut parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    if parts.len() > 2 && parts.first().is_some_and(|part| part == CATALOG) {
        parts.remove(0);
    }
    match parts.pop() {
        Some(name) if parts.is_empty() => Ok(Ident::new(DEFAULT_SCHEMA, name)),
        Some(name) => Ok(Ident { namespace: parts, name }),
        None => Err(Error::new(Code::InvalidName, "a table needs a name").with("table", name)),
    }
}

pub(crate) fn read_only(what: &str) -> Error {
    Error::new(Code::ReadOnly, format!("{what} would write, and the session is read-only"))
        .help("start without --read-only")
}

fn state(options: &Options, env: &Env, warehouse: &Warehouse) -> Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads.max(1));
    }
    let limit = memory::limit(options.memory_limit);
    config = config.with_batch_size(memory::batch_rows(limit));
    config.options_mut().execution.sort_spill_reservation_bytes = memory::merge_reserve(limit);
    // Without it `now()` and TIMESTAMP WITH TIME ZONE would have no zone.
    config.options_mut().execution.time_zone = Some("UTC".to_owned());
    // Names keep their case; which name an unquoted one means is resolved before planning.
    config.options_mut().sql_parser.enable_ident_normalization = false;
    // It loses the group of nulls, and panics at floats.
    config.options_mut().optimizer.enable_topk_aggregation = false;
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(env.stores.registry())
        .with_metadata_cache_limit(FOOTER_CACHE)
        .with_memory_pool(memory::pool(limit))
        .build_arc()?;
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(warehouse.clone()));
    let builder = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_catalog_list(Arc::new(catalogs))
        .with_physical_optimizer_rules(pushdown::rules())
        .with_physical_optimizer_rule(Arc::new(crate::exec::TopKPushdown))
        .with_physical_optimizer_rule(Arc::new(cooperate::Cooperate));
    // Exact timestamps go first, before type coercion; what that adds is seen by the last one.
    let builder = sql::timestamps::register(sql::leaves::register(builder))
        .with_analyzer_rule(Arc::new(sql::KeptCasts))
        .with_analyzer_rule(Arc::new(sql::NullsApart));
    let mut state = builder.build();
    for function in sql::functions() {
        state.register_udf(Arc::new(function))?;
    }
    for function in sql::extremes() {
        state.register_udaf(Arc::new(function))?;
    }
    datafusion_functions_json::register_all(&mut state)?;
    state.register_relation_planner(Arc::new(sql::NoVersions))?;
    state.register_relation_planner(Arc::new(sql::Listed))?;
    Ok(state)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("warehouse", &self.0.warehouse).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("notes", &self.notes).finish_non_exhaustive()
    }
}
