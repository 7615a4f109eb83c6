//! Deleted rows against a reading of the specification, row by row.
// @spec P7

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use iceberg::spec::{Literal, NestedField, PartitionSpec, PrimitiveType, Schema, StructType, Transform, Type};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::deleting::Scope;
use super::fixture::{Answer, LOCAL, REMOTE, Table, column};
use super::{RUNTIME, lines, skipped};
use crate::error::Code;
use crate::observe::Reason;
use crate::scan::ScanReport;
use crate::schema::{stored_arrow, to_arrow};

#[derive(Clone, Debug)]
struct Row {
    id: i64,
    part: i32,
    k: Option<i32>,
    f: Option<f64>,
    s: Option<String>,
}

const K: i32 = 3;
const F: i32 = 4;
const S: i32 = 5;

fn fields() -> Vec<NestedField> {
    vec![
        column(1, "id", PrimitiveType::Long),
        column(2, "part", PrimitiveType::Int),
        column(K, "k", PrimitiveType::Int),
        column(F, "f", PrimitiveType::Double),
        column(S, "s", PrimitiveType::String),
        column(6, "text", PrimitiveType::String),
    ]
}

fn text(id: i64) -> String {
    format!("{id:0>300}")
}

fn rows(seed: u64, file: usize, part: i32, count: usize) -> Vec<Row> {
    let mut random = StdRng::seed_from_u64(seed + file as u64);
    let row = |at: usize| Row {
        id: (file * 10_000 + at) as i64,
        part,
        k: random.random_bool(0.9).then(|| random.random_range(0..9)),
        f: [None, Some(f64::NAN), Some(-f64::NAN), Some(0.0), Some(-0.0), Some(1.5)][random.random_range(0..6)],
        s: random.random_bool(0.9).then(|| format!("s{}", random.random_range(0..5))),
    };
    (0..count).map(row).collect()
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.id))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.part))),
        Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.k))),
        Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.f))),
        Arc::new(StringArray::from_iter(rows.iter().map(|r| r.s.clone()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| text(r.id)))),
    ]
}

fn partitioned(root: &'static str) -> Table {
    let mut table = Table::new(root, fields(), None);
    table.spec = PartitionSpec::builder(Arc::clone(&table.schema))
        .with_spec_id(0)
        .add_partition_field("part", "part", Transform::Identity)
        .unwrap()
        .build()
        .unwrap();
    table
}

#[derive(Clone, Debug)]
enum Delete {
    /// Shares of the rows of some files of one partition.
    Positions {
        part: i32,
        files: Vec<bool>,
        one_in: u64,
        sequence: i64,
    },
    Vector {
        file: usize,
        one_in: u64,
        sequence: i64,
    },
    Equality {
        keys: Vec<i32>,
        scope: Option<i32>,
        sequence: i64,
        rows: Vec<Row>,
    },
}

/// Positions that a share of rows has: every `one_in`th, or whole runs.
fn hit(seed: u64, one_in: u64, position: u64) -> bool {
    match one_in {
        0 => true,
        n if n % 2 == 0 => (position / 50 + seed).is_multiple_of(n),
        n => (position + seed).is_multiple_of(n),
    }
}

fn matches(keys: &[i32], a: &Row, b: &Row) -> bool {
    let same_float = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits(),
        (a, b) => a.is_none() && b.is_none(),
    };
    keys.iter().all(|key| match *key {
        K => a.k == b.k,
        F => same_float(a.f, b.f),
        _ => a.s == b.s,
    })
}

#[derive(Clone, Debug)]
struct Story {
    seed: u64,
    local: bool,
    /// Partition, sequence number, rows.
    files: Vec<(i32, i64, usize)>,
    deletes: Vec<Delete>,
    queries: Vec<String>,
}

