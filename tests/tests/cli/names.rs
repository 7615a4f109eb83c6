//! Names of tables, schemas and columns, and the statements about them.

use daygrain_tests::shell::Shell;

use crate::{EVENTS, one, with_events};

#[test]
fn one_table_has_three_names() {
    let shell = with_events();
    for name in
        ["events", "main.events", "daygrain.main.events", "EVENTS", "Main.Events", "\"events\"", "\"main\".events"]
    {
        assert_eq!(one(&shell, &format!("select count(*) from {name}")), "5", "{name}");
    }
    assert!(shell.path("warehouse/main/events/metadata").is_dir());
    for name in ["\"Events\"", "\"EVENTS\"", "other.events", "main.event"] {
        shell.sql(&format!("select * from {name}")).failed("unknown_table");
    }
    shell.sql("select \"N\" from events").failed("unknown_column");
    assert_eq!(shell.tsv("select N, SID as \"SID\" from Events where N = 1").ok(), "n\tSID\n1\ta\n");
}

#[test]
fn unquoted_names_match_as_typed_first() {
    let shell = Shell::new();
    shell.file("in.ndjson", "{\"Name\":\"upper\",\"name\":\"lower\",\"Only\":1}\n");
    for table in ["Events", "events", "Single"] {
        shell.run(["export", "d", "in.ndjson", "--table", table]).ok();
    }
    assert_eq!(one(&shell, "select Name || name || only from Events"), "upperlower1");
    assert_eq!(one(&shell, "select count(*) from single"), "1");
    shell.sql("select NAME from Events").failed("ambiguous_name");
    shell.sql("select * from EVENTS").failed("ambiguous_name");
    let ran = shell.tsv("show tables");
    assert_eq!(ran.lines(), ["Events", "Single", "events"].map(|name| format!("daygrain\tmain\t{name}\tBASE TABLE")));
}

#[test]
fn names_in_flags_are_taken_to_the_letter() {
    let shell = Shell::new();
    shell.file("in.csv", "Ts,session id,a.b\n2026-06-04T12:00:00Z,x,1\n");
    let with = |timestamp: &str, lookup: &str| {
        shell.run(["export", "d", "in.csv", "--primary-timestamp", timestamp, "--lookup", lookup])
    };
    for (timestamp, lookup) in
        [("ts", "session id"), ("Ts", "Session id"), ("Ts", "session id, a.b"), ("\"Ts\"", "a.b")]
    {
        with(timestamp, lookup).failed("unknown_column");
        assert!(!shell.path("warehouse").exists(), "{timestamp} {lookup}");
    }
    let error = with("ts", "a.b");
    assert!(error.stderr.contains("did you mean Ts?"), "{error}");
    with("Ts", "session id,a.b").ok();
    assert_eq!(one(&shell, "select \"session id\" || \"a.b\" from d"), "x1");
    // A table that is named in a flag, too.
    shell.sql("create schema Logs").ok();
    shell.run(["export", "d", "in.csv", "--table", "logs.D"]).failed("unknown_namespace");
    shell.run(["export", "d", "in.csv", "--table", "daygrain.Logs.D"]).ok();
    assert!(shell.path("warehouse/Logs/D/metadata").is_dir());
    assert_eq!(one(&shell, "select count(*) from logs.d"), "1");
}

#[test]
fn schemas_are_made_shown_and_dropped() {
    let shell = with_events();
    assert_eq!(shell.sql("create schema logs").ok(), "");
    shell.sql("create schema logs").failed("already_exists");
    shell.sql("create schema if not exists logs").ok();
    assert_eq!(shell.tsv("show schemas").ok(), "schema_name\nlogs\nmain\n");
    shell.run(["export", "events", "events.csv", "--table", "logs.events"]).ok();
    assert_eq!(
        shell.tsv("show tables").ok(),
        "table_catalog\ttable_schema\ttable_name\ttable_type\n\
         daygrain\tlogs\tevents\tBASE TABLE\ndaygrain\tmain\tevents\tBASE TABLE\n"
    );
    shell.sql("drop schema logs").failed("namespace_not_empty");
    shell.sql("drop table logs.events purge; drop schema logs").ok();
    assert_eq!(shell.tsv("show schemas").lines(), ["main"]);
    shell.sql("drop schema if exists logs").ok();
}

