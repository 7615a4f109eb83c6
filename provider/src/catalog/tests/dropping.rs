//! What does a drop delete, and in which order?

use super::*;

#[tokio::test]
async fn a_drop_keeps_the_data_and_a_purge_does_not() {
    for world in World::all() {
        for purge in [false, true] {
            world.table(3).await;
            world.write(&world.file("data/day=1/f.parquet"), "rows").await;
            world.write(&world.file("metadata/snap-1.avro"), "list").await;
            let dropped = world.catalog.drop_table(&t(), purge).await.unwrap();
            assert_eq!(dropped.location, world.catalog.location(&t()).unwrap());
            assert_eq!(dropped.deleted, if purge { 6 } else { 4 });
            assert!(world.catalog.load(&t()).await.unwrap().is_none());
            assert!(world.catalog.tables(&ns(&["main"])).await.unwrap().is_empty());
            assert_eq!(world.files().await.len(), if purge { 0 } else { 2 });
            assert_eq!(world.catalog.drop_table(&t(), purge).await.unwrap_err().code(), Code::UnknownTable);
        }
        if let Some(path) = world.catalog.location(&t()).unwrap().strip_prefix("file://") {
            assert!(!std::path::Path::new(path).exists(), "no empty directories are left");
        }
    }
}

#[tokio::test]
async fn the_newest_version_is_dropped_last_and_the_hint_first() {
    let world = World::memory();
    world.table(4).await;
    world.catalog.drop_table(&t(), false).await.unwrap();
    let deletes: Vec<_> = world.log().into_iter().filter(|line| line.starts_with("DELETE")).collect();
    assert_eq!(deletes.first().unwrap(), "DELETE version-hint.text");
    let versions: Vec<_> = deletes.iter().filter(|line| line.contains(".metadata.json")).collect();
    assert_eq!(versions.len(), 4);
    assert_eq!(*versions.last().unwrap(), "DELETE v4.metadata.json");
}

#[tokio::test]
async fn a_damaged_table_can_be_dropped() {
    for world in World::all() {
        world.write(&world.file("metadata/v1.metadata.json"), "").await;
        assert!(world.catalog.load(&t()).await.is_err());
        world.catalog.drop_table(&t(), true).await.unwrap();
        assert!(world.catalog.load(&t()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_purge_spares_what_is_not_the_tables() {
    for world in World::all() {
        let base = world.table(1).await;
        let kept = world.catalog.publish(&t(), Some(&base), &with(&base, "gc.enabled", "false")).await.unwrap();
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NotSupported);
        world.catalog.publish(&t(), Some(&kept), &with(&kept, "gc.enabled", "true")).await.unwrap();

        let inner = world.file("inner/metadata/v1.metadata.json");
        world.write(&inner, "{}").await;
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NamespaceNotEmpty);
        assert_eq!(world.newest().await.version, 3, "a purge that is refused deletes nothing");
        world.catalog.drop_table(&t(), false).await.unwrap();
        assert!(world.text(&inner).await.is_some());
    }
}

#[tokio::test]
async fn a_name_can_be_used_again() {
    for world in World::all() {
        let first = world.table(2).await;
        world.catalog.drop_table(&t(), false).await.unwrap();
        let second = world.create(&t()).await;
        assert_ne!(first.metadata.uuid(), second.metadata.uuid());
        assert_eq!(world.newest().await.version, 1);
        assert_eq!(world.hint().await.as_deref(), Some("1"));
    }
}
