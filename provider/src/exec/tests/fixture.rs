//! A small table in memory, written file by file, and a store that counts what is asked of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, max, max_string, min, min_string};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream::BoxStream;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestFile,
    ManifestStatus, ManifestWriterBuilder, NestedField, Operation, PartitionSpec, PrimitiveType, Schema, Snapshot,
    SortOrder, Struct, Summary, TableMetadata, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use url::Url;

use crate::exec::{TopKPushdown, reports};
use crate::metadata::{Entry, ManifestTarget, Manifests, NewEntry, NewList, with_defaults, write_list, write_manifest};
use crate::scan::{ScanReport, View};
use crate::schema::{stored_arrow, to_arrow};
use crate::storage::{Env, ManualClock, SeededIds, Stores, Unfinished};
use crate::table::{Access, IcebergTable};

/// Roots of tables: the same store, read as an object store and as a disk.
pub(super) const REMOTE: &str = "memory://t/table";
pub(super) const LOCAL: &str = "file:///table";
/// Rows of a row group and of a page: small, so that a few hundred rows have several of each.
pub(super) const GROUP: usize = 200;
pub(super) const PAGE: usize = 40;

/// Counts calls and bytes of reads.
#[derive(Debug)]
pub(super) struct Counting {
    inner: InMemory,
    counts: Mutex<(u64, u64)>,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

type StoreResult<T> = object_store::Result<T>;

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        self.inner.put_opts(at, payload, options).await
    }
    async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, o).await
    }
    async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let result = self.inner.get_opts(at, options).await?;
        let mut counts = self.counts.lock();
        counts.0 += 1;
        counts.1 += result.range.end - result.range.start;
        Ok(result)
    }
    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        {
            let mut counts = self.counts.lock();
            counts.0 += 1;
            counts.1 += bytes;
        }
        self.inner.get_ranges(at, ranges).await
    }
    fn delete_stream(&self, at: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(at)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// What a query gave and what it cost.
pub(super) struct Answer {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) report: Option<ScanReport>,
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// Calls and bytes that the store counted, planning included.
    pub(super) counted: (u64, u64),
}

/// A table under construction.
pub(super) struct Table {
    root: &'static str,
    pub(super) stores: Stores,
    store: Arc<Counting>,
    pub(super) schema: Arc<Schema>,
    pub(super) spec: PartitionSpec,
    /// Files by the schema they were written under.
    pub(super) files: Vec<DataFile>,
    /// Data sequence numbers of `files`; 1 where there is none.
    pub(super) sequences: Vec<i64>,
    /// Delete files with their sequence number and spec: the table's, or 1, which has no fields.
    pub(super) deletes: Vec<(DataFile, i64, i32)>,
    /// A schema that the table had.
    pub(super) older: Option<Arc<Schema>>,
    pub(super) properties: fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
    /// Version 2 has no row ids, of which there may be only so many.
    pub(super) version: FormatVersion,
    /// Data files of a manifest.
    pub(super) together: usize,
    /// What becomes of the metadata's JSON.
    pub(super) edit: fn(&mut serde_json::Value),
}

impl Table {
    /// An empty table, partitioned by the day of field `day` if one is given.
    pub(super) fn new(root: &'static str, fields: Vec<NestedField>, day: Option<i32>) -> Table {
        let fields: Vec<_> = fields.into_iter().map(Arc::new).collect();
        let schema = Arc::new(Schema::builder().with_fields(fields).build().unwrap());
        let spec = day.map_or_else(PartitionSpec::unpartition_spec, |day| {
            let unbound =
                UnboundPartitionSpec::builder().add_partition_field(day, "day", Transform::Day).unwrap().build();
            PartitionSpec::builder(Arc::clone(&schema))
                .add_unbound_fields(unbound.fields().to_vec())
                .unwrap()
                .build()
                .unwrap()
        });
        let store = Arc::new(Counting { inner: InMemory::new(), counts: Mutex::default() });
        let stores = Stores::new();
        stores.register(&Url::parse(root).unwrap(), Arc::clone(&store) as _);
        Table {
            root,
            stores,
            store,
            schema,
            spec,
            files: Vec::new(),
            sequences: Vec::new(),
            deletes: Vec::new(),
            older: None,
            properties: |p| p,
            version: FormatVersion::V3,
            together: usize::MAX,
            edit: |_| {},
        }
    }

