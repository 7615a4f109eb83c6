//! How does an expression of a column compare with a constant?

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr};
use datafusion::scalar::ScalarValue;

use super::super::project::Hash;
use super::super::{Op, Predicate, Value};
use super::column::{Kind, Slot, as_text};
use super::operand::Operand;
use super::truth::Truth;
use super::{
    A_FUNCTION, HASHED, LONG_LIST, NO_CASE, NOT_ORDERED, NOT_UNDERSTOOD, OTHER_TYPES, Scope, TWO_COLUMNS, compared,
    constant_of, literal, monotone, order, pattern, recurring, zone,
};

/// A hash of more buckets than this is only compared for equality.
const BUCKETS_LISTED: u32 = 4_096;

impl Scope<'_> {
    pub(super) fn compare(&self, operand: &Arc<dyn PhysicalExpr>, op: Op, value: &ScalarValue) -> Truth {
        if value.is_null() {
            return Truth::exact(Predicate::False);
        }
        if let Some(constant) = constant_of(operand) {
            return compared(&constant, op, value);
        }
        match self.operand(operand) {
            Operand::Column(slot) => literal::compare(&slot, op, value),
            Operand::Beginning(slot, beginning) => match literal::written(&slot, value) {
                Some(value) => {
                    beginning.compare(slot.field, op, &value).map_or(Truth::unknown(OTHER_TYPES), Truth::exact)
                }
                None => Truth::unknown(OTHER_TYPES),
            },
            Operand::Hash(slot, hash) => hashed(&slot, hash, op, value),
            Operand::Truth => match (op, value) {
                (Op::Eq, ScalarValue::Boolean(Some(is))) => self.truth(operand, !is),
                (Op::NotEq, ScalarValue::Boolean(Some(is))) => self.truth(operand, *is),
                _ => Truth::unknown(NOT_UNDERSTOOD),
            },
            Operand::Choice(choice) => self.compare_choice(&choice, op, value),
            Operand::Function => match order::searched(operand, self) {
                Ok(searched) => searched.compare(op, value),
                Err(gap) => recurring::compare(operand, op, value, self)
                    .or_else(|| zone::compare(operand, op, value, self, gap))
                    .unwrap_or(Truth::unknown(gap)),
            },
        }
    }

    /// `distinct`: where the two differ, null being a value like others; else where they are the same.
    pub(super) fn distinct(
        &self,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        distinct: bool,
    ) -> Truth {
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

    /// Where the operand is null, or isn't.
    pub(super) fn null_test(&self, operand: &Arc<dyn PhysicalExpr>, null: bool) -> Truth {
        let of_field =
            |field| Truth::exact(if null { Predicate::IsNull { field } } else { Predicate::IsNotNull { field } });
        if let Some(constant) = constant_of(operand) {
            return Truth::exact(if constant.is_null() == null { Predicate::True } else { Predicate::False });
        }
        if let Some(field) = self.any_column(operand) {
            return of_field(field);
        }
        match self.operand(operand) {
            Operand::Column(slot) | Operand::Beginning(slot, _) | Operand::Hash(slot, _) => of_field(slot.field),
            Operand::Truth => {
                if let Some(compared) = only_compared(operand) {
                    return self.null_test(compared, null);
                }
                let sides = vec![self.truth(operand, false), self.truth(operand, true)];
                if null { Truth::all(sides.iter().map(Truth::otherwise).collect()) } else { Truth::any(sides) }
            }
            Operand::Choice(choice) => self.null_choice(&choice, null),
            Operand::Function => match order::searched(operand, self) {
                Ok(searched) => searched.null_test(null),
                Err(gap) => Truth::unknown(gap),
            },
        }
    }

    pub(super) fn in_list(&self, list: &InListExpr, negated: bool) -> Truth {
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
        if let Some(truth) = recurring::in_list(list.expr(), &constants, negated, self) {
            return truth;
        }
        match self.operand(list.expr()) {
            Operand::Column(slot) => literal::in_list(&slot, &constants, negated),
            Operand::Function if constants.len() > monotone::LIST_SEARCHED => {
                if negated {
                    return Truth::unknown(LONG_LIST);
                }
                let ends = [(Op::GtEq, constants.iter().reduce(least)), (Op::LtEq, constants.iter().reduce(greatest))];
                let ends = ends.into_iter().filter_map(|(op, end)| Some(self.compare(list.expr(), op, end?)));
                Truth::within(Truth::all(ends.collect()).possible, LONG_LIST)
            }
            _ if negated => {
                Truth::all(constants.iter().map(|value| self.compare(list.expr(), Op::NotEq, value)).collect())
            }
            _ => Truth::any(constants.iter().map(|value| self.compare(list.expr(), Op::Eq, value)).collect()),
        }
    }

    pub(super) fn like(
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
            Operand::Function => return Truth::unknown(order::searched(operand, self).err().unwrap_or(NOT_ORDERED)),
            _ => return Truth::unknown(A_FUNCTION),
        };
        match as_text(&constant) {
            Some(_) if ignore_case => Truth::within(Predicate::IsNotNull { field: slot.field }, NO_CASE),
            Some(text) => pattern::Pattern::parse(text).matches(slot.field, negated),
            None => Truth::unknown(OTHER_TYPES),
        }
    }

    pub(super) fn starts_with(
        &self,
        text: &Arc<dyn PhysicalExpr>,
        prefix: &Arc<dyn PhysicalExpr>,
        negated: bool,
    ) -> Truth {
        let Some(constant) = constant_of(prefix) else { return Truth::unknown(TWO_COLUMNS) };
        if constant.is_null() {
            return Truth::exact(Predicate::False);
        }
        match (self.operand(text), as_text(&constant)) {
            (Operand::Column(slot), Some(prefix)) if slot.kind == Kind::Text => {
                pattern::Pattern::beginning(prefix).matches(slot.field, negated)
            }
            (Operand::Column(_), _) => Truth::unknown(OTHER_TYPES),
            _ => Truth::unknown(A_FUNCTION),
        }
    }

    /// In total order the NaNs are what is beyond the infinities.
    pub(super) fn is_nan(&self, number: &Arc<dyn PhysicalExpr>, negated: bool) -> Truth {
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
}

