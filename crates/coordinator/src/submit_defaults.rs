//! What a submission means where it says nothing: the operator's defaults, for one queue or for all.
//!
//! They are applied once, when a run is submitted, and stored with it: a later change affects new runs alone. The digest
//! of a submission covers what the client sent and no default, so that a repeated submission is recognised whatever the
//! operator has changed meanwhile. Nothing here is a rule.

use std::collections::BTreeMap;

use verdict::flow::{Rate, Terms, UNLIMITED};
use verdict::{FlowKey, Span};
use wire::limits::{LEASE_PER_INTERVAL_MIN, STALL_PER_INTERVAL_MIN};
use wire::requests::{Flow, FlowHold, FlowRate, Stall, StallAction, SubmitRun};
use wire::{Check, FieldError};

/// The defaults of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmitDefaults {
    /// For every queue.
    pub server: PolicyDefaults,
    /// For single queues, in every scope; they win over those of the server.
    pub queues: BTreeMap<String, PolicyDefaults>,
    /// For single kinds, in every scope and queue: how many of their runs may be active at once, and how often they may start.
    pub kinds: BTreeMap<String, FlowDefaults>,
}

/// Defaults of the members of a submission; `None` leaves the documented default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyDefaults {
    pub lease_ms: Option<u64>,
    pub heartbeat_interval_ms: Option<u64>,
    pub cancel_grace_ms: Option<u64>,
    pub max_attempts: Option<u32>,
    pub lost_max: Option<u32>,
    /// How long an attempt may only send heartbeats before the task is given to another worker.
    pub stall_after_ms: Option<u64>,
    /// For runs that have no flow key of their own.
    pub flow: FlowDefaults,
}

/// The flow key of a queue or kind, if it has any of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowDefaults {
    /// How many runs may be active at once.
    pub limit: Option<u32>,
    /// How often runs may start.
    pub rate: Option<FlowRate>,
    /// How long a submitted run waits for a newer one, which replaces it.
    pub debounce_ms: Option<u64>,
    /// How long such runs may wait together.
    pub debounce_max_ms: Option<u64>,
    /// How long a run holds its slot.
    pub hold: Option<FlowHold>,
}

impl FlowDefaults {
    /// The flow key with this name; `None` if nothing is limited.
    fn flow(self, key: &FlowKey) -> Option<Flow> {
        let Self { limit, rate, debounce_ms, debounce_max_ms, hold } = self;
        let key = key.name.to_string();
        let is_any = self != Self::default();
        is_any.then_some(Flow { key, limit, rate, debounce_ms, debounce_max_ms, hold })
    }
}

/// What a key with this limit and rate asks for.
pub(crate) fn terms_of(limit: Option<u32>, rate: Option<FlowRate>) -> Terms {
    let rate =
        rate.map(|FlowRate { count, per_ms }| Rate { count, per: Span::from_millis(per_ms) });
    Terms { limit: limit.unwrap_or(UNLIMITED), rate }
}

impl SubmitDefaults {
    /// Refuses defaults that no submission could name. The error names the queue, if it is about one.
    pub fn check(&self) -> Result<(), (Option<String>, FieldError)> {
        self.server.check().map_err(|error| (None, error))?;
        for (queue, own) in &self.queues {
            let named = |error| (Some(queue.clone()), error);
            own.over(self.server).check().map_err(named)?;
        }
        let kinds = self.kinds.iter().map(|(kind, flow)| (kind, *flow));
        let queues = self.queues.iter().map(|(queue, own)| (queue, own.flow));
        for (name, flow) in kinds.chain(queues) {
            check_flow(flow).map_err(|error| (Some(name.clone()), error))?;
        }
        Ok(())
    }

    /// Gives a run without a flow key that of its kind or queue.
    pub(crate) fn fill_flow(&self, run: &mut SubmitRun) {
        if run.flow.is_none() {
            run.flow = self.flow(&run.kind, &run.queue);
        }
    }

    /// The flow key of a run that names none: that of its kind, else that of its queue.
    fn flow(&self, kind: &str, queue: &str) -> Option<Flow> {
        let of_kind = || self.kinds.get(kind)?.flow(&FlowKey::of_kind(kind, UNLIMITED));
        let of_queue = || self.queues.get(queue)?.flow.flow(&FlowKey::of_queue(queue, UNLIMITED));
        of_kind().or_else(of_queue)
    }

    /// Completes a valid submission.
    pub(crate) fn fill(&self, run: &mut SubmitRun) {
        let defaults = match self.queues.get(&run.queue) {
            Some(own) => own.over(self.server),
            None => self.server,
        };
        defaults.fill(run);
    }
}

