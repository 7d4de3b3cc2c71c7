/**
 * Many callers of one client wait for the ends of runs, and few calls are open for all of them.
 *
 * A few waits have a call each. More share: waits that begin within a moment are one call, which is answered as soon as
 * one of its runs has ended, and the others join the next one. Nothing of a wait is stored, so a call may be dropped: when
 * a wait begins, enough calls are open and none returns soon, the oldest is dropped and its runs join the new one. That
 * costs a connection, so it is not done for runs that end in a moment.
 *
 * A coordinator that is older than the shared call answers 404. Every wait has a call of its own then.
 */
import type { Calls } from "./calls.js";
import { Protocol, Refused } from "./errors.js";
import { afterThisTurn } from "./turn.js";
import type { Run } from "./wire.js";

/** The longest that the coordinator holds a call open. */
export const WAIT_MS_MAX = 30_000;
/** So many waits have a call each: what a program with a few callers needs, at the least delay. */
const ALONE_MAX = 4;
/** The coordinator's limit of one call. */
const RUNS_PER_CALL_MAX = 256;
/** Short runs end before so many calls are open; for long ones two would be enough. */
const CALLS_WITH_ROOM_MAX = 4;
/** Waits that begin, and runs that end, within this time share a call. */
const GATHER_MS = 1;
/** How long a wait that begins gives open calls to return before the oldest is dropped for it. */
const ROOM_MS = 10;
/** The pause after an answer that says nothing before its time: the coordinator is shutting down. */
const EARLY_MS = 100;

/** What `POST /v1/waits` answers. Every run that was asked for is in exactly one of the lists. */
interface WaitAnswer {
  ended: Run[];
  pending: string[];
  notFound: string[];
}

interface Waiter {
  /** The run, which may lack its input; nothing if it must be asked for alone. */
  resolve(run: Run | undefined): void;
  reject(error: unknown): void;
}

interface Open {
  runs: string[];
  dropped: AbortController;
}

export class Waits {
  #alone = 0;
  /** Waits that began in this turn, and whether they are many. */
  #beginning = 0;
  #decision: Promise<boolean> | undefined;
  #isKnown = true;
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Runs that the next call asks for. */
  #next = new Set<string>();
  /** The oldest first. */
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;
  /** The next call is ready, and begins when an open one returns. */
  #isWaitingForRoom = false;

  constructor(private readonly calls: Calls) {}

  /** The run when it has ended, or as it is after `leftMs`. It may lack its input and its children. */
  async end(id: string, leftMs: number, signal: AbortSignal | undefined): Promise<Run> {
    if (!this.#isKnown || leftMs <= 0 || !(await this.#areMany())) return this.alone(id, leftMs, signal);
    return (await this.#shared(id, leftMs, signal)) ?? this.alone(id, leftMs, signal);
  }

  /** Whether there are many waits, with all that begin in this turn: calls of their own would only be more calls then. */
  #areMany(): Promise<boolean> {
    this.#beginning += 1;
    this.#decision ??= new Promise((resolve) =>
      afterThisTurn(() => {
        resolve(this.#alone + this.#waiters.size + this.#beginning > ALONE_MAX);
        this.#beginning = 0;
        this.#decision = undefined;
      }),
    );
    return this.#decision;
  }

  /** The same by a call of its own, which is held open no longer than the coordinator allows. */
  async alone(id: string, leftMs: number, signal: AbortSignal | undefined): Promise<Run> {
    const waitMs = Math.round(Math.min(Math.max(leftMs, 0), WAIT_MS_MAX));
    this.#alone += 1;
    try {
      const path = `/v1/runs/${id}?waitMs=${waitMs}`;
      return await this.calls.json<Run>({ method: "GET", path, waitMs, signal });
    } finally {
      this.#alone -= 1;
    }
  }

  async #shared(id: string, leftMs: number, signal: AbortSignal | undefined): Promise<Run | undefined> {
    signal?.throwIfAborted();
    let waiter: Waiter | undefined;
    let timer: NodeJS.Timeout | undefined;
    let aborted: (() => void) | undefined;
    try {
      return await new Promise<Run | undefined>((resolve, reject) => {
        waiter = { resolve, reject };
        this.#join(id, waiter);
        if (Number.isFinite(leftMs)) {
          // The run as it is then is one look away.
          timer = setTimeout(() => resolve(this.alone(id, 0, signal)), leftMs);
        }
        aborted = () => reject(signal?.reason);
        signal?.addEventListener("abort", aborted, { once: true });
      });
    } finally {
      clearTimeout(timer);
      if (aborted !== undefined) signal?.removeEventListener("abort", aborted);
      if (waiter !== undefined) this.#leave(id, waiter);
    }
  }

