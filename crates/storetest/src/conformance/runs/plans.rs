//! Plans whose steps are tasks of their own: stored with their root, spawned, told and skipped in slices.

use store::browse::{Browse, RowsAfter};
use store::row::{Filter, TaskKey};
use store::runs::StoredStep;
use store::seam::{Batch, Decided, Writer};
use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::{PlanForm, PlanRequest, PlanStep, PlanSubmit, StepTerms};
use verdict::request::{Cancel, CancelMode, Outcome, Report};
use verdict::run::{ChildCall, RunRequest};
use verdict::{
    Answer, Category, Digest, Fault, Name, Reason, Request, Retention, Scope, Span, State, Subject,
    TaskId,
};

use super::family::{Delivery, Family, lease};
use crate::conformance::carry::Submission;
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

pub const PLAIN: StepTerms = terms(false, false);
const CONTINUES: StepTerms = terms(true, false);
const ALWAYS: StepTerms = terms(false, true);

const fn terms(continues_on_error: bool, is_always: bool) -> StepTerms {
    let (time_limit, has_references) = (Some(Span::from_secs(3_600)), false);
    StepTerms {
        continues_on_error,
        is_always,
        time_limit,
        has_references,
        asks: None,
        when: None,
        keeps_keys: false,
        done_by: Vec::new(),
    }
}

/// A plan whose root has the id `base`; the tasks of its steps have the next ones, in order.
pub struct Plan {
    pub base: u128,
    steps: Vec<PlanStep>,
}

impl Plan {
    pub fn new(base: u128) -> Self {
        Self { base, steps: Vec::new() }
    }

    /// Adds a step, whose task waits in a queue of the same name.
    #[must_use]
    pub fn step(mut self, key: &str, upstreams: &[&str], terms: StepTerms) -> Self {
        let id = TaskId::from_u128(self.base + 1 + self.steps.len() as u128);
        let submit = Submission::new(id, &Scope::default(), key).submit;
        let child = ChildCall { key: key.into(), is_detached: false, submit };
        let upstreams = upstreams.iter().map(|key| Name::from(*key)).collect();
        self.steps.push(PlanStep { child, upstreams, terms });
        self
    }

    pub fn root(&self) -> TaskKey {
        TaskKey { scope: Scope::default(), id: TaskId::from_u128(self.base) }
    }

    pub fn task(&self, key: &str) -> TaskKey {
        let is_it = |step: &&PlanStep| step.child.key == Name::from(key);
        let step = self.steps.iter().find(is_it).expect("the plan has this step");
        TaskKey { scope: Scope::default(), id: step.child.submit.id }
    }

    pub async fn submit<F: Fixture>(&self, driver: &mut Driver<F>, family: &mut Family) {
        let submission = Submission::new(self.root().id, &Scope::default(), "plans");
        let form =
            PlanForm::Steps { digest: Digest::of(&[b"plan"]), count: self.steps.len() as u32 };
        let steps = self.steps.as_slice().into();
        let plan = PlanSubmit { submit: submission.submit, form, steps };
        let request = RunRequest::Plan(PlanRequest::Submit(plan));
        let answer = family.submit(driver, &self.root(), request, submission.spec).await;
        assert!(matches!(answer, Answer::Accepted { state: State::Waiting, .. }), "{answer:?}");
    }
}

/// a → (b, c) → d
fn diamond(base: u128, terms: StepTerms) -> Plan {
    Plan::new(base).step("a", &[], PLAIN).step("b", &["a"], terms).step("c", &["a"], PLAIN).step(
        "d",
        &["b", "c"],
        PLAIN,
    )
}

async fn report<F: Fixture>(
    driver: &mut Driver<F>,
    family: &mut Family,
    task: &TaskKey,
    queue: &str,
    outcome: Outcome,
) {
    let caller = lease(driver, queue).await;
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    let report = Report { caller, outcome, digest, claims: None, by: None };
    family.about(driver, task, Request::Report(report)).await;
    family.deliver_all(driver).await;
}

async fn succeed<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, plan: &Plan, key: &str) {
    let outcome = Outcome::Succeeded { output: Some(verdict::Json::from("1")) };
    report(driver, family, &plan.task(key), key, outcome).await;
}

async fn fail<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, plan: &Plan, key: &str) {
    let (category, message) = (Category::DataQuality, "no".into());
    let fault = Fault { category, message, stack_trace: None, retryable: Some(false) };
    report(driver, family, &plan.task(key), key, Outcome::Failed(fault)).await;
}

