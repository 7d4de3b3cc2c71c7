//! Two engines, one random sequence of requests: they must answer and store the same.
//!
//! Every sequence is generated from a seed, so a difference can be reproduced by its number. The first
//! engine's answers shape what is asked next; the second engine gets exactly the same requests at the
//! same times. After every batch the answers and the visible contents of both stores are compared. A run
//! ends only when every kind of request was both granted and refused, so that no kind is compared by
//! its refusals alone.

pub(crate) mod asks;
pub(crate) mod coverage;
pub(crate) mod dice;
mod runs;
mod snapshot;

use store::sqlite::SqliteStore;
use store::{Batch, Store, Writer};
use storetest::conformance::carry::carry;
use storetest::conformance::{Between, Call, CallResult, Driver, Fixture};
use storetest::{ManualClock, Writers};

use self::asks::Generator;
use self::coverage::Coverage;
use self::dice::Dice;
use crate::conformance::Sqlite;
use crate::memory::Memory;
use crate::postgres::Postgres;

/// How many sequences of about a hundred requests each test runs, unless the variable sets another
/// number. A sequence takes a quarter of a second on SQLite, in memory a tenth of that.
const MEMORY_SEQUENCES: u64 = 200;
const SQLITE_SEQUENCES: u64 = 40;
/// A sequence on PostgreSQL takes some seconds on a busy machine.
const POSTGRES_SEQUENCES: u64 = 8;
const SEQUENCES_VARIABLE: &str = "TENURE_DIFFERENTIAL_SEQUENCES";
const BATCHES_PER_SEQUENCE: usize = 40;
/// A working generator covers every kind of request long before this.
const SEQUENCES_MAX_FACTOR: u64 = 4;

/// What happens to a batch after it is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Commit,
    Drop,
}

/// Which of a store's writers carries a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    First,
    Another,
}

#[test]
fn two_writers_in_turn_answer_as_one_does() {
    // the choice of writer makes no difference.
    compare_many(1, MEMORY_SEQUENCES, || Memory::new(Writers::One), || Memory::new(Writers::Two));
}

#[test]
fn sqlite_answers_as_memory_does_first_half() {
    // R-24, S2-106: SQLite's order in memory and its tables equal what the naive engine finds.
    compare_many(1_000_000, SQLITE_SEQUENCES, || Memory::new(Writers::One), Sqlite::relaxed);
}

#[test]
fn sqlite_answers_as_memory_does_second_half() {
    // R-24, S2-106: the same with other seeds, so that two cores share the work.
    compare_many(2_000_000, SQLITE_SEQUENCES, || Memory::new(Writers::One), Sqlite::relaxed);
}

#[test]
fn postgres_answers_as_memory_does() {
    // R-24, S2-106: with several round trips and row locks, the same answers and the same rows.
    compare_many(4_000_000, POSTGRES_SEQUENCES, || Memory::new(Writers::One), Postgres::new);
}

#[test]
fn sqlite_with_every_sync_answers_as_memory_does() {
    // S2-104: a few sequences with the durability that production uses.
    let mut coverage = Coverage::default();
    for seed in 3_000_000..3_000_003 {
        compare(seed, Memory::new(Writers::One), Sqlite::new(), &mut coverage);
    }
    assert!(coverage.granted() > 5, "{coverage:?}");
}

fn compare_many<A: Fixture, B: Fixture>(
    first: u64,
    usual: u64,
    a: impl Fn() -> A,
    b: impl Fn() -> B,
) {
    let wanted = std::env::var(SEQUENCES_VARIABLE).ok().and_then(|text| text.parse().ok());
    let wanted = wanted.unwrap_or(usual);
    let mut coverage = Coverage::default();
    let mut seed = first;
    while seed < first + wanted || !coverage.is_complete() {
        assert!(seed < first + wanted * SEQUENCES_MAX_FACTOR, "not covered: {coverage:?}");
        compare(seed, a(), b(), &mut coverage);
        seed += 1;
    }
}

