//! What happens to a random table: columns and specs that change, data files, and deletes among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{cast, concat, take};
use daygrain_tests::reference::Rng;
use iceberg::arrow::{RecordBatchPartitionSplitter, schema_to_arrow_schema};
use iceberg::spec::{
    FormatVersion, NestedField, PartitionSpec, PrimitiveType, Schema, SchemaRef, Struct, Transform, Type,
    UnboundPartitionField,
};

use super::super::tables::{KINDS, Kind, pick};
use crate::foreign::{DataFile, Delete, Table};

/// The column that numbers rows; it is never changed.
const ID: i32 = 1;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) id: i32,
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Columns as they were for a while.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) columns: Vec<Column>,
    pub(super) schema: SchemaRef,
}

#[derive(Debug)]
pub(super) struct Story {
    pub(super) root: String,
    pub(super) version: FormatVersion,
    pub(super) epochs: Vec<Epoch>,
    pub(super) specs: Vec<PartitionSpec>,
    pub(super) files: Vec<DataFile>,
    pub(super) deletes: Vec<Delete>,
    pub(super) sequence: i64,
    /// Columns by id as they were last: also those that were dropped.
    pub(super) last: BTreeMap<i32, Column>,
    /// Ids of partition fields by source and transform.
    fields: BTreeMap<(i32, String), i32>,
    next_row: i64,
}

impl Story {
    /// A table below `root`, of up to three epochs.
    pub(super) fn random(rng: &mut Rng, root: String) -> Story {
        let mut story = Story {
            root,
            version: pick(rng, &[FormatVersion::V2, FormatVersion::V3]),
            epochs: Vec::new(),
            specs: Vec::new(),
            files: Vec::new(),
            deletes: Vec::new(),
            sequence: 0,
            last: BTreeMap::new(),
            fields: BTreeMap::new(),
            next_row: 0,
        };
        let mut columns = vec![Column { id: ID, name: "id".to_owned(), kind: Kind::Long }];
        for id in 2..5 + rng.below(3) as i32 {
            columns.push(Column { id, name: format!("c{id}"), kind: pick(rng, &KINDS) });
        }
        for epoch in 0..1 + rng.below(3) {
            if epoch > 0 {
                (0..1 + rng.below(2)).for_each(|_| story.change(rng, &mut columns));
            }
            story.begin(columns.clone());
            if epoch == 0 || rng.below(2) == 0 {
                story.partition(rng);
            }
            for _ in 0..1 + rng.below(2) {
                story.append(rng);
            }
            for _ in 0..rng.below(4) {
                story.delete(rng);
            }
        }
        story
    }

