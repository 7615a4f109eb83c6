use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::datatypes::Int64Type;
use chrono::NaiveDate;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::super::NullsApart;
use super::moment::{Moment, is_utc};
use super::*;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

// Nanoseconds of a date and time.
fn nanos(year: i32, month: u32, day: u32, seconds: u32) -> i128 {
    let date = NaiveDate::from_ymd_opt(year, month, day).unwrap();
    let days = date.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days();
    i128::from(days) * DAY + i128::from(seconds) * SECOND
}

/// Values in nanoseconds that the columns hold, each cut to its unit where it fits.
fn anchors() -> Vec<i128> {
    let mut all = vec![
        nanos(1, 1, 1, 0),
        nanos(1500, 1, 1, 0),
        nanos(1677, 9, 21, 764),
        nanos(1969, 12, 31, 86_399) + 999_999_999,
        nanos(1970, 1, 1, 0),
        nanos(2024, 1, 2, 43_200) + 1_500,
        nanos(2024, 1, 2, 43_200) + 1_000,
        nanos(2024, 1, 2, 43_200),
        nanos(2024, 1, 3, 0),
        nanos(2262, 4, 11, 85_636),
        nanos(9999, 12, 31, 86_399),
    ];
    all.extend([-1, 1, -1_000, 1_000_000]);
    all
}

struct Columns {
    names: Vec<&'static str>,
    /// Per column: nanoseconds per unit, and a value in nanoseconds per row.
    units: Vec<i128>,
    values: Vec<Vec<Option<i128>>>,
}

impl Columns {
    fn column(&self, name: &str) -> (&[Option<i128>], i128) {
        let index = self.names.iter().position(|known| *known == name).unwrap();
        (&self.values[index], self.units[index])
    }
}

static COLUMNS: LazyLock<Columns> = LazyLock::new(|| {
    let names = vec!["s", "ms", "us", "ns", "us_utc", "ns_utc", "d"];
    let units = vec![SECOND, 1_000_000, 1_000, 1, 1_000, 1, DAY];
    let values = units
        .iter()
        .map(|unit| {
            let fits =
                |value: &i128| i64::try_from(value.div_euclid(*unit)).ok().map(|_| value.div_euclid(*unit) * unit);
            anchors().iter().map(fits).chain([None]).collect()
        })
        .collect();
    Columns { names, units, values }
});

fn table() -> RecordBatch {
    let columns = &*COLUMNS;
    let count = |name: &str| -> Vec<Option<i64>> {
        let (values, unit) = columns.column(name);
        values.iter().map(|value| value.map(|value| i64::try_from(value / unit).unwrap())).collect()
    };
    let days = count("d").iter().map(|day| day.map(|day| i32::try_from(day).unwrap())).collect::<Vec<_>>();
    let rows = i64::try_from(anchors().len()).unwrap() + 1;
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef, false),
        ("s", Arc::new(TimestampSecondArray::from(count("s"))), true),
        ("ms", Arc::new(TimestampMillisecondArray::from(count("ms"))), true),
        ("us", Arc::new(TimestampMicrosecondArray::from(count("us"))), true),
        ("ns", Arc::new(TimestampNanosecondArray::from(count("ns"))), true),
        ("us_utc", Arc::new(TimestampMicrosecondArray::from(count("us_utc")).with_timezone("UTC")), true),
        ("ns_utc", Arc::new(TimestampNanosecondArray::from(count("ns_utc")).with_timezone("UTC")), true),
        ("d", Arc::new(Date32Array::from(days)), true),
    ])
    .unwrap()
}

fn context(zone: Option<&str>) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(1).with_information_schema(true);
    config.options_mut().execution.time_zone = zone.map(str::to_owned);
    config.options_mut().sql_parser.enable_ident_normalization = false;
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(register(builder).with_analyzer_rule(Arc::new(NullsApart)).build());
    let batch = table();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
static UTC: LazyLock<SessionContext> = LazyLock::new(|| context(None));

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    let state = context.state();
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(sql, &dialect)?;
    refine_literals(&mut statement, None);
    let plan = state.statement_to_plan(statement).await?;
    context.execute_logical_plan(plan).await?.collect().await
}

