//! Which addresses are public: everything that is not set aside for something else.
//!
//! An IPv6 address can contain an IPv4 address in many ways, and a gateway or the kernel takes it out again. So what is
//! inside is judged too, wherever there is an address inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of IPv4 that no webhook goes to, with their prefix lengths (RFC 6890 and its successors).
const CLOSED_V4: [([u8; 4], u32); 18] = [
    ([0, 0, 0, 0], 8),        // this network
    ([10, 0, 0, 0], 8),       // private
    ([100, 64, 0, 0], 10),    // shared with a carrier's NAT
    ([127, 0, 0, 0], 8),      // loopback
    ([169, 254, 0, 0], 16),   // link-local, metadata of clouds
    ([168, 63, 129, 16], 32), // a cloud's own services for its machines
    ([172, 16, 0, 0], 12),    // private
    ([192, 0, 0, 0], 24),     // protocol assignments
    ([192, 0, 2, 0], 24),     // documentation
    ([192, 31, 196, 0], 24),  // AS112
    ([192, 52, 193, 0], 24),  // AMT
    ([192, 88, 99, 0], 24),   // 6to4 relays
    ([192, 168, 0, 0], 16),   // private
    ([192, 175, 48, 0], 24),  // AS112
    ([198, 18, 0, 0], 15),    // benchmarks
    ([198, 51, 100, 0], 24),  // documentation
    ([203, 0, 113, 0], 24),   // documentation
    ([224, 0, 0, 0], 3),      // multicast, reserved, broadcast
];

/// Public IPv6 is inside 2000::/3; these are the closed parts of it.
const CLOSED_V6: [([u16; 3], u32); 5] = [
    ([0x2001, 0, 0], 23),         // protocol assignments: Teredo, benchmarks, ORCHID
    ([0x2001, 0xdb8, 0], 32),     // documentation
    ([0x2620, 0x4f, 0x8000], 48), // AS112
    ([0x3fff, 0, 0], 20),         // documentation
    ([0x2002, 0, 0], 16),         // 6to4: what it embeds may be anything, and nobody uses it
];

/// Whether the address belongs to the public Internet, as far as its number says.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !CLOSED_V4.iter().any(|(network, length)| {
        let network = Ipv4Addr::from(*network).to_bits();
        (bits ^ network).leading_zeros() >= *length
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let is_global = address.segments()[0] >> 13 == 1;
    is_global && !is_isatap(address) && !CLOSED_V6.iter().any(|it| is_within(address, it))
}

fn is_within(address: Ipv6Addr, (head, length): &([u16; 3], u32)) -> bool {
    let network = Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, 0);
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= *length
}

/// The interface identifier of ISATAP ends with an IPv4 address, of any network.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!(segments[4], 0 | 0x200) && segments[5] == 0x5efe
}

/// The IPv4 address that a translator would take out. Mapped, compatible and NAT64 addresses are as good as it; NAT64 of
/// a local prefix (64:ff9b:1::/48) is not public, whatever is inside.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let is_mapped = segments[..5] == [0; 5] && matches!(segments[5], 0 | 0xffff);
    let is_translated = segments[..4] == [0, 0, 0, 0] && segments[4] == 0xffff && segments[5] == 0;
    let is_nat64 = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    (is_mapped || is_translated || is_nat64).then(|| Ipv4Addr::from_bits(address.to_bits() as u32))
}
