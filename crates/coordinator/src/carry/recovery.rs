//! Recovery in a batch: what is loaded for it, and what becomes of notes, candidates and evaluations.
//!
//! The rules decide ([`verdict::recovery`]); an evaluation is submitted like any other run, in the commit that opens its
//! candidate. A note is counted in the commit that changes its status, guarded by its revision, so a failure is counted once,
//! whatever dies, and however many coordinators found it due (S2-47: a candidate has its evaluation from the commit that opened it).
//!
//! Nothing here changes a run that failed: decisions are about candidates, evaluations and notes (S2-18).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use store::objects::{LoadedObject, UniqueKey};
use store::recovery::{
    CLOSED, EVALUATION, NEW, awaiting, candidate_change, candidate_key, candidate_of,
    failed_run_key, failed_run_of, looked_at, policy_of, word_of,
};
use store::{Batch, Lookup, ObjectChange, RunLookup, Spec, TaskKey};
use verdict::effect::{EffectId, EndpointStatus, Intent, wants};
use verdict::recovery::{
    Action, Candidate, CandidateState, Decider, Decision, Evaluator, FailedRun, ForkOutcome,
    RecoveryAnswer, RecoveryPolicy, RecoveryRefusal, Signature, Standing, is_evaluation,
    policy_key,
};
use verdict::request::{Cancel, CancelMode, Outcome};
use verdict::run::{RunRequest, Then};
use verdict::{
    Answer, Digest, Json, Moment, Name, Object, ObjectKey, ObjectType, Policy, Refusal, Request,
    Scope, Span, TaskId, Text, Time,
};
use wire::recovery::{EvaluationInput, EvaluationOutput};

use super::batch::{Aborted, OpenBatch, submit};
use super::effects::Asked;
use super::escalation::{Proposed, Said};
use super::working_set::WorkingSet;
use crate::allowances::Allowances;
use crate::ids::Ids;
use crate::item::{Item, RecoveryCall, RecoveryItem, Submission};
use crate::recovery::{action_of, action_view, candidate_view};

/// How often an evaluation may fail or lose its worker: workers of recovery are restarted like all others.
const EVALUATION_TRIES: u32 = 10;

/// How much longer than its candidate an evaluation lives, or a question, so that the candidate ends first.
pub(super) const EVALUATION_GRACE: Span = Span::from_secs(60);

/// How long notes wait whose evaluation could not be submitted.
const REFUSED_PAUSE: Span = Span::from_secs(30);

/// What a batch knows of recovery: objects as they are now, and who waits for which evaluation.
#[derive(Default)]
pub(super) struct Recoveries {
    objects: HashMap<ObjectKey, LoadedObject>,
    awaited: HashMap<UniqueKey, Option<ObjectKey>>,
}

impl Recoveries {
    fn get(&self, key: &ObjectKey) -> Option<&Object> {
        match self.objects.get(key)? {
            LoadedObject::Object(object) => Some(object),
            LoadedObject::Absent | LoadedObject::Locked => None,
        }
    }

    fn is_locked(&self, key: &ObjectKey) -> bool {
        matches!(self.objects.get(key), Some(LoadedObject::Locked))
    }

    pub(super) fn candidate(&self, key: &ObjectKey) -> Option<Candidate> {
        self.get(key).and_then(candidate_of)
    }

    fn policy(&self, scope: &Scope, name: &Name) -> Option<RecoveryPolicy> {
        self.get(&policy_key(scope, name)).and_then(policy_of)
    }

    /// The candidate that waits for an evaluation or a question.
    pub(super) fn awaiting(&self, scope: &Scope, evaluation: TaskId) -> Option<ObjectKey> {
        self.awaited.get(&awaiting(scope, evaluation))?.clone()
    }

    fn put_awaited(&mut self, unique: UniqueKey, loaded: LoadedObject) {
        let key = match &loaded {
            LoadedObject::Object(object) => Some(object.key.clone()),
            // Which one it is cannot be known now, so nothing is decided about the evaluation.
            LoadedObject::Locked => Some(candidate_key(&unique.scope, &unique.unique_key)),
            LoadedObject::Absent => None,
        };
        if let Some(key) = &key {
            self.objects.insert(key.clone(), loaded);
        }
        self.awaited.insert(unique, key);
    }