impl PolicyDefaults {
    /// These defaults, and others where they have none. A lease comes with its own interval: one for a longer lease may
    /// not fit into it.
    fn over(self, others: PolicyDefaults) -> PolicyDefaults {
        let (lease_ms, heartbeat_interval_ms) = match self.lease_ms {
            Some(_) => (self.lease_ms, self.heartbeat_interval_ms),
            None => (others.lease_ms, self.heartbeat_interval_ms.or(others.heartbeat_interval_ms)),
        };
        PolicyDefaults {
            lease_ms,
            heartbeat_interval_ms,
            cancel_grace_ms: self.cancel_grace_ms.or(others.cancel_grace_ms),
            max_attempts: self.max_attempts.or(others.max_attempts),
            lost_max: self.lost_max.or(others.lost_max),
            stall_after_ms: self.stall_after_ms.or(others.stall_after_ms),
            flow: self.flow,
        }
    }

    /// Valid are the values that a submission may have.
    fn check(self) -> Result<(), FieldError> {
        let (kind, queue) = ("kind".to_owned(), "queue".to_owned());
        let mut run = SubmitRun { kind, queue, ..SubmitRun::default() };
        self.fill(&mut run);
        run.check()
    }

    fn fill(self, run: &mut SubmitRun) {
        self.fill_lease(run);
        run.cancel_grace_ms = run.cancel_grace_ms.or(self.cancel_grace_ms);
        run.max_attempts = run.max_attempts.or(self.max_attempts);
        run.lost_max = run.lost_max.or(self.lost_max);
        if run.plan.is_none() {
            run.stall = run.stall.or_else(|| self.stall(run));
        }
    }

    /// A run whose heartbeats are rare has the time of two of them to say how far it is.
    fn stall(self, run: &SubmitRun) -> Option<Stall> {
        let least = run.heartbeat_interval_ms.unwrap_or(0).saturating_mul(STALL_PER_INTERVAL_MIN);
        let after_ms = self.stall_after_ms?.max(least);
        Some(Stall { after_ms, action: StallAction::Requeue })
    }

    /// A run that names its lease gets the interval that is usual for it, and a run that names an interval too long for
    /// the default lease gets the documented one: what was valid without defaults is valid with them.
    fn fill_lease(self, run: &mut SubmitRun) {
        match (run.lease_ms, run.heartbeat_interval_ms) {
            (None, None) => {
                (run.lease_ms, run.heartbeat_interval_ms) =
                    (self.lease_ms, self.heartbeat_interval_ms);
            }
            (None, Some(interval)) => {
                let needed = interval.saturating_mul(LEASE_PER_INTERVAL_MIN);
                run.lease_ms = self.lease_ms.filter(|lease| *lease >= needed);
            }
            (Some(_), _) => {}
        }
    }
}

