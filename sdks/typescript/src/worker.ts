/**
 * A worker: polls the queues of its tasks, runs them under leases, and reports what came of them.
 *
 * `run()` ends on SIGTERM and Ctrl-C, or when its signal aborts: it fetches nothing more, lets tasks end, hands back
 * what does not end in time, and delivers every report. A second signal skips the waiting.
 */
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

import { announcementOf } from "./announcement.js";
import {
  anything,
  callable,
  checkOptions,
  isObject,
  mustBe,
  type Shape,
  shown,
  span,
  text,
} from "./checks.js";
import { Client } from "./client.js";
import { Clock, clockBase } from "./clock.js";
import { Setup, TenureError } from "./errors.js";
import { type IoOptions, SLOTS_MAX } from "./io/messages.js";
import { IsolatePool, kindsOf } from "./isolate.js";
import { isIsolated, serveIsolated } from "./isolated.js";
import { type LogSink, standardSink } from "./log.js";
import { milliseconds, type Span } from "./span.js";
import { checkTask, isTask, queueOf, type Task } from "./task.js";
import { describe } from "./thrown.js";
import { findTracing } from "./tracing.js";
import type { WorkerEvent } from "./worker/events.js";
import { Runtime } from "./worker/runtime.js";

/** The coordinator's limits of one poll. */
const QUEUES_MAX = 32;
const KINDS_MAX = 256;

/** How long a killed child may take to be gone, so that its task is handed back and not given up. */
const KILL_MS = 500;

export interface WorkerOptions<S = unknown> {
  tasks: readonly Task<any, any>[];
  /** For the tasks' own calls, and for the address and key of the worker. */
  client?: Client;
  /** What the coordinator calls it; host and process when absent. */
  name?: string;
  /** How many tasks run at once, from 1 to 1,000. Unset, it begins at 8 and grows while tasks are short. */
  concurrency?: number;
  /** How long tasks may take to end after the shutdown began; 25 seconds when absent. */
  shutdownTimeout?: Span;
  /** How long code may take that was told to stop; a second when absent. */
  cleanupTimeout?: Span;
  onEvent?: (event: WorkerEvent) => void;
  onLog?: LogSink;
  /** Runs before the first poll, and in each child that runs isolated tasks. What it returns is `ctx.state`. */
  onStart?: () => S | Promise<S>;
  /** Runs after the last report, and at the end of each such child, unless that is killed. */
  onStop?: (state: S) => void | Promise<void>;
}

