//! What the model decides about the calls of a worker: each answer is what a batch would hold for this item.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wire::answers::{CheckpointAnswer, HeartbeatAnswer, ReportAnswer, StartAnswer, StartedChild};
use wire::requests::{CheckpointCall, CheckpointItem, HeartbeatItem, Report, StartItem, WaitFor};
use wire::{Code, Outcome, State, Verdict};

use super::{Model, TaskState};
use crate::log::Entry;

impl Model {
    pub(crate) fn start(&mut self, item: &StartItem) -> Value {
        match self.authority(&item.task_id, &item.task_token) {
            Ok(_) => value(&StartAnswer {
                task_id: item.task_id.clone(),
                status: 200,
                verdict: Some(Verdict::Committed),
                state: Some(State::Running),
                ..StartAnswer::default()
            }),
            Err(code) => refusal(&item.task_id, code),
        }
    }

    pub(crate) fn heartbeat(&mut self, item: &HeartbeatItem) -> Value {
        let place = match self.authority(&item.task_id, &item.task_token) {
            Ok(place) => place,
            Err(code) => return refusal(&item.task_id, code),
        };
        self.renew(place);
        self.hints.retain(|hint| *hint != place);
        value(&HeartbeatAnswer {
            task_id: item.task_id.clone(),
            status: 200,
            verdict: Some(Verdict::Committed),
            should_cancel: Some(self.tasks[place].cancel.is_some()),
            cancel_reason: self.tasks[place].cancel.clone(),
            lease_expires_at: self.lease_expires_at(place),
            state: Some(State::Running),
            left: self.budget_left(place),
            ..HeartbeatAnswer::default()
        })
    }

    fn budget_left(&self, place: usize) -> Option<wire::answers::BudgetLeft> {
        let left = self.tasks[place].left.clone()?;
        serde_json::from_value(left).ok()
    }

    pub(crate) fn report(&mut self, item: &Report) -> Value {
        let told = content(item);
        if let Some(answer) = self.answered_before(item, &told) {
            return answer;
        }
        let place = match self.authority(&item.task_id, &item.task_token) {
            Ok(place) => place,
            Err(code) => {
                let of = self.name_of(&item.task_id);
                let entry = Entry::event("refused", json!({"code": code.as_str()}));
                self.log.add(Entry { of, attempt: Some(item.attempt), ..entry });
                return refusal(&item.task_id, code);
            }
        };
        let riding = CheckpointCall {
            steps: item.steps.clone(),
            children: item.children.clone(),
            effects: item.effects.clone(),
            ..CheckpointCall::default()
        };
        if let Err(code) = self.tasks[place].record.check(&riding) {
            return refusal(&item.task_id, code);
        }
        self.keep(place, &riding);
        let (is_again, attempt) = (self.is_again(place, item.outcome), self.tasks[place].attempt);
        let state = match (item.outcome, is_again) {
            (Outcome::Succeeded, _) => State::Succeeded,
            (Outcome::Cancelled, _) => State::Cancelled,
            (Outcome::Released, _) => State::Queued,
            (Outcome::Failed, true) => State::Retry,
            (Outcome::Failed, false) => State::Failed,
        };
        let answer = value(&ReportAnswer {
            task_id: item.task_id.clone(),
            status: 200,
            verdict: Some(Verdict::Committed),
            state: Some(state),
            final_state: Some(item.outcome),
            replayed: Some(false),
            ..ReportAnswer::default()
        });
        let of = self.tasks[place].offer.name.clone();
        let entry = Entry::event("ended", json!({"outcome": item.outcome, "state": state}));
        self.log.add(Entry { of: Some(of), attempt: Some(attempt), ..entry });
        if is_again {
            self.next_attempt(place);
        } else {
            self.tasks[place].state = TaskState::Ended;
            self.tasks[place].lease = None;
        }
        self.tasks[place].reported = Some((told, answer.clone()));
        answer
    }

    fn is_again(&self, place: usize, outcome: Outcome) -> bool {
        let task = &self.tasks[place];
        let is_left = task.attempt < task.offer.attempt + task.offer.attempts - 1;
        is_left && matches!(outcome, Outcome::Failed | Outcome::Released)
    }

    /// The same report gets its answer again; another one is refused.
    fn answered_before(&self, item: &Report, told: &str) -> Option<Value> {
        let token = self.tokens.get(&item.task_token)?;
        let (known, answer) = self.tasks[token.task].reported.as_ref()?;
        if known != told {
            let is_same_attempt = self.tasks[token.task].state == TaskState::Ended;
            return is_same_attempt.then(|| refusal(&item.task_id, Code::ConflictingReport));
        }
        let mut answer = answer.clone();
        answer["replayed"] = json!(true);
        Some(answer)
    }

