/**
 * Several operations as one: branches side by side, calls side by side, and all of either.
 *
 * A branch has a cursor of its own, so it does not matter which one is faster. It begins with the time that the outer
 * branch had when the branch was made, and is recorded to its end before it closes, so that a replay, in which
 * branches end at once, sees the same times as the first execution.
 */
import { fits, inner, isName, keyOf } from "../engine/key.js";
import { misuse, type Place } from "../engine/stop.js";
import { ChildCall, readEnd } from "./kinds.js";
import { Begun, Operation, recorded, type Scope, stopping } from "./operation.js";

/** The coordinator's limit of live children per task. */
const CHILDREN_MAX = 10_000;

export type Settled<T> = PromiseSettledResult<T>;

/** Code with a cursor of its own. */
export class BranchCall<T> extends Operation<T> {
  readonly label: string;
  readonly #floor: number;

  constructor(
    scope: Scope,
    at: Place,
    readonly name: string,
    private readonly code: (scope: Scope) => PromiseLike<T>,
  ) {
    super(scope, at);
    this.label = name;
    this.#floor = scope.core.branch(scope.branch).joined;
  }

  async run(outer: Scope): Promise<T> {
    const { core } = outer;
    const branch = inner(outer.branch, this.name);
    if (!isName(this.name) || !fits(branch)) throw misuse.badName(branch, this.at);
    await recorded(core, outer.branch, keyOf(branch, "", 0));
    core.open(outer.branch, branch, this.#floor, this.at);
    const [ended] = await Promise.allSettled([this.code({ core, branch })]);
    await recorded(core, branch, keyOf(branch, "", 0));
    core.close(outer.branch, branch);
    if (ended.status === "rejected") throw ended.reason;
    return ended.value;
  }
}

/** Waits for all members; what each of them gave, in their order. */
export class AllCall extends Operation<Settled<unknown>[]> {
  readonly label = "all";

  constructor(
    scope: Scope,
    at: Place,
    private readonly members: readonly Operation<unknown>[],
  ) {
    super(scope, at);
    for (const member of members) member.taken();
  }

  async run(scope: Scope): Promise<Settled<unknown>[]> {
    const { members } = this;
    if (members.length === 0) return [];
    if (members.every((member) => member instanceof ChildCall)) {
      return runChildren(scope, this.at, members, Number.POSITIVE_INFINITY);
    }
    const branches = members.map((member, place) => asBranch(scope, member, place));
    return Promise.allSettled(branches.map((branch) => stopping(scope.core, () => branch.run(scope))));
  }
}

/** A member beside others has a branch: its own name if it is one, else its place. */
function asBranch(scope: Scope, member: Operation<unknown>, place: number): BranchCall<unknown> {
  if (member instanceof BranchCall) return member;
  const branch = new BranchCall(scope, member.at, String(place + 1), (inside) => member.beginIn(inside));
  branch.taken();
  return branch;
}

/** Calls of one task, at most `max` at the same time. */
export class MapCall<T> extends Operation<T[]> {
  readonly label: string;

  constructor(
    scope: Scope,
    at: Place,
    name: string,
    private readonly calls: readonly ChildCall<T>[],
    private readonly max: number,
  ) {
    super(scope, at);
    this.label = `child:${name}`;
    for (const call of calls) call.taken();
  }

  /** Another name in the record than that of the kind. */
  named(name: string): this {
    for (const call of this.calls) call.named(name);
    return this;
  }

  async run(scope: Scope): Promise<T[]> {
    return valuesOf(await this.runSettled(scope)) as T[];
  }

  runSettled(scope: Scope): Promise<Settled<T>[]> {
    return runChildren(scope, this.at, this.calls, this.max) as Promise<Settled<T>[]>;
  }

  /** Every end, failures included, instead of the first failure. */
  settled(): Operation<Settled<T>[]> {
    return new SettledCall(this.scope, this.at, this);
  }
}

class SettledCall<T> extends Operation<Settled<T>[]> {
  readonly label: string;
  constructor(
    scope: Scope,
    at: Place,
    private readonly map: MapCall<T>,
  ) {
    super(scope, at);
    map.taken();
    this.label = map.label;
  }

  run(scope: Scope): Promise<Settled<T>[]> {
    return this.map.runSettled(scope);
  }
}

/** The values, or the first failure by place. */
export function valuesOf(ends: readonly Settled<unknown>[]): unknown[] {
  return ends.map((end) => {
    if (end.status === "rejected") throw end.reason;
    return end.value;
  });
}

/** Starts children in their order, in the flow's own branch, and waits until all have ended. */
async function runChildren(
  scope: Scope,
  at: Place,
  calls: readonly ChildCall<unknown>[],
  max: number,
): Promise<Settled<unknown>[]> {
  const { core, branch } = scope;
  for (const call of calls) call.checkNamed();
  const begun = new Begun(scope, calls[0]?.label ?? "child", at);
  if (calls.length > CHILDREN_MAX) throw misuse.tooMany("children", calls.length, CHILDREN_MAX, at);
  const ends = new Array<Settled<unknown>>(calls.length);
  const live = new Map<number, string>();
  let next = 0;
  while (next < calls.length || live.size > 0) {
    while (next < calls.length) {
      const call = calls[next] as ChildCall<unknown>;
      // A recorded child is entered even if fewer may run now than when it was recorded.
      if (live.size >= Math.max(max, 1) && !core.isRecordedNext(branch, call.label)) break;
      try {
        const enter = (label: string, inputDigest: string | undefined) => begun.enter(inputDigest, label);
        live.set(next, call.start(core, branch, enter, false).key);
      } catch (reason) {
        if (!isUnwritable(reason)) throw reason;
        ends[next] = { status: "rejected", reason };
      }
      next += 1;
    }
    if (live.size === 0) continue;
    const items = [...live.values()].map((key) => ({ key, child: key }));
    await begun.arrival(next >= calls.length ? "all" : "any", items);
    for (const [place, key] of live) {
      const end = begun.takeFirst([key]);
      if (end === undefined) continue;
      live.delete(place);
      ends[place] = settledEnd(() => readEnd(core, end));
    }
  }
  begun.end();
  return ends;
}

function settledEnd(read: () => unknown): Settled<unknown> {
  try {
    return { status: "fulfilled", value: read() };
  } catch (reason) {
    return { status: "rejected", reason };
  }
}

/** An input without a JSON form: the failure of one child, and not of the run. */
function isUnwritable(reason: unknown): boolean {
  return (reason as { reason?: string } | null)?.reason === "INPUT_UNWRITABLE";
}
