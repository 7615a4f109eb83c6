//! Files as other writers make them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringArray};
use iceberg::spec::{
    Datum, ListType, Literal, MapType, NestedField, PartitionSpec, PrimitiveLiteral, PrimitiveType as P, Struct,
    StructType, Transform, Type,
};
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96,
    Int96Type,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::fixture::{REMOTE, Table, column};
use super::lines;

/// The values of a leaf column; of optional and repeated ones with their levels.
pub(super) enum Leaf {
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Int96(Vec<[u32; 3]>),
    Floats(Vec<f32>),
    Bytes(Vec<Vec<u8>>),
    Fixed(Vec<Vec<u8>>),
    Leveled(Box<Leaf>, Vec<i16>, Vec<i16>),
}

/// A Parquet file of one row group.
pub(super) fn file(message: &str, leaves: Vec<Leaf>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for leaf in leaves {
        let mut column = group.next_column().unwrap().expect("a column for each leaf");
        let (leaf, levels) = match leaf {
            Leaf::Leveled(leaf, definitions, repetitions) => (*leaf, Some((definitions, repetitions))),
            leaf => (leaf, None),
        };
        let (definitions, repetitions) = match &levels {
            Some((definitions, repetitions)) => (Some(&definitions[..]), Some(&repetitions[..])),
            None => (None, None),
        };
        macro_rules! write {
            ($type:ty, $values:expr) => {
                column.typed::<$type>().write_batch(&$values, definitions, repetitions)
            };
        }
        match leaf {
            Leaf::Ints(values) => write!(Int32Type, values),
            Leaf::Longs(values) => write!(Int64Type, values),
            Leaf::Floats(values) => write!(FloatType, values),
            Leaf::Bytes(values) => {
                write!(ByteArrayType, values.into_iter().map(ByteArray::from).collect::<Vec<_>>())
            }
            Leaf::Fixed(values) => {
                let fixed = |bytes| FixedLenByteArray::from(ByteArray::from(bytes));
                write!(FixedLenByteArrayType, values.into_iter().map(fixed).collect::<Vec<_>>())
            }
            Leaf::Int96(values) => write!(
                Int96Type,
                values
                    .into_iter()
                    .map(|[low, high, day]| {
                        let mut value = Int96::new();
                        value.set_data(low, high, day);
                        value
                    })
                    .collect::<Vec<_>>()
            ),
            Leaf::Leveled(..) => unreachable!("levels of levels"),
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    out
}

fn texts(values: &[&str]) -> Leaf {
    Leaf::Bytes(values.iter().map(|text| text.as_bytes().to_vec()).collect())
}

pub(super) async fn answers(table: &Table, queries: &[(&str, &[&str])]) {
    let context = table.session(table.view().await, 2);
    for (sql, expected) in queries {
        assert_eq!(lines(&table.query(&context, sql).await.batches), *expected, "{sql}");
    }
}

async fn error(table: &Table, sql: &str) -> String {
    let context = table.session(table.view().await, 1);
    match context.sql(sql).await.unwrap().collect().await {
        Ok(batches) => panic!("{sql}: {:?}", lines(&batches)),
        Err(error) => error.to_string(),
    }
}

/// A table of one column and a file of two rows, in which the column is stored as `stored`.
async fn one(ty: P, stored: &str, leaf: Leaf) -> Table {
    let mut table = Table::new(REMOTE, vec![column(1, "x", ty)], None);
    table.adopt(file(&format!("message m {{ required {stored} = 1; }}"), vec![leaf]), 2, Struct::empty()).await;
    table
}

/// Each encoding: the rows are right, and the literals that are compared find the row they are.
#[tokio::test]
async fn values_are_the_same_in_every_encoding() {
    let be = |bytes: &[u8]| bytes.to_vec();
    let cases: Vec<(P, &str, Leaf, [&str; 2], &str)> = vec![
        (
            P::Decimal { precision: 9, scale: 2 },
            "int32 x (DECIMAL(9, 2))",
            Leaf::Ints(vec![1050, -1]),
            ["-0.01", "10.50"],
            "x = 10.50",
        ),
        (
            P::Decimal { precision: 18, scale: 2 },
            "int64 x (DECIMAL(18, 2))",
            Leaf::Longs(vec![500, -500]),
            ["-5.00", "5.00"],
            "x = 5.00",
        ),
        // Widened since, and stored in as few bytes as the old precision needs.
        (
            P::Decimal { precision: 38, scale: 2 },
            "fixed_len_byte_array(2) x (DECIMAL(4, 2))",
            Leaf::Fixed(vec![be(&[0x01, 0xf4]), be(&[0xff, 0xff])]),
            ["-0.01", "5.00"],
            "x = 5.00",
        ),
        (
            P::Decimal { precision: 19, scale: 2 },
            "binary x (DECIMAL(19, 2))",
            Leaf::Bytes(vec![be(&[0x01, 0xf4]), be(&[0xff])]),
            ["-0.01", "5.00"],
            "x < 0",
        ),
        // Declared wider than the table.
        (
            P::Decimal { precision: 9, scale: 2 },
            "fixed_len_byte_array(16) x (DECIMAL(38, 2))",
            Leaf::Fixed(vec![be(&500_i128.to_be_bytes()), be(&(-1_i128).to_be_bytes())]),
            ["-0.01", "5.00"],
            "x = 5.00",
        ),
        (
            P::Timestamp,
            "int64 x (TIMESTAMP(MILLIS, false))",
            Leaf::Longs(vec![1500, -1]),
            ["1969-12-31T23:59:59.999", "1970-01-01T00:00:01.500"],
            "x > '1970-01-01'",
        ),
        (
            P::Timestamptz,
            "int64 x (TIMESTAMP(MILLIS, true))",
            Leaf::Longs(vec![1500, -1]),
            ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:01.500Z"],
            "x > '1970-01-01T00:00:00Z'",
        ),
        (
            P::Timestamp,
            "int64 x (TIMESTAMP(NANOS, false))",
            Leaf::Longs(vec![1_500_000, -1000]),
            ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.001500"],
            "x > '1970-01-01'",
        ),
        (
            P::Timestamptz,
            "int64 x (TIMESTAMP(MICROS, false))",
            Leaf::Longs(vec![1500, -1]),
            ["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.001500Z"],
            "x > '1970-01-01T00:00:00Z'",
        ),
        // Julian day 2440588 is the first of 1970; the second value is in the year 1.
        (
            P::Timestamp,
            "int96 x",
            Leaf::Int96(vec![[1_500_000, 0, 2_440_588], [0, 0, 1_721_426]]),
            ["0001-01-01T00:00:00", "1970-01-01T00:00:00.001500"],
            "x > '1970-01-01'",
        ),
        (
            P::TimestampNs,
            "int64 x (TIMESTAMP(MICROS, false))",
            Leaf::Longs(vec![1500, -1]),
            ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.001500"],
            "x > '1970-01-01'",
        ),
        // A promotion of version 3.
        (
            P::Timestamp,
            "int32 x (DATE)",
            Leaf::Ints(vec![1, -1]),
            ["1969-12-31T00:00:00", "1970-01-02T00:00:00"],
            "x = '1970-01-02'",
        ),
        (
            P::Time,
            "int32 x (TIME(MILLIS, true))",
            Leaf::Ints(vec![1500, 0]),
            ["00:00:00", "00:00:01.500"],
            "x > '00:00:01'",
        ),
        (P::Long, "int32 x", Leaf::Ints(vec![i32::MAX, -1]), ["-1", "2147483647"], "x > 2147483646"),
        (P::Long, "int32 x (INTEGER(32, false))", Leaf::Ints(vec![-1, 7]), ["4294967295", "7"], "x > 4294967294"),
        (P::Int, "int32 x (INTEGER(16, false))", Leaf::Ints(vec![65535, 7]), ["65535", "7"], "x > 7"),
        (P::Double, "float x", Leaf::Floats(vec![1.5, f32::NAN]), ["1.5", "NaN"], "x = 1.5"),
        (P::String, "binary x", texts(&["ü", "a"]), ["a", "ü"], "x = 'ü'"),
        (P::String, "binary x (ENUM)", texts(&["b", "a"]), ["a", "b"], "x = 'b'"),
        (P::String, "binary x (JSON)", texts(&["{}", "[]"]), ["[]", "{}"], "x = '{}'"),
        (P::Binary, "binary x (UTF8)", texts(&["b", "a"]), ["61", "62"], "x = 'b'"),
        (P::Binary, "fixed_len_byte_array(1) x", Leaf::Fixed(vec![be(b"b"), be(b"a")]), ["61", "62"], "x = 'b'"),
        (P::Fixed(2), "binary x", texts(&["bb", "aa"]), ["6161", "6262"], "x = X'6262'"),
        (
            P::Uuid,
            "fixed_len_byte_array(16) x",
            Leaf::Fixed(vec![vec![0xf7; 16], vec![0; 16]]),
            ["00000000000000000000000000000000", "f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7"],
            "x = X'f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7'",
        ),
    ];
    for (ty, stored, leaf, rows, filter) in cases {
        println!("{ty} as {stored}");
        let table = one(ty, stored, leaf).await;
        let context = table.session(table.view().await, 1);
        assert_eq!(lines(&table.query(&context, "SELECT x FROM t").await.batches), rows, "{stored}");
        for (filter, expected) in [(filter.to_owned(), 1), (format!("NOT ({filter})"), 1), ("x IS NULL".to_owned(), 0)]
        {
            let sql = format!("SELECT x FROM t WHERE {filter}");
            assert_eq!(lines(&table.query(&context, &sql).await.batches).len(), expected, "{stored}: {sql}");
        }
    }
}

#[tokio::test]
async fn what_a_type_cannot_hold_is_an_error() {
    for (ty, stored, leaf) in [
        (P::Timestamp, "int64 x (TIMESTAMP(NANOS, false))", Leaf::Longs(vec![1_500_001, 0])),
        (P::Int, "int32 x (INTEGER(32, false))", Leaf::Ints(vec![-1, 7])),
        (P::Decimal { precision: 3, scale: 2 }, "int32 x (DECIMAL(9, 2))", Leaf::Ints(vec![100_000, 1])),
        (P::String, "binary x", Leaf::Bytes(vec![vec![0xff, 0xfe], vec![]])),
        (P::String, "binary x (JSON)", Leaf::Bytes(vec![vec![0xff, 0xfe], vec![]])),
        (P::String, "binary x (UTF8)", Leaf::Bytes(vec![vec![0xff, 0xfe], vec![]])),
        (P::TimestampNs, "int64 x (TIMESTAMP(MILLIS, false))", Leaf::Longs(vec![i64::MAX / 1000, 0])),
    ] {
        error(&one(ty, stored, leaf).await, "SELECT x FROM t").await;
    }
    for (ty, stored, leaf) in [
        (P::Int, "int64 x", Leaf::Longs(vec![1, 2])),
        (P::Decimal { precision: 9, scale: 3 }, "int32 x (DECIMAL(9, 2))", Leaf::Ints(vec![1, 1])),
        (P::String, "int32 x", Leaf::Ints(vec![1, 1])),
    ] {
        let error = error(&one(ty, stored, leaf).await, "SELECT x FROM t").await;
        assert!(error.contains("error[data_file_corrupt]") && error.contains("column: x"), "{stored}: {error}");
        assert!(error.contains("data/0.parquet"), "{stored}: {error}");
    }
}

/// Another column that can't be read is in nobody's way.
#[tokio::test]
async fn a_column_of_a_wrong_type_hurts_only_who_asks_for_it() {
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), column(2, "bad", P::Int)], None);
    let message = "message m { required int32 n = 1; required binary bad (UTF8) = 2; }";
    table.adopt(file(message, vec![Leaf::Ints(vec![1, 2]), texts(&["a", "b"])]), 2, Struct::empty()).await;
    answers(&table, &[("SELECT n FROM t WHERE n > 1", &["2"]), ("SELECT count(*) FROM t", &["2"])]).await;
    assert!(error(&table, "SELECT * FROM t").await.contains("column: bad"));
}

