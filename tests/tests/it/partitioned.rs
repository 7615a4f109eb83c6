//! Tables of every partition transform: the right rows, and no file that can't hold them.
//!
//! The name of a case ends with the number it has in the list of public faults, as in `cases`.
// @spec P1 P2 P3 V2

use std::collections::HashMap;

use daygrain::Session;
use daygrain::catalog::{Ident, Proposal};
use daygrain_tests::oracle;
use iceberg::spec::{
    FormatVersion, NestedField, PrimitiveType as T, Schema, SortOrder, TableMetadataBuilder, Transform, Type,
    UnboundPartitionSpec,
};

use crate::lab::{self, Lab};

/// A table `t` that was created by another engine, filled by INSERT.
struct Partitioned {
    _lab: Lab,
    session: Session,
}

fn spec_of(schema: &Schema, fields: &[(&str, Transform)]) -> UnboundPartitionSpec {
    let mut builder = UnboundPartitionSpec::builder();
    for (column, transform) in fields {
        let source = schema.field_by_name(column).expect("a column of the table").id;
        let name = format!("{column}_{}", transform.to_string().replace(['[', ']'], "_"));
        builder = builder.add_partition_field(source, name, *transform).expect("the names differ");
    }
    builder.build()
}

fn proposal(builder: TableMetadataBuilder) -> Proposal {
    let built = builder.build().expect("the metadata is valid");
    Proposal { metadata: built.metadata, requirements: Vec::new(), updates: built.changes }
}

impl Partitioned {
    async fn new(columns: &[(&str, T)], spec: &[(&str, Transform)], properties: &[(&str, &str)]) -> Partitioned {
        let lab = Lab::remote();
        let session = lab.session();
        let fields = (1..)
            .zip(columns)
            .map(|(id, (name, ty))| NestedField::optional(id, *name, Type::Primitive(ty.clone())).into());
        let schema = Schema::builder().with_fields(fields).build().expect("the columns differ");
        let spec = spec_of(&schema, spec);
        let catalog = &session.warehouse().committer().catalog;
        let ident = Ident::new("main", "t");
        let location = catalog.location(&ident).expect("a place for the table");
        let properties: HashMap<_, _> = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let order = SortOrder::unsorted_order();
        let builder = TableMetadataBuilder::new(schema, spec, order, location, FormatVersion::V3, properties);
        let next = proposal(builder.expect("the spec fits the schema"));
        catalog.publish(&ident, None, &next).await.map_err(|e| e.error().to_string()).expect("a free name");
        Partitioned { _lab: lab, session }
    }

    /// From now on rows are filed by another spec.
    async fn evolve(&self, fields: &[(&str, Transform)]) {
        let catalog = &self.session.warehouse().committer().catalog;
        let ident = Ident::new("main", "t");
        let base = catalog.load(&ident).await.expect("the table opens").expect("it exists");
        let spec = spec_of(base.metadata.current_schema(), fields);
        let builder = base.metadata.as_ref().clone().into_builder(Some(base.location.clone()));
        let next = proposal(builder.add_default_partition_spec(spec).expect("the spec fits the schema"));
        catalog
            .publish(&ident, Some(&base), &next)
            .await
            .map_err(|e| e.error().to_string())
            .expect("nobody else writes");
    }

    async fn insert(&self, rows: &str) {
        lab::query(&self.session, &format!("INSERT INTO t SELECT * FROM (VALUES {rows})")).await;
    }

    /// Each filter must leave so many rows, counted and shown.
    async fn counts(&self, expected: &[(&str, usize)]) {
        for (filter, rows) in expected {
            let counted = lab::lines(&self.session, &format!("SELECT count(*) FROM t WHERE {filter}")).await;
            assert_eq!(counted, [rows.to_string()], "{filter}");
            let shown = lab::query(&self.session, &format!("SELECT * FROM t WHERE {filter}")).await;
            assert_eq!(oracle::lines(&shown.batches).len(), *rows, "{filter}");
        }
    }

