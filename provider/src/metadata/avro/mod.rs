//! Is an Avro file whole, and what is in it?
//!
//! ```text
//! "Obj" 1 │ header map │ sync │ records bytes payload sync │ records bytes payload sync │ …
//! ```
//!
//! Nothing that a file says of itself is believed: blocks are decompressed under a limit, lengths are compared with the
//! bytes that are there, and records are read against the writer's schema until exactly the end of their block.

mod cursor;
mod types;

use std::collections::BTreeMap;
use std::io::{Read, Write};

pub(super) use cursor::Cursor;
use cursor::{put_bytes, put_long};
pub(super) use types::{Field, Type};

const MAGIC: &[u8] = b"Obj\x01";

/// Bytes that all blocks of one file may decode to. A manifest is cut at 8 MiB as stored; 64 times that leaves room
/// for text that compresses well and still fits a machine.
const DECODED_LIMIT: usize = 512 << 20;
/// Of a small file, that many times its size, or [`DECODED_ALWAYS`]: what `deflate` can do at most. Other codecs make
/// half a gigabyte of a few kilobytes.
const DECODED_RATIO: usize = 1024;
const DECODED_ALWAYS: usize = 1 << 20;

/// The header's entries: the schema as Avro has it, the codec, and what the writer added.
pub(super) type Meta = BTreeMap<String, Vec<u8>>;

/// A whole file, decompressed.
#[derive(Debug)]
pub(super) struct File {
    pub(super) meta: Meta,
    /// The records of all blocks, one after the other.
    pub(super) payload: Vec<u8>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    records: usize,
    /// Where it ends in the payload.
    end: usize,
}

/// Reads a file. The error says what is wrong with it, without naming it.
pub(super) fn read(bytes: &[u8]) -> Result<File, String> {
    let mut rest = Cursor::new(bytes);
    let header = Header::read(&mut rest)?;
    let limit = bytes.len().saturating_mul(DECODED_RATIO).clamp(DECODED_ALWAYS, DECODED_LIMIT);
    let mut payload = Vec::new();
    let mut blocks = Vec::new();
    while rest.left() > 0 {
        let (records, stored) = header.block(&mut rest)?;
        let start = payload.len();
        // Every record of the types read here names a file of its own: however it is compressed, that takes a byte.
        if records > stored.len() {
            return Err(format!("{records} records are announced in {} bytes", stored.len()));
        }
        decompress(header.codec(), stored, limit, &mut payload)?;
        if records > payload.len() - start {
            return Err(format!("{records} records are announced in {} bytes", payload.len() - start));
        }
        blocks.push(Block { records, end: payload.len() });
    }
    payload.shrink_to_fit();
    Ok(File { meta: header.meta, payload, blocks })
}

impl File {
    /// Reads each record; `read` is given where the record starts in the payload.
    pub(super) fn records<'a>(
        &'a self,
        mut read: impl FnMut(usize, &mut Cursor<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut start = 0;
        for block in &self.blocks {
            let bytes = self.payload.get(start..block.end).unwrap_or_default();
            let mut at = Cursor::new(bytes);
            for _ in 0..block.records {
                read(start + bytes.len() - at.left(), &mut at)?;
            }
            if at.left() > 0 {
                return Err(format!("a block holds {} bytes more than its records", at.left()));
            }
            start = block.end;
        }
        Ok(())
    }

    /// How many records there are, as far as that may be believed before they are read: sound ones take this much.
    pub(super) fn room(&self) -> usize {
        const RECORD: usize = 16;
        self.len().min(self.payload.len() / RECORD)
    }

    fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.records).sum()
    }
}

/// The writer's schema.
pub(super) fn schema(meta: &Meta) -> Result<Type, String> {
    let schema = meta.get("avro.schema").ok_or("its header has no schema")?;
    Type::parse(&serde_json::from_slice(schema).map_err(|e| format!("its schema is not JSON: {e}"))?)
}

/// Re-encodes a file of uncompressed blocks with the codec every reader knows (`deflate`). What cannot be read stays
/// as it is: this is a matter of size only.
pub(super) fn compress(bytes: Vec<u8>) -> Vec<u8> {
    let mut rest = Cursor::new(&bytes);
    let Ok(mut header) = Header::read(&mut rest) else { return bytes };
    if header.codec() != "null" {
        return bytes;
    }
    header.meta.insert("avro.codec".to_owned(), b"deflate".to_vec());
    let mut out = header.write();
    while rest.left() > 0 {
        let Ok((records, payload)) = header.block(&mut rest) else { return bytes };
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        let Ok(payload) = encoder.write_all(payload).and_then(|()| encoder.finish()) else { return bytes };
        header.write_block(records, &payload, &mut out);
    }
    out
}

