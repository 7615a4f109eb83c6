//! The files of a table: Parquet, Puffin, manifests, metadata.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestFile, ManifestListWriter,
    ManifestWriterBuilder, NestedField, NestedFieldRef, PrimitiveLiteral, PrimitiveType, Schema, Struct, Type,
};
use parquet::arrow::ArrowWriter;
use serde_json::json;

use super::bounds::{field_id, metrics};
use super::{DataFile, Delete, Table};

const SNAPSHOT: i64 = 1;
/// Reserved ids of the columns of position delete files.
const FILE_PATH: i32 = i32::MAX - 101;
const POS: i32 = i32::MAX - 102;

/// Manifest entries by whether they delete, spec, and columns when they were written.
type Entries = BTreeMap<(bool, usize, usize), Vec<(DataFileBuilder, i64)>>;

/// Writes the whole table; the location of its metadata.
pub(crate) async fn write(table: &Table<'_>) -> String {
    let io = FileIO::new_with_fs();
    let mut entries = Entries::new();
    for file in table.files {
        let entry = data_file(&io, table, file).await;
        entries.entry((false, file.spec, file.epoch)).or_default().push((entry, file.sequence));
    }
    vectors(&io, table, &mut entries).await;
    for (at, delete) in table.deletes.iter().enumerate() {
        let path = format!("{}/data/delete-{at}.parquet", table.root);
        match delete {
            Delete::Positions { spec, tuple, sequence, rows, only } => {
                let mut entry = positions(&io, table, &path, rows).await;
                entry.partition(table.widened(*spec, table.now(), tuple)).partition_spec_id(*spec as i32);
                entry.referenced_data_file(only.map(|file| table.files[file].path.clone()));
                entries.entry((true, *spec, table.now())).or_default().push((entry, *sequence));
            }
            Delete::Equality { spec, tuple, epoch, sequence, keys, rows } => {
                let mut entry = parquet(&io, table, &path, rows).await;
                metrics(&mut entry, rows);
                entry.content(DataContentType::EqualityDeletes).equality_ids(Some(keys.clone()));
                entry.partition(table.widened(*spec, *epoch, tuple)).partition_spec_id(*spec as i32);
                entries.entry((true, *spec, *epoch)).or_default().push((entry, *sequence));
            }
            Delete::Vector { .. } => {}
        }
    }
    let mut manifests = Vec::new();
    for ((deletes, spec, epoch), entries) in entries {
        manifests.push(manifest(&io, table, (deletes, spec, epoch), entries).await);
    }
    let list = format!("{}/metadata/snap-1.avro", table.root);
    let writer = io.new_output(&list).unwrap().writer().await.unwrap();
    let mut writer = match table.version {
        FormatVersion::V3 => ManifestListWriter::v3(writer, SNAPSHOT, None, table.sequence, Some(0)),
        FormatVersion::V1 => ManifestListWriter::v1(writer, SNAPSHOT, None),
        FormatVersion::V2 => ManifestListWriter::v2(writer, SNAPSHOT, None, table.sequence),
    };
    writer.add_manifests(manifests.into_iter()).unwrap();
    writer.close().await.unwrap();
    let location = format!("{}/metadata/v1.metadata.json", table.root);
    put(&io, &location, serde_json::to_vec(&metadata(table, &list)).unwrap()).await;
    location
}

impl Table<'_> {
    /// A partition tuple with the types of a later schema.
    fn widened(&self, spec: usize, epoch: usize, tuple: &Struct) -> Struct {
        let types = self.specs[spec].partition_type(&self.schemas[epoch]).unwrap();
        let wide = |(field, value): (&NestedFieldRef, Option<&Literal>)| match (field.field_type.as_ref(), value) {
            (Type::Primitive(PrimitiveType::Long), Some(Literal::Primitive(PrimitiveLiteral::Int(value)))) => {
                Some(Literal::long(i64::from(*value)))
            }
            (_, value) => value.cloned(),
        };
        types.fields().iter().zip(tuple.iter()).map(wide).collect()
    }
}

