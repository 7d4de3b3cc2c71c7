//! Runs durable functions in memory: time is skipped, signals are injected, people decide by script, children are
//! values, workers crash.
//!
//! For tests of durable functions and of this engine. Every attempt starts from what the coordinator in memory has
//! recorded, as with a real one, and nothing else is carried over.
//!
//! ```
//! use std::time::Duration;
//! use workflow::testing::FlowTest;
//! use workflow::{Failure, Flow, Kind};
//!
//! const PACK: Kind<String, u32> = Kind::new("pack").queue("orders");
//!
//! async fn order(flow: Flow, cents: u64) -> Result<String, Failure> {
//!     flow.step("charge", async |_| Ok(cents)).await?;
//!     flow.sleep(Duration::from_secs(86_400)).named("cool-off").await;
//!     let by: String = flow.signal("approve").await?;
//!     let parcel = flow.call(PACK, "lamp").await?;
//!     Ok(format!("parcel {parcel}, approved by {by}"))
//! }
//!
//! let ended = FlowTest::new(order, &500)
//!     .signal_after(Duration::from_secs(3600), "approve", &"Ada")
//!     .child(PACK, |_item| Ok(7))
//!     .crash(workflow::testing::Crash::After(1))
//!     .run()
//!     .unwrap();
//! assert_eq!(ended.output::<String>(), "parcel 7, approved by Ada");
//! assert_eq!(ended.executed["charge#1"], 1);
//! ```

mod coordinator;
mod golden;
mod people;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::{ApprovalDecision, Json, Time};

pub use self::coordinator::{ConflictingStep, MemoryCoordinator};
pub use self::golden::ReplayError;
use crate::approval::Vote;
use crate::command::{Checkpoint, Command, Outcome, Report};
use crate::effect::DeliveryOutcome;
use crate::flow::Flow;
use crate::kind::{Kind, RunKind};
use crate::run::{Function, Run, encode, function};
use crate::stop::Stop;
use crate::{Digest, Failure};

/// A run that crashes at every command has this many attempts at most; more is a loop.
const ATTEMPTS_MAX: u32 = 100_000;

/// When a worker dies, counted in commands of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    /// Before the command is carried out.
    Before(usize),
    /// After it was carried out, before the code learns of it.
    After(usize),
}

/// Why a run in memory did not end.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Stopped(#[from] Stop),
    #[error(transparent)]
    Conflict(#[from] ConflictingStep),
    #[error(
        "the run waits for {0}, and nothing will bring it: send a signal, decide the approval or define the child"
    )]
    Stuck(String),
    #[error("the run had {ATTEMPTS_MAX} attempts and goes on: it repeats itself")]
    Endless,
}

/// A kind whose runs a test ends itself: a [`Kind`], or a name with JSON on both sides.
pub trait ChildKind {
    type Input: DeserializeOwned;
    type Output: Serialize;

    fn name(&self) -> &str;
}

impl<I: DeserializeOwned, O: Serialize> ChildKind for Kind<I, O> {
    type Input = I;
    type Output = O;

    fn name(&self) -> &str {
        RunKind::<I>::name(self)
    }
}

impl ChildKind for &str {
    type Input = Value;
    type Output = Value;

    fn name(&self) -> &str {
        self
    }
}

/// A run in memory.
pub struct FlowTest<'f> {
    function: Function<'f>,
    coordinator: MemoryCoordinator,
    crashes: Vec<Crash>,
    fence: u64,
    commands: usize,
    executed: BTreeMap<String, u32>,
    transcript: Option<Vec<String>>,
}

/// How a run in memory ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    pub report: Report,
    /// Everything that was recorded, in commit order.
    pub history: Vec<Checkpoint>,
    /// How often the work of each step was started.
    pub executed: BTreeMap<String, u32>,
    /// How many leases it took.
    pub attempts: u64,
    /// How many commands there were.
    pub commands: usize,
    /// Every command as JSON, one per line, if it was asked for.
    pub transcript: Vec<String>,
}

impl Ended {
    /// What the function returned.
    ///
    /// # Panics
    ///
    /// If it failed, or returned something else.
    pub fn output<T: DeserializeOwned>(&self) -> T {
        let output = self.report.output.as_ref();
        let output = output.unwrap_or_else(|| panic!("the run failed: {:?}", self.report.error));
        output.read().expect("the test names the type that the function returns")
    }

    pub fn error(&self) -> Option<&Failure> {
        self.report.error.as_ref()
    }

