//! What was looked at, what was kept, and why was the rest skipped?
//!
//! A [`Tally`] belongs to one level of a scan. Skipping and counting are one motion ([`Tally::keep`]), so a count can
//! never disagree with what was done: `total = kept + Σ skipped`.

use std::collections::BTreeMap;
use std::fmt;

/// Why something was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The file stands in a manifest that was skipped.
    Manifest,
    /// The manifest list's partition summaries exclude it.
    PartitionSummary,
    /// The file's partition tuple excludes it.
    Partition,
    /// The file's column bounds or null and NaN counts exclude it.
    ColumnBounds,
    /// The row group's statistics exclude it.
    Statistics,
    /// A bloom filter excludes it.
    BloomFilter,
    /// The page index excludes it.
    PageIndex,
    /// The row filter was false or null.
    Filter,
    /// Enough rows were found.
    Limit,
    /// A filter that was only known while the query ran excludes it.
    DynamicFilter,
    /// A delete file or deletion vector removed it.
    Deleted,
    /// The delete file is in the scope of no data file that is read: other partitions, other paths.
    Scope,
    /// The delete file is older than every data file in its scope that is read.
    SequenceNumber,
    /// A deletion vector stands in for the position delete file.
    Superseded,
    /// The answer came from metadata.
    Metadata,
    /// The bytes belong to another task of the same scan.
    Range,
}

impl Reason {
    /// The stable name, as EXPLAIN prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Manifest => "manifest",
            Reason::PartitionSummary => "partition_summary",
            Reason::Partition => "partition",
            Reason::ColumnBounds => "column_bounds",
            Reason::Statistics => "statistics",
            Reason::BloomFilter => "bloom_filter",
            Reason::PageIndex => "page_index",
            Reason::Filter => "filter",
            Reason::Limit => "limit",
            Reason::DynamicFilter => "dynamic_filter",
            Reason::Deleted => "deleted",
            Reason::Scope => "scope",
            Reason::SequenceNumber => "sequence_number",
            Reason::Superseded => "superseded",
            Reason::Metadata => "metadata",
            Reason::Range => "range",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many things of one level there were, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    kept: u64,
    skipped: BTreeMap<Reason, u64>,
}

impl Tally {
    /// Counts `n` things that are kept.
    pub fn kept_more(&mut self, n: u64) {
        self.kept += n;
    }

    /// Counts `n` things that are skipped for `reason`.
    pub fn skip(&mut self, reason: Reason, n: u64) {
        if n > 0 {
            *self.skipped.entry(reason).or_default() += n;
        }
    }

    /// Keeps what `test` accepts and counts both sides.
    pub fn keep<T>(&mut self, items: Vec<T>, reason: Reason, mut test: impl FnMut(&T) -> bool) -> Vec<T> {
        let before = items.len();
        let kept: Vec<T> = items.into_iter().filter(|item| test(item)).collect();
        self.kept_more(kept.len() as u64);
        self.skip(reason, (before - kept.len()) as u64);
        kept
    }

    /// Moves `n` things that were counted as kept to skipped.
    pub fn demote(&mut self, reason: Reason, n: u64) {
        let n = n.min(self.kept);
        self.kept -= n;
        self.skip(reason, n);
    }

    /// Adds another tally of the same level.
    pub fn merge(&mut self, other: &Tally) {
        self.kept += other.kept;
        for (reason, n) in &other.skipped {
            self.skip(*reason, *n);
        }
    }

    /// All things of the level.
    pub fn total(&self) -> u64 {
        self.kept + self.skipped_total()
    }

    /// Those that were kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Those that were skipped, for whatever reason.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Those that were skipped, by reason.
    pub fn skipped(&self) -> &BTreeMap<Reason, u64> {
        &self.skipped
    }
}

/// `3/58 (partition_summary 55)`: kept of total, with the reasons.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kept, self.total())?;
        for (i, (reason, n)) in self.skipped.iter().enumerate() {
            write!(f, "{}{reason} {n}", if i == 0 { " (" } else { ", " })?;
        }
        if self.skipped.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_and_skipped_add_up() {
        let mut tally = Tally::default();
        let kept = tally.keep((0..58).collect(), Reason::PartitionSummary, |day| *day < 5);
        assert_eq!(kept.len(), 5);
        tally.demote(Reason::ColumnBounds, 2);
        assert_eq!((tally.total(), tally.kept(), tally.skipped_total()), (58, 3, 55));
        assert_eq!(tally.to_string(), "3/58 (partition_summary 53, column_bounds 2)");
    }
}
