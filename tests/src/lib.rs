//! Fixtures that tests and benches share: the reference dataset, stores that count and fail, a row-by-row
//! oracle, the shell as a program.

#![expect(clippy::expect_used, clippy::panic, reason = "fixtures fail a test by panicking")]

pub mod oracle;
pub mod reference;
pub mod shell;
pub mod stores;