const LISTS: &str = "message m {
    optional group two (LIST) = 1 { repeated int32 array = 2; }
    optional group tuple (LIST) = 3 { repeated group tuple_tuple = 4 { required int32 a = 5; } }
    optional group three (LIST) = 6 { repeated group bag { optional int32 array_element = 7; } }
    repeated int32 bare = 8;
    optional group old (MAP_KEY_VALUE) = 9 { repeated group map { required binary k (UTF8) = 10; optional int32 v = 11; } }
}";

#[tokio::test]
async fn lists_and_maps_of_old_writers() {
    let list = |id: i32, name: &str, element: i32, required: bool, ty: Type| {
        let element = Arc::new(NestedField::list_element(element, ty, required));
        NestedField::optional(id, name, Type::List(ListType::new(element)))
    };
    let long = || Type::Primitive(P::Long);
    let tuple = StructType::new(vec![Arc::new(NestedField::required(5, "renamed", long()))]);
    let key = Arc::new(NestedField::map_key_element(10, Type::Primitive(P::String)));
    let value = Arc::new(NestedField::map_value_element(11, long(), false));
    let fields = vec![
        list(1, "two", 2, true, long()),
        list(3, "tuple", 4, true, Type::Struct(tuple)),
        list(6, "three", 7, false, long()),
        list(8, "bare", 12, true, long()),
        NestedField::optional(9, "m", Type::Map(MapType::new(key, value))),
    ];
    let mut table = Table::new(REMOTE, fields, None);
    let leveled = |leaf, definitions: &[i16], repetitions: &[i16]| {
        Leaf::Leveled(Box::new(leaf), definitions.to_vec(), repetitions.to_vec())
    };
    let leaves = vec![
        leveled(Leaf::Ints(vec![1, 2]), &[2, 2, 0], &[0, 1, 0]),
        leveled(Leaf::Ints(vec![3, 4]), &[2, 2, 1], &[0, 1, 0]),
        leveled(Leaf::Ints(vec![5]), &[3, 2, 0], &[0, 1, 0]),
        leveled(Leaf::Ints(vec![6]), &[1, 0], &[0, 0]),
        leveled(texts(&["a", "b"]), &[2, 2, 0], &[0, 1, 0]),
        leveled(Leaf::Ints(vec![7]), &[3, 2, 0], &[0, 1, 0]),
    ];
    table.adopt(file(LISTS, leaves), 2, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT two, three, bare FROM t", &["[1, 2]|[5, ∅]|[6]", "∅|∅|[]"]),
            ("SELECT tuple, m FROM t", &["[]|∅", "[{renamed: 3}, {renamed: 4}]|{a: 7, b: ∅}"]),
            ("SELECT tuple[2]['renamed'] FROM t WHERE m['a'] = 7", &["4"]),
        ],
    )
    .await;
}

