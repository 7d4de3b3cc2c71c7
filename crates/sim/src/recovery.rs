//! Recovery in worlds that have it: a policy holds for every run, coordinators or workers evaluate candidates and die over it, people
//! decide what is escalated; and at the end every failure must be accounted for.
//!
//! The judge reads notes, candidates with their logs, and runs. It knows the policy and nothing of how rounds are carried out: one
//! live round for each signature, an action carried out at most once, one new run at most for each that failed, nothing beyond the
//! policy, and no failure forgotten, whoever died around it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Value, json};
use store::objects::{ObjectFilter, ObjectLogFilter};
use store::recovery::{
    CLOSED, EVALUATION, NEW, candidate_of, failed_run_key, failed_run_of, policy_change,
};
use store::{Browse, Decided, IdempotencyKey, KeyOwner, ObjectChange, Store, StoredTask};
use storetest::MemoryStore;
use verdict::recovery::{
    Action, Candidate, CandidateState, Deciders, Evaluator, FailedRun, KEY_PREFIX, QUEUE,
    RecoveryPolicy, Signature, Terms, is_evaluation as is_evaluation_kind, policy_key,
};
use verdict::{Name, Object, ObjectType, Scope, Span, State, Subject, TaskId, Time};

use crate::actor_context::{ActorContext, CallOutcome, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::network::HttpRequest;
use crate::rng::{SimRng, Stream};

/// How long a candidate may be acted on: a candidate and the one after it end before a world must have drained.
const EXPIRES_MS: (u64, u64) = (15_000, 40_000);

/// How long a poll for evaluations waits, and how long a caller waits for an answer beyond it.
const WAIT_MS: u64 = 1_000;
const TIMEOUT_MS: u64 = 3_000;
const PAUSE_MS: (u64, u64) = (50, 1_500);

/// How many evaluations in a thousand are never reported, fail, and name something that the policy may not allow.
const DIES: u32 = 150;
const FAILS: u32 = 100;
const WILD: u32 = 150;

/// More rows than any world has.
const ALL: usize = 100_000;

/// What the policy of a world allows.
pub(crate) fn draw(rng: &mut SimRng) -> Terms {
    let optional = [Action::Continue, Action::Notify, Action::Escalate];
    let chosen = optional.into_iter().filter(|_| rng.chance(700));
    let actions: Vec<Action> = [Action::Retry].into_iter().chain(chosen).collect();
    Terms {
        actions,
        attempts: rng.between(1, 2) as u32,
        runs_max: rng.between(1, 6) as u32,
        cost_micros: None,
        expires: Span::from_millis(rng.between(EXPIRES_MS.0, EXPIRES_MS.1)),
        evaluator: *rng.pick(&Evaluator::ALL),
        deciders: Deciders { quorum: rng.between(1, 2) as u32, ..Deciders::default() },
    }
}

/// The policy as a store has it that nobody has used yet.
pub(crate) fn in_force(terms: &Terms, at: Time) -> Decided {
    let (queue, kind) = (None, None);
    let (name, terms) = (Name::from("p"), terms.clone());
    let policy = RecoveryPolicy { name, queue, kind, terms, is_deleted: false };
    let key = policy_key(&Scope::default(), &policy.name);
    Decided { objects: vec![policy_change(key, 1, &policy, at, None)], ..Decided::default() }
}

/// A worker that evaluates candidates, and is not to be relied on.
pub(crate) async fn evaluator(ctx: Rc<ActorContext>, number: u32) {
    let rng = SimRng::new(ctx.seed, Stream::Evaluator(number));
    let mut evaluator = Worker { ctx: ctx.clone(), rng, who: format!("evaluator-{number}") };
    while !ctx.is_over.get() {
        for lease in evaluator.poll().await {
            evaluator.evaluate(&lease).await;
        }
        let pause = evaluator.rng.between(PAUSE_MS.0, PAUSE_MS.1);
        ctx.sleep(pause).await;
    }
}

struct Worker {
    ctx: Rc<ActorContext>,
    rng: SimRng,
    who: String,
}

impl Worker {
    async fn poll(&mut self) -> Vec<Value> {
        let body = json!({"workerId": self.who, "queues": [QUEUE], "max": 2, "waitMs": WAIT_MS});
        let key = self.ctx.accesses[0].worker_key.clone();
        match self.call("/v1/leases".to_owned(), key, &body).await {
            CallOutcome::Ok(found) => found["leases"].as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    async fn evaluate(&mut self, lease: &Value) {
        let calm = self.ctx.faults_stopped.get();
        if !calm && self.rng.chance(DIES) {
            self.ctx.log.reach_goal(CoverageGoal::EvaluatorDied);
            return;
        }
        let report = match self.rng.chance(FAILS) {
            true => json!({"outcome": "FAILED",
                "error": {"category": "USER_CODE", "message": "cannot say"}}),
            false => {
                let action = self.action(lease);
                let output = json!({"action": action, "confidence": 0.9});
                json!({"outcome": "SUCCEEDED", "output": output})
            }
        };
        self.report(lease, report).await;
    }

    fn action(&mut self, lease: &Value) -> String {
        let allowed = lease["input"]["actions"].as_array().cloned().unwrap_or_default();
        let is_wild = !self.ctx.faults_stopped.get() && self.rng.chance(WILD);
        match allowed.is_empty() || is_wild {
            true => self.rng.pick(&Action::ALL).name().to_owned(),
            false => self.rng.pick(&allowed).as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Reports until the answer is known. Whatever was refused is left to the next attempt.
    async fn report(&mut self, lease: &Value, mut body: Value) {
        let text = |member: &str| lease[member].as_str().unwrap_or_default().to_owned();
        let path = format!("/v1/tasks/{}/completed", text("taskId"));
        body["attempt"] = lease["attempt"].clone();
        body["workerId"] = json!(self.who);
        while !self.ctx.is_over.get() {
            match self.call(path.clone(), text("taskToken"), &body).await {
                CallOutcome::Ok(_) => return,
                CallOutcome::Refused(problem) if problem.error == "recovery_out_of_scope" => {
                    self.ctx.log.reach_goal(CoverageGoal::EvaluationRefused);
                    body["output"] = json!({"action": "skip"});
                }
                CallOutcome::Refused(_) => return,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => {}
            }
            let pause = self.rng.between(PAUSE_MS.0, PAUSE_MS.1);
            self.ctx.sleep(pause).await;
        }
    }

    async fn call(&mut self, path: String, bearer: String, body: &Value) -> CallOutcome<Value> {
        let ask = HttpRequest {
            method: "POST",
            path,
            bearer,
            idempotency_key: None,
            body: Some(body.to_string().into_bytes()),
        };
        let to = self.ctx.pick_host(&mut self.rng);
        let timeout_ms = WAIT_MS + TIMEOUT_MS;
        let invokes = Vec::new();
        let call = OutgoingCall { who: &self.who, to, ask, timeout_ms, invokes };
        let called = self.ctx.call(call).await;
        self.ctx.read::<Value>(&self.who, &called)
    }
}

/// A planted bug: no failure leaves a note in some batches.
pub(crate) fn lose_notes(decided: &mut Decided, batch: u64) {
    let is_new = |change: &ObjectChange| change.after.status.as_str() == NEW;
    if batch.is_multiple_of(2) {
        decided.objects.retain(|change| !(is_note(change) && is_new(change)));
    }
}

/// A planted bug: what was carried out is not noted in some batches, and its keys are not found again.
pub(crate) fn lose_closed(decided: &mut Decided, batch: u64) {
    let is_closed = |change: &ObjectChange| change.after.status.as_str() == CLOSED;
    if batch.is_multiple_of(2) {
        decided.objects.retain(|change| !(is_note(change) && is_closed(change)));
    }
}

/// The other half of that bug.
pub(crate) fn forget_forks(keys: &[IdempotencyKey], owners: &mut [Option<KeyOwner>]) {
    for (key, owner) in keys.iter().zip(owners) {
        if key.text.as_str().starts_with(KEY_PREFIX) {
            *owner = None;
        }
    }
}

/// A planted bug: a candidate that is decided stays as it was.
pub(crate) fn lose_decisions(decided: &mut Decided, batch: u64) {
    let is_decided = |change: &ObjectChange| {
        change.after.key.object_type == ObjectType::RecoveryCandidate
            && matches!(change.after.status.as_str(), "executing" | "skipped" | "escalated")
    };
    if batch.is_multiple_of(2) {
        decided.objects.retain(|change| !is_decided(change));
    }
}

fn is_note(change: &ObjectChange) -> bool {
    change.after.key.object_type == ObjectType::FailedRun
}

/// Whether recovery has something to do still.
pub(crate) async fn is_busy(store: &MemoryStore) -> bool {
    let notes = objects(store, ObjectType::FailedRun).await;
    let candidates = objects(store, ObjectType::RecoveryCandidate).await;
    let is_live = |object: &Object| candidate_of(object).is_some_and(|it| it.state.is_live());
    notes.iter().any(|note| note.due.is_some()) || candidates.iter().any(is_live)
}

/// Says what recovery has not done, if it never came to rest.
pub(crate) async fn report_unfinished(ctx: &ActorContext, store: &MemoryStore) {
    for object in objects(store, ObjectType::RecoveryCandidate).await {
        if let Some(candidate) = candidate_of(&object).filter(|it| it.state.is_live()) {
            let (id, state) = (&object.key.id, candidate.state.name());
            ctx.log.violate("recovery", format_args!("{id} is {state} for ever"));
        }
    }
    for note in objects(store, ObjectType::FailedRun).await {
        if note.due.is_some() {
            ctx.log.violate("recovery", format_args!("{} is never looked at", note.key.id));
        }
    }
}

async fn objects(store: &MemoryStore, object_type: ObjectType) -> Vec<Object> {
    let filter =
        ObjectFilter { object_type: Some(object_type), limit: ALL, ..ObjectFilter::default() };
    store.browse().objects(&filter).await.expect("memory can be read")
}

/// A new run, by the key under which recovery submitted it.
struct Fork<'a> {
    of: String,
    found: &'a StoredTask,
}

/// Checks everything that recovery did, once everything has ended.
pub(crate) async fn check(
    ctx: &ActorContext,
    store: &MemoryStore,
    terms: &Terms,
    found: &[&StoredTask],
) {
    let notes = objects(store, ObjectType::FailedRun).await;
    let failed: BTreeMap<String, FailedRun> = notes
        .iter()
        .filter_map(|note| Some((note.key.id.to_string(), failed_run_of(note)?)))
        .filter(|(id, _)| !is_evaluation(&notes, id))
        .collect();
    check_noted(ctx, &failed, found);
    let forks = forks(found);
    check_forks(ctx, terms, &failed, &forks);
    let (mut counted, mut decided) = (0, BTreeSet::new());
    for object in objects(store, ObjectType::RecoveryCandidate).await {
        let Some(candidate) = candidate_of(&object) else { continue };
        counted += candidate.count;
        let log = revisions(store, &object).await;
        check_rounds(ctx, terms, &log);
        let chosen = log.iter().filter(|it| it.round.chosen.is_some());
        decided.extend(chosen.map(|it| it.round.task));
        check_counts(ctx, &candidate, &failed, &forks);
    }
    if counted != failed.len() as u64 {
        let noted = failed.len();
        ctx.log.violate("recovery", format_args!("{noted} failures, {counted} are counted"));
    }
    check_heard(ctx, &decided, found);
}

/// S2-47: what an evaluation said was heard.
fn check_heard(ctx: &ActorContext, decided: &BTreeSet<TaskId>, found: &[&StoredTask]) {
    for found in found {
        let Subject::Done(done) = &found.subject else { continue };
        // One that was asked to stop speaks about what others have decided meanwhile.
        let is_awaited = done.cancel.is_none() && is_evaluation_kind(&done.kind);
        let has_said = done.end.state == State::Succeeded && is_awaited;
        if has_said && !decided.contains(&done.id) {
            ctx.log.violate("recovery", format_args!("{} was evaluated for nothing", done.id));
        }
    }
}

fn is_evaluation(notes: &[Object], id: &str) -> bool {
    notes.iter().any(|note| note.key.id.as_str() == id && note.status.as_str() == EVALUATION)
}

/// S2-103: no run that lost its workers or spent its attempts is forgotten.
fn check_noted(ctx: &ActorContext, failed: &BTreeMap<String, FailedRun>, found: &[&StoredTask]) {
    for found in found {
        let Subject::Done(done) = &found.subject else { continue };
        let Some(expected) = FailedRun::of(done) else { continue };
        let key = failed_run_key(&done.scope, done.id);
        if failed.get(key.id.as_str()) != Some(&expected) {
            ctx.log.violate("recovery", format_args!("{} failed and is forgotten", key.id));
        }
    }
}

fn forks<'a>(found: &[&'a StoredTask]) -> Vec<Fork<'a>> {
    let fork = |found: &&'a StoredTask| {
        let key = found.spec.key.as_ref()?.as_str();
        Some(Fork { of: key.strip_prefix(KEY_PREFIX)?.to_owned(), found })
    };
    found.iter().filter_map(fork).collect()
}

