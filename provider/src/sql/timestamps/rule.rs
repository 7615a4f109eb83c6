//! Where in a plan do expressions compare timestamps?
//!
//! Everywhere: each node's expressions are rewritten bottom-up, subqueries included, under the schema of the node's
//! inputs. Keys of joins and sets of `IN (SELECT …)` stand apart from the comparisons that they are, and get their own rewrite.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions::core::arrow_cast::ArrowCastFunc;
use datafusion::logical_expr::expr::{Between, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, DmlStatement, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, Values,
    WriteOp, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::super::rewrite;
use super::compare::{Comparer, binary, is_comparison};
use super::moment::{Kind, Moment, Zones};
use super::reading::{converted, external, stored, string, written};
use crate::error::{Code, Error};

/// Makes every comparison of dates and timestamps exact: see the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactTimestamps;

impl AnalyzerRule for ExactTimestamps {
    fn name(&self) -> &str {
        "exact_timestamps"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !rewrite::concerns(&plan, compares, |expr| !is_bare(expr))? {
            return Ok(plan);
        }
        let zones = Zones::new(config.execution.time_zone.as_deref());
        let plan = plan.transform_down(|node| inserted(node, &zones))?.data;
        Ok(plan.transform_up_with_subqueries(|node| rewrite_node(node, &zones, config))?.data)
    }
}

/// A node that may be rewritten though its expressions are bare.
fn compares(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Join(_) | LogicalPlan::Filter(_) | LogicalPlan::Dml(_))
}

/// An expression that compares and converts nothing.
fn is_bare(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::AggregateFunction(_))
}

fn rewrite_node(node: LogicalPlan, zones: &Zones, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
    let schema = rewrite::columns_in_reach(&node)?;
    let comparer = Comparer { schema: &schema, zones, config };
    let filters = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let keyed = match node {
        LogicalPlan::Join(join) => rewrite_keys(join, &comparer)?,
        other => Transformed::no(other),
    };
    keyed.transform_data(|node| {
        rewrite::expressions(node, |expr| {
            let rewritten = expr.rewrite(&mut Rewriter { comparer: &comparer })?;
            let rewritten = rewritten.transform_data(|expr| expr.transform_up(settle))?;
            if filters { rewritten.transform_data(|expr| without_null(expr, false)) } else { Ok(rewritten) }
        })
    })
}

/// Keys of a join that have different types.
fn rewrite_keys(mut join: Join, comparer: &Comparer<'_>) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    let mut on = Vec::with_capacity(join.on.len());
    for (left, right) in join.on {
        match comparer.keys(&left, &right)? {
            Some(pairs) => {
                changed = true;
                on.extend(pairs);
            }
            None => on.push((left, right)),
        }
    }
    join.on = on;
    let plan = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

struct Rewriter<'a> {
    comparer: &'a Comparer<'a>,
}

impl TreeNodeRewriter for Rewriter<'_> {
    type Node = Expr;

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let rewritten = match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                self.comparer.compare(left, *op, right)?
            }
            Expr::Between(between) => self.between(between)?,
            Expr::InList(list) => self.in_list(list)?,
            Expr::InSubquery(set) => self.in_subquery(set)?,
            Expr::Case(case) => self.case(case)?,
            Expr::Cast(Cast { data_type, .. }) => match (self.comparer.moment(&expr), Kind::of(data_type)) {
                // Inexact and impossible ones wait for a comparison around them, then for `settle`; and those whose text
                // has a zone that their type can't keep.
                (Ok(Some(Moment::Instant(..))), Some(Kind { zone: None, .. })) => None,
                (Ok(Some(moment)), Some(kind)) => {
                    stored(&moment, &kind).filter(|(_, exact)| *exact).map(|(value, _)| lit(value))
                }
                _ => None,
            },
            Expr::ScalarFunction(call) => self.arrow_cast(call),
            _ => None,
        };
        Ok(match rewritten {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(expr),
        })
    }
}

