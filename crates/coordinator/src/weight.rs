//! How much of a commit's room a request takes: what it writes, counted before it is decided.
//!
//! One unit is about one task with its rows. The weight is a bound, not a forecast: a report that may end a task
//! weighs as if it did. It is known before the decision, so a heavy request makes its commit shorter and nobody's wait longer.

use std::sync::Arc;

use store::effects::StoredEndpoint;
use store::row_size;
use verdict::approval::{ApprovalCall, CONTENT_MAX};
use verdict::effect::EndpointStatus;
use verdict::plan::PlanRequest;
use verdict::run::{CheckpointCall, RunRequest};
use verdict::{Name, Request, Scope};

use crate::item::{ForkItem, Item, Poll, RecoveryCall, StepSubmission, Submission, TopologyCall};
use crate::outbox::{Endpoints, questions};

/// What one commit takes. Measurements showed no gain beyond a thousand, and a commit this size still ends within milliseconds.
pub(crate) const BATCH_WEIGHT_MAX: usize = 1_024;

/// What an effect weighs: it is stored as rows of several types, which was measured to take eight times the processor time of a
/// plain task (0.42 ms beside 0.05).
pub(crate) const EFFECT_WEIGHT: usize = 8;

/// What an artifact weighs that a call changes: the roles that claim nothing are asked about it, and their conditions are of a
/// tenant's making. Mostly they take less; the worst that is taken (`REVIEW_STEPS_MAX`, a millisecond) is some twenty units.
const REVIEWED_WEIGHT: usize = 4;

/// Lines of a log that are written at the cost of about one task with its rows.
const LOG_BYTES_PER_UNIT: usize = 4 * 1024;

/// Edges of a plan that are written at the cost of about one task with its rows: each is one narrow row, and was measured to take a
/// fifteenth of the time of a step.
const EDGES_PER_UNIT: usize = 8;

/// Bytes of a payload that are written at the cost of about one task with its rows.
pub(crate) const PAYLOAD_BYTES_PER_UNIT: usize = 16 * 1024;

/// Queues and kinds of a poll that are indexed at the cost of about one task with its rows.
const POLLED_NAMES_PER_UNIT: usize = 64;

/// What a list of polls takes between two batches, where it names as many queues and kinds as one answer does.
pub(crate) const LIST_OF_POLLS_WEIGHT: usize = 16;

/// How often a decision writes what people are shown: in the row of the task, in its history, and in the index and its log.
const CONTENT_WRITES: usize = 4;

/// The kinds of effects that the coordinator itself asks for begin with one of these words: ends, and approvals.
const TOLD: [&str; 3] = ["run.", "task.", questions::KINDS];

impl Item {
    /// What the request writes at most, where these endpoints may be told of ends.
    pub(crate) fn weight(&self, endpoints: &Endpoints) -> usize {
        let told =
            || self.ends_in().map_or(0, |scope| EFFECT_WEIGHT * subscribers(endpoints, scope));
        match self {
            // A debounced one takes the place of another, which ends.
            Item::Submit { submission, .. } => {
                of_submission(submission) + told() + asked_at_once(submission, endpoints)
            }
            Item::About { request, .. } => {
                let told = told() * (1 + questions_in(request));
                1 + recorded(request) + shown(request) + told + self.logged()
            }
            Item::Object(request) => request.weight(),
            Item::Recovery(item) => match &item.call {
                RecoveryCall::Match { notes } => 1 + notes.len(),
                RecoveryCall::Executed { outcomes, .. } => 1 + outcomes.len(),
                RecoveryCall::Expire { .. } | RecoveryCall::Decide { .. } => 1,
            },
            Item::Topology(item) => match &item.call {
                TopologyCall::Report(report) => 1 + REVIEWED_WEIGHT * report.changes.len() + told(),
                TopologyCall::Create { .. }
                | TopologyCall::Move { .. }
                | TopologyCall::Advance { .. }
                | TopologyCall::Go { .. } => REVIEWED_WEIGHT,
                TopologyCall::Apply(_)
                | TopologyCall::Pause
                | TopologyCall::Resume
                | TopologyCall::Delete
                | TopologyCall::Emit { .. }
                | TopologyCall::Tick
                | TopologyCall::Scanned { .. }
                | TopologyCall::ClosePause { .. }
                | TopologyCall::Settled
                | TopologyCall::Unprocessed { .. } => 1,
            },
            Item::WithChildren { request, children, effects, watched, .. } => {
                let children: usize = children.iter().map(of_submission).sum();
                let asked = children + EFFECT_WEIGHT * effects.len() + watched.len();
                let told = told() * (1 + questions_in(request));
                1 + asked + recorded(request) + shown(request) + told + self.logged()
            }
        }
    }