    /// The keys of the history.
    pub fn keys(&self) -> Vec<&str> {
        self.history.iter().map(|checkpoint| checkpoint.key.as_str()).collect()
    }

    /// The history as JSON lines.
    pub fn history_text(&self) -> String {
        let line = |checkpoint| serde_json::to_string(checkpoint).expect("a checkpoint has JSON");
        self.history.iter().map(|checkpoint| line(checkpoint) + "\n").collect()
    }

    /// What the history holds whatever the order and time of its commits: each key with its input and result.
    pub fn facts(&self) -> BTreeMap<(&str, bool), Fact<'_>> {
        let fact = |it: &'_ Checkpoint| (it.outcome == Outcome::Started, it.outcome);
        let facts = self.history.iter().map(|it| {
            let (is_start, outcome) = fact(it);
            let result = it.result.as_ref().map(Json::text);
            ((it.key.as_str(), is_start), (outcome, result, it.error.as_ref(), it.input_digest))
        });
        facts.collect()
    }
}

/// Outcome, result, error and input of a checkpoint.
pub type Fact<'h> = (Outcome, Option<&'h str>, Option<&'h Failure>, Option<Digest>);

impl<'f> FlowTest<'f> {
    /// A run of this function that was accepted at the beginning of 2026.
    pub fn new<F, In, I, O, Fut>(code: F, input: &In) -> FlowTest<'f>
    where
        In: Serialize + ?Sized,
        I: DeserializeOwned + Send,
        O: Serialize + Send,
        F: Fn(Flow, I) -> Fut + Send + Sync + 'f,
        Fut: Future<Output = Result<O, Failure>> + Send + 'f,
    {
        FlowTest::of(function(code), input)
    }

    /// The same for a function that is made already.
    pub fn of<I: Serialize + ?Sized>(function: Function<'f>, input: &I) -> FlowTest<'f> {
        let input = Json::from_value(input).expect("the input of a test has a JSON form");
        FlowTest {
            function,
            coordinator: MemoryCoordinator::new(input),
            crashes: Vec::new(),
            fence: 0,
            commands: 0,
            executed: BTreeMap::new(),
            transcript: None,
        }
    }

    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.coordinator.set_seed(seed);
        self
    }

    /// Begins with what another run has recorded.
    #[must_use]
    pub fn recorded(mut self, checkpoints: Vec<Checkpoint>) -> Self {
        self.coordinator.load(checkpoints);
        self
    }

    /// A signal that is there from the beginning.
    #[must_use]
    pub fn signal<P: Serialize + ?Sized>(self, name: &str, payload: &P) -> Self {
        self.signal_after(Duration::ZERO, name, payload)
    }

    /// A signal that comes after a time.
    #[must_use]
    pub fn signal_after<P: Serialize + ?Sized>(
        mut self,
        after: Duration,
        name: &str,
        payload: &P,
    ) -> Self {
        let payload = Json::from_value(payload).expect("the payload of a test has a JSON form");
        self.coordinator.send_signal(after, name, payload);
        self
    }

    /// The holder of a key approves, as soon as the approval of this name is open. `by` is the id of the key.
    #[must_use]
    pub fn approve(self, name: &str, by: &str) -> Self {
        self.decide_after(Duration::ZERO, name, by, ApprovalDecision::Approved, None)
    }

    /// The holder of a key rejects it, and says why.
    #[must_use]
    pub fn reject(self, name: &str, by: &str, why: &str) -> Self {
        self.decide_after(Duration::ZERO, name, by, ApprovalDecision::Rejected, Some(why))
    }

    /// The holder of a key decides after a time. One vote of each counts, and none after the expiry. Who may decide is not checked
    /// here.
    #[must_use]
    pub fn decide_after(
        mut self,
        after: Duration,
        name: &str,
        by: &str,
        decision: ApprovalDecision,
        comment: Option<&str>,
    ) -> Self {
        let (key, comment, at) = (by.to_owned(), comment.map(str::to_owned), Time::MIN);
        self.coordinator.decide(after, name, Vote { key, decision, at, comment });
        self
    }

    /// What runs of a kind return. They end at once.
    #[must_use]
    pub fn child<K: ChildKind>(
        self,
        kind: K,
        result: impl Fn(K::Input) -> Result<K::Output, Failure> + Send + 'static,
    ) -> Self {
        self.child_after(Duration::ZERO, kind, result)
    }

