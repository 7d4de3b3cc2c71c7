//! The rules of logs: numbers, bounds, and which caller may add lines.

use proptest::prelude::*;
use verdict::log::{
    ATTEMPT_BYTES_MAX, LINE_BYTES, LINES_PER_CALL_MAX, Level, Line, LogChange, PIECE_BYTES_MAX,
    PIECES_MAX, Piece, SentLine, SentLog, TASK_BYTES_MAX, TaskLog, adds, may_add,
};
use verdict::request::Caller;
use verdict::{LeaseId, Time};

use crate::world::{World, as_worker, report, succeeded};

const NOW: Time = Time::from_millis(1_000);

/// A store of one task's log: what changes leave behind.
#[derive(Default)]
struct Stored(Vec<(Piece, Vec<Line>)>);

impl Stored {
    fn call(&mut self, attempt: u32, lines: Vec<SentLine>) {
        let Some(sent) = SentLog::new(lines) else { return };
        let mut log = TaskLog::new(self.0.iter().map(|(piece, _)| *piece).collect());
        log.add(attempt, &sent, NOW);
        self.apply(log.into_change());
    }

    fn apply(&mut self, change: LogChange) {
        self.0.retain(|(piece, _)| !change.removed.contains(&piece.id));
        for (piece, added) in change.saved {
            match self.0.iter_mut().find(|(known, _)| known.id == piece.id) {
                Some((known, lines)) => {
                    *known = piece;
                    lines.extend(added);
                }
                None => self.0.push((piece, added)),
            }
        }
        self.0.sort_by_key(|(piece, _)| piece.id);
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.iter().flat_map(|(_, lines)| lines).map(|line| line.number).collect()
    }

    fn dropped(&self) -> u64 {
        self.0.iter().map(|(piece, _)| piece.dropped).sum()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(piece, _)| piece.bytes as usize).sum()
    }
}

