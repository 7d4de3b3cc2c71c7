//! Invariants that hold after any sequence of requests at any times.

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::request::{Caller, CancelMode, Outcome, Undelivered};
use verdict::transition::TABLE;
use verdict::{
    Answer, AttemptOutcome, Category, ClosedAttempt, Context, Event, Fence, Moment, OnStall,
    Policy, ProgressClock, ReadSet, Reason, Request, Rules, Span, State, Subject, Time, decide,
};

use crate::world::{START, World, beat, cancel, failed, report, secs, start, succeeded};

/// One step of a random life. Callers are chosen among all leases ever granted.
#[derive(Clone, Debug)]
enum Ask {
    Grant,
    Start(usize),
    Beat(usize),
    Succeed(usize),
    Fail(usize, Category),
    Cancelled(usize),
    Release(usize),
    Cancel(CancelMode),
    Sweep,
    Undelivered(usize),
    Extend(u64),
    Restore,
}

fn ask() -> impl Strategy<Value = Ask> {
    let lease = 0..4_usize;
    let category = proptest::sample::select(Category::ALL.to_vec());
    prop_oneof![
        8 => Just(Ask::Grant),
        3 => lease.clone().prop_map(Ask::Start),
        4 => lease.clone().prop_map(Ask::Beat),
        1 => lease.clone().prop_map(Ask::Succeed),
        4 => (lease.clone(), category).prop_map(|(lease, category)| Ask::Fail(lease, category)),
        1 => lease.clone().prop_map(Ask::Cancelled),
        1 => lease.clone().prop_map(Ask::Release),
        1 => Just(Ask::Cancel(CancelMode::Graceful)),
        1 => Just(Ask::Cancel(CancelMode::Immediate)),
        6 => Just(Ask::Sweep),
        1 => lease.prop_map(Ask::Undelivered),
        1 => (1..400_u64).prop_map(Ask::Extend),
        1 => Just(Ask::Restore),
    ]
}

/// Mostly durations that matter to leases, backoffs and graces; sometimes a clock that runs
/// backwards.
fn step() -> impl Strategy<Value = (i64, Ask)> {
    let passed = prop_oneof![
        4 => 0..2_000_i64,
        4 => 5_000..40_000_i64,
        2 => 80_000..100_000_i64,
        1 => -50_000..0_i64,
    ];
    (passed, ask())
}

fn policy() -> impl Strategy<Value = Policy> {
    let limit = proptest::option::of((30..400_u64).prop_map(Span::from_secs));
    let deadline = proptest::option::of((0..900_u64).prop_map(|after| START.plus(secs(after))));
    let grace = (1..200_u64).prop_map(Span::from_secs);
    let clock = proptest::option::of((1..100_u64, 0..3_usize).prop_map(|(after, action)| {
        ProgressClock { after: secs(after), action: OnStall::ALL[action] }
    }));
    let ttl = proptest::option::of((1..120_u64).prop_map(Span::from_secs));
    let seed = proptest::option::of(any::<u64>());
    let limits = (limit, deadline, ttl);
    (1..5_u32, 1..5_u32, limits, seed, grace, clock).prop_map(
        |(failures_max, lost_max, limits, seed, cancel_grace, progress_clock)| {
            let (attempt_limit, deadline, ttl) = limits;
            Policy {
                progress_clock,
                cancel_grace,
                failures_max,
                lost_max,
                attempt_limit,
                deadline,
                ttl,
                seed,
                ..Policy::default()
            }
        },
    )
}

/// One life of a task, with every caller that ever held the lease, the latest first.
struct Life {
    world: World,
    callers: Vec<Caller>,
    fences: Vec<Fence>,
}

impl Life {
    fn begin(policy: Policy) -> Self {
        Self { world: World::submitted(policy), callers: Vec::new(), fences: Vec::new() }
    }

    /// A life under this version of the rules.
    fn under(rules: Rules, policy: Policy) -> Self {
        let mut life = Self::begin(policy);
        life.world.rules = rules;
        life
    }

    fn request(&mut self, ask: &Ask) -> Option<Request> {
        let caller = |back: usize| self.callers.get(back);
        Some(match ask {
            Ask::Grant => self.world.grant_request("ann"),
            Ask::Start(back) => start(caller(*back)?),
            Ask::Beat(back) => beat(caller(*back)?),
            Ask::Succeed(back) => report(caller(*back)?, succeeded()),
            Ask::Fail(back, category) => report(caller(*back)?, failed(*category)),
            Ask::Cancelled(back) => report(caller(*back)?, crate::world::cancelled()),
            Ask::Release(back) => report(caller(*back)?, Outcome::Released),
            Ask::Cancel(mode) => cancel(*mode),
            Ask::Sweep => Request::Sweep,
            Ask::Undelivered(back) => {
                Request::Undelivered(Undelivered { lease: caller(*back)?.lease })
            }
            Ask::Extend(seconds) => Request::Extend(verdict::request::Extend {
                stalled_since: Time::from_millis(self.world.now.millis() - *seconds as i64 * 1000),
                gap: secs(*seconds),
            }),
            Ask::Restore => return None,
        })
    }