#[test]
fn the_schema_that_describes_the_catalog_holds_nothing_of_ours() {
    let shell = with_events();
    let before = shell.listing("warehouse");
    for schema in ["information_schema", "INFORMATION_SCHEMA", "\"Information_Schema\"", "information_schema.logs"] {
        shell.sql(&format!("create schema {schema}")).failed("invalid_name");
        shell.sql(&format!("create schema if not exists {schema}")).failed("invalid_name");
        let table = format!("{}.t", schema.replace('"', ""));
        let ran = shell.run(["export", "events", "events.csv", "--table", &table]);
        assert!(ran.failed("invalid_name").contains("\n  help: "), "{ran}");
        let query = shell.run(["export", "new", "--query", "select 1 as a", "--table", &table]);
        query.failed("invalid_name");
        let place = shell.path("warehouse/main/events").display().to_string();
        shell
            .sql(&format!("create external table {schema}.t stored as iceberg location '{place}'"))
            .failed("invalid_name");
    }
    shell.sql("create view information_schema.v as select 1 as a").failed("invalid_name");
    assert_eq!(shell.listing("warehouse"), before);
}

#[test]
fn a_directory_named_like_the_description_of_the_catalog_breaks_no_listing() {
    for name in ["information_schema", "Information_Schema"] {
        let shell = with_events();
        std::fs::create_dir(shell.path("warehouse").join(name)).unwrap();
        let [from, to] = ["main/events", &format!("{name}/events")].map(|at| shell.path("warehouse").join(at));
        assert!(std::process::Command::new("cp").arg("-r").args([&from, &to]).status().unwrap().success());
        let mut schemas = [name, "main"];
        schemas.sort_unstable();
        assert_eq!(shell.tsv("show schemas").lines(), schemas);
        assert_eq!(shell.tsv("show tables").lines().len(), 2);
        let listed = "select table_name from information_schema.tables where table_schema = 'main'";
        assert_eq!(one(&shell, listed), "events");
        assert_eq!(one(&shell, "select count(*) from events"), "5");
        shell.sql(&format!("drop table \"{name}\".events purge")).ok();
        assert_eq!(shell.tsv("show schemas").lines(), ["main"]);
    }
}

#[test]
fn describe_shows_the_business_schema() {
    let shell = with_events();
    assert_eq!(
        shell.tsv("describe events").ok(),
        "column_name\tdata_type\tis_nullable\nts\ttimestamptz\tYES\nsid\tstring\tYES\nn\tlong\tYES\n"
    );
    assert_eq!(shell.tsv("desc main.events").lines().len(), 3);
}

#[test]
fn a_dropped_table_keeps_its_data_files() {
    let shell = with_events();
    let files = |shell: &Shell| shell.listing("warehouse/main/events/data");
    let before = files(&shell);
    assert_eq!(before.len(), 4);
    let ran = shell.sql("drop table events");
    assert_eq!(ran.ok(), "");
    let place = shell.path("warehouse/main/events");
    assert!(
        ran.stderr.starts_with("note: dropped main.events") && ran.stderr.contains(place.to_str().unwrap()),
        "{ran}"
    );
    assert_eq!(files(&shell), before);
    shell.sql("select * from events").failed("unknown_table");
    assert!(shell.tsv("show tables").lines().is_empty());
    shell.sql("drop table events").failed("unknown_table");
    shell.sql("drop table if exists events").ok();
    // The name is free again, also for another layout, and what is left behind is no part of the new table.
    shell.run(["export", "events", "events.csv"]).ok();
    assert_eq!(one(&shell, "select count(*) from events"), "5");
}

#[test]
fn purge_deletes_the_files() {
    let shell = with_events();
    shell.run(["export", "other", "events.csv"]).ok();
    let others = shell.listing("warehouse/main/other");
    let ran = shell.sql("drop table events purge");
    assert_eq!(ran.ok(), "");
    assert_eq!(shell.listing("warehouse/main/events"), []);
    assert_eq!(shell.listing("warehouse/main/other"), others);
}

