//! Flow keys: random lives of tasks with one key, watched through the moves that a store would apply.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::TaskId;
use verdict::flow::{KeyUse, Move, Place, Position, Slots};

const LINES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Act {
    Submit {
        line: usize,
        priority: i32,
    },
    Poll {
        line: usize,
    },
    /// A lease ends, and the task with it.
    End {
        pick: usize,
    },
    /// A lease ends, and the task waits for its next attempt.
    Retry {
        pick: usize,
    },
    /// A task that waits is cancelled.
    Cancel {
        pick: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..LINES, -2..3_i32).prop_map(|(line, priority)| Act::Submit { line, priority }),
        4 => (0..LINES).prop_map(|line| Act::Poll { line }),
        2 => any::<usize>().prop_map(|pick| Act::End { pick }),
        2 => any::<usize>().prop_map(|pick| Act::Retry { pick }),
        1 => any::<usize>().prop_map(|pick| Act::Cancel { pick }),
    ]
}

/// A store that knows one key: its ready order changes only by the moves that the rules return.
struct World {
    slots: Slots<usize>,
    limit: usize,
    ready: BTreeSet<(usize, Position)>,
    waiting: BTreeSet<(usize, Position)>,
    running: BTreeMap<TaskId, (usize, Position)>,
    submitted: u128,
}

impl World {
    fn new(limit: u32) -> Self {
        Self {
            slots: Slots::default(),
            limit: limit as usize,
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            submitted: 0,
        }
    }

    fn apply(&mut self, moves: Vec<Move<usize>>) {
        for Move { line, position, to } in moves {
            let changed = match to {
                Place::Offered => self.ready.insert((line, position)),
                Place::Parked => self.ready.remove(&(line, position)),
            };
            assert!(changed, "a move changes the place: {position:?} to {to:?}");
        }
    }

    fn join(&mut self, line: usize, position: Position) {
        self.waiting.insert((line, position));
        let moves = self.slots.join(line, position);
        self.apply(moves);
    }

    fn leave(&mut self, line: usize, position: Position) {
        self.waiting.remove(&(line, position));
        let (was, moves) = self.slots.leave(line, position);
        let was_ready = self.ready.remove(&(line, position));
        assert_eq!(was, Some(if was_ready { Place::Offered } else { Place::Parked }));
        self.apply(moves);
    }

    /// What a poll of a line gets: the first task of the ready order, if the rules grant it.
    fn poll(&mut self, line: usize) -> Option<Position> {
        let (_, first) = *self.ready.iter().find(|(of, _)| *of == line)?;
        if !self.slots.in_use().has_room() {
            return None;
        }
        self.leave(line, first);
        let moves = self.slots.hold(first.task());
        self.apply(moves);
        self.running.insert(first.task(), (line, first));
        Some(first)
    }

    fn release(&mut self, pick: usize) -> Option<(usize, Position)> {
        let task = *self.running.keys().nth(pick % self.running.len().max(1))?;
        let moves = self.slots.release(task);
        self.apply(moves);
        self.running.remove(&task)
    }

    /// A task has ended.
    fn exit(&mut self) {
        let moves = self.slots.exit(self.limit as u32);
        self.apply(moves);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Submit { line, priority } => {
                self.submitted += 1;
                let moves = self.slots.enter(self.limit as u32);
                self.apply(moves);
                self.join(line, Position::new(priority, TaskId::from_u128(self.submitted)));
            }
            Act::Poll { line } => {
                self.poll(line);
            }
            Act::End { pick } => {
                if self.release(pick).is_some() {
                    self.exit();
                }
            }
            Act::Retry { pick } => {
                if let Some((line, position)) = self.release(pick) {
                    self.join(line, position);
                }
            }
            Act::Cancel { pick } => {
                let count = self.waiting.len().max(1);
                if let Some((line, position)) = self.waiting.iter().nth(pick % count).copied() {
                    self.leave(line, position);
                    self.exit();
                }
            }
        }
    }

    fn check(&self) {
        assert!(self.running.len() <= self.limit, "more are active than the key allows");
        let held = u32::try_from(self.running.len()).expect("few");
        let is_living = !self.waiting.is_empty() || !self.running.is_empty();
        let limit = if is_living { self.limit as u32 } else { 0 };
        assert_eq!(self.slots.in_use(), KeyUse::new(limit, held), "a slot leaked");
        assert!(self.slots.holders().eq(self.running.keys().copied()));
        let free = self.limit - self.running.len();
        for line in 0..LINES {
            let waiting = self.waiting.iter().filter(|(of, _)| *of == line);
            let first: Vec<_> = waiting.take(free).collect();
            let ready: Vec<_> = self.ready.iter().filter(|(of, _)| *of == line).collect();
            assert_eq!(ready, first, "line {line} offers its first {free} by priority, then age");
        }
        assert_eq!(self.slots.parked(), self.waiting.len() - self.ready.len(), "none is forgotten");
    }
}