    /// Files that a query opens, of how many.
    async fn files(&self, filter: &str) -> (u64, u64) {
        let answer = lab::query(&self.session, &format!("SELECT * FROM t WHERE {filter}")).await;
        let files = &answer.scans[0].ledger.files;
        (files.kept(), files.total())
    }

    /// The lines of EXPLAIN PRUNING on files.
    async fn skipped_files(&self, filter: &str) -> Vec<String> {
        let mut lines = lab::lines(&self.session, &format!("EXPLAIN PRUNING SELECT * FROM t WHERE {filter}")).await;
        lines.retain(|line| line.starts_with("t|files|"));
        lines
    }

    /// The same rows as an engine that prunes nothing.
    async fn as_in_memory(&self, filters: &[String]) {
        let rows = lab::query(&self.session, "SELECT * FROM t").await.batches;
        let schema = rows[0].schema();
        let table = datafusion::datasource::MemTable::try_new(schema, vec![rows]).expect("the batches share a schema");
        let context = self.session.context();
        context.deregister_table("in_memory").expect("the session forgets its own tables");
        context.register_table("in_memory", std::sync::Arc::new(table)).expect("the name is free");
        for filter in filters {
            let of = |table: &str| format!("SELECT * FROM {table} WHERE {filter}");
            let expected = lab::lines(&self.session, &of("in_memory")).await;
            assert_eq!(lab::lines(&self.session, &of("t")).await, expected, "{filter}");
        }
    }
}

#[tokio::test]
async fn identity_of_numbers_2() {
    let decimal = T::Decimal { precision: 5, scale: 2 };
    let spec = [("x", Transform::Identity), ("d", Transform::Identity)];
    let table = Partitioned::new(&[("x", T::Double), ("d", decimal)], &spec, &[]).await;
    table.insert("(1.0, 10.50), (2.5, 1.00), (NULL, NULL)").await;
    let expected = [
        ("cast(d AS BIGINT) = 10", 1),
        ("cast(d AS BIGINT) <> 10", 1),
        ("cast(d AS BIGINT) BETWEEN 10 AND 10", 1),
        ("cast(d AS BIGINT) IN (10, 11)", 1),
        ("NOT (cast(d AS BIGINT) = 1)", 1),
        ("cast(d AS DECIMAL(4, 1)) = 10.5", 1),
        ("cast(x AS INT) IN (2, 7)", 1),
        ("cast(x AS INT) = 1", 1),
        ("x IS NULL", 1),
    ];
    table.counts(&expected).await;
    assert_eq!(table.files("cast(d AS BIGINT) = 10").await, (1, 3));
    // Also where the cast stands in a subquery.
    let inner = "SELECT count(*) FROM (SELECT cast(d AS BIGINT) AS k FROM t) WHERE k = 10";
    assert_eq!(lab::lines(&table.session, inner).await, ["1"]);
}

#[tokio::test]
async fn truncated_text_4() {
    let table = Partitioned::new(&[("s", T::String)], &[("s", Transform::Truncate(2))], &[]).await;
    table.insert("('hello'), ('heat'), ('zz'), ('h'), (NULL), ('•→x')").await;
    let expected = [
        ("s NOT LIKE 'hello%'", 4),
        ("s NOT LIKE 'he%'", 3),
        ("s LIKE 'he%'", 2),
        ("s LIKE 'h%'", 3),
        ("starts_with(s, 'hel')", 1),
        ("s = 'hello'", 1),
        ("s <> 'hello'", 4),
        ("s < 'heb'", 2),
        ("s >= 'hello'", 3),
        ("s IN ('h', 'zz')", 2),
        ("left(s, 2) = 'he'", 2),
        ("substr(s, 1, 1) = 'h'", 3),
        ("truncate(2, s) = 'he'", 2),
        ("s = '•→x'", 1),
        ("s IS NULL", 1),
    ];
    table.counts(&expected).await;
    assert_eq!(table.files("s = 'hello'").await, (1, 5));
    assert_eq!(table.files("s LIKE 'hel%'").await, (1, 5));
    assert_eq!(table.files("truncate(2, s) = 'he'").await, (1, 5));
    assert_eq!(table.files("s > 'y' AND s < 'zzz'").await, (1, 5));
}

