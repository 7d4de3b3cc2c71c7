//! What the evidence speaks for, and how strongly. A suggestion binds nobody: evaluations and people may name another action.

use super::{Action, Signature, Terms};
use crate::done::{Category, Reason};

/// Certainty, in thousandths.
pub const CONFIDENCE_MAX: u16 = 1_000;

/// Without people, runs are submitted only by somebody who is at least so sure (A2-16).
pub const AUTOMATIC_MIN: u16 = 800;

/// From so many runs on, lost workers are the fault of the machines and not of one run.
const SEVERAL: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suggestion {
    /// Always one that the policy allows.
    pub action: Action,
    /// In thousandths, at most [`CONFIDENCE_MAX`].
    pub confidence: u16,
    pub because: Because,
}

/// What a suggestion rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Because {
    /// Several runs lost their workers.
    SeveralLostWorkers,
    /// One run lost its workers again and again: it may be what ends them.
    OneLostWorkers,
    /// What the runs need was not there, or was slow.
    Transient,
    /// The code or its data failed each time.
    Repeated,
}

impl Because {
    pub const ALL: [Because; 4] = [
        Because::SeveralLostWorkers,
        Because::OneLostWorkers,
        Because::Transient,
        Because::Repeated,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Because::SeveralLostWorkers => "several_lost_workers",
            Because::OneLostWorkers => "one_lost_workers",
            Because::Transient => "transient",
            Because::Repeated => "repeated",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|because| because.name() == name)
    }
}

impl Suggestion {
    /// For this many runs that failed alike, at the `attempt`-th candidate of their signature.
    pub fn of(signature: &Signature, runs: u64, attempt: u32, terms: &Terms) -> Self {
        let because = because(signature, runs);
        let (wanted, confidence) = match because {
            Because::SeveralLostWorkers => (Action::Retry, 900),
            Because::Transient => (Action::Retry, 850),
            Because::OneLostWorkers => (Action::Retry, 500),
            Because::Repeated => (Action::Escalate, 700),
        };
        // What did not help is less likely to help once more.
        let confidence = confidence >> attempt.saturating_sub(1).min(9);
        Self { action: allowed(wanted, terms), confidence, because }
    }
}

fn because(signature: &Signature, runs: u64) -> Because {
    let is_lost = matches!(
        signature.reason,
        Reason::HeartbeatTimeout
            | Reason::Undelivered
            | Reason::Stalled
            | Reason::ReleasesExhausted
    );
    match signature.category {
        _ if is_lost && runs >= SEVERAL => Because::SeveralLostWorkers,
        _ if is_lost => Because::OneLostWorkers,
        Some(Category::Infrastructure | Category::Timeout) => Because::Transient,
        Some(Category::UserCode | Category::DataQuality | Category::Configuration) | None => {
            Because::Repeated
        }
    }
}

/// The wanted action, or the nearest that the policy allows.
fn allowed(wanted: Action, terms: &Terms) -> Action {
    let order: &[Action] = match wanted {
        Action::Retry | Action::Continue => {
            &[Action::Retry, Action::Continue, Action::Escalate, Action::Notify]
        }
        Action::Escalate | Action::Notify | Action::Skip => &[Action::Escalate, Action::Notify],
    };
    order.iter().copied().find(|action| terms.allows(*action)).unwrap_or(Action::Skip)
}

/// What the built-in evaluation names: the suggestion where it is sure enough, and otherwise people, as far as the policy
/// allows it (A2-16).
pub fn automatic(suggestion: Suggestion, terms: &Terms) -> Action {
    if suggestion.action.forks() && suggestion.confidence < AUTOMATIC_MIN {
        return allowed(Action::Escalate, terms);
    }
    suggestion.action
}