const BARE: &str = "message m {
    required int64 id; required binary name (UTF8); optional group place { required binary city (UTF8); required int32 zip; }
}";

fn bare() -> Vec<u8> {
    let both = |leaf| Leaf::Leveled(Box::new(leaf), vec![1, 1], vec![0, 0]);
    let leaves = vec![
        Leaf::Longs(vec![1, 2]),
        texts(&["a", "b"]),
        both(texts(&["ulm", "bonn"])),
        both(Leaf::Ints(vec![89073, 53111])),
    ];
    file(BARE, leaves)
}

fn place() -> Type {
    let fields = [column(11, "zip", P::Long), column(12, "town", P::String), column(13, "new", P::Int)];
    Type::Struct(StructType::new(fields.map(Arc::new).to_vec()))
}

#[tokio::test]
async fn files_without_ids_are_read_by_mapped_names() {
    // Renamed, reordered, and one that the mapping doesn't name.
    let fields = vec![
        NestedField::optional(3, "address", place()),
        column(2, "label", P::String),
        column(7, "id", P::String),
        column(1, "key", P::Long),
    ];
    let mut table = Table::new(REMOTE, fields, None);
    table.edit = |json| {
        json["properties"]["schema.name-mapping.default"] = r#"[{"field-id": 1, "names": ["id", "key"]},
            {"field-id": 2, "names": ["label", "name"]},
            {"field-id": 3, "names": ["place"], "fields": [
                {"field-id": 11, "names": ["zip"]}, {"field-id": 12, "names": ["city", "town"]}]}]"#
            .into();
    };
    table.adopt(bare(), 2, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT key, label, id FROM t", &["1|a|∅", "2|b|∅"]),
            ("SELECT address FROM t", &["{zip: 53111, town: bonn, new: ∅}", "{zip: 89073, town: ulm, new: ∅}"]),
            ("SELECT key FROM t WHERE label = 'b' AND id IS NULL", &["2"]),
            ("SELECT label FROM t WHERE address['town'] = 'ulm'", &["a"]),
        ],
    )
    .await;
    table.edit = |json| json["properties"]["schema.name-mapping.default"] = "nonsense".into();
    let refused = error(&table, "SELECT key FROM t").await;
    assert!(refused.contains("error[metadata_corrupt]") && refused.contains("name mapping"), "{refused}");
}

