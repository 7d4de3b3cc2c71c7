//! Accepts connections, counts them, and enforces the connection limits.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Limits;
use super::connection::serve_connection;
use super::stream::Stream;
use super::tls::Certificates;
use crate::metrics::{DisconnectReason, Metrics};

/// How long to wait when the system has no file descriptors left: accepting again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    pub(super) routes: Router,
    pub(super) limits: Limits,
    /// Without one, the connection is plaintext.
    pub(super) certificates: Option<Certificates>,
    pub(super) metrics: Metrics,
    pub(super) closing: CancellationToken,
    pub(super) aborting: CancellationToken,
    pub(super) connections: TaskTracker,
}

/// Accepts until `closing` is cancelled.
pub(super) async fn accept(acceptor: Acceptor) {
    let peers = Peers::new(&acceptor.limits);
    let acceptor = Arc::new(acceptor);
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.listener.accept() => accepted,
            () = acceptor.closing.cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Logged once per shortage: it may last, and the log must not grow with it.
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!(%error, "cannot accept connections; they wait");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        is_short = false;
        // Over the limit: closed without an answer, which costs nothing.
        let slot = match peers.slot(peer.ip(), &acceptor.metrics) {
            Ok(slot) => slot,
            Err(why) => {
                acceptor.metrics.count_disconnect(why);
                continue;
            }
        };
        prepare(&stream);
        let begun = acceptor.clone();
        acceptor.connections.spawn(async move {
            let _slot = slot;
            let _ = begun.aborting.run_until_cancelled(begin(stream, &begun)).await;
        });
    }
}

async fn begin(socket: TcpStream, acceptor: &Acceptor) {
    let Acceptor { routes, limits, certificates, metrics, closing, .. } = acceptor;
    let stream = match certificates {
        None => Some(Stream::Plain(socket)),
        Some(certificates) => {
            let shaken = Stream::handshake(socket, certificates, limits.handshake_within).await;
            if shaken.is_none() {
                metrics.count_disconnect(DisconnectReason::Handshake);
            }
            shaken
        }
    };
    if let Some(stream) = stream {
        serve_connection(stream, routes.clone(), *limits, metrics, closing.clone()).await;
    }
}

/// Disables Nagle's algorithm: answers are small and clients wait for them.
fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot disable Nagle's algorithm for a connection");
    }
}

/// The network bits of an IPv6 address. A customer gets at least a /64, so one address implies its whole
/// network.
const IPV6_NETWORK_BITS: u32 = 64;

/// What counts as one peer: an IPv4 address, also in its IPv6-mapped form, or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Peer {
    V4(Ipv4Addr),
    V6Network(u128),
}

impl Peer {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Peer::V4(address),
            IpAddr::V6(address) => {
                Peer::V6Network(address.to_bits() >> (Ipv6Addr::BITS - IPV6_NETWORK_BITS))
            }
        }
    }
}

/// The number of connections per peer.
#[derive(Clone)]
struct Peers {
    counts: Arc<Mutex<PeerCounts>>,
    max: usize,
    max_per_peer: usize,
}

#[derive(Default)]
struct PeerCounts {
    total: usize,
    by_peer: HashMap<Peer, usize>,
}

/// A connection's slot; released on drop.
struct ConnectionSlot {
    counts: Arc<Mutex<PeerCounts>>,
    peer: Peer,
    open: Gauge,
}

impl Peers {
    fn new(limits: &Limits) -> Self {
        Self {
            counts: Arc::default(),
            max: limits.connections,
            max_per_peer: limits.connections_per_peer,
        }
    }

    fn slot(&self, address: IpAddr, metrics: &Metrics) -> Result<ConnectionSlot, DisconnectReason> {
        let peer = Peer::of(address);
        let mut counts = self.counts.lock().expect("no code panics while it counts");
        let of_peer = counts.by_peer.get(&peer).copied().unwrap_or(0);
        if counts.total >= self.max {
            return Err(DisconnectReason::Full);
        }
        if of_peer >= self.max_per_peer {
            return Err(DisconnectReason::PeerFull);
        }
        counts.total += 1;
        counts.by_peer.insert(peer, of_peer + 1);
        metrics.connections.inc();
        Ok(ConnectionSlot { counts: self.counts.clone(), peer, open: metrics.connections.clone() })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.open.dec();
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
    use prometheus_client::registry::Registry;

    use super::*;

    fn metrics() -> Metrics {
        Metrics::register(&mut Registry::default())
    }

    #[test]
    fn seats_are_limited_in_total_and_per_peer_and_come_back() {
        let limits = Limits { connections: 3, connections_per_peer: 2, ..Limits::default() };
        let (peers, metrics) = (Peers::new(&limits), metrics());
        let slot = |peer| peers.slot(peer, &metrics);
        let [one, two]: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
        let first = slot(one).ok().unwrap();
        let _second = slot(one).ok().unwrap();
        assert_eq!(slot(one).err(), Some(DisconnectReason::PeerFull));
        let _third = slot(two).ok().unwrap();
        assert_eq!(slot(two).err(), Some(DisconnectReason::Full));
        assert_eq!(metrics.connections.get(), 3);
        drop(first);
        assert!(slot(two).is_ok());
        assert_eq!(metrics.connections.get(), 2);
    }

    #[test]
    fn one_network_of_ipv6_is_one_peer_and_so_is_one_address_of_ipv4_however_it_is_spelled() {
        // X21: a customer with a /64 has 2^64 addresses and still one share of the slots.
        let limits = Limits { connections: 9, connections_per_peer: 2, ..Limits::default() };
        for [first, second, third, other] in [
            ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:3", "2001:db8:0:1::1"],
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2"],
        ] {
            let (peers, metrics) = (Peers::new(&limits), metrics());
            let slot = |address: &str| peers.slot(address.parse().unwrap(), &metrics);
            let _held = [slot(first).ok().unwrap(), slot(second).ok().unwrap()];
            assert_eq!(slot(third).err(), Some(DisconnectReason::PeerFull), "{third}");
            assert!(slot(other).is_ok(), "{other}");
        }
    }
}
