//! The rows that a filter is held against, and what metadata says of them.
//!
//! A table of a few rows with columns of single values and one struct, whose fields are columns to a scan:
//!
//! ```text
//!   b i l x d ts n m s y    r { s, i, q { i, ts, x, r }, e [{ i }], k { text: i } }
//! ```
//!
//! What stands in lists and maps is nobody's column, though it has ids, and statistics in metadata.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, SchemaRef as ArrowSchemaRef};
use datafusion::scalar::ScalarValue as S;
use iceberg::arrow::arrow_primitive_to_literal;
use iceberg::spec::{Literal, PartitionSpec, PartitionSpecRef, PrimitiveType, Schema, Struct, Transform, Type};
use iceberg::transform::create_transform_function;

use crate::predicate::{Facts, Value};
use crate::scan::{Partitioning, counted_alike, primitive};
use crate::schema::{field_id, path, to_arrow};

pub(super) const ROWS: usize = 12;

/// A row's worth of every column.
pub(super) struct Table {
    pub(super) arrow: ArrowSchemaRef,
    pub(super) schema: Schema,
    pub(super) spec: PartitionSpecRef,
    partitioning: Partitioning,
    /// The rows as they are read: null in a field where a struct around it is.
    pub(super) read: Told,
    /// The rows as a writer may see them who looks at a field and not at the structs around it: some value is everywhere.
    pub(super) overlooked: Told,
}

/// Rows, and what a writer who takes them as they are says of them.
pub(super) struct Told {
    pub(super) rows: RecordBatch,
    /// By field id: the value in each row; of structs, lists and maps that there is one.
    values: HashMap<i32, Vec<Option<Value>>>,
    /// By row: the tuple of its partition.
    tuples: Vec<Struct>,
    /// Where a struct is null, its fields are counted as nulls.
    nulls_of_structs: bool,
}

const SCHEMA: &str = r#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"b","required":false,"type":"boolean"},
{"id":2,"name":"i","required":false,"type":"int"},{"id":3,"name":"l","required":false,"type":"long"},
{"id":4,"name":"x","required":false,"type":"double"},{"id":5,"name":"d","required":false,"type":"date"},
{"id":6,"name":"ts","required":false,"type":"timestamptz"},{"id":7,"name":"n","required":false,"type":"timestamp"},
{"id":8,"name":"m","required":false,"type":"decimal(9, 2)"},{"id":9,"name":"s","required":false,"type":"string"},
{"id":10,"name":"y","required":false,"type":"binary"},{"id":11,"name":"r","required":false,"type":{"type":"struct",
"fields":[{"id":12,"name":"s","required":false,"type":"string"},{"id":13,"name":"i","required":false,"type":"int"},
{"id":14,"name":"q","required":false,"type":{"type":"struct","fields":[{"id":15,"name":"i","required":true,"type":"int"},
{"id":16,"name":"ts","required":false,"type":"timestamptz"},{"id":17,"name":"x","required":false,"type":"double"},
{"id":18,"name":"r","required":false,"type":"string"}]}},{"id":19,"name":"e","required":false,"type":{"type":"list",
"element-id":20,"element-required":false,"element":{"type":"struct","fields":[
{"id":21,"name":"i","required":false,"type":"int"}]}}},{"id":22,"name":"k","required":false,"type":{"type":"map",
"key-id":23,"key":"string","value-id":24,"value-required":false,"value":"int"}}]}}]}"#;

/// The last column of single values, and the last field.
const LAST_COLUMN: i32 = 10;
const LAST: i32 = 24;

/// Column and transform of each partition field.
const SPEC: [(i32, Transform); 22] = [
    (2, Transform::Identity),
    (2, Transform::Truncate(10)),
    (3, Transform::Bucket(4)),
    (3, Transform::Truncate(7)),
    (5, Transform::Day),
    (5, Transform::Month),
    (5, Transform::Year),
    (6, Transform::Hour),
    (6, Transform::Day),
    (7, Transform::Month),
    (7, Transform::Year),
    (9, Transform::Identity),
    (9, Transform::Truncate(2)),
    (9, Transform::Bucket(16)),
    (12, Transform::Identity),
    (13, Transform::Identity),
    (13, Transform::Bucket(4)),
    (15, Transform::Identity),
    (15, Transform::Truncate(10)),
    (16, Transform::Day),
    (16, Transform::Year),
    (18, Transform::Truncate(2)),
];

