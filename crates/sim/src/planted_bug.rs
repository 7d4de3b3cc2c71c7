//! Bugs planted on purpose, to prove that the simulation finds them.

/// A bug between the coordinator and its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    Nothing,
    /// Some commits are acknowledged but not made.
    LosesCommits,
    /// A starting coordinator does not know the time of the last commit, so it cannot extend leases.
    ForgetsLastCommit,
    /// A commit is acknowledged before the disk has confirmed it.
    AnswersBeforeSync,
    /// An idempotency key that was used is not found again.
    ForgetsKeys,
    /// A closed attempt is not written with the decision that closed it.
    SavesPartially,
    /// Due tasks are never swept.
    NeverSweeps,
    /// A lost COMMIT is assumed to have succeeded.
    AssumesLostCommits,
    /// Some batches are decided by the oldest rules, whatever version is in force.
    ForgetsRules,
    /// The store reports no next wake-up.
    NamesNoWake,
    /// The store reports its next wake-up too late.
    NamesLateWakes,
    /// The store does not report wake-ups that are already due.
    ForgetsPastWakes,
    /// Changes by other coordinators are never noticed.
    MissesPeerChanges,
    /// A row locked by another committer is treated as missing.
    TreatsLockedAsMissing,
    /// Only the committer that grants knows how short leases are.
    HidesLeases,
    /// A queue's tasks are granted to any poll, of any tenant.
    MixesTenants,
    /// Retention never finds ended tasks.
    NeverForgets,
    /// A wait does not find signals that were there before it.
    LosesWakeUps,
    /// A child that was asked for is not found again.
    DoublesChildren,
    /// Messages that cannot be decided at once are not saved.
    LosesMessages,
    /// Who holds the slots of a flow key is not found.
    ForgetsHolders,
    /// How many tasks of a flow key have started is not found.
    ForgetsStarts,
    /// Some firings of a schedule are saved without its move to the next instant, and not found again.
    TearsFirings,
    /// A step that was recorded is not found again.
    ForgetsSteps,
    /// Votes on an approval that was loaded are not there.
    ForgetsVotes,
    /// A step of a plan does not know that an upstream did not succeed.
    ForgetsBlame,
    /// Nobody waits for a step of a plan that has ended.
    ForgetsDownstreams,
    /// What a lost attempt may have used is not counted.
    DropsLostSpend,
    /// No task that is due has a progress clock.
    ForgetsProgressClock,
    /// Some failed runs leave no note for recovery.
    LosesFailures,
    /// Some runs that were recovered stay open, and are not found by their keys.
    RecoversTwice,
    /// Some decisions about recovery candidates are not saved.
    LosesRecoveryDecisions,
    /// The run of a work order has no key.
    OrdersWithoutKeys,
    /// Some events of a deployment end without the work order that they made.
    EndsEventsFirst,
    /// Some pause states are written twice.
    PausesTwice,
    /// Some answers of gates are saved with their pause state, and the run record afterwards.
    JudgesAfterPause,
    /// Ends of events that no role made leave no note.
    LosesEventEnds,
}
