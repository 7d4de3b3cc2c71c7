/** Durable functions in memory: replay, crashes, races, and what a function must not do. */
import { type Approval, durable, Failure, type Flow, FlowTest, kind, StepFailed, task } from "@tenure/sdk";
import { describe, expect, it } from "vitest";
import { Stop, Stuck } from "../dist/testing.js";

interface Order {
  id: number;
  cents: number;
  items: string[];
}

const pack = kind<string, string>("pack", { queue: "orders" });
const lamp: Order = { id: 7, cents: 500, items: ["lamp", "cable"] };

const order = durable("order", { queue: "orders" }, async (flow, order: Order) => {
  const receipt = await flow.step("charge", () => `r-${order.id}`, { retry: 5, input: order.cents });
  await flow.sleep("cool-off", { minutes: 5 });
  const { approved } = await flow.approval("ship", { subject: `Ship ${order.id}?`, quorum: 2, about: order });
  if (!approved) {
    await flow.step("refund", () => null);
    return "refunded";
  }
  const parts = await flow.all(order.items.map((item) => flow.call(pack, item)));
  const both = await flow.all([
    flow.step("label", () => 1),
    flow.branch("mail", async (inner) => inner.step("send", () => 2)),
  ]);
  const first = await flow.any({ go: flow.signal<string>("go"), late: flow.sleep({ seconds: 10 }) });
  const again = await flow.any({ go: flow.signal<string>("go"), late: flow.sleep({ seconds: 10 }) });
  return `${receipt}: ${parts.join(", ")} ${both.join("+")} ${first.winner} ${again.winner} ${flow.uuid("parcel")}`;
});

const test = () =>
  new FlowTest(order, lamp)
    .approve("ship", "ann")
    .approve("ship", "bob")
    .child(pack, (item) => `${item} in a box`, { takes: { seconds: 3 } })
    .signal("go", "now", { after: { minutes: 5, seconds: 16 } });

async function stopOf(code: (flow: Flow) => Promise<unknown>): Promise<string> {
  const error = await new FlowTest(durable("f", {}, code)).run().catch((error: unknown) => error);
  if (!(error instanceof Stop)) throw new Error(`it did not stop: ${String(error)}`);
  return error.message;
}

describe("an order", () => {
  it("runs to its end in memory", async () => {
    const ended = await test().run();
    expect(ended.output).toMatch(/^r-7: lamp in a box, cable in a box 1\+2 late go [0-9a-f-]{36}$/);
    expect(ended.keys.slice(0, 3)).toEqual(["charge#1", "sleep:cool-off#1", "approval:ship#1"]);
    expect(ended.keys).toContain("1/label#1");
    expect(ended.keys).toContain("mail/send#1");
  });

  it("ends the same wherever its worker dies, and executes no recorded step again", async () => {
    // S2-85, S2-92: crash before and after every command.
    const [calm, ...disturbed] = await test().runWithEveryCrash();
    expect(disturbed.length).toBe(2 * (calm?.commands ?? 0));
    for (const [place, ended] of disturbed.entries()) {
      expect(ended.output, `place ${place}`).toBe(calm?.output);
      expect(ended.attempts, `place ${place}`).toBeGreaterThan(1);
      const twice = Object.entries(ended.executed).filter(([, count]) => count > 1);
      expect(twice.length, `place ${place}`).toBeLessThanOrEqual(2);
    }
  });

  it("is refunded when a person rejects", async () => {
    const ended = await new FlowTest(order, lamp).reject("ship", "ann", { comment: "too dear" }).run();
    expect(ended.output).toBe("refunded");
    expect(ended.executed).toEqual({ "charge#1": 1, "refund#1": 1 });
  });

  it("says what it waits for when nothing will bring it", async () => {
    await expect(new FlowTest(order, lamp).run()).rejects.toThrow(Stuck);
    await expect(new FlowTest(order, lamp).run()).rejects.toThrow("approval:ship#1");
  });
});

