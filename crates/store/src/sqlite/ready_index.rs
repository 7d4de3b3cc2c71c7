//! Kind queues in memory: the ready tasks of each combination of scope, queue and kind, and which queues hold any. The queue of
//! a task is the one in which it is offered ([`verdict::Task::offered_in`]).
//!
//! The cost of a poll does not depend on what is empty. A queue knows the first ready task of each of its kind queues.
//! So a want that names kinds costs one lookup per kind, one that takes every kind one lookup per task, and a queue
//! without ready tasks costs nothing.
//!
//! The index holds the kind queues with live tasks, and the most recently used of the others. The rest is read from the
//! table when it is needed again. The table keeps a kind queue as long as any task that was submitted to it is stored.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, BinaryHeap, HashMap, btree_set};
use std::iter::Peekable;

use verdict::{Name, Scope, TaskId};

use super::ids::Ids;
use super::rows::QueueAndKind;
use crate::row::{Backlog, Want};
use crate::seam::{KindLooks, PolledQueues};

/// How many kind queues without live tasks stay in memory, so that a queue which becomes empty after every task is not
/// looked up in the table each time. Each takes a few hundred bytes.
const IDLE_MAX: usize = 1_024;

/// A combination of scope, queue and kind, by its number in the table `lanes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KindQueueId(pub(super) u32);

/// Priority, larger first, then age. Twenty bytes without padding, because memory may hold a million of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition([u8; 20]);

impl QueuePosition {
    pub(super) fn new(priority: i32, id: TaskId) -> Self {
        let mut bytes = [0; 20];
        // Flipping all but the sign bit turns "larger first" into ascending bytes.
        let urgency = (priority as u32) ^ 0x7fff_ffff;
        bytes[..4].copy_from_slice(&urgency.to_be_bytes());
        bytes[4..].copy_from_slice(&id.as_u128().to_be_bytes());
        Self(bytes)
    }

    pub(super) fn priority(&self) -> i32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[..4]);
        (u32::from_be_bytes(bytes) ^ 0x7fff_ffff) as i32
    }

    pub(super) fn id(&self) -> TaskId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[4..]);
        TaskId::from_u128(u128::from_be_bytes(bytes))
    }
}

struct KindQueue {
    queue: QueueId,
    kind: Name,
    ready: BTreeSet<QueuePosition>,
    /// How many live tasks it has, ready or not.
    tasks: usize,
    /// When it last became empty, as a sequence number.
    idle_since: u64,
    /// The block of rows that is known to be listed for it in `lane_blocks`.
    block: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct QueueId(u64);

/// A queue of a scope, with at least one kind queue.
struct Queue {
    scope: Scope,
    name: Name,
    kinds: HashMap<Name, KindQueueId>,
    /// The first ready task of each kind queue that has one.
    heads: BTreeSet<(QueuePosition, KindQueueId)>,
    /// How many tasks are ready, in all kind queues.
    ready: usize,
}

#[derive(Default)]
pub(super) struct ReadyIndex {
    kind_queues: HashMap<KindQueueId, KindQueue>,
    queues: HashMap<QueueId, Queue>,
    book: HashMap<Scope, HashMap<Name, QueueId>>,
    /// Queues that have a ready task.
    nonempty: BTreeSet<QueueId>,
    /// Kind queues without live tasks, the longest idle first.
    idle: BTreeSet<(u64, KindQueueId)>,
    begun: u64,
    rested: u64,
}

impl ReadyIndex {
    pub(super) fn find(&self, scope: &Scope, queue: &Name, kind: &Name) -> Option<KindQueueId> {
        self.queue(scope, queue)?.kinds.get(kind).copied()
    }

    fn queue(&self, scope: &Scope, queue: &Name) -> Option<&Queue> {
        self.queues.get(self.book.get(scope)?.get(queue)?)
    }