/// Valid is what a submission may have.
fn check_flow(own: FlowDefaults) -> Result<(), FieldError> {
    let (kind, queue) = ("kind".to_owned(), "queue".to_owned());
    let flow = own.flow(&FlowKey::new("key", UNLIMITED));
    SubmitRun { kind, queue, flow, ..SubmitRun::default() }.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> SubmitDefaults {
        let server = PolicyDefaults {
            lease_ms: Some(30_000),
            heartbeat_interval_ms: Some(5_000),
            lost_max: Some(7),
            ..PolicyDefaults::default()
        };
        let video = PolicyDefaults {
            lease_ms: Some(600_000),
            max_attempts: Some(1),
            ..PolicyDefaults::default()
        };
        let two = FlowDefaults { limit: Some(2), ..FlowDefaults::default() };
        let kinds = [("import".to_owned(), two)].into();
        SubmitDefaults { server, queues: [("video".to_owned(), video)].into(), kinds }
    }

    #[test]
    fn runs_without_a_key_get_that_of_their_kind_or_queue() {
        let mut defaults = defaults();
        defaults.queues.get_mut("video").unwrap().flow.limit = Some(4);
        assert_eq!(defaults.check(), Ok(()));
        assert_eq!(defaults.flow("import", "video"), Some(own("kind:import", 2)));
        assert_eq!(defaults.flow("cut", "video"), Some(own("queue:video", 4)));
        assert_eq!(defaults.flow("cut", "images"), None);
        let none = FlowDefaults { limit: Some(0), ..FlowDefaults::default() };
        defaults.kinds.insert("export".to_owned(), none);
        assert_eq!(defaults.check().unwrap_err().0.as_deref(), Some("export"));
    }

    fn own(key: &str, limit: u32) -> Flow {
        Flow { key: key.to_owned(), limit: Some(limit), ..Flow::default() }
    }

    #[test]
    fn a_key_of_its_own_wins() {
        let mut run: SubmitRun =
            wire::parse(br#"{"kind":"import","queue":"q","flow":{"key":"own","limit":1}}"#)
                .unwrap();
        defaults().fill_flow(&mut run);
        assert_eq!(run.flow, Some(own("own", 1)));
        run.flow = None;
        defaults().fill_flow(&mut run);
        assert_eq!(run.flow, Some(own("kind:import", 2)));
    }

    #[test]
    fn clients_cannot_use_the_keys_that_an_operator_gives() {
        for flow in [FlowKey::of_queue("video", 1), FlowKey::of_kind("import", 1)] {
            let key = flow.name.to_string();
            let run = SubmitRun {
                kind: "k".to_owned(),
                queue: "q".to_owned(),
                flow: Some(own(&key, 1)),
                ..SubmitRun::default()
            };
            assert!(flow.is_configured() && run.check().is_err(), "{flow:?}");
        }
    }

    fn filled(text: &str) -> SubmitRun {
        let mut run: SubmitRun = wire::parse(text.as_bytes()).unwrap();
        defaults().fill(&mut run);
        run.check().expect("what was valid stays valid");
        run
    }

    #[test]
    fn a_silent_submission_gets_the_defaults_of_its_queue_and_then_of_the_server() {
        let run = filled(r#"{"kind":"k","queue":"images"}"#);
        assert_eq!((run.lease_ms, run.heartbeat_interval_ms), (Some(30_000), Some(5_000)));
        assert_eq!((run.max_attempts, run.lost_max, run.cancel_grace_ms), (None, Some(7), None));
        let run = filled(r#"{"kind":"k","queue":"video"}"#);
        // The queue's lease does not have the interval of the server's shorter one.
        assert_eq!((run.lease_ms, run.heartbeat_interval_ms), (Some(600_000), None));
        assert_eq!((run.max_attempts, run.lost_max), (Some(1), Some(7)));
    }

    #[test]
    fn a_silent_submission_gets_the_bound_on_attempts_that_only_send_heartbeats() {
        let mut defaults = defaults();
        defaults.server.stall_after_ms = Some(60_000);
        defaults.queues.get_mut("video").unwrap().stall_after_ms = Some(7_200_000);
        assert_eq!(defaults.check(), Ok(()));
        let filled = |text: &str| {
            let mut run: SubmitRun = wire::parse(text.as_bytes()).unwrap();
            defaults.fill(&mut run);
            run.check().expect("what was valid stays valid");
            run.stall.map(|stall| (stall.after_ms, stall.action))
        };
        let requeued = |after| Some((after, StallAction::Requeue));
        assert_eq!(filled(r#"{"kind":"k","queue":"q"}"#), requeued(60_000));
        assert_eq!(filled(r#"{"kind":"k","queue":"video"}"#), requeued(7_200_000));
        let own = r#"{"kind":"k","queue":"video","stall":{"afterMs":50000}}"#;
        assert_eq!(filled(own), Some((50_000, StallAction::Warn)));
        let rare = r#"{"kind":"k","queue":"q","leaseMs":600000,"heartbeatIntervalMs":40000}"#;
        assert_eq!(filled(rare), requeued(80_000));
        let plan = r#"{"plan":{"steps":[{"key":"a","kind":"k","queue":"q"}]}}"#;
        let mut plan: SubmitRun = wire::parse(plan.as_bytes()).unwrap();
        defaults.fill(&mut plan);
        assert_eq!(plan.stall, None, "its steps have it");
    }

    #[test]
    fn what_a_submission_says_wins_and_stays_valid() {
        let run = filled(r#"{"kind":"k","queue":"q","leaseMs":6000,"lostMax":1}"#);
        assert_eq!((run.lease_ms, run.heartbeat_interval_ms), (Some(6_000), None));
        assert_eq!(run.lost_max, Some(1));
        let run = filled(r#"{"kind":"k","queue":"q","heartbeatIntervalMs":40000}"#);
        assert_eq!((run.lease_ms, run.heartbeat_interval_ms), (None, Some(40_000)));
        let run = filled(r#"{"kind":"k","queue":"q","heartbeatIntervalMs":15000}"#);
        assert_eq!(run.lease_ms, Some(30_000));
    }

    #[test]
    fn defaults_that_no_submission_may_have_are_refused() {
        assert_eq!(defaults().check(), Ok(()));
        let mut wrong = defaults();
        wrong.server.lease_ms = Some(1_000);
        assert_eq!(wrong.check().unwrap_err().0, None);
        let mut wrong = defaults();
        // S4-38: the interval must fit twice.
        wrong.queues.get_mut("video").unwrap().heartbeat_interval_ms = Some(400_000);
        let (queue, error) = wrong.check().unwrap_err();
        assert_eq!(queue.as_deref(), Some("video"));
        assert!(error.to_string().contains("heartbeatIntervalMs"), "{error}");
    }
}
