//! Which field of a manifest or manifest list has which id?
//!
//! Table specification, "Manifests", "Data File Fields", "Manifest Lists". Names are for writers that leave ids out; those
//! of manifest lists changed with version 1.5 of the reference implementation, and both are known.

use super::avro::{Field, Type};

pub(super) const STATUS: i32 = 0;
pub(super) const SNAPSHOT_ID: i32 = 1;
pub(super) const DATA_FILE: i32 = 2;
pub(super) const SEQUENCE_NUMBER: i32 = 3;
pub(super) const FILE_SEQUENCE_NUMBER: i32 = 4;

pub(super) const FILE_PATH: i32 = 100;
pub(super) const FILE_FORMAT: i32 = 101;
pub(super) const PARTITION: i32 = 102;
pub(super) const RECORD_COUNT: i32 = 103;
pub(super) const FILE_SIZE: i32 = 104;
pub(super) const COLUMN_SIZES: i32 = 108;
pub(super) const VALUE_COUNTS: i32 = 109;
pub(super) const NULL_VALUE_COUNTS: i32 = 110;
pub(super) const LOWER_BOUNDS: i32 = 125;
pub(super) const UPPER_BOUNDS: i32 = 128;
pub(super) const KEY_METADATA: i32 = 131;
pub(super) const SPLIT_OFFSETS: i32 = 132;
pub(super) const CONTENT: i32 = 134;
pub(super) const EQUALITY_IDS: i32 = 135;
pub(super) const NAN_VALUE_COUNTS: i32 = 137;
pub(super) const SORT_ORDER_ID: i32 = 140;
pub(super) const FIRST_ROW_ID: i32 = 142;
pub(super) const REFERENCED_DATA_FILE: i32 = 143;
pub(super) const CONTENT_OFFSET: i32 = 144;
pub(super) const CONTENT_SIZE: i32 = 145;

/// Whether a field is the key of a map from column ids.
pub(super) fn is_key(id: Option<i32>) -> bool {
    matches!(id, Some(117 | 119 | 121 | 126 | 129 | 138))
}

/// Whether a field is the value of a map from column ids.
pub(super) fn is_value(id: Option<i32>) -> bool {
    matches!(id, Some(118 | 120 | 122 | 127 | 130 | 139))
}

pub(super) mod list {
    pub(in crate::metadata) const MANIFEST_PATH: i32 = 500;
    pub(in crate::metadata) const MANIFEST_LENGTH: i32 = 501;
    pub(in crate::metadata) const PARTITION_SPEC_ID: i32 = 502;
    pub(in crate::metadata) const ADDED_SNAPSHOT_ID: i32 = 503;
    pub(in crate::metadata) const ADDED_FILES: i32 = 504;
    pub(in crate::metadata) const EXISTING_FILES: i32 = 505;
    pub(in crate::metadata) const DELETED_FILES: i32 = 506;
    pub(in crate::metadata) const PARTITIONS: i32 = 507;
    pub(in crate::metadata) const CONTAINS_NULL: i32 = 509;
    pub(in crate::metadata) const LOWER_BOUND: i32 = 510;
    pub(in crate::metadata) const UPPER_BOUND: i32 = 511;
    pub(in crate::metadata) const ADDED_ROWS: i32 = 512;
    pub(in crate::metadata) const EXISTING_ROWS: i32 = 513;
    pub(in crate::metadata) const DELETED_ROWS: i32 = 514;
    pub(in crate::metadata) const SEQUENCE_NUMBER: i32 = 515;
    pub(in crate::metadata) const MIN_SEQUENCE_NUMBER: i32 = 516;
    pub(in crate::metadata) const CONTENT: i32 = 517;
    pub(in crate::metadata) const CONTAINS_NAN: i32 = 518;
    pub(in crate::metadata) const KEY_METADATA: i32 = 519;
    pub(in crate::metadata) const FIRST_ROW_ID: i32 = 520;
}