    /// What is to be written.
    pub(super) fn table(&self) -> Table<'_> {
        let schemas: Vec<SchemaRef> = self.epochs.iter().map(|epoch| Arc::clone(&epoch.schema)).collect();
        let table = Table::of(&self.root, &schemas, &self.specs, &self.files);
        Table { version: self.version, deletes: &self.deletes, sequence: self.sequence, ..table }
    }

    fn begin(&mut self, columns: Vec<Column>) {
        let field = |column: &Column| {
            Arc::new(NestedField::optional(column.id, &column.name, Type::Primitive(column.kind.iceberg())))
        };
        let schema = Schema::builder().with_schema_id(self.epochs.len() as i32).with_fields(columns.iter().map(field));
        self.last.extend(columns.iter().map(|column| (column.id, column.clone())));
        self.epochs.push(Epoch { columns, schema: Arc::new(schema.build().unwrap()) });
    }

    /// A column is added, renamed, dropped or widened.
    fn change(&self, rng: &mut Rng, columns: &mut Vec<Column>) {
        let at = 1 + rng.below(columns.len() as u64 - 1) as usize;
        // A name that nobody has now: a new one, or one of a column that was dropped or renamed.
        let old = self.epochs.iter().flat_map(|epoch| &epoch.columns).map(|column| column.name.clone());
        let free: Vec<String> = old.filter(|name| columns.iter().all(|column| column.name != *name)).collect();
        let new = self.last.keys().chain(columns.iter().map(|column| &column.id)).max().map_or(ID, |id| id + 1);
        let name = match free.is_empty() || rng.below(2) == 0 {
            true => format!("n{}_{new}", self.epochs.len()),
            false => free[rng.below(free.len() as u64) as usize].clone(),
        };
        let name = if columns.iter().any(|column| column.name == name) { format!("{name}_") } else { name };
        let source = self.fields.keys().any(|(source, _)| *source == columns[at].id);
        match rng.below(5) {
            0 => columns.push(Column { id: new, name, kind: pick(rng, &KINDS) }),
            1 => columns[at].name = name,
            2 if !source && columns.len() > 3 => drop(columns.remove(at)),
            _ => match columns[at].kind {
                Kind::Int => columns[at].kind = Kind::Long,
                Kind::Float => columns[at].kind = Kind::Double,
                _ => columns.push(Column { id: new, name, kind: pick(rng, &KINDS) }),
            },
        }
    }

    pub(super) fn now(&self) -> usize {
        self.epochs.len() - 1
    }

    /// From now on rows are filed by another spec, which may have no fields.
    fn partition(&mut self, rng: &mut Rng) {
        let epoch = self.epochs[self.now()].clone();
        let mut sources: Vec<&Column> = epoch.columns.iter().filter(|c| c.id != ID).collect();
        let mut fields = Vec::new();
        for _ in 0..pick(rng, &[0, 1, 1, 1, 2]) {
            let column = sources.remove(rng.below(sources.len() as u64) as usize);
            let transforms = column.kind.transforms();
            if transforms.is_empty() {
                continue;
            }
            let transform = pick(rng, transforms);
            let next = 1000 + self.fields.len() as i32;
            let id = *self.fields.entry((column.id, transform.to_string())).or_insert(next);
            fields.push((column.id, id, transform));
        }
        self.add_spec(&fields);
    }

    fn add_spec(&mut self, fields: &[(i32, i32, Transform)]) -> usize {
        let mut spec = PartitionSpec::builder(Arc::clone(&self.epochs[self.now()].schema));
        spec = spec.with_spec_id(self.specs.len() as i32);
        for (source_id, id, transform) in fields {
            let name = format!("p{id}");
            let field =
                UnboundPartitionField { source_id: *source_id, field_id: Some(*id), name, transform: *transform };
            spec = spec.add_unbound_field(field).unwrap();
        }
        self.specs.push(spec.build().unwrap());
        self.specs.len() - 1
    }

    /// The spec without fields: what is stored with it is about all partitions.
    pub(super) fn everywhere(&mut self) -> usize {
        let unpartitioned = self.specs.iter().position(PartitionSpec::is_unpartitioned);
        unpartitioned.unwrap_or_else(|| self.add_spec(&[]))
    }

    /// A commit of rows, filed by the newest spec that rows are filed by.
    fn append(&mut self, rng: &mut Rng) {
        self.sequence += 1;
        let (epoch, spec) = (self.now(), self.specs.len() - 1);
        let Epoch { columns, schema } = self.epochs[epoch].clone();
        let rows = 1 + rng.below(30) as usize;
        let ids = Int64Array::from_iter_values(self.next_row..self.next_row + rows as i64);
        self.next_row += rows as i64;
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(ids)];
        for column in &columns[1..] {
            let nulls = pick(rng, &[0, 0, 2, 10]);
            arrays.push(column.kind.values(rng, rows, nulls));
        }
        let batch = RecordBatch::try_new(Arc::new(schema_to_arrow_schema(&schema).unwrap()), arrays).unwrap();
        for (tuple, rows) in split(&schema, &self.specs[spec], batch) {
            let identity = self.specs[spec].fields().iter().filter(|field| field.transform == Transform::Identity);
            let absent = identity.map(|field| field.source_id).filter(|_| rng.below(6) == 0).collect();
            let path = format!("{}/data/{}.parquet", self.root, self.files.len());
            self.files.push(DataFile { path, epoch, spec, tuple, sequence: self.sequence, rows, absent });
        }
    }

    /// The values of a column in a data file, with the type that the column had last; null where there was no such column.
    pub(super) fn values(&self, file: &DataFile, id: i32) -> ArrayRef {
        let kind = self.last[&id].kind.arrow();
        match self.epochs[file.epoch].columns.iter().position(|column| column.id == id) {
            Some(at) => cast(file.rows.column(at), &kind).unwrap(),
            None => new_null_array(&kind, file.rows.num_rows()),
        }
    }

    /// The rows that `live` lets pass, in the columns of the last epoch.
    pub(super) fn rows(&self, live: &[Vec<bool>]) -> RecordBatch {
        let columns = &self.epochs[self.now()].columns;
        let arrays = columns.iter().map(|column| {
            let parts = self.files.iter().zip(live).map(|(file, live)| {
                let kept = (0_u32..).zip(live).filter(|(_, live)| **live).map(|(at, _)| at);
                take(&self.values(file, column.id), &UInt32Array::from_iter_values(kept), None).unwrap()
            });
            let parts: Vec<ArrayRef> = parts.collect();
            concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).unwrap()
        });
        let schema = schema_to_arrow_schema(&self.epochs[self.now()].schema).unwrap();
        let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_metadata([].into())).collect();
        RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), arrays.collect()).unwrap()
    }
}

