//! Which expressions of literals stand for instants although their type has no zone?
//!
//! ```text
//! ts >= TIMESTAMP '2024-01-01T00:00:00Z' - INTERVAL '1 hour'      the text has a zone, its type has none
//! ts >= TIMESTAMPTZ '2024-01-01T00:00:00Z' - INTERVAL '1 hour'    what is planned where `ts` has one
//! ```
//!
//! What is done to such a literal would hide that its text had a zone, and the session's would be read into the result.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator, TryCast, lit};

use super::compare::Comparer;
use super::moment::{Kind, Moment};
use super::reading::{parse, stored, string, written};

impl Comparer<'_> {
    /// `expr` with a zone, where `other` has one and `expr` has none but that of the texts it is made of: every date or
    /// timestamp in it that becomes its value is a literal with a zone in its text.
    pub(super) fn instants(&self, expr: &Expr, other: &Expr) -> Result<Option<Expr>> {
        if is_written_out(expr) {
            return Ok(None);
        }
        let met = self.kind(other).is_some_and(|kind| kind.zone.is_some());
        let bare = self.kind(expr).is_some_and(|kind| kind.zone.is_none());
        if !met || !bare {
            return Ok(None);
        }
        Ok(self.zoned(expr)?.filter(|zoned| self.kind(zoned).is_some_and(|kind| kind.zone.is_some())))
    }

    fn zoned(&self, expr: &Expr) -> Result<Option<Expr>> {
        match expr {
            Expr::Alias(alias) => self.zoned(&alias.expr),
            Expr::Cast(Cast { expr: inner, data_type }) | Expr::TryCast(TryCast { expr: inner, data_type }) => {
                match (string(inner), data_type) {
                    (Some(text), DataType::Timestamp(..)) => literal(text, data_type),
                    _ => Ok(None),
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
                let (left, right) = match (self.is_temporal(left), self.is_temporal(right)) {
                    (true, false) => (self.zoned(left)?, Some(right.as_ref().clone())),
                    (false, true) => (Some(left.as_ref().clone()), self.zoned(right)?),
                    _ => return Ok(None),
                };
                let sides = left.zip(right);
                Ok(sides.map(|(left, right)| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right)))))
            }
            Expr::Case(case) => self.zoned_case(case),
            Expr::ScalarFunction(call) => {
                let args = call.args.iter().map(|arg| self.part(arg)).collect::<Result<Option<Vec<_>>>>()?;
                let call = |args| Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args });
                Ok(args.map(call))
            }
            _ => Ok(None),
        }
    }

    fn zoned_case(&self, case: &Case) -> Result<Option<Expr>> {
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            let Some(then) = self.part(then)? else { return Ok(None) };
            branches.push((when.clone(), Box::new(then)));
        }
        let otherwise = match &case.else_expr {
            Some(otherwise) => match self.part(otherwise)? {
                Some(otherwise) => Some(Box::new(otherwise)),
                None => return Ok(None),
            },
            None => None,
        };
        Ok(Some(Expr::Case(Case::new(case.expr.clone(), branches, otherwise))))
    }

    /// A part of an expression: as it is where it is no date or timestamp.
    fn part(&self, expr: &Expr) -> Result<Option<Expr>> {
        if self.is_temporal(expr) { self.zoned(expr) } else { Ok(Some(expr.clone())) }
    }
}

/// A literal itself: it is compared as it is written, which may be finer than any type.
fn is_written_out(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_written_out(&alias.expr),
        Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) => string(inner).is_some(),
        _ => false,
    }
}

/// The instant that a text with a zone names.
fn literal(text: &str, data_type: &DataType) -> Result<Option<Expr>> {
    let Some(kind) = Kind::of(data_type).filter(|kind| kind.zone.is_none()) else { return Ok(None) };
    if !matches!(parse(text), Ok(Moment::Instant(..))) {
        return Ok(None);
    }
    let Some(kind) = Kind::of(&kind.with_zone(Some(Arc::from("UTC")))) else { return Ok(None) };
    Ok(stored(&written(text, &kind)?, &kind).map(|(value, _)| lit(value)))
}
