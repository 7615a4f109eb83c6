//! What is the value of a column that a file doesn't have?
//!
//! ```text
//!   the partition's value, null too (identity transform)  ▶  the column's initial default  ▶  null
//! ```
//!
//! Table specification, "Column Projection" and "Default values". A struct's default is `{}`: its fields' own defaults.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::ScalarValue;
use iceberg::spec::{Literal, NestedField, PrimitiveLiteral, PrimitiveType, Schema, Transform, Type};

use super::adapt::Between;
use crate::error::{Code, Error, Result};
use crate::predicate::Value;
use crate::scan::{MetadataColumn, Task, primitive, to_scalar};
use crate::schema::field_id;

/// The value of a column that a file doesn't have, as predicates see it: the outer `None` where it isn't known or the
/// column holds no single values.
pub(super) fn value(field: i32, task: &Task, schema: &Schema) -> Option<Option<Value>> {
    let column = primitive(schema, field)?;
    match MetadataColumn::with_id(field) {
        Some(MetadataColumn::File) => return Some(Some(Value::String(task.file_path().to_owned()))),
        Some(MetadataColumn::SpecId) => return Some(Some(Value::Long(i64::from(task.spec_id())))),
        // Every row has its own.
        Some(_) => return None,
        None => {}
    }
    if let Some(literal) = task.constant(field) {
        return match literal {
            Some(literal) => promoted(&literal.as_primitive_literal()?, column).map(Some),
            None => Some(None),
        };
    }
    match &schema.field_by_id(field)?.initial_default {
        Some(default) => Value::from_literal(&default.as_primitive_literal()?, column).map(Some),
        None => Some(None),
    }
}

/// The same of a field that `path` leads to, by ids: inside structs, which may be null, only null is in every row.
pub(super) fn everywhere(path: &[i32], task: &Task, schema: &Schema) -> Option<Option<Value>> {
    let (field, structs) = path.split_last()?;
    let value = value(*field, task, schema)?;
    let has_default = |id: &i32| schema.field_by_id(*id).is_none_or(|field| field.initial_default.is_some());
    (structs.is_empty() || (value.is_none() && !structs.iter().any(has_default))).then_some(value)
}

/// The same, as a scalar of the column's Arrow type.
///
/// # Errors
/// `data_file_corrupt` where a required column has no value, `metadata_corrupt` where its value isn't of its type.
pub(super) fn constant(field: &Field, task: &Task, schema: &Schema) -> Result<ScalarValue> {
    let id = field_id(field).unwrap_or_default();
    if let Some(column) = MetadataColumn::with_id(id) {
        let value = task.metadata(column, field.data_type())?;
        return value.map_or_else(|| null(field.data_type()), Ok);
    }
    let given = match task.constant(id) {
        Some(literal) => Some(of_partition(literal, field, schema)?),
        None => default(field, schema)?,
    };
    match given {
        Some(value) if !value.is_null() || field.is_nullable() => Ok(value),
        None if field.is_nullable() => null(field.data_type()),
        _ => Err(Error::new(Code::DataFileCorrupt, "a data file lacks a required column").with("column", field.name())),
    }
}

/// The values of fields inside structs that the partition of a file gives.
pub(super) fn nested_constants(
    task: &Task,
    table: &arrow::datatypes::Schema,
    schema: &Schema,
) -> Result<HashMap<i32, ScalarValue>> {
    let mut values = HashMap::new();
    for partition in task.partitioning.spec.fields().iter().filter(|f| f.transform == Transform::Identity) {
        let id = partition.source_id;
        let inside = table.fields().iter().filter(|field| field_id(field) != Some(id));
        let Some(field) = inside.filter_map(|field| below(field, id)).next() else { continue };
        if let Some(literal) = task.constant(id) {
            values.insert(id, of_partition(literal, field, schema)?);
        }
    }
    Ok(values)
}

/// The field with an id inside structs.
fn below(field: &Field, id: i32) -> Option<&Field> {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().find_map(|child| match field_id(child) == Some(id) {
            true => Some(child.as_ref()),
            false => below(child, id),
        }),
        _ => None,
    }
}

/// The value of a field that a struct in a file doesn't have.
pub(super) fn nested(field: &Field, between: &Between<'_>) -> Result<ScalarValue> {
    if let Some(value) = field_id(field).and_then(|id| between.nested.get(&id)) {
        return Ok(value.clone());
    }
    match default(field, between.schema)? {
        Some(value) => Ok(value),
        None if field.is_nullable() => null(field.data_type()),
        None => {
            Err(Error::new(Code::DataFileCorrupt, "a data file lacks a required field").with("column", field.name()))
        }
    }
}

fn of_partition(literal: Option<&Literal>, field: &Field, schema: &Schema) -> Result<ScalarValue> {
    let Some(literal) = literal else { return null(field.data_type()) };
    let column = field_id(field).and_then(|id| primitive(schema, id));
    let value = literal.as_primitive_literal().and_then(|literal| promoted(&literal, column?));
    value.and_then(|value| to_scalar(&value, field.data_type())).ok_or_else(|| {
        Error::new(Code::ManifestCorrupt, "a partition value does not fit its column's type")
            .with("column", field.name())
            .with("type", field.data_type())
    })
}