describe("steps", () => {
  it("are tried again after a durable pause, and their failure is a value", async () => {
    const flaky = durable("flaky", {}, async (flow) => {
      try {
        return await flow.step("call", (step) => Promise.reject(new Error(`no ${step.number}`)), {
          retry: 3,
        });
      } catch (error) {
        return error instanceof StepFailed ? [error.category, error.message, error.key] : "another error";
      }
    });
    const ended = await new FlowTest(flaky).run();
    expect(ended.output).toEqual(["USER_CODE", "Error: no 3", "call#1"]);
    expect(ended.keys).toEqual(["call#1.1", "call#1.1.wait", "call#1.2", "call#1.2.wait", "call#1"]);
  });

  it("end the run with their failure if it is not caught, without a retry", async () => {
    const failing = durable("failing", {}, async (flow) =>
      flow.step("s", () => Promise.reject(Failure.data("bad row"))),
    );
    const ended = await new FlowTest(failing).run();
    expect(ended.error).toEqual({ category: "DATA_QUALITY", message: "bad row" });
  });

  it("give a result as it was recorded, in the first attempt too", async () => {
    const dated = durable("dated", {}, async (flow) =>
      flow.step("s", () => ({ at: new Date(0), gone: undefined })),
    );
    expect((await new FlowTest(dated).run()).output).toEqual({ at: "1970-01-01T00:00:00.000Z" });
  });

  it.each([
    ["RESULT_UNWRITABLE", () => Number.NaN],
    ["RESULT_UNWRITABLE", () => 2n ** 80n],
    ["RESULT_TOO_LARGE", () => "x".repeat(300_000)],
  ])("fail for good with %s", async (reason, work) => {
    const code = durable("f", {}, async (flow) => flow.step<unknown>("s", work, { retry: 9 }));
    expect((await new FlowTest(code).run()).error).toMatchObject({ reason, retryable: false });
  });

  it("time out, and their signal aborts", async () => {
    let aborted = false;
    const slow = durable("slow", {}, async (flow) =>
      flow.step(
        "s",
        (step) =>
          new Promise(() => {
            step.signal.addEventListener("abort", () => {
              aborted = true;
            });
          }),
        { timeout: { seconds: 1 } },
      ),
    );
    expect((await new FlowTest(slow).run()).error).toMatchObject({
      category: "TIMEOUT",
      reason: "STEP_TIMEOUT",
    });
    expect(aborted).toBe(true);
  });

  it("spend, and halt at the budget", async () => {
    const left: unknown[] = [];
    const agent = durable("agent", { budget: { tokens: 1_000 } }, async (flow) => {
      for (;;) {
        await flow.step("think", (step) => {
          left.push(step.left?.tokens);
          step.spend({ tokens: 400 });
        });
      }
    });
    const ended = await new FlowTest(agent).run();
    expect(ended.error?.reason).toBe("BUDGET_EXCEEDED");
    expect([left, ended.spent.tokens]).toEqual([[1_000, 600, 200], 1_200]);
  });
});

