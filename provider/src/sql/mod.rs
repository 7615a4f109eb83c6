//! What do our statements mean?
//!
//! ```text
//! script ─ split ─▶ text ─ parse ─▶ Parsed ─ prepare: names, types of literals ─┬─ ours: schemas, drops, SHOW … ─▶ catalog
//!                                                                               ├─ refused by name
//!                                                                               └─ plan ─ analyzer: exact timestamps ─▶ plan
//! ```

mod alike;
mod casts;
mod clauses;
mod ddl;
mod dialect;
mod extremes;
pub mod leaves;
mod listed;
mod lists;
pub mod names;
mod parse;
mod pruning;
mod recursion;
mod refuse;
mod rewrite;
mod sources;
pub mod timestamps;
mod transforms;
mod unparsed;
mod versions;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;

use crate::error::Result;

pub use alike::Alike;
pub use casts::KeptCasts;
pub use ddl::{Ddl, Listing, TableName};
pub use extremes::extremes;
pub use listed::Listed;
pub use lists::NullsApart;
pub use names::relations;
pub use parse::{Parsed, Piece, parse, split};
pub use pruning::{Scanned, pruning_rows};
pub use refuse::{refused, writes};
pub use sources::NoVersions;
pub use transforms::functions;

/// What a parsed statement goes through before DataFusion plans it: [`timestamps::refine_literals`], versions of tables,
/// changes and metadata columns, and [`names::resolve`], whose tables it returns.
///
/// # Errors
/// `ambiguous_name`, `unknown_snapshot`, `changes_unavailable`, and what loading a table meets.
// @spec S8
pub async fn prepare(
    statement: &mut Statement,
    state: &SessionState,
) -> Result<Vec<(ResolvedTableReference, Arc<dyn TableProvider>)>> {
    timestamps::refine_literals(statement, state.config_options().execution.time_zone.as_deref());
    listed::derive_lists(statement)?;
    sources::resolve(statement, state).await?;
    names::resolve(statement, state).await
}
