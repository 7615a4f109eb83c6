//! `CREATE EXTERNAL TABLE`: files, and Iceberg tables of this and other warehouses.

use daygrain_tests::shell::Shell;

use crate::{EVENTS, one, with_events};

/// Runs a query after the declaration of a table.
fn lines(shell: &Shell, declared: &str, query: &str) -> Vec<String> {
    let ran = shell.tsv(&format!("{declared}; {query}"));
    ran.lines().into_iter().map(str::to_owned).collect()
}

#[test]
fn files_of_other_formats() {
    let shell = with_events();
    shell.file("in.ndjson", "{\"n\":1}\n{\"n\":2}\n");
    shell.sql("copy (select n from events) to 'out.parquet'").ok();
    for (declared, sum) in [
        ("create external table t stored as csv location 'events.csv' options ('format.has_header' 'true')", "15"),
        ("create external table t stored as json location 'in.ndjson'", "3"),
        ("create external table t stored as parquet location 'out.parquet'", "15"),
        ("create external table T stored as PARQUET location 'out.parquet'", "15"),
    ] {
        assert_eq!(lines(&shell, declared, "select sum(n) from t"), [sum], "{declared}");
        let ran = shell.sql(&format!("{declared}; drop table t; select * from t"));
        ran.failed("unknown_table");
    }
    assert!(shell.path("out.parquet").exists() && shell.path("events.csv").exists());
    // Beside the tables of the warehouse.
    let declared = "create external table e stored as csv location 'events.csv' options ('format.has_header' 'true')";
    assert_eq!(lines(&shell, declared, "select count(*) from e join events using (n)"), ["5"]);
    assert_eq!(lines(&shell, declared, "show tables").len(), 2);
    shell.sql(&declared.replace("table e ", "table events ")).failed("already_exists");
    assert_eq!(one(&shell, "select count(*) from events"), "5");
}

#[test]
fn iceberg_tables_by_directory_and_by_metadata_file() {
    let shell = with_events();
    let table = shell.path("warehouse/main/events");
    let table = table.to_str().unwrap();
    shell.sql("insert into events select * from events").ok();
    let at = |place: &str| format!("create external table x stored as iceberg location '{place}'");
    let count = "select count(*) from x";
    assert_eq!(lines(&shell, &at(table), count), ["10"]);
    assert_eq!(lines(&shell, &at(&format!("{table}/")), count), ["10"]);
    assert_eq!(lines(&shell, &at(&format!("file://{table}")), count), ["10"]);
    assert_eq!(lines(&shell, &at("warehouse/main/events"), count), ["10"]);
    assert_eq!(lines(&shell, &at(&format!("{table}/metadata/v2.metadata.json")), count), ["10"]);
    assert_eq!(lines(&shell, &at(&format!("{table}/metadata/v1.metadata.json")), count), ["5"]);

    // A directory is opened anew for each statement, and the table can't be written through it.
    let ran =
        shell.tsv(&format!("{}; insert into events values (null, 'x', 1); select count(*) as c from x", at(table)));
    assert_eq!(ran.lines().last(), Some(&"11"), "{ran}");
    shell.sql(&format!("{}; insert into x values (null, 'x', 1)", at(table))).failed("read_only");
    shell.sql(&format!("{}; explain insert into x values (null, 'x', 1)", at(table))).failed("read_only");
    let before = shell.listing("warehouse");
    shell.sql(&format!("{}; drop table x; select * from x", at(table))).failed("unknown_table");
    shell.sql(&format!("{}; drop table x purge", at(table))).ok();
    assert_eq!(shell.listing("warehouse"), before, "dropping an external table only forgets it");

    shell.sql(&at("nowhere")).failed("unknown_table");
    shell.sql(&format!("{} options ('nothing' 'true')", at(table))).failed("invalid_argument");
    shell.sql(&at(table).replace("table x ", "table x (a int) ")).failed("invalid_argument");
    shell.sql(&at(table).replace("table x ", "table events ")).failed("already_exists");
    shell.sql(&format!("{0}; {0}", at(table))).failed("already_exists");
    let again = at(table).replace("external table x", "external table if not exists x");
    assert_eq!(lines(&shell, &format!("{}; {again}", at(table)), count), ["11"]);
}

#[test]
fn a_moved_table_is_read_where_it_is_now() {
    let shell = with_events();
    std::fs::create_dir(shell.path("moved")).unwrap();
    std::fs::rename(shell.path("warehouse/main/events"), shell.path("moved/events")).unwrap();
    let at = "create external table t stored as iceberg location 'moved/events'";
    let pruned = "select sum(n) from t where ts >= '2026-06-05' and sid = 'b'";
    assert_eq!(lines(&shell, &format!("{at} options ('relocate' 'true')"), pruned), ["4"]);
    let newest = at.replace("moved/events", "moved/events/metadata/v1.metadata.json");
    assert_eq!(lines(&shell, &format!("{newest} options ('relocate' 'true')"), pruned), ["4"]);
    // What is read is what lies there, even where the old place holds a table again.
    shell.file("events.csv", EVENTS.replace("06-06T13:00:00Z,b,4", "06-06T13:00:00Z,b,40"));
    shell.run(["export", "events", "events.csv", "--primary-timestamp", "ts"]).ok();
    let ran = shell.tsv(&format!("{at} options ('relocate' 'true'); {pruned}; select sum(n) from events"));
    assert_eq!(ran.ok().lines().collect::<Vec<_>>(), ["sum(t.n)", "4", "sum(events.n)", "51"], "{ran}");
    shell.sql("drop table events purge").ok();
    let ran = shell.sql(&format!("{at}; {pruned}"));
    assert_eq!(ran.code, Some(1), "{ran}");
}