#[tokio::test]
async fn without_a_mapping_columns_are_told_apart_by_their_place() {
    let fields =
        vec![column(2, "label", P::String), column(1, "key", P::Long), NestedField::optional(3, "place", place())];
    let mut table = Table::new(REMOTE, fields, None);
    table.adopt(bare(), 2, Struct::empty()).await;
    answers(&table, &[("SELECT key, label FROM t", &["1|a", "2|b"]), ("SELECT label FROM t WHERE key = 2", &["b"])])
        .await;
    let refused = error(&table, "SELECT place FROM t").await;
    assert!(refused.contains("error[not_supported]") && refused.contains("column: place"), "{refused}");
}

#[tokio::test]
async fn where_one_column_has_an_id_those_without_are_nobodys() {
    let mut table = Table::new(REMOTE, vec![column(1, "a", P::Int), column(2, "b", P::Int)], None);
    table.edit = |json| {
        json["properties"]["schema.name-mapping.default"] = r#"[{"field-id": 1, "names": ["a"]}]"#.into();
    };
    let message = "message m { required int32 a; required int32 b = 2; }";
    table.adopt(file(message, vec![Leaf::Ints(vec![1, 2]), Leaf::Ints(vec![3, 4])]), 2, Struct::empty()).await;
    answers(&table, &[("SELECT a, b FROM t", &["∅|3", "∅|4"]), ("SELECT count(*) FROM t WHERE a = 1", &["0"])]).await;
}

