//! Real event data.

use super::*;

/// The folder of real event data; without it these tests say so and pass.
fn shared(name: &str) -> Option<String> {
    match std::env::var("DAYGRAIN_SHARED") {
        Ok(root) => Some(Path::new(&root).join("data").join(name).display().to_string()),
        Err(_) => {
            println!("SKIPPED: DAYGRAIN_SHARED does not name the folder of real event data");
            None
        }
    }
}

fn read_shared(name: &str, timestamp: &str) -> Option<(Opened, Vec<RecordBatch>)> {
    let path = shared(name)?;
    let options = Options { primary_timestamp: Some(timestamp.into()), partitions: 2, ..Options::default() };
    let opened = run(open(&[path], &options, &Arc::default())).unwrap();
    let batches = run(collect(Arc::clone(&opened.plan), Arc::default())).unwrap();
    Some((opened, batches))
}

fn nulls(batches: &[RecordBatch], column: &str) -> usize {
    batches.iter().map(|batch| batch[column].null_count()).sum()
}

#[test]
fn real_transcripts() {
    let Some((opened, batches)) = read_shared("agent-messages.ndjson", "timestamp") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 59);
    assert_eq!(nulls(&batches, "timestamp"), 2);
    assert_eq!(
        opened.json_paths,
        [
            "message.content",
            "message.context_management.applied_edits",
            "snapshot.trackedFileBackups",
            "content",
            "toolUseResult",
            "thinkingMetadata.triggers"
        ]
    );
    assert!(opened.schema.field_with_name("timestamp").unwrap().data_type().is_temporal());
    let (_, message) = opened.schema.column_with_name("message").unwrap();
    assert!(!message.data_type().to_string().contains("stop_sequence"), "a field that is only ever null");
    let usage = batches[0]["message"].as_struct()["usage"].as_struct()["input_tokens"].as_primitive::<Int64Type>();
    assert_eq!(usage.value(0), 4);
}

#[test]
fn real_flights() {
    let Some((opened, batches)) = read_shared("flights.parquet", "scheduled_at") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 336_776);
    assert!(nulls(&batches, "tailnum") > 0 && nulls(&batches, "carrier") == 0);
    assert!(opened.json_paths.is_empty());
}

#[test]
fn real_weather() {
    let Some((opened, batches)) = read_shared("weather.csv.gz", "time_hour") else { return };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 26_115);
    let types = |name: &str| opened.schema.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(types("time_hour"), DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    assert_eq!((types("year"), types("temp"), types("origin")), (DataType::Int64, DataType::Float64, DataType::Utf8));
    assert_eq!((nulls(&batches, "wind_gust"), nulls(&batches, "time_hour")), (20_778, 0));
}
