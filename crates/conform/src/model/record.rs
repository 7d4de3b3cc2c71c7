//! What a durable task has recorded, and what its wait is for.
//!
//! The rules are those that the memory coordinator of `crates/workflow` has: a recorded step never changes, a call is
//! recorded as a whole or not at all, what a wait is for arrives once and in the order of the commits. The shapes are
//! those of the wire, where a wait is one checkpoint that says what satisfied it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::answers::{Checkpoint, CheckpointError, Spent, TakenSignal, WaitOutcome};
use wire::limits::RECORDED_BYTES_MAX;
use wire::requests::{AwaitedItem, CheckpointCall, ChildRun, StepRecord, WaitFor};
use wire::{CheckpointKind, CheckpointOutcome, Code, Json, StepOutcome, Time, WaitMode};

#[derive(Default)]
pub(crate) struct Record {
    checkpoints: Vec<Checkpoint>,
    pub(crate) wait: Option<WaitFor>,
    /// A wait that the worker gave up with: the code does not fit the record.
    pub(crate) diverged: bool,
    pub(crate) signals: Vec<(String, Value)>,
    /// Children under way: when they end, and how.
    pub(crate) children: BTreeMap<String, Child>,
    votes: Vec<Value>,
    /// What became of effects.
    pub(crate) delivery: Option<Value>,
    /// Every effect that was declared, by step and key.
    effects: Vec<(String, String)>,
    last_ms: i64,
}

pub(crate) struct Child {
    pub(crate) ends_at_ms: Option<f64>,
    pub(crate) result: Result<Value, Value>,
}

impl Record {
    /// Begins with what a case says is recorded. Members that only matter to a reader are filled in.
    pub(crate) fn new(recorded: &[Value], now: Time) -> Record {
        let mut record = Record { last_ms: now.as_ms(), ..Record::default() };
        for value in recorded {
            let mut value = value.clone();
            let number = record.checkpoints.len() as u32 + 1;
            let full = json!({"number": number, "kind": "STEP", "outcome": "SUCCEEDED", "recordedAt": now});
            for (name, default) in full.as_object().into_iter().flatten() {
                if value.get(name).is_none() {
                    value[name] = default.clone();
                }
            }
            let checkpoint = serde_json::from_value(value).expect("a case has valid checkpoints");
            record.checkpoints.push(checkpoint);
        }
        record
    }

    /// What follows a number, or what an envelope begins with: as much as one answer carries.
    pub(crate) fn page(
        &self,
        after: Option<u32>,
        items_max: Option<usize>,
    ) -> (Vec<Checkpoint>, Option<u32>) {
        let savepoint = self.checkpoints.iter().rposition(|it| it.savepoint).unwrap_or(0);
        let begin = match after {
            Some(after) => self.checkpoints.iter().position(|it| it.number > after),
            None => Some(savepoint),
        };
        let rest = &self.checkpoints[begin.unwrap_or(self.checkpoints.len())..];
        let mut bytes = 0;
        let fits = |it: &&Checkpoint| {
            let is_first = bytes == 0;
            bytes += serde_json::to_string(it).map_or(0, |text| text.len());
            is_first || bytes <= RECORDED_BYTES_MAX
        };
        let page: Vec<Checkpoint> =
            rest.iter().take(items_max.unwrap_or(usize::MAX)).take_while(fits).cloned().collect();
        let has_more = page.len() < rest.len();
        let last = page.last().map(|it| it.number);
        (page, last.filter(|_| has_more))
    }

    pub(crate) fn known(&self, key: &str) -> Option<&Checkpoint> {
        let is_end = |it: &&Checkpoint| it.key == key && it.outcome != CheckpointOutcome::Started;
        self.checkpoints.iter().find(is_end)
    }

    fn is_started(&self, key: &str) -> bool {
        let started = CheckpointOutcome::Started;
        self.checkpoints.iter().any(|it| it.key == key && it.outcome == started)
    }

    /// Whether everything of a call fits what is recorded.
    pub(crate) fn check(&self, call: &CheckpointCall) -> Result<(), Code> {
        let is_same = |step: &StepRecord| {
            self.known(&step.key).is_none_or(|known| {
                known.result == step.result && known.input_digest == step.input_digest
            })
        };
        if call.steps.iter().all(is_same) { Ok(()) } else { Err(Code::ConflictingStep) }
    }

