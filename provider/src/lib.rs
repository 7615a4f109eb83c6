//! Timestamped event data as Apache Iceberg tables, laid out by day and clustered by lookup key.
//!
//! The modules are ranked; a module imports only modules of a lower rank (`docs/architecture.md`, checked by
//! `tests/tests/tidy.rs`).

pub mod catalog;
pub mod commit;
pub mod dataset;
pub mod error;
pub mod exec;
pub mod export;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod input;
pub mod layout;
pub mod metadata;
pub mod observe;
pub mod predicate;
pub mod scan;
pub mod schema;
pub mod session;
pub mod sink;
pub mod sql;
pub mod storage;
pub mod table;

pub use error::{Code, Error, Kind, Result};
pub use session::{Export, ExportProgress, Exported, Options, Running, Session, Statement};

/// The examples of the README, compiled.
#[cfg(doctest)]
#[derive(Debug)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
