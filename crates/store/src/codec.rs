//! The stored format of decisions: short, readable JSON for history rows and for the few columns
//! that hold more than one value.
//!
//! The mirror types in [`forms`] define the stored format. The types of the rules never derive it, so a
//! changed rule cannot change a stored row by accident, and a new field does not compile until its stored
//! form is defined. [`payload_digest`] avoids storing payloads twice, and [`delta`] avoids repeating the
//! request. The most common entries are packed instead ([`inline_history`]), and so are policies
//! and stages ([`packed_terms`]).

mod approval_forms;
mod budget_forms;
mod budget_pack;
mod build_forms;
pub(crate) mod delta;
mod effect_forms;
mod flow_forms;
mod forms;
mod inherit_forms;
pub mod inline_history;
pub(crate) mod outcome_word;
mod pack;
pub mod packed_terms;
pub mod payload_digest;
mod plan_forms;
mod plan_pack;
mod recovery_forms;
mod run_delta;
mod run_forms;
mod run_pack;
mod run_payloads;
mod scalars;
mod schedule_forms;
mod scope_budget_forms;
mod spec_form;
mod step_forms;

use serde::{Deserialize, Serialize};
use verdict::plan::{Blame, PlanStep};
use verdict::recovery::{Candidate, FailedRun, RecoveryPolicy, Word};
use verdict::run::{Awaited, Body, Recorded, RunState, Waiting};
use verdict::schedule::Schedule;
use verdict::scope_budget::ScopeBudget;
use verdict::{CancelRequest, Event, Fault, Name, Policy, Progress, Request};

use self::approval_forms::ApprovalBodyForm;
use self::forms::{
    CancelRequestForm, EventForm, FaultForm, PolicyForm, ProgressForm, RenewalsForm, RequestForm,
    ResourcesForm,
};
use self::recovery_forms::{CandidateForm, FailedRunForm, RecoveryPolicyForm, WordForm};
use self::run_forms::{AwaitedForm, BodyForm, RecordedForm, RunStateForm, WaitingForm};
use self::schedule_forms::ScheduleForm;
use self::scope_budget_forms::ScopeBudgetForm;
use self::spec_form::SpecForm;
use self::step_forms::{BlameForm, PlanStepForm, names};
use crate::objects::ApprovalBody;
use crate::row::{Renewals, Resources, Spec};

/// A stored text that this codec does not write.
#[derive(Debug, thiserror::Error)]
#[error("a stored {what} cannot be read")]
pub struct Unreadable {
    pub what: &'static str,
    #[source]
    source: serde_json::Error,
}

/// A type with a stored form.
pub trait Stored: Sized {
    fn write(&self) -> String;
    fn read(text: &str) -> Result<Self, Unreadable>;
}

macro_rules! stored {
    ($type:ty, $form:literal, $what:literal) => {
        impl Stored for $type {
            fn write(&self) -> String {
                #[derive(Serialize)]
                struct Form<'a>(#[serde(with = $form)] &'a $type);
                serde_json::to_string(&Form(self)).expect("forms have only text keys")
            }

            fn read(text: &str) -> Result<Self, Unreadable> {
                #[derive(Deserialize)]
                struct Form(#[serde(with = $form)] $type);
                serde_json::from_str(text)
                    .map(|Form(value)| value)
                    .map_err(|source| Unreadable { what: $what, source })
            }
        }
    };
}

stored!(Request, "RequestForm", "request");
stored!(Event, "EventForm", "event");
stored!(Policy, "PolicyForm", "policy");
stored!(Fault, "FaultForm", "fault");
stored!(CancelRequest, "CancelRequestForm", "cancel request");
stored!(Progress, "ProgressForm", "progress");
stored!(Renewals, "RenewalsForm", "renewal");
stored!(Resources, "ResourcesForm", "resource list");
stored!(RunState, "RunStateForm", "state of a run");
stored!(Waiting, "WaitingForm", "wait");
stored!(Recorded, "RecordedForm", "checkpoint");
stored!(Body, "BodyForm", "message");
stored!(Spec, "SpecForm", "specification");
stored!(PlanStep, "PlanStepForm", "step of a plan");
stored!(Blame, "BlameForm", "cause of a skip");
stored!(ApprovalBody, "ApprovalBodyForm", "approval");
stored!(Schedule, "ScheduleForm", "schedule");
stored!(ScopeBudget, "ScopeBudgetForm", "budget");
stored!(RecoveryPolicy, "RecoveryPolicyForm", "recovery policy");
stored!(Candidate, "CandidateForm", "recovery candidate");
stored!(FailedRun, "FailedRunForm", "failed run");
stored!(Word, "WordForm", "word of people");

/// The items of a wait.
impl Stored for Vec<Awaited> {
    fn write(&self) -> String {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "AwaitedForm")] &'a Awaited);
        let forms: Vec<Form<'_>> = self.iter().map(Form).collect();
        serde_json::to_string(&forms).expect("forms have only text keys")
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "AwaitedForm")] Awaited);
        let forms: Vec<Form> = serde_json::from_str(text)
            .map_err(|source| Unreadable { what: "list of awaited items", source })?;
        Ok(forms.into_iter().map(|Form(item)| item).collect())
    }
}

/// The upstreams of a step.
impl Stored for Vec<Name> {
    fn write(&self) -> String {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "names")] &'a [Name]);
        serde_json::to_string(&Form(self)).expect("forms have only text keys")
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "names")] Vec<Name>);
        serde_json::from_str(text)
            .map(|Form(names)| names)
            .map_err(|source| Unreadable { what: "list of upstreams", source })
    }
}

impl Stored for Vec<Event> {
    fn write(&self) -> String {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "EventForm")] &'a Event);
        let forms: Vec<Form<'_>> = self.iter().map(Form).collect();
        serde_json::to_string(&forms).expect("forms have only text keys")
    }

    fn read(text: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "EventForm")] Event);
        let forms: Vec<Form> = serde_json::from_str(text)
            .map_err(|source| Unreadable { what: "list of events", source })?;
        Ok(forms.into_iter().map(|Form(event)| event).collect())
    }
}
