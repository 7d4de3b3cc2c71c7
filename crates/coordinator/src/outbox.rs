//! The outbox: what leaves the coordinator leaves as decided, in order, and is recorded once.
//!
//! ```text
//!   a decision ─► intents ─► lines and effects, in the same commit        endings, carry/effects
//!   feed, scan ─► agenda ─► claim ─► sign, send ─► settle                 deliverer
//!   an outcome, or a wait ─► watch ─► signal to the task that waits       teller
//! ```
//!
//! Rules are in [`verdict::effect`]. Here is who subscribes to ends ([`directory`]), what an end says ([`endings`]), and
//! the delivery: candidates in memory ([`agenda`]), claims and settlements as decisions about objects ([`claims`]), and the
//! loop that sends ([`deliverer`]). Nothing there decides about a task: a call about objects cannot name one (S2-14, S2-77).
//! A task that waits for an effect is told by another loop ([`teller`]), with a request to the task that its own rules decide.
//!
//! Memory holds hints only. What it forgets is found in the store by status; whether an effect may be sent is decided
//! under the lock of its row.

#[cfg(feature = "http")]
pub(crate) mod administer;
#[cfg(feature = "http")]
mod agenda;
#[cfg(feature = "http")]
pub(crate) mod claims;
#[cfg(feature = "http")]
pub(crate) mod deliverer;
mod directory;
mod endings;
mod feed;
pub(crate) mod questions;
#[cfg(feature = "http")]
pub(crate) mod secrets;
#[cfg(feature = "http")]
pub(crate) mod teller;

pub(crate) use self::directory::{EndpointDirectory, Endpoints};
pub(crate) use self::endings::of_end;
#[cfg(feature = "http")]
pub(crate) use self::feed::Candidate;
pub(crate) use self::feed::{EffectFeed, is_of_feed};
pub(crate) use self::questions::of_approvals;
