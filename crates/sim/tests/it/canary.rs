//! A simulation that was never seen to fail proves nothing: every planted bug must be found.

use sim::log::Keep;
use sim::{PlantedBug, Scenario};

/// How many worlds may pass before a planted bug is found.
const WORLDS_MAX: usize = 60;

/// The same for a bug that only one world in twenty shows: a call must be repeated at the right moment.
const RARE_WORLDS_MAX: usize = 240;

/// The violation in the first world that shows the planted bug.
fn finds(bug: PlantedBug, seeds: impl Iterator<Item = u64>) -> String {
    finds_within(WORLDS_MAX, bug, seeds)
}

fn finds_within(worlds: usize, bug: PlantedBug, seeds: impl Iterator<Item = u64>) -> String {
    let violation = |seed| sim::run(seed, Keep::DigestOnly, bug).violation;
    let found = seeds.take(worlds).find_map(violation);
    found.unwrap_or_else(|| panic!("{bug:?} survived {worlds} worlds"))
}

#[test]
fn a_store_that_loses_what_it_acknowledged_is_found() {
    let what = finds(PlantedBug::LosesCommits, 0..);
    assert!(!what.is_empty());
}

#[test]
fn a_start_that_does_not_give_back_the_time_nobody_listened_is_found() {
    // S3-49 would be violated: an honest worker loses its lease to our outage.
    let what =
        finds(PlantedBug::ForgetsLastCommit, (0..).filter(|seed| sim::is_fair_to_workers(*seed)));
    assert!(what.contains("kept the rules and lost"), "{what}");
}

#[test]
fn an_answer_before_the_disk_has_it_is_found() {
    // Museum 35: acknowledged, and missing after the crash.
    let what = finds(PlantedBug::AnswersBeforeSync, 0..);
    assert!(!what.is_empty());
}

#[test]
fn a_key_that_makes_a_second_run_is_found() {
    let what = finds(PlantedBug::ForgetsKeys, 0..);
    assert!(!what.is_empty());
}

#[test]
fn a_decision_that_is_written_in_part_is_found() {
    // Found by rows that contradict their history, or by a call that fails on them.
    let what = finds(PlantedBug::SavesPartially, 0..);
    assert!(what.starts_with("verify") || what.starts_with("X32"), "{what}");
}

#[test]
fn a_store_in_which_nothing_ever_runs_out_is_found() {
    // Museum 4: a task that runs forever.
    let what = finds(PlantedBug::NeverSweeps, 0..);
    assert!(!what.is_empty());
}

#[test]
fn a_run_that_older_rules_decide_after_newer_ones_is_found() {
    let what = finds(PlantedBug::ForgetsRules, 0..);
    assert!(what.starts_with("rules"), "{what}");
}

#[test]
fn a_lost_commit_that_is_taken_for_made_is_found() {
    // The bug never asks the database for the outcome.
    let what = finds(PlantedBug::AssumesLostCommits, 0..);
    assert!(!what.is_empty());
}

/// The same, in the worlds of one scenario.
fn finds_in(bug: PlantedBug, scenario: Scenario) -> String {
    finds(bug, scenario.first_seed()..)
}

#[test]
fn a_store_that_names_no_instant_to_wake_at_is_found() {
    // With frequent callers the next call would hide the bug.
    let what = finds_in(PlantedBug::NamesNoWake, Scenario::Idle);
    assert!(!what.is_empty());
}

#[test]
fn a_store_that_names_late_instants_is_found() {
    let what = finds_in(PlantedBug::NamesLateWakes, Scenario::Idle);
    assert!(!what.is_empty());
}

#[test]
fn a_store_that_names_no_instant_that_has_passed_is_found() {
    let what = finds_in(PlantedBug::ForgetsPastWakes, Scenario::Idle);
    assert!(!what.is_empty());
}

#[test]
fn a_coordinator_that_never_looks_at_what_others_did_is_found() {
    let what = finds_in(PlantedBug::MissesPeerChanges, Scenario::Idle);
    assert!(!what.is_empty());
}

#[test]
fn a_slot_that_is_given_twice_is_found() {
    let what = finds_in(PlantedBug::ForgetsHolders, Scenario::FlowKeys);
    assert!(what.starts_with("flow"), "{what}");
}

#[test]
fn a_rate_that_forgets_its_starts_is_found() {
    let what = finds_in(PlantedBug::ForgetsStarts, Scenario::FlowKeys);
    assert!(what.starts_with("flow"), "{what}");
}

#[test]
fn an_instant_that_fires_twice_is_found() {
    let what = finds_in(PlantedBug::TearsFirings, Scenario::Schedules);
    assert!(!what.is_empty());
}

#[test]
fn ended_runs_that_are_never_forgotten_are_found() {
    let what = finds_in(PlantedBug::NeverForgets, Scenario::Idle);
    assert!(!what.is_empty());
}

#[test]
fn a_row_in_the_other_committers_hand_that_is_taken_for_gone_is_found() {
    let what = finds_in(PlantedBug::TreatsLockedAsMissing, Scenario::TwoCommitters);
    assert!(!what.is_empty());
}

