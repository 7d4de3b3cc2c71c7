//! Values that are written to a store and read from it, apart from the types of the rules.

use std::borrow::Cow;
use std::collections::BTreeMap;

use verdict::event::Submitted;
use verdict::flow::{Rate, RateUse, Starts};
use verdict::plan::PlanState;
use verdict::run::Checkpoint;
use verdict::{
    ClosedAttempt, Digest, Done, Event, Fence, LeaseId, Moment, Name, Refusal, Request, RunRequest,
    RunState, Scope, Settled, Subject, Task, TaskId, Text, Time, WorkerVerdict,
};
pub use verdict::{
    FlowRef, IdempotencyKey, KeyOwner, Renewals, Resources, Spec, TaskKey, Unfinished,
};

use crate::failure::{Failure, FailureKind};
use crate::runs::{StoredChild, StoredSignal, StoredStep};

/// An ended task's position in the order of submission. Opaque: only the engine that produced it can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndedPosition(pub u128);

/// What retention reads of an ended task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTask {
    pub position: EndedPosition,
    /// Never earlier than that of a preceding task.
    pub created_at: Time,
    pub completed_at: Time,
    /// Whether something is still to be done about an object that belongs to it: an effect that is not delivered.
    pub has_pending_objects: bool,
}

/// One task's change: everything that one batch has decided about it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision that was loaded, or saved earlier in this batch; `None` for a new task.
    pub before: Option<u32>,
    /// `Live` or `Done`, never `Absent`.
    pub after: Subject,
    /// Present exactly for a new task.
    pub spec: Option<Spec>,
    /// Attempts that this change closes.
    pub closed: Vec<ClosedAttempt>,
    pub entries: Vec<Entry>,
    /// All steps of the plan that a new task is submitted with, in order.
    pub steps: Vec<StoredStep>,
}

impl Change {
    /// Refuses a change with a number that not every store can hold, so that all stores refuse the same changes.
    pub fn check(&self) -> Result<(), Failure> {
        let (id, counts, fence) = match &self.after {
            Subject::Live(task) => {
                let Task { attempt, failures, lost, undelivered, .. } = task;
                let Task { claim_version, revision, entries, .. } = task;
                let counts =
                    [attempt, failures, lost, undelivered, claim_version, revision, entries];
                (task.id, counts.map(|count| *count), task.lease().map(|lease| lease.fence))
            }
            Subject::Done(done) => {
                let Done { attempt, failures, lost, claim_version, entries, .. } = done;
                let counts = [*attempt, *failures, *lost, 0, *claim_version, 0, *entries];
                (done.id, counts, None)
            }
            Subject::Absent => return Ok(()),
        };
        let entries = self.entries.iter().flat_map(|entry| [entry.n, entry.epoch, entry.rules]);
        let is_too_large = |count: u32| i32::try_from(count).is_err();
        let is_far = |fence: Fence| i64::try_from(fence.as_u64()).is_err();
        if counts.into_iter().chain(entries).any(is_too_large) || fence.is_some_and(is_far) {
            let what = "a number of a task is larger than a store can hold";
            return Err(Failure::new(FailureKind::Invalid, what).about(id));
        }
        Ok(())
    }
}

/// One decision in a task's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Numbered from 1, without gaps.
    pub n: u32,
    pub at: Time,
    pub epoch: u32,
    /// The version of the rules that decided.
    pub rules: u32,
    /// The request without its payloads: the digest of a report stands for its output.
    pub request: Request,
    /// The parts of the task that renewals changed since the previous entry.
    pub loaded: Option<Renewals>,
    pub events: Vec<Event>,
}

impl Entry {
    /// The entry of a decision, if the decision has one.
    pub fn of(settled: Settled, at: Moment, request: Cow<'_, Request>) -> Option<Self> {
        // Messages follow from the events, so an entry holds none: they are decided or saved beside it.
        let Settled { events, loaded, entry, messages: _ } = settled;
        let n = entry?;
        let mut request = request.into_owned();
        request.forget_asker(&events);
        Some(Self {
            n,
            at: at.now,
            epoch: at.epoch,
            rules: at.rules.number(),
            request,
            loaded,
            events,
        })
    }
}

/// A refused call under a lease: stored outside the state machine, changes nothing. Stores keep
/// the first per task, lease, call and code, so that a client that keeps repeating a call cannot fill
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub task: TaskKey,
    pub lease: LeaseId,
    pub attempt: u32,
    pub worker: Name,
    /// `started`, `heartbeat`, `report` or `checkpoint`.
    pub call: Name,
    /// The refusal's stable name.
    pub code: Name,
    pub worker_verdict: WorkerVerdict,
    pub digest: Option<Digest>,
    pub at: Time,
}