fn story() -> impl Strategy<Value = Story> {
    let file = (0..2_i32, 1..5_i64, prop::sample::select(vec![1_usize, 30, 250, 430]));
    let one_in = || prop::sample::select(vec![0_u64, 2, 3, 4, 7, 50, 99]);
    let keys = prop::sample::select(vec![vec![K], vec![F], vec![S], vec![K, F], vec![K, S], vec![K, F, S]]);
    let equality = (keys, prop::option::of(0..2_i32), 1..6_i64, any::<u64>(), 1..8_usize).prop_map(
        |(keys, scope, sequence, seed, count)| Delete::Equality {
            keys,
            scope,
            sequence,
            rows: rows(seed % 1000, 0, 0, count),
        },
    );
    let delete = prop_oneof![
        (0..2_i32, prop::collection::vec(any::<bool>(), 5), one_in(), 1..6_i64)
            .prop_map(|(part, files, one_in, sequence)| Delete::Positions { part, files, one_in, sequence }),
        (0..5_usize, one_in(), 1..6_i64).prop_map(|(file, one_in, sequence)| Delete::Vector { file, one_in, sequence }),
        equality,
    ];
    let condition = prop::sample::select(vec![
        "",
        "",
        " WHERE k = 3",
        " WHERE part = 1",
        " WHERE part = 0 AND k > 2",
        " WHERE id % 7 = 0",
        " WHERE id >= 10100",
        " WHERE id BETWEEN 10030 AND 10260",
        " WHERE isnan(f)",
        " WHERE s IS NULL",
        " WHERE k IS NOT NULL AND s <> 's1'",
        " WHERE text LIKE '%9'",
        " WHERE k = 3 AND s = 's2'",
    ]);
    let shape = prop::sample::select(vec![
        "SELECT count(*) FROM t",
        "SELECT count(k), min(id), max(id) FROM t",
        "SELECT id FROM t",
        "SELECT * FROM t",
        "SELECT text, k + 1 FROM t",
        "SELECT 1 FROM t",
    ]);
    let order = prop::sample::select(vec![
        "",
        "",
        " ORDER BY k DESC, id LIMIT 7",
        " ORDER BY f DESC NULLS LAST, id LIMIT 40",
        " ORDER BY part, k, id DESC LIMIT 200",
    ]);
    let query = (shape, condition, order).prop_map(|(shape, condition, order)| match order {
        "" => format!("{shape}{condition}"),
        _ => format!("SELECT id, text FROM t{condition}{order}"),
    });
    (
        any::<u64>(),
        any::<bool>(),
        prop::collection::vec(file, 1..5),
        prop::collection::vec(delete, 0..6),
        prop::collection::vec(query, 6),
    )
        .prop_map(|(seed, local, files, deletes, queries)| Story {
            seed: seed % 1000,
            local,
            files,
            deletes,
            queries,
        })
}

