//! Arrow files that lie about lengths: an error that names the file, and the process goes on.

use std::ops::Range;

use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::ipc::{Block, CompressionType, Message, root_as_footer, root_as_message};

use super::*;

const HUGE: [i64; 5] = [i64::MAX / 2, i64::MAX, 1 << 45, -2, i64::MIN];

fn batches() -> Vec<RecordBatch> {
    let words: DictionaryArray<Int32Type> = (0..500).map(|n| ["x", "y", "zzzzzzzzzzzzzzzzzzz"][n % 3]).collect();
    let texts = StringArray::from_iter_values((0..500).map(|n| format!("2026-06-04T12:00:{:02}Z", n % 60)));
    let columns: [(&str, ArrayRef); 2] = [("ts", Arc::new(texts)), ("word", Arc::new(words))];
    vec![RecordBatch::try_from_iter(columns).unwrap()]
}

fn options(compression: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(compression).unwrap()
}

fn stream(compression: Option<CompressionType>) -> Vec<u8> {
    let batches = batches();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options(compression)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn file(compression: Option<CompressionType>) -> Vec<u8> {
    let batches = batches();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options(compression)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// Metadata and bodies of the messages: a schema, a dictionary, rows.
fn messages(bytes: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut messages = Vec::new();
    let mut at = bytes.windows(4).position(|window| window == [0xff; 4]).unwrap();
    while bytes[at..at + 4] == [0xff; 4] {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        let metadata = at + 8..at + 8 + length;
        let body = root_as_message(&bytes[metadata.clone()]).unwrap().bodyLength() as usize;
        at = metadata.end + body;
        messages.push((metadata.clone(), metadata.end..at));
    }
    assert_eq!(messages.len(), 3);
    messages
}

fn footer(bytes: &[u8]) -> Range<usize> {
    let end = bytes.len() - 10;
    end - u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize..end
}

/// Puts `number` where it makes `within` say what `says` looks for, and nowhere else.
fn put(bytes: &[u8], within: &Range<usize>, number: &[u8], says: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    assert!(!says(&bytes[within.clone()]));
    let put = |at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + number.len()].copy_from_slice(number);
        says(&bytes[within.clone()]).then_some(bytes)
    };
    (within.start..=within.end - number.len()).step_by(4).find_map(put).unwrap()
}

fn body_length(message: &[u8]) -> Option<i64> {
    root_as_message(message).ok().map(|message: Message<'_>| message.bodyLength())
}

/// Everything is refused by name, as it is and compressed, when its schema is read or its rows.
fn refused(name: &str, what: &str, bytes: &[u8]) {
    for (suffix, content) in [("", bytes.to_vec()), (".gz", gzip(bytes)), (".zst", zstd(bytes))] {
        for timestamp in [None, Some("ts".to_owned())] {
            let mut files = Files::new(&[]);
            files.options.primary_timestamp = timestamp;
            files.add(&format!("{name}{suffix}"), &content);
            let error = files.read().unwrap_err();
            assert_eq!(error.code(), Code::InputCorrupt, "{what} of {name}{suffix}: {error}");
            assert!(error.to_string().contains(&format!("/{name}{suffix}\n")), "{error}");
        }
    }
}

#[test]
fn what_is_damaged_below_is_read_as_it_is() {
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        for (name, bytes) in [("stream.arrow", stream(compression)), ("file.arrow", file(compression))] {
            let files = Files::new(&[]);
            files.add(name, &bytes);
            let rows: usize = files.read().unwrap().1.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows, 500);
        }
    }
}

#[test]
fn bodies_longer_than_their_stream_are_refused() {
    let whole = stream(None);
    for (metadata, _) in messages(&whole).into_iter().skip(1) {
        for number in HUGE {
            let bytes = put(&whole, &metadata, &number.to_le_bytes(), |message| body_length(message) == Some(number));
            refused("stream.arrow", "a body", &bytes);
        }
    }
}

#[test]
fn metadata_longer_than_its_stream_is_refused() {
    let whole = stream(None);
    for (metadata, _) in messages(&whole) {
        for length in [i32::MAX, 1 << 28, -2, i32::MIN] {
            let mut bytes = whole.clone();
            bytes[metadata.start - 4..metadata.start].copy_from_slice(&length.to_le_bytes());
            refused("stream.arrow", "metadata", &bytes);
        }
    }
}

#[test]
fn footers_longer_than_their_file_are_refused() {
    let whole = file(None);
    for length in [i32::MAX, whole.len() as i32, -1, i32::MIN] {
        let mut bytes = whole.clone();
        let at = bytes.len() - 10;
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        refused("file.arrow", "a footer", &bytes);
    }
}

#[test]
fn blocks_beyond_their_file_are_refused() {
    let whole = file(None);
    let footer = footer(&whole);
    let block = |bytes: &[u8], rows: bool| -> Option<Block> {
        let footer = root_as_footer(bytes).ok()?;
        let blocks = if rows { footer.recordBatches() } else { footer.dictionaries() };
        blocks.filter(|blocks| !blocks.is_empty()).map(|blocks| *blocks.get(0))
    };
    for rows in [true, false] {
        for number in HUGE.into_iter().chain([whole.len() as i64 + 8]) {
            let bytes = number.to_le_bytes();
            let is =
                |says: fn(&Block) -> i64| move |bytes: &[u8]| block(bytes, rows).is_some_and(|b| says(&b) == number);
            refused("file.arrow", "the offset", &put(&whole, &footer, &bytes, is(Block::offset)));
            refused("file.arrow", "the body", &put(&whole, &footer, &bytes, is(Block::bodyLength)));
        }
        for number in [i32::MAX, 1 << 28, 0, 4, -1, i32::MIN] {
            let is = |bytes: &[u8]| block(bytes, rows).is_some_and(|b| b.metaDataLength() == number);
            refused("file.arrow", "the metadata", &put(&whole, &footer, &number.to_le_bytes(), is));
        }
    }
}

#[test]
fn buffers_that_say_that_they_become_what_they_cannot_are_refused() {
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        for (name, whole) in [("stream.arrow", stream(Some(compression))), ("file.arrow", file(Some(compression)))] {
            let messages = messages(&whole);
            for (metadata, body) in &messages[1..] {
                let message = root_as_message(&whole[metadata.clone()]).unwrap();
                let batch = message.header_as_record_batch();
                let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data()).unwrap();
                for buffer in batch.buffers().unwrap().iter().filter(|buffer| buffer.length() > 0) {
                    let at = body.start + buffer.offset() as usize;
                    for number in [i64::MAX / 2, 1 << 45, 1 << 28, -2] {
                        let mut bytes = whole.clone();
                        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
                        refused(name, "a buffer", &bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn buffers_beyond_their_body_are_refused() {
    for (name, whole) in [("stream.arrow", stream(None)), ("file.arrow", file(None))] {
        for (metadata, _) in messages(&whole).into_iter().skip(1) {
            let buffers = |bytes: &[u8]| -> Vec<[i64; 2]> {
                let Ok(message) = root_as_message(bytes) else { return Vec::new() };
                let batch = message.header_as_record_batch();
                let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
                let buffers = batch.and_then(|batch| batch.buffers()).into_iter().flatten();
                buffers.map(|buffer| [buffer.offset(), buffer.length()]).collect()
            };
            for number in HUGE {
                for part in [0, 1] {
                    let is = |bytes: &[u8]| buffers(bytes).get(1).is_some_and(|buffer| buffer[part] == number);
                    refused(name, "a buffer", &put(&whole, &metadata, &number.to_le_bytes(), is));
                }
            }
        }
    }
}
