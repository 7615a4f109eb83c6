//! Files of other writers, and damage.

use super::*;

#[tokio::test]
async fn damaged_metadata_is_named_and_left_alone() {
    for world in World::all() {
        let base = world.table(2).await;
        let newest = world.file("metadata/v3.metadata.json");
        let whole = serde_json::to_vec(&with(&base, "k", "v").metadata).unwrap();
        for content in [&b""[..], &whole[..whole.len() / 2], b"\x1f\x8b\x08broken"] {
            world.write(&newest, content.to_vec()).await;
            for hint in ["2", "3", "x"] {
                world.write(&world.file("metadata/version-hint.text"), hint).await;
                let error = world.catalog.load(&t()).await.unwrap_err();
                assert_eq!(error.code(), Code::MetadataCorrupt);
                assert!(error.to_string().contains("v3.metadata.json"), "{error}");
            }
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("conflict", Some(Code::CommitConflict)));
            assert_eq!(world.text(&newest).await.unwrap(), content, "not written over");
        }
    }
}

#[tokio::test]
async fn compressed_metadata_is_read_and_not_written() {
    for name in ["v2.gz.metadata.json", "v2.metadata.json.gz"] {
        for world in World::all() {
            let base = world.table(1).await;
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(&serde_json::to_vec(&with(&base, "k", "zipped").metadata).unwrap()).unwrap();
            world.write(&world.file(&format!("metadata/{name}")), gzip.finish().unwrap()).await;

            // With the hint still at 1, the plain slot 2 is free, and must not be taken.
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));

            world.write(&world.file("metadata/version-hint.text"), "2").await;
            let newest = world.newest().await;
            assert_eq!((newest.version, property(&newest, "k")), (2, Some("zipped")));
            let published = world.catalog.publish(&t(), Some(&newest), &with(&newest, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        }
    }
}

#[tokio::test]
async fn two_names_of_one_version_are_refused() {
    let world = World::memory();
    let base = world.table(2).await;
    let text = serde_json::to_vec(&base.metadata).unwrap();
    world.write(&world.file("metadata/v2.gz.metadata.json"), text).await;
    world.write(&world.file("metadata/version-hint.text"), "x").await;
    assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
}

#[tokio::test]
async fn another_catalogs_table_is_read_and_not_written() {
    const UUID: &str = "4d5a9b0e-53e3-4f0c-bb6a-1d8b8a4c9f10";
    for world in World::all() {
        let proposal = world.new_table(&t());
        let text = serde_json::to_vec(&proposal.metadata).unwrap();
        world.write(&world.file(&format!("metadata/00000-{UUID}.metadata.json")), text.clone()).await;
        world.write(&world.file(&format!("metadata/00007-{UUID}.metadata.json")), text.clone()).await;
        let base = world.newest().await;
        assert_eq!(base.version, 7);
        let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::NotSupported);
        assert_eq!(world.files().await.len(), 2);

        // Which of two is the newest, only the other catalog knows.
        let other = UUID.replace('4', "5");
        world.write(&world.file(&format!("metadata/00007-{other}.metadata.json")), text).await;
        assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
    }
}

#[tokio::test]
async fn absent_is_only_what_a_listing_shows_to_be_absent() {
    let world = World::memory();
    world.write(&world.file("metadata/strange.metadata.json"), "{}").await;
    assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::MetadataCorrupt);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    assert_eq!(outcome(&created), ("not sent", Some(Code::MetadataCorrupt)));

    let world = World::memory();
    world.write(&world.file("metadata/snap-1.avro"), "x").await;
    assert!(world.catalog.load(&t()).await.unwrap().is_none());
}

#[tokio::test]
async fn what_would_fork_or_move_the_table_is_refused() {
    for world in World::all() {
        let base = world.table(1).await;
        let refused = [
            with(&base, "write.metadata.path", "memory://elsewhere"),
            with(&base, "write.metadata.compression-codec", "gzip"),
            proposal(TableMetadata::clone(&base.metadata).into_builder(None).set_location("memory://x/t".into())),
        ];
        for next in refused {
            let published = world.catalog.publish(&t(), Some(&base), &next).await;
            assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
        }
        let allowed = with(&base, "write.metadata.compression-codec", "none");
        assert!(world.catalog.publish(&t(), Some(&base), &allowed).await.is_ok());

        let elsewhere = Ident::new("main", "other");
        let published = world.catalog.publish(&elsewhere, Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("not sent", Some(Code::Internal)));
    }
}

#[tokio::test]
async fn a_moved_warehouse_is_read_and_not_written() {
    let world = World::memory();
    let base = world.table(1).await;
    let moved = Ident::new("main", "moved");
    let location = world.catalog.location(&moved).unwrap();
    let text = serde_json::to_vec(&base.metadata).unwrap();
    world.write(&paths::join(&location, "metadata/v1.metadata.json"), text).await;
    let base = world.catalog.load(&moved).await.unwrap().unwrap();
    let published = world.catalog.publish(&moved, Some(&base), &with(&base, "k", "v")).await;
    assert_eq!(outcome(&published), ("not sent", Some(Code::NotSupported)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_warehouse_behind_a_link_is_the_same_warehouse() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
    let real = World::new(dir.path().join("real").to_str().unwrap().to_owned(), None);
    let link = World::new(dir.path().join("link").to_str().unwrap().to_owned(), None);
    real.table(1).await;
    let base = link.newest().await;
    link.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
    assert_eq!(property(&real.newest().await, "k"), Some("v"));
}

#[tokio::test]
async fn not_writable_warehouse() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let world = World::new(dir.path().join("file").to_str().unwrap().to_owned(), None);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    let (sent, code) = outcome(&created);
    assert_eq!((sent, code), ("not sent", Some(Code::StorageFailed)));

    let world = World::local();
    world.fail(&[Fault::Denied]);
    let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
    assert_eq!(outcome(&created), ("not sent", Some(Code::PermissionDenied)));
    let error = created.unwrap_err().error().to_string();
    assert!(error.contains("v1.metadata.json") && error.contains("main.t"), "{error}");
    assert!(world.catalog.load(&t()).await.unwrap().is_none());
}
