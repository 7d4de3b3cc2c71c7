//! A coordinator in memory: records calls, keeps signals, lets people decide, ends children, and skips time when a run waits.
//!
//! It does what a driver may expect of a real one: a repeated call gets its first answer, a changed step is refused,
//! results have a commit order, and what a wait is for arrives once. It does not know leases.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::requests::AwaitedEffect;
use wire::{Json, Time};

use super::TestError;
use super::people::People;
use crate::Failure;
use crate::approval::{Told, Vote};
use crate::command::{
    Answer, Awaited, Call, Checkpoint, ChildRecord, Mode, Outcome, Report, Start, State,
    StepRecord, Wait,
};
use crate::effect::{self, DeliveryOutcome};
use crate::operation::later;

/// 2026-01-01T00:00:00.000Z.
const BEGINNING: Time = Time::from_ms(1_767_225_600_000);
/// Every commit that records something is this much later than the one before it.
const TICK: Duration = Duration::from_millis(1);

/// A step that was recorded comes again with another result or input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is recorded with another result or input: the engine recorded a step twice")]
pub struct ConflictingStep(pub String);

type ChildCode = Box<dyn Fn(&Json) -> Result<Json, Failure> + Send>;

struct Signal {
    at: Time,
    name: String,
    payload: Json,
}

/// A child that has not ended.
struct Child {
    at: Time,
    result: Result<Json, Failure>,
}

/// A coordinator with one run.
pub struct MemoryCoordinator {
    now: Time,
    seed: u64,
    input: Json,
    history: Vec<Checkpoint>,
    /// Where each recorded key stands, and whether it is the start of a child.
    places: BTreeMap<(String, bool), usize>,
    /// Where envelopes begin.
    first: usize,
    signals: Vec<Signal>,
    children: BTreeMap<String, Child>,
    kinds: BTreeMap<String, (Duration, ChildCode)>,
    people: People,
    /// What becomes of effects of these types, and after which time; others are delivered at once.
    deliveries: BTreeMap<String, (Duration, DeliveryOutcome)>,
    /// The effects that were declared, by step and key, with their types and times.
    effects: BTreeMap<AwaitedEffect, (String, Time)>,
    wait: Option<Wait>,
}

impl MemoryCoordinator {
    pub fn new(input: Json) -> MemoryCoordinator {
        MemoryCoordinator {
            now: BEGINNING,
            seed: 1,
            input,
            history: Vec::new(),
            places: BTreeMap::new(),
            first: 0,
            signals: Vec::new(),
            children: BTreeMap::new(),
            kinds: BTreeMap::new(),
            people: People::default(),
            deliveries: BTreeMap::new(),
            effects: BTreeMap::new(),
            wait: None,
        }
    }

    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    pub fn load(&mut self, checkpoints: Vec<Checkpoint>) {
        for checkpoint in checkpoints {
            self.now = self.now.max(checkpoint.recorded_at);
            self.keep(checkpoint);
        }
    }

    pub fn send_signal(&mut self, after: Duration, name: &str, payload: Json) {
        let at = later(BEGINNING, after);
        self.signals.push(Signal { at, name: name.to_owned(), payload });
        self.signals.sort_by_key(|signal| signal.at);
    }

    /// Lets somebody decide the approval of this name: at that time, or as soon as it is open.
    pub fn decide(&mut self, after: Duration, name: &str, word: Vote) {
        self.people.say(name, Vote { at: later(BEGINNING, after), ..word });
    }

