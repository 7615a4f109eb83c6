use futures::TryStreamExt;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart};

use super::*;

fn at(stores: &Stores, location: &str) -> Located {
    stores.resolve(location).unwrap()
}

#[test]
fn locations_have_one_spelling() {
    let stores = Stores::new();
    let check = |location, spelled: &str| assert_eq!(at(&stores, location).location(), spelled);
    check("/a/b/", "file:///a/b");
    check("file:/a/b", "file:///a/b");
    check("file:///a%20b/ü c", "file:///a%20b/ü c");
    check("/", "file://");
    check("memory://m/a/b", "memory://m/a/b");
    check("memory://m", "memory://m");
    check("memory://m/", "memory://m");
    for location in ["/a/b", "/", "memory://m", "memory://m/a"] {
        let once = at(&stores, location).location();
        assert_eq!(at(&stores, &once).location(), once);
    }
}

#[test]
fn what_no_store_serves_is_refused_by_name() {
    let stores = Stores::new();
    for location in
        ["s3://bucket/a", "gopher://x/y", "", "file://other-host/a", "memory://m/a//b", "memory://m/../a", "/a\0b"]
    {
        let error = stores.resolve(location).unwrap_err();
        assert_eq!(error.code(), Code::UnsupportedLocation, "{location}: {error}");
    }
    let error = stores.resolve("s3://id:secret@bucket/a").unwrap_err().to_string();
    assert!(error.contains("s3://bucket/a") && error.contains("memory://<name>"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn everyone_gets_the_same_store() {
    let stores = Stores::new();
    let registry = stores.registry();
    for location in ["/a", "memory://one/a", "memory://two/a"] {
        let ours = at(&stores, location);
        let theirs = registry.get_store(ours.url.as_ref()).unwrap();
        assert!(Arc::ptr_eq(&ours.store, &theirs), "{location}");
        assert!(Arc::ptr_eq(&ours.store, &at(&stores.clone(), location).store), "{location}");
    }
    assert!(!Arc::ptr_eq(&at(&stores, "memory://one/a").store, &at(&stores, "memory://two/a").store));
    let error = registry.get_store(&"s3://b/".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("unsupported_location"), "{error}");
}

#[test]
fn registering_replaces_a_store_for_everyone() {
    let stores = Stores::new();
    let mine: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let registry = stores.registry();
    stores.register(&"file:///".parse().unwrap(), Arc::clone(&mine));
    stores.register(&"s3://bucket/ignored".parse().unwrap(), Arc::clone(&mine));
    registry.register_store(&"abfss://c@account/".parse().unwrap(), Arc::clone(&mine));
    for location in ["/x", "file:/x", "s3://bucket/x", "s3://id:secret@bucket/x", "abfss://c@account/x"] {
        assert!(Arc::ptr_eq(&at(&stores, location).store, &mine), "{location}");
    }
    assert!(stores.resolve("abfss://other@account/x").is_err(), "another container is another store");
    assert!(Arc::ptr_eq(&registry.get_store(&"file:///".parse().unwrap()).unwrap(), &mine));
}

#[tokio::test]
async fn names_keep_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::new();
    for name in ["a b", "50%", "a%2Fb", "x=S%C3%A3o+1", "ünï 🦀", "q?a=b", "#", "a#1b", "~", "back\\slash", "c|d"] {
        let root = dir.path().to_str().unwrap();
        let located = at(&stores, &format!("file://{root}/{name}/f"));
        located.store.put(&located.path, PutPayload::from_static(b"1")).await.unwrap();
        assert!(dir.path().join(name).join("f").is_file(), "{name}");
        let parent = at(&stores, &format!("{root}/{name}"));
        let listed: Vec<_> = parent.store.list(Some(&parent.path)).try_collect().await.unwrap();
        assert_eq!(listed.len(), 1, "{name}");
        assert_eq!(listed[0].location, located.path, "{name}");
    }
}

#[tokio::test]
async fn a_local_create_is_exclusive_and_leaves_no_staging() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::new();
    let located = at(&stores, dir.path().join("new/deep/f").to_str().unwrap());
    let create = |text: &'static str| {
        let payload = PutPayload::from_static(text.as_bytes());
        located.store.put_opts(&located.path, payload, PutOptions::from(PutMode::Create))
    };
    let (one, two) = tokio::join!(create("one"), create("two"));
    let lost = [&one, &two].into_iter().filter(|r| matches!(r, Err(object_store::Error::AlreadyExists { .. }))).count();
    assert_eq!((lost, one.is_ok() as u8 + two.is_ok() as u8), (1, 1), "{one:?} {two:?}");
    let winner = if one.is_ok() { "one" } else { "two" };
    let file = dir.path().join("new/deep/f");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), winner);
    located.store.put(&located.path, PutPayload::from_static(b"three")).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "three");
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_leftover_of_a_crash_is_in_no_listing_and_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f#1"), "half").unwrap();
    let stores = Stores::new();
    let located = at(&stores, dir.path().join("f").to_str().unwrap());
    located.store.put_opts(&located.path, "whole".into(), PutMode::Create.into()).await.unwrap();
    let root = at(&stores, dir.path().to_str().unwrap());
    let listed: Vec<_> = root.store.list(Some(&root.path)).try_collect().await.unwrap();
    assert!(matches!(listed.as_slice(), [only] if only.location == located.path), "{listed:?}");
}

