/** The trust rule: how long a worker believes in a lease. Moments are numbers, so nothing here waits. */
import { describe, expect, it } from "vitest";
import { Lease, usableMs } from "../dist/lease.js";

const lease = (terms: Partial<ConstructorParameters<typeof Lease>[0]> = {}) =>
  new Lease({ ttlMs: 10_000, intervalMs: 3_000, sentAt: 0, now: 0, token: "t", startFirst: false, ...terms });

describe("a lease", () => {
  it("is used for nine tenths less a second, or three quarters if it is short", () => {
    // S3-10
    expect([90_000, 10_000, 2_500, 2_000].map(usableMs)).toEqual([80_000, 8_000, 1_875, 1_500]);
  });

  it("counts from before the poll was sent", () => {
    const held = lease({ sentAt: 100, now: 900 });
    expect(held.validUntil).toBe(8_100);
    expect(held.isLost(8_099)).toBe(false);
    expect(held.isLost(8_100)).toBe(true);
  });

  it("is unproven after a long poll: a heartbeat goes first, and the code waits", () => {
    const held = lease({ sentAt: 0, now: 5_000 });
    expect(held.mayBegin).toBe(false);
    expect(held.heartbeatDueAt()).toBe(5_000);
    held.heartbeat(5_000);
    held.renewed(5_000, 10_000);
    expect(held.mayBegin).toBe(true);
    expect(held.validUntil).toBe(13_000);
  });

  it("is lost if it is not proven in time", () => {
    const held = lease({ sentAt: 0, now: 5_000 });
    expect(held.isLost(12_999)).toBe(false);
    expect(held.isLost(13_000)).toBe(true);
  });

  it("stays lost, whatever a late answer says", () => {
    // S3-48
    const held = lease();
    expect(held.isLost(8_000)).toBe(true);
    held.renewed(7_900, 10_000);
    expect(held.isLost(8_001)).toBe(true);
    expect(held.validUntil).toBe(8_000);
    expect(held.mayBegin).toBe(false);
  });

  it("is not shortened by the answer to an older request", () => {
    const held = lease();
    held.renewed(2_000, 10_000);
    held.renewed(1_000, 10_000);
    expect(held.validUntil).toBe(10_000);
  });

  it("ends with the shorter of its length and of what the answer says", () => {
    const held = lease();
    held.renewed(1_000, 2_000);
    expect(held.validUntil).toBe(2_500);
    expect(held.heartbeatDueAt()).toBe(1_750);
    held.renewed(2_000, 60_000);
    expect(held.validUntil).toBe(10_000);
  });

  it("repeats an unanswered heartbeat after 100 ms, doubling up to the interval", () => {
    const held = lease();
    const gaps = [0, 1, 2, 3, 4, 5, 6].map(() => {
      held.heartbeat(1_000);
      held.heartbeatUnanswered(1_000);
      return held.heartbeatDueAt() - 1_000;
    });
    expect(gaps).toEqual([100, 200, 400, 800, 1_600, 3_000, 3_000]);
  });

  it("sends new progress at most every three seconds, and what was used as a sum", () => {
    const held = lease({ intervalMs: 30_000, ttlMs: 90_000 });
    held.progress(10, "a");
    held.spend({ tokens: 5 });
    expect(held.heartbeatDueAt()).toBe(3_000);
    expect(held.heartbeat(3_000)).toEqual({ progressPct: 10, message: "a", spend: { tokens: 5 } });
    held.renewed(3_000, 90_000);
    held.progress(20, undefined);
    expect(held.heartbeatDueAt()).toBe(6_000);
  });

  it("sends a hurried heartbeat at once", () => {
    const held = lease();
    held.hurry();
    expect(held.heartbeatDueAt()).toBe(0);
  });

  it("lets the code of a later attempt begin after the start is acknowledged", () => {
    const held = lease({ startFirst: true });
    expect([held.mayBegin, held.startDueAt()]).toEqual([false, 0]);
    held.startSent();
    held.started();
    expect([held.mayBegin, held.startDueAt()]).toEqual([true, undefined]);
    expect(lease().startDueAt()).toBe(5);
  });
});