fn query(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    RUNTIME.block_on(run(context, sql)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The rows of `t` that a filter keeps.
fn kept(context: &SessionContext, condition: &str) -> Vec<i64> {
    ids(&query(context, &format!("SELECT id FROM t WHERE {condition} ORDER BY id")))
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(column).collect()
}

fn failure(context: &SessionContext, sql: &str) -> String {
    let error = RUNTIME.block_on(run(context, sql)).map(|_| ()).unwrap_err();
    match error.find_root() {
        DataFusionError::External(ours) => match ours.downcast_ref::<crate::Error>() {
            Some(ours) => format!("{}: {}", ours.code(), ours.what()),
            None => panic!("{sql}: {ours}"),
        },
        other => panic!("{sql}: {other}"),
    }
}

/// A literal's text from picoseconds, with as many digits as it needs and at least `digits`.
fn text(pico: i128, digits: usize, separator: char) -> String {
    let seconds = pico.div_euclid(SECOND * 1_000);
    let fraction = format!("{:012}", pico.rem_euclid(SECOND * 1_000));
    let needed = fraction.trim_end_matches('0').len().max(digits);
    let at = chrono::DateTime::from_timestamp(i64::try_from(seconds).unwrap(), 0).unwrap();
    let clock = at.format(&format!("%Y-%m-%d{separator}%H:%M:%S")).to_string();
    if needed == 0 { clock } else { format!("{clock}.{}", &fraction[..needed]) }
}

// ---------------------------------------------------------------------------------------------------- parsing

#[test]
fn reads_literals() {
    let cases: [(&str, Option<i128>); 35] = [
        ("1970-01-01", Some(0)),
        ("1970-1-2", Some(DAY)),
        (" 1970-01-01 ", Some(0)),
        ("1970-01-01T00:00:00", Some(0)),
        ("1970-01-01t00:00", Some(0)),
        ("1970-01-01 1:02", Some(3_720 * SECOND)),
        ("1970-01-01 010203", Some(3_723 * SECOND)),
        ("1970-01-01 00:00:00.5", Some(SECOND / 2)),
        ("1970-01-01 00:00:00.000000001999", Some(1)),
        ("1969-12-31 23:59:59.999999999", Some(-1)),
        ("1970-01-01 00:00:60", Some(60 * SECOND)),
        ("1970-01-01T00:00:00Z", Some(0)),
        ("1970-01-01 00:00:00 z", Some(0)),
        ("1970-01-01 00:00:00 UTC", Some(0)),
        ("1970-01-01T09:00:00+09:00", Some(0)),
        ("1970-01-01T09:00:00+09", Some(0)),
        ("1970-01-01 01:00:00.25 -0030", Some(5_400 * SECOND + SECOND / 4)),
        ("1970-01-01 09:00:00 Asia/Tokyo", Some(0)),
        ("1970-01-01 09:00:01+09:00:01", Some(0)),
        ("0000-02-29", Some(nanos(0, 2, 29, 0))),
        ("-0001-01-01", Some(nanos(-1, 1, 1, 0))),
        ("+262142-12-31", Some(nanos(262_142, 12, 31, 0))),
        ("294246-12-31", Some(nanos(254_246, 12, 31, 0) + 100 * 146_097 * DAY)),
        ("1900-02-29", None),
        ("2024-13-45", None),
        ("2024-04-31", None),
        ("2024-01-00", None),
        ("24-01-01", None),
        ("2024-01-01x", None),
        ("2024-01-01 24:00:00", None),
        ("2024-01-01 00:00:00.", None),
        ("2024-01-01 12", None),
        ("2024-01-01 00:00:00 Mars/Base", None),
        ("infinity", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let at = Moment::parse(text).ok().map(|moment| match moment {
            Moment::Local(at) | Moment::Instant(at, _) => at.nanos,
        });
        assert_eq!(at, expected, "{text}");
    }
}

#[test]
fn keeps_what_is_finer_than_a_nanosecond() {
    let at = |text: &str| match Moment::parse(text).unwrap() {
        Moment::Local(at) | Moment::Instant(at, _) => at,
    };
    assert!(at("1970-01-01 00:00:00.0000000010") < at("1970-01-01 00:00:00.00000000101"));
    assert!(at("1970-01-01 00:00:00.00000000101") < at("1970-01-01 00:00:00.000000002"));
    assert_eq!(at("1970-01-01 00:00:00.000000001000"), at("1970-01-01 00:00:00.000000001"));
}

/// Whatever the text's zone: a literal is not rounded on its way to a comparison.
#[test]
fn a_null_in_a_list_is_no_value() {
    let (some, other) = ("'0001-01-01 00:00:00'", "'1500-01-01 00:00:00'");
    let none = [] as [i64; 0];
    assert_eq!(kept(&UTC, &format!("us IN ({some}, {some}) AND us NOT IN ({other}, {other}, NULL)")), none);
    assert!(!kept(&UTC, &format!("NOT (us IN ({some}, NULL) AND us NOT IN ({some}, {other}))")).is_empty());
}

#[test]
fn a_literal_between_two_ticks_equals_neither() {
    let text = "1970-01-01 00:00:00.000000000999Z";
    for literal in [format!("TIMESTAMP '{text}'"), format!("TIMESTAMPTZ '{text}'"), format!("'{text}'")] {
        for column in ["us_utc", "ns_utc"] {
            assert_eq!(kept(&UTC, &format!("{column} = {literal}")), [] as [i64; 0], "{column} = {literal}");
            let (below, above) = (format!("{column} < {literal}"), format!("{column} <= {literal}"));
            assert_eq!(kept(&UTC, &below), kept(&UTC, &above), "{column}, {literal}");
        }
    }
}

#[test]
fn every_day_of_800_years_has_its_number() {
    let mut day = NaiveDate::from_ymd_opt(1599, 12, 31).unwrap();
    for _ in 0..800 * 366 {
        assert_eq!(Moment::parse(&day.to_string()).unwrap(), Moment::Local(super::moment::Exact::new(day_nanos(day))));
        day = day.succ_opt().unwrap();
    }
}

fn day_nanos(day: NaiveDate) -> i128 {
    i128::from(day.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days()) * DAY
}

#[test]
fn clocks_that_skip_or_repeat() {
    let instant = |text: &str| match Moment::parse(text).unwrap() {
        Moment::Instant(at, None) => at.nanos,
        other => panic!("{other:?}"),
    };
    // 2024-03-31 02:00 to 03:00 is skipped in Berlin, 2024-10-27 02:00 to 03:00 comes twice, the first time as summer time.
    assert_eq!(instant("2024-03-31 02:30 Europe/Berlin"), instant("2024-03-31T02:30:00+01:00"));
    assert_eq!(instant("2024-10-27 02:30 Europe/Berlin"), instant("2024-10-27T02:30:00+02:00"));
    // Samoa skipped a whole day.
    assert_eq!(instant("2011-12-30 12:00 Pacific/Apia"), instant("2011-12-30T12:00:00-10:00"));
    // Years that the calendar library can't hold.
    assert_eq!(instant("290000-07-01 12:00 Asia/Tokyo"), instant("290000-07-01T12:00:00+09:00"));
    assert_eq!(instant("-290000-07-01 12:00 Asia/Tokyo"), instant("-290000-07-01T12:00:00 Asia/Tokyo"));
    assert!(is_utc("+00:00") && !is_utc("Europe/London"));
}

// ------------------------------------------------------------------------------------------------- comparisons

fn decide(op: &str, value: Option<i128>, literal: i128) -> Option<bool> {
    match (op, value) {
        ("IS DISTINCT FROM", value) => Some(value != Some(literal)),
        ("IS NOT DISTINCT FROM", value) => Some(value == Some(literal)),
        (_, None) => None,
        ("=", Some(value)) => Some(value == literal),
        ("<>", Some(value)) => Some(value != literal),
        ("<", Some(value)) => Some(value < literal),
        ("<=", Some(value)) => Some(value <= literal),
        (">", Some(value)) => Some(value > literal),
        (">=", Some(value)) => Some(value >= literal),
        _ => panic!("{op}"),
    }
}

fn all(truths: Vec<Option<bool>>) -> Option<bool> {
    if truths.contains(&Some(false)) {
        return Some(false);
    }
    if truths.contains(&None) { None } else { Some(true) }
}

fn not(truth: Option<bool>) -> Option<bool> {
    truth.map(|truth| !truth)
}

fn column() -> impl Strategy<Value = &'static str> {
    prop::sample::select(COLUMNS.names.clone())
}

fn op() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
}

/// Picoseconds at or near a value of the table.
fn moment() -> impl Strategy<Value = i128> {
    let step = prop::sample::select(vec![0, 1, 999, 1_000, 500_000, 1_000_000, 1_000_000_000, 43_200_000_000_000_000]);
    (prop::sample::select(anchors()), prop::bool::ANY, step)
        .prop_map(|(anchor, before, step)| anchor * 1_000 + if before { -step } else { step })
        // Years have four digits in this test.
        .prop_map(|pico| pico.clamp(nanos(1, 1, 1, 0) * 1_000, nanos(9999, 12, 31, 86_399) * 1_000))
}

/// How a literal may be written.
fn form() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "'{}'",
        "'{}Z'",
        "'{}+00:00'",
        "TIMESTAMP '{}'",
        "CAST('{}' AS TIMESTAMP)",
        "('{}'::timestamp)",
        "TIMESTAMP '{}Z'",
        "CAST('{}' AS TIMESTAMP WITH TIME ZONE)",
        "TRY_CAST('{}' AS TIMESTAMP)",
        "to_timestamp('{}')",
        "arrow_cast('{}', 'Timestamp(Microsecond, None)')",
    ])
}

