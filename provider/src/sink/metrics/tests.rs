use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, LargeBinaryArray, ListArray, RecordBatch, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use iceberg::spec::{
    FormatVersion, ListType, Literal, NestedField, SortOrder, StructType, TableMetadata, TableMetadataBuilder,
    UnboundPartitionSpec,
};
use proptest::prelude::*;

use super::*;
use crate::sink::layout::Layout;
use crate::sink::writer::{FileWriter, Settings};
use crate::storage::Stores;

/// One value of each type.
#[derive(Clone, Debug)]
struct Row {
    int: Option<i32>,
    long: Option<i64>,
    float: Option<f32>,
    double: Option<f64>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    flag: Option<bool>,
    cents: Option<i128>,
    huge: Option<i128>,
    inner: Option<Option<f64>>,
    list: Option<Vec<Option<i64>>>,
}

/// With the ids that a new table gives its columns.
fn schema() -> Schema {
    let p = |id, name: &str, kind| Arc::new(NestedField::optional(id, name, Type::Primitive(kind)));
    let decimal = |precision, scale| PrimitiveType::Decimal { precision, scale };
    let element = Arc::new(NestedField::list_element(20, Type::Primitive(PrimitiveType::Long), false));
    Schema::builder()
        .with_fields([
            p(1, "int", PrimitiveType::Int),
            p(2, "long", PrimitiveType::Long),
            p(3, "float", PrimitiveType::Float),
            p(4, "double", PrimitiveType::Double),
            p(5, "text", PrimitiveType::String),
            p(6, "bytes", PrimitiveType::Binary),
            p(7, "flag", PrimitiveType::Boolean),
            p(8, "cents", decimal(9, 2)),
            p(9, "huge", decimal(38, 0)),
            p(10, "date", PrimitiveType::Date),
            p(11, "time", PrimitiveType::Time),
            p(12, "ts", PrimitiveType::Timestamptz),
            p(13, "ns", PrimitiveType::TimestampNs),
            p(14, "uuid", PrimitiveType::Uuid),
            p(15, "fixed", PrimitiveType::Fixed(3)),
            Arc::new(NestedField::optional(
                16,
                "row",
                Type::Struct(StructType::new(vec![p(19, "x", PrimitiveType::Double)])),
            )),
            Arc::new(NestedField::optional(17, "list", Type::List(ListType::new(element)))),
            p(18, "whole", PrimitiveType::String),
        ])
        .build()
        .unwrap()
}

fn metadata(pairs: &[(&str, &str)]) -> TableMetadata {
    let properties = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let spec = UnboundPartitionSpec::builder().build();
    let order = SortOrder::unsorted_order();
    TableMetadataBuilder::new(schema(), spec, order, "memory://w/t".to_owned(), FormatVersion::V3, properties)
        .unwrap()
        .build()
        .unwrap()
        .metadata
}

