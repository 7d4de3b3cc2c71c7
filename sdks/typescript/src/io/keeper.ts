/**
 * Keeps leases: sends starts and heartbeats when they are due, obeys the answers, and tells code when a lease is over.
 *
 * One call with heartbeats is in flight at a time and carries everything that is due; what becomes due meanwhile goes
 * into the next one. A missing answer means nothing by itself: a lease is lost when its own time is over.
 */
import type { Calls } from "../calls.js";
import type { Clock } from "../clock.js";
import type { StopReason } from "../context.js";
import { Refused } from "../errors.js";
import { writeChecked } from "../json.js";
import { START_DELAY_MS } from "../lease.js";
import type { LogSwitch } from "../log-buffer.js";
import type { HeartbeatAnswer, HeartbeatAnswers, StartAnswer, StartAnswers } from "../wire.js";
import type { Held, HeldLeases } from "./held.js";
import type { ToMain } from "./messages.js";

/** The least time for an answer, even if heartbeats are more frequent. */
const ANSWER_TIMEOUT_MS_MIN = 500;
/** Timers stop while the machine sleeps, so the clock is looked at. Half of the second that is left then is enough. */
const CLOCK_CHECK_MS = 500;
/** Starts of tasks that began one after the other share a call. */
const START_SPACING_MS = 2;
/** An answer that does not come must not keep other attempts from beginning. */
const START_CALLS_MAX = 4;
const START_TRIES_MAX = 10;
const ITEMS_MAX = 1000;
/** Well below the coordinator's limit on a body; the rest goes into the next call. */
const HEARTBEAT_BYTES_MAX = 192 * 1024;
/** A killed child needs a moment to be gone. */
const KILL_AFTER_MS_MAX = 1_000;

export class Keeper {
  #heartbeatInFlight = false;
  #startCalls = 0;
  #timer: NodeJS.Timeout | undefined;
  #wakesAt = Number.POSITIVE_INFINITY;

  constructor(
    private readonly calls: Calls,
    private readonly clock: Clock,
    private readonly held: HeldLeases,
    private readonly workerId: string,
    private readonly takesLogs: LogSwitch,
    private readonly post: (message: ToMain) => void,
  ) {}

