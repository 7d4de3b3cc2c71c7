/**
 * Waiting without a worker: for time, signals, people, deliveries and children, with or without a limit.
 *
 * Each of them is an operation that enters a key and then awaits items; `flow.any` lets several of them race. Of an
 * item and the timer beside it, the one that the coordinator committed first counts, in every replay.
 */
import type { Awaited, Checkpoint } from "../engine/command.js";
import type { Core } from "../engine/core.js";
import { inner } from "../engine/key.js";
import { misuse, type Place } from "../engine/stop.js";
import { milliseconds, type Span } from "../span.js";
import { Begun, checkName, Operation, type Scope } from "./operation.js";

/** What a wait needs to know of one operation: its key, and what it awaits from a recorded time on. */
export interface Entered {
  key: string;
  items(now: number): Awaited[];
}

type Enter = (label: string, inputDigest: string | undefined) => { key: string; isRecorded: boolean };

/** An operation that waits for something outside: it can be given to `flow.any`. */
export abstract class Wait<T> extends Operation<T> {
  /** The name in its key, without the kind; undefined for a sleep without a name. */
  protected abstract readonly ownName: string | undefined;
  protected readonly mode: "all" | "any" = "any";

  /** Whether its items count from a recorded time. */
  protected abstract readonly countsTime: boolean;

  /** Takes its key, and starts what must be started. */
  abstract enter(core: Core, branch: string, enter: Enter): Entered;

  /** What must be done before it waits. */
  async prepare(_scope: Scope): Promise<void> {}

  /** The value of what arrived first. */
  abstract read(first: Checkpoint, key: string): T;

  async run(scope: Scope): Promise<T> {
    if (this.ownName !== undefined) checkName(this.ownName, this.at);
    await this.prepare(scope);
    const { core } = scope;
    const begun = new Begun(scope, this.label, this.at);
    const { key, items } = this.enter(core, scope.branch, (label, digest) => begun.enter(digest, label));
    const keys = keysOf(key);
    if (!keys.some((it) => core.has(it))) {
      const now = this.countsTime ? await begun.record() : core.branch(scope.branch).now;
      await begun.arrival(this.mode, items(now));
    }
    const first = begun.takeFirst(keys);
    core.history.forgetParts(key);
    begun.end();
    return this.read(arrived(first), key);
  }

  /** The name under which `flow.any` checks it. */
  checkNamed(): void {
    if (this.ownName !== undefined) checkName(this.ownName, this.at);
  }
}

/** An operation's own key, and that of the timer beside it. */
export function keysOf(key: string): [string, string] {
  return [key, `${key}.timeout`];
}

function arrived(first: Checkpoint | undefined): Checkpoint {
  if (first === undefined) throw new Error("a wait goes on only when something has arrived");
  return first;
}

/** Adds a limit to a wait: its value is undefined when the time is over first. */
export class Within<T> extends Wait<T | undefined> {
  readonly label: string;
  protected readonly ownName = undefined;
  protected readonly countsTime = true;
  readonly #spanMs: number;

  constructor(
    scope: Scope,
    at: Place,
    private readonly wait: Wait<T>,
    span: Span,
  ) {
    super(scope, at);
    wait.taken();
    this.label = wait.label;
    this.#spanMs = milliseconds(span);
  }

  override prepare(scope: Scope): Promise<void> {
    this.wait.checkNamed();
    return this.wait.prepare(scope);
  }

  override checkNamed(): void {
    this.wait.checkNamed();
  }

  enter(core: Core, branch: string, enter: Enter): Entered {
    const { key, items } = this.wait.enter(core, branch, enter);
    return { key, items: (now) => [...items(now), { key: `${key}.timeout`, until: now + this.#spanMs }] };
  }

  read(first: Checkpoint, key: string): T | undefined {
    return first.key === key ? this.wait.read(first, key) : undefined;
  }
}

/** The first of several waits. */
export class AnyCall<M extends Record<string, Wait<unknown>>> extends Operation<{
  winner: keyof M;
  value: unknown;
}> {
  readonly label = "any";

  constructor(
    scope: Scope,
    at: Place,
    private readonly members: M,
  ) {
    super(scope, at);
    for (const member of Object.values(members)) (member as Operation<unknown>).taken?.();
  }

  async run(scope: Scope): Promise<{ winner: keyof M; value: unknown }> {
    const { core } = scope;
    const members = Object.entries(this.members);
    for (const [name, member] of members) {
      checkName(name, this.at);
      if (!(member instanceof Wait)) throw misuse.notForAny((member as Operation<unknown>).label, this.at);
      member.checkNamed();
    }
    const state = core.branch(scope.branch);
    const branches = members.map(([name]) => inner(scope.branch, name));
    for (const branch of branches) core.openState(branch, Math.max(state.now, state.joined));
    try {
      return await this.#race(scope, members);
    } finally {
      for (const branch of branches) core.branch(branch).isOpen = false;
    }
  }

  async #race(
    scope: Scope,
    members: Array<[string, Wait<unknown>]>,
  ): Promise<{ winner: keyof M; value: unknown }> {
    const { core } = scope;
    for (const [name, member] of members) await member.prepare({ core, branch: inner(scope.branch, name) });
    const begun = new Begun(scope, this.label, this.at);
    const entered = members.map(([name, member]) => {
      const branch = inner(scope.branch, name);
      // A member that lost an earlier race left no record, so only one that is next there was recorded.
      const { key, items } = member.enter(core, branch, (label, digest) =>
        core.enterRaced(branch, label, digest, member.at),
      );
      return { name, member, key, items };
    });
    const keys = entered.flatMap(({ key }) => keysOf(key));
    if (!keys.some((key) => core.has(key))) {
      const now = await begun.record();
      await begun.arrival(
        "any",
        entered.flatMap(({ items }) => items(now)),
      );
    }
    const first = arrived(begun.takeFirst(keys));
    for (const { key } of entered) core.history.forgetParts(key);
    begun.end();
    const won = entered.find(({ key }) => keysOf(key).includes(first.key));
    if (won === undefined) throw new Error("what arrived belongs to a member");
    return { winner: won.name, value: won.member.read(first, won.key) };
  }
}
