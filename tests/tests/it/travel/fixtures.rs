//! Every snapshot of tables that other engines wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use daygrain::{Code, Options, Session};
use serde_json::Value;

use crate::lab::lines;

fn shared() -> Option<PathBuf> {
    let Some(root) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not say where the tables are");
        return None;
    };
    Some(PathBuf::from(root).join("fixtures"))
}

/// The tables of Spark: name and newest metadata file.
fn tables(root: &Path) -> Vec<(String, PathBuf)> {
    let text = std::fs::read_to_string(root.join("spark/expected.json")).unwrap();
    let tables: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    let file = |(table, says): (String, Value)| {
        let path = root.join("spark").join(&table).join(says["metadata"].as_str().unwrap());
        (table, path)
    };
    tables.into_iter().map(file).collect()
}

async fn open(session: &Session, table: &str, metadata: &Path) {
    let location = metadata.display();
    let sql =
        format!("CREATE EXTERNAL TABLE {table} STORED AS ICEBERG LOCATION '{location}' OPTIONS ('relocate' 'true')");
    session.query(&sql).await.unwrap_or_else(|e| panic!("{e}"));
}

fn session(directory: &tempfile::TempDir) -> Session {
    Session::new(Options::at(directory.path().join("warehouse").to_str().unwrap())).unwrap()
}

/// How often each line is there.
fn bag(lines: Vec<String>) -> BTreeMap<String, i64> {
    let mut bag = BTreeMap::new();
    lines.into_iter().for_each(|line| *bag.entry(line).or_default() += 1);
    bag
}

/// What was there, plus what was inserted, less what was deleted, is there. And a snapshot without delete files holds as
/// many rows as it says.
#[tokio::test]
async fn changes_lead_from_each_snapshot_to_the_next() {
    let Some(root) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory);
    let (mut steps, mut refusals, mut deleting) = (0, 0, 0);
    for (table, path) in tables(&root) {
        let metadata: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // Rows of a wide table of many are compared by what tells them apart.
        open(&session, &table, &path).await;
        let columns =
            match table.starts_with("lineitem") || table.starts_with("table_with") || table.ends_with("_deletes") {
                true => "l_orderkey, l_linenumber, l_comment",
                false => "*",
            };
        let has = session.query(&format!("SELECT {columns} FROM {table} LIMIT 0")).await.is_ok();
        let columns = if has { columns } else { "*" };
        for snapshot in metadata["snapshots"].as_array().into_iter().flatten() {
            let id = &snapshot["snapshot-id"];
            let summary = &snapshot["summary"];
            if summary["total-delete-files"] == "0" {
                let counted = lines(&session, &format!("SELECT count(*) FROM {table} VERSION AS OF {id}")).await;
                assert_eq!(Some(counted[0].as_str()), summary["total-records"].as_str(), "{table} {id}");
            }
            // Rows are compared in one schema: the table's.
            let now = |version: &Value| format!("SELECT * FROM table_changes('{table}', NULL, {version})");
            let _ = now;
            let Some(parent) = snapshot.get("parent-snapshot-id").filter(|parent| parent.is_i64()) else { continue };
            let schema = |id: &Value| {
                let all = metadata["snapshots"].as_array().unwrap();
                all.iter().find(|snapshot| snapshot["snapshot-id"] == *id).map(|snapshot| snapshot["schema-id"].clone())
            };
            let current = &metadata["current-schema-id"];
            if schema(parent).as_ref() != Some(current) || schema(id).as_ref() != Some(current) {
                continue;
            }
            let changes = match columns {
                "*" => "* EXCLUDE (_change_type, _change_ordinal, _commit_snapshot_id)",
                named => named,
            };
            let of = |kind: &str| {
                format!("SELECT {changes} FROM table_changes('{table}', {parent}, {id}) WHERE _change_type = '{kind}'")
            };
            let (inserted, deleted) = match session.query(&of("insert")).await {
                Ok(answer) => (daygrain_tests::oracle::lines(&answer.batches), lines(&session, &of("delete")).await),
                Err(error) if error.code() == Code::ChangesUnavailable => {
                    let deletes = summary.get("added-delete-files").or(summary.get("removed-delete-files"));
                    assert!(deletes.is_some(), "{table} {id}: {error}");
                    refusals += 1;
                    continue;
                }
                Err(error) => panic!("{table} {id}: {error}"),
            };
            deleting += usize::from(!deleted.is_empty());
            let mut expected =
                bag(lines(&session, &format!("SELECT {columns} FROM {table} VERSION AS OF {parent}")).await);
            inserted.into_iter().for_each(|line| *expected.entry(line).or_default() += 1);
            deleted.into_iter().for_each(|line| *expected.entry(line).or_default() -= 1);
            expected.retain(|_, count| *count != 0);
            let found = bag(lines(&session, &format!("SELECT {columns} FROM {table} VERSION AS OF {id}")).await);
            assert!(expected == found, "{table}: the changes of {id} don't lead to it");
            steps += 1;
        }
    }
    println!("{steps} steps compared, {deleting} of them delete; {refusals} are refused");
    assert!(steps > 20 && deleting > 3 && refusals > 3);
}

/// Spark keeps ids when it rewrites rows, and numbers those of an upgraded table when they are first rewritten.
#[tokio::test]
async fn rows_keep_their_ids() {
    let Some(root) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory);
    let lineage = [
        ("row_lineage_test", ["1|0|5", "2|1|2", "4|3|2", "6|13|5", "7|20|7"]),
        ("row_lineage_test_upgraded_insert", ["1|3|5", "2|0|8", "4|7|2", "6|1|8", "7|2|7"]),
    ];
    for (table, expected) in lineage {
        let path = tables(&root).into_iter().find(|(name, _)| name == table).unwrap().1;
        open(&session, table, &path).await;
        let all = format!("SELECT id, _row_id, _last_updated_sequence_number FROM {table}");
        assert_eq!(lines(&session, &all).await, expected, "{table}");
    }
    // Versions before 3 have no lineage.
    let path = tables(&root).into_iter().find(|(name, _)| name == "quickstart_table").unwrap().1;
    open(&session, "q", &path).await;
    assert_eq!(lines(&session, "SELECT count(*), count(_row_id) FROM q").await, ["3|0"]);
}

/// Each file says which spec wrote it; the tuple holds the fields of all specs.
#[tokio::test]
async fn partitions_are_of_all_specs() {
    let Some(root) = shared() else { return };
    let directory = tempfile::tempdir().unwrap();
    let session = session(&directory);
    let path = tables(&root).into_iter().find(|(name, _)| name == "spark_mor_delete_partition_evolution").unwrap().1;
    open(&session, "e", &path).await;
    assert_eq!(
        lines(&session, "SELECT id, _spec_id, _partition, _pos FROM e").await,
        ["1|0|{ts_hour: ∅, ts_day: 2021-05-01}|0", "3|1|{ts_hour: 450731, ts_day: ∅}|0"]
    );
}
