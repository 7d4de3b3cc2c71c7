/** Whatever code throws becomes a failure that people can read. */
import { runInNewContext } from "node:vm";
import { durable, Failure, type Flow, FlowTest } from "@tenure/sdk";
import { describe, expect, it } from "vitest";
import { recordOf } from "../dist/failure.js";
import { threw } from "../dist/worker/report.js";

const reported = (thrown: unknown) => JSON.parse(threw(thrown, undefined).text).error;

/** The failure of a step that throws this. */
async function ofStep(thrown: unknown) {
  const failing = durable("f", {}, (flow: Flow) =>
    flow
      .step("charge", () => {
        throw thrown;
      })
      .then(() => "not reached"),
  );
  return (await new FlowTest(failing).run()).error;
}

const unreadable = new Proxy(
  {},
  {
    get() {
      throw new Error("no property for you");
    },
  },
);

const thrown: Array<[unknown, string]> = [
  ["x", "what was thrown is no Error: x"],
  ["", "what was thrown is no Error: an empty text"],
  [undefined, "what was thrown is no Error: undefined"],
  [null, "what was thrown is no Error: null"],
  [7, "what was thrown is no Error: 7"],
  [Symbol("s"), "what was thrown is no Error: Symbol(s)"],
  [{ code: 5 }, 'what was thrown is no Error: {"code":5}'],
  [Object.create(null), "what was thrown is no Error: {}"],
  [{ n: 1n }, "what was thrown is no Error: [object Object]"],
  [unreadable, "what was thrown is no Error: a value that cannot be read"],
  [Object.assign(new Error("declined"), { failure: "a member of its own" }), "Error: declined"],
  [Object.assign(new Error("odd"), { name: 7 }), "Error: odd"],
  [new TypeError(""), "TypeError"],
  [
    new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED 127.0.0.1:5432") }),
    "TypeError: fetch failed; caused by Error: connect ECONNREFUSED 127.0.0.1:5432",
  ],
  [new Error("no", { cause: "because" }), "Error: no; caused by what was thrown is no Error: because"],
  [
    new AggregateError([new Error("a"), new RangeError("b")], "All promises were rejected"),
    "AggregateError: All promises were rejected [Error: a; RangeError: b]",
  ],
  [new AggregateError([1, 2, 3, 4, 5, 6].map((n) => new Error(`${n}`))), "; 2 more]"],
  [runInNewContext('new RangeError("elsewhere")'), "RangeError: elsewhere"],
];

/** A test's name must not read the value. */
function named(cases: typeof thrown): Array<[string, () => unknown]> {
  return cases.map(([value, message]) => [message, () => value]);
}

describe("what a task throws", () => {
  it.each(named(thrown))("%s", async (message, make) => {
    const value = make();
    expect(reported(value)).toMatchObject({
      category: "USER_CODE",
      message: expect.stringContaining(message),
    });
    expect(await ofStep(value)).toMatchObject({
      category: "USER_CODE",
      message: expect.stringContaining(message),
    });
  });

  it("has the stacks of its causes, without what libraries add to them", () => {
    const cause = Object.assign(new Error("refused"), {
      config: { headers: { authorization: "Bearer secret" } },
    });
    const { stackTrace } = reported(new Error("no answer", { cause }));
    expect(stackTrace).toMatch(/Error: no answer\n +at .*\nCaused by: Error: refused\n +at /s);
    expect(stackTrace).not.toContain("secret");
  });

  it("may be a failure that stands for another error, and then has its stack", () => {
    expect(reported(Failure.infra("the database is away", { cause: new Error("refused") }))).toMatchObject({
      category: "INFRASTRUCTURE",
      message: "the database is away",
      stackTrace: expect.stringContaining("Error: refused"),
    });
    expect(reported(Failure.data("bad row"))).not.toHaveProperty("stackTrace");
  });

  it("ends, however long its causes are", () => {
    const round = new Error("round");
    round.cause = round;
    expect(recordOf(round).message.split("caused by").length).toBeLessThan(8);
    expect(reported(new Error("x".repeat(100_000))).message.length).toBeLessThanOrEqual(4096);
  });
});

describe("a durable function", () => {
  it.each(named(thrown.slice(0, 5)))("has a bug, which another build may not have: %s", async (_, make) => {
    const value = make();
    const failing = durable("f", {}, async () => {
      throw value;
    });
    const caught = await new FlowTest(failing).run().then(
      () => "no failure",
      (error: unknown) => error,
    );
    expect(caught).toBe(value);
  });

  it("without `async` may throw, and may return a value", async () => {
    const throws = durable("f", {}, (() => {
      throw new RangeError("at once");
    }) as never);
    await expect(new FlowTest(throws).run()).rejects.toThrow("at once");
    const returns = durable("f", {}, (() => 7) as never);
    expect((await new FlowTest(returns).run()).output).toBe(7);
  });
});
