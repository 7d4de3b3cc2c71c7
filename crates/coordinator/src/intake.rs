//! The intake: where requests wait for the next batch.
//!
//! It has two bounded priority classes: calls of workers that hold a lease, and everything else. An overloaded
//! coordinator refuses new work long before it refuses a heartbeat or a report, because those release load. No
//! timer delays a request: a batch takes everything that waited when the previous one ended, up to what one commit takes.
//! Each class has a share of every commit, so a flood in one of them delays the other by no more than a longer commit. Within a
//! class the tenants take turns ([`lines`]).
//!
//! One carrier serves both classes, or two carriers serve one each.

mod lines;

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll as Polled};

#[cfg(feature = "http")]
use store::RecordSeal;
use store::{Administration, TaskKey};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use verdict::{LeaseId, Name, Scope, Time};

use self::lines::Lines;
use crate::carry::ObjectCall;
use crate::item::{BatchGrant, Group, Item, Poll, Reply, RequestError, WaitingPage, WaitingPoll};
use crate::outbox::{EndpointDirectory, Endpoints};
use crate::weight::{BATCH_WEIGHT_MAX, LIST_OF_POLLS_WEIGHT};

/// How many callers may arrive with new work between two batches, and [twice](LINES_PER_ARRIVAL) as many may wait in lines. At 2 ms
/// per batch of a thousand this is less than thirty milliseconds of queue; a longer queue would delay answers without adding
/// throughput.
const NEW_WORK_WAITING_MAX: usize = 4_096;

/// How many callers may wait with heartbeats, starts and reports: four times as many.
pub(crate) const LEASED_WAITING_MAX: usize = 16_384;

/// How many may wait in lines for each that may arrive. Room to arrive is everybody's, lines are a tenant's own: those that arrive are
/// put into lines with every batch, and when the lines are full the tenant that waits with most is refused.
const LINES_PER_ARRIVAL: usize = 2;

/// What new work and administration may take of each commit, whatever waits under leases.
const NEW_WORK_SHARE: usize = BATCH_WEIGHT_MAX / 4;

/// Objects of a call about objects alone that count as much as one request.
const OBJECTS_PER_UNIT: usize = 16;

/// An administrative act is a commit of its own: a round takes no more than sixteen of them, and a tenant that makes many waits for
/// its turn with each.
const ADMINISTRATION_WEIGHT: usize = BATCH_WEIGHT_MAX / 16;

/// How urgent a request is when the coordinator is overloaded or drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityClass {
    /// A call of a worker that holds a lease. It releases load, so it is refused last, and is accepted until the
    /// coordinator has drained.
    Leased,
    /// Everything else. Refused first, and as soon as the coordinator drains.
    NewWork,
}

/// What waits in a priority class.
#[derive(Debug)]
pub(crate) enum Arrival {
    Group(Group),
    Poll(WaitingPoll),
    /// Written in a separate transaction, between two batches.
    Administer {
        act: Administration,
        reply: oneshot::Sender<Result<(), RequestError>>,
    },
    /// A decision about objects alone, carried with others of its kind between two batches.
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only deliveries over HTTP decide so")
    )]
    Objects(ObjectCall),
    /// Answered when the batch it arrived in is finished: proof that the carrier makes progress.
    Ping(oneshot::Sender<()>),
    /// Answered with the number of polls that want such a task now.
    CountPolls(CountPolls),
    /// Answered with the polls that wait now.
    ListPolls(ListPolls),
    /// A batch of another carrier ended tasks that were submitted at these times.
    TasksEnded {
        created: Vec<Time>,
        at: Time,
    },
    /// Nothing is sent after this.
    Close,
}

impl Arrival {
    /// How much of a commit's room it takes.
    pub(crate) fn weight(&self, endpoints: &Endpoints) -> usize {
        match self {
            Arrival::Group(group) => group.items.iter().map(|item| item.weight(endpoints)).sum(),
            // Carried in a commit of its own, beside that of the batch.
            Arrival::Objects(call) => 1 + call.keys.len() / OBJECTS_PER_UNIT,
            Arrival::Poll(waiting) => waiting.poll.weight(),
            Arrival::Administer { .. } => ADMINISTRATION_WEIGHT,
            Arrival::CountPolls(_) => 1,
            Arrival::ListPolls(_) => LIST_OF_POLLS_WEIGHT,
            Arrival::Ping(_) | Arrival::TasksEnded { .. } | Arrival::Close => 0,
        }
    }

