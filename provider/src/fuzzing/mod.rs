//! What happens to inputs that nobody wrote by hand?
//!
//! Each function takes the bytes of one input through the library's own code and panics where a promise is broken: no panic
//! within, errors with a code that says what is wrong, and no row lost to pruning. `tests/fuzz` calls them with inputs that
//! a fuzzer makes, the tests below with those that were kept (`tests/fuzz/corpus`). They exist in such builds only.

#![expect(clippy::unwrap_used, reason = "a broken promise is told by a panic")]

mod deletes;
mod files;
mod filter;
mod metadata;
mod rows;
#[cfg(test)]
mod seeds;
mod table;

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

pub use deletes::deletion_vector;
pub use filter::filter;
pub use metadata::{manifest, manifest_list, table_metadata};

use crate::error::{Code, Error};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().unwrap());

/// What a damaged file of metadata may lead to.
const DAMAGED: [Code; 7] = [
    Code::MetadataCorrupt,
    Code::MetadataVersionUnsupported,
    Code::ManifestCorrupt,
    Code::DeleteFileCorrupt,
    Code::UnsupportedType,
    Code::UnsupportedLocation,
    Code::NotSupported,
];

/// The result, if there is one; an error has to be one of the codes.
fn allowed<T>(result: Result<T, Error>, codes: &[Code]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(codes.contains(&error.code()), "not an error that was expected: {error:?}");
            // A panic of a decoder comes out as an error.
            assert!(!format!("{error}").contains("its decoder failed"), "a decoder panicked: {error:?}");
            None
        }
    }
}
