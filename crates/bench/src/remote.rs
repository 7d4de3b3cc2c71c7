//! The load's clients over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{BenchError, failed};
use crate::http::Connection;
use crate::load_client::{self, KIND, LoadClient, LoadTarget, SubmitTime, WAIT_MS, WORKER};
use crate::measurement::Mode;

/// A server to measure, or several that share one store.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Clients created so far.
    opened: Arc<AtomicUsize>,
    pub(crate) key: String,
    pub(crate) queue: String,
    pub(crate) mode: Mode,
    /// Steps of each run. The last one rides with the report, the others are a call each; a plain task has none.
    pub(crate) steps: usize,
    /// What each run's plan is like.
    pub(crate) plan: PlanShape,
    /// How many flow keys the runs share, one after the other; 0 for runs without a key.
    pub(crate) flow_keys: usize,
    /// Runs with a key so far.
    keyed: Arc<AtomicUsize>,
}

/// The plan of a run of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanShape {
    None,
    /// So many stages, each leased with the report of the one before it.
    Stages(usize),
    /// So many steps side by side, and one that joins them.
    Joined(usize),
}

impl Remote {
    pub(crate) fn new(addresses: Vec<SocketAddr>, key: String, mode: Mode) -> Self {
        let (opened, queue) = (Arc::default(), "bench".to_owned());
        let (keyed, plan) = (Arc::default(), PlanShape::None);
        Self { addresses, opened, key, queue, mode, steps: 0, plan, flow_keys: 0, keyed }
    }

    /// A client as users have it, of the first server.
    pub(crate) fn sdk(&self) -> Result<tenure::Client, BenchError> {
        tenure::Client::new(&format!("http://{}", self.addresses[0]), &self.key).map_err(failed)
    }

    /// Each server in turn, starting one further with each round: callers create their clients in a
    /// fixed order, and no server must get all clients of one kind.
    fn next_address(&self) -> SocketAddr {
        let servers = self.addresses.len();
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        self.addresses[(number + number / servers) % servers]
    }

    pub(crate) fn with(&self, mode: Mode, queue: &str) -> Self {
        Self { mode, queue: queue.to_owned(), ..self.clone() }
    }

    pub(crate) fn with_plan(&self, plan: PlanShape) -> Self {
        Self { plan, ..self.clone() }
    }

    pub(crate) fn with_flow_keys(&self, flow_keys: usize) -> Self {
        Self { flow_keys, ..self.clone() }
    }

    pub(crate) fn with_steps(&self, steps: usize) -> Self {
        Self { steps, ..self.clone() }
    }
}

/// The limit of each flow key.
pub(crate) const FLOW_LIMIT: u32 = 8;

impl Remote {
    /// The flow key of the next run, as a member of its submission.
    fn next_flow(&self) -> String {
        if self.flow_keys == 0 {
            return String::new();
        }
        let number = self.keyed.fetch_add(1, Ordering::Relaxed) % self.flow_keys;
        format!(r#","flow":{{"key":"key-{number}","limit":{FLOW_LIMIT}}}"#)
    }
}

impl LoadTarget for Remote {
    type Client = RemoteClient;

    async fn open(&self) -> Result<RemoteClient, BenchError> {
        let connection = Connection::open(self.next_address()).await?;
        Ok(RemoteClient { connection, remote: self.clone() })
    }
}

pub(crate) struct RemoteClient {
    pub(crate) connection: Connection,
    pub(crate) remote: Remote,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leased {
    pub(crate) task_id: String,
    pub(crate) task_token: String,
    pub(crate) attempt: u32,
    task_key: String,
    input: Box<RawValue>,
}

impl SubmitTime for Leased {
    fn submitted_micros(&self) -> u64 {
        load_client::submitted_micros(self.input.get())
    }

