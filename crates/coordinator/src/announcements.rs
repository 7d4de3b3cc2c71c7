//! What workers announced that they can do: kinds with their schemas and versions, and the build that they run.
//!
//! Like polls, announcements exist in memory only, and are those that were made here. An announcement describes: what is granted
//! depends on it only for kinds whose runs are pinned to a build ([`WorkerBuild`]). A worker that is silent for longer than any poll takes is forgotten.
//!
//! Workers of one build announce the same, so equal announcements are kept once. What one scope may take is bounded; beyond
//! it, the worker that was silent longest is forgotten, and announces again with its next poll.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use verdict::{Digest, Name, Scope, Span, Time};
use wire::Builds;
use wire::requests::Announcement;

use crate::worker_build::WorkerBuild;

/// How long a worker may be silent: four times the longest poll.
const SILENCE_MAX: Span = Span::from_secs(120);

/// Workers of one scope that are remembered.
const WORKERS_MAX: usize = 10_000;

/// What different announcements of one scope may take: that of some dozen builds with large schemas.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the names of the queues of one scope's workers may take: ten thousand workers with a few queues each. They are walked
/// through for a list, while others wait.
const QUEUE_BYTES_MAX: usize = 1024 * 1024;

/// Each scope has a lock of its own: a walk over ten thousand workers of one scope keeps no poll of another waiting.
#[derive(Default)]
pub(crate) struct Announcements(Mutex<HashMap<Scope, Arc<Mutex<OfScope>>>>);

#[derive(Default)]
struct OfScope {
    workers: HashMap<Name, Announced>,
    contents: HashMap<Digest, Arc<Content>>,
    bytes: usize,
    queue_bytes: usize,
}

/// An announcement, and what it takes.
struct Content {
    announcement: Announcement,
    build: Option<Arc<WorkerBuild>>,
    bytes: usize,
}

/// An announcement that is known here.
pub(crate) struct Known {
    /// The build, if it matters for some of the kinds.
    pub(crate) build: Option<Arc<WorkerBuild>>,
}

struct Announced {
    content: Arc<Content>,
    queues: Vec<Name>,
    seen_at: Time,
}

/// Workers that announced the same.
pub(crate) struct SameBuild {
    content: Arc<Content>,
    pub(crate) queues: BTreeSet<Name>,
    pub(crate) workers: u64,
    pub(crate) last_seen_at: Time,
}

impl SameBuild {
    pub(crate) fn announcement(&self) -> &Announcement {
        &self.content.announcement
    }
}

impl Announcements {
    /// Remembers what a worker announces, in place of what it announced before.
    pub(crate) fn announce(
        &self,
        scope: &Scope,
        worker: &Name,
        queues: Vec<Name>,
        announcement: Announcement,
        now: Time,
    ) -> Known {
        let text = serde_json::to_vec(&announcement).expect("what was parsed can be written");
        let (digest, bytes) = (Digest::of(&[text.as_slice()]), text.len());
        let of_scope = self.lock().entry(scope.clone()).or_default().clone();
        let mut of_scope = of_scope.lock().expect(UNBROKEN);
        of_scope.expire(now);
        of_scope.forget(worker);
        let content = match of_scope.contents.get(&digest) {
            Some(known) => known.clone(),
            None => {
                of_scope.bytes += bytes;
                let build = build_of(&announcement).map(Arc::new);
                let content = Arc::new(Content { announcement, build, bytes });
                of_scope.contents.insert(digest, content.clone());
                content
            }
        };
        let build = content.build.clone();
        of_scope.queue_bytes += bytes_of(&queues);
        of_scope.workers.insert(worker.clone(), Announced { content, queues, seen_at: now });
        of_scope.shrink(worker);
        Known { build }
    }

    /// What the worker announced, if it has this id. If so, the worker was seen now.
    pub(crate) fn known(
        &self,
        scope: &Scope,
        worker: &Name,
        queues: &[String],
        id: &str,
        now: Time,
    ) -> Option<Known> {
        let of_scope = self.lock().get(scope)?.clone();
        let mut of_scope = of_scope.lock().expect(UNBROKEN);
        let of_scope = &mut *of_scope;
        let announced = of_scope.workers.get_mut(worker);
        let announced = announced.filter(|it| it.content.announcement.id == id)?;
        announced.seen_at = announced.seen_at.max(now);
        let build = announced.content.build.clone();
        let is_same = announced.queues.iter().map(Name::as_str).eq(queues.iter());
        if !is_same {
            of_scope.queue_bytes -= bytes_of(&announced.queues);
            announced.queues = queues.iter().map(|queue| Name::from(queue.as_str())).collect();
            of_scope.queue_bytes += bytes_of(&announced.queues);
            of_scope.shrink(worker);
        }
        Some(Known { build })
    }