/// Gives ids to the fields of a manifest's entry that have none; `tuple` knows the partition fields by name.
pub(super) fn number_entry(entry: &mut Type, tuple: &dyn Fn(&str) -> Option<i32>) {
    entry.number(&of_entry, &mut |field| {
        if field.id == Some(DATA_FILE) {
            field.ty.number(&of_file, &mut |field| match field.id {
                Some(PARTITION) => field.ty.number(tuple, &mut |_| {}),
                _ => field.ty.number(&of_map, &mut |_| {}),
            });
        }
    });
}

/// Gives ids to the fields of a manifest list that have none.
pub(super) fn number_list(manifest: &mut Type) {
    manifest.number(&of_manifest, &mut |field| field.ty.number(&of_summary, &mut |_| {}));
}

/// The type of an entry's data file.
pub(super) fn data_file(entry: &Type) -> Option<&Type> {
    match entry {
        Type::Record(fields) => fields.iter().find(|field: &&Field| field.id == Some(DATA_FILE)).map(|field| &field.ty),
        _ => None,
    }
}

fn of_entry(name: &str) -> Option<i32> {
    Some(match name {
        "status" => STATUS,
        "snapshot_id" => SNAPSHOT_ID,
        "data_file" => DATA_FILE,
        "sequence_number" => SEQUENCE_NUMBER,
        "file_sequence_number" => FILE_SEQUENCE_NUMBER,
        _ => return None,
    })
}

fn of_file(name: &str) -> Option<i32> {
    Some(match name {
        "content" => CONTENT,
        "file_path" => FILE_PATH,
        "file_format" => FILE_FORMAT,
        "partition" => PARTITION,
        "record_count" => RECORD_COUNT,
        "file_size_in_bytes" => FILE_SIZE,
        "column_sizes" => COLUMN_SIZES,
        "value_counts" => VALUE_COUNTS,
        "null_value_counts" => NULL_VALUE_COUNTS,
        "nan_value_counts" => NAN_VALUE_COUNTS,
        "lower_bounds" => LOWER_BOUNDS,
        "upper_bounds" => UPPER_BOUNDS,
        "key_metadata" => KEY_METADATA,
        "split_offsets" => SPLIT_OFFSETS,
        "equality_ids" => EQUALITY_IDS,
        "sort_order_id" => SORT_ORDER_ID,
        "first_row_id" => FIRST_ROW_ID,
        "referenced_data_file" => REFERENCED_DATA_FILE,
        "content_offset" => CONTENT_OFFSET,
        "content_size_in_bytes" => CONTENT_SIZE,
        _ => return None,
    })
}

/// The pairs of any map; which map it is follows from the field that holds it.
fn of_map(name: &str) -> Option<i32> {
    match name {
        "key" => Some(117),
        "value" => Some(118),
        _ => None,
    }
}

fn of_manifest(name: &str) -> Option<i32> {
    Some(match name {
        "manifest_path" => list::MANIFEST_PATH,
        "manifest_length" => list::MANIFEST_LENGTH,
        "partition_spec_id" => list::PARTITION_SPEC_ID,
        "content" => list::CONTENT,
        "sequence_number" => list::SEQUENCE_NUMBER,
        "min_sequence_number" => list::MIN_SEQUENCE_NUMBER,
        "added_snapshot_id" => list::ADDED_SNAPSHOT_ID,
        "added_files_count" | "added_data_files_count" => list::ADDED_FILES,
        "existing_files_count" | "existing_data_files_count" => list::EXISTING_FILES,
        "deleted_files_count" | "deleted_data_files_count" => list::DELETED_FILES,
        "added_rows_count" => list::ADDED_ROWS,
        "existing_rows_count" => list::EXISTING_ROWS,
        "deleted_rows_count" => list::DELETED_ROWS,
        "partitions" => list::PARTITIONS,
        "key_metadata" => list::KEY_METADATA,
        "first_row_id" => list::FIRST_ROW_ID,
        _ => return None,
    })
}

fn of_summary(name: &str) -> Option<i32> {
    Some(match name {
        "contains_null" => list::CONTAINS_NULL,
        "contains_nan" => list::CONTAINS_NAN,
        "lower_bound" => list::LOWER_BOUND,
        "upper_bound" => list::UPPER_BOUND,
        _ => return None,
    })
}