impl Refused {
    /// The row to store for a refusal. `None` for a request that no worker made, and for an unknown task:
    /// there is no task to store it with.
    pub fn of(key: &TaskKey, request: &Request, refusal: &Refusal, at: Time) -> Option<Self> {
        let caller = request.caller()?;
        let (call, digest) = match request {
            Request::Started(_) => ("started", None),
            Request::Heartbeat(_) => ("heartbeat", None),
            Request::Report(report) => ("report", Some(report.digest)),
            Request::Run(request) => match &**request {
                RunRequest::Checkpoint(call) => ("checkpoint", Some(call.digest)),
                // The same call without what it adds: nothing of that counts.
                other => return Self::of(key, other.wrapped()?, refusal, at),
            },
            _ => return None,
        };
        if *refusal == Refusal::TaskNotFound {
            return None;
        }
        Some(Self {
            task: key.clone(),
            lease: caller.lease,
            attempt: caller.attempt,
            worker: caller.worker.clone(),
            call: Name::from(call),
            code: Name::from(refusal.name()),
            worker_verdict: refusal.worker_verdict(),
            digest,
            at,
        })
    }
}

/// A flow key that a live task has, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowKeyRow {
    pub key: Name,
    pub limit: u32,
    /// How many of its tasks are leased.
    pub held: u64,
    /// How many of its tasks could be leased now, if the key had slots and starts for all of them.
    pub ready: u64,
    /// All of its tasks that have not ended.
    pub live: u64,
    /// The oldest tasks that hold a slot, at most as many as were asked for.
    pub holders: Vec<TaskId>,
    /// The rate in force, and how many more tasks may start now.
    pub rate: Option<RateUse>,
    /// When one more may, if the rate allows none now.
    pub opens_at: Option<Time>,
}

impl FlowKeyRow {
    /// How many tasks wait for a slot or a start of the key.
    pub fn parked(&self) -> u64 {
        let slots = u64::from(self.limit).saturating_sub(self.held);
        let free = self.rate.map_or(slots, |rate| slots.min(u64::from(rate.left)));
        self.ready.saturating_sub(free)
    }

    /// The same row with its rate, after these starts.
    #[must_use]
    pub fn with_rate(mut self, rate: Option<Rate>, starts: &Starts, now: Time) -> Self {
        self.rate = rate.map(|rate| RateUse::of(rate, starts, now));
        self.opens_at = rate.and_then(|rate| starts.opens_at(rate, now));
        self
    }
}

/// Which flow keys of a scope to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    pub scope: Scope,
    /// Only this key.
    pub key: Option<Name>,
    /// Only keys after this one, in order of their names.
    pub after: Option<Name>,
    pub limit: usize,
    /// How many holders of each key to name.
    pub holders: usize,
}

/// What is ahead of a waiting task in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Tasks of its own kind: every worker that could take it takes these first.
    pub of_kind: usize,
    /// Tasks of other kinds: they delay it only at workers that take those, too.
    pub of_others: usize,
}

impl Ahead {
    pub fn count(self) -> usize {
        self.of_kind + self.of_others
    }
}

/// What a poll asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub scope: Scope,
    pub queues: Vec<Name>,
    /// `None` means every kind.
    pub kinds: Option<Vec<Name>>,
    pub max: usize,
}

/// A queue that may hold claimable tasks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backlog {
    pub scope: Scope,
    pub queue: Name,
    /// An upper bound of the tasks it holds, of all kinds.
    pub tasks: usize,
    /// The kinds of these tasks, of those that polls of the scope name. None that is there is missing; `None` if they are not
    /// known, or too many to look at.
    pub kinds: Option<Vec<Name>>,
}

/// A poll with a name, so that the same poll repeated finds the tasks it was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PollRef {
    pub scope: Scope,
    pub owner: Name,
    pub poll: Name,
}

/// A task with what its worker needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWithSpec {
    pub task: Task,
    pub spec: BatchSpec,
}

/// What a batch may read of what one task was submitted with: its input, labels and goal. A batch is everybody's, and it may
/// take a thousand tasks; what is longer is read after the commit, by whoever needs it.
pub const SPEC_IN_BATCH_BYTES_MAX: usize = 8 * 1024;