impl Rewriter<'_> {
    fn compare(&self, left: &Expr, op: Operator, right: &Expr) -> Result<Expr> {
        let compared = self.comparer.compare(left, op, right)?;
        Ok(compared.unwrap_or_else(|| binary(left.clone(), op, right.clone())))
    }

    /// `arrow_cast(x, '…')` between dates and timestamps as the cast that it will become, so that comparisons see it.
    fn arrow_cast(&self, call: &ScalarFunction) -> Option<Expr> {
        let value = call.args.first()?;
        if !call.func.inner().as_any().is::<ArrowCastFunc>() || !self.comparer.is_temporal(value) {
            return None;
        }
        let target = self.comparer.kind(&Expr::ScalarFunction(call.clone()))?.data_type;
        Some(Expr::Cast(Cast::new(Box::new(value.clone()), target)))
    }

    fn between(&self, between: &Between) -> Result<Option<Expr>> {
        let Between { expr, negated, low, high } = between;
        let concerned = [expr, low, high].into_iter().any(|side| self.comparer.is_temporal(side));
        if !concerned || expr.is_volatile() {
            return Ok(None);
        }
        Ok(Some(if *negated {
            self.compare(expr, Operator::Lt, low)?.or(self.compare(expr, Operator::Gt, high)?)
        } else {
            self.compare(expr, Operator::GtEq, low)?.and(self.compare(expr, Operator::LtEq, high)?)
        }))
    }

    fn in_list(&self, set: &InList) -> Result<Option<Expr>> {
        let InList { expr, list, negated } = set;
        let concerned = self.comparer.is_temporal(expr) || list.iter().any(|item| self.comparer.is_temporal(item));
        if !concerned || expr.is_volatile() {
            return Ok(None);
        }
        let mut parts = Parts::default();
        for item in list {
            match self.compare(expr, Operator::Eq, item)? {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                    if matches!(*right, Expr::Literal(..)) =>
                {
                    parts.add(*left, *right);
                }
                never if Comparer::is_never(&never) => parts.nevers.push(never),
                other => parts.others.push(other),
            }
        }
        let any = parts.any();
        Ok(any.map(|any| if *negated { negate(any) } else { any }))
    }

    /// `CASE x WHEN a` as `CASE WHEN x = a`.
    fn case(&self, case: &Case) -> Result<Option<Expr>> {
        let Some(operand) = &case.expr else { return Ok(None) };
        let temporal = |expr: &Expr| self.comparer.is_temporal(expr);
        let concerned = temporal(operand) || case.when_then_expr.iter().any(|(when, _)| temporal(when));
        if !concerned || operand.is_volatile() {
            return Ok(None);
        }
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            branches.push((Box::new(self.compare(operand, Operator::Eq, when)?), then.clone()));
        }
        Ok(Some(Expr::Case(Case::new(None, branches, case.else_expr.clone()))))
    }

    /// `x IN (SELECT y …)` with a `y` of another type: the set's values as values of the type of `x`, without those that are none.
    fn in_subquery(&self, set: &InSubquery) -> Result<Option<Expr>> {
        let plan = &set.subquery.subquery;
        let Some((qualifier, field)) = plan.schema().iter().next() else { return Ok(None) };
        let kinds = (self.comparer.kind(&set.expr), Kind::of(field.data_type()));
        let (Some(subject), Some(member)) = kinds else { return Ok(None) };
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let Some(members) = self.comparer.members((&set.expr, subject), (&column, member))? else { return Ok(None) };
        let mut builder = LogicalPlanBuilder::from(Arc::clone(plan));
        if let Some(among) = members.among {
            builder = builder.filter(among)?;
        }
        let plan = builder.project([members.value.alias(field.name())])?.build()?;
        let subquery = Subquery { subquery: Arc::new(plan), ..set.subquery.clone() };
        Ok(Some(Expr::InSubquery(InSubquery::new(Box::new(members.subject), subquery, set.negated))))
    }
}

/// The comparisons that a list stands for: one list of literals for its main subject, and the rest.
#[derive(Default)]
struct Parts {
    list: Option<(Expr, Vec<Expr>)>,
    others: Vec<Expr>,
    /// True of no value, null for a null subject.
    nevers: Vec<Expr>,
}

impl Parts {
    fn add(&mut self, subject: Expr, item: Expr) {
        match &mut self.list {
            None => self.list = Some((subject, vec![item])),
            Some((known, items)) if *known == subject => items.push(item),
            Some(_) => self.others.push(binary(subject, Operator::Eq, item)),
        }
    }

