//! At which millisecond is a moment?

use datafusion::common::ScalarValue;

use super::moment::{Moment, zone};
use crate::error::{Code, Error, Result};

const NANOS_PER_MILLI: i128 = 1_000_000;

/// The millisecond since 1970-01-01T00:00:00Z in which the moment lies that a text names. Without a zone it is read in that
/// of the session, or in UTC.
pub(in crate::sql) fn instant_of_text(text: &str, session: Option<&str>) -> Result<i64> {
    of_moment(Moment::parse(text)?, session)
}

/// The same of a date or timestamp; `None` for any other value.
pub(in crate::sql) fn instant_of(value: &ScalarValue, session: Option<&str>) -> Result<Option<i64>> {
    Moment::of_scalar(value).map(|moment| of_moment(moment, session)).transpose()
}

fn of_moment(moment: Moment, session: Option<&str>) -> Result<i64> {
    let at = match moment {
        Moment::Local(at) => at.in_zone(&zone(session.filter(|zone| !zone.is_empty()).unwrap_or("UTC"))?),
        Moment::Instant(at, _) => at,
    };
    let too_far = || Error::new(Code::InvalidValue, "a moment is too far away to be counted in milliseconds");
    i64::try_from(at.floor(NANOS_PER_MILLI).0).map_err(|_| too_far())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_cut_to_milliseconds_in_the_session_s_zone() {
        let of = |text: &str, zone: Option<&str>| instant_of_text(text, zone).ok();
        assert_eq!(of("1970-01-01 00:00:00.0019", None), Some(1));
        assert_eq!(of("1969-12-31 23:59:59.9999", Some("UTC")), Some(-1));
        assert_eq!(of("1970-01-01", Some("Asia/Tokyo")), Some(-9 * 3_600_000));
        assert_eq!(of("1970-01-01T00:00:00Z", Some("Asia/Tokyo")), Some(0));
        assert_eq!(of("yesterday", None), None);
        assert_eq!(instant_of(&ScalarValue::Date32(Some(1)), None).ok(), Some(Some(86_400_000)));
        assert_eq!(instant_of(&ScalarValue::Int64(Some(1)), None).ok(), Some(None));
    }
}
