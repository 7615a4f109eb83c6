//! Columns that changed after files were written.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use iceberg::spec::{
    ListType, Literal, NestedField, PartitionSpec, PrimitiveType, Schema, StructType, Transform, Type,
};

use super::fixture::{REMOTE, Table, column};
use super::lines;

fn batch(table: &Table, columns: Vec<ArrayRef>) -> RecordBatch {
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    RecordBatch::try_new(stored, columns).unwrap()
}

fn evolve(table: &mut Table, fields: Vec<NestedField>) {
    let fields = fields.into_iter().map(Arc::new);
    table.schema = Arc::new(Schema::builder().with_fields(fields).build().unwrap());
}

async fn answers(table: &Table, queries: &[(&str, &[&str])]) {
    let context = table.session(table.view().await, 2);
    for (sql, expected) in queries {
        assert_eq!(lines(&table.query(&context, sql).await.batches), *expected, "{sql}");
    }
}

#[tokio::test]
async fn columns_are_found_by_id() {
    let mut table =
        Table::new(REMOTE, vec![column(1, "a", PrimitiveType::Int), column(2, "b", PrimitiveType::String)], None);
    let old: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![Some("x"), None]))];
    table.add(&batch(&table, old), None).await;
    // a: promoted and renamed; its old name is another column now; b dropped; c and d added, d with a default.
    evolve(
        &mut table,
        vec![
            column(4, "d", PrimitiveType::Long).with_initial_default(Literal::long(7)),
            column(1, "n", PrimitiveType::Long),
            column(3, "a", PrimitiveType::String),
        ],
    );
    let new: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![None, Some(8)])),
        Arc::new(Int64Array::from(vec![3, 1 << 40])),
        Arc::new(StringArray::from(vec!["y", "z"])),
    ];
    table.add(&batch(&table, new), None).await;
    let big = 1_i64 << 40;
    answers(
        &table,
        &[
            ("SELECT * FROM t", &["7|1|∅", "7|2|∅", &format!("8|{big}|z"), "∅|3|y"].map(|s| s as &str)),
            ("SELECT n FROM t WHERE n >= 2", &[&big.to_string(), "2", "3"].map(|s| s as &str)),
            ("SELECT n FROM t WHERE d = 7", &["1", "2"]),
            ("SELECT n FROM t WHERE a IS NULL", &["1", "2"]),
            ("SELECT n FROM t WHERE a = 'y' OR d = 7", &["1", "2", "3"]),
            ("SELECT count(*) FROM t WHERE d > 7", &["1"]),
            ("SELECT n FROM t WHERE n = 1 AND d = 7 AND a IS NULL", &["1"]),
            ("SELECT a, d + 1 FROM t WHERE length(a) = 1 AND n <> 3", &["z|9"]),
        ],
    )
    .await;
}

fn person(extra: Vec<NestedField>) -> Type {
    let mut fields = vec![column(11, "name", PrimitiveType::String), column(12, "age", PrimitiveType::Int)];
    fields.extend(extra);
    Type::Struct(StructType::new(fields.into_iter().map(Arc::new).collect()))
}

fn people(element: Type) -> Vec<NestedField> {
    let list = ListType::new(Arc::new(NestedField::list_element(10, element, false)));
    vec![column(1, "id", PrimitiveType::Int), NestedField::optional(2, "people", Type::List(list))]
}

#[tokio::test]
async fn nested_fields_are_found_by_id() {
    let mut table = Table::new(REMOTE, people(person(Vec::new())), None);
    let stored = crate::schema::stored_arrow(&table.schema).unwrap();
    let DataType::List(element) = stored.field(1).data_type() else { panic!("a list") };
    let DataType::Struct(fields) = element.data_type() else { panic!("a struct") };
    let structs = StructArray::new(
        fields.clone(),
        vec![Arc::new(StringArray::from(vec!["ann", "bob"])), Arc::new(Int32Array::from(vec![Some(30), None]))],
        None,
    );
    let list = ListArray::new(Arc::clone(element), OffsetBuffer::from_lengths([2, 0]), Arc::new(structs), None);
    table.add(&batch(&table, vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(list)]), None).await;
    // name renamed, age promoted and moved ahead, a field added.
    let fields = vec![
        column(12, "years", PrimitiveType::Long),
        column(13, "mail", PrimitiveType::String),
        column(11, "called", PrimitiveType::String),
    ];
    evolve(&mut table, people(Type::Struct(StructType::new(fields.into_iter().map(Arc::new).collect()))));
    let context = table.session(table.view().await, 1);
    let answer = table.query(&context, "SELECT id, people FROM t").await;
    assert_eq!(
        lines(&answer.batches),
        ["1|[{years: 30, mail: ∅, called: ann}, {years: ∅, mail: ∅, called: bob}]", "2|[]"]
    );
    let answer = table.query(&context, "SELECT people[1]['called'] FROM t WHERE people[1]['years'] > 1").await;
    assert_eq!(lines(&answer.batches), ["ann"]);
}

#[tokio::test]
async fn an_identity_partition_gives_a_column_that_files_lack() {
    let mut table = Table::new(REMOTE, vec![column(1, "n", PrimitiveType::Int)], None);
    for region in [7, 8] {
        table.add(&batch(&table, vec![Arc::new(Int32Array::from(vec![region * 10]))]), Some(region)).await;
    }
    evolve(&mut table, vec![column(1, "n", PrimitiveType::Int), column(2, "region", PrimitiveType::Int)]);
    table.spec = PartitionSpec::builder(Arc::clone(&table.schema))
        .add_partition_field("region", "region", Transform::Identity)
        .unwrap()
        .build()
        .unwrap();
    answers(
        &table,
        &[
            ("SELECT n, region FROM t", &["70|7", "80|8"]),
            ("SELECT n FROM t WHERE region = 8", &["80"]),
            ("SELECT n FROM t WHERE region + n > 80", &["80"]),
        ],
    )
    .await;
}
