//! Does the projection know in which bucket, and under which truncated value, a row lies?

use iceberg::spec::{Datum, NestedField, PrimitiveLiteral, PrimitiveType as T, Schema, Transform, Type};
use iceberg::transform::create_transform_function;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Facts, Op, Predicate, Value, Values, project, project_strict};
use super::support::{cases, facts_of, spec_of};

/// What a writer files a value under: hashed by the format library, truncated by the specification's formulas, which wrap
/// around. `None` for other transforms.
pub(super) fn written(transform: Transform, source: &T, value: &Value) -> Option<PrimitiveLiteral> {
    match (transform, value) {
        (Transform::Bucket(_), value) => {
            let datum = Datum::try_from_bytes(&bytes_of(value, source), source.clone()).unwrap();
            let bucket = create_transform_function(&transform).unwrap().transform_literal(&datum).unwrap().unwrap();
            Some(bucket.literal().clone())
        }
        (Transform::Truncate(w), Value::Long(x)) if *source == T::Int => {
            let (x, w) = (i32::try_from(*x).unwrap(), i32::try_from(w).unwrap());
            Some(PrimitiveLiteral::Int(x.wrapping_sub(x.rem_euclid(w))))
        }
        (Transform::Truncate(w), Value::Long(x)) => {
            Some(PrimitiveLiteral::Long(x.wrapping_sub(x.rem_euclid(i64::from(w)))))
        }
        (Transform::Truncate(w), Value::Decimal(x)) => Some(PrimitiveLiteral::Int128(x - x.rem_euclid(i128::from(w)))),
        (Transform::Truncate(w), Value::String(x)) => {
            Some(PrimitiveLiteral::String(x.chars().take(usize::try_from(w).unwrap()).collect()))
        }
        (Transform::Truncate(w), Value::Bytes(x)) => {
            Some(PrimitiveLiteral::Binary(x.iter().copied().take(usize::try_from(w).unwrap()).collect()))
        }
        _ => None,
    }
}

/// Single-value serialization.
fn bytes_of(value: &Value, source: &T) -> Vec<u8> {
    match value {
        Value::Long(x) if matches!(source, T::Int | T::Date) => i32::try_from(*x).unwrap().to_le_bytes().to_vec(),
        Value::Long(x) => x.to_le_bytes().to_vec(),
        Value::Decimal(x) => x.to_be_bytes().to_vec(),
        Value::String(x) => x.as_bytes().to_vec(),
        Value::Bytes(x) => x.clone(),
        Value::Bool(_) | Value::Double(_) => panic!("not hashed: {value:?}"),
    }
}

const BUCKETED: [T; 11] = [
    T::Int,
    T::Long,
    T::Date,
    T::Time,
    T::Timestamp,
    T::TimestampNs,
    T::Decimal { precision: 20, scale: 2 },
    T::String,
    T::Binary,
    T::Uuid,
    T::Fixed(2),
];
const TRUNCATED: [T; 5] = [T::Int, T::Long, T::Decimal { precision: 20, scale: 2 }, T::String, T::Binary];

fn arb_value(source: T) -> BoxedStrategy<Value> {
    let text =
        select(vec!["", "a", "ab", "abc", "abd", "abcd", "b", "é", "éa", "ab\u{10FFFF}", "\u{10FFFF}", "\u{10FFFF}b"]);
    let near = |min: i64, max: i64| prop_oneof![4 => -25_i64..25, 1 => (0_i64..25).prop_map(move |x| min + x), 1 => (0_i64..25).prop_map(move |x| max - x)];
    match source {
        T::Int | T::Date => near(i64::from(i32::MIN), i64::from(i32::MAX)).prop_map(Value::Long).boxed(),
        // A long may have been an int when it was written.
        T::Long => prop_oneof![near(i64::MIN, i64::MAX), near(i64::from(i32::MIN), i64::from(i32::MAX))]
            .prop_map(Value::Long)
            .boxed(),
        T::Time => (0_i64..50).prop_map(Value::Long).boxed(),
        T::Timestamp | T::TimestampNs => (-9_i64..9).prop_map(|x| Value::Long(x * 333)).boxed(),
        T::Decimal { .. } => {
            let wide = 10_i128.pow(20) - 1;
            // Where a byte more is needed for the sign, and not.
            let bytes = select(vec![0_i128, 1, -1, 127, 128, -128, -129, 255, 256, 32_767, 32_768, -32_768, -32_769]);
            prop_oneof![
                3 => bytes,
                1 => -200_i128..200,
                1 => (0_i128..20).prop_map(move |x| wide - x),
                1 => (0_i128..20).prop_map(move |x| x - wide)
            ]
            .prop_map(Value::Decimal)
            .boxed()
        }
        T::String => text.prop_map(|x| Value::String(x.into())).boxed(),
        T::Binary => {
            proptest::collection::vec(select(vec![0_u8, 1, 0x7F, 0x80, 0xFF]), 0..4).prop_map(Value::Bytes).boxed()
        }
        T::Fixed(_) => proptest::collection::vec(select(vec![0_u8, 1, 0xFF]), 2).prop_map(Value::Bytes).boxed(),
        _ => select(vec![0_u128, 1, u128::MAX / 2, u128::MAX])
            .prop_map(|x| Value::Bytes(x.to_be_bytes().to_vec()))
            .boxed(),
    }
}

