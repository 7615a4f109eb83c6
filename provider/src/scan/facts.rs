//! What does metadata say of a column's values in a file, a partition or a manifest?
//!
//! Looks up what [`crate::predicate`]'s facts are made of: the column's present type, the partition field's place in the
//! tuple. Whatever can't be found is "not known", so that nothing is ever skipped on its account.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use iceberg::spec::{DataFile, PartitionSpecRef, PrimitiveType, Schema, Struct, Type};

use super::columns::MetadataColumn;
use crate::metadata::{Brief, ColumnMetrics, Summaries};
use crate::predicate::{Facts, Value, facts_of_file, facts_of_metrics, facts_of_partition};
use crate::schema::path;

/// A value as a scalar of the Arrow type `data_type`; `None` where the type can't hold it.
pub(crate) fn to_scalar(value: &Value, data_type: &DataType) -> Option<ScalarValue> {
    Some(match (value, data_type) {
        (Value::Bool(v), DataType::Boolean) => ScalarValue::Boolean(Some(*v)),
        (Value::Long(v), DataType::Int32) => ScalarValue::Int32(Some(i32::try_from(*v).ok()?)),
        (Value::Long(v), DataType::Int64) => ScalarValue::Int64(Some(*v)),
        (Value::Long(v), DataType::Date32) => ScalarValue::Date32(Some(i32::try_from(*v).ok()?)),
        (Value::Long(v), DataType::Time64(TimeUnit::Microsecond)) => ScalarValue::Time64Microsecond(Some(*v)),
        (Value::Long(v), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(*v), zone.clone())
        }
        (Value::Long(v), DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            ScalarValue::TimestampNanosecond(Some(*v), zone.clone())
        }
        (Value::Double(v), DataType::Float32) => ScalarValue::Float32(Some(*v as f32)),
        (Value::Double(v), DataType::Float64) => ScalarValue::Float64(Some(*v)),
        (Value::Decimal(v), DataType::Decimal128(precision, scale)) => {
            ScalarValue::Decimal128(Some(*v), *precision, *scale)
        }
        (Value::String(v), DataType::Utf8View) => ScalarValue::Utf8View(Some(v.clone())),
        (Value::String(v), DataType::Utf8) => ScalarValue::Utf8(Some(v.clone())),
        (Value::String(v), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(v.clone())),
        (Value::Bytes(v), DataType::BinaryView) => ScalarValue::BinaryView(Some(v.clone())),
        (Value::Bytes(v), DataType::Binary) => ScalarValue::Binary(Some(v.clone())),
        (Value::Bytes(v), DataType::LargeBinary) => ScalarValue::LargeBinary(Some(v.clone())),
        (Value::Bytes(v), DataType::FixedSizeBinary(n)) if usize::try_from(*n) == Ok(v.len()) => {
            ScalarValue::FixedSizeBinary(*n, Some(v.clone()))
        }
        _ => return None,
    })
}

/// The facts of column `field` in a delete file, from its manifest entry. Unknown where the column has no primitive type.
pub(crate) fn of_file(file: &DataFile, schema: &Schema, field: i32) -> Facts {
    match primitive(schema, field) {
        Some(column) => counted_alike(facts_of_file(file, field, column, file.record_count()), schema, field),
        None => Facts::default(),
    }
}

/// A field of a struct is null where the struct is, which some writers count and some don't.
pub(crate) fn counted_alike(facts: Facts, schema: &Schema, field: i32) -> Facts {
    match facts.nulls {
        Some(nulls) if facts.rows != Some(nulls) && may_be_hidden(schema, field) => Facts { nulls: None, ..facts },
        _ => facts,
    }
}

/// Whether a field may be null because a struct around it is.
fn may_be_hidden(schema: &Schema, field: i32) -> bool {
    let Some(path) = path(schema, field) else { return true };
    path.split_last().is_none_or(|(_, structs)| structs.iter().any(|field| !field.required))
}

