//! Requests about deployments, decided: what becomes of versions, artifacts, events, work orders and pause states.
//!
//! Whether a change is allowed is decided by [`topology::proposal::commit`] on the rows that the batch has locked: all of a
//! proposal, or nothing. Fields of artifacts come checked ([`CheckedFields`]): nothing that a tenant wrote is evaluated inside a
//! commit, except for conditions of reviews, whose work is bounded. What it makes is saved in the same commit: rows as objects,
//! an event and a work order as the tasks that they are, the end of a claim as the report that it is.
//!
//! After every change of an artifact, roles that claim nothing are asked at once (readiness, reviews). An event whose task
//! cannot be submitted now leaves its artifact pending, and a poll asks again.

mod versions;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use store::TaskKey;
use topology::Topology;
use topology::declaration::Logic;
use topology::deployment::{ArtifactRef, Deployment, Event, PauseState};
use topology::fields::CheckedFields;
use topology::plan::Obstacle;
use topology::proposal::{self, ArtifactChange, Author, Change};
use topology::roles::unclaimed;
use verdict::topology::TopologyRefusal;
use verdict::{
    Answer, Digest, Moment, Name, Object, ObjectKey, ObjectType, Refusal, Request, Scope, Span,
    TaskId, Text,
};

use super::batch::submit;
use super::topologies::{ENTRIES_MAX, instants, next_instant, overdue, owner};
use super::working_set::WorkingSet;
use crate::allowances::Allowances;
use crate::ids::Ids;
use crate::item::{RoleReport, Submission, TopologyCall, TopologyItem};
use crate::topologies::rows::{
    ArtifactRow, DeploymentRow, PauseRow, WorkOrderRow, artifact_key, change, closed_note,
    deployment_key, millis, note_key, pause_key, prefix, slots, track_key, version_key,
    version_object, work_order_key,
};

/// When an artifact is looked at again whose deployment this program cannot read: a newer one may run beside it.
const UNREADABLE_PAUSE: Span = Span::from_secs(60);

/// What decisions about deployments need besides the working set.
pub(super) struct Deploying<'a> {
    pub(super) work: &'a mut WorkingSet,
    pub(super) ids: &'a mut Ids,
    pub(super) allowances: &'a Allowances,
    pub(super) at: Moment,
}

/// The deployment that a request is about, with its version in force.
struct InForce<'a> {
    scope: &'a Scope,
    row: DeploymentRow,
    revision: u32,
    topology: Arc<Topology>,
    by: Option<Name>,
}

impl InForce<'_> {
    fn artifact_key(&self, name: &ArtifactRef) -> ObjectKey {
        artifact_key(self.scope, &self.row.prefix(), name)
    }
}

type Decided<T> = Result<T, TopologyRefusal>;

