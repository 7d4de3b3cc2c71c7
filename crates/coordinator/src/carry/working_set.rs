//! The working set of one batch: the loaded rows, changed decision by decision.
//!
//! Decisions are made one after the other on this set, so the outcome is the same as if every
//! request had come alone. Only the result is written.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use store::objects::{approval_change, fork_change, retry_change};
use store::runs::StoredStep;
use store::spend::spend_rows;
use store::{
    Change, Entry, FlowRef, IdempotencyKey, KeyOwner, MessageChanges, ObjectChange, PausedQueues,
    Refused, SavedLog, Spec, SpendRow, TaskKey, Unfinished,
};
use verdict::approval::{self, Approval};
use verdict::decide::caller::may_report;
use verdict::desk::{DeskChange, NewTask};
use verdict::effect::Declared;
use verdict::flow::Standing;
use verdict::known::{Known, loaded_for};
use verdict::log::{self, Piece, SentLog, TaskLog};
use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::preparing;
use verdict::request::{Caller, Extend, Submit};
use verdict::run::{Loaded, Message, Waiting};
use verdict::scope_budget::{BudgetUse, Day, count_all};
use verdict::submission::NewStep;
use verdict::{
    Amounts, Answer, Balance, ClosedAttempt, Context, Event, KeyUse, LeaseId, Moment, Name, Next,
    Phase, Quota, ReadSet, Refusal, Request, Scope, Subject, Task, TaskId, Time, Verdict,
    apply_verdict, closed_attempts, decide, stall,
};
use wire::names::RETRY_OF_LABEL;

use super::debounce::{Debounces, with_wait};
use super::effects::{Asked, AwaitedEffect};
use super::load::flow_of;
use super::messages::Letter;
use super::next_stage::Urgency;
use super::recovery::Recoveries;
use super::topologies::Topologies;
use crate::allowances::Allowances;
use crate::batch_metrics::BatchMetrics;
use crate::item::{Submission, Watched};
use crate::outbox::{Endpoints, of_approvals, of_end};
use crate::recovery::{self, Policies};
use crate::spend_metrics;
use crate::subjects::object_change;
use crate::topologies::rows::note_of_end;
use crate::trace::TraceEvent;

#[derive(Default)]
pub(super) struct WorkingSet {
    /// The loaded rows, after what was decided.
    pub(super) known: Known,
    /// What is to be saved of tasks.
    unsaved: HashMap<TaskKey, Unsaved>,
    /// Keys of changed tasks, in the order of their first change.
    changed: Vec<TaskKey>,
    closed: HashMap<(TaskId, LeaseId), ClosedAttempt>,
    refused: Vec<Refused>,
    /// What the children and steps that the next decision spawns are created with.
    pub(super) specs: HashMap<TaskId, Spec>,
    /// Messages of decisions that are not decided or saved yet, in order.
    pub(super) outbox: Vec<Letter>,
    /// What becomes of messages, to be saved.
    pub(super) messages: MessageChanges,
    /// Objects that follow from decisions, to be saved.
    pub(super) objects: Vec<ObjectChange>,
    /// Who is told of ends.
    pub(super) endpoints: Arc<Endpoints>,
    /// What the steps of the call being decided ask for.
    pub(super) declared: Vec<Declared>,
    /// Effects that decisions asked for, not numbered yet, in order.
    pub(super) asked: Vec<Asked>,
    /// The effects that the wait of the call being decided is for.
    pub(super) watched: Vec<Watched>,
    /// Waits for effects that decisions opened, not saved yet.
    pub(super) awaiting: Vec<AwaitedEffect>,
    /// For which runs recovery is wanted.
    pub(super) policies: Arc<Policies>,
    /// What the batch knows of recovery.
    pub(super) recoveries: Recoveries,
    /// What is decided now about an evaluation is part of what its candidate becomes in this batch.
    pub(super) is_evaluated: bool,
    /// What the batch knows of deployments.
    pub(super) topologies: Topologies,
    /// Who waits for newer runs with a flow key.
    pub(super) debounces: Debounces,
    /// What decisions used, not saved yet.
    spend: BTreeMap<Scope, Amounts>,
    /// The logs that calls of this batch add lines to.
    logs: BTreeMap<TaskKey, TaskLog>,
    /// Queues from which nothing may be granted.
    pub(super) paused: PausedQueues,
    /// How urgent the tasks are that wait in some queues: see [`super::next_stage`].
    pub(super) urgency: Urgency,
    /// Counts of everything that happened, for the metrics.
    pub(super) batch_metrics: BatchMetrics,
    /// Events to export as spans; `None` if no spans are exported.
    pub(super) trace_events: Option<Vec<TraceEvent>>,
}

