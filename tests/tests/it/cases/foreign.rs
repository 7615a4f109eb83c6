//! Cases of tables whose files nothing of ours would write.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{
    DataFileBuilder, Datum, Literal, NestedField, PartitionSpec, PrimitiveType as T, Schema, SchemaRef, Struct,
    Transform, Type,
};
use parquet::file::properties::EnabledStatistics;

use crate::foreign::{self, DataFile, Table};
use crate::lab::{self, Lab};

pub(super) fn schema(id: i32, fields: &[(i32, &str, T)]) -> SchemaRef {
    let fields =
        fields.iter().map(|(id, name, ty)| NestedField::optional(*id, *name, Type::Primitive(ty.clone())).into());
    Arc::new(Schema::builder().with_schema_id(id).with_fields(fields).build().unwrap())
}

pub(super) fn file(root: &str, name: &str, schema: &Schema, tuple: Struct, columns: Vec<ArrayRef>) -> DataFile {
    let rows = RecordBatch::try_new(Arc::new(schema_to_arrow_schema(schema).unwrap()), columns).unwrap();
    let path = format!("{root}/data/{name}.parquet");
    DataFile { path, epoch: 0, spec: 0, tuple, sequence: 1, rows, absent: Vec::new() }
}

pub(super) fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

pub(super) fn place() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let root = format!("file://{}/t", directory.path().display());
    (directory, root)
}

/// Asks a new session about the table at this metadata.
pub(super) async fn answers(metadata: &str, expected: &[(&str, &[&str])]) {
    let lab = Lab::local();
    let session = lab.session();
    let location = metadata.trim_start_matches("file://");
    lab::query(&session, &format!("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{location}'")).await;
    for (sql, rows) in expected {
        assert_eq!(lab::lines(&session, sql).await, *rows, "{sql}");
    }
}

/// Column a became b; v was dropped and added again; nothing was written since.
// @spec L6
#[tokio::test]
async fn a_name_that_came_back_33() {
    let (_directory, root) = place();
    let then = schema(0, &[(1, "a", T::String), (2, "v", T::String)]);
    let now = schema(1, &[(1, "b", T::String), (3, "v", T::String)]);
    let rows = vec![texts(&[Some("before")]), texts(&[Some("old")])];
    let files = [file(&root, "0", &then, Struct::empty(), rows)];
    let specs = [PartitionSpec::unpartition_spec()];
    let metadata = foreign::write(&Table::of(&root, &[then, now], &specs, &files)).await;
    answers(
        &metadata,
        &[
            ("SELECT * FROM t", &["before|∅"]),
            ("SELECT count(*) FROM t WHERE b = 'before'", &["1"]),
            ("SELECT b FROM t WHERE v IS NULL", &["before"]),
            ("SELECT count(*) FROM t WHERE v = 'old'", &["0"]),
            ("SELECT count(v), max(v), min(b) FROM t", &["0|∅|before"]),
        ],
    )
    .await;
}

/// The column of an identity partition is in no file.
#[tokio::test]
async fn an_identity_column_that_is_not_stored_35() {
    let (_directory, root) = place();
    let schema = schema(0, &[(1, "n", T::Int), (2, "k", T::String)]);
    let spec = PartitionSpec::builder(Arc::clone(&schema)).with_spec_id(0);
    let specs = [spec.add_partition_field("k", "k", Transform::Identity).unwrap().build().unwrap()];
    let files = [(1, Some("a")), (2, Some("b")), (3, None)].map(|(n, k)| {
        let rows: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![n])), texts(&[k])];
        let tuple = Struct::from_iter([k.map(Literal::string)]);
        DataFile { absent: vec![2], ..file(&root, &n.to_string(), &schema, tuple, rows) }
    });
    let metadata = foreign::write(&Table::of(&root, &[schema], &specs, &files)).await;
    answers(
        &metadata,
        &[
            ("SELECT * FROM t", &["1|a", "2|b", "3|∅"]),
            ("SELECT n FROM t WHERE k = 'a'", &["1"]),
            ("SELECT count(*) FROM t WHERE k = 'a'", &["1"]),
            ("SELECT count(k), count(*), max(k) FROM t", &["2|3|b"]),
            ("SELECT n FROM t WHERE k IS NULL", &["3"]),
            ("SELECT n FROM t WHERE n > 1 AND k <> 'a'", &["2"]),
        ],
    )
    .await;
}

