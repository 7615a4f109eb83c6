//! What do types say that a table or a declaration has?

use super::*;

#[test]
fn the_tables_types_rule_and_new_names_add_columns() {
    Files::ndjson(concat!(
        r#"{"new":{"a":1},"any":"x","amount":3,"m":{"extra":[1],"n":5},"day":"2026-06-04","ts":"2026-06-04T12:00+02"}"#,
        "\n",
        r#"{"any":{"b":2,"a":1},"text":"plain","m":{"n":null}}"#,
    ))
    .table(table())
    .json(&["any"])
    .check(expect![[r#"
        new: Struct("a": Int64)
        any: Utf8
        amount: Float64
        m: Struct("n": Int64, "unseen": Utf8, "extra": List(Int64, field: 'element'))
        day: Date32
        ts: Timestamp(µs, "+00:00")
        text: Utf8
        json: any
        {"new":{"a":1},"any":"\"x\"","amount":3.0,"m":{"n":5,"extra":[1]},"day":"2026-06-04","ts":"2026-06-04T10:00:00Z"}
        {"any":"{\"a\":1,\"b\":2}","m":{},"text":"plain"}
    "#]]);
}

#[test]
fn a_clash_with_the_table_names_path_file_and_line() {
    for (row, path, found) in [
        (r#"{"text":{"a":1}}"#, "text", "an object stands in a column of type string"),
        (r#"{"text":5}"#, "text", "an integer stands in a column of type string"),
        (r#"{"amount":"5"}"#, "amount", "text stands in a column of type double"),
        (r#"{"amount":9007199254740993}"#, "amount", "an integer that no double equals"),
        (r#"{"m":{"n":0.5}}"#, "m.n", "a number with a fraction stands in a column of type long"),
        (r#"{"m":{"n":9223372036854775808}}"#, "m.n", "an integer beyond 64 bits"),
        (r#"{"m":[]}"#, "m", "a list stands in a column of type struct"),
        (r#"{"ts":5}"#, "ts", "an integer stands in a column of type timestamptz"),
        (r#"{"day":true}"#, "day", "a boolean stands in a column of type date"),
    ] {
        let files = Files::new(&[("a.ndjson", "{\"text\":null}\n"), ("b.ndjson", &format!("\n\n{row}\n"))]);
        let files = files.table(table()).timestamp("ts");
        let opened = files.open().unwrap();
        let clash = opened.clash.unwrap();
        assert_eq!(clash.code(), Code::IcebergSchemaIncompatible);
        assert!(clash.what().starts_with(found), "{clash}");
        // Whoever runs the plan all the same finds out there.
        let failed = ours(run(collect(opened.plan, Arc::default())).unwrap_err());
        for text in [format!("{clash}\n"), format!("{failed}\n")] {
            assert!(text.contains(&format!("path: {path}\n")), "{text}");
            assert!(text.contains("b.ndjson\n") && text.contains("line: 3\n"), "{text}");
        }
    }
}

#[test]
fn values_the_tables_type_cannot_hold_are_refused() {
    for (row, reason) in [
        (r#"{"ts":"2026-06-04T12:00"}"#, "it has no zone"),
        (r#"{"ts":"noon"}"#, "not an ISO 8601 timestamp"),
        (r#"{"ts":"2026-06-04T12:00:00.1234567Z"}"#, "can't hold its fraction"),
        (r#"{"day":"2026-06-04T12:00"}"#, "can't hold its time"),
    ] {
        let error = Files::ndjson(row).table(table()).timestamp("ts").read().unwrap_err();
        assert_eq!(error.code(), Code::InputValueInvalid);
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains("a.ndjson") && text.contains("line: 1"), "{text}");
    }
}

#[test]
fn declared_columns_come_first_and_need_not_arrive() {
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    Files::ndjson("{\"z\":1,\"u\":\"6f9619ff-8b86-d011-b42d-00c04fc964ff\",\"ts\":\"1970-01-01T00:00:00.000000001\",\"b\":\"0aFF\",\"d\":\"1.50\"}")
        .declared(vec![
            Field::new("ts", nanos, true),
            Field::new("absent", DataType::Utf8, false),
            Field::new("u", DataType::FixedSizeBinary(16), true),
            Field::new("b", DataType::Binary, true),
            Field::new("d", DataType::Decimal128(9, 2), true),
        ])
        .timestamp("ts")
        .check(expect![[r#"
            ts: Timestamp(ns)
            absent: Utf8
            u: FixedSizeBinary(16)
            b: Binary
            d: Decimal128(9, 2)
            z: Int64
            {"ts":"1970-01-01T00:00:00.000000001","u":"6f9619ff8b86d011b42d00c04fc964ff","b":"0aff","d":1.50,"z":1}
        "#]]);
}

#[test]
fn maps_of_a_table_take_objects() {
    let entries = DataType::Struct(
        vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Int64, true)].into(),
    );
    let map = DataType::Map(Arc::new(Field::new("key_value", entries, false)), false);
    Files::ndjson("{\"m\":{\"a\":1,\"b\":null}}\n{\"m\":{}}\n{\"m\":null}")
        .table(vec![Field::new("m", map, true)])
        .check(expect![[r#"
            m: Map("key_value": non-null Struct("key": non-null Utf8, "value": Int64), unsorted)
            {"m":{"a":1}}
            {"m":{}}
            {}
        "#]]);
}

#[test]
fn text_does_not_fill_what_it_cannot() {
    let interval = Field::new("i", DataType::Interval(arrow::datatypes::IntervalUnit::DayTime), true);
    assert!(Files::ndjson("{\"a\":1}").table(vec![interval.clone()]).open().is_ok());
    let error = Files::ndjson("{\"i\":1}").table(vec![interval]).open().unwrap_err();
    assert_eq!(error.code(), Code::UnsupportedType);
}