#[test]
fn a_statement_reads_each_table_once() {
    let shell = with_events();
    // What an INSERT reads from its own table is the snapshot it began with.
    assert_eq!(shell.tsv("insert into events select * from events union all select * from events").lines(), ["10"]);
    assert_eq!(one(&shell, "select count(*) from events"), "15");
}

#[test]
fn insert_prints_how_many_rows() {
    let shell = with_events();
    assert_eq!(
        shell.sql("insert into events values ('2026-06-07T00:00:00Z', 'c', 9), (null, null, null)").ok(),
        "{\"count\":2}\n"
    );
    assert_eq!(shell.sql("insert into events (n) select n from events where false").ok(), "{\"count\":0}\n");
    assert_eq!(
        shell.sql("insert into events (n, ts) values (10, timestamp '2026-06-07 10:00:00')").ok(),
        "{\"count\":1}\n"
    );
    assert_eq!(
        shell.tsv("select ts, sid, n from events where n >= 9 order by n").lines(),
        ["2026-06-07T00:00:00Z\tc\t9", "2026-06-07T10:00:00Z\t\\N\t10"]
    );
    shell.sql("insert into events (n, nothing) values (1, 2)").failed("unknown_column");
    assert_eq!(one(&shell, "select count(*) from events"), "8");
    assert!(shell.path("warehouse/main/events/data/ts_day=2026-06-07").is_dir());
}

#[test]
fn strings_of_every_kind_come_back() {
    let shell = Shell::new();
    let strings = [
        "",
        " ",
        "\0",
        "a\0b",
        "😀 é 日本",
        "../../x",
        "a/b",
        "100%",
        "%2F",
        "..",
        "\u{202e}x",
        "\r\n\t",
        "\\N",
        "NULL",
        "'\"",
    ];
    let rows: String = strings
        .iter()
        .enumerate()
        .map(|(at, text)| serde_json::json!({"ts": "2026-06-04T12:00:00Z", "s": text, "at": at}).to_string() + "\n")
        .collect();
    shell.file("in.ndjson", rows);
    shell.run(["export", "d", "in.ndjson", "--primary-timestamp", "ts", "--lookup", "s"]).ok();
    let back = shell.sql("select s from d order by at").rows();
    assert_eq!(back.iter().map(|row| row["s"].as_str().unwrap()).collect::<Vec<_>>(), strings);
    for (at, text) in strings.iter().enumerate().filter(|(_, text)| !text.contains('\0')) {
        let quoted = text.replace('\'', "''");
        assert_eq!(one(&shell, &format!("select at from d where s = '{quoted}'")), at.to_string(), "{text:?}");
    }
    assert_eq!(one(&shell, "select at from d where s = 'a' || chr(0) || 'b'"), "3");
    // Files and directories with such names.
    for name in ["a b.csv", "é😀.csv", "100%.csv", "[x].csv"] {
        shell.file(format!("dir/{name}"), EVENTS);
    }
    shell.run(["export", "files", "dir"]).ok();
    assert_eq!(one(&shell, "select count(*) from files"), "20");
    for name in ["a b.csv", "é😀.csv", "100%.csv"] {
        shell.run(["export", "files", &format!("dir/{name}")]).ok();
    }
    assert_eq!(one(&shell, "select count(*) from files"), "35");
    let mut spaced = shell.command(["-w", "ware house 😀%", "export", "d", "in.ndjson"]);
    assert!(spaced.output().unwrap().status.success());
    let ran = shell.run(["-w", "ware house 😀%", "--format", "ndjson", "-c", "select count(*) as n from d"]);
    assert_eq!(ran.rows()[0]["n"], 15);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let shell = Shell::new();
    shell.file("a.sql", b"select 1;\nselect '\xff';");
    assert!(shell.run(["-f", "a.sql"]).failed("invalid_value").contains("line 2"));
    shell.file("in.ndjson", b"{\"a\":\"x\"}\n{\"a\":\"\xff\"}\n");
    let ran = shell.run(["export", "d", "in.ndjson"]);
    assert!(ran.failed("input_corrupt").contains("\n  line: 2"), "{ran}");
    shell.file("in.csv", b"a\nx\n\xff\n");
    let ran = shell.run(["export", "d", "in.csv"]);
    assert!(ran.failed("input_corrupt").contains("\n  line: 3"), "{ran}");
    assert!(!shell.path("warehouse").exists());
}