async fn put(io: &FileIO, location: &str, bytes: Vec<u8>) {
    io.new_output(location).unwrap().write(Bytes::from(bytes)).await.unwrap();
}

/// A Parquet file, and what a manifest says of any.
async fn parquet(io: &FileIO, table: &Table<'_>, path: &str, rows: &RecordBatch) -> DataFileBuilder {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(table.writer_properties())).unwrap();
    writer.write(rows).unwrap();
    let written = writer.close().unwrap();
    let offsets = written.row_groups().iter().map(|group| group.column(0).byte_range().0 as i64).collect();
    let mut entry = DataFileBuilder::default();
    entry
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .record_count(rows.num_rows() as u64)
        .file_size_in_bytes(bytes.len() as u64)
        .split_offsets(Some(offsets));
    put(io, path, bytes).await;
    entry
}

async fn data_file(io: &FileIO, table: &Table<'_>, file: &DataFile) -> DataFileBuilder {
    let schema = file.rows.schema();
    let absent = |at: &usize| file.absent.contains(&field_id(schema.field(*at)));
    let stored: Vec<usize> = (0..schema.fields().len()).filter(|at| !absent(at)).collect();
    let rows = file.rows.project(&stored).unwrap();
    let mut entry = parquet(io, table, &file.path, &rows).await;
    metrics(&mut entry, &rows);
    entry.content(DataContentType::Data).partition(file.tuple.clone()).partition_spec_id(file.spec as i32);
    (table.edit)(&mut entry);
    entry
}

async fn positions(io: &FileIO, table: &Table<'_>, path: &str, rows: &[(usize, u64)]) -> DataFileBuilder {
    let mut rows: Vec<(&str, i64)> =
        rows.iter().map(|(file, position)| (table.files[*file].path.as_str(), *position as i64)).collect();
    rows.sort_unstable();
    let fields = [(FILE_PATH, "file_path", PrimitiveType::String), (POS, "pos", PrimitiveType::Long)];
    let fields = fields.map(|(id, name, ty)| Arc::new(NestedField::required(id, name, Type::Primitive(ty))));
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(path, _)| path))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, position)| *position))),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema_to_arrow_schema(&schema).unwrap()), columns).unwrap();
    let mut entry = parquet(io, table, path, &batch).await;
    let bound = |row: Option<&(&str, i64)>| HashMap::from([(FILE_PATH, Datum::string(row.unwrap().0))]);
    entry.content(DataContentType::PositionDeletes).lower_bounds(bound(rows.first())).upper_bounds(bound(rows.last()));
    entry
}

/// All deletion vectors of the table, in one Puffin file.
async fn vectors(io: &FileIO, table: &Table<'_>, entries: &mut Entries) {
    let (mut bytes, mut places, mut blobs) = (b"PFA1".to_vec(), Vec::new(), Vec::new());
    for delete in table.deletes {
        let Delete::Vector { file, sequence, positions } = delete else { continue };
        let (blob, path) = (vector(positions), &table.files[*file].path);
        blobs.push(json!({
            "type": "deletion-vector-v1", "fields": [POS], "snapshot-id": -1, "sequence-number": -1,
            "offset": bytes.len(), "length": blob.len(),
            "properties": {"referenced-data-file": path, "cardinality": positions.len().to_string()},
        }));
        places.push((*file, *sequence, bytes.len(), blob.len(), positions.len()));
        bytes.extend(blob);
    }
    let footer = json!({"blobs": blobs}).to_string();
    bytes.extend_from_slice(b"PFA1");
    bytes.extend_from_slice(footer.as_bytes());
    bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(b"PFA1");
    let path = format!("{}/data/vectors.puffin", table.root);
    for (file, sequence, offset, size, count) in places {
        let data = &table.files[file];
        let mut entry = DataFileBuilder::default();
        entry
            .content(DataContentType::PositionDeletes)
            .file_path(path.clone())
            .file_format(DataFileFormat::Puffin)
            .partition(table.widened(data.spec, table.now(), &data.tuple))
            .partition_spec_id(data.spec as i32)
            .record_count(count as u64)
            .file_size_in_bytes(bytes.len() as u64)
            .referenced_data_file(Some(data.path.clone()))
            .content_offset(Some(offset as i64))
            .content_size_in_bytes(Some(size as i64));
        entries.entry((true, data.spec, table.now())).or_default().push((entry, sequence));
    }
    put(io, &path, bytes).await;
}

