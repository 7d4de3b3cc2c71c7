//! Reports, their stored answers, and refused reports.

use store::browse::{Browse, RowsAfter};
use verdict::request::{Caller, Outcome, Report};
use verdict::{
    Answer, AttemptOutcome, Category, Digest, Event, Fault, Reason, Refusal, Request, Scope, State,
    Subject, WorkerVerdict,
};

use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;

/// A report with the digest a coordinator would give it.
pub fn report(caller: &Caller, outcome: Outcome) -> Request {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    Request::Report(Report { caller: caller.clone(), outcome, digest, claims: None, by: None })
}

pub fn succeeded() -> Outcome {
    Outcome::Succeeded { output: Some("{\"rows\":3}".into()) }
}

pub fn failed() -> Outcome {
    Outcome::Failed(Fault {
        category: Category::Infrastructure,
        message: "disk full".into(),
        stack_trace: None,
        retryable: None,
    })
}

pub async fn records_a_report_once<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let leased = driver.lease(&scope, "images", 1).await;
    let caller = caller(&leased[0]);
    let first = driver.about(&key, report(&caller, succeeded())).await;
    let committed = |replayed| Answer::Committed {
        outcome: AttemptOutcome::Succeeded,
        state: State::Succeeded,
        replayed,
    };
    assert_eq!(first, committed(false));
    let recorded = driver.load(&key).await;
    // S2-44, S3-62, R-5: found and answered again, from the store alone.
    assert_eq!(driver.about(&key, report(&caller, succeeded())).await, committed(true));
    assert_eq!(driver.load(&key).await, recorded);
    // S3-36: another report for the same lease changes nothing.
    let other = driver.about(&key, report(&caller, failed())).await;
    assert_eq!(other, Answer::Refused(Refusal::ConflictingReport { state: State::Succeeded }));
    assert_eq!(driver.load(&key).await, recorded);
}

pub async fn keeps_a_second_attempt_apart<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let first = caller(&driver.lease(&scope, "images", 1).await[0]);
    driver.about(&key, report(&first, failed())).await;
    // S2-35: the task is not leased before the backoff is over.
    assert!(driver.lease(&scope, "images", 1).await.is_empty());
    driver.wait(verdict::Span::from_secs(10));
    let second = caller(&driver.lease(&scope, "images", 1).await[0]);
    assert_eq!(second.attempt, 2);
    driver.about(&key, report(&second, succeeded())).await;
    let attempts = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(0), 99)
        .await
        .expect("browsing works")
        .attempts;
    let outcomes: Vec<_> = attempts.iter().map(|row| (row.attempt, row.outcome)).collect();
    assert_eq!(outcomes, [(1, AttemptOutcome::Failed), (2, AttemptOutcome::Succeeded)]);
    // the first attempt's answer is still stored, with the task's current state.
    let again = driver.about(&key, report(&first, failed())).await;
    let outcome = AttemptOutcome::Failed;
    assert_eq!(again, Answer::Committed { outcome, state: State::Succeeded, replayed: true });
}

/// A released attempt is read back as one, from the attempts as from the history, and is none of the counted ones.
pub async fn keeps_a_release_apart_from_failures<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let first = caller(&driver.lease(&scope, "images", 1).await[0]);
    let outcome = AttemptOutcome::Released;
    let released = driver.about(&key, report(&first, Outcome::Released)).await;
    assert_eq!(released, Answer::Committed { outcome, state: State::Retry, replayed: false });
    let attempts = driver.browse().rows(&key, RowsAfter::Attempt(0), 99).await;
    let attempts = attempts.expect("browsing works").attempts;
    assert_eq!(attempts[0].outcome, outcome);
    assert_eq!(attempts[0].reason, Some(Reason::Released));
    let history = driver.browse().rows(&key, RowsAfter::Entry(2), 9).await;
    let history = history.expect("browsing works").history;
    let Event::AttemptClosed { closed, .. } = &history[0].events[0] else { panic!("{history:?}") };
    assert_eq!(**closed, attempts[0]);
    let Subject::Live(task) = driver.load(&key).await else { panic!("the task lives") };
    assert_eq!((task.failures, task.lost, task.undelivered), (0, 0, 0));
    // the stored answer is found again, by what is stored of the attempt.
    let again = driver.about(&key, report(&first, Outcome::Released)).await;
    assert_eq!(again, Answer::Committed { outcome, state: State::Retry, replayed: true });
    driver.wait(verdict::Span::from_secs(1));
    let second = caller(&driver.lease(&scope, "images", 1).await[0]);
    assert_eq!(second.attempt, 2);
}

