//! Rules with a planted bug: the checker must find each one, by the property it breaks.
//!
//! Every bug is a small wrapper around the production rules; most of them are bugs that other systems have shipped.

use tenure_model::{Bounds, Extent, Property, Rules, find, worlds};
use verdict::request::Request;
use verdict::{
    Answer, AttemptOutcome, End, Event, Fence, Moment, Next, Phase, ReadSet, Reason, Refusal,
    State, Subject, Time, Verdict, decide,
};

type Bug = fn(ReadSet<'_>, &Request, Moment) -> Verdict;

struct BuggyRules(Bug);

impl Rules for BuggyRules {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        (self.0)(read_set, request, at)
    }
}

fn must_be_found(bug: Bug, property: Property) {
    must_be_found_in(worlds::one_task_three_workers(Extent::Short), bug, property);
}

fn must_be_found_in(bounds: Bounds, bug: Bug, property: Property) {
    let found = find(bounds, BuggyRules(bug), property);
    assert!(found.is_some(), "the bug went unnoticed by {}", property.name());
    // The printed trace contains the submission, so it can be followed from the beginning.
    let steps = found.unwrap().steps;
    assert!(steps.iter().any(|step| step.starts_with("Submit")), "{steps:?}");
}

/// The moment just before the lease expires.
fn in_time(read_set: ReadSet<'_>, at: Moment) -> Moment {
    let expires_at =
        read_set.subject.live().and_then(|task| task.lease()).map(|lease| lease.expires_at);
    let just_before = |end: Time| Time::from_millis(end.millis() - 1);
    Moment { now: expires_at.map_or(at.now, just_before).min(at.now), ..at }
}

#[test]
fn a_second_lease_while_the_first_is_open() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut subject = read_set.subject.clone();
        if let (Request::Grant(_), Subject::Live(task)) = (request, &mut subject) {
            task.phase = Phase::Queued { due: at.now };
        }
        decide(ReadSet { subject: &subject, ..read_set }, request, at)
    }
    must_be_found(bug, Property::A1);
}

#[test]
fn a_fence_that_starts_again() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::Granted { fence, .. } = event {
                *fence = Fence::new(at.epoch, 1);
            }
        }
        verdict
    }
    must_be_found(bug, Property::A2);
}

#[test]
fn a_fence_that_a_restore_sets_back() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::Granted { fence, .. } = event {
                *fence = Fence::new(1, fence.as_u64() as u32);
            }
        }
        verdict
    }
    must_be_found_in(worlds::restored(Extent::Short), bug, Property::A2);
}

#[test]
fn two_different_reports_of_one_attempt_are_both_committed() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let verdict = decide(read_set, request, at);
        match (&verdict.answer, read_set.context.closed) {
            (Answer::Refused(Refusal::ConflictingReport { state }), Some(closed)) => {
                let (outcome, state) = (closed.outcome, *state);
                Verdict::new(Answer::Committed { outcome, state, replayed: true }, Vec::new())
            }
            _ => verdict,
        }
    }
    must_be_found(bug, Property::A3);
}

#[test]
fn a_report_that_is_committed_after_its_lease_ran_out() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match request {
            Request::Report(_) => decide(read_set, request, in_time(read_set, at)),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(bug, Property::A4);
}

#[test]
fn a_heartbeat_that_revives_an_expired_lease() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match request {
            Request::Heartbeat(_) => decide(read_set, request, in_time(read_set, at)),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(bug, Property::A6);
}

#[test]
fn a_lease_that_outlives_its_store() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let lease = read_set.subject.live().and_then(|task| task.lease());
        let granted_in = lease.map_or(at.epoch, |lease| lease.fence.epoch());
        let epoch = if request.caller().is_some() { granted_in } else { at.epoch };
        decide(read_set, request, Moment { epoch, ..at })
    }
    must_be_found_in(worlds::restored(Extent::Short), bug, Property::A6);
}

#[test]
fn a_stolen_token_that_is_obeyed() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut request = request.clone();
        let lease = read_set.subject.live().and_then(|task| task.lease());
        if let (Request::Heartbeat(heartbeat), Some(lease)) = (&mut request, lease) {
            heartbeat.caller.worker = lease.owner.clone();
        }
        decide(read_set, &request, at)
    }
    must_be_found(bug, Property::A7);
}

#[test]
fn a_sweep_that_takes_a_lease_back_early() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let early = matches!(request, Request::Sweep);
        let now = if early { Time::from_millis(at.now.millis() + 1) } else { at.now };
        let mut verdict = decide(read_set, request, Moment { now, ..at });
        for event in &mut verdict.events {
            if let Event::AttemptClosed { closed, .. } = event {
                closed.closed_at = at.now;
            }
        }
        verdict
    }
    must_be_found(bug, Property::A8);
}

#[test]
fn a_gap_of_ours_that_is_not_given_back() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match request {
            Request::Extend(_) => Verdict::nothing(),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(bug, Property::A8);
}

#[test]
fn a_sweep_that_finishes_what_nobody_did() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let waits = read_set.subject.live().is_some_and(|task| task.lease().is_none());
        if matches!(request, Request::Sweep) && waits {
            let end = End { state: State::Succeeded, reason: None, output: None, fault: None };
            return Verdict::new(Answer::Done, vec![Event::Ended(end)]);
        }
        decide(read_set, request, at)
    }
    must_be_found(bug, Property::B1);
}

