//! Schedules as a subject: what a request needs is enough to decide it, in few look-ups, and nested decisions see each other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use verdict::desk::{DeskChange, DeskResult};
use verdict::known::Known;
use verdict::schedule::{
    CatchUp, Overlap, Recurrence, RunSize, ScheduleCall, ScheduleRefusal, ScheduleRequest,
    ScheduleTarget, Schedules, Template, Terms, TermsChange, firing_fingerprint,
};
use verdict::subject::{Needs, ROUNDS_MAX, Subject as _};
use verdict::{Answer, Name, ObjectKey, ObjectType, Refusal, Scope, Span, Subject, TaskKey};

use crate::schedule_world::{ScheduleWorld, TEMPLATE, UNREADABLE, answered, request};
use crate::world::{START, secs};

const MINUTE: Span = secs(60);

fn terms(overlap: Overlap, catch_up: CatchUp) -> Terms {
    let recurrence = Recurrence::Every { every: MINUTE, anchor: START };
    Terms { recurrence, overlap, catch_up, window: secs(3_600) }
}

fn create(name: &str, overlap: Overlap, catch_up: CatchUp) -> ScheduleRequest {
    let terms = terms(overlap, catch_up);
    let template = Template { run: TEMPLATE.into(), size: RunSize::ONE };
    let call = ScheduleCall::Create { name: name.into(), terms, is_paused: false, template };
    request(ScheduleTarget::New, call)
}

/// A world with one schedule, and its id.
fn world(overlap: Overlap, catch_up: CatchUp) -> (ScheduleWorld, Name) {
    let mut world = ScheduleWorld::new();
    let carried = world.carry(&create("s", overlap, catch_up));
    let id = answered(&carried.result).id.clone();
    (world, id)
}

fn say(id: &Name, call: ScheduleCall) -> ScheduleRequest {
    request(ScheduleTarget::Id(id.clone()), call)
}

fn pass(world: &mut ScheduleWorld, minutes: u64) {
    world.now = world.now.plus(secs(60 * minutes));
}

fn submitted(result: &DeskResult) -> usize {
    let is_submitted = |change: &&DeskChange| matches!(change, DeskChange::Submitted { .. });
    result.changes.iter().filter(is_submitted).count()
}

#[test]
fn an_instant_is_one_run_under_its_key() {
    let (mut world, id) = world(Overlap::Skip, CatchUp::One);
    pass(&mut world, 1);
    let carried = world.carry(&say(&id, ScheduleCall::Fire));
    assert_eq!((submitted(&carried.result), world.live()), (1, 1));
    let DeskChange::Submitted { new, .. } = &carried.result.changes[0] else {
        panic!("a run is submitted first");
    };
    assert_eq!(new.spec.key, Some(format!("sched/{id}/1060000").into()));
    assert_eq!(new.spec.labels["tenure.schedule"], id.as_str());
    // The schedule as it was says that the instant is due still: another coordinator had loaded it.
    let mut late = world.clone();
    let key = ObjectKey { scope: Scope::default(), object_type: ObjectType::Schedule, id };
    late.objects.insert(
        key.clone(),
        carried.known.objects.fetched(&key).unwrap().loaded().unwrap().clone(),
    );
    let again = late.carry(&say(&key.id, ScheduleCall::Fire));
    assert_eq!(late.live(), 1, "the key of the instant finds its run");
    assert_eq!(answered(&again.result).schedule.counts.fired, 1);
}

#[test]
fn runs_of_one_decision_share_the_room_of_a_quota() {
    let (mut world, id) = world(Overlap::Allow, CatchUp::All);
    world.quota = Some(2);
    pass(&mut world, 5);
    let carried = world.carry(&say(&id, ScheduleCall::Fire));
    assert_eq!(submitted(&carried.result), 5, "each instant asks for room");
    assert_eq!(world.live(), 2, "the second one sees the first, and the third both");
    assert_eq!(world.schedule(&id).waiting.len(), 3);
}

