/**
 * The context of a durable function: everything that it may wait for, read or draw.
 *
 * A flow belongs to one branch. What it gives is a function of the record: the code sees the same results, times and
 * numbers in every attempt. It does no I/O; only the work of a step does.
 */

import { checkOptions, shown } from "./checks.js";
import { firstNumber } from "./engine/draw.js";
import { inner, isName } from "./engine/key.js";
import { encodeResult, sealedResult } from "./engine/run.js";
import { misuse, Place } from "./engine/stop.js";
import { Setup, StepFailed } from "./errors.js";
import {
  APPROVAL_OPTIONS,
  checkBranch,
  checkCall,
  checkEffect,
  checkMap,
  checkMembers,
  checkName,
  checkRace,
  checkSignal,
  checkStep,
} from "./flow/checks.js";
import { AllCall, BranchCall, MapCall, type Settled, valuesOf } from "./flow/groups.js";
import {
  ApprovalCall,
  type ApprovalOptions,
  ChildCall,
  EffectCall,
  orUnwritable,
  SignalCall,
  SleepCall,
} from "./flow/kinds.js";
import { Begun, never, Operation, type Scope } from "./flow/operation.js";
import { type Effect, type Step, StepCall, type StepOptions } from "./flow/step.js";
import { AnyCall, type Wait } from "./flow/waits.js";
import { throughJson } from "./json.js";
import type { Log } from "./log.js";
import { SILENT } from "./log.js";
import type { RunOptions } from "./options.js";
import type { StandardSchemaV1 } from "./schema.js";
import { isSpan, type Span } from "./span.js";
import { type Arguments, submissionOf, type Task } from "./task.js";

/** What an operation gives. */
type ResultOf<Op> = Op extends Operation<infer T> ? T : never;
type Results<M extends readonly Operation<any>[]> = { -readonly [K in keyof M]: ResultOf<M[K]> };

/** The first of several waits: its name and its value, which belong together. */
type Winner<M extends Record<string, Wait<any>>> = {
  [K in keyof M & string]: { winner: K; value: ResultOf<M[K]> };
}[keyof M & string];

export class Flow {
  readonly #scope: Scope;
  readonly #log: Log;

  /** @internal */
  constructor(scope: Scope, log: Log = SILENT) {
    this.#scope = scope;
    this.#log = log;
  }

  /** Writes to the worker's log, and is silent while the record is replayed. */
  get log(): Log {
    return this.#scope.core.history.isEmpty ? this.#log : SILENT;
  }

