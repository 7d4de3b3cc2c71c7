//! Durable runs in a store: what a batch looks up, what it saves, and saved messages.
//!
//! What is stored of a run follows from the events of its decisions ([`RunRows`]), so a change carries no rows of its
//! own, except for the steps of a plan, which are a payload of its submission ([`StoredStep`]). What a request names is derived by the rules ([`verdict::run::Named`]). Nothing here decides anything.
//!
//! A plain task pays for none of this: it has no rows, its columns are NULL, and a batch without run requests executes
//! no further statement.

#[cfg(feature = "postgres")]
pub(crate) mod long_waits;
mod lookup;
mod messages;
pub(crate) mod records;
mod rows;
pub(crate) mod steps;

pub use lookup::RunLookup;
pub use messages::{
    DeferredMessage, MESSAGES_MAX, MessageChanges, MessageKey, ParkedMessage, SavedMessage,
};
pub use records::{RecordsOf, RunRecord};
pub use rows::{EndedChild, RunRows, StoredChild, StoredSignal};
pub use steps::{CountedStep, StoredStep};
