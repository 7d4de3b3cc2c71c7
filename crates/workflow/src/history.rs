//! What was recorded: the operations that the code must ask for, in order, and the results that it will be given.
//!
//! Each branch has its own order, so replay does not depend on the order in which branches finished. Results are found
//! by key. Where two results race, the one that was committed first wins, in a replay as in the first execution.
//!
//! Memory: an operation leaves when the code has asked for it, and a result when the code has read it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Digest;
use crate::command::{Checkpoint, Outcome};
use crate::key::{self, Branch};
use crate::stop::{Difference, Divergence, Seen};

/// An operation that the record says comes next in its branch.
struct Expected {
    operation: String,
    input_digest: Option<Digest>,
    position: u64,
}

#[derive(Default)]
pub(crate) struct History {
    expected: BTreeMap<String, VecDeque<Expected>>,
    results: BTreeMap<String, (u64, Checkpoint)>,
    /// How many checkpoints there were: the position of the next one.
    length: u64,
}

impl History {
    pub(crate) fn new(checkpoints: Vec<Checkpoint>) -> History {
        let mut history = History::default();
        let mut known = BTreeSet::new();
        // What satisfied a wait stands in checkpoints of its items.
        for checkpoint in checkpoints.into_iter().filter(|it| !key::is_wait(&it.key)) {
            let parsed = key::parse(&checkpoint.key);
            if known.insert(parsed.operation.to_owned()) {
                let expected = Expected {
                    operation: parsed.operation.to_owned(),
                    input_digest: checkpoint.input_digest,
                    position: history.length,
                };
                history.expected.entry(parsed.branch.to_owned()).or_default().push_back(expected);
            }
            history.arrive(checkpoint);
        }
        history
    }

    /// Keeps a result until the code reads it.
    pub(crate) fn arrive(&mut self, checkpoint: Checkpoint) {
        let position = self.length;
        self.length += 1;
        if checkpoint.outcome != Outcome::Started {
            self.results.entry(checkpoint.key.clone()).or_insert((position, checkpoint));
        }
    }

    /// Whether the code asks for what the record has next in this branch. Without a record the operation is new.
    ///
    /// A version marker that the code no longer asks for is skipped: code that ignores it and differs after it is
    /// found at the next operation.
    pub(crate) fn enter(&mut self, branch: &Branch, actual: &Seen) -> Result<Entered, Unlike> {
        let Some(queue) = self.expected.get_mut(branch.as_str()) else { return Ok(Entered::New) };
        while queue.front().is_some_and(|next| is_skipped(next, actual)) {
            queue.pop_front();
        }
        let next = queue.pop_front();
        if queue.is_empty() {
            self.expected.remove(branch.as_str());
        }
        let Some(next) = next else { return Ok(Entered::New) };
        let recorded = Seen { key: next.operation, input_digest: next.input_digest };
        match (recorded.key == actual.key, recorded.input_digest == actual.input_digest) {
            (true, true) => Ok(Entered::Recorded),
            (true, false) => Err(Unlike { difference: Difference::Input, recorded }),
            (false, _) => Err(Unlike { difference: Difference::Operation, recorded }),
        }
    }

    /// Whether the record of this branch has come to its end, and what follows is new.
    pub(crate) fn is_over(&self, branch: &Branch) -> bool {
        let queue = self.expected.get(branch.as_str());
        queue.is_none_or(|queue| queue.iter().all(|next| key::is_patch(&next.operation)))
    }

    /// Whether this operation comes next, apart from version markers before it.
    pub(crate) fn is_next(&self, branch: &Branch, operation: &str) -> bool {
        let mut queue = self.expected.get(branch.as_str()).into_iter().flatten();
        let is_it = |next: &Expected| next.operation == operation;
        queue.find(|next| is_it(next) || !key::is_patch(&next.operation)).is_some_and(is_it)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.results.contains_key(key)
    }

    /// Takes the result of a key out; it is read once.
    pub(crate) fn take(&mut self, key: &str) -> Option<Checkpoint> {
        self.results.remove(key).map(|(_, checkpoint)| checkpoint)
    }

    /// Takes the result that was committed first.
    pub(crate) fn take_first(&mut self, keys: &[&str]) -> Option<Checkpoint> {
        let found = keys.iter().filter_map(|key| Some((self.results.get(*key)?.0, *key)));
        let (_, first) = found.min()?;
        self.take(first)
    }

    /// Forgets the tries and timers of an operation that is over.
    pub(crate) fn forget_parts(&mut self, operation: &str) {
        let start = format!("{operation}.");
        let parts = self.results.range(start.clone()..).map(|(key, _)| key);
        let parts: Vec<String> = parts.take_while(|key| key.starts_with(&start)).cloned().collect();
        for part in parts {
            self.results.remove(&part);
        }
    }

    /// The earliest recorded operation that the code has not asked for.
    ///
    /// Whatever made an operation possible was recorded before it. So when a replay has read all it can, it has come
    /// to every recorded operation, or the code is another one.
    pub(crate) fn unreached(&self) -> Option<(String, Seen)> {
        let queues = self.expected.iter();
        let missing =
            queues.flat_map(|(branch, queue)| queue.iter().map(move |next| (branch, next)));
        let missing = missing.filter(|(_, next)| !key::is_patch(&next.operation));
        let (branch, first) = missing.min_by_key(|(_, next)| next.position)?;
        let seen = Seen { key: first.operation.clone(), input_digest: first.input_digest };
        Some((branch.clone(), seen))
    }
}

fn is_skipped(next: &Expected, actual: &Seen) -> bool {
    key::is_patch(&next.operation) && next.operation != actual.key
}

#[cfg(test)]
impl History {
    pub(crate) fn len(&self) -> usize {
        self.expected.values().map(VecDeque::len).sum::<usize>() + self.results.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    Recorded,
    New,
}

/// The record has something else.
pub(crate) struct Unlike {
    difference: Difference,
    recorded: Seen,
}

impl Unlike {
    pub(crate) fn at(self, branch: &Branch, index: u64, actual: Seen) -> Divergence {
        Divergence {
            difference: self.difference,
            branch: branch.as_str().to_owned(),
            index,
            recorded: Some(self.recorded),
            actual: Some(actual),
            at: None,
        }
    }
}
