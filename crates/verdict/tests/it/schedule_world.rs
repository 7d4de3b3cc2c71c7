//! A store of schedules in memory, and a carrier that looks up what requests need and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use verdict::desk::{DeskChange, DeskResult, IdBlock};
use verdict::known::{Body, Fetched, Known, ObjectRow};
use verdict::request::{Cancel, CancelMode};
use verdict::schedule::{
    CalendarQuery, DUE_MAX, InstantRange, Instants, Recurrence, Schedule, ScheduleAnswer,
    ScheduleCall, ScheduleRequest, ScheduleTarget, Schedules, WAITING_MAX,
};
use verdict::subject::{FactNeeds, Needs, Subject as _};
use verdict::{
    Answer, Digest, IdempotencyKey, KeyOwner, Moment, Name, ObjectKey, Policy, Request, Rules,
    Scope, Spec, Subject, Submission, TaskKey, Time, Unfinished, UniqueKey, apply, apply_verdict,
};

use crate::world::START;

/// What every template submits. One that says so cannot be read.
pub(crate) const TEMPLATE: &str = "{}";
pub(crate) const UNREADABLE: &str = "?";

#[derive(Clone)]
pub(crate) struct ScheduleWorld {
    pub(crate) now: Time,
    pub(crate) tasks: BTreeMap<TaskKey, Subject>,
    pub(crate) keys: BTreeMap<IdempotencyKey, KeyOwner>,
    pub(crate) objects: BTreeMap<ObjectKey, ObjectRow>,
    pub(crate) quota: Option<u64>,
    /// What the rate of the tenant has room for at once.
    pub(crate) rate: usize,
    ids: u128,
}

/// What a request needed until it was decided.
pub(crate) struct Carried {
    pub(crate) result: DeskResult,
    pub(crate) known: Known,
    /// How often rows were looked up.
    pub(crate) rounds: usize,
}

impl ScheduleWorld {
    pub(crate) fn new() -> Self {
        Self {
            now: START,
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            objects: BTreeMap::new(),
            quota: None,
            rate: usize::MAX,
            ids: 0,
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now, epoch: 1, rules: Rules::NEWEST }
    }

    pub(crate) fn ids(&self) -> IdBlock {
        IdBlock::starting_at((self.ids + 1) << 40)
    }

    /// Looks up what a request needs, as a carrier does.
    pub(crate) fn loaded(&self, request: &ScheduleRequest) -> (Known, usize) {
        let (mut known, mut rounds) = (Known::default(), 0);
        loop {
            let missing = Schedules::needs(request, &known, self.now).missing(&known);
            if missing.is_empty() {
                return (known, rounds);
            }
            assert!(rounds < 100, "{request:?} needs more and more: {missing:?}");
            match missing.facts.is_empty() {
                true => {
                    rounds += 1;
                    self.put(&mut known, missing);
                }
                false => self.answer(&mut known, missing.facts),
            }
        }
    }

    pub(crate) fn put(&self, known: &mut Known, needs: Needs) {
        let Needs { tasks, keys, objects, names, facts: _ } = needs;
        for key in tasks {
            known.tasks.put(key.clone(), self.task(&key));
        }
        for key in keys {
            let owner = self.keys.get(&key).cloned();
            if let Some(owner) = &owner {
                let task = key.task(owner);
                known.tasks.put(task.clone(), self.task(&task));
            }
            known.keys.put(key, owner);
        }
        for name in names {
            let found = self.objects.iter().find(|(key, row)| has_name(key, row, &name));
            let found = found.map(|(key, row)| (key.clone(), row.clone()));
            known.objects.put_named(name, found.map_or(Fetched::Absent, Fetched::Loaded));
        }
        for key in objects {
            let row = self.objects.get(&key).cloned();
            known.objects.put(key, row.map_or(Fetched::Absent, Fetched::Loaded));
        }
    }

    pub(crate) fn answer(&self, known: &mut Known, facts: FactNeeds) {
        for query in facts.instants {
            let instants = calendar(&query);
            known.facts.put_instants(query, instants);
        }
        for of in facts.templates {
            let body = known.objects.fetched(&of.0).and_then(Fetched::loaded).map(|it| &it.body);
            let is_readable = matches!(body, Some(Body::Template(it)) if it.as_str() == TEMPLATE);
            known.facts.put_template(of, is_readable.then(|| Arc::new(template())));
        }
        for (schedule, runs, each) in facts.allowed {
            let room = self.rate.div_ceil(usize::try_from(each).unwrap_or(usize::MAX));
            known.facts.put_allowed(schedule, runs.min(room));
        }
        for tenant in facts.quotas {
            let live = self.tasks.values().filter(|it| it.live().is_some()).count() as u64;
            known.room.put_counted(tenant.clone(), Unfinished { runs: live, children: 0 });
            known.room.put_quota(tenant, self.quota);
        }
    }