    pub(super) fn add(
        &mut self,
        kind_queue: KindQueueId,
        scope: &Scope,
        queue: &Name,
        kind: &Name,
    ) {
        let queues = self.book.entry(scope.clone()).or_default();
        let id = match queues.entry(queue.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                self.begun += 1;
                let (scope, name) = (scope.clone(), queue.clone());
                let (kinds, heads) = (HashMap::new(), BTreeSet::new());
                let id = *free.insert(QueueId(self.begun));
                self.queues.insert(id, Queue { scope, name, kinds, heads, ready: 0 });
                id
            }
        };
        self.queue_mut(id).kinds.insert(kind.clone(), kind_queue);
        let (ready, idle_since) = (BTreeSet::new(), self.rest(kind_queue));
        let added =
            KindQueue { queue: id, kind: kind.clone(), ready, tasks: 0, idle_since, block: None };
        self.kind_queues.insert(kind_queue, added);
    }

    fn rest(&mut self, kind_queue: KindQueueId) -> u64 {
        self.rested += 1;
        self.idle.insert((self.rested, kind_queue));
        self.rested
    }

    pub(super) fn contains(&self, kind_queue: KindQueueId) -> bool {
        self.kind_queues.contains_key(&kind_queue)
    }

    pub(super) fn has_tasks(&self, kind_queue: KindQueueId) -> bool {
        self.kind_queues.get(&kind_queue).is_some_and(|kind_queue| kind_queue.tasks > 0)
    }

    /// Counts a live task of this kind queue.
    pub(super) fn enter(&mut self, id: KindQueueId) {
        let kind_queue = self.kind_queues.get_mut(&id).expect("a task is in a lane that exists");
        kind_queue.tasks += 1;
        if kind_queue.tasks == 1 {
            self.idle.remove(&(kind_queue.idle_since, id));
        }
    }

    /// Removes a live task of this kind queue from the count.
    pub(super) fn leave(&mut self, id: KindQueueId) {
        let kind_queue = self.kind_queues.get_mut(&id).expect("a task is in a lane that exists");
        kind_queue.tasks -= 1;
        if kind_queue.tasks == 0 {
            let since = self.rest(id);
            self.kind_queues.entry(id).and_modify(|kind_queue| kind_queue.idle_since = since);
        }
    }

    /// Marks the block as listed for the kind queue. Returns whether it was not marked before.
    pub(super) fn enters_block(&mut self, id: KindQueueId, block: i64) -> bool {
        let kind_queue =
            self.kind_queues.get_mut(&id).expect("a task is in a kind queue that exists");
        kind_queue.block.replace(block) != Some(block)
    }

    /// Clears the mark: it is no longer known which block is listed.
    pub(super) fn forget_block(&mut self, id: KindQueueId) {
        self.kind_queues.entry(id).and_modify(|kind_queue| kind_queue.block = None);
    }

    /// Removes the longest-idle kind queues until at most [`IDLE_MAX`] are left.
    pub(super) fn trim(&mut self) {
        while self.idle.len() > IDLE_MAX
            && let Some((_, kind_queue)) = self.idle.first().copied()
        {
            self.forget(kind_queue);
        }
    }

    /// Removes a kind queue without tasks, and its queue if this was the last kind queue of it.
    pub(super) fn forget(&mut self, kind_queue: KindQueueId) {
        let Some(KindQueue { queue: id, kind, tasks, idle_since, .. }) =
            self.kind_queues.remove(&kind_queue)
        else {
            return;
        };
        assert_eq!(tasks, 0, "a lane that is forgotten has no tasks");
        self.idle.remove(&(idle_since, kind_queue));
        let queue = self.queue_mut(id);
        queue.kinds.remove(&kind);
        if !queue.kinds.is_empty() {
            return;
        }
        let Some(Queue { scope, name, .. }) = self.queues.remove(&id) else { return };
        let Entry::Occupied(mut queues) = self.book.entry(scope) else { return };
        queues.get_mut().remove(&name);
        if queues.get().is_empty() {
            queues.remove();
        }
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("every lane is of a queue")
    }

    pub(super) fn names(&self, kind_queue: KindQueueId) -> Option<QueueAndKind> {
        let KindQueue { queue, kind, .. } = self.kind_queues.get(&kind_queue)?;
        let Queue { scope, name, .. } = self.queues.get(queue)?;
        Some(QueueAndKind { scope: scope.clone(), kind: kind.clone(), queue: name.clone() })
    }

