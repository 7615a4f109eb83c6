//! The reference dataset on disk, and the engines that are measured side by side.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on ends")]

pub mod data;
pub mod engines;
pub mod measure;
pub mod planning;
pub mod synthetic;
