//! Which types are decided before any value is read?

use std::collections::HashMap;

use arrow::datatypes::{DataType, Schema};

use crate::error::{Code, Error, Result};
use crate::input::Options;
use crate::input::types::Type;

/// The columns whose type the existing table, or else the declaration, says.
#[derive(Debug)]
pub(super) struct Ruling {
    types: HashMap<String, Type>,
    /// Types that text can't fill: an error only where a column arrives.
    unsupported: HashMap<String, DataType>,
}

impl Ruling {
    pub(super) fn new(options: &Options) -> Self {
        let mut ruling = Ruling { types: HashMap::new(), unsupported: HashMap::new() };
        for schema in options.declared.iter().chain(&options.table) {
            ruling.rule(schema);
        }
        ruling
    }

    fn rule(&mut self, schema: &Schema) {
        for field in schema.fields() {
            match Type::of(field.data_type()) {
                Some(ty) => {
                    self.unsupported.remove(field.name());
                    self.types.insert(field.name().clone(), ty);
                }
                None => {
                    self.types.remove(field.name());
                    self.unsupported.insert(field.name().clone(), field.data_type().clone());
                }
            }
        }
    }

    /// The type of a column, if it is decided.
    pub(super) fn of(&self, column: &str) -> Option<&Type> {
        self.types.get(column)
    }

    /// Refuses columns that text input can't fill.
    ///
    /// Errors: `unsupported_type` with the column and its type.
    pub(super) fn check<'c>(&self, mut columns: impl Iterator<Item = &'c str>) -> Result<()> {
        let unsupported = columns.find_map(|name| Some((name, self.unsupported.get(name)?)));
        match unsupported {
            Some((name, ty)) => Err(Error::new(Code::UnsupportedType, "text input can't fill a column of this type")
                .with("column", name)
                .with("type", ty)),
            None => Ok(()),
        }
    }
}
