//! Parquet and Arrow, whole and cut.

use super::*;

fn parquet_bytes(batches: &[RecordBatch], group_rows: usize) -> Vec<u8> {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_dictionary_enabled(false)
        .build();
    let mut out = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut out, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    out
}

fn arrow_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn sample(rows: std::ops::Range<i64>) -> RecordBatch {
    let names: Vec<String> = rows.clone().map(|i| format!("name {i}")).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    batch(vec![("id", ids), ("name", Arc::new(StringArray::from(names)))])
}

#[test]
fn columnar_files_are_read_whole_in_every_wrapping() {
    let batches = [sample(0..700), sample(700..1000)];
    let formats = [
        ("a.parquet", parquet_bytes(&batches, 100)),
        ("a.arrow", arrow_file(&batches)),
        ("a.arrow", arrow_stream(&batches)),
    ];
    for (name, bytes) in formats {
        for (suffix, content) in [("", bytes.clone()), (".gz", gzip(&bytes)), (".zst", zstd(&bytes))] {
            let mut files = Files::new(&[]);
            files.add(&format!("{name}{suffix}"), &content);
            files.options.batch_size = 64;
            let (opened, read) = files.read().unwrap();
            assert_eq!(opened.schema, batches[0].schema(), "{name}{suffix}");
            assert!(read.iter().all(|batch| batch.num_rows() <= 64));
            assert_eq!(lines(&read), lines(&batches), "{name}{suffix}");
        }
    }
}

