//! How does SQL text become a plan that means what it says?
//!
//! ```text
//! text ─ parse ─▶ statement ─ prepare: names, types of literals ─▶ statement ─ plan ─▶ plan ─ analyzer: exact timestamps ─▶ plan
//! ```

pub mod names;
pub mod timestamps;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;

use crate::error::Result;

/// What a parsed statement goes through before DataFusion plans it: [`timestamps::refine_literals`] and
/// [`names::resolve`], whose tables it returns.
pub async fn prepare(
    statement: &mut Statement,
    state: &SessionState,
) -> Result<Vec<(ResolvedTableReference, Arc<dyn TableProvider>)>> {
    timestamps::refine_literals(statement);
    names::resolve(statement, state).await
}