    /// What the workers of a scope announced, as far as they poll `queues` if it is given.
    pub(crate) fn list(&self, scope: &Scope, queues: Option<&[Name]>, now: Time) -> Vec<SameBuild> {
        let Some(shared) = self.lock().get(scope).cloned() else { return Vec::new() };
        let mut of_scope = shared.lock().expect(UNBROKEN);
        of_scope.expire(now);
        if of_scope.workers.is_empty() {
            drop(of_scope);
            self.remove_unused(scope, &shared);
            return Vec::new();
        }
        let mut builds: HashMap<*const Content, SameBuild> = HashMap::new();
        for Announced { content, queues: polled, seen_at } in of_scope.workers.values() {
            let is_shown = |queue: &&Name| queues.is_none_or(|queues| queues.contains(queue));
            let shown: Vec<&Name> = polled.iter().filter(is_shown).collect();
            if shown.is_empty() {
                continue;
            }
            let build = builds.entry(Arc::as_ptr(content)).or_insert_with(|| SameBuild {
                content: content.clone(),
                queues: BTreeSet::new(),
                workers: 0,
                last_seen_at: *seen_at,
            });
            build.queues.extend(shown.into_iter().cloned());
            build.workers += 1;
            build.last_seen_at = build.last_seen_at.max(*seen_at);
        }
        builds.into_values().collect()
    }

    /// Nothing is kept of a scope without workers, unless another call has just found it here.
    fn remove_unused(&self, scope: &Scope, shared: &Arc<Mutex<OfScope>>) {
        /// The map, and the caller.
        const OWNERS: usize = 2;
        let mut scopes = self.lock();
        let is_unused = Arc::strong_count(shared) == OWNERS
            && shared.lock().expect(UNBROKEN).workers.is_empty();
        if is_unused {
            scopes.remove(scope);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, Arc<Mutex<OfScope>>>> {
        self.0.lock().expect(UNBROKEN)
    }
}

const UNBROKEN: &str = "no code panics while it holds announcements";

/// The build of an announcement; `None` if no kind says that it matters.
fn build_of(announcement: &Announcement) -> Option<WorkerBuild> {
    let Announcement { id: _, build_id, kinds } = announcement;
    let said = kinds.iter().filter_map(|it| Some((Name::from(it.kind.as_str()), it.builds?)));
    let mut kinds = said.map(|(kind, builds)| (kind, builds == Builds::Pin)).peekable();
    kinds.peek()?;
    Some(WorkerBuild::new(Name::from(build_id.as_deref()?), kinds))
}

fn bytes_of(queues: &[Name]) -> usize {
    queues.iter().map(|queue| queue.as_str().len()).sum()
}

impl OfScope {
    fn expire(&mut self, now: Time) {
        let queue_bytes = &mut self.queue_bytes;
        self.workers.retain(|_, it| {
            let is_kept = it.seen_at.plus(SILENCE_MAX) >= now;
            if !is_kept {
                *queue_bytes -= bytes_of(&it.queues);
            }
            is_kept
        });
        self.drop_unused();
    }

    fn forget(&mut self, worker: &Name) {
        if let Some(forgotten) = self.workers.remove(worker) {
            self.queue_bytes -= bytes_of(&forgotten.queues);
        }
    }

    fn is_too_large(&self) -> bool {
        self.workers.len() > WORKERS_MAX
            || self.bytes > BYTES_MAX
            || self.queue_bytes > QUEUE_BYTES_MAX
    }

    /// Forgets those who were silent longest, but not `newest`, until the rest fits.
    fn shrink(&mut self, newest: &Name) {
        self.drop_unused();
        while self.is_too_large() {
            let others = self.workers.iter().filter(|(worker, _)| *worker != newest);
            let oldest = others.min_by_key(|(worker, it)| (it.seen_at, (*worker).clone()));
            let Some(oldest) = oldest.map(|(worker, _)| worker.clone()) else { return };
            self.forget(&oldest);
            self.drop_unused();
        }
    }

    fn drop_unused(&mut self) {
        let bytes = &mut self.bytes;
        self.contents.retain(|_, content| {
            let is_used = Arc::strong_count(content) > 1;
            if !is_used {
                *bytes -= content.bytes;
            }
            is_used
        });
    }
}

#[cfg(test)]
mod tests {
    use wire::requests::AnnouncedKind;

    use super::*;

    fn announcement(id: &str, kind: &str) -> Announcement {
        let kind = AnnouncedKind { kind: kind.to_owned(), ..AnnouncedKind::default() };
        Announcement { id: id.to_owned(), build_id: None, kinds: vec![kind] }
    }

    fn scope() -> Scope {
        Scope::new("t", "w")
    }

    fn of_scope(all: &Announcements, read: impl Fn(&OfScope) -> usize) -> usize {
        let shared = all.lock()[&scope()].clone();
        let of_scope = shared.lock().unwrap();
        read(&of_scope)
    }

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1_000)
    }

