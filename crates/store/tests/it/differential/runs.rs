//! Random lives of durable runs: two engines get the same requests, and must answer and store the same.
//!
//! Every engine is also compared with the rules' own reference ([`Family`]): what it loads for each request, and the rows
//! of every task at the end. Messages are decided at once or saved, as the dice say.

use std::collections::BTreeSet;

use storetest::Writers;
use storetest::conformance::driver::{caller, key_of};
use storetest::conformance::runs::family::{
    Delivery, Family, call, child, savepoint, signal, step, wait, with_children,
};
use storetest::conformance::{Between, Driver, Fixture};
use verdict::request::{Caller, Cancel, CancelMode, Outcome};
use verdict::run::{AwaitedEvent, ChildCall, Divergence, RunRequest, StepCall, Then, WaitMode};
use verdict::{Answer, Category, Fault, Json, Request, Scope, Span, TaskId};

use super::dice::Dice;
use super::snapshot;
use crate::conformance::Sqlite;
use crate::memory::Memory;
use crate::postgres::Postgres;

const STEPS_PER_SEQUENCE: usize = 60;
const MEMORY_SEQUENCES: u64 = 60;
const SQLITE_SEQUENCES: u64 = 20;
const POSTGRES_SEQUENCES: u64 = 4;
/// A working generator reaches every kind of answer long before this.
const SEQUENCES_MAX_FACTOR: u64 = 4;

/// Names are few, so that requests meet.
const QUEUES: [&str; 3] = ["flow", "left", "right"];
const SIGNALS: [&str; 2] = ["go", "stop"];
/// What a sequence must have seen at least once, or its answers prove little.
const WANTED: [&str; 9] = [
    "Checkpointed",
    "Signalled",
    "Resumed",
    "ConflictingStep",
    "UnknownChild",
    "NotDiverged",
    "Committed",
    "TaskExpired",
    "RunAlreadyTerminal",
];

#[test]
fn two_writers_carry_runs_as_one_does() {
    compare_many(1, MEMORY_SEQUENCES, || Memory::new(Writers::One), || Memory::new(Writers::Two));
}

#[test]
fn sqlite_carries_runs_as_memory_does() {
    compare_many(1_000, SQLITE_SEQUENCES, || Memory::new(Writers::One), Sqlite::relaxed);
}

#[test]
fn postgres_carries_runs_as_memory_does() {
    compare_many(2_000, POSTGRES_SEQUENCES, || Memory::new(Writers::One), Postgres::new);
}

fn compare_many<A: Fixture, B: Fixture>(
    first: u64,
    usual: u64,
    a: impl Fn() -> A,
    b: impl Fn() -> B,
) {
    let (mut seed, mut seen) = (first, BTreeSet::new());
    while seed < first + usual || !WANTED.iter().all(|it| seen.contains(*it)) {
        assert!(seed < first + usual * SEQUENCES_MAX_FACTOR, "seen are only {seen:?}");
        compare(seed, a(), b(), &mut seen);
        seed += 1;
    }
}

#[expect(clippy::print_stdout, reason = "whatever panics, the last seed printed repeats it")]
fn compare<A: Fixture, B: Fixture>(seed: u64, a: A, b: B, seen: &mut BTreeSet<String>) {
    println!("seed {seed}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has a timer and sockets to give");
    runtime.block_on(async {
        let (mut a, mut b) = (Engine::start(a).await, Engine::start(b).await);
        let (mut dice, mut generator) = (Dice::new(seed), Generator::default());
        for n in 0..STEPS_PER_SEQUENCE {
            let ask = generator.ask(&mut dice, a.driver.now());
            let (ours, theirs) = (a.carry(&ask).await, b.carry(&ask).await);
            assert_eq!(ours, theirs, "seed {seed}, step {n}: {ask:#?}");
            seen.extend(ours.answers.iter().map(named));
            generator.learn(ours);
        }
        a.family.check(&mut a.driver).await;
        b.family.check(&mut b.driver).await;
        let (ours, theirs) =
            (snapshot::whole(&mut a.driver).await, snapshot::whole(&mut b.driver).await);
        assert_eq!(ours, theirs, "seed {seed}, at the end");
    });
}

/// The name of an answer or a refusal, without what it says.
fn named(answer: &Answer) -> String {
    let text = format!("{answer:?}");
    let inner = text.trim_start_matches("Run(").trim_start_matches("Refused(");
    let inner = inner.trim_start_matches("Run(");
    inner.chars().take_while(|it| it.is_alphanumeric()).collect()
}

/// One request for both engines.
#[derive(Clone, Debug)]
enum Ask {
    Submit,
    Lease(&'static str),
    About(TaskId, Request, Delivery),
    Sweep(Span, Delivery),
    Deliver,
    Reopen,
}

/// What an engine said.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    answers: Vec<Answer>,
    leased: Vec<(TaskId, Caller)>,
    count: usize,
}

struct Engine<F: Fixture> {
    driver: Driver<F>,
    family: Family,
}

impl<F: Fixture> Engine<F> {
    async fn start(fixture: F) -> Self {
        let driver = Driver::start(fixture, Between::Nothing).await;
        Self { driver, family: Family::new(Delivery::AtOnce) }
    }

    async fn carry(&mut self, ask: &Ask) -> Said {
        let Self { driver, family } = self;
        let mut said = Said { answers: Vec::new(), leased: Vec::new(), count: 0 };
        match ask {
            Ask::Submit => said.leased.push(submitted(driver).await),
            Ask::Lease(queue) => {
                let leased = driver.lease(&Scope::default(), queue, 2).await;
                said.leased = leased.iter().map(|it| (key_of(it).id, caller(it))).collect();
            }
            Ask::About(id, request, delivery) => {
                let key = store::TaskKey { scope: Scope::default(), id: *id };
                family.delivery = *delivery;
                said.answers.push(family.about(driver, &key, request.clone()).await);
            }
            Ask::Sweep(span, delivery) => {
                driver.wait(*span);
                family.delivery = *delivery;
                said.count = family.sweep(driver).await;
            }
            Ask::Deliver => said.count = family.deliver(driver).await,
            Ask::Reopen => driver.reopen().await,
        }
        said
    }
}

