/** Every call of a client, beside a real server: none is missing for a route, and none asks for a route that is not there. */
import { readFileSync } from "node:fs";
import { Client, kind, plan, planStep, Refused, RunFailed, RunHandle, Unreachable } from "@tenure/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Calls } from "../dist/calls.js";
import { type Server, startServer } from "./server.ts";
import { startStub } from "./stub.ts";

const document = JSON.parse(
  readFileSync(new URL("../../../protocol/openapi.json", import.meta.url), "utf8"),
) as { paths: Record<string, Record<string, unknown>> };

/** `GET /v1/runs/{runId}`, of every route. */
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
);

/** What the threads of workers and handlers of pushes call, browsers read, or operators scrape. */
const NOT_FOR_CLIENTS = [
  "POST /v1/leases",
  "POST /v1/starts",
  "POST /v1/heartbeats",
  "POST /v1/checkpoints",
  "POST /v1/reports",
  "POST /v1/tasks/{taskId}/started",
  "POST /v1/tasks/{taskId}/heartbeat",
  "GET /v1/tasks/{taskId}/checkpoints",
  "POST /v1/tasks/{taskId}/checkpoints",
  "POST /v1/tasks/{taskId}/completed",
  "GET /errors/{page}",
  "GET /livez",
  "GET /metrics",
  "GET /openapi.json",
];

/** What is not there in a new store, or cannot be done now: the server knows each of these calls. */
const REFUSED = [
  "POST /v1/runs/{runId}/resume: not_diverged",
  "POST /v1/runs/{runId}/unpin: not_pinned",
  "GET /v1/effects/{effectId}: effect_not_found",
  "POST /v1/effects/{effectId}/redrive: effect_not_found",
  "POST /v1/effects/{effectId}/release: effect_not_found",
  "POST /v1/effects/{effectId}/reconcile: effect_not_found",
  "GET /v1/approvals/{approvalId}: approval_not_found",
  "POST /v1/approvals/{approvalId}/decide: approval_not_found",
  "GET /v1/recovery/candidates/{candidate}: recovery_not_found",
  "POST /v1/recovery/candidates/{candidate}/decide: recovery_not_found",
  "GET /v1/recovery/candidates/{candidate}/history: recovery_not_found",
  "POST /v1/deployments/{deployment}/events: invalid_argument",
  "POST /v1/deployments/{deployment}/pause-states/close: not_found",
  "POST /v1/deployments/{deployment}/roles/{role}/turns: role_not_found",
  "POST /v1/deployments/{deployment}/roles/{role}/turns/renew: role_not_found",
  "POST /v1/deployments/{deployment}/roles/{role}/turns/return: role_not_found",
  "POST /v1/deployments/{deployment}/roles/{role}/proposals: role_not_found",
  "POST /v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition: transition_not_allowed",
  "POST /v1/deployments/{deployment}/artifacts/{type}/{artifact}/approve: transition_not_allowed",
  "POST /v1/deployments/{deployment}/delete: deployment_conflict",
];

const echo = kind<unknown, unknown>("echo", { queue: "routes" });
/** A document that a program checks and a person lets pass. */
const topology = {
  topology: "t",
  about: "Each document is checked.",
  artifacts: {
    doc: {
      about: "A text.",
      schema: { type: "object", additionalProperties: false, properties: { title: { type: "string" } } },
      statuses: ["NEW", "CHECKED", "DONE", "RETURNED"],
      initial: "NEW",
      final: ["DONE"],
      transitions: [
        { from: "NEW", to: "CHECKED", by: "role:scheduler" },
        { from: "CHECKED", to: "DONE", by: "role:gate" },
        { from: "CHECKED", to: "RETURNED", by: "role:gate" },
        { from: "RETURNED", to: "NEW", by: "person" },
      ],
    },
  },
  events: { WANTED: { on: "transition", artifact: "doc", status: "NEW" } },
  workOrders: {
    check: {
      kind: "check",
      queue: "checkers",
      budget: { time: "10m" },
      instructions: "Check it.",
      gate: "review",
      attempts: 1,
    },
  },
  gates: {
    review: {
      checks: [{ name: "read", people: { ask: "Is it clear?", within: "7d" } }],
      pass: { to: "DONE", actions: ["Tell the readers."] },
      fail: { to: "RETURNED", actions: ["Read why."] },
    },
  },
  roles: {
    readiness: { uses: "readiness", emits: ["WANTED"] },
    scheduler: { uses: "scheduler", event: "WANTED", workOrder: "check", to: "CHECKED" },
    runner: { uses: "runner", workOrders: ["check"] },
    gate: { uses: "gate", workOrders: ["check"] },
  },
  limits: { executors: 1, cycles: 5 },
};
/** Of a turn that was never granted. */
const claim = { taskId: "task_01", leaseId: "lease_01", attempt: 1, fence: 1 };
const worker = { workerId: "w" };

