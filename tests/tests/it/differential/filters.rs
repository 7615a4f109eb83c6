//! Random filters as SQL text, over the columns and mostly the values of a table.

use chrono::{DateTime, NaiveDate};
use daygrain_tests::reference::Rng;

use super::tables::{DAYS, DECIMALS, FLOATS, INTS, Kind, LONGS, MOMENTS, TEXTS, Table, pick};

const COMPARISONS: [&str; 8] = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

const LOCAL: &str = "%Y-%m-%dT%H:%M:%S%.6f";
const ZONED: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// A condition of up to four leaves.
pub(super) fn random(rng: &mut Rng, table: &Table) -> String {
    condition(rng, table, 2)
}

fn condition(rng: &mut Rng, table: &Table, depth: u32) -> String {
    // In brackets: `a IS DISTINCT FROM b OR c` is read as `a IS DISTINCT FROM (b OR c)`.
    if depth == 0 {
        return format!("({})", leaf(rng, table));
    }
    match rng.below(6) {
        0 => format!("({} AND {})", condition(rng, table, depth - 1), condition(rng, table, depth - 1)),
        1 => format!("({} OR {})", condition(rng, table, depth - 1), condition(rng, table, depth - 1)),
        2 => format!("NOT ({})", condition(rng, table, depth - 1)),
        _ => format!("({})", leaf(rng, table)),
    }
}

fn leaf(rng: &mut Rng, table: &Table) -> String {
    // The partition's column as often as the others together.
    let (column, kind) = if rng.below(3) == 0 {
        &table.columns[0]
    } else {
        &table.columns[rng.below(table.columns.len() as u64) as usize]
    };
    let one = |rng: &mut Rng| literal(rng, *kind);
    match rng.below(12) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => format!("{column} IN ({}, {}, {})", one(rng), one(rng), one(rng)),
        3 => format!("{column} NOT IN ({}, {})", one(rng), one(rng)),
        4 => format!("{column} BETWEEN {} AND {}", one(rng), one(rng)),
        5 => format!("{column} NOT BETWEEN {} AND {}", one(rng), one(rng)),
        6 => format!("{} {} {column}", one(rng), pick(rng, &COMPARISONS)),
        7 | 8 => of_kind(rng, column, *kind),
        _ => format!("{column} {} {}", pick(rng, &COMPARISONS), one(rng)),
    }
}

