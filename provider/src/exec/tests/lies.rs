//! Files and manifests that say of themselves what isn't so: counts that no number holds, ranges that end before they begin,
//! lengths of what isn't there.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use datafusion::common::stats::Precision;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use iceberg::spec::{Datum, FormatVersion, PrimitiveType};
use parquet::basic::Type as Physical;
use parquet::file::metadata::{
    ColumnIndexBuilder, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::TrackedWrite;

use super::fixture::{LOCAL, REMOTE, Table, column};
use super::lines;
use crate::exec::deletes::DeleteFiles;
use crate::exec::footer::Footers;
use crate::exec::names::Naming;
use crate::scan::{Deletes, Request, Task, plan};
use crate::{Code, Error};

/// A file of 450 numbers, from 0: three row groups, twelve pages.
async fn numbers(root: &'static str) -> Table {
    let mut table = Table::new(root, vec![column(1, "n", PrimitiveType::Long)], None);
    table.properties = |properties| properties.set_dictionary_enabled(false);
    add(&mut table).await;
    table
}

async fn add(table: &mut Table) {
    let stored = Arc::new(crate::schema::stored_arrow(&table.schema).unwrap());
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..450));
    table.add(&RecordBatch::try_new(stored, vec![rows]).unwrap(), None).await;
}

#[tokio::test]
async fn counts_and_sizes_beyond_64_bits_are_not_known() {
    let mut table = numbers(REMOTE).await;
    add(&mut table).await;
    add(&mut table).await;
    (table.version, table.together) = (FormatVersion::V2, 1);
    let most = i64::MAX as u64;
    for (file, rows) in [(0, most - 1), (1, most), (2, most)] {
        table.restate(file, |says| {
            says.record_count(rows).file_size_in_bytes(most).split_offsets(None);
            says.null_value_counts(HashMap::from([(1, rows - 1)])).column_sizes(HashMap::from([(1, most)]));
        });
    }
    let context = table.session(table.view().await, 1);
    for sql in ["SELECT n FROM t", "SELECT n FROM t LIMIT 9223372036854775807", "SELECT count(*), count(n) FROM t"] {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let scan = crate::exec::reports(&plan);
        assert_eq!(scan.len(), 1, "{sql}: more rows than can be counted are no answer from metadata");
    }
    let plan = context.sql("SELECT n FROM t").await.unwrap().create_physical_plan().await.unwrap();
    let statistics = plan.partition_statistics(None).unwrap();
    assert!(!matches!(statistics.num_rows, Precision::Exact(_)), "{statistics:?}");
    assert_eq!(statistics.column_statistics[0].null_count, Precision::Absent, "{statistics:?}");
}

#[tokio::test]
async fn rows_that_a_manifest_makes_up_count_against_the_memory_limit() {
    let mut table = numbers(REMOTE).await;
    table.version = FormatVersion::V2;
    table.restate(0, |says| {
        says.record_count(1 << 33);
    });
    let view = table.view().await;
    let request = Request { filters: &[], projection: None, limit: None, partitions: 1 };
    let planned = plan(&view, &request).await.unwrap();
    let mut task = Task::clone(&planned.tasks[0]);
    task.only_removed = Some(Deletes::default());
    let context = table.session(table.view().await, 1);
    let cache = context.runtime_env().cache_manager.get_file_metadata_cache();
    let footers = Footers::new(cache, Naming::of(&view.metadata));
    for (limit, fits) in [(1 << 20, false), (1 << 30, true)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        let deletes = DeleteFiles::new(&view, &planned, &pool).unwrap();
        let removal = deletes.of(&task, &footers, &Default::default()).await;
        assert_eq!(removal.map(drop).map_err(|error| error.code()), if fits { Ok(()) } else { Err(Code::MemoryLimit) });
    }
}

/// The file with another footer.
fn with_footer(bytes: &[u8], change: impl FnOnce(ParquetMetaData) -> ParquetMetaData) -> Vec<u8> {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = reader.parse_and_finish(&Bytes::copy_from_slice(bytes)).unwrap();
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let end = chunks.map(|chunk| chunk.byte_range()).map(|(start, length)| start + length).max().unwrap() as usize;
    let mut out = Vec::new();
    let mut tracked = TrackedWrite::new(&mut out);
    tracked.write_all(&bytes[..end]).unwrap();
    ParquetMetaDataWriter::new_with_tracked(tracked, &change(metadata)).finish().unwrap();
    out
}

