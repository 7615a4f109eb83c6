//! Which bucket does a value hash to?
//!
//! Hashes keep no order, so that only `=` and `IN` say something of buckets.
//!
//! Source: Iceberg specification, "Bucket Transform Details", "Appendix B: 32-bit Hash Requirements".

use iceberg::spec::PrimitiveType;

use super::super::{Op, Predicate, Value};

/// A hash of a column into so many buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash {
    buckets: u32,
    /// The column's values are nanoseconds, which are hashed as the microseconds they lie in.
    nanos: bool,
}

impl Hash {
    /// `None` for a type that has no buckets.
    pub(in crate::predicate) fn of(source: &PrimitiveType, buckets: u32) -> Option<Hash> {
        use PrimitiveType as T;
        let nanos = match source {
            T::TimestampNs | T::TimestamptzNs => true,
            T::Boolean | T::Float | T::Double => return None,
            _ => false,
        };
        // The hash is a positive int, and so is the number of buckets.
        (1..=i32::MAX.unsigned_abs()).contains(&buckets).then_some(Hash { buckets, nanos })
    }

    pub(in crate::predicate) fn buckets(self) -> u32 {
        self.buckets
    }

    /// A partition field of so many buckets holds this hash of every row. Of nanoseconds writers differ: see [`Hash::places`].
    pub(super) fn is_one_of(self, buckets: u32) -> bool {
        self.buckets == buckets && !self.nanos
    }

    /// The bucket of a value; `None` if it can't be of the column.
    pub(in crate::predicate) fn bucket(self, value: &Value) -> Option<i64> {
        let long = |x: i64| Some(self.of_bytes(&x.to_le_bytes()));
        match value {
            Value::Long(nanos) if self.nanos => long(nanos.div_euclid(1_000)),
            Value::Long(x) => long(*x),
            Value::Decimal(x) => Some(self.of_bytes(shortest(&x.to_be_bytes()))),
            Value::String(text) => Some(self.of_bytes(text.as_bytes())),
            Value::Bytes(bytes) => Some(self.of_bytes(bytes)),
            Value::Bool(_) | Value::Double(_) => None,
        }
    }

    fn of_bytes(self, bytes: &[u8]) -> i64 {
        i64::from((murmur3(bytes) & 0x7FFF_FFFF) % self.buckets)
    }

    /// The buckets in which writers may have filed a value: some round nanoseconds before 1970 toward it.
    fn places(self, value: &Value) -> Option<Vec<Value>> {
        let right = self.bucket(value)?;
        let toward_1970 = match value {
            Value::Long(nanos) if self.nanos => self.of_bytes(&(nanos / 1_000).to_le_bytes()),
            _ => right,
        };
        Some(vec![Value::Long(right), Value::Long(toward_1970)])
    }

    pub(super) fn project(self, leaf: &Predicate, field: i32, strict: bool) -> Option<Predicate> {
        let places = |values: &[Value]| {
            let each: Option<Vec<_>> = values.iter().map(|value| self.places(value)).collect();
            each.map(|each| each.into_iter().flatten().collect::<Vec<_>>())
        };
        match leaf {
            Predicate::Compare { op: Op::Eq, value, .. } if !strict => {
                Some(Predicate::is_in(field, places(std::slice::from_ref(value))?))
            }
            Predicate::In { values, .. } if !strict => Some(Predicate::is_in(field, places(values)?)),
            // Every other bucket holds other values.
            Predicate::Compare { op: Op::NotEq, value, .. } if strict => {
                Some(Predicate::is_not_in(field, places(std::slice::from_ref(value))?))
            }
            Predicate::NotIn { values, .. } if strict => Some(Predicate::is_not_in(field, places(values)?)),
            _ => None,
        }
    }
}

/// A number in two's complement, without the leading bytes that say nothing but its sign.
fn shortest(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest
        && ((*first == 0 && second & 0x80 == 0) || (*first == 0xFF && second & 0x80 != 0))
    {
        rest = rest.get(1..).unwrap_or_default();
    }
    rest
}

/// The 32-bit variant of Murmur3 for x86, with seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593);
    let mut hash = 0_u32;
    let mut words = bytes.chunks_exact(4);
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0, |k, byte| k << 8 | u32::from(*byte));
        hash = (hash ^ mix(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= mix(rest.iter().rev().fold(0, |k, byte| k << 8 | u32::from(*byte)));
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: &Value) -> i64 {
        Hash::of(&PrimitiveType::Long, i32::MAX.unsigned_abs()).unwrap().bucket(value).unwrap()
    }

    /// The specification's examples, without their sign.
    #[test]
    fn hashes_of_the_specification() {
        let positive = |hash: i32| i64::from(hash & i32::MAX) % i64::from(i32::MAX);
        let uuid = uuid::Uuid::parse_str("f79c3e09-677c-4bbd-a479-3f349cb785e7").unwrap();
        for (value, expected) in [
            (Value::Long(34), 2_017_239_379),
            (Value::Decimal(1420), -500_754_589),
            (Value::Long(17_486), -653_330_422),
            (Value::Long(81_068_000_000), -662_762_989),
            (Value::Long(1_510_871_468_000_000), -2_047_944_441),
            (Value::Long(1_510_871_468_000_001), -1_207_196_810),
            (Value::String("iceberg".into()), 1_210_000_089),
            (Value::Bytes(uuid.as_bytes().to_vec()), 1_488_055_340),
            (Value::Bytes(vec![0, 1, 2, 3]), -188_683_207),
        ] {
            assert_eq!(hash(&value), positive(expected), "{value:?}");
        }
    }

    /// Nanoseconds are hashed as microseconds.
    #[test]
    fn nanoseconds() {
        let nanos = Hash::of(&PrimitiveType::TimestampNs, 1000).unwrap();
        let micros = Hash::of(&PrimitiveType::Timestamp, 1000).unwrap();
        assert_eq!(
            nanos.bucket(&Value::Long(1_510_871_468_000_001_999)),
            micros.bucket(&Value::Long(1_510_871_468_000_001))
        );
        assert_eq!(nanos.bucket(&Value::Long(-1)), micros.bucket(&Value::Long(-1)));
        let filed = nanos.places(&Value::Long(-1)).unwrap();
        assert_eq!(filed.last().cloned(), micros.bucket(&Value::Long(0)).map(Value::Long));
    }
}
