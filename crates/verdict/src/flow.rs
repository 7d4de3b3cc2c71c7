//! Flow keys: at most so many tasks with the same key are active at once.
//!
//! A task may name one key with a limit. A *slot* of the key belongs to the task's lease: it is taken by the grant and
//! free again with the lease, however that ends (report, suspension, release, expiry, an undelivered grant). So a task
//! that waits for its child holds no slot that the child could need. A key may be held for life instead ([`hold`]).
//!
//! [`Slots`] is one key as a value: who holds a slot, which tasks are *offered* to polls, and which are *parked* until a
//! slot is free.
//!
//! Parked tasks are outside the ready order, so that a full key costs others nothing. Tasks of one key may wait in
//! several lines (a line is what a poll can take as a whole: one kind of one queue), and a line that nobody polls must
//! not keep a free slot from the others. Therefore each line offers as many tasks as slots are free, and the first poll
//! that comes takes the slot; what no longer fits is parked again.
//!
//! A key has one limit while a task with it lives, and another one is refused where it is submitted. Only a child that was
//! asked for before, a coordinator that did not see the other task yet, or an operator who changed the limit of a queue or
//! kind can bring a second limit; then the smallest one that lives counts, so that nothing depends on an order.
//!
//! A key may have a *rate* beside its limit or instead of one ([`rate`]): then no more tasks are offered than may start now,
//! and [`Slots::opens_at`] is when there will be more. And it may have a *debounce* ([`debounce`]): then a task may be replaced by
//! a newer one before it is claimable, which is of no concern to slots.
//!
//! Nothing here reads a clock or a store. Whether a task is claimable at all (due, not cancelled, its queue not paused)
//! is decided elsewhere; only claimable tasks join a line.
//!
//! Invariants:
//! - a grant never makes more holders than the limit, nor more starts than the rate;
//! - with `free` slots, the first `free` tasks of each line, by priority and then age, are offered, and no others;
//! - every task that joined and did not leave is in exactly one place.

pub mod debounce;
pub mod hold;
pub mod rate;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use self::debounce::{Debounce, Debounced};
pub use self::hold::Hold;
pub use self::rate::{Rate, Starts};
use crate::event::Subject;
use crate::id::{Name, TaskId};
use crate::task::Task;
use crate::time::{Span, Time};

/// The largest limit of a key. Each line offers up to this many tasks, and each holder is kept in memory.
pub const LIMIT_MAX: u32 = 10_000;

/// The limit of a key that has a rate alone: more than can be leased. It fits into a signed column.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// The key that a task was submitted with, in the scope of the task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub name: Name,
    /// How many tasks with this key may be leased at once. From 1 to [`LIMIT_MAX`], or [`UNLIMITED`].
    pub limit: u32,
    /// How often tasks with this key may start.
    pub rate: Option<Rate>,
    /// That the task was submitted to wait for a newer one. Tasks of a key may differ in it.
    pub debounce: Option<Debounced>,
    /// How long the task holds its slot. Tasks of a key may differ in it.
    pub hold: Hold,
    /// The keys that ancestors of the task hold for life: it shares their slots.
    pub above: Vec<Name>,
}

/// What a key asks for. All tasks of a key that have not ended have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub limit: u32,
    pub rate: Option<Rate>,
}

impl From<u32> for Terms {
    fn from(limit: u32) -> Self {
        Self { limit, rate: None }
    }
}

/// What the key of a queue begins with whose runs the operator limits, and that of a kind. Clients cannot use such keys.
pub const OF_QUEUE: &str = "queue:";
pub const OF_KIND: &str = "kind:";

impl FlowKey {
    pub fn new(name: impl Into<Name>, terms: impl Into<Terms>) -> Self {
        let Terms { limit, rate } = terms.into();
        Self {
            name: name.into(),
            limit,
            rate,
            debounce: None,
            hold: Hold::Lease,
            above: Vec::new(),
        }
    }

    /// The key of all runs of a queue that name none of their own.
    pub fn of_queue(queue: &str, terms: impl Into<Terms>) -> Self {
        Self::new(format!("{OF_QUEUE}{queue}"), terms)
    }

    /// The same for a kind.
    pub fn of_kind(kind: &str, terms: impl Into<Terms>) -> Self {
        Self::new(format!("{OF_KIND}{kind}"), terms)
    }

