//! Many callers of one client wait for the ends of runs, and few calls are open for all of them.
//!
//! The first few waits have a call each. Those beyond share: waits that begin within a moment are one call, which is answered
//! as soon as one of its runs has ended, and the others join the next. Nothing of a wait is stored, so a call may be dropped:
//! when a wait begins and enough calls are open, the oldest is dropped and its runs join the new one.
//!
//! Invariant: a caller that waits is in `waiters` only while a task that will answer it lives. If that task is dropped, for
//! example with its runtime, the caller is told so and makes a call of its own. Tasks are spawned only while the lock is not
//! held: a runtime that shuts down drops a new task at once, and what it holds takes the lock.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::answers::{Run, WaitAnswer};
use wire::limits::{RUNS_PER_WAIT_MAX, WAIT_MS};
use wire::requests::{WaitForRuns, WaitMs};

use super::Client;
use crate::Error;
use crate::new_run::millis;
use crate::worker::lease_state::locked;

/// The longest the coordinator holds a call open.
const WAIT_MS_MAX: u64 = *WAIT_MS.end();
/// So many waits have a call each: what a program with a few callers needs, with the least delay.
const ALONE_MAX: usize = 4;
/// Short runs end before so many calls are open; for long ones two would be enough.
const CALLS_WITH_ROOM_MAX: usize = 4;
/// Waits that begin, and runs that end, within this time share a call.
const GATHER: Duration = Duration::from_millis(1);
/// The pause after an answer that says nothing before its time: the coordinator is shutting down.
const EARLY: Duration = Duration::from_millis(100);

/// A run as a wait found it.
pub(crate) struct Found {
    pub(crate) run: Run,
    /// Calls that many waits share leave out the input and the children.
    pub(crate) is_whole: bool,
}

/// The waits of a client and its clones.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Waits with a call of their own.
    alone: usize,
    /// The coordinator is older than shared waits.
    is_unknown: bool,
    /// The coordinator is older than submissions that wait.
    submits_without_waiting: bool,
    waiters: HashMap<String, Vec<Waiter>>,
    /// Runs that the next call asks for.
    next: Vec<String>,
    /// Whether a task will make the next call.
    is_gathering: bool,
    /// The oldest first.
    open: Vec<Open>,
    /// Distinguishes waiters, and calls.
    numbers: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    /// The run, perhaps without its input; nothing if it must be asked for alone.
    reply: oneshot::Sender<Result<Option<Run>, Error>>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    runs: Vec<String>,
    dropped: CancellationToken,
}

impl Shared {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Asks for a run with the next call. Whether a task has to be started that makes it.
    fn ask(&mut self, run_id: String) -> bool {
        self.next.push(run_id);
        !std::mem::replace(&mut self.is_gathering, true)
    }

    fn take_open(&mut self, number: u64) -> Option<Open> {
        let at = self.open.iter().position(|open| open.number == number)?;
        Some(self.open.remove(at))
    }

    fn tell(&mut self, run_id: &str, what: impl Fn() -> Result<Option<Run>, Error>) {
        for waiter in self.waiters.remove(run_id).into_iter().flatten() {
            // A caller that no longer waits needs no answer.
            let _ = waiter.reply.send(what());
        }
    }

    /// An older coordinator knows no such call: each run is asked for alone then.
    fn tell_error(&mut self, asked: &[String], error: &Error) {
        let is_unknown_route = matches!(error.status(), Some(404 | 405));
        self.is_unknown |= is_unknown_route;
        for run_id in asked {
            self.tell(run_id, || if is_unknown_route { Ok(None) } else { Err(error.duplicate()) });
        }
    }
}

