//! How does the plan divide files, and how does it end?

use super::*;

#[test]
fn large_plain_files_are_split_and_lines_keep_their_numbers() {
    let long = "x".repeat(1 << 20);
    let row = |i: usize, n: &str| format!("{{\"i\":{i},\"n\":{n},\"t\":\"{long}\"}}\n");
    let rows: String = (0..40).map(|i| row(i, "1")).collect();
    let mut files = Files::ndjson(&rows);
    files.add(
        "b.csv",
        format!("i,t\n{}", (40..80).map(|i| format!("{i},\"{long}\n\"\n")).collect::<String>()).as_bytes(),
    );
    files.options.partitions = 3;
    let (opened, batches) = files.read().unwrap();
    assert_eq!(opened.plan.output_partitioning().partition_count(), 3);
    let mut found: Vec<i64> =
        batches.iter().flat_map(|b| b["i"].as_primitive::<Int64Type>().values().to_vec()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..80).collect::<Vec<_>>());
    let plan = displayable(opened.plan.as_ref()).indent(true).to_string();
    assert_eq!(plan, format!("InputExec: files=2, formats=[csv, ndjson], bytes={}\n", opened.bytes));

    let text = |n: &str| (0..40).map(|i| row(i, if i == 35 { n } else { "1" })).collect::<String>();
    let files = Files::ndjson(&text("\"1\"")).table(vec![Field::new("n", DataType::Int64, true)]);
    let error = ours(run(collect(files.open().unwrap().plan, Arc::default())).unwrap_err());
    assert!(error.to_string().contains("line: 36"), "{error}");
}

#[test]
fn a_dropped_stream_ends_its_thread() {
    let files = Files::ndjson(&"{\"a\":1}\n".repeat(100_000));
    let opened = files.open().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut stream = opened.plan.execute(0, Arc::default()).unwrap();
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    });
    // Waits for blocking threads: comes back only if the reader notices.
    drop(runtime);
    assert!(opened.bytes_read.load(Ordering::Relaxed) < opened.bytes);
}

#[test]
fn row_counts_do_not_depend_on_the_number_of_partitions() {
    for partitions in [0, 1, 2, 7] {
        let mut files = Files::new(&[]);
        for i in 0..5 {
            files.add(&format!("{i}.jsonl.gz"), &gzip("{\"a\":1}\n".repeat(i * 10).as_bytes()));
        }
        files.options.partitions = partitions;
        let (opened, batches) = files.read().unwrap();
        assert_eq!(opened.plan.output_partitioning().partition_count(), partitions.clamp(1, 5));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
    }
}
