//! How is one comparison written so that it is exact?
//!
//! ```text
//!   side        side                what is planned
//!   temporal    literal             column op literal of its type | always | never   (bound)
//!   literal     literal             true | false
//!   temporal    temporal            both in the coarser unit                          (align)
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast, Volatility, lit, when};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::functions::Change;
use super::moment::{Exact, Kind, Moment, Zones, is_utc, zone};
use super::reading::{external, parse, string};

/// What comparing needs to know besides the expressions.
pub(super) struct Comparer<'a> {
    pub(super) schema: &'a DFSchema,
    pub(super) zones: &'a Zones,
    pub(super) config: &'a ConfigOptions,
}

/// A date or timestamp that is not a literal.
struct Operand {
    expr: Expr,
    kind: Kind,
    /// `expr` shows clock readings that stand for instants by this zone.
    clock: Option<Arc<str>>,
}

/// See [`Comparer::members`].
pub(super) struct Members {
    pub(super) subject: Expr,
    pub(super) value: Expr,
    pub(super) among: Option<Expr>,
}

enum Side {
    /// A string literal, whose meaning depends on what it is compared with.
    Text(String),
    Literal(Moment),
    Temporal(Operand),
    Other,
}

/// Whether an operator orders or equates its sides.
pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

impl Comparer<'_> {
    /// `left op right`, exact. `None` where it is not about dates and timestamps, or needs no change.
    // @spec S8
    pub(super) fn compare(&self, left: &Expr, op: Operator, right: &Expr) -> Result<Option<Expr>> {
        if let Some(left) = self.instants(left, right)? {
            let compared = self.compare_sides(&left, op, right)?;
            return Ok(Some(compared.unwrap_or_else(|| binary(left, op, right.clone()))));
        }
        if let Some(right) = self.instants(right, left)? {
            let compared = self.compare_sides(left, op, &right)?;
            return Ok(Some(compared.unwrap_or_else(|| binary(left.clone(), op, right))));
        }
        self.compare_sides(left, op, right)
    }

    fn compare_sides(&self, left: &Expr, op: Operator, right: &Expr) -> Result<Option<Expr>> {
        let compared = match (self.side(left)?, self.side(right)?) {
            (Side::Temporal(column), Side::Literal(literal)) => self.bound(column, op, &literal)?,
            (Side::Temporal(column), Side::Text(text)) => self.bound(column, op, &parse(&text)?)?,
            (Side::Literal(literal), Side::Temporal(column)) => self.bound(column, flip(op), &literal)?,
            (Side::Text(text), Side::Temporal(column)) => self.bound(column, flip(op), &parse(&text)?)?,
            (Side::Literal(one), Side::Literal(other)) => self.constant(&one, op, &other)?,
            (Side::Literal(one), Side::Text(other)) => self.constant(&one, op, &parse(&other)?)?,
            (Side::Text(one), Side::Literal(other)) => self.constant(&parse(&one)?, op, &other)?,
            (Side::Temporal(one), Side::Temporal(other)) => return self.align(one, op, other),
            _ => return Ok(None),
        };
        Ok(Some(compared))
    }

    /// Whether an expression is a date or timestamp, or a literal that names one by its type.
    pub(super) fn is_temporal(&self, expr: &Expr) -> bool {
        self.kind(expr).is_some()
    }

    pub(super) fn kind(&self, expr: &Expr) -> Option<Kind> {
        Kind::of(&expr.get_type(self.schema).ok()?)
    }

    fn side(&self, expr: &Expr) -> Result<Side> {
        if let Some(text) = string(expr) {
            return Ok(Side::Text(text.to_owned()));
        }
        if let Some(moment) = self.moment(expr)? {
            return Ok(Side::Literal(moment));
        }
        let Some(kind) = self.kind(expr) else { return Ok(Side::Other) };
        if is_constant(expr, Volatility::Immutable)
            && let Some(moment) = self.evaluate(expr).as_ref().and_then(Moment::of_scalar)
        {
            return Ok(Side::Literal(moment));
        }
        Ok(Side::Temporal(self.peel(Operand { expr: expr.clone(), kind, clock: None })?))
    }

    /// The value of an expression without columns.
    fn evaluate(&self, expr: &Expr) -> Option<ScalarValue> {
        let context = SimplifyContext::default().with_config_options(Arc::new(self.config.clone()));
        let simplifier = ExprSimplifier::new(context);
        // An expression that fails does so where it is executed, if it is.
        let expr = simplifier.coerce(expr.clone(), &DFSchema::empty()).ok()?;
        match simplifier.simplify(expr).ok()? {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// Looks through casts that lose nothing, and hides the others from the optimizer (see [`Change`]).
    fn peel(&self, mut operand: Operand) -> Result<Operand> {
        loop {
            let (Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. })) = &operand.expr
            else {
                return Ok(operand);
            };
            let Some(from) = self.kind(inner) else { return Ok(operand) };
            let to = operand.kind.clone();
            let widens = from.per >= to.per && matches!(operand.expr, Expr::Cast(_));
            let date = |kind: &Kind| !matches!(kind.data_type, DataType::Timestamp(..));
            let dates = date(&to) || (date(&from) && to.zone.is_some());
            match (&from.zone, &to.zone) {
                _ if dates => return Ok(operand),
                (None, None) | (Some(_), Some(_)) if widens => {
                    // Readers of zone-less literals still see the zone that was chosen last.
                    let kind = Kind { zone: to.zone, ..from };
                    operand = Operand { expr: inner.as_ref().clone(), kind, clock: operand.clock };
                }
                (None, Some(chosen)) if widens => {
                    let clock = Some(Arc::clone(chosen));
                    operand = Operand { expr: inner.as_ref().clone(), kind: from, clock };
                }
                (Some(_), None) if from.per > to.per && widens => {
                    let target = from.with_zone(None);
                    let expr = Expr::Cast(Cast::new(inner.clone(), target.clone()));
                    return Ok(Operand { expr, kind: Kind { data_type: target, zone: None, ..from }, ..operand });
                }
                _ if from.per < to.per => return hide_cut(inner, &from, &operand),
                _ => return Ok(operand),
            }
        }
    }

    /// `column op literal` in the column's type.
    fn bound(&self, column: Operand, op: Operator, literal: &Moment) -> Result<Expr> {
        let at = self.position(&column, literal)?;
        let (count, same) = at.floor(column.kind.per);
        let (least, most) = column.kind.range();
        let below = count < least;
        let above = count > most;
        if (same && !below && !above)
            && let Some(value) = column.kind.scalar(count)
        {
            return Ok(binary(column.expr, op, lit(value)));
        }
        // The literal is before everything, after everything, or between `count` and its successor.
        let op = match op {
            Operator::Lt | Operator::LtEq => Operator::LtEq,
            Operator::Gt | Operator::GtEq => Operator::Gt,
            Operator::IsDistinctFrom => return Ok(lit(true)),
            Operator::IsNotDistinctFrom => return Ok(lit(false)),
            Operator::NotEq => return Ok(self.always(column.expr, true)),
            _ => return Ok(self.always(column.expr, false)),
        };
        match column.kind.scalar(count) {
            Some(value) => Ok(binary(column.expr, op, lit(value))),
            None => Ok(self.always(column.expr, (op == Operator::LtEq) == above)),
        }
    }

    /// Where a literal is on the axis that the column's integers count on.
    fn position(&self, column: &Operand, literal: &Moment) -> Result<Exact> {
        let zone_of = |name: &Arc<str>| zone(name).map_err(external);
        let instant = |at: Exact, chosen: &Arc<str>| Ok::<_, DataFusionError>(at.in_zone(&zone_of(chosen)?));
        Ok(match (&column.clock, &column.kind.zone, literal) {
            (None, None, Moment::Local(at) | Moment::Instant(at, None)) => *at,
            (None, None, Moment::Instant(at, Some(zone))) => at.on_clock(&zone_of(zone)?),
            (None, Some(_), Moment::Instant(at, _)) => *at,
            (None, Some(chosen), Moment::Local(at)) => instant(*at, &self.zones.reading(chosen))?,
            (Some(clock), _, Moment::Instant(at, _)) => at.on_clock(&zone_of(clock)?),
            (Some(clock), _, Moment::Local(at)) => {
                let reading = self.zones.reading(clock);
                if reading == *clock { *at } else { instant(*at, &reading)?.on_clock(&zone_of(clock)?) }
            }
        })
    }

    /// True or false for every value of `expr`, and null for null.
    fn always(&self, expr: Expr, truth: bool) -> Expr {
        let unknown = || lit(ScalarValue::Boolean(None));
        match (expr.nullable(self.schema), truth) {
            (Ok(false), _) => lit(truth),
            (_, true) => expr.is_not_null().or(unknown()),
            (_, false) => expr.is_null().and(unknown()),
        }
    }

    /// Whether a comparison is [`Self::always`] false for every value.
    pub(super) fn is_never(compared: &Expr) -> bool {
        match compared {
            Expr::Literal(ScalarValue::Boolean(Some(false)), _) => true,
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                matches!(left.as_ref(), Expr::IsNull(_))
                    && matches!(right.as_ref(), Expr::Literal(ScalarValue::Boolean(None), _))
            }
            _ => false,
        }
    }

    fn constant(&self, one: &Moment, op: Operator, other: &Moment) -> Result<Expr> {
        let (one, other) = match (one, other) {
            (Moment::Local(one), Moment::Local(other)) => (*one, *other),
            (Moment::Instant(one, _), Moment::Instant(other, _)) => (*one, *other),
            (Moment::Local(one), Moment::Instant(other, zone)) => (self.instant(*one, zone)?, *other),
            (Moment::Instant(one, zone), Moment::Local(other)) => (*one, self.instant(*other, zone)?),
        };
        let order = one.cmp(&other);
        Ok(lit(match op {
            Operator::Eq | Operator::IsNotDistinctFrom => order == Ordering::Equal,
            Operator::Lt => order == Ordering::Less,
            Operator::LtEq => order != Ordering::Greater,
            Operator::Gt => order == Ordering::Greater,
            Operator::GtEq => order != Ordering::Less,
            _ => order != Ordering::Equal,
        }))
    }

    fn instant(&self, at: Exact, of: &Option<Arc<str>>) -> Result<Exact> {
        let Some(of) = of else { return Ok(at) };
        let zone: Tz = zone(&self.zones.reading(of)).map_err(external)?;
        Ok(at.in_zone(&zone))
    }

    /// Two dates or timestamps of different types, in the coarser unit. `None` where DataFusion compares them right.
    fn align(&self, one: Operand, op: Operator, other: Operand) -> Result<Option<Expr>> {
        let (one, other) = self.same_zone(one, other)?;
        if one.kind.per < other.kind.per {
            return self.coarse_with_fine(other, flip(op), one);
        }
        self.coarse_with_fine(one, op, other)
    }

    fn coarse_with_fine(&self, coarse: Operand, op: Operator, fine: Operand) -> Result<Option<Expr>> {
        let target = &coarse.kind.data_type;
        if coarse.kind.per == fine.kind.per {
            if is_constant(&coarse.expr, Volatility::Stable) {
                let coarse = self.cast(coarse, &fine.kind.data_type);
                return Ok(Some(binary(coarse, op, fine.expr)));
            }
            let fine = self.cast(fine, target);
            return Ok(Some(binary(coarse.expr, op, fine)));
        }
        if is_constant(&coarse.expr, Volatility::Stable) && !is_constant(&fine.expr, Volatility::Stable) {
            // A column of the finer unit stays bare; what it can't hold is an error.
            let coarse = self.cast(coarse, &fine.kind.data_type);
            return Ok(Some(binary(coarse, op, fine.expr)));
        }
        let floor = Change::Floor.call(fine.expr.clone(), target)?;
        let ceil = Change::Ceil.call(fine.expr.clone(), target)?;
        let coarse = coarse.expr;
        Ok(match op {
            Operator::Lt | Operator::GtEq => Some(binary(coarse, op, ceil)),
            Operator::LtEq | Operator::Gt => Some(binary(coarse, op, floor)),
            // These name each side twice.
            _ if coarse.is_volatile() || fine.expr.is_volatile() => None,
            Operator::NotEq | Operator::IsDistinctFrom => {
                Some(binary(coarse.clone(), op, floor).or(binary(coarse, op, ceil)))
            }
            _ => Some(binary(coarse.clone(), op, floor).and(binary(coarse, op, ceil))),
        })
    }

    /// The pairs of keys whose equality is that of `left` and `right`, which belong to `schemas`. `None` where the
    /// pair can stay.
    pub(super) fn keys(&self, left: &Expr, right: &Expr) -> Result<Option<Vec<(Expr, Expr)>>> {
        let (Some(one), Some(other)) = (self.kind(left), self.kind(right)) else { return Ok(None) };
        if one == other {
            return Ok(None);
        }
        let plain = |expr: &Expr, kind| Operand { expr: expr.clone(), kind, clock: None };
        let (one, other) = self.same_zone(plain(left, one), plain(right, other))?;
        Ok(Some(match one.kind.per.cmp(&other.kind.per) {
            Ordering::Equal => {
                let target = one.kind.data_type.clone();
                vec![(one.expr, self.cast(other, &target))]
            }
            Ordering::Greater => {
                let around = around(&other.expr, &one.kind.data_type)?;
                around.into_iter().map(|bound| (one.expr.clone(), bound)).collect()
            }
            Ordering::Less => {
                let around = around(&one.expr, &other.kind.data_type)?;
                around.into_iter().map(|bound| (bound, other.expr.clone())).collect()
            }
        }))
    }

    /// How `subject IN (…)` asks for members of another type: the subject, a member as a value of the subject's type, and
    /// which members are such values at all. `None` where the types agree.
    pub(super) fn members(&self, subject: (&Expr, Kind), member: (&Expr, Kind)) -> Result<Option<Members>> {
        if subject.1.data_type == member.1.data_type {
            return Ok(None);
        }
        let plain = |(expr, kind): (&Expr, Kind)| Operand { expr: expr.clone(), kind, clock: None };
        let (subject, member) = self.same_zone(plain(subject), plain(member))?;
        let (kind, target) = (&subject.kind, &subject.kind.data_type);
        let (value, among) = match member.kind.per.cmp(&kind.per) {
            Ordering::Equal => (self.cast(member, target), None),
            Ordering::Less => {
                let [floor, ceil] = around(&member.expr, target)?;
                (floor.clone(), Some(binary(floor, Operator::IsNotDistinctFrom, ceil)))
            }
            Ordering::Greater => {
                let factor = member.kind.per / kind.per;
                let (range, held) = (kind.range(), member.kind.range());
                let (least, most) = (held.0.max(range.0 / factor), held.1.min(range.1 / factor));
                let (Some(least), Some(most)) = (member.kind.scalar(least), member.kind.scalar(most)) else {
                    return Ok(None);
                };
                let fits = member.expr.clone().between(lit(least), lit(most)).or(member.expr.clone().is_null());
                // Guards the cast, in case it is evaluated for rows that `fits` drops.
                (when(fits.clone(), self.cast(member, target)).end()?, Some(fits))
            }
        };
        Ok(Some(Members { subject: subject.expr, value, among }))
    }

    /// Makes both sides instants or both clock readings.
    fn same_zone(&self, one: Operand, other: Operand) -> Result<(Operand, Operand)> {
        let (one, other) = (restored(one)?, restored(other)?);
        match (&one.kind.zone, &other.kind.zone) {
            (Some(zone), None) => {
                let zone = Arc::clone(zone);
                self.meet(one, other, &zone)
            }
            (None, Some(zone)) => {
                let zone = Arc::clone(zone);
                self.meet(other, one, &zone).map(|(other, one)| (one, other))
            }
            _ => Ok((one, other)),
        }
    }

    fn meet(&self, zoned: Operand, naive: Operand, zone: &Arc<str>) -> Result<(Operand, Operand)> {
        let reading = self.zones.reading(zone);
        if is_utc(&reading)
            && is_constant(&zoned.expr, Volatility::Stable)
            && !is_constant(&naive.expr, Volatility::Stable)
        {
            let target = zoned.kind.with_zone(None);
            let kind = Kind { data_type: target.clone(), zone: None, ..zoned.kind.clone() };
            return Ok((Operand { expr: self.cast(zoned, &target), kind, clock: None }, naive));
        }
        Ok((zoned, in_zone(naive, reading)?))
    }

    fn cast(&self, operand: Operand, target: &DataType) -> Expr {
        if operand.kind.data_type == *target {
            return operand.expr;
        }
        Expr::Cast(Cast::new(Box::new(operand.expr), target.clone()))
    }
}

