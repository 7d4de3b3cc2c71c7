/**
 * The state of one attempt: what the code waits for, what has yet to be recorded, and what the driver does next.
 *
 * Operations put what they want into `wants` and wait. When the code cannot go on, {@link Core.settle} looks at all
 * wants together and makes the next commands. So what is ready at the same time goes out in one call, and nothing new
 * starts before the code has come to everything that was recorded.
 *
 * Invariants:
 * - A step starts only after all earlier results of its branch are recorded, and at most one call is under way.
 * - A wait is sent only when no step runs and nothing else is wanted: it may end the attempt.
 * - After an ending is set, no command is made.
 */
import { createHash } from "node:crypto";

import { type Codec, digestOf, opened, sealed } from "../codec.js";
import type { FailureRecord } from "../failure.js";
import type { BudgetLeft } from "../wire.js";
import { BranchState } from "./branch-state.js";
import type {
  Awaited,
  Checkpoint,
  ChildRecord,
  Command,
  EngineAnswer,
  EngineCall,
  Start,
  StepRecord,
  Wait,
} from "./command.js";
import { draw, firstNumber } from "./draw.js";
import { History } from "./history.js";
import { fits, keyOf, parseKey, ROOT, waitKey } from "./key.js";
import { misuse, type Place, Stop } from "./stop.js";

/** Open branches of one run. Each has a cursor in memory, and every answer wakes all of them. */
const BRANCHES_MAX = 1000;
/** The coordinator's limit: with results of the largest size a call is 25 MiB. */
const STEPS_PER_CALL_MAX = 100;
/** The coordinator's limit: each child is a task that one batch creates. */
const CHILDREN_PER_CALL_MAX = 500;
const DAY_MS = 24 * 60 * 60 * 1000;
/** The coordinator gives a wait up after 30 days unless the call says otherwise; a wait with a timer says so a day before. */
const WAIT_MS_DEFAULT = 30 * DAY_MS;

/** Why the code is not resumed. */
export type Ending =
  | { stop: Stop }
  /** A step failed whose failure ends the run. */
  | { abort: FailureRecord }
  /** A savepoint was recorded: the function starts over. */
  | { startOver: Checkpoint }
  | "suspend"
  | "halt"
  | "cancel";

/** What an operation waits for: that its branch is recorded, that its work may start, or that something arrives. */
export type Want =
  | { record: true }
  | { execute: { number: number; timeoutMs: number | undefined } }
  | { arrival: { mode: "all" | "any"; items: Awaited[] } };

interface Parked {
  answer: () => unknown;
  resolve: (answer: unknown) => void;
}

export interface Running {
  number: number;
  isTimedOut: boolean;
  /** What the work gave, once it has ended. */
  ended?: { value: unknown } | { thrown: unknown };
}

interface InFlight {
  /** The branch of each step and detached child in the call. */
  stepped: string[];
  detached: string[];
  savepoint: StepRecord | undefined;
  hasWait: boolean;
}

export class Core {
  /** The task with which the line of continuations began. */
  readonly origin: string;
  readonly fence: number;
  readonly #seed: string;
  /** What the function starts over with. */
  resumed: { state: unknown } | undefined;
  /** What is left of the run's budget, as the driver heard last. Only the work of steps reads it. */
  left: BudgetLeft | undefined;
  /** Whether the code may begin operations now: it runs because of something that this engine resolved. */
  isInside = false;
  /** Another instance of the code after each savepoint: operations of an older one do nothing. */
  epoch = 0;
  /** Operations that were made and not begun. */
  readonly made = new Set<{ label: string; at: Place }>();
  /** Called when the work of a step ends while the engine rests. */
  onChange: () => void = () => {};
  ending: Ending | undefined;
  readonly history: History;
  /** Counts begin above this one, which is that of the last savepoint: no key is used twice in a run. */
  #base = 0;
  #highest = 0;
  #branches = new Map<string, BranchState>();
  #wants = new Map<string, { branch: string; want: Want }>();
  #running = new Map<string, Running>();
  #finished: Array<{ branch: string; step: StepRecord }> = [];
  #children: Array<{ branch: string; child: ChildRecord }> = [];
  #inFlight: InFlight | undefined;
  #commands: Command[] = [];
  #parked: Parked[] = [];
  #isWoken = false;
  #last: { key: string; at: Place } | undefined;