/// What is to be saved of one task.
#[derive(Default)]
struct Unsaved {
    /// The revision in the store; `None` for a task that is not stored yet.
    stored: Option<u32>,
    spec: Option<Spec>,
    closed: Vec<ClosedAttempt>,
    entries: Vec<Entry>,
    /// The steps of a plan that is submitted in this batch.
    steps: Vec<StoredStep>,
    is_changed: bool,
}

impl WorkingSet {
    pub(super) fn put(&mut self, key: TaskKey, subject: Subject) {
        self.known.tasks.put(key, subject);
    }

    /// Marks a task as locked: nothing can be decided about it in this batch.
    pub(super) fn put_locked(&mut self, key: TaskKey) {
        self.known.tasks.lock(key);
    }

    pub(super) fn is_locked(&self, key: &TaskKey) -> bool {
        self.known.tasks.is_locked(key)
    }

    pub(super) fn is_key_holder_locked(&self, key: &IdempotencyKey) -> bool {
        self.known.is_holder_locked(key)
    }

    pub(super) fn put_closed(&mut self, closed: ClosedAttempt) {
        self.closed.insert((closed.task, closed.lease), closed);
    }

    pub(super) fn put_holder(&mut self, key: IdempotencyKey, held: KeyOwner) {
        self.known.keys.put(key, Some(held));
    }

    /// Adds flow keys as the store knows them, in place of what was known before.
    pub(super) fn put_flows(&mut self, flows: Vec<FlowRef>, found: Vec<Option<KeyUse>>) {
        for (FlowRef { scope, key }, in_use) in flows.into_iter().zip(found) {
            self.known.flows.entry(scope).or_default().put(key, in_use);
        }
    }

    /// Adds what was loaded for one request about a durable run.
    pub(super) fn put_records(&mut self, key: TaskKey, loaded: Loaded) {
        self.known.records.entry(key).or_default().put(loaded);
    }

    /// Forgets what was loaded for a task, because it is loaded again after a save.
    pub(super) fn forget_records(&mut self, key: &TaskKey) {
        self.known.records.remove(key);
    }

    pub(super) fn is_loaded(&self, key: &TaskKey) -> bool {
        self.known.tasks.contains(key)
    }

    pub(super) fn is_absent(&self, key: &TaskKey) -> bool {
        self.known.tasks.get(key) == Some(&Subject::Absent)
    }

    /// Adds a task that a message is about to create.
    pub(super) fn put_new(&mut self, key: TaskKey, spec: Spec) {
        self.unsaved.insert(key.clone(), Unsaved { spec: Some(spec), ..Unsaved::default() });
        self.known.tasks.set(key, Subject::Absent);
    }

    /// When the first step of a checkpoint call was recorded, in this batch or before.
    pub(super) fn recorded_at(&self, key: &TaskKey, request: &Request) -> Option<Time> {
        let first = &request.checkpoint_call()?.steps.first()?.key;
        self.known.records.get(key)?.checkpoint(first).map(|checkpoint| checkpoint.at)
    }

    /// What the task may use and has used, after what was decided.
    pub(super) fn balance(&self, key: &TaskKey) -> Option<Box<Balance>> {
        let run = match self.known.tasks.get(key)? {
            Subject::Absent => return None,
            Subject::Live(task) => &task.run,
            Subject::Done(done) => &done.run,
        };
        run.as_ref()?.balance.clone()
    }