  /** Something changed: wakes when the next thing is due. */
  plan(): void {
    const now = this.clock.now();
    const next = this.#nextWake(now);
    if (next === undefined) return;
    if (this.#timer !== undefined && next >= this.#wakesAt) return;
    clearTimeout(this.#timer);
    this.#wakesAt = next;
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, next - now));
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #nextWake(now: number): number | undefined {
    let next = Number.POSITIVE_INFINITY;
    for (const { lease, hasBegun } of this.held.all()) {
      if (lease.lost !== undefined) continue;
      next = Math.min(next, lease.endsAt, hasBegun ? (lease.timesOutAt ?? next) : next);
      if (!this.#heartbeatInFlight) next = Math.min(next, lease.heartbeatDueAt());
      const start = lease.startDueAt();
      if (start !== undefined && this.#startCalls < START_CALLS_MAX)
        next = Math.min(next, Math.max(start, now + START_SPACING_MS));
    }
    return next === Number.POSITIVE_INFINITY
      ? undefined
      : Math.min(Math.max(next, now), now + CLOCK_CHECK_MS);
  }

  #wake(): void {
    this.#timer = undefined;
    const now = this.clock.now();
    this.checkClock(now);
    this.#sendHeartbeats(now);
    this.#sendStarts(now);
    this.plan();
  }

  /** Finds leases and tasks whose time is over. */
  checkClock(now: number): void {
    for (const held of this.held.all()) {
      const { lease } = held;
      if (lease.lost === undefined && lease.isLost(now)) this.lost(held, lease.lost ?? "");
      if (held.hasBegun && lease.timesOutAt !== undefined && now >= lease.timesOutAt) {
        lease.timesOutAt = undefined;
        this.tell(held, "TimedOut", "the attempt took longer than its limit");
      }
    }
  }

  /** The lease is gone for ever: the code is told, and a process of its own is killed. */
  lost(held: Held, why: string): void {
    held.lease.lose(why);
    // Nothing is left to be told or killed: the answer to a start came after the report.
    if (!this.held.holds(held)) return;
    this.held.publish(held);
    this.tell(held, "LeaseLost", why);
    if (held.pid !== undefined) killGroup(held.pid, Math.min(KILL_AFTER_MS_MAX, held.reserveMs / 2));
  }

  tell(held: Held, reason: StopReason, why: string): void {
    if (this.held.tell(held, reason)) this.post({ type: "stop", id: held.id, reason, why });
  }

  /** The coordinator renewed a lease: by a heartbeat or a checkpoint. */
  renewed(held: Held, answer: Renewal, sentAt: number, serverTime: string): void {
    const { lease } = held;
    if (lease.isLost(this.clock.now())) return this.lost(held, lease.lost ?? "");
    if (answer.leaseExpiresAt)
      lease.renewed(sentAt, Date.parse(answer.leaseExpiresAt) - Date.parse(serverTime));
    else lease.renewed(sentAt, undefined);
    if (answer.taskToken) lease.token = answer.taskToken;
    this.held.publish(held);
    if (answer.left) {
      lease.left = answer.left;
      this.post({ type: "left", id: held.id, left: answer.left });
    }
    if (answer.shouldCancel)
      this.tell(held, "CancelRequested", answer.cancelReason ?? "the run was cancelled");
    this.begin(held);
  }

  /** Lets the code begin as soon as it may. */
  begin(held: Held): void {
    if (held.hasBegun || !held.lease.mayBegin) return;
    held.hasBegun = true;
    this.post({ type: "begin", id: held.id });
  }

  #sendHeartbeats(now: number): void {
    if (this.#heartbeatInFlight) return;
    const batch: Held[] = [];
    const texts: string[] = [];
    let bytes = 0;
    for (const held of this.held.all()) {
      const { lease } = held;
      if (lease.lost !== undefined || lease.heartbeatDueAt() > now) continue;
      if (batch.length >= ITEMS_MAX || bytes > HEARTBEAT_BYTES_MAX) break;
      const item = { ...this.#about(held), heartbeatAt: new Date().toISOString(), ...lease.heartbeat(now) };
      const text = writeChecked(item);
      bytes += text.length;
      batch.push(held);
      texts.push(text);
    }
    if (batch.length > 0) void this.#heartbeats(batch, `{"heartbeats":[${texts.join(",")}]}`);
  }

  async #heartbeats(batch: Held[], body: string): Promise<void> {
    this.#heartbeatInFlight = true;
    const sentAt = this.clock.now();
    const timeoutMs = Math.max(
      ANSWER_TIMEOUT_MS_MIN,
      Math.min(...batch.map(({ lease }) => lease.intervalMs)),
    );
    const answers = await this.#ask<HeartbeatAnswers>("/v1/heartbeats", body, timeoutMs);
    this.#heartbeatInFlight = false;
    const now = this.clock.now();
    if ("refused" in answers) {
      const { code, field } = answers.refused;
      const hasLines = batch.some(({ lease }) => lease.hasSentLines);
      if (hasLines && this.takesLogs.isRefusedBy({ error: code, field: field ?? null }))
        for (const { lease } of batch) lease.heartbeatUnanswered(now);
      else this.#refused(batch, answers.refused);
    } else {
      for (const [n, held] of batch.entries()) {
        const answer = answers.value?.answers?.[n];
        if (answer?.taskId === held.taskId)
          this.#heartbeat(held, answer, sentAt, answers.value?.serverTime ?? "", now);
        else held.lease.heartbeatUnanswered(now);
      }
    }
    this.plan();
  }

  #heartbeat(held: Held, answer: HeartbeatAnswer, sentAt: number, serverTime: string, now: number): void {
    if (answer.verdict === "COMMITTED") {
      held.lease.heartbeatArrived();
      return this.renewed(held, answer, sentAt, serverTime);
    }
    if (held.lease.hasSentLines && this.takesLogs.isRefusedBy(answer))
      return held.lease.heartbeatUnanswered(now);
    if (!answer.verdict && (answer.status === 429 || answer.status === 503))
      return held.lease.heartbeatUnanswered(now);
    this.#refusal(held, answer);
  }