fn batch(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let micros = rows.iter().map(|r| r.long.map(|v| v / 4)).collect::<TimestampMicrosecondArray>();
    let uuids = rows.iter().map(|r| r.huge.map(|v| v.to_be_bytes()));
    let fixed = rows.iter().map(|r| r.int.map(|v| [v as u8, (v >> 8) as u8, (v >> 16) as u8]));
    let inner = Float64Array::from_iter(rows.iter().map(|r| r.inner.flatten()));
    let present: Vec<bool> = rows.iter().map(|r| r.inner.is_some()).collect();
    let kind = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
    let DataType::Struct(row_fields) = kind("row") else { panic!() };
    let DataType::List(element) = kind("list") else { panic!() };
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|r| r.list.clone()));
    let (_, offsets, values, nulls) = list.into_parts();
    let text = || StringArray::from_iter(rows.iter().map(|r| r.text.as_deref()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.int).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.long).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.float).collect::<Float32Array>()),
        Arc::new(rows.iter().map(|r| r.double).collect::<Float64Array>()),
        Arc::new(text()),
        Arc::new(LargeBinaryArray::from_iter(rows.iter().map(|r| r.bytes.as_deref()))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|r| r.flag))),
        Arc::new(rows.iter().map(|r| r.cents).collect::<Decimal128Array>().with_precision_and_scale(9, 2).unwrap()),
        Arc::new(rows.iter().map(|r| r.huge).collect::<Decimal128Array>().with_precision_and_scale(38, 0).unwrap()),
        Arc::new(rows.iter().map(|r| r.int).collect::<Date32Array>()),
        Arc::new(rows.iter().map(|r| r.int.map(|v| i64::from(v).abs())).collect::<Time64MicrosecondArray>()),
        Arc::new(micros.with_timezone("+00:00")),
        Arc::new(rows.iter().map(|r| r.long).collect::<TimestampNanosecondArray>()),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap()),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3).unwrap()),
        Arc::new(StructArray::new(row_fields, vec![Arc::new(inner)], Some(present.into()))),
        Arc::new(ListArray::new(element, offsets, values, nulls)),
        Arc::new(text()),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

/// Writes each of the groups as batches of their own and takes the metrics.
async fn written(groups: &[Vec<Row>], properties: &[(&str, &str)]) -> (Metrics, usize, Vec<RecordBatch>) {
    let layout = Layout::of("t".to_owned(), &metadata(properties)).unwrap();
    let settings = Arc::new(Settings::of(&layout).unwrap());
    let stores = Stores::new();
    let located = stores.resolve("memory://w/t/f.parquet").unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let reservation = MemoryConsumer::new("test").register(&pool);
    let (writing, _ended) = tokio::sync::mpsc::channel(1);
    let mut writer =
        FileWriter::open(&settings, "memory://w/t/f.parquet".to_owned(), located, reservation, Arc::default(), writing)
            .unwrap();
    let batches: Vec<RecordBatch> = groups.iter().map(|rows| batch(&settings.columns, rows)).collect();
    for batch in &batches {
        assert_eq!(writer.write(batch).await.unwrap(), batch.num_rows());
    }
    let file = writer.finish().await.unwrap();
    (of(&file.metadata, &layout.schema, &settings.modes, &file.observed), file.metadata.num_row_groups(), batches)
}

const SMALL_GROUPS: (&str, &str) = ("write.parquet.row-group-limit", "7");

/// Iceberg's single values compared as their type wants it; `None`: no order (NaN).
fn order(kind: &PrimitiveType, a: &[u8], b: &[u8]) -> Option<std::cmp::Ordering> {
    let i = |b: &[u8]| -> i64 {
        match b.len() {
            4 => i32::from_le_bytes(b.try_into().unwrap()).into(),
            _ => i64::from_le_bytes(b.try_into().unwrap()),
        }
    };
    let wide = |b: &[u8]| match Literal::from(Datum::try_from_bytes(b, kind.clone()).unwrap()).as_primitive_literal() {
        Some(iceberg::spec::PrimitiveLiteral::Int128(v)) => v,
        other => panic!("{other:?}"),
    };
    match kind {
        PrimitiveType::Boolean
        | PrimitiveType::String
        | PrimitiveType::Binary
        | PrimitiveType::Fixed(_)
        | PrimitiveType::Uuid => Some(a.cmp(b)),
        PrimitiveType::Float => {
            f32::from_le_bytes(a.try_into().unwrap()).partial_cmp(&f32::from_le_bytes(b.try_into().unwrap()))
        }
        PrimitiveType::Double => {
            f64::from_le_bytes(a.try_into().unwrap()).partial_cmp(&f64::from_le_bytes(b.try_into().unwrap()))
        }
        PrimitiveType::Decimal { .. } => Some(wide(a).cmp(&wide(b))),
        _ => Some(i(a).cmp(&i(b))),
    }
}

