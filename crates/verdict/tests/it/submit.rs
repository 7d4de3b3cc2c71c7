//! Submissions: a new task, or the one that already holds the key.

use verdict::decide::submit::KEY_WINDOW;
use verdict::request::Submit;
use verdict::{
    Answer, Context, Digest, KeyHolder, Moment, Policy, Quota, ReadSet, Refusal, Request, Span,
    State, Subject, TaskId, Time, Verdict, apply, decide,
};

use crate::world::{START, World, cancelled, refusal, secs, submission};

#[test]
fn a_submission_waits_with_nothing_allocated() {
    let world = World::queued();
    // S2-21: a new task is queued.
    assert_eq!(world.state(), State::Queued);
    // S2-22: no lease, no attempt, nothing started.
    assert_eq!(world.task().lease(), None);
    assert_eq!((world.task().attempt, world.task().claim_version), (0, 0));
    assert_eq!(world.task().started_at, None);
    assert_eq!(world.task().created_at, START);
}

#[test]
fn a_start_time_delays_and_never_precedes_the_submission() {
    let later = START.plus(secs(60));
    for (run_at, due) in [(Some(later), later), (Some(Time::from_millis(5)), START), (None, START)]
    {
        let mut world = World::empty();
        world.ask(Request::Submit(Submit { run_at, ..submission(Policy::default()) }));
        assert_eq!(world.due(), due);
    }
}

#[test]
fn a_key_in_use_finds_its_task_instead_of_making_a_second_one() {
    let world = World::queued();
    let again = Submit { id: TaskId::from_u128(8), ..submission(Policy::default()) };
    let verdict = submit_with_holder(&world.subject, &again, START.plus(secs(9)));
    // S2-115, R-32: the same key and content return the existing run, and nothing is created.
    let answer = Answer::Accepted {
        task: TaskId::from_u128(7),
        state: State::Queued,
        created_at: START,
        replayed: true,
    };
    assert_eq!(verdict, Verdict::new(answer, Vec::new()));
}

#[test]
fn a_key_with_other_content_is_refused() {
    let world = World::queued();
    let other = Submit { fingerprint: Digest::of(&[b"other"]), ..submission(Policy::default()) };
    let verdict = submit_with_holder(&world.subject, &other, START);
    // one key always means one content.
    assert_eq!(verdict, Verdict::refuse(Refusal::KeyReused { holder: TaskId::from_u128(7) }));
}

#[test]
fn a_key_outlives_its_task_by_a_day_and_no_longer() {
    let (mut world, caller) = World::running();
    world.report(&caller, cancelled());
    let ended = world.done().completed_at;
    let again = Submit { id: TaskId::from_u128(8), ..submission(Policy::default()) };

    // within 24 hours of the end the key still finds the ended run.
    assert_eq!(KEY_WINDOW, Span::from_secs(86_400));
    let last = Time::from_millis(ended.plus(KEY_WINDOW).millis() - 1);
    let within = submit_with_holder(&world.subject, &again, last);
    assert!(matches!(
        within.answer,
        Answer::Accepted { replayed: true, state: State::Cancelled, .. }
    ));
    assert!(within.events.is_empty());

    let after = submit_with_holder(&world.subject, &again, ended.plus(KEY_WINDOW));
    assert!(
        matches!(after.answer, Answer::Accepted { replayed: false, task, .. } if task == again.id)
    );
    assert_eq!(after.events.len(), 1);
}

#[test]
fn a_quota_refuses_what_is_new_and_finds_what_is_there() {
    let submit = submission(Policy::default());
    let is_new = |quota| {
        matches!(submit_with_quota(None, &submit, quota), Answer::Accepted { replayed: false, .. })
    };
    let refused = |quota| refusal(submit_with_quota(None, &submit, quota));
    assert!(is_new(None));
    assert!(is_new(Some(Quota { max: 3, unfinished: 2, children: 900 })));
    let reached = [(3, 3), (3, 9), (0, 0)];
    for (max, unfinished) in reached {
        let quota = Some(Quota { max, unfinished, children: 0 });
        assert_eq!(refused(quota), Refusal::QuotaReached { quota: max });
    }
    // a held key is answered with its holder, whatever the quota says.
    let (held, quota) =
        (World::queued().subject, Some(Quota { max: 3, unfinished: 9, children: 0 }));
    let found = submit_with_quota(Some(&held), &submit, quota);
    assert!(matches!(found, Answer::Accepted { replayed: true, .. }));
    let other = Submit { fingerprint: Digest::of(&[b"other"]), ..submit.clone() };
    let reused = refusal(submit_with_quota(Some(&held), &other, quota));
    assert_eq!(reused, Refusal::KeyReused { holder: submit.id });
}

fn submit_with_quota(holder: Option<&Subject>, submit: &Submit, quota: Option<Quota>) -> Answer {
    let fingerprint = submission(Policy::default()).fingerprint;
    let holder = holder.map(|subject| KeyHolder { subject, fingerprint });
    let context = Context { holder, quota, ..Context::default() };
    let at = Moment { now: START, epoch: 1, rules: verdict::Rules::NEWEST };
    let mut subject = Subject::Absent;
    let applied = apply(&mut subject, context, &Request::Submit(submit.clone()), at);
    assert_eq!(applied.settled.is_some(), subject.live().is_some());
    applied.answer
}

fn submit_with_holder(holder: &Subject, submit: &Submit, now: Time) -> Verdict {
    let fingerprint = submission(Policy::default()).fingerprint;
    let holder = Some(KeyHolder { subject: holder, fingerprint });
    let context = Context { holder, ..Context::default() };
    let read_set = ReadSet { subject: &Subject::Absent, context };
    decide(
        read_set,
        &Request::Submit(submit.clone()),
        Moment { now, epoch: 1, rules: verdict::Rules::NEWEST },
    )
}
