//! What does a filter of DataFusion say about columns?
//!
//! ```text
//! NOT (a < 5 OR b IS NULL) AND upper(c) = 'X'
//!      a >= 5 AND b IS NOT NULL                 exact
//!                                  true         a function of a column
//! ```
//!
//! Negation is carried down to the leaves, where it turns operators over: then only *where a part is true* matters, and AND
//! and OR combine that whatever is null. What isn't understood is true, which loses no row.
//!
//! - [`column`]: which column an expression reads, as which type
//! - [`literal`]: a column compared with a constant, exactly, whatever the two types are
//! - [`monotone`]: an expression that keeps (or reverses) the order of a column compared with a constant
//! - [`pattern`]: LIKE and prefixes as ranges

mod column;
mod literal;
mod monotone;
mod pattern;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema as ArrowSchema};
use arrow::record_batch::RecordBatch;
use datafusion::functions::math::nans::IsNanFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::scalar::ScalarValue;
use iceberg::spec::Schema;

use self::column::{Kind, Slot, as_text};
use super::{Claim, Converted, Op, Predicate, Value};

/// Converts a filter over `arrow` (whose fields carry field ids of `schema`). What isn't understood becomes
/// [`Predicate::True`].
// @spec P2 P3
pub fn convert(expr: &Arc<dyn PhysicalExpr>, arrow: &ArrowSchema, schema: &Schema) -> Converted {
    let claims = convert_conjuncts(std::slice::from_ref(expr), arrow, schema);
    Converted {
        exact: claims.iter().all(|c| c.exact),
        predicate: Predicate::and(claims.into_iter().map(|c| c.predicate)),
    }
}

/// Converts each conjunct of the filters (ANDs are taken apart), in their order.
pub fn convert_conjuncts(exprs: &[Arc<dyn PhysicalExpr>], arrow: &ArrowSchema, schema: &Schema) -> Vec<Claim> {
    let scope = Scope { arrow, schema };
    let conjuncts = exprs.iter().flat_map(split_conjunction);
    conjuncts
        .map(|expr| {
            let part = scope.truth(expr, false);
            Claim {
                text: fmt_sql(expr.as_ref()).to_string(),
                predicate: part.predicate,
                exact: part.gap.is_none(),
                reason: part.gap,
            }
        })
        .collect()
}

const NOT_UNDERSTOOD: &str = "not a comparison of a column with a constant";
const A_FUNCTION: &str = "a function of a column";
const TWO_COLUMNS: &str = "compares columns with each other";
const NOT_ORDERED: &str = "a conversion of a column that doesn't keep its order";
const PARTLY_DEFINED: &str = "a conversion of a column that fails for some values";
const OTHER_TYPES: &str = "a constant of a type that the column isn't compared with";
const NO_PREFIX: &str = "a pattern that is more than a beginning";
const NO_CASE: &str = "a pattern that ignores case";
const NOT_A_COLUMN: &str = "not a top-level column of the table";
const STILL_MOVING: &str = "a filter that changes while the query runs";
const ONE_OF_MANY: &str = "a CASE, of which only the results are used";
const LONG_LIST: &str = "a long list compared with a converted column";

/// Where (part of) a filter is true.
struct Truth {
    predicate: Predicate,
    /// Why the filter may be true in fewer places; `None` if it isn't.
    gap: Option<&'static str>,
}

impl Truth {
    fn exact(predicate: Predicate) -> Truth {
        Truth { predicate, gap: None }
    }

    fn within(predicate: Predicate, gap: &'static str) -> Truth {
        // Nothing is smaller than nowhere.
        let gap = if predicate == Predicate::False { None } else { Some(gap) };
        Truth { predicate, gap }
    }

    fn unknown(gap: &'static str) -> Truth {
        Truth::within(Predicate::True, gap)
    }

    fn all(parts: Vec<Truth>) -> Truth {
        let gap = parts.iter().find_map(|p| p.gap);
        Truth::combined(Predicate::and(parts.into_iter().map(|p| p.predicate)), gap)
    }

    fn any(parts: Vec<Truth>) -> Truth {
        if parts.iter().any(|p| p.gap.is_none() && p.predicate == Predicate::True) {
            return Truth::exact(Predicate::True);
        }
        let gap = parts.iter().find_map(|p| p.gap);
        Truth::combined(Predicate::or(parts.into_iter().map(|p| p.predicate)), gap)
    }

    fn combined(predicate: Predicate, gap: Option<&'static str>) -> Truth {
        match gap {
            Some(gap) => Truth::within(predicate, gap),
            None => Truth::exact(predicate),
        }
    }
}