fn line(number: Option<u64>, text: &str) -> SentLine {
    SentLine { number, at: None, level: Level::Info, text: text.into() }
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<SentLine> {
    numbers.into_iter().map(|n| line(Some(n), "text")).collect()
}

#[test]
fn a_repeated_call_adds_nothing_twice_and_lines_without_numbers_get_the_next() {
    let mut log = Stored::default();
    log.call(1, numbered(1..=3));
    log.call(1, numbered(1..=3));
    log.call(1, numbered(2..=5));
    log.call(1, vec![line(None, "next")]);
    assert_eq!(log.numbers(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(log.dropped(), 0);
    assert_eq!(log.0.len(), 1, "short lines share a piece");
}

#[test]
fn only_the_caller_with_the_lease_adds_lines_and_only_with_a_call_that_is_taken() {
    // S0-47, S0-48, S3-24
    let (world, caller) = World::running();
    assert!(may_add(&world.subject, &caller, world.moment()));
    let others = [
        as_worker(&caller, "bob"),
        Caller { attempt: caller.attempt + 1, ..caller.clone() },
        Caller { lease: LeaseId::from_u128(999), ..caller.clone() },
    ];
    for other in &others {
        assert!(!may_add(&world.subject, other, world.moment()), "{other:?}");
        assert!(!adds(&world.clone().ask(report(other, succeeded()))), "{other:?}");
    }
    let mut late = world.clone();
    late.now = late.lease().expires_at;
    assert!(!may_add(&late.subject, &caller, late.moment()));
    let mut restored = world.clone();
    restored.epoch += 1;
    assert!(!may_add(&restored.subject, &caller, restored.moment()));
    let mut ended = world;
    assert!(adds(&ended.ask(report(&caller, succeeded()))));
    assert!(!may_add(&ended.subject, &caller, ended.moment()), "a repeated report adds nothing");
}

#[test]
fn a_gap_in_the_numbers_is_counted_as_dropped_lines() {
    let mut log = Stored::default();
    log.call(1, numbered([4, 5]));
    log.call(1, numbered([9]));
    assert_eq!(log.numbers(), [4, 5, 9]);
    assert_eq!(log.0.iter().map(|(piece, _)| piece.dropped).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn each_attempt_counts_its_own_lines() {
    let mut log = Stored::default();
    log.call(1, numbered(1..=2));
    log.call(2, numbered(1..=2));
    assert_eq!(log.numbers(), [1, 2, 1, 2]);
    assert_eq!(log.dropped(), 0);
}

#[test]
fn a_call_with_ten_thousand_lines_adds_the_newest_thousand_and_says_so() {
    let mut log = Stored::default();
    log.call(1, (0..10_000).map(|_| line(None, "x")).collect());
    assert_eq!(log.numbers().len(), LINES_PER_CALL_MAX);
    assert_eq!(log.dropped(), 9_000);
    assert_eq!(log.numbers().last(), Some(&10_000));
}

#[test]
fn an_attempt_keeps_its_newest_64_kibibytes() {
    let mut log = Stored::default();
    let text = "x".repeat(1_000);
    for n in 1..=500 {
        log.call(1, vec![line(Some(n), &text)]);
    }
    assert!(log.bytes() <= ATTEMPT_BYTES_MAX);
    assert!(log.bytes() > ATTEMPT_BYTES_MAX - 2 * PIECE_BYTES_MAX);
    let numbers = log.numbers();
    assert_eq!(numbers.last(), Some(&500));
    assert_eq!(log.dropped() + numbers.len() as u64, 500);
}

#[test]
fn a_task_with_many_attempts_keeps_the_newest_of_them() {
    let mut log = Stored::default();
    for attempt in 1..=1_000 {
        log.call(attempt, numbered(1..=3));
    }
    assert_eq!(log.0.len(), PIECES_MAX);
    assert_eq!(log.0[0].0.id.attempt, 1_000 - PIECES_MAX as u32 + 1);
    assert_eq!(log.dropped() + log.numbers().len() as u64, 3_000);
}

proptest! {
    /// Whatever is sent, the bounds hold, numbers grow within an attempt, and no line is lost without being counted.
    #[test]
    fn bounds_hold_and_every_line_is_kept_or_counted(
        calls in prop::collection::vec((prop::bool::weighted(0.2), prop::collection::vec((0_u64..4, 0_usize..5_000), 0..40)), 1..40)
    ) {
        let (mut log, mut attempt, mut next, mut sent) = (Stored::default(), 1, 1_u64, 0_u64);
        for (is_next_attempt, lines) in calls {
            if is_next_attempt {
                (attempt, next) = (attempt + 1, 1);
            }
            let mut call = Vec::new();
            for (gap, size) in lines {
                let number = next + gap;
                sent += gap + 1;
                next = number + 1;
                call.push(line(Some(number), &"é".repeat(size / 2)));
            }
            log.call(attempt, call.clone());
            log.call(attempt, call);
        }
        prop_assert!(log.bytes() <= TASK_BYTES_MAX && log.0.len() <= PIECES_MAX);
        for of in 1..=attempt {
            let pieces = || log.0.iter().filter(|(piece, _)| piece.id.attempt == of);
            let bytes: usize = pieces().map(|(piece, _)| piece.bytes as usize).sum();
            prop_assert!(bytes <= ATTEMPT_BYTES_MAX);
            let numbers: Vec<u64> = pieces().flat_map(|(_, lines)| lines).map(|it| it.number).collect();
            prop_assert!(numbers.is_sorted_by(|a, b| a < b));
        }
        for (piece, lines) in &log.0 {
            let bytes: usize = lines.iter().map(|it| LINE_BYTES + it.text.as_str().len()).sum();
            prop_assert_eq!((piece.lines as usize, piece.bytes as usize), (lines.len(), bytes));
            prop_assert_eq!(piece.last, lines.last().unwrap().number);
        }
        prop_assert_eq!(log.dropped() + log.numbers().len() as u64, sent);
    }
}