/// What is compared with a constant that isn't null: the comparison is unknown where it is null.
fn only_compared(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    use Operator as O;
    let binary = expr.as_any().downcast_ref::<BinaryExpr>()?;
    if !matches!(binary.op(), O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq) {
        return None;
    }
    match (constant_of(binary.left()), constant_of(binary.right())) {
        (None, Some(value)) if !value.is_null() => Some(binary.left()),
        (Some(value), None) if !value.is_null() => Some(binary.right()),
        _ => None,
    }
}

fn hashed(slot: &Slot, hash: Hash, op: Op, value: &ScalarValue) -> Truth {
    let (field, buckets) = (slot.field, i64::from(hash.buckets()));
    let Ok(ScalarValue::Int64(Some(asked))) = value.cast_to(&DataType::Int64) else {
        return Truth::unknown(OTHER_TYPES);
    };
    let listed: Vec<i64> = match op {
        Op::Eq | Op::NotEq => [asked].into_iter().filter(|asked| (0..buckets).contains(asked)).collect(),
        _ if hash.buckets() > BUCKETS_LISTED => return Truth::within(Predicate::IsNotNull { field }, HASHED),
        _ => (0..buckets).filter(|bucket| op.accepts(bucket.cmp(&asked))).collect(),
    };
    let negated = op == Op::NotEq;
    let all = listed.len() == usize::try_from(buckets).unwrap_or(usize::MAX);
    Truth::exact(match (listed.is_empty(), all) {
        (true, _) if negated => Predicate::IsNotNull { field },
        (true, _) => Predicate::False,
        (_, true) if negated => Predicate::False,
        (_, true) => Predicate::IsNotNull { field },
        _ => {
            let values = listed.into_iter().map(Value::Long).collect();
            Predicate::Bucket { field, bucket: hash, values, negated }
        }
    })
}

fn least<'v>(a: &'v ScalarValue, b: &'v ScalarValue) -> &'v ScalarValue {
    if a.partial_cmp(b).is_some_and(|order| order.is_gt()) { b } else { a }
}

fn greatest<'v>(a: &'v ScalarValue, b: &'v ScalarValue) -> &'v ScalarValue {
    if a.partial_cmp(b).is_some_and(|order| order.is_lt()) { b } else { a }
}
