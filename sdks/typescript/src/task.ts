/**
 * Tasks and durable functions as values: a kind, its options and, where the code is at hand, the function.
 *
 * The type of a task carries the types of its input and output, so `submit` and `call` are checked against it. A task
 * does nothing by itself: a `Worker` runs it, a `Client` submits it, a flow calls it.
 */

import {
  anything,
  checkOptions,
  flag,
  oneOf,
  type Shape,
  shown,
  span,
  text,
  texts,
  whole,
} from "./checks.js";
import { type Codec, opened } from "./codec.js";
import type { Ctx } from "./context.js";
import { Setup } from "./errors.js";
import { Failure } from "./failure.js";
import type { Flow } from "./flow.js";
import { plain, Unreadable } from "./json.js";
import {
  DURABLE_DEFINITION,
  RUN_HINTS,
  RUN_OPTIONS,
  TASK_DEFINITION,
  TASK_HINTS,
  TASK_OPTIONS,
} from "./option-checks.js";
import { type RunOptions, submission, type TaskOptions } from "./options.js";
import { SchemaRefused, type StandardSchemaV1, validate } from "./schema.js";
import { optionalMilliseconds, type Span } from "./span.js";
import type {
  ApprovalTerms,
  Builds,
  Ceiling,
  SubmitRun,
  Plan as WirePlan,
  PlanStep as WirePlanStep,
} from "./wire.js";

declare const types: unique symbol;

/** A kind of work with input `I` and output `O`. */
export interface Task<I = any, O = any> {
  readonly kind: string;
  readonly options: TaskOptions;
  /** Absent for a kind without code. */
  readonly code?: Code | undefined;
  /** Only for the type checker. */
  readonly [types]?: { input: (input: I) => void; output: O };
}

export type Code = TaskCode | DurableCode;

export interface TaskCode {
  readonly type: "task";
  readonly isolate: boolean;
  readonly schema: StandardSchemaV1<unknown, unknown> | undefined;
  readonly run: (input: any, ctx: Ctx) => unknown;
}

export interface DurableCode {
  readonly type: "durable";
  /** Which builds may continue a run; `undefined` if it does not remember its build. */
  readonly builds: Builds | undefined;
  readonly schema: StandardSchemaV1<unknown, unknown> | undefined;
  readonly run: (flow: Flow, input: any) => Promise<unknown>;
}

/** The arguments after the task: the input, unless there is none, and the options. */
export type Arguments<I> = unknown extends I
  ? [input?: I, options?: RunOptions]
  : void extends I
    ? [input?: undefined, options?: RunOptions]
    : [input: I, options?: RunOptions];

/** Defines a task: a function that runs at least once and is recorded once. */
export function task<I = void, O = unknown, W = I>(
  kind: string,
  options: TaskOptions & { input?: StandardSchemaV1<W, I>; isolate?: boolean },
  fn: (input: I, ctx: Ctx) => O,
): Task<W, Awaited<O>> {
  checkDefinition("task", kind, options, fn, TASK_DEFINITION);
  const { input: schema, isolate = false, ...rest } = options;
  return define(kind, rest, { type: "task", isolate, schema, run: fn as TaskCode["run"] });
}

/**
 * Defines a durable function: each step's result is recorded before the next one starts.
 *
 * With `builds: "pin"`, a run that has recorded something is continued only by workers of the build that recorded it, which
 * `TENURE_BUILD_ID` names; with `builds: "any"`, by every worker, and the run remembers the last build.
 */
export function durable<I = void, O = unknown, W = I>(
  kind: string,
  options: TaskOptions & { input?: StandardSchemaV1<W, I>; builds?: Builds },
  fn: (flow: Flow, input: I) => Promise<O>,
): Task<W, Awaited<O>> {
  checkDefinition("durable", kind, options, fn, DURABLE_DEFINITION);
  const { input: schema, builds, ...rest } = options;
  return define(kind, rest, { type: "durable", builds, schema, run: fn as DurableCode["run"] });
}

