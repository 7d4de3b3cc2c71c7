/**
 * A submitted run: its status, its end, its result, and what can be done to it.
 *
 * A handle is an id and a client. It keeps nothing of the run, so it never goes stale, and dropping it has no effect.
 */
import type { Calls } from "./calls.js";
import { signal as abortSignal, checkOptions, flag, schema, span, text, whole } from "./checks.js";
import { type Codec, opened, sealed } from "./codec.js";
import { OutputUnreadable, RunFailed, TimedOut } from "./errors.js";
import { encode, plain, Unreadable, writeChecked } from "./json.js";
import { budget as budgetCheck } from "./option-checks.js";
import { type Budget, budgetOf } from "./options.js";
import { orSetup, sendable } from "./payload.js";
import { queryOf } from "./routes.js";
import { SchemaRefused, type StandardSchemaV1, validate } from "./schema.js";
import { milliseconds, type Span } from "./span.js";
import { newKey } from "./submissions.js";
import { WAIT_MS_MAX, type Waits } from "./waits.js";
import type {
  CancelAccepted,
  Checkpoint,
  Children,
  ChildView,
  Explanation,
  History,
  HistoryEntry,
  LoggedLine,
  Logs,
  PlanStage,
  PlanSteps,
  Run,
  RunAccepted,
  Record as RunRecord,
  RunResumed,
  RunUnpinned,
  SignalAccepted,
  Steps,
} from "./wire.js";

/** The states that a run never leaves. */
const ENDED = new Set(["succeeded", "failed", "halted", "cancelled", "skipped"]);

export interface WaitOptions {
  /** How long to wait; without end when absent. */
  timeout?: Span;
  signal?: AbortSignal;
}

const WAIT_OPTIONS = { timeout: span, signal: abortSignal, schema };

/** What the handles of one client share. */
export interface Connection {
  calls: Calls;
  waits: Waits;
  codec: Codec | undefined;
}

export class RunHandle<O = unknown> {
  constructor(
    private readonly connection: Connection,
    readonly id: string,
    /** Whether the submission found a run that was accepted before. */
    readonly replayed = false,
  ) {}

  /** The run as it is now. */
  status(): Promise<Run> {
    return this.#get("");
  }

  /** Waits until the run has ended, or the time is over, and returns the run as it is then. A failed run is an answer. */
  wait(options: WaitOptions = {}): Promise<Run> {
    const { waits } = this.connection;
    return this.#until(options, (leftMs) => waits.alone(this.id, leftMs, options.signal));
  }

