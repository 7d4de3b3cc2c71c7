/** What the code of a task is given: what it works on, whether to stop, and how to say how far it has come. */
import type { Client } from "./client.js";
import type { Log } from "./log.js";
import type { Amounts } from "./options.js";
import type { BudgetLeft } from "./wire.js";

/** Why code should stop. */
export type StopReason =
  /** The run was cancelled: clean up and return; the end is reported. */
  | "CancelRequested"
  /** The attempt took longer than its `attemptTimeout`. */
  | "TimedOut"
  /** The worker shuts down. A result is still reported; an error hands the task back. */
  | "ShuttingDown"
  /** The lease is lost: write nothing more; the result is discarded. */
  | "LeaseLost";

export interface Ctx {
  readonly runId: string;
  readonly taskId: string;
  readonly attempt: number;
  /** Larger in every attempt: pass it to a store that can refuse writes of an older one. */
  readonly fence: number;
  readonly kind: string;
  readonly queue: string;
  /** The key of the plan's step that this is, if the run has a plan. */
  readonly stage: string | undefined;
  readonly deadline: Date | undefined;
  readonly labels: Readonly<Record<string, string>>;
  /** The W3C trace context of this attempt, if the run has one. */
  readonly traceparent: string | undefined;
  readonly client: Client;
  readonly log: Log;
  /** What `onStart` of the worker returned. */
  readonly state: unknown;
  /** Whether to stop. It reads shared memory and the clock, so a busy loop may ask it. */
  readonly cancelled: boolean;
  /** Aborts when the code is told to stop; its `reason` is an error that names the {@link StopReason}. */
  readonly signal: AbortSignal;
  readonly stopReason: StopReason | undefined;
  /** Says how far the code has come, in percent. Sent at most every three seconds. */
  progress(pct: number, message?: string): void;
  /** Adds to what this attempt used of the run's budget. */
  spend(amounts: Amounts): void;
  /** What is left of the run's budget, as the coordinator said last. */
  left(): BudgetLeft | undefined;
}
