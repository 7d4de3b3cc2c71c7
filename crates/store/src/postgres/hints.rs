//! Telling fellows what was committed, and hearing what they did: one session, beside the batches.
//!
//! A hint saves the time until the next look and nothing else. It is sent after the commit, once per batch, from
//! a session of its own: a notification inside the batch's transaction would make commits wait for each
//! other. Sending and hearing may fail at any time; then everybody looks by himself. The same session says
//! every few seconds that this coordinator is there.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};
use verdict::{Name, Scope};

use super::expiring::Walk;
use super::opening::Way;
use super::{Shared, fellows, primary, rules};

const CHANNEL: &str = "tenure";

/// Hints that wait to be sent. A full box means a slow session; fellows then look by themselves.
const WAITING_MAX: usize = 64;

/// PostgreSQL refuses longer notifications than 8,000 bytes.
const PAYLOAD_MAX: usize = 7_900;

/// How long to rest before connecting again.
const RECONNECT: Duration = Duration::from_secs(1);

type Queues = HashSet<(Scope, Name)>;

pub(super) struct Hints {
    /// Whose hints are our own, to be ignored.
    instance: String,
    outbox: mpsc::Sender<Queues>,
    inbox: std::sync::Mutex<Option<mpsc::Receiver<Queues>>>,
    heard: Notify,
}

impl Hints {
    pub(super) fn new(instance: String) -> Self {
        let (outbox, inbox) = mpsc::channel(WAITING_MAX);
        Self { instance, outbox, inbox: std::sync::Mutex::new(Some(inbox)), heard: Notify::new() }
    }

    /// Tells fellows that there is something to lease in these queues.
    pub(super) fn send(&self, queues: Queues) {
        if !queues.is_empty() {
            // A full box, or nobody to send: fellows will look by themselves.
            let _ = self.outbox.try_send(queues);
        }
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

async fn run(shared: Weak<Shared>, way: Way, mut inbox: mpsc::Receiver<Queues>) {
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
    inbox: &mut mpsc::Receiver<Queues>,
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
                queues = inbox.recv() => match queues {
                    Some(queues) => tell(&client, shared, queues).await?,
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
    queues: Queues,
) -> Result<(), tokio_postgres::Error> {
    let Some(instance) = shared.upgrade().map(|shared| shared.hints.instance.clone()) else {
        return Ok(());
    };
    let mut payload = instance;
    for (scope, queue) in queues {
        let line = format!(
            "\n{}\t{}\t{}",
            scope.tenant.as_str(),
            scope.workspace.as_str(),
            queue.as_str()
        );
        if payload.len() + line.len() > PAYLOAD_MAX {
            break;
        }
        payload.push_str(&line);
    }
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&CHANNEL, Type::TEXT), (&payload, Type::TEXT)];
    client.query_typed("SELECT pg_notify($1, $2)", &parameters).await?;
    Ok(())
}

fn hear(shared: &Weak<Shared>, payload: &str) {
    let Some(shared) = shared.upgrade() else { return };
    let mut lines = payload.lines();
    if lines.next() == Some(shared.hints.instance.as_str()) {
        return;
    }
    let queue = |line: &str| {
        let mut parts = line.split('\t');
        let scope = Scope::new(parts.next()?, parts.next()?);
        Some((scope, Name::from(parts.next()?)))
    };
    let queues: Vec<(Scope, Name)> = lines.filter_map(queue).collect();
    shared.memory().candidates.hinted(&queues);
    shared.hints.heard.notify_one();
}
