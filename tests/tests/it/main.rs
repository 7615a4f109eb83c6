//! Whole stories through the public API and the shell: from rows to a table, and back.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod cases;
mod concurrent;
mod corrupt;
mod differential;
mod engines;
mod far;
mod faults;
mod fixtures;
mod foreign;
mod lab;
mod ledger;
mod moving;
mod ordered;
mod partitioned;
mod real_input;
mod slt;
mod travel;