impl Table {
    pub(super) fn new() -> Table {
        let schema: Schema = serde_json::from_str(SCHEMA).unwrap();
        let fields = SPEC.iter().enumerate().map(|(at, (source, transform))| {
            let (name, transform) = (format!("p{at}"), transform.to_string());
            serde_json::json!({"source-id": source, "field-id": 1000 + at, "name": name, "transform": transform})
        });
        let spec = serde_json::json!({"spec-id": 0, "fields": fields.collect::<Vec<_>>()});
        let spec: PartitionSpecRef = Arc::new(serde_json::from_value::<PartitionSpec>(spec).unwrap());
        let arrow = to_arrow(&schema).unwrap();
        let whole: Vec<ArrayRef> = arrow.fields().iter().map(|field| column(field)).collect();
        let read = whole.iter().map(|column| within(column, None)).collect();
        let rows = |columns| RecordBatch::try_new(Arc::clone(&arrow), columns).unwrap();
        let (read, overlooked) = (Told::of(rows(read), &schema, true), Told::of(rows(whole), &schema, false));
        let partitioning = Partitioning::new(&spec, &schema);
        Table { arrow, schema, spec, partitioning, read, overlooked }
    }

    /// The value of a field in a row.
    pub(super) fn value(&self, field: i32, row: usize) -> Option<Value> {
        self.read.of_field(field)[row].clone()
    }

    /// What is said of a field in some rows.
    pub(super) fn facts(&self, told: &Told, field: i32, rows: Range<usize>) -> Facts {
        let values = &told.of_field(field)[rows];
        let Some(ty) = primitive(&self.schema, field) else { return Facts::default() };
        let facts = facts_of(values, *ty == PrimitiveType::Double);
        if told.nulls_of_structs { facts } else { counted_alike(facts, &self.schema, field) }
    }

    /// What is said of a partition field where a row is.
    pub(super) fn partition(&self, told: &Told, field: i32, row: usize) -> Facts {
        self.partitioning.of_tuple(&told.tuples[row], field)
    }
}

impl Told {
    fn of(rows: RecordBatch, schema: &Schema, nulls_of_structs: bool) -> Told {
        let leaf = |id: i32| {
            let (column, fields) =
                path(schema, id)?.split_first().map(|(column, fields)| (*column, fields.to_vec()))?;
            let column = rows.column_by_name(&column.name).cloned();
            fields.iter().fold(column, |array, field| array?.as_struct().column_by_name(&field.name).cloned())
        };
        let values = (1..=LAST).filter_map(|id| {
            let (ty, array) = (primitive(schema, id), leaf(id)?);
            let value = |row| match ty {
                Some(ty) => Value::from_scalar(&S::try_from_array(array.as_ref(), row).unwrap(), ty),
                None => array.is_valid(row).then_some(Value::Bool(true)),
            };
            Some((id, (0..ROWS).map(value).collect()))
        });
        let values = values.collect();
        let filed = SPEC.iter().map(|(source, transform)| {
            let ty = &schema.field_by_id(*source).unwrap().field_type;
            filed(*transform, &leaf(*source).unwrap(), ty)
        });
        let filed: Vec<Vec<Option<Literal>>> = filed.collect();
        let tuples = (0..ROWS).map(|row| filed.iter().map(|values| values[row].clone()).collect()).collect();
        Told { rows, values, tuples, nulls_of_structs }
    }

    fn of_field(&self, field: i32) -> &[Option<Value>] {
        let values = self.values.get(&field);
        assert!(values.is_some(), "field {field} is no column, nor a field of structs");
        values.unwrap()
    }
}

/// The values that a column's rows are filed under.
fn filed(transform: Transform, column: &ArrayRef, ty: &Type) -> Vec<Option<Literal>> {
    let text = *column.data_type() == DataType::Utf8View;
    let stored = if text { cast(column, &DataType::Utf8).unwrap() } else { Arc::clone(column) };
    let filed = create_transform_function(&transform).unwrap().transform(stored).unwrap();
    arrow_primitive_to_literal(&filed, &transform.result_type(ty).unwrap()).unwrap()
}

