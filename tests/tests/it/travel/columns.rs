//! Where rows are stored: columns that are there only for who names them.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use daygrain::Code;
use daygrain::session::Export;

use super::{append, code, rows};
use crate::lab::{self, Lab, lines, query};

async fn names(session: &daygrain::Session, sql: &str) -> Vec<String> {
    let answer = query(session, sql).await;
    answer.batches[0].schema().fields().iter().map(|field| field.name().clone()).collect()
}

#[tokio::test]
async fn rows_say_where_they_are() {
    let lab = Lab::remote();
    let session = lab.session();
    append(&session, rows(0..4)).await;
    append(&session, rows(4..6)).await;
    // Two days: files of n = 0, 2; 1, 3; then 4; 5.
    let places = lines(
        &session,
        "SELECT n, _pos, _spec_id, _partition, _partition.ts_day, _last_updated_sequence_number FROM t",
    )
    .await;
    assert_eq!(
        places,
        [
            "0|0|0|{ts_day: 2024-10-04}|2024-10-04|1",
            "1|0|0|{ts_day: 2024-10-05}|2024-10-05|1",
            "2|1|0|{ts_day: 2024-10-04}|2024-10-04|1",
            "3|1|0|{ts_day: 2024-10-05}|2024-10-05|1",
            "4|0|0|{ts_day: 2024-10-04}|2024-10-04|2",
            "5|0|0|{ts_day: 2024-10-05}|2024-10-05|2",
        ]
    );
    let ids = lines(&session, "SELECT count(DISTINCT _row_id), min(_row_id), max(_row_id) FROM t").await;
    assert_eq!(ids, ["6|0|5"]);
    assert_eq!(lines(&session, "SELECT count(DISTINCT _file) FROM t").await, ["4"]);
    for (sql, answer) in [
        ("SELECT n FROM t WHERE _pos = 1 ORDER BY n", vec!["2", "3"]),
        ("SELECT n FROM t WHERE _pos = 1 AND n > 2", vec!["3"]),
        ("SELECT n FROM t WHERE _pos = 1 OR n = 5", vec!["2", "3", "5"]),
        ("SELECT count(*) FROM t GROUP BY _pos", vec!["2", "4"]),
        ("SELECT n FROM t ORDER BY _row_id DESC LIMIT 1", vec!["5"]),
        ("SELECT x.n FROM t x JOIN t y ON x._row_id = y._row_id AND y.n = 2", vec!["2"]),
        ("SELECT n FROM t WHERE _last_updated_sequence_number > 1", vec!["4", "5"]),
        ("SELECT n FROM t WHERE _partition.ts_day = '2024-10-04' AND _spec_id = 0", vec!["0", "2", "4"]),
        ("SELECT n FROM t WHERE n IN (SELECT n FROM t WHERE _pos = 1)", vec!["2", "3"]),
        ("SELECT n FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u._row_id = t._row_id AND u.n = 4)", vec!["4"]),
        ("SELECT max(main.t._pos) FROM main.t", vec!["1"]),
        ("SELECT _pos FROM (SELECT _pos, n FROM t) s WHERE n = 3", vec!["1"]),
        ("WITH c AS (SELECT n, _pos FROM t) SELECT c._pos FROM c JOIN t USING (n) WHERE t.n = 3", vec!["1"]),
        ("SELECT _pos FROM (SELECT _pos FROM t WHERE n = 3) s, (SELECT n FROM t WHERE n = 3) u", vec!["1"]),
        ("SELECT _POS FROM (SELECT _pos AS \"_POS\" FROM t WHERE n = 3) s", vec!["1"]),
    ] {
        assert_eq!(lines(&session, sql).await, answer, "{sql}");
    }
    assert_eq!(code(&session, "SELECT _POS FROM t").await, Code::UnknownColumn);
}

