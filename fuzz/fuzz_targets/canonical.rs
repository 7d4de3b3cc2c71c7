//! Drives `hostile::canonical` with inputs of the fuzzer's own.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::canonical(bytes));
