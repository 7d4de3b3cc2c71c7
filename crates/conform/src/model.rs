//! The model coordinator: grants what a case offers, keeps what is recorded, and judges nothing.
//!
//! It follows the contract of the real one as far as a worker or client can tell: leases end when they are not renewed, a
//! repeated poll gets the same leases, a repeated report its first answer, a recorded step never changes. It has one
//! tenant, no persistence and no retries of its own: a case says how many attempts there are.
//!
//! The memory coordinator of `crates/workflow` serves the same purpose for one run and an engine in the same process. It
//! has no leases and skips time, so only its rules are repeated here, in the shapes of the wire ([`record`]).

mod calls;
mod record;
mod runs;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wire::answers::Envelope;
use wire::requests::{LeaseRequest, Resources};
use wire::{Code, Json, Time};

pub(crate) use self::record::Record;
pub(crate) use self::runs::Runs;
use crate::case::{Case, Offer};
use crate::log::{Entry, Log, Sort};
use crate::value;

/// The queue that every subject serves.
pub(crate) const QUEUE: &str = "conform";
const SCOPE: &str = "conform";
/// The worker for which pushed tasks are leased.
const PUSH_WORKER: &str = "push:conform";
/// The source of every function's draws and jitter.
const SEED: u64 = 7;
/// Tokens do not expire in a case, except where it says so.
const TOKEN_MS: i64 = 3_600_000;

pub(crate) struct Model {
    pub(crate) case: Arc<Case>,
    pub(crate) log: Log,
    pub(crate) tasks: Vec<Task>,
    pub(crate) runs: Runs,
    /// Which lease a token belongs to, and its number among the tokens of that lease.
    tokens: HashMap<String, Token>,
    /// Leases that a poll was granted, by its id.
    polls: HashMap<String, Vec<(usize, u32)>>,
    /// Tasks whose worker should send a heartbeat now.
    hints: Vec<usize>,
    pub(crate) skew_ms: i64,
    pub(crate) is_down: bool,
    pub(crate) url: String,
    next_id: u64,
}

#[derive(Clone, Copy)]
struct Token {
    task: usize,
    attempt: u32,
    number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Held,
    /// May be leased from this time on, in milliseconds of the log.
    Offered(u64),
    Leased,
    Waiting,
    Ended,
}

pub(crate) struct Task {
    pub(crate) offer: Offer,
    pub(crate) task_id: String,
    pub(crate) run_id: String,
    pub(crate) state: TaskState,
    pub(crate) attempt: u32,
    pub(crate) lease: Option<Lease>,
    pub(crate) record: Record,
    pub(crate) cancel: Option<String>,
    /// The report of the current lease, with its answer.
    reported: Option<(String, Value)>,
    pub(crate) created_at: Time,
    deadline_ms: Option<f64>,
    copies_left: u32,
    /// What is left of the budget, if there is one.
    pub(crate) left: Option<Value>,
    /// Processes that the code of this task marked.
    pub(crate) pids: Vec<i32>,
    /// The code of the current attempt marked its end.
    is_done: bool,
}

pub(crate) struct Lease {
    id: String,
    pub(crate) worker: String,
    end_ms: f64,
    tokens: u32,
    token: String,
}

impl Model {
    pub(crate) fn new(case: Arc<Case>, url: String) -> Model {
        let mut model = Model {
            log: Log::new(),
            tasks: Vec::new(),
            runs: Runs::new(&case),
            tokens: HashMap::new(),
            polls: HashMap::new(),
            hints: Vec::new(),
            skew_ms: case.skew_ms,
            is_down: false,
            url,
            next_id: 0,
            case: Arc::clone(&case),
        };
        for offer in &case.offer {
            for n in 1..=offer.count {
                model.add_task(offer, n);
            }
        }
        model
    }

    fn add_task(&mut self, offer: &Offer, n: u32) {
        let mut offer = offer.clone();
        if n > 1 {
            offer.name = format!("{}-{n}", offer.name);
        }
        let task = Task {
            task_id: self.id("task"),
            run_id: self.id("run"),
            state: TaskState::Held,
            attempt: offer.attempt,
            lease: None,
            record: Record::new(&offer.checkpoints, self.now()),
            cancel: None,
            reported: None,
            created_at: self.now(),
            deadline_ms: None,
            copies_left: offer.copies,
            left: offer.budget_left.clone(),
            pids: Vec::new(),
            is_done: false,
            offer: Offer { input: value::filled(&offer.input, &|_| None), ..offer },
        };
        self.tasks.push(task);
    }

