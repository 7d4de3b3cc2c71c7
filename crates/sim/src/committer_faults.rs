//! Faults of one committer while the other one of the same coordinator continues: its connection hangs, is refused,
//! or finds that the store cannot be trusted any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{Failure, FailureKind};

use crate::fault::Fault;
use crate::log::Log;

/// Interval at which a hanging batch checks whether its connection answers again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A committer of a host. Of two, the first carries calls under a lease and the second carries new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitterId {
    pub(crate) host: usize,
    pub(crate) committer: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitterFault {
    /// No batch can begin.
    Hangs,
    /// Every batch is refused.
    Refuses,
    /// Every batch finds that the store cannot be trusted, until the process ends.
    Breaks,
}

#[derive(Default)]
struct CommitterFaultState {
    /// Each fault with its end in true time.
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

    /// The process of this host has ended: removes its committers and the faults that end with it.
    pub(crate) fn remove_host(&self, host: usize) {
        let mut state = self.state();
        state.active.retain(|committer_id| committer_id.host != host);
        state.faults.retain(|committer_id, (fault, _)| {
            committer_id.host != host || *fault != CommitterFault::Breaks
        });
    }

    /// Whether this committer's coordinator has two committers.
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

    /// Applies the fault, if any, to a batch that is about to begin.
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