    /// Adds a ready task to this kind queue.
    pub(super) fn insert(&mut self, id: KindQueueId, position: QueuePosition) {
        let Self { kind_queues, queues, nonempty, .. } = self;
        let kind_queue = kind_queues.get_mut(&id).expect("a task is in a lane that exists");
        let queue = queues.get_mut(&kind_queue.queue).expect("every lane is of a queue");
        let head = kind_queue.ready.first().copied();
        if !kind_queue.ready.insert(position) {
            return;
        }
        if head.is_none_or(|head| position < head) {
            if let Some(head) = head {
                queue.heads.remove(&(head, id));
            }
            queue.heads.insert((position, id));
        }
        queue.ready += 1;
        if queue.ready == 1 {
            nonempty.insert(kind_queue.queue);
        }
    }

    /// Removes a task that is no longer ready. Returns whether it was there.
    pub(super) fn remove(&mut self, id: KindQueueId, position: QueuePosition) -> bool {
        let Self { kind_queues, queues, nonempty, .. } = self;
        let kind_queue = kind_queues.get_mut(&id).expect("a task is in a lane that exists");
        let queue = queues.get_mut(&kind_queue.queue).expect("every lane is of a queue");
        if !kind_queue.ready.remove(&position) {
            return false;
        }
        if queue.heads.remove(&(position, id)) {
            queue.heads.extend(kind_queue.ready.first().map(|head| (*head, id)));
        }
        queue.ready -= 1;
        if queue.ready == 0 {
            nonempty.remove(&kind_queue.queue);
        }
        true
    }

