//! Outgoing HTTP to addresses that others chose (webhooks, push), without becoming their way into our network.
//!
//! ```text
//! text ─► Target      one parser, https, no user, no fragment, allowed ports, literal addresses judged
//!      ─► CheckedAddress   names resolved once; one answer that is not public refuses all of them
//!      ─► Dial        takes a CheckedAddress and nothing else: what is dialled is what was checked
//! ```
//!
//! A [`CheckedAddress`] can only be made here, and a connection only from one, so there is no second resolution between
//! the check and the call. There are no redirects, no proxies of the environment, no cookies and no pool: a call is one
//! connection. An operator may allow ranges ([`Egress`]), for receivers inside; plain `http` is possible only there.
//!
//! How many names are looked up at a time is bounded, for all tenants and for each of them.
//!
//! It does not sign, retry or order anything.

mod address;
mod dial;
mod egress;
mod guard;
mod lookups;
mod resolve;
mod retry_after;
mod send;
mod target;
mod tls;

pub use address::is_public;
pub use dial::{CheckedAddress, Dial, Stream, TcpDialer};
pub use egress::{Egress, PORTS};
pub use guard::{ADDRESSES_MAX, check};
pub use lookups::{LOOKUPS_MAX, LOOKUPS_OF_NAME_MAX, LOOKUPS_OF_TENANT_MAX};
pub use resolve::{Resolve, SystemResolver};
pub use retry_after::{RetryAfter, parse_retry_after};
pub use send::{
    ANSWER_MAX, Answered, CONNECT_LIMIT, EXCERPT_MAX, Outgoing, SendOutcome, Sender, TOTAL_LIMIT,
};
pub use target::{Refused, Target, URL_MAX};
pub use tls::{Roots, RootsError};
