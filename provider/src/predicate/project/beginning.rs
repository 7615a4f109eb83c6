//! Which beginnings do texts (or bytes) of a range have?
//!
//! Truncation keeps the order of texts: `t = truncate[3](s)` is at most `s`, and no beginning that short lies between them.
//!
//! ```text
//! s <  'ab'       t <  'ab'          s <  'abcde'    t <= 'abc'
//! s <= 'ab'       t <= 'ab'          s >  'abcde'    t >= 'abc'
//! ```
//!
//! The same relation read backwards tells where `left(s, 3)` compares as asked: [`Beginning::compare`].
//!
//! Source: Iceberg specification, "Truncate Transform Details": characters are code points.

use iceberg::spec::PrimitiveType;

use super::super::{Op, Predicate, Value};

/// Text cut after so many characters, or bytes after so many bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::predicate) struct Beginning {
    width: usize,
}

impl Beginning {
    pub(in crate::predicate) fn of_width(width: usize) -> Beginning {
        Beginning { width }
    }

    /// Truncation of text or bytes; `None` for other types.
    pub(super) fn of(source: &PrimitiveType, width: u32) -> Option<Beginning> {
        let cut = matches!(source, PrimitiveType::String | PrimitiveType::Binary);
        cut.then_some(Beginning { width: usize::try_from(width).ok()? })
    }

    pub(super) fn project(self, leaf: &Predicate, field: i32, strict: bool) -> Option<Predicate> {
        match leaf {
            Predicate::Compare { op, value, .. } => match strict {
                true => self.strict(field, *op, value),
                false => self.inclusive(field, *op, value),
            },
            Predicate::In { values, .. } if strict => {
                // What is shorter than the width is whole.
                let whole: Vec<_> = values.iter().filter(|v| self.room(v) == Some(true)).cloned().collect();
                Some(Predicate::is_in(field, whole))
            }
            Predicate::In { values, .. } => {
                let cut: Option<Vec<_>> = values.iter().map(|v| self.cut(v)).collect();
                Some(Predicate::is_in(field, cut?))
            }
            Predicate::NotIn { values, .. } if strict => {
                let cut: Option<Vec<_>> = values.iter().map(|v| self.cut(v)).collect();
                Some(Predicate::is_not_in(field, cut?))
            }
            Predicate::NotIn { values, .. } => {
                let whole: Vec<_> = values.iter().filter(|v| self.room(v) == Some(true)).cloned().collect();
                Some(Predicate::is_not_in(field, whole))
            }
            _ => None,
        }
    }

    fn inclusive(self, field: i32, op: Op, value: &Value) -> Option<Predicate> {
        let cut = self.cut(value)?;
        let (fits, room) = (cut == *value, self.room(value)?);
        Some(match op {
            Op::Eq => Predicate::compare(field, Op::Eq, cut),
            Op::NotEq if room => Predicate::compare(field, Op::NotEq, cut),
            Op::NotEq => Predicate::IsNotNull { field },
            Op::Lt if fits => Predicate::compare(field, Op::Lt, cut),
            Op::Lt | Op::LtEq => Predicate::compare(field, Op::LtEq, cut),
            Op::Gt if room => Predicate::compare(field, Op::Gt, cut),
            Op::Gt | Op::GtEq => Predicate::compare(field, Op::GtEq, cut),
        })
    }

    fn strict(self, field: i32, op: Op, value: &Value) -> Option<Predicate> {
        let cut = self.cut(value)?;
        let (fits, room) = (cut == *value, self.room(value)?);
        Some(match op {
            Op::Eq if room => Predicate::compare(field, Op::Eq, cut),
            Op::Eq => return None,
            Op::NotEq => Predicate::compare(field, Op::NotEq, cut),
            Op::LtEq if room => Predicate::compare(field, Op::LtEq, cut),
            Op::Lt | Op::LtEq => Predicate::compare(field, Op::Lt, cut),
            Op::GtEq if fits => Predicate::compare(field, Op::GtEq, cut),
            Op::Gt | Op::GtEq => Predicate::compare(field, Op::Gt, cut),
        })
    }

    /// Exactly where a column's beginning compares with a constant as asked.
    pub(in crate::predicate) fn compare(self, field: i32, op: Op, value: &Value) -> Option<Predicate> {
        let cut = self.cut(value)?;
        let (fits, room) = (cut == *value, self.room(value)?);
        let side = |op, value: Value| Predicate::compare(field, op, value);
        // Below whatever begins with `cut`, and above.
        let below = side(Op::Lt, cut.clone());
        let end = successor(&cut);
        let above = end.clone().map_or(Predicate::False, |end| side(Op::GtEq, end));
        let up_to = end.map_or(Predicate::IsNotNull { field }, |end| side(Op::Lt, end));
        Some(match op {
            // With room to spare the beginning is the whole.
            _ if room => side(op, cut),
            // Longer than any beginning: equal to none.
            Op::Eq if !fits => Predicate::False,
            Op::NotEq if !fits => Predicate::IsNotNull { field },
            Op::Lt | Op::LtEq if !fits => up_to,
            Op::Gt | Op::GtEq if !fits => above,
            Op::Eq => Predicate::and([side(Op::GtEq, cut), up_to]),
            Op::NotEq => Predicate::or([below, above]),
            Op::Lt => below,
            Op::LtEq => up_to,
            Op::Gt => above,
            Op::GtEq => side(Op::GtEq, cut),
        })
    }

    fn cut(self, value: &Value) -> Option<Value> {
        Some(match value {
            Value::String(text) => Value::String(text.chars().take(self.width).collect()),
            Value::Bytes(bytes) => Value::Bytes(bytes.iter().copied().take(self.width).collect()),
            _ => return None,
        })
    }

    /// The value is shorter than the width, so that only the value itself is cut to it.
    fn room(self, value: &Value) -> Option<bool> {
        match value {
            Value::String(text) => Some(text.chars().count() < self.width),
            Value::Bytes(bytes) => Some(bytes.len() < self.width),
            _ => None,
        }
    }
}

/// The least value above everything that begins with `beginning`; `None` if there is none.
pub(in crate::predicate) fn successor(beginning: &Value) -> Option<Value> {
    match beginning {
        Value::String(text) => {
            let mut end = text.clone();
            while let Some(last) = end.pop() {
                // A range of characters steps over the surrogates.
                if let Some(next) = (last..=char::MAX).nth(1) {
                    end.push(next);
                    return Some(Value::String(end));
                }
            }
            None
        }
        Value::Bytes(bytes) => {
            let mut end = bytes.clone();
            while let Some(last) = end.pop() {
                if let Some(next) = last.checked_add(1) {
                    end.push(next);
                    return Some(Value::Bytes(end));
                }
            }
            None
        }
        _ => None,
    }
}