proptest! {
    #[test]
    fn a_key_is_never_overfull_leaks_no_slot_and_forgets_no_task(
        limit in 1..5_u32,
        acts in vec(act(), 0..200),
    ) {
        let mut world = World::new(limit);
        for act in acts {
            world.act(act);
            world.check();
        }
    }

    #[test]
    fn every_task_runs_once_slots_come_back(limit in 1..5_u32, acts in vec(act(), 0..200)) {
        let mut world = World::new(limit);
        acts.into_iter().for_each(|act| world.act(act));
        let mut left = world.waiting.len() + world.running.len();
        while left > 0 {
            for line in 0..LINES {
                world.poll(line);
            }
            prop_assert!(!world.running.is_empty(), "somebody holds a slot");
            world.act(Act::End { pick: 0 });
            left -= 1;
            world.check();
        }
        prop_assert!(world.slots.is_unused() && world.ready.is_empty());
    }
}

fn task(n: u128) -> TaskId {
    TaskId::from_u128(n)
}

#[test]
fn the_most_urgent_goes_first_and_then_the_oldest() {
    let mut world = World::new(1);
    world.act(Act::Submit { line: 0, priority: 0 });
    world.act(Act::Submit { line: 0, priority: 0 });
    world.act(Act::Submit { line: 0, priority: 5 });
    let mut order = Vec::new();
    while let Some(granted) = world.poll(0) {
        order.push(granted.task());
        world.act(Act::End { pick: 0 });
    }
    assert_eq!(order, [task(3), task(1), task(2)]);
}

#[test]
fn a_line_that_nobody_polls_keeps_no_slot_from_another() {
    let mut world = World::new(1);
    world.act(Act::Submit { line: 0, priority: 9 });
    world.act(Act::Submit { line: 1, priority: 0 });
    assert_eq!(world.poll(1).map(Position::task), Some(task(2)));
    assert_eq!(world.poll(0), None, "the slot is taken");
    world.act(Act::End { pick: 0 });
    assert_eq!(world.poll(0).map(Position::task), Some(task(1)));
}

#[test]
fn behind_a_full_key_no_task_is_moved() {
    let mut slots = Slots::default();
    assert!(slots.enter(1).is_empty());
    assert!(slots.hold(task(1)).is_empty());
    for n in 2..100_002 {
        assert!(slots.join(0_u8, Position::new(0, task(n))).is_empty(), "parked, without a move");
    }
    let offered = slots.release(task(1));
    let first = Move { line: 0, position: Position::new(0, task(2)), to: Place::Offered };
    assert_eq!(offered, [first], "one slot, one task");
}

#[test]
fn a_parent_that_waits_leaves_its_slot_to_the_child() {
    let mut world = World::new(1);
    world.act(Act::Submit { line: 0, priority: 0 });
    let parent = world.poll(0).expect("the key is free");
    world.act(Act::Submit { line: 0, priority: 0 });
    assert_eq!(world.poll(0), None, "the parent is active");
    // The parent suspends: its lease ends, and it is not claimable.
    world.release(0);
    let child = world.poll(0).expect("the parent holds no slot");
    assert_ne!(child, parent);
    // The child has ended, and the parent goes on.
    world.act(Act::End { pick: 0 });
    world.join(0, parent);
    assert_eq!(world.poll(0), Some(parent));
    world.check();
}

#[test]
fn one_key_has_one_limit() {
    let key = KeyUse::new(2, 0);
    assert!(key.accepts(2.into()) && !key.accepts(3.into()));
}

#[test]
fn of_two_limits_that_met_the_smaller_counts_until_its_task_has_ended() {
    let mut slots = Slots::<u8>::default();
    for n in 1..=3 {
        slots.enter(2);
        slots.join(0, Position::new(0, task(n)));
    }
    let parked = slots.enter(1);
    assert_eq!(parked.iter().map(|it| it.to).collect::<Vec<_>>(), [Place::Parked]);
    assert_eq!(slots.in_use(), KeyUse::new(1, 0));
    let offered = slots.exit(1);
    assert_eq!(offered.iter().map(|it| it.to).collect::<Vec<_>>(), [Place::Offered]);
    assert_eq!(slots.in_use().limit, 2);
}
