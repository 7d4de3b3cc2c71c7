/** Replays `protocol/scenarios/durable`: what an engine in any language answers to which checkpoints. */
import { readdirSync, readFileSync } from "node:fs";
import { Flow } from "@tenure/sdk";
import { describe, expect, it } from "vitest";
import { draw, firstNumber, Run, type Turn } from "../dist/engine.js";
import { digest, parse } from "../dist/json.js";
import { execute, type Op, Releases } from "./program.ts";

const folder = new URL("../../../protocol/scenarios/durable/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");

interface Vector {
  function: Op[];
  start: any;
  turns: any[];
}

/** Times of the wire as the engine has them, and back. */
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const toMs = (_: string, value: unknown) =>
  typeof value === "string" && TIME.test(value) ? Date.parse(value) : value;
const TIMES = new Set(["until", "expiresAt", "recordedAt"]);
const toText = (name: string, value: unknown) =>
  TIMES.has(name) && typeof value === "number" ? new Date(value).toISOString() : value;

function told(turn: Turn): unknown {
  if (turn === "idle") return "idle";
  if ("command" in turn) return { command: JSON.parse(JSON.stringify(turn.command, toText)) };
  if ("stop" in turn) {
    const { divergence } = turn.stop;
    if (divergence === undefined) throw turn.stop;
    const { branch, index, recorded, actual } = divergence;
    return { diverged: { branch, index, recorded: recorded?.key ?? null, actual: actual?.key ?? null } };
  }
  throw new Error(JSON.stringify(turn));
}

describe("turns of the protocol", () => {
  const files = readdirSync(new URL("turns/", folder)).filter((name) => name.endsWith(".json"));

  it("are all there", () => expect(files.length).toBeGreaterThanOrEqual(35));

  it.each(files)("%s", async (file) => {
    // E1, E6: the commands are those that are written down.
    const vector = JSON.parse(read(`turns/${file}`)) as Vector;
    const start = JSON.parse(JSON.stringify(vector.start), toMs);
    const releases = new Releases();
    const run = new Run({ ...start, seed: String(start.seed) }, (core) =>
      execute(new Flow({ core, branch: "" }), vector.function, releases),
    );
    for (const [n, turn] of vector.turns.entries()) {
      if (turn.recorded) run.recorded(JSON.parse(JSON.stringify(turn.recorded), toMs));
      else if (turn.finish) releases.release(turn.finish);
      else if (turn.timeOut) run.timeOut(turn.timeOut.key, turn.timeOut.try);
      else {
        if (vector.turns[n - 1]?.finish) await new Promise((resolve) => setImmediate(resolve));
        expect(told(await run.next()), `${file}, turn ${n + 1}`).toEqual(turn);
      }
    }
  });
});

describe("digests and numbers", () => {
  it("are those that are written down", () => {
    // S2-85, E6: other languages and later releases compute the same.
    const lines = read("digests.json")
      .split("\n")
      .filter((line) => line.includes('"json"'));
    expect(lines.length).toBeGreaterThanOrEqual(8);
    for (const line of lines) {
      const vector = parse(line.trim().replace(/,$/, "")) as { json: unknown; digest: string };
      expect(digest(vector.json), line).toBe(vector.digest);
    }
    const draws = JSON.parse(read("numbers.json")) as Array<Record<string, any>>;
    expect(draws.length).toBeGreaterThanOrEqual(4);
    for (const { seed, branch, label, count, number } of draws) {
      expect(firstNumber(draw(String(seed), branch, label, count)).toString()).toBe(number);
    }
  });
});
