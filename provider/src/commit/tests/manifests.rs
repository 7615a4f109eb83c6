//! Which manifests does an append write, merge and keep?

use super::*;
use crate::metadata::rebuild;

#[tokio::test]
async fn the_first_append_creates_the_table_with_its_snapshot() {
    let world = World::new(FormatVersion::V3, &[]);
    let mut change = world.change(vec![world.file(20000, 5), world.file(20001, 7)]);
    change.summary.insert("app".to_owned(), "test".to_owned());
    let (base, id) = committed(world.publish(change).await);
    assert_eq!((base.version, world.catalog.published.load(Ordering::Relaxed)), (1, 1));
    let proposal = world.catalog.proposals.lock().pop().unwrap();
    assert_eq!(proposal.requirements, [iceberg::TableRequirement::NotExist]);
    let snapshot = base.metadata.current_snapshot().unwrap();
    assert_eq!(Some(snapshot.snapshot_id()), id);
    assert_eq!((snapshot.row_range(), base.metadata.next_row_id()), (Some((0, 12)), 12));
    assert_eq!((snapshot.timestamp_ms(), snapshot.sequence_number()), (world.committer.env.clock.now_ms(), 1));
    let mut keys: Vec<_> = summary(&base.metadata).iter().map(|(k, v)| format!("{k}={v}")).collect();
    keys.sort();
    expect_test::expect![[r#"
        added-data-files=2
        added-files-size=120
        added-records=12
        app=test
        changed-partition-count=2
        engine-name=daygrain
        engine-version=0.1.0
        manifests-created=1
        manifests-kept=0
        manifests-replaced=0
        total-data-files=2
        total-delete-files=0
        total-equality-deletes=0
        total-files-size=120
        total-position-deletes=0
        total-records=12"#]]
    .assert_eq(&keys.join("\n"));
}

#[tokio::test]
async fn merged_manifests_keep_every_file_as_it_was() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "3")]);
    let mut rows = 0;
    for n in 1..=10u64 {
        let base = world.append(vec![world.file(20000, n), world.file(20001, 2)]).await;
        assert_eq!(base.metadata.current_snapshot().unwrap().row_range(), Some((rows, n + 2)));
        rows += n + 2;
        let manifests = world.committer.manifests.list(&base.metadata, base.metadata.current_snapshot_id()).await;
        assert!(manifests.unwrap().len() <= 3);
    }
    assert_eq!(summary(&world.catalog.current().metadata)["total-records"], rows.to_string());
    let replaced = |snapshot: &iceberg::spec::SnapshotRef| {
        snapshot.summary().additional_properties["manifests-replaced"].parse::<u64>().unwrap()
    };
    assert!(world.catalog.current().metadata.snapshots().any(|snapshot| replaced(snapshot) == 3));
}

#[tokio::test]
async fn manifests_of_more_rows_than_can_be_counted_stay_as_they_are() {
    for (liars, records) in [(2, i64::MAX as u64 - 1), (3, i64::MAX as u64), (3, 1 << 62)] {
        let world = World::new(FormatVersion::V2, &[("commit.manifest.min-count-to-merge", "2")]);
        world.append(vec![world.file(20000, 3)]).await;
        for _ in 0..liars {
            let lie = |file: &mut DataFileBuilder| {
                file.record_count(records);
            };
            world.append(vec![rebuild(&world.file(20000, 3), lie).unwrap()]).await;
        }
        let stored = world.stored(".avro").await;
        let base = world.append(vec![world.file(20001, 1)]).await;
        // A manifest of the new file, and a list.
        assert_eq!(world.stored(".avro").await, stored + 2);
        assert_eq!(summary(&base.metadata)["manifests-replaced"], "0");
        let live = world.live(&base.metadata, base.metadata.current_snapshot_id()).await;
        let mut counts: Vec<u64> = live.iter().map(|entry| entry.file.record_count()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [vec![1, 3], vec![records; liars]].concat());
    }
}

#[tokio::test]
async fn many_appends_keep_few_manifests() {
    let world = World::new(FormatVersion::V3, &[]);
    let mut most = 0;
    for n in 0..130 {
        let base = world.append(vec![world.file(20000 + n, 1)]).await;
        let manifests = &world.committer.manifests;
        most = most.max(manifests.list(&base.metadata, base.metadata.current_snapshot_id()).await.unwrap().len());
    }
    assert_eq!(most, 100);
    let metadata = world.catalog.current().metadata;
    assert_eq!(world.live(&metadata, metadata.current_snapshot_id()).await.len(), 130);
}

#[tokio::test]
async fn many_files_are_cut_into_several_manifests() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.target-size-bytes", "1000")]);
    let base = world.append((0..20).map(|day| world.file(20000 + day, 3)).collect()).await;
    let metadata = &base.metadata;
    let list = world.committer.manifests.list(metadata, metadata.current_snapshot_id()).await.unwrap();
    assert!(list.len() > 1 && list.len() < 20, "{}", list.len());
    let ids: Vec<_> =
        world.live(metadata, metadata.current_snapshot_id()).await.iter().map(|e| e.first_row_id.unwrap()).collect();
    assert_eq!(ids, (0..20).map(|i| i * 3).collect::<Vec<_>>());
}
