//! Tasks of durable runs with their records and messages: what a store and a carrier do, in memory.

use std::collections::BTreeMap;

use verdict::plan::{PlanRequest, PlanStep};
use verdict::request::{Caller, Cancel, CancelMode, Grant, Outcome, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, CheckpointCall, Checkpointed, ChildCall, Records, RunAnswer, RunRequest,
    SignalCall, Spend, Step, StepCall, StepOutcome, Then, WaitCall, WaitMode,
};
use verdict::{
    Answer, Build, ClosedAttempt, Context, Digest, Event, Json, LeaseId, Message, Moment, Name,
    Policy, Quota, Refusal, Request, Rules, Span, State, Subject, Task, TaskId, Time, apply,
    closed_attempts,
};

use crate::world::{START, submission};

pub(crate) const ROOT: TaskId = TaskId::from_u128(7);

/// One task and what a store keeps of it.
#[derive(Default)]
pub(crate) struct Member {
    pub(crate) subject: Option<Subject>,
    pub(crate) closed: Vec<ClosedAttempt>,
    pub(crate) records: Records,
    /// Every event, in order.
    pub(crate) history: Vec<Event>,
    /// Every decision that changed something, in order.
    pub(crate) entries: Vec<(Request, Moment, Vec<Event>)>,
}

pub(crate) struct Family {
    pub(crate) members: BTreeMap<TaskId, Member>,
    /// Messages that were sent and not decided.
    pub(crate) messages: Vec<Message>,
    /// Messages that were decided.
    pub(crate) decided: Vec<Message>,
    pub(crate) now: Time,
    pub(crate) rules: Rules,
    pub(crate) quota: Option<Quota>,
    /// How many children a sweep of a closing task loads.
    pub(crate) slice: usize,
    leases: u128,
}

impl Family {
    /// A root that a worker holds.
    pub(crate) fn running() -> (Self, Caller) {
        Self::running_with(Policy::default())
    }

    pub(crate) fn running_with(policy: Policy) -> (Self, Caller) {
        let mut family = Self::empty();
        family.ask(ROOT, Request::Submit(submission(policy)));
        let caller = family.grant(ROOT);
        (family, caller)
    }

    pub(crate) fn empty() -> Self {
        Self {
            members: BTreeMap::new(),
            messages: Vec::new(),
            decided: Vec::new(),
            now: START,
            rules: Rules::NEWEST,
            quota: None,
            slice: 500,
            leases: 0,
        }
    }

    pub(crate) fn ask(&mut self, id: TaskId, request: Request) -> Answer {
        let member = self.members.entry(id).or_default();
        let mut subject = member.subject.take().unwrap_or(Subject::Absent);
        let loaded = member.records.load_slices(&subject, &request, self.slice);
        let lease = request.caller().map(|caller| caller.lease);
        let closed = lease.and_then(|lease| member.closed.iter().find(|one| one.lease == lease));
        let context =
            Context { closed, quota: self.quota, run: Some(&loaded), ..Context::default() };
        let at = Moment { now: self.now, epoch: 1, rules: self.rules };
        let applied = apply(&mut subject, context, &request, at);
        member.subject = Some(subject);
        if let Some(settled) = applied.settled {
            if let Some(steps) = steps_of(&request) {
                member.records.put_steps(steps);
            }
            member.records.note(&settled.events);
            member.closed.extend(closed_attempts(&settled.events).cloned().collect::<Vec<_>>());
            member.history.extend(settled.events.iter().cloned());
            member.entries.push((request, applied.at, settled.events));
            self.messages.extend(settled.messages);
        }
        applied.answer
    }

    /// Sends a request and asserts that it changed nothing and sent nothing.
    pub(crate) fn ask_in_vain(&mut self, id: TaskId, request: Request) -> Answer {
        let (before, sent) = (self.subject(id).clone(), self.messages.len());
        let answer = self.ask(id, request.clone());
        assert_eq!(*self.subject(id), before, "{request:?} changed something");
        assert_eq!(self.messages.len(), sent, "{request:?} sent something");
        answer
    }

    /// Decides the oldest message.
    pub(crate) fn deliver(&mut self) -> Answer {
        let message = self.messages.remove(0);
        self.decided.push(message.clone());
        self.ask(message.to, run(RunRequest::Message(message)))
    }

    /// Decides all messages, and those that follow from them.
    pub(crate) fn settle(&mut self) {
        while !self.messages.is_empty() {
            self.deliver();
        }
    }

