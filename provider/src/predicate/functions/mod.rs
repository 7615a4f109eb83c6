//! Which functions of SQL are ours, so that a filter over them can be read?
//!
//! - [`transform`]: Iceberg's partition transforms as functions
//! - [`conversion`]: a cast that stays where it was written

mod conversion;
mod transform;

pub use conversion::Conversion;
pub use transform::{Apply, TransformFunction};
