/**
 * One attempt as its code sees it: what it works on, why it should stop, and what it has used.
 *
 * The I/O thread keeps the lease; this object reads what it says from shared memory, so code that never yields can
 * still ask whether to stop. It looks at the clock too: a process that was stopped may run code before any timer.
 */
import type { Client } from "../client.js";
import type { Clock } from "../clock.js";
import type { Ctx, StopReason } from "../context.js";
import { STOP_REASONS } from "../io/messages.js";
import { type Log, type LogLevel, type LogSink, logTo } from "../log.js";
import { textOf } from "../log-buffer.js";
import { type Amounts, added, checkedPct } from "../options.js";
import type { BudgetLeft, Envelope } from "../wire.js";

/** What an attempt needs of its worker. */
export interface Surroundings {
  client: Client;
  clock: Clock;
  stops: Int32Array;
  valid: BigInt64Array;
  begun: BigInt64Array;
  state: unknown;
  sink: LogSink;
  progress(id: number, pct: number | undefined, message: string | undefined): void;
  spend(id: number, total: Amounts): void;
  log(id: number, level: LogLevel, text: string): void;
}

/** Told to code through its `AbortSignal`. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  constructor(
    readonly stopReason: StopReason,
    why: string,
  ) {
    super(`${stopReason}: ${why}`);
  }
}

export class Attempt implements Ctx {
  readonly runId: string;
  readonly taskId: string;
  readonly attempt: number;
  readonly fence: number;
  readonly kind: string;
  readonly queue: string;
  traceparent: string | undefined;
  #stop: StopReason | undefined;
  #abort: AbortController | undefined;
  #why = "";
  #isOver = false;
  #spent: Amounts | undefined;
  #left: BudgetLeft | undefined;
  #log: Log | undefined;

  constructor(
    readonly id: number,
    readonly slot: number,
    readonly envelope: Envelope,
    private readonly around: Surroundings,
  ) {
    const { runId, taskId, attempt, fence, kind, queue } = envelope;
    this.runId = runId;
    this.taskId = taskId;
    this.attempt = attempt;
    this.fence = fence;
    this.kind = kind;
    this.queue = queue;
    this.traceparent = envelope.traceparent ?? undefined;
    this.#left = envelope.budgetLeft ?? undefined;
  }

  get stage(): string | undefined {
    return this.envelope.stage ?? undefined;
  }

  get deadline(): Date | undefined {
    return this.envelope.deadline ? new Date(this.envelope.deadline) : undefined;
  }

  get labels(): Readonly<Record<string, string>> {
    return this.envelope.labels ?? {};
  }

  get log(): Log {
    const { runId, taskId, attempt, kind } = this;
    this.#log ??= logTo(
      (line) => {
        this.around.sink(line);
        if (line.level !== "debug") this.around.log(this.id, line.level, textOf(line));
      },
      { runId, taskId, attempt, kind },
    );
    return this.#log;
  }

  get client(): Client {
    return this.around.client;
  }

  get state(): unknown {
    return this.around.state;
  }

  get cancelled(): boolean {
    return this.stopReason !== undefined;
  }

  get stopReason(): StopReason | undefined {
    this.#look();
    return this.#stop;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      this.#look();
      if (this.#stop !== undefined) this.#abort.abort(new Stopped(this.#stop, this.#why));
    }
    return this.#abort.signal;
  }

  /** Reads what the other thread says, and whether the lease can still be trusted. The slot is another's afterwards. */
  #look(): void {
    if (this.#isOver) return;
    const { stops, valid, clock } = this.around;
    const told = STOP_REASONS[Atomics.load(stops, this.slot)];
    if (told !== undefined) return this.told(told, this.#why || "told by the worker");
    const until = Atomics.load(valid, this.slot);
    if (until !== 0n && clock.now() * 1000 >= Number(until)) this.told("LeaseLost", "its time is over");
  }

  /** The first reason is kept, except that a lost lease overrides every other. */
  told(reason: StopReason, why: string): void {
    if (this.#isOver || this.#stop === "LeaseLost" || this.#stop === reason) return;
    if (this.#stop !== undefined && reason !== "LeaseLost") return;
    this.#stop = reason;
    this.#why = why;
    this.#abort?.abort(new Stopped(reason, why));
    this.onTold();
  }

  /** Called when the code is told to stop. */
  onTold: () => void = () => {};

  get why(): string {
    return this.#why;
  }

  /** The code begins now. */
  begin(): void {
    const { begun, clock } = this.around;
    Atomics.store(begun, this.slot, BigInt(Math.max(1, Math.round(clock.now() * 1000))));
  }

  /** The lease is no longer needed: its slot may be another's from now on. */
  over(): void {
    this.#look();
    Atomics.store(this.around.begun, this.slot, -1n);
    this.#isOver = true;
  }

  progress(pct: number, message?: string): void {
    this.around.progress(this.id, checkedPct(pct), message);
  }

  spend(amounts: Amounts): void {
    this.#spent = added(this.#spent, amounts);
    this.around.spend(this.id, this.#spent);
  }

  left(): BudgetLeft | undefined {
    return this.#left;
  }

  heardLeft(left: BudgetLeft | undefined): void {
    this.#left = left;
  }
}
