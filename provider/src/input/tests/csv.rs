//! CSV: which types do columns get, and what is refused?

use super::*;

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
