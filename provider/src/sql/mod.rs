//! How does SQL text become a plan that means what it says?

pub mod names;
pub mod timestamps;