    /// Polled queues that have a ready task. Iterates over the polled or the nonempty queues, whichever are fewer.
    pub(super) fn backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        self.looked_at_backlogs(polled).0
    }

    /// Like [`ReadyIndex::backlogs`], and also returns how many kinds were looked at.
    fn looked_at_backlogs(&self, polled: &dyn PolledQueues) -> (Vec<Backlog>, usize) {
        let mut looks = KindLooks::new(polled);
        let mut backlogs = Vec::new();
        let mut add = |queue: &Queue| {
            backlogs.push(Backlog {
                scope: queue.scope.clone(),
                queue: queue.name.clone(),
                tasks: queue.ready,
                kinds: self.ready_kinds(queue, &mut looks),
            });
        };
        if self.nonempty.len() <= polled.count() {
            let nonempty = self.nonempty.iter().filter_map(|id| self.queues.get(id));
            nonempty.filter(|queue| polled.contains(&queue.scope, &queue.name)).for_each(add);
        } else {
            polled.each(&mut |scope, queue| {
                let queue = self.queue(scope, queue).filter(|queue| queue.ready > 0);
                queue.into_iter().for_each(&mut add);
            });
        }
        (backlogs, looks.taken())
    }

    /// The kinds of a queue's ready tasks that polls name.
    fn ready_kinds(&self, queue: &Queue, looks: &mut KindLooks<'_>) -> Option<Vec<Name>> {
        let of_head = |(_, id): &(QueuePosition, KindQueueId)| self.kind_queues.get(id);
        let kinds = queue.heads.iter().filter_map(of_head).map(|kind_queue| &kind_queue.kind);
        looks.of(&queue.scope, queue.heads.len(), kinds, |kind| self.is_ready(queue, kind))
    }

    fn is_ready(&self, queue: &Queue, kind: &Name) -> bool {
        let kind_queue = queue.kinds.get(kind).and_then(|id| self.kind_queues.get(id));
        kind_queue.is_some_and(|kind_queue| !kind_queue.ready.is_empty())
    }

    /// The highest priority among the ready tasks of a queue.
    pub(super) fn most_urgent(&self, scope: &Scope, queue: &Name) -> Option<i32> {
        self.queue(scope, queue)?.heads.first().map(|(head, _)| head.priority())
    }

    /// The tasks for a want: the heads of its kind queues, merged by priority and age, without those already taken.
    pub(super) fn pick(&self, want: &Want, taken: &Ids) -> Vec<TaskId> {
        self.merge(want, taken).0
    }

    /// Like [`ReadyIndex::pick`], and also returns how many queues and kind queues were read.
    fn merge(&self, want: &Want, taken: &Ids) -> (Vec<TaskId>, usize) {
        let mut sources = self.sources(want);
        let heads = sources.iter_mut().enumerate();
        let mut heads: BinaryHeap<_> =
            heads.filter_map(|(n, source)| Some(Reverse((source.first()?, n)))).collect();
        let mut picked = Vec::new();
        while picked.len() < want.max + usize::from(faultpoint::mutant(17))
            && let Some(Reverse((position, n))) = heads.pop()
        {
            if let Some(kind_queue) = sources[n].pass() {
                let rest = self.kind_queues.get(&kind_queue).map(Source::behind);
                heads.extend(rest.and_then(|mut rest| {
                    let first = rest.first()?;
                    sources.push(rest);
                    Some(Reverse((first, sources.len() - 1)))
                }));
            }
            heads.extend(sources[n].first().map(|position| Reverse((position, n))));
            if !taken.contains(&position.id()) {
                picked.push(position.id());
            }
        }
        (picked, sources.len())
    }

    /// The sources of tasks for a want: the heads of whole queues, or single kind queues.
    fn sources(&self, want: &Want) -> Vec<Source<'_>> {
        let queues = each_once(&want.queues).into_iter();
        let queues = queues.filter_map(|queue| self.queue(&want.scope, queue));
        let queues = queues.filter(|queue| queue.ready > 0);
        let Some(kinds) = &want.kinds else {
            return queues.map(|queue| Source::Heads(queue.heads.iter().peekable())).collect();
        };
        let kinds = each_once(kinds);
        let kind_queues = queues.flat_map(|queue| self.ready_of(queue, &kinds));
        kind_queues
            .map(|kind_queue| Source::KindQueue(kind_queue.ready.iter().peekable()))
            .collect()
    }

    /// The kind queues of these kinds, which are sorted, that may hold a ready task. Looks at the kinds or at the queue's heads,
    /// whichever are fewer.
    fn ready_of<'a>(&'a self, queue: &'a Queue, kinds: &[&Name]) -> Vec<&'a KindQueue> {
        if queue.heads.len() < kinds.len() {
            let heads = queue.heads.iter().filter_map(|(_, id)| self.kind_queues.get(id));
            return heads.filter(|head| kinds.binary_search(&&head.kind).is_ok()).collect();
        }
        let found = kinds.iter().filter_map(|kind| queue.kinds.get(*kind));
        found.filter_map(|id| self.kind_queues.get(id)).collect()
    }
}

