//! The faults of the simulated world, by name. Every injected fault is counted, so a run that injected nothing cannot
//! pass for one that survived.

macro_rules! named_enum {
    ($(#[$doc:meta])* $kind:ident { $($(#[$note:meta])* $name:ident => $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind {
            $($(#[$note])* $name,)+
        }

        impl $kind {
            pub const ALL: &[$kind] = &[$($kind::$name,)+];

            pub const fn name(self) -> &'static str {
                match self {
                    $($kind::$name => $text,)+
                }
            }
        }
    };
}

pub(crate) use named_enum;

named_enum! {
    /// A kind of fault.
    Fault {
        RequestLost => "request lost",
        AnswerLost => "answer lost",
        RequestDuplicated => "request duplicated",
        MessageStraggles => "message straggles behind later ones",
        ConnectionCut => "connection cut",
        HostPartitioned => "coordinator cut off",
        HostCrashed => "coordinator crashed",
        HostPaused => "coordinator paused",
        HostStopped => "coordinator stopped and started",
        Blackout => "all coordinators crashed and the store reopened",
        Restored => "store restored into a new epoch",
        ClockJumped => "wall clock jumped",
        ClockDrifts => "clock drifts",
        StoreRefused => "store call refused",
        DiskFull => "disk full",
        CommitRolledBack => "commit rolled back",
        CommitUnknownKept => "commit unknown, was kept",
        CommitUnknownLost => "commit unknown, was lost",
        DiskStalled => "disk stalled",
        RaceLost => "transaction rolled back because of another",
        CommitAnswerLost => "answer to a COMMIT lost",
        CommitNotAsked => "lost COMMIT that could not be looked up",
        RowPassedOver => "ready row passed over",
        Disconnected => "all connections to the database lost",
        WorkerSilent => "worker never answers a grant",
        WorkerVanishes => "worker vanishes at work",
        WorkerSleeps => "worker sleeps past its lease and reports",
        WorkerContradicts => "worker reports twice, with other outputs",
        WorkerContinues => "worker goes on after it was told to stop",
        WorkerUsesForeignToken => "worker uses a foreign token",
        WorkerLies => "worker quotes a wrong attempt or name",
        WorkerIgnoresCancel => "worker ignores a cancel",
        WorkerWedges => "worker sends heartbeats and gets nowhere",
        KeyReused => "client reuses a key for another run",
        CommitterHangs => "one of two committers hangs",
        CommitterRefused => "one of two committers is refused",
        CommitterBreaks => "one of two committers finds the store untrustworthy",
        StoreStalled => "every call to the store waits",
        ReadersFull => "nobody else can read",
        ForeignTried => "somebody tries what is another's",
        DurableWorkerCrashed => "worker crashes between or within calls of a durable run",
        DurableWorkerOverslept => "worker goes on with a durable run after its lease",
        CheckpointRepeated => "worker sends every call of a durable run twice",
        CodeDiverged => "worker's code does not fit what is recorded",
        SignalRepeated => "client sends a signal twice",
    }
}

impl Fault {
    /// Faults that occur only in scenarios.
    pub const OF_SCENARIOS: &[Fault] = &[
        Fault::CommitterHangs,
        Fault::CommitterRefused,
        Fault::CommitterBreaks,
        Fault::StoreStalled,
        Fault::ReadersFull,
        Fault::ForeignTried,
        Fault::WorkerWedges,
        Fault::DurableWorkerCrashed,
        Fault::DurableWorkerOverslept,
        Fault::CheckpointRepeated,
        Fault::CodeDiverged,
        Fault::SignalRepeated,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
    }
}
