//! The sink from rows to a committed snapshot, over a store and a catalog in memory.

mod failures;
mod fixture;
mod memory;

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use expect_test::expect;
use iceberg::spec::{DataFile, Transform};
use parquet::basic::LogicalType;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};

pub(super) use self::fixture::metadata_with;
use self::fixture::{DAY, Row, Table, messages};
use super::*;

/// Texts of a string column, null as `None`.
fn texts(batches: &[RecordBatch], column: &str) -> Vec<Option<String>> {
    batches
        .iter()
        .flat_map(|b| {
            b.column_by_name(column)
                .unwrap()
                .as_string::<i32>()
                .iter()
                .map(|v| v.map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Rows of `days` days from 2026-06-04, `per_day` each, in an order that mixes them.
fn shuffled(days: usize, per_day: usize) -> Vec<Row> {
    let n = days * per_day;
    // A step without a common factor visits every row once.
    let step = (n * 5 / 8 + 1..).find(|s| (2..=*s).all(|f| s % f != 0 || n % f != 0)).unwrap();
    (0..n)
        .map(|i| i * step % n)
        .map(|i| {
            let (day, k) = (i / per_day, i % per_day);
            Row {
                session: Some(format!("session-{:03}", k % 7)),
                conversation: (k % 3 != 0).then(|| format!("c{}", k % 2)),
                at: Some((20_608 + day as i64) * DAY + k as i64),
                text: format!("message {i}"),
                tokens: Some(i as i64),
                score: k as f64,
            }
        })
        .collect()
}

// @spec W2 W5 W6 L3
#[tokio::test]
async fn shuffled_days_become_one_sorted_file_each() {
    let table = Table::new(&[]);
    let rows = shuffled(58, 40);
    let report = table.insert(messages(&rows, 3)).await.unwrap();
    assert_eq!((report.rows, report.files, report.partitions), (58 * 40, 58, 58));
    assert_eq!(report.outcome, Outcome::Committed);

    let files = table.files().await;
    assert_eq!(files.len(), 58);
    let mut seen = 0;
    for file in &files {
        let batches = table.read(file).await;
        let (sessions, conversations) = (texts(&batches, "session_id"), texts(&batches, "conversation_id"));
        let keys: Vec<_> = sessions
            .iter()
            .zip(&conversations)
            .map(|(s, c)| (s.is_none(), s.clone(), c.is_none(), c.clone()))
            .collect();
        assert!(keys.is_sorted(), "{}: {keys:?}", file.file_path());
        assert_eq!(file.sort_order_id(), Some(1));
        seen += sessions.len();
    }
    assert_eq!(seen, rows.len());
    let bytes: u64 = files.iter().map(DataFile::file_size_in_bytes).sum();
    assert_eq!(report.bytes, bytes);
    assert_eq!(table.stored().await.iter().filter(|p| p.contains("/data/")).count(), 58);
}

#[tokio::test]
async fn a_file_is_what_the_manifest_says() {
    let table = Table::new(&[]);
    let mut rows = shuffled(1, 500);
    rows[3].score = f64::NAN;
    rows[4].tokens = None;
    table.insert(messages(&rows, 1)).await.unwrap();
    let [file] = table.files().await.try_into().unwrap();
    assert!(file.file_path().starts_with("memory://w/main/messages/data/message_created_at_day=2026-06-04/00000-"));

    let bytes = table.bytes(&file).await;
    assert_eq!(file.file_size_in_bytes(), bytes.len() as u64);
    let footer = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&bytes)
        .unwrap();
    assert_eq!(footer.file_metadata().num_rows() as u64, file.record_count());
    let columns = footer.file_metadata().schema_descr().columns();
    let names: Vec<_> = columns.iter().map(|c| (c.self_type().get_basic_info().id(), c.name().to_owned())).collect();
    let expected = ["session_id", "conversation_id", "message_created_at", "content_text", "input_tokens", "score"];
    assert_eq!(names, (1..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
    assert!(matches!(columns[2].logical_type_ref(), Some(LogicalType::Timestamp { is_adjusted_to_u_t_c: true, .. })));

    let group = footer.row_group(0);
    let sorted: Vec<_> =
        group.sorting_columns().unwrap().iter().map(|s| (s.column_idx, s.descending, s.nulls_first)).collect();
    assert_eq!(sorted, [(0, false, false), (1, false, false)]);
    let filters: Vec<bool> = group.columns().iter().map(|c| c.bloom_filter_offset().is_some()).collect();
    assert_eq!(filters, [true, true, false, false, false, false]);
    assert!(group.column(0).bloom_filter_length().is_some());
    assert!(group.columns().iter().all(|c| c.column_index_offset().is_some() && c.offset_index_offset().is_some()));
    assert_eq!(file.split_offsets(), Some(&[4][..]));

    assert_eq!(file.value_counts()[&4], 500);
    assert_eq!(file.null_value_counts()[&5], 1);
    assert_eq!(file.nan_value_counts(), &[(6, 1)].into());
    assert_eq!(file.lower_bounds()[&1].to_human_string(), "session-000");
    // `session-006` has more than 16 code points in no table, and lookup keys are kept longer anyway.
    assert_eq!(file.upper_bounds()[&1].to_human_string(), "session-006");
    assert_eq!(file.lower_bounds()[&3].to_bytes().unwrap(), (20_608 * DAY).to_le_bytes());
    assert_eq!(file.column_sizes().len(), 6);
    assert_eq!(file.column_sizes()[&4] as i64, group.column(3).compressed_size());
}

// @spec L8 W10
#[tokio::test]
async fn null_timestamps_and_days_before_1970() {
    let table = Table::new(&[]);
    let mut rows = shuffled(1, 3);
    rows[0].at = None;
    rows[1].at = Some(-DAY - 500_000);
    table.insert(messages(&rows, 1)).await.unwrap();
    let mut days: Vec<String> = table
        .files()
        .await
        .iter()
        .map(|f| f.file_path().split('/').rev().nth(1).unwrap().split('=').next_back().unwrap().to_owned())
        .collect();
    days.sort();
    assert_eq!(days, ["1969-12-30", "2026-06-04", "null"]);
    let null = table.files().await.into_iter().find(|f| f.file_path().contains("=null")).unwrap();
    assert!(null.partition().is_null_at_index(0));
    assert_eq!(null.null_value_counts()[&3], 1);
    assert!(!null.lower_bounds().contains_key(&3));
}

// @spec W10
#[tokio::test]
async fn partition_values_of_any_text() {
    let table = Table::partitioned_by(&[], "session_id", Transform::Identity);
    let long = "x".repeat(5000);
    let names = ["a/b", "../../etc", "50%", "🙂", "zero\0byte", "", " ", long.as_str(), ".", "null"];
    let mut rows = shuffled(1, names.len());
    for (row, name) in rows.iter_mut().zip(names) {
        row.session = Some(name.to_owned());
    }
    rows[0].session = None;
    table.insert(messages(&rows, 2)).await.unwrap();
    let files = table.files().await;
    assert_eq!(files.len(), names.len());
    let mut found = BTreeMap::new();
    for file in &files {
        assert_eq!(file.file_path().strip_prefix("memory://w/main/messages/data/").unwrap().split('/').count(), 2);
        let session = texts(&table.read(file).await, "session_id").pop().unwrap();
        let value = file.partition()[0].as_ref().map(|v| format!("{:?}", v.as_primitive_literal().unwrap()));
        assert_eq!(value, session.as_ref().map(|s| format!("String({s:?})")));
        found.insert(session, file.file_path().to_owned());
    }
    assert_eq!(found.len(), names.len());
    let paths: std::collections::BTreeSet<_> = found.values().collect();
    assert_eq!(paths.len(), names.len());
}

// @spec W2 W10
#[tokio::test]
async fn many_days_are_one_file_each() {
    let table = Table::new(&[("write.parquet.bloom-filter-enabled.column.session_id", "false")]);
    let report = table.insert(messages(&shuffled(1500, 1), 4)).await.unwrap();
    assert_eq!((report.rows, report.files), (1500, 1500));
}

// @spec W4
#[tokio::test]
async fn files_roll_at_their_target_size() {
    let target = 64 << 10;
    let table = Table::new(&[
        ("write.target-file-size-bytes", "65536"),
        ("write.parquet.compression-codec", "uncompressed"),
        ("write.parquet.bloom-filter-enabled.column.session_id", "false"),
        ("write.parquet.bloom-filter-enabled.column.conversation_id", "false"),
    ]);
    let mut rows = shuffled(1, 2000);
    for row in &mut rows {
        row.text = format!("{:0>200}", row.tokens.unwrap());
    }
    let report = table.insert(messages(&rows, 2)).await.unwrap();
    let files = table.files().await;
    assert!((5..=12).contains(&files.len()), "{} files", files.len());
    assert_eq!(report.partitions, 1);
    let small = files.iter().filter(|f| f.file_size_in_bytes() < target).count();
    assert!(small <= 1, "{:?}", files.iter().map(DataFile::file_size_in_bytes).collect::<Vec<_>>());
    assert!(files.iter().all(|f| f.file_size_in_bytes() < target * 3 / 2));
    // One order runs through all of them.
    let mut all = Vec::new();
    for file in &files {
        all.extend(texts(&table.read(file).await, "session_id"));
    }
    assert_eq!(all.len(), 2000);
    assert!(all.is_sorted());
}

#[tokio::test]
async fn row_groups_end_at_their_bytes() {
    let table = Table::new(&[
        ("write.parquet.row-group-size-bytes", "50000"),
        ("write.parquet.compression-codec", "uncompressed"),
    ]);
    let mut rows = shuffled(1, 2000);
    for row in &mut rows {
        row.text = format!("{:0>200}", row.tokens.unwrap());
    }
    table.insert(messages(&rows, 1)).await.unwrap();
    let [file] = table.files().await.try_into().unwrap();
    let footer = ParquetMetaDataReader::new().parse_and_finish(&table.bytes(&file).await).unwrap();
    assert!((7..=14).contains(&footer.num_row_groups()), "{}", footer.num_row_groups());
    let offsets: Vec<i64> = footer.row_groups().iter().map(|g| g.columns()[0].byte_range().0 as i64).collect();
    assert_eq!(file.split_offsets(), Some(offsets.as_slice()));
}

// @spec W10
#[tokio::test]
async fn one_row_and_none() {
    let table = Table::new(&[]);
    let report = table.insert(messages(&[], 2)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Empty);
    assert_eq!(table.stored().await, Vec::<String>::new());
    let report = table.insert(messages(&shuffled(1, 1), 2)).await.unwrap();
    assert_eq!((report.rows, report.files), (1, 1));
    let mut rows = shuffled(1, 5);
    for row in &mut rows {
        (row.session, row.conversation, row.tokens) = (None, None, None);
    }
    table.insert(messages(&rows, 1)).await.unwrap();
    assert_eq!(table.files().await.len(), 2);
    let nulls = table.files().await.into_iter().find(|f| f.record_count() == 5).unwrap();
    assert_eq!(nulls.null_value_counts()[&1], 5);
    assert!(!nulls.upper_bounds().contains_key(&1));
}

// @spec W7
#[tokio::test]
async fn a_batch_is_written_once() {
    let table = Table::new(&[]);
    let rows = messages(&shuffled(3, 10), 1);
    assert_eq!(table.insert_batch(rows.clone(), "monday").await.unwrap().outcome, Outcome::Committed);
    let before = table.stored().await;
    let report = table.insert_batch(rows.clone(), "monday").await.unwrap();
    assert_eq!((report.outcome, report.rows), (Outcome::Skipped, 0));
    assert_eq!(table.stored().await, before);
    assert_eq!(table.insert_batch(rows, "tuesday").await.unwrap().rows, 30);
}

#[tokio::test]
async fn without_distribution_each_task_writes_its_rows() {
    let table = Table::new(&[("write.distribution-mode", "none")]);
    let report = table.insert(messages(&shuffled(4, 30), 3)).await.unwrap();
    assert_eq!((report.rows, report.files, report.partitions), (120, 12, 4));
}

#[tokio::test]
async fn an_unpartitioned_table_gets_one_file() {
    let table = Table::partitioned_by(&[], "session_id", Transform::Void);
    let report = table.insert(messages(&shuffled(4, 30), 3)).await.unwrap();
    assert_eq!((report.rows, report.files), (120, 1));
}

#[tokio::test]
async fn properties_reach_the_file() {
    let table = Table::new(&[
        ("write.parquet.compression-codec", "gzip"),
        ("write.parquet.bloom-filter-enabled.column.session_id", "false"),
        ("write.parquet.bloom-filter-enabled.column.input_tokens", "true"),
        ("write.metadata.metrics.default", "none"),
        ("write.metadata.metrics.column.content_text", "truncate(4)"),
        ("write.data.path", "memory://elsewhere/d"),
    ]);
    table.insert(messages(&shuffled(1, 10), 1)).await.unwrap();
    let [file] = table.files().await.try_into().unwrap();
    assert!(
        file.file_path().starts_with("memory://elsewhere/d/message_created_at_day=2026-06-04/"),
        "{}",
        file.file_path()
    );
    let footer = ParquetMetaDataReader::new().parse_and_finish(&table.bytes(&file).await).unwrap();
    let group = footer.row_group(0);
    assert!(group.columns().iter().all(|c| matches!(c.compression(), parquet::basic::Compression::GZIP(_))));
    let filters: Vec<bool> = group.columns().iter().map(|c| c.bloom_filter_offset().is_some()).collect();
    assert_eq!(filters, [false, true, false, false, true, false]);
    assert_eq!(file.upper_bounds()[&4].to_human_string(), "mest");
    assert!(!file.value_counts().contains_key(&5) && !file.lower_bounds().contains_key(&5));
    // Bounds that decide which files are opened are kept whatever the default is.
    assert!(file.lower_bounds().contains_key(&1) && file.lower_bounds().contains_key(&3));
}

// @spec W1
#[tokio::test]
async fn the_stages_are_in_explain() {
    let table = Table::new(&[]);
    let plan = table.explain(messages(&shuffled(2, 2), 3)).await;
    expect![[r#"
        CommitExec: table=main.messages, operation=append, creates=true
          CoalescePartitionsExec
            WriteFilesExec: format=parquet, codec=zstd(3), target_bytes=536870912, location=memory://w/main/messages/data
              ExternalSortExec: partition=[message_created_at_day], order=[session_id@0 ASC NULLS LAST, conversation_id@1 ASC NULLS LAST]
                DistributeExec: mode=hash, by=[message_created_at_day], tasks=2
                  PartitionValuesExec: [day(message_created_at)]
                    ConformExec: table=main.messages, columns=6
                      DataSourceExec: partitions=3, partition_sizes=[2, 1, 1]
    "#]]
    .assert_eq(&plan);
}

#[tokio::test]
async fn one_partition_needs_no_distribution() {
    let table = Table::new(&[]).with_tasks(1);
    let plan = table.explain(messages(&shuffled(2, 2), 3)).await;
    assert!(!plan.contains("DistributeExec") && plan.matches("CoalescePartitionsExec").count() == 1, "{plan}");
    assert_eq!(table.insert(messages(&shuffled(2, 2), 3)).await.unwrap().files, 2);
}

#[tokio::test]
async fn progress_counts_what_is_done() {
    use std::sync::atomic::Ordering::Relaxed;
    let table = Table::new(&[]);
    let report = table.insert(messages(&shuffled(5, 10), 2)).await.unwrap();
    let p = &table.progress;
    assert_eq!((p.rows_in.load(Relaxed), p.rows_written.load(Relaxed), p.files_written.load(Relaxed)), (50, 50, 5));
    assert_eq!(p.bytes_written.load(Relaxed), report.bytes);
    let sum: i64 = {
        let mut sum = 0;
        for file in table.files().await {
            for batch in table.read(&file).await {
                sum += batch.column(4).as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
            }
        }
        sum
    };
    assert_eq!(sum, (0..50).sum::<i64>());
}
