//! Do the timestamps of a column have a zone, all of them or none?

use crate::error::{Code, Error, Result};
use crate::input::refusal::shorten;
use crate::input::source::Source;
use crate::input::stamp;

/// Where a value stands: the input file, by position, and its line or row, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// What is known of a column whose values must be microsecond timestamps written as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Zones {
    zoned: Option<(At, String)>,
    local: Option<(At, String)>,
}

/// Why a number is not taken.
pub(super) const NUMBER: &str = "a number doesn't say which unit it counts";

impl Zones {
    /// Whether the timestamps have a zone; instants are the guess where there are none.
    pub(super) fn zoned(&self) -> bool {
        self.local.is_none()
    }

    /// Takes one text into account.
    ///
    /// Errors: `input_value_invalid`, with the column's name and the value, if it is no timestamp, or differs from the
    /// others in having a zone.
    pub(super) fn see(&mut self, column: &str, text: &str, at: At) -> Result<()> {
        let stamp = stamp::parse(text).and_then(|stamp| stamp.micros().map(|_| stamp));
        let number = text.parse::<f64>().is_ok();
        let stamp = stamp.map_err(|why| refused(column, text, if number { NUMBER } else { why }))?;
        let place = if stamp.zoned { &mut self.zoned } else { &mut self.local };
        if place.is_none() {
            *place = Some((at, shorten(text)));
        }
        if self.zoned.is_some() && self.local.is_some() { Err(refused(column, text, MIXED)) } else { Ok(()) }
    }

    /// Takes what was seen in other files into account.
    pub(super) fn merge(&mut self, other: Zones) {
        self.zoned = self.zoned.take().or(other.zoned);
        self.local = self.local.take().or(other.local);
    }

    /// Checks what several files hold together.
    ///
    /// Errors: `input_value_invalid`, naming a place of either kind, if some timestamps have a zone and some have none.
    pub(super) fn check(&self, column: &str, sources: &[Source]) -> Result<()> {
        let (Some((zoned, with)), Some((local, without))) = (&self.zoned, &self.local) else { return Ok(()) };
        let name = |at: &At| sources.get(at.file).map_or("", Source::shown);
        Err(refused(column, without, MIXED)
            .with("file", name(local))
            .with("line", local.line)
            .with("value with a zone", with)
            .with("in file", name(zoned))
            .with("in line", zoned.line))
    }
}

const MIXED: &str = "some timestamps of the column have a zone and some have none";

/// The error of a value of the primary timestamp that isn't one.
pub(super) fn refused(column: &str, text: &str, why: &str) -> Error {
    let error = Error::new(Code::InputValueInvalid, "a value of the primary timestamp is not a timestamp")
        .with("path", column)
        .with("value", shorten(text))
        .with("reason", why);
    if why == NUMBER {
        error.help("convert it in a query, for example to_timestamp_millis(column)")
    } else {
        error.help(stamp::ACCEPTED)
    }
}