/// A `deletion-vector-v1` blob of fewer than 4,096 positions below 65,536: one bitmap with one container, an array.
fn vector(positions: &[u64]) -> Vec<u8> {
    let mut body = vec![0xd1, 0xd3, 0x39, 0x64];
    body.extend(1_u64.to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    for number in [12_346_u32, 1] {
        body.extend(number.to_le_bytes());
    }
    for number in [0, positions.len() as u16 - 1] {
        body.extend(number.to_le_bytes());
    }
    // Where in the bitmap the container begins.
    body.extend(16_u32.to_le_bytes());
    positions.iter().for_each(|position| body.extend((*position as u16).to_le_bytes()));
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    [(body.len() as u32).to_be_bytes().to_vec(), body, sum.sum().to_be_bytes().to_vec()].concat()
}

async fn manifest(
    io: &FileIO,
    table: &Table<'_>,
    (deletes, spec, epoch): (bool, usize, usize),
    entries: Vec<(DataFileBuilder, i64)>,
) -> ManifestFile {
    let kind = if deletes { "deletes" } else { "data" };
    let output = io.new_output(format!("{}/metadata/{kind}-{spec}-{epoch}.avro", table.root)).unwrap();
    let schema = Arc::clone(&table.schemas[epoch]);
    let writer = ManifestWriterBuilder::new(output, Some(SNAPSHOT), schema, table.specs[spec].clone());
    let mut writer = match (table.version, deletes) {
        (FormatVersion::V3, true) => writer.build_v3_deletes(),
        (FormatVersion::V3, false) => writer.build_v3_data(),
        (FormatVersion::V1, _) => writer.build_v1(),
        (_, true) => writer.build_v2_deletes(),
        (_, false) => writer.build_v2_data(),
    };
    let newest = entries.iter().map(|(_, sequence)| *sequence).max();
    for (entry, sequence) in entries {
        let file = entry.build().unwrap();
        let added = if table.gone.iter().any(|at| table.files[*at].path == file.file_path()) {
            writer.add_delete_file(file, sequence, Some(sequence))
        } else {
            writer.add_existing_file(file, SNAPSHOT, sequence, Some(sequence))
        };
        added.unwrap();
    }
    let mut manifest = writer.write_manifest_file().await.unwrap();
    manifest.sequence_number = if table.version == FormatVersion::V1 { 0 } else { newest.unwrap() };
    manifest
}

fn metadata(table: &Table<'_>, list: &str) -> serde_json::Value {
    let rows: usize = table.files.iter().map(|file| file.rows.num_rows()).sum();
    let columns = table.schemas.iter().map(|schema| schema.highest_field_id()).max();
    let mut snapshot = json!({
        "snapshot-id": SNAPSHOT, "sequence-number": table.sequence, "timestamp-ms": 1, "manifest-list": list,
        "summary": {"operation": "overwrite"}, "schema-id": table.now(),
    });
    let mut metadata = json!({
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": table.root, "last-sequence-number": table.sequence, "last-updated-ms": 1,
        "last-column-id": columns, "current-schema-id": table.now(),
        "schemas": table.schemas.iter().map(AsRef::as_ref).collect::<Vec<&Schema>>(),
        "partition-specs": table.specs, "default-spec-id": table.specs.len() - 1, "last-partition-id": 1999,
        "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
        "current-snapshot-id": SNAPSHOT, "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
        "properties": {}, "snapshot-log": [], "metadata-log": [], "format-version": 2,
    });
    if table.version == FormatVersion::V1 {
        metadata["format-version"] = 1.into();
    }
    if table.version == FormatVersion::V3 {
        metadata["format-version"] = 3.into();
        metadata["next-row-id"] = rows.into();
        snapshot["first-row-id"] = 0.into();
        snapshot["added-rows"] = rows.into();
    }
    metadata["snapshots"] = json!([snapshot]);
    metadata
}