/// Exact facts of a column's values, as a writer that follows the specification computes them.
fn facts_of(values: &[Option<Value>], float: bool) -> Facts {
    let numbers = || values.iter().flatten().filter(|value| !value.is_nan());
    let (rows, known) = (values.len() as u64, values.iter().flatten().count() as u64);
    Facts {
        lower: numbers().min().cloned(),
        upper: numbers().max().cloned(),
        nulls: Some(rows - known),
        nans: Some(known - numbers().count() as u64),
        rows: Some(rows),
        float,
    }
}

/// A column as it stands before anything is null on another's account. Lists and maps have one item each.
fn column(field: &Field) -> ArrayRef {
    let one_each = || OffsetBuffer::from_lengths([1; ROWS]);
    match field.data_type() {
        DataType::Struct(fields) => {
            let nulls = (0..ROWS).map(|row| !field.is_nullable() || (row + place(field)) % 5 != 3);
            let columns = fields.iter().map(|field| column(field)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, Some(nulls.collect::<NullBuffer>())))
        }
        DataType::List(item) => Arc::new(ListArray::new(Arc::clone(item), one_each(), column(item), None)),
        DataType::Map(items, sorted) => {
            let within = column(items).as_struct().clone();
            Arc::new(MapArray::new(Arc::clone(items), one_each(), within, None, *sorted))
        }
        // Fields have the values of columns elsewhere, so that none is taken for the other; a required one has them all.
        single => {
            let around = if field.is_nullable() { ROWS } else { ROWS - 1 };
            S::iter_to_array((0..ROWS).map(|row| value(single, (row + place(field)) % around))).unwrap()
        }
    }
}

/// Which field of structs it is; a column is none.
fn place(field: &Field) -> usize {
    field_id(field).and_then(|id| usize::try_from(id - LAST_COLUMN).ok()).unwrap_or(0)
}

/// The values of a type: neighbours, ends, and null.
fn value(ty: &DataType, at: usize) -> S {
    const DAY: i64 = 86_400_000_000;
    let noon = 20_608 * DAY + DAY / 2;
    let times = [0, -1, 1, DAY - 1, DAY, -DAY, noon, noon + 1, 951_782_400_000_000, -2_208_988_800_000_000, noon - DAY];
    let doubles = [0.0, -0.0, 1.0, 1.5, -2.5, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, 4.0];
    let longs = [0, 1, -1, 2, 5, 10, i64::MAX, i64::MIN + 10, 1 << 53, 4_294_967_296, 7];
    let ints = [0, 1, -1, 2, 5, 10, i32::MAX, i32::MIN + 10, 25, -7, 7];
    let days = [0, -1, 1, 20_608, 20_607, 11_016, -25_567, 59, 20_454, 20_818, 365];
    let decimals = [0, 150, -1, 999_999_999, -999_999_999, 100, 1, 1_065, 1_050, -250, 5];
    let text = ["", "a", "ab", "abc", "ab%", "b", "a_c", "\u{e9}", "10", "2026-06-04", "ba\u{10FFFF}"];
    let text = |at: usize| text.get(at).map(|text| (*text).to_owned());
    match ty {
        DataType::Boolean => S::Boolean((at < 8).then_some(at.is_multiple_of(2))),
        DataType::Int32 => S::Int32(ints.get(at).copied()),
        DataType::Int64 => S::Int64(longs.get(at).copied()),
        DataType::Float64 => S::Float64(doubles.get(at).copied()),
        DataType::Date32 => S::Date32(days.get(at).copied()),
        DataType::Timestamp(_, zone) => S::TimestampMicrosecond(times.get(at).copied(), zone.clone()),
        DataType::Decimal128(precision, scale) => S::Decimal128(decimals.get(at).copied(), *precision, *scale),
        DataType::Utf8View => S::Utf8View(text(at)),
        DataType::Utf8 => S::Utf8(text(at)),
        _ => S::BinaryView(text(at).map(String::into_bytes)),
    }
}

/// A column within structs that are null in some rows.
fn within(column: &ArrayRef, around: Option<&NullBuffer>) -> ArrayRef {
    let nulls = NullBuffer::union(column.nulls(), around);
    match column.as_struct_opt() {
        Some(column) => {
            let (fields, columns, _) = column.clone().into_parts();
            let columns = columns.iter().map(|column| within(column, nulls.as_ref())).collect();
            Arc::new(StructArray::new(fields, columns, nulls))
        }
        None => make_array(column.to_data().into_builder().nulls(nulls).build().unwrap()),
    }
}
