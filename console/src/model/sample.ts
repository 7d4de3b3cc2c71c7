/** Figures and series from a sample of runs. Pure. The bound of the sample is part of the answer, so that a page can say it. */

import type { Run } from "../api/types.js";
import { ms } from "./time.js";

export interface Bucket {
  at: number;
  succeeded: number;
  failed: number;
  /** Milliseconds from ready to leased, sorted. */
  delays: number[];
}

/** Cuts a span that ends at `at` into `count` buckets. */
export function buckets(runs: Run[], at: number, spanMs: number, count: number): Bucket[] {
  const width = spanMs / count;
  const from = at - spanMs;
  const made = Array.from(
    { length: count },
    (_, i): Bucket => ({ at: from + i * width, succeeded: 0, failed: 0, delays: [] }),
  );
  const of = (t: number | undefined) =>
    t === undefined || t < from || t >= at ? undefined : made[Math.floor((t - from) / width)];
  for (const run of runs) {
    const end = of(ms(run.completedAt));
    if (end && run.state === "succeeded") end.succeeded++;
    if (end && (run.state === "failed" || run.state === "halted")) end.failed++;
    const started = ms(run.startedAt);
    const due = Math.max(ms(run.createdAt)!, ms(run.runAt) ?? 0);
    // Only a first attempt: later ones wait for a backoff or a person.
    if (started !== undefined && run.attempt === 1) of(started)?.delays.push(Math.max(0, started - due));
  }
  for (const bucket of made) bucket.delays.sort((a, b) => a - b);
  return made;
}

/** A quantile of sorted numbers; not a number of none, which a plot leaves out. */
export function quantile(sorted: number[], q: number): number {
  return sorted.length === 0
    ? Number.NaN
    : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]!;
}

export interface Failing {
  kind: string;
  reason: string;
  message: string;
  count: number;
  last: string;
  lastAt: number;
}

/** Failed runs by kind and reason, most frequent first. */
export function failing(runs: Run[]): Failing[] {
  const groups = new Map<string, Failing>();
  for (const run of runs) {
    const reason = run.error?.reason ?? run.state;
    const key = `${run.kind}\n${reason}`;
    const at = ms(run.completedAt) ?? ms(run.createdAt)!;
    const group = groups.get(key) ?? {
      kind: run.kind,
      reason,
      message: run.error?.message ?? "",
      count: 0,
      last: run.runId,
      lastAt: at,
    };
    group.count++;
    if (at >= group.lastAt)
      Object.assign(group, { last: run.runId, lastAt: at, message: run.error?.message ?? "" });
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt);
}

/** Round numbers for an axis from 0 to at least `max`. */
export function axis(max: number): number[] {
  if (max <= 0) return [0, 1];
  const rough = max / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough)!);
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step);
}
