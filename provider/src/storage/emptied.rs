//! Which directories did a run make that has deleted its files again?
//!
//! Object stores have none. On a file system a file's directories are made with it and outlive it; those that were there
//! before the run stay, also where they are empty.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path as FsPath, PathBuf};

use super::local::existing_ancestor;

/// The directories below one that was there.
#[derive(Clone, Debug)]
pub struct NewDirectories {
    /// The deepest directory that was there.
    there: PathBuf,
}

impl NewDirectories {
    /// Those that writing files below `location` will make; `None` where the store has no directories.
    pub fn below(location: &str) -> Option<Self> {
        let directory = FsPath::new(location.strip_prefix("file://")?);
        Some(NewDirectories { there: existing_ancestor(&directory.join("file")) })
    }

    /// Removes those above `files` that hold nothing any more. Others may write meanwhile: what is not empty stays.
    pub async fn remove_emptied(&self, files: Vec<String>) {
        let there = self.there.clone();
        let removed = tokio::task::spawn_blocking(move || remove(&there, &files)).await;
        if let Err(error) = removed {
            tracing::debug!(%error, "empty directories were not removed");
        }
    }
}

fn remove(there: &FsPath, files: &[String]) {
    let files = files.iter().filter_map(|file| file.strip_prefix("file://")).map(FsPath::new);
    let parents: BTreeSet<&FsPath> = files.filter_map(FsPath::parent).collect();
    for parent in parents {
        for directory in parent.ancestors().take_while(|directory| *directory != there && directory.starts_with(there))
        {
            // Fails where something is left: then there is something in those above it, too.
            if fs::remove_dir(directory).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_there_stays() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("w/main")).unwrap();
        let location = |name: &str| format!("file://{}/{name}", root.display());
        let new = NewDirectories::below(&location("w/main/t/data")).unwrap();
        fs::create_dir_all(root.join("w/main/t/data/a")).unwrap();
        fs::create_dir_all(root.join("w/main/t/data/b")).unwrap();
        fs::write(root.join("w/main/t/data/b/others"), "x").unwrap();
        new.remove_emptied(vec![location("w/main/t/data/a/1"), location("w/main/t/data/b/2")]).await;
        assert!(!root.join("w/main/t/data/a").exists() && root.join("w/main/t/data/b/others").exists());
        fs::remove_file(root.join("w/main/t/data/b/others")).unwrap();
        new.remove_emptied(vec![location("w/main/t/data/a/1"), location("w/main/t/data/b/2")]).await;
        assert!(!root.join("w/main/t").exists() && root.join("w/main").exists());
        assert!(NewDirectories::below("memory://w/main/t").is_none());
    }
}
