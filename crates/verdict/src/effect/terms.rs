//! What an endpoint's registration says about deliveries.

use super::intent::EffectId;
use crate::id::Digest;
use crate::time::Span;

/// More doublings could overflow, and every cap is reached long before.
const DOUBLINGS_MAX: u32 = 40;

/// Changes when the formula of the backoff changes, so that recorded schedules stay explainable.
const BACKOFF_VERSION: u8 = 1;

/// How many tries an effect has unless its endpoint says otherwise. With the backoff below they span three days.
pub const TRIES_DEFAULT: u32 = 20;

/// Maximum tries that an endpoint may ask for.
pub const TRIES_MAX: u32 = 100;

/// The longest time that a receiver may ask us to wait by `Retry-After`: longer would let it park its line for ever.
pub const RETRY_AFTER_MAX: Span = Span::from_secs(24 * 60 * 60);

/// What becomes of a line whose head is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDead {
    /// It stops until a person redrives or releases the effect: order matters more than progress.
    #[default]
    Block,
    /// It goes on, and the number stays missing at the receiver.
    Skip,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EffectTerms {
    /// Whether the receiver recognises a repeated id. If not, a call without a status is not repeated.
    pub is_idempotent: bool,
    /// Whether it may be called. Effects wait while it is not.
    pub is_enabled: bool,
    /// Whether the endpoint exists. Nothing waits for one that does not.
    pub is_registered: bool,
    pub tries_max: u32,
    pub retry_base: Span,
    pub retry_cap: Span,
    pub on_dead: OnDead,
}

impl Default for EffectTerms {
    fn default() -> Self {
        Self {
            is_idempotent: true,
            is_enabled: true,
            is_registered: true,
            tries_max: TRIES_DEFAULT,
            retry_base: Span::from_secs(5),
            retry_cap: Span::from_secs(6 * 60 * 60),
            on_dead: OnDead::Block,
        }
    }
}

impl EffectTerms {
    /// The pause after the `tries`-th try: exponential, capped, plus a jitter that is a hash of effect and try, so that it
    /// is the same wherever and whenever it is computed (S2-80, D8). A receiver that asks for more gets more.
    pub(super) fn pause(&self, id: EffectId, tries: u32, retry_after: Option<Span>) -> Span {
        let doublings = tries.saturating_sub(1).min(DOUBLINGS_MAX);
        let exponential = self.retry_base.millis().saturating_mul(1 << doublings);
        let digest = Digest::of(&[id.digest().bytes(), &tries.to_be_bytes(), &[BACKOFF_VERSION]]);
        let mut head = [0; 8];
        head.copy_from_slice(&digest.bytes()[..8]);
        let jitter = u64::from_be_bytes(head) % (self.retry_base.millis() / 2).saturating_add(1);
        let ours = exponential.min(self.retry_cap.millis()).saturating_add(jitter);
        let asked = retry_after.map_or(Span::ZERO, |it| it.min(RETRY_AFTER_MAX));
        Span::from_millis(ours).max(asked)
    }
}
