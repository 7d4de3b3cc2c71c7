/**
 * One attempt of a durable function: lets the code run, hands out commands, takes in answers.
 *
 * It does no I/O and has no clock. The same start and the same answers give the same commands, as long as the function
 * awaits nothing but operations of its flow outside of steps; if it does, the run stops and says so.
 *
 * How it knows that the code cannot go on: after it has resolved what is ready, it waits for one turn of the event
 * loop. By then every microtask has run, so the code has returned, or registered an operation, or awaits something
 * foreign. Promises that settle by microtasks alone are harmless.
 */
import type { Codec } from "../codec.js";
import type { FailureRecord } from "../failure.js";
import { Failure, isRecorded, namedFailure, recordOf } from "../failure.js";
import { encode, parse, plain, Unreadable, Unwritable } from "../json.js";
import { afterThisTurn } from "../turn.js";
import type { BudgetLeft } from "../wire.js";
import type { Command, EngineAnswer, EngineReport, Start } from "./command.js";
import { Core, type Ending } from "./core.js";
import type { Stop } from "./stop.js";

/** A durable function, called anew for each attempt and after each savepoint. */
export type Body = (core: Core, input: unknown) => Promise<unknown>;

/** What {@link Run.next} gives: a command, nothing to do, or why the run cannot go on. */
export type Turn =
  | { command: Command }
  /** The work of a step, or a call, is under way. */
  | "idle"
  | { stop: Stop }
  /** The function threw what is no failure: a defect that another build may not have. */
  | { bug: unknown; report: EngineReport }
  /** The function handed its task back. */
  | { handBack: string };

type Returned = { output: unknown } | { failure: FailureRecord } | { bug: unknown } | { handBack: string };

const turnOfLoop = (): Promise<void> => new Promise((resolve) => afterThisTurn(resolve));

export class Run {
  readonly #core: Core;
  readonly #body: Body;
  readonly #input: unknown;
  #returned: Returned | undefined;
  #hasBegun = false;
  #isOver = false;

  constructor(start: Start, body: Body, codec?: Codec) {
    this.#core = new Core(start, codec);
    this.#body = body;
    this.#input = start.input;
  }

  /** Called when the work of a step ends: ask {@link next} again. */
  set onChange(onChange: () => void) {
    this.#core.onChange = onChange;
  }

  set left(left: BudgetLeft | undefined) {
    this.#core.left = left;
  }

  /** The answer to the last checkpoint. */
  recorded(answer: EngineAnswer): void {
    this.#core.recorded(answer);
  }

  /** The time of a try is over. One that has ended meanwhile stays as it is. */
  timeOut(key: string, number: number): void {
    this.#core.timeOut(key, number);
  }

  /** Gives the attempt up: what the code does from now on counts for nothing. */
  close(): void {
    this.#isOver = true;
    this.#core.epoch += 1;
    this.#core.onChange = () => {};
  }

  /** The next turn; a promise only where the code runs first. */
  next(): Turn | Promise<Turn> {
    if (this.#isOver) throw new Error("a run gives no turns after its end");
    return this.#turn();
  }

  #turn(): Turn | Promise<Turn> {
    for (;;) {
      const ready = this.#ready();
      if (ready !== undefined) return this.#given(ready);
      if (this.#startsCode()) return this.#codeRuns();
      if (!this.#core.settle()) return this.#given("idle");
    }
  }

  #given(turn: Turn): Turn {
    const goesOn = turn === "idle" || ("command" in turn && isMiddle(turn.command));
    if (!goesOn) this.close();
    return turn;
  }

  /** A turn that is known without the code. */
  #ready(): Turn | undefined {
    for (;;) {
      const ending = this.#core.ending;
      if (ending === undefined) break;
      const last = this.#conclude(ending);
      if (last !== undefined) return last;
    }
    const command = this.#core.nextCommand();
    if (command !== undefined) return { command };
    return this.#returned === undefined ? undefined : this.#report(this.#returned);
  }

