//! What do our statements mean?
//!
//! ```text
//! script ─ split ─▶ text ─ parse ─▶ Parsed ─┬─ ours: schemas, drops, external tables, SHOW, DESCRIBE ─▶ catalog
//!                                           ├─ refused by name
//!                                           └─ DataFusion's ─▶ plan
//! ```

mod ddl;
mod parse;
mod pruning;
mod refuse;

/// stub
pub async fn resolve_names(
    _s: &mut datafusion::sql::parser::Statement,
    _state: &datafusion::execution::SessionState,
) -> crate::Result<()> {
    Ok(())
}

pub use ddl::{Ddl, Listing, TableName};
pub use parse::{Parsed, Piece, parse, split};
pub use pruning::{Scanned, pruning_rows};
pub use refuse::{refused, writes};