    /// Records the steps of a call; those that are known keep their time. Returns that time.
    pub(crate) fn keep_steps(
        &mut self,
        steps: &[StepRecord],
        attempt: u32,
        now: Time,
    ) -> (Time, usize) {
        let (mut recorded_at, mut added) = (self.later(now), 0);
        for step in steps {
            if let Some(known) = self.known(&step.key) {
                recorded_at = known.recorded_at;
                continue;
            }
            added += 1;
            let checkpoint = Checkpoint {
                input_digest: step.input_digest.clone(),
                result: step.result.clone(),
                outcome: match step.outcome {
                    StepOutcome::Succeeded => CheckpointOutcome::Succeeded,
                    StepOutcome::Failed => CheckpointOutcome::Failed,
                },
                error: step.error.clone().map(|it| CheckpointError {
                    category: Some(it.category),
                    reason: it.reason,
                    message: it.message,
                    stack_trace: it.stack_trace,
                    retryable: it.retryable,
                }),
                attempt: Some(attempt),
                savepoint: step.savepoint,
                spend: step.spend.map(|it| Spent {
                    cost_micros: it.cost_micros,
                    tokens: it.tokens,
                    tool_calls: it.tool_calls,
                }),
                ..self.empty(&step.key, CheckpointKind::Step, recorded_at)
            };
            self.push(checkpoint);
        }
        (recorded_at, added)
    }

    pub(crate) fn declare(&mut self, call: &CheckpointCall) -> usize {
        let before = self.effects.len();
        for effect in &call.effects {
            let name = (effect.step.clone(), effect.key.clone());
            if !self.effects.contains(&name) {
                self.effects.push(name);
            }
        }
        self.effects.len() - before
    }

    /// Starts a child, unless it was started. Returns whether it is new.
    pub(crate) fn start_child(
        &mut self,
        child: &ChildRun,
        task_id: &str,
        ends_at_ms: f64,
        now: Time,
    ) -> bool {
        if self.is_started(&child.key) {
            return false;
        }
        let checkpoint = Checkpoint {
            outcome: CheckpointOutcome::Started,
            input_digest: child.input_digest.clone(),
            task_id: Some(task_id.to_owned()),
            detached: child.detached,
            ..self.empty(&child.key, CheckpointKind::Child, self.later(now))
        };
        self.push(checkpoint);
        if !child.detached {
            let input: Value = child.input.read().unwrap_or(Value::Null);
            let result = end_of(&child.kind, &input);
            let ends_at_ms = result.is_some().then_some(ends_at_ms);
            let result = result.unwrap_or(Ok(Value::Null));
            self.children.insert(child.key.clone(), Child { ends_at_ms, result });
        }
        true
    }

    /// Records the ends of children whose time has come.
    pub(crate) fn end_children(&mut self, clock_ms: f64, now: Time) -> bool {
        let is_over = |child: &Child| child.ends_at_ms.is_some_and(|at| at <= clock_ms);
        let mut over: Vec<(String, Child)> =
            self.children.extract_if(.., |_, child| is_over(child)).collect();
        over.sort_by(|a, b| {
            a.1.ends_at_ms.unwrap_or(0.0).total_cmp(&b.1.ends_at_ms.unwrap_or(0.0))
        });
        let changed = !over.is_empty();
        for (key, child) in over {
            self.end_child(&key, child.result, now);
        }
        changed
    }

    pub(crate) fn end_child(&mut self, key: &str, result: Result<Value, Value>, now: Time) {
        self.children.remove(key);
        let mut checkpoint = self.empty(key, CheckpointKind::Child, self.later(now));
        match result {
            Ok(value) => checkpoint.result = Json::from_value(&value).ok(),
            Err(error) => {
                checkpoint.outcome = CheckpointOutcome::Failed;
                checkpoint.error = serde_json::from_value(error).ok();
            }
        }
        self.push(checkpoint);
    }

    pub(crate) fn vote(&mut self, by: &str, decision: &str, comment: Option<&str>, now: Time) {
        let vote =
            json!({"key": by, "decision": decision, "atMs": now.as_ms(), "comment": comment});
        self.votes.push(vote);
    }

    /// What satisfies a wait, recorded; `None` while nothing does.
    pub(crate) fn satisfy(
        &mut self,
        wait: &WaitFor,
        skip_time: bool,
        now: Time,
    ) -> Option<Vec<Checkpoint>> {
        if let Some(known) = self.known(&wait.key).cloned() {
            return Some(self.with_children(wait, known));
        }
        let here: Vec<&AwaitedItem> =
            wait.items.iter().filter(|item| self.is_here(item, skip_time, now)).collect();
        let is_satisfied = match wait.mode {
            WaitMode::All => here.len() == wait.items.len(),
            WaitMode::Any => !here.is_empty(),
        };
        if !is_satisfied {
            return None;
        }
        let first = self.first_of(&here);
        let taken: Vec<&AwaitedItem> = match wait.mode {
            WaitMode::All => here,
            WaitMode::Any => first.into_iter().collect(),
        };
        let until = taken.iter().filter_map(|item| item.until).max();
        let at = until.filter(|_| skip_time).map_or(now, |until| until.max(now));
        let signals = taken.iter().filter_map(|item| self.taken(item, now)).collect();
        let winner = (wait.mode == WaitMode::Any).then(|| taken[0].key.clone());
        let checkpoint = Checkpoint {
            wait: Some(WaitOutcome { winner, signals }),
            ..self.empty(&wait.key, CheckpointKind::Wait, self.later(at))
        };
        let number = self.push(checkpoint);
        let checkpoint = self.checkpoints[number].clone();
        Some(self.with_children(wait, checkpoint))
    }

