//! The kit itself: a subject that does what it should passes, and one that does not is noticed.
//!
//! The subject here is a shell of a worker, written in this file and started as a process of this test's own binary: the
//! kit cannot depend on an SDK. That the Rust SDK conforms is tested where that SDK is.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod kit;