#[tokio::test]
async fn truncated_decimals_5() {
    let decimal = T::Decimal { precision: 9, scale: 2 };
    let table = Partitioned::new(&[("d", decimal)], &[("d", Transform::Truncate(50))], &[]).await;
    table.insert("(10.65), (-0.01)").await;
    let expected =
        [("d = 10.65", 1), ("d > 10.60", 1), ("d < 0", 1), ("d <> 10.65", 1), ("truncate(50, d) = 10.50", 1)];
    table.counts(&expected).await;
    assert_eq!(table.files("d > 10.60").await, (1, 2));
    assert_eq!(table.files("d < 0").await, (1, 2));
}

#[tokio::test]
async fn truncated_integers_6() {
    for (ty, min, max) in [(T::Int, i64::from(i32::MIN), i64::from(i32::MAX)), (T::Long, i64::MIN, i64::MAX)] {
        let table = Partitioned::new(&[("i", ty)], &[("i", Transform::Truncate(10))], &[]).await;
        table.insert("(-11), (-10), (-1), (0), (9)").await;
        table.counts(&[("i < 0", 3), ("i BETWEEN -10 AND -1", 2), ("i = 9", 1), ("i > -1", 2)]).await;
        assert_eq!(table.files("i BETWEEN -10 AND -1").await, (1, 3));
        assert_eq!(table.files("truncate(10, i) = 0").await, (1, 3));
        // The least one is filed among the greatest.
        table.insert(&format!("({min}), ({max})")).await;
        let (least, greatest) = (format!("i = {min}"), format!("i >= {max}"));
        let below = format!("i <= {min}");
        let expected = [("i < 0", 4), (least.as_str(), 1), (greatest.as_str(), 1), (below.as_str(), 1), ("i > 0", 2)];
        table.counts(&expected).await;
        let all = "i IS NOT NULL AND i >= -9223372036854775808";
        assert_eq!(lab::lines(&table.session, &format!("SELECT count(*) FROM t WHERE {all}")).await, ["7"]);
    }
}

#[tokio::test]
async fn times_before_1970_7() {
    for transform in [Transform::Year, Transform::Month, Transform::Day, Transform::Hour] {
        let table = Partitioned::new(&[("ts", T::Timestamp)], &[("ts", transform)], &[]).await;
        let rows = "(TIMESTAMP '1969-12-31 23:59:59.999999'), (TIMESTAMP '1969-12-31 00:00:00'), \
                    (TIMESTAMP '1970-01-01 00:00:00'), (TIMESTAMP '1960-02-29 12:00:00'), (CAST(NULL AS TIMESTAMP))";
        table.insert(rows).await;
        let expected = [
            ("ts = '1969-12-31 23:59:59.999999'", 1),
            ("ts >= '1969-12-31 12:00'", 2),
            ("ts IS NULL", 1),
            ("ts < '1970-01-01'", 3),
            ("extract(year FROM ts) = 1969", 2),
            ("years(ts) = -1", 2),
            ("days(ts) = -1", 2),
            ("hours(ts) = -1", 1),
            ("months(ts) < 0", 3),
            ("date_trunc('year', ts) = '1960-01-01'", 1),
            ("to_date(ts) = '1969-12-31'", 2),
        ];
        table.counts(&expected).await;
        assert_eq!(table.files("ts IS NULL").await.0, 1, "{transform}");
        assert_eq!(table.files("years(ts) = -10").await.0, 1, "{transform}");
    }
}

