/** What the main thread and the I/O thread of a worker say to each other, and the memory that they share. */

import type { Announcement } from "../announcement.js";
import type { ClockBase } from "../clock.js";
import type { StopReason } from "../context.js";
import type { LogLevel } from "../log.js";
import type { Amounts } from "../options.js";
import type { BudgetLeft, CheckpointAnswer, Outcome } from "../wire.js";

/** The most slots that a worker has. */
export const SLOTS_MAX = 1000;

export interface IoOptions {
  urls: string[];
  apiKey: string;
  caFile: string | undefined;
  workerId: string;
  queues: string[];
  kinds: string[];
  announcement: Announcement;
  /** Whether lines of tasks are sent: they are plain text, which a worker with a codec does not send. */
  logs: boolean;
  /** Absent: begins at 8 and grows while tasks are short. */
  concurrency: number | undefined;
  clock: ClockBase;
  /** One cell per slot: 0, or the number of a {@link StopReason}. */
  stops: SharedArrayBuffer;
  /** One cell per slot: until when its lease is valid, in microseconds of the clock; 0 if that is not proven. */
  valid: SharedArrayBuffer;
  /** One cell per slot: when its code began, in microseconds of the clock; 0 before that, and -1 when it has ended. */
  begun: SharedArrayBuffer;
}

export const STOP_REASONS: readonly (StopReason | undefined)[] = [
  undefined,
  "CancelRequested",
  "TimedOut",
  "ShuttingDown",
  "LeaseLost",
];

/** A lease that the I/O thread has accepted: where in the answer it is, and whether its code may begin. */
export interface Granted {
  index: number;
  id: number;
  slot: number;
  begins: boolean;
}

const GRANT_CELLS = 4;

/** Leases as numbers: an object for each would cost more to clone than the lease to read. */
export function packGrants(granted: readonly Granted[]): Int32Array {
  const cells = new Int32Array(granted.length * GRANT_CELLS);
  for (const [n, { index, id, slot, begins }] of granted.entries())
    cells.set([index, id, slot, begins ? 1 : 0], n * GRANT_CELLS);
  return cells;
}

export function* unpackGrants(cells: Int32Array): Generator<Granted> {
  for (let n = 0; n < cells.length; n += GRANT_CELLS) {
    const [index = 0, id = 0, slot = 0, begins] = cells.subarray(n, n + GRANT_CELLS);
    yield { index, id, slot, begins: begins === 1 };
  }
}

/** How a report ended. */
export type Reported =
  | { verdict: "COMMITTED" }
  | { verdict: "CANCELLED"; why: string }
  | { verdict: "REJECTED"; code: string; message: string; status: number }
  | { verdict: "UNANSWERED"; why: string };

/** How a checkpoint call ended. */
export type Called =
  | { committed: CheckpointAnswer; serverTime: string }
  | { lost: string }
  | { refused: { code: string; message: string } }
  | { unanswered: string };

export type ToMain =
  /** The bytes of an answer with leases; `single` if it is one envelope of a next stage. */
  | { type: "leases"; bytes: Uint8Array; granted: Int32Array; single: boolean }
  | { type: "begin"; id: number }
  | { type: "stop"; id: number; reason: StopReason; why: string }
  | { type: "left"; id: number; left: BudgetLeft | undefined }
  /** The bytes of an answer to checkpoints; `calls` has the call of each item, or 0 where it is told otherwise. */
  | { type: "answered"; bytes: Uint8Array; calls: number[] }
  | { type: "called"; call: number; answer: Called }
  | { type: "page"; call: number; answer: { page: Uint8Array } | { lost: string } | { failed: string } }
  /** Reports that were accepted: most of them, so they travel as numbers. */
  | { type: "committed"; ids: number[] }
  | { type: "reported"; id: number; reported: Reported }
  | { type: "rejected"; taskId: string | undefined; code: string; message: string }
  | { type: "unanswered"; id: number; why: string }
  | { type: "unreachable"; why: string }
  | { type: "refused"; message: string; code: string }
  | { type: "ping" }
  | { type: "finished" };

/** A report for delivery. `next` asks for the next stage; `riders` says that steps or children ride along. */
export interface FiledReport {
  id: number;
  text: string;
  outcome: Outcome;
  next: boolean;
  riders: boolean;
}

const OUTCOMES: readonly Outcome[] = ["SUCCEEDED", "FAILED", "CANCELLED", "RELEASED"];

/** What a report says beside its text, as a number. */
export function flagsOf({ outcome, next, riders }: Omit<FiledReport, "id" | "text">): number {
  return OUTCOMES.indexOf(outcome) + (next ? 8 : 0) + (riders ? 16 : 0);
}

export function unpackReport(id: number, text: string, flags: number): FiledReport {
  const outcome = OUTCOMES[flags & 7] as Outcome;
  return { id, text, outcome, next: (flags & 8) !== 0, riders: (flags & 16) !== 0 };
}

export type ToIo =
  /**
   * Reports and calls, many in one message: an object for each would cost more to clone than its text. A text is a JSON
   * object without task, token, attempt and worker.
   */
  | { type: "reports"; ids: number[]; flags: number[]; texts: string[] }
  | { type: "calls"; calls: number[]; ids: number[]; texts: string[] }
  | { type: "page"; call: number; id: number; after: number }
  | { type: "progress"; id: number; pct: number | undefined; message: string | undefined }
  | { type: "spend"; id: number; total: Amounts }
  | { type: "log"; id: number; level: LogLevel; text: string }
  /** The attempt is over, and there is nothing to report. */
  | { type: "closed"; id: number }
  /** The code runs in this process, which must be gone when the lease is lost. */
  | { type: "isolated"; id: number; pid: number | undefined }
  /** So many slots hold code that was told to stop and goes on. */
  | { type: "stuck"; count: number }
  | { type: "pong" }
  /** No more polls. */
  | { type: "drain" }
  /** Deliver what is left and end. */
  | { type: "finish" };
