//! What does a manifest hold, in little memory?
//!
//! ```text
//! heads    status, sequence numbers, row ids, rows, where the record starts   one of a fixed size for each entry
//! tuples   the partitions, each once                                          entries know theirs by number
//! records  paths, metrics, bounds                                             as they were written, read when asked for
//! ```
//!
//! A predicate over partitions is decided once for each of a manifest's tuples, and only what survives has its record read.

use std::collections::HashMap;
use std::sync::Arc;

use iceberg::spec::{
    FormatVersion, ManifestContentType, ManifestFile, ManifestStatus, PartitionSpec, SchemaRef, Struct,
};

use parking_lot::Mutex;

use super::avro::{self, Cursor, Type};
use super::layout::{Layout, Layouts};
use super::record::{self, Brief, Record};
use super::{Entry, ids, list};
use crate::error::{Error, Result};

/// A manifest as it was read. Its entries are named by their place, in file order, deleted ones included.
pub struct Manifest {
    path: String,
    spec_id: i32,
    layout: Arc<Layout>,
    heads: Vec<Head>,
    tuples: Vec<Struct>,
    records: Vec<u8>,
    briefs: Mutex<Briefs>,
}

/// What was planned with last: a query that is asked again wants the same of each file.
#[derive(Default)]
struct Briefs {
    columns: Vec<i32>,
    of: Vec<Option<Arc<Brief>>>,
}

/// Bytes that the last query's brief of an entry takes, about, with the metrics of as many columns as are remembered.
const BRIEF: usize = 1024;
const REMEMBERED: usize = 6;

/// What is known of an entry without reading its record; everything inherited is filled in.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: ManifestStatus,
    /// Place in the manifest's tuples.
    tuple: u32,
    /// Where the data file's record starts.
    start: u32,
    snapshot_id: i64,
    sequence_number: i64,
    file_sequence_number: Option<i64>,
    first_row_id: Option<i64>,
    record_count: u64,
}

impl Manifest {
    /// Decodes a manifest's file, which its list calls `file` and which is stored at `path`.
    pub(super) fn read(
        bytes: &[u8],
        path: &str,
        file: &ManifestFile,
        layouts: &Layouts,
    ) -> std::result::Result<Manifest, String> {
        let avro = avro::read(bytes)?;
        let layout = layouts.of(&avro.meta)?;
        Manifest::of(avro, layout, path, file)
    }

    /// Decodes a manifest that the snapshot `snapshot_id` names without a list: its header says of which partition spec it is.
    pub(super) fn read_unlisted(
        bytes: &[u8],
        path: &str,
        snapshot_id: i64,
        layouts: &Layouts,
    ) -> std::result::Result<Manifest, String> {
        let avro = avro::read(bytes)?;
        let layout = layouts.of(&avro.meta)?;
        let partition_spec_id = layout.spec.spec_id();
        let file = ManifestFile { partition_spec_id, added_snapshot_id: snapshot_id, ..list::blank() };
        Manifest::of(avro, layout, path, &file)
    }

    fn of(
        avro: avro::File,
        layout: Arc<Layout>,
        path: &str,
        file: &ManifestFile,
    ) -> std::result::Result<Manifest, String> {
        let mut heads = Vec::with_capacity(avro.room());
        let mut tuples = Tuples::default();
        let mut row_ids = RowIds::of(file);
        avro.records(|start, at| {
            heads.push(head(&layout, file, start, at, &mut tuples, &mut row_ids)?);
            Ok(())
        })?;
        let tuples = tuples.distinct;
        Ok(Manifest {
            path: path.to_owned(),
            spec_id: file.partition_spec_id,
            layout,
            heads,
            tuples,
            records: avro.payload,
            briefs: Mutex::default(),
        })
    }

