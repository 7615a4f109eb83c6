//! Cases of defaults in nanoseconds.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, TimestampNanosecondArray};
use daygrain::Code;
use iceberg::spec::{FormatVersion, PartitionSpec, PrimitiveType as T, SchemaRef, Struct};
use serde_json::{Value as Json, json};

use super::foreign::{answers, file, place, schema};
use crate::foreign::{self, DataFile, Delete, Table};
use crate::lab::{self, Lab};

const AT: &str = "2017-11-16T22:31:08.123456789";
const AT_NS: i64 = 1_510_871_468_123_456_789;

fn numbers(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn times(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(values.to_vec()))
}

/// The columns before `at` and `tz` came, and with them.
fn schemas() -> [SchemaRef; 2] {
    let now = [(1, "n", T::Int), (2, "at", T::TimestampNs), (3, "tz", T::TimestamptzNs)];
    [schema(0, &now[..1]), schema(1, &now)]
}

/// A file of each schema: the older one lacks `at` and `tz`.
fn files(root: &str) -> [DataFile; 2] {
    let [then, now] = schemas();
    let old = file(root, "old", &then, Struct::empty(), vec![numbers(&[1, 2])]);
    let utc = Arc::new(TimestampNanosecondArray::from(vec![None, Some(1)]).with_timezone("+00:00"));
    let new = vec![numbers(&[3, 4]), times(&[Some(AT_NS + 1), None]), utc];
    [old, DataFile { epoch: 1, ..file(root, "new", &now, Struct::empty(), new) }]
}

/// Writes the table, with its metadata changed by `edit`.
async fn written(table: Table<'_>, edit: impl FnOnce(&mut Json)) -> String {
    let metadata = foreign::write(&Table { version: FormatVersion::V3, ..table }).await;
    let path = metadata.trim_start_matches("file://");
    let mut json: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
    metadata
}

fn with_defaults(json: &mut Json) {
    json["schemas"][1]["fields"][1]["initial-default"] = AT.into();
    json["schemas"][1]["fields"][2]["initial-default"] = "1969-12-31T23:59:59.5+00:00".into();
}

#[tokio::test]
async fn a_default_in_nanoseconds_is_exact() {
    let (_directory, root) = place();
    let (files, specs) = (files(&root), [PartitionSpec::unpartition_spec()]);
    let metadata = written(Table::of(&root, &schemas(), &specs, &files), with_defaults).await;
    let old = [
        "1|2017-11-16T22:31:08.123456789|1969-12-31T23:59:59.500Z",
        "2|2017-11-16T22:31:08.123456789|1969-12-31T23:59:59.500Z",
    ];
    let new = ["3|2017-11-16T22:31:08.123456790|∅", "4|∅|1970-01-01T00:00:00.000000001Z"];
    let all: Vec<&str> = old.into_iter().chain(new).collect();
    answers(
        &metadata,
        &[
            ("SELECT * FROM t", &all),
            ("SELECT * FROM t VERSION AS OF 1", &all),
            ("SELECT n FROM t WHERE at = '2017-11-16T22:31:08.123456789'", &["1", "2"]),
            ("SELECT n FROM t WHERE at > '2017-11-16T22:31:08.123456788'", &["1", "2", "3"]),
            ("SELECT n FROM t WHERE at > '2017-11-16T22:31:08.123456789'", &["3"]),
            ("SELECT n FROM t WHERE at < '2017-11-16T22:31:08.123456789'", &[]),
            ("SELECT n FROM t WHERE at <> '2017-11-16T22:31:08.123456789'", &["3"]),
            ("SELECT n FROM t WHERE at IS NULL", &["4"]),
            ("SELECT n FROM t WHERE tz < '1970-01-01T00:00:00Z'", &["1", "2"]),
            ("SELECT n FROM t WHERE tz >= '1969-12-31T23:59:59.500000001Z'", &["4"]),
            ("SELECT count(at), count(tz), count(*) FROM t", &["3|3|4"]),
            ("SELECT min(at), max(at) FROM t", &["2017-11-16T22:31:08.123456789|2017-11-16T22:31:08.123456790"]),
            ("SELECT n, at FROM table_changes('t', NULL, 1) WHERE n = 2", &["2|2017-11-16T22:31:08.123456789"]),
        ],
    )
    .await;
}

