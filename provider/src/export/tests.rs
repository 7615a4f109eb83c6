//! Exports through a session.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use crate::dataset::Dataset;
use crate::error::{Code, Result};
use crate::session::{Export, ExportProgress, Exported, Options, Session};

/// Two columns, `at` and `k`, that are required where it is said so.
fn dataset(at_required: bool, k_required: bool) -> Dataset {
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let fields = vec![Field::new("at", instant, !at_required), Field::new("k", DataType::Utf8, !k_required)];
    Dataset::builder("events").schema(Arc::new(Schema::new(fields))).primary_timestamp("at").build().unwrap()
}

async fn export(directory: &Path, dataset: Dataset, lines: &str) -> Result<Exported> {
    let input = directory.join("events.ndjson");
    fs::write(&input, lines).unwrap();
    let session = Session::new(Options::at(directory.join("warehouse").display().to_string()))?.with_dataset(dataset);
    let inputs = vec![input.display().to_string()];
    let request = Export { dataset: "events".to_owned(), inputs, ..Export::default() };
    session.export(request, ExportProgress::default()).await
}

#[tokio::test]
async fn a_blank_batch_id_is_none() {
    let session = Session::new(Options::at("memory://blank")).unwrap();
    for blank in ["", " \t"] {
        let query = Some("SELECT 1 AS n".to_owned());
        let batch_id = Some(blank.to_owned());
        let request = Export { dataset: "events".to_owned(), query, batch_id, ..Export::default() };
        let error = session.export(request, ExportProgress::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
}

#[tokio::test]
async fn what_is_declared_required_is_required() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for lines in ["{\"at\":null,\"k\":\"x\"}\n", "{\"k\":\"x\"}\n"] {
        let error = export(directory, dataset(true, false), lines).await.unwrap_err();
        assert_eq!(error.code(), Code::IcebergDataWriteFailed, "{error}");
        assert!(error.context().contains(&("column", "at".to_owned())), "{error}");
    }
    let row = "{\"at\":\"2026-06-04T00:00:00Z\",\"k\":null}\n";
    export(directory, dataset(true, false), row).await.unwrap();
    let session = Session::new(Options::at(directory.join("warehouse").display().to_string())).unwrap();
    let table = session.warehouse().table("main", "events").await.unwrap().unwrap();
    let nullable: Vec<bool> = table.schema().fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [false, true]);

    // The table remembers; a declaration can't require more than it does.
    let error = export(directory, dataset(false, false), "{\"at\":null}\n").await.unwrap_err();
    assert_eq!(error.code(), Code::IcebergDataWriteFailed, "{error}");
    let error = export(directory, dataset(true, true), row).await.unwrap_err();
    assert_eq!(error.code(), Code::IcebergSchemaIncompatible, "{error}");
    assert!(error.context().contains(&("column", "k".to_owned())), "{error}");
}
