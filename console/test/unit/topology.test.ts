// Topologies: the picture by properties, and what is told of an artifact.

import { describe, expect, it } from "vitest";
import { parse } from "../../src/api/scan.js";
import type { Artifact, PauseState, WorkOrder } from "../../src/api/types.js";
import { type Arrow, BOX, layout, type Picture } from "../../src/graph/layout.js";
import {
  type ArtifactType,
  countByStatus,
  declarationOf,
  moverOf,
  movesOf,
  storyOf,
} from "../../src/model/topology.js";
import { waysOf } from "../../src/pages/topology-picture.js";
import { reasonsOf } from "../../src/pages/topology-tabs.js";

const ROLES = { planning: { uses: "scheduler" }, judging: { uses: "gate" } };
const TYPE: ArtifactType = {
  statuses: ["requested", "planned", "built", "done", "withdrawn"],
  initial: "requested",
  final: ["done", "withdrawn"],
  transitions: [
    { from: "requested", to: "planned", by: "role:planning" },
    { from: "planned", to: "requested", by: "role:judging" },
    { from: "planned", to: "built", by: "role:judging" },
    { from: "built", to: "built", by: "role:judging" },
    { from: "built", to: "done", by: "approval" },
    { from: "requested", to: "withdrawn", by: "person" },
    { from: "planned", to: "withdrawn", by: "person" },
  ],
};

/** A generator of numbers below a bound, the same in every run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
}

function randomType(seed: number): ArtifactType {
  const random = randomOf(seed);
  const statuses = Array.from({ length: 1 + random(9) }, (_, i) => `s${i}`);
  const any = () => statuses[random(statuses.length)]!;
  const movers = ["person", "approval", "role:planning", "role:judging"];
  const transitions = Array.from({ length: random(20) }, () => ({
    from: any(),
    to: any(),
    by: movers[random(movers.length)]!,
  }));
  return { statuses, initial: statuses[0]!, transitions };
}

/** The level part of an arrow that runs beside the row. */
function runOf({ path }: Arrow): { y: number; from: number; to: number } | undefined {
  const found = path.match(/Q\S+ (\S+) (\S+) \S+H(\S+)Q/);
  if (!found) return undefined;
  const [y, a, b] = found.slice(1).map(Number) as [number, number, number];
  return { y, from: Math.min(a, b), to: Math.max(a, b) };
}

const numbersOf = (path: string) => path.match(/-?\d+(\.\d+)?/g)!.map(Number);

function mustHold(picture: Picture, type: ArtifactType): void {
  const { boxes, arrows, width, height } = picture;
  expect(boxes.map(({ status }) => status)).toEqual(type.statuses);
  for (const [i, box] of boxes.entries()) {
    expect(box.x + BOX.width).toBeLessThan(width);
    expect(box.y + BOX.height).toBeLessThan(height);
    if (i > 0) expect(box.x).toBeGreaterThan(boxes[i - 1]!.x + BOX.width);
  }
  const pairs = new Set((type.transitions ?? []).map(({ from, to }) => `${from} ${to}`));
  expect(arrows.map(({ from, to }) => `${from} ${to}`).sort()).toEqual([...pairs].sort());
  for (const arrow of arrows) {
    const numbers = numbersOf(arrow.path);
    expect(numbers.every((n) => n >= 0 && n <= Math.max(width, height))).toBe(true);
    expect(arrow.labelAt.y).toBeGreaterThan(8);
    expect(arrow.labelAt.y).toBeLessThan(height);
  }
  const runs = arrows.flatMap((arrow) => runOf(arrow) ?? []);
  for (const [i, a] of runs.entries())
    for (const b of runs.slice(i + 1))
      if (a.y === b.y) expect(a.to < b.from || b.to < a.from, "two arrows lie on each other").toBe(true);
  const labels = arrows.map(({ labelAt: { x, y, width } }) => ({
    y,
    from: x - width / 2,
    to: x + width / 2,
  }));
  for (const [i, a] of labels.entries())
    for (const b of labels.slice(i + 1))
      if (a.y === b.y) expect(a.to < b.from || b.to < a.from, "two labels lie on each other").toBe(true);
}

describe("the picture of a topology", () => {
  it("keeps statuses in order, arrows apart and everything inside, for 2,000 random topologies", () => {
    for (let seed = 1; seed <= 2000; seed++) {
      const type = randomType(seed);
      mustHold(layout(type, ROLES), type);
    }
  });

  it("draws the way on as a line, the way back above and what skips below", () => {
    const { arrows, boxes } = layout(TYPE, ROLES);
    const row = boxes[0]!.y;
    const side = (from: string, to: string) => {
      const arrow = arrows.find((each) => each.from === from && each.to === to)!;
      const run = runOf(arrow);
      return run === undefined ? "line" : run.y < row ? "above" : "below";
    };
    expect(side("requested", "planned")).toBe("line");
    expect(side("planned", "requested")).toBe("above");
    expect(side("built", "built")).toBe("above");
    expect(side("requested", "withdrawn")).toBe("below");
  });

  it("names all who may do the same, and leaves out what names no status", () => {
    const transitions = [
      { from: "a", to: "b", by: "person" },
      { from: "a", to: "b", by: "role:planning" },
      { from: "a", to: "gone", by: "person" },
    ];
    const { arrows } = layout({ statuses: ["a", "b"], initial: "a", transitions }, ROLES);
    expect(arrows.map(({ label }) => label)).toEqual(["a person, planning"]);
  });
});

