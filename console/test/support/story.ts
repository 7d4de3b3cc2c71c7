// A day in the life of a small company, played by workers over HTTP: a takeover with a late report, an approval that two people
// answer, a child, a halt at a budget, failures, a queue that no worker serves, two topologies, limits. The pictures of the console are made from it.
//
// Nothing waits for a time to pass, except while pictures are made (CONSOLE_PICTURES): there work takes as long as it would.

import { createHash } from "node:crypto";
import { receive } from "./receiver.js";
import { type Server, type Task, Worker } from "./server.js";

export const IS_FOR_PICTURES = Boolean(process.env["CONSOLE_PICTURES"]);

const works = (ms: number): Promise<void> | undefined =>
  IS_FOR_PICTURES ? new Promise((resolve) => setTimeout(resolve, ms)) : undefined;

const INVOICE = {
  supplier: "Acme GmbH, Berlin",
  invoice: "2026-1187",
  order: "4711",
  net: "2,084.03 EUR",
  vat: "395.97 EUR",
  amount: "2,480.00 EUR",
  iban: "DE89 3704 0044 0532 0130 00",
  ibanKnownSince: "2024-03-02",
};

/** What the approvals ask about: the SHA-256 of the canonical input, as any tool computes it. */
const DIGEST = createHash("sha256")
  .update(JSON.stringify(Object.fromEntries(Object.entries(INVOICE).sort(([a], [b]) => (a < b ? -1 : 1)))))
  .digest("hex");

const step = (key: string, result: unknown, tokens = 0) => ({
  key,
  outcome: "SUCCEEDED",
  result,
  ...(tokens > 0 ? { spend: { tokens } } : {}),
});

export interface Told {
  invoice: string;
  pending: string;
  halted: string;
  /** An effect that its receiver refuses. */
  effect: string;
}

/** alice goes silent, bob takes over, alice reports too late, two people approve, the run ends. */
async function invoice(server: Server, approvers: string[]): Promise<string> {
  const [alice, bob, carol] = ["alice", "bob", "carol"].map((name) => new Worker(server, name)) as [
    Worker,
    Worker,
    Worker,
  ];
  const run = await server.submit("invoice.process", "invoices", {
    input: INVOICE,
    leaseMs: 6000,
    heartbeatIntervalMs: 1000,
    labels: { customer: "acme-gmbh" },
    budget: { tokens: 50_000 },
  });
  const first = await alice.lease("invoices");
  await alice.must(first, "started");
  await works(1200);
  await alice.must(first, "checkpoints", { steps: [step("extract", { fields: 8 }, 12_000)] });
  await works(700);
  await alice.must(first, "heartbeat", { progressPct: 40 });
  const second = await bob.lease("invoices");
  await bob.must(second, "started");
  await works(900);
  const late = await alice.tell(first, "completed", { outcome: "SUCCEEDED", output: { by: "alice" } });
  if (late.ok) throw new Error("a late report was accepted");
  await bob.must(second, "checkpoints", { steps: [step("check", { matches: true }, 8000)] });
  await works(400);
  await bob.must(second, "checkpoints", {
    children: [{ key: "render", kind: "invoice.render", queue: "render", input: {} }],
  });
  const child = await carol.lease("render");
  await bob.must(second, "checkpoints", {
    wait: {
      key: "wait:approval:pay",
      mode: "all",
      for: [
        {
          key: "approval:pay",
          approval: {
            subject: "Pay 2,480.00 EUR to Acme",
            quorum: 2,
            roles: ["approver"],
            digest: DIGEST,
          },
        },
      ],
    },
  });
  await carol.must(child, "started");
  await works(800);
  await carol.must(child, "completed", { outcome: "SUCCEEDED", output: { pages: 2 } });
  const approval = `appr_${run.replace("run_", "")}-1`;
  await works(9000);
  for (const [i, key] of approvers.entries()) {
    await server.call(
      "POST",
      `/v1/approvals/${approval}/decide`,
      {
        decision: "APPROVED",
        comment: ["invoice matches the order", "checked against order 4711"][i],
        digest: DIGEST,
      },
      key,
    );
    await works(6000);
  }
  const third = await bob.lease("invoices");
  await bob.must(third, "started");
  await works(700);
  await bob.must(third, "checkpoints", { steps: [step("pay", { receipt: "r-4711" }, 3100)] });
  await works(300);
  await bob.must(third, "completed", {
    outcome: "SUCCEEDED",
    output: { paid: "2,480.00 EUR", receipt: "r-4711" },
  });
  return run;
}

