use std::slice::from_ref;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationNanosecondArray, DurationSecondArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeBinaryArray,
    LargeListArray, LargeListViewArray, LargeStringArray, ListArray, ListViewArray, MapArray, NullArray, RunArray,
    StringArray, StringViewArray, StructArray, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, UnionArray, cast::AsArray,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, Fields, Int32Type, Int64Type, IntervalDayTime, IntervalMonthDayNano, UnionFields, i256,
};
use datafusion::arrow::record_batch::RecordBatch;
use expect_test::expect;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{Format, Layout, renderer};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn print(layout: Layout, batches: &[RecordBatch]) -> String {
    let mut out = Vec::new();
    let mut renderer = renderer(&batches[0].schema(), layout);
    for batch in batches {
        renderer.batch(batch, &mut out).unwrap();
    }
    renderer.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn plain(format: Format, batches: &[RecordBatch]) -> String {
    print(Layout { format, width: None, expanded: false }, batches)
}

fn narrow(width: usize, batches: &[RecordBatch]) -> String {
    print(Layout { format: Format::Table, width: Some(width), expanded: false }, batches)
}

/// Every value of a column as text and as JSON, also when the array is a slice of a longer one.
fn check(array: impl Array + 'static, text: &[&str], json: &[&str]) {
    let array: ArrayRef = Arc::new(array);
    for start in [0, 1] {
        let length = array.len() - start;
        let sliced =
            batch(vec![("v", array.slice(start, length)), ("end", Arc::new(BooleanArray::from(vec![true; length])))]);
        let lines = plain(Format::Ndjson, from_ref(&sliced));
        let lines: Vec<_> = lines.lines().map(|line| &line[5..line.len() - 12]).collect();
        assert_eq!(lines, json[start..], "{} as JSON", array.data_type());
        for line in plain(Format::Ndjson, from_ref(&sliced)).lines() {
            serde_json::from_str::<serde_json::Value>(line).expect(line);
        }
        let lines = plain(Format::Tsv, &[sliced]);
        let lines: Vec<_> = lines.lines().skip(1).map(|line| line.strip_suffix("\ttrue").unwrap()).collect();
        assert_eq!(lines, text[start..], "{} as text", array.data_type());
    }
}

/// Types whose JSON is the text between quotes.
fn check_quoted(array: impl Array + 'static, text: &[&str]) {
    let json: Vec<_> =
        text.iter().map(|text| if *text == "\\N" { "null".to_string() } else { format!("\"{text}\"") }).collect();
    check(array, text, &json.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Types whose JSON is the text as it is.
fn check_bare(array: impl Array + 'static, text: &[&str]) {
    let json: Vec<_> = text.iter().map(|text| if *text == "\\N" { "null" } else { text }).collect();
    check(array, text, &json);
}

#[test]
fn integers_and_booleans() {
    check_bare(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]), &["-128", "\\N", "127"]);
    check_bare(Int16Array::from(vec![i16::MIN, i16::MAX]), &["-32768", "32767"]);
    check_bare(Int32Array::from(vec![i32::MIN, i32::MAX]), &["-2147483648", "2147483647"]);
    check_bare(
        Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]),
        &["-9223372036854775808", "\\N", "9223372036854775807"],
    );
    check_bare(UInt8Array::from(vec![0, u8::MAX]), &["0", "255"]);
    check_bare(UInt16Array::from(vec![0, u16::MAX]), &["0", "65535"]);
    check_bare(UInt32Array::from(vec![0, u32::MAX]), &["0", "4294967295"]);
    check_bare(UInt64Array::from(vec![0, u64::MAX]), &["0", "18446744073709551615"]);
    check_bare(BooleanArray::from(vec![Some(true), None, Some(false)]), &["true", "\\N", "false"]);
    check_bare(NullArray::new(2), &["\\N", "\\N"]);
}

