//! Telling fellows what was committed, and hearing what they did: one session, beside the batches.
//!
//! A hint saves the time until the next look and nothing else: in which queues there is something to lease, and which
//! tasks have ended. It is sent after the commit, once per batch, from a session of its own: a notification inside
//! the batch's transaction would make commits wait for each other. Hints that wait for the session go together. Sending and hearing may fail at any time; then everybody looks by himself. The same session says
//! every few seconds that this coordinator is there.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};
use verdict::{Name, Scope, Subject, TaskId};

use super::expiring::Walk;
use super::opening::Way;
use super::{Shared, fellows, primary, rules, session};

const CHANNEL: &str = "tenure";

const NOTIFY: &str = "SELECT pg_notify($1, u.payload) FROM unnest($2::text[]) AS u(payload)";

/// Hints that wait to be sent. A full box means a slow session; fellows then look by themselves.
const WAITING_MAX: usize = 64;

/// PostgreSQL refuses longer notifications than 8,000 bytes.
const PAYLOAD_MAX: usize = 7_900;

/// Notifications in one go: about a thousand tasks, as many as end in one batch. Who waits for another one finds
/// it by looking.
const PAYLOADS_MAX: usize = 4;

/// Ended tasks of fellows that nobody has asked for yet. Beyond that whoever waits finds out by looking.
const ENDED_MAX: usize = 16_384;

/// How long to rest before connecting again.
const RECONNECT: Duration = Duration::from_secs(1);

/// What a batch has changed that fellows may be waiting for.
#[derive(Default)]
pub(super) struct Hint {
    queues: HashSet<(Scope, Name)>,
    ended: Vec<TaskId>,
}

impl Hint {
    pub(super) fn of<'s>(subjects: impl Iterator<Item = &'s Subject>) -> Self {
        let mut hint = Self::default();
        for subject in subjects {
            match subject {
                Subject::Live(task) if task.claimable_at().is_some() => {
                    hint.queues.insert((task.scope.clone(), task.queue.clone()));
                }
                Subject::Done(done) => hint.ended.push(done.id),
                Subject::Live(_) | Subject::Absent => {}
            }
        }
        hint
    }

    fn add(&mut self, other: Hint) {
        self.queues.extend(other.queues);
        self.ended.extend(other.ended);
    }

    pub(super) fn names_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.ended.is_empty()
    }

    /// As notifications: whose they are, then a line for each queue and for each task. What finds no room is left
    /// out.
    fn payloads(&self, instance: &str) -> Vec<String> {
        let queues = self.queues.iter().map(|(scope, queue)| {
            let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
            format!("\n{tenant}\t{workspace}\t{}", queue.as_str())
        });
        let ended = self.ended.iter().map(|id| format!("\n{id}"));
        let mut payloads = vec![instance.to_owned()];
        for line in queues.chain(ended) {
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

    /// What a fellow has said; `None` if it was ourselves.
    fn read(payload: &str, instance: &str) -> Option<Self> {
        let mut lines = payload.lines();
        if lines.next() == Some(instance) {
            return None;
        }
        let mut hint = Self::default();
        for line in lines {
            let mut parts = line.split('\t');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(tenant), Some(workspace), Some(queue)) => {
                    hint.queues.insert((Scope::new(tenant, workspace), Name::from(queue)));
                }
                (Some(id), None, None) => hint.ended.extend(TaskId::parse(id)),
                // Of a version that says more.
                _ => {}
            }
        }
        Some(hint)
    }
}

pub(super) struct Hints {
    /// Whose hints are our own, to be ignored.
    instance: String,
    outbox: mpsc::Sender<Hint>,
    inbox: Mutex<Option<mpsc::Receiver<Hint>>>,
    heard: Notify,
    /// What fellows have ended.
    ended: Mutex<Vec<TaskId>>,
    has_ended: Notify,
}

impl Hints {
    pub(super) fn new(instance: String) -> Self {
        let (outbox, inbox) = mpsc::channel(WAITING_MAX);
        Self {
            instance,
            outbox,
            inbox: Mutex::new(Some(inbox)),
            heard: Notify::new(),
            ended: Mutex::default(),
            has_ended: Notify::new(),
        }
    }

    /// Tells fellows.
    pub(super) fn send(&self, hint: Hint) {
        if !hint.is_empty() {
            // A full box, or nobody to send: fellows will look by themselves.
            let _ = self.outbox.try_send(hint);
        }
    }

    /// Tasks that fellows have ended, as soon as there are any.
    pub(super) async fn ended(&self) -> Vec<TaskId> {
        loop {
            let has_ended = self.has_ended.notified();
            let ended = std::mem::take(&mut *self.ended_list());
            if !ended.is_empty() {
                return ended;
            }
            has_ended.await;
        }
    }

