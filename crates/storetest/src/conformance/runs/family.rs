//! Carries the requests of durable runs, with the messages that their decisions send.

use std::collections::{BTreeMap, VecDeque};

use store::browse::{Browse, RowsAfter};
use store::row::{Refused, Spec, TaskKey};
use store::runs::{
    DeferredMessage, MessageChanges, MessageKey, ParkedMessage, RunLookup, SavedMessage, StoredStep,
};
use store::seam::{Batch, Decided, Loaded, Lookup, Selection, Store, Writer};
use store::verify::verify;
use verdict::plan::{PlanMessage, PlanRequest, PlanStep};
use verdict::request::{Caller, Outcome, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, Body, CheckpointCall, ChildCall, Items, Message, Records, RunRequest,
    SignalCall, Spend, Step, StepCall, StepOutcome, Then, WaitCall, WaitMode,
};
use verdict::{
    Answer, Context, Digest, Json, Moment, Name, Refusal, Request, RunRefusal, Scope, Span,
    Subject, TaskId, Time,
};

use crate::conformance::carry::{Submission, change};
use crate::conformance::driver::{Driver, caller};
use crate::conformance::fixture::Fixture;

/// What becomes of the messages of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Decided in the same batch.
    AtOnce,
    /// Saved with the decision, and decided by [`Family::deliver`].
    Later,
}

/// The tasks of a scenario, with the reference of what each recorded.
pub struct Family {
    pub delivery: Delivery,
    records: BTreeMap<TaskId, Records>,
}

/// One decision to carry.
struct Ask {
    key: TaskKey,
    request: Request,
    spec: Option<Spec>,
}

