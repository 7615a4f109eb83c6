//! What went wrong, and what can the caller do about it?
//!
//! One error type for the whole library. A [`Code`] is a stable name that scripts match on and that has a page in
//! `docs/errors/`; its [`Kind`] says what the caller can do. Display is the shell's form:
//!
//! ```text
//! error[iceberg_partition_spec_drift]: the dataset no longer derives the table's partition spec
//!   table: main.messages
//!   derived: day(created_at)
//!   help: write to a table of another name (--table)
//! ```

mod causes;
mod engine;
mod panics;
mod words;

use std::fmt;
use std::sync::Arc;

pub(crate) use causes::{causes, code_of};
pub(crate) use panics::{Guarded, guarded};

/// The result of anything in this library that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong; change it.
    Rejected,
    /// The thing named does not exist.
    NotFound,
    /// Somebody else changed the table first; reload and decide again.
    Conflict,
    /// Whether the commit landed could not be determined; nothing was deleted.
    Unknown,
    /// Stored data or input data cannot be read as what it claims to be.
    Corrupt,
    /// Valid, but not supported by this version.
    Unsupported,
    /// A store or the operating system refused; trying again may help.
    Io,
    /// A limit of memory or disk was reached.
    Resources,
    /// A fault of this library.
    Internal,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal : $kind:ident;)*) => {
        /// The stable name of an error: one page each in `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, in the order of its declaration.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The snake_case name that never changes.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// What the caller can do about it.
            pub fn kind(self) -> Kind {
                match self { $(Code::$variant => Kind::$kind,)* }
            }
        }
    };
}

codes! {
    /// A column named by a flag, a builder or a file does not exist.
    UnknownColumn = "unknown_column": Rejected;
    /// A dataset that was named is not registered.
    UnknownDataset = "unknown_dataset": Rejected;
    /// A table that was named does not exist.
    UnknownTable = "unknown_table": NotFound;
    /// A schema (namespace) that was named does not exist.
    UnknownNamespace = "unknown_namespace": NotFound;
    /// A table has no such snapshot, branch or tag.
    UnknownSnapshot = "unknown_snapshot": NotFound;
    /// What changed between two snapshots cannot be told.
    ChangesUnavailable = "changes_unavailable": Rejected;
    /// A function that was named does not exist.
    UnknownFunction = "unknown_function": Rejected;
    /// The thing to create exists already.
    AlreadyExists = "already_exists": Rejected;
    /// A namespace to drop still holds tables.
    NamespaceNotEmpty = "namespace_not_empty": Rejected;
    /// A name matches several things and none of them exactly.
    AmbiguousName = "ambiguous_name": Rejected;
    /// A table or namespace name that no catalog can store.
    InvalidName = "invalid_name": Rejected;
    /// A dataset declaration or configuration file is not valid.
    InvalidConfig = "invalid_config": Rejected;
    /// A command line or option value is not valid.
    InvalidArgument = "invalid_argument": Rejected;
    /// SQL that does not parse.
    SqlSyntax = "sql_syntax": Rejected;
    /// SQL that parses and cannot be planned.
    SqlPlan = "sql_plan": Rejected;
    /// A value that a type cannot hold.
    InvalidValue = "invalid_value": Rejected;
    /// The derived partition spec differs from the table's.
    IcebergPartitionSpecDrift = "iceberg_partition_spec_drift": Rejected;
    /// The incoming schema cannot be appended to the table.
    IcebergSchemaIncompatible = "iceberg_schema_incompatible": Rejected;
    /// Rows that must not be written: a null in a required column, a value that does not fit.
    IcebergDataWriteFailed = "iceberg_data_write_failed": Rejected;
    /// An Arrow type that has no lossless Iceberg type.
    UnsupportedType = "unsupported_type": Unsupported;
    /// A statement, subcommand or table shape that this version refuses by name.
    NotSupported = "not_supported": Unsupported;
    /// A statement that would write, in a read-only session.
    ReadOnly = "read_only": Rejected;
    /// Another writer committed first and the change does not apply any more.
    CommitConflict = "commit_conflict": Conflict;
    /// The answer to a commit was lost; it may or may not have landed.
    CommitStateUnknown = "commit_state_unknown": Unknown;
    /// Table metadata that cannot be read.
    MetadataCorrupt = "metadata_corrupt": Corrupt;
    /// Table metadata of a format version that this version does not know.
    MetadataVersionUnsupported = "metadata_version_unsupported": Unsupported;
    /// A manifest or manifest list that cannot be read.
    ManifestCorrupt = "manifest_corrupt": Corrupt;
    /// A data file that cannot be read.
    DataFileCorrupt = "data_file_corrupt": Corrupt;
    /// A delete file or deletion vector that cannot be read, or is not what its manifest says.
    DeleteFileCorrupt = "delete_file_corrupt": Corrupt;
    /// An input file that cannot be read as its format.
    InputCorrupt = "input_corrupt": Corrupt;
    /// An input value that does not parse as the type its column has.
    InputValueInvalid = "input_value_invalid": Rejected;
    /// An input path or pattern that matches nothing.
    InputNotFound = "input_not_found": NotFound;
    /// A file or object that should be there is not.
    FileNotFound = "file_not_found": NotFound;
    /// A store that answered with an error.
    StorageFailed = "storage_failed": Io;
    /// A store that refused access.
    PermissionDenied = "permission_denied": Io;
    /// A store without room.
    StorageFull = "storage_full": Io;
    /// A location that no configured store serves.
    UnsupportedLocation = "unsupported_location": Unsupported;
    /// The memory limit was reached and the operation could not spill.
    MemoryLimit = "memory_limit": Resources;
    /// The query was interrupted.
    Interrupted = "interrupted": Rejected;
    /// The engine failed while it ran a query.
    QueryFailed = "query_failed": Rejected;
    /// A fault of this library.
    Internal = "internal": Internal;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone)]
struct Inner {
    code: Code,
    what: String,
    context: Vec<(&'static str, String)>,
    help: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// An error with a stable code, what happened, the facts around it, and what to do.
#[derive(Clone)]
pub struct Error(Box<Inner>);

impl Error {
    /// An error of `code` that says `what` happened in one sentence without a final dot.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Error(Box::new(Inner { code, what: what.into(), context: Vec::new(), help: None, source: None }))
    }

    /// Adds a fact: shown as a line of its own.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What the caller can do.
    pub fn kind(&self) -> Kind {
        self.0.code.kind()
    }

    /// What happened, in one sentence.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// The facts around it, in the order they were added.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }

    /// What to do about it.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.0.code, self.0.what)?;
        for (key, value) in &self.0.context {
            write!(f, "\n  {key}: {}", value.replace('\n', "\n    "))?;
        }
        if let Some(help) = &self.0.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        if let Some(source) = &self.0.source {
            write!(f, "\n  caused by: {source:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}
