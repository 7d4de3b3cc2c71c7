//! The network between clients, workers and coordinators: it delays, loses, duplicates, reorders and cuts messages.
//! Each call has one connection; the caller learns when that connection is cut.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::log::Log;
use crate::options::NetworkOptions;
use crate::rng::SimRng;

pub(crate) type CallId = u64;

/// A request in transit.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) bearer: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
}

/// A response as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// How a call ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Answered(HttpResponse),
    /// The connection was refused: the request was not read.
    Refused,
    /// The connection was cut, or the caller timed out. The request may have taken effect or may still do so.
    Gone,
}

/// A call in flight.
pub(crate) struct Sent {
    pub(crate) call_id: CallId,
    pub(crate) ending: oneshot::Receiver<CallEnd>,
    /// The request will be delivered twice.
    pub(crate) is_duplicated: bool,
}

/// A message or event that reaches a coordinator.
#[derive(Debug)]
pub(crate) enum Arrival {
    Request {
        to: usize,
        ask: HttpRequest,
        call_id: CallId,
    },
    /// The coordinator notices that the caller has disconnected.
    HangUp {
        to: usize,
        call_id: CallId,
    },
    CallEnd {
        call_id: CallId,
        ending: CallEnd,
    },
}

pub(crate) struct Network {
    options: NetworkOptions,
    rng: SimRng,
    log: Log,
    queue: BTreeMap<(u64, u64), Arrival>,
    waiting: BTreeMap<CallId, Waiting>,
    sent: u64,
    call_ids: CallId,
    cut_off_until: Vec<u64>,
}

struct Waiting {
    to: usize,
    ending: oneshot::Sender<CallEnd>,
}

/// Extra delay of a straggling message: longer than the shortest lease, so that the state can have changed completely
/// when it arrives.
const STRAGGLE_MS: (u64, u64) = (300, 7_000);

/// How long a connection lasts before it is cut.
const CUT_AFTER_MS: (u64, u64) = (0, 400);

impl Network {
    pub(crate) fn new(options: NetworkOptions, rng: SimRng, log: Log, hosts: usize) -> Self {
        Self {
            options,
            rng,
            log,
            queue: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sent: 0,
            call_ids: 0,
            cut_off_until: vec![0; hosts],
        }
    }

    pub(crate) fn stop_faults(&mut self) {
        self.options = NetworkOptions::healthy();
        self.cut_off_until.fill(0);
    }

    /// Cuts all traffic to and from the host until `until`.
    pub(crate) fn cut_off(&mut self, host: usize, until: u64) {
        self.cut_off_until[host] = until;
    }

    pub(crate) fn send(&mut self, now: u64, to: usize, ask: HttpRequest) -> Sent {
        self.call_ids += 1;
        let call_id = self.call_ids;
        let (sender, ending) = oneshot::channel();
        self.waiting.insert(call_id, Waiting { to, ending: sender });
        let is_duplicated = self.options.duplicate > 0 && self.rng.chance(self.options.duplicate);
        if is_duplicated {
            self.log.fault(Fault::RequestDuplicated);
            let at = now + self.delay() + self.rng.between(0, 2_000);
            self.put(at, Arrival::Request { to, ask: ask.clone(), call_id });
        }
        if self.options.cut > 0 && self.rng.chance(self.options.cut) {
            self.log.fault(Fault::ConnectionCut);
            let at = now + self.rng.between(CUT_AFTER_MS.0, CUT_AFTER_MS.1);
            self.put(at, Arrival::HangUp { to, call_id });
            self.put(at, Arrival::CallEnd { call_id, ending: CallEnd::Gone });
        }
        if self.rng.chance(self.options.lose_request) {
            self.log.fault(Fault::RequestLost);
        } else {
            let at = now + self.delay();
            self.put(at, Arrival::Request { to, ask, call_id });
        }
        Sent { call_id, ending, is_duplicated }
    }

    /// Sends a coordinator's answer.
    pub(crate) fn answer(&mut self, now: u64, call_id: CallId, ending: CallEnd) {
        let Some(waiting) = self.waiting.get(&call_id) else { return };
        let is_cut_off = now < self.cut_off_until[waiting.to];
        let is_reply = matches!(ending, CallEnd::Answered(_));
        if is_cut_off || (is_reply && self.rng.chance(self.options.lose_answer)) {
            self.log.fault(Fault::AnswerLost);
            return;
        }
        let at = now + self.delay();
        self.put(at, Arrival::CallEnd { call_id, ending });
    }

    /// The caller stops waiting. Chance decides whether the coordinator learns of it.
    pub(crate) fn hang_up(&mut self, now: u64, call_id: CallId) {
        if let Some(waiting) = self.waiting.remove(&call_id)
            && self.rng.chance(500)
        {
            let at = now + self.delay();
            self.put(at, Arrival::HangUp { to: waiting.to, call_id });
        }
    }

    /// Everything that has arrived by now, in order. Replies go to their waiting callers.
    pub(crate) fn arrivals(&mut self, now: u64) -> Vec<Arrival> {
        let later = self.queue.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut self.queue, later);
        let mut arrivals = Vec::new();
        for arrival in due.into_values() {
            match arrival {
                Arrival::CallEnd { call_id, ending } => self.complete_call(call_id, ending),
                Arrival::Request { to, .. } if now < self.cut_off_until[to] => {
                    self.log.fault(Fault::RequestLost);
                }
                arrival => arrivals.push(arrival),
            }
        }
        arrivals
    }

    fn complete_call(&mut self, call_id: CallId, ending: CallEnd) {
        if let Some(waiting) = self.waiting.remove(&call_id) {
            // The caller may have been cancelled meanwhile, so a closed channel is no error.
            drop(waiting.ending.send(ending));
        }
    }

    fn delay(&mut self) -> u64 {
        let (low, high) = self.options.delay_ms;
        let delay = self.rng.between(low, high);
        if self.options.straggle > 0 && self.rng.chance(self.options.straggle) {
            self.log.fault(Fault::MessageStraggles);
            return delay + self.rng.between(STRAGGLE_MS.0, STRAGGLE_MS.1);
        }
        delay
    }

    fn put(&mut self, at: u64, arrival: Arrival) {
        self.sent += 1;
        self.queue.insert((at, self.sent), arrival);
    }
}
