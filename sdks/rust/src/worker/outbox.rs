//! Reports that wait for a call, and who makes it.
//!
//! The attempts' own runtime does, with no other thread in between: the attempt that files a report while no call is under
//! way takes the turn, and reports that are filed meanwhile share the next call. Code may block that runtime, so the
//! heartbeat thread looks while anything is here. If the task that has the turn does not run although it was woken, the
//! thread takes everything away, also what a call is under way for, and delivers it: a report that is repeated gets its first
//! answer.
//!
//! Invariant: until it is answered, a report is in one place of three: it waits, or it is in the batch of the turn, or it is an
//! orphan that the heartbeat thread delivers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::limits::BATCH_ITEMS_MAX;

use super::lease_state::locked;
use super::lease_table::LeaseTable;
use super::reports::{Batch, PendingReport, deliver_batch, gather};
use crate::{Client, Retries};

/// How long the task that has the turn may stand still before it is woken, and after that before reports that wait are taken
/// away from it: a fraction of what is left of the shortest lease when its code ends.
const STUCK_AFTER: Duration = Duration::from_millis(100);
/// And before those of its call are taken away too. Most likely they were sent, and only the answer has not been read.
const LOST_AFTER: Duration = Duration::from_millis(900);

/// The reports of one worker.
pub(crate) struct Outbox {
    /// For calls from the attempts' runtime.
    client: Client,
    retries: Retries,
    lease_table: Arc<LeaseTable>,
    /// A slot is held until its report has a place here: a slow coordinator slows the worker, and nothing grows.
    places: Semaphore,
    state: Mutex<State>,
    orphaned: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<PendingReport>,
    turn: Option<TurnState>,
    orphans: VecDeque<PendingReport>,
    is_closed: bool,
    /// Distinguishes turns.
    turns: u64,
}

/// A turn as the heartbeat thread sees it.
struct TurnState {
    number: u64,
    batch: Option<Arc<Batch>>,
    pulse: Arc<Pulse>,
    /// When it was last seen running, and after how many polls.
    seen: (Instant, u64),
    /// When it was woken since, if it was.
    woken: Option<Instant>,
}

/// Shows whether a task runs.
#[derive(Default)]
struct Pulse {
    polls: AtomicU64,
    waker: AtomicWaker,
}

/// What became of a report that was to be filed.
pub(crate) enum Filed {
    /// A call that another task makes will carry it.
    Shared,
    /// The caller makes the call.
    Turn(Turn),
    /// The worker has ended.
    Refused,
}

impl Outbox {
    pub(crate) fn new(client: Client, retries: Retries, lease_table: Arc<LeaseTable>) -> Outbox {
        Outbox {
            client,
            retries,
            lease_table,
            places: Semaphore::new(BATCH_ITEMS_MAX),
            state: Mutex::default(),
            orphaned: Notify::new(),
        }
    }

    /// Files a report for delivery. Waits while too many others wait.
    pub(crate) async fn file(self: &Arc<Self>, report: PendingReport) -> Filed {
        let Ok(place) = self.places.acquire().await else { return Filed::Refused };
        let mut state = locked(&self.state);
        if state.is_closed {
            return Filed::Refused;
        }
        place.forget();
        state.waiting.push_back(report);
        let has_turn = state.turn.is_none();
        let filed = if has_turn { Filed::Turn(self.begin(&mut state)) } else { Filed::Shared };
        drop(state);
        if has_turn {
            self.lease_table.look_soon();
        }
        filed
    }

    fn begin(self: &Arc<Self>, state: &mut State) -> Turn {
        state.turns += 1;
        let (number, pulse) = (state.turns, Arc::new(Pulse::default()));
        state.turn = Some(TurnState {
            number,
            batch: None,
            pulse: Arc::clone(&pulse),
            seen: (Instant::now(), 0),
            woken: None,
        });
        Turn { outbox: Arc::clone(self), number, pulse }
    }

    /// Whether anything is to be watched. Takes away what a turn that stands still has not delivered.
    pub(super) fn look(&self) -> bool {
        let mut state = locked(&self.state);
        let Some(turn) = &mut state.turn else { return false };
        let (still, is_calling) = (turn.stands_still(Instant::now()), turn.batch.is_some());
        if still >= LOST_AFTER || still >= STUCK_AFTER && !is_calling {
            tracing::warn!("code blocks the runtime; the heartbeat thread delivers reports");
            self.orphan(&mut state);
        } else if still >= STUCK_AFTER {
            self.orphan_waiting(&mut state);
        }
        state.turn.is_some()
    }

