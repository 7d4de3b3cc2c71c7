//! Replays the corpora of the fuzzer.
#![expect(clippy::unwrap_used, reason = "a test fails where it is surprised")]

mod corpora;