/// A literal of a tuple that was written when the column had another type: int for long, float for double, and a date that
/// became a timestamp.
fn promoted(literal: &PrimitiveLiteral, column: &PrimitiveType) -> Option<Value> {
    const DAY: i64 = 86_400_000_000;
    Value::from_literal(literal, column).or_else(|| match (literal, column) {
        (PrimitiveLiteral::Int(days), PrimitiveType::Timestamp) => Some(Value::Long(i64::from(*days) * DAY)),
        (PrimitiveLiteral::Int(days), PrimitiveType::TimestampNs) => {
            i64::from(*days).checked_mul(DAY * 1000).map(Value::Long)
        }
        _ => None,
    })
}

/// The initial default of a field, `None` where it has none.
fn default(field: &Field, schema: &Schema) -> Result<Option<ScalarValue>> {
    let Some(column) = field_id(field).and_then(|id| schema.field_by_id(id)) else { return Ok(None) };
    let Some(literal) = &column.initial_default else { return Ok(None) };
    scalar(literal, column, field).map(Some).ok_or_else(|| {
        Error::new(Code::MetadataCorrupt, "a default does not fit its column's type").with("column", field.name())
    })
}

fn scalar(literal: &Literal, column: &NestedField, field: &Field) -> Option<ScalarValue> {
    match (literal, column.field_type.as_ref()) {
        (Literal::Primitive(literal), Type::Primitive(ty)) => {
            to_scalar(&Value::from_literal(literal, ty)?, field.data_type())
        }
        // The engine's way from an array would leave out the id of the list's elements.
        (Literal::List(_), _) => {
            Some(ScalarValue::List(Arc::new(array(Some(literal), column, field)?.as_list_opt()?.clone())))
        }
        _ => ScalarValue::try_from_array(&array(Some(literal), column, field)?, 0).ok(),
    }
}

/// An array of one value.
fn array(literal: Option<&Literal>, column: &NestedField, field: &Field) -> Option<ArrayRef> {
    let Some(literal) = literal else { return Some(arrow::array::new_null_array(field.data_type(), 1)) };
    match (literal, column.field_type.as_ref(), field.data_type()) {
        (Literal::Struct(given), Type::Struct(ty), DataType::Struct(fields)) => {
            // The field may be narrowed to some of the struct's.
            let columns = fields.iter().map(|field| {
                let at = ty.fields().iter().position(|column| Some(column.id) == field_id(field))?;
                let (column, given) = (ty.fields().get(at)?, given.fields().get(at)?);
                array(given.as_ref().or(column.initial_default.as_ref()), column, field)
            });
            Some(Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Option<_>>()?, None).ok()?))
        }
        (Literal::List(given), Type::List(ty), DataType::List(element)) => {
            let each = given.iter().map(|one| array(one.as_ref(), &ty.element_field, element));
            let values = concat(&each.collect::<Option<Vec<_>>>()?, element.data_type())?;
            let offsets = OffsetBuffer::from_lengths([given.len()]);
            Some(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, None).ok()?))
        }
        (Literal::Map(given), Type::Map(ty), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let [key, value] = fields.as_ref() else { return None };
            let pairs: Vec<_> = given.clone().into_iter().collect();
            let keys = pairs.iter().map(|(k, _)| array(Some(k), &ty.key_field, key));
            let values = pairs.iter().map(|(_, v)| array(v.as_ref(), &ty.value_field, value));
            let columns = vec![
                concat(&keys.collect::<Option<Vec<_>>>()?, key.data_type())?,
                concat(&values.collect::<Option<Vec<_>>>()?, value.data_type())?,
            ];
            let entry: Fields = fields.clone();
            let structs = StructArray::try_new(entry, columns, None).ok()?;
            let offsets = OffsetBuffer::from_lengths([pairs.len()]);
            Some(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, structs, None, *sorted).ok()?))
        }
        _ => scalar(literal, column, field)?.to_array().ok(),
    }
}

fn concat(arrays: &[ArrayRef], data_type: &DataType) -> Option<ArrayRef> {
    match arrays {
        [] => Some(arrow::array::new_empty_array(data_type)),
        some => arrow::compute::concat(&some.iter().map(|a| a.as_ref() as &dyn Array).collect::<Vec<_>>()).ok(),
    }
}

fn null(data_type: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_new_null(data_type).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_keep_the_type_that_their_column_had() {
        let of = |literal: PrimitiveLiteral, column: PrimitiveType| promoted(&literal, &column);
        assert_eq!(of(PrimitiveLiteral::Int(-3), PrimitiveType::Long), Some(Value::Long(-3)));
        let day = of(PrimitiveLiteral::Int(-1), PrimitiveType::Timestamp);
        assert_eq!(day, Some(Value::Long(-86_400_000_000)));
        let day = of(PrimitiveLiteral::Int(1), PrimitiveType::TimestampNs);
        assert_eq!(day, Some(Value::Long(86_400_000_000_000)));
        assert_eq!(of(PrimitiveLiteral::Int(i32::MAX), PrimitiveType::TimestampNs), None);
        assert_eq!(of(PrimitiveLiteral::String("x".to_owned()), PrimitiveType::Long), None);
    }
}
