/**
 * Tasks in processes of their own: a crash, a leak or a blocked loop of one costs no other task its lease.
 *
 * The child is the same program started again with `TENURE_ISOLATED` set to a descriptor; `Worker.run()` notices it and
 * serves one task at a time over that socket, in lines of JSON, so functions are found without being copied. `isolated.ts`
 * is its side. Children are kept for the next task. A lost lease ends the child with its whole process group; the end of the socket ends it
 * too, so no child outlives its worker.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";

import type { StopReason } from "./context.js";
import { Failure } from "./failure.js";
import { killGroup } from "./io/keeper.js";
import { parse, writeChecked } from "./json.js";
import type { LogLine } from "./log.js";
import type { Amounts } from "./options.js";
import type { Envelope } from "./wire.js";
import type { Attempt } from "./worker/attempt.js";
import type { ReportText } from "./worker/report.js";

/** Says which descriptor the socket has. */
export const VARIABLE = "TENURE_ISOLATED";
/** Says which process has the other end, so that programs which a task starts do not take themselves for its child. */
export const PARENT_VARIABLE = "TENURE_ISOLATED_BY";
/** Says which worker of the program is meant. */
export const KINDS_VARIABLE = "TENURE_ISOLATED_KINDS";
/** Standard input, output and error come before it. */
const DESCRIPTOR = 3;
/** Models are loaded in less; a program that never comes to its worker must not hold a task for longer. */
const START_MS = 60_000;

export type ToChild = { run: Envelope } | { stop: StopReason; why: string };
export type ToParent =
  | { ready: true }
  /** A worker of the program that is not the one that is meant. */
  | { other: string }
  | { progress: { pct: number; message?: string | undefined } }
  | { spend: Amounts }
  | { log: LogLine }
  | { end: ReportText };

/** The kinds of a worker as one text, which tells it from others in the same program. */
export function kindsOf(kinds: Iterable<string>): string {
  return [...kinds].sort().join(" ");
}

/** The processes of a worker that run isolated tasks. */
export class IsolatePool {
  readonly #idle: Child[] = [];
  readonly #all = new Set<Child>();

  /** `kinds` are those of the worker, as {@link kindsOf} gives them. */
  constructor(
    private readonly cleanupMs: number,
    private readonly kinds: string,
    private readonly startMs = START_MS,
  ) {}

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
    const child = new Child(this.kinds, this.startMs, () => {
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
  #isReady = false;
  #attempt: Attempt | undefined;
  #ended: ((report: ReportText) => void) | undefined;
  #died: ((failure: Failure) => void) | undefined;
  readonly #start: NodeJS.Timeout;
  /** The kinds of workers that the child came to, and that are not meant. */
  readonly #others: string[] = [];

  constructor(
    private readonly kinds: string,
    startMs: number,
    onExit: () => void,
  ) {
    // Only one process can listen to a debugger's port.
    const execArgv = process.execArgv.filter((argument) => !argument.startsWith("--inspect"));
    this.#process = spawn(process.execPath, [...execArgv, ...process.argv.slice(1)], {
      stdio: ["ignore", "inherit", "inherit", "pipe"],
      env: {
        ...process.env,
        [VARIABLE]: String(DESCRIPTOR),
        [PARENT_VARIABLE]: String(process.pid),
        [KINDS_VARIABLE]: kinds,
      },
      // A process group of its own: all that the task starts ends with it, and Ctrl-C reaches the worker alone.
      detached: true,
    });
    this.#socket = this.#process.stdio[DESCRIPTOR] as Duplex;
    this.#socket.on("error", () => {});
    const lines = createInterface({ input: this.#socket });
    lines.on("line", (line) => this.#heard(parse(line) as ToParent));
    // It repeats the errors of its input: a child that dies with unread lines must not take the worker along.
    lines.on("error", () => {});
    const gone = (how: string) => {
      clearTimeout(this.#start);
      if (!this.isAlive) return;
      this.isAlive = false;
      onExit();
      this.#died?.(Failure.infra(this.#isReady ? `the isolated process ${how}` : this.#neverServed(how)));
    };
    this.#start = setTimeout(() => {
      gone(`did not come to its worker within ${startMs} ms`);
      if (this.pid !== undefined) killGroup(this.pid, 0);
    }, startMs);
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

  /** Why it ended, or was given up, before it served a task: what people must know of how it is started. */
  #neverServed(how: string): string {
    const told = `the isolated process ${how} and served no task`;
    if (this.#others.length > 0) {
      return (
        `${told}. It has workers with the kinds \`${this.#others.join("`, `")}\`, and none with \`${this.kinds}\`: define ` +
        "tasks where their module is loaded, and not by what the program was told later"
      );
    }
    return (
      `${told}. It is ${process.argv[1] ?? "this program"} started again, so \`run()\` of its worker must be reached there ` +
      "too, without standard input and without what only one process can have, such as a port: put the worker into a " +
      "program of its own"
    );
  }

  #ready(): void {
    this.#isReady = true;
    clearTimeout(this.#start);
  }

  #heard(message: ToParent): void {
    if ("ready" in message) return this.#ready();
    if ("other" in message) return void this.#others.push(message.other);
    const attempt = this.#attempt;
    if (attempt === undefined) return;
    if ("end" in message) this.#ended?.(message.end);
    else if ("progress" in message) attempt.progress(message.progress.pct, message.progress.message);
    else if ("spend" in message) attempt.spend(message.spend);
    else if ("log" in message) attempt.log[message.log.level](message.log.message, message.log.data);
  }
}
