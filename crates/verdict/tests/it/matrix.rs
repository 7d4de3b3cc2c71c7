//! Every request in every condition of a task gets the listed answer.

use verdict::request::{Caller, CancelMode, Extend, Undelivered};
use verdict::{Answer, Refusal, Request, State, WorkerVerdict};

use crate::world::{
    START, World, beat, cancel, failed, report, secs, start, submission, succeeded,
};

const CONDITIONS: [&str; 7] =
    ["absent", "queued", "leased", "expired", "retry", "done by it", "done without it"];

/// For each request, its answer in each condition, in the order of `CONDITIONS`.
const TABLE: [(&str, [&str; 7]); 9] = [
    ("grant", ["nothing", "granted", "nothing", "nothing", "nothing", "nothing", "nothing"]),
    ("started", ["not found", "unknown", "ok", "expired", "completed", "terminal", "terminal"]),
    ("heartbeat", ["not found", "unknown", "alive", "expired", "expired", "expired", "expired"]),
    (
        "report",
        ["not found", "unknown", "committed", "expired", "conflict", "conflict", "terminal"],
    ),
    ("cancel", ["not found", "cancelled", "running", "running", "cancelled", "ended", "cancelled"]),
    (
        "force",
        ["not found", "cancelled", "cancelled", "cancelled", "cancelled", "ended", "cancelled"],
    ),
    ("sweep", ["nothing", "nothing", "nothing", "done", "nothing", "nothing", "nothing"]),
    ("undelivered", ["nothing", "nothing", "done", "done", "nothing", "nothing", "nothing"]),
    ("extend", ["nothing", "nothing", "done", "done", "nothing", "nothing", "nothing"]),
];

#[test]
fn every_request_in_every_condition_has_its_listed_answer() {
    for (request, answers) in TABLE {
        for (condition, expected) in CONDITIONS.iter().zip(answers) {
            let (mut world, caller) = world_in(condition);
            let answer = world.ask(request_named(request, &mut World::empty(), &caller));
            // S3-2, S3-64: the coordinator's validation answers every call, whatever the caller and
            // the time.
            assert_eq!(describe(&answer), expected, "{request} when {condition}");
        }
    }
}

#[test]
fn every_report_gets_exactly_one_of_the_three_answers() {
    for condition in CONDITIONS {
        let (mut world, caller) = world_in(condition);
        let before = world.subject.clone();
        let answer = world.report(&caller, succeeded());
        let worker_verdict = match &answer {
            Answer::Committed { .. } => WorkerVerdict::Committed,
            Answer::Refused(refusal) => refusal.worker_verdict(),
            other => panic!("a report was answered {other:?}"),
        };
        // S3-11, S3-1, S3-4: COMMITTED is the only verdict that changes anything.
        assert_eq!(
            worker_verdict == WorkerVerdict::Committed,
            world.subject != before,
            "{condition}"
        );
        // S3-19: and it is returned only while the lease is valid.
        assert_eq!(worker_verdict == WorkerVerdict::Committed, condition == "leased");
    }
}

#[test]
fn work_is_accepted_in_running_and_nowhere_else() {
    for condition in CONDITIONS {
        let (mut world, caller) = world_in(condition);
        let running = world.subject.state() == Some(State::Running);
        // S2-29, S3-65: a lease exists exactly while running, and only its holder may act.
        let leased = world.subject.live().is_some_and(|task| task.lease().is_some());
        assert_eq!(leased, running, "{condition}");
        let heard = matches!(world.beat(&caller), Answer::Alive { .. });
        assert!(!heard || running, "{condition}");
    }
}

#[test]
fn what_has_ended_never_changes() {
    for condition in ["done by it", "done without it"] {
        for (request, _) in TABLE {
            let (mut world, caller) = world_in(condition);
            world.wait(secs(1_000_000));
            let request = request_named(request, &mut World::empty(), &caller);
            // Proves: S2-111: no request leads out of a terminal state. S2-41.
            world.ask_in_vain(request);
        }
    }
}