/// A comparison of a column with a literal: the condition, and what it says of each row.
fn comparison() -> impl Strategy<Value = (String, Vec<Option<bool>>)> {
    (column(), op(), moment(), form(), any::<bool>(), any::<bool>()).prop_map(|(column, op, pico, form, flip, t)| {
        // A cast by Arrow's name cuts what it is given.
        let pico = if form.starts_with("arrow_cast") { pico.div_euclid(1_000_000) * 1_000_000 } else { pico };
        let far = i64::try_from(pico / 1_000).is_err();
        // Nanoseconds can't hold it, so it is null there.
        let form = if form.starts_with("TRY_CAST") && far { "'{}'" } else { form };
        let literal = form.replace("{}", &text(pico, 0, if t { 'T' } else { ' ' }));
        let swapped = match op {
            "<" => ">",
            "<=" => ">=",
            ">" => "<",
            ">=" => "<=",
            same => same,
        };
        let condition = if flip { format!("{literal} {swapped} {column}") } else { format!("{column} {op} {literal}") };
        let truth = |value: &Option<i128>| decide(op, value.map(|value| value * 1_000), pico);
        (condition, COLUMNS.column(column).0.iter().map(truth).collect())
    })
}

/// A range or set of literals, likewise.
fn range_or_set() -> impl Strategy<Value = (String, Vec<Option<bool>>)> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (column(), prop::collection::vec(moment(), 2..4), flags).prop_map(|(column, picos, flags)| {
        let (range, typed, negated, null) = flags;
        let literal = |pico: &i128| format!("{}'{}'", if typed { "TIMESTAMP " } else { "" }, text(*pico, 0, ' '));
        let word = if negated { "NOT " } else { "" };
        let condition = if range {
            format!("{column} {word}BETWEEN {} AND {}", literal(&picos[0]), literal(&picos[1]))
        } else {
            let list: Vec<_> = picos.iter().map(literal).chain(null.then(|| "NULL".to_owned())).collect();
            format!("{column} {word}IN ({})", list.join(", "))
        };
        let truth = |value: &Option<i128>| {
            let value = value.map(|value| value * 1_000);
            let found = if range {
                all(vec![decide(">=", value, picos[0]), decide("<=", value, picos[1])])
            } else {
                let differs = picos.iter().map(|pico| decide("<>", value, *pico));
                not(all(differs.chain(null.then_some(None)).collect()))
            };
            if negated { not(found) } else { found }
        };
        (condition, COLUMNS.column(column).0.iter().map(truth).collect())
    })
}

