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

/** The uptime is read from the kernel at most this often: a machine that slept is noticed that much later. */
const UPTIME_READ_MS = 50;

export class Clock {
  /** How much further the uptime ran than the monotonic clock, when it was read last. */
  #sleptMs = 0;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly base: ClockBase) {}

  /** Milliseconds since the base. */
  now(): number {
    let monotonic = monotonicMs() - this.base.monotonicMs;
    if (monotonic - this.#readAt >= UPTIME_READ_MS) {
      const up = uptime() * 1000 - this.base.uptimeMs;
      // Read again: a thread that had to wait in between would take that for sleep.
      monotonic = monotonicMs() - this.base.monotonicMs;
      this.#readAt = monotonic;
      this.#sleptMs = Math.max(this.#sleptMs, up - monotonic);
    }
    return monotonic + this.#sleptMs;
  }
}