const WORKER_OPTIONS: Shape<WorkerOptions> = {
  tasks: anything,
  client: mustBe("what `new Client()` returned", (value) => isObject(value) && "settings" in value),
  name: text,
  concurrency: mustBe(
    `a whole number from 1 to ${SLOTS_MAX}`,
    (value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= SLOTS_MAX,
  ),
  shutdownTimeout: span,
  cleanupTimeout: span,
  onEvent: callable,
  onLog: callable,
  onStart: callable,
  onStop: callable,
};

const WORKER_HINTS = {
  queues: "a worker serves the queues of its tasks: give each task its `queue`",
  queue: "a worker serves the queues of its tasks: give each task its `queue`",
  url: "pass `client: new Client({ url })`",
  apiKey: "pass `client: new Client({ apiKey })`",
  handlers: "pass `tasks`",
  state: "pass `onStart`, which returns the state",
};

/** What is passed as `tasks` in place of an object with them. */
function checkWorker(options: unknown): void {
  const example = "write `new Worker({ tasks: [greet] })`";
  if (!isObject(options) || Array.isArray(options) || isTask(options))
    throw new Setup(`a worker was given ${isTask(options) ? "a task" : shown(options)}`, example);
  checkOptions("a worker", options, WORKER_OPTIONS, WORKER_HINTS);
  const { tasks } = options as Partial<WorkerOptions>;
  if (!Array.isArray(tasks)) {
    const nextStep = isObject(tasks) && !isTask(tasks) ? "pass an array: `Object.values(tasks)`" : example;
    throw new Setup(`the tasks of a worker are ${isTask(tasks) ? "one task" : shown(tasks)}`, nextStep);
  }
}

export class Worker<S = unknown> {
  readonly #tasks: ReadonlyMap<string, Task>;
  readonly #queues: string[];
  readonly #options: WorkerOptions<S>;

  constructor(options: WorkerOptions<S>) {
    checkWorker(options);
    this.#options = options;
    this.#tasks = byKind(options.tasks);
    this.#queues = [...new Set(options.tasks.map(queueOf))].sort();
    if (this.#queues.length > QUEUES_MAX || this.#tasks.size > KINDS_MAX) {
      throw new Setup(
        `tasks of ${this.#queues.length} queues and ${this.#tasks.size} kinds`,
        `a worker serves at most ${QUEUES_MAX} queues and ${KINDS_MAX} kinds: start several`,
      );
    }
  }

  /** Works until it is told to stop. Throws if the coordinator refuses it, or if all its slots are stuck. */
  async run(options: { signal?: AbortSignal } = {}): Promise<void> {
    const client = this.#options.client ?? new Client();
    const onStart = async () => (await this.#options.onStart?.()) as S;
    const onStop = async (state: S) => this.#options.onStop?.(state);
    if (isIsolated()) return serveIsolated({ tasks: this.#tasks, client, onStart, onStop });
    const state = await onStart();
    try {
      await this.#work(client, state, options.signal);
    } finally {
      await onStop(state);
    }
  }

  async #work(client: Client, state: S, signal: AbortSignal | undefined): Promise<void> {
    const {
      shutdownTimeout = { seconds: 25 },
      cleanupTimeout = { seconds: 1 },
      onEvent = () => {},
      onLog = standardSink(),
    } = this.#options;
    const cleanupMs = milliseconds(cleanupTimeout);
    const io = this.#ioOptions(client);
    const tracing = await findTracing();
    // Nothing is awaited until the runtime listens: a message that comes before that is lost, and leases with it.
    const thread = new Thread(new URL("./io-thread.js", import.meta.url), {
      workerData: io,
      name: "tenure-io",
    });
    const isolate = new IsolatePool(cleanupMs, kindsOf(this.#tasks.keys()));
    const around = {
      client,
      state,
      clock: new Clock(io.clock),
      stops: new Int32Array(io.stops),
      valid: new BigInt64Array(io.valid),
      begun: new BigInt64Array(io.begun),
    };
    const runtime = new Runtime(thread, around, {
      tasks: this.#tasks,
      cleanupMs,
      onEvent: guarded("onEvent", onEvent),
      sink: guarded("onLog", onLog),
      isolate,
      tracing,
    });
    const died = new Promise<never>((_, reject) => thread.once("error", reject));
    const stops = new Stops(signal);
    let refusal: TenureError | undefined;
    runtime.onRefused = (code, message) => {
      refusal ??= new TenureError(`the worker cannot go on: ${message}`, {
        code,
        nextStep: "mend it, and start the worker again",
      });
      stops.stop();
    };
    try {
      await Promise.race([drainWhenTold(runtime, stops, milliseconds(shutdownTimeout), cleanupMs), died]);
    } finally {
      stops.close();
      isolate.close();
      await thread.terminate();
    }
    if (refusal !== undefined) throw refusal;
  }

  #ioOptions(client: Client): IoOptions {
    const { urls, apiKey, caFile } = client.settings;
    return {
      urls,
      apiKey,
      caFile,
      workerId: this.#options.name ?? `${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`,
      queues: this.#queues,
      kinds: [...this.#tasks.keys()],
      announcement: announcementOf(this.#tasks.values(), process.env["TENURE_BUILD_ID"]),
      logs: client.codec === undefined,
      concurrency: this.#options.concurrency,
      clock: clockBase(),
      stops: new SharedArrayBuffer(SLOTS_MAX * Int32Array.BYTES_PER_ELEMENT),
      valid: new SharedArrayBuffer(SLOTS_MAX * BigInt64Array.BYTES_PER_ELEMENT),
      begun: new SharedArrayBuffer(SLOTS_MAX * BigInt64Array.BYTES_PER_ELEMENT),
    };
  }
}

/** A listener that throws must not cost the leases of every task. */
function guarded<T>(name: string, listen: (said: T) => unknown): (said: T) => void {
  const complain = (error: unknown) =>
    process.stderr.write(`tenure: \`${name}\` failed: ${describe(error)}\n`);
  return (said) => {
    try {
      const heard = listen(said);
      if (heard instanceof Promise) heard.catch(complain);
    } catch (error) {
      complain(error);
    }
  };
}

async function drainWhenTold(
  runtime: Runtime,
  stops: Stops,
  shutdownMs: number,
  cleanupMs: number,
): Promise<void> {
  await stops.first;
  runtime.drain();
  await withLimit(Promise.race([runtime.idle(), stops.second]), shutdownMs);
  runtime.shutDown();
  await withLimit(runtime.idle(), cleanupMs + KILL_MS);
  await runtime.finish();
}

/** Waits no longer than this. */
async function withLimit(promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, limit]);
  clearTimeout(timer);
}

/** Words to stop: signals of the process, and the caller's. */
class Stops {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
  #count = 0;
  #resolve: Array<() => void> = [];
  readonly #onSignal = () => this.stop();
  readonly #signal: AbortSignal | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
    this.first = new Promise((resolve) => this.#resolve.push(resolve));
    this.second = new Promise((resolve) => this.#resolve.push(resolve));
    process.on("SIGTERM", this.#onSignal);
    process.on("SIGINT", this.#onSignal);
    signal?.addEventListener("abort", this.#onSignal, { once: true });
    if (signal?.aborted) this.stop();
  }

  stop(): void {
    this.#resolve[this.#count]?.();
    this.#count += 1;
  }

  close(): void {
    process.off("SIGTERM", this.#onSignal);
    process.off("SIGINT", this.#onSignal);
    this.#signal?.removeEventListener("abort", this.#onSignal);
  }
}

function byKind(tasks: readonly Task[]): ReadonlyMap<string, Task> {
  const known = new Map<string, Task>();
  if (tasks.length === 0) throw new Setup("a worker without tasks", "pass at least one in `tasks`");
  for (const task of tasks) {
    checkTask(task);
    if (typeof task === "string" || task.code === undefined) {
      const name = typeof task === "string" ? task : task.kind;
      throw new Setup(
        `\`${name}\` has no code`,
        "pass what `task()` and `durable()` returned; `kind()` and a name say only that the code is elsewhere",
      );
    }
    if (known.has(task.kind)) throw new Setup(`two tasks of kind \`${task.kind}\``, "give each its own kind");
    known.set(task.kind, task);
  }
  return known;
}