/// A comparison of two columns: what it says of each pair of rows.
fn pairing() -> impl Strategy<Value = (String, Vec<Option<bool>>)> {
    (column(), op(), column()).prop_map(|(one, op, other)| {
        let (left, right) = (COLUMNS.column(one).0, COLUMNS.column(other).0);
        let truth = |left: Option<i128>, right: Option<i128>| match (op, right) {
            ("IS DISTINCT FROM", None) => Some(left.is_some()),
            ("IS NOT DISTINCT FROM", None) => Some(left.is_none()),
            (_, None) => None,
            (op, Some(right)) => decide(op, left, right),
        };
        let truths = left.iter().flat_map(|left| right.iter().map(move |right| truth(*left, *right))).collect();
        (format!("a.{one} {op} b.{other}"), truths)
    })
}

fn rows_where(truths: &[Option<bool>], wanted: bool) -> Vec<i64> {
    (0..).zip(truths).filter(|(_, truth)| **truth == Some(wanted)).map(|(id, _)| id).collect()
}

/// Checks what conditions say of the rows of a table, many in one query.
fn check_truths(context: &SessionContext, from: &str, order: &str, cases: &[(String, Vec<Option<bool>>)]) {
    let conditions: Vec<_> = cases.iter().enumerate().map(|(at, (text, _))| format!("{text} AS c{at}")).collect();
    let batches = query(context, &format!("SELECT {} FROM {from} ORDER BY {order}", conditions.join(", ")));
    for (at, (condition, expected)) in cases.iter().enumerate() {
        let actual = batches.iter().flat_map(|batch| batch.column(at).as_boolean().iter().collect::<Vec<_>>());
        assert_eq!(&actual.collect::<Vec<_>>(), expected, "{condition}");
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    // @spec S8
    #[test]
    fn literals_compare_exactly(cases in prop::collection::vec(prop_oneof![3 => comparison(), 1 => range_or_set()], 12)) {
        check_truths(&UTC, "t", "id", &cases);
        let (condition, truths) = &cases[0];
        prop_assert_eq!(kept(&UTC, condition), rows_where(truths, true), "{}", condition);
        prop_assert_eq!(kept(&UTC, &format!("NOT ({condition})")), rows_where(truths, false), "NOT {}", condition);
        let (first, second) = (&cases[1], &cases[2]);
        let both: Vec<_> = first.1.iter().zip(&second.1).map(|(one, other)| all(vec![*one, *other])).collect();
        let condition = format!("({}) AND ({})", first.0, second.0);
        prop_assert_eq!(kept(&UTC, &condition), rows_where(&both, true), "{}", condition);
        let either: Vec<_> = first.1.iter().zip(&second.1).map(|(one, other)| not(all(vec![not(*one), not(*other)]))).collect();
        let condition = format!("NOT (({}) OR ({}))", first.0, second.0);
        prop_assert_eq!(kept(&UTC, &condition), rows_where(&either, false), "{}", condition);
    }

    #[test]
    fn columns_of_different_types_compare_exactly(cases in prop::collection::vec(pairing(), 12)) {
        check_truths(&UTC, "t a CROSS JOIN t b", "a.id, b.id", &cases);
    }

    #[test]
    fn joins_and_sets_of_different_types_match_exactly(one in column(), other in column(), anti in any::<bool>(), null in any::<bool>()) {
        let ((left, _), (right, _)) = (COLUMNS.column(one), COLUMNS.column(other));
        let pairs = left.iter().flat_map(|left| right.iter().map(move |right| left.is_some() && left == right));
        let count = i64::try_from(pairs.filter(|equal| *equal).count()).unwrap();
        let batches = query(&UTC, &format!("SELECT count(*) FROM t a JOIN t b ON a.{one} = b.{other}"));
        prop_assert_eq!(ids(&batches), vec![count], "{} = {}", one, other);

        let set = format!("SELECT {other} FROM t{}", if null { "" } else { " WHERE id < 15" });
        let word = if anti { "NOT " } else { "" };
        let set_has_null = right[..if null { 16 } else { 15 }].contains(&None);
        let member = |value: &Option<i128>| match value {
            None => None,
            Some(value) if right.contains(&Some(*value)) => Some(!anti),
            Some(_) if set_has_null => None,
            Some(_) => Some(anti),
        };
        let truths: Vec<_> = left.iter().map(member).collect();
        prop_assert_eq!(kept(&UTC, &format!("{one} {word}IN ({set})")), rows_where(&truths, true), "{} {}IN ({})", one, word, set);
    }

    #[test]
    fn zone_less_literals_are_read_in_the_sessions_zone(op in op(), pico in moment(), typed in any::<bool>()) {
        let literal = format!("{}'{}'", if typed { "TIMESTAMP " } else { "" }, text(pico, 0, ' '));
        let zoned = format!("'{}Z'", text(pico, 0, ' '));
        let case = |column: &str, literal: &str, hours: i128| {
            let pico = pico - hours * 3_600 * SECOND * 1_000;
            let truth = |value: &Option<i128>| decide(op, value.map(|value| value * 1_000), pico);
            (format!("{column} {op} {literal}"), COLUMNS.column(column).0.iter().map(truth).collect())
        };
        check_truths(&TOKYO, "t", "id", &[
            case("us_utc", &literal, 9), case("ns_utc", &literal, 9), case("us", &literal, 0), case("d", &literal, 0),
            case("us_utc", &zoned, 0), case("ns_utc", &zoned, 0), case("us", &zoned, 0), case("d", &zoned, 0),
        ]);
    }
}

static TOKYO: LazyLock<SessionContext> = LazyLock::new(|| context(Some("+09:00")));

// ------------------------------------------------------------------------------------------------- statements

/// `count(*)` of a query in three values of zone: how many rows, or which error.
#[track_caller]
fn check(sql: &str, expected: &str) {
    check_in(&UTC, sql, expected);
}

#[track_caller]
fn check_in(context: &SessionContext, sql: &str, expected: &str) {
    let batches = query(context, sql);
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let text = arrow::util::display::array_value_to_string(column, row).unwrap();
                if text.is_empty() { "null".to_owned() } else { text }
            });
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    assert_eq!(rows.join(", "), expected, "{sql}");
}