/** A payment that asks two people about its input. */
export async function question(server: Server, approver: string): Promise<string> {
  const dora = new Worker(server, "dora");
  const run = await server.submit("payment", "payments", {
    input: INVOICE,
    labels: { customer: "acme-gmbh" },
  });
  const task = await dora.lease("payments");
  await dora.must(task, "started");
  const asks = {
    subject: "Pay 2,480.00 EUR to Acme GmbH?",
    quorum: 2,
    roles: ["approver", "admin"],
    digest: DIGEST,
    expiresInMs: 2_760_000,
    default: "REJECTED",
  };
  await dora.must(task, "checkpoints", {
    wait: { key: "wait:approval:pay", mode: "all", for: [{ key: "approval:pay", approval: asks }] },
  });
  await server.call(
    "POST",
    `/v1/approvals/appr_${run.replace("run_", "")}-1/decide`,
    { decision: "APPROVED", comment: "invoice matches the order", digest: DIGEST },
    approver,
  );
  return run;
}

async function agent(server: Server): Promise<string> {
  const gpu = new Worker(server, "gpu-2");
  const run = await server.submit("agent.research", "agents", {
    budget: { tokens: 1000 },
    input: { question: "who holds the lease?" },
  });
  const task = await gpu.lease("agents");
  await gpu.must(task, "started");
  for (const [i, tokens] of [400, 400].entries())
    await gpu.must(task, "checkpoints", { steps: [step(`think-${i + 1}`, `thought ${i + 1}`, tokens)] });
  await gpu.tell(task, "checkpoints", { steps: [step("think-3", "thought 3", 400)] });
  return run;
}

async function mail(server: Server): Promise<void> {
  const workers = ["m-03", "m-09", "m-17"].map((name) => new Worker(server, name));
  for (let i = 0; i < 36; i++) {
    await server.submit("mail.send", "mail", {
      input: { to: `customer-${i}` },
      maxAttempts: 1,
      labels: { batch: "november" },
    });
    const worker = workers[i % 3]!;
    const task: Task = await worker.lease("mail");
    await worker.must(task, "started");
    const isBad = i % 9 === 8;
    await worker.must(
      task,
      "completed",
      isBad
        ? {
            outcome: "FAILED",
            error: {
              category: "DATA_QUALITY",
              message: `no such address: customer-${i}@example.invalid`,
              retryable: false,
            },
          }
        : { outcome: "SUCCEEDED", output: { sent: true } },
    );
  }
}

/** Runs that are still open when the pictures are taken. */
async function open(server: Server): Promise<void> {
  for (let i = 0; i < 4; i++) {
    await server.submit("mail.send", "mail", { leaseMs: 600_000 + i * 120_000 });
    const worker = new Worker(server, `m-${20 + i}`);
    const task = await worker.lease("mail");
    await worker.must(task, "started");
    await worker.must(task, "heartbeat", { progressPct: 20 * i + 10, message: "sending" });
  }
  for (let i = 0; i < 7; i++) await server.submit("resize", "images", { input: { image: `photo-${i}.jpg` } });
  await server.submit("report.build", "reports", { delayMs: 3_600_000 });
  await server.call("POST", "/v1/queues/payouts/pause", { reason: "bank migration" });
  await server.submit("payout", "payouts");
}