    /// Decides every message once more: nothing may change.
    pub(crate) fn repeat_messages(&mut self) {
        for message in self.decided.clone() {
            let to = message.to;
            let answer = self.ask_in_vain(to, run(RunRequest::Message(message)));
            assert_eq!(answer, Answer::Nothing);
        }
    }

    pub(crate) fn grant(&mut self, id: TaskId) -> Caller {
        self.grant_to(id, None).expect("it may be granted")
    }

    /// Offers the task to a worker of this build.
    pub(crate) fn grant_to(&mut self, id: TaskId, build: Option<Build>) -> Option<Caller> {
        self.leases += 1;
        let (lease, build) = (LeaseId::from_u128(self.leases), build.map(Box::new));
        let grant = Grant { lease, owner: "ann".into(), poll: None, build };
        if self.ask(id, Request::Grant(grant)) != Answer::Granted {
            return None;
        }
        let (attempt, epoch) = (self.task(id).attempt, 1);
        Some(Caller { worker: "ann".into(), attempt, lease, epoch })
    }

    pub(crate) fn call(&mut self, caller: &Caller, call: Call) -> Answer {
        let id = self.owner_of(caller);
        self.ask(id, call.request(caller))
    }

    /// A call that must be answered with a checkpoint's answer.
    pub(crate) fn checkpoint(&mut self, caller: &Caller, call: Call) -> Checkpointed {
        checkpointed(self.call(caller, call))
    }

    pub(crate) fn owner_of(&self, caller: &Caller) -> TaskId {
        let has_it = |member: &Member| {
            let open = member.subject.as_ref().and_then(Subject::live).and_then(Task::lease);
            open.is_some_and(|lease| lease.id == caller.lease)
                || member.closed.iter().any(|closed| closed.lease == caller.lease)
        };
        let found = self.members.iter().find(|(_, member)| has_it(member));
        *found.expect("the lease was granted here").0
    }

    pub(crate) fn signal(&mut self, name: &str, key: Option<&str>) -> Answer {
        self.ask(ROOT, signal(name, key, None))
    }

    pub(crate) fn sweep(&mut self, id: TaskId) -> Answer {
        self.ask(id, Request::Sweep)
    }

    pub(crate) fn cancel(&mut self, id: TaskId, mode: CancelMode) -> Answer {
        self.ask(id, Request::Cancel(Cancel { reason: None, mode }))
    }

    /// Grants the child and reports its success.
    pub(crate) fn finish(&mut self, id: TaskId) -> Answer {
        let caller = self.grant(id);
        self.call(&caller, Call::default().report(Outcome::Succeeded { output: None }))
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now = self.now.plus(span);
    }

    pub(crate) fn subject(&self, id: TaskId) -> &Subject {
        self.members[&id].subject.as_ref().expect("the task was asked about")
    }

    pub(crate) fn task(&self, id: TaskId) -> &Task {
        self.subject(id).live().expect("the task is live")
    }

    /// Changes the task beside the rules, to bring it near a limit.
    pub(crate) fn edit(&mut self, id: TaskId, change: impl FnOnce(&mut Task)) {
        match self.members.get_mut(&id).and_then(|member| member.subject.as_mut()) {
            Some(Subject::Live(task)) => change(task),
            other => panic!("no live task but {other:?}"),
        }
    }

    pub(crate) fn state(&self, id: TaskId) -> Option<State> {
        self.members.get(&id)?.subject.as_ref()?.state()
    }

    /// How many events of this name the task has had.
    pub(crate) fn count(&self, id: TaskId, name: &str) -> usize {
        self.members[&id].history.iter().filter(|event| event.name() == name).count()
    }
}

/// A checkpoint call under construction. Its digest is that of its content.
#[derive(Clone, Default)]
pub(crate) struct Call {
    steps: Vec<StepCall>,
    pub(crate) children: Vec<ChildCall>,
    then: Option<Then>,
    asked_by: Option<Name>,
}

impl Call {
    pub(crate) fn step(self, key: &str, result: &str) -> Self {
        self.step_of(key, step(result))
    }

    pub(crate) fn step_of(mut self, key: &str, step: Step) -> Self {
        let digest = digest_of(&step.outcome);
        self.steps.push(StepCall { key: key.into(), digest, step });
        self
    }