    /// Whose it is. A group is of one call, or of time.
    fn tenant(&self) -> Option<&Name> {
        match self {
            Arrival::Group(group) => group.items.first().map(|item| &item.scope().tenant),
            Arrival::Poll(waiting) => Some(&waiting.poll.scope.tenant),
            Arrival::Objects(call) => call.keys.first().map(|key| &key.scope.tenant),
            Arrival::Administer { act, .. } => whose(act),
            Arrival::CountPolls(asked) => Some(&asked.scope.tenant),
            Arrival::ListPolls(asked) => Some(&asked.scope.tenant),
            Arrival::Ping(_) | Arrival::TasksEnded { .. } | Arrival::Close => None,
        }
    }

    /// Refuses the arrival. Its caller may have disconnected.
    fn refuse(self, why: RequestError) {
        match self {
            Arrival::Group(Group { items, reply }) => {
                drop(reply.send(vec![Err(why); items.len()]));
            }
            Arrival::Administer { reply, .. } => drop(reply.send(Err(why))),
            Arrival::Objects(call) => call.refuse(why),
            Arrival::Poll(WaitingPoll { reply, .. }) => drop(reply.send(Err(why))),
            // Dropping these closes their reply channel, which refuses them.
            Arrival::Ping(_)
            | Arrival::CountPolls(_)
            | Arrival::ListPolls(_)
            | Arrival::TasksEnded { .. }
            | Arrival::Close => {}
        }
    }
}

/// The tenant about which an administrator has changed something. What the server notes by itself has none.
fn whose(act: &Administration) -> Option<&Name> {
    act.audit.first().map(|audit| &audit.scope.tenant)
}

/// Asks how many polls would take a task.
#[derive(Debug)]
pub(crate) struct CountPolls {
    pub(crate) scope: Scope,
    pub(crate) queue: Name,
    pub(crate) kind: Name,
    pub(crate) reply: oneshot::Sender<usize>,
}

/// Asks which workers of a scope wait, after a worker's name, and for what.
#[derive(Debug)]
pub(crate) struct ListPolls {
    pub(crate) scope: Scope,
    /// The only queues to show; `None` for all.
    pub(crate) queues: Option<Vec<Name>>,
    pub(crate) after: Option<Name>,
    /// How many workers to list.
    pub(crate) limit: usize,
    pub(crate) reply: oneshot::Sender<WaitingPage>,
}

/// The sending side, shared by all callers.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    leased: mpsc::Sender<Arrival>,
    new_work: mpsc::Sender<Arrival>,
    draining: tokio_util::sync::CancellationToken,
    carriers: Carriers,
    /// Who is told of ends, which requests are weighed by. Empty until they are loaded.
    endpoints: Arc<OnceLock<EndpointDirectory>>,
}

/// Which carriers serve the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carriers {
    /// One carrier serves both.
    One,
    /// Each class has its own carrier.
    Two,
}

/// The receiving side, owned by a carrier: its classes, the most urgent first.
#[derive(Debug)]
pub(crate) struct IntakeReceiver {
    classes: Vec<Class>,
    pub(crate) draining: tokio_util::sync::CancellationToken,
}

/// One priority class where it is received.
#[derive(Debug)]
struct Class {
    arrivals: mpsc::Receiver<Arrival>,
    /// What has arrived and was not taken yet.
    lines: Lines,
    /// How many wait in lines. Beyond it the tenant that waits with most is refused its newest.
    lines_max: usize,
}

impl Class {
    fn new(arrivals: mpsc::Receiver<Arrival>) -> Self {
        let lines_max = LINES_PER_ARRIVAL * arrivals.max_capacity();
        Self { arrivals, lines: Lines::default(), lines_max }
    }

