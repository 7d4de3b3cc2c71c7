/**
 * A coordinator in memory: records calls, keeps signals, lets people decide, ends children, and skips time when a run
 * waits.
 *
 * It does what a driver may expect of a real one: a repeated call gets its first answer, a changed step is refused,
 * results have a commit order, and what a wait is for arrives once. It knows no leases.
 */
import type {
  Awaited,
  Checkpoint,
  ChildRecord,
  EngineAnswer,
  EngineCall,
  Start,
  StepRecord,
  Wait,
} from "../engine/command.js";
import { type FailureRecord, recordOf } from "../failure.js";
import { canonical, throughJson } from "../json.js";
import { People } from "./people.js";

/** 2026-01-01T00:00:00.000Z. */
export const BEGINNING = 1_767_225_600_000;
/** Every commit that records something is this much later than the one before it. */
const TICK_MS = 1;

export type DeliveryOutcome = "DELIVERED" | "FAILED" | "UNKNOWN";

interface Child {
  at: number;
  end: { result: unknown } | { error: FailureRecord };
}

/** A run in memory cannot go on. */
export class Stuck extends Error {
  override readonly name = "Stuck";
  constructor(items: string) {
    super(
      `the run waits for ${items}, and nothing will bring it: send a signal, decide the approval or define the child`,
    );
  }
}

export class MemoryCoordinator {
  now = BEGINNING;
  createdAt = BEGINNING;
  taskId = "task_00000000000000000000000000";
  seed = "1";
  readonly history: Checkpoint[] = [];
  readonly people = new People();
  /** What becomes of effects of these types, and after which time; others are delivered at once. */
  readonly deliveries = new Map<string, { takesMs: number; outcome: DeliveryOutcome }>();
  readonly kinds = new Map<string, { takesMs: number; code: (input: unknown) => unknown }>();
  readonly #places = new Map<string, number>();
  /** Where envelopes begin. */
  #first = 0;
  #signals: Array<{ at: number; name: string; payload: unknown }> = [];
  readonly #children = new Map<string, Child>();
  readonly #effects = new Map<string, { type: string; at: number }>();
  #wait: Wait | undefined;

  constructor(private readonly input: unknown) {}

  load(checkpoints: readonly Checkpoint[]): void {
    for (const checkpoint of checkpoints) {
      this.now = Math.max(this.now, checkpoint.recordedAt);
      this.#keep(checkpoint);
    }
  }

  sendSignal(afterMs: number, name: string, payload: unknown): void {
    this.#signals.push({ at: BEGINNING + afterMs, name, payload });
    this.#signals.sort((a, b) => a.at - b.at);
  }

