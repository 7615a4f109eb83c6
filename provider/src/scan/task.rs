//! One data file of a scan, the deletes that apply to it, and the parts it is cut into.

use std::ops::Range;
use std::sync::Arc;

use iceberg::spec::{DataFile, Literal, PrimitiveLiteral, Schema, Transform};

use crate::error::{Code, Error, Result};
use crate::metadata::{Entry, Relocation};
use crate::predicate::Facts;
use crate::storage::Stores;

use super::deletes::Deletes;
use super::facts::{self, Partitioning};
use super::object::{Object, Role};

/// A data file that a scan reads, with everything its manifest says of it.
#[derive(Clone, Debug)]
pub struct Task {
    entries: Arc<Vec<Entry>>,
    at: usize,
    /// Where the file is read from.
    pub object: Arc<Object>,
    /// What removes rows of it.
    pub deletes: Deletes,
    /// By the spec that wrote the file's manifest.
    pub(crate) partitioning: Arc<Partitioning>,
}

/// A task, or the row groups of it that start in a byte range.
#[derive(Clone, Debug)]
pub struct Piece {
    pub task: Arc<Task>,
    /// `None`: the whole file.
    pub range: Option<Range<u64>>,
}

impl Piece {
    /// Bytes of the file that belong to the piece.
    pub fn bytes(&self) -> u64 {
        match &self.range {
            Some(range) => range.end.saturating_sub(range.start),
            None => self.task.bytes(),
        }
    }
}

impl Task {
    /// The task for entry `at` of a manifest. Refuses by name what can't be read.
    pub(super) fn new(
        entries: &Arc<Vec<Entry>>,
        at: usize,
        partitioning: &Arc<Partitioning>,
        stores: &Stores,
        relocate: Option<&Relocation>,
    ) -> Result<Task> {
        let file = &entries[at].file;
        let refuse = |what: &str| Err(Error::new(Code::NotSupported, what).with("file", file.file_path()));
        if file.file_format() != iceberg::spec::DataFileFormat::Parquet {
            return refuse(&format!("data files of format {} cannot be read yet", file.file_format()));
        }
        if file.key_metadata().is_some() {
            return refuse("encrypted data files cannot be read yet");
        }
        let object = Arc::new(Object::new(file, Role::Data, stores, relocate)?);
        let (entries, partitioning) = (Arc::clone(entries), Arc::clone(partitioning));
        Ok(Task { entries, at, object, deletes: Deletes::default(), partitioning })
    }

    /// The manifest entry.
    pub fn entry(&self) -> &Entry {
        // In range: `at` was an index of these entries when the task was made, and they never change.
        &self.entries[self.at]
    }

    /// The data file as the manifest describes it.
    pub fn file(&self) -> &DataFile {
        &self.entry().file
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.file().file_size_in_bytes()
    }

    /// Rows in the file, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.file().record_count()
    }

    /// Rows of the file that are not deleted, where metadata alone tells: a deletion vector counts its rows, other deletes
    /// may name a row twice, or none.
    pub fn live_rows(&self) -> Option<u64> {
        Some(self.rows().saturating_sub(self.deletes.counted()?))
    }

    /// What the manifest knows of a column.
    pub fn facts(&self, schema: &Schema, field: i32) -> Facts {
        facts::of_file(self.file(), schema, field)
    }

    /// What the partition tuple says of one of its fields.
    pub fn partition_facts(&self, field: i32) -> Facts {
        self.partitioning.of_tuple(self.file().partition(), field)
    }

    /// The value that every row has in the column with id `field`, if the partition tuple holds it (identity transform),
    /// as the column's type was when the file was written. The outer `None`: the tuple doesn't hold it; the inner: it is
    /// null.
    pub fn constant(&self, field: i32) -> Option<Option<&Literal>> {
        let identity = |f: &iceberg::spec::PartitionField| f.source_id == field && f.transform == Transform::Identity;
        let at = self.partitioning.spec.fields().iter().position(identity)?;
        self.file().partition().fields().get(at).map(Option::as_ref)
    }

    /// Orders files by the time they hold, then by when they were written: greater is newer.
    pub(super) fn age(&self) -> (i64, i64) {
        (self.days().unwrap_or(i64::MIN), self.entry().sequence_number)
    }

    /// The first time-partition value, in days; coarse units become their first day.
    fn days(&self) -> Option<i64> {
        self.partitioning.spec.fields().iter().zip(self.file().partition().fields()).find_map(|(field, value)| {
            let value = match value.as_ref()?.as_primitive_literal()? {
                PrimitiveLiteral::Int(value) => i64::from(value),
                _ => return None,
            };
            match field.transform {
                Transform::Day => Some(value),
                Transform::Hour => Some(value.div_euclid(24)),
                // Only the order matters, so a month may have 30.4 days and a year 365.25.
                Transform::Month => Some(value * 304 / 10),
                Transform::Year => Some(value * 36525 / 100),
                _ => None,
            }
        })
    }
}
