use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int32Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::{ExecutionPlanProperties, collect, displayable};
use expect_test::{Expect, expect};
use futures::StreamExt;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde_json::Value as Json;

use super::*;

/// Input files of one test.
struct Files {
    root: tempfile::TempDir,
    options: Options,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let this = Files { root: tempfile::tempdir().unwrap(), options: Options::default() };
        for (name, content) in files {
            this.add(name, content.as_bytes());
        }
        this
    }

    fn ndjson(content: &str) -> Self {
        Files::new(&[("a.ndjson", content)])
    }

    fn csv(content: &str) -> Self {
        Files::new(&[("a.csv", content)])
    }

    fn add(&self, name: &str, content: &[u8]) {
        fs::write(self.root.path().join(name), content).unwrap();
    }

    fn timestamp(mut self, column: &str) -> Self {
        self.options.primary_timestamp = Some(column.into());
        self
    }

    fn json(mut self, paths: &[&str]) -> Self {
        self.options.json = paths.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    fn table(mut self, fields: Vec<Field>) -> Self {
        self.options.table = Some(Arc::new(Schema::new(fields)));
        self
    }

    fn declared(mut self, fields: Vec<Field>) -> Self {
        self.options.declared = Some(Arc::new(Schema::new(fields)));
        self
    }

    fn open(&self) -> Result<Opened> {
        run(open(&[self.root.path().to_str().unwrap().to_owned()], &self.options, &Arc::default()))
    }

    fn read(&self) -> Result<(Opened, Vec<RecordBatch>)> {
        let opened = self.open()?;
        let batches = run(collect(Arc::clone(&opened.plan), Arc::default())).map_err(ours)?;
        assert_eq!(opened.bytes, opened.bytes_read.load(Ordering::Relaxed), "all bytes are read, and counted once");
        Ok((opened, batches))
    }

    /// The schema, the JSON paths and the rows, in one text.
    fn shown(&self) -> String {
        let (opened, batches) = match self.read() {
            Ok(read) => read,
            Err(e) => return self.error_text(&e),
        };
        let mut text = String::new();
        for field in opened.schema.fields() {
            text += &format!("{}: {}\n", field.name(), field.data_type());
        }
        if !opened.json_paths.is_empty() {
            text += &format!("json: {}\n", opened.json_paths.join(", "));
        }
        text + &lines(&batches)
    }

    fn error_text(&self, error: &Error) -> String {
        let root = format!("{}/", self.root.path().display());
        error.to_string().replace(&root, "") + "\n"
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.shown());
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future)
}

/// Our error within the engine's.
fn ours(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(e) => *e.downcast::<Error>().unwrap(),
        DataFusionError::Shared(e) => Error::new(Code::Internal, e.to_string()),
        other => panic!("{other}"),
    }
}

