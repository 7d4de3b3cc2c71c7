//! A proxy that cuts a connection where it hurts most: at COMMIT.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// A simple query with the word, as it goes over the wire.
const COMMIT: &[u8] = b"COMMIT\0";

/// What happens to the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server hears it; its answer is lost.
    Answer,
    /// The server never hears it.
    Question,
}

pub(crate) struct Proxy {
    folder: TempDir,
    next: Arc<Mutex<Option<Cut>>>,
}

impl Proxy {
    /// Stands before the server whose socket is in this folder.
    pub(crate) fn start(server: PathBuf) -> Self {
        let folder = TempDir::new().expect("a folder for the socket");
        let listener =
            UnixListener::bind(folder.path().join(SOCKET)).expect("a socket can be made");
        let next = Arc::new(Mutex::new(None));
        let cuts = next.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(server.join(SOCKET)).await.expect("it is up");
                tokio::spawn(relay(client, server, cuts.clone()));
            }
        });
        Self { folder, next }
    }

    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Cuts the next COMMIT that comes by, once.
    pub(crate) fn cut(&self, cut: Cut) {
        *self.next.lock().unwrap() = Some(cut);
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

const SOCKET: &str = ".s.PGSQL.5432";

async fn relay(client: UnixStream, server: UnixStream, cuts: Arc<Mutex<Option<Cut>>>) {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let is_lost = Arc::new(AtomicBool::new(false));
    let back = tokio::spawn(answer(from_server, to_client, is_lost.clone()));
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length) = from_client.read(&mut buffer).await {
        let sent = &buffer[..length];
        let cut = if sent.ends_with(COMMIT) { cuts.lock().unwrap().take() } else { None };
        match cut {
            _ if length == 0 => break,
            Some(Cut::Question) => break,
            Some(Cut::Answer) => {
                is_lost.store(true, Ordering::SeqCst);
                let _ = to_server.write_all(sent).await;
                // The server ends the session only when it has done what it was told.
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

/// Brings answers back. Of a lost one nothing gets through, but the server finds somebody who takes it.
async fn answer(
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    is_lost: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length) = from_server.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        if !is_lost.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).await.is_err()
        {
            break;
        }
    }
}
