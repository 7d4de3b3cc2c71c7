/**
 * Tests without a server: a task runs inline, a durable function runs in memory. A day passes at once, signals, people
 * and children are values, and the worker dies where the test says so.
 *
 * Every attempt starts from what the coordinator in memory has recorded, as with a real one, and nothing else is
 * carried over.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { Client } from "./client.js";
import type { Ctx, StopReason } from "./context.js";
import { runAsCurrent } from "./current.js";
import type { Checkpoint, Command, EngineReport } from "./engine/command.js";
import { Run } from "./engine/run.js";
import type { Stop } from "./engine/stop.js";
import { Failure, type FailureRecord } from "./failure.js";
import { Flow } from "./flow.js";
import { canonical, parse, plain, throughJson } from "./json.js";
import { type Log, SILENT } from "./log.js";
import type { Amounts, Budget } from "./options.js";
import { milliseconds, type Span } from "./span.js";
import { readInput, type Task } from "./task.js";
import { BEGINNING, type DeliveryOutcome, MemoryCoordinator } from "./testing/coordinator.js";
import type { ApprovalDecision, BudgetLeft, Checkpoint as WireCheckpoint } from "./wire.js";
import { checkpoints } from "./worker/translate.js";

export { Stop } from "./engine/stop.js";
export { Stuck } from "./testing/coordinator.js";

/** A run that crashes at every command has this many attempts at most; more is a loop. */
const ATTEMPTS_MAX = 100_000;

export interface InlineOptions {
  attempt?: number;
  labels?: Record<string, string>;
  state?: unknown;
  log?: Log;
  /** Aborts when the test wants the code to stop. */
  signal?: AbortSignal;
}

/** Runs the code of a task here and now, with its input and output as they would travel. What it throws is thrown. */
export async function runInline<I, O>(
  task: Task<I, O>,
  ...args: void extends I ? [input?: undefined, options?: InlineOptions] : [input: I, options?: InlineOptions]
): Promise<O> {
  const [given, options = {}] = args;
  const { code } = task;
  if (code?.type !== "task")
    throw new TypeError(`\`${task.kind}\` is no task with code; use FlowTest for durable functions`);
  const input = await readInput(code, plain(throughJson(given)));
  const ctx = inlineCtx(task, options);
  return plain(throughJson(await runAsCurrent(ctx, () => code.run(input, ctx)))) as O;
}

function inlineCtx(task: Task, options: InlineOptions): Ctx {
  const signal = options.signal ?? new AbortController().signal;
  let client: Client | undefined;
  return {
    runId: "run_00000000000000000000000000",
    taskId: "task_00000000000000000000000000",
    attempt: options.attempt ?? 1,
    fence: options.attempt ?? 1,
    kind: task.kind,
    queue: task.options.queue ?? "",
    stage: undefined,
    deadline: undefined,
    labels: options.labels ?? {},
    traceparent: undefined,
    get client() {
      client ??= new Client();
      return client;
    },
    log: options.log ?? SILENT,
    state: options.state,
    signal,
    get cancelled() {
      return signal.aborted;
    },
    get stopReason(): StopReason | undefined {
      return signal.aborted ? "CancelRequested" : undefined;
    },
    progress: () => {},
    spend: () => {},
    left: () => undefined,
  };
}

/** When the worker dies, counted in commands of the whole run. */
export type Crash = { before: number } | { after: number };

/** How a run in memory ended. */
export interface Ended<O> {
  /** What the function returned. Throws if it failed. */
  readonly output: O;
  readonly error: FailureRecord | undefined;
  readonly report: EngineReport;
  /** Everything that was recorded, in commit order. */
  readonly history: readonly Checkpoint[];
  /** The keys of the history. */
  readonly keys: readonly string[];
  /** How often the work of each step was started. */
  readonly executed: Readonly<Record<string, number>>;
  readonly attempts: number;
  readonly commands: number;
  /** What the steps spent in all. */
  readonly spent: Required<Amounts>;
}

