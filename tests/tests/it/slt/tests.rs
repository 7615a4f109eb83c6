//! A wrong expectation must fail: the runner's own tests.

use super::record::parse;
use super::run::run;
use super::shown::masked;

const TABLE: &str = "\
export t timestamp=ts
SELECT n, to_timestamp_micros(n * 86400000000) AS ts FROM (VALUES (1), (2), (3)) v(n)

twin

";

/// The failures of one record after a table of three rows in three files, and the file with what came out.
async fn failures(record: &str) -> (Vec<String>, String) {
    let done = run("x.slt", &format!("{TABLE}{record}")).await;
    let text = done.text.strip_prefix(TABLE).expect("what came true stays as it is").to_owned();
    (done.failures.iter().map(ToString::to_string).collect(), text)
}

#[tokio::test]
async fn what_is_true_passes_and_stays_as_it_is() {
    for record in [
        "statement ok\nSELECT * FROM t\n",
        "statement error unknown_table nobody\nSELECT * FROM nobody\n",
        "statement note skips none\nSELECT * FROM t WHERE n > 0\n",
        "query I\nSELECT n FROM t ORDER BY n\n----\n1\n2\n3\n",
        "# said before\nquery I rowsort\nSELECT n\nFROM t\n----\n3\n1\n2\n\n# said after\n",
        "query IP names files=1/3\nSELECT n, ts FROM t WHERE ts >= '1970-01-04'\n----\nn | ts\n3 | 1970-01-04T00:00:00Z\n",
        "query ?TTT\nSELECT NULL, '', 'NULL', chr(10)\n----\nNULL | (empty) | 'NULL' | \\n\n",
        "query T\nSELECT '<dir>/x'\n----\n<dir>/x\n",
        "file a/in.csv\nx\n7\n\nexport u from=a/in.csv\n\nquery I\nSELECT x FROM u\n----\n7\n",
        "session read_only\n\nstatement error read_only\nDROP TABLE t\n",
        "query I\nSELECT n FROM t WHERE false\n----\n",
    ] {
        let (failures, text) = failures(record).await;
        assert!(failures.is_empty(), "{record}\n{failures:?}");
        assert_eq!(text, record);
    }
}

#[tokio::test]
async fn what_is_wrong_fails_and_can_be_rewritten() {
    for (record, right) in [
        ("query I\nSELECT 1\n----\n2\n", "query I\nSELECT 1\n----\n1\n"),
        ("query I\nSELECT 1\n----\n", "query I\nSELECT 1\n----\n1\n"),
        ("query I\nSELECT 1\n----\n1\n1\n", "query I\nSELECT 1\n----\n1\n"),
        ("query T\nSELECT 1\n----\n1\n", "query I\nSELECT 1\n----\n1\n"),
        ("query II\nSELECT 1\n----\n1\n", "query I\nSELECT 1\n----\n1\n"),
        ("query names\nSELECT 1 AS a\n----\nb\n1\n", "query names\nSELECT 1 AS a\n----\na\n1\n"),
        (
            "query files=2/3\nSELECT n FROM t WHERE n = 1\n----\n1\n",
            "query files=1/3\nSELECT n FROM t WHERE n = 1\n----\n1\n",
        ),
        (
            "query\nSELECT n FROM t ORDER BY n DESC\n----\n1\n2\n3\n\n# after",
            "query\nSELECT n FROM t ORDER BY n DESC\n----\n3\n2\n1\n\n# after\n",
        ),
        ("query rowsort\nSELECT n FROM t\n----\n1\n2\n2\n", "query rowsort\nSELECT n FROM t\n----\n1\n2\n3\n"),
        ("statement ok\nSELECT x FROM t\n", "statement error unknown_column there is no column x\nSELECT x FROM t\n"),
        (
            "query I\nSELECT x\nFROM t\n----\n1\n",
            "statement error unknown_column there is no column x\nSELECT x\nFROM t\n",
        ),
        ("statement error internal\nSELECT 1\n", "statement ok\nSELECT 1\n"),
    ] {
        let (failures, text) = failures(record).await;
        assert_eq!(failures.len(), 1, "{record}\n{failures:?}");
        assert_eq!(text, right, "{record}");
        let (failures, _) = self::failures(right).await;
        assert!(failures.is_empty(), "{right}\n{failures:?}");
    }
    for (record, code) in [
        ("statement error unknown_column\nSELECT * FROM nobody\n", "unknown_table"),
        ("statement error unknown_table somebody\nSELECT * FROM nobody\n", "unknown_table"),
    ] {
        let (failures, text) = failures(record).await;
        assert_eq!(failures.len(), 1, "{record}");
        assert!(text.starts_with(&format!("statement error {code} ")), "{text}");
    }
}