pub async fn remembers_refused_reports<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let late = caller(&driver.lease(&scope, "images", 1).await[0]);
    driver.wait(verdict::Span::from_secs(90));
    driver.sweep().await;
    let before = driver.load(&key).await;
    let answer = driver.about(&key, report(&late, succeeded())).await;
    assert!(matches!(answer, Answer::Refused(Refusal::TaskExpired { .. })));
    // R-9, S4-33: stored beside the state machine, and nothing else changed.
    let refused = driver
        .browse()
        .rows(&key, RowsAfter::Refusal(None), 99)
        .await
        .expect("browsing works")
        .refused;
    assert_eq!(refused.len(), 1);
    let row = &refused[0];
    assert_eq!((row.call.as_str(), row.code.as_str()), ("report", "task_expired"));
    assert_eq!(row.worker_verdict, WorkerVerdict::Cancelled);
    assert_eq!((row.lease, row.attempt, &row.worker), (late.lease, 1, &late.worker));
    assert!(row.digest.is_some());
    assert_eq!(row.at, driver.now());
    assert_eq!(driver.load(&key).await, before);
    // A worker that repeats a call does not fill the table: only the first refusal of a kind is stored.
    driver.wait(verdict::Span::from_secs(1));
    driver.about(&key, report(&late, failed())).await;
    assert_eq!(
        driver
            .browse()
            .rows(&key, RowsAfter::Refusal(None), 99)
            .await
            .expect("browsing works")
            .refused,
        refused
    );
}

/// Texts of any length and any characters are read back unchanged, from every table that holds them.
pub async fn carries_payloads_unchanged<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let long = "wörd \u{1F600} \" \\ ".repeat(20_000);
    let fault = Fault {
        category: Category::Configuration,
        message: long.as_str().into(),
        stack_trace: Some(format!("{long}trace").into()),
        retryable: Some(false),
    };
    let key = driver.add(&scope, "images").await;
    let caller = caller(&driver.lease(&scope, "images", 1).await[0]);
    let claims = Some(format!("{{\"metrics\":\"{}\"}}", "9".repeat(5_000)).into());
    let digest = Digest::of(&[b"failed"]);
    let outcome = Outcome::Failed(fault.clone());
    let request = Report { caller, outcome, digest, claims: claims.clone(), by: None };
    driver.about(&key, Request::Report(request.clone())).await;
    let Subject::Done(done) = driver.load(&key).await else { panic!("the task has ended") };
    // S2-33: a failed run records its error.
    assert_eq!(done.end.fault, Some(fault.clone()));
    let attempts = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(0), 99)
        .await
        .expect("browsing works")
        .attempts;
    assert_eq!((&attempts[0].fault, &attempts[0].claims), (&Some(fault), &claims));
    let history =
        driver.browse().rows(&key, RowsAfter::Entry(2), 9).await.expect("browsing works").history;
    assert_eq!(history[0].request, Request::Report(request));

    let key = driver.add(&scope, "images").await;
    let leased = driver.lease(&scope, "images", 1).await;
    let output = Some(format!("{{\"text\":\"{}\"}}", "x".repeat(100_000)).into());
    let success = Outcome::Succeeded { output: output.clone() };
    driver.about(&key_of(&leased[0]), report(&super::driver::caller(&leased[0]), success)).await;
    let Subject::Done(done) = driver.load(&key).await else { panic!("the task has ended") };
    assert_eq!(done.end.output, output);
}
