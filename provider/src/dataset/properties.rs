//! How does a table remember its dataset?
//!
//! | property | value |
//! |---|---|
//! | `daygrain.dataset` | the dataset's name |
//! | `daygrain.primary-timestamp` | a column name |
//! | `daygrain.lookup` | JSON list of column names |
//! | `daygrain.fields` | JSON list of `{column, transform, required}` |
//! | `daygrain.json` | JSON list of the paths kept as JSON text |

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Dataset, DeclaredField, Inherited};
use crate::error::{Code, Error, Result};

/// Property: the dataset's name.
pub const NAME: &str = "daygrain.dataset";
/// Property: the primary timestamp column.
pub const PRIMARY_TIMESTAMP: &str = "daygrain.primary-timestamp";
/// Property: the lookup columns.
pub const LOOKUP: &str = "daygrain.lookup";
/// Property: the fuller declaration.
pub const FIELDS: &str = "daygrain.fields";
/// Property: paths kept as JSON text.
pub const JSON: &str = "daygrain.json";

#[derive(Serialize, Deserialize)]
struct Field {
    column: String,
    transform: String,
    #[serde(default)]
    required: bool,
}

impl Dataset {
    /// The declaration as table properties.
    pub fn to_properties(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::from([(NAME.to_owned(), self.name.clone())]);
        if let Some(column) = &self.primary_timestamp {
            out.insert(PRIMARY_TIMESTAMP.to_owned(), column.clone());
        }
        if let Some(lookup) = &self.lookup {
            out.insert(LOOKUP.to_owned(), serde_json::json!(lookup).to_string());
        }
        if !self.fields.is_empty() {
            let fields: Vec<serde_json::Value> = self
                .fields
                .iter()
                .map(|f| serde_json::json!({"column": f.column, "transform": f.transform, "required": f.required}))
                .collect();
            out.insert(FIELDS.to_owned(), serde_json::Value::Array(fields).to_string());
        }
        if !self.json.is_empty() {
            out.insert(JSON.to_owned(), serde_json::json!(self.json).to_string());
        }
        out
    }

    /// The declaration a table carries; `None` if it carries none.
    ///
    /// # Errors
    /// `invalid_config` for a property that is not what [`Dataset::to_properties`] writes.
    pub fn from_properties(properties: &HashMap<String, String>) -> Result<Option<Dataset>> {
        let Some(name) = properties.get(NAME) else { return Ok(None) };
        let fields: Option<Vec<Field>> = parse(properties, FIELDS)?;
        let fields = fields.unwrap_or_default().into_iter();
        Ok(Some(Dataset {
            name: name.clone(),
            primary_timestamp: properties.get(PRIMARY_TIMESTAMP).cloned(),
            lookup: parse(properties, LOOKUP)?,
            fields: fields
                .map(|f| DeclaredField { column: f.column, transform: f.transform, required: f.required })
                .collect(),
            json: parse(properties, JSON)?.unwrap_or_default(),
            inherited: Inherited { timestamp: true, lookup: true, json: true },
            ..Dataset::default()
        }))
    }
}

fn parse<T: for<'de> Deserialize<'de>>(properties: &HashMap<String, String>, key: &'static str) -> Result<Option<T>> {
    let Some(text) = properties.get(key) else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|e| {
        Error::new(Code::InvalidConfig, "a table property that describes its dataset cannot be read")
            .with("property", key)
            .with("value", text)
            .source(e)
    })
}
