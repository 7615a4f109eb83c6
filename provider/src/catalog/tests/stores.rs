//! What do stores promise?

use super::*;

#[test]
fn a_catalog_needs_a_store() {
    let env = Env::new(Stores::new());
    assert_eq!(FileCatalog::new(env.clone(), "s3://bucket/w").unwrap_err().code(), Code::UnsupportedLocation);
    assert_eq!(FileCatalog::new(env, "/a/b/").unwrap().warehouse(), "file:///a/b");
}

#[tokio::test]
async fn put_modes_of_the_stores_are_what_the_protocol_needs() {
    for world in World::all() {
        let at = world.env.stores.resolve(&world.file("probe")).unwrap();
        let create = || at.store.put_opts(&at.path, "a".into(), PutMode::Create.into());
        create().await.unwrap();
        assert!(matches!(create().await.unwrap_err(), StoreError::AlreadyExists { .. }));
    }
}