#[test]
fn literals_have_microseconds_or_what_their_digits_need() {
    check("SELECT TIMESTAMP '1500-01-01'", "1500-01-01T00:00:00");
    check("SELECT TIMESTAMP '9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999");
    check("SELECT TIMESTAMP '2024-01-02 12:00'", "2024-01-02T12:00:00");
    check("SELECT TIMESTAMP '2024-01-02 12:00:00.0000015'", "2024-01-02T12:00:00.000001500");
    check("SELECT CAST('0001-01-01T00:00:00Z' AS TIMESTAMP)", "0001-01-01T00:00:00");
    check("SELECT arrow_typeof(TIMESTAMP '2024-01-02')", "Timestamp(µs)");
    check("SELECT arrow_typeof('2024-01-02 00:00:00.1234567'::timestamp)", "Timestamp(ns)");
    check("SELECT arrow_typeof(CAST(d AS TIMESTAMP)) FROM t LIMIT 1", "Timestamp(µs)");
    check("SELECT TRY_CAST('2024-13-45' AS TIMESTAMP)", "null");
    check("SELECT DATE '2024-02-29'", "2024-02-29");
    check("SELECT TIMESTAMP '1500-01-01' + INTERVAL '1 day'", "1500-01-02T00:00:00");
    check("VALUES (TIMESTAMP '1500-01-01'), (TIMESTAMP '9999-12-31')", "1500-01-01T00:00:00, 9999-12-31T00:00:00");
    check_in(&TOKYO, "SELECT arrow_typeof(TIMESTAMP WITH TIME ZONE '2024-01-02')", "Timestamp(µs, \"+09:00\")");
    check_in(&TOKYO, "SELECT TIMESTAMPTZ '2024-01-02'", "2024-01-02T00:00:00+09:00");
}

#[test]
fn wherever_expressions_stand() {
    let far = "TIMESTAMP '1600-01-01 00:00:00.0000005'";
    check(&format!("SELECT count(*) FROM t GROUP BY us < {far} ORDER BY 1"), "1, 2, 13");
    check(&format!("SELECT us < {far} AS early, count(*) FROM t GROUP BY early HAVING min(us) < {far}"), "true 2");
    check(&format!("SELECT count(*) FROM t a JOIN t b ON a.id = b.id AND a.us < {far}"), "2");
    check(&format!("SELECT count(*) FROM t WHERE id IN (SELECT id FROM t WHERE us < {far})"), "2");
    check(
        &format!("SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.us = a.ns AND b.us < {far})"),
        "0",
    );
    check(&format!("SELECT (SELECT count(*) FROM t WHERE us < {far})"), "2");
    check("SELECT count(*) FROM t WHERE us > (SELECT max(ns) FROM t)", "1");
    check("SELECT count(*) FROM t WHERE us = (SELECT max(ns_utc) FROM t)", "1");
    check(&format!("SELECT sum(CASE WHEN us < {far} THEN 1 ELSE 0 END) FROM t"), "2");
    check(
        "SELECT id FROM t WHERE CASE us WHEN '1500-01-01' THEN true WHEN '1970-01-01 00:00:00.0000005' THEN true END",
        "1",
    );
    check("SELECT count(*) FILTER (WHERE us < '1600-01-01') FROM t", "2");
    check("SELECT id FROM t ORDER BY us < '1600-01-01' DESC NULLS LAST, id LIMIT 2", "0, 1");
    check("SELECT id FROM t WHERE coalesce(us, us_utc) < '0001-01-02'", "0");
    check("SELECT id FROM t WHERE us + INTERVAL '1 day' >= '9999-12-31' AND us IS NOT NULL", "10");
    check("SELECT id FROM t WHERE '1500-01-01' IN (us, ns)", "1");
    check("SELECT id FROM t WHERE '1500-01-01' BETWEEN us AND us_utc", "1");
    check("WITH x AS (SELECT us AS y FROM t) SELECT count(*) FROM x WHERE y < '1600-01-01'", "2");
    check("SELECT count(*) FROM t WHERE us < DATE '1600-01-01'", "2");
    check("SELECT count(*) FROM t WHERE us < DATE '1599-12-31' + INTERVAL '1 day'", "2");
    check("SELECT count(*) FROM t WHERE us < to_timestamp_micros('1600-01-01T00:00:00')", "2");
    check("SELECT count(*) FROM t WHERE us < to_timestamp_seconds(-11676096000)", "2");
    check("SELECT count(*) FROM t WHERE date_trunc('day', us) = '2024-01-02'", "3");
    check("SELECT count(*) FROM t WHERE CAST(us AS DATE) = '2024-01-02'", "3");
    check("SELECT count(*) FROM t WHERE CAST(us AS DATE) = '2024-01-02 12:00'", "0");
}

