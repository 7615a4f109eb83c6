//! Namespaces and names.

use super::*;

#[tokio::test]
async fn an_absent_warehouse_is_empty_and_the_first_write_makes_it() {
    for world in World::all() {
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert!(world.catalog.tables(&ns(&["main"])).await.unwrap().is_empty());
        assert_eq!(world.catalog.tables(&ns(&["x"])).await.unwrap_err().code(), Code::UnknownNamespace);
        assert!(world.files().await.is_empty());
        world.create(&t()).await;
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
    }
}

#[tokio::test]
async fn namespaces_nest_and_are_dropped_when_empty() {
    for world in World::all() {
        let catalog = &world.catalog;
        let (eu, sub) = (ns(&["eu"]), ns(&["eu", "sub"]));
        catalog.create_namespace(&sub).await.unwrap();
        assert_eq!(catalog.namespaces().await.unwrap(), [eu.clone(), sub.clone(), ns(&["main"])]);
        for taken in [&eu, &sub, &ns(&["main"])] {
            assert_eq!(catalog.create_namespace(taken).await.unwrap_err().code(), Code::AlreadyExists);
        }
        let ident = Ident { namespace: sub.clone(), name: "orders".into() };
        world.create(&ident).await;
        assert_eq!(catalog.tables(&sub).await.unwrap(), ["orders"]);
        assert!(catalog.tables(&eu).await.unwrap().is_empty(), "a schema is no table");
        for full in [&eu, &sub] {
            assert_eq!(catalog.drop_namespace(full).await.unwrap_err().code(), Code::NamespaceNotEmpty);
        }
        catalog.drop_table(&ident, false).await.unwrap();
        catalog.drop_namespace(&sub).await.unwrap();
        catalog.drop_namespace(&eu).await.unwrap();
        assert_eq!(catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(catalog.drop_namespace(&eu).await.unwrap_err().code(), Code::UnknownNamespace);
        assert_eq!(catalog.drop_namespace(&ns(&["main"])).await.unwrap_err().code(), Code::InvalidArgument);
        assert!(world.files().await.is_empty());
    }
}

#[tokio::test]
async fn a_table_needs_its_namespace() {
    for world in World::all() {
        let ident = Ident::new("nowhere", "t");
        let created = world.catalog.publish(&ident, None, &world.new_table(&ident)).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::UnknownNamespace)));
        assert!(world.files().await.is_empty());
        assert!(world.catalog.load(&ident).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_table_and_a_namespace_do_not_share_a_name() {
    for world in World::all() {
        world.create(&t()).await;
        for below in [ns(&["main", "t"]), ns(&["main", "t", "x"])] {
            assert_eq!(world.catalog.create_namespace(&below).await.unwrap_err().code(), Code::AlreadyExists);
        }
        world.catalog.create_namespace(&ns(&["main", "s"])).await.unwrap();
        let ident = Ident::new("main", "s");
        let created = world.catalog.publish(&ident, None, &world.new_table(&ident)).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::AlreadyExists)));
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"]), ns(&["main", "s"])]);
        assert_eq!(world.catalog.tables(&ns(&["main"])).await.unwrap(), ["t"]);
    }
}

#[tokio::test]
async fn warehouses_of_other_tools_have_no_markers() {
    for world in World::all() {
        let text = serde_json::to_vec(&world.new_table(&t()).metadata).unwrap();
        let root = world.catalog.warehouse().to_owned();
        world.write(&format!("{root}/sales/orders/metadata/v1.metadata.json"), text).await;
        world.write(&format!("{root}/photos/2026/a.jpg"), "x").await;
        world.write(&format!("{root}/sales/old/data/left.parquet"), "x").await;
        world.write(&format!("{root}/README"), "x").await;
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"]), ns(&["sales"])]);
        assert_eq!(world.catalog.tables(&ns(&["sales"])).await.unwrap(), ["orders"]);
        assert_eq!(world.catalog.tables(&ns(&["photos"])).await.unwrap_err().code(), Code::UnknownNamespace);
    }
}

