//! What does a manifest list hold?
//!
//! The summaries of partitions are bytes whose meaning depends on the types of the partition fields. They are decoded once
//! for all queries: of ten thousand manifests that costs more than to test them.

use std::sync::Arc;

use iceberg::spec::{ByteBuf, FieldSummary, ManifestContentType, ManifestFile, PrimitiveType};
use parking_lot::RwLock;

use super::avro::{self, Cursor, Type};
use super::ids::{self, list};
use crate::predicate::{Facts, facts_of_summary};

/// Partition fields that a spec has at most: each takes many times its bytes once it is decoded.
const MOST_FIELDS: usize = 10_000;

/// The manifests of a snapshot, in the order of its list.
#[derive(Debug, Default)]
pub struct List {
    manifests: Vec<ManifestFile>,
    /// Of each spec that was asked for.
    summaries: RwLock<Vec<Arc<Summaries>>>,
}

/// The summaries of all manifests of one spec.
#[derive(Debug)]
pub struct Summaries {
    spec_id: i32,
    types: Vec<Option<PrimitiveType>>,
    /// By place in the list; empty for manifests of other specs.
    facts: Vec<Box<[Facts]>>,
}

impl Summaries {
    /// What is known of the partition field at `field` of the tuple over the files of the manifest at `at`.
    pub fn facts(&self, at: usize, field: usize) -> Facts {
        self.facts.get(at).and_then(|facts| facts.get(field)).cloned().unwrap_or_default()
    }
}

impl std::ops::Deref for List {
    type Target = [ManifestFile];

    fn deref(&self) -> &[ManifestFile] {
        &self.manifests
    }
}

impl List {
    /// Decodes a manifest list.
    pub(super) fn read(bytes: &[u8]) -> Result<List, String> {
        let avro = avro::read(bytes)?;
        let mut ty = avro::schema(&avro.meta)?;
        ids::number_list(&mut ty);
        let mut manifests = Vec::with_capacity(avro.room());
        avro.records(|_, at| {
            manifests.push(manifest(&ty, at)?);
            Ok(())
        })?;
        Ok(List::of(manifests))
    }

    pub(super) fn of(manifests: Vec<ManifestFile>) -> List {
        List { manifests, summaries: RwLock::default() }
    }

    /// The summaries of the manifests of a spec whose partition fields now have these types; a field without one is not
    /// known.
    pub fn summaries(&self, spec_id: i32, types: &[Option<PrimitiveType>]) -> Arc<Summaries> {
        let same = |known: &&Arc<Summaries>| known.spec_id == spec_id && known.types == types;
        if let Some(known) = self.summaries.read().iter().find(same) {
            return Arc::clone(known);
        }
        let decode = |manifest: &ManifestFile| -> Box<[Facts]> {
            let summaries = manifest.partitions.as_deref().filter(|_| manifest.partition_spec_id == spec_id);
            let each = summaries.unwrap_or_default().iter().zip(types);
            let facts = |(summary, ty): (&FieldSummary, &Option<PrimitiveType>)| {
                ty.as_ref().map_or_else(Facts::default, |ty| facts_of_summary(summary, ty))
            };
            each.map(facts).collect()
        };
        let facts = self.manifests.iter().map(decode).collect();
        let decoded = Arc::new(Summaries { spec_id, types: types.to_vec(), facts });
        let mut known = self.summaries.write();
        // Types change with the table's schema, which is seldom: the newest are asked for again.
        known.retain(|other| other.spec_id != spec_id);
        known.push(Arc::clone(&decoded));
        decoded
    }

    /// Bytes of memory, about, with the summaries of every spec decoded.
    pub(super) fn weight(&self) -> usize {
        let summary = |s: &FieldSummary| {
            let bytes = [&s.lower_bound, &s.upper_bound].into_iter().flatten().map(|b| b.len());
            // Once as bytes and once as values.
            size_of::<FieldSummary>() + size_of::<Facts>() + bytes.sum::<usize>() * 2
        };
        let manifest = |manifest: &ManifestFile| {
            let summaries = manifest.partitions.iter().flatten().map(summary);
            size_of::<(ManifestFile, Box<[Facts]>)>() + manifest.manifest_path.len() + summaries.sum::<usize>()
        };
        size_of::<List>() + self.manifests.iter().map(manifest).sum::<usize>()
    }
}

/// What is known of a manifest of which nothing is said: it is of data files and as old as can be.
pub(super) fn blank() -> ManifestFile {
    ManifestFile {
        manifest_path: String::new(),
        manifest_length: 0,
        partition_spec_id: 0,
        content: ManifestContentType::Data,
        sequence_number: 0,
        min_sequence_number: 0,
        added_snapshot_id: 0,
        added_files_count: None,
        existing_files_count: None,
        deleted_files_count: None,
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    }
}