    fn announce(all: &Announcements, worker: &str, said: Announcement, now: Time) {
        all.announce(&scope(), &worker.into(), vec!["q".into()], said, now);
    }

    fn known(all: &Announcements, worker: &str, id: &str, now: Time) -> bool {
        all.known(&scope(), &worker.into(), &["q".to_owned()], id, now).is_some()
    }

    #[test]
    fn equal_announcements_are_kept_once_and_counted_by_worker() {
        let all = Announcements::default();
        for worker in ["a", "b"] {
            announce(&all, worker, announcement("1", "k"), at(0));
        }
        announce(&all, "c", announcement("1", "other"), at(1));
        assert_eq!(of_scope(&all, |it| it.contents.len()), 2, "an id may name two contents");
        let mut workers: Vec<u64> =
            all.list(&scope(), None, at(1)).iter().map(|build| build.workers).collect();
        workers.sort_unstable();
        assert_eq!(workers, [1, 2]);
        assert!(all.list(&scope(), Some(&["x".into()]), at(1)).is_empty());
        assert!(all.list(&Scope::new("u", "w"), None, at(1)).is_empty());
    }

    #[test]
    fn a_walk_over_the_workers_of_one_scope_keeps_no_other_waiting() {
        let all = Announcements::default();
        announce(&all, "a", announcement("1", "k"), at(0));
        let walked = all.lock()[&scope()].clone();
        let walking = walked.lock().unwrap();
        let other = Scope::new("u", "w");
        all.announce(&other, &"b".into(), vec!["q".into()], announcement("1", "k"), at(0));
        assert!(all.known(&other, &"b".into(), &["q".to_owned()], "1", at(0)).is_some());
        assert_eq!(all.list(&other, None, at(0)).len(), 1);
        drop(walking);
        assert!(known(&all, "a", "1", at(0)));
    }

    #[test]
    fn a_silent_worker_is_forgotten_and_one_that_polls_is_not() {
        let all = Announcements::default();
        announce(&all, "a", announcement("1", "k"), at(0));
        announce(&all, "b", announcement("1", "k"), at(0));
        assert!(known(&all, "a", "1", at(100)) && !known(&all, "a", "2", at(100)));
        let listed = all.list(&scope(), None, at(121));
        assert_eq!((listed.len(), listed[0].workers), (1, 1));
        assert!(!known(&all, "b", "1", at(121)));
        assert!(all.list(&scope(), None, at(221)).is_empty());
        assert!(all.lock().is_empty(), "nothing is kept of a scope without workers");
    }

    #[test]
    fn beyond_the_bound_the_one_that_was_silent_longest_is_forgotten() {
        let all = Announcements::default();
        let large = |n: usize| announcement("1", &format!("{n}{}", "k".repeat(BYTES_MAX / 4)));
        for n in 0..6 {
            announce(&all, &format!("w{n}"), large(n), at(n as i64));
        }
        assert!(of_scope(&all, |it| it.bytes) <= BYTES_MAX);
        assert!(!known(&all, "w0", "1", at(6)) && known(&all, "w5", "1", at(6)));
    }

    #[test]
    fn names_of_queues_are_bounded_however_they_come() {
        let all = Announcements::default();
        let name = |n: usize| format!("{n:0>100}");
        let many = |n: usize| (0..32).map(|queue| name(100 * n + queue)).collect::<Vec<_>>();
        for n in 0..500 {
            let queues = many(n).iter().map(|queue| Name::from(queue.as_str())).collect();
            let worker = Name::from(format!("w{n}"));
            all.announce(&scope(), &worker, queues, announcement("1", "k"), at(0));
        }
        let bytes = || of_scope(&all, |it| it.queue_bytes);
        assert!(bytes() <= QUEUE_BYTES_MAX && bytes() > QUEUE_BYTES_MAX / 2, "{}", bytes());
        let before = bytes();
        let polled = all.known(&scope(), &"w499".into(), &many(900), "1", at(1));
        assert!(polled.is_some(), "the newest stays");
        assert_eq!(bytes(), before, "other queues of the same worker take the place of its queues");
        all.list(&scope(), None, at(200));
        assert!(all.lock().is_empty());
    }
}