#[tokio::test]
async fn every_type_has_defaults() {
    let with = |id: i32, name: &str, ty: P, value: Literal| column(id, name, ty).with_initial_default(value);
    let decimal = |unscaled: i128| Literal::Primitive(PrimitiveLiteral::Int128(unscaled));
    let defaults = || {
        vec![
            with(10, "bool", P::Boolean, Literal::bool(true)),
            with(11, "int", P::Int, Literal::int(-7)),
            with(12, "long", P::Long, Literal::long(1_i64 << 40)),
            with(13, "float", P::Float, Literal::float(1.5)),
            with(14, "double", P::Double, Literal::double(-0.0)),
            with(15, "dec", P::Decimal { precision: 38, scale: 3 }, decimal(-12_345)),
            with(16, "date", P::Date, Literal::date(-1)),
            with(17, "time", P::Time, Literal::time(3_723_000_004)),
            with(18, "ts", P::Timestamp, Literal::timestamp(-1)),
            with(19, "tstz", P::Timestamptz, Literal::timestamptz(1)),
            with(20, "text", P::String, Literal::string("ü")),
            with(21, "bin", P::Binary, Literal::binary(vec![0, 255])),
            with(22, "fix", P::Fixed(2), Literal::fixed(vec![1, 2])),
            with(23, "uuid", P::Uuid, Literal::uuid(uuid::Uuid::from_u128(1))),
            with(24, "ns", P::TimestampNs, Literal::long(-1)),
            with(25, "tzns", P::TimestamptzNs, Literal::long(1)),
        ]
    };
    let inner = defaults().into_iter().map(|mut field| {
        field.id += 100;
        Arc::new(field)
    });
    let nested = Type::Struct(StructType::new(inner.collect()));
    let given = Literal::Struct(Struct::from_iter((0..16).map(|_| None)));
    let fields = [column(1, "n", P::Int)].into_iter().chain(defaults());
    let fields = fields.chain([NestedField::optional(50, "s", nested).with_initial_default(given)]);
    let mut table = Table::new(REMOTE, fields.collect(), None);
    table.adopt(file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![1])]), 1, Struct::empty()).await;
    let flat = "true|-7|1099511627776|1.5|-0.0|-12.345|1969-12-31|01:02:03.000004|1969-12-31T23:59:59.999999|\
                1970-01-01T00:00:00.000001Z|ü|00ff|0102|00000000000000000000000000000001|\
                1969-12-31T23:59:59.999999999|1970-01-01T00:00:00.000000001Z";
    answers(
        &table,
        &[
            ("SELECT * EXCEPT (n, s) FROM t", &[flat]),
            (
                "SELECT s['dec'], s['text'], s['time'], s['uuid'], s['tstz'] FROM t",
                &["-12.345|ü|01:02:03.000004|00000000000000000000000000000001|1970-01-01T00:00:00.000001Z"],
            ),
            ("SELECT n FROM t WHERE dec = -12.345 AND text = 'ü' AND ts < '1970-01-01' AND bool", &["1"]),
            ("SELECT n FROM t WHERE NOT (int >= 0) AND (int IS DISTINCT FROM 0) AND int <= 10", &["1"]),
            ("SELECT n FROM t WHERE text <> 'ü' OR int IS NULL", &[]),
            ("SELECT count(int), min(date), max(long) FROM t", &["1|1969-12-31|1099511627776"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn lists_and_maps_have_defaults() {
    let element = Arc::new(NestedField::list_element(11, Type::Primitive(P::Int), false));
    let list = NestedField::required(10, "l", Type::List(ListType::new(element)))
        .with_initial_default(Literal::List(vec![Some(Literal::int(7)), None]));
    let key = Arc::new(NestedField::map_key_element(13, Type::Primitive(P::String)));
    let value = Arc::new(NestedField::map_value_element(14, Type::Primitive(P::Int), false));
    let pairs = [(Literal::string("a"), Some(Literal::int(1)))];
    let map = NestedField::optional(12, "m", Type::Map(MapType::new(key, value)))
        .with_initial_default(Literal::Map(iceberg::spec::Map::from_iter(pairs)));
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), list, map], None);
    table.adopt(file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![1, 2])]), 2, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT l, m FROM t WHERE n = 2", &["[7, ∅]|{a: 1}"]),
            ("SELECT * FROM t", &["1|[7, ∅]|{a: 1}", "2|[7, ∅]|{a: 1}"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn partition_values_of_every_type_stand_for_absent_columns_35() {
    let decimal = Literal::Primitive(PrimitiveLiteral::Int128(-250));
    let cases = [
        (P::Boolean, Literal::bool(true), "k", "true"),
        (P::Int, Literal::int(-3), "k = -3", "-3"),
        (P::Long, Literal::long(-3), "k = -3", "-3"),
        (P::Float, Literal::float(1.5), "k = 1.5", "1.5"),
        (P::Double, Literal::double(1.5), "k = 1.5", "1.5"),
        (P::Decimal { precision: 9, scale: 2 }, decimal, "k = -2.50", "-2.50"),
        (P::Date, Literal::date(-1), "k = DATE '1969-12-31'", "1969-12-31"),
        (P::Time, Literal::time(1_000_000), "k = '00:00:01'", "00:00:01"),
        (P::Timestamp, Literal::timestamp(-1), "k < '1970-01-01'", "1969-12-31T23:59:59.999999"),
        (P::Timestamptz, Literal::timestamptz(0), "k <= '1970-01-01T00:00:00Z'", "1970-01-01T00:00:00Z"),
        (P::TimestampNs, Literal::long(1), "k < '1970-01-02'", "1970-01-01T00:00:00.000000001"),
        (P::String, Literal::string("a/b"), "k = 'a/b'", "a/b"),
        (P::Binary, Literal::binary(vec![255]), "k = X'ff'", "ff"),
        (P::Fixed(2), Literal::fixed(vec![1, 2]), "k = X'0102'", "0102"),
    ];
    for (ty, literal, filter, shown) in cases {
        let plain = column(2, "k", ty.clone());
        let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), plain], None);
        table.spec = identity(&table, "k");
        for (n, value) in [(1, Some(literal.clone())), (2, None)] {
            let bytes = file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![n])]);
            table.adopt(bytes, 1, Struct::from_iter([value])).await;
        }
        let filtered = format!("SELECT n FROM t WHERE {filter}");
        answers(
            &table,
            &[
                ("SELECT n, k FROM t", &[&format!("1|{shown}"), "2|∅"]),
                (&filtered, &["1"]),
                ("SELECT n FROM t WHERE k IS NULL", &["2"]),
                ("SELECT count(k), count(*) FROM t", &["1|2"]),
            ],
        )
        .await;
    }
}

