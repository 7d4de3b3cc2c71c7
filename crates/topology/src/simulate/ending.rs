//! What a simulation reports: everything that happened, how it ended, and what waits for a person.

use std::fmt;

use serde::Serialize;

use super::world::World;
use crate::check::Topology;
use crate::claim::Claim;
use crate::deployment::{ArtifactRef, Deployment, GateResult, word};
use crate::proposal::{Change, Setback};
use crate::span::Span;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Milliseconds since the start.
    pub at: u64,
    pub who: String,
    pub what: String,
}

impl Entry {
    /// `None` for bookkeeping that no reader asks about.
    pub(super) fn of(at: u64, who: &str, change: &Change) -> Option<Self> {
        let what = match change {
            Change::Emit(event) => format!("emitted {}", event.id),
            Change::Process { event, reason } => format!("processed {event}: {reason}"),
            Change::Artifact(change) => {
                format!("moved {} to {}", change.artifact, change.to.as_ref()?)
            }
            Change::Create { artifact, .. } => format!("created {artifact}"),
            Change::Order(order) => format!("ordered {} for {}", order.id, order.kind),
            Change::Setback { work_order, setback: Setback::Raised } => {
                format!("the executor of {work_order} raised")
            }
            Change::Setback { work_order, setback: Setback::Lost } => {
                format!("the executor of {work_order} vanished")
            }
            Change::Output { work_order, bundle } => {
                format!("executed {work_order}: {}", word(&bundle.execution_status))
            }
            Change::Ask { work_order, check } => format!("asked {check} about {work_order}"),
            Change::Answer { work_order, check, .. } => {
                format!("answered {check} about {work_order}")
            }
            Change::Record(record) => {
                let reasons: Vec<String> = record
                    .gate_reasons
                    .iter()
                    .map(|it| format!("{}: {}", it.check, it.message))
                    .collect();
                let reasons = if reasons.is_empty() {
                    String::new()
                } else {
                    format!(": {}", reasons.join("; "))
                };
                format!("judged {}: {}{reasons}", record.work_order, word(&record.gate_result))
            }
            Change::Pause(pause) => format!("paused {}: {}", pause.id, pause.actions.join("; ")),
        };
        Some(Self { at, who: who.to_owned(), what })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8}  {}: {}", Span::from_ms(self.at).to_string(), self.who, self.what)
    }
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    pub about: String,
    pub why: String,
    /// One to three, the most important first.
    pub actions: Vec<String>,
}

/// An artifact that did not end as the script expects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmet {
    pub artifact: String,
    pub expected: String,
    /// `None` if it does not exist.
    pub found: Option<String>,
}

/// The whole result of a simulation.
#[derive(Debug, Clone)]
pub struct Report {
    pub ended_at: u64,
    /// The number of turns after which it was stopped although more was to happen; `None` if it ended by itself.
    pub cut_after: Option<u64>,
    pub deployment: Deployment,
    pub claims: Vec<Claim>,
    pub log: Vec<Entry>,
    pub inbox: Vec<InboxItem>,
    /// Proposals that were not committed. They changed nothing.
    pub refused: Vec<String>,
    pub unmet: Vec<Unmet>,
}

impl Report {
    /// How many work orders passed and failed their gates.
    #[must_use]
    pub fn gates(&self) -> (usize, usize) {
        let records = self.deployment.run_records.values();
        let passed = records.filter(|record| record.gate_result == GateResult::Pass).count();
        (passed, self.deployment.run_records.len() - passed)
    }
}

/// What waits for a person: reviews, confirmations, questions of gates, and pause states.
#[must_use]
pub(super) fn inbox(topology: &Topology, deployment: &Deployment) -> Vec<InboxItem> {
    let mut items: Vec<InboxItem> = Vec::new();
    for artifact in deployment.artifacts.values() {
        let declared = topology.artifact(&artifact.name.kind);
        let transitions = declared.map(|it| it.transitions.as_slice()).unwrap_or_default();
        let review =
            transitions.iter().find(|it| it.from == artifact.status && it.by == "approval");
        if let Some(review) = review {
            let why = format!("waits for approval of {} → {}", review.from, review.to);
            let actions = vec![format!("Approve {} → {}, or leave it", review.from, review.to)];
            items.push(InboxItem { about: artifact.name.to_string(), why, actions });
        }
        if let Some(passed) = &artifact.passed {
            let why = format!("passed its gate with {passed} and waits to be confirmed");
            items.push(InboxItem {
                about: artifact.name.to_string(),
                why,
                actions: vec!["Confirm or refuse it".to_owned()],
            });
        }
    }
    for pause in deployment.pauses.values() {
        let about = pause.subject.as_ref().map_or_else(|| pause.id.clone(), ToString::to_string);
        items.push(InboxItem { about, why: pause.id.clone(), actions: pause.actions.clone() });
    }
    items
}

impl World<'_> {
    pub(super) fn report(self) -> Report {
        let unmet = self.script.expect.iter().filter_map(|(name, expected)| {
            let (kind, id) = name.split_once('/').unwrap_or((name, ""));
            let reference = ArtifactRef { kind: kind.to_owned(), id: id.to_owned() };
            let found = self.deployment.artifacts.get(&reference).map(|it| it.status.clone());
            (found.as_ref() != Some(expected)).then(|| Unmet {
                artifact: name.clone(),
                expected: expected.clone(),
                found,
            })
        });
        Report {
            ended_at: self.now,
            cut_after: self.is_cut.then_some(self.script.turns),
            unmet: unmet.collect(),
            inbox: inbox(self.topology, &self.deployment),
            claims: self.claims.into_values().collect(),
            deployment: self.deployment,
            log: self.log,
            refused: self.refused,
        }
    }
}
