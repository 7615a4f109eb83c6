//! What isn't there yet is refused by name, never half done.

use daygrain_tests::shell::Shell;

use crate::{one, with_events};

#[test]
fn statements_that_are_not_there_yet() {
    let shell = with_events();
    let before = shell.listing(".");
    for (sql, name) in [
        ("create table t (a int)", "CREATE TABLE"),
        ("create table t as select 1 as a", "CREATE TABLE AS"),
        ("create table if not exists t (a int) partitioned by (days(ts))", ""),
        ("delete from events", "DELETE"),
        ("delete from events where n = 1", "DELETE"),
        ("update events set n = 1", "UPDATE"),
        ("merge into events using events s on events.n = s.n when matched then delete", "MERGE INTO"),
        ("truncate table events", "TRUNCATE"),
        ("alter table events add column z int", "ALTER TABLE"),
        ("alter table events rename to other", "ALTER TABLE"),
        ("call system.rewrite_data_files('events')", "CALL"),
        ("insert overwrite events select * from events", "INSERT OVERWRITE"),
        ("explain delete from events", "DELETE"),
        ("explain analyze delete from events", "DELETE"),
        ("explain pruning delete from events", "EXPLAIN PRUNING"),
        ("create database d", "CREATE DATABASE"),
        ("create index i on events (n)", "CREATE INDEX"),
        ("begin", "a transaction"),
        ("drop function f", "DROP FUNCTION"),
        ("drop function if exists f", "DROP FUNCTION"),
        ("create function f(int) returns int return $1 + 1", "CREATE FUNCTION"),
        ("create macro m(a) as a", "CREATE MACRO"),
        ("create schema authorization foo", "CREATE SCHEMA"),
        ("drop trigger g on events", "DROP TRIGGER"),
        ("drop index i", "DROP INDEX"),
        ("alter type x rename to y", "ALTER TYPE"),
        ("analyze events", "ANALYZE"),
        ("vacuum events", "VACUUM"),
        ("optimize table events", "OPTIMIZE"),
        ("grant select on events to u", "GRANT"),
        ("revoke select on events from u", "REVOKE"),
        ("comment on table events is 'x'", "COMMENT"),
        ("use main", "USE"),
        ("show databases", "SHOW DATABASES"),
        ("set time zone 'UTC'", "SET TIME ZONE"),
        ("savepoint s", "SAVEPOINT"),
        ("kill 1", "KILL"),
        ("select * into copy from events", "SELECT INTO"),
        ("select * from events tablesample (10 percent)", "TABLESAMPLE"),
        ("insert into events select * from events returning n", "INSERT RETURNING"),
        ("insert or replace into events select * from events", "INSERT OR"),
        ("prepare p as delete from events", "DELETE"),
        ("explain analyze drop table events", "EXPLAIN ANALYZE DROP TABLE"),
    ] {
        let ran = shell.run(["-c", sql]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert_eq!(ran.stdout, "", "{ran}");
        if !name.is_empty() {
            assert!(ran.failed("not_supported").starts_with(&format!("error[not_supported]: {name}")), "{ran}");
        }
    }
    assert_eq!(shell.listing("."), before);
    assert_eq!(one(&shell, "select count(*) from events"), "5");
}

#[test]
fn maintain_is_refused_as_wrong_usage() {
    let shell = with_events();
    let before = shell.listing(".");
    for arguments in [
        &["maintain", "events"][..],
        &["maintain", "events", "--compact", "--compact-file-count", "2", "--compact-max-bytes", "1g"],
        &["maintain", "events", "--expire", "--older-than", "1d", "--keep-last", "1"],
        &["maintain", "events", "--orphans", "--older-than", "1d", "--dry-run"],
        &["maintain", "--manifests", "events"],
        &["-c", "insert into events select * from events", "maintain", "events"],
    ] {
        let ran = shell.run(arguments);
        assert!(ran.refused(2, "not_supported").contains("maintain"), "{ran}");
        assert_eq!(ran.stdout, "", "{ran}");
    }
    assert_eq!(shell.listing("."), before);
}

#[test]
fn an_external_table_of_the_engine_is_no_way_around() {
    let shell = Shell::new();
    shell.sql("create external table main.t (a int) stored as parquet location 'out/'; insert into t values (1)").ok();
    assert!(!shell.path("warehouse").exists());
    assert!(shell.tsv("show tables").lines().is_empty(), "it belongs to the session that made it");
}