#[tokio::test]
async fn a_file_is_found_by_its_name() {
    let lab = Lab::remote();
    let session = lab.session();
    append(&session, rows(0..4)).await;
    append(&session, rows(4..6)).await;
    let file = lines(&session, "SELECT DISTINCT _file FROM t WHERE n = 3").await.remove(0);
    let answer = query(&session, &format!("SELECT n FROM t WHERE _file = '{file}'")).await;
    assert_eq!(daygrain_tests::oracle::lines(&answer.batches), ["1", "3"]);
    let files = &answer.scans[0].ledger.files;
    assert_eq!((files.kept(), files.total()), (1, 4), "{files}");
    assert_eq!(
        lines(&session, &format!("SELECT n FROM t WHERE _file <> '{file}' AND _file LIKE 'memory%'")).await.len(),
        4
    );
}

#[tokio::test]
async fn who_does_not_name_them_does_not_see_them() {
    let lab = Lab::remote();
    let session = lab.session();
    append(&session, rows(0..4)).await;
    let all = ["n", "s", "ts"];
    assert_eq!(names(&session, "SELECT * FROM t").await, all);
    assert_eq!(names(&session, "SELECT * FROM t WHERE _pos = 0").await, all);
    assert_eq!(names(&session, "SELECT * FROM t ORDER BY _pos").await, all);
    assert_eq!(names(&session, "SELECT *, _pos FROM t").await, ["n", "s", "ts", "_pos"]);
    assert_eq!(names(&session, "SELECT t.*, _pos FROM t").await, ["n", "s", "ts", "_pos"]);
    assert_eq!(names(&session, "SELECT main.t.*, main.t._pos FROM main.t").await, ["n", "s", "ts", "_pos"]);
    assert_eq!(names(&session, "SELECT * EXCLUDE (s), _pos FROM t").await, ["n", "ts", "_pos"]);
    assert_eq!(
        names(&session, "SELECT * FROM t a JOIN t b ON a._row_id = b._row_id").await,
        ["n", "s", "ts", "n", "s", "ts"]
    );
    assert_eq!(
        names(&session, "SELECT * FROM t a JOIN t b USING (n) WHERE a._pos = 0").await,
        ["n", "s", "ts", "s", "ts"]
    );
    assert_eq!(names(&session, "SELECT * FROM (SELECT *, _pos FROM t) x").await, ["n", "s", "ts", "_pos"]);
    assert_eq!(names(&session, "SELECT * FROM t a LEFT SEMI JOIN t b ON a._pos = b._pos").await, all);
    let sql = "SELECT * FROM t a NATURAL JOIN t b WHERE a._pos = b._pos";
    assert_eq!(code(&session, sql).await, Code::NotSupported);
    let described = lines(&session, "DESCRIBE t").await;
    assert_eq!(described.len(), 3, "{described:?}");
    query(&session, "INSERT INTO t SELECT n + 100, s, ts FROM t WHERE _pos = 0").await;
    assert_eq!(lines(&session, "SELECT count(*) FROM t").await, ["6"]);
}

/// The table's own columns come first, whatever they are called.
#[tokio::test]
async fn a_column_of_the_same_name_wins() {
    let lab = Lab::remote();
    let session = lab.session();
    let batch = RecordBatch::try_from_iter([
        ("pos", Arc::new(Int64Array::from(vec![1, 2])) as _),
        ("file_path", Arc::new(StringArray::from(vec!["a", "b"])) as _),
        ("_pos", Arc::new(Int64Array::from(vec![70, 80])) as _),
    ])
    .unwrap();
    lab::export(&session, Export { ..lab::rows_of("t") }, vec![batch]).await.unwrap();
    assert_eq!(lines(&session, "SELECT count(*) FROM t WHERE pos = 2").await, ["1"]);
    assert_eq!(lines(&session, "SELECT _pos, _row_id FROM t WHERE file_path = 'b'").await, ["80|1"]);
    assert_eq!(names(&session, "SELECT *, _file FROM t").await, ["pos", "file_path", "_pos", "_file"]);
    assert_eq!(code(&session, "SELECT _partition FROM t").await, Code::UnknownColumn, "it has no partitions");
}
