//! The rules under requests that bypass the checks of the wire: absurd times, lengths, counts and ids.
//!
//! The model checker explores moderate numbers in every order; here the numbers are extreme and the fuzzer chooses
//! the order. The properties checked here hold for all numbers.

use arbitrary::{Arbitrary, Result, Unstructured};
use verdict::request::{
    Caller, Cancel, CancelMode, Extend, Grant, Heartbeat, Outcome, Report, Started, Submit,
    Undelivered,
};
use verdict::transition::TABLE;
use verdict::{
    Answer, Applied, Category, ClosedAttempt, Context, Digest, Event, Fault, LeaseId, Moment, Name,
    OnStall, Policy, ProgressClock, ReadSet, Request, Scope, Span, Subject, TaskId, Time, apply,
    decide,
};

/// Enough to use up every limit; longer inputs only make the fuzzer slow.
const STEPS_MAX: usize = 200;

pub fn decisions(bytes: &[u8]) {
    let mut source = Unstructured::new(bytes);
    let mut task_run = TaskRun {
        subject: Subject::Absent,
        closed: Vec::new(),
        callers: Vec::new(),
        fence: 0,
        epoch: 1,
    };
    for _ in 0..STEPS_MAX {
        // The end of the input ends the run.
        let Ok((request, now)) = task_run.next(&mut source) else { return };
        task_run.apply(&request, now);
    }
}

struct TaskRun {
    subject: Subject,
    closed: Vec<ClosedAttempt>,
    callers: Vec<Caller>,
    fence: u64,
    epoch: u32,
}

impl TaskRun {
    fn next(&mut self, source: &mut Unstructured<'_>) -> Result<(Request, Time)> {
        if source.is_empty() {
            return Err(arbitrary::Error::NotEnoughData);
        }
        let now = self.time(source)?;
        if source.ratio(1, 32)? {
            self.epoch = self.epoch.saturating_add(1);
        }
        let request = match self.subject {
            Subject::Absent => Request::Submit(submission(source)?),
            Subject::Live(_) | Subject::Done(_) => self.request(source)?,
        };
        Ok((request, now))
    }

    /// A time near one that the task waits for, or any time.
    fn time(&self, source: &mut Unstructured<'_>) -> Result<Time> {
        let task = self.subject.live();
        let near = match source.int_in_range(0..=4)? {
            0 => task.and_then(verdict::Task::wakes_at),
            1 => task.and_then(verdict::Task::claimable_at),
            2 => task.map(|task| task.decided_at),
            3 => Some(Time::from_millis(0)),
            _ => return Ok(Time::from_millis(source.arbitrary()?)),
        };
        let near = near.map_or(0, Time::millis);
        Ok(Time::from_millis(near.saturating_add(i64::from(source.arbitrary::<i8>()?))))
    }

    fn request(&self, source: &mut Unstructured<'_>) -> Result<Request> {
        Ok(match source.int_in_range(0..=8)? {
            0 | 1 => Request::Grant(Grant {
                lease: LeaseId::from_u128(self.callers.len() as u128 + 1),
                owner: worker(source)?,
                poll: None,
                build: None,
            }),
            2 => Request::Started(Started { caller: self.caller(source)?, claimed_at: None }),
            3 => Request::Heartbeat(Heartbeat { caller: self.caller(source)?, progress: None }),
            4 => Request::Report(self.report(source)?),
            5 => Request::Cancel(Cancel {
                reason: None,
                mode: if source.arbitrary()? {
                    CancelMode::Graceful
                } else {
                    CancelMode::Immediate
                },
            }),
            6 => Request::Sweep,
            7 => Request::Undelivered(Undelivered { lease: self.caller(source)?.lease }),
            _ => Request::Extend(Extend {
                stalled_since: self.time(source)?,
                gap: Span::from_millis(source.arbitrary()?),
            }),
        })
    }

    /// A caller that held a lease, or one with arbitrary claims.
    fn caller(&self, source: &mut Unstructured<'_>) -> Result<Caller> {
        if !self.callers.is_empty() && source.ratio(7, 8)? {
            return Ok(source.choose(&self.callers)?.clone());
        }
        Ok(Caller {
            worker: worker(source)?,
            attempt: source.arbitrary()?,
            lease: LeaseId::from_u128(u128::from(u8::arbitrary(source)?)),
            epoch: source.arbitrary()?,
        })
    }

    fn report(&self, source: &mut Unstructured<'_>) -> Result<Report> {
        let outcome = match source.int_in_range(0..=3)? {
            0 => Outcome::Succeeded { output: None },
            1 => Outcome::Cancelled { output: None },
            3 => Outcome::Released,
            _ => Outcome::Failed(Fault {
                category: *source.choose(&Category::ALL)?,
                message: "x".into(),
                stack_trace: None,
                retryable: source.arbitrary()?,
            }),
        };
        let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
        Ok(Report { caller: self.caller(source)?, outcome, digest, claims: None, by: None })
    }