#[tokio::test]
async fn two_fields_8() {
    let columns = [("type_id", T::Int), ("ts", T::Timestamp), ("name", T::String)];
    let spec = [("type_id", Transform::Identity), ("ts", Transform::Month)];
    let table = Partitioned::new(&columns, &spec, &[]).await;
    for month in 1..=7 {
        let at = format!("TIMESTAMP '2024-{month:02}-15 12:00:00'");
        table.insert(&format!("(36, {at}, 'foobar'), (36, {at}, 'other'), (37, {at}, 'foobar')")).await;
    }
    table.counts(&[("type_id = 36 AND name = 'foobar'", 7), ("type_id = 36 AND ts >= '2024-07-01'", 2)]).await;
    assert_eq!(table.files("type_id = 36 AND name = 'foobar'").await, (7, 14));
    assert_eq!(table.files("type_id = 36 AND ts >= '2024-07-01'").await, (1, 14));
    assert_eq!(table.files("type_id = 36 AND date_trunc('month', ts) IN ('2024-03-01', '2024-05-01')").await, (2, 14));
}

#[tokio::test]
async fn hours_around_midnight_10_26() {
    let table = Partitioned::new(&[("ts", T::Timestamp)], &[("ts", Transform::Hour)], &[]).await;
    let rows = ["01T23:30", "02T00:10", "02T23:50", "03T00:20"].map(|at| format!("(TIMESTAMP '2024-01-{at}:00')"));
    table.insert(&rows.join(", ")).await;
    let expected = [
        ("cast(ts AS DATE) = DATE '2024-01-02'", 2),
        ("cast(ts AS DATE) > '2024-01-01'", 3),
        ("cast(ts AS DATE) IN (DATE '2024-01-02', DATE '2024-01-03')", 3),
        ("date_bin(INTERVAL '1 hour', ts) = TIMESTAMP '2024-01-02T23:00:00'", 1),
        ("ts + INTERVAL '1 hour' >= TIMESTAMP '2024-01-03'", 2),
        ("extract(hour FROM ts) = 23", 2),
    ];
    table.counts(&expected).await;
    assert_eq!(table.files("cast(ts AS DATE) = DATE '2024-01-02'").await, (2, 4));
    assert_eq!(table.files("date_bin(INTERVAL '1 hour', ts) = TIMESTAMP '2024-01-02T23:00:00'").await, (1, 4));
    assert_eq!(table.files("extract(hour FROM ts) = 23").await, (2, 4));
    assert_eq!(table.files("extract(hour FROM ts) NOT BETWEEN 1 AND 23").await, (2, 4));
    assert_eq!(table.files("extract(day FROM ts) = 2").await, (2, 4));
}

