//! Is what a manifest tells believed, and no more than that?

use std::collections::HashMap;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FieldSummary, Literal, PrimitiveLiteral,
    PrimitiveType as T, Struct,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Facts, Op, Predicate, Value, Values, facts_of_file, facts_of_partition, facts_of_summary};
use super::support::facts_of;

/// Values of one column.
fn arb_values() -> impl Strategy<Value = (bool, Vec<Value>)> {
    let doubles = [0.0, -0.0, 1.0, 5.0, -3.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
    let texts = ["", "a", "ab", "abcdefghijklmnopqr", "abcdefghijklmnop\u{10FFFF}", "\u{D7FF}", "\u{E000}é", "z"];
    prop_oneof![
        Just((true, doubles.map(Value::Double).to_vec())),
        Just((false, [-2, -1, 0, 1, 2, i64::MAX].map(Value::Long).to_vec())),
        Just((false, texts.map(|s| Value::String(s.into())).to_vec())),
        Just((false, [true, false].map(Value::Bool).to_vec())),
        Just((false, [&[][..], &[0x7f], &[0x80, 1]].map(|b| Value::Bytes(b.to_vec())).to_vec())),
    ]
}

fn arb_leaf(pool: Vec<Value>) -> impl Strategy<Value = Predicate> {
    let ops = vec![Op::Eq, Op::NotEq, Op::Lt, Op::LtEq, Op::Gt, Op::GtEq];
    let compare = (select(ops), select(pool.clone())).prop_map(|(op, v)| Predicate::compare(1, op, v));
    let list = (proptest::collection::vec(select(pool), 1..4), any::<bool>()).prop_map(|(values, negated)| {
        let values = Values::from(values);
        if negated { Predicate::NotIn { field: 1, values } } else { Predicate::In { field: 1, values } }
    });
    let null = select(vec![Predicate::IsNull { field: 1 }, Predicate::IsNotNull { field: 1 }]);
    prop_oneof![4 => compare, 2 => list, 1 => null]
}

fn arb_set() -> impl Strategy<Value = (bool, Vec<Option<Value>>, Predicate, [bool; 6])> {
    arb_values().prop_flat_map(|(float, pool)| {
        let rows = proptest::collection::vec(proptest::option::weighted(0.8, select(pool.clone())), 1..5);
        let predicate = arb_leaf(pool).prop_recursive(2, 6, 2, |inner| {
            (inner.clone(), inner, any::<bool>())
                .prop_map(|(a, b, and)| if and { Predicate::And(vec![a, b]) } else { Predicate::Or(vec![a, b]) })
        });
        (Just(float), rows, predicate, any::<[bool; 6]>())
    })
}

/// Facts as loose as a writer may leave them.
fn loosened(mut facts: Facts, [lower, upper, nulls, nans, rows, zeros]: [bool; 6]) -> Facts {
    if lower {
        facts.lower = facts.lower.and_then(|v| truncated(v, false));
    }
    if upper {
        facts.upper = facts.upper.and_then(|v| truncated(v, true));
    }
    facts.nulls = facts.nulls.filter(|_| !nulls);
    facts.nans = facts.nans.filter(|_| !nans);
    facts.rows = facts.rows.filter(|_| !rows);
    if zeros {
        // The zero of the other sign, where it makes the bounds narrower.
        let other = |v| if v == Value::Double(-0.0) { Value::Double(0.0) } else { v };
        facts.lower = facts.lower.map(other);
        facts.upper = facts.upper.map(|v| if v == Value::Double(0.0) { Value::Double(-0.0) } else { v });
    }
    facts
}

/// A bound cut to 16 characters (and raised, if upper); other kinds of bounds are left out.
fn truncated(value: Value, upper: bool) -> Option<Value> {
    let Value::String(text) = value else { return None };
    let mut cut: String = text.chars().take(16).collect();
    if upper && cut != text {
        cut.pop();
        cut.push('q');
        assert!(cut > text);
    }
    Some(Value::String(cut))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// If any row of a set matches, the set may match; if the set must match, all rows do.
    #[test]
    fn sets_are_judged_by_their_facts((float, rows, predicate, loose) in arb_set()) {
        let exact = facts_of(&rows, float);
        let loose = loosened(exact.clone(), loose);
        let truths: Vec<_> = rows.iter().map(|row| predicate.holds(&|_| row.clone()) == Some(true)).collect();
        for facts in [exact, loose] {
            let facts = |_| facts.clone();
            prop_assert!(!truths.contains(&true) || predicate.may_match(&facts), "{predicate:?} loses {rows:?}");
            prop_assert!(!truths.contains(&false) || !predicate.must_match(&facts), "{predicate:?} takes {rows:?}");
        }
    }
}

fn long(lower: i64, upper: i64) -> Facts {
    let (lower, upper) = (Some(Value::Long(lower)), Some(Value::Long(upper)));
    Facts { lower, upper, nulls: Some(0), rows: Some(10), ..Facts::default() }
}

/// May and must, of one field.
fn judged(predicate: &Predicate, facts: &Facts) -> (bool, bool) {
    (predicate.may_match(&|_| facts.clone()), predicate.must_match(&|_| facts.clone()))
}

/// Bounds rule out what they can, and prove what they can.
#[test]
fn bounds_decide() {
    let facts = long(3, 5);
    let judge = |op, v| judged(&Predicate::compare(1, op, Value::Long(v)), &facts);
    for (op, at) in [
        (Op::Eq, [(2, false, false), (3, true, false), (5, true, false), (6, false, false)]),
        (Op::NotEq, [(2, true, true), (3, true, false), (5, true, false), (6, true, true)]),
        (Op::Lt, [(2, false, false), (3, false, false), (5, true, false), (6, true, true)]),
        (Op::LtEq, [(2, false, false), (3, true, false), (5, true, true), (6, true, true)]),
        (Op::Gt, [(2, true, true), (3, true, false), (5, false, false), (6, false, false)]),
        (Op::GtEq, [(2, true, true), (3, true, true), (5, true, false), (6, false, false)]),
    ] {
        for (v, may, must) in at {
            assert_eq!(judge(op, v), (may, must), "{{3..5}} {op} {v}");
        }
    }
    let list = |values: &[i64]| values.iter().copied().map(Value::Long).collect::<Vec<_>>();
    assert_eq!(judged(&Predicate::is_in(1, list(&[1, 2, 6, 9])), &facts), (false, false));
    assert_eq!(judged(&Predicate::is_in(1, list(&[1, 4, 9])), &facts), (true, false));
    assert_eq!(judged(&Predicate::is_not_in(1, list(&[1, 2, 6])), &facts), (true, true));
    assert_eq!(judged(&Predicate::is_not_in(1, list(&[1, 4])), &facts), (true, false));
    let one = long(4, 4);
    assert_eq!(judged(&Predicate::is_in(1, list(&[1, 4])), &one), (true, true));
    assert_eq!(judged(&Predicate::is_not_in(1, list(&[1, 4])), &one), (false, false));
    assert_eq!(judged(&Predicate::compare(1, Op::NotEq, Value::Long(4)), &one), (false, false));
    assert_eq!(judged(&Predicate::compare(1, Op::Eq, Value::Long(4)), &one), (true, true));
}

/// Null counts rule out and prove too.
#[test]
fn nulls_decide() {
    let (null, not_null) = (Predicate::IsNull { field: 1 }, Predicate::IsNotNull { field: 1 });
    let of = |nulls| Facts { nulls, rows: Some(3), ..Facts::default() };
    assert_eq!((judged(&null, &of(Some(0))), judged(&not_null, &of(Some(0)))), ((false, false), (true, true)));
    assert_eq!((judged(&null, &of(Some(1))), judged(&not_null, &of(Some(1)))), ((true, false), (true, false)));
    assert_eq!((judged(&null, &of(Some(3))), judged(&not_null, &of(Some(3)))), ((true, true), (false, false)));
    assert_eq!((judged(&null, &of(None)), judged(&not_null, &of(None))), ((true, false), (true, false)));
    // A count that can't be is not believed.
    assert_eq!((judged(&null, &of(Some(4))), judged(&not_null, &of(Some(4)))), ((true, false), (true, false)));
    let any = Predicate::compare(1, Op::NotEq, Value::Long(4));
    assert_eq!(judged(&any, &of(Some(3))), (false, false));
    // Nothing known.
    assert_eq!(judged(&any, &Facts::default()), (true, false));
}

/// Bounds that contradict each other, or of another kind than the constant, decide nothing.
#[test]
fn garbage_decides_nothing() {
    let equal = Predicate::compare(1, Op::Eq, Value::Long(100));
    let differs = Predicate::compare(1, Op::NotEq, Value::Long(100));
    let text = Facts { lower: Some(Value::String("a".into())), upper: Some(Value::String("b".into())), ..long(0, 0) };
    for facts in [long(5, 3), text] {
        assert_eq!(judged(&equal, &facts), (true, false));
        assert_eq!(judged(&differs, &facts), (true, false));
        let list = Predicate::is_in(1, vec![Value::Long(7), Value::Long(100)]);
        assert_eq!(judged(&list, &facts), (true, false));
    }
    let nan = Some(Value::Double(f64::NAN));
    let facts = Facts { lower: Some(Value::Double(1.0)), upper: nan, nans: Some(0), float: true, ..long(0, 0) };
    assert_eq!(judged(&Predicate::compare(1, Op::Lt, Value::Double(0.0)), &facts), (true, false));
}

/// Where NaN is possible it may match anything but an equality with a number; where it is not, bounds decide.
#[test]
fn nan_is_beyond_the_bounds() {
    let (lower, upper) = (Some(Value::Double(1.0)), Some(Value::Double(2.0)));
    let of =
        |nans| Facts { lower: lower.clone(), upper: upper.clone(), nulls: Some(0), nans, rows: Some(3), float: true };
    let compare = |op, x| Predicate::compare(1, op, Value::Double(x));
    for nans in [None, Some(1)] {
        assert_eq!(judged(&compare(Op::Gt, 5.0), &of(nans)), (true, false));
        assert_eq!(judged(&compare(Op::Lt, -5.0), &of(nans)), (true, false));
        assert_eq!(judged(&compare(Op::Lt, 5.0), &of(nans)), (true, false));
        assert_eq!(judged(&compare(Op::Eq, 5.0), &of(nans)), (false, false));
        assert_eq!(judged(&compare(Op::NotEq, 5.0), &of(nans)), (true, true));
        assert_eq!(judged(&compare(Op::Eq, f64::NAN), &of(nans)), (true, false));
        assert_eq!(judged(&compare(Op::NotEq, f64::NAN), &of(nans)), (true, false));
    }
    assert_eq!(judged(&compare(Op::Gt, 5.0), &of(Some(0))), (false, false));
    assert_eq!(judged(&compare(Op::Lt, 5.0), &of(Some(0))), (true, true));
    // All NaN: nothing else can match.
    assert_eq!(judged(&compare(Op::Eq, 1.5), &of(Some(3))), (false, false));
    // Also without being told that the column is a float.
    let untold = Facts { float: false, lower: None, upper: None, ..of(None) };
    assert_eq!(judged(&compare(Op::NotEq, f64::NAN), &untold), (true, false));
}

/// A bound of zero stands for both zeros.
#[test]
fn zero_has_two_signs() {
    let of = |lower, upper| {
        let (lower, upper) = (Some(Value::Double(lower)), Some(Value::Double(upper)));
        Facts { lower, upper, nulls: Some(0), nans: Some(0), rows: Some(1), float: true }
    };
    let compare = |op, x| Predicate::compare(1, op, Value::Double(x));
    assert_eq!(judged(&compare(Op::Eq, -0.0), &of(0.0, 1.0)), (true, false));
    assert_eq!(judged(&compare(Op::Eq, 0.0), &of(-1.0, -0.0)), (true, false));
    assert_eq!(judged(&compare(Op::Eq, 0.0), &of(0.0, 0.0)), (true, false));
    assert_eq!(judged(&compare(Op::Lt, -0.0), &of(0.0, 1.0)), (false, false));
}

fn file(field: i32, lower: Datum, upper: Datum) -> DataFile {
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path("memory:/f.parquet".to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .partition_spec_id(0)
        .record_count(10)
        .file_size_in_bytes(100)
        .lower_bounds(HashMap::from([(field, lower)]))
        .upper_bounds(HashMap::from([(field, upper)]))
        .null_value_counts(HashMap::from([(field, 2)]))
        .nan_value_counts(HashMap::from([(field, 1)]))
        .build()
        .unwrap()
}

#[test]
fn facts_from_a_file() {
    let ints = file(7, Datum::int(-3), Datum::int(5));
    let expected = Facts {
        lower: Some(Value::Long(-3)),
        upper: Some(Value::Long(5)),
        nulls: Some(2),
        nans: Some(1),
        rows: Some(10),
        float: false,
    };
    assert_eq!(facts_of_file(&ints, 7, &T::Int, 10), expected);
    // Widened since.
    assert_eq!(facts_of_file(&ints, 7, &T::Long, 10), expected);
    let floats = file(7, Datum::float(1.1_f32), Datum::float(2.5_f32));
    let widened = facts_of_file(&floats, 7, &T::Double, 10);
    assert_eq!((widened.lower, widened.float), (Some(Value::Double(f64::from(1.1_f32))), true));
    // Another type, or a change that changes the numbers: bounds are not used, counts are.
    for ty in [T::Timestamp, T::Date, T::String, T::Decimal { precision: 9, scale: 2 }] {
        let facts = facts_of_file(&ints, 7, &ty, 10);
        assert_eq!((facts.lower, facts.upper, facts.nulls), (None, None, Some(2)), "{ty}");
    }
    let dates = file(7, Datum::date(1), Datum::date(2));
    assert_eq!(facts_of_file(&dates, 7, &T::Timestamp, 10).lower, None);
    // Not a column of the file.
    assert_eq!(facts_of_file(&ints, 8, &T::Int, 10), Facts { rows: Some(10), ..Facts::default() });
    // Bounds of uuids may be in signed order.
    let uuid = |x: u128| Datum::uuid(uuid::Uuid::from_u128(x));
    let uuids = facts_of_file(&file(7, uuid(1), uuid(u128::MAX)), 7, &T::Uuid, 10);
    assert_eq!((uuids.lower, uuids.upper), (None, None));
}

#[test]
fn facts_from_a_partition() {
    let day = Literal::Primitive(PrimitiveLiteral::Int(20_608));
    let facts = facts_of_partition(Some(&day), &T::Date);
    let point = Some(Value::Long(20_608));
    assert_eq!(
        facts,
        Facts { lower: point.clone(), upper: point, nulls: Some(0), nans: Some(0), rows: Some(1), float: false }
    );
    let null = facts_of_partition(None, &T::Date);
    assert_eq!((null.nulls, null.rows, null.lower), (Some(1), Some(1), None));
    // An int where an instant belongs is not known.
    assert_eq!(facts_of_partition(Some(&day), &T::Timestamp), Facts::default());
    let nan = Literal::Primitive(PrimitiveLiteral::Double(f64::NAN.into()));
    let facts = facts_of_partition(Some(&nan), &T::Double);
    assert_eq!((facts.nans, &facts.lower, facts.float), (Some(1), &None, true));
    assert_eq!(judged(&Predicate::compare(1, Op::Gt, Value::Double(1.0)), &facts), (true, false));
    assert_eq!(judged(&Predicate::compare(1, Op::Eq, Value::Double(1.0)), &facts), (false, false));
}

#[test]
fn facts_from_a_summary() {
    let bytes = |b: &[u8]| Some(serde_bytes(b));
    let summary = |lower: &[u8], upper: &[u8]| FieldSummary {
        contains_null: false,
        contains_nan: Some(false),
        lower_bound: bytes(lower),
        upper_bound: bytes(upper),
    };
    let ints = summary(&3_i32.to_le_bytes(), &5_i32.to_le_bytes());
    let facts = facts_of_summary(&ints, &T::Int);
    assert_eq!((facts.lower, facts.upper), (Some(Value::Long(3)), Some(Value::Long(5))));
    assert_eq!((facts.nulls, facts.nans, facts.rows), (Some(0), Some(0), None));
    assert_eq!(facts_of_summary(&ints, &T::Long).lower, Some(Value::Long(3)));
    // Bytes that are no value of the type.
    assert_eq!(facts_of_summary(&ints, &T::Timestamp).lower, None);
    assert_eq!(facts_of_summary(&summary(&[0xff], &[0xff]), &T::String).lower, None);
    let with_null = FieldSummary { contains_null: true, contains_nan: None, ..ints };
    let facts = facts_of_summary(&with_null, &T::Int);
    assert_eq!((facts.nulls, facts.nans), (None, None));
    // Uuids: only where there is one.
    let (a, b) = ([0x10; 16], [0x90; 16]);
    assert_eq!(facts_of_summary(&summary(&a, &b), &T::Uuid).lower, None);
    assert_eq!(facts_of_summary(&summary(&b, &b), &T::Uuid).lower, Some(Value::Bytes(b.to_vec())));
}

/// The byte buffer of the format library, whose crate isn't ours.
fn serde_bytes<B: From<Vec<u8>>>(bytes: &[u8]) -> B {
    B::from(bytes.to_vec())
}
