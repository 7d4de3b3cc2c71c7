/**
 * The child's side of isolated tasks: the program that was started again serves one task at a time for its parent.
 *
 * A program that such a task starts has the same environment and is no child, so the variable alone decides nothing.
 */
import { fstatSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { createInterface } from "node:readline";

import type { Client } from "./client.js";
import type { Ctx, StopReason } from "./context.js";
import { runAsCurrent } from "./current.js";
import { Failure } from "./failure.js";
import {
  KINDS_VARIABLE,
  kindsOf,
  PARENT_VARIABLE,
  type ToChild,
  type ToParent,
  VARIABLE,
} from "./isolate.js";
import { parse, writeChecked } from "./json.js";
import { logTo, sendableLine } from "./log.js";
import { type Amounts, added, checkedPct } from "./options.js";
import { openedInput, readInput, type Task } from "./task.js";
import type { Envelope } from "./wire.js";
import { Stopped } from "./worker/attempt.js";
import { type ReportText, returned, threw } from "./worker/report.js";

/** Whether this process was started to run isolated tasks. */
export function isIsolated(): boolean {
  const descriptor = process.env[VARIABLE];
  if (descriptor === undefined) return false;
  // The parent may have died meanwhile; then the socket is still there, and ends.
  return process.env[PARENT_VARIABLE] === String(process.ppid) || isSocket(Number(descriptor));
}

function isSocket(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isSocket();
  } catch {
    return false;
  }
}

export interface Served<S> {
  tasks: ReadonlyMap<string, Task>;
  client: Client;
  onStart: () => S | Promise<S>;
  onStop: (state: S) => unknown;
}

/** What closing may take when the worker is gone. */
const STOP_MS = 10_000;

/** Serves the tasks of a parent, one at a time, until its socket ends. Another worker of the program waits for ever. */
export async function serveIsolated<S>({ tasks, client, onStart, onStop }: Served<S>): Promise<void> {
  const kinds = kindsOf(tasks.keys());
  const descriptor = Number(process.env[VARIABLE]);
  if (process.env[KINDS_VARIABLE] !== kinds) {
    writeSync(descriptor, `${writeChecked({ other: kinds } satisfies ToParent)}\n`);
    return new Promise(() => {});
  }
  const socket = new Socket({ fd: descriptor, readable: true, writable: true });
  const send = (message: ToParent) => socket.write(`${writeChecked(message)}\n`);
  // The parent is gone: what runs here has no lease.
  socket.on("error", () => process.exit(1));
  const state = await onStart();
  let current: IsolatedCtx | undefined;
  const lines = createInterface({ input: socket });
  lines.on("error", () => process.exit(1));
  lines.on("line", (line) => {
    const message = parse(line) as ToChild;
    if ("stop" in message) return current?.told(message.stop, message.why);
    const ctx = new IsolatedCtx(message.run, client, state, send);
    current = ctx;
    const task = tasks.get(message.run.kind);
    void runOne(task, ctx).then((end) => send({ end }));
  });
  send({ ready: true });
  await new Promise<void>((resolve) => lines.once("close", resolve));
  if (current?.isOver === false) process.exit(1);
  setTimeout(() => process.exit(1), STOP_MS);
  await onStop(state);
  process.exit(0);
}

async function runOne(task: Task | undefined, ctx: IsolatedCtx): Promise<ReportText> {
  try {
    const code = task?.code;
    if (code?.type !== "task") throw Failure.config(`this worker has no task \`${ctx.kind}\``);
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

  left() {
    return this.envelope.budgetLeft ?? undefined;
  }
}