/// The schemas a filter is over.
struct Scope<'a> {
    arrow: &'a ArrowSchema,
    schema: &'a Schema,
}

impl Scope<'_> {
    /// Where `expr` is true, or where it is false if `negated`.
    fn truth(&self, expr: &Arc<dyn PhysicalExpr>, negated: bool) -> Truth {
        let any = expr.as_any();
        if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
            self.binary(binary, negated)
        } else if let Some(not) = any.downcast_ref::<NotExpr>() {
            self.truth(not.arg(), !negated)
        } else if let Some(literal) = any.downcast_ref::<Literal>() {
            constant(literal.value(), negated)
        } else if let Some(is_null) = any.downcast_ref::<IsNullExpr>() {
            self.null_test(is_null.arg(), !negated)
        } else if let Some(is_not_null) = any.downcast_ref::<IsNotNullExpr>() {
            self.null_test(is_not_null.arg(), negated)
        } else if let Some(list) = any.downcast_ref::<InListExpr>() {
            self.in_list(list, list.negated() != negated)
        } else if let Some(like) = any.downcast_ref::<LikeExpr>() {
            self.like(like.expr(), like.pattern(), like.case_insensitive(), like.negated() != negated)
        } else if any.is::<Column>() {
            self.compare(expr, Op::Eq, &ScalarValue::Boolean(Some(!negated)))
        } else if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>() {
            self.function(function, negated)
        } else if let Some(case) = any.downcast_ref::<CaseExpr>() {
            self.case(case, negated)
        } else if let Some(moving) = any.downcast_ref::<DynamicFilterPhysicalExpr>() {
            self.moving(moving, negated)
        } else {
            Truth::unknown(NOT_UNDERSTOOD)
        }
    }

    fn binary(&self, binary: &BinaryExpr, negated: bool) -> Truth {
        let (left, right) = (binary.left(), binary.right());
        let both = || vec![self.truth(left, negated), self.truth(right, negated)];
        let op = match binary.op() {
            Operator::And if negated => return Truth::any(both()),
            Operator::And => return Truth::all(both()),
            Operator::Or if negated => return Truth::all(both()),
            Operator::Or => return Truth::any(both()),
            Operator::IsDistinctFrom => return self.distinct(left, right, !negated),
            Operator::IsNotDistinctFrom => return self.distinct(left, right, negated),
            Operator::LikeMatch => return self.like(left, right, false, negated),
            Operator::NotLikeMatch => return self.like(left, right, false, !negated),
            Operator::Eq => Op::Eq,
            Operator::NotEq => Op::NotEq,
            Operator::Lt => Op::Lt,
            Operator::LtEq => Op::LtEq,
            Operator::Gt => Op::Gt,
            Operator::GtEq => Op::GtEq,
            _ => return Truth::unknown(NOT_UNDERSTOOD),
        };
        let op = if negated { op.negate() } else { op };
        match (constant_of(left), constant_of(right)) {
            (None, Some(value)) => self.compare(left, op, &value),
            (Some(value), None) => self.compare(right, op.swap(), &value),
            (None, None) => Truth::unknown(TWO_COLUMNS),
            (Some(_), Some(_)) => Truth::unknown(NOT_UNDERSTOOD),
        }
    }

    fn compare(&self, operand: &Arc<dyn PhysicalExpr>, op: Op, value: &ScalarValue) -> Truth {
        if value.is_null() {
            return Truth::exact(Predicate::False);
        }
        match self.operand(operand) {
            Operand::Column(slot) => literal::compare(&slot, op, value),
            Operand::Ordered(slot) => match monotone::Searched::new(operand, &slot, self.arrow) {
                Some(searched) => searched.compare(op, value),
                None => Truth::unknown(NOT_ORDERED),
            },
            Operand::Other(gap) => Truth::unknown(gap),
        }
    }

    /// `distinct`: where the two differ, null being a value like others; else where they are the same.
    fn distinct(&self, left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>, distinct: bool) -> Truth {
        let (operand, value) = match (constant_of(left), constant_of(right)) {
            (None, Some(value)) => (left, value),
            (Some(value), None) => (right, value),
            _ => return Truth::unknown(TWO_COLUMNS),
        };
        match (value.is_null(), distinct) {
            (true, _) => self.null_test(operand, !distinct),
            (false, false) => self.compare(operand, Op::Eq, &value),
            (false, true) => Truth::any(vec![self.compare(operand, Op::NotEq, &value), self.null_test(operand, true)]),
        }
    }

    fn null_test(&self, operand: &Arc<dyn PhysicalExpr>, null: bool) -> Truth {
        let field = match self.operand(operand) {
            Operand::Column(slot) => slot.field,
            Operand::Ordered(slot) => match monotone::Searched::new(operand, &slot, self.arrow) {
                Some(searched) => return searched.null_test(null),
                None => return Truth::unknown(NOT_ORDERED),
            },
            Operand::Other(_) => match self.any_column(operand) {
                Some(field) if null => return Truth::exact(Predicate::IsNull { field }),
                Some(field) => return Truth::exact(Predicate::IsNotNull { field }),
                None => return Truth::unknown(NOT_UNDERSTOOD),
            },
        };
        Truth::exact(if null { Predicate::IsNull { field } } else { Predicate::IsNotNull { field } })
    }

    fn in_list(&self, list: &InListExpr, negated: bool) -> Truth {
        let mut constants = Vec::with_capacity(list.len());
        let mut null = false;
        for item in list.list() {
            match constant_of(item) {
                Some(value) if value.is_null() => null = true,
                Some(value) => constants.push(value),
                None => return Truth::unknown(TWO_COLUMNS),
            }
        }
        if negated && null {
            // Whatever is not in the rest of the list may be the null.
            return Truth::exact(Predicate::False);
        }
        if constants.is_empty() {
            // Only nulls, or an empty list, whose treatment of null is the evaluator's affair.
            return if null { Truth::exact(Predicate::False) } else { Truth::unknown(NOT_UNDERSTOOD) };
        }
        match self.operand(list.expr()) {
            Operand::Column(slot) => literal::in_list(&slot, &constants, negated),
            Operand::Ordered(_) if constants.len() > monotone::LIST_SEARCHED => Truth::unknown(LONG_LIST),
            Operand::Ordered(slot) => match monotone::Searched::new(list.expr(), &slot, self.arrow) {
                Some(searched) if negated => {
                    Truth::all(constants.iter().map(|v| searched.compare(Op::NotEq, v)).collect())
                }
                Some(searched) => Truth::any(constants.iter().map(|v| searched.compare(Op::Eq, v)).collect()),
                None => Truth::unknown(NOT_ORDERED),
            },
            Operand::Other(gap) => Truth::unknown(gap),
        }
    }

    fn like(
        &self,
        operand: &Arc<dyn PhysicalExpr>,
        pattern: &Arc<dyn PhysicalExpr>,
        ignore_case: bool,
        negated: bool,
    ) -> Truth {
        let Some(constant) = constant_of(pattern) else { return Truth::unknown(TWO_COLUMNS) };
        if constant.is_null() {
            return Truth::exact(Predicate::False);
        }
        let slot = match self.operand(operand) {
            Operand::Column(slot) if slot.kind == Kind::Text => slot,
            Operand::Column(_) => return Truth::unknown(OTHER_TYPES),
            Operand::Ordered(_) => return Truth::unknown(NOT_ORDERED),
            Operand::Other(gap) => return Truth::unknown(gap),
        };
        match as_text(&constant) {
            Some(_) if ignore_case => Truth::within(Predicate::IsNotNull { field: slot.field }, NO_CASE),
            Some(text) => pattern::Pattern::parse(text).matches(slot.field, negated),
            None => Truth::unknown(OTHER_TYPES),
        }
    }

    fn function(&self, function: &ScalarFunctionExpr, negated: bool) -> Truth {
        let inner = function.fun().inner().as_any();
        match function.args() {
            [text, prefix] if inner.is::<StartsWithFunc>() => self.starts_with(text, prefix, negated),
            [number] if inner.is::<IsNanFunc>() => self.is_nan(number, negated),
            _ => Truth::unknown(A_FUNCTION),
        }
    }

    fn starts_with(&self, text: &Arc<dyn PhysicalExpr>, prefix: &Arc<dyn PhysicalExpr>, negated: bool) -> Truth {
        let Some(constant) = constant_of(prefix) else { return Truth::unknown(TWO_COLUMNS) };
        if constant.is_null() {
            return Truth::exact(Predicate::False);
        }
        match (self.operand(text), as_text(&constant)) {
            (Operand::Column(slot), Some(prefix)) if slot.kind == Kind::Text => {
                pattern::Pattern::beginning(prefix).matches(slot.field, negated)
            }
            (Operand::Other(gap), _) => Truth::unknown(gap),
            _ => Truth::unknown(OTHER_TYPES),
        }
    }

    /// In total order the NaNs are what is beyond the infinities.
    fn is_nan(&self, number: &Arc<dyn PhysicalExpr>, negated: bool) -> Truth {
        let Operand::Column(slot) = self.operand(number) else { return Truth::unknown(A_FUNCTION) };
        let field = slot.field;
        let side = |op, x: f64| Predicate::compare(field, op, Value::Double(x));
        Truth::exact(match slot.kind {
            Kind::Float if negated => {
                Predicate::and([side(Op::GtEq, f64::NEG_INFINITY), side(Op::LtEq, f64::INFINITY)])
            }
            Kind::Float => Predicate::or([side(Op::Lt, f64::NEG_INFINITY), side(Op::Gt, f64::INFINITY)]),
            Kind::Whole { .. } | Kind::Decimal { .. } if negated => Predicate::IsNotNull { field },
            Kind::Whole { .. } | Kind::Decimal { .. } => Predicate::False,
            _ => return Truth::unknown(A_FUNCTION),
        })
    }

    /// Joins wrap the filter of each of their partitions in a CASE over a hash: a row satisfies one of the results.
    fn case(&self, case: &CaseExpr, negated: bool) -> Truth {
        let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
        let parts = results.map(|result| self.truth(result, negated)).collect();
        let truth = Truth::any(parts);
        Truth::within(truth.predicate, ONE_OF_MANY)
    }

    /// What a filter of a join or a TopK says now. It only ever gets narrower, so its negation would get wider.
    fn moving(&self, moving: &DynamicFilterPhysicalExpr, negated: bool) -> Truth {
        match moving.current() {
            Ok(current) if !negated => Truth { gap: Some(STILL_MOVING), ..self.truth(&current, false) },
            _ => Truth::unknown(STILL_MOVING),
        }
    }

    fn operand(&self, expr: &Arc<dyn PhysicalExpr>) -> Operand {
        let any = expr.as_any();
        if any.is::<Column>() {
            return match Slot::of(expr, self.arrow, self.schema) {
                Some(slot) => Operand::Column(slot),
                None => Operand::Other(NOT_A_COLUMN),
            };
        }
        let (inner, cast) = match (any.downcast_ref::<CastExpr>(), any.downcast_ref::<TryCastExpr>()) {
            (Some(cast), _) => (cast.expr(), Some(cast.cast_type())),
            (_, Some(cast)) => (cast.expr(), Some(cast.cast_type())),
            _ => match any.downcast_ref::<NegativeExpr>() {
                Some(negative) => (negative.arg(), None),
                None if any.is::<ScalarFunctionExpr>() => return Operand::Other(A_FUNCTION),
                None => return Operand::Other(NOT_UNDERSTOOD),
            },
        };
        match (self.operand(inner), cast) {
            // Another layout of the same text or bytes.
            (Operand::Column(slot), Some(to)) if slot.kind.keeps_values_in(to) => Operand::Column(slot),
            (Operand::Column(slot) | Operand::Ordered(slot), _) => Operand::Ordered(slot),
            (other, _) => other,
        }
    }

    /// A column of any type, nested ones too.
    fn any_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<i32> {
        let column = expr.as_any().downcast_ref::<Column>()?;
        let id = crate::schema::field_id(self.arrow.fields().get(column.index())?)?;
        self.schema.field_by_id(id).map(|field| field.id)
    }
}

