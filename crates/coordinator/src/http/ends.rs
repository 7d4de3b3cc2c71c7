//! Waits for the ends of runs: at most one look at each run, and then what commits say about it.
//!
//! A run that ends while its caller waits is answered from memory: what was submitted is known from the first look (or from
//! the commit that accepted the run), and how it ended comes from the commit that ended it. The store is read where that is
//! not everything: for runs with a plan, for large inputs, after refused calls, and for ends at other coordinators.
//!
//! Nothing is stored about a wait. A caller that leaves takes everything with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use store::objects::{FORK_LINKED, RETRY_LINKED};
use store::{Browse, Failure, Refused, Spec, StoredTask, TaskKey, TaskOverview};
use verdict::{Done, Name, Scope, Subject, TaskId};
use wire::answers::Run;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::byte_budget::HeldBytes;
use super::fork::linked_to;
use super::run_view::{assembled, full_view, submission};
use super::sight::Sight;
use super::stages::with_stages;
use super::steps::with_steps;
use crate::Occasion;
use crate::recent_runs::{KEPT_INPUT_BYTES_MAX, SubmittedRun};
use crate::task_watch::{End, EndedTask, News};

/// The most refusals in one answer: more would show nothing new about a run.
pub(super) const REFUSED_MAX: usize = 1_000;

/// The most refusals that are kept while a caller waits. A run with more is read again.
const KEPT_REFUSED_MAX: usize = 16;

/// What one call keeps of its runs while it waits. A run of which nothing is kept is read again when it ends.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// What is kept of a run besides its texts, and of each refusal.
const KEPT_MEMBERS_BYTES: usize = 512;

/// Runs that a routine look reads, in turn. Peers tell of ends; a look is for what they could not tell.
const LOOKED_AT_ONCE: usize = 16;

/// The runs of one caller, and what it may see.
pub(super) struct RunsWait<'a> {
    app: &'a AppState,
    scope: &'a Scope,
    sight: Sight<'a>,
    ids: &'a [TaskId],
    places: HashMap<TaskId, usize>,
    seen: Vec<Seen>,
    /// How much the ended runs may take in the answer, and take.
    bytes_max: usize,
    bytes: usize,
    /// What is kept of live runs, of this call's share and of the tenant's.
    kept: HeldBytes,
    kept_bytes: usize,
    next_look: usize,
}

/// What a caller knows of one of its runs.
pub(super) enum Seen {
    /// It has not ended, or there was no room for it. Holds what its view needs besides its end, if that is known.
    Pending(Option<Known>),
    Ended(Box<Run>),
    /// It does not exist, as far as the caller may know.
    Missing,
}

/// What a live run's view shows and its end does not change.
pub(super) struct Known {
    run: Arc<SubmittedRun>,
    /// The latest closed attempt and its worker.
    latest: Option<(u32, Name)>,
    refused: Vec<Refused>,
}

impl<'a> RunsWait<'a> {
    /// `ids` holds each id once.
    pub(super) fn new(
        app: &'a AppState,
        scope: &'a Scope,
        sight: Sight<'a>,
        ids: &'a [TaskId],
        bytes_max: usize,
    ) -> Self {
        let places = ids.iter().copied().zip(0..).collect();
        let seen = ids.iter().map(|_| Seen::Pending(None)).collect();
        let kept = app.inner.waits.begin(&scope.tenant);
        let (bytes, kept_bytes, next_look) = (0, 0, 0);
        Self { app, scope, sight, ids, places, seen, bytes_max, bytes, kept, kept_bytes, next_look }
    }

    /// Waits until at least one run has ended or is missing, or the time is over. One result per id.
    pub(super) async fn run(mut self, wait: Duration) -> Result<Vec<Seen>, ApiError> {
        // Before the first look, so that no end in between is missed.
        let watch = self.app.coordinator.watch_ends(self.ids);
        let deadline = tokio::time::Instant::now() + wait;
        for place in 0..self.ids.len() {
            self.look(place, Occasion::Routine).await?;
        }
        while self.seen.iter().all(|seen| matches!(seen, Seen::Pending(_))) {
            match self.app.coordinator.next_end(&watch, deadline).await {
                Some(Occasion::Woken) => self.learn(watch.take_news()).await?,
                Some(Occasion::Routine) => self.look_at_some().await?,
                None => break,
            }
        }
        Ok(self.seen)
    }

