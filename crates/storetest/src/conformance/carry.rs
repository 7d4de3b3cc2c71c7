//! Carries one request from loading to saving, as a coordinator would.

use std::borrow::Cow;
use std::collections::BTreeMap;

use store::failure::Failure;
use store::row::{
    Change, Entry, FlowRef, IdempotencyKey, KeyOwner, PollRef, Refused, Spec, TaskKey,
    TaskWithSpec, Want,
};
use store::seam::{Batch, Decided, Loaded, Lookup, Selection};
use verdict::request::{Grant, Submit};
use verdict::{
    Answer, Applied, Context, Digest, FlowUses, KeyHolder, LeaseId, Moment, Name, Request, Scope,
    Subject, TaskId, apply, closed_attempts,
};

use super::driver::key_of;

/// One request to the system.
#[derive(Clone, Debug)]
pub enum Call {
    Submit(Submission),
    About {
        key: TaskKey,
        request: Request,
    },
    Poll(Poll),
    /// Sweeps due tasks, up to the limit.
    Sweep {
        limit: usize,
    },
    /// Makes the same request for every running task, one page at a time.
    OfRunning {
        request: Request,
        page: usize,
    },
}

#[derive(Clone, Debug)]
pub struct Submission {
    pub submit: Submit,
    pub spec: Spec,
}

#[derive(Clone, Debug)]
pub struct Poll {
    pub want: Want,
    pub worker: Name,
    pub name: Option<Name>,
    /// The number of the first lease granted; the others follow.
    pub first_lease: u128,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    Answer(Answer),
    /// The tasks as they were leased.
    Granted(Vec<TaskWithSpec>),
    /// Which tasks were swept or asked, in order, with their answers.
    Each(Vec<(TaskId, Answer)>),
    /// Another writer has locked the task.
    Locked,
}

impl Submission {
    pub fn new(id: TaskId, scope: &Scope, queue: &str) -> Self {
        let fingerprint = Digest::of(&[queue.as_bytes()]);
        let submit = Submit {
            budget: None,
            flow: None,
            id,
            scope: scope.clone(),
            kind: "resize".into(),
            queue: queue.into(),
            priority: 0,
            policy: verdict::Policy::default(),
            run_at: None,
            input: Digest::of(&[b"{}"]),
            fingerprint,
        };
        let spec = Spec {
            input: "{}".into(),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
            fingerprint,
        };
        Self { submit, spec }
    }

    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.spec.key = Some(key.into());
        self
    }

    pub fn task_key(&self) -> TaskKey {
        TaskKey { scope: self.submit.scope.clone(), id: self.submit.id }
    }
}

/// Loads, decides and saves one request in an open batch.
pub async fn carry<B: Batch>(batch: &mut B, epoch: u32, ask: Call) -> Result<CallResult, Failure> {
    match ask {
        Call::Submit(submission) => submit(batch, epoch, submission).await,
        Call::About { key, request } => about(batch, epoch, &key, &request).await,
        Call::Poll(poll) => lease(batch, epoch, poll).await,
        Call::Sweep { limit } => {
            let now = batch.moment().await?.now;
            let due = batch.select(Selection::Due { now }, limit).await?;
            let subjects = due.into_iter().map(Subject::Live).collect();
            each(batch, epoch, subjects, &Request::Sweep).await.map(CallResult::Each)
        }
        Call::OfRunning { request, page } => of_running(batch, epoch, &request, page).await,
    }
}

async fn submit<B: Batch>(
    batch: &mut B,
    epoch: u32,
    ask: Submission,
) -> Result<CallResult, Failure> {
    let scope = ask.submit.scope.clone();
    let key = ask.spec.key.clone().map(|text| IdempotencyKey { scope, text });
    let mut found = batch.look_up(Lookup::keys(key.as_slice())).await?;
    let owner = found.owners.pop().flatten();
    let holder = match &owner {
        Some((_, Loaded::Locked)) => return Ok(CallResult::Locked),
        Some((KeyOwner { fingerprint, .. }, Loaded::Subject(subject))) => {
            Some(KeyHolder { subject, fingerprint: *fingerprint })
        }
        None => None,
    };
    let flow = ask
        .submit
        .flow
        .as_ref()
        .map(|flow| FlowRef { scope: ask.submit.scope.clone(), key: flow.name.clone() });
    let flows = flow_uses(batch, flow.as_slice()).await?;
    let context = Context { holder, flows: Some(&flows), ..Context::default() };
    let at = Moment { epoch, ..batch.moment().await? };
    let request = Request::Submit(ask.submit);
    let (applied, change) = change(Subject::Absent, context, &request, at);
    if let Some(change) = change {
        batch.save(Decided::changes(vec![Change { spec: Some(ask.spec), ..change }])).await?;
    }
    Ok(CallResult::Answer(applied.answer))
}

async fn about<B: Batch>(
    batch: &mut B,
    epoch: u32,
    key: &TaskKey,
    request: &Request,
) -> Result<CallResult, Failure> {
    let lease = request.caller().map(|caller| (key.id, caller.lease));
    let tasks = std::slice::from_ref(key);
    let lookup = Lookup { tasks, leases: lease.as_slice(), ..Lookup::default() };
    let mut found = batch.look_up(lookup).await?;
    let Some(Loaded::Subject(subject)) = found.tasks.pop() else { return Ok(CallResult::Locked) };
    let closed = found.closed.pop().flatten();
    let context = Context { closed: closed.as_ref(), ..Context::default() };
    let moment = Moment { epoch, ..batch.moment().await? };
    settle(batch, key, subject, context, request, moment).await.map(CallResult::Answer)
}

