//! What is a dataset, and is its declaration valid?

use arrow::datatypes::SchemaRef;

/// A field of the fuller declaration; only `identity` fields count as lookup columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredField {
    pub column: String,
    pub transform: String,
    pub required: bool,
}

/// A dataset as it was registered: valid once built.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub name: String,
    pub schema: Option<SchemaRef>,
    pub primary_timestamp: Option<String>,
    pub lookup: Vec<String>,
    pub json: Vec<String>,
}