impl Client {
    /// The run as soon as it has ended, or as it is when `left` is over.
    pub(crate) async fn ended(&self, run_id: &str, left: Option<Duration>) -> Result<Found, Error> {
        let wait_ms = left.map_or(WAIT_MS_MAX, |left| millis(left).min(WAIT_MS_MAX));
        if wait_ms == 0 {
            return self.look(run_id, 0).await;
        }
        if let Some(_alone) = self.wait_alone() {
            return self.look(run_id, wait_ms).await;
        }
        let (_place, reply) = self.join(run_id);
        let told = timeout(Duration::from_millis(wait_ms), reply).await;
        match told {
            Ok(Ok(Ok(Some(run)))) => Ok(Found { run, is_whole: false }),
            Ok(Ok(Err(error))) => Err(error),
            // Unknown there, or no task answers any more: the run's own call says why.
            Ok(Ok(Ok(None)) | Err(_)) => self.look(run_id, wait_ms).await,
            // The run as it is now is one look away.
            Err(_) => self.look(run_id, 0).await,
        }
    }

    async fn look(&self, run_id: &str, wait_ms: u64) -> Result<Found, Error> {
        let query = WaitMs { wait_ms: Some(wait_ms) };
        let run = self.long_poll(&["v1", "runs", run_id], &query, query.wait_ms).await?;
        Ok(Found { run, is_whole: true })
    }

    /// The right to have a call of one's own: while few have one, and always at a coordinator that knows no other.
    pub(super) fn wait_alone(&self) -> Option<Alone> {
        let mut shared = locked(&self.waits.0);
        let may = shared.is_unknown || shared.alone < ALONE_MAX;
        shared.alone += usize::from(may);
        may.then(|| Alone { client: self.clone() })
    }

    pub(super) fn submissions_may_wait(&self) -> bool {
        !locked(&self.waits.0).submits_without_waiting
    }

    pub(super) fn note_submissions_cannot_wait(&self) {
        locked(&self.waits.0).submits_without_waiting = true;
    }

    fn join(&self, run_id: &str) -> (Place, oneshot::Receiver<Result<Option<Run>, Error>>) {
        let (reply, told) = oneshot::channel();
        let (number, must_gather) = {
            let mut shared = locked(&self.waits.0);
            let number = shared.number();
            let waiters = shared.waiters.entry(run_id.to_owned()).or_default();
            waiters.push(Waiter { number, reply });
            let is_first = waiters.len() == 1;
            (number, is_first && shared.ask(run_id.to_owned()))
        };
        if must_gather {
            self.gather_after(GATHER);
        }
        (Place { client: self.clone(), run_id: run_id.to_owned(), number }, told)
    }

    /// Makes the next call in a moment.
    fn gather_after(&self, delay: Duration) {
        let gathering = Gathering { client: self.clone(), is_over: false };
        tokio::spawn(async move {
            sleep(delay).await;
            gathering.begin();
        });
    }

    async fn wait_for(self, call: OpenCall, request: WaitForRuns, dropped: CancellationToken) {
        let begun = Instant::now();
        let answer = tokio::select! {
            () = dropped.cancelled() => return,
            answer = self.send_wait(&request) => answer,
        };
        let is_early = begun.elapsed() < Duration::from_millis(WAIT_MS_MAX / 2);
        if let Some(delay) = self.answered(&call, answer, &request.run_ids, is_early) {
            self.gather_after(delay);
        }
    }

    async fn send_wait(&self, request: &WaitForRuns) -> Result<WaitAnswer, Error> {
        let call = self.post(&["v1", "waits"], request)?.with_wait(request.wait_ms);
        self.transport.call(&call).await
    }

    /// Tells the callers. When the next call is to be made, if no task will make it.
    fn answered(
        &self,
        call: &OpenCall,
        answer: Result<WaitAnswer, Error>,
        asked: &[String],
        is_early: bool,
    ) -> Option<Duration> {
        let mut shared = locked(&self.waits.0);
        shared.take_open(call.number)?;
        let WaitAnswer { ended, pending, not_found, .. } = match answer {
            Ok(answer) => answer,
            Err(error) => {
                shared.tell_error(asked, &error);
                return None;
            }
        };
        for run in ended {
            shared.tell(&run.run_id, || Ok(Some(run.clone())));
        }
        for run_id in &not_found {
            shared.tell(run_id, || Ok(None));
        }
        let delay = if is_early && pending.len() == asked.len() { EARLY } else { GATHER };
        let mut must_gather = false;
        for run_id in pending {
            if shared.waiters.contains_key(&run_id) {
                must_gather |= shared.ask(run_id);
            }
        }
        must_gather.then_some(delay)
    }
}

