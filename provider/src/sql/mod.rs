//! What do our statements mean?
//!
//! ```text
//! script ─ split ─▶ text ─ parse ─▶ Parsed ─┬─ ours: schemas, drops, external tables, SHOW, DESCRIBE ─▶ catalog
//!                                           ├─ refused by name
//!                                           └─ DataFusion's ─▶ plan
//! ```

mod ddl;
pub mod names;
mod parse;
mod pruning;
mod refuse;
pub mod timestamps;

pub use ddl::{Ddl, Listing, TableName};
pub use parse::{Parsed, Piece, parse, split};
pub use pruning::{Scanned, pruning_rows};
pub use refuse::{refused, writes};
