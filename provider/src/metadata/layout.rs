//! Under which schemas was a manifest written?
//!
//! The manifests of a table share their headers: the writer's Avro schema, the table's schema and the partition spec are
//! read once and shared by all manifests that have the same ones.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    FormatVersion, ManifestContentType, ManifestMetadata, PartitionSpec, PrimitiveType, SchemaRef, Transform,
};
use parking_lot::Mutex;
use serde_json::Value as Json;

use super::avro::{self, Meta, Type};
use super::carry_manifest::carry;
use super::ids;

/// What the header of a manifest says.
#[derive(Debug)]
pub(super) struct Layout {
    /// The writer's schema of an entry; fields without ids were given them by name.
    pub(super) entry: Type,
    /// Of an entry's data file.
    pub(super) file: Type,
    pub(super) schema: SchemaRef,
    pub(super) spec: PartitionSpec,
    pub(super) version: FormatVersion,
    /// What the files are that it names.
    pub(super) content: ManifestContentType,
    /// The partition fields: id and type of value, in the order of the tuple.
    pub(super) tuple: Vec<TupleField>,
}

#[derive(Debug)]
pub(super) struct TupleField {
    pub(super) id: i32,
    pub(super) name: String,
    pub(super) ty: PrimitiveType,
    /// The transform is `void`: there is no value, whether or not it is written.
    pub(super) void: bool,
}

/// Headers that were read lately. A table has few: one a schema and spec.
#[derive(Debug, Default)]
pub(super) struct Layouts(Mutex<HashMap<Meta, Arc<Layout>>>);

/// Headers kept: of some hundred kB each at most, usually of some ten.
const KEPT: usize = 64;

impl Layouts {
    pub(super) fn of(&self, meta: &Meta) -> Result<Arc<Layout>, String> {
        if let Some(known) = self.0.lock().get(meta) {
            return Ok(Arc::clone(known));
        }
        let layout = Arc::new(Layout::read(meta)?);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(meta.clone(), Arc::clone(&layout));
        Ok(layout)
    }
}

impl Layout {
    /// Reads a header as it is; where something in it is in the way, without that.
    fn read(meta: &Meta) -> Result<Layout, String> {
        Layout::parse(meta).or_else(|refused| {
            let mut carried = meta.clone();
            carry(&mut carried).and_then(|()| Layout::parse(&carried)).map_err(|_| refused)
        })
    }

    fn parse(meta: &Meta) -> Result<Layout, String> {
        let mut all: HashMap<String, Vec<u8>> = meta.clone().into_iter().collect();
        if let Some(spec) = all.get_mut("partition-spec") {
            *spec = with_field_ids(spec)?;
        }
        let read = ManifestMetadata::parse(&all).map_err(|e| e.to_string())?;
        let partition = read.partition_spec.partition_type(&read.schema).map_err(|e| e.to_string())?;
        let mut tuple = Vec::new();
        for (field, of) in partition.fields().iter().zip(read.partition_spec.fields()) {
            if of.transform == Transform::Unknown {
                // The library says that its values are text; they are what the writer says.
                return Err(format!("the transform of its partition field `{}` is not known", field.name));
            }
            let ty = field.field_type.as_primitive_type();
            let ty = ty.ok_or_else(|| format!("its partition field `{}` has no primitive type", field.name))?;
            let (name, void) = (field.name.clone(), of.transform == Transform::Void);
            tuple.push(TupleField { id: field.id, name, ty: ty.clone(), void });
        }
        let mut entry = avro::schema(meta)?;
        let named = |name: &str| {
            let field = tuple.iter().find(|field| field.name == name || avro::legal_name(&field.name) == name);
            field.map(|field| field.id)
        };
        ids::number_entry(&mut entry, &named);
        let file = ids::data_file(&entry).ok_or("its schema has no data file")?.clone();
        Ok(Layout {
            entry,
            file,
            schema: read.schema,
            spec: read.partition_spec,
            version: read.format_version,
            content: read.content,
            tuple,
        })
    }
}

/// Format version 1 counts partition field ids from 1000 and need not write them.
fn with_field_ids(spec: &[u8]) -> Result<Vec<u8>, String> {
    let mut spec: Json = serde_json::from_slice(spec).map_err(|e| format!("its partition spec is not JSON: {e}"))?;
    for (position, field) in spec.as_array_mut().into_iter().flatten().enumerate() {
        if let Some(field) = field.as_object_mut() {
            field.entry("field-id").or_insert_with(|| Json::from(1000 + position));
        }
    }
    Ok(spec.to_string().into_bytes())
}
