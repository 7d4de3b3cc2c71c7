//! Effects: calls to the outside that a decision asked for, and how they are delivered.
//!
//! An effect is written with the decision that asked for it and delivered afterwards. Effects of one endpoint and aggregate
//! form a [`Line`]: they are numbered without gaps in the order of their decisions, and only the head of a line is ever
//! sent (S2-76, R-21). A line moves on when its head is settled: delivered, or given up where the endpoint says so.
//!
//! This module has the shapes and the rules, of effects alone. [`decide::Outbox`] is their owner: what it decides are
//! [`EffectEvent`]s, which have no room for a task, so the delivery of an effect cannot change a run (S2-14, S2-77) and
//! cannot ask for another effect (S2-79).
//!
//! Invariants:
//! - one intent is one effect: its id is made of what asked for it, and its body never changes;
//! - at most one effect of a line is in flight, under a fence that grows with every claim;
//! - what is settled by a fence that is no longer current changes nothing;
//! - every effect ends delivered or dead with a reason, or waits for a person as unknown; none disappears (D2).

pub mod claim;
pub mod decide;
pub mod endpoint;
pub mod event;
pub mod intent;
pub mod line;
pub mod state;
pub mod terms;
pub mod watch;

pub use claim::{Claim, Sent};
pub use decide::{EffectRequest, Reconciled, append, decide};
pub use endpoint::{Endpoint, EndpointStatus, wants};
pub use event::{EffectEvent, EffectRefusal, EffectVerdict, Standing};
pub use intent::{Declared, EffectId, Intent};
pub use line::{Line, LineId};
pub use state::{DeadReason, Effect, EffectState};
pub use terms::{EffectTerms, OnDead};
pub use watch::Watch;
