//! Generates the next requests: mostly valid ones, sometimes invalid ones.

use std::collections::BTreeSet;

use store::TaskKey;
use storetest::conformance::driver::{caller, key_of};
use storetest::conformance::{Call, CallResult, Poll, Submission};
use verdict::request::{
    Caller, Cancel, CancelMode, Extend, Heartbeat, Outcome, Report, Started, Undelivered,
};
use verdict::task::Progress;
use verdict::{
    Answer, Category, Digest, Fault, LeaseId, OnStall, Policy, ProgressClock, Request, Scope, Span,
    TaskId, Time,
};

use super::dice::Dice;

const QUEUES: [&str; 3] = ["images", "letters", "mails"];
const KINDS: [&str; 2] = ["resize", "send"];
const WORKERS: [&str; 3] = ["ann", "bob", "cid"];
const TENANTS: [&str; 2] = ["acme", "other"];
const PRIORITIES: [i32; 5] = [0, 0, -1, 5, i32::MAX];

/// Remembers what exists, so that most requests are about an existing task.
#[derive(Default)]
pub(crate) struct Generator {
    keys: Vec<TaskKey>,
    callers: Vec<(TaskKey, Caller)>,
    numbers: u128,
}

/// How much time passes before a batch: within leases, beyond them, rarely beyond the day that a key holds.
pub(crate) fn span(dice: &mut Dice) -> Span {
    let millis = match dice.below(20) {
        0..8 => dice.below(2_000),
        8..15 => 5_000 + dice.below(35_000),
        15..18 => 80_000 + dice.below(20_000),
        18 => 600_000,
        _ => 25 * 60 * 60 * 1000,
    };
    Span::from_millis(millis)
}

impl Generator {
    pub(crate) fn ask(&mut self, dice: &mut Dice, now: Time) -> Call {
        match dice.below(20) {
            0..4 => self.submit(dice, now),
            4..8 => self.poll(dice),
            8..15 => self.under_a_lease(dice).unwrap_or_else(|| self.submit(dice, now)),
            15 => self.cancel(dice).unwrap_or_else(|| self.submit(dice, now)),
            16 => self.undelivered(dice).unwrap_or_else(|| self.poll(dice)),
            17 => extend(dice, now),
            _ => Call::Sweep { limit: *dice.pick(&[1, 2, 1000]) },
        }
    }

    fn number(&mut self) -> u128 {
        self.numbers += 1;
        self.numbers
    }

    fn submit(&mut self, dice: &mut Dice, now: Time) -> Call {
        let id = TaskId::from_u128(self.number());
        let mut submission = Submission::new(id, &scope(dice), dice.pick::<&str>(&QUEUES));
        let submit = &mut submission.submit;
        submit.kind = (*dice.pick(&KINDS)).into();
        submit.priority = *dice.pick(&PRIORITIES);
        submit.policy = policy(dice, now);
        submit.run_at = dice.one_in(4).then(|| now.plus(Span::from_millis(dice.below(60_000))));
        if dice.one_in(3) {
            submission.spec.key = Some(format!("k{}", dice.below(6)).into());
            let fingerprint = Digest::of(&[&[dice.one_in(4).into()]]);
            submission.spec.fingerprint = fingerprint;
            submission.submit.fingerprint = fingerprint;
        }
        if dice.one_in(3) {
            submission.spec.labels = [("team".to_owned(), dice.below(3).to_string())].into();
        }
        Call::Submit(submission)
    }

    fn poll(&mut self, dice: &mut Dice) -> Call {
        let queues = (0..=dice.below(3)).map(|_| (*dice.pick(&QUEUES)).into()).collect();
        let kinds = dice.one_in(3).then(|| vec![(*dice.pick(&KINDS)).into()]);
        let max = 1 + dice.below(3) as usize;
        Call::Poll(Poll {
            want: store::Want { scope: scope(dice), queues, kinds, max },
            worker: (*dice.pick(&WORKERS)).into(),
            name: dice.one_in(3).then(|| format!("p{}", dice.below(3)).into()),
            first_lease: self.number() << 32,
        })
    }

    fn under_a_lease(&mut self, dice: &mut Dice) -> Option<Call> {
        let (key, caller) = dice.recent(&self.callers)?.clone();
        let caller = disturbed(dice, caller);
        let request = match dice.below(7) {
            0 => Request::Started(Started { caller, claimed_at: None }),
            1..4 => Request::Heartbeat(Heartbeat { caller, progress: progress(dice) }),
            _ => report(dice, caller),
        };
        Some(Call::About { key, request })
    }

    fn cancel(&mut self, dice: &mut Dice) -> Option<Call> {
        let mut key = dice.recent(&self.keys)?.clone();
        if dice.one_in(8) {
            key.scope = scope(dice);
        }
        let mode = *dice.pick(&[CancelMode::Graceful, CancelMode::Graceful, CancelMode::Immediate]);
        let request = Request::Cancel(Cancel { reason: Some("why not".into()), mode });
        Some(Call::About { key, request })
    }