    /// What its lines weigh.
    fn logged(&self) -> usize {
        self.log().map_or(0, |(_, _, log)| log.bytes().div_ceil(LOG_BYTES_PER_UNIT))
    }

    /// The scope of a task that the request may end.
    fn ends_in(&self) -> Option<&Scope> {
        if let Item::Submit { submission, .. } = self {
            return submission.debounce.as_ref().map(|_| &submission.scope);
        }
        let (key, request) = self.about()?;
        may_end(request).then_some(&key.scope)
    }
}

/// What a submission writes: the run, and whatever comes with it.
pub(crate) fn of_submission(submission: &Submission) -> usize {
    let inherited = submission.fork.as_ref().map_or(0, |fork| fork.items.len());
    let edges: usize = steps(submission).iter().map(|step| step.upstreams.len()).sum();
    let payloads = steps(submission).iter().map(|step| step.input.as_str().len());
    let bytes = submission.spec.input.as_str().len() + payloads.sum::<usize>();
    let rows = 1 + steps(submission).len() + inherited;
    rows + edges / EDGES_PER_UNIT + bytes / PAYLOAD_BYTES_PER_UNIT
}

/// How many tasks a submission creates: the run, the steps of its plan, and the children that a fork starts again.
pub(crate) fn tasks(submission: &Submission) -> usize {
    let items = submission.fork.iter().flat_map(|fork| &fork.items);
    let again = items.filter(|item| matches!(item, ForkItem::Again { .. })).count();
    1 + steps(submission).len() + again
}

fn steps(submission: &Submission) -> &[StepSubmission] {
    submission.steps.as_ref().map_or(&[], |planned| &planned.steps)
}

impl Poll {
    /// What it takes to wait: it is indexed by each of its queues and kinds.
    pub(crate) fn weight(&self) -> usize {
        let names = self.queues.len() + self.kinds.as_ref().map_or(0, Vec::len);
        1 + names / POLLED_NAMES_PER_UNIT
    }
}

fn may_end(request: &Request) -> bool {
    match request {
        Request::Submit(_)
        | Request::Grant(_)
        | Request::Started(_)
        | Request::Heartbeat(_)
        | Request::Undelivered(_)
        | Request::Extend(_) => false,
        Request::Report(_) | Request::Cancel(_) | Request::Sweep => true,
        Request::Run(run) => match &**run {
            // What it says that it used may halt the run.
            RunRequest::Metered(_) => true,
            RunRequest::Signal(_)
            | RunRequest::Resume
            | RunRequest::Unpin
            | RunRequest::Inherit(_) => false,
            RunRequest::Checkpoint(_)
            | RunRequest::Message(_)
            | RunRequest::Decide(_)
            | RunRequest::Plan(_) => true,
        },
    }
}

/// The steps of a checkpoint call: each is a record. And what is long of a result, an output or a signal.
fn recorded(request: &Request) -> usize {
    let steps = request.checkpoint_call().map_or(0, |call| call.steps.len());
    steps + row_size::request(request) / PAYLOAD_BYTES_PER_UNIT
}