  async #until(options: WaitOptions, look: (leftMs: number) => Promise<Run>): Promise<Run> {
    checkOptions("the wait", options, WAIT_OPTIONS);
    const { timeout } = options;
    const until =
      timeout === undefined ? Number.POSITIVE_INFINITY : performance.now() + milliseconds(timeout);
    for (;;) {
      const run = await look(until - performance.now());
      if (ENDED.has(run.state) || performance.now() >= until) return run;
    }
  }

  /** Waits for the run and returns its output. The run goes on if the time is over, or the signal aborts. */
  async result(options: WaitOptions & { schema?: StandardSchemaV1<any, O> } = {}): Promise<O> {
    const { waits } = this.connection;
    const run = await this.#until(options, (leftMs) => waits.end(this.id, leftMs, options.signal));
    if (!ENDED.has(run.state)) {
      throw new TimedOut(`run ${this.id} did not end`, options.timeout ? milliseconds(options.timeout) : 0);
    }
    if (run.state !== "succeeded") throw new RunFailed(run);
    try {
      const output = plain(opened(this.connection.codec, run.output ?? null));
      return options.schema === undefined ? (output as O) : await validate(options.schema, output);
    } catch (error) {
      if (error instanceof Unreadable || error instanceof SchemaRefused)
        throw new OutputUnreadable(this.id, error.path, error.why, error);
      throw error;
    }
  }

  /** Asks the run to stop. With `now` the worker's lease is revoked and the run ends at once. */
  cancel(options: { reason?: string; now?: boolean } = {}): Promise<CancelAccepted> {
    checkOptions("cancel", options, { reason: text, now: flag }, { force: "pass `now: true`" });
    const { reason, now } = options;
    return this.#post("/cancel", {
      ...(reason === undefined ? {} : { reason }),
      ...(now ? { force: true } : {}),
    });
  }

  /** Sends a signal, which is kept until the function takes it. */
  async signal(
    name: string,
    value: unknown = null,
    options: { idempotencyKey?: string } = {},
  ): Promise<SignalAccepted> {
    const what = `the payload of signal \`${name}\``;
    const sent = sendable(what, value);
    const payload = orSetup(what, () => encode(sealed(this.connection.codec, sent)));
    const body = `{"name":${JSON.stringify(name)},"payload":${payload}}`;
    const idempotencyKey = options.idempotencyKey ?? newKey();
    return this.connection.calls.json({
      method: "POST",
      path: `/v1/runs/${this.id}/signals`,
      body,
      idempotencyKey,
    });
  }

  /** Submits a run that did not succeed once more, as a new run. */
  async retry(options: { idempotencyKey?: string } = {}): Promise<RunHandle<O>> {
    return this.#another("/retry", {}, options.idempotencyKey);
  }

  /** Continues the recorded steps in a new run. */
  async fork(
    options: { budget?: Budget; fromStep?: string; idempotencyKey?: string } = {},
  ): Promise<RunHandle<O>> {
    checkOptions("fork", options, { budget: budgetCheck, fromStep: text, idempotencyKey: text });
    const { budget, fromStep, idempotencyKey } = options;
    const body = { ...(budget ? { budget: budgetOf(budget) } : {}), ...(fromStep ? { fromStep } : {}) };
    return this.#another("/fork", body, idempotencyKey);
  }

  /** Lets a run go on that was stopped because its code and its record differed. */
  resume(): Promise<RunResumed> {
    return this.#post("/resume", {});
  }

  /** Lets workers of every build continue a run that is pinned to one. */
  unpin(): Promise<RunUnpinned> {
    return this.#post("/unpin", {});
  }

  /** What was recorded, in the order of the commits. */
  async steps(): Promise<Checkpoint[]> {
    return this.#pages<Steps, Checkpoint>("/steps", (page) => [page.steps, page.nextAfter]);
  }

  children(): Promise<ChildView[]> {
    return this.#pages<Children, ChildView>("/children", (page) => [page.children, page.nextAfter]);
  }

  plan(): Promise<PlanStage[]> {
    return this.#pages<PlanSteps, PlanStage>("/plan", (page) => [page.steps, page.nextAfter]);
  }

  /** What happened. With `follow` it waits for more until the run has ended. */
  async *history(
    options: { follow?: boolean; after?: number; signal?: AbortSignal } = {},
  ): AsyncGenerator<HistoryEntry> {
    checkOptions("history", options, { follow: flag, after: whole, signal: abortSignal });
    let after = options.after ?? 0;
    for (;;) {
      const waitMs = options.follow ? WAIT_MS_MAX : 0;
      const path = `/v1/runs/${this.id}/history?after=${after}&waitMs=${waitMs}`;
      const page = await this.connection.calls.json<History>({
        method: "GET",
        path,
        waitMs,
        signal: options.signal,
      });
      yield* page.entries;
      const isOver = page.entries.length === 0 && (!options.follow || ENDED.has((await this.status()).state));
      if (isOver) return;
      after = page.nextAfter;
    }
  }

  /** The lines that workers logged about it, the oldest first: of each attempt the newest 64 KiB. */
  logs(): Promise<LoggedLine[]> {
    return this.#pages<Logs, LoggedLine>("/logs", (page) => [page.lines, page.nextAfter]);
  }

  record(): Promise<RunRecord> {
    return this.#get("/record");
  }

  explain(): Promise<Explanation> {
    return this.#get("/explain");
  }

  async #another(path: string, body: object, key: string | undefined): Promise<RunHandle<O>> {
    const accepted = await this.#post<RunAccepted>(path, body, key ?? newKey());
    return new RunHandle(this.connection, accepted.runId, accepted.replayed === true);
  }

  /** A cursor is a number, or text. The first page needs none. */
  async #pages<P, T>(
    path: string,
    read: (page: P) => [T[], string | number | null | undefined],
  ): Promise<T[]> {
    const all: T[] = [];
    let after: string | number | null | undefined;
    do {
      const [items, next] = read(await this.#get<P>(`${path}${queryOf({ after })}`));
      for (const item of items) all.push(item);
      after = next;
    } while (after !== null && after !== undefined);
    return all;
  }

  #get<T>(path: string): Promise<T> {
    return this.connection.calls.json({ method: "GET", path: `/v1/runs/${this.id}${path}` });
  }

  #post<T>(path: string, body: object, idempotencyKey?: string): Promise<T> {
    return this.connection.calls.json({
      method: "POST",
      path: `/v1/runs/${this.id}${path}`,
      body: writeChecked(body),
      idempotencyKey,
    });
  }
}