    /// A child with this id, whose content is its key.
    pub(crate) fn child(self, key: &str, id: u128) -> Self {
        self.child_of(key, id, key, false)
    }

    pub(crate) fn detached(self, key: &str, id: u128) -> Self {
        self.child_of(key, id, key, true)
    }

    pub(crate) fn child_of(mut self, key: &str, id: u128, content: &str, detached: bool) -> Self {
        let fingerprint = Digest::of(&[content.as_bytes()]);
        let policy = Policy::default();
        let submit = Submit { id: TaskId::from_u128(id), fingerprint, ..submission(policy) };
        self.children.push(ChildCall { key: key.into(), is_detached: detached, submit });
        self
    }

    /// A child with this ceiling.
    pub(crate) fn funded_child(self, key: &str, id: u128, budget: Option<verdict::Budget>) -> Self {
        let mut call = self.child(key, id);
        if let Some(child) = call.children.last_mut() {
            child.submit.budget = budget.map(Box::new);
        }
        call
    }

    pub(crate) fn wait(self, key: &str, mode: WaitMode, items: &[(&str, AwaitedEvent)]) -> Self {
        self.wait_at_most(key, mode, items, None)
    }

    pub(crate) fn wait_at_most(
        mut self,
        key: &str,
        mode: WaitMode,
        items: &[(&str, AwaitedEvent)],
        max: Option<Span>,
    ) -> Self {
        let item = |(key, event): &(&str, AwaitedEvent)| Awaited {
            key: Name::from(*key),
            event: event.clone(),
        };
        let items: Vec<Awaited> = items.iter().map(item).collect();
        let digest = digest_of(&(mode, &items));
        self.then = Some(Then::Wait(WaitCall {
            key: key.into(),
            digest,
            mode,
            items: items.into(),
            approvals: Vec::new(),
            max,
        }));
        self
    }

    pub(crate) fn report(self, outcome: Outcome) -> Self {
        self.then(Then::Report { outcome, claims: None })
    }

    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = Some(then);
        self
    }

    /// Under a lease of this API key.
    pub(crate) fn asked_by(mut self, key: &str) -> Self {
        self.asked_by = Some(key.into());
        self
    }

    pub(crate) fn request(self, caller: &Caller) -> Request {
        let then = self.then.unwrap_or(Then::Continue);
        let digest = digest_of(&(&self.steps, &self.children, &then));
        let (caller, steps, children) = (caller.clone(), self.steps, self.children);
        run(RunRequest::Checkpoint(CheckpointCall {
            caller,
            digest,
            steps,
            children,
            then,
            asked_by: self.asked_by,
        }))
    }
}

/// The steps that a store keeps with the submission of a plan.
fn steps_of(request: &Request) -> Option<&[PlanStep]> {
    let Request::Run(request) = request else { return None };
    match &**request {
        RunRequest::Plan(PlanRequest::Submit(submit)) => Some(&submit.steps),
        _ => None,
    }
}

fn digest_of(content: &impl std::fmt::Debug) -> Digest {
    Digest::of(&[format!("{content:?}").as_bytes()])
}

pub(crate) fn step(result: &str) -> Step {
    Step {
        outcome: StepOutcome::Succeeded { result: Some(Json::from(result)) },
        input: None,
        spend: Spend::default(),
        is_savepoint: false,
    }
}

pub(crate) fn run(request: RunRequest) -> Request {
    Request::Run(Box::new(request))
}

pub(crate) fn signal(name: &str, key: Option<&str>, payload: Option<&str>) -> Request {
    let digest = digest_of(&(name, payload));
    let (key, payload) = (key.map(Name::from), payload.map(Json::from));
    run(RunRequest::Signal(SignalCall { name: name.into(), key, payload, digest }))
}

pub(crate) fn on_signal(name: &str) -> AwaitedEvent {
    AwaitedEvent::Signal(name.into())
}

pub(crate) fn on_child(key: &str) -> AwaitedEvent {
    AwaitedEvent::Child(key.into())
}

pub(crate) fn checkpointed(answer: Answer) -> Checkpointed {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Checkpointed(answer) => answer,
            other => panic!("not a checkpoint but {other:?}"),
        },
        other => panic!("not a checkpoint but {other:?}"),
    }
}

pub(crate) fn refused(answer: Answer) -> &'static str {
    match answer {
        Answer::Refused(refusal) => Refusal::name(&refusal),
        other => panic!("not refused but {other:?}"),
    }
}
