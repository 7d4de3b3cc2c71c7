//! Who is asking: API keys of people and workers, task tokens of single attempts.
//!
//! Four principals that cannot be confused, because they are four types: a route that wants a
//! [`TaskPrincipal`] cannot be given a [`ClientPrincipal`]. Each can be made only by the module that
//! verifies its credential. Nothing here says whether a call is granted: a token proves that we
//! issued it, and the row says whether it still counts.

pub(crate) mod administer;
pub mod api_key;
mod api_keys;
pub(crate) mod denials;
pub mod keyring;
pub mod moved_keys;
pub mod seal;
mod shared_ring;

pub use api_key::{AdminPrincipal, ClientPrincipal, NewKey, Role, WorkerPrincipal};
pub use api_keys::ApiKeys;
pub(crate) use api_keys::KeyError;
pub use edge::token::{self, TaskPrincipal, TokenRefused, TokenScope};
pub use keyring::{Keyring, KeyringError, Rotation};

use edge::hex;

/// The cursors of this coordinator's listings.
pub type Cursors<'a> = edge::Cursors<'a, Keyring>;

/// Compares secrets in a time that does not depend on where they differ.
fn is_same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let difference = left.iter().zip(right).fold(0, |found, (l, r)| found | (l ^ r));
    std::hint::black_box(difference) == 0
}
