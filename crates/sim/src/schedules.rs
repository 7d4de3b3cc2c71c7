//! Schedules in worlds that have them: somebody makes them, pauses and resumes some, and deletes them all once faults have
//! stopped; and at the end every instant must be accounted for.
//!
//! The judge knows nothing of the rules but the interval: it counts instants between two revisions of a schedule, and
//! runs by the key of their instant. So an instant that fired twice, not at all, or out of turn is found, whoever died
//! around it.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};
use store::objects::{ObjectFilter, ObjectLogFilter, schedule_of};
use store::{Browse, Decided, IdempotencyKey, KeyOwner, Store, StoredTask};
use storetest::MemoryStore;
use verdict::schedule::{DUE_MAX, FIRING_KEY_PREFIX, Overlap, Recurrence, Schedule};
use verdict::{Done, ObjectKey, ObjectType, Subject, Time};

use crate::actor_context::{ActorContext, CallOutcome, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::network::HttpRequest;
use crate::options::RunOptions;
use crate::rng::{SimRng, Stream};
use crate::run_spec::RunSpec;

/// The shortest interval that the API accepts, and one that is rarely missed.
const EVERY_MS: (u64, u64) = (1_000, 3_000);

/// How long calls may take, and the pause before they are made again.
const TIMEOUT_MS: u64 = 4_000;
const RETRY_MS: (u64, u64) = (50, 600);

/// When a schedule is paused, and for how long.
const PAUSE_AFTER_MS: (u64, u64) = (2_000, 9_000);
const PAUSED_MS: (u64, u64) = (1_000, 5_000);

/// How long schedules go on after the last fault, and how far behind they may be at the end of it.
const HEALED_MS: u64 = 15_000;
const BEHIND_MS_MAX: i64 = 8_000;

/// Interval at which a planner looks whether faults have stopped.
const LOOK_EVERY_MS: u64 = 200;

/// More rows than any world has.
const ALL: usize = 100_000;

/// Makes one schedule, and sees it through.
pub(crate) async fn planner(ctx: Rc<ActorContext>, number: u32) {
    ctx.observations.borrow_mut().open += 1;
    let rng = SimRng::new(ctx.seed, Stream::Planner(number));
    let mut planner = Planner { ctx: ctx.clone(), rng, name: format!("nightly-{number}") };
    planner.create().await;
    if planner.rng.chance(500) {
        let (after, paused) = (planner.draw(PAUSE_AFTER_MS), planner.draw(PAUSED_MS));
        ctx.sleep(after).await;
        planner.change("pause").await;
        ctx.sleep(paused).await;
        planner.change("resume").await;
    }
    while !ctx.faults_stopped.get() {
        ctx.sleep(LOOK_EVERY_MS).await;
    }
    ctx.sleep(HEALED_MS).await;
    planner.change("delete").await;
    ctx.observations.borrow_mut().open -= 1;
}

struct Planner {
    ctx: Rc<ActorContext>,
    rng: SimRng,
    name: String,
}

impl Planner {
    fn draw(&mut self, (low, high): (u64, u64)) -> u64 {
        self.rng.between(low, high)
    }

    async fn create(&mut self) {
        // A template has no instants of its own.
        let runs = RunOptions { delayed: 0, deadline: 0, ..self.ctx.options.runs };
        let run = RunSpec::draw(&mut self.rng, &runs, &self.name, 0).body;
        let overlap = *self.rng.pick(&Overlap::ALL);
        let has_room = matches!(overlap, Overlap::Queue | Overlap::Allow);
        let catch_up = if has_room && self.rng.chance(500) { "all" } else { "one" };
        let body = json!({
            "name": self.name, "everyMs": self.draw(EVERY_MS), "overlap": overlap.name(),
            "catchUp": catch_up, "run": run,
        });
        self.until_known("/v1/schedules".to_owned(), body).await;
    }

    async fn change(&mut self, what: &str) {
        let path = format!("/v1/schedules/{}/{what}", self.name);
        self.until_known(path, json!({})).await;
    }

    /// Makes a call until its outcome is known. A refusal is an outcome: what was lost on the way is in force.
    async fn until_known(&mut self, path: String, body: Value) {
        loop {
            let ask = HttpRequest {
                method: "POST",
                path: path.clone(),
                bearer: self.ctx.accesses[0].client_key.clone(),
                idempotency_key: None,
                body: Some(body.to_string().into_bytes()),
            };
            let to = self.ctx.pick_host(&mut self.rng);
            let (who, invokes) = ("planner", Vec::new());
            let call = OutgoingCall { who, to, ask, timeout_ms: TIMEOUT_MS, invokes };
            let called = self.ctx.call(call).await;
            match self.ctx.read::<Value>(who, &called) {
                CallOutcome::Ok(_) => return self.ctx.say(format_args!("{path} is done")),
                CallOutcome::Refused(problem) => {
                    return self.ctx.say(format_args!("{path} is refused: {}", problem.error));
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => {}
            }
            let pause = self.draw(RETRY_MS);
            self.ctx.sleep(pause).await;
        }
    }
}

/// A planted bug: the commit of a firing is torn, and its key is not found again.
pub(crate) fn tear(decided: &mut Decided, batch: u64) {
    if batch.is_multiple_of(2) && !decided.changes.is_empty() {
        decided.objects.retain(|change| change.after.key.object_type != ObjectType::Schedule);
    }
}

/// The other half of that bug.
pub(crate) fn forget_firings(keys: &[IdempotencyKey], owners: &mut [Option<KeyOwner>]) {
    for (key, owner) in keys.iter().zip(owners) {
        if key.text.as_str().starts_with(FIRING_KEY_PREFIX) {
            *owner = None;
        }
    }
}

/// Checks every schedule, once everything has ended.
pub(crate) async fn check(ctx: &ActorContext, store: &MemoryStore, found: &[&StoredTask]) {
    let filter = ObjectFilter {
        object_type: Some(ObjectType::Schedule),
        limit: ALL,
        ..ObjectFilter::default()
    };
    let objects = store.browse().objects(&filter).await.expect("memory can be read");
    for object in objects {
        let revisions = revisions(store, &object.key).await;
        let runs = runs_of(ctx, &object.key, found);
        for pair in revisions.windows(2) {
            check_round(ctx, &object.key, &pair[0].1, &pair[1].1);
        }
        check_runs(ctx, &object.key, &revisions, &runs);
        check_delay(ctx, &object.key, &revisions);
    }
}

async fn revisions(store: &MemoryStore, key: &ObjectKey) -> Vec<(Time, Schedule)> {
    let filter = ObjectLogFilter { key: Some(key.clone()), after: None, limit: ALL };
    let log = store.browse().object_log(&filter).await.expect("memory can be read");
    let revision = |change: &store::ObjectChange| Some((change.at, schedule_of(&change.after)?));
    log.iter().filter_map(revision).collect()
}

/// The runs of a schedule by their instants. Two runs of one instant are a violation.
fn runs_of<'a>(
    ctx: &ActorContext,
    key: &ObjectKey,
    found: &[&'a StoredTask],
) -> BTreeMap<i64, &'a Done> {
    let prefix = format!("{FIRING_KEY_PREFIX}{}/", key.id);
    let mut runs = BTreeMap::new();
    for found in found {
        let text = found.spec.key.as_ref().and_then(|text| text.as_str().strip_prefix(&prefix));
        let instant = text.and_then(|text| text.parse::<i64>().ok());
        let (Some(instant), Subject::Done(done)) = (instant, &found.subject) else { continue };
        if let Some(other) = runs.insert(instant, done) {
            let (one, two) = (other.id, done.id);
            ctx.log.violate("firing", format_args!("{instant} is {one} and {two}"));
        }
    }
    runs
}

fn considered(schedule: &Schedule) -> u64 {
    let counts = schedule.counts;
    counts.fired + counts.skipped + counts.missed + counts.refused + schedule.waiting.len() as u64
}

/// Every instant that the schedule moved over is counted, and none twice.
fn check_round(ctx: &ActorContext, key: &ObjectKey, before: &Schedule, after: &Schedule) {
    let Recurrence::Every { every, .. } = &before.terms.recurrence else { return };
    let (Some(from), Some(to)) = (before.next, after.next) else { return };
    let passed = to.since(from).millis() / every.millis().max(1);
    let counted = considered(after).saturating_sub(considered(before));
    // Of more that were missed, the oldest are not counted.
    if counted != passed && passed <= DUE_MAX as u64 {
        let id = &key.id;
        ctx.log.violate("firing", format_args!("{id}: {passed} instants, {counted} accounted for"));
    }
    note_goals(ctx, before, after);
}

fn note_goals(ctx: &ActorContext, before: &Schedule, after: &Schedule) {
    let (then, now) = (before.counts, after.counts);
    if now.fired > then.fired {
        ctx.log.reach_goal(CoverageGoal::ScheduleFired);
    }
    if now.skipped > then.skipped {
        ctx.log.reach_goal(CoverageGoal::InstantSkipped);
    }
    if now.missed > then.missed {
        ctx.log.reach_goal(CoverageGoal::InstantMissed);
    }
    if !after.waiting.is_empty() {
        ctx.log.reach_goal(CoverageGoal::InstantWaited);
    }
}

/// What the schedule counted is there, and where runs may not overlap they did not.
fn check_runs(
    ctx: &ActorContext,
    key: &ObjectKey,
    revisions: &[(Time, Schedule)],
    runs: &BTreeMap<i64, &Done>,
) {
    let Some((_, last)) = revisions.last() else { return };
    let (id, fired) = (&key.id, last.counts.fired);
    if fired != runs.len() as u64 {
        let count = runs.len();
        ctx.log.violate("firing", format_args!("{id} fired {fired} times, {count} runs exist"));
    }
    if !matches!(last.terms.overlap, Overlap::Skip | Overlap::Queue) {
        return;
    }
    for (one, two) in runs.values().zip(runs.values().skip(1)) {
        if two.created_at < one.completed_at {
            let (one, two) = (one.id, two.id);
            ctx.log.violate("firing", format_args!("{two} began before {one} had ended"));
        }
    }
}

/// Long after the last fault a schedule is up to date: no instant was forgotten.
fn check_delay(ctx: &ActorContext, key: &ObjectKey, revisions: &[(Time, Schedule)]) {
    let Some((deleted_at, _)) = revisions.iter().find(|(_, it)| it.is_deleted) else {
        ctx.log.violate("firing", format_args!("{} was never deleted", key.id));
        return;
    };
    let next = revisions.iter().rev().find(|(_, it)| !it.is_deleted).and_then(|(_, it)| it.next);
    let behind = next.map_or(0, |next| deleted_at.millis() - next.millis());
    if behind > BEHIND_MS_MAX {
        ctx.log.violate("firing", format_args!("{} is {behind} ms behind", key.id));
    }
}
