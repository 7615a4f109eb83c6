//! What is the hint believed?

use super::*;

#[tokio::test]
async fn a_right_hint_makes_three_requests_and_no_listing() {
    for world in World::all() {
        world.table(4).await;
        assert_eq!(world.newest().await.version, 4);
        let mut log = world.log();
        log.sort();
        assert_eq!(log, ["GET v4.metadata.json", "GET v5.metadata.json", "GET version-hint.text"]);
    }
}

#[tokio::test]
async fn stale_hint_is_ignored() {
    for world in World::all() {
        world.table(12).await;
        for hint in ["11", "7", "3", "2", "1"] {
            world.write(&world.file("metadata/version-hint.text"), hint).await;
            assert_eq!(world.newest().await.version, 12, "{hint}");
        }
        assert!(world.log().len() < 20, "a hint that is far behind is not followed step by step");
    }
}

#[tokio::test]
async fn hint_ahead() {
    for world in World::all() {
        let base = world.table(2).await;
        world.write(&world.file("metadata/version-hint.text"), "9").await;
        assert_eq!(world.newest().await.version, 2);
        world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
        assert_eq!(world.hint().await.as_deref(), Some("3"), "a hint to nothing is put right");
    }
}

#[tokio::test]
async fn the_hint_never_goes_back() {
    for world in World::all() {
        let base = world.table(2).await;
        // A later commit was faster with its hint than we are.
        let later = with(&base, "k", "later");
        world.write(&world.file("metadata/v4.metadata.json"), serde_json::to_vec(&later.metadata).unwrap()).await;
        world.write(&world.file("metadata/version-hint.text"), "4").await;
        world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
        assert_eq!(world.hint().await.as_deref(), Some("4"));
    }
}

#[tokio::test]
async fn missing_hint() {
    for world in World::all() {
        world.table(11).await;
        let at = world.env.stores.resolve(&world.file("metadata/version-hint.text")).unwrap();
        at.store.delete(&at.path).await.unwrap();
        assert_eq!(world.newest().await.version, 11, "v11 is later than v9");
        for bad in ["", "x", "v11", "00011-abc", "\u{0}"] {
            world.write(&world.file("metadata/version-hint.text"), bad).await;
            let base = world.newest().await;
            assert_eq!(base.version, 11, "{bad:?}");
        }
        world.write(&world.file("metadata/version-hint.text"), "11\n").await;
        assert_eq!(world.newest().await.version, 11);
        let log = world.log();
        assert!(!log.iter().any(|line| line.starts_with("LIST")), "{log:?}");
    }
}

#[tokio::test]
async fn older_versions_may_be_gone() {
    for world in World::all() {
        world.table(5).await;
        for version in 1..5 {
            let at = world.env.stores.resolve(&world.file(&format!("metadata/v{version}.metadata.json"))).unwrap();
            at.store.delete(&at.path).await.unwrap();
        }
        world.write(&world.file("metadata/version-hint.text"), "3").await;
        assert_eq!(world.newest().await.version, 5);
    }
}
