//! A try: who may make it and until when, and what came of it.

use crate::time::{Span, Time};

/// How long a claim holds. The call itself ends within 15 seconds, so a claim that runs out belongs to a sender that died.
pub const CLAIM: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Larger than every earlier one of the effect.
    pub fence: u64,
    pub until: Time,
}

/// What a sender knows after its try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// The receiver answered with this status.
    Status { code: u16, retry_after: Option<Span> },
    /// Nothing reached the receiver.
    Unreached,
    /// The receiver may have the request: no status came back.
    Unanswered,
    /// The sender gave its claim back before it tried.
    Untried,
}

impl Sent {
    /// A success, or a receiver that says it has the effect already.
    pub(super) const fn is_delivered(self) -> bool {
        matches!(self, Sent::Status { code: 200..=299 | 409, .. })
    }

    /// The receiver said that it is gone for ever.
    pub const fn is_gone(self) -> bool {
        matches!(self, Sent::Status { code: 410, .. })
    }

    pub(super) const fn retry_after(self) -> Option<Span> {
        match self {
            Sent::Status { retry_after, .. } => retry_after,
            Sent::Unreached | Sent::Unanswered | Sent::Untried => None,
        }
    }
}
