//! The state of one attempt: what the code waits for, what has yet to be recorded, and what the driver does next.
//!
//! Operations put what they want into [`Core::wants`] and wait. When the code cannot go on, [`Core::settle`] looks at
//! all wants together and makes the next commands. So what is ready at the same time goes out in one call, and nothing
//! new starts before the code has come to everything that was recorded.
//!
//! Invariants:
//! - A step starts only after all earlier results of its branch are recorded, and at most one call is under way.
//! - A wait is sent only when no step runs and nothing else is wanted: it may end the attempt.
//! - After an ending is set, no command is made.

mod calls;

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use wire::answers::BudgetLeft;
use wire::{Json, Time};

use self::calls::InFlight;
use crate::branch_state::BranchState;
use crate::command::{Awaited, Checkpoint, ChildRecord, Command, Mode, Start, StepRecord};
use crate::history::{Entered, History};
use crate::key::{self, Branch, OperationKind};
use crate::stop::{Difference, Divergence, LastOperation, Misuse, Seen, SourceLine, Stop};
use crate::{Digest, DigestFn, Failure};

/// Open branches of one run. Each has a cursor in memory, and every answer wakes all of them.
const BRANCHES_MAX: usize = 1000;

/// Why the code is not resumed.
#[derive(Debug)]
pub(crate) enum Ending {
    Stop(Stop),
    /// A step failed whose failure ends the run.
    Abort(Failure),
    /// A savepoint was recorded: the function starts over.
    StartOver(Checkpoint),
    Suspend,
    Halt,
    Cancel,
}

/// What an operation waits for.
pub(crate) enum Want {
    /// The results of its branch are recorded.
    Record,
    /// It may start its work.
    Execute { number: u32, timeout: Option<Duration> },
    /// What it awaits has arrived.
    Arrival { mode: Mode, items: Vec<Awaited> },
}

pub(crate) struct Core {
    pub(crate) origin: String,
    pub(crate) fence: u64,
    seed: u64,
    /// What identifies inputs; SHA-256 if there is none.
    digest: Option<DigestFn>,
    /// What the function starts over with.
    pub(crate) resumed: Option<Json>,
    /// Counts begin above this one, which is that of the last savepoint: no key is used twice in a run.
    base: u64,
    highest: u64,
    history: History,
    branches: BTreeMap<Branch, BranchState>,
    wants: BTreeMap<String, (Branch, Want)>,
    /// Steps whose work runs: the number of the try, and whether its time is over.
    running: BTreeMap<String, (u32, bool)>,
    finished: Vec<(Branch, StepRecord)>,
    children: VecDeque<(Branch, ChildRecord)>,
    in_flight: Option<InFlight>,
    /// How many waits for something outside are open ([`crate::outside`]).
    pub(crate) outside: usize,
    commands: VecDeque<Command>,
    ending: Option<Ending>,
    /// The code is being dropped on purpose.
    pub(crate) is_closing: bool,
    last: LastOperation,
    /// The first operation that was made and dropped before it began.
    left_alone: Option<(String, SourceLine)>,
    wakers: Vec<Waker>,
    /// What is left of the run's budget, as the driver heard last.
    pub(crate) left: Option<BudgetLeft>,
}

impl Core {
    pub(crate) fn new(start: Start, digest: Option<DigestFn>) -> Core {
        let Start { task_id, origin, fence, seed, created_at, input: _, mut checkpoints } = start;
        let savepoint = checkpoints.iter().rposition(|checkpoint| checkpoint.savepoint);
        let after = checkpoints.split_off(savepoint.map_or(0, |position| position + 1));
        let mut core = Core {
            origin: origin.unwrap_or(task_id),
            fence,
            seed,
            digest,
            resumed: None,
            base: 0,
            highest: 0,
            history: History::new(after),
            branches: BTreeMap::from([(Branch::root(), BranchState::open(created_at))]),
            wants: BTreeMap::new(),
            running: BTreeMap::new(),
            finished: Vec::new(),
            children: VecDeque::new(),
            in_flight: None,
            outside: 0,
            commands: VecDeque::new(),
            ending: None,
            is_closing: false,
            last: LastOperation(None),
            left_alone: None,
            wakers: Vec::new(),
            left: None,
        };
        if let Some(savepoint) =
            savepoint.and_then(|position| checkpoints.into_iter().nth(position))
        {
            core.start_over(savepoint);
        }
        core
    }

