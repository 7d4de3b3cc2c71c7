/** What a client sends, and what it does with each answer. */
import {
  Client,
  kind,
  newRun,
  OutputUnreadable,
  Protocol,
  Refused,
  RunFailed,
  Setup,
  TimedOut,
  UnknownOutcome,
  Unreachable,
} from "@tenure/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { Calls } from "../dist/calls.js";
import { openSender } from "../dist/transport-fetch.js";
import { type Answer, type Asked, problem, type Stub, startStub } from "./stub.ts";

const echo = kind<unknown, any>("echo", { queue: "q" });
const accepted = { runId: "run_1", taskId: "task_1", state: "queued", createdAt: "2026-01-01T00:00:00.000Z" };
const stubs: Stub[] = [];

async function answering(
  answer: (asked: Asked, n: number) => Answer | Promise<Answer>,
): Promise<Stub & { client: Client }> {
  const stub = await startStub(answer);
  stubs.push(stub);
  return Object.assign(stub, { client: new Client({ url: stub.url, apiKey: "secret-key" }) });
}

afterEach(async () => {
  for (const stub of stubs.splice(0)) await stub.close();
});

async function thrown<T>(type: new (...args: any[]) => T, promise: PromiseLike<unknown>): Promise<T> {
  const error = await Promise.resolve(promise).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(type);
  return error as T;
}

describe("a submission", () => {
  it.each(["before", "half"] as const)(
    "whose answer is lost (%s) is sent again with the same key and bytes",
    async (drop) => {
      // S3-53, S2-115
      const { client, asked } = await answering((_, n) =>
        n === 1 ? { body: accepted, drop } : { status: 201, body: { ...accepted, replayed: true } },
      );
      const handle = await client.submit(echo, { n: 1 });
      expect([handle.id, handle.replayed]).toEqual(["run_1", true]);
      expect(asked.length).toBe(2);
      expect(asked[1]?.headers["idempotency-key"]).toBe(asked[0]?.headers["idempotency-key"]);
      expect(asked[1]?.body).toEqual(asked[0]?.body);
      expect((asked[1]?.at ?? 0) - (asked[0]?.at ?? 0)).toBeGreaterThanOrEqual(50);
    },
  );

  it("waits as long as a busy server asks for", async () => {
    const { client, asked } = await answering((_, n) =>
      n === 1 ? problem("overloaded", 503, { retryAfterMs: 400 }) : { body: accepted },
    );
    await client.submit(echo, 1);
    expect((asked[1]?.at ?? 0) - (asked[0]?.at ?? 0)).toBeGreaterThanOrEqual(390);
  });

  it("that is refused is thrown at once, with the member", async () => {
    const { client, asked } = await answering(() => problem("invalid_argument", 400, { field: "queue" }));
    const error = await thrown(Refused, client.submit(echo, 1));
    expect(error).toMatchObject({ code: "invalid_argument", field: "queue", retryable: false, status: 400 });
    expect(error.docs).toContain("/errors/invalid-argument");
    expect(asked.length).toBe(1);
  });

  it("may be repeated where its outcome is unknown", async () => {
    const { client, asked } = await answering(() => problem("unknown_outcome", 503));
    const error = await thrown(
      UnknownOutcome,
      new Client({ url: client.settings.urls[0], apiKey: "k", retries: 1 }).submit(echo, 1),
    );
    expect([error.retryable, asked.length]).toEqual([true, 2]);
  });

  it("fails after a bounded number of tries where no server answers", async () => {
    const { url, close } = await startStub(() => ({}));
    await close();
    const error = await thrown(Unreachable, new Client({ url, apiKey: "k", retries: 1 }).submit(echo, 1));
    expect([error.code, error.connected, error.retryable]).toEqual(["unreachable", false, true]);
    expect(error.message).toContain("tenure dev");
  });

  it("of a value that cannot be sent is told before anything is sent", async () => {
    const { client, asked } = await answering(() => ({ body: accepted }));
    const error = await thrown(Setup, client.submit(echo, { list: [Number.NaN] }));
    expect(error.message).toContain("$.list[0]");
    expect(asked.length).toBe(0);
  });

  it("says that the address is no coordinator, and keeps the key to itself", async () => {
    const { client } = await answering(() => ({ status: 404, body: "<html>nginx</html>" }));
    const error = await thrown(Protocol, client.submit(echo, 1));
    expect(error.code).toBe("not_a_coordinator");
    expect(error.message).toContain("nginx");
    expect(error.message).not.toContain("secret-key");
  });
});

