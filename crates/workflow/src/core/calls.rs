//! The next command: which steps start, what one call contains, and what its answer changes.
//!
//! A call takes everything that is finished, up to the coordinator's limit of one batch. It is the only place where
//! results leave the engine before the report.

use sha2::{Digest as _, Sha256};

use super::{Core, Ending, Want};
use crate::Digest;
use crate::command::{Answer, Awaited, Call, ChildRecord, Command, Mode, State, StepRecord, Wait};
use crate::key::{self, Branch};
use crate::stop::Misuse;

/// The coordinator's limit: with results of the largest size a call is 25 MiB.
const STEPS_PER_CALL_MAX: usize = 100;
/// The coordinator's limit: each child is a task that one batch creates.
const CHILDREN_PER_CALL_MAX: usize = 500;
/// The coordinator gives a wait up after 30 days, unless the call says otherwise. A wait with a timer says so a day
/// before it comes to that.
const WAIT_MS_DEFAULT: u64 = 30 * DAY_MS;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A call that has not been answered.
pub(super) struct InFlight {
    /// The branch of each step in the call.
    stepped: Vec<Branch>,
    /// The branch of each detached child in the call.
    detached: Vec<Branch>,
    savepoint: Option<StepRecord>,
    has_wait: bool,
}

impl Core {
    /// Makes the next commands, or an ending, now that the code cannot go on. Returns whether there is one.
    pub(crate) fn settle(&mut self) -> bool {
        // What comes next is not known before the outside has spoken.
        if self.outside > 0 {
            return self.ending.is_some() || !self.commands.is_empty();
        }
        if let Some(stop) = self.unreached() {
            self.end(Ending::Stop(stop));
            return true;
        }
        self.start_steps();
        if self.in_flight.is_none() {
            if let Some(call) = self.due_call() {
                self.commands.push_back(Command::Checkpoint(call));
            } else if self.wants.is_empty() && self.running.is_empty() {
                self.end_by_foreign_await();
            }
        }
        self.ending.is_some() || !self.commands.is_empty()
    }

    /// Lets steps start whose branch has nothing unrecorded.
    fn start_steps(&mut self) {
        let branches = &self.branches;
        let started = self.wants.extract_if(.., |_, (branch, want)| {
            let is_recorded = branches[branch].unrecorded == 0;
            matches!(want, Want::Execute { .. }) && is_recorded
        });
        for (key, (_, want)) in started {
            let Want::Execute { number, timeout } = want else { continue };
            self.running.insert(key.clone(), (number, false));
            self.commands.push_back(Command::Execute { key, number, timeout });
        }
    }

    /// A call is due when an operation waits for a record, when children are to be started, and when all that is left
    /// is to wait.
    fn due_call(&mut self) -> Option<Call> {
        let mut wants = self.wants.values().map(|(_, want)| want);
        let is_blocked = wants.any(|want| !matches!(want, Want::Arrival { .. }));
        let is_idle = self.running.is_empty() && !is_blocked && !self.wants.is_empty();
        if !is_blocked && !is_idle && self.children.is_empty() {
            return None;
        }
        Some(self.call(is_idle))
    }

    fn call(&mut self, is_idle: bool) -> Call {
        let many = self.finished.len().min(STEPS_PER_CALL_MAX);
        let (stepped, steps): (Vec<_>, Vec<_>) = self.finished.drain(..many).unzip();
        let many = self.children.len().min(CHILDREN_PER_CALL_MAX);
        let (parents, children): (Vec<_>, Vec<ChildRecord>) = self.children.drain(..many).unzip();
        let is_all = self.finished.is_empty() && self.children.is_empty();
        let wait = (is_idle && is_all).then(|| self.wait());
        let parents = parents.into_iter().zip(&children);
        let detached = parents.filter(|(_, child)| child.detached).map(|(branch, _)| branch);
        self.in_flight = Some(InFlight {
            stepped,
            detached: detached.collect(),
            savepoint: steps.iter().find(|step: &&StepRecord| step.savepoint).cloned(),
            has_wait: wait.is_some(),
        });
        Call { steps, children, wait }
    }

    /// One wait for all operations that wait. A single one says whether it needs all of its items; several need any.
    fn wait(&self) -> Wait {
        let mut modes = Vec::new();
        let mut items = Vec::new();
        for (_, want) in self.wants.values() {
            let Want::Arrival { mode, items: awaited } = want else { continue };
            modes.push(*mode);
            items.extend(awaited.iter().filter(|item| !self.history.has(item.key())).cloned());
        }
        let mode = if let [mode] = modes[..] { mode } else { Mode::Any };
        Wait { key: wait_key(&items), mode, items, max_ms: self.max_ms() }
    }

    /// Long enough for the last timer or expiry. It counts from the branch's time, which is never after that of the call.
    fn max_ms(&self) -> Option<u64> {
        let spans = self.wants.values().flat_map(|(branch, want)| {
            let items = if let Want::Arrival { items, .. } = want { &items[..] } else { &[] };
            let now = self.branches[branch].now.as_ms();
            let last = items.iter().filter_map(Awaited::until);
            last.filter_map(move |until| u64::try_from(until.as_ms() - now).ok())
        });
        spans.max().map(|span| span + DAY_MS).filter(|span| *span > WAIT_MS_DEFAULT)
    }

    pub(crate) fn recorded(&mut self, answer: Answer) {
        let Answer { state, recorded_at, results, should_cancel } = answer;
        let call = self.in_flight.take().expect("an answer follows a call");
        for branch in call.detached.iter().chain(&call.stepped) {
            self.branch(branch).unrecorded -= 1;
        }
        for branch in call.stepped {
            let state = self.branch(&branch);
            state.now = state.now.max(recorded_at);
        }
        let brought = results.len();
        for result in results {
            self.history.arrive(result);
        }
        match state {
            State::Waiting => self.end(Ending::Suspend),
            State::Halted => self.end(Ending::Halt),
            State::Running if should_cancel => self.end(Ending::Cancel),
            State::Running if call.has_wait && brought == 0 => {
                self.end(Ending::Stop(Misuse::EmptyAnswer.into()));
            }
            State::Running => {}
        }
        if let Some(savepoint) = call.savepoint {
            self.end(Ending::StartOver(savepoint.recorded_at(recorded_at)));
        }
    }

    pub(crate) fn time_out(&mut self, key: &str, number: u32) {
        match self.running.get_mut(key) {
            Some((running, is_over)) if *running == number => *is_over = true,
            _ => {}
        }
    }
}

/// The name of a wait follows from its items. No two waits of a run are for the same items, because an item that has
/// arrived is not awaited again.
fn wait_key(items: &[Awaited]) -> String {
    if let [only] = items {
        return key::wait(only.key());
    }
    let mut hash = Sha256::new();
    for item in items {
        hash.update(item.key().as_bytes());
        hash.update(b"\n");
    }
    let digest = Digest::from_bytes(hash.finalize().into()).to_string();
    key::wait(&digest[..32])
}