async fn states<F: Fixture>(driver: &mut Driver<F>, plan: &Plan, keys: &[&str]) -> Vec<State> {
    let mut states = Vec::new();
    for key in keys {
        states.extend(driver.load(&plan.task(key)).await.state());
    }
    states
}

pub async fn run_in_order_in_one_batch<F: Fixture>(driver: &mut Driver<F>) {
    run_in_order(driver, Delivery::AtOnce).await;
}

pub async fn run_in_order_by_saved_messages<F: Fixture>(driver: &mut Driver<F>) {
    run_in_order(driver, Delivery::Later).await;
}

async fn run_in_order<F: Fixture>(driver: &mut Driver<F>, delivery: Delivery) {
    use State::{Blocked, Queued, Succeeded};
    let (mut family, plan) = (Family::new(delivery), diamond(1 << 64, PLAIN));
    plan.submit(driver, &mut family).await;
    family.deliver_all(driver).await;
    let all = ["a", "b", "c", "d"];
    assert_eq!(states(driver, &plan, &all).await, [Queued, Blocked, Blocked, Blocked]);
    succeed(driver, &mut family, &plan, "a").await;
    succeed(driver, &mut family, &plan, "b").await;
    assert_eq!(states(driver, &plan, &["d"]).await, [Blocked], "one of two upstreams");
    let stored = driver.browse().rows(&plan.root(), RowsAfter::StepKey(&"d".into()), 1).await;
    let stored = stored.expect("browsing works").steps.remove(0);
    assert_eq!((stored.place, stored.missing, stored.step.upstreams.len()), (3, 1, 2));
    family.check(driver).await;
    succeed(driver, &mut family, &plan, "c").await;
    succeed(driver, &mut family, &plan, "d").await;
    assert_eq!(states(driver, &plan, &all).await, [Succeeded; 4]);
    assert_eq!(driver.load(&plan.root()).await.state(), Some(Succeeded));
    family.check(driver).await;
}

pub async fn skip_what_depends_on_a_failure<F: Fixture>(driver: &mut Driver<F>) {
    use State::{Failed, Skipped, Succeeded};
    let mut family = Family::new(Delivery::AtOnce);
    let plan = diamond(1 << 64, PLAIN).step("e", &["d"], PLAIN).step("f", &["d"], ALWAYS);
    plan.submit(driver, &mut family).await;
    succeed(driver, &mut family, &plan, "a").await;
    fail(driver, &mut family, &plan, "b").await;
    succeed(driver, &mut family, &plan, "c").await;
    assert_eq!(states(driver, &plan, &["b", "d", "e"]).await, [Failed, Skipped, Skipped]);
    let Subject::Done(skipped) = driver.load(&plan.task("e")).await else { panic!("it ended") };
    assert_eq!(skipped.end.reason, Some(Reason::UpstreamFailed));
    let filter = Filter { state: Some(Skipped), children: true, limit: 9, ..Filter::default() };
    let listed = driver.browse().list(&Scope::default(), &filter).await.expect("lists work");
    assert_eq!(listed.tasks.len(), 2);
    succeed(driver, &mut family, &plan, "f").await;
    let Subject::Done(root) = driver.load(&plan.root()).await else { panic!("it ended") };
    assert_eq!((root.end.state, root.end.reason), (Failed, Some(Reason::StepFailed)));
    // A failure that is tolerated skips nothing.
    let plan = diamond(1 << 65, CONTINUES);
    plan.submit(driver, &mut family).await;
    succeed(driver, &mut family, &plan, "a").await;
    fail(driver, &mut family, &plan, "b").await;
    for key in ["c", "d"] {
        succeed(driver, &mut family, &plan, key).await;
    }
    assert_eq!(driver.load(&plan.root()).await.state(), Some(Succeeded));
    family.check(driver).await;
}

/// More steps than one decision spawns or tells, between a source and a join.
pub fn wide(base: u128) -> Plan {
    let keys: Vec<String> = (0..STEPS_PER_DECISION + 20).map(|n| format!("w{n:04}")).collect();
    let source = Plan::new(base).step("source", &[], PLAIN);
    let wide = keys.iter().fold(source, |plan, key| plan.step(key, &["source"], PLAIN));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    wide.step("join", &keys, PLAIN)
}

