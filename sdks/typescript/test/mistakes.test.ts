/** What programs without a type checker get wrong: each is told where it is written, with what to write instead. */
import * as sdk from "@tenure/sdk";
import { Setup } from "@tenure/sdk";
import { describe, expect, it } from "vitest";
import * as pushing from "../dist/push.js";

// As JavaScript sees it.
const { Client, durable, Failure, FlowTest, kind, newRun, plan, planStep, runInline, task, Worker } =
  sdk as unknown as Record<string, any>;
const { push } = pushing as unknown as Record<string, any>;
const client = new Client({ url: "http://127.0.0.1:9", apiKey: "k", retries: 0 });
const greet = task("greet", { queue: "mail" }, async (name: string) => `Hello, ${name}!`);
const remote = kind("remote");
const url = "https://example.com/work";

async function told(make: () => unknown): Promise<string> {
  try {
    await make();
  } catch (error) {
    expect(error).toBeInstanceOf(Setup);
    return (error as Setup).message;
  }
  throw new Error("nothing was told");
}

type Mistake = [string, (flow: any) => unknown, string];

const definitions: Mistake[] = [
  [
    "no options",
    () => task("greet", async () => 1),
    'write task("greet", { queue: "mail" }, async (input, ctx)',
  ],
  ["no function", () => task("greet", { queue: "mail" }), 'or `kind("greet")` if its code is elsewhere'],
  ["no function of a durable", () => durable("order", {}), "durable `order` has no function"],
  [
    "a result in place of a function",
    () => task("greet", {}, Promise.resolve(1)),
    "the code of task `greet` is a promise",
  ],
  ["a generator", () => durable("order", {}, function* () {}), "is a generator"],
  ["a kind that is no text", () => task(7, {}, () => 1), "the kind is 7"],
  ["a kind with spaces", () => kind("send mail"), "use letters, digits"],
  ["a misspelt option", () => task("greet", { quue: "mail" }, () => 1), "did you mean `queue`?"],
  [
    "an option in another case",
    () => task("greet", { maxattempts: 1 }, () => 1),
    "did you mean `maxAttempts`?",
  ],
  [
    "a word of another system",
    () => task("greet", { attempts: 5 }, () => 1),
    "pass `maxAttempts`, and `retry",
  ],
  [
    "a word that is like none",
    () => task("greet", { colour: "red" }, () => 1),
    "use one of queue, ttl, priority",
  ],
  ["a queue that is a number", () => task("greet", { queue: 7 }, () => 1), "`queue` is 7 (pass a text)"],
  [
    "a number for a span",
    () => task("greet", { lease: 30 }, () => 1),
    "pass a span with its unit, such as { seconds: 30 }",
  ],
  [
    "a unit that is none",
    () => task("greet", { lease: { secs: 30 } }, () => 1),
    "`lease` is an object (pass a span",
  ],
  [
    "attempts as `retry`",
    () => task("greet", { retry: 5 }, () => 1),
    "the number of attempts as `maxAttempts`",
  ],
  [
    "an option inside of an option",
    () => task("greet", { budget: { token: 5 } }, () => 1),
    "did you mean `tokens`?",
  ],
  [
    "a key that is no object",
    () => task("greet", { flowKey: "c-7" }, () => 1),
    'such as { key: "customer-7"',
  ],
  [
    "an option of a run",
    () => task("greet", { delay: { seconds: 1 } }, () => 1),
    "pass it to `submit` or `call`",
  ],
  [
    "what is no schema",
    () => task("greet", { input: { name: "string" } }, () => 1),
    "implements Standard Schema",
  ],
  [
    "a durable that is isolated",
    () => durable("order", { isolate: true }, async () => 1),
    "let one call a task",
  ],
  ["a task with builds", () => task("greet", { builds: "pin" }, () => 1), "define it with `durable`"],
  ["a category that is none", () => new Failure("OOPS", "no"), "is no category of failures"],
];

