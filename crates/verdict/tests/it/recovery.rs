//! Recovery: which ends it is for, which failures are alike, and what may be done about them.

use verdict::approval::Outcome;
use verdict::recovery::{
    Action, Because, Candidate, CandidateState, Decider, Deciders, Decision, Evaluator, FailedRun,
    ForkOutcome, KIND, KIND_APPROVAL, KIND_BUILT_IN, OutOfScope, QUIET, Question, RecoveryPolicy,
    RecoveryRefusal, Signature, Standing, Suggestion, Terms, Word, automatic, fork_key,
    may_fork_again,
};
use verdict::{Category, Digest, Done, End, Fault, Name, Reason, Scope, State, TaskId, Text, Time};

use crate::world::{START, secs};

fn run(number: u128) -> TaskId {
    TaskId::from_u128(number)
}

fn done(kind: &str, state: State, reason: Option<Reason>) -> Done {
    let fault = Fault {
        category: Category::Infrastructure,
        message: "db-7 did not answer".into(),
        stack_trace: None,
        retryable: None,
    };
    Done {
        id: run(1),
        scope: Scope::default(),
        kind: kind.into(),
        queue: "images".into(),
        priority: 0,
        created_at: START,
        started_at: None,
        completed_at: START.plus(secs(60)),
        attempt: 3,
        failures: 3,
        lost: 0,
        claim_version: 6,
        cancel: None,
        end: End { state, reason, output: None, fault: Some(fault) },
        entries: 9,
        record: Digest::of(&[]),
        run: None,
    }
}

fn failed(number: u128, message: &str) -> FailedRun {
    FailedRun {
        run: run(number),
        kind: "resize".into(),
        queue: "images".into(),
        reason: Reason::AttemptsExhausted,
        category: Some(Category::Infrastructure),
        message: message.into(),
        failed_at: START,
    }
}

fn policy(terms: Terms) -> RecoveryPolicy {
    RecoveryPolicy { name: "p".into(), queue: None, kind: None, terms, is_deleted: false }
}

fn all(attempts: u32) -> Terms {
    Terms { actions: Action::ALL.to_vec(), attempts, ..Terms::default() }
}

/// A candidate of one failure.
fn opened(policy: &RecoveryPolicy) -> Candidate {
    Candidate::opened(None, &[failed(1, "no answer")], policy, run(100), START)
}

fn by_evaluation(action: Action) -> Decision {
    let decider = Decider::Evaluation { by: Evaluator::BuiltIn, confidence: Some(1_000) };
    Decision { action, decider, propose: None, comment: None }
}

fn by_person(action: Action) -> Decision {
    Decision { action, decider: Decider::Person("key_1".into()), propose: None, comment: None }
}

fn decided(candidate: &Candidate, action: Action, policy: &RecoveryPolicy) -> Candidate {
    candidate.clone().decided(by_evaluation(action), Some(policy), START).expect("within the scope")
}

#[test]
fn only_lost_workers_and_spent_attempts_are_recovered() {
    // S2-103, W-7: the end of the attempts decides, not the age of a run.
    let noted: Vec<Reason> = Reason::ALL
        .into_iter()
        .filter(|reason| FailedRun::of(&done("resize", State::Failed, Some(*reason))).is_some())
        .collect();
    let expected = [
        Reason::AttemptsExhausted,
        Reason::HeartbeatTimeout,
        Reason::Undelivered,
        Reason::AttemptTimeout,
        Reason::ReleasesExhausted,
        Reason::StepFailed,
        Reason::Stalled,
    ];
    assert_eq!(noted, expected);
    for state in [State::Succeeded, State::Halted, State::Cancelled, State::Skipped] {
        let done = done("resize", state, Some(Reason::AttemptsExhausted));
        assert_eq!(FailedRun::of(&done), None, "{state:?}");
    }
    let asked =
        verdict::task::CancelRequest { requested_at: START, reason: None, signalled_at: None };
    let stopped =
        Done { cancel: Some(asked), ..done("a", State::Failed, Some(Reason::HeartbeatTimeout)) };
    assert_eq!(FailedRun::of(&stopped), None, "somebody had asked it to stop");
}

