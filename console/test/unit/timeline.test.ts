// The layout of the timeline by properties over random runs: nothing overlaps, nothing leaves the drawing, time goes to the right.

import { describe, expect, it } from "vitest";
import type { Effect, HistoryEntry, Run } from "../../src/api/types.js";
import { type Events, eventsOf } from "../../src/timeline/events.js";
import { extent, GUTTER, layout } from "../../src/timeline/layout.js";
import { scale } from "../../src/timeline/scale.js";

/** A generator with a seed, so that a failure can be repeated. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

const OUTCOMES = ["LOST", "FAILED", "SUSPENDED", "SUCCEEDED", "REVOKED"];

function randomEvents(seed: number): Events {
  const next = random(seed);
  const pick = (max: number) => Math.floor(next() * (max + 1));
  const pause = () => (next() < 0.3 ? pick(3_600_000) : pick(3000));
  let t = 1_000_000;
  const events: Events = {
    from: t,
    to: t,
    isOpen: false,
    attempts: [],
    waits: [],
    children: [],
    effects: [],
    signals: [],
    refused: [],
  };
  const count = 1 + pick(6);
  for (let n = 1; n <= count; n++) {
    t += pause();
    const granted = t;
    const started = granted + pick(200);
    t = started + pause();
    const outcome = OUTCOMES[pick(OUTCOMES.length - 1)]!;
    const steps = Array.from({ length: pick(4) }, (_, i) => ({
      at: started + next() * (t - started),
      key: `step-${i}`,
      isFailed: false,
      n: i,
    }));
    const lastBeat = outcome === "LOST" ? granted + next() * (t - granted) : t;
    events.attempts.push({
      n,
      owner: `worker-${pick(3)}`,
      fence: n,
      granted,
      started,
      ended: t,
      outcome,
      leaseMs: 2000,
      lastBeat,
      expires: t,
      steps,
      entry: n,
    });
    if (outcome === "LOST" && next() < 0.6) {
      events.refused.push({
        at: t + pick(5000),
        attempt: n,
        worker: "w",
        call: "report",
        error: "attempt_mismatch",
        verdict: "CANCELLED",
      });
    }
    if (outcome === "SUSPENDED") {
      const from = t;
      t += pause();
      events.waits.push({
        key: "w",
        kind: "approval",
        name: "w",
        from,
        to: t,
        approval: 1,
        votes: [{ at: t, by: "ann", isApproval: true, n: 1 }],
        entry: n,
      });
    }
    if (next() < 0.3)
      events.children.push({
        key: "child",
        from: granted,
        to: granted + pick(5000),
        state: "succeeded",
        entry: n,
      });
  }
  events.to = Math.max(t, ...events.children.map((child) => child.to ?? 0));
  return events;
}

const RUNS = 10_000;

describe("scale", () => {
  it("never goes back and stays between its edges", () => {
    for (let seed = 1; seed <= RUNS; seed++) {
      const next = random(seed);
      const to = 1 + Math.floor(next() * 10 ** (1 + next() * 8));
      const busy = Array.from({ length: 3 }, (): [number, number] => {
        const a = next() * to;
        return [a, a + (next() * (to - a)) / 4];
      });
      const { x, folds, ticks } = scale(0, to, busy, [next() * to], { left: 186, right: 1000 });
      const at = Array.from({ length: 41 }, (_, i) => x((to * i) / 40));
      const goesBack = at.some((px, i) => i > 0 && px < at[i - 1]! - 1e-6);
      const leaves = at[0]! < 186 || at[40]! > 1000 + 1e-6;
      const hidesWork = folds.some((fold) => busy.some(([a, b]) => a < fold.to && b > fold.from));
      const hidesTick = folds.some((fold) => ticks.some((tick) => tick.x > fold.x0 && tick.x < fold.x1));
      expect({ seed, goesBack, leaves, hidesWork, hidesTick }).toEqual({
        seed,
        goesBack: false,
        leaves: false,
        hidesWork: false,
        hidesTick: false,
      });
    }
  });

  it("folds a long wait and keeps short work visible", () => {
    const { x, folds } = scale(
      0,
      860_000,
      [
        [0, 12_000],
        [857_000, 860_000],
      ],
      [],
      { left: 0, right: 800 },
    );
    expect(folds).toHaveLength(1);
    expect(x(12_000) - x(0)).toBeGreaterThan(300);
    expect(x(860_000) - x(857_000)).toBeGreaterThan(80);
  });

  it("shows true proportions when asked", () => {
    const { x, folds } = scale(0, 1000, [[0, 10]], [], { left: 0, right: 1000, isTrue: true });
    expect(folds).toHaveLength(0);
    expect(x(500)).toBeCloseTo(500);
  });
});

describe("layout", () => {
  it("keeps bars apart, in order and inside, and labels apart", () => {
    for (let seed = 1; seed <= RUNS / 4; seed++) {
      const drawing = layout(randomEvents(seed), { width: 1166 });
      for (const lane of drawing.lanes) {
        const work = lane.bars.filter(
          (bar) => bar.style === "work" || bar.style === "silence" || bar.style === "granted",
        );
        const leaves = work.some((bar) => bar.x0 < GUTTER || bar.x1 > 1166);
        const overlaps = work.some((bar, i) => i > 0 && bar.x0 < work[i - 1]!.x1 - 1e-6);
        const collides = ["above", "level", "below"].some((row) => {
          const labels = lane.labels.filter((label) => label.row === row);
          const extents = labels.map(extent).sort(([a], [b]) => a - b);
          return extents.some(([a], i) => i > 0 && a < extents[i - 1]![1]);
        });
        if (leaves || overlaps || collides)
          throw new Error(`seed ${seed}, lane ${lane.id}: ${[leaves, overlaps, collides]}`);
      }
    }
  });

  it("never drops a mark: every step, vote and refusal has one", () => {
    for (let seed = 1; seed <= 500; seed++) {
      const events = randomEvents(seed);
      const drawing = layout(events, { width: 700 });
      const marks = drawing.lanes.flatMap((lane) => lane.marks);
      const steps = events.attempts.reduce((sum, attempt) => sum + attempt.steps.length, 0);
      const votes = events.waits.reduce((sum, wait) => sum + wait.votes.length, 0);
      expect(marks.filter((mark) => mark.glyph === "step")).toHaveLength(steps);
      expect(marks.filter((mark) => mark.glyph === "refused")).toHaveLength(events.refused.length);
      expect(
        drawing.lanes.filter((lane) => lane.id.startsWith("wait")).flatMap((lane) => lane.marks),
      ).toHaveLength(votes);
    }
  });
});

describe("events", () => {
  const run = (more: Partial<Run> = {}): Run =>
    ({
      runId: "run_1",
      createdAt: at(0),
      completedAt: at(9000),
      kind: "k",
      queue: "q",
      state: "succeeded",
      attempt: 2,
      failures: 0,
      lost: 1,
      labels: {},
      refused: [],
      ...more,
    }) as unknown as Run;
  const at = (t: number) => new Date(1_700_000_000_000 + t).toISOString();
  const entry = (
    n: number,
    t: number,
    kind: string,
    attempt: number,
    detail: Record<string, unknown>,
  ): HistoryEntry => ({ n, at: at(t), kind, attempt, detail });

  it("reads a takeover: the lost attempt was silent for one lease", () => {
    const entries = [
      entry(1, 0, "submitted", 0, {}),
      entry(2, 100, "granted", 1, { owner: "alice", fence: 4294967297, leaseExpiresAt: at(2100) }),
      entry(3, 150, "started", 1, {}),
      entry(4, 6100, "attempt_closed", 1, {
        outcome: "LOST",
        owner: "alice",
        leaseId: "l",
        reason: "HEARTBEAT_TIMEOUT",
        state: "retry",
      }),
      entry(5, 6100, "granted", 2, { owner: "bob", fence: 4294967299, leaseExpiresAt: at(8100) }),
      entry(6, 7000, "attempt_closed", 2, {
        outcome: "SUCCEEDED",
        owner: "bob",
        leaseId: "m",
        state: "succeeded",
      }),
    ];
    const events = eventsOf(run(), entries, [], 0);
    expect(events.attempts).toHaveLength(2);
    expect(events.attempts[0]).toMatchObject({ owner: "alice", outcome: "LOST", leaseMs: 2000 });
    expect(events.attempts[0]!.ended! - events.attempts[0]!.lastBeat).toBe(2000);
    const drawing = layout(events, { width: 1100 });
    expect(drawing.links).toMatchObject([{ style: "takeover", fromLane: 0, toLane: 1 }]);
    expect(drawing.lanes[1]!.labels.map((label) => label.text)).toContain("bob takes over");
  });

  it("reads a report and the next grant that share an entry", () => {
    const entries = [
      entry(1, 0, "planned", 0, {}),
      entry(2, 10, "granted", 1, { owner: "a", fence: 1, leaseExpiresAt: at(2010) }),
      entry(3, 20, "granted", 2, {
        owner: "b",
        fence: 3,
        leaseExpiresAt: at(2020),
        outcome: "SUCCEEDED",
        step: "draft",
        leaseId: "x",
      }),
      entry(4, 30, "attempt_closed", 2, { outcome: "SUCCEEDED", owner: "b", leaseId: "y", step: "review" }),
    ];
    const { attempts } = eventsOf(run(), entries, [], 0);
    expect(attempts.map(({ owner, outcome, steps }) => [owner, outcome, steps.map((s) => s.key)])).toEqual([
      ["a", "SUCCEEDED", ["draft"]],
      ["b", "SUCCEEDED", ["review"]],
    ]);
  });

  it("joins an approval with the wait for it and its votes", () => {
    const entries = [
      entry(2, 10, "granted", 1, { owner: "a", fence: 1, leaseExpiresAt: at(2010) }),
      entry(4, 20, "attempt_closed", 1, {
        approval: 1,
        key: "approval:pay#1",
        leaseId: "l",
        outcome: "SUSPENDED",
        owner: "a",
        state: "waiting",
        wait: "wait:approval:pay#1",
      }),
      entry(5, 300, "approval_voted", 1, { approval: 1, by: "ann", decision: "APPROVED", comment: "fine" }),
      entry(6, 400, "checkpointed", 1, {
        approval: 1,
        by: "bea",
        decision: "APPROVED",
        outcome: "APPROVED",
        signal: "#approval:approval:pay#1",
        wait: "wait:approval:pay#1",
      }),
    ];
    const { waits, signals } = eventsOf(run(), entries, [], 0);
    expect(signals).toEqual([]);
    expect(waits).toHaveLength(1);
    expect(waits[0]).toMatchObject({ kind: "approval", outcome: "APPROVED" });
    expect(waits[0]!.votes.map((vote) => vote.by)).toEqual(["ann", "bea"]);
    expect(waits[0]!.to! - waits[0]!.from).toBe(380);
  });
});

describe("effects and short runs", () => {
  it("draw one try once, though several changes repeat it", () => {
    const time = (s: number) => new Date(1_000_000 + 1000 * s).toISOString();
    const failed = { at: time(1), status: 503 };
    const done = { at: time(2), status: 204 };
    const change = (state: string, lastTry?: typeof failed) => ({ at: time(0), state, tries: 0, lastTry });
    const log = [
      change("pending"),
      change("in_flight"),
      change("pending", failed),
      change("in_flight", failed),
      change("delivered", done),
    ];
    const effect = { effectId: "eff_1", state: "delivered", decidedAt: time(0), lastTry: done, log };
    const { effects } = eventsOf({ createdAt: time(0) } as Run, [], [effect as Effect], 0);
    expect(effects[0]!.tries).toEqual([
      { at: 1_001_000, status: 503, isLast: false },
      { at: 1_002_000, status: 204, isLast: true },
    ]);
  });

  it("are not folded: a gap of milliseconds hides no work", () => {
    const busy: Array<[number, number]> = [[0, 5]];
    expect(scale(0, 900, busy, [899], { left: 0, right: 1000 }).folds).toEqual([]);
    expect(scale(0, 90_000, busy, [89_999], { left: 0, right: 1000 }).folds).toHaveLength(1);
  });
});