fn lines(batches: &[RecordBatch]) -> String {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    String::from_utf8(writer.into_inner()).unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

// ---------------------------------------------------------------- NDJSON: inference

#[test]
fn values_of_one_shape_become_structs_and_lists() {
    Files::ndjson(
        "{\"id\":1,\"m\":{\"role\":\"user\",\"tags\":[\"a\",null]},\"n\":null}\n\n{\"m\":{\"tags\":[],\"cost\":0.5},\"ok\":true,\"id\":-7}",
    )
    .check(expect![[r#"
        id: Int64
        m: Struct("role": Utf8, "tags": List(Utf8, field: 'element'), "cost": Float64)
        ok: Boolean
        {"id":1,"m":{"role":"user","tags":["a",null]}}
        {"id":-7,"m":{"tags":[],"cost":0.5},"ok":true}
    "#]]);
}

#[test]
fn the_deepest_field_that_varies_is_json_text() {
    Files::ndjson(concat!(
        r#"{"m":{"c":[{"t":"x","input":{"b":1,"a":[1.0]}}]}, "n":{"c":"text"}, "l":[1,"x"], "x":[[1],[]]}"#,
        "\n",
        r#"{"m":{"c":[{"t":"y","input":"é\n"}]}, "n":{"c":[{"t":1}]}, "l":[true], "x":[]}"#,
    ))
    .check(expect![[r#"
        m: Struct("c": List(Struct("t": Utf8, "input": Utf8), field: 'element'))
        n: Struct("c": Utf8)
        l: List(Utf8, field: 'element')
        x: List(List(Int64, field: 'element'), field: 'element')
        json: m.c[].input, n.c, l[]
        {"m":{"c":[{"t":"x","input":"{\"a\":[1],\"b\":1}"}]},"n":{"c":"\"text\""},"l":["1","\"x\""],"x":[[1],[]]}
        {"m":{"c":[{"t":"y","input":"\"é\\n\""}]},"n":{"c":"[{\"t\":1}]"},"l":["true"],"x":[]}
    "#]]);
}

/// One field's values, and the type and JSON paths they give.
#[test]
fn the_values_of_a_field_decide_its_type() {
    for (values, expected) in [
        ("null", "-"),
        ("1|-9223372036854775808|null", "Int64"),
        ("1|9223372036854775808", "Decimal128(38, 0)"),
        ("99999999999999999999999999999999999999", "Decimal128(38, 0)"),
        ("100000000000000000000000000000000000000", "Utf8 v"),
        ("1|0.5", "Float64"),
        ("9007199254740992|0.5", "Float64"),
        ("9007199254740993|0.5", "Utf8 v"),
        ("9007199254740993|1", "Int64"),
        ("true|false", "Boolean"),
        ("true|1", "Utf8 v"),
        ("true|\"true\"", "Utf8 v"),
        ("1|\"1\"", "Utf8 v"),
        ("\"\"|\"x\"", "Utf8"),
        ("{}", "Utf8 v"),
        ("[]", "Utf8 v"),
        ("{}|null|{}", "Utf8 v"),
        ("{}|[]", "Utf8 v"),
        ("{}|{\"a\":1}", "Struct(\"a\": Int64)"),
        ("{\"a\":null}", "Utf8 v"),
        ("{\"a\":{}}", "Struct(\"a\": Utf8) v.a"),
        ("{\"a\":{}}|{\"a\":{\"b\":1}}|{\"a\":null}", "Struct(\"a\": Struct(\"b\": Int64))"),
        ("{\"a\":1,\"A\":\"x\",\"\":true}", "Struct(\"a\": Int64, \"A\": Utf8, \"\": Boolean)"),
        ("[]|[1]", "List(Int64, field: 'element')"),
        ("[1,2.5]", "List(Float64, field: 'element')"),
        ("[null]", "Utf8 v"),
        ("[null]|[\"x\"]", "List(Utf8, field: 'element')"),
        ("[{}]", "List(Utf8, field: 'element') v[]"),
        ("[[]]", "List(Utf8, field: 'element') v[]"),
        ("[{\"a\":[1]},{\"a\":\"x\"}]", "List(Struct(\"a\": Utf8), field: 'element') v[].a"),
        ("[1]|\"x\"", "Utf8 v"),
        ("[1]|{\"a\":1}", "Utf8 v"),
        ("{\"a\":[[1],[\"x\"]]}", "Struct(\"a\": List(List(Utf8, field: 'element'), field: 'element')) v.a[][]"),
    ] {
        let rows: Vec<String> = values.split('|').map(|value| format!("{{\"v\":{value}}}\n")).collect();
        let files = Files::ndjson(&rows.concat());
        let opened = files.open().unwrap();
        let ty = opened.schema.fields().first().map_or("-".into(), |field| field.data_type().to_string());
        let found = [vec![ty], opened.json_paths].concat().join(" ");
        assert_eq!(found, expected, "{values}");
        // Whatever the order of the rows, and however they are spread over files.
        let backwards = Files::ndjson(&rows.iter().rev().cloned().collect::<String>());
        let spread = Files::new(&[]);
        for (i, row) in rows.iter().enumerate() {
            spread.add(&format!("{i}.jsonl"), row.as_bytes());
        }
        for other in [backwards, spread] {
            let again = other.open().unwrap();
            assert_eq!(again.schema.fields().first(), opened.schema.fields().first(), "{values}");
        }
    }
}

#[test]
fn integers_keep_every_digit() {
    Files::ndjson("{\"d\":18446744073709551615,\"j\":9007199254740993}\n{\"d\":-1,\"j\":0.10}").check(expect![[r#"
        d: Decimal128(38, 0)
        j: Utf8
        json: j
        {"d":18446744073709551615,"j":"9007199254740993"}
        {"d":-1,"j":"0.1"}
    "#]]);
}

#[test]
fn declared_columns_are_json_text_whatever_they_hold() {
    Files::ndjson("{\"a\":\"x\",\"b\":{\"c\":1,\"d\":{\"z\":null,\"y\":2}},\"e\":null}\n{\"e\":null}")
        .json(&["a", "b.d", "e", "absent"])
        .check(expect![[r#"
            a: Utf8
            b: Struct("c": Int64, "d": Utf8)
            e: Utf8
            json: a, b.d, e
            {"a":"\"x\"","b":{"c":1,"d":"{\"y\":2,\"z\":null}"}}
            {}
        "#]]);
}

#[test]
fn an_object_with_too_many_names_is_a_map_and_json_text() {
    let object = |names: std::ops::Range<usize>| {
        let members: Vec<String> = names.map(|i| format!("\"k{i}\":{{\"n\":{i}}}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let fitting = Files::ndjson(&format!("{{\"m\":{}}}", object(0..1000)));
    assert!(fitting.open().unwrap().json_paths.is_empty());
    // Names add up over rows and files.
    let files = Files::ndjson(&format!("{{\"m\":{}}}\n{{\"m\":{}}}\n", object(0..600), object(400..1001)));
    let (opened, batches) = files.read().unwrap();
    assert_eq!(opened.json_paths, ["m"]);
    assert!(batches[0].column(0).as_string::<i32>().value(1).starts_with(r#"{"k1000":{"n":1000},"k400":{"n":400},"#));
    let spread = Files::ndjson(&format!("{{\"m\":{}}}", object(0..600)));
    spread.add("b.ndjson", format!("{{\"m\":{}}}", object(400..1001)).as_bytes());
    assert_eq!(spread.open().unwrap().json_paths, ["m"]);
    // Two levels that multiply are as many columns.
    let nested: Vec<String> = (0..40).map(|i| format!("\"g{i}\":{}", object(0..40))).collect();
    let multiplied = Files::ndjson(&format!("{{\"x\":{{{}}},\"y\":1}}", nested.join(",")));
    assert_eq!(multiplied.open().unwrap().json_paths, ["x"]);
    // Columns of their own may be as many as they like.
    let columns = Files::ndjson(&object(0..1500));
    assert_eq!(columns.open().unwrap().schema.fields().len(), 1500);
}

#[test]
fn batches_are_cut_by_rows_and_by_bytes() {
    let mut files = Files::ndjson(&(0..10).map(|i| format!("{{\"i\":{i}}}\n")).collect::<String>());
    files.options.batch_size = 4;
    let (_, batches) = files.read().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 4, 2]);
    let long = "x".repeat(5 << 20);
    let files = Files::ndjson(&format!("{{\"t\":\"{long}\"}}\n").repeat(4));
    let (_, batches) = files.read().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn nothing_is_something() {
    for (name, content) in [("a.ndjson", ""), ("a.ndjson", "\n \r\n"), ("a.csv", ""), ("a.csv", "\n")] {
        let (opened, batches) = Files::new(&[(name, content)]).read().unwrap();
        assert_eq!((opened.schema.fields().len(), batches.len()), (0, 0), "{name}");
    }
    let (opened, batches) = Files::ndjson("{}\n{\"a\":null}\n").read().unwrap();
    assert_eq!((opened.schema.fields().len(), batches[0].num_rows()), (0, 2));
    let (opened, batches) = Files::csv("a,b\n").read().unwrap();
    assert_eq!((opened.schema.fields().len(), batches.len()), (2, 0));
}

#[test]
fn texts_are_kept_to_the_letter() {
    let hard = "../a/%00\u{0}\u{1f600}\u{feff}\r\n\"\\,";
    let line = serde_json::json!({ "t": hard }).to_string();
    let (_, batches) = Files::ndjson(&format!("\u{feff}{line}\r\n")).read().unwrap();
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), hard);
    let (_, batches) = Files::csv(&format!("\u{feff}t\r\n\"{}\"\r\n", hard.replace('"', "\"\""))).read().unwrap();
    assert_eq!(batches[0].schema().field(0).name(), "t");
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), hard);
}

// ---------------------------------------------------------------- NDJSON: refusals

#[test]
fn what_is_not_json_is_refused_with_file_and_line() {
    Files::ndjson("{\"a\":1}\n{\"a\":2").check(expect![[r#"
        error[input_corrupt]: a line is not valid JSON
          file: a.ndjson
          line: 2
          byte: 7
          reason: the text ends where ',' or '}' must stand
    "#]]);
    Files::ndjson("{\"a\":1}\n[1]").check(expect![[r#"
        error[input_corrupt]: a line holds no JSON object
          value: [1]
          file: a.ndjson
          line: 2
          help: jq -c '.[]' makes lines of the items of a list
    "#]]);
    Files::new(&[("a.json", "{\n  \"a\": 1\n}\n")]).check(expect![[r#"
        error[input_corrupt]: a line is not valid JSON
          file: a.json
          line: 1
          byte: 3
          reason: the text ends where a name in quotes must stand
          help: one object a line is read; jq -c '.[]' or jq -c . makes that of a document
    "#]]);
    let files = Files::new(&[]);
    files.add("a.ndjson", b"{\"a\":1}\n\n{\"a\":\"\xff\"}");
    files.check(expect![[r#"
        error[input_corrupt]: not valid UTF-8
          file: a.ndjson
          line: 3
          byte: 7
    "#]]);
}

#[test]
fn cut_compressed_files_are_refused() {
    let content = "{\"a\":1}\n".repeat(10_000);
    for (name, whole) in [("a.ndjson.gz", gzip(content.as_bytes())), ("a.ndjson.zst", zstd(content.as_bytes()))] {
        let files = Files::new(&[]);
        files.add(name, &whole[..whole.len() - 5]);
        let error = files.read().unwrap_err();
        assert_eq!(error.code(), Code::InputCorrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        let files = Files::new(&[]);
        files.add(name, content.as_bytes());
        assert_eq!(files.read().unwrap_err().code(), Code::InputCorrupt);
    }
}

#[test]
fn a_file_that_changes_between_the_passes_is_noticed() {
    let files = Files::ndjson("{\"a\":1}\n{\"a\":2}\n");
    let grown = files.open().unwrap();
    files.add("a.ndjson", b"{\"a\":1}\n{\"a\":2}\n{\"b\":\"x\"");
    assert_eq!(run(collect(grown.plan, Arc::default())).unwrap()[0].num_rows(), 2, "what was appended is not read");
    for (change, code) in [
        ("{\"a\":1}\n", Code::InputCorrupt),
        ("{\"b\":1}\n{\"b\":2}\n", Code::InputCorrupt),
        ("{\"a\":1}\n{\"a\":x}\n", Code::InputCorrupt),
        ("{\"a\":1}\n{\"a\":[]}\n", Code::IcebergSchemaIncompatible),
    ] {
        files.add("a.ndjson", b"{\"a\":1}\n{\"a\":2}\n");
        let opened = files.open().unwrap();
        files.add("a.ndjson", change.as_bytes());
        let error = ours(run(collect(opened.plan, Arc::default())).unwrap_err());
        assert_eq!(error.code(), code, "{change}: {error}");
    }
}

// ---------------------------------------------------------------- primary timestamp

#[test]
fn a_primary_timestamp_that_is_text_is_parsed() {
    let zoned = "{\"ts\":\"2026-06-04T12:30:15.123456Z\"}\n{\"ts\":null}\n{\"ts\":\"0001-01-01 00:00:00+01:00\"}";
    let files = Files::ndjson(zoned).timestamp("ts");
    let (opened, batches) = files.read().unwrap();
    assert_eq!(*opened.schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    let values: Vec<Option<i64>> = batches[0].column(0).as_primitive::<TimestampMicrosecondType>().iter().collect();
    assert_eq!(values, [Some(1_780_576_215_123_456), None, Some(-62_135_600_400_000_000)]);
    let local = Files::ndjson("{\"ts\":\"2026-06-04\"}\n{\"ts\":\"2026-06-04T12:00\"}").timestamp("ts");
    assert_eq!(*local.open().unwrap().schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
    // Any other column of texts stays as it is.
    let other = Files::ndjson(zoned).open().unwrap();
    assert_eq!(*other.schema.field(0).data_type(), DataType::Utf8);
}

#[test]
fn a_primary_timestamp_that_cannot_be_parsed_is_refused_by_value() {
    for (values, value, reason) in [
        ("\"2026-06-04T12:00Z\"|\"yesterday\"", "yesterday", "not an ISO 8601 timestamp"),
        ("\"2026-06-04T12:00Z\"|\"\"", "", "not an ISO 8601 timestamp"),
        ("null|\"2016-12-31T23:59:60Z\"", "2016-12-31T23:59:60Z", "a leap second has no timestamp"),
        ("null|\"2026-06-04T12:00:00.1234567Z\"", "2026-06-04T12:00:00.1234567Z", "can't hold its fraction"),
        ("\"2026-06-04T12:00Z\"|\"2026-06-04T12:00\"", "2026-06-04T12:00", "some have none"),
        ("\"2026-06-04\"|\"2026-06-04T12:00Z\"", "2026-06-04T12:00Z", "some have none"),
        ("null|1780574400000", "1780574400000", "a number doesn't say which unit"),
        ("null|true", "true", "a boolean is no timestamp"),
        ("null|{}", "{…}", "an object is no timestamp"),
    ] {
        let rows: String = values.split('|').map(|value| format!("{{\"ts\":{value}}}\n")).collect();
        let mut tests = vec![(Files::ndjson(&rows), 2)];
        if !values.contains(['{', 't']) || values.contains("T12:00Z") {
            let rows: String =
                values.replace("null", "").replace('"', "").split('|').map(|v| format!("{v},x\n")).collect();
            tests.push((Files::csv(&format!("ts,other\n{rows}")), 3));
        }
        for (files, line) in tests {
            let files = files.timestamp("ts");
            match files.open() {
                // An empty CSV field is null.
                Ok(_) => assert!(value.is_empty() && line == 3, "{values}"),
                Err(error) => {
                    let text = error.to_string();
                    assert_eq!(error.code(), Code::InputValueInvalid, "{text}");
                    assert!(text.contains(&format!("  value: {value}\n")), "{text}");
                    assert!(text.contains(reason), "{text}");
                    assert!(text.contains(&format!("  line: {line}\n")) && text.contains("/a."), "{text}");
                }
            }
        }
    }
}

#[test]
fn files_whose_timestamps_differ_in_zone_are_refused_together() {
    let files =
        Files::new(&[("a.ndjson", "{\"ts\":\"2026-06-04T12:00Z\"}\n"), ("b.ndjson", "\n{\"ts\":\"2026-06-04\"}\n")]);
    files.timestamp("ts").check(expect![[r#"
        error[input_value_invalid]: a value of the primary timestamp is not a timestamp
          path: ts
          value: 2026-06-04
          reason: some timestamps of the column have a zone and some have none
          file: b.ndjson
          line: 2
          value with a zone: 2026-06-04T12:00Z
          in file: a.ndjson
          in line: 1
          help: timestamps are ISO 8601 / RFC 3339 like 2026-06-04T12:30:15.123456Z
    "#]]);
}

// ---------------------------------------------------------------- types that rule

fn table() -> Vec<Field> {
    let inner = vec![Field::new("n", DataType::Int64, true), Field::new("unseen", DataType::Utf8View, true)];
    vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("any", DataType::Utf8View, true),
        Field::new("amount", DataType::Float64, true),
        Field::new("m", DataType::Struct(inner.into()), true),
        Field::new("unseen", DataType::Int64, false),
        Field::new("day", DataType::Date32, true),
    ]
}

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

// ---------------------------------------------------------------- CSV

#[test]
fn csv_columns_have_the_type_that_every_value_has() {
    Files::csv(concat!(
        "id,zip,ok,x,at,day,none,note\r\n",
        "1,007,true,1,2026-06-04T12:00Z,2026-06-04,,\"a \"\"quoted\"\", text\r\nin two lines\"\r\n",
        "\r\n",
        "-2,10115,FALSE,.5,,1969-12-31,\"\",5\" x\r\n",
    ))
    .check(expect![[r#"
        id: Int64
        zip: Utf8
        ok: Boolean
        x: Float64
        at: Timestamp(µs, "+00:00")
        day: Date32
        none: Utf8
        note: Utf8
        {"id":1,"zip":"007","ok":true,"x":1.0,"at":"2026-06-04T12:00:00Z","day":"2026-06-04","note":"a \"quoted\", text\r\nin two lines"}
        {"id":-2,"zip":"10115","ok":false,"x":0.5,"day":"1969-12-31","note":"5\" x"}
    "#]]);
}

#[test]
fn what_is_not_csv_is_refused_with_file_and_line() {
    for (content, line, what) in [
        ("a,b\n1,2\n3\n", 3, "1 fields stand where the header names 2"),
        ("a,b\n\"x\ny\",2\n1,2,3\n", 4, "3 fields stand where the header names 2"),
        ("a,b\n1,\"2\n3,4\n", 2, "a quote is never closed"),
        ("a,b\n1,\"2\"x\n", 2, "text follows a closing quote"),
        ("a,b\r1,2\r", 1, "a carriage return stands alone"),
        ("a,b,a\n", 1, "the header names the column \"a\" twice"),
    ] {
        let error = Files::csv(content).open().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code(), Code::InputCorrupt, "{text}");
        assert!(text.contains(what) && text.contains(&format!("line: {line}")) && text.contains("a.csv"), "{text}");
    }
}

#[test]
fn csv_files_with_other_headers_go_together() {
    Files::new(&[("a.csv", "x,y\n1,2\n"), ("b.csv", "z,y\ntrue,2.5")]).check(expect![[r#"
        x: Int64
        y: Float64
        z: Boolean
        {"x":1,"y":2.0}
        {"y":2.5,"z":true}
    "#]]);
}

#[test]
fn the_tables_types_rule_csv_too() {
    Files::csv("text,any,amount,ts,new\n5,\"{\"\"b\"\":1,\"\"a\"\":2}\",7,2026-06-04T12:00Z,1\n")
        .table(table())
        .json(&["any"])
        .check(expect![[r#"
            text: Utf8
            any: Utf8
            amount: Float64
            ts: Timestamp(µs, "+00:00")
            new: Int64
            json: any
            {"text":"5","any":"{\"a\":2,\"b\":1}","amount":7.0,"ts":"2026-06-04T12:00:00Z","new":1}
        "#]]);
    for (content, code) in [
        ("amount\nx\n", Code::IcebergSchemaIncompatible),
        ("amount\n1e999\n", Code::InputValueInvalid),
        ("m\nx\n", Code::IcebergSchemaIncompatible),
        ("ts\nx\n", Code::InputValueInvalid),
        ("any\nx\n", Code::InputValueInvalid),
    ] {
        let error = Files::csv(content).table(table()).json(&["any"]).read().unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains("line: 2") && error.to_string().contains("a.csv"), "{error}");
    }
}

// ---------------------------------------------------------------- Parquet and Arrow

fn parquet_bytes(batches: &[RecordBatch], group_rows: usize) -> Vec<u8> {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_dictionary_enabled(false)
        .build();
    let mut out = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut out, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    out
}

fn arrow_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn sample(rows: std::ops::Range<i64>) -> RecordBatch {
    let names: Vec<String> = rows.clone().map(|i| format!("name {i}")).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    batch(vec![("id", ids), ("name", Arc::new(StringArray::from(names)))])
}

#[test]
fn columnar_files_are_read_whole_in_every_wrapping() {
    let batches = [sample(0..700), sample(700..1000)];
    let formats = [
        ("a.parquet", parquet_bytes(&batches, 100)),
        ("a.arrow", arrow_file(&batches)),
        ("a.arrow", arrow_stream(&batches)),
    ];
    for (name, bytes) in formats {
        for (suffix, content) in [("", bytes.clone()), (".gz", gzip(&bytes)), (".zst", zstd(&bytes))] {
            let mut files = Files::new(&[]);
            files.add(&format!("{name}{suffix}"), &content);
            files.options.batch_size = 64;
            let (opened, read) = files.read().unwrap();
            assert_eq!(opened.schema, batches[0].schema(), "{name}{suffix}");
            assert!(read.iter().all(|batch| batch.num_rows() <= 64));
            assert_eq!(lines(&read), lines(&batches), "{name}{suffix}");
        }
    }
}

#[test]
fn cut_columnar_files_are_refused() {
    let batches = [sample(0..1000)];
    for (name, bytes) in [
        ("a.parquet", parquet_bytes(&batches, 1000)),
        ("a.arrow", arrow_file(&batches)),
        ("a.arrow", arrow_stream(&batches)),
        ("a.parquet", Vec::new()),
        ("a.arrow", Vec::new()),
    ] {
        let files = Files::new(&[]);
        files.add(name, &bytes[..bytes.len() * 2 / 3]);
        let error = files.read().unwrap_err();
        assert_eq!(error.code(), Code::InputCorrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn columnar_files_with_other_columns_go_together() {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let words: DictionaryArray<Int32Type> = vec!["x", "y"].into_iter().collect();
    let inner = |name: &str| -> ArrayRef {
        let field = Arc::new(Field::new(name, DataType::Int64, false));
        Arc::new(arrow::array::StructArray::from(vec![(field, Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef)]))
    };
    let files = Files::new(&[("c.csv", "n,extra\n9007199254740993,x\n")]);
    files.add("a.parquet", &parquet_bytes(&[batch(vec![("n", ints), ("s", inner("p"))])], 10));
    let other = batch(vec![("w", Arc::new(words)), ("s", inner("q")), ("n", Arc::new(Int64Array::from(vec![3, 4])))]);
    files.add("b.arrow", &arrow_file(&[other]));
    files.check(expect![[r#"
        n: Int64
        extra: Utf8
        s: Struct("p": Int64, "q": Int64)
        w: Utf8
        {"n":1,"s":{"p":7}}
        {"n":2,"s":{"p":8}}
        {"n":3,"s":{"q":7},"w":"x"}
        {"n":4,"s":{"q":8},"w":"y"}
        {"n":9007199254740993,"extra":"x"}
    "#]]);
    let clashing = Files::new(&[("c.csv", "id\nx\n")]);
    clashing.add("a.parquet", &parquet_bytes(&[sample(0..3)], 10));
    let error = clashing.open().unwrap_err();
    assert_eq!(error.code(), Code::IcebergSchemaIncompatible);
    assert!(error.to_string().contains("path: id") && error.to_string().contains("a.parquet"), "{error}");
}

#[test]
fn columnar_texts_become_the_primary_timestamp() {
    let texts = |values: Vec<Option<&str>>| batch(vec![("ts", Arc::new(StringArray::from(values)) as ArrayRef)]);
    let rows = texts(vec![Some("2026-06-04T12:00Z"), None, Some("1969-12-31T23:59:59.5Z")]);
    for (name, bytes) in
        [("a.parquet", parquet_bytes(std::slice::from_ref(&rows), 2)), ("a.arrow", arrow_stream(&[rows]))]
    {
        let files = Files::new(&[]);
        files.add(name, &bytes);
        files.timestamp("ts").check(expect![[r#"
            ts: Timestamp(µs, "+00:00")
            {"ts":"2026-06-04T12:00:00Z"}
            {}
            {"ts":"1969-12-31T23:59:59.500Z"}
        "#]]);
    }
    let files = Files::new(&[]);
    files.add("a.parquet", &parquet_bytes(&[texts(vec![None, Some("2026-06-04"), Some("soon")])], 2));
    files.timestamp("ts").check(expect![[r#"
        error[input_value_invalid]: a value of the primary timestamp is not a timestamp
          path: ts
          value: soon
          reason: not an ISO 8601 timestamp
          row: 3
          file: a.parquet
          help: timestamps are ISO 8601 / RFC 3339 like 2026-06-04T12:30:15.123456Z
    "#]]);
}

#[test]
fn columnar_types_stay_but_for_numbers_that_the_table_has_wider() {
    let files = Files::new(&[]);
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("m", Arc::new(Int32Array::from(vec![5]))),
        ("n", nanos),
        ("b", Arc::new(BinaryArray::from(vec![&b"x"[..]]))),
        ("text", Arc::new(Int32Array::from(vec![5]))),
    ];
    files.add("a.parquet", &parquet_bytes(&[batch(columns)], 10));
    let files = files.table(vec![Field::new("m", DataType::Int64, true), Field::new("text", DataType::Utf8View, true)]);
    let schema = files.open().unwrap().schema;
    let types: Vec<String> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Timestamp(ns)", "Binary", "Int32"]);
    assert!(!schema.field(1).is_nullable());
}

#[test]
fn columnar_texts_take_the_tables_timestamp_type() {
    let files = Files::new(&[]);
    let texts = StringArray::from(vec!["2026-06-04T12:00:00.000000001Z"]);
    files.add("a.parquet", &parquet_bytes(&[batch(vec![("ts", Arc::new(texts))])], 2));
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    files.table(vec![Field::new("ts", nanos, true)]).timestamp("ts").check(expect![[r#"
        ts: Timestamp(ns, "+00:00")
        {"ts":"2026-06-04T12:00:00.000000001Z"}
    "#]]);
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let files = Files::new(&[]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    files.add("a.arrow", &arrow_file(&[batch(vec![("a", Arc::clone(&column)), ("a", column)])]));
    files.check(expect![[r#"
        error[input_corrupt]: the file has two columns named "a"
          file: a.arrow
    "#]]);
}

#[test]
fn timestamps_of_96_bits_keep_years_that_nanoseconds_lose() {
    use parquet::data_type::{Int96, Int96Type};
    let schema = parquet::schema::parser::parse_message_type("message m { required int96 ts; }").unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let mut last_day = Int96::new();
    // Nanoseconds of the day in two words, then the Julian day: 1970-01-01 is 2,440,588.
    last_day.set_data(1000, 0, 2_440_588 + 2_932_896);
    column.typed::<Int96Type>().write_batch(&[last_day], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let files = Files::new(&[]);
    files.add("a.parquet", &bytes);
    files.check(expect![[r#"
        ts: Timestamp(µs)
        {"ts":"9999-12-31T00:00:00.000001"}
    "#]]);
}

// ---------------------------------------------------------------- the plan

#[test]
fn large_plain_files_are_split_and_lines_keep_their_numbers() {
    let long = "x".repeat(1 << 20);
    let row = |i: usize, n: &str| format!("{{\"i\":{i},\"n\":{n},\"t\":\"{long}\"}}\n");
    let rows: String = (0..40).map(|i| row(i, "1")).collect();
    let mut files = Files::ndjson(&rows);
    files.add(
        "b.csv",
        format!("i,t\n{}", (40..80).map(|i| format!("{i},\"{long}\n\"\n")).collect::<String>()).as_bytes(),
    );
    files.options.partitions = 3;
    let (opened, batches) = files.read().unwrap();
    assert_eq!(opened.plan.output_partitioning().partition_count(), 3);
    let mut found: Vec<i64> =
        batches.iter().flat_map(|b| b["i"].as_primitive::<Int64Type>().values().to_vec()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..80).collect::<Vec<_>>());
    let plan = displayable(opened.plan.as_ref()).indent(true).to_string();
    assert_eq!(plan, format!("InputExec: files=2, formats=[csv, ndjson], bytes={}\n", opened.bytes));

    let text = |n: &str| (0..40).map(|i| row(i, if i == 35 { n } else { "1" })).collect::<String>();
    let files = Files::ndjson(&text("\"1\"")).table(vec![Field::new("n", DataType::Int64, true)]);
    let error = ours(run(collect(files.open().unwrap().plan, Arc::default())).unwrap_err());
    assert!(error.to_string().contains("line: 36"), "{error}");
}

#[test]
fn a_dropped_stream_ends_its_thread() {
    let files = Files::ndjson(&"{\"a\":1}\n".repeat(100_000));
    let opened = files.open().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut stream = opened.plan.execute(0, Arc::default()).unwrap();
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    });
    // Waits for blocking threads: comes back only if the reader notices.
    drop(runtime);
    assert!(opened.bytes_read.load(Ordering::Relaxed) < opened.bytes);
}

#[test]
fn row_counts_do_not_depend_on_the_number_of_partitions() {
    for partitions in [0, 1, 2, 7] {
        let mut files = Files::new(&[]);
        for i in 0..5 {
            files.add(&format!("{i}.jsonl.gz"), &gzip("{\"a\":1}\n".repeat(i * 10).as_bytes()));
        }
        files.options.partitions = partitions;
        let (opened, batches) = files.read().unwrap();
        assert_eq!(opened.plan.output_partitioning().partition_count(), partitions.clamp(1, 5));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
    }
}

// ---------------------------------------------------------------- what goes in comes out

/// Any JSON, with names and kinds that repeat often enough to form shapes.
fn json_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-5_i64..5).prop_map(Json::from),
        (-1e12..1e12).prop_map(|x: f64| Json::from(x)),
        (-1e-6..1e-6).prop_map(|x: f64| Json::from(x)),
        ".{0,6}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from), object(inner),]
    })
}

fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    let name = prop::sample::select(vec!["a", "b", "A", "", "x.y", "é", "c[]"]);
    prop::collection::btree_map(name, value, 0..4)
        .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

/// A row of values that mostly have the same kind in the same place.
fn row() -> impl Strategy<Value = Json> {
    let shaped = (any::<Option<bool>>(), -9_i64..9, ".{0,3}", prop::collection::vec(-1e3..1e3, 0..3)).prop_map(
        |(a, b, c, d): (Option<bool>, i64, String, Vec<f64>)| serde_json::json!({ "a": a, "b": { "n": b, "t": [{"c": c, "d": d}] } }),
    );
    prop_oneof![shaped, object(json_value())]
}

/// Objects without members that are null, numbers by value: what NDJSON and typed columns have in common.
fn essence(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let members: BTreeMap<&String, &Json> = members.iter().filter(|(_, v)| !v.is_null()).collect();
            members.into_iter().map(|(k, v)| (k.clone(), essence(v))).collect()
        }
        Json::Array(items) => items.iter().map(essence).collect(),
        Json::Number(n) => match n.as_f64() {
            Some(x) if n.is_f64() && x.fract() == 0.0 => Json::from(x as i64),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// A parsed text, with floats read exactly, which `serde_json` alone does not.
fn parsed(value: json::tape::Value<'_>) -> Json {
    use json::tape::Kind;
    match value.kind() {
        Kind::Null => Json::Null,
        Kind::Bool(value) => value.into(),
        Kind::Int(text) => text.parse::<i64>().unwrap().into(),
        Kind::Float(text) => text.parse::<f64>().unwrap().into(),
        Kind::Text(text) => text.into(),
        Kind::List(items) => items.map(parsed).collect(),
        Kind::Object(members) => members.map(|(name, value)| (name.to_owned(), parsed(value))).collect(),
    }
}

/// What a typed cell says in JSON.
fn rendered(array: &ArrayRef, row: usize, path: &str, json: &[String]) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 if json.iter().any(|known| known == path) => {
            let text = array.as_string::<i32>().value(row);
            let mut tape = json::tape::Tape::default();
            let value = tape.parse(text).unwrap();
            let mut canonical = String::new();
            json::canonical::write(value, &mut canonical);
            assert_eq!(canonical, text, "JSON text is canonical");
            parsed(value)
        }
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| rendered(&items, i, &json::path::item(path), json)).collect()
        }
        DataType::Struct(fields) => {
            let children = fields.iter().zip(array.as_struct().columns());
            let member = |(field, child): (&Arc<Field>, &ArrayRef)| {
                (field.name().clone(), rendered(child, row, &json::path::field(path, field.name()), json))
            };
            children.map(member).collect()
        }
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]
    #[test]
    fn rows_come_out_as_they_went_in(rows in prop::collection::vec(row(), 0..12), batch_size in 1_usize..5) {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let mut files = Files::ndjson(&text);
        files.options.batch_size = batch_size;
        let (opened, batches) = files.read().unwrap();
        let mut found = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let fields = opened.schema.fields().iter().zip(batch.columns());
                let members = fields.map(|(f, a)| (f.name().clone(), rendered(a, row, f.name(), &opened.json_paths)));
                found.push(essence(&members.collect()));
            }
        }
        prop_assert_eq!(found, rows.iter().map(essence).collect::<Vec<_>>());
    }

    #[test]
    fn csv_fields_come_out_as_they_went_in(rows in prop::collection::vec(("[a-z\",\n\r é]{0,6}", "[0-9.eE+-]{0,4}"), 1..10)) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let text: String = rows.iter().map(|(a, b)| format!("{},{}\n", quoted(a), quoted(b))).collect();
        let (_, batches) = Files::csv(&format!("a,b\n{text}")).read().unwrap();
        let mut expected = rows.iter();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let (a, b) = expected.next().unwrap();
                let texts = batch.column(0).as_string::<i32>();
                prop_assert_eq!(if texts.is_null(row) { "" } else { texts.value(row) }, a);
                let column = batch.column(1);
                if column.is_null(row) {
                    prop_assert_eq!("", b);
                } else if let Some(texts) = column.as_string_opt::<i32>() {
                    prop_assert_eq!(texts.value(row), b);
                } else {
                    let value = match column.as_primitive_opt::<Int64Type>() {
                        Some(longs) => longs.value(row) as f64,
                        None => column.as_primitive::<Float64Type>().value(row),
                    };
                    prop_assert_eq!(value, b.parse::<f64>().unwrap());
                }
            }
        }
        prop_assert_eq!(expected.next(), None);
    }
}

// ---------------------------------------------------------------- real data

/// The folder of real event data; without it these tests say so and pass.
fn shared(name: &str) -> Option<String> {
    match std::env::var("DAYGRAIN_SHARED") {
        Ok(root) => Some(Path::new(&root).join("data").join(name).display().to_string()),
        Err(_) => {
            println!("SKIPPED: DAYGRAIN_SHARED does not name the folder of real event data");
            None
        }
    }
}

fn read_shared(name: &str, timestamp: &str) -> Option<(Opened, Vec<RecordBatch>)> {
    let path = shared(name)?;
    let options = Options { primary_timestamp: Some(timestamp.into()), partitions: 2, ..Options::default() };
    let opened = run(open(&[path], &options, &Arc::default())).unwrap();
    let batches = run(collect(Arc::clone(&opened.plan), Arc::default())).unwrap();
    Some((opened, batches))
}

fn nulls(batches: &[RecordBatch], column: &str) -> usize {
    batches.iter().map(|batch| batch[column].null_count()).sum()
}

#[test]
fn real_transcripts() {
    let Some((opened, batches)) = read_shared("agent-messages.ndjson", "timestamp") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 59);
    assert_eq!(nulls(&batches, "timestamp"), 2);
    assert_eq!(
        opened.json_paths,
        [
            "message.content",
            "message.context_management.applied_edits",
            "snapshot.trackedFileBackups",
            "content",
            "toolUseResult",
            "thinkingMetadata.triggers"
        ]
    );
    assert!(opened.schema.field_with_name("timestamp").unwrap().data_type().is_temporal());
    let (_, message) = opened.schema.column_with_name("message").unwrap();
    assert!(!message.data_type().to_string().contains("stop_sequence"), "a field that is only ever null");
    let usage = batches[0]["message"].as_struct()["usage"].as_struct()["input_tokens"].as_primitive::<Int64Type>();
    assert_eq!(usage.value(0), 4);
}

#[test]
fn real_flights() {
    let Some((opened, batches)) = read_shared("flights.parquet", "scheduled_at") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 336_776);
    assert!(nulls(&batches, "tailnum") > 0 && nulls(&batches, "carrier") == 0);
    assert!(opened.json_paths.is_empty());
}

#[test]
fn real_weather() {
    let Some((opened, batches)) = read_shared("weather.csv.gz", "time_hour") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 26_115);
    let types = |name: &str| opened.schema.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(types("time_hour"), DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    assert_eq!((types("year"), types("temp"), types("origin")), (DataType::Int64, DataType::Float64, DataType::Utf8));
    assert_eq!((nulls(&batches, "wind_gust"), nulls(&batches, "time_hour")), (20_778, 0));
}