/** Other systems: `accounting` is busy at the first call about each effect, `crm` is down. */
async function receivers(server: Server): Promise<void> {
  const seen = new Set<string>();
  const url = await receive((id, path) => {
    const isBusy = !seen.has(id);
    seen.add(id);
    return path === "/crm" ? 500 : isBusy ? 503 : 204;
  });
  const retry = { baseMs: 800, capMs: 800 };
  const types = ["run.succeeded"];
  await server.call("POST", "/v1/endpoints", { name: "accounting", url: `${url}/accounting`, types, retry });
  await server.call("POST", "/v1/endpoints", {
    name: "crm",
    url: `${url}/crm`,
    types: ["run.halted"],
    maxTries: 2,
    retry,
  });
}

async function schedules(server: Server): Promise<void> {
  const run = { kind: "report.build", queue: "reports", input: { of: "yesterday" } };
  await server.call("POST", "/v1/schedules", {
    name: "nightly-report",
    cron: "15 2 * * *",
    timeZone: "Europe/Berlin",
    run,
  });
  await server.call("POST", "/v1/schedules", { name: "reminders", everyMs: 900_000, run });
  await server.call("POST", "/v1/schedules", { name: "old-export", cron: "@weekly", run, paused: true });
}

/**
 * A topology: a plan passes its gate, a change is refused, the next one waits for a person; other assignments are under way. A note
 * is triaged without success, so that it waits for a person.
 */
async function topologies(server: Server): Promise<void> {
  await server.apply("agent-review");
  await server.apply("task-management");
  const assign = (id: string, goal: string) =>
    server.call("POST", "/v1/deployments/agent-review/artifacts/assignment", { id, fields: { goal } });
  const alice = new Worker(server, "alice");
  const output = async (queue: string, value: unknown) => {
    const task = await alice.lease(queue);
    await alice.must(task, "started");
    await works(400);
    await alice.must(task, "completed", { outcome: "SUCCEEDED", output: value });
  };
  await assign("greeting", "Say hello in three languages.");
  await output("agents", { steps: ["Write the texts", "Test them"] });
  await output("agents", { summary: "Nothing yet.", files: [] });
  await output("agents", { summary: "Three greetings.", files: ["hello.txt"] });
  await output("judges", { score: 0.9 });
  await assign("menu", "Translate the menu.");
  await assign("terms", "Shorten the terms of service.");
  const bob = new Worker(server, "bob");
  await bob.must(await bob.lease("agents"), "started");
  const notes = "/v1/deployments/task-management/artifacts";
  const fields = { title: "Answer within a day", objective_type: "STANDING", urgency: 3 };
  await server.call("POST", `${notes}/objective`, { id: "answers", fields });
  await server.call("POST", `${notes}/capture_buffer`, {
    id: "note-1",
    fields: { raw_content: "Call the printer <b>today</b>", source_label: "phone" },
  });
  await output("triage", { metadata: { capture_ids: [] }, content: {} });
}

/** What an administrator sets. */
async function bounds(server: Server): Promise<void> {
  await server.call("POST", "/v1/limits", {
    tenantId: "default",
    requestsPerSecond: 500,
    unfinishedRuns: 40,
  });
  await server.call("POST", "/v1/budgets", {
    period: "month",
    tokens: 100_000,
    costMicros: 25_000_000,
    soft: { tokens: 10_000 },
  });
}

export async function tell(server: Server): Promise<Told> {
  await schedules(server);
  const approvers = [await server.keyOf("approver", "ann"), await server.keyOf("approver", "bea")];
  await mail(server);
  await receivers(server);
  const halted = await agent(server);
  const told = await invoice(server, approvers);
  const pending = await question(server, approvers[0]!);
  await open(server);
  await topologies(server);
  await bounds(server);
  const { effects } = await server.call<{ effects: Array<{ effectId: string }> }>(
    "GET",
    "/v1/effects?endpoint=crm",
  );
  return { invoice: told, pending, halted, effect: effects[0]!.effectId };
}
