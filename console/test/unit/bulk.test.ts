// Many runs at once: what a preview collects, what is done to it and when it stops; and a new run like an old one.

import { describe, expect, it } from "vitest";
import { Problem } from "../../src/api/call.js";
import type { Run, RunList } from "../../src/api/types.js";
import { canRunAgain, submissionOf } from "../../src/model/again.js";
import {
  carryOut,
  collect,
  isOffered,
  type Picked,
  type Progress,
  RUNS_MAX,
  statesOf,
  tally,
} from "../../src/model/bulk.js";

const filter = (text: string) => new URLSearchParams(text);
const run = (n: number, more: Partial<Run> = {}): Run =>
  ({ runId: `run_${n}`, kind: "k", queue: "q", state: "queued", ...more }) as Run;
const runs = (count: number): Picked[] => Array.from({ length: count }, (_, n) => run(n));

describe("a preview", () => {
  it("is offered for a filter in whose states the verb means something", () => {
    expect(isOffered("cancel", filter(""))).toBe(false);
    expect(isOffered("cancel", filter("kind=k"))).toBe(true);
    expect(isOffered("cancel", filter("state=failed"))).toBe(false);
    expect(isOffered("retry", filter("state=failed"))).toBe(true);
    expect(statesOf("retry", filter("kind=k"))).toEqual(["failed"]);
    expect(statesOf("retry", filter("state=cancelled"))).toEqual(["cancelled"]);
    expect(statesOf("cancel", filter("state=waiting"))).toEqual(["waiting"]);
  });

  it("reads every page of every state, those that wait before those that run", async () => {
    const asked: string[] = [];
    const read = async (query: URLSearchParams): Promise<RunList> => {
      asked.push(`${query.get("state")} ${query.get("cursor")} ${query.get("kind")}`);
      const isFirst = query.get("state") === "queued" && !query.get("cursor");
      return { runs: [run(asked.length)], nextCursor: isFirst ? "more" : null };
    };
    const preview = await collect("cancel", filter("kind=k"), read, () => {});
    expect(asked).toEqual([
      "queued null k",
      "queued more k",
      "retry null k",
      "waiting null k",
      "running null k",
    ]);
    expect(preview).toMatchObject({ isCut: false, before: 0 });
    expect(preview.runs.map(({ runId }) => runId)).toEqual(["run_1", "run_2", "run_3", "run_4", "run_5"]);
  });

  it("has a bound, and leaves out what was retried before", async () => {
    let n = 0;
    const page = async (): Promise<RunList> => ({
      runs: Array.from({ length: 500 }, () => run(n++)),
      nextCursor: "more",
    });
    const cut = await collect("cancel", filter("state=queued"), page, () => {});
    expect([cut.runs.length, cut.isCut]).toEqual([RUNS_MAX, true]);
    const retried = async (query: URLSearchParams): Promise<RunList> =>
      query.has("state")
        ? { runs: [run(1), run(2)] }
        : { runs: [run(9, { labels: { [query.get("label")!]: "run_2" } })] };
    const left = await collect("retry", filter("state=failed"), retried, () => {});
    expect([left.runs.map(({ runId }) => runId), left.before]).toEqual([["run_1"], 1]);
  });

  it("counts what it has", () => {
    const mixed = [run(1), run(2, { kind: "j" }), run(3)];
    expect(tally(mixed, "kind")).toEqual([
      ["k", 2],
      ["j", 1],
    ]);
  });
});

describe("a bulk action", () => {
  const never = new AbortController().signal;

  it("is done to each run once, a few at a time, and collects what is refused", async () => {
    const done: string[] = [];
    let at = 0;
    let most = 0;
    const act = async ({ runId }: Picked) => {
      most = Math.max(most, ++at);
      await Promise.resolve();
      at -= 1;
      if (runId === "run_7") throw new Problem(409, "run_ended", "", "it has ended");
      done.push(runId);
    };
    const end = await carryOut(runs(300), act, never, () => {});
    expect(new Set(done).size).toBe(299);
    expect(done.length).toBe(299);
    expect([end.done, end.refused.map(({ run }) => run.runId), end.left]).toEqual([299, ["run_7"], []]);
    expect(most).toBeLessThanOrEqual(8);
  });

  it("stops where it is told to, and goes on with what is left", async () => {
    const stop = new AbortController();
    const done: string[] = [];
    const act = async ({ runId }: Picked) => {
      done.push(runId);
      if (done.length === 20) stop.abort();
    };
    const first = await carryOut(runs(300), act, stop.signal, () => {});
    expect(first.done + first.left.length).toBe(300);
    expect(first.left.length).toBeGreaterThan(250);
    const second = await carryOut(first.left, act, never, () => {});
    expect(second.left).toEqual([]);
    expect(new Set(done).size).toBe(300);
    expect(done.length).toBe(300);
  });

  it("ends by itself when the server is gone, and loses no run", async () => {
    const gone = new Problem(0, "unreachable", "", "");
    let calls = 0;
    const act = async () => {
      if (++calls > 10) throw gone;
    };
    const heard: Progress[] = [];
    const end = await carryOut(runs(100), act, never, (progress) => heard.push(progress));
    expect(end.problem).toBe(gone);
    expect(end.done + end.left.length).toBe(100);
    expect(heard.length).toBeGreaterThan(0);
  });
});

describe("a run again", () => {
  const old = run(1, {
    input: "1",
    labels: { team: "a", "tenure.retry-of": "run_0" },
    priority: 3,
    maxAttempts: 5,
    leaseMs: 30_000,
    deadline: "2026-01-01T00:00:00Z",
    idempotencyKey: "once",
    runAt: "2026-01-01T00:00:00Z",
    goal: null,
    flow: { key: "customer-7", limit: 1 },
    budget: { limits: { tokens: 100 }, wallMs: 5000 } as unknown as Run["budget"],
  });

  it("has the settings of the old one, and nothing that belongs to it alone", () => {
    expect(submissionOf(old, { a: 2 })).toEqual({
      kind: "k",
      queue: "q",
      input: { a: 2 },
      labels: { team: "a" },
      priority: 3,
      maxAttempts: 5,
      leaseMs: 30_000,
      flow: { key: "customer-7", limit: 1 },
      budget: { tokens: 100, wallMs: 5000 },
    });
    expect(submissionOf(run(2, { input: "null" }), null)).toEqual({ kind: "k", queue: "q", input: null });
  });

  it("is not offered for a child, a plan, or an input that is not shown", () => {
    expect(canRunAgain(old)).toBe(true);
    expect(canRunAgain({ ...old, input: undefined })).toBe(false);
    expect(canRunAgain({ ...old, parent: {} as Run["parent"] })).toBe(false);
    expect(canRunAgain({ ...old, planSteps: 3 })).toBe(false);
    expect(canRunAgain({ ...old, plan: [{}] as Run["plan"] })).toBe(false);
  });
});
