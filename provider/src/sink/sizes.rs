//! How many bytes is a row, and how does a batch stay small when its rows are not?
//!
//! ```text
//! 8192 rows of 1.8 kB   ─▶ 15 MB in one batch: fine
//! 8192 rows of 10 MB    ─▶ 80 GB in one batch: cut by bytes, never by rows alone
//! ```
//!
//! Everything in the sink that cuts batches asks here, so that one limit holds for all of them.

use arrow::array::{
    Array, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, OffsetSizeTrait, RecordBatch, UInt32Array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::ArrowError;

/// Bytes of a batch that goes through the sink, unless it is one row. 4 MiB: some two thousand rows of the reference
/// dataset, enough that the cost of a batch is not felt, and few enough that a task can hold several of them.
pub(super) const BATCH_BYTES: u64 = 4 << 20;

/// The bytes that each row of `batch` takes: values and their offsets, without validity bits.
pub(super) fn row_sizes(batch: &RecordBatch) -> Vec<u64> {
    let mut sizes = vec![0; batch.num_rows()];
    for column in batch.columns() {
        add_sizes(column.as_ref(), &mut sizes);
    }
    sizes
}

/// Cuts `batch` into slices of at most `limit` bytes; a row that is larger than that gets a slice of its own.
pub(super) fn slices(batch: &RecordBatch, limit: u64) -> Vec<RecordBatch> {
    let sizes = row_sizes(batch);
    if sizes.iter().sum::<u64>() <= limit {
        return vec![batch.clone()];
    }
    cuts(&sizes, limit, usize::MAX).into_iter().map(|(from, to)| batch.slice(from, to - from)).collect()
}

/// The ranges `[from, to)` into which rows of these sizes are cut, each of at most `limit` bytes and `rows` rows, and of
/// at least one row.
pub(super) fn cuts(sizes: &[u64], limit: u64, rows: usize) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let (mut from, mut bytes) = (0, 0u64);
    for (at, size) in sizes.iter().enumerate() {
        if at > from && (bytes + size > limit || at - from >= rows) {
            ranges.push((from, at));
            (from, bytes) = (at, 0);
        }
        bytes += size;
    }
    if from < sizes.len() {
        ranges.push((from, sizes.len()));
    }
    ranges
}

/// Copies the batch if it keeps much more memory alive than its rows need: a slice holds its whole parent, and a buffer
/// of slices would be counted (and kept) once for each of them.
pub(super) fn compact(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    const SLACK: u64 = 64 << 10;
    let needed: u64 = row_sizes(&batch).iter().sum();
    if batch.get_array_memory_size() as u64 <= 2 * needed + SLACK {
        return Ok(batch);
    }
    let all = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
    take_record_batch(&batch, &all)
}

fn add_sizes(array: &dyn Array, sizes: &mut [u64]) {
    match array.data_type() {
        DataType::Null => {}
        DataType::Boolean => add_fixed(1, sizes),
        DataType::FixedSizeBinary(width) => add_fixed(*width as u64, sizes),
        DataType::Utf8 => add_offsets(array.as_string::<i32>().value_offsets(), sizes),
        DataType::LargeUtf8 => add_offsets(array.as_string::<i64>().value_offsets(), sizes),
        DataType::Binary => {
            if let Some(array) = array.as_any().downcast_ref::<BinaryArray>() {
                add_offsets(array.value_offsets(), sizes);
            }
        }
        DataType::LargeBinary => {
            if let Some(array) = array.as_any().downcast_ref::<LargeBinaryArray>() {
                add_offsets(array.value_offsets(), sizes);
            }
        }
        DataType::Utf8View => add_views(array.as_string_view(), sizes),
        DataType::BinaryView => {
            if let Some(array) = array.as_any().downcast_ref::<BinaryViewArray>() {
                add_views(array, sizes);
            }
        }
        DataType::Struct(_) => {
            for child in array.as_struct().columns() {
                add_sizes(child.as_ref(), sizes);
            }
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            add_nested(list.value_offsets(), list.values().as_ref(), sizes);
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            add_nested(list.value_offsets(), list.values().as_ref(), sizes);
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            add_nested(map.value_offsets(), map.entries(), sizes);
        }
        other => match other.primitive_width() {
            Some(width) => add_fixed(width as u64, sizes),
            // Dictionaries and runs share values between rows: an even share of what the array holds.
            None => add_fixed(array.get_buffer_memory_size() as u64 / array.len().max(1) as u64, sizes),
        },
    }
}

