/**
 * Tasks in processes of their own: a crash, a leak or a blocked loop of one costs no other task its lease.
 *
 * The child is the same program started again with `TENURE_ISOLATED` set to a descriptor; `Worker.run()` notices it and
 * serves one task at a time over that socket, in lines of JSON, so functions are found without being copied. Children
 * are kept for the next task. A lost lease ends the child with its whole process group; the end of the socket ends it
 * too, so no child outlives its worker.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";

import type { Client } from "./client.js";
import type { Ctx, StopReason } from "./context.js";
import { runAsCurrent } from "./current.js";
import { Failure } from "./failure.js";
import { killGroup } from "./io/keeper.js";
import { parse, writeChecked } from "./json.js";
import { type LogLine, logTo, sendableLine } from "./log.js";
import { type Amounts, added, checkedPct } from "./options.js";
import { openedInput, readInput, type Task } from "./task.js";
import type { BudgetLeft, Envelope } from "./wire.js";
import { type Attempt, Stopped } from "./worker/attempt.js";
import { type ReportText, returned, threw } from "./worker/report.js";

const VARIABLE = "TENURE_ISOLATED";
/** Standard input, output and error come before it. */
const DESCRIPTOR = 3;

type ToChild = { run: Envelope } | { stop: StopReason; why: string } | { left: BudgetLeft | undefined };
type ToParent =
  | { ready: true }
  | { progress: { pct: number; message?: string | undefined } }
  | { spend: Amounts }
  | { log: LogLine }
  | { end: ReportText };

/** Whether this process was started to run isolated tasks. */
export function isIsolated(): boolean {
  return process.env[VARIABLE] !== undefined;
}

/** The processes of a worker that run isolated tasks. */
export class IsolatePool {
  readonly #idle: Child[] = [];
  readonly #all = new Set<Child>();

  constructor(private readonly cleanupMs: number) {}

  /** Runs one task in a child. `isRunningIn` is told the process, and undefined when it no longer runs there. */
  async run(attempt: Attempt, isRunningIn: (pid: number | undefined) => void): Promise<ReportText> {
    const child = this.#idle.pop() ?? this.#start();
    isRunningIn(child.pid);
    try {
      return await child.run(attempt, this.cleanupMs);
    } finally {
      isRunningIn(undefined);
      if (child.isAlive) this.#idle.push(child);
    }
  }

  close(): void {
    for (const child of this.#all) child.close();
  }

  #start(): Child {
    const child = new Child(() => {
      this.#all.delete(child);
      const place = this.#idle.indexOf(child);
      if (place >= 0) this.#idle.splice(place, 1);
    });
    this.#all.add(child);
    return child;
  }
}

class Child {
  readonly #process: ChildProcess;
  readonly #socket: Duplex;
  isAlive = true;
  #attempt: Attempt | undefined;
  #ended: ((report: ReportText) => void) | undefined;
  #died: ((failure: Failure) => void) | undefined;

  constructor(onExit: () => void) {
    this.#process = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      stdio: ["ignore", "inherit", "inherit", "pipe"],
      env: { ...process.env, [VARIABLE]: String(DESCRIPTOR) },
      // A process group of its own: all that the task starts ends with it, and Ctrl-C reaches the worker alone.
      detached: true,
    });
    this.#socket = this.#process.stdio[DESCRIPTOR] as Duplex;
    this.#socket.on("error", () => {});
    createInterface({ input: this.#socket }).on("line", (line) => this.#heard(parse(line) as ToParent));
    const gone = (how: string) => {
      if (!this.isAlive) return;
      this.isAlive = false;
      onExit();
      this.#died?.(Failure.infra(`the isolated process ${how}`));
    };
    this.#process.once("error", (error) => gone(`could not be started: ${error.message}`));
    this.#process.once("exit", (code, signal) =>
      gone(signal === null ? `ended with code ${code}` : `was ended by ${signal}`),
    );
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  async run(attempt: Attempt, cleanupMs: number): Promise<ReportText> {
    this.#attempt = attempt;
    const onTold = attempt.onTold;
    attempt.onTold = () => {
      onTold();
      this.#stop(attempt, cleanupMs);
    };
    try {
      return await new Promise<ReportText>((resolve, reject) => {
        this.#ended = resolve;
        this.#died = reject;
        this.#send({ run: attempt.envelope });
        if (attempt.stopReason !== undefined) this.#stop(attempt, cleanupMs);
      });
    } finally {
      this.#attempt = undefined;
      this.#died = undefined;
    }
  }

  /** Tells the code. What does not stop in time is killed; the I/O thread kills at once where the lease is lost. */
  #stop(attempt: Attempt, cleanupMs: number): void {
    const reason = attempt.stopReason;
    if (reason === undefined) return;
    this.#send({ stop: reason, why: attempt.why });
    if (reason === "CancelRequested") return;
    setTimeout(() => {
      if (this.#attempt === attempt && this.pid !== undefined) killGroup(this.pid, 0);
    }, cleanupMs).unref();
  }

  close(): void {
    this.#socket.end();
    this.#process.unref();
  }

  #send(message: ToChild): void {
    this.#socket.write(`${writeChecked(message)}\n`);
  }

  #heard(message: ToParent): void {
    const attempt = this.#attempt;
    if (attempt === undefined) return;
    if ("end" in message) this.#ended?.(message.end);
    else if ("progress" in message) attempt.progress(message.progress.pct, message.progress.message);
    else if ("spend" in message) attempt.spend(message.spend);
    else if ("log" in message) attempt.log[message.log.level](message.log.message, message.log.data);
  }
}

