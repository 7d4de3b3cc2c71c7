//! The check before a call: every address of the target must be one that may be called.
//!
//! One refused address refuses all: a name that answers with a public and a private address is an attack, or a mistake
//! that must not depend on which of them is tried first.

use std::net::{IpAddr, SocketAddr};

use url::Host;

use crate::dial::CheckedAddress;
use crate::egress::Egress;
use crate::resolve::Resolve;
use crate::target::{Refused, Target};

/// Maximum addresses of one name. Large services answer with a dozen.
pub const ADDRESSES_MAX: usize = 64;

/// Resolves the target once and checks each address.
pub async fn check(
    target: &Target,
    egress: &Egress,
    resolver: &dyn Resolve,
) -> Result<Vec<CheckedAddress>, Refused> {
    let addresses = addresses(target, resolver).await?;
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(Refused::Resolution);
    }
    for address in addresses.iter().filter(|_| !faultpoint::mutant(32)) {
        target.check_address(*address, egress)?;
    }
    let checked = |address| CheckedAddress::new(SocketAddr::new(address, target.port()));
    Ok(addresses.into_iter().map(checked).collect())
}

async fn addresses(target: &Target, resolver: &dyn Resolve) -> Result<Vec<IpAddr>, Refused> {
    match target.host() {
        Host::Ipv4(address) => Ok(vec![IpAddr::V4(address)]),
        Host::Ipv6(address) => Ok(vec![IpAddr::V6(address)]),
        Host::Domain(name) => resolver.resolve(name).await.map_err(|_| Refused::Resolution),
    }
}
