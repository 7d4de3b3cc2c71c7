//! Turns of a role that processes outside of the server take: what they are told, what they may decide, and why a decision is
//! refused.
//!
//! A process decides and never writes: a decision has no word for another status, another revision or another author, and the
//! changes that follow from it are made by the functions that make those of the server's own roles
//! ([`crate::roles::scheduler::decided`], [`crate::gate::decided`], [`crate::roles::unclaimed::of_role`]).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::deployment::{
    Artifact, ArtifactRef, Event, GateReason, TerminalReason, WorkOrder, word,
};
use crate::gate;
use crate::query::Answer;
use crate::roles::scheduler;

/// What a role decides in one turn.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "decision", rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum Decision {
    /// A scheduler makes the work order of the event.
    Order {
        take: Vec<Taken>,
        snapshot: Value,
    },
    /// A scheduler ends the event without a work order.
    End {
        reason: TerminalReason,
    },
    /// A scheduler blocks the artifact of the event, which has unresolved blockers.
    Block,
    /// A gate asks judges or people, by the names of the checks.
    Ask {
        checks: Vec<String>,
    },
    Pass,
    Fail {
        reasons: Vec<GateReason>,
    },
    /// A readiness emits, or a review moves, what it has to for this artifact.
    Go {
        artifact: ArtifactRef,
        revision: u64,
    },
}

/// An artifact that a work order takes, at the revision that was read.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    pub artifact: ArtifactRef,
    pub revision: u64,
}

impl Decision {
    pub(crate) fn order(taken: &[&Artifact], snapshot: Value) -> Self {
        let take = |it: &&Artifact| Taken { artifact: it.name.clone(), revision: it.revision };
        Self::Order { take: taken.iter().map(take).collect(), snapshot }
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Order { take, .. } => match take.first() {
                Some(first) => format!("order work for {}", first.artifact),
                None => "order work".to_owned(),
            },
            Self::End { reason } => format!("end with {}", word(reason)),
            Self::Block => "block the artifact".to_owned(),
            Self::Ask { checks } => format!("ask {}", checks.join(", ")),
            Self::Pass => "pass".to_owned(),
            Self::Fail { reasons } => {
                let named: Vec<&str> = reasons.iter().map(|it| it.check.as_str()).collect();
                format!("fail for {}", named.join(", "))
            }
            Self::Go { artifact, .. } => format!("go on with {artifact}"),
        }
    }
}

/// Why the decision of an outside process is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// What the process read has changed: it should read again.
    Stale(String),
    /// It may not decide this.
    NotAllowed(String),
    /// What it says has a wrong shape.
    Invalid(String),
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Stale(why) | Self::NotAllowed(why) | Self::Invalid(why)) = self;
        f.write_str(why)
    }
}

/// What a scheduler is told in one turn.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTurn {
    pub deployment: String,
    pub event: Event,
    /// The event's artifact, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Artifact>,
    /// Artifacts that could be taken together with it, oldest first.
    pub pending: Vec<Artifact>,
    /// The artifacts of each declared list, in order.
    pub lists: Vec<Vec<Artifact>>,
    /// What other deployments answered.
    pub answers: Vec<Answer>,
    /// Whether its work order exists.
    pub is_ordered: bool,
    /// The server's time, in milliseconds since 1970.
    pub now: u64,
}

impl EventTurn {
    #[must_use]
    pub fn read(&self) -> scheduler::Read<'_> {
        scheduler::Read {
            deployment: &self.deployment,
            event: &self.event,
            subject: self.subject.as_ref(),
            pending: self.pending.iter().collect(),
            lists: self.lists.iter().map(|list| list.iter().collect()).collect(),
            answers: self.answers.clone(),
            is_ordered: self.is_ordered,
            now: self.now,
        }
    }
}

/// What a gate is told in one turn: the work order has its output, and what judges and people have answered so far.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderTurn {
    pub work_order: WorkOrder,
    /// The artifacts of the work order that exist.
    pub artifacts: Vec<Artifact>,
    /// The server's time, in milliseconds since 1970.
    pub now: u64,
}

impl OrderTurn {
    #[must_use]
    pub fn read(&self) -> gate::Read<'_> {
        gate::Read {
            work_order: &self.work_order,
            recorded: false,
            artifacts: self.artifacts.iter().collect(),
            now: self.now,
        }
    }
}

/// What a readiness or a review is told in one turn.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactTurn {
    pub artifact: Artifact,
    /// The server's time, in milliseconds since 1970.
    pub now: u64,
}
