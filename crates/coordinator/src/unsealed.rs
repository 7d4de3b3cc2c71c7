//! The audit without seals: the keys that seal it belong to the HTTP API, and this build has none.
//!
//! Invariant: no sealer exists, so every act is written as it is.

use store::{Administration, CommitFailure, Store};

/// Has no value.
pub(crate) enum Sealer {}

impl Sealer {
    pub(crate) async fn write<S: Store>(
        &self,
        _store: &S,
        _writer: &mut S::Writer,
        _act: &mut Administration,
    ) -> Result<(), CommitFailure> {
        match *self {}
    }
}
