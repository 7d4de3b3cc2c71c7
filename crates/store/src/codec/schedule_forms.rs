//! The stored form of schedules: the body of their object.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::schedule::{
    CatchUp, Counts, LastFiring, Overlap, Recurrence, RefusedFiring, RunSize, Schedule, Terms,
    WaitingInstant,
};
use verdict::{Name, Span, TaskId, Text, Time};

use super::scalars::{as_number, as_text};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Schedule")]
pub(super) struct ScheduleForm {
    #[serde(with = "as_text")]
    name: Name,
    #[serde(with = "TermsForm")]
    terms: Terms,
    #[serde(default, skip_serializing_if = "is_false")]
    is_paused: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    is_deleted: bool,
    #[serde(with = "as_number")]
    created_at: Time,
    #[serde(with = "RunSizeForm", default, skip_serializing_if = "is_one")]
    size: RunSize,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    next: Option<Time>,
    #[serde(with = "waiting", default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingInstant>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    look_at: Option<Time>,
    #[serde(with = "optional_last", default, skip_serializing_if = "Option::is_none")]
    last: Option<LastFiring>,
    #[serde(with = "optional_refusal", default, skip_serializing_if = "Option::is_none")]
    last_refusal: Option<RefusedFiring>,
    #[serde(with = "CountsForm")]
    counts: Counts,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Terms")]
struct TermsForm {
    #[serde(with = "RecurrenceForm")]
    recurrence: Recurrence,
    #[serde(with = "as_text")]
    overlap: Overlap,
    #[serde(with = "as_text")]
    catch_up: CatchUp,
    #[serde(with = "as_number")]
    window: Span,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Recurrence", rename_all = "snake_case")]
enum RecurrenceForm {
    Cron {
        #[serde(with = "as_text")]
        expression: Text,
        #[serde(with = "as_text")]
        zone: Name,
    },
    Every {
        #[serde(with = "as_number")]
        every: Span,
        #[serde(with = "as_number")]
        anchor: Time,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WaitingInstant")]
struct WaitingInstantForm {
    #[serde(with = "as_number")]
    instant: Time,
    #[serde(with = "as_number")]
    since: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LastFiring")]
struct LastFiringForm {
    #[serde(with = "as_number")]
    instant: Time,
    #[serde(with = "as_text")]
    run: TaskId,
    #[serde(with = "as_number")]
    at: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RefusedFiring")]
struct RefusedFiringForm {
    #[serde(with = "as_number")]
    instant: Time,
    #[serde(with = "as_number")]
    at: Time,
    #[serde(with = "as_text")]
    code: Name,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Counts")]
struct CountsForm {
    fired: u64,
    skipped: u64,
    missed: u64,
    refused: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunSize")]
struct RunSizeForm {
    tasks: u32,
    weight: u32,
}

fn is_one(size: &RunSize) -> bool {
    *size == RunSize::ONE
}

fn is_false(flag: &bool) -> bool {
    !flag
}

super::run_forms::list!(waiting, Vec<WaitingInstant>, WaitingInstant, "WaitingInstantForm");
super::forms::optional!(optional_last, LastFiring, "LastFiringForm");
super::forms::optional!(optional_refusal, RefusedFiring, "RefusedFiringForm");