impl Deploying<'_> {
    pub(super) fn decide(&mut self, item: &TopologyItem) -> Answer {
        let decided = match &item.call {
            TopologyCall::Apply(topology) => self.apply(item, &topology.0),
            // An operator can always do these, also where this program cannot read the version in force.
            TopologyCall::Pause => self.change_any(item, |row| row.pause(true)),
            TopologyCall::Delete => self.delete(item),
            TopologyCall::Settled => Ok(self.settled(item)),
            _ => self.in_force(item).and_then(|found| self.decide_on(found, item)),
        };
        match (&decided, &item.call) {
            (Err(refusal), TopologyCall::Advance { artifact }) => {
                self.silence(item, artifact, refusal);
            }
            // A deleted deployment has no inbox, so its events need no pause states.
            (Err(TopologyRefusal::DeploymentNotFound), TopologyCall::Unprocessed { task, .. }) => {
                self.close_note(&item.scope, *task);
            }
            _ => {}
        }
        decided.unwrap_or_else(refused)
    }

    /// An artifact whose deployment was deleted, or cannot be read by this program, is due no more, or later.
    fn silence(&mut self, item: &TopologyItem, name: &ArtifactRef, refusal: &TopologyRefusal) {
        let prefix = prefix(item.deployment.as_str(), item.generation);
        let key = artifact_key(&item.scope, &prefix, name);
        let Some(object) = self.work.topologies.get(&key).cloned() else { return };
        let due = match refusal {
            TopologyRefusal::DeploymentNotFound => None,
            _ => Some(self.at.now.plus(UNREADABLE_PAUSE)),
        };
        self.write(Object { due, is_pending: false, ..object }, None);
    }

    fn found(&self, item: &TopologyItem) -> Decided<(u32, DeploymentRow)> {
        let found = self.work.topologies.deployment(item);
        let found = found.filter(|(_, row)| !row.is_deleted && row.generation == item.generation);
        found.ok_or(TopologyRefusal::DeploymentNotFound)
    }

    fn in_force<'i>(&self, item: &'i TopologyItem) -> Decided<InForce<'i>> {
        let (revision, row) = self.found(item)?;
        let topology = self.work.topologies.version(&row.version);
        // Written together with the deployment, by a program that could read it.
        let topology = topology.ok_or_else(|| {
            let why = "this program cannot read the version in force; upgrade it";
            TopologyRefusal::Incompatible(Text::from(why))
        })?;
        Ok(InForce { scope: &item.scope, row, revision, topology, by: item.by.clone() })
    }

    fn decide_on(&mut self, found: InForce<'_>, item: &TopologyItem) -> Decided<Answer> {
        match &item.call {
            TopologyCall::Apply(_)
            | TopologyCall::Pause
            | TopologyCall::Delete
            | TopologyCall::Settled => Ok(Answer::Nothing),
            TopologyCall::Resume => {
                let (topology, now) = (found.topology.clone(), self.now());
                Ok(self.change_deployment(found, |row| {
                    row.pause(false);
                    row.next_instant = next_instant(&topology, row, now);
                }))
            }
            TopologyCall::Create { artifact, fields } => self.create(&found, artifact, fields),
            TopologyCall::Move { artifact, to, expect, fields, is_approval } => {
                let wanted = Wanted { to, expect: *expect, fields: fields.clone() };
                self.move_artifact(&found, artifact, wanted, *is_approval)
            }
            TopologyCall::Emit { event, key } => self.emit(&found, event, key),
            TopologyCall::Advance { artifact } => Ok(self.advance(&found, artifact)),
            TopologyCall::Tick => Ok(self.tick(found)),
            TopologyCall::Scanned { mark } => {
                Ok(self.change_deployment(found, |row| row.scanned.clone_from(mark)))
            }
            TopologyCall::ClosePause { id } => self.close_pause(&found, id),
            TopologyCall::Unprocessed { task, pause } => {
                Ok(self.pause_unprocessed(&found, *task, pause))
            }
            TopologyCall::Report(report) => self.report(&found, report),
            TopologyCall::Go { role, artifact, revision } => {
                self.go(&found, role, artifact, *revision)
            }
        }
    }

    fn now(&self) -> u64 {
        millis(self.at.now)
    }

    /// Saves an object in place of the one with its key.
    fn write(&mut self, mut object: Object, by: Option<Name>) -> Object {
        let before = self.work.topologies.get(&object.key).map_or(0, |object| object.revision);
        object.revision = before + 1;
        self.work.topologies.put(object.clone());
        self.work.objects.push(change(object.clone(), self.at.now, by));
        object
    }

    fn artifact(&self, found: &InForce<'_>, name: &ArtifactRef) -> Option<ArtifactRow> {
        self.work.topologies.get(&found.artifact_key(name)).and_then(ArtifactRow::of)
    }

    fn write_artifact(&mut self, found: &InForce<'_>, row: &ArtifactRow) -> Object {
        let now = self.now();
        let object = row.object(found.scope, &found.row, &found.topology, 1, now);
        self.write(object, found.by.clone())
    }

    fn create(
        &mut self,
        found: &InForce<'_>,
        name: &ArtifactRef,
        fields: &CheckedFields,
    ) -> Decided<Answer> {
        if found.topology.artifact(&name.kind).is_none() {
            return Err(unknown_type(&found.topology, &name.kind));
        }
        if self.artifact(found, name).is_some() {
            return Err(TopologyRefusal::ArtifactExists);
        }
        let create = Change::Create { artifact: name.clone(), fields: fields.clone() };
        let mut desk = Desk::default();
        desk.commit(&found.topology, Author::Person, &[create], self.now())?;
        self.settle(found, desk);
        self.answer_artifact(found, name)
    }

    fn answer_artifact(&self, found: &InForce<'_>, name: &ArtifactRef) -> Decided<Answer> {
        let object = self.work.topologies.get(&found.artifact_key(name));
        object.cloned().map(answered).ok_or(TopologyRefusal::ArtifactNotFound)
    }

    fn move_artifact(
        &mut self,
        found: &InForce<'_>,
        name: &ArtifactRef,
        wanted: Wanted<'_>,
        is_approval: bool,
    ) -> Decided<Answer> {
        let row = self.artifact(found, name).ok_or(TopologyRefusal::ArtifactNotFound)?;
        let artifact = &row.artifact;
        if wanted.expect.is_some_and(|expect| expect != artifact.revision) {
            let why = format!("{name} has revision {} by now", artifact.revision);
            return Err(TopologyRefusal::Stale(Text::from(why)));
        }
        let by = found.topology.authority(&name.kind, &artifact.status, wanted.to);
        match by {
            None => return Err(no_transition(&found.topology, name, &artifact.status, wanted.to)),
            Some("approval") if !is_approval => {
                let why = format!(
                    "{} → {} is an approval: a key with the role approver or admin makes it, with `tenure artifacts approve`",
                    artifact.status, wanted.to
                );
                return Err(TopologyRefusal::NotAllowed(Text::from(why)));
            }
            Some("person") if is_approval => {
                let why = format!(
                    "{} → {} needs no approval: a key with the role client makes it, with `tenure artifacts move`",
                    artifact.status, wanted.to
                );
                return Err(TopologyRefusal::NotAllowed(Text::from(why)));
            }
            Some(_) => {}
        }
        if is_approval && found.by.as_ref().is_some_and(|by| row.is_done_by(by)) {
            return Err(TopologyRefusal::OwnWork);
        }
        if let Some(order) = &artifact.reserved_by {
            let why = format!("{name} is being worked on by {order}; wait until it was judged");
            return Err(TopologyRefusal::NotAllowed(Text::from(why)));
        }
        let mut change = ArtifactChange::of(artifact);
        change.to = Some(wanted.to.to_owned());
        change.fields = wanted.fields;
        let mut desk = Desk::default();
        desk.put(row);
        desk.commit(&found.topology, Author::Person, &[Change::Artifact(change)], self.now())?;
        if is_approval {
            desk.before.values_mut().for_each(|row| row.done_by.clear());
        }
        self.settle(found, desk);
        self.answer_artifact(found, name)
    }

    /// Emits an event that somebody asks for. The same key is the same event.
    fn emit(&mut self, found: &InForce<'_>, event: &str, key: &str) -> Decided<Answer> {
        let source = found.topology.event(event);
        if !source.is_some_and(|it| it.on == topology::declaration::Trigger::Request) {
            let why = format!("the topology declares no event `{event}` with `on: request`");
            return Err(TopologyRefusal::Invalid(Text::from(why)));
        }
        let event = Event::about_deployment(event, key, self.now());
        Ok(self.submit_event(found, &event))
    }

    fn submit_event(&mut self, found: &InForce<'_>, event: &Event) -> Answer {
        let submission = owner(found.scope, &found.row).event(&found.topology, event);
        self.submit(&submission)
    }

    fn submit(&mut self, submission: &Submission) -> Answer {
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        submit(self.work, self.ids, submission, input, self.at, self.allowances)
    }

    /// What roles do about an artifact because a poll or time asks.
    fn advance(&mut self, found: &InForce<'_>, name: &ArtifactRef) -> Answer {
        let Some(mut row) = self.artifact(found, name) else { return Answer::Nothing };
        let mut is_changed = false;
        if let Some(pause) = overdue(&found.topology, &row, self.now()) {
            let next = unclaimed::next_deadline(&found.topology, &row.artifact, row.overdue_at);
            row.overdue_at = next.map_or(row.overdue_at, |(at, _)| at);
            let key = pause_key(found.scope, &found.row.prefix(), &pause.id);
            if self.work.topologies.get(&key).is_none() {
                let pause = PauseRow { pause, is_closed: false };
                self.write(pause.object(found.scope, &found.row.prefix(), 1), None);
            }
            is_changed = true;
        }
        let mut desk = Desk::default();
        desk.put(row.clone());
        if !found.row.is_paused {
            self.follow(found, &mut desk);
        }
        if is_changed || desk.is_changed(name) || self.is_out_of_date(found, &row) {
            self.save(found, desk);
        }
        Answer::Nothing
    }

    /// What a role does about an artifact because an outside process says so.
    fn go(
        &mut self,
        found: &InForce<'_>,
        role: &str,
        name: &ArtifactRef,
        revision: u64,
    ) -> Decided<Answer> {
        let row = self.artifact(found, name).ok_or(TopologyRefusal::ArtifactNotFound)?;
        let changes = unclaimed::of_role(&found.topology, role, &row.artifact, self.now());
        if row.artifact.revision != revision || changes.is_empty() {
            let why = format!("{name} has changed since it was read");
            return Err(TopologyRefusal::Stale(Text::from(why)));
        }
        if found.row.is_paused {
            let why = format!("{} is paused; try again once it is resumed", found.row.name);
            return Err(TopologyRefusal::Stale(Text::from(why)));
        }
        let mut desk = Desk::default();
        desk.put(row);
        for change in &changes {
            let Change::Emit(event) = change else { continue };
            match self.submit_event(found, event) {
                Answer::Accepted { .. } => {}
                // Nothing was changed yet.
                refused => return Ok(refused),
            }
        }
        desk.commit(&found.topology, Author::Role(role), &changes, self.now())?;
        self.settle(found, desk);
        self.answer_artifact(found, name)
    }

    /// Whether the stored object says something else about what is to be done than the version in force.
    fn is_out_of_date(&self, found: &InForce<'_>, row: &ArtifactRow) -> bool {
        let key = found.artifact_key(&row.artifact.name);
        let Some(stored) = self.work.topologies.get(&key) else { return false };
        let now = self.now();
        let fresh = row.object(found.scope, &found.row, &found.topology, stored.revision, now);
        (stored.due, stored.is_pending) != (fresh.due, fresh.is_pending)
    }

    /// Emits the events at intervals whose instant has come.
    fn tick(&mut self, found: InForce<'_>) -> Answer {
        if found.row.is_paused {
            return Answer::Nothing;
        }
        let (topology, now) = (found.topology.clone(), self.now());
        let mut emitted = found.row.emitted.clone();
        for (instant, event) in instants(&topology, &found.row, now) {
            let answer = self.submit_event(&found, &event);
            if let Answer::Accepted { .. } = answer {
                emitted.insert(event.kind, instant);
            }
        }
        self.change_deployment(found, |row| {
            row.emitted = emitted;
            row.next_instant = next_instant(&topology, row, now);
        })
    }

    fn close_pause(&mut self, found: &InForce<'_>, id: &str) -> Decided<Answer> {
        let key = pause_key(found.scope, &found.row.prefix(), id);
        let object = self.work.topologies.get(&key);
        let row = object.and_then(|object| Some((object.clone(), PauseRow::of(object)?)));
        let Some((object, mut row)) = row else {
            let why = "the deployment has no pause state with this id";
            return Err(TopologyRefusal::Invalid(Text::from(why)));
        };
        if row.is_closed {
            return Ok(answered(object));
        }
        row.is_closed = true;
        Ok(answered(self.write(row.object(found.scope, &found.row.prefix(), 1), found.by.clone())))
    }

    /// Tells people of an event that no role decided: once for each note.
    fn pause_unprocessed(
        &mut self,
        found: &InForce<'_>,
        task: TaskId,
        pause: &PauseState,
    ) -> Answer {
        if !self.close_note(found.scope, task) {
            return Answer::Nothing;
        }
        let prefix = found.row.prefix();
        if self.work.topologies.get(&pause_key(found.scope, &prefix, &pause.id)).is_none() {
            let row = PauseRow { pause: pause.clone(), is_closed: false };
            self.write(row.object(found.scope, &prefix, 1), None);
        }
        Answer::Nothing
    }

    /// Whether the note was open.
    fn close_note(&mut self, scope: &Scope, task: TaskId) -> bool {
        let note = self.work.topologies.get(&note_key(scope, task)).cloned();
        let Some(note) = note.filter(|note| note.is_pending) else { return false };
        self.write(closed_note(note), None);
        true
    }

    /// A role ends its claim. All of its proposal takes effect with the end of the claim, or nothing does.
    fn report(&mut self, found: &InForce<'_>, report: &RoleReport) -> Decided<Answer> {
        if let Some((key, request)) = report.claim.as_ref().filter(|claim| !self.holds(claim)) {
            // Whoever has no authority learns that, and the same report again gets its recorded answer.
            return Ok(self.work.decide(key, Cow::Borrowed(request), self.at));
        }
        if let Some(objection) = &report.objection {
            return Err(objection.clone());
        }
        let Some(version) = self.work.topologies.version(&report.version) else {
            let why = "this program cannot read the version of the work order; upgrade it";
            return Err(TopologyRefusal::Incompatible(Text::from(why)));
        };
        let mut desk = self.desk(found, report);
        desk.commit(&version, Author::Role(&report.role), &report.changes, self.now())?;
        let workers = report.claim.as_ref().map(|(key, _)| self.work.done_by(key));
        desk.note_workers(&workers.unwrap_or_default());
        let mut task = None;
        for change in &report.changes {
            let Change::Order(order) = change else { continue };
            self.check_slots(found, &version, order.track.as_deref())?;
            let submission = owner(found.scope, &found.row).work_order(&version, order);
            match self.submit(&submission) {
                Answer::Accepted { task: made, .. } => task = Some(made),
                // Nothing was changed yet: the claim is kept and the event is tried again.
                refused => return Ok(refused),
            }
        }
        let answer = report.claim.as_ref().map_or(Answer::Nothing, |(key, request)| {
            let answer = self.work.decide(key, Cow::Borrowed(request), self.at);
            assert!(
                matches!(answer, Answer::Committed { .. }),
                "a report under a lease that holds is recorded: {answer:?}"
            );
            answer
        });
        self.write_orders(found, &version, report, task.map(|task| task.run_name()));
        self.settle(found, desk);
        Ok(answer)
    }

    /// Whether the claim is still that of the caller, as the rules of leases see it.
    fn holds(&self, (key, request): &(TaskKey, Request)) -> bool {
        request.caller().is_some_and(|caller| self.work.may_report(key, caller, self.at))
    }

    /// The rows that a proposal names, as they are now.
    fn desk(&self, found: &InForce<'_>, report: &RoleReport) -> Desk {
        let (scope, prefix) = (found.scope, found.row.prefix());
        let mut desk = Desk::default();
        if let Some(event) = &report.event {
            desk.rows.events.insert(event.id.clone(), event.clone());
        }
        for change in &report.changes {
            match change {
                Change::Artifact(ArtifactChange { artifact, .. })
                | Change::Create { artifact, .. } => {
                    desk.before.extend(self.artifact(found, artifact).into_iter().map(|row| {
                        desk.rows.artifacts.insert(artifact.clone(), row.artifact.clone());
                        (artifact.clone(), row)
                    }));
                }
                Change::Order(order) => {
                    let key = work_order_key(scope, &prefix, &order.id);
                    let row = self.work.topologies.get(&key).and_then(WorkOrderRow::of);
                    let existing = row.map(|row| (row.order.id.clone(), row.order));
                    desk.rows.work_orders.extend(existing);
                }
                Change::Record(record) => {
                    let key = work_order_key(scope, &prefix, &record.work_order);
                    let row = self.work.topologies.get(&key).and_then(WorkOrderRow::of);
                    let existing = row.and_then(|row| row.record);
                    let existing = existing.map(|record| (record.work_order.clone(), record));
                    desk.rows.run_records.extend(existing);
                }
                Change::Pause(pause) => {
                    let key = pause_key(scope, &prefix, &pause.id);
                    let row = self.work.topologies.get(&key).and_then(PauseRow::of);
                    if let Some(row) = row {
                        desk.known_pauses.insert(row.pause.id.clone());
                        desk.rows.pauses.insert(row.pause.id.clone(), row.pause);
                    }
                }
                _ => {}
            }
        }
        desk
    }

    /// Whether a new work order has room among those that are active.
    fn check_slots(
        &mut self,
        found: &InForce<'_>,
        version: &Topology,
        track: Option<&str>,
    ) -> Decided<()> {
        for (key, limit) in slots(version, track) {
            let key = track_key(found.scope, &found.row.prefix(), &key);
            let holders = self.work.topologies.holders(&key);
            if holders.len() >= limit {
                let why = format!("{} are active, and only {limit} may be", holders.join(", "));
                return Err(TopologyRefusal::Stale(Text::from(why)));
            }
        }
        Ok(())
    }

    /// Saves work orders that were made or judged, and who has their tracks.
    fn write_orders(
        &mut self,
        found: &InForce<'_>,
        version: &Topology,
        report: &RoleReport,
        run: Option<String>,
    ) {
        let (scope, prefix) = (found.scope, found.row.prefix());
        for change in &report.changes {
            let row = match change {
                Change::Order(order) => {
                    let mut order = (**order).clone();
                    // The task has it.
                    order.snapshot = Value::Null;
                    let task = run.clone().unwrap_or_default();
                    WorkOrderRow { order, task, record: None }
                }
                Change::Record(record) => {
                    let key = work_order_key(scope, &prefix, &record.work_order);
                    let row = self.work.topologies.get(&key).and_then(WorkOrderRow::of);
                    let Some(row) = row else { continue };
                    WorkOrderRow { record: Some((**record).clone()), ..row }
                }
                _ => continue,
            };
            for (key, _) in slots(version, row.order.track.as_deref()) {
                let key = track_key(scope, &prefix, &key);
                let is_active = row.record.is_none();
                self.work.topologies.change_holder(&key, &row.order.id, is_active);
            }
            self.write(row.object(scope, &prefix, 1), None);
        }
    }

    /// Lets roles that claim nothing follow, and saves everything.
    fn settle(&mut self, found: &InForce<'_>, mut desk: Desk) {
        if !found.row.is_paused {
            self.follow(found, &mut desk);
        }
        self.save(found, desk);
    }

    /// Asks readiness and reviews about every artifact of the desk until they have nothing to propose.
    fn follow(&mut self, found: &InForce<'_>, desk: &mut Desk) {
        let names: Vec<ArtifactRef> = desk.rows.artifacts.keys().cloned().collect();
        for name in names {
            for _ in 1..ENTRIES_MAX {
                let Some(artifact) = desk.rows.artifacts.get(&name) else { break };
                let proposed = unclaimed::next_inside(&found.topology, artifact, self.now());
                let Some((role, changes)) = proposed else { break };
                // An event that cannot be submitted now is found by a poll.
                if !self.emit_all(found, &changes) {
                    break;
                }
                let author = Author::Role(role);
                if desk.commit(&found.topology, author, &changes, self.now()).is_err() {
                    break;
                }
            }
        }
    }

    fn emit_all(&mut self, found: &InForce<'_>, changes: &[Change]) -> bool {
        changes.iter().all(|change| match change {
            Change::Emit(event) => {
                matches!(self.submit_event(found, event), Answer::Accepted { .. })
            }
            _ => true,
        })
    }

    /// Saves the artifacts and new pause states of a desk.
    fn save(&mut self, found: &InForce<'_>, desk: Desk) {
        let Desk { rows, before, known_pauses } = desk;
        for (name, artifact) in rows.artifacts {
            let known = before.get(&name).map(|row| (row.overdue_at, row.done_by.clone()));
            let (overdue_at, done_by) = known.unwrap_or_default();
            let row = ArtifactRow { artifact, overdue_at, done_by };
            let written = self.write_artifact(found, &row);
            debug_assert_eq!(written.key, found.artifact_key(&name));
        }
        for (id, pause) in rows.pauses {
            if !known_pauses.contains(&id) {
                let row = PauseRow { pause, is_closed: false };
                self.write(row.object(found.scope, &found.row.prefix(), 1), None);
            }
        }
    }
}