fn add_fixed(width: u64, sizes: &mut [u64]) {
    for size in sizes {
        *size += width;
    }
}

fn add_offsets<O: OffsetSizeTrait>(offsets: &[O], sizes: &mut [u64]) {
    let width = size_of::<O>() as u64;
    for (size, ends) in sizes.iter_mut().zip(offsets.windows(2)) {
        if let [from, to] = ends {
            *size += (to.as_usize() - from.as_usize()) as u64 + width;
        }
    }
}

fn add_views<T: ByteViewType + ?Sized>(array: &arrow::array::GenericByteViewArray<T>, sizes: &mut [u64]) {
    for (size, view) in sizes.iter_mut().zip(array.views()) {
        // The low half of a view's first word is the value's length (Arrow columnar format, variable-size binary view).
        *size += u64::from(*view as u32) + size_of::<u128>() as u64;
    }
}

fn add_nested<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array, sizes: &mut [u64]) {
    let mut children = vec![0; values.len()];
    add_sizes(values, &mut children);
    let width = size_of::<O>() as u64;
    for (size, ends) in sizes.iter_mut().zip(offsets.windows(2)) {
        if let [from, to] = ends {
            *size += width + children.get(from.as_usize()..to.as_usize()).map_or(0, |c| c.iter().sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
    }

    #[test]
    fn sizes_follow_the_values() {
        let long = "x".repeat(100);
        let sizes = row_sizes(&batch(vec![
            ("n", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("s", Arc::new(StringArray::from(vec![Some("ab"), None, Some(long.as_str())]))),
            ("v", Arc::new(StringViewArray::from(vec![Some("ab"), None, Some(long.as_str())]))),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
                    Some(vec![Some(1), Some(2)]),
                    None,
                    Some(vec![]),
                ])),
            ),
        ]));
        assert_eq!(sizes, [8 + 6 + 18 + 12, 8 + 4 + 16 + 4, 8 + 104 + 116 + 4]);
    }

    #[test]
    fn slices_hold_the_limit_and_every_row() {
        let values: Vec<String> = (0..50).map(|i| "x".repeat(if i == 20 { 5000 } else { i })).collect();
        let whole = batch(vec![("s", Arc::new(StringArray::from_iter_values(&values)))]);
        let parts = slices(&whole, 200);
        assert!(parts.len() > 5);
        assert!(parts.iter().all(|p| p.num_rows() == 1 || row_sizes(p).iter().sum::<u64>() <= 200));
        let back: Vec<String> = parts
            .iter()
            .flat_map(|p| p.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(back, values);
    }

    #[test]
    fn a_slice_of_a_large_parent_is_copied() {
        let values: Vec<String> = (0..1000).map(|i| format!("{i:0>1000}")).collect();
        let whole = batch(vec![("s", Arc::new(StringArray::from_iter_values(&values)))]);
        let small = compact(whole.slice(500, 2)).unwrap();
        assert!(small.get_array_memory_size() < 10_000);
        assert_eq!(small.column(0).as_string::<i32>().value(1), values[501]);
        let kept = compact(whole.clone()).unwrap();
        assert_eq!(
            kept.column(0).as_string::<i32>().values().as_ptr(),
            whole.column(0).as_string::<i32>().values().as_ptr()
        );
    }
}
