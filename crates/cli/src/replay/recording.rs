//! One recorded run, ready to be asked: what is recorded under a key, what a worker is sent, what satisfied a wait.
//!
//! It answers from the record alone and judges nothing.

use std::collections::HashMap;

use wire::answers::{Checkpoint, Checkpoints, TakenSignal, WaitOutcome};
use wire::requests::{AwaitedItem, WaitFor};
use wire::{CheckpointKind, CheckpointOutcome, ErrorCategory, Json, State, WaitMode};

use crate::export::golden::Golden;

/// What an envelope or a page carries, as of a real server: a worker meets both ways to get its checkpoints.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Begins the key of a wait for one item; the rest is the key of that item.
const WAIT: &str = "wait:";

/// Positions in the list of checkpoints, by key.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) golden: Golden,
    steps: HashMap<String, usize>,
    started: HashMap<String, usize>,
    ended: HashMap<String, usize>,
    waits: HashMap<String, usize>,
    /// The wait that each timer or signal satisfied.
    arrivals: HashMap<String, usize>,
}

impl Recording {
    pub(super) fn new(golden: Golden) -> Recording {
        let (mut steps, mut started, mut ended) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (mut waits, mut arrivals) = (HashMap::new(), HashMap::new());
        for (n, checkpoint) in golden.checkpoints.iter().enumerate() {
            let key = checkpoint.key.clone();
            let of_kind = match (checkpoint.kind, checkpoint.outcome) {
                (CheckpointKind::Step, _) => &mut steps,
                (CheckpointKind::Child, CheckpointOutcome::Started) => &mut started,
                (CheckpointKind::Child, _) => &mut ended,
                (CheckpointKind::Wait, _) => {
                    arrivals.extend(arrived(checkpoint).into_iter().map(|item| (item, n)));
                    &mut waits
                }
            };
            of_kind.insert(key, n);
        }
        Recording { golden, steps, started, ended, waits, arrivals }
    }

    /// Whether the function itself made the end: it returned, or failed with an error of its own. Any other run is
    /// recorded only up to the point where something else ended it, or where it stood when it was exported.
    pub(super) fn has_own_end(&self) -> bool {
        let category = self.golden.end.error.as_ref().and_then(|error| error.category);
        match self.golden.end.state {
            State::Succeeded => true,
            State::Failed => matches!(
                category,
                Some(
                    ErrorCategory::UserCode
                        | ErrorCategory::DataQuality
                        | ErrorCategory::Configuration
                )
            ),
            _ => false,
        }
    }

    pub(super) fn step(&self, key: &str) -> Option<&Checkpoint> {
        self.steps.get(key).map(|n| &self.golden.checkpoints[*n])
    }

    pub(super) fn started_child(&self, key: &str) -> Option<&Checkpoint> {
        self.started.get(key).map(|n| &self.golden.checkpoints[*n])
    }

    /// Steps with a result. Failed tries are of the world and not of the code: another execution need not have them.
    pub(super) fn succeeded_steps(&self) -> impl Iterator<Item = &Checkpoint> {
        self.golden.checkpoints.iter().filter(|it| {
            it.kind == CheckpointKind::Step && it.outcome == CheckpointOutcome::Succeeded
        })
    }

    /// The number before the first checkpoint that a worker is sent: replay begins with the last savepoint.
    pub(super) fn start(&self) -> u32 {
        let savepoint = self.golden.checkpoints.iter().rev().find(|it| it.savepoint);
        savepoint.map_or(0, |it| it.number - 1)
    }

    /// What follows a number, as much as one answer carries.
    pub(super) fn page(&self, after: u32) -> Checkpoints {
        let all = &self.golden.checkpoints;
        let rest = &all[all.partition_point(|it| it.number <= after)..];
        let mut bytes = 0;
        let fits = |it: &&Checkpoint| {
            let is_first = bytes == 0;
            bytes += serde_json::to_string(it).map_or(0, |text| text.len());
            is_first || bytes <= PAGE_BYTES_MAX
        };
        let checkpoints: Vec<Checkpoint> = rest.iter().take_while(fits).cloned().collect();
        let has_more = checkpoints.len() < rest.len();
        let last = checkpoints.last().map(|it| it.number);
        Checkpoints { next_after: last.filter(|_| has_more), checkpoints }
    }

    /// What satisfied a wait, in the order of the commits; `None` if the record does not say.
    ///
    /// Branches that execute their steps anew may wait in other company than they did, so a wait is known by its items
    /// too.
    pub(super) fn satisfied(&self, wait: &WaitFor) -> Option<Vec<Checkpoint>> {
        let recorded = self.waits.get(&wait.key).map(|n| self.golden.checkpoints[*n].clone());
        let found = recorded.or_else(|| self.satisfied_by_items(wait))?;
        let ends = wait.items.iter().filter_map(|item| self.end_of(item));
        let ends = ends.map(|n| &self.golden.checkpoints[n]);
        let mut results: Vec<Checkpoint> = ends.cloned().chain([found]).collect();
        results.sort_by_key(|it| it.number);
        Some(results)
    }

    fn satisfied_by_items(&self, wait: &WaitFor) -> Option<Checkpoint> {
        let came = |item: &AwaitedItem| self.end_of(item).or(self.arrivals.get(&item.key).copied());
        let all: Vec<(usize, &AwaitedItem)> =
            wait.items.iter().filter_map(|item| came(item).map(|n| (n, item))).collect();
        let (n, winner) = match wait.mode {
            WaitMode::Any => all.iter().min_by_key(|(n, _)| *n).map(|(n, it)| (*n, Some(it)))?,
            WaitMode::All if all.len() < wait.items.len() => return None,
            WaitMode::All => all.iter().map(|(n, _)| (*n, None)).max_by_key(|(n, _)| *n)?,
        };
        let is_awaited = |signal: &&TakenSignal| wait.items.iter().any(|it| it.key == signal.key);
        let recorded = &self.golden.checkpoints[n];
        let taken = recorded.wait.as_ref().map_or(&[][..], |it| &it.signals);
        let outcome = WaitOutcome {
            winner: winner.map(|item| item.key.clone()),
            signals: taken.iter().filter(is_awaited).cloned().collect(),
        };
        Some(Checkpoint {
            key: wait.key.clone(),
            kind: CheckpointKind::Wait,
            outcome: CheckpointOutcome::Succeeded,
            wait: Some(outcome),
            result: None,
            error: None,
            task_id: None,
            ..recorded.clone()
        })
    }

    /// The value of the signal that an item took.
    pub(super) fn told(&self, key: &str) -> Option<&Json> {
        let wait = self.golden.checkpoints[*self.arrivals.get(key)?].wait.as_ref()?;
        wait.signals.iter().find(|signal| signal.key == key)?.payload.as_ref()
    }

    fn end_of(&self, item: &AwaitedItem) -> Option<usize> {
        self.ended.get(item.child.as_ref()?).copied()
    }
}

/// The items that satisfied a wait, as far as they are not children.
fn arrived(wait: &Checkpoint) -> Vec<String> {
    let outcome = wait.wait.clone().unwrap_or_default();
    let only = || wait.key.strip_prefix(WAIT).map(str::to_owned);
    let one = outcome.winner.or_else(only);
    one.into_iter().chain(outcome.signals.into_iter().map(|signal| signal.key)).collect()
}