async fn lease<B: Batch>(batch: &mut B, epoch: u32, poll: Poll) -> Result<CallResult, Failure> {
    if let Some(name) = &poll.name {
        let named = PollRef {
            scope: poll.want.scope.clone(),
            owner: poll.worker.clone(),
            poll: name.clone(),
        };
        let found = batch.look_up(Lookup::polls(&[named])).await?.leased.pop().flatten();
        let recalled = found.expect("one poll is always looked up");
        if !recalled.is_empty() {
            return Ok(CallResult::Granted(recalled));
        }
    }
    let at = Moment { epoch, ..batch.moment().await? };
    let ready = batch.ready(std::slice::from_ref(&poll.want), at.now).await?;
    let mut leased = Vec::new();
    for (ready, number) in ready.into_iter().flatten().zip(poll.first_lease..) {
        let key = key_of(&ready);
        let (owner, lease) = (poll.worker.clone(), LeaseId::from_u128(number));
        let request = Request::Grant(Grant { lease, owner, poll: poll.name.clone(), build: None });
        let is_queue_paused = batch.paused().contains(&ready.task.scope, &ready.task.queue);
        let flows = flow_uses(batch, FlowRef::of(&ready.task).as_slice()).await?;
        let context = Context { is_queue_paused, flows: Some(&flows), ..Context::default() };
        let subject = Subject::Live(ready.task);
        if settle(batch, &key, subject, context, &request, at).await? == Answer::Granted {
            leased.push((key, ready.spec));
        }
    }
    let keys: Vec<TaskKey> = leased.iter().map(|(key, _)| key.clone()).collect();
    let tasks =
        batch.look_up(Lookup::tasks(&keys)).await?.tasks.into_iter().map(|loaded| match loaded {
            Loaded::Subject(Subject::Live(task)) => task,
            loaded => panic!("a task that was just leased is {loaded:?}"),
        });
    let specs = leased.into_iter().map(|(_, spec)| spec);
    Ok(CallResult::Granted(
        tasks.zip(specs).map(|(task, spec)| TaskWithSpec { task, spec }).collect(),
    ))
}

/// What the rules need of these keys of one scope, with what the batch saved.
async fn flow_uses<B: Batch>(batch: &mut B, keys: &[FlowRef]) -> Result<FlowUses, Failure> {
    let mut uses = FlowUses::default();
    if keys.is_empty() {
        return Ok(uses);
    }
    let found = batch.look_up(Lookup::flows(keys)).await?.flows;
    keys.iter().zip(found).for_each(|(key, in_use)| uses.put(key.key.clone(), in_use));
    Ok(uses)
}

async fn of_running<B: Batch>(
    batch: &mut B,
    epoch: u32,
    request: &Request,
    page: usize,
) -> Result<CallResult, Failure> {
    let (mut after, mut answers) = (None, Vec::new());
    loop {
        let running = batch.select(Selection::Running { after }, page).await?;
        let Some(last) = running.last() else { return Ok(CallResult::Each(answers)) };
        after = Some(last.id);
        let subjects = running.into_iter().map(Subject::Live).collect();
        answers.extend(each(batch, epoch, subjects, request).await?);
    }
}

async fn each<B: Batch>(
    batch: &mut B,
    epoch: u32,
    subjects: Vec<Subject>,
    request: &Request,
) -> Result<Vec<(TaskId, Answer)>, Failure> {
    let at = Moment { epoch, ..batch.moment().await? };
    let mut answers = Vec::new();
    for subject in subjects {
        let task = subject.live().expect("only live tasks are selected");
        let key = TaskKey { scope: task.scope.clone(), id: task.id };
        let answer = settle(batch, &key, subject, Context::default(), request, at).await?;
        answers.push((key.id, answer));
    }
    Ok(answers)
}

/// Decides about a loaded task and saves what changed.
async fn settle<B: Batch>(
    batch: &mut B,
    key: &TaskKey,
    subject: Subject,
    context: Context<'_>,
    request: &Request,
    at: Moment,
) -> Result<Answer, Failure> {
    let (applied, change) = change(subject, context, request, at);
    let refused = match &applied.answer {
        Answer::Refused(refusal) => Refused::of(key, request, refusal, applied.at.now),
        _ => None,
    };
    if change.is_some() || refused.is_some() {
        let (changes, refused) = (Vec::from_iter(change), Vec::from_iter(refused));
        batch.save(Decided { changes, refused, ..Decided::default() }).await?;
    }
    Ok(applied.answer)
}

/// One decision, and its change in the form that a store takes.
pub fn change(
    mut subject: Subject,
    context: Context<'_>,
    request: &Request,
    at: Moment,
) -> (Applied, Option<Change>) {
    let before = subject.live().map(|task| task.revision);
    let applied = apply(&mut subject, context, request, at);
    let change = applied.settled.clone().map(|settled| Change {
        before,
        after: subject,
        spec: None,
        closed: closed_attempts(&settled.events).cloned().collect(),
        entries: Vec::from_iter(Entry::of(settled, applied.at, Cow::Borrowed(request))),
        steps: Vec::new(),
    });
    (applied, change)
}