#[test]
fn a_cancel_that_overwrites_a_result() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let ended =
            matches!(read_set.subject, Subject::Done(done) if done.end.state == State::Succeeded);
        if matches!(request, Request::Cancel(_)) && ended {
            let reason = Some(Reason::CancelForced);
            let end = End { state: State::Cancelled, reason, output: None, fault: None };
            return Verdict::new(Answer::Done, vec![Event::Ended(end)]);
        }
        decide(read_set, request, at)
    }
    must_be_found(bug, Property::B2);
}

#[test]
fn a_poison_task_whose_lost_workers_never_count() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::AttemptClosed { closed, next } = event
                && closed.outcome == AttemptOutcome::Lost
                && matches!(next, Next::End(_))
            {
                *next = Next::Retry { due: at.now };
            }
        }
        verdict
    }
    must_be_found(bug, Property::B3);
}

/// Replaces the next state of a task whose grant was handed back.
fn instead_of_hand_backs(verdict: &mut Verdict, then: impl Fn(&Next) -> Option<Next>) {
    for event in &mut verdict.events {
        if let Event::AttemptClosed { closed, next } = event
            && closed.outcome == AttemptOutcome::Undelivered
            && let Some(then) = then(next)
        {
            *next = then;
        }
    }
}

#[test]
fn hand_backs_that_are_free() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        if matches!(request, Request::Undelivered(_)) {
            let now = read_set.subject.dated(at).now;
            instead_of_hand_backs(&mut verdict, |_| Some(Next::Retry { due: now }));
        }
        verdict
    }
    must_be_found(bug, Property::B3);
}

#[test]
fn hand_backs_that_pause_and_never_end() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut subject = read_set.subject.clone();
        if let (Request::Grant(_), Subject::Live(task)) = (request, &mut subject) {
            task.undelivered = 0;
        }
        decide(ReadSet { subject: &subject, ..read_set }, request, at)
    }
    must_be_found_in(worlds::grants_come_back(), bug, Property::B3);
}

/// Replaces what becomes of a task that its worker released.
fn instead_of_releases(verdict: &mut Verdict, then: impl Fn(&Next) -> Option<Next>) {
    for event in &mut verdict.events {
        if let Event::AttemptClosed { closed, next } = event
            && closed.outcome == AttemptOutcome::Released
            && let Some(then) = then(next)
        {
            *next = then;
        }
    }
}

#[test]
fn releases_that_let_a_worker_spin() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let due = read_set.subject.dated(at).now;
        let is_retry = |next: &Next| matches!(next, Next::Retry { .. });
        instead_of_releases(&mut verdict, |next| is_retry(next).then_some(Next::Retry { due }));
        verdict
    }
    must_be_found_in(worlds::handed_back_by_workers(), bug, Property::B3);
}

#[test]
fn releases_that_never_end() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let due = Time::from_millis(read_set.subject.dated(at).now.millis() + 1_000);
        let is_cancelled = read_set.subject.live().is_some_and(|task| task.cancel.is_some());
        let goes_on = |next: &Next| matches!(next, Next::End(_)) && !is_cancelled;
        instead_of_releases(&mut verdict, |next| goes_on(next).then_some(Next::Retry { due }));
        verdict
    }
    must_be_found_in(worlds::handed_back_by_workers(), bug, Property::B3);
}

#[test]
fn a_release_that_forgets_the_cancel() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let due = Time::from_millis(read_set.subject.dated(at).now.millis() + 1_000);
        let is_end = |next: &Next| matches!(next, Next::End(_));
        instead_of_releases(&mut verdict, |next| is_end(next).then_some(Next::Retry { due }));
        verdict
    }
    must_be_found_in(worlds::handed_back_by_workers(), bug, Property::B7);
}

#[test]
fn an_attempt_dated_before_its_grant() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            // The bug of a rule that reads the clock itself instead of the decision's moment.
            if let Event::AttemptClosed { closed, .. } = event {
                closed.closed_at = at.now;
            }
        }
        verdict
    }
    must_be_found_in(worlds::limits_and_clocks(Extent::Short), bug, Property::B4);
}

#[test]
fn a_task_that_stays_running_for_ever() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let started = read_set.subject.live().and_then(|task| task.lease()?.started_at).is_some();
        match request {
            Request::Sweep if started => Verdict::nothing(),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(bug, Property::B6);
}

#[test]
fn a_cancel_that_every_heartbeat_puts_off() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut subject = read_set.subject.clone();
        if let (Request::Sweep, Subject::Live(task)) = (request, &mut subject)
            && let Some(cancel) = &mut task.cancel
        {
            cancel.signalled_at = None;
        }
        decide(ReadSet { subject: &subject, ..read_set }, request, at)
    }
    must_be_found(bug, Property::B7);
}

#[test]
fn a_retry_that_does_not_wait() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut subject = read_set.subject.clone();
        if let (Request::Grant(_), Subject::Live(task)) = (request, &mut subject)
            && let Phase::Retry { due } = &mut task.phase
        {
            *due = at.now;
        }
        decide(ReadSet { subject: &subject, ..read_set }, request, at)
    }
    must_be_found(bug, Property::B8);
}

#[test]
fn a_repeated_report_that_is_told_it_came_too_late() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let verdict = decide(read_set, request, at);
        match verdict.answer {
            Answer::Committed { replayed: true, state, .. } => {
                Verdict::refuse(Refusal::TaskAlreadyTerminal { state })
            }
            _ => verdict,
        }
    }
    must_be_found(bug, Property::C6);
}
