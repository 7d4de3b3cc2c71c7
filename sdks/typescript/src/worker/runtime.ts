/**
 * The main thread of a worker: runs the code of tasks, and hands what comes of it to the I/O thread.
 *
 * It begins an attempt when the I/O thread says that its lease is proven, tells its code to stop when the I/O thread
 * says so, and drops the result of a lost lease unread. Code that was told and goes on keeps its slot.
 */
import type { Worker as Thread } from "node:worker_threads";
import { runAsCurrent } from "../current.js";
import { Failure } from "../failure.js";
import { Flow } from "../flow.js";
import {
  type Called,
  type FiledReport,
  flagsOf,
  type Reported,
  type ToIo,
  type ToMain,
  unpackGrants,
} from "../io/messages.js";
import type { IsolatePool } from "../isolate.js";
import { parse } from "../json.js";
import type { LogSink } from "../log.js";
import { type Code, type DurableCode, openedInput, readInput, type Task } from "../task.js";
import type { Tracing } from "../tracing.js";
import type { CheckpointAnswers, Envelope, Leases, Outcome } from "../wire.js";
import { Attempt, type Surroundings } from "./attempt.js";
import { drive, type Wires } from "./driver.js";
import { levelOf, type WorkerEvent } from "./events.js";
import { durableReport, RELEASED, type ReportText, returned, threw, timedOut } from "./report.js";

export interface RuntimeOptions {
  tasks: ReadonlyMap<string, Task>;
  cleanupMs: number;
  onEvent: (event: WorkerEvent) => void;
  sink: LogSink;
  isolate: IsolatePool;
  tracing: Tracing;
}

interface Active {
  attempt: Attempt;
  hasBegun: boolean;
  /** The code goes on although it was told to stop. */
  isStuck: boolean;
  /** Nothing more is reported or closed for it. */
  isSettled: boolean;
  /** Tell the driver of a durable function. */
  interrupt: (end: { lost: string } | { handBack: string }) => void;
  cancel: () => void;
}

export class Runtime {
  readonly #around: Surroundings;
  readonly #active = new Map<number, Active>();
  readonly #said = new Map<number, { attempt: Attempt; outcome: Outcome; error: string | undefined }>();
  readonly #calls = new Map<number, (answer: never) => void>();
  #outbox: ToIo[] = [];
  #nextCall = 1;
  #stuck = 0;
  #isDraining = false;
  #idle: Array<() => void> = [];
  #finished: () => void = () => {};
  /** The coordinator refused this worker, or every slot is stuck: it must end. */
  onRefused: (code: string, message: string) => void = () => {};