    /// Begins again from a savepoint: its result is all that is left of what came before.
    pub(crate) fn start_over(&mut self, savepoint: Checkpoint) {
        self.base = key::parse(&savepoint.key).count;
        self.highest = self.base;
        let root = BranchState::open(savepoint.recorded_at);
        self.branches = BTreeMap::from([(Branch::root(), root)]);
        self.resumed = savepoint.result;
        self.wants.clear();
        self.wakers.clear();
        self.left_alone = None;
    }

    pub(crate) fn digest(&self) -> Option<DigestFn> {
        self.digest.clone()
    }

    // Branches and keys.

    pub(crate) fn branch(&mut self, branch: &Branch) -> &mut BranchState {
        self.branches.get_mut(branch).expect("a context is made with its branch's state")
    }

    /// Opens a branch inside another one, no earlier than `floor`.
    pub(crate) fn open(
        &mut self,
        outer: &Branch,
        branch: &Branch,
        floor: Time,
        at: SourceLine,
    ) -> Result<(), Misuse> {
        let name = || branch.as_str().to_owned();
        if self.branches.get(branch).is_some_and(|state| state.is_open) {
            return Err(Misuse::OpenTwice { branch: name(), at });
        }
        let open = self.branches.values().filter(|state| state.is_open).count();
        if open >= BRANCHES_MAX {
            let what = "open branches";
            return Err(Misuse::TooMany { what, count: open + 1, max: BRANCHES_MAX, at });
        }
        let state = self.branch(outer);
        state.check_free(outer, &name(), at)?;
        state.inner_open += 1;
        let now = state.now.max(floor);
        self.branches.entry(branch.clone()).or_insert_with(|| BranchState::open(now)).reopen(now);
        Ok(())
    }

    pub(crate) fn close(&mut self, outer: &Branch, branch: &Branch) {
        let state = self.branch(branch);
        state.is_open = false;
        let now = state.now.max(state.joined);
        let outer = self.branch(outer);
        outer.inner_open -= 1;
        outer.joined = outer.joined.max(now);
    }

    /// Numbers the uses of one label in one branch.
    pub(crate) fn count(&mut self, branch: &Branch, label: &str) -> u64 {
        let base = self.base;
        let counts = &mut self.branch(branch).counts;
        let count = counts.entry(label.to_owned()).or_insert(base);
        *count += 1;
        let count = *count;
        self.highest = self.highest.max(count);
        count
    }

    /// Gives the operation its key and compares it with the record.
    pub(crate) fn enter(
        &mut self,
        branch: &Branch,
        kind: OperationKind,
        name: &str,
        input_digest: Option<Digest>,
        at: SourceLine,
    ) -> Result<(String, Entered), Stop> {
        let label = kind.label(name);
        let count = match kind {
            // The highest count so far, and one: every count before a savepoint is smaller than those after it.
            OperationKind::Savepoint => self.highest + 1,
            _ => self.count(branch, &label),
        };
        let key = branch.key(&label, count);
        if !key::fits(&key) {
            return Err(Misuse::BadName { name: name.to_owned(), at }.into());
        }
        self.last = LastOperation(Some((key.clone(), at)));
        let actual = Seen { key: key.clone(), input_digest };
        let index = self.branch(branch).index;
        match self.history.enter(branch, &actual) {
            Ok(entered) => {
                self.branch(branch).index += 1;
                Ok((key, entered))
            }
            Err(unlike) => {
                let divergence = unlike.at(branch, index, actual);
                Err(Divergence { at: Some(at), ..divergence }.into())
            }
        }
    }

