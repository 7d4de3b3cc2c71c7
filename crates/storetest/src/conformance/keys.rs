//! Idempotency keys.

use verdict::{Answer, Digest, Refusal, Scope, Span, State};

use super::carry::Call;
use super::driver::{Driver, answer, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

pub async fn finds_the_task_that_has_a_key<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let first = driver.submission(&scope, "images").with_key("order 12");
    let created_at = driver.now();
    driver.submit(first.clone()).await;
    driver.wait(Span::from_secs(1));
    let again = driver.submission(&scope, "images").with_key("order 12");
    // S2-115, R-32: no second task; the first one is the answer.
    let task = first.submit.id;
    let recalled = Answer::Accepted { task, state: State::Queued, created_at, replayed: true };
    assert_eq!(driver.submit(again.clone()).await, recalled);
    let mut other = driver.submission(&scope, "images").with_key("order 12");
    other.submit.fingerprint = Digest::of(&[b"another"]);
    let reused = Answer::Refused(Refusal::KeyReused { holder: task });
    assert_eq!(driver.submit(other).await, reused);
    // Keys are exact: case and whitespace count.
    let near = driver.submission(&scope, "images").with_key("Order 12");
    assert!(matches!(driver.submit(near).await, Answer::Accepted { replayed: false, .. }));
    // Both in one batch: the second finds the task of the first.
    let one = driver.submission(&scope, "images").with_key("twin");
    let two = driver.submission(&scope, "images").with_key("twin");
    let id = one.submit.id;
    let mut said = driver.ask_all(vec![Call::Submit(one), Call::Submit(two)]).await;
    let twin = said.pop().map(answer);
    assert!(matches!(twin, Some(Answer::Accepted { task, replayed: true, .. }) if task == id));
}

pub async fn remembers_a_key_for_a_day_after_the_end<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let first = driver.submission(&scope, "images").with_key("order 12");
    driver.submit(first.clone()).await;
    // A live task keeps its key however long it waits.
    driver.wait(Span::from_secs(40 * 60 * 60));
    let second = driver.submission(&scope, "images").with_key("order 12");
    assert!(matches!(driver.submit(second).await, Answer::Accepted { replayed: true, .. }));
    let leased = driver.lease(&scope, "images", 1).await;
    driver.about(&first.task_key(), report(&caller(&leased[0]), succeeded())).await;
    driver.wait(Span::from_millis(24 * 60 * 60 * 1000 - 1));
    let third = driver.submission(&scope, "images").with_key("order 12");
    // for a day after the end the same key finds the ended run.
    let recalled = driver.submit(third).await;
    assert!(matches!(recalled, Answer::Accepted { state: State::Succeeded, replayed: true, .. }));
    driver.wait(Span::from_millis(1));
    let fourth = driver.submission(&scope, "images").with_key("order 12");
    let id = fourth.submit.id;
    let fresh = driver.submit(fourth).await;
    assert!(matches!(fresh, Answer::Accepted { task, replayed: false, .. } if task == id));
    let fifth = driver.submission(&scope, "images").with_key("order 12");
    let found = driver.submit(fifth).await;
    assert!(matches!(found, Answer::Accepted { task, replayed: true, .. } if task == id));
}
