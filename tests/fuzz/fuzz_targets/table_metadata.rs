#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daygrain::fuzzing::table_metadata(bytes));
