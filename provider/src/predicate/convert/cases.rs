//! Which of several results does a row get?
//!
//! ```text
//! CASE WHEN a < 5 THEN b WHEN c THEN d ELSE 0 END = 7
//!      a < 5 AND b = 7   OR   NOT a < 5 AND c AND d = 7
//! coalesce(a, b, 0) < 7
//!      a < 7   OR   a IS NULL AND b < 7   OR   a IS NULL AND b IS NULL
//! nullif(a, b) = 7
//!      a = 7 AND NOT a = b
//! ```
//!
//! (`NOT` is meant of what isn't true, unknown included.) Joins wrap the filter of each of their partitions in a CASE over a
//! hash: of that nothing is known but that a row satisfies one of the results.

use std::sync::Arc;

use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::functions::core::nvl::NVLFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;

use super::super::Op;
use super::truth::Truth;
use super::{LONG_LIST, Scope};

/// Of a CASE with more branches, only the results are looked at: each branch excludes all before it.
const BRANCHES: usize = 16;

/// One of several results.
pub(super) enum Choice<'a> {
    Case(&'a CaseExpr),
    /// The first that isn't null.
    First(&'a [Arc<dyn PhysicalExpr>]),
    /// The first, unless it equals the second.
    Unless(&'a Arc<dyn PhysicalExpr>, &'a Arc<dyn PhysicalExpr>),
}

impl<'a> Choice<'a> {
    pub(super) fn of(expr: &'a Arc<dyn PhysicalExpr>) -> Option<Choice<'a>> {
        if let Some(case) = expr.as_any().downcast_ref::<CaseExpr>() {
            return Some(Choice::Case(case));
        }
        let function = expr.as_any().downcast_ref::<ScalarFunctionExpr>()?;
        let called = function.fun().inner().as_any();
        match function.args() {
            args if called.is::<CoalesceFunc>() || called.is::<NVLFunc>() => Some(Choice::First(args)),
            [value, unless] if called.is::<NullIfFunc>() => Some(Choice::Unless(value, unless)),
            _ => None,
        }
    }
}

impl Scope<'_> {
    pub(super) fn compare_choice(&self, choice: &Choice<'_>, op: Op, value: &ScalarValue) -> Truth {
        match choice {
            Choice::Case(case) => self.results(case, |result| self.compare(result, op, value)),
            Choice::First(args) => self.first(args, |arg| self.compare(arg, op, value)),
            Choice::Unless(arg, unless) => {
                Truth::all(vec![self.compare(arg, op, value), self.equal(arg, unless).otherwise()])
            }
        }
    }

    pub(super) fn null_choice(&self, choice: &Choice<'_>, null: bool) -> Truth {
        let not_null = match choice {
            Choice::Case(case) => self.results(case, |result| self.null_test(result, false)),
            Choice::First(args) => Truth::any(args.iter().map(|arg| self.null_test(arg, false)).collect()),
            Choice::Unless(arg, unless) => {
                Truth::all(vec![self.null_test(arg, false), self.equal(arg, unless).otherwise()])
            }
        };
        if null { not_null.otherwise() } else { not_null }
    }

    /// Where a row gets a result for which `of_result` is true. Without an ELSE the last result is null.
    pub(super) fn results(&self, case: &CaseExpr, of_result: impl Fn(&Arc<dyn PhysicalExpr>) -> Truth) -> Truth {
        let branches = case.when_then_expr();
        if branches.len() > BRANCHES {
            let results = branches.iter().map(|(_, then)| then).chain(case.else_expr());
            return Truth::within(Truth::any(results.map(of_result).collect()).possible, LONG_LIST);
        }
        let mut not_before: Vec<Truth> = Vec::new();
        let mut parts = Vec::new();
        for (when, then) in branches {
            let taken = match case.expr() {
                Some(base) => self.equal(base, when),
                None => self.truth(when, false),
            };
            let otherwise = taken.otherwise();
            parts.push(Truth::all(not_before.iter().cloned().chain([taken, of_result(then)]).collect()));
            not_before.push(otherwise);
        }
        if let Some(last) = case.else_expr() {
            parts.push(Truth::all(not_before.into_iter().chain([of_result(last)]).collect()));
        }
        Truth::any(parts)
    }

    /// Where `of_arg` is true of the first argument that isn't null; it is true of no null.
    fn first(&self, args: &[Arc<dyn PhysicalExpr>], of_arg: impl Fn(&Arc<dyn PhysicalExpr>) -> Truth) -> Truth {
        let mut null_before: Vec<Truth> = Vec::new();
        let mut parts = Vec::new();
        for arg in args {
            parts.push(Truth::all(null_before.iter().cloned().chain([of_arg(arg)]).collect()));
            null_before.push(self.null_test(arg, true));
        }
        Truth::any(parts)
    }

    fn equal(&self, left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>) -> Truth {
        let equal = BinaryExpr::new(Arc::clone(left), Operator::Eq, Arc::clone(right));
        let equal: Arc<dyn PhysicalExpr> = Arc::new(equal);
        self.truth(&equal, false)
    }
}