/// What a person wants of an artifact.
struct Wanted<'a> {
    to: &'a str,
    expect: Option<u64>,
    fields: Option<CheckedFields>,
}

/// The rows of one request: those that it names, and what becomes of them.
#[derive(Default)]
struct Desk {
    rows: Deployment,
    /// Artifacts as they were stored.
    before: std::collections::BTreeMap<ArtifactRef, ArtifactRow>,
    /// Pause states that exist.
    known_pauses: BTreeSet<String>,
}

impl Desk {
    fn put(&mut self, row: ArtifactRow) {
        self.rows.artifacts.insert(row.artifact.name.clone(), row.artifact.clone());
        self.before.insert(row.artifact.name.clone(), row);
    }

    /// Notes who executed the work order that is judged, for each artifact that it was about.
    fn note_workers(&mut self, keys: &[Name]) {
        self.before.values_mut().for_each(|row| row.note_workers(keys));
    }

    fn is_changed(&self, name: &ArtifactRef) -> bool {
        self.rows.artifacts.get(name) != self.before.get(name).map(|row| &row.artifact)
    }

    fn commit(
        &mut self,
        topology: &Topology,
        author: Author<'_>,
        changes: &[Change],
        now: u64,
    ) -> Decided<()> {
        proposal::commit(topology, &mut self.rows, author, changes, now).map_err(translated)
    }
}

