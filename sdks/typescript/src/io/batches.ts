/**
 * Calls that carry many items: reports and checkpoints. What waits when a call returns goes into the next one.
 *
 * An item is repeated, with the same content and a bound on repetitions, only while nothing was decided about it. Each
 * item gets exactly one end.
 */
import { backoffMs, type Calls, pause } from "../calls.js";
import { Refused, type TenureError } from "../errors.js";
import { parse } from "../json.js";

/** The coordinator's limit of one call. */
const ITEMS_MAX = 1000;
/** How often an item is repeated about which nothing was decided: with the pauses some thirty seconds. */
const TRIES_MAX = 10;
const ANSWER_TIMEOUT_MS = 15_000;

/** One answer of a batch, as far as all kinds have it. */
export interface ItemAnswer {
  taskId: string;
  status: number;
  verdict?: string | null;
  error?: string | null;
  message?: string | null;
  field?: string | null;
}

export interface Item<A extends ItemAnswer> {
  taskId: string;
  tries: number;
  /** The item as JSON, made when it is sent: tokens may have changed. */
  text(): string;
  /** `place` is that of the answer among those of the call. */
  answered(answer: A, sentAt: number, serverTime: string, place: number): void;
  refused(code: string, message: string, status: number, field: string | undefined): void;
  gaveUp(why: string): void;
  /** Nothing waits for it any more. */
  isAbandoned?(): boolean;
}

export class Batches<A extends ItemAnswer> {
  #waiting: Item<A>[] = [];
  #inFlight = 0;
  #count = 0;
  #idle: Array<() => void> = [];

  constructor(
    private readonly calls: Calls,
    private readonly now: () => number,
    private readonly path: string,
    private readonly member: string,
    private readonly limits: { calls: number; bytes: number },
  ) {}

  /** Called with the bytes of an answer when all of its items were told. */
  onAnswer: (bytes: Uint8Array) => void = () => {};

  /** How many items have not ended. */
  get open(): number {
    return this.#count;
  }

  add(item: Item<A>): void {
    this.#count += 1;
    // What came in one message goes out in one call.
    if (this.#waiting.length === 0) queueMicrotask(() => this.#send());
    this.#waiting.push(item);
  }

  /** When every item has ended. */
  async drained(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #send(): void {
    while (this.#inFlight < this.limits.calls && this.#waiting.length > 0) {
      const batch = this.#take();
      if (batch.length === 0) continue;
      this.#inFlight += 1;
      this.#deliver(batch).finally(() => {
        this.#inFlight -= 1;
        this.#send();
      });
    }
  }

  #take(): Array<{ item: Item<A>; text: string }> {
    const batch: Array<{ item: Item<A>; text: string }> = [];
    let bytes = 0;
    while (this.#waiting.length > 0 && batch.length < ITEMS_MAX) {
      const item = this.#waiting[0] as Item<A>;
      if (item.isAbandoned?.()) {
        this.#waiting.shift();
        this.#ended();
        continue;
      }
      const text = item.text();
      bytes += text.length;
      if (batch.length > 0 && bytes > this.limits.bytes) break;
      this.#waiting.shift();
      batch.push({ item, text });
    }
    return batch;
  }

  async #deliver(batch: Array<{ item: Item<A>; text: string }>): Promise<void> {
    const body = `{"${this.member}":[${batch.map(({ text }) => text).join(",")}]}`;
    const sentAt = this.now();
    const tried = await this.calls.once({
      method: "POST",
      path: this.path,
      body,
      timeoutMs: ANSWER_TIMEOUT_MS,
    });
    const items = batch.map(({ item }) => item);
    if ("error" in tried) return this.#failed(items, tried.error, tried.retryAfterMs);
    const read = answersOf<A>(tried.body);
    if (read?.answers?.length !== items.length)
      return this.#again(items, "the answers do not match the calls");
    const undecided: Item<A>[] = [];
    for (const [n, item] of items.entries()) {
      const answer = read.answers[n] as A;
      const isIts = answer.taskId === item.taskId || (answer.taskId === "" && answer.verdict === "REJECTED");
      const isUndecided = !isIts || (!answer.verdict && (answer.status === 429 || answer.status === 503));
      if (isUndecided) {
        undecided.push(item);
      } else {
        this.#ended();
        item.answered(answer, sentAt, read.serverTime, n);
      }
    }
    this.onAnswer(tried.body);
    if (undecided.length > 0) await this.#again(undecided, "the coordinator was too busy");
  }

  async #failed(items: Item<A>[], error: TenureError, retryAfterMs: number | undefined): Promise<void> {
    if (error.retryable) return this.#again(items, error.message, retryAfterMs);
    const status = error instanceof Refused ? error.status : 0;
    for (const item of items) {
      this.#ended();
      item.refused(error.code, error.detail, status, error.field);
    }
  }

  async #again(items: Item<A>[], why: string, retryAfterMs = 0): Promise<void> {
    const left: Item<A>[] = [];
    for (const item of items) {
      item.tries += 1;
      if (item.tries <= TRIES_MAX) {
        left.push(item);
      } else {
        this.#ended();
        item.gaveUp(why);
      }
    }
    if (left.length === 0) return;
    await pause(Math.max(backoffMs((left[0]?.tries ?? 1) - 1), retryAfterMs));
    this.#waiting.unshift(...left);
  }

  #ended(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** The answers, or nothing if a part of them is missing. */
function answersOf<A>(body: Uint8Array): { answers: A[]; serverTime: string } | undefined {
  try {
    return parse(new TextDecoder().decode(body)) as { answers: A[]; serverTime: string };
  } catch {
    return undefined;
  }
}
