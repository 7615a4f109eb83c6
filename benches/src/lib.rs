//! The reference dataset on disk, and the engines that are measured side by side.

#![expect(clippy::expect_used, clippy::panic, reason = "a measurement that cannot go on ends")]

pub mod compare;
pub mod data;
pub mod duck;
pub mod engines;
pub mod measure;
pub mod planning;
pub mod remote;
pub mod synthetic;
