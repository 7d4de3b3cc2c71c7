//! The museum's table: bugs that other systems shipped, how each is played here, and the test that catches
//! it. Bugs specific to two committers of one coordinator, one of durable runs and two of budgets follow at the end.
//!
//! To add one, add a row here, a number in `crates/faultpoint/src/tables.rs`, and one line `faultpoint::mutant(NN)`
//! where the bug would be. A bug of the rules is a function in `crates/verdict/src/planted.rs` instead, so that the
//! rules contain none.

/// A bug that another system shipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exhibit {
    pub(crate) number: u8,
    pub(crate) bug: &'static str,
    pub(crate) whose: &'static str,
    /// How it is played here.
    pub(crate) how: &'static str,
    pub(crate) catcher: Catcher,
}

/// A test that catches a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Catcher {
    pub(crate) layer: &'static str,
    pub(crate) package: &'static str,
    pub(crate) folder: &'static str,
    pub(crate) target: &'static str,
    /// Its full name; with `::` at the end, all tests with this prefix.
    pub(crate) test: &'static str,
}

const fn rules(test: &'static str) -> Catcher {
    Catcher {
        layer: "rules",
        package: "tenure-verdict",
        folder: "crates/verdict",
        target: "it",
        test,
    }
}

const fn store(layer: &'static str, test: &'static str) -> Catcher {
    Catcher { layer, package: "tenure-store", folder: "crates/store", target: "it", test }
}

const fn carrier(test: &'static str) -> Catcher {
    Catcher {
        layer: "carrier",
        package: "tenure-coordinator",
        folder: "crates/coordinator",
        target: "it",
        test,
    }
}

const fn guard(test: &'static str) -> Catcher {
    Catcher {
        layer: "guard",
        package: "tenure-delivery",
        folder: "crates/delivery",
        target: "it",
        test,
    }
}

const fn client(test: &'static str) -> Catcher {
    Catcher { layer: "client", package: "tenure-sdk", folder: "sdks/rust", target: "it", test }
}

/// A few simulated worlds in which one of two committers fails.
const fn worlds(test: &'static str) -> Catcher {
    Catcher { layer: "worlds", package: "tenure-sim", folder: "crates/sim", target: "it", test }
}

const OURS: &str = "two committers";

const fn played(
    number: u8,
    bug: &'static str,
    whose: &'static str,
    how: &'static str,
    catcher: Catcher,
) -> Exhibit {
    Exhibit { number, bug, whose, how, catcher }
}