    /// Adds a task that the store selected. If the batch already decided about it, the newer state
    /// stays.
    pub(super) fn adopt(&mut self, task: Task) -> TaskKey {
        let key = TaskKey { scope: task.scope.clone(), id: task.id };
        self.put(key.clone(), Subject::Live(task));
        key
    }

    pub(super) fn task(&self, key: &TaskKey) -> Option<&Task> {
        self.known.tasks.live(key)
    }

    /// Decides a submission. A new task joins the set with its idempotency key.
    pub(super) fn submit(
        &mut self,
        submit: Submit,
        submission: &Submission,
        payload: SubmissionPayload,
        at: Moment,
        allowances: &Allowances,
    ) -> Answer {
        let SubmissionPayload { steps, inherited } = payload;
        let (spec, id) = (&submission.spec, submit.id);
        let scope = submit.scope.clone();
        let budgets = self.known.room.budgets_of(&scope);
        let key = submission.idempotency_key();
        let holder = key.as_ref().and_then(|key| self.known.holder(key));
        let wait = match self.replacement(submission, at.now) {
            Ok(wait) => wait,
            // One that was submitted before replaces nothing now.
            Err(_) if holder.is_some() => None,
            Err(refusal) => {
                let answer = Answer::Refused(refusal);
                self.batch_metrics.note_submission(&answer);
                return answer;
            }
        };
        let replaces = wait.as_ref().and_then(|wait| wait.replaces);
        let mut submit = with_wait(submit, wait.as_ref());
        if !budgets.is_empty() {
            count_all(&mut submit);
        }
        let request = submission.request(submit, &steps);
        let holder = key.as_ref().and_then(|key| self.known.holder(key));
        // One that takes the place of another needs no room.
        let quota = self.quota(&scope.tenant, allowances).filter(|_| replaces.is_none());
        let is_limited = quota.is_some();
        let (flows, budgets) = (self.known.flows.get(&scope), &budgets);
        let context = Context { holder, quota, flows, budgets, ..Context::default() };
        let verdict = decide(ReadSet { subject: &Subject::Absent, context }, &request, at);
        let refused = inherited.as_ref().and_then(|fork| fork.refusal(&verdict, at));
        let answer = refused.as_ref().unwrap_or(&verdict.answer);
        self.batch_metrics.note_submission(answer);
        if verdict.events.is_empty() || refused.is_some() {
            return answer.clone();
        }
        let task = TaskKey { scope, id };
        let new = NewTask { spec: spec.clone(), steps };
        let answer = self.join(&task, request, verdict, new, is_limited, at);
        if let Some(from) = spec.labels.get(RETRY_OF_LABEL).and_then(|it| TaskId::parse(it)) {
            self.objects.push(retry_change(&task.scope, from, id, at.now));
        }
        if let Some(fork) = inherited {
            self.inherit(&task, fork, at);
        }
        if let Some((wait, flow)) = wait.zip(flow_of(submission)) {
            self.replace(&task, flow, &wait, at);
        }
        answer
    }

    /// Adds a task that was accepted, with its idempotency key and the room that it takes.
    fn join(
        &mut self,
        task: &TaskKey,
        request: Request,
        verdict: Verdict,
        new: NewTask,
        is_limited: bool,
        at: Moment,
    ) -> Answer {
        let NewTask { spec, steps } = new;
        if is_limited {
            let more = Unfinished { runs: 1, children: steps.len() as u64 };
            self.known.room.accept(&task.scope.tenant, more);
        }
        if let Some(text) = spec.key.clone() {
            let key = IdempotencyKey { scope: task.scope.clone(), text };
            let owner = KeyOwner { task: task.id, fingerprint: spec.fingerprint };
            self.known.keys.put(key, Some(owner));
        }
        let first = steps.iter().take(STEPS_PER_DECISION);
        self.specs = first.map(|it| (it.step.child.submit.id, it.spec.clone())).collect();
        let steps = (0..).zip(steps);
        let steps = steps.map(|(place, new)| StoredStep::new(place, new.step, new.spec)).collect();
        let unsaved = Unsaved { spec: Some(spec), steps, ..Unsaved::default() };
        self.unsaved.insert(task.clone(), unsaved);
        self.known.tasks.set(task.clone(), Subject::Absent);
        let answer = self.settle(task, Cow::Owned(request), verdict, at);
        self.specs.clear();
        answer
    }