impl Story {
    /// The table, and the rows that are left by the rules of the specification.
    async fn tell(&self) -> (Table, Vec<Row>) {
        let mut table = partitioned(if self.local { LOCAL } else { REMOTE });
        let stored = Arc::new(stored_arrow(&table.schema).unwrap());
        let mut files = Vec::new();
        for (at, (part, sequence, count)) in self.files.iter().enumerate() {
            let rows = rows(self.seed, at, *part, *count);
            table.add(&RecordBatch::try_new(Arc::clone(&stored), columns(&rows)).unwrap(), Some(*part)).await;
            table.sequences.push(*sequence);
            files.push(rows);
        }
        let mut named: Vec<(i64, usize, u64)> = Vec::new();
        let mut vectors: Vec<Option<(i64, Vec<u64>)>> = vec![None; files.len()];
        for delete in &self.deletes {
            match delete {
                Delete::Positions { part, files: chosen, one_in, sequence } => {
                    let of = |file: usize| chosen[file] && self.files[file].0 == *part;
                    let rows: Vec<(usize, i64)> = (0..files.len())
                        .filter(|file| of(*file))
                        .flat_map(|file| (0..files[file].len() as i64).map(move |position| (file, position)))
                        .filter(|(_, position)| hit(self.seed, *one_in, *position as u64))
                        .collect();
                    if !rows.is_empty() {
                        table.delete_positions(Scope::Partition(*part), *sequence, &rows).await;
                        named.extend(rows.into_iter().map(|(file, position)| (*sequence, file, position as u64)));
                    }
                }
                Delete::Vector { file, one_in, sequence } => {
                    let file = file % files.len();
                    let positions: Vec<u64> =
                        (0..files[file].len() as u64).filter(|p| hit(self.seed, *one_in, *p)).collect();
                    if vectors[file].is_none() && !positions.is_empty() {
                        let scope = Scope::Partition(self.files[file].0);
                        table.delete_vectors(scope, *sequence, &[(file, positions.clone())], None).await;
                        vectors[file] = Some((*sequence, positions));
                    }
                }
                Delete::Equality { keys, scope, sequence, rows } => {
                    let scope = scope.map_or(Scope::Everywhere, Scope::Partition);
                    let of = |id: &i32| fields().into_iter().position(|field| field.id == *id).unwrap();
                    let key_fields = keys.iter().map(|id| fields().swap_remove(of(id))).collect();
                    let key_columns = keys.iter().map(|id| Arc::clone(&columns(rows)[of(id)])).collect();
                    table.delete_equal(scope, *sequence, keys, (key_fields, key_columns)).await;
                }
            }
        }
        let mut live = Vec::new();
        for (file, rows) in files.into_iter().enumerate() {
            let (part, age, _) = self.files[file];
            let vector = vectors[file].as_ref().filter(|(sequence, _)| *sequence >= age);
            for (position, row) in rows.into_iter().enumerate() {
                let position = position as u64;
                let by_position = match vector {
                    Some((_, positions)) => positions.contains(&position),
                    None => named.iter().any(|(s, f, p)| *s >= age && *f == file && *p == position),
                };
                let by_key = self.deletes.iter().any(|delete| match delete {
                    Delete::Equality { keys, scope, sequence, rows } => {
                        *sequence > age
                            && scope.is_none_or(|scope| scope == part)
                            && rows.iter().any(|deleted| matches(keys, deleted, &row))
                    }
                    _ => false,
                });
                if !by_position && !by_key {
                    live.push(row);
                }
            }
        }
        (table, live)
    }
}

fn plain(table: &Table, live: &[Row]) -> SessionContext {
    let shown = to_arrow(&table.schema).unwrap();
    let columns = columns(live).into_iter().zip(shown.fields());
    let columns = columns.map(|(column, field)| cast(&column, field.data_type()).unwrap()).collect();
    let batch = RecordBatch::try_new(Arc::clone(&shown), columns).unwrap();
    let context = SessionContext::new();
    context.register_table("t", Arc::new(MemTable::try_new(shown, vec![vec![batch]]).unwrap())).unwrap();
    context
}

async fn expect(context: &SessionContext, sql: &str) -> Vec<String> {
    lines(&context.sql(sql).await.unwrap().collect().await.unwrap())
}

/// The numbers of a report add up, and are what the store counted.
fn check(answer: &Answer, table: &Table) {
    if let Some(report) = &answer.report {
        assert_eq!((report.ledger.requests, report.ledger.bytes), answer.counted);
    }
    adds_up(answer, table);
}

