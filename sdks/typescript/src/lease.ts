/**
 * How long a lease may be trusted, and when it needs a call: a start, a heartbeat, or the notice that it is over.
 *
 * The lease is trusted until a moment counted from *before* the request was sent that renewed it, so the coordinator's
 * lease always ends later, however long the answer took. A lost lease is never regained. Moments are those of one
 * {@link Clock}; this module reads none.
 */
import type { LogLevel } from "./log.js";
import { LogBuffer, LogSwitch } from "./log-buffer.js";
import type { Amounts } from "./options.js";
import type { BudgetLeft } from "./wire.js";

/** Reserve for the network time of a last write, beside the tenth for clocks that run at different speeds. */
const MARGIN_MS = 1_000;
/** After an unanswered heartbeat or start; it doubles, up to the interval. */
const BACKOFF_MS = 100;
/** A report implies the start, so shorter tasks need no call of their own. */
export const START_DELAY_MS = 5;
/** The least time between two heartbeats that bring new progress. */
const PROGRESS_SPACING_MS = 3_000;

/** How much of a lease its worker uses: 90 s → 80 s, 10 s → 8 s, 2 s → 1.5 s. */
export function usableMs(ttlMs: number): number {
  const long = 0.9 * ttlMs - MARGIN_MS;
  return long > ttlMs / 2 ? long : 0.75 * ttlMs;
}

export interface LeaseTerms {
  ttlMs: number;
  intervalMs: number;
  /** When the request was sent that brought the lease. */
  sentAt: number;
  now: number;
  token: string;
  /** The coordinator must know of the start before the code runs. */
  startFirst: boolean;
  timeoutMs?: number | undefined;
  /** Whether the coordinator takes lines. */
  takesLogs?: LogSwitch;
}

type StartState = { dueAt: number } | "sent" | "settled";

export class Lease {
  token: string;
  /** Absent until the lease is proven valid. */
  validUntil: number | undefined;
  lost: string | undefined;
  left: BudgetLeft | undefined;
  isStarted = false;
  startFailures = 0;
  /** When the code has had its time; absent without a limit, and after the code was told. */
  timesOutAt: number | undefined;
  readonly intervalMs: number;
  readonly startFirst: boolean;
  /** What the code logs, until the coordinator has it. */
  readonly log: LogBuffer;
  readonly #ttlMs: number;
  readonly #unprovenUntil: number;
  #renewedAt: number;
  #heartbeatAt: number;
  #heartbeatFailures = 0;
  #isHurried = false;
  #sentAt: number;
  #start: StartState;
  #progress: { pct?: number; message?: string } = {};
  #spend: Amounts | undefined;
  #hasNews = false;
  /** The number of the last line of the last heartbeat. */
  #linesSent = 0;

  constructor(terms: LeaseTerms) {
    const { ttlMs, intervalMs, sentAt, now, startFirst } = terms;
    const left = sentAt + usableMs(ttlMs) - now;
    const isProven = left >= usableMs(ttlMs) / 2;
    this.token = terms.token;
    this.log = new LogBuffer(terms.takesLogs ?? new LogSwitch(false));
    this.startFirst = startFirst;
    this.intervalMs = intervalMs;
    this.#ttlMs = ttlMs;
    this.validUntil = isProven ? sentAt + usableMs(ttlMs) : undefined;
    this.#unprovenUntil = now + usableMs(ttlMs);
    this.#renewedAt = sentAt;
    this.#sentAt = now;
    this.#heartbeatAt = isProven ? now + Math.min(intervalMs, left / 2) : now;
    this.#start = { dueAt: startFirst ? now : now + START_DELAY_MS };
    this.timesOutAt = terms.timeoutMs === undefined ? undefined : now + terms.timeoutMs;
  }

  /** Whether the code may begin. */
  get mayBegin(): boolean {
    return this.lost === undefined && this.validUntil !== undefined && (this.isStarted || !this.startFirst);
  }

  get endsAt(): number {
    return this.validUntil ?? this.#unprovenUntil;
  }

  /** Notices that its time is over. Returns whether it is lost. */
  isLost(now: number): boolean {
    if (this.lost === undefined && now >= this.endsAt)
      this.lost = "the worker's own deadline passed without a renewal";
    return this.lost !== undefined;
  }

