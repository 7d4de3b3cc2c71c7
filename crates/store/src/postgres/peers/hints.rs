//! Hints to and from peers, in one session beside the batches.
//!
//! A hint only saves the time until the next poll. It names the tasks that can be leased, or their queues if there
//! are many, the tasks that have ended, and the running tasks that are to be cancelled. It is sent after the commit, once per batch, from a separate session: a
//! notification inside the batch's transaction would make commits wait for each other. Hints that wait for the
//! session are sent together. Sending and receiving may fail at any time; then every coordinator polls. The same
//! session records every few seconds that this coordinator is alive.
//!
//! A coordinator that is alone sends no hints: they would be two of the five transactions of a small task. A session
//! that has begun to listen greets, and every peer that hears it answers, so that of any two the one that listens
//! later makes both known to each other. Every few seconds each says again that it listens. One that has heard none
//! of its peers for [`PEER_TIMEOUT`] is alone. What it does before it hears of a newcomer, the newcomer finds by polling.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Statement};
use verdict::{Name, Scope, Subject, TaskId, Time};

use super::{PEER_TIMEOUT, rules};
use crate::postgres::administration::key_expiry::KeyExpiry;
use crate::postgres::connection::server_list::ServerList;
use crate::postgres::connection::{direct, session};
use crate::postgres::failover::primary;
use crate::postgres::ready::candidates::Candidate;
use crate::postgres::ready::queue_position::QueuePosition;
use crate::postgres::{Shared, peers};
use crate::seam::{CancelHint, RemoteChange};

const CHANNEL: &str = "tenure";

const NOTIFY: &str = "SELECT pg_notify($1, u.payload) FROM unnest($2::text[]) AS u(payload)";

/// Maximum number of hints that wait to be sent. If the outbox is full, the session is slow, and peers poll.
const WAITING_MAX: usize = 64;

/// PostgreSQL refuses notifications longer than 8,000 bytes.
const PAYLOAD_MAX: usize = 7_900;

/// Maximum number of notifications sent together: about a thousand tasks, as many as end in one batch. A caller that
/// waits for any further task finds it by polling.
const PAYLOADS_MAX: usize = 4;

/// Maximum number of peers' ended tasks that were not yet taken. A caller that waits for any further task finds it by
/// polling.
const ENDED_MAX: usize = 16_384;

/// Pause before reconnecting.
const RECONNECT: Duration = Duration::from_secs(1);

/// Maximum number of ready tasks that a hint names. If there are more, the hint names their queues, and peers read
/// those.
const READY_MAX: usize = 16;

/// The changes of a batch that peers may be waiting for.
#[derive(Default, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Hint {
    /// Queues with more tasks to lease than the hint names.
    queues: HashSet<(Scope, Name)>,
    ready: Vec<Candidate>,
    ended: Vec<TaskId>,
    /// Running tasks whose workers have not been told of a cancel.
    cancelled: Vec<CancelHint>,
    /// The sender has just begun to listen and asks who else does.
    is_greeting: bool,
}

impl Hint {
    fn greeting() -> Self {
        Self { is_greeting: true, ..Self::default() }
    }

