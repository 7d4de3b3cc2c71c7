import { expect, it } from "vitest";
import { HeldLeases } from "../dist/io/held.js";
import { SLOTS_MAX, STOP_REASONS } from "../dist/io/messages.js";
import { Lease } from "../dist/lease.js";
import type { Envelope } from "../src/wire.js";

const TERMS = { ttlMs: 90_000, intervalMs: 30_000, token: "t", startFirst: false };

function hold(held: HeldLeases, leaseId: string, sentAt: number) {
  const envelope = { leaseId, taskId: `task_${leaseId}`, attempt: 1, runId: `run_${leaseId}` } as Envelope;
  const batch = { grantedAt: sentAt, size: 1, open: 1, wasFull: false };
  return held.insert(envelope, new Lease({ ...TERMS, sentAt, now: sentAt }), batch, 10_000);
}

it("what is learnt of a lease after its attempt has ended does not touch the next one in its slot", () => {
  const stops = new SharedArrayBuffer(4 * SLOTS_MAX);
  const valid = new SharedArrayBuffer(8 * SLOTS_MAX);
  const held = new HeldLeases(stops, valid, new SharedArrayBuffer(8 * SLOTS_MAX), "w");
  const first = hold(held, "first", 0);
  held.remove(first);
  const second = hold(held, "second", 1_000);
  expect(second.slot).toBe(first.slot);
  const until = Atomics.load(new BigInt64Array(valid), second.slot);

  // The start of the first was on its way when it was reported, so it is refused.
  first.lease.lose("unknown_lease");
  held.publish(first);
  expect(held.tell(first, "LeaseLost")).toBe(false);

  expect(STOP_REASONS[Atomics.load(new Int32Array(stops), second.slot)]).toBe(undefined);
  expect(Atomics.load(new BigInt64Array(valid), second.slot)).toBe(until);
  expect(held.tell(second, "LeaseLost")).toBe(true);
});
