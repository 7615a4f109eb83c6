//! Tables of format version 1 whose snapshots name their manifests without a manifest list.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use daygrain::{Code, Session};
use iceberg::spec::{FormatVersion, Literal, PartitionSpec, PrimitiveType as T, Struct, Transform};
use serde_json::{Value as Json, json};

use super::foreign::{answers, file, place, schema, texts};
use crate::foreign::{self, DataFile, Table};
use crate::lab::{self, Lab};

/// Two specs of a manifest each: by k, of two files (`data-0-0.avro`), then by n, of a file and of one that was deleted
/// (`data-1-0.avro`). Returns the location of the metadata, which `edit` has changed.
async fn table(root: &str, edit: impl FnOnce(&mut Json)) -> String {
    let schema = schema(0, &[(1, "n", T::Int), (2, "k", T::String)]);
    let spec = |id: i32, column: &str| {
        let spec = PartitionSpec::builder(Arc::clone(&schema)).with_spec_id(id);
        spec.add_partition_field(column, column, Transform::Identity).unwrap().build().unwrap()
    };
    let specs = [spec(0, "k"), spec(1, "n")];
    let data = |name: &str, spec: usize, tuple: Literal, n: Vec<i32>, k: &str| {
        let k: Vec<_> = n.iter().map(|_| Some(k)).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(n)), texts(&k)];
        DataFile { spec, ..file(root, name, &schema, Struct::from_iter([Some(tuple)]), columns) }
    };
    let files = [
        data("a", 0, Literal::string("a"), vec![1, 2], "a"),
        data("b", 0, Literal::string("b"), vec![3], "b"),
        data("four", 1, Literal::int(4), vec![4], "a"),
        data("nine", 1, Literal::int(9), vec![9], "z"),
    ];
    let table = Table::of(root, std::slice::from_ref(&schema), &specs, &files);
    let metadata = foreign::write(&Table { version: FormatVersion::V1, gone: &[3], ..table }).await;
    let path = metadata.trim_start_matches("file://");
    let mut json: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
    metadata
}

/// Makes a snapshot name the manifests and no list.
fn without_list(snapshot: &mut Json, root: &str, manifests: &[&str]) {
    let manifests = manifests.iter().map(|name| format!("{root}/metadata/{name}"));
    snapshot["manifests"] = manifests.collect::<Vec<String>>().into();
    let snapshot = snapshot.as_object_mut().unwrap();
    // The writers of that time knew nothing of these either.
    for key in ["manifest-list", "sequence-number", "summary", "schema-id"] {
        snapshot.remove(key);
    }
}

const BOTH: [&str; 2] = ["data-0-0.avro", "data-1-0.avro"];

#[tokio::test]
async fn manifests_without_a_list_are_read() {
    let (_directory, root) = place();
    let metadata = table(&root, |json| without_list(&mut json["snapshots"][0], &root, &BOTH)).await;
    let all = ["1|a", "2|a", "3|b", "4|a"];
    answers(
        &metadata,
        &[
            ("SELECT * FROM t", &all),
            ("SELECT count(*) FROM t", &["4"]),
            ("SELECT n FROM t WHERE k = 'a'", &["1", "2", "4"]),
            ("SELECT k FROM t WHERE n = 4", &["a"]),
            ("SELECT n FROM t WHERE k = 'z' OR n = 9", &[]),
            ("SELECT n, _spec_id FROM t WHERE n > 2", &["3|0", "4|1"]),
            ("SELECT * FROM t VERSION AS OF 1", &all),
            ("SELECT n, _change_type FROM table_changes('t', NULL, 1) WHERE n >= 3", &["3|insert", "4|insert"]),
            ("DESCRIBE t", &["k|string|YES", "n|int|YES"]),
            (
                "EXPLAIN PRUNING SELECT * FROM t WHERE k = 'b'",
                &[
                    "t|delete_files|0|0|0|∅",
                    "t|files|3|1|2|∅",
                    "t|files|3|∅|1|column_bounds",
                    "t|files|3|∅|1|partition",
                    "t|manifests|2|2|0|∅",
                    "t|pages|2|2|0|∅",
                    "t|row_groups|1|1|0|∅",
                    "t|rows|1|1|0|∅",
                ],
            ),
        ],
    )
    .await;
}

/// Opens the table in a session that counts.
async fn opened(metadata: &str) -> (Lab, Session) {
    let lab = Lab::local();
    let session = lab.session();
    let location = metadata.trim_start_matches("file://");
    lab::query(&session, &format!("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{location}'")).await;
    (lab, session)
}

