//! A table of messages, day by day, in memory.

use std::any::Any;
use std::collections::HashMap;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use iceberg::spec::{
    DataFile, FormatVersion, NestedField, NullOrder, PrimitiveType, Schema, SortDirection, SortField, SortOrder,
    TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use uuid::Uuid;

use super::*;
use crate::catalog::{Catalog, Dropped, Proposal, PublishError};
use crate::metadata::Manifests;
use crate::storage::{Env, Stores};

/// Microseconds.
pub(in crate::sink) const DAY: i64 = 86_400_000_000;

#[derive(Clone, Debug)]
pub(in crate::sink) struct Row {
    pub session: Option<String>,
    pub conversation: Option<String>,
    pub at: Option<i64>,
    pub text: String,
    pub tokens: Option<i64>,
    pub score: f64,
}

/// The rows in batches, dealt to `partitions` partitions.
pub(in crate::sink) fn messages(rows: &[Row], partitions: usize) -> Vec<Vec<RecordBatch>> {
    let mut dealt = vec![Vec::new(); partitions];
    let size = rows.len().div_ceil(partitions + 1).clamp(1, 8192);
    for (i, chunk) in rows.chunks(size).enumerate() {
        dealt[i % partitions].push(batch(chunk));
    }
    dealt
}

pub(in crate::sink) fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("content_text", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.text)))),
        ("session_id", Arc::new(StringArray::from_iter(rows.iter().map(|r| r.session.as_deref())))),
        ("conversation_id", Arc::new(StringArray::from_iter(rows.iter().map(|r| r.conversation.as_deref())))),
        (
            "message_created_at",
            Arc::new(rows.iter().map(|r| r.at).collect::<TimestampMicrosecondArray>().with_timezone("+00:00")),
        ),
        ("input_tokens", Arc::new(rows.iter().map(|r| r.tokens).collect::<Int64Array>())),
        ("score", Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.score)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn schema() -> Schema {
    let field = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
    Schema::builder()
        .with_fields([
            field(1, "session_id", PrimitiveType::String),
            field(2, "conversation_id", PrimitiveType::String),
            field(3, "message_created_at", PrimitiveType::Timestamptz),
            field(4, "content_text", PrimitiveType::String),
            field(5, "input_tokens", PrimitiveType::Long),
            field(6, "score", PrimitiveType::Double),
        ])
        .build()
        .unwrap()
}

pub(in crate::sink) fn metadata_with(properties: &[(&str, &str)]) -> TableMetadata {
    metadata_by(properties, "message_created_at", Transform::Day)
}

fn metadata_by(properties: &[(&str, &str)], column: &str, transform: Transform) -> TableMetadata {
    let schema = schema();
    let source = schema.field_by_name(column).unwrap().id;
    let spec = UnboundPartitionSpec::builder()
        .add_partition_field(source, format!("{column}_{transform}"), transform)
        .unwrap()
        .build();
    let key = |id| SortField {
        source_id: id,
        transform: Transform::Identity,
        direction: SortDirection::Ascending,
        null_order: NullOrder::Last,
    };
    let order =
        SortOrder::builder().with_sort_field(key(1)).with_sort_field(key(2)).build(&schema).unwrap().with_order_id(1);
    let properties: HashMap<_, _> = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let location = "memory://w/main/messages".to_owned();
    TableMetadataBuilder::new(schema, spec, order, location, FormatVersion::V3, properties)
        .unwrap()
        .assign_uuid(Uuid::from_u128(7))
        .build()
        .unwrap()
        .metadata
}

/// What the catalog answers to the next publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sink) enum Answer {
    Stored,
    /// Stored, after a while; `Stored` from the moment that the publish is asked for.
    Late,
    NotSent,
    Unknown,
}

#[derive(Debug)]
pub(in crate::sink) struct OneTable {
    pub base: Mutex<Option<Base>>,
    pub answer: Mutex<Answer>,
}