    /// The hint of a batch that was decided at this time.
    pub(in crate::postgres) fn of<'s>(
        subjects: impl Iterator<Item = &'s Subject>,
        now: Time,
    ) -> Self {
        let mut hint = Self::default();
        for subject in subjects {
            match subject {
                Subject::Live(task) => match task.claimable_at() {
                    Some(due) if due.has_come(now) => hint.add_ready(Candidate::of(task)),
                    Some(_) => hint.add_queue(task.scope.clone(), task.offered_in().into_owned()),
                    None => hint.cancelled.extend(CancelHint::of(task)),
                },
                Subject::Done(done) => hint.ended.push(done.id),
                Subject::Absent => {}
            }
        }
        hint
    }

    /// The same, with tasks that came back into the ready order.
    pub(in crate::postgres) fn with_ready(mut self, ready: Vec<Candidate>) -> Self {
        ready.into_iter().for_each(|candidate| self.add_ready(candidate));
        self
    }

    fn add_queue(&mut self, scope: Scope, queue: Name) {
        self.queues.insert((scope, queue));
    }

    fn add_ready(&mut self, candidate: Candidate) {
        self.ready.push(candidate);
        if self.ready.len() > READY_MAX {
            for Candidate { scope, queue, .. } in std::mem::take(&mut self.ready) {
                self.add_queue(scope, queue);
            }
        }
    }

    fn add(&mut self, other: Hint) {
        self.queues.extend(other.queues);
        other.ready.into_iter().for_each(|candidate| self.add_ready(candidate));
        self.ended.extend(other.ended);
        self.cancelled.extend(other.cancelled);
    }

    /// Whether the hint names tasks or queues to lease from.
    pub(in crate::postgres) fn has_work(&self) -> bool {
        !self.queues.is_empty() || !self.ready.is_empty()
    }

    fn is_empty(&self) -> bool {
        !self.has_work() && self.ended.is_empty() && self.cancelled.is_empty()
    }

    /// One line for each queue, each ready task, each cancelled task, each ended task, and for a greeting.
    fn lines(&self) -> impl Iterator<Item = String> {
        let queues = self.queues.iter().map(|(scope, queue)| queue_line(scope, queue));
        let ready = self.ready.iter().map(|candidate| {
            let queue = queue_line(&candidate.scope, &candidate.queue);
            let (priority, id) = (candidate.position.priority(), candidate.position.id());
            format!("{queue}\t{}\t{priority}\t{id}", candidate.kind.as_str())
        });
        let ended = self.ended.iter().map(|id| format!("\n{id}"));
        let cancelled = self.cancelled.iter().map(cancel_line);
        let greeting = self.is_greeting.then(|| format!("\n{GREETING}"));
        queues.chain(ready).chain(cancelled).chain(ended).chain(greeting)
    }

    /// The hint as notifications: the sender's instance, then the lines. Lines beyond the limits are left out.
    fn payloads(&self, instance: &str) -> Vec<String> {
        let mut payloads = vec![instance.to_owned()];
        for line in self.lines() {
            let last = payloads.last_mut().expect("there is one from the beginning");
            if last.len() + line.len() <= PAYLOAD_MAX {
                last.push_str(&line);
            } else if payloads.len() < PAYLOADS_MAX {
                payloads.push(format!("{instance}{line}"));
            } else {
                break;
            }
        }
        payloads
    }

    /// Parses a peer's notification; `None` if this process sent it.
    fn read(payload: &str, instance: &str) -> Option<Self> {
        let mut lines = payload.lines();
        if lines.next() == Some(instance) {
            return None;
        }
        let mut hint = Self::default();
        lines.for_each(|line| hint.read_line(line));
        Some(hint)
    }

    fn read_line(&mut self, line: &str) {
        let parts: Vec<&str> = line.split('\t').collect();
        match parts[..] {
            [GREETING] => self.is_greeting = true,
            [id] => self.ended.extend(TaskId::parse(id)),
            [CANCELLED, what] => self.cancelled.extend(read_cancelled(what)),
            [tenant, workspace, queue, kind, priority, id] => {
                let (scope, queue) = (Scope::new(tenant, workspace), Name::from(queue));
                match (priority.parse(), TaskId::parse(id)) {
                    (Ok(priority), Some(id)) => {
                        let (kind, position) = (Name::from(kind), QueuePosition::new(priority, id));
                        self.ready.push(Candidate { scope, queue, kind, position });
                    }
                    _ => self.add_queue(scope, queue),
                }
            }
            // A longer line comes from a version with more fields.
            [tenant, workspace, queue, ..] => {
                self.add_queue(Scope::new(tenant, workspace), Name::from(queue));
            }
            _ => {}
        }
    }
}

fn queue_line(scope: &Scope, queue: &Name) -> String {
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    format!("\n{tenant}\t{workspace}\t{}", queue.as_str())
}

/// The line of a greeting. It is no task's id, so versions that do not know it pass over it.
const GREETING: &str = "greeting";

/// The first field of a line about a cancelled task. Lines of two fields are ignored by versions that do not know
/// them.
const CANCELLED: &str = "cancelled";

fn cancel_line(hint: &CancelHint) -> String {
    let (tenant, workspace) = (hint.scope.tenant.as_str(), hint.scope.workspace.as_str());
    let (queue, worker) = (hint.queue.as_str(), hint.worker.as_str());
    format!("\n{CANCELLED}\t{tenant} {workspace} {queue} {worker} {}", hint.task)
}

fn read_cancelled(what: &str) -> Option<CancelHint> {
    let [tenant, workspace, queue, worker, id] = what.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (scope, queue, worker) = (Scope::new(tenant, workspace), queue.into(), worker.into());
    Some(CancelHint { scope, queue, worker, task: TaskId::parse(id)? })
}