#[tokio::test]
async fn a_directory_that_may_not_be_read_breaks_no_listing_and_is_not_taken_for_empty() {
    for world in World::all() {
        world.table(1).await;
        world.write(&format!("{}/lost+found/x", world.catalog.warehouse()), "x").await;
        world.plan.lock().unlistable = Some("lost+found".to_owned());
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
        assert_eq!(world.catalog.tables(&ns(&["lost+found"])).await.unwrap_err().code(), Code::PermissionDenied);

        world.plan.lock().unlistable = Some("metadata".to_owned());
        world.write(&world.file("metadata/version-hint.text"), "x").await;
        assert_eq!(world.catalog.load(&t()).await.unwrap_err().code(), Code::PermissionDenied);
        assert_eq!(world.catalog.drop_table(&t(), true).await.unwrap_err().code(), Code::PermissionDenied);
        let created = world.catalog.publish(&t(), None, &world.new_table(&t())).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::PermissionDenied)));
    }
}

#[tokio::test]
async fn a_namespace_that_sql_answers_for_itself_is_not_made() {
    for world in World::all() {
        for name in ["information_schema", "Information_Schema"] {
            for namespace in [ns(&[name]), ns(&[name, "logs"])] {
                let created = world.catalog.create_namespace(&namespace).await;
                assert_eq!(created.unwrap_err().code(), Code::InvalidName, "{namespace:?}");
            }
        }
        assert!(world.files().await.is_empty());

        // Somebody else made one.
        let ident = Ident::new("information_schema", "t");
        let text = serde_json::to_vec(&world.new_table(&ident).metadata).unwrap();
        let root = world.catalog.warehouse().to_owned();
        world.write(&format!("{root}/information_schema/t/metadata/v1.metadata.json"), text).await;
        let another = Ident::new("information_schema", "u");
        assert_eq!(world.catalog.check_creatable(&another).await.unwrap_err().code(), Code::InvalidName);
        let created = world.catalog.publish(&another, None, &world.new_table(&another)).await;
        assert_eq!(outcome(&created), ("not sent", Some(Code::InvalidName)));
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["information_schema"]), ns(&["main"])]);
        assert_eq!(world.catalog.tables(&ident.namespace).await.unwrap(), ["t"]);
        assert!(world.catalog.load(&ident).await.unwrap().is_some());
        world.catalog.drop_table(&ident, true).await.unwrap();
        assert_eq!(world.catalog.namespaces().await.unwrap(), [ns(&["main"])]);
    }
}

#[tokio::test]
async fn weird_names() {
    let names = [
        "Räder 2026",
        "🦀",
        "a b",
        "a%2Fb",
        "a#1",
        "*?",
        "x=y",
        "UPPER",
        "upper",
        ".dot",
        "-rf",
        "a.b",
        "'",
        "tab\"le",
    ];
    for world in World::all() {
        for name in names {
            world.catalog.create_namespace(&ns(&[name])).await.unwrap();
            let ident = Ident::new(name, name);
            let base = world.create(&ident).await;
            world.catalog.publish(&ident, Some(&base), &with(&base, "k", name)).await.unwrap();
            let loaded = world.catalog.load(&ident).await.unwrap().unwrap();
            assert_eq!((loaded.version, property(&loaded, "k")), (2, Some(name)));
            assert_eq!(world.catalog.tables(&ns(&[name])).await.unwrap(), [name]);
        }
        let mut expected: Vec<_> = names.iter().chain(&["main"]).map(|name| ns(&[name])).collect();
        expected.sort();
        assert_eq!(world.catalog.namespaces().await.unwrap(), expected);
        for name in names {
            world.catalog.drop_table(&Ident::new(name, name), true).await.unwrap();
            world.catalog.drop_namespace(&ns(&[name])).await.unwrap();
        }
        assert!(world.files().await.is_empty());
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0", "metadata", "data"] {
            let code = |result: Result<()>| result.unwrap_err().code();
            assert_eq!(code(world.catalog.create_namespace(&ns(&[bad])).await), Code::InvalidName, "{bad:?}");
            assert_eq!(code(world.catalog.location(&Ident::new("main", bad)).map(drop)), Code::InvalidName, "{bad:?}");
            assert_eq!(code(world.catalog.load(&Ident::new(bad, "t")).await.map(drop)), Code::InvalidName, "{bad:?}");
        }
        assert_eq!(world.catalog.create_namespace(&[]).await.unwrap_err().code(), Code::InvalidName);
    }
}
