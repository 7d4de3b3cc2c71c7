//! Every limit of the wire, each with its reason. `check` enforces them.

use std::ops::RangeInclusive;

/// The largest integer that every JSON parser keeps exactly: beyond it JavaScript and others round.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The clocks of a budget: up to ten years, as deadlines.
pub const BUDGET_MS: std::ops::RangeInclusive<u64> = 1..=315_576_000_000;

/// Long enough for a path of several names, short enough for a table column and an index.
pub const NAME_BYTES_MAX: usize = 128;
/// Labels are for filtering, not for storage.
pub const LABEL_VALUE_CHARS_MAX: usize = 256;
pub const LABELS_MAX: usize = 32;
/// The usual limit of other services.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// A larger payload belongs in separate storage, with a reference here: rows and batches stay
/// small.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// A screen or two of text for people.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// A line of a log: a stack trace of usual length still fits in one.
pub const LOG_TEXT_BYTES_MAX: usize = 4 * 1024;
/// The number of a line in its attempt: more lines than any attempt writes.
pub const LOG_NUMBER: RangeInclusive<u64> = 1..=u32::MAX as u64;
/// What one page of a log carries, so that an answer stays quick to read.
pub const LOG_PAGE_BYTES_MAX: usize = 256 * 1024;
/// A deep stack of a verbose language.
pub const STACK_TRACE_BYTES_MAX: usize = 32 * 1024;

/// Levels of objects and arrays in `input`, `output` and `partialProgress`: few programs nest deeper, and every
/// reader can recurse over it.
pub const PAYLOAD_DEPTH_MAX: usize = 32;
/// The same for a whole body, which is one object around its payload: recursion over it stays bounded.
pub const DEPTH_MAX: usize = PAYLOAD_DEPTH_MAX + 1;
/// One batch is one transaction: with more items every other caller would wait for its commit.
pub const BATCH_ITEMS_MAX: usize = 1000;

/// From the shortest lease that a busy worker can renew, up to a day.
pub const LEASE_MS: RangeInclusive<u64> = 2_000..=86_400_000;
pub const LEASE_MS_DEFAULT: u64 = 90_000;
/// From what a lease of two seconds needs, up to ten minutes; with a longer one a lost worker goes
/// unnoticed.
pub const HEARTBEAT_INTERVAL_MS: RangeInclusive<u64> = 500..=600_000;
/// One heartbeat may be lost without losing the lease.
pub const LEASE_PER_INTERVAL_MIN: u64 = 2;
pub const CANCEL_GRACE_MS: RangeInclusive<u64> = 0..=3_600_000;
/// Shorter silences of a coordinator cannot be told from those of a worker, and after a month nobody waits.
pub const STALL_AFTER_MS: RangeInclusive<u64> = 2_000..=2_592_000_000;
/// A worker that makes progress says so with one of two heartbeats, although one may be lost.
pub const STALL_PER_INTERVAL_MIN: u64 = 2;
pub const CANCEL_GRACE_MS_DEFAULT: u64 = 30_000;
/// A task that failed a hundred times needs a person.
pub const ATTEMPTS: RangeInclusive<u64> = 1..=100;
pub const MAX_ATTEMPTS_DEFAULT: u32 = 3;
pub const LOST_MAX_DEFAULT: u32 = 3;
/// Enough levels for every scheme in use, small enough for people to read.
pub const PRIORITY: RangeInclusive<i64> = -1000..=1000;
/// A retry that waits longer than a day is a schedule.
pub const RETRY_BASE_MS: RangeInclusive<u64> = 0..=86_400_000;
pub const RETRY_CAP_MS: RangeInclusive<u64> = 0..=86_400_000;
pub const RETRY_BASE_MS_DEFAULT: u64 = 5_000;
pub const RETRY_CAP_MS_DEFAULT: u64 = 300_000;

/// How many runs with one flow key may be leased at once. Each is kept in memory, and more are no limit.
pub const FLOW_LIMIT: RangeInclusive<u32> = 1..=10_000;
/// How many starts a flow key may have in its window. Each is remembered that long.
pub const FLOW_RATE_COUNT: RangeInclusive<u32> = 1..=1_000;
/// Thirty days: what happens less often is a schedule.
pub const FLOW_RATE_PER_MS: RangeInclusive<u64> = 1..=2_592_000_000;
/// A week: what follows later is another piece of work.
pub const FLOW_DEBOUNCE_MS: RangeInclusive<u64> = 1..=604_800_000;
/// Thirty days: nobody waits longer for the end of a stream.
pub const FLOW_DEBOUNCE_MAX_MS: RangeInclusive<u64> = 1..=2_592_000_000;

