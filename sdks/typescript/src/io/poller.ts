/**
 * Fetches work: as many tasks as there are free slots, with one long poll at a time.
 *
 * A poll keeps its id until it is answered, so leases whose answer was lost are returned again instead of expiring.
 * Without a given concurrency a worker begins with 8 slots, and doubles them while whole batches end within 50 ms: short
 * tasks are fast by default, and long ones are not hoarded.
 */
import { backoffMs, type Calls, pause } from "../calls.js";
import type { Clock } from "../clock.js";
import { Refused, type TenureError } from "../errors.js";
import type { Leases } from "../wire.js";
import type { Batch, HeldLeases } from "./held.js";
import { type IoOptions, SLOTS_MAX, type ToMain } from "./messages.js";

/** The longest that the coordinator holds a poll open. */
const WAIT_MS = 30_000;
/** The coordinator's limit of one poll. */
const LEASES_MAX = 256;
/** How long a free slot waits for others that may be polled for together. */
const REFILL_MS = 1;
/** How long every slot must be taken before the worker polls for signals alone. */
const LISTEN_AFTER_MS = 1_000;
/** Within this time the main thread must answer before more work is fetched for it. */
const PING_MS = 250;
const CONCURRENCY_MIN = 8;
const CONCURRENCY_GROWN_MAX = 256;
/** From so many slots on, a poll asks for half of them: one half is fetched and reported while the other one runs. */
const HALVES_FROM = 64;
/** A batch that ends within this time is one of short tasks. */
const SHORT_BATCH_MS = 50;
/** How often a poll is repeated before the worker says that nothing answers: some two seconds. */
const SILENT_TRIES = 4;
const REMIND_MS = 60_000;
/** At most so many reports wait: a slow coordinator slows polling, and nothing grows. */
const REPORTS_MAX = 1000;

export type Grant = (leases: Leases, bytes: Uint8Array, sentAt: number, batch: Batch) => void;

export class Poller {
  #concurrency: number;
  readonly #grows: boolean;
  #draining = false;
  #stuck = 0;
  #heardAt = 0;
  /** Whether the coordinator knows what this worker announces, or does not know what that is. */
  #announced: "not yet" | "yes" | "unsupported" = "not yet";
  #changed: Array<() => void> = [];
  /** Ends the call that is open. */
  #open: AbortController | undefined;
  #ended: Promise<void> | undefined;

  constructor(
    private readonly calls: Calls,
    private readonly clock: Clock,
    private readonly options: IoOptions,
    private readonly held: HeldLeases,
    private readonly openReports: () => number,
    private readonly grant: Grant,
    private readonly release: Grant,
    private readonly post: (message: ToMain) => void,
  ) {
    this.#grows = options.concurrency === undefined;
    this.#concurrency = Math.min(options.concurrency ?? CONCURRENCY_MIN, SLOTS_MAX);
  }

