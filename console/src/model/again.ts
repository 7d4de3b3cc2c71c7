/** What a run was submitted with, as far as its view says, for a new run like it. */

import type { Run } from "../api/types.js";

/** Labels that the server sets. */
const isOwn = (name: string): boolean => name.startsWith("tenure.");

/** Members of a submission that a run shows under the same name and that still mean the same. */
const SAME = [
  "kind",
  "queue",
  "priority",
  "goal",
  "assetId",
  "taskKey",
  "resources",
  "leaseMs",
  "heartbeatIntervalMs",
  "cancelGraceMs",
  "maxAttempts",
  "lostMax",
  "retry",
  "stall",
  "ttlMs",
  "flow",
] as const;

/** Whether a new run can be made from what is shown: a plan is shown by its stages, and a child belongs to its parent. */
export const canRunAgain = (run: Run): boolean =>
  run.input !== undefined && !run.parent && (run.plan?.length ?? 0) === 0 && !run.planSteps;

/** The submission of a run like this one, with another input. Times that have passed are left out. */
export function submissionOf(run: Run, input: unknown): Record<string, unknown> {
  const kept = SAME.map((name): [string, unknown] => [name, run[name]]);
  const labels = Object.entries(run.labels ?? {}).filter(([name]) => !isOwn(name));
  const more: Array<[string, unknown]> = [
    ["labels", labels.length > 0 ? Object.fromEntries(labels) : undefined],
    ["budget", budgetOf(run)],
    ["input", input],
  ];
  return Object.fromEntries([...kept, ...more].filter(([name, value]) => name === "input" || value != null));
}

function budgetOf(run: Run): Record<string, unknown> | undefined {
  if (!run.budget) return undefined;
  const { limits, activeMs, wallMs } = run.budget;
  const all = Object.entries({ ...limits, activeMs, wallMs }).filter(([, value]) => value != null);
  return all.length > 0 ? Object.fromEntries(all) : undefined;
}
