//! Steps of plans that depend on what earlier steps returned: their conditions are judged, and what people are asked is composed.
//!
//! A tenant wrote the condition, and outputs are large, so this runs beside the batches, with a bound of counted work for each
//! condition, and slice by slice in turns of the tenants: one with ten thousand such steps delays its own. What is found goes
//! to the rules as a request ([`verdict::plan::Prepared`]); outputs of ended steps never change, so several coordinators may
//! find the same, and the first answer counts. What a coordinator leaves behind when it dies is found by the next scan.

mod turns;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::{Browse, Failure, ObjectFilter, Spec, TaskKey};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use topology::predicate::{Judged, Predicate};
use topology::work::Work;
use verdict::plan::{Found, PlanState, Prepared, Shown, preparing};
use verdict::{
    Name, Object, ObjectKey, ObjectType, Reason, Scope, State, Subject, Task, TaskId, Text,
};
use wire::approvals::{ApprovalTerms, CONTENT_BYTES_MAX};
use wire::limits::MESSAGE_BYTES_MAX;
use wire::plan::{condition, references};
use wire::{Json, canonical};

use self::turns::Turns;
use crate::coordinator::Coordinator;
use crate::item::RequestError;
use crate::plan_outputs::{
    Ends, OUTPUTS_BYTES_MAX, Wanted, ends_of_stages, ends_of_steps, stored_json, too_large,
};

/// How often the store is scanned where other coordinators prepare too, and where none does: a hint may be lost.
const SCAN_SHARED: Duration = Duration::from_secs(2);
const SCAN_ALONE: Duration = Duration::from_secs(15);
/// The pause after a refusal of the store.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Steps of one scope that are prepared in one turn: some milliseconds.
const SLICE: usize = 16;
/// What is read of outputs in one turn of a scope, and once more what one step needs: others wait meanwhile.
const TURN_BYTES: usize = 1024 * 1024;
/// What one condition may cost: about ten milliseconds at worst, and microseconds as a rule.
const CONDITION_STEPS_MAX: u64 = 1_000_000;
/// Sorts behind every id of a preparation.
const LAST_ID: &str = "~";

/// Says that steps wait to be prepared. A hint: what it misses is found by a scan.
#[derive(Clone, Default)]
pub(crate) struct PreparationHint(Arc<Notify>);

impl PreparationHint {
    /// Notes what was saved. Call it once it is durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        let is_open = |it: &Object| it.key.object_type == ObjectType::Preparation && it.is_pending;
        if saved.into_iter().any(is_open) {
            self.0.notify_one();
        }
    }
}

/// What people are asked as a plan has it, with references.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject_from: Option<Json>,
}

impl Question {
    pub(crate) fn of(terms: &ApprovalTerms) -> Self {
        let (content, subject_from) = (terms.content.clone(), terms.subject_from.clone());
        Self { content, subject_from }
    }

    fn references(&self) -> impl Iterator<Item = String> {
        let written = self.content.iter().chain(&self.subject_from);
        written.flat_map(references::of).map(|reference| reference.step)
    }
}

/// What a step that is prepared depends on.
#[derive(Default)]
struct Written {
    when: Option<Json>,
    question: Option<Question>,
    asks_people: bool,
}

/// How an earlier step ended.
struct Earlier {
    state: State,
    output: Option<Json>,
}

pub(crate) struct Preparer {
    coordinator: Coordinator,
}

/// What a look left undone.
struct Looked {
    /// A step was refused.
    is_left: bool,
    /// Steps came while it was under way, and it may have passed over some of them.
    is_incomplete: bool,
}

/// Why a look ended early.
enum Interrupted {
    Store(Failure),
    Refused(RequestError),
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Interrupted::Store(failure)
    }
}

impl From<RequestError> for Interrupted {
    fn from(error: RequestError) -> Self {
        Interrupted::Refused(error)
    }
}

