//! A task that passes through stages: what counts per stage, what never resets, and what runs whatever happened.

use verdict::plan::{Capabilities, NextLease, PlanRequest, Stage};
use verdict::request::{Caller, CancelMode, Outcome};
use verdict::run::{Recorded, RunRequest, StepOutcome};
use verdict::{
    Answer, Category, Context, Done, Json, Policy, Reason, Request, State, Subject, Time, apply,
};

use crate::budgets::{metered, tokens};
use crate::family::{Call, Family, ROOT, refused};
use crate::planned::{
    LATER, advance, advance_with, advanced, always, next_lease, plan, stage, staged, submit_stages,
};
use crate::world::{failed, report, secs, start, succeeded};

fn done(family: &Family) -> &Done {
    match family.subject(ROOT) {
        Subject::Done(done) => done,
        other => panic!("not ended but {:?}", other.state()),
    }
}

fn succeed(family: &mut Family) -> Caller {
    let caller = family.grant(ROOT);
    family.ask(ROOT, report(&caller, succeeded()));
    caller
}

fn fail(family: &mut Family) -> Caller {
    let caller = family.grant(ROOT);
    family.ask(ROOT, report(&caller, failed(Category::DataQuality)));
    caller
}

fn lose(family: &mut Family) {
    let caller = family.grant(ROOT);
    family.ask(ROOT, start(&caller));
    family.now = family.task(ROOT).lease().expect("it is running").expires_at;
    assert_eq!(family.sweep(ROOT), Answer::Done);
}

/// The outcome of the checkpoint of a stage.
fn checkpoint(family: &Family, key: &str) -> Option<StepOutcome> {
    let found = family.members[&ROOT].records.checkpoint(&key.into())?;
    match &found.recorded {
        Recorded::Step(step) => Some(step.outcome.clone()),
        other => panic!("not a step but {other:?}"),
    }
}

fn reason_in(outcome: Option<StepOutcome>) -> String {
    match outcome {
        Some(StepOutcome::Failed { reason: Some(reason), .. }) => reason.to_string(),
        other => panic!("no reason in {other:?}"),
    }
}

#[test]
fn a_task_passes_through_kinds_and_queues_with_one_id() {
    let review = Stage { queue: "people".into(), ..stage("review") };
    let mut family = staged(vec![stage("draft"), review], Policy::default());
    assert_eq!(family.task(ROOT).kind.as_str(), "draft");
    assert_eq!(family.state(ROOT), Some(State::Queued));
    let first = family.grant(ROOT);
    let fence = family.task(ROOT).lease().map(|lease| lease.fence);
    let answer = family.ask(ROOT, report(&first, succeeded()));
    assert!(matches!(answer, Answer::Committed { state: State::Queued, .. }), "{answer:?}");
    let task = family.task(ROOT);
    assert_eq!((task.kind.as_str(), task.queue.as_str()), ("review", "people"));
    // S2-4: the success of a stage is a checkpoint with its output.
    let result = Some(Json::from("{\"rows\":3}"));
    assert_eq!(checkpoint(&family, "draft"), Some(StepOutcome::Succeeded { result }));
    let second = family.grant(ROOT);
    assert_eq!(second.attempt, 2);
    assert!(family.task(ROOT).lease().map(|lease| lease.fence) > fence);
    family.ask(ROOT, report(&second, succeeded()));
    assert_eq!(done(&family).end.state, State::Succeeded);
    assert!(checkpoint(&family, "review").is_some(), "the last stage is recorded too");
}

#[test]
fn the_token_of_one_stage_is_refused_in_the_next() {
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let old = succeed(&mut family);
    family.grant(ROOT);
    for request in [start(&old), report(&old, failed(Category::UserCode))] {
        let answer = family.ask_in_vain(ROOT, request);
        assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    }
}

#[test]
fn failures_count_per_stage() {
    let policy = Policy { failures_max: 2, ..Policy::default() };
    let retried = |key| Stage { policy: policy.clone(), ..stage(key) };
    let mut family = staged(vec![retried("a"), retried("b")], Policy::default());
    for _ in ["a", "b"] {
        let caller = family.grant(ROOT);
        family.ask(ROOT, report(&caller, failed(Category::UserCode)));
        assert_eq!(family.state(ROOT), Some(State::Retry), "one failure of two");
        family.wait(LATER);
        succeed(&mut family);
    }
    assert_eq!(done(&family).end.state, State::Succeeded);
}

