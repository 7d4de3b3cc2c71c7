// Generated from protocol/openapi.json by scripts/wire.mjs. Do not edit.

/** A kind of work, with what goes in and out. */
export interface AnnouncedKind {
  builds?: Builds | null;
  /** A JSON Schema of at most 16 KiB. */
  inputSchema?: { [name: string]: unknown };
  kind: string;
  /** A JSON Schema of at most 16 KiB. */
  outputSchema?: { [name: string]: unknown };
  version?: string | null;
}

/**
 * What a worker can do. It describes, and filters nothing, except for runs that are pinned to a build (`builds`): what is
 * leased to the worker follows from `queues` and `kinds` of the poll.
 */
export interface Announcement {
  /** The build that the worker runs. */
  buildId?: string | null;
  /** A name for exactly this announcement, such as a digest of it. */
  id: string;
  /** Each kind once. */
  kinds: Array<AnnouncedKind>;
}

/** `POST /v1/deployments/{deployment}`: puts a topology in force, or another version of it. */
export interface ApplyTopology {
  /** The topology as a JSON object, as its published JSON Schema describes it. */
  topology: Json;
}

/** The vote is recorded: 200. */
export interface ApprovalDecided {
  approvalId: string;
  outcome?: ApprovalOutcome | null;
  serverTime: Time;
  /** Pending while more votes are needed. */
  state: ApprovalState;
}

export type ApprovalDecision = "APPROVED" | "REJECTED";

/** A page of approvals, in the order in which their runs were submitted. */
export interface ApprovalList {
  approvals: Array<ApprovalView>;
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
}

export type ApprovalOutcome = "APPROVED" | "REJECTED" | "EXPIRED" | "WITHDRAWN";

export type ApprovalState = "pending" | "closed";

/** Who decides, and about what. Without `roles` and `keys`: any key with the role approver. */
export interface ApprovalTerms {
  content?: Json | null;
  default?: ApprovalDecision | null;
  /**
   * SHA-256 of what is approved, as 64 hexadecimal digits. Who decides must send the same. With `content` it may be left out,
   * and must be that of the content otherwise.
   */
  digest?: string | null;
  expiresAt?: Time | null;
  /** The same as time from the call. */
  expiresInMs?: number | null;
  /** Ids of API keys that may decide. Such a key also needs the role approver or admin. */
  keys?: Array<string>;
  /** How many must approve; 1 when absent. One rejection rejects. */
  quorum?: number | null;
  /** Roles of API keys that may decide. Such a key also needs the role approver or admin, as everybody who decides. */
  roles?: Array<string>;
  /** For people: what it is about. */
  subject?: string | null;
  subjectFrom?: Json | null;
}

export interface ApprovalView {
  approvalId: string;
  /**
   * What is approved, as text whose SHA-256 is `digest`, up to 64 KiB: the content that the run asked with, the output of a work
   * order, or the action of an escalation. A list has it only up to 1 KiB.
   */
  content?: string | null;
  default?: ApprovalDecision | null;
  digest?: string | null;
  expiresAt?: Time | null;
  /** There is a content, which a list may leave out. */
  hasContent?: boolean;
  /** The key of the item that waits for it. */
  key: string;
  keys: Array<string>;
  openedAt: Time;
  outcome?: ApprovalOutcome | null;
  quorum: number;
  roles: Array<string>;
  runId: string;
  state: ApprovalState;
  subject?: string | null;
  taskId: string;
  votes: Array<VoteView>;
}

/** A page of artifacts of one type, by id. */
export interface ArtifactList {
  artifacts: Array<ArtifactView>;
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
}

export interface ArtifactView {
  createdAt: Time;
  /** Work orders since a person last decided about it. */
  cycles: number;
  /** When it entered its status. */
  enteredAt: Time;
  fields: Json;
  id: string;
  /** The work order whose output passed its gate and waits for a person to confirm it. */
  passed?: string | null;
  /** The work order that has taken it. */
  reservedBy?: string | null;
  /** Grows with every change. */
  revision: number;
  status: string;
  /** Grows with every entry into a status, from 1. */
  transitionNo: number;
  type: string;
}

/** What the worker measured, by its own clock; not used for decisions. */
export interface AttemptClaims {
  completedAt?: Time | null;
  heartbeatAt?: Time | null;
  metrics?: Metrics | null;
  partialProgress?: Json | null;
  startedAt?: Time | null;
  /** The trace context of the work itself. */
  traceparent?: string | null;
}

export type AttemptOutcome = "SUCCEEDED" | "FAILED" | "CANCELLED" | "LOST" | "UNDELIVERED" | "REVOKED" | "RELEASED" | "SUSPENDED" | "DIVERGED";

/** One closed attempt. */
export interface AttemptView {
  attempt: number;
  category?: ErrorCategory | null;
  claims?: AttemptClaims;
  /**
   * How far the worker's clock was from the coordinator's at its report, if more than 5 minutes;
   * ahead is positive.
   */
  clockSkewMs?: number | null;
  endedAt: Time;
  fence: number;
  grantedAt: Time;
  leaseId: string;
  outcome: AttemptOutcome;
  owner: string;
  reason?: string | null;
  reportDigest?: string | null;
  startedAt?: Time | null;
}

/** An administrative change, or a refused call. */
export interface AuditEntry {
  /**
   * `key.created`, `key.rotated`, `key.revoked`, `signing.rotated`, `limits.set`, `queue.paused`, `queue.resumed` or
   * `refused`.
   */
  action: string;
  /** The id of the key that asked; `server` for the first key of a store, `anonymous` without one. */
  actor: string;
  /** Digest of the key after the change. */
  afterDigest?: string | null;
  at: Time;
  /** Digest of the key before the change. */
  beforeDigest?: string | null;
  /** Why it was refused. */
  error?: string | null;
  n: number;
  /** The id of the key, the tenant or the queue that was changed, or the route that was refused. */
  object: string;
  requestId?: string | null;
  /** The scope of the key that was changed, or of the one that was refused. */
  tenantId: string;
  /** How many refusals this entry stands for; 1 otherwise. */
  times: number;
  workspaceId: string;
}

export interface AuditFinding {
  message: string;
  /** The first entry it is about. */
  n: number;
}

/** A page of the audit, newest first. */
export interface AuditLog {
  entries: Array<AuditEntry>;
  /** Absent on the last page. */
  nextBefore?: number | null;
}

/** What a check of the whole audit found. */
export interface AuditVerified {
  /** Whether the end was compared with the anchor outside of the store; if not, truncation is not detected. */
  anchored: boolean;
  entries: number;
  /** The first entry that is wrong comes first. */
  findings: Array<AuditFinding>;
  /** Entries from before there were seals have none. */
  sealed: number;
}

/** An effect of the task itself, by the names with which it was declared. */
export interface AwaitedEffect {
  /** Its own key. */
  key: string;
  /** The key of the step that it was declared with. */
  step: string;
}

/** One item of a wait: exactly one of `until`, `signal`, `child`, `approval` and `effect`. */
export interface AwaitedItem {
  approval?: ApprovalTerms | null;
  /** The end of the child with this key, whatever its state. */
  child?: string | null;
  effect?: AwaitedEffect | null;
  key: string;
  /** One signal of this name. */
  signal?: string | null;
  until?: Time | null;
}

/** One item of a wait. */
export interface AwaitedView {
  /** The key of an approval: `explain` names its id and who may decide. */
  approval?: string | null;
  child?: string | null;
  /** The key of an item that waits for what becomes of an effect. */
  effect?: string | null;
  expiresAt?: Time | null;
  key: string;
  signal?: string | null;
  until?: Time | null;
}

/** `POST /v1/schedules/{schedule}/backfill`: fires the instants of a range of the past, one after the other. */
export interface BackfillSchedule {
  from: Time;
  /** Included. */
  to: Time;
}

/**
 * What a run and its descendants may use. A limit may be reached and not crossed: the call that crosses it halts the run, with
 * every step kept. A limit that is absent does not exist.
 */
export interface Budget {
  /** How long the leases of one task may last together. */
  activeMs?: number | null;
  /** Money, in millionths of a unit of currency. */
  costMicros?: number | null;
  onSoft?: OnSoft | null;
  reserve?: Spend | null;
  soft?: SoftLimits | null;
  /** Recorded steps. */
  steps?: number | null;
  tokens?: number | null;
  toolCalls?: number | null;
  /** How long the run may take from its submission. Children inherit it. */
  wallMs?: number | null;
}

/** An amount of everything that is counted. */
export interface BudgetAmounts {
  costMicros: number;
  steps: number;
  tokens: number;
  toolCalls: number;
}

/** What is left of each limit that there is. What live children may use is not left. */
export interface BudgetLeft {
  /** How long leases of the task may still last, without the one under way. */
  activeMs?: number | null;
  costMicros?: number | null;
  steps?: number | null;
  tokens?: number | null;
  toolCalls?: number | null;
  wallEndsAt?: Time | null;
}

export type BudgetPeriod = "total" | "day" | "month";

export type BudgetState = "open" | "soft" | "spent";

/** The budget of a task. */
export interface BudgetView {
  activeMs?: number | null;
  /** What live children may use. */
  held: BudgetAmounts;
  left: BudgetLeft;
  /** The limits of amounts, by unit; without those that there are not. */
  limits: BudgetLeft;
  /** By the task and its ended children. */
  used: BudgetAmounts;
  wallMs?: number | null;
  /** A soft limit was crossed. */
  warned?: boolean;
}

export type Builds = "any" | "pin";

/** A cancel was recorded: 202. `state` is `cancelled` at once when no worker held the run. */
export interface CancelAccepted {
  cancelRequestedAt: Time;
  runId: string;
  state: State;
}

/** `POST /v1/runs/{runId}/cancel`. */
export interface CancelRun {
  /** Revoke the lease at once instead of asking the worker to stop. */
  force?: boolean | null;
  /** Passed to the worker as `cancelReason`. */
  reason?: string | null;
}

export interface CandidateEntry {
  at: Time;
  /** The candidate from then on. */
  candidate: CandidateView;
  /** The API key that made the change; absent if no person did. */
  keyId?: string | null;
  revision: number;
}

/** What became of a candidate, the newest first. Nothing is ever removed from it. */
export interface CandidateHistory {
  entries: Array<CandidateEntry>;
  /** `before` of the next page; absent on the last one. */
  nextBefore?: number | null;
}

/** A page of candidates, in the order of their ids. */
export interface CandidateList {
  candidates: Array<CandidateView>;
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
}

