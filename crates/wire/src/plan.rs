//! The language of plans: what a run does, declared in YAML or JSON instead of coded in a durable function.
//!
//! ```yaml
//! steps:
//!   - key: fetch
//!     kind: http.get
//!     queue: io
//!     input: { url: "https://example.org" }
//!   - key: publish
//!     kind: publish
//!     queue: io
//!     dependsOn: [fetch]
//!     input: { body: { $from: fetch, path: /body } }
//! ```
//!
//! Without `dependsOn` in any step the steps run one after the other, as stages of one task. With it, each step is a task, and runs
//! when the steps that it names have ended; a step without `dependsOn` starts at once.
//!
//! [`Plan::compile`] is the one check, for submissions and for people who write plans: it reports all that is wrong, and
//! names step and member. [`references`] has the notation for outputs of earlier steps. Nothing here decides how a plan runs.
//!
//! Invariants of a plan that compiles: keys are unique, every name in `dependsOn` is another step, no step depends on itself
//! through any path, and every reference names a step that has ended before the referring step starts.

mod compile;
pub mod condition;
mod graph;
mod problem;
mod raw;
pub mod references;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

pub use self::compile::{Compiled, PlanForm};
pub use self::problem::{PROBLEMS_MAX, PlanProblem};
pub use self::references::{Reference, Unresolved, resolve};
use crate::approvals::ApprovalTerms;
use crate::requests::{Retry, SubmitRun};
use crate::{Json, OnError};

/// Maximum stages of one task: they are loaded with the task at every decision. A longer sequence is a durable function, or a
/// plan with `dependsOn`.
pub const STAGES_MAX: usize = 100;
/// Maximum steps of a plan with `dependsOn`: each is a task of the run, and all of them are written in one commit, for which
/// everybody waits.
pub const STEPS_MAX: usize = 2_000;
/// Maximum entries of all `dependsOn` together: five steps that depend on two thousand others.
pub const EDGES_MAX: usize = 10_000;
/// Maximum steps on the longest path. A failure at its beginning is passed on step by step.
pub const PATH_MAX: usize = 1_000;

/// The kind of a step that asks people.
pub const APPROVAL_KIND: &str = "approval";
/// The queue of a step that asks people, in a plan of nothing but such steps.
const APPROVAL_QUEUE: &str = "approvals";

/// The steps of a run, fixed when it is submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
}

/// One step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanStep {
    /// Names the step in this plan, in references and in the output of the run.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: String,
    /// What a worker must be able to do. Required, unless the step asks people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: String,
    /// Where the step waits for a worker. Required, unless the step asks people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub queue: String,
    /// The step asks people instead of a worker: it succeeds when they approve, and fails when they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalTerms>,
    /// Passed to the worker, with every reference `{"$from": …}` replaced by what it refers to; null when absent.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub input: Json,
    /// The steps that must end before this one starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    /// The step runs only if this holds, and is skipped otherwise: a condition over states and outputs of earlier steps, such as
    /// `{"path": "check.output.total", "op": "at-least", "value": 1000}`. Steps that depend on it run nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Json>,
    /// What a failure of this step means for the plan; `retry` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// How many attempts may report a failure before the step fails; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub max_attempts: Option<u32>,
    /// How many attempts may be lost with their worker before the step fails; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub lost_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long a worker may go without a heartbeat; 90000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 2000, maximum = 86400000))]
    pub lease_ms: Option<u64>,
    /// The interval between heartbeats of a worker; a third of `leaseMs` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 500, maximum = 600000))]
    pub heartbeat_interval_ms: Option<u64>,
    /// How long a worker may take to stop after a cancel; 30000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 3600000))]
    pub cancel_grace_ms: Option<u64>,
    /// How long the step may take, from the moment at which it may start. The deadline of the run stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub deadline_ms: Option<u64>,
    /// What the step may use at most of the run's budget. In a plan with `dependsOn` it is promised when the plan is submitted, and
    /// what was not used comes back; without `dependsOn` it only bounds the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// The step runs whatever happened before it: after failures, at the end of the run's deadline, after a cancel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// The step judges the one before it, so a worker does not get it together with the answer to its own report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
}

/// What one step may spend at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ceiling {
    /// Money, in millionths of the currency unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tool_calls: Option<u64>,
    /// Recorded steps of a durable function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub steps: Option<u64>,
}

impl Plan {
    /// The queue of a step. One that asks people is found where the plan's first worker is.
    pub fn queue_of<'a>(&'a self, step: &'a PlanStep) -> &'a str {
        let mut queues = [step].into_iter().chain(&self.steps).map(|step| step.queue.as_str());
        queues.find(|queue| !queue.is_empty()).unwrap_or(APPROVAL_QUEUE)
    }
}

impl PlanStep {
    pub fn kind(&self) -> &str {
        if self.approval.is_some() { APPROVAL_KIND } else { &self.kind }
    }

    /// The step as a run of its own: what both have is checked and filled in the same way.
    pub fn as_run(&self) -> SubmitRun {
        SubmitRun {
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            input: self.input.clone(),
            max_attempts: self.max_attempts,
            lost_max: self.lost_max,
            lease_ms: self.lease_ms,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
            cancel_grace_ms: self.cancel_grace_ms,
            deadline_ms: self.deadline_ms,
            retry: self.retry.clone(),
            ..SubmitRun::default()
        }
    }

    /// The references in what people are asked, and in the input.
    pub fn references(&self) -> Vec<Reference> {
        self.written().flat_map(|(_, written)| references::of(written)).collect()
    }

    /// What may have references, each with its member.
    fn written(&self) -> impl Iterator<Item = (&'static str, &Json)> {
        let asked = self.approval.as_ref();
        let content = asked.and_then(|terms| terms.content.as_ref());
        let subject = asked.and_then(|terms| terms.subject_from.as_ref());
        let of = |member: &'static str, json| Option::map(json, |json| (member, json));
        [
            Some(("input", &self.input)),
            of("approval.content", content),
            of("approval.subjectFrom", subject),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether outputs of earlier steps are read before the step begins: for its condition, or for what people are asked.
    pub fn is_prepared(&self) -> bool {
        self.when.is_some() || self.composes()
    }

    /// Whether what people are asked is composed when they are asked.
    pub fn composes(&self) -> bool {
        self.written().any(|(member, written)| {
            member == "approval.subjectFrom"
                || (member == "approval.content" && !references::of(written).is_empty())
        })
    }

    pub fn on_error(&self) -> OnError {
        self.on_error.unwrap_or(OnError::Retry)
    }
}

/// The output of a plan: the map of step key to output, in the order of the plan (S2-84). Steps without an output are left out.
///
/// ```
/// use wire::{Json, plan::output};
/// let one = Json::from_text("1.0".to_owned()).unwrap();
/// assert_eq!(output([("a", Some(&one)), ("b", None)]).text(), r#"{"a":1.0}"#);
/// ```
pub fn output<'a>(steps: impl IntoIterator<Item = (&'a str, Option<&'a Json>)>) -> Json {
    let mut text = String::from("{");
    for (key, output) in steps {
        let Some(output) = output else { continue };
        let comma = if text.len() > 1 { "," } else { "" };
        let key = serde_json::Value::from(key);
        write!(text, "{comma}{key}:{}", output.text()).expect("a string takes everything");
    }
    text.push('}');
    Json::from_text(text).expect("members of valid JSON make a valid object")
}
