//! The context of an attempt, as the task's code sees it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use wire::answers::{BudgetLeft, Envelope};
use wire::limits::MESSAGE_BYTES_MAX;
use wire::names::repair_text;
use wire::{Json, LogLevel, Time, TraceContext};
use workflow::{Failure, Spend};

use super::lease_state::{LeaseState, Progress, StopReason};
use crate::Client;

/// One attempt, as the task's code sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ctx {
    envelope: Arc<Envelope>,
    lease_state: Arc<LeaseState>,
    worker_id: Arc<str>,
    client: Client,
    trace: Option<TraceContext>,
}

impl Ctx {
    pub(crate) fn new(
        envelope: Arc<Envelope>,
        lease_state: Arc<LeaseState>,
        worker_id: Arc<str>,
        client: Client,
    ) -> Ctx {
        Ctx { envelope, lease_state, worker_id, client, trace: None }
    }

    pub(crate) fn with_client(self, client: Client) -> Ctx {
        Ctx { client, ..self }
    }

    pub(crate) fn with_trace(self, trace: Option<TraceContext>) -> Ctx {
        Ctx { trace, ..self }
    }

    /// The owner of the lease: this worker, with the random suffix of this start.
    pub fn worker_id(&self) -> &str {
        &self.worker_id
    }

    pub fn run_id(&self) -> &str {
        &self.envelope.run_id
    }

    pub fn task_id(&self) -> &str {
        &self.envelope.task_id
    }

    pub fn lease_id(&self) -> &str {
        &self.envelope.lease_id
    }

    pub fn kind(&self) -> &str {
        &self.envelope.kind
    }

    pub fn queue(&self) -> &str {
        &self.envelope.queue
    }

    /// 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.envelope.attempt
    }

    /// Larger than the fence of every earlier attempt. Pass it to every system that the code writes
    /// to, so that the receiver can refuse writes of a superseded attempt.
    pub fn fence(&self) -> u64 {
        self.envelope.fence
    }

    /// The run's deadline, by the coordinator's clock.
    pub fn deadline(&self) -> Option<Time> {
        self.envelope.deadline
    }

    /// The input as it was submitted, byte for byte.
    pub fn input(&self) -> &Json {
        &self.envelope.input
    }

    /// The name of the plan's step that this attempt executes, if its run has a plan of stages.
    pub fn stage(&self) -> Option<&str> {
        self.envelope.stage.as_deref()
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.envelope.labels
    }

    /// The whole task as the coordinator sent it.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The span of this attempt's work, a child of the one that came with the lease. Pass it to the
    /// services that the code calls, as the header `traceparent`, or use it as the parent of other
    /// spans. The report carries it back, so that the spans can be found from the attempt. `None`
    /// when the lease came without a trace.
    ///
    /// ```
    /// # fn call(ctx: &tenure::Ctx) {
    /// if let Some(trace) = ctx.trace() {
    ///     let header = ("traceparent", trace.to_string());
    /// #   let _ = header;
    /// }
    /// # }
    /// ```
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// The worker's client, to submit further work with. Its API key needs the role for that.
    ///
    /// After a failure or a lost lease, the next attempt submits again. With a key made from the
    /// run's id it finds the run that the previous attempt submitted:
    ///
    /// ```
    /// # use tenure::{Ctx, Failure, Kind};
    /// const NOTIFY: Kind<u32, ()> = Kind::new("notify").queue("mail");
    ///
    /// async fn publish(ctx: Ctx, page: u32) -> Result<String, Failure> {
    ///     let key = format!("{}-notify", ctx.run_id());
    ///     let next = ctx.client().submit(NOTIFY, &page).idempotency_key(key).await?;
    ///     Ok(next.id().to_owned())
    /// }
    /// ```
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Until when this process may act for the attempt, as far as is proven now. Renewals extend
    /// it.
    pub fn valid_until(&self) -> Option<Instant> {
        let now = self.lease_state.clock().now();
        self.lease_state.valid_until().map(|until| until.timer(now))
    }

    /// Completes when the task should stop; [`Ctx::stop_reason`] says why.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.lease_state.stop_token().cancelled()
    }

    /// Whether the task should stop, for code that cannot await. Reads the clock on every call.
    pub fn is_cancelled(&self) -> bool {
        self.lease_state.is_lost() || self.lease_state.stop_token().is_cancelled()
    }

    /// For libraries that take a token.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.lease_state.stop_token().child_token()
    }

    /// Why the task should stop, if it should.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.lease_state.stop_reason()
    }

    pub(crate) fn stop(&self, stop: StopReason) {
        self.lease_state.stop(stop);
    }

    /// Runs `work` unless the task should stop, which ends it early as [`Failure::cancelled`].
    pub async fn or_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(Failure::cancelled()),
            done = work => Ok(done),
        }
    }

    /// What is left of the run's budget, as the coordinator said last: with the lease, and with every heartbeat. `None` without a
    /// budget.
    pub fn left(&self) -> Option<BudgetLeft> {
        self.lease_state.left()
    }

    /// Adds to what this attempt has used of the run's budget. The sum goes with the next heartbeat, some three seconds after the
    /// previous one, and with the report. A run that has used more than it may is told to stop.
    ///
    /// ```
    /// # fn call(ctx: &tenure::Ctx) {
    /// use tenure::Spend;
    ///
    /// ctx.spend(Spend { tokens: 800, tool_calls: 1, ..Spend::default() });
    /// # }
    /// ```
    pub fn spend(&self, more: Spend) {
        self.lease_state.add_spend(more);
    }

    /// Adds a line to the log of this attempt, for people: see `tenure runs show --logs`. Lines travel with heartbeats,
    /// checkpoints and the report. The coordinator keeps the newest 64 KiB of an attempt and says how many are missing.
    /// A worker with a codec sends none: lines are plain text that the coordinator could read.
    ///
    /// ```no_run
    /// # fn example(ctx: &tenure::Ctx) {
    /// ctx.log(tenure::LogLevel::Info, "read 40 rows");
    /// # }
    /// ```
    pub fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        if !self.client.codec().is_set() {
            self.lease_state.log(level, text.as_ref());
        }
    }

    /// Reports progress; the latest call replaces earlier ones. Progress that has changed is sent with a heartbeat some
    /// three seconds after the previous one, so the code may call this as often as it likes.
    pub fn progress(&self, pct: f64, message: impl AsRef<str>) {
        let pct = pct.is_finite().then(|| pct.clamp(0.0, 100.0));
        let message = Some(repair_text(message.as_ref(), MESSAGE_BYTES_MAX).into_owned());
        self.lease_state.set_progress(Progress { pct, message });
    }
}