pub async fn tell_in_which_queues_they_are<F: Fixture>(driver: &mut Driver<F>) {
    let (mut family, plan) = (Family::new(Delivery::AtOnce), wide(1 << 64));
    plan.submit(driver, &mut family).await;
    let key = driver.add(&Scope::default(), "elsewhere").await;
    let mut queues: Vec<Name> = plan.steps.iter().map(|it| it.child.key.clone()).collect();
    let leaves = async |driver: &mut Driver<F>, root: &TaskKey, queues: &[Name]| {
        driver.browse().leaves_queues(root, queues).await.expect("browsing works")
    };
    // Every step is counted, whether it is a task already or not.
    assert!(!leaves(driver, &plan.root(), &queues).await);
    let join = queues.pop().expect("the last step is not spawned yet");
    assert!(leaves(driver, &plan.root(), &queues).await);
    assert!(leaves(driver, &plan.root(), &[join]).await);
    assert!(leaves(driver, &plan.root(), &[]).await);
    // A task without descendants is in no other queue, and neither is what is not there.
    assert!(!leaves(driver, &key, &[]).await);
    let elsewhere = TaskKey { scope: Scope::new("other", "main"), ..plan.root() };
    assert!(!leaves(driver, &elsewhere, &[]).await);
}

pub async fn are_spawned_and_told_in_slices<F: Fixture>(driver: &mut Driver<F>) {
    let (mut family, plan) = (Family::new(Delivery::AtOnce), wide(1 << 64));
    plan.submit(driver, &mut family).await;
    let spawned = async |driver: &mut Driver<F>| {
        let root = driver.load(&plan.root()).await;
        root.live().and_then(|task| task.plan_root()).map(|root| root.spawned as usize)
    };
    assert_eq!(spawned(driver).await, Some(STEPS_PER_DECISION));
    // Its downstreams end before the last of them is spawned.
    fail(driver, &mut family, &plan, "source").await;
    while family.sweep(driver).await > 0 {}
    let Subject::Done(root) = driver.load(&plan.root()).await else { panic!("it ended") };
    assert_eq!(root.end.state, State::Failed);
    let last = format!("w{:04}", STEPS_PER_DECISION + 19);
    assert_eq!(states(driver, &plan, &["w0000", last.as_str(), "join"]).await, [State::Skipped; 3]);
    family.check(driver).await;
}

pub async fn are_cancelled_with_their_root<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let plan = diamond(1 << 64, PLAIN).step("z", &["a"], ALWAYS);
    plan.submit(driver, &mut family).await;
    let cancel = Request::Cancel(Cancel { reason: None, mode: CancelMode::Graceful });
    family.about(driver, &plan.root(), cancel).await;
    while family.sweep(driver).await > 0 {}
    assert_eq!(states(driver, &plan, &["a", "d"]).await, [State::Cancelled; 2]);
    // What must run is told that its upstream has ended, and the root waits for it.
    assert_eq!(driver.load(&plan.root()).await.state(), Some(State::Waiting));
    succeed(driver, &mut family, &plan, "z").await;
    assert_eq!(driver.load(&plan.root()).await.state(), Some(State::Cancelled));
    family.check(driver).await;
}

pub async fn are_forgotten_whole<F: Fixture>(driver: &mut Driver<F>) {
    let (mut family, plan) = (Family::new(Delivery::AtOnce), diamond(1 << 64, PLAIN));
    plan.submit(driver, &mut family).await;
    fail(driver, &mut family, &plan, "a").await;
    assert_eq!(driver.load(&plan.root()).await.state(), Some(State::Failed));
    driver.wait(Retention::AGE_MIN);
    // The newest submission stays.
    let newest = Submission::new(TaskId::from_u128(1 << 70), &Scope::default(), "newest");
    driver.submit(newest).await;
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.moment().await.expect("the clock can be read");
    let ended = batch.ended(None, 9).await.expect("ended tasks can be listed");
    let forgotten = ended.iter().map(|ended| ended.position).collect();
    batch.save(Decided { forgotten, ..Decided::default() }).await.expect("it may be forgotten");
    batch.commit().await.expect("the batch commits");
    assert_eq!(driver.load(&plan.root()).await, Subject::Absent);
    let rows = driver.browse().rows(&plan.root(), RowsAfter::Step(0), 9).await;
    assert_eq!(rows.expect("browsing works").steps, Vec::<StoredStep>::new());
    let found = store::verify::verify(driver.browse()).await.expect("the store can be read");
    assert_eq!(found.findings, []);
}