/// A column of a type that isn't known: other columns are read.
#[tokio::test]
async fn a_table_with_a_variant_is_read_without_it() {
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), column(2, "v", P::Binary)], None);
    let message = "message m { required int32 n = 1;
        optional group v = 2 { required binary metadata; optional binary value; } }";
    let leaves = vec![
        Leaf::Ints(vec![1, 2]),
        Leaf::Leveled(Box::new(texts(&["m"])), vec![1, 0], vec![0, 0]),
        Leaf::Leveled(Box::new(texts(&["v"])), vec![2, 0], vec![0, 0]),
    ];
    table.adopt(file(message, leaves), 2, Struct::empty()).await;
    table.edit = |json| json["schemas"][0]["fields"][1]["type"] = "variant".into();
    answers(&table, &[("SELECT n FROM t WHERE n > 1", &["2"]), ("SELECT count(*) FROM t", &["2"])]).await;
    for sql in ["SELECT * FROM t", "SELECT n FROM t WHERE v IS NULL"] {
        let context = table.session(table.view().await, 1);
        let refused = context.sql(sql).await.unwrap().collect().await.unwrap_err().to_string();
        assert!(refused.contains("error[unsupported_type]"), "{sql}: {refused}");
        assert!(refused.contains("column: v") && refused.contains("type: variant"), "{sql}: {refused}");
    }
}

#[tokio::test]
async fn geometry_is_shown_as_its_bytes_and_unknown_as_null() {
    let fields = vec![column(1, "g", P::Binary), column(2, "u", P::String)];
    let mut table = Table::new(REMOTE, fields, None);
    table.adopt(file("message m { required binary g = 1; }", vec![texts(&["ab", "cd"])]), 2, Struct::empty()).await;
    table.edit = |json| {
        json["schemas"][0]["fields"][0]["type"] = "geometry(srid:4326)".into();
        json["schemas"][0]["fields"][1]["type"] = "unknown".into();
    };
    answers(
        &table,
        &[("SELECT g, u FROM t", &["6162|∅", "6364|∅"]), ("SELECT g FROM t WHERE u IS NULL AND g > X'62'", &["6364"])],
    )
    .await;
}

/// Names of columns that mean something elsewhere.
#[tokio::test]
async fn columns_may_have_any_name_34() {
    let mut table = Table::new(REMOTE, vec![column(1, "pos", P::Int), column(2, "file_path", P::String)], None);
    let message = "message m { required int32 pos = 1; required binary file_path (UTF8) = 2; }";
    table.adopt(file(message, vec![Leaf::Ints(vec![1, 2]), texts(&["a", "b"])]), 2, Struct::empty()).await;
    answers(&table, &[("SELECT file_path FROM t WHERE pos = 2", &["b"])]).await;
}

/// Column a became b; v was dropped and added again; nothing was written since.
#[tokio::test]
async fn a_name_that_came_back_is_another_column_33() {
    let mut table = Table::new(REMOTE, vec![column(1, "b", P::String), column(3, "v", P::String)], None);
    let message = "message m { required binary a (UTF8) = 1; required binary v (UTF8) = 2; }";
    table.adopt(file(message, vec![texts(&["before"]), texts(&["old"])]), 1, Struct::empty()).await;
    answers(
        &table,
        &[
            ("SELECT count(*) FROM t WHERE b = 'before'", &["1"]),
            ("SELECT count(*) FROM t WHERE v IS NULL", &["1"]),
            ("SELECT count(*) FROM t WHERE v = 'old'", &["0"]),
        ],
    )
    .await;
}

