//! The history of a run, for the checker: every call and every answer, in one order.

use historyck::Event;
use historyck::event::{Answer, EventKind, Invoke, Operation, Phase, Return, State};

pub(crate) fn invoke(op: Operation) -> Invoke {
    Invoke::of(op)
}

pub(crate) fn answer(answer: Answer) -> Return {
    Return::of(answer)
}

#[derive(Default)]
pub(crate) struct History {
    events: Vec<Event>,
    calls: u64,
}

impl History {
    /// Records that a call is about to be made and returns its number.
    pub(crate) fn invoke(&mut self, now: u64, who: &str, invoke: &Invoke) -> u64 {
        self.calls += 1;
        let call = self.calls;
        self.record(now, who, EventKind::Invoke(Invoke { call, ..invoke.clone() }));
        call
    }

    pub(crate) fn record_return(&mut self, now: u64, who: &str, call: u64, given: Return) {
        self.record(now, who, EventKind::Return(Return { call, ..given }));
    }

    pub(crate) fn fault(&mut self, now: u64, what: &str) {
        let fault =
            historyck::event::Fault { fault: what.to_owned(), phase: Phase::Begin, detail: None };
        self.record(now, "nemesis", EventKind::Fault(fault));
    }

    /// Records that every stopped process is started again and that no more faults follow.
    pub(crate) fn restarted(&mut self, now: u64) {
        let (fault, phase) = (historyck::event::RESTART.to_owned(), Phase::End);
        let restart = historyck::event::Fault { fault, phase, detail: None };
        self.record(now, "nemesis", EventKind::Fault(restart));
    }

    pub(crate) fn record(&mut self, now: u64, who: &str, what: EventKind) {
        let at = self.events.len() as u64 + 1;
        self.events.push(Event { at, who: who.to_owned(), clock: Some(now), what });
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }
}

/// An id without its prefix: a run and its task share the rest.
pub(crate) fn name(id: &str) -> String {
    id.split_once('_').map_or(id, |(_, ulid)| ulid).to_owned()
}

pub(crate) fn state(state: wire::State) -> State {
    match state {
        wire::State::Queued => State::Queued,
        wire::State::Running => State::Running,
        wire::State::Retry => State::Retry,
        wire::State::Succeeded => State::Succeeded,
        wire::State::Failed => State::Failed,
        wire::State::Halted => State::Halted,
        wire::State::Cancelled => State::Cancelled,
        wire::State::Waiting => State::Waiting,
        wire::State::Blocked => State::Blocked,
        wire::State::Skipped => State::Skipped,
    }
}