    fn ended_list(&self) -> MutexGuard<'_, Vec<TaskId>> {
        self.ended.lock().expect("nothing panics with the list in hand")
    }

    /// Another writer of this process has left something to lease.
    pub(super) fn stir(&self) {
        self.heard.notify_one();
    }

    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }
}

/// Starts the session. It ends with the store.
pub(super) fn start(shared: &Arc<Shared>, way: Way) {
    let inbox = shared.hints.inbox.lock().expect("nothing panics with the box in hand").take();
    let Some(inbox) = inbox else { return };
    shared.runtime.spawn(run(Arc::downgrade(shared), way, inbox));
}

async fn run(shared: Weak<Shared>, way: Way, mut inbox: mpsc::Receiver<Hint>) {
    let mut walk = Walk::default();
    while shared.strong_count() > 0 {
        if let Err(error) = converse(&shared, &way, &mut inbox, &mut walk).await {
            tracing::debug!(%error, "the session for hints ended; connecting again");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// One session's life: until the connection breaks or the store is gone.
async fn converse(
    shared: &Weak<Shared>,
    way: &Way,
    inbox: &mut mpsc::Receiver<Hint>,
    walk: &mut Walk,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = way.config.connect(way.connector.clone()).await?;
    let heard = shared.clone();
    let listening = async move {
        loop {
            match std::future::poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(note))) => hear(&heard, note.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let telling = async {
        // No role is set: behind a pooler this session is somebody else's after the statement.
        client.batch_execute("LISTEN tenure").await?;
        let mut presence = tokio::time::interval(PRESENCE);
        loop {
            tokio::select! {
                hint = inbox.recv() => match hint {
                    Some(mut hint) => {
                        while let Ok(another) = inbox.try_recv() {
                            hint.add(another);
                        }
                        tell(&client, shared, &hint).await?;
                    }
                    None => return Ok(()),
                },
                _ = presence.tick() => {
                    let Some(shared) = shared.upgrade() else { return Ok(()) };
                    let committers = shared.committers().clone();
                    fellows::say_present(&client, &committers, shared.clock.now()).await?;
                    primary::note_waiting(&client).await?;
                    rules::keep(&client, &shared).await;
                    // Whoever hands in a clock says for himself when something is old.
                    if shared.clock.given().is_none() {
                        walk.go_on(&client, shared.clock.now()).await?;
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

/// How often fellows are told that this coordinator is there.
const PRESENCE: Duration = Duration::from_secs(5);

async fn tell(
    client: &Client,
    shared: &Weak<Shared>,
    hint: &Hint,
) -> Result<(), tokio_postgres::Error> {
    let Some(shared) = shared.upgrade() else { return Ok(()) };
    let payloads = hint.payloads(&shared.hints.instance);
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&CHANNEL, Type::TEXT), (&payloads, Type::TEXT_ARRAY)];
    // All in one go, since every way there and back is time that a fellow waits.
    let (begun, notified, committed) = futures_util::join!(
        client.batch_execute(session::BEGIN_HINT),
        client.query_typed(NOTIFY, &parameters),
        client.batch_execute("COMMIT"),
    );
    begun?;
    notified?;
    committed
}

fn hear(shared: &Weak<Shared>, payload: &str) {
    let Some(shared) = shared.upgrade() else { return };
    let hints = &shared.hints;
    let Some(hint) = Hint::read(payload, &hints.instance) else { return };
    if !hint.queues.is_empty() {
        let queues: Vec<(Scope, Name)> = hint.queues.into_iter().collect();
        shared.memory().candidates.hinted(&queues);
        hints.heard.notify_one();
    }
    if !hint.ended.is_empty() {
        let mut ended = hints.ended_list();
        let room = ENDED_MAX.saturating_sub(ended.len());
        ended.extend(hint.ended.into_iter().take(room));
        drop(ended);
        hints.has_ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(ended: u128) -> Hint {
        let queues = HashSet::from([(Scope::new("acme", "main"), Name::from("images"))]);
        Hint { queues, ended: (0..ended).map(TaskId::from_u128).collect() }
    }

    #[test]
    fn a_fellow_reads_what_was_told_and_nobody_reads_himself() {
        let told = hint(3);
        let payloads = told.payloads("me");
        assert_eq!(payloads.len(), 1);
        let read = Hint::read(&payloads[0], "another").unwrap();
        assert_eq!((read.queues, read.ended), (told.queues, told.ended));
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
    fn what_a_newer_version_adds_is_passed_over() {
        let read = Hint::read("another\na\tb\nnonsense\na\tb\tc\td", "me").unwrap();
        assert_eq!(read.ended, []);
        assert_eq!(read.queues.len(), 1, "what is known of a longer line still counts");
    }
}
