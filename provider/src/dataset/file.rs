//! What does `daygrain.toml` register?
//!
//! ```toml
//! [datasets.ai_gateway_messages]
//! primary_timestamp = "message_created_at"
//! lookup = ["session_id", "conversation_id", "cwd", "date"]
//! json = ["attributes"]
//! table = "logs.messages"
//! schema = [
//!   { name = "message_created_at", type = "timestamptz", required = true },
//!   { name = "session_id", type = "string" },
//! ]
//! fields = [{ column = "session_id", transform = "identity", required = true }]
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema as ArrowSchema};
use serde::Deserialize;

use super::{Dataset, DeclaredField};
use crate::error::{Code, Error, Result};
use crate::schema;

/// The datasets a session knows by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    datasets: BTreeMap<String, Dataset>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    datasets: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    primary_timestamp: Option<String>,
    lookup: Option<Vec<String>>,
    #[serde(default)]
    json: Vec<String>,
    table: Option<String>,
    schema: Option<Vec<Column>>,
    #[serde(default)]
    fields: Vec<Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    column_type: String,
    #[serde(default)]
    required: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    column: String,
    #[serde(default = "identity")]
    transform: String,
    #[serde(default)]
    required: bool,
}

fn identity() -> String {
    "identity".to_owned()
}

impl Registry {
    /// Registers a dataset, in place of one of the same name.
    pub fn register(&mut self, dataset: Dataset) {
        self.datasets.insert(dataset.name().to_owned(), dataset);
    }

    /// The dataset of that name.
    pub fn get(&self, name: &str) -> Option<&Dataset> {
        self.datasets.get(name)
    }

    /// Reads the text of a `daygrain.toml`.
    ///
    /// # Errors
    /// `invalid_config`, with line and column.
    pub fn from_toml(text: &str) -> Result<Registry> {
        let file: File = toml::from_str(text).map_err(|e| {
            Error::new(Code::InvalidConfig, "the configuration cannot be read").with("cause", e.to_string().trim_end())
        })?;
        let mut registry = Registry::default();
        for (name, entry) in file.datasets {
            registry.register(entry.dataset(name)?);
        }
        Ok(registry)
    }
}

impl Entry {
    fn dataset(self, name: String) -> Result<Dataset> {
        let mut builder = Dataset::builder(name).json(self.json);
        if let Some(columns) = self.schema {
            let fields: Result<Vec<Field>> =
                columns.into_iter().map(|c| schema::field(&c.name, &c.column_type, !c.required)).collect();
            builder = builder.schema(Arc::new(ArrowSchema::new(fields?)));
        }
        if let Some(column) = self.primary_timestamp {
            builder = builder.primary_timestamp(column);
        }
        if let Some(columns) = self.lookup {
            builder = builder.lookup(columns);
        }
        if let Some(table) = self.table {
            builder = builder.table(table);
        }
        let fields = self.fields.into_iter();
        builder
            .fields(fields.map(|f| DeclaredField { column: f.column, transform: f.transform, required: f.required }))
            .build()
    }
}