#[async_trait]
impl Catalog for OneTable {
    async fn namespaces(&self) -> Result<Vec<Vec<String>>> {
        Ok(vec![vec!["main".to_owned()]])
    }
    async fn create_namespace(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    async fn drop_namespace(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    async fn tables(&self, _: &[String]) -> Result<Vec<String>> {
        Ok(vec!["messages".to_owned()])
    }
    async fn load(&self, _: &Ident) -> Result<Option<Base>> {
        Ok(self.base.lock().clone())
    }
    fn location(&self, _: &Ident) -> Result<String> {
        Ok("memory://w/main/messages".to_owned())
    }
    async fn publish(&self, _: &Ident, base: Option<&Base>, next: &Proposal) -> Result<Base, PublishError> {
        let fault = || Error::new(Code::StorageFailed, "as the test wants it");
        let answer = *self.answer.lock();
        match answer {
            Answer::Stored => {}
            Answer::Late => {
                *self.answer.lock() = Answer::Stored;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Answer::NotSent => return Err(PublishError::NotSent(fault())),
            Answer::Unknown => return Err(PublishError::Unknown(fault())),
        }
        let version = base.map_or(1, |b| b.version + 1);
        let location = format!("memory://w/main/messages/metadata/v{version}.metadata.json");
        let next = Base { metadata: Arc::new(next.metadata.clone()), location, version };
        *self.base.lock() = Some(next.clone());
        Ok(next)
    }
    async fn drop_table(&self, _: &Ident, _: bool) -> Result<Dropped> {
        Err(Error::new(Code::NotSupported, "not here"))
    }
}

/// A table, the store and the catalog it lives in, and a session that inserts into it.
#[derive(Debug)]
pub(in crate::sink) struct Table {
    pub catalog: Arc<OneTable>,
    pub env: Env,
    pub progress: Arc<Progress>,
    created: Arc<TableMetadata>,
    manifests: Manifests,
    tasks: usize,
    pool: Option<Arc<dyn MemoryPool>>,
    /// The last plan that was executed.
    pub plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl Table {
    pub(in crate::sink) fn new(properties: &[(&str, &str)]) -> Self {
        Self::of(metadata_with(properties))
    }

    pub(in crate::sink) fn partitioned_by(properties: &[(&str, &str)], column: &str, transform: Transform) -> Self {
        Self::of(metadata_by(properties, column, transform))
    }

    fn of(metadata: TableMetadata) -> Self {
        let stores = Stores::new();
        Table {
            catalog: Arc::new(OneTable { base: Mutex::new(None), answer: Mutex::new(Answer::Stored) }),
            env: Env::deterministic(stores.clone(), 1),
            progress: Arc::default(),
            created: Arc::new(metadata),
            manifests: Manifests::new(stores, 1 << 20),
            tasks: 2,
            pool: None,
            plan: Mutex::new(None),
        }
    }

    pub(in crate::sink) fn with_tasks(self, tasks: usize) -> Self {
        Table { tasks, ..self }
    }

    pub(in crate::sink) fn with_pool(self, pool: Arc<dyn MemoryPool>) -> Self {
        Table { pool: Some(pool), ..self }
    }

    fn committer(&self) -> Committer {
        Committer { catalog: self.catalog.clone(), manifests: self.manifests.clone(), env: self.env.clone() }
    }

    fn target(&self, batch_id: Option<&str>) -> Target {
        let base = self.catalog.base.lock().clone();
        Target {
            ident: Ident::new("main", "messages"),
            metadata: base.as_ref().map_or_else(|| Arc::clone(&self.created), |b| Arc::clone(&b.metadata)),
            // A table that is there is what most of these tests are about; the commit makes it when it isn't.
            base,
            updates: Vec::new(),
            batch_id: batch_id.map(str::to_owned),
            summary: BTreeMap::new(),
        }
    }

    /// A session, its tables `src` and `messages`.
    pub(in crate::sink) fn session(&self, rows: Vec<Vec<RecordBatch>>, batch_id: Option<&str>) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(self.tasks);
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(pool) = &self.pool {
            runtime = runtime.with_memory_pool(Arc::clone(pool));
        }
        let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
        let shape = batch(&[]).schema();
        context.register_table("src", Arc::new(MemTable::try_new(shape, rows).unwrap())).unwrap();
        let columns = iceberg::arrow::schema_to_arrow_schema(&schema()).unwrap();
        let fields: Vec<_> =
            columns.fields().iter().map(|f| f.as_ref().clone().with_metadata(HashMap::new())).collect();
        let provider = Sinking {
            schema: Arc::new(ArrowSchema::new(fields)),
            target: self.target(batch_id),
            committer: self.committer(),
            progress: Arc::clone(&self.progress),
        };
        context.register_table("messages", Arc::new(provider)).unwrap();
        context
    }

    pub(in crate::sink) async fn physical(&self, context: &SessionContext) -> DfResult<Arc<dyn ExecutionPlan>> {
        let columns = "session_id, conversation_id, message_created_at, content_text, input_tokens, score";
        let frame = context.sql(&format!("INSERT INTO messages SELECT {columns} FROM src")).await?;
        frame.create_physical_plan().await
    }

    pub(in crate::sink) async fn explain(&self, rows: Vec<Vec<RecordBatch>>) -> String {
        let plan = self.physical(&self.session(rows, None)).await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string()
    }

    pub(in crate::sink) async fn insert(&self, rows: Vec<Vec<RecordBatch>>) -> Result<Report> {
        self.run(rows, None).await
    }

    pub(in crate::sink) async fn insert_batch(&self, rows: Vec<Vec<RecordBatch>>, batch_id: &str) -> Result<Report> {
        self.run(rows, Some(batch_id)).await
    }

    async fn run(&self, rows: Vec<Vec<RecordBatch>>, batch_id: Option<&str>) -> Result<Report> {
        let context = self.session(rows, batch_id);
        let plan = self.physical(&context).await.map_err(ours)?;
        *self.plan.lock() = Some(Arc::clone(&plan));
        let counts = collect(Arc::clone(&plan), context.task_ctx()).await.map_err(ours)?;
        let report = report(&plan).unwrap();
        let count = counts[0].column(0).as_primitive::<arrow::datatypes::UInt64Type>().value(0);
        assert_eq!(count, report.rows);
        Ok(report)
    }

    /// The table's data files, by path.
    pub(in crate::sink) async fn files(&self) -> Vec<DataFile> {
        let base = self.catalog.base.lock().clone().unwrap();
        let mut files = Vec::new();
        let list = self.manifests.list(&base.metadata, base.metadata.current_snapshot_id()).await.unwrap();
        for manifest in list.iter() {
            let entries = self.manifests.entries(&base.metadata, manifest).await.unwrap();
            files.extend(entries.iter().map(|e| e.file.clone()));
        }
        files.sort_by_key(|f| f.file_path().to_owned());
        files
    }

    pub(in crate::sink) async fn bytes(&self, file: &DataFile) -> Bytes {
        let located = self.env.stores.resolve(file.file_path()).unwrap();
        located.store.get(&located.path).await.unwrap().bytes().await.unwrap()
    }

    pub(in crate::sink) async fn read(&self, file: &DataFile) -> Vec<RecordBatch> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(self.bytes(file).await).unwrap();
        reader.build().unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Everything below the table's location.
    pub(in crate::sink) async fn stored(&self) -> Vec<String> {
        let located = self.env.stores.resolve("memory://w/main").unwrap();
        let all: Vec<_> = located.store.list(Some(&located.path)).try_collect().await.unwrap();
        let mut paths: Vec<String> = all.into_iter().map(|m| m.location.to_string()).collect();
        paths.sort();
        paths
    }
}

/// The error of ours that stands at the root.
pub(in crate::sink) fn ours(error: DataFusionError) -> Error {
    let shown = error.to_string();
    let mut error = error;
    loop {
        error = match error {
            DataFusionError::Context(_, inner) => *inner,
            DataFusionError::External(inner) => match inner.downcast::<Error>() {
                Ok(ours) => return *ours,
                Err(other) => panic!("not ours: {other}"),
            },
            _ => return Error::new(Code::QueryFailed, shown),
        }
    }
}

#[derive(Debug)]
struct Sinking {
    schema: ArrowSchemaRef,
    target: Target,
    committer: Committer,
    progress: Arc<Progress>,
}

#[async_trait]
impl TableProvider for Sinking {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn schema(&self) -> ArrowSchemaRef {
        Arc::clone(&self.schema)
    }
    fn table_type(&self) -> TableType {
        TableType::Base
    }
    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        unreachable!("only written to")
    }
    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let progress = Arc::clone(&self.progress);
        plan(input, self.target.clone(), self.committer.clone(), state, progress).map_err(external)
    }
}
