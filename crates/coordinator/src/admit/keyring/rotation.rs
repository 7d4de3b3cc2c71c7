//! Rotation: computes the next set of keys.

use std::sync::Arc;

use edge::SigningKey;
use verdict::{Span, Time};

use super::Ring;
use super::key_file::{Contents, fresh};
use super::sealing_key::{SealingKey, sealing};
use crate::ids::Entropy;

/// Rotations within one overlap. Beyond that the oldest key is dropped first.
const KEYS_MAX: usize = 8;

/// Keys that only verify old seals: a rotation each month for twenty years. Beyond that the oldest is
/// dropped.
const SEALING_MAX: usize = 240;

/// What happens to the previous keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// They are accepted for this long, so that work in flight goes on.
    Overlap(Span),
    /// A key has leaked: nothing that was signed before is accepted.
    Emergency,
}

impl Ring {
    /// The keys after a rotation.
    pub(super) fn after(
        &self,
        entropy: &mut dyn Entropy,
        rotation: Rotation,
        now: Time,
    ) -> Contents {
        let ring = self;
        // The leaked file contains the next key as well.
        let published = ring.next.clone().filter(|_| rotation != Rotation::Emergency);
        let mut keys = vec![published.unwrap_or_else(|| fresh(entropy))];
        let next = fresh(entropy);
        if let Rotation::Overlap(overlap) = rotation {
            let end = now.plus(overlap);
            let older = ring.keys.iter().filter(|key| key.is_valid_at(now));
            keys.extend(older.map(|key| {
                let not_after = Some(key.not_after().map_or(end, |before| before.min(end)));
                Arc::new(key.with_not_after(not_after))
            }));
        }
        keys.truncate(KEYS_MAX);
        let sealing = ring.sealing_after(&keys);
        Contents { keys, next: Some(next), sealing }
    }

    /// Keys that are dropped leave their sealing keys behind.
    fn sealing_after(&self, staying: &[Arc<SigningKey>]) -> Vec<SealingKey> {
        let stays = |kid: &str| staying.iter().any(|key| key.kid() == kid);
        let going = self.keys.iter().rev().filter(|key| !stays(key.kid()));
        let going = going.map(|key| SealingKey { kid: key.kid().to_owned(), key: sealing(key) });
        let mut kept: Vec<SealingKey> = self.sealing.iter().cloned().chain(going).collect();
        kept.drain(..kept.len().saturating_sub(SEALING_MAX));
        kept
    }
}
