//! Lines of polls: polls with the same filter wait in one line, in order of arrival, and lines are indexed by their
//! queues and by their kinds.
//!
//! However many polls wait, the search for takers of a queue's tasks visits only the lines of that queue, of those only the
//! ones that take a kind which is there, and in each line only as many polls as there are tasks for. Where many lines may take
//! something (all of one queue, or the kinds of a long queue are not known), a search visits a bounded part of them, and the
//! next one continues behind it ([`Looks`]).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, btree_set};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use store::{PolledQueues, Want};
use verdict::build::pinned_queue;
use verdict::{Name, Scope};

use crate::item::Poll;

/// Lines that one search at one queue visits. More lines at one queue that take what it holds are a thousand different sorts of
/// workers; some of them are asked by the next commit.
const LINES_LOOKED_AT_MAX: usize = 1_024;

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

    /// What a store looks at for it at most: each kind in each queue.
    pub(super) fn steps(&self) -> usize {
        self.queues.len() * self.kinds.as_ref().map_or(1, Vec::len)
    }

    fn takes(&self, kind: &Name) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.binary_search(kind).is_ok())
    }

    fn is_at(&self, queue: &Name) -> bool {
        self.queues.binary_search(queue).is_ok()
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

/// Every line has at least one poll, and every queue and kind in the index at least one line.
#[derive(Default)]
pub(super) struct Lines {
    lines: HashMap<LineId, Line>,
    by_filter: HashMap<Arc<PollFilter>, LineId>,
    scopes: HashMap<Scope, ScopeLines>,
    queue_count: usize,
    begun: u64,
}

/// The lines of one scope. A line with many queues and many kinds is listed once for each of them, and not for each pair.
#[derive(Default)]
struct ScopeLines {
    queues: HashMap<Name, QueueLines>,
    /// Lines that name a kind, at whatever queue.
    kinds: HashMap<Name, BTreeSet<LineId>>,
}

#[derive(Default)]
struct QueueLines {
    of_every_kind: BTreeSet<LineId>,
    of_some_kinds: BTreeSet<LineId>,
    /// Where the last search stopped, if it did not come to the last line.
    searched_to: Option<LineId>,
}

impl QueueLines {
    fn of(&mut self, filter: &PollFilter) -> &mut BTreeSet<LineId> {
        match filter.kinds {
            None => &mut self.of_every_kind,
            Some(_) => &mut self.of_some_kinds,
        }
    }

    fn all(&self) -> impl Iterator<Item = LineId> {
        self.of_every_kind.iter().chain(&self.of_some_kinds).copied()
    }

    fn is_empty(&self) -> bool {
        self.of_every_kind.is_empty() && self.of_some_kinds.is_empty()
    }
}

/// How much one round may look at for one tenant.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) left: usize,
}

impl Looks {
    pub(super) fn take(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }
}

/// The lines that may take something at a queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    /// The line whose first poll has waited longest comes first.
    pub(super) lines: Vec<LineId>,
    pub(super) end: SearchEnd,
}

/// Where a search ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SearchEnd {
    /// It visited every line.
    #[default]
    All,
    /// It came to the last line, and an earlier search has visited the others.
    Last,
    /// It stopped behind this line.
    Stopped(LineId),
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
        let scope = self.scopes.entry(filter.scope.clone()).or_default();
        for queue in &filter.queues {
            let waiting = scope.queues.entry(queue.clone()).or_default();
            self.queue_count += usize::from(waiting.is_empty());
            waiting.of(&filter).insert(line);
        }
        for kind in filter.kinds.iter().flatten() {
            scope.kinds.entry(kind.clone()).or_default().insert(line);
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
        let Some(scope) = self.scopes.get_mut(&filter.scope) else { return };
        for queue in &filter.queues {
            let Some(waiting) = scope.queues.get_mut(queue) else { continue };
            waiting.of(&filter).remove(&line);
            if waiting.is_empty() {
                scope.queues.remove(queue);
                self.queue_count -= 1;
            }
        }
        for kind in filter.kinds.iter().flatten() {
            let Some(waiting) = scope.kinds.get_mut(kind) else { continue };
            waiting.remove(&line);
            if waiting.is_empty() {
                scope.kinds.remove(kind);
            }
        }
        if scope.queues.is_empty() {
            self.scopes.remove(&filter.scope);
        }
    }

    pub(super) fn get(&self, line: LineId) -> Option<&Line> {
        self.lines.get(&line)
    }

    fn at(&self, scope: &Scope, queue: &Name) -> Option<&QueueLines> {
        self.scopes.get(scope)?.queues.get(queue)
    }

    /// The lines that may take something at a queue which holds tasks of these kinds; `None` if they are not known. Begins where
    /// the last search ended, if it did not visit all lines. Each line that is visited is a look, and each that is found as many as it
    /// costs to ask for it, but for those in `asked`, which have been paid for. While there is a look left, one line is found.
    pub(super) fn candidates(
        &self,
        scope: &Scope,
        queue: &Name,
        kinds: Option<&[Name]>,
        looks: &mut Looks,
        asked: impl Fn(LineId) -> bool,
    ) -> Candidates {
        let Some(of_scope) = self.scopes.get(scope) else { return Candidates::default() };
        let Some(at_queue) = of_scope.queues.get(queue) else { return Candidates::default() };
        let sources = of_scope.sources(at_queue, kinds);
        let (mut found, mut visited, begun_after) = (Vec::new(), 0, at_queue.searched_to);
        let mut end = SearchEnd::All;
        for line in each_line(&sources, begun_after) {
            let is_behind_last = begun_after.is_some_and(|after| line <= after);
            if visited == LINES_LOOKED_AT_MAX || looks.left == 0 {
                return self.by_age(found, if is_behind_last { SearchEnd::Last } else { end });
            }
            visited += 1;
            looks.take(1);
            end = SearchEnd::Stopped(line);
            let Some(Line { filter, .. }) = self.lines.get(&line) else { continue };
            if filter.is_at(queue) && kinds.is_none_or(|kinds| takes_any(filter, kinds)) {
                looks.take(if asked(line) { 0 } else { filter.steps() });
                found.push(line);
            }
        }
        self.by_age(found, SearchEnd::All)
    }

    fn by_age(&self, mut lines: Vec<LineId>, end: SearchEnd) -> Candidates {
        lines.sort_by_key(|line| self.lines.get(line).and_then(|line| line.polls.first().copied()));
        Candidates { lines, end }
    }

    /// Notes where a search ended.
    pub(super) fn searched(&mut self, scope: &Scope, queue: &Name, end: SearchEnd) {
        let at_queue = self.scopes.get_mut(scope).and_then(|lines| lines.queues.get_mut(queue));
        let Some(at_queue) = at_queue else { return };
        at_queue.searched_to = match end {
            SearchEnd::All | SearchEnd::Last => None,
            SearchEnd::Stopped(line) => Some(line),
        };
    }

    /// Polls that would take such a task.
    pub(super) fn takers(
        &self,
        scope: &Scope,
        queue: &Name,
        kind: &Name,
    ) -> impl Iterator<Item = PollId> {
        let waiting = self.at(scope, queue).into_iter().flat_map(QueueLines::all);
        let lines = waiting.filter_map(|line| self.lines.get(&line));
        lines.filter(|line| line.filter.takes(kind)).flat_map(|line| line.polls.iter().copied())
    }
}

