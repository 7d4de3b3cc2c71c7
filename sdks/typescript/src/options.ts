/**
 * The options of a run, and how the wire names them. They mean the same in a task's definition, in `submit`, in
 * `call` and in a schedule; the later word counts.
 */
import { optionalMilliseconds, type Span } from "./span.js";
import type { SubmitRun, Budget as WireBudget, Flow as WireFlow } from "./wire.js";

export interface Amounts {
  tokens?: number;
  /** Millionths of a unit of money. */
  costMicros?: number;
  toolCalls?: number;
}

const NOTHING: Required<Amounts> = { tokens: 0, costMicros: 0, toolCalls: 0 };

/** What was used in all. An amount that is undefined adds nothing; one that cannot be counted is a defect of the code. */
export function added(spent: Amounts = NOTHING, more: Amounts): Required<Amounts> {
  const sum = { ...NOTHING, ...spent };
  for (const [name, amount] of Object.entries(more) as Array<[keyof Amounts, number | undefined]>) {
    if (!(name in NOTHING))
      throw new TypeError(`\`${name}\` cannot be spent; use ${Object.keys(NOTHING).join(", ")}`);
    if (amount === undefined) continue;
    if (!Number.isSafeInteger(amount) || amount < 0)
      throw new RangeError(`what is spent is a whole number from 0 on, not \`${name}: ${String(amount)}\``);
    sum[name] += amount;
  }
  return sum;
}

/** Progress is in percent. */
export function checkedPct(pct: number): number {
  if (!(pct >= 0 && pct <= 100)) throw new RangeError(`progress is in percent, from 0 to 100, not ${pct}`);
  return pct;
}

export interface Budget extends Amounts {
  steps?: number;
  /** Time since the run was accepted. */
  wall?: Span;
  /** Time under a lease. */
  active?: Span;
  soft?: Amounts & { steps?: number };
  onSoft?: "note" | "ask";
  /** What each lease sets aside before it starts. */
  reserve?: Amounts;
}

/** Limits across runs that share a key. */
export interface FlowKey {
  key: string;
  limit?: number;
  rate?: { count: number; per: Span };
  debounce?: Span;
  debounceMax?: Span;
  /** `life`: the slot is held from the first lease to the end of the run. */
  hold?: "lease" | "life";
}

/** What is settled where a task is defined, and may be changed with each submission. */
export interface TaskOptions {
  queue?: string;
  ttl?: Span;
  priority?: number;
  labels?: Record<string, string>;
  maxAttempts?: number;
  maxLostAttempts?: number;
  /** The pause after a failure: from `base`, doubling, up to `cap`. */
  retry?: { base?: Span; cap?: Span };
  lease?: Span;
  heartbeatInterval?: Span;
  cancelGrace?: Span;
  attemptTimeout?: Span;
  /** A span from the acceptance of the run, or an instant. */
  deadline?: Span | Date;
  budget?: Budget;
  flowKey?: FlowKey;
  stall?: { after: Span; action?: "warn" | "cancel" | "requeue" };
  goal?: string;
  asset?: string;
}

export interface RunOptions extends TaskOptions {
  idempotencyKey?: string;
  delay?: Span;
  runAt?: Date;
  /** The source of a durable function's random numbers. */
  seed?: number;
  traceparent?: string;
}

/** The submission, without members that nothing was said about. */
export function submission(kind: string, input: unknown, options: RunOptions): SubmitRun {
  const { deadline } = options;
  const run: SubmitRun = {
    kind,
    queue: options.queue ?? "",
    input,
    ttlMs: optionalMilliseconds(options.ttl),
    priority: options.priority,
    labels: options.labels,
    maxAttempts: options.maxAttempts,
    lostMax: options.maxLostAttempts,
    retry: options.retry && {
      baseMs: optionalMilliseconds(options.retry.base),
      capMs: optionalMilliseconds(options.retry.cap),
    },
    leaseMs: optionalMilliseconds(options.lease),
    heartbeatIntervalMs: optionalMilliseconds(options.heartbeatInterval),
    cancelGraceMs: optionalMilliseconds(options.cancelGrace),
    resources: options.attemptTimeout && { timeoutMs: optionalMilliseconds(options.attemptTimeout) },
    deadline: deadline instanceof Date ? deadline.toISOString() : undefined,
    deadlineMs: deadline instanceof Date ? undefined : optionalMilliseconds(deadline),
    budget: options.budget && budgetOf(options.budget),
    flow: options.flowKey && flowOf(options.flowKey),
    stall: options.stall && {
      afterMs: optionalMilliseconds(options.stall.after) ?? 0,
      action: options.stall.action,
    },
    goal: options.goal,
    assetId: options.asset,
    idempotencyKey: options.idempotencyKey,
    delayMs: optionalMilliseconds(options.delay),
    runAt: options.runAt?.toISOString(),
    seed: options.seed,
    traceparent: options.traceparent,
  };
  return defined(run);
}

/** Without its undefined members. */
export function defined<T extends object>(value: T): T {
  const kept: Partial<T> = {};
  for (const name in value) if (value[name] !== undefined) kept[name] = value[name];
  return kept as T;
}

export function budgetOf(budget: Budget): WireBudget {
  const { wall, active, ...rest } = budget;
  return defined({ ...rest, wallMs: optionalMilliseconds(wall), activeMs: optionalMilliseconds(active) });
}

function flowOf(flow: FlowKey): WireFlow {
  const { rate, debounce, debounceMax, ...rest } = flow;
  return defined({
    ...rest,
    rate: rate && { count: rate.count, perMs: optionalMilliseconds(rate.per) ?? 0 },
    debounceMs: optionalMilliseconds(debounce),
    debounceMaxMs: optionalMilliseconds(debounceMax),
  });
}
