/** Workers beside a real server: results, leases, kills, drains, isolation, push. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  Client,
  durable,
  Failure,
  kind,
  type LogLine,
  plan,
  planStep,
  RunFailed,
  type Task,
  task,
  Worker,
  type WorkerEvent,
} from "@tenure/sdk";
import { push, toNode } from "@tenure/sdk/push";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { end, eventually, firstMatch, type Server, startProgram, startServer } from "./server.ts";

let server: Server;
let client: Client;
let folder: string;

beforeAll(async () => {
  server = await startServer();
  client = new Client({ url: server.url, apiKey: server.apiKey });
  folder = mkdtempSync(join(tmpdir(), "tenure-notes-"));
});

afterAll(async () => {
  client.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Works in this process while `use` runs, then drains. */
async function working(
  tasks: Task<any, any>[],
  use: (events: WorkerEvent[]) => Promise<void>,
  options: Partial<ConstructorParameters<typeof Worker>[0]> = {},
): Promise<WorkerEvent[]> {
  const events: WorkerEvent[] = [];
  const stop = new AbortController();
  const worker = new Worker({
    tasks,
    client,
    onEvent: (event) => void events.push(event),
    onLog: noteLog,
    ...options,
  });
  const ended = worker.run({ signal: stop.signal });
  try {
    await use(events);
  } finally {
    stop.abort();
    await ended;
  }
  return events;
}

/** What a worker warns of belongs to the output of a test that fails. */
function noteLog(line: LogLine): void {
  if (line.level !== "debug") process.stderr.write(`${JSON.stringify(line)}\n`);
}

function programEnv(
  name: string,
  more: NodeJS.ProcessEnv = {},
): { env: NodeJS.ProcessEnv; notes: () => string[] } {
  const file = join(folder, name);
  writeFileSync(file, "");
  const notes = () =>
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "");
  return { env: { ...server.env, NOTES: file, TENURE_LOG: "info", ...more }, notes };
}

const slow = kind<number, number>("slow", { queue: "it", lease: { seconds: 3 } });
const steps = kind<number, { count: number; go: unknown }>("steps", { queue: "it", lease: { seconds: 2 } });

describe("tasks", () => {
  const queue = "tasks";

  it("return their results, one for each of many", async () => {
    const double = task("double", { queue }, async (n: number) => 2 * n);
    const events = await working([double], async () => {
      const results = await Promise.all(
        Array.from({ length: 200 }, (_, n) => client.submit(double, n).result()),
      );
      expect(results).toEqual(Array.from({ length: 200 }, (_, n) => 2 * n));
    });
    expect(events.filter(({ type }) => type === "Committed").length).toBe(200);
  });

  it("fail with their category, and their own errors with a stack", async () => {
    const fails = task("fails", { queue, maxAttempts: 1 }, async (how: string) => {
      if (how === "own") throw new RangeError("out of range");
      if (how === "nan") return Number.NaN;
      if (how === "large") return "x".repeat(300_000);
      throw how === "data" ? Failure.data("bad row") : Failure.config("no key");
    });
    const ended = async (how: string) => {
      const error = await client
        .submit(fails, how)
        .result()
        .catch((error: unknown) => error);
      return error instanceof RunFailed ? error.run.error : undefined;
    };
    await working([fails], async () => {
      expect(await ended("own")).toMatchObject({
        category: "USER_CODE",
        message: "RangeError: out of range",
      });
      expect(await ended("data")).toMatchObject({ category: "DATA_QUALITY", message: "bad row" });
      expect(await ended("config")).toMatchObject({ category: "CONFIGURATION" });
      expect((await ended("nan"))?.message).toContain("NaN has no JSON form");
      expect((await ended("large"))?.message).toContain("262144");
    });
  });

  it("outlive listeners that fail", async () => {
    const says = task("says", { queue }, async (text: string, ctx) => {
      ctx.log.warn(text);
      return text;
    });
    const complaints = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const fail = (why: string) => () => {
      throw new Error(why);
    };
    const later = async () => fail("later")();
    const use = async () => expect(await client.submit(says, "hello").result()).toBe("hello");
    await working([says], use, { onEvent: fail("of an event"), onLog: fail("of a line") });
    await working([says], use, { onEvent: later });
    const said = complaints.mock.calls.join("");
    complaints.mockRestore();
    expect(said).toContain("`onEvent` failed: Error: of an event");
    expect(said).toContain("`onLog` failed: Error: of a line");
    expect(said).toContain("`onEvent` failed: Error: later");
  });

  it("get what their schema reads, and refuse the rest as data", async () => {
    const sized = task(
      "sized",
      { queue, input: z.object({ width: z.coerce.number().min(1) }) },
      async ({ width }) => width + 1,
    );
    await working([sized], async () => {
      expect(await client.submit(sized, { width: "7" }).result()).toBe(8);
      const error = await client
        .submit("sized", { width: 0 }, { queue })
        .result()
        .catch((error: unknown) => error);
      expect(error).toMatchObject({ category: "DATA_QUALITY" });
      expect((error as Error).message).toContain("$.width");
    });
  });

  it("are told of a cancel at once, although every slot is taken", async () => {
    const waits = task("waits", { queue, lease: { seconds: 60 } }, async (_: null, ctx) => {
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      throw Failure.cancelled(ctx.stopReason, { phase: "waiting" });
    });
    await working(
      [waits],
      async () => {
        const run = await client.submit(waits, null);
        await eventually("it runs", async () =>
          (await run.status()).state === "running" ? true : undefined,
        );
        await run.cancel({ reason: "enough" });
        const ended = await run.wait({ timeout: { seconds: 40 } });
        expect(ended.state).toBe("cancelled");
      },
      { concurrency: 1 },
    );
  });

  it("have state, and a plan's next stage comes with the answer", async () => {
    const stage = task("stage", { queue }, async (input: number, ctx) => [
      ctx.stage,
      input,
      (ctx.state as { db: string }).db,
    ]);
    const stopped: unknown[] = [];
    await working(
      [stage],
      async () => {
        const two = plan([
          planStep("one", stage, 1),
          planStep("two", stage, { $from: "one", path: "/1" } as never),
        ]);
        expect(await client.submitPlan(two).result()).toEqual({
          one: ["one", 1, "open"],
          two: ["two", 1, "open"],
        });
      },
      { onStart: async () => ({ db: "open" }), onStop: (state) => void stopped.push(state) },
    );
    expect(stopped).toEqual([{ db: "open" }]);
  });

  it("that take too long are told, and have failed with TIMEOUT", async () => {
    const long = task(
      "long",
      { queue, maxAttempts: 1, attemptTimeout: { milliseconds: 200 } },
      async (_: null, ctx) => {
        await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
        throw new Error("stopped");
      },
    );
    await working([long], async () => {
      const error = await client
        .submit(long, null)
        .result()
        .catch((error: unknown) => error);
      expect(error).toMatchObject({ category: "TIMEOUT" });
    });
  });
});