describe("waiting", () => {
  it("for people expires with the decision that counts then", async () => {
    const ask = durable("ask", {}, async (flow) =>
      flow.approval("pay", { within: { days: 1 }, default: "REJECTED" }),
    );
    const ended = await new FlowTest(ask).run();
    expect(ended.output satisfies Approval).toMatchObject({
      approved: false,
      outcome: "REJECTED",
      votes: [],
    });
  });

  it("for a delivery tells what became of an effect", async () => {
    const tell = durable("tell", {}, async (flow) => {
      const delivery = await flow
        .effect("tell", { endpoint: "crm", type: "order.paid", body: { id: 7 } })
        .delivered();
      const other = await flow
        .effect("other", { endpoint: "crm", type: "slow", body: 1 })
        .delivered()
        .within({ seconds: 1 });
      return [delivery.outcome, delivery.reason, other ?? null];
    });
    const ended = await new FlowTest(tell)
      .delivery("order.paid", "FAILED")
      .delivery("slow", "DELIVERED", { takes: { days: 1 } })
      .run();
    expect(ended.output).toEqual(["FAILED", "tries_exhausted", null]);
  });

  it("for many calls at most `max` at a time, with failures by place", async () => {
    const square = kind<number, number>("square", { queue: "numbers" });
    const many = durable("many", {}, async (flow) => {
      const ends = await flow.map(square, [1, 2, 3, 4], { max: 2 }).settled();
      return ends.map((end) =>
        end.status === "fulfilled" ? end.value : { failed: (end.reason as Error).message },
      );
    });
    const code = (n: number) => {
      if (n === 3) throw Failure.permanent("three");
      return n * n;
    };
    const ended = await new FlowTest(many).child(square, code, { takes: { seconds: 1 } }).run();
    expect(ended.output).toEqual([1, 4, { failed: "three" }, 16]);
    const started = ended.history.findIndex(({ key }) => key === "child:square#3");
    const firstEnd = ended.history.findIndex(
      ({ key, outcome }) => key === "child:square#1" && outcome === "SUCCEEDED",
    );
    expect(started).toBeGreaterThan(firstEnd);
  });

  it("for a call within a span", async () => {
    const slow = kind<number, number>("slow");
    const code = durable(
      "f",
      {},
      async (flow) => (await flow.call(slow, 1).within({ seconds: 1 })) ?? "late",
    );
    expect((await new FlowTest(code).child(slow, (n) => n, { takes: { hours: 1 } }).run()).output).toBe(
      "late",
    );
  });

  it("for all gives the first failure by place after every end", async () => {
    const ran: string[] = [];
    const code = durable("f", {}, async (flow) =>
      flow.all([
        flow.step("ok", () => void ran.push("ok")),
        flow.step("bad", () => Promise.reject(Failure.permanent("second"))),
        flow.branch("slow", async (inner) => {
          await inner.sleep({ hours: 1 });
          await inner.step("after", () => void ran.push("after"));
        }),
      ]),
    );
    expect((await new FlowTest(code).run()).error?.message).toBe("second");
    expect(ran).toEqual(["ok", "after"]);
  });
});

describe("versions and long loops", () => {
  const old = durable("f", {}, async (flow) => {
    await flow.step("charge", () => 1);
    return flow.step("mail", () => 2);
  });
  const patched = durable("f", {}, async (flow) => {
    if (flow.patched("fraud-check")) await flow.step("check", () => 0);
    await flow.step("charge", () => 1);
    return flow.step("mail", () => 2);
  });

  it("take the new path only where nothing was recorded", async () => {
    const { history } = await new FlowTest(old).run();
    expect((await new FlowTest(patched).recorded(history).run()).keys).toEqual(["charge#1", "mail#1"]);
    expect((await new FlowTest(patched).run()).keys).toEqual([
      "patched:fraud-check#1",
      "check#1",
      "charge#1",
      "mail#1",
    ]);
  });

  it("name the two operations that differ, and the line", async () => {
    const { history } = await new FlowTest(old).run();
    const renamed = durable("f", {}, async (flow) => flow.step("bill", () => 1));
    const error = (await new FlowTest(renamed)
      .recorded(history)
      .run()
      .catch((error: unknown) => error)) as Stop;
    expect(error.divergence).toMatchObject({
      branch: "",
      index: 0,
      recorded: { key: "charge#1" },
      actual: { key: "bill#1" },
    });
    expect(error.message).toMatch(/recorded `charge#1`, now `bill#1` \(test\/flow\.test\.ts:\d+\)/);
  });

  it("start over from a savepoint", async () => {
    const loop = durable("loop", {}, async (flow, pages: number) => {
      let page = flow.resumed<number>() ?? 0;
      for (let n = 0; n < 10; n++) {
        if (page === pages) return [page, flow.random("x") < 1];
        page = await flow.step("page", () => page + 1);
      }
      return flow.savepoint(page);
    });
    const ended = await new FlowTest(loop, 25).crash({ after: 12 }).run();
    expect(ended.output).toEqual([25, true]);
    expect(ended.keys.filter((key) => key.startsWith("savepoint"))).toEqual(["savepoint#11", "savepoint#22"]);
  });
});

