//! The programs of simulated durable runs: a list of operations, drawn from the seed and carried in the run's input, so
//! that every attempt of every worker performs the same one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::options::DurableOptions;
use crate::rng::SimRng;

/// The kind of runs that are programs.
pub(crate) const KIND: &str = "program";

/// How many operations a program has, and how long its steps and sleeps take.
const OPERATIONS_MAX: u64 = 6;
const STEP_MS: (u64, u64) = (0, 300);
const SLEEP_MS: (u64, u64) = (0, 6_000);

/// How long people may take, where they may not take for ever, and how many must agree: no more than there are.
const EXPIRY_MS: (u64, u64) = (500, 8_000);
const QUORUM_MAX: u64 = 3;

/// How many programs in a thousand end with a loop, where programs have loops.
const LOOPS: u32 = 300;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Operation {
    /// Steps that are recorded in one call.
    Steps {
        count: u64,
        millis: u64,
    },
    /// A step that holds everything before it: replay begins here.
    Savepoint,
    Sleep {
        millis: u64,
    },
    /// Waits for a signal that its client sends.
    Signal,
    /// Waits for a signal or for time, whichever is first.
    SignalOrSleep {
        millis: u64,
    },
    /// Asks people, with an expiry or without, and alone or beside a sleep.
    Approval {
        quorum: u32,
        expires_ms: Option<u64>,
        or_sleep_ms: Option<u64>,
    },
    /// Starts children and waits for all of them, in the same call or in the next one.
    Fan {
        children: Vec<Program>,
        is_one_call: bool,
    },
    /// Starts a separate run.
    Detach {
        program: Box<Program>,
    },
    /// Starts a child and does not wait: the end of the program calls it off.
    Abandon {
        program: Box<Program>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Unique in the world.
    pub(crate) name: String,
    pub(crate) operations: Vec<Operation>,
}

impl Program {
    /// A program for a run that a client submits.
    pub(crate) fn draw(rng: &mut SimRng, options: &DurableOptions, name: &str) -> Self {
        let mut program = Self::of(rng, options, name, 0);
        if options.rounds_max > 0 && rng.chance(LOOPS) {
            let rounds = rng.between(1, options.rounds_max);
            program.operations.extend((0..rounds).flat_map(|_| round()));
        }
        program
    }

    fn of(rng: &mut SimRng, options: &DurableOptions, name: &str, depth: u32) -> Self {
        let count = rng.between(1, OPERATIONS_MAX);
        let draw = |place: u64| {
            let name = format!("{name}.{place}");
            operation(&mut *rng, options, &name, depth)
        };
        Self { name: name.to_owned(), operations: (0..count).map(draw).collect() }
    }

    /// The places at which the program takes a signal.
    pub(crate) fn signals(&self) -> Vec<usize> {
        let takes = |(_, operation): &(usize, &Operation)| {
            matches!(operation, Operation::Signal | Operation::SignalOrSleep { .. })
        };
        self.operations.iter().enumerate().filter(takes).map(|(place, _)| place).collect()
    }

    pub(crate) fn input(&self) -> Value {
        json!(self)
    }
}

/// One round of a loop: replay never begins before the last one.
fn round() -> [Operation; 2] {
    [Operation::Steps { count: 1, millis: 0 }, Operation::Savepoint]
}

fn operation(rng: &mut SimRng, options: &DurableOptions, name: &str, depth: u32) -> Operation {
    let is_root = depth == 0;
    if is_root && options.approvals > 0 && rng.chance(options.approvals) {
        return approval(rng);
    }
    match rng.between(0, 11) {
        0..=3 => {
            let count = if rng.chance(300) { rng.between(2, 4) } else { 1 };
            Operation::Steps { count, millis: rng.between(STEP_MS.0, STEP_MS.1) }
        }
        4 => Operation::Savepoint,
        5 => Operation::Sleep { millis: rng.between(SLEEP_MS.0, SLEEP_MS.1) },
        6 | 7 if is_root => Operation::Signal,
        8 if is_root => Operation::SignalOrSleep { millis: rng.between(SLEEP_MS.0, SLEEP_MS.1) },
        9 | 10 if depth < options.depth_max => {
            let count = rng.between(1, if is_root { options.children_max } else { 2 });
            let child = |n| Program::of(&mut *rng, options, &format!("{name}-{n}"), depth + 1);
            let children: Vec<Program> = (0..count).map(child).collect();
            Operation::Fan { children, is_one_call: rng.chance(500) }
        }
        11 if is_root => {
            let program = Box::new(Program::of(rng, options, name, options.depth_max));
            match rng.chance(500) {
                true => Operation::Detach { program },
                false => Operation::Abandon { program },
            }
        }
        _ => Operation::Steps { count: 1, millis: 0 },
    }
}

fn approval(rng: &mut SimRng) -> Operation {
    let span = |rng: &mut SimRng| rng.chance(300).then(|| rng.between(EXPIRY_MS.0, EXPIRY_MS.1));
    let quorum = rng.between(1, QUORUM_MAX) as u32;
    Operation::Approval { quorum, expires_ms: span(rng), or_sleep_ms: span(rng) }
}

/// What an approval is about: the digest that people decide about.
pub(crate) fn question(program: &str, place: usize) -> String {
    verdict::Digest::of(&[program.as_bytes(), &place.to_be_bytes()]).to_string()
}

/// The name of the signal that an operation takes.
pub(crate) fn signal(place: usize) -> String {
    format!("signal-{place}")
}

/// What the client of a program sends with that signal.
pub(crate) fn payload(program: &str, place: usize) -> Value {
    json!(format!("{program} goes on at {place}"))
}