/// Statistics that are missing, turned off, of columns that nobody knows, or that count less than nothing.
#[tokio::test]
async fn odd_statistics_prune_nothing_24() {
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), column(2, "s", P::String)], None);
    table.properties = |p| p.set_offset_index_disabled(true).set_statistics_enabled(EnabledStatistics::None);
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..500)),
        Arc::new(StringArray::from_iter((0..500).map(|_| None::<&str>))),
    ];
    table.add(&RecordBatch::try_new(stored, columns).unwrap(), None).await;
    let unknown = HashMap::from([(999, 500_u64)]);
    table.files[0] = crate::metadata::rebuild(&table.files[0], |file| {
        // As negative counts are after they were read: none at all.
        file.null_value_counts(unknown.clone()).lower_bounds(HashMap::from([(999, Datum::int(7))]));
        file.upper_bounds(HashMap::new());
    })
    .unwrap();
    answers(
        &table,
        &[
            ("SELECT count(*) FROM t WHERE n >= 250", &["250"]),
            ("SELECT count(*) FROM t WHERE s IS NULL AND n < 7", &["7"]),
            ("SELECT n FROM t WHERE n = 499", &["499"]),
            ("SELECT count(s), count(n) FROM t", &["0|500"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn decimals_in_bytes_with_bloom_filters_are_found_25() {
    let ty = P::Decimal { precision: 19, scale: 2 };
    let mut table = Table::new(REMOTE, vec![column(1, "d", ty)], None);
    table.properties = |p| p.set_statistics_enabled(EnabledStatistics::None).set_bloom_filter_enabled(true);
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    for plain in [false, true] {
        if plain {
            table.properties = |p| p.set_dictionary_enabled(false).set_bloom_filter_enabled(true);
        }
        let values = Decimal128Array::from_iter_values((-200..300).map(|n| n * 100)).with_precision_and_scale(19, 2);
        table.add(&RecordBatch::try_new(Arc::clone(&stored), vec![Arc::new(values.unwrap())]).unwrap(), None).await;
    }
    answers(
        &table,
        &[
            ("SELECT d FROM t WHERE d = 5.00", &["5.00", "5.00"]),
            ("SELECT d FROM t WHERE d IN (-1.00, 299.00)", &["-1.00", "-1.00", "299.00", "299.00"]),
            ("SELECT count(*) FROM t WHERE d = 5.01", &["0"]),
        ],
    )
    .await;
}

/// A partition and nothing else decides: no metrics at all.
#[tokio::test]
async fn a_partition_prunes_without_metrics_23() {
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), column(2, "k", P::String)], None);
    table.spec = identity(&table, "k");
    for (n, k) in [(1, "a"), (2, "b"), (3, "c")] {
        let bytes = file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![n])]);
        table.adopt(bytes, 1, Struct::from_iter([Some(Literal::string(k))])).await;
    }
    let context = table.session(table.view().await, 1);
    let answer = table.query(&context, "SELECT n FROM t WHERE k = 'a'").await;
    assert_eq!(lines(&answer.batches), ["1"]);
    assert_eq!(answer.report.unwrap().ledger.files.to_string(), "1/3 (partition 2)");
}

fn identity(table: &Table, name: &str) -> PartitionSpec {
    let builder = PartitionSpec::builder(Arc::clone(&table.schema));
    builder.add_partition_field(name, name, Transform::Identity).unwrap().build().unwrap()
}

#[tokio::test]
async fn dates_of_hour_partitions_26() {
    let mut table = Table::new(REMOTE, vec![column(1, "ts", P::Timestamp)], None);
    let builder = PartitionSpec::builder(Arc::clone(&table.schema));
    table.spec = builder.add_partition_field("ts", "ts_hour", Transform::Hour).unwrap().build().unwrap();
    let hour = 3_600_000_000_i64;
    for at in [19_723 * 24 - 1, 19_723 * 24, 19_724 * 24 + 5] {
        let message = "message m { required int64 ts (TIMESTAMP(MICROS, false)) = 1; }";
        let bytes = file(message, vec![Leaf::Longs(vec![at * hour, at * hour + 1])]);
        table.adopt(bytes, 2, Struct::from_iter([Some(Literal::int(at as i32))])).await;
    }
    answers(
        &table,
        &[
            ("SELECT count(*) FROM t WHERE cast(ts AS DATE) > '2023-12-31'", &["4"]),
            ("SELECT count(*) FROM t WHERE cast(ts AS DATE) = '2024-01-01'", &["2"]),
            ("SELECT count(*) FROM t WHERE cast(ts AS DATE) <= '2024-01-01'", &["4"]),
        ],
    )
    .await;
}