  #sendStarts(now: number): void {
    if (this.#startCalls >= START_CALLS_MAX) return;
    const batch = [...this.held.all()].filter((held) => this.#isStartDue(held, now)).slice(0, ITEMS_MAX);
    if (batch.length === 0) return;
    for (const { lease } of batch) lease.startSent();
    const texts = batch.map((held) =>
      writeChecked({ ...this.#about(held), startedAt: new Date(held.startedAt).toISOString() }),
    );
    const call = this.#starts(batch, `{"starts":[${texts.join(",")}]}`);
    for (const held of batch) held.startCall = call;
  }

  /** A start that may wait is due when its code has run for a while, and needless when that has ended. */
  #isStartDue(held: Held, now: number): boolean {
    const { lease } = held;
    const due = lease.startDueAt();
    if (lease.lost !== undefined || due === undefined || due > now) return false;
    if (lease.startFirst || lease.startFailures > 0) return true;
    const begun = this.held.begunAt(held);
    if (typeof begun === "number" && begun + START_DELAY_MS <= now) return true;
    lease.postponeStart(typeof begun === "number" ? begun + START_DELAY_MS : now + START_DELAY_MS);
    return false;
  }

  async #starts(batch: Held[], body: string): Promise<void> {
    this.#startCalls += 1;
    const timeoutMs = Math.max(
      ANSWER_TIMEOUT_MS_MIN,
      Math.min(...batch.map(({ lease }) => lease.intervalMs)),
    );
    const answers = await this.#ask<StartAnswers>("/v1/starts", body, timeoutMs);
    this.#startCalls -= 1;
    for (const held of batch) held.startCall = undefined;
    if ("refused" in answers) {
      this.#refused(batch, answers.refused);
    } else {
      for (const [n, held] of batch.entries()) this.#start(held, answers.value?.answers?.[n], answers.why);
    }
    this.plan();
  }

  /** The attempt may have ended meanwhile. It then no longer heeds its lease, whatever the answer says. */
  #start(held: Held, answer: StartAnswer | undefined, why: string): void {
    const { lease } = held;
    const isIts = answer?.taskId === held.taskId;
    if (isIts && answer.verdict === "COMMITTED") {
      lease.started();
      this.begin(held);
      return;
    }
    const isUndecided = !isIts || (!answer.verdict && (answer.status === 429 || answer.status === 503));
    if (!isUndecided) return this.#refusal(held, answer);
    const isRepeated = lease.startUnanswered(this.clock.now(), START_TRIES_MAX);
    if (isRepeated || !lease.startFirst) return;
    this.post({ type: "unanswered", id: held.id, why });
    this.lost(held, `its start was not answered: ${why}`);
  }

  #refusal(
    held: Held,
    answer: { status: number; verdict?: string | null; error?: string | null; message?: string | null },
  ): void {
    const code = answer.error ?? `status ${answer.status}`;
    if (answer.verdict === "REJECTED") {
      this.post({ type: "rejected", taskId: held.taskId, code, message: answer.message ?? "" });
    }
    this.lost(held, code);
  }

  #refused(batch: Held[], refusal: Refused): void {
    this.post({ type: "rejected", taskId: undefined, code: refusal.code, message: refusal.detail });
    for (const held of batch) this.lost(held, refusal.code);
  }

  #about(held: Held) {
    return {
      taskId: held.taskId,
      taskToken: held.lease.token,
      attempt: held.attempt,
      workerId: this.workerId,
    };
  }

  /** One try. A refusal with a verdict ends the leases; everything else is no answer. */
  async #ask<T>(
    path: string,
    body: string,
    timeoutMs: number,
  ): Promise<{ value: T | undefined; why: string } | { refused: Refused }> {
    const tried = await this.calls.once({ method: "POST", path, body, timeoutMs });
    if ("error" in tried) {
      const { error } = tried;
      if (error instanceof Refused && !error.retryable && error.verdict !== undefined)
        return { refused: error };
      return { value: undefined, why: error.message };
    }
    try {
      return { value: JSON.parse(new TextDecoder().decode(tried.body)) as T, why: "no answer for it" };
    } catch (error) {
      return { value: undefined, why: String(error) };
    }
  }
}

interface Renewal {
  leaseExpiresAt?: string | null;
  taskToken?: string | null;
  shouldCancel?: boolean | null;
  cancelReason?: string | null;
  left?: import("../wire.js").BudgetLeft | null;
}

/** Ends a process and its children: asked first, then killed. */
export function killGroup(pid: number, afterMs: number): void {
  signalGroup(pid, "SIGTERM");
  setTimeout(() => signalGroup(pid, "SIGKILL"), afterMs).unref();
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It is gone already.
  }
}