/** A durable function in memory. It was accepted at the beginning of 2026. */
export class FlowTest<I = any, O = any> {
  readonly #task: Task<I, O>;
  readonly #coordinator: MemoryCoordinator;
  #crashes: Crash[] = [];
  #fence = 0;
  #commands = 0;
  #executed: Record<string, number> = {};
  #budget: Budget | undefined;
  #spent: Required<Amounts> = { tokens: 0, costMicros: 0, toolCalls: 0 };

  constructor(task: Task<I, O>, ...args: void extends I ? [input?: undefined] : [input: I]) {
    if (task.code?.type !== "durable")
      throw new TypeError(`\`${task.kind}\` is no durable function with code`);
    this.#task = task;
    this.#coordinator = new MemoryCoordinator(throughJson(args[0]));
    this.#budget = task.options.budget;
  }

  seed(seed: number | bigint): this {
    this.#coordinator.seed = String(seed);
    return this;
  }

  /** A signal, there from the beginning or after a time. */
  signal(name: string, value: unknown = null, options: { after?: Span } = {}): this {
    this.#coordinator.sendSignal(milliseconds(options.after ?? {}), name, throughJson(value));
    return this;
  }

  /** A person approves, as soon as the approval is open or after a time. `by` is the id of a key. */
  approve(name: string, by: string, options: { after?: Span; comment?: string } = {}): this {
    return this.decide(name, by, "APPROVED", options);
  }

  reject(name: string, by: string, options: { after?: Span; comment?: string } = {}): this {
    return this.decide(name, by, "REJECTED", options);
  }

  decide(
    name: string,
    by: string,
    decision: ApprovalDecision,
    options: { after?: Span; comment?: string } = {},
  ): this {
    const at = BEGINNING + milliseconds(options.after ?? {});
    this.#coordinator.people.say({ name, key: by, decision, at, comment: options.comment });
    return this;
  }

  /** What children of a kind return, and how long they take. */
  child<CI, CO>(
    task: Task<CI, CO> | string,
    code: (input: CI) => CO | Promise<CO>,
    options: { takes?: Span } = {},
  ): this {
    const kind = typeof task === "string" ? task : task.kind;
    const takesMs = milliseconds(options.takes ?? {});
    this.#coordinator.kinds.set(kind, { takesMs, code: code as (input: unknown) => unknown });
    return this;
  }

  /** What becomes of effects of this type. Others are delivered at once. */
  delivery(type: string, outcome: DeliveryOutcome, options: { takes?: Span } = {}): this {
    this.#coordinator.deliveries.set(type, { takesMs: milliseconds(options.takes ?? {}), outcome });
    return this;
  }

  /** Lets the worker die there. */
  crash(...crashes: Crash[]): this {
    this.#crashes.push(...crashes);
    return this;
  }

  /** Begins with what another run has recorded. */
  recorded(history: readonly Checkpoint[]): this {
    this.#coordinator.load(history);
    return this;
  }

  /** Runs to the end. Throws a `Stop` if the code cannot go on, and what the function threw if that is a bug. */
  async run(): Promise<Ended<O>> {
    for (let n = 0; n < ATTEMPTS_MAX; n++) {
      const report = await this.#attempt();
      if (report !== undefined) return this.#ended(report);
    }
    throw new Error(`the run had ${ATTEMPTS_MAX} attempts and goes on: it repeats itself`);
  }