    /// Adds what was decided at a desk, as it is.
    pub(super) fn apply(&mut self, changes: Vec<DeskChange>, by: Option<&Name>, at: Moment) {
        for change in changes {
            match change {
                DeskChange::Submitted { key, request, verdict, new } => {
                    self.batch_metrics.note_submission(&verdict.answer);
                    if !verdict.events.is_empty() {
                        let is_limited = self.known.room.is_limited(&key.scope.tenant);
                        self.join(&key, request, verdict, *new, is_limited, at);
                    }
                }
                DeskChange::Asked { key, request, verdict } => {
                    let subject = self.known.tasks.get(&key);
                    let at = subject.expect("what is asked is known").dated(at);
                    self.settle(&key, Cow::Owned(request), verdict, at);
                }
                DeskChange::Written { key, row } => {
                    self.objects.push(object_change(&key, &row, at.now, by));
                    self.known.objects.write(key, row);
                }
            }
        }
    }

    /// Lets a new run take over what another one recorded, and links the two.
    fn inherit(&mut self, task: &TaskKey, fork: ForkRequests, at: Moment) {
        self.specs = fork.specs;
        for request in fork.requests {
            let extra = Extra::default();
            self.decide_on(task, Cow::Owned(request), extra, at);
        }
        self.specs.clear();
        self.objects.push(fork_change(&task.scope, fork.from, task.id, at.now));
    }

    /// The tenant's quota and use: what the store counts, plus what this batch accepted.
    fn quota(&self, tenant: &Name, allowances: &Allowances) -> Option<Quota> {
        let max = allowances.quota(tenant)?;
        let counted = self.known.room.counted(tenant);
        let counted = counted.unwrap_or_else(|| allowances.unfinished(tenant));
        Some(self.known.room.used_of(tenant, max, counted))
    }

    /// Decides a request about a task that is already in the set.
    pub(super) fn decide(
        &mut self,
        key: &TaskKey,
        request: Cow<'_, Request>,
        at: Moment,
    ) -> Answer {
        let loaded = self.loaded_for(key, &request);
        self.decide_on(key, request, Extra { loaded, ..Extra::default() }, at)
    }

    /// Whether a report of this caller takes effect.
    pub(super) fn may_report(&self, key: &TaskKey, caller: &Caller, at: Moment) -> bool {
        let subject = self.known.tasks.get(key);
        subject.is_some_and(|it| may_report(it, caller, it.dated(at)))
    }

    /// The keys under which the earlier stages of a task were done, where people decide about them.
    pub(super) fn done_by(&self, key: &TaskKey) -> Vec<Name> {
        let task = self.task(key);
        task.and_then(|task| task.stages()).map(|it| it.done_by.clone()).unwrap_or_default()
    }

    /// Whether the lines of this caller are kept, if its call is not refused.
    pub(super) fn may_log(&self, key: &TaskKey, caller: &Caller, at: Moment) -> bool {
        let subject = self.known.tasks.get(key);
        subject.is_some_and(|it| log::may_add(it, caller, it.dated(at)))
    }

    pub(super) fn put_logs(&mut self, found: impl Iterator<Item = (TaskKey, Vec<Piece>)>) {
        self.logs.extend(found.map(|(key, pieces)| (key, TaskLog::new(pieces))));
    }

    pub(super) fn add_log(&mut self, key: &TaskKey, attempt: u32, sent: &SentLog, now: Time) {
        let log = self.logs.get_mut(key).expect("the log of a call with lines is loaded");
        log.add(attempt, sent, now);
    }

    /// What becomes of logs. All lines of a batch are decided before its first save, so the second one has none.
    pub(super) fn take_logs(&mut self) -> Vec<SavedLog> {
        let changes = std::mem::take(&mut self.logs).into_iter();
        let saved = changes.map(|(task, log)| SavedLog { task, change: log.into_change() });
        saved.filter(|saved| !saved.change.is_empty()).collect()
    }