export type CandidateState = "pending" | "escalated" | "executing" | "succeeded" | "failed" | "skipped" | "expired" | "exhausted";

/** What failed alike, what is to be done about it, and what was done. */
export interface CandidateView {
  /** How often it was opened. */
  attempts: number;
  candidateId: string;
  category?: string | null;
  chosen?: ChosenView | null;
  /** How many runs failed so. */
  count: number;
  expiresAt: Time;
  firstAt: Time;
  /** How many runs were submitted for it. */
  forked: number;
  kind: string;
  lastAt: Time;
  /** The code of the last of these refusals. */
  lastRefusal?: string | null;
  openedAt: Time;
  /** The message, with `#` for words that have digits. */
  pattern: string;
  /** The policy under which it was opened last. */
  policy: string;
  question?: QuestionView | null;
  queue: string;
  reason: string;
  /** How many of `runs` could not be submitted again. */
  refused: number;
  /** How many failed runs it is about since it was opened last. */
  runs: number;
  /** The latest failures. */
  samples: Array<SampleView>;
  state: CandidateState;
  suggestion: SuggestionView;
  /** The task that evaluates it. */
  taskId: string;
}

export type CatchUp = "one" | "all";

/** What one step may spend at most. */
export interface Ceiling {
  /** Money, in millionths of the currency unit. */
  costMicros?: number | null;
  /** Recorded steps of a durable function. */
  steps?: number | null;
  tokens?: number | null;
  toolCalls?: number | null;
}

/** One recorded result, which never changes: of a step, a wait, a started child or an ended child. */
export interface Checkpoint {
  /** The attempt that recorded it; absent when no worker did. */
  attempt?: number | null;
  /** A started child that is a separate run. */
  detached?: boolean;
  error?: CheckpointError | null;
  inputDigest?: string | null;
  key: string;
  kind: CheckpointKind;
  /** Its place among everything that the task recorded, from 1: the order of the commits. */
  number: number;
  /** STARTED for a child that was started; its end is a second checkpoint with the same key. */
  outcome: CheckpointOutcome;
  recordedAt: Time;
  result?: Json;
  savepoint?: boolean;
  spend?: Spent | null;
  /** The task of a child. */
  taskId?: string | null;
  wait?: WaitOutcome | null;
}

/** The answer to a call with checkpoints. */
export interface CheckpointAck {
  acknowledged: boolean;
  cancelReason?: string | null;
  /** The tasks of the call's children, whichever call started them. */
  children?: Array<StartedChild>;
  leaseExpiresAt?: Time | null;
  left?: BudgetLeft | null;
  /** When the steps of the call were recorded; for a repeated call, the time of the first. */
  recordedAt: Time;
  /** Nothing of the call was new. */
  replayed: boolean;
  /**
   * What was awaited, if it is there: the checkpoint of the wait and the ends of awaited children, in the order of
   * the commits.
   */
  results?: Array<Checkpoint>;
  /** `results` has no room for all: read them with `GET /v1/tasks/{taskId}/checkpoints`. */
  resultsLeftOut?: boolean;
  serverTime: Time;
  shouldCancel: boolean;
  /** `running`: the lease goes on. Anything else: the attempt is over, and the worker forgets the task. */
  state: State;
  /** A new token, when less than half of the old one's lifetime is left. */
  taskToken?: string | null;
  tokenExpiresAt?: Time | null;
  verdict: Verdict;
}

/** What a single call would have been answered. */
export interface CheckpointAnswer {
  cancelReason?: string | null;
  children?: Array<StartedChild>;
  error?: string | null;
  expectedAttempt?: number | null;
  field?: string | null;
  leaseExpiresAt?: Time | null;
  left?: BudgetLeft | null;
  message?: string | null;
  receivedAttempt?: number | null;
  recordedAt?: Time | null;
  replayed?: boolean | null;
  results?: Array<Checkpoint>;
  resultsLeftOut?: boolean;
  shouldCancel?: boolean | null;
  state?: State | null;
  /** The HTTP status a single call would have had. */
  status: number;
  taskId: string;
  taskToken?: string | null;
  tokenExpiresAt?: Time | null;
  verdict?: Verdict | null;
}

/** Answers to a batch of calls with checkpoints, in the order of the request. */
export interface CheckpointAnswers {
  answers: Array<CheckpointAnswer>;
  serverTime: Time;
}

/** `POST /v1/tasks/{taskId}/checkpoints`: everything in it is recorded as a whole, or nothing is. */
export interface CheckpointCall {
  attempt: number;
  /** Children to start. A child that was started before under its key is not started again. */
  children?: Array<ChildRun>;
  diverged?: Diverged | null;
  /** What is sent to endpoints because of these steps: once for each step that is recorded. */
  effects?: Array<DeclaredEffect>;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  /** Steps that are done, in order. */
  steps?: Array<StepRecord>;
  wait?: WaitFor | null;
  workerId: string;
}

/** `POST /v1/checkpoints`: many calls at once, one answer each. */
export interface CheckpointCalls {
  checkpoints: Array<CheckpointItem>;
}

/** Why a step or a child did not succeed. */
export interface CheckpointError {
  category?: ErrorCategory | null;
  message: string;
  reason?: string | null;
  retryable?: boolean | null;
  stackTrace?: string | null;
}

/** One call of a batch: `CheckpointCall` with the task and token a single call has in path and header. */
export interface CheckpointItem {
  attempt: number;
  children?: Array<ChildRun>;
  diverged?: Diverged | null;
  /** What is sent to endpoints because of these steps: once for each step that is recorded. */
  effects?: Array<DeclaredEffect>;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  steps?: Array<StepRecord>;
  taskId: string;
  taskToken: string;
  wait?: WaitFor | null;
  workerId: string;
}

export type CheckpointKind = "STEP" | "WAIT" | "CHILD";

export type CheckpointOutcome = "STARTED" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** A page of what a task recorded, in the order of the commits. */
export interface Checkpoints {
  checkpoints: Array<Checkpoint>;
  /** Ask with `after` set to this for what follows; absent where nothing does. */
  nextAfter?: number | null;
}

/** A child to start: a submission with a key. Its end is a checkpoint of its parent under the same key. */
export interface ChildRun {
  assetId?: string | null;
  budget?: Budget | null;
  cancelGraceMs?: number | null;
  deadline?: Time | null;
  deadlineMs?: number | null;
  delayMs?: number | null;
  /** Start a separate run that outlives its parent. It cannot be awaited. */
  detached?: boolean;
  flow?: Flow | null;
  goal?: string | null;
  heartbeatIntervalMs?: number | null;
  input?: Json;
  /**
   * SHA-256 of what makes the child what it is, as 64 hexadecimal digits; the coordinator's own digest of the
   * submission when absent. The same key with another digest is refused.
   */
  inputDigest?: string | null;
  key: string;
  kind: string;
  labels?: { [name: string]: string };
  leaseMs?: number | null;
  lostMax?: number | null;
  maxAttempts?: number | null;
  priority?: number | null;
  queue: string;
  resources?: Resources | null;
  retry?: Retry | null;
  runAt?: Time | null;
  seed?: number | null;
  stall?: Stall | null;
  taskKey?: string | null;
  traceparent?: string | null;
  ttlMs?: number | null;
}

/** A task that another task started. */
export interface ChildView {
  /** Its own children, in `GET /v1/runs/{runId}?tree=` up to the depth and number that were asked for. */
  children?: Array<ChildView>;
  detached?: boolean;
  key: string;
  kind: string;
  queue: string;
  startedAt?: Time | null;
  state: State;
  taskId: string;
}

/** A page of children, in the order in which they were started. */
export interface Children {
  children: Array<ChildView>;
  /** Ask with `after` set to this for what follows; absent where nothing does. */
  nextAfter?: number | null;
}

export interface ChosenView {
  action: RecoveryAction;
  at: Time;
  comment?: string | null;
  /** The API key of the person; absent if an evaluation chose, or time did. */
  keyId?: string | null;
}

/** The claims of a deployment, by id of what is claimed. */
export interface ClaimList {
  claims: Array<ClaimView>;
}

/** The claim on one event or work order. Its members have the names of the claim record. */
export interface ClaimView {
  /** Only grows: with every claim, renewal and release. */
  claim_version: number;
  /** When the claim was made or last renewed. */
  heartbeat_at: Time;
  lease_expires_at: Time;
  /** The worker that has it. */
  owner_id: string;
  resource_id: string;
  /** EVENT or WORKORDER. */
  resource_type: string;
}

/** `POST /v1/deployments/{deployment}/pause-states/close`: somebody has seen to it. */
export interface ClosePauseState {
  id: string;
}

/** `POST /v1/tasks/{taskId}/completed`: the end of an attempt, as reported by its worker. */
export interface Completed {
  attempt: number;
  cancelledDuringPhase?: string | null;
  /** Children that ride along. Those that are not detached are cancelled by the end of their parent. */
  children?: Array<ChildRun>;
  completedAt?: Time | null;
  /** What is sent to endpoints because of these steps: once for each step that is recorded. */
  effects?: Array<DeclaredEffect>;
  error?: ReportedError | null;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  metrics?: Metrics | null;
  /**
   * Asks for the next stage of the task, leased in the same decision. A wish: the answer has `next` if it is granted.
   * Steps, children and effects may ride along.
   */
  next?: boolean;
  outcome: Outcome;
  /** Only with outcome SUCCEEDED. */
  output?: Json;
  partialProgress?: Json;
  spend?: Spend | null;
  /** Steps that ride along: recorded before the report, or not at all if it is refused. */
  steps?: Array<StepRecord>;
  /**
   * W3C trace context of the work itself, which the attempt's span is linked with. Ignored when it
   * is not valid.
   */
  traceparent?: string | null;
  workerId: string;
}

/** The answer to `completed`. */
export interface CompletedAck {
  acknowledged: boolean;
  /** The attempt's outcome: FAILED even if a retry follows. */
  finalState: Outcome;
  next?: Envelope | null;
  /** The same report was answered before; this is that answer. */
  replayed: boolean;
  serverTime: Time;
  /** The task's condition at the time of answering. */
  state: State;
  verdict: Verdict;
}

/** A one-time code, with which a browser logs in to the console as the key that asked for it. */
export interface ConsoleCode {
  /** Taken once. The coordinator that made it knows it. */
  code: string;
  expiresAt: Time;
  /** Where to open it, below the address of the server. The code is behind `#`, so that it reaches no log. */
  path: string;
  serverTime: Time;
}