#[test]
fn an_evaluation_is_never_recovered() {
    for kind in [KIND, KIND_BUILT_IN, KIND_APPROVAL] {
        let lost = done(kind, State::Failed, Some(Reason::HeartbeatTimeout));
        assert_eq!(FailedRun::of(&lost), None, "{kind}");
    }
}

#[test]
fn failures_are_alike_whatever_numbers_their_messages_have() {
    let id = |message: &str| Signature::of(&failed(1, message)).id();
    assert_eq!(id("db-7 timed out after 31ms\nstack 1"), id("db-9 timed out after 28ms\nstack 2"));
    assert_ne!(id("db timed out"), id("db refused"));
    let mut other = failed(1, "db timed out");
    other.queue = "mail".into();
    assert_ne!(id("db timed out"), Signature::of(&other).id());
    let long = "ä".repeat(10_000);
    assert!(Signature::of(&failed(1, &long)).pattern.as_str().len() <= 200);
}

#[test]
fn the_most_particular_policy_is_that_of_a_run() {
    let named = |name: &str, queue: Option<&str>, kind: Option<&str>| RecoveryPolicy {
        name: name.into(),
        queue: queue.map(Name::from),
        kind: kind.map(Name::from),
        ..policy(Terms::default())
    };
    let policies = [
        named("b-all", None, None),
        named("a-all", None, None),
        named("queue", Some("images"), None),
        named("kind", None, Some("resize")),
        named("both", Some("mail"), Some("resize")),
    ];
    let of = |queue: &str, kind: &str| {
        let found = RecoveryPolicy::of(policies.iter(), &queue.into(), &kind.into());
        found.map(|it| it.name.to_string()).unwrap_or_default()
    };
    assert_eq!(of("images", "resize"), "kind");
    assert_eq!(of("images", "crop"), "queue");
    assert_eq!(of("mail", "resize"), "both");
    assert_eq!(of("mail", "send"), "a-all");
    let gone = RecoveryPolicy { is_deleted: true, ..policies[0].clone() };
    assert_eq!(RecoveryPolicy::of([gone].iter(), &"a".into(), &"b".into()), None);
}

#[test]
fn ten_thousand_failures_that_are_alike_are_one_candidate_with_a_count() {
    // A2-18: one candidate that is not terminal for each signature.
    let policy = policy(all(1));
    let mut candidate = opened(&policy);
    for batch in 0..100_u128 {
        let more: Vec<FailedRun> =
            (0..100).map(|it| failed(batch * 100 + it, "no answer")).collect();
        assert_eq!(Candidate::standing(Some(&candidate), &policy.terms, START), Standing::Joins);
        candidate = candidate.joined(&more, &policy.terms, START);
    }
    assert_eq!((candidate.count, candidate.round.runs), (10_001, 10_001));
    assert_eq!(candidate.samples.len(), 10, "it stays a small row");
    assert_eq!(candidate.samples[9].run, run(9_999));
}

#[test]
fn what_the_policy_does_not_allow_is_refused() {
    // A2-13, A2-16: an action needs a scope that is in force, has time left, and names it.
    let narrow = policy(Terms { actions: vec![Action::Notify], ..Terms::default() });
    let refuse = |policy: Option<&RecoveryPolicy>, action, at: Time| {
        opened(&narrow).decided(by_evaluation(action), policy, at).unwrap_err()
    };
    let out = RecoveryRefusal::OutOfScope;
    for action in [Action::Retry, Action::Continue, Action::Escalate] {
        assert_eq!(refuse(Some(&narrow), action, START), out(OutOfScope::Action), "{action:?}");
    }
    let late = START.plus(narrow.terms.expires);
    assert_eq!(refuse(Some(&narrow), Action::Notify, late), out(OutOfScope::Expired));
    assert_eq!(refuse(None, Action::Notify, START), out(OutOfScope::Revoked));
    let gone = RecoveryPolicy { is_deleted: true, ..narrow.clone() };
    assert_eq!(refuse(Some(&gone), Action::Notify, START), out(OutOfScope::Revoked));
    // Doing nothing is always allowed.
    let skipped = opened(&narrow).decided(by_person(Action::Skip), None, late).unwrap();
    assert_eq!(skipped.state, CandidateState::Skipped);
    // People are bound by it too.
    let person = opened(&narrow).decided(by_person(Action::Retry), Some(&narrow), START);
    assert_eq!(person.unwrap_err(), out(OutOfScope::Action));
}