    /// Writes one data file with the rows of `batch`, whose columns are those of the table's schema as it is now.
    pub(super) async fn add(&mut self, batch: &RecordBatch, day: Option<i32>) {
        let stored = Arc::new(stored_arrow(&self.schema).unwrap());
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .zip(stored.fields())
            .map(|(column, field)| cast(column, field.data_type()).unwrap())
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&stored), columns).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(GROUP))
            .set_data_page_row_count_limit(PAGE)
            .set_write_batch_size(PAGE);
        let properties = (self.properties)(properties).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, stored, Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let written = writer.close().unwrap();
        let offsets: Vec<i64> = written.row_groups().iter().map(|g| g.column(0).byte_range().0 as i64).collect();
        let location = format!("{}/data/{}.parquet", self.root, self.files.len());
        let size = bytes.len() as u64;
        self.put(&location, bytes).await;

        let mut file = DataFileBuilder::default();
        file.content(DataContentType::Data)
            .file_path(location)
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter(day.map(|day| Some(Literal::int(day)))))
            .partition_spec_id(0)
            .record_count(batch.num_rows() as u64)
            .file_size_in_bytes(size)
            .split_offsets(Some(offsets))
            .column_sizes(HashMap::new());
        self.metrics(&mut file, &batch);
        self.files.push(file.build().unwrap());
    }

    pub(super) async fn put(&self, location: &str, bytes: Vec<u8>) {
        let located = self.stores.resolve(location).unwrap();
        located.store.put(&located.path, bytes.into()).await.unwrap();
    }

    fn metrics(&self, file: &mut DataFileBuilder, batch: &RecordBatch) {
        metrics(&self.schema, file, batch);
    }

    /// A name below the table's root.
    pub(super) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }
}

/// Null counts and bounds of a batch's columns, which are those of `schema`.
pub(super) fn metrics(schema: &Schema, file: &mut DataFileBuilder, batch: &RecordBatch) {
    let (mut nulls, mut lower, mut upper) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (field, column) in schema.as_struct().fields().iter().zip(batch.columns()) {
        if !field.field_type.is_primitive() {
            continue;
        }
        nulls.insert(field.id, column.null_count() as u64);
        if let Some((low, high)) = bounds(column) {
            lower.insert(field.id, low);
            upper.insert(field.id, high);
        }
    }
    file.null_value_counts(nulls).lower_bounds(lower).upper_bounds(upper);
}

impl Table {
    /// The metadata with one snapshot of all files, and the view that queries get.
    pub(super) async fn view(&self) -> View {
        let version = self.version;
        let target = |number: usize| ManifestTarget {
            stores: &self.stores,
            location: format!("{}/metadata/m{number}.avro", self.root),
            version,
            snapshot_id: 1,
            schema: &self.schema,
            spec: &self.spec,
        };
        let sequence = |at: usize| self.sequences.get(at).copied().unwrap_or(1);
        let entries: Vec<Entry> =
            self.files.iter().enumerate().map(|(at, file)| existing(file, sequence(at))).collect();
        let newest = entries.iter().map(|entry| entry.sequence_number);
        let newest = newest.chain(self.deletes.iter().map(|(_, sequence, _)| *sequence)).max().unwrap_or(1);
        let mut manifests = Vec::new();
        for (number, entries) in entries.chunks(self.together).enumerate() {
            let entries = entries.iter().map(NewEntry::Existing);
            manifests.push(write_manifest(target(number), entries).await.unwrap());
        }
        manifests.extend(self.delete_manifests().await);
        let location = format!("{}/metadata/snap-1.avro", self.root);
        let list = NewList {
            stores: &self.stores,
            location: location.clone(),
            version,
            snapshot_id: 1,
            parent_snapshot_id: None,
            sequence_number: newest,
            next_row_id: 0,
        };
        let assigned = write_list(list, manifests).await.unwrap().assigned_rows;
        let metadata = self.metadata(location, assigned, newest);
        let schema = with_defaults(&metadata, metadata.current_schema()).unwrap();
        let arrow = to_arrow(&schema).unwrap();
        View {
            name: "t".to_owned(),
            snapshot: metadata.current_snapshot().cloned(),
            reference: None,
            changes: None,
            schema,
            arrow,
            metadata: Arc::new(metadata),
            metadata_location: format!("{}/metadata/v1.metadata.json", self.root),
            manifests: Manifests::new(self.stores.clone(), 1 << 20),
            env: Env {
                stores: self.stores.clone(),
                clock: Arc::new(ManualClock::new(0)),
                ids: Arc::new(SeededIds::new(0)),
                unfinished: Unfinished::new(),
            },
            relocate: None,
        }
    }