impl ScopeLines {
    /// Sets of lines that have all which take one of these kinds at a queue: those of the queue, or those of the kinds,
    /// whichever are fewer.
    fn sources<'a>(
        &'a self,
        at_queue: &'a QueueLines,
        kinds: Option<&[Name]>,
    ) -> Vec<&'a BTreeSet<LineId>> {
        let every = &at_queue.of_every_kind;
        let Some(kinds) = kinds else { return vec![every, &at_queue.of_some_kinds] };
        let of_kinds = kinds.iter().filter_map(|kind| self.kinds.get(kind));
        let count: usize = of_kinds.clone().map(BTreeSet::len).sum();
        if count > at_queue.of_some_kinds.len() {
            return vec![every, &at_queue.of_some_kinds];
        }
        std::iter::once(every).chain(of_kinds).collect()
    }
}

fn takes_any(filter: &PollFilter, kinds: &[Name]) -> bool {
    filter.kinds.is_none() || kinds.iter().any(|kind| filter.takes(kind))
}

/// Every line of these sets once: those after `after` in order, and then the others.
fn each_line(sources: &[&BTreeSet<LineId>], after: Option<LineId>) -> impl Iterator<Item = LineId> {
    let later = (after.map_or(Unbounded, Excluded), Unbounded);
    // Nothing is before the first line.
    let sooner = (Unbounded, after.map_or(Excluded(LineId(0)), Included));
    let later = Merged::of(sources.iter().map(|lines| lines.range(later)));
    later.chain(Merged::of(sources.iter().map(|lines| lines.range(sooner))))
}

/// Merges ordered sets, each line once.
struct Merged<'a> {
    sources: Vec<btree_set::Range<'a, LineId>>,
    heads: BinaryHeap<Reverse<(LineId, usize)>>,
}

impl<'a> Merged<'a> {
    fn of(sources: impl Iterator<Item = btree_set::Range<'a, LineId>>) -> Self {
        let mut sources: Vec<_> = sources.collect();
        let heads = sources.iter_mut().enumerate();
        let heads = heads.filter_map(|(n, source)| Some(Reverse((*source.next()?, n)))).collect();
        Self { sources, heads }
    }
}

impl Iterator for Merged<'_> {
    type Item = LineId;

    fn next(&mut self) -> Option<LineId> {
        let Reverse((first, _)) = *self.heads.peek()?;
        while let Some(Reverse((line, n))) = self.heads.peek().copied()
            && line == first
        {
            self.heads.pop();
            self.heads.extend(self.sources[n].next().map(|next| Reverse((*next, n))));
        }
        Some(first)
    }
}

impl PolledQueues for Lines {
    fn count(&self) -> usize {
        self.queue_count
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.at(scope, queue).is_some()
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        for (scope, lines) in &self.scopes {
            lines.queues.keys().for_each(|queue| see(scope, queue));
        }
    }

    fn count_kinds(&self, scope: &Scope) -> usize {
        self.scopes.get(scope).map_or(0, |lines| lines.kinds.len())
    }

    fn names_kind(&self, scope: &Scope, kind: &Name) -> bool {
        self.scopes.get(scope).is_some_and(|lines| lines.kinds.contains_key(kind))
    }

    fn each_kind(&self, scope: &Scope, see: &mut dyn FnMut(&Name)) {
        self.scopes.get(scope).into_iter().for_each(|lines| lines.kinds.keys().for_each(&mut *see));
    }
}
