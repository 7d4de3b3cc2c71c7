/**
 * Between the engine of durable functions and the wire: the same values, in the shapes of either side, and one call of
 * the engine in as many calls of the wire as the coordinator's limits need.
 *
 * One thing is derived here: the coordinator records a wait as one checkpoint that says what satisfied it, and the
 * engine knows a checkpoint of each item that arrived. The order of a call is kept, and a wait comes last.
 */
import type {
  Awaited,
  Checkpoint,
  ChildRecord,
  EngineAnswer,
  EngineCall,
  Outcome,
  StepRecord,
  Wait,
} from "../engine/command.js";
import { isWait, localName } from "../engine/key.js";
import type { Divergence, Seen, Stop } from "../engine/stop.js";
import type { FailureRecord } from "../failure.js";
import { writeChecked } from "../json.js";
import type * as wire from "../wire.js";

/** Half of the coordinator's limit on a body: a wait for thousands of children fits beside it. */
const PART_BYTES_MAX = 512 * 1024;
/** What rides with a report, whose output may be as large as a payload can be. */
const RIDING_BYTES_MAX = 128 * 1024;
/** The coordinator's limits of one call. */
const STEPS_MAX = 100;
const CHILDREN_MAX = 500;
const EFFECTS_MAX = 100;

/** A part of a call: the members of a checkpoint, as finished JSON. */
interface Part {
  steps: string[];
  children: string[];
  effects: string[];
  wait: string | undefined;
  bytes: number;
}

function newPart(): Part {
  return { steps: [], children: [], effects: [], wait: undefined, bytes: 0 };
}

/** The texts of a call, each a JSON object. There is at least one. */
export function callTexts(call: EngineCall): string[] {
  const parts = partsOf(call.steps ?? [], call.children ?? []);
  if (call.wait !== undefined) {
    const wait = writeChecked(waitFor(call.wait));
    let last = parts.at(-1);
    if (last === undefined || last.bytes + wait.length > PART_BYTES_MAX) {
      last = newPart();
      parts.push(last);
    }
    last.wait = wait;
  }
  if (parts.length === 0) parts.push(newPart());
  return parts.map((part) => `{${membersOf(part)}}`);
}

/** What must be recorded before a report, and the members that ride with it. */
export function ridingTexts(
  steps: StepRecord[],
  children: ChildRecord[],
): { before: string[]; riding: string } {
  const parts = partsOf(steps, children);
  const last = parts.at(-1);
  const rides = last !== undefined && last.bytes <= RIDING_BYTES_MAX ? parts.pop() : undefined;
  return {
    before: parts.map((part) => `{${membersOf(part)}}`),
    riding: rides === undefined ? "" : membersOf(rides),
  };
}

function membersOf({ steps, children, effects, wait }: Part): string {
  const members = [
    steps.length > 0 ? `"steps":[${steps.join(",")}]` : "",
    children.length > 0 ? `"children":[${children.join(",")}]` : "",
    effects.length > 0 ? `"effects":[${effects.join(",")}]` : "",
    wait === undefined ? "" : `"wait":${wait}`,
  ];
  return members.filter((member) => member !== "").join(",");
}

function partsOf(steps: StepRecord[], children: ChildRecord[]): Part[] {
  const parts: Part[] = [];
  const roomFor = (bytes: number, effects: number): Part => {
    let last = parts.at(-1);
    const fits =
      last !== undefined &&
      last.steps.length < STEPS_MAX &&
      last.children.length < CHILDREN_MAX &&
      last.effects.length + effects <= EFFECTS_MAX &&
      last.bytes + bytes <= PART_BYTES_MAX;
    if (last === undefined || !fits) {
      last = newPart();
      parts.push(last);
    }
    last.bytes += bytes;
    return last;
  };
  for (const { effects = [], ...step } of steps) {
    const text = writeChecked(step);
    const declared = effects.map((effect) => writeChecked({ ...effect, step: step.key }));
    const bytes = [text, ...declared].reduce((sum, it) => sum + Buffer.byteLength(it), 0);
    const part = roomFor(bytes, declared.length);
    part.steps.push(text);
    part.effects.push(...declared);
  }
  for (const { run, ...child } of children) {
    const text = writeChecked({ ...run, ...child });
    roomFor(Buffer.byteLength(text), 0).children.push(text);
  }
  return parts;
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}

function waitFor(wait: Wait): wire.WaitFor {
  return { ...wait, for: wait.for.map(awaitedItem) } as wire.WaitFor;
}