    /// Puts what has arrived into lines. What arrives meanwhile is for the next batch.
    fn line_up(&mut self) {
        for _ in 0..self.arrivals.max_capacity() {
            let Ok(arrival) = self.arrivals.try_recv() else { return };
            self.lines.push(arrival);
            if self.lines.len() > self.lines_max
                && let Some(newest) = self.lines.shed()
            {
                newest.refuse(RequestError::Overloaded);
            }
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Polled<Option<Arrival>> {
        match self.lines.pop(|_| 0) {
            Some((arrival, _)) => Polled::Ready(Some(arrival)),
            None => self.arrivals.poll_recv(context),
        }
    }

    /// Takes arrivals into `taken` until they weigh this much. Returns what they weigh.
    fn take(
        &mut self,
        room: usize,
        weigh: impl Fn(&Arrival) -> usize,
        taken: &mut Vec<Arrival>,
    ) -> usize {
        let mut total = 0;
        while total < room
            && let Some((arrival, weight)) = self.lines.pop(&weigh)
        {
            total += weight;
            taken.push(arrival);
        }
        total
    }
}

/// Both classes, for one carrier.
pub(crate) fn for_one_carrier() -> (Intake, IntakeReceiver) {
    let (intake, leased, new_work) = channels(Carriers::One);
    let classes = leased.classes.into_iter().chain(new_work.classes).collect();
    (intake, IntakeReceiver { classes, ..leased })
}

/// The classes for two carriers: for calls under a lease, and for new work.
pub(crate) fn for_two_carriers() -> (Intake, IntakeReceiver, IntakeReceiver) {
    channels(Carriers::Two)
}

fn channels(carriers: Carriers) -> (Intake, IntakeReceiver, IntakeReceiver) {
    let (leased, leased_receiver) = mpsc::channel(LEASED_WAITING_MAX);
    let (new_work, new_work_receiver) = mpsc::channel(NEW_WORK_WAITING_MAX);
    let draining = tokio_util::sync::CancellationToken::new();
    let receiver = |arrivals| IntakeReceiver {
        classes: vec![Class::new(arrivals)],
        draining: draining.clone(),
    };
    let (leased_receiver, new_work_receiver) =
        (receiver(leased_receiver), receiver(new_work_receiver));
    let endpoints = Arc::default();
    let intake = Intake { leased, new_work, draining, carriers, endpoints };
    (intake, leased_receiver, new_work_receiver)
}

impl IntakeReceiver {
    /// The next arrival, from the most urgent class that has one. `None` when all senders are gone.
    pub(crate) async fn next(&mut self) -> Option<Arrival> {
        std::future::poll_fn(|context| {
            let mut classes = self.classes.iter_mut().map(|class| class.poll_next(context));
            classes.find(Polled::is_ready).unwrap_or(Polled::Pending)
        })
        .await
    }

    /// Takes what waits, as much as one commit has room for beside what was taken already.
    ///
    /// Calls under a lease come first, and leave new work its share. A group is taken as a whole, so a class may exceed its part
    /// by one group.
    pub(crate) fn take_batch(
        &mut self,
        before: usize,
        weigh: impl Fn(&Arrival) -> usize,
    ) -> Vec<Arrival> {
        let mut taken = Vec::new();
        let room = BATCH_WEIGHT_MAX.saturating_sub(before);
        self.classes.iter_mut().for_each(Class::line_up);
        match &mut self.classes[..] {
            [leased, new_work] => {
                let urgent = leased.take(room.saturating_sub(NEW_WORK_SHARE), &weigh, &mut taken);
                let left = room.saturating_sub(urgent).max(NEW_WORK_SHARE);
                let other = new_work.take(left, &weigh, &mut taken);
                leased.take(room.saturating_sub(urgent + other), &weigh, &mut taken);
            }
            classes => classes.iter_mut().for_each(|class| {
                class.take(room, &weigh, &mut taken);
            }),
        }
        taken
    }

    /// Closes the classes to new arrivals.
    pub(crate) fn close(&mut self) {
        self.classes.iter_mut().for_each(|class| class.arrivals.close());
    }

    /// The next arrival that was sent before the classes were closed. Waits for senders that have reserved a slot
    /// and not filled it yet: otherwise nothing would receive their message, and they would wait for ever.
    pub(crate) async fn next_after_close(&mut self) -> Option<Arrival> {
        for class in &mut self.classes {
            if let Some((arrival, _)) = class.lines.pop(|_| 0) {
                return Some(arrival);
            }
            if let Some(arrival) = class.arrivals.recv().await {
                return Some(arrival);
            }
        }
        None
    }

    /// After the carrier has stopped: refuses everything that still waits, since nothing was written for it.
    pub(crate) async fn reject_remaining(&mut self) {
        self.close();
        while let Some(arrival) = self.next_after_close().await {
            arrival.refuse(RequestError::ShuttingDown);
        }
    }
}

/// Sends to the class of new work, and does not keep it open.
#[derive(Clone, Debug)]
pub(crate) struct NewWorkSender(mpsc::WeakSender<Arrival>);

impl NewWorkSender {
    /// Sends items that have no caller, and returns where it is said that they were carried. Best effort: what is still to be done is
    /// found again.
    pub(crate) fn send(&self, items: Vec<Item>) -> Option<oneshot::Receiver<Vec<Reply>>> {
        let (reply, carried) = oneshot::channel();
        let sent = self.0.upgrade()?.try_send(Arrival::Group(Group { items, reply }));
        if let Err(error) = &sent {
            tracing::debug!(%error, "cannot hand over schedules that are due; they are found again");
        }
        sent.is_ok().then_some(carried)
    }
}

impl Intake {
    pub(crate) fn new_work_sender(&self) -> NewWorkSender {
        NewWorkSender(self.new_work.downgrade())
    }

    /// Refuses new work from now on; calls under a lease are still accepted.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Answers each item in order, after its batch is durable. Items that write more than one commit takes are spread over several,
    /// one after the other: between two of them others have their turn.
    pub(crate) async fn ask(&self, items: Vec<Item>) -> Vec<Reply> {
        let is_leased = items.iter().all(|item| item.class() == PriorityClass::Leased);
        let class =
            if is_leased && !faultpoint::mutant(45) { &self.leased } else { &self.new_work };
        let mut replies = Vec::with_capacity(items.len());
        for items in self.commits_of(items) {
            let (count, (reply, answers)) = (items.len(), oneshot::channel());
            match self.send(class, Arrival::Group(Group { items, reply })) {
                Err(error) => replies.extend(vec![Err(error); count]),
                // A carrier that stopped without answering may have committed.
                Ok(()) => replies.extend(
                    answers.await.unwrap_or_else(|_| vec![Err(RequestError::Unknown); count]),
                ),
            }
        }
        replies
    }

    /// The items in groups that each fit into one commit. An item that fills a commit has one for itself.
    fn commits_of(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        let endpoints = self.endpoints.get().map(EndpointDirectory::snapshot).unwrap_or_default();
        let (mut groups, mut weight) = (Vec::new(), 0);
        for item in items {
            let added = item.weight(&endpoints);
            if groups.is_empty() || weight + added > BATCH_WEIGHT_MAX {
                groups.push(Vec::new());
                weight = 0;
            }
            weight += added;
            groups.last_mut().expect("it was just pushed").push(item);
        }
        groups
    }

    /// Says who is told of ends. Called once, before requests arrive.
    pub(crate) fn weigh_by(&self, endpoints: &EndpointDirectory) {
        // A second call would say the same.
        let _ = self.endpoints.set(endpoints.clone());
    }

    pub(crate) async fn poll(&self, poll: Poll) -> Result<Vec<BatchGrant>, RequestError> {
        let (reply, granted) = oneshot::channel();
        self.send(&self.new_work, Arrival::Poll(WaitingPoll { poll, reply }))?;
        let mut taker = GrantGuard { intake: self, granted };
        (&mut taker.granted).await.unwrap_or(Err(RequestError::ShuttingDown))
    }

    /// Hands these grants back unless they are delivered.
    pub(crate) fn unread(&self, grants: &[BatchGrant]) -> UnreadGrants<'_> {
        let grants = grants.iter().map(|it| (it.key(), it.lease())).collect();
        UnreadGrants { intake: self, grants }
    }

    /// Answers when the act is durable.
    pub(crate) async fn administer(&self, act: Administration) -> Result<(), RequestError> {
        let (reply, written) = oneshot::channel();
        self.send(&self.new_work, Arrival::Administer { act, reply })?;
        // A carrier that stopped without answering may have committed.
        written.await.unwrap_or(Err(RequestError::Unknown))
    }

    /// Writes seals of records, also while the coordinator drains: work that ends last is sealed too.
    #[cfg(feature = "http")]
    pub(crate) async fn seal_records(&self, seals: Vec<RecordSeal>) -> Result<(), RequestError> {
        let act = Administration { record_seals: seals, ..Administration::default() };
        let (reply, written) = oneshot::channel();
        self.send(&self.leased, Arrival::Administer { act, reply })?;
        written.await.unwrap_or(Err(RequestError::Unknown))
    }

    /// Answers when what was decided about objects is durable. Also while the coordinator drains: what is in flight is
    /// settled.
    #[cfg(feature = "http")]
    pub(crate) async fn decide_objects(
        &self,
        keys: Vec<verdict::ObjectKey>,
        decide: crate::carry::DecideObjects,
    ) -> Result<(), RequestError> {
        let (reply, decided) = oneshot::channel();
        self.send(&self.leased, Arrival::Objects(ObjectCall { keys, decide, reply }))?;
        // A carrier that stopped without answering may have committed.
        decided.await.unwrap_or(Err(RequestError::Unknown))
    }

    /// Sends items without waiting for an answer; for requests that have no caller.
    fn send_detached(&self, items: Vec<Item>) -> Result<(), RequestError> {
        let (reply, _) = oneshot::channel();
        self.send(&self.leased, Arrival::Group(Group { items, reply }))
    }

    /// Hands back grants whose answer could not be delivered. Best effort: lease expiry does the same, later.
    pub(crate) fn hand_back(&self, grants: impl Iterator<Item = (TaskKey, LeaseId)>) {
        let items: Vec<Item> = grants.map(|(key, lease)| Item::undelivered(key, lease)).collect();
        if items.is_empty() {
            return;
        }
        if let Err(error) = self.send_detached(items) {
            tracing::debug!(%error, "cannot hand back undelivered grants; they will expire");
        }
    }

    /// Waits until every carrier has completed a round.
    pub(crate) async fn ping(&self) -> Result<(), RequestError> {
        self.ping_leased().await?;
        if self.carriers == Carriers::One {
            return Ok(());
        }
        let (reply, moved) = oneshot::channel();
        // Waits for a slot: a full class does not mean that its carrier is stuck.
        let sent = self.new_work.send(Arrival::Ping(reply)).await;
        sent.map_err(|_| RequestError::ShuttingDown)?;
        moved.await.map_err(|_| RequestError::ShuttingDown)
    }

    /// Waits until the carrier of calls under a lease has completed a round.
    pub(crate) async fn ping_leased(&self) -> Result<(), RequestError> {
        let (reply, moved) = oneshot::channel();
        self.send(&self.leased, Arrival::Ping(reply))?;
        moved.await.map_err(|_| RequestError::ShuttingDown)
    }

    /// Reports ended tasks to the carrier that runs retention. Best effort: tasks that are not counted are kept a
    /// little longer.
    pub(crate) fn note_ends(&self, created: Vec<Time>, at: Time) {
        let _ = self.leased.try_send(Arrival::TasksEnded { created, at });
    }

    /// How many waiting polls want tasks of this scope, queue and kind.
    pub(crate) async fn count_polls(
        &self,
        scope: Scope,
        queue: Name,
        kind: Name,
    ) -> Result<usize, RequestError> {
        let (reply, count) = oneshot::channel();
        // Asked even while draining: there are still waiting polls to count.
        let asked = Arrival::CountPolls(CountPolls { scope, queue, kind, reply });
        self.new_work.try_send(asked).map_err(refused)?;
        count.await.map_err(|_| self.unanswered())
    }

    /// The workers of a scope that wait, by name.
    pub(crate) async fn list_polls(
        &self,
        scope: Scope,
        queues: Option<Vec<Name>>,
        after: Option<Name>,
        limit: usize,
    ) -> Result<WaitingPage, RequestError> {
        let (reply, polls) = oneshot::channel();
        let asked = Arrival::ListPolls(ListPolls { scope, queues, after, limit, reply });
        self.new_work.try_send(asked).map_err(refused)?;
        polls.await.map_err(|_| self.unanswered())
    }

    /// Asks the carrier to end after everything that already waits. With two carriers this is the one for new work,
    /// which closes the other when it no longer needs it.
    pub(crate) async fn close(&self) {
        let class = match self.carriers {
            Carriers::Two if !faultpoint::mutant(43) => &self.new_work,
            Carriers::One | Carriers::Two => &self.leased,
        };
        // A class that is closed already needs no message.
        let _ = class.send(Arrival::Close).await;
    }

    /// Asks the carrier of calls under a lease to end after everything that already waits.
    pub(crate) async fn close_leased(&self) {
        let _ = self.leased.send(Arrival::Close).await;
    }

    pub(crate) fn draining(&self) -> &tokio_util::sync::CancellationToken {
        &self.draining
    }

    /// Why a question to the carrier was dropped.
    fn unanswered(&self) -> RequestError {
        if self.is_draining() { RequestError::ShuttingDown } else { RequestError::Overloaded }
    }

    fn send(&self, class: &mpsc::Sender<Arrival>, arrival: Arrival) -> Result<(), RequestError> {
        let new_work = class.same_channel(&self.new_work);
        if (new_work || faultpoint::mutant(6)) && self.is_draining() {
            return Err(RequestError::ShuttingDown);
        }
        class.try_send(arrival).map_err(refused)
    }
}

fn refused(why: TrySendError<Arrival>) -> RequestError {
    match why {
        TrySendError::Full(_) => RequestError::Overloaded,
        TrySendError::Closed(_) => RequestError::ShuttingDown,
    }
}

/// A caller that waits for grants. If it disconnects after they were sent and before it took them, they are handed
/// back instead of being left to lease expiry.
struct GrantGuard<'a> {
    intake: &'a Intake,
    granted: oneshot::Receiver<Result<Vec<BatchGrant>, RequestError>>,
}

