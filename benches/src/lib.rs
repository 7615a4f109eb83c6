//! The reference dataset on disk, and the engines that are measured side by side.

pub mod data;
pub mod engines;
pub mod measure;
