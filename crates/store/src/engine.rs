//! What engines share, inside this crate or outside, so that all of them answer alike.
//!
//! Nothing here reads or writes. The size of a page in bytes is in [`crate::row_size`].

pub use crate::administration::audit_conflict;
pub use crate::rules::{known as known_rules, unknown as unknown_rules};