    fn apply(&mut self, request: &Request, now: Time) {
        let closed = request
            .caller()
            .and_then(|caller| self.closed.iter().find(|closed| closed.lease == caller.lease));
        let context = Context { closed, ..Context::default() };
        let moment = Moment { now, epoch: self.epoch, rules: verdict::Rules::NEWEST };
        let verdict = decide(ReadSet { subject: &self.subject, context }, request, moment);
        let mut after = self.subject.clone();
        if let Subject::Done(_) = after {
            assert!(verdict.events.is_empty(), "what ended changed: {:?}", verdict.events);
        }
        let applied = apply(&mut after, context, request, moment);
        let again = (&applied.answer, applied.events());
        assert_eq!(again, (&verdict.answer, &verdict.events[..]), "the same question again");
        check(&self.subject, &after, &applied);
        for event in applied.events() {
            self.note(event, request, moment);
        }
        self.subject = after;
    }

    fn note(&mut self, event: &Event, request: &Request, moment: Moment) {
        match (event, request) {
            (Event::Granted { fence, lease, owner, .. }, Request::Grant(_)) => {
                assert!(fence.as_u64() > self.fence, "a fence that does not grow");
                self.fence = fence.as_u64();
                let attempt = self.subject.live().map_or(0, |task| task.attempt) + 1;
                let (worker, lease, epoch) = (owner.clone(), *lease, moment.epoch);
                self.callers.push(Caller { worker, attempt, lease, epoch });
            }
            (Event::AttemptClosed { closed, .. }, _) => self.closed.push((**closed).clone()),
            _ => {}
        }
    }
}

fn check(before: &Subject, after: &Subject, applied: &Applied) {
    let Applied { answer, settled, .. } = applied;
    let entry = settled.as_ref().and_then(|settled| settled.entry);
    let recorded = before.entries() + u32::from(entry.is_some());
    assert_eq!(after.entries(), recorded, "entries have no gaps");
    assert!(entry.is_none_or(|entry| entry == recorded), "an entry has its own number");
    let (from, to) = (before.state(), after.state());
    if from != to {
        let listed = TABLE.iter().any(|row| row.from == from && Some(row.to) == to);
        assert!(listed, "{from:?} to {to:?} is not in the table");
    }
    if let (Subject::Live(before), Subject::Live(after)) = (before, after) {
        assert!(before.claim_version <= after.claim_version, "the claim version shrank");
        assert!(before.decided_at <= after.decided_at, "time ran backwards");
        let granted = u32::from(*answer == Answer::Granted);
        assert_eq!(after.attempt, before.attempt + granted, "attempts grow with grants only");
    }
    if let Subject::Done(done) = after {
        let started_at = done.started_at.unwrap_or(done.completed_at);
        assert!(done.created_at <= started_at && started_at <= done.completed_at);
    }
}

fn worker(source: &mut Unstructured<'_>) -> Result<Name> {
    Ok((*source.choose(&["ann", "bob"])?).into())
}

fn progress_clock(source: &mut Unstructured<'_>) -> Result<Option<ProgressClock>> {
    let is_set: bool = source.arbitrary()?;
    if !is_set {
        return Ok(None);
    }
    Ok(Some(ProgressClock { after: span(source)?, action: *source.choose(&OnStall::ALL)? }))
}

fn submission(source: &mut Unstructured<'_>) -> Result<Submit> {
    let policy = Policy {
        lease: span(source)?,
        heartbeat_every: span(source)?,
        cancel_grace: span(source)?,
        failures_max: source.arbitrary()?,
        lost_max: source.arbitrary()?,
        retry_base: span(source)?,
        retry_cap: span(source)?,
        attempt_limit: Option::<u64>::arbitrary(source)?.map(Span::from_millis),
        deadline: Option::<i64>::arbitrary(source)?.map(Time::from_millis),
        ttl: Option::<u64>::arbitrary(source)?.map(Span::from_millis),
        seed: source.arbitrary()?,
        progress_clock: progress_clock(source)?,
    };
    Ok(Submit {
        budget: None,
        flow: None,
        id: TaskId::from_u128(7),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: source.arbitrary()?,
        policy,
        run_at: Option::<i64>::arbitrary(source)?.map(Time::from_millis),
        input: Digest::of(&[]),
        fingerprint: Digest::of(&[]),
    })
}

/// Short spans, so that something happens, and sometimes one that overflows.
fn span(source: &mut Unstructured<'_>) -> Result<Span> {
    if source.ratio(1, 8)? {
        return Ok(Span::from_millis(source.arbitrary()?));
    }
    Ok(Span::from_millis(source.int_in_range(0..=64)?))
}