describe("what a durable function must not do", () => {
  it("awaits something foreign", async () => {
    const told = await stopOf(async (flow) => {
      await flow.step("before", () => 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      return flow.step("after", () => 1);
    });
    expect(told).toContain("awaits something that is not an operation of `flow`");
    expect(told).toMatch(/Last operation: `before#1` \(test\/flow\.test\.ts:\d+\)/);
  });

  it("runs two operations at once", async () => {
    const told = await stopOf((flow) => Promise.all([flow.step("one", () => 1), flow.sleep({ seconds: 1 })]));
    expect(told).toMatch(/^`sleep` \(test\/flow\.test\.ts:\d+\) begins while `one` is not over/);
    expect(told).toContain("`flow.all` instead of `Promise.all`");
  });

  it("makes an operation and never awaits it", async () => {
    const told = await stopOf(async (flow) => {
      flow.step("forgotten", () => 1);
      return 1;
    });
    expect(told).toMatch(/`forgotten` \(test\/flow\.test\.ts:\d+\) was made and never awaited/);
  });

  it("returns while an operation is under way", async () => {
    const told = await stopOf(async (flow) => {
      void flow.sleep({ hours: 1 }).then(() => {});
      await Promise.resolve();
      await Promise.resolve();
      return 1;
    });
    expect(told).toContain("returned while `sleep` is not over");
  });

  it.each([
    ["a/b", (flow: Flow) => flow.step("a/b", () => 1)],
    ["sleep", (flow: Flow) => flow.step("sleep", () => 1)],
    ["é", (flow: Flow) => flow.signal("é")],
    ["x", (flow: Flow) => flow.step("x".repeat(120), () => 1)],
  ])("uses a bad name: %s", async (name, make) => {
    expect(await stopOf(async (flow) => make(flow))).toContain(`${name}`);
  });

  it("races a step, opens a branch twice, or makes a savepoint in a branch", async () => {
    const step = (flow: Flow) => flow.step("s", () => 1);
    expect(await stopOf(async (flow) => flow.any({ s: step(flow) as never }))).toContain(
      "`flow.any` does not take",
    );
    const twice = async (flow: Flow) =>
      flow.all([flow.branch("b", async (b) => step(b)), flow.branch("b", async (b) => step(b))]);
    expect(await stopOf(twice)).toContain("branch `b`");
    expect(await stopOf((flow) => flow.branch("b", async (b) => b.savepoint(1)).then())).toContain(
      "a savepoint in branch `b`",
    );
  });

  it("throws what is no failure: that is a bug, which another build may not have", async () => {
    const buggy = durable("f", {}, async () => {
      throw new TypeError("x is not a function");
    });
    await expect(new FlowTest(buggy).run()).rejects.toThrow(TypeError);
  });
});

it("a task is no durable function", () => {
  expect(() => new FlowTest(task("t", {}, () => 1))).toThrow("no durable function");
});

it("work that ends in another turn of the event loop resumes its function", async () => {
  const racing = durable("racing", {}, async (flow) => {
    let sum = 0;
    for (let n = 0; n < 20; n++)
      sum += await flow.step("s", () => new Promise<number>((resolve) => setImmediate(resolve, 1)));
    const [left, right] = await flow.all([
      flow.step("a", () => new Promise<number>((resolve) => setImmediate(resolve, 1))),
      flow.branch("b", async (inner) => {
        let last = 0;
        for (let n = 0; n < 20; n++)
          last = await inner.step("c", () => new Promise<number>((resolve) => setTimeout(resolve, 0, n)));
        return last;
      }),
    ]);
    return [sum, left, right];
  });
  expect((await new FlowTest(racing).run()).output).toEqual([20, 1, 19]);
});