    /// Decides that time has changed something, with what was loaded for that.
    pub(super) fn sweep(&mut self, key: &TaskKey, loaded: Option<Loaded>, at: Moment) -> Answer {
        let extra = Extra { loaded, ..Extra::default() };
        self.decide_on(key, Cow::Owned(Request::Sweep), extra, at)
    }

    /// Decides a checkpoint call that wants children. All use up the tenant's quota: detached ones as runs, which also need room in
    /// budgets, the others as children.
    pub(super) fn decide_with_children(
        &mut self,
        key: &TaskKey,
        mut request: Request,
        children: &[Submission],
        at: Moment,
        allowances: &Allowances,
    ) -> Answer {
        let ids = child_ids(&request);
        self.specs = ids.into_iter().zip(children.iter().map(|it| it.spec.clone())).collect();
        let quota = self.quota(&key.scope.tenant, allowances);
        let budgets = self.known.room.budgets_of(&key.scope);
        if !budgets.is_empty() {
            count_detached(&mut request);
        }
        let loaded = self.loaded_for(key, &request);
        let sent = self.outbox.len();
        let extra = Extra { loaded, quota, budgets };
        let answer = self.decide_on(key, Cow::Owned(request), extra, at);
        if quota.is_some() {
            for letter in &self.outbox[sent..] {
                let runs = u64::from(letter.starts_run());
                let more = Unfinished { runs, children: u64::from(letter.starts_child()) };
                self.known.room.accept(&key.scope.tenant, more);
            }
        }
        self.specs.clear();
        answer
    }

    /// What the rules need of a durable run. `None` for every plain task.
    fn loaded_for(&self, key: &TaskKey, request: &Request) -> Option<Loaded> {
        loaded_for(self.known.tasks.get(key)?, self.known.records.get(key), request)
    }

    fn decide_on(
        &mut self,
        key: &TaskKey,
        request: Cow<'_, Request>,
        extra: Extra,
        at: Moment,
    ) -> Answer {
        let subject = self.known.tasks.get(key).expect("every task of a batch is loaded first");
        let at = subject.dated(at);
        let closed = request.caller().and_then(|caller| {
            // The store does not have an attempt yet that closed in this batch.
            let mut closed_here = self.unsaved.get(key).into_iter().flat_map(|it| &it.closed);
            let here = closed_here.find(|closed| closed.lease == caller.lease);
            here.or_else(|| self.closed.get(&(key.id, caller.lease)))
        });
        let is_queue_paused = matches!(*request, Request::Grant(_))
            && subject.live().is_some_and(|it| self.paused.contains(&it.scope, &it.queue));
        let Extra { loaded, quota, budgets } = &extra;
        let (run, quota) = (loaded.as_ref(), *quota);
        let flows = self.known.flows.get(&key.scope);
        let context =
            Context { closed, is_queue_paused, run, quota, flows, budgets, ..Context::default() };
        let read_set = ReadSet { subject, context };
        let verdict = decide(read_set, &request, at);
        if let Answer::Refused(refusal) = &verdict.answer {
            self.refused.extend(Refused::of(key, &request, refusal, at.now));
        }
        self.batch_metrics.note_answer(&request, &verdict.answer);
        self.settle(key, request, verdict, at)
    }

    /// Notes a refusal that no decision about the task made.
    pub(super) fn note_refusal(
        &mut self,
        key: &TaskKey,
        request: &Request,
        refusal: &Refusal,
        at: Moment,
    ) {
        self.refused.extend(Refused::of(key, request, refusal, at.now));
        self.batch_metrics.note_answer(request, &Answer::Refused(refusal.clone()));
    }

    /// Extends leases that were acquired since `since` and have expired.
    pub(super) fn extend_late_grants(&mut self, since: Time, at: Moment) {
        let late = self.known.tasks.live_keys(|task| late_grant(Some(task), since, at).is_some());
        late.iter().for_each(|key| self.extend_late_grant(key, since, at));
    }