#[test]
fn a_rate_lets_some_runs_start_and_the_older_one_go_on() {
    let (mut world, id) = world(Overlap::Allow, CatchUp::All);
    world.rate = 2;
    pass(&mut world, 5);
    let carried = world.carry(&say(&id, ScheduleCall::Fire));
    assert_eq!((submitted(&carried.result), world.schedule(&id).waiting.len()), (2, 3));

    let (mut world, id) = self::world(Overlap::CancelOlder, CatchUp::One);
    pass(&mut world, 1);
    world.carry(&say(&id, ScheduleCall::Fire));
    pass(&mut world, 1);
    world.rate = 0;
    let refused = world.decide(&say(&id, ScheduleCall::Fire));
    let is_asked = |change: &DeskChange| matches!(change, DeskChange::Asked { .. });
    assert!(!refused.result.changes.iter().any(is_asked), "nothing takes its place");
    world.rate = 1;
    let fired = world.carry(&say(&id, ScheduleCall::Fire));
    assert!(is_asked(&fired.result.changes[0]), "the older run is cancelled first");
    assert_eq!(world.live(), 1);
}

/// Gives the schedule another template of this size.
fn resize(world: &mut ScheduleWorld, id: &Name, size: RunSize) {
    let template = Some(Template { run: TEMPLATE.into(), size });
    let call = ScheduleCall::Update { terms: TermsChange::default(), template };
    world.carry(&say(id, call));
}

#[test]
fn one_decision_submits_as_much_as_one_commit_takes_and_the_next_follows_at_once() {
    let (mut world, id) = world(Overlap::Allow, CatchUp::All);
    resize(&mut world, &id, RunSize { tasks: 401, weight: 401 });
    pass(&mut world, 5);
    let mut runs = Vec::new();
    while world.schedule(&id).is_due(world.now) {
        let carried = world.carry(&say(&id, ScheduleCall::Fire));
        runs.push(submitted(&carried.result));
        assert!(runs.len() < 10, "it must come to an end: {runs:?}");
    }
    assert_eq!(runs, [2, 2, 1], "401 units each, of a commit's 1,024");
    assert_eq!((world.schedule(&id).counts.fired, world.live()), (5, 5));
    // A plan that is larger than a commit is submitted all the same, alone.
    resize(&mut world, &id, RunSize { tasks: 1_001, weight: 5_000 });
    pass(&mut world, 2);
    assert_eq!(submitted(&world.carry(&say(&id, ScheduleCall::Fire)).result), 1);
    assert_eq!(world.schedule(&id).look_at, Some(world.now));
}

#[test]
fn what_has_no_room_is_not_looked_at_again_without_a_pause() {
    let (mut world, id) = world(Overlap::Allow, CatchUp::All);
    resize(&mut world, &id, RunSize { tasks: 401, weight: 401 });
    world.quota = Some(1);
    pass(&mut world, 5);
    world.carry(&say(&id, ScheduleCall::Fire));
    let schedule = world.schedule(&id);
    assert_eq!((schedule.counts.fired, schedule.waiting.len()), (1, 4));
    assert!(schedule.look_at.is_some_and(|at| at > world.now), "room comes with time");
}

#[test]
fn a_run_takes_a_request_of_the_rate_for_each_hundred_of_its_tasks() {
    let (mut world, id) = world(Overlap::Allow, CatchUp::All);
    let asked = |world: &ScheduleWorld| {
        let fire = say(&id, ScheduleCall::Fire);
        let (known, _) = world.loaded(&fire);
        let needs = Schedules::needs(&fire, &known, world.now).facts.allowed;
        needs.into_iter().map(|(_, runs, each)| (runs, each)).collect::<Vec<_>>()
    };
    pass(&mut world, 5);
    assert_eq!(asked(&world), [(5, 1)]);
    resize(&mut world, &id, RunSize { tasks: 251, weight: 300 });
    assert_eq!(asked(&world), [(3, 3)], "only what this decision submits is taken from the rate");
}

#[test]
fn a_template_that_cannot_be_read_refuses_its_instants() {
    let (mut world, id) = world(Overlap::Skip, CatchUp::One);
    let unreadable = Template { run: UNREADABLE.into(), size: RunSize::ONE };
    let change = ScheduleCall::Update { terms: TermsChange::default(), template: Some(unreadable) };
    world.carry(&say(&id, change));
    pass(&mut world, 1);
    let triggered = world.carry(&say(&id, ScheduleCall::Trigger));
    assert_eq!(triggered.result.answer, Answer::Nothing);
    assert!(triggered.result.changes.is_empty());
    world.carry(&say(&id, ScheduleCall::Fire));
    let schedule = world.schedule(&id);
    let code = schedule.last_refusal.as_ref().map(|it| it.code.as_str());
    assert_eq!((schedule.counts.refused, code), (1, Some("invalid_argument")));
}

