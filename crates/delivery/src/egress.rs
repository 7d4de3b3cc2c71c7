//! What an operator allows beyond the public Internet, and what is never called.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// Ports of public receivers. An allowed range may be called on every port.
pub const PORTS: [u16; 2] = [443, 8443];

/// By default nothing but the public Internet over TLS.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// Ranges that may be called though they are not public, also in plain text.
    pub allowed: Vec<IpNet>,
    /// Our own listeners: a webhook to ourselves would be a loop with our authority.
    pub own: Vec<SocketAddr>,
}

impl Egress {
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed.iter().any(|range| range.contains(&address))
    }

    /// A listener on all addresses is found on each of the machine's, of which only loopback is known by its number.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.own.iter().any(|own| {
            let is_same = own.ip().to_canonical() == ip;
            let is_local = own.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified());
            own.port() == address.port() && (is_same || is_local)
        })
    }
}