fn arb_leaf(source: T) -> BoxedStrategy<Predicate> {
    let ops = select(vec![Op::Eq, Op::NotEq, Op::Lt, Op::LtEq, Op::Gt, Op::GtEq]);
    let compare = (ops, arb_value(source.clone())).prop_map(|(op, value)| Predicate::compare(1, op, value));
    let list = (proptest::collection::vec(arb_value(source), 2..5), any::<bool>()).prop_map(|(values, negated)| {
        let values: Values = values.into();
        if negated { Predicate::is_not_in(1, values) } else { Predicate::is_in(1, values) }
    });
    let null = select(vec![Predicate::IsNull { field: 1 }, Predicate::IsNotNull { field: 1 }]);
    prop_oneof![6 => compare, 3 => list, 1 => null].boxed()
}

fn arb_case() -> impl Strategy<Value = (T, Transform, Predicate, Vec<Option<Value>>, bool)> {
    let bucket = (select(BUCKETED.to_vec()), select(vec![1, 2, 7, 16])).prop_map(|(s, n)| (s, Transform::Bucket(n)));
    let truncate =
        (select(TRUNCATED.to_vec()), select(vec![1, 2, 3, 10, 50])).prop_map(|(s, w)| (s, Transform::Truncate(w)));
    prop_oneof![bucket, truncate, Just((T::Int, Transform::Truncate(i32::MAX.unsigned_abs())))].prop_flat_map(
        |(source, transform)| {
            let filter = arb_leaf(source.clone()).prop_recursive(2, 6, 2, |inner| {
                (inner.clone(), inner, any::<bool>())
                    .prop_map(|(a, b, and)| if and { Predicate::and([a, b]) } else { Predicate::or([a, b]) })
            });
            let rows = proptest::collection::vec(proptest::option::weighted(0.9, arb_value(source.clone())), 1..8);
            (Just(source), Just(transform), filter, rows, any::<bool>())
        },
    )
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// If a row matches the filter, its partition matches the projection; so do the summaries of any manifest that holds it.
    /// If a partition matches the strict projection, its rows match. Also of rows that were written when a long was an int.
    #[test]
    fn a_matching_row_is_in_a_matching_bucket((source, transform, filter, values, was_int) in arb_case()) {
        let field = NestedField::optional(1, "c", Type::Primitive(source.clone()));
        let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
        let spec = spec_of(&[(1, transform)]);
        let ty = transform.result_type(&source.clone().into()).unwrap();
        let ty = ty.as_primitive_type().unwrap();
        let projected = project(&filter, &spec, &schema);
        let strict = project_strict(&filter, &spec, &schema);
        let place = |value: &Option<Value>| {
            let value = value.as_ref()?;
            let writer = match value {
                Value::Long(x) if was_int && source == T::Long && i32::try_from(*x).is_ok() => T::Int,
                _ => source.clone(),
            };
            Value::from_literal(&written(transform, &writer, value).unwrap(), ty)
        };
        let places: Vec<_> = values.iter().map(place).collect();
        let mut any = false;
        for (value, place) in values.iter().zip(&places) {
            let matches = filter.holds(&|_| value.clone()) == Some(true);
            any |= matches;
            let tuple = |_| facts_of(std::slice::from_ref(place), false);
            prop_assert!(!matches || projected.may_match(&tuple), "{projected:?} loses {value:?} in {place:?}");
            prop_assert!(matches || !strict.must_match(&tuple), "{strict:?} takes {value:?} in {place:?}");
        }
        let summary = |_| Facts { nulls: None, rows: None, ..facts_of(&places, false) };
        prop_assert!(!any || projected.may_match(&summary), "{projected:?} loses a manifest");
    }
}