fn adds_up(answer: &Answer, table: &Table) {
    let Some(ScanReport { ledger, .. }) = &answer.report else { return };
    assert_eq!(ledger.files.total(), table.files.len() as u64);
    assert_eq!(ledger.delete_files.total(), table.deletes.len() as u64, "{}", ledger.delete_files);
    for tally in [&ledger.files, &ledger.delete_files, &ledger.row_groups, &ledger.pages, &ledger.rows] {
        assert_eq!(tally.total(), tally.kept() + tally.skipped_total());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_that_the_specification_leaves(story in story()) {
        RUNTIME.block_on(async {
            let (table, live) = story.tell().await;
            let plain = plain(&table, &live);
            for partitions in [1, 3] {
                let ours = table.session(table.view().await, partitions);
                for sql in &story.queries {
                    let answer = table.query(&ours, sql).await;
                    assert_eq!(lines(&answer.batches), expect(&plain, sql).await, "{sql}");
                    if sql.contains("LIMIT") { adds_up(&answer, &table) } else { check(&answer, &table) }
                }
                for limit in [1, 40] {
                    for sql in ["SELECT id FROM t", "SELECT id FROM t WHERE k > 3"] {
                        let all = expect(&plain, sql).await;
                        let answer = table.query(&ours, &format!("{sql} LIMIT {limit}")).await;
                        let some = lines(&answer.batches);
                        assert_eq!(some.len(), all.len().min(limit), "{sql} LIMIT {limit}");
                        assert!(some.iter().all(|line| all.contains(line)), "{sql} LIMIT {limit}");
                        // The next file may still be being opened, so the store isn't asked what it counted.
                        adds_up(&answer, &table);
                    }
                }
            }
        });
    }
}

/// A table of one file with these rows.
async fn one_file(fields: Vec<NestedField>, columns: Vec<ArrayRef>) -> Table {
    let mut table = Table::new(REMOTE, fields, None);
    add(&mut table, columns).await;
    table
}

async fn add(table: &mut Table, columns: Vec<ArrayRef>) {
    let stored = Arc::new(stored_arrow(&table.schema).unwrap());
    table.add(&RecordBatch::try_new(stored, columns).unwrap(), None).await;
}

fn evolve(table: &mut Table, fields: Vec<NestedField>) {
    table.schema = Arc::new(Schema::builder().with_fields(fields.into_iter().map(Arc::new)).build().unwrap());
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

async fn answers(table: &Table, queries: &[(&str, &[&str])]) {
    for partitions in [1, 8] {
        let context = table.session(table.view().await, partitions);
        for (sql, expected) in queries {
            let answer = table.query(&context, sql).await;
            assert_eq!(lines(&answer.batches), *expected, "{sql}");
            check(&answer, table);
        }
    }
}

async fn error(table: &Table) -> crate::Error {
    let context = table.session(table.view().await, 1);
    let result = async { context.sql("SELECT * FROM t").await?.collect().await }.await;
    crate::Error::from(result.unwrap_err())
}

#[tokio::test]
async fn a_null_key_removes_null_only_27() {
    let status = || vec![column(1, "status", PrimitiveType::String)];
    let rows = || vec![texts(&[Some("A"), Some("I"), None])];
    let mut table = one_file(status(), rows()).await;
    table.delete_equal(Scope::Table, 2, &[1], (status(), vec![texts(&[Some("I")])])).await;
    answers(&table, &[("SELECT * FROM t", &["A", "∅"]), ("SELECT count(*) FROM t", &["2"])]).await;

    let mut table = one_file(status(), rows()).await;
    table.delete_equal(Scope::Table, 2, &[1], (status(), vec![texts(&[None])])).await;
    answers(&table, &[("SELECT * FROM t", &["A", "I"]), ("SELECT count(status) FROM t", &["2"])]).await;
    // Not newer than the rows.
    table.sequences = vec![2];
    answers(&table, &[("SELECT count(*) FROM t", &["3"])]).await;
}

#[tokio::test]
async fn a_partition_keeps_its_deletes_to_itself_28() {
    let mut table = partitioned(REMOTE);
    let stored = Arc::new(stored_arrow(&table.schema).unwrap());
    for part in [1, 2] {
        let row = Row { id: i64::from(part), part, k: Some(7), f: None, s: None };
        table.add(&RecordBatch::try_new(Arc::clone(&stored), columns(&[row])).unwrap(), Some(part)).await;
    }
    let key = || (vec![column(K, "k", PrimitiveType::Int)], vec![Arc::new(Int32Array::from(vec![7])) as ArrayRef]);
    table.delete_equal(Scope::Partition(1), 2, &[K], key()).await;
    answers(
        &table,
        &[
            ("SELECT id FROM t", &["2"]),
            ("SELECT id FROM t WHERE part = 1", &[]),
            ("SELECT id FROM t WHERE part = 2", &["2"]),
        ],
    )
    .await;
    let context = table.session(table.view().await, 1);
    let ledger = table.query(&context, "SELECT id FROM t WHERE part = 2").await.report.unwrap().ledger;
    assert_eq!(ledger.delete_files.to_string(), "0/1 (manifest 1)");
    table.delete_equal(Scope::Everywhere, 2, &[K], key()).await;
    answers(&table, &[("SELECT id FROM t", &[])]).await;
}

#[tokio::test]
async fn keys_are_found_by_id_29() {
    let old = || {
        vec![
            column(1, "id", PrimitiveType::Int),
            column(2, "name", PrimitiveType::String),
            column(3, "gone", PrimitiveType::Long),
        ]
    };
    let ints = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
    let columns =
        || vec![ints(vec![1, 2, 3, 4]), texts(&[Some("a"), Some("b"), None, Some("d")]), longs([10, 20, 30, 40])];
    let new = || {
        vec![
            column(4, "level", PrimitiveType::Int).with_initial_default(Literal::int(5)),
            column(2, "id", PrimitiveType::String),
            column(1, "key", PrimitiveType::Long),
        ]
    };
    let evolved = async || {
        let mut table = one_file(old(), columns()).await;
        evolve(&mut table, new());
        add(&mut table, vec![ints(vec![6, 5]), texts(&[Some("e"), Some("f")]), longs([5, 6])]).await;
        table
    };
    let shown = "SELECT id FROM t";

    // Keys that are renamed, widened, and not projected, in a file with columns of no interest.
    let mut table = evolved().await;
    let extra = vec![
        column(2, "name", PrimitiveType::String),
        column(1, "id", PrimitiveType::Int),
        column(77, "x", PrimitiveType::Int),
    ];
    table
        .delete_equal(Scope::Table, 3, &[1], (extra, vec![texts(&[None, None]), ints(vec![2, 6]), ints(vec![0, 0])]))
        .await;
    answers(&table, &[(shown, &["a", "d", "e", "∅"]), ("SELECT count(*) FROM t WHERE key > 1", &["3"])]).await;

    // A key that older files don't have: its default there.
    let mut table = evolved().await;
    table
        .delete_equal(Scope::Table, 3, &[4], (vec![column(4, "level", PrimitiveType::Int)], vec![ints(vec![5])]))
        .await;
    answers(&table, &[(shown, &["e"]), ("SELECT level FROM t", &["6"])]).await;

    // Two keys.
    let mut table = evolved().await;
    let pair = vec![column(1, "key", PrimitiveType::Long), column(2, "id", PrimitiveType::String)];
    table
        .delete_equal(Scope::Table, 3, &[2, 1], (pair, vec![longs([1, 3, 4]), texts(&[Some("a"), None, Some("x")])]))
        .await;
    answers(&table, &[(shown, &["b", "d", "e", "f"])]).await;

    // A column that a delete file claims to compare and doesn't have.
    let mut table = evolved().await;
    table
        .delete_equal(Scope::Table, 3, &[2], (vec![column(9, "id", PrimitiveType::String)], vec![texts(&[None])]))
        .await;
    let error = error(&table).await;
    assert_eq!(error.code(), Code::DeleteFileCorrupt, "{error}");
}

#[tokio::test]
async fn a_dropped_column_is_still_compared() {
    let id = || column(1, "id", PrimitiveType::Long);
    let code = || column(2, "code", PrimitiveType::Long);
    let codes: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), Some(20), None]));
    let mut table = one_file(vec![id(), code()], vec![longs([1, 2, 3]), codes]).await;
    table.older = Some(Arc::clone(&table.schema));
    // Another column has its name since.
    evolve(&mut table, vec![id(), column(3, "code", PrimitiveType::String)]);
    add(&mut table, vec![longs([4]), texts(&[Some("x")])]).await;
    table.delete_equal(Scope::Table, 2, &[2], (vec![code()], vec![longs([20])])).await;
    answers(
        &table,
        &[("SELECT * FROM t", &["1|∅", "3|∅", "4|x"]), ("SELECT id FROM t WHERE code IS NULL", &["1", "3"])],
    )
    .await;
    table.delete_equal(Scope::Table, 2, &[1, 2], (vec![code(), id()], vec![longs([10, 10]), longs([1, 3])])).await;
    answers(&table, &[("SELECT id FROM t", &["3", "4"])]).await;
}

