//! Which positions does a position delete file name?
//!
//! Two columns, `file_path` and `pos`, sorted by both; a file may have more. Only row groups whose paths may be asked for
//! are read, and each row ends in the bitmap of its path.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::statistics::Statistics;
use roaring::RoaringTreemap;

use super::Held;
use crate::error::{Error, Result};
use crate::exec::footer::Footer;
use crate::exec::guarded::Guarded;
use crate::exec::reader::{DecoderInput, FileIo};

/// Reserved field ids (table specification, "Reserved Field IDs"), and the names of those who write none.
const FILE_PATH: (i32, &str) = (i32::MAX - 101, "file_path");
const POS: (i32, &str) = (i32::MAX - 102, "pos");

/// Roughly what a position costs before its bitmap is measured.
const POSITION: usize = 2;

/// Deleted positions by the path of their data file.
#[derive(Debug, Default)]
pub(super) struct Positions {
    by_path: HashMap<String, Arc<RoaringTreemap>>,
    pub(super) size: usize,
    /// No row group was left out.
    pub(super) complete: bool,
}

impl Positions {
    pub(super) fn of(&self, path: &str) -> Option<&Arc<RoaringTreemap>> {
        self.by_path.get(path)
    }
}

/// Reads the positions for `wanted`, ascending paths, and whatever stands with them.
pub(super) async fn read(footer: &Footer, io: FileIo, wanted: &[String], held: &Held) -> Result<Positions> {
    let columns = [column(footer, FILE_PATH, &io)?, column(footer, POS, &io)?];
    let groups: Vec<usize> =
        (0..footer.metadata.num_row_groups()).filter(|group| may_name(footer, *group, columns[0], wanted)).collect();
    let complete = groups.len() == footer.metadata.num_row_groups();

    let metadata = Arc::clone(&footer.metadata);
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ArrowReaderMetadata::try_new(Arc::clone(&metadata), plain).map_err(|e| io.parquet(e))?;
    let mask = ProjectionMask::roots(reader.parquet_schema(), columns);
    let path_first = columns[0] < columns[1];
    let input = DecoderInput { io: io.clone(), metadata, touched: Arc::new(Mutex::default()) };
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(input, reader);
    let batches = builder.with_projection(mask).with_row_groups(groups).build();
    let mut batches = Guarded::new(batches.map_err(|e| io.parquet(e))?);

    let mut found: HashMap<String, RoaringTreemap> = HashMap::new();
    let mut reserved = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|e| io.parquet(e))?;
        held.grow(batch.num_rows() * POSITION)?;
        reserved += batch.num_rows() * POSITION;
        insert(&batch, path_first, &mut found).map_err(|what| io.corrupt(what))?;
    }
    let sizes = found.iter().map(|(path, positions)| path.len() + positions.serialized_size() + 128);
    let size = sizes.sum();
    held.adjust(reserved, size)?;
    let by_path = found.into_iter().map(|(path, positions)| (path, Arc::new(positions))).collect();
    Ok(Positions { by_path, size, complete })
}

/// The root column of a field.
fn column(footer: &Footer, (id, name): (i32, &str), io: &FileIo) -> Result<usize> {
    let by_name = || {
        let fields = footer.metadata.file_metadata().schema_descr().root_schema().get_fields();
        fields.iter().position(|field| field.name() == name && !field.get_basic_info().has_id())
    };
    let missing = || -> Error { io.corrupt("a position delete file lacks a required column").with("column", name) };
    footer.root(id).or_else(by_name).ok_or_else(missing)
}

/// Whether a row group may name one of `wanted`, by the bounds of its paths.
fn may_name(footer: &Footer, group: usize, root: usize, wanted: &[String]) -> bool {
    let schema = footer.metadata.file_metadata().schema_descr();
    let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == root);
    let group = footer.metadata.row_groups().get(group);
    let chunk = leaf.and_then(|leaf| group?.columns().get(leaf)).and_then(|chunk| chunk.statistics());
    let Some(Statistics::ByteArray(paths)) = chunk.filter(|statistics| !statistics.is_min_max_deprecated()) else {
        return true;
    };
    let (Some(min), Some(max)) = (paths.min_bytes_opt(), paths.max_bytes_opt()) else {
        return true;
    };
    let first = wanted.partition_point(|path| path.as_bytes() < min);
    wanted.get(first).is_some_and(|path| path.as_bytes() <= max)
}

fn insert(batch: &RecordBatch, path_first: bool, found: &mut HashMap<String, RoaringTreemap>) -> Result<(), String> {
    let [path, pos] = if path_first { [0, 1] } else { [1, 0] };
    let paths: Option<&StringArray> = batch.columns().get(path).and_then(|column| column.as_string_opt());
    let rows = batch.columns().get(pos).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let (Some(paths), Some(rows)) = (paths, rows) else {
        return Err("a position delete file's columns have other types than text and long".to_owned());
    };
    if paths.null_count() + rows.null_count() > 0 {
        return Err("a position delete file has a row without path or position".to_owned());
    }
    let mut from = 0;
    while from < paths.len() {
        let path = paths.value(from);
        let to = (from..paths.len()).find(|at| paths.value(*at) != path).unwrap_or(paths.len());
        if !found.contains_key(path) {
            found.insert(path.to_owned(), RoaringTreemap::new());
        }
        let Some(positions) = found.get_mut(path) else { continue };
        for pos in rows.values().iter().take(to).skip(from) {
            let pos = u64::try_from(*pos).map_err(|_| format!("a position delete file names the position {pos}"))?;
            positions.insert(pos);
        }
        from = to;
    }
    Ok(())
}
