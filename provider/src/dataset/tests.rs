use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Field;

use super::*;

fn columns(names: &[&str]) -> ArrowSchema {
    ArrowSchema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect::<Vec<_>>())
}

fn declared(column: &str, transform: &str, required: bool) -> DeclaredField {
    DeclaredField { column: column.to_owned(), transform: transform.to_owned(), required }
}

#[test]
fn direct_names_must_exist_to_the_letter() {
    let dataset = Dataset::builder("d").primary_timestamp("Ts").build().unwrap();
    let error = dataset.resolve(&columns(&["ts"])).unwrap_err();
    assert_eq!(error.code(), Code::UnknownColumn);
    assert!(error.to_string().contains("did you mean ts?"), "{error}");
    let lookup = Dataset::builder("d").lookup(["a", "nope"]).build().unwrap();
    assert_eq!(lookup.resolve(&columns(&["a"])).unwrap_err().code(), Code::UnknownColumn);
}

#[test]
fn only_identity_fields_of_the_fuller_declaration_are_lookup_columns() {
    let fields = [
        declared("session_id", "identity", true),
        declared("ts", "day", false),
        declared("gone", "identity", false),
        declared("cwd", "identity", false),
    ];
    let dataset = Dataset::builder("d").fields(fields).build().unwrap();
    let resolved = dataset.resolve(&columns(&["cwd", "session_id", "ts"])).unwrap();
    assert_eq!(resolved, Resolved { primary_timestamp: None, lookup: vec!["session_id".into(), "cwd".into()] });
    assert_eq!(dataset.resolve(&columns(&["cwd"])).unwrap_err().code(), Code::UnknownColumn);
}

#[test]
fn a_declared_schema_is_checked_when_the_dataset_is_built() {
    let schema = Arc::new(columns(&["a"]));
    let built = Dataset::builder("d").schema(schema).lookup(["b"]).build();
    assert_eq!(built.unwrap_err().code(), Code::UnknownColumn);
    assert_eq!(Dataset::builder(" ").build().unwrap_err().code(), Code::InvalidConfig);
    assert_eq!(Dataset::builder("d").lookup(["a", "a"]).build().unwrap_err().code(), Code::InvalidConfig);
}

#[test]
fn a_table_hands_its_declaration_down() {
    let first = Dataset::builder("d")
        .primary_timestamp("ts")
        .lookup(["a", "b"])
        .fields([declared("a", "identity", true)])
        .json(["m.content"])
        .build()
        .unwrap();
    let properties: HashMap<String, String> = first.to_properties().into_iter().collect();
    let table = Dataset::from_properties(&properties).unwrap().unwrap();
    let says_nothing = Dataset::builder("d").build().unwrap();
    let merged = Dataset::merged(says_nothing, None, Some(&table));
    assert_eq!(merged.to_properties(), first.to_properties());
    // What a table handed down may be missing from the rows: the layout then differs, which is drift.
    let resolved = merged.resolve(&columns(&["b"])).unwrap();
    assert_eq!(resolved, Resolved { primary_timestamp: None, lookup: vec!["b".into()] });

    let flags = Dataset::builder("d").lookup(["b"]).build().unwrap();
    let merged = Dataset::merged(flags, None, Some(&table));
    assert_eq!(merged.lookup(), Some(&["b".to_owned()][..]));
    assert_eq!(merged.primary_timestamp(), Some("ts"));
}

#[test]
fn the_file_registers_datasets() {
    let registry = Registry::from_toml(
        r#"
        [datasets.m]
        primary_timestamp = "at"
        lookup = ["s"]
        table = "logs.m"
        schema = [{ name = "at", type = "timestamp_ns", required = true }, { name = "s", type = "string" }]
        "#,
    )
    .unwrap();
    let dataset = registry.get("m").unwrap().unwrap();
    assert_eq!((dataset.table(), dataset.nanoseconds()), (Some("logs.m"), vec!["at".to_owned()]));
    assert!(!dataset.schema().unwrap().field(0).is_nullable());
    assert!(registry.get("n").unwrap().is_none());
    for wrong in ["[datasets.m", "[other]", "datasets = 7", "[datasets.m]\n[datasets.m]", "limit = 1\n[datasets.m]"] {
        assert_eq!(Registry::from_toml(wrong).unwrap_err().code(), Code::InvalidConfig, "{wrong}");
    }
}

#[test]
fn a_wrong_declaration_is_the_error_of_its_dataset() {
    for (wrong, code, says) in [
        ("primary = 'x'", Code::InvalidConfig, "line 4, column 1"),
        ("lookup = 'x'", Code::InvalidConfig, "line 4, column 10"),
        ("schema = [{ name = 'a', type = 'text' }]", Code::InvalidConfig, "text"),
        ("lookup = ['x', 'x']", Code::InvalidConfig, "named twice"),
        ("lookup = ['x']\nschema = [{ name = 'a', type = 'long' }]", Code::UnknownColumn, "column: x"),
    ] {
        let text = format!("[datasets.good]\nlookup = ['s']\n[datasets.bad]\n{wrong}\n[datasets.zero]\n");
        let mut registry = Registry::from_toml(&text).unwrap().from_file("some.toml");
        assert_eq!(registry.get("good").unwrap().unwrap().lookup(), Some(&["s".to_owned()][..]), "{wrong}");
        assert!(registry.get("zero").unwrap().is_some(), "{wrong}");
        let error = registry.get("bad").unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        for part in [says, "dataset: bad", "file: some.toml"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        let unusable: Vec<_> = registry.unusable().map(|(name, error)| (name, error.code())).collect();
        assert_eq!(unusable, [("bad", code)]);
        registry.register(Dataset::builder("bad").build().unwrap());
        assert!(registry.get("bad").unwrap().is_some() && registry.unusable().next().is_none());
    }
    let registry = Registry::from_toml("datasets.seven = 7").unwrap();
    assert_eq!(registry.get("seven").unwrap_err().code(), Code::InvalidConfig);
}