    /// The key of a task that repeats another one: it waits for no newer submission, and has other ancestors. Where the other
    /// one shared a slot, this one needs one, and holds it by lease: its new parent may want it in between.
    pub fn again(self) -> Self {
        let hold = if self.is_shared() { Hold::Lease } else { self.hold };
        Self { debounce: None, hold, above: Vec::new(), ..self }
    }

    pub const fn terms(&self) -> Terms {
        Terms { limit: self.limit, rate: self.rate }
    }

    /// Whether an operator gave the task its key. Then another limit is a change of the configuration and no mistake of
    /// a client, who could not avoid it.
    pub fn is_configured(&self) -> bool {
        let name = self.name.as_str();
        name.starts_with(OF_QUEUE) || name.starts_with(OF_KIND)
    }
}

/// What a decision needs to know of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The smallest limit of the tasks that have not ended; usually all of them have the same.
    pub limit: u32,
    /// How many of them hold a slot.
    pub held: u32,
    pub rate: Option<RateUse>,
}

/// How the rate of a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateUse {
    /// The rate that counts, of the tasks that have not ended.
    pub rate: Rate,
    /// How many more may start now.
    pub left: u32,
}

impl RateUse {
    /// The rate after these starts.
    pub fn of(rate: Rate, starts: &Starts, now: Time) -> Self {
        Self { rate, left: starts.left(rate, now) }
    }
}

impl KeyUse {
    /// A key without a rate.
    pub const fn new(limit: u32, held: u32) -> Self {
        Self { limit, held, rate: None }
    }

    /// How many more tasks may be leased now.
    pub fn free(self) -> u32 {
        let slots = self.limit.saturating_sub(self.held);
        self.rate.map_or(slots, |rate| slots.min(rate.left))
    }

    /// Whether one more task may be leased.
    pub fn has_room(self) -> bool {
        self.free() > 0
    }

    /// Whether a task with these terms may join the key. A key whose tasks have all ended takes any.
    pub fn accepts(self, terms: Terms) -> bool {
        self.terms() == terms
    }

    pub fn terms(self) -> Terms {
        Terms { limit: self.limit, rate: self.rate.map(|it| it.rate) }
    }

    /// A key that had no living task, when one has joined it. How many of its tasks started before, only the store knows: until
    /// it is asked again, none may start.
    pub fn joined(terms: Terms) -> Self {
        let rate = terms.rate.map(|rate| RateUse { rate, left: 0 });
        Self { limit: terms.limit, held: 0, rate }
    }

    /// A task with these terms lives, too: the stricter ones count.
    fn meets(&mut self, terms: Terms) {
        self.limit = self.limit.min(terms.limit);
        let other = terms.rate.map(|rate| RateUse { rate, left: 0 });
        self.rate = match (self.rate, other) {
            (Some(own), Some(other)) if other.rate > own.rate => Some(other),
            (own, other) => own.or(other),
        };
    }

    fn start(&mut self) {
        if let Some(rate) = &mut self.rate {
            rate.left = rate.left.saturating_sub(1);
        }
    }
}

/// The keys of one scope that a batch looked up, as far as it has decided. Keys that it did not look up are not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowUses(BTreeMap<Name, Option<KeyUse>>);

impl FlowUses {
    /// A key as the store knows it; `None` if no living task has it. Replaces what was known before.
    pub fn put(&mut self, name: Name, in_use: Option<KeyUse>) {
        self.0.insert(name, in_use);
    }

    /// `None` for a key that no living task has.
    pub fn get(&self, name: &Name) -> Option<KeyUse> {
        self.0.get(name).copied().flatten()
    }

    /// Follows a decision about a task: its slot is taken or free, or its key has one more task. That the last task of a
    /// key has ended is not seen here: the store knows it after the commit.
    pub fn follow(&mut self, before: Standing, after: &Subject) {
        let Some(flow) = flow_of(after) else { return };
        let Some(known) = self.0.get_mut(&flow.name) else { return };
        let now = Standing::of(after.live());
        let in_use = known.get_or_insert(KeyUse::joined(flow.terms()));
        if after.live().is_some() {
            in_use.meets(flow.terms());
        }
        if now.is_leased && !before.is_leased {
            in_use.start();
        }
        match (before.holds, now.holds) {
            (false, true) => in_use.held = in_use.held.saturating_add(1),
            (true, false) => in_use.held = in_use.held.saturating_sub(1),
            (true, true) | (false, false) => {}
        }
    }
}

/// What a key counts of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub is_leased: bool,
    pub holds: bool,
}

