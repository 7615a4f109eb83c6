//! Snapshots, their retention, and the versions of the format.

use super::*;

#[tokio::test]
async fn changes_without_files_make_no_snapshot() {
    let world = World::new(FormatVersion::V3, &[]);
    let (base, id) = committed(world.publish(world.change(vec![])).await);
    assert_eq!((base.version, id, base.metadata.snapshots().len()), (1, None, 0));
    assert_eq!(base.metadata.last_updated_ms(), world.committer.env.clock.now_ms());

    let (base, _) = committed(world.publish(world.change(vec![])).await);
    assert_eq!(base.version, 1, "nothing to do is nothing done");

    let mut change = world.change(vec![]);
    change.updates = vec![TableUpdate::SetProperties { updates: HashMap::from([("a".to_owned(), "b".to_owned())]) }];
    let (base, id) = committed(world.publish(change).await);
    assert_eq!((base.version, id, base.metadata.properties()["a"].as_str()), (2, None, "b"));
    assert_eq!(base.metadata.last_updated_ms(), world.committer.env.clock.now_ms() + 1);

    let mut change = world.change(vec![]);
    change.base = None;
    assert_eq!(lost(world.publish(change).await).0.code(), Code::AlreadyExists);
    assert_eq!(world.stored(".avro").await, 0);
}

#[tokio::test]
async fn retention_of_main_survives() {
    let world = World::new(FormatVersion::V3, &[]);
    let base = world.append(vec![world.file(1, 1)]).await;
    let retention = SnapshotRetention::Branch {
        min_snapshots_to_keep: Some(5),
        max_snapshot_age_ms: Some(1000),
        max_ref_age_ms: None,
    };
    let id = base.metadata.current_snapshot_id().unwrap();
    world.catalog.replace(|metadata| {
        let builder = metadata.clone().into_builder(None);
        builder.set_ref("main", SnapshotReference::new(id, retention.clone())).unwrap().build().unwrap().metadata
    });
    world.append(vec![world.file(1, 1)]).await;
    let base = world.append(vec![world.file(1, 1)]).await;
    let json = serde_json::to_value(&*base.metadata).unwrap();
    assert_eq!(json["refs"]["main"]["min-snapshots-to-keep"], 5);
    assert_eq!(json["refs"]["main"]["max-snapshot-age-ms"], 1000);
}

#[tokio::test]
async fn older_format_versions_are_appended_to_and_merged() {
    for version in [FormatVersion::V1, FormatVersion::V2] {
        let world = World::new(version, &[("commit.manifest.min-count-to-merge", "2")]);
        for day in 0..5 {
            world.append(vec![world.file(day, 2)]).await;
        }
        let metadata = world.catalog.current().metadata;
        let live = world.live(&metadata, metadata.current_snapshot_id()).await;
        let mut found: Vec<_> = live.iter().map(|e| (e.sequence_number, e.first_row_id)).collect();
        found.sort_unstable();
        let sequence = |n: i64| if version == FormatVersion::V1 { 0 } else { n };
        assert_eq!(found, (1..=5).map(|n| (sequence(n), None)).collect::<Vec<_>>());
        assert_eq!(summary(&metadata)["total-records"], "10");
    }
}

#[tokio::test]
async fn an_upgraded_table_gives_every_row_an_id_once() {
    for min_count in ["100", "2"] {
        let world = World::new(FormatVersion::V1, &[("commit.manifest.min-count-to-merge", min_count)]);
        for rows in [3, 4, 5] {
            world.append(vec![world.file(1, rows)]).await;
        }
        let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V2 };
        world.catalog.replace(|metadata| evolve(metadata, vec![upgrade]));
        world.append(vec![world.file(1, 6)]).await;
        let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 };
        world.catalog.replace(|metadata| evolve(metadata, vec![upgrade]));
        let before = world.catalog.current().metadata;
        let base = world.append(vec![world.file(1, 7)]).await;
        assert_eq!(base.metadata.next_row_id(), 25);
        let spans = |live: Vec<Entry>| {
            let mut spans: Vec<_> =
                live.iter().map(|e| (e.first_row_id.unwrap(), e.file.record_count() as i64)).collect();
            spans.sort_unstable();
            spans
        };
        let first = world.live(&base.metadata, base.metadata.current_snapshot_id()).await;
        assert!(spans(first.clone()).windows(2).all(|w| w[0].0 + w[0].1 == w[1].0), "{:?}", spans(first.clone()));
        // The old snapshot shows none, and the next commit moves none.
        let old = world.live(&base.metadata, before.current_snapshot_id()).await;
        assert!(old.iter().all(|entry| entry.first_row_id.is_none()));
        let base = world.append(vec![world.file(1, 1)]).await;
        let second = world.live(&base.metadata, base.metadata.current_snapshot_id()).await;
        for entry in &first {
            let same = second.iter().find(|other| other.file.file_path() == entry.file.file_path()).unwrap();
            assert_eq!(same.first_row_id, entry.first_row_id);
        }
    }
}

