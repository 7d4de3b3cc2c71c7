//! A checker that was never seen to fail proves nothing: every invariant has histories that it must refuse.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod histories;
mod program;
mod search;