    fn any(mut self) -> Option<Expr> {
        if let Some((subject, _)) = &self.list {
            // The list says as well that null stays null.
            self.nevers.retain(|never| match never {
                Expr::BinaryExpr(BinaryExpr { left, .. }) => **left != Expr::IsNull(Box::new(subject.clone())),
                _ => false,
            });
        }
        let listed = self.list.map(|(subject, items)| match <[Expr; 1]>::try_from(items) {
            Ok([item]) => binary(subject, Operator::Eq, item),
            Err(items) => Expr::InList(InList::new(Box::new(subject), items, false)),
        });
        listed.into_iter().chain(self.others).chain(self.nevers).reduce(Expr::or)
    }
}

/// `NOT expr`, pushed into one list or comparison so that it stays one.
fn negate(expr: Expr) -> Expr {
    match expr {
        Expr::InList(InList { expr, list, .. }) => Expr::InList(InList::new(expr, list, true)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => binary(*left, Operator::NotEq, *right),
        other => Expr::Not(Box::new(other)),
    }
}

/// Turns casts of string literals that are left into values, cut to what their type holds.
fn settle(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, data_type }) = &expr else { return Ok(Transformed::no(expr)) };
    let (Some(text), Some(kind)) = (string(inner), Kind::of(data_type)) else { return Ok(Transformed::no(expr)) };
    let moment = written(text, &kind)?;
    match stored(&moment, &kind) {
        Some((value, _)) => Ok(Transformed::yes(lit(value))),
        None => Err(external(
            Error::new(Code::InvalidValue, format!("'{text}' is out of range for {data_type}"))
                .with("literal", text)
                .help("nanoseconds reach from 1677 to 2262; microseconds hold every year"),
        )),
    }
}

/// A predicate that holds for the same rows and has no literal null, as far as AND, OR and NOT reach: in a filter, null
/// is as good as false (and under NOT as good as true).
fn without_null(predicate: Expr, stand_in: bool) -> Result<Transformed<Expr>> {
    match predicate {
        Expr::Literal(ScalarValue::Boolean(None), _) => Ok(Transformed::yes(lit(stand_in))),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let left = without_null(*left, stand_in)?;
            let right = without_null(*right, stand_in)?;
            let changed = left.transformed || right.transformed;
            let predicate = binary(left.data, op, right.data);
            Ok(Transformed::new(predicate, changed, TreeNodeRecursion::Continue))
        }
        Expr::Not(inner) => Ok(without_null(*inner, !stand_in)?.update_data(|inner| Expr::Not(Box::new(inner)))),
        other => Ok(Transformed::no(other)),
    }
}

/// In `INSERT … VALUES`, literals without zone for columns with one are read as a comparison with the column would.
fn inserted(node: LogicalPlan, zones: &Zones) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(_), .. }) = &node else {
        return Ok(Transformed::no(node));
    };
    node.map_children(|input| {
        input.transform_down(|node| match node {
            LogicalPlan::Values(Values { schema, values }) => {
                let row = |row: Vec<Expr>| row.into_iter().map(|value| inserted_value(value, zones)).collect();
                let values = values.into_iter().map(row).collect::<Result<_>>()?;
                let values = LogicalPlan::Values(Values { schema, values });
                Ok(Transformed::new(values, true, TreeNodeRecursion::Jump))
            }
            through @ (LogicalPlan::Projection(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_)) => {
                Ok(Transformed::no(through))
            }
            other => Ok(Transformed::new(other, false, TreeNodeRecursion::Jump)),
        })
    })
}

fn inserted_value(value: Expr, zones: &Zones) -> Result<Expr> {
    let Expr::Cast(Cast { expr: inner, data_type }) = &value else { return Ok(value) };
    let Some(kind) = Kind::of(data_type) else { return Ok(value) };
    let Some(chosen) = &kind.zone else { return Ok(value) };
    let reading = zones.reading(chosen);
    if reading == *chosen {
        return Ok(value);
    }
    let kind = Kind { zone: Some(reading), ..kind };
    let moment = match (string(inner), inner.as_ref()) {
        (Some(text), _) => written(text, &kind)?,
        (None, Expr::Cast(Cast { expr, data_type })) => match (string(expr), Kind::of(data_type)) {
            (Some(text), Some(typed)) => converted(written(text, &typed)?, &kind)?,
            _ => return Ok(value),
        },
        _ => return Ok(value),
    };
    Ok(match stored(&moment, &kind) {
        Some((stored, _)) => lit(stored),
        None => value,
    })
}
