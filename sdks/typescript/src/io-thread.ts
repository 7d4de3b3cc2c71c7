/**
 * The I/O thread of a worker: all its calls, so that code which blocks the main thread costs no lease.
 *
 * It polls, sends starts, heartbeats, reports and checkpoints, and watches the clock. It runs no code of tasks. The main
 * thread hands it finished JSON, and gets the bytes of answers; what must be seen at once is in shared memory.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";

import { Calls } from "./calls.js";
import { Clock } from "./clock.js";
import { Batches } from "./io/batches.js";
import { type Batch, type Held, HeldLeases } from "./io/held.js";
import { Keeper } from "./io/keeper.js";
import {
  type Called,
  type FiledReport,
  type Granted,
  type IoOptions,
  packGrants,
  type Reported,
  type ToIo,
  type ToMain,
  unpackReport,
} from "./io/messages.js";
import { Poller } from "./io/poller.js";
import { writeChecked } from "./json.js";
import { Lease, usableMs } from "./lease.js";
import { BUFFER_BYTES_MAX, LogSwitch } from "./log-buffer.js";
import { openSender } from "./transport-node.js";
import type { CheckpointAnswer, Envelope, Leases, ReportAnswer, ReportedError } from "./wire.js";

const REPORT_BYTES_MAX = 512 * 1024;
const CHECKPOINT_BYTES_MAX = 768 * 1024;
/** An answer that does not come must not keep other runs from their next step. */
const CHECKPOINT_CALLS_MAX = 4;
/** A start that is on its way goes first, unless it takes longer than this. */
const START_WAIT_MS = 250;
/** Pages of checkpoints are read again a few times, under the lease. */
const PAGE_TRIES = 4;

class IoThread {
  readonly #clock: Clock;
  readonly #calls: Calls;
  readonly #pages: Calls;
  readonly #held: HeldLeases;
  readonly #keeper: Keeper;
  readonly #takesLogs: LogSwitch;
  readonly #poller: Poller;
  readonly #reports: Batches<ReportAnswer>;
  readonly #checkpoints: Batches<CheckpointAnswer>;
  /** The calls that the answer which is being read is for, by their places in it. */
  #answeredCalls: number[] = [];
  #outbox: ToMain[] = [];
  #transfers: ArrayBuffer[] = [];