    /// What becomes of effects of a type, and when.
    pub fn define_delivery(&mut self, r#type: &str, takes: Duration, outcome: DeliveryOutcome) {
        self.deliveries.insert(r#type.to_owned(), (takes, outcome));
    }

    pub fn define_child(
        &mut self,
        kind: &str,
        takes: Duration,
        result: impl Fn(&Json) -> Result<Json, Failure> + Send + 'static,
    ) {
        self.kinds.insert(kind.to_owned(), (takes, Box::new(result)));
    }

    pub fn history(&self) -> &[Checkpoint] {
        &self.history
    }

    /// What a lease's envelope brings: nothing from before the last savepoint.
    pub fn start(&self, fence: u64) -> Start {
        Start {
            task_id: "task_00000000000000000000000000".to_owned(),
            origin: None,
            fence,
            seed: self.seed,
            created_at: BEGINNING,
            input: self.input.clone(),
            checkpoints: self.history[self.first..].to_vec(),
        }
    }

    /// Records a call as a whole, or refuses it.
    pub fn record(&mut self, call: Call) -> Result<Answer, ConflictingStep> {
        let Call { steps, children, wait } = call;
        self.check(&steps)?;
        let is_known = |step: &StepRecord| self.places.contains_key(&(step.key.clone(), false));
        if !steps.iter().all(is_known) {
            self.now = later(self.now, TICK);
        }
        let mut recorded_at = self.now;
        for step in steps {
            self.declare(&step);
            recorded_at = self.keep(step.recorded_at(self.now));
        }
        for child in children {
            self.start_child(child);
        }
        self.end_children();
        for item in wait.iter().flat_map(|wait| &wait.items) {
            if let Awaited::Approval { key, .. } = item {
                self.people.asked(key, self.now);
            }
        }
        let results = wait.as_ref().map(|wait| self.arrivals(wait));
        let state = if results == Some(None) { State::Waiting } else { State::Running };
        self.wait = wait.filter(|_| state == State::Waiting);
        let results = results.flatten().unwrap_or_default();
        Ok(Answer { state, recorded_at, results, should_cancel: false })
    }

    /// Records what rides with the report.
    pub fn complete(&mut self, report: &Report) -> Result<(), ConflictingStep> {
        let (steps, children) = (report.steps.clone(), report.children.clone());
        self.record(Call { steps, children, wait: None }).map(|_| ())
    }

    /// Moves the clock to the instants at which something happens, until the wait is satisfied.
    pub fn skip_time(&mut self) -> Result<(), TestError> {
        while let Some(wait) = self.wait.take() {
            self.end_children();
            if self.arrivals(&wait).is_some() {
                return Ok(());
            }
            let next = self.next_instant(&wait);
            let items = || wait.items.iter().map(Awaited::key).collect::<Vec<_>>().join(", ");
            self.now = next.ok_or_else(|| TestError::Stuck(items()))?;
            self.wait = Some(wait);
        }
        Ok(())
    }

    fn check(&self, steps: &[StepRecord]) -> Result<(), ConflictingStep> {
        for step in steps {
            let Some(place) = self.places.get(&(step.key.clone(), false)) else { continue };
            let known = &self.history[*place];
            if step.clone().recorded_at(known.recorded_at) != *known {
                return Err(ConflictingStep(step.key.clone()));
            }
        }
        Ok(())
    }

    /// Remembers the effects of a step, the first time it comes.
    fn declare(&mut self, step: &StepRecord) {
        for effect in &step.effects {
            let name = AwaitedEffect { step: step.key.clone(), key: effect.key.clone() };
            self.effects.entry(name).or_insert_with(|| (effect.r#type.clone(), self.now));
        }
    }

    /// What became of an effect, and when.
    fn delivery(&self, effect: &AwaitedEffect) -> Option<(DeliveryOutcome, Time)> {
        let (r#type, declared_at) = self.effects.get(effect)?;
        let now = (Duration::ZERO, DeliveryOutcome::Delivered);
        let (takes, outcome) = self.deliveries.get(r#type).copied().unwrap_or(now);
        Some((outcome, later(*declared_at, takes)))
    }

    /// Keeps a checkpoint, unless it is known. Returns when it was recorded.
    fn keep(&mut self, checkpoint: Checkpoint) -> Time {
        let is_start = checkpoint.outcome == Outcome::Started;
        let place = self.places.entry((checkpoint.key.clone(), is_start));
        let place = *place.or_insert(self.history.len());
        if place == self.history.len() {
            if checkpoint.savepoint {
                self.first = place;
            }
            self.history.push(checkpoint);
        }
        self.history[place].recorded_at
    }

    fn start_child(&mut self, child: ChildRecord) {
        let ChildRecord { key, input_digest, detached, run } = child;
        if self.places.contains_key(&(key.clone(), true)) {
            return;
        }
        let started = StepRecord::succeeded(key.clone(), Json::null(), Some(input_digest));
        let started = StepRecord { outcome: Outcome::Started, result: None, ..started };
        self.keep(started.recorded_at(self.now));
        if let Some((takes, result)) = self.kinds.get(&run.kind).filter(|_| !detached) {
            let child = Child { at: later(self.now, *takes), result: result(&run.input) };
            self.children.insert(key, child);
        }
    }

    /// Records the ends of children whose time has come, in order of time.
    fn end_children(&mut self) {
        let now = self.now;
        let mut ended: Vec<(String, Child)> =
            self.children.extract_if(.., |_, child| child.at <= now).collect();
        ended.sort_by_key(|(_, child)| child.at);
        for (key, child) in ended {
            let step = match child.result {
                Ok(result) => StepRecord::succeeded(key, result, None),
                Err(failure) => StepRecord::failed(key, failure, None),
            };
            self.keep(step.recorded_at(now));
        }
    }

    /// What has arrived, if that satisfies the wait. A signal is taken once.
    fn arrivals(&mut self, wait: &Wait) -> Option<Vec<Checkpoint>> {
        let here: Vec<bool> = wait.items.iter().map(|item| self.is_here(item)).collect();
        let is_satisfied = match wait.mode {
            Mode::All => here.iter().all(|here| *here),
            Mode::Any => here.iter().any(|here| *here),
        };
        if !is_satisfied {
            return None;
        }
        let place = |item: &Awaited| self.places.get(&(item.key().to_owned(), false)).copied();
        let mut places: Vec<usize> = wait.items.iter().filter_map(place).collect();
        if wait.mode == Mode::All {
            places = wait.items.iter().filter_map(|item| self.take(item)).collect();
        } else if places.is_empty() {
            // One ends the wait. The others leave no record: a signal stays for the next one that awaits it.
            places.extend(wait.items.iter().find_map(|item| self.take(item)));
        }
        places.sort_unstable();
        Some(places.into_iter().map(|place| self.history[place].clone()).collect())
    }

    fn is_here(&self, item: &Awaited) -> bool {
        let is_recorded = self.places.contains_key(&(item.key().to_owned(), false));
        is_recorded
            || match item {
                Awaited::Timer { until, .. } => *until <= self.now,
                Awaited::Signal { signal, .. } => self.signal_place(signal).is_some(),
                Awaited::Approval { key, approval } => {
                    self.people.outcome(key, approval, self.now).is_some()
                }
                Awaited::Effect { effect, .. } => {
                    self.delivery(effect).is_some_and(|(_, at)| at <= self.now)
                }
                Awaited::Child { .. } => false,
            }
    }

    fn signal_place(&self, name: &str) -> Option<usize> {
        self.signals.iter().position(|signal| signal.name == name && signal.at <= self.now)
    }

    /// Records an item that is here. Of a signal and its timer only the first is taken.
    fn take(&mut self, item: &Awaited) -> Option<usize> {
        let key = item.key().to_owned();
        if let Some(place) = self.places.get(&(key.clone(), false)) {
            return Some(*place);
        }
        let is_late = key
            .strip_suffix(".timeout")
            .is_some_and(|signal| self.places.contains_key(&(signal.to_owned(), false)));
        if is_late || !self.is_here(item) {
            return None;
        }
        let (payload, about) = match item {
            Awaited::Signal { signal, .. } => {
                let place = self.signal_place(signal)?;
                (self.signals.remove(place).payload, None)
            }
            Awaited::Approval { approval: terms, .. } => {
                let approval = self.people.outcome(&key, terms, self.now)?;
                self.people.over(&key, &approval);
                let about = terms.digest.as_deref().and_then(|digest| digest.parse().ok());
                (Told::of(&approval, about), about)
            }
            Awaited::Effect { effect, .. } => {
                let (outcome, at) = self.delivery(effect)?;
                let reason =
                    (outcome == DeliveryOutcome::Failed).then(|| "tries_exhausted".to_owned());
                let effect_id = format!("eff_{}/{}", effect.step, effect.key);
                let told = effect::Told { outcome, effect_id, at_ms: at.as_ms(), reason };
                (Json::from_value(&told).expect("texts have a JSON form"), None)
            }
            Awaited::Timer { .. } | Awaited::Child { .. } => (Json::null(), None),
        };
        self.keep(StepRecord::succeeded(key, payload, about).recorded_at(self.now));
        Some(self.history.len() - 1)
    }

    fn next_instant(&self, wait: &Wait) -> Option<Time> {
        let timers = wait.items.iter().filter_map(|item| match item {
            Awaited::Approval { key, approval } => self.people.next(key, approval, self.now),
            Awaited::Effect { effect, .. } => self.delivery(effect).map(|(_, at)| at),
            item => item.until(),
        });
        let signals = self.signals.iter().map(|signal| signal.at);
        let children = self.children.values().map(|child| child.at);
        timers.chain(signals).chain(children).filter(|at| *at > self.now).min()
    }
}
