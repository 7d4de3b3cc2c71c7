//! Lines of polls: polls with the same filter wait in one line, in order of arrival, and lines are indexed by their
//! queues.
//!
//! However many polls wait, the search for takers of a queue's tasks visits only the lines of that queue, and in each
//! line only as many polls as there are tasks for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use store::{PolledQueues, Want};
use verdict::build::pinned_queue;
use verdict::{Name, Scope};

use crate::item::Poll;

/// Identifies a poll; ids are in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::carry) struct PollId(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::carry) struct LineId(u64);

/// What all polls of a line ask for. Names are sorted, without duplicates. A worker that pins runs of some kind asks for those
/// of its build, too.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PollFilter {
    pub(super) scope: Scope,
    pub(super) queues: Vec<Name>,
    kinds: Option<Vec<Name>>,
}

impl PollFilter {
    pub(super) fn of(poll: &Poll) -> Self {
        let mut queues = poll.queues.clone();
        if let Some(build) = poll.build.as_ref().filter(|build| build.pins()) {
            queues.extend(poll.queues.iter().map(|queue| pinned_queue(queue, build.id())));
        }
        let (queues, kinds) = (each_once(&queues), poll.kinds.as_deref().map(each_once));
        Self { scope: poll.scope.clone(), queues, kinds }
    }

    pub(super) fn want(&self, max: usize) -> Want {
        let (queues, kinds) = (self.queues.clone(), self.kinds.clone());
        Want { scope: self.scope.clone(), queues, kinds, max }
    }

    fn takes(&self, kind: &Name) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.binary_search(kind).is_ok())
    }
}

fn each_once(names: &[Name]) -> Vec<Name> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names
}

pub(super) struct Line {
    pub(super) filter: Arc<PollFilter>,
    pub(super) polls: BTreeSet<PollId>,
}

/// Every line has at least one poll, and every queue in the index at least one line.
#[derive(Default)]
pub(super) struct Lines {
    lines: HashMap<LineId, Line>,
    by_filter: HashMap<Arc<PollFilter>, LineId>,
    queues: HashMap<Scope, HashMap<Name, BTreeSet<LineId>>>,
    queue_count: usize,
    begun: u64,
}

impl Lines {
    pub(super) fn join(&mut self, poll: PollId, filter: PollFilter) -> LineId {
        let line = match self.by_filter.get(&filter) {
            Some(line) => *line,
            None => self.begin(filter),
        };
        let known = self.lines.get_mut(&line).expect("a line is known by what it asks for");
        known.polls.insert(poll);
        line
    }

    fn begin(&mut self, filter: PollFilter) -> LineId {
        self.begun += 1;
        let (line, filter) = (LineId(self.begun), Arc::new(filter));
        let queues = self.queues.entry(filter.scope.clone()).or_default();
        for queue in &filter.queues {
            let waiting = queues.entry(queue.clone()).or_default();
            self.queue_count += usize::from(waiting.is_empty());
            waiting.insert(line);
        }
        self.by_filter.insert(filter.clone(), line);
        self.lines.insert(line, Line { filter, polls: BTreeSet::new() });
        line
    }

    pub(super) fn leave(&mut self, poll: PollId, line: LineId) {
        let known = self.lines.get_mut(&line).expect("a poll waits in a line");
        known.polls.remove(&poll);
        if known.polls.is_empty() {
            self.end(line);
        }
    }

    fn end(&mut self, line: LineId) {
        let Some(Line { filter, .. }) = self.lines.remove(&line) else { return };
        self.by_filter.remove(&filter);
        let Some(queues) = self.queues.get_mut(&filter.scope) else { return };
        for queue in &filter.queues {
            let Some(waiting) = queues.get_mut(queue) else { continue };
            waiting.remove(&line);
            if waiting.is_empty() {
                queues.remove(queue);
                self.queue_count -= 1;
            }
        }
        if queues.is_empty() {
            self.queues.remove(&filter.scope);
        }
    }

    pub(super) fn get(&self, line: LineId) -> Option<&Line> {
        self.lines.get(&line)
    }

    /// The lines at a queue. The line whose first poll has waited longest comes first.
    pub(super) fn at(&self, scope: &Scope, queue: &Name) -> Vec<LineId> {
        let waiting = self.queues.get(scope).and_then(|queues| queues.get(queue));
        let mut lines: Vec<LineId> = waiting.into_iter().flatten().copied().collect();
        lines.sort_by_key(|line| self.lines.get(line).and_then(|line| line.polls.first().copied()));
        lines
    }

    /// Polls that would take such a task.
    pub(super) fn takers(
        &self,
        scope: &Scope,
        queue: &Name,
        kind: &Name,
    ) -> impl Iterator<Item = PollId> {
        let waiting = self.queues.get(scope).and_then(|queues| queues.get(queue));
        let lines = waiting.into_iter().flatten().filter_map(|line| self.lines.get(line));
        lines.filter(|line| line.filter.takes(kind)).flat_map(|line| line.polls.iter().copied())
    }
}

impl PolledQueues for Lines {
    fn count(&self) -> usize {
        self.queue_count
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.queues.get(scope).is_some_and(|queues| queues.contains_key(queue))
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        for (scope, queues) in &self.queues {
            queues.keys().for_each(|queue| see(scope, queue));
        }
    }
}