pub(in crate::postgres) struct Hints {
    /// The sender in our own hints, which are ignored.
    instance: String,
    outbox: mpsc::Sender<Hint>,
    inbox: Mutex<Option<mpsc::Receiver<Hint>>>,
    changed: Notify,
    /// What peers did to tasks that callers here may wait for.
    ended: Mutex<Vec<RemoteChange>>,
    has_ended: Notify,
    audience: Mutex<Audience>,
    /// Wakes the session to answer a greeting.
    answer: Arc<Notify>,
}

/// Whether a peer may be listening, as far as this process knows.
#[derive(Clone, Copy, Debug)]
struct Audience {
    /// When a peer was last heard.
    heard_at: Option<Instant>,
    /// Behind a pooler nothing is heard, and silence means nothing.
    is_deaf: bool,
}

impl Audience {
    fn is_there(self) -> bool {
        let limit = Duration::from_millis(PEER_TIMEOUT.millis());
        self.is_deaf || self.heard_at.is_some_and(|heard_at| heard_at.elapsed() < limit)
    }
}

impl Hints {
    /// `is_alone` says whether no other coordinator was at work when the store was opened.
    pub(in crate::postgres) fn new(instance: String, is_alone: bool) -> Self {
        let (outbox, inbox) = mpsc::channel(WAITING_MAX);
        let heard_at = if is_alone { None } else { Some(tokio::time::Instant::now()) };
        Self {
            instance,
            outbox,
            inbox: Mutex::new(Some(inbox)),
            changed: Notify::new(),
            ended: Mutex::default(),
            has_ended: Notify::new(),
            audience: Mutex::new(Audience { heard_at, is_deaf: false }),
            answer: Arc::default(),
        }
    }

    /// Queues a hint for sending, if a peer may be listening.
    pub(in crate::postgres) fn send(&self, hint: Hint) {
        if !hint.is_empty() && self.audience().is_there() {
            // The outbox is full, or the session has ended: peers will poll.
            let _ = self.outbox.try_send(hint);
        }
    }

    /// Waits for tasks that peers have ended or cancelled, and takes them.
    pub(in crate::postgres) async fn ended(&self) -> Vec<RemoteChange> {
        loop {
            let has_ended = self.has_ended.notified();
            let ended = std::mem::take(&mut *self.ended_list());
            if !ended.is_empty() {
                return ended;
            }
            has_ended.await;
        }
    }

    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().expect("nothing panics with the audience in hand")
    }

    /// Records that a peer was heard. A greeting is answered; an answer is no greeting, so two never answer each other
    /// for ever.
    fn heard_peer(&self, hint: &Hint) {
        self.audience().heard_at = Some(tokio::time::Instant::now());
        if hint.is_greeting {
            self.answer.notify_one();
        }
    }

    fn ended_list(&self) -> MutexGuard<'_, Vec<RemoteChange>> {
        self.ended.lock().expect("nothing panics with the list in hand")
    }

    /// Signals that another writer of this process has left tasks to lease.
    pub(in crate::postgres) fn notify_local(&self) {
        self.changed.notify_one();
    }

    pub(in crate::postgres) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Starts the session. It ends with the store.
pub(in crate::postgres) fn start(shared: &Arc<Shared>, servers: ServerList) {
    let inbox = shared.hints.inbox.lock().expect("nothing panics with the box in hand").take();
    let Some(inbox) = inbox else { return };
    shared.runtime.spawn(run(Arc::downgrade(shared), servers, inbox));
}