/// What only columns of one type can be asked.
fn of_kind(rng: &mut Rng, column: &str, kind: Kind) -> String {
    let comparison = pick(rng, &COMPARISONS);
    match kind {
        Kind::Bool => pick(rng, &["", "NOT "]).to_owned() + column,
        Kind::Int | Kind::Long => match rng.below(7) {
            3 => format!("truncate(10, {column}) {comparison} {}", pick(rng, &["-10", "0", "10"])),
            4 => format!("bucket(4, {column}) {comparison} {}", pick(rng, &["0", "1", "3"])),
            5 => format!("coalesce({column}, 2) {comparison} {}", pick(rng, &["1", "2", "3"])),
            6 => format!("CASE WHEN {column} > 1 THEN 'a' ELSE 'b' END {comparison} {}", pick(rng, &["'a'", "'b'"])),
            0 => format!("CAST({column} AS DOUBLE) {comparison} {}", pick(rng, &["0.5", "-1", "9007199254740992"])),
            1 => format!("{column} {comparison} {}", pick(rng, &["2.5", "-0.5", "0"])),
            _ => format!("{column} % 2 {comparison} 0"),
        },
        Kind::Float | Kind::Double => match rng.below(3) {
            0 => format!("isnan({column})"),
            1 => format!("CAST({column} AS REAL) {comparison} 1"),
            _ => format!("{column} {comparison} {}", pick(rng, &["0", "1", "-3", "16777217"])),
        },
        Kind::Decimal => match rng.below(3) {
            0 => format!("CAST({column} AS BIGINT) {comparison} {}", pick(rng, &["10", "0", "-1"])),
            1 => format!("truncate(50, {column}) {comparison} {}", pick(rng, &["10.50", "0", "-0.50"])),
            _ => format!("{column} {comparison} {}", pick(rng, &["10.65", "0", "-0.005", "1e9"])),
        },
        Kind::Date => match rng.below(3) {
            0 => format!("extract(year FROM {column}) {comparison} {}", pick(rng, &["1969", "1970", "2024"])),
            1 => format!("{column} + INTERVAL '1 month' {comparison} DATE '2024-01-01'"),
            _ => format!("to_char({column}, '%Y-%m') {comparison} '2024-01'"),
        },
        Kind::Local | Kind::Zoned => match rng.below(10) {
            4 => format!("days({column}) {comparison} {}", pick(rng, &["-1", "0", "19723"])),
            5 => format!("hours({column}) {comparison} {}", pick(rng, &["-1", "0", "473352"])),
            6 => format!("date_bin(INTERVAL '1 day', {column}) {comparison} {}", literal(rng, kind)),
            7 => format!("{column} - INTERVAL '1 month' {comparison} {}", literal(rng, kind)),
            8 => {
                let zone = pick(rng, &["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]);
                // As text: plain DataFusion reads `TIMESTAMP '…Z'` as a time of day in the other operand's zone.
                let moment = moment(rng, if kind == Kind::Zoned { ZONED } else { LOCAL });
                format!("date_trunc('day', {column} AT TIME ZONE '{zone}') {comparison} '{moment}'")
            }
            9 => format!("({column} > {}) IS NOT TRUE", literal(rng, kind)),
            0 => format!("CAST({column} AS DATE) {comparison} DATE '{}'", pick(rng, &["1969-12-31", "2024-01-01"])),
            1 => format!("extract(year FROM {column}) {comparison} {}", pick(rng, &["1959", "1969", "2024"])),
            2 => {
                let unit = pick(rng, &["hour", "day", "month", "year"]);
                format!("date_trunc('{unit}', {column}) {comparison} {}", literal(rng, kind))
            }
            _ => format!("{column} + INTERVAL '1 day' {comparison} {}", literal(rng, kind)),
        },
        Kind::Text => match rng.below(6) {
            4 => format!("left({column}, 2) {comparison} '{}'", pick(rng, &["ab", "a", "01", "•→", ""])),
            5 => format!("nullif({column}, 'ab') {comparison} '{}'", pick(rng, &["ab", "a"])),
            0 => format!("starts_with({column}, '{}')", pick(rng, &["a", "ab", "•", "0123456789abcdef", ""])),
            1 => format!("{column} NOT LIKE '{}%'", pick(rng, &["ab", "0123456789abcdef", "a long text whose"])),
            2 => format!("length({column}) {comparison} 3"),
            _ => format!("{column} LIKE '{}'", pick(rng, &["ab%", "a%c", "%", "•→%", "ab", "a_c"])),
        },
    }
}

/// A constant of a column's type, as people write it.
fn literal(rng: &mut Rng, kind: Kind) -> String {
    match kind {
        Kind::Bool => pick(rng, &["true", "false"]).to_owned(),
        Kind::Int => near(rng, &INTS),
        Kind::Long => near(rng, &LONGS),
        Kind::Float | Kind::Double => {
            let name = if kind == Kind::Float { "REAL" } else { "DOUBLE" };
            format!("CAST('{}' AS {name})", pick(rng, &FLOATS))
        }
        Kind::Decimal => {
            let hundredths = pick(rng, &DECIMALS);
            format!(
                "CAST('{}{}.{:02}' AS DECIMAL(9,2))",
                sign(hundredths),
                hundredths.abs() / 100,
                hundredths.abs() % 100
            )
        }
        Kind::Date => {
            let day = NaiveDate::from_num_days_from_ce_opt(719_163 + pick(rng, &DAYS));
            format!("DATE '{}'", day.expect("a day of the years 1 to 9999"))
        }
        Kind::Local => format!("TIMESTAMP '{}'", moment(rng, LOCAL)),
        Kind::Zoned => {
            let text = moment(rng, ZONED);
            if rng.below(2) == 0 { format!("'{text}'") } else { format!("TIMESTAMP '{text}'") }
        }
        Kind::Text => format!("'{}'", pick(rng, &TEXTS)),
    }
}

fn sign(number: i128) -> &'static str {
    if number < 0 { "-" } else { "" }
}

/// One of these numbers, or one beside it.
fn near(rng: &mut Rng, from: &[i64]) -> String {
    pick(rng, from).saturating_add(rng.below(3) as i64 - 1).to_string()
}

fn moment(rng: &mut Rng, format: &str) -> String {
    let micros = pick(rng, &MOMENTS) + pick(rng, &[0, 0, 0, 1, -1, 3_600_000_000]);
    DateTime::from_timestamp_micros(micros).expect("a time of our days").format(format).to_string()
}