    fn ends_run(&self) -> bool {
        matches!(self.task_key.as_str(), KIND | LAST_STEP)
    }
}

#[derive(Deserialize)]
struct Leases {
    leases: Vec<Leased>,
}

/// A batch answer, reduced to what shows a refused item and what comes with it.
#[derive(Deserialize)]
struct Item {
    error: Option<String>,
    next: Option<Leased>,
}

#[derive(Deserialize)]
struct Items {
    #[serde(alias = "answers")]
    results: Vec<Item>,
}

impl RemoteClient {
    fn run(&self) -> String {
        let (queue, input) = (&self.remote.queue, load_client::input());
        match self.remote.plan {
            PlanShape::None => {
                let flow = self.remote.next_flow();
                format!(r#"{{"kind":"{KIND}","queue":"{queue}","input":{input}{flow}}}"#)
            }
            PlanShape::Stages(stages) => staged(stages, queue, &input),
            PlanShape::Joined(steps) => joined(steps, queue, &input),
        }
    }

    /// Submits one run and returns its id.
    pub(crate) async fn submit_one(&mut self) -> Result<String, BenchError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Accepted {
            run_id: String,
        }
        let run = self.run();
        let body = self.connection.post("/v1/runs", &self.remote.key, &run).await?;
        Ok(serde_json::from_slice::<Accepted>(body)?.run_id)
    }

    /// Whether reports ask for the next stage.
    fn goes_on(&self) -> bool {
        matches!(self.remote.plan, PlanShape::Stages(_))
    }

    async fn complete_one(&mut self, leased: &Leased) -> Result<Vec<Leased>, BenchError> {
        #[derive(Deserialize)]
        struct Completed {
            next: Option<Leased>,
        }
        let path = format!("/v1/tasks/{}/completed", leased.task_id);
        let goes_on = self.goes_on();
        let body = format!("{{{}}}", report(leased, self.remote.steps, goes_on));
        let answer = self.connection.post(&path, &leased.task_token, &body).await?;
        if !goes_on {
            return Ok(Vec::new());
        }
        Ok(serde_json::from_slice::<Completed>(answer)?.next.into_iter().collect())
    }

    /// Records one step of one run.
    pub(crate) async fn checkpoint_one(
        &mut self,
        leased: &Leased,
        step: usize,
    ) -> Result<(), BenchError> {
        let path = format!("/v1/tasks/{}/checkpoints", leased.task_id);
        let body = body_of(leased, &steps(step));
        self.connection.post(&path, &leased.task_token, &body).await.map(drop)
    }

    /// Records one step of each run.
    async fn checkpoint_together(
        &mut self,
        leased: &[Leased],
        step: usize,
    ) -> Result<(), BenchError> {
        self.checkpoint_all(leased, &steps(step)).await
    }