/// Twelve weeks by the day, from Monday 15 April 2024, at noon: parts of a time that come again keep the days that have them.
// @spec P1 P3 E3
#[tokio::test]
async fn parts_that_come_again() {
    let columns = [("ts", T::Timestamp), ("tz", T::Timestamptz)];
    let spec = [("ts", Transform::Day), ("tz", Transform::Day)];
    let table = Partitioned::new(&columns, &spec, &[]).await;
    let at = "1713182400000000 + value * 86400000000";
    let rows = format!(
        "SELECT arrow_cast({at}, 'Timestamp(Microsecond, None)'), \
         arrow_cast({at}, 'Timestamp(Microsecond, Some(\"+00:00\"))') FROM generate_series(0, 83)"
    );
    lab::query(&table.session, &format!("INSERT INTO t {rows}")).await;
    lab::query(&table.session, "INSERT INTO t VALUES (NULL, NULL)").await;
    // Each filter keeps so many days, and EXPLAIN PRUNING says that the others were skipped by their partition.
    for (filter, days) in [
        ("extract(month FROM ts) = 5", 31),
        ("extract(month FROM ts) IN (4, 7)", 23),
        ("extract(month FROM tz) BETWEEN 5 AND 6", 61),
        ("date_part('dow', ts) IN (0, 6)", 24),
        ("date_part('dow', tz) NOT IN (0, 6)", 60),
        ("date_part('isodow', ts) = 0", 12),
        ("date_part('isodow', ts) >= 5", 24),
        ("extract(quarter FROM ts) = 3", 7),
        ("extract(week FROM ts) = 20", 7),
        ("extract(day FROM ts) > 30", 1),
        ("extract(doy FROM ts) > 182", 7),
        ("NOT (extract(month FROM ts) <> 5)", 31),
        ("extract(month FROM ts) % 2 = 1", 38),
    ] {
        table.counts(&[(filter, days)]).await;
        let skipped = 85 - days;
        let expected = [format!("t|files|85|{days}|{skipped}|∅"), format!("t|files|85|∅|{skipped}|partition")];
        assert_eq!(table.skipped_files(filter).await, expected, "{filter}");
    }
    let plan = lab::lines(&table.session, "EXPLAIN SELECT * FROM t WHERE date_part('dow', ts) IN (0, 6)").await;
    assert!(plan.join("\n").contains("extract(dow FROM ts_day) IN (0, 6)"), "{plan:?}");
    // Days have every hour, but the rows in them are at noon.
    table.counts(&[("extract(hour FROM ts) = 12", 84), ("extract(hour FROM ts) = 11", 0)]).await;
    let by_bounds = ["t|files|85|0|85|∅", "t|files|85|∅|1|partition", "t|files|85|∅|84|column_bounds"];
    assert_eq!(table.skipped_files("extract(hour FROM ts) = 11").await, by_bounds);
    // A day of UTC is a part of two days of New York.
    let weekend = "date_part('dow', tz AT TIME ZONE 'America/New_York') IN (0, 6)";
    table.counts(&[(weekend, 24)]).await;
    let by_both = ["t|files|85|24|61|∅", "t|files|85|∅|12|column_bounds", "t|files|85|∅|49|partition"];
    assert_eq!(table.skipped_files(weekend).await, by_both);
}

#[tokio::test]
async fn buckets_of_uuids_21() {
    let table = Partitioned::new(&[("u", T::Uuid)], &[("u", Transform::Bucket(16))], &[]).await;
    let uuids = [
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ];
    let bytes = |uuid: &str| format!("arrow_cast(X'{}', 'FixedSizeBinary(16)')", uuid.replace('-', ""));
    for uuid in uuids {
        table.insert(&format!("({})", bytes(uuid))).await;
    }
    for uuid in uuids {
        let filter = format!("u = {}", bytes(uuid));
        table.counts(&[(filter.as_str(), 1)]).await;
        assert_eq!(table.files(&filter).await, (1, 3), "{uuid}");
    }
    // 1488055340 modulo 16.
    table.counts(&[("bucket(16, u) = 12", 1)]).await;
    assert_eq!(table.files("bucket(16, u) = 12").await, (1, 3));
}

#[tokio::test]
async fn buckets_of_dates_and_numbers_22() {
    let decimal = T::Decimal { precision: 9, scale: 2 };
    let columns = [("dt", T::Date), ("d", decimal), ("i", T::Int), ("l", T::Long)];
    for (column, filter) in [("dt", "dt = '1969-12-29'"), ("d", "d = -2.50"), ("i", "i = 34"), ("l", "l = 34")] {
        let table = Partitioned::new(&columns, &[(column, Transform::Bucket(100))], &[]).await;
        table
            .insert("(DATE '1969-12-29', -2.50, 34, 34), (DATE '2024-01-01', 7.00, -1, -1), (NULL, NULL, NULL, NULL)")
            .await;
        table.counts(&[(filter, 1)]).await;
        assert_eq!(table.files(filter).await, (1, 3), "{filter}");
        let null = format!("{column} IS NULL");
        assert_eq!(table.files(&null).await, (1, 3), "{null}");
    }
    let table = Partitioned::new(&columns, &[("l", Transform::Bucket(100))], &[]).await;
    table.insert("(NULL, NULL, NULL, 34), (NULL, NULL, NULL, 35)").await;
    // 2017239379 modulo 100.
    table.counts(&[("bucket(100, l) = 79", 1), ("bucket(100, i) = 79", 0), ("bucket(100, l) <> 79", 1)]).await;
    assert_eq!(table.files("bucket(100, l) = 79").await, (1, 2));
    // Nothing is left to test in the rows of that bucket.
    let counted = lab::query(&table.session, "SELECT count(*) FROM t WHERE bucket(100, l) = 79").await;
    assert_eq!(counted.scans.iter().map(|scan| scan.ledger.rows.total()).sum::<u64>(), 0);
}