impl Preparer {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator }
    }

    /// Prepares until `closing` is cancelled. What is under way then is found again by the next start.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let hint = self.coordinator.preparations().clone();
        while !closing.is_cancelled() {
            let pause = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                pause = self.look() => pause,
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = hint.0.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Prepares what waits, and says when to look again if nothing changes.
    async fn look(&self) -> Duration {
        match self.look_at_all().await {
            Ok(Looked { is_incomplete: true, .. }) => Duration::ZERO,
            Ok(Looked { is_left: true, .. }) => REFUSED_PAUSE,
            Ok(_) if self.coordinator.store().status().writers > 1 => SCAN_SHARED,
            Ok(_) => SCAN_ALONE,
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot prepare steps of plans");
                REFUSED_PAUSE
            }
        }
    }

    /// Each step that waits is tried once, in turns of the tenants. One that was refused is tried again later, and keeps no other
    /// step waiting.
    async fn look_at_all(&self) -> Result<Looked, Failure> {
        let (mut turns, mut refused, mut is_incomplete) = (Turns::default(), HashSet::new(), false);
        turns.add(self.scopes().await?);
        while let Some((scope, after)) = turns.next() {
            let goes_on = self.take_turn(&scope, after, &mut refused).await?;
            turns.had(scope, goes_on);
            if turns.is_round_over() && self.hint().notified().now_or_never().is_some() {
                is_incomplete |= turns.add(self.scopes().await?);
            }
        }
        Ok(Looked { is_left: !refused.is_empty(), is_incomplete })
    }

    /// Prepares the next steps of a scope, and says behind which one it goes on, if it does.
    async fn take_turn(
        &self,
        scope: &Scope,
        after: Option<ObjectKey>,
        refused: &mut HashSet<TaskId>,
    ) -> Result<Option<Option<ObjectKey>>, Failure> {
        let filter = ObjectFilter { scope: Some(scope.clone()), after, ..pending(SLICE) };
        let page = self.coordinator.browse().objects(&filter).await?;
        let (mut last, mut bytes) = (None, 0);
        for object in &page {
            if bytes >= TURN_BYTES {
                break;
            }
            last = Some(object.key.clone());
            let Some(id) = preparing::task_of(object).filter(|id| !refused.contains(id)) else {
                continue;
            };
            match self.prepare(&TaskKey { scope: scope.clone(), id }).await {
                Ok(read) => bytes += read,
                Err(Interrupted::Store(failure)) => return Err(failure),
                Err(Interrupted::Refused(error)) => {
                    tracing::warn!(%error, task = %id, "cannot carry on with a step of a plan");
                    refused.insert(id);
                }
            }
        }
        let is_last = page.len() < SLICE && page.last().map(|it| &it.key) == last.as_ref();
        Ok((!is_last).then_some(last))
    }

    fn hint(&self) -> &Notify {
        &self.coordinator.preparations().0
    }

    /// The scopes in which steps wait.
    async fn scopes(&self) -> Result<Vec<Scope>, Failure> {
        let (mut scopes, mut after) = (Vec::new(), None);
        loop {
            let filter = ObjectFilter { after, ..pending(1) };
            let found = self.coordinator.browse().objects(&filter).await?;
            let Some(first) = found.into_iter().next() else { return Ok(scopes) };
            scopes.push(first.key.scope.clone());
            after = Some(ObjectKey { id: Name::from(LAST_ID), ..first.key });
        }
    }

    /// Prepares one step. Returns how many bytes of outputs were read for it.
    async fn prepare(&self, key: &TaskKey) -> Result<usize, Interrupted> {
        let found = self.coordinator.browse().find(key).await?;
        let Some((Subject::Live(task), spec)) = found.map(|it| (it.subject, it.spec)) else {
            return Ok(0);
        };
        let Some(place) = task.preparing() else { return Ok(0) };
        let (found, bytes) = match written(&task, &spec, place) {
            Some(written) => match self.earlier(key, &task, written.wanted()).await? {
                Ends::Found { ends, bytes } => (judge(written, ends).await, bytes),
                Ends::TooLarge => (unresolved(&too_large()), OUTPUTS_BYTES_MAX),
            },
            None => (unresolved("the plan of the run cannot be read"), 0),
        };
        self.coordinator.prepared(key.clone(), Prepared { place, found }).await?;
        Ok(bytes)
    }

    /// How the steps ended that the step speaks about. One that is not there did not run.
    async fn earlier(
        &self,
        key: &TaskKey,
        task: &Task,
        wanted: Wanted,
    ) -> Result<Ends<Earlier>, Failure> {
        let browse = self.coordinator.browse();
        let lineage = task.run.as_ref().and_then(|run| run.lineage.as_ref());
        match (task.stages(), lineage.and_then(|lineage| lineage.parent())) {
            (None, Some((root, _))) => {
                let root = TaskKey { scope: key.scope.clone(), id: root };
                let ends = ends_of_steps(browse, &root, wanted).await?;
                Ok(ends.map(|end| Earlier::step(&end)))
            }
            _ => Ok(ends_of_stages(browse, key, wanted).await?.map(Earlier::stage)),
        }
    }
}