describe("a worker", () => {
  it("keeps a lease of 6 s while its main loop is blocked for 3 s", async () => {
    // S3-66
    const { env } = programEnv("block");
    const program = startProgram("./programs-worker.mjs", { ...env, CONCURRENCY: "2" });
    await firstMatch(program, /ready/);
    const run = await client.submit("block", 3_000, { queue: "it", lease: { seconds: 6 } });
    const ended = await run.wait({ timeout: { seconds: 50 } });
    expect([ended.state, ended.output, ended.attempt]).toEqual(["succeeded", "kept", 1]);
    expect(await end(program, "SIGTERM")).toBe(0);
  });

  it("that is killed loses its task to another one", async () => {
    const { env, notes } = programEnv("killed");
    const first = startProgram("./programs-worker.mjs", env);
    const run = await client.submit(slow, 60_000);
    await eventually("attempt 1 began", () => (notes().includes("began 1") ? true : undefined));
    await end(first, "SIGKILL");
    const second = startProgram("./programs-worker.mjs", env);
    await eventually("attempt 2 began", () => (notes().includes("began 2") ? true : undefined));
    await run.cancel();
    expect((await run.wait({ timeout: { seconds: 40 } })).state).toBe("cancelled");
    expect(await end(second, "SIGTERM")).toBe(0);
  });

  it("hands its task back on SIGTERM when the waiting is over, and no attempt is counted", async () => {
    let began = false;
    const waits = task("drained", { queue: "drain" }, async (_: null, ctx) => {
      began = true;
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      throw new Error("stopped");
    });
    let id = "";
    const events = await working(
      [waits],
      async () => {
        const run = await client.submit(waits, null);
        id = run.id;
        await eventually("it runs", () => began || undefined);
      },
      { shutdownTimeout: { milliseconds: 100 } },
    );
    expect(events).toContainEqual(expect.objectContaining({ type: "Committed", outcome: "RELEASED" }));
    const run = await client.run(id).status();
    expect([run.failures, run.lost]).toEqual([0, 0]);
    expect(["queued", "retry"]).toContain(run.state);
    await client.run(id).cancel();
  });

  it("with a wrong key ends with an error", async () => {
    const wrong = new Client({
      url: server.url,
      apiKey: server.apiKey.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
    });
    const ended = new Worker({ tasks: [task("t", {}, () => 1)], client: wrong, onLog: () => {} }).run();
    await expect(ended).rejects.toMatchObject({ code: "unauthenticated" });
  });

  it("runs isolated tasks in a child, and outlives its crash", async () => {
    const { env } = programEnv("alone");
    const program = startProgram("./programs-worker.mjs", env);
    const alone = (what: string) =>
      client.submit("alone", what, { queue: "it", maxAttempts: 1 }).result({ timeout: { seconds: 50 } });
    expect(await alone("one")).toBe("one elsewhere");
    await expect(alone("crash")).rejects.toThrow(/the isolated process was ended by SIGABRT|ended with code/);
    expect(await alone("two")).toBe("two elsewhere");
    expect(await end(program, "SIGTERM")).toBe(0);
  });
});

