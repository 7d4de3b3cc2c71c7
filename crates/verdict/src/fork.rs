//! Forks: a new run that starts from the recorded steps of one that has ended.
//!
//! Decides which runs may be forked and which of their records the new run takes over. The old run does not change. Not here:
//! what taking over does to the new run ([`crate::decide`]), and how the records are read.
//!
//! A retry ([`crate::redrive`]) begins from nothing; a fork does not repeat what is recorded.

use std::collections::BTreeSet;

use crate::approval;
use crate::done::{Category, Done, End, Fault};
use crate::event::Submitted;
use crate::flow::{FlowKey, Hold};
use crate::id::{Name, Text};
use crate::policy::Policy;
use crate::redrive::{self, NotRetryable, Repeat};
use crate::run::message::{BUDGET_EXHAUSTED, PARENT_ENDED};
use crate::run::{Checkpoint, Recorded, RunState, Signal, StepOutcome};
use crate::task::State;
use crate::time::Time;

/// Maximum records of one run that a fork takes over: one commit writes all of them.
pub const RECORDS_MAX: usize = 10_000;

/// Maximum bytes of their results, for the same reason.
pub const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum records in one request: an entry of the history stays a small page.
pub const RECORDS_PER_REQUEST_MAX: usize = 500;

/// Why a run may not be forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForkable {
    /// It waits or runs.
    NotEnded,
    /// Its work is done and recorded.
    Succeeded,
    /// Its plan says what follows what; a fork would pass through all of it again, as a retry does.
    HasPlan,
    /// The same, and it was halted, so that it is not retried either.
    HaltedPlan,
    /// As [`NotRetryable::Reserved`].
    Reserved,
    /// As [`NotRetryable::NoTime`].
    NoTime,
    /// It has recorded nothing under the key of the step.
    UnknownStep,
    /// It has recorded more than a fork takes over.
    TooLarge,
    /// People approved what is behind the step that asked them, once. It was done or taken back, and is to be done again.
    ApprovalIsUsed,
}

/// Whether a run that was submitted like this, is in this state and has come so far may be forked.
pub fn may_fork(
    submitted: &Submitted,
    state: State,
    run: Option<&RunState>,
) -> Result<(), NotForkable> {
    // Halted is the reason why forks exist, but a deadline without time stops a fork as well.
    let ended = if state == State::Halted { State::Failed } else { state };
    match redrive::may_retry(submitted, ended, run, false, Repeat::FromScratch) {
        Err(NotRetryable::NotEnded) => Err(NotForkable::NotEnded),
        Err(NotRetryable::Succeeded) => Err(NotForkable::Succeeded),
        Err(NotRetryable::Reserved) => Err(NotForkable::Reserved),
        _ if redrive::has_plan(run) && state == State::Halted => Err(NotForkable::HaltedPlan),
        _ if redrive::has_plan(run) => Err(NotForkable::HasPlan),
        Err(NotRetryable::NoTime) => Err(NotForkable::NoTime),
        Ok(()) => Ok(()),
        Err(
            NotRetryable::Halted
            | NotRetryable::HaltedPlan
            | NotRetryable::Recorded
            | NotRetryable::DoneSteps,
        ) => {
            unreachable!("a fork asks as if the run had failed and everything were done again")
        }
    }
}

/// The policy of the new run: that of a retry, with the seed that the old run had, so that replay draws the same numbers.
pub fn policy(submitted: &Submitted, seed: u64, now: Time) -> Policy {
    Policy { seed: Some(seed), ..redrive::policy(submitted, now) }
}

/// The flow key of the new run. Children that start again may be leased before it is, and need slots of their own; it must not
/// wait for them with the slot that they need, so it holds one while it is leased, and not for life.
pub fn flow(flow: FlowKey, starts_again: bool) -> FlowKey {
    let hold = if starts_again { Hold::Lease } else { flow.hold };
    FlowKey { hold, ..flow.again() }
}

