//! What engines share so that all of them answer alike, in this crate or outside of it.
//!
//! Nothing here reads or writes. How many bytes a page holds is in [`crate::row_size`].

pub use crate::administration::audit_conflict;
pub use crate::rules::{known as known_rules, unknown as unknown_rules};