    /// Whether another writer has something locked that the item needs.
    pub(super) fn is_item_locked(&self, item: &RecoveryItem, work: &WorkingSet) -> bool {
        let needed = self.needed(item);
        needed.iter().any(|key| self.is_locked(key))
            || self.evaluation(item).is_some_and(|task| work.is_locked(&task))
    }

    /// Whether another writer has the candidate of an evaluation locked, or its policy.
    pub(super) fn is_evaluation_locked(&self, key: &TaskKey) -> bool {
        if self.awaited.is_empty() {
            return false;
        }
        let Some(candidate) = self.awaiting(&key.scope, key.id) else { return false };
        let policy = self.candidate(&candidate).map(|it| policy_key(&key.scope, &it.policy));
        self.is_locked(&candidate) || policy.is_some_and(|policy| self.is_locked(&policy))
    }

    /// The objects that an item is about, as far as they are known.
    fn needed(&self, item: &RecoveryItem) -> Vec<ObjectKey> {
        let scope = &item.scope;
        let mut keys = first_keys(item);
        for note in keys.clone().iter().filter_map(|key| self.get(key)) {
            if let Some(failed) = failed_run_of(note) {
                keys.push(candidate_key(scope, &Signature::of(&failed).id()));
            } else if let Some(task) = evaluation_of(note) {
                let waiting = self.awaiting(scope, task);
                let candidate = waiting.as_ref().and_then(|key| self.candidate(key));
                keys.extend(waiting);
                keys.extend(candidate.map(|it| policy_key(scope, &it.policy)));
            } else if let Some(candidate) = candidate_of(note) {
                keys.push(policy_key(scope, &candidate.policy));
            }
        }
        keys
    }

    /// The evaluation or question that an item would end.
    fn evaluation(&self, item: &RecoveryItem) -> Option<TaskKey> {
        let (RecoveryCall::Decide { candidate, .. } | RecoveryCall::Expire { candidate }) =
            &item.call
        else {
            return None;
        };
        let candidate = self.candidate(&candidate_key(&item.scope, candidate))?;
        candidate.awaited().map(|id| TaskKey { scope: item.scope.clone(), id })
    }
}

/// What an item names itself.
fn first_keys(item: &RecoveryItem) -> Vec<ObjectKey> {
    let scope = &item.scope;
    match &item.call {
        RecoveryCall::Match { notes } => notes.clone(),
        RecoveryCall::Decide { candidate, .. } | RecoveryCall::Expire { candidate } => {
            vec![candidate_key(scope, candidate)]
        }
        RecoveryCall::Executed { candidate, outcomes, .. } => {
            let notes = outcomes.iter().map(|(run, _)| failed_run_key(scope, *run));
            [candidate_key(scope, candidate)].into_iter().chain(notes).collect()
        }
    }
}

/// The evaluation that a note is about.
fn evaluation_of(note: &Object) -> Option<TaskId> {
    let is_it = note.key.object_type == ObjectType::FailedRun && note.status.as_str() == EVALUATION;
    is_it.then(|| TaskId::parse(note.key.id.as_str())).flatten()
}