/// Once its footer tells that a file has no such column, none of its rows is looked at.
#[tokio::test]
async fn a_default_in_nanoseconds_prunes() {
    let (_directory, root) = place();
    let (files, specs) = (files(&root), [PartitionSpec::unpartition_spec()]);
    let metadata = written(Table::of(&root, &schemas(), &specs, &files[..1]), with_defaults).await;
    let lab = Lab::local();
    let session = lab.session();
    let location = metadata.trim_start_matches("file://");
    lab::query(&session, &format!("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{location}'")).await;
    for (filter, kept) in [("at > '2017-11-16T22:31:08.123456789'", 0), ("at >= '2017-11-16T22:31:08.123456789'", 1)] {
        let answer = lab::query(&session, &format!("SELECT n FROM t WHERE {filter}")).await;
        let groups = &answer.scans[0].ledger.row_groups;
        assert_eq!((groups.kept(), groups.total()), (kept, 1), "{filter}");
    }
}

#[tokio::test]
async fn defaults_in_nanoseconds_within_other_types() {
    let (_directory, root) = place();
    let (files, specs) = (files(&root), [PartitionSpec::unpartition_spec()]);
    let edit = |json: &mut Json| {
        let ns = |id: i32, name: &str, default: &str| json!({"id": id, "name": name, "required": false, "type": "timestamp_ns", "initial-default": default});
        let inner =
            json!({"type": "struct", "fields": [ns(11, "a", AT), ns(12, "b", "1677-09-21T00:12:43.145224192")]});
        let list = json!({"type": "list", "element-id": 14, "element-required": false, "element": "timestamp_ns"});
        let fields = json["schemas"][0]["fields"].as_array_mut().unwrap();
        fields.push(json!({"id": 10, "name": "s", "required": false, "type": inner, "initial-default": {}}));
        fields.push(json!({"id": 13, "name": "l", "required": true, "type": list, "initial-default": [AT, null]}));
        json["last-column-id"] = 14.into();
    };
    let metadata = written(Table::of(&root, &schemas()[..1], &specs, &files[..1]), edit).await;
    answers(
        &metadata,
        &[
            ("SELECT s FROM t WHERE n = 1", &["{a: 2017-11-16T22:31:08.123456789, b: 1677-09-21T00:12:43.145224192}"]),
            ("SELECT n FROM t WHERE s['a'] = '2017-11-16T22:31:08.123456789' AND n > 1", &["2"]),
            ("SELECT count(*) FROM t WHERE s['b'] > '1700-01-01'", &["0"]),
            ("SELECT n FROM t WHERE s['b'] = '1677-09-21T00:12:43.145224192'", &["1", "2"]),
            ("SELECT l FROM t WHERE n = 2", &["[2017-11-16T22:31:08.123456789, ∅]"]),
        ],
    )
    .await;
}

/// Rows without the column are deleted by its default, after it was dropped too.
#[tokio::test]
async fn a_default_in_nanoseconds_is_deleted_by() {
    for dropped in [false, true] {
        let (_directory, root) = place();
        let (files, specs) = (files(&root), [PartitionSpec::unpartition_spec()]);
        let [then, now] = schemas();
        let key = schema(1, &[(2, "at", T::TimestampNs)]);
        let rows = file(&root, "keys", &key, Struct::empty(), vec![times(&[Some(AT_NS)])]).rows;
        let deletes =
            [Delete::Equality { spec: 0, tuple: Struct::empty(), epoch: 1, sequence: 2, keys: vec![2], rows }];
        let mut schemas = vec![Arc::clone(&then), now];
        if dropped {
            schemas.push(schema(2, &[(1, "n", T::Int)]));
        }
        let table = Table { deletes: &deletes, sequence: 2, ..Table::of(&root, &schemas, &specs, &files) };
        let metadata = written(table, with_defaults).await;
        answers(&metadata, &[("SELECT n FROM t", &["3", "4"])]).await;
    }
}

/// The format library would leave the default out of what it puts down.
#[tokio::test]
async fn a_table_with_a_default_in_nanoseconds_is_not_written() {
    for key in ["initial-default", "write-default"] {
        let lab = Lab::local();
        let root = format!("{}/main/t", lab.warehouse);
        let (files, specs) = (files(&root), [PartitionSpec::unpartition_spec()]);
        let edit = |json: &mut Json| json["schemas"][1]["fields"][1][key] = AT.into();
        let metadata = written(Table::of(&root, &schemas(), &specs, &files), edit).await;
        let directory = metadata.trim_start_matches("file://").rsplit_once('/').unwrap().0.to_owned();
        std::fs::write(format!("{directory}/version-hint.text"), "1").unwrap();
        let session = lab.session();
        let error = session.query("INSERT INTO t (n) VALUES (5)").await.unwrap_err();
        assert_eq!(error.code(), Code::NotSupported, "{error}");
        assert!(error.to_string().contains("it can't put down the default of its column `at`"), "{error}");
        assert!(!std::fs::exists(format!("{directory}/v2.metadata.json")).unwrap());
        let given = lab::lines(&lab.session(), "SELECT at FROM t WHERE n = 1").await;
        assert_eq!(given, [if key == "initial-default" { AT } else { "∅" }]);
    }
}
