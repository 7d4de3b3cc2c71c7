/**
 * Everything that has a name on a coordinator, beside runs: the same verbs for all of it (`list get create update
 * delete pause resume`). Lists are async iterators that read pages as they are needed.
 */
import type { Calls } from "./calls.js";
import { type Codec, sealed } from "./codec.js";
import { type Budget, budgetOf, defined, type RunOptions } from "./options.js";
import { orSetup, sendable } from "./payload.js";
import { pathOf, Resource } from "./routes.js";
import { optionalMilliseconds, type Span } from "./span.js";
import { type Arguments, submissionOf, type Task } from "./task.js";
import type * as wire from "./wire.js";

/** When a schedule fires: by cron or by a span, and what happens if the run before it has not ended. */
export interface When {
  cron?: string;
  every?: Span;
  timeZone?: string;
  overlap?: wire.Overlap;
  catchUp?: wire.CatchUp;
  window?: Span;
  paused?: boolean;
}

function whenOf(when: When) {
  const { every, window, ...rest } = when;
  return defined({
    ...rest,
    everyMs: optionalMilliseconds(every),
    catchUpWindowMs: optionalMilliseconds(window),
  });
}

export class Schedules extends Resource {
  constructor(
    calls: Calls,
    private readonly codec?: Codec,
  ) {
    super(calls, "/v1/schedules");
  }

  create<I, O>(name: string, when: When, task: Task<I, O>, ...args: Arguments<I>): Promise<wire.ScheduleView>;
  create(
    name: string,
    when: When,
    kind: string,
    input?: unknown,
    options?: RunOptions,
  ): Promise<wire.ScheduleView>;
  async create(
    name: string,
    when: When,
    task: Task | string,
    input?: unknown,
    options?: RunOptions,
  ): Promise<wire.ScheduleView> {
    const what = `the input of schedule \`${name}\``;
    const sent = sendable(what, input);
    const run = submissionOf(
      task,
      orSetup(what, () => sealed(this.codec, sent)),
      options,
    );
    return this.send("", { name, ...whenOf(when), run });
  }

  list(options: { state?: wire.ScheduleState } = {}): AsyncGenerator<wire.ScheduleView> {
    return this.pages<wire.ScheduleList, wire.ScheduleView>("", options, (page) => page.schedules);
  }

  get(name: string): Promise<wire.ScheduleView> {
    return this.read(pathOf(name));
  }

  update(name: string, when: When): Promise<wire.ScheduleView> {
    return this.send(`${pathOf(name)}/update`, whenOf(when));
  }

  delete(name: string): Promise<wire.ScheduleView> {
    return this.send(`${pathOf(name)}/delete`, {});
  }

  pause(name: string): Promise<wire.ScheduleView> {
    return this.send(`${pathOf(name)}/pause`, {});
  }

  resume(name: string): Promise<wire.ScheduleView> {
    return this.send(`${pathOf(name)}/resume`, {});
  }

  trigger(name: string): Promise<wire.ScheduleTriggered> {
    return this.send(`${pathOf(name)}/trigger`, {});
  }

  preview(name: string, count = 10): Promise<wire.SchedulePreview> {
    return this.read(`${pathOf(name)}/preview`, { count });
  }

  history(name: string, options: { before?: number; limit?: number } = {}): Promise<wire.ScheduleHistory> {
    return this.read(`${pathOf(name)}/history`, options);
  }

  backfill(name: string, from: Date, to: Date): Promise<wire.ScheduleView> {
    return this.send(`${pathOf(name)}/backfill`, { from: from.toISOString(), to: to.toISOString() });
  }
}

export interface EndpointOptions {
  /** Runs of these queues are pushed to it. */
  queues?: string[];
  /** What it hears of; the ends of runs when absent. */
  types?: string[];
  concurrency?: number;
  ratePerSecond?: number;
  idempotent?: boolean;
  maxTries?: number;
  onDead?: wire.OnDead;
  retry?: { base?: Span; cap?: Span };
}

function endpointOf(options: EndpointOptions) {
  const { retry, ...rest } = options;
  const pauses = retry && {
    baseMs: optionalMilliseconds(retry.base),
    capMs: optionalMilliseconds(retry.cap),
  };
  return defined({ ...rest, retry: pauses && defined(pauses) });
}