    /// Applies one step and compares the state with the one before.
    fn live(&mut self, passed: i64, ask: &Ask) {
        self.world.now = Time::from_millis(self.world.now.millis() + passed);
        if matches!(ask, Ask::Restore) {
            self.world.epoch += 1;
        }
        let Some(request) = self.request(ask) else { return };
        let before = self.world.subject.clone();
        let at = before.dated(self.world.moment()).now;
        check_versions(&self.world, &request);
        let answer = self.world.ask(request);
        check_change(&before, &self.world, &answer);
        if answer == Answer::Granted {
            check_grant(&before, at);
            self.callers.insert(0, self.world.caller());
            self.fences.push(self.world.lease().fence);
        }
    }
}

/// Each version gives the same verdict when asked twice. The planted version differs only for an outage.
fn check_versions(world: &World, request: &Request) {
    let closed = request
        .caller()
        .and_then(|caller| world.closed.iter().find(|closed| closed.lease == caller.lease));
    let read_set =
        ReadSet { subject: &world.subject, context: Context { closed, ..Context::default() } };
    let verdicts = Rules::ALL.map(|rules| {
        let at = Moment { rules, ..world.moment() };
        let verdict = decide(read_set, request, at);
        assert_eq!(verdict, decide(read_set, request, at), "{rules:?}");
        verdict
    });
    let gap_differs = matches!(request, Request::Extend(_));
    let [first, others @ ..] = &verdicts;
    assert!(gap_differs || others.iter().all(|other| other == first), "{request:?}");
}

fn rules() -> impl Strategy<Value = Rules> {
    proptest::sample::select(Rules::ALL.to_vec())
}

fn check_change(before: &Subject, world: &World, answer: &Answer) {
    let after = &world.subject;
    let (from, to) = (before.state(), after.state());
    if from != to {
        let to = to.expect("no task disappears");
        // S2-42: every change that happens is listed.
        assert!(TABLE.iter().any(|row| row.from == from && row.to == to), "{from:?} to {to:?}");
    }
    if let Subject::Done(_) = before {
        // S2-41, S2-111: ended tasks never change, whatever the request.
        assert_eq!(before, after);
    }
    if world.events.is_empty() {
        assert_eq!(before, after);
    }
    let (was, is) = (numbers(before), numbers(after));
    // S0-35, R-1, W-27: the claim version only grows.
    assert!(is.claim_version >= was.claim_version);
    // S2-112, R-15, W-3: the attempt number grows by one with a grant, and with nothing else.
    assert_eq!(is.attempt, was.attempt + u32::from(*answer == Answer::Granted));
    assert!(is.failures >= was.failures && is.lost >= was.lost);
    if let (Subject::Live(was), Subject::Live(is)) = (before, after) {
        assert!(is.decided_at >= was.decided_at);
        assert_eq!(is.revision, was.revision + u32::from(!world.events.is_empty()));
    }
    check_times(after);
}

struct Numbers {
    claim_version: u32,
    attempt: u32,
    failures: u32,
    lost: u32,
}

fn numbers(subject: &Subject) -> Numbers {
    match subject {
        Subject::Live(task) => Numbers {
            claim_version: task.claim_version,
            attempt: task.attempt,
            failures: task.failures,
            lost: task.lost,
        },
        Subject::Done(done) => Numbers {
            claim_version: done.claim_version,
            attempt: done.attempt,
            failures: done.failures,
            lost: done.lost,
        },
        Subject::Absent => unreachable!("every life begins with a submission"),
    }
}

fn check_times(subject: &Subject) {
    if let Subject::Done(done) = subject {
        let started_at = done.started_at.unwrap_or(done.completed_at);
        // S2-113, R-31: whatever the clocks do.
        assert!(done.created_at <= started_at && started_at <= done.completed_at);
    }
}

fn check_grant(before: &Subject, now: Time) {
    let task = before.live().expect("only a live task is granted");
    // S0-40, W-1: never while another lease exists.
    assert_eq!(task.lease(), None);
    // S3-68, S2-96: never before it is due.
    assert!(task.claimable_at().is_some_and(|due| due.has_come(now)));
    // W-31: never after the deadline. R-12: never after a cancel.
    assert!(task.policy.deadline.is_none_or(|deadline| !deadline.has_come(now)));
    assert_eq!(task.cancel, None);
}

