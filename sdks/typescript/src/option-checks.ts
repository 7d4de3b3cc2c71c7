/** The shapes of what tasks and runs may be told, for programs without a type checker. */
import {
  atLeastOne,
  type Check,
  date,
  flag,
  type Hints,
  labels,
  members,
  oneOf,
  type Shape,
  schema,
  span,
  spanOrDate,
  text,
  whole,
} from "./checks.js";
import type { Amounts, Budget, FlowKey, RunOptions, TaskOptions } from "./options.js";
import type { Span } from "./span.js";

const pauses: Check = members<{ base?: Span; cap?: Span }>(
  { base: span, cap: span },
  "{ base: { seconds: 1 }, cap: { minutes: 5 } }, and the number of attempts as `maxAttempts`",
);

const AMOUNTS: Shape<Amounts> = { tokens: whole, costMicros: whole, toolCalls: whole };
const BUDGET: Shape<Budget> = {
  ...AMOUNTS,
  steps: whole,
  wall: span,
  active: span,
  soft: members<NonNullable<Budget["soft"]>>({ ...AMOUNTS, steps: whole }, "{ tokens: 40_000 }"),
  onSoft: oneOf("note", "ask"),
  reserve: members<Amounts>(AMOUNTS, "{ tokens: 1_000 }"),
};
export const budget: Check = members<Budget>(BUDGET, "{ tokens: 50_000 }");

const FLOW_KEY: Shape<FlowKey> = {
  key: text,
  limit: whole,
  rate: members<NonNullable<FlowKey["rate"]>>(
    { count: whole, per: span },
    "{ count: 10, per: { seconds: 1 } }",
  ),
  debounce: span,
  debounceMax: span,
  hold: oneOf("lease", "life"),
};

export const TASK_OPTIONS: Shape<TaskOptions> = {
  queue: text,
  ttl: span,
  priority: whole,
  labels,
  maxAttempts: whole,
  maxLostAttempts: whole,
  retry: pauses,
  lease: span,
  heartbeatInterval: span,
  cancelGrace: span,
  attemptTimeout: span,
  deadline: spanOrDate,
  budget,
  flowKey: members<FlowKey>(FLOW_KEY, '{ key: "customer-7", limit: 3 }'),
  stall: members<NonNullable<TaskOptions["stall"]>>(
    { after: span, action: oneOf("warn", "cancel", "requeue") },
    "{ after: { minutes: 5 } }",
  ),
  goal: text,
  asset: text,
};

export const RUN_OPTIONS: Shape<RunOptions> = {
  ...TASK_OPTIONS,
  idempotencyKey: text,
  delay: span,
  runAt: date,
  seed: whole,
  traceparent: text,
};

/** Of a definition. */
export const TASK_DEFINITION = { ...TASK_OPTIONS, input: schema, isolate: flag };
export const DURABLE_DEFINITION = { ...TASK_OPTIONS, input: schema, builds: oneOf("any", "pin") };

/** The options of `flow.map`, which are those of each run and how many may run at once. */
export const MAP_OPTIONS = { ...RUN_OPTIONS, max: atLeastOne };

const ATTEMPTS = "pass `maxAttempts`, and `retry: { base, cap }` for the pauses between them";
const OF_A_RUN =
  "pass it to `submit` or `call`: it belongs to one run, and not to the definition of its task";

/** Words of other systems, and options at another place. */
export const RUN_HINTS: Hints = {
  attempts: ATTEMPTS,
  retries: ATTEMPTS,
  backoff: ATTEMPTS,
  maxRetries: ATTEMPTS,
  timeout: "pass `attemptTimeout` for one attempt, or `deadline` for the run",
  jobId: "pass `idempotencyKey`",
  id: "pass `idempotencyKey`",
  key: "pass `idempotencyKey`, or `flowKey: { key }` for limits across runs",
  concurrency: "pass `flowKey: { key, limit }` for limits across runs, or `concurrency` of the worker",
  input: "pass the input itself, before the options",
};

export const TASK_HINTS: Hints = {
  ...RUN_HINTS,
  idempotencyKey: OF_A_RUN,
  delay: OF_A_RUN,
  runAt: OF_A_RUN,
  seed: OF_A_RUN,
  traceparent: OF_A_RUN,
  schema: "pass it as `input`",
  isolate: "durable functions run in the worker: let one call a task with `isolate: true`",
  builds: "only durable functions remember a build: define it with `durable`",
  kind: "pass the kind as the first argument",
  name: "pass the kind as the first argument",
};
