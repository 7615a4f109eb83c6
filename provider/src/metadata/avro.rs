//! Is an Avro file whole, and is it safe to decode?
//!
//! ```text
//! "Obj" 1 │ header map │ sync │ records bytes payload sync │ records bytes payload sync │ …
//! ```
//!
//! The decoder behind the format library trusts lengths it reads (an array that claims 500 million elements reserves
//! room for them) and takes the end of a payload for a null. So every file passes here first: blocks are decompressed
//! under a limit and walked record by record against the writer's schema; each must end exactly where its block does.
//!
//! The same walk lets partition fields keep their values: writers spell a field `created-at_day` as a legal Avro name
//! (`created_x2Dat_day`) while the manifest's `partition-spec` keeps the name as it is, and a decoder that matches
//! names finds nulls. Names are made to agree, by field id.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

use serde_json::Value as Json;

const MAGIC: &[u8] = b"Obj\x01";

/// Bytes that all blocks of one file may decode to. A manifest is cut at 8 MiB as stored; 64 times that leaves room
/// for text that compresses well and still fits a machine.
const DECODED_LIMIT: usize = 512 << 20;

/// A file that passed.
#[derive(Debug)]
pub(super) struct Checked {
    /// The same records, decompressed where the codec is known here, under names that agree.
    pub(super) bytes: Vec<u8>,
    /// The top-level fields of a record, in the writer's spelling.
    pub(super) fields: Vec<String>,
}

/// Checks a whole file. The error says what is wrong with it, without naming the file.
pub(super) fn check(bytes: &[u8]) -> Result<Checked, String> {
    let mut file = Cursor { rest: bytes };
    let mut container = Container::read_header(&mut file)?;
    let mut blocks = Vec::new();
    let mut room = DECODED_LIMIT;
    let shape = container.shape()?;
    while !file.rest.is_empty() {
        let block = container.read_block(&mut file, room)?;
        room = room.saturating_sub(block.payload.len());
        if container.is_plain() {
            let mut payload = Cursor { rest: &block.payload };
            for _ in 0..block.records {
                shape.walk(&mut payload)?;
            }
            if !payload.rest.is_empty() {
                return Err(format!("a block holds {} bytes more than its records", payload.rest.len()));
            }
        }
        blocks.push(block);
    }
    let fields = container.record_fields();
    container.agree_on_partition_names()?;
    if container.is_plain() {
        container.meta.insert("avro.codec".to_owned(), b"null".to_vec());
    }
    Ok(Checked { bytes: container.write(&blocks), fields })
}

/// The same file under the header that `rewrite` makes of its own and of its schema.
pub(super) fn with_header(
    bytes: &[u8],
    rewrite: impl FnOnce(&mut BTreeMap<String, Vec<u8>>, &mut Json) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let mut file = Cursor { rest: bytes };
    let mut container = Container::read_header(&mut file)?;
    rewrite(&mut container.meta, &mut container.schema)?;
    let mut out = container.write(&[]);
    out.extend_from_slice(file.rest);
    Ok(out)
}