/** `POST /v1/deployments/{deployment}/artifacts/{type}`. */
export interface CreateArtifact {
  /** An object, as the artifact type declares it; empty when absent. */
  fields?: Json;
  /** Unique among the artifacts of its type. */
  id: string;
}

/** `POST /v1/endpoints`. */
export interface CreateEndpoint {
  /** Effects in flight from one coordinator, and tasks that are pushed and not done; 16 when absent. */
  concurrency?: number | null;
  /**
   * Whether the receiver recognises a repeated `webhook-id`; true when absent. If not, a call without an answer is not
   * repeated: the effect becomes unknown.
   */
  idempotent?: boolean | null;
  /** Tries before an effect is dead; 20 when absent. */
  maxTries?: number | null;
  /** What workers call it. */
  name: string;
  onDead?: OnDead | null;
  /**
   * Queues whose tasks are pushed to it: each task is leased for it and sent as the envelope that a poll would get. Without
   * `types` it is told of nothing.
   */
  queues?: Array<string> | null;
  /** Calls per second from one coordinator; no limit when absent. */
  ratePerSecond?: number | null;
  retry?: Retry | null;
  /**
   * What it is told of: words such as `run.succeeded`, `run.*`, `task.*`, `approval.opened`, `approval.*` or `*`. By default `run.*`; an empty
   * list for none. Effects that workers declare for it are sent whatever is listed here.
   */
  types?: Array<string> | null;
  /** Where effects are sent: https, or http in ranges that the operator allows. */
  url: string;
}

/** `POST /v1/keys`: a key for a program or a person. */
export interface CreateKey {
  expiresAt?: Time | null;
  /** The name of the key, for people. */
  name?: string | null;
  /** The queues that the key may use as a client, worker or reader: submit to, lease from, see; every queue when absent. */
  queues?: Array<string> | null;
  roles: Array<Role>;
  /** The calling key's own when absent. */
  tenantId?: string | null;
  /** The calling key's own when absent. */
  workspaceId?: string | null;
}

/** `POST /v1/schedules`: submits a run at every instant that `cron` or `everyMs` names. */
export interface CreateSchedule {
  catchUp?: CatchUp | null;
  /** How late an instant may fire; a day when absent. */
  catchUpWindowMs?: number | null;
  /**
   * Five fields as in Vixie cron (minute, hour, day of month, month, day of week), or a nickname such as @daily. Excludes
   * `everyMs`.
   */
  cron?: string | null;
  /** The interval, counted from the creation. Excludes `cron`. */
  everyMs?: number | null;
  /** Unique in the workspace. */
  name: string;
  overlap?: Overlap | null;
  /** Whether it begins paused. */
  paused?: boolean | null;
  /** What is submitted: all members of a submission, except for `idempotencyKey` and `runAt`. */
  run: SubmitRun;
  /** The IANA name of the time zone of `cron`; UTC when absent. */
  timeZone?: string | null;
}

/** `POST /v1/approvals/{approvalId}/decide`. */
export interface DecideApproval {
  comment?: string | null;
  decision: ApprovalDecision;
  /** The digest that the approval showed, if it has one. */
  digest?: string | null;
}

/** `POST /v1/recovery/candidates/{candidate}/decide`: what a person decides about a candidate. */
export interface DecideCandidate {
  action: RecoveryAction;
  comment?: string | null;
}

/**
 * A call to the outside that a step asks for. It is written with the step and delivered afterwards; the same step with
 * other effects is refused.
 */
export interface DeclaredEffect {
  /** What stays in order: effects with the same name arrive at the endpoint one after the other. The task when absent. */
  aggregate?: string | null;
  /** What the receiver gets, byte for byte; at most 65536 bytes. */
  body: Json;
  /** The name of a registered endpoint, never a URL. */
  endpoint: string;
  /** Its name among the effects of its step. */
  key: string;
  /** The key of a step of this call. */
  step: string;
  /** What happened, in a word. */
  type: string;
}

/** The body of a call that says all with its path. */
export type DeleteRecoveryPolicy = { [name: string]: unknown };

/** The body of a call that says all with its path. */
export type DeploymentCall = { [name: string]: unknown };

/** A page of deployments, by name. */
export interface DeploymentList {
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
  deployments: Array<DeploymentView>;
}

export type DeploymentState = "active" | "paused" | "deleted";

export interface DeploymentView {
  /** When this version was put in force. */
  appliedAt: Time;
  createdAt: Time;
  declaration?: Json | null;
  /** How often the name was used, from 1: a deployment that was deleted and made again begins anew. */
  generation: number;
  name: string;
  state: DeploymentState;
  /** The name of the topology. */
  topology: string;
  /** The digest of the version in force. */
  version: string;
}

/** Where code and checkpoints differ, for people. Texts are repaired and cut, never refused. */
export interface Diverged {
  actual: string;
  /** Empty for the function's own branch. */
  branch?: string;
  /** The place in the branch, from 0. */
  index: number;
  recorded: string;
}

/** Where code and checkpoints differ, as the worker said. */
export interface Divergence {
  actual: string;
  /** Empty for the function's own branch. */
  branch: string;
  index: number;
  recorded: string;
}

/** What a durable run has recorded and what it waits for. */
export interface DurableView {
  build?: RunBuild | null;
  /** Children ever started, detached ones included. */
  children: number;
  liveChildren: number;
  pendingSignals: number;
  /** The number of the checkpoint with which replay begins. */
  savepoint?: number | null;
  /** The source of its random numbers, submitted or derived from its id: the one that its workers are sent. */
  seed?: number | null;
  spend?: Spent | null;
  steps: number;
  suspensions: number;
  waiting?: WaitingView | null;
}

/** One change of an effect. */
export interface EffectChange {
  at: Time;
  /** The API key of the person who asked for it. */
  keyId?: string | null;
  lastTry?: TryView | null;
  state: EffectState;
  tries: number;
}

/** A page of effects, by endpoint and aggregate, in the order in which each aggregate is delivered. */
export interface EffectList {
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
  effects: Array<EffectView>;
}

export type EffectState = "queued" | "pending" | "in_flight" | "delivered" | "unknown" | "dead";

export interface EffectView {
  /** What stays in order: the task, unless its worker named something else. */
  aggregate: string;
  /** Whether its aggregate waits for it, though nothing is tried any more. */
  blocks?: boolean | null;
  body?: Json | null;
  decidedAt: Time;
  dueAt?: Time | null;
  /** The same as `webhook-id`. */
  effectId: string;
  endpoint: string;
  lastTry?: TryView | null;
  /** Everything that happened to it, oldest first. Only where one effect is asked for. */
  log?: Array<EffectChange>;
  /** Why it is dead: tries_exhausted, gone, endpoint_deleted. */
  reason?: string | null;
  runId: string;
  /** Its place in its aggregate at this endpoint, from 1. */
  sequence: number;
  settledAt?: Time | null;
  state: EffectState;
  taskId: string;
  /** Tries since it was decided or redriven. */
  tries: number;
  type: string;
}

export interface Ending {
  reason?: string | null;
  state: State;
}

/** All endpoints of a workspace, by name. */
export interface EndpointList {
  endpoints: Array<EndpointView>;
}

/** A secret that is shown once: 201 for a new endpoint, 200 for a new secret. */
export interface EndpointSecret {
  endpoint: EndpointView;
  name: string;
  /** `whsec_…`, for the receiver. It cannot be shown again. */
  secret: string;
}

export type EndpointState = "enabled" | "disabled" | "deleted";

export interface EndpointView {
  concurrency: number;
  createdAt: Time;
  /** Why it is disabled, if nobody disabled it. */
  disabledBecause?: string | null;
  idempotent: boolean;
  maxTries: number;
  name: string;
  onDead: OnDead;
  previousSecretUntil?: Time | null;
  /** Queues whose tasks are pushed to it. */
  queues?: Array<string>;
  ratePerSecond?: number | null;
  retry: RetryPolicy;
  state: EndpointState;
  types: Array<string>;
  url: string;
}

/** Everything a worker needs to execute one attempt and to report on it. */
export interface Envelope {
  assetId?: string | null;
  attempt: number;
  budgetLeft?: BudgetLeft | null;
  callbackBaseUrl: string;
  cancelGracePeriodMs: number;
  /** What the task has recorded since its last savepoint, that included, in the order of the commits: up to 64 KiB. */
  checkpoints?: Array<Checkpoint>;
  /** There are more: ask `GET /v1/tasks/{taskId}/checkpoints` with `after` set to this. */
  checkpointsAfter?: number | null;
  deadline?: Time | null;
  enqueuedAt: Time;
  /** Larger than every earlier fence of this task: pass it to the systems that the code writes to. */
  fence: number;
  heartbeatIntervalMs: number;
  /** The length of the lease: it expires after this time without a heartbeat. */
  heartbeatTimeoutMs: number;
  input?: Json;
  kind: string;
  labels?: { [name: string]: string };
  leaseExpiresAt: Time;
  leaseId: string;
  /**
   * The task with which this line of continuations began: idempotency keys of steps are `origin/key`, so that a step which is
   * repeated after `continue` has the key that it had. The task itself when absent.
   */
  origin?: string | null;
  /** The task that started this one. */
  parentTaskId?: string | null;
  queue: string;
  resources?: Resources | null;
  runId: string;
  /** The source of a durable function's random numbers: equal in every attempt of the task. */
  seed?: number | null;
  /** The key of the plan's step that this is, if the run has a plan. */
  stage?: string | null;
  taskId: string;
  taskKey: string;
  taskToken: string;
  tenantId: string;
  tokenExpiresAt: Time;
  traceparent?: string | null;
  workspaceId: string;
}

export type ErrorCategory = "USER_CODE" | "DATA_QUALITY" | "INFRASTRUCTURE" | "CONFIGURATION" | "TIMEOUT" | "CANCELLED";

/** Who decides about what is escalated: the terms of its approval. */
export interface EscalationTerms {
  default?: ApprovalDecision | null;
  /** How long they may take; as long as the candidate may be acted on when absent. */
  expiresMs?: number | null;
  /** Ids of API keys that may decide. */
  keys?: Array<string>;
  /** How many must approve; 1 when absent. One rejection rejects. */
  quorum?: number | null;
  /** Roles of API keys that may decide. */
  roles?: Array<string>;
}

export interface EventRequested {
  eventId: string;
  /** The task by which the event is processed. */
  runId: string;
}

/** Why a run is not running or has not ended. */
export interface Explanation {
  /** What holds it, the most pressing first. */
  gates: Array<Gate>;
  runId: string;
  serverTime: Time;
  state: State;
  taskId: string;
}

