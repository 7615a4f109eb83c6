//! A table that lives elsewhere: `CREATE EXTERNAL TABLE … STORED AS ICEBERG`.

use std::sync::Arc;

use datafusion::catalog::TableProvider;

use super::provider::{Access, IcebergTable};
use crate::catalog::Base;
use crate::commit::Committer;
use crate::error::Result;
use crate::metadata::{self, Parsed, Relocation};

/// Where an external Iceberg table is. It is opened anew for each statement, so that each reads the newest snapshot.
#[derive(Clone, Debug)]
pub struct External {
    name: String,
    location: String,
    relocate: bool,
    /// Its metadata as it was read last: mostly it is the newest still.
    parsed: Parsed,
}

/// Bytes of the metadata that is remembered, as text.
const REMEMBERED: usize = 16 << 20;

impl External {
    /// The table `name` at `location`: its directory, or one of its metadata files (which pins it).
    /// With `relocate`, files are read below that directory although the metadata names another root.
    pub fn new(name: String, location: String, relocate: bool) -> Self {
        External { name, location, relocate, parsed: Parsed::new(REMEMBERED) }
    }

    /// Opens the table at its newest snapshot.
    ///
    /// # Errors
    /// Whatever [`metadata::open`] refuses.
    pub async fn open(&self, committer: &Committer) -> Result<Arc<dyn TableProvider>> {
        let (location, metadata) = metadata::open_again(&committer.env.stores, &self.location, &self.parsed).await?;
        let base = Base { metadata, location, version: 0 };
        let mut view = IcebergTable::view_of(self.name.clone(), &base, committer)?;
        if self.relocate {
            let relocation = relocation(&base);
            view.manifests = view.manifests.relocated(relocation.clone());
            view.relocate = Some(relocation);
        }
        let access = Access::ReadOnly("it was registered with CREATE EXTERNAL TABLE, which reads only");
        Ok(Arc::new(IcebergTable::new(view, access)))
    }
}

/// From the root the metadata names to the root it was found under: `<root>/metadata/<file>`.
fn relocation(base: &Base) -> Relocation {
    let file = base.location.rsplit_once('/').map_or(base.location.as_str(), |(directory, _)| directory);
    let root = file.strip_suffix("/metadata").unwrap_or(file);
    Relocation { from: base.metadata.location().trim_end_matches('/').to_owned(), to: root.to_owned() }
}