/// A name that every Avro reader takes: letters, digits and underscores, other characters as `_x` and their code in
/// hexadecimal (the way the reference implementation spells them).
pub(super) fn legal_name(name: &str) -> String {
    let mut legal = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        match c {
            'a'..='z' | 'A'..='Z' | '_' => legal.push(c),
            '0'..='9' if i > 0 => legal.push(c),
            '0'..='9' => {
                legal.push('_');
                legal.push(c);
            }
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    legal.push_str(&format!("_x{unit:X}"));
                }
            }
        }
    }
    if legal.is_empty() { "_".to_owned() } else { legal }
}

struct Header {
    meta: Meta,
    sync: Vec<u8>,
}

impl Header {
    fn read(file: &mut Cursor<'_>) -> Result<Self, String> {
        if file.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err("it is not an Avro file".to_owned());
        }
        let mut meta = Meta::new();
        loop {
            let items = file.items()?;
            if items == 0 {
                break;
            }
            for _ in 0..items {
                let key = String::from_utf8_lossy(file.bytes()?).into_owned();
                meta.insert(key, file.bytes()?.to_vec());
            }
        }
        Ok(Header { meta, sync: file.take(16)?.to_vec() })
    }

    fn codec(&self) -> &str {
        self.meta.get("avro.codec").and_then(|codec| std::str::from_utf8(codec).ok()).unwrap_or("null")
    }

    /// The next block: how many records, and their bytes as they are stored.
    fn block<'a>(&self, file: &mut Cursor<'a>) -> Result<(usize, &'a [u8]), String> {
        let records = file.length()?;
        let payload = file.bytes()?;
        if file.take(self.sync.len())? != self.sync {
            return Err("a block does not end in the file's sync marker".to_owned());
        }
        Ok((records, payload))
    }

    fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_long(&mut out, self.meta.len());
        for (key, value) in &self.meta {
            put_bytes(&mut out, key.as_bytes());
            put_bytes(&mut out, value);
        }
        out.push(0);
        out.extend_from_slice(&self.sync);
        out
    }

    fn write_block(&self, records: usize, payload: &[u8], out: &mut Vec<u8>) {
        put_long(out, records);
        put_bytes(out, payload);
        out.extend_from_slice(&self.sync);
    }
}

/// Decompresses a block after those before it, which may come to `limit` bytes together.
fn decompress(codec: &str, stored: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    match codec {
        "null" => {
            out.extend_from_slice(stored);
            Ok(())
        }
        "deflate" => append(flate2::read::DeflateDecoder::new(stored), limit, out),
        "zstandard" => {
            let decoder = zstd::Decoder::new(stored).map_err(|e| format!("a block does not decompress: {e}"))?;
            append(decoder, limit, out)
        }
        "snappy" => append_snappy(stored, limit, out),
        other => Err(format!("its codec `{other}` is not known")),
    }
}

fn append(from: impl Read, limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let room = limit.saturating_sub(out.len());
    let read = from.take(room as u64 + 1).read_to_end(out).map_err(|e| format!("a block does not decompress: {e}"))?;
    if read > room { Err(too_much(limit)) } else { Ok(()) }
}

/// A block of snappy ends in the checksum of what it decodes to.
fn append_snappy(stored: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let damaged = |e: &dyn std::fmt::Display| format!("a block does not decompress: {e}");
    let (stored, sum) = stored.split_last_chunk::<4>().ok_or_else(|| damaged(&"it has no checksum"))?;
    let len = snap::raw::decompress_len(stored).map_err(|e| damaged(&e))?;
    // Snappy makes at most 64 bytes of three.
    if len > limit.saturating_sub(out.len()) || len / 32 > stored.len() {
        return Err(too_much(limit));
    }
    let decoded = snap::raw::Decoder::new().decompress_vec(stored).map_err(|e| damaged(&e))?;
    let mut crc = flate2::Crc::new();
    crc.update(&decoded);
    if crc.sum().to_be_bytes() != *sum {
        return Err(damaged(&"its checksum differs"));
    }
    out.extend_from_slice(&decoded);
    Ok(())
}

fn too_much(limit: usize) -> String {
    format!("its blocks decompress to more than {limit} bytes")
}

/// A file with the same records in blocks that are not compressed.
#[cfg(test)]
pub(crate) fn uncompressed(bytes: &[u8]) -> Vec<u8> {
    let mut file = Cursor::new(bytes);
    let header = Header::read(&mut file).unwrap();
    let mut meta = header.meta.clone();
    meta.insert("avro.codec".to_owned(), b"null".to_vec());
    let mut out = Header { meta, sync: header.sync.clone() }.write();
    while file.left() > 0 {
        let (records, stored) = header.block(&mut file).unwrap();
        let mut payload = Vec::new();
        decompress(header.codec(), stored, DECODED_LIMIT, &mut payload).unwrap();
        header.write_block(records, &payload, &mut out);
    }
    out
}