    pub(crate) fn checkpoint(&mut self, item: CheckpointItem) -> Value {
        let (task_id, token, call) = item.into_call();
        let place = match self.authority(&task_id, &token) {
            Ok(place) => place,
            Err(code) => return self.repeated(&task_id, &call, code),
        };
        if let Err(code) = self.tasks[place].record.check(&call) {
            return refusal(&task_id, code);
        }
        let (recorded_at, children, is_new) = self.keep(place, &call);
        if call.diverged.is_some() {
            self.tasks[place].record.diverged = true;
            self.suspend(place, "diverged");
            return value(&CheckpointAnswer {
                state: Some(State::Waiting),
                recorded_at: Some(recorded_at),
                ..committed(task_id, is_new)
            });
        }
        if self.is_spent(place) {
            self.tasks[place].state = TaskState::Ended;
            self.tasks[place].lease = None;
            return value(&CheckpointAnswer {
                state: Some(State::Halted),
                recorded_at: Some(recorded_at),
                left: self.budget_left(place),
                ..committed(task_id, is_new)
            });
        }
        let mut answer = CheckpointAnswer {
            state: Some(State::Running),
            recorded_at: Some(recorded_at),
            children,
            should_cancel: Some(self.tasks[place].cancel.is_some()),
            cancel_reason: self.tasks[place].cancel.clone(),
            left: self.budget_left(place),
            ..committed(task_id, is_new)
        };
        if let Some(wait) = call.wait {
            self.note_pauses(place, &wait);
            // Time is skipped only for a task that waits: a suspension is part of what is judged.
            let now = self.now();
            match self.tasks[place].record.satisfy(&wait, false, now) {
                Some(results) => answer.results = results,
                None => {
                    answer.state = Some(State::Waiting);
                    self.tasks[place].record.wait = Some(wait);
                    self.suspend(place, "suspended");
                    return value(&answer);
                }
            }
        }
        self.renew(place);
        answer.lease_expires_at = self.lease_expires_at(place);
        value(&answer)
    }

    /// A call that ended its attempt is answered again as it was, not as one that lost its lease.
    fn repeated(&self, task_id: &str, call: &CheckpointCall, code: Code) -> Value {
        let task = self.place_of(task_id).map(|place| &self.tasks[place]);
        let is_it = task.is_some_and(|task| {
            let is_waiting = task.record.wait.is_some() && task.record.wait == call.wait;
            let is_diverged = task.record.diverged && call.diverged.is_some();
            is_waiting || is_diverged
        });
        if !is_it {
            return refusal(task_id, code);
        }
        value(&CheckpointAnswer {
            state: Some(State::Waiting),
            recorded_at: Some(self.now()),
            ..committed(task_id.to_owned(), false)
        })
    }

    /// Records what a call brings. Returns when, the tasks of its children, and whether anything was new.
    fn keep(
        &mut self,
        place: usize,
        call: &CheckpointCall,
    ) -> (wire::Time, Vec<StartedChild>, bool) {
        let (now, attempt) = (self.now(), self.tasks[place].attempt);
        let ends_at_ms = self.log.now_ms() + self.tasks[place].offer.child_ms as f64;
        let record = &mut self.tasks[place].record;
        let (recorded_at, added) = record.keep_steps(&call.steps, attempt, now);
        let effects = record.declare(call);
        self.spend(place, call, added);
        let mut children = Vec::new();
        let mut started = 0;
        for child in &call.children {
            let task_id = self.id("task");
            let record = &mut self.tasks[place].record;
            started += usize::from(record.start_child(child, &task_id, ends_at_ms, now));
            children.push(StartedChild { key: child.key.clone(), task_id });
        }
        self.note_keys(place, call, added);
        (recorded_at, children, added + effects + started > 0)
    }

    /// Each step that was recorded is an event, so that a case can count them whatever call brought them.
    fn note_keys(&mut self, place: usize, call: &CheckpointCall, added: usize) {
        let (of, attempt) = (self.tasks[place].offer.name.clone(), self.tasks[place].attempt);
        let new = call.steps.len() - added;
        for step in call.steps.iter().skip(new) {
            let digest = &step.input_digest;
            let result: Value =
                step.result.as_ref().and_then(|it| it.read().ok()).unwrap_or(Value::Null);
            let members = json!({"key": step.key, "outcome": step.outcome, "result": result, "inputDigest": digest,
                "error": step.error, "spend": step.spend, "savepoint": step.savepoint});
            let entry = Entry::event("recorded", members);
            self.log.add(Entry { of: Some(of.clone()), attempt: Some(attempt), ..entry });
        }
        for child in &call.children {
            let input: Value = child.input.read().unwrap_or(Value::Null);
            let live = self.tasks[place].record.children.len();
            let members = json!({"key": child.key, "kind": child.kind, "queue": child.queue, "input": input,
                "inputDigest": child.input_digest, "detached": child.detached, "live": live});
            let entry = Entry::event("child", members);
            self.log.add(Entry { of: Some(of.clone()), attempt: Some(attempt), ..entry });
        }
        for effect in &call.effects {
            let entry = Entry::event("effect", value(effect));
            self.log.add(Entry { of: Some(of.clone()), attempt: Some(attempt), ..entry });
        }
    }

