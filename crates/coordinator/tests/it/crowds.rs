//! Crowds of idle workers over PostgreSQL: they do not delay workers that have work.

use std::future::Future;
use std::pin::Pin;

use coordinator::{Coordinator, Granted, Options, Poll, RequestError, Submission};
use store::PostgresStore;
use store::postgres::{self, Notify};
use storetest::Database;
use verdict::{Name, Policy, Scope};

use crate::harness::{accepted, patient, submission};

type Waiting = Pin<Box<dyn Future<Output = Result<Vec<Granted>, RequestError>> + Send>>;

/// Polls between two rounds: fewer than the intake can hold.
const TOGETHER: usize = 500;

async fn start(database: &Database) -> Coordinator {
    let options = postgres::Options { notify: Notify::Off, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    let options = Options::default();
    Coordinator::start(store, options).await.expect("it starts")
}

/// Makes all of these polls wait.
async fn wait_all(round: &Coordinator, polls: impl Iterator<Item = Poll>) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    for poll in polls {
        let coordinator = round.clone();
        let mut asked: Waiting = Box::pin(async move { coordinator.lease(poll).await });
        assert!(futures_util::poll!(&mut asked).is_pending());
        waiting.push(asked);
        if waiting.len().is_multiple_of(TOGETHER) {
            round.is_progressing().await.expect("it goes round");
        }
    }
    round.is_progressing().await.expect("it goes round");
    waiting
}

fn at(scope: &Scope, worker: String, queues: Vec<Name>) -> Poll {
    Poll { scope: scope.clone(), queues, max: 8, ..patient(&worker) }
}

/// A poll at the queue `q` of this scope has a task by the time its submission is answered.
async fn is_served_at_once(coordinator: &Coordinator, scope: &Scope) {
    let taker = at(scope, "ann".to_owned(), vec![Name::from("q")]);
    let mut taker = wait_all(coordinator, std::iter::once(taker)).await;
    let task = Submission { scope: scope.clone(), policy: Policy::default(), ..submission("k") };
    accepted(&coordinator.submit(vec![task]).await[0]);
    match futures_util::poll!(&mut taker[0]) {
        std::task::Poll::Ready(granted) => assert_eq!(granted.expect("it works").len(), 1),
        std::task::Poll::Pending => panic!("not granted in the commit of its submission"),
    }
}

#[tokio::test]
async fn ten_thousand_idle_polls_of_a_thousand_queues_keep_nobody_from_work() {
    // G2, S2-52: granted in the same commit that accepts the submission.
    let database = Database::create();
    let coordinator = start(&database).await;
    let scope = Scope::default();
    let idle = (0..10_000)
        .map(|n| at(&scope, format!("idle-{n}"), vec![Name::from(format!("idle-{}", n % 1_000))]));
    let _idle = wait_all(&coordinator, idle).await;
    is_served_at_once(&coordinator, &scope).await;
}

#[tokio::test]
async fn a_key_that_invents_queue_names_keeps_no_other_tenant_from_work() {
    // G2, S2-52: 41 polls with 32 names each, which no queue ever had.
    let database = Database::create();
    let coordinator = start(&database).await;
    let names = |poll: usize| {
        (0..32).map(move |n| Name::from(format!("invented-{poll}-{n}"))).collect::<Vec<Name>>()
    };
    let mallory = Scope::new("mallory", "main");
    let polls = (0..41).map(|n| at(&mallory, format!("mallory-{n}"), names(n)));
    let _invented = wait_all(&coordinator, polls).await;
    is_served_at_once(&coordinator, &Scope::default()).await;
}
