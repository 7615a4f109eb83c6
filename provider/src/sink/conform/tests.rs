use arrow::array::{
    BinaryViewArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Int32Array, Int64Array,
    StringArray, StringViewArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType};

use super::*;

fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn one(from: ArrayRef, to: Field) -> Result<ArrayRef> {
    let input = RecordBatch::try_from_iter_with_nullable([(to.name().as_str(), from, true)]).unwrap();
    let made = Conform::try_new(&input.schema(), &schema(vec![to]), vec![None])?.batch(&input)?;
    Ok(Arc::clone(made.column(0)))
}

fn micros(zone: Option<&str>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into))
}

#[test]
fn columns_are_matched_by_name() {
    let target = schema(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("note", DataType::Utf8, true),
        Field::new("n", DataType::Int64, false),
    ]);
    let input = RecordBatch::try_from_iter([
        ("n", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("id", Arc::new(StringViewArray::from(vec!["a", "a long identifier beyond twelve bytes"])) as ArrayRef),
    ])
    .unwrap();
    let made = Conform::try_new(&input.schema(), &target, vec![None; 3]).unwrap().batch(&input).unwrap();
    assert_eq!(made.schema(), target);
    assert_eq!(made.column(0).as_string::<i32>().value(1), "a long identifier beyond twelve bytes");
    assert_eq!(made.column(1).null_count(), 2);
    assert_eq!(made.column(2).as_primitive::<Int64Type>().values().as_ref(), [1, 2]);
}

#[test]
fn a_missing_column_takes_its_write_default() {
    let target = schema(vec![Field::new("n", DataType::Int64, false), Field::new("d", DataType::Int64, false)]);
    let input = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let default: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let made = Conform::try_new(&input.schema(), &target, vec![None, Some(default)]).unwrap().batch(&input).unwrap();
    assert_eq!(made.column(1).as_primitive::<Int64Type>().values().as_ref(), [7, 7]);
    let error = Conform::try_new(&input.schema(), &target, vec![None, None]).unwrap_err();
    assert_eq!(error.code(), Code::IcebergDataWriteFailed);
    assert!(error.to_string().contains("column: d"), "{error}");
}

#[test]
fn a_column_the_table_does_not_have_is_refused() {
    let target = schema(vec![Field::new("n", DataType::Int64, true)]);
    let input = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("x", DataType::Int64, true)]);
    let error = Conform::try_new(&input, &target, vec![None]).unwrap_err();
    assert_eq!(error.code(), Code::IcebergSchemaIncompatible);
    assert!(error.to_string().contains("column: x"), "{error}");
}

#[test]
fn nanoseconds_become_microseconds_only_exactly() {
    let to = || Field::new("ts", micros(Some("+00:00")), true);
    let whole = TimestampNanosecondArray::from(vec![Some(1_000), Some(-1_000), None]).with_timezone("Asia/Tokyo");
    let made = one(Arc::new(whole), to()).unwrap();
    assert_eq!(made.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>(), [Some(1), Some(-1), None]);
    let fraction = TimestampNanosecondArray::from(vec![1_000, 1_001]).with_timezone("UTC");
    let error = one(Arc::new(fraction), to()).unwrap_err();
    assert_eq!(error.code(), Code::IcebergDataWriteFailed);
    assert!(error.to_string().contains("column: ts"), "{error}");
}

#[test]
fn a_zone_is_not_invented() {
    let plain: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]));
    let error = one(plain, Field::new("ts", micros(Some("+00:00")), true)).unwrap_err();
    assert_eq!(error.code(), Code::IcebergSchemaIncompatible);
}

