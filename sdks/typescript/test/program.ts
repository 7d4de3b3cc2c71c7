/** Durable functions as data: the operations of `protocol/scenarios/durable/turns`, interpreted. */
import { CallFailed, Failure, type Flow, kind, type Settled, StepFailed } from "@tenure/sdk";

export type Op = Record<string, any> | "now";

const square = kind<unknown, unknown>("square", { queue: "numbers" });

/** Steps that may end although their work holds. */
export class Releases {
  #released = new Set<string>();
  #waiting: Array<{ key: string; resolve: () => void }> = [];

  release(key: string): void {
    this.#released.add(key);
    for (const { resolve } of this.#waiting.filter((it) => it.key.endsWith(key))) resolve();
  }

  wait(idempotencyKey: string): Promise<void> {
    if ([...this.#released].some((key) => idempotencyKey.endsWith(key))) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ key: idempotencyKey, resolve }));
  }
}

export async function execute(flow: Flow, ops: readonly Op[], releases = new Releases()): Promise<unknown[]> {
  const outputs: unknown[] = [];
  for (const op of ops) outputs.push((await one(flow, op, releases)) ?? null);
  return outputs;
}

async function one(flow: Flow, op: Op, releases: Releases): Promise<unknown> {
  if (op === "now") return flow.now();
  const [[name, given]] = Object.entries(op) as [[string, any]];
  switch (name) {
    case "step":
      return value(() => step(flow, given, releases));
    case "sleep":
    case "signal":
      return waiting(flow, op);
    case "approval": {
      const approval = await waiting(flow, op);
      return [approval.outcome, approval.reason ?? null];
    }
    case "child":
      if (given.detached) return flow.call(square, given.input).named(given.name).detach();
      return value(() => waiting(flow, op));
    case "all":
      return value(async () => {
        const ends = await flow.all(given.map((each: Op) => member(flow, each, releases)));
        return ends.map((end) => end ?? null);
      });
    case "any":
      return value(async () => {
        const names = Object.keys(given).sort();
        const members = Object.fromEntries(names.map((name) => [name, waiting(flow, given[name])]));
        const first = (await flow.any(members)) as { winner: string; value: unknown };
        return [first.winner, first.value ?? null];
      });
    case "children": {
      const calls = given.inputs.map((input: unknown) => flow.call(square, input).named(given.name));
      if (given.max === undefined) return (await flow.allSettled(calls)).map(settled);
      const named = kind<unknown, unknown>("square", { queue: "numbers" });
      for (const call of calls) call.taken();
      return (await flow.map(named, given.inputs, { max: given.max }).named(given.name).settled()).map(
        settled,
      );
    }
    case "branches": {
      const names = Object.keys(given).sort();
      return flow.all(
        names.map((name) => flow.branch(name, (inner) => execute(inner, given[name], releases))),
      );
    }
    case "random":
      return flow.randomU64(given).toString();
    case "patched":
      return execute(flow, flow.patched(given.id) ? given.then : given.otherwise, releases);
    case "savepointAfter": {
      const state = flow.resumed();
      if (state !== undefined) return state;
      await execute(flow, given.first, releases);
      return flow.savepoint(given.state);
    }
    default:
      throw new Error(`the interpreter does not know ${name}`);
  }
}

/** An operation that waits without a worker. */
function waiting(flow: Flow, op: Op): any {
  const [[name, given]] = Object.entries(op) as [[string, any]];
  const limit = given.withinMs === undefined ? undefined : { milliseconds: given.withinMs };
  switch (name) {
    case "sleep":
      if (typeof given === "number") return flow.sleep({ milliseconds: given });
      return flow.sleep(given.name, { milliseconds: given.ms });
    case "approval":
      return flow.approval(given.name, {
        about: given.about,
        ...(given.quorum === undefined ? {} : { quorum: given.quorum }),
        ...(limit === undefined ? {} : { within: limit, default: "REJECTED" as const }),
      });
    case "signal":
    case "child": {
      const limited: any =
        name === "signal" ? flow.signal(given.name) : flow.call(square, given.input).named(given.name);
      return limit === undefined ? limited : limited.within(limit);
    }
    default:
      throw new Error(`${name} does not wait`);
  }
}

/** A member of `all`. */
function member(flow: Flow, op: any, releases: Releases): any {
  if (op.step !== undefined) return step(flow, op.step, releases);
  if (op.branch !== undefined) {
    return flow.branch(op.branch.name, (inner) => execute(inner, op.branch.ops, releases));
  }
  return waiting(flow, op);
}

function step(flow: Flow, op: any, releases: Releases) {
  return flow.step(
    op.name,
    async (step) => {
      if (op.tokens !== undefined) step.spend({ tokens: op.tokens });
      if (op.holds) await releases.wait(step.idempotencyKey);
      const message = op.fails?.[step.number - 1];
      if (message !== undefined) throw new Failure("USER_CODE", message);
      return op.returns ?? null;
    },
    {
      ...("input" in op ? { input: op.input } : {}),
      ...(op.tries === undefined ? {} : { retry: { tries: op.tries, base: { milliseconds: 100 } } }),
      ...(op.timeoutMs === undefined ? {} : { timeout: { milliseconds: op.timeoutMs } }),
      ...(op.aborts ? { onError: "abort" as const } : {}),
    },
  );
}

/** A failure is a value of the program. */
async function value(run: () => PromiseLike<unknown>): Promise<unknown> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof StepFailed || error instanceof CallFailed) return { failed: error.message };
    throw error;
  }
}

function settled(end: Settled<unknown>): unknown {
  return end.status === "fulfilled" ? end.value : { failed: (end.reason as Error).message };
}
