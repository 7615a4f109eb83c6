//! How does a cast stay where it was written?
//!
//! DataFusion's optimiser moves casts from a column to the constant it is compared with, whether or not that loses what the
//! cast drops: `CAST(10.50 AS BIGINT) = 10` becomes `10.50 = 10.00`. A cast that drops something is therefore planned as
//! this function, which does the same and which the optimiser doesn't know.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// `CAST(x AS type)`, or `TRY_CAST`, as a function.
#[derive(Debug)]
pub struct Conversion {
    name: String,
    to: DataType,
    soft: bool,
    signature: Signature,
}

impl Conversion {
    /// A cast to `to`; `soft` gives null where it would fail.
    pub fn new(to: DataType, soft: bool) -> Self {
        let name = format!("{}cast_to_{to}", if soft { "try_" } else { "" });
        Conversion { name, to, soft, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The type that values are cast to.
    pub fn target(&self) -> &DataType {
        &self.to
    }
}

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        (&self.to, self.soft) == (&other.to, other.soft)
    }
}

impl Eq for Conversion {}

impl Hash for Conversion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.to, self.soft).hash(state);
    }
}

impl ScalarUDFImpl for Conversion {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(field) = args.arg_fields.first() else { return plan_err!("{} takes one argument", self.name) };
        let field = field.as_ref().clone().with_name(&self.name).with_data_type(self.to.clone());
        let nullable = self.soft || field.is_nullable();
        Ok(Arc::new(field.with_nullable(nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = CastOptions { safe: self.soft, ..DEFAULT_CAST_OPTIONS };
        match args.args.as_slice() {
            [value] => value.cast_to(&self.to, Some(&options)),
            _ => exec_err!("{} takes one argument", self.name),
        }
    }
}
