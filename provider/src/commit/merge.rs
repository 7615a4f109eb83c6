//! Which manifests are worth making one of?
//!
//! ```text
//! newest …………………………………………………… oldest
//! [ m m m m m m ]  [ m m m ▆▆ ] [ ▇▇ ]   ▆▆▆▆▆  ▇▇▇▇▇
//!   open bin: when    full bins: now     half the target or more: left alone
//!   it holds 100
//! ```
//!
//! The policy of the reference implementation: pack from the old end, keep the bin of the newest manifests until it
//! holds enough of them. One thing differs: a manifest of half the target's size is done. Without that, a full
//! manifest is written again with each commit as long as a small one fits beside it.

use std::collections::BTreeMap;

use iceberg::spec::{ManifestContentType, ManifestFile, TableMetadata};

use super::property;

/// The properties that rule merging, with the defaults of the reference implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enabled: bool,
    /// Manifests that make it worth to merge the newest ones.
    pub(super) min_count: usize,
    /// Bytes of a manifest.
    pub(super) target: u64,
}

impl Policy {
    pub(super) fn of(metadata: &TableMetadata) -> Self {
        Policy {
            enabled: property(metadata, "commit.manifest-merge.enabled", true),
            min_count: property(metadata, "commit.manifest.min-count-to-merge", 100),
            target: property(metadata, "commit.manifest.target-size-bytes", 8 << 20),
        }
    }

    /// Which of `manifests` (newest first) to merge: disjoint groups of two or more data manifests of one spec, each in
    /// the given order.
    pub(super) fn plan(self, manifests: &[ManifestFile]) -> Vec<Vec<usize>> {
        if !self.enabled {
            return Vec::new();
        }
        let mut by_spec: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (i, manifest) in manifests.iter().enumerate() {
            if manifest.content == ManifestContentType::Data && weight(manifest) < self.target / 2 {
                by_spec.entry(manifest.partition_spec_id).or_default().push(i);
            }
        }
        by_spec.into_values().flat_map(|candidates| self.pack(manifests, &candidates)).collect()
    }

    fn pack(self, manifests: &[ManifestFile], candidates: &[usize]) -> Vec<Vec<usize>> {
        let mut merged = Vec::new();
        let mut bin = Vec::new();
        let mut filled = 0;
        for &i in candidates.iter().rev() {
            let bytes = manifests.get(i).map_or(0, weight);
            if filled + bytes > self.target && !bin.is_empty() {
                merged.push(std::mem::take(&mut bin));
                filled = 0;
            }
            bin.push(i);
            filled += bytes;
        }
        if bin.len() >= self.min_count {
            merged.push(bin);
        }
        merged.retain(|bin| bin.len() > 1);
        merged.iter_mut().for_each(|bin| bin.reverse());
        merged
    }
}

fn weight(manifest: &ManifestFile) -> u64 {
    u64::try_from(manifest.manifest_length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest(spec: i32, bytes: i64) -> ManifestFile {
        ManifestFile {
            manifest_path: String::new(),
            manifest_length: bytes,
            partition_spec_id: spec,
            content: ManifestContentType::Data,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(1),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    const POLICY: Policy = Policy { enabled: true, min_count: 3, target: 100 };

    fn plan(sizes: &[i64]) -> Vec<Vec<usize>> {
        POLICY.plan(&sizes.iter().map(|bytes| manifest(0, *bytes)).collect::<Vec<_>>())
    }

    #[test]
    fn the_newest_wait_until_there_are_enough() {
        assert_eq!(plan(&[1, 1]), Vec::<Vec<usize>>::new());
        assert_eq!(plan(&[1, 1, 1]), [[0, 1, 2]]);
    }

    #[test]
    fn a_full_bin_is_merged_at_once() {
        assert_eq!(plan(&[40, 40, 40]), [[1, 2]]);
    }

    #[test]
    fn half_the_target_is_done() {
        assert_eq!(plan(&[1, 50, 1, 99, 1]), [[0, 2, 4]]);
    }

    #[test]
    fn deletes_and_other_specs_stay_apart() {
        let mut manifests = vec![manifest(0, 1), manifest(1, 1), manifest(0, 1), manifest(1, 1), manifest(0, 1)];
        assert_eq!(POLICY.plan(&manifests), [[0, 2, 4]]);
        manifests[2].content = ManifestContentType::Deletes;
        assert_eq!(POLICY.plan(&manifests), Vec::<Vec<usize>>::new());
    }

    proptest! {
        #[test]
        fn groups_are_disjoint_and_fit_their_target(sizes in prop::collection::vec((0..3, 0i64..120), 0..40)) {
            let manifests: Vec<_> = sizes.iter().map(|(spec, bytes)| manifest(*spec, *bytes)).collect();
            let mut seen = std::collections::HashSet::new();
            for group in POLICY.plan(&manifests) {
                prop_assert!(group.len() > 1);
                prop_assert!(group.iter().map(|i| weight(&manifests[*i])).sum::<u64>() <= POLICY.target);
                prop_assert!(group.iter().all(|i| manifests[*i].partition_spec_id == manifests[group[0]].partition_spec_id));
                prop_assert!(group.iter().all(|i| seen.insert(*i)));
            }
        }
    }
}
