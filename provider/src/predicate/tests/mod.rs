//! The guarantees, as properties against the engine's own evaluation; the cases that people reported against other engines,
//! as examples.

mod cases;
mod cycles;
mod engine;
mod facts;
mod functions;
mod nested;
mod partitions;
mod shown;
mod support;
mod transforms;