export class Endpoints extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/endpoints");
  }

  /** Registers a receiver. The answer is the only one that has its secret. */
  create(name: string, url: string, options: EndpointOptions = {}): Promise<wire.EndpointSecret> {
    return this.send("", { name, url, ...endpointOf(options) });
  }

  async list(): Promise<wire.EndpointView[]> {
    return (await this.read<wire.EndpointList>()).endpoints;
  }

  get(name: string): Promise<wire.EndpointView> {
    return this.read(pathOf(name));
  }

  update(
    name: string,
    options: EndpointOptions & { url?: string; enabled?: boolean },
  ): Promise<wire.EndpointView> {
    return this.send(pathOf(name), endpointOf(options));
  }

  delete(name: string): Promise<wire.EndpointView> {
    return this.send(`${pathOf(name)}/delete`);
  }

  pause(name: string): Promise<wire.EndpointView> {
    return this.update(name, { enabled: false });
  }

  resume(name: string): Promise<wire.EndpointView> {
    return this.update(name, { enabled: true });
  }

  /** Makes a new secret; both sign for `overlap`. */
  rotate(name: string, options: { overlap?: Span } = {}): Promise<wire.EndpointSecret> {
    return this.send(`${pathOf(name)}/rotate`, defined({ overlapMs: optionalMilliseconds(options.overlap) }));
  }
}

export class Effects extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/effects");
  }

  list(
    options: { runId?: string; endpoint?: string; state?: wire.EffectState } = {},
  ): AsyncGenerator<wire.EffectView> {
    return this.pages<wire.EffectList, wire.EffectView>("", options, (page) => page.effects);
  }

  get(id: string): Promise<wire.EffectView> {
    return this.read(pathOf(id));
  }

  redrive(id: string): Promise<wire.EffectView> {
    return this.send(`${pathOf(id)}/redrive`);
  }

  redriveAll(options: { endpoint?: string; runId?: string; since?: Date } = {}): Promise<wire.Redriven> {
    return this.send("/redrive", defined({ ...options, since: options.since?.toISOString() }));
  }

  release(id: string): Promise<wire.EffectView> {
    return this.send(`${pathOf(id)}/release`);
  }

  reconcile(id: string, options: { arrived: boolean }): Promise<wire.EffectView> {
    return this.send(`${pathOf(id)}/reconcile`, options);
  }
}

export class Approvals extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/approvals");
  }

  list(options: { state?: wire.ApprovalState } = {}): AsyncGenerator<wire.ApprovalView> {
    return this.pages<wire.ApprovalList, wire.ApprovalView>("", options, (page) => page.approvals);
  }

  get(id: string): Promise<wire.ApprovalView> {
    return this.read(pathOf(id));
  }

  /** Votes. `digest` is that of what the person looked at, where the approval has one. */
  decide(
    id: string,
    decision: wire.ApprovalDecision,
    options: { digest?: string; comment?: string } = {},
  ): Promise<wire.ApprovalDecided> {
    return this.send(`${pathOf(id)}/decide`, { decision, ...defined(options) });
  }
}

export class Recovery extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/recovery");
  }

  list(options: { state?: wire.CandidateState } = {}): AsyncGenerator<wire.CandidateView> {
    return this.pages<wire.CandidateList, wire.CandidateView>(
      "/candidates",
      options,
      (page) => page.candidates,
    );
  }

  get(id: string): Promise<wire.CandidateView> {
    return this.read(`/candidates${pathOf(id)}`);
  }

  decide(
    id: string,
    action: wire.RecoveryAction,
    options: { comment?: string } = {},
  ): Promise<wire.CandidateView> {
    return this.send(`/candidates${pathOf(id)}/decide`, { action, ...defined(options) });
  }

  history(id: string, options: { before?: number; limit?: number } = {}): Promise<wire.CandidateHistory> {
    return this.read(`/candidates${pathOf(id)}/history`, options);
  }

  async policies(): Promise<wire.RecoveryPolicyView[]> {
    return (await this.read<wire.RecoveryPolicyList>("/policies")).policies;
  }

  setPolicy(name: string, policy: wire.SetRecoveryPolicy): Promise<wire.RecoveryPolicyView> {
    return this.send(`/policies${pathOf(name)}`, policy);
  }

  deletePolicy(name: string): Promise<wire.RecoveryPolicyView> {
    return this.send(`/policies${pathOf(name)}/delete`, {});
  }
}