fn inverted_groups(metadata: ParquetMetaData) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let chunks = group.take_columns().into_iter().map(|chunk| {
            let Some(Statistics::Int64(found)) = chunk.statistics().cloned() else { panic!("no statistics") };
            let (min, max) = (found.min_opt().copied(), found.max_opt().copied());
            assert!(min < max);
            chunk.into_builder().set_statistics(Statistics::int64(max, min, None, Some(0), false)).build().unwrap()
        });
        group.set_column_metadata(chunks.collect()).build().unwrap()
    });
    let groups = groups.collect();
    builder.set_row_groups(groups).build()
}

fn inverted_pages(metadata: ParquetMetaData) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let groups = builder.take_column_index().unwrap();
    let inverted = groups.iter().map(|columns| {
        let [ColumnIndexMetaData::INT64(pages)] = columns.as_slice() else { panic!("not one column of longs") };
        let mut made = ColumnIndexBuilder::new(Physical::INT64);
        for at in 0..pages.num_pages() as usize {
            let [min, max] = [pages.min_value(at), pages.max_value(at)].map(|v| v.unwrap().to_le_bytes().to_vec());
            assert_ne!(min, max);
            made.append(false, max, min, 0);
        }
        vec![made.build().unwrap()]
    });
    let inverted = inverted.collect();
    builder.set_column_index(Some(inverted)).build()
}

/// What every query finds that asks for one number or a few.
async fn finds_every_number(table: &Table, what: &str) {
    let context = table.session(table.view().await, 1);
    for n in [0, 1, 39, 40, 41, 199, 200, 270, 399, 400, 449] {
        let sql = format!("SELECT n FROM t WHERE n = {n}");
        assert_eq!(lines(&table.query(&context, &sql).await.batches), [n.to_string()], "{what}: {sql}");
    }
    let sql = "SELECT count(*) FROM t WHERE n >= 100 AND n < 110 OR n > 445";
    assert_eq!(lines(&table.query(&context, sql).await.batches), ["14"], "{what}: {sql}");
    let sql = "SELECT n FROM t WHERE n < 3 ORDER BY n DESC LIMIT 2";
    assert_eq!(lines(&table.query(&context, sql).await.batches), ["1", "2"], "{what}: {sql}");
}

#[tokio::test]
async fn ranges_that_end_before_they_begin_rule_nothing_out() {
    for root in [LOCAL, REMOTE] {
        let mut table = numbers(root).await;
        let sound = table.bytes(0).await;
        finds_every_number(&table, "sound").await;
        for (what, change) in [
            ("row groups", inverted_groups as fn(ParquetMetaData) -> ParquetMetaData),
            ("pages", inverted_pages),
            ("both", |metadata| inverted_pages(inverted_groups(metadata))),
        ] {
            table.replace(0, with_footer(&sound, change)).await;
            finds_every_number(&table, what).await;
        }
        table.restate(0, |says| {
            says.lower_bounds(HashMap::from([(1, Datum::long(449))]));
            says.upper_bounds(HashMap::from([(1, Datum::long(0))]));
        });
        finds_every_number(&table, "all and the manifest").await;
        table.replace(0, sound).await;
        finds_every_number(&table, "only the manifest").await;
    }
}

#[tokio::test]
async fn a_file_that_the_decoder_panics_at_is_corrupt() {
    let mut table = numbers(REMOTE).await;
    let sound = table.bytes(0).await;
    let mut found = false;
    // The header of the first page: one of these says that it needs a dictionary, of which there is none.
    for at in 4..40 {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        table.replace(0, damaged).await;
        let context = table.session(table.view().await, 1);
        let Err(error) = context.sql("SELECT sum(n) FROM t").await.unwrap().collect().await else { continue };
        let error = Error::from(error);
        assert_eq!(error.code(), Code::DataFileCorrupt, "{at}: {error}");
        let text = error.to_string();
        assert!(text.contains("data/0.parquet"), "{at}: {text}");
        found |= text.contains("the decoder failed at what the file says of itself");
    }
    assert!(found, "no damage makes the decoder panic any more: find another");
}