fn each_once(names: &[Name]) -> Vec<&Name> {
    let mut names: Vec<&Name> = names.iter().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Ready tasks in order.
enum Source<'a> {
    /// The heads of all kind queues of a queue. When a head is passed, the rest of its kind queue becomes a separate
    /// source.
    Heads(Peekable<btree_set::Iter<'a, (QueuePosition, KindQueueId)>>),
    KindQueue(Peekable<btree_set::Iter<'a, QueuePosition>>),
}

impl<'a> Source<'a> {
    /// All tasks of a kind queue but the first.
    fn behind(kind_queue: &'a KindQueue) -> Self {
        let mut ready = kind_queue.ready.iter().peekable();
        ready.next();
        Source::KindQueue(ready)
    }

    fn first(&mut self) -> Option<QueuePosition> {
        match self {
            Source::Heads(heads) => heads.peek().map(|(position, _)| *position),
            Source::KindQueue(ready) => ready.peek().map(|position| **position),
        }
    }

    /// Advances to the next task. Returns the kind queue whose head was passed.
    fn pass(&mut self) -> Option<KindQueueId> {
        match self {
            Source::Heads(heads) => heads.next().map(|(_, kind_queue)| *kind_queue),
            Source::KindQueue(ready) => {
                ready.next();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Kind queues of these queues and kinds, numbered in this order, each with tasks of these priorities. The number
    /// of a task is ten times the number of its kind queue, plus its index there.
    fn kind_queues(of: &[(&str, &str, &[i32])]) -> ReadyIndex {
        let mut kind_queues = ReadyIndex::default();
        for (n, (queue, kind, priorities)) in of.iter().enumerate() {
            let kind_queue = KindQueueId(n as u32);
            kind_queues.add(kind_queue, &Scope::default(), &Name::from(*queue), &Name::from(*kind));
            for (k, priority) in priorities.iter().enumerate() {
                kind_queues.insert(kind_queue, position(*priority, 10 * n + k));
            }
        }
        kind_queues
    }

    fn position(priority: i32, number: usize) -> QueuePosition {
        QueuePosition::new(priority, TaskId::from_u128(number as u128))
    }

    fn picked(
        kind_queues: &ReadyIndex,
        queues: &[&str],
        kinds: Option<&[&str]>,
        max: usize,
    ) -> Vec<u128> {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        let (queues, kinds) = (names(queues), kinds.map(names));
        let want = Want { scope: Scope::default(), queues, kinds, max };
        kind_queues.pick(&want, &Ids::default()).iter().map(|id| id.as_u128()).collect()
    }

    /// Polls at `queue-0`, `queue-1` and so on; counts how often the queues are read.
    struct Waiting {
        queues: usize,
        looks: AtomicUsize,
    }

    impl PolledQueues for Waiting {
        fn count(&self) -> usize {
            self.queues
        }

        fn contains(&self, _: &Scope, queue: &Name) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            (0..self.queues).any(|n| queue.as_str() == format!("queue-{n}"))
        }

        fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
            for n in 0..self.queues {
                self.looks.fetch_add(1, Ordering::Relaxed);
                see(&Scope::default(), &Name::from(format!("queue-{n}")));
            }
        }
    }

    /// How many polled queues hold tasks, and how many reads it took to find them.
    fn looked(kind_queues: &ReadyIndex, queues: usize) -> (usize, usize) {
        let polled = Waiting { queues, looks: AtomicUsize::new(0) };
        (kind_queues.backlogs(&polled).len(), polled.looks.into_inner())
    }

    #[test]
    fn the_smaller_side_is_looked_at() {
        // G2: 10,000 idle polls, or 10,000 queues without a worker, cost a poll nothing.
        let one = kind_queues(&[("queue-7", "resize", &[0]), ("unpolled", "resize", &[0])]);
        assert_eq!(looked(&one, 10_000), (1, 2));
        let mut many = kind_queues(&[("queue-0", "resize", &[0])]);
        for n in 1..10_000 {
            let (kind_queue, queue) = (KindQueueId(n), Name::from(format!("full-{n}")));
            many.add(kind_queue, &Scope::default(), &queue, &Name::from("resize"));
            many.insert(kind_queue, position(0, n as usize));
        }
        assert_eq!(looked(&many, 3), (1, 3));
    }

    #[test]
    fn kind_queues_of_every_kind_are_merged_by_priority_then_age() {
        // R-19, S2-24: a want for every kind and a want that names the kinds get the same order.
        let kind_queues = kind_queues(&[
            ("images", "resize", &[0, 5, 0]),
            ("images", "crop", &[]),
            ("images", "blur", &[7, 0]),
            ("mails", "send", &[5, -1]),
        ]);
        let order = [20, 1, 30, 0, 2, 21, 31];
        for max in 0..=order.len() {
            assert_eq!(picked(&kind_queues, &["images", "mails"], None, max), order[..max]);
        }
        let kinds = ["send", "resize", "blur", "crop", "send", "nothing"];
        assert_eq!(picked(&kind_queues, &["mails", "images", "mails"], Some(&kinds), 9), order);
        assert_eq!(picked(&kind_queues, &["images"], Some(&["blur", "send"]), 9), [20, 21]);
    }

    #[test]
    fn a_want_costs_a_look_for_each_kind_it_names_or_for_each_task_it_takes() {
        // G2: the cost does not depend on how many other kinds wait in the queue, or how many have ended.
        let mut kind_queues = kind_queues(&[("images", "resize", &[0, 0])]);
        for n in 1..20_000 {
            let (kind_queue, kind) = (KindQueueId(n), Name::from(format!("kind-{n}")));
            kind_queues.add(kind_queue, &Scope::default(), &Name::from("images"), &kind);
            if n % 2 == 0 {
                kind_queues.insert(kind_queue, position(0, 100 + n as usize));
            }
        }
        let want = |kinds: Option<Vec<Name>>, max| {
            let (scope, queues) = (Scope::default(), vec![Name::from("images")]);
            Want { scope, queues, kinds, max }
        };
        let named = want(Some(vec![Name::from("resize"), Name::from("crop")]), 8);
        assert_eq!(kind_queues.merge(&named, &Ids::default()), (ids(&[0, 1]), 1));
        let empty = want(Some(vec![Name::from("kind-1")]), 8);
        assert_eq!(kind_queues.merge(&empty, &Ids::default()), (Vec::new(), 1));
        let (picked, looks) = kind_queues.merge(&want(None, 3), &Ids::default());
        assert_eq!(picked, ids(&[0, 1, 102]));
        assert!(looks <= 1 + 3, "the queue's heads and the lanes passed, not {looks}");
    }

    /// Polls at `images` that name so many kinds: `named-0` and so on.
    struct Naming(usize);

    impl PolledQueues for Naming {
        fn count(&self) -> usize {
            1
        }

        fn contains(&self, _: &Scope, queue: &Name) -> bool {
            queue.as_str() == "images"
        }

        fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
            see(&Scope::default(), &Name::from("images"));
        }

        fn count_kinds(&self, _: &Scope) -> usize {
            self.0
        }

        fn names_kind(&self, _: &Scope, kind: &Name) -> bool {
            (0..self.0).any(|n| kind.as_str() == format!("named-{n}"))
        }

        fn each_kind(&self, _: &Scope, see: &mut dyn FnMut(&Name)) {
            (0..self.0).for_each(|n| see(&Name::from(format!("named-{n}"))));
        }
    }

    /// A queue with one task of each of so many kinds that nobody names, and of one that polls name.
    fn with_kinds(count: u32) -> ReadyIndex {
        let mut index = kind_queues(&[("images", "named-0", &[0])]);
        for n in 1..=count {
            let kind = Name::from(format!("kind-{n}"));
            index.add(KindQueueId(n), &Scope::default(), &Name::from("images"), &kind);
            index.insert(KindQueueId(n), position(0, 1_000 + n as usize));
        }
        index
    }

    #[test]
    fn kinds_that_nobody_polls_or_nobody_submits_cost_no_looks() {
        let named = |index: &ReadyIndex, polled: usize| {
            let (backlogs, looks) = index.looked_at_backlogs(&Naming(polled));
            (backlogs[0].kinds.clone(), looks)
        };
        let only = Some(vec![Name::from("named-0")]);
        assert_eq!(named(&with_kinds(0), 10_000), (only.clone(), 1), "one kind is ready");
        assert_eq!(named(&with_kinds(10_000), 1), (only, 1), "one kind is polled");
        assert_eq!(named(&with_kinds(10_000), 0), (Some(Vec::new()), 0));
        // Both are many: it is not known, and cheap all the same.
        assert_eq!(named(&with_kinds(10_000), 10_000), (None, 0));
    }

    #[test]
    fn a_want_of_many_kinds_reads_the_kinds_that_are_ready() {
        let index = with_kinds(2);
        let kinds = (0..256).map(|n| Name::from(format!("named-{n}"))).collect();
        let (scope, queues) = (Scope::default(), vec![Name::from("images")]);
        let want = Want { scope, queues, kinds: Some(kinds), max: 8 };
        assert_eq!(index.merge(&want, &Ids::default()), (ids(&[0]), 1));
    }

    fn ids(numbers: &[u128]) -> Vec<TaskId> {
        numbers.iter().map(|number| TaskId::from_u128(*number)).collect()
    }

    #[test]
    fn what_a_queue_holds_follows_its_tasks() {
        let mut kind_queues =
            kind_queues(&[("queue-0", "resize", &[0, 9]), ("queue-0", "crop", &[3])]);
        let tasks = |kind_queues: &ReadyIndex| {
            let polled = Waiting { queues: 1, looks: AtomicUsize::new(0) };
            kind_queues.backlogs(&polled).iter().map(|backlog| backlog.tasks).sum::<usize>()
        };
        assert_eq!(
            (tasks(&kind_queues), picked(&kind_queues, &["queue-0"], None, 9)),
            (3, vec![1, 10, 0])
        );
        assert!(kind_queues.remove(KindQueueId(0), position(9, 1)), "the head of a lane");
        assert!(!kind_queues.remove(KindQueueId(0), position(9, 1)), "once");
        assert_eq!(
            (tasks(&kind_queues), picked(&kind_queues, &["queue-0"], None, 9)),
            (2, vec![10, 0])
        );
        assert!(kind_queues.remove(KindQueueId(1), position(3, 10)), "the last of a lane");
        kind_queues.insert(KindQueueId(0), position(1, 5));
        assert_eq!(
            (tasks(&kind_queues), picked(&kind_queues, &["queue-0"], None, 9)),
            (2, vec![5, 0])
        );
        assert!(kind_queues.remove(KindQueueId(0), position(0, 0)), "the tail of a lane");
        assert!(kind_queues.remove(KindQueueId(0), position(1, 5)));
        assert_eq!((tasks(&kind_queues), picked(&kind_queues, &["queue-0"], None, 9)), (0, vec![]));
    }

    #[test]
    fn kind_queues_without_tasks_are_forgotten_but_for_the_last_ones() {
        // F77: 20,000 kinds whose tasks have ended.
        let mut kind_queues = ReadyIndex::default();
        let (scope, queue) = (Scope::default(), Name::from("images"));
        let busy = KindQueueId(u32::MAX);
        kind_queues.add(busy, &scope, &queue, &Name::from("resize"));
        kind_queues.enter(busy);
        for n in 0..20_000 {
            kind_queues.add(KindQueueId(n), &scope, &queue, &Name::from(format!("kind-{n}")));
            kind_queues.enter(KindQueueId(n));
            kind_queues.leave(KindQueueId(n));
            kind_queues.trim();
            assert!(kind_queues.kind_queues.len() <= IDLE_MAX + 1);
        }
        assert!(kind_queues.contains(busy), "whoever has a task stays, however long");
        assert!(kind_queues.contains(KindQueueId(19_999)) && !kind_queues.contains(KindQueueId(0)));
        // A kind queue that is used again stays, and becomes the last to be removed.
        let old = KindQueueId(20_000 - IDLE_MAX as u32);
        kind_queues.enter(old);
        kind_queues.leave(old);
        kind_queues.add(KindQueueId(30_000), &scope, &queue, &Name::from("new"));
        kind_queues.trim();
        assert!(kind_queues.contains(old) && !kind_queues.contains(KindQueueId(old.0 + 1)));
        assert_eq!(kind_queues.queues.len(), 1);
    }

    #[test]
    fn a_kind_queue_that_is_forgotten_leaves_nothing_behind() {
        // F77: names that were used once are removed eventually.
        let mut kind_queues = kind_queues(&[("images", "resize", &[]), ("images", "crop", &[])]);
        kind_queues.forget(KindQueueId(0));
        let (queue, kind) = (Name::from("images"), Name::from("crop"));
        assert_eq!(kind_queues.find(&Scope::default(), &queue, &Name::from("resize")), None);
        assert_eq!(kind_queues.find(&Scope::default(), &queue, &kind), Some(KindQueueId(1)));
        kind_queues.forget(KindQueueId(1));
        assert!(
            kind_queues.kind_queues.is_empty()
                && kind_queues.queues.is_empty()
                && kind_queues.book.is_empty()
        );
        assert!(kind_queues.idle.is_empty());
        kind_queues.add(KindQueueId(2), &Scope::default(), &queue, &kind);
        kind_queues.insert(KindQueueId(2), position(0, 1));
        assert_eq!(picked(&kind_queues, &["images"], None, 9), [1]);
    }
}