#[tokio::test]
async fn without_metrics_23() {
    let none = [("write.metadata.metrics.default", "none")];
    let table = Partitioned::new(&[("k", T::String)], &[("k", Transform::Identity)], &none).await;
    table.insert("('a'), ('b'), ('c'), (NULL)").await;
    table.counts(&[("k = 'a'", 1), ("k <> 'a'", 2), ("k IS NULL", 1), ("k IN ('a', 'c')", 2)]).await;
    assert_eq!(table.files("k = 'a'").await, (1, 4));
    assert_eq!(table.files("k IS NULL").await, (1, 4));
}

/// `EXPLAIN PRUNING` says beside its rows why a condition didn't prune, and what would.
// @spec E3
#[tokio::test]
async fn why_a_condition_does_not_prune() {
    let table = Partitioned::new(&[("ts", T::Timestamp), ("i", T::Int)], &[("ts", Transform::Day)], &[]).await;
    table.insert("(TIMESTAMP '2024-01-01T00:00:00', 1), (TIMESTAMP '2024-01-02T00:00:00', 2)").await;
    for (filter, note) in [
        (
            "to_char(ts, '%Y') = '2024'",
            Some("to_char(ts, %Y) = 2024 prunes nothing: text made of a time, whose order is another; compare"),
        ),
        (
            "extract(month FROM ts) = 1",
            Some("prunes by a part of what it says: a part of a time that comes again: what reaches"),
        ),
        (
            "extract(second FROM ts) = 1",
            Some("prunes nothing: a part of a time that comes again and again; add a range"),
        ),
        ("ts + INTERVAL '1 month' > '2024-02-01'", Some("prunes by a part of what it says: months added to a time")),
        ("i + 1 = 2", Some("prunes nothing: arithmetic on a column; move")),
        ("date_trunc('day', ts) = '2024-01-01' AND i = 1", None),
    ] {
        let sql = format!("EXPLAIN PRUNING SELECT * FROM t WHERE {filter}");
        let statement = table.session.parse(&sql).remove(0);
        let running = table.session.run(&statement).await.expect("it runs");
        match note {
            Some(note) => assert!(running.notes.iter().any(|n| n.contains(note)), "{filter}: {:?}", running.notes),
            None => assert_eq!(running.notes, Vec::<String>::new(), "{filter}"),
        }
    }
}