    /// The same for a member of `any`. One that lost left no record, so another key at its place is no difference: it
    /// waits as a new one, and a member that won and is gone is found as unreached.
    pub(crate) fn enter_if_next(
        &mut self,
        branch: &Branch,
        kind: OperationKind,
        name: &str,
        input_digest: Option<Digest>,
        at: SourceLine,
    ) -> Result<(String, Entered), Stop> {
        let label = kind.label(name);
        if self.is_recorded_next(branch, &label) {
            return self.enter(branch, kind, name, input_digest, at);
        }
        let count = self.count(branch, &label);
        let key = branch.key(&label, count);
        if !key::fits(&key) {
            return Err(Misuse::BadName { name: name.to_owned(), at }.into());
        }
        self.last = LastOperation(Some((key.clone(), at)));
        Ok((key, Entered::New))
    }

    /// Whether the record's next operation of this branch is the next one of this label.
    pub(crate) fn is_recorded_next(&mut self, branch: &Branch, label: &str) -> bool {
        let base = self.base;
        let count = self.branch(branch).counts.get(label).copied().unwrap_or(base) + 1;
        self.history.is_next(branch, &branch.key(label, count))
    }

    /// Whether new code may take a new path: the record of the branch is over, or has the marker next.
    pub(crate) fn is_patched(&mut self, branch: &Branch, id: &str, at: SourceLine) -> bool {
        if let Some(answer) = self.branch(branch).patches.get(id) {
            return *answer;
        }
        let label = OperationKind::Patched.label(id);
        let answer = self.history.is_over(branch) || self.is_recorded_next(branch, &label);
        self.branch(branch).patches.insert(id.to_owned(), answer);
        if answer {
            match self.enter(branch, OperationKind::Patched, id, None, at) {
                Ok((key, Entered::New)) => self.finish(branch, StepRecord::marker(key)),
                Ok((key, Entered::Recorded)) => drop(self.take(branch, &key)),
                Err(stop) => self.end(Ending::Stop(stop)),
            }
        }
        answer
    }

    pub(crate) fn draw(&mut self, branch: &Branch, label: &str) -> [u8; 32] {
        let count = self.count(branch, &format!("random:{label}"));
        crate::digest::draw(self.seed, branch, label, count)
    }

    /// A number that differs between the tries of a step, and is the same in every replay.
    pub(crate) fn jitter(&self, branch: &Branch, key: &str, number: u32) -> u64 {
        crate::digest::first_u64(crate::digest::draw(self.seed, branch, key, u64::from(number)))
    }

    // Results.

    pub(crate) fn has(&self, key: &str) -> bool {
        self.history.has(key)
    }

    /// Takes a result; the branch's time follows.
    pub(crate) fn take(&mut self, branch: &Branch, key: &str) -> Option<Checkpoint> {
        self.take_first(branch, &[key])
    }

    /// Takes the result that was committed first; the branch's time follows.
    pub(crate) fn take_first(&mut self, branch: &Branch, keys: &[&str]) -> Option<Checkpoint> {
        let checkpoint = self.history.take_first(keys)?;
        let state = self.branch(branch);
        state.now = state.now.max(checkpoint.recorded_at);
        Some(checkpoint)
    }

    pub(crate) fn forget_parts(&mut self, operation: &str) {
        self.history.forget_parts(operation);
    }

    /// Keeps a result for the next call.
    pub(crate) fn finish(&mut self, branch: &Branch, step: StepRecord) {
        self.branch(branch).unrecorded += 1;
        self.finished.push((branch.clone(), step));
    }

    /// Keeps a child for the next call. Nothing else waits for a detached one, so its start counts as a result.
    pub(crate) fn start_child(&mut self, branch: &Branch, child: ChildRecord) {
        self.branch(branch).unrecorded += usize::from(child.detached);
        self.children.push_back((branch.clone(), child));
    }

    // Wants.

    pub(crate) fn want(&mut self, key: &str, branch: &Branch, want: Want) {
        self.wants.insert(key.to_owned(), (branch.clone(), want));
    }

