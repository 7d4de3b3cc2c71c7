//! The one function that every request goes through, sweeps included.
//!
//! Each request has its own file. The checks that all calls under a lease share are in [`caller`],
//! in the order that the contract gives. What is used up is judged
//! after all of them, in [`budget`], then what an end means for a task with stages, in [`stages`], and whether a step of a
//! plan now asks people, in [`asking`].

mod approvals;
mod asking;
pub(crate) mod budget;
mod call_items;
pub mod caller;
pub mod cancel;
mod checkpoint;
pub mod engine;
pub mod extend;
mod flow;
pub mod grant;
pub mod heartbeat;
mod inherit;
mod message;
mod plan;
pub mod release;
pub mod report;
mod run;
mod signal;
pub(crate) mod soft_limit;
mod stages;
mod stalled;
pub mod started;
mod steps;
pub mod submit;
pub mod sweep;
mod waiting;

pub(crate) use waiting::open_wait;

use crate::request::Request;
use crate::time::Moment;
use crate::verdict::{ReadSet, Verdict};

/// Decides `request`, given the `read_set`, at this moment.
pub fn decide(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let at = read_set.subject.dated(at);
    let verdict = by_request(read_set, request, at);
    let verdict = budget::judge(read_set.subject, request, verdict, at);
    let verdict = stages::turn(read_set.subject, request, verdict, at);
    let verdict = steps::keep_key(read_set.subject, request, verdict);
    asking::open(read_set.subject, verdict, at)
}

fn by_request(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    match request {
        Request::Submit(submit) => submit::decide(read_set, submit, at),
        Request::Grant(grant) => grant::decide(read_set, grant, at),
        Request::Started(started) => started::decide(read_set, started, at),
        Request::Heartbeat(heartbeat) => heartbeat::decide(read_set, heartbeat, at),
        Request::Report(report) => report::decide(read_set, report, at),
        Request::Cancel(cancel) => cancel::decide(read_set, cancel, at),
        Request::Sweep => sweep::decide(read_set, at),
        Request::Undelivered(undelivered) => grant::undelivered(read_set, undelivered, at),
        Request::Extend(extend) => extend::decide(read_set, extend, at),
        Request::Run(request) => run::decide(read_set, request, at),
    }
}
