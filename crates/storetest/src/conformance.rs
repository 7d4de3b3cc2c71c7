//! The conformance suite: what the seam guarantees, checked on a real store.
//!
//! Each function of the modules below is one check. [`checks!`] names them all, so that an engine runs
//! every check twice: plainly, and with the store closed and reopened before every step, because no
//! answer may depend on state that only memory had. A check panics with what it found; it needs no test
//! framework.
//!
//! The checks are above the seam and below the coordinator: [`mod@carry`] loads, decides and saves as a
//! coordinator would, one request at a time. What cannot be tested through the seam (files, locks of the
//! operating system, damage) is tested with each engine.
//!
//! [`checks!`]: crate::conformance_checks

pub mod administration;
pub mod backlogs;
pub mod browsing;
pub mod cancels;
pub mod carry;
pub mod conflicts;
pub mod debounces;
pub mod driver;
pub mod filters;
pub mod fixture;
pub mod flow_life;
pub mod flow_rates;
pub mod flows;
pub mod grants;
pub mod insert_only;
pub mod keys;
pub mod logs;
pub mod lookups;
pub mod objects;
pub mod pauses;
pub mod polls;
pub mod progress_clocks;
pub mod record_seals;
pub mod reports;
pub mod retention;
pub mod rollback;
pub mod rules;
pub mod runs;
pub mod scopes;
pub mod spend;
pub mod submits;
pub mod sweeps;
pub mod times_to_live;
pub mod wakes;

pub use carry::{Call, CallResult, Poll, Submission};
pub use driver::Driver;
pub use fixture::{Between, Fixture, run};
pub use runs::{
    budgets as run_budgets, builds as run_builds, checkpoints as run_checkpoints,
    children as run_children, forks as run_forks, life as run_life, messages as run_messages,
    plans as run_plans, stages as run_stages, waits as run_waits,
};

