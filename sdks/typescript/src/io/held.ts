/**
 * The leases that a worker holds, and the slots that they take.
 *
 * A slot is used again as soon as an attempt has ended, and answers to calls about that attempt may still come. They
 * change nothing in the memory of the slot.
 */
import type { StopReason } from "../context.js";
import type { Lease } from "../lease.js";
import type { Envelope } from "../wire.js";
import { SLOTS_MAX, STOP_REASONS } from "./messages.js";

export interface Held {
  id: number;
  slot: number;
  lease: Lease;
  leaseId: string;
  taskId: string;
  attempt: number;
  /** The members that every call about it has, up to the value of its token, which changes. */
  about: string;
  runId: string;
  hasBegun: boolean;
  stopped: StopReason | undefined;
  /** The process of an isolated task. */
  pid: number | undefined;
  /** What is left of a lease when its worker stops trusting it. */
  reserveMs: number;
  batch: Batch;
  /** As the machine's clock has it. Most attempts end before a start is written, so it stays a number. */
  startedAt: number;
  /** Settles when the start that is on its way was answered, or was not. */
  startCall: Promise<void> | undefined;
}

/** Leases that came together, to notice whether they end soon. */
export interface Batch {
  grantedAt: number;
  size: number;
  open: number;
  wasFull: boolean;
}

export class HeldLeases {
  readonly #byId = new Map<number, Held>();
  readonly #leaseIds = new Set<string>();
  readonly #free: number[] = [];
  readonly #stops: Int32Array;
  readonly #valid: BigInt64Array;
  readonly #begun: BigInt64Array;
  readonly #workerId: string;
  #nextId = 1;

  constructor(
    stops: SharedArrayBuffer,
    valid: SharedArrayBuffer,
    begun: SharedArrayBuffer,
    workerId: string,
  ) {
    this.#workerId = JSON.stringify(workerId);
    this.#stops = new Int32Array(stops);
    this.#valid = new BigInt64Array(valid);
    this.#begun = new BigInt64Array(begun);
    for (let slot = SLOTS_MAX - 1; slot >= 0; slot--) this.#free.push(slot);
  }

  get size(): number {
    return this.#byId.size;
  }

  has(leaseId: string): boolean {
    return this.#leaseIds.has(leaseId);
  }

  get(id: number): Held | undefined {
    return this.#byId.get(id);
  }

  all(): IterableIterator<Held> {
    return this.#byId.values();
  }

  ofTask(taskId: string): Held | undefined {
    for (const held of this.#byId.values()) if (held.taskId === taskId) return held;
    return undefined;
  }

  insert(envelope: Envelope, lease: Lease, batch: Batch, reserveMs: number): Held {
    const slot = this.#free.pop();
    if (slot === undefined) throw new Error("a lease is accepted only when a slot is free");
    const { leaseId, taskId, attempt, runId } = envelope;
    const held: Held = {
      id: this.#nextId++,
      slot,
      lease,
      leaseId,
      taskId,
      attempt,
      about: `{"taskId":${JSON.stringify(taskId)},"attempt":${attempt},"workerId":${this.#workerId},"taskToken":`,
      runId,
      hasBegun: false,
      stopped: undefined,
      pid: undefined,
      reserveMs,
      batch,
      startedAt: Date.now(),
      startCall: undefined,
    };
    this.#byId.set(held.id, held);
    this.#leaseIds.add(leaseId);
    Atomics.store(this.#stops, slot, 0);
    Atomics.store(this.#begun, slot, 0n);
    this.publish(held);
    return held;
  }

  /** When the code began, in milliseconds of the clock; undefined before that, and "ended" when it is over. */
  begunAt(held: Held): number | "ended" | undefined {
    const begun = Atomics.load(this.#begun, held.slot);
    return begun === 0n ? undefined : begun < 0n ? "ended" : Number(begun) / 1000;
  }

  /** Whether its attempt goes on. A slot belongs to another lease soon after. */
  holds(held: Held): boolean {
    return this.#byId.get(held.id) === held;
  }

  /** Lets the other thread see until when the lease is valid. */
  publish(held: Held): void {
    if (!this.holds(held)) return;
    const { validUntil, lost } = held.lease;
    const until =
      lost !== undefined ? 1n : validUntil === undefined ? 0n : BigInt(Math.round(validUntil * 1000));
    Atomics.store(this.#valid, held.slot, until);
  }

  /** Tells the code, also code that never yields. A lost lease overrides every other reason. */
  tell(held: Held, reason: StopReason): boolean {
    if (!this.holds(held)) return false;
    if (held.stopped !== undefined && (reason !== "LeaseLost" || held.stopped === "LeaseLost")) return false;
    held.stopped = reason;
    Atomics.store(this.#stops, held.slot, STOP_REASONS.indexOf(reason));
    return true;
  }

  remove(held: Held): void {
    if (!this.#byId.delete(held.id)) return;
    this.#leaseIds.delete(held.leaseId);
    this.#free.push(held.slot);
  }
}