impl Standing {
    pub fn of(task: Option<&Task>) -> Self {
        let is_leased = task.is_some_and(|task| task.lease().is_some());
        Self { is_leased, holds: task.is_some_and(Task::holds_slot) }
    }
}

/// The key whose slots a task needs, whether or not it has ended.
pub fn flow_of(subject: &Subject) -> Option<&FlowKey> {
    let run = match subject {
        Subject::Absent => return None,
        Subject::Live(task) => &task.run,
        Subject::Done(done) => &done.run,
    };
    run.as_ref()?.flow.as_deref().filter(|flow| !flow.is_shared())
}

/// The order in a line: priority, larger first, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    urgency: Reverse<i32>,
    task: TaskId,
}

impl Position {
    pub const fn new(priority: i32, task: TaskId) -> Self {
        Self { urgency: Reverse(priority), task }
    }

    pub const fn priority(self) -> i32 {
        self.urgency.0
    }

    pub const fn task(self) -> TaskId {
        self.task
    }
}

/// Where a claimable task with a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the ready order: a poll may take it.
    Offered,
    /// Outside of it, until a slot is free.
    Parked,
}

/// A task that changed its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<L> {
    pub line: L,
    pub position: Position,
    pub to: Place,
}

/// The slots of one key, and the tasks that want one. `L` names a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<L> {
    /// How many tasks that have not ended name each limit: one limit, but for the cases above.
    limits: BTreeMap<u32, usize>,
    /// The same for rates.
    rates: BTreeMap<Rate, usize>,
    starts: Starts,
    /// The last instant that was told.
    now: Time,
    holders: BTreeSet<TaskId>,
    lines: BTreeMap<L, Line>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Line {
    offered: BTreeSet<Position>,
    parked: BTreeSet<Position>,
}

impl<L> Default for Slots<L> {
    fn default() -> Self {
        Self {
            limits: BTreeMap::new(),
            rates: BTreeMap::new(),
            starts: Starts::default(),
            now: Time::from_millis(i64::MIN),
            holders: BTreeSet::new(),
            lines: BTreeMap::new(),
        }
    }
}

impl<L: Copy + Ord> Slots<L> {
    /// A task with the key begins to live, with its terms.
    pub fn enter(&mut self, terms: impl Into<Terms>) -> Vec<Move<L>> {
        let (before, Terms { limit, rate }) = (self.terms(), terms.into());
        *self.limits.entry(limit).or_default() += 1;
        if let Some(rate) = rate {
            *self.rates.entry(rate).or_default() += 1;
        }
        if self.terms() == before { Vec::new() } else { self.refill() }
    }

    /// A task with the key has ended. It holds no slot and is in no line any more.
    pub fn exit(&mut self, terms: impl Into<Terms>) -> Vec<Move<L>> {
        let (before, Terms { limit, rate }) = (self.terms(), terms.into());
        count_down(&mut self.limits, limit);
        if let Some(rate) = rate {
            count_down(&mut self.rates, rate);
        }
        if self.terms() == before { Vec::new() } else { self.refill() }
    }

    fn terms(&self) -> Terms {
        let limit = self.limits.first_key_value().map_or(0, |(limit, _)| *limit);
        Terms { limit, rate: self.rates.last_key_value().map(|(rate, _)| *rate) }
    }

    /// Time has passed: starts may be allowed that were not before.
    pub fn advance(&mut self, now: Time) -> Vec<Move<L>> {
        if now <= self.now {
            return Vec::new();
        }
        self.now = now;
        let Some(rate) = self.terms().rate else { return Vec::new() };
        self.starts.forget(rate.per, now);
        self.refill()
    }

    /// A task was granted at this instant. It is remembered however the task goes on.
    pub fn start(&mut self, at: Time) -> Vec<Move<L>> {
        self.starts.add(at);
        self.refill()
    }

    /// A start was not committed.
    pub fn take_back(&mut self, at: Time) -> Vec<Move<L>> {
        self.starts.take_back(at);
        self.refill()
    }

    /// Forgets starts that matter to no rate any more.
    pub fn forget_starts(&mut self, per: Span) {
        self.starts.forget(per, self.now);
    }

    /// When more tasks may start, if only the rate keeps parked ones from it.
    pub fn opens_at(&self) -> Option<Time> {
        let rate = self.terms().rate.filter(|_| self.parked() > 0)?;
        let has_slots = self.holders.len() < self.terms().limit as usize;
        self.starts.opens_at(rate, self.now).filter(|_| has_slots)
    }