/// Submits a run and leases it, if nothing is before it in its queue.
async fn submitted<F: Fixture>(driver: &mut Driver<F>) -> (TaskId, Caller) {
    let scope = Scope::new("default", "default");
    let number = driver.number();
    let queue = format!("own {number}");
    driver.add(&scope, &queue).await;
    let leased = driver.lease(&scope, &queue, 1).await;
    (key_of(&leased[0]).id, caller(&leased[0]))
}

/// Chooses what to ask from what the first engine said.
#[derive(Default)]
struct Generator {
    callers: Vec<(TaskId, Caller)>,
    children: u128,
}

impl Generator {
    fn learn(&mut self, said: Said) {
        self.callers.extend(said.leased);
    }

    fn ask(&mut self, dice: &mut Dice, now: verdict::Time) -> Ask {
        let delivery = if dice.one_in(3) { Delivery::Later } else { Delivery::AtOnce };
        let Some((id, caller)) = dice.recent(&self.callers).cloned() else { return Ask::Submit };
        match dice.below(20) {
            0 | 1 => Ask::Submit,
            2..=4 => Ask::Lease(random_queue(dice)),
            5..=11 => Ask::About(id, self.checkpoint(dice, &caller, now), delivery),
            12 | 13 => Ask::About(id, run(random_signal(dice)), delivery),
            14 => Ask::About(id, run(RunRequest::Resume), delivery),
            15 => Ask::About(id, cancel(dice), delivery),
            16 | 17 => Ask::Sweep(Span::from_secs(dice.below(40)), delivery),
            18 => Ask::Deliver,
            _ => Ask::Reopen,
        }
    }

    fn checkpoint(&mut self, dice: &mut Dice, caller: &Caller, now: verdict::Time) -> Request {
        let steps = (0..dice.below(3)).map(|_| random_step(dice)).collect();
        let children = (0..dice.below(3)).map(|_| self.random_child(dice)).collect();
        let call = call(caller, unique(steps), random_then(dice, now));
        run(with_children(call, unique_children(children)))
    }

    fn random_child(&mut self, dice: &mut Dice) -> ChildCall {
        self.children += 1;
        let key = dice.pick(&QUEUES[1..]);
        let call = child(key, (1 << 64) + self.children);
        ChildCall { is_detached: dice.one_in(6), ..call }
    }
}

fn run(request: RunRequest) -> Request {
    Request::Run(Box::new(request))
}

fn random_queue(dice: &mut Dice) -> &'static str {
    let queue: &&str = dice.pick(&QUEUES);
    queue
}

fn random_step(dice: &mut Dice) -> StepCall {
    let (key, result) = (format!("step {}", dice.below(6)), dice.below(2).to_string());
    let long = format!("\"{}\"", "x".repeat(300));
    let result = if dice.one_in(5) { &long } else { &result };
    if dice.one_in(4) { savepoint(&key, result) } else { step(&key, result) }
}

/// A call names each key once.
fn unique(steps: Vec<StepCall>) -> Vec<StepCall> {
    let mut keys = BTreeSet::new();
    steps.into_iter().filter(|step| keys.insert(step.key.clone())).collect()
}

fn unique_children(children: Vec<ChildCall>) -> Vec<ChildCall> {
    let mut keys = BTreeSet::new();
    children.into_iter().filter(|child| keys.insert(child.key.clone())).collect()
}

fn random_then(dice: &mut Dice, now: verdict::Time) -> Then {
    match dice.below(12) {
        0..=3 => Then::Continue,
        4..=8 => {
            let mode = if dice.one_in(2) { WaitMode::All } else { WaitMode::Any };
            let items = (0..=dice.below(3)).map(|_| random_event(dice, now)).collect();
            wait(&format!("wait {}", dice.below(40)), mode, items)
        }
        9 => Then::Diverged(Divergence {
            branch: "main".into(),
            index: 1,
            recorded: "a".into(),
            actual: "b".into(),
        }),
        10 => Then::Report { outcome: failed(), claims: None },
        _ => {
            let output = Some(Json::from("{\"rows\":3}"));
            Then::Report { outcome: Outcome::Succeeded { output }, claims: None }
        }
    }
}

fn failed() -> Outcome {
    Outcome::Failed(Fault {
        category: Category::Infrastructure,
        message: "disk full".into(),
        stack_trace: Some("at main".into()),
        retryable: None,
    })
}

fn random_event(dice: &mut Dice, now: verdict::Time) -> AwaitedEvent {
    match dice.below(3) {
        0 => AwaitedEvent::Time(now.plus(Span::from_secs(dice.below(60)))),
        1 => AwaitedEvent::Signal((*dice.pick(&SIGNALS)).into()),
        _ => AwaitedEvent::Child((*dice.pick(&QUEUES[1..])).into()),
    }
}

fn random_signal(dice: &mut Dice) -> RunRequest {
    let key = dice.one_in(2).then(|| format!("key {}", dice.below(3)));
    let name: &&str = dice.pick(&SIGNALS);
    signal(name, key.as_deref(), &dice.below(2).to_string())
}

fn cancel(dice: &mut Dice) -> Request {
    let mode = if dice.one_in(2) { CancelMode::Graceful } else { CancelMode::Immediate };
    Request::Cancel(Cancel { reason: None, mode })
}
