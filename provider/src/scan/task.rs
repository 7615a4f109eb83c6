//! One data file of a scan, the deletes that apply to it, and the parts it is cut into.

use std::ops::Range;
use std::sync::Arc;

use iceberg::spec::{DataFileFormat, Literal, PrimitiveLiteral, Schema, Struct, Transform};

use crate::error::{Code, Error, Result};
use crate::metadata::{Brief, Entry, Manifest};
use crate::predicate::Facts;

use super::changes::Change;
use super::deletes::{DeleteFile, Deletes};
use super::facts::{self, Partitioning};
use super::object::{Object, Places, Role};

/// A data file that a scan reads, with everything its manifest says of it.
#[derive(Clone, Debug)]
pub struct Task {
    manifest: Arc<Manifest>,
    at: usize,
    /// With the metrics of the columns that the query is about.
    brief: Arc<Brief>,
    /// Where the file is read from.
    pub object: Arc<Object>,
    /// What removes rows of it.
    pub deletes: Deletes,
    /// Wanted are only rows that these remove, of those that `deletes` leave.
    pub only_removed: Option<Deletes>,
    /// How its rows changed, in a scan of changes.
    pub change: Option<Change>,
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
    /// The task for entry `at` of a manifest, of which `brief` was read. Refuses by name what can't be read.
    pub(super) fn new(
        (manifest, at): (&Arc<Manifest>, usize),
        brief: Arc<Brief>,
        partitioning: &Arc<Partitioning>,
        places: &mut Places<'_>,
    ) -> Result<Task> {
        let refuse = |what: &str| Err(Error::new(Code::NotSupported, what).with("file", &brief.path));
        if brief.format != DataFileFormat::Parquet {
            return refuse(&format!("data files of format {} cannot be read yet", brief.format));
        }
        if brief.encrypted {
            return refuse("encrypted data files cannot be read yet");
        }
        let object = Arc::new(Object::new(brief.path.clone(), brief.size, Role::Data, places)?);
        let (manifest, partitioning) = (Arc::clone(manifest), Arc::clone(partitioning));
        let deletes = Deletes::default();
        Ok(Task { manifest, at, brief, object, deletes, only_removed: None, change: None, partitioning })
    }

    /// The file's location as the manifest has it: what delete files call it.
    pub fn file_path(&self) -> &str {
        &self.brief.path
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.brief.size
    }

    /// Stored bytes of a column, where the manifest tells.
    pub fn column_size(&self, field: i32) -> Option<u64> {
        let asked = self.brief.columns.iter().find(|column| column.id == field);
        asked.map_or_else(|| self.read(field)?.size, |column| column.size)
    }

    /// Where row groups start, where the manifest tells.
    pub fn split_offsets(&self) -> Option<&[i64]> {
        self.brief.split_offsets.as_deref()
    }

    /// Rows in the file, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.manifest.record_count(self.at)
    }

    /// Rows of the file that are not deleted, where metadata alone tells: a deletion vector counts its rows, other deletes
    /// may name a row twice, or none.
    pub fn live_rows(&self) -> Option<u64> {
        match self.only_removed {
            Some(_) => None,
            None => Some(self.rows().saturating_sub(self.deletes.counted()?)),
        }
    }

    /// Every delete file that must be read to know which rows are wanted.
    pub fn delete_files(&self) -> impl Iterator<Item = &Arc<DeleteFile>> {
        self.deletes.iter().chain(self.only_removed.iter().flat_map(Deletes::iter))
    }

    /// Everything that the manifest says of the file; `None` where its record can't be read any more.
    pub fn entry(&self) -> Option<Entry> {
        self.manifest.entry(self.at).ok()
    }

    /// Data sequence number.
    pub fn sequence_number(&self) -> i64 {
        self.manifest.sequence_number(self.at)
    }

    /// The id of its first row, where the table has row ids.
    pub fn first_row_id(&self) -> Option<i64> {
        self.manifest.first_row_id(self.at)
    }

    /// The id of the spec that the file is partitioned by.
    pub fn spec_id(&self) -> i32 {
        self.manifest.spec_id()
    }

    /// The file's partition, in the order of that spec; `None` for no value of any field.
    pub fn partition(&self) -> Option<&Struct> {
        self.manifest.tuples().get(self.manifest.tuple_of(self.at)?)
    }

    /// What the manifest knows of a column. One that the query wasn't said to be about is read from the entry's record.
    pub fn facts(&self, schema: &Schema, field: i32) -> Facts {
        facts::of_brief(&self.brief, schema, field, self.rows(), self.spec_id())
            .or_else(|| Some(facts::of_metrics(&self.read(field)?, schema, self.rows())))
            .unwrap_or_default()
    }

    fn read(&self, field: i32) -> Option<crate::metadata::ColumnMetrics> {
        // The record was read before. If it couldn't be, nothing would be known.
        self.manifest.brief(self.at, &[field]).ok()?.columns.pop()
    }

    /// What the partition tuple says of one of its fields.
    pub fn partition_facts(&self, field: i32) -> Facts {
        self.partition().map_or_else(Facts::default, |tuple| self.partitioning.of_tuple(tuple, field))
    }

    /// The value that every row has in the column with id `field`, if the partition tuple holds it (identity transform),
    /// as the column's type was when the file was written. The outer `None`: the tuple doesn't hold it; the inner: it is
    /// null.
    pub fn constant(&self, field: i32) -> Option<Option<&Literal>> {
        let identity = |f: &iceberg::spec::PartitionField| f.source_id == field && f.transform == Transform::Identity;
        let at = self.partitioning.spec.fields().iter().position(identity)?;
        self.partition()?.fields().get(at).map(Option::as_ref)
    }

    /// Orders files by the time they hold, then by when they were written: greater is newer.
    pub(super) fn age(&self) -> (i64, i64) {
        (self.days().unwrap_or(i64::MIN), self.sequence_number())
    }

    /// The first time-partition value, in days; coarse units become their first day.
    fn days(&self) -> Option<i64> {
        self.partitioning.spec.fields().iter().zip(self.partition()?.fields()).find_map(|(field, value)| {
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
