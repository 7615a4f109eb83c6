//! What is a dataset, and is its declaration valid?
//!
//! A dataset is registered once, in code or in `daygrain.toml`:
//!
//! ```toml
//! [datasets.ai_gateway_messages]
//! primary_timestamp = "message_created_at"
//! lookup = ["session_id", "conversation_id", "cwd", "date"]
//! ```
//!
//! From it the layout of its table is derived (`layout`): one partition a UTC day, sorted by the lookup columns.

mod file;
mod properties;

use std::collections::BTreeSet;

use arrow::datatypes::{DataType, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef, TimeUnit};

use crate::error::{Code, Error, Result};

pub use file::Registry;
pub use properties::{FIELDS, JSON, LOOKUP, NAME, PRIMARY_TIMESTAMP};

/// A field of the fuller declaration, which says how a cache partitions the same data. Only `identity` fields count: they
/// are lookup columns, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredField {
    /// Column name, to the letter.
    pub column: String,
    /// `identity`, or a transform that is of no concern here.
    pub transform: String,
    /// A missing column is an error; otherwise the field is skipped.
    pub required: bool,
}

/// A dataset's registration. Valid once built; against a schema it is checked by [`Dataset::resolve`].
// @spec L1
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    name: String,
    schema: Option<ArrowSchemaRef>,
    primary_timestamp: Option<String>,
    lookup: Option<Vec<String>>,
    fields: Vec<DeclaredField>,
    json: Vec<String>,
    table: Option<String>,
    inherited: Inherited,
}

/// Which parts of a declaration were handed down by a table, or are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inherited {
    timestamp: bool,
    lookup: bool,
    json: bool,
}

/// A declaration as it applies to one schema: every column in it exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The column whose day is the partition.
    pub primary_timestamp: Option<String>,
    /// The columns each partition is sorted by, in order.
    pub lookup: Vec<String>,
}

impl Dataset {
    /// Starts a registration.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder { dataset: Dataset { name: name.into(), ..Dataset::default() } }
    }

    /// The dataset's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declared schema; `None` infers it from the first input.
    pub fn schema(&self) -> Option<&ArrowSchemaRef> {
        self.schema.as_ref()
    }

    /// The declared primary timestamp column.
    pub fn primary_timestamp(&self) -> Option<&str> {
        self.primary_timestamp.as_deref()
    }

    /// The lookup columns that were named directly.
    pub fn lookup(&self) -> Option<&[String]> {
        self.lookup.as_deref()
    }

    /// The fuller declaration.
    pub fn fields(&self) -> &[DeclaredField] {
        &self.fields
    }

    /// Columns kept as canonical JSON text.
    pub fn json(&self) -> &[String] {
        &self.json
    }

    /// The table's name, `NS.NAME`, where it differs from the dataset's.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Columns declared with nanosecond timestamps.
    pub fn nanoseconds(&self) -> Vec<String> {
        let ns = |t: &DataType| matches!(t, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let fields = self.schema.iter().flat_map(|schema| schema.fields());
        fields.filter(|field| ns(field.data_type())).map(|field| field.name().clone()).collect()
    }

    /// The declaration as it applies to `schema`. What was named directly must exist; what a table handed down may be
    /// missing (the layout then differs, and is refused as drift); a declared field may be missing unless required.
    ///
    /// # Errors
    /// `unknown_column`.
    pub fn resolve(&self, schema: &ArrowSchema) -> Result<Resolved> {
        let exists = |column: &String| schema.fields().iter().any(|field| field.name() == column);
        let named = |column: &String, inherited: bool| -> Result<bool> {
            if exists(column) || inherited { Ok(exists(column)) } else { Err(self.unknown(column, schema)) }
        };
        let primary_timestamp = match &self.primary_timestamp {
            Some(column) if named(column, self.inherited.timestamp)? => Some(column.clone()),
            _ => None,
        };
        let mut lookup = Vec::new();
        if let Some(columns) = &self.lookup {
            for column in columns {
                if named(column, self.inherited.lookup)? {
                    lookup.push(column.clone());
                }
            }
        } else {
            for field in &self.fields {
                match exists(&field.column) {
                    false if field.required => return Err(self.unknown(&field.column, schema)),
                    true if field.transform == "identity" => lookup.push(field.column.clone()),
                    _ => {}
                }
            }
        }
        Ok(Resolved { primary_timestamp, lookup })
    }

    /// Checks that top-level columns declared as JSON text, and not handed down, exist in `schema` or `in_table`.
    ///
    /// # Errors
    /// `unknown_column`.
    pub fn check_json(&self, schema: &ArrowSchema, in_table: impl Fn(&str) -> bool) -> Result<()> {
        let exists = |column: &str| schema.fields().iter().any(|field| field.name() == column) || in_table(column);
        let mut columns = self.json.iter().filter(|_| !self.inherited.json);
        match columns.find(|column| !column.contains(['.', '[']) && !exists(column)) {
            Some(column) => Err(self.unknown(column, schema)),
            None => Ok(()),
        }
    }

    /// The same dataset with what `flags` say directly instead, and what neither says taken from `table`.
    #[must_use]
    pub fn merged(flags: Dataset, registered: Option<&Dataset>, table: Option<&Dataset>) -> Dataset {
        let direct = registered.cloned().unwrap_or_default();
        let mut merged = Dataset {
            name: flags.name,
            schema: flags.schema.or(direct.schema),
            primary_timestamp: flags.primary_timestamp.or(direct.primary_timestamp),
            lookup: flags.lookup.or(direct.lookup),
            fields: if flags.fields.is_empty() { direct.fields } else { flags.fields },
            json: if flags.json.is_empty() { direct.json } else { flags.json },
            table: flags.table.or(direct.table),
            inherited: Inherited::default(),
        };
        merged.inherited = Inherited {
            timestamp: merged.primary_timestamp.is_none(),
            lookup: merged.lookup.is_none() && merged.fields.is_empty(),
            json: merged.json.is_empty(),
        };
        if let Some(table) = table {
            merged.primary_timestamp = merged.primary_timestamp.or_else(|| table.primary_timestamp.clone());
            if merged.inherited.lookup {
                merged.lookup.clone_from(&table.lookup);
                merged.fields.clone_from(&table.fields);
            }
            if merged.inherited.json {
                merged.json.clone_from(&table.json);
            }
        }
        merged
    }

    /// The same dataset that also remembers `paths` as kept as JSON text.
    #[must_use]
    pub fn with_json_paths(mut self, paths: &[String]) -> Dataset {
        self.json.extend(paths.iter().cloned());
        self.json.sort();
        self.json.dedup();
        self
    }

    fn unknown(&self, column: &str, schema: &ArrowSchema) -> Error {
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let near = names.iter().find(|name| name.eq_ignore_ascii_case(column));
        let error = Error::new(Code::UnknownColumn, "the dataset names a column that its rows do not have")
            .with("dataset", &self.name)
            .with("column", column)
            .with("columns", names.join(", "));
        match near {
            Some(name) => error.help(format!("names are taken to the letter: did you mean {name}?")),
            None => error.help("name columns that exist, to the letter"),
        }
    }
}