/// Grants that are being completed. They are handed back if that fails, or if their caller gives up.
pub(crate) struct UnreadGrants<'a> {
    intake: &'a Intake,
    grants: Vec<(TaskKey, LeaseId)>,
}

impl UnreadGrants<'_> {
    /// The caller has everything.
    pub(crate) fn delivered(mut self) {
        self.grants.clear();
    }
}

impl Drop for UnreadGrants<'_> {
    fn drop(&mut self) {
        self.intake.hand_back(std::mem::take(&mut self.grants).into_iter());
    }
}

impl Drop for GrantGuard<'_> {
    fn drop(&mut self) {
        self.granted.close();
        if let Ok(Ok(granted)) = self.granted.try_recv() {
            self.intake.hand_back(granted.iter().map(|it| (it.key(), it.lease())));
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Audit;

    use super::*;

    /// Arrivals of two sorts, to tell the classes apart.
    fn under_leases(intake: &Intake, count: usize) {
        for _ in 0..count {
            let ended = Arrival::TasksEnded { created: Vec::new(), at: Time::default() };
            intake.leased.try_send(ended).unwrap();
        }
    }

    fn new_work(intake: &Intake, count: usize) {
        for _ in 0..count {
            intake.new_work.try_send(Arrival::Ping(oneshot::channel().0)).unwrap();
        }
    }

    /// The weight of each class in one batch, where one arrival weighs this much.
    fn taken(receiver: &mut IntakeReceiver, leased: usize, new_work: usize) -> [usize; 2] {
        let is_new = |arrival: &Arrival| matches!(arrival, Arrival::Ping(_));
        let weigh = |arrival: &Arrival| if is_new(arrival) { new_work } else { leased };
        let batch = receiver.take_batch(0, weigh);
        let new = batch.iter().filter(|arrival| is_new(arrival)).count();
        [(batch.len() - new) * leased, new * new_work]
    }

    #[test]
    fn heavy_calls_under_leases_leave_new_work_its_share_of_every_commit() {
        let (intake, mut receiver) = for_one_carrier();
        under_leases(&intake, 100);
        new_work(&intake, 300);
        // As checkpoints with 500 children, and plain submissions.
        assert_eq!(taken(&mut receiver, 501, 1), [1_002, NEW_WORK_SHARE]);
        assert_eq!(taken(&mut receiver, 501, 1), [1_002, 44]);
        // Without new work no room is left for it.
        assert_eq!(taken(&mut receiver, 501, 1), [1_503, 0]);
    }

    /// An act of an administrator of this tenant.
    fn act(tenant: &str) -> Arrival {
        let audit = Audit {
            at: Time::default(),
            scope: Scope { tenant: tenant.into(), ..Scope::default() },
            actor: "key".into(),
            action: "key.created".into(),
            object: "key".into(),
            code: None,
            times: 1,
            before: None,
            after: None,
            request: None,
            seal: None,
        };
        let act = Administration { audit: vec![audit], ..Administration::default() };
        Arrival::Administer { act, reply: oneshot::channel().0 }
    }

    fn acts_of(batch: &[Arrival], tenant: &str) -> usize {
        batch.iter().filter(|it| it.tenant().is_some_and(|it| it.as_str() == tenant)).count()
    }

    #[test]
    fn administrators_of_a_tenant_take_turns_with_others_and_no_round_is_all_theirs() {
        let (intake, mut receiver) = for_one_carrier();
        let none = Endpoints::new();
        (0..1_000).for_each(|_| intake.new_work.try_send(act("busy")).unwrap());
        (0..3).for_each(|_| intake.new_work.try_send(act("calm")).unwrap());
        let batch = receiver.take_batch(0, |arrival| arrival.weight(&none));
        assert_eq!(batch.len(), 16, "each is a commit");
        assert_eq!((acts_of(&batch, "calm"), acts_of(&batch, "busy")), (3, 13));
        let batch = receiver.take_batch(0, |arrival| arrival.weight(&none));
        assert_eq!((batch.len(), acts_of(&batch, "busy")), (16, 16));
    }

    #[test]
    fn who_floods_is_refused_and_others_find_room() {
        let (intake, mut receiver) = for_one_carrier();
        let weigh = |arrival: &Arrival| arrival.weight(&Endpoints::new());
        let mut replies = Vec::new();
        let mut arrive = |tenant: &str| {
            let (reply, answered) = oneshot::channel();
            let Arrival::Administer { act, .. } = act(tenant) else { unreachable!("it is one") };
            let is_sent = intake.new_work.try_send(Arrival::Administer { act, reply }).is_ok();
            replies.push((tenant.to_owned(), answered));
            is_sent
        };
        for _ in 0..4 {
            while arrive("busy") {}
            receiver.take_batch(0, weigh);
            assert!(arrive("calm"), "there is room to arrive after each batch");
        }
        receiver.take_batch(0, weigh);
        let lines = receiver.classes.last().expect("new work").lines.len();
        assert!(lines <= LINES_PER_ARRIVAL * NEW_WORK_WAITING_MAX, "{lines}");
        let mut refused = std::collections::BTreeMap::<String, usize>::new();
        for (tenant, mut answered) in replies {
            if let Ok(Err(RequestError::Overloaded)) = answered.try_recv() {
                *refused.entry(tenant).or_default() += 1;
            }
        }
        assert!(refused["busy"] > NEW_WORK_WAITING_MAX, "{refused:?}");
        assert_eq!(refused.get("calm"), None);
    }

    #[test]
    fn a_flood_of_new_work_delays_no_call_under_a_lease() {
        let (intake, mut receiver) = for_one_carrier();
        under_leases(&intake, 1_000);
        new_work(&intake, 4_000);
        assert_eq!(taken(&mut receiver, 1, 1), [768, 256]);
        assert_eq!(taken(&mut receiver, 1, 1), [232, 792]);
    }

    #[test]
    fn a_carrier_of_one_class_takes_a_whole_commit_of_it() {
        let (intake, mut receiver, _new_work) = for_two_carriers();
        under_leases(&intake, 2_000);
        assert_eq!(receiver.take_batch(24, |_| 1).len(), BATCH_WEIGHT_MAX - 24);
    }
}
