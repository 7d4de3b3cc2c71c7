//! How the table of attempts spells an outcome.
//!
//! The table allows the six words that it was created with, and a store that may hold millions of
//! attempts is not rewritten for more. A released, suspended or diverged attempt is therefore stored
//! as `REVOKED`, and its reason, which no other attempt has, tells it from a revoked one. Histories
//! are JSON and spell every outcome by its own name.

use verdict::{AttemptOutcome, Reason};

/// The word in the column `outcome`.
pub(crate) fn stored(outcome: AttemptOutcome) -> AttemptOutcome {
    match outcome {
        AttemptOutcome::Released | AttemptOutcome::Suspended | AttemptOutcome::Diverged => {
            AttemptOutcome::Revoked
        }
        AttemptOutcome::Succeeded
        | AttemptOutcome::Failed
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Lost
        | AttemptOutcome::Undelivered
        | AttemptOutcome::Revoked => outcome,
    }
}

/// The outcome of an attempt with this word and this reason.
pub(crate) fn read(word: AttemptOutcome, reason: Option<Reason>) -> AttemptOutcome {
    match (word, reason) {
        (AttemptOutcome::Revoked, Some(Reason::Released)) => AttemptOutcome::Released,
        (AttemptOutcome::Revoked, Some(Reason::Suspended)) => AttemptOutcome::Suspended,
        (AttemptOutcome::Revoked, Some(Reason::Diverged)) => AttemptOutcome::Diverged,
        _ => word,
    }
}