    fn task(&self, key: &TaskKey) -> Subject {
        self.tasks.get(key).cloned().unwrap_or(Subject::Absent)
    }

    /// Decides a request with what it needs, and saves nothing.
    pub(crate) fn decide(&self, request: &ScheduleRequest) -> Carried {
        let (known, rounds) = self.loaded(request);
        let result = Schedules::decided(&known, request, self.moment(), self.ids());
        Carried { result, known, rounds }
    }

    /// Decides a request and saves what followed from it.
    pub(crate) fn carry(&mut self, request: &ScheduleRequest) -> Carried {
        let carried = self.decide(request);
        self.ids += 1;
        for change in carried.result.changes.clone() {
            self.save(change);
        }
        carried
    }

    fn save(&mut self, change: DeskChange) {
        match change {
            DeskChange::Submitted { key, verdict, new, .. } if !verdict.events.is_empty() => {
                if let Some(text) = new.spec.key {
                    let fingerprint = new.spec.fingerprint;
                    let owner = KeyOwner { task: key.id, fingerprint };
                    self.keys.insert(IdempotencyKey { scope: key.scope.clone(), text }, owner);
                }
                self.follow(key, verdict);
            }
            DeskChange::Submitted { .. } => {}
            DeskChange::Asked { key, verdict, .. } => self.follow(key, verdict),
            DeskChange::Written { key, row } => {
                let before = self.objects.get(&key).map_or(0, |row| row.revision);
                assert_eq!(row.revision, before + 1, "revisions have no gaps");
                self.objects.insert(key, row);
            }
        }
    }

    fn follow(&mut self, key: TaskKey, verdict: verdict::Verdict) {
        let at = self.moment();
        apply_verdict(self.tasks.entry(key).or_insert(Subject::Absent), verdict, at);
    }

    /// Ends all runs, so that nothing overlaps.
    pub(crate) fn end_runs(&mut self) {
        let at = self.moment();
        let cancel = Request::Cancel(Cancel { mode: CancelMode::Immediate, reason: None });
        for subject in self.tasks.values_mut().filter(|it| it.live().is_some()) {
            apply(subject, verdict::Context::default(), &cancel, at);
        }
    }

    pub(crate) fn schedule(&self, id: &Name) -> &Schedule {
        let found = self.objects.iter().find_map(|(key, row)| match &row.body {
            Body::Schedule(schedule) if key.id == *id => Some(&**schedule),
            _ => None,
        });
        found.expect("the schedule is stored")
    }

    pub(crate) fn live(&self) -> usize {
        self.tasks.values().filter(|it| it.live().is_some()).count()
    }
}

fn has_name(key: &ObjectKey, row: &ObjectRow, name: &UniqueKey) -> bool {
    let Body::Schedule(schedule) = &row.body else { return false };
    key.scope == name.scope && schedule.name == name.unique_key && !schedule.is_deleted
}

pub(crate) fn request(target: ScheduleTarget, call: ScheduleCall) -> ScheduleRequest {
    ScheduleRequest { scope: Scope::default(), target, call, by: None }
}

pub(crate) fn answered(result: &DeskResult) -> &ScheduleAnswer {
    match &result.answer {
        Answer::Schedule(answer) => answer,
        other => panic!("a schedule should have been the answer, not {other:?}"),
    }
}

fn template() -> Submission {
    Submission {
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: Policy::default(),
        run_at: None,
        delay: None,
        deadline_in: None,
        budget: None,
        flow: None,
        debounce: None,
        spec: Spec {
            input: "{}".into(),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
            fingerprint: Digest::of(&[]),
        },
        stages: None,
        fork: None,
        steps: None,
    }
}

/// A calendar of intervals.
fn calendar(query: &CalendarQuery) -> Instants {
    let Recurrence::Every { every, anchor } = &query.recurrence else {
        return Instants::default();
    };
    let after = |time: Time| {
        let passed = time.since(*anchor).millis() / every.millis();
        anchor.plus(verdict::Span::from_millis((passed + 1) * every.millis()))
    };
    let until = |first: Time, last: Time| {
        let instants = std::iter::successors(Some(first), |it| Some(it.plus(*every)));
        instants.take_while(move |it| it.has_come(last))
    };
    match query.range {
        InstantRange::After(now) => Instants { due: Vec::new(), next: Some(after(now)) },
        InstantRange::Due { first, now } => {
            let mut due: Vec<Time> = until(first, now).collect();
            due.drain(..due.len().saturating_sub(DUE_MAX));
            Instants { due, next: Some(after(now)) }
        }
        InstantRange::Within { from, to } => {
            let due = until(after(from), to).take(WAITING_MAX + 1).collect();
            Instants { due, next: None }
        }
    }
}