/**
 * At most `limit` runs with this `key` are leased at once, and they start no more often than `rate` says, in all queues of the
 * tenant's workspace and over all coordinators. A run that does not fit waits without keeping others from their workers. A slot
 * belongs to the lease, so a run that waits, for a child for example, holds none, unless `hold` says otherwise. With `debounceMs`,
 * the run waits that long for a newer one with the same key, which replaces it. A limit, a rate or a debounce is required.
 */
export interface Flow {
  /**
   * How long runs that replace each other may wait together, in milliseconds, up to 30 days: a steady stream postpones no
   * longer. An hour when absent, or `debounceMs` if that is longer.
   */
  debounceMaxMs?: number | null;
  /**
   * How long the run waits, in milliseconds, up to 7 days. A later submission with the same key and a debounce replaces it
   * while it waits, and waits in its turn: the older run ends `cancelled`, and its reason names the newer one. A run whose
   * wait is over is not touched. Not for children and schedules, nor with `runAt` or `delayMs`.
   */
  debounceMs?: number | null;
  hold?: FlowHold | null;
  key: string;
  /** The same for all runs with the key that have not ended; another one is refused with 409. No limit when absent. */
  limit?: number | null;
  rate?: FlowRate | null;
}

/** How long a run holds a slot of its flow key. */
export type FlowHold = "lease" | "life";

export interface FlowKeyView {
  /** How many are. */
  held: number;
  /** The oldest tasks that hold a slot, at most ten. */
  holders: Array<string>;
  key: string;
  /** How many of its tasks may be leased at once; absent if only a rate limits them. */
  limit?: number | null;
  /** All of its tasks that have not ended. */
  live: number;
  opensAt?: Time | null;
  /** How many tasks could start if the key had more slots and no rate. */
  parked: number;
  rate?: FlowRate | null;
}

/** A page of the flow keys that runs which have not ended use, by name. */
export interface FlowKeys {
  flowKeys: Array<FlowKeyView>;
  /** The `after` of the next page; absent on the last one. */
  nextAfter?: string | null;
  serverTime: Time;
}

/**
 * At most `count` starts in any window of `perMs`, wherever it begins. Every lease is a start: a retry too, and a run that goes
 * on after a wait.
 */
export interface FlowRate {
  count: number;
  /** The length of the window in milliseconds, up to 30 days. */
  perMs: number;
}

/** `POST /v1/runs/{runId}/fork`: a new run that starts from the recorded steps of one that has ended without success. */
export interface ForkRun {
  budget?: Budget | null;
  /**
   * The key of the first step that is executed again. When absent, everything is taken over, except that a run that failed
   * repeats the step that failed last.
   */
  fromStep?: string | null;
}

/** One thing that holds a run where it is. */
export interface Gate {
  at?: Time | null;
  /** What would change it. */
  change?: string | null;
  /**
   * A stable name: `run_at`, `backoff`, `no_worker`, `ahead`, `ready`, `leased`, `unheard`, `restored`,
   * `cancel_untold`, `cancel_told`, `attempt_limit`, `deadline`, `waiting`,
   * `diverged`, `closing`, `ended`.
   */
  gate: string;
  /** Its current value, as a sentence. */
  now: string;
}

export interface GateReasonView {
  check: string;
  message: string;
}

/** `POST /v1/tasks/{taskId}/heartbeat`. */
export interface Heartbeat {
  attempt: number;
  heartbeatAt?: Time | null;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  message?: string | null;
  progressPct?: number | null;
  spend?: Spend | null;
  workerId: string;
}

/** The answer to `heartbeat`. */
export interface HeartbeatAck {
  acknowledged: boolean;
  cancelReason?: string | null;
  leaseExpiresAt: Time;
  left?: BudgetLeft | null;
  serverTime: Time;
  /** Begin a graceful stop and report CANCELLED within the grace period. */
  shouldCancel: boolean;
  /** A new token, when less than half of the old one's lifetime is left. */
  taskToken?: string | null;
  tokenExpiresAt?: Time | null;
  verdict: Verdict;
}

/** What a single `heartbeat` call would have been answered. */
export interface HeartbeatAnswer {
  cancelReason?: string | null;
  error?: string | null;
  expectedAttempt?: number | null;
  field?: string | null;
  leaseExpiresAt?: Time | null;
  left?: BudgetLeft | null;
  message?: string | null;
  receivedAttempt?: number | null;
  shouldCancel?: boolean | null;
  state?: State | null;
  /** The HTTP status a single call would have had. */
  status: number;
  taskId: string;
  taskToken?: string | null;
  tokenExpiresAt?: Time | null;
  verdict?: Verdict | null;
}

/** Answers to a batch of heartbeats, in the order of the request. */
export interface HeartbeatAnswers {
  answers: Array<HeartbeatAnswer>;
  serverTime: Time;
}

/** One heartbeat of a batch: [`Heartbeat`] with the task and token a single call has in path and header. */
export interface HeartbeatItem {
  attempt: number;
  heartbeatAt?: Time | null;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  message?: string | null;
  progressPct?: number | null;
  spend?: Spend | null;
  taskId: string;
  taskToken: string;
  workerId: string;
}

/** `POST /v1/heartbeats`: many heartbeats at once, one answer each. */
export interface Heartbeats {
  heartbeats: Array<HeartbeatItem>;
}

/** What was decided about a run, in order. A page may be shorter than its `limit`; only an empty one is the last. */
export interface History {
  entries: Array<HistoryEntry>;
  /** Ask with `after` set to this for what follows. */
  nextAfter: number;
}

/** One decision. */
export interface HistoryEntry {
  at: Time;
  attempt?: number | null;
  /** An object whose members depend on `kind`. */
  detail: { [name: string]: unknown };
  kind: string;
  /** Grows by one with every decision about the run. */
  n: number;
}

/** Any JSON value of at most 262144 bytes and 32 levels, in Unicode, without two members of one name in an object and without numbers beyond every double (1e400). It is kept byte for byte, integers beyond 2^53 with all their digits. */
export type Json = unknown;

/** A key, without its secret, which only its holder has. */
export interface Key {
  createdAt: Time;
  expiresAt?: Time | null;
  /** The public part: the second of the four parts of the key. */
  keyId: string;
  lastUsedAt?: Time | null;
  name?: string | null;
  previousSecretUntil?: Time | null;
  /** The queues it is limited to; every queue when absent. */
  queues?: Array<string> | null;
  revokedAt?: Time | null;
  roles: Array<Role>;
  tenantId: string;
  workspaceId: string;
}

/** The keys that the calling key may administer, by id. */
export interface Keys {
  keys: Array<Key>;
  /** The `after` of the next page; absent on the last one. A page may be shorter than its `limit`: it is large enough. */
  nextAfter?: string | null;
}

/** A kind as some workers announced it. Workers with another version, build or schema are another entry. */
export interface KindView {
  buildId?: string | null;
  builds?: Builds | null;
  /** Only if one kind was asked for. */
  inputSchema?: { [name: string]: unknown };
  kind: string;
  /** When one of these workers polled last. */
  lastSeenAt: Time;
  outputSchema?: { [name: string]: unknown };
  /** The queues that these workers poll. */
  queues: Array<string>;
  version?: string | null;
  workers: number;
}

/** A page of announced kinds, in the order of their names. They were announced at the coordinator that answers. */
export interface Kinds {
  /** How many coordinators there are, the one that answers included. */
  coordinators: number;
  kinds: Array<KindView>;
  /** Absent on the last page. */
  nextAfter?: string | null;
  serverTime: Time;
}

/** The right of one worker to report for one attempt, until a time. */
export interface Lease {
  acquiredAt: Time;
  attempt: number;
  claimVersion: number;
  expiresAt: Time;
  fence: number;
  heartbeatAt: Time;
  leaseId: string;
  message?: string | null;
  owner: string;
  progressPct?: number | null;
  progressedAt?: Time | null;
  stalledAt?: Time | null;
}

/** `POST /v1/leases`: a worker asks for work. */
export interface LeaseRequest {
  announce?: Announcement | null;
  /** The `id` of what the worker announced before. */
  announced?: string | null;
  /** Only these kinds; every kind when absent. */
  kinds?: Array<string> | null;
  /**
   * At most this many leases. Fewer where their inputs would be more than 4 MiB together: one is
   * always granted, and the other tasks stay queued for the next poll. A worker that has no room
   * asks for 0, and waits for signals about the tasks it holds.
   */
  max: number;
  /** Repeating a poll with the same id returns the same leases. */
  pollId?: string | null;
  queues: Array<string>;
  /** How long to wait while there is nothing; 0 when absent. */
  waitMs?: number | null;
  workerId: string;
}

/**
 * The leases that a poll was granted, in the order of grant; empty when the wait ended first, or
 * when there is a signal.
 */
export interface Leases {
  /** What the poll names as announced is not known here: send `announce` with the next poll, at once. */
  announceAgain?: boolean | null;
  leases: Array<Envelope>;
  serverTime: Time;
  /**
   * Tasks of this worker whose next heartbeat brings a signal: send it now. A hint that may be
   * missing; the heartbeat alone carries the signal.
   */
  signals?: Array<Signal>;
}

/** The limits that the calling key may see, by tenant. A tenant that is not named has none. */
export interface Limits {
  limits: Array<TenantLimits>;
}

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error";

/** A line for people. It decides nothing and is part of no record or digest. */
export interface LogLine {
  at?: Time | null;
  level?: LogLevel;
  /**
   * Its number in the attempt, counted by the worker from 1; the next one when absent. A line with a number that the
   * log has already is not added again, and numbers that are missing count as dropped lines.
   */
  n?: number | null;
  /** Repaired where needed and never a reason to refuse the call: cut after 4096 bytes, NUL replaced. */
  text: string;
}

/** One line of a log. */
export interface LoggedLine {
  /** By the worker's clock, or the server's if the worker said none. */
  at: Time;
  attempt: number;
  /** So many lines before this one are not kept. */
  dropped?: number | null;
  level: LogLevel;
  /** Its number in the attempt. */
  n: number;
  text: string;
}

/** A page of the log of a run, oldest first. */
export interface Logs {
  lines: Array<LoggedLine>;
  /** Ask with `after` set to this for the lines that follow; absent where none do. */
  nextAfter?: string | null;
}

/** What an attempt used, as measured by its worker. */
export interface Metrics {
  cpuTimeMs?: number | null;
  ioReadBytes?: number | null;
  ioWriteBytes?: number | null;
  peakMemoryBytes?: number | null;
}

