//! Which name is meant?