#[test]
fn cut_columnar_files_are_refused() {
    let batches = [sample(0..1000)];
    for (name, bytes) in [
        ("a.parquet", parquet_bytes(&batches, 1000)),
        ("a.arrow", arrow_file(&batches)),
        ("a.arrow", arrow_stream(&batches)),
        ("a.parquet", Vec::new()),
        ("a.arrow", Vec::new()),
    ] {
        let files = Files::new(&[]);
        files.add(name, &bytes[..bytes.len() * 2 / 3]);
        let error = files.read().unwrap_err();
        assert_eq!(error.code(), Code::InputCorrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn columnar_files_with_other_columns_go_together() {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let words: DictionaryArray<Int32Type> = vec!["x", "y"].into_iter().collect();
    let inner = |name: &str| -> ArrayRef {
        let field = Arc::new(Field::new(name, DataType::Int64, false));
        Arc::new(arrow::array::StructArray::from(vec![(field, Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef)]))
    };
    let files = Files::new(&[("c.csv", "n,extra\n9007199254740993,x\n")]);
    files.add("a.parquet", &parquet_bytes(&[batch(vec![("n", ints), ("s", inner("p"))])], 10));
    let other = batch(vec![("w", Arc::new(words)), ("s", inner("q")), ("n", Arc::new(Int64Array::from(vec![3, 4])))]);
    files.add("b.arrow", &arrow_file(&[other]));
    files.check(expect![[r#"
        n: Int64
        extra: Utf8
        s: Struct("p": Int64, "q": Int64)
        w: Utf8
        {"n":1,"s":{"p":7}}
        {"n":2,"s":{"p":8}}
        {"n":3,"s":{"q":7},"w":"x"}
        {"n":4,"s":{"q":8},"w":"y"}
        {"n":9007199254740993,"extra":"x"}
    "#]]);
    let clashing = Files::new(&[("c.csv", "id\nx\n")]);
    clashing.add("a.parquet", &parquet_bytes(&[sample(0..3)], 10));
    let error = clashing.open().unwrap_err();
    assert_eq!(error.code(), Code::IcebergSchemaIncompatible);
    assert!(error.to_string().contains("path: id") && error.to_string().contains("a.parquet"), "{error}");
}

#[test]
fn columnar_texts_become_the_primary_timestamp() {
    let texts = |values: Vec<Option<&str>>| batch(vec![("ts", Arc::new(StringArray::from(values)) as ArrayRef)]);
    let rows = texts(vec![Some("2026-06-04T12:00Z"), None, Some("1969-12-31T23:59:59.5Z")]);
    for (name, bytes) in
        [("a.parquet", parquet_bytes(std::slice::from_ref(&rows), 2)), ("a.arrow", arrow_stream(&[rows]))]
    {
        let files = Files::new(&[]);
        files.add(name, &bytes);
        files.timestamp("ts").check(expect![[r#"
            ts: Timestamp(µs, "+00:00")
            {"ts":"2026-06-04T12:00:00Z"}
            {}
            {"ts":"1969-12-31T23:59:59.500Z"}
        "#]]);
    }
    let files = Files::new(&[]);
    files.add("a.parquet", &parquet_bytes(&[texts(vec![None, Some("2026-06-04"), Some("soon")])], 2));
    files.timestamp("ts").check(expect![[r#"
        error[input_value_invalid]: a value of the primary timestamp is not a timestamp
          path: ts
          value: soon
          reason: not an ISO 8601 timestamp
          row: 3
          file: a.parquet
          help: timestamps are ISO 8601 / RFC 3339 like 2026-06-04T12:30:15.123456Z
    "#]]);
}

#[test]
fn columnar_types_stay_but_for_numbers_that_the_table_has_wider() {
    let files = Files::new(&[]);
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("m", Arc::new(Int32Array::from(vec![5]))),
        ("n", nanos),
        ("b", Arc::new(BinaryArray::from(vec![&b"x"[..]]))),
        ("text", Arc::new(Int32Array::from(vec![5]))),
    ];
    files.add("a.parquet", &parquet_bytes(&[batch(columns)], 10));
    let files = files.table(vec![Field::new("m", DataType::Int64, true), Field::new("text", DataType::Utf8View, true)]);
    let schema = files.open().unwrap().schema;
    let types: Vec<String> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Timestamp(ns)", "Binary", "Int32"]);
    assert!(!schema.field(1).is_nullable());
}

#[test]
fn columnar_texts_take_the_tables_timestamp_type() {
    let files = Files::new(&[]);
    let texts = StringArray::from(vec!["2026-06-04T12:00:00.000000001Z"]);
    files.add("a.parquet", &parquet_bytes(&[batch(vec![("ts", Arc::new(texts))])], 2));
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    files.table(vec![Field::new("ts", nanos, true)]).timestamp("ts").check(expect![[r#"
        ts: Timestamp(ns, "+00:00")
        {"ts":"2026-06-04T12:00:00.000000001Z"}
    "#]]);
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let files = Files::new(&[]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    files.add("a.arrow", &arrow_file(&[batch(vec![("a", Arc::clone(&column)), ("a", column)])]));
    files.check(expect![[r#"
        error[input_corrupt]: the file has two columns named "a"
          file: a.arrow
    "#]]);
}

#[test]
fn timestamps_of_96_bits_keep_years_that_nanoseconds_lose() {
    use parquet::data_type::{Int96, Int96Type};
    let schema = parquet::schema::parser::parse_message_type("message m { required int96 ts; }").unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let mut last_day = Int96::new();
    // Nanoseconds of the day in two words, then the Julian day: 1970-01-01 is 2,440,588.
    last_day.set_data(1000, 0, 2_440_588 + 2_932_896);
    column.typed::<Int96Type>().write_batch(&[last_day], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let files = Files::new(&[]);
    files.add("a.parquet", &bytes);
    files.check(expect![[r#"
        ts: Timestamp(µs)
        {"ts":"9999-12-31T00:00:00.000001"}
    "#]]);
}

/// Damages every `step`th byte from `start`, one at a time, until the decoder panics at what comes out. Whatever is damaged,
/// the answer names the file.
fn panics(name: &str, whole: &[u8], (start, step): (usize, usize), timestamp: Option<&str>) -> bool {
    let mut files = Files::new(&[]);
    files.options.primary_timestamp = timestamp.map(str::to_owned);
    (start..whole.len()).step_by(step).any(|at| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x10;
        files.add(name, &bytes);
        let read = files.open().and_then(|opened| run(collect(opened.plan, Arc::default())).map_err(ours));
        let Some(error) = read.err().filter(|error| error.code() == Code::InputCorrupt) else { return false };
        assert!(error.to_string().contains(&format!("/{name}\n")), "{error}");
        error.to_string().contains("the decoder failed at what the file says of itself")
    })
}

#[test]
fn a_file_that_its_decoder_panics_at_is_corrupt() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["2026-06-04T12:00:00Z", "2026-06-04T13:00:00Z"]));
    let batches = [batch(vec![("ts", texts)])];
    let (file, stream) = (arrow_file(&batches), arrow_stream(&batches));
    // After the schema, what says where the buffers of the batch are: numbers of 64 bits, each a megabyte off.
    let numbers = |bytes: &[u8]| {
        let mut marks = bytes.windows(4).enumerate().filter(|(_, window)| *window == [0xff; 4]);
        (marks.nth(1).unwrap().0 + 8 + 2, 8)
    };
    // With a timestamp to look for, the column is read before any row is passed on.
    for timestamp in [None, Some("ts")] {
        // The header of the first page follows the magic: a page that says it needs a dictionary, of which there is none.
        assert!(panics("a.parquet", &parquet_bytes(&batches, 100), (4, 1), timestamp));
        for (name, bytes) in [("a.arrow", &file), ("stream.arrow", &stream)] {
            assert!(panics(name, bytes, numbers(bytes), timestamp), "{name}");
        }
    }
}