/** `POST /v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition`, and `…/approve`. */
export interface MoveArtifact {
  /** Its fields from now on; they stay as they are when absent. */
  fields?: Json;
  /** The revision that the caller read: the change is refused if there is a newer one. */
  revision?: number | null;
  /** The status it enters. */
  to: string;
}

/** A key that was just created or rotated: the only time its secret is shown. */
export interface NewKey {
  key: Key;
  /** What its holder sends as `Authorization: Bearer …`. */
  secret: string;
}

export type OnDead = "block" | "skip";

export type OnError = "abort" | "continue" | "retry";

/** What follows when a soft limit is crossed. */
export type OnSoft = "note" | "ask";

/** The wait of a suspended run. */
export interface OpenWait {
  /** How many items there are. */
  count: number;
  /** The items; at most 100 of them are shown. */
  for: Array<AwaitedView>;
  /** The run fails with WAIT_TIMEOUT if the wait lasts until then. */
  givesUpAt: Time;
  key: string;
  /** How many children and signals have not come. */
  missing: number;
  mode: WaitMode;
}

export type Outcome = "SUCCEEDED" | "FAILED" | "CANCELLED" | "RELEASED";

export type Overlap = "skip" | "queue" | "cancelOlder" | "allow";

/** What ended a page before it was full. */
export type PageStop = "bytes" | "scan";

/** Where a task comes from that another task started. */
export interface Parent {
  /** The task is a run of its own that outlives the one that started it. */
  detached?: boolean;
  key: string;
  taskId: string;
}

/** A message from one task to another that the rules refuse. It stays, and blocks only messages of the same pair. */
export interface ParkedMessage {
  fromTaskId: string;
  toTaskId: string;
  /** The code of the refusal. */
  why: string;
}

/** Since when a queue is paused, by whom and why. */
export interface Pause {
  pausedAt: Time;
  /** The id of the administrator's key. */
  pausedBy: string;
  reason?: string | null;
}

/** `POST /v1/queues/{queue}/pause`: no task is leased from the queue until it is resumed. */
export interface PauseQueue {
  /** Why, for people who wonder. */
  reason?: string | null;
  /** The tenant of the queue; the calling key's own when absent. */
  tenantId?: string | null;
  /** The workspace of the queue; the calling key's own when absent. */
  workspaceId?: string | null;
}

/** A page of pause states, by id. */
export interface PauseStateList {
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
  pauseStates: Array<PauseStateView>;
}

export type PauseStateState = "open" | "closed";

/** Something in a deployment that waits for a person, with what to do next. */
export interface PauseStateView {
  /** One to three, the most important first. */
  actions: Array<string>;
  createdAt: Time;
  /** Reason, cause and instant: the same cause at the same instant is the same pause. */
  id: string;
  /** RUN_COMPLETE, GATE_FAILED, BUDGET_EXHAUSTED, BLOCKED, DEADLINE_OVERDUE, HALTED or CANCELLED. */
  reason: string;
  state: PauseStateState;
  /** What it is about, as `TYPE/ID`. */
  subject?: string | null;
}

/** The steps of a run, fixed when it is submitted. */
export interface Plan {
  steps: Array<PlanStep>;
}

/** A step of a run's plan, and what became of it. */
export interface PlanStage {
  /** What people are asked, while they are. */
  approvalId?: string | null;
  completedAt?: Time | null;
  /** The steps that must end before this one starts. */
  dependsOn?: Array<string>;
  key: string;
  kind: string;
  /** The same in words, of a step with a task of its own. */
  message?: string | null;
  queue: string;
  /** Why it failed, or why it did not run. */
  reason?: string | null;
  startedAt?: Time | null;
  /** `blocked` until the steps before it have ended; `skipped` if it never ran. */
  state: State;
  /** The task of the step, if it has one of its own. */
  taskId?: string | null;
  /** How many of them have not ended. */
  waitsFor?: number | null;
}

/** One step of a plan. */
export interface PlanStep {
  /** The step runs whatever happened before it: after failures, at the end of the run's deadline, after a cancel. */
  always?: boolean;
  approval?: ApprovalTerms | null;
  /** How long a worker may take to stop after a cancel; 30000 when absent. */
  cancelGraceMs?: number | null;
  ceiling?: Ceiling | null;
  /** How long the step may take, from the moment at which it may start. The deadline of the run stays in force. */
  deadlineMs?: number | null;
  /** The steps that must end before this one starts. */
  dependsOn?: Array<string> | null;
  /** The step judges the one before it, so a worker does not get it together with the answer to its own report. */
  gate?: boolean;
  /** The interval between heartbeats of a worker; a third of `leaseMs` when absent. */
  heartbeatIntervalMs?: number | null;
  /** Passed to the worker, with every reference `{"$from": …}` replaced by what it refers to; null when absent. */
  input?: Json;
  /** Names the step in this plan, in references and in the output of the run. */
  key: string;
  /** What a worker must be able to do. Required, unless the step asks people. */
  kind?: string;
  /** How long a worker may go without a heartbeat; 90000 when absent. */
  leaseMs?: number | null;
  /** How many attempts may be lost with their worker before the step fails; 3 when absent. */
  lostMax?: number | null;
  /** How many attempts may report a failure before the step fails; 3 when absent. */
  maxAttempts?: number | null;
  onError?: OnError | null;
  /** Where the step waits for a worker. Required, unless the step asks people. */
  queue?: string;
  retry?: Retry | null;
  when?: Json | null;
}

/** A page of the steps of a run's plan, in the order in which they are started. */
export interface PlanSteps {
  /** The `after` of the next page; absent after the last. */
  nextAfter?: number | null;
  steps: Array<PlanStage>;
}

/** Every error answer: `application/problem+json` with the additional members of the worker contract. */
export interface Problem {
  detail: string;
  /** The stable code. */
  error: string;
  expectedAttempt?: number | null;
  /** The member of the request at fault. */
  field?: string | null;
  instance?: string | null;
  message: string;
  receivedAttempt?: number | null;
  requestId?: string | null;
  retryAfterMs?: number | null;
  serverTime: Time;
  /** The state that prevented the call, in upper case as in the worker contract. */
  state?: string | null;
  status: number;
  title: string;
  /** Where the code is explained. */
  type: string;
  verdict?: Verdict | null;
}

/** `POST /v1/deployments/{deployment}/roles/{role}/proposals`: what a process decided in its turn. */
export interface Propose {
  claim?: TurnClaim | null;
  /**
   * An object with the member `decision`: ORDER with `take` and `snapshot`, END with `reason`, BLOCK, ASK with `checks`, PASS,
   * FAIL with `reasons`, or GO with `artifact` and `revision`.
   */
  decision: Json;
  workerId: string;
}

/** A decision was carried out with everything that follows from it. */
export interface Proposed {
  serverTime: Time;
  verdict: Verdict;
}

/** A question to people: an approval. */
export interface QuestionView {
  /** What is done if they approve. */
  action: RecoveryAction;
  approvalId: string;
  /** What exactly is approved: the text whose SHA-256 is the digest. */
  asked: string;
  digest: string;
}

/** A queue, and its pause if it has one. */
export interface QueueStatus {
  pause?: Pause | null;
  queue: string;
  tenantId: string;
  workspaceId: string;
}

export interface QueueView {
  /** Tasks that wait for a delayed start or a retry. */
  delayed: number;
  oldestReadyAt?: Time | null;
  /** Tasks that wait for a slot or a start of their flow key: more workers do not help them. */
  parked?: number;
  pause?: Pause | null;
  queue: string;
  /** Tasks that could be leased now. */
  ready: number;
  running: number;
}

/** Waiting and running tasks per queue. */
export interface Queues {
  queues: Array<QueueView>;
  stopped?: PageStop | null;
}

/** `/readyz`: 200 when every check passes, 503 otherwise. */
export interface Ready {
  checks: Array<ReadyCheck>;
  ready: boolean;
}

export interface ReadyCheck {
  detail?: string | null;
  name: string;
  ok: boolean;
}

/** `POST /v1/effects/{effectId}/reconcile`: what a person found out about an unknown effect. */
export interface ReconcileEffect {
  /** Whether the receiver has it. If not, it is sent again. */
  arrived: boolean;
}

/** The record of an ended run: input, output and every attempt. */
export interface Record {
  attempts: Array<AttemptView>;
  completedAt: Time;
  createdAt: Time;
  /** How many decisions the history holds. */
  decisions?: number;
  /** Digest over kind, queue, input, every attempt, every checkpoint and the end. */
  digest: string;
  durable?: RecordedRun | null;
  /** From `createdAt` to `completedAt`. */
  durationMs: number;
  error?: RunError | null;
  /** What the run was submitted for, in the client's words. */
  goal?: string | null;
  inputDigest: string;
  kind: string;
  /** Ask with `after` set to this for the attempts that follow; absent where none do. */
  nextAfter?: number | null;
  outputDigest?: string | null;
  queue: string;
  /** The versions of the rules that made them. */
  rules?: Array<number>;
  runId: string;
  startedAt?: Time | null;
  state: State;
  /**
   * Every completed step, whatever ended the run: those that it recorded, and the steps of a plan that were not skipped. The
   * first 1,000; `/steps` has all of them with their results.
   */
  toolCalls?: Array<ToolCall>;
  /** How many completed steps `toolCalls` leaves out; absent if it has all of them. */
  toolCallsLeftOut?: number | null;
}

/** What a durable run recorded, counted. */
export interface RecordedRun {
  /** Steps, waits, started and ended children. */
  checkpoints: number;
  children: number;
  signals: number;
  /** What all steps used together. */
  spend: Spent;
  steps: number;
  /** Attempts that ended because the run waited. */
  suspensions: number;
}

export type RecoveryAction = "retry" | "continue" | "notify" | "escalate" | "skip";

export type RecoveryEvaluator = "builtIn" | "workers";

/** The policies of the workspace, by name. */
export interface RecoveryPolicyList {
  policies: Array<RecoveryPolicyView>;
}

export interface RecoveryPolicyView {
  actions: Array<RecoveryAction>;
  approval: EscalationTerms;
  attempts: number;
  costMicros?: number | null;
  evaluator: RecoveryEvaluator;
  expiresMs: number;
  kind?: string | null;
  name: string;
  queue?: string | null;
  runsMax: number;
}

/** `POST /v1/effects/redrive`: new tries for dead effects. */
export interface RedriveEffects {
  endpoint?: string | null;
  runId?: string | null;
  since?: Time | null;
}

/** How many effects have new tries. */
export interface Redriven {
  /** Whether a repeated call may find more. */
  more: boolean;
  redriven: number;
}

