//! Bugs that are there on purpose, to see that they are found.

/// A bug between the coordinator and its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    Nothing,
    /// Some commits are acknowledged and not made.
    LosesCommits,
    /// A start does not know since when nobody listened.
    ForgetsLastCommit,
    /// A commit is acknowledged although its disk did not say that it has it.
    AnswersBeforeSync,
    /// A key that was used is not found again.
    ForgetsKeys,
    /// A closed attempt is not written with the decision that closed it.
    SavesPartially,
    /// What time has ended is never looked at.
    NeverSweeps,
    /// A lost COMMIT is believed to have been made.
    AssumesLostCommits,
    /// Some batches are decided by the oldest rules, whatever is in force.
    ForgetsRules,
    /// The store names no instant to wake at.
    NamesNoWake,
    /// The store names an instant that is too late.
    NamesLateWakes,
    /// The store names no instant that has passed.
    ForgetsPastWakes,
    /// What other coordinators do is never noticed.
    MissesPeerChanges,
    /// A row that another committer has is taken for one that is not there.
    TreatsLockedAsMissing,
    /// Only the committer that grants knows how short leases are.
    HidesLeases,
    /// A queue's tasks go to whoever asks, of whatever tenant.
    MixesTenants,
    /// What has ended is never found by whoever forgets it.
    NeverForgets,
}
