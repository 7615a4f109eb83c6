//! How does a table look to DataFusion?
//!
//! Glue only: a [`TableProvider`] over one snapshot of one table, and the catalog and schema providers that find it.

mod external;
mod provider;
mod warehouse;

pub use external::External;
pub use provider::{Access, IcebergTable};
pub(crate) use warehouse::ident;
pub use warehouse::{CATALOG, DEFAULT_SCHEMA, Warehouse};