/// The facts of column `field` in a data file of `rows` rows that was written by the spec `spec_id`, where `brief` has them.
pub(crate) fn of_brief(brief: &Brief, schema: &Schema, field: i32, rows: u64, spec_id: i32) -> Option<Facts> {
    let constant = match MetadataColumn::with_id(field) {
        Some(MetadataColumn::File) => Some(Value::String(brief.path.clone())),
        Some(MetadataColumn::SpecId) => Some(Value::Long(i64::from(spec_id))),
        _ => None,
    };
    if constant.is_some() && primitive(schema, field).is_some() {
        return Some(Facts {
            lower: constant.clone(),
            upper: constant,
            nulls: Some(0),
            nans: Some(0),
            rows: Some(rows),
            float: false,
        });
    }
    let column = brief.columns.iter().find(|column| column.id == field);
    column.map(|column| of_metrics(column, schema, rows))
}

/// The same from the metrics of the column alone.
pub(crate) fn of_metrics(metrics: &ColumnMetrics, schema: &Schema, rows: u64) -> Facts {
    let bounds = (metrics.lower.as_ref(), metrics.upper.as_ref());
    match primitive(schema, metrics.id) {
        Some(column) => {
            counted_alike(facts_of_metrics(bounds, metrics.nulls, metrics.nans, column, rows), schema, metrics.id)
        }
        None => Facts::default(),
    }
}

/// The type of a column that holds single values.
pub(crate) fn primitive(schema: &Schema, field: i32) -> Option<&PrimitiveType> {
    schema.field_by_id(field).and_then(|field| match field.field_type.as_ref() {
        Type::Primitive(primitive) => Some(primitive),
        Type::Struct(_) | Type::List(_) | Type::Map(_) => None,
    })
}

/// A partition spec and the types of its fields, under the table's present schema.
#[derive(Clone, Debug)]
pub(crate) struct Partitioning {
    pub(crate) spec: PartitionSpecRef,
    /// In the order of the tuple; `None` where the source column is gone or the transform isn't known.
    types: Vec<Option<PrimitiveType>>,
    /// In the same order: rows may be null in the source column whatever the tuple says, since a struct around it is.
    hidden: Vec<bool>,
}

impl Partitioning {
    pub(crate) fn new(spec: &PartitionSpecRef, schema: &Schema) -> Self {
        let result = |field: &iceberg::spec::PartitionField| {
            let source = schema.field_by_id(field.source_id)?;
            match field.transform.result_type(&source.field_type).ok()? {
                Type::Primitive(result) => Some(result),
                Type::Struct(_) | Type::List(_) | Type::Map(_) => None,
            }
        };
        Partitioning {
            types: spec.fields().iter().map(result).collect(),
            hidden: spec.fields().iter().map(|field| may_be_hidden(schema, field.source_id)).collect(),
            spec: spec.clone(),
        }
    }

    /// The name and value type of a partition field, for display.
    pub(crate) fn name(&self, field: i32) -> (String, Option<PrimitiveType>) {
        let found = self.spec.fields().iter().zip(&self.types).find(|(f, _)| f.field_id == field);
        match found {
            Some((field, result)) => (field.name.clone(), result.clone()),
            None => (format!("field {field}"), None),
        }
    }

    /// The facts of a partition field in one partition tuple: one value, known exactly.
    pub(crate) fn of_tuple(&self, tuple: &Struct, field: i32) -> Facts {
        let known = self.at(field).and_then(|(at, ty)| Some((at, tuple.fields().get(at)?, ty)));
        known.map_or_else(Facts::default, |(at, literal, ty)| self.shown(at, facts_of_partition(literal.as_ref(), ty)))
    }

    fn shown(&self, at: usize, facts: Facts) -> Facts {
        match facts.nulls {
            Some(0) if self.hidden.get(at) != Some(&false) => Facts { nulls: None, ..facts },
            _ => facts,
        }
    }

    /// The facts of a partition field in all files of a manifest, by its place in the manifest list.
    pub(crate) fn of_summaries(&self, summaries: &Summaries, manifest: usize, field: i32) -> Facts {
        self.at(field).map_or_else(Facts::default, |(at, _)| self.shown(at, summaries.facts(manifest, at)))
    }

    /// The types of the tuple's values.
    pub(crate) fn types(&self) -> &[Option<PrimitiveType>] {
        &self.types
    }

    fn at(&self, field: i32) -> Option<(usize, &PrimitiveType)> {
        let at = self.spec.fields().iter().position(|f| f.field_id == field)?;
        Some((at, self.types.get(at)?.as_ref()?))
    }
}