/// Lists of format version 1 have neither content nor sequence numbers: their manifests are of data files and as old as
/// can be. Counts may be null, or their fields missing.
fn manifest(ty: &Type, at: &mut Cursor<'_>) -> Result<ManifestFile, String> {
    let (mut path, mut length, mut spec_id, mut snapshot_id) = (None, None, None, None);
    let mut manifest = blank();
    let there = ty.fields(at, |field, at| {
        let ty = &field.ty;
        match field.id {
            Some(list::MANIFEST_PATH) => path = ty.text(at)?.map(str::to_owned),
            Some(list::MANIFEST_LENGTH) => length = ty.long(at)?,
            Some(list::PARTITION_SPEC_ID) => spec_id = ty.int(at)?,
            Some(list::ADDED_SNAPSHOT_ID) => snapshot_id = ty.long(at)?,
            Some(list::CONTENT) => {
                let content = ty.int(at)?.unwrap_or_default();
                manifest.content = ManifestContentType::try_from(content).map_err(|e| e.to_string())?;
            }
            Some(list::SEQUENCE_NUMBER) => manifest.sequence_number = ty.long(at)?.unwrap_or_default(),
            Some(list::MIN_SEQUENCE_NUMBER) => manifest.min_sequence_number = ty.long(at)?.unwrap_or_default(),
            Some(list::ADDED_FILES) => manifest.added_files_count = count(ty, at)?,
            Some(list::EXISTING_FILES) => manifest.existing_files_count = count(ty, at)?,
            Some(list::DELETED_FILES) => manifest.deleted_files_count = count(ty, at)?,
            Some(list::ADDED_ROWS) => manifest.added_rows_count = count(ty, at)?,
            Some(list::EXISTING_ROWS) => manifest.existing_rows_count = count(ty, at)?,
            Some(list::DELETED_ROWS) => manifest.deleted_rows_count = count(ty, at)?,
            Some(list::PARTITIONS) => manifest.partitions = summaries(ty, at)?,
            Some(list::KEY_METADATA) => manifest.key_metadata = ty.bytes(at)?.map(<[u8]>::to_vec),
            Some(list::FIRST_ROW_ID) => manifest.first_row_id = count(ty, at)?,
            _ => ty.skip(at)?,
        }
        Ok(())
    })?;
    let missing = |what: &str| format!("a manifest has no {what}");
    there.ok_or("its schema is no record")?;
    manifest.manifest_path = path.ok_or_else(|| missing("path"))?;
    manifest.manifest_length = length.ok_or_else(|| missing("length"))?;
    manifest.partition_spec_id = spec_id.ok_or_else(|| missing("partition spec id"))?;
    manifest.added_snapshot_id = snapshot_id.ok_or_else(|| missing("snapshot id"))?;
    Ok(manifest)
}

fn count<T: TryFrom<i64>>(ty: &Type, at: &mut Cursor<'_>) -> Result<Option<T>, String> {
    let value = ty.long(at)?;
    value.map(|value| T::try_from(value).map_err(|_| format!("a manifest has a count of {value}"))).transpose()
}

fn summaries(ty: &Type, at: &mut Cursor<'_>) -> Result<Option<Vec<FieldSummary>>, String> {
    let mut summaries = Vec::new();
    let there = ty.items(at, |item, at| {
        // Where a writer left it out, anything may be there.
        let mut summary =
            FieldSummary { contains_null: true, contains_nan: None, lower_bound: None, upper_bound: None };
        item.fields(at, |field, at| {
            match field.id {
                Some(list::CONTAINS_NULL) => summary.contains_null = field.ty.boolean(at)?.unwrap_or(true),
                Some(list::CONTAINS_NAN) => summary.contains_nan = field.ty.boolean(at)?,
                Some(list::LOWER_BOUND) => summary.lower_bound = bound(&field.ty, at)?,
                Some(list::UPPER_BOUND) => summary.upper_bound = bound(&field.ty, at)?,
                _ => field.ty.skip(at)?,
            }
            Ok(())
        })?;
        if summaries.len() >= MOST_FIELDS {
            return Err(format!("a manifest has summaries of more than {MOST_FIELDS} partition fields"));
        }
        summaries.push(summary);
        Ok(())
    })?;
    Ok(there.then_some(summaries))
}

fn bound(ty: &Type, at: &mut Cursor<'_>) -> Result<Option<ByteBuf>, String> {
    Ok(ty.bytes(at)?.map(|bytes| ByteBuf::from(bytes.to_vec())))
}
