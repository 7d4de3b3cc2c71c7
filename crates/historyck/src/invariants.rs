//! The invariants, one function each. A function reads a whole history and reports everything it finds.
//!
//! External observations (calls and answers) and the coordinators' records (decisions) are checked separately, so a
//! history with only one of them is still checked as far as possible.

mod approvals;
mod durability;
mod durable;
mod fairness;
mod idempotence;
mod isolation;
mod leases;
mod lifetime;
mod liveness;
mod outbox;
mod plans;
mod states;

use crate::finding::{Finding, Invariant};
use crate::history::History;
use crate::linearize;

pub(crate) type Check = fn(&History<'_>, &mut Vec<Finding>);

/// To add an invariant, add a row here, a variant in `finding.rs` and a folder of histories.
pub(crate) const CHECKS: &[(Invariant, Check)] = &[
    (Invariant::A1, leases::one_open_lease),
    (Invariant::A2, leases::fences_grow),
    (Invariant::A3, leases::one_winner),
    (Invariant::A4, leases::reports_of_the_newest_lease),
    (Invariant::A5, linearize::check),
    (Invariant::A6, leases::no_resurrection),
    (Invariant::A7, leases::one_worker),
    (Invariant::A8, lifetime::no_early_takeover),
    (Invariant::A9, states::decided_on_what_was),
    (Invariant::B1, states::published_transitions),
    (Invariant::B2, states::ends_are_final),
    (Invariant::B3, states::attempts_are_counted),
    (Invariant::B4, states::time_goes_forward),
    (Invariant::B5, states::one_record),
    (Invariant::B6, lifetime::no_orphan),
    (Invariant::B7, states::nothing_after_a_cancel),
    (Invariant::B8, lifetime::granted_in_time),
    (Invariant::B10, durability::all_are_counted),
    (Invariant::C1, durability::acknowledged_is_there),
    (Invariant::C2, durability::nothing_unasked),
    (Invariant::C3, durability::refused_has_no_effect),
    (Invariant::C4, idempotence::one_run_per_key),
    (Invariant::C5, idempotence::no_shared_keys),
    (Invariant::C6, idempotence::repeated_reports),
    (Invariant::C7, durability::reads_go_forward),
    (Invariant::C8, durability::recovery_finds_what_was),
    (Invariant::D1, outbox::one_effect_per_intent),
    (Invariant::D2, outbox::every_effect_is_delivered),
    (Invariant::D3, outbox::the_same_bytes),
    (Invariant::D4, outbox::in_order),
    (Invariant::E1, durable::the_same_commands),
    (Invariant::E2, durable::one_chain),
    (Invariant::E3, durable::one_result),
    (Invariant::E4, durable::a_diverged_run_is_parked),
    (Invariant::E5, durable::replay_begins_at_a_savepoint),
    (Invariant::E6, durable::unchanged_code_replays),
    (Invariant::E7, approvals::one_decision),
    (Invariant::E8, plans::steps_follow_their_plan),
    (Invariant::G1, liveness::everything_ends),
    (Invariant::G2, fairness::one_task_is_started_soon),
    (Invariant::G4, fairness::limits_are_kept),
    (Invariant::G5, fairness::retries_come_apart),
    (Invariant::G6, fairness::recovery_is_soon),
    (Invariant::G7, fairness::answers_are_no_larger_than_asked),
    (Invariant::S1, liveness::scopes_are_apart),
    (Invariant::S2, isolation::entitled),
    (Invariant::S3, isolation::refusals_change_nothing),
    (Invariant::S4, isolation::changes_are_audited),
    (Invariant::S5, isolation::answers_are_ones_own),
    (Invariant::S6, isolation::foreign_is_like_missing),
];
