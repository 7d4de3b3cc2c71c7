//! Ceilings of stages: what one stage may use of what its task may use.

use proptest::prelude::*;
use verdict::plan::{PlanRequest, Stage};
use verdict::request::{Caller, Outcome};
use verdict::run::RunRequest;
use verdict::{
    Amounts, Budget, Done, Limits, Policy, Reason, Request, State, Subject, TaskId, Unit,
};

use crate::budgets::{balance, beat, metered, spending, tokens};
use crate::family::{Call, Family, ROOT, checkpointed, refused};
use crate::planned::{advance_with, advanced, always, next_lease, stage, submit_stages};
use crate::world::{report, succeeded};

fn up_to(key: &str, limit: u64) -> Stage {
    Stage { ceiling: tokens(limit).limits, ..stage(key) }
}

fn tolerant(stage: Stage) -> Stage {
    Stage { continues_on_error: true, ..stage }
}

fn funded(stages: Vec<Stage>, budget: Option<Budget>) -> Family {
    let mut family = Family::empty();
    let mut request = submit_stages(stages, Policy::default());
    if let Request::Run(run) = &mut request
        && let RunRequest::Plan(PlanRequest::Submit(asked)) = &mut **run
    {
        asked.submit.budget = budget.map(Box::new);
    }
    family.ask(ROOT, request);
    family
}

fn spend(family: &mut Family, caller: &Caller, key: &str, amount: u64) -> State {
    family.checkpoint(caller, Call::default().step_of(key, spending(amount))).state
}

fn left(family: &Family) -> Option<u64> {
    family.task(ROOT).balance().and_then(|balance| balance.left(Unit::Tokens))
}

fn current(family: &Family) -> &str {
    family.task(ROOT).kind.as_str()
}

fn done(family: &Family) -> &Done {
    match family.subject(ROOT) {
        Subject::Done(done) => done,
        other => panic!("not ended but {:?}", other.state()),
    }
}

fn succeed(family: &mut Family, caller: &Caller) {
    family.ask(ROOT, report(caller, succeeded()));
}

#[test]
fn a_stage_that_crosses_its_ceiling_halts_and_so_does_its_run() {
    let mut family = funded(vec![up_to("a", 60), stage("b")], Some(tokens(100)));
    let caller = family.grant(ROOT);
    // A ceiling may be reached. S2-62, S2-70: the call that crosses it halts in its answer, although the run had more.
    assert_eq!(spend(&mut family, &caller, "one", 60), State::Running);
    let call = Call::default().step_of("two", spending(1)).request(&caller);
    assert_eq!(checkpointed(family.ask(ROOT, call.clone())).state, State::Halted);
    let end = &done(&family).end;
    assert_eq!((end.state, end.reason), (State::Halted, Some(Reason::BudgetExhausted)));
    // S2-99: the message names the limit. S2-39: what was recorded stays.
    let message = end.fault.as_ref().map(|fault| fault.message.to_string());
    let expected = "the ceiling of the step `a` allows 60 tokens, and 61 are used";
    assert_eq!(message.as_deref(), Some(expected));
    assert!(family.members[&ROOT].records.checkpoint(&"two".into()).is_some());
    assert_eq!(checkpointed(family.ask_in_vain(ROOT, call)).state, State::Halted);
}

#[test]
fn each_stage_counts_anew_and_the_smaller_limit_holds() {
    let mut family = funded(vec![up_to("a", 60), up_to("b", 60), stage("c")], Some(tokens(100)));
    let caller = family.grant(ROOT);
    assert_eq!(left(&family), Some(60));
    spend(&mut family, &caller, "one", 50);
    assert_eq!(left(&family), Some(10));
    succeed(&mut family, &caller);
    // The stage has 60 and the run has 50.
    let caller = family.grant(ROOT);
    assert_eq!(left(&family), Some(50));
    spend(&mut family, &caller, "two", 5);
    succeed(&mut family, &caller);
    let caller = family.grant(ROOT);
    assert_eq!((current(&family), left(&family)), ("c", Some(45)));
    assert_eq!(spend(&mut family, &caller, "three", 46), State::Halted);
    assert_eq!(done(&family).end.state, State::Halted);
}