#[test]
fn leases_that_only_the_committer_that_grants_knows_of_are_found() {
    let what = finds_in(PlantedBug::HidesLeases, Scenario::TwoCommitters);
    assert!(!what.is_empty());
}

#[test]
fn a_queue_that_tenants_share_is_found() {
    let what = finds_in(PlantedBug::MixesTenants, Scenario::ManyTenants);
    assert!(!what.is_empty());
}

#[test]
fn a_signal_that_was_there_before_its_wait_and_is_lost_is_found() {
    // The run waits for ever.
    let what = finds_in(PlantedBug::LosesWakeUps, Scenario::Durable);
    assert!(!what.is_empty());
}

#[test]
fn a_child_that_is_started_twice_is_found() {
    let what = finds_in(PlantedBug::DoublesChildren, Scenario::Durable);
    assert!(!what.is_empty());
}

#[test]
fn a_message_that_is_lost_is_found() {
    let what = finds_in(PlantedBug::LosesMessages, Scenario::Durable);
    assert!(!what.is_empty());
}

#[test]
fn a_step_that_is_recorded_twice_is_found() {
    let worlds = Scenario::Durable.first_seed()..;
    let what = finds_within(RARE_WORLDS_MAX, PlantedBug::ForgetsSteps, worlds);
    assert!(!what.is_empty());
}

#[test]
fn a_sleeping_run_that_nothing_wakes_is_found() {
    let what = finds_in(PlantedBug::NamesNoWake, Scenario::Asleep);
    assert!(!what.is_empty());
}

#[test]
fn a_sleeping_run_that_is_woken_too_late_is_found() {
    let what = finds_in(PlantedBug::NamesLateWakes, Scenario::Asleep);
    assert!(what.starts_with("late"), "{what}");
}

#[test]
fn votes_that_are_forgotten_are_found() {
    // E7: a key votes twice, or a quorum is never reached.
    let what = finds_in(PlantedBug::ForgetsVotes, Scenario::People);
    assert!(!what.is_empty());
}

#[test]
fn people_who_are_told_of_a_commit_that_was_not_made_are_found() {
    let what = finds_in(PlantedBug::LosesCommits, Scenario::People);
    assert!(!what.is_empty());
}

#[test]
fn a_step_that_runs_although_an_upstream_failed_is_found() {
    let what = finds_in(PlantedBug::ForgetsBlame, Scenario::Plans);
    assert!(what.starts_with("E8") || what.starts_with("verify"), "{what}");
}

#[test]
fn a_step_that_is_never_told_is_found() {
    let what = finds_in(PlantedBug::ForgetsDownstreams, Scenario::Plans);
    assert!(!what.is_empty());
}

#[test]
fn a_progress_clock_that_never_strikes_is_found() {
    let what = finds_in(PlantedBug::ForgetsProgressClock, Scenario::Stalls);
    assert!(!what.is_empty());
}

#[test]
fn what_a_lost_attempt_may_have_used_is_missed() {
    let what = finds_in(PlantedBug::DropsLostSpend, Scenario::Escrow);
    assert!(what.starts_with("escrow") || what.starts_with("verify"), "{what}");
}

#[test]
fn a_failure_that_recovery_never_hears_of_is_found() {
    let what = finds_in(PlantedBug::LosesFailures, Scenario::Recovery);
    assert!(what.starts_with("recovery"), "{what}");
}

#[test]
fn a_run_that_is_recovered_twice_is_found() {
    let what = finds_in(PlantedBug::RecoversTwice, Scenario::Recovery);
    assert!(what.starts_with("recovery"), "{what}");
}

#[test]
fn a_decision_about_a_candidate_that_is_lost_is_found() {
    // Its evaluation has ended, and nobody decides any more: it waits until its time is over, or for ever.
    let what = finds_in(PlantedBug::LosesRecoveryDecisions, Scenario::Recovery);
    assert!(!what.is_empty());
}

#[test]
fn a_work_order_without_the_key_of_its_event_is_found() {
    let what = finds_in(PlantedBug::OrdersWithoutKeys, Scenario::Deployments);
    assert!(!what.is_empty());
}

#[test]
fn an_event_that_ends_without_the_work_order_it_made_is_found() {
    let what = finds_in(PlantedBug::EndsEventsFirst, Scenario::Deployments);
    assert!(what.starts_with("deployment") || what.starts_with("G1"), "{what}");
}

#[test]
fn a_pause_state_that_is_written_twice_is_found() {
    let what = finds_in(PlantedBug::PausesTwice, Scenario::Deployments);
    assert!(what.starts_with("deployment"), "{what}");
}

#[test]
fn an_answer_of_a_gate_that_is_recorded_after_its_pause_state_is_found() {
    let what = finds_in(PlantedBug::JudgesAfterPause, Scenario::Deployments);
    assert!(what.starts_with("deployment"), "{what}");
}

#[test]
fn an_event_that_ends_and_tells_nobody_is_found() {
    let what = finds_in(PlantedBug::LosesEventEnds, Scenario::Deployments);
    assert!(what.starts_with("deployment"), "{what}");
}
