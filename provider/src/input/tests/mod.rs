//! Input files of every format, from bytes to batches or to the error that names file and line.

mod columnar;
mod csv;
mod lengths;
mod ndjson;
mod plan;
mod real;
mod round_trip;
mod ruling;
mod timestamp;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int32Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::{ExecutionPlanProperties, collect, displayable};
use expect_test::{Expect, expect};
use futures::StreamExt;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde_json::Value as Json;

use super::*;

/// Input files of one test.
struct Files {
    root: tempfile::TempDir,
    options: Options,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let this = Files { root: tempfile::tempdir().unwrap(), options: Options::default() };
        for (name, content) in files {
            this.add(name, content.as_bytes());
        }
        this
    }

    fn ndjson(content: &str) -> Self {
        Files::new(&[("a.ndjson", content)])
    }

    fn csv(content: &str) -> Self {
        Files::new(&[("a.csv", content)])
    }

    fn add(&self, name: &str, content: &[u8]) {
        fs::write(self.root.path().join(name), content).unwrap();
    }

    fn timestamp(mut self, column: &str) -> Self {
        self.options.primary_timestamp = Some(column.into());
        self
    }

    fn json(mut self, paths: &[&str]) -> Self {
        self.options.json = paths.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    fn table(mut self, fields: Vec<Field>) -> Self {
        self.options.table = Some(Arc::new(Schema::new(fields)));
        self
    }

    fn declared(mut self, fields: Vec<Field>) -> Self {
        self.options.declared = Some(Arc::new(Schema::new(fields)));
        self
    }

    fn open(&self) -> Result<Opened> {
        run(open(&[self.root.path().to_str().unwrap().to_owned()], &self.options, &Arc::default()))
    }

    fn read(&self) -> Result<(Opened, Vec<RecordBatch>)> {
        let opened = self.open()?;
        let batches = run(collect(Arc::clone(&opened.plan), Arc::default())).map_err(ours)?;
        assert_eq!(opened.bytes, opened.bytes_read.load(Ordering::Relaxed), "all bytes are read, and counted once");
        Ok((opened, batches))
    }

    /// The schema, the JSON paths and the rows, in one text.
    fn shown(&self) -> String {
        let (opened, batches) = match self.read() {
            Ok(read) => read,
            Err(e) => return self.error_text(&e),
        };
        let mut text = String::new();
        for field in opened.schema.fields() {
            text += &format!("{}: {}\n", field.name(), field.data_type());
        }
        if !opened.json_paths.is_empty() {
            text += &format!("json: {}\n", opened.json_paths.join(", "));
        }
        text + &lines(&batches)
    }

    fn error_text(&self, error: &Error) -> String {
        let root = format!("{}/", self.root.path().display());
        error.to_string().replace(&root, "") + "\n"
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.shown());
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future)
}

/// Our error within the engine's.
fn ours(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(e) => *e.downcast::<Error>().unwrap(),
        DataFusionError::Shared(e) => Error::new(Code::Internal, e.to_string()),
        other => panic!("{other}"),
    }
}

fn lines(batches: &[RecordBatch]) -> String {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    String::from_utf8(writer.into_inner()).unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

fn table() -> Vec<Field> {
    let inner = vec![Field::new("n", DataType::Int64, true), Field::new("unseen", DataType::Utf8View, true)];
    vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("any", DataType::Utf8View, true),
        Field::new("amount", DataType::Float64, true),
        Field::new("m", DataType::Struct(inner.into()), true),
        Field::new("unseen", DataType::Int64, false),
        Field::new("day", DataType::Date32, true),
    ]
}