#[tokio::test]
async fn a_key_may_stand_in_a_struct() {
    let place = || {
        let fields = vec![column(3, "city", PrimitiveType::String), column(4, "zip", PrimitiveType::Long)];
        NestedField::optional(2, "place", Type::Struct(StructType::new(fields.into_iter().map(Arc::new).collect())))
    };
    let fields = || vec![column(1, "id", PrimitiveType::Long), place()];
    let probe = Table::new(REMOTE, fields(), None);
    let stored = stored_arrow(&probe.schema).unwrap();
    let arrow::datatypes::DataType::Struct(children) = stored.field(1).data_type() else { panic!("a struct") };
    let places = |valid: Vec<bool>, zips: Vec<i64>| {
        let cities = texts(&vec![Some("x"); zips.len()]);
        let columns = vec![cities, longs(zips)];
        Arc::new(arrow::array::StructArray::new(children.clone(), columns, Some(valid.into()))) as ArrayRef
    };
    let mut table = one_file(fields(), vec![longs([1, 2, 3]), places(vec![true, true, false], vec![7, 8, 9])]).await;
    table.delete_equal(Scope::Table, 2, &[4], (vec![place()], vec![places(vec![true], vec![8])])).await;
    answers(&table, &[("SELECT id FROM t", &["1", "3"])]).await;
    // 9 stands behind a null, and so is one.
    table.delete_equal(Scope::Table, 2, &[4], (vec![place()], vec![places(vec![true, false], vec![9, 0])])).await;
    answers(&table, &[("SELECT id FROM t", &["1"])]).await;
}