/// Re-encodes a file of uncompressed blocks with the codec every reader knows (`deflate`). What cannot be read stays
/// as it is: this is a matter of size only.
pub(super) fn compress(bytes: Vec<u8>) -> Vec<u8> {
    let mut file = Cursor { rest: &bytes };
    let Ok(mut container) = Container::read_header(&mut file) else { return bytes };
    if container.codec() != "null" {
        return bytes;
    }
    let mut blocks = Vec::new();
    while !file.rest.is_empty() {
        let Ok(block) = container.read_block(&mut file, DECODED_LIMIT) else { return bytes };
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        let Ok(payload) = encoder.write_all(&block.payload).and_then(|()| encoder.finish()) else { return bytes };
        blocks.push(Block { records: block.records, payload });
    }
    container.meta.insert("avro.codec".to_owned(), b"deflate".to_vec());
    container.write(&blocks)
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

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| format!("it ends too early: {n} bytes are announced and {} are left", self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A zigzag variable-length integer.
    fn long(&mut self) -> Result<i64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        Err("an integer of more than 64 bits".to_owned())
    }

    fn length(&mut self) -> Result<usize, String> {
        let n = self.long()?;
        usize::try_from(n).map_err(|_| format!("a length of {n}"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let n = self.length()?;
        self.take(n)
    }

    /// The number of items in the next block of an array or map; 0 at its end.
    fn items(&mut self) -> Result<usize, String> {
        let n = self.long()?;
        if n < 0 {
            self.long()?;
        }
        let n = usize::try_from(n.unsigned_abs()).map_err(|_| format!("{n} items"))?;
        // Every item of the files read here takes a byte at least.
        if n > self.rest.len() {
            return Err(format!("{n} items are announced in {} bytes", self.rest.len()));
        }
        Ok(n)
    }
}

struct Block {
    records: usize,
    payload: Vec<u8>,
}

struct Container {
    meta: BTreeMap<String, Vec<u8>>,
    schema: Json,
    sync: Vec<u8>,
    plain: bool,
}

impl Container {
    fn read_header(file: &mut Cursor<'_>) -> Result<Self, String> {
        if file.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err("it is not an Avro file".to_owned());
        }
        let mut meta = BTreeMap::new();
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
        let sync = file.take(16)?.to_vec();
        let schema = meta.get("avro.schema").ok_or("its header has no schema")?;
        let schema = serde_json::from_slice(schema).map_err(|e| format!("its schema is not JSON: {e}"))?;
        let mut container = Container { meta, schema, sync, plain: true };
        container.plain = matches!(container.codec(), "null" | "deflate" | "zstandard");
        Ok(container)
    }

    fn codec(&self) -> &str {
        self.meta.get("avro.codec").and_then(|codec| std::str::from_utf8(codec).ok()).unwrap_or("null")
    }

    /// Whether payloads are decompressed here.
    fn is_plain(&self) -> bool {
        self.plain
    }

    fn read_block(&self, file: &mut Cursor<'_>, room: usize) -> Result<Block, String> {
        let records = file.length()?;
        let payload = file.bytes()?;
        if file.take(self.sync.len())? != self.sync {
            return Err("a block does not end in the file's sync marker".to_owned());
        }
        let payload = match self.codec() {
            "deflate" => read_limited(flate2::read::DeflateDecoder::new(payload), room)?,
            "zstandard" => {
                let decoder = zstd::Decoder::new(payload).map_err(|e| format!("a block does not decompress: {e}"))?;
                read_limited(decoder, room)?
            }
            _ => payload.to_vec(),
        };
        Ok(Block { records, payload })
    }

    fn shape(&self) -> Result<Shape, String> {
        Shape::of(&self.schema, &mut HashMap::new())
    }

    fn record_fields(&self) -> Vec<String> {
        let fields = self.schema.get("fields").and_then(Json::as_array);
        fields.into_iter().flatten().filter_map(|field| Some(field.get("name")?.as_str()?.to_owned())).collect()
    }

    fn agree_on_partition_names(&mut self) -> Result<(), String> {
        let Some(spec) = self.meta.get("partition-spec") else { return Ok(()) };
        let mut spec: Json =
            serde_json::from_slice(spec).map_err(|e| format!("its partition spec is not JSON: {e}"))?;
        let Some(named) = partition_fields(&mut self.schema) else { return Ok(()) };
        for (position, field) in spec.as_array_mut().into_iter().flatten().enumerate() {
            let Some(field) = field.as_object_mut() else { continue };
            // Format version 1 counts partition field ids from 1000 and need not write them.
            let id = field.entry("field-id").or_insert_with(|| Json::from(1000 + position)).clone();
            let in_schema = named.iter_mut().find(|candidate| candidate.get("field-id") == Some(&id));
            let Some(in_schema) = in_schema.and_then(Json::as_object_mut) else { continue };
            let name = legal_name(in_schema.get("name").and_then(Json::as_str).unwrap_or_default());
            in_schema.insert("name".to_owned(), Json::from(name.clone()));
            field.insert("name".to_owned(), Json::from(name));
        }
        self.meta.insert("partition-spec".to_owned(), spec.to_string().into_bytes());
        self.meta.insert("avro.schema".to_owned(), self.schema.to_string().into_bytes());
        Ok(())
    }

    fn write(&self, blocks: &[Block]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_long(&mut out, self.meta.len());
        for (key, value) in &self.meta {
            put_bytes(&mut out, key.as_bytes());
            put_bytes(&mut out, value);
        }
        out.push(0);
        out.extend_from_slice(&self.sync);
        for block in blocks {
            put_long(&mut out, block.records);
            put_bytes(&mut out, &block.payload);
            out.extend_from_slice(&self.sync);
        }
        out
    }
}

/// The fields of the partition tuple in a manifest's schema.
pub(super) fn partition_fields(schema: &mut Json) -> Option<&mut Vec<Json>> {
    fn field<'a>(record: &'a mut Json, name: &str) -> Option<&'a mut Json> {
        let fields = record.get_mut("fields")?.as_array_mut()?;
        let field = fields.iter_mut().find(|field| field.get("name").and_then(Json::as_str) == Some(name))?;
        field.get_mut("type")
    }
    field(field(schema, "data_file")?, "partition")?.get_mut("fields")?.as_array_mut()
}