    async fn learn(&mut self, news: News) -> Result<(), ApiError> {
        let News { ends, is_refused } = news;
        for end in ends {
            let (id, committed) = match &end {
                End::Committed(ended) => (ended.done.id, Some(ended)),
                End::Stored(id) => (*id, None),
            };
            let Some(&place) = self.places.get(&id) else { continue };
            let Seen::Pending(known) = &self.seen[place] else { continue };
            let known = known.as_ref().filter(|_| !is_refused).zip(committed);
            match known.and_then(|(known, ended)| self.remembered(known, ended)) {
                Some(run) => self.add(place, run),
                None => self.look(place, Occasion::Woken).await?,
            }
        }
        Ok(())
    }

    /// The ended run as the store would show it; `None` if only the store can.
    fn remembered(&self, known: &Known, ended: &EndedTask) -> Option<Run> {
        let EndedTask { done, closed } = ended;
        let Known { run, latest, refused } = known;
        let has_plan = done.run.as_deref().is_some_and(|run| run.plan.is_some());
        // A worker that lost an attempt may have been refused at a peer.
        let is_known_to_peers = done.attempt > 1 && self.app.coordinator.has_peers();
        if has_plan || is_known_to_peers {
            return None;
        }
        let closed = closed.as_ref().map(|closed| (closed.attempt, &closed.owner));
        let latest = closed.or(latest.as_ref().map(|(attempt, owner)| (*attempt, owner)));
        let worker = worker_of(done, latest)?;
        let task = StoredTask { subject: Subject::Done(done.clone()), spec: run.spec.clone() };
        let now = self.app.server_time();
        assembled(&task, Some(&run.submitted), worker, refused.clone(), now)
    }

    /// A look at the next few runs that may have ended elsewhere.
    async fn look_at_some(&mut self) -> Result<(), ApiError> {
        for _ in 0..self.ids.len().min(LOOKED_AT_ONCE) {
            self.look(self.next_look, Occasion::Woken).await?;
            self.next_look = (self.next_look + 1) % self.ids.len();
        }
        Ok(())
    }

    /// Looks at one run: at first in what is known of recent runs, else in the store.
    async fn look(&mut self, place: usize, occasion: Occasion) -> Result<(), ApiError> {
        if self.bytes >= self.bytes_max {
            return Ok(());
        }
        let id = self.ids[place];
        let recent = match occasion {
            Occasion::Routine => self.app.coordinator.recent_run(id),
            Occasion::Woken => None,
        };
        // What is known of a run in memory does not say where its children are.
        let is_known =
            |run: &Arc<SubmittedRun>| self.sight.is_whole() && run.submitted.scope == *self.scope;
        if let Some(run) = recent.filter(is_known) {
            let known = Known { run, latest: None, refused: Vec::new() };
            self.keep(place, Some(known));
            return Ok(());
        }
        let key = TaskKey { scope: self.scope.clone(), id };
        match self.visible(&key).await? {
            None => self.seen[place] = Seen::Missing,
            Some(live) if live.task.subject.live().is_some() => {
                let known = Known::of(live).filter(|_| self.sight.is_whole());
                self.keep(place, known);
            }
            Some(ended) => {
                let read = complete_view(self.app, &key, ended);
                match self.app.read(read).await? {
                    Some(run) => self.add(place, run),
                    None => self.seen[place] = Seen::Missing,
                }
            }
        }
        Ok(())
    }

    /// A run that the caller may see.
    async fn visible(&self, key: &TaskKey) -> Result<Option<TaskOverview>, ApiError> {
        let browse = self.app.coordinator.browse();
        let reading = async {
            let Some(found) = browse.overview(key, REFUSED_MAX).await? else { return Ok(None) };
            Ok(self.sight.sees(browse, &found.task.subject).await?.then_some(found))
        };
        self.app.read(reading).await
    }

    /// The run has not ended. What is known of it is kept if there is room for that.
    fn keep(&mut self, place: usize, known: Option<Known>) {
        let before = match &self.seen[place] {
            Seen::Pending(Some(known)) => known.bytes(),
            _ => 0,
        };
        self.kept_bytes -= before;
        self.kept.shrink(before);
        let known = known.filter(|known| {
            let bytes = known.bytes();
            self.kept_bytes + bytes <= KEPT_BYTES_MAX && self.kept.grow(bytes).is_ok()
        });
        self.kept_bytes += known.as_ref().map_or(0, Known::bytes);
        self.seen[place] = Seen::Pending(known);
    }

