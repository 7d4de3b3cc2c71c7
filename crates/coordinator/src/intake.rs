//! Where requests wait for the next batch.
//!
//! Two bounded lanes: calls of workers that hold a lease, and everything else. When the coordinator
//! is overloaded it refuses new work long before it refuses a heartbeat or a report, because those
//! release load. Nothing waits here by a timer: a batch is what was waiting when the last one ended.
//!
//! Both lanes lead to one carrier, or each to one of its own.

use std::task::Poll as Polled;

use store::{Administration, TaskKey};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use verdict::{LeaseId, Name, Request, Scope, Time};

use crate::item::{Granted, Group, Item, Poll, Reply, Trouble, WaitingPoll};

/// Callers that may wait with new work. At 2 ms a batch of a thousand this is under ten
/// milliseconds of queue; more would only make answers later, not more.
const NEW_WORK_WAITING_MAX: usize = 4_096;

/// Callers that may wait with heartbeats, starts and reports: four times as patient.
pub(crate) const LEASED_WAITING_MAX: usize = 16_384;

/// One lane's traffic.
#[derive(Debug)]
pub(crate) enum Arrival {
    Group(Group),
    Poll(WaitingPoll),
    /// Written in a transaction of its own, between two batches.
    Administer {
        act: Administration,
        reply: oneshot::Sender<Result<(), Trouble>>,
    },
    /// Answered when the batch it arrived in is through: proof that the carrier moves.
    Nudge(oneshot::Sender<()>),
    /// Answered with how many polls want such a task now.
    Polling(Polling),
    /// Tasks that were submitted at these times have ended by another carrier's batch.
    Ended {
        created: Vec<Time>,
        at: Time,
    },
    /// Nothing will come after this.
    Close,
}

impl Arrival {
    /// Whoever has hung up has nobody to tell.
    fn refuse(self) {
        match self {
            Arrival::Group(Group { items, reply }) => {
                drop(reply.send(vec![Err(Trouble::ShuttingDown); items.len()]));
            }
            Arrival::Administer { reply, .. } => drop(reply.send(Err(Trouble::ShuttingDown))),
            // These are told by being let go.
            Arrival::Poll(_)
            | Arrival::Nudge(_)
            | Arrival::Polling(_)
            | Arrival::Ended { .. }
            | Arrival::Close => {}
        }
    }
}

/// The question whether anybody would take a task.
#[derive(Debug)]
pub(crate) struct Polling {
    pub(crate) scope: Scope,
    pub(crate) queue: Name,
    pub(crate) kind: Name,
    pub(crate) reply: oneshot::Sender<usize>,
}

/// The sending side, shared by all callers.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    leased: mpsc::Sender<Arrival>,
    new_work: mpsc::Sender<Arrival>,
    draining: tokio_util::sync::CancellationToken,
    ends: Ends,
}

/// Where the lanes lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// To one carrier.
    Joined,
    /// Each to a carrier of its own.
    Apart,
}

/// The receiving side, owned by a carrier: its lanes, the more urgent first.
#[derive(Debug)]
pub(crate) struct Outlet {
    lanes: Vec<mpsc::Receiver<Arrival>>,
    pub(crate) draining: tokio_util::sync::CancellationToken,
}

/// Both lanes, for one carrier.
pub(crate) fn joined() -> (Intake, Outlet) {
    let (intake, leased, new_work) = lanes(Ends::Joined);
    let lanes = leased.lanes.into_iter().chain(new_work.lanes).collect();
    (intake, Outlet { lanes, ..leased })
}

/// The lanes for two carriers: for calls under a lease, and for new work.
pub(crate) fn apart() -> (Intake, Outlet, Outlet) {
    lanes(Ends::Apart)
}

