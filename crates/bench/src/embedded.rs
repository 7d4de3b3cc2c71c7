//! The load's clients on the engine alone: the same rules, rows and commits, but no HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Granted, Options, Poll, Reply, Submission, engines};
use store::postgres::{self, PostgresStore};
use store::sqlite::{self, SqliteStore};
use store::{Spec, SystemClock};
use verdict::request::{Caller, Outcome, Report};
use verdict::{Answer, Digest, Json, Policy, Scope};

use crate::error::BenchError;
use crate::load_client::{self, KIND, LoadClient, LoadTarget, SubmitTime, WAIT_MS, WORKER};

const QUEUE: &str = "bench";
const OUTPUT: &str = r#"{"ok":true}"#;

#[derive(Clone)]
pub(crate) struct Embedded {
    coordinator: Coordinator,
    /// The store, if it is a database.
    database: Option<PostgresStore>,
}

fn open_file(path: &Path) -> Result<SqliteStore, BenchError> {
    let options = sqlite::Options::new(Arc::new(SystemClock::start()));
    SqliteStore::open(path, options).map_err(|failure| refused(&failure))
}

async fn open_database(url: &str) -> Result<PostgresStore, BenchError> {
    let store = PostgresStore::open(url, postgres::Options::new("bench")).await;
    store.map_err(|failure| refused(&failure))
}

impl Embedded {
    pub(crate) async fn on_file(path: &Path) -> Result<Self, BenchError> {
        let coordinator = engines::start_sqlite(open_file(path)?, Options::default()).await;
        let coordinator = coordinator.map_err(|failure| refused(&failure))?;
        Ok(Self { coordinator, database: None })
    }

    pub(crate) async fn on_database(url: &str) -> Result<Self, BenchError> {
        let store = open_database(url).await?;
        let coordinator = engines::start_postgres(store.clone(), Options::default()).await;
        let coordinator = coordinator.map_err(|failure| refused(&failure))?;
        Ok(Self { coordinator, database: Some(store) })
    }

    #[cfg(test)]
    pub(crate) fn database(&self) -> Option<&PostgresStore> {
        self.database.as_ref()
    }

    /// Stops after a load. Fails if statements were planned again and again: such a figure measures a defect.
    pub(crate) async fn stop(self) -> Result<(), BenchError> {
        let unprepared = self.database.as_ref().map_or(0, PostgresStore::unprepared_connections);
        self.coordinator.stop().await;
        match unprepared {
            0 => Ok(()),
            connections => Err(BenchError::Unprepared { connections }),
        }
    }
}

fn refused(why: &dyn std::fmt::Display) -> BenchError {
    BenchError::Engine(why.to_string())
}

impl LoadTarget for Embedded {
    type Client = Self;

    async fn open(&self) -> Result<Self, BenchError> {
        Ok(self.clone())
    }
}

impl SubmitTime for Granted {
    fn submitted_micros(&self) -> u64 {
        load_client::submitted_micros(self.spec.input.as_str())
    }
}

/// The submission that a client's run becomes, with the defaults of the wire.
fn submission() -> Submission {
    let input = load_client::input();
    let fingerprint = Digest::of(&[input.as_bytes()]);
    let spec = Spec {
        input: Json::from(input),
        goal: None,
        task_key: None,
        asset_id: None,
        resources: None,
        labels: Default::default(),
        traceparent: None,
        key: None,
        fingerprint,
    };
    let (kind, queue) = (KIND.into(), QUEUE.into());
    Submission {
        budget: None,
        flow: None,
        debounce: None,
        scope: Scope::default(),
        kind,
        queue,
        priority: 0,
        policy: Policy::default(),
        run_at: None,
        delay: None,
        deadline_in: None,
        spec,
        stages: None,
        fork: None,
        steps: None,
    }
}

fn report(granted: &Granted) -> Report {
    let lease = granted.task.lease().expect("a granted task has a lease");
    Report {
        caller: Caller {
            worker: WORKER.into(),
            attempt: granted.task.attempt,
            lease: lease.id,
            epoch: lease.fence.epoch(),
        },
        outcome: Outcome::Succeeded { output: Some(Json::from(OUTPUT.to_owned())) },
        digest: Digest::of(&[OUTPUT.as_bytes()]),
        claims: None,
        by: None,
    }
}

fn check(replies: Vec<Reply>) -> Result<(), BenchError> {
    for reply in replies {
        match reply {
            Ok(answered) if !matches!(answered.answer, Answer::Refused(_)) => {}
            Ok(answered) => return Err(BenchError::Engine(format!("{:?}", answered.answer))),
            Err(trouble) => return Err(refused(&trouble)),
        }
    }
    Ok(())
}

impl LoadClient for Embedded {
    type Leased = Granted;

    async fn submit(&mut self, count: usize) -> Result<(), BenchError> {
        check(self.coordinator.submit((0..count).map(|_| submission()).collect()).await)
    }

    async fn lease(&mut self, max: usize) -> Result<Vec<Granted>, BenchError> {
        let poll = Poll {
            scope: Scope::default(),
            worker: WORKER.into(),
            queues: vec![QUEUE.into()],
            kinds: None,
            max,
            until: tokio::time::Instant::now() + Duration::from_millis(WAIT_MS),
            poll: None,
            build: None,
        };
        self.coordinator.lease(poll).await.map_err(|trouble| refused(&trouble))
    }

    async fn complete(&mut self, leased: &[Granted]) -> Result<(), BenchError> {
        let reports = leased.iter().map(|granted| (granted.key(), report(granted)));
        check(self.coordinator.reports(reports.collect()).await)
    }
}
