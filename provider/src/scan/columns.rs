//! Which columns does every table have besides its own?
//!
//! | column | | from |
//! |---|---|---|
//! | `_file`, `_pos` | where the row is stored | the manifest, the file |
//! | `_spec_id`, `_partition` | how its file was partitioned | the manifest |
//! | `_row_id`, `_last_updated_sequence_number` | which row it is, and since when | the file, else the manifest |
//! | `_change_type`, `_change_ordinal`, `_commit_snapshot_id` | what became of it | the snapshots between two |
//!
//! Table specification, "Reserved Field IDs" and "Row Lineage".

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema};
use datafusion::common::ScalarValue;
use iceberg::arrow::arrow_type_to_type;
use iceberg::spec::{NestedField, PrimitiveLiteral, PrimitiveType, Schema, TableMetadata, Transform, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::{Task, View, to_scalar};
use crate::error::{Code, Error, Result};
use crate::predicate::Value;
use crate::schema::{field_id, stored_arrow, to_arrow};

/// A column that is no column of the table, and that a query sees only if it names it.
// @spec P9
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetadataColumn {
    /// `_file string`: the data file's path, as the table's metadata has it.
    File,
    /// `_pos long`: the row's position in it, from 0.
    Pos,
    /// `_spec_id int`: the partition spec that wrote it.
    SpecId,
    /// `_partition struct`: the fields of all specs of the table; those of other specs than the file's are null.
    Partition,
    /// `_row_id long`: null for files without row lineage.
    RowId,
    /// `_last_updated_sequence_number long`
    LastUpdatedSequenceNumber,
    /// `_change_type string`: `insert` or `delete`.
    ChangeType,
    /// `_change_ordinal int`: the snapshot's place in the order of changes, from 0.
    ChangeOrdinal,
    /// `_commit_snapshot_id long`
    CommitSnapshotId,
}

use MetadataColumn as M;

impl MetadataColumn {
    /// Those that a query over any table may name.
    pub const NAMEABLE: [MetadataColumn; 6] =
        [M::File, M::Pos, M::SpecId, M::Partition, M::RowId, M::LastUpdatedSequenceNumber];
    /// Those of the rows that changed between two snapshots.
    pub const OF_CHANGES: [MetadataColumn; 3] = [M::ChangeType, M::ChangeOrdinal, M::CommitSnapshotId];

    /// The reserved name.
    pub fn name(self) -> &'static str {
        match self {
            M::File => "_file",
            M::Pos => "_pos",
            M::SpecId => "_spec_id",
            M::Partition => "_partition",
            M::RowId => "_row_id",
            M::LastUpdatedSequenceNumber => "_last_updated_sequence_number",
            M::ChangeType => "_change_type",
            M::ChangeOrdinal => "_change_ordinal",
            M::CommitSnapshotId => "_commit_snapshot_id",
        }
    }

    /// The reserved field id.
    pub fn id(self) -> i32 {
        match self {
            M::File => i32::MAX - 1,
            M::Pos => i32::MAX - 2,
            M::SpecId => i32::MAX - 4,
            M::Partition => i32::MAX - 5,
            M::ChangeType => i32::MAX - 104,
            M::ChangeOrdinal => i32::MAX - 105,
            M::CommitSnapshotId => i32::MAX - 106,
            M::RowId => i32::MAX - 107,
            M::LastUpdatedSequenceNumber => i32::MAX - 108,
        }
    }

    /// The column that a query may name so: exactly this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMEABLE.into_iter().find(|column| column.name() == name)
    }

    /// The column with a field id.
    pub fn with_id(id: i32) -> Option<Self> {
        Self::NAMEABLE.into_iter().chain(Self::OF_CHANGES).find(|column| column.id() == id)
    }

    /// The column that a field of a view's Arrow schema is.
    pub fn of(field: &Field) -> Option<Self> {
        Self::with_id(field_id(field)?)
    }

    /// Whether rows of one file may differ in it.
    pub fn by_row(self) -> bool {
        matches!(self, M::Pos | M::RowId | M::LastUpdatedSequenceNumber)
    }

    /// Its type in Iceberg, where predicates on it can prune: it has one value in a file, which a manifest tells.
    fn prunes(self) -> Option<PrimitiveType> {
        match self {
            M::File => Some(PrimitiveType::String),
            M::SpecId => Some(PrimitiveType::Int),
            _ => None,
        }
    }

    fn field(self, partition: &Fields) -> Field {
        let (data_type, nullable) = match self {
            M::File | M::ChangeType => (DataType::Utf8View, false),
            M::Pos | M::CommitSnapshotId => (DataType::Int64, false),
            M::SpecId | M::ChangeOrdinal => (DataType::Int32, false),
            M::Partition => (DataType::Struct(partition.clone()), false),
            M::RowId | M::LastUpdatedSequenceNumber => (DataType::Int64, true),
        };
        let id = (PARQUET_FIELD_ID_META_KEY.to_owned(), self.id().to_string());
        Field::new(self.name(), data_type, nullable).with_metadata(HashMap::from([id]))
    }
}