#[test]
fn a_stage_that_tolerates_errors_halts_alone_unless_the_run_is_at_its_limit() {
    let stages = || vec![tolerant(up_to("a", 60)), up_to("b", 60)];
    for (used, goes_on) in [(61, true), (101, false)] {
        let mut family = funded(stages(), Some(tokens(100)));
        let caller = family.grant(ROOT);
        assert_eq!(spend(&mut family, &caller, "one", used), State::Halted);
        assert_eq!(family.state(ROOT) == Some(State::Queued), goes_on, "after {used}");
        if !goes_on {
            assert_eq!(done(&family).end.state, State::Halted);
            continue;
        }
        // The worker of the stage that halted has lost its authority.
        let late = Call::default().step("late", "1").request(&caller);
        assert_eq!(refused(family.ask_in_vain(ROOT, late)), "task_expired");
        let caller = family.grant(ROOT);
        assert_eq!((current(&family), left(&family)), ("b", Some(39)));
        succeed(&mut family, &caller);
        assert_eq!(done(&family).end.state, State::Succeeded);
    }
}

#[test]
fn a_report_and_a_heartbeat_that_cross_the_ceiling_end_the_stage_too() {
    let stages = || vec![tolerant(up_to("a", 10)), stage("b")];
    let mut family = funded(stages(), Some(tokens(100)));
    let caller = family.grant(ROOT);
    let said = metered(11, report(&caller, succeeded()));
    // The next stage may be leased with the report that ended the one before.
    let lease = advanced(family.ask(ROOT, advance_with(said, next_lease(90))));
    assert_eq!((lease, current(&family)), (Some(next_lease(90).lease), "b"));
    let mut family = funded(stages(), Some(tokens(100)));
    let caller = family.grant(ROOT);
    family.ask(ROOT, metered(11, beat(&caller)));
    assert_eq!((family.state(ROOT), current(&family)), (Some(State::Queued), "b"));
    assert_eq!(balance(&family, ROOT).used.tokens, 11);
}

#[test]
fn ceilings_hold_without_a_budget_of_the_run() {
    let mut family = funded(vec![up_to("a", 10), up_to("b", 10)], None);
    let caller = family.grant(ROOT);
    spend(&mut family, &caller, "one", 10);
    succeed(&mut family, &caller);
    let caller = family.grant(ROOT);
    assert_eq!(left(&family), Some(10));
    assert_eq!(spend(&mut family, &caller, "two", 11), State::Halted);
    // A plan without any limit is not counted.
    let family = funded(vec![stage("a"), stage("b")], None);
    assert!(family.task(ROOT).balance().is_none());
}

#[test]
fn a_child_is_paid_for_by_the_stage_that_spawned_it() {
    let kid = TaskId::from_u128(20);
    let mut family = funded(vec![up_to("a", 60), up_to("b", 30)], Some(tokens(100)));
    let caller = family.grant(ROOT);
    let above = Call::default().funded_child("kid", 20, Some(tokens(61))).request(&caller);
    assert_eq!(refused(family.ask_in_vain(ROOT, above)), "budget_insufficient");
    family.checkpoint(&caller, Call::default().funded_child("kid", 20, Some(tokens(60))));
    assert_eq!(left(&family), Some(0));
    succeed(&mut family, &caller);
    let caller = family.grant(ROOT);
    // 60 of 100 are held for the child of the stage before.
    assert_eq!(left(&family), Some(30));
    family.settle();
    let worker = family.grant(kid);
    family.checkpoint(&worker, Call::default().step_of("one", spending(50)));
    family.call(&worker, Call::default().report(Outcome::Succeeded { output: None }));
    family.settle();
    // What the child used, and what came back, is not of this stage.
    assert_eq!((left(&family), balance(&family, ROOT).used.tokens), (Some(30), 50));
    assert_eq!(spend(&mut family, &caller, "two", 31), State::Halted);
}

#[test]
fn a_child_of_the_same_stage_gives_back_to_it() {
    let mut family = funded(vec![up_to("a", 60)], None);
    let caller = family.grant(ROOT);
    family.checkpoint(&caller, Call::default().funded_child("kid", 20, Some(tokens(50))));
    // W-10: what was promised to nobody is not used.
    family.checkpoint(&caller, Call::default().child("poor", 21));
    family.settle();
    let poor = family.grant(TaskId::from_u128(21));
    let answer = family.checkpoint(&poor, Call::default().step_of("one", spending(1)));
    assert_eq!(answer.state, State::Halted);
    family.settle();
    assert_eq!(left(&family), Some(9));
    let worker = family.grant(TaskId::from_u128(20));
    family.checkpoint(&worker, Call::default().step_of("one", spending(20)));
    family.call(&worker, Call::default().report(Outcome::Succeeded { output: None }));
    family.settle();
    assert_eq!(left(&family), Some(39));
    family.repeat_messages();
}