  get concurrency(): number {
    return this.#concurrency;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** The main thread spoke. */
  heard(): void {
    this.#heardAt = this.clock.now();
    this.changed();
  }

  /** A slot is free, or something else that polls wait for. */
  changed(): void {
    for (const resolve of this.#changed.splice(0)) resolve();
  }

  /** All leases of a batch have ended. */
  batchEnded(batch: Batch): void {
    const isShort = this.clock.now() - batch.grantedAt <= SHORT_BATCH_MS;
    if (this.#grows && isShort && batch.wasFull && batch.size === this.#share) {
      this.#concurrency = Math.min(this.#concurrency * 2, CONCURRENCY_GROWN_MAX);
    }
  }

  /** No more polls. The open one is closed, and repeated once for leases that were granted in between. */
  async drain(): Promise<void> {
    this.#draining = true;
    this.#open?.abort(DRAINING);
    this.changed();
    await this.#ended;
  }

  /** So many slots hold code that does not stop. If all do, the worker is of no use. */
  stuck(count: number): void {
    this.#stuck = count;
    if (count < this.#concurrency) return this.changed();
    const message = `all ${count} slots hold code that was told to stop and goes on`;
    this.post({ type: "refused", code: "worker_stuck", message });
  }

  #free(): number {
    return this.#concurrency - this.held.size - this.#stuck;
  }

  /** The most leases of one poll. */
  get #share(): number {
    return this.#concurrency < HALVES_FROM ? this.#concurrency : Math.ceil(this.#concurrency / 2);
  }

  async #run(): Promise<void> {
    while (!this.#draining) {
      if (!(await this.#waitForRoom())) continue;
      const refusal = await this.#poll(Math.min(this.#free(), this.#share, LEASES_MAX));
      if (refusal !== undefined) {
        this.post({ type: "refused", code: refusal.code, message: refusal.message });
        return;
      }
    }
  }

  /** Waits for free slots, for room for reports, and for a main thread that answers. */
  async #waitForRoom(): Promise<boolean> {
    if (this.#free() <= 0 || this.openReports() >= REPORTS_MAX) {
      await this.#listenUntilFree();
      return false;
    }
    // Reports that free slots are on their way before the poll that fills them.
    if (this.#free() < this.#share || this.openReports() > 0) {
      await this.#change(REFILL_MS);
      if (this.#free() <= 0) return false;
    }
    if (this.clock.now() - this.#heardAt > PING_MS) {
      this.post({ type: "ping" });
      await this.#change(PING_MS);
      return this.clock.now() - this.#heardAt <= PING_MS;
    }
    return true;
  }

  /** Waits for a change, or until the time is over. */
  async #change(ms?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.#changed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** While every slot is taken, a poll for nothing brings word that a running task has a signal. */
  async #listenUntilFree(): Promise<void> {
    const isFull = () => !this.#draining && (this.#free() <= 0 || this.openReports() >= REPORTS_MAX);
    const since = this.clock.now();
    while (isFull() && this.clock.now() - since < LISTEN_AFTER_MS) await this.#change(LISTEN_AFTER_MS);
    while (isFull()) {
      const listening = new AbortController();
      this.#open = listening;
      const call = this.#listen(listening.signal);
      while (isFull() && this.#open === listening) await Promise.race([this.#change(), call]);
      listening.abort(DRAINING);
      await call;
    }
  }

  async #listen(signal: AbortSignal): Promise<void> {
    const { workerId, queues, kinds } = this.options;
    const body = this.#announcing({ workerId, queues, kinds, max: 0, waitMs: WAIT_MS });
    try {
      const tried = await this.calls.once({
        method: "POST",
        path: "/v1/leases",
        body,
        waitMs: WAIT_MS,
        signal,
      });
      if (!("error" in tried)) {
        const leases = JSON.parse(new TextDecoder().decode(tried.body)) as Leases;
        this.#heardAbout(leases);
        this.#hurry(leases);
      } else if (!this.#mayNotAnnounce(tried.error)) {
        await pause(LISTEN_AFTER_MS, signal);
      }
    } catch (error) {
      if (error !== DRAINING) throw error;
    } finally {
      this.#open = undefined;
    }
  }

  /** One poll, repeated with the same body until it is answered. Returns why this worker was refused. */
  async #poll(max: number): Promise<TenureError | undefined> {
    const { workerId, queues, kinds } = this.options;
    const request = { workerId, queues, kinds, max, pollId: crypto.randomUUID() };
    let body = this.#announcing({ ...request, waitMs: WAIT_MS });
    const wasFull = max === this.#share;
    const sentAt = this.clock.now();
    let saidAt: number | undefined;
    for (let tries = 0; ; tries++) {
      const answer = await this.#once(body, WAIT_MS);
      if (answer === "drained") {
        await this.#lastPoll(this.#announcing({ ...request, waitMs: 0 }), sentAt);
        return undefined;
      }
      if ("leases" in answer) {
        this.#granted(answer, sentAt, wasFull, this.grant);
        return undefined;
      }
      if (this.#mayNotAnnounce(answer.error)) {
        body = this.#announcing({ ...request, waitMs: WAIT_MS });
        continue;
      }
      if (answer.error instanceof Refused && !answer.error.retryable) return answer.error;
      const now = this.clock.now();
      if (tries >= SILENT_TRIES && (saidAt === undefined || now - saidAt >= REMIND_MS)) {
        saidAt = now;
        this.post({ type: "unreachable", why: answer.error.message });
      }
      await this.#pause(tries, answer.retryAfterMs);
    }
  }