#[test]
fn floats() {
    let values = [0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let text =
        ["0.0", "-0.0", "1.0", "0.1", "1e300", "5e-324", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity"];
    let json = [
        "0.0",
        "-0.0",
        "1.0",
        "0.1",
        "1e300",
        "5e-324",
        "1.7976931348623157e308",
        "\"NaN\"",
        "\"Infinity\"",
        "\"-Infinity\"",
    ];
    check(Float64Array::from(values.to_vec()), &text, &json);
    check(
        Float32Array::from(vec![0.1, f32::MAX, f32::NAN, f32::NEG_INFINITY]),
        &["0.1", "3.4028235e38", "NaN", "-Infinity"],
        &["0.1", "3.4028235e38", "\"NaN\"", "\"-Infinity\""],
    );
    let half = cast(&Float32Array::from(vec![1.5, f32::NAN, 65504.0]), &DataType::Float16).unwrap();
    check(
        half.as_any().downcast_ref::<Float16Array>().unwrap().clone(),
        &["1.5", "NaN", "65504.0"],
        &["1.5", "\"NaN\"", "65504.0"],
    );
}

#[test]
fn decimals() {
    check_quoted(Decimal32Array::from(vec![-5, 150]).with_precision_and_scale(5, 2).unwrap(), &["-0.05", "1.50"]);
    check_quoted(Decimal64Array::from(vec![1, 0]).with_precision_and_scale(18, 0).unwrap(), &["1", "0"]);
    check_quoted(
        Decimal128Array::from(vec![Some(10i128.pow(38) - 1), None, Some(-1)]).with_precision_and_scale(38, 10).unwrap(),
        &["9999999999999999999999999999.9999999999", "\\N", "-0.0000000001"],
    );
    check_quoted(Decimal128Array::from(vec![12]).with_precision_and_scale(10, -2).unwrap(), &["1200"]);
    check_quoted(Decimal256Array::from(vec![i256::from(7)]).with_precision_and_scale(76, 1).unwrap(), &["0.7"]);
}

#[test]
fn text_and_bytes() {
    let values = vec![Some("plain"), None, Some(""), Some("tab\tline\nreturn\rslash\\ quote\" nul\0 é😀")];
    let text = ["plain", "\\N", "", "tab\\tline\\nreturn\\rslash\\\\ quote\" nul\0 é😀"];
    let json = ["\"plain\"", "null", "\"\"", "\"tab\\tline\\nreturn\\rslash\\\\ quote\\\" nul\\u0000 é😀\""];
    check(StringArray::from(values.clone()), &text, &json);
    check(LargeStringArray::from(values.clone()), &text, &json);
    check(StringViewArray::from(values), &text, &json);

    let bytes: Vec<Option<&[u8]>> = vec![Some(&[0xc0, 0xff, 0xee]), None, Some(&[]), Some(&[0, 1])];
    let text = ["c0ffee", "\\N", "", "0001"];
    check_quoted(BinaryArray::from(bytes.clone()), &text);
    check_quoted(LargeBinaryArray::from(bytes.clone()), &text);
    check_quoted(BinaryViewArray::from(bytes), &text);
    let fixed = FixedSizeBinaryArray::try_from_iter([[0xab; 16], [0; 16]].into_iter()).unwrap();
    check_quoted(fixed, &["abababababababababababababababab", "00000000000000000000000000000000"]);
}

#[test]
fn dates_times_and_spans() {
    check_quoted(Date32Array::from(vec![Some(20_608), None, Some(-1)]), &["2026-06-04", "\\N", "1969-12-31"]);
    check_quoted(Date64Array::from(vec![-86_400_000, 0]), &["1969-12-31", "1970-01-01"]);
    check_quoted(TimestampSecondArray::from(vec![-62_135_596_800]), &["0001-01-01T00:00:00"]);
    check_quoted(TimestampMillisecondArray::from(vec![250]).with_timezone("UTC"), &["1970-01-01T00:00:00.250Z"]);
    check_quoted(
        TimestampMicrosecondArray::from(vec![Some(1_780_574_400_000_000), None]).with_timezone("+00:00"),
        &["2026-06-04T12:00:00Z", "\\N"],
    );
    check_quoted(TimestampNanosecondArray::from(vec![-1]), &["1969-12-31T23:59:59.999999999"]);
    check_quoted(Time32SecondArray::from(vec![3_723]), &["01:02:03"]);
    check_quoted(Time32MillisecondArray::from(vec![1]), &["00:00:00.001"]);
    check_quoted(Time64MicrosecondArray::from(vec![86_399_999_999]), &["23:59:59.999999"]);
    check_quoted(Time64NanosecondArray::from(vec![1]), &["00:00:00.000000001"]);
    check_quoted(DurationSecondArray::from(vec![61]), &["PT1M1S"]);
    check_quoted(DurationNanosecondArray::from(vec![-1]), &["PT-0.000000001S"]);
    check_quoted(IntervalYearMonthArray::from(vec![14]), &["P1Y2M"]);
    check_quoted(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 500)]), &["P1DT0.500S"]);
    check_quoted(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 0)]), &["P1M2D"]);
}

