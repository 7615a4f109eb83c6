//! A file that a scan reads: where it is, how large, and what to call it when it can't be read.

use crate::error::{Code, Error, Result};
use crate::metadata::Relocation;
use crate::storage::{Located, Resolver};

use super::View;

/// What a file is to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Data,
    /// A position delete file, an equality delete file or a file of deletion vectors.
    Deletes,
}

/// Where the files of a table are: many of them in the same few directories.
pub(super) struct Places<'a> {
    resolver: Resolver,
    relocate: Option<&'a Relocation>,
}

impl<'a> Places<'a> {
    pub(super) fn of(view: &'a View) -> Self {
        Places { resolver: Resolver::new(&view.env.stores), relocate: view.relocate.as_ref() }
    }
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
    /// The file that a manifest has at `path`, `size` bytes long.
    pub(super) fn new(path: String, size: u64, role: Role, places: &mut Places<'_>) -> Result<Object> {
        let location = match places.relocate {
            Some(relocation) => relocation.apply(&path).into_owned(),
            None => path,
        };
        let located = places.resolver.resolve(&location)?;
        Ok(Object { location, located, size, role })
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