/// Ten years: a longer delay is a typing mistake, and instants stay far from the last one that can be written.
pub const DELAY_MS: RangeInclusive<u64> = 0..=315_576_000_000;
/// The interval of a schedule: more often than once a second is a loop, and beyond ten years a mistyped number.
pub const SCHEDULE_EVERY_MS: RangeInclusive<u64> = 1_000..=316_224_000_000;
/// How many candidates one failure signature may have: beyond ten it is no recovery any more.
pub const RECOVERY_ATTEMPTS: RangeInclusive<u64> = 1..=10;
/// How many runs a candidate may submit: the work of minutes.
pub const RECOVERY_RUNS: RangeInclusive<u64> = 1..=10_000;
/// How long a candidate may be acted on: people need days, and after a month nobody expects it.
pub const RECOVERY_EXPIRES_MS: RangeInclusive<u64> = 10_000..=2_592_000_000;
/// How long people may take about what was escalated: from a second to as long as the longest candidate.
pub const ESCALATION_EXPIRES_MS: RangeInclusive<u64> = 1_000..=2_592_000_000;
/// How late an instant of a schedule may fire: at least what a restart takes, at most a year.
pub const SCHEDULE_WINDOW_MS: RangeInclusive<u64> = 10_000..=31_622_400_000;
/// How many instants of a schedule are previewed at once: a screen or two.
pub const SCHEDULE_PREVIEW: RangeInclusive<u64> = 1..=100;
pub const SCHEDULE_PREVIEW_DEFAULT: u32 = 10;
/// As a deadline, counted from when the run may start.
pub const TTL_MS: RangeInclusive<u64> = 1..=315_576_000_000;
/// A deadline at the time of the submission could never be met.
pub const DEADLINE_MS: RangeInclusive<u64> = 1..=315_576_000_000;

/// One call is one decision of a batch that others wait for. With results of the largest size one call is larger than
/// a body may be, so this counts small steps.
pub const STEPS_PER_CALL_MAX: usize = 100;
/// Each child is a task that the same commit creates.
pub const CHILDREN_PER_CALL_MAX: usize = 500;
/// As many as one task may have live children, so that one wait can name all of them.
pub const WAIT_ITEMS_MAX: usize = 10_000;
/// From one millisecond up to ten years: a longer wait is a typing mistake.
pub const WAIT_MAX_MS: RangeInclusive<u64> = 1..=315_576_000_000;
/// What an envelope or an answer carries of recorded results. More would make every grant of a long run slow; the rest is
/// read in pages.
pub const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// Tasks in one tree of descendants: a page that is still quick to read.
pub const TREE_MAX: RangeInclusive<u64> = 0..=1000;

/// Proxies close idle connections after a minute at the latest; half of that is safe.
pub const WAIT_MS: RangeInclusive<u64> = 0..=30_000;
/// Runs in one wait. Each may cost a read of the store when the wait begins; a caller with more runs makes several calls.
pub const RUNS_PER_WAIT_MAX: usize = 256;
/// What the ended runs in one answer to a wait may take: sixteen outputs of the largest size.
pub const WAIT_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// As many as one worker process can keep alive with heartbeats; 0 waits for signals alone.
pub const LEASES_PER_POLL: RangeInclusive<u64> = 0..=256;
/// The inputs of the leases in one answer: sixteen of the largest size. The first one always fits; tasks that do not stay queued,
/// and are there for the next poll.
pub const LEASED_INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const QUEUES_PER_POLL_MAX: usize = 32;
pub const KINDS_PER_POLL_MAX: usize = 256;
/// A schema that a worker announces: some hundred members. A larger one belongs into the documentation.
pub const SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// All schemas of one announcement. It is kept in memory for as long as the worker polls.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 128 * 1024;

pub const PROGRESS_PCT: RangeInclusive<f64> = 0.0..=100.0;

/// A page that is still quick to read and to send.
pub const PAGE_ITEMS: RangeInclusive<u64> = 1..=1000;
pub const PAGE_ITEMS_DEFAULT: u32 = 100;
/// We issue the cursors; a longer text is not one.
pub const CURSOR_BYTES_MAX: usize = 512;

/// Enough for any assignment of queues to workers; use separate keys for more.
pub const QUEUES_PER_KEY_MAX: usize = 256;
/// How long the old secret of a rotated key may stay valid: a month to reach every machine.
pub const KEY_OVERLAP_MS: RangeInclusive<u64> = 0..=30 * 86_400_000;
/// A day to distribute the new one.
pub const KEY_OVERLAP_MS_DEFAULT: u64 = 86_400_000;

/// A rate beyond what one coordinator can answer is no limit.
pub const REQUESTS_PER_SECOND: RangeInclusive<u64> = 1..=1_000_000;

/// The interval of a run with a progress clock and none of its own: a third of the clock, if that is shorter.
pub const fn heartbeat_interval_ms_for_stall(interval_ms: u64, after_ms: u64) -> u64 {
    let third = after_ms / 3;
    if third < interval_ms { third } else { interval_ms }
}

/// A third of the lease, as the worker contract advises, unless a long lease would make that too slow.
pub const fn heartbeat_interval_ms_default(lease_ms: u64) -> u64 {
    let third = lease_ms / 3;
    if third < *HEARTBEAT_INTERVAL_MS.end() { third } else { *HEARTBEAT_INTERVAL_MS.end() }
}