impl View {
    /// The metadata columns that this table's queries may name: all but those whose name a column of the table has, and
    /// `_partition` only if the table was ever partitioned.
    pub fn metadata_columns(&self) -> Vec<MetadataColumn> {
        let is_free = |column: &M| self.arrow.column_with_name(column.name()).is_none();
        let partitioned = || !union_of_specs(&self.metadata).is_empty();
        let all = M::NAMEABLE.into_iter().filter(is_free);
        all.filter(|column| *column != M::Partition || partitioned()).collect()
    }

    /// The same table with metadata columns after its own.
    ///
    /// # Errors
    /// Only for a partition type that Arrow has no equivalent of.
    pub fn with_metadata_columns(&self, columns: &[MetadataColumn]) -> Result<View> {
        if columns.is_empty() {
            return Ok(self.clone());
        }
        let partition = match columns.contains(&M::Partition) {
            true => partition_fields(&self.metadata)?,
            false => Fields::empty(),
        };
        let mut arrow: Vec<FieldRef> = self.arrow.fields().iter().cloned().collect();
        let mut fields = self.schema.as_struct().fields().to_vec();
        for column in columns {
            arrow.push(Arc::new(column.field(&partition)));
            if let Some(data_type) = column.prunes() {
                let field = NestedField::required(column.id(), column.name(), Type::Primitive(data_type));
                fields.push(Arc::new(field));
            }
        }
        let schema = Schema::builder().with_schema_id(self.schema.schema_id()).with_fields(fields).build();
        let schema =
            schema.map_err(|e| Error::new(Code::Internal, "metadata columns do not fit the table").source(e))?;
        Ok(View { arrow: Arc::new(ArrowSchema::new(arrow)), schema: Arc::new(schema), ..self.clone() })
    }
}

/// The fields of all partition specs, newest spec first, each once: id, name, type. What a dropped column or an unknown
/// transform gave has no type and is left out.
fn union_of_specs(metadata: &TableMetadata) -> Vec<(i32, String, PrimitiveType)> {
    let mut specs: Vec<_> = metadata.partition_specs_iter().collect();
    specs.sort_by_key(|spec| std::cmp::Reverse(spec.spec_id()));
    let source = |id: i32| {
        let current = metadata.current_schema().field_by_id(id);
        current.or_else(|| metadata.schemas_iter().find_map(|schema| schema.field_by_id(id)))
    };
    let mut union: Vec<(i32, String, PrimitiveType)> = Vec::new();
    for field in specs.iter().flat_map(|spec| spec.fields()) {
        if field.transform == Transform::Void || union.iter().any(|(id, ..)| *id == field.field_id) {
            continue;
        }
        let result = source(field.source_id).and_then(|s| field.transform.result_type(&s.field_type).ok());
        let Some(Type::Primitive(result)) = result else { continue };
        let taken = union.iter().any(|(_, name, _)| *name == field.name);
        let name = if taken { format!("{}_{}", field.name, field.field_id) } else { field.name.clone() };
        union.push((field.field_id, name, result));
    }
    union
}

fn partition_fields(metadata: &TableMetadata) -> Result<Fields> {
    let union = union_of_specs(metadata).into_iter();
    let fields = union.map(|(id, name, result)| Arc::new(NestedField::optional(id, name, Type::Primitive(result))));
    let schema = Schema::builder().with_fields(fields).build();
    let schema = schema.map_err(|e| Error::new(Code::MetadataCorrupt, "the partition specs have no type").source(e))?;
    Ok(stored_arrow(&schema)?.fields)
}