/// What a task was submitted with, as far as a batch knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchSpec {
    /// It is short, or in memory anyway.
    Whole(Spec),
    /// It is longer than [`SPEC_IN_BATCH_BYTES_MAX`], and was not read. [`crate::browse::Browse::find`] reads it.
    Long { input_bytes: usize, traceparent: Option<Text> },
}

impl BatchSpec {
    pub fn input_bytes(&self) -> usize {
        match self {
            BatchSpec::Whole(spec) => spec.input.as_str().len(),
            BatchSpec::Long { input_bytes, .. } => *input_bytes,
        }
    }

    pub fn traceparent(&self) -> Option<&Text> {
        match self {
            BatchSpec::Whole(spec) => spec.traceparent.as_ref(),
            BatchSpec::Long { traceparent, .. } => traceparent.as_ref(),
        }
    }

    pub fn whole(&self) -> Option<&Spec> {
        match self {
            BatchSpec::Whole(spec) => Some(spec),
            BatchSpec::Long { .. } => None,
        }
    }
}

/// How full a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    pub scope: Scope,
    pub queue: Name,
    /// Tasks that the next poll could lease.
    pub ready: u64,
    /// Tasks that wait for a slot or a start of their flow key, and for nothing else: more workers would not help them.
    pub parked: u64,
    pub delayed: u64,
    pub running: u64,
    /// All tasks that have not ended: those above, and those in a state in which they neither wait nor run.
    pub unfinished: u64,
    /// Those of them without a parent: unfinished runs, which a quota counts.
    pub runs: u64,
    /// The instant from which the longest-waiting ready task could have been leased.
    pub oldest_ready_at: Option<Time>,
}

/// The leases that one worker holds on the tasks of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLeases {
    pub worker: Name,
    pub queue: Name,
    pub count: u64,
    pub oldest_acquired_at: Time,
    pub latest_heartbeat_at: Time,
    pub next_expires_at: Time,
}

/// Which bodies a list includes. Each may be large, and most readers of a list need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    pub input: bool,
    pub output: bool,
    pub stack_trace: bool,
}

/// A label that a task must have: with this value, or with any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFilter {
    pub name: String,
    pub value: Option<String>,
}

impl LabelFilter {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let found = labels.get(&self.name);
        found.is_some_and(|found| self.value.as_ref().is_none_or(|value| value == found))
    }
}

/// What a listing selects, where it continues, and how much one page reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<verdict::State>,
    pub queue: Option<Name>,
    /// Only tasks of these queues, whatever `queue` says: the queues that the reader may see.
    pub queues: Option<Vec<Name>>,
    pub kind: Option<Name>,
    /// Whether tasks with a parent are listed too. Without them a list is one of runs.
    pub children: bool,
    /// All of them must match.
    pub labels: Vec<LabelFilter>,
    /// The worker that holds the lease, or had the latest attempt.
    pub worker: Option<Name>,
    /// The category of the failure that ended the task.
    pub category: Option<verdict::Category>,
    /// Newest first; only tasks older than this one.
    pub before: Option<TaskId>,
    /// Only tasks from this one on. Ids begin with the time of their submission, so that a list of a period reads
    /// nothing outside of it.
    pub from: Option<TaskId>,
    pub limit: usize,
    pub bodies: Bodies,
    /// How many tasks of the scope one page examines, whether they pass the filter or not.
    pub scan_max: usize,
    /// The size of a page in bytes. A page has at least one task, however large.
    pub bytes: usize,
}

/// With this bound a filter that one task in 10,000 passes still makes progress, and costs some tens of milliseconds.
pub const SCAN_MAX: usize = 10_000;

/// What one reader may hold in memory, on both sides: 1,000 tasks without bodies, or eight with the
/// largest ones.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Default for Filter {
    fn default() -> Self {
        Self {
            state: None,
            queue: None,
            queues: None,
            kind: None,
            children: false,
            labels: Vec::new(),
            worker: None,
            category: None,
            before: None,
            from: None,
            limit: 0,
            bodies: Bodies::default(),
            scan_max: SCAN_MAX,
            bytes: PAGE_BYTES_MAX,
        }
    }
}

/// A page of tasks, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub tasks: Vec<Listed>,
    /// The `before` of the next page. A page may be shorter than its limit, or empty, and still have a next one,
    /// because it was stopped.
    pub next: Option<TaskId>,
    /// Why the page has a next one although it is shorter than its limit.
    pub stopped: Option<PageStop>,
}

