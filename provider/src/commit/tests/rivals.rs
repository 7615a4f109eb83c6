//! Rivals, lost answers and refusals: what lands?

use super::*;

#[tokio::test]
async fn concurrent_appends_all_land() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(20000, 1)]).await;
    let changes = (0..6).map(|n| world.publish(world.change(vec![world.file(20000 + n, 10)])));
    for published in futures::future::join_all(changes).await {
        committed(published);
    }
    let metadata = world.catalog.current().metadata;
    let mut ids: Vec<_> = world
        .live(&metadata, metadata.current_snapshot_id())
        .await
        .iter()
        .map(|e| (e.first_row_id.unwrap(), e.file.record_count()))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [(0, 1), (1, 10), (11, 10), (21, 10), (31, 10), (41, 10), (51, 10)]);
    // What the conflicts left was removed: one manifest and one list each that landed.
    assert_eq!(world.stored(".avro").await, 14);
}

#[tokio::test]
async fn two_first_appends_both_land_where_the_shape_is_the_same() {
    let world = World::new(FormatVersion::V3, &[]);
    let other = Arc::new(new_metadata(FormatVersion::V3, &[], "ts_day"));
    assert_ne!(other.uuid(), world.new.uuid());
    let first = world.change(vec![world.file(1, 1)]);
    let mut second = world.change(vec![world.file(2, 1)]);
    second.metadata = other;
    let (first, second) = futures::join!(world.publish(first), world.publish(second));
    committed(first);
    committed(second);
    assert_eq!(summary(&world.catalog.current().metadata)["total-data-files"], "2");

    let mut third = world.change(vec![world.file(2, 1)]);
    third.base = None;
    let renamed = Schema::builder().with_fields([field(1, "ts", PrimitiveType::Timestamptz)]).build().unwrap();
    let spec = UnboundPartitionSpec::default();
    let shape = TableMetadataBuilder::new(
        renamed,
        spec,
        SortOrder::unsorted_order(),
        "memory://test/t".to_owned(),
        FormatVersion::V3,
        HashMap::new(),
    );
    third.metadata = Arc::new(shape.unwrap().build().unwrap().metadata);
    assert_eq!(lost(world.publish(third).await).0.code(), Code::CommitConflict);
}

#[tokio::test]
async fn a_conflict_that_was_none_is_found_out() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::FalseConflict);
    let (base, id) = committed(world.publish(world.change(vec![world.file(2, 1)])).await);
    assert_eq!(base.version, 2);
    assert_eq!(base.metadata.current_snapshot_id(), id);
    assert_eq!(world.live(&base.metadata, id).await.len(), 2);
}

#[tokio::test]
async fn an_unknown_commit_keeps_everything() {
    for landed in [true, false] {
        let world = World::new(FormatVersion::V3, &[]);
        world.append(vec![world.file(1, 1)]).await;
        world.catalog.fates.lock().push_back(Fate::Unknown { landed });
        let files = vec![world.file(2, 1)];
        world.store_data(&files).await;
        let published = world.publish(world.change(files.clone())).await;
        let Published::Unknown { cause, left_behind } = published else { panic!("{published:?}") };
        assert_eq!(cause.code(), Code::CommitStateUnknown);
        assert_eq!(left_behind.len(), 3);
        assert!(left_behind.contains(&files[0].file_path().to_owned()));
        assert_eq!((world.stored(".avro").await, world.stored(".parquet").await), (4, 1));
    }
}

#[tokio::test]
async fn a_refused_commit_leaves_only_what_the_caller_may_reclaim() {
    let world = World::new(FormatVersion::V3, &[]);
    world.append(vec![world.file(1, 1)]).await;
    world.catalog.fates.lock().push_back(Fate::NotSent);
    let files = vec![world.file(2, 1), world.file(3, 1)];
    world.store_data(&files[..1]).await;
    let (cause, staged) = lost(world.publish(world.change(files)).await);
    assert_eq!(cause.code(), Code::StorageFailed);
    assert_eq!((world.stored(".avro").await, world.stored(".parquet").await), (2, 1));
    assert_eq!(staged.locations().len(), 2);
    // One of them was never stored: that is as good as deleted.
    assert_eq!(staged.reclaim(&world.committer.env).await.unwrap(), 2);
    assert_eq!(world.stored(".parquet").await, 0);
}

#[tokio::test]
async fn tries_are_bounded() {
    let world = World::new(FormatVersion::V3, &[("commit.retry.num-retries", "2")]);
    world.append(vec![world.file(1, 1)]).await;
    for _ in 0..5 {
        world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(TableMetadata::clone)));
    }
    let (cause, _) = lost(world.publish(world.change(vec![world.file(2, 1)])).await);
    assert_eq!(cause.code(), Code::CommitConflict);
    assert!(cause.context().contains(&("attempts", "3".to_owned())), "{cause}");
    assert_eq!(world.catalog.fates.lock().len(), 2);
    assert_eq!(world.stored(".avro").await, 2);
}

/// Two processes that share nothing but a directory.
#[tokio::test]
async fn rivals_in_a_directory_lose_nothing() {
    let warehouse = tempfile::tempdir().unwrap();
    let ident = Ident::new("main", "t");
    let rivals: Vec<Committer> = (0..2u64)
        .map(|seed| {
            let env = Env::deterministic(Stores::new(), seed);
            let catalog = FileCatalog::new(env.clone(), warehouse.path().to_str().unwrap()).unwrap();
            let catalog = Arc::new(catalog.with_backoff(Duration::from_millis(1)));
            Committer { catalog, manifests: Manifests::new(env.stores.clone(), 1 << 20), env }
        })
        .collect();
    let location = rivals[0].catalog.location(&ident).unwrap();
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "3")]);
    let new = TableMetadata::clone(&world.new).into_builder(None).set_location(location.clone());
    let new = Arc::new(new.build().unwrap().metadata);
    for round in 0..4u64 {
        let published = futures::future::join_all(rivals.iter().map(|committer| async {
            let base = committer.catalog.load(&ident).await.unwrap();
            let metadata = base.as_ref().map_or_else(|| Arc::clone(&new), |base| Arc::clone(&base.metadata));
            let files = vec![world.file(1, 10)];
            let (updates, summary) = (Vec::new(), BTreeMap::new());
            // Every second round both bring the same batch.
            let batch_id = (round % 2 == 1).then(|| format!("batch {round}"));
            append(committer, &ident, Append { base, metadata, updates, files, summary, batch_id }).await
        }));
        let published = published.await;
        let landed = published.iter().filter(|published| matches!(published, Published::Committed { .. })).count();
        assert_eq!(landed as u64, 2 - round % 2, "{published:?}");
    }
    let (newest, metadata) = crate::metadata::open(&rivals[0].env.stores, &location).await.unwrap();
    assert!(newest.ends_with("/v6.metadata.json"), "{newest}");
    let mut ids: Vec<_> = live(&rivals[1], &metadata, metadata.current_snapshot_id())
        .await
        .iter()
        .map(|entry| entry.first_row_id.unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 10, 20, 30, 40, 50]);
}
