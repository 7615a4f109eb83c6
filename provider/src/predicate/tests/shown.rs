//! Does a predicate read well?

use iceberg::spec::PrimitiveType as T;

use super::super::{Op, Predicate, Value};

fn shown(ty: T, value: Value) -> String {
    let predicate = Predicate::compare(1, Op::Eq, value);
    let name = |_: i32| ("c".to_owned(), Some(ty.clone()));
    let text = predicate.display(&name).to_string();
    text.strip_prefix("c = ").unwrap().to_owned()
}

#[test]
fn values() {
    assert_eq!(shown(T::Boolean, Value::Bool(true)), "true");
    assert_eq!(shown(T::Long, Value::Long(-7)), "-7");
    assert_eq!(shown(T::Date, Value::Long(20_608)), "2026-06-04");
    assert_eq!(shown(T::Date, Value::Long(-1)), "1969-12-31");
    assert_eq!(shown(T::Date, Value::Long(i64::MAX)), "9223372036854775807");
    assert_eq!(shown(T::Timestamptz, Value::Long(1_780_531_200_000_000)), "2026-06-04T00:00:00+00:00");
    assert_eq!(shown(T::Timestamp, Value::Long(-1)), "1969-12-31T23:59:59.999999");
    assert_eq!(shown(T::Timestamp, Value::Long(1_500_000)), "1970-01-01T00:00:01.500");
    assert_eq!(shown(T::Timestamp, Value::Long(i64::MIN)), "-9223372036854775808");
    assert_eq!(shown(T::TimestamptzNs, Value::Long(1)), "1970-01-01T00:00:00.000000001+00:00");
    assert_eq!(shown(T::Time, Value::Long(43_200_000_001)), "12:00:00.000001");
    assert_eq!(shown(T::Float, Value::Double(f64::from(1.1_f32))), "1.1");
    assert_eq!(shown(T::Double, Value::Double(-0.0)), "-0.0");
    assert_eq!(shown(T::Decimal { precision: 9, scale: 2 }, Value::Decimal(-5)), "-0.05");
    assert_eq!(shown(T::Decimal { precision: 9, scale: 0 }, Value::Decimal(12)), "12");
    assert_eq!(shown(T::String, Value::String("it's".into())), "'it''s'");
    assert_eq!(shown(T::Binary, Value::Bytes(vec![0, 0xab])), "X'00ab'");
    let uuid = Value::Bytes(0xf79c_3e09_677c_4bbd_a479_3f34_9cb7_85e7_u128.to_be_bytes().to_vec());
    assert_eq!(shown(T::Uuid, uuid), "f79c3e09-677c-4bbd-a479-3f349cb785e7");
}

#[test]
fn structure() {
    let name = |field: i32| (format!("c{field}"), Some(T::Long));
    let at = |field, op| Predicate::compare(field, op, Value::Long(1));
    let both = Predicate::and([at(1, Op::GtEq), Predicate::or([at(2, Op::NotEq), Predicate::IsNull { field: 3 }])]);
    assert_eq!(both.display(&name).to_string(), "c1 >= 1 AND (c2 <> 1 OR c3 IS NULL)");
    let list = |n: i64| (1..=n).map(Value::Long).collect::<Vec<_>>();
    assert_eq!(Predicate::is_in(1, list(2)).display(&name).to_string(), "c1 IN (1, 2)");
    let long = Predicate::is_not_in(1, list(100));
    assert_eq!(long.display(&name).to_string(), "c1 NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, … 90 more)");
    assert_eq!(Predicate::True.display(&name).to_string(), "true");
    assert_eq!(Predicate::False.display(&name).to_string(), "false");
    assert_eq!(Predicate::IsNotNull { field: 4 }.display(&name).to_string(), "c4 IS NOT NULL");
}

#[test]
fn simplification() {
    let a = Predicate::IsNull { field: 1 };
    let b = Predicate::IsNull { field: 2 };
    assert_eq!(Predicate::and([]), Predicate::True);
    assert_eq!(Predicate::or([]), Predicate::False);
    assert_eq!(Predicate::and([Predicate::True, a.clone()]), a);
    assert_eq!(Predicate::and([a.clone(), Predicate::False]), Predicate::False);
    assert_eq!(Predicate::or([a.clone(), Predicate::False, a.clone()]), a);
    assert_eq!(Predicate::or([a.clone(), Predicate::True]), Predicate::True);
    let nested = Predicate::and([a.clone(), Predicate::and([b.clone(), a.clone()])]);
    assert_eq!(nested, Predicate::And(vec![a, b]));
    assert_eq!(nested.fields(), vec![1, 2]);
    // Sorted, each once; one is an equality and none is nothing.
    let list = Predicate::is_in(1, [3, 1, 3].map(Value::Long).to_vec());
    assert_eq!(list, Predicate::In { field: 1, values: [1, 3].map(Value::Long).to_vec().into() });
    assert_eq!(Predicate::is_in(1, vec![Value::Long(3)]), Predicate::compare(1, Op::Eq, Value::Long(3)));
    assert_eq!(Predicate::is_in(1, vec![]), Predicate::False);
    assert_eq!(Predicate::is_not_in(1, vec![]), Predicate::IsNotNull { field: 1 });
}
