//! What any writer may put into a file comes out as the engine's own readers have it; what nobody may does no harm.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, LargeListArray, LargeListViewArray,
    ListArray, ListViewArray, MapArray, NullArray, RunArray, StringArray, StructArray, UnionArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, IntervalUnit, TimeUnit, UnionFields};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::ipc::{CompressionType, MetadataVersion};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use super::*;

/// How many kinds of columns [`column`] makes.
const KINDS: usize = 54;

fn nulls(rows: usize, random: &mut StdRng) -> Option<NullBuffer> {
    random.random::<bool>().then(|| BooleanBuffer::collect_bool(rows, |_| random.random_ratio(3, 4)).into())
}

/// Values of `width` bytes, whatever they mean.
fn fixed(ty: DataType, width: usize, rows: usize, random: &mut StdRng) -> ArrayRef {
    // Few different bytes, so that some of it is worth compressing.
    let most = [0, 1, 255][random.random_range(0..3)];
    let values: Vec<u8> = (0..rows * width).map(|_| random.random_range(0..=most)).collect();
    let nulls = nulls(rows, random).map(|nulls| nulls.into_inner().into_inner());
    let data =
        ArrayData::builder(ty).len(rows).add_buffer(Buffer::from(values)).null_bit_buffer(nulls).align_buffers(true);
    make_array(data.build().unwrap())
}

fn texts(ty: &DataType, rows: usize, random: &mut StdRng) -> ArrayRef {
    let text = |random: &mut StdRng| "xyz".repeat(random.random_range(0..12)) + &random.random::<u8>().to_string();
    let texts = (0..rows).map(|_| random.random_ratio(4, 5).then(|| text(random)));
    cast(&StringArray::from_iter(texts), ty).unwrap()
}

fn offsets(rows: usize, random: &mut StdRng) -> (Vec<usize>, usize) {
    let lengths: Vec<usize> = (0..rows).map(|_| random.random_range(0..4)).collect();
    let sum = lengths.iter().sum();
    (lengths, sum)
}