/// How a value of one type is laid out: enough to step over it.
#[derive(Clone)]
enum Shape {
    Varint,
    Sized(usize),
    Prefixed,
    Array(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    Record(Vec<Shape>),
}

impl Shape {
    /// `named` holds the types that can be referred to by name so far.
    fn of(schema: &Json, named: &mut HashMap<String, Shape>) -> Result<Shape, String> {
        match schema {
            Json::String(name) => match name.as_str() {
                "null" => Ok(Shape::Sized(0)),
                "boolean" => Ok(Shape::Sized(1)),
                "int" | "long" => Ok(Shape::Varint),
                "float" => Ok(Shape::Sized(4)),
                "double" => Ok(Shape::Sized(8)),
                "bytes" | "string" => Ok(Shape::Prefixed),
                other => named.get(other).cloned().ok_or_else(|| format!("its schema names a type `{other}`")),
            },
            Json::Array(variants) => {
                variants.iter().map(|variant| Shape::of(variant, named)).collect::<Result<_, _>>().map(Shape::Union)
            }
            Json::Object(object) => {
                let part = |key: &str| object.get(key).ok_or_else(|| format!("its schema has a type without `{key}`"));
                let shape = match part("type")?.as_str() {
                    Some("record") => {
                        let fields = part("fields")?.as_array().ok_or("its schema has a record without fields")?;
                        let fields =
                            fields.iter().map(|field| Shape::of(field.get("type").unwrap_or(&Json::Null), named));
                        Shape::Record(fields.collect::<Result<_, _>>()?)
                    }
                    Some("array") => Shape::Array(Box::new(Shape::of(part("items")?, named)?)),
                    Some("map") => Shape::Map(Box::new(Shape::of(part("values")?, named)?)),
                    Some("enum") => Shape::Varint,
                    Some("fixed") => {
                        let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                        Shape::Sized(size.ok_or("its schema has a fixed type without a size")?)
                    }
                    _ => Shape::of(part("type")?, named)?,
                };
                if let Some(name) = object.get("name").and_then(Json::as_str) {
                    named.insert(name.to_owned(), shape.clone());
                }
                Ok(shape)
            }
            other => Err(format!("its schema has a type `{other}`")),
        }
    }

