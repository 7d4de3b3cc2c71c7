//! The one function every request goes through, sweeps included.
//!
//! One file per request. The checks that every call under a lease has in common, in the order the
//! contract gives them, are in [`caller`].

pub mod caller;
pub mod cancel;
pub mod extend;
pub mod grant;
pub mod heartbeat;
pub mod report;
pub mod started;
pub mod submit;
pub mod sweep;

use crate::request::Request;
use crate::time::Moment;
use crate::verdict::{Seen, Verdict};

/// What is true after `request`, given what was `seen`, at this moment.
pub fn decide(seen: Seen<'_>, request: &Request, at: Moment) -> Verdict {
    let at = seen.subject.dated(at);
    match request {
        Request::Submit(submit) => submit::decide(seen, submit, at),
        Request::Grant(grant) => grant::decide(seen, grant, at),
        Request::Started(started) => started::decide(seen, started, at),
        Request::Heartbeat(heartbeat) => heartbeat::decide(seen, heartbeat, at),
        Request::Report(report) => report::decide(seen, report, at),
        Request::Cancel(cancel) => cancel::decide(seen, cancel, at),
        Request::Sweep => sweep::decide(seen, at),
        Request::Undelivered(undelivered) => grant::undelivered(seen, undelivered, at),
        Request::Extend(extend) => extend::decide(seen, extend, at),
    }
}