    pub(super) fn extend_late_grant(&mut self, key: &TaskKey, since: Time, at: Moment) {
        if let Some(extend) = late_grant(self.task(key), since, at) {
            self.decide(key, Cow::Owned(Request::Extend(extend)), at);
        }
    }

    /// Decides `request` about every lease in the set, in a deterministic order.
    pub(super) fn extend_leases(&mut self, request: &Request, at: Moment) {
        for key in self.known.tasks.live_keys(|task| task.lease().is_some()) {
            self.decide(&key, Cow::Borrowed(request), at);
        }
    }

    /// Applies a verdict, and keeps what the store and the metrics need of it.
    fn settle(
        &mut self,
        key: &TaskKey,
        request: Cow<'_, Request>,
        verdict: Verdict,
        at: Moment,
    ) -> Answer {
        let Known { tasks, records, flows, .. } = &mut self.known;
        let subject = tasks.get_mut(key).expect("a settled task is in the set");
        let has_ended = matches!(subject, Subject::Done(_));
        let before = subject.live();
        let approvals: Vec<Approval> = before
            .and_then(|task| task.run.as_ref())
            .map_or_else(Vec::new, |run| run.approvals.open.clone());
        for event in &verdict.events {
            self.batch_metrics.note_event(before, event, at.now);
            if let (Some(trace_events), Some(task)) = (&mut self.trace_events, before) {
                note_trace_events(trace_events, task, event, at.now);
            }
        }
        let prepared = before.and_then(|task| task.preparing().map(|place| (task.clone(), place)));
        let used = spend_metrics::used(subject);
        let was = Standing::of(before);
        let stored = before.map(|task| task.revision);
        let applied = apply_verdict(subject, verdict, at);
        if let Some(flows) = flows.get_mut(&key.scope) {
            flows.follow(was, subject);
        }
        let Some(settled) = applied.settled else { return applied.answer };
        let more = self.batch_metrics.spend.note(used, subject, &settled.events);
        if more != Amounts::default() {
            let sum = self.spend.entry(key.scope.clone()).or_default();
            *sum = sum.plus(more);
        }
        if let Some(records) = records.get_mut(key) {
            records.note(&settled.events);
        }
        let (scope, specs) = (&key.scope, &mut self.specs);
        let letter = |message: &Message| Letter::new(scope, message, specs);
        self.outbox.extend(settled.messages.iter().map(letter));
        let run = subject.run_id().unwrap_or(key.id);
        let changes = approval::changes(&approvals, subject, &settled.events);
        let change = |change| approval_change(&key.scope, key.id, run, change, applied.at.now);
        self.objects.extend(changes.iter().cloned().map(change));
        if !changes.is_empty() && !self.endpoints.is_empty() {
            let (place, now) = ((&key.scope, key.id, run), applied.at.now);
            let asked = of_approvals(&self.endpoints, place, &changes, now).into_iter();
            self.asked.extend(asked.map(|intent| Asked { intent, run }));
        }
        let prepared = prepared.as_ref().map(|(task, place)| (task, *place));
        let object = |after| ObjectChange { after, at: applied.at.now, by: None };
        self.objects.extend(preparing::changes(prepared, subject, run).into_iter().map(object));
        if !self.declared.is_empty() {
            let (place, now) = ((&key.scope, key.id), applied.at.now);
            let asked = Declared::intents(&self.declared, &settled.events, place, now);
            self.asked.extend(asked.into_iter().map(|intent| Asked { intent, run }));
        }
        if !self.watched.is_empty() && subject.live().is_some_and(is_suspended) {
            let place = (&key.scope, key.id, run, applied.at.now);
            let opened = self.watched.iter().map(|watched| AwaitedEffect::new(place, watched));
            self.awaiting.extend(opened);
        }
        if let Subject::Done(done) = subject
            && !has_ended
        {
            let is_evaluated = self.is_evaluated;
            let note = recovery::of_end(&self.policies, done, run, is_evaluated, &changes);
            self.objects.extend(note);
            self.objects.extend(note_of_end(done));
        }
        if let Subject::Done(done) = subject
            && !has_ended
            && !self.endpoints.is_empty()
        {
            let asked = of_end(&self.endpoints, done, run).into_iter();
            self.asked.extend(asked.map(|intent| Asked { intent, run }));
        }
        let unsaved = self.unsaved.entry(key.clone());
        let unsaved = unsaved.or_insert_with(|| Unsaved { stored, ..Unsaved::default() });
        unsaved.closed.extend(closed_attempts(&settled.events).cloned());
        unsaved.entries.extend(Entry::of(settled, applied.at, request));
        if !std::mem::replace(&mut unsaved.is_changed, true) {
            self.changed.push(key.clone());
        }
        applied.answer
    }