/** A refused call under a lease. One is kept per lease, call and code. */
export interface RefusedCall {
  at: Time;
  attempt: number;
  /** `started`, `heartbeat` or `report`. */
  call: string;
  /** The code it was answered with. */
  error: string;
  verdict: Verdict;
  workerId: string;
}

/** `POST /v1/deployments/{deployment}/roles/{role}/turns/renew`: keeps a turn, and tells it as it is now. */
export interface RenewTurn {
  claim: TurnClaim;
  workerId: string;
}

/** One report of a batch: [`Completed`] with the task and token a single call has in path and header. */
export interface Report {
  attempt: number;
  cancelledDuringPhase?: string | null;
  /** Children that ride along. Those that are not detached are cancelled by the end of their parent. */
  children?: Array<ChildRun>;
  completedAt?: Time | null;
  /** What is sent to endpoints because of these steps: once for each step that is recorded. */
  effects?: Array<DeclaredEffect>;
  error?: ReportedError | null;
  /** Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB. */
  log?: Array<LogLine>;
  metrics?: Metrics | null;
  /**
   * Asks for the next stage of the task, leased in the same decision. A wish: the answer has `next` if it is granted.
   * Steps, children and effects may ride along.
   */
  next?: boolean;
  outcome: Outcome;
  output?: Json;
  partialProgress?: Json;
  spend?: Spend | null;
  /** Steps that ride along: recorded before the report, or not at all if it is refused. */
  steps?: Array<StepRecord>;
  taskId: string;
  taskToken: string;
  /**
   * W3C trace context of the work itself, which the attempt's span is linked with. Ignored when it
   * is not valid.
   */
  traceparent?: string | null;
  workerId: string;
}

/** What a single `completed` call would have been answered. */
export interface ReportAnswer {
  error?: string | null;
  expectedAttempt?: number | null;
  field?: string | null;
  finalState?: Outcome | null;
  message?: string | null;
  next?: Envelope | null;
  receivedAttempt?: number | null;
  replayed?: boolean | null;
  state?: State | null;
  /** The HTTP status a single call would have had. */
  status: number;
  taskId: string;
  verdict?: Verdict | null;
}

/** Answers to a batch of reports, in the order of the request. */
export interface ReportAnswers {
  answers: Array<ReportAnswer>;
  serverTime: Time;
}

/** Why an attempt failed. The text is repaired where needed and never a reason to refuse the report. */
export interface ReportedError {
  category: ErrorCategory;
  message?: string;
  /** The worker's opinion; the category's default when absent. */
  retryable?: boolean | null;
  stackTrace?: string | null;
}

/** `POST /v1/reports`: many reports at once, one verdict each. */
export interface Reports {
  reports: Array<Report>;
}

/** `POST /v1/deployments/{deployment}/events`: asks for an event that the topology declares with `on: request`. */
export interface RequestEvent {
  /** Names the request: the same key is the same event. */
  key: string;
  type: string;
}

/** What an attempt needs. Passed to the worker; of these the coordinator enforces only `timeoutMs`. */
export interface Resources {
  cpuMillicores?: number | null;
  memoryBytes?: number | null;
  /**
   * How long one attempt may take. The coordinator ends the attempt after this time with category TIMEOUT, and
   * a worker should stop its work by then.
   */
  timeoutMs?: number | null;
}

/** `POST /v1/queues/{queue}/resume`. */
export interface ResumeQueue {
  /** The tenant of the queue; the calling key's own when absent. */
  tenantId?: string | null;
  /** The workspace of the queue; the calling key's own when absent. */
  workspaceId?: string | null;
}

/** `POST /v1/runs/{runId}/resume`. It has no members. */
export type ResumeRun = { [name: string]: unknown };

/** How the wait between failed attempts grows: from `baseMs`, doubling, up to `capMs`. */
export interface Retry {
  baseMs?: number | null;
  capMs?: number | null;
}

/** The wait between failed attempts: from `baseMs`, doubling, up to `capMs`. */
export interface RetryPolicy {
  baseMs: number;
  capMs: number;
}

/** `POST /v1/runs/{runId}/retry`: the run once more, from the beginning and with every setting that it had. */
export interface RetryRun {
  /**
   * Do again what the run has recorded. Without it, a run with recorded steps or children is refused with `run_has_records`:
   * continue it with `POST /v1/runs/{runId}/fork` instead.
   */
  fromScratch?: boolean;
}

/** `POST /v1/deployments/{deployment}/roles/{role}/turns/return`: gives a turn back, to be tried again after a pause. */
export interface ReturnTurn {
  claim: TurnClaim;
  /** Why, for people. */
  reason: string;
  workerId: string;
}

export type Role = "client" | "worker" | "admin" | "reader" | "approver";

/** `POST /v1/endpoints/{endpoint}/rotate`: a new secret. The old one signs beside it for a time. */
export interface RotateEndpoint {
  /** How long both sign; a day when absent. */
  overlapMs?: number | null;
}

/** `POST /v1/keys/{keyId}/rotate`. */
export interface RotateKey {
  /** How long the old secret stays valid; a day when absent, 0 to invalidate it at once. */
  overlapMs?: number | null;
}

/** `POST /v1/signing-keys/rotate`. */
export interface RotateSigning {
  /** A key has leaked: every older task token is refused at once. Running attempts are lost. */
  emergency?: boolean | null;
}

/** A run and its condition now. */
export interface Run {
  assetId?: string | null;
  /** The number of the latest attempt; 0 before the first. */
  attempt: number;
  budget?: BudgetView | null;
  cancelGraceMs?: number | null;
  cancelReason?: string | null;
  cancelRequestedAt?: Time | null;
  /** Its descendants, if they were asked for. A task of which `children` has fewer than it started has more. */
  children?: Array<ChildView>;
  completedAt?: Time | null;
  createdAt: Time;
  deadline?: Time | null;
  durable?: DurableView | null;
  error?: RunError | null;
  /** Attempts that reported a failure. */
  failures: number;
  flow?: Flow | null;
  /** The run whose recorded steps this one began with, if it was made by a fork. */
  forkOf?: string | null;
  /** Runs that began with the recorded steps of this one, at most 100. Not in lists. */
  forks?: Array<string>;
  goal?: string | null;
  heartbeatIntervalMs?: number | null;
  /** The idempotency key that the run was submitted with. */
  idempotencyKey?: string | null;
  input?: Json;
  kind: string;
  labels?: { [name: string]: string };
  lease?: Lease | null;
  /** How long a worker may go without a heartbeat. */
  leaseMs?: number | null;
  /** Attempts lost with their worker. */
  lost: number;
  /** How many attempts may be lost with their worker. */
  lostMax?: number | null;
  maxAttempts: number;
  nextAttemptAt?: Time | null;
  output?: Json;
  parent?: Parent | null;
  /**
   * The steps of the run in their order, if it has a plan, and what became of each. Of a plan with `dependsOn` the first
   * 100.
   */
  plan?: Array<PlanStage>;
  /** How many steps the plan has, if they are tasks of their own: all of them are in `GET /v1/runs/{runId}/plan`. */
  planSteps?: number | null;
  priority: number;
  queue: string;
  /**
   * Calls under a lease of this run that were refused: late, conflicting, or not their caller's.
   * They changed nothing. Only when a single run is asked for, and the first thousand of them.
   */
  refused?: Array<RefusedCall>;
  resources?: Resources | null;
  /** Runs that repeat this one, at most 100. Not in lists. */
  retries?: Array<string>;
  retry?: RetryPolicy | null;
  /** The run that this one repeats, if it was made by a retry. */
  retryOf?: string | null;
  runAt?: Time | null;
  runId: string;
  seed?: number | null;
  serverTime: Time;
  stall?: Stall | null;
  startedAt?: Time | null;
  state: State;
  taskId: string;
  taskKey?: string | null;
  tenantId: string;
  /** How long the run may wait for its first worker. */
  ttlMs?: number | null;
  /** The worker that holds the lease, or had the latest attempt. */
  workerId?: string | null;
  workspaceId: string;
}

/** A run was accepted: 201, or 200 with `replayed` when its idempotency key was known. */
export interface RunAccepted {
  createdAt: Time;
  replayed?: boolean | null;
  run?: Run | null;
  runId: string;
  state: State;
  taskId: string;
}

/** The build of a durable run. */
export interface RunBuild {
  id: string;
  /** Whether only workers of this build may continue the run. */
  pinned: boolean;
}

/** Why a run or an attempt did not succeed. */
export interface RunError {
  category?: ErrorCategory | null;
  message: string;
  /** HEARTBEAT_TIMEOUT, CANCEL_TIMEOUT, …. */
  reason: string;
  stackTrace?: string | null;
}

/**
 * A page of runs, newest first, each without its bodies: `input`, `output` and the stack trace of its error
 * come with those that `include` names.
 */
export interface RunList {
  /**
   * Absent on the last page. A page may be shorter than its `limit`, even empty, and still have one: `stopped` says
   * why.
   */
  nextCursor?: string | null;
  runs: Array<Run>;
  /** How many runs were looked at, if that is why it ended. */
  searched?: number | null;
  searchedTo?: Time | null;
  stopped?: PageStop | null;
}

/** The one terminal record of a work order. */
export interface RunRecordView {
  createdAt: Time;
  /** COMPLETED, BUDGET_EXHAUSTED, FAILED or LOST. */
  executionStatus: string;
  /** The checks that failed and why; empty after a pass. */
  gateReasons: Array<GateReasonView>;
  /** PASS or FAIL. */
  gateResult: string;
}

/** A diverged run may be leased again: 202. */
export interface RunResumed {
  runId: string;
  state: State;
}

/** Workers of every build may continue a pinned run: 202. */
export interface RunUnpinned {
  runId: string;
  state: State;
}

export interface SampleView {
  at: Time;
  message: string;
  runId: string;
}

/** The body of a call that says all with its path. */
export type ScheduleCall = { [name: string]: unknown };

export interface ScheduleEntry {
  at: Time;
  /** The API key that made the change; absent if time did. */
  keyId?: string | null;
  revision: number;
  /** The schedule from then on. */
  schedule: ScheduleView;
}

/** The last instant that became a run. */
export interface ScheduleFiring {
  at: Time;
  instant: Time;
  runId: string;
}

/** What became of a schedule: one entry for each change and each round of firing, the newest first. */
export interface ScheduleHistory {
  entries: Array<ScheduleEntry>;
  /** `before` of the next page; absent on the last one. */
  nextBefore?: number | null;
}