#[test]
fn nobody_unsure_submits_runs_without_people() {
    // A2-16: automatic execution needs a confidence of at least 0.8.
    let policy = policy(all(2));
    let candidate = opened(&policy);
    let with = |confidence| Decision {
        action: Action::Retry,
        decider: Decider::Evaluation { by: Evaluator::BuiltIn, confidence },
        propose: None,
        comment: None,
    };
    let unsure = RecoveryRefusal::OutOfScope(OutOfScope::Unsure);
    let decide = |it: Decision| candidate.clone().decided(it, Some(&policy), START);
    assert_eq!(decide(with(Some(799))).unwrap_err(), unsure);
    assert_eq!(decide(with(Some(800))).unwrap().state, CandidateState::Executing);
    // Without a word of its own, an evaluation is as sure as the suggestion that it follows.
    assert_eq!(decide(with(None)).unwrap().state, CandidateState::Executing);
    let other = Decision { action: Action::Continue, ..with(None) };
    assert_eq!(decide(other).unwrap_err(), unsure);
    let second = Candidate { attempts: 2, ..candidate.clone() };
    let second = second.joined(&[], &policy.terms, START);
    assert!(second.round.suggestion.confidence < 800, "it did not help the first time");
    assert_eq!(automatic(second.round.suggestion, &policy.terms), Action::Escalate);
    assert_eq!(decide(by_person(Action::Retry)).unwrap().state, CandidateState::Executing);
}

#[test]
fn an_evaluator_that_the_policy_no_longer_names_decides_nothing() {
    // A2-13: the policy as it is now counts, also for who evaluates.
    let before = policy(Terms { evaluator: Evaluator::Workers, ..all(2) });
    let after = policy(all(2));
    let by_worker = |action| Decision {
        action,
        decider: Decider::Evaluation { by: Evaluator::Workers, confidence: Some(1_000) },
        propose: None,
        comment: None,
    };
    let decide = |action, policy: &RecoveryPolicy| {
        opened(&before).decided(by_worker(action), Some(policy), START).map(|it| it.state)
    };
    let replaced = Err(RecoveryRefusal::OutOfScope(OutOfScope::Evaluator));
    for action in [Action::Retry, Action::Continue, Action::Notify] {
        assert!(decide(action, &before).is_ok(), "{action:?}");
        assert_eq!(decide(action, &after), replaced, "{action:?}");
    }
    // People hear of it, or nothing happens.
    assert_eq!(decide(Action::Escalate, &after), Ok(CandidateState::Escalated));
    assert_eq!(decide(Action::Skip, &after), Ok(CandidateState::Skipped));
}

#[test]
fn a_closed_candidate_is_final_and_an_escalated_one_is_for_people() {
    // A2-12, A2-18: terminal states are final.
    let policy = policy(all(1));
    let open = opened(&policy);
    for action in [Action::Retry, Action::Notify, Action::Skip] {
        let closed = decided(&open, action, &policy);
        let state = closed.state;
        let again = closed.decided(by_person(Action::Skip), Some(&policy), START);
        assert_eq!(again.unwrap_err(), RecoveryRefusal::Closed { state });
    }
    let escalated = decided(&open, Action::Escalate, &policy);
    let refused = escalated.clone().decided(by_evaluation(Action::Skip), Some(&policy), START);
    let state = CandidateState::Escalated;
    assert_eq!(refused.unwrap_err(), RecoveryRefusal::Closed { state });
    let retried = escalated.decided(by_person(Action::Retry), Some(&policy), START).unwrap();
    assert_eq!(retried.state, CandidateState::Executing);
    assert_eq!(retried.round.chosen.unwrap().by, Some("key_1".into()));
}

