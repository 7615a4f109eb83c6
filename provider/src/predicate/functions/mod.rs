//! Which functions of SQL are ours, so that a filter over them can be read?
//!
//! - [`transform`]: Iceberg's partition transforms as functions
//! - [`conversion`]: a cast that stays where it was written
//! - [`date_bin`] and [`date_trunc`]: the engine's, for every year

mod conversion;
mod date_bin;
mod date_trunc;
mod transform;

pub use conversion::Conversion;
pub use date_bin::{DateBin, date_bin_of_every_year};
pub use date_trunc::{DateTrunc, date_trunc_of_every_year};
pub use transform::{Apply, TransformFunction};
