//! The coordinator's metrics. Labels come from bounded sets only: never ids, and names only of a bounded number of workspaces
//! ([`crate::spend_metrics`]).

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use verdict::Span;

use crate::batch_metrics::BatchMetrics;
use crate::spend_metrics::SpendMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabel {
    pub state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ActionLabel {
    pub action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CategoryLabel {
    pub category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VerdictLabels {
    pub verdict: &'static str,
    pub code: &'static str,
}

/// Which limit of a tenant was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    Requests,
    UnfinishedRuns,
    Budgets,
    /// Not a configurable limit: expired task tokens that were presented too often to be looked up.
    ExpiredTokens,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LimitLabel {
    pub limit: &'static str,
}

/// What an acknowledged commit survives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PromiseLabel {
    pub promise: &'static str,
}

/// Why a span did not reach the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanDropReason {
    /// The queue to the collector was full.
    Queue,
    /// The collector did not take it.
    Collector,
    /// The trace it belongs to could not be read.
    Store,
}

impl SpanDropReason {
    const ALL: [SpanDropReason; 3] =
        [SpanDropReason::Queue, SpanDropReason::Collector, SpanDropReason::Store];

    const fn name(self) -> &'static str {
        match self {
            SpanDropReason::Queue => "queue",
            SpanDropReason::Collector => "collector",
            SpanDropReason::Store => "store",
        }
    }
}

/// Why a connection was refused, or closed before its client did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisconnectReason {
    /// All connection slots are taken.
    Full,
    /// All slots of its peer are taken.
    PeerFull,
    /// The TLS handshake failed.
    Handshake,
    /// The head of a request did not end in time.
    SlowHead,
    /// An answer was not read in time.
    SlowReader,
    /// No byte moved for too long.
    Silent,
    /// No request with a valid key or token arrived in time.
    NoKey,
}

impl DisconnectReason {
    const ALL: [DisconnectReason; 7] = [
        DisconnectReason::Full,
        DisconnectReason::PeerFull,
        DisconnectReason::Handshake,
        DisconnectReason::SlowHead,
        DisconnectReason::SlowReader,
        DisconnectReason::Silent,
        DisconnectReason::NoKey,
    ];

    const fn name(self) -> &'static str {
        match self {
            DisconnectReason::Full => "full",
            DisconnectReason::PeerFull => "peer_full",
            DisconnectReason::Handshake => "handshake",
            DisconnectReason::SlowHead => "slow_head",
            DisconnectReason::SlowReader => "slow_reader",
            DisconnectReason::Silent => "silent",
            DisconnectReason::NoKey => "no_key",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    pub reason: &'static str,
}

#[derive(Clone, Debug)]
pub struct Metrics {
    pub submitted: Counter,
    pub granted: Counter,
    pub renewed: Counter,
    /// Leases that expired, whether their worker ever made a call or not.
    pub expired: Counter,
    /// How much later than its interval a heartbeat arrived.
    pub heartbeat_lag: Histogram,
    /// How long a ready task waited for a worker.
    pub wait_seconds: Histogram,
    /// The time from a lease to its end.
    pub attempt_seconds: Histogram,
    /// Attempts closed, by outcome.
    pub attempts: Family<OutcomeLabel, Counter>,
    /// Tasks ended, by state.
    pub ended: Family<StateLabel, Counter>,
    /// Attempts that made no progress for too long, by what followed.
    pub stalls: Family<ActionLabel, Counter>,
    /// Instants of schedules, by what became of them.
    pub instants: Family<OutcomeLabel, Counter>,
    /// Retries scheduled, by error category or LOST.
    pub retries: Family<CategoryLabel, Counter>,
    /// Answers to calls under a lease: duplicates and late reports are among the refused ones.
    pub verdicts: Family<VerdictLabels, Counter>,
    pub cancel_signals: Counter,
    pub cancel_timeouts: Counter,
    /// Messages between the tasks of durable runs, by what became of them.
    pub messages: Family<OutcomeLabel, Counter>,
    pub polls_waiting: Gauge,
    pub batch_items: Histogram,
    pub commit_seconds: Histogram,
    pub failures: Counter,
    /// Tasks that cannot be processed and are set aside.
    pub set_aside: Gauge,
    pub forgotten: Counter,
    pub forget_seconds: Histogram,
    /// When this coordinator started; a change means a restart.
    pub start_time_seconds: Gauge<f64, AtomicU64>,
    /// How long it took at the start to read the store and to extend leases.
    pub recovery_seconds: Gauge<f64, AtomicU64>,
    /// 1 while the certificate files are unusable and an older certificate is presented.
    pub certificate_stale: Gauge,
    /// Requests refused because of a tenant's limits, by limit.
    pub limited: Family<LimitLabel, Counter>,
    /// Tries to deliver effects, by what came of them.
    pub effect_tries: Family<OutcomeLabel, Counter>,
    /// 1 for each promise that the store gives about its commits, 0 for the others.
    pub promises: Family<PromiseLabel, Gauge>,
    /// Spans that a collector accepted.
    pub spans_sent: Counter,
    /// Spans that were lost, by reason.
    pub spans_dropped: Family<ReasonLabel, Counter>,
    pub connections: Gauge,
    /// Connections that were refused or closed by the server, by reason.
    pub disconnects: Family<ReasonLabel, Counter>,
    /// What runs used, by workspace.
    pub(crate) spend: SpendMetrics,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        // All labels exist from the start, so that a first loss shows as an increase.
        SpanDropReason::ALL.iter().for_each(|reason| metrics.count_dropped_spans(*reason, 0));
        for why in DisconnectReason::ALL {
            metrics.disconnects.get_or_create(&ReasonLabel { reason: why.name() }).inc_by(0);
        }
        for outcome in ["decided", "saved", "parked"] {
            metrics.messages.get_or_create(&OutcomeLabel { outcome }).inc_by(0);
        }
        metrics.clone().register_tasks(registry);
        metrics.clone().register_store(registry);
        metrics.clone().register_server(registry);
        metrics.spend.clone().register(registry);
        metrics
    }

