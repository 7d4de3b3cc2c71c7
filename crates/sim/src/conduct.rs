//! How a worker treats a lease: by the rules, or in one of the ways the rules must survive.

use crate::dice::Dice;
use crate::fault::Fault;
use crate::log::Log;
use crate::options::ConductOptions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
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
    Undead,
    /// Tries the token of another lease first.
    UsesForeignToken,
    /// Quotes a wrong attempt or another worker's name first.
    Lies,
}

impl Conduct {
    pub(crate) fn draw(dice: &mut Dice, options: &ConductOptions, log: &Log) -> Self {
        let ways = [
            (options.silent, Conduct::Silent, Fault::WorkerSilent),
            (options.vanish, Conduct::Vanishes, Fault::WorkerVanishes),
            (options.sleep, Conduct::Sleeps, Fault::WorkerSleeps),
            (options.contradict, Conduct::Contradicts, Fault::WorkerContradicts),
            (options.undead, Conduct::Undead, Fault::WorkerUndead),
            (options.foreign_token, Conduct::UsesForeignToken, Fault::WorkerUsesForeignToken),
            (options.lie, Conduct::Lies, Fault::WorkerLies),
        ];
        for (per_mille, conduct, fault) in ways {
            if dice.chance(per_mille) {
                log.fault(fault);
                return conduct;
            }
        }
        Conduct::Obedient
    }

    /// Whether its lease may end only by its own word, a cancel, a limit or a deadline.
    pub(crate) fn keeps_its_lease(self) -> bool {
        matches!(
            self,
            Conduct::Obedient
                | Conduct::Contradicts
                | Conduct::Undead
                | Conduct::UsesForeignToken
                | Conduct::Lies
        )
    }
}
