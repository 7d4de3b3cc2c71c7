/**
 * One operation of a branch, from its beginning to its end: what steps, sleeps, signals, approvals and calls have in
 * common.
 *
 * An operation is lazy: it is a value until it is awaited, or given to `all` or `any`. It begins once, however often
 * it is awaited. Where the run cannot go on, an operation ends the run and never settles.
 */
import type { Awaited, Checkpoint } from "../engine/command.js";
import type { Core } from "../engine/core.js";
import { isName, keyOf } from "../engine/key.js";
import { misuse, type Place, Stop } from "../engine/stop.js";

/** Where an operation belongs: an attempt, and a branch of it. */
export interface Scope {
  core: Core;
  branch: string;
}

/** A promise that never settles: the code stays where it is, and the engine goes on without it. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}

/** A value that is awaited, or given to `flow.all` and `flow.any`. */
export abstract class Operation<T> implements PromiseLike<T> {
  /** What people call it: its name, with its kind. */
  abstract readonly label: string;
  readonly #epoch: number;
  #begun: Promise<T> | undefined;

  constructor(
    protected readonly scope: Scope,
    readonly at: Place,
  ) {
    this.#epoch = scope.core.epoch;
    scope.core.made.add(this as unknown as { label: string; at: Place });
  }

  /** Does it, in the branch of a scope. */
  abstract run(scope: Scope): Promise<T>;

  then<A = T, B = never>(
    onfulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.beginIn(this.scope).then(onfulfilled, onrejected);
  }

  /** Begins in a branch, which is that of the flow unless `all` or `any` says otherwise. */
  beginIn(scope: Scope): Promise<T> {
    this.taken();
    this.#begun ??= this.#begin(scope);
    return this.#begun;
  }

  /** It became a part of another operation. */
  taken(): void {
    this.scope.core.made.delete(this as unknown as { label: string; at: Place });
  }

  #begin(scope: Scope): Promise<T> {
    const { core } = scope;
    if (core.epoch !== this.#epoch || core.ending !== undefined) return never();
    if (!core.isInside) {
      core.endByForeignAwait();
      core.onChange();
      return never();
    }
    return stopping(core, () => this.run(scope));
  }
}

/** Runs it; a stop ends the run, and the code is not resumed. */
export function stopping<T>(core: Core, run: () => Promise<T>): Promise<T> {
  return begun(run).catch((error: unknown) => {
    if (!(error instanceof Stop)) throw error;
    core.end({ stop: error });
    return never<T>();
  });
}

function begun<T>(run: () => Promise<T>): Promise<T> {
  try {
    return run();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** An operation under way: its branch is busy until it ends. */
export class Begun {
  /** The key that its wants are kept under. */
  #wanted: string;

  constructor(
    readonly scope: Scope,
    readonly label: string,
    readonly at: Place,
  ) {
    scope.core.branch(scope.branch).begin(scope.branch, label, at);
    this.#wanted = keyOf(scope.branch, label, 0);
  }

  get core(): Core {
    return this.scope.core;
  }

  /** Takes the next key and compares it with the record. */
  enter(inputDigest?: string, label = this.label): { key: string; isRecorded: boolean } {
    const entered = this.core.enter(this.scope.branch, label, inputDigest, this.at);
    this.#wanted = entered.key;
    return entered;
  }

  /** Waits until all results of the branch are recorded, and returns its time. */
  async record(): Promise<number> {
    await recorded(this.core, this.scope.branch, this.#wanted);
    return this.core.branch(this.scope.branch).now;
  }

  /** Waits until the work of a try may start. */
  start(number: number, timeoutMs: number | undefined) {
    this.core.want(this.#wanted, this.scope.branch, { execute: { number, timeoutMs } });
    return this.core.until(() => this.core.running(this.#wanted));
  }

  /** Waits until one of the items, or all of them, have arrived. */
  async arrival(mode: "all" | "any", items: Awaited[]): Promise<void> {
    const isHere = (item: Awaited) => this.core.has(item.key);
    const hasArrived = () => (mode === "all" ? items.every(isHere) : items.some(isHere)) || undefined;
    if (hasArrived()) return;
    this.core.want(this.#wanted, this.scope.branch, { arrival: { mode, items } });
    await this.core.until(hasArrived);
    this.core.satisfied(this.#wanted);
  }

  /** Waits for one timer, unless it has fired already. */
  async pause(key: string, spanMs: () => number): Promise<void> {
    if (!this.core.has(key)) {
      const until = (await this.record()) + spanMs();
      await this.arrival("all", [{ key, until }]);
    }
    this.takeFirst([key]);
  }

  takeFirst(keys: readonly string[]): Checkpoint | undefined {
    return this.core.takeFirst(this.scope.branch, keys);
  }

  end(): void {
    this.core.branch(this.scope.branch).busy = undefined;
  }
}

/** Waits until all results of a branch are recorded. `wanted` keeps the wants of parallel branches apart. */
export async function recorded(core: Core, branch: string, wanted: string): Promise<void> {
  const isRecorded = () => core.branch(branch).unrecorded === 0 || undefined;
  if (isRecorded()) return;
  core.want(wanted, branch, { record: true });
  await core.until(isRecorded);
  core.satisfied(wanted);
}

export function checkName(name: string, at: Place): void {
  if (!isName(name)) throw misuse.badName(name, at);
}