    fn new() -> Self {
        Self {
            submitted: Counter::default(),
            granted: Counter::default(),
            renewed: Counter::default(),
            expired: Counter::default(),
            heartbeat_lag: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            wait_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 12)),
            attempt_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 12)),
            attempts: Family::default(),
            ended: Family::default(),
            stalls: Family::default(),
            instants: Family::default(),
            retries: Family::default(),
            verdicts: Family::default(),
            cancel_signals: Counter::default(),
            cancel_timeouts: Counter::default(),
            messages: Family::default(),
            polls_waiting: Gauge::default(),
            batch_items: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            commit_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
            failures: Counter::default(),
            set_aside: Gauge::default(),
            forgotten: Counter::default(),
            forget_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
            start_time_seconds: Gauge::default(),
            recovery_seconds: Gauge::default(),
            certificate_stale: Gauge::default(),
            limited: Family::default(),
            effect_tries: Family::default(),
            promises: Family::default(),
            spans_sent: Counter::default(),
            spans_dropped: Family::default(),
            connections: Gauge::default(),
            disconnects: Family::default(),
            spend: SpendMetrics::default(),
        }
    }

    fn register_tasks(self, registry: &mut Registry) {
        registry.register("tenure_tasks_submitted", "Tasks accepted", self.submitted);
        registry.register("tenure_leases_granted", "Leases granted", self.granted);
        registry.register("tenure_leases_renewed", "Leases renewed by a heartbeat", self.renewed);
        registry.register("tenure_leases_expired", "Leases that expired", self.expired);
        let help = "How much later than its interval a heartbeat arrived";
        registry.register("tenure_heartbeat_lag_seconds", help, self.heartbeat_lag);
        let help = "How long a task that could be leased waited for a worker";
        registry.register("tenure_wait_seconds", help, self.wait_seconds);
        registry.register(
            "tenure_attempt_seconds",
            "From a lease to its end",
            self.attempt_seconds,
        );
        registry.register("tenure_attempts_closed", "Attempts closed, by outcome", self.attempts);
        registry.register("tenure_tasks_ended", "Tasks ended, by state", self.ended);
        let help = "Attempts that made no progress for too long, by what followed";
        registry.register("tenure_stalls", help, self.stalls);
        let help = "Instants of schedules, by what became of them";
        registry.register("tenure_schedule_instants", help, self.instants);
        registry.register("tenure_retries_scheduled", "Retries, by category", self.retries);
        registry.register("tenure_verdicts", "Answers to calls under a lease", self.verdicts);
        registry.register("tenure_cancel_signals", "Cancel signals delivered", self.cancel_signals);
        registry.register(
            "tenure_cancel_timeouts",
            "Cancels that a worker ignored until the grace period ended",
            self.cancel_timeouts,
        );
        let help = "Messages between tasks, by what became of them: decided, saved or parked";
        registry.register("tenure_messages", help, self.messages);
        registry.register("tenure_polls_waiting", "Workers waiting for work", self.polls_waiting);
    }

    fn register_store(self, registry: &mut Registry) {
        registry.register("tenure_batch_items", "Requests per commit", self.batch_items);
        registry.register("tenure_commit_seconds", "Time of one commit", self.commit_seconds);
        registry.register("tenure_store_failures", "Batches the store refused", self.failures);
        let help = "Tasks that cannot be read, decided or stored, and are skipped for now";
        registry.register("tenure_tasks_set_aside", help, self.set_aside);
        let help = "1 if the store gives this promise about its commits, 0 if not";
        registry.register("tenure_store_promise", help, self.promises);
        registry.register(
            "tenure_tasks_forgotten",
            "Ended tasks removed by retention",
            self.forgotten,
        );
        let help = "Time of one retention commit";
        registry.register("tenure_forget_seconds", help, self.forget_seconds);
    }

    fn register_server(self, registry: &mut Registry) {
        let help = "When this coordinator started, in seconds since 1970; a change is a restart";
        registry.register("tenure_start_time_seconds", help, self.start_time_seconds);
        let help = "How long the start took to read the store and to recover leases";
        registry.register("tenure_recovery_seconds", help, self.recovery_seconds);
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tenure_build", "The running version", build);
        let stale = "1 if the certificate files are unusable and an older one is served";
        registry.register("tenure_certificate_stale", stale, self.certificate_stale);
        registry.register("tenure_limited", "Requests refused by a limit, by limit", self.limited);
        for outcome in ["delivered", "retried", "unknown", "dead"] {
            drop(self.effect_tries.get_or_create(&OutcomeLabel { outcome }));
        }
        registry.register(
            "tenure_effect_tries",
            "Tries to deliver effects, by what came of them",
            self.effect_tries,
        );
        registry.register(
            "tenure_spans_sent",
            "Spans that the collector accepted",
            self.spans_sent,
        );
        registry.register(
            "tenure_spans_dropped",
            "Spans that were lost, by reason",
            self.spans_dropped,
        );
        registry.register("tenure_connections", "Open connections", self.connections);
        let help = "Connections that the server did not accept or closed, by reason";
        registry.register("tenure_connections_turned_away", help, self.disconnects);
    }

    /// Counts a try to deliver an effect.
    #[cfg(feature = "http")]
    pub(crate) fn count_effect_try(&self, outcome: &'static str) {
        self.effect_tries.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn count_limited(&self, limited: LimitKind, times: u64) {
        let limit = match limited {
            LimitKind::Requests => "requests",
            LimitKind::UnfinishedRuns => "unfinished_runs",
            LimitKind::Budgets => "budgets",
            LimitKind::ExpiredTokens => "expired_tokens",
        };
        self.limited.get_or_create(&LimitLabel { limit }).inc_by(times);
    }

    pub(crate) fn count_dropped_spans(&self, reason: SpanDropReason, spans: u64) {
        let label = ReasonLabel { reason: reason.name() };
        self.spans_dropped.get_or_create(&label).inc_by(spans);
    }

    #[cfg(feature = "http")]
    pub(crate) fn count_disconnect(&self, why: DisconnectReason) {
        self.disconnects.get_or_create(&ReasonLabel { reason: why.name() }).inc();
    }

    /// Adds the counts of a durable batch.
    pub(crate) fn add(&self, batch_metrics: &BatchMetrics) {
        self.submitted.inc_by(batch_metrics.submitted);
        self.spend.add(&batch_metrics.spend);
        self.granted.inc_by(batch_metrics.granted);
        self.renewed.inc_by(batch_metrics.renewed);
        self.expired.inc_by(batch_metrics.expired);
        observe(&self.wait_seconds, &batch_metrics.waits);
        observe(&self.heartbeat_lag, &batch_metrics.heartbeat_lags);
        observe(&self.attempt_seconds, &batch_metrics.attempt_lengths);
        self.cancel_signals.inc_by(batch_metrics.cancel_signals);
        self.cancel_timeouts.inc_by(batch_metrics.cancel_timeouts);
        if batch_metrics.quota_refusals > 0 {
            self.count_limited(LimitKind::UnfinishedRuns, batch_metrics.quota_refusals);
        }
        if batch_metrics.budget_refusals > 0 {
            self.count_limited(LimitKind::Budgets, batch_metrics.budget_refusals);
        }
        let messages = [
            ("decided", batch_metrics.messages_decided),
            ("saved", batch_metrics.messages_saved),
            ("parked", batch_metrics.messages_parked),
        ];
        for (outcome, count) in messages.into_iter().filter(|(_, count)| *count > 0) {
            self.messages.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
        }
        for (outcome, count) in batch_metrics.attempts.iter() {
            self.attempts.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
        }
        for (state, count) in batch_metrics.ended.iter() {
            self.ended.get_or_create(&StateLabel { state }).inc_by(count);
        }
        for (action, count) in batch_metrics.stalls.iter() {
            self.stalls.get_or_create(&ActionLabel { action }).inc_by(count);
        }
        for (outcome, count) in batch_metrics.instants.iter() {
            self.instants.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
        }
        for (category, count) in batch_metrics.retries.iter() {
            self.retries.get_or_create(&CategoryLabel { category }).inc_by(count);
        }
        for ((verdict, code), count) in batch_metrics.verdicts.iter() {
            self.verdicts.get_or_create(&VerdictLabels { verdict, code }).inc_by(count);
        }
    }
}

/// Counts a worker as waiting for as long as its call lasts: a worker that disconnects drops its call, and the guard
/// with it.
pub(crate) struct WaitingPollGuard(Gauge);

impl WaitingPollGuard {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for WaitingPollGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn observe(histogram: &Histogram, spans: &[Span]) {
    spans.iter().for_each(|span| histogram.observe(span.millis() as f64 / 1_000.0));
}