fn check_life(life: &Life) {
    // R-1, S0-35: fences strictly grow from grant to grant, restores included.
    assert!(life.fences.is_sorted_by(|earlier, later| earlier < later), "{:?}", life.fences);
    let counted = |outcome| life.world.closed.iter().filter(|row| row.outcome == outcome).count();
    let numbers = numbers(&life.world.subject);
    // One that was cancelled for it was heard: it ends the task and is counted nowhere.
    let is_stalled = |row: &&ClosedAttempt| {
        row.outcome == AttemptOutcome::Revoked && row.reason == Some(Reason::Stalled)
    };
    let stalled = life.world.closed.iter().filter(is_stalled).count();
    // R-11, W-19: failures are counted separately from lost attempts and those that got nowhere, each as it happened.
    assert_eq!(numbers.lost as usize, counted(AttemptOutcome::Lost) + stalled);
    assert!(numbers.failures as usize >= counted(AttemptOutcome::Failed));
    // every attempt is closed once, except the one that is open.
    let open = life.world.subject.live().is_some_and(|task| task.lease().is_some());
    assert_eq!(numbers.attempt as usize, life.world.closed.len() + usize::from(open));
    // S2-100, S2-103: every task that waits or runs has a time at which it is swept or claimable.
    if let Subject::Live(task) = &life.world.subject {
        assert!(task.cancel.is_none() || open, "a cancelled task waits for nobody");
        assert!(open == task.claimable_at().is_none());
        assert!(!open || task.wakes_at().is_some());
        check_wake(&life.world.subject, task.wakes_at(), task.decided_at, life.world.epoch);
    }
}

/// A sweep changes something from the instant that the task names, and not before: no sweep is in
/// vain, and none comes late.
fn check_wake(subject: &Subject, wakes_at: Option<Time>, decided_at: Time, epoch: u32) {
    let Some(wakes_at) = wakes_at else { return };
    let swept = |now| {
        let at = Moment { now, epoch, rules: Rules::NEWEST };
        decide(ReadSet::of(subject), &Request::Sweep, at).answer == Answer::Done
    };
    // S3-48, S2-100: leases and limits expire on time.
    assert!(swept(wakes_at.max(decided_at)));
    let before = Time::from_millis(wakes_at.millis() - 1);
    assert!(before < decided_at || !swept(before));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_life_keeps_the_invariants(
        rules in rules(),
        policy in policy(),
        steps in vec(step(), 1..60),
    ) {
        let mut life = Life::under(rules, policy);
        for (passed, ask) in &steps {
            life.live(*passed, ask);
            check_life(&life);
        }
    }

    #[test]
    fn a_repeated_report_is_answered_as_the_first_time(policy in policy(), steps in vec(step(), 1..40)) {
        let mut life = Life::begin(policy);
        for (passed, ask) in &steps {
            life.live(*passed, ask);
            if let Some(Ask::Fail(back, category)) = Some(ask)
                && let Some(caller) = life.callers.get(*back).cloned()
            {
                let outcome = failed(*category);
                let first = life.world.ask_in_vain(report(&caller, outcome.clone()));
                // S3-12, S3-63, R-5: a repeated report gets the same answer and changes nothing.
                let second = life.world.ask_in_vain(report(&caller, outcome));
                prop_assert_eq!(first, second);
            }
        }
    }

    #[test]
    fn a_silent_world_comes_to_rest(policy in policy(), steps in vec(step(), 1..40)) {
        let mut life = Life::begin(policy);
        for (passed, ask) in &steps {
            life.live(*passed, ask);
        }
        // S2-100, W-19: with sweeps and grants alone, no task runs for ever.
        for _ in 0..60 {
            let Some(task) = life.world.subject.live() else { break };
            let now = life.world.now.max(task.decided_at);
            let next = task.wakes_at().into_iter().chain(task.claimable_at()).min();
            life.world.now = now.max(next.expect("a live task wakes or waits to be granted"));
            let grant = life.world.grant_request("ann");
            if life.world.sweep() == Answer::Nothing {
                prop_assert_eq!(life.world.ask(grant), Answer::Granted);
            }
        }
        prop_assert!(life.world.state().is_terminal());
        prop_assert!(life.world.state() != State::Succeeded || !life.callers.is_empty());
    }

    #[test]
    fn the_events_alone_rebuild_the_task(policy in policy(), steps in vec(step(), 1..40)) {
        let mut life = Life::begin(policy.clone());
        let mut rebuilt = World::submitted(policy).subject;
        for (passed, ask) in &steps {
            let events_before = life.world.subject.clone();
            life.live(*passed, ask);
            if matches!(ask, Ask::Restore) || events_before == life.world.subject {
                continue;
            }
            let moment = life.world.moment();
            let at = rebuilt.dated(moment).now;
            let events: Vec<Event> = life.world.events.clone();
            rebuilt = rebuilt.settle(&events, at);
            // replaying the recorded events reproduces the state without reading a
            // clock.
            prop_assert_eq!(&rebuilt, &life.world.subject);
        }
    }
}