/// Generates two tests of every check for the fixture that `$fixture` creates.
#[macro_export]
macro_rules! conformance_checks {
    ($fixture:expr) => {
        $crate::conformance_checks! { @each $fixture;
            administration::{keeps_keys_as_they_are_now, writes_only_behind_what_an_act_was_sealed_behind, keeps_when_a_key_was_used_apart_from_its_changes, keeps_the_limits_of_tenants_as_they_are_now, keeps_keys_in_their_scope_and_revoked, writes_a_change_with_its_record_or_neither, shows_the_audit_newest_first_by_tenant};
            filters::{filters_what_it_lists, lists_the_queues_of_a_limited_key, filters_by_several_labels, filters_by_period, filters_by_worker_and_category, reads_who_holds_leases};
            browsing::{lists_newest_first_page_by_page, leaves_bodies_out_of_lists, ends_a_page_that_is_heavy_enough, looks_at_so_many_tasks_for_a_page, reads_a_long_history_in_pages, reads_refusals_in_pages, finds_history_and_attempts, counts_queues, walks_everything_for_verification};
            cancels::{stops_waiting_tasks_at_once, asks_running_tasks_and_then_insists};
            conflicts::{holds_rows_of_another_batch, passes_over_what_another_batch_took, loses_the_race_for_a_key, refuses_a_stale_revision, releases_what_a_batch_locked, limits_its_writers};
            flows::{hold_no_more_than_their_limit, are_counted_as_parked_and_not_as_ready, free_a_slot_however_a_lease_ends, forget_no_parked_task, refuse_another_limit_while_a_task_lives, keep_no_slot_for_a_line_without_workers, hold_nothing_of_a_dropped_batch, are_granted_by_one_batch_at_a_time, wait_for_their_time_before_they_want_a_slot, are_listed_with_their_holders};
            debounces::{are_found_while_they_wait, leave_their_place_to_newer_ones, are_replaced_by_one_batch_at_a_time};
            flow_life::{keep_their_slot_through_retries_and_lost_workers, give_their_slot_back_however_they_end, leave_the_other_slots_to_others};
            flow_rates::{start_no_more_than_their_rate, wake_when_their_rate_opens, remember_starts_over_restarts_and_ends, have_a_limit_beside_the_rate, count_no_start_of_a_dropped_batch, start_thousands_without_losing_one};
            grants::{gives_by_priority_then_age, gives_only_wanted_kinds_and_queues, gives_no_task_twice, gives_nothing_before_its_time, gives_back_old_places, gives_what_the_same_batch_made_ready};
            insert_only::{refuses_to_change_what_ended, refuses_numbers_that_no_column_holds, refuses_a_second_row_for_an_attempt, refuses_gaps_in_history};
            keys::{finds_the_task_that_has_a_key, remembers_a_key_for_a_day_after_the_end};
            pauses::{are_kept_as_they_are_now, grant_nothing_and_let_the_rest_go_on, fence_batches_that_began_before};
            lookups::{finds_every_name_at_once, reads_no_excluded_task};
            objects::{change_by_one_revision_at_a_time, are_found_by_key_and_by_unique_key, are_listed_in_pages_by_scope, are_listed_in_pages_of_bytes, wake_when_they_are_due, belong_to_their_commit, are_locked_by_one_batch, of_endpoints_fence_batches_that_do_not_know_them, leave_with_their_run, are_verified_against_their_log, keep_the_newest_entries_of_a_schedule};
            spend::{adds_up_by_scope_and_day, never_wraps, belongs_to_its_commit, is_read_in_pages, costs_the_same_for_a_thousand_workspaces};
            logs::{grow_piece_by_piece, drop_their_oldest_and_say_how_many, belong_to_their_commit_and_scope, are_read_in_pages_and_leave_with_their_task};
            polls::{recalls_what_a_named_poll_was_given, leaves_what_is_long_to_readers, looks_up_leases_of_so_many_polls};
            progress_clocks::{stall_at_their_instant, are_kept_with_what_heartbeats_say, take_back_what_is_stuck, cancel_what_is_stuck, stand_still_while_nobody_could_be_heard};
            record_seals::{append_only_behind_the_newest, cover_what_has_ended};
            reports::{records_a_report_once, keeps_a_second_attempt_apart, keeps_a_release_apart_from_failures, remembers_refused_reports, carries_payloads_unchanged};
            retention::{forgets_ended_tasks_whole, keeps_what_may_still_be_asked_about, keeps_everything_when_a_batch_is_dropped, keeps_what_was_used};
            rollback::{leaves_nothing_of_a_dropped_batch, shows_nothing_before_the_commit, pulses_without_changes};
            rules::{are_the_newest_for_whoever_is_alone};
            run_checkpoints::{record_a_step_once, keep_long_results_out_of_the_history, are_read_from_the_savepoint};
            run_waits::{sleep_until_their_time, take_signals_in_any_order, keep_many_items_once};
            run_children::{start_and_end_in_one_batch, start_and_end_by_saved_messages, are_not_runs, are_cancelled_in_slices};
            run_messages::{are_kept_in_order_until_decided, block_only_their_pair_when_parked, wait_for_their_addressee, belong_to_their_commit, leave_places_to_other_tenants};
            run_budgets::{are_kept_with_their_tasks, end_a_task_with_its_steps};
            run_forks::{takes_over_what_another_run_recorded, is_linked_to_its_forks};
            run_plans::{run_in_order_in_one_batch, run_in_order_by_saved_messages, skip_what_depends_on_a_failure, are_spawned_and_told_in_slices, are_cancelled_with_their_root, are_forgotten_whole, tell_in_which_queues_they_are};
            run_stages::{are_leased_with_the_report_before, stay_at_their_place, wait_in_their_queue_otherwise, give_way_to_what_is_more_urgent, keep_their_ceilings, are_leased_with_the_last_call};
            run_builds::{are_offered_to_their_build_only, return_to_their_build_after_a_loss, leave_their_queue_with_the_pin, wait_for_a_slot_of_their_key, leave_nothing_behind};
            run_life::{diverges_and_is_resumed, is_forgotten_whole, is_never_half_saved};
            scopes::{never_leak};
            backlogs::{names_every_polled_queue_that_holds_something, names_the_kinds_that_polls_name, names_no_queue_that_nobody_polls, follows_what_the_same_batch_grants};
            submits::{loads_what_was_saved, orders_answers_like_questions};
            sweeps::{finds_what_is_due_earliest_first, leaves_out_what_is_avoided, takes_over_after_a_loss, walks_running_tasks};
            times_to_live::{end_what_no_worker_took, leave_alone_what_a_worker_took};
            wakes::{names_the_earliest_instant, never_runs_backwards};
        }
    };
    (@each $fixture:expr; $($topic:ident::{$($check:ident),* $(,)?};)*) => {
        $(mod $topic {
            $(mod $check {
                use super::super::*;

                #[test]
                fn plain() {
                    let check = $crate::conformance::$topic::$check;
                    $crate::conformance::run($fixture, $crate::conformance::Between::Nothing, async |d| check(d).await);
                }

                #[test]
                fn reopened() {
                    let check = $crate::conformance::$topic::$check;
                    $crate::conformance::run($fixture, $crate::conformance::Between::Reopen, async |d| check(d).await);
                }
            })*
        })*
    };
}
