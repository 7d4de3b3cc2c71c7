//! A retry by a client: the submission of an ended task once more, as a new task.
//!
//! Decides which tasks may be submitted again, and with which policy. The old task does not change, so that its record
//! stays what it was; the caller links the new one to it. Not to be confused with the next attempt of a task that has
//! not ended, which the task's own policy decides.
//!
//! The new task begins from nothing. What the old one recorded would be done a second time, so that must be asked for
//! ([`Repeat::FromScratch`]); a fork ([`crate::fork`]) takes it over.

use crate::event::Submitted;
use crate::plan::PlanState;
use crate::policy::Policy;
use crate::reserved;
use crate::run::RunState;
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
    /// The same, and its plan keeps it from being continued, too.
    HaltedPlan,
    /// It has recorded steps or started children, and the caller did not ask for them to be done again.
    Recorded,
    /// The same for steps of its plan that have succeeded. A plan is not continued.
    DoneSteps,
    /// It is the server's own ([`crate::reserved`]): a work order with its gate, or an evaluation.
    Reserved,
    /// Its deadline was not after the moment at which it could first be leased. The new task would have no time either,
    /// and end before any worker could lease it.
    NoTime,
}

/// How much a retry may do again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing that is recorded.
    #[default]
    Unrecorded,
    /// Everything.
    FromScratch,
}

/// Whether a task that was submitted like this, is in this state and has come so far may be submitted again.
/// `has_done_steps` says whether a step of its plan with edges succeeded, which its own state does not tell.
pub fn may_retry(
    submitted: &Submitted,
    state: State,
    run: Option<&RunState>,
    has_done_steps: bool,
    repeat: Repeat,
) -> Result<(), NotRetryable> {
    match state {
        State::Halted if has_plan(run) => Err(NotRetryable::HaltedPlan),
        State::Halted => Err(NotRetryable::Halted),
        State::Succeeded => Err(NotRetryable::Succeeded),
        State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
            Err(NotRetryable::NotEnded)
        }
        State::Failed | State::Cancelled | State::Skipped => {
            let is_own = reserved::is_own(&submitted.queue, run);
            if is_own {
                Err(NotRetryable::Reserved)
            } else if repeat == Repeat::Unrecorded && has_records(run) {
                Err(NotRetryable::Recorded)
            } else if repeat == Repeat::Unrecorded && (has_done_steps || has_done_stages(run)) {
                Err(NotRetryable::DoneSteps)
            } else if has_no_time(submitted) {
                Err(NotRetryable::NoTime)
            } else {
                Ok(())
            }
        }
    }
}

pub(crate) fn has_no_time(submitted: &Submitted) -> bool {
    submitted.policy.deadline.is_some_and(|deadline| deadline.has_come(submitted.due))
}

pub(crate) fn has_plan(run: Option<&RunState>) -> bool {
    run.is_some_and(|run| run.plan.is_some())
}

/// Whether a fork would take something over that a retry does again. A plan has no fork.
fn has_records(run: Option<&RunState>) -> bool {
    run.is_some_and(|run| run.plan.is_none() && (run.steps > 0 || run.children > 0))
}

/// Whether a stage of a plan is behind the task, or its first stage has recorded a step of its own beside its end.
fn has_done_stages(run: Option<&RunState>) -> bool {
    run.is_some_and(|run| match run.plan.as_deref() {
        Some(PlanState::Stages(stages)) => stages.current > 0 || run.steps > 1 || run.children > 0,
        Some(PlanState::Root(_) | PlanState::Step(_)) | None => false,
    })
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
            assert_eq!(plain(&task, state), Err(why), "{state:?}");
        }
        for state in [State::Failed, State::Cancelled] {
            assert_eq!(plain(&task, state), Ok(()), "{state:?}");
        }
    }

    fn plain(task: &Submitted, state: State) -> Result<(), NotRetryable> {
        may_retry(task, state, None, false, Repeat::Unrecorded)
    }

    #[test]
    fn steps_of_a_plan_that_succeeded_are_done_again_only_if_that_is_asked_for() {
        let task = submitted(Policy::default());
        let ask = |repeat| may_retry(&task, State::Failed, None, true, repeat);
        assert_eq!(ask(Repeat::Unrecorded), Err(NotRetryable::DoneSteps));
        assert_eq!(ask(Repeat::FromScratch), Ok(()));
    }

    #[test]
    fn what_is_recorded_is_done_again_only_if_that_is_asked_for() {
        let task = submitted(Policy::default());
        let waited = RunState { checkpoints: 2, ..RunState::default() };
        let paid = RunState { checkpoints: 1, steps: 1, ..RunState::default() };
        let delegated = RunState { checkpoints: 1, children: 1, ..RunState::default() };
        for (run, is_refused) in [(waited, false), (paid, true), (delegated, true)] {
            let ask = |repeat| may_retry(&task, State::Failed, Some(&run), false, repeat);
            let refused = if is_refused { Err(NotRetryable::Recorded) } else { Ok(()) };
            assert_eq!(ask(Repeat::Unrecorded), refused, "{run:?}");
            assert_eq!(ask(Repeat::FromScratch), Ok(()), "{run:?}");
        }
    }

    #[test]
    fn the_servers_own_work_is_not_submitted_again() {
        let gate = crate::topology::gate_queue("joinery");
        for queue in [crate::recovery::QUEUE.into(), crate::recovery::QUEUE_BUILT_IN.into(), gate] {
            let task = Submitted { queue, ..submitted(Policy::default()) };
            let refused = may_retry(&task, State::Failed, None, false, Repeat::FromScratch);
            assert_eq!(refused, Err(NotRetryable::Reserved), "{}", task.queue);
        }
        // A person may let an event come back that no role processed.
        let queue = crate::topology::event_queue("joinery", None);
        let event = Submitted { queue, ..submitted(Policy::default()) };
        assert_eq!(plain(&event, State::Failed), Ok(()));
    }

    #[test]
    fn a_task_whose_deadline_left_it_no_time_is_not_submitted_again() {
        // It may first be leased at 5,000.
        let with = |deadline| {
            let deadline = Some(Time::from_millis(deadline));
            submitted(Policy { deadline, ..Policy::default() })
        };
        for state in [State::Failed, State::Cancelled] {
            assert_eq!(plain(&with(4_000), state), Err(NotRetryable::NoTime), "{state:?}");
            assert_eq!(plain(&with(5_000), state), Err(NotRetryable::NoTime), "{state:?}");
            assert_eq!(plain(&with(5_001), state), Ok(()), "{state:?}");
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
