//! One task and its surroundings: sends requests to the rules, applies their verdicts, and keeps a
//! manual clock.

use verdict::request::{
    Caller, Cancel, CancelMode, Extend, Grant, Heartbeat, Outcome, Report, Started, Submit,
    Undelivered,
};
use verdict::{
    Answer, AttemptOutcome, Category, ClosedAttempt, Context, Digest, Done, Event, Fault, Json,
    Lease, LeaseId, Moment, Name, Policy, Reason, Refusal, Request, Rules, Scope, Span, State,
    Subject, Task, TaskId, Time, apply, closed_attempts,
};

/// The start time of every world.
pub(crate) const START: Time = Time::from_millis(1_000_000);

pub(crate) const fn secs(seconds: u64) -> Span {
    Span::from_secs(seconds)
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) subject: Subject,
    pub(crate) closed: Vec<ClosedAttempt>,
    pub(crate) now: Time,
    pub(crate) epoch: u32,
    pub(crate) rules: Rules,
    /// What the last request changed.
    pub(crate) events: Vec<Event>,
    leases: u128,
}

impl World {
    pub(crate) fn empty() -> Self {
        Self {
            subject: Subject::Absent,
            closed: Vec::new(),
            now: START,
            epoch: 1,
            rules: Rules::NEWEST,
            events: Vec::new(),
            leases: 0,
        }
    }

    pub(crate) fn queued() -> Self {
        Self::submitted(Policy::default())
    }

    pub(crate) fn submitted(policy: Policy) -> Self {
        let mut world = Self::empty();
        world.ask(Request::Submit(submission(policy)));
        world
    }

    pub(crate) fn running() -> (Self, Caller) {
        Self::running_with(Policy::default())
    }

    pub(crate) fn running_with(policy: Policy) -> (Self, Caller) {
        let mut world = Self::submitted(policy);
        let caller = world.grant("ann");
        (world, caller)
    }

    /// A task that waits for its second attempt after one failure.
    pub(crate) fn retrying() -> (Self, Caller) {
        let (mut world, caller) = Self::running();
        world.report(&caller, failed(Category::UserCode));
        (world, caller)
    }

