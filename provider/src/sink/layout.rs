//! Where does the table's metadata want each row, and in which order?
//!
//! ```text
//! table columns                                        hidden columns, while the sink runs
//! session_id  conversation_id  …  message_created_at │ message_created_at_day
//! └── keys 1, 2, … of the sort                         └── key 0: which file
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef as ArrowSchemaRef};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use iceberg::spec::{
    Literal, NullOrder, PartitionSpecRef, PrimitiveType, SchemaRef, SortDirection, SortOrderRef, StructType,
    TableMetadata, Transform, Type,
};

use super::properties::Properties;
use super::{transform, values};
use crate::error::{Code, Error, Result};

/// Everything about a table that the stages of the sink need, resolved once.
#[derive(Debug)]
pub(super) struct Layout {
    pub table: String,
    pub schema: SchemaRef,
    /// The table's columns as they are written: field ids, plain strings.
    pub columns: ArrowSchemaRef,
    /// The same with the hidden columns behind.
    pub working: ArrowSchemaRef,
    /// How each hidden column is computed.
    pub hidden: Vec<Hidden>,
    pub spec: PartitionSpecRef,
    pub partition: Vec<PartitionField>,
    pub order: SortOrderRef,
    /// Partition values first, then the sort order.
    pub keys: Vec<Key>,
    pub properties: Properties,
}

/// A column that exists only inside the sink.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    /// Positions from the table's columns down to a field of nested structs.
    path: Vec<usize>,
    transform: Transform,
    /// `day(message_created_at)`
    pub text: String,
}

/// A field of the partition spec, and where its values stand in the working schema.
#[derive(Clone, Debug)]
pub(super) struct PartitionField {
    pub name: String,
    pub transform: Transform,
    pub kind: PrimitiveType,
    pub index: usize,
}

/// One key of the sort.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub index: usize,
    pub options: SortOptions,
}

impl Layout {
    /// Resolves the current schema, default spec, default sort order and properties of a table.
    ///
    /// # Errors
    /// `not_supported` for transforms and types that can't be written, `invalid_config` for properties.
    pub(super) fn of(table: String, metadata: &TableMetadata) -> Result<Self> {
        let schema = Arc::clone(metadata.current_schema());
        let columns = iceberg::arrow::schema_to_arrow_schema(&schema)
            .map_err(|e| Error::new(Code::NotSupported, "the table's schema can't be written").source(e))?;
        let mut made = Builder { schema: &schema, fields: columns.fields().to_vec(), hidden: Vec::new() };
        let spec = Arc::clone(metadata.default_partition_spec());
        let types = spec.partition_type(&schema).map_err(|e| broken("partition spec", e))?;
        let partition = made.partition(metadata, &types)?;
        let order = Arc::clone(metadata.default_sort_order());
        let mut keys: Vec<Key> = partition.iter().map(|p| Key { index: p.index, options: NULLS_LAST }).collect();
        keys.extend(made.order(&order)?);
        Ok(Layout {
            table,
            working: Arc::new(Schema::new(std::mem::take(&mut made.fields))),
            hidden: made.hidden,
            columns: Arc::new(columns),
            schema,
            spec,
            partition,
            order,
            keys,
            properties: Properties::of(metadata)?,
        })
    }

    /// The columns of the partition values, as expressions over the working schema.
    pub(super) fn partition_exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.partition.iter().map(|p| self.column(p.index)).collect()
    }

    /// The order in which rows are written; `None` if any will do.
    pub(super) fn ordering(&self) -> Option<LexOrdering> {
        LexOrdering::new(self.keys.iter().map(|k| PhysicalSortExpr::new(self.column(k.index), k.options)))
    }

    /// `day(message_created_at)`, or `unpartitioned`: as spans show it (O1).
    pub(super) fn partition_text(&self) -> String {
        let fields: Vec<String> =
            self.spec.fields().iter().map(|f| describe(&f.transform, &self.name(f.source_id))).collect();
        if fields.is_empty() { "unpartitioned".to_owned() } else { fields.join(",") }
    }

    /// `session_id,conversation_id`, or `unsorted`: as spans show it (O1).
    pub(super) fn order_text(&self) -> String {
        let fields: Vec<String> =
            self.order.fields.iter().map(|f| describe(&f.transform, &self.name(f.source_id))).collect();
        if fields.is_empty() { "unsorted".to_owned() } else { fields.join(",") }
    }

    /// Field ids of the columns that lookups go by: sources of the sort order's identity fields.
    pub(super) fn lookup_ids(&self) -> Vec<i32> {
        self.order.fields.iter().filter(|f| f.transform == Transform::Identity).map(|f| f.source_id).collect()
    }

    /// Field ids of the columns whose bounds decide which files are opened.
    pub(super) fn key_ids(&self) -> Vec<i32> {
        let sources = self.spec.fields().iter().map(|f| f.source_id);
        sources.chain(self.order.fields.iter().map(|f| f.source_id)).collect()
    }

    fn name(&self, id: i32) -> String {
        self.schema.name_by_field_id(id).map_or_else(|| format!("#{id}"), str::to_owned)
    }

    fn column(&self, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(self.working.fields().get(index).map_or("", |f| f.name()), index))
    }

    /// For each top-level column its write default as an array of one value.
    pub(super) fn defaults(&self) -> Result<Vec<Option<ArrayRef>>> {
        let fields = self.schema.as_struct().fields();
        fields
            .iter()
            .zip(self.columns.fields())
            .map(|(field, column)| match &field.write_default {
                None => Ok(None),
                Some(Literal::Primitive(value)) => values::array_of_one(value, column.data_type()).map(Some),
                Some(_) => {
                    Err(Error::new(Code::NotSupported, "a nested column has a write default")
                        .with("column", &field.name))
                }
            })
            .collect()
    }
}

