//! What the shell promises to scripts and to people, checked on the program itself.

use daygrain_tests::shell::Shell;

#[test]
fn smoke() {
    let shell = Shell::new();
    shell.file("in.csv", "ts,n\n2026-06-04T12:00:00Z,1\n");
    shell.run(["export", "events", "in.csv", "--primary-timestamp", "ts"]).ok();
    assert_eq!(shell.sql("select n from events").rows()[0]["n"], 1);
    shell.sql("select nothing").failed("unknown_column");
}