fn recovery_items(items: &[Item]) -> impl Iterator<Item = &RecoveryItem> {
    items.iter().filter_map(|item| match item {
        Item::Recovery(item) => Some(&**item),
        _ => None,
    })
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Loads what items about recovery, and reports of evaluations, need. Most batches have neither.
    pub(super) async fn load_recovery(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let is_report = |(key, request): &(&TaskKey, &Request)| {
            let task = || self.work.task(key);
            reported(request).is_some() && task().is_some_and(|task| is_evaluation(&task.kind))
        };
        let reports = items.iter().filter_map(Item::about).filter(is_report);
        let unique: Vec<UniqueKey> = reports.map(|(key, _)| awaiting(&key.scope, key.id)).collect();
        let first: BTreeSet<ObjectKey> = recovery_items(items).flat_map(first_keys).collect();
        if unique.is_empty() && first.is_empty() {
            return Ok(());
        }
        self.load_recovery_objects(first.clone(), unique).await?;
        let recoveries = &self.work.recoveries;
        let evaluation = |key: &ObjectKey| recoveries.get(key).and_then(evaluation_of);
        let unique: Vec<UniqueKey> = first
            .iter()
            .filter_map(|key| evaluation(key).map(|task| awaiting(&key.scope, task)))
            .collect();
        let needed = self.still_needed(items);
        self.load_recovery_objects(needed, unique).await?;
        // Policies of candidates that the round before found.
        let needed = self.still_needed(items);
        self.load_recovery_objects(needed, Vec::new()).await?;
        self.load_evaluations(items).await
    }

    fn still_needed(&self, items: &[Item]) -> BTreeSet<ObjectKey> {
        let recoveries = &self.work.recoveries;
        let of_items = recovery_items(items).flat_map(|item| recoveries.needed(item));
        let of_reports = recoveries.objects.values().filter_map(|loaded| match loaded {
            LoadedObject::Object(object) => {
                candidate_of(object).map(|it| policy_key(&object.key.scope, &it.policy))
            }
            LoadedObject::Absent | LoadedObject::Locked => None,
        });
        let is_new = |key: &ObjectKey| !recoveries.objects.contains_key(key);
        of_items.chain(of_reports).filter(is_new).collect()
    }

    async fn load_recovery_objects(
        &mut self,
        keys: BTreeSet<ObjectKey>,
        unique: Vec<UniqueKey>,
    ) -> Result<(), Aborted> {
        if keys.is_empty() && unique.is_empty() {
            return Ok(());
        }
        let keys: Vec<ObjectKey> = keys.into_iter().collect();
        let lookup = Lookup { objects: &keys, unique_objects: &unique, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await?;
        let recoveries = &mut self.work.recoveries;
        for (key, loaded) in keys.into_iter().zip(found.objects) {
            recoveries.objects.insert(key, loaded);
        }
        for (unique, loaded) in unique.into_iter().zip(found.unique_objects) {
            recoveries.put_awaited(unique, loaded);
        }
        Ok(())
    }

    /// Loads the evaluations that are ended because somebody else decides, or time is over.
    async fn load_evaluations(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let recoveries = &self.work.recoveries;
        let tasks: BTreeSet<TaskKey> =
            recovery_items(items).filter_map(|item| recoveries.evaluation(item)).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let tasks: Vec<TaskKey> = tasks.into_iter().collect();
        let runs: Vec<RunLookup> =
            tasks.iter().flat_map(|task| RunLookup::of(task, &cancel_evaluation())).collect();
        let lookup = Lookup { tasks: &tasks, runs: &runs, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await?;
        for (key, loaded) in tasks.into_iter().zip(found.tasks) {
            self.put(key, loaded);
        }
        for (lookup, loaded) in runs.into_iter().zip(found.runs) {
            self.work.put_records(lookup.task, loaded);
        }
        Ok(())
    }
}

/// Items about what was found due: notes by scope, and candidates whose time is over.
pub(super) fn due_items(due: &[Object]) -> Vec<Item> {
    let mut notes: BTreeMap<&Scope, Vec<ObjectKey>> = BTreeMap::new();
    let mut items = Vec::new();
    for object in due {
        let ObjectKey { scope, object_type, id } = &object.key;
        match object_type {
            ObjectType::FailedRun => notes.entry(scope).or_default().push(object.key.clone()),
            ObjectType::RecoveryCandidate => {
                items.push(Item::recovery(scope, RecoveryCall::Expire { candidate: id.clone() }));
            }
            _ => {}
        }
    }
    let matches = notes
        .into_iter()
        .map(|(scope, notes)| Item::recovery(scope, RecoveryCall::Match { notes }));
    items.extend(matches);
    items
}

fn cancel_evaluation() -> Request {
    let reason = Some("its candidate does not wait for it any more".into());
    Request::Cancel(Cancel { mode: CancelMode::Graceful, reason })
}

/// What an evaluation reports, if it reports success.
fn reported(request: &Request) -> Option<Option<&Json>> {
    let outcome = match request {
        Request::Report(report) => &report.outcome,
        Request::Run(run) => match &**run {
            RunRequest::Checkpoint(call) => match &call.then {
                Then::Report { outcome, .. } => outcome,
                _ => return None,
            },
            // It adds something to a report: what was used, or that the next stage is wanted.
            request => return reported(request.wrapped()?),
        },
        _ => return None,
    };
    match outcome {
        Outcome::Succeeded { output } => Some(output.as_ref()),
        Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Released => None,
    }
}

/// What an evaluation names.
fn named(by: Evaluator, output: Option<&Json>) -> Result<Decision, RecoveryRefusal> {
    let parse = |json: &Json| serde_json::from_str::<EvaluationOutput>(json.as_str()).ok();
    let named = output.and_then(parse).ok_or(RecoveryRefusal::NoAction)?;
    let EvaluationOutput { action, confidence, comment, propose } = named;
    let is_share = |confidence: &f64| (0.0..=1.0).contains(confidence);
    if confidence.as_ref().is_some_and(|it| !is_share(it)) {
        return Err(RecoveryRefusal::NoAction);
    }
    Ok(Decision {
        action: action_of(action),
        decider: Decider::Evaluation {
            by,
            confidence: confidence.map(|share| (share * 1_000.0).round() as u16),
        },
        propose: propose.map(action_of),
        comment: comment.map(Text::from),
    })
}

/// What the report of an evaluation means for its candidate.
pub(super) enum Reported {
    /// Nothing: it is no such report, no candidate waits for it, or its caller has no authority.
    Other,
    /// The report is refused and its lease goes on.
    Refused(Answer),
    /// What becomes of the candidate if the report ends the evaluation.
    Named(Box<Named>),
}

/// An action that an evaluation named within its policy.
pub(super) struct Named {
    key: TaskKey,
    after: Candidate,
    proposed: Proposed,
    policy: Option<RecoveryPolicy>,
}

type NotNamed<'i> = (&'i TaskKey, &'i Request, RecoveryRefusal);

/// What decisions about recovery need besides the working set.
pub(super) struct Recovering<'a> {
    pub(super) work: &'a mut WorkingSet,
    pub(super) ids: &'a mut Ids,
    pub(super) at: Moment,
}

impl Recovering<'_> {
    /// What an item says about a candidate that waits for it. Whether its caller may say so is for the rules of leases: without
    /// authority the report is decided as any other, and its caller learns what every worker would.
    pub(super) fn reported(&mut self, item: &Item) -> Reported {
        match self.named(item) {
            None => Reported::Other,
            Some(Ok(named)) => Reported::Named(Box::new(named)),
            Some(Err((key, request, refusal))) => {
                let refusal = Refusal::Recovery(refusal);
                self.work.note_refusal(key, request, &refusal, self.at);
                Reported::Refused(Answer::Refused(refusal))
            }
        }
    }

    fn named<'i>(&self, item: &'i Item) -> Option<Result<Named, NotNamed<'i>>> {
        let (Item::About { key, request, .. } | Item::WithChildren { key, request, .. }) = item
        else {
            return None;
        };
        let output = reported(request)?;
        let by = self.work.task(key).and_then(|task| Evaluator::of(&task.kind))?;
        if !self.work.may_report(key, request.caller()?, self.at) {
            return None;
        }
        let candidate_key = self.work.recoveries.awaiting(&key.scope, key.id)?;
        let candidate = self.work.recoveries.candidate(&candidate_key)?;
        let policy = self.work.recoveries.policy(&key.scope, &candidate.policy);
        let after = named(by, output).and_then(|decision| {
            let proposed = decision.propose;
            Ok((candidate.decided(decision, policy.as_ref(), self.at.now)?, proposed))
        });
        Some(match after {
            Ok((after, action)) => {
                let proposed = Proposed { action, by: request.done_by().cloned() };
                Ok(Named { key: key.clone(), after, proposed, policy })
            }
            Err(refusal) => Err((key, request, refusal)),
        })
    }

    /// Does what an evaluation named, once its report was decided.
    pub(super) fn carry_out(&mut self, named: Named) {
        let Named { key, after, proposed, policy } = named;
        // It was live, and this report has decided its end. Children that it still waits for change nothing about the action.
        let is_over = self.work.task(&key).is_none_or(|task| task.closing().is_some());
        if is_over {
            let after = self.asking(&key.scope, after, proposed, policy.as_ref());
            self.act(&key.scope, &after, None);
        }
    }

    pub(super) fn decide(&mut self, item: &RecoveryItem) -> Answer {
        let RecoveryItem { scope, call, by } = item;
        match call {
            RecoveryCall::Match { notes } => self.match_notes(scope, notes),
            RecoveryCall::Expire { candidate } => self.expire(scope, candidate),
            RecoveryCall::Decide { candidate, action, comment, roles } => {
                let key = by.clone().unwrap_or_else(|| "".into());
                let comment = comment.as_ref();
                let said = Said { action: *action, comment, key: &key, roles };
                self.decide_by_person(scope, candidate, &said)
            }
            RecoveryCall::Executed { candidate, round, outcomes, is_last } => {
                self.executed(scope, candidate, *round, outcomes, *is_last)
            }
        }
    }

    fn expire(&mut self, scope: &Scope, id: &Name) -> Answer {
        let Some(candidate) = self.candidate(scope, id) else { return Answer::Nothing };
        let awaited = candidate.awaited();
        let Some(after) = candidate.expired(self.at.now) else { return Answer::Nothing };
        self.write(scope, &after, None);
        self.cancel(scope, awaited);
        answered(id, after)
    }

    /// Some runs of a round were submitted, or refused. What was counted before is not counted again.
    fn executed(
        &mut self,
        scope: &Scope,
        id: &Name,
        round: TaskId,
        outcomes: &[(TaskId, ForkOutcome)],
        is_last: bool,
    ) -> Answer {
        let of_round =
            |it: &Candidate| it.state == CandidateState::Executing && it.round.task == round;
        let Some(candidate) = self.candidate(scope, id).filter(of_round) else {
            return Answer::Nothing;
        };
        let mut counted = Vec::new();
        for (run, outcome) in outcomes {
            let key = failed_run_key(scope, *run);
            let is_open = |note: &&Object| note.status.as_str() == round.to_string();
            if let Some(note) = self.work.recoveries.get(&key).filter(is_open) {
                let change = looked_at(note, CLOSED.into(), None, self.at.now);
                self.put(change);
                counted.push(outcome.clone());
            }
        }
        let after = candidate.executed(&counted, is_last);
        self.write(scope, &after, None);
        answered(id, after)
    }

    /// Counts failures for the candidates of their signatures, and closes candidates whose evaluation ended without an action.
    fn match_notes(&mut self, scope: &Scope, notes: &[ObjectKey]) -> Answer {
        let mut alike: BTreeMap<Name, Vec<(ObjectKey, FailedRun)>> = BTreeMap::new();
        for key in notes {
            let Some(note) = self.work.recoveries.get(key) else { continue };
            if let Some(task) = evaluation_of(note) {
                match word_of(note) {
                    Some(word) => self.people_said(scope, task, word),
                    None => self.evaluation_failed(scope, task),
                }
                self.look(key, CLOSED.into(), None);
            } else if note.status.as_str() == NEW
                && let Some(failed) = failed_run_of(note)
            {
                let id = Signature::of(&failed).id();
                alike.entry(id).or_default().push((key.clone(), failed));
            }
        }
        for (id, failed) in alike {
            let (keys, failed): (Vec<ObjectKey>, Vec<FailedRun>) = failed.into_iter().unzip();
            let (status, due) = self.count(scope, &id, &failed);
            keys.iter().for_each(|key| self.look(key, status.clone(), due));
        }
        Answer::Done
    }

    fn evaluation_failed(&mut self, scope: &Scope, task: TaskId) {
        let awaiting = self.work.recoveries.awaiting(scope, task);
        let candidate = awaiting.and_then(|key| self.work.recoveries.candidate(&key));
        if let Some(after) = candidate.and_then(|it| it.evaluation_failed(task)) {
            self.write(scope, &after, None);
        }
    }

    /// What becomes of failures that are alike: the status of their notes, and when they are looked at again.
    fn count(&mut self, scope: &Scope, id: &Name, failed: &[FailedRun]) -> (Name, Option<Time>) {
        let policies = self.work.policies.clone();
        let of_scope = policies.get(scope).into_iter().flat_map(|of_scope| of_scope.values());
        let Some(policy) = RecoveryPolicy::of(of_scope, &failed[0].queue, &failed[0].kind) else {
            return (CLOSED.into(), None);
        };
        let (found, now) = (self.candidate(scope, id), self.at.now);
        match (Candidate::standing(found.as_ref(), &policy.terms, now), found) {
            (Standing::Joins, Some(candidate)) => {
                let after = candidate.joined(failed, &policy.terms, now);
                self.write(scope, &after, None);
                (after.round.task.to_string().into(), None)
            }
            (Standing::Counts, Some(candidate)) => {
                self.write(scope, &candidate.counted(failed, now), None);
                (CLOSED.into(), None)
            }
            (Standing::Waits(until), _) => (NEW.into(), Some(until)),
            (_, found) => match self.open(scope, found, failed, policy) {
                Some(task) => (task.to_string().into(), None),
                None => (NEW.into(), Some(now.plus(REFUSED_PAUSE))),
            },
        }
    }

    /// Opens a candidate: its evaluation is submitted in this commit.
    fn open(
        &mut self,
        scope: &Scope,
        found: Option<Candidate>,
        failed: &[FailedRun],
        policy: &RecoveryPolicy,
    ) -> Option<TaskId> {
        let now = self.at.now;
        // As the evaluation sees it; only its own id is not known yet.
        let draft = Candidate::opened(found.clone(), failed, policy, TaskId::from_u128(0), now);
        let submission = evaluation(scope, draft, policy);
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        // Recovery uses up nobody's quota: a tenant at its limit is in need of it.
        let free = Allowances::default();
        let answer = submit(self.work, self.ids, &submission, input, self.at, &free);
        let Answer::Accepted { task, .. } = answer else { return None };
        let candidate = Candidate::opened(found, failed, policy, task, now);
        self.write(scope, &candidate, None);
        Some(task)
    }

    /// Saves a candidate after a decision, and tells those who subscribed.
    pub(super) fn act(&mut self, scope: &Scope, after: &Candidate, by: Option<Name>) {
        self.write(scope, after, by);
        let kind = match after.round.chosen.as_ref().map(|chosen| chosen.action) {
            Some(Action::Notify) => "recovery.notified",
            Some(Action::Escalate) => "recovery.escalated",
            _ => return,
        };
        let asked = told(self.work, scope, kind, after, self.at.now);
        self.work.asked.extend(asked);
    }

    pub(super) fn cancel(&mut self, scope: &Scope, evaluation: Option<TaskId>) {
        let Some(id) = evaluation else { return };
        let key = TaskKey { scope: scope.clone(), id };
        if self.work.task(&key).is_some() {
            self.work.is_evaluated = true;
            self.work.decide(&key, Cow::Owned(cancel_evaluation()), self.at);
            self.work.is_evaluated = false;
        }
    }

    pub(super) fn candidate(&self, scope: &Scope, id: &Name) -> Option<Candidate> {
        self.work.recoveries.candidate(&candidate_key(scope, id))
    }

    pub(super) fn policy(&self, scope: &Scope, candidate: &Candidate) -> Option<RecoveryPolicy> {
        self.work.recoveries.policy(scope, &candidate.policy)
    }

    fn look(&mut self, note: &ObjectKey, status: Name, due: Option<Time>) {
        let Some(before) = self.work.recoveries.get(note) else { return };
        let change = looked_at(before, status, due, self.at.now);
        self.put(change);
    }

    fn write(&mut self, scope: &Scope, candidate: &Candidate, by: Option<Name>) {
        let key = candidate_key(scope, &candidate.signature.id());
        let revision = self.work.recoveries.get(&key).map_or(0, |object| object.revision) + 1;
        let change = candidate_change(scope, candidate, revision, self.at.now, by);
        let awaited = change.after.unique_key.clone();
        self.put(change);
        self.work.recoveries.awaited.retain(|_, waiting| waiting.as_ref() != Some(&key));
        if let Some(unique_key) = awaited {
            let object_type = ObjectType::RecoveryCandidate;
            let unique = UniqueKey { scope: scope.clone(), object_type, unique_key };
            self.work.recoveries.awaited.insert(unique, Some(key));
        }
    }

    fn put(&mut self, change: ObjectChange) {
        let after = change.after.clone();
        self.work.recoveries.objects.insert(after.key.clone(), LoadedObject::Object(after));
        self.work.objects.push(change);
    }
}