    pub(crate) fn satisfied(&mut self, key: &str) {
        self.wants.remove(key);
    }

    pub(crate) fn is_running(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    pub(crate) fn is_timed_out(&self, key: &str) -> bool {
        self.running.get(key).is_some_and(|(_, is_over)| *is_over)
    }

    pub(crate) fn stopped_running(&mut self, key: &str) {
        self.running.remove(key);
    }

    pub(crate) fn park(&mut self, waker: &Waker) {
        if !self.wakers.last().is_some_and(|last| last.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }

    // Endings.

    /// The first reason stands.
    pub(crate) fn end(&mut self, ending: Ending) {
        if !self.is_closing {
            self.ending.get_or_insert(ending);
        }
    }

    /// An operation was dropped before it began.
    pub(crate) fn left_alone(&mut self, operation: String, at: SourceLine) {
        if !self.is_closing {
            self.left_alone.get_or_insert((operation, at));
        }
    }

    /// The function has returned a value, as if everything that it made had happened.
    pub(crate) fn check_all_begun(&mut self) {
        if let Some((operation, at)) = self.left_alone.take() {
            self.end(Ending::Stop(Misuse::NotAwaited { operation, at }.into()));
        }
    }

    pub(crate) fn take_ending(&mut self) -> Option<Ending> {
        self.ending.take()
    }

    pub(crate) fn end_by_foreign_await(&mut self) {
        let misuse = Misuse::ForeignAwait { last: self.last.clone() };
        self.end(Ending::Stop(misuse.into()));
    }

    pub(crate) fn end_by_unreadable_savepoint(&mut self, problem: String, at: SourceLine) {
        let key = Branch::root().key(key::SAVEPOINT, self.base);
        let divergence = Divergence {
            difference: Difference::Unreadable(problem),
            branch: String::new(),
            index: 0,
            recorded: Some(Seen { key, input_digest: None }),
            actual: None,
            at: Some(at),
        };
        self.end(Ending::Stop(divergence.into()));
    }

    /// The function has returned, or a failure ended it: what is recorded and was not reached is a divergence.
    pub(crate) fn unreached(&self) -> Option<Stop> {
        let (branch, recorded) = self.history.unreached()?;
        let state = self.branches.iter().find(|(known, _)| known.as_str() == branch);
        let divergence = Divergence {
            difference: Difference::Unreached,
            index: state.map_or(0, |(_, state)| state.index),
            branch,
            recorded: Some(recorded),
            actual: None,
            at: None,
        };
        Some(divergence.into())
    }

    pub(crate) fn has_call_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// What rides with the report.
    pub(crate) fn take_rest(&mut self) -> (Vec<StepRecord>, Vec<ChildRecord>) {
        let steps = std::mem::take(&mut self.finished).into_iter().map(|(_, step)| step);
        let children = std::mem::take(&mut self.children).into_iter().map(|(_, child)| child);
        (steps.collect(), children.collect())
    }

    pub(crate) fn next_command(&mut self) -> Option<Command> {
        if self.ending.is_some() { None } else { self.commands.pop_front() }
    }
}

impl StepRecord {
    fn marker(key: String) -> StepRecord {
        StepRecord::succeeded(key, Json::null(), None)
    }

    pub(crate) fn succeeded(key: String, result: Json, input_digest: Option<Digest>) -> StepRecord {
        let outcome = crate::Outcome::Succeeded;
        let result = Some(result);
        StepRecord {
            key,
            outcome,
            result,
            error: None,
            input_digest,
            spend: None,
            savepoint: false,
            effects: Vec::new(),
        }
    }

    pub(crate) fn failed(key: String, error: Failure, input_digest: Option<Digest>) -> StepRecord {
        let outcome = crate::Outcome::Failed;
        let error = Some(error.into_recorded());
        StepRecord {
            key,
            outcome,
            result: None,
            error,
            input_digest,
            spend: None,
            savepoint: false,
            effects: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
