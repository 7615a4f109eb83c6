//! How do entries become manifests, and manifests a list?
//!
//! Files are encoded in memory, compressed, and stored with one PUT each: what is named is always whole.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use iceberg::io::{FileIO, OutputFile};
use iceberg::spec::{
    DataFile, DataFileBuilder, Datum, FormatVersion, ManifestFile, ManifestListWriter, ManifestWriterBuilder,
    PartitionSpec, PrimitiveType, Schema, SchemaRef,
};
use object_store::{ObjectStoreExt, PutPayload};

use super::{Entry, avro};
use crate::error::{Code, Error, Result};
use crate::storage::Stores;

/// Where a manifest goes, and under what it is written.
#[derive(Clone, Debug)]
pub struct ManifestTarget<'a> {
    pub stores: &'a Stores,
    pub location: String,
    pub version: FormatVersion,
    pub snapshot_id: i64,
    pub schema: &'a SchemaRef,
    pub spec: &'a PartitionSpec,
}

/// An entry to write.
#[derive(Debug)]
pub enum NewEntry<'a> {
    /// A file that this snapshot adds: its sequence numbers and row ids are inherited.
    Added(&'a DataFile),
    /// A live file of an earlier snapshot: everything it inherited is written out.
    Existing(&'a Entry),
}

/// Writes one data manifest.
pub async fn write_manifest<'a>(
    target: ManifestTarget<'_>,
    entries: impl IntoIterator<Item = NewEntry<'a>>,
) -> Result<ManifestFile> {
    let location = target.location.clone();
    let failed = |e: iceberg::Error| {
        Error::new(Code::Internal, "a manifest cannot be encoded").with("file", &location).with("cause", e)
    };
    let memory = Memory::new(&target.location)?;
    let spec = under_legal_names(target.spec, target.schema).map_err(failed)?;
    let schema = Arc::clone(target.schema);
    let builder = ManifestWriterBuilder::new(memory.output()?, Some(target.snapshot_id), schema, spec);
    let mut writer = match target.version {
        FormatVersion::V1 => builder.build_v1(),
        FormatVersion::V2 => builder.build_v2_data(),
        FormatVersion::V3 => builder.build_v3_data(),
    };
    for entry in entries {
        match entry {
            NewEntry::Added(file) => {
                check_partition(file, target.spec)?;
                // Ids of its own would win over those the manifest is given.
                writer.add_file(carried(file, None, target.schema)?, -1).map_err(failed)?;
            }
            NewEntry::Existing(entry) => {
                check_partition(&entry.file, target.spec)?;
                let first_row_id = entry.first_row_id.filter(|_| target.version >= FormatVersion::V3);
                let file = carried(&entry.file, first_row_id, target.schema)?;
                writer
                    .add_existing_file(file, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
                    .map_err(failed)?;
            }
        }
    }
    let mut manifest = writer.write_manifest_file().await.map_err(failed)?;
    manifest.manifest_length = memory.store(target.stores).await?;
    manifest.manifest_path = target.location;
    Ok(manifest)
}

/// A manifest list to write.
#[derive(Debug)]
pub struct NewList<'a> {
    pub stores: &'a Stores,
    pub location: String,
    pub version: FormatVersion,
    pub snapshot_id: i64,
    pub parent_snapshot_id: Option<i64>,
    pub sequence_number: i64,
    /// The table's next row id; what the list assigns counts on from here.
    pub next_row_id: u64,
}

/// What a list assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenList {
    /// Row ids given to manifests that had none (format version 3).
    pub assigned_rows: u64,
}

/// Writes the manifest list of a snapshot, in the order of `manifests`.
pub async fn write_list(list: NewList<'_>, manifests: Vec<ManifestFile>) -> Result<WrittenList> {
    let failed = |e: iceberg::Error| {
        Error::new(Code::Internal, "a manifest list cannot be encoded").with("file", &list.location).with("cause", e)
    };
    let memory = Memory::new(&list.location)?;
    let out = memory.output()?.writer().await.map_err(failed)?;
    let (id, parent, sequence) = (list.snapshot_id, list.parent_snapshot_id, list.sequence_number);
    let mut writer = match list.version {
        FormatVersion::V1 => ManifestListWriter::v1(out, id, parent),
        FormatVersion::V2 => ManifestListWriter::v2(out, id, parent, sequence),
        FormatVersion::V3 => ManifestListWriter::v3(out, id, parent, sequence, Some(list.next_row_id)),
    };
    writer.add_manifests(manifests.into_iter()).map_err(failed)?;
    let next_row_id = writer.next_row_id().unwrap_or(list.next_row_id);
    writer.close().await.map_err(failed)?;
    memory.store(list.stores).await?;
    Ok(WrittenList { assigned_rows: next_row_id.saturating_sub(list.next_row_id) })
}

/// Roughly the bytes of an entry in a manifest, before compression.
pub(crate) fn encoded_size(file: &DataFile) -> usize {
    let counts = file.value_counts().len() + file.null_value_counts().len() + file.nan_value_counts().len();
    let bounds = file.lower_bounds().values().chain(file.upper_bounds().values());
    let bounds: usize = bounds.map(|bound| bound.to_bytes().map_or(0, |bytes| bytes.len()) + 4).sum();
    file.file_path().len() + file.column_sizes().len() * 6 + counts * 4 + bounds + 100
}