/// DataFusion compares the inner value with a literal cast the other way, as if neither cast lost anything.
#[test]
fn casts_around_columns() {
    // 2024-01-02 12:00:00.0000015 and .000001 are one microsecond.
    check(
        "SELECT id FROM t WHERE CAST(ns AS TIMESTAMP(6)) = TIMESTAMP '2024-01-02 12:00:00.000001' ORDER BY id",
        "5, 6",
    );
    check(
        "SELECT id FROM t WHERE arrow_cast(ns, 'Timestamp(Microsecond, None)') IN ('2024-01-02 12:00:00.000001') ORDER BY id",
        "5, 6",
    );
    check("SELECT id FROM t WHERE CAST(us AS TIMESTAMP(9)) < TIMESTAMP '1600-01-01' ORDER BY id", "0, 1");
    check("SELECT id FROM t WHERE CAST(us AS TIMESTAMP(9)) < '2024-01-02 12:00:00.0000005' AND us > '2024-01-01'", "7");
    check("SELECT id FROM t WHERE CAST(d AS TIMESTAMP) = '9999-12-31'", "10");
    check("SELECT id FROM t WHERE us AT TIME ZONE 'Asia/Tokyo' = '1500-01-01T00:00:00+09:18:59'", "1");
    check("SELECT id FROM t WHERE us AT TIME ZONE '+09:00' = '1499-12-31T15:00:00Z'", "1");
    check("SELECT id FROM t WHERE us AT TIME ZONE '+09:00' = '1500-01-01'", "1");
    check("SELECT id FROM t WHERE us_utc AT TIME ZONE '+09:00' = '1500-01-01 09:00'", "1");
    check("SELECT id FROM t WHERE us AT TIME ZONE '+09:00' = us_utc - INTERVAL '9 hours' AND id = 4", "4");
}

#[test]
fn literals_that_are_no_timestamps() {
    let fails = |sql: &str| failure(&UTC, sql);
    assert_eq!(
        fails("SELECT * FROM t WHERE us < '2024-13-45'"),
        "invalid_value: '2024-13-45' is not a date or timestamp"
    );
    assert_eq!(fails("SELECT * FROM t WHERE d = 'today'"), "invalid_value: 'today' is not a date or timestamp");
    assert_eq!(fails("SELECT TIMESTAMP 'infinity'"), "invalid_value: 'infinity' is not a date or timestamp");
    assert_eq!(
        fails("SELECT * FROM t WHERE ns IN ('2024-01-01', 'x')"),
        "invalid_value: 'x' is not a date or timestamp"
    );
    assert_eq!(
        fails("SELECT TIMESTAMP '1500-01-01 00:00:00.0000001'"),
        "invalid_value: '1500-01-01 00:00:00.0000001' is out of range for Timestamp(ns)"
    );
}

#[test]
fn what_cannot_be_parsed_is_null_where_that_was_asked_for() {
    check("SELECT count(*) FROM t WHERE us < TRY_CAST('2024-13-45' AS TIMESTAMP)", "0");
    check("SELECT count(*) FROM t WHERE us < CAST(NULL AS TIMESTAMP)", "0");
}

