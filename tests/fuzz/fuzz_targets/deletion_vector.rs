#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daygrain::fuzzing::deletion_vector(bytes));