/// A file as an entry of a manifest of another schema: bounds are kept in the type its column has there now, and
/// dropped where that type cannot be read from them.
fn carried(file: &DataFile, first_row_id: Option<i64>, schema: &Schema) -> Result<DataFile> {
    rebuild(file, |builder| {
        builder
            .first_row_id(first_row_id)
            .lower_bounds(promoted(file.lower_bounds(), schema))
            .upper_bounds(promoted(file.upper_bounds(), schema));
    })
}

fn promoted(bounds: &HashMap<i32, Datum>, schema: &Schema) -> HashMap<i32, Datum> {
    let promote = |(id, bound): (&i32, &Datum)| {
        let wanted = schema.field_by_id(*id)?.field_type.as_primitive_type()?;
        let bytes = || bound.to_bytes().ok();
        let promoted = match (bound.data_type(), wanted) {
            (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => {
                Datum::try_from_bytes(&bytes()?, wanted.clone()).ok()?
            }
            (PrimitiveType::Decimal { scale: a, .. }, PrimitiveType::Decimal { scale: b, .. }) if a == b => {
                Datum::try_from_bytes(&bytes()?, wanted.clone()).ok()?
            }
            (had, wanted) if had == wanted => bound.clone(),
            _ => return None,
        };
        Some((*id, promoted))
    };
    bounds.iter().filter_map(promote).collect()
}

/// Copies a file, changed by `change`.
pub fn rebuild(file: &DataFile, change: impl FnOnce(&mut DataFileBuilder)) -> Result<DataFile> {
    let mut builder = DataFileBuilder::default();
    builder
        .content(file.content_type())
        .file_path(file.file_path().to_owned())
        .file_format(file.file_format())
        .partition(file.partition().clone())
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .equality_ids(file.equality_ids())
        .first_row_id(file.first_row_id())
        .referenced_data_file(file.referenced_data_file())
        .content_offset(file.content_offset())
        .content_size_in_bytes(file.content_size_in_bytes());
    if let Some(order) = file.sort_order_id() {
        builder.sort_order_id(order);
    }
    change(&mut builder);
    builder.build().map_err(|e| Error::new(Code::Internal, "a data file's entry cannot be copied").with("cause", e))
}

/// The encoder takes for granted that tuples fit their spec.
fn check_partition(file: &DataFile, spec: &PartitionSpec) -> Result<()> {
    let values = file.partition().fields();
    let fits = values.len() == spec.fields().len()
        && values.iter().flatten().all(|value| value.as_primitive_literal().is_some());
    if fits {
        return Ok(());
    }
    Err(Error::new(Code::Internal, "a data file's partition does not fit its spec")
        .with("file", file.file_path())
        .with("partition", format!("{values:?}"))
        .with("spec", spec.spec_id()))
}

/// The spec with field names that Avro allows: others make a manifest that nobody can read.
fn under_legal_names(spec: &PartitionSpec, schema: &SchemaRef) -> iceberg::Result<PartitionSpec> {
    let mut fields = Vec::with_capacity(spec.fields().len());
    for field in spec.fields() {
        let mut field = field.clone();
        field.name = avro::legal_name(&field.name);
        // Two names may become one.
        if fields.iter().any(|other: &iceberg::spec::PartitionField| other.name == field.name) {
            field.name = format!("{}_{}", field.name, field.field_id);
        }
        fields.push(field);
    }
    if fields == spec.fields() {
        return Ok(spec.clone());
    }
    let fields = fields.into_iter().map(iceberg::spec::PartitionField::into_unbound);
    PartitionSpec::builder(Arc::clone(schema)).with_spec_id(spec.spec_id()).add_unbound_fields(fields)?.build()
}

/// Takes what the format library writes, so that it can be compressed and stored in one piece.
struct Memory {
    io: FileIO,
    location: String,
}

impl Memory {
    const NAME: &'static str = "memory:///encoded.avro";

    fn new(location: &str) -> Result<Self> {
        Ok(Memory { io: FileIO::new_with_memory(), location: location.to_owned() })
    }

    fn output(&self) -> Result<OutputFile> {
        self.io.new_output(Self::NAME).map_err(|e| Error::new(Code::Internal, "no memory to encode in").source(e))
    }

    /// Stores the file under its location and returns its length in bytes.
    async fn store(self, stores: &Stores) -> Result<i64> {
        let encoded = match self.io.new_input(Self::NAME) {
            Ok(input) => input.read().await,
            Err(e) => Err(e),
        };
        let encoded = encoded.map_err(|e| Error::new(Code::Internal, "the encoded file was lost").source(e))?;
        let bytes = Bytes::from(avro::compress(encoded.into()));
        let length = i64::try_from(bytes.len()).map_err(|e| Error::new(Code::Internal, "a file too long").source(e))?;
        let located = stores.resolve(&self.location)?;
        let put = located.store.put(&located.path, PutPayload::from_bytes(bytes)).await;
        put.map_err(|e| crate::storage::error(&self.location, e))?;
        Ok(length)
    }
}