  constructor(
    options: IoOptions,
    private readonly port: MessagePort,
  ) {
    const { urls, apiKey, workerId } = options;
    const sender = openSender(options);
    this.#clock = new Clock(options.clock);
    this.#calls = new Calls(sender, urls, apiKey, 0);
    this.#pages = new Calls(sender, urls, apiKey, PAGE_TRIES);
    this.#held = new HeldLeases(options.stops, options.valid, options.begun, workerId);
    const post = (message: ToMain) => this.#post(message);
    const now = () => this.#clock.now();
    this.#takesLogs = new LogSwitch(options.logs);
    this.#keeper = new Keeper(this.#calls, this.#clock, this.#held, workerId, this.#takesLogs, post);
    const reports = { calls: 1, bytes: REPORT_BYTES_MAX };
    this.#reports = new Batches(this.#calls, now, "/v1/reports", "reports", reports);
    const checkpoints = { calls: CHECKPOINT_CALLS_MAX, bytes: CHECKPOINT_BYTES_MAX };
    this.#checkpoints = new Batches(this.#calls, now, "/v1/checkpoints", "checkpoints", checkpoints);
    this.#checkpoints.onAnswer = (bytes) => this.#answered(bytes);
    this.#poller = new Poller(
      this.#calls,
      this.#clock,
      options,
      this.#held,
      () => this.#reports.open,
      (leases, bytes, sentAt, batch) => this.#granted(leases, bytes, sentAt, batch),
      (leases, _, sentAt, batch) => this.#handBack(leases, sentAt, batch),
      post,
    );
    this.#poller.onHurry = () => this.#keeper.plan();
  }

  run(): void {
    this.port.on("message", (messages: ToIo[]) => {
      this.#poller.heard();
      for (const message of messages) this.#heard(message);
    });
    this.#poller.start();
  }

  /** What one answer of the coordinator brings goes over in one message. */
  #post(message: ToMain, transfer: ArrayBuffer[] = []): void {
    if (this.#outbox.length === 0) queueMicrotask(() => this.#flush());
    this.#outbox.push(message);
    this.#transfers.push(...transfer);
  }

  #flush(): void {
    const [messages, transfers] = [this.#outbox, this.#transfers];
    [this.#outbox, this.#transfers] = [[], []];
    if (messages.length > 0) this.port.postMessage(messages, transfers);
  }

  #heard(message: ToIo): void {
    switch (message.type) {
      case "reports":
        for (const [n, id] of message.ids.entries())
          this.#report(unpackReport(id, message.texts[n] ?? "", message.flags[n] ?? 0));
        break;
      case "calls":
        for (const [n, id] of message.ids.entries())
          this.#call(message.calls[n] ?? 0, id, message.texts[n] ?? "");
        break;
      case "page":
        void this.#page(message.call, message.id, message.after);
        break;
      case "progress":
        this.#held.get(message.id)?.lease.progress(message.pct, message.message);
        break;
      case "spend":
        this.#held.get(message.id)?.lease.spend(message.total);
        break;
      case "log":
        this.#held.get(message.id)?.lease.logged(message.level, message.text);
        break;
      case "closed": {
        const held = this.#held.get(message.id);
        if (held !== undefined) this.#free(held);
        break;
      }
      case "isolated": {
        const held = this.#held.get(message.id);
        if (held !== undefined) held.pid = message.pid;
        if (held?.lease.lost !== undefined) this.#keeper.lost(held, held.lease.lost);
        break;
      }
      case "drain":
        void this.#poller.drain();
        break;
      case "finish":
        void this.#finish();
        break;
      case "stuck":
        this.#poller.stuck(message.count);
        break;
      case "pong":
        break;
    }
  }

  async #finish(): Promise<void> {
    await this.#poller.drain();
    await this.#reports.drained();
    this.#keeper.stop();
    this.#calls.close();
    this.#post({ type: "finished" });
    this.#flush();
    this.port.close();
  }

  #granted(leases: Leases, bytes: Uint8Array, sentAt: number, batch: Batch): void {
    const granted: Granted[] = [];
    for (const [index, envelope] of leases.leases.entries()) {
      // A lease that is known was granted by an answer that came twice; surplus leases expire.
      if (this.#held.has(envelope.leaseId) || this.#held.size >= this.#poller.concurrency) continue;
      granted.push({ index, ...this.#accept(envelope, sentAt, batch, envelope.attempt > 1) });
    }
    batch.size = granted.length;
    const copy = new Uint8Array(bytes);
    if (granted.length > 0)
      this.#post({ type: "leases", bytes: copy, granted: packGrants(granted), single: false }, [copy.buffer]);
    this.#keeper.plan();
  }

  #accept(envelope: Envelope, sentAt: number, batch: Batch, startFirst: boolean): Omit<Granted, "index"> {
    const held = this.#hold(envelope, sentAt, batch, startFirst);
    held.hasBegun = held.lease.mayBegin;
    return { id: held.id, slot: held.slot, begins: held.hasBegun };
  }

  #hold(envelope: Envelope, sentAt: number, batch: Batch, startFirst: boolean): Held {
    const ttlMs = envelope.heartbeatTimeoutMs;
    const lease = new Lease({
      ttlMs,
      intervalMs: envelope.heartbeatIntervalMs,
      sentAt,
      now: this.#clock.now(),
      token: envelope.taskToken,
      startFirst,
      timeoutMs: envelope.resources?.timeoutMs ?? undefined,
      takesLogs: this.#takesLogs,
    });
    lease.left = envelope.budgetLeft ?? undefined;
    batch.open += 1;
    return this.#held.insert(envelope, lease, batch, ttlMs - usableMs(ttlMs));
  }

  /** Leases that came after the drain began are reported RELEASED, before any code of them ran. */
  #handBack(leases: Leases, sentAt: number, batch: Batch): void {
    for (const envelope of leases.leases) {
      if (this.#held.has(envelope.leaseId)) continue;
      const held = this.#hold(envelope, sentAt, batch, true);
      this.#report({
        id: held.id,
        text: `{"outcome":"RELEASED"}`,
        outcome: "RELEASED",
        next: false,
        riders: false,
      });
    }
  }

  /** The attempt no longer needs its lease, and the slot is free. */
  #free(held: Held): void {
    this.#held.remove(held);
    held.batch.open -= 1;
    if (held.batch.open === 0) this.#poller.batchEnded(held.batch);
    this.#poller.changed();
  }

  #report(report: FiledReport): void {
    const held = this.#held.get(report.id);
    if (held === undefined) return;
    const { lease } = held;
    // A process that was stopped may come here before anything has looked at the clock.
    if (lease.isLost(this.#clock.now())) {
      this.#keeper.lost(held, lease.lost ?? "");
      this.#post({
        type: "reported",
        id: report.id,
        reported: { verdict: "CANCELLED", why: lease.lost ?? "" },
      });
      return this.#free(held);
    }
    const spend = lease.spent === undefined ? "" : `"spend":${writeChecked(lease.spent)},`;
    const next = report.next ? `"next":true,` : "";
    const bare = `${this.#about(held)},${spend}${next}${report.text.slice(1)}`;
    if (!report.next) this.#free(held);
    const log = lease.log.take(BUFFER_BYTES_MAX);
    if (log === undefined) return this.#file(held, report, bare);
    this.#file(held, report, withLog(bare, log.lines), bare);
  }

  /** `bare` is the report without lines, where it has some: a coordinator that does not know of them gets that. */
  #file(held: Held, report: FiledReport, text: string, bare?: string): void {
    const sentAt = this.#clock.now();
    const over = (reported: Reported) => this.#over(held, report, reported);
    const isForLines = (answer: { error?: string | null; field?: string | null }) =>
      bare !== undefined && this.#takesLogs.isRefusedBy(answer);
    const again = () => this.#file(held, report, bare ?? text);
    this.#reports.add({
      taskId: held.taskId,
      tries: 0,
      text: () => text,
      answered: (answer) => (isForLines(answer) ? again() : this.#reported(held, report, answer, sentAt)),
      refused: (code, message, status, field) =>
        isForLines({ error: code, field: field ?? null })
          ? again()
          : over({ verdict: "REJECTED", code, message, status }),
      gaveUp: (why) => over({ verdict: "UNANSWERED", why }),
    });
  }

  #reported(held: Held, report: FiledReport, answer: ReportAnswer, sentAt: number): void {
    const code = answer.error ?? `status ${answer.status}`;
    const next = answer.next ?? undefined;
    if (answer.verdict !== "COMMITTED") {
      const message = answer.message ?? "";
      const refused = { verdict: "REJECTED", code, message, status: answer.status } as const;
      const instead = answer.verdict === "CANCELLED" ? undefined : insteadOf(report, refused);
      if (instead !== undefined) {
        this.#post({ type: "rejected", taskId: held.taskId, code, message });
        const text = `${this.#about(held)},"outcome":"FAILED","error":${JSON.stringify(instead)}}`;
        return this.#file(held, { ...report, outcome: "FAILED", riders: false }, text);
      }
      return this.#over(
        held,
        report,
        answer.verdict === "CANCELLED" ? { verdict: "CANCELLED", why: code } : refused,
      );
    }
    this.#over(held, report, { verdict: "COMMITTED" });
    if (next === undefined) return;
    const batch: Batch = { grantedAt: this.#clock.now(), size: 1, open: 0, wasFull: false };
    const granted = { index: 0, ...this.#accept(next, sentAt, batch, false) };
    const bytes = new TextEncoder().encode(writeChecked(next));
    this.#post({ type: "leases", bytes, granted: packGrants([granted]), single: true });
    this.#keeper.plan();
  }

  #over(held: Held, report: FiledReport, reported: Reported): void {
    if (report.next) this.#free(held);
    if (reported.verdict === "COMMITTED") this.#committed(report.id);
    else this.#post({ type: "reported", id: report.id, reported });
    this.#poller.changed();
  }

  #committed(id: number): void {
    const last = this.#outbox.at(-1);
    if (last?.type === "committed") last.ids.push(id);
    else this.#post({ type: "committed", ids: [id] });
  }

  #call(call: number, id: number, text: string): void {
    const held = this.#held.get(id);
    const answer = (called: Called) => this.#post({ type: "called", call, answer: called });
    if (held === undefined || held.lease.isLost(this.#clock.now())) {
      return answer({ lost: held?.lease.lost ?? "the attempt is over" });
    }
    if (held.startCall !== undefined) return void this.#callAfter(held.startCall, call, id, text);
    // The call implies the start.
    held.lease.startSent();
    const log = held.lease.log.take();
    const bare = () => `${this.#about(held)}${text === "{}" ? "}" : `,${text.slice(1)}`}`;
    const isForLines = (answered: { error?: string | null; field?: string | null }) =>
      log !== undefined && this.#takesLogs.isRefusedBy(answered);
    const again = () => this.#call(call, id, text);
    this.#checkpoints.add({
      taskId: held.taskId,
      tries: 0,
      text: () => (log === undefined ? bare() : withLog(bare(), log.lines)),
      isAbandoned: () => this.#held.get(id) === undefined,
      answered: (answered, sentAt, serverTime, place) => {
        if (isForLines(answered)) return again();
        if (answered.verdict !== "COMMITTED") return answer(this.#notRecorded(held, answered));
        held.lease.log.arrived(log?.last ?? 0);
        this.#recorded(held, answered, sentAt, serverTime);
        this.#answeredCalls[place] = call;
      },
      refused: (code, message, _, field) =>
        isForLines({ error: code, field: field ?? null }) ? again() : answer({ refused: { code, message } }),
      gaveUp: (why) => answer({ unanswered: why }),
    });
  }

  /** A call that ends its attempt would have the start refused that arrives after it. */
  async #callAfter(start: Promise<void>, call: number, id: number, text: string): Promise<void> {
    let limit: NodeJS.Timeout | undefined;
    const tooLong = new Promise<void>((resolve) => {
      limit = setTimeout(resolve, START_WAIT_MS);
    });
    await Promise.race([start, tooLong]);
    clearTimeout(limit);
    const held = this.#held.get(id);
    if (held !== undefined) held.startCall = undefined;
    this.#call(call, id, text);
  }

  #notRecorded(held: Held, answer: CheckpointAnswer): Called {
    const code = answer.error ?? `status ${answer.status}`;
    if (answer.verdict !== "CANCELLED") return { refused: { code, message: answer.message ?? "" } };
    this.#keeper.lost(held, code);
    return { lost: code };
  }

  #recorded(held: Held, answer: CheckpointAnswer, sentAt: number, serverTime: string): void {
    // A call that ended its attempt renews nothing.
    if (!answer.leaseExpiresAt) return;
    held.lease.started();
    this.#keeper.renewed(held, answer, sentAt, serverTime);
  }

  /** The calls of one answer that were recorded: the main thread reads what they brought from the same bytes. */
  #answered(bytes: Uint8Array): void {
    const calls = Array.from(this.#answeredCalls, (call) => call ?? 0);
    this.#answeredCalls = [];
    if (calls.length === 0) return;
    const copy = new Uint8Array(bytes);
    this.#post({ type: "answered", bytes: copy, calls }, [copy.buffer]);
    this.#keeper.plan();
  }

  async #page(call: number, id: number, after: number): Promise<void> {
    const held = this.#held.get(id);
    if (held === undefined)
      return this.#post({ type: "page", call, answer: { lost: "the attempt is over" } });
    const path = `/v1/tasks/${held.taskId}/checkpoints?after=${after}`;
    try {
      const { body } = await this.#pages.decided({ method: "GET", path, token: held.lease.token });
      this.#post({ type: "page", call, answer: { page: new Uint8Array(body) } });
    } catch (error) {
      const { verdict, message } = error as { verdict?: string; message: string };
      this.#post({
        type: "page",
        call,
        answer: verdict === "CANCELLED" ? { lost: message } : { failed: message },
      });
    }
  }

  /** The members that every call about a lease has, without the closing brace. */
  #about({ about, lease }: Held): string {
    return `${about}${JSON.stringify(lease.token)}`;
  }
}

/** A call with lines, which come last. */
function withLog(text: string, lines: object[]): string {
  return `${text.slice(0, -1)},"log":${JSON.stringify(lines)}}`;
}

/** What is reported where the first report was refused as invalid, so that the run does not wait for its lease. */
function insteadOf(
  report: FiledReport,
  refused: { code: string; message: string; status: number },
): ReportedError | undefined {
  const { code, message, status } = refused;
  if (report.riders && status !== 409) {
    const why = `the coordinator refused the last steps (${code}): ${message}`;
    return { category: "USER_CODE", message: why, retryable: false };
  }
  // A coordinator that is older than releases counts the attempt as a failure.
  if (report.outcome === "RELEASED" && (code === "invalid_argument" || code === "release_unsupported")) {
    return {
      category: "INFRASTRUCTURE",
      message: "the worker shut down before the task was done",
      retryable: true,
    };
  }
  return undefined;
}

if (parentPort !== null) new IoThread(workerData as IoOptions, parentPort).run();
