//! One table in several states.

use daygrain::Code;
use daygrain::scan::TimeTravel;

use super::{append, code, made, name, refused, rows};
use crate::lab::{Lab, lines, query};

#[tokio::test]
async fn a_version_is_named_by_id_name_or_time() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let second = append(&session, rows(3..5)).await;
    append(&session, rows(5..9)).await;
    name(&lab, "old", "tag", first).await;
    name(&lab, "7", "tag", second).await;
    name(&lab, "dev", "branch", second).await;
    let at = made(&lab, second).await;
    let count = async |version: &str| lines(&session, &format!("SELECT count(*) FROM t {version}")).await.remove(0);

    for (version, rows) in [
        (format!("VERSION AS OF {first}"), "3"),
        (format!("FOR VERSION AS OF {second}"), "5"),
        (format!("FOR SYSTEM_VERSION AS OF {second}"), "5"),
        (format!("VERSION AS OF '{first}'"), "3"),
        ("VERSION AS OF 'old'".to_owned(), "3"),
        ("VERSION AS OF '7'".to_owned(), "5"),
        ("FOR VERSION AS OF 'dev'".to_owned(), "5"),
        ("VERSION AS OF 'main' AS x".to_owned(), "9"),
        (format!("TIMESTAMP AS OF to_timestamp_millis({at})"), "5"),
        (format!("FOR TIMESTAMP AS OF to_timestamp_millis({})", at - 1), "3"),
        (format!("FOR SYSTEM_TIME AS OF to_timestamp_millis({at}) + INTERVAL '0 days'"), "5"),
        ("TIMESTAMP AS OF '2999-01-01'".to_owned(), "9"),
        ("FOR TIMESTAMP AS OF now() + INTERVAL '1 day'".to_owned(), "9"),
        (String::new(), "9"),
    ] {
        assert_eq!(count(&version).await, rows, "{version}");
    }
    let of_table = session.warehouse().table_at("main", "t", &TimeTravel::Ref("old".to_owned())).await.unwrap();
    assert_eq!(of_table.unwrap().view().snapshot.as_ref().unwrap().snapshot_id(), first);
    assert!(session.warehouse().table_at("main", "u", &TimeTravel::Snapshot(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn versions_stand_wherever_tables_do() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let second = append(&session, rows(3..5)).await;
    append(&session, rows(5..9)).await;
    for (sql, answer) in [
        (format!("SELECT count(*) FROM main.t VERSION AS OF {first}"), "3"),
        (format!("SELECT max(main.t.n) FROM main.t VERSION AS OF {first}"), "2"),
        (format!("SELECT max(N) FROM T VERSION AS OF {first} AS x"), "2"),
        (format!("SELECT max(t.n) FROM daygrain.main.\"t\" FOR VERSION AS OF {first}"), "2"),
        (
            format!(
                "SELECT count(*) FROM t JOIN t VERSION AS OF {first} old USING (n) JOIN t VERSION AS OF {second} new USING (n)"
            ),
            "3",
        ),
        (format!("SELECT count(*) FROM t VERSION AS OF {first} a, t VERSION AS OF {second} b"), "15"),
        (format!("SELECT count(*) FROM t WHERE n NOT IN (SELECT n FROM t VERSION AS OF {second})"), "4"),
        (format!("WITH old AS (SELECT * FROM t VERSION AS OF {first}) SELECT sum(n) FROM old"), "3"),
        (format!("SELECT (SELECT max(n) FROM t VERSION AS OF {first}) - min(n) FROM t WHERE n > 7"), "-6"),
        (
            format!(
                "SELECT count(*) FROM (SELECT n FROM t EXCEPT SELECT n FROM t VERSION AS OF {first} WHERE n > 0) AS u"
            ),
            "7",
        ),
        (format!("SELECT max(at.n) FROM t VERSION AS OF {first} at"), "2"),
        (format!("SELECT version AS of FROM (SELECT max(n) AS version FROM t VERSION AS OF {first}) x"), "2"),
        (format!("SELECT * FROM (SELECT count(*) FROM t VERSION AS OF {first}) x, (SELECT 1) y"), "3|1"),
    ] {
        assert_eq!(lines(&session, &sql).await, [answer], "{sql}");
    }
    query(&session, &format!("CREATE VIEW v AS SELECT n FROM t VERSION AS OF {first}")).await;
    assert_eq!(lines(&session, "SELECT count(*) FROM v JOIN t USING (n)").await, ["3"]);
    query(&session, &format!("PREPARE p AS SELECT count(*) FROM t VERSION AS OF {first} WHERE n > $1")).await;
    assert_eq!(lines(&session, "EXECUTE p(0)").await, ["2"]);
}

#[tokio::test]
async fn a_snapshot_is_read_with_its_schema_and_a_branch_with_the_table_s() {
    let lab = Lab::remote();
    let session = lab.session();
    let batch = rows(0..3);
    let first = append(&session, batch.project(&[0, 2]).unwrap()).await;
    append(&session, rows(3..5)).await;
    name(&lab, "old", "tag", first).await;
    name(&lab, "dev", "branch", first).await;
    let columns = async |version: &str| {
        let answer = query(&session, &format!("SELECT * FROM t {version} WHERE n = 0")).await;
        answer.batches[0].schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(columns(&format!("VERSION AS OF {first}")).await, ["n", "ts"]);
    assert_eq!(columns("VERSION AS OF 'old'").await, ["n", "ts"]);
    assert_eq!(columns("VERSION AS OF 'dev'").await, ["n", "ts", "s"]);
    assert_eq!(columns("").await, ["n", "ts", "s"]);
    let at = made(&lab, first).await;
    assert_eq!(columns(&format!("TIMESTAMP AS OF to_timestamp_millis({at})")).await, ["n", "ts"]);
    let sql = format!("SELECT s FROM t VERSION AS OF {first}");
    assert!(refused(&session, &sql).await.to_string().contains('s'));
}

#[tokio::test]
async fn what_is_not_there_is_named_with_what_is() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    name(&lab, "old", "tag", first).await;
    let error = refused(&session, "SELECT * FROM t VERSION AS OF 17").await;
    assert_eq!((error.code(), error.what()), (Code::UnknownSnapshot, "the table has no snapshot 17"));
    assert!(error.to_string().contains(&first.to_string()), "{error}");
    let error = refused(&session, "SELECT * FROM t VERSION AS OF 'new'").await;
    assert_eq!(error.code(), Code::UnknownSnapshot);
    assert!(error.to_string().contains("main (branch), old (tag)"), "{error}");
    for (sql, expected) in [
        ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", Code::UnknownSnapshot),
        ("SELECT * FROM t TIMESTAMP AS OF 'yesterday'", Code::InvalidValue),
        ("SELECT * FROM t TIMESTAMP AS OF 7", Code::InvalidValue),
        ("SELECT * FROM t TIMESTAMP AS OF NULL", Code::InvalidValue),
        ("SELECT * FROM t VERSION AS OF 1 + 1", Code::InvalidArgument),
        ("SELECT * FROM t VERSION AS OF NULL", Code::InvalidArgument),
        ("SELECT * FROM u VERSION AS OF 1", Code::UnknownTable),
        ("WITH c AS (SELECT 1) SELECT * FROM c VERSION AS OF 1", Code::NotSupported),
        ("SELECT * FROM information_schema.tables VERSION AS OF 1", Code::NotSupported),
        ("SELECT * FROM t x VERSION AS OF 1", Code::SqlSyntax),
        ("INSERT INTO t VERSION AS OF 1 SELECT * FROM t", Code::SqlSyntax),
    ] {
        assert_eq!(code(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn explain_says_which_snapshot_and_why() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    append(&session, rows(3..5)).await;
    name(&lab, "old", "tag", first).await;
    let plan = lines(&session, "EXPLAIN SELECT n FROM t VERSION AS OF 'old'").await.join("\n");
    assert!(plan.contains(&format!("snapshot={first}, ref=tag old")), "{plan}");
    let answer = query(&session, "SELECT a.n FROM t VERSION AS OF 'old' a JOIN t b ON a.n = b.n").await;
    let mut references: Vec<_> = answer.scans.iter().map(|scan| scan.reference.as_deref()).collect();
    references.sort();
    assert_eq!(references, [None, Some("tag old")]);
    let pruning = format!("EXPLAIN PRUNING SELECT * FROM t, t VERSION AS OF {first} x WHERE t.n = x.n");
    let files = lines(&session, &pruning).await;
    let totals: Vec<&str> =
        files.iter().filter(|l| l.contains("|files|") && l.ends_with('∅')).map(|l| l.as_str()).collect();
    assert_eq!(totals.len(), 2, "{files:?}");
}

/// The history says what was current when: a table that was rolled back was at its older snapshot since then.
#[tokio::test]
async fn times_are_looked_up_in_the_history() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let second = append(&session, rows(3..5)).await;
    let later = made(&lab, second).await + 1_000_000;
    super::change(&lab, |metadata| {
        metadata["current-snapshot-id"] = first.into();
        metadata["refs"]["main"]["snapshot-id"] = first.into();
        metadata["snapshot-log"]
            .as_array_mut()
            .unwrap()
            .push(serde_json::json!({"snapshot-id": first, "timestamp-ms": later}));
        metadata["last-updated-ms"] = later.into();
    })
    .await;
    let count = async |ms: i64| {
        lines(&session, &format!("SELECT count(*) FROM t TIMESTAMP AS OF to_timestamp_millis({ms})")).await
    };
    assert_eq!(count(later - 1).await, ["5"]);
    assert_eq!(count(later).await, ["3"]);
}
