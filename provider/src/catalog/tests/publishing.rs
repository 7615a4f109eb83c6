//! Publishing and loading: who wins, and what is known after a failure?

use super::*;

#[tokio::test]
async fn versions_are_files_of_hadoops_names() {
    for world in World::all() {
        assert!(world.catalog.load(&t()).await.unwrap().is_none());
        let base = world.table(3).await;
        assert_eq!(base.version, 3);
        assert_eq!(base.location, world.file("metadata/v3.metadata.json"));
        assert!(!base.metadata.location().ends_with('/'));
        assert_eq!(world.hint().await.as_deref(), Some("3"), "no newline");
        let names = ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json", "version-hint.text"];
        assert_eq!(world.files().await, names.map(|name| format!("main/t/metadata/{name}")));
        let loaded = world.newest().await;
        assert_eq!((loaded.version, &loaded.location), (3, &base.location));
        assert_eq!(loaded.metadata, base.metadata);
    }
}

#[tokio::test]
async fn a_local_location_is_an_absolute_url() {
    let world = World::local();
    let location = world.catalog.location(&Ident::new("main", "a b#1")).unwrap();
    assert!(location.starts_with("file:///") && location.ends_with("/ware house/main/a b%231"), "{location}");
}

#[tokio::test]
async fn two_writers_one_wins() {
    for world in World::all() {
        let base = world.table(1).await;
        let rivals = (0..8).map(|i| {
            let (world, base) = (&world, &base);
            async move { world.catalog.publish(&t(), Some(base), &with(base, "winner", i)).await }
        });
        let results = futures::future::join_all(rivals).await;
        let won: Vec<_> = (0..8).filter(|&i| results[i].is_ok()).collect();
        assert_eq!(won.len(), 1);
        assert_eq!(property(&world.newest().await, "winner"), Some(won[0].to_string().as_str()));
        for lost in results.iter().filter(|result| result.is_err()) {
            assert_eq!(outcome(lost), ("conflict", Some(Code::CommitConflict)));
        }
    }
}

#[tokio::test]
async fn of_two_creations_one_wins() {
    for world in World::all() {
        let (one, two) = (world.new_table(&t()), world.new_table(&t()));
        let (t, catalog) = (t(), &world.catalog);
        let (a, b) = tokio::join!(catalog.publish(&t, None, &one), catalog.publish(&t, None, &two));
        let lost = if a.is_ok() { &b } else { &a };
        assert!(a.is_ok() != b.is_ok());
        assert_eq!(outcome(lost), ("conflict", Some(Code::AlreadyExists)));
        let again = catalog.publish(&t, None, &one).await;
        assert_eq!(outcome(&again), ("conflict", Some(Code::AlreadyExists)));
    }
}

#[tokio::test]
async fn a_table_is_not_created_over_a_later_version() {
    for world in World::all() {
        world.table(3).await;
        let at = world.env.stores.resolve(&world.file("metadata/v1.metadata.json")).unwrap();
        at.store.delete(&at.path).await.unwrap();
        let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
        assert_eq!(outcome(&created), ("conflict", Some(Code::AlreadyExists)));
    }
}

#[tokio::test]
async fn lost_answer_is_verified() {
    use Fault::*;
    let landed: &[&[Fault]] = &[
        &[After],
        &[AlreadyOurs],
        &[Before],
        &[AlreadyNobody],
        &[Before, Before, AlreadyNobody, Before],
        &[Before, After],
        &[AlreadyNobody, AlreadyOurs],
        &[Before, Full],
    ];
    for faults in landed {
        for world in World::all() {
            let base = world.table(1).await;
            world.fail(faults);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("committed", None), "{faults:?}");
            assert_eq!(published.unwrap().version, 2, "{faults:?}");
            assert_eq!(property(&world.newest().await, "k"), Some("v"));
            assert_eq!(world.hint().await.as_deref(), Some("2"));
        }
    }
}

#[tokio::test]
async fn a_refusal_is_proof() {
    use Fault::*;
    let refused = [
        (Full, Code::StorageFull),
        (Denied, Code::PermissionDenied),
        (Forbidden, Code::PermissionDenied),
        (Unsupported, Code::NotSupported),
    ];
    for (fault, code) in refused {
        for world in World::all() {
            let base = world.table(1).await;
            world.fail(&[fault]);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("not sent", Some(code)), "{fault:?}");
            assert_eq!(world.log().iter().filter(|line| *line == "PUT v2.metadata.json").count(), 1, "{fault:?}");
            assert_eq!(world.newest().await.version, 1);
            assert_eq!(world.hint().await.as_deref(), Some("1"));
        }
    }
}

#[tokio::test]
async fn unknown_is_unknown() {
    use Fault::*;
    for world in World::all() {
        let base = world.table(1).await;
        for fault in [Before, After, AlreadyOurs, AlreadyNobody, Forbidden] {
            world.fail(&[fault]);
            world.plan.lock().unreadable = Some("v2.metadata.json".to_owned());
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)), "{fault:?}");
            let error = published.unwrap_err().error().to_string();
            assert!(
                error.contains("v2.metadata.json") && error.contains("timeout") && error.contains("main.t"),
                "{error}"
            );
            world.plan.lock().unreadable = None;
            let at = world.env.stores.resolve(&world.file("metadata/v2.metadata.json")).unwrap();
            let _ = at.store.delete(&at.path).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_always_lost_is_unknown_although_the_slot_is_empty() {
    for world in World::all() {
        let base = world.table(1).await;
        for faults in [[Fault::Before; 5], [Fault::AlreadyNobody; 5]] {
            world.fail(&faults);
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
            assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)));
        }
        // A refusal after a lost answer refuses only the repetition.
        world.fail(&[Fault::Before, Fault::Full, Fault::Full, Fault::Full, Fault::Full]);
        let published = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await;
        assert_eq!(outcome(&published), ("unknown", Some(Code::CommitStateUnknown)));
        assert_eq!(world.newest().await.version, 1);
    }
}

#[tokio::test]
async fn a_rival_in_the_slot_is_a_conflict_whatever_the_store_answers() {
    for world in World::all() {
        let base = world.table(1).await;
        let slot = world.env.stores.resolve(&world.file("metadata/v2.metadata.json")).unwrap();
        let rival = serde_json::to_vec(&with(&base, "by", "rival").metadata).unwrap();
        for fault in [Fault::Before, Fault::AlreadyNobody, Fault::Forbidden] {
            world.fail(&[fault]);
            world.plan.lock().rival = Some((slot.path.to_string(), rival.clone().into()));
            let published = world.catalog.publish(&t(), Some(&base), &with(&base, "by", "us")).await;
            assert_eq!(outcome(&published), ("conflict", Some(Code::CommitConflict)), "{fault:?}");
            assert_eq!(property(&world.newest().await, "by"), Some("rival"));
            slot.store.delete(&slot.path).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_hint_that_cannot_be_written_loses_no_commit() {
    let world = World::memory();
    let base = world.table(1).await;
    world.plan.lock().unreadable = Some("version-hint.text".to_owned());
    let next = world.catalog.publish(&t(), Some(&base), &with(&base, "k", "v")).await.unwrap();
    assert_eq!(world.newest().await.version, next.version);
    world.plan.lock().unreadable = None;
    assert_eq!(world.hint().await.as_deref(), Some("1"));
    assert_eq!(world.newest().await.version, 2);
}
