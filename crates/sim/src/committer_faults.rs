//! What happens to one committer of one coordinator while the other goes on: its connection hangs, is refused, or is
//! found to be no longer trustworthy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{Failure, FailureKind};

use crate::fault::Fault;
use crate::log::Log;

/// Between two looks whether a connection answers again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Which committer of which host: the first of two hears workers, the second takes new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitterId {
    pub(crate) host: usize,
    pub(crate) committer: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitterFault {
    /// No batch begins.
    Hangs,
    /// Every batch is refused.
    Refuses,
    /// Every batch finds that the store cannot be trusted, until the process has ended.
    Breaks,
}

#[derive(Default)]
struct CommitterFaultState {
    /// Until when, in true time.
    faults: BTreeMap<CommitterId, (CommitterFault, u64)>,
    active: BTreeSet<CommitterId>,
}

/// Shared by all coordinators.
#[derive(Clone)]
pub(crate) struct CommitterFaults {
    state: Arc<Mutex<CommitterFaultState>>,
    log: Log,
}

impl CommitterFaults {
    pub(crate) fn new(log: Log) -> Self {
        Self { state: Arc::default(), log }
    }

    fn state(&self) -> MutexGuard<'_, CommitterFaultState> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    pub(crate) fn inject(&self, committer_id: CommitterId, fault: CommitterFault, until: u64) {
        self.state().faults.insert(committer_id, (fault, until));
    }

    pub(crate) fn stop_faults(&self) {
        self.state().faults.clear();
    }

    /// The process of this host is gone.
    pub(crate) fn remove_host(&self, host: usize) {
        let mut state = self.state();
        state.active.retain(|committer_id| committer_id.host != host);
        state.faults.retain(|committer_id, (fault, _)| {
            committer_id.host != host || *fault != CommitterFault::Breaks
        });
    }

    /// Whether the coordinator of this committer has two committers.
    pub(crate) fn has_two(&self, committer_id: CommitterId) -> bool {
        self.state().active.iter().filter(|active| active.host == committer_id.host).count() > 1
    }

    fn active_fault(&self, committer_id: CommitterId) -> Option<CommitterFault> {
        let (now, mut state) = (self.log.now(), self.state());
        state.active.insert(committer_id);
        let (fault, until) = state.faults.get(&committer_id).copied()?;
        if until <= now {
            state.faults.remove(&committer_id);
        }
        (now < until).then_some(fault)
    }

    /// A batch is about to begin.
    pub(crate) async fn before_batch(&self, committer_id: CommitterId) -> Result<(), Failure> {
        let mut is_told = false;
        loop {
            match self.active_fault(committer_id) {
                None => return Ok(()),
                Some(CommitterFault::Hangs) => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.log.fault(Fault::CommitterHangs);
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Some(CommitterFault::Refuses) => {
                    self.log.fault(Fault::CommitterRefused);
                    return Err(Failure::new(
                        FailureKind::Unavailable,
                        "no connection for this one",
                    ));
                }
                Some(CommitterFault::Breaks) => {
                    self.log.fault(Fault::CommitterBreaks);
                    return Err(Failure::new(FailureKind::Fatal, "the store answers nonsense"));
                }
            }
        }
    }
}