/// Rows by partition, in the order of their first rows.
fn split(schema: &SchemaRef, spec: &PartitionSpec, batch: RecordBatch) -> Vec<(Struct, RecordBatch)> {
    if spec.is_unpartitioned() {
        return vec![(Struct::empty(), batch)];
    }
    let spec = Arc::new(spec.clone());
    let splitter = RecordBatchPartitionSplitter::try_new_with_computed_values(Arc::clone(schema), spec).unwrap();
    let mut parts: Vec<_> =
        splitter.split(&batch).unwrap().into_iter().map(|(key, rows)| (key.data().clone(), rows)).collect();
    let first = |rows: &RecordBatch| {
        let ids = rows.column(0).as_any().downcast_ref::<Int64Array>().map(|ids| ids.value(0));
        ids.unwrap_or_default()
    };
    parts.sort_by_key(|(_, rows)| first(rows));
    parts
}

impl Kind {
    fn iceberg(self) -> PrimitiveType {
        match self {
            Kind::Bool => PrimitiveType::Boolean,
            Kind::Int => PrimitiveType::Int,
            Kind::Long => PrimitiveType::Long,
            Kind::Float => PrimitiveType::Float,
            Kind::Double => PrimitiveType::Double,
            Kind::Decimal => PrimitiveType::Decimal { precision: 9, scale: 2 },
            Kind::Date => PrimitiveType::Date,
            Kind::Local => PrimitiveType::Timestamp,
            Kind::Zoned => PrimitiveType::Timestamptz,
            Kind::Text => PrimitiveType::String,
        }
    }

    /// No truncation of integers: that of the least one overflows in the crate that files rows here.
    fn transforms(self) -> &'static [Transform] {
        use Transform::{Bucket, Day, Hour, Identity, Month, Truncate, Year};
        match self {
            Kind::Bool => &[Identity],
            Kind::Int | Kind::Long => &[Identity, Bucket(3)],
            Kind::Float | Kind::Double => &[],
            Kind::Decimal => &[Identity, Truncate(50), Bucket(3)],
            Kind::Date => &[Identity, Year, Month, Day, Bucket(3)],
            Kind::Local | Kind::Zoned => &[Year, Month, Day, Hour, Bucket(3)],
            Kind::Text => &[Identity, Truncate(2), Bucket(3)],
        }
    }
}