fn world_in(condition: &str) -> (World, Caller) {
    let (leased, caller) = World::running();
    let world = match condition {
        "absent" => World::empty(),
        "queued" => World::queued(),
        "leased" => leased,
        "expired" => {
            let mut world = leased;
            world.now = world.lease().expires_at;
            world
        }
        "retry" => World::retrying().0,
        "done by it" => {
            let mut world = leased;
            world.report(&caller, verdict::request::Outcome::Succeeded { output: None });
            world
        }
        "done without it" => {
            let mut world = leased;
            world.force();
            world
        }
        other => panic!("no condition {other}"),
    };
    (world, caller)
}

fn request_named(name: &str, scratch: &mut World, caller: &Caller) -> Request {
    match name {
        "grant" => scratch.grant_request("bob"),
        "started" => start(caller),
        "heartbeat" => beat(caller),
        "report" => report(caller, succeeded()),
        "cancel" => cancel(CancelMode::Graceful),
        "force" => cancel(CancelMode::Immediate),
        "sweep" => Request::Sweep,
        "undelivered" => Request::Undelivered(Undelivered { lease: caller.lease }),
        "extend" => Request::Extend(Extend { stalled_since: START, gap: secs(5) }),
        other => panic!("no request {other}"),
    }
}

fn describe(answer: &Answer) -> &'static str {
    match answer {
        Answer::Nothing => "nothing",
        Answer::Granted => "granted",
        Answer::Acknowledged => "ok",
        Answer::Alive { .. } => "alive",
        Answer::Committed { .. } => "committed",
        Answer::CancelAccepted { state: State::Running, .. } => "running",
        Answer::CancelAccepted { .. } => "cancelled",
        Answer::Done => "done",
        Answer::Accepted { .. } => "accepted",
        Answer::Run(_) => "of a durable run",
        Answer::Schedule(_) => "of a schedule",
        Answer::Budget(_) => "of a budget",
        Answer::Policy(_) => "of a policy",
        Answer::Recovery(_) => "of recovery",
        Answer::Object(_) => "of a deployment",
        Answer::Refused(refusal) => match refusal {
            Refusal::TaskNotFound => "not found",
            Refusal::UnknownLease => "unknown",
            Refusal::WorkerMismatch => "mismatch",
            Refusal::ConflictingReport { .. } => "conflict",
            Refusal::AttemptSuperseded { .. } => "superseded",
            Refusal::AttemptUnknown { .. } => "ahead",
            Refusal::TaskAlreadyTerminal { .. } => "terminal",
            Refusal::AttemptAlreadyCompleted { .. } => "completed",
            Refusal::TaskExpired { .. } => "expired",
            Refusal::KeyReused { .. } => "key reused",
            Refusal::RunAlreadyTerminal { .. } => "ended",
            Refusal::HistoryFull { .. } => "full",
            Refusal::QuotaReached { .. } => "quota",
            Refusal::FlowLimitConflict { .. } => "another limit",
            Refusal::DebounceForbidden { .. } => "not to be replaced",
            Refusal::BudgetSpent(_) => "budget spent",
            Refusal::Run(_) => "of a durable run",
            Refusal::Schedule(_) => "of a schedule",
            Refusal::Recovery(_) => "of recovery",
            Refusal::Topology(_) => "of a deployment",
        },
    }
}

#[test]
fn a_submission_is_accepted_where_there_is_no_task() {
    let mut world = World::empty();
    let answer = world.ask(Request::Submit(submission(verdict::Policy::default())));
    assert_eq!(describe(&answer), "accepted");
    // A failed report needs a task too: the requests of the table are distinct.
    let (_, caller) = World::running();
    let answer = World::empty().report(&caller, failed(verdict::Category::UserCode));
    assert_eq!(describe(&answer), "not found");
}