async fn numbers(files: i64, rows: i64) -> Table {
    let mut table =
        Table::new(REMOTE, vec![column(1, "n", PrimitiveType::Long), column(2, "s", PrimitiveType::String)], None);
    for file in 0..files {
        let numbers = file * rows..(file + 1) * rows;
        let text: Vec<String> = numbers.clone().map(text).collect();
        add(&mut table, vec![longs(numbers), Arc::new(StringArray::from(text))]).await;
    }
    table
}

#[tokio::test]
async fn a_delete_behind_a_pruned_row_group_30() {
    let mut table = numbers(1, 400).await;
    table.delete_positions(Scope::Table, 1, &[(0, 250), (0, 3)]).await;
    answers(
        &table,
        &[
            ("SELECT count(*), min(n) FROM t WHERE n >= 200", &["199|200"]),
            ("SELECT s FROM t WHERE n BETWEEN 249 AND 251", &[text(249).as_str(), text(251).as_str()]),
            ("SELECT n FROM t WHERE s = '3'", &[]),
            ("SELECT count(*) FROM t", &["398"]),
            ("SELECT n FROM t WHERE n < 5 ORDER BY n LIMIT 4", &["0", "1", "2", "4"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_holds_no_live_row_is_not_read() {
    let mut table = numbers(1, 600).await;
    // Two pages of the first row group, and all of the second.
    let rows: Vec<(usize, i64)> = (40..120).chain(200..400).map(|position| (0, position)).collect();
    table.delete_positions(Scope::Table, 2, &rows).await;
    let context = table.session(table.view().await, 1);
    let answer = table.query(&context, "SELECT n FROM t").await;
    check(&answer, &table);
    let ledger = answer.report.unwrap().ledger;
    assert_eq!(ledger.row_groups.to_string(), "2/3 (deleted 1)");
    assert_eq!(ledger.pages.to_string(), "8/10 (deleted 2)");
    assert_eq!(ledger.rows.to_string(), "320/400 (deleted 80)");
    let answer = table.query(&context, "SELECT s FROM t WHERE n BETWEEN 100 AND 450").await;
    check(&answer, &table);
    assert_eq!(lines(&answer.batches).len(), 80 + 51);
}

#[tokio::test]
async fn vectors_share_a_file_and_replace_position_deletes_31() {
    let mut table = numbers(3, 10).await;
    table.delete_positions(Scope::Table, 1, &[(0, 0), (1, 0), (2, 0)]).await;
    table.delete_vectors(Scope::Table, 2, &[(0, vec![1, 2]), (2, (0..10).collect())], None).await;
    answers(&table, &[("SELECT count(*), sum(n) FROM t", &["17|177"]), ("SELECT n FROM t WHERE n < 3", &["0"])]).await;
    let context = table.session(table.view().await, 2);
    let ledger = table.query(&context, "SELECT n FROM t").await.report.unwrap().ledger;
    assert_eq!(ledger.files.to_string(), "2/3 (deleted 1)", "nothing of the third is left");
    assert_eq!(ledger.delete_files.to_string(), "2/3 (metadata 1)");
    assert_eq!(skipped(&ledger.rows, Reason::Deleted), 3);

    // Only vectors: metadata counts.
    let mut table = numbers(3, 10).await;
    table.delete_vectors(Scope::Table, 2, &[(0, vec![1, 2]), (2, vec![4])], None).await;
    let context = table.session(table.view().await, 2);
    let answer = table.query(&context, "SELECT count(*) FROM t").await;
    assert_eq!((lines(&answer.batches), answer.counted.0), (vec!["27".to_owned()], 3), "list and two manifests");
    let answer = table.query(&context, "SELECT count(*) FROM t WHERE n >= 0").await;
    assert_eq!((lines(&answer.batches), answer.counted.0), (vec!["27".to_owned()], 0));
    let ledger = answer.report.unwrap().ledger;
    assert_eq!(ledger.delete_files.to_string(), "0/2 (metadata 2)");
}

#[tokio::test]
async fn a_vector_that_is_not_what_its_manifest_says_31() {
    let vector = async |positions: Vec<u64>, cardinality| {
        let mut table = numbers(1, 10).await;
        table.delete_vectors(Scope::Table, 2, &[(0, positions)], cardinality).await;
        table
    };
    let mut tables = vec![
        (vector(vec![1, 2], Some(1)).await, "it deletes 2 rows and its manifest counts 1"),
        (vector(vec![1, 12], None).await, "deletes a row that its data file does not have"),
        (vector(vec![1], Some(11)).await, "deletes more rows than its data file has"),
    ];
    let changed = async |change: fn(&mut iceberg::spec::DataFileBuilder)| {
        let mut table = vector(vec![1], None).await;
        table.deletes[0].0 = crate::metadata::rebuild(&table.deletes[0].0, change).unwrap();
        table
    };
    tables.push((changed(|file| _ = file.referenced_data_file(None)).await, "does not say which data file"));
    tables.push((changed(|file| _ = file.content_offset(None)).await, "does not say where"));
    tables.push((changed(|file| _ = file.content_size_in_bytes(Some(1 << 40))).await, "beyond the end"));
    tables.push((changed(|file| _ = file.content_offset(Some(0))).await, "cannot be read"));
    let mut twice = vector(vec![1], None).await;
    twice.delete_vectors(Scope::Table, 3, &[(0, vec![2])], None).await;
    tables.push((twice, "two deletion vectors"));
    for (table, what) in tables {
        let error = error(&table).await;
        assert_eq!(error.code(), Code::DeleteFileCorrupt, "{error}");
        assert!(error.to_string().contains(what) && error.to_string().contains(".puffin"), "{error}");
    }
}

#[tokio::test]
async fn a_limit_counts_live_rows_32() {
    let mut table = numbers(1, 5).await;
    let keys = (vec![column(1, "n", PrimitiveType::Long)], vec![longs([0, 1, 3])]);
    table.delete_equal(Scope::Table, 2, &[1], keys).await;
    answers(&table, &[("SELECT n FROM t LIMIT 2", &["2", "4"]), ("SELECT n FROM t WHERE n > 0 LIMIT 2", &["2", "4"])])
        .await;
}

#[tokio::test]
async fn a_missing_or_damaged_delete_file_is_an_error() {
    for kind in ["positions", "equality", "vector"] {
        for damage in ["gone", "cut", "zeros"] {
            let mut table = numbers(1, 10).await;
            match kind {
                "positions" => table.delete_positions(Scope::Table, 2, &[(0, 1)]).await,
                "vector" => table.delete_vectors(Scope::Table, 2, &[(0, vec![1])], None).await,
                _ => {
                    let keys = (vec![column(1, "n", PrimitiveType::Long)], vec![longs([3])]);
                    table.delete_equal(Scope::Table, 2, &[1], keys).await;
                }
            }
            let file = &table.deletes[0].0;
            let located = table.stores.resolve(file.file_path()).unwrap();
            let size = file.file_size_in_bytes() as usize;
            match damage {
                "gone" => object_store::ObjectStoreExt::delete(located.store.as_ref(), &located.path).await.unwrap(),
                "cut" => table.put(file.file_path(), vec![0; size / 2]).await,
                _ => table.put(file.file_path(), vec![0; size]).await,
            }
            let error = error(&table).await;
            assert_eq!(error.code(), Code::DeleteFileCorrupt, "{kind} {damage}: {error}");
            assert!(error.to_string().contains(file.file_path()), "{error}");
        }
    }
}

#[tokio::test]
async fn delete_files_are_read_once_and_only_where_they_can_apply() {
    let mut table = numbers(4, 300).await;
    table.sequences = vec![1, 1, 1, 5];
    let key = |n: i64| (vec![column(1, "n", PrimitiveType::Long)], vec![longs([n])]);
    table.delete_positions(Scope::Table, 2, &[(0, 5), (1, 6), (2, 7)]).await;
    table.delete_equal(Scope::Table, 2, &[1], key(301)).await;
    table.delete_equal(Scope::Table, 2, &[1], key(5_000)).await;
    table.delete_equal(Scope::Table, 5, &[1], key(1_000)).await;
    let context = table.session(table.view().await, 3);
    let answer = table.query(&context, "SELECT count(n), sum(n) FROM t").await;
    let gone = 5 + 306 + 607 + 301;
    assert_eq!(lines(&answer.batches), [format!("1196|{}", 1199 * 600 - gone)]);
    check(&answer, &table);
    let ledger = answer.report.unwrap().ledger;
    assert_eq!(ledger.delete_files.to_string(), "2/4 (column_bounds 2)");
    // Manifest list, three manifests, four data files, and two delete files, each read whole.
    assert_eq!(ledger.requests, 1 + 3 + 4 + 2);
    let warm = table.query(&context, "SELECT count(n), sum(n) FROM t").await;
    let ledger = warm.report.unwrap().ledger;
    assert_eq!(ledger.requests, 8, "two row groups of each data file: deletes are remembered");

    let answer = table.query(&context, "SELECT s FROM t WHERE n >= 950").await;
    assert_eq!(answer.report.unwrap().ledger.delete_files.to_string(), "0/4 (manifest 3, sequence_number 1)");
    let text = lines(&table.query(&context, "EXPLAIN SELECT s FROM t").await.batches).join("\n");
    assert!(text.contains("delete_files=2/4 (column_bounds 2)"), "{text}");
}

#[tokio::test]
async fn deletes_count_against_the_memory_limit() {
    let mut table = numbers(1, 10_000).await;
    let keys = (vec![column(1, "n", PrimitiveType::Long)], vec![longs(0..9_000)]);
    table.delete_equal(Scope::Table, 2, &[1], keys).await;
    let runtime = datafusion::execution::runtime_env::RuntimeEnvBuilder::new()
        .with_object_store_registry(table.stores.registry())
        .with_memory_limit(200_000, 1.0)
        .build_arc()
        .unwrap();
    let view = table.view().await;
    let context = SessionContext::new_with_config_rt(Default::default(), runtime);
    let provider = crate::table::IcebergTable::new(view, crate::table::Access::ReadOnly("a test reads only"));
    context.register_table("t", Arc::new(provider)).unwrap();
    let result = async { context.sql("SELECT n FROM t").await?.collect().await }.await;
    assert_eq!(crate::Error::from(result.unwrap_err()).code(), Code::MemoryLimit);
}