    /// What decisions need of it. The number of holders cannot exceed a `u32`, since each has a task id of its own
    /// and grants stop at the limit.
    pub fn in_use(&self) -> KeyUse {
        self.in_use_at(self.now)
    }

    /// The same at a later instant.
    pub fn in_use_at(&self, now: Time) -> KeyUse {
        let Terms { limit, rate } = self.terms();
        let held = u32::try_from(self.holders.len()).unwrap_or(u32::MAX);
        KeyUse { limit, held, rate: rate.map(|rate| RateUse::of(rate, &self.starts, now)) }
    }

    /// The tasks that hold a slot, the oldest first.
    pub fn holders(&self) -> impl Iterator<Item = TaskId> {
        self.holders.iter().copied()
    }

    /// How many tasks are parked.
    pub fn parked(&self) -> usize {
        self.lines.values().map(|line| line.parked.len()).sum()
    }

    /// Whether every task with the key has ended, and no start is remembered: the key can be forgotten.
    pub fn is_unused(&self) -> bool {
        self.has_no_task() && self.starts.is_empty()
    }

    /// Whether every task with the key has ended. Its starts may still count for the next one.
    pub fn has_no_task(&self) -> bool {
        self.limits.is_empty() && self.holders.is_empty() && self.lines.is_empty()
    }

    /// A claimable task joins its line. Returns the tasks whose place changed; a task that is parked at once is not
    /// among them, because it never was in the ready order.
    pub fn join(&mut self, line: L, position: Position) -> Vec<Move<L>> {
        let free = self.free();
        let tasks = self.lines.entry(line).or_default();
        match tasks.offered.last().copied() {
            _ if tasks.offered.len() < free => {
                tasks.offered.insert(position);
                vec![Move { line, position, to: Place::Offered }]
            }
            Some(last) if position < last => {
                tasks.offered.remove(&last);
                tasks.parked.insert(last);
                tasks.offered.insert(position);
                let parked = Move { line, position: last, to: Place::Parked };
                vec![parked, Move { line, position, to: Place::Offered }]
            }
            _ => {
                tasks.parked.insert(position);
                Vec::new()
            }
        }
    }

    /// A task leaves its line: it is granted, or no longer claimable. Returns where it was, and the task that is
    /// offered in its place, if any.
    pub fn leave(&mut self, line: L, position: Position) -> (Option<Place>, Vec<Move<L>>) {
        let free = self.free();
        let Some(tasks) = self.lines.get_mut(&line) else { return (None, Vec::new()) };
        let was = tasks.remove(position);
        let moves = tasks.fill(line, free);
        if tasks.is_empty() {
            self.lines.remove(&line);
        }
        (was, moves)
    }

    /// A task takes a slot. Whether there is one, the rules asked before ([`KeyUse::has_room`]).
    pub fn hold(&mut self, task: TaskId) -> Vec<Move<L>> {
        self.holders.insert(task);
        self.refill()
    }

    /// A task gives its slot back. One that holds none changes nothing.
    pub fn release(&mut self, task: TaskId) -> Vec<Move<L>> {
        match self.holders.remove(&task) {
            true => self.refill(),
            false => Vec::new(),
        }
    }

    fn free(&self) -> usize {
        self.in_use().free() as usize
    }

    fn refill(&mut self) -> Vec<Move<L>> {
        let free = self.free();
        self.lines.iter_mut().flat_map(|(line, tasks)| tasks.fill(*line, free)).collect()
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.offered.is_empty() && self.parked.is_empty()
    }

    fn remove(&mut self, position: Position) -> Option<Place> {
        if self.offered.remove(&position) {
            return Some(Place::Offered);
        }
        self.parked.remove(&position).then_some(Place::Parked)
    }

    /// Offers the first `free` tasks and parks the others. Everything parked comes after everything offered, so only
    /// the ends of both sets change.
    fn fill<L: Copy>(&mut self, line: L, free: usize) -> Vec<Move<L>> {
        let mut moves = Vec::new();
        while self.offered.len() > free
            && let Some(position) = self.offered.pop_last()
        {
            self.parked.insert(position);
            moves.push(Move { line, position, to: Place::Parked });
        }
        while self.offered.len() < free
            && let Some(position) = self.parked.pop_first()
        {
            self.offered.insert(position);
            moves.push(Move { line, position, to: Place::Offered });
        }
        moves
    }
}