export class Budgets extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/budgets");
  }

  async list(): Promise<wire.ScopeBudget[]> {
    return (await this.read<wire.ScopeBudgets>()).budgets;
  }

  /** Sets the budget of a tenant or workspace. */
  set(
    budget: Pick<Budget, "tokens" | "costMicros" | "toolCalls" | "steps" | "soft"> & {
      period?: wire.BudgetPeriod;
      tenantId?: string;
      workspaceId?: string;
    },
  ): Promise<wire.ScopeBudget> {
    return this.send("", budgetOf(budget));
  }
}

export class Keys extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/keys");
  }

  async list(): Promise<wire.Key[]> {
    const keys: wire.Key[] = [];
    let after: string | null | undefined;
    do {
      const page: wire.Keys = await this.read("", { after });
      keys.push(...page.keys);
      after = page.nextAfter;
    } while (after);
    return keys;
  }

  /** Makes a key. The answer is the only one that has its secret. */
  create(options: wire.CreateKey): Promise<wire.NewKey> {
    return this.send("", options);
  }

  /**
   * Signs task tokens with a new key from now on. Older tokens are valid until they expire, except in an emergency. It is
   * tried once: each call makes a key.
   */
  rotateSigning(options: { emergency?: boolean } = {}): Promise<wire.SigningRotated> {
    return this.sendTo("/v1/signing-keys/rotate", defined(options), { retries: 0 });
  }

  rotate(id: string, options: { overlap?: Span } = {}): Promise<wire.NewKey> {
    return this.send(`${pathOf(id)}/rotate`, defined({ overlapMs: optionalMilliseconds(options.overlap) }));
  }

  /** Revokes it for ever. */
  delete(id: string): Promise<wire.Key> {
    return this.send(`${pathOf(id)}/revoke`);
  }
}

export class Queues extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/queues");
  }

  async list(): Promise<wire.QueueView[]> {
    return (await this.read<wire.Queues>()).queues;
  }

  pause(queue: string, options: Partial<wire.PauseQueue> = {}): Promise<wire.QueueStatus> {
    return this.send(`${pathOf(queue)}/pause`, options);
  }

  resume(queue: string, options: wire.ResumeQueue = {}): Promise<wire.QueueStatus> {
    return this.send(`${pathOf(queue)}/resume`, options);
  }
}

export class Workers extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/workers");
  }

  async *list(): AsyncGenerator<wire.WorkerView> {
    let after: string | null | undefined;
    do {
      const page: wire.Workers = await this.read("", { after });
      yield* page.workers;
      after = page.nextAfter;
    } while (after);
  }
}

/** What workers announced that they can do, as far as the coordinator that answers has heard. */
export class Kinds extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/kinds");
  }

  /** Every kind that a worker serves now, or the versions of one kind with their schemas. */
  async *list(options: { kind?: string } = {}): AsyncGenerator<wire.KindView> {
    let after: string | null | undefined;
    do {
      const page: wire.Kinds = await this.read("", { ...options, after });
      yield* page.kinds;
      after = page.nextAfter;
    } while (after);
  }
}

/** Tasks and messages that the answering server cannot continue, and why. */
export class SetAside extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/set-aside");
  }

  get(): Promise<wire.SetAside> {
    return this.read();
  }
}

export class Limits extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/limits");
  }

  list(): Promise<wire.Limits> {
    return this.read();
  }

  set(limits: wire.SetLimits): Promise<wire.TenantLimits> {
    return this.send("", limits);
  }
}

export class FlowKeys extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/flow-keys");
  }

  async *list(): AsyncGenerator<wire.FlowKeyView> {
    let after: string | null | undefined;
    do {
      const page: wire.FlowKeys = await this.read("", { after });
      yield* page.flowKeys;
      after = page.nextAfter;
    } while (after);
  }
}

export class Audit extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/audit");
  }

  async *list(): AsyncGenerator<wire.AuditEntry> {
    let before: number | null | undefined;
    do {
      const page: wire.AuditLog = await this.read("", { before });
      yield* page.entries;
      before = page.nextBefore;
    } while (before);
  }

  verify(): Promise<wire.AuditVerified> {
    return this.read("/verify");
  }
}
