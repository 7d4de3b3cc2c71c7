//! Each limit at its boundary and one beyond.

use super::*;
use crate::Time;

fn submit() -> SubmitRun {
    SubmitRun { kind: "resize".to_owned(), queue: "images".to_owned(), ..SubmitRun::default() }
}

fn poll() -> LeaseRequest {
    LeaseRequest {
        worker_id: "w1".to_owned(),
        queues: vec!["images".to_owned()],
        max: 1,
        ..LeaseRequest::default()
    }
}

fn completed(outcome: Outcome) -> Completed {
    Completed {
        spend: None,
        attempt: 1,
        worker_id: "w1".to_owned(),
        outcome,
        completed_at: None,
        output: None,
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}

fn failure(category: ErrorCategory) -> ReportedError {
    ReportedError { category, message: "no".to_owned(), stack_trace: None, retryable: None }
}

/// JSON text of exactly this many bytes.
fn json_of(bytes: usize) -> Json {
    Json::from_value(&"x".repeat(bytes - 2)).unwrap()
}

fn field_of(request: &impl Check) -> String {
    request.check().expect_err("a value beyond its limit passed").field
}

fn submit_with(change: impl FnOnce(&mut SubmitRun)) -> SubmitRun {
    let mut run = submit();
    change(&mut run);
    run
}

#[test]
fn numbers_of_a_submit_hold_at_the_limit_and_not_beyond() {
    // lease and interval are refused outside their ranges, tiny values have no meaning.
    type Setter = fn(&mut SubmitRun, i64);
    let table: [(&str, Setter, i64, i64); 9] = [
        ("priority", |run, n| run.priority = Some(n as i32), -1000, 1000),
        ("maxAttempts", |run, n| run.max_attempts = Some(n as u32), 1, 100),
        ("lostMax", |run, n| run.lost_max = Some(n as u32), 1, 100),
        ("leaseMs", |run, n| run.lease_ms = Some(n as u64), 2_000, 86_400_000),
        (
            "heartbeatIntervalMs",
            |run, n| {
                run.lease_ms = Some(86_400_000);
                run.heartbeat_interval_ms = Some(n as u64);
            },
            500,
            600_000,
        ),
        ("cancelGraceMs", |run, n| run.cancel_grace_ms = Some(n as u64), 0, 3_600_000),
        ("seed", |run, n| run.seed = Some(n as u64), 0, (1 << 53) - 1),
        (
            "retry.baseMs",
            |run, n| run.retry = Some(Retry { base_ms: Some(n as u64), cap_ms: None }),
            0,
            86_400_000,
        ),
        (
            "retry.capMs",
            |run, n| run.retry = Some(Retry { base_ms: None, cap_ms: Some(n as u64) }),
            0,
            86_400_000,
        ),
    ];
    for (field, set, low, high) in table {
        for inside in [low, high] {
            assert_eq!(submit_with(|run| set(run, inside)).check(), Ok(()), "{field} {inside}");
        }
        let below = (low > 0 || field == "priority").then_some(low - 1);
        for outside in below.into_iter().chain([high + 1]) {
            assert_eq!(field_of(&submit_with(|run| set(run, outside))), field, "{outside}");
        }
    }
}

#[test]
fn a_lease_is_at_least_twice_the_interval() {
    // S4-38, R-3: the timeout is at least twice the interval, with the default lease too.
    let pair = |lease, interval| {
        submit_with(|run| {
            run.lease_ms = lease;
            run.heartbeat_interval_ms = Some(interval);
        })
    };
    assert_eq!(pair(Some(2_000), 1_000).check(), Ok(()));
    assert_eq!(field_of(&pair(Some(2_000), 1_001)), "heartbeatIntervalMs");
    assert_eq!(pair(None, 45_000).check(), Ok(()));
    assert_eq!(field_of(&pair(None, 45_001)), "heartbeatIntervalMs");
}

#[test]
fn default_intervals_are_a_third_of_the_lease_and_always_allowed() {
    // S4-36, S4-37, S4-39: 90 s and 30 s by default, three times the interval advised.
    assert_eq!(heartbeat_interval_ms_default(LEASE_MS_DEFAULT), 30_000);
    for lease_ms in [*LEASE_MS.start(), *LEASE_MS.end()] {
        assert!(HEARTBEAT_INTERVAL_MS.contains(&heartbeat_interval_ms_default(lease_ms)));
    }
}

#[test]
fn the_fault_names_the_member_the_value_and_the_range() {
    let fault = submit_with(|run| run.max_attempts = Some(0)).check().unwrap_err();
    assert_eq!(fault.to_string(), "`maxAttempts` must be from 1 to 100, but is 0");
    let fault = submit_with(|run| run.kind.clear()).check().unwrap_err();
    assert_eq!(fault.to_string(), "`kind` is missing");
    assert_eq!(fault.under("runs[3]").field, "runs[3].kind");
}

#[test]
fn labels_are_at_most_32_with_bounded_names_and_values() {
    let with = |n: usize| {
        submit_with(|run| run.labels = (0..n).map(|i| (format!("l{i}"), String::new())).collect())
    };
    assert_eq!(with(32).check(), Ok(()));
    assert_eq!(field_of(&with(33)), "labels");
    let one = |label: &str, value: String| {
        submit_with(|run| run.labels = BTreeMap::from([(label.to_owned(), value)]))
    };
    assert_eq!(one("team", "x".repeat(256)).check(), Ok(()));
    assert_eq!(field_of(&one("team", "x".repeat(257))), "labels.team");
    assert_eq!(field_of(&one("te am", String::new())), "labels");
}

#[test]
fn payloads_are_at_most_256_kib() {
    assert_eq!(submit_with(|run| run.input = json_of(PAYLOAD_BYTES_MAX)).check(), Ok(()));
    assert_eq!(field_of(&submit_with(|run| run.input = json_of(PAYLOAD_BYTES_MAX + 1))), "input");
    let mut report = completed(Outcome::Succeeded);
    report.output = Some(json_of(PAYLOAD_BYTES_MAX));
    assert_eq!(report.check(), Ok(()));
    report.output = Some(json_of(PAYLOAD_BYTES_MAX + 1));
    assert_eq!(field_of(&report), "output");
}

#[test]
fn texts_and_times_of_a_submit_are_checked() {
    let goal = |n: usize| submit_with(|run| run.goal = Some("g".repeat(n)));
    assert_eq!(goal(MESSAGE_BYTES_MAX).check(), Ok(()));
    assert_eq!(field_of(&goal(MESSAGE_BYTES_MAX + 1)), "goal");
    assert_eq!(field_of(&submit_with(|run| run.goal = Some("\0".to_owned()))), "goal");
    // An invalid trace is never a reason to refuse a request.
    assert_eq!(submit_with(|run| run.traceparent = Some("x".to_owned())).check(), Ok(()));
    let times = |run_at, deadline| {
        submit_with(|run| {
            run.run_at = Some(Time::from_ms(run_at));
            run.deadline = Some(Time::from_ms(deadline));
        })
    };
    assert_eq!(times(1, 2).check(), Ok(()));
    assert_eq!(field_of(&times(2, 2)), "deadline");
    let reversed = Retry { base_ms: Some(2), cap_ms: Some(1) };
    assert_eq!(field_of(&submit_with(|run| run.retry = Some(reversed))), "retry.capMs");
}

#[test]
fn a_start_and_a_deadline_are_an_instant_or_a_span_but_not_both() {
    let instant = Some(Time::from_ms(1));
    let spans = |delay, deadline| {
        submit_with(|run| (run.delay_ms, run.deadline_ms) = (Some(delay), Some(deadline)))
    };
    assert_eq!(spans(0, 1).check(), Ok(()));
    assert_eq!(field_of(&spans(5, 5)), "deadlineMs");
    assert_eq!(field_of(&spans(0, 0)), "deadlineMs");
    assert_eq!(field_of(&spans(DELAY_MS.end() + 1, 1)), "delayMs");
    assert_eq!(field_of(&spans(0, DEADLINE_MS.end() + 1)), "deadlineMs");
    let two = submit_with(|run| (run.run_at, run.delay_ms) = (instant, Some(1)));
    assert_eq!(field_of(&two), "delayMs");
    let two = submit_with(|run| (run.deadline, run.deadline_ms) = (instant, Some(1)));
    assert_eq!(field_of(&two), "deadlineMs");
    let mixed = submit_with(|run| (run.run_at, run.deadline_ms) = (instant, Some(1)));
    assert_eq!(mixed.check(), Ok(()));
}

#[test]
fn a_poll_is_bounded_in_every_direction() {
    let with = |change: fn(&mut LeaseRequest)| {
        let mut request = poll();
        change(&mut request);
        request
    };
    let queues = |n: usize| (0..n).map(|i| format!("q{i}")).collect::<Vec<_>>();
    assert_eq!(with(|poll| poll.max = 256).check(), Ok(()));
    assert_eq!(field_of(&with(|poll| poll.max = 257)), "max");
    assert_eq!(with(|poll| poll.max = 0).check(), Ok(()), "a worker without room hears signals");
    assert_eq!(with(|poll| poll.wait_ms = Some(30_000)).check(), Ok(()));
    assert_eq!(field_of(&with(|poll| poll.wait_ms = Some(30_001))), "waitMs");
    assert_eq!(LeaseRequest { queues: queues(32), ..poll() }.check(), Ok(()));
    assert_eq!(field_of(&LeaseRequest { queues: queues(33), ..poll() }), "queues");
    assert_eq!(field_of(&with(|poll| poll.queues.clear())), "queues");
    assert_eq!(field_of(&with(|poll| poll.queues = vec!["ok".into(), "n o".into()])), "queues[1]");
    assert_eq!(field_of(&with(|poll| poll.kinds = Some(vec![]))), "kinds");
    assert_eq!(field_of(&with(|poll| poll.worker_id = "w 1".into())), "workerId");
}

#[test]
fn attempts_start_at_one_and_progress_is_a_percentage() {
    // S4-65, S4-19: every callback carries an attempt; progress lies between 0 and 100.
    let beat = |attempt, progress_pct| Heartbeat {
        attempt,
        worker_id: "w1".to_owned(),
        progress_pct,
        ..Heartbeat::default()
    };
    assert_eq!(beat(1, Some(0.0)).check(), Ok(()));
    assert_eq!(beat(1, Some(100.0)).check(), Ok(()));
    assert_eq!(field_of(&beat(1, Some(100.1))), "progressPct");
    assert_eq!(field_of(&beat(1, Some(-0.1))), "progressPct");
    assert_eq!(field_of(&beat(1, Some(f64::NAN))), "progressPct");
    assert_eq!(field_of(&beat(0, None)), "attempt");
}

#[test]
fn a_report_says_what_its_outcome_needs_and_nothing_else() {
    // S4-28, S4-30, S4-58, R-7: output with success, error with failure, CANCELLED only with CANCELLED.
    assert_eq!(completed(Outcome::Succeeded).check(), Ok(()));
    assert_eq!(completed(Outcome::Cancelled).check(), Ok(()));
    assert_eq!(field_of(&completed(Outcome::Failed)), "error");
    let with_error = |outcome, category| {
        let mut report = completed(outcome);
        report.error = Some(failure(category));
        report
    };
    assert_eq!(with_error(Outcome::Failed, ErrorCategory::UserCode).check(), Ok(()));
    assert_eq!(with_error(Outcome::Cancelled, ErrorCategory::Cancelled).check(), Ok(()));
    let misplaced = with_error(Outcome::Failed, ErrorCategory::Cancelled);
    assert_eq!(field_of(&misplaced), "error.category");
    assert_eq!(field_of(&with_error(Outcome::Succeeded, ErrorCategory::UserCode)), "error");
    let mut report = with_error(Outcome::Failed, ErrorCategory::UserCode);
    report.output = Some(Json::null());
    assert_eq!(field_of(&report), "output");
    // A release hands back unfinished work: it has neither a result nor a failure.
    assert_eq!(completed(Outcome::Released).check(), Ok(()));
    assert_eq!(field_of(&with_error(Outcome::Released, ErrorCategory::UserCode)), "error");
    let released = Completed { output: Some(Json::null()), ..completed(Outcome::Released) };
    assert_eq!(field_of(&released), "output");
}

#[test]
fn the_free_text_of_a_report_is_repaired_and_never_refused() {
    // S4-30, S4-34: message, stack trace and phase of any length and content are accepted.
    let mut report = completed(Outcome::Failed);
    report.error = Some(ReportedError {
        message: "\0".repeat(MESSAGE_BYTES_MAX + 1),
        stack_trace: Some("s".repeat(STACK_TRACE_BYTES_MAX + 1)),
        ..failure(ErrorCategory::UserCode)
    });
    report.cancelled_during_phase = Some("p\0".to_owned());
    report.repair();
    assert_eq!(report.check(), Ok(()));
    let error = report.error.unwrap();
    assert!(error.message.len() <= MESSAGE_BYTES_MAX && error.message.starts_with('\u{fffd}'));
    assert_eq!(error.stack_trace.unwrap().len(), STACK_TRACE_BYTES_MAX);
    assert_eq!(report.cancelled_during_phase.unwrap(), "p\u{fffd}");
}

#[test]
fn queries_are_bounded_too() {
    let list = |change: fn(&mut ListRuns)| {
        let mut query = ListRuns::default();
        change(&mut query);
        query
    };
    assert_eq!(list(|query| query.limit = Some(1000)).check(), Ok(()));
    assert_eq!(field_of(&list(|query| query.limit = Some(1001))), "limit");
    assert_eq!(field_of(&list(|query| query.limit = Some(0))), "limit");
    assert_eq!(list(|query| query.label = vec!["team=a=b".into(), "env".into()]).check(), Ok(()));
    assert_eq!(field_of(&list(|query| query.label = vec!["a".into(), "=b".into()])), "label");
    assert_eq!(list(|query| query.label = vec!["a".into(); 32]).check(), Ok(()));
    assert_eq!(field_of(&list(|query| query.label = vec!["a".into(); 33])), "label");
    assert_eq!(field_of(&list(|query| query.worker = Some("a b".into()))), "worker");
    let cancelled = list(|query| query.category = Some(ErrorCategory::Cancelled));
    assert_eq!(field_of(&cancelled), "category");
    let workers = ListWorkers { after: Some("w 1".to_owned()), limit: None };
    assert_eq!(field_of(&workers), "after");
    assert_eq!(list(|query| query.cursor = Some("c".repeat(512))).check(), Ok(()));
    assert_eq!(field_of(&list(|query| query.cursor = Some("c".repeat(513)))), "cursor");
    assert_eq!(list(|query| query.include = Some("stackTrace,input".into())).check(), Ok(()));
    for odd in ["", "input,", "inputs", "input, output", "error"] {
        let query = ListRuns { include: Some(odd.to_owned()), ..ListRuns::default() };
        assert_eq!(field_of(&query), "include", "{odd:?}");
    }
    assert_eq!(field_of(&RecordQuery { limit: Some(1001), after: None }), "limit");
    assert_eq!(field_of(&WaitMs { wait_ms: Some(30_001) }), "waitMs");
    let history = HistoryQuery { wait_ms: Some(30_001), ..HistoryQuery::default() };
    assert_eq!(field_of(&history), "waitMs");
}
