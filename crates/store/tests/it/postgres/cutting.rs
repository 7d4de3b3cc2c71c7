//! A proxy that cuts a connection at the worst moment: at COMMIT.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A simple query with this text, as bytes of the protocol.
const COMMIT: &[u8] = b"COMMIT\0";

/// What happens to the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server receives it; its answer is lost.
    Answer,
    /// The server never receives it.
    Question,
    /// The server receives it only after [`Proxy::let_go`]; the sender gets no answer.
    Late,
}

pub(crate) struct Proxy {
    folder: TempDir,
    next: Arc<Mutex<Option<Cut>>>,
    late: Arc<Late>,
}

/// When a delayed COMMIT may continue, and whether the server has processed it.
#[derive(Default)]
struct Late {
    may_go: Notify,
    has_ended: Notify,
}

impl Proxy {
    /// Starts in front of the server whose socket is in this folder.
    pub(crate) fn start(server: PathBuf) -> Self {
        let folder = TempDir::new().expect("a folder for the socket");
        let listener =
            UnixListener::bind(folder.path().join(SOCKET)).expect("a socket can be made");
        let next = Arc::new(Mutex::new(None));
        let late = Arc::new(Late::default());
        let (cuts, held) = (next.clone(), late.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(server.join(SOCKET)).await.expect("it is up");
                tokio::spawn(relay(client, server, cuts.clone(), held.clone()));
            }
        });
        Self { folder, next, late }
    }

    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Cuts the next COMMIT, once.
    pub(crate) fn cut(&self, cut: Cut) {
        *self.next.lock().unwrap() = Some(cut);
    }

    /// Forwards the delayed COMMIT to the server, and waits until the server has executed it.
    pub(crate) async fn let_go(&self) {
        self.late.may_go.notify_one();
        self.late.has_ended.notified().await;
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

const SOCKET: &str = ".s.PGSQL.5432";

async fn relay(
    client: UnixStream,
    server: UnixStream,
    cuts: Arc<Mutex<Option<Cut>>>,
    late: Arc<Late>,
) {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let is_lost = Arc::new(AtomicBool::new(false));
    let hangs_up = Arc::new(Notify::new());
    let back = tokio::spawn(answer(from_server, to_client, is_lost.clone(), hangs_up.clone()));
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length) = from_client.read(&mut buffer).await {
        let sent = &buffer[..length];
        let cut = if sent.ends_with(COMMIT) { cuts.lock().unwrap().take() } else { None };
        match cut {
            _ if length == 0 => break,
            Some(Cut::Question) => break,
            Some(Cut::Late) => {
                // The client sees its connection end; the server does not.
                drop(from_client);
                hangs_up.notify_one();
                deliver_late(sent, to_server, back, &late).await;
                return;
            }
            Some(Cut::Answer) => {
                is_lost.store(true, Ordering::SeqCst);
                let _ = to_server.write_all(sent).await;
                // The server ends the session only after it has executed everything it received.
                let _ = to_server.shutdown().await;
                let _ = back.await;
                return;
            }
            None => {
                if to_server.write_all(sent).await.is_err() {
                    break;
                }
            }
        }
    }
    back.abort();
}

async fn deliver_late(
    sent: &[u8],
    mut to_server: OwnedWriteHalf,
    back: JoinHandle<OwnedReadHalf>,
    late: &Late,
) {
    let mut from_server = back.await.expect("it brings nothing back any more");
    late.may_go.notified().await;
    let _ = to_server.write_all(sent).await;
    let _ = to_server.shutdown().await;
    let _ = from_server.read_to_end(&mut Vec::new()).await;
    late.has_ended.notify_one();
}

/// Forwards answers until the server ends or the client must get no more. A lost answer is read from the server, so
/// that the server is not blocked, and discarded.
async fn answer(
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    is_lost: Arc<AtomicBool>,
    hangs_up: Arc<Notify>,
) -> OwnedReadHalf {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = tokio::select! {
            length = from_server.read(&mut buffer) => length.unwrap_or(0),
            () = hangs_up.notified() => 0,
        };
        let is_over = length == 0
            || (!is_lost.load(Ordering::SeqCst)
                && to_client.write_all(&buffer[..length]).await.is_err());
        if is_over {
            return from_server;
        }
    }
}
