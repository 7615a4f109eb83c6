//! Has this metadata file been parsed before?

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use iceberg::spec::TableMetadata;
use parking_lot::Mutex;

use super::parse;
use crate::error::Result;

/// The metadata files that were parsed last, within a limit of bytes of their text. Clones share them.
///
/// A file is known again by its location *and* its bytes: a table that was dropped and made anew begins again at the same
/// name.
#[derive(Clone)]
pub struct Parsed(Arc<Shared>);

struct Shared {
    limit: usize,
    /// Last used last.
    files: Mutex<VecDeque<File>>,
}

struct File {
    location: String,
    bytes: Bytes,
    metadata: Arc<TableMetadata>,
}

impl Parsed {
    /// Remembers files of at most `limit` bytes together.
    pub fn new(limit: usize) -> Self {
        Parsed(Arc::new(Shared { limit, files: Mutex::default() }))
    }

    /// The metadata in `bytes`, which were read from `location`.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn get(&self, location: &str, bytes: &Bytes) -> Result<Arc<TableMetadata>> {
        if let Some(metadata) = self.0.known(location, bytes) {
            return Ok(metadata);
        }
        let metadata = Arc::new(parse(location, bytes)?);
        self.0.remember(File {
            location: location.to_owned(),
            // A copy: what was read may be a small part of a large buffer.
            bytes: Bytes::copy_from_slice(bytes),
            metadata: Arc::clone(&metadata),
        });
        Ok(metadata)
    }
}

impl Shared {
    fn known(&self, location: &str, bytes: &Bytes) -> Option<Arc<TableMetadata>> {
        let mut files = self.files.lock();
        let at = files.iter().position(|file| file.location == location && file.bytes == *bytes)?;
        let file = files.remove(at)?;
        let metadata = Arc::clone(&file.metadata);
        files.push_back(file);
        Some(metadata)
    }

    fn remember(&self, file: File) {
        let mut files = self.files.lock();
        files.retain(|other| other.location != file.location);
        files.push_back(file);
        let mut size: usize = files.iter().map(|file| file.bytes.len()).sum();
        while size > self.limit
            && let Some(oldest) = files.pop_front()
        {
            size -= oldest.bytes.len();
        }
    }
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed").field("files", &self.0.files.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(columns: &str) -> Bytes {
        let fields: Vec<String> = (1..=columns.len())
            .zip(columns.chars())
            .map(|(id, name)| format!(r#"{{"id":{id},"name":"{name}","type":"int","required":false}}"#))
            .collect();
        let json = format!(
            r#"{{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"memory:///t",
            "last-sequence-number":0,"last-updated-ms":0,"last-column-id":9,"current-schema-id":0,
            "schemas":[{{"type":"struct","schema-id":0,"fields":[{}]}}],"default-spec-id":0,
            "partition-specs":[{{"spec-id":0,"fields":[]}}],"last-partition-id":999,"default-sort-order-id":0,
            "sort-orders":[{{"order-id":0,"fields":[]}}]}}"#,
            fields.join(",")
        );
        Bytes::from(json)
    }

    #[test]
    fn the_same_file_is_parsed_once() {
        let parsed = Parsed::new(1 << 20);
        let first = parsed.get("v1", &text("a")).unwrap();
        assert!(Arc::ptr_eq(&first, &parsed.get("v1", &text("a")).unwrap()));
    }

    #[test]
    fn another_file_of_the_same_name_is_another_table() {
        let parsed = Parsed::new(1 << 20);
        parsed.get("v1", &text("a")).unwrap();
        let second = parsed.get("v1", &text("b")).unwrap();
        assert!(second.current_schema().field_by_name("b").is_some());
        assert_eq!(parsed.0.files.lock().len(), 1);
    }

    #[test]
    fn the_limit_is_of_bytes() {
        let parsed = Parsed::new(text("a").len() * 2);
        for name in ["v1", "v2", "v1", "v3"] {
            parsed.get(name, &text("a")).unwrap();
        }
        let names: Vec<String> = parsed.0.files.lock().iter().map(|file| file.location.clone()).collect();
        assert_eq!(names, ["v1", "v3"]);
    }

    #[test]
    fn what_cannot_be_parsed_is_not_remembered() {
        let parsed = Parsed::new(1 << 20);
        assert!(parsed.get("v1", &Bytes::from_static(b"{")).is_err());
        assert!(parsed.0.files.lock().is_empty());
    }
}
