//! Which metadata file is the newest of a table that is known by its path only?
//!
//! ```text
//! hint says 7 ─▶ v7 is there, v8 too ─▶ v9? no ─▶ v8          each version in three spellings, all asked for at once
//! no hint, or what it names is gone ─▶ list, highest number
//! ```

use std::sync::Arc;

use bytes::Bytes;
use futures::future::{join_all, try_join};
use iceberg::spec::TableMetadata;

use super::{Parsed, fetch, parse};
use crate::error::{Code, Error, Result};
use crate::storage::Stores;

/// How metadata files may end: plain, and both spellings of compressed ones.
const ENDINGS: [&str; 3] = [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"];

/// Loads a table by the path of its directory or of one metadata file (`CREATE EXTERNAL TABLE … STORED AS ICEBERG`).
/// Returns the metadata file's location and the metadata.
///
/// A hint is only a hint: files after the one it names are looked for, and without it the directory is listed.
///
/// # Errors
/// `unknown_table` if there is no metadata, `ambiguous_name` if two files claim the highest version, and those of
/// [`parse`].
// @spec C1
pub async fn open(stores: &Stores, location: &str) -> Result<(String, TableMetadata)> {
    let (location, bytes) = find(stores, location).await?;
    let metadata = parse(&location, &bytes)?;
    Ok((location, metadata))
}

/// The same of what may have been parsed before.
///
/// # Errors
/// As [`open`].
pub async fn open_again(stores: &Stores, location: &str, parsed: &Parsed) -> Result<(String, Arc<TableMetadata>)> {
    let (location, bytes) = find(stores, location).await?;
    let metadata = parsed.get(&location, &bytes)?;
    Ok((location, metadata))
}

/// The newest metadata file, as it was read.
async fn find(stores: &Stores, location: &str) -> Result<(String, Bytes)> {
    let location = location.trim_end_matches('/');
    let name = location.rsplit('/').next().unwrap_or(location);
    let found = if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        fetch(stores, location).await?.map(|bytes| (location.to_owned(), bytes))
    } else {
        newest(stores, location).await?
    };
    found.ok_or_else(|| {
        Error::new(Code::UnknownTable, "there is no table metadata at this location")
            .with("location", location)
            .help("name the directory that holds the table's `metadata` directory, or one `….metadata.json` file")
    })
}

async fn newest(stores: &Stores, table: &str) -> Result<Option<(String, Bytes)>> {
    if let Some(found) = by_hint(stores, table).await? {
        return Ok(Some(found));
    }
    match by_listing(stores, table).await? {
        Some(name) => Ok(fetch(stores, &name).await?.map(|bytes| (name, bytes))),
        None => Ok(None),
    }
}

async fn by_hint(stores: &Stores, table: &str) -> Result<Option<(String, Bytes)>> {
    let Some(hint) = fetch(stores, &format!("{table}/metadata/version-hint.text")).await? else { return Ok(None) };
    let hint = String::from_utf8_lossy(&hint);
    let hint = hint.trim();
    let Ok(mut version) = hint.parse::<u64>() else {
        // Some catalogs write the file's name, with or without its ending; never a path.
        if hint.is_empty() || hint.contains('/') {
            return Ok(None);
        }
        for name in ENDINGS.iter().map(|ending| format!("{hint}{ending}")).chain([hint.to_owned()]) {
            let name = format!("{table}/metadata/{name}");
            if let Some(bytes) = fetch(stores, &name).await? {
                return Ok(Some((name, bytes)));
            }
        }
        return Ok(None);
    };
    // Mostly the hint is right: both questions at once are one round trip.
    let after = version.saturating_add(1);
    let (found, next) = try_join(numbered(stores, table, version), numbered(stores, table, after)).await?;
    let Some(mut newest) = found else { return Ok(None) };
    let mut next = next.filter(|_| after > version);
    version = after;
    while let Some(found) = next {
        newest = found;
        let Some(after) = version.checked_add(1) else { break };
        version = after;
        next = numbered(stores, table, version).await?;
    }
    Ok(Some(newest))
}

async fn numbered(stores: &Stores, table: &str, version: u64) -> Result<Option<(String, Bytes)>> {
    let names = ENDINGS.map(|ending| format!("{table}/metadata/v{version}{ending}"));
    let found = join_all(names.iter().map(|name| fetch(stores, name))).await;
    // As if they were asked for in turn: what comes after the one that is there doesn't matter.
    for (name, bytes) in names.into_iter().zip(found) {
        if let Some(bytes) = bytes? {
            return Ok(Some((name, bytes)));
        }
    }
    Ok(None)
}

async fn by_listing(stores: &Stores, table: &str) -> Result<Option<String>> {
    let directory = format!("{table}/metadata");
    let located = stores.resolve(&directory)?;
    let listed: Vec<_> = match located.store.list_with_delimiter(Some(&located.path)).await {
        Ok(listed) => listed.objects,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(crate::storage::error(&directory, e)),
    };
    let names = listed.iter().filter_map(|object| object.location.filename());
    let mut versions: Vec<(u64, &str)> = names.filter_map(|name| Some((version_of(name)?, name))).collect();
    versions.sort_unstable();
    match versions.as_slice() {
        [] => Ok(None),
        [.., (a, first), (b, second)] if a == b => {
            Err(Error::new(Code::AmbiguousName, "two metadata files of this table have the highest version")
                .with("directory", &directory)
                .with("files", format!("{first}, {second}"))
                .help("name one of them: only the table's catalog knows which was committed"))
        }
        [.., (_, name)] => Ok(Some(format!("{directory}/{name}"))),
    }
}

/// The number in `v12.metadata.json` or `00012-<uuid>.metadata.json`.
fn version_of(name: &str) -> Option<u64> {
    // The longer endings first: `.metadata.json` is the end of one of them.
    let stem = ENDINGS.iter().rev().find_map(|ending| name.strip_suffix(ending))?;
    let digits = match stem.strip_prefix('v') {
        Some(digits) => digits,
        None => stem.split_once('-')?.0,
    };
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        for (name, version) in [
            ("v9.metadata.json", Some(9)),
            ("v10.gz.metadata.json", Some(10)),
            ("v11.metadata.json.gz", Some(11)),
            ("00012-2d907d9d-0f96-4bf3-9548-edfd9194704c.metadata.json", Some(12)),
            ("v3.2.metadata.json", None),
            ("v.metadata.json", None),
            ("snap-12-1-a.avro", None),
            ("version-hint.text", None),
        ] {
            assert_eq!(version_of(name), version, "{name}");
        }
    }
}
