//! What of a lost commit can go?

use futures::{FutureExt, StreamExt};
use object_store::ObjectStoreExt;

use crate::error::{Code, Error, Result};
use crate::storage::Env;

/// Deletes at a time.
const PARALLEL: usize = 8;

/// Files that provably no table refers to.
#[derive(Debug)]
pub struct Reclaimable(Vec<String>);

impl Reclaimable {
    /// Who calls this vouches for it: the commit that names these files is proven lost.
    pub(super) fn new(locations: Vec<String>) -> Self {
        Reclaimable(locations)
    }

    /// Locations of the files.
    pub fn locations(&self) -> &[String] {
        &self.0
    }

    /// Deletes the files and returns how many there were. All are tried; the first failure is reported.
    ///
    /// # Errors
    /// The store's, with the number of files that stayed.
    pub async fn reclaim(self, env: &Env) -> Result<u64> {
        let all = self.0.len();
        let failed = delete(env, self.0).await;
        let deleted = all - failed.len();
        match failed.into_iter().next() {
            Some((location, e)) => Err(Error::new(e.code(), "files of a lost commit could not be deleted")
                .with("first", location)
                .with("left", all - deleted)
                .help("they take room and do no harm; a removal of orphan files finds them")
                .source(e)),
            None => Ok(deleted as u64),
        }
    }
}

/// Deletes files; those that are not there are deleted. Returns the ones that stayed.
pub(super) async fn delete(env: &Env, locations: Vec<String>) -> Vec<(String, Error)> {
    let delete_one = |location: String| async move {
        let located = match env.stores.resolve(&location) {
            Ok(located) => located,
            Err(e) => return Some((location, e)),
        };
        match located.store.delete(&located.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => None,
            Err(e) => {
                let error = crate::storage::error(&location, e);
                if error.code() == Code::FileNotFound {
                    return None;
                }
                tracing::warn!(file = location, cause = %error, "a file of a lost commit could not be deleted");
                Some((location, error))
            }
        }
    };
    // Boxed and collected: the compiler can't see that the future of a borrowing closure may be sent.
    let deletions: Vec<_> = locations.into_iter().map(|location| delete_one(location).boxed()).collect();
    futures::stream::iter(deletions)
        .buffer_unordered(PARALLEL)
        .filter_map(futures::future::ready)
        .collect()
        .await
}