describe("durable functions", () => {
  it("outlive workers that are killed, and execute no recorded step again", async () => {
    // S2-85, S2-92: kill -9 in the middle, three times.
    const { env, notes } = programEnv("steps");
    const run = await client.submit(steps, 12);
    let program = startProgram("./programs-worker.mjs", env);
    for (const kill of [3, 6, 9]) {
      await eventually(`step ${kill}`, () => (notes().includes(`step ${kill}`) ? true : undefined));
      await end(program, "SIGKILL");
      program = startProgram("./programs-worker.mjs", env);
    }
    await run.signal("go", { by: "ann" });
    expect(await run.result({ timeout: { seconds: 50 } })).toEqual({ count: 12, go: { by: "ann" } });
    // At most the step that ran when its worker was killed is executed twice.
    expect(notes().length).toBeLessThanOrEqual(12 + 3);
    const recorded = (await run.steps()).map(({ key }) => key).filter((key) => key.startsWith("work#"));
    expect(recorded).toEqual(Array.from({ length: 12 }, (_, n) => `work#${n + 1}`));
    expect(await end(program, "SIGTERM")).toBe(0);
  });

  it("halt at their budget", async () => {
    const { env } = programEnv("spender");
    const program = startProgram("./programs-worker.mjs", env);
    const run = await client.submit("spender", null, { queue: "it", budget: { tokens: 1_000 } });
    expect((await run.wait({ timeout: { seconds: 50 } })).state).toBe("halted");
    expect(await end(program, "SIGTERM")).toBe(0);
  });

  it("that differ from their record wait for another build, with both names", async () => {
    const queue = "versions";
    const old = durable("versioned", { queue }, async (flow) => {
      await flow.step("charge", () => 1);
      return flow.signal("go");
    });
    const renamed = durable("versioned", { queue }, async (flow) => {
      await flow.step("bill", () => 1);
      return flow.signal("go");
    });
    const run = await client.submit(old);
    await working([old], async () => {
      await eventually("it waits", () => waits(run));
    });
    await run.signal("go", 7);
    const events = await working([renamed], async (events) => {
      await eventually("it diverged", () => events.find(({ type }) => type === "Diverged"));
    });
    expect(events.find(({ type }) => type === "Diverged")).toMatchObject({
      why: expect.stringContaining("recorded `charge#1`, now `bill#1`"),
    });
    expect((await run.status()).durable?.waiting?.diverged).toMatchObject({ recorded: "charge#1" });
    await run.resume();
    await working([old], async () => expect(await run.result({ timeout: { seconds: 50 } })).toBe(7));
  });

  it("give a step the same idempotency key where another run repeats it", async () => {
    const keys: string[] = [];
    let isClosed = true;
    const paying = durable("paying", { queue: "it" }, async (flow) => {
      await flow.step("look", () => 1);
      return flow.step("pay", (step) => {
        keys.push(step.idempotencyKey);
        if (isClosed) throw Failure.permanent("the bank is closed");
        return "paid";
      });
    });
    await working([paying], async () => {
      const first = await client.submit(paying);
      const { taskId } = await first.status();
      await first.result({ timeout: { seconds: 50 } }).catch(() => {});
      isClosed = false;
      const second = await first.fork({ fromStep: "pay#1" });
      expect(await second.result({ timeout: { seconds: 50 } })).toBe("paid");
      expect((await second.status()).taskId).not.toBe(taskId);
      expect(keys).toEqual([`${taskId}/pay#1`, `${taskId}/pay#1`]);
    });
  });

  it("read a record of many pages", async () => {
    const big = durable("big", { queue: "pages" }, async (flow, count: number) => {
      const sizes: number[] = [];
      for (let n = 0; n < count; n++) sizes.push((await flow.step("page", () => "x".repeat(40_000))).length);
      await flow.sleep({ milliseconds: 10 });
      return sizes.length + (await flow.all([flow.step("a", () => 1), flow.step("b", () => 2)])).length;
    });
    await working([big], async () =>
      expect(await client.submit(big, 6).result({ timeout: { seconds: 50 } })).toBe(8),
    );
  });
});

describe("pushed work", () => {
  it("is done by a function that lives only during a request, durable functions too", async () => {
    const name = `push-${process.pid}`;
    const square = task("square", { queue: name }, async (n: number) => n * n);
    const nap = durable("nap", { queue: name }, async (flow, n: number) => {
      const one = await flow.step("one", () => n + 1);
      await flow.sleep({ milliseconds: 50 });
      return flow.step("two", () => one + 1);
    });
    const http = createServer();
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/work`;
    const { secret } = await client.endpoints.create(name, url, { queues: [name], types: [] });
    http.on("request", toNode(push({ tasks: [square, nap], secret, url, name, client, onLog: () => {} })));
    try {
      expect(await client.submit(square, 7).result({ timeout: { seconds: 50 } })).toBe(49);
      expect(await client.submit(nap, 1).result({ timeout: { seconds: 50 } })).toBe(3);
    } finally {
      await client.endpoints.delete(name);
      http.closeAllConnections();
      http.close();
    }
  });
});

async function waits(run: { status(): Promise<{ state: string }> }): Promise<true | undefined> {
  return (await run.status()).state === "waiting" ? true : undefined;
}
