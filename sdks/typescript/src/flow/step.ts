/**
 * Steps: work with effects, executed at least once and recorded once.
 *
 * A failed try is recorded under its own key (`charge#1.2`), and the pause before the next try is a durable timer, so
 * a worker that dies in between neither repeats a counted try nor shortens a pause. Settings (retries, timeout, what a
 * failure means) are not part of the identity: they may change under a run.
 */
import { callAsCurrent } from "../current.js";
import type { Checkpoint, EffectRecord, StepRecord } from "../engine/command.js";
import type { Core, Running } from "../engine/core.js";
import { pauseMs } from "../engine/draw.js";
import { encodeResult, sealedResult } from "../engine/run.js";
import { Stop } from "../engine/stop.js";
import { StepFailed } from "../errors.js";
import { Failure, type FailureRecord, isRetryable, namedFailure, recordOf } from "../failure.js";
import { throughJson, Unwritable } from "../json.js";
import { type Amounts, added } from "../options.js";
import { milliseconds, optionalMilliseconds, type Span } from "../span.js";
import type { BudgetLeft } from "../wire.js";
import { Begun, checkName, never, Operation, type Scope } from "./operation.js";

/** A step that failed a hundred times needs a person. */
const TRIES_MAX = 100;
const PAUSE_BASE_MS = 5_000;
const PAUSE_CAP_MS = 300_000;

/** How often a step is tried, and how the pause between tries grows: from `base`, doubling, up to `cap`. */
export interface Retry {
  tries: number;
  base?: Span;
  cap?: Span;
}

export interface StepOptions {
  /** A number of tries, or tries and pauses. */
  retry?: number | Retry;
  /** How long one try may take. */
  timeout?: Span;
  /** What the work depends on. A replay with another input is a divergence. */
  input?: unknown;
  /** What the failure means: the run fails (`abort`), or code gets it (`continue`, and `retry` after the last try). */
  onError?: "abort" | "continue" | "retry";
}

/** Something to send to a registered endpoint, by its name. */
export interface Effect {
  endpoint: string;
  /** What happened, in a word. */
  type: string;
  body: unknown;
  /** Effects with the same name arrive in the order in which they were recorded. */
  aggregate?: string;
  /** Tells the effects of one step apart; the type when absent. */
  key?: string;
}

export function effectRecord(effect: Effect): EffectRecord {
  const { endpoint, type, aggregate, key = type } = effect;
  return {
    key,
    endpoint,
    type,
    ...(aggregate === undefined ? {} : { aggregate }),
    body: throughJson(effect.body),
  };
}

/** A body without a JSON form is the failure of the step that declares the effect: another try would not mend it. */
function checkedEffect(effect: Effect): EffectRecord {
  try {
    return effectRecord(effect);
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    const { category, message, ...options } = namedFailure(
      "EFFECT_UNWRITABLE",
      `the body of effect \`${effect.type}\`: ${error.message}`,
    );
    throw new Failure(category, message, options);
  }
}

/** What the work of a step is given. */
export class Step {
  /** Made when the code asks for its signal: few do, and it costs more than the rest of a step. */
  #abort: AbortController | undefined;
  #isTimedOut = false;
  #spent: Required<Amounts> | undefined;
  #effects: EffectRecord[] = [];

  constructor(
    /** The same in every try and every attempt: pass it to services that recognise repeated requests. */
    readonly idempotencyKey: string,
    /** Larger in every attempt: a store that remembers the largest one can refuse a late worker. */
    readonly fence: number,
    /** Numbers the tries of this step, from 1. */
    readonly number: number,
    /** What was left of the run's budget when this try started. */
    readonly left: BudgetLeft | undefined,
  ) {}

  /** Aborts when the time of this try is over. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#isTimedOut) this.#abort.abort(tooLong());
    return this.#abort.signal;
  }

  /** Adds to what this try used of the run's budget. */
  spend(amounts: Amounts): void {
    this.#spent = added(this.#spent, amounts);
  }

  /** Asks for an effect, which is recorded with the step if this try succeeds. */
  effect(effect: Effect): void {
    this.#effects.push(checkedEffect(effect));
  }

  /** @internal */
  timedOut(): void {
    this.#isTimedOut = true;
    this.#abort?.abort(tooLong());
  }

  /** @internal */
  spent(): Required<Amounts> | undefined {
    return this.#spent;
  }

  /** @internal */
  declared(): EffectRecord[] {
    return this.#effects;
  }
}

const tooLong = () => new Error("the step took longer than its timeout");

interface Tried {
  result: { value: unknown } | { failure: FailureRecord };
  spend?: Required<Amounts> | undefined;
  effects?: EffectRecord[];
}

export class StepCall<T> extends Operation<T> {
  readonly label: string;
  /** The key that the result is recorded under, once it has begun. */
  key: string | undefined;

  constructor(
    scope: Scope,
    readonly name: string,
    private readonly work: (step: Step) => T | PromiseLike<T>,
    private readonly options: StepOptions,
    at: ConstructorParameters<typeof Operation>[1],
  ) {
    super(scope, at);
    this.label = name;
    // A span that is none is told where the step is made.
    if (options.timeout !== undefined) milliseconds(options.timeout);
  }