  /** What a lease's envelope brings: nothing from before the last savepoint. */
  start(fence: number): Start {
    const checkpoints = this.history.slice(this.#first);
    return {
      taskId: this.taskId,
      fence,
      seed: this.seed,
      createdAt: this.createdAt,
      input: this.input,
      checkpoints,
    };
  }

  /** Records a call as a whole, or refuses it. */
  async record(call: EngineCall): Promise<EngineAnswer> {
    const { steps = [], children = [], wait } = call;
    for (const step of steps) this.#check(step);
    if (!steps.every((step) => this.#places.has(placeOf(step.key, false)))) this.now += TICK_MS;
    let recordedAt = this.now;
    for (const step of steps) {
      this.#declare(step);
      recordedAt = this.#keep(recordedStep(step, this.now));
    }
    for (const child of children) await this.#startChild(child);
    this.#endChildren();
    for (const { key, approval } of wait?.for ?? []) if (approval) this.people.asked(key, this.now);
    const results = wait && this.#arrivals(wait);
    const waits = wait !== undefined && results === undefined;
    this.#wait = waits ? wait : undefined;
    return { state: waits ? "waiting" : "running", recordedAt, results: results ?? [], shouldCancel: false };
  }

  /** Moves the clock to the instants at which something happens, until the wait is satisfied. */
  skipTime(): void {
    const wait = this.#wait;
    this.#wait = undefined;
    while (wait !== undefined) {
      this.#endChildren();
      if (this.#arrivals(wait) !== undefined) return;
      const next = this.#nextInstant(wait);
      if (next === undefined) throw new Stuck(wait.for.map((item) => item.key).join(", "));
      this.now = next;
    }
  }

  #check(step: StepRecord): void {
    const place = this.#places.get(placeOf(step.key, false));
    const known = place === undefined ? undefined : this.history[place];
    if (known !== undefined && canonical(known) !== canonical(recordedStep(step, known.recordedAt))) {
      throw new Error(
        `\`${step.key}\` is recorded with another result or input: the engine recorded a step twice`,
      );
    }
  }

  #declare(step: StepRecord): void {
    for (const { key, type } of step.effects ?? []) {
      const name = `${step.key}\n${key}`;
      if (!this.#effects.has(name)) this.#effects.set(name, { type, at: this.now });
    }
  }

  /** Keeps a checkpoint, unless it is known. Returns when it was recorded. */
  #keep(checkpoint: Checkpoint): number {
    const place = placeOf(checkpoint.key, checkpoint.outcome === "STARTED");
    const known = this.#places.get(place);
    if (known !== undefined) return (this.history[known] as Checkpoint).recordedAt;
    if (checkpoint.savepoint) this.#first = this.history.length;
    this.#places.set(place, this.history.length);
    this.history.push(checkpoint);
    return checkpoint.recordedAt;
  }

  async #startChild({ key, inputDigest, detached, run }: ChildRecord): Promise<void> {
    if (this.#places.has(placeOf(key, true))) return;
    this.#keep({ key, outcome: "STARTED", inputDigest, recordedAt: this.now });
    const kind = this.kinds.get(run.kind ?? "");
    if (kind === undefined || detached) return;
    this.#children.set(key, { at: this.now + kind.takesMs, end: await endOf(() => kind.code(run.input)) });
  }

  /** Records the ends of children whose time has come, in order of time. */
  #endChildren(): void {
    const ended = [...this.#children].filter(([, child]) => child.at <= this.now);
    for (const [key, { end }] of ended.sort(([, a], [, b]) => a.at - b.at)) {
      this.#children.delete(key);
      const outcome = "error" in end ? "FAILED" : "SUCCEEDED";
      this.#keep({ key, outcome, ...end, recordedAt: this.now });
    }
  }

  /** What has arrived, if that satisfies the wait. A signal is taken once. */
  #arrivals(wait: Wait): Checkpoint[] | undefined {
    const isHere = (item: Awaited) => this.#isHere(item);
    const isSatisfied = wait.mode === "all" ? wait.for.every(isHere) : wait.for.some(isHere);
    if (!isSatisfied) return undefined;
    const places = wait.for.flatMap((item) => this.#take(item) ?? []);
    return places.sort((a, b) => a - b).map((place) => this.history[place] as Checkpoint);
  }

  #isHere(item: Awaited): boolean {
    if (this.#places.has(placeOf(item.key, false))) return true;
    if (item.until !== undefined) return item.until <= this.now;
    if (item.signal !== undefined) return this.#signal(item.signal) >= 0;
    if (item.approval !== undefined)
      return this.people.outcome(item.key, item.approval, this.now) !== undefined;
    const delivery = item.effect && this.#delivery(item.effect);
    return delivery !== undefined && delivery.at <= this.now;
  }

  #signal(name: string): number {
    return this.#signals.findIndex((signal) => signal.name === name && signal.at <= this.now);
  }

  #delivery(effect: { step: string; key: string }): { at: number; outcome: DeliveryOutcome } | undefined {
    const declared = this.#effects.get(`${effect.step}\n${effect.key}`);
    if (declared === undefined) return undefined;
    const { takesMs, outcome } = this.deliveries.get(declared.type) ?? {
      takesMs: 0,
      outcome: "DELIVERED" as const,
    };
    return { at: declared.at + takesMs, outcome };
  }

  /** Records an item that is here. Of a signal and its timer only the first is taken. */
  #take(item: Awaited): number | undefined {
    const { key } = item;
    const known = this.#places.get(placeOf(key, false));
    if (known !== undefined) return known;
    const isLate =
      key.endsWith(".timeout") && this.#places.has(placeOf(key.slice(0, -".timeout".length), false));
    if (isLate || !this.#isHere(item)) return undefined;
    const { payload, about } = this.#payload(item);
    this.#keep({ key, outcome: "SUCCEEDED", result: payload, inputDigest: about, recordedAt: this.now });
    return this.history.length - 1;
  }

  #payload(item: Awaited): { payload: unknown; about?: string | undefined } {
    if (item.signal !== undefined) {
      const [signal] = this.#signals.splice(this.#signal(item.signal), 1);
      return { payload: signal?.payload };
    }
    if (item.approval !== undefined) {
      const told = this.people.outcome(item.key, item.approval, this.now);
      if (told !== undefined) this.people.over(item.key, told);
      return { payload: told, about: item.approval.digest ?? undefined };
    }
    const delivery = item.effect && this.#delivery(item.effect);
    if (item.effect === undefined || delivery === undefined) return { payload: null };
    const reason = delivery.outcome === "FAILED" ? { reason: "tries_exhausted" } : {};
    const effectId = `eff_${item.effect.step}/${item.effect.key}`;
    return { payload: { outcome: delivery.outcome, effectId, atMs: delivery.at, ...reason } };
  }

  #nextInstant(wait: Wait): number | undefined {
    const items = wait.for.map(({ key, until, approval, effect }) => {
      if (approval !== undefined) return this.people.next(key, approval, this.now);
      return effect === undefined ? until : this.#delivery(effect)?.at;
    });
    const times = [
      ...items,
      ...this.#signals.map(({ at }) => at),
      ...[...this.#children.values()].map(({ at }) => at),
    ];
    const later = times.filter((at): at is number => at !== undefined && at > this.now);
    return later.length === 0 ? undefined : Math.min(...later);
  }
}

function placeOf(key: string, isStart: boolean): string {
  return isStart ? `start ${key}` : key;
}

function recordedStep(step: StepRecord, recordedAt: number): Checkpoint {
  const { key, outcome, result, error, inputDigest, savepoint } = step;
  return { key, outcome, result, error, inputDigest, recordedAt, savepoint };
}

async function endOf(code: () => unknown): Promise<Child["end"]> {
  try {
    return { result: throughJson(await code()) };
  } catch (thrown) {
    return { error: recordOf(thrown) };
  }
}