/** Serves the tasks of a parent, one at a time, until its socket ends. */
export async function serveIsolated(
  tasks: ReadonlyMap<string, Task>,
  client: Client,
  state: unknown,
): Promise<void> {
  const socket = new Socket({ fd: Number(process.env[VARIABLE]), readable: true, writable: true });
  const send = (message: ToParent) => socket.write(`${writeChecked(message)}\n`);
  // The parent is gone: what runs here has no lease.
  socket.on("error", () => process.exit(1));
  let current: IsolatedCtx | undefined;
  const lines = createInterface({ input: socket });
  lines.on("line", (line) => {
    const message = parse(line) as ToChild;
    if ("stop" in message) return current?.told(message.stop, message.why);
    if ("left" in message) return;
    const ctx = new IsolatedCtx(message.run, client, state, send);
    current = ctx;
    const task = tasks.get(message.run.kind);
    void runOne(task, ctx).then((end) => send({ end }));
  });
  await new Promise<void>((resolve) => lines.once("close", resolve));
  process.exit(current?.isOver === false ? 1 : 0);
}

async function runOne(task: Task | undefined, ctx: IsolatedCtx): Promise<ReportText> {
  try {
    const code = task?.code;
    if (code?.type !== "task") throw Failure.config(`this worker has no code for \`${ctx.kind}\``);
    const input = await readInput(code, openedInput(ctx.client.codec, ctx.envelope.input));
    return returned(await runAsCurrent(ctx, () => code.run(input, ctx)), ctx.client.codec);
  } catch (thrown) {
    return threw(thrown, ctx.stopReason);
  } finally {
    ctx.isOver = true;
  }
}

/** The context of code in a child: what it says travels to the parent. */
class IsolatedCtx implements Ctx {
  readonly #abort = new AbortController();
  isOver = false;
  stopReason: StopReason | undefined;
  readonly log;

  constructor(
    readonly envelope: Envelope,
    readonly client: Client,
    readonly state: unknown,
    private readonly send: (message: ToParent) => void,
  ) {
    this.log = logTo((log) => send({ log: sendableLine(log) }), {});
  }

  get runId() {
    return this.envelope.runId;
  }
  get taskId() {
    return this.envelope.taskId;
  }
  get attempt() {
    return this.envelope.attempt;
  }
  get fence() {
    return this.envelope.fence;
  }
  get kind() {
    return this.envelope.kind;
  }
  get queue() {
    return this.envelope.queue;
  }
  get stage() {
    return this.envelope.stage ?? undefined;
  }
  get deadline() {
    return this.envelope.deadline ? new Date(this.envelope.deadline) : undefined;
  }
  get labels() {
    return this.envelope.labels ?? {};
  }
  get traceparent() {
    return this.envelope.traceparent ?? undefined;
  }
  get cancelled() {
    return this.stopReason !== undefined;
  }
  get signal() {
    return this.#abort.signal;
  }

  told(reason: StopReason, why: string): void {
    this.stopReason ??= reason;
    this.#abort.abort(new Stopped(reason, why));
  }

  progress(pct: number, message?: string): void {
    this.send({ progress: { pct: checkedPct(pct), message } });
  }

  spend(amounts: Amounts): void {
    this.send({ spend: added(undefined, amounts) });
  }

  left(): BudgetLeft | undefined {
    return this.envelope.budgetLeft ?? undefined;
  }
}