/// Judges apart from what serves requests: outputs are large texts.
async fn judge(written: Written, earlier: HashMap<Name, Earlier>) -> Found {
    let judging = tokio::task::spawn_blocking(move || written.judge(&earlier));
    judging.await.unwrap_or_else(|_| unresolved("what it depends on cannot be judged"))
}

impl Earlier {
    fn step(end: &verdict::End) -> Self {
        Self { state: end.state, output: end.output.as_ref().map(stored_json) }
    }

    fn stage(end: Result<Option<Json>, Option<Text>>) -> Self {
        let reason = match end {
            Ok(output) => return Self { state: State::Succeeded, output },
            Err(reason) => reason,
        };
        let is = |of: Reason| reason.as_ref().is_some_and(|it| it.as_str() == of.name());
        let state = match () {
            () if is(Reason::ConditionFalse) => State::Skipped,
            () if is(Reason::BudgetExhausted) || is(Reason::BudgetTimeExhausted) => State::Halted,
            () => State::Failed,
        };
        Self { state, output: None }
    }
}

fn pending(limit: usize) -> ObjectFilter {
    ObjectFilter {
        object_type: Some(ObjectType::Preparation),
        is_pending: true,
        limit,
        ..ObjectFilter::default()
    }
}

/// A plan of which only what is prepared is read: it was checked when it was submitted.
#[derive(Deserialize)]
struct WrittenPlan<'a> {
    #[serde(borrow)]
    steps: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct WrittenStage {
    #[serde(default)]
    when: Option<Json>,
    #[serde(default)]
    approval: Option<ApprovalTerms>,
}

fn written(task: &Task, spec: &Spec, place: u32) -> Option<Written> {
    match task.plan()? {
        PlanState::Stages(_) => {
            let plan: WrittenPlan<'_> = serde_json::from_str(spec.input.as_str()).ok()?;
            let stage = plan.steps.get(place as usize)?.get();
            let WrittenStage { when, approval } = serde_json::from_str(stage).ok()?;
            let question = approval.as_ref().map(Question::of);
            Some(Written { when, asks_people: question.is_some(), question })
        }
        PlanState::Step(terms) => {
            let when = terms.when.as_ref().map(stored_json);
            let composes = terms.asks.is_some() && terms.has_references;
            let question = composes.then(|| serde_json::from_str(spec.input.as_str()));
            let question = question.transpose().ok()?;
            Some(Written { when, question, asks_people: terms.asks.is_some() })
        }
        PlanState::Root(_) => None,
    }
}

