//! The list of state changes matches the contract, and each change has one owner.

use std::collections::BTreeSet;

use verdict::transition::{Authority, HALT_TABLE, PLAN_TABLE, TABLE, Transition, is_listed};
use verdict::{AttemptOutcome, Reason, State};

type Change = (Option<State>, State);

/// Every change that any rule makes: of all tasks, of plans, and of budgets.
fn all() -> impl Iterator<Item = &'static Transition> {
    TABLE.iter().chain(&PLAN_TABLE).chain(&HALT_TABLE)
}

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
        let ways_out = all().filter(|row| row.from == Some(state)).count();
        assert_eq!(state.is_terminal(), ways_out == 0, "{state:?}");
    }
}

#[test]
fn every_change_of_the_contract_is_listed_and_every_other_is_an_amendment() {
    use State::{Blocked, Cancelled, Failed, Halted, Queued, Retry, Running, Succeeded, Waiting};
    // Proves: S2-42: what the contract allows, and an amendment for everything else. R-16: the same.
    let contract: BTreeSet<Change> = [
        (None, Queued),
        (Some(Queued), Running),
        (Some(Running), Succeeded),
        (Some(Running), Failed),
        (Some(Running), Halted),
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
    // A budget also ends what waits for a worker, and what has live children waits for them first.
    let halts: BTreeSet<Change> = [
        (Some(Queued), Halted),
        (Some(Retry), Halted),
        (Some(Waiting), Halted),
        (Some(Blocked), Halted),
        (Some(Queued), Waiting),
        (Some(Retry), Waiting),
        (Some(Running), Waiting),
    ]
    .into();
    let changes = |rows: &[Transition]| -> BTreeSet<Change> {
        rows.iter().map(|row| (row.from, row.to)).collect()
    };
    let of_tasks: BTreeSet<Change> =
        [&contract, &amendments, &waiting].into_iter().flatten().copied().collect();
    let halt: BTreeSet<Change> = [(Some(Running), Halted)].into();
    assert_eq!(changes(&TABLE), &of_tasks - &halt);
    assert_eq!(changes(&HALT_TABLE), &halts | &halt);
}

#[test]
fn a_halt_is_entered_at_a_limit_and_never_left() {
    // Proves: S2-38: by the Runner where a call crosses the limit, and by the Sweeper where time does.
    let halts: Vec<&Transition> = all().filter(|row| row.to == State::Halted).collect();
    for row in &halts {
        let owner = match row.because {
            "budget" => Authority::Runner,
            "time of the budget" => Authority::Sweeper,
            // The end was decided before, by one of the two.
            "children ended" => Authority::Engine,
            other => panic!("{other} is no limit"),
        };
        assert_eq!(row.owner, owner, "{row:?}");
    }
    assert!(halts.iter().any(|row| row.from == Some(State::Running)));
    assert_eq!(all().filter(|row| row.from == Some(State::Halted)).count(), 0);
}

#[test]
fn what_a_running_task_comes_to_is_the_runners_unless_time_or_a_cancel_decides() {
    // Proves: S2-11: a pool, an engine or a submitter ends no running task, and every end that work can have is the Runner's.
    let ends = [State::Succeeded, State::Failed, State::Halted];
    let from_running = || all().filter(|row| row.from == Some(State::Running));
    for row in from_running().filter(|row| ends.contains(&row.to)) {
        let may = match row.because {
            "reported" | "budget" => Authority::Runner,
            "time ran out" | "time of the budget" => Authority::Sweeper,
            "cancel grace over" => Authority::Canceller,
            other => panic!("{other}: nothing else ends a running task"),
        };
        assert_eq!(row.owner, may, "{row:?}");
    }
    for end in ends {
        let by_runner = |row: &&Transition| row.to == end && row.owner == Authority::Runner;
        assert_eq!(from_running().filter(by_runner).count(), 1, "{end:?}");
    }
    let successes: BTreeSet<&str> =
        from_running().filter(|row| row.to == State::Succeeded).map(|row| row.because).collect();
    assert_eq!(successes, ["reported"].into());
}

#[test]
fn each_change_for_each_cause_has_one_owner() {
    // Proves: S2-19: no change made for one cause has two owners, in no table and across them. R-22: the same.
    let causes: BTreeSet<_> = all().map(|row| (row.from, row.to, row.because)).collect();
    assert_eq!(causes.len(), all().count());
    // S2-21: only a submission creates a queued task. S2-25: only the pool's claim makes it
    // running.
    assert!(owners(State::Queued) == [Authority::Submitter]);
    assert!(owners(State::Running) == [Authority::Pool; 3]);
    // S2-30: only the runner leads to succeeded. The engine carries that out once the children have ended.
    assert!(owners(State::Succeeded) == [Authority::Runner, Authority::Engine]);
    // Proves: S2-16: the engine suspends and carries ends out; it neither grants nor decides an end.
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
    let owners = |to: State| -> Vec<Authority> {
        PLAN_TABLE.iter().filter(|row| row.to == to).map(|row| row.owner).collect()
    };
    // S2-25: only the pool's claim makes running. Only the engine skips, and moves a task to its next stage.
    assert_eq!(owners(State::Running), [Authority::Pool]);
    assert_eq!(owners(State::Skipped), [Authority::Engine; 2]);
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