    pub(crate) fn succeeded() -> (Self, Caller) {
        let (mut world, caller) = Self::running();
        world.report(&caller, succeeded());
        (world, caller)
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now, epoch: self.epoch, rules: self.rules }
    }

    /// Sends a request and applies the decision.
    pub(crate) fn ask(&mut self, request: Request) -> Answer {
        let closed = lease_of(&request)
            .and_then(|lease| self.closed.iter().find(|closed| closed.lease == lease));
        let (context, at) = (Context { closed, ..Context::default() }, self.moment());
        let applied = apply(&mut self.subject, context, &request, at);
        self.events = applied.events().to_vec();
        self.closed.extend(closed_attempts(&self.events).cloned());
        applied.answer
    }

    /// Sends a request and asserts that it changed nothing.
    pub(crate) fn ask_in_vain(&mut self, request: Request) -> Answer {
        let before = self.subject.clone();
        let answer = self.ask(request.clone());
        assert_eq!(self.subject, before, "{request:?} changed something");
        assert!(self.events.is_empty(), "{request:?} left events {:?}", self.events);
        answer
    }

    pub(crate) fn grant(&mut self, worker: &str) -> Caller {
        let request = self.grant_request(worker);
        assert_eq!(self.ask(request), Answer::Granted);
        self.caller()
    }

    pub(crate) fn grant_request(&mut self, worker: &str) -> Request {
        self.leases += 1;
        let lease = LeaseId::from_u128(self.leases);
        Request::Grant(Grant { lease, owner: worker.into(), poll: None, build: None })
    }

    /// The worker that holds the lease now.
    pub(crate) fn caller(&self) -> Caller {
        let lease = self.lease();
        Caller {
            worker: lease.owner.clone(),
            attempt: self.task().attempt,
            lease: lease.id,
            epoch: lease.fence.epoch(),
        }
    }

    pub(crate) fn start(&mut self, caller: &Caller) -> Answer {
        self.ask(Request::Started(Started { caller: caller.clone(), claimed_at: None }))
    }

    pub(crate) fn beat(&mut self, caller: &Caller) -> Answer {
        self.ask(beat(caller))
    }

    pub(crate) fn report(&mut self, caller: &Caller, outcome: Outcome) -> Answer {
        self.ask(report(caller, outcome))
    }

    pub(crate) fn cancel(&mut self) -> Answer {
        self.ask(cancel(CancelMode::Graceful))
    }

    pub(crate) fn force(&mut self) -> Answer {
        self.ask(cancel(CancelMode::Immediate))
    }

    pub(crate) fn sweep(&mut self) -> Answer {
        self.ask(Request::Sweep)
    }

    pub(crate) fn undelivered(&mut self, caller: &Caller) -> Answer {
        self.ask(Request::Undelivered(Undelivered { lease: caller.lease }))
    }

    pub(crate) fn extend(&mut self, stalled_since: Time, gap: Span) -> Answer {
        self.ask(Request::Extend(Extend { stalled_since, gap }))
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now = self.now.plus(span);
    }

    /// Moves the clock to one millisecond before `time`, so that it has not come yet.
    pub(crate) fn wait_until_just_before(&mut self, time: Time) {
        self.now = Time::from_millis(time.millis() - 1);
    }

    /// Lets the lease expire and sweeps.
    pub(crate) fn lose(&mut self) {
        self.now = self.lease().expires_at;
        assert_eq!(self.sweep(), Answer::Done);
    }

    /// Waits until the task is due and grants it again.
    pub(crate) fn grant_when_due(&mut self, worker: &str) -> Caller {
        self.now = self.now.max(self.due());
        self.grant(worker)
    }

    pub(crate) fn state(&self) -> State {
        self.subject.state().expect("the world has a task")
    }

    pub(crate) fn task(&self) -> &Task {
        self.subject.live().expect("the task is live")
    }

    pub(crate) fn lease(&self) -> &Lease {
        self.task().lease().expect("the task is running")
    }

    pub(crate) fn due(&self) -> Time {
        self.task().claimable_at().expect("the task is waiting")
    }

    pub(crate) fn done(&self) -> &Done {
        match &self.subject {
            Subject::Done(done) => done,
            Subject::Absent | Subject::Live(_) => panic!("the task has not ended"),
        }
    }

    pub(crate) fn attempt_outcomes(&self) -> Vec<(AttemptOutcome, Option<Reason>)> {
        self.closed.iter().map(|closed| (closed.outcome, closed.reason)).collect()
    }
}

pub(crate) fn submission(policy: Policy) -> Submit {
    Submit {
        id: TaskId::from_u128(7),
        scope: Scope::default(),
        kind: "resize".into(),
        queue: "images".into(),
        priority: 0,
        policy,
        run_at: None,
        input: Digest::of(&[b"input"]),
        budget: None,
        flow: None,
        fingerprint: Digest::of(&[b"fingerprint"]),
    }
}

pub(crate) fn beat(caller: &Caller) -> Request {
    Request::Heartbeat(Heartbeat { caller: caller.clone(), progress: None })
}

pub(crate) fn start(caller: &Caller) -> Request {
    Request::Started(Started { caller: caller.clone(), claimed_at: None })
}

pub(crate) fn report(caller: &Caller, outcome: Outcome) -> Request {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    Request::Report(Report { caller: caller.clone(), outcome, digest, claims: None, by: None })
}

pub(crate) fn cancel(mode: CancelMode) -> Request {
    Request::Cancel(Cancel { reason: Some("user_requested".into()), mode })
}

pub(crate) fn succeeded() -> Outcome {
    Outcome::Succeeded { output: Some(Json::from("{\"rows\":3}")) }
}

pub(crate) fn cancelled() -> Outcome {
    Outcome::Cancelled { output: None }
}

pub(crate) fn failed(category: Category) -> Outcome {
    Outcome::Failed(fault(category, None))
}

pub(crate) fn fault(category: Category, retryable: Option<bool>) -> Fault {
    Fault { category, message: "it broke".into(), stack_trace: None, retryable }
}

pub(crate) fn as_worker(caller: &Caller, worker: &str) -> Caller {
    Caller { worker: Name::from(worker), ..caller.clone() }
}

pub(crate) fn refusal(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        answer => panic!("not refused but {answer:?}"),
    }
}

fn lease_of(request: &Request) -> Option<LeaseId> {
    request.caller().map(|caller| caller.lease)
}
