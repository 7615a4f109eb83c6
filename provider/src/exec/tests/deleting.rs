//! Delete files, written by hand: what other engines write.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, Literal, NestedField, PrimitiveType, Schema, Struct,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use roaring::RoaringBitmap;

use super::fixture::{Table, column, metrics};
use crate::schema::stored_arrow;

/// A `deletion-vector-v1` blob.
pub(in crate::exec) fn vector_blob(positions: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bitmaps: BTreeMap<u32, RoaringBitmap> = BTreeMap::new();
    for position in positions {
        bitmaps.entry((position >> 32) as u32).or_default().insert(position as u32);
    }
    let mut body = vec![0xd1, 0xd3, 0x39, 0x64];
    body.extend((bitmaps.len() as u64).to_le_bytes());
    for (key, mut bitmap) in bitmaps {
        bitmap.optimize();
        body.extend(key.to_le_bytes());
        bitmap.serialize_into(&mut body).unwrap();
    }
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    [(body.len() as u32).to_be_bytes().to_vec(), body, sum.sum().to_be_bytes().to_vec()].concat()
}

/// Where equality deletes apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scope {
    /// The table has no partitions.
    Table,
    Partition(i32),
    /// The spec without fields of a partitioned table.
    Everywhere,
}

impl Scope {
    fn spec(self) -> i32 {
        i32::from(self == Scope::Everywhere)
    }

    fn tuple(self) -> Struct {
        match self {
            Scope::Partition(value) => Struct::from_iter([Some(Literal::int(value))]),
            Scope::Table | Scope::Everywhere => Struct::empty(),
        }
    }
}

impl Table {
    /// A position delete file that names positions of data files; its row groups are small.
    pub(super) async fn delete_positions(&mut self, scope: Scope, sequence: i64, rows: &[(usize, i64)]) {
        let mut rows: Vec<(String, i64)> =
            rows.iter().map(|(file, position)| (self.files[*file].file_path().to_owned(), *position)).collect();
        rows.sort();
        let schema = schema(vec![
            column(i32::MAX - 101, "file_path", PrimitiveType::String),
            column(i32::MAX - 102, "pos", PrimitiveType::Long),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(path, _)| path))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, position)| *position))),
        ];
        let batch = RecordBatch::try_new(Arc::new(stored_arrow(&schema).unwrap()), columns).unwrap();
        let bound = |path: Option<&(String, i64)>| [(i32::MAX - 101, Datum::string(&path.unwrap().0))].into();
        let (lower, upper) = (bound(rows.first()), bound(rows.last()));
        let mut file = self.delete_file(&batch, scope).await;
        file.content(DataContentType::PositionDeletes).lower_bounds(lower).upper_bounds(upper);
        self.deletes.push((file.build().unwrap(), sequence, scope.spec()));
    }

    /// An equality delete file with the columns `fields` of which `ids` are compared.
    pub(super) async fn delete_equal(
        &mut self,
        scope: Scope,
        sequence: i64,
        ids: &[i32],
        (fields, columns): (Vec<NestedField>, Vec<ArrayRef>),
    ) {
        let schema = schema(fields);
        let batch = RecordBatch::try_new(Arc::new(stored_arrow(&schema).unwrap()), columns).unwrap();
        let mut file = self.delete_file(&batch, scope).await;
        metrics(&schema, &mut file, &batch);
        file.content(DataContentType::EqualityDeletes).equality_ids(Some(ids.to_vec()));
        self.deletes.push((file.build().unwrap(), sequence, scope.spec()));
    }

    /// Deletion vectors of data files, all in one file. `cardinality` is what the manifest says of the first.
    pub(super) async fn delete_vectors(
        &mut self,
        scope: Scope,
        sequence: i64,
        vectors: &[(usize, Vec<u64>)],
        cardinality: Option<u64>,
    ) {
        let mut bytes = b"PFA1".to_vec();
        let mut places = Vec::new();
        for (file, positions) in vectors {
            let blob = vector_blob(positions.iter().copied());
            places.push((*file, bytes.len(), blob.len(), positions.len() as u64));
            bytes.extend(blob);
        }
        let location = self.at(&format!("data/{}.puffin", self.deletes.len()));
        for (at, (file, offset, size, count)) in places.into_iter().enumerate() {
            let count = cardinality.filter(|_| at == 0).unwrap_or(count);
            let built = DataFileBuilder::default()
                .content(DataContentType::PositionDeletes)
                .file_path(location.clone())
                .file_format(DataFileFormat::Puffin)
                .partition(scope.tuple())
                .record_count(count)
                .file_size_in_bytes(bytes.len() as u64)
                .referenced_data_file(Some(self.files[file].file_path().to_owned()))
                .content_offset(Some(offset as i64))
                .content_size_in_bytes(Some(size as i64))
                .build();
            self.deletes.push((built.unwrap(), sequence, scope.spec()));
        }
        self.put(&location, bytes).await;
    }

    async fn delete_file(&self, batch: &RecordBatch, scope: Scope) -> DataFileBuilder {
        let mut bytes = Vec::new();
        let small = WriterProperties::builder().set_max_row_group_row_count(Some(16)).build();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(small)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        let location = self.at(&format!("data/delete-{}.parquet", self.deletes.len()));
        let mut file = DataFileBuilder::default();
        file.file_path(location.clone())
            .file_format(DataFileFormat::Parquet)
            .partition(scope.tuple())
            .record_count(batch.num_rows() as u64)
            .file_size_in_bytes(bytes.len() as u64);
        self.put(&location, bytes).await;
        file
    }
}

fn schema(fields: Vec<NestedField>) -> Schema {
    Schema::builder().with_fields(fields.into_iter().map(Arc::new)).build().unwrap()
}
