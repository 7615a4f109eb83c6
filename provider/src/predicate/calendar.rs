//! On which day does a month begin, and in which month does a day lie?
//!
//! The proleptic Gregorian calendar, for any day, in days and months since 1970. Years are counted from March, so that a
//! leap day is the last of its year: then five months in a row have 153 days, and 400 years 146,097.

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// Months from March of the year 0 to January 1970.
const MONTHS_TO_1970: i64 = 1_970 * 12 - 2;
const DAYS_OF_400_YEARS: i64 = 146_097;

/// Months since January 1970 of a day since 1970-01-01.
pub(super) fn months_since_1970(day: i64) -> i64 {
    let shifted = day + DAYS_TO_1970;
    let cycle = shifted.div_euclid(DAYS_OF_400_YEARS);
    let day_of_cycle = shifted.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March have 31 30 31 30 31 | 31 30 31 30 31 | 31 28 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    (cycle * 400 + year_of_cycle) * 12 + month_from_march - MONTHS_TO_1970
}

/// The first day, since 1970-01-01, of a month since January 1970.
pub(super) fn first_day_of_month(month: i64) -> i64 {
    let shifted = month + MONTHS_TO_1970;
    let (year, month_from_march) = (shifted.div_euclid(12), shifted.rem_euclid(12));
    let (cycle, year_of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5;
    cycle * DAYS_OF_400_YEARS + 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year
        - DAYS_TO_1970
}

/// The day of its month, from 1.
pub(super) fn day_of_month(day: i64) -> i64 {
    day - first_day_of_month(months_since_1970(day)) + 1
}

/// The day of its year, from 1.
pub(super) fn day_of_year(day: i64) -> i64 {
    day - first_day_of_month(months_since_1970(day).div_euclid(12) * 12) + 1
}

/// The day of its week: Monday is 0.
pub(super) fn day_from_monday(day: i64) -> i64 {
    // 1970 began on a Thursday.
    (day + 3).rem_euclid(7)
}

/// The week of its year by ISO 8601: that of the week's Thursday.
pub(super) fn week_of_year(day: i64) -> i64 {
    let thursday = day - day_from_monday(day) + 3;
    (day_of_year(thursday) - 1) / 7 + 1
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    /// Each day of eight centuries as the calendar's own library has it, and as many days.
    #[test]
    fn days() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for date in NaiveDate::from_ymd_opt(-200, 1, 1).unwrap().iter_days().take(292_200) {
            let day = (date - epoch).num_days();
            let month = (i64::from(date.year()) - 1970) * 12 + i64::from(date.month0());
            assert_eq!(months_since_1970(day), month, "{date}");
            assert_eq!(first_day_of_month(month), day - i64::from(date.day0()), "{date}");
            assert_eq!(day_of_month(day), i64::from(date.day()), "{date}");
            assert_eq!(day_of_year(day), i64::from(date.ordinal()), "{date}");
            assert_eq!(day_from_monday(day), i64::from(date.weekday().num_days_from_monday()), "{date}");
            assert_eq!(week_of_year(day), i64::from(date.iso_week().week()), "{date}");
        }
        for day in (-2_147_490_000..-2_147_480_000).chain(2_147_480_000..2_147_490_000) {
            let month = months_since_1970(day);
            assert!((first_day_of_month(month)..first_day_of_month(month + 1)).contains(&day), "{day}");
        }
    }
}