/// Builds a [`Dataset`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    dataset: Dataset,
}

impl Builder {
    /// The dataset's schema; without it the first input decides.
    pub fn schema(mut self, schema: ArrowSchemaRef) -> Self {
        self.dataset.schema = Some(schema);
        self
    }

    /// The timestamp (or date) column whose UTC day is the partition.
    pub fn primary_timestamp(mut self, column: impl Into<String>) -> Self {
        self.dataset.primary_timestamp = Some(column.into());
        self
    }

    /// The lookup columns, in order. An empty list means no sort order.
    pub fn lookup<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.dataset.lookup = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// The fuller declaration, from which lookup columns follow where they are not named directly.
    pub fn fields(mut self, fields: impl IntoIterator<Item = DeclaredField>) -> Self {
        self.dataset.fields = fields.into_iter().collect();
        self
    }

    /// Columns kept as canonical JSON text.
    pub fn json<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.dataset.json = columns.into_iter().map(Into::into).collect();
        self
    }

    /// The table's name, `NS.NAME`, where it differs from the dataset's.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.dataset.table = Some(table.into());
        self
    }

    /// Checks the declaration.
    ///
    /// # Errors
    /// `invalid_config` for empty names and columns named twice; `unknown_column` where a schema is declared and lacks one.
    pub fn build(self) -> Result<Dataset> {
        let dataset = self.dataset;
        let invalid = |what: &str, value: &str| {
            Err(Error::new(Code::InvalidConfig, what).with("dataset", &dataset.name).with("value", value))
        };
        if dataset.name.trim().is_empty() {
            return invalid("a dataset needs a name", "");
        }
        let mut seen = BTreeSet::new();
        for column in dataset.lookup.iter().flatten() {
            if column.is_empty() || !seen.insert(column) {
                return invalid("a lookup column is empty or named twice", column);
            }
        }
        if dataset.primary_timestamp.as_deref() == Some("") {
            return invalid("the primary timestamp needs a column name", "");
        }
        if let Some(schema) = &dataset.schema {
            dataset.resolve(schema)?;
        }
        Ok(dataset)
    }
}

#[cfg(test)]
mod tests;