#[test]
fn attempts_only_grow_and_a_signature_cannot_loop() {
    // A2-10, A2-18: bounded, and counted over all candidates of the signature.
    let policy = policy(all(3));
    let mut candidate = opened(&policy);
    let mut now = START;
    for attempt in 1..=3 {
        assert_eq!(candidate.attempts, attempt);
        let executing = candidate.decided(by_person(Action::Retry), Some(&policy), now).unwrap();
        // The run that was submitted may fail before the round is over: it does not join it.
        let standing = Candidate::standing(Some(&executing), &policy.terms, now);
        assert!(matches!(standing, Standing::Waits(at) if at > now));
        candidate = executing.executed(&[ForkOutcome::Forked(run(7))], true);
        assert_eq!(candidate.state, CandidateState::Succeeded);
        now = now.plus(secs(3_600));
        if attempt < 3 {
            assert_eq!(Candidate::standing(Some(&candidate), &policy.terms, now), Standing::Opens);
            let again = [failed(7, "no answer")];
            candidate = Candidate::opened(Some(candidate), &again, &policy, run(200), now);
        }
    }
    assert_eq!(Candidate::standing(Some(&candidate), &policy.terms, now), Standing::Counts);
    let counted = candidate.counted(&[failed(9, "no answer")], now);
    assert_eq!((counted.state, counted.count), (CandidateState::Exhausted, 4));
    // After a week of silence it is news.
    let later = now.plus(QUIET);
    assert_eq!(Candidate::standing(Some(&counted), &policy.terms, later), Standing::Opens);
    let anew = Candidate::opened(Some(counted), &[failed(10, "x")], &policy, run(300), later);
    assert_eq!(anew.attempts, 1);
    // A failure whose words change each time has another signature, and the same line.
    assert!(may_fork_again(2, &policy.terms) && !may_fork_again(3, &policy.terms));
    assert_eq!(fork_key(run(7)), fork_key(run(7)));
}

#[test]
fn a_round_ends_with_what_came_of_it() {
    let policy = policy(Terms { runs_max: 3, ..all(1) });
    let executing = decided(&opened(&policy), Action::Retry, &policy);
    assert_eq!(executing.room(Some(&policy), START), 3);
    let refused = [ForkOutcome::Refused("run_not_retryable".into())];
    assert_eq!(executing.clone().executed(&refused, true).state, CandidateState::Failed);
    let some = executing.clone().executed(&[ForkOutcome::Forked(run(8))], false);
    assert_eq!((some.state, some.room(Some(&policy), START)), (CandidateState::Executing, 2));
    let late = START.plus(policy.terms.expires);
    assert_eq!((some.room(None, START), some.room(Some(&policy), late)), (0, 0));
    assert_eq!(some.clone().expired(START), None);
    assert_eq!(some.expired(late).unwrap().state, CandidateState::Expired);
    let open = opened(&policy);
    assert_eq!(open.clone().evaluation_failed(run(5)), None, "it is the task of another round");
    assert_eq!(open.evaluation_failed(run(100)).unwrap().state, CandidateState::Failed);
    assert_eq!(executing.evaluation_failed(run(100)), None);
}

#[test]
fn suggestions_are_allowed_and_as_sure_as_the_evidence() {
    // A2-11, A2-18: a confidence between 0 and 1, and an action that the policy allows.
    for actions in [vec![], vec![Action::Notify], vec![Action::Continue], Action::ALL.to_vec()] {
        let terms = Terms { actions, evaluator: Evaluator::Workers, ..Terms::default() };
        for reason in [Reason::HeartbeatTimeout, Reason::AttemptsExhausted, Reason::StepFailed] {
            for category in Category::ALL.map(Some).into_iter().chain([None]) {
                let signature =
                    Signature { reason, category, ..Signature::of(&failed(1, "no answer")) };
                for attempt in [1, 2, 30] {
                    let it = Suggestion::of(&signature, 1, attempt, &terms);
                    assert!(terms.allows(it.action) && it.confidence <= 1_000);
                    assert!(terms.allows(automatic(it, &terms)));
                }
            }
        }
    }
    let lost = Signature { reason: Reason::HeartbeatTimeout, ..Signature::of(&failed(1, "")) };
    let one = Suggestion::of(&lost, 1, 1, &all(1));
    let many = Suggestion::of(&lost, 2, 1, &all(1));
    assert_eq!((one.because, many.because), (Because::OneLostWorkers, Because::SeveralLostWorkers));
    assert_eq!(automatic(one, &all(1)), Action::Escalate, "one run may be what ends its workers");
    assert_eq!(automatic(many, &all(1)), Action::Retry);
    let _: Text = fork_key(run(1));
}