fn translated(refusal: proposal::Refusal) -> TopologyRefusal {
    let text = Text::from(refusal.to_string());
    match refusal {
        proposal::Refusal::StaleRevision(_)
        | proposal::Refusal::Unchecked(_)
        | proposal::Refusal::Missing(_)
        | proposal::Refusal::Done(_) => TopologyRefusal::Stale(text),
        proposal::Refusal::NotAllowed { .. } => TopologyRefusal::NotAllowed(text),
        proposal::Refusal::Exists(_) => TopologyRefusal::ArtifactExists,
        proposal::Refusal::BadFields(_) => TopologyRefusal::Invalid(text),
    }
}

fn unknown_type(topology: &Topology, kind: &str) -> TopologyRefusal {
    let known: Vec<&str> = topology.declaration().artifacts.keys().map(String::as_str).collect();
    let why = format!("the topology has no artifact type `{kind}`; it has {}", known.join(", "));
    TopologyRefusal::Invalid(Text::from(why))
}

fn no_transition(topology: &Topology, name: &ArtifactRef, from: &str, to: &str) -> TopologyRefusal {
    let declared = topology.artifact(&name.kind).map(|it| it.transitions.as_slice());
    let open: Vec<String> = declared
        .unwrap_or_default()
        .iter()
        .filter(|it| it.from == from)
        .map(|it| format!("{} (by {})", it.to, it.by))
        .collect();
    let open = if open.is_empty() { "nothing".to_owned() } else { open.join(", ") };
    let why =
        format!("{name} is in {from}, from which no change leads to {to}; it leads to {open}");
    TopologyRefusal::NotAllowed(Text::from(why))
}

fn answered(object: Object) -> Answer {
    Answer::Object(Box::new(object))
}

fn refused(refusal: TopologyRefusal) -> Answer {
    Answer::Refused(Refusal::Topology(refusal))
}