#[test]
fn a_name_belongs_to_one_schedule_until_it_is_deleted() {
    let (mut world, id) = world(Overlap::Skip, CatchUp::One);
    let taken = Answer::Refused(Refusal::Schedule(ScheduleRefusal::NameTaken));
    let again = create("s", Overlap::Skip, CatchUp::One);
    assert_eq!(world.carry(&again).result.answer, taken);
    let named = request(ScheduleTarget::Name("s".into()), ScheduleCall::Delete);
    assert_eq!(answered(&world.carry(&named).result).id, id);
    let gone = Answer::Refused(Refusal::Schedule(ScheduleRefusal::NotFound));
    assert_eq!(world.carry(&named).result.answer, gone);
    assert_eq!(world.carry(&say(&id, ScheduleCall::Resume)).result.answer, gone);
    assert_ne!(answered(&world.carry(&again).result).id, id);
}

#[test]
fn what_another_writer_has_keeps_a_request_from_being_decided() {
    let (mut world, id) = world(Overlap::Skip, CatchUp::One);
    pass(&mut world, 1);
    world.carry(&say(&id, ScheduleCall::Fire));
    pass(&mut world, 1);
    let fire = say(&id, ScheduleCall::Fire);
    let (known, _) = world.loaded(&fire);
    let needs = Schedules::needs(&fire, &known, world.now);
    assert!(!needs.is_locked(&known));
    let run = needs.tasks.first().expect("the run before").clone();
    let mut locked = known;
    locked.tasks.lock(run);
    assert!(needs.is_locked(&locked));
}

/// What a carrier forgets to look up or to answer.
type Forget = fn(&mut Needs);

const FORGOTTEN: [(&str, Forget); 7] = [
    ("tasks", |needs| needs.tasks.clear()),
    ("keys", |needs| needs.keys.clear()),
    ("objects", |needs| needs.objects.retain(|it| it.object_type == ObjectType::Schedule)),
    ("instants", |needs| needs.facts.instants.clear()),
    ("templates", |needs| needs.facts.templates.clear()),
    ("allowed", |needs| needs.facts.allowed.clear()),
    ("quotas", |needs| needs.facts.quotas.clear()),
];

#[test]
fn a_need_that_is_forgotten_is_found_by_the_decision() {
    let (mut world, id) = world(Overlap::CancelOlder, CatchUp::One);
    pass(&mut world, 1);
    world.carry(&say(&id, ScheduleCall::Fire));
    pass(&mut world, 1);
    let fire = say(&id, ScheduleCall::Fire);
    let at = world.moment();
    for (what, forget) in FORGOTTEN {
        let known = without(&world, &fire, forget);
        let deciding = AssertUnwindSafe(|| Schedules::decided(&known, &fire, at, world.ids()));
        assert!(catch_unwind(deciding).is_err(), "nothing shows that {what} were forgotten");
    }
}

/// What a carrier knows that forgets something.
fn without(world: &ScheduleWorld, request: &ScheduleRequest, forget: Forget) -> Known {
    let (full, _) = world.loaded(request);
    let mut needs = Schedules::needs(request, &full, world.now);
    forget(&mut needs);
    let facts = needs.facts.clone();
    let mut known = Known::default();
    world.put(&mut known, needs);
    world.answer(&mut known, facts);
    known
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    EndRuns,
    Say(Say),
}

#[derive(Clone, Debug)]
enum Say {
    Create,
    Update,
    Change(Overlap),
    Pause,
    Resume,
    Delete,
    Trigger,
    Backfill(u64),
    Fire,
}

