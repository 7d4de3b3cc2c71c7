/** Values that JSON would change: a caller is told before anything is sent, and a run fails with their place. */
import {
  Client,
  durable,
  Failure,
  type Flow,
  FlowTest,
  kind,
  newRun,
  plan,
  planApproval,
  planStep,
  Setup,
  task,
} from "@tenure/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { standardSink } from "../dist/log.js";
import { runInline } from "../dist/testing.js";
import { returned, threw } from "../dist/worker/report.js";
import { type Stub, startStub } from "./stub.ts";

const nan = { list: [1, { n: Number.NaN }] };
const echo = kind<unknown, any>("echo", { queue: "q" });

let stub: Stub;
let client: Client;

beforeAll(async () => {
  stub = await startStub(() => ({ body: {} }));
  client = new Client({ url: stub.url, apiKey: "k" });
});

afterAll(() => stub.close());

describe("a caller is told", () => {
  const approval = { content: nan } as never;
  const calls: Array<[string, () => PromiseLike<unknown>]> = [
    ["the input of `echo`", () => client.submit(echo, nan)],
    [
      "the input of `echo` (run 1 of submitMany)",
      () => client.submitMany([newRun(echo, 1), newRun(echo, nan)]),
    ],
    ["the input of step `draft`", () => client.submitPlan(plan([planStep("draft", echo, nan)]))],
    ["step `ask`", () => client.submitPlan(plan([planApproval("ask", approval)]))],
    [
      "the input of schedule `nightly`",
      () => client.schedules.create("nightly", { cron: "* * * * *" }, echo, nan),
    ],
    ["the payload of signal `go`", () => client.run("run_1").signal("go", nan)],
    ["what goes to /v1/deployments/d", () => client.deployments.apply("d", nan)],
    ["what goes to /v1/deployments/d/artifacts/t", () => client.artifacts.create("d", "t", "a", nan)],
  ];

  it.each(calls)("where it is, and nothing is sent: %s", async (what, call) => {
    // A call that throws before it returns a promise cannot be caught where it is awaited.
    const made = call();
    const error = await Promise.resolve(made).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(Setup);
    expect((error as Setup).message).toContain(`${what} cannot be sent: $.`);
    expect((error as Setup).message).toContain("list[1].n: NaN has no JSON form");
    expect(stub.asked).toEqual([]);
  });

  it("that a span has an end", async () => {
    const forever = { days: Number.POSITIVE_INFINITY };
    await expect(client.submit(echo, 1, { ttl: forever })).rejects.toThrow("pass a span with its unit");
    await expect(client.schedules.create("s", { every: forever }, echo, 1)).rejects.toThrow("finite numbers");
  });
});

describe("a run fails for good, with the place", () => {
  const failure = async (code: (flow: Flow) => Promise<unknown>) =>
    (await new FlowTest(durable("f", {}, code)).run()).error;

  it.each<[string, string, (flow: Flow) => Promise<unknown>]>([
    [
      "RESULT_UNWRITABLE",
      "the result of step `charge`: $.list",
      async (flow) => flow.step("charge", () => nan),
    ],
    ["RESULT_UNWRITABLE", "the result: $.list", async () => nan],
    ["RESULT_UNWRITABLE", "the state of the savepoint: $.list", async (flow) => flow.savepoint(nan)],
    [
      "INPUT_UNWRITABLE",
      "the input of step `charge`: $.list",
      async (flow) => flow.step("charge", () => 1, { input: nan }),
    ],
    ["INPUT_UNWRITABLE", "the input of call `echo`: $.list", async (flow) => flow.call(echo, nan)],
    [
      "INPUT_UNWRITABLE",
      "what approval `ship` is about: $.list",
      async (flow) => flow.approval("ship", { about: nan }),
    ],
    [
      "EFFECT_UNWRITABLE",
      "the body of effect `paid`: $.list",
      async (flow) => flow.effect("tell", { endpoint: "crm", type: "paid", body: nan }),
    ],
    [
      "EFFECT_UNWRITABLE",
      "the body of effect `paid`: $.list",
      async (flow) =>
        flow.step("tell", (step) => step.effect({ endpoint: "crm", type: "paid", body: nan }), { retry: 3 }),
    ],
  ])("%s: %s", async (reason, message, code) => {
    expect(await failure(code)).toMatchObject({
      category: "USER_CODE",
      reason,
      retryable: false,
      message: expect.stringContaining(message),
    });
  });

  it("where a task returned it", () => {
    const { outcome, text } = returned(nan);
    expect(outcome).toBe("FAILED");
    expect(JSON.parse(text).error).toEqual({
      category: "USER_CODE",
      message: "the result cannot be sent: $.list[1].n: NaN has no JSON form",
      retryable: false,
    });
  });
});

describe("what rides along never costs the work", () => {
  it("amounts and progress are checked where they are given", async () => {
    const run = (code: (ctx: import("@tenure/sdk").Ctx) => unknown) =>
      runInline(task("t", {}, async (_: void, ctx) => code(ctx)));
    await expect(run((ctx) => ctx.spend({ tokens: Number.NaN }))).rejects.toThrow("not `tokens: NaN`");
    await expect(run((ctx) => ctx.spend({ tokens: 0.5 }))).rejects.toThrow("whole number");
    await expect(run((ctx) => ctx.spend({ token: 5 } as never))).rejects.toThrow(
      "`token` cannot be spent; use tokens",
    );
    await expect(run((ctx) => ctx.progress(Number.NaN))).rejects.toThrow("in percent");
    await expect(run((ctx) => ctx.spend({ tokens: undefined } as never))).resolves.toBe(null);
    const step = durable("s", {}, async (flow) =>
      flow.step("think", (step) => step.spend({ tokens: "800" as never })),
    );
    expect((await new FlowTest(step).run()).error?.message).toContain("not `tokens: 800`");
  });

  it("a line whose data cannot be written is written without them", () => {
    const round: Record<string, unknown> = {};
    round["round"] = round;
    const line = { level: "info", message: "read", runId: "run_1" } as const;
    for (const [data, why] of [
      [round, "circular"],
      [{ n: 1n }, "BigInt"],
    ] as const) {
      const said: string[] = [];
      const write = vi
        .spyOn(process.stderr, "write")
        .mockImplementation((text) => said.push(String(text)) > 0);
      standardSink()({ ...line, data });
      write.mockRestore();
      expect(JSON.parse(said.join(""))).toMatchObject({
        ...line,
        data: { unwritable: expect.stringContaining(why) },
      });
    }
  });

  it("partial progress is checked where the failure is made, and a cancelled run ends as cancelled", () => {
    expect(() => Failure.cancelled("told to stop", { partialProgress: nan })).toThrow("$.list[1].n: NaN");
    const changed: { row: unknown } = { row: 1 };
    const failure = Failure.cancelled("told to stop", { partialProgress: changed });
    changed.row = () => {};
    expect(threw(failure, "CancelRequested").text).toBe('{"outcome":"CANCELLED"}');
  });
});
