//! Manifests of the table as they should be.

use std::collections::HashMap;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, PrimitiveLiteral, Struct,
};

use super::table::metadata;
use crate::metadata::{ManifestTarget, NewEntry, write_manifest};
use crate::storage::Stores;

/// A data file of ten rows in the partition of a day.
pub(super) fn data_file(day: i32) -> DataFile {
    let micros = i64::from(day) * 86_400_000_000;
    let tuple = [
        Some(Literal::date(day)),
        Some(Literal::string(format!("s{day}"))).filter(|_| day % 2 == 0),
        Some(Literal::int(day % 4)),
        Some(Literal::int(day / 10 * 10)),
        Some(Literal::Primitive(PrimitiveLiteral::Int128(i128::from(day)))),
        None,
    ];
    let bounds = |least: bool| {
        let shift = i32::from(!least);
        HashMap::from([
            (1, Datum::bool(!least)),
            (2, Datum::int(day + shift)),
            (3, Datum::long(i64::from(day + shift))),
            (5, Datum::double(f64::from(shift))),
            (6, Datum::date(day + shift)),
            (7, Datum::timestamptz_micros(micros + i64::from(shift))),
            (8, Datum::timestamp_nanos(micros + i64::from(shift))),
            (10, Datum::string(if least { "a" } else { "b\u{e9}" })),
            (11, Datum::binary([shift as u8])),
            (13, Datum::time_micros(i64::from(shift)).unwrap()),
        ])
    };
    let counts: HashMap<i32, u64> = (1..=13).map(|id| (id, 10)).collect();
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("memory://fuzz/data/{day}.parquet"))
        .file_format(DataFileFormat::Parquet)
        .partition(tuple.into_iter().collect::<Struct>())
        .record_count(10)
        .file_size_in_bytes(1_000)
        .column_sizes(counts.clone())
        .value_counts(counts)
        .null_value_counts(HashMap::from([(1, 0), (2, 0), (10, 3)]))
        .nan_value_counts(HashMap::from([(4, 0), (5, 1)]))
        .lower_bounds(bounds(true))
        .upper_bounds(bounds(false))
        .split_offsets(Some(vec![4, 500]))
        .build()
        .unwrap()
}

/// A manifest of the format version with a file of each of the days.
pub(super) async fn write(stores: &Stores, location: &str, version: FormatVersion, days: &[i32]) {
    let files: Vec<DataFile> = days.iter().copied().map(data_file).collect();
    let metadata = metadata();
    let target = ManifestTarget {
        stores,
        location: location.to_owned(),
        version,
        snapshot_id: 1,
        schema: metadata.current_schema(),
        spec: metadata.default_partition_spec(),
    };
    write_manifest(target, files.iter().map(NewEntry::Added)).await.unwrap();
}

/// The manifest beside the one that is looked at.
pub(super) async fn sound_manifest(stores: &Stores, location: &str) {
    write(stores, location, FormatVersion::V3, &[20_600, 20_601]).await;
}
