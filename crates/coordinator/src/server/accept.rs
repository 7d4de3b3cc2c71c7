//! Takes connections, counts them, and lets none in beyond the limits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Limits;
use super::connection::serve_connection;
use super::stream::Stream;
use super::tls::Certificates;

/// How long to wait when the system has no more descriptors: accepting again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) routes: Router,
    pub(super) limits: Limits,
    /// Without one, what is said can be read on the way.
    pub(super) certificates: Option<Certificates>,
    pub(super) closing: CancellationToken,
    pub(super) cutting: CancellationToken,
    pub(super) connections: TaskTracker,
}

/// Accepts until told to close.
pub(super) async fn accept(listening: Listening) {
    let Listening { listener, routes, limits, certificates, closing, cutting, connections } =
        listening;
    let peers = Peers::new(&limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Over the limit: closed without a word, which costs us nothing.
        let Some(seat) = peers.seat(peer.ip()) else { continue };
        prepare(&stream);
        let served = begin(stream, certificates.clone(), routes.clone(), limits, closing.clone());
        let cutting = cutting.clone();
        connections.spawn(async move {
            let _seat = seat;
            let _ = cutting.run_until_cancelled(served).await;
        });
    }
}

async fn begin(
    socket: TcpStream,
    certificates: Option<Certificates>,
    routes: Router,
    limits: Limits,
    closing: CancellationToken,
) {
    let stream = match &certificates {
        None => Some(Stream::Plain(socket)),
        Some(certificates) => Stream::shake(socket, certificates, limits.handshake_within).await,
    };
    if let Some(stream) = stream {
        serve_connection(stream, routes, limits, closing).await;
    }
}

/// Answers are small and waited for: they should not wait for more data.
fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's delay");
    }
}

/// Who is connected how often.
#[derive(Clone)]
struct Peers {
    counts: Arc<Mutex<Counts>>,
    max: usize,
    max_per_peer: usize,
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// A connection's place; free again when dropped.
struct Seat {
    counts: Arc<Mutex<Counts>>,
    peer: IpAddr,
}

impl Peers {
    fn new(limits: &Limits) -> Self {
        Self {
            counts: Arc::default(),
            max: limits.connections,
            max_per_peer: limits.connections_per_peer,
        }
    }

    fn seat(&self, peer: IpAddr) -> Option<Seat> {
        let mut counts = self.counts.lock().expect("no code panics while it counts");
        let of_peer = counts.by_peer.get(&peer).copied().unwrap_or(0);
        if counts.total >= self.max || of_peer >= self.max_per_peer {
            return None;
        }
        counts.total += 1;
        counts.by_peer.insert(peer, of_peer + 1);
        Some(Seat { counts: self.counts.clone(), peer })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().expect("no code panics while it counts");
        counts.total -= 1;
        let of_peer = counts.by_peer.remove(&self.peer).unwrap_or(1);
        if of_peer > 1 {
            counts.by_peer.insert(self.peer, of_peer - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_limited_in_total_and_per_peer_and_come_back() {
        let limits = Limits { connections: 3, connections_per_peer: 2, ..Limits::default() };
        let peers = Peers::new(&limits);
        let [one, two]: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
        let first = peers.seat(one).unwrap();
        let _second = peers.seat(one).unwrap();
        assert!(peers.seat(one).is_none(), "per peer");
        let _third = peers.seat(two).unwrap();
        assert!(peers.seat(two).is_none(), "in total");
        drop(first);
        assert!(peers.seat(two).is_some());
    }
}