  /** Opens the window in which the code may begin operations. Returns whether the code has something to do. */
  #startsCode(): boolean {
    this.#core.isInside = true;
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#call();
      return true;
    }
    this.#core.wake();
    const isWoken = this.#core.takeWoken();
    this.#core.isInside = isWoken;
    return isWoken;
  }

  /** Lets the code run until it waits for something that is not there. */
  async #codeRuns(): Promise<Turn> {
    do {
      await turnOfLoop();
      this.#core.wake();
    } while (this.#core.takeWoken());
    this.#core.isInside = false;
    const hasNews = this.#core.ending !== undefined || this.#returned !== undefined;
    if (!hasNews && !this.#core.settle()) return this.#given("idle");
    return this.#turn();
  }

  #call(): void {
    const epoch = this.#core.epoch;
    const keep = (returned: Returned) => {
      // What comes after a foreign await comes outside of the window.
      if (epoch !== this.#core.epoch || this.#isOver) return;
      if (this.#core.isInside) {
        this.#returned = returned;
      } else {
        this.#core.endByForeignAwait();
        this.#core.onChange();
      }
    };
    this.#promise().then(
      (value) => keep(outputOf(this.#core, value)),
      (thrown: unknown) => keep(thrownOf(thrown)),
    );
  }

  /** Code without `async` may throw before it returns a promise, or return none. */
  #promise(): Promise<unknown> {
    try {
      return Promise.resolve(this.#body(this.#core, this.#input));
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  /** Leaves the code where it is. Returns the last turn, or nothing if the run goes on. */
  #conclude(ending: Ending): Turn | undefined {
    this.#core.ending = undefined;
    if (typeof ending === "string") return { command: ending };
    if ("stop" in ending) return { stop: ending.stop };
    if ("abort" in ending) {
      this.#core.epoch += 1;
      this.#core.made.clear();
      this.#returned = { failure: ending.abort };
      return undefined;
    }
    this.#core.startOver(ending.startOver);
    this.#hasBegun = false;
    return undefined;
  }

  /** The end, as soon as no call is under way. */
  #report(returned: Returned): Turn {
    if (this.#core.hasCallUnderWay) return "idle";
    if ("handBack" in returned) return { handBack: returned.handBack };
    if ("bug" in returned) {
      const error = { ...recordOf(returned.bug), retryable: true };
      return { bug: returned.bug, report: { ...this.#core.takeRest(), outcome: "FAILED", error } };
    }
    const stop = this.#core.unreached() ?? ("output" in returned ? this.#core.undone() : undefined);
    if (stop !== undefined) return { stop };
    const rest = this.#core.takeRest();
    const end: EngineReport =
      "output" in returned
        ? { ...rest, outcome: "SUCCEEDED", output: returned.output }
        : { ...rest, outcome: "FAILED", error: returned.failure };
    return { command: { complete: end } };
  }
}

function isMiddle(command: Command): boolean {
  return typeof command === "object" && ("execute" in command || "checkpoint" in command);
}

function outputOf(core: Core, value: unknown): Returned {
  const encoded = sealedResult(core, encodeResult(value, { keepBig: true }));
  return "failure" in encoded ? encoded : { output: encoded.value };
}

function thrownOf(thrown: unknown): Returned {
  if (thrown instanceof Failure && thrown.isHandBack) return { handBack: thrown.message };
  return thrown instanceof Failure || isRecorded(thrown) ? { failure: recordOf(thrown) } : { bug: thrown };
}

type Encoded = { value: unknown } | { failure: FailureRecord };

/** The stored form of a result: a codec may make it too large. */
export function sealedResult(core: Core, encoded: Encoded): Encoded {
  if ("failure" in encoded) return encoded;
  try {
    return { value: core.sealed(encoded.value) };
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    return { failure: namedFailure("RESULT_TOO_LARGE", `the result, encoded: ${error.message}`) };
  }
}

/** Values that JSON gives back as they are, and that no one can change. */
function isAsRead(value: unknown): boolean {
  return (
    value === null || typeof value === "boolean" || (Number.isSafeInteger(value) && !Object.is(value, -0))
  );
}

/** A result as its reader will see it, or why it has no such form. */
export function encodeResult(value: unknown, { keepBig = false, what = "the result" } = {}): Encoded {
  if (isAsRead(value)) return { value };
  try {
    const read = parse(encode(value));
    return { value: keepBig ? read : plain(read) };
  } catch (error) {
    if (error instanceof Unwritable) {
      return {
        failure: namedFailure(
          error.tooLarge ? "RESULT_TOO_LARGE" : "RESULT_UNWRITABLE",
          `${what}: ${error.message}`,
        ),
      };
    }
    if (error instanceof Unreadable)
      return { failure: namedFailure("RESULT_UNWRITABLE", `${what}: ${error.message}`) };
    throw error;
  }
}
