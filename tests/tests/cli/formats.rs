//! Every format, to the byte.

use daygrain_tests::shell::Shell;

/// One column of each type; a row of values and a row of nulls.
const TYPES: &str = r#"select * from (values
  (true, cast(1 as tinyint), -9223372036854775808, cast(18446744073709551615 as bigint unsigned), cast(1.5 as float), 1e300,
   cast('NaN' as double), cast('-Infinity' as double), cast(-0.0 as double), cast(1.50 as decimal(10,2)),
   'a,"b"' || chr(10) || chr(9) || '\é😀', X'c0ffee', date '2026-06-04', time '12:00:00', timestamp '2026-06-04 12:00:00.5',
   cast('2026-06-04T14:00:00.000001+02:00' as timestamp with time zone), interval '1 month 2 days 3 seconds',
   [1, null], {'a': 1, 'b': null}, map(['x'], [1]), null, ''),
  (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null))
  v(b, i8, i64, u64, f32, f64, nan, inf, zero, dec, txt, bin, d, t, ts, tz, iv, list, st, m, nothing, empty)"#;

#[track_caller]
fn check(format: &str, sql: &str, expected: &str) {
    let ran = Shell::new().run(["--format", format, "-c", sql]);
    assert_eq!(ran.ok(), expected);
    assert_eq!(ran.stderr, "");
}

const ROW: &str = r#"{"b":true,"i8":1,"i64":-9223372036854775808,"u64":18446744073709551615,"f32":1.5,"f64":1e300,"nan":"NaN","inf":"-Infinity","zero":-0.0,"dec":"1.50","txt":"a,\"b\"\n\t\\é😀","bin":"c0ffee","d":"2026-06-04","t":"12:00:00","ts":"2026-06-04T12:00:00.500","tz":"2026-06-04T12:00:00.000001Z","iv":"P1M2DT3S","list":[1,null],"st":{"a":1,"b":null},"m":{"x":1},"nothing":null,"empty":""}"#;
const NULLS: &str = r#"{"b":null,"i8":null,"i64":null,"u64":null,"f32":null,"f64":null,"nan":null,"inf":null,"zero":null,"dec":null,"txt":null,"bin":null,"d":null,"t":null,"ts":null,"tz":null,"iv":null,"list":null,"st":null,"m":null,"nothing":null,"empty":null}"#;

#[test]
fn ndjson() {
    check("ndjson", TYPES, &format!("{ROW}\n{NULLS}\n"));
    check("ndjson", "select 1 as a where false", "");
    check("ndjson", r#"select 1 as "B b", 'x' as a, 2 as """""#, "{\"B b\":1,\"a\":\"x\",\"\\\"\":2}\n");
    check("ndjson", "select chr(0) || chr(31) || chr(127) as a", "{\"a\":\"\\u0000\\u001f\u{7f}\"}\n");
}

#[test]
fn json() {
    check("json", TYPES, &format!("[{ROW},\n{NULLS}]\n"));
    check("json", "select 1 as a where false; select 1 as a", "[]\n[{\"a\":1}]\n");
}

#[test]
fn csv() {
    let names = "b,i8,i64,u64,f32,f64,nan,inf,zero,dec,txt,bin,d,t,ts,tz,iv,list,st,m,nothing,empty";
    let values = "true,1,-9223372036854775808,18446744073709551615,1.5,1e300,NaN,-Infinity,-0.0,1.50,\"a,\"\"b\"\"\n\t\\é😀\",c0ffee,2026-06-04,12:00:00,2026-06-04T12:00:00.500,2026-06-04T12:00:00.000001Z,P1M2DT3S,\"[1,null]\",\"{\"\"a\"\":1,\"\"b\"\":null}\",\"{\"\"x\"\":1}\",,\"\"";
    check("csv", TYPES, &format!("{names}\n{values}\n,,,,,,,,,,,,,,,,,,,,,\n"));
    check("csv", "select 1 as a where false; select null as a", "a\na\n\"\"\n");
}

#[test]
fn tsv() {
    let names = "b,i8,i64,u64,f32,f64,nan,inf,zero,dec,txt,bin,d,t,ts,tz,iv,list,st,m,nothing,empty".replace(',', "\t");
    let values = [
        "true\t1\t-9223372036854775808\t18446744073709551615\t1.5\t1e300\tNaN\t-Infinity\t-0.0\t1.50",
        r#"a,"b"\n\t\\é😀"#,
        "c0ffee\t2026-06-04\t12:00:00\t2026-06-04T12:00:00.500\t2026-06-04T12:00:00.000001Z\tP1M2DT3S",
        r#"[1,null]"#,
        r#"{"a":1,"b":null}"#,
        r#"{"x":1}"#,
        r"\N",
        "",
    ];
    let nulls = [r"\N"; 22].join("\t");
    check("tsv", TYPES, &format!("{names}\n{}\n{nulls}\n", values.join("\t")));
}

#[test]
fn table() {
    let expected = "\
+------+------+------------+------+
| b    |    n | d          | t    |
+------+------+------------+------+
| true | 1.50 | 2026-06-04 | é😀  |
| NULL | NULL | NULL       | a\\tb |
+------+------+------------+------+
";
    let sql = "select * from (values (true, cast(1.50 as decimal(10,2)), date '2026-06-04', 'é😀'),
               (null, null, null, 'a' || chr(9) || 'b')) v(b, n, d, t)";
    check("table", sql, expected);
    assert_eq!(Shell::new().run(["-c", sql]).ok(), expected, "table is the default");
}

#[test]
fn a_result_is_not_mixed_with_messages() {
    let shell = crate::with_events();
    // A filter that skips nothing is told to people, and not to programs.
    let ran = shell.sql("select n from events where n > 0 order by n");
    assert_eq!(ran.ok(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n");
    assert!(ran.stderr.starts_with("note: the filter on events skips none of its 4 files"), "{ran}");
    let ran = shell.sql("drop table events");
    assert_eq!(ran.ok(), "");
}