  async run(scope: Scope): Promise<T> {
    checkName(this.name, this.at);
    const inputDigest = this.#inputDigest(scope.core);
    const begun = new Begun(scope, this.name, this.at);
    const { key } = begun.enter(inputDigest);
    this.key = key;
    const checkpoint = begun.takeFirst([key]) ?? (await this.#tries(begun, key, inputDigest));
    begun.core.history.forgetParts(key);
    const read = this.#read(begun, key, checkpoint);
    return read === undefined ? never() : (read.value as T);
  }

  #inputDigest(core: Core): string | undefined {
    if (!("input" in this.options)) return undefined;
    try {
      return core.digest(throughJson(this.options.input));
    } catch (error) {
      if (!(error instanceof Unwritable)) throw error;
      throw new StepFailed(
        this.name,
        namedFailure("INPUT_UNWRITABLE", `the input of step \`${this.name}\`: ${error.message}`),
      );
    }
  }

  /** Tries until there is a result to record. */
  async #tries(begun: Begun, key: string, inputDigest: string | undefined): Promise<Checkpoint> {
    for (let number = 1; ; number++) {
      const part = `${key}.${number}`;
      const recorded = begun.takeFirst([part])?.error;
      const tried: Tried = recorded ? { result: { failure: recorded } } : await this.#try(begun, key, number);
      if (!("failure" in tried.result) || !this.#mayRetry(number, tried.result.failure)) {
        return this.#record(begun, key, inputDigest, tried);
      }
      if (recorded === undefined) this.#record(begun, part, inputDigest, { ...tried, effects: [] });
      await begun.pause(`${part}.wait`, () => this.#pauseMs(begun, key, number));
    }
  }

  async #try(begun: Begun, key: string, number: number): Promise<Tried> {
    const { core } = begun;
    const running = await begun.start(number, optionalMilliseconds(this.options.timeout));
    const step = new Step(`${core.origin}/${key}`, core.fence, number, core.left);
    this.#work(step, core, key, running);
    const ended =
      running.ended ?? (await core.until(() => running.ended ?? (running.isTimedOut || undefined)));
    core.stoppedRunning(key);
    const spend = step.spent();
    if (ended === true) {
      step.timedOut();
      return { result: { failure: TIMED_OUT }, spend };
    }
    if ("thrown" in ended) return { result: { failure: recordOf(ended.thrown) }, spend };
    return { result: this.#resultOf(core, ended.value), spend, effects: step.declared() };
  }

  #resultOf(core: Core, value: unknown): Tried["result"] {
    return sealedResult(core, encodeResult(value, { what: `the result of step \`${this.name}\`` }));
  }

  /** Work that returns no promise needs none. */
  #work(step: Step, core: Core, key: string, running: Running): void {
    try {
      const value = callAsCurrent(step, this.work);
      if (typeof (value as PromiseLike<T> | undefined)?.then !== "function")
        return core.ended(key, running, { value });
      (value as PromiseLike<T>).then(
        (value) => core.ended(key, running, { value }),
        (thrown: unknown) => core.ended(key, running, { thrown }),
      );
    } catch (thrown) {
      core.ended(key, running, { thrown });
    }
  }

  #mayRetry(number: number, failure: FailureRecord): boolean {
    const { retry, onError = retry === undefined ? "continue" : "retry" } = this.options;
    const tries = typeof retry === "number" ? retry : (retry?.tries ?? 1);
    return onError === "retry" && number < Math.min(Math.max(tries, 1), TRIES_MAX) && isRetryable(failure);
  }

  #pauseMs(begun: Begun, key: string, number: number): number {
    const retry = typeof this.options.retry === "object" ? this.options.retry : undefined;
    const base = optionalMilliseconds(retry?.base) ?? PAUSE_BASE_MS;
    const cap = optionalMilliseconds(retry?.cap) ?? PAUSE_CAP_MS;
    return pauseMs(number, base, cap, begun.core.jitter(begun.scope.branch, key, number));
  }

  /** Keeps a result for the next call. Later code sees what will be recorded. */
  #record(begun: Begun, key: string, inputDigest: string | undefined, tried: Tried): Checkpoint {
    const { result, spend, effects = [] } = tried;
    const step: StepRecord =
      "failure" in result
        ? { key, outcome: "FAILED", error: result.failure }
        : { key, outcome: "SUCCEEDED", result: result.value };
    if (inputDigest !== undefined) step.inputDigest = inputDigest;
    const kept = { ...step, recordedAt: begun.core.branch(begun.scope.branch).now };
    if (spend !== undefined) step.spend = spend;
    if (effects.length > 0 && step.outcome === "SUCCEEDED") step.effects = effects;
    begun.core.finish(begun.scope.branch, step);
    return kept;
  }

  /** What code gets, or nothing if the run ends here. */
  #read(begun: Begun, key: string, checkpoint: Checkpoint): { value: unknown } | undefined {
    if (checkpoint.outcome === "SUCCEEDED") {
      const read = encodeResult(begun.core.opened(checkpoint.result));
      if ("failure" in read) throw this.#unreadable(begun, key, read.failure.message);
      begun.end();
      return read;
    }
    const failure = checkpoint.error ?? namedFailure("NO_ERROR", "recorded without an error");
    if (this.options.onError === "abort") {
      begun.core.end({ abort: failure });
      return undefined;
    }
    begun.end();
    throw new StepFailed(key, failure);
  }

  #unreadable(begun: Begun, key: string, problem: string): Stop {
    const { branch } = begun.scope;
    const index = begun.core.branch(branch).index - 1;
    return Stop.diverged({
      difference: "unreadable",
      branch,
      index,
      recorded: { key },
      actual: undefined,
      at: this.at,
      problem,
    });
  }
}

const TIMED_OUT: FailureRecord = {
  category: "TIMEOUT",
  reason: "STEP_TIMEOUT",
  message: "the step took longer than its timeout",
};
