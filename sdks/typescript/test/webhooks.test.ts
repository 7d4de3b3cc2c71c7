/** Webhooks and pushed work: what is believed, and what is answered. */
import { Client, durable, Failure, task } from "@tenure/sdk";
import { push } from "@tenure/sdk/push";
import { RecentIds, Verifier, VerifyError } from "@tenure/sdk/webhooks";
import { describe, expect, it } from "vitest";
import { envelope, NOW, secretOf, signed, URL_OF_PUSH } from "./signed.ts";
import { problem, startStub } from "./stub.ts";

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((it) => {
    resolve = it;
  });
  return { promise, resolve };
}

function code(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof VerifyError) return error.code;
    throw error;
  }
  return "believed";
}

describe("a webhook", () => {
  const body = '{"type":"run.succeeded","timestamp":"2026-11-17T04:00:00.000Z","data":{"runId":"run_1"}}';
  const verifier = new Verifier(secretOf(1));

  it("is believed if its signature and time fit", () => {
    const headers = { ...signed(body), "tenure-sequence": "3", "tenure-gap": "1", "tenure-aggregate": "o-7" };
    const event = verifier.verify(headers, body, NOW);
    expect(event).toMatchObject({
      type: "run.succeeded",
      data: { runId: "run_1" },
      id: "eff_1",
      sequence: 3,
      gap: 1,
      aggregate: "o-7",
    });
    expect(verifier.verify(new Headers(signed(body)), new TextEncoder().encode(body), NOW).id).toBe("eff_1");
  });

  it("is refused if anything was changed", () => {
    const headers = signed(body);
    const cases: Record<string, () => unknown> = {
      webhook_signature: () => verifier.verify(headers, `${body} `, NOW),
      webhook_too_old: () =>
        verifier.verify(signed(body, { at: new Date(NOW.getTime() - 301_000) }), body, NOW),
      webhook_too_new: () =>
        verifier.verify(signed(body, { at: new Date(NOW.getTime() + 301_000) }), body, NOW),
      webhook_id: () => verifier.verify({ ...headers, "webhook-id": "a.b" }, body, NOW),
      webhook_timestamp: () => verifier.verify({ ...headers, "webhook-timestamp": "now" }, body, NOW),
    };
    for (const [expected, run] of Object.entries(cases)) expect(code(run)).toBe(expected);
    expect(code(() => new Verifier(secretOf(2)).verify(headers, body, NOW))).toBe("webhook_signature");
    expect(code(() => verifier.verify(signed(body, { id: "other" }), body, NOW))).toBe("believed");
    expect(code(() => verifier.verify({ ...headers, "webhook-id": "eff_2" }, body, NOW))).toBe(
      "webhook_signature",
    );
  });

  it("is believed under both secrets during a rotation", () => {
    expect(code(() => verifier.verify(signed(body, { secrets: [2, 1] }), body, NOW))).toBe("believed");
    expect(code(() => new Verifier([secretOf(3), secretOf(1)]).verify(signed(body), body, NOW))).toBe(
      "believed",
    );
  });

  it("that comes twice is recognised, unless its handling failed", () => {
    const recent = new RecentIds();
    expect([recent.note("a", NOW), recent.note("a", NOW)]).toEqual([true, false]);
    recent.forget("a");
    expect(recent.note("a", NOW)).toBe(true);
    expect(recent.note("a", new Date(NOW.getTime() + 601_000))).toBe(true);
  });

  it("needs a secret of the right length", () => {
    expect(() => new Verifier("whsec_short")).toThrow("24 to 64 bytes");
  });
});