    /// What a list of the snapshot `snapshot_id` would say of this manifest, which it calls `path`; nothing of its partitions.
    ///
    /// # Errors
    /// `manifest_corrupt` for one of delete files, which snapshots with a list only have.
    pub(super) fn listed(&self, path: &str, snapshot_id: i64) -> Result<ManifestFile> {
        if self.layout.content == ManifestContentType::Deletes {
            return Err(
                self.corrupt("it is of delete files, and named by a snapshot without a manifest list".to_owned())
            );
        }
        let count = |status| {
            let files = self.heads.iter().filter(|head| head.status == status);
            let (files, rows) =
                files.fold((0, 0_u64), |(n, rows), head| (n + 1, rows.saturating_add(head.record_count)));
            (Some(files), Some(rows))
        };
        let (added_files_count, added_rows_count) = count(ManifestStatus::Added);
        let (existing_files_count, existing_rows_count) = count(ManifestStatus::Existing);
        let (deleted_files_count, deleted_rows_count) = count(ManifestStatus::Deleted);
        Ok(ManifestFile {
            manifest_path: path.to_owned(),
            partition_spec_id: self.spec_id,
            // Which one it was nobody says. To be taken for each snapshot's own is what the reference implementation does.
            added_snapshot_id: snapshot_id,
            added_files_count,
            existing_files_count,
            deleted_files_count,
            added_rows_count,
            existing_rows_count,
            deleted_rows_count,
            ..list::blank()
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The schema the manifest was written under. Bounds of columns it does not have are not known.
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// The spec the manifest was written under.
    pub fn spec(&self) -> &PartitionSpec {
        &self.layout.spec
    }

    /// The id of that spec in the table.
    pub fn spec_id(&self) -> i32 {
        self.spec_id
    }

    /// The places of the entries whose files are part of the table at the snapshot whose manifest this is.
    pub fn live(&self) -> impl Iterator<Item = usize> + '_ {
        let heads = self.heads.iter().enumerate();
        heads.filter(|(_, head)| head.status != ManifestStatus::Deleted).map(|(at, _)| at)
    }

    /// The partitions of the files, each once.
    pub fn tuples(&self) -> &[Struct] {
        &self.tuples
    }

    /// The place in [`Manifest::tuples`] of an entry's partition; `None` if there is no such entry.
    pub fn tuple_of(&self, at: usize) -> Option<usize> {
        self.heads.get(at).map(|head| head.tuple as usize)
    }

    /// Data sequence number of an entry; 0 if there is no such entry.
    pub fn sequence_number(&self, at: usize) -> i64 {
        self.heads.get(at).map_or(0, |head| head.sequence_number)
    }

    /// The id of the first row of an entry's file, inherited where it is; `None` where there is none.
    pub fn first_row_id(&self, at: usize) -> Option<i64> {
        self.heads.get(at)?.first_row_id
    }

    /// Whether the snapshot `id` added an entry's file.
    pub fn is_added_by(&self, at: usize, id: i64) -> bool {
        self.heads.get(at).is_some_and(|head| head.status == ManifestStatus::Added && head.snapshot_id == id)
    }

    /// Rows in an entry's file, deleted ones included; 0 if there is no such entry.
    pub fn record_count(&self, at: usize) -> u64 {
        self.heads.get(at).map_or(0, |head| head.record_count)
    }

    /// What planning asks of an entry's file, with the metrics of `columns` (field ids, ascending).
    ///
    /// # Errors
    /// `manifest_corrupt` where the record lacks what every record has.
    pub fn brief(&self, at: usize, columns: &[i32]) -> Result<Brief> {
        let read = || self.record(at, Some(columns))?.1.brief(&self.layout.schema, columns);
        read().map_err(|reason| self.corrupt(reason))
    }

    /// The same, remembered until other columns are asked for. A query about many columns wants most of what the record
    /// holds, which is kept once: its briefs are not remembered.
    ///
    /// # Errors
    /// As [`Manifest::brief`].
    pub fn brief_again(&self, at: usize, columns: &[i32]) -> Result<Arc<Brief>> {
        if columns.len() > REMEMBERED {
            return Ok(Arc::new(self.brief(at, columns)?));
        }
        {
            let briefs = self.briefs.lock();
            if briefs.columns == columns
                && let Some(Some(brief)) = briefs.of.get(at)
            {
                return Ok(Arc::clone(brief));
            }
        }
        let brief = Arc::new(self.brief(at, columns)?);
        let mut briefs = self.briefs.lock();
        if briefs.columns != columns || briefs.of.is_empty() {
            *briefs = Briefs { columns: columns.to_vec(), of: vec![None; self.len()] };
        }
        if let Some(slot) = briefs.of.get_mut(at) {
            *slot = Some(Arc::clone(&brief));
        }
        Ok(brief)
    }

    /// An entry with everything its record holds.
    ///
    /// # Errors
    /// As [`Manifest::brief`].
    pub fn entry(&self, at: usize) -> Result<Entry> {
        self.decode(at).map_err(|reason| self.corrupt(reason))
    }

    /// All of them.
    ///
    /// # Errors
    /// As [`Manifest::brief`].
    pub fn entries(&self) -> Result<Vec<Entry>> {
        (0..self.len()).map(|at| self.entry(at)).collect()
    }

    fn decode(&self, at: usize) -> std::result::Result<Entry, String> {
        let (head, record) = self.record(at, None)?;
        let tuple = self.tuples.get(head.tuple as usize).cloned().unwrap_or_else(Struct::empty);
        Ok(Entry {
            status: head.status,
            snapshot_id: head.snapshot_id,
            sequence_number: head.sequence_number,
            file_sequence_number: head.file_sequence_number,
            first_row_id: head.first_row_id,
            spec_id: self.spec_id,
            file: record.data_file(&self.layout.schema, self.spec_id, tuple)?,
        })
    }

    fn record(&self, at: usize, columns: Option<&[i32]>) -> std::result::Result<(&Head, Record<'_>), String> {
        let head = self.heads.get(at).ok_or_else(|| format!("it has no entry {at}"))?;
        let bytes = self.records.get(head.start as usize..).unwrap_or_default();
        Ok((head, Record::read(&self.layout.file, &mut Cursor::new(bytes), columns)?))
    }

    fn corrupt(&self, reason: String) -> Error {
        super::manifests::corrupt(&self.path, reason)
    }

    /// Bytes of memory, about. The layout is shared.
    pub(super) fn weight(&self) -> usize {
        let values: usize = self.tuples.iter().map(|tuple| size_of::<Struct>() + size_of_val(tuple.fields())).sum();
        let entries = size_of_val(self.heads.as_slice()) + self.len() * BRIEF;
        size_of::<Manifest>() + self.path.len() + entries + values + self.records.capacity()
    }
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manifest").field("path", &self.path).field("entries", &self.len()).finish_non_exhaustive()
    }
}

/// Partitions as they are found, each once.
#[derive(Default)]
struct Tuples<'a> {
    /// By their bytes: what is written alike is alike.
    known: HashMap<&'a [u8], u32>,
    distinct: Vec<Struct>,
}

