//! The stored form of plans, field by field: submissions, events and the state of a task with stages. What belongs to
//! steps with edges is in [`super::step_forms`].

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::approval::Terms;
use verdict::event::Submitted;
use verdict::plan::{
    Advance, Blame, Capabilities, EndedStep, Ending, Found, NextLease, PlanEvent, PlanForm,
    PlanRequest, PlanState, PlanStep, PlanSubmit, Prepared, RootState, Shown, SpawnedStep, Stage,
    StagesState, StepTerms, Told, Turn,
};
use verdict::request::Submit;
use verdict::run::Lineage;
use verdict::{
    CancelRequest, Digest, End, LeaseId, Limits, Name, Policy, Request, Span, Text, Time,
};

use super::approval_forms::{names, shared_terms};
use super::budget_forms::{LimitsForm, boxed_request};
use super::forms::{CancelRequestForm, EndForm, PolicyForm, SubmitForm, boxed_submitted};
use super::run_forms::LineageForm;
use super::scalars::{as_number, as_text};
use super::step_forms::{
    BlameForm, EndedStepForm, RootStateForm, StepTermsForm, spawned_steps, tolds,
};

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_empty(stages: &[Stage]) -> bool {
    stages.is_empty()
}

fn no_steps() -> Arc<[PlanStep]> {
    Arc::from([])
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanRequest", rename_all = "snake_case")]
pub(super) enum PlanRequestForm {
    Submit(#[serde(with = "PlanSubmitForm")] PlanSubmit),
    Advance(#[serde(with = "AdvanceForm")] Advance),
    InputUnresolved {
        #[serde(with = "as_text")]
        message: Text,
    },
    Prepared(#[serde(with = "PreparedForm")] Prepared),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Prepared")]
struct PreparedForm {
    place: u32,
    #[serde(with = "FoundForm")]
    found: Found,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Found", rename_all = "snake_case")]
enum FoundForm {
    Begins {
        #[serde(with = "optional_shown", default, skip_serializing_if = "Option::is_none")]
        shown: Option<Box<Shown>>,
    },
    Unneeded {
        #[serde(with = "as_text")]
        why: Text,
    },
    Unresolved {
        #[serde(with = "as_text")]
        message: Text,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shown")]
struct ShownForm {
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    subject: Option<Text>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    content: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Advance")]
struct AdvanceForm {
    #[serde(with = "boxed_request")]
    report: Box<Request>,
    #[serde(with = "NextLeaseForm")]
    next: NextLease,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NextLease")]
struct NextLeaseForm {
    #[serde(with = "as_text")]
    lease: LeaseId,
    until: u32,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    closed_queues: Vec<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanSubmit")]
struct PlanSubmitForm {
    #[serde(with = "SubmitForm")]
    submit: Submit,
    #[serde(with = "PlanFormForm")]
    form: PlanForm,
    /// In rows of their own, which whoever decides again puts in.
    #[serde(skip, default = "no_steps")]
    steps: Arc<[PlanStep]>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanForm", rename_all = "snake_case")]
enum PlanFormForm {
    Stages {
        #[serde(with = "as_text")]
        digest: Digest,
        #[serde(with = "stage_list")]
        stages: Arc<[Stage]>,
    },
    Steps {
        #[serde(with = "as_text")]
        digest: Digest,
        count: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Stage")]
struct StageForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    kind: Name,
    #[serde(with = "as_text")]
    queue: Name,
    #[serde(with = "PolicyForm")]
    policy: Policy,
    #[serde(with = "LimitsForm", default, skip_serializing_if = "Limits::is_empty")]
    ceiling: Limits,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    time_limit: Option<Span>,
    #[serde(with = "as_text")]
    input: Digest,
    #[serde(rename = "references", default, skip_serializing_if = "is_false")]
    has_references: bool,
    #[serde(rename = "continues", default, skip_serializing_if = "is_false")]
    continues_on_error: bool,
    #[serde(rename = "always", default, skip_serializing_if = "is_false")]
    is_always: bool,
    #[serde(rename = "gate", default, skip_serializing_if = "is_false")]
    is_gate: bool,
    #[serde(with = "CapabilitiesForm")]
    may: Capabilities,
    #[serde(with = "shared_terms", default, skip_serializing_if = "Option::is_none")]
    asks: Option<Arc<Terms>>,
    #[serde(rename = "prepared", default, skip_serializing_if = "is_false")]
    is_prepared: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Capabilities")]
struct CapabilitiesForm {
    #[serde(default, skip_serializing_if = "is_false")]
    steps: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    waits: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    children: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Turn")]
pub(super) struct TurnForm {
    stage: u32,
    #[serde(with = "as_number")]
    due: Time,
    #[serde(with = "optional_end", default, skip_serializing_if = "Option::is_none")]
    ending: Option<End>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    by: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    output: Option<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanEvent", rename_all = "snake_case")]
pub(super) enum PlanEventForm {
    Planned(#[serde(with = "PlanFormForm")] PlanForm),
    StageEntered(#[serde(with = "TurnForm")] Turn),
    StepsSpawned(#[serde(with = "spawned_steps")] Vec<SpawnedStep>),
    StepBlamed(#[serde(with = "BlameForm")] Blame),
    DownstreamsTold {
        #[serde(with = "EndedStepForm")]
        ended: EndedStep,
        #[serde(with = "tolds")]
        told: Vec<Told>,
        #[serde(default, skip_serializing_if = "is_false")]
        has_more: bool,
    },
    StepSpawned {
        #[serde(with = "boxed_submitted")]
        submitted: Box<Submitted>,
        #[serde(with = "LineageForm")]
        lineage: Lineage,
        #[serde(with = "StepTermsForm")]
        terms: StepTerms,
        #[serde(rename = "blocked", default, skip_serializing_if = "is_false")]
        is_blocked: bool,
    },
    Released {
        #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Time>,
        #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
        done_by: Vec<Name>,
    },
    Prepared {
        #[serde(with = "optional_shown", default, skip_serializing_if = "Option::is_none")]
        shown: Option<Box<Shown>>,
    },
    DoneBy(#[serde(with = "names")] Vec<Name>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PlanState", rename_all = "snake_case")]
pub(super) enum PlanStateForm {
    Stages(#[serde(with = "StagesStateForm")] StagesState),
    Root(#[serde(with = "RootStateForm")] RootState),
    Step(#[serde(with = "StepTermsForm")] StepTerms),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StagesState")]
struct StagesStateForm {
    /// Absent in the row of a live task, whose terms have them.
    #[serde(with = "stage_list", default, skip_serializing_if = "is_empty")]
    stages: Arc<[Stage]>,
    current: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    since: u32,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    run_deadline: Option<Time>,
    #[serde(with = "optional_ending", default, skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    done_by: Vec<Name>,
    #[serde(with = "outputs", default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<(Name, Digest)>,
}

/// The digest of each output that people are shown.
mod outputs {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        outputs: &[(Name, Digest)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(outputs.iter().map(|(key, digest)| (key.as_str(), digest.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(Name, Digest)>, D::Error> {
        let read = |(key, digest): (String, String)| {
            let digest = Digest::parse(&digest);
            let digest = digest.ok_or_else(|| serde::de::Error::custom("a digest is malformed"))?;
            Ok((Name::from(key), digest))
        };
        Vec::<(String, String)>::deserialize(from)?.into_iter().map(read).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Ending")]
struct EndingForm {
    #[serde(with = "EndForm")]
    end: End,
    #[serde(with = "optional_cancel", default, skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelRequest>,
}

mod stage_list {
    use super::*;

    pub(super) fn serialize<S: Serializer>(stages: &[Stage], to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "StageForm")] &'a Stage);
        to.collect_seq(stages.iter().map(Form))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<[Stage]>, D::Error> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "StageForm")] Stage);
        Ok(Vec::<Form>::deserialize(from)?.into_iter().map(|Form(stage)| stage).collect())
    }
}

super::forms::optional!(optional_end, End, "EndForm");
super::budget_forms::optional_box!(optional_halt, End, "EndForm");
super::budget_forms::optional_box!(optional_shown, Shown, "ShownForm");
super::forms::optional!(optional_ending, Ending, "EndingForm");
super::forms::optional!(optional_cancel, CancelRequest, "CancelRequestForm");
super::forms::boxed!(boxed_turn, Turn, TurnForm);
super::forms::boxed!(boxed_plan_event, PlanEvent, PlanEventForm);

/// The plan in the state of a run.
pub(super) mod optional_plan {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<Box<PlanState>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "PlanStateForm")] &'a PlanState);
        value.as_deref().map(Form).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Box<PlanState>>, D::Error> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "PlanStateForm")] PlanState);
        Ok(Option::<Form>::deserialize(from)?.map(|Form(value)| Box::new(value)))
    }
}
