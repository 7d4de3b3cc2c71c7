/**
 * Golden files: runs as `tenure export` wrote them, against the code of today.
 *
 * No step is executed. The code must ask for what is recorded and end as the run did. A file that was cut or changed is
 * refused.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { type Codec, opened } from "../codec.js";
import type { Command } from "../engine/command.js";
import type { Turn } from "../engine/run.js";
import type { Stop } from "../engine/stop.js";
import { canonical, parse } from "../json.js";
import type { Task } from "../task.js";
import type { Checkpoint as WireCheckpoint } from "../wire.js";
import { checkpoints } from "../worker/translate.js";
import { MemoryCoordinator } from "./coordinator.js";
import { startRun } from "./run.js";

/** Where code and a recorded run differ. */
export class ReplayDiffers extends Error {
  override readonly name = "ReplayDiffers";
  constructor(
    file: string,
    readonly why: string,
    cause?: Stop,
  ) {
    super(`${file}: ${why}`, cause === undefined ? undefined : { cause });
  }
}

interface Head {
  runId: string;
  taskId: string;
  kind: string;
  input: unknown;
  seed?: number;
  createdAt: string;
  attempt: number;
}

interface End {
  state: string;
  output?: unknown;
  error?: { category?: string };
}

interface Recorded {
  head: Head;
  checkpoints: WireCheckpoint[];
  end: End | undefined;
}

export interface ReplayOptions {
  /** Reads payloads that a codec wrote. */
  codec?: Codec;
}

/** Replays a golden file with a durable function, and compares the end. */
export async function replayFile(task: Task, file: string | URL, options: ReplayOptions = {}): Promise<void> {
  const name = String(file);
  const { codec } = options;
  const { head, checkpoints: recorded, end } = readGolden(name, readFileSync(file, "utf8"));
  if (head.kind !== task.kind)
    throw new ReplayDiffers(name, `it was recorded by \`${head.kind}\`, not by \`${task.kind}\``);
  const coordinator = new MemoryCoordinator(opened(codec, head.input));
  coordinator.taskId = head.taskId;
  coordinator.createdAt = Date.parse(head.createdAt);
  if (head.seed !== undefined) coordinator.seed = String(head.seed);
  coordinator.load(checkpoints(recorded));
  const run = await startRun(task, coordinator, head.attempt + 1, codec);
  try {
    compareEnd(name, commandOf(name, await run.next()), end, codec);
  } finally {
    run.close();
  }
}

/** Head, checkpoints and end of a file, if it is as it was exported. */
function readGolden(name: string, text: string): Recorded {
  const lines = text.trimEnd().split("\n");
  const seal = lines.length > 1 ? sealOf(lines.pop() ?? "") : undefined;
  const digest = createHash("sha256")
    .update(`${lines.join("\n")}\n`)
    .digest("hex");
  if (seal !== digest)
    throw new ReplayDiffers(name, "it was cut or changed since it was exported: export the run again");
  const read = lines.map((line) => parse(line) as Record<string, unknown>);
  return {
    head: read[0]?.["head"] as Head,
    checkpoints: read.flatMap((line) => (line["checkpoint"] as WireCheckpoint | undefined) ?? []),
    end: read.find((line) => "end" in line)?.["end"] as End | undefined,
  };
}

function sealOf(line: string): string | undefined {
  try {
    return (JSON.parse(line) as { seal?: { sha256?: string } }).seal?.sha256;
  } catch {
    return undefined;
  }
}

function commandOf(name: string, turn: Turn): Command {
  if (turn === "idle") throw new ReplayDiffers(name, "the code waits for something foreign");
  if ("stop" in turn) throw new ReplayDiffers(name, turn.stop.message, turn.stop);
  if ("bug" in turn) throw turn.bug;
  if ("handBack" in turn) throw new ReplayDiffers(name, `the code handed its task back: ${turn.handBack}`);
  return turn.command;
}

/** The first command of a replay is the end of the run, or the run was not over. */
function compareEnd(name: string, command: Command, end: End | undefined, codec: Codec | undefined): void {
  const complete = typeof command === "object" && "complete" in command ? command.complete : undefined;
  const hasEnded = end !== undefined && ["succeeded", "failed"].includes(end.state);
  if (!hasEnded) {
    if (complete !== undefined) throw new ReplayDiffers(name, "the code ends where the run went on");
    return;
  }
  if (complete === undefined)
    throw new ReplayDiffers(name, `the code goes on after the recorded end: ${JSON.stringify(command)}`);
  const { outcome, output, error, steps = [], children = [] } = complete;
  const [more] = [...steps, ...children];
  if (more !== undefined)
    throw new ReplayDiffers(name, `the code records \`${more.key}\`, which the run did not`);
  if (outcome.toLowerCase() !== end.state)
    throw new ReplayDiffers(name, `it ended ${end.state}, and now ${outcome}`);
  if (outcome === "FAILED" && end.error?.category && error?.category !== end.error.category)
    throw new ReplayDiffers(name, `it failed with ${end.error.category}, and now with ${error?.category}`);
  if (outcome !== "SUCCEEDED") return;
  const [was, is] = [end.output ?? null, output].map((value) => canonical(opened(codec, value)));
  if (was !== is) throw new ReplayDiffers(name, `its output was ${was}, and is now ${is}`);
}

/** The parts of vitest, Jest or `node:test` that `golden` calls. */
interface TestApi {
  it(name: string, run: () => Promise<void>): unknown;
}

/** One test for each golden file that fits the pattern (`golden/*.jsonl`): it fails where the code differs. */
export function golden(
  task: Task,
  pattern: string,
  api: TestApi = globalThis as unknown as TestApi,
  options: ReplayOptions = {},
): void {
  const files = filesLike(pattern);
  if (files.length === 0) throw new Error(`no golden file fits \`${pattern}\``);
  for (const file of files) api.it(`replays ${file}`, () => replayFile(task, file, options));
}

/** Files of one folder whose names fit a pattern with `*`. */
function filesLike(pattern: string): string[] {
  const folder = dirname(pattern);
  const escaped = basename(pattern)
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", ".*");
  const like = new RegExp(`^${escaped}$`);
  return readdirSync(folder)
    .filter((name) => like.test(name))
    .sort()
    .map((name) => join(folder, name));
}