  constructor(
    private readonly thread: Thread,
    around: Omit<Surroundings, "progress" | "spend" | "log" | "sink">,
    private readonly options: RuntimeOptions,
  ) {
    this.#around = {
      ...around,
      sink: options.sink,
      progress: (id, pct, message) => this.#post({ type: "progress", id, pct, message }),
      spend: (id, total) => this.#post({ type: "spend", id, total }),
      log: (id, level, text) => this.#post({ type: "log", id, level, text }),
    };
    thread.on("message", (messages: ToMain[]) => {
      for (const message of messages) this.#heard(message);
    });
  }

  /** One message per turn of the loop, however much there is to say. */
  #post(message: ToIo): void {
    if (this.#outbox.length === 0) setImmediate(() => this.#flush());
    this.#outbox.push(message);
  }

  #postReport(report: FiledReport): void {
    const last = this.#outbox.at(-1);
    const { id, text } = report;
    if (last?.type !== "reports")
      return this.#post({ type: "reports", ids: [id], flags: [flagsOf(report)], texts: [text] });
    last.ids.push(id);
    last.flags.push(flagsOf(report));
    last.texts.push(text);
  }

  #postCall(call: number, id: number, text: string): void {
    const last = this.#outbox.at(-1);
    if (last?.type !== "calls") return this.#post({ type: "calls", calls: [call], ids: [id], texts: [text] });
    last.calls.push(call);
    last.ids.push(id);
    last.texts.push(text);
  }

  #flush(): void {
    const messages = this.#outbox;
    this.#outbox = [];
    if (messages.length > 0) this.thread.postMessage(messages);
  }

  #heard(message: ToMain): void {
    switch (message.type) {
      case "leases":
        return this.#granted(message.bytes, message.granted, message.single);
      case "begin":
        return this.#begin(this.#active.get(message.id));
      case "stop":
        return this.#active.get(message.id)?.attempt.told(message.reason, message.why);
      case "left":
        return this.#active.get(message.id)?.attempt.heardLeft(message.left);
      case "answered":
        return this.#answered(message.bytes, message.calls);
      case "called":
      case "page":
        return this.#resolve(message.call, message.answer);
      case "committed":
        for (const id of message.ids) this.#reported(id, { verdict: "COMMITTED" });
        return;
      case "reported":
        return this.#reported(message.id, message.reported);
      case "rejected":
        return this.#emit({
          type: "Rejected",
          taskId: message.taskId,
          code: message.code,
          message: message.message,
        });
      case "unanswered": {
        const attempt = this.#active.get(message.id)?.attempt;
        if (attempt !== undefined) this.#emit({ type: "Unanswered", ...about(attempt), why: message.why });
        return;
      }
      case "unreachable":
        return this.#emit({ type: "Unreachable", why: message.why });
      case "refused":
        return this.onRefused(message.code, message.message);
      case "ping":
        return this.#post({ type: "pong" });
      case "finished":
        return this.#finished();
    }
  }

  #emit(event: WorkerEvent): void {
    const { type, ...data } = event;
    const level = levelOf(event);
    if (level !== "debug") this.options.sink({ level, message: type, data });
    this.options.onEvent(event);
  }

  #answered(bytes: Uint8Array, calls: number[]): void {
    const { answers, serverTime } = parse(new TextDecoder().decode(bytes)) as CheckpointAnswers;
    for (const [place, call] of calls.entries()) {
      const committed = answers[place];
      if (call !== 0 && committed !== undefined) this.#resolve(call, { committed, serverTime });
    }
  }

  #resolve(call: number, answer: unknown): void {
    const resolve = this.#calls.get(call);
    this.#calls.delete(call);
    resolve?.(answer as never);
  }

  #granted(bytes: Uint8Array, granted: Int32Array, single: boolean): void {
    const read = parse(new TextDecoder().decode(bytes));
    const envelopes = single ? [read as Envelope] : (read as Leases).leases;
    for (const { index, id, slot, begins } of unpackGrants(granted)) {
      const active = this.#accept(id, slot, envelopes[index] as Envelope);
      if (begins) this.#begin(active);
    }
  }

  #accept(id: number, slot: number, envelope: Envelope): Active {
    const attempt = new Attempt(id, slot, envelope, this.#around);
    const nothing = () => {};
    const flags = { hasBegun: false, isStuck: false, isSettled: false };
    const active: Active = { attempt, ...flags, interrupt: nothing, cancel: nothing };
    attempt.onTold = () => this.#told(active);
    this.#active.set(id, active);
    return active;
  }

  /** The code was told to stop. What cannot be stopped is stuck after a while. */
  #told(active: Active): void {
    const { attempt } = active;
    const reason = attempt.stopReason;
    if (reason === "CancelRequested") return active.cancel();
    if (reason === "LeaseLost") active.interrupt({ lost: attempt.why });
    if (reason === "ShuttingDown") active.interrupt({ handBack: "the worker shuts down" });
    if (!active.hasBegun) return this.#neverBegan(active);
    if (reason === "ShuttingDown") return;
    setTimeout(() => this.#outOfTime(active), this.options.cleanupMs).unref();
  }

  #neverBegan(active: Active): void {
    if (active.attempt.stopReason === "LeaseLost") this.#lost(active);
    else this.#report(active, RELEASED);
  }

  #outOfTime(active: Active): void {
    if (active.isSettled) return;
    const { attempt } = active;
    active.isStuck = true;
    this.#changeStuck(1);
    this.#emit({ type: "Stuck", ...about(attempt), kind: attempt.kind, why: attempt.why });
    if (attempt.stopReason === "LeaseLost") this.#lost(active);
    else this.#report(active, timedOut("its time limit passed, and its code goes on"));
  }

  #changeStuck(by: number): void {
    this.#stuck += by;
    this.#post({ type: "stuck", count: this.#stuck });
  }

  #begin(active: Active | undefined): void {
    if (active === undefined || active.hasBegun || active.isSettled) return;
    active.hasBegun = true;
    const { attempt } = active;
    attempt.begin();
    if (attempt.stopReason === "LeaseLost") return this.#lost(active);
    const code = this.options.tasks.get(attempt.kind)?.code;
    const traced = this.options.tracing.start(attempt);
    const worked =
      traced === undefined
        ? this.#work(attempt, code, active)
        : traced(() => this.#work(attempt, code, active));
    worked.then(
      (report) => this.#ended(active, report),
      (thrown: unknown) => this.#ended(active, threw(thrown, attempt.stopReason)),
    );
  }

  /** No async function, and no promise where nothing is waited for: short tasks cost little more than their promises. */
  #work(attempt: Attempt, code: Code | undefined, active: Active): Promise<ReportText | undefined> {
    try {
      if (code === undefined) throw Failure.config(`this worker has no code for \`${attempt.kind}\``);
      if (code.type === "task" && code.isolate)
        return this.options.isolate.run(attempt, (pid) => this.#isolated(attempt, pid));
      const input = openedInput(attempt.client.codec, attempt.envelope.input);
      if (code.schema === undefined) return this.#workOn(attempt, code, input, active);
      return readInput(code, input).then((read) => this.#workOn(attempt, code, read, active));
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  #workOn(attempt: Attempt, code: Code, input: unknown, active: Active): Promise<ReportText | undefined> {
    if (code.type === "durable") return this.#durable(attempt, code, input, active);
    const { codec } = attempt.client;
    return runAsCurrent(attempt, () => code.run(input, attempt)).then((value) => returned(value, codec));
  }

  #isolated(attempt: Attempt, pid: number | undefined): void {
    this.#post({ type: "isolated", id: attempt.id, pid });
  }

  async #durable(
    attempt: Attempt,
    code: DurableCode,
    input: unknown,
    active: Active,
  ): Promise<ReportText | undefined> {
    const wires: Wires = {
      call: (text) => this.#ask<Called>((call) => this.#postCall(call, attempt.id, text)),
      page: (after) => this.#ask((call) => this.#post({ type: "page", call, id: attempt.id, after })),
      left: () => attempt.left(),
      interrupted: new Promise((resolve) => {
        active.interrupt = resolve;
      }),
      cancelled: new Promise((resolve) => {
        active.cancel = resolve;
      }),
      isCancelled: () => attempt.stopReason === "CancelRequested",
    };
    const body = (core: ConstructorParameters<typeof Flow>[0]["core"], given: unknown) =>
      code.run(new Flow({ core, branch: "" }, attempt.log), given);
    const end = await drive(attempt.envelope, input, body, wires, attempt.client.codec);
    if (typeof end === "object" && "closed" in end) this.#closedBy(attempt, end.closed);
    return durableReport(end);
  }

  #closedBy(attempt: Attempt, closed: "suspended" | "halted" | { diverged: string }): void {
    if (closed === "suspended") this.#emit({ type: "Suspended", ...about(attempt) });
    else if (closed !== "halted") this.#emit({ type: "Diverged", ...about(attempt), why: closed.diverged });
  }

  #ask<T>(post: (call: number) => void): Promise<T> {
    const call = this.#nextCall++;
    return new Promise((resolve) => {
      this.#calls.set(call, resolve as (answer: never) => void);
      post(call);
    });
  }

  /** The code has ended. */
  #ended(active: Active, report: ReportText | undefined): void {
    if (active.isStuck) {
      active.isStuck = false;
      this.#changeStuck(-1);
    }
    if (active.isSettled) return;
    if (active.attempt.stopReason === "LeaseLost") return this.#lost(active);
    if (report !== undefined) return this.#report(active, report);
    this.#settle(active);
    this.#post({ type: "closed", id: active.attempt.id });
  }

  #lost(active: Active): void {
    if (active.isSettled) return;
    const { attempt } = active;
    this.#settle(active);
    this.#post({ type: "closed", id: attempt.id });
    this.#emit({ type: "Cancelled", ...about(attempt), why: attempt.why });
  }

  #report(active: Active, report: ReportText): void {
    const { attempt } = active;
    const { outcome, text, error, riders = false } = report;
    const endsStage = attempt.stage !== undefined && (outcome === "SUCCEEDED" || outcome === "FAILED");
    const traced =
      attempt.traceparent === undefined ? "" : `,"traceparent":${JSON.stringify(attempt.traceparent)}`;
    const full = `${text.slice(0, -1)},"completedAt":"${new Date().toISOString()}"${traced}}`;
    this.#said.set(attempt.id, { attempt, outcome, error });
    this.#settle(active);
    const next = endsStage && !this.#isDraining;
    this.#postReport({ id: attempt.id, text: full, outcome, next, riders });
  }

  #settle(active: Active): void {
    active.isSettled = true;
    active.attempt.over();
    this.#active.delete(active.attempt.id);
    if (this.#active.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #reported(id: number, reported: Reported): void {
    const said = this.#said.get(id);
    this.#said.delete(id);
    if (said === undefined) return;
    const { attempt, outcome, error } = said;
    switch (reported.verdict) {
      case "COMMITTED":
        return this.#emit({ type: "Committed", ...about(attempt), outcome, error });
      case "CANCELLED":
        return this.#emit({ type: "Cancelled", ...about(attempt), why: reported.why });
      case "REJECTED":
        return this.#emit({
          type: "Rejected",
          taskId: attempt.taskId,
          code: reported.code,
          message: reported.message,
        });
      case "UNANSWERED":
        return this.#emit({ type: "Unanswered", ...about(attempt), why: reported.why });
    }
  }

  // Shutdown.

  /** Fetches nothing more. */
  drain(): void {
    this.#isDraining = true;
    this.#post({ type: "drain" });
  }

  /** When no attempt is left. */
  async idle(): Promise<void> {
    if (this.#active.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Stops waiting: code is told, and what has not begun is handed back. */
  shutDown(): void {
    for (const active of [...this.#active.values()])
      active.attempt.told("ShuttingDown", "the worker shuts down");
  }

  /** Gives up what still runs, and delivers the reports that are left. */
  async finish(): Promise<void> {
    for (const active of [...this.#active.values()]) {
      this.#emit({ type: "Abandoned", ...about(active.attempt), kind: active.attempt.kind });
      this.#settle(active);
      this.#post({ type: "closed", id: active.attempt.id });
    }
    const finished = new Promise<void>((resolve) => {
      this.#finished = resolve;
    });
    this.#post({ type: "finish" });
    await finished;
  }
}

function about(attempt: Attempt): { taskId: string; attempt: number } {
  return { taskId: attempt.taskId, attempt: attempt.attempt };
}
