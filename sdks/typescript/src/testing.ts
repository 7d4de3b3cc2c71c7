/**
 * Tests without a server: a task runs inline, a durable function runs in memory. A day passes at once, signals, people
 * and children are values, and the worker dies where the test says so.
 *
 * Every attempt starts from what the coordinator in memory has recorded, as with a real one, and nothing else is
 * carried over.
 */
import { Client } from "./client.js";
import type { Ctx, StopReason } from "./context.js";
import { runAsCurrent } from "./current.js";
import type { Checkpoint } from "./engine/command.js";
import { plain, throughJson } from "./json.js";
import { type Log, SILENT } from "./log.js";
import { added, checkedPct } from "./options.js";
import { milliseconds, type Span } from "./span.js";
import { readInput, type Task } from "./task.js";
import { BEGINNING, type DeliveryOutcome, MemoryCoordinator } from "./testing/coordinator.js";
import { type ReplayOptions, replayFile } from "./testing/golden.js";
import { type Crash, type Ended, MemoryRun } from "./testing/run.js";
import type { ApprovalDecision } from "./wire.js";

export { Stop } from "./engine/stop.js";
export { Stuck } from "./testing/coordinator.js";
export { golden, ReplayDiffers, type ReplayOptions, replayFile } from "./testing/golden.js";
export type { Crash, Ended } from "./testing/run.js";
export { startServer, TestServer, type TestServerOptions } from "./testing/server.js";

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
    progress: (pct) => void checkedPct(pct),
    spend: (amounts) => void added(undefined, amounts),
    left: () => undefined,
  };
}

/** A durable function in memory. It was accepted at the beginning of 2026. */
export class FlowTest<I = any, O = any> {
  readonly #task: Task<I, O>;
  readonly #input: unknown;
  /** What happens from outside, told to the coordinator of each run. */
  readonly #script: Array<(coordinator: MemoryCoordinator) => void> = [];
  readonly #crashes: Crash[] = [];

  constructor(task: Task<I, O>, ...args: void extends I ? [input?: undefined] : [input: I]) {
    if (task.code?.type !== "durable")
      throw new TypeError(`\`${task.kind}\` is no durable function with code`);
    this.#task = task;
    this.#input = throughJson(args[0]);
  }

  seed(seed: number | bigint): this {
    return this.#then((coordinator) => {
      coordinator.seed = String(seed);
    });
  }

  /** A signal, there from the beginning or after a time. */
  signal(name: string, value: unknown = null, options: { after?: Span } = {}): this {
    const [afterMs, payload] = [milliseconds(options.after ?? {}), throughJson(value)];
    return this.#then((coordinator) => coordinator.sendSignal(afterMs, name, payload));
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
    const word = { name, key: by, decision, at, comment: options.comment };
    return this.#then((coordinator) => coordinator.people.say(word));
  }

  /** What children of a kind return, and how long they take. */
  child<CI, CO>(
    task: Task<CI, CO> | string,
    code: (input: CI) => CO | Promise<CO>,
    options: { takes?: Span } = {},
  ): this {
    const kind = typeof task === "string" ? task : task.kind;
    const takesMs = milliseconds(options.takes ?? {});
    const child = { takesMs, code: code as (input: unknown) => unknown };
    return this.#then((coordinator) => coordinator.kinds.set(kind, child));
  }

  /** What becomes of effects of this type. Others are delivered at once. */
  delivery(type: string, outcome: DeliveryOutcome, options: { takes?: Span } = {}): this {
    const takesMs = milliseconds(options.takes ?? {});
    return this.#then((coordinator) => coordinator.deliveries.set(type, { takesMs, outcome }));
  }

  /** Lets the worker die there. */
  crash(...crashes: Crash[]): this {
    this.#crashes.push(...crashes);
    return this;
  }

  /** Begins with what another run has recorded. */
  recorded(history: readonly Checkpoint[]): this {
    return this.#then((coordinator) => coordinator.load(history));
  }

  #then(act: (coordinator: MemoryCoordinator) => unknown): this {
    this.#script.push(act);
    return this;
  }

  /** Runs to the end. Throws a `Stop` if the code cannot go on, and what the function threw if that is a bug. */
  run(): Promise<Ended<O>> {
    return this.#run(this.#crashes);
  }

  /** Runs undisturbed, and then once for each place at which the worker can die. The first end is the undisturbed one. */
  async runWithEveryCrash(): Promise<Ended<O>[]> {
    const all = [await this.#run([])];
    const { commands } = all[0] as Ended<O>;
    for (let n = 0; n < commands; n++) {
      all.push(await this.#run([{ before: n }]));
      all.push(await this.#run([{ after: n }]));
    }
    return all;
  }

  #run(crashes: readonly Crash[]): Promise<Ended<O>> {
    const coordinator = new MemoryCoordinator(this.#input);
    for (const act of this.#script) act(coordinator);
    return new MemoryRun<O>(this.#task, coordinator, crashes).run();
  }

  /** Replays a golden file that `tenure export` wrote. Throws where the code differs from the record. */
  async replay(file: string | URL, options: ReplayOptions = {}): Promise<void> {
    await replayFile(this.#task, file, options);
  }
}