describe("many submissions", () => {
  it("of many callers share calls, and each gets its own answer", async () => {
    let sent = 0;
    const { client, asked } = await answering(async ({ body, headers }) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const runs: any[] = body.runs ?? [{ ...body, idempotencyKey: headers["idempotency-key"] }];
      sent += runs.length;
      if (body.runs === undefined) return { body: { ...accepted, runId: `run_${body.input}` } };
      const results = runs.map((run) =>
        run.input === 13
          ? { error: "invalid_argument", message: "no" }
          : { ...accepted, runId: `run_${run.input}` },
      );
      return { body: { results } };
    });
    const handles = await Promise.all(Array.from({ length: 50 }, (_, n) => client.submit(echo, n)));
    expect(handles.map(({ id }) => id)).toEqual(Array.from({ length: 50 }, (_, n) => `run_${n}`));
    expect(asked.length).toBeLessThan(10);
    // The one that was refused in its batch was submitted again alone.
    expect(sent).toBe(51);
  });

  it("of one turn of the event loop go in one call", async () => {
    const { client, asked } = await answering(({ body }) => ({
      body: { results: body.runs.map((run: any) => ({ ...accepted, runId: `run_${run.input}` })) },
    }));
    const ids = async (from: number) =>
      (await Promise.all(Array.from({ length: 20 }, (_, n) => client.submit(echo, from + n)))).map(
        ({ id }) => id,
      );
    expect((await ids(0))[19]).toBe("run_19");
    expect((await ids(20))[19]).toBe("run_39");
    expect(asked.map(({ body }) => body.runs.length)).toEqual([20, 20]);
  });

  it("of one call go in parts of a thousand, and are answered in order", async () => {
    const { client, asked } = await answering(({ body }) => ({
      body: {
        results: body.runs.map((run: any) =>
          run.input === 7
            ? { error: "quota_reached", message: "full" }
            : { ...accepted, runId: `run_${run.input}` },
        ),
      },
    }));
    const submitted = await client.submitMany(Array.from({ length: 2_500 }, (_, n) => newRun(echo, n)));
    expect(asked.map(({ body }) => body.runs.length)).toEqual([1_000, 1_000, 500]);
    expect(submitted[7]?.error).toMatchObject({ code: "quota_reached" });
    expect(submitted[2_499]?.handle?.id).toBe("run_2499");
  });
});

describe("a result", () => {
  const run = (more: object) => ({ body: { ...accepted, attempt: 2, state: "succeeded", ...more } });

  it("is waited for by long polls until the end", async () => {
    const { client, asked } = await answering((_, n) =>
      run(n < 3 ? { state: "running" } : { output: { n: 1 } }),
    );
    expect(await client.run("run_1").result()).toEqual({ n: 1 });
    expect(asked.map(({ path }) => path)).toEqual(Array(3).fill("/v1/runs/run_1?waitMs=30000"));
  });

  it("leaves the run alone when the time is over", async () => {
    const { client, asked } = await answering(() => run({ state: "running" }));
    const error = await thrown(TimedOut, client.run("run_1").result({ timeout: { milliseconds: 50 } }));
    expect(error.code).toBe("timed_out");
    expect(asked.every(({ method }) => method === "GET")).toBe(true);
  });

  it("of a halted run says how to continue, and one that is late how to find out why", async () => {
    const halted = { runId: "run_1", state: "halted", attempt: 1, error: { message: "the budget is spent" } };
    const { client } = await answering(() => ({ body: halted }));
    const error = await thrown(RunFailed, client.run("run_1").result());
    expect(error.nextStep).toContain("`fork({ budget })`");
    const late = await answering(() => ({ body: { runId: "run_1", state: "queued" } }));
    const timedOut = await thrown(
      TimedOut,
      late.client.run("run_1").result({ timeout: { milliseconds: 1 } }),
    );
    expect(timedOut.nextStep).toContain("`explain()`");
  });

  it("of a failed run says state, reason, category and attempt", async () => {
    const error = { message: "boom", reason: "FAILED", category: "USER_CODE" };
    const { client } = await answering(() => run({ state: "failed", error }));
    const failed = await thrown(RunFailed, client.run("run_1").result());
    expect(failed).toMatchObject({
      state: "failed",
      reason: "FAILED",
      category: "USER_CODE",
      attempt: 2,
      code: "run_failed",
    });
    expect(failed.message).toContain("boom");
  });

  it("that JavaScript would round names its path", async () => {
    const body = JSON.stringify({ ...accepted, attempt: 1, state: "succeeded", output: { id: 0 } }).replace(
      '"id":0',
      '"id":12345678901234567890',
    );
    const { client } = await answering(() => ({ body }));
    expect((await thrown(OutputUnreadable, client.run("run_1").result())).path).toBe("$.id");
  });

  it("ignores members that it does not know", async () => {
    const { client } = await answering(() => run({ output: 7, inventedLater: { a: 1 } }));
    expect(await client.run("run_1").result()).toBe(7);
  });

  it("stops waiting when its signal aborts", async () => {
    const stop = new AbortController();
    const { client } = await answering(() => {
      stop.abort(new Error("enough"));
      return new Promise(() => {});
    });
    await expect(client.run("run_1").result({ signal: stop.signal })).rejects.toThrow("enough");
  });
});

