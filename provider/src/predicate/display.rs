//! How does a predicate read?

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveTime, Timelike};
use iceberg::spec::PrimitiveType;

use super::{Op, Predicate, Value};

/// Of a longer IN list the first ones are shown, and how many more there are: a line of EXPLAIN stays a line.
const LIST_SHOWN: usize = 10;

/// Days between 0001-01-01 (day 1 of the calendar) and 1970-01-01.
const CALENDAR_DAY_OF_1970: i64 = 719_163;

impl Predicate {
    /// The predicate as text: `ts >= 2026-06-04T00:00:00+00:00 AND session_id = 'a'`. `name` gives a field's name and type;
    /// give the type date to the field of a day partition.
    pub fn display<'a>(&'a self, name: &'a dyn Fn(i32) -> (String, Option<PrimitiveType>)) -> impl fmt::Display + 'a {
        Shown { predicate: self, name }
    }
}

struct Shown<'a> {
    predicate: &'a Predicate,
    name: &'a dyn Fn(i32) -> (String, Option<PrimitiveType>),
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.predicate {
            Predicate::True => f.write_str("true"),
            Predicate::False => f.write_str("false"),
            Predicate::And(parts) => self.joined(f, parts, " AND "),
            Predicate::Or(parts) => self.joined(f, parts, " OR "),
            Predicate::Compare { field, op, value } => {
                let (name, ty) = (self.name)(*field);
                write!(f, "{name} {op} {}", Text(value, ty.as_ref()))
            }
            Predicate::In { field, values } => self.list(f, *field, "IN", values),
            Predicate::NotIn { field, values } => self.list(f, *field, "NOT IN", values),
            Predicate::Bucket { field, bucket, values, negated } => {
                let hashed = format!("bucket({}, {})", bucket.buckets(), (self.name)(*field).0);
                self.listed(f, &hashed, None, if *negated { "NOT IN" } else { "IN" }, values)
            }
            Predicate::Cycle { field, cycle, values } => {
                let zone = cycle.zone().map(|zone| format!(" AT TIME ZONE '{zone}'")).unwrap_or_default();
                let part = format!("extract({} FROM {}{zone})", cycle.part().name(), (self.name)(*field).0);
                self.listed(f, &part, None, "IN", values)
            }
            Predicate::IsNull { field } => write!(f, "{} IS NULL", (self.name)(*field).0),
            Predicate::IsNotNull { field } => write!(f, "{} IS NOT NULL", (self.name)(*field).0),
        }
    }
}

impl Shown<'_> {
    fn joined(&self, f: &mut fmt::Formatter<'_>, parts: &[Predicate], word: &str) -> fmt::Result {
        for (i, predicate) in parts.iter().enumerate() {
            if i > 0 {
                f.write_str(word)?;
            }
            let part = Shown { predicate, name: self.name };
            match predicate {
                Predicate::And(_) | Predicate::Or(_) => write!(f, "({part})")?,
                _ => write!(f, "{part}")?,
            }
        }
        Ok(())
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, field: i32, word: &str, values: &[Value]) -> fmt::Result {
        let (name, ty) = (self.name)(field);
        self.listed(f, &name, ty.as_ref(), word, values)
    }

    fn listed(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        ty: Option<&PrimitiveType>,
        word: &str,
        values: &[Value],
    ) -> fmt::Result {
        write!(f, "{name} {word} (")?;
        for (i, value) in values.iter().take(LIST_SHOWN).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}", Text(value, ty))?;
        }
        match values.len().saturating_sub(LIST_SHOWN) {
            0 => f.write_str(")"),
            more => write!(f, ", … {more} more)"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Eq => "=",
            Op::NotEq => "<>",
            Op::Lt => "<",
            Op::LtEq => "<=",
            Op::Gt => ">",
            Op::GtEq => ">=",
        })
    }
}

/// A value with its column's type.
struct Text<'a>(&'a Value, Option<&'a PrimitiveType>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PrimitiveType as T;
        match (self.0, self.1) {
            (Value::Bool(x), _) => write!(f, "{x}"),
            (Value::Long(x), Some(T::Date)) => or_number(f, date(*x), *x),
            (Value::Long(x), Some(T::Time)) => or_number(f, time(*x), *x),
            (Value::Long(x), Some(T::Timestamp)) => or_number(f, instant(*x, 1_000_000, ""), *x),
            (Value::Long(x), Some(T::TimestampNs)) => or_number(f, instant(*x, 1_000_000_000, ""), *x),
            (Value::Long(x), Some(T::Timestamptz)) => or_number(f, instant(*x, 1_000_000, "+00:00"), *x),
            (Value::Long(x), Some(T::TimestamptzNs)) => or_number(f, instant(*x, 1_000_000_000, "+00:00"), *x),
            (Value::Long(x), _) => write!(f, "{x}"),
            (Value::Double(x), Some(T::Float)) => write!(f, "{:?}", *x as f32),
            (Value::Double(x), _) => write!(f, "{x:?}"),
            (Value::Decimal(x), Some(T::Decimal { scale, .. })) => f.write_str(&decimal(*x, *scale)),
            (Value::Decimal(x), _) => write!(f, "{x}"),
            (Value::String(x), _) => write!(f, "'{}'", x.replace('\'', "''")),
            (Value::Bytes(x), Some(T::Uuid)) => match uuid::Uuid::from_slice(x) {
                Ok(uuid) => write!(f, "{uuid}"),
                Err(_) => hexadecimal(f, x),
            },
            (Value::Bytes(x), _) => hexadecimal(f, x),
        }
    }
}

fn or_number(f: &mut fmt::Formatter<'_>, text: Option<String>, number: i64) -> fmt::Result {
    match text {
        Some(text) => f.write_str(&text),
        None => write!(f, "{number}"),
    }
}

fn date(days: i64) -> Option<String> {
    let day = i32::try_from(days.checked_add(CALENDAR_DAY_OF_1970)?).ok()?;
    Some(NaiveDate::from_num_days_from_ce_opt(day)?.to_string())
}

fn time(micros: i64) -> Option<String> {
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).ok()?;
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1_000).ok()?;
    let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)?;
    Some(format!("{}{}", time.format("%H:%M:%S"), fraction(time.nanosecond())))
}

fn instant(ticks: i64, per_second: i64, zone: &str) -> Option<String> {
    let nanos = u32::try_from(ticks.rem_euclid(per_second) * (1_000_000_000 / per_second)).ok()?;
    let at = DateTime::from_timestamp(ticks.div_euclid(per_second), nanos)?;
    Some(format!("{}{}{zone}", at.format("%Y-%m-%dT%H:%M:%S"), fraction(nanos)))
}

/// Fractional digits in threes, none if zero.
fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

fn decimal(unscaled: i128, scale: u32) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let Some(one) = 10_u128.checked_pow(scale) else { return format!("{unscaled}e-{scale}") };
    let (whole, rest) = (unscaled.unsigned_abs() / one, unscaled.unsigned_abs() % one);
    match scale {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{rest:0width$}", width = scale as usize),
    }
}

fn hexadecimal(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("X'")?;
    for byte in bytes {
        write!(f, "{byte:02x}")?;
    }
    f.write_str("'")
}