function awaitedItem(item: Awaited): wire.AwaitedItem {
  const { until, approval, ...rest } = item;
  if (until !== undefined) return { ...rest, until: time(until) };
  if (approval === undefined) return rest;
  const { expiresAt, ...terms } = approval;
  return {
    ...rest,
    approval: { ...terms, ...(expiresAt === undefined ? {} : { expiresAt: time(expiresAt) }) },
  };
}

/** Why a run stops, for the people who see the run. */
export function diverged(stop: Stop): wire.Diverged {
  const { divergence } = stop;
  if (divergence === undefined) return { branch: "", index: 0, recorded: "", actual: stop.message };
  const { branch, index, recorded, at } = divergence;
  const actual = actualOf(divergence);
  return {
    branch,
    index,
    recorded: divergence.difference === "input" ? withInput(recorded) : keyOf(recorded),
    actual: at === undefined ? actual : `${actual} (${at})`,
  };
}

function actualOf({ difference, actual, problem }: Divergence): string {
  switch (difference) {
    case "operation":
      return keyOf(actual);
    case "input":
      return withInput(actual);
    case "unreached":
      return "nothing: the code never reaches it";
    case "unreadable":
      return `a type that cannot read it: ${problem}`;
  }
}

function keyOf(seen: Seen | undefined): string {
  return seen?.key ?? "nothing";
}

function withInput(seen: Seen | undefined): string {
  return `${keyOf(seen)} with input ${seen?.inputDigest ?? "none"}`;
}

/** What was recorded, as the engine reads it. */
export function checkpoints(recorded: readonly wire.Checkpoint[]): Checkpoint[] {
  return recorded.flatMap((checkpoint) =>
    checkpoint.kind === "WAIT" ? arrival(checkpoint) : [ended(checkpoint)],
  );
}

function ended(recorded: wire.Checkpoint): Checkpoint {
  const { key, outcome, result, error, inputDigest, recordedAt, savepoint } = recorded;
  return {
    key,
    outcome,
    result: result ?? null,
    error: error ? failureOf(error, outcome) : undefined,
    inputDigest: inputDigest ?? undefined,
    recordedAt: Date.parse(recordedAt),
    savepoint: savepoint === true,
  };
}

function failureOf(error: wire.CheckpointError, outcome: Outcome): FailureRecord {
  // The coordinator itself ends children without a category.
  const category = error.category ?? (outcome === "CANCELLED" ? "CANCELLED" : "INFRASTRUCTURE");
  return {
    category,
    ...(error.reason ? { reason: error.reason } : {}),
    message: error.message,
    ...(typeof error.retryable === "boolean" ? { retryable: error.retryable } : {}),
  };
}

/** The item that satisfied a wait: the winner, or the only one, whose key the wait's key contains. */
function arrival(recorded: wire.Checkpoint): Checkpoint[] {
  const wait = recorded.wait ?? {};
  const only =
    isWait(recorded.key) && recorded.key.includes("#") ? recorded.key.slice("wait:".length) : undefined;
  const key = wait.winner ?? only;
  if (key === undefined || key === null) return [];
  const name = localName(key);
  // Children have ended in checkpoints of their own; the timer beside one has none.
  if (name.startsWith("child:") && !key.endsWith(".timeout")) return [];
  const result = wait.signals?.find((signal) => signal.key === key)?.payload ?? null;
  // What people decided about is to an approval what its input is to a step.
  const about = name.startsWith("approval:")
    ? (result as { digest?: string | null } | null)?.digest
    : undefined;
  return [
    {
      key,
      outcome: "SUCCEEDED",
      result,
      inputDigest: about ?? undefined,
      recordedAt: Date.parse(recorded.recordedAt),
    },
  ];
}

/** The answer to a committed call. */
export function engineAnswer(answer: wire.CheckpointAnswer, serverTime: string): EngineAnswer {
  // A repeated call that ended its attempt has no lease, although another attempt may be running by now.
  const hasLease = Boolean(answer.leaseExpiresAt);
  const isOpen = !answer.state || answer.state === "running" || answer.state === "waiting";
  const isRunning = hasLease && (!answer.state || answer.state === "running");
  return {
    state: isRunning ? "running" : isOpen ? "waiting" : "halted",
    recordedAt: Date.parse(answer.recordedAt ?? serverTime),
    results: checkpoints(answer.results ?? []),
    shouldCancel: answer.shouldCancel === true,
  };
}
