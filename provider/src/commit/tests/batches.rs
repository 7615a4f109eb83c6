//! When does a batch land once?

use super::*;

fn with_batch(mut change: Append, id: &str) -> Append {
    change.batch_id = Some(id.to_owned());
    change
}

#[tokio::test]
async fn a_batch_lands_once_also_after_expiry() {
    let world = World::new(FormatVersion::V3, &[]);
    let (base, id) = committed(world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await);
    assert_eq!(find_batch(&base.metadata, "b1"), Some(Landed { snapshot_id: id }));
    assert_eq!(summary(&base.metadata)[BATCH_ID], "b1");

    let again = world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await;
    assert!(matches!(again, Published::AlreadyThere { snapshot_id } if snapshot_id == id), "{again:?}");
    committed(world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b2")).await);

    let expire = |metadata: &TableMetadata| {
        metadata.clone().into_builder(None).remove_snapshots(&[id.unwrap()]).build().unwrap().metadata
    };
    world.catalog.replace(expire);
    let again = world.publish(with_batch(world.change(vec![world.file(1, 1)]), "b1")).await;
    assert!(matches!(again, Published::AlreadyThere { snapshot_id: None }), "{again:?}");
    assert_eq!(world.catalog.current().metadata.snapshots().len(), 1);
}

#[tokio::test]
async fn the_same_batch_twice_at_once_lands_once() {
    for created in [false, true] {
        let world = World::new(FormatVersion::V3, &[]);
        if created {
            world.append(vec![world.file(0, 1)]).await;
        }
        let mut changes = Vec::new();
        for _ in 0..3 {
            let files = vec![world.file(1, 10)];
            world.store_data(&files).await;
            changes.push(world.publish(with_batch(world.change(files), "b")));
        }
        let all = futures::future::join_all(changes).await;
        let there = all.iter().filter(|published| matches!(published, Published::AlreadyThere { .. })).count();
        let landed = all.iter().filter(|published| matches!(published, Published::Committed { .. })).count();
        assert_eq!((landed, there), (1, 2), "{all:?}");
        let metadata = world.catalog.current().metadata;
        let live = world.live(&metadata, metadata.current_snapshot_id()).await;
        assert_eq!(live.iter().filter(|entry| entry.file.record_count() == 10).count(), 1);
        assert_eq!(world.stored(".parquet").await, 1, "files of the others are gone");
    }
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_keeps_its_files_when_it_is_repeated() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    let files = vec![world.file(2, 1)];
    world.store_data(&files).await;
    world.catalog.fates.lock().push_back(Fate::Unknown { landed: true });
    let change = with_batch(world.change(files), "b");
    assert!(matches!(world.publish(change.clone()).await, Published::Unknown { .. }));
    assert!(matches!(world.publish(change).await, Published::AlreadyThere { snapshot_id: Some(_) }));
    assert_eq!(world.stored(".parquet").await, 1);
}