/// A cast to a coarser unit as a call.
fn hide_cut(inner: &Expr, from: &Kind, operand: &Operand) -> Result<Operand> {
    let to = operand.kind.clone();
    let cut = Change::Cut.call(inner.clone(), &to.with_zone(from.zone.clone()))?;
    let expr = match (&from.zone, &to.zone) {
        (None, Some(_)) => Change::InZone.call(cut, &to.data_type)?,
        (Some(_), None) => Expr::Cast(Cast::new(Box::new(cut), to.data_type.clone())),
        _ => cut,
    };
    Ok(Operand { expr, kind: to, clock: operand.clock.clone() })
}

/// An operand whose clock readings are instants again.
fn restored(operand: Operand) -> Result<Operand> {
    match operand.clock.clone() {
        Some(clock) => in_zone(Operand { clock: None, ..operand }, clock),
        None => Ok(operand),
    }
}

/// Clock readings as the instants at which clocks of a zone show them.
fn in_zone(naive: Operand, zone: Arc<str>) -> Result<Operand> {
    let utc = is_utc(&zone);
    let per = if naive.kind.data_type == DataType::Date32 { 1_000_000_000 } else { naive.kind.per };
    let reading = naive.kind.with_zone(None);
    let target = naive.kind.with_zone(Some(Arc::clone(&zone)));
    let mut expr = naive.expr;
    if naive.kind.data_type != reading {
        expr = Expr::Cast(Cast::new(Box::new(expr), reading));
    }
    let expr =
        if utc { Expr::Cast(Cast::new(Box::new(expr), target.clone())) } else { Change::InZone.call(expr, &target)? };
    Ok(Operand { expr, kind: Kind { data_type: target, per, zone: Some(zone) }, clock: None })
}

/// The values of a coarser type on both sides of `expr`.
fn around(expr: &Expr, target: &DataType) -> Result<[Expr; 2]> {
    Ok([Change::Floor.call(expr.clone(), target)?, Change::Ceil.call(expr.clone(), target)?])
}

/// The operator for the sides swapped.
fn flip(op: Operator) -> Operator {
    op.swap().unwrap_or(op)
}

pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Whether an expression has one value for all rows of a query, and its functions are at most as volatile as `least`.
fn is_constant(expr: &Expr, most: Volatility) -> bool {
    let varies = expr.exists(|node| {
        Ok(match node {
            Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::BinaryExpr(_)
            | Expr::Not(_)
            | Expr::Negative(_)
            | Expr::Case(_)
            | Expr::Cast(_)
            | Expr::TryCast(_) => false,
            Expr::ScalarFunction(call) => match call.func.signature().volatility {
                Volatility::Immutable => false,
                Volatility::Stable => most == Volatility::Immutable,
                Volatility::Volatile => true,
            },
            _ => true,
        })
    });
    matches!(varies, Ok(false))
}
