//! What is loaded equals what was saved.

use store::browse::Browse;
use store::row::{Resources, TaskKey};
use store::seam::{Batch, Loaded, Lookup, Writer};
use verdict::{Answer, Scope, State, Subject};

use super::driver::Driver;
use super::fixture::Fixture;

/// Every field of a task and its spec is read back, including those that ordinary tasks do not have.
pub async fn loads_what_was_saved<F: Fixture>(driver: &mut Driver<F>) {
    let mut submission = driver.submission(&Scope::default(), "images");
    submission.submit.priority = -7;
    submission.submit.run_at = Some(driver.now().plus(verdict::Span::from_secs(60)));
    submission.submit.policy = verdict::Policy {
        attempt_limit: Some(verdict::Span::from_secs(77)),
        deadline: Some(driver.now().plus(verdict::Span::from_secs(1000))),
        seed: Some(u64::MAX),
        ..verdict::Policy::default()
    };
    let spec = &mut submission.spec;
    spec.input = "{\"a\":[1,2,{\"b\":\"\\u0000é\"}]}".into();
    spec.goal = Some("see that every field survives, ünïcödé included".into());
    spec.task_key = Some("daily".into());
    spec.asset_id = Some("s3://bucket/key".into());
    spec.resources = Some(Resources {
        memory_bytes: Some(1 << 40),
        cpu_millicores: Some(1500),
        timeout_ms: None,
    });
    spec.labels = [("team".to_owned(), "a b".to_owned()), ("x".to_owned(), String::new())].into();
    spec.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    spec.key = Some("order 12".into());
    let (key, created_at) = (submission.task_key(), driver.now());
    let answer = driver.submit(submission.clone()).await;
    let accepted =
        Answer::Accepted { task: key.id, state: State::Queued, created_at, replayed: false };
    assert_eq!(answer, accepted);
    // S2-104: the submission is in the store before anything acts on it.
    let Subject::Live(task) = driver.load(&key).await else { panic!("the task is live") };
    assert_eq!((task.priority, &task.policy), (-7, &submission.submit.policy));
    assert_eq!(task.claimable_at(), submission.submit.run_at);
    let found = driver.browse().find(&key).await.expect("browsing works").expect("it is there");
    assert_eq!(found.spec, submission.spec);
    assert_eq!(found.subject, Subject::Live(task));
}

/// One answer per key, in the order of the keys, whether they exist or not.
pub async fn orders_answers_like_questions<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let first = driver.add(&scope, "images").await;
    let second = driver.add(&scope, "images").await;
    let unknown = TaskKey { scope, id: verdict::TaskId::from_u128(u128::MAX) };
    let keys = [second.clone(), unknown, first.clone(), second.clone()];
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let loaded = batch.look_up(Lookup::tasks(&keys)).await.expect("loading works").tasks;
    let ids: Vec<_> = loaded
        .iter()
        .map(|loaded| match loaded {
            Loaded::Subject(subject) => subject.live().map(|task| task.id),
            Loaded::Locked => panic!("nobody else works here"),
        })
        .collect();
    assert_eq!(ids, [Some(second.id), None, Some(first.id), Some(second.id)]);
}