  /**
   * Executes `work` at least once and records its result once: in every later attempt the recorded result is returned,
   * and `work` is not called. The work may await whatever it likes.
   */
  step<T>(name: string, work: (step: Step) => T | PromiseLike<T>, options: StepOptions = {}): Operation<T> {
    checkStep(name, work, options);
    return new StepCall<T>(this.#scope, name, work, options, new Place(this.step));
  }

  /** Waits without a worker until the time is over. */
  sleep(span: Span): Wait<void>;
  sleep(name: string, span: Span): Wait<void>;
  sleep(name: string | Span, span?: Span): Wait<void> {
    const at = new Place(this.sleep);
    if (!isSpan(typeof name === "string" ? span : name)) {
      const given = typeof name === "string" ? span : name;
      throw new Setup(
        `flow.sleep was given ${shown(given)} as its span`,
        "pass a span such as { minutes: 5 }",
      );
    }
    return typeof name === "string"
      ? new SleepCall(this.#scope, at, name, span as Span)
      : new SleepCall(this.#scope, at, undefined, name);
  }

  /** Waits for a signal of this name, and takes the oldest one that was not taken. */
  signal<T = unknown>(name: string, schema?: StandardSchemaV1<any, T>): SignalCall<T> {
    checkSignal(name, schema);
    return new SignalCall<T>(this.#scope, new Place(this.signal), name, schema);
  }

  /** Asks people, and waits without a worker until they have decided. A rejection is a value, like an approval. */
  approval(name: string, options: ApprovalOptions = {}): ApprovalCall {
    checkName("approval", name);
    checkOptions(`approval \`${name}\``, options, APPROVAL_OPTIONS);
    return new ApprovalCall(this.#scope, new Place(this.approval), name, options);
  }

  /** Sends something to a registered endpoint, once. Ask for `.delivered()` to wait until it has arrived. */
  effect(name: string, effect: Effect): EffectCall {
    checkEffect(name, effect);
    return new EffectCall(this.#scope, new Place(this.effect), name, effect);
  }

  /** Starts a child run and waits for its result. */
  call<I, O>(task: Task<I, O>, ...args: Arguments<I>): ChildCall<O> {
    const [input, options] = args;
    return this.#child<O>(task, input, options, new Place(this.call));
  }

  /** Starts a child run for each item and waits for all of them. The results have the order of the items. */
  map<I, O>(task: Task<I, O>, items: readonly I[], options: RunOptions & { max?: number } = {}): MapCall<O> {
    const at = new Place(this.map);
    checkMap(items, options);
    const { max = Number.POSITIVE_INFINITY, ...rest } = options;
    const calls = items.map((item) => this.#child<O>(task, item, rest, at));
    return new MapCall<O>(this.#scope, at, nameOf(task), calls, max);
  }

  #child<O>(task: Task, input: unknown, options: RunOptions | undefined, at: Place): ChildCall<O> {
    checkCall(task);
    const run = () =>
      submissionOf(
        task,
        orUnwritable(() => throughJson(input), `the input of call \`${task.kind}\``),
        options,
      );
    return new ChildCall<O>(this.#scope, at, run, nameOf(task));
  }

  /** Code with a cursor of its own, to give to `all`. Until it has ended, this flow can do nothing else. */
  branch<T>(name: string, code: (flow: Flow) => PromiseLike<T>): Operation<T> {
    checkBranch(name, code);
    const run = (scope: Scope) => code(new Flow(scope, this.#log));
    return new BranchCall<T>(this.#scope, new Place(this.branch), name, run);
  }

  /** Waits for all of them, and then gives every result, or throws the first failure by place. */
  all<const M extends readonly Operation<any>[]>(members: M): Operation<Results<M>> {
    checkMembers("all", members);
    const all = new AllCall(this.#scope, new Place(this.all), members);
    return new Mapped(this.#scope, all, (ends) => valuesOf(ends) as Results<M>);
  }

  /** Waits for all of them, and gives the end of each. */
  allSettled<const M extends readonly Operation<any>[]>(
    members: M,
  ): Operation<{ -readonly [K in keyof M]: Settled<ResultOf<M[K]>> }> {
    checkMembers("allSettled", members);
    return new AllCall(this.#scope, new Place(this.allSettled), members) as unknown as Operation<never>;
  }

  /** Waits for the first of them: signals, sleeps, calls, approvals and deliveries, each under a name. */
  any<const M extends Record<string, Wait<any>>>(members: M): Operation<Winner<M>> {
    checkRace(members);
    return new AnyCall(this.#scope, new Place(this.any), members) as unknown as Operation<Winner<M>>;
  }

  /** The coordinator's time of the last checkpoint of this branch, which is the same in every attempt. */
  now(): Operation<Date> {
    return new NowCall(this.#scope, new Place(this.now));
  }

  /** A number in [0, 1) that is the same in every attempt. It depends on no other draw. */
  random(label: string): number {
    const at = new Place(this.random);
    return Number(firstNumber(this.#draw(label, at)) >> 11n) / 2 ** 53;
  }

  /** A number of 64 bits, drawn like `random`. */
  randomU64(label: string): bigint {
    return firstNumber(this.#draw(label, new Place(this.randomU64)));
  }

  /** 32 bytes, drawn like `random`. */
  randomBytes(label: string): Uint8Array {
    return new Uint8Array(this.#draw(label, new Place(this.randomBytes)));
  }

  /** A UUID of version 4, drawn like `random`. */
  uuid(label: string): string {
    const bytes = this.#draw(label, new Place(this.uuid)).subarray(0, 16);
    bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
    return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }

  #draw(label: string, at: Place): Buffer {
    const { core, branch } = this.#scope;
    if (!isName(label)) core.end({ stop: misuse.badName(label, at) });
    return core.draw(branch, label);
  }

  /**
   * Whether the code may take the new path of the change `id`: always, unless this run was recorded by code without
   * the change and has yet to be replayed past this place. The first answer in a branch is kept.
   */
  patched(id: string): boolean {
    const at = new Place(this.patched);
    const { core, branch } = this.#scope;
    try {
      if (!isName(id)) throw misuse.badName(id, at);
      return core.isPatched(branch, id, at);
    } catch (stop) {
      core.end({ stop: stop as ReturnType<typeof misuse.badName> });
      return false;
    }
  }

  /** What the last savepoint of this run recorded, if there was one. */
  resumed<T>(): T | undefined {
    const { core } = this.#scope;
    return core.resumed === undefined ? undefined : (core.opened(core.resumed.state) as T);
  }

  /** Records `state` as the new start of replay, and starts the function over: it finds the state in `resumed`. */
  savepoint(state: unknown): Operation<never> {
    return new SavepointCall(this.#scope, new Place(this.savepoint), state);
  }

  /** The path of this branch; empty for the function's own. */
  get path(): string {
    return inner(this.#scope.branch, "").replace(/\/$/, "");
  }
}

/** The name of a call in the record: the kind, with `-` for what no name has. */
function nameOf(task: Task): string {
  return task.kind.replace(/[/:]/g, "-");
}

/** Another operation whose result is read in another way. */
class Mapped<A, B> extends Operation<B> {
  readonly label: string;
  constructor(
    scope: Scope,
    private readonly operation: Operation<A>,
    private readonly read: (result: A) => B,
  ) {
    super(scope, operation.at);
    operation.taken();
    this.label = operation.label;
  }

  async run(scope: Scope): Promise<B> {
    return this.read(await this.operation.run(scope));
  }
}

class NowCall extends Operation<Date> {
  readonly label = "now";

  async run(scope: Scope): Promise<Date> {
    const begun = new Begun(scope, this.label, this.at);
    const now = await begun.record();
    begun.end();
    return new Date(now);
  }
}

class SavepointCall extends Operation<never> {
  readonly label = "savepoint";

  constructor(
    scope: Scope,
    at: Place,
    private readonly state: unknown,
  ) {
    super(scope, at);
  }

  async run(scope: Scope): Promise<never> {
    const encoded = sealedResult(
      scope.core,
      encodeResult(this.state, { what: "the state of the savepoint" }),
    );
    if ("failure" in encoded) throw new StepFailed("savepoint", encoded.failure);
    const begun = new Begun(scope, this.label, this.at);
    if (scope.branch !== "") throw misuse.savepointInBranch(scope.branch, this.at);
    const { key } = begun.enter();
    scope.core.finish(scope.branch, { key, outcome: "SUCCEEDED", result: encoded.value, savepoint: true });
    await begun.record();
    return never();
  }
}