#[tokio::test]
async fn what_an_update_cannot_mend_stays() {
    for record in [
        "statement note something else\nSELECT * FROM t WHERE n > 0\n",
        "statement note anything\nSELECT 1\n",
        "export t\nSELECT 'x' AS n\n",
    ] {
        let done = run("x.slt", &format!("{TABLE}{record}")).await;
        assert_eq!(done.failures.len(), 1, "{record}");
        assert!(!done.failures[0].mended && done.text.ends_with(record), "{record}");
    }
}

#[tokio::test]
async fn a_query_whose_answer_differs_in_memory_fails() {
    // A view that only the session has: the twin must be told of it, so it is.
    let view = "statement ok\nCREATE VIEW v AS SELECT n FROM t WHERE n > 2\n\nquery I\nSELECT n FROM v\n----\n3\n";
    let (failures, _) = failures(view).await;
    assert!(failures.is_empty(), "{failures:?}");
    // Rows of another run never are the same.
    let random = "query\nSELECT CAST(random() * 1e15 AS BIGINT) > -1, uuid() FROM t LIMIT 1\n----\n";
    let (failures, _) = self::failures(random).await;
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[1].contains("as in memory:"), "{failures:?}");
}

#[tokio::test]
async fn a_failure_says_where_what_and_how_else() {
    let done = run("dir/x.slt", "\n# one\n\nquery I\nSELECT\n1\n----\n2\n").await;
    assert_eq!(
        done.failures[0].to_string(),
        "dir/x.slt:4\n    SELECT\n    1\n  expected:\n    query I\n    2\n  got:\n    query I\n    1"
    );
}

#[tokio::test]
async fn a_file_that_makes_no_sense_fails() {
    for (text, line) in [
        ("select 1\n", 1),
        ("\nstatement\nSELECT 1\n", 2),
        ("statement maybe\nSELECT 1\n", 1),
        ("statement error no_such_code\nSELECT 1\n", 1),
        ("statement ok\nSELECT 1\n----\n1\n", 1),
        ("statement ok\n\nSELECT 1\n", 1),
        ("query X\nSELECT 1\n----\n1\n", 1),
        ("query files=1\nSELECT 1\n----\n1\n", 1),
        ("query\nSELECT 1\n", 1),
        ("export t color=red\nSELECT 1\n", 1),
        ("twin now\n", 1),
    ] {
        assert_eq!(parse(text).map_err(|(line, _)| line), Err(line), "{text}");
        let done = run("x.slt", text).await;
        assert_eq!((done.failures.len(), done.text.as_str()), (1, text));
        assert!(!done.failures[0].mended, "{text}");
    }
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    for (line, right) in [
        (
            "  Scan: table=t, snapshot=6820184709198344584, files=2/14 (partition 12)",
            "  Scan: table=t, snapshot=<snapshot>, files=2/14 (partition 12)",
        ),
        (
            "metrics=[output_rows=3, elapsed_compute=1.23ms, output_bytes=24.0 B, bytes=1234, requests=2]",
            "metrics=[output_rows=3, elapsed_compute=<time>, output_bytes=<bytes>, bytes=<bytes>, requests=2]",
        ),
        ("residual=s = 'x=12ms' AND n = 5", "residual=s = 'x=12ms' AND n = 5"),
        (
            "groups=[[<dir>/main/t/data/0001-af3e.parquet, x.parquet]]",
            "groups=[[<dir>/main/t/data/<file>.parquet, x.parquet]]",
        ),
        ("plain", "plain"),
    ] {
        assert_eq!(masked(line), right);
    }
}