/// A wait with a call of its own.
pub(super) struct Alone {
    client: Client,
}

impl Drop for Alone {
    fn drop(&mut self) {
        locked(&self.client.waits.0).alone -= 1;
    }
}

/// A caller that shares a call. When it is gone, a call for which nothing waits any more is dropped.
struct Place {
    client: Client,
    run_id: String,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shared = locked(&self.client.waits.0);
        let Some(waiters) = shared.waiters.get_mut(&self.run_id) else { return };
        waiters.retain(|waiter| waiter.number != self.number);
        if !waiters.is_empty() {
            return;
        }
        shared.waiters.remove(&self.run_id);
        let Shared { open, waiters, .. } = &mut *shared;
        open.retain(|open| {
            let is_needed = open.runs.iter().any(|run| waiters.contains_key(run));
            if !is_needed {
                open.dropped.cancel();
            }
            is_needed
        });
    }
}

/// The task that will make the next call.
struct Gathering {
    client: Client,
    is_over: bool,
}

impl Gathering {
    /// Sends what has gathered.
    fn begin(mut self) {
        self.is_over = true;
        for (call, request, dropped) in self.calls() {
            tokio::spawn(self.client.clone().wait_for(call, request, dropped));
        }
    }

    fn calls(&self) -> Vec<(OpenCall, WaitForRuns, CancellationToken)> {
        let mut shared = locked(&self.client.waits.0);
        shared.is_gathering = false;
        drop_oldest(&mut shared);
        let mut wanted = std::mem::take(&mut shared.next);
        wanted.retain(|run_id| shared.waiters.contains_key(run_id));
        wanted.sort_unstable();
        wanted.dedup();
        let calls = wanted.chunks(RUNS_PER_WAIT_MAX).map(|runs| {
            let (number, dropped) = (shared.number(), CancellationToken::new());
            let runs = runs.to_vec();
            shared.open.push(Open { number, runs: runs.clone(), dropped: dropped.clone() });
            let call = OpenCall { client: self.client.clone(), number };
            (call, WaitForRuns { run_ids: runs, wait_ms: Some(WAIT_MS_MAX) }, dropped)
        });
        calls.collect()
    }
}

/// Makes room for the runs of the oldest call in the next one, if enough calls are open.
fn drop_oldest(shared: &mut Shared) {
    let has_room = |open: &&Open| open.runs.len() < RUNS_PER_WAIT_MAX;
    if shared.open.iter().filter(has_room).count() < CALLS_WITH_ROOM_MAX {
        return;
    }
    if let Some(number) = shared.open.iter().find(has_room).map(|open| open.number)
        && let Some(oldest) = shared.take_open(number)
    {
        oldest.dropped.cancel();
        shared.next.extend(oldest.runs);
    }
}

/// Dropped before its time, with its runtime: those that rely on it ask for themselves.
impl Drop for Gathering {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut shared = locked(&self.client.waits.0);
        shared.is_gathering = false;
        for run_id in std::mem::take(&mut shared.next) {
            shared.waiters.remove(&run_id);
        }
    }
}

/// A call that is open until it is answered or dropped.
struct OpenCall {
    client: Client,
    number: u64,
}

/// One that is dropped with its runtime answers no caller: they ask for themselves.
impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut shared = locked(&self.client.waits.0);
        for run_id in shared.take_open(self.number).into_iter().flat_map(|open| open.runs) {
            shared.waiters.remove(&run_id);
        }
    }
}