let server: Server;
let client: Client;
/** `GET /v1/runs/run_1`, as it was asked. */
const asked: string[] = [];
const refused: string[] = [];

beforeAll(async () => {
  server = await startServer();
  client = server.client();
  const once = Calls.prototype.once;
  vi.spyOn(Calls.prototype, "once").mockImplementation(function (this: Calls, call) {
    asked.push(`${call.method} ${call.path.replace(/\?.*/, "")}`);
    return once.call(this, call);
  });
});

afterAll(async () => {
  vi.restoreAllMocks();
  await server.stop();
});

/** The first page of a list, or the answer. What is not there may be refused, under its own code. */
async function ask(call: Promise<unknown> | AsyncGenerator<unknown>): Promise<unknown> {
  try {
    return await ("next" in call ? call.next() : call);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const call = asked.at(-1) ?? "";
    refused.push(`${operations.find((operation) => fits(operation, call)) ?? call}: ${error.code}`);
    return undefined;
  }
}

function notSucceeded(error: unknown): void {
  if (!(error instanceof RunFailed)) throw error;
}

async function askRuns(): Promise<void> {
  const run = await client.submit(echo, 1);
  const planned = await client.submitPlan(plan([planStep("a", echo, 1)]));
  await ask(client.submitMany([]));
  await ask(client.runs());
  await ask(run.status());
  await ask(run.wait({ timeout: { milliseconds: 1 } }));
  await ask(run.signal("go"));
  await ask(run.steps());
  await ask(run.children());
  await ask(planned.plan());
  await ask(run.history());
  await ask(run.logs());
  await ask(run.explain());
  await ask(run.resume());
  await ask(run.unpin());
  await ask(run.cancel());
  await ask(planned.cancel({ now: true }));
  // Many that are waited for at once share a call.
  await Promise.all([run, planned, run, planned, run].map((run) => run.result().catch(notSucceeded)));
  await ask(run.record());
  await ask(run.retry());
  await ask(run.fork());
  await ask(client.version());
  await ask(client.ready());
  await ask(client.session());
  await ask(client.consoleCode());
}

async function askNamed(): Promise<void> {
  const { schedules, endpoints, effects, approvals, queues, budgets, limits, keys, recovery } = client;
  await ask(schedules.create("s", { cron: "0 3 * * *" }, echo, 1));
  await ask(schedules.list());
  await ask(schedules.get("s"));
  await ask(schedules.update("s", { cron: "0 4 * * *" }));
  await ask(schedules.pause("s"));
  await ask(schedules.resume("s"));
  await ask(schedules.trigger("s"));
  await ask(schedules.preview("s"));
  await ask(schedules.history("s"));
  await ask(schedules.backfill("s", new Date("2026-01-01"), new Date("2026-01-02")));
  await ask(schedules.delete("s"));
  await ask(endpoints.create("e", "http://127.0.0.1:9/", { queues: ["pushed"] }));
  await ask(endpoints.list());
  await ask(endpoints.get("e"));
  await ask(endpoints.update("e", { concurrency: 2 }));
  await ask(endpoints.pause("e"));
  await ask(endpoints.resume("e"));
  await ask(endpoints.rotate("e"));
  await ask(endpoints.delete("e"));
  await ask(effects.list());
  await ask(effects.get("eff_01"));
  await ask(effects.redrive("eff_01"));
  await ask(effects.redriveAll());
  await ask(effects.release("eff_01"));
  await ask(effects.reconcile("eff_01", { arrived: true }));
  await ask(approvals.list());
  await ask(approvals.get("appr_01"));
  await ask(approvals.decide("appr_01", "APPROVED"));
  await ask(queues.list());
  await ask(queues.pause("routes"));
  await ask(queues.resume("routes"));
  await ask(budgets.list());
  await ask(budgets.set({ tokens: 1_000_000 }));
  await ask(limits.list());
  await ask(limits.set({ tenantId: "default", unfinishedRuns: 10_000 }));
  await ask(client.workers.list());
  await ask(client.kinds.list());
  await ask(client.flowKeys.list());
  await ask(client.setAside.get());
  await ask(client.audit.list());
  await ask(client.audit.verify());
  await ask(keys.list());
  const made = await keys.create({ name: "k", roles: ["worker"] });
  await ask(keys.rotate(made.key.keyId));
  await ask(keys.delete(made.key.keyId));
  await ask(keys.rotateSigning());
  await ask(recovery.list());
  await ask(recovery.get("cand_01"));
  await ask(recovery.decide("cand_01", "retry"));
  await ask(recovery.history("cand_01"));
  await ask(recovery.policies());
  await ask(recovery.setPolicy("p", { kind: "echo" }));
  await ask(recovery.deletePolicy("p"));
}

