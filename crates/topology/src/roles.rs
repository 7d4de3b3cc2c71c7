//! The logic of the roles, shared by every topology: what a role read goes in, the changes it proposes come out.
//!
//! Each function is idempotent: applied to what its own changes made, it proposes nothing. So a role may poll at any
//! interval, be repeated after a crash, and run in many processes. Nothing here claims, waits or writes.

pub mod deadlines;
pub mod readiness;
pub mod review;
pub mod runner;
pub mod scheduler;
pub mod unclaimed;
pub mod unprocessed;