#[test]
fn a_tolerated_failure_does_not_count_in_the_next_stage() {
    let policy = Policy { failures_max: 2, lost_max: 2, ..Policy::default() };
    let tolerant = Stage { continues_on_error: true, policy: policy.clone(), ..stage("a") };
    let strict = Stage { policy, ..stage("b") };
    let mut family = staged(vec![tolerant, strict], Policy::default());
    fail(&mut family);
    assert_eq!(family.task(ROOT).kind.as_str(), "b");
    let task = family.task(ROOT);
    assert_eq!((task.failures, task.lost, task.undelivered), (0, 0, 0));
    assert_eq!(task.uncounted(), 0, "an attempt that ended with its stage is no release");
    lose(&mut family);
    assert_eq!(family.state(ROOT), Some(State::Retry), "one lost worker of two");
}

#[test]
fn all_stages_together_may_not_fail_for_ever() {
    // The second cap: failures and lost workers of all stages count together.
    let policy = Policy { failures_max: 60, lost_max: 60, ..Policy::default() };
    let patient = |key| Stage { policy: policy.clone(), ..stage(key) };
    let mut family = staged(vec![patient("a"), patient("b")], Policy::default());
    for _ in 0..59 {
        lose(&mut family);
    }
    succeed(&mut family);
    for _ in 0..40 {
        lose(&mut family);
    }
    assert_eq!(family.state(ROOT), Some(State::Retry));
    lose(&mut family);
    assert_eq!(done(&family).end.reason, Some(Reason::HeartbeatTimeout));
}