#[test]
fn what_is_made_of_instants_is_one_in_any_session() {
    // One row holds noon of the second of January 2024, in UTC or without a zone.
    let same = [
        "TIMESTAMP '2024-01-02T13:00:00Z' - INTERVAL '1 hour'",
        "(TIMESTAMP '2024-01-02T10:00:00Z' + INTERVAL '1 hour') + INTERVAL '60 minutes'",
        "INTERVAL '1 hour' + TIMESTAMP '2024-01-02T11:00:00Z'",
        "TIMESTAMP '2024-01-02T22:00:00+09:00' - INTERVAL '1 hour'",
        "'2024-01-02T12:00:00Z'::timestamp - INTERVAL '0 hour'",
        "CASE WHEN id >= 0 THEN TIMESTAMP '2024-01-02T12:00:00Z' ELSE TIMESTAMP '1999-01-02T12:00:00Z' END",
        "CASE WHEN id >= 0 THEN TIMESTAMP '2024-01-02T13:00:00Z' - INTERVAL '1 hour' ELSE NULL END",
        "CASE id WHEN -1 THEN NULL ELSE TIMESTAMP '2024-01-02T12:00:00Z' END",
        "date_trunc('hour', TIMESTAMP '2024-01-02T12:34:56Z')",
        "date_bin(INTERVAL '1 hour', TIMESTAMP '2024-01-02T12:34:56Z')",
        "coalesce(NULL, TIMESTAMP '2024-01-02T12:00:00Z')",
        "coalesce(TIMESTAMP '2024-01-02T12:00:00Z', TIMESTAMP '1999-01-02T12:00:00Z')",
        "nullif(TIMESTAMP '2024-01-02T12:00:00Z', TIMESTAMP '1999-01-02T12:00:00Z')",
        "greatest(TIMESTAMP '2024-01-02T12:00:00Z', TIMESTAMP '1999-01-02T12:00:00Z')",
        "TRY_CAST('2024-01-02T13:00:00Z' AS TIMESTAMP) - INTERVAL '1 hour'",
        "date_trunc('hour', TIMESTAMP '2024-01-02T13:10:00Z') - INTERVAL '1 hour'",
    ];
    for context in [&*UTC, &*TOKYO] {
        for column in ["us_utc", "ns_utc", "us"] {
            for made in same {
                let matching = [
                    format!("{column} = {made}"),
                    format!("{made} = {column}"),
                    format!("{column} BETWEEN {made} AND {made}"),
                    format!("{column} IN (TIMESTAMP '1999-01-01T00:00:00Z', {made})"),
                    format!("CASE {column} WHEN {made} THEN true ELSE false END"),
                    format!("{column} IS NOT DISTINCT FROM {made}"),
                ];
                for filter in matching {
                    let sql = format!("SELECT id FROM t WHERE {filter}");
                    assert_eq!(ids(&query(context, &sql)), [7], "{sql}");
                }
            }
        }
    }
    // A clock's reading among them, and the whole is one.
    let mixed = "CASE WHEN id >= 0 THEN TIMESTAMP '2024-01-02T21:00:00' ELSE TIMESTAMP '2024-01-02T12:00:00Z' END";
    assert_eq!(ids(&query(&TOKYO, &format!("SELECT id FROM t WHERE us_utc = {mixed}"))), [7]);
    let clock = "TIMESTAMP '2024-01-02T22:00:00' - INTERVAL '1 hour'";
    assert_eq!(ids(&query(&TOKYO, &format!("SELECT id FROM t WHERE us_utc = {clock}"))), [7]);
}

#[test]
fn zones() {
    let tokyo = context(Some("Asia/Tokyo"));
    for session in [&*UTC, &tokyo] {
        check_in(session, "SELECT count(*) FROM t WHERE us_utc >= '2024-01-02T12:00:00.000001Z'", "5");
        check_in(session, "SELECT count(*) FROM t WHERE us >= '2024-01-02T12:00:00.000001'", "5");
        check_in(session, "SELECT count(*) FROM t WHERE us_utc > now() + INTERVAL '1 day'", "2");
        check_in(session, "SELECT count(*) FROM t WHERE us_utc AT TIME ZONE '+01:00' = '2024-01-03 01:00'", "1");
    }
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc = '2024-01-03 09:00'", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc = TIMESTAMP '2024-01-03 09:00'", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc = TIMESTAMPTZ '2024-01-03 09:00'", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc = TIMESTAMP '2024-01-03T00:00:00Z'", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc IN (TIMESTAMP '2024-01-03T00:00:00Z')", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us = TIMESTAMP '2024-01-03T00:00:00Z'", "8");
    check_in(&tokyo, "SELECT TIMESTAMP '2024-01-03T00:00:00Z'", "2024-01-03T00:00:00");
    check_in(&tokyo, "SELECT id FROM t WHERE us = TIMESTAMPTZ '2024-01-03 00:00'", "8");
    check_in(&tokyo, "SELECT id FROM t WHERE us_utc = DATE '2024-01-03'", "");
    check_in(&tokyo, "SELECT count(*) FROM t WHERE us = us_utc AND id = 8", "0");
    check_in(&UTC, "SELECT count(*) FROM t WHERE us = us_utc AND id = 8", "1");
}

#[test]
fn what_is_inserted_is_found() {
    for (zone, stored) in [(None, "1500-01-01T00:00:00Z"), (Some("+09:00"), "1499-12-31T15:00:00Z")] {
        let session = context(zone);
        let types = "arrow_cast(us_utc, 'Timestamp(Microsecond, Some(\"UTC\"))') AS z, us, ns, d";
        query(&session, &format!("CREATE TABLE w AS SELECT {types} FROM t WHERE false"));
        query(
            &session,
            "INSERT INTO w VALUES ('1500-01-01', '1500-01-01 12:00', '2024-01-01 00:00:00.000000001', '1500-01-01')",
        );
        query(
            &session,
            "INSERT INTO w VALUES (TIMESTAMP '1500-01-01', TIMESTAMP '1500-01-01 12:00', TIMESTAMP '2024-01-01 00:00:00.000000001', DATE '1500-01-01')",
        );
        query(&session, "INSERT INTO w (z) VALUES ('1500-01-01T00:00:00Z')");
        check_in(&session, "SELECT count(*) FROM w WHERE z = '1500-01-01' AND us = '1500-01-01 12:00'", "2");
        check_in(
            &session,
            "SELECT count(*) FROM w WHERE ns = '2024-01-01 00:00:00.000000001' AND d = '1500-01-01'",
            "2",
        );
        check_in(&session, &format!("SELECT count(*) FROM w WHERE z = '{stored}' AND us IS NOT NULL"), "2");
        check_in(&session, "SELECT count(*) FROM w WHERE z = '1500-01-01T00:00:00Z' AND us IS NULL", "1");
    }
}

// ------------------------------------------------------------------------------------------------------- plans