    /// What runs of a kind return after a time.
    #[must_use]
    pub fn child_after<K: ChildKind>(
        mut self,
        takes: Duration,
        kind: K,
        result: impl Fn(K::Input) -> Result<K::Output, Failure> + Send + 'static,
    ) -> Self {
        let result = move |input: &Json| {
            let input = input.read().map_err(|error| Failure::named("INPUT_UNREADABLE", error))?;
            encode(&result(input)?)
        };
        self.coordinator.define_child(kind.name(), takes, result);
        self
    }

    /// What becomes of effects of this type, and how long it takes. Others are delivered at once.
    #[must_use]
    pub fn delivery(mut self, r#type: &str, takes: Duration, outcome: DeliveryOutcome) -> Self {
        self.coordinator.define_delivery(r#type, takes, outcome);
        self
    }

    /// Lets the worker die there.
    #[must_use]
    pub fn crash(mut self, crash: Crash) -> Self {
        self.crashes.push(crash);
        self
    }

    /// Keeps every command.
    #[must_use]
    pub fn with_transcript(mut self) -> Self {
        self.transcript = Some(Vec::new());
        self
    }

    /// Runs to the end, on this thread.
    ///
    /// # Panics
    ///
    /// If the work of a step waits for something outside; use [`run_async`](FlowTest::run_async) inside a runtime then.
    pub fn run(&mut self) -> Result<Ended, TestError> {
        let mut run = std::pin::pin!(self.run_async());
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended,
            Poll::Pending => panic!("the work of a step waits for something outside"),
        }
    }

    /// Runs to the end, in whatever runtime the steps need.
    pub async fn run_async(&mut self) -> Result<Ended, TestError> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(report) = self.attempt().await? {
                return Ok(Ended {
                    report,
                    history: self.coordinator.history().to_vec(),
                    executed: std::mem::take(&mut self.executed),
                    attempts: self.fence,
                    commands: self.commands,
                    transcript: self.transcript.take().unwrap_or_default(),
                });
            }
        }
        Err(TestError::Endless)
    }

    /// One lease: until the report, a suspension, or a crash.
    async fn attempt(&mut self) -> Result<Option<Report>, TestError> {
        self.fence += 1;
        let mut run = Run::new(self.coordinator.start(self.fence), self.function.clone());
        let mut timeouts = VecDeque::new();
        loop {
            let command = next(&mut run, &mut timeouts).await?;
            let number = self.commands;
            self.commands += 1;
            self.note(&command);
            if self.dies(Crash::Before(number)) {
                return Ok(None);
            }
            match command {
                Command::Execute { key, number, timeout } => {
                    *self.executed.entry(key.clone()).or_default() += 1;
                    timeouts.extend(timeout.map(|timeout| (timeout, key, number)));
                }
                Command::Checkpoint(call) => {
                    let answer = self.coordinator.record(call)?;
                    if self.dies(Crash::After(number)) {
                        return self.coordinator.skip_time().map(|()| None);
                    }
                    run.recorded(answer);
                }
                Command::Complete(report) => {
                    self.coordinator.complete(&report)?;
                    return Ok(Some(report));
                }
                Command::Suspend | Command::Halt | Command::Cancel => {
                    return self.coordinator.skip_time().map(|()| None);
                }
            }
        }
    }

    /// How often the work of each step was started since the run began or ended.
    pub fn executed(&self) -> &BTreeMap<String, u32> {
        &self.executed
    }

    /// What is recorded.
    pub fn history(&self) -> &[Checkpoint] {
        self.coordinator.history()
    }

    fn note(&mut self, command: &Command) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(serde_json::to_string(command).expect("a command has a JSON form"));
        }
    }

    /// A worker dies at each place once.
    fn dies(&mut self, crash: Crash) -> bool {
        let before = self.crashes.len();
        self.crashes.retain(|planned| *planned != crash);
        self.crashes.len() < before
    }
}

impl fmt::Debug for FlowTest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowTest").field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// The next command. If the code waits, the time of the next step that has a timeout is over.
async fn next(
    run: &mut Run<'_>,
    timeouts: &mut VecDeque<(Duration, String, u32)>,
) -> Result<Command, Stop> {
    std::future::poll_fn(|cx| {
        loop {
            let turn = run.poll(cx);
            if turn.is_ready() {
                return turn;
            }
            let shortest = timeouts.iter().enumerate().min_by_key(|(_, timeout)| timeout.0);
            let Some((place, _)) = shortest else { return Poll::Pending };
            if let Some((_, key, number)) = timeouts.remove(place) {
                run.time_out(&key, number);
            }
        }
    })
    .await
}