fn lanes(ends: Ends) -> (Intake, Outlet, Outlet) {
    let (leased, leased_outlet) = mpsc::channel(LEASED_WAITING_MAX);
    let (new_work, new_work_outlet) = mpsc::channel(NEW_WORK_WAITING_MAX);
    let draining = tokio_util::sync::CancellationToken::new();
    let outlet = |lane| Outlet { lanes: vec![lane], draining: draining.clone() };
    let (leased_outlet, new_work_outlet) = (outlet(leased_outlet), outlet(new_work_outlet));
    (Intake { leased, new_work, draining, ends }, leased_outlet, new_work_outlet)
}

impl Outlet {
    /// The next arrival, from the most urgent lane that has one. `None` when nobody is left to send.
    pub(crate) async fn next(&mut self) -> Option<Arrival> {
        std::future::poll_fn(|context| {
            let mut lanes = self.lanes.iter_mut().map(|lane| lane.poll_recv(context));
            lanes.find(Polled::is_ready).unwrap_or(Polled::Pending)
        })
        .await
    }

    /// The same, if there is one already.
    pub(crate) fn next_waiting(&mut self) -> Option<Arrival> {
        self.lanes.iter_mut().find_map(|lane| lane.try_recv().ok())
    }

    /// Nothing new comes in.
    pub(crate) fn close(&mut self) {
        self.lanes.iter_mut().for_each(mpsc::Receiver::close);
    }

    /// What still came in before the lanes were closed. Waits for those who have their place in a lane and have
    /// put nothing there yet: what they put there later nobody would take, and they would wait for ever.
    pub(crate) async fn last(&mut self) -> Option<Arrival> {
        for lane in &mut self.lanes {
            if let Some(arrival) = lane.recv().await {
                return Some(arrival);
            }
        }
        None
    }

    /// Nobody is left to decide: who still waits here is refused, since nothing was written for it.
    pub(crate) async fn refuse_the_rest(&mut self) {
        self.close();
        while let Some(arrival) = self.last().await {
            arrival.refuse();
        }
    }
}

impl Intake {
    /// Refuses new work from now on; calls under a lease still come through.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Answers each item in order, after their batch is durable.
    pub(crate) async fn ask(&self, items: Vec<Item>) -> Vec<Reply> {
        let count = items.len();
        if count == 0 {
            return Vec::new();
        }
        let is_leased = items.iter().all(holds_lease) && !faultpoint::mutant(45);
        let lane = if is_leased { &self.leased } else { &self.new_work };
        let (reply, answers) = oneshot::channel();
        let sent = self.send(lane, Arrival::Group(Group { items, reply }));
        match sent {
            Err(trouble) => vec![Err(trouble); count],
            // A carrier that stopped without answering may have committed.
            Ok(()) => answers.await.unwrap_or_else(|_| vec![Err(Trouble::Unknown); count]),
        }
    }

    pub(crate) async fn poll(&self, poll: Poll) -> Result<Vec<Granted>, Trouble> {
        let (reply, granted) = oneshot::channel();
        self.send(&self.new_work, Arrival::Poll(WaitingPoll { poll, reply }))?;
        let mut taker = Taker { intake: self, granted };
        (&mut taker.granted).await.unwrap_or(Err(Trouble::ShuttingDown))
    }

    /// Answers when the act is durable.
    pub(crate) async fn administer(&self, act: Administration) -> Result<(), Trouble> {
        let (reply, written) = oneshot::channel();
        self.send(&self.new_work, Arrival::Administer { act, reply })?;
        // A carrier that stopped without answering may have committed.
        written.await.unwrap_or(Err(Trouble::Unknown))
    }

    /// Sends without waiting for an answer; used for what must not be forgotten but has no caller.
    fn tell(&self, items: Vec<Item>) -> Result<(), Trouble> {
        let (reply, _) = oneshot::channel();
        self.send(&self.leased, Arrival::Group(Group { items, reply }))
    }