  /** A poll with what the coordinator has yet to hear about this worker, or with the name of it. */
  #announcing(poll: object): string {
    const text = JSON.stringify(poll);
    const { id, text: announcement } = this.options.announcement;
    if (this.#announced === "unsupported") return text;
    const member = this.#announced === "yes" ? `"announced":"${id}"` : `"announce":${announcement}`;
    return `${text.slice(0, -1)},${member}}`;
  }

  /** A coordinator that is older than announcements refuses the member, whatever it calls it. */
  #mayNotAnnounce(error: TenureError): boolean {
    const isRefused = error instanceof Refused && error.code === "invalid_argument";
    if (!isRefused || this.#announced === "unsupported") return false;
    this.#announced = "unsupported";
    return true;
  }

  async #pause(tries: number, retryAfterMs: number | undefined): Promise<void> {
    this.#open = new AbortController();
    try {
      await pause(Math.max(backoffMs(tries), retryAfterMs ?? 0), this.#open.signal);
    } catch (error) {
      if (error !== DRAINING) throw error;
    } finally {
      this.#open = undefined;
    }
  }

  async #once(
    body: string,
    waitMs: number,
  ): Promise<
    | { leases: Leases; bytes: Uint8Array }
    | "drained"
    | { error: TenureError; retryAfterMs: number | undefined }
  > {
    if (this.#draining) return "drained";
    this.#open = new AbortController();
    const { signal } = this.#open;
    try {
      const tried = await this.calls.once({ method: "POST", path: "/v1/leases", body, waitMs, signal });
      if ("error" in tried) return tried;
      return { leases: JSON.parse(new TextDecoder().decode(tried.body)) as Leases, bytes: tried.body };
    } catch (error) {
      if (error === DRAINING) return "drained";
      throw error;
    } finally {
      this.#open = undefined;
    }
  }

  /** What was granted while the poll was closed is handed back. */
  async #lastPoll(body: string, sentAt: number): Promise<void> {
    const tried = await this.calls.once({ method: "POST", path: "/v1/leases", body, waitMs: 0 });
    if ("error" in tried) return;
    const leases = JSON.parse(new TextDecoder().decode(tried.body)) as Leases;
    this.#granted({ leases, bytes: tried.body }, sentAt, false, this.release);
  }

  #granted(
    { leases, bytes }: { leases: Leases; bytes: Uint8Array },
    sentAt: number,
    wasFull: boolean,
    to: Grant,
  ): void {
    this.#heardAbout(leases);
    this.#hurry(leases);
    if (leases.leases.length === 0) return;
    const size = leases.leases.length;
    to(leases, bytes, sentAt, { grantedAt: this.clock.now(), size, open: 0, wasFull });
  }

  #heardAbout(leases: Leases): void {
    if (this.#announced !== "unsupported") this.#announced = leases.announceAgain ? "not yet" : "yes";
  }

  #hurry(leases: Leases): void {
    for (const { taskId } of leases.signals ?? []) this.held.ofTask(taskId)?.lease.hurry();
    if ((leases.signals ?? []).length > 0) this.onHurry();
  }

  /** Heartbeats are due at once. */
  onHurry: () => void = () => {};
}

/** Why an open call is closed. */
const DRAINING = new Error("the worker no longer waits for it");