    /// What was used since the last call, on this day.
    pub(super) fn take_spend(&mut self, day: Day) -> Vec<SpendRow> {
        let used = std::mem::take(&mut self.spend);
        used.iter().flat_map(|(scope, amounts)| spend_rows(scope, day, *amounts)).collect()
    }

    /// The changes and refusals to be saved since the last call.
    pub(super) fn take(&mut self) -> (Vec<Change>, Vec<Refused>) {
        let changed = std::mem::take(&mut self.changed);
        let changes = changed.into_iter().filter_map(|key| {
            let Unsaved { stored, spec, closed, entries, steps, .. } = self.unsaved.remove(&key)?;
            let after = self.known.tasks.get(&key)?.clone();
            Some(Change { before: stored, after, spec, closed, entries, steps })
        });
        (changes.collect(), std::mem::take(&mut self.refused))
    }
}

/// What comes with a submission besides its own members.
#[derive(Default)]
pub(super) struct SubmissionPayload {
    /// The steps of its plan, each with the id of its task.
    pub(super) steps: Vec<NewStep>,
    pub(super) inherited: Option<ForkRequests>,
}

/// What a fork takes over, as requests about the new run, and the submissions of children that start again.
pub(super) struct ForkRequests {
    pub(super) from: TaskId,
    pub(super) requests: Vec<Request>,
    pub(super) specs: HashMap<TaskId, Spec>,
}

impl ForkRequests {
    /// Why the new run could not take everything over: it is not accepted then.
    fn refusal(&self, submitted: &Verdict, at: Moment) -> Option<Answer> {
        if submitted.events.is_empty() {
            return None;
        }
        let mut subject = Subject::Absent.settle(&submitted.events, at.now);
        for request in &self.requests {
            let context = Context::default();
            let verdict = decide(ReadSet { subject: &subject, context }, request, at);
            if let Answer::Refused(_) = verdict.answer {
                return Some(verdict.answer);
            }
            subject = subject.settle(&verdict.events, at.now);
        }
        None
    }
}

/// What a decision needs besides the task and its attempts.
#[derive(Default)]
struct Extra {
    loaded: Option<Loaded>,
    quota: Option<Quota>,
    budgets: Vec<BudgetUse>,
}

/// Everything that detached children use is counted, as for any other run.
fn count_detached(request: &mut Request) {
    let Some(call) = request.checkpoint_call_mut() else { return };
    let detached = call.children.iter_mut().filter(|child| child.is_detached);
    detached.for_each(|child| count_all(&mut child.submit));
}

/// The ids that a call's children would have.
fn child_ids(request: &Request) -> Vec<TaskId> {
    let call = request.checkpoint_call();
    call.map_or_else(Vec::new, |call| call.children.iter().map(|it| it.submit.id).collect())
}

fn late_grant(task: Option<&Task>, since: Time, at: Moment) -> Option<Extend> {
    stall::of_late_grant(task?, since, at.now)
}

/// Whether the task waits without a worker.
fn is_suspended(task: &Task) -> bool {
    matches!(&task.phase, Phase::Waiting(waiting) if matches!(**waiting, Waiting::For(_)))
}

fn note_trace_events(trace_events: &mut Vec<TraceEvent>, task: &Task, event: &Event, now: Time) {
    if let Event::AttemptClosed { closed, .. } = event {
        trace_events.push(TraceEvent::closed(task, closed));
    }
    if let Event::AttemptClosed { next: Next::End(end), .. } | Event::Ended(end) = event {
        trace_events.push(TraceEvent::ended(task, end, now));
    }
}
