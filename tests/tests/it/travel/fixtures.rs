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

/// All tables: name, and newest metadata file of which it is known what it holds.
fn tables(root: &Path) -> Vec<(String, PathBuf)> {
    let read = |set: &str| -> BTreeMap<String, Value> {
        let text = std::fs::read_to_string(root.join(set).join("expected.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let spark = read("spark").into_iter().map(|(table, says)| {
        let path = root.join("spark").join(&table).join(says["metadata"].as_str().unwrap());
        (table, path)
    });
    let others = read("others").into_iter().filter_map(|(table, versions)| {
        let readable = |(file, says): &(&String, &Value)| says.get("rows").is_some() && file.ends_with(".json");
        let newest = versions.as_object().unwrap().iter().filter(readable).map(|(file, _)| file).max()?;
        Some((table.clone(), root.join("others").join(&table).join(newest)))
    });
    spark.chain(others).collect()
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
    let (mut steps, mut deleting, mut by_delete_files, mut damaged) = (0, 0, 0, 0);
    for (table, path) in tables(&root) {
        let Ok(metadata) = serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()) else { continue };
        open(&session, &table, &path).await;
        let snapshots = metadata["snapshots"].as_array().cloned().unwrap_or_default();
        let has_the_columns = |id: &Value| {
            let snapshot = snapshots.iter().find(|snapshot| snapshot["snapshot-id"] == *id);
            snapshot.is_some_and(|snapshot| snapshot["schema-id"] == metadata["current-schema-id"])
        };
        // What tells the rows of the widest and longest tables apart.
        let keys = "l_orderkey, l_linenumber, l_comment";
        let wide =
            lines(&session, &format!("DESCRIBE {table}")).await.iter().any(|line| line.starts_with("l_linenumber"));
        let (columns, of_changes) = match wide {
            true => (keys, keys),
            false => ("*", "* EXCLUDE (_change_type, _change_ordinal, _commit_snapshot_id)"),
        };
        for snapshot in &snapshots {
            let (id, summary) = (&snapshot["snapshot-id"], &snapshot["summary"]);
            if summary["total-delete-files"] == "0" {
                let counted = lines(&session, &format!("SELECT count(*) FROM {table} VERSION AS OF {id}")).await;
                assert_eq!(Some(counted[0].as_str()), summary["total-records"].as_str(), "{table} {id}");
            }
            let Some(parent) = snapshot.get("parent-snapshot-id").filter(|parent| parent.is_i64()) else { continue };
            if !(has_the_columns(parent) && has_the_columns(id)) {
                continue;
            }
            let changes = |kind: &str| {
                format!(
                    "SELECT {of_changes} FROM table_changes('{table}', {parent}, {id}) WHERE _change_type = '{kind}'"
                )
            };
            let inserted = match session.query(&changes("insert")).await {
                Ok(answer) => daygrain_tests::oracle::lines(&answer.batches),
                // One has lost the list of a snapshot in its middle.
                Err(error) if error.code() == Code::ManifestCorrupt && table == "equality_deletes_mytable" => {
                    damaged += 1;
                    continue;
                }
                Err(error) => panic!("{table} {id}: {error}"),
            };
            let deleted = lines(&session, &changes("delete")).await;
            let added = |what: &str| summary.get(what).is_some_and(|count| count != "0");
            deleting += usize::from(!deleted.is_empty());
            by_delete_files += usize::from(!deleted.is_empty() && added("added-delete-files"));
            let version = |id: &Value| format!("SELECT {columns} FROM {table} VERSION AS OF {id}");
            let mut expected = bag(lines(&session, &version(parent)).await);
            inserted.into_iter().for_each(|line| *expected.entry(line).or_default() += 1);
            deleted.into_iter().for_each(|line| *expected.entry(line).or_default() -= 1);
            expected.retain(|_, count| *count != 0);
            let found = bag(lines(&session, &version(id)).await);
            assert!(expected == found, "{table}: the changes of {id} don't lead to it");
            steps += 1;
        }
    }
    println!("{steps} steps compared, {deleting} of them delete, {by_delete_files} by delete files");
    assert!(steps > 50 && deleting > 20 && by_delete_files > 15 && damaged == 2);
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