    /// Adds an ended run if there is room for it.
    fn add(&mut self, place: usize, run: Run) {
        let bytes = self.bytes + answer_bytes(&run);
        if self.bytes == 0 || bytes <= self.bytes_max {
            self.bytes = bytes;
            self.seen[place] = Seen::Ended(Box::new(run));
        }
    }
}

impl Known {
    /// `None` for what is too large to be kept while a caller waits.
    fn of(overview: TaskOverview) -> Option<Self> {
        let TaskOverview { task, first, latest, refused } = overview;
        let is_small = task.spec.input.as_str().len() <= KEPT_INPUT_BYTES_MAX
            && refused.len() <= KEPT_REFUSED_MAX;
        if !is_small {
            return None;
        }
        let at = first.as_ref()?.at;
        let submitted = submission(first?)?;
        let run = Arc::new(SubmittedRun { submitted, spec: task.spec, at });
        let latest = latest.map(|closed| (closed.attempt, closed.owner));
        Some(Self { run, latest, refused })
    }
}

impl Known {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let Spec { input, goal, labels, traceparent, .. } = &self.run.spec;
        let texts = [goal, traceparent].into_iter().flatten().map(|text| text.as_str().len());
        let labels: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let members = (1 + self.refused.len()) * KEPT_MEMBERS_BYTES;
        members + input.as_str().len() + labels + texts.sum::<usize>()
    }
}

/// The worker of the last attempt: `Some(None)` if there was no attempt, `None` if it is not known.
fn worker_of<'a>(done: &Done, latest: Option<(u32, &'a Name)>) -> Option<Option<&'a Name>> {
    match (done.attempt, latest) {
        (0, _) => Some(None),
        (last, Some((attempt, owner))) if attempt == last => Some(Some(owner)),
        _ => None,
    }
}

/// What the variable parts of a run take in an answer, and something for the rest.
fn answer_bytes(run: &Run) -> usize {
    const MEMBERS: usize = 1_024;
    let output = run.output.as_ref().map_or(0, |output| output.text().len());
    let error = run
        .error
        .as_ref()
        .map_or(0, |error| error.message.len() + error.stack_trace.as_ref().map_or(0, String::len));
    MEMBERS + output + error
}

/// The run with everything that only the store knows of it.
pub(super) async fn complete_view(
    app: &AppState,
    key: &TaskKey,
    overview: TaskOverview,
) -> Result<Option<Run>, Failure> {
    let subject = overview.task.subject.clone();
    let Some(run) = full_view(overview, app.server_time()) else { return Ok(None) };
    let browse = app.coordinator.browse();
    let run = with_stages(browse, key, &subject, run).await?;
    let run = with_steps(browse, key, &subject, run).await?;
    with_forks(app, key, run).await.map(Some)
}

/// Only a run that ended without success may have been continued or repeated.
async fn with_forks(app: &AppState, key: &TaskKey, run: Run) -> Result<Run, Failure> {
    use wire::State::{Cancelled, Failed, Halted};
    if !matches!(run.state, Failed | Halted | Cancelled) {
        return Ok(run);
    }
    let browse = app.coordinator.browse();
    let forks = linked_to(browse, &key.scope, &run.run_id, FORK_LINKED).await?;
    let retries = linked_to(browse, &key.scope, &run.run_id, RETRY_LINKED).await?;
    Ok(Run { forks, retries, ..run })
}

/// One run that the caller sees when it has ended; `None` if it has not when the time is over, or is missing.
pub(super) async fn ended_run(
    app: &AppState,
    key: &TaskKey,
    sight: Sight<'_>,
    wait: Duration,
) -> Result<Option<Run>, ApiError> {
    let ids = [key.id];
    let waiting = RunsWait::new(app, &key.scope, sight, &ids, usize::MAX);
    let seen = waiting.run(wait).await?.pop().expect("one id has one result");
    Ok(match seen {
        Seen::Ended(run) => Some(*run),
        Seen::Pending(_) | Seen::Missing => None,
    })
}