describe("a topology", () => {
  it("tells roles, gates and people apart", () => {
    const of = (by: string) => moverOf({ from: "a", to: "b", by }, ROLES);
    expect(of("role:planning")).toEqual({ kind: "role", name: "planning" });
    expect(of("role:judging")).toEqual({ kind: "gate", name: "judging" });
    expect(of("approval")).toEqual({ kind: "person", name: "an approver" });
    expect(of("person")).toEqual({ kind: "person", name: "a person" });
  });

  it("offers people the moves of a status that are theirs", () => {
    expect(movesOf(TYPE, "built").map(({ to }) => to)).toEqual(["done"]);
    expect(movesOf(TYPE, "planned").map(({ to }) => to)).toEqual(["withdrawn"]);
    expect(movesOf(undefined, "planned")).toEqual([]);
  });

  it("says where a status leads to", () => {
    expect(waysOf(TYPE, ROLES, "planned")).toBe("requested (judging), built (judging), withdrawn (a person)");
    expect(waysOf(TYPE, ROLES, "done")).toBe("final");
  });

  it("is read from its text, in which members named like payloads mean nothing", () => {
    const text = '{"artifacts":{"note":{"statuses":["output"],"initial":"output"}},"fields":1e400}';
    const answer = parse(`{"name":"x","declaration":${text}}`) as { declaration: string };
    expect(answer.declaration).toBe(text);
    expect(declarationOf(answer.declaration).artifacts["note"]!.statuses).toEqual(["output"]);
  });
});

describe("an artifact", () => {
  const time = (second: number) => new Date(Date.UTC(2026, 10, 18, 12, 0, second)).toISOString();
  const artifact = (more: Partial<Artifact>) =>
    ({
      type: "assignment",
      id: "greeting",
      status: "built",
      transitionNo: 3,
      createdAt: time(0),
      enteredAt: time(9),
      ...more,
    }) as Artifact;
  const order = (more: Partial<WorkOrder>) =>
    ({
      id: "wo/1",
      template: "plan",
      kind: "plan-assignment",
      queue: "agents",
      runId: "run_1",
      artifacts: ["assignment/greeting"],
      createdAt: time(1),
      ...more,
    }) as WorkOrder;
  const failed = {
    createdAt: time(3),
    executionStatus: "FAILED",
    gateResult: "FAIL",
    gateReasons: [{ check: "shape", message: "no title" }],
  };

  it("is counted by status, with the one that rests longest", () => {
    const counts = countByStatus([
      artifact({ status: "built", enteredAt: time(9) }),
      artifact({ status: "built", enteredAt: time(4) }),
      artifact({ status: "done" }),
    ]);
    expect(counts.get("built")).toEqual({ count: 2, oldestAt: Date.parse(time(4)) });
    expect(counts.get("done")!.count).toBe(1);
    expect(counts.get("requested")).toBeUndefined();
  });

  it("has a story of its work orders, their records and what waited for people, and of nothing else", () => {
    const orders = [
      order({ id: "wo/2", template: "build", createdAt: time(5) }),
      order({ record: failed }),
      order({ artifacts: ["assignment/other"] }),
    ];
    const pauses = [
      {
        id: "p",
        subject: "assignment/greeting",
        reason: "GATE_FAILED",
        actions: ["Look."],
        state: "open",
        createdAt: time(4),
      },
      {
        id: "q",
        subject: "assignment/other",
        reason: "BLOCKED",
        actions: [],
        state: "open",
        createdAt: time(4),
      },
    ] as PauseState[];
    const story = storyOf(artifact({}), orders, pauses);
    expect(story.map(({ what }) => what)).toEqual([
      "created",
      "plan ordered",
      "plan judged: FAIL",
      "GATE_FAILED, waits for a person",
      "build ordered",
      "now built",
    ]);
    expect(story[2]!.more).toEqual(["FAILED", "shape: no title"]);
    expect(story[3]!.more).toEqual(["Look."]);
  });

  it("that never moved has only been created", () => {
    expect(storyOf(artifact({ transitionNo: 1 }), [], []).map(({ what }) => what)).toEqual(["created"]);
  });

  it("says why a work order failed, and nothing of one that passed", () => {
    expect(reasonsOf(order({ record: failed }))).toBe("FAILED; shape: no title");
    expect(reasonsOf(order({ record: { ...failed, gateResult: "PASS" } }))).toBe("");
    expect(reasonsOf(order({}))).toBe("");
  });
});
