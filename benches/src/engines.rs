//! Who is measured: daygrain, DataFusion's `ListingTable` over the same files, and iceberg-datafusion over the same table.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use daygrain::{Export, ExportProgress, Exported, Options, Session};
use iceberg::TableIdent;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;
use iceberg::table::StaticTable;
use iceberg_datafusion::IcebergStaticTableProvider;

/// Target partitions of everything that is measured.
pub const THREADS: usize = 2;
/// The table's name in every engine.
pub const TABLE: &str = "messages";

/// A daygrain session.
pub fn daygrain(warehouse: &Path, memory_limit: Option<usize>) -> Session {
    let options = Options {
        warehouse: warehouse.to_string_lossy().into_owned(),
        memory_limit,
        threads: Some(THREADS),
        ..Options::default()
    };
    Session::new(options).expect("a session")
}

/// Exports files as the reference dataset.
pub async fn export(session: &Session, inputs: Vec<String>) -> Exported {
    let request = Export {
        dataset: TABLE.to_owned(),
        inputs,
        primary_timestamp: Some("message_created_at".to_owned()),
        lookup: Some(["session_id", "conversation_id", "cwd", "date"].map(str::to_owned).to_vec()),
        ..Export::default()
    };
    session.export(request, ExportProgress::default()).await.expect("the export succeeds")
}

/// DataFusion over the data files of the table.
pub async fn listing(warehouse: &Path) -> SessionContext {
    let context = plain();
    let files = warehouse.join("main").join(TABLE).join("data");
    let options = ParquetReadOptions::default();
    context.register_parquet(TABLE, &*files.to_string_lossy(), options).await.expect("the files are there");
    context
}

/// iceberg-datafusion over the table.
pub async fn iceberg(warehouse: &Path) -> SessionContext {
    let metadata = warehouse.join("main").join(TABLE).join("metadata/v1.metadata.json");
    let io = FileIO::new_with_fs();
    let location = format!("file://{}", metadata.canonicalize().expect("the table is there").display());
    let read: TableMetadata = TableMetadata::read_from(&io, &location).await.expect("the metadata is read");
    let ident = TableIdent::from_strs(["main", TABLE]).expect("a name");
    let table = StaticTable::from_metadata(read, ident, io).await.expect("a table").into_table();
    let provider = IcebergStaticTableProvider::try_new_from_table(table).await.expect("a provider");
    let context = plain();
    context.register_table(TABLE, Arc::new(provider)).expect("the name is free");
    context
}

/// DataFusion as it comes.
pub fn plain() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(THREADS))
}

/// Writes the input as one directory a day, unsorted.
pub async fn copy(input: &Path, output: &Path) {
    let context = plain();
    context
        .register_parquet("input", &*input.to_string_lossy(), ParquetReadOptions::default())
        .await
        .expect("the input is there");
    let sql = format!(
        "COPY (SELECT *, CAST(message_created_at AS DATE) AS day FROM input) TO '{}' STORED AS PARQUET \
         PARTITIONED BY (day) OPTIONS ('format.compression' 'zstd(3)')",
        output.display()
    );
    context.sql(&sql).await.expect("the copy is planned").collect().await.expect("the copy succeeds");
}

/// Runs a query in DataFusion.
pub async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context.sql(sql).await.expect("the query is planned");
    frame.collect().await.expect("the query runs")
}
