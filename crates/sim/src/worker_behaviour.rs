//! How a worker treats a lease: by the rules, or in one of the ways the rules must survive.

use crate::fault::Fault;
use crate::log::Log;
use crate::options::BehaviourOptions;
use crate::rng::SimRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerBehaviour {
    /// Starts, heartbeats, stops when asked, reports once and repeats what was not answered.
    Obedient,
    /// Never says a word.
    Silent,
    /// Starts and is never heard of again.
    Vanishes,
    /// Starts, sleeps until its lease is long over, and reports.
    Sleeps,
    /// Reports, and reports something else.
    Contradicts,
    /// Goes on after it was told that its authority is gone.
    ContinuesAfterLoss,
    /// Tries the token of another lease first.
    UsesForeignToken,
    /// Quotes a wrong attempt or another worker's name first.
    Lies,
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
        ];
        for (per_mille, behaviour, fault) in ways {
            if rng.chance(per_mille) {
                log.fault(fault);
                return behaviour;
            }
        }
        WorkerBehaviour::Obedient
    }

    /// Whether its lease may end only by its own word, a cancel, a limit or a deadline.
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