describe("pushed work", () => {
  let runs = 0;
  const echo = task("echo", {}, async (value: unknown, ctx) => {
    runs += 1;
    ctx.spend({ tokens: 7 });
    return value;
  });
  const bad = task("bad", {}, async () => {
    throw Failure.data("no such row");
  });
  const flow = durable("flow", {}, async () => 1);
  const client = new Client({ url: "http://127.0.0.1:9", apiKey: "k" });
  const options = {
    tasks: [echo, bad, flow],
    secret: secretOf(1),
    url: URL_OF_PUSH,
    client,
    onLog: () => {},
  };
  const handler = push(options);

  const request = (body: string, more = {}) =>
    new Request(URL_OF_PUSH, {
      method: "POST",
      body,
      headers: signed(body, { at: new Date(), id: crypto.randomUUID(), ...more }),
    });

  it("is answered with its report", async () => {
    const answer = await handler(request(envelope("echo", { n: 1 })));
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({
      outcome: "SUCCEEDED",
      output: { n: 1 },
      spend: { tokens: 7 },
    });
  });

  it("that fails says its category", async () => {
    const answer = await handler(request(envelope("bad", null)));
    expect(await answer.json()).toMatchObject({
      outcome: "FAILED",
      error: { category: "DATA_QUALITY", message: "no such row" },
    });
    const unknown = await handler(request(envelope("unknown", null)));
    expect(await unknown.json()).toMatchObject({ error: { category: "CONFIGURATION" } });
  });

  it("meant for another URL, or badly signed, is not run", async () => {
    const before = runs;
    expect((await handler(request(envelope("echo", 1), { url: "https://example.com/other" }))).status).toBe(
      401,
    );
    expect((await handler(request(envelope("echo", 1), { secrets: [2] }))).status).toBe(401);
    expect(runs).toBe(before);
  });

  it("that comes twice runs once", async () => {
    const before = runs;
    const id = "push_task_1_1";
    const body = envelope("echo", 1);
    const answers = await Promise.all([handler(request(body, { id })), handler(request(body, { id }))]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect((await handler(request(body, { id }))).status).toBe(202);
    expect(runs).toBe(before + 1);
  });

  it("is sent back when the process is busy", async () => {
    const { promise: started, resolve: start } = deferred<() => void>();
    const hold = task("hold", {}, () => new Promise<void>((resolve) => start(resolve)));
    const narrow = push({ ...options, tasks: [hold], concurrency: 1 });
    const first = narrow(request(envelope("hold", null)));
    const release = await started;
    const second = await narrow(request(envelope("hold", null)));
    expect([second.status, second.headers.get("retry-after")]).toEqual([503, "1"]);
    release();
    expect((await first).status).toBe(200);
  });

  const noisy = task("noisy", {}, async (_: null, ctx) => {
    ctx.log.info("read", { rows: 40 });
    ctx.log.debug("not sent");
    ctx.log.warn("slow");
  });
  const textsOf = (log: Array<{ n: number; text: string }>) => log.map(({ n, text }) => [n, text]);

  it("answers with the lines that it logged", async () => {
    const answer = await push({ ...options, tasks: [noisy] })(request(envelope("noisy", null)));
    const report = (await answer.json()) as any;
    expect(textsOf(report.log)).toEqual([
      [1, 'read {"rows":40}'],
      [2, "slow"],
    ]);
    const same = (bytes: Uint8Array) => bytes;
    const codec = { name: "plain", encode: same, decode: same, digest: () => "0".repeat(64) };
    const sealed = new Client({ url: "http://127.0.0.1:9", apiKey: "k", codec });
    const silent = await push({ ...options, tasks: [noisy], client: sealed })(
      request(envelope("noisy", null)),
    );
    expect(((await silent.json()) as any).log).toBeUndefined();
  });

  const chatty = durable("chatty", {}, async (flow) => {
    flow.log.info("begun");
    await flow.step("one", () => 1);
    await flow.step("two", () => 2);
    flow.log.info("ended");
    return "done";
  });
  const committed = {
    ...{ acknowledged: true, verdict: "COMMITTED", state: "running", shouldCancel: false, replayed: false },
    ...{ recordedAt: NOW.toISOString(), serverTime: NOW.toISOString(), leaseExpiresAt: NOW.toISOString() },
  };

  it("brings lines once: with a call, or with its report", async () => {
    const stub = await startStub(() => ({ body: committed }));
    const named = push({ ...options, tasks: [chatty], name: "here" });
    const body = envelope("chatty", null, { callbackBaseUrl: stub.url });
    const report = (await (await named(request(body))).json()) as any;
    await stub.close();
    const calls = stub.asked.filter(({ path }) => path.endsWith("/checkpoints"));
    expect(calls.flatMap(({ body }) => textsOf(body.log ?? []))).toEqual([[1, "begun"]]);
    expect([report.output, textsOf(report.log)]).toEqual(["done", [[2, "ended"]]]);
  });

  it("sends no lines to a coordinator that does not know of them", async () => {
    const refused = problem("invalid_argument", 400, { field: "log", verdict: "REJECTED" });
    const stub = await startStub(({ body }) => (body.log === undefined ? { body: committed } : refused));
    const named = push({ ...options, tasks: [chatty], name: "here" });
    const body = envelope("chatty", null, { callbackBaseUrl: stub.url });
    const report = (await (await named(request(body))).json()) as any;
    await stub.close();
    expect(stub.asked.map(({ body }) => [body.log !== undefined, body.steps?.[0]?.key])).toEqual([
      [true, "one#1"],
      [false, "one#1"],
    ]);
    expect([report.output, report.log]).toEqual(["done", undefined]);
  });

  it("of a durable function needs the endpoint's name for its calls", async () => {
    const answer = await handler(request(envelope("flow", null)));
    expect(await answer.json()).toMatchObject({ error: { category: "CONFIGURATION" } });
  });
});
