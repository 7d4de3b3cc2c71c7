/** Why a run is where it is, in a few words for a row of a list, from what the row has. */

import type { AwaitedView, Run } from "../api/types.js";
import { ms, relative, roughly } from "./time.js";

export function why(run: Run, at: number): string {
  if (run.error)
    return run.error.reason === run.error.category
      ? run.error.message
      : `${run.error.reason}: ${run.error.message}`;
  if (run.cancelRequestedAt && !run.completedAt)
    return `cancelling since ${roughly(at - ms(run.cancelRequestedAt)!)}`;
  switch (run.state) {
    case "waiting":
      return waiting(run);
    case "retry":
      return run.nextAttemptAt
        ? `attempt ${run.attempt + 1} ${relative(ms(run.nextAttemptAt)!, at)}`
        : "another attempt follows";
    case "running":
      return running(run, at);
    case "queued":
      return run.runAt && ms(run.runAt)! > at
        ? `starts ${relative(ms(run.runAt)!, at)}`
        : "waits for a worker";
    case "blocked":
      return "waits for other steps of its plan";
    default:
      return "";
  }
}

function running(run: Run, at: number): string {
  const lease = run.lease;
  if (!lease) return "";
  if (lease.stalledAt) return `no progress since ${roughly(at - ms(lease.progressedAt ?? lease.stalledAt)!)}`;
  const percent = typeof lease.progressPct === "number" ? `${Math.round(lease.progressPct)} %` : "";
  return [percent, lease.message ?? ""].filter(Boolean).join(", ");
}

function waiting(run: Run): string {
  const parked = run.durable?.waiting;
  if (parked?.diverged)
    return `diverged: its code does not match what it recorded at ${parked.diverged.recorded}`;
  if (parked?.ending) return "ends when its children have ended";
  const wait = parked?.wait;
  if (!wait) return "ready to go on";
  const names = wait.for.map(awaited);
  const first = names.slice(0, 2).join(wait.mode === "any" ? " or " : " and ");
  return names.length > 2 ? `waits for ${first} and ${names.length - 2} more` : `waits for ${first}`;
}

/** What one branch of a wait waits for. */
export function awaited(item: AwaitedView): string {
  if (item.approval) return "an approval";
  if (item.signal) return `the signal ${item.signal}`;
  if (item.child) return `its child ${item.key}`;
  if (item.effect) return "the delivery of an effect";
  if (item.until) return "a time";
  return item.key;
}