/** Names a kind whose code is elsewhere, maybe in another language. */
export function kind<I = unknown, O = unknown>(name: string, options: TaskOptions = {}): Task<I, O> {
  checkOptions(`kind \`${String(name)}\``, options, TASK_OPTIONS, TASK_HINTS);
  return define(name, options, undefined);
}

/** What is wrong with a definition is told where it stands, and not where a worker runs it. */
function checkDefinition(as: string, kind: unknown, options: unknown, fn: unknown, shape: Shape<any>): void {
  const example = `${as}("greet", { queue: "mail" }, async (${as === "task" ? "input, ctx" : "flow, input"}) => …)`;
  if (typeof kind !== "string") throw new Setup(`the kind is ${shown(kind)}`, `write ${example}`);
  if (typeof options === "function") throw new Setup(`${as} \`${kind}\` has no options`, `write ${example}`);
  checkOptions(`${as} \`${kind}\``, options, shape, TASK_HINTS);
  if (fn === undefined) {
    throw new Setup(
      `${as} \`${kind}\` has no function`,
      `write ${example}, or \`kind("${kind}")\` if its code is elsewhere`,
    );
  }
  if (typeof fn !== "function")
    throw new Setup(`the code of ${as} \`${kind}\` is ${shown(fn)}`, `write ${example}`);
  if (/Generator/.test(fn.constructor.name))
    throw new Setup(`the code of ${as} \`${kind}\` is a generator`, "pass a function or an async function");
}

const KIND = /^[A-Za-z0-9._:/-]{1,128}$/;

function define<I, O>(kind: string, options: TaskOptions, code: Code | undefined): Task<I, O> {
  if (typeof kind !== "string" || !KIND.test(kind))
    throw new Setup(`\`${String(kind)}\` is no kind`, "use letters, digits and . _ : / - (up to 128)");
  return Object.freeze({ kind, options, code });
}

/** The queue that a worker polls for a task; that of its definition, or `default`. */
export const DEFAULT_QUEUE = "default";

export function queueOf(task: Task): string {
  return task.options.queue ?? DEFAULT_QUEUE;
}

export function isTask(value: unknown): value is Task {
  const task = value as Partial<Task> | null;
  return (
    typeof task === "object" &&
    task !== null &&
    typeof task.kind === "string" &&
    typeof task.options === "object"
  );
}

/** A task that is none, in a program without a type checker or with modules that import each other. */
export function checkTask(task: unknown): asserts task is Task | string {
  if (typeof task === "string" || isTask(task)) return;
  const nextStep =
    task === undefined
      ? "pass what `task()`, `durable()` or `kind()` returned; a module that is imported in a circle has not made it yet"
      : "pass what `task()`, `durable()` or `kind()` returned, or the name of a kind";
  throw new Setup(`${shown(task)} is no task`, nextStep);
}

/** The submission of a task, or of a kind by its name. */
export function submissionOf(task: Task | string, input: unknown, options: RunOptions = {}): SubmitRun {
  checkTask(task);
  checkOptions(
    `a run of \`${typeof task === "string" ? task : task.kind}\``,
    options,
    RUN_OPTIONS,
    RUN_HINTS,
  );
  if (typeof task === "string") return submission(task, input, { queue: DEFAULT_QUEUE, ...options });
  return submission(task.kind, input, { queue: queueOf(task), ...task.options, ...options });
}

/** What user code gets as its input. A wrong one is DATA_QUALITY, which is not retried. */
export async function readInput(code: Code, input: unknown): Promise<unknown> {
  if (code.schema === undefined) return input;
  try {
    return await validate(code.schema, input);
  } catch (error) {
    if (error instanceof SchemaRefused)
      throw Failure.data(`the input is refused at ${error.path}: ${error.why}`);
    throw error;
  }
}