describe("several addresses", () => {
  it("are tried in turn, and the one that answers is kept", async () => {
    const dead = await startStub(() => ({ drop: "before" }));
    const live = await startStub(() => ({ body: accepted }));
    stubs.push(dead, live);
    const client = new Client({ url: `${dead.url},${live.url}`, apiKey: "k" });
    for (let n = 0; n < 5; n++) await client.submit(echo, n);
    expect(live.asked.length).toBe(5);
    expect(dead.asked.length).toBeLessThanOrEqual(1);
  });

  it.each(["", "ftp://a", "http://a,https://b", "http://a/x,http://b/y"])(
    "are refused if they are none: %s",
    (url) => {
      expect(() => new Client({ url })).toThrow(Setup);
    },
  );
});

it("calls go below the path of the address", async () => {
  const { url, asked } = await answering(() => ({ body: { runs: [] } }));
  await using below = new Client({ url: `${url}/tenure/`, apiKey: "k" });
  for await (const run of below.runs({ queue: "q" })) throw new Error(`none was expected: ${run.runId}`);
  expect(asked[0]?.path).toBe("/tenure/v1/runs?queue=q");
});

describe("calls by fetch, where there is no Node", () => {
  it("are repeated and refused in the same way", async () => {
    const stub = await startStub(({ path }, n) =>
      path === "/no"
        ? problem("forbidden", 403)
        : n === 1
          ? { drop: "half", body: accepted }
          : { body: accepted },
    );
    stubs.push(stub);
    const calls = new Calls(openSender({ urls: [stub.url] }), [stub.url], "k", 2);
    const call = { method: "POST", path: "/v1/runs", body: "{}", idempotencyKey: "one" } as const;
    expect(await calls.json(call)).toEqual(accepted);
    expect(stub.asked.map(({ headers }) => headers["idempotency-key"])).toEqual(["one", "one"]);
    expect((await thrown(Refused, calls.json({ method: "GET", path: "/no" }))).code).toBe("forbidden");
    expect(() => openSender({ urls: [stub.url], caFile: "ca.pem" })).toThrow(Setup);
  });
});

it("runs are found page by page, as they are needed", async () => {
  const { client, asked } = await answering(({ path }) => {
    const isSecond = path.includes("cursor=next");
    return { body: { runs: [{ runId: isSecond ? "b" : "a" }], nextCursor: isSecond ? null : "next" } };
  });
  const ids: string[] = [];
  for await (const run of client.runs({ state: "failed", queue: "q" })) ids.push(run.runId);
  expect(ids).toEqual(["a", "b"]);
  expect(asked[0]?.path).toBe("/v1/runs?state=failed&queue=q");
});

it("the lines and the steps of a run are read page by page", async () => {
  const { client, asked } = await answering(({ path }) => {
    const isSecond = path.includes("after=");
    const nextAfter = isSecond ? null : "1.2";
    if (path.includes("/logs")) return { body: { lines: [{ n: isSecond ? 2 : 1 }], nextAfter } };
    return { body: { steps: [{ key: isSecond ? "b#1" : "a#1" }], nextAfter: isSecond ? null : 7 } };
  });
  const run = client.run("run_1");
  expect((await run.logs()).map(({ n }) => n)).toEqual([1, 2]);
  expect((await run.steps()).map(({ key }) => key)).toEqual(["a#1", "b#1"]);
  expect(asked.map(({ path }) => path.slice("/v1/runs/run_1".length))).toEqual([
    "/logs",
    "/logs?after=1.2",
    "/steps",
    "/steps?after=7",
  ]);
});