/** A page of schedules, in the order of their creation. */
export interface ScheduleList {
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
  schedules: Array<ScheduleView>;
}

/** The instants that follow. */
export interface SchedulePreview {
  instants: Array<Time>;
}

/** The last instant whose run was refused for good. */
export interface ScheduleRefusal {
  at: Time;
  /** The code of the refusal. */
  error: string;
  instant: Time;
}

export type ScheduleState = "active" | "paused" | "deleted";

/** A run was submitted for this moment: 201. */
export interface ScheduleTriggered {
  runId: string;
  scheduleId: string;
}

export interface ScheduleView {
  catchUp: CatchUp;
  catchUpWindowMs: number;
  createdAt: Time;
  cron?: string | null;
  everyMs?: number | null;
  fired: number;
  last?: ScheduleFiring | null;
  lastRefusal?: ScheduleRefusal | null;
  /** Too late. */
  missed: number;
  name: string;
  nextAt?: Time | null;
  overlap: Overlap;
  /** Refused for good. */
  refused: number;
  run?: SubmitRun | null;
  scheduleId: string;
  /** Left out because the run before had not ended, or too many waited. */
  skipped: number;
  state: ScheduleState;
  timeZone?: string | null;
  /** How many instants have come and could not fire yet. */
  waiting: number;
}

/** The budget of a tenant or workspace, and what is used of it in this period. */
export interface ScopeBudget {
  alerted?: BudgetState | null;
  left: BudgetLeft;
  /** The limits, by unit; without those that there are not. */
  limits: BudgetLeft;
  period: BudgetPeriod;
  resetsAt?: Time | null;
  since?: Time | null;
  /** The limits at which people are told. */
  soft: BudgetLeft;
  state: BudgetState;
  tenantId: string;
  used: BudgetAmounts;
  /** Absent for the budget of the whole tenant. */
  workspaceId?: string | null;
}

/** The budgets that the calling key may see, by tenant and workspace. */
export interface ScopeBudgets {
  budgets: Array<ScopeBudget>;
}

/** `POST /v1/runs/{runId}/signals`: a value for a run, by name. Kept until the run takes it. */
export interface SendSignal {
  name: string;
  /** Null when absent. */
  payload?: Json;
}

/** Who asks, and what the key may do. */
export interface Session {
  expiresAt?: Time | null;
  /** The public part of the key. */
  keyId: string;
  /**
   * What the key may do, such as `runs.read`, `runs.cancel` and `approvals.decide`: the names of the routes that take
   * it, in alphabetical order. What a call names can still be out of its reach.
   */
  may: Array<string>;
  name?: string | null;
  /** The queues it is limited to; every queue when absent. */
  queues?: Array<string> | null;
  roles: Array<Role>;
  serverTime: Time;
  tenantId: string;
  workspaceId: string;
}

/** The tasks that this server has set aside. */
export interface SetAside {
  /** Messages between tasks that cannot be decided, of all servers that share the store; the first 100 of them. */
  messages?: Array<ParkedMessage>;
  tasks: Array<TaskSetAside>;
}

/**
 * `POST /v1/budgets`: sets the budget of a tenant, or of one of its workspaces. A limit that is absent is removed; without any limit
 * the budget is removed. What was used stays counted.
 */
export interface SetBudget {
  /** Money, in millionths of a unit of currency. */
  costMicros?: number | null;
  period?: BudgetPeriod | null;
  soft?: SoftLimits | null;
  /** Recorded steps. */
  steps?: number | null;
  /** The tenant of the calling key when absent. */
  tenantId?: string | null;
  tokens?: number | null;
  toolCalls?: number | null;
  /** All workspaces of the tenant together when absent. */
  workspaceId?: string | null;
}

/** `POST /v1/limits`: sets the limits of a tenant. An absent limit is removed. */
export interface SetLimits {
  /** How many requests may arrive at once after a pause; the number per second when absent. */
  burst?: number | null;
  /** Calls of clients and polls of workers per second; heartbeats, reports and administration are never limited. */
  requestsPerSecond?: number | null;
  tenantId: string;
  /** The quota of runs that wait or run; 0 accepts no new runs. */
  unfinishedRuns?: number | null;
}

/** `POST /v1/recovery/policies/{policy}`: for which runs recovery is wanted, and what it may do. What is absent has its default. */
export interface SetRecoveryPolicy {
  /** What may be done; retry, notify and escalate when absent. Nothing (`skip`) may always be done. */
  actions?: Array<RecoveryAction> | null;
  approval?: EscalationTerms | null;
  /** How many candidates one failure signature may have, one after the other; 1 when absent. */
  attempts?: number | null;
  /** What each of these runs may cost at most, in millionths. */
  costMicros?: number | null;
  evaluator?: RecoveryEvaluator | null;
  /** How long a candidate may be acted on; a day when absent. */
  expiresMs?: number | null;
  /** Only runs of this kind. The most particular policy is that of a run. */
  kind?: string | null;
  /** Only runs of this queue. */
  queue?: string | null;
  /** How many runs one candidate may submit; 100 when absent. */
  runsMax?: number | null;
}

/** A task that its worker should send a heartbeat for at once. */
export interface Signal {
  taskId: string;
}

/** A signal was recorded now, or before under the same idempotency key: 202. */
export interface SignalAccepted {
  replayed?: boolean | null;
  runId: string;
  state: State;
}

/** Task tokens are signed with a new key from now on. */
export interface SigningRotated {
  /** The public name of the new key. */
  kid: string;
  previousUntil?: Time | null;
}

/** Limits that end nothing. */
export interface SoftLimits {
  costMicros?: number | null;
  steps?: number | null;
  tokens?: number | null;
  toolCalls?: number | null;
}

/** What steps used. */
export interface Spend {
  costMicros?: number;
  tokens?: number;
  toolCalls?: number;
}

/** What steps used. */
export interface Spent {
  costMicros: number;
  tokens: number;
  toolCalls: number;
}

/**
 * When an attempt counts as stalled, and what then follows. Progress is the start of the attempt, a heartbeat whose
 * progress differs from the last one, and whatever a durable run records. A heartbeat that repeats itself is none.
 */
export interface Stall {
  /** `warn` when absent. */
  action?: StallAction;
  /**
   * How long an attempt may go without progress: at least twice `heartbeatIntervalMs`, since heartbeats carry it. The
   * interval is at most a third of it when `heartbeatIntervalMs` is absent.
   */
  afterMs: number;
}

/** What follows when an attempt has stalled. */
export type StallAction = "warn" | "cancel" | "requeue";

/** What a single `started` call would have been answered. */
export interface StartAnswer {
  error?: string | null;
  expectedAttempt?: number | null;
  field?: string | null;
  message?: string | null;
  receivedAttempt?: number | null;
  state?: State | null;
  /** The HTTP status a single call would have had. */
  status: number;
  taskId: string;
  verdict?: Verdict | null;
}

/** Answers to a batch of starts, in the order of the request. */
export interface StartAnswers {
  answers: Array<StartAnswer>;
  serverTime: Time;
}

/** One start of a batch: `Started` with the task and token a single call has in path and header. */
export interface StartItem {
  attempt: number;
  startedAt?: Time | null;
  taskId: string;
  taskToken: string;
  workerId: string;
}

/** `POST /v1/tasks/{taskId}/started`. */
export interface Started {
  attempt: number;
  startedAt?: Time | null;
  workerId: string;
}

/** The answer to `started`. */
export interface StartedAck {
  acknowledged: boolean;
  serverTime: Time;
  verdict: Verdict;
}

export interface StartedChild {
  key: string;
  taskId: string;
}

/** `POST /v1/starts`: many starts at once, one answer each. */
export interface Starts {
  starts: Array<StartItem>;
}

export type State = "queued" | "running" | "retry" | "waiting" | "succeeded" | "failed" | "halted" | "cancelled" | "blocked" | "skipped";

/** Why a step or a child failed: a value for the code of the run. */
export interface StepError {
  category: ErrorCategory;
  message?: string;
  /** A stable word, such as STEP_TIMEOUT. */
  reason?: string | null;
  /** The opinion of the code that failed; the category's default when absent. */
  retryable?: boolean | null;
  stackTrace?: string | null;
}

export type StepOutcome = "SUCCEEDED" | "FAILED";

/**
 * The result of one step. Its key means this step for the life of the task: the same key with another content is
 * refused.
 */
export interface StepRecord {
  error?: StepError | null;
  /** SHA-256 of what went into the step, as 64 hexadecimal digits: changed code is noticed by it. */
  inputDigest?: string | null;
  key: string;
  outcome: StepOutcome;
  /** At most 262144 bytes. Only with outcome SUCCEEDED. */
  result?: Json;
  /** Replay begins with this step from now on. */
  savepoint?: boolean;
  spend?: Spend | null;
}

/** A page of what a run recorded, in the order of the commits. */
export interface Steps {
  /** Ask with `after` set to this for what follows; absent where nothing does. */
  nextAfter?: number | null;
  steps: Array<Checkpoint>;
}

/** `POST /v1/runs` with many runs; each is accepted or refused on its own. */
export interface SubmitMany {
  runs: Array<SubmitRun>;
}

/** One run of a batch: either the members of [`RunAccepted`], or `error` and `message`. */
export interface SubmitResult {
  createdAt?: Time | null;
  /** A stable code; present exactly when the run was not accepted. */
  error?: string | null;
  /** The member at fault. */
  field?: string | null;
  message?: string | null;
  replayed?: boolean | null;
  runId?: string | null;
  state?: State | null;
  taskId?: string | null;
}

/** Answers to a batch of runs, in the order of the request. */
export interface SubmitResults {
  results: Array<SubmitResult>;
}