#[test]
fn values_are_checked_where_types_are_not_enough() {
    let big: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
    assert_eq!(one(big, Field::new("n", DataType::Int32, true)).unwrap_err().code(), Code::IcebergDataWriteFailed);
    let huge: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    assert_eq!(one(huge, Field::new("n", DataType::Int64, true)).unwrap_err().code(), Code::IcebergDataWriteFailed);
    let cents =
        || Arc::new(Decimal128Array::from(vec![1050, 1055]).with_precision_and_scale(10, 2).unwrap()) as ArrayRef;
    assert!(one(cents(), Field::new("d", DataType::Decimal128(12, 3), true)).is_ok());
    assert_eq!(
        one(cents(), Field::new("d", DataType::Decimal128(10, 1), true)).unwrap_err().code(),
        Code::IcebergDataWriteFailed
    );
    let float: ArrayRef = Arc::new(Float32Array::from(vec![0.1]));
    assert!(one(Arc::clone(&float), Field::new("f", DataType::Float64, true)).is_ok());
    assert_eq!(one(float, Field::new("f", DataType::Int64, true)).unwrap_err().code(), Code::IcebergSchemaIncompatible);
    let bytes: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(b"ab".as_ref()), None]));
    let fixed = one(bytes, Field::new("b", DataType::FixedSizeBinary(2), true)).unwrap();
    assert_eq!(fixed.as_any().downcast_ref::<FixedSizeBinaryArray>().unwrap().value(0), b"ab");
}

#[test]
fn dictionaries_are_unpacked() {
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, 2_001]).with_timezone("UTC"));
    let keys = Int32Array::from(vec![Some(0), None, Some(0)]);
    let packed: ArrayRef = Arc::new(DictionaryArray::new(keys, nanos.slice(0, 1)));
    let to = || Field::new("ts", micros(Some("+00:00")), true);
    let made = one(packed, to()).unwrap();
    assert_eq!(made.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>(), [Some(1), None, Some(1)]);
    let packed: ArrayRef = Arc::new(DictionaryArray::new(Int32Array::from(vec![1]), nanos));
    assert_eq!(one(packed, to()).unwrap_err().code(), Code::IcebergDataWriteFailed);
    let text: ArrayRef = Arc::new([Some("a"), None, Some("a")].into_iter().collect::<DictionaryArray<Int32Type>>());
    assert_eq!(one(text, Field::new("s", DataType::Utf8, true)).unwrap().as_string::<i32>().value(2), "a");
}

// @spec L8
#[test]
fn null_in_a_required_column_names_the_column() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let error = one(values, Field::new("session_id", DataType::Utf8, false)).unwrap_err();
    assert_eq!(error.code(), Code::IcebergDataWriteFailed);
    assert!(error.to_string().contains("column: session_id"), "{error}");
}

#[test]
fn nested_values_are_conformed_in_slices() {
    let element = Arc::new(Field::new("item", DataType::Int32, true));
    let ints = Int32Array::from((0..10).collect::<Vec<_>>());
    let list = ListArray::new(element, OffsetBuffer::from_lengths([3, 0, 3, 4]), Arc::new(ints), None);
    let inner = Fields::from(vec![Field::new("n", DataType::Int32, true)]);
    let valid = NullBuffer::from(vec![true, false, true, true]);
    let child: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let row = StructArray::new(inner, vec![child], Some(valid));
    let input = RecordBatch::try_from_iter_with_nullable([
        ("l", Arc::new(list) as ArrayRef, true),
        ("s", Arc::new(row) as ArrayRef, true),
    ])
    .unwrap();
    let target = schema(vec![
        Field::new("l", DataType::List(Arc::new(Field::new("element", DataType::Int64, true))), true),
        Field::new(
            "s",
            DataType::Struct(Fields::from(vec![
                Field::new("extra", DataType::Utf8, true),
                Field::new("n", DataType::Int64, false),
            ])),
            true,
        ),
    ]);
    let conform = Conform::try_new(&input.schema(), &target, vec![None, None]).unwrap();
    let made = conform.batch(&input.slice(1, 3)).unwrap();
    let list = made.column(0).as_list::<i32>();
    assert_eq!(list.value(2).as_primitive::<Int64Type>().values().as_ref(), [6, 7, 8, 9]);
    let row = made.column(1).as_struct();
    assert!(row.is_null(0));
    assert_eq!(row.column(1).as_primitive::<Int64Type>().value(2), 4);
}
