//! Fields inside structs, as other writers store and count them.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    Datum, Literal, NestedField, PartitionSpec, PrimitiveType as P, Struct, StructType, Transform, Type,
};

use super::fixture::{REMOTE, Table, column};
use super::foreign::{Leaf, answers, file};
use super::lines;

/// The default of a struct gives its fields their values.
#[tokio::test]
async fn a_field_has_its_value_from_the_default_of_its_struct() {
    let inner = StructType::new(vec![Arc::new(column(11, "x", P::Int)), Arc::new(column(12, "y", P::Int))]);
    let given = Literal::Struct(Struct::from_iter([Some(Literal::int(5)), None]));
    let added = NestedField::optional(10, "s", Type::Struct(inner)).with_initial_default(given);
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), added], None);
    table.adopt(file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![1, 2])]), 2, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT n FROM t WHERE s['x'] = 5 AND n > 1", &["2"]),
            ("SELECT count(*) FROM t WHERE s['x'] IS NULL", &["0"]),
            ("SELECT s['x'], s['y'] FROM t WHERE s['y'] IS NULL AND n = 1", &["5|∅"]),
        ],
    )
    .await;
}

/// Statistics are those of the field, and not of one beside it.
#[tokio::test]
async fn a_field_of_a_struct_is_told_from_its_neighbours() {
    let inner = StructType::new(vec![Arc::new(column(21, "x", P::Int)), Arc::new(column(22, "y", P::Int))]);
    let fields = vec![
        Arc::new(column(11, "a", P::Int)),
        Arc::new(NestedField::optional(12, "in", Type::Struct(inner))),
        Arc::new(column(13, "b", P::Int)),
    ];
    let mut table =
        Table::new(REMOTE, vec![NestedField::optional(1, "s", Type::Struct(StructType::new(fields)))], None);
    let message = "message m { required group s = 1 { required int32 a = 11; \
                   required group in = 12 { required int32 x = 21; required int32 y = 22; } required int32 b = 13; } }";
    let leaves = [1, 10, 20, 30].map(|from| Leaf::Ints(vec![from, from + 1])).into();
    table.adopt(file(message, leaves), 2, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT s['a'] FROM t WHERE s['b'] = 31", &["2"]),
            ("SELECT s['in']['y'] FROM t WHERE s['in']['x'] = 10", &["20"]),
            ("SELECT s['in']['x'], s['b'] FROM t WHERE s['in']['y'] > 20 AND s['a'] < 3", &["11|31"]),
            ("SELECT s FROM t WHERE s['a'] = 1", &["{a: 1, in: {x: 10, y: 20}, b: 30}"]),
        ],
    )
    .await;
}

/// A struct that is in the file, without some of its fields.
#[tokio::test]
async fn fields_of_structs_have_defaults() {
    let inner = vec![
        Arc::new(column(11, "old", P::Int)),
        Arc::new(column(12, "new", P::Int).with_initial_default(Literal::int(5))),
        Arc::new(column(13, "part", P::Int)),
    ];
    let mut table = Table::new(REMOTE, vec![NestedField::optional(1, "s", Type::Struct(StructType::new(inner)))], None);
    table.spec = PartitionSpec::builder(Arc::clone(&table.schema))
        .add_partition_field("s.part", "part", Transform::Identity)
        .unwrap()
        .build()
        .unwrap();
    let message = "message m { optional group s = 1 { required int32 old = 11; } }";
    for part in [Some(8), Some(9), None] {
        let leaf = Leaf::Leveled(Box::new(Leaf::Ints(vec![1])), vec![1, 0], vec![0, 0]);
        table.adopt(file(message, vec![leaf]), 2, Struct::from_iter([part.map(Literal::int)])).await;
    }
    answers(
        &table,
        &[
            (
                "SELECT s FROM t WHERE s IS NOT NULL",
                &["{old: 1, new: 5, part: 8}", "{old: 1, new: 5, part: 9}", "{old: 1, new: 5, part: ∅}"],
            ),
            ("SELECT s['old'] FROM t WHERE s['part'] = 9", &["1"]),
            ("SELECT s['old'], s['new'] FROM t WHERE s IS NULL", &["∅|∅", "∅|∅", "∅|∅"]),
            ("SELECT count(*) FROM t WHERE s['new'] = 5 OR s['old'] = 0", &["3"]),
            ("SELECT count(*) FROM t WHERE s IS NULL", &["3"]),
            ("SELECT count(*) FROM t WHERE s['part'] IS NULL", &["4"]),
        ],
    )
    .await;
}