#[test]
fn a_lost_worker_settles_no_more_than_its_stage_has_left() {
    let reserve = Amounts { tokens: 30, ..Amounts::default() };
    let budget = Budget { reserve, ..tokens(100) };
    let mut family = funded(vec![up_to("a", 20), stage("b")], Some(budget));
    let caller = family.grant(ROOT);
    spend(&mut family, &caller, "one", 5);
    family.now = family.task(ROOT).lease().expect("it is running").expires_at;
    family.sweep(ROOT);
    assert_eq!(balance(&family, ROOT).used.tokens, 20);
    assert_eq!((family.state(ROOT), left(&family)), (Some(State::Retry), Some(0)));
}

#[test]
fn an_always_stage_after_a_halt_has_its_own_ceiling_alone() {
    let gate = || Stage { ceiling: tokens(5).limits, ..always("gate") };
    for (used, recorded) in [(5, "succeeded"), (6, "failed")] {
        let mut family = funded(vec![stage("a"), gate()], Some(tokens(10)));
        let caller = family.grant(ROOT);
        assert_eq!(spend(&mut family, &caller, "one", 11), State::Halted);
        let caller = family.grant(ROOT);
        assert_eq!((current(&family), left(&family)), ("gate", Some(5)));
        let state = spend(&mut family, &caller, "two", used);
        if used == 5 {
            assert_eq!(state, State::Running);
            succeed(&mut family, &caller);
        }
        assert_eq!(done(&family).end.state, State::Halted, "{recorded}");
        assert_eq!(balance(&family, ROOT).used.tokens, 11 + used);
    }
    // One without a ceiling is not stopped, as before.
    let mut family = funded(vec![stage("a"), always("gate")], Some(tokens(10)));
    let caller = family.grant(ROOT);
    spend(&mut family, &caller, "one", 11);
    let caller = family.grant(ROOT);
    assert_eq!((left(&family), spend(&mut family, &caller, "two", 99)), (None, State::Running));
}

/// What a plan comes to: the state of the run, and how many stages began.
fn expected(limit: u64, stages: &[(u64, u64, bool)]) -> (State, usize) {
    let mut used = 0;
    for (place, (ceiling, spent, continues)) in stages.iter().enumerate() {
        used += spent;
        if used > limit || (spent > ceiling && !continues) {
            return (State::Halted, place + 1);
        }
    }
    (State::Succeeded, stages.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// S2-67: however the use of each stage is said, and however often.
    #[test]
    fn no_stage_goes_on_beyond_its_ceiling(
        limit in 0..100u64,
        stages in prop::collection::vec((0..40u64, 0..40u64, any::<bool>()), 1..6),
        by_total in any::<bool>(),
    ) {
        let declared = stages.iter().enumerate().map(|(place, (ceiling, _, continues))| Stage {
            continues_on_error: *continues,
            ..up_to(&format!("s{place}"), *ceiling)
        });
        let mut family = funded(declared.collect(), Some(tokens(limit)));
        let mut began = 0;
        while family.subject(ROOT).live().is_some() {
            let (_, spent, _) = stages[began];
            began += 1;
            let caller = family.grant(ROOT);
            let was = current(&family).to_owned();
            for _ in 0..2 {
                let call = match by_total {
                    true => metered(spent, beat(&caller)),
                    false => Call::default()
                        .step_of(&format!("{was}/step"), spending(spent))
                        .request(&caller),
                };
                family.ask(ROOT, call);
            }
            family.ask(ROOT, report(&caller, succeeded()));
        }
        prop_assert_eq!((done(&family).end.state, began), expected(limit, &stages));
        let used: u64 = stages[..began].iter().map(|(_, spent, _)| spent).sum();
        prop_assert_eq!(balance(&family, ROOT).used.tokens, used);
        let is_over = Limits { tokens: Some(limit), ..Limits::default() }
            .crossed(balance(&family, ROOT).used);
        prop_assert!(is_over.is_none() || done(&family).end.state == State::Halted);
    }
}
