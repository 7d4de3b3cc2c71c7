//! The corpora of the fuzzer, replayed.
#![expect(clippy::unwrap_used, reason = "a test fails where it is surprised")]

mod corpora;
