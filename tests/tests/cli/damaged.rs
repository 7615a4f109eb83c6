//! Disks and metadata that are not as they should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use daygrain_tests::shell::Shell;

use crate::{EVENTS, one, with_events};

/// A file system of its own, for as long as this value lives.
struct Mounted(PathBuf);

impl Mounted {
    /// None, loudly, where this user can't mount.
    fn tmpfs(at: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir_all(&at).expect("a new directory");
        let run = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output();
        if run.is_ok_and(|run| run.status.success()) {
            return Some(Mounted(at));
        }
        println!("skipped: only root can mount a small file system");
        None
    }

    fn remount(&self, options: &str) {
        let run = Command::new("mount").arg("-o").arg(format!("remount,{options}")).arg(&self.0).status();
        assert!(run.expect("mount runs").success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const EXPORT: [&str; 5] = ["export", "events", "events.csv", "--primary-timestamp", "ts"];

#[test]
fn a_full_disk() {
    let shell = Shell::new();
    let Some(_mounted) = Mounted::tmpfs(shell.path("warehouse"), "size=512k") else { return };
    shell.file("events.csv", EVENTS);
    shell.run(EXPORT).ok();
    let before = shell.listing("warehouse");
    let big = "insert into events select to_timestamp(1780000000 + value * 20), md5(cast(value as text)), value
               from range(0, 40000)";
    let ran = shell.run(["-c", big]);
    let error = ran.failed("storage_full");
    assert!(error.contains("\n  "), "{ran}");
    assert_eq!(shell.listing("warehouse"), before, "what a failed write had written is removed");
    assert_eq!(one(&shell, "select count(*) from events"), "5");
    shell.run(EXPORT).ok();
    assert_eq!(one(&shell, "select count(*) from events"), "10");

    // Not even room for metadata.
    let filler = shell.path("warehouse/filler");
    let _ = fs::write(&filler, vec![0; 1 << 20]);
    let before = shell.listing("warehouse");
    shell.run(EXPORT).failed("storage_full");
    assert_eq!(shell.listing("warehouse"), before);
    assert_eq!(one(&shell, "select count(*) from events"), "10");
    fs::remove_file(filler).unwrap();
    shell.run(EXPORT).ok();
    assert_eq!(one(&shell, "select count(*) from events"), "15");
}

#[test]
fn a_warehouse_that_cannot_be_written() {
    let shell = Shell::new();
    let Some(mounted) = Mounted::tmpfs(shell.path("warehouse"), "size=4m") else { return };
    shell.file("events.csv", EVENTS);
    shell.run(EXPORT).ok();
    mounted.remount("ro");
    let before = shell.listing("warehouse");
    for arguments in [
        &EXPORT[..],
        &["-c", "insert into events select * from events"],
        &["export", "fresh", "events.csv"],
        &["-c", "create schema s"],
        &["-c", "drop table events"],
    ] {
        shell.run(arguments).failed("permission_denied");
    }
    assert_eq!(shell.listing("warehouse"), before);
    assert_eq!(one(&shell, "select count(*) from events"), "5");
    mounted.remount("rw");
    shell.run(EXPORT).ok();
}

#[test]
fn a_file_in_the_way() {
    let shell = Shell::new();
    shell.file("events.csv", EVENTS);
    for place in ["warehouse", "warehouse/main", "warehouse/main/events"] {
        let file = shell.file(place, "in the way");
        for arguments in [&EXPORT[..], &["--format", "csv", "-c", "create schema s", "-c", "select 1"]] {
            let ran = shell.run(arguments);
            if arguments == EXPORT || place == "warehouse" {
                assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran}");
                assert!(ran.stderr.starts_with("error[") && !ran.stderr.contains("error[internal]"), "{ran}");
            }
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
        fs::remove_file(file).unwrap();
        let _ = fs::remove_dir_all(shell.path("warehouse"));
    }
}

fn metadata(shell: &Shell) -> PathBuf {
    shell.path("warehouse/main/events/metadata/v1.metadata.json")
}

#[track_caller]
fn unreadable(shell: &Shell, code: &str, facts: &str) {
    let before = shell.listing("warehouse");
    for arguments in [
        &["-c", "select * from events"][..],
        &["-c", "select count(*) from events"],
        &["-c", "describe events"],
        &["-c", "insert into events select null, 'a', 1"],
        &["export", "events", "events.csv"],
    ] {
        let ran = shell.run(arguments);
        assert!(ran.failed(code).contains(facts), "{ran}");
        assert_eq!(ran.stdout, "", "{ran}");
    }
    assert_eq!(shell.listing("warehouse"), before);
}

#[test]
fn metadata_that_is_cut_or_empty_or_nonsense() {
    let shell = with_events();
    let whole = fs::read(metadata(&shell)).unwrap();
    for damaged in [&whole[..whole.len() / 2], &whole[..whole.len() - 1], b"", b"{}", b"nonsense", b"\0\0\0\0"] {
        fs::write(metadata(&shell), damaged).unwrap();
        unreadable(&shell, "metadata_corrupt", "v1.metadata.json");
        let declared = "create external table x stored as iceberg location 'warehouse/main/events'";
        assert!(shell.sql(declared).failed("metadata_corrupt").contains("v1.metadata.json"));
    }
    fs::write(metadata(&shell), &whole).unwrap();
    assert_eq!(one(&shell, "select count(*) from events"), "5");
}

#[test]
fn metadata_from_the_future() {
    let shell = with_events();
    let text = fs::read_to_string(metadata(&shell)).unwrap();
    for version in ["4", "99"] {
        let newer = text.replace("\"format-version\":3", &format!("\"format-version\":{version}"));
        let newer = newer.replace("\"format-version\": 3", &format!("\"format-version\": {version}"));
        assert_ne!(newer, text);
        fs::write(metadata(&shell), newer).unwrap();
        unreadable(&shell, "metadata_version_unsupported", version);
    }
}

#[test]
fn a_newest_version_that_is_damaged_is_not_passed_over() {
    let shell = with_events();
    fs::write(metadata(&shell).with_file_name("v2.metadata.json"), "").unwrap();
    let ran = shell.sql("select count(*) from events");
    assert!(ran.failed("metadata_corrupt").contains("v2.metadata.json"), "{ran}");
    let ran = shell.run(["export", "events", "events.csv"]);
    ran.failed("metadata_corrupt");
}

#[test]
fn one_damaged_table_leaves_the_others_alone() {
    let shell = with_events();
    shell.run(["export", "other", "events.csv"]).ok();
    fs::write(metadata(&shell), "nonsense").unwrap();
    assert_eq!(one(&shell, "select count(*) from other"), "5");
    assert_eq!(shell.tsv("show tables").lines().len(), 2);
    let left_out = "note: left out: events, metadata_corrupt: ";
    for (sql, rows) in [
        ("show columns from other", 3),
        ("select table_name from information_schema.tables where table_schema = 'main'", 1),
        ("select column_name from information_schema.columns where table_schema = 'main'", 3),
    ] {
        let ran = shell.tsv(sql);
        assert_eq!(ran.lines().len(), rows, "{ran}");
        assert!(ran.stderr.starts_with(left_out) && ran.stderr.lines().count() == 1, "{ran}");
    }
    shell.sql("show columns from events").failed("metadata_corrupt");
    shell.sql("select * from events, information_schema.tables").failed("metadata_corrupt");
    shell.sql("drop table events").ok();
    assert_eq!(shell.tsv("show tables").lines().len(), 1);
}

fn find(root: &Path, with: impl Fn(&str) -> bool) -> PathBuf {
    let mut names: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.into_iter().find(|path| with(path.file_name().unwrap().to_str().unwrap())).expect("such a file")
}

#[test]
fn manifests_and_data_files_that_are_damaged_or_gone() {
    let shell = with_events();
    let table = shell.path("warehouse/main/events");
    let list = find(&table.join("metadata"), |name| name.starts_with("snap-"));
    let manifest = find(&table.join("metadata"), |name| name.ends_with("-m0.avro"));
    let data = find(&table.join("data/ts_day=2026-06-04"), |name| name.ends_with(".parquet"));
    for (file, code) in [(list, "manifest_corrupt"), (manifest, "manifest_corrupt"), (data, "data_file_corrupt")] {
        let whole = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        for damaged in [&whole[..whole.len() / 2], &whole[..1], b""] {
            fs::write(&file, damaged).unwrap();
            let ran = shell.sql("select * from events where ts < '2026-06-05'");
            assert!(ran.failed(code).contains(name), "{ran}");
        }
        fs::remove_file(&file).unwrap();
        let ran = shell.sql("select * from events where ts < '2026-06-05'");
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.starts_with("error[") && ran.stderr.contains(name), "{ran}");
        if code == "data_file_corrupt" {
            // What isn't read isn't missed.
            assert_eq!(one(&shell, "select count(*) from events where ts >= '2026-06-05'"), "2");
        }
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(one(&shell, "select count(*) from events where n > 0"), "5");
}
