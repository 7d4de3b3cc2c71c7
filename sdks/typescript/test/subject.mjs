// The subject of `tenure conform` for this SDK: the agreed kinds, and a client that is told what to call.
// It uses the public surface only.
import { createServer, request } from "node:http";
import { createInterface } from "node:readline";
import { CallFailed, Client, durable, Failure, kind, newRun, TenureError, task, Worker } from "@tenure/sdk";
import { push, toNode } from "@tenure/sdk/push";
import { RecentIds, Verifier, VerifyError } from "@tenure/sdk/webhooks";

const settings = JSON.parse(process.env.TENURE_CONFORM);
const queue = "conform";
const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

// A schema of the Standard Schema interface, small enough to be loaded for every case.
function issues(type, value, path) {
  if (Array.isArray(type))
    return Array.isArray(value)
      ? value.flatMap((item, n) => issues(type[0], item, [...path, n]))
      : [{ message: "expected an array", path }];
  if (typeof type !== "string") return type.issues(value, path);
  if (type.endsWith("?") && value === undefined) return [];
  const name = type.replace("?", "");
  return typeof value === name ? [] : [{ message: `expected a ${name}`, path }];
}
const object = (members) => {
  const found = (value, path) =>
    typeof value === "object" && value !== null
      ? Object.entries(members).flatMap(([name, type]) => issues(type, value[name], [...path, name]))
      : [{ message: "expected an object", path }];
  const validate = (value) => {
    const issues = found(value, []);
    return issues.length > 0 ? { issues } : { value };
  };
  return { issues: found, "~standard": { version: 1, vendor: "subject", validate } };
};

// Marks: user code says what it does, with a plain HTTP call that is no part of the SDK.
function send(said) {
  const [url] = process.env.TENURE_URL.split(",");
  const body = JSON.stringify({ ...said, at: Date.now() });
  return new Promise((resolve) => {
    const call = request(`${url}/conform/mark`, {
      method: "POST",
      headers: { "content-type": "application/json" },
    });
    call.on("error", resolve);
    call.on("response", (response) => response.resume().on("close", resolve));
    call.end(body);
  });
}
const mark = (ctx, mark) => send({ task: ctx.taskId, mark, attempt: ctx.attempt, fence: ctx.fence });
const markStep = (step, mark) =>
  send({ task: step.idempotencyKey.split("/")[0], mark, attempt: step.fence, fence: step.fence });

// Tasks.

async function runSlow(ctx, ms) {
  await mark(ctx, "began");
  const until = performance.now() + ms;
  while (performance.now() < until && !ctx.cancelled)
    await sleep(Math.min(50, until - performance.now()), ctx.signal);
  if (ctx.cancelled) {
    await mark(ctx, "stopped");
    throw Failure.cancelled("stopped as requested", { phase: "waiting" });
  }
  await mark(ctx, "done");
  return ms;
}

const failures = {
  DATA_QUALITY: Failure.data,
  CONFIGURATION: Failure.config,
  TIMEOUT: Failure.timeout,
  PERMANENT: Failure.permanent,
  HAND_BACK: Failure.handBack,
  INFRASTRUCTURE: Failure.infra,
  CANCELLED: Failure.cancelled,
};

const tasks = [
  task("echo", { queue }, async (input, ctx) => {
    await mark(ctx, "began");
    return input;
  }),
  task(
    "fail",
    {
      queue,
      input: object({ category: "string", message: "string", retryable: "boolean?", crash: "boolean?" }),
    },
    async ({ category, message, retryable, crash }, ctx) => {
      await mark(ctx, "began");
      if (crash) process.kill(process.pid, "SIGKILL");
      if (category === "USER_CODE")
        throw retryable === undefined ? new Error(message) : new Failure(category, message, { retryable });
      throw failures[category](message, retryable === undefined ? {} : { retryable });
    },
  ),
  task("slow", { queue, input: object({ ms: "number" }) }, ({ ms }, ctx) => runSlow(ctx, ms)),
  task("ignore-cancel", { queue }, async ({ ms }, ctx) => {
    await mark(ctx, "began");
    await sleep(ms);
    await mark(ctx, "done");
    return ms;
  }),
  task("block", { queue }, async ({ ms, how }, ctx) => {
    await mark(ctx, "began");
    const until = performance.now() + ms;
    if (how === "gil")
      for (const text = `${"a".repeat(20)}b`; performance.now() < until; ) /^(a+)+$/.test(text);
    else while (performance.now() < until);
    await mark(ctx, "done");
    return ms;
  }),
  task("progress", { queue }, async ({ n, everyMs }, ctx) => {
    await mark(ctx, "began");
    for (let i = 0; i < n; i++) {
      ctx.progress((100 * i) / n, `${i} of ${n}`);
      await sleep(everyMs);
    }
    return n;
  }),
  task("spend", { queue }, async ({ n, everyMs }, ctx) => {
    for (let i = 0; i < n; i++) {
      ctx.spend({ tokens: 100 });
      await sleep(everyMs);
    }
    return n;
  }),
  task("logger", { queue }, async ({ n, everyMs }, ctx) => {
    for (let i = 1; i <= n; i++) {
      ctx.log.info(`line ${i}`);
      await sleep(everyMs);
    }
    return n;
  }),
  task("stage", { queue }, async (input, ctx) => [ctx.stage, input]),
  task("isolated", { queue, isolate: true }, async ({ ms, crash }, ctx) => {
    await send({ task: ctx.taskId, mark: "pid", attempt: ctx.attempt, fence: ctx.fence, pid: process.pid });
    if (crash) process.kill(process.pid, "SIGKILL");
    return runSlow(ctx, ms);
  }),
  task("big", { queue }, async ({ bytes }) => (bytes === undefined ? Number.NaN : "x".repeat(bytes))),
  task("submitter", { queue }, async (_, ctx) => {
    const run = await ctx.client.submit("echo", {}, { queue, idempotencyKey: ctx.runId });
    return run.id;
  }),
];

