//! Which kinds of request were granted and which refused.

use std::collections::BTreeMap;

use storetest::conformance::{Call, CallResult};
use verdict::request::Outcome;
use verdict::{Answer, Request};

const KINDS: [&str; 13] = [
    "submit",
    "keyed",
    "poll",
    "named",
    "started",
    "heartbeat",
    "succeeded",
    "failed",
    "cancelled",
    "released",
    "cancel",
    "sweep",
    "extend",
];

/// For each kind, how often it was granted and how often refused or without effect.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<&'static str, (u64, u64)>);

impl Coverage {
    pub(crate) fn note(&mut self, ask: &Call, said: &CallResult) {
        let (granted, refused) = self.0.entry(kind(ask)).or_default();
        if is_granted(said) {
            *granted += 1;
        } else {
            *refused += 1;
        }
    }

    /// A submission without a key cannot be refused; every other kind must have been.
    pub(crate) fn is_complete(&self) -> bool {
        KINDS.iter().all(|kind| {
            let (granted, refused) = self.0.get(kind).copied().unwrap_or_default();
            granted > 0 && (refused > 0 || *kind == "submit")
        })
    }

    pub(crate) fn granted(&self) -> usize {
        self.0.values().filter(|(granted, _)| *granted > 0).count()
    }
}

fn kind(ask: &Call) -> &'static str {
    match ask {
        Call::Submit(submission) if submission.spec.key.is_some() => "keyed",
        Call::Submit(_) => "submit",
        Call::Poll(poll) if poll.name.is_some() => "named",
        Call::Poll(_) => "poll",
        Call::Sweep { .. } => "sweep",
        Call::OfRunning { .. } => "extend",
        Call::About { request, .. } => match request {
            Request::Started(_) => "started",
            Request::Heartbeat(_) => "heartbeat",
            Request::Report(report) => match report.outcome {
                Outcome::Succeeded { .. } => "succeeded",
                Outcome::Failed(_) => "failed",
                Outcome::Cancelled { .. } => "cancelled",
                Outcome::Released => "released",
            },
            Request::Cancel(_) => "cancel",
            _ => "undelivered",
        },
    }
}

fn is_granted(said: &CallResult) -> bool {
    match said {
        CallResult::Answer(answer) => !matches!(answer, Answer::Refused(_) | Answer::Nothing),
        CallResult::Granted(leases) => !leases.is_empty(),
        CallResult::Each(each) => each.iter().any(|(_, answer)| *answer == Answer::Done),
        CallResult::Locked => false,
    }
}