#[tokio::test]
async fn each_manifest_without_a_list_is_fetched_once() {
    let (_directory, root) = place();
    let metadata = table(&root, |json| without_list(&mut json["snapshots"][0], &root, &BOTH)).await;
    let (_lab, session) = opened(&metadata).await;
    for requests in [2, 0] {
        let answer = lab::query(&session, "SELECT n FROM t WHERE k = 'nobody'").await;
        assert_eq!(answer.scans[0].ledger.requests, requests);
    }
}

/// A snapshot of one manifest without a list, and a later one with a list of both.
#[tokio::test]
async fn a_snapshot_with_a_list_follows_one_without() {
    let (_directory, root) = place();
    let edit = |json: &mut Json| {
        let mut second = json["snapshots"][0].clone();
        second["snapshot-id"] = 2.into();
        second["parent-snapshot-id"] = 1.into();
        second["timestamp-ms"] = 2.into();
        without_list(&mut json["snapshots"][0], &root, &BOTH[..1]);
        json["snapshots"].as_array_mut().unwrap().push(second);
        json["current-snapshot-id"] = 2.into();
        json["refs"] = json!({"main": {"snapshot-id": 2, "type": "branch"}, "old": {"snapshot-id": 1, "type": "tag"}});
        json["snapshot-log"] = json!([{"snapshot-id": 1, "timestamp-ms": 1}, {"snapshot-id": 2, "timestamp-ms": 2}]);
    };
    let metadata = table(&root, edit).await;
    let first = ["1|a", "2|a", "3|b"];
    answers(
        &metadata,
        &[
            ("SELECT n FROM t", &["1", "2", "3", "4"]),
            ("SELECT * FROM t VERSION AS OF 1", &first),
            ("SELECT * FROM t VERSION AS OF 'old'", &first),
            ("SELECT * FROM t TIMESTAMP AS OF to_timestamp_millis(1)", &first),
            ("SELECT count(*) FROM t VERSION AS OF 1 WHERE k = 'a'", &["2"]),
            ("SELECT n, _change_type FROM table_changes('t', 1)", &["4|insert"]),
            ("SELECT n, _commit_snapshot_id FROM table_changes('t', NULL, 2)", &["1|1", "2|1", "3|1", "4|2"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn of_a_list_and_manifests_the_list_is_right() {
    let (_directory, root) = place();
    let metadata = table(&root, |json| json["snapshots"][0]["manifests"] = json!(["file:///nowhere.avro"])).await;
    answers(&metadata, &[("SELECT n FROM t", &["1", "2", "3", "4"])]).await;
}

#[tokio::test]
async fn a_snapshot_that_names_no_manifest_has_no_rows() {
    let (_directory, root) = place();
    let metadata = table(&root, |json| without_list(&mut json["snapshots"][0], &root, &[])).await;
    answers(&metadata, &[("SELECT n FROM t", &[]), ("SELECT count(*) FROM t", &["0"])]).await;
}

#[tokio::test]
async fn a_manifest_that_is_missing_is_named() {
    let (_directory, root) = place();
    let metadata = table(&root, |json| without_list(&mut json["snapshots"][0], &root, &BOTH)).await;
    std::fs::remove_file(format!("{}/metadata/data-1-0.avro", root.trim_start_matches("file://"))).unwrap();
    let (_lab, session) = opened(&metadata).await;
    let error = session.query("SELECT n FROM t").await.unwrap_err();
    assert_eq!(error.code(), Code::ManifestCorrupt);
    assert!(error.to_string().contains("/metadata/data-1-0.avro"), "{error}");
}

fn names_in(directory: &str) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// What was put in place of the list never gets into a file.
#[tokio::test]
async fn a_table_of_manifests_without_a_list_is_not_written() {
    for properties in [json!({}), Json::Null] {
        let lab = Lab::local();
        let root = format!("{}/main/t", lab.warehouse);
        let edit = |json: &mut Json| {
            without_list(&mut json["snapshots"][0], &root, &BOTH);
            json["properties"] = properties;
        };
        let metadata = table(&root, edit).await;
        let directory = metadata.trim_start_matches("file://").rsplit_once('/').unwrap().0.to_owned();
        std::fs::write(format!("{directory}/version-hint.text"), "1").unwrap();
        let session = lab.session();
        assert_eq!(lab::lines(&session, "SELECT n FROM t").await, ["1", "2", "3", "4"]);
        let before = names_in(&directory);
        let error = session.query("INSERT INTO t VALUES (5, 'a')").await.unwrap_err();
        assert_eq!(error.code(), Code::NotSupported, "{error}");
        assert!(error.to_string().contains("its snapshot 1 names its manifests without a manifest list"), "{error}");
        assert_eq!(names_in(&directory), before);
        assert_eq!(lab::lines(&lab.session(), "SELECT count(*) FROM t").await, ["4"]);
    }
}