#[tokio::test]
async fn an_upload_in_parts_appears_when_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::new();
    let located = at(&stores, dir.path().join("day=1/f.parquet").to_str().unwrap());
    let mut upload = WriteMultipart::new(located.store.put_multipart(&located.path).await.unwrap());
    upload.write(&[7; 100_000]);
    assert!(!dir.path().join("day=1/f.parquet").exists());
    upload.finish().await.unwrap();
    assert_eq!(std::fs::read(dir.path().join("day=1/f.parquet")).unwrap(), [7; 100_000]);

    let mut upload = located.store.put_multipart(&located.path).await.unwrap();
    upload.abort().await.unwrap();
    drop(upload);
    assert_eq!(std::fs::read_dir(dir.path().join("day=1")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_in_the_way_of_a_directory_is_an_error_and_no_conflict() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "").unwrap();
    let stores = Stores::new();
    let located = at(&stores, dir.path().join("f/g/h").to_str().unwrap());
    let failed = located.store.put_opts(&located.path, "x".into(), PutMode::Create.into()).await.unwrap_err();
    assert!(matches!(failed, object_store::Error::Generic { .. }), "{failed:?}");
    assert_eq!(error("f", failed).code(), Code::StorageFailed);
}

#[tokio::test]
async fn iceberg_reads_and_writes_the_same_stores() {
    let stores = Stores::new();
    let io = stores.file_io();
    let location = "memory://io/t/metadata/a%20b.avro";
    let output = io.new_output(location).unwrap();
    assert!(!io.exists(location).await.unwrap());
    let mut writer = output.writer().await.unwrap();
    writer.write("hello ".into()).await.unwrap();
    writer.write("world".into()).await.unwrap();
    assert!(!io.exists(location).await.unwrap(), "visible before it is closed");
    writer.close().await.unwrap();
    assert!(writer.close().await.is_err());

    let located = at(&stores, location);
    assert_eq!(located.store.get(&located.path).await.unwrap().bytes().await.unwrap(), "hello world");
    let input = io.new_input(location).unwrap();
    assert_eq!(input.read().await.unwrap(), "hello world");
    assert_eq!(input.metadata().await.unwrap().size, 11);
    assert_eq!(input.reader().await.unwrap().read(6..11).await.unwrap(), "world");

    io.new_output("memory://io/t/metadata/other").unwrap().write("x".into()).await.unwrap();
    io.delete(location).await.unwrap();
    io.delete(location).await.unwrap();
    assert!(!io.exists(location).await.unwrap());
    io.delete_prefix("memory://io/t").await.unwrap();
    assert!(!io.exists("memory://io/t/metadata/other").await.unwrap());

    let missing = io.new_input(location).unwrap().read().await.unwrap_err().to_string();
    assert!(missing.contains("file_not_found") && missing.contains(location), "{missing}");
}