const NULLS_LAST: SortOptions = SortOptions { descending: false, nulls_first: false };

impl Hidden {
    /// The column's values for a batch that begins with the table's columns.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        transform::apply(&self.transform, &extract(batch, &self.path)?)
    }
}

struct Builder<'a> {
    schema: &'a SchemaRef,
    fields: Vec<Arc<Field>>,
    hidden: Vec<Hidden>,
}

impl Builder<'_> {
    fn partition(&mut self, metadata: &TableMetadata, types: &StructType) -> Result<Vec<PartitionField>> {
        let spec = metadata.default_partition_spec();
        spec.fields()
            .iter()
            .zip(types.fields())
            .map(|(field, kind)| {
                transform::check(&field.transform, &field.name)?;
                let Type::Primitive(kind) = kind.field_type.as_ref() else {
                    return Err(
                        Error::new(Code::NotSupported, "a partition value is not primitive").with("field", &field.name)
                    );
                };
                let index = self.column(field.source_id, &field.transform, &format!("_partition.{}", field.name))?;
                Ok(PartitionField { name: field.name.clone(), transform: field.transform, kind: kind.clone(), index })
            })
            .collect()
    }

    fn order(&mut self, order: &SortOrderRef) -> Result<Vec<Key>> {
        order
            .fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                transform::check(&field.transform, &format!("sort field {at}"))?;
                let index = self.column(field.source_id, &field.transform, &format!("_sort.{at}"))?;
                let options = SortOptions {
                    descending: field.direction == SortDirection::Descending,
                    nulls_first: field.null_order == NullOrder::First,
                };
                Ok(Key { index, options })
            })
            .collect()
    }

    /// The position of the transform's values: a table column where they stand there already, else a hidden one.
    fn column(&mut self, source_id: i32, transform: &Transform, name: &str) -> Result<usize> {
        let path = path_of(self.schema.as_struct(), source_id).ok_or_else(|| {
            Error::new(
                Code::NotSupported,
                "a partition or sort field's source column is not in the schema, or not in structs only",
            )
            .with("source id", source_id)
        })?;
        if let ([index], Transform::Identity) = (path.as_slice(), transform) {
            return Ok(*index);
        }
        let source = type_at(&self.fields, &path).ok_or_else(|| broken("schema", "a path leads nowhere"))?;
        // The type is that of the transform of no values: whatever can't be computed is refused here.
        let kind = transform::apply(transform, &new_empty_array(&source))?.data_type().clone();
        let text = describe(transform, self.schema.name_by_field_id(source_id).unwrap_or(name));
        self.fields.push(Arc::new(Field::new(name, kind, true)));
        self.hidden.push(Hidden { path, transform: *transform, text });
        Ok(self.fields.len() - 1)
    }
}

fn broken(what: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::MetadataCorrupt, format!("the table's {what} can't be resolved")).source(cause)
}

fn describe(transform: &Transform, column: &str) -> String {
    match transform {
        Transform::Identity => column.to_owned(),
        Transform::Bucket(n) => format!("bucket({n}, {column})"),
        Transform::Truncate(w) => format!("truncate({w}, {column})"),
        other => format!("{other}({column})"),
    }
}

pub(super) fn path_of(fields: &StructType, id: i32) -> Option<Vec<usize>> {
    fields.fields().iter().enumerate().find_map(|(at, field)| {
        if field.id == id {
            return Some(vec![at]);
        }
        let Type::Struct(inner) = field.field_type.as_ref() else { return None };
        let mut path = path_of(inner, id)?;
        path.insert(0, at);
        Some(path)
    })
}

fn type_at(fields: &[Arc<Field>], path: &[usize]) -> Option<DataType> {
    let (first, rest) = path.split_first()?;
    let field = fields.get(*first)?;
    match (rest.is_empty(), field.data_type()) {
        (true, kind) => Some(kind.clone()),
        (false, DataType::Struct(inner)) => type_at(inner, rest),
        _ => None,
    }
}

