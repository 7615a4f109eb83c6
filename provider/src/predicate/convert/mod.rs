//! What does a filter of DataFusion say about columns?
//!
//! ```text
//! NOT (a < 5 OR b IS NULL) AND upper(c) = 'X'
//!      a >= 5 AND b IS NOT NULL                 exact
//!                                  true         a function of a column
//! ```
//!
//! Negation is carried down to the leaves, where it turns operators over: then only *where a part is true* matters, and AND
//! and OR combine that whatever is null. What isn't understood is true, which loses no row, and proves nothing.
//!
//! - [`truth`]: where a part is true, between two predicates
//! - [`column`]: which column an expression reads, as which type
//! - [`operand`], [`compare`]: an expression of a column compared with a constant
//! - [`literal`]: a column itself compared with a constant, exactly, whatever the two types are
//! - [`order`], [`periods`], [`monotone`], [`axis`]: a function that keeps (or reverses) the order of a column
//! - [`zone`]: a function of time that nearly does
//! - [`recurring`]: a part of a time that comes again and again
//! - [`pattern`]: LIKE and prefixes as ranges
//! - [`cases`]: CASE, and what becomes one

mod axis;
mod cases;
mod column;
mod compare;
mod literal;
mod monotone;
mod operand;
mod order;
mod pattern;
mod periods;
mod recurring;
mod truth;
mod zone;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema as ArrowSchema};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::functions::math::nans::IsNanFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::scalar::ScalarValue;
use iceberg::spec::Schema;

pub use self::column::column_of;
use self::truth::Truth;
use super::{Claim, Conversion, Converted, Op, Predicate};

/// Converts a filter over `arrow` (whose fields carry field ids of `schema`). What isn't understood becomes
/// [`Predicate::True`].
// @spec P2 P3
pub fn convert(expr: &Arc<dyn PhysicalExpr>, arrow: &ArrowSchema, schema: &Schema) -> Converted {
    let claims = convert_conjuncts(std::slice::from_ref(expr), arrow, schema);
    Converted {
        exact: claims.iter().all(|c| c.exact),
        proof: Predicate::and(claims.iter().map(|c| c.proof.clone())),
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
                text: text_of(expr),
                predicate: part.possible,
                proof: part.certain,
                exact: part.gap.is_none(),
                reason: part.gap,
            }
        })
        .collect()
}

/// A condition in words, without the casts between kinds of timestamps that planning puts around columns.
fn text_of(expr: &Arc<dyn PhysicalExpr>) -> String {
    let bare = Arc::clone(expr).transform_up(|part| {
        let function = part.as_any().downcast_ref::<ScalarFunctionExpr>();
        let cast = function.and_then(|function| function.fun().inner().as_any().downcast_ref::<Conversion>());
        Ok(match (cast.map(Conversion::target), function.map(ScalarFunctionExpr::args)) {
            (Some(DataType::Timestamp(..)), Some([inner])) => Transformed::yes(Arc::clone(inner)),
            _ => Transformed::no(part),
        })
    });
    let bare = bare.map_or_else(|_| Arc::clone(expr), |bare| bare.data);
    fmt_sql(bare.as_ref()).to_string()
}

const NOT_UNDERSTOOD: &str = "not a comparison of a column with a constant";
const A_FUNCTION: &str = "a function of a column";
const ARITHMETIC: &str = "arithmetic on a column";
const FORMATTED: &str = "text made of a time, whose order is another";
const RECURRING: &str = "a part of a time that comes again and again";
const COMES_AGAIN: &str = "a part of a time that comes again: what reaches through a whole cycle is read";
const LOCAL_TIME: &str = "local time, which runs backwards when clocks are put back";
const MONTHS_ADDED: &str = "months added to a time, where the last days of a month fall together";
const OUT_OF_BOUNDS: &str = "a function that is out of bounds for some values";
const HASHED: &str = "a hash, which keeps no order";
const TWO_COLUMNS: &str = "compares columns with each other";
const NOT_ORDERED: &str = "a conversion of a column that doesn't keep its order";
const PARTLY_DEFINED: &str = "a conversion of a column that fails for some values";
const OTHER_TYPES: &str = "a constant of a type that the column isn't compared with";
const NO_PREFIX: &str = "a pattern that is more than a beginning";
const NO_CASE: &str = "a pattern that ignores case";
const NOT_A_COLUMN: &str = "not a column of the table that holds single values";
const STILL_MOVING: &str = "a filter that changes while the query runs";
const LONG_LIST: &str = "a long list compared with a converted column";

/// What to write instead of a condition that isn't pruned by for this reason; `None` where nothing else says the same.
// @spec E3
pub fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        FORMATTED => "compare the time itself with a range: ts >= '2026-01-01' AND ts < '2027-01-01'",
        RECURRING | COMES_AGAIN => "add a range of the time itself",
        A_FUNCTION | NOT_ORDERED => "compare the column itself, if a value or a range says the same",
        ARITHMETIC => "move the arithmetic to the other side: i > 5 - 1",
        NO_PREFIX => "begin the pattern with the text that is known",
        NO_CASE => "use LIKE where the case is known",
        LONG_LIST => "compare the column itself with the list",
        OTHER_TYPES => "give the constant the column's type",
        _ => return None,
    })
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
        } else if column_of(expr, self.arrow).is_some() {
            self.compare(expr, Op::Eq, &ScalarValue::Boolean(Some(!negated)))
        } else if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>() {
            self.function(expr, function, negated)
        } else if let Some(case) = any.downcast_ref::<CaseExpr>() {
            self.results(case, |result| self.truth(result, negated))
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
            (Some(left), Some(right)) => compared(&left, op, &right),
        }
    }

    fn function(&self, expr: &Arc<dyn PhysicalExpr>, function: &ScalarFunctionExpr, negated: bool) -> Truth {
        let called = function.fun().inner().as_any();
        match function.args() {
            [text, prefix] if called.is::<StartsWithFunc>() => self.starts_with(text, prefix, negated),
            [number] if called.is::<IsNanFunc>() => self.is_nan(number, negated),
            _ => match cases::Choice::of(expr) {
                Some(choice) => self.compare_choice(&choice, Op::Eq, &ScalarValue::Boolean(Some(!negated))),
                None => Truth::unknown(A_FUNCTION),
            },
        }
    }

    /// What a filter of a join or a TopK says now. It only ever gets narrower, so its negation would get wider.
    fn moving(&self, moving: &DynamicFilterPhysicalExpr, negated: bool) -> Truth {
        match moving.current() {
            Ok(current) if !negated => Truth::within(self.truth(&current, false).possible, STILL_MOVING),
            _ => Truth::unknown(STILL_MOVING),
        }
    }
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

/// The engine's name for an operator.
fn operator(op: Op) -> Operator {
    match op {
        Op::Eq => Operator::Eq,
        Op::NotEq => Operator::NotEq,
        Op::Lt => Operator::Lt,
        Op::LtEq => Operator::LtEq,
        Op::Gt => Operator::Gt,
        Op::GtEq => Operator::GtEq,
    }
}

/// Two constants compared, as the engine does it.
fn compared(left: &ScalarValue, op: Op, right: &ScalarValue) -> Truth {
    let constant = |value: &ScalarValue| Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>;
    let comparison = BinaryExpr::new(constant(left), operator(op), constant(right));
    match comparison.evaluate(&RecordBatch::new_empty(Arc::new(ArrowSchema::empty()))) {
        Ok(ColumnarValue::Scalar(value)) => self::constant(&value, false),
        _ => Truth::unknown(NOT_UNDERSTOOD),
    }
}