/// The number from which on records are left out: steps and waits, and children that were started there.
///
/// With `from_step`, everything from the first record of that step on. Without it, a run that failed leaves out the step that
/// failed last, if that was its last one: it would fail again without being executed. Every other run takes over everything.
pub fn cut(
    records: &[Checkpoint],
    state: State,
    from_step: Option<&Name>,
) -> Result<u32, NotForkable> {
    let from = match from_step {
        Some(step) => Some(step.as_str()),
        None if state == State::Failed => last_failure(records).map(operation),
        None => None,
    };
    let Some(step) = from else { return Ok(u32::MAX) };
    let is_of = |checkpoint: &&Checkpoint| is_part(checkpoint.key.as_str(), step);
    let first = records.iter().filter(is_of).map(|checkpoint| checkpoint.number).min();
    first.ok_or(NotForkable::UnknownStep)
}

/// Whether the approvals that a fork takes over still hold for what it does. A step that failed is tried again under the approval
/// that it had. What succeeded behind an approval, and what was cancelled since, needs another one: the fork begins at the step
/// that asks. `told` are the numbers of the signals that told the run what came of approvals.
pub fn check_approvals(
    records: &[Checkpoint],
    told: &BTreeSet<u32>,
    state: State,
    cut: u32,
) -> Result<(), NotForkable> {
    let took_over = records.iter().filter(|it| it.number < cut).any(|it| match &it.recorded {
        Recorded::Wait(wait) => wait.taken.iter().any(|taken| told.contains(&taken.signal)),
        Recorded::Step(_) | Recorded::Child(_) => false,
    });
    let repeats = records.iter().filter(|it| it.number >= cut).any(|it| match &it.recorded {
        Recorded::Step(step) => matches!(step.outcome, StepOutcome::Succeeded { .. }),
        Recorded::Wait(_) | Recorded::Child(_) => false,
    });
    if took_over && (repeats || state == State::Cancelled) {
        return Err(NotForkable::ApprovalIsUsed);
    }
    Ok(())
}

/// A signal as the new run takes it over. What came of an approval counts only where the wait for it is taken over, too: under
/// this name nothing waits for it.
pub fn signal(signal: Signal, is_taken_there: bool) -> Signal {
    if !is_taken_there && approval::is_told_by(&signal.name) {
        let name = Name::from(format!("#past{}", signal.name));
        return Signal { name, ..signal };
    }
    signal
}

/// The key of the last step, if it failed.
fn last_failure(records: &[Checkpoint]) -> Option<&str> {
    let steps = records.iter().rev().filter_map(|checkpoint| match &checkpoint.recorded {
        Recorded::Step(step) => Some((checkpoint.key.as_str(), &step.outcome)),
        Recorded::Wait(_) | Recorded::Child(_) => None,
    });
    let (key, outcome) = { steps }.next()?;
    matches!(outcome, StepOutcome::Failed { .. }).then_some(key)
}

/// A step and its tries (`charge#1.2`) are one operation.
fn operation(key: &str) -> &str {
    let count = key.rfind('#').map_or(0, |place| place + 1);
    key[count..].find('.').filter(|_| count > 0).map_or(key, |part| &key[..count + part])
}

