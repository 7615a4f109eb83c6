//! Tables as another engine would leave them on disk: what nothing of ours writes.

mod bounds;
mod write;

use std::sync::Arc;

use arrow::array::RecordBatch;
use iceberg::spec::{DataFileBuilder, FormatVersion, PartitionSpec, SchemaRef, Struct};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

pub(crate) use self::write::write;

/// Rows of one partition.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) path: String,
    /// The schema when it was written.
    pub(crate) epoch: usize,
    pub(crate) spec: usize,
    pub(crate) tuple: Struct,
    pub(crate) sequence: i64,
    /// All columns of the schema, with their field ids.
    pub(crate) rows: RecordBatch,
    /// Columns whose values only the partition tuple has.
    pub(crate) absent: Vec<i32>,
}

#[derive(Debug)]
pub(crate) enum Delete {
    /// Rows by file and position, all of one partition; `only` where the manifest names the one file.
    Positions { spec: usize, tuple: Struct, sequence: i64, rows: Vec<(usize, u64)>, only: Option<usize> },
    /// The one deletion vector of a file.
    Vector { file: usize, sequence: i64, positions: Vec<u64> },
    /// Rows that have the same values in the columns `keys`; `rows` may have others.
    Equality { spec: usize, tuple: Struct, epoch: usize, sequence: i64, keys: Vec<i32>, rows: RecordBatch },
}

/// A table of one snapshot, and how its files are made.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) root: &'a str,
    pub(crate) version: FormatVersion,
    /// The schemas so far; the last is the current one.
    pub(crate) schemas: Vec<SchemaRef>,
    /// The specs so far; the last is the default one.
    pub(crate) specs: &'a [PartitionSpec],
    pub(crate) files: &'a [DataFile],
    /// Those that manifests name as deleted.
    pub(crate) gone: &'a [usize],
    pub(crate) deletes: &'a [Delete],
    /// The snapshot's.
    pub(crate) sequence: i64,
    pub(crate) properties: fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
    /// Changes what the manifest says of a data file.
    pub(crate) edit: fn(&mut DataFileBuilder),
}

impl<'a> Table<'a> {
    /// A table without deletes, of files that are all of sequence number 1.
    pub(crate) fn of(root: &'a str, schemas: &[SchemaRef], specs: &'a [PartitionSpec], files: &'a [DataFile]) -> Self {
        Table {
            root,
            version: FormatVersion::V2,
            schemas: schemas.iter().map(Arc::clone).collect(),
            specs,
            files,
            gone: &[],
            deletes: &[],
            sequence: 1,
            properties: small,
            edit: |_| {},
        }
    }

    fn now(&self) -> usize {
        self.schemas.len() - 1
    }
}

/// Row groups and pages of few rows.
fn small(properties: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
    properties.set_max_row_group_row_count(Some(8)).set_data_page_row_count_limit(3).set_write_batch_size(3)
}

impl Table<'_> {
    fn writer_properties(&self) -> WriterProperties {
        (self.properties)(WriterProperties::builder()).build()
    }
}