    fn metadata(&self, manifest_list: String, rows: u64, sequence: i64) -> TableMetadata {
        let summary = Summary { operation: Operation::Append, additional_properties: HashMap::new() };
        let snapshot = Snapshot::builder()
            .with_snapshot_id(1)
            .with_sequence_number(sequence)
            .with_timestamp_ms(1)
            .with_manifest_list(manifest_list)
            .with_summary(summary)
            .with_schema_id(0);
        let snapshot = match self.version {
            FormatVersion::V3 => snapshot.with_row_range(0, rows).build(),
            _ => snapshot.build(),
        };
        let metadata = TableMetadataBuilder::new(
            self.schema.as_ref().clone(),
            self.spec.clone().into_unbound(),
            SortOrder::unsorted_order(),
            self.root.to_owned(),
            self.version,
            HashMap::new(),
        )
        .unwrap()
        .set_branch_snapshot(snapshot, "main")
        .unwrap()
        .build()
        .unwrap()
        .metadata;
        // The builder numbers columns anew; an evolved table has the ids it has.
        let mut json = serde_json::to_value(metadata).unwrap();
        json["schemas"] = serde_json::json!([serde_json::to_value(self.schema.as_ref()).unwrap()]);
        json["last-column-id"] = 100.into();
        json["partition-specs"][0] = serde_json::to_value(&self.spec).unwrap();
        if let Some(older) = &self.older {
            let mut older = serde_json::to_value(older.as_ref()).unwrap();
            older["schema-id"] = 1.into();
            json["schemas"].as_array_mut().unwrap().push(older);
        }
        if !self.spec.is_unpartitioned() {
            json["partition-specs"].as_array_mut().unwrap().push(serde_json::json!({"spec-id": 1, "fields": []}));
        }
        (self.edit)(&mut json);
        crate::metadata::parse("v1.metadata.json", &serde_json::to_vec(&json).unwrap()).unwrap()
    }

    /// One manifest for each sequence number and spec.
    async fn delete_manifests(&self) -> Vec<ManifestFile> {
        let mut by_commit: BTreeMap<(i64, i32), Vec<&DataFile>> = BTreeMap::new();
        for (file, sequence, spec) in &self.deletes {
            by_commit.entry((*sequence, *spec)).or_default().push(file);
        }
        let mut manifests = Vec::new();
        for ((sequence, spec_id), files) in by_commit {
            let memory = FileIO::new_with_memory();
            let name = "memory:///manifest.avro";
            let spec = match spec_id {
                1 => PartitionSpec::builder(Arc::clone(&self.schema)).with_spec_id(1).build().unwrap(),
                _ => self.spec.clone(),
            };
            let output = memory.new_output(name).unwrap();
            let schema = Arc::clone(&self.schema);
            let mut writer = ManifestWriterBuilder::new(output, Some(1), schema, spec).build_v3_deletes();
            for file in files {
                writer.add_existing_file(file.clone(), 1, sequence, Some(sequence)).unwrap();
            }
            let mut manifest = writer.write_manifest_file().await.unwrap();
            let bytes = memory.new_input(name).unwrap().read().await.unwrap().to_vec();
            manifest.manifest_path = self.at(&format!("metadata/deletes-{sequence}-{spec_id}.avro"));
            manifest.manifest_length = bytes.len() as i64;
            manifest.sequence_number = sequence;
            self.put(&manifest.manifest_path, bytes).await;
            manifests.push(manifest);
        }
        manifests
    }

    /// A session in which `view` is the table `t`.
    pub(super) fn session(&self, view: View, partitions: usize) -> SessionContext {
        let runtime = RuntimeEnvBuilder::new().with_object_store_registry(self.stores.registry()).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
        let state = SessionStateBuilder::new_with_default_features().with_config(config).with_runtime_env(runtime);
        let context = SessionContext::from(state.with_physical_optimizer_rule(Arc::new(TopKPushdown)).build());
        let table = IcebergTable::new(view, Access::ReadOnly("a test reads only"));
        context.register_table("t", Arc::new(table)).unwrap();
        context
    }