    pub(crate) fn id(&mut self, kind: &str) -> String {
        self.next_id += 1;
        format!("{kind}_{:026}", self.next_id)
    }

    /// The coordinator's clock.
    pub(crate) fn now(&self) -> Time {
        Time::from_ms(jiff::Timestamp::now().as_millisecond() + self.skew_ms)
    }

    /// Begins to offer what the case offers from the beginning.
    pub(crate) fn open(&mut self) {
        let now = self.log.now_ms() as u64;
        for task in &mut self.tasks {
            if task.state == TaskState::Held && !task.offer.held {
                task.state = TaskState::Offered(now + task.offer.after_ms);
            }
        }
    }

    pub(crate) fn offer(&mut self, name: &str) {
        let now = self.log.now_ms() as u64;
        if let Some(task) = self.task_named(name) {
            task.state = TaskState::Offered(now);
        }
    }

    pub(crate) fn task_named(&mut self, name: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.offer.name == name)
    }

    pub(crate) fn place_of(&self, task_id: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.task_id == task_id)
    }

    pub(crate) fn name_of(&self, task_id: &str) -> Option<String> {
        self.place_of(task_id).map(|place| self.tasks[place].offer.name.clone())
    }

    /// Whether an attempt has no lease any more.
    pub(crate) fn is_over(&self, task_id: &str, attempt: u32) -> bool {
        let Some(place) = self.place_of(task_id) else { return false };
        let task = &self.tasks[place];
        task.attempt != attempt || task.lease.is_none()
    }

    /// How many tasks of a worker are under way. One whose code has said that it is done has a free slot, although its report
    /// is still on its way.
    pub(crate) fn held_by(&self, worker: &str) -> u32 {
        let is_held = |task: &&Task| {
            let is_its = task.lease.as_ref().is_some_and(|it| it.worker == worker);
            is_its && !task.is_done
        };
        self.tasks.iter().filter(is_held).count() as u32
    }

    /// Leases for a poll, the same ones if it was answered before.
    pub(crate) fn grant(&mut self, poll: &LeaseRequest, max: u32) -> Vec<Envelope> {
        if let Some(known) = poll.poll_id.as_ref().and_then(|id| self.polls.get(id)) {
            let current: Vec<usize> = known
                .iter()
                .filter(|(task, attempt)| {
                    let task = &self.tasks[*task];
                    task.state == TaskState::Leased && task.attempt == *attempt
                })
                .map(|(task, _)| *task)
                .collect();
            return current.into_iter().map(|place| self.envelope(place)).collect();
        }
        let now = self.log.now_ms() as u64;
        let mut granted = Vec::new();
        for place in 0..self.tasks.len() {
            let room = granted.len() < max as usize;
            if room && self.is_wanted(place, poll) && self.is_due(place, now) {
                self.lease(place, &poll.worker_id);
                granted.push(place);
            } else if self.is_copy(place, &poll.worker_id) {
                self.tasks[place].copies_left -= 1;
                granted.push(place);
            }
        }
        let envelopes = granted.iter().map(|place| self.envelope(*place)).collect();
        if let Some(id) = poll.poll_id.clone().filter(|_| !granted.is_empty()) {
            let leases = granted.iter().map(|place| (*place, self.tasks[*place].attempt)).collect();
            self.polls.insert(id, leases);
        }
        envelopes
    }

    fn is_wanted(&self, place: usize, poll: &LeaseRequest) -> bool {
        let kind = &self.tasks[place].offer.kind;
        poll.queues.iter().any(|queue| queue == QUEUE)
            && poll.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    fn is_due(&self, place: usize, now: u64) -> bool {
        matches!(self.tasks[place].state, TaskState::Offered(from) if from <= now)
    }

    /// A lease that is granted a second time, as a coordinator would that lost track of an answer.
    fn is_copy(&self, place: usize, worker: &str) -> bool {
        let task = &self.tasks[place];
        let is_its = task.lease.as_ref().is_some_and(|lease| lease.worker == worker);
        task.state == TaskState::Leased && is_its && task.copies_left > 1
    }

    fn lease(&mut self, place: usize, worker: &str) {
        let (lease_id, token) = (self.id("lease"), self.new_token(place, 1));
        let now = self.log.now_ms();
        let task = &mut self.tasks[place];
        let end_ms = now + task.offer.lease_ms as f64;
        if task.deadline_ms.is_none() {
            task.deadline_ms = task.offer.deadline_ms.map(|after| now + after as f64);
        }
        let end_ms = task.deadline_ms.map_or(end_ms, |deadline| end_ms.min(deadline));
        let lease = Lease { id: lease_id, worker: worker.to_owned(), end_ms, tokens: 1, token };
        task.lease = Some(lease);
        task.reported = None;
        task.is_done = false;
        task.state = TaskState::Leased;
        let (of, attempt) = (task.offer.name.clone(), task.attempt);
        let members = json!({"worker": worker, "leaseMs": end_ms - now});
        let entry = Entry::event("granted", members);
        self.log.add(Entry { of: Some(of), attempt: Some(attempt), ..entry });
    }

    /// A token for the current attempt of a task.
    fn new_token(&mut self, place: usize, number: u32) -> String {
        let token = format!("{}.{}", self.id("token"), self.tasks[place].task_id);
        let attempt = self.tasks[place].attempt;
        self.tokens.insert(token.clone(), Token { task: place, attempt, number });
        token
    }

    pub(crate) fn token_number(&self, token: &str) -> Option<u32> {
        self.tokens.get(token).map(|token| token.number)
    }

    pub(crate) fn envelope(&self, place: usize) -> Envelope {
        let task = &self.tasks[place];
        let lease = task.lease.as_ref().expect("an envelope is of a lease");
        let offer = &task.offer;
        let now = self.now();
        let (checkpoints, checkpoints_after) = task.record.page(None, offer.page);
        let resources = offer
            .timeout_ms
            .map(|timeout_ms| Resources { timeout_ms: Some(timeout_ms), ..Resources::default() });
        let ends_in = |end_ms: f64| (end_ms - self.log.now_ms()) as i64;
        let deadline = task.deadline_ms.map(|end| Time::from_ms(now.as_ms() + ends_in(end)));
        Envelope {
            task_id: task.task_id.clone(),
            origin: None,
            run_id: task.run_id.clone(),
            tenant_id: SCOPE.to_owned(),
            workspace_id: SCOPE.to_owned(),
            task_key: offer.kind.clone(),
            asset_id: None,
            resources,
            kind: offer.kind.clone(),
            queue: QUEUE.to_owned(),
            attempt: task.attempt,
            lease_id: lease.id.clone(),
            fence: u64::from(task.attempt),
            input: Json::from_value(&offer.input).expect("a value of a case has a JSON form"),
            enqueued_at: task.created_at,
            deadline,
            lease_expires_at: Time::from_ms(now.as_ms() + ends_in(lease.end_ms)),
            callback_base_url: self.url.clone(),
            task_token: lease.token.clone(),
            token_expires_at: Time::from_ms(now.as_ms() + TOKEN_MS),
            heartbeat_interval_ms: offer.heartbeat_ms.unwrap_or(offer.lease_ms / 3),
            heartbeat_timeout_ms: offer.lease_ms,
            cancel_grace_period_ms: offer.grace_ms,
            labels: std::collections::BTreeMap::new(),
            traceparent: None,
            seed: Some(SEED),
            parent_task_id: None,
            stage: offer.stage.clone(),
            checkpoints,
            checkpoints_after,
            budget_left: task.left.as_ref().and_then(|it| serde_json::from_value(it.clone()).ok()),
        }
    }

    /// The task of a token, if its lease is current.
    fn authority(&self, task_id: &str, token: &str) -> Result<usize, Code> {
        let Some(token) = self.tokens.get(token) else { return Err(Code::InvalidToken) };
        let task = &self.tasks[token.task];
        if task.task_id != task_id {
            return Err(Code::InvalidToken);
        }
        if task.attempt != token.attempt {
            return Err(Code::AttemptMismatch);
        }
        match task.state {
            TaskState::Leased => Ok(token.task),
            TaskState::Ended => Err(Code::TaskAlreadyTerminal),
            _ => Err(Code::TaskExpired),
        }
    }

    fn renew(&mut self, place: usize) {
        let now = self.log.now_ms();
        let task = &mut self.tasks[place];
        let end_ms = now + task.offer.lease_ms as f64;
        let end_ms = task.deadline_ms.map_or(end_ms, |deadline| end_ms.min(deadline));
        if let Some(lease) = &mut task.lease {
            lease.end_ms = end_ms;
        }
    }

    fn lease_expires_at(&self, place: usize) -> Option<Time> {
        let left = self.tasks[place].lease.as_ref()?.end_ms - self.log.now_ms();
        Some(Time::from_ms(self.now().as_ms() + left as i64))
    }

    /// Ends leases that were not renewed, wakes tasks whose wait is over. Returns whether anything changed.
    pub(crate) fn tick(&mut self) -> bool {
        let now = self.log.now_ms();
        let mut changed = false;
        for place in 0..self.tasks.len() {
            let lease = self.tasks[place].lease.as_ref();
            if lease.is_some_and(|lease| lease.end_ms <= now) {
                self.expire(place);
                changed = true;
            }
            changed |= self.wake(place);
        }
        changed
    }

    fn expire(&mut self, place: usize) {
        let task = &self.tasks[place];
        let alive: Vec<i32> = task.pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        let entry = Entry {
            of: Some(task.offer.name.clone()),
            attempt: Some(task.attempt),
            ..Entry::event("leaseEnd", json!({"alive": alive, "marked": task.pids}))
        };
        self.log.add(entry);
        self.next_attempt(place);
    }

    /// The lease is over; another attempt follows if the case has one.
    fn next_attempt(&mut self, place: usize) {
        let now = self.log.now_ms() as u64;
        let task = &mut self.tasks[place];
        task.lease = None;
        if task.attempt < task.offer.attempt + task.offer.attempts - 1 {
            task.attempt += 1;
            task.state = TaskState::Offered(now);
        } else {
            task.state = TaskState::Waiting;
        }
    }

    /// Ends the leases of a worker process that the kit has killed.
    pub(crate) fn forget_leases(&mut self) {
        for place in 0..self.tasks.len() {
            if self.tasks[place].state == TaskState::Leased {
                let now = self.log.now_ms() as u64;
                let task = &mut self.tasks[place];
                task.lease = None;
                task.attempt += 1;
                task.state = TaskState::Offered(now);
            }
        }
    }

    /// A restored coordinator: what was leased is leased no more, and no token is known.
    pub(crate) fn begin_epoch(&mut self) {
        self.tokens.clear();
        self.polls.clear();
        for place in 0..self.tasks.len() {
            if self.tasks[place].state == TaskState::Leased {
                self.next_attempt(place);
            }
        }
    }

    pub(crate) fn cancel(&mut self, name: &str) {
        let Some(place) = self.tasks.iter().position(|task| task.offer.name == name) else {
            return;
        };
        self.tasks[place].cancel = Some("the case cancels it".to_owned());
        self.log.add(Entry { of: Some(name.to_owned()), ..Entry::event("cancelled", json!({})) });
        self.hints.push(place);
    }

    /// Takes the hints for a worker.
    pub(crate) fn take_hints(&mut self, worker: &str) -> Vec<String> {
        let tasks = &self.tasks;
        let is_its = |place: &mut usize| {
            tasks[*place].lease.as_ref().is_some_and(|lease| lease.worker == worker)
        };
        let taken: Vec<usize> = self.hints.extract_if(.., is_its).collect();
        taken.into_iter().map(|place| self.tasks[place].task_id.clone()).collect()
    }

    /// The envelope of a task that is leased for a push endpoint, the same one if it was sent before.
    pub(crate) fn push_lease(&mut self, name: &str) -> Option<Envelope> {
        let place = self.tasks.iter().position(|task| task.offer.name == name)?;
        if self.tasks[place].lease.is_none() {
            self.lease(place, PUSH_WORKER);
        }
        Some(self.envelope(place))
    }

    /// Notes a word of the subject's code.
    pub(crate) fn mark(&mut self, said: &Value) {
        let task_id = said["task"].as_str().unwrap_or_default();
        let of = self.name_of(task_id);
        if let (Some(place), Some(pid)) = (self.place_of(task_id), said["pid"].as_i64()) {
            self.tasks[place].pids.extend(i32::try_from(pid));
        }
        if let Some(place) = self.place_of(task_id) {
            self.tasks[place].is_done |= matches!(said["mark"].as_str(), Some("done" | "stopped"));
        }
        let attempt = said["attempt"].as_u64().map(|n| n as u32);
        let name = said["mark"].as_str().unwrap_or_default().to_owned();
        self.log.add(Entry {
            at_ms: 0.0,
            sort: Sort::Mark,
            name,
            of,
            attempt,
            members: said.clone(),
        });
    }
}

/// Whether a process exists that is not waiting to be collected.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    match stat {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => rustix::process::Pid::from_raw(pid).is_some_and(|pid| {
            !cfg!(target_os = "linux") && rustix::process::test_kill_process(pid).is_ok()
        }),
    }
}