/// Every value of every column against the file's counts and bounds.
fn check(metrics: &Metrics, batches: &[RecordBatch]) {
    let schema = schema();
    let top: Vec<_> = schema.as_struct().fields().iter().map(|f| (f.id, f.name.clone())).collect();
    for (id, name) in top {
        let Some(kind) = primitive(&schema, id) else { continue };
        let (mut values, mut nulls, mut nans, mut comparable) = (0, 0, 0, 0);
        for batch in batches {
            let array = batch.column_by_name(&name).unwrap();
            for row in 0..array.len() {
                values += 1;
                let Some(value) = crate::sink::values::datum(array.as_ref(), row, kind).unwrap() else {
                    nulls += 1;
                    continue;
                };
                if value.is_nan() {
                    nans += 1;
                    continue;
                }
                comparable += 1;
                let value = value.to_bytes().unwrap();
                if let Some(low) = metrics.lower_bounds.get(&id) {
                    assert_ne!(
                        order(kind, &low.to_bytes().unwrap(), &value),
                        Some(std::cmp::Ordering::Greater),
                        "{name}"
                    );
                }
                if let Some(high) = metrics.upper_bounds.get(&id) {
                    assert_ne!(
                        order(kind, &high.to_bytes().unwrap(), &value),
                        Some(std::cmp::Ordering::Less),
                        "{name}"
                    );
                }
            }
        }
        assert_eq!((metrics.value_counts[&id], metrics.null_value_counts[&id]), (values, nulls), "{name}");
        if matches!(kind, PrimitiveType::Float | PrimitiveType::Double) {
            assert_eq!(metrics.nan_value_counts[&id], nans, "{name}");
        }
        assert_eq!(metrics.lower_bounds.contains_key(&id), comparable > 0, "{name}");
        // An upper bound may be missing only where shortening has no successor.
        let droppable = matches!(kind, PrimitiveType::String | PrimitiveType::Binary);
        assert!(metrics.upper_bounds.contains_key(&id) == (comparable > 0) || droppable, "{name}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,5}",
        "[a-z]{60,90}",
        "\\PC{0,30}",
        Just("\u{10ffff}".repeat(40)),
        Just(format!("{}\u{d7ff}x", "a".repeat(15))),
        Just(format!("{}•rest", "0".repeat(15))),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let float = prop_oneof![Just(f64::NAN), Just(0.0), Just(-0.0), Just(f64::INFINITY), any::<f64>()];
    let numbers = (any::<Option<i32>>(), any::<Option<i64>>(), prop::option::of(float.clone()), any::<Option<bool>>());
    let decimals =
        (prop::option::of(-999_999_999i128..=999_999_999), prop::option::of(-(10i128.pow(37))..10i128.pow(37)));
    let bytes = prop::option::of(prop_oneof![prop::collection::vec(any::<u8>(), 0..100), Just(vec![255; 70])]);
    let nested = (
        prop::option::of(prop::option::of(float)),
        prop::option::of(prop::collection::vec(any::<Option<i64>>(), 0..4)),
    );
    (numbers, decimals, prop::option::of(text()), bytes, nested).prop_map(
        |((int, long, double, flag), (cents, huge), text, bytes, (inner, list))| Row {
            int,
            long,
            float: double.map(|v| v as f32),
            double,
            text,
            bytes,
            flag,
            cents,
            huge,
            inner,
            list,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn every_value_lies_within_the_bounds(groups in prop::collection::vec(prop::collection::vec(row(), 1..20), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for mode in ["truncate(16)", "truncate(1)", "truncate(40)", "truncate(100)", "full"] {
            let properties = [SMALL_GROUPS, ("write.metadata.metrics.default", mode)];
            let (metrics, _, batches) = runtime.block_on(written(&groups, &properties));
            check(&metrics, &batches);
        }
    }
}

fn empty() -> Row {
    let (int, long, float, double, text, bytes, flag) = Default::default();
    let (cents, huge, inner, list) = Default::default();
    Row { int, long, float, double, text, bytes, flag, cents, huge, inner, list }
}

fn with_text(text: &str) -> Row {
    Row { text: Some(text.to_owned()), ..empty() }
}

/// A row group whose end was shortened by Parquet counts as much as one whose end was not.
#[tokio::test]
async fn a_shortened_end_is_not_skipped() {
    let long = format!("z{}", "y".repeat(200));
    let mut groups = vec![vec![with_text("a"); 7], vec![with_text(&long); 7]];
    let (metrics, count, _) = written(&groups, &[SMALL_GROUPS]).await;
    assert_eq!(count, 2);
    let upper = metrics.upper_bounds[&5].to_human_string();
    assert_eq!(upper, format!("z{}z", "y".repeat(14)));
    groups.reverse();
    let (metrics, _, _) = written(&groups, &[SMALL_GROUPS]).await;
    assert_eq!(metrics.upper_bounds[&5].to_human_string(), upper);
}

#[tokio::test]
async fn row_groups_end_at_their_rows() {
    let (metrics, count, _) = written(&[vec![with_text("a"); 5], vec![with_text("b"); 16]], &[SMALL_GROUPS]).await;
    // Seven at most: 5, then 7, 7 and 2.
    assert_eq!((count, metrics.split_offsets.len()), (4, 4));
    assert!(metrics.split_offsets.is_sorted());
}

#[tokio::test]
async fn full_bounds_are_whole() {
    let long = format!("z{}", "y".repeat(200));
    let groups = [vec![with_text("a"), with_text(&long)]];
    let properties =
        [("write.metadata.metrics.column.whole", "full"), ("write.metadata.metrics.column.text", "truncate(100)")];
    let (metrics, _, _) = written(&groups, &properties).await;
    assert_eq!(metrics.upper_bounds[&18].to_human_string(), long);
    assert_eq!(metrics.upper_bounds[&5].to_human_string(), format!("z{}z", "y".repeat(98)));
}

#[tokio::test]
async fn modes_decide_what_is_kept() {
    let groups = [vec![with_text("a"), Row { double: Some(f64::NAN), ..empty() }]];
    let properties = [("write.metadata.metrics.default", "counts"), ("write.metadata.metrics.column.int", "none")];
    let (metrics, _, _) = written(&groups, &properties).await;
    assert!(metrics.lower_bounds.is_empty() && metrics.upper_bounds.is_empty());
    assert_eq!(metrics.value_counts[&5], 2);
    assert_eq!(metrics.nan_value_counts[&4], 1);
    assert!(!metrics.value_counts.contains_key(&1) && metrics.column_sizes.contains_key(&1));
}

#[tokio::test]
async fn repeated_values_have_counts_and_no_bounds() {
    let rows = vec![Row { list: Some(vec![Some(1), None, Some(3)]), inner: Some(Some(f64::NAN)), ..empty() }, empty()];
    let (metrics, _, _) = written(&[rows], &[]).await;
    assert_eq!(metrics.value_counts[&20], 4);
    assert!(!metrics.lower_bounds.contains_key(&20) && !metrics.upper_bounds.contains_key(&20));
    // A value in a struct is a column like any other; there is none where the struct is null.
    assert_eq!((metrics.value_counts[&19], metrics.null_value_counts[&19], metrics.nan_value_counts[&19]), (2, 1, 1));
}

#[tokio::test]
async fn uuids_are_named_in_the_file() {
    let layout = Layout::of("t".to_owned(), &metadata(&[])).unwrap();
    let settings = Settings::of(&layout).unwrap();
    let uuid = settings.parquet.columns().iter().find(|c| c.name() == "uuid").unwrap();
    assert_eq!(uuid.logical_type_ref(), Some(&parquet::basic::LogicalType::Uuid));
    let cents = settings.parquet.columns().iter().find(|c| c.name() == "cents").unwrap();
    assert_eq!(cents.self_type().get_basic_info().id(), 8);
}