#[test]
fn each_stage_has_its_own_time_limit_within_the_deadline_of_the_run() {
    let limited = |key| Stage { time_limit: Some(secs(100)), ..stage(key) };
    let deadline = Time::from_millis(1_000_000).plus(secs(150));
    let policy = Policy { deadline: Some(deadline), ..Policy::default() };
    let mut family = staged(vec![limited("a"), limited("b")], policy);
    let from = family.now;
    assert_eq!(family.task(ROOT).policy.deadline, Some(from.plus(secs(100))));
    family.wait(secs(40));
    succeed(&mut family);
    assert_eq!(family.task(ROOT).policy.deadline, Some(from.plus(secs(140))));
    let mut late = staged(vec![limited("a"), limited("b")], Policy::default());
    late.wait(secs(99));
    succeed(&mut late);
    late.wait(secs(99));
    assert_eq!(late.sweep(ROOT), Answer::Nothing, "the limit of the first stage is gone");
    late.wait(secs(1));
    late.sweep(ROOT);
    assert_eq!(done(&late).end.reason, Some(Reason::DeadlineExceeded));
    family.wait(secs(110));
    family.sweep(ROOT);
    assert_eq!(done(&family).end.reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn a_stage_that_continues_records_its_failure_and_the_task_goes_on() {
    // S2-91: `continue`.
    let tolerant = |key| Stage { continues_on_error: true, ..stage(key) };
    let mut family = staged(vec![tolerant("a"), tolerant("b")], Policy::default());
    fail(&mut family);
    assert_eq!(reason_in(checkpoint(&family, "a")), "NOT_RETRYABLE");
    fail(&mut family);
    assert_eq!(done(&family).end.state, State::Succeeded);
}

#[test]
fn the_deadline_of_the_run_ends_a_stage_that_continues() {
    let tolerant = Stage { continues_on_error: true, ..stage("a") };
    let deadline = Some(Time::from_millis(1_000_000).plus(secs(10)));
    let policy = Policy { deadline, ..Policy::default() };
    let mut family = staged(vec![tolerant, stage("b")], policy);
    family.wait(secs(10));
    family.sweep(ROOT);
    assert_eq!(done(&family).end.reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn an_always_stage_runs_whatever_ended_the_task_before_it() {
    type Ending = (fn(&mut Family), State, Reason);
    let endings: [Ending; 5] = [
        (|family| drop(fail(family)), State::Failed, Reason::NotRetryable),
        (|family| (0..3).for_each(|_| lose(family)), State::Failed, Reason::HeartbeatTimeout),
        (
            |family| {
                family.wait(secs(50));
                family.sweep(ROOT);
            },
            State::Failed,
            Reason::DeadlineExceeded,
        ),
        (
            |family| {
                family.cancel(ROOT, CancelMode::Graceful);
            },
            State::Cancelled,
            Reason::CancelRequested,
        ),
        (
            |family| {
                family.grant(ROOT);
                family.cancel(ROOT, CancelMode::Immediate);
            },
            State::Cancelled,
            Reason::CancelForced,
        ),
    ];
    for (end, state, reason) in endings {
        let lease = Policy { lease: secs(10), ..Policy::default() };
        let first = Stage { policy: lease.clone(), ..stage("a") };
        let deadline = Some(Time::from_millis(1_000_000).plus(secs(50)));
        let policy = Policy { deadline, ..lease };
        let mut family = staged(vec![first, stage("b"), always("gate")], policy);
        end(&mut family);
        let task = family.task(ROOT);
        assert_eq!((task.kind.as_str(), task.state()), ("gate", State::Queued), "{reason:?}");
        assert_eq!(reason_in(checkpoint(&family, "a")), reason.name());
        assert_eq!(checkpoint(&family, "b"), None, "a stage that never began has no checkpoint");
        family.wait(secs(100));
        succeed(&mut family);
        let ended = &done(&family).end;
        assert_eq!((ended.state, ended.reason), (state, Some(reason)));
        assert_eq!(done(&family).cancel.is_some(), state == State::Cancelled);
    }
}

#[test]
fn a_worker_of_an_always_stage_is_not_told_to_stop() {
    let mut family = staged(vec![stage("a"), always("gate")], Policy::default());
    let first = family.cancel(ROOT, CancelMode::Graceful);
    let caller = family.grant(ROOT);
    assert_eq!(family.ask(ROOT, start(&caller)), Answer::Acknowledged);
    // A repeated cancel changes nothing, and says when the first one was requested.
    let Answer::CancelAccepted { requested_at, .. } = first else { panic!("{first:?}") };
    family.wait(secs(1));
    let again = family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(again, Answer::CancelAccepted { state: State::Running, requested_at });
    assert!(family.task(ROOT).cancel.is_none());
    // Force ends it at once, with the first reason.
    family.cancel(ROOT, CancelMode::Immediate);
    assert_eq!(done(&family).end.reason, Some(Reason::CancelRequested));
    assert_eq!(family.count(ROOT, "ended") + family.count(ROOT, "attempt_closed"), 1);
}

#[test]
fn an_always_stage_that_fails_changes_no_end() {
    let mut family = staged(vec![stage("a"), always("gate"), always("bill")], Policy::default());
    fail(&mut family);
    fail(&mut family);
    assert_eq!(family.task(ROOT).kind.as_str(), "bill");
    fail(&mut family);
    let ended = &done(&family).end;
    assert_eq!((ended.state, ended.reason), (State::Failed, Some(Reason::NotRetryable)));
    // Reached after success, its own failure fails the task.
    let mut family = staged(vec![stage("a"), always("gate")], Policy::default());
    succeed(&mut family);
    fail(&mut family);
    assert_eq!(done(&family).end.state, State::Failed);
}

#[test]
fn success_with_a_cancel_pending_keeps_its_checkpoint_and_ends_cancelled() {
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    family.cancel(ROOT, CancelMode::Graceful);
    let answer = family.ask(ROOT, report(&caller, succeeded()));
    assert!(matches!(answer, Answer::Committed { state: State::Cancelled, .. }), "{answer:?}");
    assert_eq!(done(&family).end.reason, Some(Reason::CancelRequested));
    assert!(matches!(checkpoint(&family, "a"), Some(StepOutcome::Succeeded { .. })));
    // The last stage has nothing after it: the first valid commit wins.
    let mut family = staged(vec![stage("a")], Policy::default());
    let caller = family.grant(ROOT);
    family.cancel(ROOT, CancelMode::Graceful);
    family.ask(ROOT, report(&caller, succeeded()));
    assert_eq!(done(&family).end.state, State::Succeeded);
}

#[test]
fn a_report_leases_the_next_stage_in_the_same_decision() {
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let request = advance(&caller, succeeded(), next_lease(90));
    let lease = advanced(family.ask(ROOT, request.clone()));
    assert_eq!(lease, Some(next_lease(90).lease));
    let task = family.task(ROOT);
    assert_eq!((task.kind.as_str(), task.attempt, task.state()), ("b", 2, State::Running));
    assert_eq!(task.entries, 3, "submission, grant, and one entry for the report with its lease");
    // A repetition returns the same lease while it is current.
    let repeated = advance(&caller, succeeded(), next_lease(91));
    assert_eq!(advanced(family.ask_in_vain(ROOT, repeated.clone())), lease);
    let second = Caller { attempt: 2, lease: next_lease(90).lease, ..caller };
    family.ask(ROOT, report(&second, succeeded()));
    assert_eq!(advanced(family.ask_in_vain(ROOT, repeated)), None);
}

#[test]
fn the_next_stage_goes_through_the_queue_where_the_poll_does_not_allow_it() {
    let free = next_lease(90);
    let gate = Stage { is_gate: true, ..stage("b") };
    let queue = stage("b").queue;
    let cases: [(Stage, NextLease); 3] = [
        (gate, free.clone()),
        (stage("b"), NextLease { until: 0, ..free.clone() }),
        (stage("b"), NextLease { closed_queues: vec![queue], ..free.clone() }),
    ];
    for (second, next) in cases {
        let mut family = staged(vec![stage("a"), second], Policy::default());
        let caller = family.grant(ROOT);
        let answer = family.ask(ROOT, advance(&caller, succeeded(), next.clone()));
        assert_eq!(advanced(answer), None, "{next:?}");
        assert_eq!(family.state(ROOT), Some(State::Queued));
    }
    // Other queues may be closed as they like, and references are replaced after the lease, as for every poll.
    let referring = Stage { has_references: true, ..stage("b") };
    let mut family = staged(vec![stage("a"), referring], Policy::default());
    let caller = family.grant(ROOT);
    let next = NextLease { until: 1, closed_queues: vec!["other".into()], ..free };
    assert!(advanced(family.ask(ROOT, advance(&caller, succeeded(), next))).is_some());
}

#[test]
fn a_poll_takes_the_stages_before_the_first_that_it_does_not_take() {
    let elsewhere = Stage { queue: "other".into(), ..stage("c") };
    let family = staged(vec![stage("a"), stage("b"), elsewhere, stage("d")], Policy::default());
    let stages = family.task(ROOT).stages().cloned().expect("it has stages");
    let (here, both) = ([stage("a").queue], [stage("a").queue, "other".into()]);
    let kinds = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<_>>();
    assert_eq!(stages.taken_until(&here, None), Some(1));
    assert_eq!(stages.taken_until(&both, None), Some(3));
    assert_eq!(stages.taken_until(&both, Some(&kinds(&["b", "c"]))), Some(2));
    assert_eq!(stages.taken_until(&both, Some(&kinds(&["a", "d"]))), None);
    assert_eq!(stages.taken_until(&[], None), None);
}

#[test]
fn what_the_report_used_is_judged_before_the_next_stage_is_leased() {
    // S2-62: a report that crosses the limit halts, whatever it asks for.
    let after = |used: u64| {
        let mut family = Family::empty();
        let mut request = submit_stages(vec![stage("a"), stage("b")], Policy::default());
        if let Request::Run(run) = &mut request
            && let RunRequest::Plan(PlanRequest::Submit(asked)) = &mut **run
        {
            asked.submit.budget = Some(Box::new(tokens(100)));
        }
        family.ask(ROOT, request);
        let caller = family.grant(ROOT);
        let said = metered(used, report(&caller, succeeded()));
        let lease = advanced(family.ask(ROOT, advance_with(said, next_lease(90))));
        (lease, family.state(ROOT))
    };
    assert_eq!(after(101), (None, Some(State::Halted)));
    assert_eq!(after(100), (Some(next_lease(90).lease), Some(State::Running)));
}

#[test]
fn what_rides_along_with_a_report_does_not_keep_the_next_stage() {
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let last = || Call::default().step("one", "1").child("kid", 50).report(succeeded());
    let asked = |lease| advance_with(last().request(&caller), next_lease(lease));
    assert_eq!(advanced(family.ask(ROOT, asked(90))), Some(next_lease(90).lease));
    let task = family.task(ROOT);
    assert_eq!((task.kind.as_str(), task.live_children()), ("b", 1));
    let records = &family.members[&ROOT].records;
    let numbers = ["one", "a"].map(|key| records.checkpoint(&key.into()).map(|it| it.number));
    assert_eq!(numbers, [Some(1), Some(3)], "the child is between them");
    // The same report again gets the same lease, and spawns nothing.
    assert_eq!(advanced(family.ask_in_vain(ROOT, asked(91))), Some(next_lease(90).lease));
    // A refused rider refuses the report, and no stage is left.
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let taken = Call::default().step("b", "1").report(succeeded()).request(&caller);
    let answer = family.ask_in_vain(ROOT, advance_with(taken, next_lease(90)));
    assert_eq!(refused(answer), "conflicting_step");
}

#[test]
fn the_next_stage_is_not_leased_from_a_paused_queue_or_after_a_failure() {
    let mut family = staged(vec![stage("a"), stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let mut subject = family.subject(ROOT).clone();
    let context = Context { is_queue_paused: true, ..Context::default() };
    let at = verdict::Moment { now: family.now, epoch: 1, rules: family.rules };
    let request = advance(&caller, succeeded(), next_lease(90));
    assert_eq!(advanced(apply(&mut subject, context, &request, at).answer), None);
    // A retry that is due at once is the same stage again, for any worker.
    let eager = Policy { retry_base: secs(0), retry_cap: secs(0), ..Policy::default() };
    let mut family =
        staged(vec![Stage { policy: eager, ..stage("a") }, stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let request = advance(&caller, failed(Category::UserCode), next_lease(90));
    assert_eq!(advanced(family.ask(ROOT, request)), None);
    assert_eq!(family.state(ROOT), Some(State::Retry));
}

#[test]
fn a_stage_may_ask_only_for_what_it_was_given() {
    let bound = Stage { may: Capabilities::STEPS_ONLY, ..stage("a") };
    let mut family = staged(vec![bound, stage("b")], Policy::default());
    let caller = family.grant(ROOT);
    let child = Call::default().child("c", 50).request(&caller);
    assert_eq!(refused(family.ask_in_vain(ROOT, child)), "capability_missing");
    // The keys of stages are taken, those of later stages included.
    let taken = Call::default().step("b", "1").request(&caller);
    assert_eq!(refused(family.ask_in_vain(ROOT, taken)), "conflicting_step");
    family.checkpoint(&caller, Call::default().step("inner", "1"));
    let last = Call::default().step("other", "2").report(Outcome::Succeeded { output: None });
    family.call(&caller, last);
    let records = &family.members[&ROOT].records;
    let numbers: Vec<u32> = ["inner", "other", "a"]
        .into_iter()
        .filter_map(|key| records.checkpoint(&key.into()).map(|found| found.number))
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn an_input_that_cannot_be_resolved_ends_its_stage_for_good() {
    let referring = Stage { has_references: true, ..stage("b") };
    let mut family = staged(vec![stage("a"), referring, always("gate")], Policy::default());
    let unresolved = || plan(PlanRequest::InputUnresolved { message: "`/x` is not there".into() });
    assert_eq!(family.ask_in_vain(ROOT, unresolved()), Answer::Nothing);
    succeed(&mut family);
    assert_eq!(family.ask(ROOT, unresolved()), Answer::Done);
    assert_eq!(family.task(ROOT).kind.as_str(), "gate");
    succeed(&mut family);
    assert_eq!(done(&family).end.reason, Some(Reason::InputUnresolved));
}

#[test]
fn plans_without_stages_or_with_too_many_are_refused() {
    for stages in [vec![], (0..101).map(|n| stage(&format!("s{n}"))).collect()] {
        let answer = Family::empty().ask(ROOT, submit_stages(stages, Policy::default()));
        assert_eq!(refused(answer), "plan_invalid");
    }
}

#[test]
fn a_task_without_a_plan_is_no_larger() {
    // A plan is one pointer of a durable run; a plain task has none.
    let (family, _) = Family::running();
    assert!(family.task(ROOT).run.is_none());
    let request: Request = submit_stages(vec![stage("a")], Policy::default());
    assert!(std::mem::size_of_val(&request) <= 400, "{}", std::mem::size_of_val(&request));
}