    /// Runs a query and counts.
    pub(super) async fn query(&self, context: &SessionContext, sql: &str) -> Answer {
        *self.store.counts.lock() = (0, 0);
        let plan = context.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let plan = plan.create_physical_plan().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let counted = *self.store.counts.lock();
        Answer { batches, report: reports(&plan).pop(), plan, counted }
    }
}

/// A live file as a manifest entry.
fn existing(file: &DataFile, sequence: i64) -> Entry {
    Entry {
        status: ManifestStatus::Existing,
        snapshot_id: 1,
        sequence_number: sequence,
        file_sequence_number: Some(sequence),
        first_row_id: None,
        spec_id: 0,
        file: file.clone(),
    }
}

/// Bounds of a column as a writer would give them; floats only where there is no NaN.
fn bounds(column: &ArrayRef) -> Option<(Datum, Datum)> {
    Some(match column.data_type() {
        DataType::Int32 => {
            let array = column.as_primitive::<Int32Type>();
            (Datum::int(min(array)?), Datum::int(max(array)?))
        }
        DataType::Int64 => {
            let array = column.as_primitive::<Int64Type>();
            (Datum::long(min(array)?), Datum::long(max(array)?))
        }
        DataType::Timestamp(_, Some(_)) => {
            let array = column.as_primitive::<TimestampMicrosecondType>();
            (Datum::timestamptz_micros(min(array)?), Datum::timestamptz_micros(max(array)?))
        }
        DataType::Float64 => {
            let numbers: Vec<f64> =
                column.as_primitive::<Float64Type>().iter().flatten().filter(|v| !v.is_nan()).collect();
            let low = numbers.iter().copied().reduce(f64::min)?;
            (Datum::double(low), Datum::double(numbers.iter().copied().reduce(f64::max)?))
        }
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            (Datum::string(min_string(array)?), Datum::string(max_string(array)?))
        }
        _ => return None,
    })
}

/// A primitive column.
pub(super) fn column(id: i32, name: &str, ty: PrimitiveType) -> NestedField {
    NestedField::optional(id, name, Type::Primitive(ty))
}

impl Table {
    /// Replaces a file's bytes; the manifest tells their length.
    pub(super) async fn replace(&mut self, file: usize, bytes: Vec<u8>) {
        let old = &self.files[file];
        let located = self.stores.resolve(old.file_path()).unwrap();
        let size = bytes.len() as u64;
        located.store.put(&located.path, bytes.into()).await.unwrap();
        self.files[file] = crate::metadata::rebuild(old, |builder| {
            builder.file_size_in_bytes(size).split_offsets(None);
        })
        .unwrap();
    }

    /// Adds a file of another writer, of which the manifest knows nothing but its rows and partition.
    pub(super) async fn adopt(&mut self, bytes: Vec<u8>, rows: u64, partition: Struct) {
        let location = format!("{}/data/{}.parquet", self.root, self.files.len());
        let mut file = DataFileBuilder::default();
        file.content(DataContentType::Data)
            .file_path(location.clone())
            .file_format(DataFileFormat::Parquet)
            .partition(partition)
            .partition_spec_id(0)
            .record_count(rows)
            .file_size_in_bytes(bytes.len() as u64);
        self.files.push(file.build().unwrap());
        self.put(&location, bytes).await;
    }

    /// Makes the manifest tell another size of a file than it has.
    pub(super) fn misstate(&mut self, file: usize, size: u64) {
        self.restate(file, |builder| {
            builder.file_size_in_bytes(size);
        });
    }

    /// Makes the manifest tell something else of a file.
    pub(super) fn restate(&mut self, file: usize, say: impl FnOnce(&mut DataFileBuilder)) {
        self.files[file] = crate::metadata::rebuild(&self.files[file], say).unwrap();
    }

    /// A file's bytes.
    pub(super) async fn bytes(&self, file: usize) -> Vec<u8> {
        let located = self.stores.resolve(self.files[file].file_path()).unwrap();
        located.store.get(&located.path).await.unwrap().bytes().await.unwrap().to_vec()
    }

    pub(super) async fn remove(&self, file: usize) {
        let located = self.stores.resolve(self.files[file].file_path()).unwrap();
        located.store.delete(&located.path).await.unwrap();
    }

    /// Calls and bytes that the store has counted.
    pub(super) fn counted(&self) -> (u64, u64) {
        *self.store.counts.lock()
    }
}