impl<'a> Tuples<'a> {
    fn number(&mut self, layout: &Layout, partition: &Type, at: &mut Cursor<'a>) -> std::result::Result<u32, String> {
        let mut ahead = at.clone();
        partition.skip(&mut ahead)?;
        let bytes = at.take(at.left() - ahead.left())?;
        if let Some(known) = self.known.get(bytes) {
            return Ok(*known);
        }
        let number = u32::try_from(self.distinct.len()).map_err(|_| "too many partitions".to_owned())?;
        self.distinct.push(record::tuple(layout, partition, &mut Cursor::new(bytes))?);
        self.known.insert(bytes, number);
        Ok(number)
    }
}

/// Reads what every query needs of an entry, and steps over the rest.
fn head<'a>(
    layout: &Layout,
    file: &ManifestFile,
    start: usize,
    at: &mut Cursor<'a>,
    tuples: &mut Tuples<'a>,
    row_ids: &mut RowIds,
) -> std::result::Result<Head, String> {
    let before = at.left();
    let (mut status, mut snapshot_id, mut sequences, mut found) = (None, None, (None, None), None);
    layout.entry.fields(at, |field, at| {
        match field.id {
            Some(ids::STATUS) => status = field.ty.int(at)?,
            Some(ids::SNAPSHOT_ID) => snapshot_id = field.ty.long(at)?,
            Some(ids::SEQUENCE_NUMBER) => sequences.0 = field.ty.long(at)?,
            Some(ids::FILE_SEQUENCE_NUMBER) => sequences.1 = field.ty.long(at)?,
            Some(ids::DATA_FILE) => {
                let start = start + (before - at.left());
                found = Some(Found::read(layout, &field.ty, start, at, tuples)?);
            }
            _ => field.ty.skip(at)?,
        }
        Ok(())
    })?;
    let found = found.ok_or("an entry has no data file")?;
    let status = status.ok_or("an entry has no status")?;
    let status = ManifestStatus::try_from(status).map_err(|e| e.to_string())?;
    if layout.version == FormatVersion::V1 {
        // There were none: all is as old as can be.
        sequences = (Some(0), Some(0));
    }
    let sequences = inherit(status, sequences, file).ok_or_else(|| {
        format!("the entry of {} has no sequence number and is not an added one", found.path.unwrap_or_default())
    })?;
    let record_count = record::unsigned(found.record_count, "record count")?;
    let first_row_id = row_ids.assign(status, found.first_row_id, record_count);
    Ok(Head {
        status,
        tuple: found.tuple.ok_or("an entry has no partition")?,
        start: u32::try_from(found.start).map_err(|_| "it is too large".to_owned())?,
        snapshot_id: snapshot_id.unwrap_or(file.added_snapshot_id),
        sequence_number: sequences.0,
        file_sequence_number: sequences.1,
        first_row_id: first_row_id.ok_or_else(|| format!("row ids overflow at {}", found.path.unwrap_or_default()))?,
        record_count,
    })
}

