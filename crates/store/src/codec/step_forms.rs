//! The stored form of plans whose steps are tasks of their own: steps, events, messages and the state of roots and steps.
//!
//! The request of a submission leaves its steps out: they have rows of their own ([`crate::runs::StoredStep`]).

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::approval::Terms;
use verdict::plan::{
    Backlog, Blame, EndedStep, PlanMessage, PlanStep, RootState, SpawnedStep, StepTerms, Told,
    ToldTo,
};
use verdict::request::Submit;
use verdict::run::{ChildCall, Lineage};
use verdict::{End, Json, Name, Span, State, TaskId, Time};

use super::approval_forms::{names as api_keys, shared_terms};
use super::plan_forms::optional_halt;
use super::run_forms::{ChildCallForm, LineageForm, boxed_submit, list};
use super::scalars::{as_number, as_text};

fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanStep")]
pub(super) struct PlanStepForm {
    #[serde(with = "ChildCallForm")]
    child: ChildCall,
    /// Left out where another column has them.
    #[serde(with = "names", default = "no_names", skip_serializing_if = "is_empty")]
    upstreams: Arc<[Name]>,
    #[serde(with = "StepTermsForm")]
    terms: StepTerms,
}

fn no_names() -> Arc<[Name]> {
    [].into()
}

fn is_empty(names: &Arc<[Name]>) -> bool {
    names.is_empty()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StepTerms")]
pub(super) struct StepTermsForm {
    #[serde(rename = "continues", default, skip_serializing_if = "is_false")]
    continues_on_error: bool,
    #[serde(rename = "always", default, skip_serializing_if = "is_false")]
    is_always: bool,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    time_limit: Option<Span>,
    #[serde(rename = "references", default, skip_serializing_if = "is_false")]
    has_references: bool,
    #[serde(with = "shared_terms", default, skip_serializing_if = "Option::is_none")]
    asks: Option<Arc<Terms>>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    when: Option<Json>,
    #[serde(default, skip_serializing_if = "is_false")]
    keeps_keys: bool,
    #[serde(with = "api_keys", default, skip_serializing_if = "Vec::is_empty")]
    done_by: Vec<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Blame")]
pub(super) struct BlameForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    state: State,
    #[serde(with = "optional_halt", default, skip_serializing_if = "Option::is_none")]
    halt: Option<Box<End>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "EndedStep")]
pub(super) struct EndedStepForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    state: State,
    #[serde(default, skip_serializing_if = "is_false")]
    blocks: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToldTo", rename_all = "snake_case")]
enum ToldToForm {
    Wait,
    Run,
    Skip,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Told")]
struct ToldForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    id: TaskId,
    missing: u32,
    #[serde(with = "optional_blame", default, skip_serializing_if = "Option::is_none")]
    blame: Option<Blame>,
    #[serde(with = "ToldToForm")]
    to: ToldTo,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SpawnedStep")]
struct SpawnedStepForm {
    #[serde(with = "PlanStepForm")]
    step: PlanStep,
    #[serde(with = "ToldToForm")]
    to: ToldTo,
    #[serde(with = "optional_blame", default, skip_serializing_if = "Option::is_none")]
    blame: Option<Blame>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RootState")]
pub(super) struct RootStateForm {
    steps: u32,
    #[serde(with = "as_number")]
    start: Time,
    spawned: u32,
    #[serde(with = "optional_blame", default, skip_serializing_if = "Option::is_none")]
    blame: Option<Blame>,
    #[serde(with = "backlogs", default, skip_serializing_if = "Vec::is_empty")]
    backlog: Vec<Backlog>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    #[serde(with = "api_keys", default, skip_serializing_if = "Vec::is_empty")]
    done_by: Vec<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Backlog")]
struct BacklogForm {
    #[serde(with = "EndedStepForm")]
    ended: EndedStep,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    after: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanMessage", rename_all = "snake_case")]
pub(super) enum PlanMessageForm {
    Spawn {
        #[serde(with = "boxed_submit")]
        submit: Box<Submit>,
        #[serde(with = "LineageForm")]
        lineage: Lineage,
        #[serde(with = "StepTermsForm")]
        terms: StepTerms,
        #[serde(rename = "blocked", default, skip_serializing_if = "is_false")]
        is_blocked: bool,
    },
    Release {
        #[serde(with = "api_keys", default, skip_serializing_if = "Vec::is_empty")]
        done_by: Vec<Name>,
    },
    Skip {
        #[serde(with = "BlameForm")]
        blame: Blame,
    },
}

/// Names in a list.
pub(super) mod names {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        names: &[Name],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(names.iter().map(Name::as_str))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, L: FromIterator<Name>>(
        from: D,
    ) -> Result<L, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(Name::from).collect())
    }
}

list!(spawned_steps, Vec<SpawnedStep>, SpawnedStep, "SpawnedStepForm");
list!(tolds, Vec<Told>, Told, "ToldForm");
list!(backlogs, Vec<Backlog>, Backlog, "BacklogForm");

super::forms::optional!(optional_blame, Blame, "BlameForm");