fn step() -> impl Strategy<Value = Step> {
    let say = prop_oneof![
        8 => Just(Say::Fire),
        2 => Just(Say::Trigger),
        1 => Just(Say::Create),
        1 => Just(Say::Update),
        1 => proptest::sample::select(Overlap::ALL.to_vec()).prop_map(Say::Change),
        1 => Just(Say::Pause),
        2 => Just(Say::Resume),
        1 => (1..20_u64).prop_map(Say::Backfill),
    ];
    let say = prop_oneof![20 => say, 1 => Just(Say::Delete)];
    prop_oneof![3 => (0..8_u64).prop_map(Step::Pass), 1 => Just(Step::EndRuns), 6 => say.prop_map(Step::Say)]
}

fn said(what: &Say, world: &ScheduleWorld) -> ScheduleRequest {
    let call = match what {
        Say::Create => return create("s", Overlap::Queue, CatchUp::All),
        Say::Update => ScheduleCall::Update {
            terms: TermsChange { every: Some(secs(90)), ..TermsChange::default() },
            template: Some(Template { run: TEMPLATE.into(), size: RunSize::ONE }),
        },
        Say::Change(overlap) => ScheduleCall::Update {
            terms: TermsChange { overlap: Some(*overlap), ..TermsChange::default() },
            template: None,
        },
        Say::Pause => ScheduleCall::Pause,
        Say::Resume => ScheduleCall::Resume,
        Say::Delete => ScheduleCall::Delete,
        Say::Trigger => ScheduleCall::Trigger,
        Say::Backfill(minutes) => {
            let span = secs(60 * minutes).millis() as i64;
            let from = verdict::Time::from_millis(world.now.millis() - span);
            ScheduleCall::Backfill { from, to: world.now }
        }
        Say::Fire => ScheduleCall::Fire,
    };
    request(ScheduleTarget::Name("s".into()), call)
}

/// What a carrier knows that has looked everything up.
fn with_everything(world: &ScheduleWorld, known: &Known) -> Known {
    let mut all = known.clone();
    let needs = Needs {
        tasks: world.tasks.keys().cloned().collect(),
        keys: world.keys.keys().cloned().collect(),
        objects: world.objects.keys().cloned().collect(),
        ..Needs::default()
    };
    world.put(&mut all, needs);
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_request_needs_is_enough_and_takes_few_look_ups(
        quota in proptest::option::of(0..6_u64),
        rate in prop_oneof![Just(usize::MAX), 0..4_usize],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut world, _) = world(Overlap::Queue, CatchUp::All);
        (world.quota, world.rate) = (quota, rate);
        for step in steps {
            let what = match step {
                Step::Pass(minutes) => {
                    pass(&mut world, minutes);
                    continue;
                }
                Step::EndRuns => {
                    world.end_runs();
                    continue;
                }
                Step::Say(what) => what,
            };
            let request = said(&what, &world);
            let before = world.clone();
            let carried = world.carry(&request);
            prop_assert!(carried.rounds < ROUNDS_MAX, "{} look-ups", carried.rounds);
            // Whatever else is in the batch changes nothing.
            let all = with_everything(&before, &carried.known);
            let of_all = Schedules::decided(&all, &request, before.moment(), before.ids());
            prop_assert_eq!(&of_all, &carried.result);
            if let Some(quota) = quota {
                let room = quota.max(before.live() as u64);
                prop_assert!(world.live() as u64 <= room, "{} live, quota {quota}", world.live());
            }
        }
    }
}

#[test]
fn the_digest_of_an_instant_is_that_of_its_key() {
    let digest = firing_fingerprint(&"sched/sched_01/5".into());
    let as_json = verdict::Digest::of_bytes(br#"{"firing":"sched/sched_01/5"}"#);
    assert_eq!(digest, as_json);
}

#[test]
fn a_task_in_another_scope_is_another_row() {
    let (mut world, id) = world(Overlap::Skip, CatchUp::One);
    world.carry(&say(&id, ScheduleCall::Trigger));
    let (here, live) = world.tasks.first_key_value().expect("a run was triggered");
    let there = TaskKey { scope: Scope::new("other", "main"), ..here.clone() };
    let mut known = Known::default();
    known.tasks.put(here.clone(), live.clone());
    assert!(!known.tasks.contains(&there), "what was not asked for is not known");
    known.tasks.put(there.clone(), Subject::Absent);
    assert_eq!(known.tasks.get(&there), Some(&Subject::Absent));
    assert_eq!(known.tasks.get(here), Some(live));
}