/// What is read of a data file's record at once.
struct Found<'a> {
    start: usize,
    path: Option<&'a str>,
    tuple: Option<u32>,
    record_count: Option<i64>,
    first_row_id: Option<i64>,
}

impl<'a> Found<'a> {
    fn read(
        layout: &Layout,
        file: &Type,
        start: usize,
        at: &mut Cursor<'a>,
        tuples: &mut Tuples<'a>,
    ) -> std::result::Result<Self, String> {
        let mut found = Found { start, path: None, tuple: None, record_count: None, first_row_id: None };
        file.fields(at, |field, at| {
            match field.id {
                Some(ids::FILE_PATH) => found.path = field.ty.text(at)?,
                Some(ids::PARTITION) => found.tuple = Some(tuples.number(layout, &field.ty, at)?),
                Some(ids::RECORD_COUNT) => found.record_count = field.ty.long(at)?,
                Some(ids::FIRST_ROW_ID) => found.first_row_id = field.ty.long(at)?,
                _ => field.ty.skip(at)?,
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// The data and file sequence number of an entry, with what it inherits from its manifest (table specification,
/// "Sequence number inheritance"); `None` where it has none and inherits none.
fn inherit(
    status: ManifestStatus,
    (data, file): (Option<i64>, Option<i64>),
    manifest: &ManifestFile,
) -> Option<(i64, Option<i64>)> {
    let inherits = status == ManifestStatus::Added || manifest.sequence_number == 0;
    let inherited = inherits.then_some(manifest.sequence_number);
    Some((data.or(inherited)?, file.or(inherited)))
}

/// Assigns row ids in file order (table specification, "First row ID inheritance"): to live data files that have none,
/// counting on from the manifest's own. A manifest without one has none to give, and what its entries claim is void.
struct RowIds(Option<i64>);

impl RowIds {
    fn of(manifest: &ManifestFile) -> Self {
        let is_data = manifest.content == ManifestContentType::Data;
        RowIds(manifest.first_row_id.filter(|_| is_data).and_then(|id| i64::try_from(id).ok()))
    }

    /// The outer `None`: there are no more ids.
    fn assign(&mut self, status: ManifestStatus, own: Option<i64>, rows: u64) -> Option<Option<i64>> {
        let Some(next) = self.0 else { return Some(None) };
        let rows = i64::try_from(rows).ok()?;
        if own.is_some() || status == ManifestStatus::Deleted {
            return own.is_none_or(|own| own.checked_add(rows).is_some()).then_some(own);
        }
        self.0 = Some(next.checked_add(rows)?);
        Some(Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_ids_end_where_numbers_do() {
        let mut ids = RowIds(Some(i64::MAX - 10));
        assert_eq!(ids.assign(ManifestStatus::Added, None, 10), Some(Some(i64::MAX - 10)));
        assert_eq!(ids.assign(ManifestStatus::Added, None, 1), None);
        assert_eq!(ids.assign(ManifestStatus::Existing, Some(i64::MAX - 1), 1), Some(Some(i64::MAX - 1)));
        assert_eq!(ids.assign(ManifestStatus::Existing, Some(i64::MAX - 1), 2), None);
    }

    #[test]
    fn only_added_entries_inherit_a_sequence_number() {
        let mut manifest = crate::metadata::tests::manifest_file();
        manifest.sequence_number = 3;
        assert_eq!(inherit(ManifestStatus::Added, (None, None), &manifest), Some((3, Some(3))));
        assert_eq!(inherit(ManifestStatus::Added, (Some(2), None), &manifest), Some((2, Some(3))));
        assert_eq!(inherit(ManifestStatus::Existing, (None, None), &manifest), None);
        assert_eq!(inherit(ManifestStatus::Existing, (Some(2), None), &manifest), Some((2, None)));
        // Manifests of format version 1: all is as old as can be.
        manifest.sequence_number = 0;
        assert_eq!(inherit(ManifestStatus::Existing, (None, None), &manifest), Some((0, Some(0))));
    }
}