/// What people are shown because of the request. How much a vote writes again is known only when it is decided.
fn shown(request: &Request) -> usize {
    let bytes = match (request, request.checkpoint_call().and_then(CheckpointCall::wait)) {
        (_, Some(wait)) => wait.approvals.iter().map(ApprovalCall::content_bytes).sum(),
        (Request::Run(run), None) => match &**run {
            RunRequest::Decide(_) => CONTENT_MAX,
            RunRequest::Plan(PlanRequest::Prepared(prepared)) => prepared.content_bytes(),
            _ => 0,
        },
        _ => 0,
    };
    (CONTENT_WRITES * bytes).div_ceil(LOG_BYTES_PER_UNIT)
}

/// How many approvals the request opens.
fn questions_in(request: &Request) -> usize {
    let wait = request.checkpoint_call().and_then(CheckpointCall::wait);
    wait.map_or(0, |wait| wait.approvals.len())
}

/// What it weighs that a plan which begins with a question tells of it.
fn asked_at_once(submission: &Submission, endpoints: &Endpoints) -> usize {
    let first = submission.stages.as_ref().and_then(|stages| stages.first());
    let asks_first = first.is_some_and(|stage| stage.asks.is_some());
    let steps = submission.steps.as_ref().map_or(&[][..], |planned| &planned.steps[..]);
    let asking = steps.iter().filter(|step| step.terms.asks.is_some() && step.upstreams.is_empty());
    match usize::from(asks_first) + asking.count() {
        0 => 0,
        questions => questions * EFFECT_WEIGHT * subscribers(endpoints, &submission.scope),
    }
}

/// How many endpoints may be told of an end in this scope.
fn subscribers(endpoints: &Endpoints, scope: &Scope) -> usize {
    let Some(of_scope) = endpoints.get(scope) else { return 0 };
    let is_told = |stored: &&Arc<StoredEndpoint>| {
        let endpoint = &stored.endpoint;
        endpoint.status != EndpointStatus::Deleted && endpoint.types.iter().any(hears_of_ends)
    };
    of_scope.values().filter(is_told).count()
}

/// Whether this word may subscribe to the kind of an end.
fn hears_of_ends(word: &Name) -> bool {
    let hears = |end: &&str| match word.as_str().strip_suffix('*') {
        Some(beginning) => beginning.starts_with(*end) || end.starts_with(beginning),
        None => word.as_str().starts_with(*end),
    };
    TOLD.iter().any(hears)
}

#[cfg(test)]
mod tests {
    use store::TaskKey;
    use store::objects::schedule_change;
    use verdict::effect::Endpoint;
    use verdict::log::{Level, SentLine, SentLog};
    use verdict::request::{Caller, Cancel, CancelMode, Heartbeat, Outcome, Report};
    use verdict::run::{CheckpointCall, Then};
    use verdict::schedule::{CatchUp, Overlap, Recurrence, RunSize, Schedule, Template, Terms};
    use verdict::{Digest, Object, ObjectKey, ObjectType, Span, TaskId, Time};

    use super::*;
    use crate::item::TopologyItem;
    use crate::subjects::ObjectRequest;

    /// A hundred endpoints that hear of every end, the most that a workspace has.
    fn hundred() -> Endpoints {
        let stored = |n: u32| {
            let name = Name::from(format!("e{n}"));
            let mut endpoint = Endpoint::new(name.clone(), "https://example.com/".into());
            endpoint.types = vec!["*".into()];
            let created_at = Time::default();
            (name, Arc::new(StoredEndpoint { endpoint, secrets: vec![], created_at }))
        };
        [(Scope::default(), (0..100).map(stored).collect())].into()
    }

