//! How are more rows sorted than fit in memory?
//!
//! ```text
//! rows ─▶ buffer ─ full ─▶ sort ─▶ run on disk ┐
//!            └─ end ─▶ sort ─▶ out             ├─▶ merge, 64 at a time ─▶ out
//!                                          …  ┘
//! ```
//!
//! The engine's own sort counts rows, not bytes: a batch of its merge is 8192 rows however large they are, and each
//! run keeps two of them in memory, twice. With rows of 1.8 kB that is 60 MB a run, with messages of ten megabytes more
//! than any machine has; and when two sorts merge in one pool, the first takes what the second needs and the second
//! fails. Here every batch is bounded in bytes, each task has a share of the pool that it never exceeds by more than a
//! batch, and when the pool is full it spills instead of failing.
//!
//! Keys are compared in Arrow's row format, computed once a row and pass; rows are moved once per pass.

mod exec;
mod merge;
mod sorter;

pub(super) use self::exec::ExternalSortExec;

#[cfg(test)]
mod tests;