fn is_part(key: &str, operation: &str) -> bool {
    key.strip_prefix(operation).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a child of the run ended only because the run did. Its work starts again in the fork; every other end is a value that
/// the function may have seen.
pub fn is_cut_short(child: &Done) -> bool {
    let reason = child.cancel.as_ref().and_then(|cancel| cancel.reason.as_ref());
    let by_parent =
        reason.is_some_and(|it| [BUDGET_EXHAUSTED, PARENT_ENDED].contains(&it.as_str()));
    by_parent && child.end.state != State::Succeeded
}

/// The end of a child as the new run records it.
pub fn end_of_child(end: &End) -> StepOutcome {
    if end.state == State::Succeeded {
        return StepOutcome::Succeeded { result: end.output.clone() };
    }
    let unnamed = || Fault {
        category: Category::Infrastructure,
        message: Text::from(format!("the child ended as {}", end.state.name())),
        stack_trace: None,
        retryable: None,
    };
    let reason = end.reason.map(|reason| Text::from(reason.name()));
    StepOutcome::Failed { fault: end.fault.clone().unwrap_or_else(unnamed), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Digest;
    use crate::run::{Spend, Step, Taken, WaitRecord};

    fn step(number: u32, key: &str, is_failed: bool) -> Checkpoint {
        let fault = Fault {
            category: Category::UserCode,
            message: "no".into(),
            stack_trace: None,
            retryable: None,
        };
        let outcome = match is_failed {
            true => StepOutcome::Failed { fault, reason: None },
            false => StepOutcome::Succeeded { result: None },
        };
        let spend = Spend::default();
        Checkpoint {
            number,
            key: key.into(),
            digest: Digest::of(&[]),
            attempt: 1,
            at: Time::from_millis(0),
            recorded: Recorded::Step(Step { outcome, input: None, spend, is_savepoint: false }),
        }
    }

    #[test]
    fn a_failed_run_repeats_the_step_that_failed_last() {
        let records = [step(1, "a#1", false), step(2, "b#1.1", true), step(4, "b#1", true)];
        assert_eq!(cut(&records, State::Failed, None), Ok(2));
        // It halted, or was cancelled: what the step said is a value.
        assert_eq!(cut(&records, State::Halted, None), Ok(u32::MAX));
        assert_eq!(cut(&records, State::Cancelled, None), Ok(u32::MAX));
    }

    #[test]
    fn a_failure_that_the_function_dealt_with_stays() {
        let records = [step(1, "a#1", true), step(2, "b#1", false)];
        assert_eq!(cut(&records, State::Failed, None), Ok(u32::MAX));
    }

    #[test]
    fn a_step_that_is_named_is_the_first_one_repeated() {
        let records = [step(1, "a#1", false), step(2, "a#10", false), step(3, "b#1", false)];
        let at = |key: &str| cut(&records, State::Halted, Some(&key.into()));
        assert_eq!((at("a#1"), at("a#10"), at("b#1")), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(at("c#1"), Err(NotForkable::UnknownStep));
    }

    #[test]
    fn an_approval_holds_for_one_execution_of_what_follows_it() {
        let asked = |number, signal| Checkpoint {
            recorded: Recorded::Wait(WaitRecord {
                winner: None,
                taken: vec![Taken { item: "ok".into(), signal, bytes: 0 }],
            }),
            ..step(number, "ok#1", false)
        };
        let check = |records: &[Checkpoint], state, cut| {
            check_approvals(records, &BTreeSet::from([7]), state, cut)
        };
        let failed = [step(1, "a#1", false), asked(2, 7), step(3, "pay#1", true)];
        assert_eq!(check(&failed, State::Failed, 3), Ok(()));
        assert_eq!(check(&failed, State::Halted, u32::MAX), Ok(()));
        let paid = [step(1, "a#1", false), asked(2, 7), step(3, "pay#1", false)];
        assert_eq!(check(&paid, State::Failed, 3), Err(NotForkable::ApprovalIsUsed));
        assert_eq!(check(&paid, State::Failed, u32::MAX), Ok(()), "it is not paid again");
        assert_eq!(check(&paid, State::Failed, 2), Ok(()), "people are asked again");
        let cancelled = check(&paid, State::Cancelled, u32::MAX);
        assert_eq!(cancelled, Err(NotForkable::ApprovalIsUsed), "somebody took it back");
        // A signal of a client is no approval.
        let signalled = [step(1, "a#1", false), asked(2, 8), step(3, "pay#1", false)];
        assert_eq!(check(&signalled, State::Failed, 3), Ok(()));
    }

    #[test]
    fn tries_belong_to_their_step() {
        for (key, whole) in
            [("a#1", "a#1"), ("a#1.2", "a#1"), ("x.y/a#3.timeout", "x.y/a#3"), ("v1.2", "v1.2")]
        {
            assert_eq!(operation(key), whole);
        }
    }
}