/// Each failed run comes back at most once, only failed runs do, and no line is longer than the policy allows.
fn check_forks(
    ctx: &ActorContext,
    terms: &Terms,
    failed: &BTreeMap<String, FailedRun>,
    forks: &[Fork<'_>],
) {
    let mut seen = BTreeSet::new();
    for Fork { of, found } in forks {
        ctx.log.reach_goal(CoverageGoal::RunRecovered);
        if !seen.insert(of) {
            ctx.log.violate("recovery", format_args!("{of} was recovered twice"));
        }
        if !failed.contains_key(of) {
            ctx.log.violate("recovery", format_args!("{of} was recovered and had not failed"));
        }
        let times = found.spec.labels.get("tenure.recovered");
        let times = times.and_then(|times| times.parse::<u32>().ok()).unwrap_or(0);
        if times == 0 || times > terms.attempts {
            ctx.log
                .violate("recovery", format_args!("the line of {of} was recovered {times} times"));
        }
    }
}

/// What a candidate counted is what failed alike, and as many runs were submitted for it as it says.
fn check_counts(
    ctx: &ActorContext,
    candidate: &Candidate,
    failed: &BTreeMap<String, FailedRun>,
    forks: &[Fork<'_>],
) {
    let id = candidate.signature.id();
    let is_alike = |of: &FailedRun| Signature::of(of) == candidate.signature;
    let alike = failed.values().filter(|it| is_alike(it)).count() as u64;
    if alike != candidate.count {
        let count = candidate.count;
        ctx.log.violate("recovery", format_args!("{id} counts {count} of {alike} failures"));
    }
    let of_it = |fork: &&Fork<'_>| failed.get(&fork.of).is_some_and(is_alike);
    let submitted = forks.iter().filter(of_it).count() as u64;
    // A round that ran out of time may have submitted runs that it had not counted yet.
    let is_cut = candidate.state == CandidateState::Expired;
    if submitted < candidate.forked || (submitted > candidate.forked && !is_cut) {
        let forked = candidate.forked;
        let told = format_args!("{id} says that it submitted {forked} runs, and {submitted} exist");
        ctx.log.violate("recovery", told);
    }
}

async fn revisions(store: &MemoryStore, object: &Object) -> Vec<Candidate> {
    let filter = ObjectLogFilter { key: Some(object.key.clone()), after: None, limit: ALL };
    let log = store.browse().object_log(&filter).await.expect("memory can be read");
    log.iter().filter_map(|change| candidate_of(&change.after)).collect()
}

/// One round after the other, each decided once, within the policy.
fn check_rounds(ctx: &ActorContext, terms: &Terms, log: &[Candidate]) {
    let mut acted: BTreeSet<TaskId> = BTreeSet::new();
    for (before, after) in log.iter().zip(log.iter().skip(1)) {
        let id = after.signature.id();
        let is_new_round = before.round.task != after.round.task;
        let is_next = after.attempts == before.attempts + 1 && !before.state.is_live();
        if is_new_round && !is_next {
            ctx.log.violate("recovery", format_args!("{id} has two rounds at once"));
        }
        if !is_new_round && !before.state.is_live() && after.state.is_live() {
            ctx.log.violate("recovery", format_args!("{id} is live again after its end"));
        }
        if before.state != after.state {
            note_goal(ctx, after.state);
            let chosen = after.round.chosen.as_ref().map(|chosen| chosen.action);
            let acts = after.state == CandidateState::Executing
                || (after.state == CandidateState::Succeeded && chosen == Some(Action::Notify));
            if acts && !acted.insert(after.round.task) {
                ctx.log.violate("recovery", format_args!("{id} was acted on twice in one round"));
            }
        }
    }
    for candidate in log {
        let (id, round) = (candidate.signature.id(), &candidate.round);
        let is_allowed = round.chosen.as_ref().is_none_or(|it| terms.allows(it.action));
        if !is_allowed || candidate.attempts > terms.attempts || round.forked > terms.runs_max {
            ctx.log.violate("recovery", format_args!("{id} goes beyond the policy: {candidate:?}"));
        }
    }
}

fn note_goal(ctx: &ActorContext, state: CandidateState) {
    match state {
        CandidateState::Escalated => ctx.log.reach_goal(CoverageGoal::CandidateEscalated),
        CandidateState::Expired => ctx.log.reach_goal(CoverageGoal::CandidateExpired),
        CandidateState::Exhausted => ctx.log.reach_goal(CoverageGoal::CandidateExhausted),
        _ => {}
    }
}