#[rustfmt::skip]
pub(crate) const EXHIBITS: &[Exhibit] = &[
    played(1, "a finished job is overwritten by the rescuer", "River, Solid Queue, n8n", "a save does not look at the revision it was decided on", store("conform", "conformance::sqlite::conflicts::refuses_a_stale_revision::")),
    played(2, "rescue by age runs live jobs twice", "Oban, Hex", "a lease ends when it is old, renewed or not", rules("heartbeat::work_longer_than_a_lease_goes_on_by_renewing_it")),
    played(3, "the job starves its own lock's renewal", "BullMQ, Bull", "the client sends no heartbeat while code runs", client("heartbeats::code_that_blocks_its_runtime_cannot_stop_heartbeats")),
    played(4, "running for ever", "River, Graphile Worker, Oban", "a running task is never due for a sweep", store("conform", "conformance::sqlite::sweeps::")),
    played(5, "a reused worker name hides orphans", "Oban", "the owner's name is enough, whatever its lease", rules("matrix::every_request_in_every_condition_has_its_listed_answer")),
    played(6, "heartbeats stop while draining", "Solid Queue, Procrastinate, Hatchet", "a draining server takes no call under a lease", carrier("carry::draining_refuses_new_work_and_still_takes_reports")),
    played(7, "a heartbeat is refused although its worker lives", "Hatchet", "time in which the store refused is not given back", carrier("faults::time_in_which_a_worker_was_refused_is_given_back_though_pulses_fitted")),
    played(8, "a worker that is alive and deaf", "Hatchet, Restate", "the limit of an attempt bounds nothing", rules("heartbeat::nothing_renews_beyond_the_attempts_limit_or_the_deadline")),
    played(9, "a poison pill goes round for ever", "Sidekiq, Faktory", "a lost worker is not counted", rules("sweep::a_task_that_kills_its_workers_ends")),
    played(10, "redelivery by visibility timeout", "Celery, Kombu", "what is not due is granted", rules("grant::nothing_is_granted_before_it_is_due")),
    played(11, "recovery adopts what is not its own", "DBOS", "a lease that had run out is given time back", rules("extend::a_lease_that_had_run_out_before_stays_lost")),
    played(12, "one exhausted job blocks its queue", "Graphile Worker, DBOS", "what is not ready yet stands in front of what is", store("conform", "conformance::sqlite::grants::gives_nothing_before_its_time::")),
    played(13, "the rescue's pages starve", "River, Graphile Worker", "what did not fit into one sweep is forgotten", carrier("carry::more_ends_than_one_batch_sweeps_are_all_swept_at_once")),
    played(14, "a tenant's flood starves the others", "Gradient, Postel, Sourcegraph", "a tenant that had its turn is next again", carrier("idle_polls::a_tenants_flood_does_not_come_before_anothers_one_task")),
    played(15, "the herd after an outage", "PostHog, Stacks, Tempo", "retries have no jitter", rules("backoff::tasks_that_failed_together_do_not_come_back_together")),
    played(16, "a failure report that cannot be stored", "pg-boss, awa, Fractal", "NUL stays in a report's text", carrier("http::hostile_input::a_failure_report_never_fails_on_its_text")),
    played(17, "a claim takes more than its limit", "odd-jobs", "a poll gets one task too many", store("conform", "conformance::sqlite::grants::")),
    played(18, "bloat under a pinned horizon", "PgQue, Que, awa", "a queue is walked from its head for every grant", store("database", "postgres::manners::tasks_are_taken_by_their_key_and_not_by_walking_the_queue")),
    played(19, "NOTIFY locks the database at commit", "Recall.ai", "a batch notifies in its own transaction", store("database", "postgres::manners::a_batch_itself_notifies_nobody")),
    played(20, "a cancelled future returns a poisoned connection", "sqlx, Windmill", "what was dropped half-way is not rolled back", store("database", "postgres::manners::a_batch_that_is_dropped_half_way_leaves_no_transaction_open")),
    played(21, "the outbox skips what commits late", "Kamu, Eventuous", "what this process has not seen committed is not looked for", carrier("http::webhooks::crashes::f05_killed_between_call_and_record_the_effect_is_sent_again_unchanged_and_in_order")),
    played(22, "a batch's lease is shorter than its delivery", "Endatix", "a claim has run out before its call can begin", carrier("http::webhooks::the_end_of_a_run_arrives_signed_and_once")),
    played(23, "one endpoint blocks all behind it", "Sentry", "nothing is sent while one endpoint has no room", carrier("http::webhooks::a_dead_endpoint_delays_no_other")),
    played(24, "lost on failover", "Sidekiq, RQ, Temporal", "a commit waits neither for the disk nor for a standby", store("database", "postgres::standby::a_commit_that_is_made_to_stop_waiting_for_its_standby_is_not_acknowledged")),
    played(25, "a task is lost between two writes", "Temporal", "a batch commits what went in before what is to be done", store("power cut", "sqlite::power::every_acknowledged_commit_survives_a_power_cut")),
    played(26, "history grows until it cannot be replayed", "Temporal", "every heartbeat is kept for ever", rules("heartbeat::a_heartbeat_grants_nothing_and_leaves_no_history")),
    played(27, "replay breaks on a harmless change", "Temporal SDK", "the jitter is drawn from one stream", rules("backoff::equal_seeds_give_equal_schedules")),
    played(28, "the scheduler dies silently", "River, Solid Queue", "a carrier that lost its store says that all is well", carrier("faults::a_commit_of_unknown_outcome_is_never_guessed")),
    played(29, "a step of the wall clock inflates a wait", "Quartz.NET", "the store's time is the wall's", store("clock", "memory::setting_the_wall_clock_moves_no_time")),
    played(30, "two leaders", "Kubernetes", "a second process opens the store", store("store", "sqlite::opening::a_second_opener_is_refused_with_the_owners_process")),
    played(31, "another tenant's row by its id", "Julep, Optio, n8n", "a task is loaded whoever's it is", store("conform", "conformance::sqlite::scopes::")),
    played(32, "the guard of outgoing calls is passed", "OneUptime, librefang", "only the name of a target is looked at, not its addresses", guard("hostile_dns::one_answer_that_is_not_public_refuses_all")),
    played(33, "slow heads hold connections", "axum, vouch", "a head may take as long as it likes", carrier("http::hostile_transport::a_slow_head_is_cut_and_others_are_not_kept_waiting")),
    played(34, "a token's end is not looked at", "jsonwebtoken, jwt-simple", "an expired token is a token", carrier("http::tokens::an_expired_token_says_so")),
    played(35, "a completion is lost in memory", "awa", "commits are not synced before they are acknowledged", store("power cut", "sqlite::power::every_acknowledged_commit_survives_a_power_cut")),
    played(36, "the request says what time it is", "Resonate", "a start is judged by the time its worker claims", rules("started::what_a_worker_says_of_the_time_revives_no_lease")),
    played(37, "new work is taken during a stall of the other committer", OURS, "the committer for new work does not ask whether the other stalled", worlds("two_committers::new_work_waits_while_no_worker_is_heard")),
    played(38, "a cancel eats the time an outage took", OURS, "what new work touches gets no time back", carrier("slowness::however_slow_every_batch_is_a_cancel_takes_no_time_from_a_lease")),
    played(39, "the wrong one's rounds count as hearing", OURS, "rounds of the committer for new work count", worlds("two_committers::only_rounds_that_hear_workers_count_as_hearing")),
    played(40, "leases are extended without a stall", OURS, "a refusal of new work counts as a refused call of a worker", worlds("two_committers::a_refusal_of_new_work_extends_no_lease")),
    played(41, "leases of the dead never end", OURS, "each committer leaves the sweeping to the other", worlds("two_committers::leases_of_dead_workers_end")),
    played(42, "half a coordinator lives on", OURS, "one that fails waits for the other to end", worlds("two_committers::a_process_ends_as_a_whole")),
    played(43, "a stop that never ends", OURS, "the committer that hears is told to end first", worlds("two_committers::a_stop_ends")),
    played(44, "what a cancel ended is kept for ever", OURS, "ends of new work are not passed to the carrier that prunes", worlds("two_committers::what_a_cancel_ended_is_forgotten")),
    played(45, "heartbeats wait behind submissions", OURS, "calls under a lease go the way of new work", worlds("two_committers::heartbeats_do_not_wait_behind_submissions")),
    played(46, "a paused worker comes back and its step is recorded", "durable runs", "a step counts under any attempt while one is under way", worlds("durable::a_paused_worker_that_comes_back_records_nothing")),
    played(47, "what a child did not use comes back twice", "budgets", "the end of a child is charged and refunded twice", worlds("escrow::the_end_of_a_child_is_charged_once")),
    played(48, "a run goes on beyond its budget", "budgets", "a halt is followed by another attempt", worlds("escrow::a_run_that_halted_starts_nothing_more")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_bug_once() {
        let numbers: Vec<u8> = EXHIBITS.iter().map(|exhibit| exhibit.number).collect();
        assert_eq!(numbers, (1..=48).collect::<Vec<u8>>());
    }

    #[test]
    fn what_is_built_in_is_what_the_table_plays() {
        let played: Vec<u8> = EXHIBITS.iter().map(|exhibit| exhibit.number).collect();
        assert_eq!(played, faultpoint::MUTANTS);
    }
}