/// Inclusive and strict projection of a filter, as text.
fn through(transform: Transform, source: T, filter: &Predicate) -> (String, String) {
    let field = NestedField::optional(1, "c", Type::Primitive(source.clone()));
    let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
    let spec = spec_of(&[(1, transform)]);
    let ty = transform.result_type(&source.into()).unwrap().as_primitive_type().cloned();
    let name = |_: i32| ("p".to_owned(), ty.clone());
    let show = |p: Predicate| p.display(&name).to_string();
    (show(project(filter, &spec, &schema)), show(project_strict(filter, &spec, &schema)))
}

/// Projections are as narrow as they can be.
#[test]
fn truncated_numbers() {
    let of = |op, x| through(Transform::Truncate(10), T::Int, &Predicate::compare(1, op, Value::Long(x)));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    // -2147483648 wraps around to 2147483646.
    assert_eq!(of(Op::Lt, 0), pair("p <= -10 OR p = 2147483646", "p < 0"));
    assert_eq!(of(Op::LtEq, -1), pair("p <= -10 OR p = 2147483646", "p < 0"));
    assert_eq!(of(Op::GtEq, -10), pair("p >= -10", "p > -20 AND p <> 2147483646"));
    assert_eq!(of(Op::Gt, -1), pair("p >= 0", "p > -10 AND p <> 2147483646"));
    assert_eq!(of(Op::Eq, -11), pair("p = -20", "false"));
    assert_eq!(of(Op::NotEq, 9), pair("p IS NOT NULL", "p <> 0"));
    assert_eq!(of(Op::Eq, i64::from(i32::MIN)), pair("p IN (-2147483650, 2147483646)", "false"));
    assert_eq!(of(Op::LtEq, i64::from(i32::MAX)), pair("p <= 2147483640 OR p = 2147483646", "p < 2147483640"));
    let decimal = T::Decimal { precision: 9, scale: 2 };
    let of = |op, x| through(Transform::Truncate(50), decimal.clone(), &Predicate::compare(1, op, Value::Decimal(x)));
    assert_eq!(of(Op::Eq, 1065), pair("p = 10.50", "false"));
    assert_eq!(of(Op::Gt, 1060), pair("p >= 10.50", "p > 10.50"));
    assert_eq!(of(Op::Lt, 0), pair("p <= -0.50", "p < 0.00"));
}

#[test]
fn truncated_text() {
    let of = |op, text: &str| {
        through(Transform::Truncate(2), T::String, &Predicate::compare(1, op, Value::String(text.into())))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(of(Op::Lt, "hello"), pair("p <= 'he'", "p < 'he'"));
    assert_eq!(of(Op::GtEq, "hello"), pair("p >= 'he'", "p > 'he'"));
    assert_eq!(of(Op::Lt, "he"), pair("p < 'he'", "p < 'he'"));
    assert_eq!(of(Op::GtEq, "he"), pair("p >= 'he'", "p >= 'he'"));
    assert_eq!(of(Op::Gt, "h"), pair("p > 'h'", "p > 'h'"));
    assert_eq!(of(Op::LtEq, "h"), pair("p <= 'h'", "p <= 'h'"));
    assert_eq!(of(Op::Eq, "hello"), pair("p = 'he'", "false"));
    assert_eq!(of(Op::Eq, "h"), pair("p = 'h'", "p = 'h'"));
    assert_eq!(of(Op::NotEq, "hello"), pair("p IS NOT NULL", "p <> 'he'"));
    assert_eq!(of(Op::NotEq, "h"), pair("p <> 'h'", "p <> 'h'"));
    assert_eq!(of(Op::LtEq, "é€"), pair("p <= 'é€'", "p < 'é€'"));
}

#[test]
fn buckets() {
    let eq = Predicate::compare(1, Op::Eq, Value::Long(34));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    // 2017239379 is 3 modulo 16.
    assert_eq!(through(Transform::Bucket(16), T::Int, &eq), pair("p = 3", "false"));
    assert_eq!(through(Transform::Bucket(16), T::Long, &eq), pair("p = 3", "false"));
    let not = Predicate::compare(1, Op::NotEq, Value::Long(34));
    assert_eq!(through(Transform::Bucket(16), T::Int, &not), pair("true", "p <> 3"));
    let range = Predicate::compare(1, Op::Lt, Value::Long(34));
    assert_eq!(through(Transform::Bucket(16), T::Int, &range), pair("true", "false"));
    // Void and unknown transforms say nothing.
    for transform in [Transform::Void, Transform::Unknown] {
        assert_eq!(through(transform, T::Int, &eq), pair("true", "false"));
    }
}