    fn orphan(&self, state: &mut State) {
        let batch = state.turn.take().and_then(|turn| turn.batch);
        state.orphans.extend(batch.into_iter().flat_map(|batch| batch.take()));
        self.orphan_waiting(state);
    }

    fn orphan_waiting(&self, state: &mut State) {
        self.places.add_permits(state.waiting.len());
        state.orphans.append(&mut state.waiting);
        if !state.orphans.is_empty() {
            self.orphaned.notify_one();
        }
    }

    fn close(&self) {
        let mut state = locked(&self.state);
        state.is_closed = true;
        self.orphan(&mut state);
        self.places.close();
    }

    fn next_orphans(&self) -> Option<Batch> {
        gather(&mut locked(&self.state).orphans)
    }

    /// Delivers orphans until stopped, and then everything that was filed.
    pub(super) async fn deliver_orphans(&self, client: Client, stop: CancellationToken) {
        loop {
            while let Some(batch) = self.next_orphans() {
                deliver_batch(&client, self.retries, &batch).await;
            }
            if locked(&self.state).is_closed {
                return;
            }
            tokio::select! {
                biased;
                () = self.orphaned.notified() => {}
                () = stop.cancelled() => self.close(),
            }
        }
    }
}

impl TurnState {
    /// For how long it has not run, although it was woken.
    fn stands_still(&mut self, now: Instant) -> Duration {
        let polls = self.pulse.polls.load(Ordering::Relaxed);
        if polls != self.seen.1 {
            (self.seen, self.woken) = ((now, polls), None);
        }
        if self.woken.is_none() && now - self.seen.0 >= STUCK_AFTER {
            self.woken = Some(now);
            self.pulse.waker.wake();
        }
        self.woken.map_or(Duration::ZERO, |woken| now - woken)
    }
}

/// The right to make the calls with reports, one at a time.
pub(crate) struct Turn {
    outbox: Arc<Outbox>,
    number: u64,
    pulse: Arc<Pulse>,
}

impl Turn {
    /// Makes the next call. What is filed meanwhile is delivered by a separate task: the caller has its answer.
    pub(crate) async fn deliver(self) {
        let pulse = Arc::clone(&self.pulse);
        pulse
            .shown(async {
                if self.outbox.lease_table.events.metrics.is_any_running() {
                    // What ends in the same moment shares the call.
                    let_others_run().await;
                }
                self.deliver_next().await;
            })
            .await;
        if !self.is_over() {
            tokio::spawn(async move {
                pulse.shown(async { while self.deliver_next().await {} }).await;
            });
        }
    }

    /// Whether there was something to deliver.
    async fn deliver_next(&self) -> bool {
        let Some(batch) = self.next_batch() else { return false };
        deliver_batch(&self.outbox.client, self.outbox.retries, &batch).await;
        true
    }

    fn next_batch(&self) -> Option<Arc<Batch>> {
        let mut state = locked(&self.outbox.state);
        let State { waiting, turn, .. } = &mut *state;
        let own = turn.as_mut().filter(|turn| turn.number == self.number)?;
        let waited = waiting.len();
        own.batch = gather(waiting).map(Arc::new);
        self.outbox.places.add_permits(waited - waiting.len());
        let batch = own.batch.clone();
        if batch.is_none() {
            *turn = None;
        }
        batch
    }

    /// Ends the turn if nothing waits.
    fn is_over(&self) -> bool {
        let mut state = locked(&self.outbox.state);
        if !state.waiting.is_empty() {
            return state.turn.as_ref().is_none_or(|turn| turn.number != self.number);
        }
        state.turn.take_if(|turn| turn.number == self.number);
        true
    }
}

/// A turn can end at any time: its task may be dropped with its runtime. The heartbeat thread goes on then.
impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = locked(&self.outbox.state);
        if state.turn.as_ref().is_some_and(|turn| turn.number == self.number) {
            self.outbox.orphan(&mut state);
        }
    }
}

impl Pulse {
    /// Does the work, and shows that it is polled.
    async fn shown(&self, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            self.polls.fetch_add(1, Ordering::Relaxed);
            work.as_mut().poll(cx)
        })
        .await;
    }
}

/// Lets tasks run that are ready. Unlike `yield_now`, any thread of the runtime may go on with this one.
async fn let_others_run() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
