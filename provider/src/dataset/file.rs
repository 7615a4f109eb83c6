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
//!
//! What is wrong with one declaration is no reason to do without the others: it is kept, for whoever asks for that dataset.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema as ArrowSchema};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{Dataset, DeclaredField};
use crate::error::{Code, Error, Result};
use crate::schema;

/// The datasets a session knows by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Each as it was declared, or why it cannot be used.
    datasets: BTreeMap<String, Result<Dataset>>,
}

/// What a file may hold, whatever its datasets declare.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "datasets")]
    _datasets: BTreeMap<String, IgnoredAny>,
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
        self.datasets.insert(dataset.name().to_owned(), Ok(dataset));
    }

    /// The dataset of that name.
    ///
    /// # Errors
    /// `invalid_config` and `unknown_column`, where it is registered and its declaration is not valid.
    pub fn get(&self, name: &str) -> Result<Option<&Dataset>> {
        self.datasets.get(name).map(Result::as_ref).transpose().map_err(Clone::clone)
    }

    /// Datasets that cannot be used, by name, each with what [`get`](Self::get) fails with.
    pub fn unusable(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.datasets.iter().filter_map(|(name, dataset)| Some((name.as_str(), dataset.as_ref().err()?)))
    }

    /// Reads the text of a `daygrain.toml`. A declaration that is not valid is an error of its dataset only.
    ///
    /// # Errors
    /// `invalid_config`, with line and column, for what is no TOML or has other keys than `datasets`.
    pub fn from_toml(text: &str) -> Result<Registry> {
        let unreadable = |what: &str, mut error: toml::de::Error| {
            error.set_input(Some(text));
            Error::new(Code::InvalidConfig, format!("{what} cannot be read"))
                .with("cause", error.to_string().trim_end())
        };
        let no_configuration = |e| unreadable("the configuration", e);
        toml::from_str::<File>(text).map_err(no_configuration)?;
        let root = DeTable::parse(text).map_err(no_configuration)?.into_inner();
        let mut registry = Registry::default();
        let tables = root.into_iter().filter_map(|(_, value)| match value.into_inner() {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        for (name, declared) in tables.flatten() {
            let name = name.into_inner().into_owned();
            let entry = Entry::deserialize(ValueDeserializer::from(declared));
            let dataset = entry
                .map_err(|e| unreadable("the declaration of a dataset", e).with("dataset", &name))
                .and_then(|entry| entry.dataset(name.clone()));
            registry.datasets.insert(name, dataset);
        }
        Ok(registry)
    }

    /// The same registry, whose errors say which file it was read from.
    #[must_use]
    pub fn from_file(mut self, path: &str) -> Registry {
        for dataset in self.datasets.values_mut() {
            if let Err(error) = dataset {
                *error = error.clone().with("file", path);
            }
        }
        self
    }
}

impl Entry {
    fn dataset(self, name: String) -> Result<Dataset> {
        let mut builder = Dataset::builder(&name).json(self.json);
        if let Some(columns) = self.schema {
            let fields: Result<Vec<Field>> =
                columns.into_iter().map(|c| schema::field(&c.name, &c.column_type, !c.required)).collect();
            let fields = fields.map_err(|e| e.with("dataset", &name))?;
            builder = builder.schema(Arc::new(ArrowSchema::new(fields)));
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