  #join(id: string, waiter: Waiter): void {
    const others = this.#waiters.get(id);
    if (others !== undefined) {
      others.add(waiter);
      return;
    }
    this.#waiters.set(id, new Set([waiter]));
    this.#ask(id, GATHER_MS);
  }

  /** A call for which nothing waits any more need not stay open. */
  #leave(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    if (!waiters?.delete(waiter) || waiters.size > 0) return;
    this.#waiters.delete(id);
    for (const open of this.#open) {
      if (!open.runs.includes(id) || open.runs.some((run) => this.#waiters.has(run))) continue;
      this.#open.delete(open);
      open.dropped.abort();
    }
  }

  #ask(id: string, delayMs: number): void {
    this.#next.add(id);
    this.#timer ??= setTimeout(() => this.#gathered(), delayMs);
  }

  /** Sends what has gathered, once there is a place for the call. */
  #gathered(): void {
    if (this.#withRoom().length < CALLS_WITH_ROOM_MAX) return this.#begin();
    this.#isWaitingForRoom = true;
    this.#timer = setTimeout(() => this.#begin(), ROOM_MS);
  }

  #withRoom(): Open[] {
    return [...this.#open].filter(({ runs }) => runs.length < RUNS_PER_CALL_MAX);
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isWaitingForRoom = false;
    const withRoom = this.#withRoom();
    const [oldest] = withRoom;
    if (oldest !== undefined && withRoom.length >= CALLS_WITH_ROOM_MAX) {
      this.#open.delete(oldest);
      for (const run of oldest.runs) this.#next.add(run);
      oldest.dropped.abort();
    }
    const wanted = [...this.#next].filter((id) => this.#waiters.has(id));
    this.#next.clear();
    for (let first = 0; first < wanted.length; first += RUNS_PER_CALL_MAX) {
      const open = { runs: wanted.slice(first, first + RUNS_PER_CALL_MAX), dropped: new AbortController() };
      this.#open.add(open);
      void this.#wait(open);
    }
  }

  async #wait(open: Open): Promise<void> {
    const { runs, dropped } = open;
    const sentAt = performance.now();
    const body = JSON.stringify({ runIds: runs, waitMs: WAIT_MS_MAX });
    const call = { method: "POST", path: "/v1/waits", body, waitMs: WAIT_MS_MAX } as const;
    try {
      const answer = await this.calls.json<WaitAnswer>({ ...call, signal: dropped.signal });
      this.#open.delete(open);
      this.#answered(answer, runs, performance.now() - sentAt);
      if (this.#isWaitingForRoom) this.#begin();
    } catch (error) {
      this.#open.delete(open);
      if (dropped.signal.aborted) return;
      // The call of the run itself says what is wrong, if it does not work.
      if (isUnknownRoute(error)) this.#isKnown = false;
      for (const id of runs) this.#settle(id, (waiter) => this.#failed(waiter, error));
    }
  }

  #failed(waiter: Waiter, error: unknown): void {
    if (this.#isKnown) waiter.reject(error);
    else waiter.resolve(undefined);
  }

  #answered(answer: WaitAnswer, runs: string[], tookMs: number): void {
    for (const run of answer.ended) this.#settle(run.runId, (waiter) => waiter.resolve(run));
    for (const id of answer.notFound) this.#settle(id, (waiter) => waiter.resolve(undefined));
    const isEarly = answer.pending.length === runs.length && tookMs < WAIT_MS_MAX / 2;
    for (const id of answer.pending) if (this.#waiters.has(id)) this.#ask(id, isEarly ? EARLY_MS : GATHER_MS);
  }

  #settle(id: string, tell: (waiter: Waiter) => void): void {
    const waiters = this.#waiters.get(id) ?? [];
    this.#waiters.delete(id);
    for (const waiter of waiters) tell(waiter);
  }
}

function isUnknownRoute(error: unknown): boolean {
  const isAnswer = error instanceof Refused || error instanceof Protocol;
  return isAnswer && (error.status === 404 || error.status === 405);
}
