//! What may be wrong with a task: a stable code and a sentence.

/// One thing that is wrong with a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub code: FlawCode,
    /// A sentence for people that names the row.
    pub what: String,
}

/// The kinds of flaws. Their names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlawCode {
    /// The engine's own check found damage.
    DatabaseDamaged,
    /// A row cannot be read.
    Unreadable,
    /// An entry of the history is missing, added, out of order, or cannot follow from the one before it.
    HistoryBroken,
    /// The rules decide an entry of the history differently.
    DecisionDiffers,
    /// The task's row differs from its history.
    TaskDiffers,
    /// An attempt is missing, added, out of order, or differs from the history.
    AttemptDiffers,
    /// A checkpoint, child or signal is missing, added, or differs from the history.
    StepDiffers,
    /// The input is not the submitted one.
    InputDiffers,
    /// The digest of the record does not follow from the rows.
    RecordDiffers,
    /// A child is missing, or its end was not recorded by its parent.
    ChildMissing,
    /// Times are not in their order, or a state is impossible.
    Impossible,
    /// An object differs from its log, or the log has a gap.
    ObjectDiffers,
    /// A log differs from what its pieces say of it.
    LogDiffers,
    /// The audit, see `tenure audit verify`.
    AuditDiffers,
}

impl FlawCode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::DatabaseDamaged => "database_damaged",
            Self::Unreadable => "unreadable",
            Self::HistoryBroken => "history_broken",
            Self::DecisionDiffers => "decision_differs",
            Self::TaskDiffers => "task_differs",
            Self::AttemptDiffers => "attempt_differs",
            Self::StepDiffers => "step_differs",
            Self::InputDiffers => "input_differs",
            Self::RecordDiffers => "record_differs",
            Self::ChildMissing => "child_missing",
            Self::Impossible => "impossible",
            Self::ObjectDiffers => "object_differs",
            Self::LogDiffers => "log_differs",
            Self::AuditDiffers => "audit_differs",
        }
    }

    /// A flaw of this kind.
    pub fn flaw(self, what: impl Into<String>) -> Flaw {
        Flaw { code: self, what: what.into() }
    }
}
