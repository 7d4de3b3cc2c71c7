//! How a worker handles a lease: by the rules, or in one of the ways that the rules must survive.

use crate::fault::Fault;
use crate::log::Log;
use crate::options::BehaviourOptions;
use crate::rng::SimRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerBehaviour {
    /// Starts, sends heartbeats, stops when asked, reports once and retries unanswered calls.
    Obedient,
    /// Makes no call at all.
    Silent,
    /// Starts and makes no further call.
    Vanishes,
    /// Starts, sleeps until long after its lease expired, and reports.
    Sleeps,
    /// Reports, and then sends a different report.
    Contradicts,
    /// Continues after it was told that it has lost its authority.
    ContinuesAfterLoss,
    /// Presents the token of another lease first.
    UsesForeignToken,
    /// Sends a wrong attempt or another worker's name first.
    Lies,
    /// Sends heartbeats for ever, without any progress.
    Wedges,
}

impl WorkerBehaviour {
    pub(crate) fn draw(rng: &mut SimRng, options: &BehaviourOptions, log: &Log) -> Self {
        let ways = [
            (options.silent, WorkerBehaviour::Silent, Fault::WorkerSilent),
            (options.vanish, WorkerBehaviour::Vanishes, Fault::WorkerVanishes),
            (options.sleep, WorkerBehaviour::Sleeps, Fault::WorkerSleeps),
            (options.contradict, WorkerBehaviour::Contradicts, Fault::WorkerContradicts),
            (
                options.continue_after_loss,
                WorkerBehaviour::ContinuesAfterLoss,
                Fault::WorkerContinues,
            ),
            (
                options.foreign_token,
                WorkerBehaviour::UsesForeignToken,
                Fault::WorkerUsesForeignToken,
            ),
            (options.lie, WorkerBehaviour::Lies, Fault::WorkerLies),
            (options.wedge, WorkerBehaviour::Wedges, Fault::WorkerWedges),
        ];
        for (per_mille, behaviour, fault) in ways {
            // Worlds without a fault draw nothing for it.
            if (per_mille > 0 || fault != Fault::WorkerWedges) && rng.chance(per_mille) {
                log.fault(fault);
                return behaviour;
            }
        }
        WorkerBehaviour::Obedient
    }

    /// Whether only its own report, a cancel, a limit or a deadline may end its lease.
    pub(crate) fn keeps_its_lease(self) -> bool {
        matches!(
            self,
            WorkerBehaviour::Obedient
                | WorkerBehaviour::Contradicts
                | WorkerBehaviour::ContinuesAfterLoss
                | WorkerBehaviour::UsesForeignToken
                | WorkerBehaviour::Lies
        )
    }
}