  constructor(
    start: Start,
    private readonly codec?: Codec,
  ) {
    this.origin = start.origin ?? start.taskId;
    this.fence = start.fence;
    this.#seed = start.seed;
    const savepoint = start.checkpoints.findLastIndex((checkpoint) => checkpoint.savepoint === true);
    this.history = new History(start.checkpoints.slice(savepoint + 1));
    this.#branches.set(ROOT, new BranchState(start.createdAt));
    if (savepoint >= 0) this.startOver(start.checkpoints[savepoint] as Checkpoint);
  }

  /** Begins again from a savepoint: its result is all that is left of what came before. */
  startOver(savepoint: Checkpoint): void {
    this.#base = parseKey(savepoint.key).count;
    this.#highest = this.#base;
    this.#branches = new Map([[ROOT, new BranchState(savepoint.recordedAt)]]);
    this.resumed = { state: savepoint.result };
    this.#wants.clear();
    this.#parked = [];
    this.made.clear();
    this.epoch += 1;
  }

  // Values, which the record has in their stored form.

  sealed(value: unknown): unknown {
    return sealed(this.codec, value);
  }

  opened(value: unknown): unknown {
    return opened(this.codec, value);
  }

  /** Whether the coordinator has values in a form that it cannot read. */
  get isSealed(): boolean {
    return this.codec !== undefined;
  }

  /** What identifies a plain value. */
  digest(value: unknown): string {
    return digestOf(this.codec, value);
  }

  // Branches and keys.

  branch(name: string): BranchState {
    const state = this.#branches.get(name);
    if (state === undefined)
      throw new Error(`branch \`${name}\` has no state, although a flow was made for it`);
    return state;
  }