    fn undelivered(&mut self, dice: &mut Dice) -> Option<Call> {
        let (key, caller) = dice.recent(&self.callers)?.clone();
        let request = Request::Undelivered(Undelivered { lease: caller.lease });
        Some(Call::About { key, request })
    }

    /// Records what a request created.
    pub(crate) fn learn(&mut self, ask: &Call, said: &CallResult) {
        match (ask, said) {
            (
                Call::Submit(submission),
                CallResult::Answer(Answer::Accepted { replayed: false, .. }),
            ) => {
                self.keys.push(submission.task_key());
            }
            (_, CallResult::Granted(leases)) => {
                self.callers.extend(leases.iter().map(|ready| (key_of(ready), caller(ready))));
            }
            _ => {}
        }
    }

    /// Every task a batch may have changed.
    pub(crate) fn touched(&self, asks: &[Call], said: &[CallResult]) -> BTreeSet<TaskKey> {
        let mut keys = BTreeSet::new();
        for (ask, said) in asks.iter().zip(said) {
            match ask {
                Call::Submit(submission) => drop(keys.insert(submission.task_key())),
                Call::About { key, .. } => drop(keys.insert(key.clone())),
                Call::Poll(_) | Call::Sweep { .. } | Call::OfRunning { .. } => {}
            }
            match said {
                CallResult::Granted(leases) => keys.extend(leases.iter().map(key_of)),
                CallResult::Each(each) => keys.extend(
                    self.keys
                        .iter()
                        .filter(|key| each.iter().any(|(id, _)| *id == key.id))
                        .cloned(),
                ),
                CallResult::Answer(_) | CallResult::Locked => {}
            }
        }
        keys
    }
}

fn scope(dice: &mut Dice) -> Scope {
    let tenant = if dice.one_in(5) { TENANTS[1] } else { TENANTS[0] };
    Scope::new(tenant, "main")
}

fn policy(dice: &mut Dice, now: Time) -> Policy {
    Policy {
        lease: Span::from_secs(*dice.pick(&[2, 30, 90])),
        failures_max: 1 + dice.below(3) as u32,
        lost_max: 1 + dice.below(3) as u32,
        attempt_limit: dice.one_in(5).then(|| Span::from_secs(1 + dice.below(200))),
        deadline: dice.one_in(5).then(|| now.plus(Span::from_secs(dice.below(900)))),
        ttl: dice.one_in(5).then(|| Span::from_secs(1 + dice.below(300))),
        seed: dice.one_in(2).then_some(7),
        progress_clock: dice.one_in(3).then(|| progress_clock(dice)),
        ..Policy::default()
    }
}

fn progress_clock(dice: &mut Dice) -> ProgressClock {
    let after = Span::from_secs(1 + dice.below(60));
    ProgressClock { after, action: *dice.pick(&OnStall::ALL) }
}

/// One caller in six has a wrong field.
fn disturbed(dice: &mut Dice, caller: Caller) -> Caller {
    match dice.below(18) {
        0 => Caller { worker: "eve".into(), ..caller },
        1 => Caller { attempt: dice.below(5) as u32 + 1, ..caller },
        2 => Caller { lease: LeaseId::from_u128(u128::from(dice.below(9))), ..caller },
        _ => caller,
    }
}

fn progress(dice: &mut Dice) -> Option<Progress> {
    let percent = Some(dice.below(101) as u8);
    dice.one_in(2).then(|| Progress { percent, message: Some("on it".into()) })
}

fn report(dice: &mut Dice, caller: Caller) -> Request {
    let long = if dice.one_in(6) { "ü".repeat(500) } else { String::new() };
    let outcome = match dice.below(5) {
        0 => Outcome::Succeeded { output: Some(format!("{{\"text\":\"{long}\"}}").into()) },
        1 => Outcome::Cancelled { output: None },
        2 => Outcome::Released,
        _ => Outcome::Failed(Fault {
            category: *dice.pick(&Category::ALL),
            message: "it broke".into(),
            stack_trace: dice.one_in(2).then(|| format!("at line 3\n{long}").into()),
            retryable: *dice.pick(&[None, Some(true), Some(false)]),
        }),
    };
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    let claims = dice.one_in(3).then(|| format!("{{\"cpuTimeMs\":3,\"x\":\"{long}\"}}").into());
    Request::Report(Report { caller, outcome, digest, claims, by: None })
}

fn extend(dice: &mut Dice, now: Time) -> Call {
    let gap = Span::from_secs(1 + dice.below(100));
    let stalled_since = Time::from_millis(now.millis() - gap.millis() as i64);
    let request = Request::Extend(Extend { stalled_since, gap });
    Call::OfRunning { request, page: 1 + dice.below(3) as usize }
}