/// Filters of all kinds over a table whose spec changes under it: as an engine that prunes nothing.
#[tokio::test]
async fn specs_that_change() {
    let columns = [("ts", T::Timestamp), ("tz", T::Timestamptz), ("i", T::Int), ("s", T::String)];
    let table = Partitioned::new(&columns, &[("ts", Transform::Day)], &[]).await;
    let rows = "('2024-03-10T06:59:59.999999', '2024-03-10T07:00:00Z', 3, 'abc'), \
                ('2024-11-03T00:00:00', '2024-11-03T05:30:00Z', -7, 'ab'), \
                ('2024-11-02T23:59:59', '2024-11-03T06:30:00Z', 25, 'b'), \
                ('1969-12-31T23:59:59.5', '1969-12-31T23:59:59.5Z', -2147483648, ''), \
                (NULL, NULL, NULL, NULL)";
    let rows = format!(
        "SELECT arrow_cast(a, 'Timestamp(Microsecond, None)'), arrow_cast(b, 'Timestamp(Microsecond, Some(\"+00:00\"))'), \
         arrow_cast(c, 'Int32'), d FROM (VALUES {rows}) v(a, b, c, d)"
    );
    let specs: [&[(&str, Transform)]; 4] = [
        &[("tz", Transform::Hour), ("i", Transform::Truncate(10))],
        &[("i", Transform::Bucket(4)), ("s", Transform::Truncate(1))],
        &[("ts", Transform::Year), ("s", Transform::Identity)],
        &[],
    ];
    for spec in specs {
        lab::query(&table.session, &format!("INSERT INTO t {rows}")).await;
        table.evolve(spec).await;
    }
    lab::query(&table.session, &format!("INSERT INTO t {rows}")).await;
    for (filter, specs) in [("_spec_id = 0", 1), ("_spec_id IN (1, 3)", 2), ("_spec_id >= 9", 0)] {
        let (kept, _) = table.files(filter).await;
        let (of_all, _) = table.files("true").await;
        assert!(if specs == 0 { kept == 0 } else { kept > 0 && kept < of_all }, "{filter}: {kept} of {of_all}");
        let found = lab::lines(&table.session, &format!("SELECT count(DISTINCT _spec_id) FROM t WHERE {filter}")).await;
        assert_eq!(found, [specs.to_string()], "{filter}");
    }
    let operands = [
        ("ts", "'2024-11-03'"),
        ("date_trunc('day', ts)", "'2024-11-03'"),
        ("date_trunc('month', tz)", "'2024-11-01T00:00:00Z'"),
        ("date_trunc('hour', tz AT TIME ZONE 'America/New_York')", "'2024-11-03T01:00:00'"),
        ("date_trunc('day', tz AT TIME ZONE 'America/New_York')", "'2024-03-10T00:00:00'"),
        ("cast(tz AT TIME ZONE 'Asia/Tokyo' AS DATE)", "DATE '2024-11-03'"),
        ("cast(ts AS DATE)", "DATE '1969-12-31'"),
        ("ts + INTERVAL '1 month'", "'2024-12-03'"),
        ("days(ts)", "-1"),
        ("hours(tz)", "480654"),
        ("extract(year FROM tz)", "2024"),
        ("extract(month FROM ts)", "11"),
        ("extract(hour FROM ts)", "23"),
        ("date_part('dow', tz)", "0"),
        ("date_part('doy', ts) % 5", "2"),
        ("extract(hour FROM tz AT TIME ZONE 'America/New_York')", "1"),
        ("extract(day FROM CAST(tz AT TIME ZONE 'Asia/Tokyo' AS DATE))", "1"),
        ("i", "-7"),
        ("truncate(10, i)", "20"),
        ("bucket(4, i)", "1"),
        ("coalesce(i, 3)", "3"),
        ("CASE WHEN i > 0 THEN 'x' ELSE s END", "'x'"),
        ("cast(i AS DOUBLE)", "2.5"),
        ("left(s, 1)", "'a'"),
        ("s", "'ab'"),
    ];
    let mut filters = vec!["(i > 0) IS NOT TRUE".to_owned(), "s LIKE 'a%c'".to_owned(), "s NOT LIKE 'ab%'".to_owned()];
    for (operand, constant) in operands {
        for op in ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"] {
            filters.push(format!("{operand} {op} {constant}"));
        }
        filters.push(format!("NOT ({operand} = {constant})"));
        filters.push(format!("{operand} IN ({constant})"));
        filters.push(format!("{operand} IS NULL"));
    }
    table.as_in_memory(&filters).await;
    assert_eq!(table.files("date_trunc('day', ts) = '2024-11-03'").await.1, 4 * 5 + 1);
    assert!(table.files("date_trunc('day', ts) = '2024-11-03'").await.0 <= 5);
}