// Durable functions.

const pack = kind("pack", { queue });
const square = kind("square", { queue });

async function versions(flow, { code, value = null }) {
  const step = (name, result) => flow.step(name, () => result, { input: 1 });
  switch (code) {
    case "v1":
      return [await step("a", value), await step("b", 2)];
    case "v2": {
      const a = await step("a", value);
      const name = flow.patched("c-for-b") ? "c" : "b";
      return [a, await step(name, name)];
    }
    case "renamed":
      return step("z", 1);
    case "other-input":
      return flow.step("a", () => 1, { input: 2 });
    case "shorter":
      return step("a", 1);
    case "foreign-await": {
      const a = await step("a", 1);
      await sleep(50);
      return [a, await step("b", 2)];
    }
    case "two-at-once":
      return Promise.all([step("a", 1), step("b", 2)]);
    case "not-awaited":
      flow.step("a", () => 1);
      return "done";
    case "bug":
      throw new TypeError("a bug in the function");
    case "failure":
      throw Failure.permanent("it cannot be done");
    default:
      throw Failure.permanent(`no code is called ${code}`);
  }
}

const durables = [
  durable("order", { queue }, async (flow, { cents, items = [], fails = 0, chargeMs = 0, timeoutMs }) => {
    const charge = async (step) => {
      await markStep(step, "charge");
      await sleep(chargeMs, step.signal);
      if (step.number <= fails) throw Failure.infra("the bank is closed");
      return `receipt-${cents}`;
    };
    const limit = timeoutMs === undefined ? {} : { timeout: { milliseconds: timeoutMs } };
    const receipt = await flow.step("charge", charge, {
      input: cents,
      retry: { tries: 3, base: { milliseconds: 100 } },
      ...limit,
    });
    await flow.sleep("cool-off", { milliseconds: 300 });
    const approved = await flow.signal("approve").within({ days: 7 });
    const packed = approved
      ? (await flow.all(items.map((item) => flow.call(pack, item)))).join(", ")
      : await flow.step("refund", () => "refunded");
    await flow.step("mail", (step) => markStep(step, "mail").then(() => null));
    return { receipt, packed };
  }),
  durable("sleeper", { queue }, async (flow) => {
    await flow.sleep({ hours: 1 });
    return flow.now();
  }),
  durable("signaller", { queue }, async (flow) => {
    const [first, second] = [await flow.signal("go"), await flow.signal("go")];
    return [first, second, (await flow.signal("go").within({ seconds: 1 })) ?? null];
  }),
  durable("children", { queue }, async (flow, input) => {
    if (!Array.isArray(input)) {
      await flow.call(square, input.detached).detach();
      return "detached";
    }
    const ends = await flow.map(square, input, { max: 2 }).settled();
    return ends.map((end) => {
      if (end.status === "fulfilled") return end.value;
      if (end.reason instanceof CallFailed) return { failed: end.reason.message };
      throw end.reason;
    });
  }),
  durable("parallel", { queue }, async (flow, { slowMs = 0, wide = false }) => {
    const slow = async (step) => {
      await markStep(step, "slow");
      await sleep(slowMs);
      return 3;
    };
    const [left, right] = await flow.all([
      flow.branch("left", async (flow) => (await flow.step("a", () => 1)) + (await flow.step("b", () => 2))),
      flow.branch("right", (flow) => flow.step("a", slow)),
      ...(wide ? [flow.branch("third", (flow) => flow.step("a", slow))] : []),
    ]);
    const won = [];
    for (let n = 0; n < 2; n++) {
      won.push((await flow.any({ go: flow.signal("go"), late: flow.sleep({ milliseconds: 300 }) })).winner);
    }
    return { left, right, won };
  }),
  durable("budgeted", { queue }, async (flow) => {
    const left = [];
    const think = async (step) => {
      await markStep(step, "think");
      step.spend({ tokens: 400 });
      return step.left?.tokens ?? null;
    };
    for (let n = 0; n < 5; n++) left.push(await flow.step("think", think));
    return left;
  }),
  durable("approval", { queue }, async (flow, input) => {
    const options = { about: input, quorum: 2, within: { days: 1 }, default: "REJECTED" };
    const { outcome, reason } = await flow.approval("pay", options);
    return { outcome, reason: reason ?? null };
  }),
  durable("effects", { queue }, async (flow, input) => {
    const told = { endpoint: "crm", type: "order.paid", body: input, aggregate: "o-7" };
    const { outcome, delivered } = await flow.effect("tell", told).delivered();
    if (!delivered) await flow.step("letter", (step) => markStep(step, "letter").then(() => null));
    return outcome;
  }),
  durable("looper", { queue }, async (flow) => {
    const state = flow.resumed() ?? { steps: 0, draws: [] };
    for (;;) {
      const { steps } = state;
      state.steps = await flow.step("count", () => steps + 1);
      if (state.steps < 25 && state.steps % 10 !== 0) continue;
      state.draws.push([flow.random("x"), flow.uuid("y")]);
      if (state.steps >= 25) return state;
      await flow.savepoint(state);
    }
  }),
  durable("versions", { queue }, versions),
];