    /// Children that ended are in the order of their ends; anything else comes after them, in the order of the wait.
    fn first_of<'i>(&self, here: &[&'i AwaitedItem]) -> Option<&'i AwaitedItem> {
        let number = |item: &&&AwaitedItem| {
            let child = item.child.as_deref().and_then(|key| self.known(key));
            child.map_or(u32::MAX, |it| it.number)
        };
        here.iter().min_by_key(number).copied()
    }

    /// The ends of awaited children and the checkpoint of the wait, in the order of the commits.
    fn with_children(&self, wait: &WaitFor, found: Checkpoint) -> Vec<Checkpoint> {
        let children = wait.items.iter().filter_map(|item| item.child.as_deref());
        let mut all: Vec<Checkpoint> =
            children.filter_map(|key| self.known(key).cloned()).collect();
        all.push(found);
        all.sort_by_key(|it| it.number);
        all
    }

    fn is_here(&self, item: &AwaitedItem, skip_time: bool, now: Time) -> bool {
        if let Some(until) = item.until {
            return skip_time || until <= now;
        }
        if let Some(signal) = &item.signal {
            return self.signals.iter().any(|(name, _)| name == signal);
        }
        if let Some(child) = &item.child {
            return self.known(child).is_some();
        }
        if item.approval.is_some() {
            return self.decided(item, now).is_some();
        }
        item.effect.is_some() && self.delivery.is_some()
    }

    /// What came of an approval: one rejection rejects, the quorum approves.
    fn decided(&self, item: &AwaitedItem, now: Time) -> Option<Value> {
        let terms = item.approval.as_ref()?;
        let is = |vote: &&Value, word: &str| vote["decision"] == word;
        let approvals = self.votes.iter().filter(|vote| is(vote, "APPROVED")).count();
        let outcome = if self.votes.iter().any(|vote| is(&vote, "REJECTED")) {
            "REJECTED".to_owned()
        } else if approvals >= terms.quorum.unwrap_or(1) as usize {
            "APPROVED".to_owned()
        } else if terms.expires_at.is_some_and(|at| at <= now) {
            terms.default.map_or("EXPIRED".to_owned(), |word| word.to_string())
        } else {
            return None;
        };
        let mut told = json!({"outcome": outcome, "votes": self.votes});
        if let Some(digest) = &terms.digest {
            told["digest"] = json!(digest);
        }
        Some(told)
    }

    /// Takes the value that an item brings.
    fn taken(&mut self, item: &AwaitedItem, now: Time) -> Option<TakenSignal> {
        let (name, payload) = if let Some(signal) = &item.signal {
            let place = self.signals.iter().position(|(name, _)| name == signal)?;
            self.signals.remove(place)
        } else if item.approval.is_some() {
            (item.key.clone(), self.decided(item, now)?)
        } else if item.effect.is_some() {
            (item.key.clone(), self.delivery.clone()?)
        } else {
            return None;
        };
        let payload = Json::from_value(&payload).ok();
        Some(TakenSignal { key: item.key.clone(), name, payload })
    }

    /// Commits have an order, and their times do not run against it.
    fn later(&self, now: Time) -> Time {
        Time::from_ms(now.as_ms().max(self.last_ms))
    }

    fn empty(&self, key: &str, kind: CheckpointKind, recorded_at: Time) -> Checkpoint {
        Checkpoint {
            number: self.checkpoints.len() as u32 + 1,
            key: key.to_owned(),
            kind,
            outcome: CheckpointOutcome::Succeeded,
            result: None,
            error: None,
            input_digest: None,
            attempt: None,
            recorded_at,
            savepoint: false,
            spend: None,
            task_id: None,
            detached: false,
            wait: None,
        }
    }

    fn push(&mut self, checkpoint: Checkpoint) -> usize {
        self.last_ms = self.last_ms.max(checkpoint.recorded_at.as_ms());
        self.checkpoints.push(checkpoint);
        self.checkpoints.len() - 1
    }
}

/// What the model's own children come to; others end when the case says so.
fn end_of(kind: &str, input: &Value) -> Option<Result<Value, Value>> {
    match kind {
        "square" => Some(match input.as_i64() {
            Some(n) if n >= 0 => Ok(json!(n * n)),
            _ => Err(json!({"category": "USER_CODE", "message": "no square of a negative number"})),
        }),
        "pack" => Some(Ok(json!(format!("packed {}", input.as_str().unwrap_or_default())))),
        _ => None,
    }
}
