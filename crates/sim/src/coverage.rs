//! Coverage goals: situations that a campaign must reach. A campaign that never reached one has not tested it.

use crate::fault::named_enum;

named_enum! {
    /// A situation that happens in some worlds.
    CoverageGoal {
        KeyedRetryFoundTheFirst => "a submission was repeated and the first one found",
        KeyReuseRefused => "a key with another body was refused",
        ResubmittedAfterEnd => "a key was used again after its run had ended",
        BatchSubmitted => "runs were submitted in a batch",
        LostCommitSubmittedAgain => "a submission whose commit was lost was accepted on repeat",
        GrantRecalled => "a repeated poll found its leases",
        GrantHandedBack => "a grant that nobody took was handed back",
        GrantUnheard => "a grant ran out unheard",
        WorkerLost => "a silent worker lost its lease",
        LostTooOften => "a run failed because it lost too many workers",
        TakenOver => "a lost run was taken over by another attempt",
        LateReportRefused => "a late report was refused",
        LateHeartbeatRefused => "a late heartbeat was refused",
        LateStartRefused => "a late start was refused",
        SupersededReportRefused => "a report of a superseded attempt was refused",
        ReportReplayed => "a repeated report got its recorded answer",
        ContradictionRefused => "a second report with another output was refused",
        ForeignTokenRefused => "a foreign token was refused",
        WrongAttemptRefused => "a wrong attempt was refused",
        WrongWorkerRefused => "a wrong worker was refused",
        ReleasedByWorker => "a worker that stopped handed its run back",
        RetriedAfterFailure => "a failed attempt was tried again",
        AttemptsExhausted => "a run failed after its last attempt",
        NotRetryable => "a run failed because its failure is final",
        CancelledWaiting => "a waiting run was cancelled",
        CancelledByWorker => "a worker honoured a cancel",
        CancelledByForce => "a lease was revoked by a forced cancel",
        CancelGraceRanOut => "the grace of a cancel ran out",
        CancelledButSucceeded => "a success won against a pending cancel",
        StartMetCancel => "a start met a cancel and was refused",
        DeadlineWhileWaiting => "a deadline passed while a run waited",
        DeadlineWhileRunning => "a deadline passed while a run was leased",
        AttemptLimitReached => "an attempt reached its own limit",
        StartDelayed => "a run waited for its start time",
        LeaseExtendedAfterOutage => "leases were given back the time of an outage",
        LeaseOfOldEpochRefused => "a lease from before a restore was refused",
        UnknownOutcomeAnswered => "a caller was told that the outcome is unknown",
        UnavailableAnswered => "a caller was told that the store refuses",
        ShuttingDownAnswered => "a caller was told that the coordinator is stopping",
        RowHeldByAnother => "a coordinator met a row that another held",
        CommitConflict => "two coordinators met in one row and one decided again",
        RowWaitedFor => "a coordinator waited for a row that another held",
        LeaseWaitedFor => "leases were given time back only once another let go of one",
        LostCommitFound => "a lost COMMIT was looked up and had been made",
        LostCommitVoid => "a lost COMMIT was looked up and never was",
        StartedInAnotherHost => "a lease of one coordinator was used at another",
        CrashedInCommit => "a coordinator crashed while it committed",
        TokenRefreshed => "a heartbeat brought a fresh token",
        DecidedByOlderThenNewer => "a run was decided by older rules and then by newer ones",
        WaitedForChange => "a reader waited for a run to end",
        RunSuspended => "a durable run waited without a worker",
        ReplayContinued => "a later attempt continued what an earlier one recorded",
        CheckpointReplayed => "a repeated call of a durable run was recognised",
        StaleCheckpointRefused => "a call of a durable run came after its lease",
        SupersededCheckpointRefused => "a call of a durable run came while another attempt was under way",
        SignalTaken => "a durable run took a signal",
        ChildrenJoined => "a durable run joined its children",
        EndWaitedForChildren => "the end of a durable run waited for its children",
        DivergedRunResumed => "a diverged run was resumed",
        ApprovalDecided => "a durable run was told what people decided",
        VoteRefusedAsSecond => "a second vote of a key was refused",
        VoteRefusedAsLate => "a vote after the decision was refused",
        MessageSaved => "a message was saved because its addressee was locked",
        WedgedWorkerCaught => "a worker that was alive and got nowhere lost its task",
        BudgetHalted => "a run halted at its budget",
        ShareGivenBack => "a child gave back what it did not use",
        ReservationSettled => "a lost attempt settled its reservation",
        ChildNotFunded => "a child was refused because too little was left",
        RunContinued => "a run that halted was continued by another one",
        ChildStartedAgain => "a child that ended with its run started again in the continuation",
        StepSkipped => "a step of a plan was skipped",
        PlanCancelledInTheMiddle => "a plan was cancelled while some of its steps had ended",
        LargePlanClosed => "a plan of more steps than one decision tells was closed",
        TaskParked => "a run waited for a slot of its flow key",
        TaskTooEarly => "a run waited for the rate of its flow key",
        SlotKept => "a run kept the slot of its flow key without a lease",
        ScheduleFired => "a schedule fired",
        InstantSkipped => "an instant was left out because the run before had not ended",
        InstantMissed => "an instant passed while nothing ran",
        InstantWaited => "an instant waited for the run before",
        RunRecovered => "a failed run came back as a new one",
        EvaluatorDied => "a worker died over the evaluation of a candidate",
        EvaluationRefused => "an evaluation named what the policy does not allow",
        CandidateEscalated => "a candidate waited for people",
        CandidateExpired => "the time of a candidate was over",
        CandidateExhausted => "a failure was counted after the attempts of its signature",
        WorkOrdered => "an event of a deployment became a work order",
        ExecutorDied => "an executor died over a work order",
        RoleProcessDied => "a process died over the turn of a role",
        EventUnprocessed => "an event of a deployment ended otherwise than by its role",
        ArtifactOverdue => "an artifact rested for too long",
    }
}