// The client role: one JSON object per line on stdin, one answer per line on stdout.

const order = object({ id: "string", items: [object({ cents: "number" })] });
const recent = new Map();

function verify({ secrets, headers, body }) {
  const event = new Verifier(secrets).verify(headers, body);
  const ids = recent.get(secrets[0]) ?? new RecentIds();
  recent.set(secrets[0], ids);
  return { id: event.id, type: event.type, data: event.data, repeated: !ids.note(event.id) };
}

async function servePush(client, { secret, url }) {
  const { concurrency } = settings;
  const handler = push({
    tasks: [...tasks, ...durables],
    secret,
    url,
    name: "subject",
    client,
    ...(concurrency ? { concurrency } : {}),
  });
  const server = createServer(toNode(handler));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: server.address().port };
}

const perform = {
  submit: async (client, { kind, input, queue, idempotencyKey }) => {
    const run = await client.submit(kind, input, { queue, ...(idempotencyKey ? { idempotencyKey } : {}) });
    return { runId: run.id, replayed: run.replayed };
  },
  many: async (client, { runs }) => {
    const results = await client.submitMany(
      runs.map(({ kind, input, queue }) => newRun(kind, input, { queue })),
    );
    return results.map(({ handle, error }) => (handle ? { runId: handle.id } : { error: told(error) }));
  },
  result: (client, { runId, timeoutMs, as }) =>
    client.run(runId).result({
      ...(timeoutMs === undefined ? {} : { timeout: { milliseconds: timeoutMs } }),
      ...(as === "order" ? { schema: order } : {}),
    }),
  cancel: (client, { runId, reason }) =>
    client
      .run(runId)
      .cancel({ reason })
      .then(() => null),
  signal: (client, { runId, name, payload }) =>
    client
      .run(runId)
      .signal(name, payload)
      .then(() => null),
  retry: async (client, { runId }) => ({ runId: (await client.run(runId).retry()).id }),
  fork: async (client, { runId }) => ({ runId: (await client.run(runId).fork()).id }),
  runs: async (client, { take = Number.POSITIVE_INFINITY }) => {
    const ids = [];
    for await (const run of client.runs({ queue })) {
      ids.push(run.runId);
      if (ids.length >= take) break;
    }
    return ids;
  },
  schedule: async (client, { name, cron, kind, input }) =>
    (await client.schedules.create(name, { cron }, kind, input, { queue })).name,
  verify: (_, call) => verify(call),
  push: servePush,
};

function told(error) {
  if (!(error instanceof TenureError))
    return { class: error.name, code: null, retryable: false, message: error.message };
  const { code, retryable, field = null, message, state, reason, category, attempt } = error;
  const name = error instanceof VerifyError ? "Verification" : error.name;
  return { class: name, code, retryable, field, message, state, reason, category, attempt };
}

async function serveClient() {
  const client = new Client();
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  process.on("SIGTERM", () => process.exit(0));
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, do: what, ...call } = JSON.parse(line);
    Promise.resolve()
      .then(() => perform[what](client, call))
      .then(
        (ok) => say({ id, ok }),
        (error) => say({ id, error: told(error) }),
      );
  }
}

if (settings.role === "client") {
  await serveClient();
} else {
  const { concurrency, shutdownTimeoutMs } = settings;
  const worker = new Worker({
    tasks: [...tasks, ...durables],
    name: `subject-${process.pid}`,
    ...(concurrency ? { concurrency } : {}),
    ...(shutdownTimeoutMs === undefined ? {} : { shutdownTimeout: { milliseconds: shutdownTimeoutMs } }),
  });
  await worker.run();
}
