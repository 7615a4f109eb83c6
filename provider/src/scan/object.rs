//! A file that a scan reads: where it is, how large, and what to call it when it can't be read.

use iceberg::spec::DataFile;

use crate::error::{Code, Error, Result};
use crate::metadata::Relocation;
use crate::storage::{Located, Stores};

/// What a file is to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Data,
    /// A position delete file, an equality delete file or a file of deletion vectors.
    Deletes,
}

/// A data file or delete file in its store.
#[derive(Clone, Debug)]
pub struct Object {
    /// Where the file is read from (after relocation).
    pub location: String,
    pub located: Located,
    /// Bytes, as the manifest has it.
    pub size: u64,
    pub role: Role,
}

impl Object {
    /// The file of a manifest entry.
    pub(super) fn new(file: &DataFile, role: Role, stores: &Stores, relocate: Option<&Relocation>) -> Result<Object> {
        let location = match relocate {
            Some(relocation) => relocation.apply(file.file_path()).into_owned(),
            None => file.file_path().to_owned(),
        };
        let located = stores.resolve(&location)?;
        Ok(Object { location, located, size: file.file_size_in_bytes(), role })
    }

    /// What messages call it.
    pub fn noun(&self) -> &'static str {
        match self.role {
            Role::Data => "data file",
            Role::Deletes => "delete file",
        }
    }

    /// The file isn't what its metadata says it is.
    pub fn corrupt(&self, what: impl Into<String>) -> Error {
        let code = match self.role {
            Role::Data => Code::DataFileCorrupt,
            Role::Deletes => Code::DeleteFileCorrupt,
        };
        Error::new(code, what).with("file", &self.location)
    }
}
