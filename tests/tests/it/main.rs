//! Whole stories through the public API and the shell: from rows to a table, and back.

mod cases;
mod concurrent;
mod differential;
mod engines;
mod faults;
mod lab;
mod ledger;
mod real_input;