    /// Makes the same call for each run.
    pub(crate) async fn checkpoint_all(
        &mut self,
        leased: &[Leased],
        call: &str,
    ) -> Result<(), BenchError> {
        let calls = leased.iter().map(|leased| item(leased, &checkpoint(leased, call)));
        let calls = calls.collect::<Vec<String>>().join(",");
        let body = format!(r#"{{"checkpoints":[{calls}]}}"#);
        check_items(self.connection.post("/v1/checkpoints", &self.remote.key, &body).await?)
    }

    async fn complete_all(&mut self, leased: &[Leased]) -> Result<Vec<Leased>, BenchError> {
        let mut next = Vec::new();
        for leased in leased.chunks(REPORTS_MAX) {
            for step in 1..self.remote.steps {
                self.checkpoint_together(leased, step).await?;
            }
            next.extend(self.complete_together(leased).await?);
        }
        Ok(next)
    }

    async fn complete_together(&mut self, leased: &[Leased]) -> Result<Vec<Leased>, BenchError> {
        let (steps, goes_on) = (self.remote.steps, self.goes_on());
        let reports = leased.iter().map(|leased| item(leased, &report(leased, steps, goes_on)));
        let reports = reports.collect::<Vec<String>>().join(",");
        let body = format!(r#"{{"reports":[{reports}]}}"#);
        let answer = self.connection.post("/v1/reports", &self.remote.key, &body).await?;
        Ok(items(answer)?.into_iter().filter_map(|item| item.next).collect())
    }
}

/// The key of the step with which a plan ends.
const LAST_STEP: &str = "last";

/// A step with the input of a plain task, and what it has besides.
fn planned(key: &str, queue: &str, input: &str, more: &str) -> String {
    format!(r#"{{"key":"{key}","kind":"{KIND}","queue":"{queue}","input":{input}{more}}}"#)
}

fn staged(stages: usize, queue: &str, input: &str) -> String {
    let keys = (1..stages).map(|number| format!("stage-{number}")).chain([LAST_STEP.to_owned()]);
    let stages: Vec<String> = keys.map(|key| planned(&key, queue, input, "")).collect();
    format!(r#"{{"plan":{{"steps":[{}]}}}}"#, stages.join(","))
}

fn joined(steps: usize, queue: &str, input: &str) -> String {
    let keys: Vec<String> = (0..steps).map(|number| format!("s{number}")).collect();
    let names: Vec<String> = keys.iter().map(|key| format!(r#""{key}""#)).collect();
    let all = format!(r#","dependsOn":[{}]"#, names.join(","));
    let steps = keys.iter().map(|key| planned(key, queue, input, ""));
    let steps: Vec<String> = steps.chain([planned(LAST_STEP, queue, input, &all)]).collect();
    format!(r#"{{"plan":{{"steps":[{}]}}}}"#, steps.join(","))
}

/// The maximum per call. A worker that is slower than its grants may have more to report.
const REPORTS_MAX: usize = 1_000;

/// A call of one task among others.
fn item(leased: &Leased, call: &str) -> String {
    let (task, token) = (&leased.task_id, &leased.task_token);
    format!(r#"{{"taskId":"{task}","taskToken":"{token}",{call}}}"#)
}

fn report(leased: &Leased, steps: usize, goes_on: bool) -> String {
    let attempt = leased.attempt;
    let next = if goes_on { r#","next":true"# } else { "" };
    let last = if steps == 0 { String::new() } else { format!(r#","steps":[{}]"#, record(steps)) };
    format!(
        r#""attempt":{attempt},"workerId":"{WORKER}","outcome":"SUCCEEDED","output":{{"ok":true}}{last}{next}"#
    )
}

/// The body of a call of one run.
pub(crate) fn body_of(leased: &Leased, call: &str) -> String {
    format!("{{{}}}", checkpoint(leased, call))
}

fn checkpoint(leased: &Leased, call: &str) -> String {
    let attempt = leased.attempt;
    format!(r#""attempt":{attempt},"workerId":"{WORKER}",{call}"#)
}

fn steps(step: usize) -> String {
    format!(r#""steps":[{}]"#, record(step))
}

/// The result of a step: a small object.
fn record(step: usize) -> String {
    format!(r#"{{"key":"step#{step}","outcome":"SUCCEEDED","result":{{"ok":{step}}}}}"#)
}

pub(crate) fn check_items(body: &[u8]) -> Result<(), BenchError> {
    items(body).map(drop)
}

fn items(body: &[u8]) -> Result<Vec<Item>, BenchError> {
    let items: Items = serde_json::from_slice(body)?;
    match items.results.iter().find_map(|item| item.error.clone()) {
        Some(error) => Err(BenchError::Answer { status: 200, body: error }),
        None => Ok(items.results),
    }
}

impl LoadClient for RemoteClient {
    type Leased = Leased;

    async fn submit(&mut self, count: usize) -> Result<(), BenchError> {
        if self.remote.mode == Mode::Single {
            return self.submit_one().await.map(drop);
        }
        let runs: Vec<String> = (0..count).map(|_| self.run()).collect();
        let body = format!(r#"{{"runs":[{}]}}"#, runs.join(","));
        check_items(self.connection.post("/v1/runs", &self.remote.key, &body).await?)
    }

    async fn lease(&mut self, max: usize) -> Result<Vec<Leased>, BenchError> {
        let queue = &self.remote.queue;
        let body = format!(
            r#"{{"workerId":"{WORKER}","queues":["{queue}"],"max":{max},"waitMs":{WAIT_MS}}}"#
        );
        let answer = self.connection.post("/v1/leases", &self.remote.key, &body).await?;
        Ok(serde_json::from_slice::<Leases>(answer)?.leases)
    }

    async fn complete(&mut self, leased: &[Leased]) -> Result<(), BenchError> {
        self.complete_and_go_on(leased).await.map(drop)
    }

    async fn complete_and_go_on(&mut self, leased: &[Leased]) -> Result<Vec<Leased>, BenchError> {
        match (self.remote.mode, leased) {
            (Mode::Single, [leased]) => {
                for step in 1..self.remote.steps {
                    self.checkpoint_one(leased, step).await?;
                }
                self.complete_one(leased).await
            }
            _ => self.complete_all(leased).await,
        }
    }
}