/// The submission of an evaluation.
fn evaluation(scope: &Scope, candidate: Candidate, policy: &RecoveryPolicy) -> Submission {
    let terms = &policy.terms;
    let deadline = Some(candidate.round.expires_at.plus(EVALUATION_GRACE));
    let policy = Policy {
        failures_max: EVALUATION_TRIES,
        lost_max: EVALUATION_TRIES,
        deadline,
        ..Policy::default()
    };
    let id = candidate.signature.id();
    let actions = [Action::Skip].into_iter().chain(terms.actions.iter().copied());
    let actions: BTreeSet<Action> = actions.collect();
    let input = EvaluationInput {
        candidate: candidate_view(candidate),
        actions: actions.into_iter().map(action_view).collect(),
    };
    let input = serde_json::to_string(&input).expect("an input has only text keys");
    Submission {
        scope: scope.clone(),
        kind: terms.evaluator.kind().into(),
        queue: terms.evaluator.queue().into(),
        priority: 0,
        policy,
        run_at: None,
        delay: None,
        deadline_in: None,
        budget: None,
        flow: None,
        debounce: None,
        spec: Spec {
            fingerprint: Digest::of(&[input.as_bytes()]),
            input: Json::from(input),
            goal: None,
            task_key: Some(id),
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
        },
        stages: None,
        fork: None,
        steps: None,
    }
}

