"""The types of requests and answers. Generated from `protocol/openapi.json` by `tools/make_wire.py`; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


ApprovalDecision: TypeAlias = Literal["APPROVED", "REJECTED"]

ApprovalOutcome: TypeAlias = Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]

ApprovalState: TypeAlias = Literal["pending", "closed"]

AttemptOutcome: TypeAlias = Literal["SUCCEEDED", "FAILED", "CANCELLED", "LOST", "UNDELIVERED", "REVOKED", "RELEASED", "SUSPENDED", "DIVERGED"]

BudgetPeriod: TypeAlias = Literal["total", "day", "month"]

BudgetState: TypeAlias = Literal["open", "soft", "spent"]

Builds: TypeAlias = Literal["any", "pin"]

CandidateState: TypeAlias = Literal["pending", "escalated", "executing", "succeeded", "failed", "skipped", "expired", "exhausted"]

CatchUp: TypeAlias = Literal["one", "all"]

CheckpointKind: TypeAlias = Literal["STEP", "WAIT", "CHILD"]

CheckpointOutcome: TypeAlias = Literal["STARTED", "SUCCEEDED", "FAILED", "CANCELLED"]

DeleteRecoveryPolicy: TypeAlias = dict[str, Any]

DeploymentCall: TypeAlias = dict[str, Any]

DeploymentState: TypeAlias = Literal["active", "paused", "deleted"]

EffectState: TypeAlias = Literal["queued", "pending", "in_flight", "delivered", "unknown", "dead"]

EndpointState: TypeAlias = Literal["enabled", "disabled", "deleted"]

ErrorCategory: TypeAlias = Literal["USER_CODE", "DATA_QUALITY", "INFRASTRUCTURE", "CONFIGURATION", "TIMEOUT", "CANCELLED"]

FlowHold: TypeAlias = Literal["lease", "life"]

Json: TypeAlias = Any

LogLevel: TypeAlias = Literal["trace", "debug", "info", "warn", "error"]

OnDead: TypeAlias = Literal["block", "skip"]

OnError: TypeAlias = Literal["abort", "continue", "retry"]

OnSoft: TypeAlias = Literal["note", "ask"]

Outcome: TypeAlias = Literal["SUCCEEDED", "FAILED", "CANCELLED", "RELEASED"]

Overlap: TypeAlias = Literal["skip", "queue", "cancelOlder", "allow"]

PageStop: TypeAlias = Literal["bytes", "scan"]

PauseStateState: TypeAlias = Literal["open", "closed"]

RecoveryAction: TypeAlias = Literal["retry", "continue", "notify", "escalate", "skip"]

RecoveryEvaluator: TypeAlias = Literal["builtIn", "workers"]

ResumeRun: TypeAlias = dict[str, Any]

Role: TypeAlias = Literal["client", "worker", "admin", "reader", "approver"]

ScheduleCall: TypeAlias = dict[str, Any]

ScheduleState: TypeAlias = Literal["active", "paused", "deleted"]

StallAction: TypeAlias = Literal["warn", "cancel", "requeue"]

State: TypeAlias = Literal["queued", "running", "retry", "waiting", "succeeded", "failed", "halted", "cancelled", "blocked", "skipped"]

StepOutcome: TypeAlias = Literal["SUCCEEDED", "FAILED"]

Time: TypeAlias = str

UnpinRun: TypeAlias = dict[str, Any]

Verdict: TypeAlias = Literal["COMMITTED", "CANCELLED", "REJECTED"]

WaitMode: TypeAlias = Literal["all", "any"]

WorkOrderState: TypeAlias = Literal["active", "passed", "failed"]


class AnnouncedKind(TypedDict):
    builds: NotRequired[Builds | None]
    inputSchema: NotRequired[dict[str, Any]]
    kind: str
    outputSchema: NotRequired[dict[str, Any]]
    version: NotRequired[str | None]



class Announcement(TypedDict):
    buildId: NotRequired[str | None]
    id: str
    kinds: list[AnnouncedKind]



class ApplyTopology(TypedDict):
    topology: Json



class ApprovalDecided(TypedDict):
    approvalId: str
    outcome: NotRequired[ApprovalOutcome | None]
    serverTime: Time
    state: ApprovalState



class ApprovalList(TypedDict):
    approvals: list[ApprovalView]
    cursor: NotRequired[str | None]



class ApprovalTerms(TypedDict):
    content: NotRequired[Json | None]
    default: NotRequired[ApprovalDecision | None]
    digest: NotRequired[str | None]
    expiresAt: NotRequired[Time | None]
    expiresInMs: NotRequired[int | None]
    keys: NotRequired[list[str]]
    quorum: NotRequired[int | None]
    roles: NotRequired[list[str]]
    subject: NotRequired[str | None]
    subjectFrom: NotRequired[Json | None]



class ApprovalView(TypedDict):
    approvalId: str
    content: NotRequired[str | None]
    default: NotRequired[ApprovalDecision | None]
    digest: NotRequired[str | None]
    expiresAt: NotRequired[Time | None]
    hasContent: NotRequired[bool]
    key: str
    keys: list[str]
    openedAt: Time
    outcome: NotRequired[ApprovalOutcome | None]
    quorum: int
    roles: list[str]
    runId: str
    state: ApprovalState
    subject: NotRequired[str | None]
    taskId: str
    votes: list[VoteView]



class ArtifactList(TypedDict):
    artifacts: list[ArtifactView]
    cursor: NotRequired[str | None]



class ArtifactView(TypedDict):
    createdAt: Time
    cycles: int
    enteredAt: Time
    fields: Json
    id: str
    passed: NotRequired[str | None]
    reservedBy: NotRequired[str | None]
    revision: int
    status: str
    transitionNo: int
    type: str



class AttemptClaims(TypedDict):
    completedAt: NotRequired[Time | None]
    heartbeatAt: NotRequired[Time | None]
    metrics: NotRequired[Metrics | None]
    partialProgress: NotRequired[Json | None]
    startedAt: NotRequired[Time | None]
    traceparent: NotRequired[str | None]



class AttemptView(TypedDict):
    attempt: int
    category: NotRequired[ErrorCategory | None]
    claims: NotRequired[AttemptClaims]
    clockSkewMs: NotRequired[int | None]
    endedAt: Time
    fence: int
    grantedAt: Time
    leaseId: str
    outcome: AttemptOutcome
    owner: str
    reason: NotRequired[str | None]
    reportDigest: NotRequired[str | None]
    startedAt: NotRequired[Time | None]



class AuditEntry(TypedDict):
    action: str
    actor: str
    afterDigest: NotRequired[str | None]
    at: Time
    beforeDigest: NotRequired[str | None]
    error: NotRequired[str | None]
    n: int
    object: str
    requestId: NotRequired[str | None]
    tenantId: str
    times: int
    workspaceId: str



class AuditFinding(TypedDict):
    message: str
    n: int



class AuditLog(TypedDict):
    entries: list[AuditEntry]
    nextBefore: NotRequired[int | None]



class AuditVerified(TypedDict):
    anchored: bool
    entries: int
    findings: list[AuditFinding]
    sealed: int



class AwaitedEffect(TypedDict):
    key: str
    step: str



class AwaitedItem(TypedDict):
    approval: NotRequired[ApprovalTerms | None]
    child: NotRequired[str | None]
    effect: NotRequired[AwaitedEffect | None]
    key: str
    signal: NotRequired[str | None]
    until: NotRequired[Time | None]



class AwaitedView(TypedDict):
    approval: NotRequired[str | None]
    child: NotRequired[str | None]
    effect: NotRequired[str | None]
    expiresAt: NotRequired[Time | None]
    key: str
    signal: NotRequired[str | None]
    until: NotRequired[Time | None]


BackfillSchedule = TypedDict(
    "BackfillSchedule",
    {
        "from": "Time",
        "to": "Time",
    },
)


class Budget(TypedDict):
    activeMs: NotRequired[int | None]
    costMicros: NotRequired[int | None]
    onSoft: NotRequired[OnSoft | None]
    reserve: NotRequired[Spend | None]
    soft: NotRequired[SoftLimits | None]
    steps: NotRequired[int | None]
    tokens: NotRequired[int | None]
    toolCalls: NotRequired[int | None]
    wallMs: NotRequired[int | None]



class BudgetAmounts(TypedDict):
    costMicros: int
    steps: int
    tokens: int
    toolCalls: int



class BudgetLeft(TypedDict):
    activeMs: NotRequired[int | None]
    costMicros: NotRequired[int | None]
    steps: NotRequired[int | None]
    tokens: NotRequired[int | None]
    toolCalls: NotRequired[int | None]
    wallEndsAt: NotRequired[Time | None]



class BudgetView(TypedDict):
    activeMs: NotRequired[int | None]
    held: BudgetAmounts
    left: BudgetLeft
    limits: BudgetLeft
    used: BudgetAmounts
    wallMs: NotRequired[int | None]
    warned: NotRequired[bool]



class CancelAccepted(TypedDict):
    cancelRequestedAt: Time
    runId: str
    state: State



class CancelRun(TypedDict):
    force: NotRequired[bool | None]
    reason: NotRequired[str | None]



class CandidateEntry(TypedDict):
    at: Time
    candidate: CandidateView
    keyId: NotRequired[str | None]
    revision: int



class CandidateHistory(TypedDict):
    entries: list[CandidateEntry]
    nextBefore: NotRequired[int | None]



class CandidateList(TypedDict):
    candidates: list[CandidateView]
    cursor: NotRequired[str | None]



class CandidateView(TypedDict):
    attempts: int
    candidateId: str
    category: NotRequired[str | None]
    chosen: NotRequired[ChosenView | None]
    count: int
    expiresAt: Time
    firstAt: Time
    forked: int
    kind: str
    lastAt: Time
    lastRefusal: NotRequired[str | None]
    openedAt: Time
    pattern: str
    policy: str
    question: NotRequired[QuestionView | None]
    queue: str
    reason: str
    refused: int
    runs: int
    samples: list[SampleView]
    state: CandidateState
    suggestion: SuggestionView
    taskId: str



class Ceiling(TypedDict):
    costMicros: NotRequired[int | None]
    steps: NotRequired[int | None]
    tokens: NotRequired[int | None]
    toolCalls: NotRequired[int | None]



class Checkpoint(TypedDict):
    attempt: NotRequired[int | None]
    detached: NotRequired[bool]
    error: NotRequired[CheckpointError | None]
    inputDigest: NotRequired[str | None]
    key: str
    kind: CheckpointKind
    number: int
    outcome: CheckpointOutcome
    recordedAt: Time
    result: NotRequired[Json]
    savepoint: NotRequired[bool]
    spend: NotRequired[Spent | None]
    taskId: NotRequired[str | None]
    wait: NotRequired[WaitOutcome | None]



class CheckpointAck(TypedDict):
    acknowledged: bool
    cancelReason: NotRequired[str | None]
    children: NotRequired[list[StartedChild]]
    leaseExpiresAt: NotRequired[Time | None]
    left: NotRequired[BudgetLeft | None]
    recordedAt: Time
    replayed: bool
    results: NotRequired[list[Checkpoint]]
    resultsLeftOut: NotRequired[bool]
    serverTime: Time
    shouldCancel: bool
    state: State
    taskToken: NotRequired[str | None]
    tokenExpiresAt: NotRequired[Time | None]
    verdict: Verdict



class CheckpointAnswer(TypedDict):
    cancelReason: NotRequired[str | None]
    children: NotRequired[list[StartedChild]]
    error: NotRequired[str | None]
    expectedAttempt: NotRequired[int | None]
    field: NotRequired[str | None]
    leaseExpiresAt: NotRequired[Time | None]
    left: NotRequired[BudgetLeft | None]
    message: NotRequired[str | None]
    receivedAttempt: NotRequired[int | None]
    recordedAt: NotRequired[Time | None]
    replayed: NotRequired[bool | None]
    results: NotRequired[list[Checkpoint]]
    resultsLeftOut: NotRequired[bool]
    shouldCancel: NotRequired[bool | None]
    state: NotRequired[State | None]
    status: int
    taskId: str
    taskToken: NotRequired[str | None]
    tokenExpiresAt: NotRequired[Time | None]
    verdict: NotRequired[Verdict | None]



class CheckpointAnswers(TypedDict):
    answers: list[CheckpointAnswer]
    serverTime: Time



class CheckpointCall(TypedDict):
    attempt: int
    children: NotRequired[list[ChildRun]]
    diverged: NotRequired[Diverged | None]
    effects: NotRequired[list[DeclaredEffect]]
    log: NotRequired[list[LogLine]]
    steps: NotRequired[list[StepRecord]]
    wait: NotRequired[WaitFor | None]
    workerId: str



class CheckpointCalls(TypedDict):
    checkpoints: list[CheckpointItem]



class CheckpointError(TypedDict):
    category: NotRequired[ErrorCategory | None]
    message: str
    reason: NotRequired[str | None]
    retryable: NotRequired[bool | None]
    stackTrace: NotRequired[str | None]



class CheckpointItem(TypedDict):
    attempt: int
    children: NotRequired[list[ChildRun]]
    diverged: NotRequired[Diverged | None]
    effects: NotRequired[list[DeclaredEffect]]
    log: NotRequired[list[LogLine]]
    steps: NotRequired[list[StepRecord]]
    taskId: str
    taskToken: str
    wait: NotRequired[WaitFor | None]
    workerId: str



class Checkpoints(TypedDict):
    checkpoints: list[Checkpoint]
    nextAfter: NotRequired[int | None]



class ChildRun(TypedDict):
    assetId: NotRequired[str | None]
    budget: NotRequired[Budget | None]
    cancelGraceMs: NotRequired[int | None]
    deadline: NotRequired[Time | None]
    deadlineMs: NotRequired[int | None]
    delayMs: NotRequired[int | None]
    detached: NotRequired[bool]
    flow: NotRequired[Flow | None]
    goal: NotRequired[str | None]
    heartbeatIntervalMs: NotRequired[int | None]
    input: NotRequired[Json]
    inputDigest: NotRequired[str | None]
    key: str
    kind: str
    labels: NotRequired[dict[str, str]]
    leaseMs: NotRequired[int | None]
    lostMax: NotRequired[int | None]
    maxAttempts: NotRequired[int | None]
    priority: NotRequired[int | None]
    queue: str
    resources: NotRequired[Resources | None]
    retry: NotRequired[Retry | None]
    runAt: NotRequired[Time | None]
    seed: NotRequired[int | None]
    stall: NotRequired[Stall | None]
    taskKey: NotRequired[str | None]
    traceparent: NotRequired[str | None]
    ttlMs: NotRequired[int | None]



class ChildView(TypedDict):
    children: NotRequired[list[ChildView]]
    detached: NotRequired[bool]
    key: str
    kind: str
    queue: str
    startedAt: NotRequired[Time | None]
    state: State
    taskId: str



class Children(TypedDict):
    children: list[ChildView]
    nextAfter: NotRequired[int | None]



class ChosenView(TypedDict):
    action: RecoveryAction
    at: Time
    comment: NotRequired[str | None]
    keyId: NotRequired[str | None]



class ClaimList(TypedDict):
    claims: list[ClaimView]



class ClaimView(TypedDict):
    claim_version: int
    heartbeat_at: Time
    lease_expires_at: Time
    owner_id: str
    resource_id: str
    resource_type: str



class ClosePauseState(TypedDict):
    id: str



class Completed(TypedDict):
    attempt: int
    cancelledDuringPhase: NotRequired[str | None]
    children: NotRequired[list[ChildRun]]
    completedAt: NotRequired[Time | None]
    effects: NotRequired[list[DeclaredEffect]]
    error: NotRequired[ReportedError | None]
    log: NotRequired[list[LogLine]]
    metrics: NotRequired[Metrics | None]
    next: NotRequired[bool]
    outcome: Outcome
    output: NotRequired[Json]
    partialProgress: NotRequired[Json]
    spend: NotRequired[Spend | None]
    steps: NotRequired[list[StepRecord]]
    traceparent: NotRequired[str | None]
    workerId: str



class CompletedAck(TypedDict):
    acknowledged: bool
    finalState: Outcome
    next: NotRequired[Envelope | None]
    replayed: bool
    serverTime: Time
    state: State
    verdict: Verdict



class ConsoleCode(TypedDict):
    code: str
    expiresAt: Time
    path: str
    serverTime: Time



class CreateArtifact(TypedDict):
    fields: NotRequired[Json]
    id: str



class CreateEndpoint(TypedDict):
    concurrency: NotRequired[int | None]
    idempotent: NotRequired[bool | None]
    maxTries: NotRequired[int | None]
    name: str
    onDead: NotRequired[OnDead | None]
    queues: NotRequired[list[str] | None]
    ratePerSecond: NotRequired[int | None]
    retry: NotRequired[Retry | None]
    types: NotRequired[list[str] | None]
    url: str



class CreateKey(TypedDict):
    expiresAt: NotRequired[Time | None]
    name: NotRequired[str | None]
    queues: NotRequired[list[str] | None]
    roles: list[Role]
    tenantId: NotRequired[str | None]
    workspaceId: NotRequired[str | None]



class CreateSchedule(TypedDict):
    catchUp: NotRequired[CatchUp | None]
    catchUpWindowMs: NotRequired[int | None]
    cron: NotRequired[str | None]
    everyMs: NotRequired[int | None]
    name: str
    overlap: NotRequired[Overlap | None]
    paused: NotRequired[bool | None]
    run: SubmitRun
    timeZone: NotRequired[str | None]



class DecideApproval(TypedDict):
    comment: NotRequired[str | None]
    decision: ApprovalDecision
    digest: NotRequired[str | None]



class DecideCandidate(TypedDict):
    action: RecoveryAction
    comment: NotRequired[str | None]



class DeclaredEffect(TypedDict):
    aggregate: NotRequired[str | None]
    body: Json
    endpoint: str
    key: str
    step: str
    type: str



class DeploymentList(TypedDict):
    cursor: NotRequired[str | None]
    deployments: list[DeploymentView]



class DeploymentView(TypedDict):
    appliedAt: Time
    createdAt: Time
    declaration: NotRequired[Json | None]
    generation: int
    name: str
    state: DeploymentState
    topology: str
    version: str



class Diverged(TypedDict):
    actual: str
    branch: NotRequired[str]
    index: int
    recorded: str



class Divergence(TypedDict):
    actual: str
    branch: str
    index: int
    recorded: str



class DurableView(TypedDict):
    build: NotRequired[RunBuild | None]
    children: int
    liveChildren: int
    pendingSignals: int
    savepoint: NotRequired[int | None]
    seed: NotRequired[int | None]
    spend: NotRequired[Spent | None]
    steps: int
    suspensions: int
    waiting: NotRequired[WaitingView | None]



class EffectChange(TypedDict):
    at: Time
    keyId: NotRequired[str | None]
    lastTry: NotRequired[TryView | None]
    state: EffectState
    tries: int



class EffectList(TypedDict):
    cursor: NotRequired[str | None]
    effects: list[EffectView]



class EffectView(TypedDict):
    aggregate: str
    blocks: NotRequired[bool | None]
    body: NotRequired[Json | None]
    decidedAt: Time
    dueAt: NotRequired[Time | None]
    effectId: str
    endpoint: str
    lastTry: NotRequired[TryView | None]
    log: NotRequired[list[EffectChange]]
    reason: NotRequired[str | None]
    runId: str
    sequence: int
    settledAt: NotRequired[Time | None]
    state: EffectState
    taskId: str
    tries: int
    type: str



class Ending(TypedDict):
    reason: NotRequired[str | None]
    state: State



class EndpointList(TypedDict):
    endpoints: list[EndpointView]



class EndpointSecret(TypedDict):
    endpoint: EndpointView
    name: str
    secret: str



class EndpointView(TypedDict):
    concurrency: int
    createdAt: Time
    disabledBecause: NotRequired[str | None]
    idempotent: bool
    maxTries: int
    name: str
    onDead: OnDead
    previousSecretUntil: NotRequired[Time | None]
    queues: NotRequired[list[str]]
    ratePerSecond: NotRequired[int | None]
    retry: RetryPolicy
    state: EndpointState
    types: list[str]
    url: str



class Envelope(TypedDict):
    assetId: NotRequired[str | None]
    attempt: int
    budgetLeft: NotRequired[BudgetLeft | None]
    callbackBaseUrl: str
    cancelGracePeriodMs: int
    checkpoints: NotRequired[list[Checkpoint]]
    checkpointsAfter: NotRequired[int | None]
    deadline: NotRequired[Time | None]
    enqueuedAt: Time
    fence: int
    heartbeatIntervalMs: int
    heartbeatTimeoutMs: int
    input: NotRequired[Json]
    kind: str
    labels: NotRequired[dict[str, str]]
    leaseExpiresAt: Time
    leaseId: str
    origin: NotRequired[str | None]
    parentTaskId: NotRequired[str | None]
    queue: str
    resources: NotRequired[Resources | None]
    runId: str
    seed: NotRequired[int | None]
    stage: NotRequired[str | None]
    taskId: str
    taskKey: str
    taskToken: str
    tenantId: str
    tokenExpiresAt: Time
    traceparent: NotRequired[str | None]
    workspaceId: str



class EscalationTerms(TypedDict):
    default: NotRequired[ApprovalDecision | None]
    expiresMs: NotRequired[int | None]
    keys: NotRequired[list[str]]
    quorum: NotRequired[int | None]
    roles: NotRequired[list[str]]



class EventRequested(TypedDict):
    eventId: str
    runId: str



class Explanation(TypedDict):
    gates: list[Gate]
    runId: str
    serverTime: Time
    state: State
    taskId: str



class Flow(TypedDict):
    debounceMaxMs: NotRequired[int | None]
    debounceMs: NotRequired[int | None]
    hold: NotRequired[FlowHold | None]
    key: str
    limit: NotRequired[int | None]
    rate: NotRequired[FlowRate | None]



class FlowKeyView(TypedDict):
    held: int
    holders: list[str]
    key: str
    limit: NotRequired[int | None]
    live: int
    opensAt: NotRequired[Time | None]
    parked: int
    rate: NotRequired[FlowRate | None]



class FlowKeys(TypedDict):
    flowKeys: list[FlowKeyView]
    nextAfter: NotRequired[str | None]
    serverTime: Time



class FlowRate(TypedDict):
    count: int
    perMs: int



class ForkRun(TypedDict):
    budget: NotRequired[Budget | None]
    fromStep: NotRequired[str | None]



class Gate(TypedDict):
    at: NotRequired[Time | None]
    change: NotRequired[str | None]
    gate: str
    now: str



class GateReasonView(TypedDict):
    check: str
    message: str



class Heartbeat(TypedDict):
    attempt: int
    heartbeatAt: NotRequired[Time | None]
    log: NotRequired[list[LogLine]]
    message: NotRequired[str | None]
    progressPct: NotRequired[float | None]
    spend: NotRequired[Spend | None]
    workerId: str



class HeartbeatAck(TypedDict):
    acknowledged: bool
    cancelReason: NotRequired[str | None]
    leaseExpiresAt: Time
    left: NotRequired[BudgetLeft | None]
    serverTime: Time
    shouldCancel: bool
    taskToken: NotRequired[str | None]
    tokenExpiresAt: NotRequired[Time | None]
    verdict: Verdict



class HeartbeatAnswer(TypedDict):
    cancelReason: NotRequired[str | None]
    error: NotRequired[str | None]
    expectedAttempt: NotRequired[int | None]
    field: NotRequired[str | None]
    leaseExpiresAt: NotRequired[Time | None]
    left: NotRequired[BudgetLeft | None]
    message: NotRequired[str | None]
    receivedAttempt: NotRequired[int | None]
    shouldCancel: NotRequired[bool | None]
    state: NotRequired[State | None]
    status: int
    taskId: str
    taskToken: NotRequired[str | None]
    tokenExpiresAt: NotRequired[Time | None]
    verdict: NotRequired[Verdict | None]



class HeartbeatAnswers(TypedDict):
    answers: list[HeartbeatAnswer]
    serverTime: Time



class HeartbeatItem(TypedDict):
    attempt: int
    heartbeatAt: NotRequired[Time | None]
    log: NotRequired[list[LogLine]]
    message: NotRequired[str | None]
    progressPct: NotRequired[float | None]
    spend: NotRequired[Spend | None]
    taskId: str
    taskToken: str
    workerId: str



class Heartbeats(TypedDict):
    heartbeats: list[HeartbeatItem]



class History(TypedDict):
    entries: list[HistoryEntry]
    nextAfter: int



class HistoryEntry(TypedDict):
    at: Time
    attempt: NotRequired[int | None]
    detail: dict[str, Any]
    kind: str
    n: int



class Key(TypedDict):
    createdAt: Time
    expiresAt: NotRequired[Time | None]
    keyId: str
    lastUsedAt: NotRequired[Time | None]
    name: NotRequired[str | None]
    previousSecretUntil: NotRequired[Time | None]
    queues: NotRequired[list[str] | None]
    revokedAt: NotRequired[Time | None]
    roles: list[Role]
    tenantId: str
    workspaceId: str



class Keys(TypedDict):
    keys: list[Key]
    nextAfter: NotRequired[str | None]



class KindView(TypedDict):
    buildId: NotRequired[str | None]
    builds: NotRequired[Builds | None]
    inputSchema: NotRequired[dict[str, Any]]
    kind: str
    lastSeenAt: Time
    outputSchema: NotRequired[dict[str, Any]]
    queues: list[str]
    version: NotRequired[str | None]
    workers: int



class Kinds(TypedDict):
    coordinators: int
    kinds: list[KindView]
    nextAfter: NotRequired[str | None]
    serverTime: Time



class Lease(TypedDict):
    acquiredAt: Time
    attempt: int
    claimVersion: int
    expiresAt: Time
    fence: int
    heartbeatAt: Time
    leaseId: str
    message: NotRequired[str | None]
    owner: str
    progressPct: NotRequired[float | None]
    progressedAt: NotRequired[Time | None]
    stalledAt: NotRequired[Time | None]



class LeaseRequest(TypedDict):
    announce: NotRequired[Announcement | None]
    announced: NotRequired[str | None]
    kinds: NotRequired[list[str] | None]
    max: int
    pollId: NotRequired[str | None]
    queues: list[str]
    waitMs: NotRequired[int | None]
    workerId: str



class Leases(TypedDict):
    announceAgain: NotRequired[bool | None]
    leases: list[Envelope]
    serverTime: Time
    signals: NotRequired[list[Signal]]



class Limits(TypedDict):
    limits: list[TenantLimits]



class LogLine(TypedDict):
    at: NotRequired[Time | None]
    level: NotRequired[LogLevel]
    n: NotRequired[int | None]
    text: str



class LoggedLine(TypedDict):
    at: Time
    attempt: int
    dropped: NotRequired[int | None]
    level: LogLevel
    n: int
    text: str



class Logs(TypedDict):
    lines: list[LoggedLine]
    nextAfter: NotRequired[str | None]



class Metrics(TypedDict):
    cpuTimeMs: NotRequired[int | None]
    ioReadBytes: NotRequired[int | None]
    ioWriteBytes: NotRequired[int | None]
    peakMemoryBytes: NotRequired[int | None]



class MoveArtifact(TypedDict):
    fields: NotRequired[Json]
    revision: NotRequired[int | None]
    to: str



class NewKey(TypedDict):
    key: Key
    secret: str


OpenWait = TypedDict(
    "OpenWait",
    {
        "count": "int",
        "for": "list[AwaitedView]",
        "givesUpAt": "Time",
        "key": "str",
        "missing": "int",
        "mode": "WaitMode",
    },
)


class Parent(TypedDict):
    detached: NotRequired[bool]
    key: str
    taskId: str



class ParkedMessage(TypedDict):
    fromTaskId: str
    toTaskId: str
    why: str



class Pause(TypedDict):
    pausedAt: Time
    pausedBy: str
    reason: NotRequired[str | None]



class PauseQueue(TypedDict):
    reason: NotRequired[str | None]
    tenantId: NotRequired[str | None]
    workspaceId: NotRequired[str | None]



class PauseStateList(TypedDict):
    cursor: NotRequired[str | None]
    pauseStates: list[PauseStateView]



class PauseStateView(TypedDict):
    actions: list[str]
    createdAt: Time
    id: str
    reason: str
    state: PauseStateState
    subject: NotRequired[str | None]



class Plan(TypedDict):
    steps: list[PlanStep]



class PlanStage(TypedDict):
    approvalId: NotRequired[str | None]
    completedAt: NotRequired[Time | None]
    dependsOn: NotRequired[list[str]]
    key: str
    kind: str
    message: NotRequired[str | None]
    queue: str
    reason: NotRequired[str | None]
    startedAt: NotRequired[Time | None]
    state: State
    taskId: NotRequired[str | None]
    waitsFor: NotRequired[int | None]



class PlanStep(TypedDict):
    always: NotRequired[bool]
    approval: NotRequired[ApprovalTerms | None]
    cancelGraceMs: NotRequired[int | None]
    ceiling: NotRequired[Ceiling | None]
    deadlineMs: NotRequired[int | None]
    dependsOn: NotRequired[list[str] | None]
    gate: NotRequired[bool]
    heartbeatIntervalMs: NotRequired[int | None]
    input: NotRequired[Json]
    key: str
    kind: NotRequired[str]
    leaseMs: NotRequired[int | None]
    lostMax: NotRequired[int | None]
    maxAttempts: NotRequired[int | None]
    onError: NotRequired[OnError | None]
    queue: NotRequired[str]
    retry: NotRequired[Retry | None]
    when: NotRequired[Json | None]



class PlanSteps(TypedDict):
    nextAfter: NotRequired[int | None]
    steps: list[PlanStage]



class Problem(TypedDict):
    detail: str
    error: str
    expectedAttempt: NotRequired[int | None]
    field: NotRequired[str | None]
    instance: NotRequired[str | None]
    message: str
    receivedAttempt: NotRequired[int | None]
    requestId: NotRequired[str | None]
    retryAfterMs: NotRequired[int | None]
    serverTime: Time
    state: NotRequired[str | None]
    status: int
    title: str
    type: str
    verdict: NotRequired[Verdict | None]



class Propose(TypedDict):
    claim: NotRequired[TurnClaim | None]
    decision: Json
    workerId: str



class Proposed(TypedDict):
    serverTime: Time
    verdict: Verdict



class QuestionView(TypedDict):
    action: RecoveryAction
    approvalId: str
    asked: str
    digest: str



class QueueStatus(TypedDict):
    pause: NotRequired[Pause | None]
    queue: str
    tenantId: str
    workspaceId: str



class QueueView(TypedDict):
    delayed: int
    oldestReadyAt: NotRequired[Time | None]
    parked: NotRequired[int]
    pause: NotRequired[Pause | None]
    queue: str
    ready: int
    running: int



class Queues(TypedDict):
    queues: list[QueueView]
    stopped: NotRequired[PageStop | None]



class Ready(TypedDict):
    checks: list[ReadyCheck]
    ready: bool



class ReadyCheck(TypedDict):
    detail: NotRequired[str | None]
    name: str
    ok: bool



class ReconcileEffect(TypedDict):
    arrived: bool



class Record(TypedDict):
    attempts: list[AttemptView]
    completedAt: Time
    createdAt: Time
    decisions: NotRequired[int]
    digest: str
    durable: NotRequired[RecordedRun | None]
    durationMs: int
    error: NotRequired[RunError | None]
    goal: NotRequired[str | None]
    inputDigest: str
    kind: str
    nextAfter: NotRequired[int | None]
    outputDigest: NotRequired[str | None]
    queue: str
    rules: NotRequired[list[int]]
    runId: str
    startedAt: NotRequired[Time | None]
    state: State
    toolCalls: NotRequired[list[ToolCall]]
    toolCallsLeftOut: NotRequired[int | None]



class RecordedRun(TypedDict):
    checkpoints: int
    children: int
    signals: int
    spend: Spent
    steps: int
    suspensions: int



class RecoveryPolicyList(TypedDict):
    policies: list[RecoveryPolicyView]



class RecoveryPolicyView(TypedDict):
    actions: list[RecoveryAction]
    approval: EscalationTerms
    attempts: int
    costMicros: NotRequired[int | None]
    evaluator: RecoveryEvaluator
    expiresMs: int
    kind: NotRequired[str | None]
    name: str
    queue: NotRequired[str | None]
    runsMax: int



class RedriveEffects(TypedDict):
    endpoint: NotRequired[str | None]
    runId: NotRequired[str | None]
    since: NotRequired[Time | None]



class Redriven(TypedDict):
    more: bool
    redriven: int



class RefusedCall(TypedDict):
    at: Time
    attempt: int
    call: str
    error: str
    verdict: Verdict
    workerId: str



class RenewTurn(TypedDict):
    claim: TurnClaim
    workerId: str



class Report(TypedDict):
    attempt: int
    cancelledDuringPhase: NotRequired[str | None]
    children: NotRequired[list[ChildRun]]
    completedAt: NotRequired[Time | None]
    effects: NotRequired[list[DeclaredEffect]]
    error: NotRequired[ReportedError | None]
    log: NotRequired[list[LogLine]]
    metrics: NotRequired[Metrics | None]
    next: NotRequired[bool]
    outcome: Outcome
    output: NotRequired[Json]
    partialProgress: NotRequired[Json]
    spend: NotRequired[Spend | None]
    steps: NotRequired[list[StepRecord]]
    taskId: str
    taskToken: str
    traceparent: NotRequired[str | None]
    workerId: str



class ReportAnswer(TypedDict):
    error: NotRequired[str | None]
    expectedAttempt: NotRequired[int | None]
    field: NotRequired[str | None]
    finalState: NotRequired[Outcome | None]
    message: NotRequired[str | None]
    next: NotRequired[Envelope | None]
    receivedAttempt: NotRequired[int | None]
    replayed: NotRequired[bool | None]
    state: NotRequired[State | None]
    status: int
    taskId: str
    verdict: NotRequired[Verdict | None]



class ReportAnswers(TypedDict):
    answers: list[ReportAnswer]
    serverTime: Time



class ReportedError(TypedDict):
    category: ErrorCategory
    message: NotRequired[str]
    retryable: NotRequired[bool | None]
    stackTrace: NotRequired[str | None]



class Reports(TypedDict):
    reports: list[Report]



class RequestEvent(TypedDict):
    key: str
    type: str



class Resources(TypedDict):
    cpuMillicores: NotRequired[int | None]
    memoryBytes: NotRequired[int | None]
    timeoutMs: NotRequired[int | None]



class ResumeQueue(TypedDict):
    tenantId: NotRequired[str | None]
    workspaceId: NotRequired[str | None]



class Retry(TypedDict):
    baseMs: NotRequired[int | None]
    capMs: NotRequired[int | None]



class RetryPolicy(TypedDict):
    baseMs: int
    capMs: int



class RetryRun(TypedDict):
    fromScratch: NotRequired[bool]



class ReturnTurn(TypedDict):
    claim: TurnClaim
    reason: str
    workerId: str



class RotateEndpoint(TypedDict):
    overlapMs: NotRequired[int | None]



class RotateKey(TypedDict):
    overlapMs: NotRequired[int | None]



class RotateSigning(TypedDict):
    emergency: NotRequired[bool | None]



class Run(TypedDict):
    assetId: NotRequired[str | None]
    attempt: int
    budget: NotRequired[BudgetView | None]
    cancelGraceMs: NotRequired[int | None]
    cancelReason: NotRequired[str | None]
    cancelRequestedAt: NotRequired[Time | None]
    children: NotRequired[list[ChildView]]
    completedAt: NotRequired[Time | None]
    createdAt: Time
    deadline: NotRequired[Time | None]
    durable: NotRequired[DurableView | None]
    error: NotRequired[RunError | None]
    failures: int
    flow: NotRequired[Flow | None]
    forkOf: NotRequired[str | None]
    forks: NotRequired[list[str]]
    goal: NotRequired[str | None]
    heartbeatIntervalMs: NotRequired[int | None]
    idempotencyKey: NotRequired[str | None]
    input: NotRequired[Json]
    kind: str
    labels: NotRequired[dict[str, str]]
    lease: NotRequired[Lease | None]
    leaseMs: NotRequired[int | None]
    lost: int
    lostMax: NotRequired[int | None]
    maxAttempts: int
    nextAttemptAt: NotRequired[Time | None]
    output: NotRequired[Json]
    parent: NotRequired[Parent | None]
    plan: NotRequired[list[PlanStage]]
    planSteps: NotRequired[int | None]
    priority: int
    queue: str
    refused: NotRequired[list[RefusedCall]]
    resources: NotRequired[Resources | None]
    retries: NotRequired[list[str]]
    retry: NotRequired[RetryPolicy | None]
    retryOf: NotRequired[str | None]
    runAt: NotRequired[Time | None]
    runId: str
    seed: NotRequired[int | None]
    serverTime: Time
    stall: NotRequired[Stall | None]
    startedAt: NotRequired[Time | None]
    state: State
    taskId: str
    taskKey: NotRequired[str | None]
    tenantId: str
    ttlMs: NotRequired[int | None]
    workerId: NotRequired[str | None]
    workspaceId: str



class RunAccepted(TypedDict):
    createdAt: Time
    replayed: NotRequired[bool | None]
    run: NotRequired[Run | None]
    runId: str
    state: State
    taskId: str



class RunBuild(TypedDict):
    id: str
    pinned: bool



class RunError(TypedDict):
    category: NotRequired[ErrorCategory | None]
    message: str
    reason: str
    stackTrace: NotRequired[str | None]



class RunList(TypedDict):
    nextCursor: NotRequired[str | None]
    runs: list[Run]
    searched: NotRequired[int | None]
    searchedTo: NotRequired[Time | None]
    stopped: NotRequired[PageStop | None]



class RunRecordView(TypedDict):
    createdAt: Time
    executionStatus: str
    gateReasons: list[GateReasonView]
    gateResult: str



class RunResumed(TypedDict):
    runId: str
    state: State



class RunUnpinned(TypedDict):
    runId: str
    state: State



class SampleView(TypedDict):
    at: Time
    message: str
    runId: str



class ScheduleEntry(TypedDict):
    at: Time
    keyId: NotRequired[str | None]
    revision: int
    schedule: ScheduleView



class ScheduleFiring(TypedDict):
    at: Time
    instant: Time
    runId: str



class ScheduleHistory(TypedDict):
    entries: list[ScheduleEntry]
    nextBefore: NotRequired[int | None]



class ScheduleList(TypedDict):
    cursor: NotRequired[str | None]
    schedules: list[ScheduleView]



class SchedulePreview(TypedDict):
    instants: list[Time]



class ScheduleRefusal(TypedDict):
    at: Time
    error: str
    instant: Time



class ScheduleTriggered(TypedDict):
    runId: str
    scheduleId: str



class ScheduleView(TypedDict):
    catchUp: CatchUp
    catchUpWindowMs: int
    createdAt: Time
    cron: NotRequired[str | None]
    everyMs: NotRequired[int | None]
    fired: int
    last: NotRequired[ScheduleFiring | None]
    lastRefusal: NotRequired[ScheduleRefusal | None]
    missed: int
    name: str
    nextAt: NotRequired[Time | None]
    overlap: Overlap
    refused: int
    run: NotRequired[SubmitRun | None]
    scheduleId: str
    skipped: int
    state: ScheduleState
    timeZone: NotRequired[str | None]
    waiting: int



class ScopeBudget(TypedDict):
    alerted: NotRequired[BudgetState | None]
    left: BudgetLeft
    limits: BudgetLeft
    period: BudgetPeriod
    resetsAt: NotRequired[Time | None]
    since: NotRequired[Time | None]
    soft: BudgetLeft
    state: BudgetState
    tenantId: str
    used: BudgetAmounts
    workspaceId: NotRequired[str | None]



class ScopeBudgets(TypedDict):
    budgets: list[ScopeBudget]



class SendSignal(TypedDict):
    name: str
    payload: NotRequired[Json]



class Session(TypedDict):
    expiresAt: NotRequired[Time | None]
    keyId: str
    may: list[str]
    name: NotRequired[str | None]
    queues: NotRequired[list[str] | None]
    roles: list[Role]
    serverTime: Time
    tenantId: str
    workspaceId: str



class SetAside(TypedDict):
    messages: NotRequired[list[ParkedMessage]]
    tasks: list[TaskSetAside]



class SetBudget(TypedDict):
    costMicros: NotRequired[int | None]
    period: NotRequired[BudgetPeriod | None]
    soft: NotRequired[SoftLimits | None]
    steps: NotRequired[int | None]
    tenantId: NotRequired[str | None]
    tokens: NotRequired[int | None]
    toolCalls: NotRequired[int | None]
    workspaceId: NotRequired[str | None]



class SetLimits(TypedDict):
    burst: NotRequired[int | None]
    requestsPerSecond: NotRequired[int | None]
    tenantId: str
    unfinishedRuns: NotRequired[int | None]



class SetRecoveryPolicy(TypedDict):
    actions: NotRequired[list[RecoveryAction] | None]
    approval: NotRequired[EscalationTerms | None]
    attempts: NotRequired[int | None]
    costMicros: NotRequired[int | None]
    evaluator: NotRequired[RecoveryEvaluator | None]
    expiresMs: NotRequired[int | None]
    kind: NotRequired[str | None]
    queue: NotRequired[str | None]
    runsMax: NotRequired[int | None]



class Signal(TypedDict):
    taskId: str



class SignalAccepted(TypedDict):
    replayed: NotRequired[bool | None]
    runId: str
    state: State



class SigningRotated(TypedDict):
    kid: str
    previousUntil: NotRequired[Time | None]



class SoftLimits(TypedDict):
    costMicros: NotRequired[int | None]
    steps: NotRequired[int | None]
    tokens: NotRequired[int | None]
    toolCalls: NotRequired[int | None]



class Spend(TypedDict):
    costMicros: NotRequired[int]
    tokens: NotRequired[int]
    toolCalls: NotRequired[int]



class Spent(TypedDict):
    costMicros: int
    tokens: int
    toolCalls: int



class Stall(TypedDict):
    action: NotRequired[StallAction]
    afterMs: int



class StartAnswer(TypedDict):
    error: NotRequired[str | None]
    expectedAttempt: NotRequired[int | None]
    field: NotRequired[str | None]
    message: NotRequired[str | None]
    receivedAttempt: NotRequired[int | None]
    state: NotRequired[State | None]
    status: int
    taskId: str
    verdict: NotRequired[Verdict | None]



class StartAnswers(TypedDict):
    answers: list[StartAnswer]
    serverTime: Time



class StartItem(TypedDict):
    attempt: int
    startedAt: NotRequired[Time | None]
    taskId: str
    taskToken: str
    workerId: str



class Started(TypedDict):
    attempt: int
    startedAt: NotRequired[Time | None]
    workerId: str



class StartedAck(TypedDict):
    acknowledged: bool
    serverTime: Time
    verdict: Verdict



class StartedChild(TypedDict):
    key: str
    taskId: str



class Starts(TypedDict):
    starts: list[StartItem]



class StepError(TypedDict):
    category: ErrorCategory
    message: NotRequired[str]
    reason: NotRequired[str | None]
    retryable: NotRequired[bool | None]
    stackTrace: NotRequired[str | None]



class StepRecord(TypedDict):
    error: NotRequired[StepError | None]
    inputDigest: NotRequired[str | None]
    key: str
    outcome: StepOutcome
    result: NotRequired[Json]
    savepoint: NotRequired[bool]
    spend: NotRequired[Spend | None]



class Steps(TypedDict):
    nextAfter: NotRequired[int | None]
    steps: list[Checkpoint]



class SubmitMany(TypedDict):
    runs: list[SubmitRun]



class SubmitResult(TypedDict):
    createdAt: NotRequired[Time | None]
    error: NotRequired[str | None]
    field: NotRequired[str | None]
    message: NotRequired[str | None]
    replayed: NotRequired[bool | None]
    runId: NotRequired[str | None]
    state: NotRequired[State | None]
    taskId: NotRequired[str | None]



class SubmitResults(TypedDict):
    results: list[SubmitResult]



class SubmitRun(TypedDict):
    assetId: NotRequired[str | None]
    budget: NotRequired[Budget | None]
    cancelGraceMs: NotRequired[int | None]
    deadline: NotRequired[Time | None]
    deadlineMs: NotRequired[int | None]
    delayMs: NotRequired[int | None]
    flow: NotRequired[Flow | None]
    goal: NotRequired[str | None]
    heartbeatIntervalMs: NotRequired[int | None]
    idempotencyKey: NotRequired[str | None]
    input: NotRequired[Json]
    kind: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    leaseMs: NotRequired[int | None]
    lostMax: NotRequired[int | None]
    maxAttempts: NotRequired[int | None]
    plan: NotRequired[Plan | None]
    priority: NotRequired[int | None]
    queue: NotRequired[str]
    resources: NotRequired[Resources | None]
    retry: NotRequired[Retry | None]
    runAt: NotRequired[Time | None]
    seed: NotRequired[int | None]
    stall: NotRequired[Stall | None]
    taskKey: NotRequired[str | None]
    traceparent: NotRequired[str | None]
    ttlMs: NotRequired[int | None]



class SuggestionView(TypedDict):
    action: RecoveryAction
    because: str
    confidence: float



class TakeTurns(TypedDict):
    known: NotRequired[list[str]]
    max: int
    waitMs: NotRequired[int | None]
    workerId: str



class TakenSignal(TypedDict):
    key: str
    name: str
    payload: NotRequired[Json]



class TaskSetAside(TypedDict):
    retryAfterMs: NotRequired[int | None]
    since: Time
    taskId: str
    tries: int
    why: str



class TenantLimits(TypedDict):
    burst: NotRequired[int | None]
    changedAt: Time
    limitedAt: NotRequired[Time | None]
    requestsLeftNow: NotRequired[int | None]
    requestsPerSecond: NotRequired[int | None]
    tenantId: str
    unfinishedRuns: NotRequired[int | None]
    unfinishedRunsNow: int



class ToolCall(TypedDict):
    attempt: NotRequired[int | None]
    key: str
    outcome: CheckpointOutcome
    recordedAt: Time
    spend: NotRequired[Spent | None]


TopologyPlan = TypedDict(
    "TopologyPlan",
    {
        "differences": "list[str]",
        "from": "NotRequired[str | None]",
        "inFlight": "int",
        "obstacles": "list[str]",
        "to": "str",
    },
)


class TryView(TypedDict):
    at: Time
    note: NotRequired[str | None]
    status: NotRequired[int | None]



class Turn(TypedDict):
    claim: NotRequired[TurnClaim | None]
    leaseExpiresAt: NotRequired[Time | None]
    told: Json
    version: str



class TurnClaim(TypedDict):
    attempt: int
    fence: int
    leaseId: str
    taskId: str



class TurnVersion(TypedDict):
    declaration: Json
    version: str



class Turns(TypedDict):
    serverTime: Time
    turns: list[Turn]
    versions: list[TurnVersion]



class UpdateEndpoint(TypedDict):
    concurrency: NotRequired[int | None]
    enabled: NotRequired[bool | None]
    idempotent: NotRequired[bool | None]
    maxTries: NotRequired[int | None]
    onDead: NotRequired[OnDead | None]
    queues: NotRequired[list[str] | None]
    ratePerSecond: NotRequired[int | None]
    retry: NotRequired[Retry | None]
    types: NotRequired[list[str] | None]
    url: NotRequired[str | None]



class UpdateSchedule(TypedDict):
    catchUp: NotRequired[CatchUp | None]
    catchUpWindowMs: NotRequired[int | None]
    cron: NotRequired[str | None]
    everyMs: NotRequired[int | None]
    overlap: NotRequired[Overlap | None]
    run: NotRequired[SubmitRun | None]
    timeZone: NotRequired[str | None]



class Version(TypedDict):
    api: str
    version: str



class VoteView(TypedDict):
    at: Time
    comment: NotRequired[str | None]
    decision: ApprovalDecision
    keyId: str



class WaitAnswer(TypedDict):
    ended: list[Run]
    notFound: list[str]
    pending: list[str]
    serverTime: Time


WaitFor = TypedDict(
    "WaitFor",
    {
        "for": "list[AwaitedItem]",
        "key": "str",
        "maxMs": "NotRequired[int | None]",
        "mode": "WaitMode",
    },
)


class WaitForRuns(TypedDict):
    runIds: list[str]
    waitMs: NotRequired[int | None]



class WaitOutcome(TypedDict):
    signals: NotRequired[list[TakenSignal]]
    winner: NotRequired[str | None]



class WaitingView(TypedDict):
    diverged: NotRequired[Divergence | None]
    ending: NotRequired[Ending | None]
    readyAt: NotRequired[Time | None]
    wait: NotRequired[OpenWait | None]



class WorkOrderList(TypedDict):
    cursor: NotRequired[str | None]
    workOrders: list[WorkOrderView]



class WorkOrderView(TypedDict):
    artifacts: list[str]
    createdAt: Time
    event: str
    id: str
    kind: str
    queue: str
    record: NotRequired[RunRecordView | None]
    runId: str
    state: WorkOrderState
    template: str
    track: NotRequired[str | None]
    version: str



class WorkerLeases(TypedDict):
    count: int
    latestHeartbeatAt: Time
    nextExpiresAt: Time
    oldestAcquiredAt: Time
    queue: str



class WorkerPolls(TypedDict):
    count: int
    kinds: NotRequired[list[str] | None]
    max: int
    queues: list[str]



class WorkerView(TypedDict):
    leases: list[WorkerLeases]
    polls: list[WorkerPolls]
    workerId: str



class Workers(TypedDict):
    coordinators: int
    nextAfter: NotRequired[str | None]
    serverTime: Time
    workers: list[WorkerView]

