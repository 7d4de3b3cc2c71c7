//! The network between clients, workers and coordinators: it delays, loses, duplicates, reorders and
//! cuts. A call is one connection; whoever waits on one that is cut learns that it is gone.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::log::Log;
use crate::options::NetworkOptions;

pub(crate) type Ticket = u64;

/// A request as it travels.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) bearer: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// How a call ended for who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Answered(Reply),
    /// Nobody listens there: the request was not even read.
    Refused,
    /// The connection is gone, or patience was over. Whatever was asked may have happened or may yet.
    Gone,
}

/// A call on its way.
pub(crate) struct Sent {
    pub(crate) ticket: Ticket,
    pub(crate) ending: oneshot::Receiver<Ending>,
    /// The request will arrive twice.
    pub(crate) is_duplicated: bool,
}

/// Something that arrives.
#[derive(Debug)]
pub(crate) enum Arrival {
    Request {
        to: usize,
        ask: Ask,
        ticket: Ticket,
    },
    /// The coordinator notices that nobody waits any more.
    HangUp {
        to: usize,
        ticket: Ticket,
    },
    Ending {
        ticket: Ticket,
        ending: Ending,
    },
}

pub(crate) struct Network {
    options: NetworkOptions,
    dice: Dice,
    log: Log,
    queue: BTreeMap<(u64, u64), Arrival>,
    waiting: BTreeMap<Ticket, Waiting>,
    sent: u64,
    tickets: Ticket,
    cut_off_until: Vec<u64>,
}

struct Waiting {
    to: usize,
    ending: oneshot::Sender<Ending>,
}

/// How much later than its fellows a straggler arrives: longer than the shortest lease, so that it can
/// arrive in another world.
const STRAGGLE_MS: (u64, u64) = (300, 7_000);

/// How long a connection lives that is going to be cut.
const CUT_AFTER_MS: (u64, u64) = (0, 400);

impl Network {
    pub(crate) fn new(options: NetworkOptions, dice: Dice, log: Log, hosts: usize) -> Self {
        Self {
            options,
            dice,
            log,
            queue: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sent: 0,
            tickets: 0,
            cut_off_until: vec![0; hosts],
        }
    }

    pub(crate) fn calm_down(&mut self) {
        self.options = NetworkOptions::calm();
        self.cut_off_until.fill(0);
    }

    /// Nothing reaches the host or comes from it until then.
    pub(crate) fn cut_off(&mut self, host: usize, until: u64) {
        self.cut_off_until[host] = until;
    }

    pub(crate) fn send(&mut self, now: u64, to: usize, ask: Ask) -> Sent {
        self.tickets += 1;
        let ticket = self.tickets;
        let (sender, ending) = oneshot::channel();
        self.waiting.insert(ticket, Waiting { to, ending: sender });
        let is_duplicated = self.options.duplicate > 0 && self.dice.chance(self.options.duplicate);
        if is_duplicated {
            self.log.fault(Fault::RequestDuplicated);
            let at = now + self.delay() + self.dice.between(0, 2_000);
            self.put(at, Arrival::Request { to, ask: ask.clone(), ticket });
        }
        if self.options.cut > 0 && self.dice.chance(self.options.cut) {
            self.log.fault(Fault::ConnectionCut);
            let at = now + self.dice.between(CUT_AFTER_MS.0, CUT_AFTER_MS.1);
            self.put(at, Arrival::HangUp { to, ticket });
            self.put(at, Arrival::Ending { ticket, ending: Ending::Gone });
        }
        if self.dice.chance(self.options.lose_request) {
            self.log.fault(Fault::RequestLost);
        } else {
            let at = now + self.delay();
            self.put(at, Arrival::Request { to, ask, ticket });
        }
        Sent { ticket, ending, is_duplicated }
    }

    /// A coordinator answers.
    pub(crate) fn answer(&mut self, now: u64, ticket: Ticket, ending: Ending) {
        let Some(waiting) = self.waiting.get(&ticket) else { return };
        let is_cut_off = now < self.cut_off_until[waiting.to];
        let is_reply = matches!(ending, Ending::Answered(_));
        if is_cut_off || (is_reply && self.dice.chance(self.options.lose_answer)) {
            self.log.fault(Fault::AnswerLost);
            return;
        }
        let at = now + self.delay();
        self.put(at, Arrival::Ending { ticket, ending });
    }

    /// The caller does not wait any more. Whether the coordinator learns of it is chance.
    pub(crate) fn hang_up(&mut self, now: u64, ticket: Ticket) {
        if let Some(waiting) = self.waiting.remove(&ticket)
            && self.dice.chance(500)
        {
            let at = now + self.delay();
            self.put(at, Arrival::HangUp { to: waiting.to, ticket });
        }
    }

    /// What has arrived by now, in order. Replies go to who waits for them.
    pub(crate) fn arrivals(&mut self, now: u64) -> Vec<Arrival> {
        let later = self.queue.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut self.queue, later);
        let mut arrivals = Vec::new();
        for arrival in due.into_values() {
            match arrival {
                Arrival::Ending { ticket, ending } => self.hand_over(ticket, ending),
                Arrival::Request { to, .. } if now < self.cut_off_until[to] => {
                    self.log.fault(Fault::RequestLost);
                }
                arrival => arrivals.push(arrival),
            }
        }
        arrivals
    }

    fn hand_over(&mut self, ticket: Ticket, ending: Ending) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            // A caller that was cancelled in between has nobody to tell.
            drop(waiting.ending.send(ending));
        }
    }

    fn delay(&mut self) -> u64 {
        let (low, high) = self.options.delay_ms;
        let delay = self.dice.between(low, high);
        if self.options.straggle > 0 && self.dice.chance(self.options.straggle) {
            self.log.fault(Fault::MessageStraggles);
            return delay + self.dice.between(STRAGGLE_MS.0, STRAGGLE_MS.1);
        }
        delay
    }

    fn put(&mut self, at: u64, arrival: Arrival) {
        self.sent += 1;
        self.queue.insert((at, self.sent), arrival);
    }
}
