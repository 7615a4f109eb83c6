//! One call that wires a `SessionContext` for embedders, shell and servers.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use crate::error::{Code, Error, Result};
use crate::sink::{Progress, Report};

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Root of the embedded file catalog: a directory or URL.
    pub warehouse: String,
    /// Datasets: the path of a `daygrain.toml`.
    pub config: Option<String>,
    /// Tracked memory in bytes.
    pub memory_limit: Option<usize>,
    /// Target partitions.
    pub threads: Option<usize>,
    pub read_only: bool,
}

/// A SQL session over one warehouse.
#[derive(Clone, Debug)]
pub struct Session;

/// One parsed statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The statement as it was written.
    pub text: String,
}

/// A running statement: rows stream out of it.
pub struct Running {
    pub stream: SendableRecordBatchStream,
    /// The plan that runs, for reports of its scans and sink.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Notes for the user (warnings), shown on standard error.
    pub notes: Vec<String>,
}

/// An export, as the command line or an embedder asks for it.
#[derive(Clone, Debug, Default)]
pub struct Export {
    pub dataset: String,
    pub inputs: Vec<String>,
    /// `--query`: instead of inputs.
    pub query: Option<String>,
    /// `NS.NAME`; default the dataset's name in the default schema.
    pub table: Option<String>,
    pub primary_timestamp: Option<String>,
    pub lookup: Option<Vec<String>>,
    pub json: Option<Vec<String>>,
    pub batch_id: Option<String>,
}

/// What an export did.
#[derive(Clone, Debug)]
pub struct Exported {
    /// `main.messages`
    pub table: String,
    pub report: Report,
    pub batch_id: Option<String>,
    /// Paths kept as JSON text.
    pub json_paths: Vec<String>,
}

/// Counters that a progress display reads while an export runs.
#[derive(Clone, Debug, Default)]
pub struct ExportProgress {
    pub sink: Arc<Progress>,
    /// Bytes of input as stored, and those read so far; 0 where not known.
    pub input_bytes: Arc<std::sync::atomic::AtomicU64>,
    pub input_read: Arc<std::sync::atomic::AtomicU64>,
}

impl Session {
    /// Makes a session; touches no store.
    pub fn new(_options: Options) -> Result<Self> {
        Err(Error::new(Code::Internal, "stub"))
    }
    /// The DataFusion context, for everything this type does not offer.
    pub fn context(&self) -> &SessionContext {
        unreachable!("stub")
    }
    /// Splits a script into statements. Fails on the first that doesn't parse.
    pub fn parse(&self, _script: &str) -> Result<Vec<Statement>> {
        Err(Error::new(Code::Internal, "stub"))
    }
    /// Plans and starts one statement.
    pub async fn run(&self, _statement: &Statement) -> Result<Running> {
        Err(Error::new(Code::Internal, "stub"))
    }
    /// Runs an export to its end.
    pub async fn export(&self, _export: Export, _progress: ExportProgress) -> Result<Exported> {
        Err(Error::new(Code::Internal, "stub"))
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("notes", &self.notes).finish_non_exhaustive()
    }
}
