//! A retry by a client: the submission of an ended task once more, as a new task.
//!
//! Decides which tasks may be submitted again, and with which policy. The old task does not change, so that its record
//! stays what it was; the caller links the new one to it. Not to be confused with the next attempt of a task that has
//! not ended, which the task's own policy decides.

use crate::event::Submitted;
use crate::policy::Policy;
use crate::task::State;
use crate::time::Time;

/// Why a task may not be submitted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRetryable {
    /// It waits or runs: its own policy repeats failed attempts.
    NotEnded,
    /// Its work is done and recorded; a second task would do it twice.
    Succeeded,
    /// A limit of its budget stopped it: more needs another budget (S2-94).
    Halted,
    /// Its deadline was not after the moment at which it could first be leased. The new task would have no time either,
    /// and end before any worker could lease it.
    NoTime,
}

/// Whether a task that was submitted like this, and is in this state, may be submitted again.
pub fn may_retry(submitted: &Submitted, state: State) -> Result<(), NotRetryable> {
    let has_no_time = |deadline: Time| deadline.has_come(submitted.due);
    match state {
        State::Halted => Err(NotRetryable::Halted),
        State::Failed | State::Cancelled | State::Skipped
            if submitted.policy.deadline.is_some_and(has_no_time) =>
        {
            Err(NotRetryable::NoTime)
        }
        State::Failed | State::Cancelled | State::Skipped => Ok(()),
        State::Succeeded => Err(NotRetryable::Succeeded),
        State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
            Err(NotRetryable::NotEnded)
        }
    }
}

/// When the new task may first be leased: at once, unless the start of the old one has not come yet.
pub fn run_at(submitted: &Submitted, now: Time) -> Option<Time> {
    Some(submitted.due).filter(|due| !due.has_come(now))
}

/// The policy of the new task. The deadline is the only instant of a policy: the new task gets as much time from its
/// start as the old one had from the moment at which it could first be leased.
pub fn policy(submitted: &Submitted, now: Time) -> Policy {
    let policy = submitted.policy.clone();
    let start = run_at(submitted, now).unwrap_or(now);
    let deadline = policy.deadline.map(|deadline| start.plus(deadline.since(submitted.due)));
    Policy { deadline, ..policy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Digest, Scope, TaskId};

    fn submitted(policy: Policy) -> Submitted {
        Submitted {
            id: TaskId::from_u128(1),
            scope: Scope::default(),
            kind: "resize".into(),
            queue: "images".into(),
            priority: 0,
            policy,
            due: Time::from_millis(5_000),
            input: Digest::of(&[]),
            budget: None,
            flow: None,
        }
    }

    #[test]
    fn a_start_that_has_not_come_is_kept() {
        let deadline = Some(Time::from_millis(9_000));
        let old = submitted(Policy { deadline, ..Policy::default() });
        let (early, late) = (Time::from_millis(1_000), Time::from_millis(20_000));
        assert_eq!(run_at(&old, early), Some(Time::from_millis(5_000)));
        assert_eq!(policy(&old, early).deadline, deadline);
        assert_eq!(run_at(&old, late), None);
        assert_eq!(policy(&old, late).deadline, Some(Time::from_millis(24_000)));
    }

    #[test]
    fn only_tasks_that_ended_without_success_are_submitted_again() {
        let refused = [
            (State::Queued, NotRetryable::NotEnded),
            (State::Running, NotRetryable::NotEnded),
            (State::Retry, NotRetryable::NotEnded),
            (State::Succeeded, NotRetryable::Succeeded),
            (State::Halted, NotRetryable::Halted),
        ];
        let task = submitted(Policy::default());
        for (state, why) in refused {
            assert_eq!(may_retry(&task, state), Err(why), "{state:?}");
        }
        for state in [State::Failed, State::Cancelled] {
            assert_eq!(may_retry(&task, state), Ok(()), "{state:?}");
        }
    }

    #[test]
    fn a_task_whose_deadline_left_it_no_time_is_not_submitted_again() {
        // It may first be leased at 5,000.
        let with = |deadline| {
            let deadline = Some(Time::from_millis(deadline));
            submitted(Policy { deadline, ..Policy::default() })
        };
        for state in [State::Failed, State::Cancelled] {
            assert_eq!(may_retry(&with(4_000), state), Err(NotRetryable::NoTime), "{state:?}");
            assert_eq!(may_retry(&with(5_000), state), Err(NotRetryable::NoTime), "{state:?}");
            assert_eq!(may_retry(&with(5_001), state), Ok(()), "{state:?}");
        }
    }

    #[test]
    fn a_deadline_is_kept_as_a_span() {
        let policy = Policy {
            deadline: Some(Time::from_millis(65_000)),
            lost_max: 7,
            seed: Some(3),
            ..Policy::default()
        };
        let now = Time::from_millis(1_000_000);
        let again = super::policy(&submitted(policy.clone()), now);
        assert_eq!(again.deadline, Some(Time::from_millis(1_060_000)));
        assert_eq!(Policy { deadline: policy.deadline, ..again }, policy);
        let without = super::policy(&submitted(Policy::default()), now);
        assert_eq!(without, Policy::default());
    }
}