  /** Opens a branch inside another one, no earlier than `floor`. */
  open(outer: string, branch: string, floor: number, at: Place): void {
    if (this.#branches.get(branch)?.isOpen) throw misuse.openTwice(branch, at);
    const open = [...this.#branches.values()].filter((state) => state.isOpen).length;
    if (open >= BRANCHES_MAX) throw misuse.tooMany("open branches", open + 1, BRANCHES_MAX, at);
    const state = this.branch(outer);
    state.checkFree(outer, branch, at);
    state.innerOpen += 1;
    this.openState(branch, Math.max(state.now, floor));
  }

  /** The state of a branch, from a time on. A name that is used again continues its counts. */
  openState(branch: string, now: number): BranchState {
    const known = this.#branches.get(branch);
    if (known !== undefined) {
      known.reopen(now);
      return known;
    }
    const state = new BranchState(now);
    this.#branches.set(branch, state);
    return state;
  }

  close(outer: string, branch: string): void {
    const state = this.branch(branch);
    state.isOpen = false;
    const around = this.branch(outer);
    around.innerOpen -= 1;
    around.joined = Math.max(around.joined, state.now, state.joined);
  }

  /** Numbers the uses of one label in one branch. */
  count(branch: string, label: string): number {
    const { counts } = this.branch(branch);
    const count = (counts.get(label) ?? this.#base) + 1;
    counts.set(label, count);
    this.#highest = Math.max(this.#highest, count);
    return count;
  }

  /** Gives an operation its key and compares it with the record. Returns whether it was recorded. */
  enter(
    branch: string,
    label: string,
    inputDigest: string | undefined,
    at: Place,
  ): { key: string; isRecorded: boolean } {
    // The highest count so far, and one: every count before a savepoint is smaller than those after it.
    const count = label === "savepoint" ? this.#highest + 1 : this.count(branch, label);
    const key = keyOf(branch, label, count);
    if (!fits(key)) throw misuse.badName(label, at);
    this.#last = { key, at };
    const state = this.branch(branch);
    const isRecorded = this.history.enter(branch, state.index, { key, inputDigest }, at);
    state.index += 1;
    return { key, isRecorded };
  }

  /** The same for a member of a race: one that lost has no place in the record, and is new in every replay. */
  enterRaced(
    branch: string,
    label: string,
    inputDigest: string | undefined,
    at: Place,
  ): { key: string; isRecorded: boolean } {
    if (this.isRecordedNext(branch, label)) return this.enter(branch, label, inputDigest, at);
    const key = keyOf(branch, label, this.count(branch, label));
    if (!fits(key)) throw misuse.badName(label, at);
    this.#last = { key, at };
    return { key, isRecorded: false };
  }

  /** Whether the record's next operation of this branch is the next one of this label. */
  isRecordedNext(branch: string, label: string): boolean {
    const count = (this.branch(branch).counts.get(label) ?? this.#base) + 1;
    return this.history.isNext(branch, label, count);
  }

  /** Whether new code may take a new path: the record of the branch is over, or has the marker next. */
  isPatched(branch: string, id: string, at: Place): boolean {
    const { patches } = this.branch(branch);
    const known = patches.get(id);
    if (known !== undefined) return known;
    const label = `patched:${id}`;
    const answer = this.history.isOver(branch) || this.isRecordedNext(branch, label);
    patches.set(id, answer);
    if (answer) {
      const { key, isRecorded } = this.enter(branch, label, undefined, at);
      if (isRecorded) this.takeFirst(branch, [key]);
      else this.finish(branch, { key, outcome: "SUCCEEDED", result: null });
    }
    return answer;
  }

  draw(branch: string, label: string): Buffer {
    return draw(this.#seed, branch, label, this.count(branch, `random:${label}`));
  }

  /** A number that differs between the tries of a step, and is the same in every replay. */
  jitter(branch: string, key: string, number: number): bigint {
    return firstNumber(draw(this.#seed, branch, key, number));
  }

  // Results.

  has(key: string): boolean {
    return this.history.has(key);
  }

  /** Takes the result that was committed first; the branch's time follows. */
  takeFirst(branch: string, keys: readonly string[]): Checkpoint | undefined {
    const checkpoint = this.history.takeFirst(keys);
    if (checkpoint !== undefined) {
      const state = this.branch(branch);
      state.now = Math.max(state.now, checkpoint.recordedAt);
    }
    return checkpoint;
  }

  /** Keeps a result for the next call. */
  finish(branch: string, step: StepRecord): void {
    this.branch(branch).unrecorded += 1;
    this.#finished.push({ branch, step });
  }

  /** Keeps a child for the next call. Nothing else waits for a detached one, so its start counts as a result. */
  startChild(branch: string, child: ChildRecord): void {
    if (child.detached) this.branch(branch).unrecorded += 1;
    this.#children.push({ branch, child });
  }

  // Wants, and what waits for them.

  want(key: string, branch: string, want: Want): void {
    this.#wants.set(key, { branch, want });
  }

  satisfied(key: string): void {
    this.#wants.delete(key);
  }

  running(key: string): Running | undefined {
    return this.#running.get(key);
  }

  stoppedRunning(key: string): void {
    this.#running.delete(key);
  }

  /** The work of a try has ended. */
  ended(key: string, running: Running, ended: NonNullable<Running["ended"]>): void {
    if (this.#running.get(key) !== running || running.ended !== undefined) return;
    running.ended = ended;
    if (this.isInside) this.wake();
    else this.onChange();
  }

  timeOut(key: string, number: number): void {
    const running = this.#running.get(key);
    if (running?.number === number) running.isTimedOut = true;
  }

  /** Waits until there is an answer. It is asked again after every event. */
  until<T>(answer: () => T | undefined): Promise<T> {
    const now = answer();
    if (now !== undefined) return Promise.resolve(now);
    return new Promise((resolve) => {
      this.#parked.push({ answer, resolve: resolve as (answer: unknown) => void });
    });
  }

  /** Whether an operation was resumed since this was asked last: the code has yet to run then. */
  takeWoken(): boolean {
    const woken = this.#isWoken;
    this.#isWoken = false;
    return woken;
  }

  /** Resumes every operation whose wait is over. */
  wake(): void {
    if (this.ending !== undefined) return;
    const parked = this.#parked;
    this.#parked = [];
    for (const waiting of parked) {
      const answer = waiting.answer();
      if (answer === undefined) {
        this.#parked.push(waiting);
      } else {
        this.#isWoken = true;
        waiting.resolve(answer);
      }
    }
  }

  // Endings.

  /** The first reason stands. */
  end(ending: Ending): void {
    this.ending ??= ending;
  }

  endByForeignAwait(): void {
    const last = this.#last === undefined ? undefined : `\`${this.#last.key}\` (${this.#last.at})`;
    this.end({ stop: misuse.foreignAwait(last) });
  }

  /** What is recorded and was not reached, now that the code cannot go on. */
  unreached(): Stop | undefined {
    const found = this.history.unreached();
    if (found === undefined) return undefined;
    const { branch, seen } = found;
    const index = this.#branches.get(branch)?.index ?? 0;
    return Stop.diverged({ difference: "unreached", branch, index, recorded: seen, actual: undefined });
  }

  /** What the code left undone when it returned. */
  undone(): Stop | undefined {
    const root = this.branch(ROOT);
    if (root.busy !== undefined) return misuse.dropped(root.busy);
    const open = [...this.#branches].find(([name, state]) => name !== ROOT && state.isOpen);
    if (open !== undefined) return misuse.dropped(open[0]);
    const [made] = this.made;
    return made === undefined ? undefined : misuse.notAwaited(made.label, made.at);
  }

  // Commands.

  nextCommand(): Command | undefined {
    return this.ending === undefined ? this.#commands.shift() : undefined;
  }

  get hasCallUnderWay(): boolean {
    return this.#inFlight !== undefined;
  }

  /** Makes the next commands, or an ending, now that the code cannot go on. Returns whether there is one. */
  settle(): boolean {
    const stop = this.history.isEmpty ? undefined : this.unreached();
    if (stop !== undefined) {
      this.end({ stop });
      return true;
    }
    this.#startSteps();
    if (this.#inFlight === undefined) {
      const call = this.#dueCall();
      if (call !== undefined) this.#commands.push({ checkpoint: call });
      else if (this.#wants.size === 0 && this.#running.size === 0) this.endByForeignAwait();
    }
    return this.ending !== undefined || this.#commands.length > 0;
  }

  /** In the byte order of keys, as every engine has it. */
  #sortedWants(): Array<[string, { branch: string; want: Want }]> {
    return [...this.#wants].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Lets steps start whose branch has nothing unrecorded. */
  #startSteps(): void {
    for (const [key, { branch, want }] of this.#sortedWants()) {
      if (!("execute" in want) || this.branch(branch).unrecorded > 0) continue;
      const { number, timeoutMs } = want.execute;
      this.#wants.delete(key);
      this.#running.set(key, { number, isTimedOut: false });
      this.#commands.push({
        execute: { key, try: number, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
      });
    }
  }

  /** A call is due when an operation waits for a record, when children are to start, and when all that is left is to wait. */
  #dueCall(): EngineCall | undefined {
    const wants = [...this.#wants.values()];
    const isBlocked = wants.some(({ want }) => !("arrival" in want));
    const isIdle = this.#running.size === 0 && !isBlocked && wants.length > 0;
    if (!isBlocked && !isIdle && this.#children.length === 0) return undefined;
    return this.#call(isIdle);
  }

  #call(isIdle: boolean): EngineCall {
    const stepped = this.#finished.splice(0, STEPS_PER_CALL_MAX);
    const started = this.#children.splice(0, CHILDREN_PER_CALL_MAX);
    const isAll = this.#finished.length === 0 && this.#children.length === 0;
    const wait = isIdle && isAll ? this.#wait() : undefined;
    this.#inFlight = {
      stepped: stepped.map(({ branch }) => branch),
      detached: started.filter(({ child }) => child.detached).map(({ branch }) => branch),
      savepoint: stepped.find(({ step }) => step.savepoint)?.step,
      hasWait: wait !== undefined,
    };
    return {
      ...(stepped.length > 0 ? { steps: stepped.map(({ step }) => step) } : {}),
      ...(started.length > 0 ? { children: started.map(({ child }) => child) } : {}),
      ...(wait === undefined ? {} : { wait }),
    };
  }

  /** One wait for all operations that wait. A single one says whether it needs all of its items; several need any. */
  #wait(): Wait {
    const waiting = this.#sortedWants().flatMap(([, { branch, want }]) =>
      "arrival" in want ? [{ branch, ...want.arrival }] : [],
    );
    const items = waiting.flatMap(({ items }) => items.filter((item) => !this.has(item.key)));
    const mode = waiting.length === 1 ? (waiting[0]?.mode ?? "any") : "any";
    const maxMs = this.#maxMs(waiting);
    return { key: nameOfWait(items), mode, for: items, ...(maxMs === undefined ? {} : { maxMs }) };
  }

  /** Long enough for the last timer or expiry. It counts from the branch's time, which is never after that of the call. */
  #maxMs(waiting: Array<{ branch: string; items: Awaited[] }>): number | undefined {
    const spans = waiting.flatMap(({ branch, items }) =>
      items.map((item) => (item.until ?? item.approval?.expiresAt ?? 0) - this.branch(branch).now),
    );
    const longest = Math.max(0, ...spans) + DAY_MS;
    return longest > WAIT_MS_DEFAULT ? longest : undefined;
  }

  /** The answer to the call that is under way. */
  recorded(answer: EngineAnswer): void {
    const call = this.#inFlight;
    if (call === undefined) throw new Error("an answer follows a call");
    this.#inFlight = undefined;
    for (const branch of [...call.detached, ...call.stepped]) this.branch(branch).unrecorded -= 1;
    for (const branch of call.stepped) {
      const state = this.branch(branch);
      state.now = Math.max(state.now, answer.recordedAt);
    }
    const results = answer.results ?? [];
    for (const result of results) this.history.arrive(result);
    if (answer.state === "waiting") this.end("suspend");
    else if (answer.state === "halted") this.end("halt");
    else if (answer.shouldCancel === true) this.end("cancel");
    else if (call.hasWait && results.length === 0) this.end({ stop: misuse.emptyAnswer() });
    if (call.savepoint !== undefined) {
      const { key, result } = call.savepoint;
      this.end({
        startOver: { key, outcome: "SUCCEEDED", result, recordedAt: answer.recordedAt, savepoint: true },
      });
    }
  }

  /** What rides with the report. */
  takeRest(): { steps?: StepRecord[]; children?: ChildRecord[] } {
    const steps = this.#finished.splice(0).map(({ step }) => step);
    const children = this.#children.splice(0).map(({ child }) => child);
    return { ...(steps.length > 0 ? { steps } : {}), ...(children.length > 0 ? { children } : {}) };
  }
}

/**
 * The name of a wait follows from its items. No two waits of a run are for the same items, because an item that has
 * arrived is not awaited again.
 */
function nameOfWait(items: readonly Awaited[]): string {
  if (items.length === 1) return waitKey(items[0]?.key ?? "");
  const hash = createHash("sha256");
  for (const item of items) hash.update(`${item.key}\n`);
  return waitKey(hash.digest("hex").slice(0, 32));
}