#[tokio::test]
async fn delete_manifests_are_carried_as_they_are() {
    let world = World::new(FormatVersion::V2, &[("commit.manifest.min-count-to-merge", "2")]);
    let base = world.append(vec![world.file(1, 1)]).await;
    let io = world.committer.env.stores.file_io();
    let metadata = base.metadata;
    let spec = metadata.default_partition_spec();
    let path = "memory://test/t/metadata/deletes.avro";
    let schema = Arc::clone(metadata.current_schema());
    let builder = ManifestWriterBuilder::new(io.new_output(path).unwrap(), Some(99), schema, (**spec).clone());
    let mut writer = builder.build_v2_deletes();
    let delete = crate::metadata::rebuild(&world.file(1, 1), |file| {
        file.content(DataContentType::PositionDeletes);
    });
    writer.add_file(delete.unwrap(), -1).unwrap();
    let deletes = writer.write_manifest_file().await.unwrap();
    let list = "memory://test/t/metadata/list.avro";
    let out = io.new_output(list).unwrap().writer().await.unwrap();
    let mut writer = ManifestListWriter::v2(out, 99, metadata.current_snapshot_id(), 2);
    let data = world.committer.manifests.list(&metadata, metadata.current_snapshot_id()).await.unwrap();
    writer.add_manifests(data.iter().cloned().chain([deletes])).unwrap();
    writer.close().await.unwrap();
    let snapshot = iceberg::spec::Snapshot::builder()
        .with_snapshot_id(99)
        .with_parent_snapshot_id(metadata.current_snapshot_id())
        .with_sequence_number(2)
        .with_timestamp_ms(metadata.last_updated_ms() + 1)
        .with_manifest_list(list)
        .with_summary(iceberg::spec::Summary {
            operation: iceberg::spec::Operation::Delete,
            additional_properties: HashMap::new(),
        })
        .build();
    world.catalog.replace(|metadata| {
        let builder = metadata.clone().into_builder(None);
        builder.set_branch_snapshot(snapshot, "main").unwrap().build().unwrap().metadata
    });
    let kept = |list: &[iceberg::spec::ManifestFile]| -> Vec<_> {
        list.iter().filter(|m| m.content == ManifestContentType::Deletes).cloned().collect()
    };
    let before = world.catalog.current().metadata;
    let before = kept(&world.committer.manifests.list(&before, Some(99)).await.unwrap());
    for _ in 0..3 {
        world.append(vec![world.file(2, 1)]).await;
    }
    let after = world.catalog.current().metadata;
    let manifests = world.committer.manifests.list(&after, after.current_snapshot_id()).await.unwrap();
    assert_eq!(kept(&manifests), before);
    assert!(!summary(&after).contains_key("total-records"), "unknown totals are not invented");
}

#[tokio::test]
async fn the_format_library_reads_what_was_written() {
    let world = World::new(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "2")]);
    for day in 0..4 {
        world.append(vec![world.file(day, 2)]).await;
    }
    let base = world.catalog.current();
    let table = iceberg::table::Table::builder()
        .metadata(base.metadata)
        .metadata_location(base.location)
        .identifier(iceberg::TableIdent::from_strs(["main", "t"]).unwrap())
        .file_io(world.committer.env.stores.file_io())
        .runtime(iceberg::Runtime::current())
        .build()
        .unwrap();
    let filter =
        iceberg::expr::Reference::new("ts").greater_than_or_equal_to(Datum::timestamptz_micros(2 * 86_400_000_000));
    let scan = table.scan().with_filter(filter).build().unwrap();
    let tasks: Vec<_> = scan.plan_files().await.unwrap().try_collect().await.unwrap();
    let mut paths: Vec<_> = tasks.iter().map(|task| task.data_file_path.clone()).collect();
    paths.sort();
    assert_eq!(paths, ["memory://test/t/data/2.parquet", "memory://test/t/data/3.parquet"]);
}

#[tokio::test]
async fn a_partition_field_of_any_name_keeps_its_values() {
    let world =
        World::with(new_metadata(FormatVersion::V3, &[("commit.manifest.min-count-to-merge", "2")], "1 créé-à/day"));
    for day in [19, 20, 21] {
        world.append(vec![world.file(day, 1)]).await;
    }
    let metadata = world.catalog.current().metadata;
    let live = world.live(&metadata, metadata.current_snapshot_id()).await;
    let days: Vec<_> = live.iter().map(|entry| entry.file.partition().fields().to_vec()).collect();
    assert_eq!(days, [21, 20, 19].map(|day| vec![Some(Literal::date(day))]));
}