/// What those are told who subscribed to what was decided.
fn told(
    work: &WorkingSet,
    scope: &Scope,
    kind: &str,
    candidate: &Candidate,
    now: Time,
) -> Vec<Asked> {
    let Some(of_scope) = work.endpoints.get(scope) else { return Vec::new() };
    let task = candidate.round.task;
    let body = serde_json::json!({
        "type": kind,
        "timestamp": wire::Time::from_ms(now.millis()),
        "data": candidate_view(candidate.clone()),
    });
    let body = Json::from(body.to_string());
    let is_told = |endpoint: &verdict::effect::Endpoint| {
        endpoint.status != EndpointStatus::Deleted && wants(&endpoint.types, kind)
    };
    let told = of_scope.iter().filter(|(_, stored)| is_told(&stored.endpoint));
    let intent = |name: &Name| Intent {
        id: EffectId::of_step(task, &kind.into(), name),
        scope: scope.clone(),
        task,
        endpoint: name.clone(),
        aggregate: task.to_string().into(),
        kind: kind.into(),
        body: body.clone(),
        decided_at: now,
    };
    told.map(|(name, _)| Asked { intent: intent(name), run: task }).collect()
}

pub(super) fn answered(id: &Name, candidate: Candidate) -> Answer {
    Answer::Recovery(Box::new(RecoveryAnswer { id: id.clone(), candidate }))
}

pub(super) fn refused(refusal: RecoveryRefusal) -> Answer {
    Answer::Refused(Refusal::Recovery(refusal))
}
