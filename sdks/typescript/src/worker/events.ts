/** What a worker tells its operator. */
import type { Outcome } from "../wire.js";

export type WorkerEvent =
  /** The report was accepted: the attempt is over. `error` says why it failed. */
  | { type: "Committed"; taskId: string; attempt: number; outcome: Outcome; error: string | undefined }
  /** A durable function waits: the coordinator keeps what it waits for, and the slot is free. */
  | { type: "Suspended"; taskId: string; attempt: number }
  /** A durable function stopped, because its code is not the code that recorded the run or does what no replay can repeat. */
  | { type: "Diverged"; taskId: string; attempt: number; why: string }
  /** Authority was lost: the work was stopped, its result discarded, and nothing was reported. */
  | { type: "Cancelled"; taskId: string; attempt: number; why: string }
  /** The coordinator refused a call as invalid: a defect, or a wrong key. Never repeated. */
  | { type: "Rejected"; taskId: string | undefined; code: string; message: string }
  /** No coordinator answered a call about an attempt within the bound; its lease will expire. */
  | { type: "Unanswered"; taskId: string; attempt: number; why: string }
  /** The code was told to stop and goes on: it keeps its slot, and its result will be dropped. */
  | { type: "Stuck"; taskId: string; attempt: number; kind: string; why: string }
  /** The code still ran when the worker ended; its lease will expire. */
  | { type: "Abandoned"; taskId: string; attempt: number; kind: string }
  /** No coordinator answers polls; the worker keeps polling. */
  | { type: "Unreachable"; why: string };

/** How loud an event is in the log. */
export function levelOf(event: WorkerEvent): "debug" | "info" | "warn" | "error" {
  switch (event.type) {
    case "Committed":
    case "Suspended":
      return "debug";
    case "Cancelled":
      return "info";
    case "Diverged":
    case "Rejected":
      return "error";
    default:
      return "warn";
  }
}
