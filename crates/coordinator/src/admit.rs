//! Authentication: API keys of people and workers, task tokens of single attempts.
//!
//! Principals cannot be confused, because each is a type: a route that
//! wants a [`TaskPrincipal`] cannot be given a [`ClientPrincipal`]. Only the module that verifies a
//! credential can construct its principal. Nothing here decides whether a call is accepted: a token
//! proves that this installation issued it, and the row says whether it is still valid.

pub(crate) mod administer;
pub mod api_key;
mod api_keys;
mod change_turns;
pub(crate) mod denials;
pub mod keyring;
pub mod moved_keys;
pub(crate) mod pausing;
pub mod principals;
pub mod record_seals;
mod refresh;
pub mod seal;
pub(crate) mod sessions;
mod shared_ring;

pub use api_key::{NewKey, Role};
pub use api_keys::ApiKeys;
pub(crate) use api_keys::KeyError;
pub use edge::token::{self, TaskPrincipal, TokenRefused, TokenScope};
pub use keyring::{Keyring, KeyringError, Rotation};
pub use principals::{
    AdminPrincipal, ApprovalReaderPrincipal, ApproverPrincipal, AuditorPrincipal, ClientPrincipal,
    KeyHolderPrincipal, LeaseHolderPrincipal, ReaderPrincipal, WorkerPrincipal,
};
pub(crate) use refresh::refresh;

pub(crate) use edge::hex;

/// The cursors of this coordinator's listings.
pub type Cursors<'a> = edge::Cursors<'a, Keyring>;

/// Compares secrets in constant time.
pub(crate) fn is_same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let difference = left.iter().zip(right).fold(0, |found, (l, r)| found | (l ^ r));
    std::hint::black_box(difference) == 0
}
