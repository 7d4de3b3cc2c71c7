/**
 * One action on many runs: the runs are collected first, and the action is done to these and to no others, one call for each. A
 * filter is never sent with a verb.
 */

import type { Problem } from "../api/call.js";
import type { Run, RunList, State } from "../api/types.js";
import { asProblem } from "../data/query.js";

export type Verb = "cancel" | "retry";

/** The states in which the verb means something, in the order in which it is done. */
export const STATES: Record<Verb, State[]> = {
  cancel: ["queued", "retry", "waiting", "running"],
  retry: ["failed", "halted", "cancelled"],
};

/** Without a state in the filter, as the command line: what halted or was cancelled is retried only if it is asked for by name. */
const USUAL: Record<Verb, State[]> = { cancel: STATES.cancel, retry: ["failed"] };

/** The states that a filter and a verb have in common. */
export function statesOf(verb: Verb, filter: URLSearchParams): State[] {
  const chosen = filter.get("state") as State | null;
  if (!chosen) return USUAL[verb];
  return STATES[verb].includes(chosen) ? [chosen] : [];
}

/** Whether the verb is offered for a filter. Everything at once is a matter for the command line. */
export const isOffered = (verb: Verb, filter: URLSearchParams): boolean =>
  [...filter.keys()].length > 0 && statesOf(verb, filter).length > 0;

export type Picked = Pick<Run, "runId" | "kind" | "queue" | "state">;

/** What an action will be done to: it does not change any more. */
export interface Preview {
  runs: Picked[];
  /** There are more, which are not touched. */
  isCut: boolean;
  /** Runs that were retried before, and are left out. */
  before: number;
}

const PAGE = 500;
export const RUNS_MAX = 10_000;

/** Collects runs page by page, up to a bound. */
export async function collect(
  verb: Verb,
  asked: URLSearchParams,
  read: (query: URLSearchParams) => Promise<RunList>,
  told: (found: number) => void,
): Promise<Preview> {
  const preview: Preview = { runs: [], isCut: false, before: 0 };
  const retried = verb === "retry" ? await retriedBefore(asked, read) : new Set<string>();
  for (const state of statesOf(verb, asked)) {
    const query = new URLSearchParams(asked);
    query.set("state", state);
    query.set("limit", String(PAGE));
    query.delete("cursor");
    for (;;) {
      const page = await read(query);
      for (const run of page.runs) add(preview, retried, run);
      told(preview.runs.length);
      if (preview.isCut) return preview;
      if (!page.nextCursor) break;
      query.set("cursor", page.nextCursor);
    }
  }
  return preview;
}

/** The label by which a retry names the run that it retries. */
const RETRY_OF = "tenure.retry-of";

/** The runs that have a retry already: a list does not say so of them, but of their retries, which are on the same queue. */
async function retriedBefore(
  asked: URLSearchParams,
  read: (query: URLSearchParams) => Promise<RunList>,
): Promise<Set<string>> {
  const query = new URLSearchParams({ label: RETRY_OF, limit: String(PAGE) });
  for (const name of ["queue", "kind", "since"])
    for (const value of asked.getAll(name)) query.append(name, value);
  const ids = new Set<string>();
  for (;;) {
    const page = await read(query);
    for (const { labels } of page.runs) if (labels?.[RETRY_OF]) ids.add(labels[RETRY_OF]);
    if (!page.nextCursor || ids.size >= RUNS_MAX) return ids;
    query.set("cursor", page.nextCursor);
  }
}

function add(preview: Preview, retried: Set<string>, run: Run): void {
  if (retried.has(run.runId)) preview.before += 1;
  else if (preview.runs.length >= RUNS_MAX) preview.isCut = true;
  else preview.runs.push({ runId: run.runId, kind: run.kind, queue: run.queue, state: run.state });
}

/** How many of the runs have each value, most first. */
export function tally(runs: Picked[], member: "kind" | "queue" | "state"): Array<[string, number]> {
  const counts = new Map<string, number>();
  for (const run of runs) counts.set(run[member], (counts.get(run[member]) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

export interface Progress {
  done: number;
  refused: Array<{ run: Picked; problem: Problem }>;
  /** What was not tried yet, because it was stopped or the server went away. */
  left: Picked[];
  /** Why it stopped by itself. */
  problem?: Problem;
}

/** Calls at a time: they share commits, and leave room for others. */
const AT_ONCE = 8;

/** Acts on each run once, until all were tried, `stop` says so, or the server does not answer. */
export async function carryOut(
  runs: Picked[],
  act: (run: Picked) => Promise<void>,
  stop: AbortSignal,
  told: (progress: Progress) => void,
): Promise<Progress> {
  const waiting = [...runs];
  const unanswered: Picked[] = [];
  let progress: Progress = { done: 0, refused: [], left: waiting };
  const tell = (change: Partial<Progress>) => {
    progress = { ...progress, ...change, left: [...unanswered, ...waiting] };
    told(progress);
  };
  const work = async () => {
    for (;;) {
      if (stop.aborted || progress.problem) return;
      const run = waiting.shift();
      if (!run) return;
      try {
        await act(run);
        tell({ done: progress.done + 1 });
      } catch (error) {
        const problem = asProblem(error);
        if (problem.isUnreachable || problem.status === 401 || problem.status === 429) {
          unanswered.push(run);
          tell({ problem });
        } else tell({ refused: [...progress.refused, { run, problem }] });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return progress;
}