impl CoverageGoal {
    /// Goals that only worlds with progress clocks reach.
    pub const OF_STALLS: &[CoverageGoal] = &[CoverageGoal::WedgedWorkerCaught];

    /// Goals that only worlds with budgets reach.
    pub const OF_ESCROW: &[CoverageGoal] = &[
        CoverageGoal::BudgetHalted,
        CoverageGoal::ShareGivenBack,
        CoverageGoal::ReservationSettled,
        CoverageGoal::ChildNotFunded,
        CoverageGoal::RunContinued,
        CoverageGoal::ChildStartedAgain,
    ];

    /// Goals that only worlds with plans reach.
    pub const OF_PLANS: &[CoverageGoal] = &[
        CoverageGoal::StepSkipped,
        CoverageGoal::PlanCancelledInTheMiddle,
        CoverageGoal::LargePlanClosed,
    ];

    /// Goals that only worlds with flow keys reach.
    pub const OF_FLOW_KEYS: &[CoverageGoal] =
        &[CoverageGoal::TaskParked, CoverageGoal::TaskTooEarly, CoverageGoal::SlotKept];

    /// Goals that only worlds with schedules reach.
    pub const OF_SCHEDULES: &[CoverageGoal] = &[
        CoverageGoal::ScheduleFired,
        CoverageGoal::InstantSkipped,
        CoverageGoal::InstantMissed,
        CoverageGoal::InstantWaited,
    ];

    /// Goals that only worlds with recovery reach.
    pub const OF_RECOVERY: &[CoverageGoal] = &[
        CoverageGoal::RunRecovered,
        CoverageGoal::EvaluatorDied,
        CoverageGoal::EvaluationRefused,
        CoverageGoal::CandidateEscalated,
        CoverageGoal::CandidateExpired,
        CoverageGoal::CandidateExhausted,
    ];

    /// Goals that only worlds with a deployment reach.
    pub const OF_DEPLOYMENTS: &[CoverageGoal] = &[
        CoverageGoal::WorkOrdered,
        CoverageGoal::ExecutorDied,
        CoverageGoal::RoleProcessDied,
        CoverageGoal::EventUnprocessed,
        CoverageGoal::ArtifactOverdue,
    ];

    /// Goals that only worlds with people reach.
    pub const OF_PEOPLE: &[CoverageGoal] = &[
        CoverageGoal::ApprovalDecided,
        CoverageGoal::VoteRefusedAsSecond,
        CoverageGoal::VoteRefusedAsLate,
    ];

    /// Goals that only worlds with durable runs reach.
    pub const OF_DURABLE_RUNS: &[CoverageGoal] = &[
        CoverageGoal::RunSuspended,
        CoverageGoal::ReplayContinued,
        CoverageGoal::CheckpointReplayed,
        CoverageGoal::StaleCheckpointRefused,
        CoverageGoal::SupersededCheckpointRefused,
        CoverageGoal::SignalTaken,
        CoverageGoal::ChildrenJoined,
        CoverageGoal::EndWaitedForChildren,
        CoverageGoal::DivergedRunResumed,
        CoverageGoal::MessageSaved,
    ];
}
