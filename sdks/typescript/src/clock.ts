/**
 * The clock by which a worker trusts its leases: it is never set, and it counts time in which the machine slept.
 *
 * There are two clocks, and the one that ran further counts: the monotonic clock, and the uptime of the machine, which
 * goes on during sleep. Both are the same in all threads, so threads of one process can compare moments.
 */
import { uptime } from "node:os";

/** Where the two clocks stood when the worker began. */
export interface ClockBase {
  monotonicMs: number;
  uptimeMs: number;
}

function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

export function clockBase(): ClockBase {
  return { monotonicMs: monotonicMs(), uptimeMs: uptime() * 1000 };
}

export class Clock {
  constructor(private readonly base: ClockBase) {}

  /** Milliseconds since the base. */
  now(): number {
    return Math.max(monotonicMs() - this.base.monotonicMs, uptime() * 1000 - this.base.uptimeMs);
  }
}