  lose(why: string): void {
    this.lost ??= why;
  }

  /**
   * The coordinator renewed it in answer to a request that was sent at `sentAt`. The shorter of its full length and of
   * what the answer says counts; an answer to an earlier request says nothing new.
   */
  renewed(sentAt: number, leftMs: number | undefined): void {
    if (this.lost !== undefined || sentAt < this.#renewedAt) return;
    this.#renewedAt = sentAt;
    const ttlMs = Math.min(this.#ttlMs, leftMs ?? this.#ttlMs);
    this.validUntil = sentAt + usableMs(ttlMs);
    this.#heartbeatFailures = 0;
    this.#heartbeatAt = sentAt + Math.min(this.intervalMs, usableMs(ttlMs) / 2);
  }

  // Heartbeats.

  heartbeatDueAt(): number {
    if (this.#isHurried) return 0;
    // After a heartbeat that got no answer the backoff counts, and the next one brings the news anyway.
    if (!this.#hasNews || this.#heartbeatFailures > 0) return this.#heartbeatAt;
    return Math.min(this.#heartbeatAt, this.#sentAt + PROGRESS_SPACING_MS);
  }

  /** The content of a heartbeat that is sent now. */
  heartbeat(now: number): { progressPct?: number; message?: string; spend?: Amounts; log?: object[] } {
    this.#sentAt = now;
    this.#isHurried = false;
    this.#hasNews = false;
    // Not due again before the answer, or its timeout.
    this.#heartbeatAt = Number.POSITIVE_INFINITY;
    const { pct, message } = this.#progress;
    const log = this.log.take();
    this.#linesSent = log?.last ?? 0;
    return {
      ...(pct === undefined ? {} : { progressPct: pct }),
      ...(message === undefined ? {} : { message }),
      ...(this.#spend === undefined ? {} : { spend: this.#spend }),
      ...(log === undefined ? {} : { log: log.lines }),
    };
  }

  /** The heartbeat was accepted, and what it brought. */
  heartbeatArrived(): void {
    this.log.arrived(this.#linesSent);
    if (!this.log.isEmpty) this.#hasNews = true;
  }

  /** Whether the last heartbeat had lines. */
  get hasSentLines(): boolean {
    return this.#linesSent > 0;
  }

  heartbeatUnanswered(now: number): void {
    const backoff = BACKOFF_MS * 2 ** Math.min(this.#heartbeatFailures, 16);
    this.#heartbeatFailures += 1;
    this.#heartbeatAt = now + Math.min(backoff, this.intervalMs);
  }

  /** A signal waits for it: the next heartbeat brings it. */
  hurry(): void {
    this.#isHurried = true;
  }

  progress(pct: number | undefined, message: string | undefined): void {
    this.#progress = { ...(pct === undefined ? {} : { pct }), ...(message === undefined ? {} : { message }) };
    this.#hasNews = true;
  }

  /** Adds a line to the log of the attempt. */
  logged(level: LogLevel, text: string): void {
    this.log.add(level, text);
    if (!this.log.isEmpty) this.#hasNews = true;
  }

  /** What the attempt has used in all. */
  spend(total: Amounts): void {
    this.#spend = total;
    this.#hasNews = true;
  }

  get spent(): Amounts | undefined {
    return this.#spend;
  }

  // Starts.

  startDueAt(): number | undefined {
    return typeof this.#start === "object" ? this.#start.dueAt : undefined;
  }

  /** It is looked at again then. */
  postponeStart(until: number): void {
    this.#start = { dueAt: until };
  }

  startSent(): void {
    this.#start = "sent";
  }

  started(): void {
    this.#start = "settled";
    this.isStarted = true;
  }

  /** Sends it again later, unless it was tried too often. */
  startUnanswered(now: number, triesMax: number): boolean {
    if (this.startFailures >= triesMax) {
      this.#start = "settled";
      return false;
    }
    const backoff = BACKOFF_MS * 2 ** Math.min(this.startFailures, 16);
    this.startFailures += 1;
    this.#start = { dueAt: now + Math.min(backoff, this.intervalMs) };
    return true;
  }
}