fn word(outcome: Outcome) -> Word {
    Word { outcome, by: Some("key_2".into()), comment: None }
}

/// A candidate about which people are asked, by the task 500.
fn escalated(policy: &RecoveryPolicy) -> Candidate {
    let candidate = decided(&opened(policy), Action::Escalate, policy);
    let action = candidate.proposal(None, &policy.terms).expect("something can be proposed");
    candidate.asked(Candidate::question(run(500), action, &policy.terms, Some("evaluator".into())))
}

#[test]
fn people_are_asked_about_something_that_the_policy_allows() {
    let with = |actions: &[Action]| Terms { actions: actions.to_vec(), ..Terms::default() };
    let candidate = opened(&policy(all(1)));
    let ask = |proposed, actions: &[Action]| candidate.proposal(proposed, &with(actions));
    assert_eq!(ask(None, &Action::ALL), Ok(Action::Retry), "what is suggested");
    assert_eq!(ask(None, &[Action::Escalate, Action::Notify]), Ok(Action::Notify));
    assert_eq!(ask(None, &[Action::Escalate]), Ok(Action::Skip));
    assert_eq!(ask(Some(Action::Continue), &Action::ALL), Ok(Action::Continue));
    let out = Err(RecoveryRefusal::OutOfScope(OutOfScope::Action));
    assert_eq!(ask(Some(Action::Continue), &[Action::Retry]), out);
    assert_eq!(ask(Some(Action::Escalate), &Action::ALL), out, "a question about a question");
    // An evaluation cannot propose what it may not do.
    let narrow = policy(with(&[Action::Escalate]));
    let proposing = Decision { propose: Some(Action::Retry), ..by_evaluation(Action::Escalate) };
    assert!(opened(&narrow).decided(proposing, Some(&narrow), START).is_err());
}

#[test]
fn the_approval_binds_the_action_the_candidate_its_round_and_the_limits() {
    // A2-11: a human approves or rejects, and nobody approves what he has not seen.
    let policy = policy(Terms { cost_micros: Some(9), ..all(1) });
    let candidate = escalated(&policy);
    let question = candidate.round.question.clone().unwrap();
    let digest = candidate.asked_digest(&question);
    let text = candidate.asked_text(&question);
    assert_eq!(
        text.as_str(),
        format!(
            r#"{{"action":"retry","candidateId":"{}","costMicros":9,"runsMax":100,"taskId":"{}"}}"#,
            candidate.signature.id(),
            run(100)
        )
    );
    for other in [
        Question { action: Action::Continue, ..question.clone() },
        Question { runs_max: 101, ..question.clone() },
        Question { cost_micros: None, ..question.clone() },
    ] {
        assert_ne!(candidate.asked_digest(&other), digest);
    }
    let mut later = candidate.clone();
    later.round.task = run(101);
    assert_ne!(later.asked_digest(&question), digest, "another round is another question");
    let terms = candidate.asked_terms(&question, &policy.terms.deciders, START);
    assert_eq!((terms.digest, terms.quorum), (Some(digest), 1));
    assert_eq!(terms.roles, ["approver", "admin"].map(Name::from));
    assert_eq!(terms.expires_at, Some(candidate.round.expires_at), "not longer than the candidate");
    let named = Deciders {
        keys: vec!["key_9".into()],
        quorum: 2,
        within: Some(secs(60)),
        default: Some(verdict::approval::Decision::Rejected),
        ..Deciders::default()
    };
    let terms = candidate.asked_terms(&question, &named, START);
    assert_eq!((terms.roles.len(), terms.keys.len(), terms.quorum), (0, 1, 2));
    assert_eq!(terms.expires_at, Some(START.plus(secs(60))));
    assert!(named.name(&"key_9".into(), &[]) && !named.name(&"key_1".into(), &["admin".into()]));
}