/// A column of the `kind`th kind; nested ones have others in them.
fn column(kind: usize, rows: usize, random: &mut StdRng) -> ArrayRef {
    use DataType::*;
    use TimeUnit::*;
    let item = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), true));
    let zone = || Some(Arc::from("+00:00"));
    let wide = [
        (Int8, 1),
        (Int16, 2),
        (Int32, 4),
        (Int64, 8),
        (UInt8, 1),
        (UInt16, 2),
        (UInt32, 4),
        (UInt64, 8),
        (Float16, 2),
        (Float32, 4),
        (Float64, 8),
        (Date32, 4),
        (Date64, 8),
        (Time32(Second), 4),
        (Time32(Millisecond), 4),
        (Time64(Microsecond), 8),
        (Time64(Nanosecond), 8),
        (Timestamp(Second, None), 8),
        (Timestamp(Millisecond, zone()), 8),
        (Timestamp(Microsecond, zone()), 8),
        (Timestamp(Nanosecond, None), 8),
        (Duration(Second), 8),
        (Duration(Nanosecond), 8),
        (Interval(IntervalUnit::YearMonth), 4),
        (Interval(IntervalUnit::DayTime), 8),
        (Interval(IntervalUnit::MonthDayNano), 16),
        (Decimal32(9, 2), 4),
        (Decimal64(18, 2), 8),
        (Decimal128(38, 2), 16),
        (Decimal256(76, 2), 32),
        (FixedSizeBinary(1), 1),
        (FixedSizeBinary(16), 16),
        (FixedSizeBinary(0), 0),
    ];
    if let Some((ty, width)) = wide.get(kind) {
        return fixed(ty.clone(), *width, rows, random);
    }
    let kind = kind - wide.len();
    let words = [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView];
    if let Some(ty) = words.get(kind) {
        return texts(ty, rows, random);
    }
    let (lengths, sum) = offsets(rows, random);
    let inner = random.random_range(0..KINDS);
    match kind - words.len() {
        0 => Arc::new(NullArray::new(rows)),
        1 => {
            let bits = BooleanBuffer::collect_bool(rows, |_| random.random());
            Arc::new(arrow::array::BooleanArray::new(bits, nulls(rows, random)))
        }
        2 => {
            let values = column(inner, sum, random);
            Arc::new(ListArray::new(item(&values), OffsetBuffer::from_lengths(lengths), values, nulls(rows, random)))
        }
        3 => {
            let values = column(inner, sum, random);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(LargeListArray::new(item(&values), offsets, values, nulls(rows, random)))
        }
        4 => {
            let values = column(inner, rows * 2, random);
            Arc::new(FixedSizeListArray::new(item(&values), 2, values, nulls(rows, random)))
        }
        5 => {
            let values = column(inner, sum, random);
            let ends = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
            let sizes: Vec<i32> = lengths.iter().map(|n| *n as i32).collect();
            let starts: Vec<i32> = ends[..rows].to_vec();
            Arc::new(ListViewArray::new(item(&values), starts.into(), sizes.into(), values, nulls(rows, random)))
        }
        6 => {
            let values = column(inner, sum, random);
            let ends = OffsetBuffer::<i64>::from_lengths(lengths.iter().copied());
            let sizes: Vec<i64> = lengths.iter().map(|n| *n as i64).collect();
            let starts: Vec<i64> = ends[..rows].to_vec();
            Arc::new(LargeListViewArray::new(item(&values), starts.into(), sizes.into(), values, nulls(rows, random)))
        }
        7 | 8 => {
            let columns = [column(inner, rows, random), column(random.random_range(0..KINDS), rows, random)];
            let fields: Fields = columns.iter().map(|column| (*item(column)).clone()).collect();
            Arc::new(StructArray::new(fields, columns.to_vec(), nulls(rows, random)))
        }
        9 => Arc::new(StructArray::new_empty_fields(rows, nulls(rows, random))),
        10 | 11 => {
            let values = texts(&Utf8, 5, random);
            let keys =
                Int32Array::from_iter((0..rows).map(|_| random.random_ratio(4, 5).then(|| random.random_range(0..5))));
            Arc::new(DictionaryArray::new(keys, values))
        }
        12 => {
            let children = vec![column(0, rows, random), texts(&Utf8, rows, random)];
            let fields = UnionFields::try_new([0, 1], children.iter().map(|child| (*item(child)).clone())).unwrap();
            let ids: Vec<i8> = (0..rows).map(|_| random.random_range(0..2)).collect();
            let dense: Option<Vec<i32>> = random.random::<bool>().then(|| (0..rows as i32).collect());
            Arc::new(UnionArray::try_new(fields, ids.into(), dense.map(Into::into), children).unwrap())
        }
        13 => {
            let keys = cast(&StringArray::from_iter_values((0..sum).map(|n| n.to_string())), &Utf8).unwrap();
            let values = column(inner, sum, random);
            let fields = Fields::from(vec![Field::new("key", Utf8, false), (*item(&values)).clone()]);
            let entries = StructArray::new(fields, vec![keys, values], None);
            let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            Arc::new(MapArray::new(field, OffsetBuffer::from_lengths(lengths), entries, nulls(rows, random), false))
        }
        _ => {
            let ends = Int32Array::from_iter_values((1..=rows.div_ceil(3)).map(|n| (n * 3).min(rows) as i32));
            let values = texts(&Utf8, ends.len(), random);
            Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
        }
    }
}

/// Two batches of the same columns, one of them a slice of a longer one.
fn batches(kinds: &[usize], rows: usize, random: &mut StdRng) -> Vec<RecordBatch> {
    let columns: Vec<ArrayRef> = kinds.iter().map(|kind| column(*kind, rows, random)).collect();
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let whole =
        RecordBatch::try_from_iter_with_nullable(names.into_iter().zip(columns).map(|(n, c)| (n, c, true))).unwrap();
    let from = random.random_range(0..=rows);
    vec![whole.clone(), whole.slice(from, random.random_range(0..=rows - from))]
}

#[derive(Clone, Copy, Debug)]
struct Written {
    alignment: usize,
    compression: Option<CompressionType>,
    /// As before version 0.15, without markers.
    old: bool,
}

impl Written {
    fn options(self) -> IpcWriteOptions {
        let version = if self.old { MetadataVersion::V4 } else { MetadataVersion::V5 };
        let options = IpcWriteOptions::try_new(self.alignment, self.old, version).unwrap();
        if self.old { options } else { options.try_with_compression(self.compression).unwrap() }
    }

    fn file(self, batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), self.options()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    fn stream(self, batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), self.options()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }
}

fn written() -> impl Strategy<Value = Written> {
    let compression = prop::sample::select(vec![None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)]);
    (prop::sample::select(vec![8, 16, 32, 64]), compression, prop::bool::weighted(0.2))
        .prop_map(|(alignment, compression, old)| Written { alignment, compression, old })
}

type Read = Result<(SchemaRef, Vec<RecordBatch>), ArrowError>;

fn our_file(bytes: &[u8], columns: Option<Vec<usize>>) -> Read {
    let file = guarded(|| File::open(Cursor::new(bytes), bytes.len() as u64, columns))?;
    Ok((file.schema(), Guarded::new(file).collect::<Result<_, _>>()?))
}