/// The values at a path, null where any struct above is null.
pub(super) fn extract(batch: &RecordBatch, path: &[usize]) -> Result<ArrayRef> {
    let nowhere = || Error::new(Code::Internal, "a column of the sink's layout is not in the batch");
    let (first, rest) = path.split_first().ok_or_else(nowhere)?;
    let mut array = Arc::clone(batch.columns().get(*first).ok_or_else(nowhere)?);
    let mut nulls: Option<NullBuffer> = None;
    for step in rest {
        let parent = Arc::clone(&array);
        let parent = parent.as_struct_opt().ok_or_else(nowhere)?;
        nulls = NullBuffer::union(nulls.as_ref(), parent.nulls());
        array = Arc::clone(parent.columns().get(*step).ok_or_else(nowhere)?);
    }
    if nulls.is_none() {
        return Ok(array);
    }
    let nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
    let data = array.to_data().into_builder().nulls(nulls).build();
    data.map(make_array).map_err(|e| Error::new(Code::Internal, "a nested column can't be read").source(e))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Int64Array, StringArray, StructArray};
    use arrow::datatypes::Int32Type;
    use iceberg::spec::{
        FormatVersion, NestedField, Schema as IcebergSchema, SortField, SortOrder, TableMetadataBuilder,
        UnboundPartitionSpec,
    };

    use super::*;

    /// `id: long (default 7), who: struct<name: string, zip: string>`, partitioned by `bucket[4](who.name)` and `id`,
    /// ordered by `truncate[2](who.zip)` descending with nulls first.
    fn metadata() -> TableMetadata {
        let field = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
        let who =
            StructType::new(vec![field(3, "name", PrimitiveType::String), field(4, "zip", PrimitiveType::String)]);
        let id =
            NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long)).with_write_default(Literal::long(7));
        let schema = IcebergSchema::builder()
            .with_fields([Arc::new(id), Arc::new(NestedField::optional(2, "who", Type::Struct(who)))])
            .build()
            .unwrap();
        let spec = UnboundPartitionSpec::builder()
            .add_partition_field(3, "name_bucket", Transform::Bucket(4))
            .unwrap()
            .add_partition_field(1, "id", Transform::Identity)
            .unwrap()
            .build();
        let key = SortField {
            source_id: 4,
            transform: Transform::Truncate(2),
            direction: SortDirection::Descending,
            null_order: NullOrder::First,
        };
        let order = SortOrder::builder().with_sort_field(key).build(&schema).unwrap().with_order_id(1);
        TableMetadataBuilder::new(schema, spec, order, "memory://w/t".to_owned(), FormatVersion::V3, HashMap::new())
            .unwrap()
            .build()
            .unwrap()
            .metadata
    }

    #[test]
    fn keys_are_columns_where_they_can_be() {
        let layout = Layout::of("t".to_owned(), &metadata()).unwrap();
        let names: Vec<&str> = layout.working.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["id", "who", "_partition.name_bucket", "_sort.0"]);
        assert_eq!(layout.partition.iter().map(|p| p.index).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(layout.keys.iter().map(|k| k.index).collect::<Vec<_>>(), [2, 0, 3]);
        let last = layout.keys[2].options;
        assert!(last.descending && last.nulls_first);
        assert_eq!(layout.partition_text(), "bucket(4, who.name),id");
        assert_eq!(layout.order_text(), "truncate(2, who.zip)");
        assert_eq!(layout.lookup_ids(), Vec::<i32>::new());
        assert_eq!(layout.key_ids(), [3, 1, 4]);
        assert_eq!(
            layout.defaults().unwrap()[0].as_ref().unwrap().as_primitive::<arrow::datatypes::Int64Type>().value(0),
            7
        );
    }

    #[test]
    fn values_in_structs_are_null_where_the_struct_is() {
        let layout = Layout::of("t".to_owned(), &metadata()).unwrap();
        let text = |values: [&str; 2]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let DataType::Struct(fields) = layout.columns.field(1).data_type().clone() else { panic!() };
        let who =
            StructArray::new(fields, vec![text(["a", "b"]), text(["1234", "5678"])], Some(vec![true, false].into()));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(who)];
        let batch = RecordBatch::try_new(Arc::clone(&layout.columns), columns).unwrap();
        let bucket = layout.hidden[0].evaluate(&batch).unwrap();
        assert_eq!((bucket.as_primitive::<Int32Type>().is_null(0), bucket.is_null(1)), (false, true));
        let zip = layout.hidden[1].evaluate(&batch).unwrap();
        assert_eq!((zip.as_string::<i32>().value(0), zip.is_null(1)), ("12", true));
    }
}