impl Family {
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, records: BTreeMap::new() }
    }

    /// Decides one request in a batch, with everything that follows from it.
    pub async fn ask<F: Fixture>(
        &mut self,
        driver: &mut Driver<F>,
        key: &TaskKey,
        request: RunRequest,
    ) -> Answer {
        self.about(driver, key, Request::Run(Box::new(request))).await
    }

    /// Decides a submission.
    pub async fn submit<F: Fixture>(
        &mut self,
        driver: &mut Driver<F>,
        key: &TaskKey,
        request: RunRequest,
        spec: Spec,
    ) -> Answer {
        let request = Request::Run(Box::new(request));
        let first = Ask { key: key.clone(), request, spec: Some(spec) };
        self.carry(driver, vec![first]).await.into_iter().next().expect("one request, one answer")
    }

    /// The same for a plain request about a task of a durable run.
    pub async fn about<F: Fixture>(
        &mut self,
        driver: &mut Driver<F>,
        key: &TaskKey,
        request: Request,
    ) -> Answer {
        let first = Ask { key: key.clone(), request, spec: None };
        self.carry(driver, vec![first]).await.into_iter().next().expect("one request, one answer")
    }

    /// Sweeps what is due.
    pub async fn sweep<F: Fixture>(&mut self, driver: &mut Driver<F>) -> usize {
        driver.pause().await;
        let now = driver.now();
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let due = batch.select(Selection::Due { now }, 1_000).await.expect("due works");
        drop(batch);
        let sweep = |task: verdict::Task| Ask {
            key: TaskKey { scope: task.scope.clone(), id: task.id },
            request: Request::Sweep,
            spec: None,
        };
        let count = due.len();
        self.carry(driver, due.into_iter().map(sweep).collect()).await;
        count
    }

    async fn carry<F: Fixture>(&mut self, driver: &mut Driver<F>, steps: Vec<Ask>) -> Vec<Answer> {
        driver.pause().await;
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let (mut answers, mut saved) = (Vec::new(), Vec::new());
        let mut queue = VecDeque::from(steps);
        while let Some(step) = queue.pop_front() {
            let at = batch.moment().await.expect("the clock can be read");
            let (answer, messages) = self.decide(&mut batch, step).await;
            answers.push(answer);
            match self.delivery {
                Delivery::AtOnce => queue.extend(messages.into_iter().map(addressed)),
                Delivery::Later => {
                    saved.extend(messages.into_iter().map(|it| save(it, at.now)));
                }
            }
        }
        let messages = MessageChanges { saved, ..MessageChanges::default() };
        batch.save(Decided { messages, ..Decided::default() }).await.expect("messages are saved");
        batch.commit().await.expect("the batch commits");
        answers
    }

    /// Loads, compares with the reference, decides and saves.
    async fn decide<B: Batch>(
        &mut self,
        batch: &mut B,
        step: Ask,
    ) -> (Answer, Vec<(Scope, Message)>) {
        let Ask { key, request, spec } = step;
        let (subject, loaded, closed) = self.load(batch, &key, &request).await;
        let at = batch.moment().await.expect("the clock can be read");
        let context = Context { closed: closed.as_ref(), run: Some(&loaded), ..Context::default() };
        let (applied, mut change) = change(subject, context, &request, at);
        let refused = match &applied.answer {
            Answer::Refused(refusal) => Refused::of(&key, &request, refusal, applied.at.now),
            _ => None,
        };
        let records = self.records.entry(key.id).or_default();
        if let Some(change) = &mut change {
            change.spec = spec.filter(|_| change.before.is_none());
            change.steps = steps_of(&request);
            records.put_steps(&steps_in(&request));
        }
        records.note(applied.events());
        let messages = applied.settled.map_or_else(Vec::new, |settled| settled.messages);
        let decided = Decided {
            changes: Vec::from_iter(change),
            refused: Vec::from_iter(refused),
            ..Decided::default()
        };
        batch.save(decided).await.expect("the store takes what was decided");
        let scoped = messages.into_iter().map(|message| (key.scope.clone(), message));
        (applied.answer, scoped.collect())
    }

    async fn load<B: Batch>(
        &mut self,
        batch: &mut B,
        key: &TaskKey,
        request: &Request,
    ) -> (Subject, verdict::Loaded, Option<verdict::ClosedAttempt>) {
        let leases: Vec<_> =
            request.caller().map(|caller| (key.id, caller.lease)).into_iter().collect();
        let tasks = std::slice::from_ref(key);
        let lookup = Lookup { tasks, leases: &leases, ..Lookup::default() };
        let run = RunLookup::of(key, request);
        let found = batch.look_up(Lookup { runs: run.as_slice(), ..lookup }).await;
        let mut found = found.expect("loading works");
        assert_eq!(found.step_specs, [], "only a sweep spawns");
        let Some(Loaded::Subject(subject)) = found.tasks.pop() else {
            panic!("no other writer has {}", key.id)
        };
        let sweep = subject.live().filter(|_| *request == Request::Sweep);
        if let Some(run) = sweep.and_then(RunLookup::sweep) {
            let again = batch.look_up(Lookup::runs(&[run])).await.expect("loading works");
            let plan = again.runs.first().and_then(|loaded| loaded.plan.as_ref());
            let unspawned = plan.map_or(&[][..], |plan| &plan.unspawned);
            let ids = unspawned.iter().map(|row| row.step.child.submit.id);
            let specs = again.step_specs.iter().map(|(id, _)| *id);
            assert_eq!(specs.collect::<Vec<_>>(), ids.collect::<Vec<_>>());
            found.runs = again.runs;
        }
        let loaded = found.runs.pop().unwrap_or_default();
        let reference = self.records.entry(key.id).or_default().load(&subject, request);
        assert_eq!(loaded, reference.without_results(), "what {request:?} names");
        (subject, loaded, found.closed.pop().flatten())
    }

    /// Decides saved messages that are due, as far as the rules let it. Returns how many were decided.
    pub async fn deliver<F: Fixture>(&mut self, driver: &mut Driver<F>) -> usize {
        driver.pause().await;
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let now = batch.moment().await.expect("the clock can be read").now;
        let due = batch.addressees(now, 100).await.expect("messages can be found");
        let lookup = Lookup { tasks: &due, messages: &due, ..Lookup::default() };
        let found = batch.look_up(lookup).await.expect("loading works").messages;
        let mut messages = MessageChanges::default();
        for saved in found.into_iter().flatten() {
            let key = saved.key();
            let is_blocked =
                |parked: &ParkedMessage| (&parked.key.to, parked.key.from) == (&key.to, key.from);
            if messages.parked.iter().any(is_blocked) {
                continue;
            }
            let step = Ask {
                key: key.to.clone(),
                request: Request::Run(Box::new(RunRequest::Message(saved.message))),
                spec: saved.spec,
            };
            let (answer, sent) = self.decide(&mut batch, step).await;
            settle(&mut messages, key, &answer, now);
            messages.saved.extend(sent.into_iter().map(|it| save(it, now)));
        }
        let decided = messages.decided.len();
        batch.save(Decided { messages, ..Decided::default() }).await.expect("messages are saved");
        batch.commit().await.expect("the batch commits");
        decided
    }

    /// Delivers until nothing is left that is due and not blocked.
    pub async fn deliver_all<F: Fixture>(&mut self, driver: &mut Driver<F>) -> usize {
        let mut all = 0;
        loop {
            match self.deliver(driver).await {
                0 => return all,
                decided => all += decided,
            }
        }
    }

    /// Compares the rows of every task with the reference, and the whole store with its histories.
    pub async fn check<F: Fixture>(&self, driver: &mut Driver<F>) {
        driver.pause().await;
        for (id, records) in &self.records {
            self.check_rows(driver, *id, records).await;
        }
        let found = verify(driver.store().browse()).await.expect("the store can be read");
        assert_eq!(found.findings, []);
    }

    async fn check_rows<F: Fixture>(&self, driver: &Driver<F>, id: TaskId, records: &Records) {
        let key = TaskKey { scope: Scope::default(), id };
        let browse = driver.browse();
        let read = async |after| browse.rows(&key, after, 1_000).await.expect("browsing works");
        let mut checkpoints: Vec<_> = records.checkpoints().cloned().collect();
        checkpoints.sort_by_key(|checkpoint| checkpoint.number);
        assert_eq!(read(RowsAfter::Checkpoint(0)).await.checkpoints, checkpoints);
        let children = read(RowsAfter::Child(None)).await.children;
        let children: Vec<_> = children.into_iter().map(|started| started.child).collect();
        assert_eq!(children, records.children().cloned().collect::<Vec<_>>());
        let steps = read(RowsAfter::Step(0)).await.steps;
        let counts: Vec<_> = steps.iter().map(|it| (&it.step, it.missing, &it.blame)).collect();
        let recorded = records.plan().steps().filter_map(|it| records.plan().row(&it.child.key));
        let recorded: Vec<_> = recorded.map(|it| (&it.step, it.missing, &it.blame)).collect();
        assert_eq!(counts, recorded);
        let pending = read(RowsAfter::PendingSignal(0)).await.signals;
        let pending: Vec<_> = pending.into_iter().map(|stored| stored.signal).collect();
        assert_eq!(pending, records.pending().cloned().collect::<Vec<_>>());
    }
}