fn our_stream(bytes: &[u8], known: bool, columns: Option<Vec<usize>>) -> Read {
    let stream = guarded(|| Stream::open(bytes, known.then_some(bytes.len() as u64), columns))?;
    Ok((stream.schema(), Guarded::new(stream).collect::<Result<_, _>>()?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_is_written_is_read(
        kinds in prop::collection::vec(0..KINDS, 1..6),
        rows in prop_oneof![0..4_usize, 0..300_usize],
        seed in any::<u64>(),
        written in written(),
    ) {
        let batches = batches(&kinds, rows, &mut StdRng::seed_from_u64(seed));
        let (file, stream) = (written.file(&batches), written.stream(&batches));
        for columns in [None, Some(vec![seed as usize % kinds.len()])] {
            // Where the engine's reader refuses what its writer wrote (runs of no rows, say), so do we.
            let reader = FileReader::try_new(Cursor::new(&file), columns.clone()).unwrap();
            let theirs = (reader.schema(), Guarded::new(reader).collect::<Result<Vec<_>, _>>().ok());
            if columns.is_none() {
                // The runs of a slice are written otherwise.
                let read = theirs.1.iter().flatten().next();
                prop_assert!(read.is_none_or(|read| read.columns() == batches[0].columns()));
            }
            let ours = our_file(&file, columns.clone()).ok();
            prop_assert!(ours.iter().all(|(schema, _)| *schema == theirs.0));
            prop_assert_eq!(ours.map(|(_, batches)| batches), theirs.1);
            let reader = StreamReader::try_new(stream.as_slice(), columns.clone()).unwrap();
            let theirs = Guarded::new(reader).collect::<Result<Vec<_>, _>>().ok();
            for known in [true, false] {
                let ours = our_stream(&stream, known, columns.clone()).ok();
                prop_assert_eq!(&ours.map(|(_, batches)| batches), &theirs);
            }
        }
    }

    /// The process is what must outlive this.
    #[test]
    fn whatever_is_damaged_does_no_harm(
        kinds in prop::collection::vec(0..KINDS, 1..4),
        seed in any::<u64>(),
        written in written(),
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(vec![i64::MAX / 2, i64::MAX, 1 << 45, 1 << 33, -1, i64::MIN])),
            1..3,
        ),
    ) {
        let batches = batches(&kinds, 20, &mut StdRng::seed_from_u64(seed));
        for (is_file, mut bytes) in [(true, written.file(&batches)), (false, written.stream(&batches))] {
            for (at, number) in &damage {
                // Numbers of 64 bits are at multiples of 8 of a message, whose prefix has 4 or 8 bytes.
                let at = at.index(bytes.len() / 4 - 1) * 4;
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            if is_file {
                let _ = our_file(&bytes, None);
            } else {
                let _ = (our_stream(&bytes, true, None), our_stream(&bytes, false, None));
            }
        }
    }
}

#[test]
fn long_buffers_of_many_blocks_are_read() {
    let mut random = StdRng::seed_from_u64(7);
    for most in [0, 1, 255] {
        let mut values = vec![0; 5_000_000];
        random.fill_bytes(&mut values);
        values.iter_mut().for_each(|value| *value &= most);
        let column: ArrayRef = Arc::new(arrow::array::UInt8Array::from(values));
        let batches = [RecordBatch::try_from_iter([("a", column)]).unwrap()];
        for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            let written = Written { alignment: 64, compression: Some(compression), old: false };
            assert_eq!(our_file(&written.file(&batches), None).unwrap().1, batches);
            assert_eq!(our_stream(&written.stream(&batches), false, None).unwrap().1, batches);
        }
    }
}

#[test]
fn a_stream_may_end_without_a_mark_but_not_in_a_message() {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batches = [RecordBatch::try_from_iter([("a", column)]).unwrap()];
    let stream = Written { alignment: 64, compression: None, old: false }.stream(&batches);
    for known in [true, false] {
        assert_eq!(our_stream(&stream[..stream.len() - 8], known, None).unwrap().1, batches);
        for cut in [1, 4, 7, 9, 40] {
            assert!(our_stream(&stream[..stream.len() - cut], known, None).is_err(), "{cut}");
        }
        // What follows the mark is no message.
        let longer = [stream.as_slice(), b"anything"].concat();
        assert_eq!(our_stream(&longer, known, None).unwrap().1, batches);
    }
}

#[test]
fn a_batch_without_room_is_not_a_damaged_file() {
    let source =
        Source::new("a.arrow".into(), crate::input::source::Format::Arrow, crate::input::source::Codec::Plain, 0);
    let error = corrupt(&source, ArrowError::MemoryError("no room".to_owned()));
    assert_eq!(error.code(), crate::error::Code::MemoryLimit);
    assert!(error.to_string().contains("a.arrow"), "{error}");
}