/// Two files in partitions of a column `k` that is in neither.
async fn partitioned() -> Table {
    let mut table = Table::new(REMOTE, vec![column(1, "n", P::Int), column(2, "k", P::Int)], None);
    table.spec = identity(&table, "k");
    for n in [1, 2] {
        let bytes = file("message m { required int32 n = 1; }", vec![Leaf::Ints(vec![n])]);
        table.adopt(bytes, 1, Struct::from_iter([Some(Literal::int(n * 10))])).await;
    }
    table
}

/// What a spec says of a column that is gone, or in words that aren't known, prunes nothing.
#[tokio::test]
async fn specs_that_cannot_be_understood_prune_nothing() {
    let mut table = partitioned().await;
    table.edit = |json| json["schemas"][0]["fields"].as_array_mut().unwrap().truncate(1);
    answers(&table, &[("SELECT * FROM t", &["1", "2"]), ("SELECT n FROM t WHERE n > 1", &["2"])]).await;
    let edits: [fn(&mut serde_json::Value); 3] = [
        |json| {
            let field = json["partition-specs"][0]["fields"][0].as_object_mut().unwrap();
            field.remove("source-id");
            field.insert("source-ids".to_owned(), serde_json::json!([2, 1]));
            field.insert("transform".to_owned(), "bucket[4]".into());
        },
        |json| json["partition-specs"][0]["fields"][0]["transform"] = "hilbert".into(),
        |json| json["partition-specs"][0]["fields"][0]["transform"] = "void".into(),
    ];
    for edit in edits {
        table.edit = edit;
        // The column has no value any more: it is in no file, and no identity partition has it.
        answers(
            &table,
            &[
                ("SELECT n, k FROM t", &["1|∅", "2|∅"]),
                ("SELECT n FROM t WHERE n = 2", &["2"]),
                ("SELECT n FROM t WHERE k IS NULL", &["1", "2"]),
                ("SELECT n FROM t WHERE k = 10", &[]),
            ],
        )
        .await;
    }
    table.edit = |json| json["schemas"][0]["fields"][1]["name"] = "renamed".into();
    answers(&table, &[("SELECT n, renamed FROM t WHERE renamed = 20", &["2|20"])]).await;
}

/// A source column that was widened after its partitions were written.
#[tokio::test]
async fn a_widened_partition_column_keeps_its_values() {
    let mut table = partitioned().await;
    table.edit = |json| json["schemas"][0]["fields"][1]["type"] = "long".into();
    answers(
        &table,
        &[("SELECT n, k FROM t WHERE k < 2147483648", &["1|10", "2|20"]), ("SELECT n FROM t WHERE k = 20", &["2"])],
    )
    .await;
}

/// A column that was widened after its file was written, with bounds of the old type (case 19), and one that came with a
/// default, of which a file's metrics say nothing (case 18).
#[tokio::test]
async fn bounds_from_before_a_change_are_understood_18_19() {
    let mut table = Table::new(REMOTE, vec![column(1, "x", P::Int)], None);
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(i32::MAX), Some(-1), None]));
    table.add(&RecordBatch::try_new(stored, vec![values]).unwrap(), None).await;
    table.edit = |json| {
        let fields = json["schemas"][0]["fields"].as_array_mut().unwrap();
        fields[0]["type"] = "long".into();
        fields.push(serde_json::json!({"id": 2, "name": "c", "required": false, "type": "int", "initial-default": 5}));
        fields.push(serde_json::json!({"id": 3, "name": "e", "required": false, "type": "int"}));
    };
    answers(
        &table,
        &[
            ("SELECT x FROM t WHERE x < 2147483648", &["-1", "2147483647"]),
            ("SELECT count(*) FROM t WHERE x <> 2147483648", &["2"]),
            ("SELECT count(*) FROM t WHERE x >= 2147483648", &["0"]),
            ("SELECT count(*) FROM t WHERE x IS NULL AND c = 5", &["1"]),
            ("SELECT count(*) FROM t WHERE NOT (c >= 10)", &["3"]),
            ("SELECT count(*) FROM t WHERE c IS DISTINCT FROM 5", &["0"]),
            ("SELECT count(*) FROM t WHERE c <> 5 OR e IS NOT NULL", &["0"]),
            ("SELECT count(*) FROM t WHERE (e IS DISTINCT FROM 5) AND e IS NULL", &["3"]),
            ("SELECT count(c), count(e), count(*) FROM t", &["3|0|3"]),
        ],
    )
    .await;
    // The footer tells that the file has no such column: none of its rows is decoded.
    let context = table.session(table.view().await, 1);
    let answer = table.query(&context, "SELECT x FROM t WHERE c > 5").await;
    assert_eq!(lines(&answer.batches), Vec::<String>::new());
    assert_eq!(answer.report.unwrap().ledger.row_groups.to_string(), "0/1 (statistics 1)");
}