fn settle(messages: &mut MessageChanges, key: MessageKey, answer: &Answer, now: Time) {
    match answer {
        Answer::Refused(Refusal::Run(RunRefusal::MessageEarly)) => {
            messages.deferred.push(DeferredMessage { key, due: now.plus(EARLY) });
        }
        Answer::Refused(refusal) => {
            let reason = refusal.name().into();
            messages.parked.push(ParkedMessage { key, reason });
        }
        _ => messages.decided.push(key),
    }
}

/// How long a message waits that came before its addressee.
pub const EARLY: Span = Span::from_secs(10);

fn addressed((scope, message): (Scope, Message)) -> Ask {
    let spec = spec_of(&message);
    let key = TaskKey { scope, id: message.to };
    Ask { key, request: Request::Run(Box::new(RunRequest::Message(message))), spec }
}

pub fn save((scope, message): (Scope, Message), due: Time) -> SavedMessage {
    let spec = spec_of(&message);
    SavedMessage { scope, message, spec, due, parked: None }
}

/// The steps of a plan that is submitted.
fn steps_in(request: &Request) -> Vec<PlanStep> {
    match request {
        Request::Run(run) => match &**run {
            RunRequest::Plan(PlanRequest::Submit(submit)) => submit.steps.to_vec(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The same as they are stored.
fn steps_of(request: &Request) -> Vec<StoredStep> {
    let stored = |(place, step): (u32, PlanStep)| {
        let spec = spec_for(&step.child.submit);
        StoredStep::new(place, step, spec)
    };
    (0..).zip(steps_in(request)).map(stored).collect()
}

/// What a child of these scenarios is created with.
fn spec_of(message: &Message) -> Option<Spec> {
    match &message.body {
        Body::Spawn { submit, .. } | Body::Plan(PlanMessage::Spawn { submit, .. }) => {
            Some(spec_for(submit))
        }
        _ => None,
    }
}

fn spec_for(submit: &Submit) -> Spec {
    let spec = Submission::new(submit.id, &submit.scope, submit.queue.as_str()).spec;
    Spec { fingerprint: submit.fingerprint, ..spec }
}

/// A run of this queue that a worker holds.
pub async fn running<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> (TaskKey, Caller) {
    let key = driver.add(&Scope::default(), queue).await;
    (key, lease(driver, queue).await)
}

/// Leases the one task of a queue.
pub async fn lease<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> Caller {
    let leased = driver.lease(&Scope::default(), queue, 1).await;
    caller(leased.first().expect("a task of the queue is ready"))
}

pub fn call(caller: &Caller, steps: Vec<StepCall>, then: Then) -> CheckpointCall {
    let said = format!("{steps:?} {then:?}");
    let digest = Digest::of(&[said.as_bytes()]);
    CheckpointCall {
        caller: caller.clone(),
        digest,
        steps,
        children: Vec::new(),
        then,
        asked_by: None,
    }
}

pub fn with_children(call: CheckpointCall, children: Vec<ChildCall>) -> RunRequest {
    RunRequest::Checkpoint(CheckpointCall { children, ..call })
}

pub fn step(key: &str, result: &str) -> StepCall {
    let step = Step {
        outcome: StepOutcome::Succeeded { result: Some(Json::from(result)) },
        input: None,
        spend: Spend { tokens: 7, ..Spend::default() },
        is_savepoint: false,
    };
    StepCall { key: key.into(), digest: Digest::of(&[result.as_bytes()]), step }
}

pub fn savepoint(key: &str, result: &str) -> StepCall {
    let call = step(key, result);
    StepCall { step: Step { is_savepoint: true, ..call.step.clone() }, ..call }
}

/// A child with this id, in a queue of its own.
pub fn child(key: &str, id: u128) -> ChildCall {
    let submit = Submission::new(TaskId::from_u128(id), &Scope::default(), key).submit;
    ChildCall { key: key.into(), is_detached: false, submit }
}

pub fn wait(key: &str, mode: WaitMode, items: Vec<AwaitedEvent>) -> Then {
    let named = |(n, event): (usize, AwaitedEvent)| Awaited {
        key: Name::from(format!("item {n:03}")),
        event,
    };
    let items: Items = items.into_iter().enumerate().map(named).collect();
    let digest = Digest::of(&[key.as_bytes()]);
    Then::Wait(WaitCall { key: key.into(), digest, mode, items, approvals: Vec::new(), max: None })
}

pub fn signal(name: &str, key: Option<&str>, payload: &str) -> RunRequest {
    RunRequest::Signal(SignalCall {
        name: name.into(),
        key: key.map(Name::from),
        payload: Some(Json::from(payload)),
        digest: Digest::of(&[name.as_bytes(), payload.as_bytes()]),
    })
}

/// The report of a success, as the last call of a run.
pub fn finish(caller: &Caller) -> RunRequest {
    let outcome = Outcome::Succeeded { output: Some(Json::from("\"done\"")) };
    RunRequest::Checkpoint(call(caller, Vec::new(), Then::Report { outcome, claims: None }))
}

/// The moment of a batch that decides nothing.
pub async fn moment<F: Fixture>(driver: &mut Driver<F>) -> Moment {
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.moment().await.expect("the clock can be read")
}