/// What a constant is compared with.
enum Operand {
    Column(Slot),
    /// Conversions of a column; whether they keep its order is to be seen.
    Ordered(Slot),
    Other(&'static str),
}

/// A constant: a literal, or conversions of one that nothing has folded yet.
fn constant_of(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let any = expr.as_any();
    let value = match any.downcast_ref::<Literal>() {
        Some(literal) => literal.value().clone(),
        None if any.is::<CastExpr>() || any.is::<TryCastExpr>() || any.is::<NegativeExpr>() => {
            expr.children().into_iter().try_for_each(|child| constant_of(child).map(drop))?;
            match expr.evaluate(&RecordBatch::new_empty(Arc::new(ArrowSchema::empty()))) {
                Ok(ColumnarValue::Scalar(value)) => value,
                _ => return None,
            }
        }
        None => return None,
    };
    Some(match value {
        ScalarValue::Dictionary(_, inner) => *inner,
        value => value,
    })
}

fn constant(value: &ScalarValue, negated: bool) -> Truth {
    match value {
        ScalarValue::Boolean(Some(x)) if *x != negated => Truth::exact(Predicate::True),
        ScalarValue::Boolean(_) => Truth::exact(Predicate::False),
        value if value.data_type() == DataType::Null => Truth::exact(Predicate::False),
        _ => Truth::unknown(NOT_UNDERSTOOD),
    }
}
