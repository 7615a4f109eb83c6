//! What came and what went between two snapshots.

use daygrain::Code;

use super::{append, change, code, made, name, refused, rows};
use crate::lab::{Lab, lines, query};

#[tokio::test]
async fn appended_rows_are_insertions() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let second = append(&session, rows(3..5)).await;
    let third = append(&session, rows(5..6)).await;
    name(&lab, "old", "tag", first).await;
    let at = made(&lab, second).await;
    let all = "SELECT n, _change_type, _change_ordinal, _commit_snapshot_id FROM";
    assert_eq!(
        lines(&session, &format!("{all} table_changes('t', {first}, {third})")).await,
        [format!("3|insert|0|{second}"), format!("4|insert|0|{second}"), format!("5|insert|1|{third}")]
    );
    for (call, answer) in [
        (format!("table_changes('t', {first})"), vec!["3", "4", "5"]),
        (format!("table_changes('main.t', 'old', {second})"), vec!["3", "4"]),
        ("table_changes(t, 'old', 'main') WHERE n > 3".to_owned(), vec!["4", "5"]),
        (format!("Table_Changes('T', NULL, {first}) AS c WHERE c.n <> 1"), vec!["0", "2"]),
        (format!("table_changes('t', to_timestamp_millis({at}))"), vec!["5"]),
        (format!("table_changes('t', '1999-01-01', {first})"), vec![]),
        (format!("table_changes('t', {second}, {second})"), vec![]),
        (format!("table_changes('t', {first}) WHERE _change_type = 'insert' AND _pos = 0"), vec!["3", "4", "5"]),
    ] {
        if call.contains("'1999") {
            assert_eq!(code(&session, &format!("SELECT n FROM {call}")).await, Code::UnknownSnapshot);
            continue;
        }
        assert_eq!(lines(&session, &format!("SELECT n FROM {call}")).await, answer, "{call}");
    }
    let answer = query(&session, &format!("SELECT n FROM table_changes('t', {second})")).await;
    let ledger = &answer.scans[0].ledger;
    assert_eq!((ledger.files.kept(), ledger.files.total()), (1, 1), "only what changed is looked at: {}", ledger.files);
    let columns = query(&session, &format!("SELECT * FROM table_changes('t', {second})")).await.batches[0].schema();
    let columns: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(columns, ["n", "s", "ts", "_change_type", "_change_ordinal", "_commit_snapshot_id"]);
}

#[tokio::test]
async fn what_cannot_be_told_is_refused() {
    let lab = Lab::remote();
    let session = lab.session();
    let first = append(&session, rows(0..3)).await;
    let second = append(&session, rows(3..5)).await;
    for (sql, expected) in [
        (format!("SELECT * FROM table_changes('t', {second}, {first})"), Code::ChangesUnavailable),
        ("SELECT * FROM table_changes('t', 17)".to_owned(), Code::UnknownSnapshot),
        ("SELECT * FROM table_changes('u', 17)".to_owned(), Code::UnknownTable),
        ("SELECT * FROM table_changes('t')".to_owned(), Code::InvalidArgument),
        ("SELECT * FROM table_changes('t', 1, 2, 3)".to_owned(), Code::InvalidArgument),
        ("SELECT * FROM table_changes(1, 2)".to_owned(), Code::InvalidArgument),
        (format!("SELECT * FROM table_changes('t', {first}, NULL)"), Code::InvalidValue),
        ("SELECT * FROM table_changes('information_schema.tables', 1)".to_owned(), Code::NotSupported),
    ] {
        assert_eq!(code(&session, &sql).await, expected, "{sql}");
    }
    // The snapshots between have expired.
    let third = append(&session, rows(5..6)).await;
    change(&lab, |metadata| {
        let keep = |list: &mut serde_json::Value| {
            list.as_array_mut().unwrap().retain(|item| item["snapshot-id"] != second);
        };
        keep(&mut metadata["snapshots"]);
        keep(&mut metadata["snapshot-log"]);
    })
    .await;
    let error = refused(&session, &format!("SELECT * FROM table_changes('t', {first}, {third})")).await;
    assert_eq!(error.code(), Code::ChangesUnavailable);
    assert!(error.what().contains(&second.to_string()), "{error}");
}