/// Ids of columns and of partition fields are counted apart, so that `_partition.k` may have a column's.
#[tokio::test]
async fn a_column_with_the_id_of_a_partition_field() {
    let (_directory, root) = place();
    let schema = schema(0, &[(1000, "n", T::String), (2, "k", T::String)]);
    let spec = PartitionSpec::builder(Arc::clone(&schema)).with_spec_id(0);
    let specs = [spec.add_partition_field("k", "k", Transform::Identity).unwrap().build().unwrap()];
    assert_eq!(specs[0].fields()[0].field_id, 1000);
    let files = ["a", "b"].map(|k| {
        let rows = vec![texts(&[Some(if k == "a" { "x" } else { "a" })]), texts(&[Some(k)])];
        file(&root, k, &schema, Struct::from_iter([Some(Literal::string(k))]), rows)
    });
    let metadata = foreign::write(&Table::of(&root, &[schema], &specs, &files)).await;
    answers(
        &metadata,
        &[
            ("SELECT n FROM t WHERE _partition.k = 'a'", &["x"]),
            ("SELECT n, _partition.k FROM t WHERE _partition['k'] >= 'b' OR n = 'x'", &["a|b", "x|a"]),
            ("SELECT count(*) FROM t WHERE _partition.k = n", &["0"]),
        ],
    )
    .await;
}

/// A null count that stands for -1 until the manifest is written.
const TO_BE_NEGATIVE: u64 = 63;

/// Nothing is known in the files; the manifest counts less than nothing, and knows a column that nobody has.
#[tokio::test]
async fn odd_statistics_24() {
    let (_directory, root) = place();
    let schema = schema(0, &[(1, "n", T::Int), (2, "s", T::String)]);
    let rows: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..500)),
        Arc::new(StringArray::from_iter((0..500).map(|n| (n % 2 == 0).then(|| format!("s{n}"))))),
    ];
    let files = [file(&root, "0", &schema, Struct::empty(), rows)];
    let specs = [PartitionSpec::unpartition_spec()];
    let odd = |entry: &mut DataFileBuilder| {
        entry.null_value_counts([(2, TO_BE_NEGATIVE)].into()).value_counts([(999, 500)].into());
        entry.lower_bounds([(999, Datum::int(7))].into()).upper_bounds([(999, Datum::int(7))].into());
    };
    let table = Table::of(&root, &[schema], &specs, &files);
    let table = Table {
        properties: |p| p.set_offset_index_disabled(true).set_statistics_enabled(EnabledStatistics::None),
        edit: odd,
        ..table
    };
    let metadata = foreign::write(&table).await;
    make_negative(&format!("{}/metadata/data-0-0.avro", root.trim_start_matches("file://")));
    answers(
        &metadata,
        &[
            ("SELECT count(*) FROM t WHERE n >= 250", &["250"]),
            ("SELECT n FROM t WHERE n = 499", &["499"]),
            ("SELECT count(*) FROM t WHERE s IS NULL", &["250"]),
            ("SELECT count(*) FROM t WHERE s IS NOT NULL AND n < 7", &["4"]),
            ("SELECT count(s), count(n), count(*) FROM t", &["250|500|500"]),
        ],
    )
    .await;
}

/// Avro, uncompressed: an array of one pair, the id 2 and the count; numbers are doubled, negative ones then inverted.
fn make_negative(manifest: &str) {
    let mut bytes = std::fs::read(manifest).unwrap();
    let pair = [2, 4, 2 * TO_BE_NEGATIVE as u8, 0];
    let found: Vec<usize> = (0..bytes.len() - pair.len()).filter(|at| bytes[*at..].starts_with(&pair)).collect();
    assert_eq!(found.len(), 1, "there is one such count");
    bytes[found[0] + 2] = 1;
    std::fs::write(manifest, bytes).unwrap();
}
