//! Checkpoints: recorded once, read in pages.

use store::browse::{Browse, RowsAfter};
use store::runs::{RecordsOf, RunRecord};
use verdict::run::{Recorded, RunRequest, Step, StepOutcome, Then};
use verdict::{Answer, Event, Json, Refusal, Request, RunAnswer, RunEvent, RunRefusal, Subject};

use super::family::{Delivery, Family, call, finish, running, savepoint, step};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

pub async fn record_a_step_once<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let first = call(&worker, vec![step("a", "1"), step("b", "2")], Then::Continue);
    let answer = family.ask(driver, &run, RunRequest::Checkpoint(first.clone())).await;
    assert!(is_new(&answer), "{answer:?}");
    // E3: the same call again records nothing, and what it names is loaded.
    let again = family.ask(driver, &run, RunRequest::Checkpoint(first)).await;
    assert!(is_repeated(&again), "{again:?}");
    let other = call(&worker, vec![step("b", "3"), step("c", "4")], Then::Continue);
    let refused = family.ask(driver, &run, RunRequest::Checkpoint(other)).await;
    let conflict = RunRefusal::ConflictingStep { key: "b".into() };
    assert_eq!(refused, Answer::Refused(Refusal::Run(conflict)));
    let rows = driver.browse().rows(&run, RowsAfter::Refusal(None), 9).await;
    let calls: Vec<_> = rows.expect("browsing works").refused;
    assert_eq!(calls.iter().map(|it| it.call.as_str()).collect::<Vec<_>>(), ["checkpoint"]);
    family.ask(driver, &run, finish(&worker)).await;
    let Subject::Done(done) = driver.load(&run).await else { panic!("it has ended") };
    let state = done.run.expect("a durable run keeps what it counted");
    assert_eq!((state.checkpoints, state.steps, state.spend.tokens), (2, 2, 14));
    family.check(driver).await;
}

fn is_new(answer: &Answer) -> bool {
    matches!(answer, Answer::Run(it) if matches!(&**it, RunAnswer::Checkpointed(it) if !it.replayed))
}

fn is_repeated(answer: &Answer) -> bool {
    matches!(answer, Answer::Run(it) if matches!(&**it, RunAnswer::Checkpointed(it) if it.replayed))
}

pub async fn keep_long_results_out_of_the_history<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let long = format!("\"{}\"", "x".repeat(500));
    let steps = vec![step("short", "1"), step("long", &long)];
    let asked = call(&worker, steps, Then::Continue);
    family.ask(driver, &run, RunRequest::Checkpoint(asked.clone())).await;
    // Readers of the history see the result, wherever it is stored.
    let rows = driver.browse().rows(&run, RowsAfter::Entry(2), 9).await.expect("browsing works");
    let [entry] = &rows.history[..] else { panic!("one decision: {:?}", rows.history) };
    assert_eq!(entry.request, Request::Run(Box::new(RunRequest::Checkpoint(asked))));
    assert_eq!(results(&entry.events), ["1", &long]);
    family.check(driver).await;
}

fn results(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(result).collect()
}

fn result(event: &Event) -> Option<&str> {
    let Event::Run(event) = event else { return None };
    let RunEvent::Checkpointed(checkpoint) = &**event else { return None };
    match &checkpoint.recorded {
        Recorded::Step(Step { outcome: StepOutcome::Succeeded { result }, .. }) => {
            result.as_ref().map(Json::as_str)
        }
        _ => None,
    }
}

pub async fn are_read_from_the_savepoint<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let steps = vec![step("a", "1"), savepoint("b", "2"), step("c", "3"), step("d", "4")];
    let asked = call(&worker, steps, Then::Continue);
    family.ask(driver, &run, RunRequest::Checkpoint(asked)).await;
    let Subject::Live(task) = driver.load(&run).await else { panic!("it runs") };
    let since = task.run.expect("it has recorded").savepoint;
    assert_eq!(since, 2);
    let browse = driver.browse();
    let page = browse.records(&run, RecordsOf::After(since), 1).await.expect("browsing works");
    assert_eq!(keys(&page), ["c"]);
    let after = page[0].number();
    let page = browse.records(&run, RecordsOf::After(after), 9).await.expect("browsing works");
    assert_eq!(keys(&page), ["d"]);
    let named = ["d".into(), "a".into(), "z".into()];
    let page = browse.records(&run, RecordsOf::Keys(&named), 9).await.expect("browsing works");
    assert_eq!(keys(&page), ["a", "d"]);
    family.check(driver).await;
}

fn keys(page: &[RunRecord]) -> Vec<&str> {
    page.iter().map(key).collect()
}

fn key(record: &RunRecord) -> &str {
    match record {
        RunRecord::Checkpoint { checkpoint, .. } => checkpoint.key.as_str(),
        RunRecord::Started(started) => started.child.key.as_str(),
    }
}
