//! The list of state changes matches the contract, and each change has one owner.

use std::collections::BTreeSet;

use verdict::transition::{Authority, PLAN_TABLE, TABLE, Transition, is_listed};
use verdict::{AttemptOutcome, Reason, State};

type Change = (Option<State>, State);

#[test]
fn the_states_are_the_contracts_and_one_amendment() {
    let names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
    // S2-20, R-12: the six states of the contract, `cancelled`, `waiting` of durable runs, and two of plans.
    let contract = ["queued", "running", "retry", "succeeded", "failed", "halted"];
    let expected: Vec<&str> =
        contract.into_iter().chain(["cancelled", "waiting", "blocked", "skipped"]).collect();
    assert_eq!(names, expected);
    for state in State::ALL {
        assert_eq!(State::parse(state.name()), Some(state));
        // S2-41: a terminal state has no transition out of it.
        let all = TABLE.iter().chain(&PLAN_TABLE);
        let ways_out = all.filter(|row| row.from == Some(state)).count();
        assert_eq!(state.is_terminal(), ways_out == 0, "{state:?}");
    }
}

#[test]
fn every_change_of_the_contract_is_listed_and_every_other_is_an_amendment() {
    use State::{Cancelled, Failed, Queued, Retry, Running, Succeeded, Waiting};
    // S2-42, R-16: what the contract allows (`halted` is entered by no rule yet).
    let contract: BTreeSet<Change> = [
        (None, Queued),
        (Some(Queued), Running),
        (Some(Running), Succeeded),
        (Some(Running), Failed),
        (Some(Running), Retry),
        (Some(Retry), Running),
    ]
    .into();
    // W-31: cancelled from any state, and a deadline that ends waiting tasks.
    let amendments: BTreeSet<Change> = [
        (Some(Queued), Cancelled),
        (Some(Retry), Cancelled),
        (Some(Running), Cancelled),
        (Some(Queued), Failed),
        (Some(Retry), Failed),
    ]
    .into();
    // A durable run waits, and a task with live children waits for them before it ends.
    let waiting: BTreeSet<Change> = [
        (Some(Running), Waiting),
        (Some(Retry), Waiting),
        (Some(Waiting), Running),
        (Some(Waiting), Succeeded),
        (Some(Waiting), Failed),
        (Some(Waiting), Cancelled),
    ]
    .into();
    let listed: BTreeSet<Change> = TABLE.iter().map(|row| (row.from, row.to)).collect();
    let expected = [contract, amendments, waiting].into_iter().flatten().collect();
    assert_eq!(listed, expected);
}

#[test]
fn each_change_for_each_cause_has_one_owner() {
    // S2-19, R-22: no change made for one cause has two owners.
    let causes: BTreeSet<_> = TABLE.iter().map(|row| (row.from, row.to, row.because)).collect();
    assert_eq!(causes.len(), TABLE.len());
    // S2-21: only a submission creates a queued task. S2-25: only the pool's claim makes it
    // running.
    assert!(owners(State::Queued) == [Authority::Submitter]);
    assert!(owners(State::Running) == [Authority::Pool; 3]);
    // S2-30: only the runner leads to succeeded. The engine carries that out once the children have ended.
    assert!(owners(State::Succeeded) == [Authority::Runner, Authority::Engine]);
    // S2-15, S2-16: the engine suspends and carries ends out; it neither grants nor decides an end.
    let engines = TABLE.iter().filter(|row| row.owner == Authority::Engine);
    let whys: BTreeSet<&str> = engines.map(|row| row.because).collect();
    assert_eq!(whys, BTreeSet::from(["suspended", "children ended"]));
    // S2-95: the pool schedules a retry only after an undelivered grant.
    assert!(is_listed(Some(State::Running), State::Retry, Authority::Runner));
    let pools: Vec<&str> = TABLE
        .iter()
        .filter(|row| row.owner == Authority::Pool && row.to == State::Retry)
        .map(|row| row.because)
        .collect();
    assert_eq!(pools, ["handed back"]);
}

#[test]
fn the_pool_grants_and_takes_back_and_ends_nothing() {
    // S2-10, S2-54: the pool sets no outcome.
    let by_pool = |rows: &[Transition]| -> Vec<State> {
        rows.iter().filter(|row| row.owner == Authority::Pool).map(|row| row.to).collect()
    };
    let now: BTreeSet<State> = by_pool(&TABLE).into_iter().chain(by_pool(&PLAN_TABLE)).collect();
    assert_eq!(now, BTreeSet::from([State::Running, State::Retry]));
}

#[test]
fn each_change_of_a_plan_has_one_owner() {
    // S2-19: no change of a plan made for one cause has two owners, and none repeats one of every task.
    let all = || TABLE.iter().chain(&PLAN_TABLE);
    let causes: BTreeSet<_> = all().map(|row| (row.from, row.to, row.because)).collect();
    assert_eq!(causes.len(), TABLE.len() + PLAN_TABLE.len());
    let owners = |to: State| -> Vec<Authority> {
        PLAN_TABLE.iter().filter(|row| row.to == to).map(|row| row.owner).collect()
    };
    // S2-25: only the pool's claim makes running. Only the engine skips, and moves a task to its next stage.
    assert_eq!(owners(State::Running), [Authority::Pool]);
    assert_eq!(owners(State::Skipped), [Authority::Engine]);
    assert_eq!(owners(State::Queued), [Authority::Engine; 3]);
}

fn owners(to: State) -> Vec<Authority> {
    TABLE.iter().filter(|row| row.to == to).map(|row| row.owner).collect()
}

#[test]
fn names_are_read_as_they_are_written() {
    for outcome in AttemptOutcome::ALL {
        assert_eq!(AttemptOutcome::parse(outcome.name()), Some(outcome));
    }
    for reason in Reason::ALL {
        assert_eq!(Reason::parse(reason.name()), Some(reason));
    }
    // CANCELLED, the verdict, is neither a state nor a reason; the outcome is in upper case.
    assert_eq!(State::parse("CANCELLED"), None);
    assert_eq!(Reason::parse("CANCELLED"), None);
    assert_eq!(AttemptOutcome::parse("CANCELLED"), Some(AttemptOutcome::Cancelled));
}