impl Written {
    /// What it speaks about: steps, and the outputs of some.
    fn wanted(&self) -> Wanted {
        let asked = self.question.iter().flat_map(Question::references);
        let compared = self.when.iter().flat_map(condition::outputs_of);
        let outputs: BTreeSet<Name> = asked.chain(compared).map(Name::from).collect();
        let conditions = self.when.iter().flat_map(condition::steps_of).map(Name::from);
        let names: BTreeSet<Name> = outputs.iter().cloned().chain(conditions).collect();
        Wanted { names: names.into_iter().collect(), outputs }
    }

    /// What comes of it.
    fn judge(&self, earlier: &HashMap<Name, Earlier>) -> Found {
        if let Some(when) = &self.when {
            match find_failed(when, earlier, self.asks_people) {
                Ok(None) => {}
                Ok(Some(why)) => {
                    let why = format!("its condition does not hold: {why}");
                    return Found::Unneeded { why: Text::from(why) };
                }
                Err(why) => return unresolved(&format!("its condition cannot be judged: {why}")),
            }
        }
        match self.question.as_ref().map(|question| compose(question, earlier)) {
            None => Found::Begins { shown: None },
            Some(Ok(shown)) => Found::Begins { shown },
            Some(Err(why)) => unresolved(&format!("what people are asked: {why}")),
        }
    }
}

fn unresolved(message: &str) -> Found {
    Found::Unresolved { message: Text::from(message) }
}

/// Why the condition does not hold; an error if it cannot be found out. People are asked or not by what an earlier step said: one
/// that says nothing which can be compared must not keep them from being asked.
fn find_failed(
    when: &Json,
    earlier: &HashMap<Name, Earlier>,
    asks_people: bool,
) -> Result<Option<String>, String> {
    let condition: Predicate = when.read().map_err(|error| error.to_string())?;
    let mut about = Map::new();
    for name in BTreeSet::from_iter(condition::steps_of(when)) {
        let mut step = Map::new();
        let ended = earlier.get(&Name::from(name.as_str()));
        let state = ended.map_or(State::Skipped, |ended| ended.state);
        step.insert(condition::STATE.to_owned(), Value::from(state.name()));
        if let Some(output) = ended.and_then(|ended| ended.output.as_ref()) {
            let output = output.read().map_err(|error| error.to_string())?;
            step.insert(condition::OUTPUT.to_owned(), output);
        }
        about.insert(name, Value::Object(step));
    }
    let about = Value::Object(about);
    let failed = condition.find_failed(&about, &mut Work::new(CONDITION_STEPS_MAX))?;
    if asks_people
        && failed.is_some()
        && let Judged::Unknown(why) =
            condition.judge(&about, &mut Work::new(CONDITION_STEPS_MAX))?
    {
        return Err(format!("it says whether people are asked, and {why}"));
    }
    Ok(failed)
}

/// What people are asked; `None` if nothing of it is composed of outputs.
fn compose(
    question: &Question,
    earlier: &HashMap<Name, Earlier>,
) -> Result<Option<Box<Shown>>, String> {
    let Question { content, subject_from } = question;
    if content.is_none() && subject_from.is_none() {
        return Ok(None);
    }
    let output = |step: &str| earlier.get(&Name::from(step))?.output.as_ref();
    let resolved = |written: &Json| {
        let value = wire::plan::resolve(written, output).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        canonical::rewrite(&mut text, value.text()).map_err(|error| error.to_string())?;
        String::from_utf8(text).map_err(|error| error.to_string())
    };
    let content = content.as_ref().map(resolved).transpose()?;
    if let Some(bytes) = content.as_ref().map(String::len).filter(|it| *it > CONTENT_BYTES_MAX) {
        return Err(format!(
            "the content has {bytes} bytes, and may have {CONTENT_BYTES_MAX}; refer to a part of the output"
        ));
    }
    let subject = subject_from.as_ref().map(resolved).transpose()?.map(plain);
    if subject.as_ref().is_some_and(|it| it.len() > MESSAGE_BYTES_MAX || it.contains('\0')) {
        return Err(format!("the subject is no text of at most {MESSAGE_BYTES_MAX} bytes"));
    }
    Ok(Some(Box::new(Shown { subject: subject.map(Text::from), content: content.map(Text::from) })))
}

