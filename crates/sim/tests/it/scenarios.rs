//! Worlds of one scenario each. None may break an invariant, and each must reach what its scenario is about.

use sim::Scenario;
use sim::campaign::{Totals, campaign};
use sim::coverage::CoverageGoal;
use sim::fault::Fault;

/// One thread, as in the ranges: the scenarios run in parallel.
const THREADS: usize = 1;

/// The least number of each of a scenario's faults.
const FAULTS_MIN: u64 = 10;

fn hold(scenario: Scenario, worlds: u64) -> Totals {
    let first = scenario.first_seed();
    let totals = campaign(first..first + worlds, THREADS, |_| {});
    let told: Vec<String> = totals
        .failures
        .iter()
        .map(|(seed, what)| format!("{what}\nreproduce with: cargo xtask sim --seed {seed}\n"))
        .collect();
    assert!(told.is_empty(), "{} worlds failed\n\n{}", told.len(), told.join("\n"));
    assert_eq!(totals.seeds, worlds);
    assert!(totals.runs > worlds, "there is work in these worlds");
    totals
}

fn must_have_struck(totals: &Totals, faults: &[Fault]) {
    for fault in faults {
        let count = totals.tally.faults.get(fault).copied().unwrap_or(0);
        assert!(count >= FAULTS_MIN, "only {count} times: {}", fault.name());
    }
}

#[test]
fn nothing_happens_but_time_and_it_is_never_late() {
    // S2-100: leases, deadlines, graces and retries take effect when they are due, although no call arrives.
    hold(Scenario::Idle, 60);
}

#[test]
fn one_of_two_committers_fails_and_no_promise_does() {
    // F44: faults that delay new work do not delay calls under a lease; faults that delay those calls cost no worker
    // its lease.
    let totals = hold(Scenario::TwoCommitters, 60);
    must_have_struck(
        &totals,
        &[
            Fault::CommitterHangs,
            Fault::CommitterRefused,
            Fault::CommitterBreaks,
            Fault::StoreStalled,
            Fault::ReadersFull,
        ],
    );
}

#[test]
fn a_store_that_is_slow_for_good_delays_work_and_never_stops_it() {
    // F24, G1: everything ends.
    hold(Scenario::SlowStore, 24);
}

#[test]
fn coordinators_fail_in_turn_and_no_honest_worker_loses_its_lease() {
    // A8 with several coordinators: a worker that fails over to the next one keeps its lease there.
    let totals = hold(Scenario::Failover, 40);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::StoreStalled, Fault::ReadersFull]);
}

#[test]
fn a_crowd_shares_coordinators_and_nobody_notices_the_others() {
    // G2, S1, S2, S4, S6: tenants, idle workers, a flood, intruders and an administrator side by side.
    let totals = hold(Scenario::ManyTenants, 8);
    must_have_struck(&totals, &[Fault::ForeignTried]);
}

#[test]
fn durable_runs_survive_everything_and_do_each_thing_once() {
    // E1, E2, E3, E4, E5, F79, F80, F81, F82, F84, F85: workers crash between and within calls, repeat them, send them
    // too late, bring other code, and meet cancels and a store that refuses; each step and each child is recorded once,
    // every wait ends, and no task ends before its children.
    let totals = hold(Scenario::Durable, 80);
    must_have_struck(
        &totals,
        &[
            Fault::DurableWorkerCrashed,
            Fault::DurableWorkerOverslept,
            Fault::CheckpointRepeated,
            Fault::CodeDiverged,
            Fault::SignalRepeated,
            Fault::HostCrashed,
            Fault::CommitRolledBack,
        ],
    );
    for goal in CoverageGoal::OF_DURABLE_RUNS {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn runs_that_sleep_are_woken_when_their_time_has_come() {
    // F71, S2-100: sleeps, signals and ends of children wake a run without any other call, and it is leased at once. Long
    // loops are replayed from their last savepoint.
    let totals = hold(Scenario::Asleep, 60);
    for goal in
        [CoverageGoal::RunSuspended, CoverageGoal::SignalTaken, CoverageGoal::ChildrenJoined]
    {
        assert!(totals.tally.goals.contains_key(&goal), "never: {}", goal.name());
    }
}

#[test]
fn flow_keys_are_never_too_full_and_leak_no_slot() {
    // After every commit no key has more slots held than its limit, no window has more starts than its rate, and every run ends.
    let totals = hold(Scenario::FlowKeys, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack]);
    for goal in CoverageGoal::OF_FLOW_KEYS {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn every_instant_of_a_schedule_is_one_run_or_accounted_for() {
    // Coordinators are killed around firings: no instant fires twice, none is forgotten, runs do not overlap where they may
    // not, and long after the last fault every schedule is up to date.
    let totals = hold(Scenario::Schedules, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack, Fault::Blackout]);
    for goal in CoverageGoal::OF_SCHEDULES {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn people_decide_once_whatever_fails_and_the_run_learns_what_they_decided() {
    // E7, A2-11: coordinators crash, answers are lost and votes repeated; each key votes once, the quorum is exact, and
    // every run that asks goes on.
    let totals = hold(Scenario::People, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack]);
    for goal in CoverageGoal::OF_PEOPLE {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn plans_skip_exactly_what_they_must_and_end_whole_whatever_fails() {
    // E8, S2-59: graphs of steps, some larger than one decision tells, some cancelled in the middle.
    let totals = hold(Scenario::Plans, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack]);
    for goal in CoverageGoal::OF_PLANS {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn a_worker_that_gets_nowhere_is_caught_and_a_busy_one_is_spared() {
    // Coordinators crash and the store stalls: no time in which nobody could be heard counts as lack of progress.
    let totals = hold(Scenario::Stalls, 60);
    must_have_struck(&totals, &[Fault::WorkerWedges, Fault::HostCrashed, Fault::DiskStalled]);
    for goal in CoverageGoal::OF_STALLS {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn budgets_are_escrow_whatever_fails() {
    // W-10, S2-62, S2-67, F86: parents with budgets, children with shares, lost attempts, crashes, refunds and halts. After every
    // commit no task has promised more than it may use; at the end nothing is held, and every use is accounted for.
    let totals = hold(Scenario::Escrow, 60);
    must_have_struck(
        &totals,
        &[Fault::HostCrashed, Fault::CommitRolledBack, Fault::DurableWorkerCrashed],
    );
    for goal in CoverageGoal::OF_ESCROW {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn what_failed_comes_back_once_within_the_policy_and_nothing_is_forgotten() {
    // S2-17, S2-18, S2-47, S2-103, A2-18: coordinators and evaluators die around evaluations and actions; every failure is counted
    // once, each signature has one live candidate, an action is carried out at most once, and nothing goes beyond the policy.
    let totals = hold(Scenario::Recovery, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack]);
    for goal in CoverageGoal::OF_RECOVERY {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn a_deployment_forgets_nothing_and_does_nothing_twice_whatever_fails() {
    // A0-11, S0-8, S0-17, S0-50, S0-52, W-28: coordinators, executors and the processes of a role die between any two writes; events,
    // work orders and the deployment itself are cancelled and paused. Every event ends once and says why, each work order has one
    // run record, artifacts move as declared, and each cause has one pause state.
    let totals = hold(Scenario::Deployments, 60);
    must_have_struck(&totals, &[Fault::HostCrashed, Fault::CommitRolledBack]);
    for goal in CoverageGoal::OF_DEPLOYMENTS {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}