#[test]
fn lists() {
    let rows = || vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(3)])];
    let text = ["[1,null]", "\\N", "[]", "[3]"];
    check_bare(ListArray::from_iter_primitive::<Int32Type, _, _>(rows()), &text);
    check_bare(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows()), &text);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows());
    check_bare(ListViewArray::from(list), &text);
    let list = LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows());
    check_bare(LargeListViewArray::from(list), &text);
    let pairs = vec![Some(vec![Some(1), None]), None, Some(vec![Some(5), Some(6)])];
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2);
    check_bare(pairs, &["[1,null]", "\\N", "[5,6]"]);

    let inner = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)]), None, Some(vec![])]);
    let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let outer = ListArray::new(field, OffsetBuffer::from_lengths([2, 1]), Arc::new(inner), None);
    check_bare(outer, &["[[1],null]", "[[]]"]);
    let words = StringArray::from(vec![Some("a\tb"), Some("\""), None]);
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    let words = ListArray::new(field, OffsetBuffer::from_lengths([3]), Arc::new(words), None);
    // The text of a nested value is its JSON, here escaped once more for TSV.
    check(words, &[r#"["a\\tb","\\"",null]"#], &[r#"["a\tb","\"",null]"#]);
}

#[test]
fn structs_and_maps() {
    let fields =
        Fields::from(vec![Field::new("a\"b", DataType::Float64, true), Field::new("day", DataType::Date32, true)]);
    let structs = StructArray::new(
        fields,
        vec![
            Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)])),
            Arc::new(Date32Array::from(vec![0, 1, 2])),
        ],
        Some(vec![true, false, true].into()),
    );
    let json = [r#"{"a\"b":1.5,"day":"1970-01-01"}"#, "null", r#"{"a\"b":"NaN","day":"1970-01-03"}"#];
    let text = [r#"{"a\\"b":1.5,"day":"1970-01-01"}"#, "\\N", r#"{"a\\"b":"NaN","day":"1970-01-03"}"#];
    check(structs, &text, &json);

    check_bare(map(Arc::new(StringArray::from(vec!["x", "y", "x"]))), &[r#"{"x":1,"y":null}"#, "{}", r#"{"x":3}"#]);
    check_bare(
        map(Arc::new(Int32Array::from(vec![7, 8, 9]))),
        &[r#"[{"key":7,"value":1},{"key":8,"value":null}]"#, "[]", r#"[{"key":9,"value":3}]"#],
    );
}

/// Three maps of two, no and one entry.
fn map(keys: ArrayRef) -> MapArray {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let fields = Fields::from(vec![
        Field::new("keys", keys.data_type().clone(), false),
        Field::new("values", DataType::Int64, true),
    ]);
    let entries = StructArray::new(fields.clone(), vec![keys, values], None);
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    MapArray::new(field, OffsetBuffer::from_lengths([2, 0, 1]), entries, None, false)
}

#[test]
fn encoded_and_mixed() {
    let words: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    check_quoted(words, &["b", "\\N", "a", "b"]);
    // The null may also be a value of the dictionary.
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    check_quoted(DictionaryArray::new(Int32Array::from(vec![1, 0]), values), &["\\N", "a"]);
    let none: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    check_quoted(DictionaryArray::new(Int32Array::from(vec![None, None]), none), &["\\N", "\\N"]);

    let ends = Int32Array::from(vec![2, 3, 4]);
    let runs = RunArray::try_new(&ends, &Int64Array::from(vec![Some(5), None, Some(6)])).unwrap();
    check_bare(runs, &["5", "5", "\\N", "6"]);

    let fields = [
        (0, Arc::new(Field::new("number", DataType::Int64, true))),
        (3, Arc::new(Field::new("word", DataType::Utf8, true))),
    ];
    let union = UnionArray::try_new(
        fields.into_iter().collect::<UnionFields>(),
        ScalarBuffer::from(vec![3i8, 0, 3, 0]),
        Some(ScalarBuffer::from(vec![0, 0, 1, 1])),
        vec![Arc::new(Int64Array::from(vec![Some(1), None])), Arc::new(StringArray::from(vec!["a", "b"]))],
    )
    .unwrap();
    check(union, &["a", "1", "b", "\\N"], &["\"a\"", "1", "\"b\"", "null"]);
}

fn people() -> RecordBatch {
    batch(vec![
        ("name", Arc::new(StringArray::from(vec![Some("Ada"), Some("Zoë 😀"), None, Some("")]))),
        ("n", Arc::new(Int64Array::from(vec![Some(1), Some(-20), None, Some(300)]))),
        ("note", Arc::new(StringArray::from(vec!["a,b", "say \"hi\"", "two\nlines", "tab\tend"]))),
    ])
}

#[test]
fn json_is_one_array_across_batches() {
    let batches = [people().slice(0, 1), people().slice(0, 0), people().slice(2, 1)];
    expect![[r#"
        [{"name":"Ada","n":1,"note":"a,b"},
        {"name":null,"n":null,"note":"two\nlines"}]
    "#]]
    .assert_eq(&plain(Format::Json, &batches));
    assert_eq!(plain(Format::Json, &[people().slice(0, 0)]), "[]\n");
    assert_eq!(plain(Format::Ndjson, &[people().slice(0, 0)]), "");
    let twice = batch(vec![("a", Arc::new(Int32Array::from(vec![1]))), ("a", Arc::new(Int32Array::from(vec![2])))]);
    assert_eq!(plain(Format::Ndjson, &[twice]), "{\"a\":1,\"a\":2}\n");
}

#[test]
fn csv_and_tsv() {
    expect![[r#"
        name,n,note
        Ada,1,"a,b"
        Zoë 😀,-20,"say ""hi"""
        ,,"two
        lines"
        "",300,tab	end
    "#]]
    .assert_eq(&plain(Format::Csv, &[people()]));
    expect![[r#"
        name	n	note
        Ada	1	a,b
        Zoë 😀	-20	say "hi"
        \N	\N	two\nlines
        	300	tab\tend
    "#]]
    .assert_eq(&plain(Format::Tsv, &[people()]));
    assert_eq!(plain(Format::Csv, &[people().slice(0, 0)]), "name,n,note\n");
    let lonely = batch(vec![("a \"b\"", Arc::new(Int32Array::from(vec![Some(1), None])))]);
    assert_eq!(plain(Format::Csv, &[lonely]), "\"a \"\"b\"\"\"\n1\n\"\"\n");
}

#[test]
fn tables() {
    expect![[r#"
        +--------+------+----------+
        | name   |    n | note     |
        +--------+------+----------+
        | Ada    |    1 | a,b      |
        | Zoë 😀 |  -20 | say "hi" |
        | NULL   | NULL | two      |
        |        |      | lines    |
        |        |  300 | tab\tend |
        +--------+------+----------+
    "#]]
    .assert_eq(&plain(Format::Table, &[people().slice(0, 2), people().slice(2, 2)]));
    let escape = batch(vec![("v", Arc::new(StringArray::from(vec!["\u{1b}[2J\u{7f}\r"])) as ArrayRef)]);
    assert!(plain(Format::Table, &[escape]).contains("| \\u{1b}[2J\\u{7f}\\r |"));
    expect![[r#"
        +------+---+------+
        | name | n | note |
        +------+---+------+
        +------+---+------+
    "#]]
    .assert_eq(&plain(Format::Table, &[people().slice(0, 0)]));
    expect![[r#"
            -[ 1 ]--
            name | Zoë 😀
            n    | -20
            note | say "hi"
            -[ 2 ]--
            name | NULL
            n    | NULL
            note | two
                 | lines
        "#]]
    .assert_eq(&print(Layout { format: Format::Table, width: Some(20), expanded: true }, &[people().slice(1, 2)]));
}

#[test]
fn a_terminal_cuts_what_does_not_fit() {
    let wide = batch(vec![
        ("id", Arc::new(Int64Array::from(vec![1_234_567_890]))),
        ("text", Arc::new(StringArray::from(vec!["ünïcode 😀 and then some more"]))),
    ]);
    expect![[r#"
        +------------+---------------+
        |         id | text          |
        +------------+---------------+
        | 1234567890 | ünïcode 😀 a… |
        +------------+---------------+
    "#]]
    .assert_eq(&narrow(30, from_ref(&wide)));
    assert_eq!(narrow(200, from_ref(&wide)), plain(Format::Table, from_ref(&wide)));
    // Less than a readable column each: one value a line, whole.
    let mut many: Vec<(&str, ArrayRef)> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        many.push((name, Arc::new(StringArray::from(vec!["0123456789"]))));
    }
    expect![[r#"
        -[ 1 ]
        a | 0123456789
        b | 0123456789
        c | 0123456789
        d | 0123456789
    "#]]
    .assert_eq(&narrow(30, &[batch(many)]));
    // Plans are never cut.
    let plan = batch(vec![
        ("plan_type", Arc::new(StringArray::from(vec!["physical_plan"]))),
        ("plan", Arc::new(StringArray::from(vec!["DataSourceExec: a rather long line"]))),
    ]);
    assert_eq!(narrow(30, from_ref(&plan)), plain(Format::Table, &[plan]));
}

#[test]
fn long_results_stream_behind_their_first_rows() {
    let rows = |from: i64, count: i64| {
        batch(vec![("n", Arc::new(Int64Array::from_iter_values(from..from + count)) as ArrayRef)])
    };
    let layout = Layout { format: Format::Table, width: None, expanded: false };
    let mut renderer = renderer(&rows(0, 1).schema(), layout);
    let mut out = Vec::new();
    renderer.batch(&rows(0, 9_999), &mut out).unwrap();
    assert!(out.is_empty(), "widths are still open");
    renderer.batch(&rows(9_999, 2), &mut out).unwrap();
    assert!(
        out.ends_with(b"|  9999 |\n| 10000 |\n") || out.ends_with(b"| 9999 |\n| 10000 |\n"),
        "rows are written as they come"
    );
    renderer.finish(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 10_001 + 4);

    // One huge value opens the frame as well.
    let huge = batch(vec![("t", Arc::new(StringArray::from(vec!["x".repeat(9 << 20)])) as ArrayRef)]);
    let mut out = Vec::new();
    super::renderer(&huge.schema(), layout).batch(&huge, &mut out).unwrap();
    assert!(out.len() > 9 << 20);
}

/// Reads RFC 4180 back: quoted and bare fields, line feeds inside quotes.
fn read_csv(text: &str) -> Vec<Vec<(bool, String)>> {
    let mut rows = vec![vec![]];
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let quoted = rest.next_if_eq(&'"').is_some();
        let mut field = String::new();
        loop {
            match rest.next() {
                Some('"') if quoted && rest.next_if_eq(&'"').is_some() => field.push('"'),
                Some('"') if quoted => {
                    let end = rest.next();
                    rows.last_mut().unwrap().push((true, std::mem::take(&mut field)));
                    if end == Some('\n') {
                        rows.push(vec![]);
                    }
                    break;
                }
                Some(end @ (',' | '\n')) if !quoted => {
                    rows.last_mut().unwrap().push((false, std::mem::take(&mut field)));
                    if end == '\n' {
                        rows.push(vec![]);
                    }
                    break;
                }
                Some(c) => field.push(c),
                None => panic!("cut short"),
            }
        }
    }
    rows.pop();
    rows
}

proptest! {
    /// Whatever the text, another reader of JSON gets it back.
    #[test]
    fn json_reads_back(name in any::<String>(), text in any::<String>(), number in any::<f64>()) {
        let row = batch(vec![
            (name.as_str(), Arc::new(StringArray::from(vec![text.clone()]))),
            ("number of this row", Arc::new(Float64Array::from(vec![number]))),
        ]);
        let line = plain(Format::Ndjson, &[row]);
        prop_assert_eq!(line.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        prop_assert_eq!(read[&name].as_str(), Some(text.as_str()));
        if number.is_finite() {
            // That reader rounds; the digits themselves don't.
            let digits = line.rsplit_once(':').and_then(|(_, rest)| rest.strip_suffix("}\n"));
            prop_assert_eq!(digits.and_then(|digits| digits.parse().ok()), Some(number));
        }
    }

    /// Whatever the text, another reader of CSV gets it back, and null is not the empty text.
    #[test]
    fn csv_reads_back(texts in proptest::collection::vec(proptest::option::of("[a\",\n\r ]{0,6}"), 1..5)) {
        let columns = batch(vec![
            ("a", Arc::new(StringArray::from(texts.clone()))),
            ("b", Arc::new(StringArray::from(texts.clone()))),
        ]);
        let read = read_csv(&plain(Format::Csv, &[columns]));
        prop_assert_eq!(read.len(), texts.len() + 1);
        for (row, text) in read.iter().skip(1).zip(&texts) {
            for (quoted, field) in row {
                prop_assert_eq!((*quoted || !field.is_empty()).then_some(field), text.as_ref());
            }
        }
    }
}

#[test]
fn sparse_unions_read_their_own_row() {
    let fields = [(0, Arc::new(Field::new("n", DataType::Int64, true)))];
    let union = UnionArray::try_new(
        fields.into_iter().collect::<UnionFields>(),
        ScalarBuffer::from(vec![0i8, 0]),
        None,
        vec![Arc::new(Int64Array::from(vec![1, 2]))],
    )
    .unwrap();
    assert_eq!(union.child(0).as_primitive::<Int64Type>().value(1), 2);
    check_bare(union, &["1", "2"]);
}