/** The plain input. One that JavaScript cannot hold is bad data; one that another codec wrote needs another worker. */
export function openedInput(codec: Codec | undefined, input: unknown): unknown {
  try {
    return plain(opened(codec, input ?? null));
  } catch (error) {
    if (error instanceof Unreadable)
      throw Failure.data(`the input cannot be read at ${error.path}: ${error.why}`);
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure("CONFIGURATION", `the input cannot be decoded: ${why}`, { retryable: true });
  }
}

/** A run for `submitMany` and schedules. */
export interface NewRun<O = unknown> {
  readonly run: SubmitRun;
  readonly [types]?: { input: (input: never) => void; output: O };
}

export function newRun<I, O>(task: Task<I, O>, ...args: Arguments<I>): NewRun<O>;
export function newRun(kind: string, input?: unknown, options?: RunOptions): NewRun;
export function newRun(task: Task | string, input?: unknown, options?: RunOptions): NewRun {
  return { run: submissionOf(task, input, options) };
}

/** What a run does, step by step, without code. */
export interface Plan {
  readonly plan: WirePlan;
}

export interface PlanStepOptions {
  dependsOn?: string[];
  queue?: string;
  always?: boolean;
  gate?: boolean;
  onError?: "abort" | "continue" | "retry";
  maxAttempts?: number;
  maxLostAttempts?: number;
  retry?: { base?: Span; cap?: Span };
  lease?: Span;
  heartbeatInterval?: Span;
  cancelGrace?: Span;
  deadline?: Span;
  ceiling?: Ceiling;
  /** The step runs only if this holds: `{ path: "check.output.total", op: "at-least", value: 1000 }`. */
  when?: unknown;
}

const PLAN_STEP_OPTIONS: Shape<PlanStepOptions> = {
  dependsOn: texts,
  queue: text,
  always: flag,
  gate: flag,
  onError: oneOf("abort", "continue", "retry"),
  maxAttempts: whole,
  maxLostAttempts: whole,
  retry: TASK_OPTIONS.retry,
  lease: span,
  heartbeatInterval: span,
  cancelGrace: span,
  deadline: span,
  ceiling: anything,
  when: anything,
};

export function plan(steps: readonly WirePlanStep[]): Plan {
  return { plan: { steps: [...steps] } };
}

/** A step that asks people. Its `content` is what they approve, and may refer to earlier steps: `{ $from: "check" }`. */
export function planApproval(
  key: string,
  approval: ApprovalTerms,
  options: Pick<PlanStepOptions, "dependsOn" | "always" | "onError" | "deadline" | "when"> = {},
): WirePlanStep {
  const { deadline, ...rest } = options;
  const step = { key, approval, ...rest, deadlineMs: optionalMilliseconds(deadline) };
  return Object.fromEntries(
    Object.entries(step).filter(([, member]) => member !== undefined),
  ) as unknown as WirePlanStep;
}

/** One step of a plan. The input may refer to earlier steps: `{ $from: "read", path: "/text" }`. */
export function planStep(
  key: string,
  task: Task | string,
  input?: unknown,
  options: PlanStepOptions = {},
): WirePlanStep {
  checkTask(task);
  checkOptions(`step \`${key}\` of the plan`, options, PLAN_STEP_OPTIONS, RUN_HINTS);
  const { queue, deadline, maxLostAttempts, cancelGrace, lease, heartbeatInterval, retry, ...rest } = options;
  const step: WirePlanStep = {
    key,
    kind: typeof task === "string" ? task : task.kind,
    queue: queue ?? (typeof task === "string" ? DEFAULT_QUEUE : queueOf(task)),
    input: input as never,
    ...rest,
    lostMax: maxLostAttempts,
    leaseMs: optionalMilliseconds(lease),
    heartbeatIntervalMs: optionalMilliseconds(heartbeatInterval),
    cancelGraceMs: optionalMilliseconds(cancelGrace),
    deadlineMs: optionalMilliseconds(deadline),
    retry: retry && { baseMs: optionalMilliseconds(retry.base), capMs: optionalMilliseconds(retry.cap) },
  };
  return Object.fromEntries(
    Object.entries(step).filter(([, member]) => member !== undefined),
  ) as unknown as WirePlanStep;
}
