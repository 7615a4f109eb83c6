//! NDJSON: which types do values get, and what is refused?

use super::*;

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