async fn run(shared: Weak<Shared>, servers: ServerList, mut inbox: mpsc::Receiver<Hint>) {
    let mut key_expiry = KeyExpiry::default();
    while shared.strong_count() > 0 {
        if let Err(error) = run_session(&shared, &servers, &mut inbox, &mut key_expiry).await {
            tracing::debug!(%error, "the session for hints ended; reconnecting");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Runs one session until the connection breaks or the store is dropped.
async fn run_session(
    shared: &Weak<Shared>,
    servers: &ServerList,
    inbox: &mut mpsc::Receiver<Hint>,
    key_expiry: &mut KeyExpiry,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = servers.connect().await?;
    let changed = shared.clone();
    let listening = async move {
        loop {
            match std::future::poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(note))) => receive(&changed, note.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let telling = async {
        let notifier = Notifier::of(&client).await?;
        let Some(store) = shared.upgrade() else { return Ok(()) };
        store.hints.audience().is_deaf = notifier.prepared.is_none();
        let answer = store.hints.answer.clone();
        // The session must not keep the store alive.
        drop(store);
        // No role is set: behind a pooler the server session may serve another client after this statement.
        client.batch_execute("LISTEN tenure").await?;
        notifier.send(&client, shared, &Hint::greeting()).await?;
        let mut presence = tokio::time::interval(PRESENCE_INTERVAL);
        loop {
            tokio::select! {
                hint = inbox.recv() => match hint {
                    Some(mut hint) => {
                        while let Ok(another) = inbox.try_recv() {
                            hint.add(another);
                        }
                        notifier.send(&client, shared, &hint).await?;
                    }
                    None => return Ok(()),
                },
                () = answer.notified() => {
                    notifier.send(&client, shared, &Hint::default()).await?;
                }
                _ = presence.tick() => {
                    let Some(shared) = shared.upgrade() else { return Ok(()) };
                    if !shared.primary.is_reached_by(&client).await? {
                        return Ok(());
                    }
                    let (read, said) = peers::times(&client).await?;
                    shared.clock.observe_with_peers(read, said);
                    let committers = shared.committers().clone();
                    peers::record_presence(&client, &committers, shared.clock.now()).await?;
                    notifier.send(&client, &Arc::downgrade(&shared), &Hint::default()).await?;
                    primary::record_standby_wait(&client).await?;
                    rules::try_agree(&client, &shared).await;
                    // With an injected clock the test decides when keys expire.
                    if shared.clock.injected().is_none() {
                        key_expiry.run(&client, shared.clock.now()).await?;
                    }
                }
            }
        }
    };
    tokio::select! {
        ended = listening => ended,
        ended = telling => ended,
    }
}

/// How often this coordinator records that it is alive.
const PRESENCE_INTERVAL: Duration = Duration::from_secs(5);

/// Sends hints, with a prepared statement if the session leads directly to the server.
struct Notifier {
    prepared: Option<Statement>,
}

impl Notifier {
    async fn of(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let prepared = match direct::is_direct(client).await? {
            true => Some(client.prepare(NOTIFY).await?),
            false => None,
        };
        Ok(Self { prepared })
    }

    /// Sends a hint. An empty one says that this coordinator listens.
    async fn send(
        &self,
        client: &Client,
        shared: &Weak<Shared>,
        hint: &Hint,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let payloads = hint.payloads(&shared.hints.instance);
        // Sent together: every further round trip delays a peer.
        let (begun, notified, committed) = futures_util::join!(
            client.batch_execute(session::BEGIN_HINT),
            self.notify(client, &payloads),
            client.batch_execute("COMMIT"),
        );
        begun?;
        notified?;
        committed
    }

    async fn notify(
        &self,
        client: &Client,
        payloads: &[String],
    ) -> Result<(), tokio_postgres::Error> {
        let sent = match &self.prepared {
            Some(statement) => client.query(statement, &[&CHANNEL, &payloads]).await,
            None => {
                let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                    [(&CHANNEL, Type::TEXT), (&payloads, Type::TEXT_ARRAY)];
                client.query_typed(NOTIFY, &parameters).await
            }
        };
        sent.map(drop)
    }
}

fn receive(shared: &Weak<Shared>, payload: &str) {
    let Some(shared) = shared.upgrade() else { return };
    let hints = &shared.hints;
    let Some(hint) = Hint::read(payload, &hints.instance) else { return };
    hints.heard_peer(&hint);
    if hint.has_work() {
        shared.memory().candidates.apply_hint(&hint.ready, &hint.queues);
        shared.refill_signals.wake();
        hints.changed.notify_one();
    }
    if !hint.ended.is_empty() || !hint.cancelled.is_empty() {
        let mut ended = hints.ended_list();
        let room = ENDED_MAX.saturating_sub(ended.len());
        let cancelled = hint.cancelled.into_iter().map(RemoteChange::CancelRequested);
        let changes = cancelled.chain(hint.ended.into_iter().map(RemoteChange::Ended));
        ended.extend(changes.take(room));
        drop(ended);
        hints.has_ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u128, priority: i32) -> Candidate {
        let (scope, position) =
            (Scope::new("acme", "main"), QueuePosition::new(priority, TaskId::from_u128(id)));
        Candidate { scope, queue: Name::from("images"), kind: Name::from("resize"), position }
    }

    fn hint(ended: u128) -> Hint {
        let queues = HashSet::from([(Scope::new("acme", "main"), Name::from("images"))]);
        let ended = (0..ended).map(TaskId::from_u128).collect();
        let cancelled = vec![CancelHint {
            scope: Scope::new("acme", "main"),
            queue: Name::from("images"),
            worker: Name::from("resize.sh-0a1b"),
            task: TaskId::from_u128(9),
        }];
        Hint { queues, ready: vec![candidate(7, -3)], ended, cancelled, is_greeting: false }
    }

    fn waiting(hints: &Hints) -> usize {
        let mut inbox = hints.inbox.lock().unwrap().take().unwrap();
        let waiting = std::iter::from_fn(|| inbox.try_recv().ok()).count();
        *hints.inbox.lock().unwrap() = Some(inbox);
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn who_hears_no_peer_sends_no_hints() {
        let hints = Hints::new("me".to_owned(), true);
        hints.send(hint(1));
        assert_eq!(waiting(&hints), 0);
        hints.heard_peer(&Hint::default());
        hints.send(hint(1));
        assert_eq!(waiting(&hints), 1);
        tokio::time::advance(Duration::from_millis(PEER_TIMEOUT.millis())).await;
        hints.send(hint(1));
        assert_eq!(waiting(&hints), 0, "the peer is gone");
        hints.audience().is_deaf = true;
        hints.send(hint(1));
        assert_eq!(waiting(&hints), 1, "silence behind a pooler means nothing");
        let hints = Hints::new("me".to_owned(), false);
        hints.send(hint(1));
        assert_eq!(waiting(&hints), 1, "there was a peer when the store was opened");
    }

    #[tokio::test(start_paused = true)]
    async fn a_greeting_is_answered_and_an_answer_is_not() {
        let hints = Hints::new("me".to_owned(), false);
        let has_answered = async || {
            let answer = hints.answer.notified();
            tokio::time::timeout(Duration::from_millis(1), answer).await.is_ok()
        };
        let greeting = Hint::read(&Hint::greeting().payloads("another")[0], "me").unwrap();
        hints.heard_peer(&greeting);
        assert!(
            has_answered().await,
            "also by one that knew of peers: the newcomer may not know of it"
        );
        hints.heard_peer(&Hint::read("another", "me").unwrap());
        assert!(!has_answered().await, "two that answer each other would never end");
    }

    #[test]
    fn a_peer_reads_what_was_sent_and_ignores_its_own() {
        let told = hint(3);
        let payloads = told.payloads("me");
        assert_eq!(payloads.len(), 1);
        let read = Hint::read(&payloads[0], "another").unwrap();
        assert_eq!(read, told);
        assert!(Hint::read(&payloads[0], "me").is_none());
    }

    #[test]
    fn more_than_fits_goes_in_several_and_no_more_than_a_few() {
        let told = hint(5_000);
        let payloads = told.payloads("me");
        assert_eq!(payloads.len(), PAYLOADS_MAX);
        assert!(payloads.iter().all(|payload| payload.len() <= PAYLOAD_MAX));
        let read = payloads.iter().filter_map(|payload| Hint::read(payload, "another"));
        let ended: Vec<TaskId> = read.flat_map(|hint| hint.ended).collect();
        assert!(ended.len() > 900, "{}", ended.len());
        assert_eq!(ended[..], told.ended[..ended.len()], "the first of them, each once");
    }

    #[test]
    fn many_ready_tasks_are_named_by_their_queue() {
        let mut told = Hint::default();
        (1..=READY_MAX as u128).for_each(|id| told.add_ready(candidate(id, 0)));
        assert_eq!((told.ready.len(), told.queues.len()), (READY_MAX, 0));
        told.add_ready(candidate(99, 0));
        assert_eq!((told.ready.len(), told.queues.len()), (0, 1));
    }

    #[test]
    fn what_a_newer_version_adds_is_passed_over() {
        let read =
            Hint::read("another\na\tb\nnonsense\na\tb\tc\td\ne\tf\tg\th\tsoon\tx", "me").unwrap();
        assert_eq!(read.ended, []);
        let nonsense =
            Hint::read("another\ncancelled\ta b c\ncancelled\ta b c soon", "me").unwrap();
        assert_eq!(nonsense.cancelled, []);
        assert_eq!(read.queues.len(), 2, "what is known of a longer line still counts");
        assert_eq!(read.ready, []);
    }
}