/** `POST /v1/runs`: one obligation to execute. */
export interface SubmitRun {
  assetId?: string | null;
  budget?: Budget | null;
  /** How long a worker may take to stop after a cancel; 30000 when absent. */
  cancelGraceMs?: number | null;
  deadline?: Time | null;
  /** The deadline as time since the coordinator accepted the run. Excludes `deadline`. */
  deadlineMs?: number | null;
  /**
   * Not before this time has passed since the coordinator accepted the run. Unlike an instant that the caller
   * computes from it, a repeated submission contains the same value. Excludes `runAt`.
   */
  delayMs?: number | null;
  flow?: Flow | null;
  /** What the run is for, in words. */
  goal?: string | null;
  /** The interval between heartbeats of a worker; a third of `leaseMs` when absent. */
  heartbeatIntervalMs?: number | null;
  /** Only inside a batch; a single run names its key in the `Idempotency-Key` header. */
  idempotencyKey?: string | null;
  /**
   * Passed to the worker unchanged; null when absent. A repeated submission with the same idempotency key may
   * spell it differently: order and spacing of members do not count, integers count by their digits, other
   * numbers as doubles.
   */
  input?: Json;
  /** What a worker must be able to do. Required, unless the run has a `plan`. */
  kind?: string;
  labels?: { [name: string]: string };
  /** How long a worker may go without a heartbeat; 90000 when absent. */
  leaseMs?: number | null;
  /** How many attempts may be lost with their worker before the run fails; 3 when absent. */
  lostMax?: number | null;
  /** How many attempts may report a failure before the run fails; 3 when absent. */
  maxAttempts?: number | null;
  plan?: Plan | null;
  /** Higher goes first; 0 when absent. */
  priority?: number | null;
  /** Where the run waits for a worker. Required, unless the run has a `plan`. */
  queue?: string;
  resources?: Resources | null;
  retry?: Retry | null;
  runAt?: Time | null;
  /** Makes the jitter of retries reproducible. */
  seed?: number | null;
  stall?: Stall | null;
  /** The name of the task in its plan or asset; the kind when absent. */
  taskKey?: string | null;
  /**
   * W3C trace context, continued by the worker; the call may have it as a header instead. Ignored
   * when it is not valid.
   */
  traceparent?: string | null;
  /**
   * How long the run may wait for its first worker, counted from when it may start. If none has taken it by then, it fails with
   * the reason TTL_EXPIRED. A run that has been taken is not touched.
   */
  ttlMs?: number | null;
}

/** What the evidence speaks for. */
export interface SuggestionView {
  action: RecoveryAction;
  because: string;
  /** From 0 to 1. */
  confidence: number;
}

/** `POST /v1/deployments/{deployment}/roles/{role}/turns`: a process takes turns of a role with `outside: true`. */
export interface TakeTurns {
  /** Digests of versions that the process has: their declarations are not sent. */
  known?: Array<string>;
  max: number;
  /** How long to wait while there is nothing; 0 when absent. */
  waitMs?: number | null;
  /** Unique for each process. */
  workerId: string;
}

export interface TakenSignal {
  /** The key of the item that took it. */
  key: string;
  name: string;
  payload?: Json;
}

/** A task that cannot be read, decided or stored, and is skipped for now. */
export interface TaskSetAside {
  /** When it is tried again; absent when it is due. */
  retryAfterMs?: number | null;
  /** When it was first found, since the server started. */
  since: Time;
  taskId: string;
  /** How often it was tried. */
  tries: number;
  /** What went wrong the last time. */
  why: string;
}

/** The limits of a tenant and its usage; a limit that is absent is not set. */
export interface TenantLimits {
  burst?: number | null;
  changedAt: Time;
  limitedAt?: Time | null;
  /** How many requests may come at once at this moment, where there is a rate. */
  requestsLeftNow?: number | null;
  requestsPerSecond?: number | null;
  tenantId: string;
  unfinishedRuns?: number | null;
  /** How many runs wait or run at this moment. */
  unfinishedRunsNow: number;
}

/** RFC 3339 instant; answers are UTC with exactly three fractional digits. */
export type Time = string;

/** A completed step. */
export interface ToolCall {
  /** The attempt that recorded it; absent for a step that a fork took over. */
  attempt?: number | null;
  key: string;
  outcome: CheckpointOutcome;
  recordedAt: Time;
  spend?: Spent | null;
}

/** What putting a version in force would change, and what stands in the way. */
export interface TopologyPlan {
  differences: Array<string>;
  /** The version in force; absent if the deployment is new. */
  from?: string | null;
  /** Work orders that end under the version that made them. */
  inFlight: number;
  /** While there is one, the version is refused. */
  obstacles: Array<string>;
  to: string;
}

/** What came of a try. */
export interface TryView {
  at: Time;
  /** Why there is no status, or the beginning of the answer. */
  note?: string | null;
  /** What the receiver answered with. */
  status?: number | null;
}

/** One turn: what a role is told, for one decision. */
export interface Turn {
  claim?: TurnClaim | null;
  leaseExpiresAt?: Time | null;
  /** An event with what belongs to it, an executed work order with its output, or an artifact. */
  told: Json;
  /** The digest of the version by which it is decided. */
  version: string;
}

/** The claim of a turn. It is lost when its lease ends, and no later process has the same one. */
export interface TurnClaim {
  attempt: number;
  /** The fencing token of the lease. */
  fence: number;
  leaseId: string;
  taskId: string;
}

/** The declaration of a version. */
export interface TurnVersion {
  declaration: Json;
  version: string;
}

/** Turns, and the declarations by which they are to be decided. */
export interface Turns {
  serverTime: Time;
  turns: Array<Turn>;
  /** The versions of the turns that the process did not name. */
  versions: Array<TurnVersion>;
}

/** `POST /v1/runs/{runId}/unpin`. It has no members. */
export type UnpinRun = { [name: string]: unknown };

/** What a registration, and a change of one, says. What is absent is as by default, or stays as it is. */
export interface UpdateEndpoint {
  /** Effects in flight from one coordinator, and tasks that are pushed and not done; 16 when absent. */
  concurrency?: number | null;
  /** False disables it: effects wait. True enables it again. */
  enabled?: boolean | null;
  /**
   * Whether the receiver recognises a repeated `webhook-id`; true when absent. If not, a call without an answer is not
   * repeated: the effect becomes unknown.
   */
  idempotent?: boolean | null;
  /** Tries before an effect is dead; 20 when absent. */
  maxTries?: number | null;
  onDead?: OnDead | null;
  /**
   * Queues whose tasks are pushed to it: each task is leased for it and sent as the envelope that a poll would get. Without
   * `types` it is told of nothing.
   */
  queues?: Array<string> | null;
  /** Calls per second from one coordinator; no limit when absent. */
  ratePerSecond?: number | null;
  retry?: Retry | null;
  /**
   * What it is told of: words such as `run.succeeded`, `run.*`, `task.*`, `approval.opened`, `approval.*` or `*`. By default `run.*`; an empty
   * list for none. Effects that workers declare for it are sent whatever is listed here.
   */
  types?: Array<string> | null;
  /** Where effects are sent: https, or http in ranges that the operator allows. */
  url?: string | null;
}

/** `POST /v1/schedules/{schedule}/update`: what is absent stays as it is. */
export interface UpdateSchedule {
  catchUp?: CatchUp | null;
  catchUpWindowMs?: number | null;
  cron?: string | null;
  everyMs?: number | null;
  overlap?: Overlap | null;
  run?: SubmitRun | null;
  timeZone?: string | null;
}

export type Verdict = "COMMITTED" | "CANCELLED" | "REJECTED";

/** `/version`. */
export interface Version {
  /** The version of this interface: the first segment of its paths. */
  api: string;
  /** The version of the program. */
  version: string;
}

export interface VoteView {
  at: Time;
  comment?: string | null;
  decision: ApprovalDecision;
  /** The API key whose holder decided. */
  keyId: string;
}

/** What became of the runs of a wait. Every id of the call is in exactly one of the three lists, in the order of the call. */
export interface WaitAnswer {
  /** Runs that have ended, without `input` and `children`. They take at most 4 MiB, unless there is only one. */
  ended: Array<Run>;
  /** No such run, or none that this key may read. */
  notFound: Array<string>;
  /** Ask again for these. They have not ended, or they have ended and did not fit: then the next answer comes at once. */
  pending: Array<string>;
  serverTime: Time;
}

/** What a run waits for. What satisfied it is recorded as one checkpoint under its key. */
export interface WaitFor {
  for: Array<AwaitedItem>;
  key: string;
  /** How long to wait at most: then the run fails with WAIT_TIMEOUT. 30 days when absent. */
  maxMs?: number | null;
  /** Whether all items must be there, or any one of them. */
  mode: WaitMode;
}

/** `POST /v1/waits`: wait until at least one of these runs has ended. */
export interface WaitForRuns {
  /** A repeated id counts once. */
  runIds: Array<string>;
  /** How long to wait while none has ended; 0 when absent. */
  waitMs?: number | null;
}

export type WaitMode = "all" | "any";

/** What satisfied a wait. */
export interface WaitOutcome {
  /** The signals that its items took. */
  signals?: Array<TakenSignal>;
  /** The key of the item that came first, if one was enough. */
  winner?: string | null;
}

/** Why a run is `waiting`: exactly one of the members is there. */
export interface WaitingView {
  diverged?: Divergence | null;
  ending?: Ending | null;
  readyAt?: Time | null;
  wait?: OpenWait | null;
}

/** A page of work orders, by id. */
export interface WorkOrderList {
  /** The `cursor` of the next page; absent on the last one. */
  cursor?: string | null;
  workOrders: Array<WorkOrderView>;
}

export type WorkOrderState = "active" | "passed" | "failed";

/** A work order and, once it was judged, its run record. */
export interface WorkOrderView {
  /** What it is about, each as `TYPE/ID`. */
  artifacts: Array<string>;
  createdAt: Time;
  /** The event that made it. */
  event: string;
  id: string;
  kind: string;
  queue: string;
  record?: RunRecordView | null;
  runId: string;
  state: WorkOrderState;
  template: string;
  track?: string | null;
  /** The version of the topology that made it. */
  version: string;
}

/** The leases that a worker holds on tasks of one queue. */
export interface WorkerLeases {
  count: number;
  latestHeartbeatAt: Time;
  /** When the first of them expires, unless a heartbeat comes before. */
  nextExpiresAt: Time;
  oldestAcquiredAt: Time;
  queue: string;
}

/** Waiting polls of a worker that ask for the same. */
export interface WorkerPolls {
  /** How many polls wait. */
  count: number;
  /** Absent: every kind. */
  kinds?: Array<string> | null;
  /** How many tasks they would take together. */
  max: number;
  queues: Array<string>;
}

export interface WorkerView {
  /** What it works on. */
  leases: Array<WorkerLeases>;
  /** What it waits for. */
  polls: Array<WorkerPolls>;
  workerId: string;
}

/**
 * A page of workers, by name. Leases are those of the store, whichever coordinator granted them; polls are those that
 * wait at the coordinator that answers.
 */
export interface Workers {
  /** How many coordinators share the store, as far as is known. With more than one, each knows only its own polls. */
  coordinators: number;
  /** The `after` of the next page; absent on the last one. */
  nextAfter?: string | null;
  serverTime: Time;
  workers: Array<WorkerView>;
}
