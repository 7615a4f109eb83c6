//! Which range of text does a pattern stand for?
//!
//! ```text
//! LIKE 'ab%'     'ab' <= x < 'ac'           exactly
//! LIKE 'ab%c_'   'ab' <= x < 'ac'           and more is asked
//! LIKE 'ab'      x = 'ab'
//! ```
//!
//! Text is ordered by code points, so the first text after everything that begins with `ab` is `ac`: the last code point
//! raised by one, over the gap of the surrogates; where it is the greatest of all, the one before it.

use super::super::project::successor;
use super::super::{Op, Predicate, Value};
use super::NO_PREFIX;
use super::truth::Truth;

pub(super) struct Pattern {
    beginning: String,
    rest: Rest,
}

#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Nothing,
    Anything,
    /// More than a beginning.
    Wildcards,
}

impl Pattern {
    /// A pattern of LIKE: `%` any text, `_` one character, `\` takes the next one literally.
    pub(super) fn parse(pattern: &str) -> Pattern {
        let mut beginning = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' if chars.all(|c| c == '%') => return Pattern { beginning, rest: Rest::Anything },
                '%' | '_' => return Pattern { beginning, rest: Rest::Wildcards },
                // At the end it stands for itself.
                '\\' => beginning.push(chars.next().unwrap_or('\\')),
                c => beginning.push(c),
            }
        }
        Pattern { beginning, rest: Rest::Nothing }
    }

    /// Whatever begins with `beginning`.
    pub(super) fn beginning(beginning: &str) -> Pattern {
        Pattern { beginning: beginning.to_owned(), rest: Rest::Anything }
    }

    /// Where the column matches the pattern (or, `negated`, doesn't).
    pub(super) fn matches(self, field: i32, negated: bool) -> Truth {
        let anything = Predicate::IsNotNull { field };
        if self.rest == Rest::Nothing {
            let op = if negated { Op::NotEq } else { Op::Eq };
            return Truth::exact(Predicate::compare(field, op, Value::String(self.beginning)));
        }
        let (inside, outside) = match self.beginning.is_empty() {
            true => (anything.clone(), Predicate::False),
            false => sides(field, self.beginning),
        };
        match self.rest {
            // What begins otherwise doesn't match.
            Rest::Wildcards if negated => Truth::between(anything, outside, NO_PREFIX),
            Rest::Wildcards => Truth::within(inside, NO_PREFIX),
            _ if negated => Truth::exact(outside),
            _ => Truth::exact(inside),
        }
    }
}

/// Where the column begins with the text, and where it doesn't.
fn sides(field: i32, beginning: String) -> (Predicate, Predicate) {
    let beginning = Value::String(beginning);
    let side = |op, text: &Value| Predicate::compare(field, op, text.clone());
    let end = successor(&beginning);
    let inside = [Some(side(Op::GtEq, &beginning)), end.as_ref().map(|end| side(Op::Lt, end))];
    let outside = [Some(side(Op::Lt, &beginning)), end.as_ref().map(|end| side(Op::GtEq, end))];
    (Predicate::and(inside.into_iter().flatten()), Predicate::or(outside.into_iter().flatten()))
}
