//! What removes rows of a data file?
//!
//! ```text
//!   deletion vector     one data file, positions as a bitmap       v3; replaces the position deletes of its file
//!   position deletes    (file_path, pos) of one file or many       v2
//!   equality deletes    rows whose key columns are equal           v2, v3
//! ```

use std::ops::Range;
use std::sync::Arc;

use iceberg::spec::{DataContentType, DataFile, DataFileFormat};

use super::object::{Object, Places, Role};
use crate::error::{Code, Error, Result};
use crate::metadata::Entry;

/// What a delete file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteKind {
    /// Paths and positions, as Parquet.
    Positions,
    /// A bitmap of positions at these bytes of a Puffin file.
    Vector { blob: Range<u64> },
    /// Rows of the columns with these field ids, ascending, as Parquet.
    Equality { ids: Vec<i32> },
}

/// A delete file, or one deletion vector of such a file, with everything its manifest says of it.
#[derive(Clone, Debug)]
pub struct DeleteFile {
    entry: Entry,
    pub object: Arc<Object>,
    pub kind: DeleteKind,
}

impl DeleteFile {
    /// The delete file for an entry of a delete manifest. Refuses by name what can't be read.
    pub(super) fn new(entry: Entry, places: &mut Places<'_>) -> Result<DeleteFile> {
        let file = &entry.file;
        let path = file.file_path().to_owned();
        let object = Arc::new(Object::new(path, file.file_size_in_bytes(), Role::Deletes, places)?);
        let kind = kind(file, &object)?;
        let refuse = |what: String| Err(Error::new(Code::NotSupported, what).with("file", &object.location));
        if !matches!(kind, DeleteKind::Vector { .. }) && file.file_format() != DataFileFormat::Parquet {
            return refuse(format!("delete files of format {} cannot be read yet", file.file_format()));
        }
        if file.key_metadata().is_some() {
            return refuse("encrypted delete files cannot be read yet".to_owned());
        }
        Ok(DeleteFile { entry, object, kind })
    }

    /// The manifest entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The file as the manifest describes it.
    pub fn file(&self) -> &DataFile {
        &self.entry.file
    }
}

/// What an entry of a delete manifest is. The specification requires what is required here.
fn kind(file: &DataFile, object: &Object) -> Result<DeleteKind> {
    let place = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    match (file.content_type(), file.file_format()) {
        (DataContentType::Data, _) => Err(object.corrupt("a data file stands in a manifest of delete files")),
        (DataContentType::PositionDeletes, DataFileFormat::Puffin) => {
            if file.referenced_data_file().is_none() {
                return Err(object.corrupt("a deletion vector does not say which data file it belongs to"));
            }
            let (Some(start), Some(size)) = (place(file.content_offset()), place(file.content_size_in_bytes())) else {
                return Err(object.corrupt("a deletion vector does not say where in its file it stands"));
            };
            match start.checked_add(size).filter(|end| *end <= object.size) {
                Some(end) => Ok(DeleteKind::Vector { blob: start..end }),
                None => Err(object.corrupt("a deletion vector stands beyond the end of its file")),
            }
        }
        (DataContentType::PositionDeletes, _) => Ok(DeleteKind::Positions),
        (DataContentType::EqualityDeletes, _) => {
            let mut ids = file.equality_ids().unwrap_or_default();
            ids.sort_unstable();
            ids.dedup();
            match ids.is_empty() {
                true => Err(object.corrupt("an equality delete file does not say which columns it compares")),
                false => Ok(DeleteKind::Equality { ids }),
            }
        }
    }
}

/// The delete files that apply to one data file.
#[derive(Clone, Debug, Default)]
pub struct Deletes {
    /// Where there is one, it holds all positions.
    pub vector: Option<Arc<DeleteFile>>,
    pub positions: Vec<Arc<DeleteFile>>,
    pub equality: Vec<Arc<DeleteFile>>,
}

impl Deletes {
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DeleteFile>> {
        self.vector.iter().chain(&self.positions).chain(&self.equality)
    }

    /// How many rows they remove, where metadata tells: a deletion vector's record count is its cardinality, and its
    /// reader checks that (table specification, "Data File Fields", `record_count`).
    pub(super) fn counted(&self) -> Option<u64> {
        let only_vector = self.positions.is_empty() && self.equality.is_empty();
        only_vector.then(|| self.vector.as_ref().map_or(0, |vector| vector.file().record_count()))
    }
}
