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
    /// another.
    pub(super) async fn administer(&mut self, acts: Vec<Act>) -> Result<(), Fatal> {
        for Act { mut act, reply } in acts {
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