/// Runs one sequence on both engines.
#[expect(clippy::print_stdout, reason = "whatever panics, the last seed printed repeats it")]
pub(crate) fn compare<A: Fixture, B: Fixture>(seed: u64, a: A, b: B, coverage: &mut Coverage) {
    println!("seed {seed}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has a timer and sockets to give");
    runtime.block_on(async {
        let mut a = Driver::start(a, Between::Nothing).await;
        let mut b = Driver::start(b, Between::Nothing).await;
        let mut dice = Dice::new(seed);
        let mut generator = Generator::default();
        for n in 0..BATCHES_PER_SEQUENCE {
            let place = format!("seed {seed}, batch {n}");
            step(&mut a, &mut b, &mut dice, &mut generator, coverage, &place).await;
        }
        let (ours, theirs) = (snapshot::whole(&mut a).await, snapshot::whole(&mut b).await);
        assert_eq!(ours, theirs, "seed {seed}, at the end");
    });
}

async fn step<A: Fixture, B: Fixture>(
    a: &mut Driver<A>,
    b: &mut Driver<B>,
    dice: &mut Dice,
    generator: &mut Generator,
    coverage: &mut Coverage,
    place: &str,
) {
    if dice.one_in(15) {
        a.reopen().await;
        b.reopen().await;
    }
    let passed = asks::span(dice);
    a.wait(passed);
    b.wait(passed);
    let asks: Vec<Call> = (0..=dice.below(4)).map(|_| generator.ask(dice, a.now())).collect();
    let fate = if dice.one_in(12) { Fate::Drop } else { Fate::Commit };
    let hand = if dice.one_in(2) { Hand::First } else { Hand::Another };
    let ours = batch(a, Hand::First, &asks, fate).await;
    let theirs = batch(b, hand, &asks, fate).await;
    assert_eq!(ours, theirs, "{place}: {asks:#?}");
    for (ask, said) in asks.iter().zip(&ours) {
        coverage.note(ask, said);
        if fate == Fate::Commit {
            generator.learn(ask, said);
        }
    }
    assert_eq!(snapshot::summary(a).await, snapshot::summary(b).await, "{place}: {asks:#?}");
    if fate == Fate::Commit {
        assert_eq!(snapshot::wakes(a).await, snapshot::wakes(b).await, "{place}: {asks:#?}");
    }
    for key in generator.touched(&asks, &ours) {
        let (ours, theirs) = (snapshot::rows(a, &key).await, snapshot::rows(b, &key).await);
        assert_eq!(ours, theirs, "{place}: {key:?} after {asks:#?}");
    }
}

/// Carries all asks in one batch, by the driver's writer or by a second one if there is one.
async fn batch<F: Fixture>(
    driver: &mut Driver<F>,
    hand: Hand,
    asks: &[Call],
    fate: Fate,
) -> Vec<CallResult> {
    let opened = driver.store().status();
    if hand == Hand::Another && opened.writers > 1 {
        let mut other = driver.store().writer().await.expect("there is a second one");
        return carry_all(&mut other, opened.epoch, asks, fate).await;
    }
    carry_all(driver.writer(), opened.epoch, asks, fate).await
}

async fn carry_all<W: Writer>(
    writer: &mut W,
    epoch: u32,
    asks: &[Call],
    fate: Fate,
) -> Vec<CallResult> {
    let mut batch = writer.begin().await.expect("a batch can be begun");
    let mut said = Vec::new();
    for ask in asks {
        said.push(carry(&mut batch, epoch, ask.clone()).await.expect("the store takes it"));
    }
    if fate == Fate::Commit {
        batch.commit().await.expect("the batch commits");
    }
    said
}

/// SQLite without waiting for the disk: the same code, with time for more sequences.
pub(crate) struct Relaxed(Sqlite);

impl Sqlite {
    fn relaxed() -> Relaxed {
        Relaxed(Sqlite::new())
    }
}

impl Fixture for Relaxed {
    type Store = SqliteStore;

    async fn open(&mut self, clock: std::sync::Arc<ManualClock>) -> SqliteStore {
        SqliteStore::open(self.0.path(), storetest::unsynced(clock)).expect("the database opens")
    }
}
