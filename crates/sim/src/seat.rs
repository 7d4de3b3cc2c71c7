//! What happens to one committer of one coordinator while the other goes on: its connection hangs, is refused, or is
//! found to be no longer trustworthy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{Failure, FailureKind};

use crate::fault::Fault;
use crate::log::Log;

/// Between two looks whether a connection answers again.
const LOOK: Duration = Duration::from_millis(20);

/// Where a committer sits: the first of two hears workers, the second takes new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat {
    pub(crate) host: usize,
    pub(crate) committer: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No batch begins.
    Hangs,
    /// Every batch is refused.
    Refuses,
    /// Every batch finds that the store cannot be trusted, until the process has ended.
    Breaks,
}

#[derive(Default)]
struct State {
    /// Until when, in true time.
    troubles: BTreeMap<Seat, (Trouble, u64)>,
    taken: BTreeSet<Seat>,
}

/// Shared by all coordinators.
#[derive(Clone)]
pub(crate) struct Seats {
    state: Arc<Mutex<State>>,
    log: Log,
}

impl Seats {
    pub(crate) fn new(log: Log) -> Self {
        Self { state: Arc::default(), log }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the seats")
    }

    pub(crate) fn strike(&self, seat: Seat, trouble: Trouble, until: u64) {
        self.state().troubles.insert(seat, (trouble, until));
    }

    pub(crate) fn calm_down(&self) {
        self.state().troubles.clear();
    }

    /// The process of this host is gone.
    pub(crate) fn leave(&self, host: usize) {
        let mut state = self.state();
        state.taken.retain(|seat| seat.host != host);
        state
            .troubles
            .retain(|seat, (trouble, _)| seat.host != host || *trouble != Trouble::Breaks);
    }

    /// Whether the coordinator of this seat has two committers.
    pub(crate) fn are_two(&self, seat: Seat) -> bool {
        self.state().taken.iter().filter(|taken| taken.host == seat.host).count() > 1
    }

    fn trouble(&self, seat: Seat) -> Option<Trouble> {
        let (now, mut state) = (self.log.now(), self.state());
        state.taken.insert(seat);
        let (trouble, until) = state.troubles.get(&seat).copied()?;
        if until <= now {
            state.troubles.remove(&seat);
        }
        (now < until).then_some(trouble)
    }

    /// A batch is about to begin.
    pub(crate) async fn sit(&self, seat: Seat) -> Result<(), Failure> {
        let mut is_told = false;
        loop {
            match self.trouble(seat) {
                None => return Ok(()),
                Some(Trouble::Hangs) => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.log.fault(Fault::CommitterHangs);
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Some(Trouble::Refuses) => {
                    self.log.fault(Fault::CommitterRefused);
                    return Err(Failure::new(
                        FailureKind::Unavailable,
                        "no connection for this one",
                    ));
                }
                Some(Trouble::Breaks) => {
                    self.log.fault(Fault::CommitterBreaks);
                    return Err(Failure::new(FailureKind::Fatal, "the store answers nonsense"));
                }
            }
        }
    }
}