#[test]
fn the_word_of_people_is_carried_out_once_and_within_what_they_saw() {
    let wide = policy(Terms { runs_max: 3, cost_micros: Some(9), ..all(1) });
    let candidate = escalated(&wide);
    assert_eq!(candidate.awaited(), Some(run(500)));
    let answer = |word: Word, policy: Option<&RecoveryPolicy>, now: Time| {
        candidate.clone().answered(run(500), word, policy, now).expect("it waits for this")
    };
    let approved = answer(word(Outcome::Approved), Some(&wide), START);
    assert_eq!(approved.state, CandidateState::Executing);
    let chosen = approved.round.chosen.clone().unwrap();
    assert_eq!((chosen.action, chosen.by), (Action::Retry, Some("key_2".into())));
    let again = approved.clone().answered(run(500), word(Outcome::Approved), Some(&wide), START);
    assert_eq!(again, None, "a word counts once");
    assert_eq!(candidate.clone().answered(run(501), word(Outcome::Approved), None, START), None);
    // A policy that became wider meanwhile does not widen what was approved; a narrower one narrows it.
    let wider = policy(Terms { runs_max: 50, cost_micros: None, ..all(1) });
    assert_eq!(approved.room(Some(&wider), START), 3);
    assert_eq!(approved.bounds(&wider.terms).cost_micros, Some(9));
    let narrower = policy(Terms { runs_max: 1, cost_micros: Some(4), ..all(1) });
    assert_eq!(approved.room(Some(&narrower), START), 1);
    assert_eq!(approved.bounds(&narrower.terms).cost_micros, Some(4));
    // What the policy no longer allows is not done, whoever approved it.
    let none = policy(Terms { actions: Vec::new(), ..all(1) });
    let beyond = answer(word(Outcome::Approved), Some(&none), START);
    assert_eq!(beyond.state, CandidateState::Failed);
    assert_eq!(beyond.round.last_refusal, Some("recovery_out_of_scope".into()));
    assert_eq!(answer(word(Outcome::Approved), None, START).state, CandidateState::Failed);
    let late = START.plus(wide.terms.expires);
    assert_eq!(answer(word(Outcome::Approved), Some(&wide), late).state, CandidateState::Expired);
    let rejected = answer(word(Outcome::Rejected), Some(&wide), START);
    assert_eq!(rejected.state, CandidateState::Skipped);
    assert_eq!(answer(word(Outcome::Expired), Some(&wide), START).state, CandidateState::Expired);
    assert_eq!(answer(word(Outcome::Withdrawn), Some(&wide), START).state, CandidateState::Failed);
}

#[test]
fn recovery_is_the_fifth_authority_and_reaches_no_task() {
    // Proves: S2-8: each of the five holders is a type that only its own module can construct.
    // Proves: S2-18: no line of the rules of recovery names a task that is live, its events or its transitions.
    const HOLDERS: [(&str, &str); 5] = [
        (include_str!("../../src/decide/grant.rs"), "pub struct Pool(());"),
        (include_str!("../../src/decide/report.rs"), "pub struct Runner(());"),
        (include_str!("../../src/effect/decide.rs"), "pub struct Outbox(());"),
        (include_str!("../../src/decide/engine.rs"), "pub struct Engine(());"),
        (include_str!("../../src/recovery/candidate.rs"), "struct Recovery(());"),
    ];
    for (source, holder) in HOLDERS {
        assert!(source.contains(holder), "{holder}");
    }
    const RULES: [&str; 4] = [
        include_str!("../../src/recovery.rs"),
        include_str!("../../src/recovery/candidate.rs"),
        include_str!("../../src/recovery/escalation.rs"),
        include_str!("../../src/recovery/suggestion.rs"),
    ];
    for line in RULES.iter().flat_map(|source| source.lines()) {
        let is_comment = line.trim_start().starts_with("//");
        for reached in ["Task,", "Task>", "Subject", "Event", "transition", "crate::policy"] {
            assert!(is_comment || !line.contains(reached), "{reached} in {line}");
        }
    }
}
