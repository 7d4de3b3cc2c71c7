//! Calls `hostile::plan` with generated inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::plan(bytes));
