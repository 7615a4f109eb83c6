//! Which texts are a primary timestamp?

use super::*;

#[test]
fn a_primary_timestamp_that_is_text_is_parsed() {
    let zoned = "{\"ts\":\"2026-06-04T12:30:15.123456Z\"}\n{\"ts\":null}\n{\"ts\":\"0001-01-01 00:00:00+01:00\"}";
    let files = Files::ndjson(zoned).timestamp("ts");
    let (opened, batches) = files.read().unwrap();
    assert_eq!(*opened.schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())));
    let values: Vec<Option<i64>> = batches[0].column(0).as_primitive::<TimestampMicrosecondType>().iter().collect();
    assert_eq!(values, [Some(1_780_576_215_123_456), None, Some(-62_135_600_400_000_000)]);
    let local = Files::ndjson("{\"ts\":\"2026-06-04\"}\n{\"ts\":\"2026-06-04T12:00\"}").timestamp("ts");
    assert_eq!(*local.open().unwrap().schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
    // Any other column of texts stays as it is.
    let other = Files::ndjson(zoned).open().unwrap();
    assert_eq!(*other.schema.field(0).data_type(), DataType::Utf8);
}

#[test]
fn a_primary_timestamp_that_cannot_be_parsed_is_refused_by_value() {
    for (values, value, reason) in [
        ("\"2026-06-04T12:00Z\"|\"yesterday\"", "yesterday", "not an ISO 8601 timestamp"),
        ("\"2026-06-04T12:00Z\"|\"\"", "", "not an ISO 8601 timestamp"),
        ("null|\"2016-12-31T23:59:60Z\"", "2016-12-31T23:59:60Z", "a leap second has no timestamp"),
        ("null|\"2026-06-04T12:00:00.1234567Z\"", "2026-06-04T12:00:00.1234567Z", "can't hold its fraction"),
        ("\"2026-06-04T12:00Z\"|\"2026-06-04T12:00\"", "2026-06-04T12:00", "some have none"),
        ("\"2026-06-04\"|\"2026-06-04T12:00Z\"", "2026-06-04T12:00Z", "some have none"),
        ("null|1780574400000", "1780574400000", "a number doesn't say which unit"),
        ("null|true", "true", "a boolean is no timestamp"),
        ("null|{}", "{…}", "an object is no timestamp"),
    ] {
        let rows: String = values.split('|').map(|value| format!("{{\"ts\":{value}}}\n")).collect();
        let mut tests = vec![(Files::ndjson(&rows), 2)];
        if !values.contains(['{', 't']) || values.contains("T12:00Z") {
            let rows: String =
                values.replace("null", "").replace('"', "").split('|').map(|v| format!("{v},x\n")).collect();
            tests.push((Files::csv(&format!("ts,other\n{rows}")), 3));
        }
        for (files, line) in tests {
            let files = files.timestamp("ts");
            match files.open() {
                // An empty CSV field is null.
                Ok(_) => assert!(value.is_empty() && line == 3, "{values}"),
                Err(error) => {
                    let text = error.to_string();
                    assert_eq!(error.code(), Code::InputValueInvalid, "{text}");
                    assert!(text.contains(&format!("  value: {value}\n")), "{text}");
                    assert!(text.contains(reason), "{text}");
                    assert!(text.contains(&format!("  line: {line}\n")) && text.contains("/a."), "{text}");
                }
            }
        }
    }
}

#[test]
fn files_whose_timestamps_differ_in_zone_are_refused_together() {
    let files =
        Files::new(&[("a.ndjson", "{\"ts\":\"2026-06-04T12:00Z\"}\n"), ("b.ndjson", "\n{\"ts\":\"2026-06-04\"}\n")]);
    files.timestamp("ts").check(expect![[r#"
        error[input_value_invalid]: a value of the primary timestamp is not a timestamp
          path: ts
          value: 2026-06-04
          reason: some timestamps of the column have a zone and some have none
          file: b.ndjson
          line: 2
          value with a zone: 2026-06-04T12:00Z
          in file: a.ndjson
          in line: 1
          help: timestamps are ISO 8601 / RFC 3339 like 2026-06-04T12:30:15.123456Z
    "#]]);
}