    /// Notes by how much a pause between two tries of a step differs from the formula, which is the same in every language.
    fn note_pauses(&mut self, place: usize, wait: &WaitFor) {
        for item in &wait.items {
            let Some((key, until)) = item.key.strip_suffix(".wait").zip(item.until) else {
                continue;
            };
            let Some((step, number)) = key.rsplit_once('.') else { continue };
            let (Some(failed), Ok(number)) = (self.tasks[place].record.known(key), number.parse())
            else {
                continue;
            };
            let off = until.as_ms() - failed.recorded_at.as_ms() - pause_ms(step, number) as i64;
            let of = Some(self.tasks[place].offer.name.clone());
            let entry = Entry::event("pause", json!({"key": item.key, "offByMs": off}));
            self.log.add(Entry { of, ..entry });
        }
    }

    /// Takes what new steps used from what is left.
    fn spend(&mut self, place: usize, call: &CheckpointCall, added: usize) {
        let Some(left) = &mut self.tasks[place].left else { return };
        let new = call.steps.iter().skip(call.steps.len() - added);
        let tokens: u64 = new.filter_map(|step| step.spend).map(|spend| spend.tokens).sum();
        if let Some(before) = left["tokens"].as_i64() {
            left["tokens"] = json!(before - tokens as i64);
        }
    }

    /// Whether the last call crossed the budget.
    fn is_spent(&self, place: usize) -> bool {
        let left = self.tasks[place].left.as_ref();
        left.and_then(|left| left["tokens"].as_i64()).is_some_and(|tokens| tokens < 0)
    }

    fn suspend(&mut self, place: usize, why: &str) {
        let task = &mut self.tasks[place];
        task.lease = None;
        task.state = TaskState::Waiting;
        let (of, attempt) = (task.offer.name.clone(), task.attempt);
        let wait = task.record.wait.as_ref().map(value);
        let entry = Entry::event(why, json!({"wait": wait}));
        self.log.add(Entry { of: Some(of), attempt: Some(attempt), ..entry });
    }

    /// Offers a task again whose wait is over.
    pub(super) fn wake(&mut self, place: usize) -> bool {
        let (clock_ms, now) = (self.log.now_ms(), self.now());
        let task = &mut self.tasks[place];
        let mut changed = task.record.end_children(clock_ms, now);
        let Some(wait) = task.record.wait.clone().filter(|_| task.state == TaskState::Waiting)
        else {
            return changed;
        };
        if task.record.satisfy(&wait, task.offer.skip_time, now).is_some() {
            task.record.wait = None;
            task.attempt += 1;
            task.state = TaskState::Offered(clock_ms as u64);
            changed = true;
        }
        changed
    }

    /// A new token for the current lease; the old one stays valid.
    pub(crate) fn refresh_token(&mut self, task_id: &str) -> Option<String> {
        let place = self.place_of(task_id)?;
        let number = self.tasks[place].lease.as_ref()?.tokens + 1;
        let token = self.new_token(place, number);
        let lease = self.tasks[place].lease.as_mut()?;
        lease.tokens = number;
        lease.token.clone_from(&token);
        Some(token)
    }

    /// Takes a lease away before its time.
    pub(crate) fn revoke(&mut self, task_id: &str) {
        if let Some(place) = self.place_of(task_id) {
            self.tasks[place].lease = None;
            self.tasks[place].state = TaskState::Waiting;
        }
    }
}

/// The pause of a step with the base of the agreed kinds: it doubles, and a draw of the seed spreads it.
fn pause_ms(step: &str, number: u32) -> u64 {
    const BASE_MS: u64 = 100;
    let branch = step.rsplit_once('/').map_or("", |(branch, _)| branch);
    let drawn = Sha256::digest(format!("{}\n{branch}\n{step}\n{number}", super::SEED).as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&drawn[..8]);
    BASE_MS * 2_u64.pow(number - 1) + u64::from_be_bytes(first) % (BASE_MS / 2 + 1)
}

/// What a report says, without the token, which may have been renewed between two tries.
fn content(item: &Report) -> String {
    let mut told = value(item);
    if let Some(members) = told.as_object_mut() {
        members.remove("taskToken");
    }
    told.to_string()
}

fn committed(task_id: String, is_new: bool) -> CheckpointAnswer {
    CheckpointAnswer {
        task_id,
        status: 200,
        verdict: Some(Verdict::Committed),
        replayed: Some(!is_new),
        should_cancel: Some(false),
        ..CheckpointAnswer::default()
    }
}

/// What an item is answered that is refused.
pub(crate) fn refusal(task_id: &str, code: Code) -> Value {
    let mut told = json!({
        "taskId": task_id, "status": code.status(), "error": code.as_str(), "message": code.title(),
    });
    if let Some(verdict) = code.verdict() {
        told["verdict"] = json!(verdict);
    }
    told
}

fn value<T: serde::Serialize>(answer: &T) -> Value {
    serde_json::to_value(answer).expect("a shape of the wire has a JSON form")
}