    fn about(request: Request) -> Item {
        let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(1) };
        Item::asking(key, request)
    }

    #[test]
    fn what_may_end_a_task_weighs_what_its_end_tells() {
        let cancel = about(Request::Cancel(Cancel { mode: CancelMode::Graceful, reason: None }));
        assert_eq!(cancel.weight(&Endpoints::new()), 1);
        assert_eq!(cancel.weight(&hundred()), 1 + 100 * EFFECT_WEIGHT);
        // Two hundred of them are no single commit.
        assert!(200 * cancel.weight(&hundred()) > 150 * BATCH_WEIGHT_MAX);
        let other = Scope { tenant: "other".into(), ..Scope::default() };
        let key = TaskKey { scope: other, id: TaskId::from_u128(1) };
        let request = Request::Cancel(Cancel { mode: CancelMode::Graceful, reason: None });
        assert_eq!(Item::asking(key, request).weight(&hundred()), 1, "of another scope");
        assert_eq!(
            about(Request::Undelivered(verdict::request::Undelivered {
                lease: verdict::LeaseId::from_u128(1)
            }))
            .weight(&hundred()),
            1
        );
    }

    fn caller() -> Caller {
        Caller { worker: "w".into(), attempt: 1, lease: verdict::LeaseId::from_u128(1), epoch: 1 }
    }

    fn submission(run: &str) -> Submission {
        let run = wire::parse(run.as_bytes()).unwrap();
        crate::requests::submission(&Scope::default(), run).unwrap()
    }

    #[test]
    fn each_child_of_a_call_weighs_as_a_submission() {
        let call = CheckpointCall {
            caller: caller(),
            digest: Digest::from_bytes([0; 32]),
            steps: Vec::new(),
            children: Vec::new(),
            then: Then::Continue,
            asked_by: None,
        };
        let with_children = |count: usize| Item::WithChildren {
            key: TaskKey { scope: Scope::default(), id: TaskId::from_u128(1) },
            request: Request::Run(Box::new(RunRequest::Checkpoint(call.clone()))),
            children: vec![submission(r#"{"kind": "k", "queue": "q"}"#); count].into(),
            effects: Box::default(),
            watched: Box::default(),
            log: None,
        };
        let none = Endpoints::new();
        assert_eq!(with_children(500).weight(&none) - with_children(0).weight(&none), 500);
    }

    #[test]
    fn each_step_of_a_plan_weighs_as_a_task() {
        let steps = r#"{"key": "a", "kind": "k", "queue": "q"},
            {"key": "b", "kind": "k", "queue": "q", "dependsOn": ["a"]}"#;
        let planned = submission(&format!(r#"{{"plan": {{"steps": [{steps}]}}}}"#));
        let submit = |submission| Item::Submit { submission, input: Digest::from_bytes([0; 32]) };
        let plain = submit(submission(r#"{"kind": "k", "queue": "q"}"#)).weight(&Endpoints::new());
        assert_eq!(submit(planned).weight(&Endpoints::new()) - plain, 2);
    }

    #[test]
    fn edges_and_payloads_weigh_what_they_have_to_be_written() {
        let step = |n: usize, upstreams: &str| {
            format!(r#"{{"key": "s{n}", "kind": "k", "queue": "q", "dependsOn": [{upstreams}]}}"#)
        };
        let upstreams: Vec<String> = (0..40).map(|n| format!("\"s{n}\"")).collect();
        let first = (0..40).map(|n| step(n, ""));
        let joined = (40..60).map(|n| step(n, &upstreams.join(",")));
        let steps: Vec<String> = first.chain(joined).collect();
        let planned = submission(&format!(r#"{{"plan": {{"steps": [{}]}}}}"#, steps.join(",")));
        assert_eq!(of_submission(&planned), 1 + 60 + 20 * 40 / EDGES_PER_UNIT);
        assert_eq!(
            (tasks(&planned), tasks(&submission(r#"{"kind": "k", "queue": "q"}"#))),
            (61, 1)
        );
        let input = "x".repeat(200 * 1024);
        let large = submission(&format!(r#"{{"kind": "k", "queue": "q", "input": "{input}"}}"#));
        assert_eq!(of_submission(&large), 1 + 12, "200 KiB and two quotes");
    }

    /// A schedule that a second calendar instant has reached.
    fn schedule_object(size: RunSize) -> Object {
        let recurrence = Recurrence::Every { every: Span::from_secs(1), anchor: Time::default() };
        let (overlap, catch_up) = (Overlap::Allow, CatchUp::One);
        let terms = Terms { recurrence, overlap, catch_up, window: Span::from_secs(60) };
        let now = Time::default();
        let schedule = Schedule::new("s".into(), terms, false, Some(now), now);
        let template = Template { run: "{}".into(), size };
        let schedule = schedule.submitting(&template);
        let (scope, id) = (Scope::default(), Name::from("sched_1"));
        let key = ObjectKey { scope, object_type: ObjectType::Schedule, id };
        schedule_change(key, 1, &schedule, now, None).after
    }

    #[test]
    fn a_firing_weighs_what_its_runs_write_and_not_more_than_one_decision_submits() {
        let fires = |size: RunSize| {
            let object = schedule_object(size);
            ObjectRequest::of_due(&object, Time::default()).expect("a schedule").weight()
        };
        assert_eq!(fires(RunSize::ONE), 1);
        assert_eq!(fires(RunSize { tasks: 801, weight: 850 }), 850);
    }

    #[test]
    fn what_asks_the_roles_of_a_deployment_weighs_more_than_what_does_not() {
        let about = |call| {
            let (scope, deployment) = (Scope::default(), Name::from("d"));
            Item::Topology(Box::new(TopologyItem {
                scope,
                deployment,
                generation: 1,
                call,
                by: None,
            }))
        };
        let artifact = topology::deployment::ArtifactRef { kind: "ticket".into(), id: "1".into() };
        let none = Endpoints::new();
        assert_eq!(about(TopologyCall::Pause).weight(&none), 1);
        assert_eq!(about(TopologyCall::Advance { artifact }).weight(&none), REVIEWED_WEIGHT);
    }

    #[test]
    fn lines_of_a_log_weigh_what_they_have_to_be_written() {
        let caller = caller();
        let beat =
            || about(Request::Heartbeat(Heartbeat { caller: caller.clone(), progress: None }));
        let line = |_| SentLine { number: None, at: None, level: Level::Info, text: "x".into() };
        let log = SentLog::new((0..1_000).map(line).collect()).map(Box::new);
        assert_eq!(beat().weight(&Endpoints::new()), 1);
        assert_eq!(beat().with_log(log).weight(&Endpoints::new()), 1 + 9);
    }

    #[test]
    fn a_long_payload_weighs_by_its_bytes() {
        let none = Endpoints::new();
        let long = "x".repeat(250_000);
        let run = submission(&format!(r#"{{"kind": "k", "queue": "q", "input": "{long}"}}"#));
        let submit = |submission| Item::Submit { submission, input: Digest::from_bytes([0; 32]) };
        assert_eq!(submit(run).weight(&none), 1 + 15);
        let report = |output: &str| {
            let outcome = Outcome::Succeeded { output: Some(output.into()) };
            let (digest, claims, by) = (Digest::from_bytes([0; 32]), None, None);
            about(Request::Report(Report { caller: caller(), outcome, claims, digest, by }))
        };
        assert_eq!(report("{}").weight(&none), 1);
        assert_eq!(report(&long).weight(&none), 1 + 15);
    }

    #[test]
    fn a_poll_weighs_by_the_queues_and_kinds_that_it_names() {
        let poll = |queues: usize, kinds: usize| Poll {
            scope: Scope::default(),
            worker: "w".into(),
            queues: vec!["q".into(); queues],
            kinds: Some(vec!["k".into(); kinds]),
            max: 1,
            until: tokio::time::Instant::now(),
            poll: None,
            build: None,
        };
        assert_eq!(poll(2, 9).weight(), 1);
        assert_eq!(poll(32, 256).weight(), 1 + 4);
    }

    #[test]
    fn words_that_subscribe_to_ends_are_counted_and_others_are_not() {
        for word in ["*", "run.*", "task.*", "run.failed", "r*", "run.f*", "approval.opened"] {
            assert!(hears_of_ends(&word.into()), "{word}");
        }
        for word in ["budget.*", "runs", "approvals", "b*"] {
            assert!(!hears_of_ends(&word.into()), "{word}");
        }
    }
}