impl Task {
    /// What a metadata column is in every row of this file: for [`MetadataColumn::RowId`] the id of its first row, for
    /// [`MetadataColumn::LastUpdatedSequenceNumber`] what a row has that says nothing itself. `None` for positions.
    pub(crate) fn metadata(&self, column: MetadataColumn, data_type: &DataType) -> Result<Option<ScalarValue>> {
        Ok(Some(match column {
            M::File => ScalarValue::Utf8View(Some(self.file_path().to_owned())),
            M::SpecId => ScalarValue::Int32(Some(self.spec_id())),
            M::RowId => ScalarValue::Int64(self.first_row_id()),
            M::LastUpdatedSequenceNumber => ScalarValue::Int64(Some(self.sequence_number())),
            M::Partition => self.partition_scalar(data_type)?,
            M::Pos => return Ok(None),
            M::ChangeType => ScalarValue::Utf8View(self.change.map(|change| change.kind.as_str().to_owned())),
            M::ChangeOrdinal => ScalarValue::Int32(self.change.map(|change| change.ordinal)),
            M::CommitSnapshotId => ScalarValue::Int64(self.change.map(|change| change.snapshot_id)),
        }))
    }

    /// The partition tuple as a value of `_partition`.
    fn partition_scalar(&self, data_type: &DataType) -> Result<ScalarValue> {
        let DataType::Struct(fields) = data_type else {
            return Err(Error::new(Code::Internal, "a partition is a struct"));
        };
        let children = fields.iter().map(|field| {
            let value = self.partition_value(field)?.to_array().map_err(|e| internal(&e))?;
            Ok(value)
        });
        let children: Vec<ArrayRef> = children.collect::<Result<_>>()?;
        let row = StructArray::try_new_with_length(fields.clone(), children, None, 1).map_err(|e| internal(&e))?;
        Ok(ScalarValue::Struct(Arc::new(row)))
    }

    fn partition_value(&self, field: &Field) -> Result<ScalarValue> {
        let spec = &self.partitioning.spec;
        let is_it =
            |f: &iceberg::spec::PartitionField| Some(f.field_id) == field_id(field) && f.transform != Transform::Void;
        let at = spec.fields().iter().position(is_it);
        let literal = at.and_then(|at| self.partition()?.fields().get(at)?.as_ref()?.as_primitive_literal());
        match literal {
            Some(literal) => scalar(&literal, field.data_type()).ok_or_else(|| {
                Error::new(Code::ManifestCorrupt, "a partition value does not fit its type")
                    .with("field", field.name())
                    .with("file", self.file_path())
            }),
            None => ScalarValue::try_new_null(field.data_type()).map_err(|e| internal(&e)),
        }
    }
}

/// A value of a partition tuple as a scalar.
fn scalar(literal: &PrimitiveLiteral, data_type: &DataType) -> Option<ScalarValue> {
    // Arrow has one type for uuids and other values of sixteen bytes.
    let uuid = (*data_type == DataType::FixedSizeBinary(16)).then_some(PrimitiveType::Uuid);
    let primitive = match arrow_type_to_type(data_type) {
        Ok(Type::Primitive(primitive)) => Some(primitive),
        _ => None,
    };
    let value = uuid.into_iter().chain(primitive).find_map(|of| Value::from_literal(literal, &of));
    to_scalar(&value?, data_type)
}

fn internal(error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Internal, "a partition has no value").with("cause", error)
}

/// The view's columns, then those that `schema` has after them.
pub(crate) fn arrow_with(schema: &Schema, view: &View) -> Result<Arc<ArrowSchema>> {
    let own = view.schema.as_struct().fields().len();
    let added = to_arrow(schema)?.fields().iter().skip(own).cloned().collect::<Vec<_>>();
    let fields: Vec<FieldRef> = view.arrow.fields().iter().cloned().chain(added).collect();
    Ok(Arc::new(ArrowSchema::new(fields)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_specification() {
        let ids: Vec<i32> = M::NAMEABLE.into_iter().chain(M::OF_CHANGES).map(M::id).collect();
        assert_eq!(
            ids,
            [
                2_147_483_646,
                2_147_483_645,
                2_147_483_643,
                2_147_483_642,
                2_147_483_540,
                2_147_483_539,
                2_147_483_543,
                2_147_483_542,
                2_147_483_541
            ]
        );
        for column in M::NAMEABLE {
            assert_eq!((M::named(column.name()), M::with_id(column.id())), (Some(column), Some(column)));
        }
        assert_eq!(M::named("_FILE"), None);
    }
}