/// What ended a page before it was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStop {
    /// The next task would not fit into its bytes.
    Bytes,
    /// It examined as many tasks as a page may. `next` is the last of them.
    Scan,
}

/// A task in a list. Bodies that were not requested are left out: the input is `null`, and the end has no
/// output and no stack trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub task: StoredTask,
    /// The submission. The policy of an ended task is only here.
    pub submitted: Option<Submitted>,
    /// The worker that holds the lease, or had the latest attempt.
    pub worker: Option<Name>,
}

/// A task as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTask {
    pub subject: Subject,
    pub spec: Spec,
}

/// A task with everything stored about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBundle {
    pub task: StoredTask,
    /// `None` for a task with so many rows that they are read a page at a time.
    pub rows: Option<TaskRows>,
}

/// The rows that belong to one task: all of them, or a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRows {
    /// In the order of the plan.
    pub steps: Vec<StoredStep>,
    pub history: Vec<Entry>,
    pub attempts: Vec<ClosedAttempt>,
    pub refused: Vec<Refused>,
    /// In order of their numbers.
    pub checkpoints: Vec<Checkpoint>,
    /// In order of their keys.
    pub children: Vec<StoredChild>,
    /// In order of their numbers.
    pub signals: Vec<StoredSignal>,
}

impl TaskRows {
    /// Adds the rows of a later page.
    pub(crate) fn extend(&mut self, page: TaskRows) {
        let TaskRows { steps, history, attempts, refused, checkpoints, children, signals } = page;
        self.steps.extend(steps);
        self.history.extend(history);
        self.attempts.extend(attempts);
        self.refused.extend(refused);
        self.checkpoints.extend(checkpoints);
        self.children.extend(children);
        self.signals.extend(signals);
    }
}

impl From<Vec<Entry>> for TaskRows {
    fn from(history: Vec<Entry>) -> Self {
        Self { history, ..Self::default() }
    }
}

impl From<Vec<ClosedAttempt>> for TaskRows {
    fn from(attempts: Vec<ClosedAttempt>) -> Self {
        Self { attempts, ..Self::default() }
    }
}

impl From<Vec<Checkpoint>> for TaskRows {
    fn from(checkpoints: Vec<Checkpoint>) -> Self {
        Self { checkpoints, ..Self::default() }
    }
}

impl From<Vec<StoredChild>> for TaskRows {
    fn from(children: Vec<StoredChild>) -> Self {
        Self { children, ..Self::default() }
    }
}

impl From<Vec<StoredStep>> for TaskRows {
    fn from(steps: Vec<StoredStep>) -> Self {
        Self { steps, ..Self::default() }
    }
}

impl From<Vec<StoredSignal>> for TaskRows {
    fn from(signals: Vec<StoredSignal>) -> Self {
        Self { signals, ..Self::default() }
    }
}

impl From<Vec<Refused>> for TaskRows {
    fn from(refused: Vec<Refused>) -> Self {
        Self { refused, ..Self::default() }
    }
}

impl StoredTask {
    /// The key by which the task is found.
    pub fn key(&self) -> TaskKey {
        let (scope, id) = match &self.subject {
            Subject::Live(task) => (&task.scope, task.id),
            Subject::Done(done) => (&done.scope, done.id),
            Subject::Absent => unreachable!("what was found is there"),
        };
        TaskKey { scope: scope.clone(), id }
    }

    /// How many checkpoints, started children and signals it has.
    pub fn record_count(&self) -> u32 {
        self.run().map_or(0, |run| run.checkpoints.saturating_add(run.signals.received))
    }

    /// How many steps its plan has, if they are tasks of their own.
    pub fn step_count(&self) -> u32 {
        match self.run().and_then(|run| run.plan.as_deref()) {
            Some(PlanState::Root(root)) => root.steps,
            Some(PlanState::Stages(_) | PlanState::Step(_)) | None => 0,
        }
    }

    fn run(&self) -> Option<&RunState> {
        match &self.subject {
            Subject::Live(task) => task.run.as_deref(),
            Subject::Done(done) => done.run.as_deref(),
            Subject::Absent => None,
        }
    }

    /// How many entries its history has, and how many of its attempts are closed.
    pub fn row_counts(&self) -> (u32, u32) {
        match &self.subject {
            Subject::Live(task) => {
                (task.entries, task.attempt.saturating_sub(u32::from(task.lease().is_some())))
            }
            Subject::Done(done) => (done.entries, done.attempt),
            Subject::Absent => (0, 0),
        }
    }
}
