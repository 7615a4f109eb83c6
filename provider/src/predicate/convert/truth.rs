//! Where is (part of) a filter true?
//!
//! Seldom is it known exactly; then it lies between two predicates:
//!
//! ```text
//! a < 5 AND length(b) > 3          possible  a < 5        certain  false
//! a < 5 OR length(b) > 3           possible  true         certain  a < 5
//! ```

use super::super::Predicate;

/// Bounds of the rows for which a filter is true.
#[derive(Clone)]
pub(super) struct Truth {
    /// Holds wherever the filter is true.
    pub(super) possible: Predicate,
    /// Holds only where the filter is true.
    pub(super) certain: Predicate,
    /// Why the two differ; `None` if they don't.
    pub(super) gap: Option<&'static str>,
}

impl Truth {
    pub(super) fn exact(predicate: Predicate) -> Truth {
        Truth { certain: predicate.clone(), possible: predicate, gap: None }
    }

    pub(super) fn between(possible: Predicate, certain: Predicate, gap: &'static str) -> Truth {
        let gap = (possible != certain).then_some(gap);
        Truth { possible, certain, gap }
    }

    /// Nowhere else than where the predicate holds.
    pub(super) fn within(predicate: Predicate, gap: &'static str) -> Truth {
        Truth::between(predicate, Predicate::False, gap)
    }

    pub(super) fn unknown(gap: &'static str) -> Truth {
        Truth::within(Predicate::True, gap)
    }

    pub(super) fn all(parts: Vec<Truth>) -> Truth {
        Truth::combined(parts, Predicate::and)
    }

    pub(super) fn any(parts: Vec<Truth>) -> Truth {
        Truth::combined(parts, Predicate::or)
    }

    fn combined(parts: Vec<Truth>, combine: fn(Vec<Predicate>) -> Predicate) -> Truth {
        let gap = parts.iter().find_map(|part| part.gap);
        let (possible, certain) = parts.into_iter().map(|part| (part.possible, part.certain)).unzip();
        let (possible, certain) = (combine(possible), combine(certain));
        let gap = gap.filter(|_| possible != certain);
        Truth { possible, certain, gap }
    }

    /// Where the filter is not true: false or unknown.
    pub(super) fn otherwise(&self) -> Truth {
        Truth { possible: self.certain.complement(), certain: self.possible.complement(), gap: self.gap }
    }
}