const submissions: Mistake[] = [
  ["a function", () => client.submit(async () => 1, 1), "a function is no task (pass what `task()`"],
  ["nothing", () => client.submit(undefined, 1), "a module that is imported in a circle has not made it yet"],
  [
    "a misspelt option",
    () => client.submit(greet, "Ada", { idempotencykey: "k" }),
    "did you mean `idempotencyKey`?",
  ],
  ["a number for a span", () => client.submit(greet, "Ada", { delay: 60 }), "`delay` is 60"],
  [
    "a date that is none",
    () => client.submit(greet, "Ada", { runAt: new Date("soon") }),
    "pass a valid Date",
  ],
  ["a text for a date", () => client.submit(greet, "Ada", { runAt: "2026-01-01" }), "pass a valid Date"],
  ["a label that is no text", () => client.submit(greet, "Ada", { labels: { n: 7 } }), "an object of texts"],
  [
    "options that are no object",
    () => client.submit(greet, "Ada", 60),
    "the options of a run of `greet` are 60",
  ],
  ["tasks in place of runs", () => client.submitMany([greet]), "what `newRun("],
  ["a run in place of many", () => client.submitMany(newRun(greet, "Ada")), "pass an array"],
  ["a run of nothing", () => newRun(undefined, 1), "undefined is no task"],
  [
    "steps in place of a plan",
    () => client.submitPlan([planStep("a", greet)]),
    "pass what `plan([planStep(…)])`",
  ],
  ["an option of a step", () => plan([planStep("a", greet, 1, { after: ["b"] })]), "use one of dependsOn"],
  [
    "a schedule of nothing",
    () => client.schedules.create("n", { cron: "* * * * *" }, undefined, 1),
    "is no task",
  ],
  ["a bare timeout", () => client.run("run_1").result(30), "the options of the wait are 30"],
  ["a timeout without a unit", () => client.run("run_1").result({ timeout: 30 }), "`timeout` is 30"],
  [
    "a reason that is no option",
    () => client.run("run_1").cancel("too late"),
    'the options of cancel are "too late"',
  ],
  ["a filter that is none", () => client.runs({ status: "failed" }).next(), "pass `state`"],
];

const processes: Mistake[] = [
  ["a list of tasks", () => new Worker([greet]), "write `new Worker({ tasks: [greet] })`"],
  ["one task", () => new Worker(greet), "a worker was given a task"],
  ["nothing", () => new Worker(), "a worker was given undefined"],
  ["one task as `tasks`", () => new Worker({ tasks: greet }), "the tasks of a worker are one task"],
  ["a module as `tasks`", () => new Worker({ tasks: { greet } }), "pass an array: `Object.values(tasks)`"],
  ["a function", () => new Worker({ tasks: [async () => 1] }), "a function is no task"],
  ["a task that is not there", () => new Worker({ tasks: [undefined] }), "imported in a circle"],
  ["a kind without code", () => new Worker({ tasks: [remote] }), "`remote` has no code"],
  ["the same kind twice", () => new Worker({ tasks: [greet, greet] }), "two tasks of kind `greet`"],
  ["its queues", () => new Worker({ tasks: [greet], queues: ["mail"] }), "give each task its `queue`"],
  [
    "an address",
    () => new Worker({ tasks: [greet], url: "http://localhost" }),
    "pass `client: new Client({ url })`",
  ],
  [
    "settings in place of a client",
    () => new Worker({ tasks: [greet], client: {} }),
    "what `new Client()` returned",
  ],
  ["too many slots", () => new Worker({ tasks: [greet], concurrency: 5_000 }), "from 1 to 1000"],
  ["a bare timeout", () => new Worker({ tasks: [greet], shutdownTimeout: 30 }), "`shutdownTimeout` is 30"],
  [
    "an address that is no option",
    () => new Client("http://localhost"),
    'the options of a client are "http://localhost"',
  ],
  ["a misspelt key", () => new Client({ apikey: "k" }), "did you mean `apiKey`?"],
  ["a push without tasks", () => push({ url }), "write `push({ tasks: [greet], url })`"],
  ["a push of nothing", () => push({ tasks: [undefined], url }), "undefined is no task"],
  [
    "a push without its address",
    () => push({ tasks: [greet], secret: "whsec_" }),
    "exactly as it was registered",
  ],
];