fn check_plan(condition: &str, expected: Expect) {
    let sql = format!("EXPLAIN SELECT id FROM t WHERE {condition}");
    let batches = query(&UTC, &sql);
    let plan = arrow::util::display::array_value_to_string(batches[0].column(1), 0).unwrap();
    let lines: Vec<_> = plan.lines().map(str::trim).filter(|line| !line.starts_with("Projection: t.id")).collect();
    let filter = lines.iter().find_map(|line| line.strip_prefix("Filter: ")).unwrap_or(lines[0]);
    expected.assert_eq(filter);
}

#[test]
fn columns_stay_bare() {
    check_plan("us >= '2024-01-02'", expect!["t.us >= TimestampMicrosecond(1704153600000000, None)"]);
    check_plan("us < '2024-01-02 12:00:00.0000015'", expect!["t.us <= TimestampMicrosecond(1704196800000001, None)"]);
    check_plan(
        "us_utc BETWEEN '2024-01-02' AND '2024-01-03'",
        expect![[
            r#"t.us_utc >= TimestampMicrosecond(1704153600000000, Some("UTC")) AND t.us_utc <= TimestampMicrosecond(1704240000000000, Some("UTC"))"#
        ]],
    );
    check_plan(
        "us_utc IN ('2024-01-02', '2024-01-03 00:00:00.0000001')",
        expect![[r#"t.us_utc = TimestampMicrosecond(1704153600000000, Some("UTC"))"#]],
    );
    check_plan(
        "us NOT IN ('2024-01-02', '2024-01-03')",
        expect![
            "t.us != TimestampMicrosecond(1704153600000000, None) AND t.us != TimestampMicrosecond(1704240000000000, None)"
        ],
    );
    check_plan("ns > TIMESTAMP '1500-01-01'", expect!["t.ns IS NOT NULL"]);
    check_plan("ns < TIMESTAMP '1500-01-01'", expect!["EmptyRelation: rows=0"]);
    check_plan("NOT ns < TIMESTAMP '1500-01-01'", expect!["t.ns IS NOT NULL"]);
    check_plan("us = '2024-01-02 12:00:00.0000015' OR id = 3", expect!["t.id = Int64(3)"]);
    check_plan("d < TIMESTAMP '2024-01-02 12:00:00'", expect![[r#"t.d <= Date32("2024-01-02")"#]]);
    check_plan(
        "CAST(us AS TIMESTAMP(9)) < TIMESTAMP '2024-01-02'",
        expect!["t.us < TimestampMicrosecond(1704153600000000, None)"],
    );
    check_plan(
        "us > TIMESTAMP '2024-01-02' - INTERVAL '1 day'",
        expect!["t.us > TimestampMicrosecond(1704067200000000, None)"],
    );
    check_plan(
        "us > to_timestamp('2024-01-02T00:00:00Z')",
        expect!["t.us > TimestampMicrosecond(1704153600000000, None)"],
    );
    check_plan("us_utc > to_timestamp_micros(5)", expect![[r#"t.us_utc > TimestampMicrosecond(5, Some("UTC"))"#]]);
    check_plan("us > ns", expect!["t.us > timestamp_floor(t.ns, TimestampMicrosecond(NULL, None))"]);
}

#[test]
fn now_meets_a_bare_column() {
    let batches = query(&UTC, "EXPLAIN SELECT id FROM t WHERE us_utc >= now() - INTERVAL '1 day'");
    let plan = arrow::util::display::array_value_to_string(batches[0].column(1), 0).unwrap();
    assert!(plan.contains("t.us_utc >= TimestampMicrosecond("), "{plan}");
}

#[test]
fn results_keep_their_names() {
    let name = |sql: &str| query(&UTC, sql)[0].schema().field(0).name().clone();
    assert_eq!(name("SELECT us < '1600-01-01' FROM t LIMIT 1"), r#"t.us < Utf8("1600-01-01")"#);
    check(
        "SELECT us < '1600-01-01', count(*) FROM t GROUP BY us < '1600-01-01' ORDER BY 2",
        "null 1, true 2, false 13",
    );
    check("SELECT DISTINCT us < '1600-01-01' FROM t ORDER BY 1", "false, true, null");
    check("SELECT count(*) OVER (PARTITION BY us < '1600-01-01') AS n FROM t ORDER BY n LIMIT 4", "1, 2, 2, 13");
    check("SELECT max(us) > '9999-01-01' FROM t HAVING max(us) > '9999-01-01'", "true");
}

#[test]
fn correlated_and_aggregated_subqueries() {
    check("SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.ns = a.us)", "12");
    check("SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.us = a.ns AND b.us > '1970-01-01')", "5");
    check("SELECT id FROM t WHERE us IN (SELECT max(ns) FROM t)", "9");
    check(
        "SELECT id FROM t a WHERE us IN (SELECT ns FROM t b WHERE b.id = a.id) AND us >= '2024-01-01' ORDER BY id",
        "6, 7, 8, 9",
    );
    check("SELECT id FROM t a WHERE ns NOT IN (SELECT us FROM t b WHERE b.us IS NOT NULL) ORDER BY id", "3, 5, 11, 12");
}

#[test]
fn parameters_and_prepared_statements() {
    let session = context(None);
    query(&session, "PREPARE early AS SELECT count(*) FROM t WHERE us < $1");
    check_in(&session, "EXECUTE early('1600-01-01')", "2");
    check_in(&session, "EXECUTE early(TIMESTAMP '1600-01-01')", "2");
}
