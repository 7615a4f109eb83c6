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

use super::super::{Op, Predicate, Value};
use super::{NO_PREFIX, Truth};

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
        if negated && self.rest == Rest::Wildcards {
            return Truth::within(anything, NO_PREFIX);
        }
        if self.rest == Rest::Nothing {
            let op = if negated { Op::NotEq } else { Op::Eq };
            return Truth::exact(Predicate::compare(field, op, Value::String(self.beginning)));
        }
        let (inside, outside) = match self.beginning.is_empty() {
            true => (anything, Predicate::False),
            false => sides(field, self.beginning),
        };
        match self.rest {
            Rest::Wildcards => Truth::within(inside, NO_PREFIX),
            _ if negated => Truth::exact(outside),
            _ => Truth::exact(inside),
        }
    }
}

/// Where the column begins with the text, and where it doesn't.
fn sides(field: i32, beginning: String) -> (Predicate, Predicate) {
    let side = |op, text: &String| Predicate::compare(field, op, Value::String(text.clone()));
    let end = successor(&beginning);
    let inside = [Some(side(Op::GtEq, &beginning)), end.as_ref().map(|end| side(Op::Lt, end))];
    let outside = [Some(side(Op::Lt, &beginning)), end.as_ref().map(|end| side(Op::GtEq, end))];
    (Predicate::and(inside.into_iter().flatten()), Predicate::or(outside.into_iter().flatten()))
}

/// The least text above everything that begins with `beginning`; `None` if there is none.
fn successor(beginning: &str) -> Option<String> {
    let mut end = beginning.to_owned();
    while let Some(last) = end.pop() {
        // A range of characters steps over the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}