const flows: Mistake[] = [
  [
    "a promise as work",
    (flow) => flow.step("charge", Promise.resolve(1)),
    "a promise, whose work has begun already",
  ],
  ["no work", (flow) => flow.step("charge"), 'pass a function, which is called once: `flow.step("charge"'],
  ["no name", (flow) => flow.step(() => 1), "pass a name first"],
  [
    "an option of tasks",
    (flow) => flow.step("charge", () => 1, { maxAttempts: 5 }),
    "pass `retry`: a number of tries",
  ],
  ["a bare timeout", (flow) => flow.step("charge", () => 1, { timeout: 30 }), "`timeout` is 30"],
  ["a bare sleep", (flow) => flow.sleep(5), "flow.sleep was given 5 as its span"],
  ["a sleep without a span", (flow) => flow.sleep("a-while"), "flow.sleep was given undefined as its span"],
  ["a sleep of words", (flow) => flow.sleep("a-while", "5m"), 'flow.sleep was given "5m" as its span'],
  ["a limit in place of a schema", (flow) => flow.signal("go", { days: 7 }), "`.within({ days: 7 })`"],
  ["a misspelt quorum", (flow) => flow.approval("ship", { quorom: 2 }), "did you mean `quorum`?"],
  ["an effect of nothing", (flow) => flow.effect("tell", { endpoint: "crm" }), "has no endpoint or no type"],
  ["a call of a function", (flow) => flow.call(async () => 1, 1), "belongs into `flow.step`"],
  ["a call by name", (flow) => flow.call("pack", 1), '`kind("pack", { queue: "…" })`'],
  ["a map of one", (flow) => flow.map(remote, "lamp"), 'flow.map was given "lamp" as its items'],
  ["a map with another word", (flow) => flow.map(remote, [1], { concurrency: 3 }), "pass `max`"],
  [
    "a branch that has begun",
    (flow) => flow.branch("b", Promise.resolve(1)),
    "the code of branch `b` is a promise",
  ],
  ["members without an array", (flow) => flow.all(flow.step("a", () => 1)), "pass an array: `flow.all([…])`"],
  ["promises as members", (flow) => flow.all([Promise.resolve(1)]), "flow.all: `[0]` is a promise"],
  ["a race without names", (flow) => flow.any([flow.sleep({ days: 1 })]), "give each a name"],
];

describe("a definition with", () => {
  it.each(definitions)("%s", async (_, make, message) =>
    expect(await told(() => make(undefined))).toContain(message),
  );
});

describe("a client that is given", () => {
  it.each(submissions)("%s", async (_, make, message) =>
    expect(await told(() => make(undefined))).toContain(message),
  );
});

describe("a worker, client or handler that is given", () => {
  it.each(processes)("%s", async (_, make, message) =>
    expect(await told(() => make(undefined))).toContain(message),
  );
});

describe("a durable function with", () => {
  it.each(flows)("%s", async (_, code, message) => {
    const wrong = durable("wrong", {}, async (flow: any) => {
      await code(flow);
    });
    expect(await told(() => new FlowTest(wrong).run())).toContain(message);
  });
});

it("a durable function is no task, and a task is no durable function", async () => {
  const order = durable("order", {}, async () => 1);
  await expect(runInline(order)).rejects.toThrow("use FlowTest for durable functions");
  expect(() => new FlowTest(greet)).toThrow("`greet` is no durable function with code");
});