    /// Steps over one value.
    fn walk(&self, at: &mut Cursor<'_>) -> Result<(), String> {
        match self {
            Shape::Varint => at.long().map(|_| ()),
            Shape::Sized(n) => at.take(*n).map(|_| ()),
            Shape::Prefixed => at.bytes().map(|_| ()),
            Shape::Array(item) => walk_items(at, |at| item.walk(at)),
            Shape::Map(value) => walk_items(at, |at| at.bytes().and_then(|_| value.walk(at))),
            Shape::Union(variants) => {
                let variant = at.length()?;
                variants.get(variant).ok_or_else(|| format!("a union has no variant {variant}"))?.walk(at)
            }
            Shape::Record(fields) => fields.iter().try_for_each(|field| field.walk(at)),
        }
    }
}

fn walk_items(at: &mut Cursor<'_>, mut item: impl FnMut(&mut Cursor<'_>) -> Result<(), String>) -> Result<(), String> {
    loop {
        let items = at.items()?;
        if items == 0 {
            return Ok(());
        }
        for _ in 0..items {
            item(at)?;
        }
    }
}

fn read_limited(from: impl Read, limit: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read =
        from.take(limit as u64 + 1).read_to_end(&mut out).map_err(|e| format!("a block does not decompress: {e}"))?;
    if read > limit {
        return Err(format!("its blocks decompress to more than {DECODED_LIMIT} bytes"));
    }
    Ok(out)
}

fn put_long(out: &mut Vec<u8>, n: usize) {
    // Lengths of things in memory: they fit 63 bits.
    let mut zigzag = (n as u64) << 1;
    while zigzag >= 0x80 {
        out.push((zigzag & 0x7f) as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A file with another header.
#[cfg(test)]
pub(super) fn with_meta(bytes: &[u8], change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) -> Vec<u8> {
    let mut file = Cursor { rest: bytes };
    let mut container = Container::read_header(&mut file).unwrap();
    change(&mut container.meta);
    let mut changed = container.write(&[]);
    changed.extend_from_slice(file.rest);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(schema: &str, payload: &[u8], records: usize) -> Vec<u8> {
        let meta = BTreeMap::from([("avro.schema".to_owned(), schema.as_bytes().to_vec())]);
        let container = Container { meta, schema: Json::Null, sync: vec![7; 16], plain: true };
        container.write(&[Block { records, payload: payload.to_vec() }])
    }

    const LONGS: &str =
        r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"long"}}]}"#;

    #[test]
    fn a_whole_file_passes_compressed_or_not() {
        let file = container(LONGS, &[4, 2, 4, 0, 0], 2);
        let checked = check(&file).unwrap();
        assert_eq!(checked.fields, ["a"]);
        let small = compress(file.clone());
        assert_ne!(small, file);
        assert_eq!(check(&small).unwrap().bytes, checked.bytes);
    }

    #[test]
    fn an_absurd_array_is_refused_before_it_is_reserved() {
        let mut payload = Vec::new();
        put_long(&mut payload, 500_000_000);
        let error = check(&container(LONGS, &payload, 1)).unwrap_err();
        assert_eq!(error, "500000000 items are announced in 0 bytes");
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let file = container(LONGS, &[4, 2, 4, 0, 0], 2);
        for cut in 0..file.len() {
            let whole_blocks = cut == file.len() - (1 + 1 + 5 + 16);
            assert_eq!(check(&file[..cut]).is_ok(), whole_blocks, "cut at {cut}");
        }
    }

    #[test]
    fn a_block_must_end_with_its_records() {
        assert_eq!(check(&container(LONGS, &[0, 0], 1)).unwrap_err(), "a block holds 1 bytes more than its records");
        assert_eq!(
            check(&container(LONGS, &[0], 2)).unwrap_err(),
            "it ends too early: 1 bytes are announced and 0 are left"
        );
    }

    #[test]
    fn names_become_legal_the_way_others_spell_them() {
        assert_eq!(legal_name("created-at_day"), "created_x2Dat_day");
        assert_eq!(legal_name("1st"), "_1st");
        assert_eq!(legal_name("é"), "_xE9");
        assert_eq!(legal_name("plain_1"), "plain_1");
    }
}
