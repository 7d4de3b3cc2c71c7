//! Administrative acts. They go through the carrier, because the carrier owns the store's writer.

use store::{Administration, CommitFailure, FailureKind, Store, Writer};
use tokio::sync::oneshot;

use super::{Carrier, Fatal};
use crate::item::{RequestError, UnavailableReason};

/// An act that waits to be written, with the reply channel of its caller.
pub(super) struct Act {
    pub(super) act: Administration,
    pub(super) reply: oneshot::Sender<Result<(), RequestError>>,
}

impl<S: Store> Carrier<S> {
    /// Writes each act in a separate transaction: acts are rare, and none may fail because of
    /// another. Notes of which keys were used are written together.
    pub(super) async fn administer(&mut self, acts: Vec<Act>) -> Result<(), Fatal> {
        for Act { mut act, reply } in with_notes_merged(acts) {
            // Polls may wait at a queue that is resumed: the next round follows at once.
            self.more_due |= !act.pauses.is_empty();
            let written = match self.sealer.get() {
                Some(sealer) => sealer.write(&self.store, &mut self.writer, &mut act).await,
                None => self.writer.administer(&act).await,
            };
            let (answer, end) = match written {
                Ok(()) => (Ok(()), Ok(())),
                Err(CommitFailure::RolledBack(failure)) => {
                    tracing::error!(error = &failure as &dyn std::error::Error, "not written");
                    let error = match failure.kind {
                        FailureKind::Invalid => {
                            self.metrics.failures.inc();
                            RequestError::Defect
                        }
                        _ => RequestError::Unavailable(
                            self.enter_outage(UnavailableReason::of(&failure)),
                        ),
                    };
                    (Err(error), Ok(()))
                }
                Err(CommitFailure::Unknown(failure)) => {
                    tracing::error!(error = &failure as &dyn std::error::Error, "in doubt");
                    let end = match failure.kind {
                        FailureKind::Fatal => Err(Fatal::of(&failure)),
                        _ => Ok(()),
                    };
                    (Err(RequestError::Unknown), end)
                }
            };
            // The act of a caller that disconnected is written all the same.
            let _ = reply.send(answer);
            end?;
        }
        Ok(())
    }
}

/// The acts, with all notes of used keys in the first of them. A note that is lost is made again with the next use, so the callers of
/// the others are told that theirs was written with it.
fn with_notes_merged(acts: Vec<Act>) -> Vec<Act> {
    let (mut notes, others): (Vec<Act>, Vec<Act>) = acts.into_iter().partition(is_note);
    let all = notes.iter_mut().flat_map(|note| std::mem::take(&mut note.act.uses)).collect();
    let mut merged: Vec<Act> = Vec::with_capacity(others.len() + 1);
    for Act { act, reply } in notes {
        match merged.is_empty() {
            true => merged.push(Act { act, reply }),
            // Nobody waits for it but a log line.
            false => drop(reply.send(Ok(()))),
        }
    }
    if let Some(first) = merged.first_mut() {
        first.act.uses = all;
    }
    merged.extend(others);
    merged
}

fn is_note(act: &Act) -> bool {
    let Administration { uses, keys, limits, pauses, audit, record_seals, follows: _, ring } =
        &act.act;
    let writes_more = !keys.is_empty()
        || !limits.is_empty()
        || !pauses.is_empty()
        || !audit.is_empty()
        || !record_seals.is_empty()
        || ring.is_some();
    !uses.is_empty() && !writes_more
}

#[cfg(test)]
mod tests {
    use verdict::{Name, Time};

    use super::*;

    #[test]
    fn notes_of_used_keys_are_one_commit_and_other_acts_stay_apart() {
        let act = |uses: Vec<(Name, Time)>| {
            let (reply, written) = oneshot::channel();
            (Act { act: Administration { uses, ..Administration::default() }, reply }, written)
        };
        let note = |name: &str| act(vec![(name.into(), Time::default())]);
        let ((one, _first), (other, _other), (two, mut second)) =
            (note("a"), act(Vec::new()), note("b"));
        let merged = with_notes_merged(vec![one, other, two]);
        assert_eq!(merged.iter().map(|act| act.act.uses.len()).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(second.try_recv(), Ok(Ok(())));
    }
}