#[tokio::test]
async fn a_storage_that_was_serialised_has_no_stores() {
    use iceberg::io::{Storage, StorageConfig, StorageFactory};
    let factory: Arc<dyn StorageFactory> = Arc::new(IcebergStorageFactory::new(Stores::new()));
    let text = serde_json::to_string(&factory.build(&StorageConfig::new()).unwrap()).unwrap();
    let read: Box<dyn Storage> = serde_json::from_str(&text).unwrap();
    let error = read.exists("memory://m/a").await.unwrap_err().to_string();
    assert!(error.contains("no stores"), "{error}");
}

#[test]
fn empty_directories_go_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    std::fs::create_dir_all(root.join("data/day=1")).unwrap();
    std::fs::create_dir_all(root.join("data/day=2")).unwrap();
    std::fs::write(root.join("data/day=2/f"), "").unwrap();
    remove_empty_directories(&root);
    assert!(!root.join("data/day=1").exists() && root.join("data/day=2/f").exists());
    std::fs::remove_file(root.join("data/day=2/f")).unwrap();
    remove_empty_directories(&root);
    assert!(!root.exists() && dir.path().exists());
}

/// Small files are read in one go, others through the library's own store: nobody can tell.
#[tokio::test]
async fn local_files_of_all_sizes_are_read_alike() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::new();
    for size in [0, 1, 256 << 10, (256 << 10) + 1] {
        let file = at(&stores, &format!("{}/{size}", directory.path().display()));
        let content: Vec<u8> = (0..size).map(|i| i as u8).collect();
        file.store.put(&file.path, content.clone().into()).await.unwrap();
        let answer = file.store.get(&file.path).await.unwrap();
        assert_eq!(answer.meta.location, file.path);
        assert_eq!((answer.meta.size, answer.range.clone()), (size as u64, 0..size as u64));
        assert_eq!(answer.meta.last_modified, file.store.head(&file.path).await.unwrap().last_modified);
        assert_eq!(answer.bytes().await.unwrap(), content);
        if size > 1 {
            assert_eq!(file.store.get_range(&file.path, 1..2).await.unwrap(), content[1..2]);
        }
    }
    let absent = at(&stores, &format!("{}/absent", directory.path().display()));
    assert!(matches!(absent.store.get(&absent.path).await, Err(object_store::Error::NotFound { .. })));
    let not_a_file = at(&stores, &directory.path().display().to_string());
    assert!(not_a_file.store.get(&not_a_file.path).await.is_err());
}

#[test]
fn many_locations_resolve_as_each_of_them_alone() {
    let stores = Stores::new();
    let mut resolver = Resolver::new(&stores);
    let locations = [
        "file:///w/t/data/day=1/a.parquet",
        "file:///w/t/data/day=1/b%2F.parquet",
        "file:///w/t/data/day=1/../c.parquet",
        "file:///w/t/data/day=1/.",
        "file:///w/t/data/day=1/..",
        "file:///w/t/data/day=1/",
        "file:///w/t/data/day=1",
        "/w//t/./data/day=1/a.parquet",
        "/w//t/./data/day=1/b.parquet",
        "file:/w/t/a",
        "file:/w/t/b",
        "w/t/a",
        "w/t/b",
        "a",
        "b",
        "memory://m/a",
        "memory://m/b",
        "memory://n/b",
        "memory://m/x/b",
        "memory://m/x/a?b",
        "memory://m/x/a?c",
        "memory://m/x//d",
        "memory://m/x//e",
        "memory://m",
        "memory://m/",
        "s3://nobody/x/a",
        "s3://nobody/x/b",
        "memory://m/x/\u{1}",
        "",
    ];
    // Each after each other one: what was found of one must not spoil the next.
    for before in locations {
        for location in locations {
            let _ = resolver.resolve(before);
            let shown =
                |located: Result<Located>| located.map(|at| (at.url.to_string(), at.path)).map_err(|e| e.code());
            assert_eq!(shown(resolver.resolve(location)), shown(stores.resolve(location)), "{location} after {before}");
        }
    }
}