  /** Replays a golden file that `tenure export` wrote. Throws where the code differs from the record. */
  async replay(file: string | URL): Promise<void> {
    await replayFile(this.#task, file);
  }

  async #attempt(): Promise<EngineReport | undefined> {
    this.#fence += 1;
    const run = await startRun(this.#task, this.#coordinator, this.#fence);
    run.left = this.#left();
    let changed = withChange(run);
    const timeouts: Array<{ key: string; number: number; ms: number }> = [];
    for (;;) {
      const turn = await run.next();
      if (turn === "idle") {
        // The work of a step waits for something outside; if it has a timeout, that is over.
        const shortest = timeouts.sort((a, b) => a.ms - b.ms).shift();
        if (shortest !== undefined) run.timeOut(shortest.key, shortest.number);
        else await changed;
        changed = withChange(run);
        continue;
      }
      if ("stop" in turn) throw turn.stop;
      if ("bug" in turn) throw turn.bug;
      if ("handBack" in turn) throw new Error(`the function handed its task back: ${turn.handBack}`);
      const number = this.#commands++;
      if (this.#dies({ before: number })) {
        run.close();
        return undefined;
      }
      const end = await this.#carry(turn.command, run, number, timeouts);
      if (end !== "goes on") return end === "next attempt" ? undefined : end;
    }
  }

  async #carry(
    command: Command,
    run: Run,
    number: number,
    timeouts: Array<{ key: string; number: number; ms: number }>,
  ): Promise<EngineReport | "goes on" | "next attempt"> {
    if (typeof command === "string") {
      if (command === "suspend") this.#coordinator.skipTime();
      return "next attempt";
    }
    if ("execute" in command) {
      const { key, try: tried, timeoutMs } = command.execute;
      this.#executed[key] = (this.#executed[key] ?? 0) + 1;
      if (timeoutMs !== undefined) timeouts.push({ key, number: tried, ms: timeoutMs });
      return "goes on";
    }
    if ("complete" in command) {
      const { steps, children } = command.complete;
      this.#spend(steps);
      await this.#coordinator.record({ ...(steps ? { steps } : {}), ...(children ? { children } : {}) });
      return command.complete;
    }
    const answer = await this.#coordinator.record(command.checkpoint);
    this.#spend(command.checkpoint.steps);
    if (this.#isHalted()) return halted();
    if (this.#dies({ after: number })) {
      run.close();
      this.#coordinator.skipTime();
      return "next attempt";
    }
    run.left = this.#left();
    run.recorded(answer);
    return "goes on";
  }

  #spend(steps: EngineReport["steps"]): void {
    for (const { spend } of steps ?? []) {
      if (spend === undefined) continue;
      this.#spent = {
        tokens: this.#spent.tokens + spend.tokens,
        costMicros: this.#spent.costMicros + spend.costMicros,
        toolCalls: this.#spent.toolCalls + spend.toolCalls,
      };
    }
  }

  #left(): BudgetLeft | undefined {
    if (this.#budget === undefined) return undefined;
    const { tokens, costMicros, toolCalls } = this.#budget;
    const rest = (limit: number | undefined, used: number) =>
      limit === undefined ? null : Math.max(0, limit - used);
    return {
      tokens: rest(tokens, this.#spent.tokens),
      costMicros: rest(costMicros, this.#spent.costMicros),
      toolCalls: rest(toolCalls, this.#spent.toolCalls),
    };
  }

  /** The call that crosses a limit halts the run, with every step kept. */
  #isHalted(): boolean {
    const { tokens, costMicros, toolCalls } = this.#budget ?? {};
    const crosses = (limit: number | undefined, used: number) => limit !== undefined && used > limit;
    return (
      crosses(tokens, this.#spent.tokens) ||
      crosses(costMicros, this.#spent.costMicros) ||
      crosses(toolCalls, this.#spent.toolCalls)
    );
  }

  /** A worker dies at each place once. */
  #dies(crash: Crash): boolean {
    const place = this.#crashes.findIndex((planned) => JSON.stringify(planned) === JSON.stringify(crash));
    if (place >= 0) this.#crashes.splice(place, 1);
    return place >= 0;
  }

  #ended(report: EngineReport): Ended<O> {
    const { history } = this.#coordinator;
    return {
      get output(): O {
        if (report.outcome !== "SUCCEEDED")
          throw new Failure("USER_CODE", `the run failed: ${report.error?.message}`);
        return report.output as O;
      },
      error: report.error,
      report,
      history,
      keys: history.map(({ key }) => key),
      executed: this.#executed,
      attempts: this.#fence,
      commands: this.#commands,
      spent: this.#spent,
    };
  }
}

function halted(): EngineReport {
  const error = {
    category: "USER_CODE",
    reason: "BUDGET_EXCEEDED",
    message: "the run crossed its budget",
  } as const;
  return { outcome: "FAILED", error };
}

async function startRun(task: Task, coordinator: MemoryCoordinator, fence: number): Promise<Run> {
  const { code } = task;
  if (code?.type !== "durable") throw new TypeError(`\`${task.kind}\` is no durable function with code`);
  const start = coordinator.start(fence);
  const input = await readInput(code, plain(start.input));
  return new Run({ ...start, input }, (core, given) => code.run(new Flow({ core, branch: "" }), given));
}

/** Settles when the work of a step ends. */
function withChange(run: Run): Promise<void> {
  return new Promise((resolve) => {
    run.onChange = resolve;
  });
}

/** Where code and a recorded run differ. */
export class ReplayDiffers extends Error {
  override readonly name = "ReplayDiffers";
  constructor(
    file: string,
    readonly why: string,
    cause?: Stop,
  ) {
    super(`${file}: ${why}`, cause === undefined ? undefined : { cause });
  }
}

interface GoldenHead {
  runId: string;
  taskId: string;
  kind: string;
  input: unknown;
  seed?: number;
  createdAt: string;
}

interface GoldenEnd {
  state: string;
  output?: unknown;
  error?: { category?: string };
}

/** Replays a golden file with a durable function: no step is executed, and the end is compared. */
export async function replayFile(task: Task, file: string | URL): Promise<void> {
  const name = String(file);
  const lines = readFileSync(file, "utf8").trim().split("\n");
  const read = lines.map((line) => parse(line) as Record<string, unknown>);
  const head = read[0]?.["head"] as GoldenHead;
  const recorded = read.flatMap((line) => (line["checkpoint"] as WireCheckpoint | undefined) ?? []);
  const end = read.find((line) => "end" in line)?.["end"] as GoldenEnd | undefined;
  if (head.kind !== task.kind)
    throw new ReplayDiffers(name, `it was recorded by \`${head.kind}\`, not by \`${task.kind}\``);
  const coordinator = new MemoryCoordinator(head.input);
  coordinator.taskId = head.taskId;
  coordinator.createdAt = Date.parse(head.createdAt);
  if (head.seed !== undefined) coordinator.seed = String(head.seed);
  coordinator.load(checkpoints(recorded));
  const run = await startRun(task, coordinator, 1);
  const turn = await run.next();
  if (turn === "idle") throw new ReplayDiffers(name, "the code waits for something foreign");
  if ("stop" in turn) throw new ReplayDiffers(name, turn.stop.message, turn.stop);
  if (!("command" in turn)) throw new ReplayDiffers(name, `the code threw: ${JSON.stringify(turn)}`);
  compareEnd(name, turn.command, end);
}

function compareEnd(name: string, command: Command, end: GoldenEnd | undefined): void {
  const hasEnded = end !== undefined && ["succeeded", "failed"].includes(end.state);
  if (!hasEnded) return;
  if (typeof command === "string" || !("complete" in command)) {
    throw new ReplayDiffers(name, `the code goes on after the recorded end: ${JSON.stringify(command)}`);
  }
  const { outcome, output, error } = command.complete;
  if (outcome.toLowerCase() !== end.state)
    throw new ReplayDiffers(name, `it ended ${end.state}, and now ${outcome}`);
  if (outcome === "SUCCEEDED" && canonical(output) !== canonical(end.output ?? null)) {
    throw new ReplayDiffers(
      name,
      `its output was ${canonical(end.output ?? null)}, and is now ${canonical(output)}`,
    );
  }
  if (outcome === "FAILED" && end.error?.category && error?.category !== end.error.category) {
    throw new ReplayDiffers(name, `it failed with ${end.error.category}, and now with ${error?.category}`);
  }
}

/** The parts of vitest, Jest or `node:test` that `golden` calls. */
interface TestApi {
  it(name: string, run: () => Promise<void>): unknown;
}

/** One test for each golden file that fits the pattern (`golden/*.jsonl`): it fails where the code differs. */
export function golden(task: Task, pattern: string, api: TestApi = globalThis as unknown as TestApi): void {
  const files = filesLike(pattern);
  if (files.length === 0) throw new Error(`no golden file fits \`${pattern}\``);
  for (const file of files) api.it(`replays ${file}`, () => replayFile(task, file));
}

/** Files of one folder whose names fit a pattern with `*`. */
function filesLike(pattern: string): string[] {
  const folder = dirname(pattern);
  const escaped = basename(pattern)
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", ".*");
  const like = new RegExp(`^${escaped}$`);
  return readdirSync(folder)
    .filter((name) => like.test(name))
    .sort()
    .map((name) => join(folder, name));
}