    /// Gives back grants whose answer could not be handed over. Best effort: the lease's own end
    /// does the same, later.
    pub(crate) fn hand_back(&self, grants: impl Iterator<Item = (TaskKey, LeaseId)>) {
        let items: Vec<Item> = grants.map(|(key, lease)| Item::undelivered(key, lease)).collect();
        if items.is_empty() {
            return;
        }
        if let Err(trouble) = self.tell(items) {
            tracing::debug!(%trouble, "undelivered grants are left to expire");
        }
    }

    /// Waits until every carrier has gone round once.
    pub(crate) async fn nudge(&self) -> Result<(), Trouble> {
        self.nudge_leased().await?;
        if self.ends == Ends::Joined {
            return Ok(());
        }
        let (reply, moved) = oneshot::channel();
        // Waits for its place: a full lane is no sign that its carrier stands still.
        let sent = self.new_work.send(Arrival::Nudge(reply)).await;
        sent.map_err(|_| Trouble::ShuttingDown)?;
        moved.await.map_err(|_| Trouble::ShuttingDown)
    }

    /// Waits until the carrier of calls under a lease has gone round once.
    pub(crate) async fn nudge_leased(&self) -> Result<(), Trouble> {
        let (reply, moved) = oneshot::channel();
        self.send(&self.leased, Arrival::Nudge(reply))?;
        moved.await.map_err(|_| Trouble::ShuttingDown)
    }

    /// Tells the carrier that forgets what has ended. Best effort: what is not counted is kept a little longer.
    pub(crate) fn note_ends(&self, created: Vec<Time>, at: Time) {
        let _ = self.leased.try_send(Arrival::Ended { created, at });
    }

    /// How many polls are waiting that want tasks of this scope, queue and kind.
    pub(crate) async fn polling(
        &self,
        scope: Scope,
        queue: Name,
        kind: Name,
    ) -> Result<usize, Trouble> {
        let (reply, count) = oneshot::channel();
        // Asked until the end: whoever drains still has polls to tell of.
        let asked = Arrival::Polling(Polling { scope, queue, kind, reply });
        self.new_work.try_send(asked).map_err(refused)?;
        count.await.map_err(|_| Trouble::ShuttingDown)
    }

    /// Tells the carrier to end after what is already waiting. Of two the one for new work, which tells the other
    /// when it needs it no more.
    pub(crate) async fn close(&self) {
        let lane = match self.ends {
            Ends::Apart if !faultpoint::mutant(43) => &self.new_work,
            Ends::Joined | Ends::Apart => &self.leased,
        };
        // A lane that is closed already needs no telling.
        let _ = lane.send(Arrival::Close).await;
    }

    /// Tells the carrier of calls under a lease to end after what is already waiting.
    pub(crate) async fn close_leased(&self) {
        let _ = self.leased.send(Arrival::Close).await;
    }

    pub(crate) fn draining(&self) -> &tokio_util::sync::CancellationToken {
        &self.draining
    }

    fn send(&self, lane: &mpsc::Sender<Arrival>, arrival: Arrival) -> Result<(), Trouble> {
        let new_work = lane.same_channel(&self.new_work);
        if (new_work || faultpoint::mutant(6)) && self.is_draining() {
            return Err(Trouble::ShuttingDown);
        }
        lane.try_send(arrival).map_err(refused)
    }
}

fn refused(why: TrySendError<Arrival>) -> Trouble {
    match why {
        TrySendError::Full(_) => Trouble::Overloaded,
        TrySendError::Closed(_) => Trouble::ShuttingDown,
    }
}

/// A caller that waits for grants. If it leaves after they were sent and before it took them, they
/// are handed back instead of being left to run out.
struct Taker<'a> {
    intake: &'a Intake,
    granted: oneshot::Receiver<Result<Vec<Granted>, Trouble>>,
}

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if let Ok(Ok(granted)) = self.granted.try_recv() {
            self.intake.hand_back(granted.iter().map(|it| (it.key(), it.lease())));
        }
    }
}

fn holds_lease(item: &Item) -> bool {
    item.quoted_lease().is_some()
        || matches!(item, Item::About { request: Request::Undelivered(_), .. })
}