/// A JSON text as it reads; any other value as it is written.
fn plain(json: String) -> String {
    serde_json::from_str::<String>(&json).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text.to_owned()).unwrap()
    }

    fn earlier() -> HashMap<Name, Earlier> {
        let output = Some(json(r#"{"total": 1500, "to": "Ada", "id": 12345678901234567890123}"#));
        [
            (Name::from("check"), Earlier { state: State::Succeeded, output }),
            (Name::from("risk"), Earlier { state: State::Failed, output: None }),
        ]
        .into()
    }

    fn judged(when: Option<&str>, content: Option<&str>) -> Found {
        let question = Question { content: content.map(json), subject_from: None };
        Written { when: when.map(json), question: Some(question), asks_people: true }
            .judge(&earlier())
    }

    #[test]
    fn a_condition_speaks_about_states_and_outputs() {
        let holds = |when: &str| matches!(judged(Some(when), None), Found::Begins { .. });
        assert!(holds(r#"{"path": "check.output.total", "op": "at-least", "value": 1000}"#));
        assert!(holds(r#"{"path": "risk.state", "op": "equals", "value": "failed"}"#));
        assert!(holds(r#"{"path": "never.state", "op": "equals", "value": "skipped"}"#));
        assert!(!holds(r#"{"path": "risk.output", "op": "exists"}"#));
        let skipped =
            judged(Some(r#"{"path": "check.output.total", "op": "at-most", "value": 9}"#), None);
        let Found::Unneeded { why } = skipped else { panic!("{skipped:?}") };
        assert!(why.as_str().contains("must be at most 9, but it is 1500"), "{why}");
    }

    #[test]
    fn an_output_that_cannot_be_compared_keeps_nobody_from_being_asked() {
        for path in ["check.output.to", "check.output.none", "risk.output.total"] {
            let when = json(&format!(r#"{{"path": "{path}", "op": "at-least", "value": 1000}}"#));
            let judged = |asks_people| {
                Written { when: Some(when.clone()), question: None, asks_people }.judge(&earlier())
            };
            assert!(matches!(judged(true), Found::Unresolved { .. }), "{path}");
            assert!(matches!(judged(false), Found::Unneeded { .. }), "{path}");
        }
    }

    #[test]
    fn a_condition_that_costs_too_much_is_no_answer() {
        let list = format!("[{}1]", "1,".repeat(60_000));
        let output = Some(json(&format!(r#"{{"list": {list}}}"#)));
        let earlier = [(Name::from("a"), Earlier { state: State::Succeeded, output })].into();
        let clause = r#"{"path":"a.output.list","op":"contains","value":2}"#;
        let when = json(&format!(r#"{{"any":[{}]}}"#, vec![clause; 30].join(",")));
        let found =
            Written { when: Some(when), question: None, asks_people: false }.judge(&earlier);
        assert!(matches!(found, Found::Unresolved { .. }), "{found:?}");
    }

    #[test]
    fn people_are_shown_the_canonical_text_of_what_was_composed() {
        let content =
            r#"{"z": {"$from": "check", "path": "/id"}, "a": {"$from": "check", "path": "/to"}}"#;
        let Found::Begins { shown: Some(shown) } = judged(None, Some(content)) else { panic!() };
        let text = shown.content.unwrap();
        assert_eq!(text.as_str(), r#"{"a":"Ada","z":12345678901234567890123}"#);
        let missing = judged(None, Some(r#"{"$from": "risk"}"#));
        assert!(matches!(missing, Found::Unresolved { .. }), "{missing:?}");
    }
}
