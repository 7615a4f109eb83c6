//! How do files become rows?

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Code, Error, Result};
use crate::scan::{ScanReport, View};

/// Plans a scan of `view` and returns the plan node that runs it: the whole of `TableProvider::scan`.
/// `projection` indexes the view's Arrow schema; `filters` are logical, already coerced.
pub async fn scan(
    _view: &Arc<View>,
    _state: &dyn Session,
    _projection: Option<&Vec<usize>>,
    _filters: &[Expr],
    _limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Err(Error::new(Code::Internal, "stub"))
}

/// The reports of all our scans in a physical plan, in pre-order. Levels that only execution knows are filled once the
/// plan has run to its end.
pub fn reports(_plan: &Arc<dyn ExecutionPlan>) -> Vec<ScanReport> {
    Vec::new()
}

/// The report of a scan that planning alone can give.
pub async fn explain(_view: &Arc<View>, _state: &dyn Session, _filters: &[Expr]) -> Result<ScanReport> {
    Err(Error::new(Code::Internal, "stub"))
}