/// A writer that counts as null only what is null inside of structs, and one that counts structs too.
#[tokio::test]
async fn nulls_that_a_struct_hides_need_not_be_counted() {
    for counted in [0, 1] {
        let inner = StructType::new(vec![Arc::new(column(11, "a", P::Int))]);
        let mut table = Table::new(REMOTE, vec![NestedField::optional(1, "s", Type::Struct(inner))], None);
        let message = "message m { optional group s = 1 { required int32 a = 11; } }";
        let leaf = Leaf::Leveled(Box::new(Leaf::Ints(vec![7])), vec![1, 0], vec![0, 0]);
        table.adopt(file(message, vec![leaf]), 2, Struct::empty()).await;
        table.restate(0, |says| {
            says.null_value_counts(HashMap::from([(11, counted)]));
            says.lower_bounds(HashMap::from([(11, Datum::int(7))]));
            says.upper_bounds(HashMap::from([(11, Datum::int(7))]));
        });
        answers(
            &table,
            &[
                ("SELECT s FROM t WHERE s['a'] = 7", &["{a: 7}"]),
                ("SELECT count(*) FROM t WHERE s['a'] IS NULL", &["1"]),
                ("SELECT count(*) FROM t WHERE s['a'] IS NOT NULL", &["1"]),
                ("SELECT count(*) FROM t WHERE s['a'] > 0", &["1"]),
                ("SELECT count(s['a']), count(s), count(*) FROM t", &["1|1|2"]),
                ("SELECT s['a'] FROM t WHERE s['a'] < 7", &[]),
            ],
        )
        .await;
    }
}

/// The source of a partition field may be inside a struct.
#[tokio::test]
async fn a_partition_by_a_field_of_a_struct_prunes() {
    let inner = vec![Arc::new(column(11, "at", P::Timestamp)), Arc::new(column(12, "n", P::Int))];
    let mut table = Table::new(REMOTE, vec![NestedField::optional(1, "s", Type::Struct(StructType::new(inner)))], None);
    table.spec = PartitionSpec::builder(Arc::clone(&table.schema))
        .add_partition_field("s.at", "day", Transform::Day)
        .unwrap()
        .build()
        .unwrap();
    let message = "message m { optional group s = 1 { \
                   optional int64 at (TIMESTAMP(MICROS, false)) = 11; optional int32 n = 12; } }";
    let day = 86_400_000_000_i64;
    for at in 0..3 {
        let leveled = |leaf| Leaf::Leveled(Box::new(leaf), vec![2, 2], vec![0, 0]);
        let leaves = vec![leveled(Leaf::Longs(vec![at * day, at * day + 1])), leveled(Leaf::Ints(vec![at as i32, 10]))];
        table.adopt(file(message, leaves), 2, Struct::from_iter([Some(Literal::int(at as i32))])).await;
    }
    // One whose structs are all null.
    let nulls = |leaf| Leaf::Leveled(Box::new(leaf), vec![0, 0], vec![0, 0]);
    let leaves = vec![nulls(Leaf::Longs(vec![])), nulls(Leaf::Ints(vec![]))];
    table.adopt(file(message, leaves), 2, Struct::from_iter([None])).await;

    let context = table.session(table.view().await, 2);
    for (sql, expected, kept) in [
        ("SELECT s['n'] FROM t WHERE s['at'] >= '1970-01-03'", &["10", "2"][..], 1),
        ("SELECT s['n'] FROM t WHERE s['at'] > '1970-01-02' AND s['n'] < 5", &["2"], 2),
        ("SELECT count(*) FROM t WHERE CAST(s['at'] AS DATE) = '1970-01-01'", &["2"], 1),
        ("SELECT count(s) FROM t WHERE s['at'] IS NULL", &["0"], 4),
        ("SELECT count(*) FROM t WHERE s['at'] IS NOT NULL", &["6"], 3),
    ] {
        let answer = table.query(&context, sql).await;
        assert_eq!(lines(&answer.batches), expected, "{sql}");
        assert_eq!(answer.report.unwrap().ledger.files.kept(), kept, "{sql}");
    }
}
