//! What a role may decide, with a type for each logic: a gate cannot order work, and a scheduler cannot pass an output.

use serde::Serialize;
use wire::Json;

use super::told::{Artifact, ArtifactTurn};
use crate::Error;

/// What a scheduler decides about an event.
///
/// Where the rows say how an event ends, it has to end so: its artifact is gone ([`Missing`](EndReason::MissingArtifact)), has
/// moved on, is taken, or is blocked. In every other case the event asks for a work order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
#[must_use = "nothing is decided until it is returned"]
pub struct SchedulerDecision(Scheduled);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "decision", rename_all = "SCREAMING_SNAKE_CASE")]
enum Scheduled {
    Order { take: Vec<Taken>, snapshot: Json },
    End { reason: EndReason },
    Block,
}

/// An artifact at the revision that was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Taken {
    artifact: Named,
    revision: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Named {
    r#type: String,
    id: String,
}

impl Taken {
    fn of(artifact: &Artifact) -> Taken {
        let Artifact { artifact_type, id, revision, .. } = artifact;
        Taken {
            artifact: Named { r#type: artifact_type.clone(), id: id.clone() },
            revision: *revision,
        }
    }
}

/// Why an event ends without a work order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum EndReason {
    /// Its artifact does not exist.
    MissingArtifact,
    /// Its artifact has moved on.
    NonExecutableStatus,
    /// Its work order exists, or another one has taken its artifact.
    NothingPending,
}

impl SchedulerDecision {
    /// Orders the work of the event. `snapshot` is everything that the executor is told.
    ///
    /// A work order [takes](SchedulerDecision::take) the artifact of the event first, if the event has one.
    pub fn order(snapshot: &(impl Serialize + ?Sized)) -> Result<SchedulerDecision, Error> {
        let snapshot = Json::from_value(snapshot)
            .map_err(|why| Error::Setup(format!("the snapshot has no JSON form: {why}")))?;
        Ok(SchedulerDecision(Scheduled::Order { take: Vec::new(), snapshot }))
    }

    /// Takes an artifact, as far as the declared `collect` allows. Only a work order takes any.
    pub fn take(mut self, artifact: &Artifact) -> SchedulerDecision {
        if let Scheduled::Order { take, .. } = &mut self.0 {
            take.push(Taken::of(artifact));
        }
        self
    }

    /// Ends the event without a work order.
    pub fn end(reason: EndReason) -> SchedulerDecision {
        SchedulerDecision(Scheduled::End { reason })
    }

    /// Blocks the artifact of the event, which has unresolved blockers.
    pub fn block() -> SchedulerDecision {
        SchedulerDecision(Scheduled::Block)
    }
}

/// What a gate decides about an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[must_use = "nothing is decided until it is returned"]
pub struct GateDecision(Judged);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "SCREAMING_SNAKE_CASE")]
enum Judged {
    Pass,
    Fail { reasons: Vec<GateReason> },
    Ask { checks: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct GateReason {
    check: String,
    message: String,
}

impl GateDecision {
    /// The output passes. The server refuses that unless every declared check holds.
    pub fn pass() -> GateDecision {
        GateDecision(Judged::Pass)
    }

    /// The output fails, for a reason that may be the gate's own.
    pub fn fail(check: impl Into<String>, message: impl Into<String>) -> GateDecision {
        let reasons = vec![GateReason { check: check.into(), message: message.into() }];
        GateDecision(Judged::Fail { reasons })
    }

    /// A further reason of a fail. It makes a pass or a question a fail.
    pub fn and(self, check: impl Into<String>, message: impl Into<String>) -> GateDecision {
        let GateDecision(Judged::Fail { mut reasons }) = self else {
            return GateDecision::fail(check, message);
        };
        reasons.push(GateReason { check: check.into(), message: message.into() });
        GateDecision(Judged::Fail { reasons })
    }

    /// Asks the judges or people of these declared checks, whose turn it is. The gate gets another turn when they have answered.
    pub fn ask<C: Into<String>>(checks: impl IntoIterator<Item = C>) -> GateDecision {
        GateDecision(Judged::Ask { checks: checks.into_iter().map(Into::into).collect() })
    }
}

/// What a readiness or a review decides about an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "nothing is decided until it is returned"]
pub enum ArtifactDecision {
    /// The event is emitted, or the artifact is moved, as the topology declares it.
    Go,
}

#[derive(Serialize)]
#[serde(tag = "decision", rename_all = "SCREAMING_SNAKE_CASE")]
enum Watched {
    Go(Taken),
}

impl ArtifactDecision {
    /// The decision names the artifact at the revision that the turn told.
    pub(super) fn about(self, turn: &ArtifactTurn) -> impl Serialize + use<> {
        let ArtifactDecision::Go = self;
        Watched::Go(Taken::of(&turn.artifact))
    }
}