async function askDeployments(): Promise<void> {
  const { deployments, artifacts } = client;
  await ask(deployments.plan("t", topology));
  await ask(deployments.apply("t", topology));
  await ask(deployments.list());
  await ask(deployments.get("t"));
  await ask(deployments.pause("t"));
  await ask(deployments.resume("t"));
  await ask(deployments.requestEvent("t", "WANTED", "doc/a"));
  await ask(deployments.claims("t"));
  await ask(deployments.workOrders("t"));
  await ask(deployments.pauseStates("t"));
  await ask(deployments.closePauseState("t", "pause_01"));
  await ask(deployments.takeTurns("t", "editor", worker));
  await ask(deployments.renewTurn("t", "editor", claim, "w"));
  await ask(deployments.returnTurn("t", "editor", claim, "busy", "w"));
  await ask(deployments.propose("t", "editor", { decision: "PASS" }, { ...worker, claim }));
  await ask(artifacts.create("t", "doc", "a", {}));
  await ask(artifacts.list("t", "doc"));
  await ask(artifacts.get("t", "doc", "a"));
  await ask(artifacts.move("t", "doc", "a", "DONE"));
  await ask(artifacts.approve("t", "doc", "a", "DONE"));
  await ask(deployments.delete("t"));
}

/** Public methods, by the object that has them, that were never called. */
function uncalled(spies: Map<string, { mock: { calls: unknown[] } }>): string[] {
  return [...spies].filter(([, spy]) => spy.mock.calls.length === 0).map(([name]) => name);
}

function spied(owner: string, target: object): Array<[string, { mock: { calls: unknown[] } }]> {
  const prototype = Object.getPrototypeOf(target) as Record<string, () => unknown>;
  return Object.getOwnPropertyNames(prototype)
    .filter(
      (name) =>
        name !== "constructor" &&
        typeof Object.getOwnPropertyDescriptor(prototype, name)?.value === "function",
    )
    .map((name) => [`${owner}.${name}`, vi.spyOn(prototype, name)]);
}

/** Whether a path is that of a template of the document. */
function fits(template: string, path: string): boolean {
  return new RegExp(`^${template.replace(/\{[^}]+\}/g, "[^/]+")}$`).test(path);
}

describe("the calls of a client", () => {
  it("are made for every method, and every route has one", async () => {
    const resources = Object.entries(client).filter(
      ([, value]) => typeof value === "object" && value !== null && "base" in value,
    );
    const spies = new Map([
      ...resources.flatMap(([name, resource]) => spied(name, resource as object)),
      ...spied("run", new RunHandle({} as never, "run_1")),
      ...spied("client", client),
    ]);
    client.run("run_1");
    await askRuns();
    await askNamed();
    await askDeployments();
    const closed = new Client({ url: server.url, apiKey: server.apiKey });
    await closed[Symbol.asyncDispose]();

    expect(uncalled(spies)).toEqual([]);
    const reached = (operation: string) => asked.some((call) => fits(operation, call));
    const missing = operations.filter((operation) => !reached(operation));
    expect(missing.sort()).toEqual([...NOT_FOR_CLIENTS].sort());
    const unknown = asked.filter((call) => !operations.some((operation) => fits(operation, call)));
    expect(unknown).toEqual([]);
  });

  it("are understood: only what is not there, or cannot be done now, is refused", () => {
    expect(refused).toEqual(REFUSED);
  });
});

describe("a call that makes something each time", () => {
  it("is tried once, although its answer may be lost", async () => {
    const stub = await startStub(() => ({ drop: "before" }));
    const dropped = new Client({ url: stub.url, apiKey: "k" });
    await expect(dropped.deployments.takeTurns("t", "editor", worker)).rejects.toBeInstanceOf(Unreachable);
    await expect(dropped.keys.rotateSigning()).rejects.toBeInstanceOf(Unreachable);
    expect(stub.asked.length).toBe(2);
    await stub.close();
  });
});

it("the turns of a role are taken, kept, returned and decided", async () => {
  const stub = await startStub(() => ({ body: { turns: [], versions: [] } }));
  const { deployments } = new Client({ url: stub.url, apiKey: "k" });
  await deployments.takeTurns("t", "editor", { ...worker, max: 2, wait: { seconds: 3 }, known: ["v1"] });
  await deployments.renewTurn("t", "editor", claim, "w");
  await deployments.returnTurn("t", "editor", claim, "busy", "w");
  await deployments.propose("t", "editor", null, { ...worker, claim });
  const told = stub.asked.map(({ path, body }) => [
    path.replace("/v1/deployments/t/roles/editor/", ""),
    body,
  ]);
  expect(told).toEqual([
    ["turns", { workerId: "w", max: 2, waitMs: 3_000, known: ["v1"] }],
    ["turns/renew", { claim, workerId: "w" }],
    ["turns/return", { claim, reason: "busy", workerId: "w" }],
    ["proposals", { decision: null, workerId: "w", claim }],
  ]);
  await stub.close();
});