/// A file with another header.
#[cfg(test)]
pub(super) fn with_meta(bytes: &[u8], change: impl FnOnce(&mut Meta)) -> Vec<u8> {
    let mut file = Cursor::new(bytes);
    let mut header = Header::read(&mut file).unwrap();
    change(&mut header.meta);
    let mut changed = header.write();
    changed.extend_from_slice(file.rest);
    changed
}

/// A file of one block.
#[cfg(test)]
pub(super) fn made_of(meta: &[(&str, &str)], payload: &[u8], records: usize) -> Vec<u8> {
    let meta = meta.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    let header = Header { meta, sync: vec![7; 16] };
    let mut out = header.write();
    header.write_block(records, payload, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(codec: &str, payload: &[u8], records: usize) -> Vec<u8> {
        let schema = r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"long"}}]}"#;
        made_of(&[("avro.schema", schema), ("avro.codec", codec)], payload, records)
    }

    /// Reads a file and steps over its records.
    fn walk(bytes: &[u8]) -> Result<File, String> {
        let file = read(bytes)?;
        let ty = schema(&file.meta)?;
        file.records(|_, at| ty.skip(at))?;
        Ok(file)
    }

    /// Two records: `[1]` and `[]`.
    const RECORDS: &[u8] = &[2, 2, 0, 0];

    #[test]
    fn a_whole_file_passes_with_every_codec() {
        let plain = container("null", RECORDS, 2);
        let deflated = compress(plain.clone());
        let mut snappy = snap::raw::Encoder::new().compress_vec(RECORDS).unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(RECORDS);
        snappy.extend(crc.sum().to_be_bytes());
        let zstd = zstd::encode_all(RECORDS, 1).unwrap();
        assert_ne!(plain, deflated);
        for file in [&plain, &deflated, &container("snappy", &snappy, 2), &container("zstandard", &zstd, 2)] {
            let file = walk(file).unwrap();
            assert_eq!((file.len(), file.payload.as_slice()), (2, RECORDS));
        }
        *snappy.last_mut().unwrap() ^= 1;
        assert!(walk(&container("snappy", &snappy, 2)).unwrap_err().contains("checksum"));
        assert!(walk(&container("bzip2", RECORDS, 2)).unwrap_err().contains("bzip2"));
    }

    #[test]
    fn what_is_absurd_is_refused_before_it_is_reserved() {
        let mut payload = Vec::new();
        put_long(&mut payload, 500_000_000);
        let error = walk(&container("null", &payload, 1)).unwrap_err();
        assert_eq!(error, "500000000 items are announced in 0 bytes");
        let error = walk(&container("null", RECORDS, 1 << 40)).unwrap_err();
        assert_eq!(error, "1099511627776 records are announced in 4 bytes");
        assert!(
            walk(&container("snappy", &[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0], 1)).unwrap_err().contains("more than")
        );
    }

    #[test]
    fn a_small_file_does_not_decode_to_a_huge_one() {
        let zeros = zstd::encode_all(std::io::repeat(0).take(64 << 20), 1).unwrap();
        assert!(zeros.len() < 10_000);
        let error = walk(&container("zstandard", &zeros, 1)).unwrap_err();
        assert!(error.contains("more than"), "{error}");
        let few = zstd::encode_all(std::io::repeat(0).take(60_000), 1).unwrap();
        let error = walk(&container("zstandard", &few, 60_000)).unwrap_err();
        assert_eq!(error, format!("60000 records are announced in {} bytes", few.len()));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let file = container("null", RECORDS, 2);
        for cut in 0..file.len() {
            let whole_blocks = cut == file.len() - (1 + 1 + RECORDS.len() + 16);
            assert_eq!(walk(&file[..cut]).is_ok(), whole_blocks, "cut at {cut}");
        }
    }

    #[test]
    fn a_block_must_end_with_its_records() {
        assert_eq!(walk(&container("null", &[0, 0], 1)).unwrap_err(), "a block holds 1 bytes more than its records");
        assert!(walk(&container("null", &[2, 2], 2)).unwrap_err().starts_with("it ends too early"));
    }

    #[test]
    fn records_know_where_they_start() {
        let file = read(&container("null", RECORDS, 2)).unwrap();
        let ty = schema(&file.meta).unwrap();
        let mut starts = Vec::new();
        file.records(|start, at| {
            starts.push(start);
            ty.skip(at)
        })
        .unwrap();
        assert_eq!(starts, [0, 3]);
    }

    #[test]
    fn names_become_legal_the_way_others_spell_them() {
        assert_eq!(legal_name("created-at_day"), "created_x2Dat_day");
        assert_eq!(legal_name("1st"), "_1st");
        assert_eq!(legal_name("é"), "_xE9");
        assert_eq!(legal_name("plain_1"), "plain_1");
    }
}
