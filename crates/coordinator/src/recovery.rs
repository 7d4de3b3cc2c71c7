//! Recovery: runs that lost their workers or spent their attempts are found, judged, and submitted again within limits.
//!
//! ```text
//!   a run ends ─► note, in the same commit                                 notes
//!   note due ─► candidate, evaluation                                      carry/recovery
//!   evaluation leased ─► action named ─► checked against the policy        recoverer or a worker, carry/recovery
//!   action ─► new runs, linked to those that failed                        recoverer, forking
//! ```
//!
//! Rules are in [`verdict::recovery`]. Which policies there are is known in memory ([`directory`]), so a store without policies
//! pays nothing. What the coordinator does itself ([`recoverer`]) it does as any worker and client would: by leases, reports and
//! submissions.

mod directory;
#[cfg(feature = "http")]
mod forking;
mod notes;
#[cfg(feature = "http")]
pub(crate) mod recoverer;
mod view;

pub(crate) use self::directory::{Policies, RecoveryDirectory};
pub(crate) use self::notes::of_end;
pub(crate) use self::view::candidate_view;
#[cfg(feature = "http")]
pub(crate) use self::view::policy_view;
pub(crate) use self::view::{action_of, action_view};
